//! The claims and other objects that a review asks for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::review::{Head, Subject};
use crate::judge::facts::{FactKind, Facts, WantedClaim, WantedObject};
use crate::judge::rule::Needs;
use crate::judge::runtime_pods::Joined;
use crate::judge::words::is_named_like_checkpoints;
use crate::kinds::{Mounted, Workload};

/// The longest name of a namespace, in bytes.
pub(super) const LONGEST_NAMESPACE: usize = 63;

/// The most jobs in one object that are judged with their runtimes: the work for each grows with its runtime.
const MAX_JOINED: usize = 8;

/// What rules may look up for one review.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedFacts {
    /// See [`Review::claims`](super::review::Review::claims).
    pub(super) claims: Vec<WantedClaim>,
    /// See [`Review::objects`](super::review::Review::objects).
    pub(super) objects: BTreeSet<WantedObject>,
}

/// How an object, new or old, uses one claim.
#[derive(Clone, Copy, Debug)]
struct ClaimUsage {
    /// How many pods may use it at once; an unknown number never causes a denial.
    pods: Option<i64>,
    /// The pod template counted last: one that has several volumes of the claim counts once.
    template: usize,
    /// Whether its name, or that of a volume with it, is like those of checkpoints.
    for_checkpoints: bool,
}

/// Returns the claims and other objects that rules with these needs may look up, without the claims of templates
/// without pods. The claims of a runtime are included only if `facts` has it.
pub(super) fn wanted(head: &Head<'_>, subject: &Subject<'_>, needs: Needs, facts: &dyn Facts) -> WantedFacts {
    let mut all = WantedFacts::default();
    let Subject::Object(change) = subject else { return all };
    if needs == needs.of_object() {
        return all;
    }
    // A namespace with a longer name cannot exist, and its name is repeated for each claim. Cluster-scoped
    // objects run in any namespace.
    if change.kind.cluster_scoped || head.namespace.len() > LONGEST_NAMESPACE {
        return all;
    }
    let namespace = &*head.namespace;
    // Claims are wanted with their users, below.
    let is_needed = |kind: &FactKind| *kind != FactKind::Claim && needs.has(kind.definition().needs);
    let kinds: Vec<FactKind> = FactKind::all().filter(is_needed).collect();
    // Whether each claim is shared, and whether it is for checkpoints, in either object.
    let mut wanted: BTreeMap<Cow<'_, str>, (bool, bool)> = BTreeMap::new();
    for object in [Some(&change.object), change.old.as_ref()].into_iter().flatten() {
        let workloads = Workload::all_in(object);
        let joins = workloads.iter().filter(|workload| workload.kind.runs_in.is_some()).count() <= MAX_JOINED;
        for workload in &workloads {
            for (name, usage) in usages(workload) {
                note(&mut wanted, Cow::Borrowed(name), usage);
            }
            for kind in kinds.iter().filter(|kind| joins || !matches!(kind, FactKind::Runtime(_))) {
                let names = kind.names(workload).into_iter();
                all.objects.extend(names.map(|name| WantedObject::new(*kind, namespace, name)));
            }
            if joins
                && let Some(joined) = Joined::find(facts, namespace, workload)
                && let Some(workload) = joined.workload()
            {
                for (name, usage) in usages(&workload) {
                    note(&mut wanted, Cow::Owned(name.to_owned()), usage);
                }
            }
        }
    }
    if !needs.has(Needs::CLAIMS) {
        return all;
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_by_key(|(_, (shared, for_checkpoints))| (!shared, !for_checkpoints));
    let claim = |(name, (shared, _)): (Cow<'_, str>, _)| WantedClaim {
        namespace: namespace.to_owned(),
        name: name.into_owned(),
        shared,
    };
    all.claims = wanted.into_iter().map(claim).collect();
    all
}

fn note<'a>(wanted: &mut BTreeMap<Cow<'a, str>, (bool, bool)>, name: Cow<'a, str>, usage: ClaimUsage) {
    let (shared, for_checkpoints) = wanted.entry(name).or_default();
    *shared |= usage.pods.is_some_and(|pods| pods > 1);
    *for_checkpoints |= usage.for_checkpoints;
}

/// Returns how one object uses its claims, by their names.
fn usages<'a>(workload: &Workload<'a>) -> BTreeMap<&'a str, ClaimUsage> {
    let mut usages: BTreeMap<&'a str, ClaimUsage> = BTreeMap::new();
    for (template, pod) in workload.pods.iter().enumerate() {
        let pods = pod.count.most;
        if pods.is_some_and(|pods| pods <= 0) {
            continue;
        }
        for used in pod.claims() {
            let for_checkpoints = [used.claim, used.volume].into_iter().any(is_named_like_checkpoints);
            let first = ClaimUsage { pods, template, for_checkpoints };
            let usage = usages.entry(used.claim).or_insert(first);
            usage.for_checkpoints |= for_checkpoints;
            if usage.template != template {
                usage.template = template;
                usage.pods = usage.pods.zip(pods).map(|(sum, pods)| sum.saturating_add(pods));
            }
        }
    }
    if workload.kind.claims.is_empty() {
        return usages;
    }
    let pods =
        workload.pods.iter().try_fold(0_i64, |sum, pod| Some(sum.saturating_add(pod.count.most?.max(0))));
    if pods == Some(0) {
        return usages;
    }
    for own in workload.own_claims() {
        if let (Some((name, _)), Mounted::Everywhere(_)) = (own.to_look_up(), own.form.mounted) {
            let for_checkpoints = [Some(name), own.path].into_iter().flatten().any(is_named_like_checkpoints);
            let usage = usages.entry(name).or_insert(ClaimUsage { pods, template: 0, for_checkpoints });
            usage.for_checkpoints |= for_checkpoints;
            usage.pods = pods;
        }
    }
    usages
}
