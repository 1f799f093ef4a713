//! What takes pods from their nodes, again and again: the loss of spot nodes, preemption, eviction.

use crate::controllers::incident::Incident;
use crate::judge::finding::{Finding, Level, Part as FindingPart, Place};
use crate::judge::kueue::QUEUE;
use crate::judge::rule::{Cx, Strings};
use crate::judge::spot::{Spot, selected};
use crate::kinds::{Field, Part, PodTemplate};
use crate::text::pointer::Pointer;

/// The parameter of rules for priority classes that say so.
pub(super) const PREEMPTIBLE: Strings = Strings::new(
    "preemptibleClasses",
    "Names of priority classes whose pods the scheduler preempts for others.",
    &["best-effort", "low", "low-priority", "preemptible", "spot"],
);

/// What takes pods from their nodes.
pub(super) struct PodLoss {
    /// The spot nodes, if that is it.
    pub(super) spot: Option<&'static Spot>,
    /// What happens, in the words of `jobgate simulate`.
    pub(super) incident: Incident,
    /// What it is called, to follow "each".
    pub(super) each: String,
    /// The field that shows it.
    place: Pointer,
    /// What the field shows.
    shows: &'static str,
}

impl PodLoss {
    /// Returns what takes the pods of a template.
    pub(super) fn from_pods(cx: &Cx<'_>, pod: &PodTemplate<'_>) -> Option<Self> {
        if let Some(nodes) = selected(&pod.spec) {
            return Some(Self {
                spot: Some(nodes.spot),
                incident: Incident::Spot,
                each: format!("loss of a spot node of {}", nodes.spot.provider),
                place: nodes.place,
                shows: "selects spot nodes",
            });
        }
        // Kueue takes the whole job and suspends it, which counts as nothing.
        let queue = cx.workload.object.at(cx.workload.kind.run_metadata).at(&["labels", QUEUE]);
        if queue.is_set() {
            return None;
        }
        const CLASS: &str = "priorityClassName";
        let own = pod.spec.get(CLASS);
        // A Volcano Job has one for tasks without one of their own.
        let of_job = cx.workload.object.at(cx.workload.kind.body).get(CLASS);
        let class = if own.is_set() || pod.form.is_job() { own } else { of_job };
        let name = class.text().set()?;
        let is_known = cx.strings(&PREEMPTIBLE).any(|known| known == name);
        is_known.then(|| Self {
            spot: None,
            incident: Incident::Preempt,
            each: format!("preemption of a pod of the priority class `{name}`"),
            place: class.pointer,
            shows: "others come first",
        })
    }

    /// Returns what takes the pods of a job that has a policy for it.
    pub(super) fn from_policy<'a>(mut policies: impl Iterator<Item = Part<'a>>) -> Option<Self> {
        let is_it = |event: &Part<'_>| event.text() == Field::Set("PodEvicted");
        let names = |policy: &Part<'_>| {
            is_it(&policy.get("event")) || policy.get("events").items().any(|event| is_it(&event))
        };
        policies.find(names).map(|policy| Self {
            spot: None,
            incident: Incident::Drain,
            each: "eviction of a pod".to_owned(),
            place: policy.pointer,
            shows: "for evictions",
        })
    }

    /// Returns what it is called where it happens once, and what a pod is to which it happens.
    pub(super) fn once(&self) -> (String, String) {
        match (self.spot, self.incident) {
            (Some(Spot { provider, .. }), _) => (
                format!("the loss of one spot node of {provider}"),
                format!("that loses its spot node of {provider}"),
            ),
            (None, Incident::Preempt) => {
                ("the preemption of one pod".to_owned(), "that is preempted".to_owned())
            }
            (None, _) => ("the eviction of one pod".to_owned(), "that is evicted".to_owned()),
        }
    }

    /// Says of a finding what it is about; where it is not certain that pods are taken, it is a note.
    pub(super) fn finish<'f>(&self, finding: &'f mut Finding) -> &'f mut Finding {
        if self.spot.is_none() {
            finding.at_most(Level::Note);
        }
        finding.about(self.incident);
        finding.label(Place::Here(self.place.clone(), FindingPart::Value), self.shows)
    }
}
