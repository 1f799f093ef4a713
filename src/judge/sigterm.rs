//! What SIGTERM does to a container: whether it ends with 0, so that a pod that is deleted counts as succeeded.
//!
//! Read from the script of the container's first process. A shell runs its `trap` when it gets the signal while
//! it waits (`program & wait`); behind a program in the foreground it runs it only when that has ended. What a
//! program other than a shell does is unknown.

use memchr::memmem;

use crate::judge::commands::{Command, CommandLine, IDLE, SHELLS, Token, base_name};
use crate::kinds::PodTemplate;
use crate::text::meter;
use crate::text::shell::{self, After, Place, SPREADS, Variables};
use crate::text::value::Value;

/// What SIGTERM does to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTerm<'c> {
    /// It ends with 0, because of this word of its script: the action of a `trap`, or a command behind `wait`.
    Zero(&'c Token),
    /// It ends with another status, or is killed.
    Other,
    /// Nothing says what it does.
    Unknown,
}

/// What a `trap` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The shell ends with this status.
    Exit(bool),
    /// The shell goes on.
    GoesOn,
    /// The signal is ignored.
    Ignored,
    Unknown,
}

/// Programs that start another one, pass signals on and end with its status.
const INITS: [&str; 3] = ["catatonit", "dumb-init", "tini"];

/// Commands that end with 0.
const SUCCEED: [&str; 6] = [":", "date", "echo", "printf", "sync", "true"];

/// Returns what SIGTERM does to a container.
pub(crate) fn on_term<'c>(line: &'c CommandLine<'_>) -> OnTerm<'c> {
    let Some(shell) = line.shells.first() else { return OnTerm::Unknown };
    let begins = line.argv.first().map_or("", |first| base_name(&first.text));
    if !shell.first && !INITS.contains(&begins) || line.unread || line.left_out || kills_before(line) {
        return OnTerm::Unknown;
    }
    let nth = first_process(line);
    let shell = &line.shells[nth];
    let own = || line.commands.iter().enumerate().filter(|(_, command)| command.shell == Some(nth));
    let mut handler: Option<&[Token]> = None;
    let mut waits = None;
    // Whether there is a program in the background to wait for.
    let mut has_started = false;
    for (at, command) in own() {
        meter::spend(1);
        match command.program.as_str() {
            "trap" if waits.is_none() => match set_by(command) {
                Set::Nothing => {}
                // In a function or a subshell, it may be another shell's.
                _ if !is_plain(command) => return OnTerm::Unknown,
                Set::Reset => handler = None,
                Set::To(words) => handler = Some(words),
                Set::Unknown => return OnTerm::Unknown,
            },
            "wait" if waits.is_none() && handler.is_some() => waits = Some((at, command)),
            "kill" if waits.is_none() && handler.is_some() && has_started && polls(&line.commands, at) => {
                waits = Some((at, command));
            }
            _ if command.exec && waits.is_none() => return OnTerm::Unknown,
            _ => {}
        }
        has_started |= command.after == After::Background;
    }
    let (Some(action), Some((at, wait))) = (handler, waits) else { return OnTerm::Unknown };
    // The text of a script in a script is in quotes: its functions are not read.
    let script = line.argv.get(shell.item).filter(|_| nth == 0).map(|item| &*item.text);
    match action.first().map(|action| does(action, script, shell.name == "bash")) {
        Some(Action::Exit(true)) => OnTerm::Zero(&action[0]),
        Some(Action::Exit(false) | Action::Ignored) => OnTerm::Other,
        Some(Action::GoesOn) if is_plain(wait) => after_wait(line, nth, (at, wait)),
        _ => OnTerm::Unknown,
    }
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

/// The longest `sleep` between two looks at a program, in seconds: the shell runs its `trap` behind it.
const MAX_SLEEP: f64 = 5.0;

/// Tells whether a `kill` is that of `while kill -0 $!; do sleep 1; done`, with which a script waits for a program
/// in the background.
fn polls(commands: &[Command], at: usize) -> bool {
    let kill = &commands[at];
    let Some(sleep) = commands.get(at + 1).filter(|sleep| sleep.shell == kill.shell) else { return false };
    let seconds = match &sleep.words[..] {
        [_, time] => time.known().and_then(|time| time.trim_end_matches('s').parse::<f64>().ok()),
        _ => None,
    };
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
    pod.container_values().any(|(_, _, container)| {
        let items = |list| container.get(list).and_then(Value::as_array).into_iter().flatten();
        // `$(X)` may bring it in.
        items("command").chain(items("args")).any(has_trap)
            || items("env").filter_map(|item| item.get("value")).any(has_trap)
    })
}

/// Returns the container that ends with 0 on SIGTERM, and the word that says so, if its pod then counts as
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

/// What a `trap` sets for SIGTERM.
enum Set<'c> {
    Nothing,
    Reset,
    To(&'c [Token]),
    Unknown,
}

fn set_by(command: &Command) -> Set<'_> {
    let words = command.words.get(1..).unwrap_or_default();
    let words = match words.first().and_then(Token::known) {
        Some("--") => &words[1..],
        Some(option) if option.len() > 1 && option.starts_with('-') => return Set::Nothing,
        _ => words,
    };
    let Some((action, signals)) = words.split_first() else { return Set::Nothing };
    let is_term = |word: &str| {
        let name = word.to_ascii_uppercase();
        matches!(name.as_str(), "15" | "TERM" | "SIGTERM")
    };
    // `trap TERM` brings the default back.
    if signals.is_empty() {
        return if action.known().is_some_and(is_term) { Set::Reset } else { Set::Nothing };
    }
    let names = || signals.iter().map(|signal| signal.known().map(is_term));
    let is_for_term = match names().any(|is_term| is_term == Some(true)) {
        true => Some(true),
        false => names().all(|is_term| is_term.is_some()).then_some(false),
    };
    match is_for_term {
        Some(false) => Set::Nothing,
        None => Set::Unknown,
        Some(true) if action.known() == Some("-") => Set::Reset,
        Some(true) => Set::To(words),
    }
}

