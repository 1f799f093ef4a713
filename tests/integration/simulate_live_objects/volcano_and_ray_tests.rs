//! What comes next of Volcano Jobs, RayJobs and RayClusters that run.

use super::volcano_and_ray::{
    KILLED, RUNNING, failed, pod_group, ray_cluster, ray_job, ray_pod, ray_pods, running_submitter,
    submitter, submitter_pod, task_pod, volcano,
};
use super::{NOW, end_of, holds, shown};
use crate::support::place::{Place, code, stderr};

const RESTART: &str = "{event: PodFailed, action: RestartJob}";
const LONG: [&str; 2] = ["--runtime", "4h"];
/// What the status of a RayJob says whose program runs.
const SEEN: &str = "  jobDeploymentStatus: Running\n  jobStatus: RUNNING\n  dashboardURL: r-x7k2p-head-svc:8265\n  rayJobInfo: {startTime: '2026-11-28T01:01:10Z'}\n";

/// A Volcano Job with a policy, of which a worker failed at a time of 03:MM:SS.
fn with_failure(policy: &str, at: &str) -> String {
    let status = "state: {phase: Running, lastTransitionTime: '2026-11-28T01:00:14Z'}";
    let pods = [("master", 0, RUNNING), ("worker", 0, RUNNING), ("worker", 1, &failed(at))];
    let pods = pods.map(|(task, index, status)| task_pod(task, index, "", status));
    volcano(policy, status) + &pods.concat()
}

/// A Volcano Job that killed all its pods, in a phase.
fn killed(phase: &str) -> String {
    let status = format!(
        "state: {{phase: {phase}, lastTransitionTime: '2026-11-28T03:10:08Z'}}\n  version: 1\n  retryCount: 1\n  terminating: 3"
    );
    let pods = [("master", 0), ("worker", 0), ("worker", 1)];
    volcano(RESTART, &status) + &pods.map(|(task, index)| task_pod(task, index, KILLED, RUNNING)).concat()
}

/// A RayJob whose program runs, with all that it made.
fn running_ray_job(spec: &str) -> String {
    ray_job(spec, SEEN) + &ray_pods() + &running_submitter()
}

#[test]
fn a_volcano_job_restarts_after_a_failure_of_now() {
    let job = with_failure(RESTART, "10:08") + &pod_group("Running", "01:00:10");
    let text = shown(&job, &LONG);
    holds(
        &text,
        &[
            "  pods        worker: 1 of 2 active, 1 ready, 1 failed",
            "as it stands, it completes at 07:12:11 (in 4h2m)",
            "1 worker pod 1 created",
            "1 master pod 0 deleted: terminating",
            "PodGroup v-v gone",
            "What comes next is what the controllers of Kubernetes 1.36 and Volcano v1.15.1 do",
        ],
    );
    assert!(!text.contains("its PodGroup, which is not here"), "{text}");
}

#[test]
fn an_action_of_volcano_that_waits_comes_when_it_is_due_and_one_that_was_due_is_lost() {
    let timed = with_failure("{event: PodFailed, action: RestartJob, timeout: 10m}", "05:10");
    holds(
        &shown(&timed, &LONG),
        &[
            "as it stands, it completes at 07:17:11 (in 4h7m)",
            "  03:15:10  in 5m    1 master pod 0 deleted: terminating",
            "; its PodGroup, which is not here, lets its pods be made",
        ],
    );
    holds(
        &shown(&with_failure(RESTART, "00:08"), &LONG),
        &[
            "where the pods do not need one another, it fails at 05:02:14 (in 1h52m)",
            "; RestartJob, which a policy asks for after the failure of v-worker-1, was due 10m2s ago and is lost",
        ],
    );
}

#[test]
fn a_volcano_job_in_the_middle_of_a_restart_or_of_its_end_goes_on() {
    holds(
        &shown(&killed("Restarting"), &LONG),
        &[
            "which are terminating and end by 03:10:38 (in 28s), and then others are made",
            "as it stands, it completes at 07:12:38 (in 4h2m)",
            "  03:10:38  in 28s   2 worker pods 0,1 created",
            "; its PodGroup, which is not here, is taken by the scheduler at once",
        ],
    );
    let text = shown(&killed("Aborting"), &LONG);
    holds(&text, &["as it stands, it fails at 03:10:38 (in 28s): a policy aborts it (`policies`)"]);
    assert!(!text.contains("and then others are made"), "{text}");
}

