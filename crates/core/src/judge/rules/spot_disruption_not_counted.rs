//! The loss of a spot node, or another eviction that is to come, does not count as a failure of the job.
//!
//! ## Why
//!
//! A provider takes spot nodes back when it likes, and the pods on them end with an error. A Job counts each
//! of them as a failure of the program: after the sixth (`backoffLimit`) it fails for good, with days of
//! training in it, though nothing is wrong with the program. So it does with pods of a low priority, which the
//! scheduler preempts for others.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   backoffLimit: 10
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector: {cloud.google.com/gke-spot: "true"}
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
//!   backoffLimit: 10
//!   podReplacementPolicy: Failed
//!   podFailurePolicy:
//!     rules:
//!     - action: Ignore
//!       onPodConditions: [{type: DisruptionTarget, status: "True"}]
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector: {cloud.google.com/gke-spot: "true"}
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Safe: writes the `podFailurePolicy` of the example, and `podReplacementPolicy: Failed`, the only value
//! that the API server accepts beside it. It is unsafe where the author has chosen another value, and for pods
//! that are on no spot nodes. Only for
//! Jobs and CronJobs with `restartPolicy: Never`, without a `podFailurePolicy`, and without several pods that
//! are numbered (`completionMode: Indexed`), which may wait for each other.
//!
//! **Before you rely on it:** a pod that traps SIGTERM, writes a checkpoint and exits 0 has *succeeded*, and
//! the Job with it. Exit with another status after the checkpoint.
//!
//! ## Details
//!
//! Pods select spot nodes if a `nodeSelector`, or each term of a required node affinity, asks for one of
//! these labels with the one value: `cloud.google.com/gke-spot` and `cloud.google.com/gke-preemptible` (GKE),
//! `eks.amazonaws.com/capacityType` (EKS), `karpenter.sh/capacity-type` (Karpenter),
//! `kubernetes.azure.com/scalesetpriority` (AKS). A toleration alone selects nothing.
//!
//! **Job, CronJob.** A rule on the condition `DisruptionTarget`, whatever its action, is the author's choice,
//! and nothing is reported. The finding is a note if `backoffLimit` is 20 or more, or with a
//! `backoffLimitPerIndex`, unless the pods train together and their failures at the first loss are more than that:
//! what happens then is what `jobgate simulate --what spot` says. A `podFailurePolicy` requires `restartPolicy:
//! Never`.
//!
//! **JobSet.** One replacement would wait for peers that hang, so all of the set should start again: a
//! `podFailurePolicy` with `action: FailJob` on `DisruptionTarget`, and in `failurePolicy` a rule with
//! `action: RestartJobSetAndIgnoreMaxRestarts` and `onJobFailureReasons: [PodFailurePolicy]`. The finding is
//! a note if `maxRestarts` is 20 or more.
//!
//! **PyTorchJob.** With `restartPolicy: Never` the first lost pod ends the job. So it does with `ExitCode`
//! and torchrun, which exits with 1 on SIGTERM: for the operator that is an error that will come again. With
//! `OnFailure` and no `elasticPolicy`, the lost pod starts again and the others hang until they time out
//! (note, with what one loss costs), or their restarts with it are more than `backoffLimit`, and the first loss ends
//! the job: that is what `jobgate simulate --what spot` says. Other kinds have no field for it.
//!
//! **Volcano Job.** A policy that restarts the job counts each eviction as a run, as a failure does: `maxRetry` is
//! the number of runs (3 by default), whatever ends them, and no action is free. What ends a job at the first
//! eviction is a policy that terminates or aborts it: a pod that dies on SIGTERM has failed, which fires
//! `PodFailed` before `PodEvicted`. Without a policy a pod that is gone is made again, uncounted. A job with a policy
//! for `PodEvicted` is a note even if nothing shows that its pods will be evicted. That is what Volcano 1.15.1 was
//! recorded to do, and what `jobgate simulate --what spot` says; it asks about one eviction.
//!
//! **Preemption.** Pods whose `priorityClassName` is one of the parameter `preemptibleClasses` are looked at in the
//! same way, as a note: whether others preempt them depends on who comes. What the scheduler preempts has the
//! condition `DisruptionTarget`, as what is lost with a spot node.
//!
//! **A queue of Kueue** counts nothing: it suspends what it evicts, and pods that are deleted by that are no
//! failures of a Job, and no restarts of a JobSet (Kueue 0.19.2 and JobSet 0.12 were recorded). So a queue name
//! alone is not reported.
//!
//! **Time to end.** A pod on a spot node has 15 seconds on GKE, 30 on AKS and 120 on EKS and with Karpenter,
//! whatever its `terminationGracePeriodSeconds`. A larger one is a note; so is an unset one, which means 30,
//! on GKE, if the pod has a `preStop` hook or traps signals. GKE 1.35 and later can be set up to give spot
//! pods more.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy>
//! * <https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms>
//! * <https://github.com/kubernetes-sigs/jobset/tree/main/site/static/examples/failure-policy>
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>
//! * <https://github.com/volcano-sh/volcano/issues/2560>

