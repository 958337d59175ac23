{{/* KEDA's access to a secured Kafka: secrets from where the pods have them, the rest from the variables of the pods. */}}
{{- define "rankstream.triggerAuthentication" -}}
{{- $root := . }}
{{- $mechanism := include "rankstream.setting" (list . "kafka.sasl.mechanism") }}
{{- if include "rankstream.setting" (list . "kafka.sasl.token_file") }}
{{- fail "config.kafka.sasl.token_file: KEDA cannot use it; set keda.triggerAuthentication" }}
{{- end }}
{{- if include "rankstream.setting" (list . "kafka.sasl.aws_region") }}
{{- fail "config.kafka.sasl.aws_region: KEDA needs an AWS identity of its own; set keda.triggerAuthentication" }}
{{- end }}
{{- $oauth := eq $mechanism "OAUTHBEARER" }}
{{- $variables := dict }}
{{- if $oauth }}
{{- $variables = dict "username" "client_id" "oauthTokenEndpointUri" "token_url" "scopes" "scope" }}
{{- else if $mechanism }}
{{- $variables = dict "username" "username" }}
{{- end }}
{{- $secrets := dict "ca" "kafka.tls.ca" "cert" "kafka.tls.certificate" "key" "kafka.tls.key" "keyPassword" "kafka.tls.key_password" }}
{{- $_ := set $secrets "password" ($oauth | ternary "kafka.sasl.client_secret" "kafka.sasl.password") }}
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata:
  name: {{ include "rankstream.fullname" . }}
  labels:
    {{- include "rankstream.labels" . | nindent 4 }}
{{- $spec := dict }}
{{- $entries := list }}
{{- range $parameter, $key := $secrets }}
{{- if hasKey $root.Values.secrets $key }}
{{- $entries = append $entries (merge (dict "parameter" $parameter) (get $root.Values.secrets $key)) }}
{{- else if include "rankstream.setting" (list $root (printf "%s_file" $key)) }}
{{- $mounted := include "rankstream.mountedSecret" (list $root (printf "%s_file" $key)) | fromYaml }}
{{- $entries = append $entries (merge (dict "parameter" $parameter) $mounted) }}
{{- end }}
{{- end }}
{{- with .Values.authorities.kafka }}
{{- $entry := dict "parameter" "ca" "name" (.secret | default .configMap) "key" .key }}
{{- if .secret }}
{{- $entries = append $entries $entry }}
{{- else }}
{{- $_ := set $spec "configMapTargetRef" (list $entry) }}
{{- end }}
{{- end }}
{{- with $entries }}
{{- $_ := set $spec "secretTargetRef" . }}
{{- end }}
{{- $read := list }}
{{- range $parameter, $name := $variables }}
{{- $key := printf "kafka.sasl.%s" $name }}
{{- if include "rankstream.setting" (list $root $key) }}
{{- $read = append $read (dict "parameter" $parameter "name" (include "rankstream.variable" $key)) }}
{{- end }}
{{- end }}
{{- if and $oauth (include "rankstream.oauthExtensions" .) }}
{{- $read = append $read (dict "parameter" "oauthExtensions" "name" "KEDA_OAUTH_EXTENSIONS") }}
{{- end }}
{{- with $read }}
{{- $_ := set $spec "env" . }}
{{- end }}
# Empty with a public authority and no certificate of its own: KEDA wants one all the same.
spec: {{- toYaml $spec | nindent 2 }}
{{- end }}
