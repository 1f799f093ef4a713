//! `jobset.x-k8s.io` `JobSet`: a list of batch/v1 Jobs that end together
//! (docs/internals/batch-kinds.md#jobset).

use std::cell::OnceCell;

use super::definition::{
    Api, CUSTOM, Children, Definition, Finished, Made, Mounted, OnUpdate, OwnClaims, Ranks, Retired,
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

/// The action of a rule that restarts the set and does not count that.
const UNCOUNTED: &str = "RestartJobSetAndIgnoreMaxRestarts";

/// The API server's message about an immutable field.
const IMMUTABLE: &str = "Value is immutable";

/// The strategy that restarts pods in place: JobSet accepts it only for Jobs that never replace a pod that
/// still runs.
pub(super) const IN_PLACE: &str = "InPlaceRestart";

/// Returns the form of the claims that a set creates, each for all its pods, from their place in the set.
pub(super) const fn own_claims(at: Path) -> OwnClaims {
    OwnClaims { at, name: &["metadata", "name"], existing: None, spec: "spec", mounted: Mounted::ByName }
}

/// What JobSet does to a template (0.12.0, `pkg/webhooks/jobset_webhook.go` and `pkg/controllers/jobset_controller.go`): the
/// webhook writes the completion mode, and the controller the subdomain of its service.
pub(super) const MADE: Made = Made {
    overwrites: &["subdomain"],
    volumes: Some(&[]),
    completion_mode: Some("Indexed"),
    unmade: "JobSet then makes none of its Jobs from this one on, and tries again without end",
    ..CUSTOM.made
};

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
        uncounted: UNCOUNTED,
    }),
    manager: Some(managers::JOB_SET),
    queued_by_kueue: true,
    pods: &[Pods {
        at: &["spec", "replicatedJobs", "*", "template", "spec"],
        template: TEMPLATE,
        count: Count::Jobs(Times::Replicas),
        restart: RESTART,
    }],
    waits_for_itself,
    claims: &[own_claims(&["spec", "volumeClaimPolicies", "*", "templates", "*"])],
    made: MADE,
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
/// not count. The first rule that a failure matches decides, so none counts after one that all match.
fn attempts(object: &Part<'_>) -> Attempts {
    let policy = object.at(&["spec", "failurePolicy"]);
    let counted = Attempts::with_retries(&policy.get("maxRestarts"), 0);
    // Read once: there may be many rules, and many Jobs.
    let jobs = OnceCell::new();
    let mut restarts = false;
    for rule in policy.get("rules").mappings() {
        let matches_all = ["onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs"]
            .iter()
            .all(|field| rule.get(field).items().next().is_none());
        match rule.get("action").text() {
            Field::Set(UNCOUNTED) if may_match(&rule, jobs.get_or_init(|| Limits::new(object))) => {
                return Attempts::NoLimit;
            }
            Field::Set("FailJobSet") if matches_all && !restarts => return Attempts::Times(1),
            Field::Placeholder(_) => return Attempts::Unknown,
            Field::Set("RestartJobSet") => restarts = true,
            _ => {}
        }
        if matches_all {
            break;
        }
    }
    counted
}

/// Returns the name in a `dependsOn` that is that of its own entry: JobSet's webhook accepts it, but for the first entry, and never
/// creates the Job.
fn waits_for_itself<'a>(object: &Part<'a>) -> Option<Part<'a>> {
    object.at(&["spec", "replicatedJobs"]).mappings().find_map(|job| {
        let own = job.get("name").text().set()?;
        let names = job.get("dependsOn").mappings().map(|of| of.get("name"));
        names.into_iter().find(|name| name.text() == Field::Set(own))
    })
}

/// What the Jobs of a set have that lets them fail for a reason of its own.
#[derive(Default)]
struct Limits {
    policy: bool,
    by_index: bool,
    deadline: bool,
}

impl Limits {
    fn new(object: &Part<'_>) -> Self {
        let jobs = object.at(&["spec", "replicatedJobs"]);
        jobs.mappings().fold(Self::default(), |limits, job| {
            let spec = job.at(&["template", "spec"]);
            Self {
                policy: limits.policy || spec.get("podFailurePolicy").is_set(),
                by_index: limits.by_index || spec.get("backoffLimitPerIndex").is_set(),
                deadline: limits.deadline || spec.get("activeDeadlineSeconds").is_set(),
            }
        })
    }
}

/// Tells whether a Job may fail for one of the reasons of a rule.
fn may_match(rule: &Part<'_>, jobs: &Limits) -> bool {
    let reasons = rule.get("onJobFailureReasons");
    let mut possible = reasons.items().map(|reason| match reason.text() {
        Field::Set("PodFailurePolicy") => jobs.policy,
        Field::Set("FailedIndexes" | "MaxFailedIndexesExceeded") => jobs.by_index,
        Field::Set("DeadlineExceeded") => jobs.deadline,
        _ => true,
    });
    reasons.items().next().is_none() || possible.any(|is_possible| is_possible)
}
