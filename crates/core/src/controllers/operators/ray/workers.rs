//! The pods of a RayCluster: which are deleted, and which are made (`reconcilePods`, `raycluster_controller.go`).

use std::collections::BTreeMap;

use super::super::super::cluster::{Action, Cluster};
use super::super::super::dashboard::HEAD;
use super::super::super::indexes::Indexes;
use super::super::super::job::spec::ContainerSort;
use super::super::super::object::Object;
use super::super::super::pod::{Phase, PodGroup};
use super::super::super::pod_set::{Owner, PodSet, RestartPolicy};
use super::super::super::time::Time;
use super::cluster_spec::WorkerGroup;

/// The pods of a RayCluster that are there, each group with its number.
#[derive(Debug, Default)]
pub(super) struct ClusterPods<'a> {
    /// Of the head.
    pub(super) heads: Vec<(usize, &'a PodGroup)>,
    /// Of the workers.
    pub(super) workers: Vec<(usize, &'a PodGroup)>,
}

/// What goes wrong in a reconcile: it is tried again, later each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Dead pods were deleted: new ones are made the next time.
    Deleted,
    /// There are several heads.
    Heads,
    /// The head cannot be made.
    CreateHead,
    /// A worker cannot be made.
    CreateWorker,
}

impl Failure {
    /// Returns the reason of the condition `ReplicaFailure` (`RayClusterReplicaFailureReason`, `utils/util.go`).
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Deleted | Self::Heads => None,
            Self::CreateHead => Some("FailedCreateHeadPod"),
            Self::CreateWorker => Some("FailedCreateWorkerPod"),
        }
    }
}

impl<'a> ClusterPods<'a> {
    /// Finds the pods of a RayCluster by its name: one that is made again under its name finds the old pods.
    pub(super) fn find(cluster: &'a Cluster, name: &str) -> Self {
        let mut found = Self::default();
        let of_set = |set: &PodSet| {
            let is_it = is_of(cluster, set, Some(name));
            is_it.then(|| *set.role == *HEAD)
        };
        let sets: Vec<Option<bool>> = cluster.sets.iter().map(of_set).collect();
        for (nth, pods) in cluster.pods.iter().enumerate().filter(|(_, pods)| pods.gone.is_none()) {
            match sets.get(pods.set).copied().flatten() {
                Some(true) => found.heads.push((nth, pods)),
                Some(false) => found.workers.push((nth, pods)),
                None => {}
            }
        }
        found
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &'a PodGroup)> {
        self.heads.iter().chain(&self.workers).copied()
    }

    /// Tells whether there are pods, and all run and are ready (`CheckAllPodsRunning`, `utils/util.go`).
    pub(super) fn all_run(&self) -> bool {
        let runs =
            |pods: &PodGroup| pods.phase == Phase::Running && pods.ready.is_none_or(|(is_ready, _)| is_ready);
        self.all().next().is_some() && self.all().all(|(_, pods)| runs(pods))
    }

    /// Returns those of each role.
    pub(super) fn by_role(&self, cluster: &'a Cluster) -> BTreeMap<&'a str, Vec<(usize, &'a PodGroup)>> {
        let mut roles: BTreeMap<&str, Vec<(usize, &PodGroup)>> = BTreeMap::new();
        for (nth, pods) in self.all() {
            if let Some(set) = cluster.set_of(pods) {
                roles.entry(&set.role).or_default().push((nth, pods));
            }
        }
        roles
    }
}

/// Tells whether pods are dead: ended, or their Ray container ended and does not start again (`shouldDeletePod`).
pub(super) fn is_dead(cluster: &Cluster, pods: &PodGroup) -> bool {
    if pods.phase != Phase::Running {
        return pods.is_ended();
    }
    let never_restarts = cluster.set_of(pods).is_some_and(|set| set.template.restart == RestartPolicy::Never);
    let mut containers = pods.containers.iter().filter(|status| status.sort == ContainerSort::Main);
    never_restarts && containers.next().is_some_and(|status| status.terminated.is_some())
}

/// Deletes pods.
pub(super) fn delete(pods: usize, members: &Indexes) -> Action {
    Action::DeletePods { pods, members: members.clone(), is_released: false }
}

/// Deletes pods, all of them, that are not in deletion yet.
pub(super) fn delete_all<'a>(pods: impl IntoIterator<Item = (usize, &'a PodGroup)>) -> Vec<Action> {
    let active = pods.into_iter().filter(|(_, pods)| pods.deletion.is_none());
    active.map(|(nth, pods)| delete(nth, &pods.members)).collect()
}

/// Returns how many pods of each role Ray clusters have had: new ones are numbered from that on.
pub(super) fn made(cluster: &Cluster) -> BTreeMap<&str, u32> {
    let sets: Vec<bool> = cluster.sets.iter().map(|set| is_of(cluster, set, None)).collect();
    let mut made: BTreeMap<&str, u32> = BTreeMap::new();
    for pods in cluster.pods.iter().filter(|pods| sets.get(pods.set) == Some(&true)) {
        if let (Some(set), Some(last)) = (cluster.set_of(pods), pods.members.last()) {
            let made = made.entry(&set.role).or_default();
            *made = (*made).max(last.saturating_add(1));
        }
    }
    made
}

