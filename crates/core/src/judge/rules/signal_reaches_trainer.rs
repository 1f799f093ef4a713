//! SIGTERM reaches the training program: no shell in front of it keeps the signal for itself.
//!
//! ## Why
//!
//! Before a container is killed, its first process gets SIGTERM and has the grace period to save a
//! checkpoint. A shell in that place does not pass the signal on, and ignores it itself. The training program
//! hears nothing, is killed when the time is over, and everything since its last checkpoint is lost. On spot
//! nodes, that is every few hours.
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
//!       terminationGracePeriodSeconds: 300
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [sh, -c, cd /src && python train.py]
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
//!       terminationGracePeriodSeconds: 300
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [sh, -c, cd /src && exec python train.py]
//!         resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Fix
//!
//! Safe: writes `exec` before the training program, if it is the last command of the script and not in a
//! pipe, loop or branch. There is no fix for others: move what comes behind the program elsewhere, or forward
//! the signal with `trap`.
//!
//! ## Details
//!
//! Only containers with an accelerator whose first process is a shell are looked at, and in their script the
//! last training program: a launcher such as `torchrun`, or Python with a script or module. It is reported if
//!
//! * the shell is `sh`, `dash` or `ash`, and the program is started without `exec`;
//! * the shell is bash or zsh, and the program is followed by another command, in a pipe, or in a loop. The
//!   last command of a script replaces bash, so that it gets the signal.
//!
//! The finding is a note, since many programs do nothing with the signal. It is a warning if the author gives
//! them time for it, with `terminationGracePeriodSeconds` above 60.
//!
//! A program in the background (`server &`) beside one in the foreground is not the training program.
//!
//! The rule is silent where a script has a `trap`, where another program such as `tini` starts the shell, and
//! where containers share their processes (`shareProcessNamespace`).
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! * <https://man7.org/linux/man-pages/man7/pid_namespaces.7.html>

use crate::judge::commands::{Command, CommandLine, IDLE, Shell, base_name};
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::spot;
use crate::judge::training::{is_trainer, quoted};
use crate::kinds::{Field, PodTemplate, accelerator};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::shell::{After, Place as InScript};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "SIGTERM kept from the training program".into(),
        summary: "SIGTERM reaches the training program: no shell in front of it keeps the signal for itself".into(),
        kinds: Kinds::WithPods,
        // Lowered to a note where nothing says that the signal matters.
        default: Action::Warn,
        export: Exportable::No("it reads scripts"),
        ..Rule::new("signal-reaches-trainer", check)
    }
}

/// An author who sets a longer grace period than this, in seconds, means to use it: the default is 30.
const LONG_GRACE: i64 = 60;

fn check(cx: &mut Cx<'_>) {
    if cx.partial {
        return;
    }
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate() {
        if pod.spec.get("shareProcessNamespace").bool() == Field::Set(true) {
            continue;
        }
        for line in &cx.commands(index).containers {
            if line.container.part.value.is_some_and(accelerator::is_requested_by) {
                in_container(cx, pod, line);
            }
        }
    }
}

