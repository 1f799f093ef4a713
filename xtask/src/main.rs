//! `cargo xtask`: tasks for the developers of Jobgate.

mod deploy;
mod generate;
mod pages;
mod schemas;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jobgate::cli::stderr;

use crate::generate::GenerateOutcome;

/// What only developers of Jobgate run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskArguments {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Write the files of this repository that are made from the code
    Generate {
        /// Only list files that are not up to date
        #[arg(long)]
        check: bool,
    },
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Exits like `jobgate`: with 1 for stale files, with 2 if it could not run.
fn main() -> ExitCode {
    let XtaskArguments { task: XtaskCommand::Generate { check } } = XtaskArguments::parse();
    match generate::run(root(), check, &mut io::stdout()) {
        Ok(GenerateOutcome::UpToDate) => ExitCode::SUCCESS,
        Ok(GenerateOutcome::Stale) => ExitCode::from(1),
        Err(error) => {
            stderr::fail(&error);
            ExitCode::from(2)
        }
    }
}
