//! The claims that a review asks for.

use std::collections::BTreeMap;

use super::review::{Head, Subject};
use crate::judge::facts::WantedClaim;
use crate::judge::rules;
use crate::kinds::Workload;

/// The longest name of a namespace, in bytes.
pub(super) const LONGEST_NAMESPACE: usize = 63;

/// How an object, new or old, uses one claim.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// How many pods may use it at once; an unknown number never causes a denial.
    pods: Option<i64>,
    /// The pod template counted last: one that has several volumes of the claim counts once.
    template: usize,
    /// Whether its name, or that of a volume of it, is one that checkpoints have.
    for_checkpoints: bool,
}

/// Returns the claims that a rule may look up, in the order of [`Review::claims`](super::review::Review::claims), without those of templates
/// with no pods.
pub(super) fn claims(head: &Head<'_>, subject: &Subject) -> Vec<WantedClaim> {
    let Subject::Object(change) = subject else { return Vec::new() };
    // Nothing is in a namespace that cannot exist; and its name is repeated for each claim. What is in no
    // namespace runs in any.
    if change.kind.cluster_scoped || head.namespace.len() > LONGEST_NAMESPACE {
        return Vec::new();
    }
    // Whether it is shared, and whether it is for checkpoints, in either object.
    let mut wanted: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for workload in
        [Some(&change.object), change.old.as_ref()].into_iter().flatten().flat_map(Workload::all_in)
    {
        for (name, usage) in usages(&workload) {
            let (shared, for_checkpoints) = wanted.entry(name).or_default();
            *shared |= usage.pods.is_some_and(|pods| pods > 1);
            *for_checkpoints |= usage.for_checkpoints;
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_by_key(|(_, (shared, for_checkpoints))| (!shared, !for_checkpoints));
    let namespace = &head.namespace;
    wanted
        .into_iter()
        .map(|(name, (shared, _))| WantedClaim {
            namespace: namespace.to_string(),
            name: name.to_owned(),
            shared,
        })
        .collect()
}

/// Returns how one object uses its claims, by their names.
fn usages<'a>(workload: &Workload<'a>) -> BTreeMap<&'a str, Usage> {
    let mut usages: BTreeMap<&'a str, Usage> = BTreeMap::new();
    for (template, pod) in workload.pods.iter().enumerate() {
        let pods = pod.count.most;
        if pods.is_some_and(|pods| pods <= 0) {
            continue;
        }
        for used in pod.claims() {
            let for_checkpoints = [used.claim, used.volume].into_iter().any(rules::is_named_like_checkpoints);
            let first = Usage { pods, template, for_checkpoints };
            let usage = usages.entry(used.claim).or_insert(first);
            usage.for_checkpoints |= for_checkpoints;
            if usage.template != template {
                usage.template = template;
                usage.pods = usage.pods.zip(pods).map(|(sum, pods)| sum.saturating_add(pods));
            }
        }
    }
    usages
}
