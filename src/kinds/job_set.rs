//! `jobset.x-k8s.io` `JobSet`: a list of batch/v1 Jobs that end together (kinds.md §4).

use super::definition::{Api, CUSTOM, Children, Deadline, Definition, Finished, OnUpdate, Ranks, Ttl};
use super::job::RESTART_HELP;
use super::pods::{Count, Pods, Restart, Times, Unset};
use super::variables;

/// JobSet writes `OnFailure` where a template says nothing.
pub(super) const RESTART: Restart = Restart::OfTemplate {
    help: RESTART_HELP,
    unset: Unset::Is("OnFailure"),
    always: "and the API server refuses the Jobs",
    ends_run: None,
};

/// In its schema, the `name` of a failure policy's rule is not required: JobSet's webhook writes it before the API
/// server looks.
pub(super) static JOB_SET: Definition = Definition {
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    name: "JobSet",
    resource: "jobsets",
    deadline: Deadline::EndsEachJob {
        restarts: &["spec", "failurePolicy", "maxRestarts"],
        help: "a rule of `failurePolicy` with `onJobFailureReasons: [DeadlineExceeded]` and \
               `action: FailJobSet` keeps the set from starting again, with a new clock, up to `maxRestarts` times",
    },
    ttl: Ttl::Deletes {
        what: "the finished set, its Jobs and their pods are",
        deletes_pods: true,
        of_job: Some(
            "of a Job of a set that still runs deletes the finished Job, which is then created and run again",
        ),
    },
    pods: &[Pods {
        at: &["spec", "replicatedJobs", "*", "template", "spec"],
        template: "template",
        count: Count::Jobs(Times::Replicas),
        restart: RESTART,
    }],
    api: Api::Custom { schema: include_str!("job_set.schema.json"), operator: None },
    finished: Finished::Conditions(&["Completed", "Failed"]),
    // But for a suspended set.
    on_update: OnUpdate::TemplateImmutable,
    children: &[Children { group: "batch", name: "Job", by_hand: None }],
    makers: &[
        "system:serviceaccount:jobset-system:jobset-controller",
        "system:serviceaccount:jobset-system:jobset-controller-manager",
    ],
    variables: Some(variables::of_indexed_job),
    ranks: Ranks::Each {
        processes: &[],
        index: &["JOB_COMPLETION_INDEX", "job-completion-index", "jobset.sigs.k8s.io/job-"],
        subdomain: false,
    },
    ..CUSTOM
};
