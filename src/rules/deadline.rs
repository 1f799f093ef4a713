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
//! replaces: it is no deadline. Kueue's label `kueue.x-k8s.io/max-exec-time-seconds` counts as a bound: Kueue suspends the workload when it is over.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
//! * <https://kueue.sigs.k8s.io/docs/concepts/workload/#maximum-execution-time>

use crate::finding::{Level, Op, Part as FindingPart, Place, Safety};
use crate::patch::set;
use crate::pointer::Pointer;
use crate::policy::Action;
use crate::rule::{Cel, Cx, Param, ParamDefault, Rule};
use crate::workload::{Field, Kind, Part};

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
    cel: Ok(Cel {
        kinds: &[Kind::Job, Kind::CronJob, Kind::PyTorchJob],
        places: "\
[o.metadata.?labels['kueue.x-k8s.io/max-exec-time-seconds'].orValue('')]
  .exists(seconds, seconds.matches('^0*[1-9][0-9]{0,9}$') && int(seconds) <= 2147483647)
? [] :
o.kind == 'CronJob' ? (
  o.spec.jobTemplate.spec.?activeDeadlineSeconds.orValue(0) > 0 ? [] : ['spec.jobTemplate.spec.activeDeadlineSeconds']) :
o.kind == 'PyTorchJob' ? (
  o.spec.?runPolicy.?activeDeadlineSeconds.hasValue()
  ? (o.spec.runPolicy.activeDeadlineSeconds > 0 ? [] : ['spec.runPolicy.activeDeadlineSeconds'])
  : o.spec.?pytorchReplicaSpecs.orValue({}).exists(name, ['initContainers', 'containers', 'ephemeralContainers'].exists(slot,
      o.spec.pytorchReplicaSpecs[name].?template.?spec[?slot].orValue([]).exists(container, has(container.image))))
  ? ['spec.runPolicy.activeDeadlineSeconds'] : []) :
o.spec.?activeDeadlineSeconds.orValue(0) > 0 ? [] : ['spec.activeDeadlineSeconds']",
    }),
    check,
    restore: None,
};

/// Above this many seconds the Job controller's product with nanoseconds overflows (kubernetes.md §1.3).
const MOST: i64 = 9_223_372_036;

/// Kueue suspends a workload that runs longer than the number of seconds in this label (kubernetes.md §8).
const KUEUE_MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let field = workload.limits.get("activeDeadlineSeconds");
    let seconds = cx.int("suggestion");
    let help = || format!("set `{}` to the longest time a run may take, in seconds (a day is 86400)", field.pointer);
    match field.int() {
        Field::Set(value) if value > MOST => {
            cx.report(&field.pointer, format!("`activeDeadlineSeconds` is {value}, which overflows in the controller and ends the run at once"))
                .at_most(Level::Warn)
                .help(format!("write at most {MOST}"));
        }
        Field::Set(value) if value > 0 => {}
        _ if workload.label(KUEUE_MAX_EXEC_TIME).is_some_and(|text| text.parse::<i32>().is_ok_and(|value| value > 0)) => {}
        Field::Set(value) => {
            cx.report(&field.pointer, format!("`activeDeadlineSeconds` is {value}, which is no deadline: the run is ended as soon as it is seen"))
                .help(help())
                .fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), seconds.into())]);
        }
        Field::Unset => {
            let of_pods: Vec<Pointer> =
                workload.pods.iter().map(|pod| pod.spec.get("activeDeadlineSeconds")).filter(Part::is_set).map(|part| part.pointer).collect();
            let message = if of_pods.is_empty() {
                "no `activeDeadlineSeconds`: a run that hangs holds its nodes until somebody looks"
            } else {
                "no `activeDeadlineSeconds`: a run that hangs holds its nodes until somebody looks \
                 (that of the pod template ends one pod, and another takes its place)"
            };
            let Some(finding) = cx.missing(&field.pointer, message) else { return };
            finding.help(help());
            for place in of_pods {
                finding.label(Place::Here(place, FindingPart::Value), "bounds one pod, which is then replaced: no deadline for the run");
            }
            if let Some(fix) = set(&workload.limits, "activeDeadlineSeconds", seconds.into()) {
                finding.fix(Safety::Unsafe, vec![fix]);
            }
        }
        Field::Placeholder(_) | Field::Wrong => {}
    }
}
