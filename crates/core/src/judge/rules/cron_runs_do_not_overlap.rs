//! Runs of a CronJob do not overlap where they share GPUs or a claim.
//!
//! ## Why
//!
//! By default (`concurrencyPolicy: Allow`), a CronJob starts its next run while the last one is still going.
//! A training run that takes longer than usual then gets a second one beside it: they compete for the same
//! GPUs, and both write to the same claim. Each late run makes the next one later.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: CronJob
//! metadata: {name: nightly}
//! spec:
//!   schedule: "0 3 * * *"
//!   jobTemplate:
//!     spec:
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           containers:
//!           - name: trainer
//!             image: registry.example.com/trainer:v1
//!             resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: CronJob
//! metadata: {name: nightly}
//! spec:
//!   schedule: "0 3 * * *"
//!   concurrencyPolicy: Replace
//!   jobTemplate:
//!     spec:
//!       activeDeadlineSeconds: 43200
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!           containers:
//!           - name: trainer
//!             image: registry.example.com/trainer:v1
//!             resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Fix
//!
//! Writes `concurrencyPolicy: Forbid`, with which a run waits while the last one is still going. Safe
//! where the field is not set, unsafe where the author has written `Allow`.
//!
//! ## Details
//!
//! Runs may overlap if the policy is `Allow` or not set, and no deadline (`activeDeadlineSeconds` of the Job)
//! is shorter than the shortest time between two runs. They matter if a container requests an accelerator or
//! mounts a claim that it can write to. Runs that share nothing are not reported. Ignore the rule for runs
//! that work on different parts of a shared claim.
//!
//! The rule says five more things about a schedule:
//!
//! * With `Forbid` and a deadline longer than the time between two runs, a run that hangs holds others up (note).
//! * With `Forbid`, a lost node is the end of all runs. The pod on a node that stops answering stays `Terminating`,
//!   and its Job never becomes `Complete` or `Failed`, whatever its deadline and `podReplacementPolicy` are, so the
//!   CronJob waits for it. That is what `jobgate simulate --what node-lost` says. A deadline that is shorter than the
//!   time between two runs already keeps them apart, so `Replace`, which replaces no run but such a one, is
//!   better (note for runs that hold accelerators, unsafe fix). With a longer deadline, the note above says it. The
//!   CronJob goes on when the pod is gone: delete the Node, give it the taint
//!   `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, or delete the pod with `--force`.
//! * With `startingDeadlineSeconds: 0` no run ever starts: the controller looks 100 ms after the time of a run. Below
//!   10, runs may be dropped, as they are due for so long only (warning).
//! * With `failedJobsHistoryLimit: 0`, nothing is left of a run that failed, neither its status nor its logs
//!   (note).
//! * If both the day of the month and the day of the week are restricted, the CronJob runs on days that match
//!   either of them (note): `0 0 13 * 5` runs every Friday and on every 13th.
//!
//! `Forbid` and `startingDeadlineSeconds` are often misread. `Forbid` alone skips nothing for good: a run that is due
//! while the last one is going stays due, and starts as soon as that has ended, at whatever time of day. Of several that
//! wait, only the latest runs. Runs of 90 minutes each hour follow one another without a pause. A run is dropped
//! only when it has waited for longer than `startingDeadlineSeconds`: with `startingDeadlineSeconds: 300`, that is a run
//! whose predecessor took five minutes more than the time between two runs.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#concurrency-policy>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#starting-deadline>
//! * <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::k8s::cron::Schedule;
use crate::kinds::{Field, Part, PodTemplate};
use crate::text::lines::cut;
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Overlapping runs of a CronJob".into(),
        summary: "Runs of a CronJob do not overlap where they share GPUs or a claim".into(),
        kinds: Kinds::WithSchedule,
        default: Action::Warn,
        export: Exportable::No("CEL cannot read a schedule"),
        ..Rule::new("cron-runs-do-not-overlap", check)
    }
}

const POLICY: &str = "concurrencyPolicy";

/// A node stops answering, and its Node stays.
const LOST: Incident = Incident::NodeLost;

/// With less time to start, in seconds, a run may be dropped: Kubernetes' documentation says so.
const LEAST_SECONDS: i64 = 10;

