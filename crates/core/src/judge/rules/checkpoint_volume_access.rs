//! Pods that share a claim can all mount it: no single-node volume for pods on several nodes.
//!
//! ## Why
//!
//! A `ReadWriteOnce` volume is attached to one node at a time: pods on another node wait in
//! ContainerCreating, without a time limit, and keep their GPUs. Only a `FailedAttachVolume` event says why.
//! The scheduler ignores access modes, so the job runs when all its pods happen to fit on one node and hangs
//! when they do not. `readOnly` on the volume or the mount does not help. A `ReadWriteOncePod` volume can be
//! mounted by only one pod in the whole cluster. A `hostPath` volume is a different directory on each node.
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
//! None: only the author can decide how the pods share data. Options:
//!
//! * a claim with `ReadWriteMany` (NFS, CephFS, a parallel file system), or checkpoints in object storage;
//! * all pods on one node: a required `podAffinity` to the job's own pods with `topologyKey:
//!   kubernetes.io/hostname`;
//! * one claim for each pod, if the pods need not share: a generic ephemeral volume (`volumes[].ephemeral`).
//!
//! ## Details
//!
//! The policy's action applies to claims that hold checkpoints, and to pods that certainly cannot all start,
//! whatever the claim holds. Everything else is at most a warning, since the pods may happen to fit on one
//! node. Pods certainly cannot all start if
//!
//! * several pods that run at the same time use a `ReadWriteOncePod` claim: all but one wait. The pods of a
//!   Job with more `completions` than `parallelism`, or without `completions`, may run one after another, so
//!   this is not certain for them;
//! * pods that are never on one node use a `ReadWriteOnce` claim: their templates name different nodes, a
//!   required `podAntiAffinity` with the topology `kubernetes.io/hostname` separates them, or they request more
//!   whole GPUs together than any node has (16), each of them two or more.
//!
//! Pods that only an autoscaler would add (`elasticPolicy`) do not count for this.
//!
//! `kubectl scale`, and an autoscaler, changes `Worker.replicas` of a PyTorchJob, JAXJob or PaddleJob through the
//! subresource `scale`, for which webhooks are not called: pods can be added that way which this rule would deny.
//! Then `jobgate audit` reports the job, and who set the number.
//!
//! A claim holds checkpoints if a word of the parameter `words` is in its name, the volume's name, a mount
//! path, or the name of a flag or variable whose value is a path inside the mount (`--save-dir /data/x`,
//! `trainer.ckpt_path=/data/x`; Hydra's `hydra.run.dir` and `hydra.sweep.dir`, and `default_root_dir`, count
//! as well). Names are split at characters other than letters and digits, between letters and digits, and
//! before a capital (`saveDir`). A word matches one whole part, or its plural: `neox-checkpoints`, `ckpt2`,
//! `logs`. A word with a hyphen matches several parts in a row: `model-zoo` is in `team-model-zoo` and
//! `modelZoo`. A part may also have `train`, `training`, `run`, `exp`, `job`, `eval` or `my` before the word,
//! or `dir`, `path`, `root`, `folder`, `vol`, `volume`, `pvc` or `claim` after it (`trainlogs`, `modelvol`).
//! So `login`, `lightweight-cache` and `artifactory` do not match.
//!
//! The access modes come from the claim, which is read from the linted files, `--facts` or the cluster. For a
//! bound claim, the modes of its volume count. A claim in `--facts` with a namespace belongs to jobs of that
//! namespace; if a job has no namespace, its claim is unknown unless `dry-run --namespace` sets one. An
//! unknown claim gives no finding; a claim that the cluster does not have gives a warning, since the pods
//! will wait for it. Modes with `ReadWriteMany` are fine. `ReadOnlyMany` is fine if every mount is read-only,
//! and gives a warning otherwise.
//!
//! An object may describe a claim itself, one for all its pods: a JobSet in `volumeClaimPolicies[].templates`,
//! mounted by the pods with a mount of that name, and a Volcano job in `spec.volumes[].volumeClaim`, mounted in
//! every container of every pod. Its access modes are those in the object, and nothing is looked up. A claim
//! that a Volcano job names (`volumeClaimName`) is looked up, and mounted everywhere as well. Volcano refuses a
//! volume with both, which is a warning.
//!
//! A TrainJob has the pods of its runtime (`runtimeRef`), which is read from the linted files, `--facts` or the
//! cluster, and without a cluster may be one that Trainer 2.3 installs; the job's `runtimePatches` and what `spec.trainer` starts count. The claims are those of the job's
//! namespace, or described in the runtime (`volumeClaimPolicies`). A Job of the runtime that trains has
//! `trainer.numNodes` pods, or else `mlPolicy.numNodes` of the runtime, or one; the numbers in the Job itself
//! are overwritten. An initializer is one pod. An unknown runtime gives no finding.
//!
//! A claim in a file may name its PersistentVolume (`volumeName`). If the volume is among the files, its
//! access modes count as well. A volume that is not attached to a node (NFS, `local`, …) is fine; a
//! `hostPath` volume gives a warning. If the volume is unknown, there is at most a warning. A claim that the
//! cluster has bound names its volume, too; its access modes are those of the volume.
//!
//! The number of pods is `parallelism`, but not more than `completions`; or the sum of `replicas` over the
//! replica types that use the claim, with workers counted up to `elasticPolicy.maxReplicas`. Pods are on one
//! node if `nodeName`, a node selector or a required node affinity names one host, or if a required pod
//! affinity with the topology `kubernetes.io/hostname` selects the pods themselves. A CronJob of one pod gets
//! a warning if its runs may overlap (`concurrencyPolicy: Allow`, and no deadline shorter than the time
//! between two runs).
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! * <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes>

