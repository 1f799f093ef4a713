//! What a Job waits for, in words.

use super::standing::Standing;
use super::times::{Moment, since};
use crate::cli::simulate::timeline::shortened;
use crate::controllers::live::{LiveJob, Wait, WaitFor};
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

/// Returns what a Job waits for, as the end of `waits for: …`.
pub(super) fn sentence(standing: &Standing, wait: &Wait) -> String {
    let Standing { job, moment, .. } = standing;
    let pods = names(&wait.pods);
    let (long, nodes) = (for_long(wait.since), nodes(wait));
    match &wait.what {
        WaitFor::Ttl | WaitFor::Nobody => ended(job, wait, *moment),
        WaitFor::Deletion { finalizers } => {
            let kept = if finalizers.is_empty() {
                String::new()
            } else {
                format!("; it is kept by {}", quoted(&finalizers.join(", ")))
            };
            format!("its deletion,{long}{kept}")
        }
        WaitFor::Manager { name } => {
            format!("{}, which runs it in place of the Job controller (managedBy)", quoted(name))
        }
        WaitFor::Resume { queue: Some(queue) } => {
            format!("Kueue to admit it, in the queue {},{long}", quoted(queue))
        }
        WaitFor::Resume { queue: None } => format!("somebody to resume it: it has been suspended{long}"),
        WaitFor::LastCondition { sort, reason } => {
            let last = if sort == "FailureTarget" { "Failed" } else { "Complete" };
            format!(
                "its end: {} ({}) was written{}, and {last} follows when no pod is terminating",
                quoted(sort),
                quoted(reason),
                wait.since.map_or_else(String::new, |at| format!(" {} ago", since(at)))
            )
        }
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
        WaitFor::Unschedulable { .. }
        | WaitFor::Gated { .. }
        | WaitFor::Image { .. }
        | WaitFor::Container { .. }
        | WaitFor::CrashLoop { .. } => not_running(wait, &pods, &long),
        WaitFor::Backoff { failures, indexes } => {
            let of = indexes.as_ref().map_or_else(String::new, |indexes| {
                format!(" of {} {}", if indexes.len() == 1 { "index" } else { "indexes" }, shortened(indexes))
            });
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
        WaitFor::Missing { count } => {
            format!("{} that the Job controller has not made{long}", plural(*count as usize, "pod"))
        }
        WaitFor::NoPods => "nothing: its parallelism is 0".to_owned(),
        WaitFor::FirstLook => format!("the Job controller, which has not looked at it{long}"),
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

fn ended(job: &LiveJob, wait: &Wait, moment: Moment) -> String {
    let ago = wait.since.map_or_else(String::new, |at| format!(" {} ago", since(at)));
    let deleted = match (wait.until, &job.owner) {
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
