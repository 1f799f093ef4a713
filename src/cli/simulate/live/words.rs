//! What a Job, or an object of an operator, waits for, in words.

use super::status::Standing;
use super::subject::Subject;
use super::times::{Moment, since};
use crate::cli::simulate::timeline::shortened;
use crate::controllers::live::{Wait, WaitFor};
use crate::controllers::time::Time;
use crate::report::clean;
use crate::text::lines::cut;
use crate::text::number::plural;

/// How many bytes of a message are quoted.
const QUOTED: usize = 200;

/// Returns a text of the cluster on one line, cut short.
pub(super) fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    clean(&cut(&line, QUOTED, " ...")).into_owned()
}

/// Returns names in words: the first ones, and how many more.
pub(super) fn names(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| clean(name).into_owned()).collect();
    match names.len() {
        0 => "its pods".to_owned(),
        1..=3 => shown.join(", "),
        all => format!("{} and {} more", shown.join(", "), all - 3),
    }
}

fn verb(wait: &Wait, one: &str, several: &str) -> String {
    if wait.pods.len() == 1 { one.to_owned() } else { several.to_owned() }
}

/// Returns the nodes: ` on gpu-7`, ` on 3 nodes`; nothing where there is none.
fn nodes(wait: &Wait) -> String {
    match wait.nodes.as_slice() {
        [] => String::new(),
        [node] => format!(" on {}", clean(node)),
        several => format!(" on {} nodes", several.len()),
    }
}

/// Returns the objects below whose wait it is: ` of the Job train-workers-0`, ` of 3 Jobs`; nothing where it is its own.
fn of(wait: &Wait) -> String {
    match wait.of.as_slice() {
        [] => String::new(),
        [one] => format!(" of the {}", clean(one)),
        several => {
            let kind = several.first().and_then(|one| one.split(' ').next()).unwrap_or("object");
            format!(" of {} {kind}s", several.len())
        }
    }
}

/// Returns what is in deletion, or is to end: `its`, `the Job train-workers-0's`.
fn whose(wait: &Wait, what: &str) -> String {
    if wait.of.is_empty() { format!("its {what}") } else { format!("the {what}{}", of(wait)) }
}

fn for_long(at: Option<Time>) -> String {
    at.map_or_else(String::new, |at| format!(" for {}", since(at)))
}

fn message(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", quoted(text)) }
}

/// Returns what keeps pods from running.
fn not_running(wait: &Wait, pods: &str, long: &str) -> String {
    match &wait.what {
        WaitFor::Unschedulable { message: text } => format!("a node for {pods},{long}{}", message(text)),
        WaitFor::Gated { gates } => {
            format!("the scheduling gates of {pods},{long}: {}", quoted(&gates.join(", ")))
        }
        WaitFor::Image { reason, image, message: text } => {
            format!("the image {} of {pods},{long} ({}){}", quoted(image), quoted(reason), message(text))
        }
        WaitFor::Container { reason, message: text } => {
            format!("what a container of {pods} needs,{long} ({}){}", quoted(reason), message(text))
        }
        WaitFor::CrashLoop { restarts, code } => {
            let code = code.map_or_else(String::new, |code| format!(" with exit code {code}"));
            format!(
                "the program of {pods}, which fails{code} whenever it starts: {}, and the kubelet waits longer before each",
                plural(*restarts as usize, "restart")
            )
        }
        _ => String::new(),
    }
}

/// Returns which pods do not end, or are on a node that does not answer.
fn not_ending(wait: &Wait, moment: Moment, pods: &str, long: &str) -> String {
    let nodes = nodes(wait);
    match &wait.what {
        WaitFor::Stuck { is_node_lost, is_held } => {
            let node = if *is_node_lost { ": its node seems not to answer" } else { "" };
            let held = if *is_held { "; it is replaced only at its end" } else { "" };
            let has = verb(wait, "has", "have");
            let does = verb(wait, "does not end", "do not end");
            format!("{pods}, which {has} been terminating{long}{nodes} and {does}{node}{held}")
        }
        WaitFor::Kept { finalizers } => {
            let has = verb(wait, "has ended and is", "have ended and are");
            format!("{pods}, which {has} kept by {}{long}", quoted(&finalizers.join(", ")))
        }
        WaitFor::Silent => {
            let until = wait.until.map_or_else(String::new, |until| match until > Time::START {
                true => format!(
                    "; if it does not come back, its pods are deleted at {}",
                    moment.with_distance(until)
                ),
                false => String::new(),
            });
            format!("the node of {pods}, which has not answered{long}{nodes}{until}")
        }
        _ => String::new(),
    }
}

