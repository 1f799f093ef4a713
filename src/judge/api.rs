//! What the API server would say of an object before anybody's webhook is asked: types, unknown fields,
//! defaults, validation.

pub mod apply;
pub mod defaults;
mod dump;
mod place;
mod schema;
pub mod stored;
pub(crate) mod structure;
pub mod validate;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use crate::judge::checks::{
    self, API_SERVER, FIELD_TYPE, PLACEHOLDER, SCHEDULE_NEVER_FIRES, TRAINING_OPERATOR, UNKNOWN_FIELD,
};
use crate::judge::finding::{Finding, Level, Part, Safety};
use crate::k8s::cron::Schedule;
use crate::kinds::{Kind, Workload};
use crate::text::patch::Op;
use crate::text::placeholder::{is_placeholder, is_to_replace};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use stored::Stored;
use validate::{Cause, Reason};

/// How an object is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As a manifest: it may be a part of an object that kustomize completes, and hold placeholders that some
    /// tool replaces.
    Manifest,
    /// As the body of a request: what it says is all that it says.
    Body {
        /// Whether unknown fields are refused, as kubectl asks for by default, or dropped.
        strict: bool,
    },
}

/// Returns what the API server, and kubectl before it, would find wrong with a whole object that is to be
/// created.
///
/// Ids: [`FIELD_TYPE`] (refused), [`API_SERVER`] (refused, in the server's words), [`TRAINING_OPERATOR`]
/// (refused by its webhook), [`UNKNOWN_FIELD`] (dropped or refused), [`PLACEHOLDER`] (nobody can say) and
/// [`SCHEDULE_NEVER_FIRES`]. Says nothing of objects whose kind or version is not known here, and of a part
/// of an object nothing that only a whole one can lack.
///
/// A rule of Jobgate's may speak of the same field: both then name the same `path`.
#[must_use]
pub fn check(object: &Value) -> Vec<Finding> {
    let mut found = structure::check(object, Reading::Manifest);
    if Kind::of(object).is_none() {
        return found;
    }
    let partial = LazyCell::new(|| Workload::of(object).is_some_and(|workload| workload.is_partial()));
    let speaks = |cause: &Cause| {
        placeholder_of(cause, object).is_some() || !*partial || holds_of_a_part(cause, object)
    };
    let stored = defaults::stored(object);
    let causes = validate::validate(&stored);
    tell(object, causes.into_iter().filter(speaks), API_SERVER, &mut found);
    tell(
        object,
        validate::operator_refusals(&stored).into_iter().filter(speaks),
        TRAINING_OPERATOR,
        &mut found,
    );
    tell(object, validate::pods_refused(&stored).into_iter().filter(speaks), PODS, &mut found);
    found.extend(never_fires(object));
    dump::explain(object, &mut found);
    fold(found, object)
}

/// Says once what is found of a placeholder that is in several places.
fn fold(found: Vec<Finding>, object: &Value) -> Vec<Finding> {
    // Only images are of no interest to the rules, so they are counted by themselves.
    let mut places: HashMap<(&str, bool), (usize, usize)> = HashMap::new();
    let mut kept: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        if finding.rule == PLACEHOLDER
            && let Some(text) = finding.path.find(object).and_then(Value::as_str)
        {
            let (_, more) = places
                .entry((text, is_of_image(&finding)))
                .and_modify(|(_, more)| *more += 1)
                .or_insert((kept.len(), 0));
            if *more > 0 {
                continue;
            }
        }
        kept.push(finding);
    }
    for (first, more) in places.into_values().filter(|(_, more)| *more > 0) {
        let place = if more == 1 { "place" } else { "places" };
        let message = format!("{}, here and at {more} more {place}", kept[first].message);
        kept[first].message = message.into();
    }
    kept
}

/// Tells whether a finding is about an image, which no rule reads.
pub(crate) fn is_of_image(finding: &Finding) -> bool {
    matches!(finding.path.last(), Some(Token::Key(key)) if **key == *"image")
}

/// Takes out what is said of a field that is missing because its author has written it under another name, or
/// in another place: what is said of that name has a fix that moves it.
pub(crate) fn prefer_renames(findings: &mut Vec<Finding>, refused: &mut Vec<Finding>) {
    let moved = refused
        .iter()
        .filter(|finding| finding.rule == UNKNOWN_FIELD && finding.level == Level::Deny)
        .filter_map(|finding| finding.fix.as_ref());
    let mut places = BTreeSet::new();
    for op in moved.flat_map(|fix| &fix.ops) {
        if let Op::Add(at, value) = op {
            places.insert(at.clone());
            // The mapping around it may have to be made.
            if let Some((field, _)) =
                value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next())
            {
                places.insert(at.key(field));
            }
        }
    }
    let moved = places;
    if !moved.is_empty() {
        findings.retain(|finding| !moved.contains(&finding.path));
        refused.retain(|finding| finding.rule == UNKNOWN_FIELD || !moved.contains(&finding.path));
    }
}

