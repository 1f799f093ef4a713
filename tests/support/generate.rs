//! Objects that nobody would write and an API server may still send: right in most places, wrong in some,
//! with strangers in between. They are made from what the kinds say of themselves.

pub(crate) mod fills;
mod maker;
pub(crate) mod places;

use std::collections::BTreeMap;

use jobgate::judge::facts::FactTable;
use jobgate::judge::policy::{Action, Policy, RuleSettings};
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};

pub(crate) use super::random::Random;
use maker::Maker;

/// One review, and what is known around it.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) uid: String,
    pub(crate) kind: Kind,
    pub(crate) operation: &'static str,
    pub(crate) object: Value,
    pub(crate) old: Option<Value>,
    pub(crate) facts: FactTable,
    /// The index of its policy.
    pub(crate) policy: usize,
    /// The group and kind that the review names.
    said: (&'static str, &'static str),
    subresource: Option<&'static str>,
    user: &'static str,
}

impl Case {
    pub(crate) fn review(&self, dry_run: bool) -> Value {
        let (group, kind) = self.said;
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": self.uid,
            "kind": {"group": group, "version": self.kind.version, "kind": kind},
            "name": "train", "operation": self.operation, "subResource": self.subresource,
            "namespace": if self.kind.cluster_scoped { Value::Null } else { "team-a".into() },
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": if self.operation == "DELETE" { &Value::Null } else { &self.object },
            "oldObject": self.old, "dryRun": dry_run, "options": {"kind": "CreateOptions"},
        }})
    }

    /// Tells whether Jobgate must keep its hands off.
    pub(crate) fn is_none_of_ours(&self) -> bool {
        !matches!(self.operation, "CREATE" | "UPDATE")
            || self.subresource.is_some()
            || self.said != (self.kind.group, self.kind.as_str())
    }

    /// Tells whether the controller of another kind made the object for an object of that kind.
    pub(crate) fn is_made(&self) -> bool {
        let owners =
            self.object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let text = |owner: &'_ Value, key: &str| {
            owner.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        owners.filter(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true)).any(|owner| {
            Kind::typed(&text(owner, "apiVersion"), &text(owner, "kind"))
                .is_some_and(|kind| kind.makers.contains(&self.user) && kind.makes(self.kind))
        })
    }

    /// Returns the same request for another object.
    pub(crate) fn with_object(&self, object: Value) -> Self {
        Self { object, ..self.clone() }
    }
}

/// Policies of every sort: the built-in ones, and every rule set to each action that it may have.
pub(crate) fn policies() -> Vec<Policy> {
    let mut policies: Vec<Policy> = ["default", "audit", "accelerators", "strict"]
        .iter()
        .map(|name| jobgate::policies::builtin(name).expect("a policy"))
        .collect();
    for action in [Action::Deny, Action::Warn, Action::Fill] {
        let settings = |may: bool| RuleSettings { action: may.then_some(action), params: BTreeMap::new() };
        let policy = jobgate::policies::builtin("default").expect("a policy");
        let rules = policy.rules().iter();
        let rules =
            rules.map(|rule| (rule.id.to_string(), settings(action != Action::Fill || rule.can_fill())));
        let rules = rules.collect();
        policies.push(policy.with_settings(rules));
    }
    policies
}

pub(crate) fn case(random: &mut Random, policies: usize) -> Case {
    let kinds = places::kinds();
    let kind = *random.pick(&kinds);
    let operation = *random.pick(&["CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT"]);
    // Most objects are wrong in a place or two; some nowhere, some everywhere.
    let mess = *random.pick(&[0, 0, 1, 3, 3, 10, 40]);
    let parents: Vec<Kind> = kind.parents().map(|(parent, _)| parent).collect();
    let parent = (!parents.is_empty() && random.percent(20)).then(|| *random.pick(&parents));
    let mut maker = Maker { random, mess };
    let object = maker.object(kind, parent);
    let old = match operation {
        "UPDATE" => Some(maker.old(kind, &object)),
        "DELETE" => Some(object.clone()),
        _ => None,
    };
    let facts = maker.facts();
    let random = maker.random;
    let users = ["admin", "admin", "system:serviceaccount:evil:cronjob-controller", ""];
    let user = match parent {
        Some(parent) if random.percent(75) => *random.pick(parent.makers),
        // The controller of a kind that may be none of its parents.
        _ if random.percent(20) => {
            let makers: Vec<&str> = kinds.iter().flat_map(|kind| kind.makers).copied().collect();
            *random.pick(&makers)
        }
        _ => *random.pick(&users),
    };
    let other = *random.pick(&kinds);
    Case {
        uid: format!("uid-{}", random.next()),
        kind,
        operation,
        object,
        old,
        facts,
        // The default policy as often as all others.
        policy: if random.percent(50) { 0 } else { random.below(policies) },
        said: if random.percent(2) {
            *random.pick(&[(other.group, other.as_str()), ("apps", "ReplicaSet"), (kind.group, "Job")])
        } else {
            (kind.group, kind.as_str())
        },
        subresource: random.percent(2).then_some("status"),
        user,
    }
}
