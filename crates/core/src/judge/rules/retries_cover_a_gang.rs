//! Retries count for each pod: where all pods fail together, `backoffLimit` is a multiple of their number.
//!
//! ## Why
//!
//! `backoffLimit` counts failed pods, not attempts. When one pod of a distributed run fails, the others lose
//! it, time out, and fail as well, and each of them counts. 16 pods are beyond the default of 6 at once: the
//! Job fails without a single retry. A limit of 20 is one retry, though it looks like 20.
//!
//! The wait grows by pods as well: 10 seconds after the first, doubled with each that fails after it, ten
//! minutes at most. After seven pods that fail together, it is ten minutes.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   completionMode: Indexed
//!   completions: 16
//!   parallelism: 16
//!   backoffLimit: 20
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nnodes=16, --rdzv-backend=c10d, "--rdzv-endpoint=train-0.train:29500", train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   completionMode: Indexed
//!   completions: 16
//!   parallelism: 16
//!   backoffLimit: 48
//!   activeDeadlineSeconds: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       subdomain: train
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [torchrun, --nnodes=16, --rdzv-backend=c10d, "--rdzv-endpoint=train-0.train:29500", train.py]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes a `backoffLimit` of as many failures of all pods as the parameter `attempts` says. Only the
//! author knows how often a run may start again. The other way is `backoffLimit: 0`: the first failure ends
//! the Job, and whatever created it, such as a JobSet with `failurePolicy.maxRestarts`, starts all pods again.
//!
//! ## Details
//!
//! Jobs, CronJobs and ScaledJobs are reported where several pods run a command that joins them (`torchrun` or
//! `accelerate launch` with more than one node, or Python with `MASTER_ADDR`, `COORDINATOR_ADDRESS` or
//! `JAX_COORDINATOR_ADDRESS`), and `backoffLimit` is less than their number times `attempts`. It is 6 where it
//! is not set. With `restartPolicy: OnFailure` the restarts of containers count, and the Job fails when there
//! are as many as the limit, so one more is needed.
//!
//! That the limit decides is what the model of `jobgate simulate --what crash-all` says: where something else ends
//! the Job, such as its deadline, nothing is reported. Where the first failure ends the Job, the finding says what
//! that costs (`jobgate simulate --what exit=1`).
//!
//! The rule is silent
//!
//! * with `backoffLimit: 0`, which is one attempt on purpose, and with `backoffLimitPerIndex`;
//! * with a `podFailurePolicy` that may fail the Job at once, or ignores an exit code;
//! * in a JobSet, a TrainJob or their runtimes: `gang-restarts-together` says there how all of them start again;
//! * where a launcher waits for another number of nodes than there are pods, or the number is not known;
//! * for launchers whose agents wait for the new pod (`--nnodes=2:4`, `--max-restarts` with a dynamic rendezvous);
//! * for `mpirun` and `deepspeed` with a host file: the pods that they start processes in do not fail with them;
//! * for sweeps, and where only an annotation says that pods are scheduled together: that they fail together is
//!   not certain.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy>
//! * <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/job/backoff_utils.go>

use crate::controllers::incident::{Duration, Incident};
use crate::controllers::job::wait_after;
use crate::judge::finding::{Part as FindingPart, Place, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::gang_retries::GangRetries;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Number, Rule};
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Retries for fewer pods than fail together".into(),
        summary: "Retries count for each pod: where all pods fail together, `backoffLimit` is a multiple of their \
                  number".into(),
        kinds: Kinds::JobSpecs,
        default: Action::Warn,
        params: &[ATTEMPTS.0],
        incident: Some(FAILS),
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("retries-cover-a-gang", check)
    }
}

const ATTEMPTS: Number = Number::new(
    "attempts",
    "How often all pods of a run that train together may fail, and start again, before their Job fails.",
    3,
    1,
);

const FIELD: &str = "backoffLimit";

/// A pod fails, and the others with it.
const FAILS: Incident = Incident::Exit(1);

/// All pods fail whenever they start, so that the attempts can be counted.
const FAIL_ALWAYS: Incident = Incident::CrashAll;

fn check(cx: &mut Cx<'_>) {
    let attempts = cx.number(&ATTEMPTS);
    for (index, pod) in cx.workload.pods.iter().enumerate() {
        let Some(gang) = GangRetries::from_pod(cx, index) else { continue };
        let needed = gang.needed(attempts);
        if gang.limit >= needed {
            continue;
        }
        let limit = pod.around.get(FIELD);
        let fix = if limit.value.is_some() {
            Some(Op::Replace(limit.pointer.clone(), needed.into()))
        } else {
            pod.around.set(FIELD, needed.into())
        };
        let Some(fix) = fix else { continue };
        // Where there is no retry, the first failure decides, and its cost is said.
        let incident = if gang.survived() == 0 { FAILS } else { FAIL_ALWAYS };
        let now = cx.forecast(index, incident);
        // Until the limit ends the Job, a higher one changes nothing, and then it does not end the Job. So the fix needs no
        // question.
        if now.as_ref().is_none_or(Forecast::exceeds_limit) {
            report(cx, (index, &gang), now.as_ref(), fix);
        }
    }
}

