//! Which field of a manifest decides how a story ends.

use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::job::spec::JobSpec;
use crate::controllers::pod::{Phase, PodGroup};
use crate::controllers::story::{Ending, Outcome};
use crate::controllers::subject::Subject;
use crate::controllers::time::Time;
use crate::judge::finding::Part;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// The field that decides, and why.
#[derive(Debug)]
pub(super) struct Decision {
    field: Vec<&'static str>,
    is_set: bool,
    /// In words.
    pub(super) why: String,
}

impl Decision {
    /// Returns where the field is, below the `spec` of the Job.
    pub(super) fn pointer(&self, spec: &Pointer) -> Pointer {
        self.field.iter().fold(spec.clone(), |pointer, key| &pointer / *key)
    }

    /// Returns which part of the place is meant.
    pub(super) fn part(&self) -> Part {
        if self.is_set { Part::Value } else { Part::Key }
    }

    /// Returns the field.
    pub(super) fn name(&self) -> String {
        if self.field.is_empty() { "spec".to_owned() } else { self.field.join(".") }
    }
}

/// Returns the field that decides; nothing where the Job completes as if nothing had happened.
pub(super) fn decision(spec: &JobSpec, story: &[Occurrence], outcome: &Outcome) -> Option<Decision> {
    let decided = |field: &[&'static str], is_set: bool, why: String| {
        Some(Decision { field: field.to_vec(), is_set, why })
    };
    let failed = outcome.status.failed;
    match (outcome.ending, outcome.reason.as_deref()) {
        (Ending::Fails | Ending::Wedged, Some("BackoffLimitExceeded")) => {
            let limit = spec.backoff_limit;
            let is_failed = |pods: &PodGroup| pods.phase == Phase::Failed && pods.count() > limit;
            let together = outcome.made > 1 && outcome.pods.iter().any(is_failed);
            let why = if spec.restarts_in_place && failed <= limit {
                format!("restarts in the pods count, and reach `backoffLimit` {limit}")
            } else if together {
                format!("pods that fail together count one by one: more than `backoffLimit` {limit}")
            } else {
                format!("more than {limit} failures")
            };
            decided(&["backoffLimit"], true, wedged(outcome, why))
        }
        (Ending::Fails | Ending::Wedged, Some("DeadlineExceeded")) => {
            let why = wedged(outcome, "the deadline passes".to_owned());
            decided(&["activeDeadlineSeconds"], true, why)
        }
        (_, Some("PodFailurePolicy")) => {
            decided(&["podFailurePolicy"], true, wedged(outcome, "a rule fails the Job".to_owned()))
        }
        (_, Some("FailedIndexes")) => decided(
            &["backoffLimitPerIndex"],
            true,
            wedged(outcome, "an index has no retries left".to_owned()),
        ),
        (_, Some("MaxFailedIndexesExceeded")) => {
            decided(&["maxFailedIndexes"], true, wedged(outcome, "too many indexes failed".to_owned()))
        }
        (Ending::CompletesHalfDone, _) => {
            let why = "the program exits with 0 on SIGTERM, so its pod counts as succeeded";
            decided(&["template"], true, why.to_owned())
        }
        (Ending::Wedged, _) => decided(&["template"], true, wedged(outcome, "the work is done".to_owned())),
        (Ending::Waits | Ending::RunsOn, _) if spec.is_managed_by_other => {
            decided(&["managedBy"], true, "another controller runs it, which is not simulated".to_owned())
        }
        (Ending::Waits | Ending::RunsOn, _) if spec.parallelism == 0 => {
            decided(&["parallelism"], true, "no pods are asked for".to_owned())
        }
        (Ending::Waits | Ending::RunsOn, _) => {
            if let Some(why) = evicted(outcome, spec.deadline) {
                return decided(&["activeDeadlineSeconds"], spec.deadline.is_some(), why.to_owned());
            }
            let terminating = outcome.status.terminating.unwrap_or_default();
            if terminating > 0 && spec.only_failed {
                let why = "a pod that is terminating is replaced only at its end, and it never ends";
                return decided(&["podReplacementPolicy"], true, why.to_owned());
            }
            let is_pending =
                story.iter().any(|one| matches!(one.incident, Incident::ImagePull | Incident::Pending(_)));
            let why = match spec.deadline {
                None if is_pending => "a pod that never starts is no failure, and there is no deadline",
                None => "there is no deadline",
                Some(_) => "nothing ends it",
            };
            decided(&["activeDeadlineSeconds"], spec.deadline.is_some(), why.to_owned())
        }
        (Ending::Completes, _) if failed > 0 => {
            let why = format!("{failed} of `backoffLimit` {} retries used", spec.backoff_limit);
            decided(&["backoffLimit"], true, why)
        }
        (Ending::Completes | Ending::Fails, _) => None,
    }
}

/// Returns the field of an object that decides; nothing where it completes, or where the reason names no field.
pub(super) fn decision_of_object(subject: &Subject, manifest: &Value, outcome: &Outcome) -> Option<Decision> {
    let decided = |field: &[&'static str], why: &str| {
        let part = field.iter().try_fold(manifest.get("spec")?, |part, key| part.get(key));
        Some(Decision { field: field.to_vec(), is_set: part.is_some(), why: why.to_owned() })
    };
    let reason = outcome.reason.as_deref().unwrap_or_default();
    let written = outcome.status.conditions.iter().find(|one| one.is_true && one.reason == reason);
    let message = written.map_or("", |condition| condition.message.as_str());
    if let Some(why) = evicted(outcome, subject.deadline) {
        return decided(subject.deadline_at, why);
    }
    match outcome.ending {
        Ending::Completes => None,
        Ending::CompletesHalfDone => {
            decided(&[], "the program exits with 0 on SIGTERM, and its operator takes that for its end")
        }
        Ending::Wedged => {
            decided(&[], "the end of a Job inside waits for a pod that is terminating, without end")
        }
        Ending::Fails => {
            let (field, why) = subject.decider(reason, message)?;
            decided(field, why)
        }
        Ending::Waits | Ending::RunsOn => match (subject.deadline_at, subject.deadline) {
            ([], _) => decided(&[], "nothing ends it: its kind has no deadline"),
            (field, Some(_)) => decided(field, "nothing ends it, its deadline neither"),
            (field, None) => decided(field, "there is no deadline"),
        },
    }
}

/// Returns why what Kueue evicts has no end; nothing where it did not.
fn evicted(outcome: &Outcome, deadline: Option<Time>) -> Option<&'static str> {
    match (outcome.ending, outcome.evictions, deadline) {
        (Ending::Waits, 1.., _) => {
            Some("Kueue suspends it after `kueue.x-k8s.io/max-exec-time-seconds`, and nobody resumes it")
        }
        (Ending::RunsOn, 2.., Some(_)) => Some(
            "Kueue evicts it each time its pods are not ready (`waitForPodsReady`), and the deadline starts anew",
        ),
        (Ending::RunsOn, 2.., None) => Some(
            "Kueue evicts it each time its pods are not ready (`waitForPodsReady`), and there is no deadline",
        ),
        _ => None,
    }
}

/// Adds that the last condition waits for a pod that never ends.
fn wedged(outcome: &Outcome, why: String) -> String {
    if outcome.ending == Ending::Wedged {
        format!("{why}; the last condition waits for a pod that is terminating, without end")
    } else {
        why
    }
}
