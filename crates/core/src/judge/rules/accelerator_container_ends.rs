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
//! ending, and its GPUs with it. That is a note; since Kubernetes 1.29 such a container belongs into
//! `initContainers` with `restartPolicy: Always`.
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

use crate::judge::commands::{Command, CommandLine, Launcher, PodCommands, Token, base_name};
use crate::judge::finding::{Level, Part as FindingPart, Place};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::{drives_others, quoted};
use crate::kinds::{Deadline, PodTemplate, Restart, Run, accelerator};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::After;

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

/// A `sleep` of so many seconds or more counts as endless.
const LONG: f64 = 86400.0;

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
        let deadline = deadline(workload.run_of(pod), pod);
        for line in &lines.containers {
            if let Some(end) = waits(line) {
                report(cx, line, &end, deadline.as_ref(), lines.containers.len());
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
        let deadline = deadline(workload.run_of(pod), pod);
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

fn report(cx: &mut Cx<'_>, line: &CommandLine<'_>, end: &EndlessCommand<'_>, deadline: Option<&Pointer>, all: usize) {
    let what = end.what();
    let at = end.words.first().map_or_else(|| line.container.part.pointer.clone(), |word| line.place(word));
    if !line.container.part.value.is_some_and(accelerator::is_requested_by) {
        if all > 1 {
            let message =
                format!("{what}, so the pod does not end when its other containers have, and holds GPUs");
            cx.report(&at, message).at_most(Level::Note).help(
                "let it end with the others, or make it a sidecar: an item of `initContainers` with \
                 `restartPolicy: Always`",
            );
        }
        return;
    }
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

/// Returns the deadline of the run or of its pods.
fn deadline(run: &Run<'_>, pod: &PodTemplate<'_>) -> Option<Pointer> {
    [run.deadline(), pod.spec.get("activeDeadlineSeconds")]
        .into_iter()
        .find_map(|deadline| deadline.is_set().then_some(deadline.pointer))
}

/// The command that a container never gets past.
struct EndlessCommand<'c> {
    words: &'c [Token],
    of_loop: bool,
    /// Whether it runs only if the command before has failed.
    after_failure: bool,
}

impl EndlessCommand<'_> {
    /// Returns what it does, for a message.
    fn what(&self) -> String {
        match self.of_loop {
            true => format!("the loop around {} never ends", quoted(self.words)),
            false if sleeps(self.words).is_some_and(f64::is_finite) => {
                format!("{} waits for a day or more", quoted(self.words))
            }
            false => format!("{} never ends", quoted(self.words)),
        }
    }
}

/// Returns the command or loop at the end of a container that never ends.
fn waits<'c>(line: &'c CommandLine<'_>) -> Option<EndlessCommand<'c>> {
    let first = line.commands.first()?;
    let Some(shell) = line.shells.first().filter(|shell| shell.first) else {
        return (line.shells.is_empty() && is_endless(first)).then_some(EndlessCommand {
            words: &first.words,
            of_loop: false,
            after_failure: false,
        });
    };
    let own = || line.commands.iter().filter(|command| command.shell == Some(0));
    // The script may not get to its end.
    let last = shell.last.and_then(|last| line.commands.get(last));
    for command in own().filter(|command| last.is_none_or(|last| !std::ptr::eq(*command, last))) {
        meter::spend(1);
        let leaves = matches!(command.program.as_str(), "exit" | "return") || command.exec;
        let is_sure = command.before != Some(After::Or) && command.place.in_loop.is_none();
        if leaves && !fails(command) && is_sure {
            return None;
        }
    }
    if let Some(last) = shell.last_loop {
        let body = line.commands.get(last.head.filter(|_| last.endless && !last.leaves)?)?;
        return Some(EndlessCommand { words: &body.words, of_loop: true, after_failure: false });
    }
    let last = last?;
    is_endless(last).then_some(EndlessCommand { words: &last.words, of_loop: false, after_failure: last.place.branch })
}

/// Tells whether a command ends a script in a branch, with a failure: otherwise the script goes on.
fn fails(command: &Command) -> bool {
    let status = command.words.get(1).and_then(Token::known).and_then(|status| status.parse::<i64>().ok());
    command.program == "exit" && command.place.branch && status.is_some_and(|status| status != 0)
}

/// Tells whether a command runs forever, or for a day or more.
fn is_endless(command: &Command) -> bool {
    if command.timeout {
        return false;
    }
    match command.program.as_str() {
        "sleep" => sleeps(&command.words).is_some_and(|time| time >= LONG),
        "tail" => {
            let words: Option<Vec<&str>> = command.words.iter().skip(1).map(Token::known).collect();
            let follows = |word: &&str| {
                word.starts_with("--follow")
                    || !word.starts_with("--") && word.starts_with('-') && word.contains(['f', 'F'])
            };
            words.is_some_and(|words| words.contains(&"/dev/null") && words.iter().any(follows))
        }
        _ => false,
    }
}

/// Returns the seconds that a `sleep` takes; nothing for other commands, and where they are not known.
fn sleeps(words: &[Token]) -> Option<f64> {
    let (program, times) = words.split_first()?;
    let times: Option<Vec<f64>> = times.iter().map(|word| seconds(word.known()?)).collect();
    times.filter(|_| base_name(&program.word.text) == "sleep").map(|times| times.iter().sum())
}

/// Returns the seconds of an argument of `sleep`.
fn seconds(text: &str) -> Option<f64> {
    if matches!(text.to_ascii_lowercase().as_str(), "inf" | "infinity") {
        return Some(f64::INFINITY);
    }
    let factor = match text.as_bytes().last()? {
        b's' => 1.0,
        b'm' => 60.0,
        b'h' => 3600.0,
        b'd' => 86400.0,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<f64>().ok().map(|number| number * factor)
}
