//! Reads shell scripts as far as it takes to know which commands run, in which order and with which words.
//!
//! The result is exact or missing: what the text alone does not determine ([`UNKNOWN`], [`SPREADS`]) stays
//! unknown, and a script with a syntax error, or with unsupported syntax, yields nothing at all. The grammar is
//! that of bash, which includes what dash reads.
//!
//! An admission webhook reads untrusted scripts. So a script is read once, as a stream: [`read`] shows one
//! command after another and keeps none, and their words are borrowed from the script unless something is
//! expanded in them. Time grows no faster than the script, and memory is bounded: one command
//! ([`MAX_COMMAND_BYTES`]), the commands and substitutions open around it ([`MAX_NESTING`]), and variables
//! ([`MAX_VARIABLES`]). Everything beyond these bounds is unknown, and reported by [`End::beyond`].

mod compound;
mod expand;
mod lex;
mod parse;
mod simple;
mod variables;
mod word;

pub use variables::{Assigned, Variables};
pub use word::{Piece, SPREADS, UNKNOWN, Word};

/// The most bytes of words of one command that are kept. Further words are unknown.
pub const MAX_COMMAND_BYTES: usize = 64 << 10;

/// The deepest nesting of compound commands and substitutions. Reading ends at anything deeper.
pub(crate) const MAX_NESTING: usize = 64;

/// The most variables whose values are kept. With one more, all values are unknown.
pub(crate) const MAX_VARIABLES: usize = 1024;

/// A bound that a script exceeds.
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
    /// The number of compound commands around it; 0 at the top of the script.
    pub depth: usize,
    /// Whether it may not run: in a branch, a function, or after `||`.
    pub branch: bool,
    /// The innermost loop that it is in, by its number in the script.
    pub in_loop: Option<usize>,
    /// Whether it is the condition of a loop or branch.
    pub condition: bool,
    /// Whether it is in the body of a function.
    pub in_function: bool,
    /// Whether it is in another process than the script's shell: in `( … )`, a coprocess, or after `|`.
    pub in_subshell: bool,
    /// What comes after the compound command right before it, if one is there.
    pub behind: Option<After>,
    /// Whether something before it in the text runs on in the background.
    pub started: bool,
}

/// A loop at the top of a script, with nothing after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Whether its condition never ends it: `while true`, `while :`, `until false`, `for ((;;))`.
    pub endless: bool,
    /// Whether a command in it may end it: `break`, `exit`, `return`, `exec`, `kill`.
    pub leaves: bool,
    /// Whether it has a command outside inner loops: the last one that heads a loop ([`Simple::heads_loop`]).
    pub has_head: bool,
}

/// What is known about a script once its end is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The loop that is the last thing in it, at the top.
    pub last_loop: Option<Loop>,
    /// Whether a pipeline fails with any of its commands when the script ends (`set -o pipefail`).
    pub pipefail: bool,
    /// Whether the script ends at the first command that fails (`set -e`).
    pub errexit: bool,
    /// The first bound that the script exceeds.
    pub beyond: Option<Bound>,
    /// Whether reading ended before the end of the script, at [`Bound::Nesting`].
    pub is_cut: bool,
}

/// The script has a syntax error, or unsupported syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the script cannot be read")]
pub struct Unreadable;

/// Reads a script, and shows its commands in the order of the text. A command is shown once the next one is
/// read, since only then is it known what comes after it.
///
/// # Errors
/// The script has a syntax error, or unsupported syntax. Ignore the commands that were shown before.
pub fn read<'t>(
    text: &'t str,
    variables: &mut Variables<'_>,
    show: &mut dyn FnMut(&Simple<'t>),
) -> Result<End, Unreadable> {
    parse::script(text, variables, show)
}

#[cfg(test)]
mod tests;
