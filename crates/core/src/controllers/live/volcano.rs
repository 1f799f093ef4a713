//! Volcano Jobs that run: the PodGroup, and what their controller has in memory.

use super::super::object::{Object, ObjectStatus};
use super::super::operators;
use super::super::pod::Phase;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::assumptions::{ago, named};
use super::fields::{deletion, items, number, owned, text, time};
use super::object::LiveObject;
use super::pod::LivePod;
use crate::text::value::{Value, json};

/// How long after its time an action of a policy may be on its way.
const ON_ITS_WAY: Time = Time::from_seconds(5);

/// The PodGroup of a Volcano Job, as it is at a moment.
#[derive(Clone, Debug)]
pub(super) struct LivePodGroup {
    name: String,
    created: Time,
    is_in_deletion: bool,
    /// Nothing where its phase is none that is known.
    status: Option<ObjectStatus>,
}

impl LivePodGroup {
    /// Reads one, at a moment in milliseconds since 1970.
    pub(super) fn from_object(object: &Value, now: i64) -> Self {
        Self {
            name: owned(object, "/metadata/name").unwrap_or_default(),
            created: time(object, "/metadata/creationTimestamp", now).unwrap_or_default(),
            is_in_deletion: deletion(object, now).is_some(),
            status: ObjectStatus::from_live("PodGroup", object, now),
        }
    }
}

impl LiveObject {
    /// Returns the PodGroup of a Volcano Job. Where it is not given, it lets pods be made while there are pods that it let be
    /// made; a job that restarts gets a new one.
    pub(super) fn pod_group_of(&self, number: usize) -> Option<Object> {
        let new = |name: &str, created: Time| {
            let manifest = json!({ "metadata": { "name": name } });
            Object::new("PodGroup", name, Some(Owner::Object(number)), manifest, created)
        };
        if let Some(given) = &self.pod_group {
            let status = given.status.clone().filter(|_| !given.is_in_deletion)?;
            return Some(Object { status, ..new(&given.name, given.created) });
        }
        let phase = operators::RUNNING_POD_GROUP;
        self.has_admitted_pods().then(|| Object { status: phase, ..new("PodGroup", self.created) })
    }

    /// Tells whether a Volcano Job ends: no pod takes the place of another.
    pub(super) fn is_ending(&self) -> bool {
        let states = ["Aborting", "Completing", "Terminating"];
        self.kind == "VolcanoJob" && self.state().is_some_and(|state| states.contains(&state))
    }

    /// Tells whether a Volcano Job that neither restarts nor ends has pods of its version.
    fn has_admitted_pods(&self) -> bool {
        let goes_on = matches!(self.state(), None | Some("Pending" | "Running"));
        goes_on && self.pods.iter().any(|pod| pod.deletion.is_none() && self.is_of_version(pod))
    }

    /// Returns the version of a Volcano Job: how often all its pods were killed.
    pub(super) fn version(&self) -> u32 {
        number(&self.object, "/status/version").unwrap_or_default()
    }

    /// Tells whether a pod is of the version of its Volcano Job.
    fn is_of_version(&self, pod: &LivePod) -> bool {
        pod.version.is_none_or(|version| version >= self.version())
    }

    /// Returns in words why a Volcano Job is not simulated; nothing where it is.
    pub(super) fn volcano_problem(&self) -> Option<String> {
        let group = self.pod_group.as_ref().filter(|group| group.status.is_none())?;
        Some(format!("the phase of its PodGroup {} is not modelled", group.name))
    }

    /// Returns what is assumed of a Volcano Job, in words.
    pub(super) fn assumed_of_volcano(&self) -> Vec<String> {
        let mut assumed = Vec::new();
        let goes_on = matches!(self.state(), None | Some("Pending" | "Running" | "Restarting"));
        if self.pod_group.is_none() && goes_on {
            assumed.push(if self.has_admitted_pods() {
                "its PodGroup, which is not here, lets its pods be made".to_owned()
            } else {
                "its PodGroup, which is not here, is taken by the scheduler at once".to_owned()
            });
        }
        assumed.extend(self.lost_actions());
        if self.has_timeouts() && self.lacks_pods() {
            assumed.push("no `timeout` of a policy waits for pods that are gone".to_owned());
        }
        assumed
    }

    /// Returns actions of policies that were due, and of which nothing came: the controller was away, or lost them.
    fn lost_actions(&self) -> Option<String> {
        if !matches!(self.state(), Some("Pending" | "Running")) {
            return None;
        }
        let is_failed = |pod: &&LivePod| {
            pod.phase == Phase::Failed && pod.deletion.is_none() && !pod.is_killed && self.is_of_version(pod)
        };
        let code = |pod: &LivePod| {
            let ended = pod.containers.iter().filter_map(|one| one.terminated);
            ended.max_by_key(|(_, at)| *at).map_or(0, |(code, _)| code)
        };
        let pods: Vec<&LivePod> = self.pods.iter().filter(is_failed).collect();
        let failures: Vec<(&str, i64)> =
            pods.iter().map(|pod| (pod.role.as_deref().unwrap_or_default(), code(pod))).collect();
        let actions = operators::on_failures(&self.object, &failures);
        let due = pods.iter().zip(actions).filter_map(|(pod, action)| {
            let (action, after) = action?;
            Some(((action, pod.last_end().unwrap_or(pod.created) + after), *pod))
        });
        let lost: Vec<_> = due.filter(|((_, due), _)| *due + ON_ITS_WAY < Time::START).collect();
        let ((action, due), _) = *lost.first()?;
        let pods: Vec<&str> = lost.iter().map(|(_, pod)| pod.name.as_str()).collect();
        Some(format!(
            "{action}, which a policy asks for after the failure of {}, was due {} ago and is lost",
            named(&pods),
            ago(due)
        ))
    }

    fn has_timeouts(&self) -> bool {
        let tasks = items(&self.object, "/spec/tasks").flat_map(|task| items(task, "/policies"));
        items(&self.object, "/spec/policies").chain(tasks).any(|policy| text(policy, "/timeout").is_some())
    }

    fn lacks_pods(&self) -> bool {
        let asked = self.asked.pods.iter().filter_map(|role| role.count).fold(0, u32::saturating_add);
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX) < asked
    }
}
