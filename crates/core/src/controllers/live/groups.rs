//! The pods of a Job of a cluster as groups of pods that are alike, each with what is to become of it.

use std::collections::BTreeMap;

use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::kubelet::Course;
use super::super::pod::{Deletion, Phase, PodGroup};
use super::super::time::Time;
use super::job::LiveJob;
use super::pod::{LivePod, PodStage};

/// How many groups there may be; where there are more, times are rounded.
const MOST_GROUPS: usize = 2_000;
/// To what times are rounded, in milliseconds: as the API has them, then to a minute, to an hour, and to nothing.
const ROUNDED: [i64; 4] = [1, 60_000, 3_600_000, ALL];
/// More than all times there are, in milliseconds.
const ALL: i64 = 1_000_000_000_000_000;
/// From where on pods without an index are numbered that are not active: those that are made next follow the active ones.
const ENDED: u32 = 1_000_000_000;
/// From when the node controller says that pods are not ready until their node has its taint.
const TAINTED: Time = Time::from_seconds(5);
/// How long after its deletion a pod without a node is there: the pod garbage collector looks every 20 s.
const COLLECTED: Time = Time::from_seconds(20);
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
#[derive(Clone, Debug)]
pub(super) struct LiveGroup {
    pub(super) pods: PodGroup,
    pub(super) course: Course,
}

/// Returns one pod as a group.
pub(super) fn group_of(spec: &JobSpec, pod: &LivePod) -> PodGroup {
    let containers = pod.statuses(spec);
    let known = |reason: &str| REASONS.into_iter().find(|known| *known == reason);
    let last = pod.containers.iter().filter_map(|one| one.terminated).map(|(_, at)| at).max();
    PodGroup {
        job: 0,
        members: Indexes::default(),
        // What is to be made has the number of the active ones, or one above it (see `absent`).
        attempt: u32::from(pod.is_active()),
        failures: pod.failures,
        ignored: pod.ignored,
        finalizer: pod.is_tracked,
        created: pod.created,
        bound: pod.node.is_some(),
        phase: pod.phase,
        started: pod.started,
        ended: pod.is_ended().then(|| last.or(pod.ready.map(|(_, at)| at)).unwrap_or(pod.created)),
        ready: pod.ready,
        disrupted: pod.disruption.is_some(),
        containers,
        restarts: pod.restarts,
        deletion: pod.deletion.map(|(at, grace)| Deletion { since: at, at, grace }),
        gone: None,
        reason: pod.reason.as_deref().and_then(known),
    }
}

/// Returns what is to become of a pod. `unreachable` is how long it tolerates an unreachable node.
fn course(pod: &LivePod, unreachable: Option<Time>) -> Course {
    match pod.stage() {
        PodStage::Ended | PodStage::Kept => Course::Ended,
        PodStage::Stuck => Course::NeverEnds,
        PodStage::Silent => {
            let since = pod.ready.map_or(Time::START, |(_, at)| at);
            Course::Silent(unreachable.map(|tolerated| since + TAINTED + tolerated))
        }
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

/// Returns the pods of a Job in groups.
pub(super) fn groups(job: &LiveJob, unreachable: Option<Time>) -> Vec<LiveGroup> {
    let few = ROUNDED.into_iter().find_map(|round| rounded(job, unreachable, round, MOST_GROUPS));
    // What differs by more than its times is not made alike.
    let mut found = few.or_else(|| rounded(job, unreachable, ALL, usize::MAX)).unwrap_or_default();
    found.extend(absent(job, &found));
    found
}

/// Returns the pods in groups, with times that are rounded; nothing where there are more groups than `most`.
fn rounded(job: &LiveJob, unreachable: Option<Time>, round: i64, most: usize) -> Option<Vec<LiveGroup>> {
    let spec = &job.spec;
    let mut alike: BTreeMap<(String, u32), (LiveGroup, Vec<u32>)> = BTreeMap::new();
    let mut seen: BTreeMap<(String, u32), u32> = BTreeMap::new();
    let (mut active, mut others) = (0, ENDED);
    for pod in &job.pods {
        let group = group_of(spec, pod);
        // Times of what was counted mean nothing any more.
        let round = if pod.is_ended() && !pod.is_tracked { ALL } else { round };
        let group = LiveGroup { pods: coarse(group, round), course: course(pod, unreachable) };
        let number = if pod.is_active() { &mut active } else { &mut others };
        let member = if spec.indexed {
            // What has no index is out of range, as the controller takes it.
            pod.index.unwrap_or(u32::MAX)
        } else {
            *number += 1;
            *number - 1
        };
        let key = format!("{:?}", group);
        // Two pods of one index are two groups.
        let nth = seen.entry((key.clone(), member)).or_default();
        *nth += 1;
        alike.entry((key, *nth)).or_insert_with(|| (group, Vec::new())).1.push(member);
        if alike.len() > most {
            return None;
        }
    }
    let mut found: Vec<LiveGroup> = alike
        .into_values()
        .map(|(mut group, members)| {
            group.pods.members = Indexes::of(members);
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
fn absent(job: &LiveJob, found: &[LiveGroup]) -> Option<LiveGroup> {
    if !job.spec.indexed {
        return None;
    }
    let there: Indexes = found.iter().map(|group| &group.pods.members).collect();
    let members = job.spec.indexes().without(&there);
    (!members.is_empty()).then(|| LiveGroup {
        pods: PodGroup {
            job: 0,
            members,
            attempt: 0,
            failures: 0,
            ignored: 0,
            finalizer: false,
            created: job.created,
            bound: false,
            phase: Phase::Succeeded,
            started: None,
            ended: None,
            ready: None,
            disrupted: false,
            containers: Vec::new(),
            restarts: 0,
            deletion: None,
            gone: Some(job.created),
            reason: None,
        },
        course: Course::Ended,
    })
}
