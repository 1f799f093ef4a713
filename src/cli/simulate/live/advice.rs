//! What a person can do about what a Job waits for.

use super::status::Standing;
use super::subject::{Subject, nested};
use super::words::quoted;
use crate::controllers::live::{Wait, WaitFor};
use crate::controllers::story::Ending;
use crate::controllers::time::Time;
use crate::text::value::{Value, json};

/// From when on a pod that is to start is worth a look.
const SLOW: Time = Time::from_seconds(-300);

/// Returns a name as an argument of a command; what is none is left to be filled in.
fn word<'n>(name: Option<&'n str>, other: &'n str) -> &'n str {
    let is_plain = |name: &&str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            && !name.is_empty()
            && !name.starts_with('-')
    };
    name.filter(is_plain).unwrap_or(other)
}

/// Returns the namespace as an argument: ` -n ml`.
fn namespace(subject: &Subject) -> String {
    subject.namespace().map_or_else(String::new, |name| format!(" -n {}", word(Some(name), "NAMESPACE")))
}

/// Returns the name as an argument.
fn name(subject: &Subject) -> &str {
    word(Some(subject.name()), "NAME")
}

/// Returns a command that changes `spec`.
fn patch(subject: &Subject, spec: &Value) -> String {
    format!(
        "kubectl patch {} {}{} --type=merge -p '{}'",
        subject.resource(),
        name(subject),
        namespace(subject),
        json!({ "spec": spec.clone() })
    )
}

/// Returns a command that changes a number of `spec`, which is to be filled in.
fn patch_number(subject: &Subject, keys: &[&str], number: &str) -> Option<String> {
    let marked = nested(keys, Value::from(number))?;
    // It is a number, and no text.
    Some(patch(subject, &marked).replace(&format!("\"{number}\""), number))
}

