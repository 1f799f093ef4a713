//! One look at what is in a queue, in the order of `ReconcileGenericJob` (`controller/jobframework/reconciler.go`).

use super::super::super::cluster::{Action, Cluster, Job, JobStatus};
use super::super::super::kueue_settings::KueueSettings;
use super::super::super::meta::Propagation;
use super::super::super::object::Object;
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::super::queue_name::queue;
use super::queued_object::Queued;
use super::webhook;
use super::workload::{PRIORITY_CLASS, WORKLOAD, Workload};
use crate::text::value::{Value, json};

/// How long Kueue writes a Job that it stops: `suspend`, then `status.startTime`, then the template. What the Job controller
/// writes meanwhile is out of date.
const STOPPING: Time = Time::from_millis(50);

/// A look at one Job, or at one object of an operator.
pub(super) struct QueuedJobSync<'a> {
    /// The objects.
    cluster: &'a Cluster,
    /// What is looked at.
    owner: Owner,
    /// How Kueue is configured.
    settings: &'a KueueSettings,
    /// The moment.
    at: Time,
    /// What is done.
    actions: Vec<Action>,
}

/// What is done; after an error what was done before it, and the Job is looked at again.
type DoneActions = Result<Vec<Action>, Vec<Action>>;

impl<'a> QueuedJobSync<'a> {
    pub(super) fn new(cluster: &'a Cluster, owner: Owner, settings: &'a KueueSettings, at: Time) -> Self {
        Self { cluster, owner, settings, at, actions: Vec::new() }
    }

    pub(super) fn run(self) -> DoneActions {
        let Some(job) = Queued::find(self.cluster, self.owner) else { return Ok(Vec::new()) };
        if job.goes() {
            return self.finalize(job);
        }
        if queue(job.manifest()).is_none() || !job.is_on_top() {
            return Ok(Vec::new());
        }
        let owned: Vec<Workload<'a>> = self.owned().collect();
        let matching = owned.iter().find(|workload| is_equivalent(job, workload));
        let Some(workload) = matching else {
            return if owned.is_empty() { self.without_workload(job) } else { self.replace(job, &owned) };
        };
        self.with_workload(job, workload)
    }

    /// Returns the Workloads of the Job that are there.
    fn owned(&self) -> impl Iterator<Item = Workload<'a>> + use<'a> {
        let objects = self.cluster.objects_owned(self.owner);
        objects
            .filter(|(_, object)| object.kind == WORKLOAD)
            .map(|(number, object)| Workload::new(number, object))
    }

    /// Lets the Workloads go of a Job that goes or is gone (`finalizeWorkloads`): they are finished, and give their quota back.
    fn finalize(mut self, job: Queued<'a>) -> DoneActions {
        let end = job.end();
        for mut workload in self.owned() {
            let number = workload.number;
            if workload.object.deletion.is_none() && !workload.is("Finished") {
                // The end of a Job is seen before the deletion that its TTL is.
                let (reason, message) = match &end {
                    Some((reason, message)) => (*reason, message.as_str()),
                    None => ("OwnerNotFound", "The workload's owner no longer exists"),
                };
                workload.set("Finished", true, reason, message, self.at);
            }
            let finalizer = workload.object.finalizer;
            self.actions.extend(workload.write());
            if finalizer {
                self.actions.push(Action::ReleaseObject { object: number });
            }
        }
        Ok(self.actions)
    }

