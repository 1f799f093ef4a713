//! The pods of an object that use each claim.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::judge::finding::Finding;
use crate::judge::mounts::CheckpointHints;
use crate::judge::nodes::Placement;
use crate::judge::ranks::WorkloadReading;
use crate::judge::runtime_pods::Joined;
use crate::judge::runtimes;
use crate::judge::words::has_word;
use crate::kinds::{ClaimUse, ContainerSlot, Field, Mounted, OwnClaim, Part, PodTemplate, Workload};
use crate::text::meter;
use crate::text::value::Value;

/// Maximum checked claims that every pod mounts: each takes one walk over all pods. People write one or two.
const MAX_EVERYWHERE: usize = 8;

/// One claim, and all the templates of the object that mount it.
pub(super) struct SharedClaim<'a> {
    pub(super) name: &'a str,
    /// Each volume of it, with the index of its pod template; in the order of the templates.
    pub(super) uses: Vec<(usize, ClaimUse<'a>)>,
    /// The access modes, if the object has them.
    pub(super) modes: Option<Part<'a>>,
    /// The path where every container mounts it.
    everywhere: Option<&'a str>,
}

/// The pods that use a claim.
#[derive(Clone, Debug)]
pub(super) struct Users {
    /// The index of each template, once.
    pub(super) pods: Vec<usize>,
    /// Whether some of them start only when others have ended.
    pub(super) in_turns: bool,
    /// The number of pods at once in one run; nothing if unknown.
    pub(super) at_once: Option<i64>,
}

/// The object with cached facts about its pods: there may be many claims, and large pods.
pub(super) struct Scene<'w, 'a> {
    pub(super) workload: &'w Workload<'a>,
    pub(super) placement: Placement<'w, 'a>,
    reading: &'w WorkloadReading<'a>,
    /// The runtime that defines the pods.
    joined: Option<&'w Joined<'w>>,
    /// The checkpoint hints of each pod template, read on first use.
    hints: Vec<OnceCell<CheckpointHints<'w, 'a>>>,
    /// The users of a claim that all pods mount.
    all: OnceCell<Rc<Users>>,
}

impl<'w, 'a> Scene<'w, 'a> {
    pub(super) fn new(
        workload: &'w Workload<'a>,
        reading: &'w WorkloadReading<'a>,
        joined: Option<&'w Joined<'w>>,
    ) -> Self {
        let hints = workload.pods.iter().map(|_| OnceCell::new()).collect();
        let placement = Placement::from_workload(workload);
        Self { workload, placement, reading, joined, hints, all: OnceCell::new() }
    }

