//! What the events of a script do, in words.

use super::super::meta::Propagation;
use super::super::time::Time;
use super::{ControllerName, DashboardEvent, Script, ScriptEvent, Target};
use crate::text::value::Value;

impl Script {
    /// Returns the events, in order of time, each in words.
    #[must_use]
    pub fn happens(&self) -> Vec<(Time, String)> {
        self.events.iter().map(|(at, event)| (*at, event.words())).collect()
    }
}

impl ScriptEvent {
    fn words(&self) -> String {
        match self {
            Self::Patch(Target::Main, patch) => format!("the `spec` gets {patch}"),
            Self::Patch(target, patch) => format!("the `spec` of {target} gets {patch}"),
            Self::Merge(target, patch) => format!("{target} gets {patch}"),
            Self::Delete(target, Propagation::Background) => format!("{target} is deleted, then its pods"),
            Self::Delete(target, Propagation::Foreground) => format!("{target} is deleted, its pods first"),
            Self::Delete(target, Propagation::Orphan) => format!("{target} is deleted, without its pods"),
            Self::Create(object) => {
                let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
                format!("{} {} is made", text("/kind"), text("/metadata/name"))
            }
            Self::Phase(target, phase) => format!("{target} gets the phase {phase:?}"),
            Self::Command(action) => format!("somebody asks for {action}"),
            Self::RefusePods(true) => "the API server refuses new pods".to_owned(),
            Self::RefusePods(false) => "the API server takes new pods again".to_owned(),
            Self::Dashboard(DashboardEvent::Down) => "the Ray dashboard stops answering".to_owned(),
            Self::Dashboard(DashboardEvent::Up) => "the Ray dashboard answers again".to_owned(),
            Self::Dashboard(DashboardEvent::Forget) => "the Ray dashboard forgets its programs".to_owned(),
            Self::Dashboard(DashboardEvent::Stop) => "somebody stops the programs of Ray".to_owned(),
            Self::Stop(name) => format!("{name} goes away"),
            Self::Start(name) => format!("{name} comes back"),
            Self::Restart(name) => format!("{name} starts again"),
        }
    }
}

impl std::fmt::Display for ControllerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Job => "the Job controller",
            Self::CronJob => "the CronJob controller",
            Self::Operator => "the operator",
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Main => f.write_str("the object"),
            Self::Run(number) => write!(f, "the Job {number} of the CronJob"),
            Self::Object { kind, name: Some(name) } => write!(f, "{kind} {name}"),
            Self::Object { kind, name: None } => write!(f, "the {kind}"),
            Self::Pod { role, index: Some(index) } => write!(f, "the pod {role} {index}"),
            Self::Pod { role, index: None } => write!(f, "the pod {role}"),
        }
    }
}
