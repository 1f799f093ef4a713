//! Objects of operators with what they made, as kubectl prints them.

/// A worker whose image cannot be pulled, and one that the API server refuses.
pub(super) const PYTORCH: &str = "\
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
pub(super) const JOB_SET: &str = "\
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
pub(super) const MPI: &str = "\
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

/// The start of other kinds: a Volcano Job, a RayJob with its cluster.
pub(super) const OTHERS: &str = "\
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
