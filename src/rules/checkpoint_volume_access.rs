//! Pods that share a claim can all mount it: a volume for one node is not used by pods on several.
//!
//! ## Why
//!
//! A `ReadWriteOnce` volume is attached to one node at a time. The pods that land on another node wait in ContainerCreating, without a time limit,
//! holding their GPUs, with nothing but a `FailedAttachVolume` event to say why. The scheduler does not look at access modes, so it happens at random:
//! the job runs when all pods fit on one node, and hangs when they do not. `readOnly` on the volume or the mount does not lift it.
//! With `ReadWriteOncePod` only one pod in the whole cluster may mount the volume, wherever it runs.
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
//! None: whether to ask for another volume, to keep the pods together, or to let one pod write, is a decision. Ways out:
//!
//! * a claim with `ReadWriteMany` (NFS, CephFS, a parallel file system), or checkpoints in object storage;
//! * all pods on one node: a required `podAffinity` to the job's own pods with `topologyKey: kubernetes.io/hostname`;
//! * a claim for each pod: a generic ephemeral volume (`volumes[].ephemeral`), where pods need not share.
//!
//! ## Details
//!
//! The action of the policy is for claims that hold checkpoints; for other claims the finding is a warning at most. A claim holds checkpoints when a word of the
//! parameter `words` stands in its name, the volume's name or a mount path, or in the name of a flag or variable whose value points into the mount.
//!
//! The access modes come from the claim: from the linted files or `--facts`, or from the cluster. Of a bound claim the modes of the volume count.
//! A claim that nobody has seen is unknown and gives no finding; one that the cluster says is not there gives a warning, since its pods will wait for it.
//! Modes with `ReadWriteMany` are fine; `ReadOnlyMany` is fine where every mount is read-only, and worth a warning where one is not.
//!
//! How many pods there are: `parallelism`, but not more than `completions`; or the sum of `replicas` over the replica types that use the claim, the
//! workers counted up to `elasticPolicy.maxReplicas`. Pods are on one node if `nodeName`, a node selector or a required node affinity names
//! one host, or a required pod affinity with the topology `kubernetes.io/hostname` selects the pods themselves.
//! A CronJob of one pod whose runs may overlap (`concurrencyPolicy: Allow`, and no deadline shorter than the time between two runs) gets a warning.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! * <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes>

use std::collections::BTreeMap;

use crate::facts::{Claim, Fact};
use crate::finding::{Finding, Level, Part as FindingPart, Place};
use crate::k8s::cron::Schedule;
use crate::policy::Action;
use crate::rule::{Cx, Param, ParamDefault, Rule};
use crate::value::Value;
use crate::workload::{Among, ClaimUse, Field, Kind, PodTemplate, Workload, on_one_node};

pub(super) static RULE: Rule = Rule {
    id: "checkpoint-volume-access",
    summary: "Pods that share a claim can all mount it: a volume for one node is not used by pods on several",
    kinds: &[Kind::Job, Kind::CronJob, Kind::PyTorchJob],
    default: Action::Deny,
    fills: &[],
    params: &[Param {
        name: "words",
        doc: "Words in the names of claims, volumes, mount paths, flags and variables by which a claim is known to hold checkpoints.",
        default: ParamDefault::Strings(&["artifact", "checkpoint", "ckpt", "experiment", "log", "model", "output", "result", "save", "weight"]),
    }],
    cel: Err("the access modes of a claim are not in the object that mounts it"),
    check,
};

/// One claim, and all the templates of the object that mount it.
struct Shared<'w, 'a> {
    name: &'a str,
    uses: Vec<(&'w PodTemplate<'a>, ClaimUse<'a>)>,
}

impl<'w, 'a> Shared<'w, 'a> {
    /// Returns the claims of an object, by name.
    fn all(workload: &'w Workload<'a>) -> Vec<Self> {
        let mut by_name: BTreeMap<&'a str, Vec<(&'w PodTemplate<'a>, ClaimUse<'a>)>> = BTreeMap::new();
        for pod in &workload.pods {
            for claim in pod.claims() {
                by_name.entry(claim.claim).or_default().push((pod, claim));
            }
        }
        by_name.into_iter().map(|(name, uses)| Self { name, uses }).collect()
    }

    /// Returns each template once, though it may have several volumes of the claim.
    fn pods(&self) -> Vec<&'w PodTemplate<'a>> {
        let mut pods: Vec<&PodTemplate<'_>> = Vec::new();
        for (pod, _) in &self.uses {
            if !pods.iter().any(|known| std::ptr::eq(*known, *pod)) {
                pods.push(pod);
            }
        }
        pods
    }

