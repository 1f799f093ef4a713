//! Pods that ask for an accelerator tolerate its nodes' taint.
//!
//! ## Why
//!
//! Nodes with accelerators usually carry a taint, so that nothing else lands on them (GKE sets `nvidia.com/gpu=present:NoSchedule` by itself). A pod that
//! asks for a GPU and does not tolerate the taint stays Pending on an idle node.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
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
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! Safe: adds `{key: <taint>, operator: Exists, effect: NoSchedule}` to `tolerations`; the webhook fills in the same. A toleration draws a pod
//! nowhere: where it runs is decided by the resources it asks for.
//!
//! Unsafe: makes the author's toleration of one value (`operator: Equal`) one of all values (`operator: Exists`, and no `value`).
//!
//! ## Details
//!
//! Which resource sits behind which taint is the parameter `taints`; a policy that sets it replaces the whole table. MIG slices and shared GPUs sit behind
//! the taint of the whole GPU. A resource that is not in the table is no accelerator: `nvidia.com/rdma-vf` is a network card.
//! Limits and requests of all containers are read, init containers and sidecars included; a quantity of zero asks for nothing.
//!
//! A taint's value differs from cloud to cloud (`present`, `true`, none), so the toleration says `Exists`. One of the author's with `operator: Equal`
//! covers one value only: that is worth a warning, and nothing is added beside it.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
//! * <https://cloud.google.com/kubernetes-engine/docs/how-to/gpus>

use std::collections::{BTreeMap, BTreeSet};

use crate::accelerator;
use crate::finding::{Level, Op, Part as FindingPart, Place, Safety};
use crate::policy::Action;
use crate::rule::{Cx, Param, ParamDefault, Rule};
use crate::value::Value;
use crate::workload::{Field, Kind, Part, PodTemplate};

pub(super) static RULE: Rule = Rule {
    id: "gpu-toleration",
    summary: "Pods that ask for an accelerator tolerate its nodes' taint",
    kinds: &[Kind::Job, Kind::CronJob, Kind::PyTorchJob],
    default: Action::Fill,
    fills: &[
        "/spec/template/spec/tolerations",
        "/spec/template/spec/tolerations/*",
        "/spec/jobTemplate/spec/template/spec/tolerations",
        "/spec/jobTemplate/spec/template/spec/tolerations/*",
        "/spec/pytorchReplicaSpecs/*/template/spec/tolerations",
        "/spec/pytorchReplicaSpecs/*/template/spec/tolerations/*",
    ],
    params: &[Param {
        name: "taints",
        doc: "Resource name, or a glob with one `*`, to the key of the taint on the nodes that have it.",
        default: ParamDefault::Map(accelerator::TAINTS),
    }],
    cel: Err("what it fills in, or denies where a policy says so, depends on more than CEL says well"),
    check,
};

fn check(cx: &mut Cx<'_>) {
    let taints: Vec<(&str, &str)> = cx.map("taints").collect();
    for pod in &cx.workload.pods {
        check_pod(cx, pod, &taints);
    }
}

fn check_pod<'a>(cx: &mut Cx<'_>, pod: &PodTemplate<'a>, taints: &[(&str, &'a str)]) {
    let tolerations = pod.spec.get("tolerations");
    if tolerations.is_set() && !tolerations.value.is_some_and(Value::is_array) {
        return;
    }
    // By taint, the first place that asks for something behind it: several resources may share one.
    let mut wanted: BTreeMap<&str, accelerator::Request<'_>> = BTreeMap::new();
    for request in accelerator::requests(pod, taints) {
        wanted.entry(request.taint).or_insert(request);
    }
    if wanted.is_empty() {
        return;
    }
    let covered = Covered::by(&tolerations);
    let mut uncovered = Vec::new();
    for (taint, request) in wanted {
        if covered.all || covered.whole.contains(taint) {
            continue;
        }
        match covered.one_value.get(taint) {
            Some(index) => report_one_value(cx, &tolerations, *index, taint),
            None => uncovered.push(request),
        }
    }
    report_uncovered(cx, pod, &tolerations, &uncovered);
}