use std::cell::OnceCell;

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::finding::{Finding, Level, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::peers::{has_word, others_wait, runs_torchrun};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::spot::Spot;
use crate::judge::pod_loss::{PREEMPTIBLE, PodLoss};
use crate::kinds::{Container, Disruption, Field, Part, PodTemplate};
use crate::text::lines::cut;
use crate::text::patch::Op;
use crate::text::value::json;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Loss of a spot node counted as a failure".into(),
        summary: "The loss of a spot node, or another eviction that is to come, does not count as a failure of the job".into(),
        kinds: Kinds::WithDisruption,
        // Lowered to a note where it is not certain that pods are taken from their nodes.
        default: Action::Warn,
        params: &[PREEMPTIBLE.0],
        incident: Some(Incident::Spot),
        export: Exportable::No("it reads node affinities and commands, which CEL does not do well"),
        ..Rule::new("spot-disruption-not-counted", check)
    }
}

/// A limit of so many failures or more is deliberate.
const ENOUGH: i64 = 20;

/// `backoffLimit` of a Job that sets none.
const DEFAULT_RETRIES: i64 = 6;

/// `maxRetry` of a job that sets none, or 0.
const DEFAULT_RUNS: i64 = 3;

/// `terminationGracePeriodSeconds` of a pod that sets none.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// The exit code of torchrun on SIGTERM (docs/internals/training.md#launcher-options).
const TORCHRUN_ON_SIGTERM: i64 = 1;

/// The longest name of a role to repeat.
const MAX_ROLE_BYTES: usize = 40;

/// The help for a pod that starts again alone.
pub(super) const MEETS: &str = "write an `elasticPolicy`, with which the others meet it again";

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let Some(disruption) = workload.kind.disruption else { return };
    if let Disruption::OfPolicies { runs, policies } = disruption {
        of_policies(cx, &workload.object.at(runs), &workload.object.at(policies));
    }
    // Read once: there may be many templates.
    let (is_free, is_shared) = (OnceCell::new(), OnceCell::new());
    for (index, pod) in workload.pods.iter().enumerate() {
        let Some(taking) = PodLoss::from_pods(cx, pod) else { continue };
        match disruption {
            Disruption::FailsJob => of_job(cx, index, &taking),
            Disruption::FailsSet { restarts, rules, uncounted } => {
                let rules =
                    || workload.object.at(rules).mappings().any(|rule| restarts_free(&rule, uncounted));
                if !*is_free.get_or_init(rules) {
                    of_set(cx, index, &taking, &workload.object.at(restarts), uncounted);
                }
            }
            Disruption::OfRole { elastic } => {
                of_role(cx, index, &taking, *is_shared.get_or_init(|| others_wait(workload, elastic)));
            }
            // The job has one number of runs for all of its tasks.
            Disruption::OfPolicies { .. } => {}
        }
        if let Some(spot) = taking.spot {
            time_to_end(cx, pod, &taking, spot);
        }
    }
}

/// Tells whether a rule of a set restarts it after the failure of a Job without counting that.
///
/// A Job without a policy of its own fails for the reason `BackoffLimitExceeded`.
fn restarts_free(rule: &Part<'_>, uncounted: &'static str) -> bool {
    let mut reasons = rule.get("onJobFailureReasons").items().peekable();
    rule.get("action").text() == Field::Set(uncounted)
        && (reasons.peek().is_none()
            || reasons.any(|reason| reason.text() == Field::Set("BackoffLimitExceeded")))
}

const POLICY: &str = "podFailurePolicy";
const REPLACEMENT: &str = "podReplacementPolicy";

