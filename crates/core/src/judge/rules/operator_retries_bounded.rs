//! Retries of an operator have a bound: `backoffLimit` is set.
//!
//! ## Why
//!
//! The training operator has no limit of retries of its own: without `backoffLimit`, a container that fails
//! is started again, forever. So is one of a Volcano job with `OnFailure`. A script that stops at an import error then holds all GPUs of the job, and
//! trains nothing, until someone looks.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 4
//!       restartPolicy: OnFailure
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy:
//!     activeDeadlineSeconds: 86400
//!     backoffLimit: 15
//!     cleanPodPolicy: Running
//!     ttlSecondsAfterFinished: 86400
//!   pytorchReplicaSpecs:
//!     Master:
//!       replicas: 1
//!       restartPolicy: OnFailure
//!       template:
//!         spec:
//!           containers: [{name: pytorch, image: "registry.example.com/trainer:v1"}]
//!     Worker:
//!       replicas: 4
//!       restartPolicy: OnFailure
//!       template:
//!         spec:
//!           containers: [{name: pytorch, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: adds `backoffLimit`, three for each pod of the job. Only the author knows how many failures a run
//! can take: an elastic job on spot nodes may restart a hundred times and still be fine.
//!
//! ## Details
//!
//! **Training operator.** Kinds of `kubeflow.org/v1`, where a role has the `restartPolicy` `OnFailure` or
//! `Always`. It is `OnFailure` where a PyTorchJob or PaddleJob does not set it, and `Never` in the other
//! kinds. An MPIJob of `kubeflow.org/v2beta1` is not reported: its launcher is a Job, with a limit of 6.
//!
//! The number does not count attempts of the job. It counts the restarts of containers in pods that run, over
//! all pods together. When one crash brings down all 16 pods of a job, a limit of 3 ends the job at the first
//! crash. A pod that was evicted, and created again, starts from 0.
//!
//! With `restartPolicy: ExitCode` a limit above 0 has no effect: the operator creates pods anew after an exit
//! code of 128 or more, and a new pod has no restarts. A note says so; only a deadline ends such a job.
//! `elasticPolicy.maxRestarts` is no bound either: torchrun restarts its processes so many times in one
//! container, and the container is then started again.
//!
//! **Volcano.** With `restartPolicy: OnFailure` in a pod template the node restarts a container that fails, and Volcano
//! (1.15) takes notice of that only for a policy with `event: TaskFailed` (or `*`), which acts when the pods of a task
//! have restarted `maxRetry` times. Without one, neither `maxRetry` nor a policy for `PodFailed` ends the job. An
//! `activeDeadlineSeconds` of the pods does: then it is a note.
//!
//! The finding is a note where no accelerator waits, or where a deadline ends the job
//! (`runPolicy.activeDeadlineSeconds`). Nothing is reported where Kueue's label
//! `kueue.x-k8s.io/max-exec-time-seconds` is set. Ignore the rule for a job that must survive any number of
//! failures, and give it a deadline.
//!
//! ## References
//!
//! * <https://github.com/kubeflow/trainer/issues/2045>
//! * <https://github.com/kubeflow/trainer/issues/2342>
//! * <https://github.com/volcano-sh/volcano/issues/1099>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::commands::PodCommands;
use crate::judge::cost::FIELD;
use crate::judge::container_end::waits;
use crate::judge::finding::{Level, Safety, listed};
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Ratchet, Rule};
use crate::judge::servers::serves;
use crate::judge::simulation::name_of;
use crate::kinds::{Field, InPlace, PodTemplate, Retries, Workload};
use crate::text::lines::cut;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Retries without a bound".into(),
        summary: "Retries of an operator have a bound: `backoffLimit` is set".into(),
        kinds: Kinds::WithRetries,
        default: Action::Warn,
        export: Exportable::No(
            "which role restarts, and what else bounds it, depends on more than CEL says well",
        ),
        ratchet: Ratchet { labels: &[KUEUE_MAX_EXEC_TIME], measure: None },
        ..Rule::new("operator-retries-bounded", check)
    }
}

