//! As many pods run as the launcher waits for: `--nnodes` is the number of pods.
//!
//! ## Why
//!
//! A launcher starts training when as many pods have come as `--nnodes` says. If fewer pods run, those that are
//! there wait, with their GPUs, until a timeout ends them or nobody does. If more run, the rest never joins and
//! holds its GPUs for nothing. Without the option it expects one node: each pod trains its own copy of the
//! model, all of them write the same checkpoints, and the run takes as long as on one node.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completionMode: Indexed
//!   parallelism: 2
//!   completions: 2
//!   template:
//!     spec:
//!       subdomain: train
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nnodes=4, --node-rank=$(JOB_COMPLETION_INDEX), --master-addr=train-0.train, train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   backoffLimit: 12
//!   completionMode: Indexed
//!   parallelism: 4
//!   completions: 4
//!   template:
//!     spec:
//!       subdomain: train
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nnodes=4, --node-rank=$(JOB_COMPLETION_INDEX), --master-addr=train-0.train, train.py]
//! ```
//!
//! ## Fix
//!
//! Unsafe, for a PyTorchJob with a Master and no `elasticPolicy`: takes `--nnodes` out of the command. The
//! training operator has passed the number of pods to `torchrun` in the variable `PET_NNODES` since release
//! 1.7; with an earlier one the option is needed.
//!
//! ## Details
//!
//! The rule reads `--nnodes` of `torchrun`, `--num_machines` of `accelerate launch` and `--num_nodes` of
//! `deepspeed --no_ssh`, or the variables that count where the option is not given, and compares the number
//! with that of the pods that run the command: all roles of a PyTorchJob, the pods of a Job, of one replicated
//! job of a JobSet or of a task of a Volcano job.
//!
//! `trainer.num_nodes` and `trainer.devices` behind the script, and `--num-nodes` with `--num-gpus`, are
//! compared as a product with the number of processes that `torchrun` starts, since only that must agree.
//!
//! `WORLD_SIZE` of the training operator is the number of pods times `spec.nprocPerNode`, so
//! `--nnodes=$(WORLD_SIZE)` is right only where that is not set, `auto` or 1.
//!
//! `kubectl scale` changes the number of workers of a PyTorchJob, JAXJob or PaddleJob through the subresource
//! `scale`, for which webhooks are not called; `jobgate audit` finds numbers that no longer agree.
//!
//! With an `elasticPolicy`, `--nnodes` with one number takes the elasticity away, since the option wins over
//! what the operator says; that is a note. The number is compared with `replicas`, with which the job starts.
//!
//! A launcher without a number of nodes is a warning if the container names an address for the others
//! (`--master-addr`, `MASTER_ADDR`, `--rdzv-endpoint`, `--main_process_ip`) or does not use the pod's index.
//! With an index and no address it may be a sweep of independent runs, which is a note.
//!
//! The rule is silent where a number is not in the object: variables of a ConfigMap, command substitutions,
//! config files of `accelerate`, host files of `deepspeed`, placeholders and `replicas: null`, launchers in
//! branches of a script, training runtimes, whose number of nodes is in the TrainJob, and `mpirun`, which
//! starts its processes on other pods.
//!
//! ## References
//!
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! * <https://github.com/kubeflow/trainer/issues/1790>

