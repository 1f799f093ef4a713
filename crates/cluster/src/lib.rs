//! The cluster's facts about the claims and the other objects that a workload names.
//!
//! ```text
//!            hit, and the watch is open              found, absent, unknown
//! review ──> cache ──────────────────────────────────────> FactTable ──> engine
//!              ^ │                                             ^
//!     list + watch └─miss, or to be confirmed──> live GET ─────┘
//!                    one flight per claim, 32 at once, 16 for one review, 50 a second, a circuit breaker
//! ```
//!
//! A claim that is not in the cache may have been created a moment ago, so only the API server's own answer
//! makes it "absent". A claim that would be a reason for a denial is read again while the watch is not open,
//! as it may have been created again. If anything fails, the answer is "unknown", in time: it never denies
//! anything, and the author gets a warning.
//!
//! Other objects, such as runtimes, are looked up in the same way before claims, as runtimes decide which claims are
//! used. A cluster may lack their kinds: then they are listed again after some minutes, with no other difference.
//!
//! The last look-up is for the parent in the controlling owner reference of an object, if the account that
//! made the object is trusted with children (`judge::trust`). Only an API server's own
//! answer counts: an operator makes a child right after its parent, when no watch knows the parent yet.
//! Answers are kept by uid for seconds, so the thousand Jobs of a set cost one request, and a look-up of
//! another uid does not affect this one.
//!
//! The cache is not kube's reflector, which keeps whole objects, hides the bookmarks that distinguish a quiet
//! cluster from a dead watch, and logs every rejection. Here, a list, a watch and one byte for each claim are
//! enough.

mod access;
pub mod audit;
mod breaker;
mod causes;
mod claims;
mod client;
mod excluded;
mod facts;
pub mod fetch;
mod inventory;
pub mod jobs;
pub(crate) mod list;
mod live;
mod mirror;
mod mirrored;
mod objects;
mod parents;
mod pods;
pub mod publish;
mod rate;
mod resource;
mod settings;
mod snapshot;
mod stats;
mod store;
mod wire;

pub use self::causes::chain;
pub use self::claims::Claims;
pub use self::client::{ClientError, Connection, client_in_cluster, connection, in_cluster, is_own};
pub use self::excluded::excluded;
pub use self::mirror::{LONG_ENOUGH, Pause, chance};
pub use self::pods::{Tried, try_pods};
pub use self::settings::{Mode, Settings};
pub use self::snapshot::{Snapshot, Wanted, snapshot};
pub use self::stats::{Stats, Why};
