//! RayJob: its controller, and what a reconcile does by `jobDeploymentStatus` (`rayjob_controller.go`).

mod checks;
mod ticks;

use std::collections::BTreeMap;

use super::super::super::cluster::{Action, Cluster, Event, Job};
use super::super::super::dashboard::Answer;
use super::super::super::dashboard::programs::{ProgramState, RayProgram};
use super::super::super::meta::Propagation;
use super::super::super::object::{
    ClusterState, DeploymentStatus, Object, ObjectStatus, RayJobReason, RayJobStatus,
};
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::super::queue::{Operator, WorkQueue};
use super::cleaning::Ended;
use super::cluster_status::status_of;
use super::job_spec::{JobSpec, SubmissionMode};
use super::{Release, cluster_name, is_managed_by_other, submitter, validation};
use ticks::{is_polled, tick_after};

/// How long after something happened a reconcile has done what it does.
const REACTION: Time = Time::from_millis(10);

/// How a reconcile ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The status is written, and the next one is after a tick.
    Write,
    /// The next one is after a tick.
    Tick,
    /// The next one is at a time; nothing without anything that happens.
    At(Option<Time>),
    /// It is tried again, later each time.
    Error,
}

/// The controller of RayJobs. It watches them, their RayClusters and their Jobs, and no pods.
#[derive(Debug)]
pub(super) struct RayJobController {
    release: Release,
    queue: WorkQueue,
    /// When it looked at those that it looks at again after each tick. The looks that see nothing new are left out.
    ticking: BTreeMap<usize, Time>,
}

impl RayJobController {
    pub(super) fn new(release: Release) -> Self {
        Self { release, queue: WorkQueue::default(), ticking: BTreeMap::new() }
    }
}

/// One look at a RayJob.
struct Reconcile<'a> {
    cluster: &'a Cluster,
    number: usize,
    object: &'a Object,
    spec: JobSpec,
    before: RayJobStatus,
    status: RayJobStatus,
    at: Time,
    release: Release,
    actions: Vec<Action>,
    /// When what submits the program finished.
    finished: Option<Time>,
    /// Whether the program was submitted just now.
    is_submitted: bool,
}

impl<'a> Reconcile<'a> {
    fn run(&mut self) -> Next {
        if self.object.deletion.is_some() {
            self.delete();
            return Next::Tick;
        }
        if let Err(message) = validation::ray_job(&self.object.manifest, &self.spec, &self.status) {
            self.status.deployment = Some(DeploymentStatus::ValidationFailed);
            self.status.reason = Some(RayJobReason::ValidationFailed);
            self.status.message = message;
            self.write();
            return Next::At(None);
        }
        let next = match self.status.deployment {
            None => self.begin(),
            Some(DeploymentStatus::Initializing) => self.initialize(),
            Some(DeploymentStatus::Waiting) => self.wait(),
            Some(DeploymentStatus::Running) => self.watch(),
            Some(DeploymentStatus::Suspending | DeploymentStatus::Retrying) => self.release_resources(),
            Some(DeploymentStatus::Suspended) => {
                if self.spec.suspend {
                    return Next::At(None);
                }
                (self.status.program, self.status.deployment) = (None, None);
                Next::Write
            }
            Some(DeploymentStatus::Complete | DeploymentStatus::Failed) => return self.clean(),
            // No case handles it: a `spec` that is valid again changes nothing.
            Some(DeploymentStatus::ValidationFailed) => return Next::Tick,
        };
        if next == Next::Write {
            self.judge();
            self.write();
        }
        next
    }

    /// Asks the dashboard to stop the program, once, and lets the RayJob go whatever comes of it.
    fn delete(&mut self) {
        if !self.status.program.is_some_and(ProgramState::is_terminal) {
            let (cluster, id) = (self.status.cluster.clone(), self.status.id.clone());
            self.actions.push(Action::StopProgram { cluster, id });
        }
        self.actions.push(Action::ReleaseObject { object: self.number });
    }

