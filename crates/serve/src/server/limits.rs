//! The limits of the server, and the memory that they add up to.

use std::time::Duration;

/// The limits of the server. The fields give their defaults, and the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. When there are as many, one makes room for a new one: first one without a successful
    /// answer, of the address that has most of those; else the one that has been idle longest, of the address
    /// that has most. 512.
    pub connections: usize,
    /// Open connections from one address, so that one pod cannot take them all. 256.
    pub connections_per_source: usize,
    /// TLS handshakes computed at the same time. Each keeps a core busy, longer with an RSA key than with an
    /// ECDSA key; the other cores stay free for reviews, and addresses take turns. 1.
    pub handshakes: usize,
    /// Reviews evaluated at the same time. 64.
    pub in_flight: usize,
    /// Reviews evaluated at the same time, each on a thread of its own: those that are not light, and those
    /// that take more than `inline_steps`. An address may have three of them, at most two of them heavy; one
    /// is for light reviews only. 4.
    pub long_reviews: usize,
    /// Maximum time that a review waits for its turn before it is put off with 429. While it waits, it keeps
    /// its place in the queue; one that was put off has none. It waits at most two thirds of its time; the
    /// rest is for its evaluation. 1.25 s: of the 3 s of `/validate` half a second is left for a second try.
    pub queue: Duration,
    /// Maximum time to wait for the memory for a body before its review is put off with 429. 500 ms.
    pub body_queue: Duration,
    /// How long a connection may be idle: longer than the 90 s after which the API server closes it. 150 s.
    pub idle: Duration,
    /// How long a TLS handshake may take. 5 s.
    pub handshake: Duration,
    /// How long headers may take from their first byte. 5 s.
    pub header: Duration,
    /// Maximum size of the headers, in bytes. 16 KiB.
    pub header_bytes: usize,
    /// Maximum number of header fields. 64.
    pub header_fields: usize,
    /// Size of the read buffer of a connection, in bytes. A TLS record is 16 KiB. 64 KiB.
    pub connection_buffer: usize,
    /// Size of the receive buffer of a socket, in bytes; the system uses twice as much. It counts as memory
    /// of the container, and would grow to some MiB while nothing is read. 48 KiB: 24 MB/s over a
    /// millisecond.
    pub receive_buffer: usize,
    /// Size of the send buffer of a socket, in bytes; as above. 16 KiB.
    pub send_buffer: usize,
    /// How long a body may make no progress (see `body_rate`). A busy API server may pause for some tenths of
    /// a second. A body always ends at the deadline of its review. 1 s.
    pub body_grace: Duration,
    /// Minimum rate of a body, in bytes a second: each byte buys the time it takes at this rate, up to
    /// `body_grace`. An API server sends a hundred times as fast. 64 KiB/s.
    pub body_rate: usize,
    /// Minimum size of the pieces (HTTP chunks, frames or TLS records) of a body, on average beyond the first
    /// 1024: a piece of one byte costs as much time as one of a thousand. 64 bytes.
    pub body_piece: usize,
    /// Maximum size of a body, in bytes. An object of 3 MiB and its old version can take 27 MiB of escaped
    /// JSON. 32 MiB.
    pub body_bytes: usize,
    /// Memory for all bodies above `inline_bytes` together, in bytes of their buffers. Smaller ones have
    /// their own ([`small_body_memory`](Self::small_body_memory)). 80 MiB: two of the largest while the buffer
    /// of one grows.
    pub body_memory: usize,
    /// How much of `body_memory` one address may use. 64 MiB: one of the largest while its buffer grows from
    /// 16 to 32 MiB, or ten of an update of 3 MiB, more than are evaluated at the same time. If the memory is
    /// full, an address below this limit takes some from the address that uses most, so that no address can
    /// hoard it.
    pub body_memory_per_source: usize,
    /// Memory for the evaluation of reviews that are not light together, in bytes by
    /// [`Application::weight`](super::Application::weight); a single one that needs more is rejected. 176
    /// MiB: a new object of 3 MiB, the largest that the API server accepts, in the most costly shape, or an
    /// update of one of 1.5 MiB, the largest that etcd accepts.
    pub evaluation_memory: usize,
    /// Memory for the evaluation of light reviews together, by
    /// [`Application::weight`](super::Application::weight). 32 MiB: `in_flight` of ordinary size, or eight of
    /// the heaviest.
    pub light_evaluation_memory: usize,
    /// The weight up to which a review is light, whatever the size of its body: that of a body of 64 KiB in
    /// the most costly shape, or of half a megabyte of text. 4 MiB.
    pub light: usize,
    /// Bodies up to this size are weighed on the thread that reads them, and evaluated there if they are
    /// light, within `inline_steps`. Weighing takes a microsecond for a KiB. 256 KiB.
    pub weighed_bytes: usize,
    /// Bodies up to this size have memory of their own, so that large ones cannot take it. 64 KiB.
    pub inline_bytes: usize,
    /// Steps of [`jobgate_core::text::meter`] after which an evaluation is started again on its own thread: under two
    /// milliseconds. A step takes up to 100 ns; an ordinary review takes some 500 steps, and one whose rules ask what would
    /// happen up to some 10,000. To start again costs as much as to go on. 16,000.
    pub inline_steps: u64,
    /// How long an answer may take, however long the API server would wait. 2.5 s.
    pub review: Duration,
    /// How long before the API server gives up we answer; at most a quarter of its timeout. 200 ms.
    pub margin: Duration,
    /// How long the client may take to accept bytes of an answer. 10 s.
    pub write: Duration,
    /// How long a connection may take to close. 5 s.
    pub close: Duration,
    /// Time between TCP keep-alive probes (and HTTP/2 pings). 15 s.
    pub keep_alive: Duration,
    /// How long to accept connections after the order to stop. 10 s.
    pub drain_accept: Duration,
    /// How long to wait for open requests after that. 20 s.
    pub drain: Duration,
    /// How long a connection without a request may take to send one, once the listener is closed. 2 s.
    pub first_request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            connections_per_source: 256,
            handshakes: 1,
            in_flight: 64,
            long_reviews: 4,
            queue: Duration::from_millis(1250),
            body_queue: Duration::from_millis(500),
            idle: Duration::from_secs(150),
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            header_bytes: 16 << 10,
            header_fields: 64,
            connection_buffer: 64 << 10,
            receive_buffer: 48 << 10,
            send_buffer: 16 << 10,
            body_grace: Duration::from_secs(1),
            body_rate: 64 << 10,
            body_piece: 64,
            body_bytes: 32 << 20,
            body_memory: 80 << 20,
            body_memory_per_source: 64 << 20,
            evaluation_memory: 176 << 20,
            light_evaluation_memory: 32 << 20,
            light: 4 << 20,
            weighed_bytes: 256 << 10,
            inline_bytes: 64 << 10,
            inline_steps: 16_000,
            review: Duration::from_millis(2500),
            margin: Duration::from_millis(200),
            write: Duration::from_secs(10),
            close: Duration::from_secs(5),
            keep_alive: Duration::from_secs(15),
            drain_accept: Duration::from_secs(10),
            drain: Duration::from_secs(20),
            first_request: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// Memory of a process with its certificate, policy and the claims of a large cluster, in bytes: some 12
    /// MiB without claims, 18 MiB for 5,000 of them; and of the scripts of `long_reviews`, which the weights
    /// of reviews do not include: 5 MiB each.
    const PROCESS: usize = 48 << 20;
    /// Memory of a connection without its bodies, in bytes: TLS, headers, and the answer being sent.
    const CONNECTION: usize = 64 << 10;

    /// Returns the memory for all bodies up to `inline_bytes`: one on each connection.
    #[must_use]
    pub(crate) const fn small_body_memory(&self) -> usize {
        self.connections * self.inline_bytes
    }

    /// Returns the memory that a process with these limits takes at most, in bytes. The memory limit of the
    /// container must be above it.
    ///
    /// | | |
    /// |---|---|
    /// | the process itself, with policy, certificate and claims | 48 MiB |
    /// | connections: 512 of 64 KiB | 32 MiB |
    /// | buffers of the system for them: 512 of twice 48 KiB and twice 16 KiB | 64 MiB |
    /// | small bodies: one of 64 KiB on each connection | 32 MiB |
    /// | large bodies | 80 MiB |
    /// | evaluation of light reviews | 32 MiB |
    /// | evaluation of heavy reviews | 176 MiB |
    /// | what the allocator rounds up, or has yet to give back: an eighth of connections, bodies and evaluation | 44 MiB |
    /// | together | 508 MiB |
    #[must_use]
    pub const fn memory_ceiling(&self) -> usize {
        let system = self.connections * 2 * (self.receive_buffer + self.send_buffer);
        let connections = self.connections * Self::CONNECTION;
        let bodies = self.small_body_memory() + self.body_memory;
        let evaluation = self.light_evaluation_memory + self.evaluation_memory;
        let bounded = connections + bodies + evaluation;
        Self::PROCESS + system + bounded + bounded / 8
    }
}
