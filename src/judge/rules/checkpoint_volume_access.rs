//! Pods that share a claim can all mount it: a volume for one node is not used by pods on several.
//!
//! ## Why
//!
//! A `ReadWriteOnce` volume is attached to one node at a time, and a `hostPath` is another directory on each
//! node. With the first, pods that land on another node wait in ContainerCreating, without a time limit,
//! holding their GPUs, with nothing but a `FailedAttachVolume` event to say why. The scheduler does not look
//! at access modes, so it happens at random: the job runs when all pods fit on one node, and hangs when they
//! do not. `readOnly` on the volume or the mount does not lift it. With `ReadWriteOncePod` only one pod in
//! the whole cluster may mount the volume, wherever it runs.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: v1
//! kind: PersistentVolumeClaim
//! metadata: {name: checkpoints}
//! spec:
//!   accessModes: [ReadWriteOnce]
//!   resources: {requests: {storage: 100Gi}}
//! ---
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   parallelism: 8
//!   completions: 8
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
//!       volumes:
//!       - name: checkpoints
//!         persistentVolumeClaim: {claimName: checkpoints}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: v1
//! kind: PersistentVolumeClaim
//! metadata: {name: checkpoints}
//! spec:
//!   accessModes: [ReadWriteMany]
//!   resources: {requests: {storage: 100Gi}}
//! ---
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   parallelism: 8
//!   completions: 8
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
//!       volumes:
//!       - name: checkpoints
//!         persistentVolumeClaim: {claimName: checkpoints}
//! ```
//!
//! ## Fix
//!
//! None: whether to ask for another volume, to keep the pods together, or to let one pod write, is a
//! decision. Ways out:
//!
//! * a claim with `ReadWriteMany` (NFS, CephFS, a parallel file system), or checkpoints in object storage;
//! * all pods on one node: a required `podAffinity` to the job's own pods with `topologyKey:
//!   kubernetes.io/hostname`;
//! * a claim for each pod: a generic ephemeral volume (`volumes[].ephemeral`), where pods need not share.
//!
//! ## Details
//!
//! The action of the policy is for claims that hold checkpoints, and for pods of which it is certain that
//! they cannot all start, whatever the claim holds. Everything else is a warning at most, since the pods may
//! happen to fit on one node. It is certain
//!
//! * where a `ReadWriteOncePod` claim is used by several pods that are to run at the same time: all but one
//!   wait. The pods of a Job with more `completions` than `parallelism`, or without `completions`, may take
//!   turns, so there it is not certain;
//! * where a `ReadWriteOnce` claim is used by pods that are never on one node: their templates name different
//!   nodes, or a required `podAntiAffinity` with the topology `kubernetes.io/hostname` keeps them apart.
//!
//! Pods that only an autoscaler would add (`elasticPolicy`) are not counted for that.
//!
//! A claim holds checkpoints when a word of the parameter `words` is in its name, the volume's name or a
//! mount path, or in the name of a flag or variable whose value points into the mount (`--save-dir /data/x`,
//! `trainer.ckpt_path=/data/x`; Hydra's `hydra.run.dir` and `hydra.sweep.dir`, and `default_root_dir`, count
//! as well). Names are split where they have other characters than letters and digits, between letters and
//! digits, and before a capital (`saveDir`). A word is one whole part, or its plural: `neox-checkpoints`,
//! `ckpt2`, `logs`. One with a hyphen is as many parts in a row: `model-zoo` is in `team-model-zoo` and
//! `modelZoo`. Besides the word a part may have `train`, `training`, `run`, `exp`, `job`, `eval` or `my`
//! before it, or `dir`, `path`, `root`, `folder`, `vol`, `volume`, `pvc` or `claim` after it (`trainlogs`,
//! `modelvol`). So `login`, `lightweight-cache` and `artifactory` hold none.
//!
//! The access modes come from the claim: from the linted files or `--facts`, or from the cluster. Of a bound
//! claim the modes of the volume count. Of `--facts` a claim that names its namespace is that of a job in the
//! same namespace; where the job names none, it is unknown which claim is meant, unless `dry-run --namespace`
//! says it. A claim that nobody has seen is unknown and gives no finding; one that the cluster says is not
//! there gives a warning, since its pods will wait for it. Modes with `ReadWriteMany` are fine;
//! `ReadOnlyMany` is fine where every mount is read-only, and worth a warning where one is not.
//!
//! A claim in a file may name its PersistentVolume (`volumeName`). If that is among the files, its access
//! modes count as well, and one that no node attaches (NFS, `local`, …) is fine; a `hostPath` gives a
//! warning, since each node has its own directory. If nobody has seen it, there is a warning at most. A claim
//! that the cluster has bound names its volume, too; its access modes are those of the volume.
//!
//! How many pods there are: `parallelism`, but not more than `completions`; or the sum of `replicas` over the
//! replica types that use the claim, the workers counted up to `elasticPolicy.maxReplicas`. Pods are on one
//! node if `nodeName`, a node selector or a required node affinity names one host, or a required pod affinity
//! with the topology `kubernetes.io/hostname` selects the pods themselves. A CronJob of one pod whose runs
//! may overlap (`concurrencyPolicy: Allow`, and no deadline shorter than the time between two runs) gets a
//! warning.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! * <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes>

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::judge::engine::Origin;
use crate::judge::facts::{Claim, Fact, Volume};
use crate::judge::finding::{Finding, Level, Part as FindingPart, Place, Source};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Fills, Kinds, ParamDefault, Ratchet, Rule, Strings};
use crate::k8s::cron::Schedule;
use crate::kinds::{
    Among, ClaimUse, Container, Field, Part, PodCount, PodTemplate, Workload, on_one_node, on_several_nodes,
};
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::placeholder::{is_placeholder, is_to_replace};
use crate::text::value::Value;

