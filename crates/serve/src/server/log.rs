//! Logging that never delays a review.
//!
//! A line is formatted by the caller and put into a bounded queue; one thread writes the queue to standard
//! error. If the queue is full (a pipe that nobody reads), the line is dropped and counted.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::server::metrics::Metrics;

/// Lines queued for a slow reader. At some 300 bytes a line this is about a megabyte.
const MAX_QUEUED_LINES: usize = 4096;
/// How long [`Guard`] waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    #[default]
    Json,
    /// Human-readable text.
    Text,
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Writes the lines that are still queued when it is dropped.
#[derive(Debug)]
#[must_use = "lines are lost unless this is kept until the end of the program"]
pub struct Guard(SyncSender<Message>);

impl Drop for Guard {
    fn drop(&mut self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The thread could not be started.
    #[error("start the thread that writes the log")]
    Thread(#[source] io::Error),
    /// There is a subscriber already.
    #[error("set the log's subscriber")]
    Subscriber(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Sends the program's `tracing` events, and its panics, to standard error.
///
/// # Errors
/// If the writing thread cannot be started, or a global subscriber is set already.
pub fn start(format: Format, filter: EnvFilter, metrics: &Metrics) -> Result<Guard, LogError> {
    let (queue, messages) = mpsc::sync_channel(MAX_QUEUED_LINES);
    std::thread::Builder::new()
        .name("log".into())
        .spawn(move || write_all(&messages, standard_error()))
        .map_err(LogError::Thread)?;
    let lines = LogLines { queue: queue.clone(), dropped: metrics.log_lines_dropped() };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(lines);
    match format {
        Format::Json => tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish()),
        Format::Text => tracing::subscriber::set_global_default(builder.with_ansi(false).finish()),
    }
    .map_err(LogError::Subscriber)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        tracing::error!(place, text = text.unwrap_or("not a string"), "panic");
    }));
    Ok(Guard(queue))
}

/// Returns the unfiltered standard error: fields in log lines are quoted, so nothing in them acts as a
/// command.
#[expect(clippy::disallowed_methods, reason = "a log is no text of the command line")]
fn standard_error() -> io::Stderr {
    io::stderr()
}

/// Writes lines until every sender is gone. Errors are not reported: there is nowhere left to report them to.
fn write_all(messages: &Receiver<Message>, mut out: impl Write) {
    for message in messages {
        match message {
            Message::Line(line) => drop(out.write_all(&line)),
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

#[derive(Clone, Debug)]
struct LogLines {
    queue: SyncSender<Message>,
    dropped: Counter,
}

impl Write for &LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.queue.try_send(Message::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.inc();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_reader_that_has_stopped_costs_lines_and_no_time() {
        let metrics = Metrics::new();
        let (queue, _messages) = mpsc::sync_channel(2);
        let lines = LogLines { queue, dropped: metrics.log_lines_dropped() };
        let start = Instant::now();
        for _ in 0..100 {
            (&lines).write_all(b"{}\n").unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(1));
        assert!(metrics.text().contains("jobgate_log_lines_dropped_total 98\n"));
    }

    #[test]
    fn the_last_lines_are_written_before_the_guard_is_gone() {
        let (read, write) = io::pipe().unwrap();
        let (queue, messages) = mpsc::sync_channel(8);
        let writer = std::thread::spawn(move || write_all(&messages, write));
        let lines = LogLines { queue: queue.clone(), dropped: Counter::default() };
        (&lines).write_all(b"one\n").unwrap();
        drop(Guard(queue));
        drop(lines);
        writer.join().unwrap();
        assert_eq!(io::read_to_string(read).unwrap(), "one\n");
    }
}
