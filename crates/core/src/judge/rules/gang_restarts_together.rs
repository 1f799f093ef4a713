//! Pods that train together restart together: one that is replaced alone waits for others that hang.
//!
//! ## Why
//!
//! The processes of a distributed run wait for each other in every step. When one pod fails, a Job with
//! retries replaces just that pod. The new process waits for a rendezvous, the others wait for the old one in
//! an NCCL call, and all of them hold their GPUs until a timeout, typically 10 to 30 minutes later; then the
//! next pod fails, up to `backoffLimit` times. On 8 nodes with 8 GPUs, six retries of that kind cost some 100
//! GPU hours. Each of the pods counts when it fails, so a limit is soon reached: that is the rule
//! `retries-cover-a-gang`.
//!
//! The training operator does the same with a PyTorchJob: the container that has failed, or the pod that was
//! evicted, starts again alone. The MPI operator does not even that: a worker that has failed is never
//! replaced, and the launcher is tried again and again without it.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: jobset.x-k8s.io/v1alpha2
//! kind: JobSet
//! metadata: {name: train}
//! spec:
//!   replicatedJobs:
//!   - name: workers
//!     template:
//!       spec:
//!         parallelism: 4
//!         completions: 4
//!         activeDeadlineSeconds: 86400
//!         template:
//!           spec:
//!             restartPolicy: Never
//!             containers:
//!             - name: trainer
//!               image: registry.example.com/trainer:v1
//!               env: [{name: MASTER, value: train-workers-0-0.train}]
//!               command: [torchrun, --nnodes=4, --rdzv-backend=c10d, "--rdzv-endpoint=$(MASTER)", train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: jobset.x-k8s.io/v1alpha2
//! kind: JobSet
//! metadata: {name: train}
//! spec:
//!   failurePolicy: {maxRestarts: 3}
//!   replicatedJobs:
//!   - name: workers
//!     template:
//!       spec:
//!         parallelism: 4
//!         completions: 4
//!         backoffLimit: 0
//!         podReplacementPolicy: Failed
//!         activeDeadlineSeconds: 86400
//!         template:
//!           spec:
//!             restartPolicy: Never
//!             containers:
//!             - name: trainer
//!               image: registry.example.com/trainer:v1
//!               env: [{name: MASTER, value: train-workers-0-0.train}]
//!               command: [torchrun, --nnodes=4, --rdzv-backend=c10d, "--rdzv-endpoint=$(MASTER)", train.py]
//! ```
//!
//! ## Fix
//!
//! None: whether a run may start again from its last checkpoint is up to the author. In a JobSet, write
//! `backoffLimit: 0` in the Jobs, so that the first failure fails the Job, and `failurePolicy: {maxRestarts:
//! 3}`, so that the set then starts again as a whole. A plain Job cannot restart its pods together:
//! `backoffLimit: 0` ends it, and whatever created it may create it again.
//!
//! ## Details
//!
//! **Job, CronJob, JobSet** and other objects of batch/v1 Jobs are looked at where several pods run a launcher
//! that joins them: `torchrun` or `accelerate launch` with more than one node, a rendezvous endpoint or a
//! master address, `mpirun` with hosts, or Python with `MASTER_ADDR`, `COORDINATOR_ADDRESS` or
//! `JAX_COORDINATOR_ADDRESS`. They are reported where
//! `backoffLimit` is not 0 (6 is the default), or where `backoffLimitPerIndex` is set, which replaces that default
//! by one without end, unless it ends the Job with the first failed index (`backoffLimitPerIndex: 0` with
//! `maxFailedIndexes: 0`). A JobSet is reported also where its Jobs have `backoffLimit: 0` and it
//! has no `failurePolicy.maxRestarts`, since the first failure then ends the set.
//!
//! **PyTorchJob** is reported where several pods with accelerators train together, and a
//! role has `restartPolicy: OnFailure` (the default) or `Always`, or `ExitCode`
//! without torchrun, which ends with 1 and so fails the job. If the restarts of all pods reach `backoffLimit`
//! at the first failure, the finding is about that. In a job with a deadline, a second one says what the loss of a
//! node costs: its pod stays `Terminating`, and the operator makes no other of its name.
//!
//! **MPIJob** of `kubeflow.org/v2beta1` is reported where it runs Python, and several workers with accelerators have
//! `restartPolicy: Never`, the default: a worker that fails is not started again, and the job fails when the
//! launcher has failed as often as `backoffLimit` says. With `OnFailure` the kubelet starts it again. A worker
//! that the kubelet evicts, or whose node is lost, is replaced with neither.
//!
//! What happens after a failure is what `jobgate simulate --what exit=1` says (`node-lost`, `oom:role=worker`), with the
//! policy's `assumptions`: how long the other pods wait for one that is lost, and how often work is saved. Of the training
//! operator it is what release 1.9.4 was seen to do, of the MPI operator 0.8.0.
//!
//! The rule is silent for runs that cope with the loss of a pod (`--nnodes=2:4`, `--max-restarts` with a
//! dynamic rendezvous, `elasticPolicy`), with a rule `FailJob` in `podFailurePolicy`, for a single pod, where a number is
//! not known, for the other kinds of `kubeflow.org/v1`, whose pods may go on or end together, for pods without
//! accelerators, whose connections break with a rank, for a container that only waits for somebody to use it, for pods on
//! spot nodes of a PyTorchJob (`spot-disruption-not-counted` says it), and for operators that restart all pods.
//!
//! ## References
//!
//! * <https://jobset.sigs.k8s.io/docs/concepts/#failure-policy>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy>
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! * <https://github.com/kubeflow/trainer/issues/2269>
//! * <https://github.com/kubeflow/mpi-operator/issues/647>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::container_end::waits;
use crate::judge::finding::{Part as FindingPart, Place};
use crate::judge::forecast::Forecast;
use crate::judge::gang_retries::{GangRetries, fails_at_once};
use crate::judge::peers::{has_word, joins, others_wait, runs_torchrun};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::spot::selected;
use crate::judge::training::{drives_others, is_python_trainer};
use crate::kinds::{Deadline, Disruption, Field, Hosts, Part, Path, PodTemplate, Ranks, Retries, Workload};
use crate::text::lines::cut;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;