const WORDS: Strings = Strings::new(
    "words",
    "Words in the names of claims, volumes, mount paths, flags and variables by which a claim is known to hold checkpoints.",
    &[
        "artifact",
        "checkpoint",
        "checkpointing",
        "ckpt",
        "experiment",
        "log",
        "mlflow",
        "mlruns",
        "model",
        "output",
        "result",
        "runs",
        "save",
        "tensorboard",
        "wandb",
        "weight",
    ],
);

pub(super) static RULE: Rule = Rule {
    id: "checkpoint-volume-access",
    summary: "Pods that share a claim can all mount it: a volume for one node is not used by pods on several",
    kinds: Kinds::All,
    default: Action::Deny,
    fills: Fills::Nothing,
    params: &[WORDS.0],
    export: Exportable::No("the access modes of a claim are not in the object that mounts it"),
    check,
    restore: None,
    ratchet: Ratchet::BY_PLACE,
};

/// The longest name of a namespace that can exist, in bytes.
const MAX_NAMESPACE_BYTES: usize = 63;

/// The longest name of a volume that can exist, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// One claim, and all the templates of the object that mount it.
struct Shared<'a> {
    name: &'a str,
    /// Each volume of it, with the index of its pod template; in the order of the templates.
    uses: Vec<(usize, ClaimUse<'a>)>,
}

/// The object, and what was found out about its pods: the claims may be many, and the pods large.
struct Scene<'w, 'a> {
    workload: &'w Workload<'a>,
    /// The mounts of each pod template by the name of the volume, once they are asked for.
    mounts: Vec<OnceCell<PodMounts<'a>>>,
    /// Where the pods of several templates are.
    colocated: RefCell<BTreeMap<(Vec<usize>, Among), Nodes>>,
    /// Of each pod template: [`Scene::placement_weight`], once it is asked for.
    placement_weights: Vec<OnceCell<usize>>,
    /// What may still be read to find that out, once some of it was.
    colocation_work_left: Cell<Option<usize>>,
}

/// On how many nodes pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// All on one.
    One,
    /// Certainly on several.
    Several,
    /// As it happens.
    Any,
}

/// In so many sets of templates, on average, a template is looked at. A claim is used by one set, and four
/// templates make sixteen: what has more is an object made to take long. Whether its pods are on one node is
/// then unknown, and never denies.
const SETS_PER_TEMPLATE: usize = 16;

/// What the containers of one pod template mount.
#[derive(Default)]
struct PodMounts<'a> {
    by_volume: BTreeMap<&'a str, VolumeMounts<'a>>,
    containers: Vec<Container<'a>>,
    /// Of each container: [`telling_values`], once they are asked for.
    telling: Vec<OnceCell<BTreeSet<&'a str>>>,
}