/// Returns what a Job waits for, as the end of `waits for: …`.
pub(super) fn sentence(standing: &Standing, wait: &Wait) -> String {
    let Standing { subject, moment, .. } = standing;
    let pods = names(&wait.pods);
    let (long, nodes) = (for_long(wait.since), nodes(wait));
    match &wait.what {
        WaitFor::Ttl | WaitFor::Nobody => ended(subject, wait, *moment),
        WaitFor::Deletion { finalizers } => {
            let kept = if finalizers.is_empty() {
                String::new()
            } else {
                format!("; it is kept by {}", quoted(&finalizers.join(", ")))
            };
            format!("{},{long}{kept}", whose(wait, "deletion"))
        }
        WaitFor::Manager { name } => {
            let it = if wait.of.is_empty() { "it" } else { "what is below it" };
            format!("{}, which runs {it} in place of {} (managedBy)", quoted(name), subject.controller())
        }
        WaitFor::Resume { queue: Some(queue) } => {
            format!("Kueue to admit it, in the queue {},{long}", quoted(queue))
        }
        WaitFor::Resume { queue: None } if wait.of.is_empty() => {
            format!("somebody to resume it: it has been suspended{long}")
        }
        WaitFor::Resume { queue: None } => {
            format!("the resumption{}: suspended{long}, and its operator resumes it", of(wait))
        }
        WaitFor::LastCondition { sort, reason } => {
            let last = if sort == "FailureTarget" { "Failed" } else { "Complete" };
            format!(
                "{}: {} ({}) was written{}, and {last} follows when no pod is terminating",
                whose(wait, "end"),
                quoted(sort),
                quoted(reason),
                wait.since.map_or_else(String::new, |at| format!(" {} ago", since(at)))
            )
        }
        WaitFor::Stuck { .. } | WaitFor::Kept { .. } | WaitFor::Silent => {
            not_ending(wait, *moment, &pods, &long)
        }
        WaitFor::Unschedulable { .. }
        | WaitFor::Gated { .. }
        | WaitFor::Image { .. }
        | WaitFor::Container { .. }
        | WaitFor::CrashLoop { .. } => not_running(wait, &pods, &long),
        WaitFor::Backoff { failures, indexes } => {
            let indexes = indexes.as_ref().map_or_else(String::new, |indexes| {
                format!(" of {} {}", if indexes.len() == 1 { "index" } else { "indexes" }, shortened(indexes))
            });
            let of = format!("{indexes}{}", of(wait));
            let until = wait.until.map_or_else(String::new, |until| moment.with_distance(until));
            format!("back-off{of} until {until}, after {}", plural(*failures as usize, "failure"))
        }
        WaitFor::Terminating { is_held } => {
            let until = wait.until.map_or_else(String::new, |until| moment.with_distance(until));
            let held = if *is_held { ", and then others are made" } else { "" };
            let is = verb(wait, "is terminating and ends", "are terminating and end");
            format!("{pods}, which {is} by {until}{held}")
        }
        WaitFor::Starting => format!("{pods} to start,{long}{nodes}"),
        WaitFor::Missing { .. }
        | WaitFor::Objects { .. }
        | WaitFor::Order { .. }
        | WaitFor::Previous { .. }
        | WaitFor::NotReplaced { .. }
        | WaitFor::Overdue { .. }
        | WaitFor::LeftOver { .. } => of_operator(standing, wait, &pods, &long),
        WaitFor::NoPods if wait.of.is_empty() => "nothing: its parallelism is 0".to_owned(),
        WaitFor::NoPods => format!("nothing{}: the parallelism is 0", of(wait)),
        WaitFor::FirstLook => {
            let by = if wait.of.is_empty() { subject.controller() } else { "the Job controller" };
            let at = if wait.of.is_empty() { "it" } else { "what is below it" };
            format!("{by}, which has not looked at {at}{long}")
        }
        WaitFor::Pods { count, ready } => {
            let run = if *count == 1 {
                "its pod, which runs".to_owned()
            } else {
                format!("its {count} pods, which run")
            };
            let not_ready = match count - ready.min(count) {
                0 => String::new(),
                _ if *count == 1 => " and is not ready".to_owned(),
                _ => format!(" ({ready} ready)"),
            };
            let deadline = match wait.until {
                Some(at) => format!("the deadline is at {}", moment.with_distance(at)),
                None => "there is no deadline".to_owned(),
            };
            format!("{run}{not_ready}; {deadline}")
        }
    }
}

