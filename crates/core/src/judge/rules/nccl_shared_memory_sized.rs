//! A container with several GPUs has shared memory for NCCL: more than the 64 MiB of the default.
//!
//! ## Why
//!
//! The processes of one container exchange data in `/dev/shm`, which has 64 MiB unless a volume is mounted
//! there. NCCL puts its buffers there where GPUs cannot reach each other directly, and the workers of a
//! PyTorch DataLoader their batches. Where it is too small, the program stops within minutes, with `failed to
//! extend /dev/shm/nccl-…` or `Bus error … insufficient shared memory (shm)`, and a job without a limit of
//! retries does so again and again. Whether it happens depends on the GPUs of the node: the same job runs on
//! one with NVLink.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nproc-per-node=8, train.py]
//!         resources: {limits: {nvidia.com/gpu: 8}}
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
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nproc-per-node=8, train.py]
//!         resources: {limits: {nvidia.com/gpu: 8}}
//!         volumeMounts: [{name: shm, mountPath: /dev/shm}]
//!       volumes:
//!       - name: shm
//!         emptyDir: {medium: Memory, sizeLimit: 16Gi}
//! ```
//!
//! ## Fix
//!
//! Unsafe: adds a volume in memory and mounts it at `/dev/shm`, with a quarter of the container's memory
//! limit and at most 16Gi. What is written there counts as memory of the container.
//!
//! ## Details
//!
//! A container is reported if nothing is mounted at `/dev/shm`, `/dev` or `/`, the pod does not share the
//! memory of its node (`hostIPC`), and
//!
//! * it has two or more whole GPUs, and starts several processes that use NCCL: `torchrun` with more than one
//!   process per node, `accelerate launch`, `deepspeed`, any program in a PyTorchJob, or workers of an MPIJob
//!   whose launcher names `nccl`, `rccl`, `horovod` or `torch`, or sets a variable such as `NCCL_DEBUG`;
//! * or it has a GPU, and its Python program takes `--num-workers` or `--dataloader-num-workers` above zero, or
//!   `--workers` behind `torchrun`, `accelerate launch` or `deepspeed`: alone it may be of any program.
//!
//! An `emptyDir` at `/dev/shm` without `medium: Memory` is reported too: it is a directory on a disk.
//!
//! The rule is silent with `NCCL_SHM_DISABLE=1`, for containers that only wait, for other accelerators, where
//! the number of processes is not known, and for training runtimes. NCCL since 2.24 can do without `/dev/shm`
//! on new drivers, but not in every container, so the rule is a note by default.
//!
//! ## References
//!
//! * <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory>
//! * <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>
//! * <https://docs.pytorch.org/docs/stable/multiprocessing.html#strategy-management>

use crate::judge::commands::{Command, CommandLine, Launch, Launcher, Token, Value as Given};
use crate::judge::finding::Safety;
use crate::judge::mounts::Destinations;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::{is_python_trainer, is_trainer, quote, quoted};
use crate::k8s::quantity::Quantity;
use crate::kinds::{Field, Part, PodTemplate, accelerator};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Too little shared memory".into(),
        summary: "A container with several GPUs has shared memory for NCCL: more than the 64 MiB of the default".into(),
        kinds: Kinds::WithRuns,
        default: Action::Note,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("nccl-shared-memory-sized", check)
    }
}

/// Where shared memory may be mounted.
const PLACES: [&str; 3] = ["/dev/shm", "/dev", "/"];

/// Flags with the number of DataLoader workers, without dashes and with `_` for `-`. The last is one only in a
/// program that a launcher starts.
const WORKERS: [&str; 3] = ["dataloader_num_workers", "num_workers", "workers"];

/// The volume that the fix adds.
const VOLUME: &str = "shm";