/// Tells whether a Job has a rule on lost nodes.
fn decides(policy: &Part<'_>) -> bool {
    policy.get("rules").mappings().any(|rule| {
        rule.get("onPodConditions").mappings().any(|condition| {
            condition.get("type").text() == Field::Set("DisruptionTarget")
                && matches!(condition.get("status").text(), Field::Unset | Field::Set("" | "True"))
        })
    })
}

/// Returns how many failures a Job survives; nothing if that is unknown, or is not counted for the whole Job.
fn retries(spec: &Part<'_>) -> Option<i64> {
    if spec.get("backoffLimitPerIndex").is_set() {
        return None;
    }
    spec.get("backoffLimit").int().or_default(DEFAULT_RETRIES)
}

/// Reports at the policy of a Job, which may be missing.
fn report<'c>(
    cx: &'c mut Cx<'_>,
    policy: &Part<'_>,
    taking: &PodLoss,
    message: String,
) -> Option<&'c mut Finding> {
    let finding = if policy.is_set() {
        Some(cx.report(&policy.pointer, message).at_key())
    } else {
        cx.missing(&policy.pointer, message)
    };
    finding.map(|finding| taking.finish(finding))
}

/// Tells whether a pod that is taken counts as succeeded: its container ends with 0 on SIGTERM.
fn counts_as_succeeded(forecast: Option<&Forecast>) -> bool {
    forecast.is_some_and(|told| told.outcome.ending == Ending::CompletesHalfDone)
}

/// Returns how many other pods fail with one that is taken, if that is more than the Job survives.
fn fail_with_it(forecast: Option<&Forecast>) -> Option<u32> {
    let forecast = forecast.filter(|told| told.exceeds_limit())?;
    Some(forecast.at_once - 1).filter(|others| *others > 0)
}

fn of_job(cx: &mut Cx<'_>, index: usize, taking: &PodLoss) {
    let pod = &cx.workload.pods[index];
    let spec = &pod.around;
    let policy = spec.get(POLICY);
    if !spec.is_mapping() || decides(&policy) {
        return;
    }
    let forecast = cx.forecast(index, taking.incident);
    if counts_as_succeeded(forecast.as_ref()) {
        return;
    }
    let retries = retries(spec);
    let others = fail_with_it(forecast.as_ref());
    let counted = match (retries, others) {
        (Some(retries), Some(others)) => format!(
            "as a failure of the Job, and the {others} other pods fail with it: the first ends the Job, which \
             survives {retries} (`backoffLimit`)"
        ),
        (Some(retries), None) => {
            format!("as a failure of the Job, which survives {retries} (`backoffLimit`)")
        }
        (None, _) => "as a failure of its index".to_owned(),
    };
    let message = format!("each {} counts {counted}", taking.each);
    let is_never = pod.spec.get("restartPolicy").text() == Field::Set("Never");
    const NEEDED: &str = "`podFailurePolicy` that ignores the condition `DisruptionTarget`";
    let help = match (is_never, policy.is_set()) {
        (true, true) => format!("add a rule to the {NEEDED}"),
        (true, false) => format!("write a {NEEDED}"),
        (false, _) => format!("write `restartPolicy: Never`, and a {NEEDED}"),
    };
    let help = help + "; a pod that exits 0 on SIGTERM completes the Job";
    let workload = cx.workload;
    let version = workload.object.get("apiVersion").text().set().unwrap_or_default();
    // No server of a retired version has the field.
    let is_served = workload.kind.retired(version).is_none();
    let is_gang = spec.get("completionMode").text() != Field::Unset
        && spec.get("completionMode").text() != Field::Set("NonIndexed")
        && pod.count.most != Some(1);
    let fix = if is_never && !policy.is_set() && is_served && !is_gang { ignores(spec) } else { None };
    let Some(finding) = report(cx, &policy, taking, message) else { return };
    finding.help(help);
    if others.is_none() && retries.is_none_or(|retries| retries >= ENOUGH) {
        finding.at_most(Level::Note);
    }
    if let Some((safety, ops)) = fix {
        let is_certain = taking.spot.is_some();
        finding.fix(if is_certain { safety } else { Safety::Unsafe }, ops);
    }
}

