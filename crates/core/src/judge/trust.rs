//! Whether a controller made an object from a parent that was judged: then the object is not judged again.
//!
//! ```text
//! account in `trustedControllers`? ──> owner of a kind whose children it makes? ──> does that parent exist, with that uid?
//!        no: judged                          no: judged                              no: judged    unknown: trusted, with a warning
//! ```
//!
//! The API server verifies the user name, but not owner references, and whoever may create service accounts in a
//! namespace can act as the operator that usually runs there. So neither the account alone nor the reference
//! counts: the parent must exist. An existing parent was judged when it was created, or it is older than the
//! webhook, or was admitted while the webhook was down: in any case it is genuine, `audit` finds it, and its
//! children are not the place to stop it.

use crate::judge::facts::{Fact, Facts, WantedParent};
use crate::judge::policy::Policy;
use crate::judge::request::Request;
use crate::kinds::{Kind, Part, Workload};
use crate::text::value::Value;

/// What is known of the maker of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Anybody: the object is judged.
    None,
    /// The controller of a parent that exists.
    Child,
    /// The controller of a parent that could not be looked up.
    Unseen,
}

/// Returns the parent to look up before an object is judged: that of a trusted account, of a kind that can be
/// looked up.
#[must_use]
pub(crate) fn wanted(policy: &Policy, object: &Value, namespace: &str, user: &str) -> Option<WantedParent> {
    let (kind, owner) = (Kind::from_object(object)?, OwnerReference::from_object(&Part::root(object))?);
    is_trusted(policy, user, kind, &owner).then(|| owner.wanted(namespace)).flatten()
}

/// Tells whether an object is a child of a parent that was judged.
pub(super) fn trust(
    policy: &Policy,
    facts: &dyn Facts,
    request: &Request<'_>,
    workload: &Workload<'_>,
) -> Trust {
    let (Some(user), Some(owner)) = (request.user, OwnerReference::from_object(&workload.object)) else {
        return Trust::None;
    };
    if !is_trusted(policy, user, workload.kind, &owner) {
        return Trust::None;
    }
    match owner.wanted(request.namespace).map_or(Fact::Unknown, |wanted| facts.parent(&wanted)) {
        Fact::Known(()) => Trust::Child,
        Fact::Absent => Trust::None,
        Fact::Unknown => Trust::Unseen,
    }
}

/// Returns advice for whoever runs the operator that made a denied object, since its author cannot change what
/// an operator writes. Nothing if the maker does not look like an operator.
#[must_use]
pub(crate) fn advice(policy: &Policy, object: &Value, user: &str) -> Option<String> {
    let (kind, owner) = (Kind::from_object(object)?, OwnerReference::from_object(&Part::root(object))?);
    let parent = owner.kind().filter(|parent| parent.makes(kind))?;
    if !user.starts_with("system:serviceaccount:") {
        return None;
    }
    let (child, parent, name) = (kind.title(), parent.title(), owner.name);
    if is_trusted(policy, user, kind, &owner) {
        return Some(format!(
            "`{user}` is in `trustedControllers`, but this {child} was judged: its owner, the {parent} `{name}`, \
             does not exist with that uid"
        ));
    }
    // A listed account makes children of other kinds, so listing it would not help.
    (!is_listed(policy, user)).then(|| {
        // An operator may put the answers for all its children into one event, of 1,024 characters at most.
        format!("add `{user}` to `trustedControllers` if it operates {parent} `{name}`")
    })
}

/// The reference to the owner that is the controller of an object.
struct OwnerReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> OwnerReference<'a> {
    /// Returns the controller of an object. The API server accepts one at most.
    fn from_object(object: &Part<'a>) -> Option<Self> {
        let owners = object.at(&["metadata", "ownerReferences"]);
        let owner = owners.mappings().find(|owner| owner.get("controller").bool().set() == Some(true))?;
        let text = |key| owner.get(key).text().set().unwrap_or_default();
        Some(Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        })
    }

    /// Returns the kind of the owner, if its controller makes objects that are judged. Its version does not
    /// matter.
    fn kind(&self) -> Option<Kind> {
        let typed = Kind::typed(self.api_version, self.kind)?;
        Kind::with_children().find(|kind| kind.is_same(typed))
    }

    fn wanted(&self, namespace: &str) -> Option<WantedParent> {
        let version = self.api_version.split_once('/').map_or("", |(_, version)| version);
        Some(WantedParent {
            kind: self.kind()?,
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
        })
    }
}

fn is_listed(policy: &Policy, user: &str) -> bool {
    policy.trusted_controllers.iter().any(|name| name == user)
}

