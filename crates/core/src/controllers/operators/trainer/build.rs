//! A TrainJob and its runtime become a JobSet (`pkg/runtime/core/trainingruntime.go`,
//! `pkg/runtime/framework/plugins/jobset/{jobset,builder}.go`, `plugins/mpi/mpi.go`).

use std::collections::BTreeMap;

use crate::text::value::{Map, Value, json};

/// The label that says which step of a TrainJob a `replicatedJob` is.
const STEP: &str = "/template/metadata/labels/trainer.kubeflow.org~1trainjob-ancestor-step";
/// The steps that have one Job.
const STEPS: [&str; 3] = ["dataset-initializer", "model-initializer", "trainer"];

/// Returns the `spec` of the JobSet of a TrainJob. What its runtime does not say is not added: neither a back-off limit nor
/// a time after which it goes, and not the deadline of the TrainJob.
pub(super) fn job_set_spec(train_job: &Value, runtime: &Value) -> Value {
    let template = runtime.pointer("/template/spec").filter(|spec| spec.is_object());
    let graces = patched_graces(train_job);
    let mut spec = template.cloned().unwrap_or_else(|| json!({}));
    for replicated_job in spec.get_mut("replicatedJobs").and_then(Value::as_array_mut).into_iter().flatten() {
        let count = count(train_job, runtime, replicated_job);
        let step = replicated_job.pointer(STEP).and_then(Value::as_str);
        let is_step = step.is_some_and(|step| STEPS.contains(&step));
        let name = replicated_job.get("name").and_then(Value::as_str);
        let grace = name.and_then(|name| graces.get(name)).map(|grace| (*grace).clone());
        let Some(replicated_job) = replicated_job.as_object_mut() else { continue };
        if is_step {
            replicated_job.insert("replicas", 1.into());
        }
        let Some(job) = child(replicated_job, "template").and_then(|template| child(template, "spec")) else {
            continue;
        };
        job.insert("parallelism", count.clone());
        job.insert("completions", count);
        let pod = child(job, "template").and_then(|template| child(template, "spec"));
        if let (Some(grace), Some(pod)) = (grace, pod) {
            pod.insert("terminationGracePeriodSeconds", grace);
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("suspend", is_suspended(train_job).into());
    }
    spec
}

/// Tells whether a TrainJob is suspended.
pub(super) fn is_suspended(train_job: &Value) -> bool {
    train_job.get("suspend").and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a mapping in a mapping, which is made where there is none.
fn child<'v>(of: &'v mut Map, key: &str) -> Option<&'v mut Map> {
    if of.get(key).is_none_or(Value::is_null) {
        of.insert(key, json!({}));
    }
    of.get_mut(key)?.as_object_mut()
}

/// Returns how many pods a `replicatedJob` has: those of the trainer as many as the TrainJob or the runtime has nodes,
/// others as many as they have in the runtime. With MPI the number of the TrainJob is that of the nodes, of which the
/// launcher may be one.
fn count(train_job: &Value, runtime: &Value, replicated_job: &Value) -> Value {
    let policy = runtime.get("mlPolicy").filter(|policy| policy.is_object());
    let is_trainer = replicated_job.pointer(STEP).and_then(Value::as_str) == Some("trainer");
    let nodes = train_job.pointer("/trainer/numNodes").filter(|nodes| !nodes.is_null());
    let mpi = policy.and_then(|policy| policy.get("mpi")).filter(|mpi| mpi.is_object());
    if let Some(mpi) = mpi {
        if let (Some(nodes), Some("node")) = (nodes, replicated_job.get("name").and_then(Value::as_str)) {
            let launcher_is_one = mpi.get("runLauncherAsNode").and_then(Value::as_bool).unwrap_or(false);
            return match nodes.as_i64() {
                Some(nodes) if launcher_is_one => nodes.saturating_sub(1).max(1).into(),
                _ => nodes.clone(),
            };
        }
    } else if let (true, Some(nodes)) = (is_trainer, nodes) {
        return nodes.clone();
    }
    let own = match policy {
        Some(policy) if is_trainer => policy.get("numNodes"),
        _ => replicated_job.pointer("/template/spec/parallelism"),
    };
    own.filter(|own| !own.is_null()).cloned().unwrap_or_else(|| 1.into())
}

/// Returns the grace periods that patches of the TrainJob give to the pods of each `replicatedJob`: of what `runtimePatches`
/// may change, nothing else decides what happens. Of the patches the last counts, of one patch the first of a name.
fn patched_graces(train_job: &Value) -> BTreeMap<&str, &Value> {
    let mut graces = BTreeMap::new();
    for patch in train_job.get("runtimePatches").and_then(Value::as_array).into_iter().flatten() {
        let jobs = patch.pointer("/trainingRuntimeSpec/template/spec/replicatedJobs");
        let mut here: BTreeMap<&str, &Value> = BTreeMap::new();
        for job in jobs.and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = job.get("name").and_then(Value::as_str) {
                let grace = job.pointer("/template/spec/template/spec/terminationGracePeriodSeconds");
                here.entry(name).or_insert(grace.unwrap_or(&Value::Null));
            }
        }
        graces.extend(here.into_iter().filter(|(_, grace)| !grace.is_null()));
    }
    graces
}
