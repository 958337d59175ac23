{{/* Values that contradict each other, and settings that cannot work in pods. */}}
{{- define "rankstream.checks" -}}
{{- $root := . -}}
{{- if not (include "rankstream.setting" (list . "kafka.bootstrap_servers")) -}}
{{- fail "config.kafka.bootstrap_servers: set it to the host:port of your brokers" -}}
{{- end -}}
{{- if include "rankstream.setting" (list . "qdrant.path") -}}
{{- fail "config.qdrant.path: an index in a pod ends with the pod; set config.qdrant.url" -}}
{{- end -}}
{{- if not (include "rankstream.setting" (list . "qdrant.url")) -}}
{{- fail "config.qdrant.url: set it to the address of your Qdrant" -}}
{{- end -}}
{{- if include "rankstream.setting" (list . "delivery.replica") -}}
{{- fail "config.delivery.replica: leave it out; each replica is named after its pod" -}}
{{- end -}}
{{- if not (include "rankstream.setting" (list . "telemetry.port") | int) -}}
{{- fail "config.telemetry.port: the probes need a port" -}}
{{- end -}}
{{- if has (include "rankstream.setting" (list . "telemetry.host")) (list "127.0.0.1" "localhost" "::1") -}}
{{- fail "config.telemetry.host: probes come from outside the pod; leave it out" -}}
{{- end -}}
{{- if not (or .Values.search.enabled .Values.indexing.enabled .Values.feedback.enabled) -}}
{{- fail "search.enabled, indexing.enabled, feedback.enabled: one of them must be true" -}}
{{- end -}}
{{- if .Values.feedback.enabled -}}
{{- range $name := list "feedback" "preferences" -}}
{{- if not (include "rankstream.setting" (list $root (printf "kafka.topics.%s" $name))) -}}
{{- fail (printf "config.kafka.topics.%s: the feedback flow needs it; name the topic" $name) -}}
{{- end -}}
{{- end -}}
{{- if not (or (eq (include "rankstream.generatesCursorSecret" .) "true") (include "rankstream.givenCursorSecret" .)) -}}
{{- fail "secrets.cursor.signing_secret: the feedback flow needs it; name that of the search flow" -}}
{{- end -}}
{{- end -}}
{{- include "rankstream.checkNoSecrets" . -}}
{{- range $key, $entry := .Values.secrets -}}
{{- if include "rankstream.setting" (list $root (printf "%s_file" $key)) -}}
{{- fail (printf "secrets.%s, config.%s_file: set one of them" $key $key) -}}
{{- end -}}
{{- end -}}
{{- range $name, $authority := .Values.authorities -}}
{{- if eq (empty $authority.secret) (empty $authority.configMap) -}}
{{- fail (printf "authorities.%s: set one of secret and configMap" $name) -}}
{{- end -}}
{{- $setting := include "rankstream.authoritySetting" $name -}}
{{- if include "rankstream.setting" (list $root $setting) -}}
{{- fail (printf "authorities.%s, config.%s: set one of them" $name $setting) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rackLabel (include "rankstream.setting" (list . "kafka.rack")) -}}
{{- fail "rackLabel, config.kafka.rack: set one of them" -}}
{{- end -}}
{{- if and .Values.console.enabled (not .Values.console.proxy) -}}
{{- fail "console.proxy: the console authenticates nobody; name the container of a proxy that does" -}}
{{- end -}}
{{- if and .Values.console.enabled (not .Values.console.origin) -}}
{{- fail "console.origin: set it to the address at which browsers see the console, such as https://console.example.com" -}}
{{- end -}}
{{- if .Values.console.ingress.enabled -}}
{{- if not .Values.console.enabled -}}
{{- fail "console.ingress.enabled: there is no console to lead to; set console.enabled" -}}
{{- end -}}
{{- if not (hasPrefix "https://" .Values.console.origin) -}}
{{- fail "console.origin: an Ingress needs https, or logins and sessions of the proxy cross the network in clear" -}}
{{- end -}}
{{- end -}}
{{- include "rankstream.checkSasl" . -}}
{{- range $name := list "search" "indexing" "feedback" -}}
{{- include "rankstream.checkReplicas" (list $root $name) -}}
{{- end -}}
{{- end }}

