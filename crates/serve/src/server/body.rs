//! Reads the body of a request, after reserving memory for it.
//!
//! The capacity of the buffer is counted; while it grows, both the old and the new one are. hyper's own
//! buffer is never kept: a few bytes of it can keep many from being freed, so each piece is copied and
//! released.
//!
//! Bodies of ordinary size have their own memory, enough for one on every connection; larger ones cannot take
//! it. A body must make progress: one that is too slow, too late or in too many pieces is cut off, which
//! frees its memory.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout_at};

use super::pool::{Pool, Portion};
use crate::server::limits::Limits;
use crate::server::metrics::Metrics;

/// Bytes kept of a body that is too large, in which the application finds the uid.
pub(super) const PREFIX_BYTES: usize = 4096;
/// Size of the first buffer of a body of unknown length.
const FIRST_BUFFER: usize = 4096;
/// Number of pieces that any body may have, whatever its length.
const FREE_PIECES: usize = 1024;

/// The address at the other end of the connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// A complete body and its memory; an empty body has none.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Bytes,
    pub(super) memory: Option<Portion>,
}

/// Why a body is not complete.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The connection broke, or the body is not valid.
    Broken,
    /// It is too large: the first bytes, and the unread rest.
    TooLarge(Bytes, Body),
    /// There is no memory for it now: the cause to count, the first bytes, and the unread rest.
    NoMemory(&'static str, Bytes, Body),
    /// It was not complete at the deadline of its review: the first bytes, and the unread rest.
    Late(Bytes, Body),
    /// It was too slow, or in too many pieces: the cause to count.
    Unreasonable(&'static str),
}

impl BodyError {
    /// Returns the word used in logs and metrics.
    pub(super) fn cause(&self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::TooLarge(..) => "too-large",
            Self::Late(..) => "late",
            Self::NoMemory(cause, ..) | Self::Unreasonable(cause) => cause,
        }
    }
}

/// The memory of all bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    limits: Arc<Limits>,
    small: Pool,
    large: Pool,
}

impl Bodies {
    pub(super) fn new(limits: Arc<Limits>, metrics: &Metrics) -> Self {
        let held = metrics.body_bytes();
        Self {
            small: Pool::new(
                limits.small_body_memory(),
                limits.connections_per_source * limits.inline_bytes,
                held.clone(),
            ),
            large: Pool::new(limits.body_memory, limits.body_memory_per_source, held),
            limits,
        }
    }

    /// Reads a complete body, until `deadline`.
    pub(super) async fn read(
        &self,
        mut body: Body,
        source: IpAddr,
        deadline: Instant,
    ) -> Result<Received, BodyError> {
        let limits = &*self.limits;
        let hint = body.size_hint();
        // A body that is declared too large is read only as far as the uid.
        let declared_too_large = hint.lower() > limits.body_bytes as u64;
        let cap = if declared_too_large { PREFIX_BYTES.min(limits.body_bytes) } else { limits.body_bytes };
        let declared =
            hint.exact().and_then(|length| usize::try_from(length).ok()).filter(|_| !declared_too_large);
        let mut buffer = Buffer { bytes: Vec::new(), memory: None };
        let mut pace = BodyPace::new(limits, Instant::now());
        let mut alarm = std::pin::pin!(sleep_until(pace.due.min(deadline).into()));
        let mut pieces = 0;
        loop {
            let frame = tokio::select! {
                // Data takes precedence over the clock: a busy server must not mistake its own delay for a
                // slow client.
                biased;
                () = buffer.revoked() => {
                    return Err(BodyError::NoMemory("memory-revoked", prefix(&buffer.bytes, &[]), body));
                }
                frame = body.frame() => frame,
                () = alarm.as_mut(), if !body.is_end_stream() => {
                    let now = Instant::now();
                    if now >= deadline {
                        return Err(BodyError::Late(prefix(&buffer.bytes, &[]), body));
                    }
                    if now >= pace.due {
                        return Err(BodyError::Unreasonable("slow"));
                    }
                    alarm.as_mut().reset(pace.due.min(deadline).into());
                    continue;
                }
            };
            let data = match frame {
                None => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    tracing::debug!(%error, "body not read");
                    return Err(BodyError::Broken);
                }
            };
            let held = buffer.bytes.len();
            if data.len() > cap - held {
                return Err(BodyError::TooLarge(prefix(&buffer.bytes, &data), body));
            }
            if held + data.len() > buffer.bytes.capacity() {
                let capacity = capacity(
                    limits,
                    held + data.len(),
                    buffer.bytes.capacity(),
                    declared.unwrap_or(cap),
                    declared.is_some(),
                );
                let patience = (Instant::now() + limits.body_queue).min(deadline);
                if let Err(cause) = buffer.grow(self, source, capacity, patience).await {
                    return Err(BodyError::NoMemory(cause, prefix(&buffer.bytes, &data), body));
                }
                // The client could not send while we waited.
                pace = BodyPace::new(limits, Instant::now());
            }
            buffer.bytes.extend_from_slice(&data);
            if body.is_end_stream() {
                // Only its end is missing; unless it is read, the connection cannot be reused.
                continue;
            }
            pieces += 1;
            if pieces > FREE_PIECES + buffer.bytes.len() / limits.body_piece {
                return Err(BodyError::Unreasonable("pieces"));
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(BodyError::Late(prefix(&buffer.bytes, &[]), body));
            }
            pace.advance(now, data.len());
        }
        let memory = buffer.memory.map(|(mut memory, _)| {
            memory.keep();
            memory
        });
        Ok(Received { bytes: buffer.bytes.into(), memory })
    }

    /// Keeps reading for a while and discards the data: a client that is still sending when the connection is
    /// closed would not see the answer.
    pub(super) fn discard(&self, mut body: Body) {
        let limits = self.limits.clone();
        tokio::spawn(async move {
            let mut left = limits.body_bytes;
            let begin = Instant::now();
            let (end, mut pace) = (begin + limits.header, BodyPace::new(&limits, begin));
            while let Ok(Some(Ok(frame))) = timeout_at(pace.due.min(end).into(), body.frame()).await {
                let (now, bytes) = (Instant::now(), frame.data_ref().map_or(0, Bytes::len));
                // A small piece costs as much as a larger one.
                left = left.saturating_sub(bytes.max(limits.body_piece));
                if left == 0 || now >= end {
                    break;
                }
                pace.advance(now, bytes);
            }
        });
    }
}

