//! Retries that a manifest asks for take place.
//!
//! ## Why
//!
//! A run of days counts on its retries, and finds out at its first failure that there are none: torchrun exits with 1
//! whatever has failed, which `restartPolicy: ExitCode` takes for good; a drained pod fails a TFJob with `OnFailure`; and
//! `maxRetry: 1` of a Volcano job is one run, and no retry.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy:
//!     activeDeadlineSeconds: 86400
//!     cleanPodPolicy: Running
//!     ttlSecondsAfterFinished: 86400
//!   pytorchReplicaSpecs:
//!     Master:
//!       replicas: 1
//!       restartPolicy: ExitCode
//!       template: &pod
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, train.py]
//!     Worker:
//!       replicas: 3
//!       restartPolicy: ExitCode
//!       template: *pod
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
//!     backoffLimit: 12
//!     cleanPodPolicy: Running
//!     ttlSecondsAfterFinished: 86400
//!   pytorchReplicaSpecs:
//!     Master:
//!       replicas: 1
//!       restartPolicy: OnFailure
//!       template: &pod
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, train.py]
//!     Worker:
//!       replicas: 3
//!       restartPolicy: OnFailure
//!       template: *pod
//! ```
//!
//! ## Fix
//!
//! None: how often a run may start again is up to the author.
//!
//! ## Details
//!
//! What is reported is what the model of `jobgate simulate` says of the incident, as the operators were seen to act.
//!
//! **kubeflow.org** (training operator 1.9).
//!
//! * `restartPolicy: ExitCode` starts a pod again after an exit code of 128 or more. A container whose last command is
//!   torchrun exits with 1, whatever a worker exited with, so that nothing starts again.
//! * `backoffLimit` counts restarts. With `Never`, the default of TFJob, JAXJob and XGBoostJob, the first failed pod ends the
//!   job whatever the limit.
//! * It counts the restarts of all pods together: where the pods are one run, all restart with the one that fails, and a
//!   limit of no more than their number ends the job at the first failure. Not in a TFJob with parameter servers.
//! * A pod that is deleted, by a drain, a preemption or somebody, fails a TFJob with any `restartPolicy`, and an XGBoostJob
//!   with `OnFailure`. So does a lower number of `replicas`: a warning on UPDATE. A note otherwise, since no field of a TFJob
//!   changes it.
//!
//! **Volcano** (1.15).
//!
//! * `maxRetry` is the number of runs: with 1, `RestartJob` ends the job at the first failure.
//! * Every action that restarts counts, of all pods together: with `RestartPod` and `maxRetry: 3`, the third failure of any
//!   pod ends the job. A note where there are more pods than that.
//!
//! **RayJob** (KubeRay 1.7). `submitterConfig.backoffLimit` repeats the submission. A program that fails is not submitted
//! again: that is `backoffLimit`, with a new cluster each time. A note where only the first is set.
//!
//! ## References
//!
//! * <https://github.com/kubeflow/trainer/issues/2045>
//! * <https://github.com/kubeflow/trainer/issues/2000>
//! * <https://github.com/volcano-sh/volcano/issues/2560>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::commands::{CommandLine, Launch};
use crate::judge::finding::{Level, Part as FindingPart, Place};
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::request::Operation;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::quoted;
use crate::kinds::{Attempts, Field, LifecyclePolicy, Part, PodTemplate, Retries, RunsCounted, Submitter};
use crate::text::lines::cut;
use crate::text::patch::Op;
use crate::text::shell::After;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Retries that do not take place".into(),
        summary: "Retries that a manifest asks for take place".into(),
        kinds: Kinds::AsksForRetries,
        default: Action::Warn,
        incident: Some(FAILS),
        export: Exportable::No("it reads commands, and asks the model of the operators"),
        ..Rule::new("retries-take-effect", check)
    }
}

/// A pod fails.
const FAILS: Incident = Incident::Exit(1);

/// How many failures a limit survives that the help advises.
const SURVIVED: i64 = 3;

/// The longest name of a role to repeat.
const MAX_ROLE_BYTES: usize = 40;

/// Actions of a policy that run pods again.
const RESTARTS: [&str; 4] = ["RestartJob", "RestartPartition", "RestartPod", "RestartTask"];

fn check(cx: &mut Cx<'_>) {
    let kind = cx.workload.kind;
    if let Some(retries) = kind.retries {
        of_roles(cx, retries);
    }
    if let Some(counted) = kind.runs_counted {
        of_runs(cx, counted);
    }
    if let Some(submitter) = kind.submitter {
        of_submitter(cx, submitter);
    }
}

/// Tells whether the model says that the job fails.
fn fails(told: &Forecast) -> bool {
    told.outcome.ending == Ending::Fails
}

