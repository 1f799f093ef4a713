//! Each index of a sweep has retries of its own, so that one bad index does not end the others.
//!
//! ## Why
//!
//! An Indexed Job is often used for work in which each pod is for itself: one seed, one shard, one file. Its
//! `backoffLimit` counts the failures of all pods together, and when it is reached, all pods are deleted,
//! those that were hours into their work included. One index with bad data is enough: it alone fails seven
//! times, and a sweep of 500 runs is over.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 100
//!   parallelism: 10
//!   completionMode: Indexed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py, --seed=$(JOB_COMPLETION_INDEX)]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   completions: 100
//!   parallelism: 10
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
//!   maxFailedIndexes: 10
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py, --seed=$(JOB_COMPLETION_INDEX)]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `backoffLimitPerIndex: 1` and removes `backoffLimit`, if the pods have `restartPolicy:
//! Never`. Add `maxFailedIndexes` for a sweep that should end early if many indexes fail.
//!
//! ## Details
//!
//! A Job is reported as a note if it is Indexed with more than one index, its containers use the index
//! (`JOB_COMPLETION_INDEX`, or the annotation or label), `backoffLimitPerIndex` is not set, and
//! `backoffLimit` is unset (6) or smaller than the number of indexes.
//!
//! `backoffLimitPerIndex` together with `restartPolicy: OnFailure` is a warning. The kubelet restarts the
//! container in place then, which no index counts, and the limit of the whole Job is off: a failing container
//! restarts forever.
//!
//! The rule is silent for pods that work together: with a launcher for several nodes, `mpirun`, `ssh`, a
//! variable with the address of another pod (`MASTER_ADDR`, `COORDINATOR_ADDRESS`), a `subdomain`, a topology
//! of Kueue's (`kueue.x-k8s.io/podset-required-topology`), or the mark of a group of pods that are scheduled
//! together. It is silent as well where a script only prints the index. It does
//! not look into JobSets, whose Jobs fail together. The field needs Kubernetes 1.29, or 1.28 with the feature
//! gate `JobBackoffLimitPerIndex`.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index>
//! * <https://kubernetes.io/docs/tasks/job/indexed-parallel-processing-static/>

use crate::judge::commands::{Command, CommandLine, Launcher, Value as Given};
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::drives_others;
use crate::kinds::{Deadline, Field, PodTemplate};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::shell::After;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Retries shared by all indexes".into(),
        summary: "Each index of a sweep has retries of its own, so that one bad index does not end the others".into(),
        kinds: Kinds::JobSpecs,
        // Lowered to a note for a sweep without retries per index.
        default: Action::Warn,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("sweep-retries-per-index", check)
    }
}

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

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate().filter(|(_, pod)| pod.form.is_job()) {
        let spec = &pod.around;
        let per_index = spec.get("backoffLimitPerIndex");
        if per_index.is_set() {
            in_place(cx, pod, &per_index.pointer);
            continue;
        }
        let is_set =
            matches!(workload.kind.deadline, Deadline::EndsEachJob { .. } | Deadline::OfOthers { .. });
        if is_set || spec.get("completionMode").text() != Field::Set("Indexed") {
            continue;
        }
        let limit = spec.get("backoffLimit");
        let Some((all, retries)) = spec.get("completions").int().set().zip(limit.int().or_default(6)) else {
            continue;
        };
        if all < 2 || limit.is_set() && retries >= all || pod.count.most.is_none_or(|most| most <= 1) {
            continue;
        }
        let lines = cx.commands(index);
        if pod.spec.get("subdomain").is_set() || is_group(pod) {
            continue;
        }
        let Some(at) = lines.containers.iter().find_map(use_of_index) else { continue };
        if lines.containers.iter().any(works_with_others) {
            continue;
        }
        let by_default = if limit.is_set() { "" } else { " by default" };
        let message = format!(
            "`backoffLimit` ({retries}{by_default}) counts the failures of all {all} indexes together: one \
             bad index ends the others"
        );
        let ops = fix(pod);
        let finding = if limit.is_set() {
            Some(cx.report(&limit.pointer, message))
        } else {
            cx.missing(&limit.pointer, message)
        };
        let Some(finding) = finding else { continue };
        finding.at_most(Level::Note).help("write `backoffLimitPerIndex: 1` instead of `backoffLimit`");
        finding.label(Place::Here(at, FindingPart::Value), "each pod works on its own index");
        if let Some(ops) = ops {
            finding.fix(Safety::Unsafe, ops);
        }
    }
}

/// Tells whether the pods of a template are scheduled together: near each other, or all or none.
fn is_group(pod: &PodTemplate<'_>) -> bool {
    let metadata = pod.template.get("metadata");
    ["annotations", "labels"].iter().any(|list| {
        metadata.get(list).entries().any(|(key, _)| {
            meter::spend(1);
            let topology = key.strip_prefix("kueue.x-k8s.io/podset-");
            topology.is_some_and(|rest| rest.ends_with("-topology")) || GROUPS.contains(&key)
        })
    })
}

/// Reports retries per index of pods that restart in place.
fn in_place(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, per_index: &Pointer) {
    let policy = pod.spec.get("restartPolicy");
    if policy.text() != Field::Set("OnFailure") {
        return;
    }
    let message = "containers restart in place with `OnFailure`, forever: `backoffLimitPerIndex` counts pods";
    let finding = cx.report(&policy.pointer, message);
    finding.help("write `restartPolicy: Never`");
    finding.label(Place::Here(per_index.clone(), FindingPart::Value), "the retries of each index");
    finding.fix(Safety::Unsafe, vec![Op::Replace(policy.pointer, "Never".into())]);
}

/// Returns the operations that give each index retries of its own.
fn fix(pod: &PodTemplate<'_>) -> Option<Vec<Op>> {
    let limit = pod.around.get("backoffLimit");
    let set = pod.around.set("backoffLimitPerIndex", 1.into())?;
    let mut ops = vec![set];
    ops.extend(limit.value.is_some().then_some(Op::Remove(limit.pointer)));
    (pod.spec.get("restartPolicy").text() == Field::Set("Never")).then_some(ops)
}

/// Tells whether a container works together with those of other pods, or may.
fn works_with_others(line: &CommandLine<'_>) -> bool {
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
fn use_of_index(line: &CommandLine<'_>) -> Option<Pointer> {
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
