//! What has finished goes away: `ttlSecondsAfterFinished` is set.
//!
//! ## Why
//!
//! Without it finished Jobs stay for ever, each with its pods: they fill etcd, slow every list, and keep volumes "in use".
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Safe: writes the parameter `seconds` (86400, a day), or `cronSeconds` (604800, a week) into the template of a CronJob; the webhook fills in the same.
//!
//! ## Details
//!
//! The field stands beside `activeDeadlineSeconds`: in `spec`, in `spec.jobTemplate.spec`, in `spec.runPolicy`.
//!
//! Nothing is filled in, and a warning given, where Argo CD, Flux or Helm track the object. To them a Job that deleted itself is a Job that is
//! missing, so they make it again, and the training runs again. A file in git carries no such mark; where all manifests are applied by such a
//! tool, set the parameter `gitops: true`. Remove finished Jobs with the tool's own means there, such as a hook deletion policy.
//! A Job whose controller is another object than a CronJob is its owner's to clean up, and is left alone.
//!
//! The webhook never sets the field on UPDATE of a Job or PyTorchJob: one that has finished would be deleted at once.
//! The training operator ignores the field while a PyTorchJob is suspended, and in release 1.9 never deletes one that failed with a permanent exit code.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/>
//! * <https://github.com/argoproj/argo-cd/issues/8586>

use crate::appliers::tracker;
use crate::finding::{Level, Safety};
use crate::patch::set;
use crate::policy::Action;
use crate::rule::{Cx, Param, ParamDefault, Rule};
use crate::workload::{Field, Kind, Workload};

pub(super) static RULE: Rule = Rule {
    id: "ttl-after-finished",
    summary: "What has finished goes away: `ttlSecondsAfterFinished` is set",
    kinds: &[Kind::Job, Kind::CronJob, Kind::PyTorchJob],
    default: Action::Fill,
    fills: &[
        "/spec/ttlSecondsAfterFinished",
        "/spec/jobTemplate/spec/ttlSecondsAfterFinished",
        "/spec/runPolicy",
        "/spec/runPolicy/ttlSecondsAfterFinished",
    ],
    params: &[
        Param { name: "cronSeconds", doc: "Seconds to keep a finished run of a CronJob.", default: ParamDefault::Int { value: 604_800, least: 0 } },
        Param {
            name: "gitops",
            doc: "Whether every object is taken to be tracked by a GitOps tool, so that nothing is filled in.",
            default: ParamDefault::Bool(false),
        },
        Param { name: "seconds", doc: "Seconds to keep a finished Job or PyTorchJob.", default: ParamDefault::Int { value: 86_400, least: 0 } },
    ],
    cel: Err("what it fills in, or denies where a policy says so, depends on more than CEL says well"),
    check,
};

const FIELD: &str = "ttlSecondsAfterFinished";

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let field = workload.limits.get(FIELD);
    if !field.int().is_unset() || is_owned(workload) {
        return;
    }
    let tracker = if cx.bool("gitops") { Some("a GitOps tool (the policy says so)") } else { tracker(workload) };
    if let Some(tracker) = tracker {
        let message =
            format!("no `{FIELD}`, so it stays when it has finished; none is filled in, as {tracker} would make it again and it would run again");
        if let Some(finding) = cx.missing(&field.pointer, message) {
            finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
            finding.help("let the tool that applies it clean it up, e.g. as a hook with a deletion policy");
        }
        return;
    }
    let seconds = cx.int(if workload.kind == Kind::CronJob { "cronSeconds" } else { "seconds" });
    let Some(fix) = set(&workload.limits, FIELD, seconds.into()) else { return };
    if let Some(finding) = cx.missing(&field.pointer, "no `ttlSecondsAfterFinished`: it stays for ever when it has finished, and its pods with it") {
        finding.help(format!("set `{}`, e.g. to {seconds} (seconds)", field.pointer)).fix(Safety::Safe, vec![fix]);
    }
}

/// Tells whether another object than a CronJob controls this one, and so decides when it goes.
fn is_owned(workload: &Workload<'_>) -> bool {
    let owners = workload.object.at(&["metadata", "ownerReferences"]);
    owners.items().any(|owner| owner.get("controller").bool() == Field::Set(true) && owner.get("kind").text() != Field::Set("CronJob"))
}