/// The mounts of one volume. What is found out about them is kept: any number of volumes may have the same
/// name.
#[derive(Default)]
struct VolumeMounts<'a> {
    mounts: Vec<Mount<'a>>,
    read_only: OnceCell<bool>,
    for_checkpoints: OnceCell<bool>,
}

struct Mount<'a> {
    path: Option<&'a str>,
    read_only: bool,
    /// The container's index in [`PodMounts::containers`].
    container: usize,
}

impl<'a> PodMounts<'a> {
    fn of(pod: &PodTemplate<'a>) -> Self {
        let mut all = Self { containers: pod.containers().collect(), ..Self::default() };
        all.telling.resize_with(all.containers.len(), OnceCell::new);
        let mounts = all.containers.iter().enumerate();
        for (container, mount) in
            mounts.flat_map(|(at, one)| one.part.get("volumeMounts").items().map(move |mount| (at, mount)))
        {
            let Some(volume) = mount.get("name").value.and_then(Value::as_str) else { continue };
            let path = mount.get("mountPath").value.and_then(Value::as_str);
            let read_only = mount.get("readOnly").bool() == Field::Set(true);
            all.by_volume.entry(volume).or_default().mounts.push(Mount { path, read_only, container });
        }
        all
    }

    /// Tells whether every mount of a volume is read-only.
    fn is_read_only(&self, volume: &str) -> bool {
        let all = |volume: &VolumeMounts<'_>| volume.mounts.iter().all(|mount| mount.read_only);
        self.by_volume.get(volume).is_none_or(|volume| *volume.read_only.get_or_init(|| all(volume)))
    }

    /// Tells whether a volume is mounted where checkpoints are kept, or something with such a name points
    /// into it.
    fn is_for_checkpoints(&self, volume: &str, words: &[&str]) -> bool {
        let one = |mount: &Mount<'_>| {
            meter::spend(1);
            let Some(path) = mount.path else { return false };
            let values = || {
                self.telling[mount.container]
                    .get_or_init(|| telling_values(&self.containers[mount.container], words))
            };
            has_word(path, words) || is_one_inside(path, values())
        };
        self.by_volume
            .get(volume)
            .is_some_and(|volume| *volume.for_checkpoints.get_or_init(|| volume.mounts.iter().any(one)))
    }
}

impl<'w, 'a> Scene<'w, 'a> {
    fn of(workload: &'w Workload<'a>) -> Self {
        let mounts = workload.pods.iter().map(|_| OnceCell::new()).collect();
        let placement_weights = workload.pods.iter().map(|_| OnceCell::new()).collect();
        Self {
            workload,
            mounts,
            colocated: RefCell::default(),
            placement_weights,
            colocation_work_left: Cell::new(None),
        }
    }

