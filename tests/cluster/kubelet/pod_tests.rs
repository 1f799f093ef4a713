//! Lives of pods, without a cluster.

use std::time::Duration;

use jiff::Timestamp;
use jobgate::text::value::{Value, json};

use super::super::script::{Life, Name, Script};
use super::{Pod, Request};

fn pod_of(rule: serde_json::Value, spec: Value) -> Pod {
    let script = Script::parse(&serde_json::Value::Array(vec![rule])).expect("a script");
    let name =
        Name { role: "worker".to_owned(), index: None, attempt: 0, set: None, job: None, life: Life::Ends };
    let created = "2030-01-01T00:00:00Z".parse::<Timestamp>().expect("a time");
    Pod::new(&json!({"spec": spec}), script.plan(&name), created)
}

fn one_container() -> Value {
    json!({"containers": [{"name": "main"}, {"name": "second"}]})
}

fn pod(rule: serde_json::Value) -> Pod {
    pod_of(rule, one_container())
}

/// Lets it live until a time, and returns what it asked for and when, in tenths of a second.
fn until(pod: &mut Pod, end: f64) -> Vec<(u128, Request)> {
    let end = Duration::from_secs_f64(end);
    let mut all = Vec::new();
    while let Some(due) = pod.due().filter(|due| *due <= end) {
        all.extend(pod.act(due).into_iter().map(|request| (due.as_millis() / 100, request)));
    }
    all
}

/// Shortens a status to its phase, reason and the states of the containers.
fn short(request: &Request) -> String {
    match request {
        Request::Bind => "bind".to_owned(),
        Request::Delete { grace: None } => "delete".to_owned(),
        Request::Delete { grace: Some(grace) } => format!("delete {grace}"),
        Request::Status(status) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let state = |container: &Value| match &container["state"] {
                state if state.get("terminated").is_some() => {
                    let end = &state["terminated"];
                    format!("{}={}", text(&container["name"]), end["exitCode"])
                }
                state if state.get("running").is_some() => text(&container["name"]),
                _ => format!("({})", text(&container["name"])),
            };
            let states = |key: &str| {
                status[key].as_array().into_iter().flatten().map(state).collect::<Vec<_>>().join(" ")
            };
            let conditions = status["conditions"].as_array().into_iter().flatten().map(|condition| {
                let reason = condition.get("reason").map(|reason| format!("/{}", text(reason)));
                format!(
                    "{}={}{}",
                    text(&condition["type"]),
                    text(&condition["status"]),
                    reason.unwrap_or_default()
                )
            });
            let parts = [
                text(&status["phase"]),
                text(&status["reason"]),
                states("initContainerStatuses"),
                states("containerStatuses"),
                conditions.collect::<Vec<_>>().join(" "),
            ];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        }
    }
}

#[track_caller]
fn is(seen: &[(u128, Request)], expected: &[(u128, &str)]) {
    let seen: Vec<(u128, String)> = seen.iter().map(|(at, request)| (*at, short(request))).collect();
    let expected: Vec<(u128, String)> = expected.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
    assert_eq!(seen, expected);
}

fn delete(pod: &mut Pod, at: f64) {
    pod.deleted(Duration::from_secs_f64(at), 30);
}

const RUNNING: &str = "Running, main second, Ready=True";

#[test]
fn a_pod_without_a_rule_succeeds_after_five_seconds() {
    let mut pod = pod(serde_json::json!({}));
    let end = (55, "Succeeded, main=0 second=0, Ready=False");
    is(&until(&mut pod, 100.0), &[(0, "bind"), (5, RUNNING), end]);
    assert_eq!(pod.due(), None);
    // One that has ended goes as soon as somebody deletes it.
    delete(&mut pod, 60.0);
    is(&until(&mut pod, 100.0), &[(600, "delete 0")]);
}

