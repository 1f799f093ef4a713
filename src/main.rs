//! The command `jobgate`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::Parser as _;
#[cfg(feature = "serve")]
use jobgate::cli::args::Certs;
use jobgate::cli::args::{Cli, Color, Command, Policy};
use jobgate::cli::{self, Exit};
use mimalloc::MiMalloc;

/// Reviews and documents are trees of small values, allocated and dropped: this allocator saves a sixth of a review's
/// time, and threads do not wait for each other.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long, in milliseconds, the allocator keeps memory that nothing uses. It reads this as the process
/// starts.
#[cfg(unix)]
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Starts the program again so that the allocator returns memory at once, where it reads untrusted input. By default
/// the allocator waits a second, and then for a thread that needs it; so the memory of a peak stays, and each thread
/// has a peak of its own: twice the memory under an attack. Returns the error if it could not be started again.
#[cfg(unix)]
fn give_memory_back() -> Option<io::Error> {
    use std::os::unix::process::CommandExt as _;

    if std::env::var_os(PURGE_DELAY).is_some() {
        return None;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(error),
    };
    let mut args = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Some(command.args(args).env(PURGE_DELAY, "0").exec())
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(cli::stderr::panicked));
    let args = match Cli::try_parse() {
        Ok(args) => args,
        Err(error) => {
            cli::stderr::refuse(&error);
            return u8::try_from(error.exit_code()).map_or(Exit::Failed.into(), ExitCode::from);
        }
    };
    // If that fails, all go on, but only a server reports it, since it runs for longer.
    #[cfg(unix)]
    match &args.command {
        Command::Lint(_)
        | Command::Lsp(_)
        | Command::DryRun(_)
        | Command::Review(_)
        | Command::Simulate(_) => {
            drop(give_memory_back());
        }
        #[cfg(feature = "serve")]
        Command::Serve(_) => {
            if let Some(error) = give_memory_back() {
                let error = anyhow::Error::new(error).context("start again, to give memory back at once");
                cli::stderr::fail(&error);
            }
        }
        _ => {}
    }
    match run(&args) {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => Exit::Clean.into(),
        Err(error) => {
            cli::stderr::fail(&error);
            Exit::Failed.into()
        }
    }
}

fn run(args: &Cli) -> anyhow::Result<Exit> {
    let color = match args.color {
        Color::Auto => AutoStream::choice(&io::stdout()),
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let mut out = AutoStream::new(io::stdout(), color);
    let exit = match &args.command {
        Command::Lint(args) => cli::lint::run(args, color != ColorChoice::Never)?,
        Command::Lsp(args) => cli::lsp::run(args)?,
        Command::DryRun(args) => cli::dry_run::run(args, color != ColorChoice::Never)?,
        #[cfg(feature = "serve")]
        Command::Audit(args) => cli::audit::run(args, color != ColorChoice::Never)?,
        #[cfg(feature = "serve")]
        Command::Doctor(args) => cli::doctor::run(args, &mut out)?,
        #[cfg(feature = "serve")]
        Command::Serve(args) => cli::serve::run(args, &mut out)?,
        Command::Review(args) => cli::review::command(args, &mut out)?,
        Command::Simulate(args) => cli::simulate::command(args, &mut out)?,
        Command::Explain { rule } => cli::explain::run(rule.as_deref(), &mut out)?,
        Command::Init(args) => cli::init::run(args, &mut out)?,
        Command::New(args) => cli::new::run(args, &mut out)?,
        Command::Policy(Policy::Check { files }) => cli::policy::check(files, Some(cli::today()), &mut out)?,
        Command::Policy(Policy::Export { vap: _, policy, namespace }) => {
            cli::policy::export(policy, namespace, Some(cli::today()), &mut out)?
        }
        Command::Policy(Policy::Test(args)) => {
            cli::policy_test::run(args, color != ColorChoice::Never, &mut out)?
        }
        Command::Policy(Policy::Show { name }) => cli::policy::show(name.as_deref(), &mut out)?,
        #[cfg(feature = "serve")]
        Command::Certs(Certs::Init(args)) => cli::certs::init(args, &mut out)?,
        Command::Completions { shell } => cli::completions::run(*shell, &mut out).map(|()| Exit::Clean)?,
        Command::Man => cli::man::run(&mut out).map(|()| Exit::Clean)?,
    };
    out.flush()?;
    Ok(exit)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
