//! What SIGTERM does to a container: whether it ends with 0, so that a pod that is deleted counts as succeeded.
//!
//! Read from the script of the container's first process. A shell runs its `trap` when it gets the signal while
//! it waits (`program & wait`); behind a program in the foreground it runs it only when that has ended. What a
//! program other than a shell does is unknown, and so is all that depends on it.

mod action;

use memchr::memmem;

use crate::judge::commands::{Command, CommandLine, IDLE, SHELLS, Shell, Token, base_name, is_python};
use crate::kinds::PodTemplate;
use crate::text::meter;
use crate::text::shell::{After, Place};
use crate::text::value::Value;
pub(crate) use action::is_exit;
use action::{Around, TrapAction, only_waits};

/// What SIGTERM does to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTerm<'c> {
    /// It ends with 0, because of this word of its script: the action of a `trap`, or a command behind `wait`.
    Zero(&'c Token),
    /// It ends with another status, or is killed.
    Other,
    /// The effect is unknown.
    Unknown,
}

/// Programs that start another one, pass signals on and end with its status.
const INITS: [&str; 3] = ["catatonit", "dumb-init", "tini"];

/// Commands that end with 0.
const SUCCEED: [&str; 6] = [":", "date", "echo", "printf", "sync", "true"];

/// Programs, besides those of [`IDLE`], after which a shell gets to its `wait` at once.
const QUICK: [&str; 28] = [
    "", "[", "cat", "cd", "chmod", "cp", "declare", "disown", "export", "hostname", "jobs", "kill", "ln",
    "local", "ls", "mkdir", "mv", "ps", "pwd", "readonly", "renice", "rm", "set", "shopt", "test", "ulimit",
    "umask", "unset",
];

/// Programs, besides Python and shells, that run the container's workload.
const TRAINING: [&str; 10] = [
    "accelerate",
    "deepspeed",
    "horovodrun",
    "mpiexec",
    "mpirun",
    "orterun",
    "ray",
    "srun",
    "torchrun",
    "tune",
];

/// Returns what SIGTERM does to a container.
pub(crate) fn on_term<'c>(line: &'c CommandLine<'_>) -> OnTerm<'c> {
    let Some(shell) = line.shells.first() else { return OnTerm::Unknown };
    let begins = line.argv.first().map_or("", |first| base_name(&first.text));
    if !shell.first && !INITS.contains(&begins) || line.unread || line.left_out || kills_before(line) {
        return OnTerm::Unknown;
    }
    let nth = first_process(line);
    let shell = &line.shells[nth];
    // A nested script is in quotes, so its functions are not read.
    let script = line.argv.get(shell.item).filter(|_| nth == 0).map(|item| &*item.text);
    let around = Around::new(script, shell.name == "bash", shell.errexit);
    let Some(waiting) = WaitingShell::new(line, nth, &around) else { return OnTerm::Unknown };
    // Whatever the shell ends with, this comes last.
    let at_exit = waiting.at_exit.map_or(TrapAction::GoesOn, |action| around.does(action));
    if !matches!(at_exit, TrapAction::GoesOn | TrapAction::Ignored | TrapAction::Exit(true)) {
        return OnTerm::Unknown;
    }
    let (at, wait) = waiting.at;
    match around.does(waiting.action) {
        TrapAction::Exit(true) => OnTerm::Zero(waiting.action),
        TrapAction::Exit(false) | TrapAction::Ignored if waiting.at_exit.is_none() => OnTerm::Other,
        TrapAction::GoesOn if is_plain(wait) && waiting.at_exit.is_none() => {
            after_wait(line, nth, (at, wait))
        }
        _ => OnTerm::Unknown,
    }
}

/// A shell that waits for a program in the background.
struct WaitingShell<'c> {
    /// What it does on SIGTERM.
    action: &'c Token,
    /// What it does when it ends.
    at_exit: Option<&'c Token>,
    /// The command that waits.
    at: (usize, &'c Command),
}

