//! The plain second port: `/healthz`, `/readyz`, `/metrics`.
//!
//! Requests here have no body, and never wait for the API server. A separate thread answers, so that probes
//! and reviews do not delay each other. Anyone in the cluster may reach the port: a connection gets one
//! answer and little time, and when there are too many, the oldest without an answer is closed, of the
//! address that has most. The kubelet takes a few milliseconds for a probe.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::Acceptor;
use super::connection::{ServerStage, Surroundings};
use super::metrics::{CONTENT_TYPE, Metrics};
use crate::server::limits::Limits;

/// Limits of open connections, in all and from one address.
const MAX_CONNECTIONS: usize = 512;
const MAX_CONNECTIONS_PER_SOURCE: usize = 64;
/// How long a client may take to begin its request, and to finish it. Probes have a default timeout of 1 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the threads that serve reviews report that they run, and after how long they count as hanging.
const PULSE_INTERVAL: Duration = Duration::from_secs(1);
const PULSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Printed metrics are reused for this many times the duration of printing, which bounds its share of a core.
const METRICS_PAUSE: u32 = 20;

type ReadinessCheck = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks of `/readyz`. Clones share them.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<Vec<(&'static str, ReadinessCheck)>>>);

impl Readiness {
    /// Adds a check. It is called for every probe, and must not block.
    pub fn require(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(check)));
    }

    /// Returns whether every check passes, and a line for each.
    fn report(&self) -> (bool, String) {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ready = true;
        let lines = checks.iter().map(|(name, check)| match check() {
            Ok(()) => format!("ok {name}\n"),
            Err(why) => {
                ready = false;
                format!("failed {name}: {why}\n")
            }
        });
        let lines = lines.collect();
        (ready, lines)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Readiness").field(&self.report()).finish()
    }
}

/// The thread that answers probes. It ends when this is dropped.
pub(super) struct Probes {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
    pulse: JoinSet<()>,
}

impl Probes {
    /// Starts to answer.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start(listener: TcpListener, readiness: Readiness, metrics: Metrics) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let pulse = Pulse::default();
        let beat = pulse.clone();
        let serve = move || {
            // Probes are served to the end: they report that the server is stopping.
            let (_stage, stages) = watch::channel(ServerStage::Serving);
            let router = router(readiness, metrics.clone(), pulse);
            let around = Surroundings { router, limits: Arc::new(limits()), metrics, stages, once: true };
            if let Err(error) = answer(listener, around, stopped) {
                tracing::error!(%error, "cannot answer probes");
            }
            drop(end);
        };
        std::thread::Builder::new().name("probes".to_owned()).spawn(serve)?;
        let mut pulse = JoinSet::new();
        pulse.spawn(async move {
            loop {
                beat.beat();
                tokio::time::sleep(PULSE_INTERVAL).await;
            }
        });
        Ok(Self { stop, ended, pulse })
    }

    /// Stops it, and waits for its end.
    pub(super) async fn stop(self) {
        let Self { stop, ended, pulse } = self;
        drop((stop, pulse));
        let _ = ended.await;
    }
}

/// Answers on this thread until the sender of `stopped` is dropped.
fn answer(listener: TcpListener, around: Surroundings, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut acceptor = Acceptor::new(tokio::net::TcpListener::from_std(listener)?, None, around);
        tokio::select! {
            () = acceptor.accept() => {}
            _ = stopped => {}
        }
        Ok(())
    })
}

fn limits() -> Limits {
    Limits {
        connections: MAX_CONNECTIONS,
        connections_per_source: MAX_CONNECTIONS_PER_SOURCE,
        idle: REQUEST_TIMEOUT,
        header: REQUEST_TIMEOUT,
        write: REQUEST_TIMEOUT,
        close: REQUEST_TIMEOUT,
        // A body is not expected here.
        body_bytes: 64 << 10,
        ..Limits::default()
    }
}

/// When the threads that serve reviews last ran, in milliseconds since `origin`.
#[derive(Clone, Debug)]
struct Pulse {
    origin: Instant,
    last: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { origin: Instant::now(), last: Arc::default() }
    }
}

impl Pulse {
    fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_missing(&self) -> bool {
        Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed))) > PULSE_TIMEOUT
    }
}

/// The metrics as they were printed last.
#[derive(Debug, Default)]
struct Printed(Option<(Bytes, Instant)>);

impl Printed {
    /// Prints them, unless they were printed a moment ago.
    fn text(&mut self, metrics: &Metrics) -> Bytes {
        let began = Instant::now();
        if let Some((text, _)) = self.0.as_ref().filter(|(_, until)| began < *until) {
            return text.clone();
        }
        let text = Bytes::from(metrics.text());
        self.0 = Some((text.clone(), Instant::now() + METRICS_PAUSE * began.elapsed()));
        text
    }
}

fn router(readiness: Readiness, metrics: Metrics, pulse: Pulse) -> Router {
    let healthy = move || async move {
        if pulse.is_missing() {
            (StatusCode::SERVICE_UNAVAILABLE, "hangs\n")
        } else {
            (StatusCode::OK, "ok\n")
        }
    };
    let ready = move || async move {
        let (ready, lines) = readiness.report();
        (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines)
    };
    let printed = Arc::new(Mutex::new(Printed::default()));
    let metrics = move || async move {
        let text = printed.lock().unwrap_or_else(PoisonError::into_inner).text(&metrics);
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
    };
    Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_enough() {
        let readiness = Readiness::default();
        assert_eq!(readiness.report(), (true, String::new()));
        readiness.require("certificate", || Ok(()));
        readiness.require("policy", || Err("not loaded".into()));
        readiness.require("claims", || Ok(()));
        assert_eq!(
            readiness.report(),
            (false, "ok certificate\nfailed policy: not loaded\nok claims\n".into())
        );
    }
}
