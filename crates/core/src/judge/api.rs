//! What the API server does with an object before webhooks are called: types, unknown fields, defaults,
//! validation.

pub mod apply;
mod consequences;
pub mod defaults;
mod dump;
mod duplicates;
mod place;
mod placeholders;
mod reported_places;
mod schema;
pub mod stored_object;
pub mod structure;
mod template_pods;
pub mod validate;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};

use crate::judge::checks::{
    self, API_SERVER, APP_WRAPPER_OPERATOR, FIELD_TYPE, PLACEHOLDER, RAY_OPERATOR, SCHEDULE_NEVER_FIRES,
    TRAINING_OPERATOR, UNKNOWN_FIELD, VOLCANO_OPERATOR,
};
use crate::judge::finding::{Finding, Level, Part, Safety};
use crate::judge::fold::{Folded, ItemWalk, Way, each_place};
use crate::k8s::cron::Schedule;
use crate::kinds::{self, Api, Kind, Operator, Workload};
use crate::text::patch::Op;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use placeholders::{may_hold, placeholder_of};
pub use reported_places::prefer_denials;
use reported_places::{KnownPlaces, keep_items};
use stored_object::Stored;
pub use template_pods::{MadePod, made_pods};
pub(crate) use validate::MOST_VALUES;
use validate::{Cause, Reason};

/// What the checked object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectReading {
    /// A manifest: it may be partial (a kustomize patch), and contain placeholders.
    Manifest,
    /// An object inside a manifest, which a controller creates without strict validation.
    Inside,
    /// The body of a request: always the whole object.
    Body {
        /// Whether unknown fields are rejected, as kubectl requests by default, or dropped.
        strict: bool,
    },
}

/// Returns what kubectl and the API server find wrong with a new object.
///
/// Ids: [`FIELD_TYPE`] (rejected), [`API_SERVER`] (rejected, with the server's message),
/// [`TRAINING_OPERATOR`] (rejected by its webhook), [`UNKNOWN_FIELD`] (dropped or rejected), [`PLACEHOLDER`]
/// (unknown value) and [`SCHEDULE_NEVER_FIRES`]. Objects of unknown kinds or versions have no findings;
/// partial objects none about what is missing.
///
/// Where a rule reports the same field, both findings have the same `path`.
#[must_use]
pub fn check(object: &Value) -> Vec<Finding> {
    let mut found = check_as(object, ObjectReading::Manifest);
    found.iter_mut().for_each(Finding::tell_items);
    found
}

fn check_as(object: &Value, reading: ObjectReading) -> Vec<Finding> {
    let mut found = structure::check(object, reading);
    if Kind::from_object(object).is_none() {
        return found;
    }
    let partial =
        LazyCell::new(|| Workload::from_object(object).is_some_and(|workload| workload.is_partial()));
    let applies = |cause: &mut Cause| {
        placeholder_of(cause, object).is_some() || !*partial || applies_to_part(cause, object)
    };
    let stored = defaults::stored(object);
    report_causes(object, validate::validate(&stored), &stored, applies, &mut found);
    // Free it first: it contains the objects inside, which are converted again below.
    drop(stored);
    found.extend(never_fires(object));
    found.extend(of_components(object, |inner| check_as(inner, ObjectReading::Inside)));
    dump::explain(object, &mut found);
    fold(found, object)
}

/// Returns the findings in the objects inside another one, whose operator creates them unchanged.
fn of_components(object: &Value, check: impl Fn(&Value) -> Vec<Finding>) -> Vec<Finding> {
    let mut found = Folded::default();
    let Some(path) = Kind::from_object(object).and_then(|kind| kind.components) else { return Vec::new() };
    kinds::each_at(&kinds::Part::root(object), path, &mut |part| {
        let Some(inner) =
            part.value.filter(|inner| Kind::from_object(inner).is_some_and(|kind| kind.components.is_none()))
        else {
            return;
        };
        found.extend(check(inner).into_iter().map(|mut finding| {
            finding.path = part.pointer.join(&finding.path);
            finding.move_below(&part.pointer);
            if let Some(items) = &mut finding.items {
                items.move_below(&part.pointer);
            }
            finding
        }));
    });
    found.into_vec()
}

