//! Volcano 1.15 (its Job): the job controller and the one that deletes finished jobs (`pkg/controllers/job`,
//! `pkg/controllers/garbagecollector`).
//!
//! Each change of a pod is a request, and requests are looked at one by one: a policy names the action, the phase of the
//! job what the action does.

mod collector;
mod delay;
mod demand;
mod kill;
mod pods;
mod policy;
mod requests;
mod resume;
mod spec;
mod state;
mod subject;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::{JobPhase, Object, ObjectStatus, PodGroupPhase};
use super::super::pod::PodGroup;
use super::super::pod_set::Owner;
use super::super::script::TimedActions;
use super::super::time::Time;
use crate::text::value::Value;
use collector::GarbageCollector;
use delay::DelayedActions;
pub(super) use demand::asked;
use pods::{Change, DELETION_LAG, JobPods, Marks, Watch};
use policy::{JobAction, Level, Request, RequestEvent, RequestPods, apply_policies, request_of};
use requests::Requests;
use spec::JobSpec;
use state::Step;
use sync::{JobView, delete};

/// How long after a change the controller looks at it.
const LAG: Time = Time::from_millis(10);
/// How long an action takes whose end is an error, with the wait after it: pods that had ended have successors by then.
const LOSS: Time = Time::from_millis(50);

pub(super) use resume::on_failures;
pub(super) use subject::subject;

/// Returns the controllers.
#[must_use]
pub(super) fn controllers() -> Vec<Box<dyn Controller>> {
    vec![Box::new(VolcanoJobController::default()), Box::new(GarbageCollector::default())]
}

/// Returns how many ranks the program of a job has: all its pods.
#[must_use]
pub(super) fn ranks(manifest: &Value) -> u32 {
    let spec = manifest.get("spec").map(JobSpec::from_spec);
    spec.and_then(|spec| u32::try_from(spec.replicas()).ok()).unwrap_or(u32::MAX)
}

/// Tells whether the webhook takes a change of a job: only `minAvailable`, `priorityClassName` and of each task
/// `replicas` and `minAvailable` may change (`validateJobUpdate`, `pkg/webhooks/admission/jobs/validate/admit_job.go`).
#[must_use]
pub(super) fn admits(old: &Value, new: &Value) -> bool {
    let spec = |object: &Value| object.get("spec").map(JobSpec::from_spec).unwrap_or_default();
    let (before, now) = (spec(old), spec(new));
    let is_small_enough = now.tasks.iter().all(|task| task.min_available <= i64::from(task.replicas));
    let mut kept = now.clone();
    kept.min_available = before.min_available;
    for (task, old) in kept.tasks.iter_mut().zip(&before.tasks) {
        (task.replicas, task.min_available) = (old.replicas, old.min_available);
    }
    is_small_enough && now.min_available <= now.replicas() && kept == before
}

/// Returns the names of the tasks of a job.
#[must_use]
pub(super) fn task_names(manifest: &Value) -> Vec<Arc<str>> {
    let spec = JobSpec::from_spec(manifest.get("spec").unwrap_or(&Value::Null));
    spec.tasks.iter().map(|task| Arc::clone(&task.name)).collect()
}

/// Tells whether an object is a Volcano Job that is there.
fn is_job(cluster: &Cluster, number: usize) -> bool {
    cluster.objects.get(number).is_some_and(|object| object.kind == "VolcanoJob" && object.is_there())
}

/// Returns the numbers of the jobs that are there.
fn jobs(cluster: &Cluster) -> impl Iterator<Item = usize> {
    (0..cluster.objects.len()).filter(|number| is_job(cluster, *number))
}

/// The job controller.
#[derive(Debug, Default)]
struct VolcanoJobController {
    /// The jobs that it knows, by their numbers.
    jobs: BTreeMap<usize, KnownJob>,
    /// The phases of PodGroups that it knows, by their numbers.
    pod_groups: BTreeMap<usize, Option<PodGroupPhase>>,
    watch: Watch,
    /// Annotations of pods: they stay when the controller goes.
    marks: Marks,
    requests: Requests,
    delayed: DelayedActions,
    /// When it looks at Commands.
    commands: Option<Time>,
    is_stopped: bool,
}

/// A job as the controller knows it.
#[derive(Debug)]
struct KnownJob {
    spec: JobSpec,
    phase: Option<JobPhase>,
}

impl VolcanoJobController {
    /// Takes notice of a job: it is new, or its `spec` is another (`addJob`, `updateJob`).
    fn observe_job(&mut self, job: usize, object: &Object, at: Time) {
        let spec = JobSpec::from_spec(object.spec());
        if self.jobs.get(&job).is_some_and(|known| known.spec == spec) {
            return;
        }
        self.jobs.insert(job, KnownJob { spec, phase: phase_of(object) });
        self.requests.push(request_of(job, RequestEvent::OutOfSync), at + LAG);
    }