use crate::judge::claims::{Scene, SharedClaim, Users};
use crate::judge::ranks::WorkloadReading;
use crate::judge::engine::Origin;
use crate::judge::facts::{Claim, Fact, Volume, access_modes};
use crate::judge::finding::{Finding, Level, Part as FindingPart, Place, Source};
use crate::judge::runtime_pods::Joined;
use crate::judge::nodes::NodeSpread;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Needs, Rule, Strings};
use crate::judge::words::OF_CHECKPOINTS;
use crate::k8s::cron::Schedule;
use crate::kinds::{Among, Field, PodCount, Workload};
use crate::text::lines::cut;
use crate::text::placeholder::{is_placeholder, is_to_replace};

const WORDS: Strings = Strings::new(
    "words",
    "Words in names of claims, volumes, mount paths, flags and variables that mean that a claim holds checkpoints.",
    OF_CHECKPOINTS,
);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Single-node volume shared by pods on several nodes".into(),
        summary: "Pods that share a claim can all mount it: no single-node volume for pods on several nodes".into(),
        kinds: Kinds::WithPods,
        default: Action::Deny,
        params: &[WORDS.0],
        export: Exportable::No("the access modes of a claim are not in the object that mounts it"),
        needs: Needs::CLAIMS | Needs::RUNTIMES,
        ..Rule::new("checkpoint-volume-access", check)
    }
}

/// The longest name of a namespace that can exist, in bytes.
const MAX_NAMESPACE_BYTES: usize = 63;

/// Maximum numbers of pods that are shown with a claim.
const MAX_COUNTS: usize = 16;

/// The longest name of a volume that can exist, in bytes.
const MAX_NAME_BYTES: usize = 253;

fn check(cx: &mut Cx<'_>) {
    for own in cx.workload.own_claims() {
        if let (Some(existing), Some(field), true) =
            (&own.existing, own.form.existing, own.is_refused(&cx.workload.object))
        {
            let pair = format!("`{field}` and `{}`", own.form.spec);
            let finding =
                cx.report(&existing.pointer, format!("the operator refuses a volume with both {pair}"));
            finding.at_most(Level::Warn).at_key().help("remove one of them");
        }
    }
    if cx.workload.kind.runs_in.is_none() {
        return check_all(cx, &Scene::new(cx.workload, cx.reading, None));
    }
    let Some(joined) = Joined::find(cx.facts(), cx.request.namespace, cx.workload) else { return };
    if let Some(workload) = joined.workload() {
        let reading = WorkloadReading::from_workload(&workload);
        check_all(cx, &Scene::new(&workload, &reading, Some(&joined)));
    }
}

fn check_all(cx: &mut Cx<'_>, scene: &Scene<'_, '_>) {
    for shared in scene.claims() {
        let Some((_, first)) = shared.uses.first() else { continue };
        if let Some(modes) = &shared.modes {
            if let Some(access_modes) = modes.value.and_then(access_modes).filter(|modes| !modes.is_empty()) {
                check_claim(cx, scene, &shared, &Claim { access_modes, source: Source::Cluster });
            }
            continue;
        }
        // A cluster can look up a name in capitals: there is no such claim.
        if is_placeholder(shared.name) || cx.request.origin == Origin::File && is_to_replace(shared.name) {
            continue;
        }
        match cx.facts().claim(cx.request.namespace, shared.name) {
            Fact::Unknown => {}
            Fact::Absent => {
                let message =
                    format!("the claim `{}` does not exist: pods wait in Pending until it does", shared.name);
                let finding = cx.report(&first.part.pointer, message).at_most(Level::Warn).help(
                    "create the claim, or fix its name; \
                     a claim that is created together with the job is fine",
                );
                scene.label_runtime(finding);
            }
            Fact::Known(claim) => check_claim(cx, scene, &shared, &claim),
        }
    }
}

