{{/* What the controller manager tells virtual kubelets. */}}

{{/* Address of the address manager; none when another fabric connects the clusters. */}}
{{- define "liqo.ipam" -}}
{{- $ipam := .Values.networkManager.externalIPAM -}}
{{- if $ipam.enabled -}}
{{- required "give networkManager.externalIPAM.url" $ipam.url -}}
{{- else if include "liqo.fabric" . -}}
{{- printf "%s.%s:6000" (include "liqo.object" (dict "root" . "name" "network-manager")) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "liqo.offerThreshold" -}}
{{- $config := .Values.controllerManager.config -}}
{{- $given := toString $config.offerUpdateThresholdPercentage -}}
{{- if ne $given "" -}}
{{- $given -}}
{{- else -}}
{{- ternary "0" "5" (ne $config.resourcePluginAddress "") -}}
{{- end -}}
{{- end -}}

{{/* The user's arguments, and ours for the flags that the user did not give. */}}
{{- define "liqo.kubelet.args" -}}
{{- $args := .Values.virtualKubelet.extra.args -}}
{{- $given := printf " %s" (join " " $args) -}}
{{- if not (contains " --enable-apiserver-support" $given) -}}
{{- $args = append $args "--enable-apiserver-support=true" -}}
{{- end -}}
{{- if not (or (include "liqo.fabric" .) (contains " --node-check-network" $given)) -}}
{{- $args = append $args "--node-check-network=false" -}}
{{- end -}}
{{- if not (or .Values.networking.reflectIPs (contains " --disable-ip-reflection" $given)) -}}
{{- $args = append $args "--disable-ip-reflection" -}}
{{- end -}}
{{- if and .Values.awsConfig.accessKeyId (not (contains " --certificate-type" $given)) -}}
{{- $args = append $args "--certificate-type=aws" -}}
{{- end -}}
{{- join "," $args -}}
{{- end -}}
