//! Autoscalers do not evict pods with accelerators to save a node. Off by default.
//!
//! ## Why
//!
//! Karpenter and the cluster autoscaler move pods together to save a node: each evicts pods from a node that is
//! not well used, and removes the node. For a server with ten replicas that is harmless. A training pod loses
//! its work since the last checkpoint, the other pods of its run hang or fail with it, and with few retries the
//! job is over. Neither looks at how long a pod has run, and a Job is nothing special to them.
//!
//! ## Bad
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
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
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
//!     metadata:
//!       annotations:
//!         cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
//!         karpenter.sh/do-not-disrupt: "true"
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
//! Unsafe: writes the annotations of the example into the pod templates, of the autoscaler that runs. A node is
//! kept as long as the pod runs then, however little it does.
//!
//! ## Details
//!
//! Off by default (`ignore`): a manifest does not show which autoscaler runs, and a short run loses little. A
//! policy turns it on, and says which one it is:
//!
//! ```yaml
//! rules:
//!   voluntary-eviction-blocked:
//!     action: warn
//!     params: {autoscaler: karpenter}
//! ```
//!
//! With `any`, the default, pods are reported that have neither annotation; with `both`, those that lack one.
//!
//! Pods whose containers request accelerators are reported. What one eviction costs is what `jobgate simulate
//! --what drain` says.
//!
//! **Karpenter** (1.14.1, `pkg/utils/pod/scheduling.go`) evicts no pod with `karpenter.sh/do-not-disrupt: "true"`,
//! or with a duration since the start of the pod (`"4h"`, since 1.12). Any other value is ignored. It is about
//! consolidation and drift: a node that expires (`expireAfter`, 720 hours by default) or whose spot capacity is
//! taken back goes all the same. `karpenter.sh/do-not-evict` was its name before 0.31, and is not read since 1.0.
//!
//! **The cluster autoscaler** (1.36.1, `simulator/drainability/rules`) evicts no pod with
//! `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`, or `on-completion` since 1.36. By default it evicts
//! only pods of a batch/v1 Job, and of no operator; so only kinds of batch/v1 Jobs are reported. A pod with a
//! `hostPath`, or an `emptyDir` on the disk, keeps its node too, unless `safe-to-evict-local-volumes` names it.
//!
//! An author who writes `safe-to-evict: "true"` or `do-not-disrupt: "false"` has decided, and nothing is reported.
//!
//! ## References
//!
//! * <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! * <https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-types-of-pods-can-prevent-ca-from-removing-a-node>
//! * <https://github.com/kubernetes/autoscaler/issues/7095>
//! * <https://github.com/kubernetes-sigs/karpenter/issues/701>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::finding::Safety;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule, Word};
use crate::kinds::{Field, Part, PodTemplate};
use crate::text::value::Value;

const AUTOSCALER: Word = Word::new(
    "autoscaler",
    "What evicts pods to save a node: `karpenter`, `cluster-autoscaler`, or `both`. With `any`, the annotation of one \
     is enough.",
    &["any", "both", "cluster-autoscaler", "karpenter"],
);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Accelerator pods evicted to save a node".into(),
        summary: "Autoscalers do not evict pods with accelerators to save a node".into(),
        kinds: Kinds::OwnPods,
        // A manifest does not show which autoscaler runs.
        default: Action::Ignore,
        params: &[AUTOSCALER.0],
        export: Exportable::No("it reads which containers request accelerators, which CEL does not do well"),
        ..Rule::new("voluntary-eviction-blocked", check)
    }
}

const LOCAL_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// What evicts pods to save a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autoscaler {
    Karpenter,
    ClusterAutoscaler,
}

/// What the annotation of an autoscaler says of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// It is kept.
    Kept,
    /// Its author lets it be evicted.
    Evicted,
    /// Nothing.
    Nothing,
    /// A value that is not read.
    NoValue,
    /// A placeholder or wrong type hides it.
    Hidden,
}

