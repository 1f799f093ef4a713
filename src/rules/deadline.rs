//! Every run has an end: `activeDeadlineSeconds` is set, and above zero.
//!
//! ## Why
//!
//! A Job without a deadline runs until it succeeds, fails often enough, or somebody looks. A training job that hangs in a collective
//! operation does none of the three: it holds its GPUs over the weekend. `activeDeadlineSeconds` is the one bound that the API server's own
//! controllers enforce. The clock runs from the start of the Job, includes the time its pods are pending, stops while the Job is suspended,
//! and starts again from zero when it is resumed.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
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
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Unsafe: adds the parameter `suggestion` (86400 seconds, a day). How long a run may take is the author's to say, so the webhook never fills it in.
//!
//! ## Details
//!
//! The field stands in `spec` of a Job, in `spec.jobTemplate.spec` of a CronJob and in `spec.runPolicy` of a PyTorchJob.
//! A value of 0 is accepted by the API server and ends the Job at its first sync, so it counts as missing; and one above 9223372036 overflows
//! in the Job controller and ends it at once as well. `activeDeadlineSeconds` of the pod template bounds one pod, which the Job then
//! replaces: it is no deadline. Kueue's label `kueue.x-k8s.io/max-exec-time-seconds` counts as a bound, for Jobs that carry a queue name.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
//! * <https://kueue.sigs.k8s.io/docs/tasks/run/external_workloads/>

use crate::finding::{Op, Part as FindingPart, Place, Safety};
use crate::policy::Action;
use crate::rule::{Cx, Param, ParamDefault, Rule};
use crate::workload::{Field, Kind};

pub(super) static RULE: Rule = Rule {
    id: "deadline",
    summary: "Every run has an end: `activeDeadlineSeconds` is set, and above zero",
    kinds: &[Kind::Job, Kind::CronJob, Kind::PyTorchJob],
    default: Action::Deny,
    fills: &[],
    params: &[Param {
        name: "suggestion",
        doc: "Seconds that the unsafe fix writes, and that the help proposes.",
        default: ParamDefault::Int { value: 86400, least: 1 },
    }],
    check,
};

/// Above this many seconds the Job controller's product with nanoseconds overflows (kubernetes.md §1.3).
const MOST: i64 = 9_223_372_036;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let field = workload.limits.get("activeDeadlineSeconds");
    let seconds = cx.int("suggestion");
    let help = format!("add `{}` with the longest time a run may take, e.g. {seconds} (seconds)", field.pointer);
    let _ = (Field::<i64>::Unset, FindingPart::Key, MOST, help);
    let _ = |place: Place, op: Op, safety: Safety| (place, op, safety);
}
