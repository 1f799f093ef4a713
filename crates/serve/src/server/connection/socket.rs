//! The sockets: one with a cap until its handshake is over, and one that tracks the state of HTTP/1 on it.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::InvalidMessage;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::server::activity::{Activity, Phase};
use crate::server::framing::{Framing, Misframed};
use crate::server::metrics::Metrics;

/// What hyper sees instead of a badly framed request: a byte that is not valid in a head, and the end of the
/// head. It answers 400.
const MISFRAMED: &[u8] = b"\0\r\n\r\n";

/// A socket that knows whether unread data has arrived.
pub(in crate::server) trait Arrivals {
    /// Asks the operating system instead of the runtime, which notices data later.
    fn has_arrivals(&self) -> bool;
}

impl Arrivals for TcpStream {
    fn has_arrivals(&self) -> bool {
        SockRef::from(self).peek(&mut [MaybeUninit::uninit()]).is_ok()
    }
}

impl Arrivals for TlsStream<Capped> {
    fn has_arrivals(&self) -> bool {
        self.get_ref().0.stream.has_arrivals()
    }
}

/// A socket from which no more bytes are read than a handshake needs. rustls would buffer 64 KiB of an
/// endless one, for each connection.
pub(in crate::server) struct Capped {
    stream: TcpStream,
    left: usize,
}

impl Capped {
    pub(in crate::server) fn new(stream: TcpStream, bytes: usize) -> Self {
        Self { stream, left: bytes }
    }

    /// Removes the cap.
    pub(in crate::server) fn release(&mut self) {
        self.left = usize::MAX;
    }
}

impl AsyncRead for Capped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.left < usize::MAX {
            let error = || {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    rustls::Error::from(InvalidMessage::HandshakePayloadTooLarge),
                )
            };
            self.left = self.left.checked_sub(buffer.filled().len() - before).ok_or_else(error)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Capped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A socket that reports to [`Activity`] what an HTTP/1 connection is doing, and passes on no request whose
/// end is ambiguous.
pub(super) struct ObservedSocket<IO> {
    io: IO,
    activity: Arc<Activity>,
    metrics: Metrics,
    framing: Framing,
    /// The rest of [`MISFRAMED`] that hyper has not read.
    refusal: &'static [u8],
    /// Bytes that are still read after a refusal, so that the answer is not lost when the connection is
    /// closed while the client sends.
    discard: usize,
    shut_down: bool,
}

impl<IO: AsyncRead + Arrivals + Unpin> AsyncRead for ObservedSocket<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.framing.refused() {
            return this.poll_refusal(buffer);
        }
        let before = buffer.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buffer) {
            Poll::Ready(result) => result?,
            Poll::Pending => {
                if this.activity.is_evicted()
                    && this.activity.phase() == Phase::Idle
                    && this.io.has_arrivals()
                {
                    this.activity.set(Phase::Head);
                }
                return Poll::Pending;
            }
        }
        let arrived = &buffer.filled()[before..];
        if !arrived.is_empty() && this.activity.phase() == Phase::Idle {
            this.activity.set(Phase::Head);
        }
        if let Err(Misframed(at)) = this.framing.scan(arrived) {
            this.metrics.connection_closed("framing");
            this.refusal = MISFRAMED;
            buffer.set_filled(before + at);
            return this.poll_refusal(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO> ObservedSocket<IO> {
    /// `discard` is how many bytes are read after a rejection.
    pub(super) fn new(io: IO, activity: Arc<Activity>, metrics: Metrics, discard: usize) -> Self {
        let framing = Framing::default();
        Self { io, activity, metrics, framing, refusal: &[], discard, shut_down: false }
    }

    fn poll_refusal(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (now, later) = self.refusal.split_at(self.refusal.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.refusal = later;
        // Nothing to wait for: hyper has all that it needs to end the connection.
        if now.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Enters [`Phase::Writing`] if the connection was idle: the client is reading its answer.
    fn wrote(&self) {
        if self.activity.phase() == Phase::Idle {
            self.activity.set(Phase::Writing);
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ObservedSocket<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.wrote();
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bytes))?;
        self.wrote();
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        if self.activity.phase() == Phase::Writing {
            // The next request may have begun in the same data.
            self.activity.set(if self.framing.in_head() { Phase::Head } else { Phase::Idle });
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut_down {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            this.shut_down = true;
            if this.framing.refused() {
                this.activity.set(Phase::Closing);
            }
        }
        while this.framing.refused() && this.discard > 0 {
            let mut scratch = [MaybeUninit::uninit(); 4096];
            let mut scratch = ReadBuf::uninit(&mut scratch);
            ready!(Pin::new(&mut this.io).poll_read(cx, &mut scratch))?;
            if scratch.filled().is_empty() {
                break;
            }
            this.discard = this.discard.saturating_sub(scratch.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}
