//! The order to stop a running server.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The order to a server. It only ever increases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Serve.
    #[default]
    No,
    /// Answer open and new requests, then end.
    Drain,
    /// End at once.
    Now,
}

/// Returns a channel that becomes [`Stop::Drain`] after the first SIGTERM or SIGINT, and [`Stop::Now`] after
/// the second.
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