    /// Returns the claims of the object: by name, then those defined in it.
    pub(super) fn claims(&self) -> Vec<SharedClaim<'a>> {
        let mut by_name: BTreeMap<&'a str, SharedClaim<'a>> = BTreeMap::new();
        let shared = |name| SharedClaim { name, uses: Vec::new(), modes: None, everywhere: None };
        for (index, pod) in self.workload.pods.iter().enumerate() {
            for mut claim in pod.claims() {
                self.put(pod, &mut claim);
                by_name.entry(claim.claim).or_insert_with(|| shared(claim.claim)).uses.push((index, claim));
            }
        }
        if self.workload.kind.claims.is_empty() {
            return by_name.into_values().collect();
        }
        let mut described = Vec::new();
        let mut of_volumes: BTreeMap<&'a str, OwnClaim<'a>> = BTreeMap::new();
        let left = Cell::new(MAX_EVERYWHERE);
        for own in self.workload.own_claims() {
            // The operator rejects a claim that is both named and described.
            if own.is_refused(&self.workload.object) {
                continue;
            }
            if own.form.mounted == Mounted::ByName {
                of_volumes.entry(own.name).or_insert(own);
                continue;
            }
            if left.replace(left.get().saturating_sub(1)) == 0 {
                break;
            }
            let everywhere = own.path;
            match (own.to_look_up(), &own.modes) {
                (Some((name, part)), _) => {
                    let known = by_name.entry(name).or_insert_with(|| shared(name));
                    known.everywhere = known.everywhere.or(everywhere);
                    known.uses.push((0, mount(name, "", part.clone())));
                }
                (None, Some(modes)) => described.push(SharedClaim {
                    uses: vec![(0, mount(own.name, "", modes.clone()))],
                    modes: Some(modes.clone()),
                    everywhere,
                    ..shared(own.name)
                }),
                (None, None) => {}
            }
        }
        by_name.into_values().chain(described).chain(self.by_mounts(of_volumes)).collect()
    }

    /// Returns the claims that pods mount by their names.
    fn by_mounts(&self, own: BTreeMap<&'a str, OwnClaim<'a>>) -> Vec<SharedClaim<'a>> {
        let mut found: BTreeMap<&'a str, Vec<(usize, ClaimUse<'a>)>> = BTreeMap::new();
        if own.is_empty() {
            return Vec::new();
        }
        for (index, pod) in self.workload.pods.iter().enumerate() {
            let mut names: BTreeSet<&'a str> = BTreeSet::new();
            for (place, container) in pod.container_values() {
                let mounts = container.get("volumeMounts").and_then(Value::as_array);
                if place.slot() == ContainerSlot::Ephemeral {
                    continue;
                }
                for mount in mounts.into_iter().flatten() {
                    meter::spend(1);
                    names.extend(mount.get("name").and_then(Value::as_str));
                }
            }
            for name in names {
                if let Some(modes) = own.get(name).and_then(|own| own.modes.as_ref()) {
                    let mut used = mount(name, name, modes.clone());
                    self.put(pod, &mut used);
                    found.entry(name).or_default().push((index, used));
                }
            }
        }
        let shared = |(name, uses)| {
            let modes = own.get(name).and_then(|own: &OwnClaim<'a>| own.modes.clone());
            SharedClaim { name, uses, modes, everywhere: None }
        };
        found.into_iter().map(shared).collect()
    }

    /// Moves the place of a claim's use into the job, if the pods are those of a runtime.
    fn put(&self, pod: &PodTemplate<'a>, used: &mut ClaimUse<'a>) {
        if let Some(joined) = self.joined {
            used.part.pointer = joined.place(pod, used.volume).clone();
        }
    }

    fn hints(&self, pod: usize) -> &CheckpointHints<'w, 'a> {
        self.hints[pod].get_or_init(|| CheckpointHints::new(self.reading.mounts(pod)))
    }

    /// Tells whether every mount of a claim is read-only.
    pub(super) fn is_read_only(&self, shared: &SharedClaim<'_>) -> bool {
        shared.everywhere.is_none()
            && shared
                .uses
                .iter()
                .all(|(pod, claim)| claim.read_only || self.reading.mounts(*pod).is_read_only(claim.volume))
    }

    /// Tells whether a claim holds checkpoints, by the usual names
    /// (docs/internals/manifests.md#names-of-checkpoints).
    pub(super) fn holds_checkpoints(&self, shared: &SharedClaim<'_>, words: &[&str]) -> bool {
        let everywhere = |path: &str| {
            has_word(path, words)
                || (0..self.workload.pods.len()).any(|pod| self.hints(pod).is_told_of(path, words))
        };
        has_word(shared.name, words)
            || shared.uses.iter().any(|(pod, claim)| {
                has_word(claim.volume, words) || self.hints(*pod).is_for_checkpoints(claim.volume, words)
            })
            || shared.everywhere.is_some_and(everywhere)
    }

    /// Returns the pods that use a claim.
    pub(super) fn users(&self, shared: &SharedClaim<'_>) -> Rc<Users> {
        if shared.everywhere.is_some() {
            let all = || Rc::new(self.users_in((0..self.workload.pods.len()).collect()));
            return Rc::clone(self.all.get_or_init(all));
        }
        // A template may have several volumes of the claim.
        let mut pods: Vec<usize> = shared.uses.iter().map(|(pod, _)| *pod).collect();
        pods.dedup();
        Rc::new(self.users_in(pods))
    }

    fn users_in(&self, pods: Vec<usize>) -> Users {
        let templates = &self.workload.pods;
        let in_turns = pods.len() > 1 && pods.iter().any(|pod| templates[*pod].waits_for_the_end());
        let at_once = pods.iter().try_fold(0_i64, |all, pod| {
            let count = templates[*pod].count.most?.max(0);
            Some(if in_turns { all.max(count) } else { all.saturating_add(count) })
        });
        Users { pods, in_turns, at_once }
    }

    /// Tells whether the pods of a Job may run one after another.
    pub(super) fn takes_turns(&self) -> bool {
        // Pods of a runtime that take part in the training run all at once, whatever the runtime sets.
        if self.joined.is_some() && self.workload.pods.iter().any(|pod| runtimes::step(pod).is_some()) {
            return false;
        }
        let specs: Vec<_> = self.workload.runs.iter().filter_map(|run| run.job_spec.as_ref()).collect();
        !specs.is_empty() && specs.into_iter().all(may_take_turns)
    }

    /// Labels the runtime that defines the pods, if the finding is about the runtime.
    pub(super) fn label_runtime(&self, finding: &mut Finding) {
        if let Some(joined) = self.joined {
            joined.label(finding, "its pods mount the claim".to_owned());
        }
    }
}

fn may_take_turns(spec: &Part<'_>) -> bool {
    let at_once = spec.get("parallelism").int().or_default(1);
    !matches!((spec.get("completions").int(), at_once), (Field::Set(all), Some(at_once)) if all <= at_once)
}

fn mount<'a>(claim: &'a str, volume: &'a str, part: Part<'a>) -> ClaimUse<'a> {
    ClaimUse { claim, volume, read_only: false, part }
}
