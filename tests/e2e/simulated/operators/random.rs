//! Random objects of operators' kinds, and what becomes of their pods.

pub(super) mod queue;
mod ray;
mod volcano;

use serde_json::{Value, json};

use super::super::seconds;
use crate::random::Random;

/// The kinds, each as often as its share.
const KINDS: [&str; 18] = [
    "JobSet",
    "PyTorchJob",
    "TrainJob",
    "MPIJob",
    "TFJob",
    "JobSet",
    "XGBoostJob",
    "TrainJob",
    "JAXJob",
    "MPIJob",
    "PaddleJob",
    "JobSet",
    "Job",
    "RayJob",
    "VolcanoJob",
    "Job",
    "RayJob",
    "RayCluster",
];

/// An object with what must be there before it and what happens to it.
pub(super) struct Scene {
    pub(super) kind: &'static str,
    pub(super) manifest: Value,
    pub(super) also: Vec<Value>,
    pub(super) script: Value,
}

/// The pods of a role: its name, how many have a number, and whether the object ends with them.
struct Role {
    name: String,
    count: usize,
    leads: bool,
}

impl Role {
    fn new(name: &str, count: usize, leads: bool) -> Self {
        Self { name: name.to_owned(), count, leads }
    }
}

/// Returns a scenario of one of the kinds that are there.
pub(super) fn scene(random: &mut Random, nth: usize, is_there: &dyn Fn(&str) -> bool) -> Scene {
    let kinds: Vec<&'static str> = KINDS.into_iter().filter(|kind| is_there(kind)).collect();
    let kind = kinds[nth % kinds.len()];
    match kind {
        "Job" => return queue::job(random),
        "RayJob" => return ray::job(random),
        "RayCluster" => return ray::cluster(random),
        "VolcanoJob" => return volcano::job(random),
        _ => {}
    }
    let (spec, roles, also, suspended) = match kind {
        "JobSet" => job_set(random),
        "TrainJob" => train_job(random),
        "MPIJob" => mpi_job(random),
        _ => training(random, kind),
    };
    let version = match kind {
        "JobSet" => "jobset.x-k8s.io/v1alpha2",
        "TrainJob" => "trainer.kubeflow.org/v1alpha1",
        "MPIJob" => "kubeflow.org/v2beta1",
        _ => "kubeflow.org/v1",
    };
    let manifest = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "j"}, "spec": spec});
    let script = script(random, kind, &roles, suspended);
    Scene { kind, manifest, also, script }
}

/// A spec, its roles, what must be there before it, and where in the spec it is suspended.
type Made = (Value, Vec<Role>, Vec<Value>, fn(bool) -> Value);

fn suspend(word: bool) -> Value {
    json!({"suspend": word})
}

fn suspend_policy(word: bool) -> Value {
    json!({"runPolicy": {"suspend": word}})
}

fn pod_spec(random: &mut Random, container: &str, policies: &[Option<&str>]) -> Value {
    let mut spec = json!({"containers": [{"name": container, "image": "registry.example.com/c:1"}]});
    if let Some(policy) = random.pick(policies) {
        spec["restartPolicy"] = (*policy).into();
    }
    if random.percent(40) {
        spec["terminationGracePeriodSeconds"] = random.within(3, 6).into();
    }
    spec
}

/// Returns the Job of a set, and how many pods it has.
fn job(random: &mut Random) -> (Value, usize) {
    let count = random.within(1, 3);
    let mut spec = json!({
        "parallelism": count, "completions": count, "completionMode": "Indexed",
        "template": {"spec": pod_spec(random, "m", &[Some("Never"), Some("Never"), Some("OnFailure")])},
    });
    if random.percent(85) {
        spec["backoffLimit"] = random.within(0, 2).into();
    }
    if random.percent(15) {
        spec["activeDeadlineSeconds"] = random.within(5, 14).into();
    }
    if spec["template"]["spec"]["restartPolicy"] == "Never" && random.percent(30) {
        let rules = [
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
            json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}),
        ];
        spec["podFailurePolicy"] = json!({"rules": [random.pick(&rules)]});
    }
    (spec, count)
}