fn check(cx: &mut Cx<'_>) {
    if cx.partial {
        return;
    }
    let workload = cx.workload;
    let is_for_nccl = workload.pods.iter().enumerate().any(|(index, pod)| {
        pod.role() == Some("Launcher") && cx.commands(index).containers.iter().any(names_nccl)
    });
    for (index, pod) in workload.pods.iter().enumerate() {
        let shares = pod.spec.get("hostIPC");
        if shares.is_set() && shares.bool() != Field::Set(false) {
            continue;
        }
        let mut has_fix = false;
        let is_worker = is_for_nccl && pod.role() == Some("Worker");
        for line in &cx.commands(index).containers {
            let container = &line.container.part;
            let gpus = container.value.map_or(0, accelerator::gpus);
            if gpus < 1 || is_off(line) {
                continue;
            }
            let mut mounts = Destinations::default();
            mounts.add(cx.volumes(index), container);
            if let Some(at) = on_disk(&mounts, pod, line) {
                cx.report(&at, "the `emptyDir` at `/dev/shm` is on a disk: shared memory is as slow as that")
                    .help("write `medium: Memory`, and a `sizeLimit`");
                continue;
            }
            if mounts.is_mounted(&PLACES)
                || container.get("volumeMounts").text() != Field::Unset && !is_list(line)
            {
                continue;
            }
            let Some((at, message)) = needs(line, gpus, is_worker) else { continue };
            let fix = fix(pod, line).filter(|_| !has_fix);
            let finding = cx.report(&at, message);
            finding.help(
                "mount memory at `/dev/shm`: \
                 `volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]`",
            );
            if let Some(ops) = fix {
                finding.fix(Safety::Unsafe, ops);
                // Another container of the pod can use the same volume.
                has_fix = true;
            }
        }
    }
}

fn is_list(line: &CommandLine<'_>) -> bool {
    line.container.part.get("volumeMounts").value.is_some_and(|value| value.as_array().is_some())
}

/// Tells whether NCCL's shared memory is switched off, or may be.
fn is_off(line: &CommandLine<'_>) -> bool {
    line.environment.get("NCCL_SHM_DISABLE").is_some_and(|variable| variable.value.as_deref() != Some("0"))
}

/// Returns the place and the message if a container needs shared memory.
fn needs(line: &CommandLine<'_>, gpus: i64, is_worker: bool) -> Option<(Pointer, String)> {
    let small = "but `/dev/shm` has only 64 MiB";
    if gpus >= 2 {
        let launch = line.launches().find_map(|launch| {
            let several = processes(&launch, line)?;
            several.then(|| {
                launch.command.words.first().map(|word| (line.place(word), quoted(&launch.command.words)))
            })
        });
        if let Some(Some((at, words))) = launch {
            return Some((at, format!("{words} starts processes for {gpus} GPUs, {small}")));
        }
        if is_worker {
            let at = line.container.part.pointer.clone();
            return Some((at, format!("the launcher starts processes for {gpus} GPUs, {small}")));
        }
        let of_operator = line.environment.get("PET_NPROC_PER_NODE").filter(|known| known.is_added());
        let starts_one = of_operator.is_some_and(|known| known.value.as_deref() == Some("1"));
        let trainer = line.commands.iter().find(|command| is_trainer(command));
        let runs = line.is_of_image() || trainer.is_some() && line.launches().next().is_none();
        if of_operator.is_some() && !starts_one && runs && !line.unread {
            let at = trainer.and_then(|command| command.words.first()).map(|word| line.place(word));
            let at = at.unwrap_or_else(|| line.container.part.pointer.clone());
            return Some((at, format!("the container has {gpus} GPUs, {small}")));
        }
    }
    line.commands.iter().filter(|command| is_python_trainer(command)).find_map(|command| {
        let (token, said) = workers(command)?;
        Some((line.place(token), format!("{} starts processes that share data, {small}", quote(&said))))
    })
}

/// Tells whether a launcher starts several processes that use NCCL; nothing if that is not known.
fn processes(launch: &Launch<'_>, line: &CommandLine<'_>) -> Option<bool> {
    let is_several = |given: &str| Some(given.parse::<i64>().map_or(given != "cpu", |number| number > 1));
    let option = match launch.launcher {
        Launcher::Torchrun | Launcher::TorchLaunch => "nproc_per_node",
        Launcher::Accelerate => "num_processes",
        Launcher::DeepSpeed => "num_gpus",
        Launcher::Mpi | Launcher::Ray => return None,
    };
    match launch.value(option) {
        Given::Known(given) => is_several(given),
        Given::Unknown => None,
        Given::Absent if launch.launcher.is_torch() => {
            if let Some(known) = line.environment.get("PET_NPROC_PER_NODE") {
                return is_several(known.value.as_deref()?);
            }
            // One process is the default.
            (!line.environment.is_open).then_some(false)
        }
        // As many as there are GPUs, unless a file says otherwise.
        Given::Absent => Some(launch.value("config_file").is_absent()),
    }
}

