//! Accelerators are released when the job has ended: what still runs then is deleted.
//!
//! ## Why
//!
//! When a training job ends, its operator does not always delete its pods. An MPIJob's workers run a server
//! for the launcher and never end by themselves; the parameter servers of a TFJob neither; a Ray cluster runs
//! until it is deleted. They hold their GPUs, and the next job in the queue waits for a node that does
//! nothing. Eight GPUs held over a weekend are some 500 GPU hours.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v2beta1
//! kind: MPIJob
//! metadata: {name: allreduce}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 7200}
//!   mpiReplicaSpecs:
//!     Launcher:
//!       replicas: 1
//!       template:
//!         spec:
//!           containers: [{name: launcher, image: "registry.example.com/bench:v1"}]
//!     Worker:
//!       replicas: 2
//!       template:
//!         spec:
//!           containers:
//!           - name: worker
//!             image: registry.example.com/bench:v1
//!             resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: kubeflow.org/v2beta1
//! kind: MPIJob
//! metadata: {name: allreduce}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 7200, cleanPodPolicy: Running}
//!   mpiReplicaSpecs:
//!     Launcher:
//!       replicas: 1
//!       template:
//!         spec:
//!           containers: [{name: launcher, image: "registry.example.com/bench:v1"}]
//!     Worker:
//!       replicas: 2
//!       template:
//!         spec:
//!           containers:
//!           - name: worker
//!             image: registry.example.com/bench:v1
//!             resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! Safe where the field is not set: adds `cleanPodPolicy: Running`, or `shutdownAfterJobFinishes: true` in a
//! RayJob. Unsafe where the author has written `None` or `false`. The webhook fills the field in on CREATE,
//! and never changes it on UPDATE.
//!
//! ## Details
//!
//! The finding says how many accelerators are held, and for how long after the end. Jobs whose pods request none
//! are not reported, but for a RayJob: its cluster runs until somebody deletes it. It gets a warning, and the
//! webhook fills nothing in; with a deadline, the rule `deadline` has the warning.
//!
//! `cleanPodPolicy: Running` deletes the pods that still run when the job has ended, whether it succeeded,
//! failed or timed out, and keeps finished pods with their logs. `All` deletes the finished pods as well. It
//! also stops a worker that is still busy after the master has succeeded, for example with an upload of
//! results: write `cleanPodPolicy: None` and the annotation `jobgate.dev/ignore` on such a job.
//!
//! `None` is the default of the training operator and of the MPI operator. Since release 1.9.4 the training
//! operator keeps running pods at the deadline, too. `ttlSecondsAfterFinished` deletes the job with its pods,
//! but only after that time, so only a TTL of 0 counts. In an MPIJob of `kubeflow.org/v2beta1` it deletes the
//! launcher alone, so it never counts. Nor does it with a role of `restartPolicy: ExitCode`: after a code below 128 the
//! job has failed without a `completionTime`, and is never deleted (but a TFJob).
//!
//! A job with roles that has one pod in all, beside parameter servers without accelerators, is not reported
//! unless it has a deadline or a `backoffLimit`: only these end it while its pod runs.
//!
//! In a RayJob, `ttlSecondsAfterFinished` is the time that the cluster runs on, and only together with
//! `shutdownAfterJobFinishes`; KubeRay refuses the one without the other. Nothing is filled in where the job
//! has a `deletionStrategy`, with which KubeRay refuses the field, or a `clusterSelector`: that cluster is
//! somebody else's.
//!
//! A RayJob in a queue of Kueue needs `shutdownAfterJobFinishes: true` to run at all: the webhook of Kueue (0.19.2,
//! `pkg/controller/jobs/rayjob`) refuses it otherwise, also with a `deletionStrategy`. Where that webhook is not
//! there, Kueue suspends the job, and KubeRay 1.7 calls a suspended job without the field invalid, for good.
//!
//! What becomes of the other pods after a failure is what the model of `jobgate simulate` says. A RayJob with a
//! `deletionStrategy` gets a warning if pods run on after its deadline or, where it has none, after its work could not
//! be submitted. A `jobStatus` is that of what runs in Ray: in both cases it is not `FAILED`, so a rule for that does
//! not apply, and the cluster is kept, unless a rule is for `jobDeploymentStatus: Failed`.
//!
//! A Volcano job is not ended by a pod that fails: the others run on, often waiting for it in a collective
//! operation. A job gets a warning if a pod of one of its tasks fails with 1 as soon as it runs, the others wait for
//! it, and no policy of the job or of a task ends them or starts anything again. The finding says what they hold, and
//! for how long, where all of them have an `activeDeadlineSeconds`. With `OnFailure`, a container that fails is
//! restarted in its pod, so only the deadline makes pods fail, and those that have the same one fail together.
//!
//! ## References
//!
//! * <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/job-scheduling/>
//! * <https://github.com/kubeflow/mpi-operator/issues/644>
//! * <https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html>

