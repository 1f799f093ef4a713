//! How the pods of a Job depend on one another, as far as their containers show it.

use crate::judge::commands::{Command, CommandLine, Launch, Launcher, PodCommands, Token, Value as Given};
use crate::judge::training::{drives_others, is_python_trainer, quoted};
use crate::kinds::{Container, Path, PodTemplate, Workload};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::After;

/// The variable with the index, which containers of a sweep use.
const INDEX: &str = "JOB_COMPLETION_INDEX";

const INDEX_KEY: &str = "batch.kubernetes.io/job-completion-index";

/// Annotations and labels with the group of a pod.
const GROUPS: [&str; 4] = [
    "kueue.x-k8s.io/pod-group-name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.k8s.io/group-name",
    "scheduling.x-k8s.io/pod-group",
];

/// Variables with the address of another pod, or of programs that join others.
const PEERS: [&str; 8] = [
    "COORDINATOR_ADDRESS",
    "LEADER_ADDRESS",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "TF_CONFIG",
    "TPU_WORKER_HOSTNAMES",
    "WORLD_SIZE",
];

/// Variables with the address at which the processes of a program meet: those of PyTorch and JAX.
const ADDRESSES: [&str; 3] = ["COORDINATOR_ADDRESS", "JAX_COORDINATOR_ADDRESS", "MASTER_ADDR"];

/// Returns the place and the text of the command by which a container joins others.
pub(super) fn joins(line: &CommandLine<'_>) -> Option<(Pointer, String)> {
    let by_launcher = line.launches().find_map(|launch| match spans(line, &launch) {
        Some(true) => Some(launch.command),
        _ => None,
    });
    let command = by_launcher.or_else(|| {
        let has_address = ADDRESSES.iter().any(|name| line.environment.get(name).is_some());
        let plain = || line.commands.iter().find(|command| is_python_trainer(command));
        let has_launcher = line.launches().next().is_some();
        plain().filter(|_| has_address && !has_launcher)
    })?;
    let program: Option<&Token> = command.words.first();
    Some((line.place(program?), quoted(&command.words)))
}

/// Returns how often the agents of a dynamic rendezvous restart their ranks; nothing where they do not.
pub(super) fn max_restarts<'a>(launch: &Launch<'a>) -> Option<Given<'a>> {
    let is_dynamic = launch.launcher.is_torch() && !launch.value("rdzv_backend").is_absent();
    Some(launch.value("max_restarts"))
        .filter(|times| is_dynamic && !matches!(times, Given::Absent | Given::Known("0")))
}

/// Tells whether a launcher joins several pods that depend on each other; nothing if that is not known.
fn spans(line: &CommandLine<'_>, launch: &Launch<'_>) -> Option<bool> {
    let (nodes, addresses): (&str, &[&str]) = match launch.launcher {
        Launcher::Torchrun | Launcher::TorchLaunch => ("nnodes", &["rdzv_endpoint", "master_addr"]),
        Launcher::Accelerate => ("num_machines", &["main_process_ip"]),
        Launcher::Mpi => {
            let hosts = ["hostfile", "machinefile", "host", "H"];
            return hosts.iter().any(|name| launch.option(name).is_some()).then_some(true);
        }
        Launcher::DeepSpeed | Launcher::Ray => return None,
    };
    if launch.open {
        return None;
    }
    // Agents of a dynamic rendezvous wait for the new pod, as often as they may restart.
    if max_restarts(launch).is_some() {
        return None;
    }
    if launch.option("standalone").is_some() {
        return Some(false);
    }
    let has_address = addresses.iter().any(|name| !launch.value(name).is_absent())
        || line.environment.get("MASTER_ADDR").is_some();
    match launch.value(nodes) {
        Given::Known(nodes) => match nodes.parse::<i64>() {
            Ok(nodes) => Some(nodes > 1),
            // A range copes with the loss of a pod.
            Err(_) => None,
        },
        Given::Unknown => has_address.then_some(true),
        Given::Absent => Some(has_address),
    }
}

/// Tells whether the pods of a job of the training operator wait for one that starts again alone: there are several, and the
/// policy at a path, with which they would meet it again, is not set.
pub(super) fn others_wait(workload: &Workload<'_>, elastic: Path) -> bool {
    let counts = || workload.pods.iter().filter_map(|pod| pod.count.most);
    !workload.object.at(elastic).is_set()
        && counts().fold(0_i64, |all, most| all.saturating_add(most.max(0))) > 1
}

