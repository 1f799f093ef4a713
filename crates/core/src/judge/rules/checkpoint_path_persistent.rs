//! Checkpoints are written where they outlive the pod: into a volume that is kept, or to object storage.
//!
//! ## Why
//!
//! What a container writes into its own files is gone when the container is replaced, and an `emptyDir` is
//! gone with the pod. Pods are replaced all the time: a node is drained, a spot node is taken away, a pod is
//! evicted, a retry starts. The training script finds no checkpoint then and starts at step 0. A run of 8
//! GPUs that is interrupted after 20 hours has lost 160 GPU hours, and the results of a run that has
//! succeeded are deleted together with its pod.
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
//!         command: [torchrun, --nproc-per-node=8, train.py, --checkpoint-dir=/checkpoints]
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
//!         command: [torchrun, --nproc-per-node=8, train.py, --checkpoint-dir=/checkpoints]
//!         resources: {limits: {nvidia.com/gpu: 8}}
//!         volumeMounts: [{name: checkpoints, mountPath: /checkpoints}, {name: shm, mountPath: /dev/shm}]
//!       volumes:
//!       - name: checkpoints
//!         persistentVolumeClaim: {claimName: checkpoints}
//!       - name: shm
//!         emptyDir: {medium: Memory, sizeLimit: 16Gi}
//! ```
//!
//! ## Fix
//!
//! None: only the author knows the claim. Mount one at the directory, or write to object storage
//! (`s3://…`, `gs://…`).
//!
//! ## Details
//!
//! Only pods that request an accelerator are looked at, and only commands that start a Python program,
//! directly or by a launcher such as `torchrun`. The directory is the value of a flag that says where to
//! write: `--checkpoint-dir`, `--checkpoint-path`, `--checkpoint-file`, `--ckpt-dir`, `--ckpt-path`, `--save-dir`, `--save`,
//! `--save-checkpoint`, `--snapshot-path`, `--output-dir`, `--out-dir`, `--job-dir`, `--default-root-dir`,
//! `--dist-checkpoint-root-folder` (`_` and `-` mean the same), or a setting such as `trainer.default_root_dir=`, `exp_manager.exp_dir=`,
//! `checkpointer.checkpoint_dir=` or `base_output_directory=`. Variables such as `CHECKPOINT_DIR`,
//! `CKPT_PATH` and `SNAPSHOT_PATH` count only if no volume of the pod is kept. Flags that name something to
//! read (`--resume`, `--load`, `--model-dir`) and directories of logs do not count; nor do checkpoints of a script
//! that uses a model, by its name (`generate.py`, `inference.py`, `eval_model.py`, `sample.py`, …).
//!
//! An absolute path is in the mount around it. It is wrong if there is none, or if the volume is an `emptyDir`,
//! a ConfigMap or a Secret. A flag with a directory of a volume that is kept and mounted read-only names
//! something to read, and does not count. A `hostPath` is wrong too, since the next pod may
//! run on another node; for one pod that is bound to a node (`nodeName`, `nodeSelector` or `nodeAffinity`) it
//! is only a note. A relative path is in a directory of the image that the manifest does not tell, unless the
//! container has a `workingDir`: it is reported only if no container of the pod mounts a volume that is kept.
//! Programs that `mpirun` starts run in other pods, so the mounts of all pods count for them.
//!
//! The rule is silent where a path is not known, where another such flag of the container has a directory
//! that is kept, where a container uploads files that it does not name (`hf upload`, `--push_to_hub`), where the
//! script copies the directory to one that is kept or not known (`cp`, `mv`, `install`, `rsync`, `scp`, `tar`), or
//! uploads it (`aws s3`, `gsutil`, `gcloud storage`, `rclone`, `azcopy`, `s5cmd`), where another container mounts the same volume, since it may copy the
//! files, and for training runtimes and Volcano Jobs with volumes outside of their pod templates. Suppress it
//! for a job whose output nobody needs, such as a benchmark, with the annotation `jobgate.dev/ignore:
//! checkpoint-path-persistent`.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>
//! * <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>
//! * <https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html>

use std::collections::BTreeMap;

use crate::judge::commands::{Command, CommandLine, Launcher, PodCommands, base_name};
use crate::judge::copies::{PathSteps, saved, uploads_unknown};
use crate::judge::finding::{Level, Part as FindingPart, Place};
use crate::judge::mounts::{Destinations, FileFate, Volumes};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::{is_python_trainer, quote};
use crate::kinds::{Container, ContainerSlot, Field, PodTemplate, accelerator};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::Word;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Checkpoints lost with the pod".into(),
        summary: "Checkpoints are written where they outlive the pod: into a volume that is kept, or to object \
                  storage".into(),
        kinds: Kinds::WithRuns,
        default: Action::Warn,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("checkpoint-path-persistent", check)
    }
}

