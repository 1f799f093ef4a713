//! What a Job of a cluster waits for, and since when.

use std::collections::{BTreeMap, BTreeSet};

use super::super::indexes::Indexes;
use super::super::pod::Phase;
use super::super::time::Time;
use super::backoff::{Backoff, backoffs, whole};
use super::job::LiveJob;
use super::pod::{LivePod, PodStage};

/// How long the controller takes to make the pods that are missing: it looks at a Job a second after an event.
const CREATION: Time = Time::from_seconds(10);

/// Something that a Job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What.
    pub what: WaitFor,
    /// The pods that it is about, by name.
    pub pods: Vec<String>,
    /// Their nodes.
    pub nodes: Vec<String>,
    /// Since when; of several pods, since the first.
    pub since: Option<Time>,
    /// Until when, where that is known.
    pub until: Option<Time>,
}

/// What a Job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// It has ended, and the TTL controller deletes it.
    Ttl,
    /// It has ended, and nothing deletes it but its owner or a person.
    Nobody,
    /// It is in deletion.
    Deletion {
        /// What keeps it.
        finalizers: Vec<String>,
    },
    /// Another controller runs it.
    Manager {
        /// `spec.managedBy`.
        name: String,
    },
    /// It is suspended.
    Resume {
        /// The queue of Kueue.
        queue: Option<String>,
    },
    /// How it ends is decided, and its last condition waits for pods that are terminating.
    LastCondition {
        /// The condition before the last one.
        sort: String,
        /// Its reason.
        reason: String,
    },
    /// Pods in deletion do not end.
    Stuck {
        /// Whether their node seems not to answer.
        is_node_lost: bool,
        /// Whether others are made only at their end.
        is_held: bool,
    },
    /// Pods that have ended are in deletion, and other finalizers keep them.
    Kept {
        /// The finalizers.
        finalizers: Vec<String>,
    },
    /// Pods run on a node that does not answer.
    Silent,
    /// The scheduler finds no node for pods.
    Unschedulable {
        /// What it says.
        message: String,
    },
    /// The scheduler is not to look at pods yet.
    Gated {
        /// Their scheduling gates.
        gates: Vec<String>,
    },
    /// An image cannot be pulled.
    Image {
        /// `ErrImagePull`, `ImagePullBackOff`, `InvalidImageName` and so on.
        reason: String,
        /// The image.
        image: String,
        /// What the kubelet says.
        message: String,
    },
    /// A container cannot be made.
    Container {
        /// `CreateContainerConfigError` and so on.
        reason: String,
        /// What the kubelet says.
        message: String,
    },
    /// The program fails whenever it starts, and the kubelet waits before it starts it again.
    CrashLoop {
        /// How often it was started again.
        restarts: u32,
        /// The exit code.
        code: Option<i64>,
    },
    /// The controller waits before it replaces pods.
    Backoff {
        /// After how many failures.
        failures: u32,
        /// The indexes that wait, each for itself.
        indexes: Option<Indexes>,
    },
    /// Pods are in deletion, within their grace period.
    Terminating {
        /// Whether others are made only at their end.
        is_held: bool,
    },
    /// Pods are about to start.
    Starting,
    /// Pods are missing, and nothing says why.
    Missing {
        /// How many.
        count: u32,
    },
    /// No pods are asked for.
    NoPods,
    /// The controller has not looked at it.
    FirstLook,
    /// Pods run.
    Pods {
        /// How many.
        count: u32,
        /// How many of them are ready.
        ready: u32,
    },
}

impl WaitFor {
    /// Returns a word for it, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Nobody => "ended",
            Self::Deletion { .. } => "deletion",
            Self::Manager { .. } => "managed-by",
            Self::Resume { .. } => "suspended",
            Self::LastCondition { .. } => "last-condition",
            Self::Stuck { .. } => "pod-stuck",
            Self::Kept { .. } => "pod-kept",
            Self::Silent => "node-silent",
            Self::Unschedulable { .. } => "unschedulable",
            Self::Gated { .. } => "scheduling-gated",
            Self::Image { .. } => "image-pull",
            Self::Container { .. } => "container",
            Self::CrashLoop { .. } => "crash-loop",
            Self::Backoff { .. } => "back-off",
            Self::Terminating { .. } => "terminating",
            Self::Starting => "starting",
            Self::Missing { .. } => "pods-missing",
            Self::NoPods => "no-pods",
            Self::FirstLook => "not-started",
            Self::Pods { .. } => "running",
        }
    }

    fn alone(self, since: Option<Time>, until: Option<Time>) -> Wait {
        Wait { what: self, pods: Vec::new(), nodes: Vec::new(), since, until }
    }
}