use crate::judge::commands::{Launcher, Token};
use crate::judge::finding::{Level, Part, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::ranks::{Gang, LauncherNodes, LauncherSetting, Started, TextTopic, counted, is_here};
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::Ranks;
use crate::text::lines::cut;
use crate::text::meter;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Launcher that waits for other pods than there are".into(),
        summary: "As many pods run as the launcher waits for: `--nnodes` is the number of pods".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("the numbers are in command lines and scripts, which CEL does not take apart"),
        ..Rule::new("launcher-nodes-match-pods", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    for started in cx.certain_launchers() {
        let Some(gang) = started.gang().filter(|_| started.option("standalone").is_absent()) else {
            continue;
        };
        world(cx, started, gang);
        match started.nodes() {
            // The controller sets the number of its pods.
            Some(LauncherNodes { by: LauncherSetting::Variable(name, ..), .. }) if started.is_added(name) => {}
            Some(nodes) => compare(cx, started, gang, &nodes),
            None => {}
        }
    }
}

/// The help where the training operator sets the number.
const TOLD: &str = "leave the option out: the training operator says in `PET_NNODES` how many pods there are";

/// Returns the number of pods, for a message.
fn pods(gang: &Gang) -> String {
    match gang.elastic {
        Some(_) => format!("the job starts with {}", counted(gang.most, "pod", "pods")),
        None if gang.most == 1 => "1 pod runs this command".to_owned(),
        None => format!("{} pods run this command", gang.most),
    }
}

fn compare(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang, nodes: &LauncherNodes<'_>) {
    let shown = started.shown(&nodes.by);
    let is_local = started.launch.launcher == Launcher::DeepSpeed
        && !matches!(started.option("no_ssh"), LauncherSetting::Option(..));
    if nodes.most == 1 || is_local {
        if gang.least > 1 {
            copies(cx, started, gang, nodes, is_local);
        } else if !is_local {
            inelastic(cx, started, gang, nodes);
        }
        return;
    }
    let message = if nodes.least > gang.most {
        format!("{shown} waits for {} nodes, and {}: the run never starts", nodes.least, pods(gang))
    } else if nodes.most < gang.least && !gang.in_waves {
        let rest = gang.least - nodes.most;
        let pods = pods(gang);
        let rest = if rest == 1 {
            "1 of them never joins and holds what it requests".to_owned()
        } else {
            format!("{rest} of them never join and hold what they request")
        };
        format!("{shown} takes {} nodes, and {pods}: {rest}", nodes.most)
    } else {
        return inelastic(cx, started, gang, nodes);
    };
    let place = started.place(&nodes.by);
    let option = matches!(&nodes.by, LauncherSetting::Option(..));
    // The operator sets it if there is a Master, and nothing scales.
    let is_set_by_operator = option && started.is_added("PET_NODE_RANK") && started.is_added("PET_NNODES");
    let finding = cx.report(&place, message).at(started.part(&nodes.by));
    gang.label(finding);
    if is_set_by_operator && started.launch.launcher.is_torch() {
        finding.help(TOLD);
        if let LauncherSetting::Option(given, Some(_)) = &nodes.by
            && nodes.least == nodes.most
            && gang.least == gang.most
            && started.is_literal(given)
            && let Some(ops) = started.replace(&[given], None)
        {
            finding.fix(Safety::Unsafe, ops);
        }
    } else {
        finding.help(format!("let the number of nodes be that of the pods, {}", gang.most));
    }
}

/// Reports a fixed number of nodes beside an elastic policy.
fn inelastic(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang, nodes: &LauncherNodes<'_>) {
    let Some((least, most)) = gang.elastic.filter(|(least, most)| least < most) else { return };
    if nodes.least == nodes.most && matches!(nodes.by, LauncherSetting::Option(..)) {
        let place = started.place(&nodes.by);
        let message = format!(
            "{} wins over the `elasticPolicy` of {least} to {most} pods: the run does not scale",
            started.shown(&nodes.by)
        );
        cx.report(&place, message)
            .at(started.part(&nodes.by))
            .at_most(Level::Note)
            .help("leave the option out: the training operator says `MIN:MAX` in `PET_NNODES`");
    }
}

/// Reports several pods that each expect one node.
fn copies(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang, nodes: &LauncherNodes<'_>, is_local: bool) {
    let launcher = started.launch.launcher;
    let is_written = !matches!(nodes.by, LauncherSetting::Absent);
    // Another launcher may be the one for all nodes, or more pods may follow.
    if !started.is_alone || gang.in_waves {
        return;
    }
    let is_gang = has_address(started) || started.pod.form.roles().is_some();
    let is_unknown = match launcher {
        Launcher::Torchrun | Launcher::TorchLaunch | Launcher::Mpi | Launcher::Ray => false,
        Launcher::Accelerate => {
            let own = ["config_file", "tpu", "cpu"].iter().any(|name| !started.option(name).is_absent());
            // The image may have a default configuration, and `PET_NNODES` applies where that sets nothing.
            !is_written
                && (own
                    || !is_gang
                    || started.hints.names(TextTopic::Accelerate)
                    || !started.setting("nnodes", "PET_NNODES").is_absent())
        }
        Launcher::DeepSpeed => is_local && has_hosts(started),
    };
    let is_meant = is_gang || is_local && nodes.most > 1;
    if is_unknown || (is_written && !is_meant) {
        return;
    }
    let name = started.name();
    let message = if is_local {
        format!("`{name}` without a host file starts processes in its own pod only: ")
    } else if is_written {
        format!("{} expects one node: ", started.shown(&nodes.by))
    } else {
        format!("`{name}` without a number of nodes expects one: ")
    };
    let message = format!("{message}each of {} pods trains its own copy", gang.least);
    let place = started.place(&nodes.by);
    let is_set_by_operator = started.is_added("PET_NODE_RANK") && started.is_added("PET_NNODES");
    let finding = cx.report(&place, message).at(started.part(&nodes.by));
    gang.label(finding);
    let option = match launcher {
        Launcher::Accelerate => "--num_machines",
        Launcher::DeepSpeed => "--no_ssh --node_rank=RANK --num_nodes",
        _ => "--nnodes",
    };
    finding.help(if started.launch.launcher.is_torch() && is_set_by_operator {
        TOLD.to_owned()
    } else {
        format!(
            "write `{option}={}` with an address that all pods reach; ignore this if the runs are independent",
            gang.least
        )
    });
    if !is_meant && started.hints.names(TextTopic::Index) {
        finding.at_most(Level::Note);
    }
}

/// Tells whether the container names an address where pods meet.
fn has_address(started: &Started<'_>) -> bool {
    let other = |option: &str| match started.option(option) {
        LauncherSetting::Option(_, address) => address.is_none_or(|address| !is_here(address)),
        _ => false,
    };
    started.hints.names(TextTopic::Master)
        || started.is_added("MASTER_ADDR")
        || ["master_addr", "rdzv_endpoint", "main_process_ip"].iter().any(|option| other(option))
}

/// Tells whether `deepspeed` may find a list of hosts, or start in another way.
fn has_hosts(started: &Started<'_>) -> bool {
    let mounts = started.line.container.part.get("volumeMounts");
    let is_job = |path: &str| path == "/" || path == "/job" || path.starts_with("/job/");
    started.hints.names(TextTopic::Hostfile)
        || !started.option("launcher").is_absent()
        || !started.option("no_ssh").is_absent()
        || mounts.items().any(|mount| mount.get("mountPath").text().set().is_none_or(is_job))
}

/// Compares the processes that a program expects with those that `torchrun` starts.
fn world(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang) {
    if !started.launch.launcher.is_torch() || gang.least != gang.most {
        return;
    }
    let Some(processes) = started.setting("nproc_per_node", "PET_NPROC_PER_NODE").number() else { return };
    let Some((nodes, devices)) = declared(started) else { return };
    let shown = |declared: &Declared<'_>| {
        let (number, (_, text)) = declared;
        let text = cut(text, 80, "…");
        if text.contains('=') { text.into_owned() } else { format!("{text} {number}") }
    };
    let expected = nodes.0.saturating_mul(devices.0);
    let started_in_all = gang.most.saturating_mul(processes);
    if expected == started_in_all || processes < 1 {
        return;
    }
    let message = format!(
        "the program expects {expected} processes, and {} with {processes} each start {started_in_all}{}: `{}`, `{}`",
        counted(gang.most, "pod", "pods"),
        if gang.elastic.is_some() { " at first" } else { "" },
        shown(&nodes),
        shown(&devices),
    );
    let place = started.line.place(nodes.1.0);
    let finding = cx.report(&place, message).at(started.line.part(nodes.1.0));
    gang.label(finding);
    if let Ranks::Each { processes: fields, .. } = started.workload.kind.ranks
        && started.is_added("PET_NPROC_PER_NODE")
        && started.option("nproc_per_node").is_absent()
        && let Some(field) =
            fields.iter().map(|path| started.workload.object.at(path)).find(|field| field.is_set())
    {
        finding.label(Place::Here(field.pointer, Part::Value), "this many processes in each");
    }
    finding.help("let the product be the number of pods times the processes of each");
}

