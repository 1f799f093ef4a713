//! Lifecycle policies act when what they name happens.
//!
//! ## Why
//!
//! A Volcano job does after a failure what its `policies` say, and nothing else. Some of them never act, and some act
//! otherwise than they read: a policy with a `timeout` kills all pods and then loses its action, so that the job starts
//! again, uncounted, where it should have been aborted; and a drained pod first *fails*, so the policy that ends the job
//! comes before the one that would restart it.
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
//!   - {event: PodEvicted, action: RestartJob}
//!   - {event: PodFailed, action: TerminateJob}
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
//!   - {event: PodEvicted, action: RestartJob}
//!   - {exitCode: 1, action: TerminateJob}
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
//! None for most: only the author knows what is meant. Unsafe: removes a `timeout` with which `PodFailed` loses its action.
//!
//! ## Details
//!
//! What Volcano 1.15 was seen to do, run for real.
//!
//! * `timeout`. The action waits, and runs beside the controller's other work: the pods are deleted, and each deletion
//!   writes the status before the action can. With three pods or more, no action for the whole job after `PodPending` or
//!   `PodFailed` took effect (40 of 40 runs); the pods start again, uncounted, and `PodPending` may kill them again after
//!   the same time. Reported from four pods on, for an action that restarts, aborts, terminates or completes the job.
//!   After a restart of the controller, a timer of `PodPending` runs for pods that are healthy, too.
//! * `PodPending` without `timeout` is never looked at. `ResumeJob` as the action of a policy does nothing.
//! * `TaskFailed` counts restarts of containers in their pods. With `restartPolicy: Never` there are none: write
//!   `PodFailed`.
//! * `PodEvicted` is that the object of a pod is gone, and `PodFailed` that it has failed, whatever the reason. A
//!   drained, preempted or deleted pod fails first, unless its program ends SIGTERM with 0. So beside `PodFailed` with an
//!   action that ends the job, `PodEvicted` restarts nothing; the model of `jobgate simulate --what drain` says so. A policy
//!   for exit codes (`exitCode: 1`) leaves the codes of signals (137, 143) to `PodEvicted`.
//! * `exitCode` is that of the first container of a pod. A note where that holds no accelerators, and another does.
//! * Fewer `replicas`. The pods that are taken away count as evicted: on UPDATE, a policy for that restarts or ends the
//!   job. A warning of the webhook, since a file does not show it.
//!
//! ## References
//!
//! * <https://volcano.sh/en/docs/vcjob/>
//! * <https://github.com/volcano-sh/volcano/issues/5885>
//! * <https://github.com/volcano-sh/volcano/issues/4743>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::request::Operation;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::accelerator::is_requested_by;
use crate::kinds::{ContainerSlot, Field, LifecyclePolicy, Part, PodTemplate, Policies, Workload};
use crate::text::lines::cut;
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Lifecycle policy that does not act".into(),
        summary: "Lifecycle policies act when what they name happens".into(),
        kinds: Kinds::WithPolicies,
        default: Action::Warn,
        export: Exportable::No("it compares lists of policies, and asks the model of the operators"),
        ..Rule::new("lifecycle-policies-act", check)
    }
}

/// A pod is evicted by its node's drain.
const DRAIN: Incident = Incident::Drain;

/// How many pods a job has at least of which a delayed action is certainly lost.
const MANY: i64 = 4;

/// Actions on the whole job that end it.
const ENDS: [&str; 3] = ["AbortJob", "CompleteJob", "TerminateJob"];
const RESTARTS: [&str; 4] = ["RestartJob", "RestartPartition", "RestartPod", "RestartTask"];

/// The longest name of a task or container to repeat.
const MAX_NAME_BYTES: usize = 40;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let Some(policies) = workload.kind.policies else { return };
    for (index, pod) in workload.pods.iter().enumerate() {
        let list = pod.around.get(policies.of_task);
        each(cx, &list, &workload.pods[index..=index]);
        if cx.request.operation == Operation::Update {
            scaled_down(cx, pod, policies);
        }
    }
    let list = workload.object.at(policies.at);
    each(cx, &list, &workload.pods);
    evicted_after_failed(cx, &list);
}

