//! Pods leave a node that stops answering: no toleration keeps them there forever.
//!
//! ## Why
//!
//! When a node stops answering, Kubernetes gives it the taint `node.kubernetes.io/unreachable:NoExecute`, and
//! deletes its pods five minutes later, so that they run elsewhere. The five minutes are a toleration that every
//! pod gets, unless it tolerates the taint already. `operator: Exists` without a key tolerates every taint,
//! without an end: the pod on the lost node is never deleted, nothing replaces it, and the other pods of the run
//! wait for it, with all their GPUs, until somebody deletes the node.
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
//!       tolerations: [{operator: Exists}]
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
//!       tolerations:
//!       - {operator: Exists}
//!       - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
//!       - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! Unsafe: adds the two tolerations of the example, which any other pod gets by itself. Of several tolerations
//! of a taint, the shortest counts.
//!
//! ## Details
//!
//! A template is reported whose pods tolerate all taints of the effect `NoExecute`, or of every effect, without
//! `tolerationSeconds`, if the work is never done when a node is lost, and is done with the fix: `jobgate simulate
//! --what node-lost` says both. It is a note where the pods hold no accelerators.
//!
//! It is silent where nothing would take the place of a pod that is being deleted either: with
//! `podReplacementPolicy: Failed`, or in the kinds whose operator makes a pod only when the old one is gone. There,
//! `pod-replacement-policy` says what to do about a lost node. It is silent as well where
//! a toleration names the key `node.kubernetes.io/unreachable`: its author has decided.
//!
//! Better than a toleration of everything are those of the taints that the nodes have, or `effect: NoSchedule`,
//! which lets pods onto nodes and says nothing about staying there.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions>
//! * <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds>

use crate::controllers::incident::Incident;
use crate::controllers::pod::unreachable_tolerated;
use crate::controllers::story::Ending;
use crate::judge::finding::{Level, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::loss::Loss;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::tolerations::append;
use crate::kinds::{Field, Part};
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::json;

/// The taints of a node that does not answer (`pkg/controller/nodelifecycle` of Kubernetes 1.36).
const LOST: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// How long pods tolerate them by default (`plugin/pkg/admission/defaulttolerationseconds`).
const SECONDS: i64 = 300;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods stay on a lost node".into(),
        summary: "Pods leave a node that stops answering: no toleration keeps them there forever".into(),
        kinds: Kinds::OwnPods,
        // Lowered to a note where no accelerator waits.
        default: Action::Warn,
        incident: Some(Incident::NodeLost),
        export: Exportable::No("it asks what happens to the job, which CEL cannot"),
        ..Rule::new("lost-node-left", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let mut is_shared_reported = false;
    for (index, pod) in workload.pods.iter().enumerate() {
        let tolerations = pod.spec.get("tolerations");
        let Some(blanket) = blanket(&tolerations) else { continue };
        if pod.spec.shares("tolerations") && std::mem::replace(&mut is_shared_reported, true) {
            continue;
        }
        let ops = append(&tolerations, LOST.iter().map(|key| json!({"key": *key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS})));
        let Some((before, after)) = ask(cx, index, &ops) else { continue };
        if is_done(&before) || !is_done(&after) {
            continue;
        }
        // One that waits for a last pod holds no others.
        let is_bounded = before.outcome.ending == Ending::Wedged;
        let loss = if is_bounded { before.loss() } else { Loss { time: None, ..before.loss() } };
        let cost = match (loss.has_accelerators, is_bounded) {
            (false, _) => String::new(),
            (true, true) => format!(", about {loss}"),
            (true, false) => format!(": {loss}"),
        };
        let message = format!(
            "the pods tolerate every taint without an end: one on a lost node is never deleted, so nothing takes its \
             place{cost}"
        );
        let finding = cx.report(&blanket, message);
        finding.help(format!(
            "add tolerations of `{}` and `{}` with `tolerationSeconds: {SECONDS}`, or write `effect: NoSchedule`",
            LOST[0], LOST[1]
        ));
        finding.costs(loss).fix(Safety::Unsafe, ops);
        if !loss.has_accelerators {
            finding.at_most(Level::Note);
        }
    }
}

/// Tells whether the work gets done. The last condition of a Job may wait for a pod on a node that does not answer.
fn is_done(told: &Forecast) -> bool {
    let decided = told.outcome.reason.as_deref();
    told.outcome.ending == Ending::Completes
        || told.outcome.ending == Ending::Wedged
            && matches!(decided, Some("CompletionsReached" | "SuccessPolicy"))
}

/// Returns the toleration of everything that keeps pods on a lost node forever; nothing where there is none, or the author
/// says what becomes of pods there.
fn blanket(tolerations: &Part<'_>) -> Option<Pointer> {
    if tolerations.values().is_empty() || unreachable_tolerated(tolerations.values()).is_some() {
        return None;
    }
    let mut found = None;
    for toleration in tolerations.mappings() {
        let text = |key| toleration.get(key).text();
        if text("key") == Field::Set(LOST[1]) || toleration.get("tolerationSeconds").is_set() {
            return None;
        }
        let is_of_all =
            matches!(text("key"), Field::Unset | Field::Set("")) && text("operator") == Field::Set("Exists");
        if is_of_all && matches!(text("effect"), Field::Unset | Field::Set("" | "NoExecute")) {
            found.get_or_insert(toleration.pointer);
        }
    }
    found
}

/// Returns what comes of a lost node, as it is and after some operations.
fn ask(cx: &Cx<'_>, index: usize, ops: &[Op]) -> Option<(Forecast, Forecast)> {
    const LOST: Incident = Incident::NodeLost;
    if cx.workload.pods[index].form.is_job() {
        return cx.forecast(index, LOST).zip(cx.forecast_after(index, LOST, ops));
    }
    cx.forecast_object(index, LOST, None).zip(cx.forecast_object_after(index, LOST, None, ops))
}
