//! What the API server would say of an object before anybody's webhook is asked: types, unknown fields, defaults, validation.

pub mod defaults;
mod schema;
mod structure;
pub mod validate;

use serde_json::Value;

use crate::checks::{self, API_SERVER, FIELD_TYPE, PLACEHOLDER, SCHEDULE_NEVER_FIRES};
use crate::finding::{Finding, Level, Part};
use crate::k8s::cron::Schedule;
use crate::placeholder::is_placeholder;
use crate::pointer::Pointer;
use crate::workload::{Kind, Workload};
use validate::{Cause, Reason};

/// Returns what the API server, and kubectl before it, would find wrong with a whole object that is to be created.
///
/// Ids: [`FIELD_TYPE`] (refused), [`API_SERVER`] (refused, in the server's words), [`UNKNOWN_FIELD`](checks::UNKNOWN_FIELD) (dropped or refused),
/// [`PLACEHOLDER`] (nobody can say) and [`SCHEDULE_NEVER_FIRES`]. Says nothing of objects whose kind or version is not known here, and of a part of an
/// object nothing that only a whole one can lack.
///
/// A rule of Jobgate's may speak of the same field: both then name the same `path`.
#[must_use]
pub fn check(object: &Value) -> Vec<Finding> {
    let mut found = structure::check(object);
    let Some(workload) = Workload::of(object) else { return found };
    let partial = workload.is_partial();
    for cause in validate::validate(&defaults::defaulted(object)) {
        if !(is_known(&cause, &found) || stands_in(&cause, object) || partial && !holds_of_a_part(&cause, object)) {
            found.push(finding(cause, object));
        }
    }
    if workload.kind == Kind::CronJob {
        found.extend(never_fires(object));
    }
    found
}

/// Tells whether a cause is only what follows from a field of the wrong type, or from a stand-in.
fn is_known(cause: &Cause, found: &[Finding]) -> bool {
    let spoken = found.iter().filter(|finding| [FIELD_TYPE, PLACEHOLDER, API_SERVER].contains(&finding.rule));
    spoken.map(|finding| &finding.path).any(|path| cause.path.is_within(path) || path.is_within(&cause.path) || cause.pointer.is_within(path))
}

/// Tells whether the value is one that some tool is meant to replace.
fn stands_in(cause: &Cause, object: &Value) -> bool {
    [&cause.path, &cause.pointer].into_iter().any(|place| place.find(object).and_then(Value::as_str).is_some_and(is_placeholder))
}

/// Tells whether a cause holds of a kustomize patch as well: where it says `null`, nothing or nonsense itself.
fn holds_of_a_part(cause: &Cause, object: &Value) -> bool {
    let nothing =
        |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty);
    match cause.reason {
        Reason::Required => is_said_to_be_nothing(&cause.path, object),
        Reason::NotSupported => cause.path.find(object).is_some_and(|value| !value.is_null()),
        _ => false,
    }
}

/// Tells whether the author wrote `null`, `[]` or `{}` at a place, or around it.
fn is_said_to_be_nothing(place: &Pointer, object: &Value) -> bool {
    match nearest(place, object).find(object) {
        Some(Value::Null) | None => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

/// Returns the place itself, or the nearest place around it that exists.
fn nearest(place: &Pointer, object: &Value) -> Pointer {
    let mut place = place.clone();
    while place.find(object).is_none() {
        match place.parent() {
            Some(parent) => place = parent,
            None => break,
        }
    }
    place
}

fn finding(cause: Cause, object: &Value) -> Finding {
    let at = nearest(&cause.pointer, object);
    let who = if Kind::of(object) == Some(Kind::PyTorchJob) { "the training operator" } else { "the API server" };
    let message = format!("{who} refuses this: {}: {}", cause.path, cause.message);
    let name = cause.path.last().map(|_| cause.path.to_string()).unwrap_or_default();
    let help = match cause.reason {
        Reason::Required => format!("set `{name}`"),
        Reason::Forbidden => format!("remove `{name}`"),
        _ => format!("mend `{name}`"),
    };
    let exists = at == cause.pointer;
    let mut finding = checks::finding(API_SERVER, Level::Deny, at, message, help);
    finding.path = cause.path;
    if !exists || cause.reason == Reason::Required {
        finding.part = Part::Key;
    }
    finding
}

fn never_fires(object: &Value) -> Option<Finding> {
    let text = object.get("spec")?.get("schedule")?.as_str()?;
    if !Schedule::parse(text).ok()?.never_fires() {
        return None;
    }
    let message = format!("the schedule `{}` fits no date, so this CronJob never runs", text.escape_debug());
    let help = "write a day that the month has".to_owned();
    Some(checks::finding(SCHEDULE_NEVER_FIRES, Level::Warn, Pointer::of(&["spec", "schedule"]), message, help))
}
