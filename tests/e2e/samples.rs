//! Small objects of each kind that operators bring: one that every rule is content with but for what the
//! webhook fills in, one that breaks rules, and what is to come of them.

use jobgate::text::value::{Value, json};

use crate::manifests::{asking, mounts, over, toleration};

/// The claim that objects which break rules mount; one node at a time can.
pub(crate) const CLAIM: &str = "checkpoints";

/// What a kind's objects look like, and what Jobgate says and does about them.
pub(crate) struct Sample {
    /// The resource and its group, as kubectl has it.
    pub(crate) resource: &'static str,
    make: fn(&Author) -> Value,
    /// What is denied of the object that breaks rules: rule and place.
    pub(crate) denied: &'static [&'static str],
    /// The rules that warn of the other object.
    pub(crate) warned: &'static [&'static str],
    /// What is filled in, however the object is written.
    pub(crate) fills: &'static [(&'static str, Fill)],
    /// What is filled in below a list: an apply sends a list as a whole, so not into an applied object.
    pub(crate) fills_in_lists: &'static [(&'static str, Fill)],
    /// Whether a server-side apply merges that list.
    pub(crate) list_merges: bool,
    /// Whether the operator rejects a change of that list.
    pub(crate) is_immutable: bool,
    /// Where an object is suspended.
    pub(crate) suspend: Option<&'static str>,
    /// Where its scale is.
    pub(crate) scale: Option<&'static str>,
    /// Whether it has a status of its own.
    pub(crate) has_status: bool,
    /// As whom its operator writes to the API server.
    pub(crate) operator: &'static str,
}

/// What is filled in.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    Ttl,
    Clean,
    Shutdown,
    Replacement,
    Tolerations,
}

/// What an author decides.
struct Author {
    limits: Value,
    restart: &'static str,
    pod: Value,
}

impl Author {
    fn good() -> Self {
        let pod = json!({"containers": asking("nvidia.com/gpu")});
        Self { limits: json!({"activeDeadlineSeconds": 3600}), restart: "Never", pod }
    }

    /// One who leaves little for others to fill in.
    fn full() -> Self {
        let limits = json!({"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 60});
        let own = json!({"key": "team", "operator": "Equal", "value": "fraud", "effect": "NoSchedule"});
        Self { limits, restart: "Never", pod: over(Self::bad().pod, json!({"tolerations": [own]})) }
    }

    fn bad() -> Self {
        let mut pod = mounts(CLAIM);
        pod["containers"][0]["resources"] = asking("nvidia.com/gpu")[0]["resources"].clone();
        Self { limits: json!({}), restart: "Always", pod }
    }

    /// A pod template that has its own restart policy.
    fn template(&self) -> Value {
        json!({"spec": over(self.pod.clone(), json!({"restartPolicy": self.restart}))})
    }

    /// Pods of one role, for operators that have the restart policy beside the template.
    fn role(&self, replicas: u32) -> Value {
        json!({"replicas": replicas, "restartPolicy": self.restart, "template": {"spec": self.pod}})
    }

    /// What makes a Job of two pods.
    fn job(&self) -> Value {
        over(self.limits.clone(), json!({"parallelism": 2, "completions": 2, "template": self.template()}))
    }

    fn kubeflow(&self, kind: &str, spec: Value) -> Value {
        let spec = over(json!({"runPolicy": self.limits}), spec);
        json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": spec})
    }

    /// A runtime: the deadline is that of a TrainJob.
    fn runtime(&self, kind: &str) -> Value {
        let mut job = self.job();
        job.as_object_mut().map(|job| job.remove("activeDeadlineSeconds"));
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "spec": {
            "mlPolicy": {"numNodes": 2},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]}},
        }})
    }
}

impl Fill {
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Ttl => json!(86400),
            Self::Clean => json!("Running"),
            Self::Shutdown => json!(true),
            Self::Replacement => json!("Failed"),
            Self::Tolerations => json!([toleration("nvidia.com/gpu")]),
        }
    }
}

impl Sample {
    /// An object that every rule is content with but for what the webhook fills in.
    pub(crate) fn good(&self, name: &str) -> Value {
        over((self.make)(&Author::good()), json!({"metadata": {"name": name}}))
    }

    /// An object that breaks rules.
    pub(crate) fn bad(&self, name: &str) -> Value {
        over((self.make)(&Author::bad()), json!({"metadata": {"name": name}}))
    }

