//! Each pod starts as many processes as it has accelerators.
//!
//! ## Why
//!
//! A launcher starts one process for each accelerator. With more processes than accelerators, two of them take
//! the same one, and the communication library stops the run (NCCL: `Duplicate GPU detected`), or a process
//! looks for a device that is not there. With `restartPolicy: OnFailure` this repeats. With fewer, the
//! accelerators that nobody uses are held all the same.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running, backoffLimit: 24}
//!   nprocPerNode: "4"
//!   elasticPolicy: {minReplicas: 8, maxReplicas: 8}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 8
//!       template:
//!         spec:
//!           tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, train.py]
//!             resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running, backoffLimit: 24}
//!   nprocPerNode: "4"
//!   elasticPolicy: {minReplicas: 2, maxReplicas: 2}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 2
//!       template:
//!         spec:
//!           tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, train.py]
//!             resources: {limits: {nvidia.com/gpu: 4}}
//! ```
//!
//! ## Fix
//!
//! None: either number may be the right one.
//!
//! ## Details
//!
//! More processes than accelerators are a warning, fewer a note.
//!
//! The number of processes is that of `--nproc-per-node` of `torchrun`, `--num_gpus` of `deepspeed`,
//! `nprocPerNode` of a PyTorchJob, `trainer.devices` behind the script, or `--num_processes` of `accelerate
//! launch`, which is the total of all nodes and so compared with that. It is compared with the accelerators of
//! the same container.
//!
//! In an MPIJob, `mpirun -np` is compared with the slots of all workers: Open MPI refuses to start more
//! processes than there are slots, unless `--oversubscribe` is there. Fewer are a note only if each process is
//! the training program itself: often a script is started once on each node, and starts the others.
//!
//! The rule is silent where a number is not in the object (`auto`, variables of a ConfigMap, config files,
//! placeholders; an option of `accelerate launch` wins over its config file), where the accelerators are MIG slices, shared, TPUs, Neuron devices or come by a claim, and
//! for training runtimes. Fewer processes are no finding where `CUDA_VISIBLE_DEVICES` splits the devices, where
//! a script starts several launchers, and where one process is for one model on several devices.
//!
//! ## References
//!
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! * <https://huggingface.co/docs/accelerate/package_reference/cli>

use std::cell::Cell;

use crate::judge::commands::{Launcher, Token, base_name};
use crate::judge::finding::{Level, Part, Place};
use crate::judge::policy::Action;
use crate::judge::ranks::{LauncherSetting, Started, TextTopic, counted};
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{Count, Hosts, PodTemplate, Ranks, Times, accelerator};
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::pointer::Pointer;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Processes and accelerators that do not match".into(),
        summary: "Each pod starts as many processes as it has accelerators".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("the numbers are in command lines and scripts, which CEL does not take apart"),
        ..Rule::new("processes-fit-accelerators", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workers = match cx.workload.kind.ranks {
        Ranks::Hosts(hosts) => cx.workload.pods.iter().find(|pod| pod.role() == Some(hosts.worker)),
        Ranks::Each { .. } | Ranks::Unknown => None,
    };
    let devices = workers.and_then(worker_devices);
    // A field of the object applies to all its roles.
    let is_said = Cell::new(false);
    for started in cx.certain_launchers() {
        match (started.launch.launcher, started.workload.kind.ranks) {
            (Launcher::Mpi, Ranks::Hosts(hosts)) => {
                if let Some(worker) = workers {
                    on_hosts(cx, started, hosts, worker, devices);
                }
            }
            (Launcher::Mpi | Launcher::Ray, _) | (_, Ranks::Unknown | Ranks::Hosts(_)) => {}
            // The job that uses the template may set something else.
            _ if matches!(started.pod.form.count, Count::Jobs(Times::OfOthers)) => {}
            _ => in_pod(cx, started, &is_said),
        }
    }
}

/// The accelerators of a container: their number, where it is written, and their name.
struct Devices<'a> {
    count: i64,
    place: &'a Pointer,
    resource: &'a str,
}

