//! Annotations and labels of autoscalers and Kueue are where they are read: on the pods, or on the job.
//!
//! ## Why
//!
//! The cluster autoscaler, Karpenter and parts of Kueue look at pods, and a pod has the annotations of its
//! *template*. On the Job itself, `safe-to-evict: "false"` protects nothing: the node is half idle, the
//! autoscaler evicts the pod and removes the node, and a day of training since the last checkpoint is gone. A
//! topology that is written one level too high leaves the pods of a run spread over all racks. Nothing says
//! so: an annotation that nobody reads is no error.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata:
//!   name: train
//!   annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ```yaml
//! apiVersion: jobset.x-k8s.io/v1alpha2
//! kind: JobSet
//! metadata:
//!   name: train
//!   labels: {kueue.x-k8s.io/queue-name: gpu}
//! spec:
//!   replicatedJobs:
//!   - name: workers
//!     template:
//!       metadata:
//!         annotations: {kueue.x-k8s.io/podset-required-topology: cloud.provider.com/rack}
//!       spec:
//!         parallelism: 4
//!         completions: 4
//!         activeDeadlineSeconds: 86400
//!         template:
//!           spec:
//!             restartPolicy: Never
//!             containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
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
//!       annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: moves the key to where it is read. It had no effect before, so the move changes what becomes of the
//! pods.
//!
//! ## Details
//!
//! **Read on pods**, as annotations, so they belong in the `metadata.annotations` of the pod template:
//!
//! * `cluster-autoscaler.kubernetes.io/safe-to-evict` and `…/safe-to-evict-local-volumes`: cluster-autoscaler 1.36.1
//!   (`utils/drain/drain.go`)
//! * `karpenter.sh/do-not-disrupt`: Karpenter 1.14.1 (`pkg/utils/pod/scheduling.go`), and `karpenter.sh/do-not-evict`:
//!   Karpenter before 1.0
//! * `kueue.x-k8s.io/podset-required-topology`, `…/podset-preferred-topology`, `…/podset-unconstrained-topology`,
//!   `…/podset-slice-required-topology`, `…/podset-slice-required-topology-constraints`, `…/podset-slice-size` and
//!   `…/podset-group-name`: Kueue 0.19.2 (`pkg/controller/jobframework/tas.go`)
//! * `kueue.x-k8s.io/safe-to-forcefully-delete`: Kueue 0.19.2 (`pkg/controller/failurerecovery`)
//!
//! They are reported on the object and on each template between it and the pod template: the `jobTemplate` of a
//! CronJob, a `template` of `replicatedJobs` in a JobSet or a runtime; and as a label of the pod template. No
//! operator of these kinds copies them to the pods (JobSet 0.12, training operator 1.9.4, MPI operator 0.8.0,
//! KubeRay 1.7.0, Volcano 1.15.1). Nothing is reported where a pod template below has the annotation as well.
//!
//! **Read on what Kueue queues** (Kueue 0.19.2, `pkg/controller/constants`): the labels
//! `kueue.x-k8s.io/priority-class` and `kueue.x-k8s.io/max-exec-time-seconds`, and of a Job the annotations
//! `kueue.x-k8s.io/job-min-parallelism` and `kueue.x-k8s.io/job-completions-equal-parallelism`. They are
//! reported in the template of the pods or of a child, or in the wrong one of `labels` and `annotations`, of an
//! object with a queue name. Of a CronJob, the metadata of `spec.jobTemplate` counts, so the same keys, and the
//! queue name itself, are reported in its own metadata.
//!
//! A queue name in a pod template is never reported: a Job without labels gets those of its pods from the API
//! server, and where Kueue manages plain pods, it is read there. So are the other keys, which are not reported
//! beside it. Of what is inside an AppWrapper, only the first list is
//! checked. A queue name that is an annotation is what `queue-name-is-a-label` reports.
//!
//! A mutating webhook of the cluster may copy such keys to the pods. Ignore the rule there.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/reference/labels-annotations-taints/#cluster-autoscaler-kubernetes-io-safe-to-evict>
//! * <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! * <https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/>
//! * <https://github.com/kubernetes/autoscaler/issues/4813>
//! * <https://github.com/kubernetes-sigs/kueue/issues/4122>