    /// An object with much of what rules read.
    pub(crate) fn full(&self, name: &str) -> Value {
        over((self.make)(&Author::full()), json!({"metadata": {"name": name}}))
    }

    /// Returns what is filled into an object that is created.
    pub(crate) fn all_fills(&self) -> impl Iterator<Item = &(&'static str, Fill)> {
        self.fills.iter().chain(self.fills_in_lists)
    }
}

const TRAINING_OPERATOR: &str = "system:serviceaccount:kubeflow:training-operator";
const TRAINER: &str = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager";

const NOTHING: Sample = Sample {
    resource: "",
    make: |_| Value::Null,
    denied: &[],
    warned: &[],
    fills: &[],
    fills_in_lists: &[],
    list_merges: false,
    is_immutable: false,
    suspend: None,
    scale: None,
    has_status: true,
    operator: "",
};

/// The kinds in a namespace.
pub(crate) const SAMPLES: &[Sample] = &[
    Sample {
        resource: "mpijobs.kubeflow.org",
        make: |author| {
            let launcher = json!({"template": {"spec": {"containers": [{"name": "mpi", "image": "registry.example.com/mpi:1"}]}}});
            json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {
                "runPolicy": author.limits,
                "mpiReplicaSpecs": {"Launcher": launcher, "Worker": author.role(2)},
            }})
        },
        denied: &[
            "checkpoint-volume-access: spec.mpiReplicaSpecs[Worker].template.spec.volumes[0]",
            "deadline: spec.runPolicy.activeDeadlineSeconds",
        ],
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
            ("/spec/mpiReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
        ],
        suspend: Some("/spec/runPolicy/suspend"),
        operator: "system:serviceaccount:mpi-operator:mpi-operator",
        ..NOTHING
    },
    Sample {
        resource: "tfjobs.kubeflow.org",
        make: |author| {
            author.kubeflow(
                "TFJob",
                json!({"tfReplicaSpecs": {"PS": author.role(1), "Worker": author.role(2)}}),
            )
        },
        denied: &[
            "deadline: spec.runPolicy.activeDeadlineSeconds",
            "restart-policy: spec.tfReplicaSpecs[PS].restartPolicy",
            "checkpoint-volume-access: spec.tfReplicaSpecs[PS].template.spec.volumes[0]",
            "restart-policy: spec.tfReplicaSpecs[Worker].restartPolicy",
        ],
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
            ("/spec/tfReplicaSpecs/PS/template/spec/tolerations", Fill::Tolerations),
            ("/spec/tfReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
        ],
        suspend: Some("/spec/runPolicy/suspend"),
        operator: TRAINING_OPERATOR,
        ..NOTHING
    },
    Sample {
        resource: "jaxjobs.kubeflow.org",
        make: |author| author.kubeflow("JAXJob", json!({"jaxReplicaSpecs": {"Worker": author.role(2)}})),
        denied: &[
            "restart-policy: spec.jaxReplicaSpecs[Worker].restartPolicy",
            "checkpoint-volume-access: spec.jaxReplicaSpecs[Worker].template.spec.volumes[0]",
            "deadline: spec.runPolicy.activeDeadlineSeconds",
        ],
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
            ("/spec/jaxReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
        ],
        suspend: Some("/spec/runPolicy/suspend"),
        scale: Some("/spec/jaxReplicaSpecs/Worker/replicas"),
        operator: TRAINING_OPERATOR,
        ..NOTHING
    },
    Sample {
        resource: "xgboostjobs.kubeflow.org",
        make: |author| {
            author.kubeflow(
                "XGBoostJob",
                json!({"xgbReplicaSpecs": {"Master": author.role(1), "Worker": author.role(2)}}),
            )
        },
        denied: &[
            "deadline: spec.runPolicy.activeDeadlineSeconds",
            "restart-policy: spec.xgbReplicaSpecs[Master].restartPolicy",
            "checkpoint-volume-access: spec.xgbReplicaSpecs[Master].template.spec.volumes[0]",
            "restart-policy: spec.xgbReplicaSpecs[Worker].restartPolicy",
        ],
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
            ("/spec/xgbReplicaSpecs/Master/template/spec/tolerations", Fill::Tolerations),
            ("/spec/xgbReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
        ],
        suspend: Some("/spec/runPolicy/suspend"),
        operator: TRAINING_OPERATOR,
        ..NOTHING
    },
    Sample {
        resource: "paddlejobs.kubeflow.org",
        make: |author| {
            author.kubeflow("PaddleJob", json!({"paddleReplicaSpecs": {"Worker": author.role(2)}}))
        },
        denied: &[
            "restart-policy: spec.paddleReplicaSpecs[Worker].restartPolicy",
            "checkpoint-volume-access: spec.paddleReplicaSpecs[Worker].template.spec.volumes[0]",
            "deadline: spec.runPolicy.activeDeadlineSeconds",
        ],
        fills: &[
            ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
            ("/spec/paddleReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
        ],
        suspend: Some("/spec/runPolicy/suspend"),
        scale: Some("/spec/paddleReplicaSpecs/Worker/replicas"),
        operator: TRAINING_OPERATOR,
        ..NOTHING
    },
    Sample {
        resource: "jobsets.jobset.x-k8s.io",
        make: |author| {
            json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {
                "replicatedJobs": [{"name": "workers", "template": {"spec": author.job()}}],
            }})
        },
        denied: &[
            "restart-policy: spec.replicatedJobs[0].template.spec.template.spec.restartPolicy",
            "checkpoint-volume-access: spec.replicatedJobs[0].template.spec.template.spec.volumes[0]",
        ],
        fills: &[("/spec/ttlSecondsAfterFinished", Fill::Ttl)],
        fills_in_lists: &[
            ("/spec/replicatedJobs/0/template/spec/podReplacementPolicy", Fill::Replacement),
            ("/spec/replicatedJobs/0/template/spec/template/spec/tolerations", Fill::Tolerations),
        ],
        list_merges: true,
        is_immutable: true,
        suspend: Some("/spec/suspend"),
        operator: "system:serviceaccount:jobset-system:jobset-controller-manager",
        ..NOTHING
    },
    Sample {
        resource: "rayjobs.ray.io",
        make: |author| {
            let group = json!({"rayStartParams": {}, "template": {"spec": author.pod}});
            let workers = over(
                group.clone(),
                json!({"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}),
            );
            let spec = json!({
                "entrypoint": "python train.py",
                "rayClusterSpec": {"headGroupSpec": group, "workerGroupSpecs": [workers]},
                "submitterPodTemplate": {"spec": {"restartPolicy": author.restart, "containers": [{"name": "submit", "image": "registry.example.com/ray:2"}]}},
            });
            json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": over(author.limits.clone(), spec)})
        },
        denied: &[
            "deadline: spec.activeDeadlineSeconds",
            "checkpoint-volume-access: spec.rayClusterSpec.headGroupSpec.template.spec.volumes[0]",
            "restart-policy: spec.submitterPodTemplate.spec.restartPolicy",
        ],
        fills: &[
            ("/spec/shutdownAfterJobFinishes", Fill::Shutdown),
            ("/spec/rayClusterSpec/headGroupSpec/template/spec/tolerations", Fill::Tolerations),
        ],
        fills_in_lists: &[(
            "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/tolerations",
            Fill::Tolerations,
        )],
        suspend: Some("/spec/suspend"),
        operator: "system:serviceaccount:default:kuberay-operator",
        ..NOTHING
    },
    Sample {
        resource: "trainjobs.trainer.kubeflow.org",
        make: |author| {
            let spec = json!({"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}});
            json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": over(author.limits.clone(), spec)})
        },
        denied: &["deadline: spec.activeDeadlineSeconds"],
        suspend: Some("/spec/suspend"),
        operator: TRAINER,
        ..NOTHING
    },
    Sample {
        resource: "trainingruntimes.trainer.kubeflow.org",
        make: |author| author.runtime("TrainingRuntime"),
        ..RUNTIME
    },
    Sample {
        resource: "jobs.batch.volcano.sh",
        make: |author| {
            json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {
                "schedulerName": "volcano", "minAvailable": 2,
                "policies": [{"event": "PodFailed", "action": "TerminateJob"}],
                "tasks": [{"name": "worker", "replicas": 2, "template": over(author.template(), json!({"spec": author.limits}))}],
            }})
        },
        denied: &[
            "restart-policy: spec.tasks[0].template.spec.restartPolicy",
            "checkpoint-volume-access: spec.tasks[0].template.spec.volumes[0]",
        ],
        fills: &[("/spec/ttlSecondsAfterFinished", Fill::Ttl)],
        fills_in_lists: &[("/spec/tasks/0/template/spec/tolerations", Fill::Tolerations)],
        is_immutable: true,
        operator: "system:serviceaccount:volcano-system:volcano-controllers",
        ..NOTHING
    },
    Sample {
        resource: "appwrappers.workload.codeflare.dev",
        make: |author| {
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "wrapped"}, "spec": author.job()});
            json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": {"components": [{"template": job}]}})
        },
        denied: &[
            "deadline: spec.components[0].template.spec.activeDeadlineSeconds",
            "restart-policy: spec.components[0].template.spec.template.spec.restartPolicy",
            "checkpoint-volume-access: spec.components[0].template.spec.template.spec.volumes[0]",
        ],
        warned: &["pod-replacement-policy", "gpu-toleration"],
        suspend: Some("/spec/suspend"),
        operator: "system:serviceaccount:appwrapper-system:appwrapper-controller-manager",
        ..NOTHING
    },
    Sample {
        resource: "scaledjobs.keda.sh",
        make: |author| {
            let schedule =
                json!({"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "1"});
            json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "spec": {
                "jobTargetRef": author.job(), "triggers": [{"type": "cron", "metadata": schedule}],
            }})
        },
        denied: &[
            "deadline: spec.jobTargetRef.activeDeadlineSeconds",
            "restart-policy: spec.jobTargetRef.template.spec.restartPolicy",
            "checkpoint-volume-access: spec.jobTargetRef.template.spec.volumes[0]",
        ],
        fills: &[
            ("/spec/jobTargetRef/ttlSecondsAfterFinished", Fill::Ttl),
            ("/spec/jobTargetRef/podReplacementPolicy", Fill::Replacement),
            ("/spec/jobTargetRef/template/spec/tolerations", Fill::Tolerations),
        ],
        operator: "system:serviceaccount:keda:keda-operator",
        ..NOTHING
    },
];

