//! An operator has a cache of its objects, and others of what it makes for them: a sync that something deleted sets off may
//! not see yet that the operator itself has ended the object.

use std::collections::BTreeMap;

use super::super::cluster::{Action, Cluster};
use super::super::object::Object;
use super::super::time::Time;

/// The objects of whose end the cache does not know until a moment, as it has them.
#[derive(Debug, Default)]
pub(super) struct CacheLag(BTreeMap<usize, (Time, Object)>);

impl CacheLag {
    /// Returns an object as the cache has it, and when it has what is stored, if it has not.
    pub(super) fn seen<'a>(
        &'a self,
        number: usize,
        object: &'a Object,
        at: Time,
    ) -> (&'a Object, Option<Time>) {
        match self.0.get(&number) {
            Some((until, seen)) if at < *until => (seen, Some(*until)),
            _ => (object, None),
        }
    }

    /// Takes notice of what a sync does with an object: the first time that it ends it, the cache is behind from then on,
    /// where that is left to chance so.
    pub(super) fn observe(&mut self, cluster: &Cluster, number: usize, actions: &[Action], at: Time) {
        let is_end = |action: &Action| match action {
            Action::WriteObject { object, conditions, .. } => {
                let mut ends = conditions.iter().filter(|condition| condition.is_true);
                *object == number
                    && ends.any(|condition| ["Succeeded", "Complete", "Failed"].contains(&condition.sort))
            }
            _ => false,
        };
        let Some(object) = cluster.objects.get(number) else { return };
        if cluster.end_lag > Time::START && !self.0.contains_key(&number) && actions.iter().any(is_end) {
            self.0.insert(number, (at + cluster.end_lag, object.clone()));
        }
    }

    /// Ends the time in which the cache is behind.
    pub(super) fn catch_up(&mut self, number: usize, at: Time) {
        if let Some((until, _)) = self.0.get_mut(&number) {
            *until = at;
        }
    }
}
