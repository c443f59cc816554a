{{- define "lowwater.name" -}}
{{ printf "%s-lowwater" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "lowwater.labels" -}}
app.kubernetes.io/name: lowwater
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "lowwater.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}

{{- define "lowwater.queries" -}}
{{ .Values.queries.configMap | default (printf "%s-queries" (include "lowwater.name" .)) }}
{{- end }}

{{/* Of every pod: nothing runs as root, as in docker/Dockerfile. */}}
{{- define "lowwater.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "lowwater.security" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}

{{- define "lowwater.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A token of the one Spark, as the variable of this name. */}}
{{- define "lowwater.token" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.spark.tokenSecret }}
      key: token
{{- end }}

{{/* A container, but for its name, arguments, ports and variables; `secret` has its keys of the store. */}}
{{- define "lowwater.container" -}}
image: {{ include "lowwater.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- include "lowwater.security" .root | nindent 2 }}
envFrom:
  - configMapRef:
      name: {{ include "lowwater.name" .root }}-environment
  {{- with .secret }}
  - secretRef:
      name: {{ . }}
  {{- end }}
resources:
  requests:
    cpu: {{ .root.Values.spark.driverCores | quote }}
    memory: {{ .root.Values.spark.driverMemory }}
volumeMounts:
  - name: queries
    mountPath: /queries
    readOnly: true
  - name: staging
    mountPath: /staging
{{- end }}

{{- define "lowwater.volumes" -}}
- name: queries
  configMap:
    name: {{ include "lowwater.queries" . }}
- name: staging
  emptyDir:
    sizeLimit: {{ .Values.spark.staging }}
{{- end }}
