//! Every run has a deadline: `activeDeadlineSeconds` is set and above zero.
//!
//! ## Why
//!
//! A Job without a deadline runs until it succeeds, fails often enough, or someone notices. A training job
//! that hangs in a collective operation does none of these and keeps its GPUs over the weekend.
//! `activeDeadlineSeconds` is the only limit that Kubernetes itself enforces. The clock starts with the Job,
//! includes the time its pods are pending, stops while the Job is suspended, and starts again from zero when
//! it is resumed.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: adds the parameter `suggestion` (86400 seconds, a day), or `maximum` if that is shorter, and in a
//! CronJob less than the shortest time between two runs, so that none overlaps or skips the next. Only the
//! author knows how long a run may take, so the webhook never fills in this field. Where the pods would outlive
//! the deadline, it also writes what ends them: `cleanPodPolicy: Running`, or `shutdownAfterJobFinishes: true` in
//! a RayJob; never over what the author has written there.
//!
//! ## Details
//!
//! The field is in `spec` of a Job, in `spec.jobTemplate.spec` of a CronJob and in `spec.runPolicy` of a
//! PyTorchJob; docs/kinds.md has the other kinds. A TrainJob has it since release 2.2 of the trainer. In a
//! Job of a training runtime it gets a warning: it limits each attempt of this Job, and the trainer may start
//! the whole again; it is planned that the trainer rejects it there.
//!
//! No field ends a whole JobSet: the deadline of each of its Jobs does, so a missing one is a warning, never
//! a denial, for the Jobs that hold accelerators if some do. A Job that passes its deadline fails, and the
//! set may start again, with a new clock, up to `failurePolicy.maxRestarts` times. A Volcano job has no such
//! field either: its tasks' pod templates do, with a policy that ends the job. A RayJob's deadline counts for
//! each attempt. What is in an AppWrapper is run again up to three times after it has failed, each with a new
//! clock.
//!
//! An MPIJob (`kubeflow.org/v2beta1`) gives its deadline to the launcher. With `launcherCreationPolicy:
//! WaitForWorkersReady` the launcher starts last, so the wait for the workers has no end, while those that
//! run hold their accelerators: a note. So is a RayJob in `InteractiveMode`, whose deadline does not count
//! while it waits for somebody to submit the work.
//!
//! A RayJob with a `clusterSelector` sends its work to a cluster that it did not make. At the deadline it fails, and
//! KubeRay (1.7, by source) neither stops the program nor deletes that cluster: a warning, unless the `entrypoint` has a
//! `timeout`. The program is asked to stop when the RayJob is deleted. A deadline of the pod that submits the work, in
//! `submitterPodTemplate`, ends no work either: when as many pods as `submitterConfig.backoffLimit` allows (2 retries by
//! default) have passed it, the RayJob fails with `SubmissionFailed` while its program runs. It gets a warning.
//!
//! The API server accepts 0, which ends the Job at its first sync. A value above 9223372036 overflows in the
//! Job controller and ends the Job just as early. Both count as missing. `activeDeadlineSeconds` of the pod
//! template limits one running pod, and the Job may then create another, so it is no deadline for the run.
//!
//! A CronJob with `concurrencyPolicy: Replace` needs a deadline, too: a run that hangs keeps its nodes until
//! the next run is due, which may hang as well.
//!
//! The parameter `maximum` is the longest deadline that an author may set. A longer one is reported like a
//! missing one; the unsafe fix writes the maximum.
//!
//! Kueue suspends a workload that runs longer than its label `kueue.x-k8s.io/max-exec-time-seconds`. The
//! label has no effect where Kueue is not installed or does not manage the object, so it counts only if the
//! parameter `kueueMaxExecTime` is true and the object has a queue name (the label
//! `kueue.x-k8s.io/queue-name`). For a CronJob, only labels in `spec.jobTemplate.metadata.labels` count: its
//! Jobs do not inherit the CronJob's own labels. The label never replaces a deadline of 0. A finding says why
//! a label does not count. Where the label alone limits a Job, a note says what it leaves: Kueue suspends the Job, which
//! has not failed then, so that no alert sees it and `ttlSecondsAfterFinished` does not delete it.
//!
//! A finding about pods that hold accelerators says how many, and for how long at most.
//!
//! On UPDATE, a violation that the object already had is a warning. Two changes are denied as new violations:
//! a deadline that grows beyond `maximum` (or is removed), and a change of Kueue's two labels after which
//! they no longer limit the run. So nobody can bypass the limit by removing the label while the Job is
//! suspended. Nothing is denied on a Job or PyTorchJob that has finished, nor is any other change of labels.
//! Kueue itself changes neither label.
//!
//! The training operator looks at the deadline only when something happens to the job: a pod starts, fails or
//! ends, or hours have passed. A job that hangs quietly may run on for hours, so in the kinds of
//! `kubeflow.org/v1` the deadline is a good hint and no guarantee. An `activeDeadlineSeconds` in the pod
//! templates, which the node enforces, makes something happen.
//!
//! Since release 1.9.4, the training operator marks a PyTorchJob as failed at its deadline but leaves its
//! pods running, unless `runPolicy.cleanPodPolicy` is `Running` or `All`. They keep their nodes until
//! `ttlSecondsAfterFinished`, or a user, deletes the job. Earlier releases always deleted the pods. A
//! PyTorchJob with a deadline and without such a `cleanPodPolicy` gets a warning, whatever the rule's action,
//! and is never denied for it; where its pods request accelerators, the finding is one of
//! `resources-released`. A policy exported for the API server does not have this warning.
//!
//! `cleanPodPolicy: Running` deletes the pods that still run when the job has ended, whether it succeeded,
//! failed or timed out, and keeps finished pods with their logs. `All` deletes the finished pods as well. The
//! fix is unsafe because it also stops a worker that is still busy after the master has succeeded, for
//! example with an upload of results.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
//! * <https://kueue.sigs.k8s.io/docs/concepts/workload/#maximum-execution-time>
//! * <https://github.com/kubeflow/trainer/issues/3358>
//! * <https://github.com/kubeflow/trainer/pull/3420>
//! * <https://github.com/ray-project/kuberay/issues/2314>