impl LiveJob {
    /// Returns what it waits for, what stands in its way first.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        if let Some(at) = self.deletion {
            let finalizers = self.finalizers.clone();
            waits.push(WaitFor::Deletion { finalizers }.alone(Some(at), None));
            waits.extend(self.of_pods(true));
            return waits;
        }
        if let Some(end) = self.finished() {
            let what = if self.spec.ttl.is_some() { WaitFor::Ttl } else { WaitFor::Nobody };
            return vec![what.alone(Some(end.at), self.expiry())];
        }
        if let Some(name) = self.manager.clone() {
            return vec![WaitFor::Manager { name }.alone(None, None)];
        }
        if self.spec.suspend {
            let since = self.condition("Suspended").map(|condition| condition.at);
            waits.push(WaitFor::Resume { queue: self.queue.clone() }.alone(since, None));
            waits.extend(self.of_pods(true));
            return waits;
        }
        let ending = self.condition("SuccessCriteriaMet").or_else(|| self.condition("FailureTarget"));
        if let Some(ending) = ending {
            let (sort, reason) = (ending.sort.clone(), ending.reason.clone());
            waits.push(WaitFor::LastCondition { sort, reason }.alone(Some(ending.at), None));
            waits.extend(self.of_pods(true));
            return waits;
        }
        if self.spec.parallelism == 0 {
            waits.push(WaitFor::NoPods.alone(None, None));
            waits.extend(self.of_pods(true));
            return waits;
        }
        waits.extend(self.of_pods(false));
        waits.extend(self.of_missing());
        waits.extend(self.of_running());
        // What stands in the way comes first; running pods are last.
        let order = |wait: &Wait| match wait.what {
            WaitFor::Pods { .. } => 3,
            WaitFor::Starting => 2,
            WaitFor::Terminating { .. } => 1,
            _ => 0,
        };
        waits.sort_by_key(order);
        waits
    }

    /// Returns what pods wait for that do not just run; of those in deletion only, where nothing else matters.
    fn of_pods(&self, only_in_deletion: bool) -> Vec<Wait> {
        let mut alike: BTreeMap<(PodStage, String), (WaitFor, Vec<&LivePod>)> = BTreeMap::new();
        for pod in &self.pods {
            let stage = pod.stage();
            let is_going = matches!(stage, PodStage::Stuck | PodStage::Kept | PodStage::Terminates);
            if only_in_deletion && !is_going {
                continue;
            }
            let Some(what) = self.what(pod, stage) else { continue };
            // Messages of the scheduler and the kubelet may name each pod.
            let key = match &what {
                WaitFor::Unschedulable { .. } | WaitFor::CrashLoop { .. } => String::new(),
                WaitFor::Image { image, .. } => image.clone(),
                WaitFor::Container { reason, .. } => reason.clone(),
                other => format!("{other:?}"),
            };
            alike.entry((stage, key)).or_insert_with(|| (what, Vec::new())).1.push(pod);
        }
        alike.into_iter().map(|((stage, _), (what, pods))| wait_of(what, stage, &pods)).collect()
    }

    fn what(&self, pod: &LivePod, stage: PodStage) -> Option<WaitFor> {
        // Of an index that has another pod already, nothing is waited for but the end of the Job.
        let is_held = self.spec.only_failed;
        let trouble = pod.trouble.clone();
        Some(match stage {
            PodStage::Stuck => {
                let by_taint = pod.disruption.as_deref() == Some("DeletionByTaintManager");
                WaitFor::Stuck { is_node_lost: pod.node.is_some() && (pod.is_silent() || by_taint), is_held }
            }
            PodStage::Kept => WaitFor::Kept { finalizers: pod.finalizers.clone() },
            PodStage::Silent => WaitFor::Silent,
            PodStage::Unscheduled => {
                let (_, message, _) = pod.unscheduled.clone().unwrap_or_default();
                WaitFor::Unschedulable { message }
            }
            PodStage::Gated => WaitFor::Gated { gates: pod.gates.clone() },
            PodStage::Image => {
                let trouble = trouble?;
                WaitFor::Image { reason: trouble.reason, image: trouble.image, message: trouble.message }
            }
            PodStage::Broken => {
                let trouble = trouble?;
                WaitFor::Container { reason: trouble.reason, message: trouble.message }
            }
            PodStage::Crashes => {
                let code = trouble.and_then(|trouble| trouble.last).map(|(code, _)| code);
                WaitFor::CrashLoop { restarts: pod.restarts, code }
            }
            PodStage::Terminates => WaitFor::Terminating { is_held },
            PodStage::Starts => WaitFor::Starting,
            PodStage::Runs | PodStage::Ended => return None,
        })
    }

    /// Returns how many pods the controller has still to make, as it counts them.
    fn missing(&self) -> u32 {
        let count = |is_one: &dyn Fn(&LivePod) -> bool| {
            u32::try_from(self.pods.iter().filter(|pod| is_one(pod)).count()).unwrap_or(u32::MAX)
        };
        let active = count(&LivePod::is_active);
        let terminating = count(&|pod| !pod.is_ended() && pod.deletion.is_some());
        let uncounted = |pod: &&LivePod| pod.is_tracked && pod.phase == Phase::Succeeded;
        let succeeded = if self.spec.indexed {
            let more = Indexes::from_numbers(self.pods.iter().filter(uncounted).filter_map(|pod| pod.index));
            self.status.completed.union(&more).len()
        } else {
            self.status.succeeded.saturating_add(count(&|pod| uncounted(&pod)))
        };
        let wanted = match self.spec.completions {
            None if succeeded > 0 => 0,
            None => self.spec.parallelism,
            Some(all) => {
                let failed = self.status.failed_indexes.as_ref().map_or(0, Indexes::len);
                all.saturating_sub(succeeded).saturating_sub(failed).min(self.spec.parallelism)
            }
        };
        let held = if self.spec.only_failed { terminating } else { 0 };
        wanted.saturating_sub(active).saturating_sub(held)
    }

    /// Returns for what the pods wait that are missing.
    fn of_missing(&self) -> Vec<Wait> {
        let missing = self.missing();
        if missing == 0 {
            return Vec::new();
        }
        let backoffs = backoffs(self);
        if !backoffs.is_empty() {
            let wait = |backoff: Backoff| {
                let what = WaitFor::Backoff { failures: backoff.failures, indexes: backoff.indexes };
                what.alone(Some(backoff.since), Some(backoff.until))
            };
            return backoffs.into_iter().map(wait).collect();
        }
        if self.status.start.is_none() && self.pods.is_empty() {
            return vec![WaitFor::FirstLook.alone(Some(self.created), None)];
        }
        let ended = self.pods.iter().flat_map(|pod| pod.containers.iter().filter_map(|one| one.terminated));
        let backoff = whole(self).filter(|_| !self.is_per_index()).map(|backoff| backoff.until);
        let last = ended.map(|(_, at)| at).chain(self.status.start).chain(backoff).max();
        // Within seconds, the controller makes them.
        let is_late = last.is_none_or(|last| last + CREATION < Time::START);
        if is_late { vec![WaitFor::Missing { count: missing }.alone(last, None)] } else { Vec::new() }
    }

    fn of_running(&self) -> Option<Wait> {
        let running: Vec<&LivePod> = self.pods.iter().filter(|pod| pod.stage() == PodStage::Runs).collect();
        let count = u32::try_from(running.len()).unwrap_or(u32::MAX);
        let ready = running.iter().filter(|pod| pod.ready.is_some_and(|(is_ready, _)| is_ready)).count();
        let what = WaitFor::Pods { count, ready: u32::try_from(ready).unwrap_or(u32::MAX) };
        let mut wait = wait_of(what, PodStage::Runs, &running);
        wait.until = self.deadline();
        (count > 0).then_some(wait)
    }
}

