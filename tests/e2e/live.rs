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

fn says_what_cannot_be_read(place: &Place<'_>) {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = simulate(place, "admin", &["job/none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("get the Job none in the namespace"), "{}", said(&output));
    assert!(said(&output).contains("there is none"), "{}", said(&output));
    let output = simulate(place, "nobody", &["job/none"]);
    assert!(said(&output).contains("it takes the permission to get jobs"), "{}", said(&output));
}