#[test]
fn exit_codes_are_of_the_first_container_or_of_each() {
    let mut first = pod(serde_json::json!({"run": 1, "exit": 3}));
    is(&until(&mut first, 9.0)[2..], &[(15, "Failed, main=3 second=0, Ready=False")]);
    let mut each = pod(serde_json::json!({"run": 1, "exit": {"second": 4}}));
    is(&until(&mut each, 9.0)[2..], &[(15, "Failed, main=0 second=4, Ready=False")]);
}

#[test]
fn out_of_memory_has_its_reason() {
    for (rule, reason) in [
        (serde_json::json!({"exit": 137, "oom": true}), "OOMKilled"),
        (serde_json::json!({"exit": 137}), "Error"),
        (serde_json::json!({"exit": 1, "oom": true}), "Error"),
    ] {
        let seen = until(&mut pod(rule), 9.0);
        let Some((_, Request::Status(status))) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], reason);
    }
}

#[test]
fn what_never_starts_is_pending_and_not_ready() {
    let pending = (0, "Pending, (main) (second), Ready=False/ContainersNotReady");
    let mut never = pod(serde_json::json!({"start": null}));
    is(&until(&mut never, 100.0), &[(0, "bind"), pending]);
    delete(&mut never, 10.0);
    is(&until(&mut never, 100.0), &[(102, "Failed, (main) (second), Ready=False"), (102, "delete 0")]);
    let mut late = pod(serde_json::json!({"start": 3, "run": null}));
    is(&until(&mut late, 100.0), &[(0, "bind"), pending, (30, RUNNING)]);
    let mut unbound = pod(serde_json::json!({"start": null, "unscheduled": true}));
    is(&until(&mut unbound, 100.0), &[]);
    delete(&mut unbound, 10.0);
    is(&until(&mut unbound, 100.0), &[]);
}

#[test]
fn a_deleted_pod_ends_as_its_plan_says() {
    let ended = |rule: serde_json::Value, grace: u64| {
        let mut pod = pod(rule);
        until(&mut pod, 2.0);
        pod.deleted(Duration::from_secs(2), grace);
        until(&mut pod, 100.0).iter().map(|(at, request)| (*at, short(request))).collect::<Vec<_>>()
    };
    let with = |at: u128, status: &str| vec![(at, status.to_owned()), (at, "delete 0".to_owned())];
    let failed = |code: u32| format!("Failed, main={code} second=0, Ready=False");
    assert_eq!(ended(serde_json::json!({"run": null}), 30), with(34, &failed(143)));
    assert_eq!(ended(serde_json::json!({"run": null}), 1), with(30, &failed(137)));
    assert_eq!(ended(serde_json::json!({"term": {"after": null}}), 30), with(320, &failed(137)));
    let trap = serde_json::json!({"term": {"after": 3, "code": 0}});
    assert_eq!(ended(trap, 30), with(50, "Succeeded, main=0 second=0, Ready=False"));
}

#[test]
fn a_second_deletion_changes_nothing() {
    let mut pod = pod(serde_json::json!({"run": null}));
    until(&mut pod, 2.0);
    delete(&mut pod, 2.0);
    delete(&mut pod, 3.0);
    assert_eq!(pod.due(), Some(Duration::from_millis(3400)));
}

#[test]
fn containers_restart_in_place() {
    let mut pod = pod(serde_json::json!({"restarts": 2, "every": 1, "run": 3, "exit": 1}));
    let end = (55, "Failed, main=1 second=0, Ready=False");
    let seen = until(&mut pod, 100.0);
    is(&seen, &[(0, "bind"), (5, RUNNING), (15, RUNNING), (25, RUNNING), end]);
    let count = |(_, request): &(u128, Request)| match request {
        Request::Status(status) => status["containerStatuses"][0]["restartCount"].as_i64().expect("a count"),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen[1..].iter().map(count).collect::<Vec<_>>(), [0, 1, 2, 2]);
}

#[test]
fn restarts_without_end_do_not_end() {
    let mut pod = pod(serde_json::json!({"restarts": null, "every": 10}));
    assert_eq!(until(&mut pod, 1000.5).len(), 2 + 100);
    assert!(pod.due().is_some());
}