fn failure_policy(random: &mut Random, names: &[&str]) -> Value {
    let mut policy = json!({"maxRestarts": random.within(0, 3)});
    if random.percent(40) {
        policy["restartStrategy"] = (*random.pick(&["Recreate", "BlockingRecreate"])).into();
    }
    if random.percent(40) {
        let action = random.pick(&["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]);
        let mut rule = json!({"name": "r0", "action": action});
        if random.percent(60) {
            let reasons = ["BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy"];
            rule["onJobFailureReasons"] = json!([random.pick(&reasons)]);
        }
        if random.percent(40) {
            rule["targetReplicatedJobs"] = json!([random.pick(names)]);
        }
        policy["rules"] = json!([rule]);
    }
    policy
}

fn job_set(random: &mut Random) -> Made {
    let names: &[&str] = if random.percent(60) { &["d", "w"] } else { &["w"] };
    let (mut jobs, mut roles) = (Vec::new(), Vec::new());
    for (nth, name) in names.iter().enumerate() {
        let replicas = if *name == "d" { 1 } else { random.within(1, 3) };
        let (spec, count) = job(random);
        let mut one = json!({"name": name, "replicas": replicas, "template": {"spec": spec}});
        if nth > 0 && random.percent(20) {
            let status = random.pick(&["Ready", "Complete"]);
            one["dependsOn"] = json!([{"name": names[nth - 1], "status": status}]);
        }
        roles.extend(
            (0..replicas).map(|replica| Role::new(&format!("{name}-{replica}"), count, *name == "d")),
        );
        jobs.push(one);
    }
    let has_order = jobs.iter().any(|one| !one["dependsOn"].is_null());
    let mut spec = json!({"replicatedJobs": jobs});
    if random.percent(65) {
        spec["failurePolicy"] = failure_policy(random, names);
    }
    if random.percent(35) {
        spec["successPolicy"] = json!({
            "operator": random.pick(&["All", "Any"]), "targetReplicatedJobs": [random.pick(names)],
        });
    }
    if !has_order && random.percent(25) {
        spec["startupPolicy"] = json!({"startupPolicyOrder": "InOrder"});
    }
    if random.percent(25) {
        spec["ttlSecondsAfterFinished"] = (*random.pick(&[0, 3, 6])).into();
    }
    (spec, roles, Vec::new(), suspend)
}

fn train_job(random: &mut Random) -> Made {
    let nodes = random.within(1, 3);
    let mut job =
        json!({"template": {"spec": pod_spec(random, "node", &[None, Some("Never"), Some("OnFailure")])}});
    if random.percent(70) {
        job["backoffLimit"] = random.within(0, 2).into();
    }
    let step = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let mut set = json!({"replicatedJobs": [
        {"name": "node", "template": {"metadata": {"labels": step}, "spec": job}},
    ]});
    if random.percent(45) {
        set["failurePolicy"] = json!({"maxRestarts": random.within(0, 2)});
    }
    let runtime = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "path": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/$NS/trainingruntimes",
        "metadata": {"name": "r", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": set}},
    });
    let mut spec = json!({"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}});
    let mut count = nodes;
    if random.percent(40) {
        count = random.within(1, 4);
        spec["trainer"] = json!({"numNodes": count});
    }
    if random.percent(25) {
        spec["activeDeadlineSeconds"] = random.within(6, 20).into();
    }
    (spec, vec![Role::new("node-0", count, true)], vec![runtime], suspend)
}

fn run_policy(random: &mut Random) -> Value {
    let mut policy = json!({});
    if random.percent(50) {
        policy["backoffLimit"] = random.within(0, 3).into();
    }
    if random.percent(50) {
        policy["cleanPodPolicy"] = (*random.pick(&["All", "Running", "None"])).into();
    }
    if random.percent(25) {
        policy["ttlSecondsAfterFinished"] = (*random.pick(&[0, 4, 6])).into();
    }
    if random.percent(25) {
        policy["activeDeadlineSeconds"] = random.within(6, 16).into();
    }
    policy
}

fn training(random: &mut Random, kind: &str) -> Made {
    let (field, container) = match kind {
        "PyTorchJob" => ("pytorchReplicaSpecs", "pytorch"),
        "TFJob" => ("tfReplicaSpecs", "tensorflow"),
        "XGBoostJob" => ("xgbReplicaSpecs", "xgboost"),
        "PaddleJob" => ("paddleReplicaSpecs", "paddle"),
        _ => ("jaxReplicaSpecs", "jax"),
    };
    let leader = match kind {
        "JAXJob" => None,
        // Without its chief, the first worker says how it ends.
        "TFJob" => random.percent(60).then_some("Chief"),
        "PyTorchJob" | "PaddleJob" => random.percent(80).then_some("Master"),
        _ => Some("Master"),
    };
    let mut counts: Vec<(&str, usize)> = leader.map(|leader| (leader, 1)).into_iter().collect();
    if kind == "TFJob" && random.percent(30) {
        counts.push(("PS", random.within(1, 2)));
    }
    counts.push(("Worker", random.within(1, 3)));
    let policies = [None, Some("Never"), Some("OnFailure"), Some("ExitCode"), Some("Always")];
    let shared = *random.pick(&policies);
    let (mut replicas, mut roles) = (json!({}), Vec::new());
    for (name, count) in counts {
        let template = json!({"spec": pod_spec(random, container, &[None])});
        let mut one = json!({"replicas": count, "template": template});
        let policy = if random.percent(80) { shared } else { *random.pick(&policies) };
        if let Some(policy) = policy {
            one["restartPolicy"] = policy.into();
        }
        replicas[name] = one;
        roles.push(Role::new(&name.to_lowercase(), count, Some(name) == leader));
    }
    let mut spec = json!({"runPolicy": run_policy(random)});
    spec[field] = replicas;
    if kind == "TFJob" && random.percent(30) {
        spec["successPolicy"] = "AllWorkers".into();
    }
    (spec, roles, Vec::new(), suspend_policy)
}

fn mpi_job(random: &mut Random) -> Made {
    let count = random.within(1, 3);
    let mut launcher = json!({"replicas": 1, "template": {"spec": pod_spec(random, "mpi", &[None])}});
    if random.percent(70) {
        launcher["restartPolicy"] = (*random.pick(&["Never", "OnFailure"])).into();
    }
    let worker = json!({"replicas": count, "template": {"spec": pod_spec(random, "mpi", &[None])}});
    let mut spec = json!({
        "slotsPerWorker": 1, "runPolicy": run_policy(random),
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
    });
    if random.percent(30) {
        spec["launcherCreationPolicy"] = "WaitForWorkersReady".into();
    }
    if random.percent(15) {
        spec["runLauncherAsWorker"] = true.into();
    }
    (
        spec,
        vec![Role::new("launcher", 0, true), Role::new("worker", count, false)],
        Vec::new(),
        suspend_policy,
    )
}

fn script(random: &mut Random, kind: &str, roles: &[Role], suspended: fn(bool) -> Value) -> Value {
    let mut entries = Vec::new();
    for _ in 0..random.within(1, 3) {
        entries.push(fault(random, roles));
    }
    let leads: Vec<&Role> = roles.iter().filter(|role| role.leads).collect();
    for role in &leads {
        entries.push(json!({"role": role.name, "run": seconds(random, 5, 14)}));
    }
    let serves = kind == "MPIJob" || (!leads.is_empty() && random.percent(30));
    entries.push(if serves { json!({"run": null}) } else { json!({"run": seconds(random, 3, 12)}) });
    match random.within(0, 9) {
        0 | 1 => {
            let at = random.within(2, 7);
            entries.push(json!({"at": half(at), "patch": suspended(true)}));
            let more = random.within(1, 6);
            entries.push(json!({"at": half(at + more), "patch": suspended(false)}));
        }
        2 => {
            let role = random.pick(roles);
            let on = match role.count {
                0 => format!("Pod/{}", role.name),
                count => format!("Pod/{}/{}", role.name, random.below(count)),
            };
            entries.push(json!({"at": half(random.within(3, 9)), "on": on, "delete": "Background"}));
        }
        3 if random.percent(50) => {
            let policy = random.pick(&["Background", "Foreground"]);
            entries.push(json!({"at": half(random.within(4, 12)), "delete": policy}));
        }
        _ => {}
    }
    entries.into()
}

/// Returns a moment in the middle of a second, where no controller counts.
fn half(second: usize) -> f64 {
    f64::from(u32::try_from(second).expect("a small number")) + 0.45
}

/// Returns a rule by which some pods of a role do not just run.
fn fault(random: &mut Random, roles: &[Role]) -> Value {
    let role = random.pick(roles);
    let mut rule = json!({"role": role.name, "run": seconds(random, 1, 9)});
    if role.count > 0 && random.percent(80) {
        rule["index"] = random.below(role.count).into();
    }
    if random.percent(80) {
        rule["attempt"] = if random.percent(60) { 0.into() } else { json!([0, random.within(1, 2)]) };
    }
    match random.within(0, 9) {
        0..=3 => rule["exit"] = (*random.pick(&[1, 2, 42, 130, 137])).into(),
        4..=6 => {
            let cause = *random.pick(&["evict", "preempt", "taint", "delete", "force", "kubelet", "lost"]);
            rule["disrupt"] = json!({"after": seconds(random, 1, 6), "cause": cause});
            rule["run"] = Value::Null;
            if random.percent(60) {
                let after = if random.percent(80) { json!(seconds(random, 0, 3)) } else { Value::Null };
                rule["term"] = json!({"after": after, "code": *random.pick(&[0, 1, 143])});
            }
        }
        7 => rule["start"] = json!(seconds(random, 1, 5)),
        8 => {
            rule["restarts"] = random.within(1, 2).into();
            rule["every"] = json!(seconds(random, 2, 4));
        }
        _ => rule["reject"] = true.into(),
    }
    rule
}
