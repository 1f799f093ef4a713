//! The validation of a Volcano Job by its webhook (docs/internals/batch-kinds.md#volcano-job), and by the plugins with which its
//! controller makes pods.
//!
//! Source: `pkg/webhooks/admission/jobs/validate/` (`admit_job.go`, `util.go`) of v1.15.1. Left out: what depends on the queue, and
//! plugins that a cluster may have of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::Causes;
use super::object_part::ObjectPart;
use crate::judge::api::stored_object::Stored;
use crate::k8s::go::quoted;
use crate::text::meter;
use crate::text::placeholder::{is_placeholder, is_to_replace};

/// Events that the CRD knows and the webhook rejects: the controller raises them for itself.
const INTERNAL: [&str; 3] = ["PodRunning", "OutOfSync", "CommandIssued"];

const ACTIONS: [&str; 8] = [
    "AbortJob",
    "RestartJob",
    "RestartPod",
    "RestartTask",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
];

/// Ends the message of what the webhook accepts, and the controller does not.
pub(in crate::judge::api) const NO_PODS: &str = ", so no pod is made";

/// Plugins that need a task, by the flag with its name, and the default.
const MAIN_TASKS: [(&str, &str, &str); 2] = [("mpi", "master", "master"), ("ray", "head", "head")];

/// Adds why Volcano rejects a job, or makes no pods of it.
pub(super) fn volcano(object: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let spec = object.get("spec");
    let tasks = spec.get("tasks");
    if spec.is_mapping() && tasks.items().next().is_none() {
        causes.required(&tasks, "at least one task");
        return;
    }
    policies(&spec.get("policies"), causes);
    let mut names = BTreeSet::new();
    for task in tasks.readable() {
        meter::spend(1);
        let name = task.get("name");
        // Without a name, the webhook writes one of its own.
        if !name.text().is_empty() && !is_open(name.text()) && !names.insert(name.text()) {
            causes.duplicate(&name, &quoted(name.text()));
        }
        let [least, replicas] = ["minAvailable", "replicas"].map(|key| task.get(key));
        if let (Some(least_of), Some(most)) = (least.number(), count(&replicas))
            && least_of > most
        {
            causes.invalid(&least, &format!("must not be greater than `replicas` ({most})"));
        }
        policies(&task.get("policies"), causes);
    }
    let least = spec.get("minAvailable");
    let mut all = tasks.readable().map(|task| count(&task.get("replicas")));
    let all = all.try_fold(0_i64, |all, most| Some(all.saturating_add(most?)));
    if let (Some(least_of), Some(all)) = (least.number(), all)
        && least_of > all
    {
        let pods = if all == 1 { "pod" } else { "pods" };
        causes
            .invalid(&least, &format!("must not be greater than the `replicas` of all tasks ({all} {pods})"));
    }
    volumes(&spec.get("volumes"), causes);
    depends(&tasks, causes);
    main_tasks(&spec.get("plugins"), &names, causes);
}

/// Tells whether a placeholder stands for a text.
fn is_open(text: &str) -> bool {
    is_placeholder(text) || is_to_replace(text)
}

/// Returns a number of pods, which is 0 where it is not set; nothing if it is hidden.
fn count(field: &ObjectPart<'_, '_>) -> Option<i64> {
    if field.is_set() { field.number() } else { Some(0) }
}

/// Checks a list of policies, up to the first that is wrong, as the webhook does.
fn policies(list: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let (mut events, mut codes) = (BTreeSet::new(), BTreeSet::new());
    for policy in list.readable() {
        meter::spend(1);
        let [event, more, code, action] =
            ["event", "events", "exitCode", "action"].map(|key| policy.get(key));
        let named: Vec<_> = more.items().collect();
        let of_policy: BTreeSet<&str> = named
            .iter()
            .map(ObjectPart::text)
            .chain([event.text()])
            .filter(|name| !name.is_empty())
            .collect();
        if of_policy.iter().any(|name| is_open(name)) || is_open(action.text()) {
            return;
        }
        if code.is_set() {
            if !of_policy.is_empty() {
                causes.forbidden(&code, "may not be set together with `event` or `events`");
                return;
            }
            match code.number() {
                Some(0) => {
                    causes.invalid(&code, "is no code of a failure");
                    return;
                }
                Some(number) if !codes.insert(number) => {
                    causes.duplicate(&code, &number.to_string());
                    return;
                }
                _ => {}
            }
            continue;
        }
        let at = if event.is_set() { &event } else { &more };
        if of_policy.is_empty() {
            if !event.is_set() && !more.is_set() {
                causes.required(&event, "`event`, `events` or `exitCode`");
            }
            return;
        }
        for name in of_policy {
            meter::spend(1);
            if INTERNAL.contains(&name) {
                causes.invalid_text(at, name, "invalid policy event");
                return;
            }
            if !ACTIONS.contains(&action.text()) {
                causes.unsupported(&action, &quoted(action.text()), &ACTIONS);
                return;
            }
            if !events.insert(name) {
                causes.duplicate(at, &quoted(name));
                return;
            }
        }
        if events.contains("*") && events.len() > 1 {
            causes.invalid_text(at, event.text(), "`*` may not be beside other events");
            return;
        }
    }
}