    /// Takes notice of the phase of a job (`updateJob`).
    fn observe_phase(&mut self, job: usize, object: &Object, at: Time) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let phase = phase_of(object);
        if known.phase != phase {
            known.phase = phase;
            self.requests.push(request_of(job, RequestEvent::OutOfSync), at + LAG);
        }
    }

    /// Takes notice of the phase of a PodGroup (`updatePodGroup`).
    fn observe_pod_group(&mut self, group: usize, object: &Object, at: Time) {
        let phase = pod_group_phase_of(object);
        let before = self.pod_groups.insert(group, phase).flatten();
        if let (Some(Owner::Object(job)), true) = (object.owner, before != phase) {
            let is_unknown = phase == Some(PodGroupPhase::Unknown);
            let event = if is_unknown { RequestEvent::Unknown } else { RequestEvent::None };
            self.requests.push(request_of(job, event), at + LAG);
        }
    }

    fn observe_pods(&mut self, job: usize, cluster: &Cluster, at: Time) {
        let Some(known) = self.jobs.get(&job) else { return };
        let pods = JobPods { cluster, job, spec: &known.spec, marks: &self.marks, at };
        for Change { request, is_deletion } in self.watch.changes(pods) {
            let gone = request.pods.as_ref().filter(|_| is_deletion);
            if let Some(pods) = gone {
                self.marks.remove(pods.id, &pods.members);
            }
            let lag = if is_deletion { LAG + DELETION_LAG } else { LAG };
            self.requests.push(request, at + lag);
        }
    }

    /// Looks at a Command: it is deleted, and its action a request of the job (`processNextCommand`).
    fn take_command(&mut self, cluster: &Cluster, at: Time) -> Option<Action> {
        let mut objects = cluster.objects.iter().enumerate();
        let (number, command) = objects.find(|(_, object)| object.kind == "Command" && object.is_there())?;
        let text = |at: &str| command.manifest.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let job = cluster.object("VolcanoJob", text("/target/name")).map(|(job, _)| job);
        if let Some(job) = job {
            let action = Some(JobAction::parse(text("/action")));
            self.requests.push(Request { action, ..request_of(job, RequestEvent::CommandIssued) }, at);
        }
        Some(delete(number))
    }

    /// Looks at one request (`processNextReq`).
    fn process(&mut self, request: Request, cluster: &Cluster, at: Time) -> Vec<Action> {
        self.delayed.cancel_by_event(&request);
        let Some((known, object)) = self.jobs.get(&request.job).zip(cluster.objects.get(request.job)) else {
            return Vec::new();
        };
        let version = match &object.status {
            ObjectStatus::Volcano(status) => status.version,
            _ => 0,
        };
        let (action, delay) = apply_policies(&known.spec, version, &request);
        if delay > Time::START {
            self.delayed.add(request, action, at + delay);
            return Vec::new();
        }
        if action == JobAction::SyncJob {
            self.requests.begin(&request);
            return self.execute(action, &request, cluster, at);
        }
        let request = self.split(request, action, at);
        let actions = self.execute(action, &request, cluster, at);
        if let Some(known) = self.jobs.get(&request.job) {
            self.delayed.cancel_by_action(action, &request, &known.spec);
        }
        actions
    }

    /// Returns a request with its first pod only, where an action is about pods one by one: the others come after it, all
    /// at once, when the job is restarting.
    fn split(&mut self, mut request: Request, action: JobAction, at: Time) -> Request {
        if action.level() == Level::Job || request.event == RequestEvent::CommandIssued {
            return request;
        }
        if let Some(pods) = request.pods.as_mut().filter(|pods| pods.members.len() > 1) {
            let first = pods.members.lowest(1);
            let members = pods.members.without(&first);
            pods.members = first;
            let rest = RequestPods { members, ..pods.clone() };
            let event = RequestEvent::CommandIssued;
            let rest = Request { pods: Some(rest), action: Some(action), event, ..request };
            self.requests.push_first(rest, at);
        }
        request
    }

    /// Does what an action does to a job in its phase (`Execute`).
    fn execute(&mut self, action: JobAction, request: &Request, cluster: &Cluster, at: Time) -> Vec<Action> {
        let Some(view) = view(&self.jobs, &self.marks, cluster, request.job, at) else { return Vec::new() };
        if let Step::Sync(update) = Step::new(view.phase(), action) {
            if !view.waits_for_claim() {
                return view.sync(update);
            }
            let actions = view.begin().into_iter().collect();
            self.requests.refuse(at);
            return actions;
        }
        let Some((target, update)) = view.kill_of(action, request) else { return Vec::new() };
        let kill = view.kill(&target);
        let rest = view.finish_kill(&target, &kill, update);
        let actions = kill.deletions().chain(rest).collect();
        kill.mark(&mut self.marks);
        actions
    }

    /// Does what has waited for its timeout.
    fn fire(&mut self, (request, action): (Request, JobAction), cluster: &Cluster, at: Time) -> Vec<Action> {
        let actions = match self.lose(action, &request, cluster, at) {
            Some(actions) => {
                self.requests.push(request.clone(), at + LOSS);
                actions
            }
            None => {
                let request = self.split(request.clone(), action, at);
                self.execute(action, &request, cluster, at)
            }
        };
        if let Some(known) = self.jobs.get(&request.job) {
            self.delayed.cancel_by_action(action, &request, &known.spec);
        }
        actions
    }

    /// Loses an action that has waited, where it is one that is lost. Its pods die all the same: their marks make a sync,
    /// which sees them as they were and keeps the leave to make others, and the request comes again.
    fn lose(
        &mut self,
        action: JobAction,
        request: &Request,
        cluster: &Cluster,
        at: Time,
    ) -> Option<Vec<Action>> {
        let before = view(&self.jobs, &self.marks, cluster, request.job, at)?;
        let (target, _) = before.kill_of(action, request)?;
        // Only the sync of a job that is neither ending nor restarting is known to come between.
        if !matches!(before.phase(), JobPhase::Pending | JobPhase::Running) {
            return None;
        }
        let kill = before.kill(&target);
        let is_lost = match cluster.timed_actions {
            TimedActions::Likely => kill.count() > 1,
            TimedActions::Taken => false,
            TimedActions::Lost => kill.count() > 0,
        };
        if !is_lost {
            return None;
        }
        let status = before.next_version(&target);
        kill.mark(&mut self.marks);
        let view = view(&self.jobs, &self.marks, cluster, request.job, at)?;
        let Step::Sync(update) = Step::new(view.phase(), JobAction::SyncJob) else { return None };
        let mut actions = view.sync_from(status, update);
        actions.extend(kill.deletions());
        Some(actions)
    }
}

