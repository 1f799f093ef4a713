//! What of a cluster is asked about: a Job, or an object of an operator.

use super::words::quoted;
use crate::cli::simulate::decisive_field::{Decision, decision, decision_of_object};
use crate::controllers::incident::Occurrence;
use crate::controllers::live::{
    LiveCondition, LiveJob, LiveObject, LiveOutcome, LiveScript, Wait, from_now, lower, lower_object, tell,
    tell_object, tell_object_otherwise, tell_otherwise,
};
use crate::controllers::script::Script;
use crate::controllers::story::{Assumptions, Ending, Outcome};
use crate::controllers::time::Time;
use crate::text::value::{Value, json};

/// A Job of a cluster, or an object of an operator.
#[derive(Debug)]
pub(super) enum Subject {
    Job(Box<LiveJob>),
    Object(Box<LiveObject>),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Job(job) => &job.name,
            Self::Object(object) => &object.name,
        }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Job(job) => job.namespace.as_deref(),
            Self::Object(object) => object.namespace.as_deref(),
        }
    }

    /// Returns the kind as people say it: Volcano has a `Job` of its own.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "Job",
            Self::Object(object) => object.shown_kind(),
        }
    }

    /// Returns what kubectl calls it.
    pub(super) fn resource(&self) -> String {
        match self {
            Self::Job(_) => "job".to_owned(),
            Self::Object(object) if object.kind == "VolcanoJob" => "job.batch.volcano.sh".to_owned(),
            Self::Object(object) => object.kind.to_ascii_lowercase(),
        }
    }

    /// Returns who looks at it: `the Job controller`, `training-operator`.
    pub(super) fn controller(&self) -> &'static str {
        match self {
            Self::Job(_) => "the Job controller",
            Self::Object(object) => {
                object.operator().split_once(' ').map_or("its operator", |(name, _)| name)
            }
        }
    }

    /// Returns the operator that is modelled, and its release; nothing of a Job.
    pub(super) fn operator(&self) -> Option<&'static str> {
        match self {
            Self::Job(_) => None,
            Self::Object(object) => Some(object.operator()).filter(|name| !name.is_empty()),
        }
    }

    pub(super) fn job(&self) -> Option<&LiveJob> {
        match self {
            Self::Job(job) => Some(job),
            Self::Object(_) => None,
        }
    }

    pub(super) fn created(&self) -> Time {
        match self {
            Self::Job(job) => job.created,
            Self::Object(object) => object.created,
        }
    }

    pub(super) fn start(&self) -> Option<Time> {
        match self {
            Self::Job(job) => job.status.start,
            Self::Object(object) => object.start,
        }
    }

    pub(super) fn conditions(&self) -> &[LiveCondition] {
        match self {
            Self::Job(job) => &job.conditions,
            Self::Object(object) => &object.conditions,
        }
    }

    /// Returns the kind and the name of what owns it.
    pub(super) fn owner(&self) -> Option<&(String, String)> {
        match self {
            Self::Job(job) => job.owner.as_ref(),
            Self::Object(object) => object.owner.as_ref(),
        }
    }

    pub(super) fn is_in_deletion(&self) -> bool {
        match self {
            Self::Job(job) => job.deletion.is_some(),
            Self::Object(object) => object.deletion.is_some(),
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        match self {
            Self::Job(job) => job.spec.suspend,
            Self::Object(object) => object.is_suspended(),
        }
    }

    /// Returns how it ended, whether as a success; nothing while it goes on.
    pub(super) fn ended(&self) -> Option<bool> {
        match self {
            Self::Job(job) => job.finished().map(|end| end.sort == "Complete"),
            Self::Object(object) => object.end().map(|end| end.is_success),
        }
    }

    /// Tells whether another controller runs it.
    pub(super) fn is_managed(&self) -> bool {
        match self {
            Self::Job(job) => job.manager.is_some(),
            Self::Object(object) => object.manager().is_some(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Job(job) => job.deadline(),
            Self::Object(object) => object.deadline(),
        }
    }

    /// Returns how long after its end it is deleted.
    pub(super) fn ttl(&self) -> Option<Time> {
        match self {
            Self::Job(job) => job.ttl(),
            Self::Object(object) => object.ttl(),
        }
    }

    /// Returns when it is deleted after its end.
    pub(super) fn expiry(&self) -> Option<Time> {
        match self {
            Self::Job(job) => job.expiry(),
            Self::Object(object) => object.expiry(),
        }
    }

    /// Returns the name of the pod that failed last.
    pub(super) fn last_failed(&self) -> Option<&str> {
        match self {
            Self::Job(job) => job.last_failed(),
            Self::Object(object) => object.last_failed(),
        }
    }

    /// Tells whether its pods are shown by their indexes.
    pub(super) fn is_indexed(&self) -> bool {
        self.job().is_none_or(|job| job.spec.indexed)
    }

    /// Tells whether how it ends is decided: the condition before the last one is there.
    pub(super) fn is_decided(&self) -> bool {
        let has = |sort| self.job().is_some_and(|job| job.condition(sort).is_some());
        ["FailureTarget", "SuccessCriteriaMet"].into_iter().any(has)
    }

    /// Returns the patch of `spec` that resumes it; nothing where it cannot be suspended.
    pub(super) fn resumption(&self) -> Option<Value> {
        match self {
            Self::Job(_) => Some(json!({ "suspend": false })),
            Self::Object(object) => nested(object.suspend_at(), Value::Bool(false)),
        }
    }

    /// Returns what it waits for.
    pub(super) fn waits(&self) -> Vec<Wait> {
        match self {
            Self::Job(job) => job.waits(),
            Self::Object(object) => object.waits(),
        }
    }

    /// Returns in words why incidents cannot happen to it; nothing where they can.
    pub(super) fn cannot_happen(&self, story: &[Occurrence]) -> Option<String> {
        match self {
            Self::Job(job) => job.cannot_happen(story),
            Self::Object(object) => object.cannot_happen(story),
        }
    }

    /// Returns the script of incidents that happen to it; or in words why it is not simulated.
    pub(super) fn lower(
        &self,
        story: &[Occurrence],
        assumptions: &Assumptions,
    ) -> Result<LiveScript, String> {
        match self {
            Self::Job(job) => Ok(lower(job, story, assumptions)),
            Self::Object(object) => lower_object(object, story, assumptions)
                .map_err(|problem| format!("not simulated: {}", quoted(&problem))),
        }
    }

    /// Returns a script as it is from now on; or in words why it is not simulated.
    pub(super) fn scripted(&self, script: &Script, assumptions: &Assumptions) -> Result<LiveScript, String> {
        match self {
            Self::Job(job) => from_now(job, script, assumptions)
                .map_err(|problems| format!("cannot apply: {}", problems.join("; "))),
            Self::Object(object) => Err(format!(
                "not simulated: a script is of a Job that runs, and this is a {}",
                object.shown_kind()
            )),
        }
    }

    /// Returns what comes of a script.
    pub(super) fn tell(&self, script: &LiveScript) -> Result<LiveOutcome, String> {
        match self {
            Self::Job(job) => tell(job, script).map_err(|error| error.to_string()),
            Self::Object(object) => tell_object(object, script),
        }
    }

    /// Returns another end, where that depends on what nobody knows.
    pub(super) fn tell_otherwise(
        &self,
        script: &LiveScript,
        outcome: &LiveOutcome,
    ) -> Result<Option<LiveOutcome>, String> {
        match self {
            Self::Job(job) => tell_otherwise(job, script, outcome).map_err(|error| error.to_string()),
            Self::Object(object) => tell_object_otherwise(object, script, outcome),
        }
    }

    /// Returns the field that decides how it ends.
    pub(super) fn decision(&self, story: &[Occurrence], outcome: &Outcome) -> Option<Decision> {
        match self {
            Self::Job(job) => decision(&job.spec, story, outcome),
            Self::Object(object) => decision_of_object(&object.subject()?, &object.object, outcome),
        }
    }

    /// Returns when it ends in a simulation, by a condition that says so.
    pub(super) fn end_in(&self, outcome: &Outcome) -> Option<Time> {
        let is_over = matches!(outcome.ending, Ending::Completes | Ending::CompletesHalfDone | Ending::Fails);
        match self {
            Self::Job(_) => outcome.status.finished().map(|end| end.at),
            Self::Object(_) => is_over.then_some(outcome.at),
        }
    }

    /// Tells whether the program runs for longer than was assumed.
    pub(super) fn is_overdue(&self, assumptions: &Assumptions) -> bool {
        match self {
            Self::Job(job) => job.is_overdue(assumptions),
            Self::Object(object) => object.is_overdue(assumptions),
        }
    }

    /// Returns from whose start the work counts; nothing where which programs run in it is not known.
    pub(super) fn counts_from(&self) -> Option<&'static str> {
        match self {
            Self::Object(object) if object.kind == "RayCluster" => None,
            Self::Object(object) if object.kind == "RayJob" => Some("the program"),
            _ => Some("each pod"),
        }
    }

    /// Returns what is assumed beside its program, in words.
    pub(super) fn assumed(&self) -> Vec<String> {
        match self {
            Self::Job(_) => Vec::new(),
            Self::Object(object) => object.assumed(),
        }
    }

    /// Returns where the deadline is, below `spec`; empty where its kind has none.
    pub(super) fn deadline_at(&self) -> &'static [&'static str] {
        match self {
            Self::Job(_) => &["activeDeadlineSeconds"],
            Self::Object(object) => object.deadline_at(),
        }
    }
}

/// Returns a value below some keys; nothing without keys.
pub(super) fn nested(keys: &[&str], value: Value) -> Option<Value> {
    let around = |value: Value, key: &&str| {
        let mut around = json!({});
        if let Some(fields) = around.as_object_mut() {
            fields.insert(*key, value);
        }
        around
    };
    (!keys.is_empty()).then(|| keys.iter().rev().fold(value, around))
}
