//! Exit codes that a container never ends with, whatever its program ends with.

use crate::judge::commands::{Command, CommandLine, Gap, IDLE, Launch, base_name};
use crate::judge::finding::Part as FindingPart;
use crate::judge::training::quoted;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::After;

/// The codes that only a program of its own ends with. torchrun ends with 1, or with 2 where it does not know an option
/// (docs/internals/training.md#launcher-options); so do a shell and the small programs at the end of a script. From 126 on they
/// are those of a program that cannot be started, or that a signal ends.
const OWN: std::ops::RangeInclusive<i64> = 3..=125;

/// Why the code of a container's program is not that of the container.
#[derive(Debug)]
pub(super) struct HiddenCode {
    /// Where the command is that decides.
    pub(super) place: Pointer,
    /// Which part of it.
    pub(super) part: FindingPart,
    /// The reason, to follow "since".
    pub(super) why: String,
}

/// Commands before the last one whose failure has a code of their own, which is none of [`OWN`].
const KNOWN: [&str; 8] = ["cd", "export", "mkdir", "pwd", "set", "ulimit", "umask", "unset"];

/// Commands after which a script may end, or goes on in another file.
const LEAVES: [&str; 8] = [".", "eval", "exec", "exit", "kill", "return", "source", "trap"];

/// Tells whether a code is one that only a program of its own ends with.
pub(super) fn is_own(code: i64) -> bool {
    OWN.contains(&code)
}

/// Returns why a container ends with no code that only its program has; nothing where that is not certain.
pub(super) fn hidden_code(line: &CommandLine<'_>) -> Option<HiddenCode> {
    if line.is_of_image() || line.unread || line.left_out || line.beyond().is_some() {
        return None;
    }
    let (last, why) = match line.shells.first() {
        None => {
            let [only] = &*line.commands else { return None };
            (only, of_launcher(only)?)
        }
        Some(shell) if shell.first && line.shells.len() == 1 => {
            let last = line.commands.get(shell.last?)?;
            let text = line.argv.get(shell.item).map_or("", |item| &*item.text);
            (last, of_script(line, last, (text, shell.errexit)).filter(|_| !shell.pipefail)?)
        }
        Some(_) => return None,
    };
    let first = last.words.first()?;
    Some(HiddenCode { place: line.place(first), part: line.part(first), why })
}

/// Returns why a launcher hides the codes of what it starts.
fn of_launcher(command: &Command) -> Option<String> {
    // `timeout` has a code of its own.
    let is_plain = !command.remote && !command.timeout;
    let launch = Launch::from_command(command).filter(|launch| launch.launcher.is_torch() && is_plain)?;
    let name = base_name(launch.command.words.first()?.known()?);
    let name = if name.starts_with("python") { "torchrun" } else { name };
    Some(format!("`{name}` ends with 1 whatever its workers end with"))
}

