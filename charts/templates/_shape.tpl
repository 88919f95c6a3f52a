{{- /* CEL: the request is the operator's. */ -}}
{{- define "swe-rl.isOperator" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "swe-rl.operator" . }}'
{{- end }}

{{- /* Validations of `variables.pods` and `variables.annotations`, of Pods that the operator writes, itself or in an object of
another kind.
`hostPathVolumes: allow` admits what the operator then admits: folders, network and capabilities of a node. */ -}}
{{- define "swe-rl.podShape" -}}
{{- $host := eq .Values.hostPathVolumes "allow" -}}
- expression: >-
    variables.pods.all(p, !p.?hostPID.orValue(false) && !p.?hostIPC.orValue(false)
    {{- if not $host }} && !p.?hostNetwork.orValue(false){{ end }})
  message: Pods of the operator share no namespace of the node{{ if not $host }}; hostNetwork needs hostPathVolumes=allow{{ end }}
- expression: >-
    variables.pods.all(p, p.?securityContext.?sysctls.orValue([]).size() == 0
    && p.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') != 'Unconfined'
    && p.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') != 'Unconfined')
    && variables.annotations.all(a, a.all(key,
    !key.startsWith('container.apparmor.security.beta.kubernetes.io/') || a[key] != 'unconfined'))
  message: Pods of the operator set no sysctls and keep the runtime's profiles
- expression: >-
    variables.pods.all(p, p.?volumes.orValue([]).all(v, {{ if not $host }}!has(v.hostPath) && {{ end -}}
    v.?projected.?sources.orValue([]).all(s, !has(s.serviceAccountToken) || p.?automountServiceAccountToken.orValue(true))))
  message: volumes of the operator's Pods hold no token{{ if not $host }} and no folder of a node (hostPathVolumes=allow){{ end }}
- expression: >-
    variables.pods.all(p, (p.containers + p.?initContainers.orValue([])).all(c,
    c.?securityContext.?privileged.orValue(false) == false
    && c.?securityContext.?allowPrivilegeEscalation.orValue(true) == false
    && c.?securityContext.?procMount.orValue('Default') == 'Default'
    && c.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') != 'Unconfined'
    && c.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') != 'Unconfined'
    && c.?securityContext.?capabilities.?drop.orValue([]).exists(name, name == 'ALL')
    {{- if not $host }}
    && c.?securityContext.?capabilities.?add.orValue([]).all(name, name in
    ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'IPC_LOCK'])
    {{- end }}
    && c.?volumeDevices.orValue([]).size() == 0))
  message: containers of the operator's Pods have no privilege beyond the capabilities of sandboxes and of RDMA
{{- end }}
