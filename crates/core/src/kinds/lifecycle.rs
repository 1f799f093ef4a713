//! How runs end, start again and let go of what they hold: the parts of a
//! [`Definition`](super::Definition) that say what an operator does.

use crate::kinds::field::{Field, Part, Path};
use crate::text::value::Value;

/// What `activeDeadlineSeconds` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// That of the limits ends the run, and its pods are deleted.
    Ends,
    /// That of the limits marks the run as failed; what happens to its pods is in [`Definition::release`](super::Definition::release).
    Marks,
    /// That of each batch/v1 Job ends this Job. No field ends them all, so a missing one is a warning.
    EndsEachJob {
        /// The field with how often the whole may start again.
        restarts: Path,
        /// How the author prevents that at a Job's deadline.
        help: &'static str,
    },
    /// There is no such field: a warning.
    Missing {
        /// What has none.
        what: &'static str,
        /// What to write instead.
        help: &'static str,
    },
    /// The object is a template: others that refer to it run.
    OfOthers {
        /// What is wrong with that of a batch/v1 Job in it; nothing if there are none.
        of_job: Option<Harm>,
    },
}

/// How often what an object describes may run, each time with a new clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// So many times.
    Times(i64),
    /// As often as it fails.
    NoLimit,
    /// A placeholder or wrong type hides it.
    Unknown,
    /// Whenever a schedule or a queue starts a run.
    Runs,
}

impl Attempts {
    /// Returns the attempts of a field with the number of retries.
    #[must_use]
    pub fn with_retries(retries: &Part<'_>, unset: i64) -> Self {
        retries
            .int()
            .or_default(unset)
            .map_or(Self::Unknown, |times| Self::Times(times.max(0).saturating_add(1)))
    }

    /// Returns them for something that is itself run so many times.
    #[must_use]
    pub fn each(self, of: Self) -> Self {
        match (self, of) {
            (Self::Times(inner), Self::Times(outer)) => Self::Times(inner.saturating_mul(outer)),
            (Self::Times(_), other) => other,
            (own, _) => own,
        }
    }
}

/// What `ttlSecondsAfterFinished` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// It deletes something after the run has ended.
    Deletes {
        /// What stays without it, to precede "never deleted".
        what: &'static str,
        /// Whether it deletes all pods of the run.
        deletes_pods: bool,
        /// What a TTL in one of the batch/v1 Jobs inside the object does; nothing if the limits are the Job's.
        of_job: Option<&'static str>,
    },
    /// It does harm, as said here.
    Harms(&'static str),
    /// There is none, or it does something else.
    None,
}

/// What a field does that nobody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// What, to follow the field.
    pub what: &'static str,
    /// What to do about it.
    pub help: &'static str,
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
    /// Returns the field of an object whose author has chosen the word.
    #[must_use]
    pub fn of<'a>(&self, object: &Part<'a>) -> Option<Part<'a>> {
        Some(object.at(self.at)).filter(|field| field.text() == Field::Set(self.word))
    }
}

/// A time that the deadline does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The choice that makes the run wait.
    pub choice: Choice,
    /// What does not end then, to follow "the deadline does not limit".
    pub what: &'static str,
    /// What to do about it.
    pub help: &'static str,
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

/// A way in which pods hold accelerators that can do no more work.
#[derive(Clone, Copy, Debug)]
pub struct Leak {
    /// Returns the field of an object that lets them, which may be missing.
    pub of: for<'a> fn(&Part<'a>) -> Option<Part<'a>>,
    /// What happens.
    pub what: &'static str,
    /// What to do about it.
    pub help: &'static str,
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
    /// Another place of the same field, which the operator reads, too.
    pub twin: Option<Path>,
    /// What runs on without it, to follow "so".
    pub holds: &'static str,
    /// What runs on without it in a job without accelerators, to follow "so"; nothing if that matters little.
    pub runs_on: Option<&'static str>,
    /// What the value does, to follow it.
    pub effect: &'static str,
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
    pub fn place<'a>(&self, object: &Part<'a>, limits: &Part<'a>) -> Part<'a> {
        let field = limits.get(self.field);
        let twin = self.twin.map(|path| object.at(path)).filter(Part::is_set);
        twin.filter(|_| !field.is_set()).unwrap_or(field)
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
    /// This word; `None` and an unset field release nothing, all other words do.
    Word(&'static str),
    /// `true`.
    True,
}

/// What bounds how often an operator starts failed pods again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The field of the limits.
    pub field: &'static str,
    /// What an unset `restartPolicy` of a role means.
    pub unset: &'static str,
}

/// How the loss of a node is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// Each lost pod counts as a failure of its batch/v1 Job, unless the Job ignores it.
    FailsJob,
    /// Likewise, and the failed Job ends the whole or starts all of it again.
    FailsSet {
        /// The field with how often the whole may start again.
        restarts: Path,
        /// The rules that say for which failures it does.
        rules: Path,
        /// The action of such a rule that counts no failure.
        uncounted: &'static str,
    },
    /// The `restartPolicy` of its role decides what becomes of a lost pod.
    OfRole {
        /// What an unset one means.
        unset: &'static str,
        /// The mapping with which other pods go on, or start again, without a lost one.
        elastic: Path,
    },
}