/// Merges the findings for a placeholder that is in several places.
fn fold(found: Vec<Finding>, object: &Value) -> Vec<Finding> {
    // No rule reads images, so they are counted separately.
    let mut places: HashMap<(String, bool), (usize, usize)> = HashMap::new();
    let mut kept: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        if finding.rule == PLACEHOLDER
            && let Some(text) = duplicates::placeholder_in(&finding, object)
        {
            let text = text.to_owned();
            let (first, more) = places.entry((text, is_of_image(&finding))).or_insert((kept.len(), 0));
            if *first < kept.len() {
                *more += finding.count();
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
    duplicates::one_placeholder(kept, object)
}

/// Tells whether a finding is about an image.
pub fn is_of_image(finding: &Finding) -> bool {
    matches!(finding.path.last(), Some(Token::Key(key)) if **key == *"image")
}

/// Removes findings about a missing field that the author wrote under another name or in another place: the
/// finding for that name has a fix that moves it.
pub fn prefer_renames(findings: &mut Vec<Finding>, refused: &mut Vec<Finding>) {
    let moved = refused
        .iter()
        .filter(|finding| finding.rule == UNKNOWN_FIELD && finding.level == Level::Deny)
        .filter_map(|finding| finding.fix.as_ref());
    let mut places = BTreeSet::new();
    for op in moved.flat_map(|fix| &fix.ops) {
        if let Op::Add(at, value) = op {
            places.insert(at.clone());
            // The fix may add the mapping around it.
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

/// Returns the findings of [`check`] that may have a fix, in a fraction of the time.
#[must_use]
pub fn fixable(object: &Value) -> Vec<Finding> {
    // The training operator's rejections have fixes, too.
    let is_training =
        |kind: &Kind| matches!(kind.api, Api::Custom { operator: Some(Operator::Training { .. }), .. });
    if Kind::from_object(object).is_some_and(|kind| is_training(&kind)) {
        return check(object);
    }
    let mut found = structure::check(object, ObjectReading::Manifest);
    found.extend(of_components(object, |inner| structure::check(inner, ObjectReading::Inside)));
    found.iter_mut().for_each(Finding::tell_items);
    found
}

/// A request for an object of a known kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentObject<'a> {
    /// The object as sent; findings point into it.
    pub(crate) written: &'a Value,
    /// The object as the API server validates it: with [defaults](defaults::defaulted) and the patches of
    /// mutating webhooks.
    pub(crate) stored: &'a Value,
    /// The old object, with defaults; nothing on CREATE.
    pub(crate) old: Option<&'a Value>,
    /// Whether unknown fields are rejected.
    pub(crate) strict: bool,
}

/// The response of the API server and the training operator to a request.
#[derive(Debug, Default)]
pub(crate) struct ApiAnswer {
    /// Whether the API server rejects the body before it calls webhooks.
    pub(crate) unreadable: bool,
    /// Whether the result is unknown because of a placeholder.
    pub(crate) open: bool,
    /// Errors and warnings.
    pub(crate) findings: Vec<Finding>,
}

/// Returns the response to a request.
pub(crate) fn answer(sent: &SentObject<'_>) -> ApiAnswer {
    let mut findings = structure::check(sent.written, ObjectReading::Body { strict: sent.strict });
    let is_custom = Kind::from_object(sent.written).is_some_and(|kind| !kind.is_built_in());
    // Types of custom resources are checked after mutating webhooks, unknown fields before.
    let refuses = |finding: &Finding| {
        finding.level == Level::Deny
            && (finding.rule == UNKNOWN_FIELD || !is_custom && finding.rule == FIELD_TYPE)
    };
    let unreadable = findings.iter().any(refuses);
    let stored = Stored::from_value(sent.stored);
    let causes = match sent.old {
        Some(old) => validate::validate_update(&stored, &Stored::from_value(old)),
        None => validate::validate(&stored),
    };
    let open = causes.iter().any(|cause| placeholder_of(cause, sent.written).is_some());
    report_causes(sent.written, causes, &stored, |_| true, &mut findings);
    findings.extend(never_fires(sent.written));
    if sent.old.is_none() {
        dump::explain(sent.written, &mut findings);
    }
    let open = open || findings.iter().any(|finding| finding.rule == PLACEHOLDER && !is_of_image(finding));
    let mut findings = fold(findings, sent.written);
    findings.iter_mut().for_each(Finding::tell_items);
    ApiAnswer { unreadable, open, findings }
}

/// Stands for [`API_SERVER`] where the server rejects only the pods that a controller creates.
const PODS: &str = "pods";

/// Why pods of an object are refused.
pub(crate) struct RefusedPod {
    /// Where, and what is said of it.
    pub(crate) finding: Finding,
    /// Whether something is missing that a webhook for pods may add.
    pub(crate) is_missing: bool,
}

/// Returns why the API server refuses the pods or Jobs that are made of the templates in a custom resource. What a placeholder
/// stands for is not known. Pointers are those in the object. Nothing is known of a `spec` with more than [`MOST_VALUES`] values.
pub(crate) fn refused_pods(kind: Kind, object: &Value) -> Option<Vec<RefusedPod>> {
    let refused = validate::pods_refused(kind, object)?;
    let who = if kind.made.is_refused_first { validate::operator_check(Some(kind)) } else { PODS };
    let findings = |causes, is_missing| {
        let causes = duplicates::once(causes, object);
        causes
            .into_iter()
            .filter(|cause| placeholder_of(cause, object).is_none())
            .map(|cause| RefusedPod { finding: finding(who, &cause, object), is_missing })
            .collect::<Vec<_>>()
    };
    let mut all = findings(refused.wrong, false);
    all.extend(findings(refused.missing, true));
    Some(all)
}

/// Adds findings for the causes of the API server, and for those of the operator.
fn report_causes(
    object: &Value,
    causes: Vec<Cause>,
    stored: &Stored<'_>,
    applies: impl Fn(&mut Cause) -> bool,
    found: &mut Vec<Finding>,
) {
    let mut known = KnownPlaces::new(found);
    for (causes, rule) in
        [(causes, API_SERVER), (validate::operator_refusals(stored), validate::operator_check(stored.kind()))]
    {
        let causes = duplicates::once(causes, object);
        let applying = causes.into_iter().filter_map(|mut cause| applies(&mut cause).then_some(cause));
        add_findings(object, applying, rule, &mut known, found);
    }
    // What else is refused of pods is said by a rule.
    if let Some(kind) = stored.kind().filter(|kind| !kind.is_built_in() && may_hold(object, "")) {
        let refused = validate::pods_refused(kind, object);
        let causes = refused.into_iter().flat_map(|refused| refused.wrong.into_iter().chain(refused.missing));
        let causes = duplicates::once(causes.collect(), object);
        let held = causes.into_iter().filter(|cause| placeholder_of(cause, object).is_some());
        let applying = held.filter_map(|mut cause| applies(&mut cause).then_some(cause));
        add_findings(object, applying.collect::<Vec<_>>(), PODS, &mut known, found);
    }
}

/// Adds findings for causes, except those that follow from other findings.
fn add_findings(
    object: &Value,
    causes: impl IntoIterator<Item = Cause>,
    rule: &'static str,
    known: &mut KnownPlaces,
    found: &mut Vec<Finding>,
) {
    // An operator may have another reason to reject what the server rejects.
    known.reported.clear();
    for mut cause in causes {
        if known.imply(&mut cause, object) {
            continue;
        }
        let finding = match placeholder_of(&cause, object) {
            Some(held) => Finding { items: cause.items.clone(), ..held.finding() },
            None => finding(rule, &cause, object),
        };
        known.add(&finding);
        known.reported.insert(cause);
        found.push(finding);
    }
}

/// Tells whether a cause applies to a partial object too: where it explicitly sets nothing or a wrong value.
/// Drops those of many items to which it does not apply.
fn applies_to_part(cause: &mut Cause, object: &Value) -> bool {
    let reason = cause.reason;
    let applies = |place: &ItemWalk<'_>| match reason {
        Reason::Required => is_empty_at(place),
        Reason::NotSupported => place.here().is_some_and(|value| !value.is_null()),
        _ => false,
    };
    let here = (object, Way::Exact);
    let Some(items) = &cause.items else {
        let mut found = false;
        each_place(&cause.path, None, here, &mut |place| found = applies(place));
        return found;
    };
    let kept = items.kept(&cause.path, here, &mut |place, _, _| applies(place));
    !cause.keep(kept)
}

/// Tells whether `null`, `[]` or `{}` is written at a place, or around it.
fn is_empty_at(place: &ItemWalk<'_>) -> bool {
    match place.nearest() {
        Some(Value::Null) | None => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

fn finding(rule: &'static str, cause: &Cause, object: &Value) -> Finding {
    let (what, level) = match rule {
        API_SERVER => ("the API server rejects this", Level::Deny),
        PODS => ("the API server rejects the pods of this job", Level::Warn),
        RAY_OPERATOR => ("KubeRay rejects this", Level::Warn),
        APP_WRAPPER_OPERATOR => ("AppWrapper rejects this", Level::Warn),
        VOLCANO_OPERATOR if cause.message.ends_with(validate::NO_PODS) => {
            ("Volcano cannot run this", Level::Warn)
        }
        VOLCANO_OPERATOR => ("Volcano rejects this", Level::Warn),
        _ => ("the training operator rejects this", Level::Deny),
    };
    let message = format!("{what}: {}: {}", cause.path, cause.message);
    let rule = if rule == PODS { API_SERVER } else { rule };
    let verb = match cause.reason {
        Reason::Required => "set",
        Reason::Forbidden => "remove",
        Reason::NotFound => "add what it refers to, or change",
        _ => "fix",
    };
    let help: Cow<'_, str> = match cause.message.ends_with("field is immutable") {
        true => "delete and recreate the object, or use another name".into(),
        false => match duplicates::meant(cause, object) {
            Some(word) => format!("did you mean `{word}`?").into(),
            None => format!("{verb} `{}`", cause.pointer).into(),
        },
    };
    let at = cause.pointer.nearest(object);
    let whole = at == cause.pointer && cause.reason != Reason::Required;
    let mut finding = checks::finding(rule, level, at, message, help);
    // The server misspells some fields; show the one that exists.
    let is_beside = cause.path.parent() == cause.pointer.parent();
    let is_misspelled =
        is_beside && cause.path.find(object).is_none() && cause.pointer.find(object).is_some();
    finding.path = if is_misspelled { cause.pointer.clone() } else { cause.path.clone() };
    if !whole {
        finding.part = Part::Key;
    }
    finding.items.clone_from(&cause.items);
    if rule == TRAINING_OPERATOR
        && let Some((_, name)) = cause.message.split_once("container with name ")
    {
        rename(&mut finding, object, name);
    }
    if rule == TRAINING_OPERATOR && cause.reason == Reason::Required && cause.message.ends_with("must be 1") {
        // While the operator accepted such a job, it read the field as 1.
        let fix = Op::Add(cause.path.clone(), 1.into());
        finding.help("write `replicas: 1`".to_owned()).fix(Safety::Safe, vec![fix]);
    }
    // The place is in the text.
    if rule == RAY_OPERATOR
        && cause.pointer.last() == Some(&Token::Key("runtimeEnvYAML".into()))
        && let Some(wrong) =
            cause.pointer.find(object).and_then(Value::as_str).and_then(validate::wrong_runtime_env)
        && let (Ok(start), Ok(end)) = (u32::try_from(wrong.part.start), u32::try_from(wrong.part.end))
    {
        finding.part = Part::Within(start, end);
    }
    if rule == RAY_OPERATOR && cause.message.ends_with("unless shutdownAfterJobFinishes is true") {
        // An author who sets a TTL wants the cluster deleted.
        finding.help(format!("write `shutdownAfterJobFinishes: true`, or remove `{}`", cause.pointer));
    }
    finding
}

/// Proposes the container name that the training operator requires, if there is only one container. Unsafe,
/// since logs and metrics use the name.
fn rename(finding: &mut Finding, object: &Value, required: &str) {
    let containers = finding.path.clone();
    let Some([only]) = containers.find(object).and_then(Value::as_array).map(|items| &**items) else {
        return;
    };
    let at = containers / 0 / "name";
    if let Some(name) = only.get("name").and_then(Value::as_str) {
        let help = format!("rename the container `{}` to `{required}`", name.escape_debug());
        finding.pointer = at.clone();
        finding.part = Part::Value;
        finding.help(help).fix(Safety::Unsafe, vec![Op::Replace(at, required.into())]);
    }
}

fn never_fires(object: &Value) -> Option<Finding> {
    if Kind::from_object(object).is_none_or(|kind| kind.schedule.is_none()) {
        return None;
    }
    // Suspended CronJobs often have such a schedule on purpose.
    if object.get("spec")?.get("suspend") == Some(&Value::Bool(true)) {
        return None;
    }
    let text = object.get("spec")?.get("schedule")?.as_str()?;
    if !Schedule::parse(text).ok()?.never_fires() {
        return None;
    }
    let message =
        format!("the schedule `{}` matches no date, so this CronJob never runs", text.escape_debug());
    let help = "use a day that exists in the month, or set `suspend: true`";
    Some(checks::finding(
        SCHEDULE_NEVER_FIRES,
        Level::Warn,
        Pointer::new(&["spec", "schedule"]),
        message,
        help,
    ))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests;