    /// Deletes Workloads that do not fit the Job any more, and suspends it; one without quota is changed to fit
    /// (`ensureOneWorkload`).
    fn replace(mut self, job: Queued<'a>, owned: &[Workload<'a>]) -> DoneActions {
        let mut owned = owned.iter();
        if job.is_suspended() {
            if let Some(first) = owned.clone().next().filter(|first| first.status.admission.is_none()) {
                owned.next();
                let Some(manifest) = self.workload_of(job) else { return Err(self.actions) };
                let spec = manifest.get("spec").cloned().unwrap_or_default();
                self.actions.push(Action::PatchObject { object: first.number, patch: json!({"spec": spec}) });
            }
        } else if job.end().is_none() && !self.stop(job, owned.clone().next()) {
            return Err(self.actions);
        }
        for workload in owned {
            if workload.object.finalizer {
                self.actions.push(Action::ReleaseObject { object: workload.number });
            }
            let propagation = Propagation::Background;
            self.actions.push(Action::DeleteObject { object: workload.number, propagation });
        }
        Ok(self.actions)
    }

    /// Makes the Workload of a Job, once none of its pods is active (`handleJobWithNoWorkload`).
    fn without_workload(mut self, job: Queued<'a>) -> DoneActions {
        if job.end().is_some() {
            return Ok(self.actions);
        }
        if !job.is_suspended() && !self.stop(job, None) {
            return Err(self.actions);
        }
        if job.is_active() {
            return Ok(self.actions);
        }
        // Without its class of priority, no Workload is made, and the next try is one after an error.
        let Some(manifest) = self.workload_of(job) else { return Err(self.actions) };
        let object = Object::new(WORKLOAD, &job.workload_name(), Some(self.owner), manifest, self.at);
        self.actions.push(Action::CreateObject(Box::new(Object { finalizer: true, ..object })));
        Ok(self.actions)
    }

    fn workload_of(&self, job: Queued<'_>) -> Option<Value> {
        let priority = self.priority(job)?;
        let seconds = webhook::max_execution(job.manifest()).map(|time| Value::from(time.millis() / 1_000));
        let queue = queue(job.manifest()).unwrap_or_default();
        Some(json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": WORKLOAD,
            "metadata": {"name": job.workload_name()},
            "spec": {
                "active": true,
                "queueName": queue,
                "priority": priority,
                "maximumExecutionTimeSeconds": seconds.unwrap_or_default(),
                "podSets": [job.pod_set()],
            },
        }))
    }

    /// Returns the priority; nothing where its class is not there.
    fn priority(&self, job: Queued<'_>) -> Option<i64> {
        match webhook::priority_class(job.manifest()) {
            Some(class) => {
                let (_, class) = self.cluster.object(PRIORITY_CLASS, class)?;
                Some(class.manifest.get("value").and_then(Value::as_i64).unwrap_or_default())
            }
            None => Some(job.pod_priority()),
        }
    }

    fn with_workload(mut self, job: Queued<'a>, workload: &Workload<'a>) -> DoneActions {
        let mut workload = workload.clone();
        let object = workload.number;
        if let Some(priority) = self.priority(job).filter(|priority| *priority != workload.priority()) {
            self.actions.push(Action::PatchObject { object, patch: json!({"spec": {"priority": priority}}) });
            return Ok(self.actions);
        }
        if workload.is("Finished") {
            if workload.object.finalizer {
                self.actions.push(Action::ReleaseObject { object });
            }
            return Ok(self.actions);
        }
        if workload.object.deletion.is_some() {
            if !self.stop(job, Some(&workload)) {
                return Err(self.actions);
            }
            self.actions.push(Action::ReleaseObject { object });
            return Ok(self.actions);
        }
        if let Some((reason, message)) = job.end() {
            workload.set("Finished", true, reason, message, self.at);
            self.actions.extend(workload.write());
            return Ok(self.actions);
        }
        let reclaimable = job.reclaimable().min(workload.count());
        if reclaimable != workload.status.reclaimable {
            workload.status.reclaimable = reclaimable;
            self.actions.extend(workload.write());
            return Ok(self.actions);
        }
        if self.settings.wait_for_pods_ready.is_some() && self.watch(job, &mut workload) {
            self.actions.extend(workload.write());
            return Ok(self.actions);
        }
        if workload.is("Evicted") {
            return self.evict(job, workload);
        }
        let is_admitted = workload.is("Admitted");
        if job.is_suspended() {
            if is_admitted {
                self.start(job, &workload);
            } else if let Some(queue) = queue(job.manifest()).filter(|queue| *queue != workload.queue()) {
                let patch = json!({"spec": {"queueName": queue}});
                self.actions.push(Action::PatchObject { object, patch });
            }
        } else if !is_admitted && !self.stop(job, Some(&workload)) {
            return Err(self.actions);
        }
        Ok(self.actions)
    }

    /// Keeps `PodsReady` in step (`generatePodsReadyCondition`). Returns whether it changed.
    fn watch(&self, job: Queued<'_>, workload: &mut Workload<'a>) -> bool {
        let before = workload.any("PodsReady").map(|ready| (ready.is_true, ready.reason.to_string()));
        let reason_before = before.as_ref().map(|(_, reason)| reason.as_str());
        let is_recovering = matches!(reason_before, Some("WaitForRecovery" | "Recovered"));
        let (is_ready, reason) = if !workload.is("Admitted") {
            (false, "WaitForStart")
        } else if job.is_ready() {
            (true, if is_recovering { "Recovered" } else { "Started" })
        } else if before.as_ref().is_some_and(|(is_true, _)| *is_true)
            || reason_before == Some("WaitForRecovery")
        {
            (false, "WaitForRecovery")
        } else {
            (false, "WaitForStart")
        };
        if before.is_some_and(|(is_true, old)| is_true == is_ready && old == reason) {
            return false;
        }
        let message = match reason {
            "WaitForStart" => "Not all pods are ready or succeeded",
            "WaitForRecovery" => "At least one pod has failed, waiting for recovery",
            _ => "All pods reached readiness and the workload is running",
        };
        workload.set("PodsReady", is_ready, reason, message, self.at);
        true
    }

    /// Stops an evicted Job, and gives its quota back when none of its pods is active, also while they are terminating.
    fn evict(mut self, job: Queued<'a>, mut workload: Workload<'a>) -> DoneActions {
        let Some(evicted) = workload.condition("Evicted").cloned() else { return Ok(self.actions) };
        if !self.stop(job, Some(&workload)) {
            return Err(self.actions);
        }
        if workload.status.admission.is_some() && !job.is_active() {
            let is_requeued = ["Preempted", "NodeFailures"].contains(&&*evicted.reason);
            workload.set("Requeued", is_requeued, evicted.reason.clone(), evicted.message.clone(), self.at);
            workload.release("Pending", &evicted.message, self.cluster.clock, self.at);
            self.actions.extend(workload.write());
        }
        Ok(self.actions)
    }

    /// Unsuspends it; a Job with a partial admission, with fewer pods at once (`RunWithPodSetsInfo`).
    fn start(&mut self, job: Queued<'_>, workload: &Workload<'a>) {
        let mut more = json!({});
        if let (Queued::Job(_, job), Some(_), Some(admission)) =
            (job, webhook::least_pods(job.manifest()), &workload.status.admission)
        {
            set_parallelism(&mut more, job, admission.count);
        }
        self.actions.push(job.suspend(false, &more));
    }

    /// Suspends it, takes the start time of a Job and restores its template (`stopJob`, and `Stop` in
    /// `controller/jobs/job/job_controller.go`). The API server takes the last only when no pod is active. Returns whether all
    /// is done.
    fn stop(&mut self, job: Queued<'_>, workload: Option<&Workload<'a>>) -> bool {
        if !job.is_suspended() {
            self.actions.push(job.suspend(true, &json!({})));
        }
        if let Queued::Job(number, of) = job {
            if !job.is_suspended() {
                self.actions.push(Action::HoldJob { job: number, until: self.at + STOPPING });
            }
            if of.status.start.is_some() {
                let status = JobStatus { start: None, ..of.status.clone() };
                self.actions.push(Action::WriteJob { job: number, status: Box::new(status) });
            }
        }
        if job.stops_late() && job.is_active() {
            return false;
        }
        if let (Queued::Job(number, job), Some(workload)) = (job, workload)
            && webhook::least_pods(&job.manifest).is_some()
            && job.spec.parallelism != workload.count()
        {
            let mut patch = json!({});
            set_parallelism(&mut patch, job, workload.count());
            self.actions.push(Action::PatchJob { job: number, patch });
        }
        true
    }
}

