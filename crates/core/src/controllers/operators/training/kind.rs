//! The five kinds, as a table.

use super::spec::ReplicaRestart;

/// What one kind has that others do not.
#[derive(Debug)]
pub(super) struct Kind {
    /// `kind`.
    pub(super) name: &'static str,
    /// The field of `spec` with the replicas.
    pub(super) field: &'static str,
    /// The container whose exit code counts.
    pub(super) container: &'static str,
    /// The types of replicas, each with what its pods are called.
    pub(super) types: &'static [(&'static str, &'static str)],
    /// `restartPolicy` where nobody says it.
    pub(super) restart: ReplicaRestart,
    /// How its status follows from its pods.
    pub(super) rule: StatusRule,
    /// Whether it is left alone where `managedBy` names another controller. JAXJob is not (`jax/jaxjob_controller.go`).
    pub(super) minds_manager: bool,
    /// Whether `managedBy` is what it was: the webhook of PyTorchJob compares the new object with itself.
    pub(super) keeps_manager: bool,
    /// Whether its master, where there is one, is exactly one.
    pub(super) has_one_master: bool,
}

/// How the status of a job follows from its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusRule {
    /// The master decides, or all workers do; a failed pod restarts the job (`UpdateJobStatus` of PyTorchJob, PaddleJob
    /// and JAXJob, which has no master).
    Workers,
    /// Chief or master, or worker 0; any failed pod fails the job (TFJob).
    Chief,
    /// The master decides; a failed pod fails the job but under `ExitCode` (XGBoostJob).
    Master,
}

const MASTER: (&str, &str) = ("Master", "master");
const WORKER: (&str, &str) = ("Worker", "worker");

/// The table, with the defaults of `pkg/apis/kubeflow.org/v1/*_defaults.go`.
static KINDS: [Kind; 5] = [
    Kind {
        name: "JAXJob",
        field: "jaxReplicaSpecs",
        container: "jax",
        types: &[WORKER],
        restart: ReplicaRestart::Never,
        rule: StatusRule::Workers,
        minds_manager: false,
        keeps_manager: false,
        has_one_master: false,
    },
    Kind {
        name: "PaddleJob",
        field: "paddleReplicaSpecs",
        container: "paddle",
        types: &[MASTER, WORKER],
        restart: ReplicaRestart::OnFailure,
        rule: StatusRule::Workers,
        minds_manager: true,
        keeps_manager: true,
        has_one_master: false,
    },
    Kind {
        name: "PyTorchJob",
        field: "pytorchReplicaSpecs",
        container: "pytorch",
        types: &[MASTER, WORKER],
        restart: ReplicaRestart::OnFailure,
        rule: StatusRule::Workers,
        minds_manager: true,
        keeps_manager: false,
        has_one_master: true,
    },
    Kind {
        name: "TFJob",
        field: "tfReplicaSpecs",
        container: "tensorflow",
        // In the order in which the status is made up.
        types: &[("Chief", "chief"), ("Evaluator", "evaluator"), MASTER, ("PS", "ps"), WORKER],
        restart: ReplicaRestart::Never,
        rule: StatusRule::Chief,
        minds_manager: true,
        keeps_manager: true,
        has_one_master: false,
    },
    Kind {
        name: "XGBoostJob",
        field: "xgbReplicaSpecs",
        container: "xgboost",
        types: &[MASTER, WORKER],
        restart: ReplicaRestart::Never,
        rule: StatusRule::Master,
        minds_manager: true,
        keeps_manager: true,
        has_one_master: true,
    },
];

impl Kind {
    /// Returns the row of a kind.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}