use std::collections::BTreeSet;
use std::fmt::Write as _;

mod outlived;

use outlived::{keeps_pods, outlives_in, outlives_submitter};

use crate::judge::cost::{Cost, FIELD, MAX_SECONDS, attempts};
use crate::controllers::incident::Incident;
use crate::judge::finding::{Finding, Level, Part as FindingPart, Place, Safety};
use crate::judge::kueue::{self, Kueue};
use crate::judge::loss::Loss;
use crate::judge::policy::Action;
use crate::judge::rule::{Cel, Cx, Exportable, Kinds, Measure, Number, Ratchet, Rule};
use crate::k8s::cron::Schedule;
use crate::kinds::{Attempts, Deadline, Field, Kind, Part, PodTemplate, Release, Run, Workload};
use crate::text::patch::{self, Op};
use crate::text::pointer::Pointer;

const MAXIMUM: Number =
    Number::new("maximum", "The longest deadline that an author may set, in seconds; 0 for none.", 0, 0);
const SUGGESTION: Number =
    Number::new("suggestion", "Seconds that the unsafe fix writes, and that the help proposes.", 86_400, 1);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "No deadline".into(),
        summary: "Every run has a deadline: `activeDeadlineSeconds` is set and above zero".into(),
        kinds: Kinds::WithLimits,
        default: Action::Deny,
        incident: Some(Incident::Hang),
        params: &[kueue::RUNS.0, MAXIMUM.0, SUGGESTION.0],
        export: Exportable::Cel(Cel {
            kinds: Kinds::WithDeadline,
            params: &["kueueMaxExecTime", "maximum"],
            places: "\
[$deadline.orValue(null)].filter(deadline, deadline == null || type(deadline) == int || type(deadline) == double).filter(deadline, !((deadline == null || (deadline > 0 && deadline <= 9223372036)) && (
  [deadline == null ? 0 : deadline] +
  [$labels]
    .filter(labels, $kueueMaxExecTime && labels[?'kueue.x-k8s.io/queue-name'].orValue('') != '')
    .map(labels, labels[?'kueue.x-k8s.io/max-exec-time-seconds'].orValue(''))
    .filter(seconds, seconds.matches('^0*[1-9][0-9]{0,9}$') && int(seconds) <= 2147483647)
    .map(seconds, int(seconds))
).exists(bound, bound > 0 && [$maximum].exists(most, most == 0 || bound <= most)))).map(deadline, $deadlinePlace)",
        }),
        ratchet: Ratchet {
            labels: &[kueue::MAX_EXEC_TIME, kueue::QUEUE],
            measure: Some(Measure { of: longest, cel: LONGEST }),
        },
        ..Rule::new("deadline", check)
    }
}

/// Returns how long a run's own deadline lets it run: without limit if unset, 0 if the controller ends it at
/// once.
fn longest(workload: &Workload<'_>) -> i64 {
    let of_run = |run: &Run<'_>| match run.deadline().int() {
        Field::Set(value) if value <= 0 || value > MAX_SECONDS => 0,
        Field::Set(value) => value,
        _ => i64::MAX,
    };
    if matches!(workload.kind.deadline, Deadline::Missing | Deadline::OfOthers { .. }) {
        return 0;
    }
    workload.runs.iter().map(of_run).max().unwrap_or_default()
}