fn report(cx: &mut Cx<'_>, (index, gang): (usize, &GangRetries), now: Option<&Forecast>, fix: Op) {
    let limit = cx.workload.pods[index].around.get(FIELD);
    let GangRetries { ranks, command, .. } = gang;
    let by_default = if limit.is_set() { "" } else { " by default" };
    let is = format!("`{FIELD}` ({}{by_default}) is", gang.limit);
    let pods = format!("the {ranks} pods of {command}, which fail together");
    let attempts = cx.number(&ATTEMPTS);
    let survived = gang.survived();
    let mut loss = None;
    let message = match survived {
        0 => {
            loss = now.filter(|told| told.exceeds_limit()).map(Forecast::loss);
            let costs = loss.map(|loss| format!(", and costs about {loss}")).unwrap_or_default();
            format!("{is} less than {pods}: the first failure ends the Job, without a retry{costs}")
        }
        1 => format!("{is} one failure of {pods}: one retry{}", apart(gang, 1)),
        times => format!("{is} {times} failures of {pods}: {times} retries{}", apart(gang, times)),
    };
    let wait = if survived == 0 { apart(gang, attempts) } else { String::new() };
    let help = format!(
        "write `{FIELD}: {}` for {attempts} retries of all pods{wait}, or `{FIELD}: 0`, and start them again as a whole",
        gang.needed(attempts),
    );
    let Some(finding) = cx.report_field(&limit, message) else { return };
    finding.help(help).costs(loss).fix(Safety::Unsafe, vec![fix]);
    if survived > 0 {
        finding.about(FAIL_ALWAYS);
    }
    finding.label(Place::Here(gang.at.clone(), FindingPart::Value), "started in all of them");
    if let Some(place) = &gang.said_by {
        finding.label(Place::Here(place.clone(), FindingPart::Value), "the number of pods");
    }
}

/// Returns how long the controller waits before so many retries, to go on with a sentence; nothing where the kubelet starts
/// containers again, which waits in a way of its own.
fn apart(gang: &GangRetries, retries: i64) -> String {
    if gang.in_place {
        return String::new();
    }
    let after = |failed: i64| wait_after(u32::try_from(failed).unwrap_or(u32::MAX));
    let (first, last) = (after(gang.ranks), after(gang.ranks.saturating_mul(retries)));
    // Each failure since the last success counts, so the next wait is longer.
    let which = match retries {
        1 => "",
        _ if first == last => "each ",
        _ => "the first ",
    };
    format!(", {which}after a wait of {} (10s, doubled with each failed pod, 10m at most)", Duration(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::job::spec::JobSpec;
    use crate::controllers::program::Peers;
    use crate::controllers::story::{Assumptions, lower, tell};
    use crate::controllers::time::Time;
    use crate::judge::simulation::ProgramDefaults;
    use crate::text::value::json;
    use std::collections::BTreeSet;

    /// What the rule computes of limits is what the Job controller does.
    #[test]
    fn as_many_attempts_are_made_as_the_limit_has_failures_of_all_pods() {
        let defaults = ProgramDefaults::default();
        let assumptions = Assumptions::for_tests(Peers::Exit(defaults.peer_timeout));
        for (ranks, limit) in [(2, 6), (4, 6), (4, 3), (4, 4), (16, 6), (16, 20), (16, 47), (16, 48), (3, 9)] {
            for in_place in [false, true] {
                let policy = if in_place { "OnFailure" } else { "Never" };
                let spec = json!({"completionMode": "Indexed", "completions": ranks, "parallelism": ranks,
                    "backoffLimit": limit, "template": {"spec": {"restartPolicy": policy, "containers": [{"name": "c"}]}}});
                let job = JobSpec::from_spec(&spec);
                let told = tell(&spec, lower(&job, &[FAIL_ALWAYS.into()], &assumptions)).expect("an end");
                assert_eq!(told.reason.as_deref(), Some("BackoffLimitExceeded"), "{spec}");
                let gang = GangRetries {
                    ranks,
                    said_by: None,
                    limit,
                    in_place,
                    at: crate::text::pointer::Pointer::root(),
                    command: String::new(),
                };
                let starts = if in_place {
                    let restarts = told.pods.iter().map(|pods| i64::from(pods.restarts)).max();
                    restarts.expect("pods")
                } else {
                    let times: BTreeSet<Time> = told.pods.iter().map(|pods| pods.created).collect();
                    let ends = told.pods.iter().filter_map(|pods| pods.ended);
                    let waits = ends.zip(times.iter().skip(1)).map(|(ended, next)| *next - ended);
                    let all = wait_after(u32::try_from(ranks).expect("a number"));
                    // The controller looks once a second, and counts from whole seconds.
                    let is_near = |wait: Time| (wait - all).millis().abs() <= 2_000;
                    assert!(waits.take(1).all(is_near), "{ranks}");
                    i64::try_from(times.len()).expect("a number")
                };
                assert_eq!(starts, gang.survived() + 1, "{ranks} {limit} {policy}");
                assert!(gang.limit >= gang.needed(gang.survived()));
            }
        }
    }
}