    /// Returns the claims of the object, by name.
    fn claims(&self) -> Vec<Shared<'a>> {
        let mut by_name: BTreeMap<&'a str, Vec<(usize, ClaimUse<'a>)>> = BTreeMap::new();
        for (index, pod) in self.workload.pods.iter().enumerate() {
            for claim in pod.claims() {
                by_name.entry(claim.claim).or_default().push((index, claim));
            }
        }
        by_name.into_iter().map(|(name, uses)| Shared { name, uses }).collect()
    }

    fn mounts(&self, pod: usize) -> &PodMounts<'a> {
        self.mounts[pod].get_or_init(|| PodMounts::of(&self.workload.pods[pod]))
    }

    /// Returns on how many nodes the pods of the templates are bound to be; nothing beyond as many sets of
    /// templates as [`SETS_PER_TEMPLATE`] allows.
    fn nodes(&self, pods: &[usize], among: Among) -> Option<Nodes> {
        let key = (pods.to_vec(), among);
        if let Some(known) = self.colocated.borrow().get(&key) {
            return Some(*known);
        }
        let work: usize = pods.iter().map(|pod| 1 + self.placement_weight(*pod)).sum();
        let all = || {
            SETS_PER_TEMPLATE
                * (0..self.workload.pods.len()).map(|pod| 1 + self.placement_weight(pod)).sum::<usize>()
        };
        let left = self.colocation_work_left.get().unwrap_or_else(all);
        self.colocation_work_left.set(Some(left.saturating_sub(work)));
        if work > left {
            return None;
        }
        let templates: Vec<&PodTemplate<'_>> = pods.iter().map(|pod| &self.workload.pods[*pod]).collect();
        let least =
            || pods.iter().map(|pod| (&self.workload.pods[*pod], self.least(*pod))).collect::<Vec<_>>();
        let nodes = match among {
            _ if on_one_node(self.workload, &templates, among) => Nodes::One,
            Among::OneRun if on_several_nodes(self.workload, &least()) => Nodes::Several,
            _ => Nodes::Any,
        };
        self.colocated.borrow_mut().insert(key, nodes);
        Some(nodes)
    }

    /// Returns how many pods of a template run at once for certain: what an autoscaler may add or take away
    /// is not counted.
    fn least(&self, pod: usize) -> i64 {
        let template = &self.workload.pods[pod];
        let Some(replica) = &template.replica else { return template.count.most.unwrap_or(0).max(0) };
        let replicas = PodCount::of_replicas(&replica.part).most.unwrap_or(0).max(0);
        let elastic = self.workload.object.at(&["spec", "elasticPolicy"]);
        match elastic.get("minReplicas").int() {
            Field::Set(least) if elastic.is_set() => replicas.min(least.max(0)),
            Field::Unset => replicas,
            _ => 0,
        }
    }

    /// Returns how many values there are in what decides on which node a template's pods are.
    fn placement_weight(&self, pod: usize) -> usize {
        *self.placement_weights[pod].get_or_init(|| {
            let pod = &self.workload.pods[pod];
            let parts = [
                pod.template.at(&["metadata", "labels"]),
                pod.spec.get("affinity"),
                pod.spec.get("nodeSelector"),
            ];
            parts.iter().filter_map(|part| part.value).map(weight).sum()
        })
    }

    /// Tells whether every mount of a claim is read-only.
    fn is_read_only(&self, shared: &Shared<'_>) -> bool {
        shared.uses.iter().all(|(pod, claim)| claim.read_only || self.mounts(*pod).is_read_only(claim.volume))
    }

    /// Tells whether a claim holds checkpoints, by the names that people give to such things (corpus.md §7).
    fn holds_checkpoints(&self, shared: &Shared<'_>, words: &[&str]) -> bool {
        has_word(shared.name, words)
            || shared.uses.iter().any(|(pod, claim)| {
                has_word(claim.volume, words) || self.mounts(*pod).is_for_checkpoints(claim.volume, words)
            })
    }
}

/// Returns how many values there are in a value, itself included.
fn weight(value: &Value) -> usize {
    meter::spend(1);
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => entries.values().map(weight).sum(),
        _ => 0,
    }
}

impl Shared<'_> {
    /// Returns each template once, though it may have several volumes of the claim.
    fn pods(&self) -> Vec<usize> {
        let mut pods: Vec<usize> = self.uses.iter().map(|(pod, _)| *pod).collect();
        pods.dedup();
        pods
    }
}

fn check(cx: &mut Cx<'_>) {
    let scene = Scene::of(cx.workload);
    for shared in scene.claims() {
        let Some((_, first)) = shared.uses.first() else { continue };
        // A cluster can be asked for a name in capitals, too: there is no such claim.
        if is_placeholder(shared.name) || cx.request.origin == Origin::File && is_to_replace(shared.name) {
            continue;
        }
        match cx.facts().claim(cx.request.namespace, shared.name) {
            Fact::Unknown => {}
            Fact::Absent => {
                cx.report(&first.part.pointer, format!("the claim `{}` does not exist: pods wait in Pending until it does", shared.name))
                    .at_most(Level::Warn)
                    .help("create the claim, or fix its name; a claim that is applied together with the job is fine");
            }
            Fact::Known(claim) => check_claim(cx, &scene, &shared, &claim),
        }
    }
}