/// The same in CEL.
const LONGEST: &str = "\
[$deadline.orValue(null)].map(deadline, !(type(deadline) == int || type(deadline) == double) ? 9223372036854775807 : deadline <= 0 || deadline > 9223372036 ? 0 : deadline)[0]";

fn check(cx: &mut Cx<'_>) {
    let attempts = attempts(cx.workload);
    match cx.workload.kind.deadline {
        Deadline::Ends | Deadline::Marks => check_runs(cx, attempts),
        Deadline::EndsEachJob { restarts } => {
            let starts_again = !matches!(cx.workload.object.at(restarts).int(), Field::Unset | Field::Set(0));
            // A set is bounded when the Jobs that hold accelerators are.
            let holders: BTreeSet<usize> =
                cx.workload.pods.iter().filter(|pod| pod.holds_accelerators()).map(|pod| pod.run).collect();
            for (index, run) in cx.workload.runs.iter().enumerate() {
                if !holders.is_empty() && !holders.contains(&index) {
                    continue;
                }
                let (before, _) = cx.findings.newest();
                check_run(cx, (index, run), attempts);
                let (after, Some(finding)) = cx.findings.newest() else { continue };
                if after == before {
                    continue;
                }
                finding.at_most(Level::Warn);
                if starts_again {
                    finding.help = format!("{}; {FAILS_THE_SET}", finding.help).into();
                }
            }
        }
        Deadline::Missing => no_field(cx),
        Deadline::OfOthers { run_by } => {
            if let Some(kind) = run_by {
                of_template(cx, kind);
            }
        }
    }
    does_not_limit(cx);
    outlives_submitter(cx);
}

/// What keeps a set from starting again after the deadline of a Job.
const FAILS_THE_SET: &str = "a rule of `failurePolicy` with `onJobFailureReasons: [DeadlineExceeded]` and \
                             `action: FailJobSet` keeps the set from starting again, with a new clock, up to \
                             `maxRestarts` times";

/// Warns of deadlines in a template that others run, which are not deadlines of a run.
fn of_template(cx: &mut Cx<'_>, run_by: &str) {
    let name = cx.workload.kind.as_str();
    let jobs = cx.workload.runs.iter().filter_map(|run| run.job_spec.as_ref());
    for field in jobs.map(|spec| spec.get(FIELD)).filter(Part::is_set) {
        let message = format!("`{FIELD}` in a {name} limits each attempt of one Job, and not the {run_by}");
        let finding = cx.report(&field.pointer, message);
        finding.at_most(Level::Warn).at_key();
        finding.help(format!("remove it, and write `spec.{FIELD}` in each {run_by}"));
        finding.fix(Safety::Unsafe, vec![Op::Remove(field.pointer.clone())]);
    }
}

/// Notes a wait that no deadline ends.
fn does_not_limit(cx: &mut Cx<'_>) {
    let Some(wait) = cx.workload.kind.wait else { return };
    // A missing deadline is reported instead.
    if !cx.workload.deadline().is_set() {
        return;
    }
    if let Some(field) = wait.choice.of(&cx.workload.object) {
        let message = format!("with `{}`, the deadline does not limit the wait for {}", wait.choice.word, wait.until);
        cx.report(&field.pointer, message).at_most(Level::Note).help(wait.help);
    }
}

fn check_runs(cx: &mut Cx<'_>, attempts: Attempts) {
    for (index, run) in cx.workload.runs.iter().enumerate() {
        check_run(cx, (index, run), attempts);
    }
}

/// Warns once of an object whose kind has no deadline, unless the pods have one of their own: those that hold
/// accelerators, if some do.
fn no_field(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let bounded = |pod: &PodTemplate<'_>| !pod.spec.get(FIELD).int().is_unset();
    let holds = workload.pods.iter().any(PodTemplate::holds_accelerators);
    let unbounded = workload.pods.iter().find(|pod| (!holds || pod.holds_accelerators()) && !bounded(pod));
    let Some(pod) = unbounded else { return };
    let field = pod.spec.get(FIELD);
    let cost = Cost::from_run(workload, pod.run, (None, Attempts::Unknown));
    let (name, group) = (workload.kind.name, workload.kind.group);
    let message = hangs(cost, &format!("a {name} of {group} has no deadline"), "someone notices");
    if let Some(finding) = cx.missing(&field.pointer, message) {
        finding.at_most(Level::Warn).help(instead(workload.kind));
    }
}

