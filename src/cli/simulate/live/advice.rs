//! What a person can do about what a Job waits for.

use super::standing::Standing;
use super::words::quoted;
use crate::controllers::live::{LiveJob, Wait, WaitFor};
use crate::controllers::story::Ending;
use crate::controllers::time::Time;

/// From when on a pod that is to start is worth a look.
const SLOW: Time = Time::from_seconds(-300);

/// Returns a name as an argument of a command; what is none is left to be filled in.
fn word<'n>(name: Option<&'n String>, other: &'n str) -> &'n str {
    let is_plain = |name: &&String| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            && !name.is_empty()
            && !name.starts_with('-')
    };
    name.filter(is_plain).map_or(other, String::as_str)
}

/// Returns the namespace as an argument: ` -n ml`.
fn namespace(job: &LiveJob) -> String {
    job.namespace.as_ref().map_or_else(String::new, |name| format!(" -n {}", word(Some(name), "NAMESPACE")))
}

fn patch(job: &LiveJob, spec: &str) -> String {
    format!(
        "kubectl patch job {}{} --type=merge -p '{{\"spec\":{{{spec}}}}}'",
        word(Some(&job.name), "JOB"),
        namespace(job)
    )
}

/// Returns what can be done, each a line, in the order of what is waited for.
pub(super) fn advice(standing: &Standing) -> Vec<String> {
    let mut lines = Vec::new();
    for wait in &standing.waits {
        for line in of_wait(&standing.job, wait) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if let Some(line) = of_end(standing).filter(|line| !lines.contains(line)) {
        lines.push(line);
    }
    lines
}

fn of_wait(job: &LiveJob, wait: &Wait) -> Vec<String> {
    let in_namespace = namespace(job);
    let pod = word(wait.pods.first(), "POD");
    let node = word(wait.nodes.first(), "NODE");
    let name = word(Some(&job.name), "JOB");
    let describe = format!("`kubectl describe pod {pod}{in_namespace}` has its events");
    let again =
        "the pod template of a Job cannot be changed: delete the Job and create it again with another";
    match &wait.what {
        WaitFor::Nobody if job.owner.is_none() => {
            vec![format!("`kubectl delete job {name}{in_namespace}`")]
        }
        WaitFor::Ttl | WaitFor::Nobody | WaitFor::Terminating { .. } | WaitFor::Pods { .. } => Vec::new(),
        WaitFor::Deletion { finalizers } => {
            let foreign =
                finalizers.iter().find(|one| !["foregroundDeletion", "orphan"].contains(&one.as_str()));
            foreign
                .map(|one| {
                    format!("find out whose finalizer {} is: its controller takes it away", quoted(one))
                })
                .into_iter()
                .collect()
        }
        WaitFor::Manager { name } => vec![format!("look at what {} says of it", quoted(name))],
        WaitFor::Resume { queue: Some(_) } => vec![format!(
            "nothing on the Job: Kueue owns `suspend`; `kubectl get workloads{in_namespace}` says why it is not admitted"
        )],
        WaitFor::Resume { queue: None } => vec![format!("`{}`", patch(job, "\"suspend\":false"))],
        WaitFor::LastCondition { .. } => Vec::new(),
        WaitFor::Stuck { is_node_lost, .. } if !wait.nodes.is_empty() => {
            let look = format!("`kubectl get node {node}`: does it answer?");
            let down = format!(
                "only if {node} is known to be down: `kubectl delete pod {pod}{in_namespace} --force --grace-period=0`, or for all its pods `kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`"
            );
            if *is_node_lost { vec![look, down] } else { vec![look, describe, down] }
        }
        WaitFor::Stuck { .. } => vec![describe],
        WaitFor::Kept { finalizers } => vec![format!(
            "find out whose finalizer {} is: its controller takes it away",
            quoted(finalizers.first().map_or("", String::as_str))
        )],
        WaitFor::Silent => vec![format!("`kubectl get node {node}`: does it answer?")],
        WaitFor::Unschedulable { .. } => vec![
            "make room for what the scheduler says is missing; it tries again by itself".to_owned(),
            format!("or ask for less: {again}"),
        ],
        WaitFor::Gated { .. } => {
            vec!["find out whose gates these are: their controller takes them away".to_owned()]
        }
        WaitFor::Image { .. } => vec![
            "push the image, or give access to it: the kubelet tries again by itself".to_owned(),
            format!("or change it: {again}"),
        ],
        WaitFor::Container { .. } => {
            vec![format!("make what is missing: the kubelet tries again by itself; {describe}")]
        }
        WaitFor::CrashLoop { .. } => vec![format!("`kubectl logs {pod}{in_namespace} --previous` says why")],
        WaitFor::Backoff { .. } => {
            let mut lines = vec![
                "nothing: the pods are made then; sooner only if the Job is deleted and created again"
                    .to_owned(),
            ];
            let failed = job.last_failed().map(str::to_owned);
            lines.extend(failed.map(|pod| {
                format!(
                    "`kubectl logs {}{in_namespace}` says why the last one failed",
                    word(Some(&pod), "POD")
                )
            }));
            lines
        }
        WaitFor::Starting if wait.since.is_some_and(|at| at < SLOW) => vec![describe],
        WaitFor::Starting => Vec::new(),
        WaitFor::Missing { .. } => vec![format!(
            "`kubectl describe job {name}{in_namespace}` says why: a quota or a webhook refuses them, or the controller is away"
        )],
        WaitFor::NoPods => vec![format!("`{}`", patch(job, "\"parallelism\":1"))],
        WaitFor::FirstLook => vec![
            "`kubectl get lease kube-controller-manager -n kube-system`: is the controller manager there?"
                .to_owned(),
        ],
    }
}

/// Returns what can be done about how it will end.
fn of_end(standing: &Standing) -> Option<String> {
    let Some(Ok(told)) = &standing.next else { return None };
    let outcome = &told.outcome.outcome;
    if standing.is_decided() || outcome.ending != Ending::Fails {
        return None;
    }
    match outcome.reason.as_deref() {
        Some("DeadlineExceeded") => {
            Some(format!("a later deadline: `{}`", patch(&standing.job, "\"activeDeadlineSeconds\":SECONDS")))
        }
        Some("BackoffLimitExceeded") => {
            Some(format!("more retries: `{}`", patch(&standing.job, "\"backoffLimit\":N")))
        }
        _ => None,
    }
}
