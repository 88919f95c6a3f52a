{{- define "swe-rl.labels" -}}
app.kubernetes.io/name: swe-rl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "swe-rl.selector" -}}
app.kubernetes.io/name: swe-rl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "swe-rl.operator" -}}{{ .Release.Name }}-operator{{- end }}
{{- define "swe-rl.driver" -}}{{ .Release.Name }}-driver{{- end }}

{{- define "swe-rl.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default "latest" }}
{{- end -}}
{{- end }}
