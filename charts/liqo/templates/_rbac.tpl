{{/*
Identity and permissions of a component: a ServiceAccount, and what files/rbac/<name>.yaml grants it
in the cluster and in Liqo's namespace. A dict's key `also` adds rules of the cluster.
*/}}
{{- define "liqo.rbac" -}}
{{- $rules := $.root.Files.Get (printf "files/rbac/%s.yaml" .name) | fromYaml -}}
{{- $cluster := concat (default (list) $rules.cluster) (default (list) .also) -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "liqo.metadata" . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "liqo.metadata.cluster" . | nindent 2 }}
rules:
  {{- toYaml $cluster | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "liqo.metadata.cluster" . | nindent 2 }}
roleRef:
  {{- include "liqo.rbac.ref" (dict "kind" "ClusterRole" "name" (include "liqo.object" .)) | nindent 2 }}
subjects:
  {{- include "liqo.rbac.subject" . | nindent 2 }}
{{- with $rules.namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "liqo.metadata" $ | nindent 2 }}
rules:
  {{- toYaml . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "liqo.metadata" $ | nindent 2 }}
roleRef:
  {{- include "liqo.rbac.ref" (dict "kind" "Role" "name" (include "liqo.object" $)) | nindent 2 }}
subjects:
  {{- include "liqo.rbac.subject" $ | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "liqo.rbac.ref" -}}
apiGroup: rbac.authorization.k8s.io
kind: {{ .kind }}
name: {{ .name }}
{{- end -}}

{{- define "liqo.rbac.subject" -}}
- kind: ServiceAccount
  name: {{ include "liqo.object" . }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* A ClusterRole that others are bound to. */}}
{{- define "liqo.rbac.role" -}}
{{- $rules := $.root.Files.Get (printf "files/rbac/%s.yaml" .name) | fromYaml -}}
{{- $cluster := concat (default (list) $rules.cluster) (default (list) .also) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "liqo.metadata.cluster" . | nindent 2 }}
  {{- with .permissions }}
    auth.liqo.io/remote-peering-permissions: {{ . }}
  {{- end }}
rules:
  {{- toYaml $cluster | nindent 2 }}
{{- end -}}

{{/* On OpenShift: the right to use security context constraints, as a list of rules. */}}
{{- define "liqo.rbac.openshift" -}}
{{- $rules := list -}}
{{- if .root.Values.openshiftConfig.enable -}}
{{- $rules = list (dict "apiGroups" (list "security.openshift.io") "resources" (list "securitycontextconstraints") "resourceNames" .names "verbs" (list "use")) -}}
{{- end -}}
{{- dict "rules" $rules | toYaml -}}
{{- end -}}
