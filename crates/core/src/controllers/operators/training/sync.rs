//! One sync of a job (`ReconcileJobs`, `pkg/controller.v1/common/job.go`).

use super::super::super::cluster::{Action, Cluster};
use super::super::super::indexes::Indexes;
use super::super::super::job::spec::ContainerSort;
use super::super::super::meta::{Condition, Propagation};
use super::super::super::object::{Object, ObjectStatus, ReplicaCounts, TrainingStatus};
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::pod_set::Owner;
use super::super::super::script::MapOrder;
use super::super::super::time::Time;
use super::Release;
use super::spec::{CleanPodPolicy, ReplicaRestart, Role, TrainingSpec};

/// How often everything is looked at again without cause (`SyncPeriod` of controller-runtime).
const RESYNC: i64 = 36_000_000;
/// The exit code of a pod whose container has none.
const NO_CODE: i64 = 0xbeef;
/// Exit codes from this on are worth another try (`IsRetryableExitCode`, `pkg/util/train`).
const RETRYABLE: i64 = 128;

/// A sync of one job.
pub(super) struct Sync<'a> {
    cluster: &'a Cluster,
    number: usize,
    object: &'a Object,
    pub(super) spec: &'a TrainingSpec<'a>,
    pub(super) at: Time,
    /// The pods whose objects are there, each group with its number.
    pods: Vec<(usize, &'a PodGroup)>,
    old: (Vec<Condition>, TrainingStatus),
    pub(super) conditions: Vec<Condition>,
    pub(super) status: TrainingStatus,
    actions: Vec<Action>,
    timer: Option<Time>,
}

/// What a sync does, and when the next one is.
pub(super) struct Outcome {
    pub(super) actions: Vec<Action>,
    pub(super) timer: Option<Time>,
}

impl<'a> Sync<'a> {
    /// Begins one. `is_created` is whether `Created` is only in the cache of the controller: it is written with whatever
    /// is written first, and others see it then.
    pub(super) fn new(
        cluster: &'a Cluster,
        (number, object): (usize, &'a Object),
        spec: &'a TrainingSpec<'a>,
        is_created: bool,
        at: Time,
    ) -> Self {
        let status = match &object.status {
            ObjectStatus::Training(status) => status.clone(),
            _ => TrainingStatus::default(),
        };
        let mut sync = Self {
            cluster,
            number,
            object,
            spec,
            at,
            pods: cluster.pods_owned(Owner::Object(number)).collect(),
            old: (Vec::new(), status.clone()),
            conditions: object.conditions.clone(),
            status,
            actions: Vec::new(),
            timer: None,
        };
        if is_created {
            sync.set("Created", true, "Created", format!("{} {} is created.", spec.kind.name, spec.name));
        }
        sync.old.0.clone_from(&sync.conditions);
        sync
    }

    /// Does it. `tries` is how many tries before it ended in an error.
    pub(super) fn run(mut self, release: Release, order: MapOrder, tries: u32) -> Outcome {
        if self.is("Succeeded") || self.is("Failed") {
            self.clean_up_finished();
        } else if self.spec.suspend {
            self.suspend();
        } else {
            self.resume();
            match self.limit() {
                Some(message) => self.fail_at_limit(message, release),
                None => self.reconcile(order, tries),
            }
        }
        Outcome { actions: self.actions, timer: self.timer }
    }

    fn is(&self, sort: &str) -> bool {
        self.conditions.iter().any(|condition| condition.sort == sort && condition.is_true)
    }

    /// Cleans up after a job that has ended.
    fn clean_up_finished(&mut self) {
        self.delete_pods_by_policy(self.spec.clean);
        if let Some(ttl) = self.spec.ttl.filter(|_| !self.spec.suspend) {
            // Where nobody wrote when it ended, all tries end in the same error.
            let Some(completion) = self.status.completion else { return };
            let end = completion + ttl;
            if self.at >= end {
                self.delete_job();
                return;
            }
            self.timer = Some(end);
        }
        if self.is("Succeeded") {
            for (_, counts) in &mut self.status.replicas {
                counts.succeeded = counts.succeeded.saturating_add(counts.active);
                counts.active = 0;
            }
        }
        self.write();
    }

    /// Deletes all pods of a job that is suspended, ended ones too.
    fn suspend(&mut self) {
        self.delete_pods_by_policy(CleanPodPolicy::All);
        for (_, counts) in &mut self.status.replicas {
            counts.active = 0;
        }
        let message = format!("{} {} is suspended.", self.spec.kind.name, self.spec.name);
        if self.is("Running") {
            self.set("Running", false, "Suspended", message.clone());
        }
        if !self.is("Suspended") {
            self.set("Suspended", true, "Suspended", message);
        }
        self.write();
    }

    fn resume(&mut self) {
        if self.is("Suspended") {
            let message = format!("{} {} is resumed.", self.spec.kind.name, self.spec.name);
            self.set("Suspended", false, "Resumed", message);
            self.status.start = Some(self.at);
        }
    }

    /// Returns why the job ends, where it is past its limit of restarts or its deadline. The deadline has no timer: it is
    /// asked for when something else lets the job be looked at.
    fn limit(&mut self) -> Option<&'static str> {
        if let Some(limit) = self.spec.backoff_limit
            && (self.is_past_failures(limit) || self.is_past_restarts(limit))
        {
            return Some("it has reached the specified backoff limit");
        }
        let end = self.status.start? + self.spec.deadline?;
        if self.at >= end {
            return Some("it was active longer than specified deadline");
        }
        let periods = end.millis().max(self.at.millis()).div_euclid(RESYNC).saturating_add(1);
        self.timer = Some(Time::from_millis(periods.saturating_mul(RESYNC)));
        None
    }

