{{- define "swe-rl.kuberay" -}}{{ .Release.Name }}-kuberay{{- end }}

{{- define "swe-rl.kuberaySelector" -}}
app.kubernetes.io/name: swe-rl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: kuberay
{{- end }}

{{- /* Selects all objects of KubeRay, as an option of kubectl. */ -}}
{{- define "swe-rl.kuberayLabels" -}}
app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=kuberay
{{- end }}

{{- /* Metadata of all objects of KubeRay. Others may use it: it stays when the release is uninstalled. */ -}}
{{- define "swe-rl.kuberayMetadata" -}}
labels:
  {{- include "swe-rl.labels" . | nindent 2 }}
  app.kubernetes.io/component: kuberay
annotations:
  helm.sh/resource-policy: keep
{{- end }}

{{- /* Who else has installed KubeRay's CRDs; empty where nobody has, or this release. Helm looks at no cluster in `helm template`. */ -}}
{{- define "swe-rl.kuberayOwner" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "rayclusters.ray.io" }}
{{- $annotations := .metadata.annotations | default dict }}
{{- $owner := get $annotations "meta.helm.sh/release-name" }}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" }}
{{- if not $owner }}another installation
{{- else if or (ne $owner $.Release.Name) (ne $namespace $.Release.Namespace) }}the release {{ $owner }} in namespace {{ $namespace }}
{{- end }}
{{- end }}
{{- end }}

{{- define "swe-rl.kuberayImage" -}}
{{- with .Values.kuberay.image.registry | default .Values.image.registry }}{{ . }}/{{ end -}}
{{ .Values.kuberay.image.repository }}:{{ .Values.kuberay.image.tag | default (include "swe-rl.kuberay.version" .) }}
{{- end }}
