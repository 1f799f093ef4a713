//! What an API server rejects, and what Jobgate says that it rejects, in one form.
#![allow(clippy::redundant_pub_crate, unreachable_pub, reason = "shared by test programs")]

use std::collections::BTreeSet;

use jobgate::judge::api;
use jobgate::judge::api::defaults::stored;
use jobgate::judge::api::validate::{validate, validate_update};
use jobgate::judge::checks::{FIELD_TYPE, TRAINING_OPERATOR, UNKNOWN_FIELD};
use jobgate::judge::finding::Level;
use jobgate::kinds::Kind;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::Value;

/// A field with the server's message, or without one where it names the field only.
pub type Said = BTreeSet<(String, Option<String>)>;

/// What is said of an object: not readable, or what is wrong with it.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Unreadable,
    Rejected(Said),
    Accepted,
}

/// Returns a message without what stands for a whole mapping: the server prints Go's names of its fields, and
/// we leave it out.
fn brief(message: &str) -> String {
    match (message.strip_prefix("Invalid value: {"), message.rfind("}: ")) {
        (Some(_), Some(end)) => format!("Invalid value: {{…{}", &message[end..]),
        _ => message.to_owned(),
    }
}

/// The validation of custom resources writes all paths with dots, but for the items of lists.
pub fn plain(path: &str) -> String {
    let mut parts = path.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let key = part.split_once(']').filter(|(key, _)| !key.bytes().all(|byte| byte.is_ascii_digit()));
        plain += &key.map_or_else(|| format!("[{part}"), |(key, rest)| format!(".{key}{rest}"));
    }
    plain
}

/// Tells whether a definition in the cluster says what is valid.
pub fn is_custom(object: &Value) -> bool {
    Kind::from_object(object).is_some_and(|kind| !kind.is_built_in())
}

/// Returns what Jobgate says; `old` is what the object replaces.
pub fn ours(object: &Value, old: Option<&Value>) -> Answer {
    let found = api::check(object);
    let custom = is_custom(object);
    if found.iter().any(|finding| {
        finding.rule == UNKNOWN_FIELD || finding.rule == FIELD_TYPE && finding.level == Level::Deny && !custom
    }) {
        return Answer::Unreadable;
    }
    let causes = match old {
        Some(old) => validate_update(&stored(object), &stored(old)),
        None => validate(&stored(object)),
    };
    let said = |path: &Pointer, message: &str| {
        if custom { (plain(&path.to_string()), None) } else { (path.to_string(), Some(brief(message))) }
    };
    let mut all: Said = causes.iter().map(|cause| said(&cause.path, &cause.message)).collect();
    if custom {
        let types =
            found.iter().filter(|finding| finding.level == Level::Deny && finding.rule != TRAINING_OPERATOR);
        all.extend(types.map(|finding| said(&finding.path, "")));
    }
    if all.is_empty() { Answer::Accepted } else { Answer::Rejected(all) }
}

/// Returns what an API server says: a status, and the causes of a rejection. `custom` is for a custom
/// resource.
pub fn theirs(status: u64, causes: &Value, custom: bool) -> Answer {
    if status < 300 {
        return Answer::Accepted;
    }
    if status != 422 {
        return Answer::Unreadable;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = causes.as_array().map_or(&[][..], Vec::as_slice);
    let said = causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"])));
    let said = said
        .map(|(field, message)| if custom { (plain(&field), None) } else { (field, Some(brief(&message))) });
    // The second mention of a field that the scale subresource reads, and what is said of no field.
    Answer::Rejected(said.filter(|(field, _)| field != "<nil>" && !field.starts_with('.')).collect())
}
