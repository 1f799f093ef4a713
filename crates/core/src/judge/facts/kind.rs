//! The kinds of objects that rules look up, with all that tells them apart.
//!
//! What the webhook caches and asks for, what a dry run and an audit read, what is found in files, the permissions
//! and the messages follow from the definitions here.

use crate::judge::needs::Needs;
use crate::kinds::{ApiResource, Kind, PodTemplate, Workload};
use crate::text::value::Value;

/// A kind of object that rules look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    /// `PersistentVolumeClaim`: what pods mount.
    Claim,
    /// A kind of training runtime: what has the pods of a job.
    Runtime(Kind),
}

/// What tells one of these kinds from another.
#[derive(Clone, Copy, Debug)]
pub struct FactDefinition {
    /// Its name in manifests.
    pub name: &'static str,
    /// Where an API server has the objects.
    pub resource: ApiResource,
    /// The part of an object that rules read, and caches keep.
    pub keeps: Keeps,
    /// What a rule needs that looks them up.
    pub needs: Needs,
    /// What the rules need that messages name if objects cannot be looked up.
    pub missed_by: Needs,
    /// The name of the objects in logs.
    pub title: &'static str,
    /// What messages call one object, and several.
    pub nouns: [&'static str; 2],
    /// What is not checked if an object is unknown: it, or what else rules find by it.
    pub unchecked: &'static str,
}

/// The part of an object that rules read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The access modes of a claim.
    AccessModes,
    /// The field `spec`.
    Spec,
    /// Nothing but that it exists.
    Existence,
}

impl FactKind {
    /// Returns all of them, claims first.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Claim].into_iter().chain(Kind::runtimes().map(Self::Runtime))
    }

    /// Returns what tells it from others.
    #[must_use]
    pub fn definition(self) -> FactDefinition {
        match self {
            Self::Claim => FactDefinition {
                name: "PersistentVolumeClaim",
                resource: ApiResource {
                    group: "",
                    version: "v1",
                    name: "persistentvolumeclaims",
                    cluster_scoped: false,
                    is_optional: false,
                },
                keeps: Keeps::AccessModes,
                needs: Needs::CLAIMS,
                missed_by: Needs::CLAIMS,
                title: "claims",
                nouns: ["claim", "claims"],
                unchecked: "it",
            },
            Self::Runtime(kind) => FactDefinition {
                name: kind.name,
                resource: ApiResource::from_kind(kind),
                keeps: Keeps::Spec,
                needs: Needs::RUNTIMES,
                // Which claims its pods mount.
                missed_by: Needs::CLAIMS,
                title: kind.resource,
                nouns: ["runtime", "runtimes"],
                unchecked: "its pods",
            },
        }
    }

    /// Returns the namespace of an object to which one in a namespace refers; empty if it has none.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> &str {
        if self.definition().resource.cluster_scoped { "" } else { namespace }
    }

    /// Returns the names of the objects of this kind that a workload refers to.
    #[must_use]
    pub fn names<'a>(self, workload: &Workload<'a>) -> Vec<&'a str> {
        match self {
            Self::Claim => {
                let own = workload.own_claims();
                let own = own.iter().filter_map(|own| Some(own.to_look_up()?.0));
                workload.pods.iter().flat_map(PodTemplate::claims).map(|used| used.claim).chain(own).collect()
            }
            Self::Runtime(kind) => {
                let named = workload.kind.runs_in.and_then(|reference| reference.of(&workload.object));
                named.filter(|(of, _)| *of == kind.name).map(|(_, name)| name).into_iter().collect()
            }
        }
    }

    /// Returns the kind with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.definition().name == name)
    }

    /// Returns the kind of an object, in any version of its group.
    #[must_use]
    pub fn from_object(object: &Value) -> Option<Self> {
        let (name, api) = (object.get("kind")?.as_str()?, object.get("apiVersion")?.as_str()?);
        Self::all().find(|kind| {
            let FactDefinition { name: of, resource, .. } = kind.definition();
            of == name && api.rsplit_once('/').map_or("", |(group, _)| group) == resource.group
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn each_is_known_by_its_name_and_by_its_objects_and_is_needed_by_something_that_is_looked_up() {
        for kind in FactKind::all() {
            let FactDefinition { name, resource, needs, .. } = kind.definition();
            assert_eq!(FactKind::named(name), Some(kind));
            let object = json!({"apiVersion": resource.api_version(), "kind": name});
            assert_eq!(FactKind::from_object(&object), Some(kind));
            assert_ne!(needs, Needs::NONE);
            assert_eq!(needs.of_object(), Needs::NONE, "{name}");
        }
        let of =
            |version: &str, name: &str| FactKind::from_object(&json!({"apiVersion": version, "kind": name}));
        assert!(of("trainer.kubeflow.org/v2", "TrainingRuntime").is_some());
        assert_eq!(of("example.com/v1", "TrainingRuntime"), None);
        assert_eq!(of("example.com/v1", "PersistentVolumeClaim"), None);
    }
}
