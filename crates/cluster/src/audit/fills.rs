//! The values of a live object that its author did not write and Jobgate fills in.
//!
//! The author's manifest is the annotation of `kubectl apply`, or else the fields that a server-side apply
//! owns. Without either it is unknown. Who filled in a value is not recorded: a value counts if Jobgate would
//! have written it.

use jobgate_core::judge::appliers::{LAST_APPLIED, owned};
use jobgate_core::kinds::accelerator;
use jobgate_core::kinds::{Field, OnUpdate, Part, Ttl, Workload};
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;
use jobgate_report::{Filled, Reapply};

/// What is known about the author's manifest.
enum Manifest {
    /// The manifest itself.
    Applied(Value),
    /// The fields owned by server-side applies of any manager.
    Owned(Value),
}

/// Whether a manifest sets a field.
enum Written<'m> {
    No,
    Yes,
    As(&'m Value),
}

impl Manifest {
    fn from_workload(workload: &Workload<'_>) -> Option<Self> {
        if let Some(text) = workload.annotation(LAST_APPLIED) {
            return serde_json::from_str(text).ok().map(Self::Applied);
        }
        let entries = workload.object.at(&["metadata", "managedFields"]);
        let applies = entries.items().filter(|entry| entry.get("operation").text() == Field::Set("Apply"));
        // Some apply only labels or the status.
        let specs = applies
            .filter_map(|entry| entry.get("fieldsV1").value)
            .filter(|fields| fields.get("f:spec").is_some());
        specs.cloned().reduce(joined).map(Self::Owned)
    }

    fn says(&self, field: &Pointer) -> Written<'_> {
        match self {
            Self::Applied(manifest) => field.find(manifest).map_or(Written::No, Written::As),
            Self::Owned(set) if owned(field).find(set).is_some() => Written::Yes,
            Self::Owned(_) => Written::No,
        }
    }
}

/// Returns the union of two sets of fields.
fn joined(mut set: Value, other: Value) -> Value {
    let Value::Object(other) = other else { return set };
    for (key, below) in other.iter() {
        match set.get_mut(key) {
            Some(known) => *known = joined(known.take(), below.clone()),
            None => set[key] = below.clone(),
        }
    }
    set
}

/// Returns the values that were filled into a live object.
pub(super) fn filled(object: &Value) -> Vec<Filled> {
    let Some(workload) = Workload::from_object(object) else { return Vec::new() };
    let Some(manifest) = Manifest::from_workload(&workload) else { return Vec::new() };
    let mut found = Vec::new();
    let ttl = workload.ttl();
    if let (Ttl::Deletes { .. }, Field::Set(seconds)) = (workload.kind.ttl, ttl.int())
        && let Written::No = manifest.says(&ttl.pointer)
    {
        found.push(Filled { path: ttl.pointer, value: seconds.into(), reapply: Reapply::Kept });
    }
    if let Some(release) = workload.kind.release {
        let field = workload.limits.get(release.field);
        if field.value == Some(&release.value())
            && let Written::No = manifest.says(&field.pointer)
        {
            found.push(Filled { path: field.pointer, value: release.value(), reapply: Reapply::Kept });
        }
    }
    // The API server's own default is `Failed` where there is a podFailurePolicy.
    let job_spec = workload
        .runs
        .iter()
        .filter_map(|run| run.job_spec.as_ref())
        .filter(|spec| !spec.get("podFailurePolicy").is_set());
    for policy in job_spec.map(|spec| spec.get("podReplacementPolicy")) {
        if let (Field::Set("Failed"), Written::No) = (policy.text(), manifest.says(&policy.pointer)) {
            found.push(Filled { path: policy.pointer, value: "Failed".into(), reapply: Reapply::Kept });
        }
    }
    for pod in &workload.pods {
        let list = pod.spec.get("tolerations");
        found.extend(tolerations(&list, &manifest, &workload));
    }
    // Pods may share a list.
    found.dedup_by(|next, last| next.path == last.path);
    found
}

