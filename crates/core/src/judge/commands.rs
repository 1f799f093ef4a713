//! What the containers of a pod run: simple commands with their words, from `command`, `args` and `env`,
//! through shells.
//!
//! Exact or silent: whatever depends on the image, on another object or on the moment stays unknown
//! ([`UNKNOWN`], [`SPREADS`]), and no rule may guess. Words are as the program receives them: without quotes,
//! with `$(X)` of Kubernetes and `$X` of shells replaced where they are known.
//!
//! Scripts are read once, as streams. An object has room for some ten thousand of their commands ([`Room`]);
//! [`CommandLine::beyond`] reports that some were not judged.

mod env;
mod launcher;
mod limits;
mod options;
mod stream;
mod wrappers;

use std::borrow::Cow;
use std::rc::Rc;

pub(crate) use env::{Added, Environment, Variable};
pub(crate) use env::{is_of_service, references};
pub(crate) use launcher::is_python;
pub(crate) use launcher::{Given, Launch, Launcher, Value};
pub(crate) use limits::{Beyond, Commands, Room};
pub(crate) use stream::IDLE;
use stream::Stream;

use crate::judge::finding::Part as FindingPart;
use crate::kinds::{Container, ContainerSlot, PodTemplate, Workload};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::{After, Bound, Place, SPREADS, UNKNOWN, Word};
use crate::text::value::{Text, Value as Json};

/// Maximum items of `command` and `args` that are read: with separators, more would be longer than a command may
/// be (64 KiB).
const MOST_ITEMS: usize = 64 << 10;

/// Programs that read a script from their arguments.
pub(crate) const SHELLS: [&str; 5] = ["sh", "bash", "ash", "dash", "zsh"];

/// What one container runs.
#[derive(Debug)]
pub(crate) struct CommandLine<'a> {
    /// The container.
    pub(crate) container: Container<'a>,
    /// Its variables.
    pub(crate) environment: Environment<'a>,
    /// The items of `command` and `args`, with `$(X)` replaced where it is known.
    pub(crate) argv: Box<[Item<'a>]>,
    /// The shells that read a script from their arguments, outermost first.
    pub(crate) shells: Box<[Shell]>,
    /// The commands, in the order of the text. A command that starts a shell with a script comes before those
    /// of the script.
    ///
    /// If there is no room for all ([`Self::left_out`]), these are kept: the last one of each script, the first
    /// one of a loop at its end, Python, launchers, shells with scripts, and a list of programs that rules look
    /// for, each with the next command. [`Command::gap`] describes what is missing.
    pub(crate) commands: Commands,
    /// Whether a script could not be read completely, or commands that rules look for did not fit.
    pub(crate) unread: bool,
    /// Whether some commands are left out; those that no rule looks for are left out first.
    pub(crate) left_out: bool,
    /// A part of the scripts that was not judged.
    beyond: Option<Beyond>,
}

/// One item of `command` or `args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// The container. A pointer to the list would be one more allocation for each container.
    container: Pointer,
    list: CommandList,
    /// Its index in the list.
    index: u32,
    /// The text after `$(X)` is replaced.
    pub(crate) text: Cow<'a, str>,
    /// The text as it is written.
    pub(crate) written: &'a str,
}

/// The list that an item is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandList {
    Command,
    Args,
}

impl CommandList {
    const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Args => "args",
        }
    }
}

impl Item<'_> {
    /// Returns the pointer to the item.
    #[must_use]
    pub(crate) fn pointer(&self) -> Pointer {
        &(&self.container / self.list.name()) / self.index as usize
    }

    /// Tells whether nothing was replaced.
    #[must_use]
    pub(crate) fn is_verbatim(&self) -> bool {
        matches!(self.text, Cow::Borrowed(text) if std::ptr::eq(text, self.written))
            || self.text == self.written
    }
}

/// A shell that reads a script from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shell {
    /// Its name: `sh`, `bash`, …
    pub name: &'static str,
    /// The item of the argument vector with the script.
    pub(crate) item: usize,
    /// Whether the container runs it directly: it is process 1, unless it replaces itself.
    pub(crate) first: bool,
    /// The loop at the end of its script, if one is there.
    pub(crate) last_loop: Option<LastLoop>,
    /// The last command of its script, by its index in [`CommandLine::commands`].
    pub(crate) last: Option<usize>,
    /// Whether a pipeline fails with any of its commands.
    pub(crate) pipefail: bool,
    /// Whether the script ends at the first command that fails.
    pub(crate) errexit: bool,
}

