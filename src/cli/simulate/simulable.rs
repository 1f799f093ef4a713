//! What is simulated: the Job of a manifest, or an object whose operator is modelled.

use super::decisive_field::{Decision, decision, decision_of_object};
use crate::cli::args::Story;
use crate::controllers::incident::Occurrence;
use crate::controllers::job::spec::JobSpec;
use crate::controllers::object_story::{ObjectStory, lower_object};
use crate::controllers::operators::KUEUE;
use crate::controllers::program::Peers;
use crate::controllers::script::Script;
use crate::controllers::story::{Assumptions, Outcome, lower, tell, tell_otherwise};
use crate::controllers::subject::{Subject, placeholder};
use crate::controllers::world::TooLong;
use crate::judge::simulation::{QueuedJob, SimulatedJob, SimulatedObject};
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// The Job of a manifest, or an object whose operator is modelled.
#[derive(Debug)]
pub(super) enum Simulable<'a> {
    Job(Box<SimulatedJob<'a>>),
    Object(Box<SimulatedObject<'a>>),
}

impl<'a> Simulable<'a> {
    /// Returns where the `spec` is.
    pub(super) fn pointer(&self) -> Pointer {
        match self {
            Self::Job(job) => job.pointer.clone(),
            Self::Object(_) => &Pointer::root() / "spec",
        }
    }

    pub(super) fn assumptions(&self) -> &Assumptions {
        match self {
            Self::Job(job) => &job.assumptions,
            Self::Object(object) => &object.assumptions,
        }
    }

    pub(super) fn or_peers(&self) -> Option<Peers> {
        match self {
            Self::Job(job) => job.or_peers,
            Self::Object(object) => object.or_peers,
        }
    }

    pub(super) fn because(&self) -> &str {
        match self {
            Self::Job(job) => &job.because,
            Self::Object(object) => &object.because,
        }
    }

    /// Returns why the API server refuses pods from the beginning.
    pub(super) fn refused(&self) -> &[String] {
        match self {
            Self::Job(_) => &[],
            Self::Object(object) => &object.refused,
        }
    }

    /// Tells whether the templates are validated.
    pub(super) fn is_validated(&self) -> bool {
        match self {
            Self::Job(_) => true,
            Self::Object(object) => object.is_validated,
        }
    }

    /// Returns the accelerators that an hour of a pod counts for; of an object whose pods differ, their roles have them.
    pub(super) fn accelerators(&self) -> i64 {
        match self {
            Self::Job(job) => job.accelerators,
            Self::Object(object) => object.has_accelerators.into(),
        }
    }

    /// Returns the `spec` of a Job.
    pub(super) fn job_spec(&self) -> Option<&JobSpec> {
        match self {
            Self::Job(job) => Some(&job.job_spec),
            Self::Object(_) => None,
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        match self {
            Self::Job(job) => job.job_spec.suspend,
            Self::Object(object) => object.subject.is_suspended,
        }
    }

    /// Returns the operators that are modelled as they were recorded, and their releases.
    pub(super) fn operators(&self) -> Vec<&'static str> {
        match self {
            Self::Job(_) => self.queue().map(|_| KUEUE).into_iter().collect(),
            Self::Object(object) => object.subject.operator.into_iter().collect(),
        }
    }

    /// Returns the operator whose part was read in its source, and not recorded: Kueue, with others than Jobs.
    pub(super) fn by_source(&self) -> Option<&'static str> {
        matches!(self, Self::Object(_)).then(|| self.queue()).flatten().map(|_| KUEUE)
    }

    /// Tells whether its pods wait until a scheduler takes their PodGroup.
    pub(super) fn has_pod_group(&self) -> bool {
        matches!(self, Self::Object(object) if object.subject.has_pod_group)
    }

    /// Tells whether its program runs beside the pods, as their dashboard says.
    pub(super) fn has_dashboard(&self) -> bool {
        matches!(self, Self::Object(object) if object.subject.together().has_dashboard)
    }

    /// Returns a field that decides and has a placeholder, with its text.
    pub(super) fn placeholder(&self) -> Option<(String, &str)> {
        match self {
            Self::Job(job) => JobSpec::placeholder(job.spec).map(|(field, text)| (field.to_owned(), text)),
            Self::Object(object) => {
                let (at, text) = placeholder(object.manifest.get("spec")?)?;
                Some((at.to_string(), text))
            }
        }
    }

    /// Returns why a story is about nothing that it has; nothing where it is.
    pub(super) fn lacks(&self, story: &Story) -> Option<String> {
        let of_job;
        let subject = match self {
            Self::Job(job) => match &job.queued {
                Some(queued) => &queued.subject,
                None => {
                    of_job = Subject::from_job(&job.job_spec);
                    &of_job
                }
            },
            Self::Object(object) => &object.subject,
        };
        story.incidents.iter().find_map(|incident| subject.lacks(incident))
    }

    /// Returns the queue of Kueue in which it waits.
    pub(super) fn queue(&self) -> Option<&str> {
        match self {
            Self::Job(job) => job.queued.as_ref()?.subject.queue.as_deref(),
            Self::Object(object) => object.subject.queue.as_deref(),
        }
    }

    /// Returns the script of a story.
    pub(super) fn lower(&self, story: &[Occurrence], assumptions: &Assumptions) -> Script {
        match self {
            Self::Job(job) => match &job.queued {
                Some(queued) => lower_object(&queued.subject, story, assumptions),
                None => lower(&job.job_spec, story, assumptions),
            },
            Self::Object(object) => lower_object(&object.subject, story, assumptions),
        }
    }

    /// Returns what comes of a script.
    pub(super) fn tell(&self, script: Script) -> Result<Outcome, TooLong> {
        match self {
            Self::Job(job) => match &job.queued {
                Some(queued) => queued.story().tell(&script),
                None => tell(job.spec, script),
            },
            Self::Object(object) => object.story().tell(&script),
        }
    }

    /// Returns another end of a script, where two things fall on one moment or an operator has no fixed order.
    pub(super) fn tell_otherwise(
        &self,
        script: &Script,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, TooLong> {
        match self {
            Self::Job(job) => match &job.queued {
                Some(queued) => queued.story().tell_otherwise(script, outcome),
                None => tell_otherwise(job.spec, script, outcome),
            },
            Self::Object(object) => object.story().tell_otherwise(script, outcome),
        }
    }

    /// Returns the field that decides how a story ends.
    pub(super) fn decision(&self, story: &[Occurrence], outcome: &Outcome) -> Option<Decision> {
        match self {
            Self::Job(job) => decision(&job.job_spec, story, outcome),
            Self::Object(object) => decision_of_object(&object.subject, object.manifest, outcome),
        }
    }

    /// Returns what comes of a story about the same, as another object says it; nothing where that cannot be simulated.
    pub(super) fn end_of(
        &self,
        object: &Value,
        story: &[Occurrence],
        assumptions: &Assumptions,
    ) -> Option<Outcome> {
        match self {
            Self::Job(job) => {
                if let Some(queued) = QueuedJob::from_object(object, &job.pointer) {
                    let script = lower_object(&queued.subject, story, assumptions);
                    return queued.story().tell(&script).ok();
                }
                let spec = job.pointer.find(object)?;
                tell(spec, lower(&JobSpec::from_spec(spec), story, assumptions)).ok()
            }
            // Whatever is changed, its pods are refused.
            Self::Object(of) if !of.refused.is_empty() => None,
            Self::Object(of) => {
                let mut subject = crate::controllers::object_story::subject(object, of.before)?;
                for (role, before) in subject.roles.iter_mut().zip(&of.subject.roles) {
                    role.copy_weight(before);
                }
                let script = lower_object(&subject, story, assumptions);
                ObjectStory { manifest: object, before: of.before, subject: &subject }.tell(&script).ok()
            }
        }
    }
}