/// Returns the tolerations that follow the author's own.
fn tolerations(list: &Part<'_>, manifest: &Manifest, workload: &Workload<'_>) -> Option<Filled> {
    let live = list.value?.as_array()?;
    let (beginning, reapply) = match manifest.says(&list.pointer) {
        Written::No => (&[][..], Reapply::Kept),
        // An apply sends the author's list, which the API server rejects for a Job with an immutable
        // template.
        Written::As(list) => {
            let suspended = workload.object.at(&["spec", "suspend"]).bool() == Field::Set(true);
            let refused = workload.kind.on_update == OnUpdate::TemplateImmutable && !suspended;
            (
                list.as_array().map_or(&[][..], Vec::as_slice),
                if refused { Reapply::Rejected } else { Reapply::Lost },
            )
        }
        // The contents of a list that a server-side apply owns are not recorded.
        Written::Yes => return None,
    };
    let filled = accelerator::filled_behind(live, beginning)?;
    Some(Filled { path: list.pointer.clone(), value: filled.to_vec().into(), reapply })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    fn job(metadata: &Value, tolerations: &Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {
            "ttlSecondsAfterFinished": 86400, "podReplacementPolicy": "Failed", "template": {"spec": {"tolerations": tolerations}},
        }})
    }

    fn applied(spec: &Value) -> Value {
        json!({"annotations": {LAST_APPLIED: json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec}).to_string()}})
    }

    fn found(object: &Value) -> Vec<(String, Reapply)> {
        filled(object).into_iter().map(|filled| (filled.path.to_path(), filled.reapply)).collect()
    }

    const TTL: &str = "spec.ttlSecondsAfterFinished";
    const POLICY: &str = "spec.podReplacementPolicy";
    const TOLERATIONS: &str = "spec.template.spec.tolerations";

    #[test]
    fn what_the_manifest_lacks_was_filled_in() {
        let ours = || accelerator::toleration("nvidia.com/gpu");
        let own = json!({"key": "team", "operator": "Exists"});
        let all = |reapply| {
            vec![
                (TTL.to_owned(), Reapply::Kept),
                (POLICY.to_owned(), Reapply::Kept),
                (TOLERATIONS.to_owned(), reapply),
            ]
        };
        assert_eq!(found(&job(&applied(&json!({})), &json!([ours()]))), all(Reapply::Kept));
        let listed = applied(&json!({"template": {"spec": {"tolerations": [own]}}}));
        assert_eq!(found(&job(&listed, &json!([own, ours()]))), all(Reapply::Rejected));
        let mut suspended = job(&listed, &json!([own, ours()]));
        suspended["spec"]["suspend"] = true.into();
        assert_eq!(found(&suspended), all(Reapply::Lost));
    }

    #[test]
    fn what_the_author_wrote_was_not() {
        let own = json!({"key": "team", "operator": "Exists"});
        let ours = accelerator::toleration("nvidia.com/gpu");
        let written = applied(
            &json!({"ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed", "template": {"spec": {"tolerations": [own, ours]}}}),
        );
        assert_eq!(found(&job(&written, &json!([own, ours]))), []);
        assert_eq!(found(&job(&json!({}), &json!([ours]))), [], "nobody knows what its author wrote");
        let mut policy = job(&applied(&json!({"ttlSecondsAfterFinished": 60})), &Value::Null);
        policy["spec"]["podFailurePolicy"] = json!({"rules": []});
        assert_eq!(found(&policy), [], "the API server's default");
        policy["spec"]["podReplacementPolicy"] = "TerminatingOrFailed".into();
        policy["spec"]["podFailurePolicy"] = Value::Null;
        assert_eq!(found(&policy), []);
    }

    #[test]
    fn what_releases_pods_was_filled_in() {
        let object = |version: &str, kind: &str, written: &Value, spec: &Value| {
            let manifest = json!({"apiVersion": version, "kind": kind, "spec": written}).to_string();
            let metadata = json!({"annotations": {LAST_APPLIED: manifest}});
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
        };
        let ray = |written: &Value, spec: &Value| found(&object("ray.io/v1", "RayJob", written, spec));
        let shut = json!({"shutdownAfterJobFinishes": true});
        assert_eq!(
            ray(&json!({}), &shut),
            [("spec.shutdownAfterJobFinishes".to_owned(), Reapply::Kept)],
            "an object with nothing else is listed"
        );
        assert_eq!(ray(&shut, &shut), []);
        assert_eq!(ray(&json!({}), &json!({"shutdownAfterJobFinishes": false})), []);
        let torch = |value: &str| {
            let spec = json!({"runPolicy": {"cleanPodPolicy": value}});
            found(&object("kubeflow.org/v1", "PyTorchJob", &json!({}), &spec))
        };
        assert_eq!(torch("Running"), [("spec.runPolicy.cleanPodPolicy".to_owned(), Reapply::Kept)]);
        assert_eq!(torch("All"), [], "Jobgate writes no such value");
    }

    #[test]
    fn what_nobody_applied_on_the_servers_side_was_filled_in() {
        let ours = accelerator::toleration("nvidia.com/gpu");
        let fields = |spec: &Value| {
            json!({"managedFields": [
                {"manager": "ci", "operation": "Apply", "fieldsV1": {"f:spec": spec}},
                {"manager": "operator", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
            ]})
        };
        let template = json!({"f:spec": {"f:tolerations": {}}});
        let paths = |spec: &Value| {
            found(&job(&fields(spec), &json!([ours]))).into_iter().map(|(path, _)| path).collect::<Vec<_>>()
        };
        assert_eq!(paths(&json!({"f:template": template})), [TTL, POLICY]);
        assert_eq!(
            paths(&json!({"f:ttlSecondsAfterFinished": {}, "f:podReplacementPolicy": {}})),
            [TOLERATIONS]
        );
    }
}