use std::collections::BTreeMap;

use crate::judge::finding::{MOST_OPS, Safety};
use crate::judge::kueue::{MAX_EXEC_TIME, QUEUE};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Ratchet, Rule};
use crate::k8s::names::label_value;
use crate::kinds::{Field, Part, PodTemplate};
use crate::text::meter;
use crate::text::patch::Op;

/// Kueue's label for the priority in its queues.
const PRIORITY: &str = "kueue.x-k8s.io/priority-class";

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Annotation where nobody reads it".into(),
        summary: "Annotations and labels of autoscalers and Kueue are where they are read".into(),
        kinds: Kinds::OwnPods,
        default: Action::Warn,
        export: Exportable::No(
            "it reads the metadata of templates inside templates, which the export does not",
        ),
        ratchet: Ratchet { labels: &[MAX_EXEC_TIME, PRIORITY, QUEUE], measure: None },
        ..Rule::new("annotation-at-its-level", check)
    }
}

const CLUSTER_AUTOSCALER: &str = "the cluster autoscaler";
const KARPENTER: &str = "Karpenter";
const KUEUE: &str = "Kueue";

/// Annotations that are read on pods, and who reads them. The releases are on the page.
const ON_PODS: [(&str, &str); 12] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", CLUSTER_AUTOSCALER),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", CLUSTER_AUTOSCALER),
    ("karpenter.sh/do-not-disrupt", KARPENTER),
    ("karpenter.sh/do-not-evict", KARPENTER),
    ("kueue.x-k8s.io/podset-group-name", KUEUE),
    ("kueue.x-k8s.io/podset-preferred-topology", KUEUE),
    ("kueue.x-k8s.io/podset-required-topology", KUEUE),
    ("kueue.x-k8s.io/podset-slice-required-topology", KUEUE),
    ("kueue.x-k8s.io/podset-slice-required-topology-constraints", KUEUE),
    ("kueue.x-k8s.io/podset-slice-size", KUEUE),
    ("kueue.x-k8s.io/podset-unconstrained-topology", KUEUE),
    ("kueue.x-k8s.io/safe-to-forcefully-delete", KUEUE),
];

/// The fields with an object inside another one.
const TEMPLATES: [&str; 2] = ["jobTemplate", "template"];

/// The mappings of metadata.
const LISTS: [&str; 2] = ["annotations", "labels"];

/// A key that Kueue reads on what it queues.
struct OfQueued {
    key: &'static str,
    /// The mapping in which it is read.
    list: &'static str,
    /// Whether it is read on Jobs only.
    of_jobs: bool,
}

const ON_QUEUED: [OfQueued; 5] = [
    OfQueued { key: QUEUE, list: "labels", of_jobs: false },
    OfQueued { key: PRIORITY, list: "labels", of_jobs: false },
    OfQueued { key: MAX_EXEC_TIME, list: "labels", of_jobs: false },
    OfQueued { key: "kueue.x-k8s.io/job-min-parallelism", list: "annotations", of_jobs: true },
    OfQueued { key: "kueue.x-k8s.io/job-completions-equal-parallelism", list: "annotations", of_jobs: true },
];

/// The metadata of an object around pod templates.
struct LevelMetadata<'a> {
    metadata: Part<'a>,
    /// The pod templates below it, by their indexes.
    pods: Vec<usize>,
}

fn check(cx: &mut Cx<'_>) {
    // What the operator of a vendor copies is unknown.
    if cx.workload.kind.untested || cx.workload.pods.is_empty() {
        return;
    }
    let levels = levels(cx);
    for level in &levels {
        of_level(cx, level);
    }
    for pod in &cx.workload.pods {
        as_label_of_pods(cx, pod);
    }
    of_queued(cx, &levels);
}

