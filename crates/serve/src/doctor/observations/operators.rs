//! The accounts that act as operators, inferred from their permissions.
//!
//! No object records the account of its operator, and the names of Deployments and accounts are arbitrary.
//! But an account that may write the status of a kind and create its children is its operator: users and
//! queues have no use for both. A role that allows everything does not identify an operator, so the status
//! must be named.

use std::collections::BTreeMap;

use jobgate_core::kinds::Kind;
use jobgate_core::text::value::Value;

/// An account that acts as the operator of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    /// The user name, such as `system:serviceaccount:kuberay-system:kuberay-operator`.
    pub(crate) account: String,
    /// The kinds whose children it makes.
    pub(crate) kinds: Vec<&'static str>,
}

/// Roles and their bindings: of the cluster, then of namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    /// The ClusterRoles.
    pub(crate) cluster_roles: &'a [Value],
    /// The ClusterRoleBindings.
    pub(crate) cluster_bindings: &'a [Value],
    /// The Roles of all namespaces.
    pub(crate) roles: &'a [Value],
    /// The RoleBindings of all namespaces.
    pub(crate) bindings: &'a [Value],
}

/// Returns the operators, by account.
#[must_use]
pub(crate) fn operators(access: Access<'_>) -> Vec<Operator> {
    let mut rules: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for binding in access.cluster_bindings.iter().chain(access.bindings) {
        let role = &binding["roleRef"];
        let namespace = (role["kind"] == "Role").then(|| &binding["metadata"]["namespace"]);
        let roles = if namespace.is_some() { access.roles } else { access.cluster_roles };
        let found = roles.iter().find(|one| {
            let metadata = &one["metadata"];
            metadata["name"] == role["name"]
                && namespace.is_none_or(|namespace| metadata["namespace"] == *namespace)
        });
        let Some(found) = found else { continue };
        for account in list(&binding["subjects"]).filter_map(|subject| account(subject, binding)) {
            rules.entry(account).or_default().extend(list(&found["rules"]));
        }
    }
    let of = |(account, rules): (String, Vec<&Value>)| {
        let kinds: Vec<&str> =
            Kind::with_children().filter(|kind| operates(&rules, *kind)).map(Kind::title).collect();
        (!kinds.is_empty()).then_some(Operator { account, kinds })
    };
    rules.into_iter().filter_map(of).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the user name of a subject that is a service account.
fn account(subject: &Value, binding: &Value) -> Option<String> {
    let name = subject["name"].as_str()?;
    match subject["kind"].as_str()? {
        "ServiceAccount" => {
            let own = subject["namespace"].as_str().or_else(|| binding["metadata"]["namespace"].as_str());
            Some(format!("system:serviceaccount:{}:{name}", own?))
        }
        "User" => name.starts_with("system:serviceaccount:").then(|| name.to_owned()),
        _ => None,
    }
}

/// Returns whether the rules allow writing the status of a kind and creating its children.
fn operates(rules: &[&Value], kind: Kind) -> bool {
    let status = [format!("{}/status", kind.resource), format!("{}/*", kind.resource)];
    let writes = rules.iter().any(|rule| {
        has(&rule["apiGroups"], &[kind.group, "*"])
            && has(&rule["resources"], &[&status[0], &status[1]])
            && has(&rule["verbs"], &["update", "patch", "*"])
    });
    let children = || kind.children.iter().filter_map(|child| Kind::named(child.group, child.name));
    writes
        && children().any(|child| {
            rules.iter().any(|rule| {
                has(&rule["apiGroups"], &[child.group, "*"])
                    && has(&rule["resources"], &[child.resource, "*"])
                    && has(&rule["verbs"], &["create", "*"])
            })
        })
}

fn has(words: &Value, any: &[&str]) -> bool {
    list(words).filter_map(Value::as_str).any(|word| any.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    }

    fn role(name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
        json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules})
    }

    fn binding(role: (&str, &str), namespace: Option<&str>, subject: (&str, Option<&str>, &str)) -> Value {
        let (kind, of, name) = subject;
        json!({
            "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": role.0, "name": role.1},
            "subjects": [{"kind": kind, "namespace": of, "name": name}],
        })
    }

    #[test]
    fn whoever_writes_the_status_and_creates_children_is_the_operator() {
        let jobs = rule("batch", &["jobs"], &["create", "delete"]);
        let status = rule("ray.io", &["rayjobs/status"], &["update"]);
        let cluster_roles = [
            role("ray", None, &[jobs.clone(), status.clone()]),
            role("jobs", None, std::slice::from_ref(&jobs)),
            role("status", None, std::slice::from_ref(&status)),
            role("everything", None, &[rule("*", &["*"], &["*"])]),
            role("queue", None, &[status, rule("batch", &["jobs"], &["get", "list", "update"])]),
            role(
                "keda",
                None,
                &[rule("keda.sh", &["scaledjobs/*"], &["*"]), rule("batch", &["jobs"], &["*"])],
            ),
        ];
        let of_one = [jobs, rule("ray.io", &["rayjobs", "rayjobs/status"], &["patch"])];
        let roles = [role("ray", Some("team"), &of_one)];
        let bound = |role, name| binding(("ClusterRole", role), None, ("ServiceAccount", Some("ops"), name));
        let cluster_bindings = [
            bound("ray", "ray"),
            bound("everything", "argocd"),
            bound("queue", "kueue"),
            bound("jobs", "half"),
            // Two roles count together.
            bound("jobs", "both"),
            bound("status", "both"),
            bound("gone", "nobody"),
            binding(
                ("ClusterRole", "keda"),
                None,
                ("User", None, "system:serviceaccount:keda:keda-operator"),
            ),
            binding(("ClusterRole", "ray"), None, ("User", None, "somebody")),
            binding(("ClusterRole", "ray"), None, ("Group", None, "system:masters")),
        ];
        let bindings = [
            binding(("Role", "ray"), Some("team"), ("ServiceAccount", None, "own-ray")),
            binding(("Role", "ray"), Some("another"), ("ServiceAccount", None, "unbound")),
        ];
        let found = operators(Access {
            cluster_roles: &cluster_roles,
            cluster_bindings: &cluster_bindings,
            roles: &roles,
            bindings: &bindings,
        });
        let account = |name: &str| format!("system:serviceaccount:{name}");
        let operator =
            |name: &str, kind: &'static str| Operator { account: account(name), kinds: vec![kind] };
        assert_eq!(
            found,
            [
                operator("keda:keda-operator", "ScaledJob"),
                operator("ops:both", "RayJob"),
                operator("ops:ray", "RayJob"),
                operator("team:own-ray", "RayJob"),
            ]
        );
    }

    #[test]
    fn what_is_no_role_is_passed_over() {
        let odd = [json!({}), json!([]), json!({"roleRef": 1, "subjects": [1, {"kind": "ServiceAccount"}]})];
        let found =
            operators(Access { cluster_roles: &odd, cluster_bindings: &odd, roles: &odd, bindings: &odd });
        assert_eq!(found, []);
    }
}