/// Returns what to write where the kind has no deadline: one of the pods, and what ends the others with one that passes it.
pub(super) fn instead(kind: Kind) -> String {
    let and = kind.leak.map(|leak| format!(", and {}, which ends the job when a pod passes it", leak.remedy));
    format!("write `{FIELD}` in the pod template{}", and.unwrap_or_default())
}

fn check_run(cx: &mut Cx<'_>, (index, run): (usize, &Run<'_>), attempts: Attempts) {
    let (field, name) = (run.deadline(), cx.workload.kind.deadline_name());
    let maximum = Some(cx.number(&MAXIMUM)).filter(|most| *most > 0);
    let is_short = |seconds: i64| maximum.is_none_or(|most| seconds <= most);
    let kueue = Kueue::new(cx.workload, run, cx.flag(&kueue::RUNS));
    let bound_by_kueue = matches!(kueue, Some(Kueue { seconds: Ok(seconds), .. }) if is_short(seconds));
    match field.int() {
        Field::Set(value) if value <= 0 || value > MAX_SECONDS => {
            let why = if value > MAX_SECONDS { "which overflows" } else { "which is no deadline" };
            let message = format!("`{name}` is {value}, {why}, so the controller ends the run immediately");
            let seconds = suggestion(cx);
            let finding = cx.report(&field.pointer, message);
            set_help(finding, &field, maximum);
            rewrite(finding, &field, seconds);
            keeps_pods(cx, index, run);
        }
        Field::Set(_) if bound_by_kueue => keeps_pods(cx, index, run),
        Field::Set(value) if !is_short(value) => {
            let most = maximum.unwrap_or(value);
            let below = below_period(cx.workload);
            let cost = Cost::from_run(cx.workload, index, (Some(value), attempts));
            let cost = cost.map(|cost| format!("; {cost}")).unwrap_or_default();
            let message = format!("`{name}` is {value}, above the policy's maximum of {most}{cost}");
            let finding = cx.report(&field.pointer, message);
            finding.help(format!("write at most {most}, or ask for an exemption"));
            rewrite(finding, &field, below.map_or(most, |below| most.min(below)));
            keeps_pods(cx, index, run);
        }
        Field::Set(_) => keeps_pods(cx, index, run),
        Field::Unset if bound_by_kueue => {
            if let Some(kueue) = kueue {
                kueue.note_no_end(cx);
            }
        }
        Field::Unset => is_missing(cx, (index, run, attempts), &field, maximum, kueue.as_ref()),
        Field::Placeholder(_) | Field::Wrong => {}
    }
}

/// Sets the help for a missing deadline.
fn set_help(finding: &mut Finding, field: &Part<'_>, maximum: Option<i64>) {
    let most = maximum.map(|most| format!("; the policy's maximum is {most}")).unwrap_or_default();
    finding.help(format!(
        "set `{}` to the longest time a run may take, in seconds (a day is 86400{most})",
        field.pointer
    ));
}

/// Returns the seconds that a fix writes.
fn suggestion(cx: &Cx<'_>) -> i64 {
    let seconds = match cx.number(&MAXIMUM) {
        most if most > 0 => cx.number(&SUGGESTION).min(most),
        _ => cx.number(&SUGGESTION),
    };
    below_period(cx.workload).map_or(seconds, |below| seconds.min(below))
}

/// Returns how long a run of a CronJob may take so that the next can start in time: a tenth less than the
/// shortest time between two, at most an hour less.
fn below_period(workload: &Workload<'_>) -> Option<i64> {
    const MOST_LESS: i64 = 3600;
    let schedule = workload.schedule.as_ref()?.get("schedule");
    let period = Schedule::parse(schedule.text().set()?).ok()?.shortest_period_seconds()?;
    let period = i64::try_from(period).ok()?;
    Some((period - (period / 10).clamp(1, MOST_LESS)).max(1))
}

/// Adds a fix that replaces an invalid or too long deadline.
fn rewrite(finding: &mut Finding, field: &Part<'_>, seconds: i64) {
    finding.fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), seconds.into())]);
}

