//! To which pods of a Job of a cluster incidents happen, and which cannot happen to it.

use super::super::incident::{Incident, IncidentPlace, Occurrence};
use super::super::indexes::Indexes;
use super::super::time::Time;
use super::job::LiveJob;
use super::pod::{LivePod, PodStage};

/// When something happens for which nobody says it.
pub(super) const SOON: Time = Time::from_seconds(1);

/// Tells whether an incident is about all pods, or about none that runs the program.
pub(super) fn is_of_no_pod(incident: Incident) -> bool {
    incident.is_of_all()
        || matches!(
            incident,
            Incident::CreateRefused
                | Incident::Overrun
                | Incident::KueuePreempt(_)
                | Incident::ControllerAway(_)
                | Incident::OperatorAway(_)
                | Incident::DashboardSilent(_)
                | Incident::SubmitterLost
                | Incident::Missed(_)
        )
}

/// Returns why an incident does not happen to a pod, in words behind its name; nothing where it does.
fn excuse(incident: Incident, pod: &LivePod) -> Option<&'static str> {
    let runs = matches!(pod.stage(), PodStage::Runs | PodStage::Starts);
    match (incident, pod.stage()) {
        (_, PodStage::Silent) => Some("is on a node that does not answer"),
        (Incident::Oom | Incident::Exit(_) | Incident::CrashLoop, _) if !runs => Some("does not run"),
        _ => None,
    }
}

impl LiveJob {
    /// Returns its active pods with their numbers, as incidents and plans name them: completion indexes, else places in
    /// the order of their names.
    fn active(&self) -> Vec<(u32, &LivePod)> {
        let active = self.pods.iter().filter(|pod| pod.is_active());
        let numbered = active.zip(0_u32..);
        if self.spec.indexed {
            numbered.filter_map(|(pod, _)| Some((pod.index?, pod))).collect()
        } else {
            numbered.map(|(pod, nth)| (nth, pod)).collect()
        }
    }

    /// Returns the indexes that are neither done nor failed.
    pub(super) fn open(&self) -> Indexes {
        let failed = self.status.failed_indexes.clone().unwrap_or_default();
        self.spec.indexes().without(&self.status.completed).without(&failed)
    }

    /// Returns incidents with the time and the place that they have where nobody says it: now, and a pod that runs.
    pub(super) fn placed(&self, story: &[Occurrence]) -> Vec<Occurrence> {
        let active = self.active();
        let open = self.open();
        let first = |incident: Incident| {
            let fit = active.iter().filter(|(_, pod)| excuse(incident, pod).is_none());
            let lowest =
                fit.map(|(number, _)| *number).min().or(active.iter().map(|(number, _)| *number).min());
            if self.spec.indexed { lowest.or_else(|| open.first()) } else { lowest }
        };
        let place = |one: &Occurrence| match (one.place, first(one.incident)) {
            (IncidentPlace::One, Some(first)) if !is_of_no_pod(one.incident) => IncidentPlace::Index(first),
            // Between those that are done, the first ones that are not.
            (IncidentPlace::Count(count), Some(_)) if self.spec.indexed => {
                let chosen = open.lowest(count.max(1));
                chosen
                    .first()
                    .zip(chosen.last())
                    .map_or(one.place, |(first, last)| IncidentPlace::Between(first, last))
            }
            (place, _) => place,
        };
        story
            .iter()
            .map(|one| Occurrence { at: one.at.or(Some(SOON)), place: place(one), ..one.clone() })
            .collect()
    }

    /// Returns in words why incidents cannot happen to it; nothing where they can.
    #[must_use]
    pub fn cannot_happen(&self, story: &[Occurrence]) -> Option<String> {
        let placed = self.placed(story);
        story.iter().zip(&placed).find_map(|(asked, placed)| self.cannot(asked, placed))
    }

    fn cannot(&self, asked: &Occurrence, placed: &Occurrence) -> Option<String> {
        if matches!(asked.incident, Incident::Missed(_)) {
            return Some("`missed` is about a schedule, and it has none".to_owned());
        }
        match asked.place {
            IncidentPlace::Index(index) if self.spec.indexed => {
                if let Some(problem) = self.is_settled(&Indexes::from_range(index, index)) {
                    return Some(format!("`index={index}`: {problem}"));
                }
            }
            IncidentPlace::Count(count) if self.spec.indexed && count > self.open().len() => {
                return Some(format!("`n={count}`: {} of its indexes are not done", self.open().len()));
            }
            IncidentPlace::Index(number) if number >= self.most_pods() => {
                return Some(format!("`index={number}`: it has no indexes, and {} pods", self.most_pods()));
            }
            IncidentPlace::Count(count) if count > self.most_pods() => {
                return Some(format!("`n={count}`: it has {} pods", self.most_pods()));
            }
            _ => {}
        }
        let IncidentPlace::Index(number) = placed.place else { return None };
        if is_of_no_pod(asked.incident) {
            return None;
        }
        let (_, pod) = self.active().into_iter().find(|(of, _)| *of == number)?;
        let excuse = excuse(asked.incident, pod)?;
        Some(format!("{} {excuse}, so that it does not happen to it", pod.name))
    }

    /// Returns how many pods without an index there are, or are to be.
    fn most_pods(&self) -> u32 {
        self.spec.completions.unwrap_or(self.spec.parallelism).max(1)
    }

    /// Returns in words why no pod of some indexes is made any more; nothing where one may be.
    pub(super) fn is_settled(&self, indexes: &Indexes) -> Option<String> {
        let all = self.spec.indexes();
        if indexes.intersection(&all).is_empty() {
            return Some(format!("it has the indexes {all}"));
        }
        if !indexes.intersection(&self.open()).is_empty() {
            return None;
        }
        let done = indexes.intersection(&self.status.completed);
        let what = if done.is_empty() { "failed" } else { "done" };
        Some(format!("it is {what} already"))
    }
}
