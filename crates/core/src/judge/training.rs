//! Helpers for rules about a job's commands: which of them trains, and how to quote it.

use std::rc::Rc;

use crate::judge::commands::{Command, CommandLine, Launch, Launcher, Token, base_name, is_python};
use crate::kinds::{Container, ContainerSlot, Part, accelerator};
use crate::text::lines::cut;
use crate::text::pointer::Pointer;
use crate::text::shell::{SPREADS, UNKNOWN};
use crate::text::value::Value;

/// Modules of Python that train nothing.
const TOOLS: [&str; 9] =
    ["compileall", "ensurepip", "http.server", "json.tool", "pip", "pytest", "venv", "virtualenv", "zipfile"];

/// The longest quotation of a manifest in a message, in bytes.
const MAX_QUOTED_BYTES: usize = 80;

/// Tells whether a command runs the job's workload: a launcher, or Python with a script or module.
pub(super) fn is_trainer(command: &Command) -> bool {
    is_python_program(&command.program, &command.words) || Launch::from_command(command).is_some()
}

/// Tells whether words, the program first, start Python with a script or a module that is no tool.
fn is_python_program(program: &str, words: &[Token]) -> bool {
    if !is_python(program) {
        return false;
    }
    let mut at = 1;
    while let Some(word) = words.get(at).and_then(Token::known) {
        match word {
            "-m" => {
                let module = words.get(at + 1).and_then(Token::known);
                return module.is_some_and(|module| !TOOLS.contains(&module));
            }
            "-W" | "-X" => at += 2,
            "-c" | "-" => return false,
            option if option.starts_with('-') => at += 1,
            script => return !script.ends_with("setup.py"),
        }
    }
    words.get(at).is_some_and(|word| word.word.text.ends_with(".py"))
}

/// Tells whether a command starts a Python program, directly or by a launcher: not a benchmark that `mpirun`
/// starts, whose options mean something else.
pub(super) fn is_python_trainer(command: &Command) -> bool {
    if is_python_program(&command.program, &command.words) {
        return true;
    }
    // HyperPod's launcher is not one for other rules: its operator counts nodes and processes.
    if command.program == "hyperpodrun" {
        return command.words.iter().any(|word| word.word.text.ends_with(".py"));
    }
    let Some(launch) = Launch::from_command(command) else { return false };
    match launch.launcher {
        Launcher::Mpi | Launcher::Ray => {
            let name = base_name(launch.started.first().and_then(Token::known).unwrap_or_default());
            is_python_program(name, launch.started) || name.ends_with(".py")
        }
        _ => true,
    }
}

/// Tells whether a container starts processes on other pods: those wait for it, and never end by themselves.
pub(super) fn drives_others(line: &CommandLine<'_>) -> bool {
    const REMOTE: [&str; 7] = ["deepspeed", "mpirun", "mpiexec", "horovodrun", "pdsh", "ssh", "sshd"];
    line.commands.iter().any(|command| REMOTE.contains(&command.program.as_str()))
}

/// Kinds that are not batch work, and the path of their pod spec.
const SERVICES: [(&str, &str, &[&str]); 6] = [
    ("v1", "Pod", &["spec"]),
    ("v1", "ReplicationController", &["spec", "template", "spec"]),
    ("apps/v1", "DaemonSet", &["spec", "template", "spec"]),
    ("apps/v1", "Deployment", &["spec", "template", "spec"]),
    ("apps/v1", "ReplicaSet", &["spec", "template", "spec"]),
    ("apps/v1", "StatefulSet", &["spec", "template", "spec"]),
];

/// Tells whether an object that is not batch work trains nevertheless: a Pod, StatefulSet, Deployment or the
/// like with a container that requests accelerators and starts `torchrun`.
#[must_use]
pub fn is_trained_by(version: &str, object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some((.., at)) = SERVICES.iter().find(|(known, name, _)| (*known, *name) == (version, kind)) else {
        return false;
    };
    let containers = Part { pointer: Pointer::root(), value: Some(object) }.at(at).get("containers");
    containers.mappings().any(|part| {
        part.value.is_some_and(accelerator::is_requested_by) && {
            let container = Container { slot: ContainerSlot::Main, part };
            let line = CommandLine::new(container, None, &Rc::default());
            line.launches().any(|launch| launch.launcher.is_torch())
        }
    })
}

