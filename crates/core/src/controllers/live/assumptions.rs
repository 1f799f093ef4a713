//! What is assumed of an object beside its program: what neither its status nor its pods say.

use super::super::incident::Duration;
use super::super::time::Time;
use super::object::LiveObject;

/// Returns how long ago something was, in whole seconds.
pub(super) fn ago(at: Time) -> Duration {
    Duration(Time::from_seconds((Time::START - at).millis().div_euclid(1_000)))
}

/// Returns names in words: the first, and how many more.
pub(super) fn named(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

impl LiveObject {
    /// Returns what is assumed of it, a sentence each.
    #[must_use]
    pub fn assumed(&self) -> Vec<String> {
        match self.kind {
            "VolcanoJob" => self.assumed_of_volcano(),
            "RayCluster" | "RayJob" => self.assumed_of_ray(),
            _ => Vec::new(),
        }
    }
}