    /// Gives an attempt its submission id and the name of its cluster (`initRayJobStatusIfNeed`).
    fn begin(&mut self) -> Next {
        if !self.object.finalizer {
            self.actions.push(Action::HoldObject { object: self.number });
        }
        if self.spec.mode != SubmissionMode::Interactive && self.status.id.is_empty() {
            self.status.id = self.spec.id.clone().unwrap_or_else(|| format!("JOBID{}", self.status.ids));
            self.status.ids = self.status.ids.saturating_add(u32::from(self.spec.id.is_none()));
        }
        if self.status.cluster.is_empty() {
            match &self.spec.selector {
                Some(name) => self.status.cluster.clone_from(name),
                None => {
                    self.status.cluster = cluster_name(self.status.names);
                    self.status.names = self.status.names.saturating_add(1);
                }
            }
        }
        self.status.deployment = Some(DeploymentStatus::Initializing);
        self.status.start = Some(self.cluster.clock.stored(self.at));
        Next::Write
    }

    /// Waits until all pods of the cluster were ready at once, and lets the program be submitted.
    fn initialize(&mut self) -> Next {
        if self.suspend() || self.check_active_deadline() || self.check_pre_running_deadline() {
            return Next::Write;
        }
        let Ok(cluster) = self.get_or_create_cluster() else { return Next::Error };
        if !self.status.has_dashboard {
            let state = cluster.and_then(|(_, cluster)| status_of(cluster).state);
            if state != Some(ClusterState::Ready) {
                self.note_cluster(cluster.map(|(_, cluster)| cluster));
                return Next::Write;
            }
            self.status.has_dashboard = true;
        }
        if self.spec.mode == SubmissionMode::Interactive {
            self.status.deployment = Some(DeploymentStatus::Waiting);
            return Next::Write;
        }
        if self.spec.mode == SubmissionMode::Job && self.submitter_job().is_none() {
            let Some((ray_cluster, _)) = cluster else { return Next::Error };
            let job = submitter::job(self.cluster, self.number, self.object, &self.status, ray_cluster);
            self.actions.push(Action::CreateJob(Box::new(job)));
        }
        self.status.deployment = Some(DeploymentStatus::Running);
        Next::Write
    }

    /// Waits for a submission id: neither `suspend` nor `activeDeadlineSeconds` ends it.
    fn wait(&mut self) -> Next {
        if self.check_pre_running_deadline() {
            return Next::Write;
        }
        let Some(id) = self.spec.id.clone() else { return Next::Tick };
        self.status.id = id;
        self.status.deployment = Some(DeploymentStatus::Running);
        Next::Write
    }

    /// Watches the program and what submits it.
    fn watch(&mut self) -> Next {
        if self.suspend()
            || self.check_active_deadline()
            || self.check_transition_grace_period()
            || self.check_status_timeout()
        {
            return Next::Write;
        }
        let Ok(cluster) = self.get_or_create_cluster() else { return Next::Error };
        if self.has_submitter() {
            let Ok((is_failed, finished)) = self.check_submitter() else { return Next::Error };
            self.finished = finished;
            if self.check_submitter_timeout(finished) || is_failed {
                return Next::Write;
            }
        }
        let cluster_of_program = self.status.cluster.clone();
        match self.cluster.ask_dashboard(&cluster_of_program, &self.status.id) {
            Answer::Silence => self.note_silence(),
            Answer::Unknown => self.not_found(),
            Answer::Known(program) => {
                self.note_program(program);
                self.note_cluster(cluster.map(|(_, cluster)| cluster));
                Next::Write
            }
        }
    }

    /// The dashboard does not answer. Before 1.7 that was an error, and the program asked for without end.
    fn note_silence(&mut self) -> Next {
        if !self.release.has_status_check_timeout() {
            return Next::Error;
        }
        if self.status.silent_since.is_some() {
            return Next::Tick;
        }
        self.status.silent_since = Some(self.cluster.clock.stored(self.at));
        Next::Write
    }

    /// The dashboard knows no program of the id.
    fn not_found(&mut self) -> Next {
        if self.spec.mode == SubmissionMode::Http {
            let (cluster, id) = (self.status.cluster.clone(), self.status.id.clone());
            self.actions.push(Action::SubmitProgram { cluster, id });
            self.is_submitted = true;
            return if self.status.silent_since.take().is_some() { Next::Write } else { Next::Tick };
        }
        if self.finished.is_some() {
            let message = "Submitter completed but Ray job not found in RayCluster.";
            self.fail(RayJobReason::AppFailed, message.to_owned());
            return Next::Write;
        }
        if self.release.has_status_check_timeout() { Next::Tick } else { Next::Error }
    }

