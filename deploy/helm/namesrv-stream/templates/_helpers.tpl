{{- define "namesrv.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "namesrv.labels" -}}
app.kubernetes.io/name: namesrv-stream
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Labels by which a part's pods are found; a dict with root and part. */ -}}
{{- define "namesrv.selector" -}}
app.kubernetes.io/name: namesrv-stream
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "namesrv.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "namesrv.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "namesrv.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "namesrv.claim" -}}
{{ .Values.storage.pvc.existingClaim | default (printf "%s-tables" (include "namesrv.name" .)) }}
{{- end -}}

{{- /* Labels by which alerts and dashboards know a target, whatever the release is called; a dict with root and job. */ -}}
{{- define "namesrv.relabelings" -}}
relabelings:
  - {targetLabel: job, replacement: {{ .job }}}
  - {targetLabel: registry, replacement: {{ .root.Release.Name }}}
{{- end -}}

{{- define "namesrv.containerSecurity" -}}
{{- toYaml (.Values.containerSecurityContext | default dict) -}}
{{- end -}}

{{- define "namesrv.podSecurity" -}}
{{- toYaml (.Values.podSecurityContext | default dict) -}}
{{- end -}}

{{- /* A setting's value as a properties file has it. Helm holds numbers of a values file as floats: 2.68435456e+08. */ -}}
{{- define "namesrv.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ printf "%.0f" . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- /* The address families of a Service. */ -}}
{{- define "namesrv.families" -}}
{{- with .Values.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What all pods have: who they run as, and where from. */ -}}
{{- define "namesrv.pod" -}}
serviceAccountName: {{ include "namesrv.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "namesrv.podSecurity" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Where a part's pods run: its own place, or else that of all; a dict with root and part. */ -}}
{{- define "namesrv.place" -}}
{{- with .part.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations | default .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A part's pods on several nodes, as far as there are any; a dict with root and part. */ -}}
{{- define "namesrv.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "namesrv.selector" . | nindent 8 }}
{{- end -}}

{{- /* One pod of a part leaves its node at a time; a dict with root and part. */ -}}
{{- define "namesrv.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "namesrv.name" .root }}-{{ .part }}
  labels:
    {{- include "namesrv.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "namesrv.selector" . | nindent 6 }}
{{- end -}}

{{- define "namesrv.env" -}}
{{- with .Values.secretName }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end -}}

{{- /* What the Spark operator's pods have: environment, user, and where they run. */ -}}
{{- define "namesrv.sparkPod" -}}
{{- include "namesrv.env" . }}
podSecurityContext:
  {{- include "namesrv.podSecurity" . | nindent 2 }}
{{- include "namesrv.place" (dict "root" . "part" .Values.job) }}
{{- end -}}

{{- define "namesrv.mounts" -}}
- name: settings
  mountPath: /etc/namesrv
  readOnly: true
- name: tmp
  mountPath: /tmp
- name: data
  mountPath: /var/lib/namesrv
{{- if .Values.trustSecretName }}
- name: trust
  mountPath: /etc/namesrv-trust
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "namesrv.volumes" -}}
- name: settings
  configMap:
    name: {{ include "namesrv.name" . }}-settings
- name: tmp
  emptyDir: {}
- name: data
{{- if eq .Values.storage.kind "pvc" }}
  persistentVolumeClaim:
    claimName: {{ include "namesrv.claim" . }}
{{- else }}
  emptyDir: {}
{{- end }}
{{- with .Values.trustSecretName }}
- name: trust
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
