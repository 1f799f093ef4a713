//! What manifests say about a simulation of their Jobs, and what has to be assumed.

use crate::controllers::job::spec::JobSpec;
use crate::controllers::program::Peers;
use crate::controllers::script::Termination;
use crate::controllers::story::Assumptions;
use crate::controllers::time::Time;
use crate::judge::commands::{CommandLine, Value as Given};
use crate::judge::peers::{joins, max_restarts, use_of_index, works_with_others};
use crate::judge::ranks::WorkloadReading;
use crate::judge::sigterm::ends_with_zero;
use crate::kinds::{Held, PodTemplate, Workload};
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// The work of a run whose deadline is not set.
const RUNTIME: Time = Time::from_seconds(12 * 3_600);
/// From when all pods run until they work.
const STARTUP: Time = Time::from_seconds(120);
/// How often work is saved.
const CHECKPOINT: Time = Time::from_seconds(1_800);
/// How long ranks wait for one that is lost: `init_process_group` of PyTorch waits for ten minutes with NCCL.
const PEER_TIMEOUT: Time = Time::from_seconds(600);
/// The toleration of unreachable nodes that the API server adds (`DefaultTolerationSeconds`).
const UNREACHABLE: Time = Time::from_seconds(300);

/// A Job in a manifest, to simulate.
#[derive(Clone, Debug)]
pub struct SimulatedJob<'a> {
    /// Where its `spec` is.
    pub pointer: Pointer,
    /// Its `spec`.
    pub spec: &'a Value,
    /// The accelerators of each pod.
    pub accelerators: i64,
    /// What is assumed. Where the peers are not known, the others are [`Self::or_peers`].
    pub assumptions: Assumptions,
    /// What the other ranks may do instead, where that is not known.
    pub or_peers: Option<Peers>,
    /// Why the peers are assumed to do what they do.
    pub because: String,
}

/// Returns the Jobs of a workload.
#[must_use]
pub fn jobs<'a>(workload: &Workload<'a>) -> Vec<SimulatedJob<'a>> {
    let reading = WorkloadReading::from_workload(workload);
    let pods = workload.pods.iter().enumerate().filter(|(_, pod)| pod.form.is_job());
    pods.filter_map(|(index, pod)| {
        let spec = pod.around.value?;
        let lines = &reading.commands(index).containers;
        let read = JobSpec::from_spec(spec);
        let (peers, or_peers, because) = peers(&read, lines);
        let term = match ends_with_zero(lines) {
            Some(_) => Termination { code: 0, ..Termination::default() },
            None => Termination::default(),
        };
        let half = |deadline: Time| Time::from_millis(deadline.millis() / 2);
        Some(SimulatedJob {
            pointer: pod.around.pointer.clone(),
            spec,
            accelerators: Held::by_pod(pod).map_or(0, |held| held.total()),
            assumptions: Assumptions {
                runtime: read.deadline.map_or(RUNTIME, half),
                startup: STARTUP,
                checkpoint: Some(CHECKPOINT),
                peers,
                pods_per_node: 1,
                term,
                unreachable: unreachable(pod),
            },
            or_peers,
            because,
        })
    })
    .collect()
}

/// Returns what the other ranks do when one is lost, what they may do instead where that is not known, and why.
fn peers(spec: &JobSpec, lines: &[CommandLine<'_>]) -> (Peers, Option<Peers>, String) {
    let together = spec.completions.map_or(spec.parallelism, |all| all.min(spec.parallelism));
    if together <= 1 {
        return (Peers::Independent, None, "one pod runs at a time".to_owned());
    }
    if let Some((restarts, written)) = lines.iter().find_map(restarts_inside) {
        return (Peers::Restart(restarts), None, format!("`{written}` restarts the ranks in their pods"));
    }
    if let Some((_, command)) = lines.iter().find_map(joins) {
        return (Peers::Exit(PEER_TIMEOUT), None, format!("{command} joins the pods"));
    }
    let is_sweep = spec.indexed
        && lines.iter().any(|line| use_of_index(line).is_some())
        && !lines.iter().any(works_with_others);
    if is_sweep {
        return (Peers::Independent, None, "each pod works on its own index".to_owned());
    }
    if spec.completions.is_none_or(|all| all > spec.parallelism) {
        return (Peers::Independent, None, "the pods come in waves".to_owned());
    }
    let because = "the command does not show whether the pods need one another";
    (Peers::Exit(PEER_TIMEOUT), Some(Peers::Independent), because.to_owned())
}

/// Returns how often an elastic launcher restarts its ranks in their pods, and the option that says so.
fn restarts_inside(line: &CommandLine<'_>) -> Option<(u32, String)> {
    line.launches().find_map(|launch| {
        let Given::Known(times) = max_restarts(&launch)? else { return None };
        let times = times.parse().ok()?;
        Some((times, format!("--max-restarts {times}")))
    })
}

/// Returns how long pods tolerate an unreachable node; nothing if without end
/// (`pkg/controller/tainteviction/taint_eviction.go`).
fn unreachable(pod: &PodTemplate<'_>) -> Option<Time> {
    let tolerations = pod.spec.get("tolerations");
    let mut shortest = None;
    let mut is_tolerated = false;
    for toleration in tolerations.values() {
        let text = |key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default();
        let matches_key = match text("key") {
            "" => text("operator") == "Exists",
            key => key == "node.kubernetes.io/unreachable",
        };
        if !matches_key || !["", "NoExecute"].contains(&text("effect")) {
            continue;
        }
        is_tolerated = true;
        if let Some(seconds) = toleration.get("tolerationSeconds").and_then(Value::as_i64) {
            let seconds = Time::from_seconds(seconds.max(0));
            shortest = Some(shortest.map_or(seconds, |other: Time| other.min(seconds)));
        }
    }
    if is_tolerated { shortest } else { Some(UNREACHABLE) }
}
