{{/* The port of a URL. */}}
{{- define "rankstream.portOfUrl" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $port | default (eq $url.scheme "https" | ternary "443" "80") -}}
{{- end }}

{{/*
The ports of each destination in the configuration, as JSON: a list for each name in networkPolicy.egress; none where
nothing is configured.
*/}}
{{- define "rankstream.ports" -}}
{{- $root := . -}}
{{- $ports := dict "dns" (list) -}}
{{- $brokers := list -}}
{{- range splitList "," (include "rankstream.setting" (list . "kafka.bootstrap_servers")) -}}
{{- $brokers = append $brokers (regexFind ":[0-9]+$" (trim .) | trimPrefix ":" | default "9092" | int) -}}
{{- end -}}
{{- $_ := set $ports "kafka" ($brokers | uniq) -}}
{{- $urls := dict "otlp" (get .Values.otel "OTEL_EXPORTER_OTLP_ENDPOINT") -}}
{{- range list "qdrant" "embedder" "sparse_encoder" "rerank" "chat" -}}
{{- $_ := set $urls . (include "rankstream.setting" (list $root (printf "%s.url" .))) -}}
{{- end -}}
{{- $_ := set $urls "tokens" (include "rankstream.setting" (list . "kafka.sasl.token_url")) -}}
{{- $_ := set $urls "schema_registry" (include "rankstream.setting" (list . "kafka.schema_registry.url")) -}}
{{- range $name, $url := $urls -}}
{{- $_ := set $ports $name ($url | empty | ternary (list) (list (include "rankstream.portOfUrl" ($url | default "http://none") | int))) -}}
{{- end -}}
{{- if include "rankstream.setting" (list . "kafka.sasl.aws_region") -}}
{{/* AWS's token service, and the pod's identity or the instance's metadata. */}}
{{- $_ := set $ports "tokens" (list 443 80) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end }}
