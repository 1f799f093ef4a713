//! Arguments of `jobgate simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

#[cfg(feature = "serve")]
use super::cluster::ClusterAccess;
use super::names::policies;

use crate::controllers::incident::{Duration, IncidentError, Occurrence};
use crate::controllers::program::Peers;
use crate::controllers::time::Time;

/// Arguments of `jobgate simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Incidents: node-lost, node-gone, drain, spot, preempt, kueue-preempt:30m, pressure, delete-pod, oom, exit=N, crash-loop, crash-all, hang, image-pull, pending, pending:30m, create-refused, overrun, controller-away:3m. Each may have a time since the pods run (@2h), and a place: index=3, n=2, all. `+` makes one story of several.

Endings: completes, completes-half-done, fails, wedged (the work is done or given up, and a pod never ends), waits (nothing happens any more), runs-on.

Examples:
  jobgate simulate job.yaml                                    the usual incidents
  jobgate simulate --what node-lost@2h job.yaml                one, as a timeline
  jobgate simulate --what 'oom@1h:index=3+drain@2h' job.yaml   a story of two
  jobgate simulate --expect drain=completes k8s/               for CI
  kubectl get job,pods -o yaml | jobgate simulate -            Jobs that run: what each waits for, and what comes next
  jobgate simulate --cluster -n ml job/train                   the same, asked of the cluster

It is what the controllers of Kubernetes do, not its scheduler: nodes have room unless an incident says otherwise. Exit codes: 0 as expected, 1 an --expect does not hold, 2 could not simulate everything."
)]
pub struct Simulate {
    /// Manifests, directories, or what `kubectl get job,pods -o yaml` prints; - for standard input; with --cluster,
    /// what runs: job/train, pytorchjob/train
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// What happens: an incident, with its time and place (repeatable)
    #[arg(long, value_name = "INCIDENT", value_parser = story)]
    pub(crate) what: Vec<Story>,

    /// A story as a file: what each pod does, and events (see docs/simulate.md); of a Job that runs, from now on
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    pub(crate) script: Option<PathBuf>,

    /// An ending that an incident must have; exit with 1 if it has another (repeatable)
    #[arg(long, value_name = "INCIDENT=ENDING", value_parser = expectation)]
    pub(crate) expect: Vec<Expectation>,

    /// The policy with the assumptions, and the rules whose fixes are tried: a file, or one of default, audit,
    /// accelerators, strict [default: that of the configuration, or default]
    #[arg(long, value_name = "FILE|NAME", value_parser = policies(), hide_possible_values = true, help_heading = "Assumptions")]
    pub(crate) policy: Option<String>,

    /// How long a run takes without incidents [default: half of the deadline, or 12h]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Assumptions")]
    pub(crate) runtime: Option<Time>,

    /// From when all pods run until they work [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Assumptions")]
    pub(crate) startup: Option<Time>,

    /// How often work is saved, or `none` [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = or_none, help_heading = "Assumptions")]
    pub(crate) checkpoint_every: Option<OrNone>,

    /// What the other pods do when one is lost: exit:10m, hang, restart:3 (in their pods, so often) or independent
    /// [default: by the command]
    #[arg(long, value_name = "PEERS", value_parser = peers, help_heading = "Assumptions")]
    pub(crate) peers: Option<Peers>,

    /// How many pods share a node [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Assumptions")]
    pub(crate) pods_per_node: Option<u32>,

    /// How long Kueue waits until all pods are ready, before it evicts a job in a queue, or `none` if it does not, as before
    /// 0.19 [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = or_none, help_heading = "Assumptions")]
    pub(crate) wait_for_pods_ready: Option<OrNone>,

    /// How long a gang scheduler takes until it starts the pods of a PodGroup, or `none` if it never does [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = or_none, help_heading = "Assumptions")]
    pub(crate) gang_after: Option<OrNone>,

    /// Take Jobs and objects of operators that run from the cluster, with their pods: job/train, jobset/train; nothing is
    /// written
    #[cfg(feature = "serve")]
    #[arg(long, conflicts_with = "now", help_heading = "Cluster")]
    pub(crate) cluster: bool,

    /// The namespace of the Jobs [default: that of the context]
    #[cfg(feature = "serve")]
    #[arg(short, long, value_name = "NAMESPACE", requires = "cluster", help_heading = "Cluster")]
    pub(crate) namespace: Option<String>,

    #[cfg(feature = "serve")]
    #[command(flatten)]
    pub(crate) access: ClusterAccess,

    /// The moment at which Jobs that run were printed, such as 2026-11-28T03:10:10Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) now: Option<i64>,

    /// The format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = SimulationFormat::Human, help_heading = "Output")]
    pub(crate) format: SimulationFormat,
}

/// Formats of `jobgate simulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulationFormat {
    /// For people, in a terminal
    Human,
    /// One JSON document
    Json,
    /// A table, for a comment in a review
    Markdown,
}

/// Incidents that happen to one run, and how they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) name: String,
    pub(crate) incidents: Vec<Occurrence>,
}

/// The ending that a story must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expectation {
    pub(crate) story: Story,
    pub(crate) ending: String,
}

/// A time, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrNone(pub(crate) Option<Time>);

/// Returns a moment in milliseconds since 1970.
fn moment(text: &str) -> Result<i64, &'static str> {
    let moment = text.parse::<Timestamp>().map_err(|_| "write a time as in 2026-11-28T03:10:10Z")?;
    Ok(moment.as_millisecond())
}

fn duration(text: &str) -> Result<Time, IncidentError> {
    text.parse().map(|Duration(time)| time)
}

fn or_none(text: &str) -> Result<OrNone, IncidentError> {
    if text == "none" { Ok(OrNone(None)) } else { duration(text).map(|time| OrNone(Some(time))) }
}

fn story(text: &str) -> Result<Story, IncidentError> {
    let incidents = text.split('+').map(str::parse).collect::<Result<Vec<Occurrence>, _>>()?;
    let names: Vec<String> = incidents.iter().map(ToString::to_string).collect();
    Ok(Story { name: names.join("+"), incidents })
}

/// The endings that may be expected.
const ENDINGS: [&str; 6] = ["completes", "completes-half-done", "fails", "wedged", "waits", "runs-on"];

fn expectation(text: &str) -> Result<Expectation, String> {
    let (incident, ending) = text.rsplit_once('=').ok_or("write INCIDENT=ENDING, such as drain=completes")?;
    if !ENDINGS.contains(&ending) {
        return Err(format!("no ending `{ending}`; there are {}", ENDINGS.join(", ")));
    }
    let story = story(incident).map_err(|error| error.to_string())?;
    Ok(Expectation { story, ending: ending.to_owned() })
}

fn peers(text: &str) -> Result<Peers, String> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    match (name, rest) {
        ("exit", None) => Ok(Peers::Exit(Time::from_seconds(600))),
        ("exit", Some(time)) => duration(time).map(Peers::Exit).map_err(|error| error.to_string()),
        ("hang", None) => Ok(Peers::Hang),
        ("restart", Some(times)) => {
            times.parse().map(Peers::Restart).map_err(|_| "write restart:3".to_owned())
        }
        ("restart", None) => Ok(Peers::Restart(u32::MAX)),
        ("independent", None) => Ok(Peers::Independent),
        _ => Err("write exit:10m, hang, restart:3 or independent".to_owned()),
    }
}
