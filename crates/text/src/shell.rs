//! Reads shell scripts as far as it takes to know which commands run, in which order and with which words.
//!
//! It is exact or silent: what the text alone does not tell ([`UNKNOWN`], [`SPREADS`]) stays unknown, and a
//! script with a syntax error, or with syntax that is not read, says nothing at all. The grammar is that of
//! bash, of which what dash reads is a part.
//!
//! An admission webhook reads scripts of strangers. So a script is read once, as a stream: [`read`] shows one
//! command after another, with words that are borrowed from the script unless something is expanded in them,
//! and keeps none. Time grows with the script and not faster, and what is kept at once is bounded: one command
//! ([`MAX_COMMAND_BYTES`]), what is open around it ([`MAX_NESTING`]), and variables ([`MAX_VARIABLES`]). What
//! is beyond these bounds is unknown, and [`End::beyond`] says so.

mod compound;
mod expand;
mod lex;
mod parse;
mod simple;
mod variables;
mod word;

pub use variables::{Assigned, Variables};
pub use word::{Piece, SPREADS, UNKNOWN, Word};

/// The most bytes of words of one command that are kept. The words behind are unknown.
pub const MAX_COMMAND_BYTES: usize = 64 << 10;

/// The most compound commands and substitutions in one another. What is nested deeper ends the reading.
pub const MAX_NESTING: usize = 64;

/// The most variables whose values are kept. With one more, all values are unknown.
pub const MAX_VARIABLES: usize = 1024;

/// A bound that a script is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// [`MAX_COMMAND_BYTES`].
    Command,
    /// [`MAX_NESTING`].
    Nesting,
    /// [`MAX_VARIABLES`].
    Variables,
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

/// A command with its words.
#[derive(Debug)]
pub struct Simple<'t> {
    /// The words, the program first; empty for assignments alone.
    pub words: Vec<Word<Piece<'t>>>,
    /// What comes after it.
    pub after: After,
    /// Where it is among compound commands.
    pub place: Place,
    /// Whether it is the first command of a loop at the top of the script.
    pub heads_loop: bool,
    /// Whether no command follows it in the text.
    pub is_final: bool,
    /// Whether it is the last thing that the script does: it is final, and at the top.
    pub is_last: bool,
}

/// Where a command is among compound commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In how many compound commands it is; 0 at the top of the script.
    pub depth: usize,
    /// Whether it may not run: in a branch, a function, or behind `||`.
    pub branch: bool,
    /// The innermost loop that it is in, by its number in the script.
    pub in_loop: Option<usize>,
    /// Whether it is the condition of a loop or branch.
    pub condition: bool,
    /// Whether it is in the body of a function.
    pub in_function: bool,
    /// Whether it is in another process than the script's shell: in `( … )`, a coprocess, or behind `|`.
    pub in_subshell: bool,
    /// What comes after the compound command right before it, if one is there.
    pub behind: Option<After>,
    /// Whether something before it in the text goes on in the background.
    pub started: bool,
}

/// A loop at the top of a script, with nothing behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Whether its condition never ends it: `while true`, `while :`, `until false`, `for ((;;))`.
    pub endless: bool,
    /// Whether a command in it may end it: `break`, `exit`, `return`, `exec`, `kill`.
    pub leaves: bool,
    /// Whether a command is in it that is in no other loop: the last that was said to head a loop.
    pub has_head: bool,
}

/// What is known of a script when its end is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The loop that is the last thing in it, at the top.
    pub last_loop: Option<Loop>,
    /// Whether a pipeline fails with any of its commands when the script ends (`set -o pipefail`).
    pub pipefail: bool,
    /// Whether the script ends at the first command that fails (`set -e`).
    pub errexit: bool,
    /// The first bound that the script is beyond.
    pub beyond: Option<Bound>,
    /// Whether reading ended before the end of the script, at [`Bound::Nesting`].
    pub is_cut: bool,
}

/// A script has a syntax error, or syntax that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script cannot be read")]
pub struct Unreadable;

/// Reads a script, and shows its commands in the order of the text. A command is shown when the next one is
/// read, since what comes after it is known then.
///
/// # Errors
/// The script has a syntax error, or syntax that is not read. What was shown before counts for nothing.
pub fn read<'t>(
    text: &'t str,
    variables: &mut Variables<'_>,
    show: &mut dyn FnMut(&Simple<'t>),
) -> Result<End, Unreadable> {
    parse::script(text, variables, show)
}

#[cfg(test)]
mod tests;