use crate::controllers::incident::Incident;
use crate::judge::cost::Cost;
use crate::judge::finding::{Level, Safety};
use crate::judge::forecast::objects::Cause;
use crate::judge::kueue::QUEUE;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Fills, Kinds, Rule};
use crate::kinds::{Field, AcceleratorCount, Leak, PodTemplate, Release, Ttl, Workload};
use crate::text::lines::cut;
use crate::text::patch::Op;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Accelerators held after the job has ended".into(),
        summary: "Accelerators are released when the job has ended: what still runs then is deleted".into(),
        kinds: Kinds::WithRelease,
        default: Action::Fill,
        fills: Fills::Release,
        export: Exportable::No(
            "what it fills in, or denies where a policy says so, depends on more than CEL says well",
        ),
        ..Rule::new("resources-released", check)
    }
}

/// The longest name of a role to repeat.
const MAX_ROLE_BYTES: usize = 40;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if let Some(leak) = workload.kind.leak {
        report_left_behind(cx, leak);
    }
    let Some(release) = workload.kind.release else { return };
    let limits = &workload.limits;
    let is_refused = is_refused_in_queue(workload, release);
    match release.releases(&workload.object, limits) {
        Some(false) => {}
        Some(true) if is_refused => return report_refused(cx, release),
        _ => return,
    }
    if !workload.pods.iter().any(PodTemplate::holds_accelerators) {
        return report_without_accelerators(cx, release, is_refused);
    }
    if ends_with_its_pod(workload) {
        return;
    }
    let ttl = workload.ttl().int().set().filter(|_| workload.fails_without_end().is_none());
    let deletes_all = matches!(workload.kind.ttl, Ttl::Deletes { deletes_pods: true, .. });
    if deletes_all && ttl == Some(0) {
        return;
    }
    let field = release.place(&workload.object, limits);
    let value = release.value();
    let word = value.as_str().unwrap_or("true").to_owned();
    let what = match field.value.and_then(Value::as_str) {
        Some(own) if field.is_set() => format!("`{}` is `{own}`", release.field),
        None if field.is_set() => format!("`{}` is `false`", release.field),
        _ => format!("`{}` is not set", release.field),
    };
    let ttl = ttl.filter(|_| deletes_all);
    let until = ttl
        .map(|ttl| format!(" for {ttl} more seconds (`{}`)", workload.kind.ttl_name()))
        .unwrap_or_default();
    let held = AcceleratorCount::from_pods(&workload.pods);
    // The cost comes first: a warning may have no room for the rest.
    let cost = held.and_then(|held| Cost::new(held, ttl.map(|ttl| ttl.max(0))));
    let cost = cost.map(|cost| format!("{cost}: ")).unwrap_or_default();
    let left = release.left;
    let refused = if is_refused { REFUSED } else { "" };
    let message = format!(
        "{cost}{what}, so {left} run on when the job has ended, and hold their accelerators{until}{refused}"
    );
    let help = format!("write `{}: {word}`, {}", release.field, release.effect(workload.kind.ttl_name()));
    if field.is_set() {
        let fix = Op::Replace(field.pointer.clone(), value);
        let finding = cx.report(&field.pointer, message);
        finding.instead_of_fill(Level::Warn).help(help).fix(Safety::Unsafe, vec![fix]);
        return;
    }
    let Some(fix) = limits.set(release.field, value) else { return };
    // The author has set it in a place where the API server drops it.
    let misplaced = workload.object.at(workload.kind.body).get(release.field);
    let is_misplaced = misplaced.is_set() && misplaced.pointer != field.pointer;
    if let Some(finding) = cx.missing(&field.pointer, message) {
        if is_misplaced {
            finding.instead_of_fill(Level::Warn);
            finding.help(format!("move `{}` to `{}`", misplaced.pointer, field.pointer));
            return;
        }
        finding.help(help).fix(Safety::Safe, vec![fix]);
        // Filling a finished run would delete pods that somebody may look at.
        if workload.has_finished() {
            finding.instead_of_fill(Level::Note);
        }
    }
}

/// What comes before all else of a job in a queue, to follow a sentence.
const REFUSED: &str = "; Kueue refuses the job in a queue without it";

/// Tells whether Kueue refuses to take a job into its queue as long as it does not release its pods.
fn is_refused_in_queue(workload: &Workload<'_>, release: Release) -> bool {
    let Some(except) = release.queued_without else { return false };
    let queue = workload.object.at(workload.kind.run_metadata).at(&["labels", QUEUE]);
    let field = workload.limits.get(release.field);
    workload.inside.is_none()
        && queue.text().set().is_some_and(|queue| !queue.is_empty())
        && !workload.limits.get(except).is_set()
        && matches!(field.bool(), Field::Unset | Field::Set(false))
}