/// Checks each policy of a list, which is about the pods of some templates.
fn each(cx: &mut Cx<'_>, list: &Part<'_>, pods: &[PodTemplate<'_>]) {
    let all = pods_of(cx.workload);
    for policy in LifecyclePolicy::all_in(list) {
        let (event, action) = (policy.field(list, "event"), policy.action().unwrap_or_default());
        let at = if event.is_set() { event.pointer } else { policy.field(list, "events").pointer };
        if policy.is_only_for(&["PodPending"]) && !policy.waits() {
            let message = format!("`PodPending` needs a `timeout`: without it, `{action}` never acts");
            cx.report(&at, message).help("remove the policy: `minAvailable` keeps pods from waiting for others");
            continue;
        }
        if action == "ResumeJob" {
            let action = policy.field(list, "action").pointer;
            let message = "`ResumeJob` does nothing to a job that runs: the policy never acts";
            cx.report(&action, message).help("write another action; a `Command` resumes a job that was aborted");
            continue;
        }
        if policy.is_only_for(&["TaskFailed"]) && !pods.is_empty() && pods.iter().all(never_restarts) {
            let message = format!(
                "`TaskFailed` counts restarts of containers, and with `restartPolicy: Never` there are none: `{action}` \
                 never acts"
            );
            cx.report(&at, message).help("write `event: PodFailed`");
            continue;
        }
        if policy.waits() && all.is_some_and(|all| all >= MANY) {
            loses_action(cx, list, &policy, action);
        }
        if policy.has_exit_code() {
            exit_code_of_first(cx, list, &policy, pods);
        }
    }
}

/// Returns how many pods a job has.
fn pods_of(workload: &Workload<'_>) -> Option<i64> {
    workload.pods.iter().try_fold(0_i64, |all, pod| Some(all.saturating_add(pod.count.most?)))
}

/// Tells whether no container of a pod is ever restarted.
fn never_restarts(pod: &PodTemplate<'_>) -> bool {
    let restarts = |container: &Part<'_>| container.get("restartPolicy").is_set();
    pod.spec.get("restartPolicy").text() == Field::Set("Never")
        && !pod.containers().any(|container| restarts(&container.part))
}

/// Reports a delayed action of the whole job that is lost.
fn loses_action(cx: &mut Cx<'_>, list: &Part<'_>, policy: &LifecyclePolicy<'_>, action: &str) {
    if !ENDS.contains(&action) && action != "RestartJob" {
        return;
    }
    let timeout = policy.field(list, "timeout");
    let is_pending = policy.is_only_for(&["PodPending"]);
    if !is_pending && !policy.is_only_for(&["PodFailed", "PodPending"]) {
        return;
    }
    let message = format!(
        "after its `timeout`, `{action}` is lost: Volcano (1.15) kills all pods, writes nothing, and starts them again, \
         uncounted"
    );
    let finding = cx.report(&timeout.pointer, message);
    if is_pending {
        finding.help("remove the policy: `minAvailable` keeps pods from waiting for others");
    } else {
        finding.help("remove it: without it the action takes effect");
        if policy.is_only_for(&["PodFailed"]) {
            finding.fix(Safety::Unsafe, vec![Op::Remove(timeout.pointer)]);
        }
    }
}

/// Notes an exit code that is that of a container beside the one that works.
fn exit_code_of_first(cx: &mut Cx<'_>, list: &Part<'_>, policy: &LifecyclePolicy<'_>, pods: &[PodTemplate<'_>]) {
    let is_beside = |pod: &&PodTemplate<'_>| {
        let mut mains = pod.containers().filter(|container| container.slot == ContainerSlot::Main);
        let holds = |part: &Part<'_>| part.value.is_some_and(is_requested_by);
        mains.next().is_some_and(|first| !holds(&first.part)) && mains.any(|other| holds(&other.part))
    };
    let Some(pod) = pods.iter().find(is_beside) else { return };
    let Some(first) = pod.containers().find(|container| container.slot == ContainerSlot::Main) else { return };
    let name = first.part.get("name").text().set().unwrap_or_default();
    let name = cut(name, MAX_NAME_BYTES, "…").escape_debug().to_string();
    let message = format!("`exitCode` is that of the first container, `{name}`, and not of the one with accelerators");
    cx.report(&policy.field(list, "exitCode").pointer, message)
        .at_most(Level::Note)
        .help("write the container with the accelerators first")
        .label(Place::Here(first.part.pointer.clone(), FindingPart::Key), "the first container");
}

