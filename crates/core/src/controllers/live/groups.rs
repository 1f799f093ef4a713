//! Pods of a cluster that have a template in common as groups of pods that are alike, each with what is to become of it.

use std::collections::BTreeMap;

use super::super::indexes::Indexes;
use super::super::kubelet::Course;
use super::super::pod::{Deletion, Phase, PodGroup};
use super::super::time::Time;
use super::job::LiveJob;
use super::pod::{Containers, LivePod, PodStage};

/// How many groups there may be; where there are more, times are rounded.
const MOST_GROUPS: usize = 2_000;
/// To what times are rounded, in milliseconds: as the API has them, then to a minute, to an hour, and to nothing.
const ROUNDED: [i64; 4] = [1, 60_000, 3_600_000, ALL];
/// More than all times there are, in milliseconds.
const ALL: i64 = 1_000_000_000_000_000;
/// From where on pods without an index are numbered that are not active: those that are made next follow the active ones.
pub(super) const ENDED: u32 = 1_000_000_000;
/// How long after its deletion a pod without a node is there: the pod garbage collector looks every 20 s.
const COLLECTED: Time = Time::from_seconds(20);
/// A time in which every controller sees that a pod is gone.
const LONG: Time = Time::from_seconds(60);
/// The reasons of a pod that the API has.
const REASONS: [&str; 8] = [
    "DeadlineExceeded",
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "OOMKilled",
    "Preempting",
    "Terminated",
    "UnexpectedAdmissionError",
];

/// A group of pods, and what is to become of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LiveGroup {
    pub(super) pods: PodGroup,
    pub(super) course: Course,
    /// Whether the controller of a Volcano Job killed them.
    pub(super) is_killed: bool,
}

impl LiveGroup {
    /// Lets what is to become of it be later by a part of a second.
    pub(super) fn delay(&mut self, by: Time) {
        self.pods.started = self.pods.started.map(|at| at + by);
        self.course = match self.course {
            Course::Crashes { last, restarts } => Course::Crashes { last: last + by, restarts },
            Course::Silent(deleted) => Course::Silent(deleted.map(|at| at + by)),
            Course::Ends(at) => Course::Ends(at + by),
            Course::IsCollected(at) => Course::IsCollected(at + by),
            other => other,
        };
    }
}

/// Returns one pod as a group.
pub(super) fn group_of(containers: &Containers, pod: &LivePod) -> PodGroup {
    let containers = pod.statuses(containers);
    let known = |reason: &str| REASONS.into_iter().find(|known| *known == reason);
    let last = pod.containers.iter().filter_map(|one| one.terminated).map(|(_, at)| at).max();
    PodGroup {
        // What is to be made has the number of the active ones, or one above it (see `absent`).
        attempt: u32::from(pod.is_active()),
        failures: pod.failures,
        ignored: pod.ignored,
        finalizer: pod.is_tracked,
        bound: pod.node.is_some(),
        phase: pod.phase,
        started: pod.started,
        ended: pod.is_ended().then(|| last.or(pod.ready.map(|(_, at)| at)).unwrap_or(pod.created)),
        ready: pod.ready,
        disrupted: pod.disruption.is_some(),
        containers,
        restarts: pod.restarts,
        deletion: pod.deletion.map(|(at, grace)| Deletion { since: at, at, grace }),
        reason: pod.reason.as_deref().and_then(known),
        ..PodGroup::new(0, Indexes::default(), pod.created)
    }
}

/// Returns what is to become of a pod.
fn course(pod: &LivePod) -> Course {
    match pod.stage() {
        PodStage::Ended | PodStage::Kept => Course::Ended,
        PodStage::Stuck => Course::NeverEnds,
        PodStage::Silent => Course::Silent(pod.given_up()),
        PodStage::Unscheduled | PodStage::Gated => Course::Waits { is_bound: false },
        PodStage::Image | PodStage::Broken => Course::Waits { is_bound: true },
        PodStage::Crashes => Course::Crashes {
            last: pod.trouble.as_ref().and_then(|trouble| trouble.last?.1).unwrap_or_default(),
            restarts: pod.restarts,
        },
        PodStage::Terminates => {
            let (at, grace) = pod.deletion.unwrap_or_default();
            if pod.node.is_some() { Course::Ends(at + grace) } else { Course::IsCollected(at + COLLECTED) }
        }
        PodStage::Starts => Course::Starts,
        PodStage::Runs => Course::Runs,
    }
}

