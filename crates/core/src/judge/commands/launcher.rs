//! Programs that start the processes of a distributed run, and their options.

use super::options::{LauncherOption, OptionTable, TABLES};
use super::{Command, Token};
use crate::text::meter;
use crate::text::shell::{SPREADS, UNKNOWN};

/// A launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// `torchrun`, `python -m torch.distributed.run`.
    Torchrun,
    /// `python -m torch.distributed.launch`, which takes the same options.
    TorchLaunch,
    /// `accelerate launch`.
    Accelerate,
    /// `deepspeed`.
    DeepSpeed,
    /// `mpirun`, `mpiexec`, `horovodrun`.
    Mpi,
    /// `ray job submit`.
    Ray,
}

impl Launcher {
    /// Tells whether it is a launcher of PyTorch's own, with rendezvous by its options or `PET_` variables.
    #[must_use]
    pub(crate) fn is_torch(self) -> bool {
        matches!(self, Self::Torchrun | Self::TorchLaunch)
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'c> {
    /// It is not there.
    Absent,
    /// This one.
    Known(&'c str),
    /// It has an unknown value, or may be among unknown words.
    Unknown,
}

impl Value<'_> {
    /// Tells whether it is certainly not there.
    #[must_use]
    pub(crate) fn is_absent(&self) -> bool {
        *self == Self::Absent
    }
}

/// One option of a launcher, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Given<'c> {
    /// The option, by its whole name without dashes in front and with `_` for `-`.
    pub name: &'static str,
    /// The word with the option.
    pub(crate) token: &'c Token,
    /// Its index in the words of the command.
    pub at: usize,
    /// The number of words after it that are its values.
    pub(crate) behind: usize,
    /// The value; nothing for an option without one.
    pub value: Option<&'c str>,
    /// Whether the value is known.
    pub(crate) known: bool,
    /// Whether the launcher has such an option. It stops with an error if not.
    pub(crate) exists: bool,
}

/// A launcher with its options.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'c> {
    /// Which one.
    pub(crate) launcher: Launcher,
    /// Its command.
    pub(crate) command: &'c Command,
    /// Its options, in order.
    pub(crate) options: Vec<Given<'c>>,
    /// Whether there may be unknown words or unknown options among its options.
    pub(crate) open: bool,
    /// The program that it starts, with its own words behind it.
    pub(crate) started: &'c [Token],
}

impl<'c> Launch<'c> {
    /// Reads a command as that of a launcher.
    #[must_use]
    pub(crate) fn from_command(command: &'c Command) -> Option<Self> {
        let words = command.words.as_slice();
        let (launcher, own) = recognise(&command.program, words)?;
        let table = TABLES.iter().find(|table| table.launchers.contains(&launcher))?;
        let mut launch = Self { launcher, command, options: Vec::new(), open: false, started: &[] };
        launch.read(table, words, own);
        Some(launch)
    }

    /// Reads options up to the first word that is not one; the words from there on belong to the program.
    fn read(&mut self, table: &OptionTable, words: &'c [Token], mut at: usize) {
        while let Some(token) = words.get(at) {
            meter::spend(2);
            let text = token.word.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            // An unknown word may be options, unless it ends like a path.
            let is_path = text.ends_with(".py") || text.contains('/');
            if text.starts_with([UNKNOWN, SPREADS]) && !is_path {
                self.open = true;
                return;
            }
            if !text.starts_with('-') || text.len() < 2 {
                break;
            }
            let (name, inline) = match text.split_once('=') {
                Some((name, value)) if table.inline || name.starts_with("--") => (name, Some(value)),
                _ => (text, None),
            };
            let own = at;
            at += 1;
            let Some(known) = table.find(name) else {
                // An option of another release: it is unknown whether its value follows.
                self.open = true;
                let follows =
                    inline.is_none() && words.get(at).is_some_and(|next| !next.word.text.starts_with('-'));
                at += usize::from(follows);
                continue;
            };
            let LauncherOption { name, values, exists } = *known;
            let next = words.get(at).filter(|_| values > 0).map(|next| next.word.text.as_str());
            let value = inline.or(next);
            let behind = if inline.is_none() { values } else { 0 };
            at += behind;
            let known = value.is_none_or(|value| !value.contains([UNKNOWN, SPREADS]));
            self.options.push(Given { name, token, at: own, behind, value, known, exists });
        }
        self.started = words.get(at..).unwrap_or_default();
    }

    /// Tells whether the container's script certainly reaches it, and runs it in its own pod.
    #[must_use]
    pub(crate) fn is_certain(&self) -> bool {
        let place = self.command.place;
        !self.command.remote && !place.branch && !place.condition
    }

    /// Returns the option that counts: the last of its name.
    #[must_use]
    pub(crate) fn option(&self, name: &str) -> Option<&Given<'c>> {
        self.options.iter().rev().find(|given| given.name == name)
    }

    /// Returns the value of an option.
    #[must_use]
    pub(crate) fn value(&self, name: &str) -> Value<'c> {
        match self.option(name) {
            Some(Given { value: Some(value), known: true, .. }) => Value::Known(value),
            Some(Given { value: None, .. }) => Value::Known(""),
            Some(_) => Value::Unknown,
            None if self.open => Value::Unknown,
            None => Value::Absent,
        }
    }
}

/// Returns the launcher of a command, and the number of words that name it.
fn recognise(program: &str, words: &[Token]) -> Option<(Launcher, usize)> {
    let word = |at: usize| words.get(at).and_then(Token::known);
    Some(match program {
        "torchrun" => (Launcher::Torchrun, 1),
        "deepspeed" => (Launcher::DeepSpeed, 1),
        "mpirun" | "mpiexec" | "horovodrun" | "orterun" | "mpiexec.hydra" => (Launcher::Mpi, 1),
        "accelerate" if word(1) == Some("launch") => (Launcher::Accelerate, 2),
        "ray" if word(1) == Some("job") && word(2) == Some("submit") => (Launcher::Ray, 3),
        _ if is_python(program) => {
            let at = (1..words.len())
                .find(|at| !matches!(word(*at), Some("-u" | "-O" | "-B" | "-E" | "-I" | "-s")))?;
            if word(at) != Some("-m") {
                return None;
            }
            match word(at + 1)? {
                "torch.distributed.run" | "torch.distributed.elastic" => (Launcher::Torchrun, at + 2),
                "torch.distributed.launch" => (Launcher::TorchLaunch, at + 2),
                "accelerate.commands.launch" => (Launcher::Accelerate, at + 2),
                "deepspeed.launcher.runner" => (Launcher::DeepSpeed, at + 2),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Tells whether a program is Python: `python`, `python3`, `python3.11`.
#[must_use]
pub(crate) fn is_python(program: &str) -> bool {
    program
        .strip_prefix("python")
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}