fn check_claim(cx: &mut Cx<'_>, scene: &Scene<'_, '_>, shared: &Shared<'_>, claim: &Claim) {
    if claim.has("ReadWriteMany") || (claim.has("ReadOnlyMany") && scene.is_read_only(shared)) {
        return;
    }
    let one_pod = claim.has("ReadWriteOncePod");
    // The scheduler keeps a second pod away from a claim for one pod, whatever the volume is.
    let volume =
        if one_pod { Volume::OfCluster } else { cx.facts().volume(cx.request.namespace, shared.name) };
    match &volume {
        Volume::Free => return,
        Volume::Attached(modes) => {
            let has = |mode: &str| modes.iter().any(|have| have == mode);
            if has("ReadWriteMany") || (has("ReadOnlyMany") && scene.is_read_only(shared)) {
                return;
            }
        }
        Volume::OfCluster | Volume::Unseen | Volume::HostPath { .. } => {}
    }
    let pods = shared.pods();
    let workload = cx.workload;
    // How many pods of one run may mount it at once: unknown where one of the counts is.
    let at_once = pods
        .iter()
        .try_fold(0_i64, |sum, pod| Some(sum.saturating_add(workload.pods[*pod].count.most?.max(0))));
    let Some(at_once) = at_once else { return };
    if at_once > 1 {
        let nodes = if one_pod { Some(Nodes::Any) } else { scene.nodes(&pods, Among::OneRun) };
        if nodes == Some(Nodes::One) {
            return;
        }
        let together = || {
            !takes_turns(workload)
                && pods.iter().map(|pod| scene.least(*pod)).fold(0, i64::saturating_add) > 1
        };
        let sure = match nodes {
            Some(Nodes::Several) => Sure::Certain("pods that are never on one node use it"),
            _ if one_pod && together() => Sure::Certain(""),
            Some(_) => Sure::Likely,
            None => Sure::Unknown,
        };
        let users = format!("up to {at_once} pods use it at once");
        if let Volume::HostPath { name, source } = &volume {
            return host_path(cx, shared, (name, source), &users);
        }
        let finding = report(cx, scene, shared, claim, &users, sure);
        if let Some(finding) = finding.filter(|_| volume == Volume::Unseen) {
            finding.at_most(Level::Warn);
            finding.help =
                format!("show the PersistentVolume that it names (`--facts`), or {}", finding.help).into();
        }
    } else if at_once == 1 && runs_may_overlap(workload) && !matches!(volume, Volume::HostPath { .. }) {
        if !one_pod && scene.nodes(&pods, Among::SeveralRuns) == Some(Nodes::One) {
            return;
        }
        let policy = workload.schedule.as_ref().map(|cron| cron.get("concurrencyPolicy"));
        let finding = report(cx, scene, shared, claim, "runs of this CronJob may overlap", Sure::Unknown);
        let help = "write `concurrencyPolicy: Forbid`, or a deadline shorter than the time between two runs";
        if let (Some(finding), Some(policy)) = (finding, policy) {
            finding.help(help);
            if policy.is_set() {
                finding.label(
                    Place::Here(policy.pointer, FindingPart::Value),
                    "lets a run start beside another",
                );
            }
        }
    }
}

/// Says that pods on several nodes do not share what they write.
fn host_path(cx: &mut Cx<'_>, shared: &Shared<'_>, (name, source): (&str, &Source), users: &str) {
    let Some((_, first)) = shared.uses.first() else { return };
    let message = format!(
        "the claim `{}` is bound to a `hostPath`: each node has its own directory, and {users}",
        shared.name
    );
    let workload = cx.workload;
    let finding = cx.report(&first.part.pointer, message);
    finding
        .at_most(Level::Warn)
        .help("use a volume that nodes share, or a required `podAffinity` that keeps the pods on one node");
    label_uses(finding, workload, shared);
    let object = format!("PersistentVolume {}", cut(name, MAX_NAME_BYTES, "…"));
    finding.label(Place::Elsewhere { object, source: source.clone() }, "another directory on each node");
}

/// Tells whether the pods of a Job may do their work one after another: it says how many may run at once, and
/// not that they must.
fn takes_turns(workload: &Workload<'_>) -> bool {
    let specs: Vec<_> = workload.runs.iter().filter_map(|run| run.job_spec.as_ref()).collect();
    !specs.is_empty() && specs.into_iter().all(may_take_turns)
}

fn may_take_turns(spec: &Part<'_>) -> bool {
    let at_once = spec.get("parallelism").int().or_default(1);
    !matches!((spec.get("completions").int(), at_once), (Field::Set(all), Some(at_once)) if all <= at_once)
}

/// Whether the pods clash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sure {
    /// They cannot all start; with words for it, where there are better ones than their number.
    Certain(&'static str),
    /// They do unless they happen to be on one node.
    Likely,
    /// Nobody can say.
    Unknown,
}