impl<'c> WaitingShell<'c> {
    /// Finds where a script waits. Nothing if it does not, or if it may be doing something else.
    fn new(line: &'c CommandLine<'_>, nth: usize, around: &Around<'_>) -> Option<Self> {
        let shell = &line.shells[nth];
        // dash ends at syntax that it does not know.
        let is_dash = shell.name == "dash";
        if is_dash && (shell.pipefail || around.script.is_some_and(|script| script.contains("function "))) {
            return None;
        }
        let in_background = in_background(line, nth);
        let (mut handler, mut at_exit): (Option<&Token>, Option<&Token>) = (None, None);
        let mut waits: Option<(usize, &Command)> = None;
        let mut has_waiting_function = false;
        let sleeps_from = sleeping_loop(line, nth);
        let sleeps_on =
            |at: usize, program: &str| program == "sleep" && sleeps_from.is_some_and(|from| from <= at);
        for (at, command) in own(line, nth) {
            meter::spend(1);
            let (place, program) = (&command.place, command.program.as_str());
            if waits.is_some() {
                if is_training(command) && !place.in_function && !in_background[at] {
                    return None;
                }
                continue;
            }
            if program == "trap" {
                let set = set_by(command, shell);
                // In a function or a subshell, it may be another shell's.
                let may = is_plain(command) && !place.in_function && !place.in_subshell;
                for (set, of) in [(set.term, &mut handler), (set.exit, &mut at_exit)] {
                    match set {
                        TrapSetting::Nothing => {}
                        _ if !may => return None,
                        TrapSetting::Reset => *of = None,
                        TrapSetting::To(action) => *of = Some(action),
                        TrapSetting::Unknown => return None,
                    }
                }
                continue;
            }
            if command.exec {
                return None;
            }
            has_waiting_function |= place.in_function && program == "wait";
            if place.in_function || in_background[at] || handler.is_none() {
                continue;
            }
            let is_piped = command.after == After::Pipe || place.in_subshell;
            if !place.started {
                if is_training(command) || program == "exit" && is_plain(command) {
                    return None;
                }
            } else if program == "wait" {
                let has_option = command.words.get(1).is_some_and(|word| word.word.text.starts_with('-'));
                if place.branch || is_piped || is_dash && has_option {
                    return None;
                }
                waits = Some((at, command));
            } else if program == "kill" && polls(&line.commands, at) || sleeps_on(at, program) {
                waits = Some((at, command));
            } else if !is_quick(command) {
                let is_call = has_waiting_function && is_plain(command);
                if !is_call || !around.body(program).is_some_and(only_waits) {
                    return None;
                }
                waits = Some((at, command));
            }
        }
        let waits = waits.filter(|(at, _)| !ends_behind(line, nth, *at, &in_background));
        Some(Self { action: handler?, at_exit, at: waits? })
    }
}

fn own<'c>(line: &'c CommandLine<'_>, nth: usize) -> impl DoubleEndedIterator<Item = (usize, &'c Command)> {
    line.commands.iter().enumerate().filter(move |(_, command)| command.shell == Some(nth))
}

/// Returns for each command whether the shell goes on beside it: it is in a list that `&` ends, or in a compound
/// command in one.
fn in_background(line: &CommandLine<'_>, nth: usize) -> Vec<bool> {
    let mut found = vec![false; line.commands.len()];
    // For each depth around the command: whether the compound command there goes on beside the shell.
    let mut around: Vec<bool> = vec![false];
    let mut next: Option<(usize, &Command)> = None;
    for (at, command) in own(line, nth).rev() {
        meter::spend(1);
        let goes_on = |after: Option<After>| match (after, next) {
            (Some(After::Background), _) => true,
            (Some(After::Pipe | After::And | After::Or), Some((next, _))) => found[next],
            _ => false,
        };
        let depth = command.place.depth;
        if let Some((_, behind)) = next.filter(|(_, next)| next.place.depth < depth) {
            let is_beside = goes_on(behind.place.behind) || around[behind.place.depth];
            around.truncate(behind.place.depth + 1);
            around.resize(depth + 1, is_beside);
        } else {
            around.resize(depth + 1, false);
        }
        found[at] = goes_on(Some(command.after)) || around[depth];
        next = Some((at, command));
    }
    found
}

/// Tells whether the compound command around what waits is a part of a pipeline, or goes on beside the shell.
fn ends_behind(line: &CommandLine<'_>, nth: usize, at: usize, in_background: &[bool]) -> bool {
    let depth = line.commands[at].place.depth;
    let mut behind = own(line, nth).filter(|(later, _)| *later > at);
    in_background[at]
        || behind.any(|(_, later)| later.place.depth < depth && later.place.behind == Some(After::Pipe))
}

/// Tells whether the shell gets past a command in a moment.
fn is_quick(command: &Command) -> bool {
    let program = command.program.as_str();
    let is_empty = program.is_empty() && !command.words.is_empty();
    match program {
        "sleep" => sleeps(command).is_some_and(|seconds| seconds <= MAX_PAUSE),
        "exit" => !is_plain(command),
        _ => !is_empty && (IDLE.contains(&program) || QUICK.contains(&program)),
    }
}

/// Tells whether a command may run the container's workload.
fn is_training(command: &Command) -> bool {
    let program = command.program.as_str();
    let installs = || {
        let word = |at: usize| command.words.get(at).and_then(Token::known);
        word(1) == Some("-m") && matches!(word(2), Some("pip" | "venv" | "ensurepip"))
            || word(1) == Some("-c")
    };
    is_python(program) && !installs()
        || TRAINING.contains(&program)
        || SHELLS.contains(&program)
        || program.ends_with(".sh")
}

/// The longest pause before a `wait` that counts as a moment, in seconds.
const MAX_PAUSE: f64 = 60.0;

