//! Objects that a user may create, each made to cost more than its size.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::claims::ONE_NODE;
use crate::reviews::job;

/// The uid of reviews of these.
pub(super) const UID: &str = "c057c057-5b1e-4d5a-9c1d-000000000000";

/// An object to review, and the old one of an update.
pub(super) struct Costly {
    pub(super) object: Value,
    pub(super) old: Option<Value>,
}

impl From<Value> for Costly {
    fn from(object: Value) -> Self {
        Self { object, old: None }
    }
}

/// One resource for each taint of the default policy.
const ACCELERATORS: [&str; 7] = [
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "nvidia.com/gpu",
];

/// Many additions to many lists that are there already.
pub(super) fn py_torch_jobs() -> Vec<Costly> {
    let limits: Map<String, Value> =
        ACCELERATORS.iter().map(|name| ((*name).to_owned(), "1".into())).collect();
    let spec = json!({"tolerations": [{"key": "a"}], "containers": [{"name": "pytorch", "image": "a", "resources": {"limits": limits}}]});
    let of =
        |types: usize| Costly::from(py_torch_job((0..types).map(|_| json!({"template": {"spec": spec}}))));
    [8, 12, 16].map(of).into()
}

/// Names of rules that do not exist, in an annotation that lists rules.
pub(super) fn distinct_names() -> Vec<Costly> {
    named((0..350_000).map(|number| format!("r{number:06}")).collect::<Vec<_>>().join(","))
}

pub(super) fn repeated_names() -> Vec<Costly> {
    named(vec!["nothing"; 350_000].join(","))
}

fn named(names: String) -> Vec<Costly> {
    let mut object = job("named", 2);
    object["metadata"]["annotations"] = json!({"jobgate.dev/ignore": names});
    vec![object.into()]
}

/// An update that takes out of each template what was filled in before.
pub(super) fn updated_templates() -> Vec<Costly> {
    let replica = |tolerated: bool| {
        let mut spec = json!({"containers": [{"name": "pytorch", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
        if tolerated {
            spec["tolerations"] =
                json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]);
        }
        json!({"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}})
    };
    let of = |tolerated| py_torch_job((0..2600).map(|_| replica(tolerated)));
    vec![Costly { object: of(false), old: Some(of(true)) }]
}

/// A warning for each replica type.
pub(super) fn replica_types() -> Vec<Costly> {
    let replica = json!({"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "a"}]}}});
    vec![py_torch_job((0..20_000).map(|_| replica.clone())).into()]
}

/// Tolerations of one value, looked through for each accelerator.
pub(super) fn tolerations() -> Vec<Costly> {
    let mut object = job("tolerant", 2);
    let spec = &mut object["spec"]["template"]["spec"];
    let tolerations = (0..50_000).map(|number| json!({"key": format!("k{number}"), "operator": "Exists"}));
    spec["tolerations"] = tolerations.collect();
    spec["containers"][0]["resources"]["limits"] =
        ACCELERATORS.iter().map(|name| ((*name).to_owned(), Value::from("1"))).collect();
    vec![object.into()]
}

/// Claims, where they are mounted, and variables that may point into each.
pub(super) fn mounts() -> Vec<Costly> {
    let numbered = |make: fn(usize) -> Value| -> Value { (0..4000).map(make).collect() };
    let mut object = job("mounted", 2);
    let spec = &mut object["spec"]["template"]["spec"];
    spec["volumes"] =
        numbered(|at| json!({"name": format!("v{at}"), "persistentVolumeClaim": {"claimName": ONE_NODE}}));
    spec["containers"][0]["volumeMounts"] =
        numbered(|at| json!({"name": format!("v{at}"), "mountPath": format!("/m/{at}")}));
    spec["containers"][0]["env"] =
        numbered(|at| json!({"name": format!("CHECKPOINT_{at}"), "value": format!("/n/{at}")}));
    vec![object.into()]
}

fn py_torch_job(replicas: impl Iterator<Item = Value>) -> Value {
    let replicas: Map<String, Value> =
        replicas.enumerate().map(|(at, replica)| (format!("T{at}"), replica)).collect();
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "costly", "namespace": "research"},
        "spec": {"runPolicy": {"activeDeadlineSeconds": 60, "cleanPodPolicy": "All"}, "pytorchReplicaSpecs": replicas},
    })
}

/// Bodies that are not reviews.
pub(super) fn malformed() -> Vec<Bytes> {
    let review = crate::reviews::body_of(UID, &job("cut", 8), None);
    vec![
        Bytes::from_static(b"{"),
        Bytes::from_static(b""),
        Bytes::from_static(b"hello"),
        Bytes::from_static(b"\xff\xfe{}"),
        Bytes::from_static(br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}"#),
        Bytes::from("[".repeat(32 << 10)),
        review.slice(..100),
        [&review[..40], br#""uid":7,"#, &review[40..]].concat().into(),
    ]
}
