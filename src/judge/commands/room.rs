//! How much may be kept of what the containers of one object run.
//!
//! Commands are many times as large as their text, and so is text in which variables are replaced. An object
//! has room for far more than anybody writes; a hostile one cannot make an evaluation large.

use std::cell::Cell;

use super::Command;
use crate::text::shell::Bound;

/// Bytes for commands. A short one takes some two hundred.
const COMMANDS: usize = 4 << 20;

/// What is left of the room for commands when only those are kept that a rule looks at by their names.
const RESERVED: usize = COMMANDS / 2;

/// Bytes by which text may grow where variables are replaced.
const GROWTH: usize = 1 << 20;

/// The room that is left.
#[derive(Debug)]
pub struct Room {
    commands: Cell<usize>,
    growth: Cell<usize>,
}

impl Default for Room {
    fn default() -> Self {
        Self { commands: Cell::new(COMMANDS), growth: Cell::new(GROWTH) }
    }
}

/// Something of an object's command lines that was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// What a bound of one script or command leaves out.
    Bound(Bound),
    /// More commands than there is room for.
    Commands,
    /// More text than there is room for where variables are replaced.
    Growth,
}

impl Beyond {
    /// Says what was not judged, without a period.
    #[must_use]
    pub fn message(self) -> &'static str {
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
    /// Takes room for a command, if there is some. One that no rule looks at by its name leaves a part.
    pub(super) fn keeps(&self, command: usize, is_named: bool) -> bool {
        let left = self.commands.get();
        let needed = if is_named { command } else { command + RESERVED };
        let fits = needed <= left;
        if fits {
            self.commands.set(left - command);
        }
        fits
    }

    /// Gives back the room of commands that are not kept after all.
    pub(super) fn give_back(&self, commands: &[Command]) {
        let bytes: usize = commands.iter().map(Command::size).sum();
        self.commands.set((self.commands.get() + bytes).min(COMMANDS));
    }

    /// Takes room for text that has grown, if there is some. The value of a variable leaves a half to commands.
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
