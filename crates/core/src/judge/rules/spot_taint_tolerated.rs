//! Pods that select spot nodes of AKS tolerate their taint.
//!
//! ## Why
//!
//! AKS sets the taint `kubernetes.azure.com/scalesetpriority=spot:NoSchedule` on every spot node. A pod that
//! selects these nodes and does not tolerate the taint fits on no node at all: it waits in Pending forever.
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
//!       nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
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
//!   podReplacementPolicy: Failed
//!   podFailurePolicy:
//!     rules:
//!     - action: Ignore
//!       onPodConditions: [{type: DisruptionTarget, status: "True"}]
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
//!       tolerations: [{key: kubernetes.azure.com/scalesetpriority, operator: Exists, effect: NoSchedule}]
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Safe: adds the toleration of the example. The pods cannot run without it.
//!
//! ## Details
//!
//! Pods select the nodes if a `nodeSelector`, or each term of a required node affinity, asks for the label
//! `kubernetes.azure.com/scalesetpriority` with the one value `spot`. A toleration without it is fine: the
//! pods may run on spot nodes, and on others.
//!
//! Other providers are not reported: GKE, EKS and Karpenter set a taint on spot nodes only where the
//! cluster's owner asks for one.
//!
//! ## References
//!
//! * <https://learn.microsoft.com/en-us/azure/aks/spot-node-pool>
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use crate::judge::finding::{Part as FindingPart, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::spot::selected;
use crate::kinds::accelerator::toleration;
use crate::text::patch::Op;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Spot taint not tolerated".into(),
        summary: "Pods that select spot nodes of AKS tolerate their taint".into(),
        kinds: Kinds::OwnPods,
        default: Action::Warn,
        export: Exportable::No("it reads node affinities, which CEL does not do well"),
        ..Rule::new("spot-taint-tolerated", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    for pod in &cx.workload.pods {
        let Some(nodes) = selected(&pod.spec).filter(|nodes| nodes.spot.is_tainted) else { continue };
        let tolerations = pod.spec.get("tolerations");
        if nodes.spot.is_tolerated_by(&tolerations) {
            continue;
        }
        let new = toleration(nodes.spot.label);
        let op = match tolerations.value {
            None | Some(Value::Null) => pod.spec.set("tolerations", Value::Array(vec![new])),
            Some(Value::Array(list)) => Some(Op::Add(&tolerations.pointer / list.len(), new)),
            Some(_) => continue,
        };
        let message = format!(
            "the pods select spot nodes of {} and do not tolerate their taint `{}`: they stay Pending",
            nodes.spot.provider, nodes.spot.label
        );
        let help = format!("add `{{key: {}, operator: Exists, effect: NoSchedule}}`", nodes.spot.label);
        let Some(finding) = cx.missing(&tolerations.pointer, message) else { continue };
        finding.help(help).label(Place::Here(nodes.place, FindingPart::Value), "selects spot nodes");
        if let Some(op) = op {
            finding.fix(Safety::Safe, vec![op]);
        }
    }
}
