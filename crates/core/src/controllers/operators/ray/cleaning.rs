//! What is deleted after the end of a RayJob: `deletionRules`, the policies before them, `shutdownAfterJobFinishes`
//! (`rayjob_controller.go`).

use super::super::super::cluster::{Action, Cluster};
use super::super::super::dashboard::programs::ProgramState;
use super::super::super::meta::Propagation;
use super::super::super::object::{Object, RayJobStatus};
use super::super::super::time::Time;
use super::cluster_spec::{flag, list};
use super::job_spec::JobSpec;
use crate::text::value::{Value, json};

/// How much later than its time a timer is set (`requeueDelayFor`).
const BUFFER: Time = Time::from_seconds(2);

/// What is deleted, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Policy {
    None,
    Workers,
    Cluster,
    Itself,
}

impl Policy {
    fn parse(text: Option<&str>) -> Self {
        match text {
            Some("DeleteWorkers") => Self::Workers,
            Some("DeleteCluster") => Self::Cluster,
            Some("DeleteSelf") => Self::Itself,
            _ => Self::None,
        }
    }
}

/// A RayJob that has ended.
pub(super) struct Ended<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) number: usize,
    pub(super) object: &'a Object,
    pub(super) spec: &'a JobSpec,
    pub(super) status: &'a RayJobStatus,
    pub(super) at: Time,
}

impl Ended<'_> {
    /// Returns what is deleted now, and when it looks again.
    pub(super) fn clean(&self) -> (Vec<Action>, Option<Time>) {
        // An existing cluster is never deleted.
        if self.spec.selector.is_some() {
            return (Vec::new(), None);
        }
        let strategy = self.object.spec().get("deletionStrategy").filter(|strategy| !strategy.is_null());
        match strategy {
            Some(strategy) if strategy.get("deletionRules").is_some_and(Value::is_array) => {
                self.by_rules(list(strategy, "deletionRules"))
            }
            Some(strategy) => self.by_result(strategy),
            None if self.spec.shutdown => self.after(self.spec.ttl, Policy::Cluster),
            None => (Vec::new(), None),
        }
    }

    /// Of the rules that are due, the one that deletes the most (`handleDeletionRules`).
    fn by_rules(&self, rules: &[Value]) -> (Vec<Action>, Option<Time>) {
        let mut next: Option<Time> = None;
        let mut due: Option<Policy> = None;
        for rule in rules.iter().filter(|rule| self.matches(rule)) {
            let ttl = rule.pointer("/condition/ttlSeconds").and_then(Value::as_i64).unwrap_or(0);
            let at = self.time(ttl);
            let policy = Policy::parse(rule.get("policy").and_then(Value::as_str));
            if self.at < at {
                next = Some(next.map_or(at, |next| next.min(at)));
            } else if !self.is_done(policy) {
                due = due.max(Some(policy));
            }
        }
        (due.map_or_else(Vec::new, |policy| self.execute(policy)), next.map(|next| next + BUFFER))
    }

    fn matches(&self, rule: &Value) -> bool {
        let text = |at: &str| rule.pointer(at).and_then(Value::as_str);
        match text("/condition/jobStatus") {
            Some(wanted) => wanted == self.status.program.map_or("", ProgramState::word),
            None => {
                let wanted = text("/condition/jobDeploymentStatus");
                wanted.is_some() && wanted == self.status.deployment.map(|deployment| deployment.word())
            }
        }
    }

    /// `onSuccess` and `onFailure`, by what the program last was (`handleLegacyDeletionPolicy`).
    fn by_result(&self, strategy: &Value) -> (Vec<Action>, Option<Time>) {
        let key = match self.status.program {
            Some(ProgramState::Succeeded) => "/onSuccess/policy",
            Some(ProgramState::Failed) => "/onFailure/policy",
            _ => return (Vec::new(), None),
        };
        match Policy::parse(strategy.pointer(key).and_then(Value::as_str)) {
            Policy::None => (Vec::new(), None),
            policy => self.after(self.spec.ttl, policy),
        }
    }

    fn after(&self, ttl: i64, policy: Policy) -> (Vec<Action>, Option<Time>) {
        let at = self.time(ttl);
        if self.at < at { (Vec::new(), Some(at + BUFFER)) } else { (self.execute(policy), None) }
    }

    fn time(&self, ttl: i64) -> Time {
        self.status.end.unwrap_or_default() + Time::from_seconds(ttl)
    }

    fn ray_cluster(&self) -> Option<(usize, &Object)> {
        self.cluster.object("RayCluster", &self.status.cluster)
    }

    /// Tells whether nothing is left to do (`isDeletionActionCompleted`).
    fn is_done(&self, policy: Policy) -> bool {
        let cluster = self.ray_cluster().filter(|(_, cluster)| cluster.deletion.is_none());
        match (policy, cluster) {
            (Policy::None, _) | (Policy::Workers | Policy::Cluster, None) => true,
            (Policy::Workers, Some((_, cluster))) => {
                list(cluster.spec(), "workerGroupSpecs").iter().all(|group| flag(group, "suspend"))
            }
            (Policy::Cluster, Some(_)) | (Policy::Itself, _) => false,
        }
    }

    fn execute(&self, policy: Policy) -> Vec<Action> {
        let propagation = Propagation::Background;
        match (policy, self.ray_cluster()) {
            (Policy::Workers, Some((object, cluster))) => {
                let mut groups = list(cluster.spec(), "workerGroupSpecs").to_vec();
                for group in groups.iter_mut().filter_map(Value::as_object_mut) {
                    group.insert("suspend", Value::Bool(true));
                }
                let patch = json!({"spec": {"workerGroupSpecs": Value::Array(groups)}});
                vec![Action::PatchObject { object, patch }]
            }
            (Policy::Cluster, Some((object, cluster))) if cluster.deletion.is_none() => {
                vec![Action::DeleteObject { object, propagation }]
            }
            (Policy::Itself, _) => vec![Action::DeleteObject { object: self.number, propagation }],
            _ => Vec::new(),
        }
    }
}