/// Flags for a directory to write, without dashes and with `_` for `-`
/// (docs/internals/training.md#flags-for-checkpoints).
const FLAGS: [&str; 14] = [
    "checkpoint_dir",
    "checkpoint_file",
    "checkpoint_path",
    "ckpt_dir",
    "ckpt_path",
    "default_root_dir",
    "dist_checkpoint_root_folder",
    "job_dir",
    "out_dir",
    "output_dir",
    "save",
    "save_checkpoint",
    "save_dir",
    "snapshot_path",
];

/// The same for settings of Hydra and similar tools.
const SETTINGS: [&str; 5] = [
    "base_output_directory",
    "checkpointer.checkpoint_dir",
    "default_root_dir",
    "exp_manager.exp_dir",
    "trainer.default_root_dir",
];

/// Words of variables that name something to read.
const READ: [&str; 9] = ["BASE", "INIT", "INPUT", "LOAD", "PRETRAIN", "RESTORE", "RESUME", "SOURCE", "SRC"];

/// Maximum directories of one container that are checked.
const MAX_DIRECTORIES: usize = 64;

/// A directory that a container writes to.
struct Directory {
    at: Pointer,
    part: FindingPart,
    /// The text of the manifest, to quote.
    said: String,
    value: Word,
    is_variable: bool,
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    // Volumes for all pods, as in a Volcano Job, are in no template.
    if cx.partial || workload.object.at(workload.kind.body).get("volumes").is_set() {
        return;
    }
    let lines: Vec<_> = (0..workload.pods.len()).map(|pod| cx.commands(pod)).collect();
    if !workload.pods.iter().any(PodTemplate::holds_accelerators) || lines.iter().any(|pod| uploads(pod)) {
        return;
    }
    // The mounts of all pods, for what `mpirun` starts.
    let mut together = None;
    for (index, pod) in workload.pods.iter().enumerate() {
        let mut around = None;
        for line in &lines[index].containers {
            let spreads = line.launches().any(|launch| launch.launcher == Launcher::Mpi);
            let has_own = || line.container.part.value.is_some_and(accelerator::is_requested_by);
            if !(spreads || has_own()) || is_benchmark(line) {
                continue;
            }
            let Some(directories) = directories(line).filter(|all| !all.is_empty()) else { continue };
            let volumes = cx.volumes(index);
            let (of_pod, shared) = around.get_or_insert_with(|| (mounts_of(pod, volumes), shared_volumes(pod)));
            let mut own = Destinations::default();
            let (mounts, of_pod) = if spreads {
                let all = together.get_or_insert_with(|| all_mounts(cx));
                (&*all, &*all)
            } else {
                own.add(volumes, &line.container.part);
                (&own, &*of_pod)
            };
            judge(cx, pod, line, directories, mounts, of_pod, shared);
        }
    }
}

/// Returns the mounts of the containers of a pod together.
fn mounts_of<'a>(pod: &PodTemplate<'a>, volumes: &Volumes<'a>) -> Destinations<'a> {
    let mut all = Destinations::default();
    main_containers(pod).for_each(|container| all.add(volumes, &container.part));
    all
}

/// Returns the mounts of all pods: `mpirun` starts its program in all of them.
fn all_mounts<'a>(cx: &Cx<'a>) -> Destinations<'a> {
    let mut all = Destinations::default();
    for (index, pod) in cx.workload.pods.iter().enumerate() {
        let volumes = cx.volumes(index);
        main_containers(pod).for_each(|container| all.add(volumes, &container.part));
    }
    all
}

fn main_containers<'p, 'a>(pod: &'p PodTemplate<'a>) -> impl Iterator<Item = Container<'a>> + use<'p, 'a> {
    pod.containers().filter(|container| container.slot == ContainerSlot::Main)
}

