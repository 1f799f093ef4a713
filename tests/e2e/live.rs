//! `jobgate simulate --cluster` of Jobs that run.

use std::process::{Command, Output};
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::manifests::job;
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("simulate_says_what_a_live_job_waits_for", says_what_it_waits_for)
        .needs(Needs::Controllers)
        .ungated(),
    Scenario::new("simulate_names_a_live_pod_that_does_not_end", names_a_pod_that_does_not_end)
        .needs(Needs::Controllers)
        .ungated(),
    Scenario::new("simulate_of_what_cannot_be_read_is_said", says_what_cannot_be_read),
];

fn simulate(place: &Place<'_>, user: &str, arguments: &[&str]) -> Output {
    let kubeconfig = place.cluster.kubeconfig_of(user);
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command.args(["simulate", "--cluster", "-n", &place.namespace, "--kubeconfig"]).arg(kubeconfig);
    command.args(arguments).output().expect("run jobgate")
}

/// What a Job waits for, and how it ends, as jobgate says it.
fn told(place: &Place<'_>, name: &str) -> Value {
    let output = simulate(place, "admin", &["--format", "json", &format!("job/{name}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    document["live"][0].clone()
}

fn waits(told: &Value) -> Vec<&str> {
    told["waits"].as_array().into_iter().flatten().filter_map(|wait| wait["for"].as_str()).collect()
}

/// Waits for a number of pods, and returns their names.
fn pods(place: &Place<'_>, count: usize) -> Vec<String> {
    eventually(Duration::from_secs(60), || {
        let stored = place.stored("pods");
        let names: Vec<String> = stored["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()))
            .collect();
        if names.len() == count { Ok(names) } else { Err(format!("{} pods", names.len())) }
    })
    .expect("the controller makes the pods")
}

fn says_what_it_waits_for(place: &Place<'_>) {
    let parallel = json!({"spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}});
    place.create(&job("train", parallel)).ok();
    let names = pods(place, 3);
    // Nobody schedules them here.
    let seen = told(place, "train");
    assert_eq!(waits(&seen), ["starting"], "{seen:#}");
    let ended = |at: &str| {
        json!({"status": {"phase": "Failed", "containerStatuses": [{
            "name": "trainer", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": at}},
        }]}})
    };
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for name in &names {
        let patch = ended(&at).to_string();
        place.kubectl(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &patch]).ok();
    }
    // Three failures: 40 s from the end of the last.
    let seen = eventually(Duration::from_secs(20), || {
        let seen = told(place, "train");
        let is_counted = seen["failed"] == 3;
        if is_counted && waits(&seen) == ["back-off"] { Ok(seen) } else { Err(format!("{seen:#}")) }
    })
    .expect("it is in back-off");
    let until = seen["waits"][0]["until"].as_str().expect("a time").to_owned();
    let text = seen["waits"][0]["text"].as_str().expect("a text");
    assert!(text.contains("after 3 failures"), "{text}");
    // The controller makes the pods when jobgate said it does.
    pods(place, 6);
    let until: jiff::Timestamp = until.parse().expect("a time");
    let stored = place.stored("pods");
    for pod in stored["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        if names.iter().any(|old| old == name) {
            continue;
        }
        let created = pod["metadata"]["creationTimestamp"].as_str().expect("a time");
        let created: jiff::Timestamp = created.parse().expect("a time");
        let late = created.duration_since(until).as_secs();
        assert!((0..=3).contains(&late), "{created} after {until}");
    }
}

/// A pod in deletion on a node that does not answer, of which no kubelet says the end.
fn names_a_pod_that_does_not_end(place: &Place<'_>) {
    place.create(&job("train", json!({"spec": {"podReplacementPolicy": "Failed"}}))).ok();
    let names = pods(place, 1);
    let pod = names[0].as_str();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-7"},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", place.namespace);
    place.with_input(&["create", "--raw", &path, "-f", "-"], &binding.to_string()).ok();
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    // As the node controller leaves it: not ready, though its container was.
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at.as_str()}],
        "containerStatuses": [{
            "name": "trainer", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": at.as_str()}},
        }],
    }});
    let patch = status.to_string();
    place.kubectl(&["patch", "pod", pod, "--subresource=status", "--type=merge", "-p", &patch]).ok();
    place.kubectl(&["delete", "pod", pod, "--wait=false"]).ok();
    let seen = eventually(Duration::from_secs(20), || {
        let seen = told(place, "train");
        if waits(&seen) == ["pod-stuck"] { Ok(seen) } else { Err(format!("{seen:#}")) }
    })
    .expect("it waits for the pod");
    let wait = &seen["waits"][0];
    assert_eq!((&wait["pods"][0], &wait["nodes"][0]), (&pod.into(), &"gpu-7".into()), "{wait:#}");
    let stored = place.stored(&format!("pod/{pod}"));
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let (since, deletion) = (time(&wait["since"]), time(&stored["metadata"]["deletionTimestamp"]));
    let grace = stored["metadata"]["deletionGracePeriodSeconds"].as_i64().expect("a grace period");
    assert_eq!(since, deletion.map(|at| at - Duration::from_secs(grace.unsigned_abs())), "{wait:#}");
    let output = simulate(place, "admin", &["job/train"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for expected in [
        format!("{pod}, which has been terminating for "),
        " on gpu-7 and does not end: its node seems not to answer; it is replaced only at its end".to_owned(),
        "as it stands, it never ends: ".to_owned(),
        "`kubectl get node gpu-7`: does it answer?".to_owned(),
        format!("`kubectl delete pod {pod} -n {} --force --grace-period=0`", place.namespace),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
}

fn says_what_cannot_be_read(place: &Place<'_>) {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = simulate(place, "admin", &["job/none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("get the Job none in the namespace"), "{}", said(&output));
    assert!(said(&output).contains("there is none"), "{}", said(&output));
    let output = simulate(place, "nobody", &["job/none"]);
    assert!(said(&output).contains("it takes the permission to get jobs"), "{}", said(&output));
}
