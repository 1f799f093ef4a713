//! One look at a Job, in the order of `ReconcileGenericJob` (`controller/jobframework/reconciler.go`).

use super::super::super::cluster::{Action, Cluster, Job, JobStatus};
use super::super::super::meta::{Condition, Propagation};
use super::super::super::object::Object;
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::settings::KueueSettings;
use super::workload::Workload;
use super::{PRIORITY_CLASS, WORKLOAD, webhook};
use crate::text::value::{Map, Value, json};

/// How long Kueue writes a Job that it stops: `suspend`, then `status.startTime`, then the template. What the Job controller
/// writes meanwhile is out of date.
const STOPPING: Time = Time::from_millis(50);

/// A look at one Job.
pub(super) struct JobSync<'a> {
    /// The objects.
    cluster: &'a Cluster,
    /// The Job, by its number.
    number: usize,
    /// How Kueue is configured.
    settings: &'a KueueSettings,
    /// The moment.
    at: Time,
    /// What is done.
    actions: Vec<Action>,
}

/// What is done; after an error what was done before it, and the Job is looked at again.
type Outcome = Result<Vec<Action>, Vec<Action>>;

impl<'a> JobSync<'a> {
    pub(super) fn new(cluster: &'a Cluster, number: usize, settings: &'a KueueSettings, at: Time) -> Self {
        Self { cluster, number, settings, at, actions: Vec::new() }
    }