/// Returns the seconds of a `sleep`.
fn sleeps(command: &Command) -> Option<f64> {
    match &command.words[..] {
        [_, time] => time.known()?.trim_end_matches('s').parse().ok(),
        _ => None,
    }
}

/// Returns the first command of `while true; do sleep 1; done` at the end of a script: a loop that only sleeps, and
/// not long.
fn sleeping_loop(line: &CommandLine<'_>, nth: usize) -> Option<usize> {
    let head = line.shells[nth].last_loop.filter(|end| end.endless && !end.leaves)?.head?;
    let is_short = |command: &Command| {
        command.program != "sleep"
            || sleeps(command).is_some_and(|seconds| (0.0..=MAX_SLEEP).contains(&seconds))
    };
    let is_idle = |command: &Command| {
        IDLE.contains(&command.program.as_str()) && is_short(command) && command.after != After::Background
    };
    own(line, nth).filter(|(at, _)| *at >= head).all(|(_, command)| is_idle(command)).then_some(head)
}

/// Returns the shell that gets the signal, by its index: bash that does nothing but start another shell is
/// replaced by it.
fn first_process(line: &CommandLine<'_>) -> usize {
    let Some(outer) = line.shells.first().filter(|_| line.shells.len() > 1) else { return 0 };
    meter::spend(line.commands.len() as u64);
    let mut own = line.commands.iter().filter(|command| command.shell == Some(0));
    let (Some(only), None) = (own.next(), own.next()) else { return 0 };
    // Nothing is before it, such as `!` or `time`, for which the outer shell stays.
    let script = line.argv.get(outer.item).map_or("", |item| &*item.text).trim_start();
    let raw = script.strip_prefix("exec ").unwrap_or(script).trim_start();
    let is_first =
        raw.split([' ', '\t']).next().is_some_and(|first| base_name(first) == only.program.as_str());
    // `bash start.sh bash -c …`
    let is_other = line.commands.iter().any(|command| command.shell == Some(1) && command.remote);
    let is_replaced = (outer.name == "bash" || only.exec)
        && !is_other
        && is_first
        && SHELLS.contains(&only.program.as_str())
        && only.place == Place::default()
        && matches!(only.after, After::End | After::Next);
    usize::from(is_replaced)
}

/// The longest `sleep` between two checks of a program, in seconds: the shell runs its `trap` after it.
const MAX_SLEEP: f64 = 5.0;

/// Tells whether a `kill` is that of `while kill -0 $!; do sleep 1; done`, with which a script waits for a program
/// in the background.
fn polls(commands: &[Command], at: usize) -> bool {
    let kill = &commands[at];
    let Some(sleep) = commands.get(at + 1).filter(|sleep| sleep.shell == kill.shell) else { return false };
    let seconds = sleeps(sleep);
    let is_condition = |place: &Place| place.condition && place.depth == 1 && !place.branch;
    let is_body = |place: &Place| place.in_loop.is_some() && place.depth == 1 && !place.branch;
    let is_poll = kill.words.get(1).and_then(Token::known) == Some("-0")
        && is_condition(&kill.place)
        && matches!(kill.after, After::End | After::Next)
        && sleep.program == "sleep"
        && is_body(&sleep.place)
        && matches!(sleep.after, After::End | After::Next)
        && seconds.is_some_and(|seconds| (0.0..=MAX_SLEEP).contains(&seconds));
    let is_idle = |command: &Command| {
        let program = command.program.as_str();
        is_plain(command) && (program == "exit" || program != "sleep" && IDLE.contains(&program))
    };
    is_poll && commands[at + 2..].iter().all(|one| one.shell != kill.shell || is_idle(one))
}

/// Tells whether some container of a pod may handle SIGTERM in a script: without the word `trap`, nothing is read,
/// since a script may be as long as the object.
pub(crate) fn may_be_handled(pod: &PodTemplate<'_>) -> bool {
    let has_trap = |value: &Value| {
        value.as_str().is_some_and(|text| {
            meter::spend_text(text);
            memmem::find(text.as_bytes(), b"trap").is_some()
        })
    };
    pod.container_values().any(|(_, container)| {
        let items = |list| container.get(list).and_then(Value::as_array).into_iter().flatten();
        // `$(X)` may bring it in.
        items("command").chain(items("args")).any(has_trap)
            || items("env").filter_map(|item| item.get("value")).any(has_trap)
    })
}

/// Returns the container that ends with 0 on SIGTERM, and the word that causes it, if its pod then counts as
/// succeeded: if no other container is known to end with another status.
pub(crate) fn ends_with_zero<'c, 'a>(
    lines: &'c [CommandLine<'a>],
) -> Option<(&'c CommandLine<'a>, &'c Token)> {
    let mut found = None;
    for line in lines {
        match on_term(line) {
            OnTerm::Zero(token) => found = found.or(Some((line, token))),
            OnTerm::Other => return None,
            OnTerm::Unknown => {}
        }
    }
    found
}

