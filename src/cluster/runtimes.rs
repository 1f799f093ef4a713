//! Where an API server has training runtimes.

use crate::kinds::Kind;

/// Returns the path of the runtimes of all namespaces.
pub(super) fn all(kind: Kind) -> String {
    format!("/apis/{}/{}/{}", kind.group, kind.version, kind.resource)
}

/// Returns the path of one runtime. Its namespace does not matter if its kind has none.
pub(super) fn path(kind: Kind, namespace: &str, name: &str) -> String {
    if kind.cluster_scoped {
        return format!("{}/{name}", all(kind));
    }
    format!("/apis/{}/{}/namespaces/{namespace}/{}/{name}", kind.group, kind.version, kind.resource)
}