use super::operator_retries_bounded::RESTARTS_PER_POD;
use super::spot_disruption_not_counted::MEETS;

/// A pod fails.
const FAILS: Incident = Incident::Exit(1);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods of one run replaced one by one".into(),
        summary: "Pods that train together restart together: one that is replaced alone waits for others that \
                  hang".into(),
        kinds: Kinds::Gangs,
        default: Action::Note,
        incident: Some(FAILS),
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("gang-restarts-together", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if matches!(workload.kind.deadline, Deadline::OfOthers { .. }) {
        return;
    }
    match (workload.kind.ranks, workload.kind.retries) {
        (Ranks::Hosts(hosts), _) => return of_hosts(cx, hosts),
        (_, Some(retries)) => return of_roles(cx, retries),
        _ => {}
    }
    let mut ends_at_first = None;
    for (index, pod) in workload.pods.iter().enumerate() {
        if !pod.form.is_job() || pod.count.most.is_none_or(|most| most <= 1) || fails_at_once(pod) {
            continue;
        }
        let lines = cx.commands(index);
        let Some((at, launcher)) = lines.containers.iter().find_map(joins) else { continue };
        let by_index = pod.around.get("backoffLimitPerIndex");
        if by_index.is_set() {
            of_indexes(cx, pod, &by_index, (at, &launcher));
            continue;
        }
        let limit = pod.around.get("backoffLimit");
        let retries = match limit.int() {
            Field::Unset => "6 by default".to_owned(),
            Field::Set(0) => {
                ends_at_first.get_or_insert((limit.pointer, at));
                continue;
            }
            Field::Set(retries) if retries > 0 => retries.to_string(),
            _ => continue,
        };
        let is_set = limit.is_set();
        let forecast = cx.forecast(index, FAILS);
        let mut loss = None;
        let message = match forecast {
            // The rule retries-cover-a-gang says it.
            Some(forecast) if forecast.exceeds_limit() && GangRetries::from_pod(cx, index).is_some() => continue,
            // What `mpirun` starts processes in does not fail with them.
            Some(forecast) if forecast.exceeds_limit() && !lines.containers.iter().any(drives_others) => format!(
                "`backoffLimit` ({retries}) is less than the {} pods of {launcher}, which fail together: when one \
                 fails, so does the Job, with no retry",
                forecast.at_once
            ),
            Some(forecast) if forecast.outcome.ending == Ending::Completes => {
                let lost = forecast.loss();
                loss = Some(lost);
                format!(
                    "`backoffLimit` ({retries}) replaces a failed pod alone: the others of {launcher} hang until \
                     they time out, and one failure costs about {lost}"
                )
            }
            _ => format!(
                "`backoffLimit` ({retries}) replaces a failed pod alone: the others of {launcher} hang, and \
                 it waits for them"
            ),
        };
        let help = match workload.kind.deadline {
            Deadline::EndsEachJob { .. } => {
                "write `backoffLimit: 0`, and `failurePolicy: {maxRestarts: 3}` in the set, which \
                 starts all pods again"
            }
            _ => {
                "write `backoffLimit: 0`, or use a JobSet with `failurePolicy.maxRestarts`, which starts \
                 all pods again"
            }
        };
        let finding = if is_set {
            Some(cx.report(&limit.pointer, message))
        } else {
            cx.missing(&limit.pointer, message)
        };
        if let Some(finding) = finding {
            finding.help(help).label(Place::Here(at, FindingPart::Value), "started in all of them").costs(loss);
        }
    }
    let (Deadline::EndsEachJob { restarts, .. }, Some((limit, at))) = (workload.kind.deadline, ends_at_first)
    else {
        return;
    };
    let field = workload.object.at(restarts);
    if !field.int().is_unset() || field.is_set() {
        return;
    }
    let message = "the first failed pod ends the whole set: its Jobs have no retries, and it has no restarts";
    if let Some(finding) = cx.missing(&field.pointer, message) {
        finding
            .help("write `failurePolicy: {maxRestarts: 3}`, which starts all pods again")
            .label(Place::Here(limit, FindingPart::Value), "no retries")
            .label(Place::Here(at, FindingPart::Value), "the pods train together");
    }
}

