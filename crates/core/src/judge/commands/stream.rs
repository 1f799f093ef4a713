//! Reads commands from scripts: keeps those that rules need, and records what is known of the others.

use std::cell::OnceCell;
use std::ops::Range;

use super::limits::{Beyond, Room};
use super::wrappers::{self, Stripped};
use super::{Command, Gap, Item, LastLoop, Shell, ShellAt, Token, base_name, shell_in};
use crate::judge::commands::env::Environment;
use crate::judge::commands::launcher::is_python;
use crate::text::shell::{
    self, After, Assigned, Bound, End, MAX_COMMAND_BYTES, Piece, Place, Simple, Variables, Word,
};

/// Maximum nested shells: `bash -c "mpirun … bash -c '…'"`.
const MAX_SHELLS: usize = 3;

/// Maximum words of a command that must be kept without room for it.
const FEW_WORDS: usize = 16;

/// Programs that leave everything as it is.
pub(crate) const IDLE: [&str; 8] = [":", "date", "echo", "printf", "sleep", "sync", "touch", "true"];

/// Programs, besides Python, that a rule looks for anywhere in a script. Those are kept when there is no room
/// for all: see [`CommandLine::commands`](super::CommandLine::commands).
const NAMED: [&str; 37] = [
    ".",
    "accelerate",
    "aws",
    "azcopy",
    "cd",
    "cp",
    "deepspeed",
    "eval",
    "exec",
    "exit",
    "gcloud",
    "gsutil",
    "hf",
    "horovodrun",
    "huggingface-cli",
    "hyperpodrun",
    "install",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun",
    "mv",
    "orterun",
    "pdsh",
    "pushd",
    "ray",
    "rclone",
    "return",
    "rsync",
    "s5cmd",
    "scp",
    "set",
    "source",
    "ssh",
    "sshd",
    "tar",
    "torchrun",
    "trap",
];

fn is_named(program: &str) -> bool {
    NAMED.contains(&program) || is_python(program)
}

/// The state of reading the scripts of a container.
pub(super) struct Stream<'e, 'a> {
    pub(super) argv: &'e [Item<'a>],
    pub(super) environment: &'e Environment<'a>,
    pub(super) room: &'e Room,
    pub(super) shells: Vec<Shell>,
    pub(super) commands: Vec<Command>,
    pub(super) unread: bool,
    pub(super) left_out: bool,
    pub(super) beyond: Option<Beyond>,
}

/// A command as it is read, from the argument vector or from a script.
struct Coming<'c, 't> {
    words: &'c [Word<Piece<'t>>],
    /// The item of the argument vector with its script; nothing if its words are items themselves.
    item: Option<usize>,
    /// The place of its words, if they have none of their own, as in nested scripts.
    span: Option<&'c Range<usize>>,
    after: After,
    place: Place,
    before: Option<After>,
    gap: Gap,
    /// Whether it comes right after one that rules look at.
    follows: bool,
    must_keep: bool,
}

/// The result of reading a command.
struct TakenCommand {
    /// Its index, if it is kept.
    index: Option<usize>,
    /// Whether rules look at it.
    is_named: bool,
    is_idle: bool,
}

/// The script that is being read.
#[derive(Default)]
struct CurrentScript {
    before: Option<After>,
    gap: Gap,
    follows: bool,
    /// The command that heads the last loop, by its index.
    head: Option<usize>,
    /// The same command, if there was no room for it.
    head_aside: Option<Command>,
    last: Option<usize>,
}

/// The context of a script.
pub(super) struct Outer<'o, 'e> {
    depth: usize,
    remote: bool,
    /// The shell, by its index; nothing for the argument vector.
    shell: Option<usize>,
    script: &'o str,
    lookup: &'o dyn Fn(&str) -> Option<&'e str>,
    /// The variables that the script assigns anywhere. It is read for them only if it contains another script.
    assigned: OnceCell<Assigned>,
    around: Option<&'o Self>,
}