/// Returns the phase of a job; nothing where no status was written.
fn phase_of(object: &Object) -> Option<JobPhase> {
    match &object.status {
        ObjectStatus::Volcano(status) => Some(status.phase),
        _ => None,
    }
}

/// Returns the phase of a PodGroup; nothing where it has none yet.
fn pod_group_phase_of(object: &Object) -> Option<PodGroupPhase> {
    match object.status {
        ObjectStatus::PodGroup(phase) => Some(phase),
        _ => None,
    }
}

/// Returns a job as it is; nothing where it is not there, or not known.
fn view<'a>(
    jobs: &'a BTreeMap<usize, KnownJob>,
    marks: &'a Marks,
    cluster: &'a Cluster,
    number: usize,
    at: Time,
) -> Option<JobView<'a>> {
    let spec = &jobs.get(&number)?.spec;
    let object = cluster.objects.get(number).filter(|object| object.is_there())?;
    Some(JobView { cluster, number, object, spec, marks, at })
}

impl Controller for VolcanoJobController {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        if self.is_stopped {
            return;
        }
        match event {
            Event::Pod(Owner::Object(job)) => self.observe_pods(job, cluster, at),
            Event::Object(number) | Event::ObjectStatus(number) => {
                let Some(object) = cluster.objects.get(number) else { return };
                match object.kind {
                    "VolcanoJob" if event == Event::Object(number) => self.observe_job(number, object, at),
                    "VolcanoJob" => self.observe_phase(number, object, at),
                    "PodGroup" => self.observe_pod_group(number, object, at),
                    "Command" => self.commands = Some(at + LAG),
                    _ => {}
                }
            }
            Event::ObjectGone(job) => {
                self.jobs.remove(&job);
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Time> {
        self.requests.due().into_iter().chain(self.delayed.due()).chain(self.commands).min()
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        self.requests.accept();
        if self.commands.is_some_and(|due| due <= at) {
            self.commands = None;
            if let Some(action) = self.take_command(cluster, at) {
                // There may be more.
                self.commands = Some(at);
                return vec![action];
            }
        }
        if let Some(delayed) = self.delayed.take(at) {
            return self.fire(delayed, cluster, at);
        }
        let next = self.requests.take(at);
        next.map(|request| self.process(request, cluster, at)).unwrap_or_default()
    }

    fn refuse(&mut self, _cluster: &Cluster, at: Time) {
        self.requests.refuse(at);
    }

    fn stop(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        *self = Self { marks, is_stopped: true, ..Self::default() };
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        let marks = std::mem::take(&mut self.marks);
        *self = Self { marks, commands: Some(at + LAG), ..Self::default() };
        for (number, object) in cluster.objects.iter().enumerate().filter(|(_, object)| object.is_there()) {
            match object.kind {
                "VolcanoJob" => {
                    self.observe_job(number, object, at);
                    self.observe_pods(number, cluster, at);
                }
                "PodGroup" => {
                    self.pod_groups.insert(number, pod_group_phase_of(object));
                }
                _ => {}
            }
        }
    }

    fn resume(&mut self, cluster: &Cluster, killed: &[PodGroup], at: Time) {
        self.take_over(cluster, killed, at);
    }
}
