//! Volcano Jobs, RayJobs and RayClusters with what they made, as kubectl prints them.

/// A Volcano Job with a policy, in a phase.
pub(super) fn volcano(policy: &str, status: &str) -> String {
    format!(
        "\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: v, namespace: ml, uid: v, creationTimestamp: '2026-11-28T01:00:10Z'}}
spec:
  maxRetry: 3
  policies: [{policy}]
  tasks:
  - {{name: master, replicas: 1, template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: registry.example.com/c:v1}}]}}}}}}
  - {{name: worker, replicas: 2, template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: registry.example.com/c:v1}}]}}}}}}
status:
  minAvailable: 3
  {status}
"
    )
}

/// A pod of a task, with more of its metadata, and with its status.
pub(super) fn task_pod(task: &str, index: u32, more: &str, status: &str) -> String {
    format!(
        "\
---
apiVersion: v1
kind: Pod
metadata:
  name: v-{task}-{index}
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:12Z'
  labels: {{volcano.sh/job-name: v, volcano.sh/task-spec: {task}, volcano.sh/task-index: '{index}'}}
  ownerReferences: [{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: v, uid: v, controller: true}}]
{more}spec: {{nodeName: gpu-{index}}}
status:
{status}"
    )
}

pub(super) const RUNNING: &str = "  \
phase: Running
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:14Z'}]
  containerStatuses: [{name: c, ready: true, state: {running: {startedAt: '2026-11-28T01:00:14Z'}}}]
";

/// A pod that failed at a time of 03:MM:SS.
pub(super) fn failed(at: &str) -> String {
    format!(
        "  \
phase: Failed
  conditions: [{{type: Ready, status: 'False', lastTransitionTime: '2026-11-28T03:{at}Z'}}]
  containerStatuses: [{{name: c, state: {{terminated: {{exitCode: 1, finishedAt: '2026-11-28T03:{at}Z'}}}}}}]
"
    )
}

/// A pod that the controller of its Volcano Job killed.
pub(super) const KILLED: &str = "  \
annotations: {volcano.sh/job-version: '0', volcano.sh/controller-out-of-sync: 'true'}
  deletionTimestamp: '2026-11-28T03:10:38Z'
  deletionGracePeriodSeconds: 30
";

/// The PodGroup of the Volcano Job, in a phase.
pub(super) fn pod_group(phase: &str, created: &str) -> String {
    format!(
        "\
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: v-v
  namespace: ml
  creationTimestamp: '2026-11-28T{created}Z'
  ownerReferences: [{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: v, uid: v, controller: true}}]
spec: {{minMember: 3}}
status: {{phase: {phase}}}
"
    )
}

/// A RayJob with more of its `spec` and its status, and with its RayCluster.
pub(super) fn ray_job(spec: &str, status: &str) -> String {
    format!(
        "\
apiVersion: ray.io/v1
kind: RayJob
metadata: {{name: r, namespace: ml, uid: r, finalizers: [ray.io/rayjob-finalizer], creationTimestamp: '2026-11-28T01:00:10Z'}}
spec:
{spec}  entrypoint: python train.py
  rayClusterSpec: &c
    headGroupSpec: {{template: {{spec: {{containers: [{{name: ray-head, image: registry.example.com/r:v1}}]}}}}}}
    workerGroupSpecs:
    - {{groupName: gpu, replicas: 2, minReplicas: 1, maxReplicas: 4, template: {{spec: {{containers: [{{name: ray-worker, image: registry.example.com/r:v1}}]}}}}}}
status:
  rayClusterName: r-x7k2p
  jobId: r-9wq4z
  startTime: '2026-11-28T01:00:10Z'
{status}---
{}",
        ray_cluster("r-x7k2p", "ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: r, controller: true}], ")
    )
}

/// A RayCluster that was ready.
pub(super) fn ray_cluster(name: &str, more: &str) -> String {
    format!(
        "\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: {name}, namespace: ml, uid: rc, {more}creationTimestamp: '2026-11-28T01:00:10Z'}}
spec:
  headGroupSpec: {{template: {{spec: {{containers: [{{name: ray-head, image: registry.example.com/r:v1}}]}}}}}}
  workerGroupSpecs:
  - {{groupName: gpu, replicas: 2, minReplicas: 1, maxReplicas: 4, template: {{spec: {{containers: [{{name: ray-worker, image: registry.example.com/r:v1}}]}}}}}}
status:
  state: ready
  desiredWorkerReplicas: 2
  readyWorkerReplicas: 2
  availableWorkerReplicas: 2
  head: {{podName: {name}-head-aaaaa, podIP: 10.0.0.7}}
  conditions:
  - {{type: RayClusterProvisioned, status: 'True', reason: AllPodRunningAndReadyFirstTime, lastTransitionTime: '2026-11-28T01:00:40Z'}}
"
    )
}

/// A pod of the RayCluster: the head, or a worker.
pub(super) fn ray_pod(name: &str, sort: &str, more: &str) -> String {
    let (group, container) = if sort == "head" { ("headgroup", "ray-head") } else { ("gpu", "ray-worker") };
    format!(
        "\
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: ml
  creationTimestamp: '2026-11-28T01:00:12Z'
  labels: {{ray.io/cluster: r-x7k2p, ray.io/node-type: {sort}, ray.io/group: {group}}}
  ownerReferences: [{{apiVersion: ray.io/v1, kind: RayCluster, name: r-x7k2p, uid: rc, controller: true}}]
{more}spec: {{nodeName: {name}-node}}
status:
  phase: Running
  conditions: [{{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:40Z'}}]
  containerStatuses: [{{name: {container}, ready: true, state: {{running: {{startedAt: '2026-11-28T01:00:40Z'}}}}}}]
"
    )
}

/// All pods of the RayCluster.
pub(super) fn ray_pods() -> String {
    ["head", "worker", "worker"]
        .iter()
        .enumerate()
        .map(|(nth, sort)| ray_pod(&format!("r-x7k2p-{sort}-{nth}"), sort, ""))
        .collect()
}

/// The submitter Job with its status, and its pods.
pub(super) fn submitter(status: &str, pods: &str) -> String {
    format!(
        "\
---
apiVersion: batch/v1
kind: Job
metadata:
  name: r
  namespace: ml
  uid: sj
  creationTimestamp: '2026-11-28T01:00:42Z'
  ownerReferences: [{{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: r, controller: true}}]
spec:
  backoffLimit: 2
  completions: 1
  parallelism: 1
  template: {{spec: {{restartPolicy: Never, containers: [{{name: ray-job-submitter, image: registry.example.com/r:v1}}]}}}}
status:
{status}{pods}"
    )
}

/// A pod of the submitter Job, with its status.
pub(super) fn submitter_pod(name: &str, created: &str, status: &str) -> String {
    format!(
        "\
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: ml
  creationTimestamp: '2026-11-28T{created}Z'
  labels: {{batch.kubernetes.io/job-name: r}}
  ownerReferences: [{{apiVersion: batch/v1, kind: Job, name: r, uid: sj, controller: true}}]
spec: {{nodeName: cpu-1}}
status:
{status}"
    )
}

/// A submitter that runs since a minute after its RayJob was made.
pub(super) fn running_submitter() -> String {
    let status = "  \
phase: Running
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-11-28T01:00:44Z'}]
  containerStatuses: [{name: ray-job-submitter, ready: true, state: {running: {startedAt: '2026-11-28T01:00:44Z'}}}]
";
    submitter(
        "  active: 1\n  ready: 1\n  startTime: '2026-11-28T01:00:42Z'\n",
        &submitter_pod("r-abcde", "01:00:42", status),
    )
}
