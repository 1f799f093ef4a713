//! The plain second port: `/healthz`, `/readyz`, `/metrics`.
//!
//! Nothing here takes a body, and nothing here waits for the API server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;

use super::metrics::{CONTENT_TYPE, Metrics};

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What must hold for the server to be sent requests. Clones share the checks.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<Vec<(&'static str, Check)>>>);

impl Readiness {
    /// Adds a check. It is called for every probe, and must not block.
    pub fn require(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(check)));
    }

    /// Returns whether every check holds, and a line for each.
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

pub(super) fn router(readiness: Readiness, metrics: Metrics) -> Router {
    let ready = move || async move {
        let (ready, lines) = readiness.report();
        (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines)
    };
    let metrics = move || async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.text()).into_response() };
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready)).route("/metrics", get(metrics))
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
        assert_eq!(readiness.report(), (false, "ok certificate\nfailed policy: not loaded\nok claims\n".into()));
    }
}
