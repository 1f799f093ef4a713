//! `jobset.x-k8s.io` `JobSet`: a list of batch/v1 Jobs that end together
//! (docs/internals/batch-kinds.md#jobset).

use super::definition::{
    Api, CUSTOM, Children, Definition, Finished, Mounted, OnUpdate, OwnClaims, Ranks, Retired,
};
use super::field::{Field, Part, Path};
use super::job::RESTART_HELP;
use super::lifecycle::{Attempts, Choice, Deadline, Disruption, Ttl};
use super::pods::{Count, Pods, Restart, TEMPLATE, Times, Unset};
use super::variables;
use crate::controllers::managers;

/// JobSet writes `OnFailure` into a template without a policy.
pub(super) const RESTART: Restart = Restart::OfTemplate {
    help: RESTART_HELP,
    unset: Unset::Is("OnFailure"),
    always: "and the API server refuses the Jobs",
    ends_run: None,
};

/// The API server's message about an immutable field.
const IMMUTABLE: &str = "Value is immutable";

/// The strategy that restarts pods in place: JobSet accepts it only for Jobs that never replace a pod that
/// still runs.
pub(super) const IN_PLACE: &str = "InPlaceRestart";

/// Returns the form of the claims that a set creates, each for all its pods, from their place in the set.
pub(super) const fn own_claims(at: Path) -> OwnClaims {
    OwnClaims { at, name: &["metadata", "name"], existing: None, spec: "spec", mounted: Mounted::ByName }
}

/// In its schema, the `name` of a failure policy's rule is not required: JobSet's webhook writes it before
/// the API server looks.
pub(super) static JOB_SET: Definition = Definition {
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    retired: &[Retired {
        api_version: "jobset.x-k8s.io/v1alpha1",
        since: " since JobSet 0.2",
        moved: Some(", and `spec.network` instead of `spec.replicatedJobs[].network`"),
    }],
    name: "JobSet",
    resource: "jobsets",
    deadline: Deadline::EndsEachJob { restarts: &["spec", "failurePolicy", "maxRestarts"] },
    attempts,
    ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: true },
    replaces_in_place: Some(Choice { at: &["spec", "failurePolicy", "restartStrategy"], word: IN_PLACE }),
    disruption: Some(Disruption::FailsSet {
        restarts: &["spec", "failurePolicy", "maxRestarts"],
        rules: &["spec", "failurePolicy", "rules"],
        uncounted: "RestartJobSetAndIgnoreMaxRestarts",
    }),
    manager: Some(managers::JOB_SET),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "replicatedJobs", "*", "template", "spec"],
        template: TEMPLATE,
        count: Count::Jobs(Times::Replicas),
        restart: RESTART,
    }],
    claims: &[own_claims(&["spec", "volumeClaimPolicies", "*", "templates", "*"])],
    schema_of: "JobSet 0.12",
    api: Api::Custom { schema: include_str!("job_set.schema.json"), operator: None },
    finished: Finished::Conditions(&["Completed", "Failed"]),
    immutable: &[
        (&["spec", "failurePolicy"], IMMUTABLE),
        (&["spec", "network"], IMMUTABLE),
        (&["spec", "startupPolicy"], IMMUTABLE),
        (&["spec", "successPolicy"], IMMUTABLE),
        (&["spec", "volumeClaimPolicies"], IMMUTABLE),
    ],
    // Except in a suspended set.
    on_update: OnUpdate::TemplateImmutable,
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &[
        "system:serviceaccount:jobset-system:jobset-controller",
        "system:serviceaccount:jobset-system:jobset-controller-manager",
    ],
    variables: Some(variables::of_indexed_job),
    starter: Some(include_str!("job_set.starter.yaml")),
    ranks: Ranks::Each {
        processes: &[],
        index: &["JOB_COMPLETION_INDEX", "job-completion-index", "jobset.sigs.k8s.io/job-"],
        subdomain: false,
    },
    ..CUSTOM
};

/// Returns how often the set may start: again after a failure, up to `maxRestarts` times, unless a rule does
/// not count.
fn attempts(object: &Part<'_>) -> Attempts {
    let policy = object.at(&["spec", "failurePolicy"]);
    let is_free = |rule: &Part<'_>| matches!(rule.get("action").text(), Field::Set(action) if action.ends_with("IgnoreMaxRestarts"));
    if policy.get("rules").mappings().any(|rule| is_free(&rule)) {
        return Attempts::NoLimit;
    }
    Attempts::with_retries(&policy.get("maxRestarts"), 0)
}
