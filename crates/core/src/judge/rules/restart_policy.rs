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
//! which require it, and in a Volcano job or RayJob. `OnFailure` restarts a failed container in the same pod,
//! with the same volumes. `Never` keeps the failed pod and its logs and creates another pod.
//!
//! ## Details
//!
//! An init container with `restartPolicy: Always` is a sidecar, which is fine. For a PyTorchJob the field of
//! the replica counts. It may be unset: the operator then uses `OnFailure`. The operator overwrites
//! `template.spec.restartPolicy` of a replica, so another word there gives a warning. The webhook denies these
//! objects at its mutating endpoint, with all other findings, because the API server rejects them before it
//! calls the validating one.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template>
//! * <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>

use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cel, Cx, Exportable, Kinds, Rule};
use crate::kinds::{Field, PodTemplate, Restart, Unset};
use crate::text::lines::cut;
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods that do not end".into(),
        summary: "Batch pods end: `restartPolicy` is `Never` or `OnFailure`".into(),
        kinds: Kinds::WithRestart,
        default: Action::Deny,
        // The API server refuses such a Job before it calls `/validate`.
        before_validate: true,
        export: Exportable::Cel(Cel {
            kinds: Kinds::Roles,
            params: &[],
            places: "\
[$roles.orValue({})].map(roles, roles
  .filter(name, type(roles[name]) == map && roles[name].?restartPolicy.orValue('') == 'Always')
  .map(name, $rolesPlace + '[' + name + '].restartPolicy'))[0]",
        }),
        ..Rule::new("restart-policy", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let ending = cx.workload.pods.iter().filter(|pod| ends_run(pod)).count();
    for pod in &cx.workload.pods {
        match pod.form.restart {
            Restart::OfTemplate { help, unset, always, .. } => {
                let others_end = ending > usize::from(ends_run(pod));
                let always = if others_end { "until other pods end the job" } else { always };
                check_template(cx, pod, (help, unset, always), others_end);
            }
            Restart::Beside { words, ignored, unset } => check_beside(cx, pod, (words, unset), ignored),
            Restart::Free => {}
        }
    }
}

/// Tells whether the end of a template's pods ends the run.
fn ends_run(pod: &PodTemplate<'_>) -> bool {
    matches!(pod.form.restart, Restart::OfTemplate { ends_run: Some(ends), .. } if ends(&pod.around))
}

fn check_template(
    cx: &mut Cx<'_>,
    pod: &PodTemplate<'_>,
    (help, unset, always): (&'static str, Unset, &str),
    others_end: bool,
) {
    let field = pod.spec.get("restartPolicy");
    let needs_never = cx.workload.run_of(pod).job_spec.as_ref().and_then(|spec| {
        ["podFailurePolicy", "backoffLimitPerIndex"].into_iter().find(|name| spec.get(name).is_set())
    });
    // With `OnFailure` no pod of a Volcano job fails, so that its policies never act.
    let is_never = needs_never.is_some() || (unset == Unset::Always && !cx.workload.kind.is_built_in());
    let policy = if is_never { "Never" } else { "OnFailure" };
    let fix = vec![Op::Add(field.pointer.clone(), policy.into())];
    match (field.text(), unset) {
        (Field::Unset, Unset::Always) => {
            let message = format!(
                "`restartPolicy` is not set, which means `Always`: a finished pod would run again, {always}"
            );
            if let Some(finding) = cx.missing(&field.pointer, message) {
                finding.help(help);
                if others_end {
                    finding.at_most(Level::Warn);
                }
                if pod.spec.own.is_mapping() {
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
                if pod.spec.own.is_mapping() {
                    finding.fix(Safety::Unsafe, fix);
                }
            }
        }
        // The operator's webhook may have written its default already.
        (Field::Set("OnFailure"), Unset::Is(_)) => {
            let Some(needs_never) = needs_never else { return };
            let message = format!(
                "`restartPolicy` is `OnFailure`: the API server refuses the Jobs, \
                 because `{needs_never}` needs `Never`"
            );
            cx.report(&field.pointer, message).help("write `restartPolicy: Never`").fix(Safety::Unsafe, fix);
        }
        (Field::Set("Always"), _) => {
            let message = format!("`restartPolicy` is `Always`: a finished pod would run again, {always}");
            let finding = cx.report(&field.pointer, message).help(help).fix(Safety::Unsafe, fix);
            if others_end {
                finding.at_most(Level::Warn);
            }
        }
        (Field::Set(_) | Field::Placeholder(_) | Field::Wrong, _) => {}
    }
}

fn check_beside(
    cx: &mut Cx<'_>,
    pod: &PodTemplate<'_>,
    (words, unset): (&[&str], &[(&str, &str)]),
    ignored: Option<&str>,
) {
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
    // The operator writes the same word.
    let by_default = || {
        let of_role = unset.iter().find(|(role, _)| *role == name).map(|(_, word)| *word);
        of_role.or(cx.workload.kind.retries.map(|retries| retries.unset))
    };
    let effective = match field.text() {
        Field::Set(word) => Some(word),
        Field::Unset => by_default(),
        Field::Placeholder(_) | Field::Wrong => None,
    };
    let is_same = effective.is_some_and(|word| overwritten.text() == Field::Set(word));
    if overwritten.is_set() && !is_same {
        let place = field.pointer.to_path();
        let message = "`restartPolicy` of the pod template has no effect: \
                       the operator overwrites it with the replica's";
        cx.report(&overwritten.pointer, message).at_most(Level::Warn).help(format!("set `{place}` instead"));
    }
}

/// The longest word to repeat: those that Kubernetes knows are shorter.
const MAX_WORD_BYTES: usize = 40;