/// Returns what only an object of an operator waits for, and pods that are missing.
fn of_operator(standing: &Standing, wait: &Wait, pods: &str, long: &str) -> String {
    let Standing { subject, moment, .. } = standing;
    let by = if wait.of.is_empty() { subject.controller() } else { "the Job controller" };
    match &wait.what {
        WaitFor::Missing { count, role } => {
            let role =
                role.as_ref().map_or_else(String::new, |role| format!(" of the role {}", quoted(role)));
            format!("{}{role}{} that {by} has not made{long}", plural(*count as usize, "pod"), of(wait))
        }
        WaitFor::Objects { count, kind, role } => {
            let by = standing.subject.controller();
            let role = role.as_ref().map_or_else(String::new, |role| format!(" for {}", quoted(role)));
            if *count == 1 {
                format!("its {kind}{role}, which {by} has not made{long}")
            } else {
                format!("{count} {kind}s{role} that {by} has not made{long}")
            }
        }
        WaitFor::Order { role, after, is_complete } => {
            let until = if *is_complete { "complete" } else { "ready" };
            format!("{} to be {until}: only then {} is made", quoted(after), quoted(role))
        }
        WaitFor::Previous { count } => {
            let (are, names) = (if *count == 1 { "is" } else { "are" }, names(&wait.of));
            format!(
                "{names} of the attempt before, which {are} deleted with all pods{long}: the next attempt takes the names"
            )
        }
        WaitFor::NotReplaced { role } => {
            let (have, name) =
                if wait.pods.len() == 1 { ("has", "its name") } else { ("have", "their names") };
            let ago = wait.since.map_or_else(String::new, |at| format!(" {} ago", since(at)));
            format!(
                "nobody to replace {pods}, which {have} ended{ago}: {by} makes a pod of the role {} only where {name} is free",
                quoted(role)
            )
        }
        WaitFor::Overdue { is_idle } => {
            let at = wait.since.map_or_else(String::new, |at| moment.with_distance(at));
            let look = if *is_idle {
                "looks only when something happens to it, or each 10 h"
            } else {
                "has not looked at it since"
            };
            format!("its end: the deadline passed at {at}, and {by} {look}")
        }
        WaitFor::LeftOver { count } => {
            let run = if *count == 1 { "its pod runs" } else { "its pods run" };
            format!(
                "nobody: {run} on after its end, and {by} leaves {} alone: {pods}",
                if *count == 1 { "it" } else { "them" }
            )
        }
        _ => String::new(),
    }
}

fn ended(subject: &Subject, wait: &Wait, moment: Moment) -> String {
    let ago = wait.since.map_or_else(String::new, |at| format!(" {} ago", since(at)));
    let deleted = match (wait.until, subject.owner()) {
        (Some(at), _) if at > Time::START => {
            format!("it is deleted at {}, by its `ttlSecondsAfterFinished`", moment.with_distance(at))
        }
        (Some(at), _) => {
            format!("it was to be deleted at {}, by its `ttlSecondsAfterFinished`", moment.with_distance(at))
        }
        (None, Some((kind, name))) if kind == "CronJob" => {
            format!("the CronJob {} deletes it, by its history limits", quoted(name))
        }
        (None, Some((kind, name))) => {
            format!("it is deleted with its owner, the {} {}", quoted(kind), quoted(name))
        }
        (None, None) => "nobody deletes it: it has no `ttlSecondsAfterFinished`".to_owned(),
    };
    format!("nothing: it ended{ago}; {deleted}")
}