fn is_missing(
    cx: &mut Cx<'_>,
    (index, run, attempts): (usize, &Run<'_>, Attempts),
    field: &Part<'_>,
    maximum: Option<i64>,
    kueue: Option<&Kueue>,
) {
    let workload = cx.workload;
    let of_pods: Vec<Pointer> = workload
        .pods_of(index)
        .iter()
        .map(|pod| pod.spec.get(FIELD))
        .filter(Part::is_set)
        .map(|part| part.pointer)
        .collect();
    let is_replaced = is_replaced(workload);
    let until = if is_replaced { "the next run replaces it" } else { "someone notices" };
    // Kueue's label is a limit, even if it is too long.
    let seconds = kueue.and_then(|kueue| kueue.seconds.ok());
    let cost = Cost::from_run(workload, index, (seconds, attempts)).filter(|_| !is_replaced);
    let loss = cost.map_or(Loss::PODS_WITHOUT_LIMIT, |cost| cost.loss());
    let borrowed = outlives_in(workload);
    let is_unset = format!("`{}` is not set", workload.kind.deadline_name());
    let mut message = match &borrowed {
        // The nodes are not those of the run.
        Some(_) => format!("{is_unset}, so a run that hangs is not ended until {until}"),
        None => hangs(cost, &is_unset, until),
    };
    if !of_pods.is_empty() {
        message += " (the one in the pod template limits a pod, not the run)";
    }
    let why_not = kueue.map(|kueue| match (&kueue.seconds, maximum) {
        (Err(why), _) => (*why).to_owned(),
        (Ok(seconds), most) => {
            format!("is {seconds}, above the policy's maximum of {}", most.unwrap_or(*seconds))
        }
    });
    if let Some(why) = &why_not {
        let _ = write!(message, " (Kueue's label {why})");
    }
    let seconds = suggestion(cx);
    let fix = fix(workload, run, seconds);
    let is_late = workload.kind.deadline_is_late;
    let Some(finding) = cx.missing(&field.pointer, message) else { return };
    set_help(finding, field, maximum);
    if !is_replaced {
        finding.costs(loss);
    }
    if let Some(release) = brought(workload, run).filter(|_| !holds_accelerators(workload, index)) {
        // `resources-released` reports it where the pods hold accelerators.
        let (name, value) = (release.field, release.value());
        let value = value.as_str().unwrap_or("true");
        finding.help =
            format!("{}, and `{name}: {value}`, without which pods outlive it", finding.help).into();
    }
    if is_late {
        finding.help = format!("{}; {LATE}", finding.help).into();
    }
    if let Some(borrowed) = borrowed {
        finding.help = format!("{}; the program runs on in {}", finding.help, borrowed.place).into();
    }
    for place in of_pods {
        finding.label(Place::Here(place, FindingPart::Value), "limits a pod, not the run");
    }
    if let Some(kueue) = kueue {
        finding.label(Place::Here(kueue.label.clone(), FindingPart::Value), "does not count");
    }
    if !fix.is_empty() {
        finding.fix(Safety::Unsafe, fix);
    }
}

/// The caveat about deadlines of the training operator.
pub(super) const LATE: &str = "the operator looks at the deadline only when something happens to the job";

/// Returns the message for a missing deadline. The cost comes first: a warning may have no room for the rest.
fn hangs(cost: Option<Cost>, what: &str, until: &str) -> String {
    match cost {
        Some(cost) => format!("{cost}: {what}, so a run that hangs keeps them until {until}"),
        None => format!("{what}, so a run that hangs keeps its nodes until {until}"),
    }
}

/// Returns the operations that set a deadline, and the field that makes it end the pods.
fn fix(workload: &Workload<'_>, run: &Run<'_>, seconds: i64) -> Vec<Op> {
    let deadline = run.set_deadline(seconds);
    let release = brought(workload, run).and_then(|release| run.limits.set(release.field, release.value()));
    // Both may bring the mapping around them.
    patch::combine(deadline.into_iter().chain(release))
}

/// Returns the field that a fix sets besides a deadline, so that no pod outlives it; nothing if the author has
/// set it.
fn brought(workload: &Workload<'_>, run: &Run<'_>) -> Option<Release> {
    workload.kind.release.filter(|release| {
        let elsewhere = workload.object.at(workload.kind.body).get(release.field);
        workload.kind.deadline == Deadline::Marks
            && release.releases(&workload.object, &run.limits) == Some(false)
            && !release.place(&workload.object, &run.limits).is_set()
            && !elsewhere.is_set()
    })
}

fn holds_accelerators(workload: &Workload<'_>, index: usize) -> bool {
    workload.pods_of(index).iter().any(PodTemplate::holds_accelerators)
}

/// Tells whether the next run of a CronJob stops one that still runs.
fn is_replaced(workload: &Workload<'_>) -> bool {
    let replaces = |cron: &Part<'_>| cron.get("concurrencyPolicy").text() == Field::Set("Replace");
    workload
        .schedule
        .as_ref()
        .is_some_and(|cron| replaces(cron) && cron.get("suspend").bool() != Field::Set(true))
}