fn check_claim(cx: &mut Cx<'_>, scene: &Scene<'_, '_>, shared: &SharedClaim<'_>, claim: &Claim) {
    if claim.has("ReadWriteMany") || (claim.has("ReadOnlyMany") && scene.is_read_only(shared)) {
        return;
    }
    let one_pod = claim.has("ReadWriteOncePod");
    // The scheduler keeps other pods away from a claim for one pod, whatever its volume.
    let volume = if one_pod || shared.modes.is_some() {
        Volume::OfCluster
    } else {
        cx.facts().volume(cx.request.namespace, shared.name)
    };
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
    let workload = scene.workload;
    // How many pods of one run may mount it at once: unknown where one of the counts is.
    let Users { pods, in_turns, at_once } = &*scene.users(shared);
    let Some(at_once) = *at_once else { return };
    if at_once > 1 {
        let nodes = if one_pod { Some(NodeSpread::Any) } else { scene.placement.nodes(pods, Among::OneRun) };
        if nodes == Some(NodeSpread::One) {
            return;
        }
        let together = || {
            !in_turns
                && !scene.takes_turns()
                && pods.iter().map(|pod| workload.pods[*pod].count.least).fold(0, i64::saturating_add) > 1
        };
        let sure = match nodes {
            Some(NodeSpread::Several) => Sure::Certain("pods on different nodes use it"),
            _ if one_pod && together() => Sure::Certain(""),
            Some(_) => Sure::Likely,
            None => Sure::Unknown,
        };
        let users = format!("{} use it at once", PodCount::words(at_once));
        if let Volume::HostPath { name, source } = &volume {
            return host_path(cx, scene, shared, (name, source), &users);
        }
        let finding = report(cx, scene, shared, claim, &users, sure);
        if let Some(finding) = finding.filter(|_| volume == Volume::Unseen) {
            finding.at_most(Level::Warn);
            finding.help =
                format!("pass the PersistentVolume that it names with `--facts`, or {}", finding.help).into();
        }
    } else if at_once == 1 && runs_may_overlap(workload) && !matches!(volume, Volume::HostPath { .. }) {
        if !one_pod && scene.placement.nodes(pods, Among::SeveralRuns) == Some(NodeSpread::One) {
            return;
        }
        let policy = workload.schedule.as_ref().map(|cron| cron.get("concurrencyPolicy"));
        let finding = report(cx, scene, shared, claim, "runs of this CronJob may overlap", Sure::Unknown);
        let help = "write `concurrencyPolicy: Forbid`, or a deadline shorter than the time between two runs";
        if let (Some(finding), Some(policy)) = (finding, policy) {
            finding.help(help);
            if policy.is_set() {
                finding.label(Place::Here(policy.pointer, FindingPart::Value), "lets runs overlap");
            }
        }
    }
}

/// Reports that a `hostPath` is not shared between nodes.
fn host_path(
    cx: &mut Cx<'_>,
    scene: &Scene<'_, '_>,
    shared: &SharedClaim<'_>,
    (name, source): (&str, &Source),
    users: &str,
) {
    let Some((_, first)) = shared.uses.first() else { return };
    let message = format!(
        "the claim `{}` is bound to a `hostPath`: each node has its own directory, and {users}",
        shared.name
    );
    let finding = cx.report(&first.part.pointer, message);
    finding
        .at_most(Level::Warn)
        .help("use a volume that nodes share, or a required `podAffinity` that keeps the pods on one node");
    label_uses(finding, scene, shared);
    let object = format!("PersistentVolume {}", cut(name, MAX_NAME_BYTES, "…"));
    finding.label(Place::Elsewhere { object, source: source.clone() }, "a different directory on each node");
}

/// How certain it is that the pods clash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sure {
    /// They cannot all start. The text replaces their number in the message, unless empty.
    Certain(&'static str),
    /// They clash unless they happen to be on one node.
    Likely,
    /// Unknown.
    Unknown,
}

