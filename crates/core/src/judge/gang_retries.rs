//! How many failures of all its pods together a Job survives whose pods train together.

use crate::judge::peers::joins;
use crate::judge::ranks::Started;
use crate::judge::rule::Cx;
use crate::judge::training::drives_others;
use crate::kinds::{Deadline, Field, PodTemplate};
use crate::text::pointer::Pointer;

/// `backoffLimit` of a Job that sets none.
const DEFAULT_LIMIT: i64 = 6;

/// Pods of a Job that train together, so that all fail when one does, and how many failures of pods the Job survives.
#[derive(Debug)]
pub(super) struct GangRetries {
    /// How many pods there are.
    pub(super) ranks: i64,
    /// Where that is written; nothing for a default.
    pub(super) said_by: Option<Pointer>,
    /// `backoffLimit`, which is not 0.
    pub(super) limit: i64,
    /// Whether a container that fails starts again in its pod (`OnFailure`).
    pub(super) in_place: bool,
    /// Where the command is by which the pods are joined.
    pub(super) at: Pointer,
    /// The command.
    pub(super) command: String,
}

impl GangRetries {
    /// Returns those of the Job around a pod template, by its index; nothing where a number is not known, where a failed pod is
    /// none for the Job as a whole, or where a set of Jobs starts all of them again.
    pub(super) fn from_pod(cx: &Cx<'_>, index: usize) -> Option<Self> {
        let pod = &cx.workload.pods[index];
        let in_set =
            matches!(cx.workload.kind.deadline, Deadline::EndsEachJob { .. } | Deadline::OfOthers { .. });
        let is_other =
            || fails_at_once(pod) || leaves_out(pod) || pod.around.get("backoffLimitPerIndex").is_set();
        if in_set || !pod.form.is_job() || is_other() {
            return None;
        }
        let limit =
            pod.around.get("backoffLimit").int().or_default(DEFAULT_LIMIT).filter(|limit| *limit > 0)?;
        let in_place = match pod.spec.get("restartPolicy").text() {
            Field::Set("Never") => false,
            Field::Set("OnFailure") => true,
            _ => return None,
        };
        let count = pod.together();
        let ranks = count.most.filter(|ranks| *ranks > 1)?;
        // Pods that come in waves do not meet.
        let all = pod.around.get("completions").int().or_default(ranks)?;
        let lines = &cx.commands(index).containers;
        let (at, command) = lines.iter().find_map(joins).filter(|_| all <= ranks)?;
        // `mpirun` in one pod starts the ranks in others, which go on without it.
        if lines.iter().any(drives_others) || joins_others(cx, pod, ranks) {
            return None;
        }
        Some(Self { ranks, said_by: count.said_by, limit, in_place, at, command })
    }

    /// Returns how often all pods may fail before the Job does. With `OnFailure`, the Job fails when as many containers have
    /// started again as its limit says.
    pub(super) fn survived(&self) -> i64 {
        (self.limit - i64::from(self.in_place)) / self.ranks
    }

    /// Returns the limit with which they may fail so often.
    pub(super) fn needed(&self, times: i64) -> i64 {
        let needed = self.ranks.saturating_mul(times).saturating_add(self.in_place.into());
        needed.min(i32::MAX.into())
    }
}

/// Tells whether a launcher of a pod waits for another number of nodes than there are pods: they are not one gang then.
fn joins_others(cx: &Cx<'_>, pod: &PodTemplate<'_>, ranks: i64) -> bool {
    let own = cx.launchers().iter().filter(|started| std::ptr::eq(started.pod, pod));
    own.filter_map(Started::nodes).any(|nodes| nodes.most != ranks)
}

/// Tells whether a rule of the Job may fail it at the first failure of a pod.
pub(super) fn fails_at_once(pod: &PodTemplate<'_>) -> bool {
    let rules = pod.around.at(&["podFailurePolicy", "rules"]);
    rules.items().any(|rule| rule.get("action").text() != Field::Set("Ignore"))
}

/// Tells whether a rule of the Job may leave out what a program ends with, so that it does not count.
fn leaves_out(pod: &PodTemplate<'_>) -> bool {
    pod.around.at(&["podFailurePolicy", "rules"]).items().any(|rule| rule.get("onExitCodes").is_set())
}