fn report<'c>(
    cx: &'c mut Cx<'_>,
    scene: &Scene<'_, '_>,
    shared: &Shared<'_>,
    claim: &Claim,
    users: &str,
    sure: Sure,
) -> Option<&'c mut Finding> {
    let (_, first) = shared.uses.first()?;
    let words: Vec<&str> = cx.strings(&WORDS).collect();
    let counts = match sure {
        Sure::Certain(_) => true,
        Sure::Likely => scene.holds_checkpoints(shared, &words),
        Sure::Unknown => false,
    };
    let users = match sure {
        Sure::Certain(better) if !better.is_empty() => better,
        _ => users,
    };
    let modes = claim.access_modes.join(", ");
    let limit = if claim.has("ReadWriteOncePod") {
        "only one pod of the cluster can mount it, but"
    } else if claim.has("ReadOnlyMany") {
        "it is for reading only where several nodes mount it, and"
    } else {
        "only one node can mount it, but"
    };
    let namespace = cx.request.namespace;
    let help = if claim.has("ReadOnlyMany") {
        "write `readOnly: true` on every mount of it, or use a claim with `ReadWriteMany`"
    } else if claim.has("ReadWriteOncePod") {
        "use a claim with `ReadWriteMany`, or one claim for each pod (`volumes[].ephemeral`)"
    } else {
        "use a claim with `ReadWriteMany`, one claim for each pod (`volumes[].ephemeral`), or a required `podAffinity` that keeps the pods on one node"
    };
    let workload = cx.workload;
    let finding =
        cx.report(&first.part.pointer, format!("the claim `{}` is `{modes}`: {limit} {users}", shared.name));
    finding.help(help);
    // With ReadOnlyMany the volume is attached everywhere; whether a write fails is up to its driver.
    if !counts || claim.has("ReadOnlyMany") {
        finding.at_most(Level::Warn);
    }
    label_places(finding, workload, shared, claim, namespace, &modes);
    Some(finding)
}

/// Shows where else the claim is used, and what says how often.
fn label_uses(finding: &mut Finding, workload: &Workload<'_>, shared: &Shared<'_>) {
    for (_, other) in shared.uses.iter().skip(1) {
        finding.label(Place::Here(other.part.pointer.clone(), FindingPart::Value), "used here as well");
    }
    for pod in shared.pods() {
        if let Some(said_by) = &workload.pods[pod].count.said_by {
            finding.label(Place::Here(said_by.clone(), FindingPart::Value), "this many pods at once");
        }
    }
}

fn label_places(
    finding: &mut Finding,
    workload: &Workload<'_>,
    shared: &Shared<'_>,
    claim: &Claim,
    namespace: &str,
    modes: &str,
) {
    label_uses(finding, workload, shared);
    let namespace = match &claim.source {
        Source::File { namespace: own, .. } if !own.is_empty() => own,
        Source::File { .. } | Source::Cluster => namespace,
    };
    // The namespace is repeated for each claim: more of it than a name can have is not.
    let namespace = cut(namespace, MAX_NAMESPACE_BYTES, "…");
    let full =
        if namespace.is_empty() { shared.name.to_owned() } else { format!("{namespace}/{}", shared.name) };
    let object = format!("PersistentVolumeClaim {full}");
    finding
        .label(Place::Elsewhere { object, source: claim.source.clone() }, format!("the claim is `{modes}`"));
}

/// Tells whether a second run may start while the first still runs.
///
/// `Forbid` waits. `Replace` deletes the first run; its pod's volume follows once the pod is gone. With
/// `Allow` only a deadline shorter than the shortest time between two runs keeps them apart.
fn runs_may_overlap(workload: &Workload<'_>) -> bool {
    let Some(cron) = &workload.schedule else { return false };
    if !matches!(cron.get("concurrencyPolicy").text(), Field::Unset | Field::Set("Allow" | "")) {
        return false;
    }
    let Some(schedule) = cron.get("schedule").text().set().and_then(|text| Schedule::parse(text).ok()) else {
        return false;
    };
    let Some(period) = schedule.shortest_period_seconds() else { return false };
    workload.runs.iter().any(|run| match run.limits.get("activeDeadlineSeconds").int() {
        Field::Set(deadline) if deadline > 0 => {
            u64::try_from(deadline).is_ok_and(|deadline| deadline >= period)
        }
        Field::Unset | Field::Set(_) => true,
        Field::Placeholder(_) | Field::Wrong => false,
    })
}