impl Autoscaler {
    const fn key(self) -> &'static str {
        match self {
            Self::Karpenter => "karpenter.sh/do-not-disrupt",
            Self::ClusterAutoscaler => "cluster-autoscaler.kubernetes.io/safe-to-evict",
        }
    }

    /// Returns the value that keeps a pod.
    const fn value(self) -> &'static str {
        match self {
            Self::Karpenter => "true",
            Self::ClusterAutoscaler => "false",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Karpenter => "Karpenter",
            Self::ClusterAutoscaler => "the cluster autoscaler",
        }
    }

    /// Returns what its annotation says.
    fn says(self, annotations: &Part<'_>) -> Says {
        let text = match annotations.get(self.key()).text() {
            Field::Unset => return Says::Nothing,
            Field::Placeholder(_) | Field::Wrong => return Says::Hidden,
            Field::Set(text) => text,
        };
        match (self, text) {
            (Self::Karpenter, "true") | (Self::ClusterAutoscaler, "false" | "on-completion") => Says::Kept,
            (Self::Karpenter, "false") | (Self::ClusterAutoscaler, "true") => Says::Evicted,
            (Self::Karpenter, text) if is_duration(text) => Says::Kept,
            _ => Says::NoValue,
        }
    }

    /// Tells whether it may evict pods of a template without its annotation.
    fn may_evict(self, pod: &PodTemplate<'_>) -> bool {
        self == Self::Karpenter || pod.form.is_job() && !has_local_storage(pod)
    }
}

/// Tells whether a text is a positive duration of Go, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["ns", "us", "µs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut is_positive = false;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() < 2;
        if !is_number || !UNITS.contains(&unit) {
            return false;
        }
        is_positive |= number.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        rest = next;
    }
    is_positive
}

/// Tells whether pods have volumes that keep their node: on the disk of the node, and not named as of no account.
fn has_local_storage(pod: &PodTemplate<'_>) -> bool {
    let named = pod.template.at(&["metadata", "annotations", LOCAL_VOLUMES]).text().set().unwrap_or_default();
    let is_named = |volume: &Part<'_>| {
        let name = volume.get("name").text().set().unwrap_or_default();
        named.split(',').any(|one| one == name)
    };
    pod.spec.get("volumes").mappings().any(|volume| {
        let directory = volume.get("emptyDir");
        let is_on_disk = directory
            .value
            .is_some_and(|value| value.get("medium").and_then(Value::as_str) != Some("Memory"));
        (volume.get("hostPath").is_set() || directory.is_set() && is_on_disk) && !is_named(&volume)
    })
}

fn check(cx: &mut Cx<'_>) {
    const BOTH: [Autoscaler; 2] = [Autoscaler::Karpenter, Autoscaler::ClusterAutoscaler];
    let word = cx.word(&AUTOSCALER);
    let runs: &[Autoscaler] = match word {
        "karpenter" => &BOTH[..1],
        "cluster-autoscaler" => &BOTH[1..],
        _ => &BOTH,
    };
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate().filter(|(_, pod)| pod.holds_accelerators()) {
        let annotations = pod.template.at(&["metadata", "annotations"]);
        let says = runs.iter().map(|one| (*one, one.says(&annotations)));
        let says: Vec<_> = says.filter(|(one, _)| one.may_evict(pod)).collect();
        let is = |wanted: &[Says]| says.iter().any(|(_, says)| wanted.contains(says));
        if is(&[Says::Evicted, Says::Hidden]) || word == "any" && is(&[Says::Kept]) {
            continue;
        }
        let open: Vec<_> = says.into_iter().filter(|(_, says)| *says != Says::Kept).collect();
        report(cx, index, &annotations, &open);
    }
}

