//! Checks which of the required permissions the pods' service account has.

use futures::future::join_all;

use super::{Ask, seen};
use crate::doctor::observations::{DEPLOYMENT, Observed, Right, Seen, Unread};
use jobgate_cluster::Mode;
use jobgate_core::judge::facts::FactKind;
use jobgate_core::kinds::{ApiResource, Kind};
use jobgate_core::text::value::{Value, json};

impl Ask<'_> {
    /// Checks which of the permissions the service account has.
    pub(super) async fn may(&self, observed: &Observed, rights: Vec<Right>) -> Vec<(Right, Seen<bool>)> {
        let namespace = &observed.place.namespace;
        let named = |deployment: &Value| {
            Some(deployment.pointer("/spec/template/spec/serviceAccountName")?.as_str()?.to_owned())
        };
        let account = match observed.deployment.known() {
            Some(deployment) => named(deployment).unwrap_or_else(|| "default".to_owned()),
            None => DEPLOYMENT.to_owned(),
        };
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        let asked = rights.iter().map(|right| {
            let Right { verb, group, resource, namespace, name, .. } = right;
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": user, "groups": groups,
                    "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name},
                },
            });
            async move {
                let answer = self.within(self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), &review)).await;
                let answer = answer.map(|review| review.pointer("/status/allowed").and_then(Value::as_bool));
                match seen(answer, || "create subjectaccessreviews".to_owned()) {
                    Seen::Known(Some(allowed)) => Seen::Known(allowed),
                    Seen::Known(None) | Seen::Absent => Seen::Unread(Unread::Failed("the SubjectAccessReview was not answered".to_owned())),
                    Seen::Unread(unread) => Seen::Unread(unread),
                }
            }
        });
        let answers = join_all(asked).await;
        rights.into_iter().zip(answers).collect()
    }
}

/// Returns the permissions that the pods' service account needs, by the container's arguments; by those of
/// the manifests if unknown.
pub(super) fn rights(observed: &Observed) -> Vec<Right> {
    let serve = observed.serve();
    let (namespace, place) = (&observed.place.namespace, &observed.place);
    let mut rights = Vec::new();
    if serve.as_ref().is_none_or(|serve| serve.self_managed_certs) {
        for verb in ["get", "watch", "update"] {
            let (namespace, name) = (namespace.clone(), observed.secret_name());
            rights.push(Right { verb, group: "", resource: "secrets", namespace, name, certificates: true });
        }
        let managed = serve.as_ref().map(|serve| &serve.managed);
        let mutating = managed.map_or(&place.mutating, |managed| &managed.mutating_configuration);
        let validating = managed.map_or(&place.validating, |managed| &managed.validating_configuration);
        for (resource, name) in
            [("mutatingwebhookconfigurations", mutating), ("validatingwebhookconfigurations", validating)]
        {
            for verb in ["get", "watch", "patch"] {
                let (namespace, name) = (String::new(), name.clone());
                rights.push(Right {
                    verb,
                    group: "admissionregistration.k8s.io",
                    resource,
                    namespace,
                    name,
                    certificates: true,
                });
            }
        }
    }
    let mode = serve.and_then(|serve| serve.claims).unwrap_or(Mode::Cache);
    let verbs: &[&'static str] = match mode {
        Mode::Cache => &["get", "list", "watch"],
        Mode::Live => &["get"],
        Mode::Off => &[],
    };
    let facts = FactKind::all().map(|kind| (kind.definition().resource, verbs));
    // Parents are never listed.
    let parents =
        Kind::with_children().map(|kind| (ApiResource::from_kind(kind), &verbs[..verbs.len().min(1)]));
    for (ApiResource { group, name: resource, .. }, verbs) in facts.chain(parents) {
        rights.extend(verbs.iter().map(|verb| Right {
            verb,
            group,
            resource,
            namespace: String::new(),
            name: String::new(),
            certificates: false,
        }));
    }
    rights
}
