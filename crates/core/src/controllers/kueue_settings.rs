//! How Kueue is configured (`apis/config/v1beta2/defaults.go`).

use super::time::Time;

/// The fields of Kueue's configuration that decide what it does; the defaults are those of 0.19.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KueueSettings {
    /// Whether it is there: without it, what names a queue runs at once.
    pub is_installed: bool,
    /// `waitForPodsReady`; nothing where it is off, as by default before 0.19.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
}

/// `waitForPodsReady`: what becomes of a Workload whose pods are not all ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitForPodsReady {
    /// `timeout`: from the admission.
    pub timeout: Time,
    /// `recoveryTimeout`: from when a pod is not ready any more; nothing where that is not waited for.
    pub recovery: Option<Time>,
    /// `requeuingStrategy.backoffBaseSeconds`: the wait after the first eviction, twice as long after each more.
    pub backoff_base: Time,
    /// `requeuingStrategy.backoffMaxSeconds`.
    pub backoff_most: Time,
    /// `requeuingStrategy.backoffLimitCount`: how many evictions; nothing for no end of them.
    pub backoff_limit: Option<u32>,
}

impl WaitForPodsReady {
    /// Returns the defaults with a `timeout`; `recoveryTimeout` is the same where it is not set.
    #[must_use]
    pub const fn new(timeout: Time) -> Self {
        Self {
            timeout,
            recovery: Some(timeout),
            backoff_base: Time::from_seconds(60),
            backoff_most: Time::from_seconds(3_600),
            backoff_limit: None,
        }
    }
}

impl KueueSettings {
    /// Returns the defaults with a `timeout` of `waitForPodsReady`; nothing where that is off.
    #[must_use]
    pub fn with_wait(timeout: Option<Time>) -> Self {
        Self { wait_for_pods_ready: timeout.map(WaitForPodsReady::new), ..Self::default() }
    }

    /// Returns those of a cluster without it.
    #[must_use]
    pub(crate) fn absent() -> Self {
        Self { is_installed: false, ..Self::default() }
    }
}

impl Default for WaitForPodsReady {
    fn default() -> Self {
        Self::new(Time::from_seconds(30 * 60))
    }
}

impl Default for KueueSettings {
    fn default() -> Self {
        Self { is_installed: true, wait_for_pods_ready: Some(WaitForPodsReady::default()) }
    }
}

impl WaitForPodsReady {
    /// Returns how long a Workload waits after so many evictions.
    pub(super) fn backoff(&self, evictions: u32) -> Time {
        let mut wait = self.backoff_base;
        for _ in 1..evictions.min(32) {
            wait = (wait + wait).min(self.backoff_most);
        }
        wait.min(self.backoff_most)
    }
}