/// Reports a job with another way to release its pods, which Kueue does not take into its queue.
fn report_refused(cx: &mut Cx<'_>, release: Release) {
    let workload = cx.workload;
    let name = release.field;
    let field = workload.limits.get(name);
    let message = format!("Kueue refuses a {} in a queue without `{name}: true`", workload.kind.name);
    let other = release.unless.iter().find(|other| workload.limits.get(other).is_set());
    let instead = other.map(|other| format!(" instead of `{other}`")).unwrap_or_default();
    if let Some(finding) = cx.report_field(&field, message) {
        finding
            .instead_of_fill(Level::Warn)
            .at_most(Level::Warn)
            .help(format!("write `{name}: true`{instead}"));
    }
}

/// Reports pods that run on after a failure, and that nothing stops.
fn report_left_behind(cx: &mut Cx<'_>, leak: Leak) {
    let workload = cx.workload;
    let decides = |release: Release| release.unless.iter().any(|field| workload.limits.get(field).is_set());
    // The field that releases pods is reported instead.
    if !workload.pods.iter().any(PodTemplate::holds_accelerators)
        || !workload.kind.release.is_none_or(decides)
    {
        return;
    }
    let Some(left) = cx.left_behind() else { return };
    let short = |role: &str| cut(role, MAX_ROLE_BYTES, "…").escape_debug().to_string();
    let (when, which) = match &left.cause {
        Cause::PodFailed(role) => {
            (format!("when a pod of `{}` exits with 1", short(role)), "the others run on")
        }
        Cause::PodsOverdue(role) => {
            (format!("when `{}` passes its deadline", short(role)), "the others run on")
        }
        Cause::Deadline => ("after the deadline".to_owned(), "its pods run on"),
        Cause::NotSubmitted => ("when the work cannot be submitted".to_owned(), "its pods run on"),
    };
    let incident = match &left.cause {
        Cause::PodFailed(_) => Some(Incident::Exit(1)),
        Cause::PodsOverdue(_) | Cause::Deadline => Some(Incident::Hang),
        Cause::NotSubmitted => None,
    };
    let loss = left.cost.loss();
    let (name, around) = leak.at.split_last().map_or(("", leak.at), |(name, around)| (*name, around));
    let list = workload.object.at(leak.at);
    // An older form of the rules, which goes with no list.
    let older = workload.object.at(around);
    let is_older = around != workload.kind.body && !list.is_set() && older.is_set();
    let (field, of, help) = match around.last() {
        Some(of) if is_older => (older, *of, format!("write `{name}` instead, with {}", leak.remedy)),
        _ => (list, name, format!("add {}", leak.remedy)),
    };
    let message = format!("{}: {when}, {which}, and nothing in `{of}` stops them", left.cost);
    if let Some(finding) = cx.report_field(&field, message) {
        finding.instead_of_fill(Level::Warn).at_most(Level::Warn).at_key().help(help);
        finding.incident = incident;
        finding.costs(loss);
    }
}

/// Reports a job without accelerators whose pods keep running. The webhook does not fill here: what the pods
/// hold costs less than the loss of a cluster that somebody still looks at.
fn report_without_accelerators(cx: &mut Cx<'_>, release: Release, is_refused: bool) {
    let workload = cx.workload;
    let field = release.place(&workload.object, &workload.limits);
    // Somebody may look at a finished run, and the rule `deadline` reports what a deadline does without the
    // field.
    let is_said = workload.has_finished() || workload.deadline().is_set() && !is_refused;
    // Nor where a wrong type hides what the pods hold.
    let is_hidden = workload.pods.is_empty() || AcceleratorCount::from_pods(&workload.pods).is_none();
    if !release.without_accelerators || is_said || is_hidden {
        return;
    }
    let is = if field.is_set() { "is `false`" } else { "is not set" };
    let (name, left) = (release.field, release.left);
    let refused = if is_refused { REFUSED } else { "" };
    let message = format!(
        "`{name}` {is}, so {left} run on when the job has ended, until somebody deletes them{refused}"
    );
    let fix = if field.is_set() {
        Some(Op::Replace(field.pointer.clone(), release.value()))
    } else {
        workload.limits.set(release.field, release.value())
    };
    let finding = cx.report_field(&field, message);
    if let (Some(finding), Some(fix)) = (finding, fix) {
        finding.instead_of_fill(Level::Warn).at_most(Level::Warn).fix(Safety::Unsafe, vec![fix]);
        finding.help(format!("write `{name}: true`, {}", release.effect(workload.kind.ttl_name())));
    }
}

/// Tells whether a job of roles has one pod, besides parameter servers without accelerators, and ends only with
/// that pod.
fn ends_with_its_pod(workload: &Workload<'_>) -> bool {
    let works = |pod: &&PodTemplate<'_>| pod.role() != Some("PS") || pod.holds_accelerators();
    let mut pods = workload.pods.iter().filter(works).map(|pod| pod.count.most);
    let all = pods.try_fold(0_i64, |all, most| Some(all.saturating_add(most?)));
    workload.kind.roles().is_some()
        && all == Some(1)
        && !workload.deadline().is_set()
        && !workload.limits.get("backoffLimit").is_set()
}
