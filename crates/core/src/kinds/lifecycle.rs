//! How runs end, start again and release what they hold: the parts of a [`Definition`](super::Definition) that
//! describe an operator's behaviour.

use crate::kinds::field::{Field, Part, Path};
use crate::text::value::Value;

/// What the deadline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The one in the limits ends the run, and its pods are deleted.
    Ends,
    /// The one in the limits marks the run as failed; [`Definition::release`](super::Definition::release) decides what
    /// happens to its pods.
    Marks,
    /// The one in each batch/v1 Job ends that Job. No field ends them all, so a missing one is a warning.
    EndsEachJob {
        /// The field with how often the whole object may start again.
        restarts: Path,
    },
    /// There is no such field: a warning.
    Missing,
    /// The object is a template, which runs through other objects that refer to it.
    OfOthers {
        /// The kind of those objects, if there are batch/v1 Jobs in the template: it has the deadline of the whole, and that of
        /// a Job limits one attempt.
        run_by: Option<&'static str>,
    },
}

/// How often the work that an object describes may run, each time with a new clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// This many times.
    Times(i64),
    /// Again after each failure, without a limit.
    NoLimit,
    /// A placeholder or wrong type hides it.
    Unknown,
    /// Whenever a schedule or a queue starts a run.
    Runs,
}

impl Attempts {
    /// Returns the attempts for a field with a number of retries.
    #[must_use]
    pub(crate) fn with_retries(retries: &Part<'_>, unset: i64) -> Self {
        retries
            .int()
            .or_default(unset)
            .map_or(Self::Unknown, |times| Self::Times(times.max(0).saturating_add(1)))
    }

    /// Returns the attempts for work that is itself run `of` times.
    #[must_use]
    pub(crate) fn each(self, of: Self) -> Self {
        match (self, of) {
            (Self::Times(inner), Self::Times(outer)) => Self::Times(inner.saturating_mul(outer)),
            (Self::Times(_), other) => other,
            (own, _) => own,
        }
    }
}

/// What the TTL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// It deletes something after the run has ended.
    Deletes {
        /// Whether it deletes the object and all pods of the run, not only the Job that starts the work in others.
        deletes_pods: bool,
        /// Whether a batch/v1 Job inside the object that its own TTL deletes is made, and runs, again.
        jobs_run_again: bool,
    },
    /// What it deletes is made, and runs, again.
    RunsAgain,
    /// There is none, or it does something else.
    None,
}

/// A word that the author may choose for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The field.
    pub at: Path,
    /// The word.
    pub word: &'static str,
}

impl Choice {
    /// Returns the field if the author has chosen this word.
    #[must_use]
    pub(crate) fn of<'a>(&self, object: &Part<'a>) -> Option<Part<'a>> {
        Some(object.at(self.at)).filter(|field| field.text() == Field::Set(self.word))
    }
}

/// A time that the deadline does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The choice that makes the run wait.
    pub choice: Choice,
    /// What it waits for, which follows "the deadline does not limit the wait for" in messages.
    pub until: &'static str,
    /// What to do about it.
    pub help: &'static str,
}

/// Pods of another object, to which work is sent. The operator stops neither them nor the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrowed {
    /// The field that selects them.
    pub at: Path,
    /// Where they are, to follow "runs on in".
    pub place: &'static str,
    /// The field with the command of the work.
    pub command: Path,
    /// What stops the work, to follow "or".
    pub help: &'static str,
}

/// Pods that send work elsewhere and wait for its end: those of a batch/v1 Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// Their template.
    pub at: Path,
    /// How often they are replaced after a failure.
    pub retries: Path,
    /// The default of it.
    pub unset: i64,
    /// The choices with which there are none.
    pub without: &'static [Choice],
}

/// How many finished runs the controller keeps, in fields of one mapping: `successfulJobsHistoryLimit` and
/// `failedJobsHistoryLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The mapping.
    pub at: Path,
    /// The default for runs that succeeded.
    pub successful: i64,
    /// The default for runs that failed.
    pub failed: i64,
}

/// Where it is written what becomes of the other pods after a failure. What becomes of them is asked of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The list of rules, which may be missing.
    pub at: Path,
    /// The rule that stops them, to follow "add".
    pub remedy: &'static str,
}