    fn note_program(&mut self, program: &RayProgram) {
        let state = program.state(self.at);
        self.status.silent_since = None;
        let is_over = state.is_terminal() && (!self.has_submitter() || self.finished.is_some());
        (self.status.deployment, self.status.reason) = match state {
            ProgramState::Failed if is_over => {
                (Some(DeploymentStatus::Failed), Some(RayJobReason::AppFailed))
            }
            _ if is_over => (Some(DeploymentStatus::Complete), None),
            _ => (Some(DeploymentStatus::Running), None),
        };
        self.status.program = Some(state);
        self.status.message = program.message(self.at);
        if state.is_terminal() {
            self.status.program_end = program.end().map(|end| self.cluster.clock.stored(end));
        }
    }

    fn note_cluster(&mut self, cluster: Option<&Object>) {
        let seen = cluster.map(|cluster| Box::new((status_of(cluster), cluster.conditions.clone())));
        self.status.cluster_status = seen.filter(|seen| **seen != Default::default());
    }

    /// Deletes what an attempt made, and waits until the objects are gone; their pods may be in their grace.
    fn release_resources(&mut self) -> Next {
        let propagation = Propagation::Background;
        let mut is_gone = true;
        if self.spec.selector.is_none()
            && let Some((object, cluster)) = self.cluster.object("RayCluster", &self.status.cluster)
        {
            is_gone = false;
            if cluster.deletion.is_none() {
                self.actions.push(Action::DeleteObject { object, propagation });
            }
        }
        if matches!(self.spec.mode, SubmissionMode::Job | SubmissionMode::Interactive)
            && let Some((job, submitter)) = self.submitter_job()
        {
            is_gone = false;
            if submitter.deletion.is_none() {
                self.actions.push(Action::DeleteJob { job, propagation });
            }
        }
        if !is_gone {
            return Next::Tick;
        }
        let deployment = self.status.deployment.filter(|now| *now == DeploymentStatus::Suspending);
        self.status = RayJobStatus {
            deployment: deployment.map(|_| DeploymentStatus::Suspended),
            failed: self.status.failed,
            succeeded: self.status.succeeded,
            start: self.status.start,
            end: self.status.end,
            changed: self.status.changed,
            names: self.status.names,
            ids: self.status.ids,
            ..RayJobStatus::default()
        };
        Next::Write
    }

    fn clean(&mut self) -> Next {
        let ended = Ended {
            cluster: self.cluster,
            number: self.number,
            object: self.object,
            spec: &self.spec,
            status: &self.status,
            at: self.at,
        };
        let (actions, next) = ended.clean();
        self.actions.extend(actions);
        Next::At(next)
    }

    /// Counts attempts, and decides whether there is another (`checkBackoffLimitAndUpdateStatusIfNeeded`).
    fn judge(&mut self) {
        if self.status.deployment == Some(DeploymentStatus::Complete)
            && self.status.program == Some(ProgramState::Succeeded)
        {
            self.status.succeeded = self.status.succeeded.saturating_add(1);
        }
        if self.status.deployment != Some(DeploymentStatus::Failed) {
            return;
        }
        self.status.failed = self.status.failed.saturating_add(1);
        let is_final = matches!(
            self.status.reason,
            Some(RayJobReason::DeadlineExceeded | RayJobReason::StatusCheckTimeoutExceeded)
        );
        if i64::from(self.status.failed) <= self.spec.backoff_limit && !is_final {
            self.status.deployment = Some(DeploymentStatus::Retrying);
        }
    }

