//! Batch pods end: `restartPolicy` is `Never` or `OnFailure`.
//!
//! ## Why
//!
//! With `restartPolicy: Always`, a container that has finished its work is started again, forever. `Always`
//! is the default of every pod, so an unset field means the same. The API server rejects both for Jobs and
//! CronJobs, but only after the mutating webhooks have run; Jobgate reports it together with all other
//! findings. The training operator accepts `Always` for a PyTorchJob replica and restarts the finished run.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Always
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400}
//!   pytorchReplicaSpecs:
//!     Master:
//!       replicas: 1
//!       restartPolicy: Always
//!       template:
//!         spec:
//!           containers: [{name: pytorch, image: "registry.example.com/trainer:v1"}]
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
//!   template:
//!     spec:
//!       restartPolicy: OnFailure
//!       initContainers: [{name: logs, image: "registry.example.com/logs:v1", restartPolicy: Always}]
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `OnFailure`, or `Never` if the Job has a `podFailurePolicy` or a `backoffLimitPerIndex`,
//! which require it. `OnFailure` restarts a failed container in the same pod, with the same volumes. `Never`
//! keeps the failed pod and its logs and creates another pod.
//!
//! ## Details
//!
//! An init container with `restartPolicy: Always` is a sidecar, which is fine. For a PyTorchJob the field of
//! the replica counts. It may be unset: the operator then uses `OnFailure`. The operator overwrites
//! `template.spec.restartPolicy` of a replica, so setting it gives a warning. The webhook denies these
//! objects at its mutating endpoint, with all other findings, because the API server rejects them before it
//! calls the validating one.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template>
//! * <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>

use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cel, Cx, Exportable, Fills, Kinds, Ratchet, Rule};
use crate::kinds::{Field, PodTemplate, Replica};
use crate::text::patch::Op;

pub(super) static RULE: Rule = Rule {
    id: "restart-policy",
    summary: "Batch pods end: `restartPolicy` is `Never` or `OnFailure`",
    kinds: Kinds::All,
    default: Action::Deny,
    fills: Fills::Nothing,
    params: &[],
    export: Exportable::Cel(Cel {
        kinds: Kinds::Roles,
        params: &[],
        places: "\
[$roles.orValue({})].map(roles, roles
  .filter(name, roles[name].?restartPolicy.orValue('') == 'Always')
  .map(name, $rolesPlace + '[' + name + '].restartPolicy'))[0]",
    }),
    check,
    restore: None,
    ratchet: Ratchet::BY_PLACE,
};

fn check(cx: &mut Cx<'_>) {
    for pod in &cx.workload.pods {
        match &pod.replica {
            Some(replica) => check_replica(cx, pod, replica),
            None => check_template(cx, pod),
        }
    }
}

fn check_template(cx: &mut Cx<'_>, pod: &PodTemplate<'_>) {
    let field = pod.spec.get("restartPolicy");
    let never = cx.workload.run_of(pod).job_spec.as_ref().is_some_and(|spec| {
        spec.get("podFailurePolicy").is_set() || spec.get("backoffLimitPerIndex").is_set()
    });
    let policy = if never { "Never" } else { "OnFailure" };
    let help = "write `restartPolicy: OnFailure` (restart a failed container in its pod) \
                or `restartPolicy: Never` (create a new pod instead)";
    let fix = vec![Op::Add(field.pointer.clone(), policy.into())];
    match field.text() {
        Field::Unset => {
            if let Some(finding) = cx.missing(
                &field.pointer,
                "`restartPolicy` is not set, which means `Always`: \
                 a finished pod would run again, and the API server refuses it",
            ) {
                finding.help(help);
                if pod.spec.is_mapping() {
                    finding.fix(Safety::Unsafe, fix);
                }
            }
        }
        Field::Set("Always") => {
            let message = "`restartPolicy` is `Always`: \
                           a finished pod would run again, and the API server refuses it";
            cx.report(&field.pointer, message).help(help).fix(Safety::Unsafe, fix);
        }
        Field::Set(_) | Field::Placeholder(_) | Field::Wrong => {}
    }
}

fn check_replica(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, replica: &Replica<'_>) {
    let field = replica.part.get("restartPolicy");
    if field.text() == Field::Set("Always") {
        cx.report(
            &field.pointer,
            format!("`restartPolicy` of `{}` is `Always`: a finished replica would run again", replica.name),
        )
        .help("write `restartPolicy: OnFailure`, `Never` or `ExitCode`")
        .fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), "OnFailure".into())]);
    }
    let ignored = pod.spec.get("restartPolicy");
    if ignored.is_set() {
        let place = field.pointer.to_path();
        let message = "`restartPolicy` of the pod template has no effect: \
                       the operator overwrites it with the replica's";
        cx.report(&ignored.pointer, message).at_most(Level::Warn).help(format!("set `{place}` instead"));
    }
}
