//! The command `jobgate`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use jobgate::cli::{Cli, Command};
use jobgate::cmd::{self, Exit};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => Exit::Clean.into(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "jobgate: {error:#}");
            Exit::Failed.into()
        }
    }
}

fn run(command: &Command) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    match command {
        Command::Lint(args) => {
            drop(out);
            return cmd::lint::run(args);
        }
        Command::Completions { shell } => cmd::completions::run(*shell, &mut out)?,
        Command::Man => cmd::man::run(&mut out)?,
    }
    out.flush()?;
    Ok(Exit::Clean)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
