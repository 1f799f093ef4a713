//! `jobgate simulate` of Jobs that run, from what `kubectl get job,pods -o yaml` prints.

use jobgate::text::value::Value;

use crate::support::place::{Place, code, json, stderr, stdout};

const NOW: &str = "2026-11-28T03:10:10Z";

/// Three failures in a row, the last one 20 s ago.
const BACKOFF: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train, namespace: ml, uid: u, creationTimestamp: '2026-11-28T01:00:10Z'}
  spec:
    backoffLimit: 6
    template:
      spec:
        restartPolicy: Never
        containers: [{name: trainer, image: registry.example.com/trainer:v1}]
  status: {active: 0, ready: 0, failed: 3, startTime: '2026-11-28T01:00:10Z'}
- apiVersion: v1
  kind: Pod
  metadata:
    name: train-abcde
    namespace: ml
    creationTimestamp: '2026-11-28T03:08:00Z'
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u, controller: true}]
  spec: {nodeName: gpu-7}
  status:
    phase: Failed
    containerStatuses:
    - {name: trainer, state: {terminated: {exitCode: 1, finishedAt: '2026-11-28T03:09:50Z'}}}
";

/// A Job that is given up, and a pod of it that does not end.
const WEDGED: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, uid: u, creationTimestamp: '2026-11-28T01:00:10Z'}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: trainer, image: registry.example.com/trainer:v1}]
status:
  terminating: 1
  failed: 7
  startTime: '2026-11-28T01:00:10Z'
  conditions:
  - {type: FailureTarget, status: 'True', reason: BackoffLimitExceeded, lastTransitionTime: '2026-11-28T02:29:11Z'}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-abcde
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:10Z'
  deletionTimestamp: '2026-11-28T02:29:40Z'
  deletionGracePeriodSeconds: 30
  labels: {batch.kubernetes.io/job-name: train}
spec: {nodeName: gpu-7}
status:
  phase: Running
  conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-11-28T02:24:00Z'}]
  containerStatuses: [{name: trainer, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}]
";

const MANIFEST: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: plain, creationTimestamp: null}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: trainer, image: registry.example.com/trainer:v1}]
status: {}
";

fn live(place: &Place, arguments: &[&str]) -> Value {
    let output = place.run(&[&["simulate", "--now", NOW, "--format", "json"], arguments].concat());
    json(&output)["live"].clone()
}