/// Returns what the action of a `trap` does: a script, or the name of a function of the script around, if that is
/// known.
fn does(action: &Token, script: Option<&str>, is_bash: bool) -> Action {
    let text = action.word.text.as_str();
    meter::spend_text(text);
    if text.contains(SPREADS) {
        return Action::Unknown;
    }
    if text.trim().is_empty() {
        return Action::Ignored;
    }
    let is_name = text.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
    let Some(script) = script else {
        return if is_name { Action::Unknown } else { ends(text, is_bash) };
    };
    match is_name.then(|| body(text, script)).flatten() {
        Some(body) => ends(body, is_bash),
        None => ends(text, is_bash),
    }
}

/// Returns how a short script that a signal starts ends.
fn ends(text: &str, is_bash: bool) -> Action {
    let mut first: Option<Action> = None;
    // What makes another status of a command, and is not shown.
    let is_simple = !text.contains(['!', '<', '>']) && !text.contains("[[") && !text.contains("((");
    let mut has_succeeded = false;
    let nothing = |_: &str| None;
    let read = shell::read(text, &mut Variables::of(&nothing), &mut |simple| {
        let word = |at: usize| simple.words.get(at).map(|word| word.known());
        let is_sure = simple.place.depth == 0 && !simple.place.branch && simple.after != After::Background;
        let action = match word(0).flatten() {
            Some("exit") if is_sure => match word(1).flatten().map(str::parse::<u8>) {
                Some(Ok(status)) => Action::Exit(status == 0),
                // That of the command before. In dash, a bare `exit` has that of before the signal.
                _ if has_succeeded => match simple.words.get(1).map(|word| &text[word.span.clone()]) {
                    Some("$?" | "\"$?\"") => Action::Exit(true),
                    None if is_bash => Action::Exit(true),
                    _ => Action::Unknown,
                },
                _ => Action::Unknown,
            },
            Some("exit" | "exec" | "trap" | "return") => Action::Unknown,
            program => {
                let goes_on = matches!(simple.after, After::Next | After::And);
                // A variable that is not set may be an error.
                has_succeeded = is_simple
                    && is_sure
                    && goes_on
                    && matches!(program, Some(":" | "echo" | "true"))
                    && simple.words.iter().all(|word| word.known().is_some());
                return;
            }
        };
        first.get_or_insert(action);
    });
    match read {
        Ok(end) if !end.is_cut => first.unwrap_or(Action::GoesOn),
        _ => Action::Unknown,
    }
}

