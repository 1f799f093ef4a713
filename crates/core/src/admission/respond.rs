//! The AdmissionReview response, and its messages for users.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::review::Head;
use super::{Endpoint, Pass};
use crate::judge::finding::{Finding, Level};
use crate::judge::policy::Policy;
use crate::judge::verdict::{Skipped, Verdict};
use crate::kinds::is_other;
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::number::thousands;
use crate::text::patch;
use crate::text::patch::Op;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// The longest warning, in characters; the API server truncates and drops longer ones
/// (docs/internals/webhook.md#warnings).
pub const LONGEST_WARNING: usize = 120;
/// The most warnings in one answer.
pub const MOST_WARNINGS: usize = 10;
/// The most findings that a denial lists.
pub const MOST_FINDINGS: usize = 32;
/// The longest line of a denial, in bytes.
pub const LONGEST_LINE: usize = 1024;
/// The longest value of an audit annotation, in bytes.
const LONGEST_ANNOTATION: usize = 1024;

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reply {
    /// The message of a denial.
    pub(super) denial: Option<String>,
    /// Warnings, each in one short line.
    pub(super) warnings: Vec<String>,
    /// Operations; none for no patch.
    pub(super) patch: Vec<Op>,
    /// Audit annotations. Keys are bare qualified names; the API server puts the webhook's name in front.
    pub(super) audit: BTreeMap<&'static str, String>,
}

/// Returns the body of an answer.
pub(super) fn body(head: &Head<'_>, reply: &Reply) -> Vec<u8> {
    let patch = (reply.denial.is_none() && !reply.patch.is_empty())
        .then(|| STANDARD.encode(serde_json::to_vec(&patch::document(&reply.patch)).unwrap_or_default()));
    let status = reply.denial.as_deref().map(|message| ResponseStatus {
        status: "Failure",
        message,
        reason: "Forbidden",
        code: 403,
    });
    let response = ReviewResponse {
        uid: &head.uid,
        allowed: reply.denial.is_none(),
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch,
        audit_annotations: &reply.audit,
        warnings: &reply.warnings,
    };
    let review = AnsweredReview { api_version: head.version.as_str(), kind: "AdmissionReview", response };
    // Serializing strings and maps cannot fail. If it did, the API server would fail open on an empty body.
    serde_json::to_vec(&review).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredReview<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: ReviewResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ResponseStatus<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ResponseStatus<'a> {
    status: &'static str,
    message: &'a str,
    reason: &'static str,
    code: u16,
}

/// Returns the message of a denial: the number of findings and one line for each, warnings last with their own
/// number, and any advice about the object's maker.
///
/// kubectl prints it after `admission webhook "…" denied the request: `.
#[must_use]
pub(super) fn denial(findings: &[Finding], advice: Option<&str>) -> String {
    let mut message = String::new();
    let mut room = MOST_FINDINGS;
    for (level, one, many) in [(Level::Deny, "problem", "problems"), (Level::Warn, "warning", "warnings")] {
        let of_level = || findings.iter().filter(|finding| finding.level == level);
        let count = of_level().count();
        if count == 0 {
            continue;
        }
        let separator = if message.is_empty() { "" } else { "\n" };
        let _ = write!(message, "{separator}{count} {}:", if count == 1 { one } else { many });
        for finding in of_level().take(room) {
            message.push('\n');
            message.push_str(cut(&line(finding, true, LONGEST_LINE).text, LONGEST_LINE, "…").as_ref());
        }
        if count > room {
            let _ = write!(message, "\n… and {} more", count - room);
        }
        room = room.saturating_sub(count);
    }
    if let Some(advice) = advice {
        message.push('\n');
        message.push_str(cut(&one_line(advice), LONGEST_LINE, "…").as_ref());
    }
    message
}