fn volumes(list: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let mut paths = BTreeSet::new();
    for volume in list.readable() {
        meter::spend(1);
        let [path, claim, existing] =
            ["mountPath", "volumeClaim", "volumeClaimName"].map(|key| volume.get(key));
        if !path.text().is_empty() && !paths.insert(path.text()) {
            causes.duplicate(&path, &quoted(path.text()));
        }
        match (claim.is_set(), existing.text().is_empty()) {
            (false, true) if !existing.is_set() => {
                causes.required(&existing, "`volumeClaim` or `volumeClaimName`");
            }
            (true, false) => _ = causes.forbidden(&existing, "may not be set together with volumeClaim"),
            _ => {}
        }
    }
}

/// Checks that no task waits for itself, or for one that there is not.
fn depends(tasks: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let places: Vec<ObjectPart<'_, '_>> = tasks.readable().collect();
    let parts: Vec<_> = places.iter().map(|task| (task, task.at(&["dependsOn", "name"]))).collect();
    let mut of_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut waits: Vec<usize> = vec![0; parts.len()];
    for (at, (_, list)) in parts.iter().enumerate() {
        for name in list.items() {
            meter::spend(1);
            if name.text().is_empty() || is_open(name.text()) {
                return;
            }
            of_name.entry(name.text()).or_default().push(at);
            waits[at] += 1;
        }
    }
    if of_name.is_empty() {
        return;
    }
    let mut free: Vec<usize> = (0..parts.len()).filter(|at| waits[*at] == 0).collect();
    let mut done = free.len();
    while let Some(at) = free.pop() {
        let name = parts[at].0.get("name").text();
        for next in of_name.remove(name).unwrap_or_default() {
            meter::spend(1);
            waits[next] -= 1;
            if waits[next] == 0 {
                done += 1;
                free.push(next);
            }
        }
    }
    if done < parts.len()
        && let Some(at) = waits.iter().position(|waits| *waits > 0)
    {
        let list = &parts[at].1;
        causes
            .invalid_bare(list, "waits for itself, or for a task that is not there, so no pod of it is made");
    }
}

/// Checks that the task is there that a plugin needs.
fn main_tasks(plugins: &ObjectPart<'_, '_>, names: &BTreeSet<&str>, causes: &mut Causes) {
    if names.iter().any(|name| is_open(name)) {
        return;
    }
    for (plugin, flag, default) in MAIN_TASKS {
        let arguments = plugins.get(plugin);
        let Some(Stored::List(_)) = arguments.value else { continue };
        let Some(task) = flag_in(&arguments, flag, default) else { continue };
        if !names.contains(task) {
            let what = format!("needs a task `{}`, which is not there{NO_PODS}", task.escape_debug());
            causes.invalid_bare(&arguments, &what);
        }
    }
}