/// How pods that still run when a run has ended are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The field of the limits.
    pub field: &'static str,
    /// The value that releases the pods.
    pub value: Released,
    /// Other fields of the limits that decide instead of it.
    pub unless: &'static [&'static str],
    /// Another place of the same field, which the operator also reads.
    pub twin: Option<Path>,
    /// What runs on without it when the job has ended, in the plural.
    pub left: &'static str,
    /// Whether that matters in a job without accelerators, too.
    pub(crate) without_accelerators: bool,
    /// The field of the limits with which a job in a queue of Kueue does without this one; nothing if Kueue takes any job.
    pub(crate) queued_without: Option<&'static str>,
}

impl Release {
    /// Tells whether pods that still run are released when a run with these limits has ended; nothing if a
    /// placeholder or wrong type hides it.
    #[must_use]
    pub fn releases(&self, object: &Part<'_>, limits: &Part<'_>) -> Option<bool> {
        if self.unless.iter().any(|field| limits.get(field).is_set()) {
            return Some(true);
        }
        let field = self.place(object, limits);
        match self.value {
            Released::Word(_) => match field.text() {
                Field::Unset | Field::Set("None") => Some(false),
                Field::Set(_) => Some(true),
                Field::Placeholder(_) | Field::Wrong => None,
            },
            Released::True => field.bool().or_default(false),
        }
    }

    /// Returns the place of the field that decides: in the limits, unless only its twin is set.
    #[must_use]
    pub(crate) fn place<'a>(&self, object: &Part<'a>, limits: &Part<'a>) -> Part<'a> {
        let field = limits.get(self.field);
        let twin = self.twin.map(|path| object.at(path)).filter(Part::is_set);
        twin.filter(|_| !field.is_set()).unwrap_or(field)
    }

    /// Returns what the value does, to follow it. `ttl` is the name of the field with the TTL.
    #[must_use]
    pub(crate) fn effect(&self, ttl: &str) -> String {
        match self.value {
            Released::Word(_) => {
                "which deletes running pods and keeps finished ones with their logs".to_owned()
            }
            Released::True => format!("which deletes {} `{ttl}` seconds after the job has ended", self.left),
        }
    }

    /// Returns the value that releases the pods.
    #[must_use]
    pub fn value(&self) -> Value {
        match self.value {
            Released::Word(word) => word.into(),
            Released::True => true.into(),
        }
    }
}

/// The value of a [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// This word. `None` and an unset field release nothing; every other word does.
    Word(&'static str),
    /// `true`.
    True,
}

/// The bound on how often an operator restarts failed pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The field of the limits.
    pub(crate) field: &'static str,
    /// The default `restartPolicy` of a role.
    pub(crate) unset: &'static str,
    /// The `restartPolicy` of roles with which a pod that is deleted, such as by a drain, fails the job, though it asks for a
    /// restart.
    pub(crate) fails_when_deleted: &'static [&'static str],
    /// The `restartPolicy` of a role with which a failure that is not retried leaves the job without the time of its end, so
    /// that its TTL never begins; nothing if there is none.
    pub(crate) without_end: Option<&'static str>,
}

/// Lists of [lifecycle policies](super::LifecyclePolicy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// That of the object.
    pub at: Path,
    /// That of a task, in the mapping around its pod template. It comes first.
    pub of_task: &'static str,
    /// How many pods have to succeed.
    pub least: Path,
}

/// A number of runs, not of those after the first. Restarts of all pods count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsCounted {
    /// The field. 0 is its default, too.
    pub at: Path,
    /// Its default.
    pub unset: i64,
}

/// What bounds how often containers are restarted in their pods.
#[derive(Clone, Copy, Debug)]
pub struct InPlace {
    /// Tells of an object and the mapping around a pod template whether there is a bound, or something hides it.
    pub bounded: fn(&Part<'_>, &Part<'_>) -> bool,
    /// Where it is written.
    pub at: Path,
    /// What to write there.
    pub remedy: &'static str,
}

/// How the loss of a node is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// Each lost pod counts as a failure of its batch/v1 Job, unless the Job ignores it.
    FailsJob,
    /// As with [`FailsJob`](Self::FailsJob), and the failed Job ends the whole object or restarts all of it.
    FailsSet {
        /// The field with how often the whole object may start again.
        restarts: Path,
        /// The rules that decide for which failures it does.
        rules: Path,
        /// The action of such a rule that counts no failure.
        uncounted: &'static str,
    },
    /// The `restartPolicy` of its role decides what happens to a lost pod, by default that of [`Retries`].
    OfRole {
        /// The mapping that lets the other pods continue, or start again, without a lost one.
        elastic: Path,
    },
    /// Policies decide, and count each restart as a run, whatever the reason is.
    OfPolicies {
        /// The field with the number of runs.
        runs: Path,
        /// The policies of the whole; a task has more beside its template.
        policies: Path,
    },
}
