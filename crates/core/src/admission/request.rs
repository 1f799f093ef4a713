//! The review that an API server sends for a manifest, as far as it can be known without one.

use sha2::{Digest as _, Sha256};

use crate::admission::dry_run::sent;
use crate::judge::api::defaults::defaulted;
use crate::kinds::Kind;
use crate::text::value::{Value, json};

/// Returns the AdmissionReview of `kubectl apply` of a manifest, which updates `old` if given; nothing for a
/// kind that Jobgate does not judge. `namespace` is for a manifest without one.
///
/// The object is as the API server sends it: with defaults and kubectl's annotation. Fields that only a server
/// adds are missing: `uid`, `creationTimestamp`, `generation`, `managedFields`, and the selector and labels of
/// a Job that have its uid. The `uid` of the request depends only on the object and the operation, so that the
/// same manifest makes the same review.
#[must_use]
pub fn request(object: &Value, old: Option<&Value>, namespace: &str) -> Option<Value> {
    let kind = Kind::from_object(object)?;
    let (group, version) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    let own = |object: &Value| {
        let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let own = own.filter(|own| !own.is_empty()).unwrap_or(namespace).to_owned();
        if kind.cluster_scoped { String::new() } else { own }
    };
    // The existing object has been applied, too.
    let old = old.map(|old| (sent(old, None, &own(object)), defaulted(old)));
    let object_sent = sent(object, old.as_ref().map(|(_, old)| old), &own(object));
    let gvk = json!({"group": group, "version": version, "kind": kind.name});
    let gvr = json!({"group": group, "version": version, "resource": kind.resource});
    let (operation, options) =
        if old.is_some() { ("UPDATE", "UpdateOptions") } else { ("CREATE", "CreateOptions") };
    let mut request = json!({
        "uid": uid(&object_sent, operation),
        "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
        "operation": operation,
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "object": object_sent,
        "oldObject": old.map_or(Value::Null, |(old, _)| old),
        "dryRun": false,
        "options": {
            "kind": options, "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-client-side-apply",
            "fieldValidation": "Strict",
        },
    });
    // An API server leaves out what is empty.
    let namespace = own(object);
    if !namespace.is_empty() {
        request["namespace"] = namespace.into();
    }
    if let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str) {
        request["name"] = name.into();
    }
    Some(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}))
}

/// Returns a UUID made from an object and an operation.
fn uid(object: &Value, operation: &str) -> String {
    let hash = Sha256::digest(format!("{operation} {object}"));
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Version 8: a custom scheme.
    format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{self, Endpoint};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;

    fn job(extra: &str) -> Value {
        let text = format!(
            r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"a"}},"spec":{{{extra}"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_manifest_is_sent_with_the_defaults_of_the_server() {
        let review = request(&job(""), None, "default").unwrap();
        let request = &review["request"];
        assert_eq!(
            (&request["operation"], &request["namespace"], &request["name"], &request["oldObject"]),
            (&"CREATE".into(), &"default".into(), &"a".into(), &Value::Null)
        );
        assert_eq!(request["object"]["spec"]["podReplacementPolicy"], "TerminatingOrFailed");
        assert_eq!(request["object"]["metadata"]["namespace"], "default");
        assert_eq!(request["resource"]["resource"], "jobs");
        let uid = request["uid"].as_str().unwrap();
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uid}");
        assert_eq!(super::request(&job(""), None, "default").unwrap(), review);
    }

    #[test]
    fn what_exists_is_updated() {
        let long = job(r#""activeDeadlineSeconds":60,"#);
        let review = request(&job(""), Some(&long), "default").unwrap();
        let request = &review["request"];
        assert_eq!(request["operation"], "UPDATE");
        assert_eq!(request["oldObject"]["spec"]["activeDeadlineSeconds"], 60);
        assert!(
            request["object"]["spec"].get("activeDeadlineSeconds").is_none(),
            "removed from the manifest"
        );
    }

    #[test]
    fn the_webhook_answers_it() {
        for kind in Kind::all() {
            let object = json!({
                "apiVersion": format!("{}/{}", kind.group, kind.version), "kind": kind.name,
                "metadata": {"name": "a"}, "spec": {},
            });
            let review = request(&object, None, "default").unwrap();
            assert_eq!(review["request"].get("namespace").is_none(), kind.cluster_scoped, "{}", kind.name);
            let answer = admission::answer(
                Endpoint::Validate,
                &Policy::default(),
                &NoFacts,
                review.to_string().as_bytes(),
                None,
            );
            assert_eq!((answer.status, answer.meta.fault), (200, None), "{}", kind.name);
        }
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(request(&object, None, "default"), None);
        for broken in [json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": []}), json!([])] {
            let _ = request(&broken, None, "");
        }
    }
}