fn report(cx: &mut Cx<'_>, index: usize, annotations: &Part<'_>, open: &[(Autoscaler, Says)]) {
    let Some((first, _)) = open.first() else { return };
    let pod = &cx.workload.pods[index];
    let names = open.iter().map(|(one, _)| one.name()).collect::<Vec<_>>().join(" or ");
    let keys =
        |join: &str| open.iter().map(|(one, _)| format!("`{}`", one.key())).collect::<Vec<_>>().join(join);
    let wrong = open.iter().find(|(_, says)| *says == Says::NoValue);
    let why = match (wrong, open.len()) {
        (Some((one, _)), _) => format!("{} does not read the value of `{}`", one.name(), one.key()),
        (None, 1) => format!("{} is not set", keys("")),
        (None, _) => format!("neither {} is set", keys(" nor ")),
    };
    let forecast = if pod.form.is_job() {
        cx.forecast(index, Incident::Drain)
    } else {
        cx.forecast_object(index, Incident::Drain, None)
    };
    let loss =
        forecast.as_ref().filter(|told| told.outcome.ending == Ending::Completes).map(|told| told.loss());
    let then = match (&forecast, loss) {
        (Some(told), _) if told.outcome.ending == Ending::Fails => {
            ", and the first eviction ends the job".to_owned()
        }
        (_, Some(loss)) => format!(", and one eviction costs about {loss}"),
        _ => String::new(),
    };
    let message = format!("{names} may evict these pods to save a node: {why}{then}");
    let advice = open.iter().map(|(one, _)| format!("`{}: \"{}\"`", one.key(), one.value()));
    let help = format!("write {} in `{}`", advice.collect::<Vec<_>>().join(" and "), annotations.pointer);
    let set = |(one, _): &(Autoscaler, Says)| {
        pod.template.set_at(&["metadata", "annotations", one.key()], one.value().into())
    };
    let ops = open.iter().map(set).collect::<Option<Vec<_>>>();
    let at = wrong.map_or(first.key(), |(one, _)| one.key());
    let Some(finding) = cx.report_field(&annotations.get(at), message) else { return };
    // The fix keeps it from happening; what comes of it stays the same.
    finding.about(Incident::Drain).help(help).costs(loss);
    if let Some(ops) = ops {
        finding.fix(Safety::Unsafe, ops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Workload;
    use crate::text::value::json;

    #[test]
    fn an_annotation_keeps_a_pod_as_its_reader_reads_it() {
        for (autoscaler, value, expected) in [
            // `IsDoNotDisruptActive` of Karpenter 1.14.1.
            (Autoscaler::Karpenter, json!("true"), Says::Kept),
            (Autoscaler::Karpenter, json!("4h"), Says::Kept),
            (Autoscaler::Karpenter, json!("1h30m"), Says::Kept),
            (Autoscaler::Karpenter, json!("1.5h"), Says::Kept),
            (Autoscaler::Karpenter, json!("0s"), Says::NoValue),
            (Autoscaler::Karpenter, json!("-4h"), Says::NoValue),
            (Autoscaler::Karpenter, json!("4"), Says::NoValue),
            (Autoscaler::Karpenter, json!("4d"), Says::NoValue),
            (Autoscaler::Karpenter, json!("True"), Says::NoValue),
            (Autoscaler::Karpenter, json!(""), Says::NoValue),
            (Autoscaler::Karpenter, json!("false"), Says::Evicted),
            (Autoscaler::Karpenter, json!(true), Says::Hidden),
            (Autoscaler::Karpenter, json!("$KEEP"), Says::Hidden),
            (Autoscaler::Karpenter, Value::Null, Says::Nothing),
            // `HasNotSafeToEvictAnnotation`, `HasSafeToEvictAnnotation` and `oncompletion` of cluster-autoscaler 1.36.1.
            (Autoscaler::ClusterAutoscaler, json!("false"), Says::Kept),
            (Autoscaler::ClusterAutoscaler, json!("on-completion"), Says::Kept),
            (Autoscaler::ClusterAutoscaler, json!("true"), Says::Evicted),
            (Autoscaler::ClusterAutoscaler, json!("False"), Says::NoValue),
        ] {
            let annotations = json!({autoscaler.key(): value.clone()});
            assert_eq!(autoscaler.says(&Part::root(&annotations)), expected, "{autoscaler:?} {value}");
        }
    }

    #[test]
    fn the_cluster_autoscaler_leaves_pods_of_operators_and_of_local_storage() {
        let pod = |volumes: Value, annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"volumes": volumes, "containers": [{"name": "c", "image": "i"}]}});
        let job = |template: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}});
        let evicts = |object: &Value| {
            let workload = Workload::from_object(object).expect("a workload");
            let pod = workload.pods.first().expect("a template");
            [Autoscaler::Karpenter, Autoscaler::ClusterAutoscaler].map(|one| one.may_evict(pod))
        };
        let none = || json!({});
        let scratch = || json!([{"name": "scratch", "emptyDir": {}}]);
        assert_eq!(evicts(&job(pod(json!([]), none()))), [true, true]);
        assert_eq!(evicts(&job(pod(scratch(), none()))), [true, false]);
        assert_eq!(evicts(&job(pod(scratch(), json!({LOCAL_VOLUMES: "a,scratch"})))), [true, true]);
        assert_eq!(
            evicts(&job(pod(json!([{"name": "shm", "emptyDir": {"medium": "Memory"}}]), none()))),
            [true, true]
        );
        assert_eq!(
            evicts(&job(pod(json!([{"name": "data", "hostPath": {"path": "/data"}}]), none()))),
            [true, false]
        );
        let worker = json!({"Worker": {"replicas": 2, "template": pod(json!([]), none())}});
        let torch = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": worker}});
        assert_eq!(evicts(&torch), [true, false]);
    }
}