/// Reports retries of each index: no other limit counts then, unless the author sets one.
fn of_indexes(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, by_index: &Part<'_>, (at, launcher): (Pointer, &str)) {
    let ends_at_first = [("backoffLimit", 0), ("maxFailedIndexes", 0)]
        .iter()
        .any(|(field, limit)| pod.around.get(field).int() == Field::Set(*limit));
    let message = match by_index.int() {
        Field::Set(0) if ends_at_first => return,
        Field::Set(0) => format!(
            "`backoffLimitPerIndex: 0` ends a failed index alone: the others of {launcher} wait for it, and hang"
        ),
        Field::Set(retries) if retries > 0 => format!(
            "`backoffLimitPerIndex` ({retries}) replaces a failed pod alone: the others of {launcher} hang, and \
             it waits for them"
        ),
        _ => return,
    };
    let finding = cx.report(&by_index.pointer, message);
    finding
        .help("remove it and write `backoffLimit: 0`: it is for indexes that do not depend on each other")
        .label(Place::Here(at, FindingPart::Value), "started in all of them");
}

/// The field of PyTorchJobs and PaddleJobs with which the others meet a pod that starts again.
const ELASTIC: Path = &["spec", "elasticPolicy"];

/// The longest name of a role to repeat: those that operators know are shorter.
const MAX_ROLE_BYTES: usize = 40;

/// The help where no other pod can meet one that starts again.
const ENDS: &str = "write `restartPolicy: Never`, with which the first failure ends the job, and start it again as a whole";

/// Returns the `restartPolicy` of a role: the default of the operator where it is not set.
fn policy_of(pod: &PodTemplate<'_>, unset: &'static str) -> Option<String> {
    match pod.around.get("restartPolicy").text() {
        Field::Set(word) if !word.is_empty() => Some(word.to_owned()),
        Field::Unset | Field::Set(_) => Some(unset.to_owned()),
        Field::Placeholder(_) | Field::Wrong => None,
    }
}

/// Returns the operation that sets the `restartPolicy` of a role.
fn with_policy(pod: &PodTemplate<'_>, word: &'static str) -> Option<Op> {
    let field = pod.around.get("restartPolicy");
    match field.value {
        Some(_) => Some(Op::Replace(field.pointer, word.into())),
        None => pod.around.set("restartPolicy", word.into()),
    }
}