fn wait_of(what: WaitFor, stage: PodStage, pods: &[&LivePod]) -> Wait {
    let since = |pod: &&LivePod| match stage {
        PodStage::Stuck | PodStage::Kept | PodStage::Terminates => pod.deletion.map(|(at, _)| at),
        PodStage::Silent => pod.ready.map(|(_, at)| at),
        PodStage::Unscheduled => pod.unscheduled.as_ref().and_then(|(_, _, at)| *at).or(Some(pod.created)),
        PodStage::Runs | PodStage::Crashes => pod.started.or(Some(pod.created)),
        _ => Some(pod.created),
    };
    let until = |pod: &&LivePod| match stage {
        PodStage::Terminates => pod.deletion.map(|(at, grace)| at + grace),
        PodStage::Silent => pod.given_up(),
        _ => None,
    };
    let nodes: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
    let restarts = pods.iter().map(|pod| pod.restarts).max().unwrap_or_default();
    let what = match what {
        WaitFor::CrashLoop { code, .. } => WaitFor::CrashLoop { restarts, code },
        other => other,
    };
    Wait {
        what,
        pods: pods.iter().map(|pod| pod.name.clone()).collect(),
        nodes: nodes.into_iter().cloned().collect(),
        since: pods.iter().filter_map(since).min(),
        until: pods.iter().filter_map(until).max(),
    }
}
