//! Reads which accounts act as operators in the cluster.

use super::{ApiCollection, Ask};
use crate::doctor::observations::{Access, Operator, Seen, operators};
use jobgate_core::text::value::Value;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Ask<'_> {
    /// Returns the accounts that act as operators of the kinds with children.
    pub(super) async fn operators(&self) -> Seen<Vec<Operator>> {
        let list = |resource| self.list(ApiCollection(RBAC, resource, ""), "");
        let (cluster_roles, cluster_bindings, roles, bindings) = tokio::join!(
            list("clusterroles"),
            list("clusterrolebindings"),
            list("roles"),
            list("rolebindings")
        );
        let known = |seen: Seen<Vec<Value>>| match seen {
            Seen::Known(objects) => Ok(objects),
            // A cluster without roles has no operators that need one.
            Seen::Absent => Err(Seen::skipped("the API server serves no roles")),
            Seen::Unread(unread) => Err(Seen::Unread(unread)),
        };
        let all =
            (|| Ok([known(cluster_roles)?, known(cluster_bindings)?, known(roles)?, known(bindings)?]))();
        match all {
            Ok([cluster_roles, cluster_bindings, roles, bindings]) => Seen::Known(operators(Access {
                cluster_roles: &cluster_roles,
                cluster_bindings: &cluster_bindings,
                roles: &roles,
                bindings: &bindings,
            })),
            Err(seen) => seen,
        }
    }
}
