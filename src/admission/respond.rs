//! What the API server is told: an AdmissionReview response, and the words that people see of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::review::Head;
use crate::finding::{Finding, Level, Op};
use crate::patch;

/// The longest warning, in Unicode scalar values; the API server cuts and drops beyond its own limits (kubernetes.md §7.1).
pub const LONGEST_WARNING: usize = 120;
/// The most warnings in one answer.
pub const MOST_WARNINGS: usize = 10;
/// The most findings that a denial lists.
pub const MOST_FINDINGS: usize = 32;
/// The longest line of a denial, in bytes.
pub const LONGEST_LINE: usize = 1024;
/// The longest value of an audit annotation, in bytes.
const LONGEST_ANNOTATION: usize = 1024;

/// What is decided about a request, as the wire has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reply {
    /// Why it is refused, for people; nothing where it is admitted.
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
    let patch = (reply.denial.is_none() && !reply.patch.is_empty()).then(|| STANDARD.encode(patch::to_json(&reply.patch).to_string()));
    let status = reply.denial.as_deref().map(|message| Status { status: "Failure", message, reason: "Forbidden", code: 403 });
    let response = Response {
        uid: &head.uid,
        allowed: reply.denial.is_none(),
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch,
        audit_annotations: &reply.audit,
        warnings: &reply.warnings,
    };
    let review = Review { api_version: head.version.as_str(), kind: "AdmissionReview", response };
    // Strings and maps with string keys always serialise; were it otherwise, an empty body is an error to the API server and it fails open.
    serde_json::to_vec(&review).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
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
struct Status<'a> {
    status: &'static str,
    message: &'a str,
    reason: &'static str,
    code: u16,
}

/// Returns the message of a denial: how many findings, then each in a line of its own; what only warns comes last, under its own count.
///
/// kubectl prints it behind `admission webhook "…" denied the request: `.
#[must_use]
pub(super) fn denial(findings: &[Finding]) -> String {
    let mut message = String::new();
    let mut room = MOST_FINDINGS;
    for (level, one, many) in [(Level::Deny, "problem", "problems"), (Level::Warn, "warning", "warnings")] {
        let lines: Vec<String> = findings.iter().filter(|finding| finding.level == level).map(|finding| line(finding, true)).collect();
        if lines.is_empty() {
            continue;
        }
        let separator = if message.is_empty() { "" } else { "\n" };
        let _ = write!(message, "{separator}{} {}:", lines.len(), if lines.len() == 1 { one } else { many });
        for text in lines.iter().take(room) {
            message.push('\n');
            message.push_str(cut(text, LONGEST_LINE, "…").as_ref());
        }
        if lines.len() > room {
            let _ = write!(message, "\n… and {} more", lines.len() - room);
        }
        room = room.saturating_sub(lines.len());
    }
    message
}

/// Returns the warnings for the findings of level `warn`: one line each, no two alike, and a last one that counts what is left out.
#[must_use]
pub(super) fn warnings(findings: &[Finding]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.level == Level::Warn) {
        let full = line(finding, true);
        let text = if full.chars().count() <= LONGEST_WARNING { full } else { shorten(&line(finding, false)) };
        if !out.contains(&text) {
            out.push(text);
        }
    }
    if out.len() > MOST_WARNINGS {
        let more = out.len() - (MOST_WARNINGS - 1);
        out.truncate(MOST_WARNINGS - 1);
        out.push(format!("{more} more warnings; `jobgate lint` lists them all"));
    }
    out
}

/// Returns a text as one warning: one line, not too long.
#[must_use]
pub(super) fn shorten(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(LONGEST_WARNING) {
        None => text,
        Some(_) => text.chars().take(LONGEST_WARNING - 1).chain(['…']).collect(),
    }
}

/// Returns the value of an audit annotation: one line, not too long.
pub(super) fn annotation(text: &str) -> String {
    cut(&one_line(text), LONGEST_ANNOTATION, "…").into_owned()
}

/// Returns a finding as one line: `rule: path: what; fix`.
fn line(finding: &Finding, with_help: bool) -> String {
    let path = finding.path.to_string();
    let mut text = String::from(finding.rule);
    if !path.is_empty() {
        text = text + ": " + &path;
    }
    text = text + ": " + &finding.message;
    if with_help && !finding.help.is_empty() {
        text = text + "; " + &finding.help;
    }
    one_line(&text)
}

/// Puts a space in the place of everything that would break a line, colour a terminal, or turn text around.
pub(super) fn one_line(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// Cuts a text to a number of bytes, at a character's border, and says so with a mark.
fn cut<'t>(text: &'t str, most: usize, mark: &str) -> std::borrow::Cow<'t, str> {
    if text.len() <= most {
        return text.into();
    }
    let mut end = most - mark.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (text[..end].to_owned() + mark).into()
}