/// Returns the audit annotations of a verdict.
#[must_use]
pub(super) fn audit(policy: &Policy, verdict: &Verdict) -> BTreeMap<&'static str, String> {
    let mut audit = BTreeMap::new();
    let mut rules: BTreeMap<&str, Level> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.level > Level::Note) {
        let level = rules.entry(&finding.rule).or_insert(finding.level);
        *level = finding.level.max(*level);
    }
    let join = |rules: &mut dyn Iterator<Item = String>| rules.collect::<Vec<_>>().join(",");
    if !rules.is_empty() {
        audit.insert(
            "rules",
            join(&mut rules.iter().map(|(rule, level)| format!("{rule}={}", level.as_str()))),
        );
    }
    let suppressed: BTreeSet<&str> =
        verdict.suppressed.iter().map(|suppressed| &*suppressed.finding.rule).collect();
    if !suppressed.is_empty() {
        audit.insert("suppressed", join(&mut suppressed.iter().map(|rule| (*rule).to_owned())));
    }
    if let Some(skipped) = verdict.skipped {
        audit.insert("skipped", skipped.as_str().to_owned());
        if skipped == Skipped::TrustedUnseen {
            audit.insert("parent", "unknown".to_owned());
        }
    }
    if !policy.hash.is_empty() {
        audit.insert("policy", annotation(&policy.hash));
    }
    audit
}

/// Returns one line for each distinct finding of level `warn`, and a last line that counts the omitted ones.
#[must_use]
pub(super) fn warnings(findings: &[Finding]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut more = 0_usize;
    for finding in findings.iter().filter(|finding| finding.level == Level::Warn) {
        // Once there are too many lines, the rest is counted without comparing: there may be very many.
        if out.len() > MOST_WARNINGS {
            more += 1;
            continue;
        }
        let mut text = short_line(finding, WarningKeep::Message);
        if out.contains(&text) {
            // The same problem in another place.
            text = short_line(finding, WarningKeep::Path);
        }
        if !out.contains(&text) {
            out.push(text);
        }
    }
    if out.len() > MOST_WARNINGS {
        more += out.len() - (MOST_WARNINGS - 1);
        out.truncate(MOST_WARNINGS - 1);
        out.push(format!("{more} more warnings; `jobgate lint` lists them all"));
    }
    out
}

/// Returns the line that lists the filled fields, if any: the fields first, their values if there is room.
#[must_use]
pub(super) fn filled_in(findings: &[Finding]) -> Option<String> {
    let fills = || findings.iter().filter(|finding| finding.is_filled_in());
    let mut paths: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut more = 0_usize;
    for finding in fills() {
        // Fills that do not fit are only counted: there may be as many as the object has parts.
        if paths.len() > MOST_FILLS {
            more += finding.count();
            continue;
        }
        more += finding.count() - 1;
        let value = finding
            .fix
            .as_ref()
            .and_then(|fix| filled_value(fix.ops.last()?, &finding.path))
            .unwrap_or_default();
        paths.push(one_line(&format!("{}{value}", finding.path.to_path_within(LONGEST_LINE))));
        let name = one_line(&format!(
            "{}{value}",
            match finding.path.last() {
                Some(Token::Key(key)) => &**key,
                _ => "an item",
            }
        ));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let line = |fields: &[String]| format!("jobgate filled in: {}", fields.join(", "));
    let all = [line(&paths), line(&names)].into_iter().find(|text| more == 0 && fits(text));
    let first = || {
        let total = paths.len() + more;
        let some = |count: usize| format!("{}, and {} more", line(&paths[..count]), total - count);
        (1..paths.len())
            .rev()
            .map(some)
            .find(|text| fits(text))
            .unwrap_or_else(|| format!("jobgate filled in {total} fields"))
    };
    (!paths.is_empty()).then(|| all.unwrap_or_else(first))
}

/// Returns the line that lists restored fields, if any.
#[must_use]
pub(super) fn put_back(restore: &[Op]) -> Option<String> {
    let first = restore.first()?;
    // An item of a list is named by the list.
    let list = first.pointer().parent().filter(|_| matches!(first.pointer().last(), Some(Token::Index(_))));
    let path = list.as_ref().unwrap_or_else(|| first.pointer()).to_path_within(LONGEST_LINE);
    Some(shorten(&format!("jobgate restored what it had filled in: {path}")))
}

/// How many fills are named before the rest is counted: more do not fit into a line.
const MOST_FILLS: usize = 8;

/// Returns the number or word that an operation writes, to follow the field's name; nothing for a list. A
/// mapping is written if the field's parent is missing, and has only this field.
fn filled_value(op: &Op, field: &Pointer) -> Option<String> {
    let (Op::Add(place, value) | Op::Replace(place, value)) = op else { return None };
    let is_around = place.depth() < field.depth();
    let value = value.as_object().filter(|_| is_around).and_then(|map| map.values().last()).unwrap_or(value);
    match value {
        Value::String(text) => Some(format!("={text}")),
        Value::Number(_) | Value::Bool(_) => Some(format!("={value}")),
        _ => None,
    }
}

/// What a warning keeps if not all of it fits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WarningKeep {
    /// As much of the message as fits beside the end of the path: why a field is wrong helps more than which of
    /// several it is.
    Message,
    /// As much of the path as fits beside the first clause of the message.
    Path,
}