/// Tells whether a test is true of a word in a container's command line, also in a script.
pub(super) fn has_word(container: &Container<'_>, is_it: impl Fn(&str) -> bool) -> bool {
    let texts = ["command", "args"].into_iter().flat_map(|list| container.part.get(list).items());
    texts.filter_map(|item| item.value.and_then(|item| item.as_str())).any(|text| {
        meter::spend_text(text);
        text.split(|c: char| c.is_whitespace() || "'\";&|()".contains(c)).any(&is_it)
    })
}

/// Tells whether a container of a pod starts a launcher of PyTorch.
pub(super) fn runs_torchrun(pod: &PodCommands<'_>) -> bool {
    pod.containers.iter().flat_map(CommandLine::launches).any(|launch| launch.launcher.is_torch())
}

/// Tells whether the pods of a template are scheduled together: near each other, or all or none.
pub(super) fn is_group(pod: &PodTemplate<'_>) -> bool {
    let metadata = pod.template.get("metadata");
    ["annotations", "labels"].iter().any(|list| {
        metadata.get(list).entries().any(|(key, _)| {
            meter::spend(1);
            let topology = key.strip_prefix("kueue.x-k8s.io/podset-");
            topology.is_some_and(|rest| rest.ends_with("-topology")) || GROUPS.contains(&key)
        })
    })
}

/// Tells whether a container works together with those of other pods, or may.
pub(super) fn works_with_others(line: &CommandLine<'_>) -> bool {
    let joins = |launcher| !matches!(launcher, Launcher::Ray);
    line.unread
        || drives_others(line)
        || line.launches().any(|launch| {
            // A launcher for the processes of one pod is fine.
            let is_one = ["nnodes", "num_machines"]
                .iter()
                .all(|name| matches!(launch.value(name), Given::Absent | Given::Known("1")));
            joins(launch.launcher) && !is_one
        })
        || line.environment.names().any(|name| PEERS.contains(&name))
        || line.argv.iter().any(|item| {
            meter::spend_text(&item.text);
            let has = |name: &&str| memchr::memmem::find(item.text.as_bytes(), name.as_bytes()).is_some();
            PEERS.iter().any(&has)
                || ["master_addr", "master-addr", "rdzv", "coordinator", "num_processes", "main_process_ip"]
                    .iter()
                    .any(has)
        })
}

/// Returns where a container uses its index.
pub(super) fn use_of_index(line: &CommandLine<'_>) -> Option<Pointer> {
    let env = line.container.part.get("env");
    let of_field = env.values().iter().position(|item| {
        meter::spend(1);
        let path = item.get("valueFrom").and_then(|from| from.get("fieldRef")?.get("fieldPath")?.as_str());
        path.is_some_and(|path| path.contains(INDEX_KEY))
    });
    let of_field = of_field.map(|index| &env.pointer / index / "valueFrom" / "fieldRef" / "fieldPath");
    let in_command = || {
        line.argv.iter().enumerate().find(|(at, item)| {
            let times = count(item.written);
            times > 0 && printed(line, *at) < times
        })
    };
    of_field.or_else(|| in_command().map(|(_, item)| item.pointer()))
}

/// Returns how often a text names the index.
fn count(text: &str) -> usize {
    meter::spend_text(text);
    memchr::memmem::find_iter(text.as_bytes(), INDEX.as_bytes()).count()
}

/// Returns how often a script names the index only to print it, at most.
fn printed(line: &CommandLine<'_>, script: usize) -> usize {
    let is_script = line.shells.len() == 1 && line.shells[0].item == script;
    let Some(item) = line.argv.get(script).filter(|item| is_script && item.is_verbatim()) else { return 0 };
    if line.left_out {
        return usize::MAX;
    }
    let prints = |command: &&Command| {
        matches!(command.program.as_str(), "echo" | "printf") && command.after != After::Pipe
    };
    let words = line.commands.iter().filter(prints).flat_map(|command| command.words.iter().skip(1));
    words.filter_map(|token| item.text.get(token.word.span.clone())).map(count).sum()
}
