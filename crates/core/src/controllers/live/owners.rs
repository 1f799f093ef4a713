//! Who made an object of a cluster: its controller, else what its labels say.

use super::super::operators::kind_of;
use super::fields::{items, owned, tagged, text};
use crate::text::value::{Value, json};

/// Labels that name the object that made a pod or a Job, with the kinds that it may be of.
const LABELS: [(&str, &[&str]); 6] = [
    ("jobset.sigs.k8s.io/jobset-name", &["JobSet"]),
    (
        "training.kubeflow.org/job-name",
        &["JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"],
    ),
    ("volcano.sh/job-name", &["VolcanoJob"]),
    ("ray.io/cluster", &["RayCluster"]),
    ("batch.kubernetes.io/job-name", &["Job"]),
    ("job-name", &["Job"]),
];

/// Returns the label that has the name of an object of a kind, on the pods and Jobs that it makes; nothing where none does.
#[must_use]
pub fn label_of(kind: &str) -> Option<&'static str> {
    let (label, _) = LABELS.into_iter().find(|(_, kinds)| kinds.contains(&kind))?;
    Some(label)
}

/// Who made an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Maker {
    pub(super) uid: Option<String>,
    pub(super) name: Option<String>,
    /// The kinds that it may be of.
    pub(super) kinds: Vec<&'static str>,
}

impl Maker {
    /// Returns the maker of an object; `None` if it is not one of the known makers.
    pub(super) fn from_object(object: &Value) -> Option<Self> {
        let mut owners = items(object, "/metadata/ownerReferences");
        let controller = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        if let Some(owner) = controller {
            let kinds = vec![kind_of_owner(owner)?];
            return Some(Self { uid: owned(owner, "/uid"), name: owned(owner, "/name"), kinds });
        }
        let label = |key: &str| tagged(object, "labels", key).map(str::to_owned);
        let uid = label("batch.kubernetes.io/controller-uid").or_else(|| label("controller-uid"));
        // The labels of the Job that made a pod say more than those of an object above that.
        let of_job = label("batch.kubernetes.io/job-name").or_else(|| label("job-name"));
        if uid.is_some() || of_job.is_some() {
            return Some(Self { uid, name: of_job, kinds: vec!["Job"] });
        }
        let (name, kinds) = LABELS.into_iter().find_map(|(key, kinds)| Some((label(key)?, kinds)))?;
        Some(Self { uid: None, name: Some(name), kinds: kinds.to_vec() })
    }
}

/// Returns what the kind of an owner is called here; nothing where it is none that is looked at.
fn kind_of_owner(owner: &Value) -> Option<&'static str> {
    let version = text(owner, "/apiVersion").unwrap_or("batch/v1");
    let kind = text(owner, "/kind")?;
    if kind == "Job" && version.starts_with("batch/") {
        return Some("Job");
    }
    kind_of(&json!({ "apiVersion": version, "kind": kind }))
}