impl<'o> Outer<'o, '_> {
    /// Returns the context of the argument vector, which is empty.
    fn nothing() -> Self {
        let lookup = &|_: &str| None;
        let assigned = OnceCell::new();
        Self { depth: 0, remote: false, shell: None, script: "", lookup, assigned, around: None }
    }

    /// Tells whether an outer script assigns a variable, or may: then its value is unknown in the inner one.
    fn hides(&self, name: &str) -> bool {
        if self.shell.is_none() {
            return false;
        }
        let assigned = self.assigned.get_or_init(|| {
            let lookup = |name: &str| (self.lookup)(name);
            let mut variables = Variables::new(&lookup);
            // A script that cannot be read does not contain another one.
            let _: Result<_, _> = shell::read(self.script, &mut variables, &mut |_| ());
            variables.assigned()
        });
        assigned.contains(name) || self.around.is_some_and(|around| around.hides(name))
    }
}

impl<'e> Stream<'e, '_> {
    /// Records that something was not judged.
    fn pass(&mut self, beyond: Beyond) {
        self.beyond.get_or_insert(beyond);
    }

    /// Reads the argument vector, and the commands of the scripts in it. `script` is the item that a shell reads
    /// as a script.
    pub(super) fn container(&mut self, script: Option<usize>) {
        let argv = self.argv;
        let mut words = Vec::with_capacity(argv.len().min(MAX_COMMAND_BYTES));
        let mut bytes = 0;
        for (index, item) in argv.iter().enumerate() {
            let word = Word::whole(&item.text);
            let is_script = script == Some(index);
            bytes += 1 + if is_script { 0 } else { item.text.len() };
            if bytes > MAX_COMMAND_BYTES {
                self.pass(Beyond::Bound(Bound::Command));
                words.push(Word::spread(0..item.text.len()));
                break;
            }
            words.push(word);
        }
        let coming = Coming {
            words: &words,
            item: None,
            span: None,
            after: After::End,
            place: Place::default(),
            before: None,
            gap: Gap::None,
            follows: false,
            must_keep: true,
        };
        self.start(&coming, &Outer::nothing());
    }

    /// Reads a command, and those of the script that it starts.
    fn start(&mut self, coming: &Coming<'_, '_>, outer: &Outer<'_, 'e>) -> TakenCommand {
        let stripped = wrappers::strip(coming.words);
        let words = &coming.words[stripped.from..];
        let program = words.first().and_then(Word::known).map(base_name).unwrap_or_default();
        let found = shell_in(words, |word| &word.text);
        let is_named = found.is_some() || stripped.exec || is_named(program);
        let is_idle = IDLE.contains(&program);
        let is_wanted = is_named || coming.follows;
        let keeps = self.room.keeps(Command::size_of(words), is_wanted || coming.must_keep);
        let index = (keeps || coming.must_keep).then_some(self.commands.len());
        if index.is_some() {
            let few = if keeps { words.len() } else { FEW_WORDS };
            let command = coming.kept(&stripped, few, outer);
            self.commands.push(command);
        }
        if !keeps && is_wanted {
            self.pass(Beyond::Commands);
            self.unread = true;
        }
        if let Some(found) = found {
            let item = coming.item.unwrap_or(stripped.from + found.script);
            self.script(&found, &words[found.script], item, outer);
        }
        TakenCommand { index, is_named, is_idle }
    }

    /// Reads the commands of a script in a word.
    fn script(&mut self, found: &ShellAt, script: &Word<Piece<'_>>, item: usize, outer: &Outer<'_, 'e>) {
        let is_inside = outer.depth > 0;
        if outer.depth == MAX_SHELLS || is_inside && script.known().is_none() {
            self.unread = true;
            return;
        }
        if !self.room.keeps(size_of::<Shell>(), true) {
            self.unread = true;
            self.pass(Beyond::Commands);
            return;
        }
        // The word of a long item does not have all of its text.
        let argv = self.argv;
        let text = if is_inside { script.text.as_ref() } else { argv[item].text.as_ref() };
        let shell = self.shells.len();
        self.shells.push(Shell {
            name: found.name,
            item,
            first: outer.shell.is_none() && found.at == 0,
            last_loop: None,
            last: None,
            pipefail: found.pipefail,
            errexit: found.errexit,
        });
        let remote = outer.remote || found.at > 0;
        let before = (self.commands.len(), self.left_out, self.beyond);
        let span = is_inside.then_some(&script.span);
        if let Some(end) = self.commands_of(text, (shell, item, remote), span, outer) {
            let own = &mut self.shells[shell];
            own.pipefail |= end.pipefail;
            own.errexit |= end.errexit;
            self.unread |= end.is_cut;
            return;
        }
        let first;
        (first, self.left_out, self.beyond) = before;
        self.room.give_back(&self.commands[first..]);
        self.commands.truncate(first);
        self.shells.truncate(shell);
        self.unread = true;
    }

    /// Reads the commands of a script; nothing if it cannot be read.
    fn commands_of(
        &mut self,
        text: &str,
        (shell, item, remote): (usize, usize, bool),
        span: Option<&Range<usize>>,
        outer: &Outer<'_, 'e>,
    ) -> Option<End> {
        let environment = self.environment;
        let lookup = |name: &str| if outer.hides(name) { None } else { environment.known(name) };
        let known = |name: &str| lookup(name);
        let inner = Outer {
            depth: outer.depth + 1,
            remote,
            shell: Some(shell),
            script: text,
            lookup: &lookup,
            assigned: OnceCell::new(),
            around: Some(outer),
        };
        let mut current = CurrentScript::default();
        let end = shell::read(text, &mut Variables::new(&known), &mut |simple| {
            self.take(simple, &mut current, (item, span), &inner);
        });
        let end = end.ok()?;
        if let Some(bound) = end.beyond {
            self.pass(Beyond::Bound(bound));
        }
        let last_loop = end.last_loop.map(|last| {
            if let Some(head) = current.head_aside.take() {
                current.head = Some(self.commands.len());
                self.commands.push(head);
            }
            LastLoop {
                endless: last.endless,
                leaves: last.leaves,
                head: current.head.filter(|_| last.has_head),
            }
        });
        self.shells[shell].last_loop = last_loop;
        self.shells[shell].last = current.last;
        Some(end)
    }

    /// Reads a command of a script.
    fn take(
        &mut self,
        simple: &Simple<'_>,
        current: &mut CurrentScript,
        (item, span): (usize, Option<&Range<usize>>),
        outer: &Outer<'_, 'e>,
    ) {
        let coming = Coming {
            words: &simple.words,
            item: Some(item),
            span,
            after: simple.after,
            place: simple.place,
            before: current.before.replace(simple.after),
            gap: current.gap,
            follows: current.follows,
            must_keep: simple.is_final,
        };
        let TakenCommand { index, is_named, is_idle } = self.start(&coming, outer);
        current.follows = is_named && index.is_some();
        current.gap = match index {
            Some(_) => Gap::None,
            None => current.gap.max(Gap::new(is_idle, simple)),
        };
        self.left_out |= index.is_none();
        if simple.heads_loop {
            current.head = index;
            current.head_aside = index.is_none().then(|| {
                let stripped = wrappers::strip(coming.words);
                coming.kept(&stripped, FEW_WORDS, outer)
            });
        }
        if simple.is_last {
            current.last = index;
        }
    }
}

