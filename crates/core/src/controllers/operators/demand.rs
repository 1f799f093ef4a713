//! What objects of operators ask for, as far as what they wait for depends on it.

use super::super::pod_set::PodTemplate;
use super::super::time::Time;
use crate::text::value::Value;

/// What an object of an operator asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The operator, and the release that is modelled.
    pub(crate) operator: &'static str,
    /// Whether it is suspended.
    pub(crate) is_suspended: bool,
    /// Where `suspend` is, below `spec`; empty where it cannot be suspended.
    pub(crate) suspend: &'static [&'static str],
    /// Another controller that runs it.
    pub(crate) manager: Option<String>,
    /// How long after its end it is deleted; nothing if it is not.
    pub(crate) ttl: Option<Time>,
    /// How long it may take; nothing where it has no deadline.
    pub(crate) deadline: Option<Time>,
    /// Where the deadline is, below `spec`; empty where the kind has none.
    pub(crate) deadline_at: &'static [&'static str],
    /// Whether the deadline is looked at only when something happens to it.
    pub(crate) is_deadline_idle: bool,
    /// The pods that its operator makes itself.
    pub(crate) pods: Vec<AskedRole>,
    /// The objects that its operator makes.
    pub(crate) objects: Vec<AskedObjects>,
    /// How often it restarts; nothing where that has no single limit.
    pub(crate) restarts: Option<u32>,
}

/// Pods that an operator makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedRole {
    /// What they are called: `worker`.
    pub(crate) name: String,
    /// How many; nothing where that changes by itself.
    pub(crate) count: Option<u32>,
    /// How many at most, where `count` is left open for those that are made later.
    pub(crate) most: Option<u32>,
    /// Whether one that has ended keeps its place, and nobody replaces it.
    pub(crate) is_final: bool,
    /// What distinguishes one from the others.
    pub(crate) numbers: Numbers,
    /// What the kubelet knows of them; nothing where a simulation cannot go on from pods that are there.
    pub(crate) template: Option<PodTemplate>,
}

/// What distinguishes a pod from the others of its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The index in its labels.
    Index,
    /// The order in which they were made.
    Order,
    /// Its replica and its number in that: so many are one replica.
    Hosts(u32),
}

/// Objects that an operator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedObjects {
    /// Their kind.
    pub(crate) kind: &'static str,
    /// What they are to it; nothing where there is one only.
    pub(crate) role: Option<String>,
    /// How many.
    pub(crate) count: u32,
    /// The roles that are to be complete, or only ready, before these are made.
    pub(crate) after: Vec<(String, bool)>,
}

impl AskedObjects {
    /// Returns one object.
    pub(crate) fn one(kind: &'static str) -> Self {
        Self { kind, role: None, count: 1, after: Vec::new() }
    }
}

/// Returns another controller that a field names, where that is not the operator itself.
pub(super) fn other_manager(policy: &Value, own: &str) -> Option<String> {
    let manager = policy.get("managedBy")?.as_str()?;
    (!manager.is_empty() && manager != own).then(|| manager.to_owned())
}
