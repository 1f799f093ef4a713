//! A Job of a cluster, or an object of an operator, at a moment: its state, what it waits for, and a world that continues from
//! there.
//!
//! No clock is read: the caller passes the moment. All times count from it, and earlier ones are negative.

mod assumptions;
mod backoff;
pub(super) mod fields;
mod groups;
#[cfg(test)]
mod hostile_tests;
mod job;
#[cfg(test)]
mod kubectl_output;
mod object;
mod object_story;
#[cfg(test)]
mod object_tests;
mod object_waits;
mod owners;
mod parts;
mod place;
mod pod;
mod pod_waits;
mod ray;
#[cfg(test)]
mod resumed_tests;
mod script;
mod snapshot;
mod story;
#[cfg(test)]
mod tests;
mod volcano;
mod wait;
mod waits;

pub use job::{LiveCondition, LiveJob};
pub use object::{LiveEnd, LiveObject, RoleCount, live_kind};
pub use object_story::{lower_object, tell_object, tell_object_otherwise};
pub use owners::label_of;
pub use pod::LivePod;
pub use script::from_now;
pub use snapshot::{LiveParts, LiveSnapshot, is_live};
pub use story::{LiveOutcome, LiveScript, lower, tell, tell_otherwise};
pub use wait::{Wait, WaitFor};