#[test]
fn a_job_in_back_off_says_until_when() {
    let place = Place::with(&[("saved.yaml", BACKOFF)]);
    let output = place.run(&["simulate", "--now", NOW, "saved.yaml"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    let text = stdout(&output);
    for expected in [
        "train (Job) in the namespace ml, at 2026-11-28 03:10:10 UTC",
        "  age         2h10m",
        "3 of `backoffLimit` 6, 3 left",
        "  back-off until 03:10:30 (in 20s), after 3 failures",
        "  03:10:30  in 20s",
        "`kubectl logs train-abcde -n ml`",
        "a restart of that ends it",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert_eq!(live(&place, &["saved.yaml"])[0]["waits"][0]["until"], "2026-11-28T03:10:30Z");
    let output = place.run(&["simulate", "--now", NOW, "--format", "markdown", "saved.yaml"]);
    assert!(stdout(&output).contains("- back-off until 03:10:30"), "{}", stdout(&output));
}

#[test]
fn a_pod_that_does_not_end_is_named_with_its_node() {
    let place = Place::with(&[("saved.yaml", WEDGED)]);
    let text = place.run(&["simulate", "--now", NOW, "saved.yaml"]);
    let text = stdout(&text);
    for expected in [
        "train-abcde, which has been terminating for 41m on gpu-7 and does not end",
        "as it stands, it never ends",
        "only if gpu-7 is known to be down: `kubectl delete pod train-abcde -n ml --force --grace-period=0`",
        "`kubectl taint node gpu-7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let told = live(&place, &["saved.yaml"]);
    assert_eq!(told[0]["next"]["ends"], "wedged");
}

#[test]
fn incidents_happen_from_now_on() {
    let place = Place::with(&[("saved.yaml", BACKOFF)]);
    let told = live(&place, &["--what", "drain@1h", "--what", "crash-all", "saved.yaml"]);
    let stories: Vec<(&str, &str)> = told[0]["stories"]
        .as_array()
        .unwrap()
        .iter()
        .map(|story| (story["story"].as_str().unwrap(), story["ends"].as_str().unwrap()))
        .collect();
    assert_eq!(stories, [("crash-all", "fails"), ("drain@1h", "completes")]);
    let output = place.run(&["simulate", "--now", NOW, "--expect", "crash-all=completes", "saved.yaml"]);
    assert_eq!(code(&output), 1);
    assert_eq!(
        stderr(&output),
        "jobgate: train (Job) in the namespace ml: crash-all ends with `fails`, not with `completes`\n"
    );
}

#[test]
fn manifests_and_jobs_that_run_may_come_together() {
    let place = Place::with(&[("plain.yaml", MANIFEST), ("saved.yaml", WEDGED), ("s.yaml", "- {run: 5}\n")]);
    // From standard input, in one document after the other.
    let both = format!("{MANIFEST}---\n{WEDGED}");
    let output = place
        .command(&["simulate", "--now", NOW, "--what", "drain", "--format", "json", "-"])
        .write_stdin(both)
        .output()
        .unwrap();
    let document = json(&output);
    assert_eq!(document["jobs"][0]["name"], "plain");
    assert_eq!(document["live"][0]["name"], "train");
    let alone = json(&place.run(&["simulate", "--what", "drain", "--format", "json", "plain.yaml"]));
    assert_eq!(alone["live"], Value::Null, "nothing is added for manifests");
    assert_eq!(alone["jobs"][0]["stories"], document["jobs"][0]["stories"]);
    let output = place.run(&["simulate", "--script", "s.yaml", "saved.yaml"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--script is for manifests"), "{}", stderr(&output));
}

#[test]
fn what_is_strange_is_said_or_passed_over() {
    let twice = format!("{BACKOFF}---\n{WEDGED}");
    let hostile =
        WEDGED.replace("gpu-7", "'gpu;rm\\e[31m'").replace("'gpu", "\"gpu").replace("31m'", "31m\"");
    let bare = WEDGED.replace("spec:\n  template:", "other:\n  template:");
    let old = WEDGED.replace("2026-11-28T01:00:10Z", "0001-01-01T00:00:00Z");
    let late = WEDGED.replace("2026-11-28T02:29:40Z", "9999-12-31T23:59:59Z");
    let wrong = WEDGED.replace("status:\n  terminating: 1", "status:\n  terminating: [x]");
    let place = Place::with(&[
        ("twice.yaml", &twice),
        ("hostile.yaml", &hostile),
        ("bare.yaml", &bare),
        ("old.yaml", &old),
        ("late.yaml", &late),
        ("wrong.yaml", &wrong),
    ]);
    for (file, expected_code, said, printed) in [
        ("twice.yaml", 0, "the Job train is there more than once: the first is used", "back-off"),
        ("hostile.yaml", 0, "", "kubectl get node NODE"),
        ("bare.yaml", 2, "it has no `spec` with a pod template", ""),
        ("old.yaml", 0, "", "age         739947d"),
        ("late.yaml", 0, "", "train-abcde"),
        ("wrong.yaml", 0, "", "0 active; 0 of 1 succeeded"),
    ] {
        let output = place.run(&["simulate", "--now", NOW, file]);
        assert_eq!(code(&output), expected_code, "{file}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{file}: {}", stderr(&output));
        assert!(stdout(&output).contains(printed), "{file}: {}", stdout(&output));
        assert!(!stdout(&output).contains('\u{1b}'), "{file}");
    }
}

#[test]
fn many_pods_are_read_in_bounded_time() {
    let mut list = BACKOFF.to_owned();
    for nth in 0..12_000 {
        list.push_str(&format!(
            "- {{apiVersion: v1, kind: Pod, metadata: {{name: p{nth}, namespace: ml, creationTimestamp: '2026-11-28T03:08:00Z', labels: {{job-name: train}}}}, spec: {{nodeName: n{nth}}}, status: {{phase: Running}}}}\n"
        ));
    }
    let place = Place::with(&[("many.yaml", &list)]);
    let output = place.run(&["simulate", "--now", NOW, "many.yaml"]);
    assert!(stdout(&output).contains("12000 pods, which run"), "{}{}", stderr(&output), stdout(&output));
}

#[cfg(feature = "serve")]
#[test]
fn a_cluster_has_to_be_there() {
    let place = Place::with(&[]);
    let output = place.run(&["simulate", "--cluster", "--kubeconfig", "none.yaml", "job/train"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("find the cluster for --cluster: the kubeconfig none.yaml"),
        "{}",
        stderr(&output)
    );
    let output = place.run(&["simulate", "--cluster", "pod/train"]);
    assert!(stderr(&output).contains("with --cluster, name Jobs: job/train"), "{}", stderr(&output));
    for (arguments, expected) in [
        (["simulate", "-n", "ml", "job.yaml"].as_slice(), "--cluster"),
        (["simulate", "--now", "soon", "job.yaml"].as_slice(), "write a time as in"),
        (["simulate", "--cluster", "--now", NOW, "job/a"].as_slice(), "cannot be used with"),
    ] {
        let output = place.run(arguments);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