/// A loop at the end of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastLoop {
    /// Whether its condition never ends it.
    pub(crate) endless: bool,
    /// Whether a command in it may end it.
    pub(crate) leaves: bool,
    /// The first command in it that is in no other loop, by its index in [`CommandLine::commands`].
    pub head: Option<usize>,
}

/// The kind of commands that are left out between two others of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// There are none.
    #[default]
    None,
    /// Only programs of `IDLE`, alone at the top level of the script.
    Quiet,
    /// Only programs of `IDLE`.
    Idle,
    /// Any programs that no rule looks for.
    Other,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The name of the program without its folder; empty if unknown.
    pub(crate) program: Text,
    /// The words from the program on, without what only starts it (`exec`, `env`, `nohup`, `timeout 1h`).
    pub(crate) words: Vec<Token>,
    /// The shell that runs it, by its index in [`CommandLine::shells`]; nothing if the container does.
    pub(crate) shell: Option<usize>,
    /// What comes after it in its script.
    pub(crate) after: After,
    /// What comes after the command before it in its script, which may be left out.
    pub(crate) before: Option<After>,
    /// What is left out before it in its script.
    pub(crate) gap: Gap,
    /// Where it is in its script.
    pub(crate) place: Place,
    /// Whether it replaces its shell (`exec`).
    pub(crate) exec: bool,
    /// Whether something ends it after a time (`timeout`).
    pub(crate) timeout: bool,
    /// Whether its shell is started by another program, such as `mpirun`, that may do so several times.
    pub(crate) remote: bool,
}

impl Command {
    /// Returns the approximate size in bytes of a command with these words.
    fn size_of<T: AsRef<str>>(words: &[Word<T>]) -> usize {
        size_of::<Self>() + words.iter().map(size_of_word).sum::<usize>()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.words.iter().map(|token| size_of_word(&token.word)).sum::<usize>()
    }
}

/// Returns the approximate size of a word in bytes: a short text is stored in the word itself.
fn size_of_word<T: AsRef<str>>(word: &Word<T>) -> usize {
    let text = word.text.as_ref().len();
    size_of::<Token>() + if text > size_of::<Text>() { text } else { 0 }
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The word.
    pub word: Word,
    /// The item of the argument vector that it is in.
    pub(crate) item: usize,
}

impl Token {
    /// Returns the text if all of it is known.
    #[must_use]
    pub(crate) fn known(&self) -> Option<&str> {
        self.word.known()
    }
}

/// The commands of all containers of one pod template.
#[derive(Debug)]
pub(crate) struct PodCommands<'a> {
    /// The containers that run together, in their order.
    pub(crate) containers: Vec<CommandLine<'a>>,
}

impl<'a> PodCommands<'a> {
    /// Reads the command lines of a pod template: those of `containers`, since init containers come before.
    #[must_use]
    pub(crate) fn new(workload: &Workload<'a>, pod: &PodTemplate<'a>, room: &Rc<Room>) -> Self {
        let added =
            workload.kind.variables.and_then(|variables| variables(&workload.object, pod)).map(Rc::from);
        let main = || pod.containers().filter(|container| container.slot == ContainerSlot::Main);
        // Exact capacity: there may be a hundred thousand.
        let mut containers = Vec::with_capacity(main().count());
        containers.extend(main().map(|container| CommandLine::new(container, added.as_ref(), room)));
        Self { containers }
    }
}

