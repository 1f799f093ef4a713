//! Detects possible batch work in what the linter does not judge: files beside the inputs, patches, templates.

use std::borrow::Cow;

use memchr::memmem::{self, Finder};

use crate::objects;
use jobgate_core::kinds::accelerator::TAINTS;
use jobgate_core::kinds::{Kind, is_batch_group, is_no_batch, is_other, looks_like_batch, others};
use jobgate_core::text::lines::character_at;
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{self, Limits};

/// Words in the names of most batch kinds and of their fields.
const WORDS: [&str; 2] = ["Job", "job"];
/// Kubernetes kinds that are not batch work whatever their `restartPolicy`; a Pod belongs to its creator.
const RESTARTING: [&str; 7] =
    ["DaemonSet", "Deployment", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Maximum bytes of a value to inspect.
const MOST_OF_VALUE: usize = 128;
/// Maximum words of a value to inspect: a template may have one kind or another.
const MOST_WORDS: usize = 8;

/// Tells whether a text may be about batch work: about a judged or another known kind.
pub(crate) fn mentions(text: &[u8]) -> bool {
    let has = |word: &str| Finder::new(word).find(text).is_some();
    WORDS.iter().any(|word| has(word)) || other_kinds().filter(|kind| !kind.contains("Job")).any(has)
}

fn other_kinds() -> impl Iterator<Item = &'static str> {
    others().flat_map(|(_, kinds)| kinds).copied()
}

/// Tells whether a kind's name suggests batch work.
pub(crate) fn is_kind(name: &str) -> bool {
    name.contains("Job") || other_kinds().any(|kind| kind == name)
}

/// Tells whether any object in a file is batch work. An unreadable file may contain any.
pub fn is_in(text: &[u8], limits: &Limits) -> bool {
    let may_be = mentions(text) || Finder::new("ontainers").find(text).is_some();
    may_be && some_object(text, limits, |object| Kind::from_object(object).is_some() || is_batch(object))
}

/// Tells whether a patch may apply to batch work: unless it names other kinds.
pub fn is_patched_by(text: &[u8], limits: &Limits) -> bool {
    some_object(text, limits, |object| object.get("kind").and_then(Value::as_str).is_none_or(is_kind))
}

fn is_batch(object: &Value) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    is_other(group(version), text("kind")) || looks_like_batch(version, object).is_some()
}

fn some_object(text: &[u8], limits: &Limits, test: impl Fn(&Value) -> bool) -> bool {
    yaml::split(text, limits).any(|chunk| match chunk.and_then(|chunk| yaml::parse(text, &chunk, limits)) {
        // A sequence at the top is a patch of operations, not a list of objects.
        Ok(document) => document.value.is_array() || objects::any(&document.value, &test),
        Err(_) => true,
    })
}

/// Tells whether unreadable text names a batch kind or its group, at any place.
pub(crate) fn names_batch(text: &[u8]) -> bool {
    let text = without_zeros(text);
    let text = String::from_utf8_lossy(&text);
    let is_named = |kind: &str| kind.split(|c: char| !c.is_alphanumeric()).take(MOST_WORDS).any(is_kind);
    mentions(text.as_bytes()) && values(&text, "kind").any(is_named)
        || values(&text, "apiVersion").any(|version| is_batch_group(group(version)))
}

/// Returns text without zero bytes, so that the words here are also found in UTF-16.
fn without_zeros(text: &[u8]) -> Cow<'_, [u8]> {
    if text.contains(&0) { text.iter().copied().filter(|byte| *byte != 0).collect() } else { text.into() }
}

/// Tells whether unreadable text may be a manifest of batch work, from its fields at any place.
pub(crate) fn may_be_manifest(text: &[u8]) -> bool {
    let text = without_zeros(text);
    let text = String::from_utf8_lossy(&text);
    let mut versions = values(&text, "apiVersion").peekable();
    let has = |key: &str| values(&text, key).next().is_some();
    versions.peek().is_some() && has("kind")
        || has("containers") && has("restartPolicy")
        || values(&text, "kind").any(is_kind)
        || versions.any(|version| is_batch_group(group(version)))
}

