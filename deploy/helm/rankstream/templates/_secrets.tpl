{{/* The environment variable of a key of the configuration. */}}
{{- define "rankstream.variable" -}}
RANKSTREAM_{{ . | upper | replace "." "__" }}
{{- end }}

{{/* The value at a path of .Values.config, "" if there is none. Takes a list: the root and the path. */}}
{{- define "rankstream.setting" -}}
{{- $at := (index . 0).Values.config -}}
{{- range splitList "." (index . 1) -}}
{{- $at = kindIs "map" $at | ternary (get ($at | default dict) .) "" -}}
{{- end -}}
{{- if not (kindIs "invalid" $at) }}{{ $at }}{{ end -}}
{{- end }}

{{/* Not empty if the values name the secret that signs cursors. */}}
{{- define "rankstream.givenCursorSecret" -}}
{{- hasKey .Values.secrets "cursor.signing_secret" | ternary "true" (include "rankstream.setting" (list . "cursor.signing_secret_file")) -}}
{{- end }}

{{/* "true" if the chart generates the secret that signs cursors. */}}
{{- define "rankstream.generatesCursorSecret" -}}
{{- and .Values.search.enabled .Values.generateCursorSecret (not (include "rankstream.givenCursorSecret" .)) -}}
{{- end }}

{{/* The secrets of a component as variables. Takes a dict: root, sections (the beginnings of their keys). */}}
{{- define "rankstream.secretVariables" -}}
{{- $root := .root -}}
{{- $sections := .sections -}}
{{- range $key, $entry := $root.Values.secrets }}
{{- if has (splitList "." $key | first) $sections }}
- name: {{ include "rankstream.variable" $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $entry.name }}
      key: {{ $entry.key }}
{{- end }}
{{- end }}
{{- if and (has "cursor" $sections) (eq (include "rankstream.generatesCursorSecret" $root) "true") }}
- name: {{ include "rankstream.variable" "cursor.signing_secret" }}
  valueFrom:
    secretKeyRef:
      name: {{ include "rankstream.fullname" $root }}-cursor
      key: signing-secret
{{- end }}
{{- end }}

{{/*
The entry of a Secret that is mounted as a file, as YAML: name and key. Takes a list: the root, the key of the
configuration that names the file.
*/}}
{{- define "rankstream.mountedSecret" -}}
{{- $root := index . 0 -}}
{{- $key := index . 1 -}}
{{- $file := include "rankstream.setting" . -}}
{{- $found := dict -}}
{{- range $root.Values.secretMounts -}}
{{- if eq (clean .mountPath) (dir $file) -}}
{{- $found = dict "name" .secret "key" (base $file) -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "config.%s: KEDA cannot read %s: no entry of secretMounts has this directory; set keda.triggerAuthentication" $key $file) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end }}

{{/* The directory of a private authority's certificate. */}}
{{- define "rankstream.authorityDirectory" -}}
/etc/rankstream-authorities/{{ . }}
{{- end }}

{{/* The setting that names a backend's private authority. */}}
{{- define "rankstream.authoritySetting" -}}
{{ eq . "kafka" | ternary "kafka.tls.ca_file" (printf "%s.tls.ca" .) }}
{{- end }}

{{/* The private authorities of a component's backends as variables. Takes a dict: root, sections. */}}
{{- define "rankstream.authorityVariables" -}}
{{- $sections := .sections -}}
{{- range $name, $authority := .root.Values.authorities }}
{{- if has $name $sections }}
- name: {{ include "rankstream.variable" (include "rankstream.authoritySetting" $name) }}
  value: {{ include "rankstream.authorityDirectory" $name }}/{{ $authority.key }}
{{- end }}
{{- end }}
{{- end }}

{{/* The SASL extensions as KEDA wants them: a=b,c=d. */}}
{{- define "rankstream.oauthExtensions" -}}
{{- $pairs := list -}}
{{- range $name, $value := dig "kafka" "sasl" "extensions" (dict) .Values.config -}}
{{- $pairs = append $pairs (printf "%s=%s" $name $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end }}