/// The longest name of a claim or schedule to repeat.
const MAX_NAME_BYTES: usize = 60;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let Some(cron) = &workload.schedule else { return };
    let field = cron.get("schedule");
    let schedule = field.text().set().and_then(|text| Schedule::parse(text).ok());
    if let Some(schedule) = &schedule {
        overlap(cx, cron, schedule);
        if schedule.either_day() {
            let text =
                cut(field.text().set().unwrap_or_default(), MAX_NAME_BYTES, "…").escape_debug().to_string();
            let message = format!(
                "`{text}` restricts the day of the month and the day of the week: \
                 it runs on days that match either"
            );
            cx.report(&field.pointer, message).at_most(Level::Note).help("write `*` for one of them");
        }
    }
    let late = cron.get("startingDeadlineSeconds");
    if let Field::Set(seconds @ 0..LEAST_SECONDS) = late.int() {
        let message = match seconds {
            0 => "`startingDeadlineSeconds` is 0: no run ever starts, since the controller looks after the time of a run"
                .to_owned(),
            _ => format!("`startingDeadlineSeconds` is {seconds}: a run that the controller would start later is dropped"),
        };
        cx.report(&late.pointer, message).at_most(Level::Warn).help("write at least 10, or remove it");
    }
    let history = cron.get("failedJobsHistoryLimit");
    if history.int() == Field::Set(0) {
        let message = "`failedJobsHistoryLimit` is 0, so nothing is left of a run that failed";
        cx.report(&history.pointer, message)
            .at_most(Level::Note)
            .help("write `failedJobsHistoryLimit: 1`, which is the default");
    }
}

/// Reports runs that may overlap, or that cause others to be skipped.
fn overlap(cx: &mut Cx<'_>, cron: &Part<'_>, schedule: &Schedule) {
    let workload = cx.workload;
    let policy = cron.get(POLICY);
    let is_allowed = match policy.text() {
        Field::Unset | Field::Set("" | "Allow") => true,
        Field::Set("Forbid") => false,
        _ => return,
    };
    let shared = if is_allowed { shared(cx) } else { None };
    if is_allowed && shared.is_none() {
        return;
    }
    let Some(period) = schedule.shortest_period_seconds() else { return };
    for run in &workload.runs {
        let deadline = run.deadline();
        let seconds = match deadline.int() {
            Field::Set(seconds) if seconds > 0 => u64::try_from(seconds).ok(),
            Field::Unset => None,
            // With 0, a run fails before it has a pod.
            Field::Set(_) | Field::Placeholder(_) | Field::Wrong => continue,
        };
        match (&shared, seconds) {
            (Some(_), Some(seconds)) if seconds < period => {}
            (Some(shared), _) => report_overlap(cx, cron, shared, period),
            (None, Some(seconds)) if seconds < period => report_lost_node(cx, cron),
            (None, Some(seconds)) if seconds > period => {
                report_wait(cx, cron, &deadline, seconds, period);
            }
            (None, _) => {}
        }
    }
}

/// Tells whether no run ends whose pod is on a node that stops answering, and the runs hold accelerators.
fn stops_at_lost_node(cx: &Cx<'_>) -> bool {
    let pods = &cx.workload.pods;
    let forecast = pods.iter().position(PodTemplate::holds_accelerators).and_then(|pod| cx.forecast(pod, LOST));
    let is_over = |ending| !matches!(ending, Ending::Wedged | Ending::Waits | Ending::RunsOn);
    forecast.is_some_and(|forecast| !is_over(forecast.outcome.ending))
}

/// Reports that runs wait for one that never ends, though a deadline keeps them apart.
fn report_lost_node(cx: &mut Cx<'_>, cron: &Part<'_>) {
    if !cx.says_notes || cron.get("suspend").bool() == Field::Set(true) || !stops_at_lost_node(cx) {
        return;
    }
    let policy = cron.get(POLICY);
    let message = "after the loss of a node no run starts: its pod stays `Terminating`, so its Job never ends, and \
                   `Forbid` waits for that";
    let finding = cx.report(&policy.pointer, message).at_most(Level::Note).about(LOST);
    finding.help("write `concurrencyPolicy: Replace`: any other run is over at its deadline, before the next is due");
    finding.fix(Safety::Unsafe, vec![Op::Replace(policy.pointer, "Replace".into())]);
}

