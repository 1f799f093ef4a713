//! An object of an operator of a cluster, as it is at a moment, with what its operator made of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::operators::asked;
use super::super::operators::demand::Asked;
use super::super::operators::kind_of;
use super::super::pod::Phase;
use super::super::story::Assumptions;
use super::super::subject::Together;
use super::super::time::{Clock, Time};
use super::super::world::GivenProgram;
use super::fields::{deletion, items, number, owned, tagged, text, time};
use super::job::{LiveCondition, LiveJob, conditions, without_managed_fields};
use super::pod::LivePod;
use super::story::is_overdue;
use super::volcano::LivePodGroup;
use crate::text::value::{Value, json};

/// An object of an operator, as it is at a moment. Times count from that moment.
#[derive(Clone, Debug)]
pub struct LiveObject {
    /// What its kind is called here: Volcano has a `Job` of its own, the `VolcanoJob`.
    pub kind: &'static str,
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    pub(super) uid: Option<String>,
    /// The object, without what it made.
    pub object: Value,
    /// When it was created.
    pub created: Time,
    /// When it was deleted, where it is in deletion.
    pub deletion: Option<Time>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// The queue of Kueue: the label `kueue.x-k8s.io/queue-name`.
    pub queue: Option<String>,
    /// The kind and the name of the object that owns it.
    pub owner: Option<(String, String)>,
    /// `status.startTime`.
    pub start: Option<Time>,
    /// The conditions that are true, with their own words.
    pub conditions: Vec<LiveCondition>,
    /// The Jobs that its operator made, each with its pods.
    pub jobs: Vec<LiveJob>,
    /// The other objects that its operator made.
    pub objects: Vec<Self>,
    /// The pods that its operator made itself, in the order of their names.
    pub pods: Vec<LivePod>,
    /// The PodGroup of a Volcano Job.
    pub(super) pod_group: Option<LivePodGroup>,
    pub(super) asked: Asked,
    /// The clock of the cluster.
    pub(super) clock: Clock,
    pub(super) now: i64,
}

/// How an object ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEnd {
    /// Whether it did what it is for.
    pub is_success: bool,
    /// When, where that is known.
    pub at: Option<Time>,
}

/// The pods of a role, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleCount {
    /// What they are called: `worker`.
    pub name: String,
    /// How many there are to be; nothing where that is not known.
    pub wanted: Option<u32>,
    /// Those that have not ended and are not in deletion.
    pub active: u32,
    /// Those that are ready.
    pub ready: u32,
    /// Those in deletion that have not ended.
    pub terminating: u32,
    /// Those that succeeded.
    pub succeeded: u32,
    /// Those that failed.
    pub failed: u32,
}

/// Words of `state.phase` and `jobDeploymentStatus` that end an object, and whether as a success.
const LAST_STATES: [(&str, bool); 6] = [
    ("Completed", true),
    ("Complete", true),
    ("Failed", false),
    ("Aborted", false),
    ("Terminated", false),
    ("ValidationFailed", false),
];

/// Returns what the kind of an object is called here, where what it waits for can be said.
#[must_use]
pub fn live_kind(object: &Value) -> Option<&'static str> {
    kind_of(object).filter(|kind| asked(kind, &Value::Null).is_some() || *kind == "MPIJob")
}

impl LiveObject {
    /// Reads an object, at a moment in milliseconds since 1970; what it made is added later. Returns nothing for other kinds.
    pub(super) fn from_object(object: &Value, now: i64) -> Option<Self> {
        let kind = live_kind(object)?;
        let created = time(object, "/metadata/creationTimestamp", now).unwrap_or_default();
        let controller = items(object, "/metadata/ownerReferences")
            .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        let object = without_managed_fields(object);
        Some(Self {
            kind,
            namespace: owned(&object, "/metadata/namespace"),
            name: owned(&object, "/metadata/name").unwrap_or_default(),
            uid: owned(&object, "/metadata/uid"),
            created,
            deletion: deletion(&object, now),
            finalizers: items(&object, "/metadata/finalizers")
                .filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect(),
            queue: tagged(&object, "labels", "kueue.x-k8s.io/queue-name").map(str::to_owned),
            owner: controller.and_then(|owner| Some((owned(owner, "/kind")?, owned(owner, "/name")?))),
            start: time(&object, "/status/startTime", now),
            conditions: conditions(&object, created, now),
            jobs: Vec::new(),
            objects: Vec::new(),
            pods: Vec::new(),
            pod_group: None,
            asked: asked(kind, &object).unwrap_or_default(),
            clock: Clock { start: now },
            now,
            object,
        })
    }

    /// Returns a condition that is true.
    #[must_use]
    pub fn condition(&self, sort: &str) -> Option<&LiveCondition> {
        self.conditions.iter().find(|condition| condition.sort == sort)
    }