#[test]
fn a_refused_pod_has_no_container_status() {
    let mut pod = pod(serde_json::json!({"reject": true, "start": 0.2}));
    is(&until(&mut pod, 9.0), &[(0, "bind"), (2, "Failed, UnexpectedAdmissionError")]);
}

#[test]
fn an_init_container_fails_before_anything_runs() {
    let spec = json!({
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}, {"name": "unpack"}],
    });
    let mut pod = pod_of(serde_json::json!({"init": {"fetch": 2}, "run": 1}), spec);
    let end = (15, "Failed, proxy=0 fetch=2 (unpack), (main), Ready=False");
    is(&until(&mut pod, 9.0), &[(0, "bind"), end]);
}

#[test]
fn native_sidecars_run_beside_the_rest_and_end_with_a_code_of_their_own() {
    let spec = json!({
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}],
    });
    let mut pod = pod_of(serde_json::json!({"sidecar": 7, "run": 1}), spec);
    let running = (5, "Running, proxy fetch=0, main, Ready=True");
    let end = (15, "Succeeded, proxy=7 fetch=0, main=0, Ready=False");
    is(&until(&mut pod, 9.0), &[(0, "bind"), running, end]);
}

#[test]
fn disruptions_have_their_conditions() {
    for (cause, reason) in [
        ("evict", "EvictionByEvictionAPI"),
        ("preempt", "PreemptionByScheduler"),
        ("taint", "DeletionByTaintManager"),
        ("lost", "DeletionByTaintManager"),
    ] {
        let mut pod = pod(serde_json::json!({"disrupt": {"after": 1, "cause": cause}}));
        let condition = format!("Ready=True DisruptionTarget=True/{reason}");
        is(&until(&mut pod, 9.0), &[(0, "bind"), (5, RUNNING), (15, &condition), (15, "delete")]);
    }
    for (cause, request) in [("delete", "delete"), ("force", "delete 0")] {
        let mut pod = pod(serde_json::json!({"disrupt": {"after": 1, "cause": cause}}));
        is(&until(&mut pod, 9.0), &[(0, "bind"), (5, RUNNING), (15, request)]);
    }
}

#[test]
fn node_pressure_fails_a_pod_that_nobody_deletes() {
    let mut running = pod(serde_json::json!({"disrupt": {"after": 1, "cause": "kubelet"}}));
    let end = "Failed, Evicted, main=137 second=0, DisruptionTarget=True/TerminationByKubelet Ready=False";
    is(&until(&mut running, 9.0), &[(0, "bind"), (5, RUNNING), (15, end)]);
    let mut pending = pod(serde_json::json!({"start": null, "disrupt": {"after": 1, "cause": "kubelet"}}));
    let end = "Failed, Evicted, (main) (second), DisruptionTarget=True/TerminationByKubelet Ready=False";
    is(&until(&mut pending, 9.0)[2..], &[(10, end)]);
}

#[test]
fn a_lost_pod_is_silent_until_it_is_collected() {
    let mut lost = pod(serde_json::json!({"disrupt": {"after": 1, "cause": "lost"}}));
    until(&mut lost, 1.5);
    delete(&mut lost, 1.5);
    assert_eq!(lost.due(), None);
    let mut collected = pod(serde_json::json!({"disrupt": {"after": 1, "cause": "lost", "gc": 20}}));
    until(&mut collected, 1.5);
    delete(&mut collected, 1.5);
    let end = "Failed, Ready=True DisruptionTarget=True/DeletionByPodGC";
    is(&until(&mut collected, 99.0), &[(215, end), (215, "delete 0")]);
    // Whoever deletes it before.
    let mut early = pod(serde_json::json!({"disrupt": {"after": 50, "cause": "lost"}}));
    until(&mut early, 1.0);
    delete(&mut early, 1.0);
    assert_eq!(early.due(), None);
}