/// Returns the fix that lets a Job ignore lost nodes.
fn ignores(spec: &Part<'_>) -> Option<(Safety, Vec<Op>)> {
    // In a CronJob, Kubernetes before 1.34 has no default for the status and rejects the object without one.
    let lost = json!({"type": "DisruptionTarget", "status": "True"});
    let rule = json!({"action": "Ignore", "onPodConditions": [lost]});
    let mut ops = vec![spec.set(POLICY, json!({"rules": [rule]}))?];
    let replacement = spec.get(REPLACEMENT);
    let safety = match replacement.text() {
        Field::Unset => {
            ops.push(spec.set(REPLACEMENT, "Failed".into())?);
            Safety::Safe
        }
        Field::Set("Failed") => Safety::Safe,
        Field::Set(_) => {
            ops.push(Op::Replace(replacement.pointer, "Failed".into()));
            Safety::Unsafe
        }
        Field::Placeholder(_) | Field::Wrong => return None,
    };
    Some((safety, ops))
}

fn of_set(cx: &mut Cx<'_>, index: usize, taking: &PodLoss, restarts: &Part<'_>, uncounted: &'static str) {
    let pod = &cx.workload.pods[index];
    let spec = &pod.around;
    let policy = spec.get(POLICY);
    if !spec.is_mapping() || decides(&policy) {
        return;
    }
    let forecast = cx.forecast(index, taking.incident);
    if counts_as_succeeded(forecast.as_ref()) {
        return;
    }
    let of_set = restarts.int().or_default(0);
    let then = match of_set {
        Some(0) => "and the set with it".to_owned(),
        Some(times) => format!("and all of the set starts again, {times} times at most (`maxRestarts`)"),
        None => "and all of the set starts again".to_owned(),
    };
    let others = fail_with_it(forecast.as_ref());
    let of_job = match (retries(spec), others) {
        (Some(0), _) => "fails its Job".to_owned(),
        (Some(_), Some(others)) => format!("fails its Job, as the {others} other pods fail with it"),
        (Some(retries), None) => format!("counts as a failure, of which its Job survives {retries}"),
        (None, _) => "counts as a failure of its index; its Job fails".to_owned(),
    };
    let message = format!("each {} {of_job}, {then}", taking.each);
    let needs = match pod.spec.get("restartPolicy").text() {
        Field::Set("Never") => "",
        _ => "`restartPolicy: Never`, ",
    };
    let help = format!(
        "write {needs}a `podFailurePolicy` with `action: FailJob` on `DisruptionTarget`, and a rule of \
         `failurePolicy` with `action: {uncounted}` and `onJobFailureReasons: [PodFailurePolicy]`"
    );
    let is_enough = of_set.is_none_or(|times| times >= ENOUGH)
        || others.is_none() && retries(spec).is_none_or(|times| times >= ENOUGH);
    let Some(finding) = report(cx, &policy, taking, message) else { return };
    finding.help(help);
    if is_enough {
        finding.at_most(Level::Note);
    }
}

fn of_role(cx: &mut Cx<'_>, index: usize, taking: &PodLoss, others_wait: bool) {
    let pod = &cx.workload.pods[index];
    let field = pod.around.get("restartPolicy");
    let Some(unset) = cx.workload.kind.retries.map(|retries| retries.unset) else { return };
    let word = match field.text() {
        Field::Set(word) if !word.is_empty() => word,
        Field::Unset | Field::Set(_) => unset,
        Field::Placeholder(_) | Field::Wrong => return,
    };
    let role = cut(pod.role().unwrap_or_default(), MAX_ROLE_BYTES, "…").escape_debug().to_string();
    let code = runs_torchrun(cx.commands(index)).then_some(TORCHRUN_ON_SIGTERM);
    const ENDS: &str = "write `restartPolicy: OnFailure`, and an `elasticPolicy` if other pods should go on";
    let is = format!("`restartPolicy` of `{role}` is `{word}`");
    let (one, that) = taking.once();
    let ends = format!("{one} ends the job");
    let mut loss = None;
    let (message, help, level) = match word {
        "Never" => (format!("{is}: {ends}"), ENDS, Level::Warn),
        "ExitCode" if code.is_some() => {
            (format!("{is}, and torchrun exits with 1 on SIGTERM: {ends}"), ENDS, Level::Warn)
        }
        "OnFailure" | "Always" if others_wait => {
            let alone = format!("a pod of `{role}` {that} starts again alone: the others");
            match cx.forecast_object(index, taking.incident, code) {
                Some(Forecast { outcome, why: Some(why), .. }) if outcome.ending == Ending::Fails => {
                    (format!("{ends}: {why}"), MEETS, Level::Warn)
                }
                Some(forecast) if forecast.outcome.ending == Ending::Completes => {
                    let lost = forecast.loss();
                    loss = Some(lost);
                    let once = if taking.spot.is_some() { "loss" } else { "preemption" };
                    let message =
                        format!("{alone} hang until they time out, and one {once} costs about {lost}");
                    (message, MEETS, Level::Note)
                }
                _ => (format!("{alone} hang until they time out"), MEETS, Level::Note),
            }
        }
        _ => return,
    };
    let finding = cx.report_field(&field, message);
    if let Some(finding) = finding {
        taking.finish(finding).help(help).at_most(level).costs(loss);
    }
}