/// Returns the metadata of the object, and of the templates between it and those of the pods.
fn levels<'a>(cx: &Cx<'a>) -> Vec<LevelMetadata<'a>> {
    let workload = cx.workload;
    let whole =
        LevelMetadata { metadata: workload.object.get("metadata"), pods: (0..workload.pods.len()).collect() };
    let mut levels = BTreeMap::from([(workload.object.pointer.clone(), whole)]);
    for (index, pod) in workload.pods.iter().enumerate() {
        let at = pod.form.at;
        for (depth, _) in at.iter().enumerate().filter(|(_, step)| TEMPLATES.contains(step)) {
            let up = at.len() - depth - 1;
            let pointer = (0..up).try_fold(pod.around.pointer.clone(), |pointer, _| pointer.parent());
            let Some(pointer) = pointer else { continue };
            meter::spend(1);
            let level = levels.entry(pointer).or_insert_with_key(|pointer| {
                let metadata = pointer / "metadata";
                let value = metadata.find(cx.request.object);
                LevelMetadata { metadata: Part { pointer: metadata, value }, pods: Vec::new() }
            });
            level.pods.push(index);
        }
    }
    levels.into_values().collect()
}

fn annotation<'a>(pod: &PodTemplate<'a>, key: &'static str) -> Part<'a> {
    pod.template.at(&["metadata", "annotations", key])
}

/// Returns the operations that move a key to the annotations of pod templates; nothing if it is no text, or there are many.
fn to_pods(list: &Part<'_>, key: &'static str, pods: &[&PodTemplate<'_>]) -> Option<Vec<Op>> {
    let value = list.get(key).value.filter(|value| value.is_string() && pods.len() < MOST_OPS)?;
    let add = |pod: &&PodTemplate<'_>| pod.template.set_at(&["metadata", "annotations", key], value.clone());
    let mut ops = pods.iter().map(add).collect::<Option<Vec<Op>>>()?;
    ops.push(list.removal(key));
    Some(ops)
}

/// Reports keys that are read on pods in the metadata of an object around them.
fn of_level(cx: &mut Cx<'_>, level: &LevelMetadata<'_>) {
    let workload = cx.workload;
    for name in LISTS {
        let list = level.metadata.get(name);
        if !list.is_mapping() {
            continue;
        }
        for (key, reader) in ON_PODS {
            meter::spend(1);
            let place = list.get(key);
            if !place.is_set() {
                continue;
            }
            let pods: Vec<_> = level.pods.iter().map(|index| &workload.pods[*index]).collect();
            // The API server gives a Job without labels those of its pods, where it is reported.
            let is_copied = |pod: &&PodTemplate<'_>| pod.template.at(&["metadata", "labels", key]).is_set();
            if name == "labels" && pods.iter().any(is_copied)
                || pods.iter().any(|pod| annotation(pod, key).is_set())
            {
                continue;
            }
            let ops = to_pods(&list, key, &pods);
            let where_read = match pods.as_slice() {
                [pod] => format!("`{}`", pod.template.at(&["metadata", "annotations"]).pointer),
                _ => "the `metadata.annotations` of the pod templates".to_owned(),
            };
            let message = format!("`{key}` has no effect here: {reader} reads it on the pods");
            let finding = cx.report(&place.pointer, message);
            finding.at_key().help(format!("write it in {where_read}"));
            if let Some(ops) = ops {
                finding.fix(Safety::Unsafe, ops);
            }
        }
    }
}

/// Reports annotations that are labels of a pod template.
fn as_label_of_pods(cx: &mut Cx<'_>, pod: &PodTemplate<'_>) {
    let labels = pod.template.at(&["metadata", "labels"]);
    if !labels.is_mapping() {
        return;
    }
    for (key, reader) in ON_PODS {
        meter::spend(1);
        let place = labels.get(key);
        if !place.is_set() || annotation(pod, key).is_set() {
            continue;
        }
        let ops = to_pods(&labels, key, &[pod]);
        let message = format!("`{key}` has no effect as a label: {reader} reads the annotation");
        let finding = cx.report(&place.pointer, message);
        let annotations = pod.template.at(&["metadata", "annotations"]).pointer;
        finding.at_key().help(format!("write it in `{annotations}`"));
        if let Some(ops) = ops {
            finding.fix(Safety::Unsafe, ops);
        }
    }
}

/// Tells whether some metadata names a queue.
fn names_queue(metadata: &Part<'_>) -> bool {
    !matches!(metadata.at(&["labels", QUEUE]).text(), Field::Unset | Field::Set(""))
}

/// Reports keys that Kueue reads on what it queues, in other metadata, or in the wrong mapping.
fn of_queued(cx: &mut Cx<'_>, levels: &[LevelMetadata<'_>]) {
    let workload = cx.workload;
    // Kueue queues a wrapper, not what is inside.
    if !workload.kind.queued_by_kueue || workload.inside.is_some() {
        return;
    }
    let queued = workload.object.at(workload.kind.run_metadata);
    let own = workload.object.get("metadata");
    // The metadata of a CronJob is of nothing that Kueue sees.
    let is_own = |metadata: &Part<'_>| own.pointer != queued.pointer && metadata.pointer == own.pointer;
    let is_queued = names_queue(&queued);
    let mut by_pods = workload.pods.iter().map(|pod| pod.template.get("metadata"));
    if is_own(&own) && (is_queued || names_queue(&own)) && !by_pods.any(|metadata| names_queue(&metadata)) {
        ON_QUEUED.iter().for_each(|read| elsewhere(cx, &own, &queued, read));
    }
    if !is_queued {
        return;
    }
    let others = levels.iter().map(|level| level.metadata.clone()).filter(|metadata| !is_own(metadata));
    let templates = workload.pods.iter().map(|pod| pod.template.get("metadata"));
    for metadata in others.chain(templates) {
        // What has a queue of its own may be taken by itself.
        if metadata.pointer == queued.pointer || !names_queue(&metadata) {
            ON_QUEUED[1..].iter().for_each(|read| elsewhere(cx, &metadata, &queued, read));
        }
    }
}

