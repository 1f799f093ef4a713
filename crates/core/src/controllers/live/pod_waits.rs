//! What pods of a cluster wait for, whoever made them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::time::Time;
use super::pod::{LivePod, PodStage};
use super::wait::{Wait, WaitFor};

/// Which pods of an object matter to what it waits for, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watch {
    /// None.
    Nothing,
    /// Those in deletion.
    InDeletion,
    /// All.
    All,
}

/// A pod that is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<'p> {
    pub(super) pod: &'p LivePod,
    /// Whether another takes its place only at its end.
    pub(super) is_held: bool,
    /// Whether it matters.
    pub(super) watch: Watch,
}

/// Returns what pods wait for that do not just run.
pub(super) fn in_trouble<'p>(pods: impl Iterator<Item = Watched<'p>>) -> Vec<Wait> {
    let mut alike: BTreeMap<(PodStage, String), (WaitFor, Vec<&LivePod>)> = BTreeMap::new();
    for one in pods {
        let stage = one.pod.stage();
        let is_going = matches!(stage, PodStage::Stuck | PodStage::Kept | PodStage::Terminates);
        if one.watch == Watch::Nothing || one.watch == Watch::InDeletion && !is_going {
            continue;
        }
        let Some(what) = what(one, stage) else { continue };
        // Messages of the scheduler and the kubelet may name each pod.
        let key = match &what {
            WaitFor::Unschedulable { .. } | WaitFor::CrashLoop { .. } => String::new(),
            WaitFor::Image { image, .. } => image.clone(),
            WaitFor::Container { reason, .. } => reason.clone(),
            other => format!("{other:?}"),
        };
        alike.entry((stage, key)).or_insert_with(|| (what, Vec::new())).1.push(one.pod);
    }
    alike.into_iter().map(|((stage, _), (what, pods))| wait_of(what, stage, &pods)).collect()
}

fn what(one: Watched<'_>, stage: PodStage) -> Option<WaitFor> {
    let Watched { pod, is_held, .. } = one;
    let trouble = pod.trouble.clone();
    Some(match stage {
        PodStage::Stuck => {
            let by_taint = pod.disruption.as_deref() == Some("DeletionByTaintManager");
            WaitFor::Stuck { is_node_lost: pod.node.is_some() && (pod.is_silent() || by_taint), is_held }
        }
        PodStage::Kept => WaitFor::Kept { finalizers: pod.finalizers.clone() },
        PodStage::Silent => WaitFor::Silent,
        PodStage::Unscheduled => {
            let (_, message, _) = pod.unscheduled.clone().unwrap_or_default();
            WaitFor::Unschedulable { message }
        }
        PodStage::Gated => WaitFor::Gated { gates: pod.gates.clone() },
        PodStage::Image => {
            let trouble = trouble?;
            WaitFor::Image { reason: trouble.reason, image: trouble.image, message: trouble.message }
        }
        PodStage::Broken => {
            let trouble = trouble?;
            WaitFor::Container { reason: trouble.reason, message: trouble.message }
        }
        PodStage::Crashes => {
            let code = trouble.and_then(|trouble| trouble.last).map(|(code, _)| code);
            WaitFor::CrashLoop { restarts: pod.restarts, code }
        }
        PodStage::Terminates => WaitFor::Terminating { is_held },
        PodStage::Starts => WaitFor::Starting,
        PodStage::Runs | PodStage::Ended => return None,
    })
}

/// Returns that pods run, and when their deadline is; nothing where none runs.
pub(super) fn running<'p>(pods: impl Iterator<Item = Watched<'p>>, deadline: Option<Time>) -> Option<Wait> {
    let running: Vec<&LivePod> = pods
        .filter(|one| one.watch == Watch::All)
        .map(|one| one.pod)
        .filter(|pod| pod.stage() == PodStage::Runs)
        .collect();
    let count = u32::try_from(running.len()).unwrap_or(u32::MAX);
    let ready = running.iter().filter(|pod| pod.ready.is_some_and(|(is_ready, _)| is_ready)).count();
    let what = WaitFor::Pods { count, ready: u32::try_from(ready).unwrap_or(u32::MAX) };
    let mut wait = wait_of(what, PodStage::Runs, &running);
    wait.until = deadline;
    (count > 0).then_some(wait)
}

/// Returns what pods wait for that do the same.
pub(super) fn wait_of(what: WaitFor, stage: PodStage, pods: &[&LivePod]) -> Wait {
    let since = |pod: &&LivePod| match stage {
        PodStage::Stuck | PodStage::Kept | PodStage::Terminates => pod.deletion.map(|(at, _)| at),
        PodStage::Silent => pod.ready.map(|(_, at)| at),
        PodStage::Unscheduled => pod.unscheduled.as_ref().and_then(|(_, _, at)| *at).or(Some(pod.created)),
        PodStage::Runs | PodStage::Crashes => pod.started.or(Some(pod.created)),
        _ => Some(pod.created),
    };
    let until = |pod: &&LivePod| match stage {
        PodStage::Terminates => pod.deletion.map(|(at, grace)| at + grace),
        PodStage::Silent => pod.given_up(),
        _ => None,
    };
    let nodes: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
    let restarts = pods.iter().map(|pod| pod.restarts).max().unwrap_or_default();
    let what = match what {
        WaitFor::CrashLoop { code, .. } => WaitFor::CrashLoop { restarts, code },
        other => other,
    };
    Wait {
        what,
        of: Vec::new(),
        pods: pods.iter().map(|pod| pod.name.clone()).collect(),
        nodes: nodes.into_iter().cloned().collect(),
        since: pods.iter().filter_map(since).min(),
        until: pods.iter().filter_map(until).max(),
    }
}
