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
}

/// Two pods of an Indexed Job; index 2 is done.
const SWEEP: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: sweep, namespace: ml, uid: u, creationTimestamp: '2026-11-28T01:00:10Z'}
  spec:
    completionMode: Indexed
    completions: 4
    parallelism: 2
    backoffLimit: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: c, image: registry.example.com/c:v1, command: [bash, -c, 'work.py --shard $JOB_COMPLETION_INDEX']}
  status: {active: 2, ready: 2, succeeded: 1, completedIndexes: '2', startTime: '2026-11-28T01:00:10Z'}
- apiVersion: v1
  kind: Pod
  metadata:
    name: sweep-0-a
    namespace: ml
    creationTimestamp: '2026-11-28T03:00:10Z'
    annotations: {batch.kubernetes.io/job-completion-index: '0'}
    finalizers: [batch.kubernetes.io/job-tracking]
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: sweep, uid: u, controller: true}]
  spec: {nodeName: gpu-1}
  status:
    phase: Running
    containerStatuses: [{name: c, ready: true, state: {running: {startedAt: '2026-11-28T03:00:12Z'}}}]
- apiVersion: v1
  kind: Pod
  metadata:
    name: sweep-1-a
    namespace: ml
    creationTimestamp: '2026-11-28T03:00:10Z'
    annotations: {batch.kubernetes.io/job-completion-index: '1'}
    finalizers: [batch.kubernetes.io/job-tracking]
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: sweep, uid: u, controller: true}]
  spec: {nodeName: gpu-2}
  status:
    phase: Running
    containerStatuses: [{name: c, ready: true, state: {running: {startedAt: '2026-11-28T03:00:12Z'}}}]
";