/// Tells whether a hook sends a signal before SIGTERM comes.
fn kills_before(line: &CommandLine<'_>) -> bool {
    let hook = line.container.part.at(&["lifecycle", "preStop", "exec", "command"]);
    hook.values().iter().filter_map(Value::as_str).any(|text| {
        meter::spend_text(text);
        text.contains("kill")
    })
}

/// Tells whether a command runs once, in the script's own shell.
fn is_plain(command: &Command) -> bool {
    let place = &command.place;
    let is_piped = command.after == After::Pipe || command.before == Some(After::Pipe);
    place.depth == 0 && !place.branch && !place.condition && !is_piped && command.after != After::Background
}

/// What a `trap` sets for a signal.
#[derive(Clone, Copy)]
enum TrapSetting<'c> {
    Nothing,
    Reset,
    To(&'c Token),
    Unknown,
}

/// What a `trap` sets for SIGTERM, and for the end of the shell.
struct Sets<'c> {
    term: TrapSetting<'c>,
    exit: TrapSetting<'c>,
}

fn set_by<'c>(command: &'c Command, shell: &Shell) -> Sets<'c> {
    let nothing = Sets { term: TrapSetting::Nothing, exit: TrapSetting::Nothing };
    let words = command.words.get(1..).unwrap_or_default();
    let words = match words.first().and_then(Token::known) {
        Some("--") => &words[1..],
        Some(option) if option.len() > 1 && option.starts_with('-') => return nothing,
        _ => words,
    };
    let Some((action, signals)) = words.split_first() else { return nothing };
    let is_term = |word: &str| {
        let name = word.to_ascii_uppercase();
        matches!(name.as_str(), "15" | "TERM" | "SIGTERM")
    };
    // `trap TERM` brings the default back.
    if signals.is_empty() {
        let of = |is: bool| if is { TrapSetting::Reset } else { TrapSetting::Nothing };
        let name = action.known().unwrap_or_default();
        return Sets { term: of(is_term(name)), exit: of(is_exit(name)) };
    }
    // dash, which is the `sh` of many images, has no `SIGTERM`, and sets nothing.
    let may_refuse = matches!(shell.name, "dash" | "sh" if !shell.pipefail)
        && signals.iter().filter_map(Token::known).any(|name| name.to_ascii_uppercase().starts_with("SIG"));
    let set = |is: &dyn Fn(&str) -> bool| {
        let names = || signals.iter().map(|signal| signal.known().map(is));
        match names().any(|is| is == Some(true)) {
            true if may_refuse => TrapSetting::Unknown,
            true if action.known() == Some("-") => TrapSetting::Reset,
            true => TrapSetting::To(action),
            false if names().all(|is| is.is_some()) => TrapSetting::Nothing,
            false => TrapSetting::Unknown,
        }
    };
    Sets { term: set(&is_term), exit: set(&is_exit) }
}

