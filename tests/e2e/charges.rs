//! What real operators are given to run: an object of each kind, what Jobgate fills into it, and what the
//! operator makes of it.

mod given;

use jobgate::text::value::{Value, json};

use crate::manifests::{asking, over, toleration};

/// A kind, with an object of it that runs.
pub(crate) struct Charge {
    /// What scenarios are called after.
    pub(crate) name: &'static str,
    /// The operator that runs it.
    pub(crate) operator: &'static str,
    /// The resource and its group, as kubectl has it.
    pub(crate) resource: &'static str,
    make: fn(&str) -> Value,
    /// What must be there before it, with the same name.
    needs: Option<fn(&str) -> Value>,
    /// What is filled in when it is created: the places, and the values.
    pub(crate) fills: &'static [(&'static str, Filled)],
    /// What is filled into what it needs.
    pub(crate) fills_before: &'static [(&'static str, Filled)],
    /// The condition that is true in the end, or the state that it is then in.
    pub(crate) ends: &'static str,
    /// The places of what its operator itself writes into it while it runs.
    pub(crate) sets: &'static [&'static str],
    /// A condition that no object of a resource may come to.
    pub(crate) never: Option<(&'static str, &'static str)>,
    /// Whether it runs until it is deleted: in the end its pods run on.
    pub(crate) serves: bool,
    /// Whether Jobgate is asked about it; if not, it is stored as it is written.
    pub(crate) judged: bool,
    /// What its pods do; all others run for a second.
    pub(crate) script: fn() -> serde_json::Value,
    /// How many pods it has.
    pub(crate) pods: usize,
    /// The objects besides pods that operators make of it, directly or not.
    pub(crate) children: &'static [Child],
    /// What is taken out of it for a child to be denied.
    pub(crate) spoilt: Spoilt,
    /// The kinds that are exempt from the rule that denies the child, so that they get that far.
    pub(crate) exempt: &'static [&'static str],
    /// The object of which an event says that the child was denied; `{}` is its name.
    pub(crate) tells: &'static str,
}

/// A field that every part of an object has, and what is said of a child without it.
pub(crate) struct Spoilt {
    pub(crate) field: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) said: &'static str,
}

const NO_DEADLINE: Spoilt =
    Spoilt { field: "activeDeadlineSeconds", rule: "deadline", said: "deadline: spec.activeDeadlineSeconds" };

/// What an operator makes of an object, besides pods.
pub(crate) struct Child {
    /// The resource, as kubectl has it.
    pub(crate) resource: &'static str,
    /// The operator that makes it.
    pub(crate) operator: &'static str,
    pub(crate) comes: Comes,
}

/// What Jobgate does with a child.
#[derive(Clone, Copy)]
pub(crate) enum Comes {
    /// It is not asked about this kind.
    Unasked,
    /// It admits what the parent already has everything for.
    AsItIs,
    /// It fills this in, since it does not know the kind of the parent.
    Filled(&'static [(&'static str, Filled)]),
}

const fn child(resource: &'static str, operator: &'static str) -> Child {
    Child { resource, operator, comes: Comes::AsItIs }
}

/// What is filled in.
#[derive(Clone, Copy)]
pub(crate) enum Filled {
    Ttl,
    Clean,
    Replacement,
    Shutdown,
    Tolerations,
}

impl Filled {
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Ttl => json!(86400),
            Self::Clean => json!("Running"),
            Self::Replacement => json!("Failed"),
            Self::Shutdown => json!(true),
            Self::Tolerations => json!([toleration("nvidia.com/gpu")]),
        }
    }
}

impl Charge {
    pub(crate) fn object(&self, name: &str) -> Value {
        over((self.make)(name), json!({"metadata": {"name": name}}))
    }

    pub(crate) fn needed(&self, name: &str) -> Option<Value> {
        self.needs.map(|make| over(make(name), json!({"metadata": {"name": name}})))
    }

    /// Returns all objects in the order in which they are made.
    pub(crate) fn all(&self, name: &str) -> Vec<Value> {
        self.needed(name).into_iter().chain([self.object(name)]).collect()
    }

    /// Returns the spec of an object without what its operator writes into it.
    pub(crate) fn written(&self, object: &Value) -> Value {
        let mut spec = object["spec"].clone();
        for place in self.sets {
            let (parent, key) = place.rsplit_once('/').expect("a place");
            if let Some(parent) = spec.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(key);
            }
        }
        spec
    }

    /// Tells whether its operator suspends it when it is made, and lets it run later.
    pub(crate) fn is_queued(&self) -> bool {
        self.sets.contains(&"/suspend")
    }

    /// Returns all objects without a field wherever they have it.
    pub(crate) fn all_spoilt(&self, name: &str) -> Vec<Value> {
        fn remove(value: &mut Value, field: &str) {
            match value {
                Value::Object(map) => {
                    map.retain(|key, _| key != field);
                    map.values_mut().for_each(|value| remove(value, field));
                }
                Value::Array(items) => items.iter_mut().for_each(|value| remove(value, field)),
                _ => {}
            }
        }
        let mut objects = self.all(name);
        objects.iter_mut().for_each(|object| remove(object, self.spoilt.field));
        objects
    }

    /// Returns it as kubectl names it: `jobsets.jobset.x-k8s.io/j`.
    pub(crate) fn what(&self, name: &str) -> String {
        format!("{}/{name}", self.resource)
    }
}

fn gpu_containers(name: &str) -> Value {
    let mut containers = asking("nvidia.com/gpu");
    containers[0]["name"] = json!(name);
    containers
}