/// Returns the values of the variables and flags of a container whose name has one of the words.
fn telling_values<'a>(container: &Container<'a>, words: &[&str]) -> BTreeSet<&'a str> {
    let env = container.part.get("env").items().map(|variable| {
        let text = |key| variable.get(key).value.and_then(Value::as_str).unwrap_or_default();
        (text("name"), text("value"))
    });
    env.chain(flags(container)).filter(|(name, _)| is_telling(name, words)).map(|(_, value)| value).collect()
}

/// Tells whether one of the values is a directory, or a path inside of it.
fn is_one_inside(directory: &str, values: &BTreeSet<&str>) -> bool {
    let directory = directory.trim_end_matches('/');
    let inside = format!("{directory}/");
    values.contains(directory)
        || values.range(inside.as_str()..).next().is_some_and(|value| value.starts_with(&inside))
}

/// Returns the flags of a container's command line with their values: `--flag=value`, `--flag value`,
/// `key=value`, within shell scripts too.
fn flags<'a>(container: &Container<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lists = ["command", "args"].map(|list| container.part.get(list));
    let texts = lists.into_iter().flat_map(|list| {
        list.items().filter_map(|item| item.value.and_then(Value::as_str)).collect::<Vec<_>>()
    });
    let words: Vec<&str> =
        texts.inspect(|text| meter::spend_text(text)).flat_map(str::split_whitespace).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((flag, value)) => found.push((flag, value.trim_matches(['"', '\'']))),
            None if word.starts_with('-') => {
                found.extend(words.get(at + 1).map(|value| (*word, value.trim_matches(['"', '\'']))));
            }
            None => {}
        }
    }
    found.into_iter()
}

/// Names of settings for the directory of a run, which say so without one of the words: Hydra's and
/// Lightning's.
const RUN_DIRECTORIES: [&str; 3] = ["hydra.run.dir", "hydra.sweep.dir", "default_root_dir"];

/// Tells whether a flag or variable is for checkpoints by its name.
fn is_telling(name: &str, words: &[&str]) -> bool {
    let name = name.trim_start_matches(['+', '~', '-', '\'', '"']);
    has_word(name, words)
        || RUN_DIRECTORIES
            .iter()
            .any(|directory| name.rsplit_once("trainer.").map_or(name, |(_, last)| last) == *directory)
}

/// What may be before one of the words in a part of a name, or after it.
const BEFORE: [&str; 7] = ["train", "training", "run", "exp", "job", "eval", "my"];
const AFTER: [&str; 8] = ["dir", "path", "root", "folder", "vol", "volume", "pvc", "claim"];

/// Tells whether a name contains one of the words; how is on the page.
fn has_word(name: &str, words: &[&str]) -> bool {
    meter::spend_text(name);
    let parts = name_parts(name);
    let is_compound = |part: &str, word: &str| {
        BEFORE.iter().any(|before| without_prefix(part, before).is_some_and(|rest| is_word(rest, word)))
            || AFTER
                .iter()
                .any(|after| without_suffix(singular(part), after).is_some_and(|rest| is_word(rest, word)))
    };
    let words = words
        .iter()
        .map(|word| word.trim_matches(|char: char| !char.is_alphanumeric()))
        .filter(|word| !word.is_empty());
    let has = |word: &str| {
        (0..parts.len()).any(|at| start_with(&parts[at..], word) || is_compound(parts[at].text, word))
    };
    words.into_iter().any(has)
}

/// A part of a name.
struct NamePart<'a> {
    text: &'a str,
    /// Whether nothing is between it and the part before it.
    adjoins: bool,
}

/// Splits a name where it has other characters than letters and digits, between letters and digits, and where
/// a capital starts a word.
fn name_parts(name: &str) -> Vec<NamePart<'_>> {
    let mut parts = Vec::new();
    for run in name.split(|char: char| !char.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut start = 0;
        let mut before: Option<char> = None;
        let mut chars = run.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            let starts_word =
                char.is_uppercase() && chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            let is_new = before.is_some_and(|before| {
                before.is_numeric() != char.is_numeric()
                    || (char.is_uppercase() && before.is_lowercase())
                    || (starts_word && before.is_uppercase())
            });
            if is_new {
                parts.push(NamePart { text: &run[start..at], adjoins: start > 0 });
                start = at;
            }
            before = Some(char);
        }
        parts.push(NamePart { text: &run[start..], adjoins: start > 0 });
    }
    parts
}