fn role_of(pod: &PodTemplate<'_>) -> String {
    cut(pod.role().unwrap_or_default(), MAX_ROLE_BYTES, "…").escape_debug().to_string()
}

/// Tells whether the pods of a job may go on without one another, or do not hang: without accelerators they talk by Gloo, whose
/// connections break with a rank; only PyTorchJob has pods that are known to be the ranks of one program; and some containers
/// only wait for somebody to use them.
fn is_loose(cx: &Cx<'_>) -> bool {
    let workload = cx.workload;
    let waits = |pod: usize| cx.commands(pod).containers.iter().any(|line| waits(line).is_some());
    !matches!(workload.kind.ranks, Ranks::Each { .. })
        || !workload.pods.iter().any(PodTemplate::holds_accelerators)
        || (0..workload.pods.len()).any(waits)
        || workload.pods.iter().any(talks_otherwise)
}

/// Tells whether a container names a backend of PyTorch whose ranks do not wait for one that is lost.
fn talks_otherwise(pod: &PodTemplate<'_>) -> bool {
    let is_it = |word: &str| word.rsplit('=').next().is_some_and(|word| ["gloo", "mpi"].contains(&word));
    pod.containers().any(|container| has_word(&container, is_it))
}

/// Tells whether pods select spot nodes, and the rule about those says what a failure does.
fn is_said_of_spot(workload: &Workload<'_>) -> bool {
    matches!(workload.kind.disruption, Some(Disruption::OfRole { .. }))
        && workload.pods.iter().any(|pod| selected(&pod.spec).is_some())
}

/// Reports a job of the training operator, which starts a failed pod again alone.
fn of_roles(cx: &mut Cx<'_>, retries: Retries) {
    let workload = cx.workload;
    // What is inside another object may be made again by that.
    let is_other = cx.partial || workload.inside.is_some() || is_loose(cx) || is_said_of_spot(workload);
    if is_other || !others_wait(workload, ELASTIC) {
        return;
    }
    let restarted = workload.pods.iter().enumerate().filter_map(|(index, pod)| {
        let incident = match policy_of(pod, retries.unset)?.as_str() {
            "OnFailure" | "Always" => FAILS,
            "ExitCode" if !runs_torchrun(cx.commands(index)) => Incident::Oom,
            _ => return None,
        };
        Some((pod.count.most.unwrap_or_default(), index, incident))
    });
    // The role with most pods; the first of several.
    let Some((_, index, incident)) = restarted.max_by_key(|(count, index, _)| (*count, std::cmp::Reverse(*index)))
    else {
        return;
    };
    let pod = &workload.pods[index];
    let field = pod.around.get("restartPolicy");
    let role = role_of(pod);
    let forecast = cx.forecast_object(index, incident, None);
    let limit = workload.limits.get(retries.field);
    if let (Some(Forecast { outcome, why: Some(why), .. }), true) = (&forecast, limit.is_set())
        && outcome.ending == Ending::Fails
    {
        return at_limit(cx, (index, incident), &limit, why);
    }
    let loss = forecast.as_ref().filter(|told| told.outcome.ending == Ending::Completes).map(Forecast::loss);
    let costs = loss.map(|loss| format!(", and one failure costs about {loss}")).unwrap_or_default();
    let fails = if incident == FAILS { "fails" } else { "is killed" };
    let message =
        format!("a pod of `{role}` that {fails} starts again alone: the others hang until they time out{costs}");
    let help = if cx.workload.kind.pods.iter().any(|form| form.count.elastic().is_some()) { MEETS } else { ENDS };
    if let Some(finding) = cx.report_field(&field, message) {
        finding.help(help).costs(loss).about(incident);
    }
    lost_node(cx, (index, incident), forecast.as_ref());
}