    /// Returns how many pods of one run may mount it at once; nothing where nobody can say.
    fn pods_at_once(&self) -> Option<i64> {
        self.pods().iter().try_fold(0_i64, |sum, pod| Some(sum.saturating_add(pod.count.most?.max(0))))
    }

    /// Tells whether every mount of it is read-only.
    fn is_read_only(&self) -> bool {
        self.uses.iter().all(|(pod, claim)| {
            let volume = claim.part.pointer.parent();
            let by_volume = pod.spec.get("volumes").items().any(|candidate| {
                let source = candidate.get("persistentVolumeClaim");
                Some(&source.pointer) == volume.as_ref() && source.get("readOnly").bool() == Field::Set(true)
            });
            by_volume || mounts(pod, claim.volume).all(|(_, mount)| mount.get("readOnly").bool() == Field::Set(true))
        })
    }
}

/// Returns the mounts of a volume, with the container each stands in.
fn mounts<'a>(pod: &PodTemplate<'a>, volume: &'a str) -> impl Iterator<Item = (crate::workload::Container<'a>, crate::workload::Part<'a>)> {
    pod.containers().flat_map(move |container| {
        let list = container.part.get("volumeMounts");
        list.items().filter(move |mount| mount.get("name").value.and_then(Value::as_str) == Some(volume)).map(move |mount| (container.clone(), mount))
    })
}

fn check(cx: &mut Cx<'_>) {
    for shared in Shared::all(cx.workload) {
        let Some((_, first)) = shared.uses.first() else { continue };
        if crate::placeholder::is_placeholder(shared.name) {
            continue;
        }
        match cx.facts().claim(cx.request.namespace, shared.name) {
            Fact::Unknown => {}
            Fact::Absent => {
                cx.report(&first.part.pointer, format!("the claim `{}` does not exist: pods wait in Pending until it does", shared.name))
                    .at_most(Level::Warn)
                    .help("create the claim, or mend its name; a claim that is applied together with the job is fine");
            }
            Fact::Known(claim) => check_claim(cx, &shared, &claim),
        }
    }
}

fn check_claim(cx: &mut Cx<'_>, shared: &Shared<'_, '_>, claim: &Claim) {
    if claim.has("ReadWriteMany") || (claim.has("ReadOnlyMany") && shared.is_read_only()) {
        return;
    }
    let Some(at_once) = shared.pods_at_once() else { return };
    let one_pod = claim.has("ReadWriteOncePod");
    let pods = shared.pods();
    let workload = cx.workload;
    if at_once > 1 {
        if !one_pod && on_one_node(workload, &pods, Among::OneRun) {
            return;
        }
        report(cx, shared, claim, &format!("up to {at_once} pods use it at once"), None);
    } else if at_once == 1 && runs_may_overlap(workload) {
        if !one_pod && on_one_node(workload, &pods, Among::SeveralRuns) {
            return;
        }
        let policy = workload.cron.as_ref().map(|cron| cron.get("concurrencyPolicy"));
        report(cx, shared, claim, "runs of this CronJob may overlap", Some(Level::Warn));
        let help = "write `concurrencyPolicy: Forbid`, or a deadline shorter than the time between two runs";
        if let (Some(finding), Some(policy)) = (cx.last(), policy) {
            finding.help(help);
            if policy.is_set() {
                finding.label(Place::Here(policy.pointer, FindingPart::Value), "lets a run start beside another");
            }
        }
    }
}

fn report(cx: &mut Cx<'_>, shared: &Shared<'_, '_>, claim: &Claim, users: &str, cap: Option<Level>) {
    let Some((_, first)) = shared.uses.first() else { return };
    let words: Vec<&str> = cx.strings("words").collect();
    let holds_checkpoints = shared.uses.iter().any(|(pod, claim)| holds_checkpoints(pod, claim, &words));
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
    let finding = cx.report(&first.part.pointer, format!("the claim `{}` is `{modes}`: {limit} {users}", shared.name));
    finding.help(help);
    // With ReadOnlyMany the volume is attached everywhere; whether a write fails is up to its driver.
    if !holds_checkpoints || claim.has("ReadOnlyMany") {
        finding.at_most(Level::Warn);
    }
    if let Some(cap) = cap {
        finding.at_most(cap);
    }
    label_places(finding, shared, claim, namespace, &modes);
}

