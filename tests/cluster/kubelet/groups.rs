//! What a scheduler does with Volcano's groups of pods where there is none: each is put into its queue after
//! a while, and runs as soon as as many of its pods run as it asks for. Nothing is held back: pods are bound
//! at once.

use super::timeline::Timeline;

/// The groups of a scenario, in the order in which they were seen.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    uid: String,
    name: String,
    /// How many pods it asks for.
    least: usize,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Pending,
    Inqueue,
    Running,
    Gone,
}

impl Groups {
    /// Notes what is seen of a group, and returns its number if it is new.
    pub(super) fn seen(&mut self, uid: &str, name: &str, least: usize, is_gone: bool) -> Option<u64> {
        if let Some(group) = self.0.iter_mut().find(|group| group.uid == uid) {
            group.least = least;
            if is_gone {
                group.stage = Stage::Gone;
            }
            return None;
        }
        if is_gone {
            return None;
        }
        self.0.push(Group { uid: uid.to_owned(), name: name.to_owned(), least, stage: Stage::Pending });
        u64::try_from(self.0.len() - 1).ok()
    }

    /// Puts a group into its queue, and tells whether it is still there.
    pub(super) fn enqueue(&mut self, number: u64) -> Option<&str> {
        let group = self.0.get_mut(usize::try_from(number).ok()?)?;
        if group.stage == Stage::Gone {
            return None;
        }
        group.stage = Stage::Inqueue;
        Some(&group.name)
    }

    /// Returns the names of the groups that run from now on.
    pub(super) fn started(&mut self, timeline: &Timeline) -> Vec<String> {
        let mut started = Vec::new();
        for group in &mut self.0 {
            if group.stage == Stage::Inqueue && timeline.running_in(&group.name) >= group.least {
                group.stage = Stage::Running;
                started.push(group.name.clone());
            }
        }
        started
    }

    /// Returns the name of the newest one that is still there.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.iter().rev().find(|group| group.stage != Stage::Gone).map(|group| group.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jobgate::text::value::json;

    use super::*;

    #[test]
    fn a_group_runs_when_enough_of_its_pods_run() {
        let mut groups = Groups::default();
        assert_eq!(groups.seen("u", "g", 2, false), Some(0));
        assert_eq!(groups.seen("u", "g", 2, false), None);
        let mut timeline = Timeline::default();
        let run = |uid: &str, timeline: &mut Timeline| {
            let annotations = json!({"scheduling.k8s.io/group-name": "g"});
            let pod =
                json!({"metadata": {"uid": uid, "annotations": annotations}, "status": {"phase": "Running"}});
            timeline.created(Duration::ZERO, "/p", &pod);
            timeline.changed(Duration::ZERO, &pod, false);
        };
        run("a", &mut timeline);
        run("b", &mut timeline);
        // Not before it is in its queue.
        assert!(groups.started(&timeline).is_empty());
        assert_eq!(groups.enqueue(0), Some("g"));
        assert_eq!(groups.started(&timeline), ["g"]);
        assert!(groups.started(&timeline).is_empty());
    }

    #[test]
    fn a_group_that_is_gone_is_left_alone() {
        let mut groups = Groups::default();
        assert_eq!(groups.seen("u", "g", 1, true), None);
        assert_eq!(groups.seen("v", "g", 1, false), Some(0));
        assert_eq!(groups.newest(), Some("g"));
        groups.seen("v", "g", 1, true);
        assert_eq!(groups.enqueue(0), None);
        assert_eq!(groups.newest(), None);
        // One of the same name is another one.
        assert_eq!(groups.seen("w", "g", 1, false), Some(1));
    }
}