/// Returns the values of a key anywhere in a text: with quotes or without, in a flow or on a line.
fn values<'t>(text: &'t str, key: &'t str) -> impl Iterator<Item = &'t str> {
    memmem::find_iter(text.as_bytes(), key).filter_map(move |at| {
        let is_part = text[..at]
            .ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | '-' | '.' | '/'));
        let rest = text[at + key.len()..]
            .trim_start_matches(['"', '\''])
            .trim_start_matches(' ')
            .strip_prefix(':')
            .filter(|_| !is_part)?;
        // One line may be the whole text, with the key any number of times.
        let rest = &rest[..character_at(rest, rest.len().min(MOST_OF_VALUE))];
        let end = memchr::memchr3(b'\n', b',', b'}', rest.as_bytes()).unwrap_or(rest.len());
        let line = &rest[..end];
        Some(line.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']))
    })
}

fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Tells whether a text template may render batch work: unless each of its documents has another kind.
///
/// `of_chart` means that Helm renders it to manifests. Other tools have templates, too: fields without a version and a
/// kind are not a manifest.
pub fn is_in_template(text: &[u8], of_chart: bool) -> bool {
    let text = String::from_utf8_lossy(text);
    let text = on_one_line(&without_comments(&text));
    let mut section = TemplateSection::default();
    let mut may = false;
    for line in text.lines() {
        let line = without_control(line);
        if let Some(rest) = line.strip_prefix("---") {
            may |= std::mem::take(&mut section).may_be_batch(of_chart);
            section.take(rest.trim_start());
        } else {
            section.take(&line);
        }
    }
    may || section.may_be_batch(of_chart)
}

/// One document of a template.
#[derive(Default)]
struct TemplateSection {
    has_content: bool,
    /// Whether it has fields, by themselves or in a list.
    has_fields: bool,
    /// Whether something is printed where a document may begin.
    prints: bool,
    /// Its own kinds: there may be several under different conditions.
    kinds: Vec<String>,
    version: Option<String>,
    /// Whether some of its pods run to completion or request accelerators.
    ends: bool,
    /// Whether its own kind is batch work, or may be.
    has_batch: bool,
    /// Whether a nested object has a batch kind, and whether one has the version of one.
    inside: (bool, bool),
    /// Whether the value of a key is expected on the next line.
    is_open: bool,
    /// Whether a list without indentation continues.
    is_list: bool,
    /// The indentation of a key with a block scalar, while it is open.
    text: Option<usize>,
    /// Whether it is a single flow, such as JSON.
    is_flow: bool,
}

impl TemplateSection {
    fn take(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        let action = only_actions(text);
        let is_deep = action && indentation(text).is_some_and(|deep| deep > 0);
        let indent = line.len() - line.trim_start().len();
        if self.text.is_some_and(|above| is_deep || indent > above) {
            return;
        }
        self.text = is_block(text).then_some(indent);
        self.is_flow |= !self.has_content && text.starts_with('{') && !text.starts_with("{{");
        self.has_content = true;
        if action {
            let is_value = self.is_open || self.is_list && text.contains("toYaml");
            self.prints |= indent == 0 && !is_deep && !is_value;
            return;
        }
        self.is_open = text.ends_with(':');
        let is_own = self.is_flow || indent == 0 && !text.starts_with("- ");
        if indent == 0 {
            self.is_list = text.starts_with('-');
        }
        self.has_fields |= indent == 0 && (text.contains(": ") || self.is_open);
        for kind in values(text, "kind") {
            let mut names = kind.split_whitespace();
            if is_own {
                self.has_batch |= names.any(is_kind) || kind.contains("{{") || kind == "List";
                self.kinds.push(kind.to_owned());
            } else {
                self.inside.0 |= names.any(is_kind);
            }
        }
        for version in values(text, "apiVersion") {
            if is_own {
                self.version = Some(version.to_owned());
            } else {
                self.inside.1 |= version.contains("{{") || is_batch_group(group(version));
            }
        }
        self.ends |= values(text, "restartPolicy")
            .any(|policy| ["Never", "OnFailure", "{{"].iter().any(|end| policy.contains(end)));
        self.ends |= TAINTS.iter().any(|(resource, _)| asks_for(text, resource));
    }