/// Returns the body of a function in a script.
fn body<'s>(name: &str, script: &'s str) -> Option<&'s str> {
    meter::spend_text(script);
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
    for (at, _) in script.match_indices(name) {
        let (before, behind) = (&script[..at], script[at + name.len()..].trim_start());
        if before.ends_with(is_part) {
            continue;
        }
        let is_function = before.trim_end().ends_with("function");
        let behind = match behind.strip_prefix('(') {
            Some(behind) => behind.trim_start().strip_prefix(')').map(str::trim_start),
            None => is_function.then_some(behind),
        };
        let Some(inner) = behind.and_then(|behind| behind.strip_prefix('{')) else { continue };
        let mut open = 1_usize;
        for (end, byte) in inner.bytes().enumerate() {
            match byte {
                b'{' => open += 1,
                b'}' => open -= 1,
                _ => continue,
            }
            if open == 0 {
                return Some(&inner[..end]);
            }
        }
        return None;
    }
    None
}

/// Returns how a script ends whose `wait` a signal has ended, with 143.
fn after_wait<'c>(line: &'c CommandLine<'_>, nth: usize, (at, wait): (usize, &Command)) -> OnTerm<'c> {
    let shell = &line.shells[nth];
    if shell.errexit || shell.last == Some(at) {
        return OnTerm::Other;
    }
    let Some(last) = shell.last.and_then(|last| line.commands.get(last)) else { return OnTerm::Unknown };
    let behind = || line.commands.iter().skip(at + 1).filter(|command| command.shell == Some(nth));
    // With `&&`, the rest depends on the status; another end may come first.
    let depends = wait.after == After::And
        || last.before == Some(After::And)
        || behind().any(|command| {
            !std::ptr::eq(command, last) && ["exit", "exec"].contains(&command.program.as_str())
        });
    if depends || !is_plain(last) {
        return OnTerm::Unknown;
    }
    let program = last.program.as_str();
    let word = last.words.first();
    match (program, last.words.get(1).and_then(Token::known).map(str::parse::<u8>)) {
        ("exit", Some(Ok(0))) => word.map_or(OnTerm::Unknown, OnTerm::Zero),
        ("exit", Some(Ok(_))) => OnTerm::Other,
        ("exit", _) => OnTerm::Unknown,
        _ if SUCCEED.contains(&program) => word.map_or(OnTerm::Unknown, OnTerm::Zero),
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
            may_be_handled(&Workload::of(&object).expect("a Job").pods[0])
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
        let workload = Workload::of(&object).expect("a Job");
        let commands = PodCommands::of(&workload, &workload.pods[0], &Rc::new(Room::default()));
        match on_term(&commands.containers[0]) {
            OnTerm::Zero(token) => format!("0: {}", token.word.text),
            OnTerm::Other => "other".to_owned(),
            OnTerm::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn a_trap_that_exits_with_0_while_the_shell_waits_ends_the_container_with_0() {
        for (script, expected) in [
            ("trap 'save; exit 0' TERM; python train.py & wait", "0: save; exit 0"),
            ("trap 'exit 0' SIGINT SIGTERM\npython train.py &\nwait $!", "0: exit 0"),
            (
                "trap -- \"kill $PID; exit 0\" 15; python train.py & PID=$!; wait $PID",
                "0: kill \u{E000}; exit 0",
            ),
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
        ] {
            assert_eq!(of(json!({"command": ["bash", "-c", script]})), expected, "{script}");
        }
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
