//! Which pods an action kills (`killPods`, `pkg/controllers/job/job_controller_actions.go`).

use std::sync::Arc;

use super::super::super::cluster::Action;
use super::super::super::indexes::Indexes;
use super::super::super::object::{PodCounts, VolcanoStatus};
use super::pods::{Marks, PodId, known_pods};
use super::policy::{JobAction, Level, Request, RequestPods};
use super::spec::JobSpec;
use super::state::{Step, Update};
use super::sync::{JobView, delete};

/// Which pods are killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// All of them, but for those that ended and may stay.
    All {
        /// Whether those that ended stay.
        keeps_ended: bool,
    },
    /// Some of a task.
    Part {
        /// The name of the task; nothing where the action is about no pod.
        task: Option<Arc<str>>,
        /// Their indexes.
        members: Indexes,
    },
}

/// Pods that are killed, by the numbers of their groups.
#[derive(Debug, Default)]
pub(super) struct Kill {
    /// The pods: what they are marked by, and which of them are to be deleted still.
    victims: Vec<(usize, PodId, Indexes, bool)>,
    /// How many are in deletion then.
    terminating: u32,
}

impl Target {
    /// Returns what an action on pods is about (`GetStateAction`); nothing where it is about a partition of a task without
    /// partitions.
    fn from_action(action: JobAction, pods: Option<&RequestPods>, spec: &JobSpec) -> Option<Self> {
        let task = pods.map(|pods| pods.task.clone());
        let members = match (action.level(), pods) {
            // A Command names no partition.
            (Level::Partition, None) => return None,
            (Level::Job, _) | (_, None) => Indexes::default(),
            (Level::Task, Some(_)) => Indexes::from_range(0, u32::MAX),
            (Level::Pod, Some(pods)) => pods.members.clone(),
            (Level::Partition, Some(pods)) => match spec.task(&pods.task)?.partition? {
                // Without a size, all pods are in one.
                0 => Indexes::from_range(0, u32::MAX),
                size => pods.members.blocks(size),
            },
        };
        Some(Self::Part { task, members })
    }
}

impl JobView<'_> {
    /// Returns which pods an action kills in the phase of the job, and how the status follows; nothing where it kills none.
    pub(super) fn kill_of(&self, action: JobAction, request: &Request) -> Option<(Target, Update)> {
        if self.object.deletion.is_some() {
            return None;
        }
        match Step::new(self.phase(), action) {
            Step::Sync(_) => None,
            Step::Kill { keeps_ended, update } => Some((Target::All { keeps_ended }, update)),
            Step::KillTarget(update) => {
                Some((Target::from_action(action, request.pods.as_ref(), self.spec)?, update))
            }
        }
    }

    /// Returns the pods that are killed. At the last try those that ended stay.
    pub(super) fn kill(&self, target: &Target) -> Kill {
        let mut kill = Kill::default();
        let retries = self.status().map_or(0, |status| status.retry_count);
        let is_last_try = retries >= self.spec.max_retry.saturating_sub(1);
        for (nth, pods, set) in known_pods(self.cluster, self.number, self.at) {
            let is_deleted = pods.deletion.is_some();
            let members = match target {
                Target::All { .. } if is_deleted => {
                    kill.terminating = kill.terminating.saturating_add(pods.count());
                    continue;
                }
                Target::All { keeps_ended } if (*keeps_ended || is_last_try) && pods.is_ended() => continue,
                Target::All { .. } => pods.members.clone(),
                Target::Part { task, members } if task.as_ref() == Some(&set.role) => {
                    pods.members.intersection(members)
                }
                Target::Part { .. } => continue,
            };
            if !members.is_empty() {
                kill.terminating = kill.terminating.saturating_add(members.len());
                kill.victims.push((nth, PodId::new(pods), members, !is_deleted));
            }
        }
        kill
    }

    /// Returns the status that counts a kill of all pods, where it is one.
    pub(super) fn next_version(&self, target: &Target) -> VolcanoStatus {
        let status = self.status().cloned().unwrap_or_default();
        let is_all = matches!(target, Target::All { .. });
        VolcanoStatus { version: status.version.saturating_add(u32::from(is_all)), ..status }
    }

    /// Returns what a kill writes after it: of the pods, only how many are in deletion. The PodGroup goes, and with it the
    /// leave to make pods (1.15: also where only some pods are killed).
    pub(super) fn finish_kill(&self, target: &Target, kill: &Kill, update: Update) -> Vec<Action> {
        let mut status = VolcanoStatus {
            pods: PodCounts::default(),
            terminating: kill.terminating,
            tasks: Vec::new(),
            ..self.next_version(target)
        };
        if update.apply(self.spec, &mut status) {
            status = self.changed(status);
        }
        let group = self.pod_group().map(|(group, _)| delete(group));
        std::iter::once(self.write(status)).chain(group).collect()
    }
}

impl Kill {
    /// Returns how many pods are killed that live.
    pub(super) fn count(&self) -> u32 {
        let alive = self.victims.iter().filter(|(_, _, _, is_left)| *is_left);
        alive.map(|(_, _, members, _)| members.len()).fold(0, u32::saturating_add)
    }

    /// Marks the pods.
    pub(super) fn mark(&self, marks: &mut Marks) {
        for (_, id, members, _) in &self.victims {
            marks.add(*id, members);
        }
    }

    /// Returns the deletions.
    pub(super) fn deletions(&self) -> impl Iterator<Item = Action> {
        let alive = self.victims.iter().filter(|(_, _, _, is_left)| *is_left);
        alive.map(|(nth, _, members, _)| Action::DeletePods {
            pods: *nth,
            members: members.clone(),
            is_released: false,
        })
    }
}