    pub(super) fn run(self) -> Outcome {
        let Some(job) = self.cluster.jobs.get(self.number) else { return Ok(Vec::new()) };
        if job.gone.is_some() || job.deletion.is_some() {
            return self.finalize();
        }
        // Only Jobs that nobody made have a queue.
        if webhook::queue(&job.manifest).is_none() || job.owner.is_some() {
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
        let objects = self.cluster.objects_owned(Owner::Job(self.number));
        objects
            .filter(|(_, object)| object.kind == WORKLOAD)
            .map(|(number, object)| Workload::new(number, object))
    }

    /// Lets the Workloads go of a Job that goes or is gone (`finalizeWorkloads`): they are finished, and give their quota back.
    fn finalize(mut self) -> Outcome {
        let end = self.cluster.jobs.get(self.number).and_then(|job| job.status.finished());
        for mut workload in self.owned() {
            let number = workload.number;
            if workload.object.deletion.is_none() && !workload.is("Finished") {
                // The end of a Job is seen before the deletion that its TTL is.
                let (reason, message) = match end {
                    Some(end) => (finished_reason(end), end.message.as_str()),
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
    fn replace(mut self, job: &Job, owned: &[Workload<'a>]) -> Outcome {
        let mut owned = owned.iter();
        if job.spec.suspend {
            if let Some(first) = owned.clone().next().filter(|first| first.status.admission.is_none()) {
                owned.next();
                let Some(manifest) = self.workload_of(job) else { return Err(self.actions) };
                let spec = manifest.get("spec").cloned().unwrap_or_default();
                self.actions.push(Action::PatchObject { object: first.number, patch: json!({"spec": spec}) });
            }
        } else if job.status.finished().is_none() && !self.stop(job, owned.clone().next()) {
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
    fn without_workload(mut self, job: &Job) -> Outcome {
        if job.status.finished().is_some() {
            return Ok(self.actions);
        }
        if !job.spec.suspend && !self.stop(job, None) {
            return Err(self.actions);
        }
        if job.status.active > 0 {
            return Ok(self.actions);
        }
        // Without its class of priority, no Workload is made, and the next try is one after an error.
        let Some(manifest) = self.workload_of(job) else { return Err(self.actions) };
        let owner = Some(Owner::Job(self.number));
        let name = format!("job-{}", job.name());
        let object = Object::new(WORKLOAD, &name, owner, manifest, self.at);
        self.actions.push(Action::CreateObject(Box::new(Object { finalizer: true, ..object })));
        Ok(self.actions)
    }

    fn workload_of(&self, job: &Job) -> Option<Value> {
        let priority = self.priority(job)?;
        let seconds = webhook::max_execution(&job.manifest).map(|time| Value::from(time.millis() / 1_000));
        let mut set = Map::new();
        set.insert("name", "main".into());
        set.insert("count", job.spec.at_once().into());
        if let Some(least) = webhook::least_pods(&job.manifest) {
            set.insert("minCount", least.into());
        }
        set.insert("template", webhook::template(job).clone());
        let name = format!("job-{}", job.name());
        let queue = webhook::queue(&job.manifest).unwrap_or_default();
        Some(json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": WORKLOAD,
            "metadata": {"name": name},
            "spec": {
                "active": true,
                "queueName": queue,
                "priority": priority,
                "maximumExecutionTimeSeconds": seconds.unwrap_or_default(),
                "podSets": [set],
            },
        }))
    }

    /// Returns the priority of a Job; nothing where its class is not there.
    fn priority(&self, job: &Job) -> Option<i64> {
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_i64).unwrap_or_default();
        match webhook::priority_class(&job.manifest) {
            Some(class) => {
                self.cluster.object(PRIORITY_CLASS, class).map(|(_, class)| number(&class.manifest, "value"))
            }
            None => {
                Some(webhook::template(job).get("spec").map_or(0, |template| number(template, "priority")))
            }
        }
    }

    fn with_workload(mut self, job: &Job, workload: &Workload<'a>) -> Outcome {
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
        if let Some(end) = job.status.finished() {
            workload.set("Finished", true, finished_reason(end), end.message.clone(), self.at);
            self.actions.extend(workload.write());
            return Ok(self.actions);
        }
        let reclaimable = reclaimable(job).min(workload.count());
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
        if job.spec.suspend {
            if is_admitted {
                self.start(job, &workload);
            } else if let Some(queue) =
                webhook::queue(&job.manifest).filter(|queue| *queue != workload.queue())
            {
                let patch = json!({"spec": {"queueName": queue}});
                self.actions.push(Action::PatchObject { object, patch });
            }
        } else if !is_admitted && !self.stop(job, Some(&workload)) {
            return Err(self.actions);
        }
        Ok(self.actions)
    }

    /// Keeps `PodsReady` in step (`generatePodsReadyCondition`). Returns whether it changed.
    fn watch(&self, job: &Job, workload: &mut Workload<'a>) -> bool {
        let before = workload.any("PodsReady").map(|ready| (ready.is_true, ready.reason.to_string()));
        let reason_before = before.as_ref().map(|(_, reason)| reason.as_str());
        let is_recovering = matches!(reason_before, Some("WaitForRecovery" | "Recovered"));
        let ready = job.status.succeeded.saturating_add(job.status.ready.unwrap_or_default());
        let (is_ready, reason) = if !workload.is("Admitted") {
            (false, "WaitForStart")
        } else if ready >= job.spec.at_once() {
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
    fn evict(mut self, job: &Job, mut workload: Workload<'a>) -> Outcome {
        let Some(evicted) = workload.condition("Evicted").cloned() else { return Ok(self.actions) };
        if !self.stop(job, Some(&workload)) {
            return Err(self.actions);
        }
        if workload.status.admission.is_some() && job.status.active == 0 {
            let is_requeued = ["Preempted", "NodeFailures"].contains(&&*evicted.reason);
            workload.set("Requeued", is_requeued, evicted.reason.clone(), evicted.message.clone(), self.at);
            workload.release("Pending", &evicted.message, self.cluster.clock, self.at);
            self.actions.extend(workload.write());
        }
        Ok(self.actions)
    }

    /// Unsuspends a Job; with a partial admission, with fewer pods at once (`RunWithPodSetsInfo`).
    fn start(&mut self, job: &Job, workload: &Workload<'a>) {
        let mut patch = json!({"suspend": false});
        if let (Some(_), Some(admission)) = (webhook::least_pods(&job.manifest), &workload.status.admission) {
            set_parallelism(&mut patch, job, admission.count);
        }
        self.actions.push(Action::PatchJob { job: self.number, patch });
    }

    /// Suspends a Job, takes its start time and restores its template (`controller/jobs/job/job_controller.go`, `Stop`). The
    /// API server takes the last only when no pod is active. Returns whether all is done.
    fn stop(&mut self, job: &Job, workload: Option<&Workload<'a>>) -> bool {
        let number = self.number;
        if !job.spec.suspend {
            self.actions.push(Action::PatchJob { job: number, patch: json!({"suspend": true}) });
            self.actions.push(Action::HoldJob { job: number, until: self.at + STOPPING });
        }
        if job.status.start.is_some() {
            let status = JobStatus { start: None, ..job.status.clone() };
            self.actions.push(Action::WriteJob { job: number, status: Box::new(status) });
        }
        if job.status.active > 0 {
            return false;
        }
        if let Some(workload) = workload
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

fn finished_reason(end: &Condition) -> &'static str {
    if end.sort == "Failed" { "Failed" } else { "Succeeded" }
}

fn set_parallelism(patch: &mut Value, job: &Job, count: u32) {
    if let Some(patch) = patch.as_object_mut() {
        patch.insert("parallelism", count.into());
        if webhook::has_equal_completions(&job.manifest) {
            patch.insert("completions", count.into());
        }
    }
}

/// Returns how many pods need no quota any more: those beyond what is left to do (`ReclaimablePods`).
fn reclaimable(job: &Job) -> u32 {
    let (parallelism, status) = (job.spec.parallelism, &job.status);
    let completions = job.spec.completions.unwrap_or(parallelism);
    let over = if job.spec.indexed {
        let failed = status.failed_indexes.clone().unwrap_or_default();
        status.completed.union(&failed).len()
    } else {
        status.succeeded
    };
    if parallelism > 1 && over > 0 { parallelism.saturating_sub(completions.saturating_sub(over)) } else { 0 }
}

/// Tells whether a Workload is that of a Job as it stands (`EquivalentToWorkload`): as many pods, the same containers and the
/// same limit of its time.
fn is_equivalent(job: &Job, workload: &Workload<'_>) -> bool {
    if workload.max_execution() != webhook::max_execution(&job.manifest) {
        return false;
    }
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