/// Returns the pods of a RayCluster that are gone since a time, by role.
pub(super) fn lost<'a>(
    cluster: &'a Cluster,
    name: &str,
    since: Time,
) -> BTreeMap<&'a str, Vec<&'a PodGroup>> {
    let mut lost: BTreeMap<&str, Vec<&PodGroup>> = BTreeMap::new();
    for pods in cluster.pods.iter().filter(|pods| pods.gone.is_some_and(|gone| gone >= since)) {
        if let Some(set) = cluster.set_of(pods).filter(|_| cluster.is_of_ray_cluster(pods, name)) {
            lost.entry(&set.role).or_default().push(pods);
        }
    }
    lost
}

/// Tells whether pods are of a RayCluster: of one of a name, or of any.
fn is_of(cluster: &Cluster, set: &PodSet, name: Option<&str>) -> bool {
    let Owner::Object(owner) = set.owner else { return false };
    let is_it = |owner: &Object| owner.kind == "RayCluster" && name.is_none_or(|name| owner.name == name);
    cluster.objects.get(owner).is_some_and(is_it)
}

/// Returns the numbers of so many new pods, of which there have been some.
pub(super) fn new_numbers(made: u32, count: u32) -> Indexes {
    Indexes::from_range(made, made.saturating_add(count.saturating_sub(1)))
}

/// What is done about a group of workers.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Dead or superfluous pods, and their numbers.
    pub(super) deleted: Vec<(usize, Indexes)>,
    /// How many are made.
    pub(super) created: u32,
    /// Whether the rest waits for the next time.
    pub(super) is_error: bool,
}

/// Looks at workers of which each is a replica of its own.
pub(super) fn single_hosts(
    cluster: &Cluster,
    group: &WorkerGroup,
    pods: &[(usize, &PodGroup)],
    is_autoscaled: bool,
) -> Change {
    let dead = pods.iter().filter(|(_, pods)| is_dead(cluster, pods));
    let deleted: Vec<(usize, Indexes)> = dead.map(|(nth, pods)| (*nth, pods.members.clone())).collect();
    if !deleted.is_empty() {
        return Change { deleted, created: 0, is_error: true };
    }
    let there = pods.iter().map(|(_, pods)| pods.count()).fold(0, u32::saturating_add);
    let desired = group.desired();
    if there <= desired {
        return Change { created: desired - there, ..Change::default() };
    }
    // Which go is arbitrary; only the autoscaler chooses where there is one.
    if is_autoscaled {
        Change::default()
    } else {
        Change { deleted: lowest(pods, there - desired), ..Change::default() }
    }
}

/// Returns so many pods, those with the lowest numbers.
fn lowest(pods: &[(usize, &PodGroup)], count: u32) -> Vec<(usize, Indexes)> {
    let mut sorted: Vec<&(usize, &PodGroup)> = pods.iter().collect();
    sorted.sort_by_key(|(_, pods)| pods.members.first());
    let mut left = count;
    let mut chosen = Vec::new();
    for (nth, pods) in sorted {
        let members = pods.members.lowest(left);
        left -= members.len();
        if !members.is_empty() {
            chosen.push((*nth, members));
        }
    }
    chosen
}

/// Looks at workers of which several are a replica: what becomes of one becomes of all of them
/// (`reconcileMultiHostWorkerGroup`). `lost` are those that are gone since the last look. A replica has numbers that follow one another.
pub(super) fn multiple_hosts(
    cluster: &Cluster,
    group: &WorkerGroup,
    pods: &[(usize, &PodGroup)],
    lost: &[&PodGroup],
    is_autoscaled: bool,
) -> Change {
    let hosts = group.hosts;
    let there: Indexes = pods.iter().map(|(_, pods)| &pods.members).collect();
    let replica = |number: u32| {
        let first = number / hosts * hosts;
        Indexes::from_range(first, first.saturating_add(hosts - 1))
    };
    let parts = |numbers: &Indexes| {
        let parts = pods.iter().map(|(nth, pods)| (*nth, pods.members.intersection(numbers)));
        parts.filter(|(_, members)| !members.is_empty()).collect::<Vec<(usize, Indexes)>>()
    };
    let mut dead = Indexes::default();
    // By replicas and not by pods: a manifest may ask for a thousand million of them.
    for pods in lost {
        let left = pods.members.blocks(hosts).intersection(&there);
        let Some(first) = left.first() else { continue };
        // A host that ended was seen dead before it went: the replica is made again at once.
        if !pods.is_ended() {
            return Change {
                deleted: parts(&replica(first).intersection(&there)),
                created: 0,
                is_error: true,
            };
        }
        dead = dead.union(&left);
    }
    for (_, pods) in pods.iter().filter(|(_, pods)| is_dead(cluster, pods)) {
        dead = dead.union(&pods.members.blocks(hosts).intersection(&there));
    }
    let whole = there.without(&dead).len() / hosts;
    let desired = group.desired() / hosts;
    let mut change = Change { deleted: parts(&dead), ..Change::default() };
    if whole <= desired {
        change.created = (desired - whole).saturating_mul(hosts);
    } else if !is_autoscaled {
        let superfluous = there.without(&dead).lowest((whole - desired).saturating_mul(hosts));
        change.deleted.extend(parts(&superfluous));
    }
    change
}