fn label_places(finding: &mut Finding, shared: &Shared<'_, '_>, claim: &Claim, namespace: &str, modes: &str) {
    for (_, other) in shared.uses.iter().skip(1) {
        finding.label(Place::Here(other.part.pointer.clone(), FindingPart::Value), "used here as well");
    }
    for pod in shared.pods() {
        if let Some(said_by) = &pod.count.said_by {
            finding.label(Place::Here(said_by.clone(), FindingPart::Value), "this many pods at once");
        }
    }
    let full = if namespace.is_empty() { shared.name.to_owned() } else { format!("{namespace}/{}", shared.name) };
    let object = format!("PersistentVolumeClaim {full}");
    finding.label(Place::Elsewhere { object, source: claim.source.clone() }, format!("the claim is `{modes}`"));
}

/// Tells whether a second run may start while the first still runs.
///
/// `Forbid` waits. `Replace` deletes the first run; its pod's volume follows once the pod is gone. With `Allow` only a deadline shorter than the
/// shortest time between two runs keeps them apart.
fn runs_may_overlap(workload: &Workload<'_>) -> bool {
    let Some(cron) = &workload.cron else { return false };
    if !matches!(cron.get("concurrencyPolicy").text(), Field::Unset | Field::Set("Allow" | "")) {
        return false;
    }
    let Some(schedule) = cron.get("schedule").text().set().and_then(|text| Schedule::parse(text).ok()) else { return false };
    let Some(period) = schedule.shortest_period_seconds() else { return false };
    match workload.limits.get("activeDeadlineSeconds").int() {
        Field::Set(deadline) if deadline > 0 => u64::try_from(deadline).is_ok_and(|deadline| deadline >= period),
        Field::Unset | Field::Set(_) => true,
        Field::Placeholder(_) | Field::Wrong => false,
    }
}

/// Tells whether a claim holds checkpoints, by the names that people give to such things (corpus.md §7).
fn holds_checkpoints(pod: &PodTemplate<'_>, claim: &ClaimUse<'_>, words: &[&str]) -> bool {
    if has_word(claim.claim, words) || has_word(claim.volume, words) {
        return true;
    }
    mounts(pod, claim.volume).any(|(container, mount)| {
        let Some(path) = mount.get("mountPath").value.and_then(Value::as_str) else { return false };
        let inside = |value: &str| {
            let rest = value.strip_prefix(path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let env = container.part.get("env").items().any(|variable| {
            let text = |key| variable.get(key).value.and_then(Value::as_str).unwrap_or_default();
            has_word(text("name"), words) && inside(text("value"))
        });
        has_word(path, words) || env || flags(&container).any(|(flag, value)| has_word(flag, words) && inside(value))
    })
}

/// Returns the flags of a container's command line with their values: `--flag=value`, `--flag value`, `key=value`, within shell scripts too.
fn flags<'a>(container: &crate::workload::Container<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lists = ["command", "args"].map(|list| container.part.get(list));
    let texts = lists.into_iter().flat_map(|list| list.items().filter_map(|item| item.value.and_then(Value::as_str)).collect::<Vec<_>>());
    let words: Vec<&str> = texts.flat_map(|text| text.split_whitespace()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((flag, value)) => found.push((flag, value.trim_matches(['"', '\'']))),
            None if word.starts_with('-') => found.extend(words.get(at + 1).map(|value| (*word, value.trim_matches(['"', '\''])))),
            None => {}
        }
    }
    found.into_iter()
}

/// Tells whether a name contains one of the words: as a whole word or its plural; a word of five letters or more also as a part (`modelvol`).
fn has_word(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| words.iter().any(|word| part == *word || part.strip_suffix('s') == Some(word) || (word.len() >= 5 && part.contains(word))))
}

/// Returns whether the name of a claim or volume has one of the default `words`: a guess, made before the policy is asked,
/// at which claims are worth a look-up first.
pub(crate) fn is_named_like_checkpoints(name: &str) -> bool {
    RULE.params.iter().any(|param| matches!(param.default, ParamDefault::Strings(words) if has_word(name, words)))
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn words_are_whole_words_or_long_parts() {
        let words = ["log", "checkpoint", "model", "save"];
        for name in ["neox-checkpoints", "modelvol", "LOG_DIR", "/mnt/logs/a", "save"] {
            assert!(has_word(name, &words), "{name}");
        }
        for name in ["login", "catalog", "data", "", "saver"] {
            assert!(!has_word(name, &words), "{name}");
        }
    }
}
