//! An object of each kind that has one of everything: each list, mapping and text that something of Jobgate
//! reads, with one entry.

use std::fmt::Write as _;

use base64::Engine as _;
use jobgate::admission::{self, Endpoint};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::policy::Policy;
use serde_json::{Value, json};

use super::shapes::Shape;

/// One object to make shapes of.
pub(crate) struct Base {
    pub(crate) name: &'static str,
    group: &'static str,
    kind: &'static str,
    pub(crate) object: Value,
}

impl Base {
    /// Returns a review of the object in a shape, of about so many bytes; for an UPDATE the old object,
    /// beside it, is what was admitted of the same.
    pub(crate) fn review(&self, shape: &Shape, update: bool, size: usize) -> String {
        let object = shape.of_size(&self.object, size).to_string();
        let old = if update { self.admitted(&object) } else { "null".to_owned() };
        let operation = if update { "UPDATE" } else { "CREATE" };
        self.request(operation, &object, &old)
    }

    fn request(&self, operation: &str, object: &str, old: &str) -> String {
        let (group, kind) = (self.group, self.kind);
        let mut review = String::with_capacity(object.len() + old.len() + 512);
        let _ = write!(
            review,
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{{"group":"{group}","version":"v1","kind":"{kind}"}},"name":"train","namespace":"team-a","operation":"{operation}","userInfo":{{"username":"alice"}},"object":{object},"oldObject":{old}}}}}"#
        );
        review
    }

    /// Returns the object as a CREATE would have stored it, with what is filled in; suspended, so that its
    /// spec differs.
    fn admitted(&self, object: &str) -> String {
        let policy = Policy::builtin("default").unwrap_or_default();
        let answer = admission::answer(
            Endpoint::Mutate,
            &policy,
            &NoFacts,
            self.request("CREATE", object, "null").as_bytes(),
            None,
        );
        let review: Value = serde_json::from_slice(&answer.body).unwrap();
        let mut old: jobgate::text::value::Value = serde_json::from_str(object).unwrap();
        if let Some(patch) = review.pointer("/response/patch").and_then(Value::as_str) {
            let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
            old = crate::evanphx::apply(&old, &serde_json::from_slice(&patch).unwrap()).unwrap();
        }
        if let Some(spec) = old.get_mut("spec").and_then(jobgate::text::value::Value::as_object_mut) {
            spec.insert("suspend", true.into());
        }
        old.to_string()
    }
}

/// Returns a base of every kind.
pub(crate) fn all() -> Vec<Base> {
    let job_spec = |operator| {
        json!({
            "parallelism": 4, "completions": 4, "podReplacementPolicy": "TerminatingOrFailed",
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "template": template(operator),
        })
    };
    let replica = json!({"replicas": 2, "restartPolicy": "Always", "template": template("NotIn")});
    let object = |group: &str, version: &str, kind: &str, spec: Value| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata(), "spec": spec});
    let job = object("batch", "v1", "Job", job_spec("In"));
    let cron = json!({"schedule": "*/5 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": job_spec("DoesNotExist")}});
    let torch = json!({
        "elasticPolicy": {"maxReplicas": 3}, "runPolicy": {"backoffLimit": 1, "schedulingPolicy": {"minResources": {"cpu": "1"}}},
        "pytorchReplicaSpecs": {"Worker": replica},
    });
    vec![
        Base { name: "Job", group: "batch", kind: "Job", object: job },
        Base {
            name: "CronJob",
            group: "batch",
            kind: "CronJob",
            object: object("batch", "v1", "CronJob", cron),
        },
        Base {
            name: "PyTorchJob",
            group: "kubeflow.org",
            kind: "PyTorchJob",
            object: object("kubeflow.org", "v1", "PyTorchJob", torch),
        },
    ]
}

fn metadata() -> Value {
    let applied = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"podReplacementPolicy": null, "list": [{"a": "b"}]}}).to_string();
    json!({
        "name": "train", "namespace": "team-a",
        "labels": {"app": "train"},
        "annotations": {
            "jobgate.dev/keep": "deadline", "jobgate.dev/ignore": "restart-policy", "kubectl.kubernetes.io/last-applied-configuration": applied,
        },
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "controller": false}],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:podReplacementPolicy": {}, "f:parallelism": {}}}}],
    })
}

/// Returns a pod template whose affinity selects by an operator.
fn template(operator: &str) -> Value {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname", "namespaces": ["team-a"], "matchLabelKeys": ["app"],
        "labelSelector": {"matchLabels": {"app": "train"}, "matchExpressions": [{"key": "app", "operator": operator, "values": ["other"]}]},
    });
    let node = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.com/trainer:v1",
            "command": ["python", "train.py"], "args": ["--data=/data", "--checkpoint-dir", "/mnt/x/y"],
            "env": [{"name": "CHECKPOINT_DIR", "value": "/mnt/x/y"}],
            "envFrom": [{"configMapRef": {"name": "c"}}],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g": 1}, "requests": {"amd.com/gpu": "1"}},
            "volumeMounts": [{"name": "vol", "mountPath": "/mnt/x", "readOnly": false}],
        })
    };
    json!({
        "metadata": {"labels": {"app": "train"}, "annotations": {"a": "b"}},
        "spec": {
            "restartPolicy": "Always", "nodeSelector": {"pool": "gpu"}, "activeDeadlineSeconds": 60,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node]}},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            },
            "containers": [container("pytorch")], "initContainers": [container("init")], "ephemeralContainers": [container("debug")],
            "tolerations": [{"key": "example.com/x", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
            "volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": "data", "readOnly": false}}],
        },
    })
}