/// Reports a job whose policies count what takes its pods as a run, or end it.
fn of_policies(cx: &mut Cx<'_>, runs: &Part<'_>, policies: &Part<'_>) {
    let Some(most) = runs.int().or_default(DEFAULT_RUNS) else { return };
    let most = if most == 0 { DEFAULT_RUNS } else { most };
    for (index, pod) in cx.workload.pods.iter().enumerate() {
        let own = pod.around.get("policies");
        let of_policy = || PodLoss::from_policy(own.mappings().chain(policies.mappings()));
        let Some(taking) = PodLoss::from_pods(cx, pod).or_else(of_policy) else { continue };
        // Who may be evicted now and then has runs for it.
        if taking.spot.is_none() && most >= ENOUGH {
            continue;
        }
        let ends = |most: i64| {
            let op = if runs.value.is_some() { Op::Replace } else { Op::Add };
            let op = op(runs.pointer.clone(), most.into());
            let outcome = cx.forecast_object_after(index, taking.incident, None, &[op])?.outcome;
            // What has no pods loses none.
            (outcome.made > 0).then_some(outcome.ending)
        };
        let (field, message, help) = match (ends(most), ends(ENOUGH)) {
            (Some(Ending::Fails), Some(Ending::Fails)) => (
                policies,
                format!("{} ends the job, by its `policies`", taking.once().0),
                "a pod that ends on SIGTERM with another status than 0 fires `PodFailed` before `PodEvicted`: \
                 restart the job on both"
                    .to_owned(),
            ),
            (Some(_), Some(Ending::Completes)) if ends(1) == Some(Ending::Fails) => {
                let by_default = if runs.is_set() { "" } else { " by default" };
                let message = format!(
                    "each {} uses one of the {most} runs of the job (`maxRetry`{by_default})",
                    taking.each
                );
                let write = if most < ENOUGH { format!("write a higher `maxRetry`, e.g. {ENOUGH}: ") } else { String::new() };
                (runs, message, write + "no restart of Volcano is free")
            }
            // One template is asked about: an answer must not depend on what is left of the work.
            _ => return,
        };
        if let Some(finding) = cx.report_field(field, message) {
            taking.finish(finding).help(help);
            if most >= ENOUGH {
                finding.at_most(Level::Note);
            }
        }
        return;
    }
}

/// Reports pods on spot nodes that do not get all of their grace period.
fn time_to_end(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, taking: &PodLoss, spot: &Spot) {
    let field = pod.spec.get("terminationGracePeriodSeconds");
    let most = spot.seconds_to_end;
    // The API server writes the default into built-in kinds.
    let seconds = match field.int().or_default(DEFAULT_GRACE_SECONDS) {
        Some(DEFAULT_GRACE_SECONDS) if !pod.containers().any(|one| handles_signals(&one)) => return,
        Some(seconds) if seconds > most => seconds,
        _ => return,
    };
    let what = if field.is_set() { "is" } else { "is not set, which means" };
    let message = format!(
        "`terminationGracePeriodSeconds` {what} {seconds}, but a pod on a spot node of {} gets {most} seconds \
         to end",
        spot.provider
    );
    let finding = cx.report_field(&field, message);
    if let Some(finding) = finding {
        taking
            .finish(finding)
            .at_most(Level::Note)
            .help(format!("write checkpoints so that at most {most} seconds are needed at the end"));
    }
}

fn handles_signals(container: &Container<'_>) -> bool {
    container.part.at(&["lifecycle", "preStop"]).is_set()
        || has_word(container, |word| word == "trap" || word.starts_with("--signals"))
}
