//! `jobgate simulate` of objects of operators that run, from what kubectl prints of them, of what they made and of its pods.

mod snapshots;
mod volcano_and_ray;
mod volcano_and_ray_tests;

use jobgate::text::value::Value;

use crate::support::place::{Place, code, json, stderr, stdout};
use snapshots::{JOB_SET, MPI, OTHERS, PYTORCH};

const NOW: &str = "2026-11-28T03:10:10Z";

fn shown(snapshot: &str, arguments: &[&str]) -> String {
    let place = Place::with(&[("saved.yaml", snapshot)]);
    let output = place.run(&[&["simulate", "--now", NOW], arguments, &["saved.yaml"]].concat());
    assert_eq!((code(&output), stderr(&output)), (0, ""), "{}", stdout(&output));
    stdout(&output).to_owned()
}

fn holds(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

fn words(snapshot: &str) -> Vec<String> {
    let place = Place::with(&[("saved.yaml", snapshot)]);
    let output = place.run(&["simulate", "--now", NOW, "--format", "json", "saved.yaml"]);
    let waits = json(&output)["live"][0]["waits"].clone();
    let waits = waits.as_array().unwrap().iter();
    waits.map(|wait| wait["for"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_pytorchjob_waits_for_an_image_and_for_a_worker_that_is_missing() {
    holds(
        &shown(PYTORCH, &[]),
        &[
            "train (PyTorchJob) in the namespace ml, at 2026-11-28 03:10:10 UTC",
            "  pods        master: 1 of 1 active, 1 ready",
            "  pods        worker: 1 of 2 active, 0 ready",
            "  the image registry.example.com/t:v1 of train-worker-0, for 1h (ImagePullBackOff): not found",
            "  1 pod of the role worker that training-operator has not made for 1h",
            "  its pod, which runs; there is no deadline",
            "`kubectl describe pytorchjob train -n ml` says why: a quota or a webhook refuses them",
            "delete the PyTorchJob and create it again",
        ],
    );
    assert_eq!(words(PYTORCH), ["image-pull", "pods-missing", "running"]);
}

#[test]
fn a_deadline_that_nobody_looks_at_is_said() {
    let late = PYTORCH.replace(
        "  spec:\n    pytorchReplicaSpecs",
        "  spec:\n    runPolicy: {activeDeadlineSeconds: 3600}\n    pytorchReplicaSpecs",
    );
    holds(
        &shown(&late, &[]),
        &[
            "its end: the deadline passed at 02:00:10 (1h10m ago), and training-operator looks only when something happens to it",
            "`kubectl annotate pytorchjob train -n ml looked-at=now --overwrite`",
        ],
    );
}

/// What an edit broke: the pods that are there run on, and the next one is refused.
#[test]
fn a_template_that_an_edit_broke_is_refused_from_now_on() {
    let master = "restartPolicy: OnFailure\n        template: {spec: {containers: [{name: pytorch, image: registry.example.com/t:v1}]}}\n      Worker";
    let broken = master.replace("OnFailure", "ExitCode").replace("t:v1}", "t:v1, env: [{name: 'A=B'}]}");
    let edited = PYTORCH.replace(master, &broken);
    let told = shown(&edited, &["--what", "delete-pod:role=master"]);
    holds(
        &told,
        &[
            "1 master pod 0 deleted: terminating",
            "from now on: the API server rejects the pods of this job: spec.pytorchReplicaSpecs[Master].template.spec.containers[0].env[0].name",
        ],
    );
    assert!(!told.contains("master pod 0 created"), "{told}");
    let sound = PYTORCH.replace(master, &broken.replace("A=B", "A"));
    let told = shown(&sound, &["--what", "delete-pod:role=master"]);
    assert!(told.contains("master pod 0 created") && !told.contains("from now on"), "{told}");
}

#[test]
fn a_jobset_waits_for_the_pod_that_keeps_the_end_of_its_job() {
    holds(
        &shown(JOB_SET, &[]),
        &[
            "train (JobSet) in the namespace ml",
            "  pods        workers: 1 of 2 active, 1 ready, 1 terminating",
            "  restarts    1 of `maxRestarts` 3, 2 left",
            "  train-workers-0-0-abcde, which has been terminating for 41m on gpu-7 and does not end: its node seems not to answer",
            "  the end of the Job train-workers-0: FailureTarget (BackoffLimitExceeded) was written 40m ago, and Failed follows when no pod is terminating",
            "only if gpu-7 is known to be down: `kubectl delete pod train-workers-0-0-abcde -n ml --force --grace-period=0`",
        ],
    );
    assert_eq!(words(JOB_SET), ["pod-stuck", "last-condition", "running"]);
}

#[test]
fn what_comes_of_jobs_that_are_missing_is_said_of_when_they_are_made() {
    let (alone, _) = JOB_SET.split_once("---\n").unwrap();
    holds(
        &shown(alone, &["--runtime", "1h"]),
        &[
            "  2 Jobs for workers that JobSet has not made for 2h10m",
            "if its pods are made now, it completes at 04:1",
        ],
    );
}

#[test]
fn a_worker_of_an_mpijob_that_failed_is_not_replaced() {
    holds(
        &shown(MPI, &[]),
        &[
            "m (MPIJob) in the namespace ml",
            "  pods        worker: 1 of 2 active, 1 ready, 1 failed",
            "nobody to replace m-worker-1, which has ended 30m ago: mpi-operator makes a pod of the role worker only where its name is free",
            "`kubectl delete pod m-worker-1 -n ml`: then mpi-operator makes it again",
        ],
    );
    assert_eq!(words(MPI), ["pod-not-replaced", "running"]);
}

#[test]
fn a_trainjob_is_seen_with_the_jobset_below_it() {
    let owner = "uid: s, creationTimestamp: '2026-11-28T01:00:10Z', ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t, controller: true}]}";
    let below = JOB_SET.replace("uid: s, creationTimestamp: '2026-11-28T01:00:10Z'}", owner);
    let train_job = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: ml, uid: t, creationTimestamp: '2026-11-28T01:00:10Z'}
spec: {activeDeadlineSeconds: 86400, runtimeRef: {name: torch-distributed}}
status: {jobsStatus: [{name: workers, ready: 1}]}
";
    holds(
        &shown(&format!("{train_job}---\n{below}"), &[]),
        &[
            "train (TrainJob) in the namespace ml",
            "  below       JobSet train: no condition",
            "  ends by     Nov 29 01:00:10",
            "train-workers-0-0-abcde, which has been terminating for 41m",
            "the end of the Job train-workers-0",
        ],
    );
    // Alone, it waits for what is not there.
    holds(
        &shown(train_job, &[]),
        &["  its JobSet, which Trainer has not made for 2h10m", "`kubectl describe trainjob train -n ml`"],
    );
}

#[test]
fn volcano_jobs_and_rayjobs_say_where_they_stand() {
    holds(
        &shown(OTHERS, &[]),
        &[
            "v (Volcano Job) in the namespace ml",
            "  state       Pending",
            "  a node for v-worker-0, for 2h9m: no room",
            "  1 pod of the role worker that Volcano has not made",
            "r (RayJob) in the namespace ml",
            "  restarts    1 of `backoffLimit` 2, 1 left",
            "  below       RayCluster r-x: no condition",
            "  1 pod of the role head that KubeRay has not made",
            "  cluster to be ready: only then submitter is made",
        ],
    );
}

#[test]
fn an_object_that_ended_says_when_it_goes_and_which_pods_run_on() {
    let ended = PYTORCH
        .replace(
            "type: Running, status: 'True', reason: PyTorchJobRunning",
            "type: Succeeded, status: 'True', reason: PyTorchJobSucceeded",
        )
        .replace(
            "  spec:\n    pytorchReplicaSpecs",
            "  spec:\n    runPolicy: {ttlSecondsAfterFinished: 14400}\n    pytorchReplicaSpecs",
        );
    holds(
        &shown(&ended, &[]),
        &[
            "  nothing: it ended 2h9m ago; it is deleted at 05:00:14 (in 1h50m), by its `ttlSecondsAfterFinished`",
            "  nobody: its pod runs on after its end, and training-operator leaves it alone: train-master-0",
        ],
    );
    let place = Place::with(&[("saved.yaml", &ended)]);
    let output = place.run(&[
        "simulate",
        "--now",
        NOW,
        "--what",
        "drain",
        "--expect",
        "drain=completes",
        "saved.yaml",
    ]);
    assert_eq!(code(&output), 0);
    assert_eq!(
        stderr(&output),
        "jobgate: train (PyTorchJob) in the namespace ml: drain: not simulated: it has ended\n"
    );
}

#[test]
fn json_has_the_roles_and_what_is_below() {
    let place = Place::with(&[("saved.yaml", JOB_SET)]);
    let output = place.run(&["simulate", "--now", NOW, "--format", "json", "saved.yaml"]);
    let live = json(&output)["live"][0].clone();
    assert_eq!((&live["kind"], &live["operator"]), (&Value::from("JobSet"), &Value::from("JobSet v0.12.0")));
    assert_eq!((&live["restarts"], &live["restartLimit"]), (&Value::from(1), &Value::from(3)));
    assert_eq!(live["roles"][0]["terminating"], 1);
    assert_eq!(live["waits"][1]["of"][0], "Job train-workers-0");
    assert_eq!(live["waits"].as_array().unwrap().len(), 3);
}

/// All pods of the PyTorchJob run.
fn healthy_pytorch() -> String {
    PYTORCH
        .replace("        replicas: 2", "        replicas: 1")
        .replace("creationTimestamp: '2026-11-28T02:10:10Z'", "creationTimestamp: '2026-11-28T01:00:10Z'")
        .replace("    phase: Pending\n", "    phase: Running\n")
        .replace("{name: pytorch, image: registry.example.com/t:v1, state: {waiting: {reason: ImagePullBackOff, message: not found}}}", "{name: pytorch, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}")
}

/// All pods of the JobSet run.
fn healthy_job_set() -> String {
    JOB_SET
        .replace("  terminating: 1\n  failed: 1\n", "  active: 1\n  ready: 1\n")
        .replace("  deletionTimestamp: '2026-11-28T02:29:40Z'\n  deletionGracePeriodSeconds: 30\n", "")
        .replace("  conditions:\n  - {type: FailureTarget, status: 'True', reason: BackoffLimitExceeded, lastTransitionTime: '2026-11-28T02:29:11Z'}\n", "")
        .replace("status: 'False', lastTransitionTime: '2026-11-28T02:24:00Z'", "status: 'True', lastTransitionTime: '2026-11-28T01:10:14Z'")
}

/// Returns how it ends as it stands, or in the only story.
fn end_of(snapshot: &str, arguments: &[&str]) -> (String, String) {
    let place = Place::with(&[("saved.yaml", snapshot)]);
    let output =
        place.run(&[&["simulate", "--now", NOW, "--format", "json"], arguments, &["saved.yaml"]].concat());
    assert_eq!(stderr(&output), "");
    let live = json(&output)["live"][0].clone();
    let told = if arguments.contains(&"--what") { &live["stories"][0] } else { &live["next"] };
    (told["ends"].as_str().unwrap().to_owned(), told["text"].as_str().unwrap().to_owned())
}

#[test]
fn a_pytorchjob_goes_on_from_where_it_stands() {
    let job = healthy_pytorch();
    holds(
        &shown(&job, &[]),
        &[
            "as it stands, it completes at 13:02:",
            "What comes next is what the controllers of Kubernetes 1.36 and training-operator v1.9.4 do",
        ],
    );
    // Kueue has admitted it; what comes next of its queue is not known.
    let queued = job.replace("uid: u, ", "uid: u, labels: {kueue.x-k8s.io/queue-name: team-a}, ");
    assert_ne!(queued, job);
    let (ends, text) = end_of(&queued, &["--what", "kueue-preempt:30m"]);
    assert_eq!(ends, "completes", "{text}");
    holds(&shown(&queued, &[]), &["as it stands, it completes at 13:02:"]);
    // Its deadline passes in silence, and is looked at when it succeeds.
    let late = job.replace(
        "  spec:\n    pytorch",
        "  spec:\n    runPolicy: {activeDeadlineSeconds: 14400}\n    pytorch",
    );
    let (ends, text) = end_of(&late, &["--runtime", "12h"]);
    assert_eq!(ends, "fails");
    assert!(
        text.contains("it fails at 13:02:") && text.contains("runPolicy.activeDeadlineSeconds"),
        "{text}"
    );
}

#[test]
fn incidents_happen_to_a_role_of_a_pytorchjob() {
    let job = healthy_pytorch();
    assert_eq!(end_of(&job, &["--what", "exit=1:role=worker"]).0, "completes");
    let never = job.replace("restartPolicy: OnFailure", "restartPolicy: Never");
    let (ends, text) = end_of(&never, &["--what", "exit=1@1h:role=worker"]);
    assert_eq!(ends, "fails");
    assert!(text.contains("it fails at 04:10:1"), "{text}");
    let place = Place::with(&[("saved.yaml", &job)]);
    for (story, expected) in [
        ("drain:role=ps", "drain:role=ps: not simulated: `role=ps`: it has the roles master, worker"),
        ("drain:index=4", "drain:index=4: not simulated: `index=4`: the role has 1 pods"),
        ("missed", "missed:1h: not simulated: `missed` is about a schedule"),
    ] {
        let output = place.run(&["simulate", "--now", NOW, "--what", story, "saved.yaml"]);
        assert_eq!(code(&output), 2, "{story}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn a_jobset_goes_on_with_the_restarts_that_are_left() {
    let job_set = healthy_job_set();
    holds(&shown(&job_set, &[]), &["as it stands, it completes at 13:12:"]);
    let (ends, text) = end_of(&job_set, &["--what", "exit=1@1h:role=workers"]);
    assert_eq!(ends, "completes", "{text}");
    let used = job_set.replace("restartsCountTowardsMax: 1", "restartsCountTowardsMax: 3");
    let (ends, text) = end_of(&used, &["--what", "exit=1@1h:role=workers"]);
    assert_eq!(ends, "fails");
    assert!(text.contains("no restart is left (`failurePolicy.maxRestarts`)"), "{text}");
}

#[test]
fn a_jobset_whose_pod_does_not_end_never_ends() {
    let (ends, text) = end_of(JOB_SET, &["--peers", "independent"]);
    assert_eq!(ends, "wedged");
    assert!(text.ends_with("waits for a pod that is terminating, without end"), "{text}");
}

#[test]
fn a_trainjob_ends_with_its_jobset() {
    let owner = "uid: s, creationTimestamp: '2026-11-28T01:00:10Z', ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t, controller: true}]}";
    let below = healthy_job_set().replace("uid: s, creationTimestamp: '2026-11-28T01:00:10Z'}", owner);
    let train_job = |deadline: &str| {
        format!(
            "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: train, namespace: ml, uid: t, creationTimestamp: '2026-11-28T01:00:10Z'}}
spec: {{{deadline}runtimeRef: {{name: of-the-team}}}}
status: {{jobsStatus: [{{name: workers, ready: 1}}]}}
---
{below}"
        )
    };
    holds(&shown(&train_job(""), &[]), &["as it stands, it completes at 13:12:", "and Trainer v2.3.0 do"]);
    let (ends, text) = end_of(&train_job("activeDeadlineSeconds: 14400, "), &["--runtime", "12h"]);
    assert_eq!(ends, "fails");
    assert!(text.starts_with("it fails at 05:00:1"), "{text}");
}

#[test]
fn an_mpijob_whose_worker_is_lost_does_not_get_another() {
    // The launcher misses a host, and so does each that takes its place.
    let (ends, text) = end_of(MPI, &[]);
    assert_eq!(ends, "fails");
    assert!(text.contains("the launcher fails too often (`runPolicy.backoffLimit`)"), "{text}");
    let job = MPI
        .replace("  phase: Failed\n  containerStatuses: [{name: w, state: {terminated: {exitCode: 137, finishedAt: '2026-11-28T02:40:10Z'}}}]", "  phase: Running\n  containerStatuses: [{name: w, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}]");
    assert_eq!(end_of(&job, &[]).0, "completes");
}

#[test]
fn what_is_not_modelled_is_said() {
    let strange = OTHERS.replace("phase: Pending, lastTransition", "phase: Hibernating, lastTransition");
    holds(
        &shown(&strange, &[]),
        &["what comes next is not simulated: a Volcano Job in the state `Hibernating` is not modelled"],
    );
    let place = Place::with(&[("saved.yaml", &strange)]);
    let output = place.run(&["simulate", "--now", NOW, "--what", "oom", "saved.yaml"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("v (Volcano Job) in the namespace ml: oom: not simulated"),
        "{}",
        stderr(&output)
    );
    // Without the labels of its operator, a pod may be any.
    let strange = healthy_pytorch().replace(", training.kubeflow.org/replica-index: '0'}", "}");
    holds(
        &shown(&strange, &[]),
        &[
            "what comes next is not simulated: the labels of the pod train-master-0 do not say its role and its number",
        ],
    );
}
