//! A job whose pods all succeed is complete.
//!
//! ## Why
//!
//! The operators of batch kinds let a manifest say what an end means, and some of what it may say turns success into
//! failure: a policy for every event starts a Volcano job again when its work is done, and after `maxRetry` runs the job
//! has failed, with three times the GPU hours. Nothing in the logs of the pods shows why.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch.volcano.sh/v1alpha1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   schedulerName: volcano
//!   ttlSecondsAfterFinished: 86400
//!   policies:
//!   - {event: "*", action: RestartJob}
//!   tasks:
//!   - name: worker
//!     replicas: 4
//!     template:
//!       spec:
//!         activeDeadlineSeconds: 86400
//!         restartPolicy: Never
//!         containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch.volcano.sh/v1alpha1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   schedulerName: volcano
//!   ttlSecondsAfterFinished: 86400
//!   policies:
//!   - {events: [PodFailed, PodEvicted], action: RestartJob}
//!   tasks:
//!   - name: worker
//!     replicas: 4
//!     template:
//!       spec:
//!         activeDeadlineSeconds: 86400
//!         restartPolicy: Never
//!         containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `events: [PodFailed, PodEvicted]` instead of `event: "*"`, where the job is then complete. The event
//! `Unknown`, that pods of the job cannot be scheduled any more, is among those of `*` as well.
//!
//! ## Details
//!
//! What is reported of policies is what the model of `jobgate simulate` says of a run in which nothing happens. Volcano
//! 1.15 and JobSet 0.12 were seen to do it.
//!
//! * **Volcano**: a policy for `TaskCompleted`, or for `*`, which covers it, whose action restarts, terminates or aborts;
//!   and a `minSuccess` above the number of pods, with which the job fails though all of them have succeeded.
//! * **JobSet**: an entry of `replicatedJobs` that has its own name in `dependsOn`. The webhook of JobSet accepts that, and
//!   no pod of it is ever made.
//! * **TFJob**: workers with `replicas: 0` beside a chief. The training operator (1.9) makes one and deletes it, and the
//!   job has failed, in each of five recordings.
//!
//! ## References
//!
//! * <https://volcano.sh/en/docs/vcjob/>
//! * <https://jobset.sigs.k8s.io/docs/concepts/>

use crate::controllers::story::Ending;
use crate::judge::finding::Safety;
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{Field, LifecyclePolicy, Part, PodTemplate, Policies};
use crate::text::patch::Op;
use crate::text::value::json;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Success that does not complete the job".into(),
        summary: "A job whose pods all succeed is complete".into(),
        kinds: Kinds::OwnPods,
        default: Action::Warn,
        export: Exportable::No("it asks the model of the operators"),
        ..Rule::new("success-completes-job", check)
    }
}

/// The event that all pods of a task have succeeded.
const SUCCESS: &str = "TaskCompleted";

/// Actions with which a job that succeeded is not complete.
const ENDS: [&str; 2] = ["AbortJob", "TerminateJob"];
const RESTARTS: [&str; 4] = ["RestartJob", "RestartPartition", "RestartPod", "RestartTask"];

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if let Some(name) = (workload.kind.waits_for_itself)(&workload.object) {
        let message = "it waits for itself, so its pods are never created, and the set never ends";
        cx.report(&name.pointer, message).help("remove it, or name an entry before it");
    }
    if let Some(policies) = workload.kind.policies {
        of_policies(cx, policies);
    }
    if let Some(role) = workload.kind.never_without {
        without_pods(cx, role);
    }
}

/// Tells whether a run in which all succeed is not complete, as far as the model knows.
fn is_lost(told: Option<&Forecast>) -> bool {
    told.is_some_and(|told| told.outcome.ending != Ending::Completes)
}

/// Reports policies for the success of a task that take it back.
fn of_policies(cx: &mut Cx<'_>, policies: Policies) {
    let workload = cx.workload;
    let of_tasks = workload.pods.iter().map(|pod| pod.around.get(policies.of_task));
    let lists: Vec<Part<'_>> = of_tasks.chain([workload.object.at(policies.at)]).collect();
    let takes_back = |policy: &LifecyclePolicy<'_>| {
        let action = policy.action().unwrap_or_default();
        policy.covers(SUCCESS) && (ENDS.contains(&action) || RESTARTS.contains(&action))
    };
    let found = lists.iter().find_map(|list| Some((list, LifecyclePolicy::all_in(list).find(takes_back)?)));
    let least = workload.object.at(policies.least);
    let all = workload.pods.iter().try_fold(0_i64, |all, pod| Some(all.saturating_add(pod.count.most?)));
    let is_too_many = matches!((least.int(), all), (Field::Set(least), Some(all)) if least > all);
    if found.is_none() && !is_too_many {
        return;
    }
    let told = cx.forecast_undisturbed();
    if !is_lost(told.as_ref()) {
        return;
    }
    if is_too_many {
        let message = format!(
            "the job fails though all its pods have succeeded: there are {}",
            all.unwrap_or_default()
        );
        cx.report(&least.pointer, message).help("write at most as many as there are pods");
    }
    let Some((list, policy)) = found else { return };
    let (event, action) = (policy.field(list, "event"), policy.action().unwrap_or_default());
    let name = if policy.is_for(&[SUCCESS]) { SUCCESS } else { "*" };
    let covers = if name == "*" { format!("`*` covers `{SUCCESS}`") } else { format!("`{SUCCESS}` is success") };
    let ends = match told.map(|told| told.outcome.ending) {
        Some(Ending::Fails) => "in the end the job fails",
        _ => "the job never ends",
    };
    let message = if ENDS.contains(&action) {
        format!("{covers}: when the pods of a task have succeeded, `{action}` ends the job, which is not complete")
    } else {
        format!("{covers}: when the pods of a task have succeeded, `{action}` starts them again, and {ends}")
    };
    let events = json!(["PodFailed", "PodEvicted"]);
    let place = policy.part(list).pointer;
    let ops = vec![Op::Remove(event.pointer.clone()), Op::Add(&place / "events", events)];
    let is_fix = name == "*" && event.text() == Field::Set("*") && !policy.field(list, "events").is_set();
    let completes = |told: Forecast| told.outcome.ending == Ending::Completes;
    let is_fix = is_fix && cx.forecast_undisturbed_after(&ops).is_some_and(completes);
    let at = if event.is_set() { event.pointer } else { policy.field(list, "events").pointer };
    let finding = cx.report(&at, message);
    if is_fix {
        finding.help("write `events: [PodFailed, PodEvicted]`").fix(Safety::Unsafe, ops);
    } else {
        finding.help(format!("name the events after which it should `{action}`"));
    }
}

/// Reports a role without pods with which the job fails.
fn without_pods(cx: &mut Cx<'_>, role: &str) {
    let workload = cx.workload;
    let is_empty = |pod: &PodTemplate<'_>| pod.around.get("replicas").int() == Field::Set(0);
    let Some(pod) = workload.pods.iter().find(|pod| pod.role() == Some(role) && is_empty(pod)) else { return };
    if workload.pods.iter().all(|pod| pod.count.most == Some(0)) {
        return;
    }
    let message = format!("the operator makes a pod of `{role}` all the same and deletes it, which fails the job at once");
    let at = pod.around.get("replicas").pointer;
    let ops = vec![Op::Remove(pod.around.pointer.clone())];
    cx.report(&at, message).help(format!("remove `{role}`")).fix(Safety::Unsafe, ops);
}
