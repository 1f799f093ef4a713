//! How a running server is told to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What a server has been told. It only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Nothing: serve.
    #[default]
    No,
    /// Finish: answer what has come and what still comes, then end.
    Drain,
    /// End at once.
    Now,
}

/// Returns a channel that says [`Stop::Drain`] after the first SIGTERM or SIGINT, and [`Stop::Now`] after the
/// second.
///
/// # Errors
/// If the process cannot install signal handlers.
pub fn on_signals() -> io::Result<watch::Receiver<Stop>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(Stop::No);
    tokio::spawn(async move {
        for stop in [Stop::Drain, Stop::Now] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!(
                signal = name,
                "{}",
                if stop == Stop::Drain { "draining" } else { "stopping at once" }
            );
            sender.send_replace(stop);
        }
    });
    Ok(receiver)
}
