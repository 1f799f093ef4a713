//! What the containers of a pod run: simple commands with their words, from `command`, `args` and `env`,
//! through shells.
//!
//! It is exact or silent: what depends on the image, on another object or on the moment stays unknown
//! ([`UNKNOWN`], [`SPREADS`]), and no rule may guess. A word is that of the program that gets it: without
//! quotes, with `$(X)` of Kubernetes and `$X` of shells replaced where they are known.

mod env;
mod launcher;
mod options;
mod wrappers;

use std::rc::Rc;

pub use env::{Added, Environment, Variable};
pub(crate) use env::{is_of_service, references};
pub(crate) use launcher::is_python;
pub use launcher::{Given, Launch, Launcher, Value};

use crate::judge::finding::Part as FindingPart;
use crate::kinds::{Container, ContainerSlot, Part, PodTemplate, Workload};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::{After, Loop, Place, SPREADS, Script, Simple, UNKNOWN, Variables, Word};

/// Shells in one another: `bash -c "mpirun … bash -c '…'"`.
const MAX_SHELLS: usize = 3;

/// Programs that read a script from their arguments.
pub(crate) const SHELLS: [&str; 5] = ["sh", "bash", "ash", "dash", "zsh"];

/// What one container runs.
#[derive(Debug)]
pub struct CommandLine<'a> {
    /// The container.
    pub container: Container<'a>,
    /// Its variables.
    pub environment: Environment<'a>,
    /// The items of `command` and `args`, with `$(X)` replaced where it is known.
    pub argv: Vec<Item<'a>>,
    /// The shells that read a script from their arguments, outermost first.
    pub shells: Vec<Shell>,
    /// The commands, in the order of the text. A command that starts a shell with a script comes before those
    /// of the script.
    pub commands: Vec<Command>,
    /// Whether a script could not be read, so that there are more commands.
    pub unread: bool,
}

/// One item of `command` or `args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Where it is.
    pub pointer: Pointer,
    /// The text after `$(X)` is replaced.
    pub text: String,
    /// The text as it is written.
    pub written: &'a str,
}

impl Item<'_> {
    /// Tells whether nothing was replaced.
    #[must_use]
    pub fn is_verbatim(&self) -> bool {
        self.text == self.written
    }
}

/// A shell that reads a script from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// Its name: `sh`, `bash`, …
    pub name: &'static str,
    /// The item of the argument vector with the script.
    pub item: usize,
    /// Whether nothing but the container runs it: it is process 1, unless it replaces itself.
    pub first: bool,
    /// The loops of its script.
    pub loops: Vec<Loop>,
    /// The last command of its script, by its index in [`CommandLine::commands`].
    pub last: Option<usize>,
    /// Whether a pipeline fails with any of its commands.
    pub pipefail: bool,
    /// Whether the script ends at the first command that fails.
    pub errexit: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name of the program without its folder; empty if unknown.
    pub program: String,
    /// The words from the program on, without what only starts it (`exec`, `env`, `nohup`, `timeout 1h`).
    pub words: Vec<Token>,
    /// The shell that runs it, by its index in [`CommandLine::shells`]; nothing if the container does.
    pub shell: Option<usize>,
    /// What comes after it in its script.
    pub after: After,
    /// Where it is in its script.
    pub place: Place,
    /// Whether it replaces its shell (`exec`).
    pub exec: bool,
    /// Whether something ends it after a time (`timeout`).
    pub timeout: bool,
    /// Whether its shell is started by another program, such as `mpirun`, that may do so several times.
    pub remote: bool,
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The word.
    pub word: Word,
    /// The item of the argument vector that it is in.
    pub item: usize,
}

impl Token {
    /// Returns the text if all of it is known.
    #[must_use]
    pub fn known(&self) -> Option<&str> {
        self.word.known()
    }
}

/// The commands of all containers of one pod template.
#[derive(Debug)]
pub struct PodCommands<'a> {
    /// The containers that run together, in their order.
    pub containers: Vec<CommandLine<'a>>,
}

impl<'a> PodCommands<'a> {
    /// Reads the command lines of a pod template: those of `containers`, since init containers come before.
    #[must_use]
    pub fn of(workload: &Workload<'a>, pod: &PodTemplate<'a>) -> Self {
        let added = workload.kind.variables.and_then(|variables| variables(workload, pod)).map(Rc::from);
        let main = pod.containers().filter(|container| container.slot == ContainerSlot::Main);
        Self { containers: main.map(|container| CommandLine::of(container, added.as_ref())).collect() }
    }
}