{{/* The paths are those of every secret of the configuration. */}}
{{- define "rankstream.checkNoSecrets" -}}
{{- $root := . -}}
{{- range $path := splitList " " "kafka.tls.key_password kafka.sasl.password kafka.sasl.client_secret kafka.schema_registry.password qdrant.api_key embedder.api_key sparse_encoder.api_key rerank.api_key chat.api_key cursor.signing_secret" -}}
{{- if include "rankstream.setting" (list $root $path) -}}
{{- fail (printf "config.%s: a ConfigMap is no place for a secret; see secrets" $path) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "qdrant" "embedder" "sparse_encoder" "rerank" "chat" -}}
{{- include "rankstream.checkWritten" (dict "section" (dig $name "body" dict $root.Values.config) "path" (printf "config.%s.body" $name)) -}}
{{- end -}}
{{- include "rankstream.checkWritten" (dict "section" (dig "kafka" "sasl" "extensions" dict .Values.config) "path" "config.kafka.sasl.extensions") -}}
{{- end }}

{{/* What a server gets as the user writes it. Takes a dict: section, path. The names are those of every secret. */}}
{{- define "rankstream.checkWritten" -}}
{{- $path := .path -}}
{{- range $name, $value := .section -}}
{{- if has $name (list "api_key" "client_secret" "key_password" "password" "signing_secret") -}}
{{- fail (printf "%s.%s: a ConfigMap is no place for a secret; see secrets" $path $name) -}}
{{- end -}}
{{- if kindIs "map" $value -}}
{{- include "rankstream.checkWritten" (dict "section" $value "path" (printf "%s.%s" $path $name)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "rankstream.checkSasl" -}}
{{- $protocol := include "rankstream.setting" (list . "kafka.security_protocol") | default "PLAINTEXT" -}}
{{- $mechanism := include "rankstream.setting" (list . "kafka.sasl.mechanism") -}}
{{- if and (hasPrefix "SASL" $protocol) (not $mechanism) -}}
{{- fail (printf "config.kafka.sasl.mechanism: security_protocol %s needs it" $protocol) -}}
{{- end -}}
{{- if and $mechanism (ne $mechanism "OAUTHBEARER") -}}
{{- if not (or (hasKey .Values.secrets "kafka.sasl.password") (include "rankstream.setting" (list . "kafka.sasl.password_file"))) -}}
{{- fail (printf "secrets.kafka.sasl.password: %s needs it, or config.kafka.sasl.password_file" $mechanism) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Takes a list: the root, the flow. */}}
{{- define "rankstream.checkReplicas" -}}
{{- $flow := get (index . 0).Values (index . 1) -}}
{{- $partitions := include "rankstream.setting" (list (index . 0) "kafka.partitions") | int -}}
{{- if lt $partitions 1 -}}
{{- fail "config.kafka.partitions: set it to the number of partitions of your topics" -}}
{{- end -}}
{{- with $flow.autoscaling | default (dict "enabled" false) -}}
{{- if .enabled -}}
{{- $most := .maxReplicas | default $partitions | int -}}
{{- if gt $most $partitions -}}
{{- fail (printf "%s.autoscaling.maxReplicas: %d is more than config.kafka.partitions, %d: further replicas would be idle" (index $ 1) $most $partitions) -}}
{{- end -}}
{{- if gt (.minReplicas | int) $most -}}
{{- fail (printf "%s.autoscaling.minReplicas: %d is more than maxReplicas, %d" (index $ 1) (.minReplicas | int) $most) -}}
{{- end -}}
{{- else if gt ($flow.replicas | int) $partitions -}}
{{- fail (printf "%s.replicas: %d is more than config.kafka.partitions, %d: further replicas would be idle" (index $ 1) ($flow.replicas | int) $partitions) -}}
{{- end -}}
{{- end -}}
{{- end }}