/// Reports runs that wait for one another, or are dropped because they wait for too long.
fn report_wait(cx: &mut Cx<'_>, cron: &Part<'_>, deadline: &Part<'_>, seconds: u64, period: u64) {
    if !cx.says_notes {
        return;
    }
    let late = cron.get("startingDeadlineSeconds");
    let waits = match late.int() {
        Field::Unset => None,
        Field::Set(late) if late >= 0 => u64::try_from(late).ok().filter(|late| *late < seconds - period),
        _ => return,
    };
    let then = match waits {
        Some(late) => {
            format!("it is dropped if it waits for more than {late} seconds (`startingDeadlineSeconds`)")
        }
        None => "it starts as soon as the last one has ended, and of several only the latest".to_owned(),
    };
    let lost = if stops_at_lost_node(cx) { "; after the loss of a node none starts" } else { "" };
    let message = format!(
        "a run may take {seconds} seconds and the next is due after {period}: with `{POLICY}: Forbid`, {then}{lost}"
    );
    let finding = cx.report(&deadline.pointer, message);
    finding.at_most(Level::Note).help("write a deadline shorter than the time between two runs");
    if waits.is_some() {
        finding.label(Place::Here(late.pointer, FindingPart::Value), "how long a run stays due");
    }
}

fn report_overlap(cx: &mut Cx<'_>, cron: &Part<'_>, shared: &str, period: u64) {
    let policy = cron.get(POLICY);
    let help = format!(
        "write `{POLICY}: Forbid`, with which a run waits while the last one is still going, \
         or a deadline below {period} seconds"
    );
    if policy.is_set() {
        let message = format!("`{POLICY}: Allow` lets runs overlap, and {shared}");
        let fix = Op::Replace(policy.pointer.clone(), "Forbid".into());
        cx.report(&policy.pointer, message).help(help).fix(Safety::Unsafe, vec![fix]);
        return;
    }
    let message = format!("`{POLICY}` is not set, so runs may overlap, and {shared}");
    let Some(fix) = cron.set(POLICY, "Forbid".into()) else { return };
    if let Some(finding) = cx.missing(&policy.pointer, message) {
        finding.help(help).fix(Safety::Safe, vec![fix]);
    }
}

/// Returns what runs share, to follow "and": accelerators, or a claim that they write to.
fn shared(cx: &Cx<'_>) -> Option<String> {
    let workload = cx.workload;
    if workload.pods.iter().any(PodTemplate::holds_accelerators) {
        return Some("each holds accelerators".to_owned());
    }
    workload.pods.iter().enumerate().find_map(|(index, pod)| {
        let mut claims = pod.claims().filter(|claim| !claim.read_only).peekable();
        claims.peek()?;
        let mounts = cx.mounts(index);
        let claim = claims.find(|claim| !mounts.is_read_only(claim.volume))?;
        Some(format!("each writes to the claim `{}`", cut(claim.claim, MAX_NAME_BYTES, "…").escape_debug()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::incident::Occurrence;
    use crate::controllers::job::spec::JobSpec;
    use crate::controllers::program::Peers;
    use crate::controllers::runs::runs;
    use crate::controllers::story::{Assumptions, lower, tell};
    use crate::controllers::time::Time;
    use crate::text::value::json;

    /// The Job of a lost pod is never over, whichever policy it has, so only `Replace` starts another.
    #[test]
    fn a_lost_node_ends_all_runs_under_forbid() {
        let assumptions = Assumptions {
            runtime: Time::from_seconds(1_200),
            startup: Time::from_seconds(60),
            checkpoint: None,
            ..Assumptions::for_tests(Peers::Independent)
        };
        let story = [Occurrence::from(Incident::NodeLost)];
        for replacement in ["Failed", "TerminatingOrFailed"] {
            for deadline in [2_400, 7_200] {
                let job = json!({"activeDeadlineSeconds": deadline, "podReplacementPolicy": replacement,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}});
                let started = |policy: &str| {
                    let cron = json!({"schedule": "0 * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": job.clone()}});
                    let spec = JobSpec::from_spec(&job);
                    let alone = tell(&job, lower(&spec, &story, &assumptions)).expect("an end");
                    assert_eq!(alone.ending, Ending::Wedged, "{job}");
                    let runs = runs(&cron, &spec, &story, &assumptions, &alone).expect("an end").expect("runs");
                    (runs.started, runs.due)
                };
                let (forbid, due) = started("Forbid");
                assert!(forbid == 1 && due > 2, "{job}: {forbid} of {due}");
                let (replace, due) = started("Replace");
                assert_eq!(replace, due, "{job}");
            }
        }
    }
}