    fn may_be_batch(&self, of_chart: bool) -> bool {
        let may_hold = self.version.as_ref().is_none_or(|version| version.contains(['.', '{']))
            || self.kinds.iter().any(|kind| kind == "Template");
        let is_unknown = self.kinds.is_empty() && (of_chart || self.version.is_some() || !self.has_fields);
        let is_inside = self.inside == (true, true) && may_hold;
        self.has_content
            && (self.has_batch || self.prints || is_unknown || is_inside || self.ends && !self.restarts())
    }

    /// Tells whether the pods of all its kinds restart.
    fn restarts(&self) -> bool {
        let version = self.version.as_deref().filter(|version| !version.contains("{{"));
        let restarts = |kind: &String| {
            RESTARTING.contains(&kind.as_str()) || version.is_some_and(|version| is_no_batch(version, kind))
        };
        // Without a kind it is not a manifest, or was already found to be unknown.
        self.kinds.iter().all(restarts)
    }
}

/// Tells whether a line requests a resource, whose name may end in `*`.
fn asks_for(line: &str, resource: &str) -> bool {
    let name = resource.trim_end_matches('*');
    memmem::find_iter(line.as_bytes(), name).any(|at| {
        let rest = line[at + name.len()..].trim_start_matches(|c: char| {
            name.len() < resource.len() && (c.is_alphanumeric() || c == '.' || c == '-')
        });
        let amount = rest
            .trim_start_matches(['"', '\''])
            .strip_prefix(':')
            .map(|rest| rest.trim_start_matches([' ', '"', '\'']));
        amount.is_some_and(|amount| !amount.starts_with('0'))
    })
}

/// Tells whether a line opens a block scalar.
fn is_block(line: &str) -> bool {
    let mut words = line.split(" #").next().unwrap_or_default().split_whitespace().rev();
    let is_header = |word: &str| {
        word.starts_with(['|', '>'])
            && word[1..].bytes().all(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9'))
    };
    words.next().is_some_and(is_header) && words.next().is_some_and(|word| word.ends_with(':') || word == "-")
}

/// Tells whether a line consists only of actions.
fn only_actions(line: &str) -> bool {
    line.starts_with("{{") && actions(line).all(|part| part.trim().is_empty() || part.starts_with("{{"))
        || line.starts_with("{%") && line.ends_with("%}")
}

/// Returns the indentation in the last action of a line, if it has one.
fn indentation(line: &str) -> Option<usize> {
    let at = line.rfind("indent ")?;
    let digits = line[at + 7..].trim_start();
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

/// Returns a line's actions and the texts between them.
fn actions(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let starts = |text: &str| text.starts_with("{{") || text.starts_with("{%");
        if rest.is_empty() {
            return None;
        }
        let length = if starts(rest) {
            let close = if rest.starts_with("{{") { "}}" } else { "%}" };
            rest.find(close).map_or(rest.len(), |at| at + 2)
        } else {
            rest.match_indices('{').map(|(at, _)| at).find(|at| starts(&rest[*at..])).unwrap_or(rest.len())
        };
        let (part, behind) = rest.split_at(length);
        rest = behind;
        Some(part)
    })
}

/// Returns a line without the actions that render to nothing by themselves.
fn without_control(line: &str) -> Cow<'_, str> {
    if !actions(line).any(is_control) {
        return line.into();
    }
    let mut out = String::new();
    for part in actions(line) {
        match part {
            part if !is_control(part) => out.push_str(part),
            // A removed action still separates words.
            _ if !out.is_empty() => out.push(' '),
            _ => {}
        }
    }
    out.into()
}

/// Tells whether an action renders to nothing by itself.
fn is_control(action: &str) -> bool {
    let inner = |open: &str, close: &str| {
        Some(action.strip_prefix(open)?.strip_suffix(close)?.trim_matches(['-', '+', ' ']))
    };
    if let Some(inner) = inner("{%", "%}") {
        return !["include", "import", "from", "extends"].iter().any(|word| inner.starts_with(word));
    }
    let Some(inner) = inner("{{", "}}") else { return false };
    let word = inner.split([' ', '(']).next().unwrap_or_default();
    // A variable alone is printed.
    let sets = inner.strip_prefix('$').is_some_and(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
        rest.starts_with(":=") || rest.starts_with('=')
    });
    sets || matches!(
        word,
        "" | "block" | "break" | "continue" | "define" | "else" | "end" | "fail" | "if" | "range" | "with"
    )
}

