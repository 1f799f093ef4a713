//! `jobgate man`: the manual page, from the definition of the command line.

use std::io::{self, Write};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::cli::args::Cli;

/// Writes the manual page: the program, then each command with its options.
///
/// # Errors
/// `out` cannot be written.
pub fn run(out: &mut dyn Write) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    let page = Man::new(command.clone()).section("1");
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        section(sub, out)?;
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

/// Writes the page of a command as a section.
fn section(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_description_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_options_section(&mut text)?;
    page.render_extra_section(&mut text)?;
    writeln!(out, ".SH \"{}\"", command.get_bin_name().unwrap_or(command.get_name()).to_uppercase())?;
    for line in String::from_utf8_lossy(&text).lines() {
        match line.strip_prefix(".SH ") {
            Some("DESCRIPTION") => {}
            Some(heading) => writeln!(out, ".SS {heading}")?,
            None => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_section() {
        let mut out = Vec::new();
        run(&mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for text in [
            ".TH jobgate 1",
            ".SH \"JOBGATE LINT\"",
            "fail\\-on",
            "max\\-file\\-size",
            ".SH \"JOBGATE MAN\"",
            "Exit codes",
        ] {
            assert!(page.contains(text), "{text} is not in\n{page}");
        }
    }
}
