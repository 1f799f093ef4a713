//! The ordinary reviews: what a cluster of researchers sends, and the answer that each must get.

use std::cell::RefCell;
use std::fmt::Write as _;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::claims::SHARED;

/// The body of a review up to its uid, as the API server writes it.
const BEFORE_UID: &str = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":""#;

/// One review, and the answer that it must get.
pub(crate) struct Review {
    /// What it is about, for messages.
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    object: Value,
    after_uid: String,
    expected: Expected,
    /// The first right answer, without its uid: the text before it and after it. What is equal to it needs no
    /// second look.
    right: RefCell<Option<[Vec<u8>; 2]>>,
}

/// What must be answered.
#[derive(Clone, Debug)]
enum Expected {
    /// Denied, and the message names the rule.
    Denied(&'static str),
    /// Allowed as it is.
    Allowed,
    /// Allowed with a patch, after which these fields are there.
    Filled(Vec<(&'static str, Value)>),
}

impl Review {
    fn new(name: &'static str, path: &'static str, object: Value, expected: Expected) -> Self {
        let after_uid = after_uid(&object, None);
        Self { name, path, object, after_uid, expected, right: RefCell::default() }
    }

    /// Returns the body with a uid.
    pub(crate) fn body(&self, uid: &str) -> Bytes {
        [BEFORE_UID, uid, &self.after_uid].concat().into()
    }

    /// Checks an answer of status 200.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, uid: &str, answer: &[u8]) -> Result<(), String> {
        let same = |[before, after]: &[Vec<u8>; 2]| {
            answer
                .strip_prefix(&before[..])
                .and_then(|rest| rest.strip_prefix(uid.as_bytes()))
                .is_some_and(|rest| rest == after)
        };
        if self.right.borrow().as_ref().is_some_and(same) {
            return Ok(());
        }
        self.look_into(uid, answer)?;
        let text = std::str::from_utf8(answer).map_err(|e| format!("answer: {e}"))?;
        if let Some((before, after)) = text.split_once(uid) {
            self.right.replace(Some([before.as_bytes().to_vec(), after.as_bytes().to_vec()]));
        }
        Ok(())
    }

    fn look_into(&self, uid: &str, answer: &[u8]) -> Result<(), String> {
        let answer: Value = serde_json::from_slice(answer).map_err(|e| format!("answer: {e}"))?;
        let response = &answer["response"];
        if response["uid"] != uid {
            return Err(format!("uid: {}", response["uid"]));
        }
        let patch = patch_of(response)?;
        match &self.expected {
            Expected::Denied(rule) => {
                let message = response["status"]["message"].as_str().unwrap_or_default();
                if response["allowed"] != false || !message.contains(rule) {
                    return Err(format!("verdict: not denied by {rule}: {response}"));
                }
            }
            Expected::Allowed | Expected::Filled(_) if response["allowed"] != true => {
                return Err(format!("verdict: not allowed: {response}"));
            }
            Expected::Allowed if patch.is_some() => {
                return Err(format!("patch: none was expected: {response}"));
            }
            Expected::Allowed => {}
            Expected::Filled(fields) => {
                let mut object = self.object.clone();
                let patch = patch.ok_or_else(|| format!("patch: none: {response}"))?;
                json_patch::patch(&mut object, &patch).map_err(|e| format!("patch: does not apply: {e}"))?;
                if let Some((pointer, value)) =
                    fields.iter().find(|(pointer, value)| object.pointer(pointer) != Some(value))
                {
                    return Err(format!("patch: {pointer} is not {value}"));
                }
            }
        }
        Ok(())
    }
}

fn patch_of(response: &Value) -> Result<Option<json_patch::Patch>, String> {
    let Some(text) = response["patch"].as_str() else { return Ok(None) };
    if response["patchType"] != "JSONPatch" {
        return Err(format!("patch: its type is {}", response["patchType"]));
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|e| format!("patch: {e}"))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|e| format!("patch: {e}"))
}

/// Returns a uid for a number.
pub(crate) fn uid(number: u64) -> String {
    format!("{:08x}-5b1e-4d5a-9c1d-{number:012x}", number & 0xffff_ffff)
}

/// Returns the whole body of a review of any object: its CREATE, or its UPDATE where there is an old one.
pub(crate) fn body_of(uid: &str, object: &Value, old: Option<&Value>) -> Bytes {
    [BEFORE_UID, uid, &after_uid(object, old)].concat().into()
}

fn after_uid(object: &Value, old: Option<&Value>) -> String {
    let (group, version) =
        object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or(("batch", "v1"));
    let kind = object["kind"].as_str().unwrap_or_default();
    let resource =
        json!({"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())});
    let kind = json!({"group": group, "version": version, "kind": kind});
    let (name, namespace) = (&object["metadata"]["name"], &object["metadata"]["namespace"]);
    let (operation, options) =
        if old.is_some() { ("UPDATE", "UpdateOptions") } else { ("CREATE", "CreateOptions") };
    let mut text = String::new();
    let _ = write!(
        text,
        r#"","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"#
    );
    let _ = write!(text, r#""name":{name},"namespace":{namespace},"operation":"{operation}","#);
    text += r#""userInfo":{"username":"ada@example.com","groups":["researchers","system:authenticated"]},"#;
    let _ = write!(text, r#""object":{object},"oldObject":{},"dryRun":false,"#, old.unwrap_or(&Value::Null));
    let _ = write!(text, r#""options":{{"kind":"{options}","apiVersion":"meta.k8s.io/v1"}}}}}}"#);
    text
}

/// Returns the reviews that go round, each object to both endpoints.
pub(crate) fn ordinary() -> Vec<Review> {
    use Expected::{Allowed, Denied, Filled};
    let toleration = || json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    let job_fills = || {
        Filled(vec![
            ("/spec/ttlSecondsAfterFinished", 86400.into()),
            ("/spec/podReplacementPolicy", "Failed".into()),
            ("/spec/template/spec/tolerations", toleration()),
        ])
    };
    let cron_fills = || {
        Filled(vec![
            ("/spec/jobTemplate/spec/ttlSecondsAfterFinished", 604_800.into()),
            ("/spec/jobTemplate/spec/podReplacementPolicy", "Failed".into()),
            ("/spec/jobTemplate/spec/template/spec/tolerations", toleration()),
        ])
    };
    let torch_fills = || {
        Filled(vec![
            ("/spec/pytorchReplicaSpecs/Master/template/spec/tolerations", toleration()),
            ("/spec/pytorchReplicaSpecs/Worker/template/spec/tolerations", toleration()),
        ])
    };
    let without = |mut object: Value, parent: &str, field: &str| {
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(field);
        }
        object
    };
    let mut complete = job("complete", 2);
    complete["spec"]["ttlSecondsAfterFinished"] = 3600.into();
    complete["spec"]["podReplacementPolicy"] = "Failed".into();
    complete["spec"]["template"]["spec"]["tolerations"] = toleration();

    // The name, the object, and what the two endpoints answer.
    let all = [
        ("a Job of 8 KiB", job("train", 8), job_fills(), Allowed),
        (
            "a Job of 4 KiB without a deadline",
            without(job("forever", 4), "/spec", "activeDeadlineSeconds"),
            job_fills(),
            Denied("deadline"),
        ),
        ("a complete Job of 2 KiB", complete, Allowed, Allowed),
        ("a CronJob of 4 KiB", cron_job("nightly", 4), cron_fills(), Allowed),
        ("a PyTorchJob of 6 KiB", py_torch_job("pretrain", 6), torch_fills(), Allowed),
        ("a Job of 24 KiB", job("sweep", 24), job_fills(), Allowed),
        (
            "a CronJob of 3 KiB without a deadline",
            without(cron_job("hourly", 3), "/spec/jobTemplate/spec", "activeDeadlineSeconds"),
            cron_fills(),
            Denied("deadline"),
        ),
        ("a Job of 64 KiB", job("large", 63), job_fills(), Allowed),
        (
            "a PyTorchJob of 4 KiB without a deadline",
            without(py_torch_job("finetune", 4), "/spec/runPolicy", "activeDeadlineSeconds"),
            torch_fills(),
            Denied("deadline"),
        ),
    ];
    let both = all.into_iter().flat_map(|(name, object, mutated, validated)| {
        [
            Review::new(name, "/mutate?timeout=3s", object.clone(), mutated),
            Review::new(name, "/validate?timeout=3s", object, validated),
        ]
    });
    both.collect()
}

/// Returns an object of about this many KiB: variables are added to it until it is as large.
fn grown(kib: usize, with_variables: impl Fn(usize) -> Value) -> Value {
    let size = |count| with_variables(count).to_string().len();
    let (empty, ten) = (size(0), size(10));
    with_variables((kib << 10).saturating_sub(empty) * 10 / (ten - empty))
}

/// Returns a Job as the API server sends it, with its defaults.
pub(crate) fn job(name: &str, kib: usize) -> Value {
    grown(
        kib,
        |variables| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name), "spec": job_spec(variables, "TerminatingOrFailed"), "status": {}}),
    )
}

fn cron_job(name: &str, kib: usize) -> Value {
    grown(kib, |variables| {
        let mut spec = job_spec(variables, "");
        spec.as_object_mut().map(|spec| spec.remove("podReplacementPolicy"));
        let spec = json!({
            "schedule": "30 2 * * *", "concurrencyPolicy": "Forbid", "suspend": false, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"app": name}}, "spec": spec},
        });
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata(name), "spec": spec, "status": {}})
    })
}