fn role(replicas: u32, container: &str) -> Value {
    let pod = json!({"containers": gpu_containers(container)});
    json!({"replicas": replicas, "restartPolicy": "OnFailure", "template": {"spec": pod}})
}

/// The template of a Job of two pods, with everything written that JobSet's webhook writes into it: a
/// client-side apply takes a list as it is in the manifest, so that what is missing there is a change, of what
/// JobSet rejects (`completionMode`) or not (the empty `metadata`).
fn job() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": gpu_containers("trainer")});
    let spec = json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0,
        "activeDeadlineSeconds": 3600, "template": {"metadata": {}, "spec": pod},
    });
    json!({"metadata": {}, "spec": spec})
}

fn limits() -> Value {
    json!({"activeDeadlineSeconds": 3600})
}

fn a_second() -> serde_json::Value {
    serde_json::json!([{"start": 0.3, "run": 1}])
}

/// Returns all charges.
pub(crate) fn charges() -> impl Iterator<Item = &'static Charge> {
    CHARGES.iter().chain(given::CHARGES)
}

static CHARGES: &[Charge] = &[
    Charge {
        name: "jobset",
        operator: "jobset",
        resource: "jobsets.jobset.x-k8s.io",
        make: |_| {
            json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {
                "replicatedJobs": [{"name": "workers", "replicas": 2, "template": job()}],
            }})
        },
        needs: None,
        fills: &[
            ("/spec/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/replicatedJobs/0/template/spec/podReplacementPolicy", Filled::Replacement),
            ("/spec/replicatedJobs/0/template/spec/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Completed",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        script: a_second,
        pods: 4,
        children: &[child("jobs", "jobset")],
        spoilt: NO_DEADLINE,
        exempt: &["JobSet"],
        tells: "jobset/{}",
    },
    Charge {
        name: "pytorchjob",
        operator: "training-operator",
        resource: "pytorchjobs.kubeflow.org",
        make: |_| {
            let roles = json!({"Master": role(1, "pytorch"), "Worker": role(2, "pytorch")});
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"runPolicy": limits(), "pytorchReplicaSpecs": roles}})
        },
        needs: None,
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Filled::Clean),
            ("/spec/pytorchReplicaSpecs/Master/template/spec/tolerations", Filled::Tolerations),
            ("/spec/pytorchReplicaSpecs/Worker/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Succeeded",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        script: a_second,
        pods: 3,
        children: &[],
        spoilt: NO_DEADLINE,
        exempt: &[],
        tells: "",
    },
    Charge {
        name: "tfjob",
        operator: "training-operator",
        resource: "tfjobs.kubeflow.org",
        make: |_| {
            let roles = json!({"PS": role(1, "tensorflow"), "Worker": role(2, "tensorflow")});
            json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": {"runPolicy": limits(), "tfReplicaSpecs": roles}})
        },
        needs: None,
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Filled::Clean),
            ("/spec/tfReplicaSpecs/PS/template/spec/tolerations", Filled::Tolerations),
            ("/spec/tfReplicaSpecs/Worker/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Succeeded",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        // A parameter server serves until it is told to end.
        script: || serde_json::json!([{"role": "ps", "run": null}, {"start": 0.3, "run": 1}]),
        pods: 3,
        children: &[],
        spoilt: NO_DEADLINE,
        exempt: &[],
        tells: "",
    },
    Charge {
        name: "trainjob",
        operator: "trainer",
        resource: "trainjobs.trainer.kubeflow.org",
        make: |name| {
            json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {
                "activeDeadlineSeconds": 3600,
                "runtimeRef": {"kind": "TrainingRuntime", "name": name}, "trainer": {"numNodes": 2},
            }})
        },
        needs: Some(|_| {
            let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
            let pod = json!({"restartPolicy": "Never", "containers": gpu_containers("node")});
            let job = json!({"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}});
            json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "spec": {
                "mlPolicy": {"numNodes": 1, "torch": {}},
                "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
            }})
        }),
        fills: &[],
        fills_before: &[
            ("/spec/template/spec/replicatedJobs/0/template/spec/podReplacementPolicy", Filled::Replacement),
            (
                "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/tolerations",
                Filled::Tolerations,
            ),
        ],
        ends: "Complete",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        script: a_second,
        pods: 2,
        children: &[child("jobsets", "trainer"), child("jobs", "jobset")],
        spoilt: NO_DEADLINE,
        exempt: &["TrainJob", "TrainingRuntime", "JobSet"],
        tells: "jobset/{}",
    },
    Charge {
        name: "mpijob",
        operator: "mpi-operator",
        resource: "mpijobs.kubeflow.org",
        make: |_| {
            let launcher = json!({"containers": [{"name": "mpi", "image": "registry.example.com/mpi:1"}]});
            let roles = json!({
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": launcher}},
                "Worker": role(2, "mpi"),
            });
            json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {"runPolicy": limits(), "mpiReplicaSpecs": roles}})
        },
        needs: None,
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Filled::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Filled::Clean),
            ("/spec/mpiReplicaSpecs/Worker/template/spec/tolerations", Filled::Tolerations),
        ],
        fills_before: &[],
        ends: "Succeeded",
        sets: &[],
        never: None,
        serves: false,
        judged: true,
        // Workers run until the launcher has ended.
        script: || serde_json::json!([{"role": "worker", "run": null}, {"start": 0.6, "run": 1}]),
        pods: 3,
        children: &[child("jobs", "mpi-operator")],
        spoilt: NO_DEADLINE,
        exempt: &["MPIJob"],
        tells: "mpijob/{}",
    },
];