    /// Writes the status where something changed that counts (`updateRayJobStatus`).
    fn write(&mut self) {
        let (old, new) = (&self.before, &self.status);
        if old.program == new.program
            && old.deployment == new.deployment
            && old.cluster_status == new.cluster_status
            && old.silent_since == new.silent_since
        {
            return;
        }
        if old.deployment != new.deployment {
            self.status.changed = self.at;
        }
        if matches!(self.status.deployment, Some(DeploymentStatus::Complete | DeploymentStatus::Failed)) {
            self.status.end = Some(self.cluster.clock.stored(self.at));
        }
        self.actions.push(Action::WriteObject {
            object: self.number,
            conditions: Vec::new(),
            status: ObjectStatus::RayJob(Box::new(self.status.clone())),
        });
    }

    /// Finds the RayCluster, or makes it again under its name: nothing where it was made just now, an error where it is
    /// somebody else's and gone (`getOrCreateRayClusterInstance`).
    fn get_or_create_cluster(&mut self) -> Result<Option<(usize, &'a Object)>, ()> {
        if let Some(found) = self.cluster.object("RayCluster", &self.status.cluster) {
            return Ok(Some(found));
        }
        if self.spec.selector.is_some() {
            return Err(());
        }
        let is_sidecar = self.spec.mode == SubmissionMode::Sidecar;
        let made = submitter::ray_cluster(self.number, self.object, &self.status, is_sidecar, self.at);
        self.actions.push(Action::CreateObject(Box::new(made)));
        Ok(None)
    }

    fn submitter_job(&self) -> Option<(usize, &'a Job)> {
        self.cluster.job(&self.object.name)
    }

    fn has_submitter(&self) -> bool {
        matches!(self.spec.mode, SubmissionMode::Job | SubmissionMode::Sidecar)
    }

    fn fail(&mut self, reason: RayJobReason, message: String) {
        self.status.deployment = Some(DeploymentStatus::Failed);
        self.status.reason = Some(reason);
        self.status.message = message;
    }
}

/// Returns the RayJob that an event is about.
fn about(event: Event, cluster: &Cluster) -> Option<usize> {
    let object = |number: usize| {
        let object = cluster.objects.get(number)?;
        match (object.kind, object.owner) {
            ("RayJob", _) => Some(number),
            ("RayCluster", Some(Owner::Object(owner))) => Some(owner),
            _ => None,
        }
    };
    let owner = match event {
        Event::Object(number) | Event::ObjectStatus(number) | Event::ObjectGone(number) => object(number),
        Event::Job(number) | Event::JobStatus(number) | Event::JobGone(number) => {
            match cluster.jobs.get(number)?.owner {
                Some(Owner::Object(owner)) => Some(owner),
                _ => None,
            }
        }
        Event::Pod(_) | Event::CronJob | Event::Dashboards => None,
    };
    owner.filter(|owner| {
        cluster.objects.get(*owner).is_some_and(|owner| owner.kind == "RayJob" && owner.is_there())
    })
}

impl Operator for RayJobController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        object.kind == "RayJob"
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if let Some(number) = about(event, cluster) {
            self.queue.add_alone(number, at + REACTION);
        }
        // These are seen at the next tick.
        if is_polled(event, cluster) {
            for (number, looked) in &self.ticking {
                self.queue.add_at(*number, tick_after(*looked, at));
            }
        }
    }

    fn take(&mut self, at: Time) -> Option<usize> {
        self.queue.take_alone(at)
    }

    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action> {
        if is_managed_by_other(object.spec()) {
            return Vec::new();
        }
        let status = match &object.status {
            ObjectStatus::RayJob(status) => (**status).clone(),
            _ => RayJobStatus::default(),
        };
        let spec = JobSpec::parse(object.spec());
        let release = self.release;
        let mut reconcile = Reconcile {
            finished: None,
            is_submitted: false,
            cluster,
            number,
            object,
            spec,
            before: status.clone(),
            status,
            at,
            release,
            actions: Vec::new(),
        };
        let next = reconcile.run();
        self.ticking.remove(&number);
        if next == Next::Error {
            self.queue.fail(number, at);
            return reconcile.actions;
        }
        match next {
            Next::At(Some(next)) => self.queue.add_at(number, next),
            Next::At(None) => {}
            _ => {
                self.ticking.insert(number, at);
                if let Some(until) = reconcile.quiet_until() {
                    self.queue.add_at(number, tick_after(at, until));
                }
            }
        }
        reconcile.actions
    }

    fn lose(&mut self) {
        self.ticking.clear();
    }
}