/// The number of restarts that the fix allows for each pod.
pub(super) const RESTARTS_PER_POD: i64 = 3;

/// What makes the bound matter: a program that fails whenever it starts.
const LOOPS: Incident = Incident::CrashLoop;

/// The longest name of a role to repeat: those that operators know are shorter.
const MAX_ROLE_BYTES: usize = 40;

/// Kueue suspends a workload that runs longer than this label allows.
const KUEUE_MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// The roles of an object, by how the operator handles their failed pods.
#[derive(Default)]
struct Roles<'a> {
    /// Roles whose containers are restarted.
    restarted: Vec<&'a str>,
    /// Roles whose pods are recreated after some exit codes.
    by_exit_code: Vec<&'a str>,
}

impl<'a> Roles<'a> {
    fn new(workload: &Workload<'a>, retries: Retries) -> Self {
        let mut roles = Self::default();
        for pod in workload.pods.iter().filter(|pod| pod.around.is_mapping()) {
            let role = pod.role().unwrap_or_default();
            let word = match pod.around.get("restartPolicy").text() {
                Field::Set(word) if !word.is_empty() => word,
                Field::Unset | Field::Set(_) => retries.unset,
                Field::Placeholder(_) | Field::Wrong => continue,
            };
            match word {
                "OnFailure" | "Always" => roles.restarted.push(role),
                "ExitCode" => roles.by_exit_code.push(role),
                _ => {}
            }
        }
        roles
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let labels = workload.inside.as_ref().unwrap_or(&workload.object).at(&["metadata", "labels"]);
    if labels.get(KUEUE_MAX_EXEC_TIME).is_set() {
        return;
    }
    if let Some(in_place) = workload.kind.in_place {
        restarts_in_place(cx, in_place);
    }
    let Some(retries) = workload.kind.retries else { return };
    let roles = Roles::new(workload, retries);
    let field = workload.limits.get(retries.field);
    let has_deadline = workload.deadline().is_set();
    let holds = workload.pods.iter().any(PodTemplate::holds_accelerators);
    match field.int() {
        Field::Unset if !roles.restarted.is_empty() => {
            unbounded(cx, retries, &roles, (holds, has_deadline));
        }
        Field::Set(1..) if roles.restarted.is_empty() && !roles.by_exit_code.is_empty() => {
            let message = format!(
                "`{}` has no effect: with `restartPolicy: ExitCode` the pods of {} are created anew, \
                 and it counts restarts of containers",
                retries.field,
                named(&roles.by_exit_code),
            );
            cx.report(&field.pointer, message)
                .at_most(Level::Note)
                .help(format!("set `{}`, which ends the job", workload.kind.deadline_name()));
        }
        _ => {}
    }
}

/// Tells whether a pod only serves, or waits for somebody to use it: that it starts again is meant.
fn is_server(pod: &PodCommands<'_>) -> bool {
    pod.containers.iter().any(|line| {
        line.commands.iter().any(|command| serves(command).is_some()) || waits(line).is_some()
    })
}

/// Reports pods whose node restarts their containers, and in which nothing counts that.
fn restarts_in_place(cx: &mut Cx<'_>, in_place: InPlace) {
    let workload = cx.workload;
    let restarts = |at: &usize| {
        let pod = &workload.pods[*at];
        pod.spec.get("restartPolicy").text() == Field::Set("OnFailure")
            && !(in_place.bounded)(&workload.object, &pod.around)
            && !is_server(cx.commands(*at))
    };
    let all: Vec<usize> = (0..workload.pods.len()).filter(restarts).collect();
    let has_deadline = |at: usize| workload.pods[at].spec.get(FIELD).is_set();
    let first = |test: &dyn Fn(usize) -> bool| all.iter().copied().find(|at| test(*at));
    // The others wait for it.
    let is_held = (0..workload.pods.len()).any(|at| !has_deadline(at) && workload.pods[at].holds_accelerators());
    let endless = first(&|at| !has_deadline(at));
    let holds = endless.is_some() && is_held;
    let Some(index) = endless.or_else(|| first(&|_| true)) else { return };
    // Something else may end it.
    let ends = |told: Forecast| told.outcome.ending != Ending::RunsOn;
    if !has_deadline(index) && cx.forecast_object(index, LOOPS, None).is_some_and(ends) {
        return;
    }
    let pod = &workload.pods[index];
    let until = match (holds, endless) {
        (true, _) => "without end, while the job holds its accelerators",
        (false, Some(_)) => "without end",
        (false, None) => "until the deadline of its pod",
    };
    let of = match name_of(pod) {
        "" => "a task".to_owned(),
        name => named(&[name]),
    };
    let list = in_place.at.last().copied().unwrap_or_default();
    let message =
        format!("nothing in `{list}` counts restarts (`OnFailure`), so a failing container of {of} is restarted {until}");
    let finding = cx.report(&pod.spec.get("restartPolicy").pointer, message);
    finding.about(LOOPS).help(format!("write `restartPolicy: Never` and a policy with `event: PodFailed`, or add {}", in_place.remedy));
    if !holds {
        finding.at_most(Level::Note);
    }
}

fn unbounded(cx: &mut Cx<'_>, retries: Retries, roles: &Roles<'_>, (holds, has_deadline): (bool, bool)) {
    let workload = cx.workload;
    let until = match (has_deadline, holds) {
        (true, _) => "until the deadline",
        (false, true) => "without end, and holds its accelerators",
        (false, false) => "without end",
    };
    let message = format!(
        "`{}` is not set, so a failing {} is restarted {until}",
        retries.field,
        named(&roles.restarted)
    );
    let pods = workload
        .pods
        .iter()
        .try_fold(0_i64, |all, pod| pod.count.most.map(|most| all.saturating_add(most.max(0))));
    let limit =
        pods.filter(|pods| *pods > 0).map(|pods| pods.saturating_mul(RESTARTS_PER_POD).min(i32::MAX.into()));
    let number = limit.map(|limit| format!(": {limit}")).unwrap_or_default();
    let mut help = format!(
        "write `{}{number}`, {RESTARTS_PER_POD} for each pod: \
         it counts the restarts of containers over all pods",
        retries.field
    );
    if !roles.by_exit_code.is_empty() {
        help += &format!(", but none of {} (`ExitCode`)", named(&roles.by_exit_code));
    }
    let field = workload.limits.get(retries.field);
    let fix = limit.and_then(|limit| workload.limits.set(retries.field, limit.into()));
    let Some(finding) = cx.missing(&field.pointer, message) else { return };
    finding.help(help);
    if !holds || has_deadline {
        finding.at_most(Level::Note);
    }
    if let Some(fix) = fix {
        finding.fix(Safety::Unsafe, vec![fix]);
    }
}

/// Returns roles for a sentence: "`Master` or `Worker`".
fn named(roles: &[&str]) -> String {
    const MAX_ROLES: usize = 4;
    let names: Vec<String> = roles
        .iter()
        .take(MAX_ROLES)
        .map(|role| format!("`{}`", cut(role, MAX_ROLE_BYTES, "…").escape_debug()))
        .collect();
    listed(&names, "or")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::ratchet::level_after_update;
    use crate::text::value::{Value, json};

    #[test]
    fn a_bound_by_kueue_cannot_be_taken_away_by_its_label() {
        let job = |labels: Value| {
            let limits = json!({"limits": {"nvidia.com/gpu": 1}});
            let pod = json!({"containers": [{"name": "pytorch", "image": "i", "resources": limits}]});
            let roles = json!({"Worker": {"replicas": 2, "template": {"spec": pod}}});
            let spec = json!({"pytorchReplicaSpecs": roles});
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"labels": labels}, "spec": spec})
        };
        let (bound, bare) = (job(json!({KUEUE_MAX_EXEC_TIME: "60"})), job(json!({"team": "a"})));
        let after = |old, new| level_after_update("operator-retries-bounded", old, new);
        assert_eq!(after(&bound, &bare), Some(Level::Deny));
        assert_eq!(after(&bare, &bare), Some(Level::Warn), "it was so before");
        assert_eq!(after(&bare, &bound), None);
    }
}