const RUNTIME: Sample = Sample {
    // How many pods there will be is known from the jobs that refer to it.
    denied: &[
        "restart-policy: spec.template.spec.replicatedJobs[0].template.spec.template.spec.restartPolicy",
    ],
    fills_in_lists: &[
        ("/spec/template/spec/replicatedJobs/0/template/spec/podReplacementPolicy", Fill::Replacement),
        ("/spec/template/spec/replicatedJobs/0/template/spec/template/spec/tolerations", Fill::Tolerations),
    ],
    list_merges: true,
    has_status: false,
    operator: TRAINER,
    ..NOTHING
};

/// The kind that is in no namespace. Every Jobgate that is registered for it is called for all its objects.
pub(crate) const CLUSTER_TRAINING_RUNTIME: Sample = Sample {
    resource: "clustertrainingruntimes.trainer.kubeflow.org",
    make: |author| author.runtime("ClusterTrainingRuntime"),
    ..RUNTIME
};

/// MPIJobs of the training operator, which a cluster has instead of those of the MPI operator.
pub(crate) const OTHER_MPI_JOB: Sample = Sample {
    resource: "mpijobs.kubeflow.org",
    make: |author| {
        let roles = json!({"Launcher": author.role(1), "Worker": author.role(2)});
        author.kubeflow("MPIJob", json!({"mpiReplicaSpecs": roles}))
    },
    denied: &[
        "restart-policy: spec.mpiReplicaSpecs[Launcher].restartPolicy",
        "checkpoint-volume-access: spec.mpiReplicaSpecs[Launcher].template.spec.volumes[0]",
        "restart-policy: spec.mpiReplicaSpecs[Worker].restartPolicy",
        "deadline: spec.runPolicy.activeDeadlineSeconds",
    ],
    fills: &[
        ("/spec/runPolicy/ttlSecondsAfterFinished", Fill::Ttl),
        ("/spec/runPolicy/cleanPodPolicy", Fill::Clean),
        ("/spec/mpiReplicaSpecs/Launcher/template/spec/tolerations", Fill::Tolerations),
        ("/spec/mpiReplicaSpecs/Worker/template/spec/tolerations", Fill::Tolerations),
    ],
    suspend: Some("/spec/runPolicy/suspend"),
    operator: TRAINING_OPERATOR,
    ..NOTHING
};

/// Returns the sample of a resource.
pub(crate) fn sample(resource: &str) -> &'static Sample {
    SAMPLES.iter().find(|sample| sample.resource == resource).expect("a sample")
}
