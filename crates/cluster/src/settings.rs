//! How claims and other objects are looked up.

use std::fmt;
use std::time::Duration;

use crate::client::in_cluster;

/// How claims and other objects are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Keep all claims and runtimes of the cluster in memory by a watch, and ask the API server for those that are missing
    /// there. Needs get, list and watch.
    Cache,
    /// Ask the API server for each claim and runtime. Needs get.
    Live,
    /// Look nothing up: all claims and runtimes are unknown. Needs no token and no permission.
    Off,
}

impl Mode {
    /// Returns the default mode: [`Mode::Cache`] in a cluster, [`Mode::Off`] outside one.
    #[must_use]
    pub fn by_default() -> Self {
        if in_cluster() { Self::Cache } else { Self::Off }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cache => "cache",
            Self::Live => "live",
            Self::Off => "off",
        })
    }
}

/// The settings of the look-ups; [`Settings::default`] is what the server uses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long all look-ups of one review may take together, within the review's own deadline.
    pub budget: Duration,
    /// Maximum number of claims requested from the API server in one review, the most important first. Others
    /// that are not in the cache are unknown, and the author gets a warning. Answers from memory do not
    /// count. Of other objects, so many are looked up, wherever the answer comes from.
    pub requests_per_review: usize,
    /// Concurrent requests.
    pub parallel: usize,
    /// Requests per second for all reviews together, from any client; beyond, a claim is unknown.
    pub requests_per_second: u32,
    /// Requests that may be sent at once after a quiet time. Half of them are reserved for claims that may
    /// cause a denial.
    pub request_burst: u32,
    /// The same for parents, which have a separate limit: a review names at most one parent, so an API server
    /// that creates that many objects can also answer that many requests.
    pub parents_per_second: u32,
    /// `request_burst` for parents.
    pub parent_burst: u32,
    /// How long an answer that an object exists is used.
    pub known_for: Duration,
    /// How long an answer that an object does not exist is used.
    pub absent_for: Duration,
    /// How long to use an answer that was requested because the watch is not open: no longer than the time
    /// between the two reviews of one request.
    pub confirmed_for: Duration,
    /// Failures in a row that open the circuit breaker.
    pub failures: u32,
    /// How long the circuit breaker stays open.
    pub open_for: Duration,
    /// After this time without contact with the API server the cache is not used. Longer than a watch may be
    /// silent.
    pub stale_after: Duration,
    /// Claims on one page of a list.
    pub page_size: u32,
    /// How long one page, or the opening of a watch, may take.
    pub list_timeout: Duration,
    /// How long a watch is requested for, or a little less. On a quiet cluster its end is the only message
    /// from the API server, and so bounds how long a dead connection goes unnoticed.
    pub watch_for: Duration,
    /// How much later a watch may end; a silent one is closed then.
    pub watch_grace: Duration,
    /// After a gap between watches longer than this, the next watch is only used after this time, when the
    /// events of the gap have arrived.
    pub catch_up: Duration,
    /// The first pause after a failed list or watch; it doubles from there.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// A repeated list starts at a random time within this span.
    pub relist_spread: Duration,
    /// How long [`crate::Claims::ready`] waits for the first list.
    pub startup_wait: Duration,
    /// With more claims than this, the cache is not used and each claim is read by itself.
    pub max_claims: usize,
    /// With more bytes than this of other objects of one kind, their cache is not used either.
    pub max_object_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget: Duration::from_millis(300),
            requests_per_review: 16,
            parallel: 32,
            requests_per_second: 50,
            request_burst: 100,
            parents_per_second: 500,
            parent_burst: 1000,
            known_for: Duration::from_secs(5),
            absent_for: Duration::from_secs(1),
            confirmed_for: Duration::from_millis(250),
            failures: 5,
            open_for: Duration::from_secs(10),
            stale_after: Duration::from_secs(90),
            page_size: 500,
            list_timeout: Duration::from_secs(30),
            watch_for: Duration::from_secs(60),
            watch_grace: Duration::from_secs(15),
            catch_up: Duration::from_secs(1),
            first_pause: Duration::from_millis(800),
            longest_pause: Duration::from_secs(30),
            relist_spread: Duration::from_secs(10),
            startup_wait: Duration::from_secs(10),
            max_claims: 200_000,
            max_object_bytes: 16 << 20,
        }
    }
}
