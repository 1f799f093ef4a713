//! The kinds that Jobgate judges: where their run limits and pods are, and how many pods run at once.
//!
//! A kind is a [`Definition`] in its own file; a [`Workload`] is an object as rules see it. To add a kind,
//! write its file and list it below.

pub mod accelerator;
mod accelerator_count;
mod claims;
mod colocation;
mod count;
mod definition;
mod field;
mod kind;
mod lifecycle;
mod other_kinds;
mod pod;
mod pods;
mod policies;
pub mod registration;
mod resource;
mod variables;
mod workload;

pub use accelerator_count::{AcceleratorCount, Unit};
pub(crate) use claims::OwnClaim;
pub(crate) use colocation::{Among, HOSTNAME, on_one_node, on_several_nodes};
pub(crate) use count::PodCount;
pub use definition::{
    Api, CUSTOM, Children, Definition, Finished, Hosts, LabelValue, Made, Mounted, OnUpdate, Operator,
    OwnClaims, Ranks, Reference, Retired,
};
pub use field::{Field, Part, Path};
pub(crate) use field::{text_in, whole};
pub(crate) use kind::titles;
pub use kind::{Kind, NotAdded, add};
pub use lifecycle::{
    Attempts, Borrowed, Choice, Deadline, Disruption, History, InPlace, Leak, Policies, Release, Released,
    Retries, RunsCounted, Submitter, Ttl, Wait,
};
pub use other_kinds::others;
pub use other_kinds::{
    Likeness, each_inside, has_batch_pod, has_pod, is_batch_group, is_no_batch, is_of_other_version,
    is_other, looks_like_batch, meant, successor,
};
pub use pod::{ClaimUse, Container, PodSpec, PodTemplate};
pub use pods::{
    ContainerField, ContainerSlot, Count, EACH, Elastic, Entry, Pods, Restart, TEMPLATE, Template, Times,
    Unset, each_at,
};
pub(crate) use policies::LifecyclePolicy;
pub use resource::ApiResource;
pub use workload::{Bare, Run, Workload};

macro_rules! kinds {
    ($($file:ident $definition:ident)*) => {
        $(mod $file;)*
        /// All kinds, in the order in which they are listed.
        static BUILT_IN: &[&Definition] = &[$(&$file::$definition),*];
    };
}

kinds! {
    job JOB
    cron_job CRON_JOB
    py_torch_job PY_TORCH_JOB
    mpi_job MPI_JOB
    mpi_job_v1 MPI_JOB_V1
    tf_job TF_JOB
    jax_job JAX_JOB
    xg_boost_job XG_BOOST_JOB
    paddle_job PADDLE_JOB
    job_set JOB_SET
    ray_job RAY_JOB
    train_job TRAIN_JOB
    training_runtime TRAINING_RUNTIME
    cluster_training_runtime CLUSTER_TRAINING_RUNTIME
    volcano_job VOLCANO_JOB
    app_wrapper APP_WRAPPER
    scaled_job SCALED_JOB
    hyper_pod_py_torch_job HYPER_POD_PY_TORCH_JOB
}
