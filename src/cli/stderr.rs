//! Standard error: everything that goes there goes through this module.
//!
//! Messages include untrusted names and texts from files. They must not control a terminal, hide from their reader, or
//! give commands to a CI runner, which reads what a step prints.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;

use crate::judge::settings::SettingsErrors;
use crate::report::{clean, clean_lines};

/// Returns standard error for a report or its progress, whose texts are clean.
#[expect(clippy::disallowed_methods, reason = "this is where all others get it")]
pub(super) fn stream() -> io::Stderr {
    io::stderr()
}

/// Tells whether standard error is a terminal.
pub(super) fn is_seen() -> bool {
    stream().is_terminal()
}

/// Writes a line with the name of the program.
pub(super) fn say(text: &str) -> io::Result<()> {
    writeln!(stream().lock(), "jobgate: {}", clean(text))
}

/// Writes a line.
pub(super) fn tell(text: &str) -> io::Result<()> {
    writeln!(stream().lock(), "{}", clean(text))
}

/// Writes an error with its causes.
pub fn fail(error: &anyhow::Error) {
    // If this fails, there is nowhere left to report it.
    let _ = writeln!(stream().lock(), "jobgate: {}", in_full(error));
}

/// Writes an error in the arguments, which may be untrusted names of files.
///
/// Only help, and errors with nothing to clean, keep their colours.
pub fn refuse(error: &clap::Error) {
    let plain = error.render().to_string();
    let cleaned = clean_lines(&plain);
    if !error.use_stderr() || cleaned == plain {
        let _ = error.print();
    } else {
        let _ = write!(stream().lock(), "{cleaned}");
    }
}

/// Writes a panic, which may quote a text.
pub fn panicked(panic: &PanicHookInfo<'_>) {
    let _ = say(&panic.to_string().replace(":\n", ": "));
}

/// Returns an error with its causes, clean. Errors in settings are one per line.
pub(super) fn in_full(error: &anyhow::Error) -> String {
    let one = |cause: &(dyn std::error::Error + 'static)| {
        let text = cause.to_string();
        match cause.downcast_ref::<SettingsErrors>() {
            Some(_) => text.lines().map(clean).collect::<Vec<_>>().join("\n"),
            None => clean(&text).into_owned(),
        }
    };
    error.chain().map(one).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;
    use crate::judge::policy::Policy;

    #[test]
    fn an_error_is_one_line_whatever_is_in_it() {
        let error = anyhow::anyhow!("it is\n::error::bad")
            .context("read d\n::stop-commands::x ##[stop-commands]x\u{1b}[31m");
        assert_eq!(in_full(&error), "read d␊::stop-commands::x ## [stop-commands]x␛[31m: it is␊::error::bad");
        assert_eq!(in_full(&anyhow::anyhow!("::error::bad")), ": :error::bad");
    }

    #[test]
    fn errors_in_settings_are_one_a_line() {
        let source =
            "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {a: 1, b: 2}\n";
        let error = Policy::parse(source, "p").context("the policy is not valid").unwrap_err();
        let text = in_full(&error);
        assert_eq!((text.lines().count(), text == format!("{error:#}")), (2, true), "{text}");
    }
}