/// Returns those findings of [`check`] that may have a fix: what is wrong with the structure. It takes a
/// fraction of the time.
#[must_use]
pub fn fixable(object: &Value) -> Vec<Finding> {
    structure::check(object, Reading::Manifest)
}

/// A request for an object of a kind that is known here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    /// The object as its author wrote it; findings point into it.
    pub(crate) written: &'a Value,
    /// What has become of it by the time the API server validates it: its [defaults](defaults::defaulted),
    /// and what mutating webhooks have made of it.
    pub(crate) stored: &'a Value,
    /// The object that it replaces, with defaults; nothing on CREATE.
    pub(crate) old: Option<&'a Value>,
    /// Whether unknown fields are refused.
    pub(crate) strict: bool,
}

/// What the API server and the training operator say to a request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Whether the API server refuses the body when it reads it: no webhook ever sees the object.
    pub(crate) unreadable: bool,
    /// Whether it cannot be told, for a placeholder where the API server must know a value.
    pub(crate) open: bool,
    /// What is found, refusals and remarks.
    pub(crate) findings: Vec<Finding>,
}

/// Returns what the API server says to a request, and what the training operator's webhook would say after
/// it.
pub(crate) fn answer(sent: &Sent<'_>) -> Answer {
    let mut findings = structure::check(sent.written, Reading::Body { strict: sent.strict });
    let is_custom = Kind::of(sent.written).is_some_and(|kind| !kind.is_built_in());
    // Types of custom resources are looked at only after the mutating webhooks; unknown fields before.
    let refuses = |finding: &Finding| {
        finding.level == Level::Deny
            && (finding.rule == UNKNOWN_FIELD || !is_custom && finding.rule == FIELD_TYPE)
    };
    let unreadable = findings.iter().any(refuses);
    let stored = Stored::of(sent.stored);
    let causes = match sent.old {
        Some(old) => validate::validate_update(&stored, &Stored::of(old)),
        None => validate::validate(&stored),
    };
    // What some tool will put there may be fine; that an object is as it was, nobody can say of an image to
    // come.
    let open = causes.iter().any(|cause| placeholder_of(cause, sent.written).is_some());
    tell(sent.written, causes, API_SERVER, &mut findings);
    tell(sent.written, validate::operator_refusals(&stored), TRAINING_OPERATOR, &mut findings);
    tell(sent.written, validate::pods_refused(&stored), PODS, &mut findings);
    findings.extend(never_fires(sent.written));
    if sent.old.is_none() {
        dump::explain(sent.written, &mut findings);
    }
    let open = open || findings.iter().any(|finding| finding.rule == PLACEHOLDER && !is_of_image(finding));
    Answer { unreadable, open, findings: fold(findings, sent.written) }
}

/// What [`tell`] is given for what the API server says only when a controller makes pods.
const PODS: &str = "pods";

/// Makes findings of causes, but for those that say no more than what is found already.
fn tell(
    object: &Value,
    causes: impl IntoIterator<Item = Cause>,
    rule: &'static str,
    found: &mut Vec<Finding>,
) {
    let mut known = Known::of(found);
    for cause in causes {
        if known.imply(&cause) {
            continue;
        }
        let finding = match placeholder_of(&cause, object) {
            Some((at, text)) => structure::held(at.clone(), text),
            None => finding(rule, &cause, object),
        };
        known.add(&finding);
        known.told.insert(cause);
        found.push(finding);
    }
}

/// What is found already, to be looked up: a hostile object has thousands of causes.
#[derive(Default)]
struct Known {
    /// The places of values that are of the wrong type, or placeholders.
    unread: BTreeSet<Pointer>,
    /// The places that the API server has spoken of.
    refused: BTreeSet<Pointer>,
    told: HashSet<Cause>,
}

impl Known {
    fn of(found: &[Finding]) -> Self {
        let mut known = Self::default();
        found.iter().for_each(|finding| known.add(finding));
        known
    }

    fn add(&mut self, finding: &Finding) {
        match finding.rule {
            FIELD_TYPE | PLACEHOLDER => self.unread.insert(finding.path.clone()),
            API_SERVER => self.refused.insert(finding.path.clone()),
            _ => false,
        };
    }

    /// Tells whether a cause was told, or is only what follows from a field of the wrong type, a placeholder,
    /// or a required field that is missing.
    fn imply(&self, cause: &Cause) -> bool {
        // Where the server names the mapping around a value, the value decides: another one in it may be as
        // wrong.
        let named = Some(&cause.path).filter(|path| !cause.pointer.is_within(path));
        self.has_unread(&cause.pointer)
            || named.is_some_and(|path| self.has_unread(path))
            || cause.reason == Reason::Required && self.refused.contains(&cause.path)
            || self.told.contains(cause)
    }

