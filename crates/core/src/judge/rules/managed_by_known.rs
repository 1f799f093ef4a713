//! Somebody runs what `managedBy` hands over: it names a controller that is known.
//!
//! ## Why
//!
//! With `managedBy`, a Job is left to another controller, such as that of MultiKueue, and the usual one never looks at
//! it. The API server takes any name in the right form. If nobody has the name, nothing happens: there is no pod, no
//! condition and no event, the deadline does not run, and the field cannot be changed. The Job waits until somebody
//! notices that it does nothing.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   managedBy: kueue.x-k8s.io/multikeue
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   managedBy: kueue.x-k8s.io/multikueue
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes the name that was probably meant, if one differs by a typo or two, or only in its domain. A running
//! object must be deleted and made again: the API server refuses to change the field.
//!
//! ## Details
//!
//! Known are the controller of the kind and those of the parameter `managers`. Each kind has its own:
//!
//! * Job, also in a CronJob, JobSet, ScaledJob or training runtime: `kubernetes.io/job-controller`
//! * JobSet: `jobset.sigs.k8s.io/jobset-controller`
//! * TrainJob: `trainer.kubeflow.org/trainjob-controller`
//! * TFJob, XGBoostJob, PaddleJob: `kubeflow.org/training-operator`
//! * MPIJob `v2beta1`: `kubeflow.org/mpi-operator`
//! * RayJob: `ray.io/kuberay-operator`
//!
//! The name of another kind's controller is not known here: the training operator does not run Jobs. RayJob and
//! TrainJob have a schema that refuses every name but their own and `kueue.x-k8s.io/multikueue`, and a webhook of the
//! training operator does so for its kinds. Of a PyTorchJob that is an error of `training-operator`. JAXJob is run
//! whatever the field says, so it is not looked at.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#delegation-of-managing-a-job-object-to-external-controller>
//! * <https://kueue.sigs.k8s.io/docs/concepts/multikueue/>

use crate::controllers::managers;
use crate::judge::finding::Safety;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule, Strings};
use crate::judge::training::quote;
use crate::kinds::{Field, Part};
use crate::text::patch::Op;
use crate::text::placeholder::is_to_replace;
use crate::text::suggest::{closest, is_slip};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Controller that nobody knows".into(),
        summary: "Somebody runs what `managedBy` hands over: it names a controller that is known".into(),
        kinds: Kinds::Managed,
        default: Action::Note,
        params: &[MANAGERS.0],
        export: Exportable::No("a policy has the list of controllers"),
        ..Rule::new("managed-by-known", check)
    }
}

const MANAGERS: Strings = Strings::new(
    "managers",
    "Controllers, besides that of the kind, that run what names them in `managedBy`.",
    &[managers::MULTI_KUEUE],
);

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if let Some(own) = workload.kind.manager {
        named(cx, &workload.limits.get("managedBy"), own);
    }
    for pod in workload.pods.iter().filter(|pod| pod.form.is_job()) {
        named(cx, &pod.around.get("managedBy"), managers::JOB);
    }
}

fn named(cx: &mut Cx<'_>, field: &Part<'_>, own: &'static str) {
    let Field::Set(name) = field.text() else { return };
    let known = || std::iter::once(own).chain(cx.strings(&MANAGERS));
    if name.is_empty() || is_to_replace(name) || known().any(|known| known == name) {
        return;
    }
    let path = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    // Where only the domain is another one, or by a typo or two, nothing else can be meant.
    let meant = known().find(|known| is_slip(name, known) || path(known) == path(name));
    let similar = meant.or_else(|| closest(name, known()));
    let message =
        format!("`managedBy` is {}, which no known controller has: nobody makes the pods", quote(name));
    let help = similar.map_or_else(
        || format!("remove it, so that `{own}` runs it, or add the controller to the parameter `managers`"),
        |similar| format!("did you mean `{similar}`?"),
    );
    let finding = cx.report(&field.pointer, message).help(help);
    if let Some(meant) = meant {
        finding.fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), meant.into())]);
    }
}