/// Reports a key in metadata in which Kueue does not read it, unless it is where it does.
fn elsewhere(cx: &mut Cx<'_>, metadata: &Part<'_>, queued: &Part<'_>, read: &OfQueued) {
    let OfQueued { key, list: right, of_jobs } = *read;
    let kind = cx.workload.kind;
    // A queue name in an annotation is reported elsewhere.
    let is_read =
        LISTS.into_iter().any(|list| (list == right || key == QUEUE) && queued.at(&[list, key]).is_set());
    if is_read || of_jobs && !kind.is_built_in() {
        return;
    }
    for list in LISTS.map(|list| metadata.get(list)) {
        meter::spend(1);
        let place = list.get(key);
        if !place.is_set() {
            continue;
        }
        let a = if right == "labels" { "a label" } else { "an annotation" };
        let what = if cx.workload.schedule.is_some() { "Job" } else { kind.name };
        let message = format!("`{key}` has no effect here: Kueue reads it as {a} of the {what}");
        let may_be = |text: &str| right != "labels" || label_value(text).is_empty();
        let value = place.value.filter(|value| value.as_str().is_some_and(may_be));
        let add = value.and_then(|value| queued.set_at(&[right, key], value.clone()));
        let finding = cx.report(&place.pointer, message);
        finding.at_key().help(format!("write it in `{}`", queued.get(right).pointer));
        if let Some(add) = add {
            finding.fix(Safety::Unsafe, vec![add, list.removal(key)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{self, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::text::patch::apply;
    use crate::text::value::{Value, json};

    /// An object of a kind, and its levels: pointers of metadata, those of the pods last.
    fn kinds() -> Vec<(Value, Vec<&'static str>)> {
        let pod = || json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let role = || json!({"replicas": 1, "template": pod()});
        let job_set =
            || json!({"replicatedJobs": [{"name": "w", "template": {"spec": {"template": pod()}}}]});
        vec![
            (
                object("batch/v1", "Job", json!({"template": pod()})),
                vec!["/metadata", "/spec/template/metadata"],
            ),
            (
                object(
                    "batch/v1",
                    "CronJob",
                    json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": pod()}}}),
                ),
                vec!["/metadata", "/spec/jobTemplate/metadata", "/spec/jobTemplate/spec/template/metadata"],
            ),
            (
                object("jobset.x-k8s.io/v1alpha2", "JobSet", job_set()),
                vec![
                    "/metadata",
                    "/spec/replicatedJobs/0/template/metadata",
                    "/spec/replicatedJobs/0/template/spec/template/metadata",
                ],
            ),
            (
                object(
                    "trainer.kubeflow.org/v1alpha1",
                    "TrainingRuntime",
                    json!({"template": {"spec": job_set()}}),
                ),
                vec![
                    "/metadata",
                    "/spec/template/metadata",
                    "/spec/template/spec/replicatedJobs/0/template/metadata",
                    "/spec/template/spec/replicatedJobs/0/template/spec/template/metadata",
                ],
            ),
            (
                object("kubeflow.org/v1", "PyTorchJob", json!({"pytorchReplicaSpecs": {"Worker": role()}})),
                vec!["/metadata", "/spec/pytorchReplicaSpecs/Worker/template/metadata"],
            ),
            (
                object("kubeflow.org/v2beta1", "MPIJob", json!({"mpiReplicaSpecs": {"Launcher": role()}})),
                vec!["/metadata", "/spec/mpiReplicaSpecs/Launcher/template/metadata"],
            ),
            (
                object(
                    "ray.io/v1",
                    "RayJob",
                    json!({"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": {"template": pod()}}}),
                ),
                vec!["/metadata", "/spec/rayClusterSpec/headGroupSpec/template/metadata"],
            ),
            (
                object(
                    "batch.volcano.sh/v1alpha1",
                    "Job",
                    json!({"tasks": [{"name": "w", "replicas": 1, "template": pod()}]}),
                ),
                vec!["/metadata", "/spec/tasks/0/template/metadata"],
            ),
        ]
    }

    /// Writes a key into a mapping of metadata.
    fn with(mut object: Value, metadata: &str, list: &str, key: &str) -> Value {
        let around = metadata.strip_suffix("/metadata").expect("metadata");
        let place = if around.is_empty() { Some(&mut object) } else { object.pointer_mut(around) };
        place.expect("an object")["metadata"][list][key] = "1".into();
        object
    }

    /// Returns where the rule finds something, and where its fix leaves nothing to find.
    fn found(object: &Value) -> Vec<String> {
        let judge = |object: &Value| {
            let verdict = engine::evaluate(&Policy::default(), &NoFacts, &Request::from_file(object, None));
            let findings = verdict.findings.into_iter();
            findings.filter(|finding| finding.rule == "annotation-at-its-level").collect::<Vec<_>>()
        };
        let findings = judge(object);
        for finding in &findings {
            let fix = finding.fix.as_ref().expect("a fix");
            let fixed = apply(object, &fix.ops).expect("a fix that applies");
            assert!(judge(&fixed).is_empty(), "{fixed}");
        }
        findings.iter().map(|finding| finding.pointer.to_json_pointer()).collect()
    }

    fn escaped(metadata: &str, list: &str, key: &str) -> String {
        format!("{metadata}/{list}/{}", key.replace('/', "~1"))
    }

    #[test]
    fn what_is_read_on_pods_is_found_at_every_other_level() {
        for (object, levels) in kinds() {
            for (key, _) in ON_PODS {
                for level in &levels {
                    for list in LISTS {
                        let is_read = levels.last() == Some(level) && list == "annotations";
                        let expected = if is_read { Vec::new() } else { vec![escaped(level, list, key)] };
                        let object = with(object.clone(), level, list, key);
                        assert_eq!(found(&object), expected, "{key} in {list} of {level} in {object}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_kueue_reads_on_a_job_is_found_elsewhere() {
        for (object, levels) in kinds() {
            let kind = crate::kinds::Kind::from_object(&object).expect("a kind");
            let queued = format!("/{}", kind.run_metadata.join("/"));
            let in_queue = with(object, &queued, "labels", QUEUE);
            for read in &ON_QUEUED[1..] {
                for level in &levels {
                    for list in LISTS {
                        let is_right = *level == queued && list == read.list;
                        let is_kueues = kind.queued_by_kueue && (kind.is_built_in() || !read.of_jobs);
                        let expected = if is_right || !is_kueues {
                            Vec::new()
                        } else {
                            vec![escaped(level, list, read.key)]
                        };
                        let object = with(in_queue.clone(), level, list, read.key);
                        assert_eq!(found(&object), expected, "{} in {list} of {level} in {object}", read.key);
                    }
                }
            }
        }
    }
}
