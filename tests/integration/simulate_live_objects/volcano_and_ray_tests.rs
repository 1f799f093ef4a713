//! What comes next of Volcano Jobs, RayJobs and RayClusters that run.

use super::volcano_and_ray::{
    KILLED, RUNNING, failed, pod_group, ray_cluster, ray_job, ray_pod, ray_pods, running_submitter,
    submitter, submitter_pod, task_pod, volcano,
};
use super::{NOW, end_of, holds, shown};
use crate::support::place::{Place, code, stderr};

#[test]
fn dump() {
    let failed_now = failed("10:08");
    let restart = "{event: PodFailed, action: RestartJob}";
    let running = "state: {phase: Running, lastTransitionTime: '2026-11-28T01:00:14Z'}";
    let job = |policy: &str, ended: &str| {
        volcano(policy, running)
            + &task_pod("master", 0, "", RUNNING)
            + &task_pod("worker", 0, "", RUNNING)
            + &task_pod("worker", 1, "", &failed(ended))
    };
    let _ = failed_now;
    println!(
        "=== restart now\n{}",
        shown(&(job(restart, "10:08") + &pod_group("Running", "01:00:10")), &["--runtime", "4h"])
    );
    println!("=== lost\n{}", shown(&job(restart, "00:08"), &["--runtime", "4h"]));
    let timed = "{event: PodFailed, action: RestartJob, timeout: 10m}";
    println!("=== timed\n{}", shown(&job(timed, "05:10"), &["--runtime", "4h"]));
    let ending = |phase: &str| {
        volcano(
            restart,
            &format!(
                "state: {{phase: {phase}, lastTransitionTime: '2026-11-28T03:10:08Z'}}\n  version: 1\n  retryCount: 1\n  terminating: 3"
            ),
        ) + &task_pod("master", 0, KILLED, RUNNING)
            + &task_pod("worker", 0, KILLED, RUNNING)
            + &task_pod("worker", 1, KILLED, RUNNING)
    };
    println!("=== restarting\n{}", shown(&ending("Restarting"), &["--runtime", "4h"]));
    println!("=== aborting\n{}", shown(&ending("Aborting"), &["--runtime", "4h"]));
    let seen = "  jobDeploymentStatus: Running\n  jobStatus: RUNNING\n  dashboardURL: r-x7k2p-head-svc:8265\n  rayJobInfo: {startTime: '2026-11-28T01:01:10Z'}\n";
    let ray = |spec: &str, status: &str| ray_job(spec, status) + &ray_pods() + &running_submitter();
    println!(
        "=== ray deadline\n{}",
        shown(&ray("  activeDeadlineSeconds: 21600\n", seen), &["--runtime", "12h"])
    );
    println!(
        "=== ray\n{}",
        shown(
            &ray("", seen),
            &[
                "--what",
                "node-lost:ray-head",
                "--what",
                "submitter-lost",
                "--what",
                "dashboard-silent:6m",
                "--what",
                "operator-away:1m",
                "--what",
                "exit=1@1h",
                "--what",
                "exit=1@1h:role=gpu,index=1"
            ]
        )
    );
    let unseen = "  jobDeploymentStatus: Running\n  dashboardURL: r-x7k2p-head-svc:8265\n";
    let retrying = ray_job("  backoffLimit: 1\n", unseen)
        + &ray_pods()
        + &submitter(
            "  failed: 1\n  startTime: '2026-11-28T01:00:42Z'\n",
            &submitter_pod(
                "r-abcde",
                "03:09:50",
                "  phase: Failed\n  containerStatuses: [{name: ray-job-submitter, state: {terminated: {exitCode: 1, finishedAt: '2026-11-28T03:10:05Z'}}}]\n",
            ),
        );
    println!("=== submitter failed\n{}", shown(&retrying, &[]));
    println!(
        "=== retrying\n{}",
        shown(
            &ray_job(
                "  backoffLimit: 1\n",
                "  jobDeploymentStatus: Retrying\n  failed: 1\n  reason: SubmissionFailed\n"
            ),
            &[]
        )
    );
    let cluster = ray_cluster("r-x7k2p", "")
        + &ray_pod("r-x7k2p-worker-1", "worker", "")
        + &ray_pod("r-x7k2p-worker-2", "worker", "");
    println!("=== no head\n{}", shown(&cluster, &[]));
    let dead = ray_pod("r-x7k2p-head-0", "head", "")
        .replace("status: 'True'", "status: 'False'")
        .replace("lastTransitionTime: '2026-11-28T01:00:40Z'", "lastTransitionTime: '2026-11-28T03:08:00Z'");
    println!("=== dead head\n{}", shown(&(cluster.clone() + &dead), &[]));
    println!("=== head in ray\n{}", shown(&(ray_job("", seen) + &dead + &running_submitter()), &[]));
    println!(
        "{:?}",
        (
            NOW,
            end_of as usize,
            holds as usize,
            code as usize,
            stderr as usize,
            std::any::type_name::<Place>()
        )
    );
}