impl Coming<'_, '_> {
    /// Returns the command to keep, with its first `few` words.
    fn kept(&self, stripped: &Stripped, few: usize, outer: &Outer<'_, '_>) -> Command {
        let words = &self.words[stripped.from..];
        let token = |at: usize, word: &Word<Piece<'_>>| {
            let span = self.span.unwrap_or(&word.span).clone();
            Token { word: Word { span, ..word.kept() }, item: self.item.unwrap_or(stripped.from + at) }
        };
        let mut kept = Vec::with_capacity(words.len().min(few + 1));
        kept.extend(words.iter().take(few).enumerate().map(|(at, word)| token(at, word)));
        kept.extend(words.get(few).map(|word| token(few, &Word::spread(word.span.clone()))));
        Command {
            program: words.first().and_then(Word::known).map(base_name).unwrap_or_default().into(),
            words: kept,
            shell: outer.shell,
            after: self.after,
            before: self.before,
            gap: self.gap,
            place: self.place,
            exec: stripped.exec,
            timeout: stripped.timeout,
            remote: outer.remote,
        }
    }
}

impl Gap {
    /// Returns the gap that is left by a command.
    fn new(is_idle: bool, simple: &Simple<'_>) -> Self {
        let is_plain = simple.place.depth == 0 && matches!(simple.after, After::End | After::Next);
        match (is_idle, is_plain) {
            (true, true) => Self::Quiet,
            (true, false) => Self::Idle,
            (false, _) => Self::Other,
        }
    }
}