#[test]
fn the_time_of_a_condition_is_that_of_its_last_change() {
    let mut pod = pod(serde_json::json!({"start": 3, "restarts": 1, "every": 4}));
    let since = |(_, request): &(u128, Request)| match request {
        Request::Status(status) => {
            let condition = status["conditions"][0]["lastTransitionTime"].as_str().expect("a time");
            condition[17..19].to_owned()
        }
        other => panic!("{other:?}"),
    };
    let times: Vec<String> = until(&mut pod, 20.0)[1..].iter().map(since).collect();
    assert_eq!(times, ["00", "03", "03", "12"]);
}

#[test]
fn what_somebody_else_has_bound_is_not_bound_again() {
    let spec = json!({"nodeName": "n", "containers": [{"name": "main"}]});
    let mut pod = pod_of(serde_json::json!({"run": 1}), spec);
    let running = (5, "Running, main, Ready=True");
    is(&until(&mut pod, 9.0), &[running, (15, "Succeeded, main=0, Ready=False")]);
}

#[test]
fn a_pod_may_never_be_ready() {
    let script = Script::parse(&serde_json::json!([{"run": 1}])).expect("a script").never_ready();
    let name =
        Name { role: "worker".to_owned(), index: None, attempt: 0, set: None, job: None, life: Life::Ends };
    let mut pod = Pod::new(&json!({"spec": one_container()}), script.plan(&name), Timestamp::UNIX_EPOCH);
    let end = (15, "Succeeded, main=0 second=0, Ready=False");
    is(&until(&mut pod, 9.0), &[(0, "bind"), (5, "Running, main second"), end]);
}

/// A pod that submits a program to Ray: alone, or as the head with a container for it.
fn submitting(is_head: bool) -> Pod {
    let labels = if is_head {
        json!({"ray.io/node-type": "head", "ray.io/cluster": "j-x"})
    } else {
        json!({"ray.io/originated-from-crd": "RayJob", "batch.kubernetes.io/job-name": "j"})
    };
    let rule = serde_json::json!([{"run": null, "follow": !is_head}]);
    let name =
        Name { role: "any".to_owned(), index: None, attempt: 0, set: None, job: None, life: Life::Ends };
    let plan = Script::parse(&rule).expect("a script").plan(&name);
    let containers = json!([{"name": "main"}, {"name": "ray-job-submitter"}]);
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let mut pod = Pod::new(&pod, plan, Timestamp::UNIX_EPOCH);
    assert!(pod.submission(Duration::from_secs(1)).is_none(), "not before it runs");
    until(&mut pod, 1.0);
    pod
}

#[test]
fn a_pod_that_submits_ends_with_its_program() {
    let mut pod = submitting(false);
    assert_eq!(pod.due(), None);
    assert_eq!(pod.submission(Duration::from_secs(2)).map(|(_, since)| since.as_millis()), Some(1500));
    let requests = pod.submission_ended(1, Duration::from_secs(2));
    assert_eq!(
        requests.iter().map(short).collect::<Vec<_>>(),
        ["Failed, main=1 ray-job-submitter=0, Ready=False"]
    );
    assert!(pod.submission(Duration::from_secs(3)).is_none());
}

#[test]
fn a_head_runs_on_without_the_container_that_submits() {
    let mut pod = submitting(true);
    let requests = pod.submission_ended(1, Duration::from_secs(2));
    let seen = requests.iter().map(short).collect::<Vec<_>>();
    assert_eq!(seen, ["Running, main ray-job-submitter=1, Ready=False/ContainersNotReady"]);
    assert!(pod.submission(Duration::from_secs(3)).is_none());
    delete(&mut pod, 3.0);
    let end = "Failed, main=143 ray-job-submitter=1, Ready=False/ContainersNotReady";
    let seen = until(&mut pod, 9.0);
    assert!(short(&seen[0].1).starts_with(end.split(", Ready").next().expect("a part")), "{seen:?}");
}