fn judge(
    cx: &mut Cx<'_>,
    pod: &PodTemplate<'_>,
    line: &CommandLine<'_>,
    directories: Vec<Directory>,
    mounts: &Destinations<'_>,
    of_pod: &Destinations<'_>,
    shared: &BTreeMap<&str, usize>,
) {
    let is_pinned = is_pinned(pod);
    // Files on a node are kept if only one pod is bound to the node, or if the number of pods is unknown.
    let leaves_node = pod.count.most.is_some_and(|most| most > 1) || pod.count.most == Some(1) && !is_pinned;
    let none_kept = match of_pod.best() {
        FileFate::Kept | FileFate::Unknown => false,
        FileFate::OfNode(_) => leaves_node,
        _ => true,
    };
    // The script changes its directory.
    let is_elsewhere = line.commands.iter().any(|command| matches!(command.program.as_str(), "cd" | "pushd"));
    let Some(saved) = saved(line, mounts, none_kept) else { return };
    let mut worst: Option<(Directory, String, Level)> = None;
    for directory in directories {
        let Some(fate) = fate(line, &directory, mounts, (none_kept, is_elsewhere)) else { return };
        let (what, level) = match fate {
            _ if directory.is_variable && !none_kept => return,
            FileFate::Kept | FileFate::Unknown => return,
            FileFate::Read => continue,
            FileFate::OfContainer | FileFate::OfPod(_)
                if saved.iter().any(|from| from.may_overlap(&PathSteps::new(&directory.value))) =>
            {
                return;
            }
            // Another container may copy the files.
            FileFate::OfPod(name) if shared.get(name).is_some_and(|uses| *uses > 1) => return,
            FileFate::OfContainer if is_relative(&directory) => (
                "is relative, and no volume of the pod is kept: files there are lost with it".into(),
                Level::Deny,
            ),
            FileFate::OfContainer => ("is in no volume: files there are lost with the pod".into(), Level::Deny),
            FileFate::OfPod(name) => {
                (format!("is in the `emptyDir` {}, which is lost with the pod", quote(name)), Level::Deny)
            }
            FileFate::ReadOnly(name) => {
                (format!("is in the volume {}, which cannot be written", quote(name)), Level::Deny)
            }
            FileFate::OfNode(name) if leaves_node => (
                format!("is in the `hostPath` {}, which a pod on another node does not see", quote(name)),
                Level::Deny,
            ),
            FileFate::OfNode(name) => {
                (format!("is in the `hostPath` {}, which is lost with the node", quote(name)), Level::Note)
            }
        };
        if worst.is_none() {
            worst = Some((directory, what, level));
        }
    }
    let Some((directory, what, level)) = worst else { return };
    let help = "mount a PersistentVolumeClaim at the directory: \
                `volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]` with \
                `volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: …}}]`, \
                or write to object storage";
    let finding = cx.report(&directory.at, format!("{} {what}", quote(&directory.said)));
    finding.at(directory.part);
    finding.at_most(level).help(help);
    if let Some(said_by) = pod.count.said_by.as_ref().filter(|_| what.contains("another node")) {
        finding.label(Place::Here(said_by.clone(), FindingPart::Value), "this many pods at once");
    }
}

/// Returns what becomes of the files in a directory; nothing if its place is unknown.
fn fate<'a>(
    line: &CommandLine<'_>,
    directory: &Directory,
    mounts: &Destinations<'a>,
    (none_kept, is_elsewhere): (bool, bool),
) -> Option<FileFate<'a>> {
    let value = &directory.value;
    let (start, whole) = (value.start(), value.known().is_some());
    if start.starts_with('/') {
        return Some(mounts.fate(start, whole));
    }
    if start.is_empty() || value.text.contains("://") {
        return None;
    }
    let from = line.container.part.get("workingDir");
    match from.text() {
        Field::Set(from) if from.starts_with('/') && !is_elsewhere => {
            Some(mounts.fate(&format!("{from}/{start}"), whole))
        }
        _ => none_kept.then_some(FileFate::OfContainer),
    }
}

fn is_relative(directory: &Directory) -> bool {
    !directory.value.text.starts_with('/')
}

/// Returns the directories that the trainers of a container write to; nothing if they are not all known.
fn directories(line: &CommandLine<'_>) -> Option<Vec<Directory>> {
    if line.unread || !line.commands.iter().any(is_python_trainer) {
        return None;
    }
    let mut all = Vec::new();
    for command in line.commands.iter().filter(|command| is_python_trainer(command)) {
        // In programs that generate or evaluate, `--ckpt_dir` is a model to read.
        let only_reads = uses_a_model(command);
        for (at, token) in command.words.iter().enumerate() {
            meter::spend(1);
            let text = token.word.text.as_str();
            let (name, inline) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            if matches!(name, "--push_to_hub" | "--hub_model_id" | "--hub_token") {
                return None;
            }
            let is_flag = name.starts_with('-') && is_one(&FLAGS, name.trim_start_matches('-'));
            let is_setting = || inline.is_some() && is_one(&SETTINGS, name.trim_start_matches(['+', '-']));
            if !is_flag && !is_setting() || only_reads && names_a_checkpoint(name) {
                continue;
            }
            let next = || command.words.get(at + 1).map(|token| token.word.text.as_str());
            let Some(value) = inline.or_else(next).filter(|value| !value.starts_with('-')) else { continue };
            let has_slash = || value.contains(['/', '.']);
            if !is_path(value)
                || ["save", "save_checkpoint"]
                    .iter()
                    .any(|flag| is_one(&[flag], name.trim_start_matches('-')))
                    && !has_slash()
            {
                continue;
            }
            let said = if inline.is_some() { text.to_owned() } else { format!("{text} {value}") };
            let value = Word { text: value.into(), ..Word::default() };
            all.push(Directory {
                at: line.place(token),
                part: line.part(token),
                said,
                value,
                is_variable: false,
            });
            if all.len() > MAX_DIRECTORIES {
                return None;
            }
        }
    }
    for (name, variable) in line.environment.iter() {
        let value = variable.value.as_deref().filter(|value| value.starts_with(['/', '.']));
        let Some(value) = value.filter(|_| is_written(name)) else { continue };
        if let Some(pointer) = line.environment.place(variable) {
            let said = format!("{name}={value}");
            let value = Word { text: value.into(), ..Word::default() };
            all.push(Directory {
                at: pointer / "value",
                part: FindingPart::Value,
                said,
                value,
                is_variable: true,
            });
        }
        if all.len() > MAX_DIRECTORIES {
            return None;
        }
    }
    Some(all)
}

