//! Where an API server has the objects of a kind.

use super::Kind;

/// A resource of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The API group; empty for that of pods.
    pub group: &'static str,
    /// The version that is asked for.
    pub version: &'static str,
    /// The name, as in URLs and roles.
    pub name: &'static str,
    /// Whether objects have no namespace.
    pub cluster_scoped: bool,
    /// Whether a cluster need not serve it.
    pub is_optional: bool,
}

impl ApiResource {
    /// Returns the `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") }
    }

    /// Returns the resource of a kind.
    #[must_use]
    pub fn from_kind(kind: Kind) -> Self {
        Self {
            group: kind.group,
            version: kind.version,
            name: kind.resource,
            cluster_scoped: kind.cluster_scoped,
            is_optional: !kind.is_built_in(),
        }
    }

    /// Returns the path of the objects of a namespace, or of all if that is empty.
    #[must_use]
    pub fn list(&self, namespace: &str) -> String {
        self.path(self.version, namespace)
    }

    /// Returns the path of one object in a version. The namespace is ignored if objects have none.
    #[must_use]
    pub fn object(&self, version: &str, namespace: &str, name: &str) -> String {
        let namespace = if self.cluster_scoped { "" } else { namespace };
        format!("{}/{name}", self.path(version, namespace))
    }

    fn path(&self, version: &str, namespace: &str) -> String {
        let Self { group, name, .. } = self;
        let api = if group.is_empty() { "/api" } else { "/apis/" };
        let (within, of) = if namespace.is_empty() { ("", "") } else { ("namespaces/", "/") };
        format!("{api}{group}/{version}/{within}{namespace}{of}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        let jobs = ApiResource::from_kind(Kind::JOB);
        assert_eq!(jobs.list(""), "/apis/batch/v1/jobs");
        assert_eq!(jobs.list("ml"), "/apis/batch/v1/namespaces/ml/jobs");
        assert_eq!(jobs.object("v1", "ml", "train"), "/apis/batch/v1/namespaces/ml/jobs/train");
        let namespaces = ApiResource { group: "", name: "namespaces", cluster_scoped: true, ..jobs };
        assert_eq!(namespaces.object("v1", "ml", "a"), "/api/v1/namespaces/a");
        assert_eq!(namespaces.list(""), "/api/v1/namespaces");
    }
}
