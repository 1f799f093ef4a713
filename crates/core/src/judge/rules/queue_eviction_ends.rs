//! What Kueue evicts because its pods are not ready becomes ready again: it is not evicted again and again.
//!
//! ## Why
//!
//! Kueue waits until all pods of a job are ready, and evicts a job whose pods are not: 30 minutes after it was
//! admitted, or after one of its pods was lost (`waitForPodsReady`, on by default since Kueue 0.19). That is for
//! gangs of which one pod finds no node. Where a pod can never be ready again, because its index has failed for good,
//! it hits the healthy pods: they are killed after 30 minutes, admitted again, and killed again, until somebody
//! notices. A checkpoint every 30 minutes is never reached. The deadline does not end it, since it starts anew with
//! each admission.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata:
//!   name: sweep
//!   labels: {kueue.x-k8s.io/queue-name: gpu}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 4
//!   parallelism: 4
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
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
//! metadata:
//!   name: sweep
//!   labels: {kueue.x-k8s.io/queue-name: gpu}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 4
//!   parallelism: 4
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
//!   maxFailedIndexes: 0
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
//! None: whether the first failed index ends the Job is up to the author. Other ways are a Job for each index,
//! and fewer pods at once than indexes (`parallelism` below `completions`).
//!
//! ## Details
//!
//! Only Jobs with a queue name (the label `kueue.x-k8s.io/queue-name`), also those of a CronJob. What happens is what
//! `jobgate simulate` says, with Kueue 0.19.2 as it was recorded, and with the policy's `assumptions`: how long Kueue
//! waits (`waitForPodsReady`; `none` where it does not, as by default before 0.19), how long a run takes, and how
//! often work is saved.
//!
//! **A failed index** (`jobgate simulate --what crash-loop`). A Job with `backoffLimitPerIndex` goes on when an index
//! has failed for good, and its other pods run. For Kueue, the Job is ready when as many pods are ready or have
//! succeeded as `parallelism` and `completions` say. It is reported if one failed index lets Kueue evict the others
//! twice, and the Job would have ended with a limit of the whole Job, `backoffLimit`.
//!
//! **A lost node** (`jobgate simulate --what node-lost`, a note). With `podReplacementPolicy: Failed`, the pod of a
//! node that stops answering is not replaced before it is gone, which only somebody who deletes the Node, or gives it
//! the taint `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, can bring about. Meanwhile Kueue evicts the
//! other pods every half hour. What limits it is the label `kueue.x-k8s.io/max-exec-time-seconds`, which counts the
//! time of all admissions together.
//!
//! ## References
//!
//! * <https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index>

use crate::controllers::incident::{Duration, Incident};
use crate::judge::finding::{Finding, Level};
use crate::judge::forecast::eviction::Evicted;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{Field, PodTemplate};
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Evicted by Kueue again and again".into(),
        summary: "What Kueue evicts because its pods are not ready becomes ready again".into(),
        kinds: Kinds::QueuedJobs,
        // Lowered to a note for what a lost node brings about.
        default: Action::Warn,
        incident: Some(Incident::CrashLoop),
        export: Exportable::No("it asks what happens to the job, which CEL cannot"),
        ..Rule::new("queue-eviction-ends", check)
    }
}

/// How often is again and again.
const AGAIN: u32 = 2;

fn check(cx: &mut Cx<'_>) {
    for (index, pod) in cx.workload.pods.iter().enumerate() {
        of_indexes(cx, index, pod);
        of_lost_node(cx, index, pod);
    }
}

fn is_endless(evicted: &Evicted) -> bool {
    !evicted.has_ended && evicted.count >= AGAIN
}

/// Reports a Job whose failed index keeps the others from being ready.
fn of_indexes(cx: &mut Cx<'_>, index: usize, pod: &PodTemplate<'_>) {
    const FAILS: Incident = Incident::CrashLoop;
    let by_index = pod.around.get("backoffLimitPerIndex");
    let Field::Set(0..) = by_index.int() else { return };
    let Some(evicted) = cx.evicted(index, FAILS, &[]).filter(is_endless) else { return };
    let whole: Vec<Op> = ["backoffLimitPerIndex", "maxFailedIndexes"]
        .map(|field| pod.around.get(field))
        .into_iter()
        .filter(|field| field.value.is_some())
        .map(|field| Op::Remove(field.pointer))
        .collect();
    if cx.evicted(index, FAILS, &whole).is_none_or(|evicted| is_endless(&evicted)) {
        return;
    }
    let message = format!(
        "a failed index is never ready again, so Kueue evicts the others after {}, each time that they run{}",
        Duration(evicted.wait),
        cost(&evicted)
    );
    let finding = cx.report(&by_index.pointer, message);
    finding.at_key().help(
        "write `maxFailedIndexes: 0`, which ends the Job with its first failed index, or a Job for each index",
    );
    finish(finding, FAILS, &evicted);
}

/// Reports a Job whose pod on a lost node is not replaced.
fn of_lost_node(cx: &mut Cx<'_>, index: usize, pod: &PodTemplate<'_>) {
    let policy = pod.around.get("podReplacementPolicy");
    let is_one = pod.count.most.is_none_or(|most| most <= 1);
    if !cx.says_notes || policy.text() != Field::Set("Failed") || is_one {
        return;
    }
    let Some(evicted) = cx.evicted(index, Incident::NodeLost, &[]).filter(is_endless) else { return };
    // What the help advises.
    if cx.evicted(index, Incident::NodeGone, &[]).is_none_or(|evicted| is_endless(&evicted)) {
        return;
    }
    let message = format!(
        "with `Failed`, a pod on a lost node is not replaced, so Kueue evicts the others after {}, each time that they \
         run{}",
        Duration(evicted.wait),
        cost(&evicted)
    );
    let finding = cx.report(&policy.pointer, message);
    finding.at_most(Level::Note).help(
        "see that lost nodes are deleted, or tainted as out of service; the label \
         `kueue.x-k8s.io/max-exec-time-seconds` limits what it costs",
    );
    finish(finding, Incident::NodeLost, &evicted);
}

/// Returns what it costs, to follow a sentence; nothing where it gets further each time.
fn cost(evicted: &Evicted) -> String {
    evicted.loss.map(|loss| format!(": {loss}")).unwrap_or_default()
}

fn finish(finding: &mut Finding, incident: Incident, evicted: &Evicted) {
    finding.about(incident).costs(evicted.loss);
}