#[test]
fn a_rayjob_ends_with_its_program_or_at_its_deadline() {
    holds(
        &shown(&running_ray_job(""), &[]),
        &[
            "  pods        submitter: 1 of 1 active, 1 ready",
            "as it stands, it completes at 13:03:1",
            "; the work counts from the start of the program",
            "and KubeRay v1.7.0 do",
        ],
    );
    holds(
        &shown(&running_ray_job("  activeDeadlineSeconds: 21600\n"), &["--runtime", "12h"]),
        &["as it stands, it fails at 07:00:10 (in 3h50m): the deadline passes (`activeDeadlineSeconds`)"],
    );
}

#[test]
fn incidents_of_ray_happen_to_a_rayjob_that_runs() {
    let job = running_ray_job("");
    for (story, expected) in [
        ("node-lost:ray-head", "it fails at 03:15:15 (in 5m5s): the dashboard is silent for five minutes"),
        ("dashboard-silent:6m", "it fails at 03:15:14 (in 5m4s): the dashboard is silent for five minutes"),
        (
            "exit=1@1h",
            "it fails at 04:10:13 (in 1h): the program fails, and no retry is left (`backoffLimit`)",
        ),
        ("submitter-lost", "it completes at 13:03:1"),
        ("operator-away:1m", "it completes at 13:03:1"),
        ("exit=1@1h:role=gpu,index=1", "it completes at 13:03:1"),
    ] {
        let (_, text) = end_of(&job, &["--what", story]);
        assert!(text.starts_with(expected), "{story}: {text}");
    }
}

#[test]
fn a_submitter_that_failed_is_made_again_and_so_is_an_attempt() {
    let unseen = "  jobDeploymentStatus: Running\n  dashboardURL: r-x7k2p-head-svc:8265\n";
    let pod =
        submitter_pod("r-abcde", "03:09:50", &failed("10:05").replace("name: c", "name: ray-job-submitter"));
    let failed = submitter("  failed: 1\n  startTime: '2026-11-28T01:00:42Z'\n", &pod);
    holds(
        &shown(&(ray_job("  backoffLimit: 1\n", unseen) + &ray_pods() + &failed), &[]),
        &[
            "  back-off of the Job r until 03:10:15 (in 5s), after 1 failure",
            "as it stands, it completes at 15:12:1",
            "  03:10:15  in 5s     1 submitter pod 0 created",
            "; its dashboard knows no program yet",
        ],
    );
    let retrying = "  jobDeploymentStatus: Retrying\n  failed: 1\n  reason: SubmissionFailed\n";
    holds(
        &shown(&ray_job("  backoffLimit: 1\n", retrying), &[]),
        &["it completes at 15:12:1", "RayCluster r-x7k2p gone", "Job r created"],
    );
}

/// A RayCluster with its workers.
fn workers() -> String {
    let pods = ["r-x7k2p-worker-1", "r-x7k2p-worker-2"].map(|name| ray_pod(name, "worker", ""));
    ray_cluster("r-x7k2p", "") + &pods.concat()
}

/// The head of the RayCluster, on a node that does not answer.
fn lost_head() -> String {
    ray_pod("r-x7k2p-head-0", "head", "")
        .replace("status: 'True'", "status: 'False'")
        .replace("lastTransitionTime: '2026-11-28T01:00:40Z'", "lastTransitionTime: '2026-11-28T03:08:00Z'")
}

#[test]
fn a_raycluster_makes_its_head_again() {
    holds(
        &shown(&workers(), &[]),
        &[
            "  1 pod of the role head that KubeRay has not made",
            "if its pods are made now, it runs on",
            "  03:10:10  in 0s  1 head pod 0 created",
            "\nassumed: which programs run in it is not known: none is looked at\n",
        ],
    );
    let lost = workers() + &lost_head();
    holds(
        &shown(&lost, &[]),
        &["as it stands, it runs on", "  03:13:05  in 2m55s  1 head pod 0 evicted: terminating"],
    );
}

#[test]
fn a_rayjob_whose_head_is_lost_fails_by_the_silence_of_its_dashboard() {
    let job = ray_job("", SEEN) + &lost_head() + &running_submitter();
    holds(
        &shown(&job, &[]),
        &[
            "it fails at 03:15:10 (in 5m): the dashboard is silent for five minutes (`entrypoint`)",
            "1 submitter pod 0 failed with exit code 1",
            "; its head was lost after the program had started: no dashboard knows the program",
        ],
    );
}

#[test]
fn what_is_missing_of_a_rayjob_is_said() {
    holds(
        &shown(&ray_job("", SEEN), &[]),
        &["what comes next is not simulated: its submitter Job r is not here"],
    );
    let place = Place::with(&[("saved.yaml", &running_ray_job("  submissionMode: HTTPMode\n"))]);
    let output = place.run(&["simulate", "--now", NOW, "--what", "submitter-lost", "saved.yaml"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("is about the pod that submits a RayJob, and it has none"),
        "{}",
        stderr(&output)
    );
}