    /// Tells whether what could not be read is at a place, inside of it, or around it.
    fn has_unread(&self, at: &Pointer) -> bool {
        if self.unread.is_empty() {
            return false;
        }
        // A place comes before what is inside of it.
        let inside = self.unread.range(at..).next().is_some_and(|next| next.is_within(at));
        inside
            || std::iter::successors(at.parent(), Pointer::parent).any(|around| self.unread.contains(&around))
    }
}

/// Returns the place and the text of the placeholder that a cause is about: what is refused as it is, and
/// will be another value.
fn placeholder_of<'c, 'o>(cause: &'c Cause, object: &'o Value) -> Option<(&'c Pointer, &'o str)> {
    // A name in capitals is one to replace only where such a name is refused.
    let is_refused = matches!(cause.reason, Reason::Invalid | Reason::NotSupported | Reason::NotFound)
        && !cause.message.ends_with("immutable");
    let holds = |text: &str| is_placeholder(text) || is_refused && is_to_replace(text);
    [&cause.path, &cause.pointer]
        .into_iter()
        .find_map(|at| Some((at, at.find(object)?.as_str().filter(|text| holds(text))?)))
}

/// Tells whether a cause holds of a kustomize patch as well: where it says `null`, nothing or nonsense
/// itself.
fn holds_of_a_part(cause: &Cause, object: &Value) -> bool {
    match cause.reason {
        Reason::Required => is_said_to_be_nothing(&cause.path, object),
        Reason::NotSupported => cause.path.find(object).is_some_and(|value| !value.is_null()),
        _ => false,
    }
}

/// Tells whether the author wrote `null`, `[]` or `{}` at a place, or around it.
fn is_said_to_be_nothing(place: &Pointer, object: &Value) -> bool {
    match place.nearest(object).find(object) {
        Some(Value::Null) | None => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

fn finding(rule: &'static str, cause: &Cause, object: &Value) -> Finding {
    let (what, level) = match rule {
        API_SERVER => ("the API server refuses this", Level::Deny),
        PODS => ("the API server refuses the pods of this job", Level::Warn),
        _ => ("the training operator refuses this", Level::Warn),
    };
    let message = format!("{what}: {}: {}", cause.path, cause.message);
    let rule = if rule == PODS { API_SERVER } else { rule };
    let verb = match cause.reason {
        Reason::Required => "set",
        Reason::Forbidden => "remove",
        Reason::NotFound => "add what it names, or change",
        _ => "fix",
    };
    let help: Cow<'_, str> = match cause.message.ends_with("field is immutable") {
        true => "delete the object and create it again, or create one of another name".into(),
        false => format!("{verb} `{}`", cause.pointer).into(),
    };
    let at = cause.pointer.nearest(object);
    let whole = at == cause.pointer && cause.reason != Reason::Required;
    let mut finding = checks::finding(rule, level, at, message, help);
    // Now and then the server spells a field as the API does not; what is there is what people look for.
    let is_beside = cause.path.parent() == cause.pointer.parent();
    let is_misspelled =
        is_beside && cause.path.find(object).is_none() && cause.pointer.find(object).is_some();
    finding.path = if is_misspelled { cause.pointer.clone() } else { cause.path.clone() };
    if !whole {
        finding.part = Part::Key;
    }
    if rule == TRAINING_OPERATOR && cause.message.ends_with("container with name pytorch") {
        rename(&mut finding, object);
    }
    finding
}

/// Proposes the name that the training operator wants of a container, where there is only one. Logs and
/// metrics go by it, so that is for people to say.
fn rename(finding: &mut Finding, object: &Value) {
    let containers = finding.path.clone();
    let Some([only]) = containers.find(object).and_then(Value::as_array).map(|items| &**items) else {
        return;
    };
    let at = containers / 0 / "name";
    if let Some(name) = only.get("name").and_then(Value::as_str) {
        let help = format!("rename the container `{}` to `pytorch`", name.escape_debug());
        finding.pointer = at.clone();
        finding.part = Part::Value;
        finding.help(help).fix(Safety::Unsafe, vec![Op::Replace(at, "pytorch".into())]);
    }
}

fn never_fires(object: &Value) -> Option<Finding> {
    if Kind::of(object).is_none_or(|kind| kind.schedule.is_none()) {
        return None;
    }
    // Whoever suspends it says so, and often writes such a schedule to say it twice.
    if object.get("spec")?.get("suspend") == Some(&Value::Bool(true)) {
        return None;
    }
    let text = object.get("spec")?.get("schedule")?.as_str()?;
    if !Schedule::parse(text).ok()?.never_fires() {
        return None;
    }
    let message =
        format!("the schedule `{}` matches no date, so this CronJob never runs", text.escape_debug());
    let help = "write a day that the month has, or `suspend: true` if it is not to run by itself";
    Some(checks::finding(
        SCHEDULE_NEVER_FIRES,
        Level::Warn,
        Pointer::of(&["spec", "schedule"]),
        message,
        help,
    ))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests;
