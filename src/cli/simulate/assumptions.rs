//! What is assumed, in words.

use crate::cli::args::{OrNone, Simulate};
use crate::controllers::incident::Duration;
use crate::controllers::program::Peers;
use crate::controllers::script::INQUEUE;
use crate::controllers::story::Assumptions;
use crate::controllers::time::Time;
use crate::report::clean;

/// What is assumed of templates that are not validated, in words that go on.
pub(super) const ACCEPTED: &str =
    "; the API server accepts the pods, which are not validated: `spec` is too large for that";

/// Returns what is assumed of the scheduler of a gang, in words that go on.
pub(super) fn gang_in_words(after: Option<Time>) -> String {
    match after {
        Some(after) if after <= INQUEUE => "; a scheduler takes its gang at once".to_owned(),
        Some(after) => format!("; a scheduler takes its gang after {}", Duration(after)),
        None => "; no scheduler takes its gang".to_owned(),
    }
}

/// Returns what is assumed of the queue of an object, in words that go on.
pub(super) fn queue_in_words(queue: &str, wait: Option<Time>) -> String {
    let wait = match wait {
        Some(wait) => format!("waits {} until all pods are ready (`waitForPodsReady`)", Duration(wait)),
        None => "does not wait for pods (`waitForPodsReady`)".to_owned(),
    };
    format!("; the queue `{}` has quota for it at once, and Kueue {wait}", clean(queue))
}

/// Returns what is assumed, and why the peers are assumed to do what they do, in words.
pub(super) fn in_words(assumptions: &Assumptions, because: &str) -> String {
    let Assumptions { runtime, startup, checkpoint, peers, pods_per_node, .. } = *assumptions;
    let checkpoint = match checkpoint {
        Some(every) => format!("a checkpoint every {}", Duration(every)),
        None => "no checkpoints".to_owned(),
    };
    let peers = match peers {
        Peers::Exit(after) => format!("the other pods exit {} after one is lost", Duration(after)),
        Peers::Hang => "the other pods wait without end for one that is lost".to_owned(),
        Peers::Restart(u32::MAX) => "the other pods restart in place when one is lost".to_owned(),
        Peers::Restart(times) => format!("the other pods restart in place, at most {times} times"),
        Peers::Independent => "the pods do not need one another".to_owned(),
    };
    let share = match pods_per_node {
        1 => "one pod a node".to_owned(),
        count => format!("{count} pods a node"),
    };
    format!(
        "{} of work, {} to start, {checkpoint}, {share}; {peers} ({because})",
        Duration(runtime),
        Duration(startup)
    )
}

/// Returns what is assumed, with what the arguments say instead.
pub(super) fn assumed(of_job: &Assumptions, args: &Simulate) -> Assumptions {
    Assumptions {
        runtime: args.runtime.unwrap_or(of_job.runtime),
        startup: args.startup.unwrap_or(of_job.startup),
        checkpoint: args.checkpoint_every.map_or(of_job.checkpoint, |OrNone(every)| every),
        peers: args.peers.unwrap_or(of_job.peers),
        pods_per_node: args.pods_per_node.unwrap_or(of_job.pods_per_node),
        wait_for_pods_ready: args.wait_for_pods_ready.map_or(of_job.wait_for_pods_ready, |OrNone(wait)| wait),
        gang_after: args.gang_after.map_or(of_job.gang_after, |OrNone(after)| after),
        ..*of_job
    }
}
