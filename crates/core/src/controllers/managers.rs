//! The values of `managedBy` that controllers take for their own.

/// The Job controller of Kubernetes.
pub(crate) const JOB: &str = "kubernetes.io/job-controller";
/// JobSet.
pub(crate) const JOB_SET: &str = "jobset.sigs.k8s.io/jobset-controller";
/// Trainer.
pub(crate) const TRAINER: &str = "trainer.kubeflow.org/trainjob-controller";
/// training-operator.
pub(crate) const TRAINING: &str = "kubeflow.org/training-operator";
/// mpi-operator.
pub(crate) const MPI: &str = "kubeflow.org/mpi-operator";
/// KubeRay.
pub(crate) const RAY: &str = "ray.io/kuberay-operator";
/// MultiKueue, which runs objects of all these kinds in other clusters.
pub(crate) const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";