fn in_container(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, line: &CommandLine<'_>) {
    let Some(shell) = line.shells.first().filter(|shell| shell.first) else { return };
    // `tini` and similar programs pass the signal on, or end the container.
    if line.argv.first().is_none_or(|first| base_name(&first.text) != shell.name) {
        return;
    }
    let own = || line.commands.iter().enumerate().filter(|(_, command)| command.shell == Some(0));
    if own().any(|(_, command)| command.program == "trap") {
        return;
    }
    let mut found = None;
    // Whether a foreground program runs beside the one that was found, which is in the background.
    let mut beside = None;
    for (at, command) in own() {
        meter::spend(1);
        // A command that always runs takes precedence.
        let was_sure = found.is_some_and(|(_, command, _): (usize, &Command, bool)| is_sure(command));
        let in_background = is_in_background(line, at);
        let is_beside = beside.is_some() && !in_background;
        if is_trainer(command) && (is_sure(command) || !was_sure || is_beside) {
            found = Some((at, command, command.before == Some(After::Pipe)));
            beside = in_background.then_some(false);
        } else if is_beside && !is_helper(command) {
            beside = Some(true);
        } else if command.program == "wait" {
            beside = beside.filter(|is_server| *is_server);
        }
    }
    // It serves another program, which may not use the signal.
    if beside == Some(true) {
        return;
    }
    let Some((at, command, is_piped_into)) = found else { return };
    if command.exec {
        return;
    }
    let is_last = shell.last == Some(at);
    let is_piped = is_piped_into || command.after == After::Pipe;
    let in_loop = command.place.in_loop.is_some();
    let why = match shell.name {
        "sh" | "dash" | "ash" => "does not pass SIGTERM on",
        _ if is_piped => "waits for the pipe, and does not pass SIGTERM on",
        _ if in_loop => "runs the loop, and does not pass SIGTERM on",
        _ if !is_last && own().any(|(next, _)| next > at) => {
            "has more to do after it, and does not pass SIGTERM on"
        }
        _ => return,
    };
    let Some(program) = command.words.first() else { return };
    let message = format!("`{}`, which starts {}, {why}", shell.name, quoted(&command.words));
    let can_exec = is_last && !is_piped && command.place == InScript::default();
    let fix = can_exec.then(|| with_exec(line, shell, command)).flatten();
    let grace = pod.spec.get("terminationGracePeriodSeconds");
    let has_time = matches!(grace.int(), Field::Set(seconds) if seconds > LONG_GRACE);
    let finding = cx.report(&line.place(program), message).at(line.part(program));
    if has_time {
        finding.label(Place::Here(grace.pointer, FindingPart::Value), "this time is lost");
    } else if !is_interrupted(pod) {
        finding.at_most(Level::Note);
    }
    match fix {
        Some(op) => finding.help("write `exec` before it").fix(Safety::Safe, vec![op]),
        None if can_exec => finding.help("start the program by `exec`"),
        None => finding.help(
            "let the training program be the last command of the script, by `exec`, or pass the \
             signal on with `trap`",
        ),
    };
}

/// Programs that only wait for others, or look at them.
const HELPERS: [&str; 20] = [
    "[", "cat", "cd", "curl", "disown", "exit", "export", "grep", "jobs", "kill", "ls", "mkdir", "nc",
    "pgrep", "ps", "set", "tail", "test", "wait", "wget",
];

/// Tells whether a command is not what a container is for: an assignment, or one of [`HELPERS`].
fn is_helper(command: &Command) -> bool {
    let program = command.program.as_str();
    command.words.is_empty() || HELPERS.contains(&program) || IDLE.contains(&program)
}

/// The most commands of a pipeline that are looked at.
const MAX_PIPELINE: usize = 4;

/// Tells whether a command, or the pipeline that it is in, runs in the background.
fn is_in_background(line: &CommandLine<'_>, at: usize) -> bool {
    let shell = line.commands[at].shell;
    let own = line.commands[at..].iter().take(MAX_PIPELINE).filter(|command| command.shell == shell);
    own.map(|command| command.after).find(|after| *after != After::Pipe) == Some(After::Background)
}

/// Tells whether a command runs whenever the script does.
fn is_sure(command: &Command) -> bool {
    command.place.depth == 0 && !command.place.branch
}

/// Tells whether pods are interrupted often, so that the signal matters.
fn is_interrupted(pod: &PodTemplate<'_>) -> bool {
    spot::selected(&pod.spec).is_some()
}

/// Returns the operation that writes `exec` before the last command of a script.
fn with_exec(line: &CommandLine<'_>, shell: &Shell, command: &Command) -> Option<Op> {
    let item = line.argv.get(shell.item)?;
    let script = item.written;
    let at = command.words.first()?.word.span.start;
    let (before, behind) = script.split_at_checked(at)?;
    // The places of words are those after `$(X)` is replaced: nothing may be replaced before this one.
    if script != item.text && (before.contains("$(") || item.text.get(..at) != Some(before)) {
        return None;
    }
    // A wrapper such as `timeout`, or a variable, is before it.
    let begins = before.trim_end_matches([' ', '\t']);
    let is_first = begins.is_empty() || begins.ends_with([';', '\n']) || begins.ends_with("&&");
    is_first.then(|| Op::Replace(item.pointer(), format!("{before}exec {behind}").into()))
}