/// Reports a job whose limit of restarts is reached when all its pods fail together once.
fn at_limit(cx: &mut Cx<'_>, (index, incident): (usize, Incident), limit: &Part<'_>, why: &str) {
    let counts = cx.workload.pods.iter().map(|pod| pod.count.most);
    let Some(pods) = counts.sum::<Option<i64>>() else { return };
    let needed = pods.saturating_mul(RESTARTS_PER_POD).min(i32::MAX.into());
    let fix = Op::Replace(limit.pointer.clone(), needed.into());
    let fixed = cx.forecast_object_after(index, incident, None, &[fix]);
    if fixed.is_some_and(|fixed| fixed.outcome.ending == Ending::Fails) {
        return;
    }
    let message = format!("when one pod fails, so do all {pods}, and the job with them: {why}");
    let finding = cx.report(&limit.pointer, message);
    finding.help(format!("write `backoffLimit: {needed}`, {RESTARTS_PER_POD} for each pod")).about(incident);
}

/// Reports a job in which the pod of a lost node is not replaced, so that the others wait, where another policy would end it.
fn lost_node(cx: &mut Cx<'_>, (index, incident): (usize, Incident), failed: Option<&Forecast>) {
    const LOST: Incident = Incident::NodeLost;
    let workload = cx.workload;
    // Without a deadline, that of a run that hangs is said.
    let is_said = !workload.deadline().is_set();
    if is_said || incident != FAILS || !failed.is_some_and(|told| told.outcome.ending == Ending::Completes) {
        return;
    }
    let Some(forecast) = cx.forecast_object(index, LOST, None) else { return };
    let ops: Option<Vec<Op>> = workload.pods.iter().map(|pod| with_policy(pod, "Never")).collect();
    let Some(fixed) = ops.and_then(|ops| cx.forecast_object_after(index, LOST, None, &ops)) else { return };
    let loss = forecast.loss();
    if [&forecast, &fixed].iter().any(|told| told.outcome.ending != Ending::Fails) || loss <= fixed.loss() {
        return;
    }
    let role = role_of(&workload.pods[index]);
    let message = format!(
        "a pod of `{role}` whose node stops answering is not replaced: the others wait until the deadline, about {loss}"
    );
    let field = workload.pods[index].around.get("restartPolicy");
    if let Some(finding) = cx.report_field(&field, message) {
        finding.help(ENDS).costs(loss).about(LOST);
    }
}

/// Reports an MPIJob whose workers are not started again when they fail.
fn of_hosts(cx: &mut Cx<'_>, hosts: Hosts) {
    // A worker has no program but the one that the launcher starts: it ends by being killed.
    const KILLED: Incident = Incident::Oom;
    let workload = cx.workload;
    let limit = workload.limits.get("backoffLimit");
    if cx.partial || workload.inside.is_some() || limit.int() == Field::Set(0) {
        return;
    }
    let mut pods = (0..workload.pods.len()).flat_map(|pod| &cx.commands(pod).containers);
    // A benchmark is started again as a whole.
    if !pods.any(|line| line.commands.iter().any(is_python_trainer)) {
        return;
    }
    for (index, pod) in workload.pods.iter().enumerate() {
        let is_one = pod.count.most.is_none_or(|most| most < 2);
        let is_kept = pod.role() != Some(hosts.worker) || policy_of(pod, "Never").as_deref() != Some("Never");
        if is_one || is_kept || !pod.holds_accelerators() {
            continue;
        }
        let Some(fix) = with_policy(pod, "OnFailure") else { continue };
        let completes = |told: &Forecast| told.outcome.ending == Ending::Completes;
        let forecast = cx.forecast_object(index, KILLED, None);
        let fixed = cx.forecast_object_after(index, KILLED, None, &[fix]);
        if forecast.as_ref().is_some_and(completes) || fixed.is_some_and(|fixed| !completes(&fixed)) {
            continue;
        }
        let loss = forecast.as_ref().map(Forecast::loss);
        let costs = loss.map(|loss| format!(", about {loss}")).unwrap_or_default();
        let field = pod.around.get("restartPolicy");
        let is = if field.is_set() { "is" } else { "is not set, which means" };
        let message = format!(
            "`restartPolicy` of `{}` {is} `Never`: a worker that is killed is not started again, and the launcher is \
             tried without it until the job fails{costs}",
            role_of(pod)
        );
        if let Some(finding) = cx.report_field(&field, message) {
            finding.help("write `restartPolicy: OnFailure` for the workers").costs(loss).about(KILLED);
        }
    }
}