fn named(pod: &PodTemplate<'_>) -> String {
    cut(pod.role().unwrap_or_default(), MAX_ROLE_BYTES, "…").escape_debug().to_string()
}

/// Checks the roles of a job of the training operator.
fn of_roles<'a>(cx: &mut Cx<'a>, retries: Retries) {
    let workload = cx.workload;
    let word = |pod: &PodTemplate<'a>| match pod.around.get("restartPolicy").text() {
        Field::Set(word) if !word.is_empty() => Some(word),
        Field::Unset | Field::Set(_) => Some(retries.unset),
        Field::Placeholder(_) | Field::Wrong => None,
    };
    let roles = workload.pods.iter().enumerate().filter(|(_, pod)| pod.around.is_mapping());
    let Some(roles) = roles.map(|(index, pod)| Some((index, word(pod)?))).collect::<Option<Vec<_>>>() else { return };
    if let Some(role) = roles.iter().find(|(index, word)| *word == "ExitCode" && runs_torch(cx, *index)) {
        by_exit_code(cx, role.0, &roles);
    }
    let is_failed = |(_, word): &&(usize, &str)| retries.fails_when_deleted.contains(word);
    if let Some(role) = roles.iter().find(is_failed) {
        when_deleted(cx, *role, retries);
    }
    let limit = workload.limits.get(retries.field);
    if let Field::Set(1..) = limit.int() {
        of_limit(cx, &limit, &roles);
    }
}

/// Returns the operations that write a `restartPolicy` into the roles that have another one.
fn with_policy(cx: &Cx<'_>, roles: &[(usize, &str)], from: &[&str], to: &'static str) -> Vec<Op> {
    let of = roles.iter().filter(|(_, word)| from.contains(word));
    of.filter_map(|(index, _)| cx.workload.pods[*index].around.set("restartPolicy", to.into())).collect()
}

/// Returns the launcher with whose exit code a container ends, if that is 1 whatever has failed.
fn ends_with_one<'l>(line: &'l CommandLine<'_>) -> Option<Launch<'l>> {
    let is_last = |launch: &Launch<'_>| {
        let command = launch.command;
        let last = line.shells.first().map_or(line.commands.last(), |shell| line.commands.get(shell.last?));
        let is_plain = matches!(command.after, After::End | After::Next) && command.place.depth == 0;
        is_plain && (command.exec || last.is_some_and(|last| std::ptr::eq(last, command)))
    };
    let is_read = !line.unread && !line.left_out && line.shells.len() <= 1;
    line.launches().find(|launch| is_read && launch.launcher.is_torch() && launch.is_certain() && is_last(launch))
}

/// Tells whether a container of a role ends with the exit code of torchrun.
fn runs_torch(cx: &Cx<'_>, index: usize) -> bool {
    cx.commands(index).containers.iter().any(|line| ends_with_one(line).is_some())
}

/// Reports a role that starts again after codes that its program never exits with.
fn by_exit_code(cx: &mut Cx<'_>, index: usize, roles: &[(usize, &str)]) {
    let lines = cx.commands(index);
    let Some((line, launch)) = lines.containers.iter().find_map(|line| Some((line, ends_with_one(line)?))) else {
        return;
    };
    let policy = cx.workload.pods[index].around.get("restartPolicy");
    let mut retried = with_policy(cx, roles, &["ExitCode"], "OnFailure");
    retried.extend(without_limit(cx));
    let told = cx.forecast_object(index, FAILS, None);
    if told.as_ref().is_some_and(|told| !fails(told))
        || told.is_some() && cx.forecast_object_after(index, FAILS, None, &retried).is_some_and(|told| fails(&told))
    {
        return;
    }
    let role = named(&cx.workload.pods[index]);
    let command = quoted(&launch.command.words);
    let message = format!(
        "`restartPolicy: ExitCode` starts no pod of `{role}` again: {command} exits with 1 whatever has failed, and only codes \
         from 128 on are retried"
    );
    let place = launch.command.words.first().map(|program| (line.place(program), line.part(program)));
    let finding = cx.report(&policy.pointer, message);
    finding.help("write `restartPolicy: OnFailure`, and a `backoffLimit`");
    if let Some((at, part)) = place {
        finding.label(Place::Here(at, part), "what the exit code is of");
    }
}

/// Returns the operation that makes the limit of restarts, if there is one, as high as it can be.
fn without_limit(cx: &Cx<'_>) -> Option<Op> {
    let limit = cx.workload.limits.get(cx.workload.kind.retries?.field);
    limit.is_set().then(|| Op::Replace(limit.pointer, i64::from(i32::MAX).into()))
}