/// Returns the words of a command for a message, in backticks.
pub(super) fn quoted(words: &[Token]) -> String {
    let mut text = String::new();
    for token in words {
        if !text.is_empty() {
            text.push(' ');
        }
        text += &token.word.text;
        if text.len() > MAX_QUOTED_BYTES {
            break;
        }
    }
    quote(&text)
}

/// Returns a text of the manifest for a message, in backticks: one line of it, and not more than fits.
pub(super) fn quote(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let readable = cut(line, MAX_QUOTED_BYTES, "…").replace([UNKNOWN, SPREADS], "…").replace('`', "'");
    let mark = if line.len() < text.trim_end().len() { "…" } else { "" };
    format!("`{readable}{mark}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::commands::PodCommands;
    use crate::kinds::Workload;
    use crate::text::value::json;

    fn commands<T>(script: &str, read: impl FnOnce(&Command) -> T) -> T {
        let containers = json!([{"command": ["bash", "-c", script]}]);
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "spec": {"template": {"spec": {"containers": containers}}},
        });
        let workload = Workload::from_object(&job).expect("a Job");
        let commands = PodCommands::new(&workload, &workload.pods[0], &Rc::default());
        read(commands.containers[0].commands.last().expect("a command"))
    }

    #[test]
    fn what_trains_in_a_kind_of_services_is_found() {
        let of = |version: &str, kind: &str, command: &str, resource: &str| {
            let containers = json!([{"name": "sidecar"}, {
                "command": ["sh", "-c", command], "resources": {"limits": {resource: 8}},
            }]);
            let pod = json!({"containers": containers});
            let spec = if kind == "Pod" { pod } else { json!({"template": {"spec": pod}}) };
            is_trained_by(version, &json!({"apiVersion": version, "kind": kind, "spec": spec}))
        };
        const GPU: &str = "nvidia.com/gpu";
        assert!(of("v1", "Pod", "cd /src && torchrun --nnodes=2 train.py", GPU));
        assert!(of("apps/v1", "StatefulSet", "exec torchrun train.py", GPU));
        assert!(of("apps/v1", "Deployment", "python -m torch.distributed.run train.py", "amd.com/gpu"));
        assert!(!of("apps/v1", "Deployment", "vllm serve model", GPU), "a service");
        assert!(!of("apps/v1", "StatefulSet", "torchrun train.py", "cpu"), "no accelerators");
        assert!(!of("apps/v2", "StatefulSet", "torchrun train.py", GPU), "another kind");
    }

    #[test]
    fn trainers_are_launchers_and_python_programs() {
        for script in [
            "torchrun train.py",
            "python train.py",
            "python3 -u -W ignore main.py --x",
            "python -m maxtext.train",
            "python $DIR/train.py",
            "mpirun -np 2 bench",
            "exec python train.py",
        ] {
            assert!(commands(script, is_trainer), "{script}");
        }
        for script in [
            "python -m venv x",
            "python3 -m pip install y",
            "python -c 'x'",
            "python",
            "python $ARGS",
            "python setup.py install",
            "pip install x",
            "echo python train.py",
            "accelerate config default",
        ] {
            assert!(!commands(script, is_trainer), "{script}");
        }
        assert!(commands("mpirun -np 2 python train.py", is_python_trainer));
        assert!(commands("mpirun -np 2 /src/train.py", is_python_trainer));
        assert!(!commands("mpirun -np 2 /opt/all_reduce_perf -n 1", is_python_trainer));
    }

    #[test]
    fn quotations_are_one_short_line() {
        assert_eq!(quote("a `b`\nc"), "`a 'b'…`");
        assert_eq!(quote("a"), "`a`");
        assert_eq!(commands("train $X", |command| quoted(&command.words)), "`train …`");
        assert!(quote(&"é".repeat(1000)).len() < 100);
    }
}
