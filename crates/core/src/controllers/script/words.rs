//! What the events of a script do, in words.

use super::super::cluster::Propagation;
use super::super::time::Time;
use super::{ControllerName, Script, ScriptEvent};

impl Script {
    /// Returns the events, in order of time, each in words.
    #[must_use]
    pub fn happens(&self) -> Vec<(Time, String)> {
        self.events.iter().map(|(at, event)| (*at, event.words())).collect()
    }
}

impl ScriptEvent {
    fn words(&self) -> String {
        let of = |name: &ControllerName| match name {
            ControllerName::Job => "the Job controller",
            ControllerName::CronJob => "the CronJob controller",
        };
        match self {
            Self::Patch(patch) => format!("the `spec` gets {patch}"),
            Self::Delete(Propagation::Background, _) => "the Job is deleted, then its pods".to_owned(),
            Self::Delete(Propagation::Foreground, _) => "the Job is deleted, its pods first".to_owned(),
            Self::Delete(Propagation::Orphan, _) => "the Job is deleted, without its pods".to_owned(),
            Self::RefusePods(true) => "the API server refuses new pods".to_owned(),
            Self::RefusePods(false) => "the API server takes new pods again".to_owned(),
            Self::Stop(name) => format!("{} goes away", of(name)),
            Self::Start(name) => format!("{} comes back", of(name)),
        }
    }
}
