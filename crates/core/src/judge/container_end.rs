//! Whether a container ever ends by itself, and what ends one that does not: for rules about pods that run on.

use crate::judge::commands::{Command, CommandLine, Token, base_name};
use crate::judge::training::quoted;
use crate::kinds::{PodTemplate, Workload};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::After;

/// A `sleep` of so many seconds or more counts as endless.
const LONG: f64 = 86400.0;

/// Returns the deadline that ends the pods of a template: that of the run, or their own.
pub(super) fn deadline(workload: &Workload<'_>, pod: &PodTemplate<'_>) -> Option<Pointer> {
    [workload.run_of(pod).deadline(), pod.spec.get("activeDeadlineSeconds")]
        .into_iter()
        .find_map(|deadline| deadline.is_set().then_some(deadline.pointer))
}

/// The command that a container never gets past.
pub(super) struct EndlessCommand<'c> {
    /// Its words; of a loop, those of its first command.
    pub(super) words: &'c [Token],
    /// Whether a loop is endless, and not a program.
    pub(super) of_loop: bool,
    /// Whether it runs only if the command before has failed.
    pub(super) after_failure: bool,
}

impl EndlessCommand<'_> {
    /// Returns what it does, for a message.
    pub(super) fn what(&self) -> String {
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
pub(super) fn waits<'c>(line: &'c CommandLine<'_>) -> Option<EndlessCommand<'c>> {
    waits_for(line, &is_endless)
}

/// Returns the loop at the end of a container that never ends, or the command there that does not, as a test says.
pub(super) fn waits_for<'c>(
    line: &'c CommandLine<'_>,
    never_ends: &dyn Fn(&Command) -> bool,
) -> Option<EndlessCommand<'c>> {
    let first = line.commands.first()?;
    let Some(shell) = line.shells.first().filter(|shell| shell.first) else {
        return (line.shells.is_empty() && never_ends(first)).then_some(EndlessCommand {
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
    let last = last.filter(|last| last.after != After::Background && never_ends(last))?;
    Some(EndlessCommand { words: &last.words, of_loop: false, after_failure: last.place.branch })
}

/// Tells whether a command ends a script in a branch, with a failure: otherwise the script goes on.
fn fails(command: &Command) -> bool {
    let status = command.words.get(1).and_then(Token::known).and_then(|status| status.parse::<i64>().ok());
    command.program == "exit" && command.place.branch && status.is_some_and(|status| status != 0)
}

/// Tells whether a command runs forever, or for a day or more.
pub(super) fn is_endless(command: &Command) -> bool {
    let is_nothing = |word: &Token| word.known() == Some("/dev/null");
    match command.program.as_str() {
        "sleep" => !command.timeout && sleeps(&command.words).is_some_and(|time| time >= LONG),
        "tail" => follows(command) && command.words.iter().any(is_nothing),
        _ => false,
    }
}

/// Tells whether a command is a `tail` that follows its files until somebody ends it.
pub(super) fn follows(command: &Command) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().skip(1).map(Token::known).collect();
    let does = |word: &&str| {
        word.starts_with("--follow")
            || !word.starts_with("--") && word.starts_with('-') && word.contains(['f', 'F'])
    };
    // It ends with a process.
    let ends = |word: &&str| word.starts_with("--pid");
    command.program == "tail"
        && !command.timeout
        && words.is_some_and(|words| words.iter().any(does) && !words.iter().any(ends))
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