/// Tells whether an account is trusted with an object of this kind for this owner, if the owner exists.
fn is_trusted(policy: &Policy, user: &str, kind: Kind, owner: &OwnerReference<'_>) -> bool {
    if !is_listed(policy, user) {
        return false;
    }
    // Whatever the account, a parent only has children of the kinds that its operator makes.
    let makes = owner.kind().is_none_or(|parent| parent.makes(kind));
    // A known account makes objects for its own kinds; an account that the policy adds, for any kind.
    let is_known = Kind::all().any(|kind| kind.makers.contains(&user));
    let typed = || Kind::typed(owner.api_version, owner.kind);
    makes && (!is_known || typed().is_some_and(|parent| parent.makers.contains(&user)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{Operation, Origin, evaluate};
    use crate::judge::facts::{FactTable, NoFacts};
    use crate::judge::verdict::Skipped;
    use crate::text::value::json;

    const RAY: &str = "system:serviceaccount:default:kuberay-operator";
    const OWN_RAY: &str = "system:serviceaccount:kuberay-system:kuberay-operator";

    fn child(kind: (&str, &str), owner: (&str, &str)) -> Value {
        json!({
            "apiVersion": kind.0, "kind": kind.1,
            "metadata": {"name": "c", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "0"},
                {"apiVersion": owner.0, "kind": owner.1, "name": "parent", "uid": "1", "controller": true},
            ]},
            "spec": {},
        })
    }

    fn ray_job(child_kind: (&str, &str)) -> Value {
        child(child_kind, ("ray.io/v1", "RayJob"))
    }

    const JOB: (&str, &str) = ("batch/v1", "Job");
    const CRON_JOB: (&str, &str) = ("batch/v1", "CronJob");

    fn skipped(policy: &Policy, facts: &dyn Facts, object: &Value, user: &str) -> Option<Skipped> {
        let request = Request {
            operation: Operation::Create,
            origin: Origin::Admission,
            object,
            old: None,
            same_spec: None,
            namespace: "ml",
            user: Some(user),
            today: None,
        };
        evaluate(policy, facts, &request).skipped
    }

    fn knowing(policy: &Policy, object: &Value, user: &str, fact: Fact<()>) -> FactTable {
        let wanted = wanted(policy, object, "ml", user).expect("a parent");
        FactTable { parents: [(wanted, fact)].into(), ..FactTable::default() }
    }

    fn adding(user: &str) -> Policy {
        let mut policy = Policy::default();
        policy.trusted_controllers = vec![user.to_owned()];
        policy
    }

    #[test]
    fn a_child_is_trusted_if_its_parent_exists() {
        for (policy, user) in [(Policy::default(), RAY), (adding(OWN_RAY), OWN_RAY)] {
            let object = ray_job(JOB);
            let with = |fact| skipped(&policy, &knowing(&policy, &object, user, fact), &object, user);
            assert_eq!(with(Fact::Known(())), Some(Skipped::TrustedController), "{user}");
            assert_eq!(with(Fact::Absent), None, "{user}");
            assert_eq!(with(Fact::Unknown), Some(Skipped::TrustedUnseen), "{user}");
            assert_eq!(skipped(&policy, &NoFacts, &object, user), Some(Skipped::TrustedUnseen), "{user}");
        }
    }

    #[test]
    fn another_parent_says_nothing() {
        let policy = Policy::default();
        let facts = knowing(&policy, &ray_job(JOB), RAY, Fact::Known(()));
        for (key, value) in [("uid", "2"), ("name", "other"), ("apiVersion", "ray.io/v1alpha1")] {
            let mut object = ray_job(JOB);
            object["metadata"]["ownerReferences"][1][key] = value.into();
            assert_eq!(skipped(&policy, &facts, &object, RAY), Some(Skipped::TrustedUnseen), "{key}");
        }
    }

    #[test]
    fn nobody_makes_what_an_operator_does_not_make() {
        for (policy, user) in [(Policy::default(), RAY), (adding(OWN_RAY), OWN_RAY)] {
            let object = ray_job(CRON_JOB);
            assert_eq!(wanted(&policy, &object, "ml", user), None);
            assert_eq!(skipped(&policy, &NoFacts, &object, user), None, "{user}");
        }
    }

    #[test]
    fn an_account_of_the_policy_is_trusted_with_the_children_of_other_kinds() {
        let policy = adding("system:serviceaccount:ops:pipelines");
        let user = "system:serviceaccount:ops:pipelines";
        for owner in [("example.com/v1", "Pipeline"), ("kubeflow.org/v1", "PyTorchJob")] {
            let object = child(CRON_JOB, owner);
            assert_eq!(wanted(&policy, &object, "ml", user), None, "there is no look-up of {owner:?}");
            assert_eq!(skipped(&policy, &NoFacts, &object, user), Some(Skipped::TrustedUnseen));
        }
        // The same object in another version.
        let object = child(JOB, ("kubeflow.org/v1", "MPIJob"));
        let wanted = wanted(&policy, &object, "ml", user).expect("a parent");
        assert_eq!((wanted.kind.version, &*wanted.version), ("v2beta1", "v1"));
    }

    #[test]
    fn nothing_is_looked_up_for_anybody_else() {
        let policy = Policy::default();
        for user in ["", "admin", OWN_RAY, "system:serviceaccount:keda:keda-operator"] {
            assert_eq!(wanted(&policy, &ray_job(JOB), "ml", user), None, "{user}");
        }
        let mut object = ray_job(JOB);
        object["metadata"]["ownerReferences"][1]["controller"] = false.into();
        assert_eq!(wanted(&policy, &object, "ml", RAY), None);
    }

    #[test]
    fn an_operator_that_is_not_trusted_is_told_how_to_be() {
        let policy = Policy::default();
        let said = advice(&policy, &ray_job(JOB), OWN_RAY).expect("advice");
        for part in [OWN_RAY, "`trustedControllers`", "RayJob `parent`"] {
            assert!(said.contains(part), "{said}");
        }
        let said = advice(&policy, &ray_job(JOB), RAY).expect("advice");
        assert!(said.contains(RAY) && said.contains("does not exist with that uid"), "{said}");
        for (object, user) in [
            // A person, an operator of other kinds, and owners without such children.
            (ray_job(JOB), "admin"),
            (ray_job(JOB), "system:serviceaccount:keda:keda-operator"),
            (ray_job(CRON_JOB), OWN_RAY),
            (child(JOB, ("apps/v1", "Deployment")), OWN_RAY),
            (json!({"apiVersion": "batch/v1", "kind": "Job"}), OWN_RAY),
        ] {
            assert_eq!(advice(&policy, &object, user), None, "{user}: {object}");
        }
    }
}
