//! A job controller that has been running: what it is about to do follows from the pods, as long as nobody restarted it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::super::cluster::Cluster;
use super::super::super::indexes::Indexes;
use super::super::super::object::ObjectStatus;
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::time::Time;
use super::pods::{JobPods, PodId, known_pods};
use super::policy::{JobAction, Request, RequestEvent, RequestPods, apply_policies, request_of};
use super::spec::JobSpec;
use super::{LAG, VolcanoJobController, phase_of, pod_group_phase_of};
use crate::text::value::Value;

/// How long after a moment what was to be done at it may be on its way: the API keeps whole seconds, and a controller has
/// other jobs, too. What was due before that was lost, or is done.
const ON_ITS_WAY: Time = Time::from_seconds(5);

/// Returns of failures, each of a pod of a task with an exit code, the action of the first policy that is about it, and after
/// which time that comes; nothing where none is.
#[must_use]
pub(in super::super) fn on_failures(
    manifest: &Value,
    failures: &[(&str, i64)],
) -> Vec<Option<(&'static str, Time)>> {
    let spec = JobSpec::from_spec(manifest.get("spec").unwrap_or(&Value::Null));
    let id = PodId::new(&PodGroup::new(0, Indexes::default(), Time::START));
    let action = |(task, code): &(&str, i64)| {
        let pods = RequestPods { task: Arc::from(*task), id, members: Indexes::default() };
        let request =
            Request { pods: Some(pods), exit_code: *code, ..request_of(0, RequestEvent::PodFailed) };
        let (action, after) = apply_policies(&spec, 0, &request);
        (action != JobAction::SyncJob).then(|| (action.name(), after))
    };
    failures.iter().map(action).collect()
}

impl VolcanoJobController {
    /// Takes over jobs with their pods, all of which it has seen. It looks at each job at once, and does what is on its way: a
    /// policy counts from when a pod failed or, of one that is Pending, from when it was made.
    pub(super) fn take_over(&mut self, cluster: &Cluster, killed: &[PodGroup], at: Time) {
        *self = Self { commands: Some(at + LAG), ..Self::default() };
        for pods in killed {
            self.marks.add(PodId::new(pods), &pods.members);
        }
        self.watch.know(cluster);
        for (number, object) in cluster.objects.iter().enumerate().filter(|(_, object)| object.is_there()) {
            match object.kind {
                "VolcanoJob" => {
                    self.observe_job(number, object, at);
                    if let Some(known) = self.jobs.get_mut(&number) {
                        known.phase = phase_of(object);
                    }
                    self.take_over_pods(number, cluster, at);
                }
                "PodGroup" => {
                    self.pod_groups.insert(number, pod_group_phase_of(object));
                }
                _ => {}
            }
        }
    }

    fn take_over_pods(&mut self, job: usize, cluster: &Cluster, at: Time) {
        let Some(known) = self.jobs.get(&job) else { return };
        let version = match cluster.objects.get(job).map(|object| &object.status) {
            Some(ObjectStatus::Volcano(status)) => status.version,
            _ => 0,
        };
        let all = JobPods { cluster, job, spec: &known.spec, marks: &self.marks, at };
        let completed = completed(all);
        let mut requests = Vec::new();
        for (nth, pods, set) in known_pods(cluster, job, at) {
            if pods.deletion.is_some() || !self.marks.of(pods).is_empty() {
                continue;
            }
            // What was announced of them last, where a policy may wait for it.
            let event = match pods.phase {
                Phase::Failed => RequestEvent::PodFailed,
                Phase::Pending => RequestEvent::PodPending,
                Phase::Succeeded if completed.contains(&nth) => RequestEvent::TaskCompleted,
                Phase::Succeeded | Phase::Running => continue,
            };
            let request = all.request((pods, set), event);
            let (action, after) = apply_policies(&known.spec, version, &request);
            let due = pods.ended.unwrap_or(pods.created) + after;
            if action == JobAction::SyncJob || due + ON_ITS_WAY < at {
                continue;
            }
            if after > Time::START {
                self.delayed.take_over(request, action, due.max(at));
            } else {
                requests.push(request);
            }
        }
        for request in requests.into_iter().rev() {
            self.requests.push_first(request, at);
        }
    }
}

/// Returns the pods by which tasks are complete: of each, the group that ended last.
fn completed(all: JobPods<'_>) -> BTreeSet<usize> {
    let mut tasks: BTreeMap<&str, (u32, Option<Time>, usize)> = BTreeMap::new();
    for (nth, pods, set) in known_pods(all.cluster, all.job, all.at) {
        if pods.phase == Phase::Succeeded {
            let (count, ended, last) = tasks.entry(&set.role).or_default();
            *count = count.saturating_add(pods.count());
            if pods.ended >= *ended {
                (*ended, *last) = (pods.ended, nth);
            }
        }
    }
    let replicas = |task: &str| all.spec.task(task).map_or(0, |task| task.replicas);
    let complete = tasks.into_iter().filter(|(task, (count, _, _))| {
        let replicas = replicas(task);
        replicas > 0 && *count >= replicas
    });
    complete.map(|(_, (_, _, last))| last).collect()
}