/// Returns a finding as a warning: with its help if it fits, otherwise with some clauses of its message.
fn short_line(finding: &Finding, keep: WarningKeep) -> String {
    // A character has at most four bytes: longer text does not fit and need not be searched.
    const ENOUGH: usize = 4 * (LONGEST_WARNING + 1);
    let with_help = line(finding, true, ENOUGH).text;
    if fits(&with_help) {
        return with_help;
    }
    let mut path = finding.path.to_path_within(ENOUGH);
    if let Some(others) = finding.count().checked_sub(1).filter(|others| *others > 0) {
        path = format!("{path} and {} more", thousands(others));
    }
    let whole = line_at(finding, &path, false, ENOUGH);
    // Text longer than a line cannot fit: a name may be very long.
    let is_short = |at: &usize| path.len() - at < LONGEST_WARNING / 2;
    // An index alone says nothing.
    let is_index = |at: usize| {
        path[at..].strip_prefix('[').is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let ends = path
        .match_indices(['.', '['])
        .map(|(at, separator)| at + usize::from(separator == "."))
        .filter(|at| is_short(at) && !is_index(*at));
    let kept = |line: &FindingLine| clauses_that_fit(line).map(|text| (text.len() - line.message, text));
    let without_beginning =
        ends.filter_map(|at| kept(&line_at(finding, &format!("…{}", &path[at..]), false, ENOUGH)));
    // Of lines with the same message, the first has most of the path.
    let longer = |best: (usize, String), next: (usize, String)| if next.0 > best.0 { next } else { best };
    let mut lines = kept(&whole).into_iter().chain(without_beginning);
    let best = if keep == WarningKeep::Path { lines.next() } else { lines.reduce(longer) };
    best.map_or_else(|| shorten(&whole.text), |(_, text)| text)
}

fn fits(text: &str) -> bool {
    text.chars().count() <= LONGEST_WARNING
}

/// Returns a line without its last clauses, so that it fits.
fn clauses_that_fit(line: &FindingLine) -> Option<String> {
    let FindingLine { text: bare, message } = line;
    let message = *message;
    if fits(bare) {
        return Some(bare.clone());
    }
    let clauses = [": ", "; ", ", "]
        .into_iter()
        .flat_map(|end| bare[message..].match_indices(end))
        .map(|(at, _)| message + at);
    // An odd number of backticks means the inside of a name or value.
    let is_whole = |end: usize| bare[message..end].matches('`').count().is_multiple_of(2);
    // What comes before a message's main clause says nothing alone.
    let opening = OPENING.iter().any(|word| bare[message..].starts_with(word));
    let first = bare[message..].match_indices(", ").map(|(at, _)| message + at).find(|end| is_whole(*end));
    let whole = |end: &usize| is_whole(*end) && !(opening && Some(*end) <= first);
    clauses.filter(whole).map(|end| bare[..end].to_owned()).filter(|text| fits(text)).max_by_key(String::len)
}

/// The first words of messages whose main clause comes after the first comma.
const OPENING: [&str; 6] = ["after ", "if ", "in ", "where ", "with ", "without "];

/// Returns a text as one warning: one line, not too long.
#[must_use]
pub(super) fn shorten(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(LONGEST_WARNING) {
        None => text,
        Some(_) => text.chars().take(LONGEST_WARNING - 1).chain(['…']).collect(),
    }
}

/// Returns the warning for a batch object of a kind that is not judged but registered for the webhook.
pub(super) fn not_judged(endpoint: Endpoint, head: &Head<'_>, pass: Pass) -> Option<String> {
    let creates = endpoint == Endpoint::Validate
        && pass == Pass::Kind
        && head.operation == "CREATE"
        && head.subresource.is_empty();
    (creates && is_other(&head.group, &head.kind))
        .then(|| shorten(&format!("jobgate does not judge the kind {}, and did not check it", head.kind)))
}

/// Returns the value of an audit annotation: one line, not too long.
pub(super) fn annotation(text: &str) -> String {
    cut(&one_line(text), LONGEST_ANNOTATION, "…").into_owned()
}

/// A finding as one line: `rule: path: what; fix`.
struct FindingLine {
    text: String,
    /// Where the message begins.
    message: usize,
}

/// Returns a finding as one line, cut shortly after `limit` bytes: names may be as long as the object.
fn line(finding: &Finding, with_help: bool, limit: usize) -> FindingLine {
    let path = finding.range().unwrap_or_else(|| finding.path.to_path_within(limit));
    line_at(finding, &path, with_help, limit)
}

/// Returns a finding as one line, with the given text for its path.
fn line_at(finding: &Finding, path: &str, with_help: bool, limit: usize) -> FindingLine {
    meter::spend(1);
    let mut text = finding.rule.to_string();
    let mut push = |part: &str| {
        let room = (limit + 1).saturating_sub(text.len());
        text.push_str(&one_line(&part[..ceil_char(part, room)]));
        text.len()
    };
    if !finding.path.is_root() {
        push(": ");
        push(path);
    }
    let message = push(": ");
    push(finding.words());
    if with_help && !finding.help.is_empty() {
        push("; ");
        push(&finding.help);
    }
    FindingLine { text, message }
}

/// Returns the end of the character that a byte offset lies in, or the end of the text.
fn ceil_char(text: &str, offset: usize) -> usize {
    (offset..text.len()).find(|offset| text.is_char_boundary(*offset)).unwrap_or(text.len())
}

/// Replaces every character that would break a line, colour a terminal or reverse text with a space.
pub(super) fn one_line(text: &str) -> String {
    let turns = |c: char| match c {
        '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => true,
        _ => matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'),
    };
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::checks;
    use crate::judge::engine::{self, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::finding::{Fix, Safety};
    use crate::text::pointer::Pointer;
    use crate::text::value::{Value, json};

    fn finding(level: Level, path: &Pointer, message: &str, help: &str) -> Finding {
        checks::finding("deadline", level, path.clone(), message.to_owned(), help.to_owned())
    }

    fn at(level: Level, index: usize) -> Finding {
        finding(level, &(Pointer::new(&["spec", "list"]) / index), "no deadline", "set one")
    }

    #[test]
    fn a_denial_starts_with_the_count_and_lists_every_finding() {
        let findings = [at(Level::Deny, 0), at(Level::Note, 1), at(Level::Warn, 2), at(Level::Deny, 3)];
        let message = "2 problems:\n\
                       deadline: spec.list[0]: no deadline; set one\n\
                       deadline: spec.list[3]: no deadline; set one\n\
                       1 warning:\n\
                       deadline: spec.list[2]: no deadline; set one";
        assert_eq!(denial(&findings, None), message);
        assert!(denial(&findings[..1], None).starts_with("1 problem:\n"));
    }

    #[test]
    fn a_long_denial_says_what_it_leaves_out() {
        let findings: Vec<Finding> =
            (0..40).map(|index| at(if index < 30 { Level::Deny } else { Level::Warn }, index)).collect();
        let message = denial(&findings, None);
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(
            (lines[0], lines[31], lines[34], lines.len()),
            ("30 problems:", "10 warnings:", "… and 8 more", 35)
        );
        let many: Vec<Finding> = (0..1000).map(|index| at(Level::Deny, index)).collect();
        assert!(denial(&many, None).ends_with("\n… and 968 more"));
        let wide = denial(&[finding(Level::Deny, &Pointer::root(), &"ü".repeat(5000), "")], None);
        assert!(wide.lines().all(|line| line.len() <= LONGEST_LINE) && wide.ends_with('…'));
    }

    #[test]
    fn nothing_breaks_a_line_or_colours_a_terminal() {
        let pointer =
            Pointer::new(&["spec", "pytorchReplicaSpecs"]).key("Mas\nter\u{1b}[31m\u{202e}\u{2028}");
        let findings =
            [finding(Level::Deny, &pointer, "a\r\tb\u{85}", ""), finding(Level::Warn, &pointer, "a\0b", "")];
        let message = denial(&findings, None);
        assert_eq!(message.lines().count(), 4, "{message:?}");
        assert!(
            !message
                .replace('\n', "")
                .contains(|c: char| c.is_control() || c == '\u{202e}' || c == '\u{2028}'),
            "{message:?}"
        );
        assert!(!warnings(&findings)[0].contains(char::is_control));
    }

    #[test]
    fn a_warning_drops_its_help_before_it_is_cut() {
        let at = Pointer::new(&["spec"]);
        let of = |message: &str, help: &str| warnings(&[finding(Level::Warn, &at, message, help)]).remove(0);
        assert_eq!(of("short", "do it"), "deadline: spec: short; do it");
        assert_eq!(of("short", &"x".repeat(120)), "deadline: spec: short");
        let clauses = format!("no `a: b`: it hangs, and `c, {}`", "z".repeat(100));
        assert_eq!(of(&clauses, ""), "deadline: spec: no `a: b`: it hangs");
        let cut = of(&"ü".repeat(200), "");
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (LONGEST_WARNING, true));
        assert_eq!(of(&"y".repeat(LONGEST_WARNING - 16), "").chars().count(), LONGEST_WARNING);
    }

    #[test]
    fn a_warning_keeps_what_it_costs() {
        let container = json!({"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}});
        let template = json!({"spec": {"containers": [container]}});
        let job = json!({"template": {"spec": {"parallelism": 8, "completions": 8, "template": template}}});
        let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [job]}});
        let worker = json!({"replicas": 8, "template": template});
        let mpi = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {
            "runPolicy": {"cleanPodPolicy": "None"}, "mpiReplicaSpecs": {"Worker": worker}}});
        let policy = Policy::builtin("audit").expect("a built-in policy");
        for (object, rules) in [(set, &["deadline"][..]), (mpi, &["deadline", "resources-released"])] {
            let verdict = engine::evaluate(&policy, &NoFacts, &Request::from_file(&object, None));
            let warnings = warnings(&verdict.findings);
            for rule in rules {
                let line = warnings.iter().find(|line| line.starts_with(rule)).expect("a warning");
                assert!(line.contains("64 GPUs without a time limit"), "{line}");
                assert!(line.chars().count() <= LONGEST_WARNING, "{line}");
            }
        }
    }

    #[test]
    fn a_long_path_gives_way_to_what_is_wrong() {
        let at = Pointer::new(&["spec", "pytorchReplicaSpecs"]).key("Worker")
            / "template"
            / "spec"
            / "tolerations";
        for (length, reason, path) in [
            (30, ": a pod stays Pending", "…[Worker].template.spec.tolerations"),
            (58, ": a pod stays Pending", "…spec.tolerations"),
            (58, ": a pod stays Pending until somebody looks", "…[Worker].template.spec.tolerations"),
        ] {
            let what = format!("lacks `{}`", "x".repeat(length));
            let finding = finding(Level::Warn, &at, &format!("{what}{reason}"), "add it");
            let said = if reason.len() > 30 { "" } else { reason };
            assert_eq!(warnings(&[finding]), [format!("deadline: {path}: {what}{said}")]);
        }
    }

    #[test]
    fn what_is_wrong_in_two_places_is_said_of_both() {
        let at = |role: &str| {
            let roles = Pointer::new(&["spec", "pytorchReplicaSpecs"]);
            roles.key(role) / "template" / "spec" / "containers" / 0_usize / "command" / 1_usize
        };
        let message = "`--nnodes=3` takes 3 nodes, and 4 pods run this command: one of them waits forever";
        let both = ["Master", "Worker"].map(|role| finding(Level::Warn, &at(role), message, ""));
        let lines = warnings(&both);
        assert!(lines[0].ends_with("waits forever") && !lines[0].contains("Master"), "{lines:?}");
        assert!(lines[1].contains("[Worker].") && lines[1].ends_with("takes 3 nodes"), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_warning_is_not_cut_to_what_comes_before_its_main_clause() {
        let at = Pointer::new(&["spec", "template", "spec", "containers"]) / 0_usize / "command" / 2_usize;
        let message = "without `--node-rank` and an address, `torchrun` is rank 0 in each of 4 pods, and each waits for itself";
        let line = warnings(&[finding(Level::Warn, &at, message, "write it")]).remove(0);
        assert!(line.ends_with("`torchrun` is rank 0 in each of 4 pods"), "{line}");
        assert!(line.chars().count() <= LONGEST_WARNING, "{line}");
    }

    #[test]
    fn a_warning_says_why_a_field_is_wrong() {
        let job = |metadata: Value, spec: Value| {
            let container = json!({"name": "a", "image": "i", "command": ["bash", "-c", "trap 'save; exit 0' TERM; python train.py & wait"]});
            let pod = json!({"restartPolicy": "Never", "containers": [container]});
            let mut job =
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
            job["spec"]["template"] = json!({"spec": pod});
            let verdict = engine::evaluate(&Policy::default(), &NoFacts, &Request::from_file(&job, None));
            warnings(&verdict.findings)
        };
        let tracked = || json!({"name": "a", "annotations": {"argocd.argoproj.io/sync-wave": "1"}});
        for (metadata, spec, expected) in [
            (
                json!({"name": "a"}),
                json!({}),
                "pod-replacement-policy: spec.podReplacementPolicy: \
                 a container exits 0 on SIGTERM: with `Failed` a deleted pod succeeds",
            ),
            (
                json!({"name": "a"}),
                json!({"podReplacementPolicy": "Failed"}),
                "exit-status-on-sigterm: …command[2]: \
                 the container ends with 0 on SIGTERM: a pod that is drained counts as succeeded",
            ),
            (
                tracked(),
                json!({"ttlSecondsAfterFinished": 60}),
                "ttl-after-finished: spec.ttlSecondsAfterFinished: \
                 Argo CD creates the deleted job again, and it runs again",
            ),
            (
                tracked(),
                json!({}),
                "ttl-after-finished: …ttlSecondsAfterFinished: \
                 the finished job is never deleted: `ttlSecondsAfterFinished` is not set",
            ),
        ] {
            let lines = job(metadata, spec);
            assert!(lines.iter().any(|line| line == expected), "{expected}\n{lines:#?}");
        }
    }

    #[test]
    fn a_path_of_dots_costs_no_line_for_each() {
        let at = Pointer::new(&["spec", "pytorchReplicaSpecs"]).key(&".".repeat(100_000)) / "restartPolicy";
        let finding = finding(Level::Warn, &at, &"x".repeat(200), "");
        let (text, steps) =
            meter::run(meter::Bounds::default(), || warnings(&[finding]).remove(0)).expect("no bounds");
        assert!(text.chars().count() <= LONGEST_WARNING && steps < 100, "{steps}: {text}");
    }

    #[test]
    fn what_is_put_back_is_one_line() {
        let place = Pointer::new(&["spec", "template", "spec", "tolerations"]);
        assert_eq!(put_back(&[]), None);
        let line = "jobgate restored what it had filled in: spec.template.spec.tolerations";
        assert_eq!(put_back(&[Op::Add(&place / 1_usize, json!({}))]).as_deref(), Some(line));
        assert_eq!(put_back(&[Op::Add(place, json!([]))]).as_deref(), Some(line));
    }

    #[test]
    fn what_is_filled_in_is_one_line() {
        let fill = |keys: &[&'static str], value: Value| {
            let at = Pointer::new(keys);
            let fix = Fix { ops: vec![Op::Add(at.clone(), value)], safety: Safety::Safe };
            Finding { fix: Some(fix), fills: true, ..finding(Level::Note, &at, "missing", "") }
        };
        let of = |findings: &[Finding]| filled_in(findings).unwrap_or_default();
        let job = [
            fill(&["spec", "ttlSecondsAfterFinished"], 86_400.into()),
            fill(&["spec", "template", "spec", "tolerations"], json!([1])),
        ];
        assert_eq!(
            of(&job),
            "jobgate filled in: spec.ttlSecondsAfterFinished=86400, spec.template.spec.tolerations"
        );
        let item = Finding {
            path: Pointer::new(&["spec", "tolerations"]),
            ..fill(&["spec", "tolerations", "1"], json!({"operator": "Exists"}))
        };
        assert_eq!(of(&[item]), "jobgate filled in: spec.tolerations", "an item is no value of the list");
        let run_policy = Finding {
            path: Pointer::new(&["spec", "runPolicy", "ttl"]),
            ..fill(&["spec", "runPolicy"], json!({"ttl": 60}))
        };
        assert_eq!(of(&[run_policy]), "jobgate filled in: spec.runPolicy.ttl=60");
        let long: Vec<Finding> = ["a", "b", "c"]
            .map(|last| fill(&["spec", "jobTemplate", "spec", "template", "spec", last], "word".into()))
            .into();
        assert_eq!(
            of(&[long, job.to_vec()].concat()),
            "jobgate filled in: a=word, b=word, c=word, ttlSecondsAfterFinished=86400, tolerations"
        );
        let many: Vec<Finding> = (0..1000)
            .map(|_| fill(&["spec", "pytorchReplicaSpecs", "template", "tolerations"], json!([])))
            .collect();
        assert_eq!(
            of(&many),
            "jobgate filled in: spec.pytorchReplicaSpecs[template].tolerations, and 999 more"
        );
        assert_eq!(filled_in(&[finding(Level::Warn, &Pointer::root(), "no fill", "")]), None);
    }

    #[test]
    fn warnings_are_few_and_no_two_alike() {
        let same = [at(Level::Warn, 1), at(Level::Warn, 1), at(Level::Deny, 2), at(Level::Note, 3)];
        assert_eq!(warnings(&same), ["deadline: spec.list[1]: no deadline; set one"]);
        let many: Vec<Finding> = (0..25).map(|index| at(Level::Warn, index)).collect();
        let many = warnings(&many);
        assert_eq!(
            (many.len(), &*many[9]),
            (MOST_WARNINGS, "16 more warnings; `jobgate lint` lists them all")
        );
        let ten: Vec<Finding> = (0..10).map(|index| at(Level::Warn, index)).collect();
        assert!(warnings(&ten)[9].starts_with("deadline"), "ten fit");
    }

    #[test]
    fn a_patch_is_sent_with_its_type_or_not_at_all() {
        let head = Head { uid: "u".into(), ..Head::default() };
        let response = |reply: &Reply| {
            serde_json::from_slice::<Value>(&body(&head, reply)).expect("JSON")["response"].clone()
        };
        let patch = vec![Op::Add(Pointer::new(&["a/b"]), json!(["ü"]))];
        assert_eq!(response(&Reply::default()), json!({"uid": "u", "allowed": true}));
        let patched = response(&Reply { patch: patch.clone(), ..Reply::default() });
        let text = STANDARD.decode(patched["patch"].as_str().expect("text")).expect("base64");
        assert_eq!(
            serde_json::from_slice::<Value>(&text).expect("JSON"),
            json!([{"op": "add", "path": "/a~1b", "value": ["ü"]}])
        );
        assert_eq!(patched["patchType"], "JSONPatch");
        let denied = response(&Reply { patch, denial: Some("no".to_owned()), ..Reply::default() });
        let status = json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
        assert_eq!(denied, json!({"uid": "u", "allowed": false, "status": status}));
    }
}
