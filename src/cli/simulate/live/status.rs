//! What is known of a Job of a cluster, or of an object of an operator, and of what becomes of it.

use super::subject::Subject;
use super::times::Moment;
use crate::cli::simulate::decisive_field::Decision;
use crate::cli::simulate::endings::OrBecause;
use crate::cli::simulate::timeline::Entry;
use crate::controllers::live::{LiveOutcome, Wait, WaitFor};
use crate::controllers::story::Assumptions;

/// A Job of a cluster, or an object of an operator, and what becomes of it.
#[derive(Debug)]
pub(in super::super) struct Standing {
    /// `train (Job) in the namespace ml`.
    pub(super) title: String,
    pub(super) moment: Moment,
    pub(super) subject: Subject,
    pub(super) waits: Vec<Wait>,
    pub(super) assumptions: Assumptions,
    /// Why the API server refuses the pods that are made from now on.
    pub(super) refused: Vec<String>,
    /// What is assumed of its program, in words; nothing where it has none.
    pub(super) work: Option<String>,
    /// What else is assumed, in words.
    pub(super) others: Vec<String>,
    /// What comes next as it stands; nothing where it has ended, or in words why that cannot be said.
    pub(super) next: Option<Result<Told, String>>,
    /// What would come of incidents, the worst first.
    pub(super) stories: Vec<Told>,
    /// Stories that cannot be told.
    pub(in super::super) problems: Vec<String>,
    /// Stories that are about nothing any more.
    pub(in super::super) notices: Vec<String>,
    /// Expectations that do not hold.
    pub(in super::super) unexpected: Vec<String>,
}

/// What comes of a Job in a story.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) story: String,
    pub(super) outcome: LiveOutcome,
    /// Another end, and what decides.
    pub(super) or: Option<(LiveOutcome, OrBecause)>,
    pub(super) decision: Option<Decision>,
    pub(super) happens: Vec<Entry>,
}

impl Standing {
    /// Returns what is assumed, in words; nothing where nothing is that decides anything.
    pub(super) fn assumed(&self) -> Option<String> {
        let work = self.work.as_ref().filter(|_| self.has_work());
        let others = self.others.iter().filter(|_| matches!(self.next, Some(Ok(_))));
        let all: Vec<&str> = work.into_iter().chain(others).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Tells whether what is assumed of the program decides anything.
    fn has_work(&self) -> bool {
        let is_at_work = |wait: &Wait| matches!(wait.what, WaitFor::Pods { .. } | WaitFor::Starting);
        let runs = self.waits.iter().any(is_at_work);
        let makes = |told: &Told| told.outcome.made > 0;
        match &self.next {
            Some(Ok(told)) => runs || makes(told) || !self.stories.is_empty(),
            _ => false,
        }
    }

    /// Tells whether how it ends is decided: the condition before the last one is there.
    pub(super) fn is_decided(&self) -> bool {
        self.subject.is_decided()
    }
}