/// Returns the value of a flag in the arguments of a plugin, or its default; nothing if it is hidden.
fn flag_in<'v>(arguments: &ObjectPart<'_, 'v>, flag: &str, default: &'v str) -> Option<&'v str> {
    let mut value = default;
    let mut follows = false;
    for argument in arguments.items() {
        meter::spend_text(argument.text());
        let text = argument.text();
        if is_open(text) {
            return None;
        }
        if std::mem::take(&mut follows) {
            value = text;
            continue;
        }
        let Some(name) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else { break };
        match name.split_once('=') {
            Some((name, text)) if name == flag => value = text,
            None if name == flag => follows = true,
            _ => {}
        }
    }
    Some(value).filter(|value| !is_open(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    fn said(spec: &Value) -> Vec<String> {
        let object = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec.clone()});
        let stored = Stored::from_value(&object);
        let mut causes = Causes::default();
        volcano(&ObjectPart::root(&stored), &mut causes);
        causes.into_vec().into_iter().map(|cause| format!("{}: {}", cause.path, cause.message)).collect()
    }

    fn with(tasks: &Value, more: &Value) -> Vec<String> {
        let mut spec = json!({"tasks": tasks.clone()});
        for (key, value) in more.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        said(&spec)
    }

    /// What the webhook was recorded to do (`c-v-web-…` of operator-failures.jsonl).
    #[test]
    fn policies_are_rejected_as_recorded() {
        let tasks = json!([{"name": "w", "replicas": 2}]);
        for (policies, is_rejected) in [
            (json!([{"event": "PodPending", "action": "RestartJob"}]), false),
            (json!([{"event": "PodEvicted", "action": "ResumeJob"}]), false),
            (json!([{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]), false),
            (
                json!([{"exitCode": 137, "action": "RestartJob"}, {"exitCode": 1, "action": "AbortJob"}]),
                false,
            ),
            (json!([{"event": "$EVENT", "action": "$ACTION"}]), false),
            (json!([{"exitCode": 0, "action": "RestartJob"}]), true),
            (json!([{"event": "PodFailed", "exitCode": 1, "action": "RestartJob"}]), true),
            (json!([{"action": "RestartJob"}]), true),
            (
                json!([{"event": "*", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
                true,
            ),
            (
                json!([{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
                true,
            ),
            (json!([{"exitCode": 1, "action": "RestartJob"}, {"exitCode": 1, "action": "AbortJob"}]), true),
            (json!([{"event": "PodRunning", "action": "RestartJob"}]), true),
            (json!([{"event": "OutOfSync", "action": "RestartJob"}]), true),
            (json!([{"event": "CommandIssued", "action": "RestartJob"}]), true),
            (json!([{"event": "PodFailed", "action": "SyncJob"}]), true),
        ] {
            let of_job = with(&tasks, &json!({"policies": policies.clone()}));
            assert_eq!(of_job.len(), usize::from(is_rejected), "{policies}: {of_job:?}");
            let of_task =
                with(&json!([{"name": "w", "replicas": 2, "policies": policies.clone()}]), &json!({}));
            assert_eq!(of_task.len(), usize::from(is_rejected), "{policies}: {of_task:?}");
        }
    }

    #[test]
    fn tasks_are_named_once_and_have_as_many_pods_as_must_be_there() {
        let task = |name: &str, more: Value| {
            let mut task = json!({"name": name, "replicas": 2});
            for (key, value) in more.as_object().expect("fields") {
                task[key] = value.clone();
            }
            task
        };
        let two = json!([task("a", json!({})), task("b", json!({}))]);
        assert_eq!(with(&two, &json!({"minAvailable": 4})), [""; 0]);
        assert_eq!(
            with(&two, &json!({"minAvailable": 5})),
            [
                "spec.minAvailable: Invalid value: 5: must not be greater than the `replicas` of all tasks (4 pods)"
            ]
        );
        assert_eq!(with(&json!([{"replicas": "$N"}]), &json!({"minAvailable": 5})), [""; 0], "hidden");
        assert_eq!(said(&json!({"tasks": []})), ["spec.tasks: Required value: at least one task"]);
        assert_eq!(with(&json!([task("a", json!({})), task("a", json!({}))]), &json!({})).len(), 1);
        assert_eq!(
            with(&json!([{"replicas": 1}, {"replicas": 1}]), &json!({})),
            [""; 0],
            "named by the webhook"
        );
        assert_eq!(with(&json!([task("a", json!({"minAvailable": 3}))]), &json!({})).len(), 1);
        let after = |name: &str| json!({"dependsOn": {"name": [name]}});
        assert_eq!(with(&json!([task("a", json!({})), task("b", after("a"))]), &json!({})), [""; 0]);
        for tasks in [
            json!([task("a", after("a"))]),
            json!([task("a", after("b")), task("b", after("a"))]),
            json!([task("a", after("c")), task("b", json!({}))]),
        ] {
            assert_eq!(with(&tasks, &json!({})).len(), 1, "{tasks}");
        }
        let volumes = |more: Value| with(&two, &json!({"volumes": more}));
        assert_eq!(volumes(json!([{"mountPath": "/a", "volumeClaimName": "c"}])), [""; 0]);
        assert_eq!(volumes(json!([{"mountPath": "/a"}])).len(), 1);
        assert_eq!(volumes(json!([{"mountPath": "/a", "volumeClaimName": "c", "volumeClaim": {}}])).len(), 1);
        assert_eq!(volumes(json!([{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/a", "volumeClaimName": "d"}])).len(), 1);
    }

    #[test]
    fn plugins_need_their_main_task() {
        let tasks = json!([{"name": "boss", "replicas": 1}, {"name": "worker", "replicas": 2}]);
        let with = |plugins: Value| with(&tasks, &json!({"plugins": plugins}));
        for plugins in [
            json!({"svc": [], "env": []}),
            json!({"ray": ["--head=boss", "--worker=worker"]}),
            json!({"ray": ["--head", "boss"]}),
            json!({"mpi": ["-master=boss"]}),
            json!({"mpi": ["--master=$MASTER"]}),
            json!({"pytorch": ["--master=other"]}),
        ] {
            assert_eq!(with(plugins.clone()), [""; 0], "{plugins}");
        }
        assert_eq!(
            with(json!({"ray": []})),
            ["spec.plugins.ray: Invalid value: needs a task `head`, which is not there, so no pod is made"]
        );
        assert_eq!(with(json!({"mpi": ["--master=other"]})).len(), 1);
    }
}