/// Returns a copy of the first bytes of the stored data and the data that was received but not stored.
fn prefix(received: &[u8], more: &[u8]) -> Bytes {
    let mut prefix = received[..received.len().min(PREFIX_BYTES)].to_vec();
    prefix.extend_from_slice(&more[..more.len().min(PREFIX_BYTES - prefix.len())]);
    prefix.into()
}

/// Returns the size of the next buffer: at most twice what is needed, so that a declared length that is never
/// sent takes no more memory than an ordinary body, and no more than the body can have.
fn capacity(limits: &Limits, need: usize, now: usize, most: usize, declared: bool) -> usize {
    let first = if declared { limits.inline_bytes } else { FIRST_BUFFER };
    need.max(2 * now).max(first).min(most.max(need))
}

/// The received part of a body.
struct Buffer {
    bytes: Vec<u8>,
    /// The memory of `bytes`, and the signal to return it.
    memory: Option<(Portion, oneshot::Receiver<()>)>,
}

impl Buffer {
    /// Moves to a larger buffer; the old one counts until it is freed. The error is the cause to count.
    async fn grow(
        &mut self,
        bodies: &Bodies,
        source: IpAddr,
        capacity: usize,
        patience: Instant,
    ) -> Result<(), &'static str> {
        let pool = if capacity > bodies.limits.inline_bytes { &bodies.large } else { &bodies.small };
        let over_cap = pool.is_over_cap(source, capacity);
        let granted = tokio::select! {
            biased;
            granted = timeout_at(patience.into(), pool.take(source, capacity)) => granted,
            () = self.revoked() => return Err("memory-revoked"),
        };
        let mut memory = granted.map_err(|_| if over_cap { "memory-per-source" } else { "memory" })?;
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(&self.bytes);
        self.bytes = larger;
        let revoked = memory.revocable();
        self.memory = Some((memory, revoked));
        Ok(())
    }

    /// Waits until the memory is revoked for others.
    async fn revoked(&mut self) {
        let asked = match &mut self.memory {
            Some((_, revoked)) => revoked.await.is_ok(),
            None => false,
        };
        if !asked {
            std::future::pending::<()>().await;
        }
    }
}

/// How much longer a body may make no progress.
///
/// Each byte buys time at the minimum rate, up to [`Limits::body_grace`]: neither a trickle nor a burst
/// before a long silence counts as progress.
#[derive(Debug)]
struct BodyPace {
    due: Instant,
    grace: Duration,
    rate: usize,
}

impl BodyPace {
    fn new(limits: &Limits, now: Instant) -> Self {
        Self { due: now + limits.body_grace, grace: limits.body_grace, rate: limits.body_rate.max(1) }
    }

    fn advance(&mut self, now: Instant, bytes: usize) {
        let bought = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        self.due = (self.due + bought).min(now + self.grace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_at_most_twice_what_came_or_that_of_an_ordinary_body() {
        let limits = Limits::default();
        let sizes = |length: usize, declared: bool| {
            let most = if declared { length } else { limits.body_bytes };
            let (mut sizes, mut now) = (Vec::new(), 0);
            while now < length {
                now = capacity(&limits, now + 1, now, most, declared);
                sizes.push(now);
            }
            sizes
        };
        assert_eq!(sizes(2, true), [2]);
        assert_eq!(sizes(60_000, true), [60_000]);
        assert_eq!(sizes(300_000, true), [65_536, 131_072, 262_144, 300_000]);
        assert_eq!(sizes(10_000, false), [4096, 8192, 16_384]);
        assert_eq!(*sizes(limits.body_bytes, false).last().unwrap(), limits.body_bytes);
        // A piece that is larger than all that gets what it needs.
        assert_eq!(capacity(&limits, 20_000, 4096, limits.body_bytes, false), 20_000);
    }

    #[test]
    fn progress_buys_time_and_saves_none_up() {
        let limits = Limits { body_grace: Duration::from_secs(1), body_rate: 1000, ..Limits::default() };
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = BodyPace::new(&limits, start);
        assert_eq!(pace.due, at(1000));
        pace.advance(at(500), 1);
        assert_eq!(pace.due, at(1001), "a trickle ends");
        pace.advance(at(900), 400);
        assert_eq!(pace.due, at(1401));
        pace.advance(at(1000), 30 << 20);
        assert_eq!(pace.due, at(2000), "and so does a silence after a burst");
        for ms in (1500..100_000).step_by(500) {
            assert!(at(ms) < pace.due);
            pace.advance(at(ms), 500);
        }
    }
}
