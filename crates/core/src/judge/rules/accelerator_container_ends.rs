//! A container with an accelerator ends by itself: its last command is not one that waits forever.
//!
//! ## Why
//!
//! `sleep infinity`, `tail -f /dev/null` and endless loops keep a container open, for somebody to log in or
//! because it was copied from a service. The job never completes. Its GPUs are held until somebody notices,
//! often for days, and the queue behind it waits. GPUs that are held and idle cost as much as GPUs that work.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [bash, -c, python train.py; sleep infinity]
//!         resources: {limits: {nvidia.com/gpu: 1}}
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
//!         command: [bash, -c, python train.py]
//!         resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Fix
//!
//! None: remove the command that waits. To look into a container that has ended, use its logs and
//! `kubectl debug`; for interactive work, a Pod with a deadline.
//!
//! ## Details
//!
//! What waits forever is `sleep infinity` or `sleep` for a day and more, `tail -f /dev/null`, and a loop
//! such as `while true; do …; done` without `break` or `exit`, as the only command of a container or the last
//! one of its script. With a deadline for the run or its pods, the finding is a note: the GPUs are held until
//! then. After `||`, it is a note as well, since the container waits only after a failure.
//!
//! A container without an accelerator in such a pod (a sidecar, a server of TensorBoard) keeps the pod from
//! ending, and its GPUs with it. That is a finding of `sidecar-ends`.
//!
//! A launcher of an MPIJob that waits forever after `mpirun` keeps its workers, and the accelerators that they
//! have.
//!
//! The rule is silent for workers that others start processes on (the workers of an MPIJob, pods beside one
//! that runs `mpirun` or `ssh`), for pods that are not meant to end, such as those of a Ray cluster, for
//! training runtimes, whose command a TrainJob may replace, and where a script may end before its last
//! command (`exec`, `exit`), unless it does so only with a failure (`exit 1` in a branch). Scripts in images and ConfigMaps are not read.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
//! * <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>

use crate::judge::commands::{CommandLine, Launcher, PodCommands};
use crate::judge::container_end::{EndlessCommand, deadline, waits};
use crate::judge::finding::{Level, Part as FindingPart, Place};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::drives_others;
use crate::kinds::{Deadline, PodTemplate, Restart, accelerator};
use crate::text::pointer::Pointer;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Container with accelerators that never ends".into(),
        summary: "A container with an accelerator ends by itself: its last command does not wait forever".into(),
        kinds: Kinds::WithRestart,
        default: Action::Warn,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("accelerator-container-ends", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if cx.partial || matches!(workload.kind.deadline, Deadline::OfOthers { .. }) {
        return;
    }
    let lines: Vec<&PodCommands<'_>> = (0..workload.pods.len()).map(|pod| cx.commands(pod)).collect();
    on_others(cx, &lines);
    // Other pods may start processes in these containers.
    if lines.iter().flat_map(|pod| &pod.containers).any(drives_others) {
        return;
    }
    let has_launcher = workload.pods.iter().any(|pod| pod.role() == Some("Launcher"));
    for (pod, lines) in workload.pods.iter().zip(&lines) {
        let is_served = has_launcher && pod.role() == Some("Worker");
        if is_served || matches!(pod.form.restart, Restart::Free) || !pod.holds_accelerators() {
            continue;
        }
        let deadline = deadline(workload, pod);
        // Others are sidecars: `sidecar-ends`.
        let own = |line: &&CommandLine<'_>| line.container.part.value.is_some_and(accelerator::is_requested_by);
        for line in lines.containers.iter().filter(own) {
            if let Some(end) = waits(line) {
                report(cx, line, &end, deadline.as_ref());
            }
        }
    }
}

/// Reports launchers that wait forever after the processes that they started on other pods have ended.
fn on_others(cx: &mut Cx<'_>, lines: &[&PodCommands<'_>]) {
    let workload = cx.workload;
    let is_held = |pod: &PodTemplate<'_>| pod.role() == Some("Worker") && pod.holds_accelerators();
    for (pod, lines) in workload.pods.iter().zip(lines) {
        let launches = pod.role() == Some("Launcher") && !pod.holds_accelerators();
        if !launches || !workload.pods.iter().any(is_held) {
            continue;
        }
        let deadline = deadline(workload, pod);
        for line in &lines.containers {
            let starts =
                line.launches().any(|launch| launch.launcher == Launcher::Mpi && launch.is_certain());
            let Some(end) = waits(line).filter(|end| starts && !end.after_failure && !end.of_loop) else {
                continue;
            };
            let at = end
                .words
                .first()
                .map_or_else(|| line.container.part.pointer.clone(), |word| line.place(word));
            let (until, level) = match deadline {
                Some(_) => ("until the deadline", Level::Note),
                None => ("forever", Level::Deny),
            };
            let message = format!("{}: the workers hold their accelerators {until}", end.what());
            let finding = cx.report(&at, message);
            finding.at_most(level).help("end the launcher with what it starts, or set a deadline");
            if let Some(deadline) = &deadline {
                finding.label(Place::Here(deadline.clone(), FindingPart::Value), "the deadline");
            }
        }
    }
}

fn report(cx: &mut Cx<'_>, line: &CommandLine<'_>, end: &EndlessCommand<'_>, deadline: Option<&Pointer>) {
    let what = end.what();
    let at = end.words.first().map_or_else(|| line.container.part.pointer.clone(), |word| line.place(word));
    let (message, level) = match (deadline, end.after_failure) {
        (_, true) => (format!("{what}: after a failure the container holds its accelerators"), Level::Note),
        (Some(_), _) => {
            (format!("{what}: the container holds its accelerators until the deadline"), Level::Note)
        }
        (None, _) => (format!("{what}: the container holds its accelerators forever"), Level::Deny),
    };
    let finding = cx.report(&at, message);
    finding.at_most(level).help("end the container with the training program, or set a deadline");
    if let Some(deadline) = deadline {
        finding.label(Place::Here(deadline.clone(), FindingPart::Value), "the deadline");
    }
}
