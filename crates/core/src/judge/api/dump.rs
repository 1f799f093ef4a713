//! Jobs copied from a cluster (`kubectl get -o yaml`), which the API server rejects as new objects.

use crate::judge::checks::{self, API_SERVER};
use crate::judge::finding::{Finding, Level, Safety};
use crate::kinds::{Api, Kind};
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// The labels with the uid of a Job.
const UIDS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// Metadata that the server sets.
const METADATA: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];

/// Replaces the findings for a Job copied from a cluster with one that names what to remove.
pub(super) fn explain(object: &Value, found: &mut Vec<Finding>) {
    let selector = Pointer::new(&["spec", "selector"]);
    let labels = Pointer::new(&["spec", "template", "metadata", "labels"]);
    let is_own = |at: &Pointer| at.is_within(&selector) || at.is_within(&labels);
    let refuses = |finding: &Finding| {
        finding.rule == API_SERVER && finding.level == Level::Deny && is_own(&finding.path)
    };
    let has_uid =
        |at: &Pointer| at.find(object).is_some_and(|map| UIDS.iter().any(|key| map.get(key).is_some()));
    let (in_selector, in_labels) = (has_uid(&(selector.clone() / "matchLabels")), has_uid(&labels));
    if Kind::from_object(object).is_none_or(|kind| kind.api != Api::Job)
        || !(in_selector || in_labels)
        || !found.iter().any(refuses)
    {
        return;
    }
    let mut ops = Vec::new();
    let mut remove = |at: Pointer| {
        if at.find(object).is_some() {
            ops.push(Op::Remove(at));
        }
    };
    remove(Pointer::new(&["status"]));
    METADATA.iter().for_each(|key| remove(Pointer::new(&["metadata"]).key(key)));
    remove(selector.clone());
    for at in [Pointer::new(&["metadata", "labels"]), labels.clone()] {
        UIDS.iter().for_each(|key| remove(at.key(key)));
    }
    let names: Vec<String> = ops.iter().map(|op| format!("`{}`", op.pointer())).collect();
    found.retain(|finding| !refuses(finding));
    let at = if in_selector { selector } else { labels };
    let message =
        "copy of a live object: the API server rejects a selector and labels with the uid of another Job";
    let mut finding =
        checks::finding(API_SERVER, Level::Deny, at, message, format!("remove {}", names.join(", ")));
    finding.at_key().fix(Safety::Unsafe, ops);
    found.push(finding);
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use crate::text::patch;
    use crate::text::value::{Value, json};

    fn dump() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"app": "a", "controller-uid": "u"}},
            "spec": {
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {
                    "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "job-name": "a"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]},
                },
            },
            "status": {"active": 1},
        })
    }

    #[test]
    fn a_copy_of_a_live_job_is_told_once_and_fixed() {
        let mut object = dump();
        let found = check(&object);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].help.contains("`spec.selector`") && found[0].help.contains("`metadata.uid`"),
            "{found:#?}"
        );
        patch::apply_in_place(&mut object, &found[0].fix.as_ref().unwrap().ops).unwrap();
        assert!(check(&object).is_empty(), "{:#?}", check(&object));
        assert_eq!(object["metadata"], json!({"name": "a", "labels": {"app": "a"}}));
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], json!({"job-name": "a"}));
    }

    #[test]
    fn other_selectors_are_not_copies() {
        let mut object = dump();
        object["spec"]["manualSelector"] = true.into();
        assert!(check(&object).is_empty(), "{:#?}", check(&object));
        let mut object = dump();
        object["spec"]["selector"] = json!({"matchLabels": {"app": "a"}});
        object["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
        let found = check(&object);
        assert!(
            found.iter().all(|finding| !finding.message.contains("copy")) && !found.is_empty(),
            "{found:#?}"
        );
    }
}
