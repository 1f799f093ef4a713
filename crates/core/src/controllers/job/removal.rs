//! Which pods go where there are too many.

use std::cmp::Reverse;

use super::super::cluster::Action;
use super::super::pod::PodGroup;
use super::sync::{JobSync, MOST_PODS, is_valid, members};

impl JobSync<'_> {
    /// Deletes active pods, those first that lose least (`ActivePods`, `pkg/controller/controller_utils.go`).
    pub(super) fn remove(&mut self, mut surplus: u32) {
        surplus = surplus.min(MOST_PODS);
        let (clock, spec) = (self.cluster.clock, self.spec);
        let rank = |pods: &PodGroup| {
            let since_ready = pods.ready.filter(|(is_ready, _)| *is_ready).map(|(_, at)| clock.stored(at));
            (
                (is_valid(spec, pods), pods.bound, pods.phase, since_ready.is_some()),
                (since_ready.map(Reverse), Reverse(pods.restarts), Reverse(clock.stored(pods.created))),
            )
        };
        let mut active: Vec<(usize, &PodGroup)> =
            self.pods.iter().copied().filter(|(_, pods)| pods.is_active()).collect();
        active.sort_by_key(|(_, pods)| rank(pods));
        for alike in active.chunk_by(|(_, a), (_, b)| rank(a) == rank(b)) {
            // Of those that are alike, the lowest indexes.
            let chosen = members(alike.iter().map(|(_, pods)| *pods)).lowest(surplus);
            for (nth, pods) in alike {
                let members = pods.members.intersection(&chosen);
                let removed = members.len();
                if removed == 0 {
                    continue;
                }
                surplus -= removed;
                self.active -= removed;
                self.terminating = self.terminating.saturating_add(removed);
                self.ready = self.ready.saturating_sub(if pods.is_ready() { removed } else { 0 });
                self.actions.push(Action::DeletePods { pods: *nth, members, is_released: true });
            }
        }
    }
}
