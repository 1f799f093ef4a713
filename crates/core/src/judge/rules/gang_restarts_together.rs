//! Pods that train together restart together: one that is replaced alone waits for others that hang.
//!
//! ## Why
//!
//! The processes of a distributed run wait for each other in every step. When one pod fails, a Job with
//! retries replaces just that pod. The new process waits for a rendezvous, the others wait for the old one in
//! an NCCL call, and all of them hold their GPUs until a timeout, typically 10 to 30 minutes later; then the
//! next pod fails, up to `backoffLimit` times. On 8 nodes with 8 GPUs, six retries of that kind cost some 100
//! GPU hours. Where all pods fail together it is the other way round: each counts, so that 16 pods are beyond
//! the default of 6 at once, and the Job fails without a retry; with a higher limit, the next attempt waits up
//! to ten minutes, since the delay doubles with each failed pod.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: jobset.x-k8s.io/v1alpha2
//! kind: JobSet
//! metadata: {name: train}
//! spec:
//!   replicatedJobs:
//!   - name: workers
//!     template:
//!       spec:
//!         parallelism: 4
//!         completions: 4
//!         activeDeadlineSeconds: 86400
//!         template:
//!           spec:
//!             restartPolicy: Never
//!             containers:
//!             - name: trainer
//!               image: registry.example.com/trainer:v1
//!               env: [{name: MASTER, value: train-workers-0-0.train}]
//!               command: [torchrun, --nnodes=4, --rdzv-backend=c10d, "--rdzv-endpoint=$(MASTER)", train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: jobset.x-k8s.io/v1alpha2
//! kind: JobSet
//! metadata: {name: train}
//! spec:
//!   failurePolicy: {maxRestarts: 3}
//!   replicatedJobs:
//!   - name: workers
//!     template:
//!       spec:
//!         parallelism: 4
//!         completions: 4
//!         backoffLimit: 0
//!         podReplacementPolicy: Failed
//!         activeDeadlineSeconds: 86400
//!         template:
//!           spec:
//!             restartPolicy: Never
//!             containers:
//!             - name: trainer
//!               image: registry.example.com/trainer:v1
//!               env: [{name: MASTER, value: train-workers-0-0.train}]
//!               command: [torchrun, --nnodes=4, --rdzv-backend=c10d, "--rdzv-endpoint=$(MASTER)", train.py]
//! ```
//!
//! ## Fix
//!
//! None: whether a run may start again from its last checkpoint is up to the author. In a JobSet, write
//! `backoffLimit: 0` in the Jobs, so that the first failure fails the Job, and `failurePolicy: {maxRestarts:
//! 3}`, so that the set then starts again as a whole. A plain Job cannot restart its pods together:
//! `backoffLimit: 0` ends it, and whatever created it may create it again.
//!
//! ## Details
//!
//! Only Jobs, JobSets and other objects of batch/v1 Jobs are looked at, in which several pods run a launcher
//! that joins them: `torchrun` or `accelerate launch` with more than one node, a rendezvous endpoint or a
//! master address, `mpirun` with hosts, or a container with `MASTER_ADDR`. They are reported where
//! `backoffLimit` is not 0 (6 is the default), or where `backoffLimitPerIndex` is set, which replaces that default
//! by one without end, unless it ends the Job with the first failed index (`backoffLimitPerIndex: 0` with
//! `maxFailedIndexes: 0`). A JobSet is reported also where its Jobs have `backoffLimit: 0` and it
//! has no `failurePolicy.maxRestarts`, since the first failure then ends the set.
//!
//! What happens after a failure is what `jobgate simulate --what exit=1` says, with the policy's `assumptions`: how
//! long the other pods wait for one that is lost, and how often work is saved.
//!
//! The rule is silent for runs that cope with the loss of a pod (`--nnodes=2:4`, `--max-restarts` with a
//! dynamic rendezvous), with a rule `FailJob` in `podFailurePolicy`, for a single pod, where a number is not
//! known, and for operators that have restarts of their own.
//!
//! ## References
//!
//! * <https://jobset.sigs.k8s.io/docs/concepts/#failure-policy>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy>
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::finding::{Part as FindingPart, Place};
use crate::judge::peers::joins;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{Deadline, Field, Part, PodTemplate};
use crate::text::pointer::Pointer;