/// Returns how a script ends after a signal has ended its `wait`, with 143.
fn after_wait<'c>(line: &'c CommandLine<'_>, nth: usize, (at, wait): (usize, &Command)) -> OnTerm<'c> {
    let shell = &line.shells[nth];
    if shell.last == Some(at) {
        return OnTerm::Other;
    }
    // With `&&`, the rest depends on the status.
    match wait.after {
        After::And => return OnTerm::Unknown,
        After::Or => {}
        _ if shell.errexit => return OnTerm::Other,
        _ => {}
    }
    let Some(last) = shell.last.and_then(|last| line.commands.get(last)) else { return OnTerm::Unknown };
    let mut behind = own(line, nth).filter(|(later, _)| *later > at);
    // `wait || echo interrupted`
    let is_next = wait.after == After::Or
        && own(line, nth).find(|(later, _)| *later > at).is_some_and(|(_, next)| std::ptr::eq(next, last));
    let is_joined = last.before == Some(After::And)
        || matches!(last.place.behind, Some(After::And | After::Or | After::Pipe));
    // Another end may come first.
    let ends = behind.any(|(_, command)| {
        let is_end = ["exit", "exec", "return"].contains(&command.program.as_str()) || command.exec;
        is_end && !std::ptr::eq(command, last)
    });
    // A status that is computed is unknown: the trap may assign the variable.
    let is_written = |at: usize| last.words.get(at).is_some_and(|word| word.word.plain);
    if is_joined || ends || !(is_plain(last) || is_next) || !is_written(0) {
        return OnTerm::Unknown;
    }
    let program = last.program.as_str();
    let status = last.words.get(1).filter(|_| is_written(1)).and_then(Token::known).map(str::parse::<i64>);
    match (program, status, last.words.first()) {
        ("exit", Some(Ok(status)), Some(word)) if status & 0xff == 0 => OnTerm::Zero(word),
        ("exit", Some(Ok(_)), _) => OnTerm::Other,
        ("exit", _, _) => OnTerm::Unknown,
        (_, _, Some(word)) if SUCCEED.contains(&program) => OnTerm::Zero(word),
        _ => OnTerm::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    use crate::judge::commands::{PodCommands, Room};
    use crate::kinds::Workload;
    use crate::text::value::json;

    #[test]
    fn a_script_without_a_trap_is_not_read() {
        let handles = |container: Value| {
            let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
                "spec": {"template": {"spec": {"containers": [null, 1, container]}}}});
            may_be_handled(&Workload::from_object(&object).expect("a Job").pods[0])
        };
        for container in [
            json!({"command": ["sh", "-c", "python train.py & wait"], "env": [{"name": "trap", "value": "x"}]}),
            json!({"command": "trap", "args": [null, 1, {}], "env": [null, {"value": 1}]}),
        ] {
            assert!(!handles(container.clone()), "{container}");
        }
        for container in [
            json!({"command": ["sh", "-c", "trap 'exit 0' TERM; python train.py & wait"]}),
            json!({"args": ["$(S)"], "env": [{"name": "S", "value": "trap 'exit 0' TERM; x & wait"}]}),
        ] {
            assert!(handles(container.clone()), "{container}");
        }
    }

    fn of(container: Value) -> String {
        let mut whole = json!({"name": "c", "image": "i:1"});
        for (key, value) in container.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [whole]}}}});
        let workload = Workload::from_object(&object).expect("a Job");
        let commands = PodCommands::new(&workload, &workload.pods[0], &Rc::new(Room::default()));
        match on_term(&commands.containers[0]) {
            OnTerm::Zero(token) => format!("0: {}", token.word.text),
            OnTerm::Other => "other".to_owned(),
            OnTerm::Unknown => "unknown".to_owned(),
        }
    }

    /// Scripts of bash, and what is said of them.
    const SCRIPTS: &[(&str, &str)] = &[
        ("trap 'save; exit 0' TERM; python train.py & wait", "0: save; exit 0"),
        ("trap 'exit 0' SIGINT SIGTERM\npython train.py &\nwait $!", "0: exit 0"),
        ("trap -- \"kill $PID; exit 0\" 15; python train.py & PID=$!; wait $PID", "0: kill \u{E000}; exit 0"),
        ("end() {\n  save\n  exit 0\n}\ntrap end TERM\npython train.py &\nwait", "0: end"),
        ("function end { exit 0; }; trap end TERM; python train.py & wait", "0: end"),
        ("trap 'kill %1' TERM; python train.py & wait; echo done", "0: echo"),
        ("trap 'kill %1' TERM; python train.py & wait; exit 0", "0: exit"),
        ("trap 'exit 0' TERM; python train.py & while kill -0 $!; do sleep 1; done", "0: exit 0"),
        (
            "trap 'exit 0' TERM; python train.py & PID=$!\n\
                 while kill -0 $PID 2>/dev/null; do sleep 5s; done; echo end",
            "0: exit 0",
        ),
        ("trap 'true; exit $?' TERM; python train.py & wait", "0: true; exit $?"),
        ("trap 'kill %1; echo end && exit \"$?\"' TERM; x & wait", "0: kill %1; echo end && exit \"$?\""),
        ("trap 'true; exit' TERM; python train.py & wait", "0: true; exit"),
        // Another status.
        ("trap 'save; exit 143' TERM; python train.py & wait", "other"),
        ("trap 'kill %1' TERM; python train.py & wait", "other"),
        ("set -e; trap 'kill %1' TERM; python train.py & wait; echo done", "other"),
        ("trap '' TERM; python train.py & wait", "other"),
        // The shell does not wait, so the program is killed before the trap runs.
        ("trap 'exit 0' TERM; python train.py", "unknown"),
        ("trap 'exit 0' TERM; exec python train.py", "unknown"),
        ("trap 'exit 0' TERM; trap - TERM; python train.py & wait", "unknown"),
        ("trap 'exit 0' TERM; trap TERM; python train.py & wait", "unknown"),
        ("(trap 'exit 0' TERM; python train.py & wait)", "unknown"),
        ("trap 'exit $?' TERM; python train.py & wait", "unknown"),
        ("trap 'exit' TERM; python train.py & wait", "unknown"),
        ("trap '(exit 0)' TERM; python train.py & wait $!; finish", "unknown"),
        ("trap 'true; save; exit $?' TERM; python train.py & wait", "unknown"),
        ("trap '! true; exit $?' TERM; python train.py & wait", "unknown"),
        ("trap 'echo a > /a; exit $?' TERM; python train.py & wait", "unknown"),
        ("trap 'true; [[ -f a ]]; exit $?' TERM; python train.py & wait", "unknown"),
        ("trap \"true; exit $?\" TERM; python train.py & wait", "unknown"),
        ("trap 'echo ${X:?}; exit $?' TERM; python train.py & wait", "unknown"),
        ("trap 'true; exit $CODE' TERM; python train.py & wait", "unknown"),
        ("trap 'kill %1' TERM; python train.py & while kill -0 $!; do sleep 1; done", "unknown"),
        ("trap 'exit 0' TERM; x & while kill -0 $!; do sleep 60; done", "unknown"),
        ("trap 'exit 0' TERM; x & while kill -0 $!; do work; sleep 1; done", "unknown"),
        ("trap 'exit 0' TERM; x & while kill -0 $!; do sleep 1; work; done", "unknown"),
        ("trap 'exit 0' TERM; x & while kill -0 $!; do sleep 1; done; python train.py", "unknown"),
        ("trap 'exit 0' TERM; x & if kill -0 $!; then sleep 1; fi; python train.py", "unknown"),
        ("trap 'exit 0' TERM; while kill -0 $1; do sleep 1; done", "unknown"),
        ("while kill -0 $!; do sleep 1; done; trap 'exit 0' TERM; python train.py", "unknown"),
        ("trap 'test -f ok && trap - TERM; kill $$' TERM; python train.py & wait", "unknown"),
        ("trap 'exit 0' EXIT; python train.py & wait", "unknown"),
        ("trap 'exit 0' INT; python train.py & wait", "unknown"),
        ("trap 'kill %1' TERM; python train.py & wait; exit $?", "unknown"),
        ("trap 'kill %1' TERM; python train.py & wait && echo done", "unknown"),
        ("python train.py & wait", "unknown"),
        // The trap gives the variable another value.
        ("trap 'rc=143; kill $!' TERM; rc=0; python train.py & wait $!; exit $rc", "unknown"),
        ("rc=0; trap 'rc=1' TERM; python train.py & wait $! || true; exit \"$rc\"", "unknown"),
        ("rc=1; trap 'rc=0' TERM; python train.py & wait $!; exit $rc", "unknown"),
        ("trap 'echo got; rc=0; exit $rc' TERM; python train.py & wait", "0: echo got; rc=0; exit $rc"),
        ("save() { rc=3; }; trap 'rc=0; save; exit $rc' TERM; python train.py & wait", "unknown"),
        ("trap 'exit 256' TERM; python train.py & wait", "0: exit 256"),
        // What fails ends the shell, also in the trap.
        ("set -e; trap 'kill $!; wait $!; exit 0' TERM; python train.py & wait $!", "unknown"),
        ("trap 'kill $!; wait $!; exit 0' TERM; set -e; python train.py & wait $!", "unknown"),
        (
            "set -euo pipefail\nend() {\n  kill $!\n  wait $!\n  exit 0\n}\ntrap end TERM\npython train.py &\nwait $!",
            "unknown",
        ),
        ("set -e; trap 'false; exit 0' TERM; python train.py & wait", "unknown"),
        ("set -e; trap '[ -f none ]; exit 0' TERM; python train.py & wait", "unknown"),
        ("set -e; trap '[[ -f none ]]; exit 0' TERM; python train.py & wait", "unknown"),
        (
            "set -e; end() { wait $!; }; trap 'kill $!; end; exit 0' TERM; python train.py & wait $!",
            "unknown",
        ),
        (
            "set -e; trap 'kill $!; wait $! || true; exit 0' TERM; x & wait",
            "0: kill $!; wait $! || true; exit 0",
        ),
        ("set -e; trap 'kill $!; exit 0' TERM; python train.py & wait", "0: kill $!; exit 0"),
        ("set -e; trap 'kill $!; wait $!' TERM; python train.py & wait || true; echo done", "unknown"),
        ("set -e; trap 'kill $!' TERM; python train.py & wait || true; echo done", "0: echo"),
        ("trap 'kill $!; wait $!; exit 0' TERM; python train.py & wait", "0: kill $!; wait $!; exit 0"),
        // Only if something is so.
        ("trap '[ -f none ] && exit 0' TERM; python train.py & wait", "unknown"),
        ("trap '[[ -f none ]] && exit 0' TERM; python train.py & wait", "unknown"),
        ("trap 'wait $! && exit 0' TERM; python train.py & wait", "unknown"),
        ("trap '! true && exit 0' TERM; python train.py & wait", "unknown"),
        ("trap 'save && exit 0' TERM; python train.py & wait", "0: save && exit 0"),
        // A function ends the shell, or goes on.
        ("end() { exit 3; }; trap 'end; exit 0' TERM; python train.py & wait", "other"),
        ("end() { exit 0; }; trap 'end; exit 3' TERM; python train.py & wait", "0: end; exit 3"),
        ("end() { kill $!; }; trap 'end; exit 0' TERM; python train.py & wait", "0: end; exit 0"),
        ("end() { kill $!; echo end; }; trap 'end; exit $?' TERM; python train.py & wait", "0: end; exit $?"),
        ("end() { echo end; kill $!; }; trap 'end; exit $?' TERM; python train.py & wait", "unknown"),
        // Other signals, and the end of the shell.
        ("trap 'trap - TERM; save; exit 0' TERM; x & wait", "0: trap - TERM; save; exit 0"),
        ("trap 'trap - TERM; kill $BASHPID' TERM; python train.py & wait; echo done", "unknown"),
        ("trap 'kill -9 $BASHPID' TERM; python train.py & wait; echo done", "unknown"),
        ("trap 'kill 0; exit 0' TERM; python train.py & wait", "unknown"),
        ("trap 'exit 3' EXIT; trap 'exit 0' TERM; python train.py & wait", "unknown"),
        ("trap save EXIT; trap 'exit 0' TERM; python train.py & wait", "0: exit 0"),
        // The shell waits for a subshell, or for the end of a pipeline.
        ("trap 'exit 0' TERM; ( python train.py & wait )", "unknown"),
        ("trap 'exit 0' TERM; { python train.py & wait; } | cat", "unknown"),
        ("trap 'exit 0' TERM; { python train.py & wait; } & sleep 1000", "unknown"),
        ("trap 'exit 0' TERM; { python train.py & wait; }", "0: exit 0"),
        ("trap 'exit 0' TERM; (python train.py; echo done) & wait", "0: exit 0"),
        ("trap 'exit 0' TERM; python train.py | cat & wait", "0: exit 0"),
        ("trap 'exit 0' TERM; cd / && python train.py & wait", "0: exit 0"),
        // There is nothing to wait for, or a program before.
        ("trap 'exit 0' TERM; wait; python train.py", "unknown"),
        ("trap 'exit 0' TERM; sleep 1000 & python train.py; wait", "unknown"),
        ("trap 'exit 0' TERM; python train.py; sleep 1000 & wait", "unknown"),
        ("trap 'exit 0' TERM; sleep 1000 & sleep infinity; wait", "unknown"),
        ("trap 'exit 0' TERM; sleep 1 & wait $!; python train.py", "unknown"),
        ("trap 'exit 0' TERM; end() { wait; }; sleep 1000 & python train.py", "unknown"),
        // Other ways to wait.
        ("w() { wait $1; }; trap 'exit 0' TERM; python train.py & w $!", "0: exit 0"),
        ("w() { wait; }; trap 'kill $!' TERM; python train.py & w; echo done", "0: echo"),
        ("w() { wait; echo done; }; trap 'exit 0' TERM; python train.py & w", "unknown"),
        ("trap 'exit 0' TERM; python train.py & pid=$!; while true; do sleep 1; done", "0: exit 0"),
        ("trap 'exit 0' TERM; python train.py & while :; do date; sleep 2; done", "0: exit 0"),
        ("trap 'exit 0' TERM; python train.py & while true; do sleep 60; done", "unknown"),
        ("trap 'exit 0' TERM; python train.py & while true; do work; sleep 1; done", "unknown"),
        ("trap 'exit 0' TERM; python train.py & while true; do sleep 1; work; done", "unknown"),
        ("trap 'got=1' TERM; python train.py & wait $! || echo interrupted", "0: echo"),
        ("trap 'got=1' TERM; python train.py & wait $! || exit 3; echo done", "unknown"),
        ("trap 'got=1' TERM; python train.py & wait; [[ -z $got ]] && echo done", "unknown"),
    ];

    #[test]
    fn a_trap_that_exits_with_0_while_the_shell_waits_ends_the_container_with_0() {
        for (script, expected) in SCRIPTS {
            assert_eq!(of(json!({"command": ["bash", "-c", script]})), *expected, "{script}");
        }
    }

    /// Starts the scripts of which something is said, and sends SIGTERM as the kubelet does: to the shell alone.
    #[cfg(unix)]
    #[test]
    fn what_is_said_is_what_bash_does() {
        use std::os::unix::fs::PermissionsExt as _;
        use std::os::unix::process::ExitStatusExt as _;
        use std::process::{Command, Stdio};
        use std::time::{Duration, Instant};

        if Command::new("bash").arg("--version").output().is_err() {
            return;
        }
        let bin = tempfile::tempdir().unwrap();
        let runs = "#!/bin/sh\n: > \"$STARTED\"\nexec sleep 15\n";
        for (name, text) in [("python", runs), ("x", runs), ("save", "#!/bin/sh\nexit 0\n")] {
            let path = bin.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
        let said = |expected: &str| expected.starts_with("0: ") || expected == "other";
        // What is ignored ends with the grace period.
        let ends = |script: &str| !script.starts_with("trap ''");
        std::thread::scope(|scope| {
            for (nth, (script, expected)) in
                SCRIPTS.iter().enumerate().filter(|(_, (script, says))| said(says) && ends(script))
            {
                let (path, started) = (&path, bin.path().join(format!("started-{nth}")));
                scope.spawn(move || {
                    let mut shell = Command::new("bash")
                        .args(["-c", script])
                        .env("PATH", path)
                        .env("STARTED", &started)
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .spawn()
                        .unwrap();
                    let begun = Instant::now();
                    while !started.exists() && begun.elapsed() < Duration::from_secs(20) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    // It comes to its `wait`.
                    std::thread::sleep(Duration::from_secs(1));
                    let kill = Command::new("kill").arg(shell.id().to_string()).status().unwrap();
                    let status = shell.wait().unwrap();
                    let is_zero = status.code() == Some(0);
                    assert!(
                        kill.success() && begun.elapsed() < Duration::from_secs(12),
                        "{script}: {status}"
                    );
                    let is_other = status.code().is_some_and(|code| code > 0) || status.signal().is_some();
                    let is_so = if *expected == "other" { is_other } else { is_zero };
                    assert!(is_so, "{script}: {status}");
                });
            }
        });
    }

    #[test]
    fn what_dash_does_not_read_says_nothing() {
        for (script, bash, dash) in [
            ("trap 'exit 0' SIGTERM; python train.py & wait", "0: exit 0", "unknown"),
            ("function end { exit 0; }; trap end TERM; python train.py & wait", "0: end", "unknown"),
            ("trap 'exit 0' TERM; python train.py & wait -n", "0: exit 0", "unknown"),
            ("set -o pipefail; trap 'exit 0' TERM; python train.py & wait", "0: exit 0", "unknown"),
            ("trap 'exit 0' TERM; python train.py & wait", "0: exit 0", "0: exit 0"),
            ("trap 'exit 0' 15; python train.py & wait", "0: exit 0", "0: exit 0"),
        ] {
            assert_eq!(of(json!({"command": ["bash", "-c", script]})), bash, "{script}");
            assert_eq!(of(json!({"command": ["dash", "-c", script]})), dash, "{script}");
        }
        // `sh` is dash in many images, which sets no trap then.
        let trap = "trap 'exit 0' SIGTERM; python train.py & wait";
        assert_eq!(of(json!({"command": ["sh", "-c", trap]})), "unknown");
        let fails = format!("set -o pipefail; {trap}");
        assert_eq!(of(json!({"command": ["sh", "-c", fails]})), "0: exit 0", "no dash runs it at all");
    }

    #[test]
    fn only_the_first_process_and_what_starts_it_count() {
        let script = "trap 'exit 0' TERM; python train.py & wait";
        assert_eq!(of(json!({"command": ["tini", "--", "sh", "-c", script]})), "0: exit 0");
        assert_eq!(of(json!({"command": ["mpirun", "sh", "-c", script]})), "unknown");
        assert_eq!(of(json!({"command": ["python", "train.py"]})), "unknown");
        for (inner, expected) in [
            ("trap 'exit 0' TERM; python train.py & wait", "0: exit 0"),
            ("trap 'kill %1' TERM; python train.py & wait; echo end", "0: echo"),
            ("trap 'kill %1' TERM; python train.py & wait", "other"),
            ("end() { exit 143; }; trap end TERM; python train.py & wait; echo end", "unknown"),
        ] {
            let nested = format!("bash -c \"{inner}\"");
            assert_eq!(of(json!({"command": ["bash", "-c", nested]})), expected, "{nested}");
            assert_eq!(
                of(json!({"command": ["bash", "-c", format!("exec {nested}")]})),
                expected,
                "{nested}"
            );
            for other in [
                format!("{nested}; x"),
                format!("x; {nested}"),
                format!("({nested})"),
                format!("! {nested}"),
                format!("timeout 9 {nested}"),
                format!("bash start.sh {nested}"),
            ] {
                assert_eq!(of(json!({"command": ["bash", "-c", other]})), "unknown", "{other}");
            }
            assert_eq!(of(json!({"command": ["sh", "-c", nested]})), "unknown", "sh may wait for it");
        }
        let bare = "trap 'true; exit' TERM; python train.py & wait";
        assert_eq!(of(json!({"command": ["sh", "-c", bare]})), "unknown", "143 in dash");
        let status = "trap 'true; exit $?' TERM; python train.py & wait";
        assert_eq!(of(json!({"command": ["sh", "-c", status]})), "0: true; exit $?");
        let hook = json!({"preStop": {"exec": {"command": ["sh", "-c", "kill -INT 1; sleep 5"]}}});
        assert_eq!(of(json!({"command": ["sh", "-c", script], "lifecycle": hook})), "unknown");
        let hook = json!({"preStop": {"exec": {"command": ["sleep", "5"]}}});
        assert_eq!(of(json!({"command": ["sh", "-c", script], "lifecycle": hook})), "0: exit 0");
    }
}
