//! A Job of a cluster, as it is at a moment: where it stands, what it waits for, and a world that goes on from there.
//!
//! No clock is read: whoever asks says which moment it is. All times count from that moment, so that what was before it is
//! negative.

mod backoff;
mod fields;
mod groups;
mod job;
mod place;
mod pod;
mod script;
mod snapshot;
mod story;
#[cfg(test)]
mod tests;
mod waits;

pub use job::{LiveCondition, LiveJob};
pub use pod::LivePod;
pub use script::from_now;
pub use snapshot::{LiveSnapshot, is_live};
pub use story::{LiveOutcome, LiveScript, lower, tell, tell_otherwise};
pub use waits::{Wait, WaitFor};