/// Which taints with the effect NoSchedule a list of tolerations covers (kubernetes.md §6), from one walk over it.
#[derive(Default)]
struct Covered<'a> {
    /// Every taint: `operator: Exists` without a key.
    all: bool,
    /// The keys of taints that are covered whatever their value.
    whole: BTreeSet<&'a str>,
    /// The keys of taints of which one value is covered, by `operator: Equal` (an unset one means the same), with the first toleration that does.
    one_value: BTreeMap<&'a str, usize>,
}

impl<'a> Covered<'a> {
    fn by(tolerations: &Part<'a>) -> Self {
        let mut covered = Self::default();
        for (index, toleration) in tolerations.items().enumerate() {
            if !matches!(toleration.get("effect").text(), Field::Unset | Field::Set("" | "NoSchedule")) {
                continue;
            }
            match (toleration.get("operator").text(), toleration.get("key").text()) {
                (Field::Set("Exists"), Field::Unset | Field::Set("")) => covered.all = true,
                (Field::Set("Exists"), Field::Set(key)) => _ = covered.whole.insert(key),
                (Field::Unset | Field::Set("" | "Equal"), Field::Set(key)) => _ = covered.one_value.entry(key).or_insert(index),
                _ => {}
            }
        }
        covered
    }
}

fn report_one_value(cx: &mut Cx<'_>, tolerations: &Part<'_>, index: usize, taint: &str) {
    let Some(toleration) = tolerations.items().nth(index) else { return };
    let value = toleration.get("value").text().set().unwrap_or_default();
    let operator = toleration.get("operator");
    let exists = match operator.value {
        Some(_) => Op::Replace(operator.pointer, "Exists".into()),
        None => Op::Add(operator.pointer, "Exists".into()),
    };
    let no_value = toleration.get("value");
    let ops = std::iter::once(exists).chain(no_value.value.map(|_| Op::Remove(no_value.pointer))).collect();
    cx.report(&toleration.pointer, format!("the taint `{taint}` is tolerated only with the value `{}`", value.escape_debug()))
        .instead_of_fill(Level::Warn)
        .at_most(Level::Warn)
        .help("write `operator: Exists` and no value: clouds give the taint different values")
        .fix(Safety::Unsafe, ops);
}

/// Reports all that is missing in one template as one finding, so that its fix is one change of one list.
fn report_uncovered(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, tolerations: &Part<'_>, uncovered: &[accelerator::Request<'_>]) {
    let Some(first) = uncovered.first() else { return };
    let keys = uncovered.iter().map(|request| format!("`{}`", request.taint)).collect::<Vec<_>>().join(" and ");
    let toleration = |request: &accelerator::Request<'_>| -> Value {
        [("key", request.taint), ("operator", "Exists"), ("effect", "NoSchedule")].map(|(key, value)| (key, Value::from(value))).into_iter().collect()
    };
    let additions: Vec<Value> = uncovered.iter().map(toleration).collect();
    let ops = match tolerations.value.and_then(Value::as_array) {
        None => vec![Op::Add(tolerations.pointer.clone(), additions.into())],
        Some(list) => {
            additions.into_iter().enumerate().map(|(at, toleration)| Op::Add(&tolerations.pointer / (list.len() + at), toleration)).collect()
        }
    };
    let help = format!("add `{{key: {}, operator: Exists, effect: NoSchedule}}` to `{}`", first.taint, tolerations.pointer);
    let message = format!("asks for `{}` without tolerating the taint {keys}: it stays Pending where such nodes are tainted", first.resource);
    let finding = cx.report(&first.place(pod), message);
    finding.field(tolerations.pointer.clone()).help(help).fix(Safety::Safe, ops);
    if tolerations.is_set() {
        finding.label(Place::Here(tolerations.pointer.clone(), FindingPart::Key), "none of these covers it");
    }
}