impl<'a> CommandLine<'a> {
    /// Reads the command line of a container. `added` are the variables that the kind's controller adds, if
    /// they are known.
    #[must_use]
    pub fn of(container: Container<'a>, added: Option<&Added>) -> Self {
        let environment = Environment::of(&container.part, added);
        let parts: Vec<(Part<'a>, &'a str)> = ["command", "args"]
            .into_iter()
            .flat_map(|list| container.part.get(list).items().collect::<Vec<_>>())
            .filter_map(|part| Some((part.clone(), part.value?.as_str()?)))
            .collect();
        let mut line = Self {
            container,
            environment,
            argv: Vec::new(),
            shells: Vec::new(),
            commands: Vec::new(),
            unread: false,
        };
        let script = shell_in(&parts, |(_, text)| text).map(|found| found.script);
        let mut words = Vec::new();
        for (index, (part, text)) in parts.iter().enumerate() {
            let is_script = script == Some(index);
            let written = *text;
            let text = line.environment.expand(written, if is_script { SPREADS } else { UNKNOWN });
            words.push(Token { word: Word::whole(&text), item: index });
            line.argv.push(Item { pointer: part.pointer.clone(), text: text.into_owned(), written });
        }
        line.start(words, None, After::End, Place::default(), &Outer::default());
        line
    }

    /// Adds a command, and those of the script that it starts.
    fn start(
        &mut self,
        words: Vec<Token>,
        shell: Option<usize>,
        after: After,
        place: Place,
        outer: &Outer<'_>,
    ) {
        let stripped = wrappers::strip(words);
        let program =
            stripped.words.first().and_then(Token::known).map(base_name).unwrap_or_default().to_owned();
        let found = shell_in(&stripped.words, |token| &token.word.text);
        let script = found.as_ref().and_then(|found| stripped.words.get(found.script)).cloned();
        self.commands.push(Command {
            program,
            words: stripped.words,
            shell,
            after,
            place,
            exec: stripped.exec,
            timeout: stripped.timeout,
            remote: outer.remote,
        });
        if let (Some(found), Some(script)) = (found, script) {
            self.script(&found, &script, shell.is_none(), outer);
        }
    }

    /// Adds the commands of a script.
    fn script(&mut self, found: &ShellAt, script: &Token, of_container: bool, outer: &Outer<'_>) {
        if outer.depth == MAX_SHELLS {
            self.unread = true;
            return;
        }
        let environment = &self.environment;
        let lookup = |name: &str| if outer.hides(name) { None } else { environment.known(name) };
        let mut variables = Variables::of(&lookup);
        let text = script.word.text.as_str();
        let unknown = outer.depth > 0 && script.known().is_none();
        let Some(read) = Script::read(text, &mut variables).filter(|_| !unknown) else {
            self.unread = true;
            return;
        };
        let assigned = variables.assigned();
        let shell = self.shells.len();
        let Script { commands, loops, last, pipefail, errexit } = read;
        self.shells.push(Shell {
            name: found.name,
            item: script.item,
            first: of_container && found.at == 0,
            loops,
            last: None,
            pipefail: pipefail || found.pipefail,
            errexit: errexit || found.errexit,
        });
        let inner = Outer {
            depth: outer.depth + 1,
            remote: outer.remote || found.at > 0,
            assigned: &assigned,
            around: Some(outer),
        };
        self.commands.reserve(commands.len());
        for (index, simple) in commands.into_iter().enumerate() {
            let Simple { words, after, place } = simple;
            if last == Some(index) {
                self.shells[shell].last = Some(self.commands.len());
            }
            let token = |word: Word| {
                // A script in a script is in the quotes of a word.
                let span = if outer.depth > 0 { script.word.span.clone() } else { word.span.clone() };
                Token { word: Word { span, ..word }, item: script.item }
            };
            self.start(words.into_iter().map(token).collect(), Some(shell), after, place, &inner);
        }
    }

    /// Returns where a token is, for a finding.
    #[must_use]
    pub fn place(&self, token: &Token) -> Pointer {
        self.argv
            .get(token.item)
            .map_or_else(|| self.container.part.pointer.clone(), |item| item.pointer.clone())
    }

    /// Returns which part of the item the token is, where no variable was replaced before it.
    #[must_use]
    pub fn part(&self, token: &Token) -> FindingPart {
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
    pub fn is_of_image(&self) -> bool {
        !self.container.part.get("command").is_set()
    }

    /// Returns the launchers that it starts.
    pub fn launches(&self) -> impl Iterator<Item = Launch<'_>> {
        self.commands.iter().filter_map(Launch::of)
    }
}

/// What a script in a script cannot know: variables of those around it.
#[derive(Default)]
struct Outer<'o> {
    depth: usize,
    remote: bool,
    assigned: &'o [String],
    around: Option<&'o Self>,
}

impl Outer<'_> {
    /// Tells whether a script around has assigned a variable.
    fn hides(&self, name: &str) -> bool {
        self.assigned.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
            || self.around.is_some_and(|around| around.hides(name))
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

/// Finds the first shell that reads a script from its arguments (training.md §1.2): it need not be the first
/// word, as in `mpirun … bash -c '…'` and behind wrappers of images.
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

impl Word {
    /// Makes a word that is a whole item.
    fn whole(text: &str) -> Self {
        Self { text: text.to_owned(), span: 0..text.len(), plain: false }
    }
}

#[cfg(test)]
mod tests;