/// Reports a role whose pods are not made again when they are deleted.
fn when_deleted(cx: &mut Cx<'_>, (index, word): (usize, &str), retries: Retries) {
    let workload = cx.workload;
    let pod = &workload.pods[index];
    let policy = pod.around.get("restartPolicy");
    let (role, kind) = (named(pod), workload.kind.as_str());
    let replicas = pod.around.get("replicas");
    let before = cx.request.old.and_then(|old| replicas.pointer.find(old)?.as_i64());
    if let (Operation::Update, Field::Set(now), Some(before)) = (cx.request.operation, replicas.int(), before)
        && now < before
        && !workload.has_finished()
    {
        let message = format!("pods of `{role}` that are taken away fail the {kind}, whatever its `restartPolicy`");
        cx.report(&replicas.pointer, message).help("keep the number, or let the job end first");
    }
    // What the kind says of it is held to the model (`judge::lifecycle`).
    let helps = !retries.fails_when_deleted.contains(&"ExitCode");
    let message = format!(
        "`restartPolicy: {word}` starts failed containers of `{role}` again, but a pod that a drain deletes fails the {kind}"
    );
    if let Some(finding) = cx.report_field(&policy, message) {
        finding.about(Incident::Drain).at_most(Level::Note).help(if helps {
            "write `restartPolicy: ExitCode`, with which a pod that ends with a code of 128 or more is made again"
        } else {
            "no field changes that: keep drains away from its nodes, or create the job again from its checkpoint"
        });
    }
}

/// Reports a limit of restarts that the first failure is beyond, or that counts nothing.
fn of_limit(cx: &mut Cx<'_>, limit: &Part<'_>, roles: &[(usize, &str)]) {
    let workload = cx.workload;
    let retries = limit.int().set().unwrap_or_default();
    let name = workload.kind.retries.map_or("", |retries| retries.field);
    if let Some((index, _)) = roles.first().copied().filter(|_| roles.iter().all(|(_, word)| *word == "Never")) {
        if cx.forecast_object(index, FAILS, None).is_some_and(|told| !fails(&told)) {
            return;
        }
        let policy = workload.pods[index].around.get("restartPolicy");
        let is = if policy.is_set() { "" } else { ", the default" };
        let message =
            format!("`{name}: {retries}` retries nothing: with `restartPolicy: Never`{is}, the first failed pod ends the job");
        cx.report(&limit.pointer, message).help("write `restartPolicy: OnFailure`, or remove the limit");
        return;
    }
    // Workers that work by themselves, each with the parameter servers.
    if workload.pods.iter().any(|pod| pod.role() == Some("PS")) {
        return;
    }
    let more: Vec<Op> = without_limit(cx).into_iter().collect();
    let failed = roles.iter().find_map(|(index, _)| {
        let told = cx.forecast_object(*index, FAILS, None).filter(|told| fails(told) && told.why.is_some())?;
        let after = cx.forecast_object_after(*index, FAILS, None, &more)?;
        (!fails(&after)).then_some(told)
    });
    let Some(told) = failed.filter(|told| i64::from(told.at_once) >= retries) else { return };
    let pods = told.at_once;
    let message = format!(
        "`{name}: {retries}` counts the restarts of all {pods} pods, which restart together: the first failure ends the \
         job, with no retry"
    );
    let enough = i64::from(pods).saturating_mul(SURVIVED) + 1;
    cx.report(&limit.pointer, message).help(format!("write `{name}: {enough}`, with which it survives {SURVIVED}"));
}

/// Reports a number of runs that leaves none for a restart, or that pods share.
fn of_runs(cx: &mut Cx<'_>, counted: RunsCounted) {
    let workload = cx.workload;
    let Some(policies) = workload.kind.policies else { return };
    let field = workload.object.at(counted.at);
    let Some(runs) = field.int().or_default(counted.unset).map(|runs| if runs == 0 { counted.unset } else { runs }) else {
        return;
    };
    let name = counted.at.last().copied().unwrap_or_default();
    let of_tasks = workload.pods.iter().map(|pod| pod.around.get(policies.of_task));
    let lists: Vec<Part<'_>> = of_tasks.chain([workload.object.at(policies.at)]).collect();
    let restarts = |policy: &LifecyclePolicy<'_>, actions: &[&str]| actions.contains(&policy.action().unwrap_or_default());
    let first = |actions: &[&str]| {
        lists.iter().find_map(|list| Some((list, LifecyclePolicy::all_in(list).find(|policy| restarts(policy, actions))?)))
    };
    if runs == 1 {
        let Some((list, policy)) = first(&RESTARTS) else { return };
        let (action, at) = (policy.action().unwrap_or_default(), policy.field(list, "action").pointer);
        let message = format!("`{name}: 1` is one run, and no restart: `{action}` ends the job");
        cx.report(&field.pointer, message)
            .help("write 2 for one restart")
            .label(Place::Here(at, FindingPart::Value), "restarts nothing");
        return;
    }
    let Some((list, policy)) = first(&["RestartPod", "RestartTask", "RestartPartition"]) else { return };
    let pods = workload.pods.iter().try_fold(0_i64, |all, pod| Some(all.saturating_add(pod.count.most?)));
    let Some(pods) = pods.filter(|pods| *pods > runs) else { return };
    let (action, at) = (policy.action().unwrap_or_default(), policy.field(list, "action").pointer);
    let by_default = if field.is_set() { "" } else { ", the default" };
    let message = format!(
        "`{name}` ({runs}{by_default}) counts the failures of all {pods} pods together: at failure {runs} of any of them, \
         `{action}` ends the job"
    );
    if let Some(finding) = cx.report_field(&field, message) {
        finding
            .at_most(Level::Note)
            .help(format!("write `{name}: {}` for as many as each pod once", pods.saturating_add(1)))
            .label(Place::Here(at, FindingPart::Value), "counts for all pods");
    }
}