/// Tells whether the first of the parts, or the first few, make a word: `TensorBoard`, or one that has a
/// hyphen itself.
fn start_with(parts: &[NamePart<'_>], word: &str) -> bool {
    let mut left = word;
    for (at, part) in parts.iter().enumerate() {
        let next = left.trim_start_matches(|char: char| !char.is_alphanumeric());
        if at > 0 && next.len() == left.len() && !part.adjoins {
            return false;
        }
        if is_word(part.text, next) {
            return true;
        }
        let Some(rest) = without_prefix(next, part.text) else { return false };
        left = rest;
    }
    false
}

/// Tells whether a text is a word, or its plural.
fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
        || (singular(text).len() < text.len() && singular(text).eq_ignore_ascii_case(word))
}

fn singular(text: &str) -> &str {
    text.strip_suffix(['s', 'S']).unwrap_or(text)
}

/// Returns what is behind a prefix, in whichever case that is.
fn without_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns what is before a suffix, in whichever case that is.
fn without_suffix<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(rest)
}

/// Returns whether the name of a claim or volume has one of the default `words`: a guess, made before the
/// policy is asked, at which claims are worth a look-up first.
pub(crate) fn is_named_like_checkpoints(name: &str) -> bool {
    RULE.params
        .iter()
        .any(|param| matches!(param.default, ParamDefault::Strings(words) if has_word(name, words)))
}

#[cfg(test)]
mod tests {
    use super::{RULE, has_word, is_telling};
    use crate::judge::rule::ParamDefault;

    fn words() -> &'static [&'static str] {
        match RULE.params[0].default {
            ParamDefault::Strings(words) => words,
            _ => &[],
        }
    }

    #[test]
    fn words_are_whole_or_tell_by_their_surroundings() {
        let own = [
            "neox-checkpoints",
            "modelvol",
            "LOG_DIR",
            "/mnt/logs/a",
            "save",
            "ckpt2",
            "myckpts",
            "ckpt_v3",
            "trainlogs",
            "traininglog",
            "logdir",
            "savedirs",
            "runs",
            "/workspace/runs2",
            "expruns",
            "mlflow-store",
            "mlruns",
            "wandb",
            "logs01",
            "TensorBoard",
            "MLFlow",
            "saveDir",
            "CHECKPOINT_PATH",
            "team.model/v2",
            "enable_checkpointing",
            "modelsPVC",
            "CKPT01",
        ];
        for name in own {
            assert!(has_word(name, words()), "{name}");
        }
        let others = [
            "login",
            "catalog",
            "blogs",
            "dialog",
            "changelog",
            "data",
            "",
            "saver",
            "prunshop",
            "runtime",
            "overruns",
            "run",
            "reruns-x",
            "logistics",
            "2",
            "s",
            "trainer",
            "rundir",
            "dataset42",
            "lightweight-cache",
            "artifactory",
            "supermodels",
            "resulting",
            "run-s3",
            "savepoint",
            "computeouts",
        ];
        for name in others {
            assert!(!has_word(name, words()), "{name}");
        }
    }

    #[test]
    fn a_word_of_a_policy_may_have_parts_itself() {
        for (name, word) in [
            ("team-model-zoo", "model-zoo"),
            ("model_zoos/v1", "model-zoo"),
            ("modelZoo", "model-zoo"),
            ("ModelZoo2", "Model_Zoo"),
            ("s3-data", "s3"),
            ("data-v2-s", "v2"),
            ("out", "-out-"),
        ] {
            assert!(has_word(name, &[word]), "{name} {word}");
        }
        for (name, word) in [
            ("modelzoo", "model-zoo"),
            ("model", "model-zoo"),
            ("zoo-model", "model-zoo"),
            ("model-of-zoo", "model-zoo"),
            ("model-zoology", "model-zoo"),
            ("data", ""),
            ("data", "-"),
            ("a-b", "ab"),
        ] {
            assert!(!has_word(name, &[word]), "{name} {word}");
        }
    }

    #[test]
    fn settings_tell_by_their_names() {
        for name in [
            "hydra.run.dir",
            "'hydra.sweep.dir",
            "+trainer.default_root_dir",
            "--save-dir",
            "checkpoint.path",
            "trainer.ckpt_path",
        ] {
            assert!(is_telling(name, words()), "{name}");
        }
        for name in ["data.dir", "hydra.job.name", "--dir", "run.dir", "root_dir"] {
            assert!(!is_telling(name, words()), "{name}");
        }
    }
}
