//! `jobgate completions`: a shell completion script.

use std::io::{self, Write};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::args::Cli;

/// Writes the completion script of a shell.
///
/// # Errors
/// `out` cannot be written.
pub fn run(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    // The generator panics if a write fails, as into a closed pipe, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "jobgate", &mut script);
    out.write_all(&script)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_learns_of_every_command() {
        for shell in Shell::value_variants() {
            let mut out = Vec::new();
            run(*shell, &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            for word in ["lint", "completions", "fail-on"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
