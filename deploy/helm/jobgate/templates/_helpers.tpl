{{/* Everything has one name: a cluster has one Jobgate, and its own commands and alerts rely on it. */}}
{{- define "jobgate.labels" -}}
app.kubernetes.io/name: jobgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "jobgate.selfManaged" -}}
{{- if eq .Values.certificates.mode "self-managed" }}true{{ end }}
{{- end }}

{{/* Whether anything of it speaks to the API server. */}}
{{- define "jobgate.speaks" -}}
{{- if or (include "jobgate.selfManaged" .) (ne .Values.claims "off") }}true{{ end }}
{{- end }}

{{- define "jobgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "jobgate.priorityClass" -}}
{{- if .Values.priorityClass.create }}jobgate{{ else }}{{ .Values.priorityClass.name }}{{ end }}
{{- end }}

{{/* One webhook. Takes root, path, name, timeout, closed (whether it rejects when it gets no answer). */}}
{{- define "jobgate.webhook" -}}
{{- $values := .root.Values -}}
name: {{ .name }}
admissionReviewVersions: [v1]
clientConfig:
  service:
    name: jobgate
    namespace: {{ .root.Release.Namespace }}
    path: /{{ .path }}
    port: 443
  {{- if and $values.certificates.ca (eq $values.certificates.mode "mounted") }}
  caBundle: {{ b64enc $values.certificates.ca }}
  {{- end }}
failurePolicy: {{ if .closed }}Fail{{ else }}Ignore{{ end }}
matchConditions:
- name: not-the-garbage-collector
  expression: "!(request.operation == 'UPDATE' && has(request.userInfo.username) && request.userInfo.username == 'system:serviceaccount:kube-system:generic-garbage-collector')"
matchPolicy: Equivalent
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ concat (list "kube-node-lease" "kube-public" "kube-system" .root.Release.Namespace) $values.webhooks.excludedNamespaces | toJson }}
  {{- if and $values.webhooks.failClosedNamespaces (eq .path "validate") }}
  - key: kubernetes.io/metadata.name
    operator: {{ if .closed }}In{{ else }}NotIn{{ end }}
    values: {{ toJson $values.webhooks.failClosedNamespaces }}
  {{- end }}
rules:
{{- range $kind, $rules := fromYaml (.root.Files.Get "files/rules.yaml") }}
{{- if ne (toString (index $values.kinds $kind)) "false" }}
{{ toYaml $rules }}
{{- end }}
{{- end }}
sideEffects: None
timeoutSeconds: {{ .timeout }}
{{- end }}

{{/* Gives the service account a role of the name. Takes root, name, cluster. */}}
{{- define "jobgate.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .cluster }}Cluster{{ end }}RoleBinding
metadata:
  name: {{ .name }}
  {{- if not .cluster }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels: {{- include "jobgate.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ if .cluster }}Cluster{{ end }}Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: jobgate
  namespace: {{ .root.Release.Namespace }}
{{- end }}
