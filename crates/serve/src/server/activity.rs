//! The state of one connection, shared by its socket, its requests, its watchdog and the list of all
//! connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::connections::{Class, OpenConnections};

/// How long an answer may be unread before its connection can be evicted.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the TLS handshake.
    Handshake,
    /// Waiting for the first byte of a request.
    Idle,
    /// Waiting for the rest of its headers.
    Head,
    /// Reading the body of a request; its own deadlines apply.
    Body,
    /// A request is being answered; its own deadlines apply.
    Busy,
    /// Waiting for the client to take the answer.
    Writing,
    /// Asked to end.
    Closing,
}

impl Phase {
    const ALL: [Self; 7] =
        [Self::Handshake, Self::Idle, Self::Head, Self::Body, Self::Busy, Self::Writing, Self::Closing];
    const BITS: u32 = 3;
}

/// Why a connection is asked to make room, which determines when it may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// It has not served. It stays if it has now, or is about to.
    Unserved = 1,
    /// It was idle. It stays if it is not.
    Idle = 2,
    /// It is slow with a body or an answer. It stays if it has finished.
    Slow = 3,
}

/// The state of a connection. Times are milliseconds since `origin`.
#[derive(Debug)]
pub(super) struct Activity {
    origin: Instant,
    /// The phase in the low bits, the time it began above them.
    state: AtomicU64,
    /// Requests without an answer yet.
    active: AtomicU32,
    /// Those of them whose body is not complete.
    incomplete: AtomicU32,
    served: AtomicBool,
    listed_as_served: AtomicBool,
    eviction: AtomicU8,
    pub(super) wake: Notify,
    /// The address of the client.
    pub(super) source: IpAddr,
    id: u64,
    guests: OpenConnections,
}

impl Activity {
    pub(super) fn new(guests: OpenConnections, id: u64, source: IpAddr) -> Self {
        Self {
            origin: Instant::now(),
            state: AtomicU64::new(Phase::Handshake as u64),
            active: AtomicU32::new(0),
            incomplete: AtomicU32::new(0),
            served: AtomicBool::new(false),
            listed_as_served: AtomicBool::new(false),
            eviction: AtomicU8::new(0),
            wake: Notify::new(),
            source,
            id,
            guests,
        }
    }

    pub(super) fn origin(&self) -> Instant {
        self.origin
    }

    /// Returns milliseconds since `origin`.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the phase, and when it began.
    pub(super) fn get(&self) -> (Phase, u64) {
        let state = self.state.load(Relaxed);
        let phase = Phase::ALL[(state as usize & ((1 << Phase::BITS) - 1)) % Phase::ALL.len()];
        // Streams of an HTTP/2 connection run on several threads: the counts are exact, the phase may be
        // late.
        let active = self.active.load(Relaxed);
        let phase = match phase {
            Phase::Closing => phase,
            _ if active == 0 => phase,
            _ if self.incomplete.load(Relaxed) >= active => Phase::Body,
            _ => Phase::Busy,
        };
        (phase, state >> Phase::BITS)
    }

    pub(super) fn phase(&self) -> Phase {
        self.get().0
    }

    /// Enters a phase now.
    pub(super) fn set(&self, phase: Phase) {
        self.state.store(self.now() << Phase::BITS | phase as u64, Relaxed);
        self.classify();
    }

    /// Returns whether it has sent a successful answer.
    pub(super) fn served(&self) -> bool {
        self.served.load(Relaxed)
    }

    /// Updates its class in the list of connections, which depends on the phase until it has served.
    fn classify(&self) {
        // It stays in that class, so connections that serve do not need the lock.
        if self.listed_as_served.load(Relaxed) {
            return;
        }
        let class = || match self.phase() {
            _ if self.served() => {
                self.listed_as_served.store(true, Relaxed);
                Class::Served
            }
            Phase::Handshake | Phase::Head | Phase::Closing => Class::Opening,
            Phase::Idle => Class::Unused,
            Phase::Body | Phase::Writing => Class::Sending,
            Phase::Busy => Class::Answering,
        };
        self.guests.classify(self.id, class);
    }

    /// Returns when it last became idle, if it is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.since(|phase| phase == Phase::Idle)
    }

    /// Returns since when it has been waiting for the client to send a body or read an answer, if it is.
    pub(super) fn slow_since(&self) -> Option<Instant> {
        self.since(|phase| phase == Phase::Body || phase == Phase::Writing && self.is_stuck())
    }

    fn since(&self, phases: impl Fn(Phase) -> bool) -> Option<Instant> {
        let (phase, since) = self.get();
        phases(phase).then(|| self.origin + Duration::from_millis(since))
    }

    fn is_stuck(&self) -> bool {
        Duration::from_millis(self.now().saturating_sub(self.get().1)) >= ANSWER_GRACE
    }

    /// Asks the connection to make room.
    pub(super) fn evict(&self, eviction: Eviction) {
        self.eviction.store(eviction as u8, SeqCst);
        self.wake.notify_one();
    }

    /// Returns whether it has been asked to make room.
    pub(super) fn is_evicted(&self) -> bool {
        self.eviction.load(SeqCst) != 0
    }

    /// Returns whether it must make room, now that its state is known. If not, it is put back into the list.
    pub(super) fn gives_way(&self) -> bool {
        let eviction = self.eviction.load(SeqCst);
        let phase = self.phase();
        let (unserved, idle, slow) = (Eviction::Unserved as u8, Eviction::Idle as u8, Eviction::Slow as u8);
        let leaves = match phase {
            _ if eviction == 0 => false,
            Phase::Closing => true,
            Phase::Busy => false,
            Phase::Idle => eviction == idle || eviction == unserved && !self.served(),
            Phase::Handshake | Phase::Head => eviction == unserved && !self.served(),
            Phase::Body => eviction == slow || eviction == unserved && !self.served(),
            Phase::Writing => (eviction == slow || eviction == unserved) && self.is_stuck(),
        };
        if !leaves && eviction != 0 {
            self.eviction.store(0, SeqCst);
            self.guests.keep(self.id);
        }
        leaves
    }
}

/// An open request of a connection.
pub(super) struct Serving {
    activity: Arc<Activity>,
    then: Phase,
}

impl Serving {
    /// Begins a request; `then` is the phase after its answer. The second value must be dropped when its body
    /// is complete.
    pub(super) fn begin(activity: &Arc<Activity>, then: Phase) -> (Self, Incomplete) {
        activity.incomplete.fetch_add(1, Relaxed);
        if activity.active.fetch_add(1, Relaxed) == 0 && activity.phase() != Phase::Closing {
            activity.set(Phase::Busy);
        } else {
            activity.classify();
        }
        (Self { activity: activity.clone(), then }, Incomplete(activity.clone()))
    }

    /// Records that the answer is successful.
    pub(super) fn succeeded(&self) {
        self.activity.served.store(true, Relaxed);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.activity.active.fetch_sub(1, Relaxed) == 1 && self.activity.phase() != Phase::Closing {
            self.activity.set(self.then);
        } else {
            self.activity.classify();
        }
    }
}

/// A body that is not complete yet.
pub(super) struct Incomplete(Arc<Activity>);

impl Drop for Incomplete {
    fn drop(&mut self) {
        self.0.incomplete.fetch_sub(1, Relaxed);
        self.0.classify();
    }
}
