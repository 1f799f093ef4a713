//! `jobgate simulate` of objects of operators that run, from what kubectl prints of them, of what they made and of its pods.

use jobgate::text::value::Value;

use crate::support::place::{Place, code, json, stderr, stdout};

const NOW: &str = "2026-11-28T03:10:10Z";

/// A worker whose image cannot be pulled, and one that the API server refuses.
const PYTORCH: &str = "\
apiVersion: v1
kind: List
items:
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata: {name: train, namespace: ml, uid: u, creationTimestamp: '2026-11-28T01:00:10Z'}
  spec:
    pytorchReplicaSpecs:
      Master:
        replicas: 1
        restartPolicy: OnFailure
        template: {spec: {containers: [{name: pytorch, image: registry.example.com/t:v1}]}}
      Worker:
        replicas: 2
        restartPolicy: OnFailure
        template: {spec: {containers: [{name: pytorch, image: registry.example.com/t:v1}]}}
  status:
    startTime: '2026-11-28T01:00:10Z'
    conditions:
    - {type: Created, status: 'True', reason: PyTorchJobCreated, lastTransitionTime: '2026-11-28T01:00:10Z'}
    - {type: Running, status: 'True', reason: PyTorchJobRunning, lastTransitionTime: '2026-11-28T01:00:14Z'}
    replicaStatuses: {Master: {active: 1}, Worker: {}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: train-master-0
    namespace: ml
    creationTimestamp: '2026-11-28T01:00:10Z'
    labels: {training.kubeflow.org/job-name: train, training.kubeflow.org/replica-type: master, training.kubeflow.org/replica-index: '0'}
    ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: train, uid: u, controller: true}]
  spec: {nodeName: gpu-1}
  status:
    phase: Running
    conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:14Z'}]
    containerStatuses: [{name: pytorch, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}]
- apiVersion: v1
  kind: Pod
  metadata:
    name: train-worker-0
    namespace: ml
    creationTimestamp: '2026-11-28T02:10:10Z'
    labels: {training.kubeflow.org/job-name: train, training.kubeflow.org/replica-type: worker, training.kubeflow.org/replica-index: '0'}
  spec: {nodeName: gpu-2}
  status:
    phase: Pending
    containerStatuses:
    - {name: pytorch, image: registry.example.com/t:v1, state: {waiting: {reason: ImagePullBackOff, message: not found}}}
";

/// The end of a Job of a JobSet is decided, and a pod of it does not end.
const JOB_SET: &str = "\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml, uid: s, creationTimestamp: '2026-11-28T01:00:10Z'}
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        completions: 1
        parallelism: 1
        backoffLimit: 0
        template: {spec: {containers: [{name: c, image: registry.example.com/c:v1}]}}
status:
  restarts: 1
  restartsCountTowardsMax: 1
  replicatedJobsStatus: [{name: workers, ready: 1, active: 1}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train-workers-0
  namespace: ml
  uid: j0
  creationTimestamp: '2026-11-28T01:10:10Z'
  labels: &l {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: '0', jobset.sigs.k8s.io/restart-attempt: '1'}
  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: s, controller: true}]
spec:
  completionMode: Indexed
  completions: 1
  parallelism: 1
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example.com/c:v1}]}}
status:
  terminating: 1
  failed: 1
  startTime: '2026-11-28T01:10:10Z'
  conditions:
  - {type: FailureTarget, status: 'True', reason: BackoffLimitExceeded, lastTransitionTime: '2026-11-28T02:29:11Z'}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-workers-0-0-abcde
  namespace: ml
  creationTimestamp: '2026-11-28T01:10:10Z'
  deletionTimestamp: '2026-11-28T02:29:40Z'
  deletionGracePeriodSeconds: 30
  finalizers: [batch.kubernetes.io/job-tracking]
  annotations: {batch.kubernetes.io/job-completion-index: '0'}
  labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-workers-0, uid: j0, controller: true}]
spec: {nodeName: gpu-7}
status:
  phase: Running
  conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-11-28T02:24:00Z'}]
  containerStatuses: [{name: c, ready: true, state: {running: {startedAt: '2026-11-28T01:10:12Z'}}}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train-workers-1
  namespace: ml
  uid: j1
  creationTimestamp: '2026-11-28T01:10:10Z'
  labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: '1', jobset.sigs.k8s.io/restart-attempt: '1'}
  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: s, controller: true}]