fn in_pod(cx: &mut Cx<'_>, started: &Started<'_>, is_said: &Cell<bool>) {
    let Some((count, place, resource)) = &started.hints.accelerators else { return };
    let devices = Devices { count: *count, place, resource };
    let (by, factor) = match started.launch.launcher {
        Launcher::Accelerate => {
            let machines = started.option("num_machines");
            // An option overrides the file.
            let is_said = started.option("config_file").is_absent() || machines.is_given();
            let machines = if machines.is_absent() { Some(1) } else { machines.number() };
            let is_known = is_said
                && !started.hints.names(TextTopic::Accelerate)
                && ["cpu", "tpu"].iter().all(|option| started.option(option).is_absent());
            let Some(machines) = machines.filter(|machines| is_known && *machines > 0) else { return };
            (started.option("num_processes"), machines)
        }
        Launcher::DeepSpeed => {
            let other = started.option("num_accelerators");
            let own = started.option("num_gpus");
            (if own.is_absent() { other } else { own }, 1)
        }
        _ => (started.setting("nproc_per_node", "PET_NPROC_PER_NODE"), 1),
    };
    let is_torch = started.launch.launcher.is_torch();
    // Without a number `torchrun` starts one; what the others do depends on the node.
    let processes = match &by {
        LauncherSetting::Absent if is_torch => Some(1),
        by => by.number(),
    };
    let all = devices.count.saturating_mul(factor);
    let Some(processes) = processes.filter(|processes| *processes > 0) else { return };
    if processes > all || (processes < all && is_idle(started, processes)) {
        let field = field(started, &by);
        if field.is_none() || !is_said.replace(true) {
            report(cx, started, &by, field, (processes, all, factor), &devices);
        }
    } else if processes == all {
        declared_devices(cx, started, &devices);
    }
}

/// Tells whether accelerators are certainly left over.
fn is_idle(started: &Started<'_>, processes: i64) -> bool {
    started.is_alone
        && !started.hints.names(TextTopic::Devices)
        && (processes > 1 || !started.hints.names(TextTopic::OneProcess))
}

fn report(
    cx: &mut Cx<'_>,
    started: &Started<'_>,
    by: &LauncherSetting<'_>,
    field: Option<Pointer>,
    (processes, all, machines): (i64, i64, i64),
    devices: &Devices<'_>,
) {
    let count = counted(processes, "process", "processes");
    let starts = match by {
        LauncherSetting::Absent => format!("`{}` without a number starts 1 process", started.name()),
        by => format!("{} starts {count}", started.shown(by)),
    };
    let has = match machines {
        1 => format!("the container has {} `{}`", devices.count, devices.resource),
        _ => format!("{machines} pods have {all} `{}`", devices.resource),
    };
    let message = if processes > all {
        format!("{starts}, and {has}: several share one and fail")
    } else {
        format!(
            "{starts}, and {has}: {} of them {} unused",
            all - processes,
            if all - processes == 1 { "is" } else { "are" }
        )
    };
    let place = field.clone().unwrap_or_else(|| started.place(by));
    let finding = cx.report(&place, message).at(match &field {
        Some(_) => Part::Value,
        None => started.part(by),
    });
    finding.label(Place::Here(devices.place.clone(), Part::Value), format!("{} in each pod", devices.count));
    if field.is_some() {
        finding.label(Place::Here(started.place_of_command(), Part::Value), "starts them");
    }
    finding.help(match machines {
        1 => format!(
            "start {} in each pod, or request {processes} `{}`",
            counted(devices.count, "process", "processes"),
            devices.resource
        ),
        _ => format!("start {all} processes in all"),
    });
    if processes < all {
        finding.at_most(Level::Note);
    }
}

/// Returns the field of the object from which the controller's variable comes.
fn field(started: &Started<'_>, by: &LauncherSetting<'_>) -> Option<Pointer> {
    let (LauncherSetting::Variable(name, ..), Ranks::Each { processes, .. }) = (by, started.workload.kind.ranks)
    else {
        return None;
    };
    let fields = processes.iter().filter(|_| started.is_added(name));
    let mut fields = fields.map(|path| started.workload.object.at(path));
    fields.find(crate::kinds::Part::is_set).map(|field| field.pointer)
}

