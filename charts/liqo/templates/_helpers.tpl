{{/*
What every component has in common. Most helpers take a dict that describes a component:
root (the chart's own dot), name, module, and where they are read: values, image, command, hook.
*/}}

{{- define "liqo.name" -}}
{{- default .Chart.Name .Values.nameOverride -}}
{{- end -}}

{{/* Name of a component's objects. */}}
{{- define "liqo.object" -}}
{{- printf "%s-%s" (include "liqo.name" .root) .name -}}
{{- end -}}

{{- define "liqo.version" -}}
{{- required "give a tag: the chart names no version of its application" (default .Chart.AppVersion .Values.tag) -}}
{{- end -}}

{{/* An image, named with or without a tag; by default the one that holds every component. */}}
{{- define "liqo.image" -}}
{{- $values := .root.Values -}}
{{- $name := default (printf "%s/%s" $values.image.registry $values.image.repository) .image -}}
{{- if contains ":" (base $name) -}}
{{- $name -}}
{{- else -}}
{{- printf "%s:%s" $name (include "liqo.version" .root) -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change, so that they can select. */}}
{{- define "liqo.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ printf "%s-%s" .root.Release.Name .name }}
app.kubernetes.io/component: {{ .module }}
app.kubernetes.io/part-of: {{ .root.Chart.Name }}
{{- end -}}

{{- define "liqo.labels" -}}
{{ include "liqo.selector" . }}
app.kubernetes.io/version: {{ include "liqo.version" .root | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{/* Metadata of a namespaced object. */}}
{{- define "liqo.metadata" -}}
name: {{ include "liqo.object" . }}
namespace: {{ .root.Release.Namespace }}
{{ include "liqo.metadata.rest" . }}
{{- end -}}

{{/* Metadata of an object of the whole cluster. */}}
{{- define "liqo.metadata.cluster" -}}
name: {{ include "liqo.object" . }}
{{ include "liqo.metadata.rest" . }}
{{- end -}}

{{- define "liqo.metadata.rest" -}}
labels:
  {{- include "liqo.labels" . | nindent 2 }}
{{- with .hook }}
annotations:
  helm.sh/hook: {{ . }}
  helm.sh/hook-weight: {{ default "0" $.weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
{{- end -}}

{{/* The pods' annotations and labels that the user adds. */}}
{{- define "liqo.pod.labels" -}}
{{- with .values.pod.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "liqo.pod.annotations" -}}
{{- with .values.pod.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods run; with replicas, preferably on different nodes. */}}
{{- define "liqo.pod.scheduling" -}}
{{- $common := .root.Values.common -}}
{{- $affinity := $common.affinity -}}
{{- if and (gt (int (default 1 .replicas)) 1) (not (hasKey $affinity "podAntiAffinity")) -}}
{{- $labels := include "liqo.selector" . | fromYaml -}}
{{- $term := dict "labelSelector" (dict "matchLabels" $labels) "topologyKey" "kubernetes.io/hostname" -}}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $term) -}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) -}}
{{- $affinity = merge $apart $affinity -}}
{{- end -}}
{{- with $common.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $common.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* OpenShift chooses users and groups itself. */}}
{{- define "liqo.pod.security" -}}
{{- if not .root.Values.openshiftConfig.enable }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
{{- end }}
{{- end -}}

{{- define "liqo.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
{{- end -}}

{{/* A container up to its arguments: name, image and command. */}}
{{- define "liqo.container" -}}
name: {{ .name }}
image: {{ include "liqo.image" . | quote }}
imagePullPolicy: {{ .root.Values.pullPolicy }}
command:
  - /usr/bin/liqo
  - {{ default .name .command }}
{{- end -}}

{{- define "liqo.container.resources" -}}
{{- with .values.pod.resources }}
{{- if or .limits .requests }}
resources:
  {{- with .limits }}
  limits:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .requests }}
  requests:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The step that makes the certificate of a server that peers or the API server call. */}}
{{- define "liqo.container.certificate" -}}
{{- $step := dict "root" .root "name" "cert-creator" "image" (default .values.imageName .values.initContainer.imageName) -}}
{{ include "liqo.container" $step }}
args:
  - --key-path=/certs/key.pem
  - --cert-path=/certs/cert.pem
{{ include "liqo.container.security" . }}
{{- with include "liqo.container.resources" . | trim }}{{ . | nindent 0 }}{{ end }}
volumeMounts:
  - name: certs
    mountPath: /certs
{{- end -}}

{{/* Items of a list of arguments that the user adds. */}}
{{- define "liqo.extraArgs" -}}
{{- with .values.pod.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An environment variable that tells a pod something of itself. */}}
{{- define "liqo.env.field" -}}
- name: {{ .variable }}
  valueFrom:
    fieldRef:
      fieldPath: {{ .path }}
{{- end -}}

{{- define "liqo.env.namespace" -}}
{{ include "liqo.env.field" (dict "variable" "POD_NAMESPACE" "path" "metadata.namespace") }}
{{- end -}}

{{/* An environment variable out of the cluster's identity: CLUSTER_ID or CLUSTER_NAME. */}}
{{- define "liqo.env.identity" -}}
- name: {{ .key }}
  valueFrom:
    configMapKeyRef:
      name: {{ include "liqo.object" (dict "root" .root "name" "clusterid-configmap") }}
      key: {{ .key }}
{{- end -}}

{{/* A map as k=v,k=v. */}}
{{- define "liqo.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s=%v" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "liqo.clusterName" -}}
{{- required "give discovery.config.clusterName: peers know the cluster by it" .Values.discovery.config.clusterName -}}
{{- end -}}

{{/* Whether Liqo connects the clusters' networks. */}}
{{- define "liqo.fabric" -}}
{{- if .Values.networking.internal -}}true{{- end -}}
{{- end -}}

{{/* What all webhooks have in common, but for the rules. */}}
{{- define "liqo.webhook" -}}
admissionReviewVersions: [v1, v1beta1]
clientConfig:
  service:
    name: {{ .service }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: {{ int .root.Values.webhook.port }}
failurePolicy: {{ .root.Values.webhook.failurePolicy }}
sideEffects: None
{{- end -}}