fn py_torch_job(name: &str, kib: usize) -> Value {
    grown(kib, |variables| {
        let replica = |count: usize| {
            let container = container("pytorch", variables / 2);
            json!({"replicas": count, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}})
        };
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata(name),
            "spec": {
                "runPolicy": {"activeDeadlineSeconds": 86400, "ttlSecondsAfterFinished": 86400, "cleanPodPolicy": "Running"},
                "pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(7)},
            },
        })
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "research", "uid": "9a3c5e64-0d3c-4f35-a7a0-3a5b4a1f7f10", "generation": 1,
        "creationTimestamp": "2030-01-01T00:00:00Z", "labels": {"app.kubernetes.io/name": name},
    })
}

fn job_spec(variables: usize, replacement: &str) -> Value {
    json!({
        "backoffLimit": 3, "completionMode": "Indexed", "completions": 4, "parallelism": 4, "suspend": false, "manualSelector": false,
        "activeDeadlineSeconds": 86400, "podReplacementPolicy": replacement,
        "template": {
            "metadata": {"labels": {"app": "train"}},
            "spec": {
                "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
                "terminationGracePeriodSeconds": 30, "containers": [container("trainer", variables)],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": SHARED, "readOnly": true}}],
            },
        },
    })
}

fn container(name: &str, variables: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|at| json!({"name": format!("OPTION_{at}"), "value": format!("--step={}", at * 1009)}))
        .collect();
    let resources = json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"});
    json!({
        "name": name, "image": "registry.example.com/research/trainer:2.4.1", "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "trainer.main"], "args": ["--epochs", "90", "--data", "/data/imagenet"], "env": env,
        "resources": {"limits": resources.clone(), "requests": resources},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}
