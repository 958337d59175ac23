{{/*
What the pods of all components have in common. Takes a dict: root, component, arguments, sections, resources; and
options (more arguments), variables, serving, beside (more containers), volume (name, mountPath, source).
*/}}
{{- define "rankstream.podSpec" -}}
{{- $root := .root -}}
serviceAccountName: {{ include "rankstream.serviceAccountName" $root }}
automountServiceAccountToken: false
# The environment variables of other Services could be mistaken for configuration.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with $root.Values.runAsUser }}
  runAsUser: {{ . | int64 }}
  {{- end }}
  {{- with $root.Values.runAsGroup }}
  runAsGroup: {{ . | int64 }}
  {{- if $.volume }}
  fsGroup: {{ . | int64 }}
  {{- end }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: {{ .component }}
    image: {{ include "rankstream.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: [{{ join ", " .arguments }}, --config, /etc/rankstream/rankstream.yaml{{ range .options }}, {{ . | quote }}{{ end }}]
    env:
      - name: OTEL_SERVICE_NAME
        value: {{ $root.Values.otel.OTEL_SERVICE_NAME | default (printf "rankstream-%s" .component) | quote }}
      {{- $replica := contains "OTEL_RESOURCE_ATTRIBUTES" (.variables | default "") }}
      {{- range $name, $value := omit $root.Values.otel "OTEL_SERVICE_NAME" ($replica | ternary "OTEL_RESOURCE_ATTRIBUTES" "") }}
      - name: {{ $name }}
        value: {{ $value | quote }}
      {{- end }}
      {{- with include "rankstream.secretVariables" (dict "root" $root "sections" .sections) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with include "rankstream.authorityVariables" (dict "root" $root "sections" .sections) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with .variables }}
      {{- . | trim | nindent 6 }}
      {{- end }}
      {{- with $root.Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $root.Values.extraEnvFrom }}
    envFrom: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .serving }}
    {{- . | trim | nindent 4 }}
    {{- end }}
    resources: {{- toYaml .resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    volumeMounts:
      - name: configuration
        mountPath: /etc/rankstream
        readOnly: true
      {{- range $index, $mount := $root.Values.secretMounts }}
      - name: secret-{{ $index }}
        mountPath: {{ $mount.mountPath }}
        readOnly: true
      {{- end }}
      {{- range $name, $_ := $root.Values.authorities }}
      {{- if has $name $.sections }}
      - name: authority-{{ $name | replace "_" "-" }}
        mountPath: {{ include "rankstream.authorityDirectory" $name }}
        readOnly: true
      {{- end }}
      {{- end }}
      {{- with .volume }}
      - name: {{ .name }}
        mountPath: {{ .mountPath }}
      {{- end }}
      {{- with $root.Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- with .beside }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: configuration
    configMap:
      name: {{ include "rankstream.fullname" $root }}
  {{- range $index, $mount := $root.Values.secretMounts }}
  - name: secret-{{ $index }}
    secret:
      secretName: {{ $mount.secret }}
      defaultMode: 0444
  {{- end }}
  {{- range $name, $authority := $root.Values.authorities }}
  {{- if has $name $.sections }}
  - name: authority-{{ $name | replace "_" "-" }}
    {{- if $authority.secret }}
    secret:
      secretName: {{ $authority.secret }}
      defaultMode: 0444
    {{- else }}
    configMap:
      name: {{ $authority.configMap }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- with .volume }}
  - name: {{ .name }}
    {{- toYaml .source | nindent 4 }}
  {{- end }}
  {{- with $root.Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The port and the probes of a flow's container. */}}
{{- define "rankstream.serving" -}}
ports:
  - name: health
    containerPort: {{ include "rankstream.healthPort" . }}
# The port opens when the broker has answered and the model is loaded.
startupProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 2
  {{- $request := include "rankstream.setting" (list . "kafka.request_timeout") | default "30" | float64 }}
  # A start waits for two answers of the broker at least.
  failureThreshold: {{ divf (max (.Values.startupSeconds | int) (mulf 2 $request | ceil | int)) 2 | ceil | int }}
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  # The check asks Qdrant and waits up to 2 s for the answer.
  timeoutSeconds: 3
  failureThreshold: 3
{{- end }}

{{/* A replica's variables. Takes a list: the root, the flow. */}}
{{- define "rankstream.replicaVariables" -}}
{{- $root := index . 0 -}}
- name: {{ include "rankstream.variable" "delivery.replica" }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with $root.Values.rackLabel }}
# Empty where the pod has no such label: then it reads from the leaders.
- name: {{ include "rankstream.variable" "kafka.rack" }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['{{ . }}']
{{- end }}
- name: OTEL_RESOURCE_ATTRIBUTES
  {{- $given := $root.Values.otel.OTEL_RESOURCE_ATTRIBUTES | default "" }}
  {{- $own := printf "k8s.namespace.name=%s,k8s.pod.name=$(%s)" $root.Release.Namespace (include "rankstream.variable" "delivery.replica") }}
  value: {{ list $given $own | compact | join "," | quote }}
{{- if dig "autoscaling" "enabled" false (get $root.Values (index . 1)) }}
{{- range list "username" "client_id" "token_url" "scope" }}
{{- $key := printf "kafka.sasl.%s" . }}
{{- with include "rankstream.setting" (list $root $key) }}
# KEDA reads it here.
- name: {{ include "rankstream.variable" $key }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with include "rankstream.oauthExtensions" $root }}
- name: KEDA_OAUTH_EXTENSIONS
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