/// Reports a policy that restarts what another one has ended.
fn evicted_after_failed(cx: &mut Cx<'_>, list: &Part<'_>) {
    let all = || LifecyclePolicy::all_in(list);
    let restarts = all().find(|policy| {
        policy.is_for(&["PodEvicted"])
            && !policy.is_for(&["PodFailed"])
            && RESTARTS.contains(&policy.action().unwrap_or_default())
    });
    let ends = all().find(|policy| {
        policy.is_only_for(&["PodFailed"])
            && ENDS.contains(&policy.action().unwrap_or_default())
            && !policy.waits()
    });
    let Some((restarts, ends)) = restarts.zip(ends) else { return };
    let place = ends.part(list).pointer;
    let event = ends.field(list, "event");
    let key = if event.is_set() { "event" } else { "events" };
    let ops = [Op::Remove(&place / key), Op::Add(&place / "exitCode", 1.into())];
    let fails = |told: &Forecast| told.outcome.ending == Ending::Fails;
    let index = (0..cx.workload.pods.len()).find(|index| {
        let told = cx.forecast_object(*index, DRAIN, None);
        told.as_ref().is_some_and(fails)
            && cx.forecast_object_after(*index, DRAIN, None, &ops).is_some_and(|told| !fails(&told))
    });
    if index.is_none() {
        return;
    }
    let (end, restart) = (ends.action().unwrap_or_default(), restarts.action().unwrap_or_default());
    let message = format!(
        "a drained pod fails before it is gone: `{end}` ends the job, and `PodEvicted` never comes to `{restart}`"
    );
    let other = restarts.part(list).pointer;
    cx.report(&(&place / key), message)
        .about(DRAIN)
        .help("write `exitCode: 1`, or the codes with which the program fails, instead of `event: PodFailed`")
        .label(Place::Here(other, FindingPart::Value), "comes too late");
}

/// Reports fewer pods of a task than before, where their end is an event.
fn scaled_down(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, policies: Policies) {
    let workload = cx.workload;
    let replicas = pod.around.get("replicas");
    let before = cx.request.old.and_then(|old| replicas.pointer.find(old)?.as_i64());
    let (Field::Set(now), Some(before)) = (replicas.int(), before) else { return };
    if now >= before || workload.has_finished() {
        return;
    }
    let lists = [pod.around.get(policies.of_task), workload.object.at(policies.at)];
    let acts = |policy: &LifecyclePolicy<'_>| {
        let action = policy.action().unwrap_or_default();
        policy.is_for(&["PodFailed", "PodEvicted", "*"]) && (RESTARTS.contains(&action) || ENDS.contains(&action))
    };
    let Some(policy) = lists.iter().find_map(|list| LifecyclePolicy::all_in(list).find(acts)) else { return };
    let action = policy.action().unwrap_or_default();
    let message = format!("pods that are taken away count as failed and evicted: `{action}` follows");
    cx.report(&replicas.pointer, message).help("keep the number, or let the job end first");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{self, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy as OfRules;
    use crate::text::value::{Value, json};

    fn job(replicas: i64, policies: &Value) -> Value {
        let container = json!({"name": "c", "image": "i"});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
            "policies": policies.clone(), "tasks": [{"name": "w", "replicas": replicas, "template": template}]}})
    }

    fn found(old: Option<&Value>, object: &Value) -> Vec<String> {
        let policy = OfRules::default().with_only(|id| id == "lifecycle-policies-act");
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let request = Request { operation, old, ..Request::from_file(object, None) };
        let findings = engine::evaluate(&policy, &NoFacts, &request).findings;
        findings.iter().map(|finding| finding.path.to_path()).collect()
    }

    #[test]
    fn fewer_pods_are_an_event_only_where_a_policy_is_for_it() {
        let place = vec!["spec.tasks[0].replicas".to_owned()];
        for (event, is_one) in [("PodEvicted", true), ("PodFailed", true), ("*", true), ("TaskCompleted", false)] {
            let policies = json!([{"event": event, "action": "RestartJob"}]);
            let (four, two) = (job(4, &policies), job(2, &policies));
            assert_eq!(found(Some(&four), &two), if is_one { place.clone() } else { Vec::new() }, "{event}");
            assert_eq!(found(Some(&two), &four), [""; 0]);
            assert_eq!(found(None, &two), [""; 0]);
        }
        assert_eq!(found(Some(&job(4, &json!([]))), &job(2, &json!([]))), [""; 0]);
    }

    /// What Volcano 1.15 was seen to do: the action was always lost, with a pod more.
    #[test]
    fn a_delayed_action_is_reported_where_it_was_always_lost() {
        for (event, action, replicas, is_lost) in [
            ("PodPending", "AbortJob", 4, true),
            ("PodPending", "RestartJob", 4, true),
            ("PodPending", "TerminateJob", 4, true),
            ("PodPending", "CompleteJob", 4, true),
            ("PodFailed", "RestartJob", 4, true),
            ("PodFailed", "AbortJob", 2, false),
            ("PodPending", "RestartTask", 4, false),
            ("PodFailed", "RestartPod", 4, false),
            ("PodEvicted", "RestartJob", 4, false),
            ("TaskCompleted", "CompleteJob", 4, false),
            ("PodPending", "RestartJob", 1, false),
        ] {
            let policies = json!([{"event": event, "action": action, "timeout": "5m"}]);
            let expected = if is_lost { vec!["spec.policies[0].timeout".to_owned()] } else { Vec::new() };
            assert_eq!(found(None, &job(replicas, &policies)), expected, "{event} {action} {replicas}");
        }
    }
}
