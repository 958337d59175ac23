{{/* A flow's StatefulSet, its Service and its PodDisruptionBudget. Takes a dict: root, flow, command, sections. */}}
{{- define "rankstream.flow" -}}
{{- $root := .root -}}
{{- $flow := get $root.Values .flow -}}
{{- $name := printf "%s-%s" (include "rankstream.fullname" $root) .flow -}}
{{- $drain := include "rankstream.setting" (list $root "delivery.drain_timeout") | default "30" | float64 -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "rankstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .flow }}
spec:
  # Headless: no client calls the replicas, but the names of a StatefulSet need a Service, and so does a ServiceMonitor.
  clusterIP: None
  selector:
    {{- include "rankstream.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .flow }}
  ports:
    - name: health
      port: {{ include "rankstream.healthPort" $root }}
      targetPort: health
---
# A replica stores nothing: the offsets committed in Kafka are its checkpoint. The replicas are a StatefulSet only for the
# stable names: with the name of its predecessor, a new pod aborts the transaction that the predecessor left open.
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels:
    {{- include "rankstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .flow }}
spec:
  serviceName: {{ $name }}
  {{- if not (dig "autoscaling" "enabled" false $flow) }}
  replicas: {{ $flow.replicas | int }}
  {{- end }}
  # Replicas start and stop independently of each other.
  podManagementPolicy: Parallel
  updateStrategy: {{- toYaml $flow.updateStrategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "rankstream.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .flow }}
  template:
    metadata:
      labels:
        {{- with $flow.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "rankstream.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .flow }}
        app.kubernetes.io/version: {{ include "rankstream.version" $root }}
      annotations:
        # A process reads its configuration at its start: a change of it replaces the pods.
        checksum/config: {{ include "rankstream.configuration" $root | sha256sum }}
        {{- with $flow.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      # delivery.drain_timeout, and 45 s to close connections and to send the last spans.
      terminationGracePeriodSeconds: {{ addf $drain 45 | ceil | int }}
      {{- with $root.Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - labelSelector:
            matchLabels:
              {{- include "rankstream.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $.flow }}
          {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- end }}
      {{- with $flow.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $flow.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $flow.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include "rankstream.podSpec" (dict
          "root" $root
          "component" .flow
          "arguments" (list .command)
          "sections" .sections
          "variables" (include "rankstream.replicaVariables" (list $root .flow))
          "serving" (include "rankstream.serving" $root)
          "resources" $flow.resources
        ) | nindent 6 }}
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "rankstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .flow }}
spec:
  maxUnavailable: {{ $root.Values.podDisruptionBudget.maxUnavailable }}
  # A pod that is not ready answers nothing, so its eviction takes nothing away.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "rankstream.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .flow }}
{{- end }}
{{- end }}
