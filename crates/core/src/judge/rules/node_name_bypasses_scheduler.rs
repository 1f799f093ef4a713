//! The scheduler places pods: a pod template does not name its node in `nodeName`.
//!
//! ## Why
//!
//! The scheduler never sees a pod with `spec.nodeName`: where its node has no room, the kubelet fails it (`OutOfcpu`, or
//! `UnexpectedAdmissionError` if the GPUs are taken) instead of letting it wait. The Job counts that as a failure and
//! makes the next pod, for the same node: while another run has the GPUs for an hour, a Job with six retries is over
//! after some ten minutes, without having run.
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
//!       nodeName: gpu-17
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
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
//!       nodeSelector: {kubernetes.io/hostname: gpu-17}
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes the label `kubernetes.io/hostname` into `nodeSelector` instead. On most clusters its value is the
//! name of the node, but it need not be: see `kubectl get nodes -L kubernetes.io/hostname`. The pod then needs a
//! toleration of the node's taints, which the scheduler looks at.
//!
//! ## Details
//!
//! Without accelerators, the finding is a note.
//!
//! What the kubelet does, by the source of Kubernetes 1.36 (`pkg/kubelet/lifecycle/predicate.go`): it fails a pod
//! whose requests do not fit (`OutOfcpu`, `OutOfmemory`, `OutOfpods`, `OutOf` and the name of another resource), for
//! which its devices do not suffice (`UnexpectedAdmissionError`), whose `nodeSelector` or node affinity the node
//! does not match (`NodeAffinity`), and that does not tolerate a taint of the node with the effect `NoExecute`
//! (`TaintToleration`). It does not look at taints with `NoSchedule`, so the pod runs beside those that they are meant
//! to keep away. What is lost besides: preemption, affinities between pods, gangs, and claims whose storage class
//! has `volumeBindingMode: WaitForFirstConsumer`, which stay unbound because the scheduler binds them.
//!
//! What comes of a pod that is failed:
//!
//! * A Job counts it (`backoffLimit`, or `backoffLimitPerIndex`), and waits 10, 20, 40 … seconds before the next. A
//!   JobSet fails or restarts with its Job.
//! * The training operator deletes it and makes the next at once, without a limit, with `restartPolicy: OnFailure` or
//!   `ExitCode`: a release of 1.9 made 47 pods in 25 seconds, whatever `backoffLimit` was. With `Never` the job fails.
//!
//! A pod for a node that does not exist is failed by the pod garbage collector within a minute.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename>
//! * <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>

use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::quote;
use crate::kinds::{Field, HOSTNAME, PodTemplate};
use crate::text::patch::Op;
use crate::text::placeholder::is_to_replace;
use crate::text::pointer::Pointer;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Node named past the scheduler".into(),
        summary: "The scheduler places pods: a pod template does not name its node in `nodeName`".into(),
        kinds: Kinds::WithPods,
        // Lowered to a note without accelerators.
        default: Action::Warn,
        export: Exportable::No("it reads whether there are accelerators, of which a policy has the list"),
        ..Rule::new("node-name-bypasses-scheduler", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let mut shared: Option<Pointer> = None;
    for pod in &workload.pods {
        let field = pod.spec.get("nodeName");
        let Field::Set(node) = field.text() else { continue };
        if node.is_empty() || is_to_replace(node) || shared.as_ref() == Some(&field.pointer) {
            continue;
        }
        let then = if pod.form.is_job() {
            "and each such pod counts as a failure of the Job"
        } else {
            "and the next one goes to the same node"
        };
        let message = format!(
            "`nodeName` skips the scheduler: if {} has no room, its kubelet fails the pod, which would wait \
             otherwise, {then}",
            quote(node)
        );
        let fix = selects(pod, node);
        let help = format!("write `nodeSelector: {{{HOSTNAME}: {}}}`", quote(node).replace('`', ""));
        let finding = cx.report(&field.pointer, message).help(help);
        if !pod.holds_accelerators() {
            finding.at_most(Level::Note);
        }
        if let Some(ops) = fix {
            finding.fix(Safety::Unsafe, ops);
        }
        shared = pod.spec.shares("nodeName").then_some(field.pointer);
    }
}

/// Returns the operations that let the scheduler find the node.
fn selects(pod: &PodTemplate<'_>, node: &str) -> Option<Vec<Op>> {
    if ["nodeName", "nodeSelector"].iter().any(|field| pod.spec.shares(field)) {
        return None;
    }
    let remove = Op::Remove(pod.spec.get("nodeName").pointer);
    let host = pod.spec.at(&["nodeSelector", HOSTNAME]);
    match host.text() {
        Field::Set(host) => (host == node).then_some(vec![remove]),
        Field::Unset => {
            let set = pod.spec.own.set_at(&["nodeSelector", HOSTNAME], node.into())?;
            Some(vec![remove, set])
        }
        Field::Placeholder(_) | Field::Wrong => None,
    }
}