/// Returns why the end of a script hides the codes of the commands before it.
fn of_script(line: &CommandLine<'_>, last: &Command, (text, errexit): (&str, bool)) -> Option<String> {
    meter::spend_text(text);
    // A subshell, a function or a test may end it, too.
    if text.contains("pipefail") || ["$(", "`", "[[", "(("].iter().any(|part| text.contains(part)) {
        return None;
    }
    let own = || line.commands.iter().filter(|command| command.shell == Some(0));
    let others = || own().filter(|command| !std::ptr::eq(*command, last));
    let leaves = |command: &Command| {
        let is_left =
            LEAVES.contains(&command.program.as_str()) || command.program.is_empty() || command.exec;
        is_left
            || command.place.in_function
            || command.place.in_subshell && command.before != Some(After::Pipe)
    };
    let is_last = matches!(last.after, After::End | After::Next)
        && last.place.depth == 0
        && !last.place.condition
        && !last.place.in_function
        && last.gap == Gap::None;
    if !is_last || others().any(leaves) {
        return None;
    }
    let is_known = |command: &Command| {
        let program = command.program.as_str();
        KNOWN.contains(&program) || IDLE.contains(&program)
    };
    let others_are_known = || others().all(is_known);
    if let Some(why) = of_launcher(last) {
        let is_alone = matches!(last.before, None | Some(After::Next | After::Background));
        let is_chained = last.before == Some(After::And);
        return (is_alone && !errexit || (is_alone || is_chained) && others_are_known()).then_some(why);
    }
    let name = last.program.as_str();
    match last.before {
        Some(After::Pipe) if name == "tee" && !errexit => {
            Some(format!("a pipeline ends with the status of its last command, {}", quoted(&last.words)))
        }
        Some(After::Next) if IDLE.contains(&name) && !errexit && !last.place.branch => {
            Some(format!("a script ends with the status of its last command, {}", quoted(&last.words)))
        }
        Some(After::Or) if matches!(name, "true" | ":" | "echo") && !errexit => {
            Some(format!("after a failure it ends with the status of {}", quoted(&last.words)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::commands::PodCommands;
    use crate::kinds::Workload;
    use crate::text::value::{Value, json};
    use std::rc::Rc;

    fn hidden(command: &Value) -> Option<String> {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "spec": {"template": {"spec": {"containers": [{"command": command}]}}}});
        let workload = Workload::from_object(&job).expect("a Job");
        let commands = PodCommands::new(&workload, &workload.pods[0], &Rc::default());
        hidden_code(&commands.containers[0]).map(|hidden| hidden.why)
    }

    #[test]
    fn a_code_is_hidden_by_a_launcher_and_by_the_end_of_a_script() {
        for command in [
            json!(["torchrun", "train.py"]),
            json!(["python", "-m", "torch.distributed.run", "train.py"]),
            json!(["/opt/venv/bin/torchrun", "--nnodes=2", "train.py"]),
        ] {
            assert!(hidden(&command).is_some(), "{command}");
        }
        for script in [
            "torchrun train.py",
            "exec torchrun train.py",
            "pip install x; torchrun train.py",
            "cd /src && torchrun train.py",
            "cd /src && exec torchrun --nproc-per-node=8 train.py",
            "set -e\ncd /src\ntorchrun train.py",
            "python train.py; echo done",
            "python train.py\ndate",
            "python train.py || true",
            "python train.py || echo failed",
            "python train.py | tee log",
            "python train.py 2>&1 | tee log",
        ] {
            assert!(hidden(&json!(["bash", "-c", script])).is_some(), "{script}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_code_that_may_get_through() {
        for command in [
            json!(["python", "train.py"]),
            json!(["mpirun", "-np", "2", "train"]),
            json!(["accelerate", "launch", "train.py"]),
            json!(["./run.sh", "torchrun"]),
            json!(["mpirun", "torchrun", "train.py"]),
        ] {
            assert_eq!(hidden(&command), None, "{command}");
        }
        for script in [
            "python train.py",
            "torchrun train.py; exit $?",
            "timeout 1h torchrun train.py",
            "torchrun train.py || exit 42",
            "torchrun train.py; rc=$?; exit $rc",
            "set -e; python prepare.py; torchrun train.py",
            "python prepare.py && torchrun train.py",
            "set -e; python train.py; echo done",
            "python train.py && echo done",
            "set -o pipefail; python train.py | tee log",
            "python train.py; if [ -f bad ]; then exit 42; fi; echo done",
            "trap 'exit 42' EXIT; torchrun train.py",
            "source env.sh; torchrun train.py",
            "if true; then torchrun train.py; fi",
            "f() { exit 42; }; python train.py || f; echo done",
            "torchrun train.py & wait $!",
            "[ -f bad ] && exit 42; torchrun train.py",
            "python train.py; echo $(cat code)",
            "bash -c 'exit 42'; bash -c 'torchrun train.py'",
        ] {
            assert_eq!(hidden(&json!(["bash", "-c", script])), None, "{script}");
        }
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "spec": {"template": {"spec": {"containers": [{"args": ["torchrun", "train.py"]}]}}}});
        let workload = Workload::from_object(&job).expect("a Job");
        let commands = PodCommands::new(&workload, &workload.pods[0], &Rc::default());
        assert!(hidden_code(&commands.containers[0]).is_none(), "the image decides what runs");
    }
}