/// Notes retries of the submission where the work has none.
fn of_submitter(cx: &mut Cx<'_>, submitter: Submitter) {
    let workload = cx.workload;
    let field = workload.object.at(submitter.retries);
    let Field::Set(retries @ 1..) = field.int() else { return };
    if (workload.kind.attempts)(&workload.object) != Attempts::Times(1) {
        return;
    }
    let path = field.pointer.to_path();
    let message =
        format!("`{path}` ({retries}) repeats the submission: a program that fails is not run again");
    cx.report(&field.pointer, message)
        .at_most(Level::Note)
        .help("write `backoffLimit` in `spec` to run it again, with a new cluster each time");
}

#[cfg(test)]
mod tests {
    use crate::judge::engine::{self, Operation, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::text::value::{Value, json};

    fn found(old: Option<&Value>, object: &Value) -> Vec<(String, String)> {
        let policy = Policy::default().with_only(|id| id == "retries-take-effect");
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let request = Request { operation, old, ..Request::from_file(object, None) };
        let findings = engine::evaluate(&policy, &NoFacts, &request).findings;
        findings.iter().map(|finding| (finding.path.to_path(), finding.level.as_str().to_owned())).collect()
    }

    fn job(kind: &str, roles: &str, replicas: i64, restart: &str) -> Value {
        let containers = json!([{"name": "c", "image": "i", "command": ["python", "train.py"]}]);
        let worker = json!({"replicas": replicas, "restartPolicy": restart, "template": {"spec": {"containers": containers}}});
        let mut spec = json!({});
        spec[roles] = json!({"Worker": worker});
        json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "j"}, "spec": spec})
    }

    /// The recordings `q-sc42-…` of the training operator.
    #[test]
    fn fewer_workers_fail_only_the_kinds_that_were_seen_to_fail() {
        for (kind, roles, fails) in [
            ("TFJob", "tfReplicaSpecs", true),
            ("XGBoostJob", "xgbReplicaSpecs", true),
            ("PyTorchJob", "pytorchReplicaSpecs", false),
            ("JAXJob", "jaxReplicaSpecs", false),
            ("PaddleJob", "paddleReplicaSpecs", false),
        ] {
            let [four, two] = [4, 2].map(|replicas| job(kind, roles, replicas, "OnFailure"));
            let warned = |old, new| {
                let path = format!("spec.{roles}[Worker].replicas");
                found(old, new).contains(&(path, "warn".to_owned()))
            };
            assert_eq!(warned(Some(&four), &two), fails, "{kind}");
            assert!(!warned(Some(&two), &four) && !warned(None, &two), "{kind}");
        }
    }

    /// The recordings `k-KIND-POLICY-taint` of the training operator.
    #[test]
    fn a_drain_is_noted_where_it_was_seen_to_fail_the_job() {
        for (kind, roles, restart, fails) in [
            ("TFJob", "tfReplicaSpecs", "OnFailure", true),
            ("TFJob", "tfReplicaSpecs", "ExitCode", true),
            ("PyTorchJob", "pytorchReplicaSpecs", "OnFailure", false),
            ("PyTorchJob", "pytorchReplicaSpecs", "ExitCode", false),
            ("JAXJob", "jaxReplicaSpecs", "OnFailure", false),
            ("PaddleJob", "paddleReplicaSpecs", "OnFailure", false),
        ] {
            let told = found(None, &job(kind, roles, 1, restart));
            assert_eq!(!told.is_empty(), fails, "{kind} {restart}: {told:?}");
        }
    }
}