    /// Tells whether pods failed that the status does not know of. As no retry is ever counted, this is a limit of 0 only.
    fn is_past_failures(&self, limit: i64) -> bool {
        let count = |wanted: &dyn Fn(&PodGroup) -> bool| {
            let pods = self.pods.iter().filter(|(_, pods)| wanted(pods));
            pods.map(|(_, pods)| i64::from(pods.count())).sum::<i64>()
        };
        let failed = count(&|pods| pods.phase == Phase::Failed);
        let active = count(&PodGroup::is_active);
        let known: i64 = self.status.replicas.iter().map(|(_, counts)| i64::from(counts.failed)).sum();
        limit < 1 && failed > known && active != self.spec.total()
    }

    /// Tells whether containers of running pods restarted too often (`PastBackoffLimit`, `pkg/core/job.go`).
    fn is_past_restarts(&self, limit: i64) -> bool {
        let is_counted =
            |role: &&Role<'_>| !matches!(role.restart, ReplicaRestart::Never | ReplicaRestart::Other);
        let pods = self.spec.roles.iter().filter(is_counted).flat_map(|role| self.pods_of(role));
        let running = pods.filter(|(_, pods)| pods.phase == Phase::Running);
        let restarts = running
            .map(|(_, pods)| i64::from(pods.restarts).saturating_mul(i64::from(pods.count())))
            .fold(0, i64::saturating_add);
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    fn fail_at_limit(&mut self, why: &str, release: Release) {
        self.complete();
        let message = format!("Job {} has failed because {why}", self.spec.name);
        self.set("Failed", true, "Failed", message);
        // Before v1.9.4, the pods went before the condition was there, and the policy is that of finished jobs only.
        let policy = match release {
            Release::V1_9_3 => CleanPodPolicy::All,
            Release::V1_9_4 => self.spec.clean,
        };
        self.delete_pods_by_policy(policy);
        // A TTL of nothing is over before the status is written.
        if self.spec.ttl.is_some_and(|ttl| ttl <= Time::START) {
            self.delete_job();
        } else {
            self.write();
        }
    }

    fn delete_job(&mut self) {
        self.actions.push(Action::DeleteObject { object: self.number, propagation: Propagation::Background });
    }

    /// Looks at pods and status of a job that goes on. A pod that the API server refuses ends the sync: no status is
    /// written.
    fn reconcile(&mut self, order: MapOrder, tries: u32) {
        let spec = self.spec;
        let mut roles: Vec<&Role<'_>> = spec.roles.iter().collect();
        match order {
            // Of many tries one soon finds the pods first that are taken.
            MapOrder::Forward if tries > 0 => roles.sort_by_key(|role| self.is_refused(role)),
            MapOrder::Backward if tries.is_multiple_of(2) => roles.reverse(),
            _ => {}
        }
        for role in &roles {
            self.reconcile_pods(role);
        }
        self.status.start.get_or_insert(self.at);
        self.update_status(&roles);
        self.write();
    }

    fn is_refused(&self, role: &Role<'_>) -> bool {
        let demand = self.spec.pod_template(role).demand;
        !demand.is_valid() || self.cluster.room_for(&demand, 1) == 0
    }

    /// Makes and deletes pods of a type (`ReconcilePods`, `pkg/controller.v1/common/pod.go`).
    fn reconcile_pods(&mut self, role: &Role<'_>) {
        let pods: Vec<(usize, &PodGroup)> = self.pods_of(role).collect();
        let wanted = Indexes::below(role.count());
        let here: Indexes = pods.iter().map(|(_, pods)| &pods.members).collect();
        // There is always a place for one pod, and for all below the highest.
        let places = Indexes::below(here.last().unwrap_or(0).saturating_add(1).max(role.count()));
        let missing = places.without(&here);
        let first = missing.first().unwrap_or(u32::MAX);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut counts = ReplicaCounts::default();
        for (nth, pods) in pods {
            let outside = pods.members.without(&wanted);
            let gone = if self.judge_failed(role, pods) { pods.members.clone() } else { outside };
            if pods.deletion.is_none() && !gone.is_empty() {
                let actions = if gone.first() < Some(first) { &mut before } else { &mut after };
                actions.push(Action::DeletePods { pods: nth, members: gone, is_released: false });
            }
            count(&mut counts, pods);
        }
        self.status.set_counts(role.sort, counts);
        self.actions.append(&mut before);
        if !missing.is_empty() {
            self.actions.push(Action::CreateMembers {
                object: self.number,
                role: role.name.into(),
                round: 0,
                indexes: missing,
                indexed: true,
                template: self.spec.pod_template(role),
            });
        }
        self.actions.append(&mut after);
    }

    /// Judges pods of the phase `Failed`. Returns whether they are deleted, for others to take their place.
    fn judge_failed(&mut self, role: &Role<'_>, pods: &PodGroup) -> bool {
        if pods.phase != Phase::Failed {
            return false;
        }
        let is_retryable = self.exit_code(pods) >= RETRYABLE;
        match role.restart {
            ReplicaRestart::ExitCode if !is_retryable => {
                let (name, sort) = (self.spec.name, role.sort);
                let message = format!("job \"{name}\" is failing because \"{sort}\" replica(s) failed.");
                self.set("Failed", true, "Failed", message);
                false
            }
            ReplicaRestart::ExitCode | ReplicaRestart::OnFailure | ReplicaRestart::Always => {
                let message =
                    format!("job {} is restarting because {} replica(s) failed.", self.spec.name, role.sort);
                self.set("Restarting", true, "Restarting", message);
                true
            }
            ReplicaRestart::Never | ReplicaRestart::Other => false,
        }
    }

    /// Returns the exit code of the container that counts.
    pub(super) fn exit_code(&self, pods: &PodGroup) -> i64 {
        let Some(set) = self.cluster.set_of(pods) else { return NO_CODE };
        let name = self.spec.kind.container;
        let is_counted = |nth: usize| set.template.containers.get(nth).is_some_and(|one| one.name == name);
        let counted = pods.containers.iter().rev().filter(|status| status.sort == ContainerSort::Main);
        let mut ends = counted.filter(|status| is_counted(status.nth)).filter_map(|status| status.terminated);
        ends.next().map_or(NO_CODE, |(code, _)| code)
    }

    /// Returns the pods of a type, each group with its number.
    pub(super) fn pods_of(
        &self,
        role: &Role<'_>,
    ) -> impl Iterator<Item = (usize, &'a PodGroup)> + use<'a, '_> {
        let (cluster, name) = (self.cluster, role.name);
        let is_of_role = move |pods: &PodGroup| cluster.set_of(pods).is_some_and(|set| *set.role == *name);
        self.pods.iter().copied().filter(move |(_, pods)| is_of_role(pods))
    }

    fn delete_pods_by_policy(&mut self, policy: CleanPodPolicy) {
        for &(nth, pods) in &self.pods {
            let is_left = match policy {
                CleanPodPolicy::None => true,
                CleanPodPolicy::Running => pods.is_ended(),
                CleanPodPolicy::All => false,
            };
            if !is_left && pods.deletion.is_none() {
                let members = pods.members.clone();
                self.actions.push(Action::DeletePods { pods: nth, members, is_released: false });
            }
        }
    }

    /// Sets `completionTime`.
    pub(super) fn complete(&mut self) {
        self.status.completion.get_or_insert(self.at);
    }

    /// Writes the status, where it changed. Times are kept in whole seconds: what differs by less is the same.
    fn write(&mut self) {
        let clock = self.cluster.clock;
        for time in [&mut self.status.start, &mut self.status.completion] {
            *time = time.map(|time| clock.stored(time));
        }
        for condition in &mut self.conditions {
            let old = self.object.conditions.iter().find(|old| old.sort == condition.sort);
            if let Some(old) = old.filter(|old| clock.stored(old.at) == clock.stored(condition.at)) {
                condition.at = old.at;
            }
        }
        if (&self.conditions, &self.status) != (&self.old.0, &self.old.1) {
            self.actions.push(Action::WriteObject {
                object: self.number,
                conditions: self.conditions.clone(),
                status: ObjectStatus::Training(self.status.clone()),
            });
        }
    }
}

/// Adds pods to the counts of their type (`UpdateJobReplicaStatuses`, `pkg/core/status.go`).
fn count(counts: &mut ReplicaCounts, pods: &PodGroup) {
    let sum = match pods.phase {
        // A node that does not answer never ends its pods: those in deletion count as failed.
        Phase::Running if pods.deletion.is_some() => &mut counts.failed,
        Phase::Running => &mut counts.active,
        Phase::Succeeded => &mut counts.succeeded,
        Phase::Failed => &mut counts.failed,
        Phase::Pending => return,
    };
    *sum = sum.saturating_add(pods.count());
}