spec:
  completionMode: Indexed
  completions: 1
  parallelism: 1
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example.com/c:v1}]}}
status: {active: 1, ready: 1, startTime: '2026-11-28T01:10:10Z'}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-workers-1-0-abcde
  namespace: ml
  creationTimestamp: '2026-11-28T01:10:10Z'
  finalizers: [batch.kubernetes.io/job-tracking]
  annotations: {batch.kubernetes.io/job-completion-index: '0'}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-workers-1, uid: j1, controller: true}]
spec: {nodeName: gpu-8}
status:
  phase: Running
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:10:14Z'}]
  containerStatuses: [{name: c, ready: true, state: {running: {startedAt: '2026-11-28T01:10:12Z'}}}]
";

/// A worker of an MPIJob that has failed.
const MPI: &str = "\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: m, namespace: ml, uid: m, creationTimestamp: '2026-11-28T01:00:10Z'}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: l, image: registry.example.com/m:v1}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: registry.example.com/m:v1}]}}}
status:
  startTime: '2026-11-28T01:00:10Z'
  conditions:
  - {type: Running, status: 'True', reason: MPIJobRunning, lastTransitionTime: '2026-11-28T01:00:14Z'}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: m-launcher
  namespace: ml
  uid: l
  creationTimestamp: '2026-11-28T01:00:10Z'
  ownerReferences: [{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, name: m, uid: m, controller: true}]
spec:
  template: {spec: {restartPolicy: OnFailure, containers: [{name: l, image: registry.example.com/m:v1}]}}
status: {active: 1, ready: 1, startTime: '2026-11-28T01:00:10Z'}
---
apiVersion: v1
kind: Pod
metadata:
  name: m-launcher-abcde
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:10Z'
  finalizers: [batch.kubernetes.io/job-tracking]
  labels: {training.kubeflow.org/job-name: m, training.kubeflow.org/job-role: launcher}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: m-launcher, uid: l, controller: true}]
spec: {nodeName: cpu-1}
status:
  phase: Running
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:14Z'}]
  containerStatuses: [{name: l, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: m-worker-0
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:10Z'
  labels: {training.kubeflow.org/job-name: m, training.kubeflow.org/job-role: worker, training.kubeflow.org/replica-index: '0'}
  ownerReferences: [{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, name: m, uid: m, controller: true}]
spec: {nodeName: gpu-1}
status:
  phase: Running
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:14Z'}]
  containerStatuses: [{name: w, ready: true, state: {running: {startedAt: '2026-11-28T01:00:12Z'}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: m-worker-1
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:10Z'
  labels: {training.kubeflow.org/job-name: m, training.kubeflow.org/job-role: worker, training.kubeflow.org/replica-index: '1'}
  ownerReferences: [{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, name: m, uid: m, controller: true}]
spec: {nodeName: gpu-2}
status:
  phase: Failed
  containerStatuses: [{name: w, state: {terminated: {exitCode: 137, finishedAt: '2026-11-28T02:40:10Z'}}}]
";

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

/// The start of other kinds: a Volcano Job, a RayJob with its cluster.
const OTHERS: &str = "\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: v, namespace: ml, uid: v, creationTimestamp: '2026-11-28T01:00:10Z'}
spec:
  tasks:
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: registry.example.com/c:v1}]}}}
status: {state: {phase: Pending, lastTransitionTime: '2026-11-28T01:00:10Z'}}
---
apiVersion: v1
kind: Pod
metadata:
  name: v-worker-0
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:12Z'
  labels: {volcano.sh/job-name: v, volcano.sh/task-spec: worker, volcano.sh/task-index: '0'}
  ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: v, uid: v, controller: true}]
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: no room, lastTransitionTime: '2026-11-28T01:00:13Z'}]
---
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: r, namespace: ml, uid: r, creationTimestamp: '2026-11-28T01:00:10Z'}
spec: {backoffLimit: 2, rayClusterSpec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: registry.example.com/r:v1}]}}}}}
status: {jobDeploymentStatus: Initializing, rayClusterName: r-x, failed: 1}
---
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: r-x
  namespace: ml
  uid: rc
  creationTimestamp: '2026-11-28T01:00:10Z'
  ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: r, controller: true}]
spec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: registry.example.com/r:v1}]}}}}
status: {desiredWorkerReplicas: 0}
";

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