    /// Returns its operator, and the release that is modelled; empty where the operator leaves it alone.
    #[must_use]
    pub fn operator(&self) -> &'static str {
        self.asked.operator
    }

    /// Returns another controller that runs it.
    #[must_use]
    pub fn manager(&self) -> Option<&str> {
        self.asked.manager.as_deref()
    }

    /// Tells whether it is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.asked.is_suspended
    }

    /// Returns where `suspend` is, below `spec`; empty where it cannot be suspended.
    #[must_use]
    pub fn suspend_at(&self) -> &'static [&'static str] {
        self.asked.suspend
    }

    /// Returns where the deadline is, below `spec`; empty where the kind has none.
    #[must_use]
    pub fn deadline_at(&self) -> &'static [&'static str] {
        self.asked.deadline_at
    }

    /// Returns what it is in, by one word of its status, for kinds that have one.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        let at = match self.kind {
            "VolcanoJob" => "/status/state/phase",
            "RayJob" => "/status/jobDeploymentStatus",
            "RayCluster" => "/status/state",
            _ => return None,
        };
        text(&self.object, at)
    }

    /// Returns how it ended; nothing while it goes on. An MPIJob that failed for an evicted worker goes on.
    #[must_use]
    pub fn end(&self) -> Option<LiveEnd> {
        let completion = ["/status/completionTime", "/status/endTime", "/status/state/lastTransitionTime"];
        let completion = completion.into_iter().find_map(|at| time(&self.object, at, self.now));
        if let Some(state) = self.state().filter(|_| self.kind != "RayCluster") {
            let (_, is_success) = LAST_STATES.into_iter().find(|(word, _)| *word == state)?;
            return Some(LiveEnd { is_success, at: completion });
        }
        if self.kind == "MPIJob" && completion.is_none() {
            return None;
        }
        let last = [("Completed", true), ("Complete", true), ("Succeeded", true), ("Failed", false)];
        let (condition, is_success) =
            last.into_iter().find_map(|(sort, is_success)| Some((self.condition(sort)?, is_success)))?;
        Some(LiveEnd { is_success, at: Some(condition.at) })
    }

    /// Returns when the deadline is; nothing where there is none, and while it is suspended.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let deadline = self.asked.deadline.filter(|_| !self.is_suspended())?;
        let start = match self.kind {
            // From its creation, or from when it was resumed last.
            "TrainJob" => self.resumed().unwrap_or(self.created),
            // The launcher has it.
            "MPIJob" => return self.jobs.iter().find_map(LiveJob::deadline),
            _ => self.start?,
        };
        Some(start + deadline)
    }

    /// Returns when it was resumed last.
    fn resumed(&self) -> Option<Time> {
        let suspended = items(&self.object, "/status/conditions")
            .find(|one| text(one, "/type") == Some("Suspended") && text(one, "/status") == Some("False"))?;
        time(suspended, "/lastTransitionTime", self.now)
    }

    /// Returns how long after its end it is deleted; nothing if it is not.
    #[must_use]
    pub fn ttl(&self) -> Option<Time> {
        self.asked.ttl
    }

    /// Returns when it is deleted after its end.
    #[must_use]
    pub fn expiry(&self) -> Option<Time> {
        Some(self.end()?.at? + self.ttl()?)
    }

    /// Returns how often it restarted, and how often it may; nothing where its kind does not count that.
    #[must_use]
    pub fn restarts(&self) -> Option<(u32, Option<u32>)> {
        let at = match self.kind {
            "JobSet" => "/status/restartsCountTowardsMax",
            "VolcanoJob" => "/status/retryCount",
            "RayJob" => "/status/failed",
            _ => return None,
        };
        Some((number(&self.object, at).unwrap_or_default(), self.asked.restarts))
    }

    /// Returns the number of the attempt that its Jobs are to be of.
    pub(super) fn attempt(&self) -> u32 {
        number(&self.object, "/status/restarts").unwrap_or_default()
    }

    /// Tells whether a Job of it is of an earlier attempt.
    pub(super) fn is_previous(&self, job: &LiveJob) -> bool {
        self.kind == "JobSet" && job.attempt().is_some_and(|attempt| attempt < self.attempt())
    }

    /// Returns all pods, those of what it made too.
    #[must_use]
    pub fn all_pods(&self) -> Vec<&LivePod> {
        let of_jobs = self.jobs.iter().flat_map(|job| &job.pods);
        let of_objects = self.objects.iter().flat_map(Self::all_pods);
        self.pods.iter().chain(of_jobs).chain(of_objects).collect()
    }

    /// Returns the object that has the templates of its pods: of a TrainJob, the JobSet that it became; of a RayCluster, a
    /// RayJob that has it inside.
    #[must_use]
    pub fn templates(&self) -> Cow<'_, Value> {
        if self.kind == "RayCluster" {
            let spec = self.object.get("spec").cloned().unwrap_or_default();
            return Cow::Owned(json!({
                "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": { "name": self.name.as_str() },
                "spec": { "rayClusterSpec": spec },
            }));
        }
        let job_set = self.objects.iter().find(|object| object.kind == "JobSet");
        let job_set = job_set.filter(|_| self.kind == "TrainJob");
        Cow::Borrowed(job_set.map_or(&self.object, |job_set| &job_set.object))
    }

    /// Returns how its pods work together.
    #[must_use]
    pub fn together(&self) -> Together {
        let there = u32::try_from(self.all_pods().len()).unwrap_or(u32::MAX);
        let asked = self.roles().iter().filter_map(|role| role.wanted).fold(0, u32::saturating_add);
        let together = self.subject().map(|subject| subject.together()).unwrap_or_default();
        Together { count: asked.max(there), ..together }
    }

    /// Returns how long it may take; nothing where it has no deadline.
    #[must_use]
    pub fn time_limit(&self) -> Option<Time> {
        self.asked.deadline
    }

    /// Tells whether the program runs for longer than was assumed.
    #[must_use]
    pub fn is_overdue(&self, assumptions: &Assumptions) -> bool {
        if ["RayCluster", "RayJob"].contains(&self.kind) {
            // Its pods serve, whatever runs in them.
            let end = |program: &GivenProgram| program.submitted + assumptions.startup + assumptions.runtime;
            let running = self.ray_program().filter(|program| program.ended.is_none());
            return running.is_some_and(|program| end(&program) <= Time::START);
        }
        is_overdue(self.all_pods().into_iter(), assumptions)
    }

    /// Returns the pods that its operator made itself, by role; those without one are left out.
    pub(super) fn pods_by_role(&self) -> BTreeMap<&str, Vec<&LivePod>> {
        let mut roles: BTreeMap<&str, Vec<&LivePod>> = BTreeMap::new();
        for (role, pod) in self.pods.iter().filter_map(|pod| Some((pod.role.as_deref()?, pod))) {
            roles.entry(role).or_default().push(pod);
        }
        roles
    }

    /// Returns its pods by role, counted: those that it asks for in its order, then others.
    #[must_use]
    pub fn roles(&self) -> Vec<RoleCount> {
        let mut roles = Roles::default();
        for role in &self.asked.pods {
            roles.add(&role.name, role.count);
        }
        for job in &self.jobs {
            // One of an earlier attempt is deleted with its pods.
            let wanted = if self.is_previous(job) { Some(0) } else { job.completions() };
            let role = roles.find(job.role().unwrap_or("job"), Some(0));
            if let Some(role) = role {
                role.wanted = role.wanted.zip(wanted).map(|(one, other)| one.saturating_add(other));
                job.pods.iter().for_each(|pod| role.add(pod));
            }
        }
        for pod in &self.pods {
            if let Some(role) = roles.find(pod.role.as_deref().unwrap_or("others"), None) {
                role.add(pod);
            }
        }
        roles.counts.extend(self.objects.iter().flat_map(Self::roles));
        roles.counts
    }

    /// Returns the name of the pod that failed last, of those that are there.
    #[must_use]
    pub fn last_failed(&self) -> Option<&str> {
        super::pod::last_failed(self.all_pods())
    }
}