#[test]
fn a_script_is_played_from_now_on() {
    // The pods that run are let alone; index 3 is the first that is made, an hour after they started.
    let script = "\
- {index: 3, attempt: [0, 1], run: 60.5, exit: 3}
- {index: 1, run: 5}
- {at: 90000, patch: {suspend: true}}
";
    let place = Place::with(&[
        ("sweep.yaml", SWEEP),
        ("s.yaml", script),
        ("later.yaml", "- {at: 600, patch: {suspend: true}}\n"),
    ]);
    let arguments = ["--runtime", "58m", "--script", "s.yaml", "sweep.yaml"];
    let output = place.run(&[&["simulate", "--now", NOW][..], &arguments].concat());
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    let text = stdout(&output);
    for expected in [
        "script: it fails at 04:02:26 (in 52m): more than 1 failures (`backoffLimit`)",
        "  04:00:13  in 50m  1 pod 3 created",
        "1 pod 3 failed with exit code 3",
        "  not used: the plan of index 1: no such pod is made",
        "  not used: the event at 25h: nothing is left of the Job by then",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let told = live(&place, &arguments);
    assert_eq!(
        (&told[0]["next"]["ends"], &told[0]["stories"][0]["ends"]),
        (&"completes".into(), &"fails".into())
    );
    assert_eq!(told[0]["stories"][0]["podsFailed"], 2);
    assert_eq!(told[0]["stories"][0]["unused"].as_array().unwrap().len(), 2);
    // Its times count from now.
    let told = live(&place, &["--script", "later.yaml", "sweep.yaml"]);
    let happens = told[0]["stories"][0]["happens"].as_array().unwrap();
    let suspended =
        happens.iter().find(|entry| entry["what"].as_str().unwrap().starts_with("-- the `spec` gets"));
    assert_eq!(suspended.unwrap()["at"], "2026-11-28T03:20:10Z");
    assert_eq!(told[0]["stories"][0]["ends"], "waits");
    // From standard input, too, and with what is expected of it.
    let output = place
        .command(&["simulate", "--now", NOW, "--script", "later.yaml", "--expect", "drain=completes", "-"])
        .write_stdin(SWEEP)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
}

#[test]
fn what_of_a_script_cannot_apply_is_said() {
    let ended = BACKOFF.replace(
        "status: {active: 0, ready: 0, failed: 3,",
        "status: {conditions: [{type: Failed, status: 'True', lastTransitionTime: '2026-11-28T03:10:00Z'}],",
    );
    let managed = BACKOFF.replace("    backoffLimit: 6", "    managedBy: kueue.x-k8s.io/multikueue");
    for (job, script, expected) in [
        (SWEEP, "- {index: 7, run: 1}", "the plan of index 7: it has the indexes 0-3"),
        (SWEEP, "- {index: 2, run: 1}", "the plan of index 2: it is done already"),
        (
            SWEEP,
            "- {run: 1, exit: {d: 1}}",
            "the plan of all pods: `exit`: the pod template has no container `d`",
        ),
        (SWEEP, "- {run: 1, init: {c: 1}}", "`init`: the pod template has no init container `c`"),
        (
            SWEEP,
            "- {run: 1, restarts: 2}",
            "`restarts`: containers restart in place only with `restartPolicy: OnFailure`",
        ),
        (SWEEP, "- {job: [1, 2], run: 1}", "the plan of job 1-2: `job: 1` is of a CronJob"),
        (
            SWEEP,
            "- {at: 60, patch: {completions: 5}}",
            "the event at 1m: `completions` changes only of an Indexed Job",
        ),
        (
            SWEEP,
            "- {at: 60, patch: {template: {}}}\n- {at: 1, patch: {completionMode: NonIndexed}}",
            "`completionMode` of a Job that runs",
        ),
        (SWEEP, "- {at: 60, patch: {paralelism: 5}}", "`paralelism` of a Job that runs cannot be changed"),
        (SWEEP, "- {at: 60, patch: {suspend: 'yes'}}", "`suspend` cannot be"),
        (
            SWEEP,
            "- {at: 60, controller: stop, which: cron}",
            "`which: cron` is about the controller of CronJobs",
        ),
        (SWEEP, "- {at: 60, delete: Background, job: 3}", "`job: 3` is of a CronJob"),
        (
            SWEEP,
            "- {at: 60, delete: Foreground}\n- {at: 70, delete: Background}",
            "the event at 1m10s: the Job is in deletion by then",
        ),
        (BACKOFF, "- {index: 0, run: 1}", "the plan of index 0: the Job has no completion indexes"),
        (&ended, "- {run: 1}", "script: not simulated: it has ended"),
        (&managed, "- {run: 1}", "script: not simulated: another controller runs it"),
    ] {
        let place = Place::with(&[("job.yaml", job), ("s.yaml", script)]);
        let output = place.run(&["simulate", "--now", NOW, "--script", "s.yaml", "job.yaml"]);
        assert_eq!(code(&output), 2, "{script}: {}", stdout(&output));
        assert!(stderr(&output).contains(expected), "{script}: {}", stderr(&output));
    }
    // Indexes that the script adds are there.
    let grown = "- {at: 60, patch: {completions: 6, parallelism: 6}}\n- {index: 5, run: 1}\n";
    let place = Place::with(&[("sweep.yaml", SWEEP), ("s.yaml", grown)]);
    let told = live(&place, &["--script", "s.yaml", "sweep.yaml"]);
    assert_eq!(
        (&told[0]["stories"][0]["ends"], &told[0]["stories"][0]["podsMade"]),
        (&"completes".into(), &3.into())
    );
}

#[test]
fn incidents_that_cannot_happen_are_said() {
    let silent = SWEEP.replacen(
        "    phase: Running\n",
        "    phase: Running\n    conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-11-28T03:09:00Z'}]\n",
        1,
    );
    for (job, incident, expected) in [
        (SWEEP, "missed", "missed:1h: not simulated: `missed` is about a schedule, and it has none"),
        (SWEEP, "drain:index=9", "`index=9`: it has the indexes 0-3"),
        (SWEEP, "oom:index=2", "`index=2`: it is done already"),
        (SWEEP, "oom:n=4", "`n=4`: 3 of its indexes are not done"),
        (BACKOFF, "oom:index=3", "`index=3`: it has no indexes, and 1 pods"),
        (&silent, "drain:index=0", "sweep-0-a is on a node that does not answer"),
    ] {
        let place = Place::with(&[("job.yaml", job)]);
        let output = place.run(&["simulate", "--now", NOW, "--what", incident, "job.yaml"]);
        assert_eq!(code(&output), 2, "{incident}: {}", stdout(&output));
        assert!(stderr(&output).contains(expected), "{incident}: {}", stderr(&output));
    }
    // Without a place, it happens to a pod that runs; `n=3` is of those that are not done.
    let place = Place::with(&[("silent.yaml", &silent), ("sweep.yaml", SWEEP)]);
    let told = live(&place, &["--what", "drain", "silent.yaml"]);
    let happens = told[0]["stories"][0]["happens"].to_string();
    assert!(happens.contains("1 pod 1 evicted"), "{happens}");
    let told = live(&place, &["--what", "exit=1:n=3", "sweep.yaml"]);
    assert_eq!(told[0]["stories"][0]["ends"], "fails");
}

#[test]
fn what_falls_on_one_moment_has_two_ends() {
    // The pods end when the deadline is: 58 m of work and 2 m to start, from 03:00:12.
    let tied = |deadline: u32| {
        let deadline = format!("    backoffLimit: 1\n    activeDeadlineSeconds: {deadline}");
        let one = SWEEP.replace("    completions: 4", "    completions: 3");
        let place = Place::with(&[("tied.yaml", &one.replace("    backoffLimit: 1", &deadline))]);
        live(&place, &["--runtime", "58m", "tied.yaml"])[0]["next"].clone()
    };
    let told: Vec<Value> = (10_798..10_812).map(tied).collect();
    assert_eq!((&told[0]["ends"], &told[0]["or"]), (&"fails".into(), &Value::Null), "{}", told[0]);
    assert_eq!((&told[13]["ends"], &told[13]["or"]), (&"completes".into(), &Value::Null), "{}", told[13]);
    let either: Vec<&Value> = told.iter().filter(|told| told["or"] != Value::Null).collect();
    assert!((1..=4).contains(&either.len()), "{told:?}");
    for told in either {
        assert_ne!(told["ends"], told["or"]["ends"], "{told}");
        let text = told["text"].as_str().unwrap();
        assert!(text.contains("two things fall on one moment, and if the other comes first, it "), "{text}");
    }
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
    assert!(stderr(&output).contains("with --cluster, name what runs: job/train"), "{}", stderr(&output));
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
