//! The command `jobgate`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::Parser as _;
#[cfg(feature = "serve")]
use jobgate::cli::Certs;
use jobgate::cli::{Cli, Color, Command, Policy};
use jobgate::cmd::{self, Exit};
use mimalloc::MiMalloc;

/// Reviews and documents are trees of small values, made and dropped: a sixth of a review's time is saved, and threads do not wait for each other.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => Exit::Clean.into(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "jobgate: {error:#}");
            Exit::Failed.into()
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    let color = match cli.color {
        Color::Auto => AutoStream::choice(&io::stdout()),
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let mut out = AutoStream::new(io::stdout(), color);
    let exit = match &cli.command {
        Command::Lint(args) => cmd::lint::run(args, color != ColorChoice::Never)?,
        Command::DryRun(args) => cmd::dry_run::run(args, color != ColorChoice::Never)?,
        #[cfg(feature = "serve")]
        Command::Audit(args) => cmd::audit::run(args, color != ColorChoice::Never)?,
        #[cfg(feature = "serve")]
        Command::Doctor(args) => cmd::doctor::run(args, &mut out)?,
        #[cfg(feature = "serve")]
        Command::Serve(args) => cmd::serve::run(args, &mut out)?,
        Command::Review(args) => cmd::review::command(args, &mut out)?,
        Command::Explain { rule } => cmd::explain::run(rule.as_deref(), &mut out)?,
        Command::Policy(Policy::Check { files }) => cmd::policy::check(files, Some(cmd::today()), &mut out)?,
        Command::Policy(Policy::Export { vap: _, policy, namespace }) => cmd::policy::export(policy, namespace, Some(cmd::today()), &mut out)?,
        Command::Policy(Policy::Show { name }) => cmd::policy::show(name.as_deref(), &mut out)?,
        #[cfg(feature = "serve")]
        Command::Certs(Certs::Init(args)) => cmd::certs::init(args, &mut out)?,
        Command::Completions { shell } => cmd::completions::run(*shell, &mut out).map(|()| Exit::Clean)?,
        Command::Man => cmd::man::run(&mut out).map(|()| Exit::Clean)?,
        Command::Generate { check, root } => cmd::generate::run(root, *check, &mut out)?,
    };
    out.flush()?;
    Ok(exit)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
