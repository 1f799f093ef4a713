//! Reads shell scripts as far as it takes to know which commands run, in which order and with which words.
//!
//! It is exact or silent: what the text alone does not tell ([`UNKNOWN`], [`SPREADS`]) stays unknown, and a
//! script with a syntax error, or with syntax that is not read, gives no commands at all. The grammar is that
//! of bash, of which what dash reads is a part. Reading takes time in proportion to the script, whatever is in
//! it: an admission webhook reads scripts of strangers, and this is why no general parser is used, whose
//! recursion follows the input.

mod expand;
mod lex;
mod parse;
mod simple;
mod variables;

use std::ops::Range;

pub use variables::Variables;

/// Stands in a word for a part that is known only when the script runs.
pub const UNKNOWN: char = '\u{E000}';
/// Stands in a word for a part that is known only when the script runs, and may be several words or none.
pub const SPREADS: char = '\u{E001}';

/// A word of a command, without quotes and with known variables replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text; [`UNKNOWN`] and [`SPREADS`] stand for what is unknown.
    pub text: String,
    /// Its bytes in the script.
    pub span: Range<usize>,
    /// Whether it was written without quotes, escapes or expansions: only such a word is reserved.
    pub(crate) plain: bool,
}

impl Word {
    /// Returns the text if all of it is known.
    #[must_use]
    pub fn known(&self) -> Option<&str> {
        (!self.text.contains([UNKNOWN, SPREADS])).then_some(self.text.as_str())
    }

    /// Returns the text up to the first unknown part.
    #[must_use]
    pub fn start(&self) -> &str {
        self.text.split([UNKNOWN, SPREADS]).next().unwrap_or_default()
    }

    /// Tells whether it may be several words or none.
    #[must_use]
    pub fn spreads(&self) -> bool {
        self.text.contains(SPREADS)
    }
}

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: it is the last of its list.
    End,
    /// `;` or a new line: the next one runs in any case.
    Next,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|`.
    Pipe,
    /// `&`.
    Background,
}

/// A command with its words, or a compound command's place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simple {
    /// The words, the program first; empty for assignments alone.
    pub words: Vec<Word>,
    /// What comes after it.
    pub after: After,
    /// Where it is among compound commands.
    pub place: Place,
}

/// Where a command is among compound commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In how many compound commands it is; 0 at the top of the script.
    pub depth: usize,
    /// Whether it may not run: in a branch, a function, or behind `||`.
    pub branch: bool,
    /// The innermost loop that it is in, by its index in [`Script::loops`].
    pub in_loop: Option<usize>,
    /// Whether it is the condition of a loop or branch.
    pub condition: bool,
}

/// A loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Its bytes in the script.
    pub span: Range<usize>,
    /// Whether its condition never ends it: `while true`, `while :`, `until false`, `for ((;;))`.
    pub endless: bool,
    /// Whether a command in it may end it: `break`, `exit`, `return`, `exec`, `kill`.
    pub leaves: bool,
    /// Whether it is at the top of the script, with nothing behind it.
    pub last: bool,
}

/// What a script does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its commands, in the order of the text.
    pub commands: Vec<Simple>,
    /// Its loops, in the order of the text.
    pub loops: Vec<Loop>,
    /// Whether a command or loop at the top is the last thing in it, by its index in `commands`.
    pub last: Option<usize>,
    /// Whether a pipeline fails with any of its commands when the script ends (`set -o pipefail`).
    pub pipefail: bool,
    /// Whether the script ends at the first command that fails (`set -e`).
    pub errexit: bool,
}

impl Script {
    /// Reads a script. Nothing for one with a syntax error, or that is nested too deeply.
    #[must_use]
    pub fn read(text: &str, variables: &mut Variables<'_>) -> Option<Self> {
        parse::script(text, variables)
    }
}

#[cfg(test)]
mod tests;