/// A number from an option of the program, with its word.
type Declared<'s> = (i64, (&'s Token, &'s str));

/// Returns the nodes, and the devices of each, that the program's own options name.
fn declared<'s>(started: &'s Started<'_>) -> Option<(Declared<'s>, Declared<'s>)> {
    const NODES: [&str; 3] = ["trainer.num_nodes", "--num-nodes", "--num_nodes"];
    const DEVICES: [&str; 4] = ["trainer.devices", "--num-gpus", "--num_gpus", "--devices"];
    let (mut nodes, mut devices) = (None, None);
    let words = started.launch.started;
    for (at, token) in words.iter().enumerate() {
        meter::spend(1);
        let text = token.word.text.as_str();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if text.starts_with("--") => (text, words.get(at + 1).map(|value| value.word.text.as_str())),
            None => continue,
        };
        let name = name.trim_start_matches('+');
        let number = value.and_then(|value| value.parse::<i64>().ok()).map(|number| (number, (token, text)));
        // The last of its name counts, also if it is unknown.
        if NODES.contains(&name) {
            nodes = Some(number);
        } else if DEVICES.contains(&name) {
            devices = Some(number);
        }
    }
    let is_one_way =
        |one: &Declared<'_>, other: &Declared<'_>| one.1.1.starts_with("--") == other.1.1.starts_with("--");
    nodes.flatten().zip(devices.flatten()).filter(|(nodes, devices)| is_one_way(nodes, devices))
}
