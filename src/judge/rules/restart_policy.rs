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
use crate::kinds::{Field, PodTemplate, Restart, Unset};
use crate::text::lines::cut;
use crate::text::patch::Op;

pub(super) static RULE: Rule = Rule {
    id: "restart-policy",
    summary: "Batch pods end: `restartPolicy` is `Never` or `OnFailure`",
    kinds: Kinds::WithRestart,
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
    // How many end the run, once for all: there may be many.
    let ending = cx.workload.pods.iter().filter(|pod| ends_the_run(pod)).count();
    for pod in &cx.workload.pods {
        match pod.form.restart {
            Restart::OfTemplate { .. } => check_template(cx, pod, ending > usize::from(ends_the_run(pod))),
            Restart::Beside { words, ignored } => check_beside(cx, pod, words, ignored),
            Restart::Free => {}
        }
    }
}

/// Tells whether the end of these pods ends the run.
fn ends_the_run(pod: &PodTemplate<'_>) -> bool {
    matches!(pod.form.restart, Restart::OfTemplate { ends_otherwise: Some(ends), .. } if ends(&pod.around))
}

/// Checks a template; `ends` tells whether the end of others ends the run.
fn check_template(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, ends: bool) {
    let Restart::OfTemplate { help, unset, always, .. } = pod.form.restart else { return };
    let field = pod.spec.get("restartPolicy");
    let needs_never = cx.workload.run_of(pod).job_spec.as_ref().and_then(|spec| {
        ["podFailurePolicy", "backoffLimitPerIndex"].into_iter().find(|name| spec.get(name).is_set())
    });
    let policy = if needs_never.is_some() { "Never" } else { "OnFailure" };
    let fix = vec![Op::Add(field.pointer.clone(), policy.into())];
    match (field.text(), unset) {
        (Field::Unset, Unset::Always) => {
            let message = format!(
                "`restartPolicy` is not set, which means `Always`: a finished pod would run again, {always}"
            );
            if let Some(finding) = cx.missing(&field.pointer, message) {
                finding.help(help);
                if ends {
                    finding.at_most(Level::Warn);
                }
                if pod.spec.is_mapping() {
                    finding.fix(Safety::Unsafe, fix);
                }
            }
        }
        (Field::Unset, Unset::Is(word)) => {
            let Some(needs_never) = needs_never.filter(|_| word != "Never") else { return };
            let message = format!(
                "`restartPolicy` is not set, which means `{word}` here: \
                 the API server refuses the Jobs, because `{needs_never}` needs `Never`"
            );
            if let Some(finding) = cx.missing(&field.pointer, message) {
                finding.help("write `restartPolicy: Never`");
                if pod.spec.is_mapping() {
                    finding.fix(Safety::Unsafe, fix);
                }
            }
        }
        (Field::Set("Always"), _) => {
            let message = format!("`restartPolicy` is `Always`: a finished pod would run again, {always}");
            let finding = cx.report(&field.pointer, message).help(help).fix(Safety::Unsafe, fix);
            if ends {
                finding.at_most(Level::Warn);
            }
        }
        (Field::Set(_) | Field::Placeholder(_) | Field::Wrong, _) => {}
    }
}

fn check_beside(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, words: &[&str], ignored: Option<&str>) {
    let field = pod.around.get("restartPolicy");
    let name = pod.role().unwrap_or_default();
    let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let message = match (field.text(), ignored) {
        (Field::Set("Always"), None) => {
            Some(format!("`restartPolicy` of `{name}` is `Always`: a finished replica would run again"))
        }
        (Field::Set(word), Some(ignored)) if !word.is_empty() && !words.contains(&word) => {
            Some(format!("`restartPolicy` of `{name}` is `{}`: {ignored}", cut(word, MAX_WORD_BYTES, "…")))
        }
        _ => None,
    };
    if let Some(message) = message {
        let finding = cx.report(&field.pointer, message);
        if let Some((last, others)) = listed.split_last() {
            finding
                .help(format!("write `restartPolicy: {}", &format!("{} or {last}", others.join(", "))[1..]));
        }
        finding.fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), "OnFailure".into())]);
        if ignored.is_some() {
            finding.at_most(Level::Warn);
        }
    }
    let overwritten = pod.spec.get("restartPolicy");
    if overwritten.is_set() {
        let place = field.pointer.to_path();
        let message = "`restartPolicy` of the pod template has no effect: \
                       the operator overwrites it with the replica's";
        cx.report(&overwritten.pointer, message).at_most(Level::Warn).help(format!("set `{place}` instead"));
    }
}

/// The longest word to repeat: those that Kubernetes knows are shorter.
const MAX_WORD_BYTES: usize = 40;
