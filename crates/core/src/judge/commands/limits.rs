//! The limits on what is kept of the commands of one object's containers.
//!
//! Commands take many times the memory of their text, and so does text with replaced variables. An object has
//! room for far more than people write; a hostile one cannot make an evaluation large.

use std::cell::{Cell, RefCell};
use std::hash::{Hash as _, Hasher as _};
use std::ops::Deref;
use std::rc::Rc;
use std::slice;

use super::Command;
use crate::judge::fold::ByHash;
use crate::text::hash;
use crate::text::shell::Bound;

/// Bytes for commands. A short one takes some two hundred.
const COMMANDS: usize = 4 << 20;

/// The part of the room for commands that is reserved for those that a rule looks for by name.
const RESERVED: usize = COMMANDS / 2;

/// Bytes by which text may grow when variables are replaced.
const GROWTH: usize = 1 << 20;

/// Maximum words of a command that is kept to be shared.
const FEW_WORDS: usize = 4;

/// Maximum single commands of containers that are kept to be shared.
const MOST_SHARED: usize = 1024;

/// The room that is left.
#[derive(Debug)]
pub(crate) struct Room {
    commands: Cell<usize>,
    growth: Cell<usize>,
    /// Short commands of containers that run nothing else, by their hashes.
    shared: RefCell<ByHash<Commands>>,
}

impl Default for Room {
    fn default() -> Self {
        Self { commands: Cell::new(COMMANDS), growth: Cell::new(GROWTH), shared: RefCell::default() }
    }
}

/// The commands of a container. Containers with the same short command share one copy: there may be a hundred
/// thousand that run nothing, or one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commands(Rc<[Command]>);

impl Deref for Commands {
    type Target = [Command];

    fn deref(&self) -> &[Command] {
        &self.0
    }
}

impl<'c> IntoIterator for &'c Commands {
    type Item = &'c Command;
    type IntoIter = slice::Iter<'c, Command>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// The reason why a part of an object's command lines was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// A bound of one script or command was exceeded.
    Bound(Bound),
    /// There are more commands than there is room for.
    Commands,
    /// There is more text with replaced variables than there is room for.
    Growth,
}

impl Beyond {
    /// Returns a message about what was not judged, without a period.
    #[must_use]
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Bound(Bound::Command) => {
                "a command is longer than 64 KiB: what is behind that was not judged"
            }
            Self::Bound(Bound::Nesting) => {
                "the script is nested deeper than 64 levels: what comes from there on was not judged"
            }
            Self::Bound(Bound::Variables) => {
                "the script sets more than 1,024 variables, or one with a very long name: what depends on \
                 their values was not judged"
            }
            Self::Commands => {
                "the scripts have more commands than are kept at once: some programs were not judged"
            }
            Self::Growth => {
                "variables replaced in commands take more than 1 MiB: what depends on the rest was not judged"
            }
        }
    }
}

impl Room {
    /// Takes room for a command, if there is enough. A command that no rule looks for by name must leave
    /// `RESERVED`.
    pub(super) fn keeps(&self, command: usize, is_named: bool) -> bool {
        let left = self.commands.get();
        let needed = if is_named { command } else { command + RESERVED };
        let fits = needed <= left;
        if fits {
            self.commands.set(left - command);
        }
        fits
    }

    /// Keeps the commands of a container; a single short command is shared.
    pub(super) fn shared(&self, commands: Vec<Command>) -> Commands {
        let [Command { words, .. }] = &*commands else { return Commands(commands.into()) };
        if words.len() > FEW_WORDS {
            return Commands(commands.into());
        }
        let mut hasher = hash::keyed();
        words.iter().for_each(|token| token.word.text.as_str().hash(&mut hasher));
        let hash = hasher.finish();
        let mut shared = self.shared.borrow_mut();
        if let Some(known) = shared.get(&hash).filter(|known| known[..] == commands[..]) {
            return known.clone();
        }
        let kept = Commands(commands.into());
        if shared.len() < MOST_SHARED {
            shared.entry(hash).or_insert_with(|| kept.clone());
        }
        kept
    }

    /// Returns the room of commands that are not kept after all.
    pub(super) fn give_back(&self, commands: &[Command]) {
        let bytes: usize = commands.iter().map(Command::size).sum();
        self.commands.set((self.commands.get() + bytes).min(COMMANDS));
    }

    /// Takes room for text that has grown, if there is enough. The value of a variable must leave half of it for
    /// commands.
    pub(super) fn grows(&self, by: usize, is_value: bool) -> bool {
        let left = self.growth.get();
        let needed = if is_value { by + GROWTH / 2 } else { by };
        let fits = needed <= left;
        if fits {
            self.growth.set(left - by);
        }
        fits
    }
}