/// Returns the flag with the number of DataLoader workers, if it is above zero.
fn workers(command: &Command) -> Option<(&Token, String)> {
    let trains = |launch: Launch<'_>| !matches!(launch.launcher, Launcher::Mpi | Launcher::Ray);
    let flags = if Launch::from_command(command).is_some_and(trains) { &WORKERS[..] } else { &WORKERS[..2] };
    command.words.iter().enumerate().skip(1).find_map(|(at, token)| {
        meter::spend(1);
        let text = token.word.text.as_str();
        let (name, inline) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let name = name.strip_prefix("--")?;
        if !flags.iter().any(|known| name.len() == known.len() && name.replace('-', "_") == **known) {
            return None;
        }
        let next = || command.words.get(at + 1).map(|next| next.word.text.as_str());
        let value = inline.or_else(next)?;
        let said = if inline.is_some() { text.to_owned() } else { format!("{text} {value}") };
        value.parse::<i64>().is_ok_and(|number| number > 0).then_some((token, said))
    })
}

/// Tells whether a launcher's command line names something that uses NCCL.
fn names_nccl(line: &CommandLine<'_>) -> bool {
    line.argv.iter().any(|item| {
        meter::spend_text(&item.text);
        let has = |name: &&str| memchr::memmem::find(item.text.as_bytes(), name.as_bytes()).is_some();
        ["NCCL_", "horovod", "nccl", "rccl", "torch"].iter().any(has)
    })
}

/// Returns the `emptyDir` at `/dev/shm`, if it is on a disk.
fn on_disk(mounts: &Destinations<'_>, pod: &PodTemplate<'_>, line: &CommandLine<'_>) -> Option<Pointer> {
    if !mounts.is_mounted(&PLACES[..1]) {
        return None;
    }
    let mount = line.container.part.get("volumeMounts").mappings().find(|mount| {
        mount
            .get("mountPath")
            .value
            .and_then(Value::as_str)
            .is_some_and(|path| path.trim_end_matches('/') == PLACES[0])
    })?;
    let name = mount.get("name").value?.as_str()?;
    let is_it = |volume: &Part<'_>| volume.get("name").value.and_then(Value::as_str) == Some(name);
    let directory = pod.spec.get("volumes").mappings().find(is_it)?.get("emptyDir");
    let medium = directory.get("medium");
    let is_disk =
        medium.is_set() && medium.text() == Field::Set("") || directory.is_mapping() && !medium.is_set();
    is_disk.then_some(directory.pointer)
}

/// Returns the operations that mount memory at `/dev/shm`.
fn fix(pod: &PodTemplate<'_>, line: &CommandLine<'_>) -> Option<Vec<Op>> {
    let container = &line.container.part;
    let limit = container.at(&["resources", "limits", "memory"]);
    let limit = limit.value.and_then(|limit| Quantity::from_json(limit).ok()).map(|limit| limit.value());
    let gibibytes = limit.map_or(16, |limit| (limit / 4 / (1 << 30)).clamp(1, 16));
    let (volumes, mounts) = (pod.spec.get("volumes"), container.get("volumeMounts"));
    let taken =
        volumes.mappings().find(|volume| volume.get("name").value.and_then(Value::as_str) == Some(VOLUME));
    let size = format!("{gibibytes}Gi");
    let volume = json!({"name": VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}});
    let mount = json!({"name": VOLUME, "mountPath": "/dev/shm"});
    let add = |list: &Part<'_>, around: &Part<'_>, key, item: Value| match list.value {
        Some(Value::Array(items)) => Some(Op::Add(&list.pointer / items.len(), item)),
        None | Some(Value::Null) => around.set(key, Value::Array(vec![item])),
        Some(_) => None,
    };
    let mut ops = vec![add(&mounts, container, "volumeMounts", mount)?];
    match taken {
        // Another container mounts it already.
        Some(own) if own.at(&["emptyDir", "medium"]).text() == Field::Set("Memory") => {}
        Some(_) => return None,
        None => ops.push(add(&volumes, &pod.spec.own, "volumes", volume)?),
    }
    Some(ops)
}