fn set_parallelism(patch: &mut Value, job: &Job, count: u32) {
    if let Some(patch) = patch.as_object_mut() {
        patch.insert("parallelism", count.into());
        if webhook::has_equal_completions(&job.manifest) {
            patch.insert("completions", count.into());
        }
    }
}

/// Tells whether a Workload is that of a Job, or of another object, as that stands (`EquivalentToWorkload`): as many pods and
/// the same limit of its time; of a Job, with the same containers.
fn is_equivalent(job: Queued<'_>, workload: &Workload<'_>) -> bool {
    workload.max_execution() == webhook::max_execution(job.manifest())
        && match job {
            Queued::Job(_, job) => is_pod_set_of(job, workload),
            Queued::Object(..) => job.count() == workload.count(),
        }
}

fn is_pod_set_of(job: &Job, workload: &Workload<'_>) -> bool {
    let set = workload.pod_set();
    let theirs = set.get("template").and_then(|template| template.get("spec")).unwrap_or(&Value::Null);
    let ours = webhook::template(job).get("spec").unwrap_or(&Value::Null);
    let is_same = |key: &str| ours.get(key) == theirs.get(key);
    let tolerates = workload.is("Admitted") || is_same("tolerations");
    let count = job.spec.at_once();
    let admitted = workload.status.admission.as_ref().filter(|_| workload.least().is_some());
    let has_count = match admitted {
        Some(admission) => count == admission.count || job.spec.suspend && count == workload.count(),
        None => count == workload.count(),
    };
    has_count && tolerates && is_same("containers") && is_same("initContainers")
}
