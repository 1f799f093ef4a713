//! Actions that wait for the `timeout` of their policy, in memory (`pkg/controllers/job/job_controller.go`).

use std::sync::Arc;

use super::super::super::indexes::Indexes;
use super::super::super::time::Time;
use super::policy::{JobAction, Level, Request, RequestEvent};
use super::spec::JobSpec;

/// An action that waits. There is one for each name of a pod; those without a pod have an empty name.
#[derive(Clone, Debug)]
struct Delayed {
    request: Request,
    /// The name of the task, and the indexes in it.
    names: (Arc<str>, Indexes),
    action: JobAction,
    due: Time,
    /// Whether another took its place: nothing cancels it any more.
    is_replaced: bool,
}

/// The actions that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayedActions(Vec<Delayed>);

fn names_of(request: &Request) -> (Arc<str>, Indexes) {
    match &request.pods {
        Some(pods) => (pods.task.clone(), pods.members.clone()),
        None => (Arc::from(""), Indexes::below(1)),
    }
}

impl DelayedActions {
    /// Returns when the first is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.iter().map(|delayed| delayed.due).min()
    }

    /// Takes one that is due.
    pub(super) fn take(&mut self, at: Time) -> Option<(Request, JobAction)> {
        let nth = self.0.iter().position(|delayed| delayed.due <= at)?;
        let Delayed { mut request, names, action, .. } = self.0.remove(nth);
        if let Some(pods) = &mut request.pods {
            pods.members = names.1;
        }
        Some((request, action))
    }

    fn known(&mut self, job: usize) -> impl Iterator<Item = &mut Delayed> {
        self.0.iter_mut().filter(move |delayed| !delayed.is_replaced && delayed.request.job == job)
    }

    /// Adds one (`AddDelayActionForJob`). The same action for a name goes on waiting; another is no longer known, but goes on
    /// as well.
    pub(super) fn add(&mut self, request: Request, action: JobAction, due: Time) {
        let mut names = names_of(&request);
        let mut replaced = Vec::new();
        for delayed in self.known(request.job).filter(|delayed| delayed.names.0 == names.0) {
            let shared = delayed.names.1.intersection(&names.1);
            if shared.is_empty() {
                continue;
            }
            if delayed.action == action {
                names.1 = names.1.without(&shared);
                continue;
            }
            delayed.names.1 = delayed.names.1.without(&shared);
            let names = (names.0.clone(), shared);
            replaced.push(Delayed { is_replaced: true, names, ..delayed.clone() });
        }
        self.0.extend(replaced);
        self.0.push(Delayed { request, names, action, due, is_replaced: false });
        self.drop_empty();
    }

    /// Takes over one that waits already, of pods that have no other.
    pub(super) fn take_over(&mut self, request: Request, action: JobAction, due: Time) {
        let names = names_of(&request);
        self.0.push(Delayed { request, names, action, due, is_replaced: false });
    }

    /// Cancels what an event of pods makes void (`CleanPodDelayActionsIfNeed`): any but PodPending what waits for these very
    /// pods to run, PodRunning also what waits because pods of these names failed or went.
    pub(super) fn cancel_by_event(&mut self, request: &Request) {
        let is_running = request.event == RequestEvent::PodRunning;
        let is_pod_event =
            is_running || matches!(request.event, RequestEvent::PodFailed | RequestEvent::PodEvicted);
        let Some(pods) = request.pods.as_ref().filter(|_| is_pod_event) else { return };
        for delayed in self.known(request.job).filter(|delayed| delayed.names.0 == pods.task) {
            let is_void = match delayed.request.event {
                RequestEvent::PodPending => {
                    delayed.request.pods.as_ref().is_some_and(|waiting| waiting.id == pods.id)
                }
                RequestEvent::PodFailed | RequestEvent::PodEvicted => is_running,
                _ => false,
            };
            if is_void {
                delayed.names.1 = delayed.names.1.without(&pods.members);
            }
        }
        self.drop_empty();
    }

    /// Cancels what an action that was taken makes void: those of its level about the same job, task, pods or partition
    /// (`cleanupDelayActions`).
    pub(super) fn cancel_by_action(&mut self, action: JobAction, request: &Request, spec: &JobSpec) {
        let level = action.level();
        let (task, members) = names_of(request);
        for delayed in self.known(request.job).filter(|delayed| delayed.action.level() == level) {
            let is_same_task = delayed.names.0 == task;
            let void = match level {
                Level::Job => delayed.names.1.clone(),
                Level::Task if is_same_task => delayed.names.1.clone(),
                Level::Pod if is_same_task => members.clone(),
                Level::Partition if is_same_task => {
                    match spec.task(&task).and_then(|task| task.partition).unwrap_or(0) {
                        0 => delayed.names.1.clone(),
                        size => members.blocks(size),
                    }
                }
                _ => continue,
            };
            delayed.names.1 = delayed.names.1.without(&void);
        }
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.0.retain(|delayed| !delayed.names.1.is_empty());
    }
}
