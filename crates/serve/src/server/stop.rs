//! The order to stop a running server.

use std::io;

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

/// Returns a channel that becomes [`Stop::Drain`] after the first SIGTERM or SIGINT (on Windows: Ctrl-C), and
/// [`Stop::Now`] after the second.
///
/// # Errors
/// If the process cannot install signal handlers.
pub fn on_signals() -> io::Result<watch::Receiver<Stop>> {
    let mut signals = StopSignals::new()?;
    let (sender, receiver) = watch::channel(Stop::No);
    tokio::spawn(async move {
        for stop in [Stop::Drain, Stop::Now] {
            let name = signals.next().await;
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

/// The signals that ask a process to end.
#[cfg(unix)]
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StopSignals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal, and returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The signals that ask a process to end.
#[cfg(windows)]
struct StopSignals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl StopSignals {
    fn new() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    /// Waits for a signal, and returns its name.
    async fn next(&mut self) -> &'static str {
        self.0.recv().await;
        "CTRL_C"
    }
}