/// Compares the devices in the program's own options with those of the container.
fn declared_devices(cx: &mut Cx<'_>, started: &Started<'_>, devices: &Devices<'_>) {
    let mut declared: Option<(&Token, Option<i64>)> = None;
    for token in started.launch.started {
        meter::spend(1);
        let Some((name, value)) = token.word.text.split_once('=') else { continue };
        if name.trim_start_matches('+') == "trainer.devices" {
            declared = Some((token, value.parse().ok()));
        }
    }
    let Some((token, Some(count))) = declared else { return };
    if count > devices.count {
        let shown = cut(&token.word.text, 80, "…");
        let message = format!(
            "`{shown}` expects {count} devices, and the container has {} `{}`",
            devices.count, devices.resource
        );
        let place = started.line.place(token);
        let finding = cx.report(&place, message).at(started.line.part(token));
        finding
            .label(Place::Here(devices.place.clone(), Part::Value), format!("{} in each pod", devices.count));
        finding.help(format!("write {} there, or request {count} `{}`", devices.count, devices.resource));
    }
}

/// Compares the processes of `mpirun` with the hosts that the operator lists.
fn on_hosts(
    cx: &mut Cx<'_>,
    started: &Started<'_>,
    hosts: Hosts,
    worker: &PodTemplate<'_>,
    devices: Option<(i64, &str)>,
) {
    let object = &started.workload.object;
    let is_open_mpi = matches!(started.launch.command.program.as_str(), "mpirun" | "mpiexec" | "orterun");
    let other = hosts.implementation.map(|path| object.at(path)).filter(crate::kinds::Part::is_set);
    if !is_open_mpi
        || started.pod.role() != Some(hosts.launcher)
        || other.is_some_and(|other| other.text().set() != Some("OpenMPI"))
        || started.hints.names(TextTopic::Oversubscribes)
        || ["hostfile", "machinefile", "host", "H", "hosts", "tune"]
            .iter()
            .any(|option| !started.option(option).is_absent())
    {
        return;
    }
    let mut by = ["np", "n", "c"].iter().map(|option| started.option(option)).filter(|by| !by.is_absent());
    let (Some(by), None) = (by.next(), by.next()) else { return };
    let Some(processes) = by.number() else { return };
    let replicas = worker.around.get("replicas");
    let slots = object.at(hosts.slots);
    let (Some(workers), Some(each)) = (replicas.int().set(), slots.int().or_default(1)) else { return };
    let too = match hosts.launcher_too.map(|path| object.at(path).bool()) {
        None | Some(crate::kinds::Field::Unset) => false,
        Some(field) => match field.set() {
            Some(too) => too,
            None => return,
        },
    };
    let all = workers.saturating_add(i64::from(too)).saturating_mul(each);
    let shown = started.shown(&by);
    let place = started.place(&by);
    if processes > all {
        let message = format!(
            "{shown} starts {} on {all} slots ({workers} workers with {each} each): Open MPI refuses",
            counted(processes, "process", "processes")
        );
        let finding = cx.report(&place, message);
        finding.label(Place::Here(replicas.pointer, Part::Value), counted(workers, "worker", "workers"));
        if slots.is_set() {
            finding.label(Place::Here(slots.pointer, Part::Value), "this many slots in each");
        }
        finding.help(format!(
            "write `-np {all}`, or raise `{}`",
            hosts.slots.last().unwrap_or(&"slotsPerWorker")
        ));
        return;
    }
    let Some((each, resource)) = devices else { return };
    let devices = each.saturating_mul(workers);
    if processes < devices
        && started.is_alone
        && !started.hints.names(TextTopic::Devices)
        && is_the_program(started)
    {
        let message = format!(
            "{shown} starts {}, and the workers have {devices} `{resource}`: {} of them are unused",
            counted(processes, "process", "processes"),
            devices - processes
        );
        let finding = cx.report(&place, message).at_most(Level::Note);
        finding.label(Place::Here(replicas.pointer, Part::Value), counted(workers, "worker", "workers"));
        finding.help(format!("write `-np {devices}`"));
    }
}

/// Returns how many accelerators each worker has, if it has one container.
fn worker_devices<'a>(worker: &PodTemplate<'a>) -> Option<(i64, &'a str)> {
    let mut containers = worker.spec.get("containers").items();
    let (Some(one), None) = (containers.next(), containers.next()) else { return None };
    let (count, _, resource) = accelerator::one_each(&one)?;
    Some((count, resource))
}

/// Tells whether each process is the training program itself, which uses one device.
fn is_the_program(started: &Started<'_>) -> bool {
    let mut words = started.launch.started.iter().filter_map(Token::known);
    let program = words.next().map(base_name);
    program.is_some_and(|program| program.starts_with("python")) && !started.hints.names(TextTopic::OneProcess)
}
