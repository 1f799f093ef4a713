//! What runs on after a deadline.

use super::holds_accelerators;
use crate::judge::cost::FIELD;
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::rule::Cx;
use crate::kinds::{Borrowed, Deadline, Field, Run, Ttl, Workload};
use crate::text::meter;
use crate::text::patch::Op;

/// Returns the pods of another object in which the work of a run goes on after its deadline.
pub(super) fn outlives_in(workload: &Workload<'_>) -> Option<Borrowed> {
    workload.kind.borrowed.filter(|borrowed| workload.object.at(borrowed.at).is_set())
}

/// Warns of a deadline that does not stop the work, which runs in the pods of another object.
fn outlives(cx: &mut Cx<'_>, run: &Run<'_>, borrowed: Borrowed) {
    let command = cx.workload.object.at(borrowed.command);
    let text = command.text().set().unwrap_or_default();
    meter::spend_text(text);
    let ends_itself = text.split(|c: char| c.is_whitespace() || "'\";&|()/".contains(c)).any(|word| word == "timeout");
    let deadline = run.deadline();
    if ends_itself || !deadline.is_set() || matches!(command.text(), Field::Placeholder(_)) {
        return;
    }
    let (name, place) = (cx.workload.kind.deadline_name(), borrowed.place);
    let message = format!("`{name}` does not stop the work: at the deadline the job fails, and its program runs on in {place}");
    let seconds = match deadline.int() {
        Field::Set(seconds) if seconds > 0 => seconds.to_string(),
        _ => "SECONDS".to_owned(),
    };
    let selector = cx.workload.object.at(borrowed.at).pointer;
    let (field, help) = (command.pointer.to_path(), borrowed.help);
    cx.report(&deadline.pointer, message)
        .at_most(Level::Warn)
        .help(format!("write `timeout {seconds}` before the command in `{field}`, or {help}"))
        .label(Place::Here(selector, FindingPart::Key), "a cluster that the job did not make");
}

/// Warns of a deadline of the pod that submits the work: it ends none.
pub(super) fn outlives_submitter(cx: &mut Cx<'_>) {
    let Some(submitter) = cx.workload.kind.submitter else { return };
    let object = &cx.workload.object;
    let field = object.at(submitter.at).get("spec").get(FIELD);
    let Field::Set(seconds) = field.int() else { return };
    if submitter.without.iter().any(|choice| choice.of(object).is_some()) {
        return;
    }
    let Some(retries) = object.at(submitter.retries).int().or_default(submitter.unset) else { return };
    let pods = retries.max(0).saturating_add(1);
    // The deadline of the run is sooner.
    let is_later = |deadline: i64| deadline > seconds.saturating_mul(pods);
    if matches!(cx.workload.deadline().int(), Field::Set(deadline) if !is_later(deadline)) {
        return;
    }
    let after = match pods {
        1 => "when one has passed it".to_owned(),
        pods => format!("when {pods} have passed it"),
    };
    let message =
        format!("`{FIELD}` limits the pod that submits the work: {after}, the job fails while its program runs");
    let name = cx.workload.deadline().pointer;
    let help = format!("remove it, and set `{name}`");
    let finding = cx.report(&field.pointer, message);
    finding.at_most(Level::Warn).at_key().help(help);
    finding.fix(Safety::Unsafe, vec![Op::Remove(field.pointer.clone())]);
}

/// Warns of a run whose pods outlive its deadline (docs/internals/batch-kinds.md#pods-that-outlive-a-job).
pub(super) fn keeps_pods(cx: &mut Cx<'_>, index: usize, run: &Run<'_>) {
    if let Some(borrowed) = outlives_in(cx.workload) {
        return outlives(cx, run, borrowed);
    }
    let Some(release) = cx.workload.kind.release else { return };
    // `resources-released` reports it where the pods hold accelerators.
    if cx.workload.kind.deadline != Deadline::Marks
        || holds_accelerators(cx.workload, index)
        || release.releases(&cx.workload.object, &run.limits) != Some(false)
    {
        return;
    }
    let limits = &run.limits;
    let (name, field) = (release.field, release.place(&cx.workload.object, limits));
    let ttl = match cx.workload.kind.ttl {
        // A TTL of 0 deletes the pods with the job, at once.
        Ttl::Deletes { deletes_pods: true, .. } => cx.workload.ttl().int().set(),
        _ => None,
    };
    if ttl == Some(0) {
        return;
    }
    let what = match field.value {
        Some(value) if field.is_set() => format!("`{name}` is `{}`", value.as_str().unwrap_or("false")),
        _ => format!("`{name}` is not set"),
    };
    let until = ttl
        .map(|ttl| format!(" for {ttl} more seconds (`{}`)", cx.workload.kind.ttl_name()))
        .unwrap_or_default();
    let message = format!("{what}: at the deadline the job fails, but its pods keep running{until}");
    let fix = limits.set(name, release.value()).filter(|_| !field.is_set());
    let effect = release.effect(cx.workload.kind.ttl_name());
    let finding = cx.report_field(&field, message);
    if let Some(finding) = finding {
        let value = release.value();
        let value = value.as_str().unwrap_or("true");
        finding.at_most(Level::Warn).help(format!("write `{name}: {value}`, {effect}"));
        // The author's choice stays: it costs no accelerators.
        if let Some(fix) = fix {
            finding.fix(Safety::Unsafe, vec![fix]);
        }
    }
}