/// Returns what can be done, each a line, in the order of what is waited for.
pub(super) fn advice(standing: &Standing) -> Vec<String> {
    let mut lines = Vec::new();
    for wait in &standing.waits {
        for line in of_wait(&standing.subject, wait) {
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

/// Returns what is described where pods of it are missing: the Job below, else the object itself.
fn below(subject: &Subject, wait: &Wait) -> String {
    match wait.of.first().and_then(|one| one.split_once(' ')) {
        Some((kind, of)) => format!("{} {}", kind.to_ascii_lowercase(), word(Some(of), "NAME")),
        None => format!("{} {}", subject.resource(), name(subject)),
    }
}

fn of_wait(subject: &Subject, wait: &Wait) -> Vec<String> {
    let in_namespace = namespace(subject);
    let pod = word(wait.pods.first().map(String::as_str), "POD");
    let name = format!("{} {}", subject.resource(), name(subject));
    let describe = format!("`kubectl describe pod {pod}{in_namespace}` has its events");
    match &wait.what {
        WaitFor::Nobody if subject.owner().is_none() => {
            vec![format!("`kubectl delete {name}{in_namespace}`")]
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
            "nothing on the {}: Kueue owns `suspend`; `kubectl get workloads{in_namespace}` says why it is not admitted",
            subject.kind()
        )],
        WaitFor::Resume { queue: None } if wait.of.is_empty() => {
            subject.resumption().map(|spec| format!("`{}`", patch(subject, &spec))).into_iter().collect()
        }
        WaitFor::Resume { queue: None } => Vec::new(),
        WaitFor::LastCondition { .. } => Vec::new(),
        WaitFor::Stuck { .. }
        | WaitFor::Kept { .. }
        | WaitFor::Silent
        | WaitFor::Unschedulable { .. }
        | WaitFor::Gated { .. }
        | WaitFor::Image { .. }
        | WaitFor::Container { .. }
        | WaitFor::CrashLoop { .. } => of_pod(subject, wait),
        WaitFor::Backoff { .. } => {
            let mut lines = vec![
                "nothing: the pods are made then; sooner only if the Job is deleted and created again"
                    .to_owned(),
            ];
            lines.extend(subject.last_failed().map(|pod| {
                format!(
                    "`kubectl logs {}{in_namespace}` says why the last one failed",
                    word(Some(pod), "POD")
                )
            }));
            lines
        }
        WaitFor::Starting if wait.since.is_some_and(|at| at < SLOW) => vec![describe],
        WaitFor::Starting => Vec::new(),
        WaitFor::Missing { .. } => vec![format!(
            "`kubectl describe {}{in_namespace}` says why: a quota or a webhook refuses them, or {} is away",
            below(subject, wait),
            if wait.of.is_empty() && subject.job().is_none() {
                subject.controller()
            } else {
                "the controller"
            }
        )],
        WaitFor::Objects { .. }
        | WaitFor::Order { .. }
        | WaitFor::Previous { .. }
        | WaitFor::NotReplaced { .. }
        | WaitFor::Overdue { .. }
        | WaitFor::LeftOver { .. } => of_operator(subject, wait),
        WaitFor::NoPods => subject
            .job()
            .map(|_| format!("`{}`", patch(subject, &json!({ "parallelism": 1 }))))
            .into_iter()
            .collect(),
        WaitFor::FirstLook if subject.job().is_none() && wait.of.is_empty() => {
            vec![format!("look at the logs of {}: is it there?", subject.controller())]
        }
        WaitFor::FirstLook => vec![
            "`kubectl get lease kube-controller-manager -n kube-system`: is the controller manager there?"
                .to_owned(),
        ],
    }
}

/// Returns what can be done about what a pod waits for.
fn of_pod(subject: &Subject, wait: &Wait) -> Vec<String> {
    let in_namespace = namespace(subject);
    let pod = word(wait.pods.first().map(String::as_str), "POD");
    let node = word(wait.nodes.first().map(String::as_str), "NODE");
    let describe = format!("`kubectl describe pod {pod}{in_namespace}` has its events");
    let again = match subject {
        Subject::Job(_) => {
            "the pod template of a Job cannot be changed: delete the Job and create it again with another"
                .to_owned()
        }
        Subject::Object(_) => format!(
            "pods that are there keep their template: delete the {} and create it again with another",
            subject.kind()
        ),
    };
    match &wait.what {
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
        _ => Vec::new(),
    }
}

/// Returns what can be done about what only an object of an operator waits for.
fn of_operator(subject: &Subject, wait: &Wait) -> Vec<String> {
    let in_namespace = namespace(subject);
    let pod = word(wait.pods.first().map(String::as_str), "POD");
    let name = format!("{} {}", subject.resource(), name(subject));
    match &wait.what {
        WaitFor::Objects { .. } => vec![format!(
            "`kubectl describe {name}{in_namespace}` says why: a quota or a webhook refuses what it makes, or {} is away",
            subject.controller()
        )],
        WaitFor::NotReplaced { .. } => vec![
            format!("`kubectl logs {pod}{in_namespace}` says why it ended"),
            format!("`kubectl delete pod {pod}{in_namespace}`: then {} makes it again", subject.controller()),
        ],
        WaitFor::Overdue { is_idle: true } => vec![format!(
            "any change of it lets {} look, which fails it: `kubectl annotate {name}{in_namespace} looked-at=now --overwrite`",
            subject.controller()
        )],
        WaitFor::Overdue { is_idle: false } => {
            vec![format!("look at the logs of {}: is it there?", subject.controller())]
        }
        WaitFor::LeftOver { .. } => {
            vec![format!("`kubectl delete {name}{in_namespace}` deletes its pods, too")]
        }
        _ => Vec::new(),
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
            let later = patch_number(&standing.subject, standing.subject.deadline_at(), "SECONDS")?;
            Some(format!("a later deadline: `{later}`"))
        }
        Some("BackoffLimitExceeded") if standing.subject.job().is_some() => {
            let more = patch_number(&standing.subject, &["backoffLimit"], "N")?;
            Some(format!("more retries: `{more}`"))
        }
        _ => None,
    }
}