fn report<'c>(
    cx: &'c mut Cx<'_>,
    scene: &Scene<'_, '_>,
    shared: &SharedClaim<'_>,
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
        "several nodes can mount it only for reading, and"
    } else {
        "only one node can mount it, but"
    };
    let namespace = cx.request.namespace;
    let help = if claim.has("ReadOnlyMany") {
        "write `readOnly: true` on every mount of it, or use a claim with `ReadWriteMany`"
    } else if claim.has("ReadWriteOncePod") {
        "use a claim with `ReadWriteMany`, or one claim for each pod (`volumes[].ephemeral`)"
    } else {
        "use a claim with `ReadWriteMany`, one claim for each pod (`volumes[].ephemeral`), \
         or a required `podAffinity` that keeps the pods on one node"
    };
    let finding =
        cx.report(&first.part.pointer, format!("the claim `{}` is `{modes}`: {limit} {users}", shared.name));
    finding.help(help);
    if sure == Sure::Likely && !counts {
        // The same is an error for a claim with another name.
        let name = cut(shared.name, MAX_NAME_BYTES, "…").escape_debug().to_string();
        let chance = match claim.has("ReadWriteOncePod") {
            true => "the pods may run one after another",
            false => "the pods may fit on one node",
        };
        finding.help =
            format!("{help} (a warning: {chance}, and `{name}` does not look like a claim for checkpoints)")
                .into();
    }
    // With ReadOnlyMany the volume is attached everywhere; whether a write fails is up to its driver.
    if !counts || claim.has("ReadOnlyMany") {
        finding.at_most(Level::Warn);
    }
    label_places(finding, scene, shared, claim, namespace, &modes);
    Some(finding)
}

/// Labels the other uses of the claim, and the number of pods.
fn label_uses(finding: &mut Finding, scene: &Scene<'_, '_>, shared: &SharedClaim<'_>) {
    let mut before = &finding.pointer.clone();
    for (_, other) in shared.uses.iter().skip(1) {
        // Uses in a runtime all point at the runtime's name.
        if other.part.pointer != *before {
            finding.label(Place::Here(other.part.pointer.clone(), FindingPart::Value), "also used here");
            before = &other.part.pointer;
        }
    }
    // A claim may be in all pods of an object without a byte for each.
    for pod in scene.users(shared).pods.iter().take(MAX_COUNTS) {
        if let Some(said_by) = &scene.workload.pods[*pod].count.said_by {
            finding.label(Place::Here(said_by.clone(), FindingPart::Value), "this many pods at once");
        }
    }
    scene.label_runtime(finding);
}

fn label_places(
    finding: &mut Finding,
    scene: &Scene<'_, '_>,
    shared: &SharedClaim<'_>,
    claim: &Claim,
    namespace: &str,
    modes: &str,
) {
    label_uses(finding, scene, shared);
    // The finding is where the modes are.
    if shared.modes.is_some() {
        return;
    }
    let namespace = match &claim.source {
        Source::File { namespace: own, .. } if !own.is_empty() => own,
        Source::File { .. } | Source::Cluster | Source::Release(_) => namespace,
    };
    // The namespace is repeated for each claim, so it is cut to the longest possible name.
    let namespace = cut(namespace, MAX_NAMESPACE_BYTES, "…");
    let full =
        if namespace.is_empty() { shared.name.to_owned() } else { format!("{namespace}/{}", shared.name) };
    let object = format!("PersistentVolumeClaim {full}");
    finding
        .label(Place::Elsewhere { object, source: claim.source.clone() }, format!("the claim is `{modes}`"));
}

/// Tells whether a second run may start while the first still runs.
///
/// `Forbid` waits. `Replace` deletes the first run, and its volume is detached with its pod. With `Allow`,
/// runs overlap unless a deadline is shorter than the shortest time between two runs.
fn runs_may_overlap(workload: &Workload<'_>) -> bool {
    let Some(cron) = &workload.schedule else { return false };
    if !matches!(cron.get("concurrencyPolicy").text(), Field::Unset | Field::Set("Allow" | "")) {
        return false;
    }
    let Some(schedule) = cron.get("schedule").text().set().and_then(|text| Schedule::parse(text).ok()) else {
        return false;
    };
    let Some(period) = schedule.shortest_period_seconds() else { return false };
    workload.runs.iter().any(|run| match run.deadline().int() {
        Field::Set(deadline) if deadline > 0 => {
            u64::try_from(deadline).is_ok_and(|deadline| deadline >= period)
        }
        Field::Unset | Field::Set(_) => true,
        Field::Placeholder(_) | Field::Wrong => false,
    })
}