/// A pod fails.
const FAILS: Incident = Incident::Exit(1);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods of one run replaced one by one".into(),
        summary: "Pods that train together restart together: one that is replaced alone waits for others that \
                  hang".into(),
        kinds: Kinds::JobSpecs,
        default: Action::Note,
        incident: Some(FAILS),
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("gang-restarts-together", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if matches!(workload.kind.deadline, Deadline::OfOthers { .. }) {
        return;
    }
    let mut ends_at_first = None;
    for (index, pod) in workload.pods.iter().enumerate() {
        if !pod.form.is_job() || pod.count.most.is_none_or(|most| most <= 1) || fails_at_once(pod) {
            continue;
        }
        let lines = cx.commands(index);
        let Some((at, launcher)) = lines.containers.iter().find_map(joins) else { continue };
        let by_index = pod.around.get("backoffLimitPerIndex");
        if by_index.is_set() {
            of_indexes(cx, pod, &by_index, (at, &launcher));
            continue;
        }
        let limit = pod.around.get("backoffLimit");
        let retries = match limit.int() {
            Field::Unset => "6 by default".to_owned(),
            Field::Set(0) => {
                ends_at_first.get_or_insert((limit.pointer, at));
                continue;
            }
            Field::Set(retries) if retries > 0 => retries.to_string(),
            _ => continue,
        };
        let is_set = limit.is_set();
        let forecast = cx.forecast(index, FAILS);
        let mut loss = None;
        let message = match forecast {
            Some(forecast) if forecast.exceeds_limit() => format!(
                "`backoffLimit` ({retries}) is less than the {} pods of {launcher}, which fail together: when one \
                 fails, so does the Job, with no retry",
                forecast.at_once
            ),
            Some(forecast) if forecast.outcome.ending == Ending::Completes => {
                let lost = forecast.loss();
                loss = Some(lost);
                format!(
                    "`backoffLimit` ({retries}) replaces a failed pod alone: the others of {launcher} hang until \
                     they time out, and one failure costs about {lost}"
                )
            }
            _ => format!(
                "`backoffLimit` ({retries}) replaces a failed pod alone: the others of {launcher} hang, and \
                 it waits for them"
            ),
        };
        let help = match workload.kind.deadline {
            Deadline::EndsEachJob { .. } => {
                "write `backoffLimit: 0`, and `failurePolicy: {maxRestarts: 3}` in the set, which \
                 starts all pods again"
            }
            _ => {
                "write `backoffLimit: 0`, or use a JobSet with `failurePolicy.maxRestarts`, which starts \
                 all pods again"
            }
        };
        let finding = if is_set {
            Some(cx.report(&limit.pointer, message))
        } else {
            cx.missing(&limit.pointer, message)
        };
        if let Some(finding) = finding {
            finding.help(help).label(Place::Here(at, FindingPart::Value), "started in all of them").costs(loss);
        }
    }
    let (Deadline::EndsEachJob { restarts, .. }, Some((limit, at))) = (workload.kind.deadline, ends_at_first)
    else {
        return;
    };
    let field = workload.object.at(restarts);
    if !field.int().is_unset() || field.is_set() {
        return;
    }
    let message = "the first failed pod ends the whole set: its Jobs have no retries, and it has no restarts";
    if let Some(finding) = cx.missing(&field.pointer, message) {
        finding
            .help("write `failurePolicy: {maxRestarts: 3}`, which starts all pods again")
            .label(Place::Here(limit, FindingPart::Value), "no retries")
            .label(Place::Here(at, FindingPart::Value), "the pods train together");
    }
}

/// Reports retries of each index: no other limit counts then, unless the author sets one.
fn of_indexes(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, by_index: &Part<'_>, (at, launcher): (Pointer, &str)) {
    let ends_at_first = [("backoffLimit", 0), ("maxFailedIndexes", 0)]
        .iter()
        .any(|(field, limit)| pod.around.get(field).int() == Field::Set(*limit));
    let message = match by_index.int() {
        Field::Set(0) if ends_at_first => return,
        Field::Set(0) => format!(
            "`backoffLimitPerIndex: 0` ends a failed index alone: the others of {launcher} wait for it, and hang"
        ),
        Field::Set(retries) if retries > 0 => format!(
            "`backoffLimitPerIndex` ({retries}) replaces a failed pod alone: the others of {launcher} hang, and \
             it waits for them"
        ),
        _ => return,
    };
    let finding = cx.report(&by_index.pointer, message);
    finding
        .help("remove it and write `backoffLimit: 0`: it is for indexes that do not depend on each other")
        .label(Place::Here(at, FindingPart::Value), "started in all of them");
}

/// Tells whether a rule of the Job may fail it at the first failure of a pod.
fn fails_at_once(pod: &PodTemplate<'_>) -> bool {
    let rules = pod.around.at(&["podFailurePolicy", "rules"]);
    rules.items().any(|rule| rule.get("action").text() != Field::Set("Ignore"))
}