/// Pods that have a template in common.
#[derive(Debug)]
pub(super) struct Alike<'a> {
    pub(super) containers: &'a Containers,
    /// The pods, each with its index; where they have none, that is left out.
    pub(super) pods: Vec<(Option<u32>, &'a LivePod)>,
    /// The indexes that there may be; nothing where the pods have none.
    pub(super) indexes: Option<Indexes>,
    /// When what made them was created.
    pub(super) created: Time,
    /// Whether it matters when pods ended that no Job has to count.
    pub(super) has_ends: bool,
}

/// Returns the pods of a Job in groups.
pub(super) fn groups(job: &LiveJob) -> Vec<LiveGroup> {
    groups_of(&Alike {
        containers: &job.containers,
        pods: job.pods.iter().map(|pod| (pod.index, pod)).collect(),
        indexes: job.spec.indexed.then(|| job.spec.indexes()),
        created: job.created,
        has_ends: false,
    })
}

/// Returns pods in groups.
pub(super) fn groups_of(alike: &Alike<'_>) -> Vec<LiveGroup> {
    let few = ROUNDED.into_iter().find_map(|round| rounded(alike, round, MOST_GROUPS));
    // What differs by more than its times is not made alike.
    let mut found = few.or_else(|| rounded(alike, ALL, usize::MAX)).unwrap_or_default();
    found.extend(absent(alike, &found));
    found
}

/// Returns the pods in groups, with times that are rounded; nothing where there are more groups than `most`.
fn rounded(of: &Alike<'_>, round: i64, most: usize) -> Option<Vec<LiveGroup>> {
    let mut alike: BTreeMap<(LiveGroup, u32), Vec<u32>> = BTreeMap::new();
    let mut seen: BTreeMap<(LiveGroup, u32), u32> = BTreeMap::new();
    let (mut active, mut others) = (0, ENDED);
    for (index, pod) in &of.pods {
        let group = group_of(of.containers, pod);
        // Times of what was counted mean nothing any more.
        let is_counted = pod.is_ended() && !pod.is_tracked && !of.has_ends;
        let round = if is_counted { ALL } else { round };
        let group = LiveGroup { pods: coarse(group, round), course: course(pod), is_killed: pod.is_killed };
        let number = if pod.is_active() { &mut active } else { &mut others };
        let member = if of.indexes.is_some() {
            // What has no index is out of range, as the controller takes it.
            index.unwrap_or(u32::MAX)
        } else {
            *number += 1;
            *number - 1
        };
        // Two pods of one index are two groups.
        let nth = seen.entry((group.clone(), member)).or_default();
        *nth += 1;
        alike.entry((group, *nth)).or_default().push(member);
        if alike.len() > most {
            return None;
        }
    }
    let mut found: Vec<LiveGroup> = alike
        .into_iter()
        .map(|((mut group, _), members)| {
            group.pods.members = Indexes::from_numbers(members);
            group
        })
        .collect();
    // As the cluster has them: in order of creation.
    found.sort_by_key(|group| (group.pods.created, group.pods.members.first()));
    Some(found)
}

/// Rounds the times of a pod.
fn coarse(pods: PodGroup, round: i64) -> PodGroup {
    if round <= 1 {
        return pods;
    }
    let near = |at: Time| Time::from_millis(at.millis().div_euclid(round).saturating_mul(round));
    PodGroup {
        created: near(pods.created),
        started: pods.started.map(near),
        ended: pods.ended.map(near),
        ready: pods.ready.map(|(is_ready, at)| (is_ready, near(at))),
        containers: pods
            .containers
            .into_iter()
            .map(|mut one| {
                one.terminated = one.terminated.map(|(code, at)| (code, near(at)));
                one
            })
            .collect(),
        deletion: pods.deletion.map(|one| Deletion { since: near(one.since), at: near(one.at), ..one }),
        ..pods
    }
}

/// Returns a group that is gone, for the indexes whose pods are not there: so the next pod of each index that has no
/// active one is attempt 1, as the active ones are.
fn absent(of: &Alike<'_>, found: &[LiveGroup]) -> Option<LiveGroup> {
    let there: Indexes = found.iter().map(|group| &group.pods.members).collect();
    let members = of.indexes.as_ref()?.without(&there);
    // So long ago that no controller takes notice of it.
    let before = of.created - LONG;
    (!members.is_empty()).then(|| LiveGroup {
        pods: PodGroup {
            finalizer: false,
            phase: Phase::Succeeded,
            gone: Some(before),
            ..PodGroup::new(0, members, before)
        },
        course: Course::Ended,
        is_killed: false,
    })
}