impl<'a> CommandLine<'a> {
    /// Reads the command line of a container. `added` are the variables that the kind's controller adds, if
    /// they are known; `room` is that of the object.
    #[must_use]
    pub(crate) fn new(container: Container<'a>, added: Option<&Added>, room: &Rc<Room>) -> Self {
        let environment = Environment::new(&container.part, added, room);
        let values = |list: CommandList| {
            let list = container.part.value.and_then(|container| container.get(list.name())?.as_array());
            list.map_or(&[][..], Vec::as_slice)
        };
        let lists = [CommandList::Command, CommandList::Args].map(|list| (list, values(list)));
        let all: usize = lists.iter().map(|(_, values)| values.len()).sum();
        let mut argv: Vec<Item<'a>> = Vec::with_capacity(all.min(MOST_ITEMS));
        for (list, values) in lists {
            let room = MOST_ITEMS - argv.len();
            let texts = (0..).zip(values.iter().map(Json::as_str)).take(room);
            argv.extend(texts.filter_map(|(index, text)| {
                let (written, container) = (text?, container.part.pointer.clone());
                Some(Item { container, list, index, text: Cow::Borrowed(written), written })
            }));
        }
        let script = shell_in(&argv, |item| item.written).map(|found| found.script);
        for (index, item) in argv.iter_mut().enumerate() {
            let unknown = if script == Some(index) { SPREADS } else { UNKNOWN };
            item.text = environment.expand(item.written, unknown);
        }
        let mut stream = Stream {
            argv: &argv,
            environment: &environment,
            room,
            shells: Vec::new(),
            commands: Vec::new(),
            unread: false,
            left_out: false,
            beyond: (all > MOST_ITEMS).then_some(Beyond::Bound(Bound::Command)),
        };
        stream.container(script);
        let Stream { shells, commands, unread, left_out, beyond, .. } = stream;
        // Without spare capacity: there may be as many containers as bytes of scripts.
        let (shells, commands) = (shells.into_boxed_slice(), room.shared(commands));
        Self { container, environment, argv: argv.into(), shells, commands, unread, left_out, beyond }
    }

    /// Returns a part of it that was not judged, if any, as far as it was read.
    #[must_use]
    pub(crate) fn beyond(&self) -> Option<Beyond> {
        self.beyond.or_else(|| self.environment.beyond())
    }

    /// Returns where a token is, for a finding.
    #[must_use]
    pub(crate) fn place(&self, token: &Token) -> Pointer {
        self.argv.get(token.item).map_or_else(|| self.container.part.pointer.clone(), Item::pointer)
    }

    /// Returns which part of the item the token is, where no variable was replaced before it.
    #[must_use]
    pub(crate) fn part(&self, token: &Token) -> FindingPart {
        let span = &token.word.span;
        let narrow = |item: &Item<'_>| {
            let is_whole = *span == (0..item.text.len());
            let bounds = u32::try_from(span.start).ok().zip(u32::try_from(span.end).ok());
            bounds.filter(|_| !is_whole && item.is_verbatim())
        };
        let bounds = self.argv.get(token.item).and_then(narrow);
        bounds.map_or(FindingPart::Value, |(start, end)| FindingPart::Within(start, end))
    }

    /// Tells whether the container's program is that of the image, so that what runs is unknown.
    #[must_use]
    pub(crate) fn is_of_image(&self) -> bool {
        !self.container.part.get("command").is_set()
    }

    /// Returns the launchers that it starts.
    pub(crate) fn launches(&self) -> impl Iterator<Item = Launch<'_>> {
        self.commands.iter().filter_map(Launch::from_command)
    }
}

/// A shell in an argument vector.
struct ShellAt {
    name: &'static str,
    /// Its index.
    at: usize,
    /// The index of its script.
    script: usize,
    pipefail: bool,
    errexit: bool,
}

/// Finds the first shell that reads a script from its arguments: it need not be the first word, as in
/// `mpirun … bash -c '…'` and behind wrappers of images (docs/internals/training.md#shells-and-scripts).
fn shell_in<T>(words: &[T], text: impl Fn(&T) -> &str) -> Option<ShellAt> {
    let word = |at: usize| words.get(at).map(&text);
    let mut at = 0;
    while let Some(program) = word(at) {
        meter::spend(1);
        let is_shell = |name: &&&str| program.ends_with(**name) && base_name(program) == **name;
        let Some(name) = SHELLS.iter().find(is_shell) else {
            at += 1;
            continue;
        };
        let mut found = ShellAt { name, at, script: 0, pipefail: false, errexit: false };
        let (mut next, mut reads) = (at + 1, false);
        while let Some(option) = word(next) {
            meter::spend(1);
            if option == "--" {
                next += 1;
                break;
            }
            if !option.starts_with(['-', '+']) || option.len() < 2 {
                break;
            }
            next += 1;
            if let Some(long) = option.strip_prefix("--") {
                next += usize::from(matches!(long, "rcfile" | "init-file"));
                continue;
            }
            reads |= option.starts_with('-') && option.contains('c');
            found.errexit |= option.starts_with('-') && option.contains('e');
            if option.contains(['o', 'O']) {
                found.pipefail |= word(next) == Some("pipefail");
                next += 1;
            }
        }
        if reads && next < words.len() {
            return Some(ShellAt { script: next, ..found });
        }
        at = next;
    }
    None
}

/// Returns a program's name without its folder.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
