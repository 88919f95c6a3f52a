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

{{- /* CEL: the request is a driver's. An account of another system with such a name may not create SweSandboxes. */ -}}
{{- define "swe-rl.isDriver" -}}
request.userInfo.username.matches('^system:serviceaccount:[^:]+:.+-driver$')
&& authorizer.group('swerl.dev').resource('swesandboxes').namespace(request.namespace).check('create').allowed()
{{- end }}

{{- define "swe-rl.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Annotations of an object that Helm makes before an upgrade; the argument is its place in their order. */ -}}
{{- define "swe-rl.upgradeHook" -}}
helm.sh/hook: pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "swe-rl.consoleSelector" -}}
app.kubernetes.io/name: swe-rl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: console
{{- end }}

{{- define "swe-rl.console" -}}{{ .Release.Name }}-console{{- end }}
