{{- define "penstock.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 48 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "penstock.userSecret" -}}
{{- .Values.user.existingSecret | default (printf "%s-user" (include "penstock.fullname" .)) }}
{{- end }}

{{- define "penstock.ports" -}}
{{- if .Values.tls.secretName }}
- name: amqps
  port: 5671
  targetPort: amqps
  appProtocol: amqps
{{- else }}
- name: amqp
  port: 5672
  targetPort: amqp
  appProtocol: amqp
{{- end }}
- name: http
  port: 15672
  targetPort: http
- name: metrics
  port: 15692
  targetPort: metrics
{{- end }}