/// Tells whether a command uses a model that another one has trained, by the name of its script.
fn uses_a_model(command: &Command) -> bool {
    const USES: [&str; 11] = [
        "chat", "convert", "demo", "eval", "export", "generat", "infer", "predict", "sampl", "serve", "test",
    ];
    let words = command.words.iter().map(|token| token.word.text.as_str());
    let mut scripts = words.filter(|word| word.ends_with(".py")).map(base_name);
    scripts.next().is_some_and(|script| USES.iter().any(|uses| script.starts_with(uses)))
}

/// Tells whether a flag or setting is for a checkpoint, rather than for other output.
fn names_a_checkpoint(name: &str) -> bool {
    name.contains("ckpt") || name.contains("checkpoint")
}

/// Tells whether a name is one of a list, with `_` for `-`.
fn is_one(list: &[&str], name: &str) -> bool {
    let same = |known: &&str| {
        known.len() == name.len()
            && known
                .bytes()
                .zip(name.bytes())
                .all(|(known, byte)| known == if byte == b'-' { b'_' } else { byte })
    };
    list.iter().any(same)
}

/// Tells whether a variable names a directory to write, by its name.
fn is_written(name: &str) -> bool {
    let is_checkpoint = name == "SNAPSHOT_PATH"
        || name.contains("CKPT")
        || name.contains("CHECKPOINT") && (name.ends_with("_DIR") || name.ends_with("_PATH"));
    is_checkpoint && !READ.iter().any(|word| name.contains(word))
}

/// Tells whether a value may be a path at all.
fn is_path(value: &str) -> bool {
    const OTHERS: [&str; 7] = ["auto", "false", "last", "latest", "no", "none", "true"];
    let lower = value.to_ascii_lowercase();
    !value.is_empty() && !OTHERS.contains(&lower.as_str()) && value.parse::<f64>().is_err()
}

/// Tells whether a container of the pod uploads files that are not known.
fn uploads(pod: &PodCommands<'_>) -> bool {
    let mut commands = pod.containers.iter().flat_map(|line| &line.commands);
    commands.any(|command| uploads_unknown(&command.program, &command.words))
}

/// Tells from its image whether a container is a benchmark, whose output is not a checkpoint.
fn is_benchmark(line: &CommandLine<'_>) -> bool {
    let image = line.container.part.get("image").value.and_then(Value::as_str).unwrap_or_default();
    ["nccl-tests", "osu-"]
        .iter()
        .any(|name| memchr::memmem::find(image.as_bytes(), name.as_bytes()).is_some())
}

/// Returns how many containers mount each volume.
fn shared_volumes<'a>(pod: &PodTemplate<'a>) -> BTreeMap<&'a str, usize> {
    let mut uses: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, container) in pod.containers().enumerate() {
        for mount in container.part.get("volumeMounts").values() {
            meter::spend(1);
            let Some(name) = mount.get("name").and_then(Value::as_str) else { continue };
            let (count, last) = uses.entry(name).or_insert((0, usize::MAX));
            if *last != at {
                (*count, *last) = (*count + 1, at);
            }
        }
    }
    uses.into_iter().map(|(name, (count, _))| (name, count)).collect()
}

/// Tells whether pods of a template are bound to a node, or may be.
fn is_pinned(pod: &PodTemplate<'_>) -> bool {
    let selector = pod.spec.get("nodeSelector").value.and_then(Value::as_object);
    pod.spec.get("nodeName").is_set()
        || selector.is_some_and(|selector| selector.get("kubernetes.io/hostname").is_some())
        || pod
            .spec
            .at(&["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"])
            .is_set()
}
