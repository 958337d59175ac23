{{/* The name of all objects. 40 characters leave room for a component and for what Kubernetes appends. */}}
{{- define "rankstream.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "rankstream.serviceAccountName" -}}
{{- $default := .Values.serviceAccount.create | ternary (include "rankstream.fullname" .) "default" -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end }}

{{- define "rankstream.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}{{ .Values.image.digest | empty | ternary (printf ":%s" $tag) (printf "@%s" .Values.image.digest) -}}
{{- end }}

{{/* What selects the pods of the release. */}}
{{- define "rankstream.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rankstream.version" -}}
{{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
{{- end }}

{{- define "rankstream.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end }}
{{- include "rankstream.selector" . }}
app.kubernetes.io/version: {{ include "rankstream.version" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The content of rankstream.yaml. */}}
{{- define "rankstream.configuration" -}}
{{ toYaml .Values.config }}
{{- end }}

{{- define "rankstream.healthPort" -}}
{{ include "rankstream.setting" (list . "telemetry.port") | int }}
{{- end }}