/// Returns a template's text with each action on one line.
fn on_one_line(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut breaks: Option<Vec<usize>> = None;
    for at in 0..out.len() {
        match (&out[at..(at + 2).min(out.len())], &mut breaks) {
            (b"{{", open) => *open = Some(Vec::new()),
            (b"}}", open) => open.take().into_iter().flatten().for_each(|at| out[at] = b' '),
            ([b'\n', ..], Some(breaks)) => breaks.push(at),
            _ => {}
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Returns a template's text without its comments, which may span lines.
fn without_comments(text: &str) -> Cow<'_, str> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("/*") {
        let before = rest[..at].trim_end().trim_end_matches('-').strip_suffix("{{");
        let Some(before) = before else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        // If a comment is not closed, no later one is closed either.
        let Some(end) = rest[at..].find("*/") else { break };
        out.push_str(before);
        rest = &rest[at + end..];
        rest = rest.find("}}").map_or("", |end| &rest[end + 2..]);
    }
    if out.is_empty() && rest.len() == text.len() {
        return text.into();
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_work_is_known_by_its_words() {
        assert!(mentions(b"kind: Job") && mentions(b"kind: RayCluster") && mentions(b"{{ .Values.job }}"));
        assert!(!mentions(b"kind: Deployment"));
    }

    #[test]
    fn a_file_holds_batch_work_by_its_kinds_and_not_by_its_words() {
        let is_in = |text: &str| is_in(text.as_bytes(), &Limits::default());
        for text in [
            "apiVersion: batch/v1\nkind: Job\n",
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: kubeflow.org/v1, kind: TFJob}]\n",
            "apiVersion: x.io/v1\nkind: Run\nspec: {containers: [{name: a, image: b}], restartPolicy: Never}\n",
            "kind: Service\n---\njob: [\n",
        ] {
            assert!(is_in(text), "{text}");
        }
        assert!(!is_in(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {prometheus.io/job: web}}\n"
        ));
        assert!(!is_in(
            "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {jobLabel: app}\n"
        ));
    }

    #[test]
    fn a_patch_says_what_it_is_for() {
        let may_be = |text: &str| is_patched_by(text.as_bytes(), &Limits::default());
        assert!(
            may_be("kind: Job\n")
                && may_be("spec: {}\n")
                && may_be("- {op: remove, path: /x}\n")
                && may_be("a: [")
        );
        assert!(!may_be("kind: Deployment\n---\nkind: Service\n"));
    }

    #[test]
    fn a_template_of_another_tool_is_a_manifest_where_it_says_so() {
        let may_be = |text: &str| is_in_template(text.as_bytes(), false);
        for text in [
            "releases:\n- name: {{ x }}\n",
            "- hosts: {{ x }}\n  job: 1\n",
            "{% set x = 1 %}\npackage:\n  name: {{ x }}\n",
            "kind: Service\na: {{ x }}\n",
        ] {
            assert!(!may_be(text), "{text}");
        }
        for text in [
            "apiVersion: v1\nmetadata: {{ x }}\n",
            "kind: Job\na: {{ x }}\n",
            "{{ x }}\n",
            "a: 1\n{% include 'job.yaml' %}\n",
            "- k8s:\n    definition:\n      apiVersion: batch/v1\n      kind: Job\n      a: {{ x }}\n",
        ] {
            assert!(may_be(text), "{text}");
        }
    }

    #[test]
    fn a_template_is_read_once() {
        for part in ["kind:", "apiVersion: ", "{{", "{{/*", "{{ a", "}}", "{%", "kind", "{{ if }}", "/*"] {
            let text = part.repeat(200_000);
            let start = std::time::Instant::now();
            is_in_template(text.as_bytes(), true);
            may_be_manifest(text.as_bytes());
            names_batch(text.as_bytes());
            assert!(start.elapsed().as_secs() < 10, "{part}");
        }
    }

    #[test]
    fn a_template_is_none_of_batch_work_only_where_each_document_says_so() {
        for text in [
            "{{- if .Values.x }}\nkind: CronJob\n{{- end }}\n",
            "kind: {{ .Values.kind }}\n",
            "{{ include \"common.workload\" . }}\n",
            "kind: Deployment\n{{- range .Values.extraDeploy }}\n---\n{{ tpl (toYaml .) $ }}\n{{- end }}\n",
            "{{- if .Values.x }}{{ include \"common.job\" . }}{{- end }}\n",
            "kind: List\nitems: {{ .Values.items }}\n",
            "kind: List\nitems:\n- kind: Job\n",
            "{\"kind\": \"Job\"{{ .x }}}",
            "apiVersion: x.io/v1\nkind: Run\nspec:\n  restartPolicy: Never\n{{ .x }}\n",
            // What prints a variable prints anything.
            "{{- range $k, $m := .Values.extra }}\n---\n{{ $m | toYaml }}\n{{- end }}\n",
            "{{ $.Values.raw }}\n",
            "{{ $.Files.Get $p }}\n",
            // A document may begin where its separator is not on a line by itself.
            "kind: Service\nmetadata: {{ .x }}\n{{ include \"c.job\" . }}\n",
            "kind: Service\nmetadata: {{ .x }}\n{{ if .x }}---\n{{ toYaml .Values.extra }}\n{{ end }}\n",
            "kind: Service\nmetadata: {{ .x }}\n---{{ toYaml .Values.extra | nindent 0 }}\n",
            "kind: {{ if .x }}Deployment{{ else }}Job{{ end }}\n",
            "{{ if .x }}kind: Job{{ end }}\n",
            // Other kinds give themselves away.
            "apiVersion: x.io/v1\nkind: Run\nspec:\n  resources: {limits: {nvidia.com/gpu: 1}}\n  a: {{ .x }}\n",
            "apiVersion: x.io/v1\nkind: Run\nspec:\n  resources:\n    limits:\n      nvidia.com/mig-1g.5gb: {{ .x }}\n",
            "apiVersion: x.io/v1\nkind: Run\nspec:\n  restartPolicy: {{ .Values.r }}\n",
            "apiVersion: x.io/v1\nkind: Work\nspec:\n  manifests:\n  - apiVersion: batch/v1\n    kind: Job\n    a: {{ .x }}\n",
            "{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"metadata\": {{ .x }}}\n",
        ] {
            assert!(is_in_template(text.as_bytes(), true), "{text}");
        }
        for text in [
            "{{- if .Values.x }}\n# Runs no Job.\nkind: Deployment # {{ .x }}\nspec:\n  job: {{ .Values.job }}\n{{- end }}\n",
            "{{- /*\nkind: Job\n*/ -}}\n{{- $x := .Values.job }}\nkind: 'Service'\n---\n{{/* kind: Job */}}\n",
            "{{ $x = 2 }}\n{{- fail \"no\" }}\n{{- if and\n  .x\n  .y }}\n{{- end }}\n",
            "kind: {{ if .x }}Deployment{{ else }}StatefulSet{{ end }}\n",
            "kind: Service\nmetadata:\n  labels:\n{{ include \"c.labels\" . | indent 4 }}\n  annotations:\n{{ include \"c.a\" . }}\n",
            "kind: Role\nrules:\n- a: {{ .x }}\n{{- with .Values.rules }}\n{{- toYaml . | nindent 0 }}\n{{- end }}\n",
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.yaml: |-\n    apiVersion: batch/v1\n    kind: Job\n\n    a: {{ .x }}\n",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules:\n- kind: Job\n  a: {{ .x }}\n",
            "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {{ .x }}}\n",
            "apiVersion: serving.kserve.io/v1\nkind: InferenceService\nspec: {limits: {nvidia.com/gpu: 1}, a: {{ .x }}}\n",
            "apiVersion: x.io/v1\nkind: Run\nspec: {limits: {nvidia.com/gpu: 0}, a: {{ .x }}}\n",
            "kind: HorizontalPodAutoscaler\nspec:\n  scaleTargetRef:\n    kind: {{ .Values.kind }}\n",
            "kind: Pod\nspec:\n  restartPolicy: Never\n  a: {{ .x }}\n",
            "",
        ] {
            assert!(!is_in_template(text.as_bytes(), true), "{text}");
        }
    }
}
