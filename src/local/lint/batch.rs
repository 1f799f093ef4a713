//! Whether what the linter does not judge may hold batch work: files beside the inputs, patches, templates.

use std::borrow::Cow;

use memchr::memmem::Finder;

use super::objects::objects;
use crate::kinds::{Kind, is_other, looks_like_batch, others};
use crate::text::value::Value;
use crate::text::yaml::{self, Limits};

/// The words that are in the names of most batch kinds, and in those of their fields.
const WORDS: [&str; 2] = ["Job", "job"];
/// Kinds of Kubernetes that are no batch work whatever their pods' `restartPolicy` is; a Pod is the business of whoever made it.
const RESTARTING: [&str; 7] = ["DaemonSet", "Deployment", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Tells whether a text may speak of batch work: of the kinds that are judged, or of one that is known.
pub(super) fn mentions(text: &[u8]) -> bool {
    let has = |word: &str| Finder::new(word).find(text).is_some();
    WORDS.iter().any(|word| has(word)) || other_kinds().filter(|kind| !kind.contains("Job")).any(has)
}

fn other_kinds() -> impl Iterator<Item = &'static str> {
    others().flat_map(|(_, kinds)| kinds).copied()
}

/// Tells whether a kind's name is that of batch work, as far as a name says it.
pub(super) fn is_kind(name: &str) -> bool {
    name.contains("Job") || other_kinds().any(|kind| kind == name)
}

/// Tells whether some object in a file is batch work. A file that cannot be read may hold any.
pub(super) fn is_in(text: &[u8], limits: &Limits) -> bool {
    let may_be = mentions(text) || Finder::new("ontainers").find(text).is_some();
    may_be && some_object(text, limits, |object| Kind::of(object).is_some() || is_batch(object))
}

/// Tells whether a patch may be for batch work: unless it says that it is for other kinds.
pub(super) fn is_patched_by(text: &[u8], limits: &Limits) -> bool {
    some_object(text, limits, |object| object.get("kind").and_then(Value::as_str).is_none_or(is_kind))
}

fn is_batch(object: &Value) -> bool {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    is_other(group, text("kind")) || looks_like_batch(version, object)
}

fn some_object(text: &[u8], limits: &Limits, test: impl Fn(&Value) -> bool) -> bool {
    yaml::split(text, limits).any(|chunk| match chunk.and_then(|chunk| yaml::parse(text, &chunk, limits)) {
        // A list that is no list of objects is a patch of operations.
        Ok(document) => document.value.is_array() || objects(&document.value).iter().any(|object| test(&object.value)),
        Err(_) => true,
    })
}

/// Tells whether a template of text may render to batch work: unless each of its documents has a kind that is none.
pub(super) fn is_in_template(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let text = without_comments(&text);
    let mut section = Section::default();
    let mut may = false;
    for line in text.lines() {
        if line.starts_with("---") {
            may |= std::mem::take(&mut section).may_be_batch();
        } else {
            section.take(line);
        }
    }
    may || section.may_be_batch()
}

/// What is known of one document of a template.
#[derive(Default)]
struct Section {
    has_content: bool,
    /// Whether it says its own kind.
    has_kind: bool,
    /// Whether that is one whose pods restart.
    restarts: bool,
    /// Whether some pods in it end.
    ends: bool,
    /// Whether some kind in it is batch work, or could be.
    has_batch: bool,
}

impl Section {
    fn take(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || is_control(text) {
            return;
        }
        self.has_content = true;
        let is_own = !line.starts_with([' ', '\t', '-']);
        let text = text.trim_start_matches(['-', ' ', '{', '"']);
        let value = |key: &str| text.strip_prefix(key)?.trim_start_matches('"').strip_prefix(':');
        if let Some(kind) = value("kind") {
            let kind = kind.split(" #").next().unwrap_or_default().trim_matches([' ', '"', '\'', ',']);
            self.has_kind |= is_own;
            self.restarts |= is_own && RESTARTING.contains(&kind);
            self.has_batch |= is_kind(kind) || is_own && (kind.contains("{{") || kind == "List");
        }
        self.ends |= value("restartPolicy").is_some_and(|policy| policy.contains("Never") || policy.contains("OnFailure"));
    }

    fn may_be_batch(&self) -> bool {
        self.has_content && (!self.has_kind || self.has_batch || self.ends && !self.restarts)
    }
}

/// Tells whether a line is an action that renders to nothing by itself.
fn is_control(line: &str) -> bool {
    let Some(action) = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) else { return false };
    let action = action.trim_matches(['-', ' ']);
    let word = action.split([' ', '(']).next().unwrap_or_default();
    // Of two actions on a line, the second may be anything.
    !action.contains("{{") && (matches!(word, "if" | "else" | "end" | "with" | "range" | "define" | "block") || word.starts_with('$'))
}

/// Returns a template's text without its comments, which may go over many lines.
fn without_comments(text: &str) -> Cow<'_, str> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("/*") {
        let before = rest[..at].trim_end().trim_end_matches('-').strip_suffix("{{");
        let Some(end) = before.and_then(|_| rest[at..].find("*/")) else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        out.push_str(before.unwrap_or_default());
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
        assert!(!is_in("apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {prometheus.io/job: web}}\n"));
        assert!(!is_in("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {jobLabel: app}\n"));
    }

    #[test]
    fn a_patch_says_what_it_is_for() {
        let may_be = |text: &str| is_patched_by(text.as_bytes(), &Limits::default());
        assert!(may_be("kind: Job\n") && may_be("spec: {}\n") && may_be("- {op: remove, path: /x}\n") && may_be("a: ["));
        assert!(!may_be("kind: Deployment\n---\nkind: Service\n"));
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
        ] {
            assert!(is_in_template(text.as_bytes()), "{text}");
        }
        for text in [
            "{{- if .Values.x }}\n# Runs no Job.\nkind: Deployment # {{ .x }}\nspec:\n  job: {{ .Values.job }}\n{{- end }}\n",
            "{{- /*\nkind: Job\n*/ -}}\n{{- $x := .Values.job }}\nkind: 'Service'\n---\n{{/* kind: Job */}}\n",
            "kind: HorizontalPodAutoscaler\nspec:\n  scaleTargetRef:\n    kind: {{ .Values.kind }}\n",
            "kind: Pod\nspec:\n  restartPolicy: Never\n{{ .x }}\n",
            "",
        ] {
            assert!(!is_in_template(text.as_bytes()), "{text}");
        }
    }
}
