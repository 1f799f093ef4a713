//! What kubectl would print of a simulated cluster at a moment, for tests.

use jiff::Timestamp;

use super::super::cluster::Job;
use super::super::meta::Condition;
use super::super::object::{
    Object, ObjectStatus, PodGroupPhase, RayClusterStatus, RayJobStatus, VolcanoStatus,
};
use super::super::pod::{Phase, PodGroup};
use super::super::pod_set::{Owner, PodSet};
use super::super::time::Time;
use super::super::world::World;
use crate::text::value::{Value, json};

/// A cluster at a moment.
struct Exported<'w> {
    world: &'w World,
    /// The time of day of its start, in milliseconds since 1970.
    start: i64,
}

/// Returns the objects of a cluster that started at a time of day, as they are at its moment.
pub(super) fn exported(world: &World, start: i64) -> Vec<Value> {
    let export = Exported { world, start };
    let cluster = &world.cluster;
    let objects = cluster.objects.iter().enumerate().filter(|(_, object)| object.gone.is_none());
    let mut all: Vec<Value> = objects.map(|(number, object)| export.object(number, object)).collect();
    let jobs = cluster.jobs.iter().enumerate().filter(|(_, job)| job.gone.is_none());
    all.extend(jobs.map(|(number, job)| export.job(number, job)));
    for (nth, pods) in cluster.pods.iter().enumerate().filter(|(_, pods)| pods.gone.is_none()) {
        let set = cluster.set_of(pods).unwrap();
        all.extend(pods.members.iter().map(|member| export.pod((nth, member), pods, set)));
    }
    // Real names of clusters are random, and none is made again.
    let named = |object: &Value| object.to_string().replace("CLUSTER", "cluster-").parse::<String>().unwrap();
    all.iter().map(|object| serde_json::from_str(&named(object)).unwrap()).collect()
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

fn put(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.as_object_mut().unwrap().insert(key, value);
    }
}

