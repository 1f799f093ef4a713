//! Each index of a sweep has retries of its own, so that one bad index does not end the others.
//!
//! ## Why
//!
//! An Indexed Job is often used for work in which each pod is for itself: one seed, one shard, one file. Its
//! `backoffLimit` counts the failures of all pods together, and when it is reached, all pods are deleted,
//! those that were hours into their work included. One index with bad data is enough: it alone fails seven
//! times, and a sweep of 500 runs is over.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 100
//!   parallelism: 10
//!   completionMode: Indexed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py, --seed=$(JOB_COMPLETION_INDEX)]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 100
//!   parallelism: 10
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
//!   maxFailedIndexes: 10
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py, --seed=$(JOB_COMPLETION_INDEX)]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `backoffLimitPerIndex: 1` and removes `backoffLimit`, if the pods have `restartPolicy:
//! Never`. Add `maxFailedIndexes` for a sweep that should end early if many indexes fail.
//!
//! ## Details
//!
//! A Job is reported as a note if it is Indexed with more than one index, its containers use the index
//! (`JOB_COMPLETION_INDEX`, or the annotation or label), `backoffLimitPerIndex` is not set, and
//! `backoffLimit` is unset (6) or smaller than the number of indexes.
//!
//! The time in the message is that of an index that fails ten seconds after each start, as `jobgate simulate --what
//! crash-loop` says it.
//!
//! `backoffLimitPerIndex` together with `restartPolicy: OnFailure` is a warning. The kubelet restarts the
//! container in place then, which no index counts, and the limit of the whole Job is off: a failing container
//! restarts forever.
//!
//! The rule is silent for pods that work together: with a launcher for several nodes, `mpirun`, `ssh`, a
//! variable with the address of another pod (`MASTER_ADDR`, `COORDINATOR_ADDRESS`), a `subdomain`, a topology
//! of Kueue's (`kueue.x-k8s.io/podset-required-topology`), or the mark of a group of pods that are scheduled
//! together. It is silent as well where a script only prints the index, and where the Job waits in a queue of Kueue
//! that would evict the other indexes when one has failed (`queue-eviction-ends`). It does
//! not look into JobSets, whose Jobs fail together. The field needs Kubernetes 1.29, or 1.28 with the feature
//! gate `JobBackoffLimitPerIndex`.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index>
//! * <https://kubernetes.io/docs/tasks/job/indexed-parallel-processing-static/>

use crate::controllers::incident::{Duration, Incident};
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::forecast::eviction::Evicted;
use crate::judge::peers::{is_group, use_of_index, works_with_others};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{Deadline, Field, PodTemplate};
use crate::text::patch::Op;
use crate::text::pointer::Pointer;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Retries shared by all indexes".into(),
        summary:
            "Each index of a sweep has retries of its own, so that one bad index does not end the others"
                .into(),
        kinds: Kinds::JobSpecs,
        // Lowered to a note for a sweep without retries per index.
        default: Action::Warn,
        incident: Some(Incident::CrashLoop),
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("sweep-retries-per-index", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate().filter(|(_, pod)| pod.form.is_job()) {
        let spec = &pod.around;
        let per_index = spec.get("backoffLimitPerIndex");
        if per_index.is_set() {
            in_place(cx, pod, &per_index.pointer);
            continue;
        }
        let is_set =
            matches!(workload.kind.deadline, Deadline::EndsEachJob { .. } | Deadline::OfOthers { .. });
        // What follows is a note.
        if is_set || !cx.says_notes || spec.get("completionMode").text() != Field::Set("Indexed") {
            continue;
        }
        let limit = spec.get("backoffLimit");
        let Some((all, retries)) = spec.get("completions").int().set().zip(limit.int().or_default(6)) else {
            continue;
        };
        if all < 2 || limit.is_set() && retries >= all || pod.count.most.is_none_or(|most| most <= 1) {
            continue;
        }
        let lines = cx.commands(index);
        if pod.spec.get("subdomain").is_set() || is_group(pod) {
            continue;
        }
        let Some(at) = lines.containers.iter().find_map(use_of_index) else { continue };
        if lines.containers.iter().any(works_with_others) {
            continue;
        }
        let by_default = if limit.is_set() { "" } else { " by default" };
        // One that fails whenever it starts.
        let forecast = cx.forecast(index, Incident::CrashLoop).filter(Forecast::exceeds_limit);
        let after = forecast.map_or_else(String::new, |forecast| {
            format!(" {} after it starts", Duration(forecast.outcome.at))
        });
        let message = format!(
            "`backoffLimit` ({retries}{by_default}) counts the failures of all {all} indexes together: one \
             bad index ends the others{after}"
        );
        let ops = fix(pod);
        // In a queue it would end no better.
        let is_evicted = |evicted: Evicted| !evicted.has_ended && evicted.count > 0;
        if ops.as_ref().is_some_and(|ops| cx.evicted(index, Incident::CrashLoop, ops).is_some_and(is_evicted))
        {
            continue;
        }
        let finding = if limit.is_set() {
            Some(cx.report(&limit.pointer, message))
        } else {
            cx.missing(&limit.pointer, message)
        };
        let Some(finding) = finding else { continue };
        finding.at_most(Level::Note).help("write `backoffLimitPerIndex: 1` instead of `backoffLimit`");
        finding.label(Place::Here(at, FindingPart::Value), "each pod works on its own index");
        if let Some(ops) = ops {
            finding.fix(Safety::Unsafe, ops);
        }
    }
}

/// Reports retries per index of pods that restart in place.
fn in_place(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, per_index: &Pointer) {
    let policy = pod.spec.get("restartPolicy");
    if policy.text() != Field::Set("OnFailure") {
        return;
    }
    let message = "containers restart in place with `OnFailure`, forever: `backoffLimitPerIndex` counts pods";
    let finding = cx.report(&policy.pointer, message);
    finding.help("write `restartPolicy: Never`");
    finding.label(Place::Here(per_index.clone(), FindingPart::Value), "the retries of each index");
    finding.fix(Safety::Unsafe, vec![Op::Replace(policy.pointer, "Never".into())]);
}

/// Returns the operations that give each index retries of its own.
fn fix(pod: &PodTemplate<'_>) -> Option<Vec<Op>> {
    let limit = pod.around.get("backoffLimit");
    let set = pod.around.set("backoffLimitPerIndex", 1.into())?;
    let mut ops = vec![set];
    ops.extend(limit.value.is_some().then_some(Op::Remove(limit.pointer)));
    (pod.spec.get("restartPolicy").text() == Field::Set("Never")).then_some(ops)
}