/// Roles in order, and where each is.
#[derive(Debug, Default)]
struct Roles<'o> {
    counts: Vec<RoleCount>,
    places: BTreeMap<&'o str, usize>,
}

impl<'o> Roles<'o> {
    fn add(&mut self, name: &'o str, wanted: Option<u32>) {
        // Of those with one name, the first has the pods.
        self.places.entry(name).or_insert(self.counts.len());
        self.counts.push(RoleCount { name: name.to_owned(), wanted, ..RoleCount::default() });
    }

    /// Returns a role, which is added where it is not there.
    fn find(&mut self, name: &'o str, wanted: Option<u32>) -> Option<&mut RoleCount> {
        if !self.places.contains_key(name) {
            self.add(name, wanted);
        }
        self.counts.get_mut(*self.places.get(name)?)
    }
}

impl RoleCount {
    fn add(&mut self, pod: &LivePod) {
        self.active += u32::from(pod.is_active());
        self.ready += u32::from(pod.is_active() && pod.ready.is_some_and(|(is_ready, _)| is_ready));
        self.terminating += u32::from(!pod.is_ended() && pod.deletion.is_some());
        self.succeeded += u32::from(pod.phase == Phase::Succeeded);
        self.failed += u32::from(pod.phase == Phase::Failed);
    }
}