impl Exported<'_> {
    /// Returns a time as the API keeps it.
    fn stamp(&self, at: Time) -> Value {
        let seconds = (self.start + at.millis()).div_euclid(1_000);
        Value::from(Timestamp::from_second(seconds).unwrap().to_string().as_str())
    }

    fn metadata(&self, name: &str, uid: &str, created: Time, owner: Option<Owner>) -> Value {
        let mut metadata = json!({
            "name": name, "namespace": "n", "uid": uid, "creationTimestamp": self.stamp(created),
        });
        let owner = owner.map(|owner| {
            let (version, kind, name, uid) = match owner {
                Owner::Object(number) => {
                    let object = &self.world.cluster.objects[number];
                    let (version, kind) = match object.kind {
                        "VolcanoJob" => ("batch.volcano.sh/v1alpha1", "Job"),
                        kind => ("ray.io/v1", kind),
                    };
                    (version, kind, object.name.as_str(), format!("o{number}"))
                }
                Owner::Job(number) => {
                    ("batch/v1", "Job", self.world.cluster.jobs[number].name.as_str(), format!("j{number}"))
                }
            };
            json!([{ "apiVersion": version, "kind": kind, "name": name, "uid": uid.as_str(), "controller": true }])
        });
        put(&mut metadata, "ownerReferences", owner);
        metadata
    }

    fn conditions(&self, conditions: &[Condition]) -> Value {
        let one = |one: &Condition| {
            json!({
                "type": one.sort, "status": if one.is_true { "True" } else { "False" },
                "reason": one.reason.as_ref(), "message": one.message.as_str(),
                "lastTransitionTime": self.stamp(one.at),
            })
        };
        Value::Array(conditions.iter().map(one).collect())
    }

    fn object(&self, number: usize, object: &Object) -> Value {
        let mut exported = object.manifest.clone();
        let metadata = self.metadata(&object.name, &format!("o{number}"), object.created, object.owner);
        let before = exported.get("metadata").cloned().unwrap_or_default();
        let mut merged = before;
        crate::text::patch::merge(&mut merged, &metadata);
        if object.finalizer {
            put(&mut merged, "finalizers", Some(json!(["ray.io/rayjob-finalizer"])));
        }
        put(&mut merged, "deletionTimestamp", object.deletion.map(|(at, _)| self.stamp(at)));
        put(&mut exported, "metadata", Some(merged));
        let status = match &object.status {
            ObjectStatus::Volcano(status) => self.volcano(object, status),
            ObjectStatus::PodGroup(PodGroupPhase::Inqueue) => json!({ "phase": "Inqueue" }),
            ObjectStatus::PodGroup(PodGroupPhase::Pending) => json!({ "phase": "Pending" }),
            ObjectStatus::PodGroup(_) => json!({ "phase": "Running" }),
            ObjectStatus::RayCluster(status) => {
                let mut exported = ray_cluster(status);
                put(&mut exported, "conditions", Some(self.conditions(&object.conditions)));
                exported
            }
            ObjectStatus::RayJob(status) => self.ray_job(status),
            // Something is always there.
            _ => json!({ "observedGeneration": 1 }),
        };
        put(&mut exported, "status", Some(status));
        exported
    }

    fn volcano(&self, object: &Object, status: &VolcanoStatus) -> Value {
        let names = object.manifest.pointer("/spec/tasks").and_then(Value::as_array).unwrap();
        let mut tasks = json!({});
        for (task, counts) in names.iter().zip(&status.tasks) {
            let name = task.get("name").and_then(Value::as_str).unwrap();
            let phases = json!({
                "Pending": counts.pending, "Running": counts.running, "Succeeded": counts.succeeded,
                "Failed": counts.failed,
            });
            put(&mut tasks, name, Some(json!({ "phase": phases })));
        }
        json!({
            "state": { "phase": status.phase.name(), "lastTransitionTime": self.stamp(status.transition) },
            "minAvailable": status.min_available, "retryCount": status.retry_count, "version": status.version,
            "pending": status.pods.pending, "running": status.pods.running, "succeeded": status.pods.succeeded,
            "failed": status.pods.failed, "terminating": status.terminating, "taskStatusCount": tasks,
        })
    }

    fn ray_job(&self, status: &RayJobStatus) -> Value {
        let mut exported = json!({ "failed": status.failed, "succeeded": status.succeeded });
        let mut text = |key: &str, text: Option<&str>| {
            put(&mut exported, key, text.filter(|text| !text.is_empty()).map(Value::from));
        };
        text("jobDeploymentStatus", status.deployment.map(|deployment| deployment.word()));
        text("jobStatus", status.program.map(|program| program.word()));
        text("reason", status.reason.map(|reason| reason.word()));
        text("message", Some(&status.message));
        text("rayClusterName", Some(&status.cluster));
        text("jobId", Some(&status.id));
        text("dashboardURL", Some("head-svc:8265").filter(|_| status.has_dashboard));
        put(&mut exported, "startTime", status.start.map(|at| self.stamp(at)));
        put(&mut exported, "endTime", status.end.map(|at| self.stamp(at)));
        put(&mut exported, "jobStatusCheckFailureStartTime", status.silent_since.map(|at| self.stamp(at)));
        let programs = self.world.cluster.dashboards.programs.iter().rev();
        let program = programs.filter(|_| status.program.is_some()).find(|program| program.id == status.id);
        if let Some(program) = program {
            let mut info = json!({ "startTime": self.stamp(program.submitted) });
            put(&mut info, "endTime", status.program_end.map(|at| self.stamp(at)));
            put(&mut exported, "rayJobInfo", Some(info));
        }
        exported
    }

    fn job(&self, number: usize, job: &Job) -> Value {
        let mut metadata = self.metadata(&job.name, &format!("j{number}"), job.created, job.owner);
        put(&mut metadata, "deletionTimestamp", job.deletion.map(|(at, _)| self.stamp(at)));
        let status = &job.status;
        let mut exported = json!({
            "active": status.active, "succeeded": status.succeeded, "failed": status.failed,
            "conditions": self.conditions(&status.conditions),
        });
        put(&mut exported, "ready", status.ready.map(Value::from));
        put(&mut exported, "terminating", status.terminating.map(Value::from));
        put(&mut exported, "startTime", status.start.map(|at| self.stamp(at)));
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": job.manifest.get("spec").cloned().unwrap_or_default(), "status": exported,
        })
    }

    fn pod(&self, (nth, member): (usize, u32), pods: &PodGroup, set: &PodSet) -> Value {
        let name = format!("{}-{member}-{nth}", set.role);
        let mut metadata = self.metadata(&name, &format!("p{nth}-{member}"), pods.created, Some(set.owner));
        let role = set.role.as_ref();
        if let Owner::Object(number) = set.owner {
            let labels = match self.world.cluster.objects[number].kind {
                "VolcanoJob" => {
                    // Whoever else deletes a pod here disrupts it.
                    let is_killed = pods.deletion.is_some() && !pods.disrupted;
                    let mut annotations = json!({ "volcano.sh/job-version": set.round.to_string().as_str() });
                    let killed = is_killed.then(|| Value::from("true"));
                    put(&mut annotations, "volcano.sh/controller-out-of-sync", killed);
                    put(&mut metadata, "annotations", Some(annotations));
                    json!({ "volcano.sh/task-spec": role, "volcano.sh/task-index": member.to_string().as_str() })
                }
                _ if role == "head" => json!({ "ray.io/node-type": "head", "ray.io/group": "headgroup" }),
                _ => json!({ "ray.io/node-type": "worker", "ray.io/group": role }),
            };
            put(&mut metadata, "labels", Some(labels));
        } else if pods.finalizer {
            put(&mut metadata, "finalizers", Some(json!(["batch.kubernetes.io/job-tracking"])));
        }
        if let Some(deletion) = pods.deletion {
            let grace = deletion.grace;
            put(&mut metadata, "deletionTimestamp", Some(self.stamp(deletion.at + grace)));
            put(&mut metadata, "deletionGracePeriodSeconds", Some(Value::from(grace.millis() / 1_000)));
        }
        let container = |one: &super::super::pod::ContainerStatus| {
            let name = set.template.containers.get(one.nth).map_or("", |container| &container.name);
            let state = match one.terminated {
                Some((code, at)) => {
                    json!({ "terminated": { "exitCode": code, "finishedAt": self.stamp(at) } })
                }
                None => {
                    json!({ "running": { "startedAt": self.stamp(pods.started.unwrap_or(pods.created)) } })
                }
            };
            json!({
                "name": name, "ready": one.terminated.is_none() && pods.is_ready(), "state": state,
                "restartCount": pods.restarts,
            })
        };
        let is_init = |one: &&super::super::pod::ContainerStatus| {
            one.sort == super::super::job::spec::ContainerSort::Init
        };
        let (init, main): (Vec<_>, Vec<_>) = pods.containers.iter().partition(is_init);
        let mut status = json!({
            "phase": word(pods.phase),
            "containerStatuses": main.into_iter().map(container).collect::<Vec<Value>>(),
            "initContainerStatuses": init.into_iter().map(container).collect::<Vec<Value>>(),
        });
        let mut conditions = Vec::new();
        let condition = |sort: &str, is_true: bool, at: Time| {
            let status = if is_true { "True" } else { "False" };
            json!({ "type": sort, "status": status, "lastTransitionTime": self.stamp(at) })
        };
        conditions.extend(pods.ready.map(|(is_ready, at)| condition("Ready", is_ready, at)));
        if pods.disrupted {
            conditions.push(condition("DisruptionTarget", true, pods.created));
        }
        put(&mut status, "conditions", Some(Value::Array(conditions)));
        let spec = if pods.bound { json!({ "nodeName": "a" }) } else { json!({}) };
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status })
    }
}

fn ray_cluster(status: &RayClusterStatus) -> Value {
    let mut exported = json!({
        "readyWorkerReplicas": status.ready, "availableWorkerReplicas": status.available,
        "desiredWorkerReplicas": status.desired, "minWorkerReplicas": status.least,
        "maxWorkerReplicas": status.most,
    });
    put(&mut exported, "state", status.state.map(|state| Value::from(state.word())));
    if status.head.is_some() {
        put(&mut exported, "head", Some(json!({ "podName": "head-0", "podIP": "10.0.0.1" })));
    }
    exported
}
