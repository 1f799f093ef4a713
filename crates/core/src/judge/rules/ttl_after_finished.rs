//! Finished jobs are deleted: `ttlSecondsAfterFinished` is set.
//!
//! ## Why
//!
//! Without this field, a finished job is never deleted, and the finished runs of a CronJob are
//! kept up to its history limits, each with its pods. They fill etcd, slow every list request, and keep
//! volumes in use.
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
//! Safe: writes the parameter `seconds` (86400, a day), or `cronSeconds` (604800, a week) into the template
//! of a CronJob. The webhook fills in the same value.
//!
//! ## Details
//!
//! The field is next to `activeDeadlineSeconds`: in `spec`, `spec.jobTemplate.spec` or `spec.runPolicy`.
//!
//! A CronJob keeps its finished runs, with their pods, up to its history limits: the last
//! `successfulJobsHistoryLimit` that succeeded (default 3) and the last `failedJobsHistoryLimit` that failed
//! (default 1). A TTL deletes them earlier and never keeps one longer. If both limits are 0, no run is kept,
//! so nothing is filled in or reported. A ScaledJob has the same limits, each 100 by default.
//!
//! A day is enough for teams that look at their jobs every day. Otherwise choose a week (`seconds: 604800`):
//! with a day, a run that fails on Friday evening is gone on Monday with its pods and their logs, unless the
//! logs are kept elsewhere. Authors who want another time set the field themselves.
//!
//! Nothing is filled in, and a warning is given, if a tool tracks the object: Argo CD, Flux, Helm, Config
//! Sync, Fleet, kapp, Pulumi, Terraform or Crossplane, recognized by their labels, annotations and field
//! managers. To such a tool a Job that deleted itself is missing, so the tool creates it again, at once or on
//! its next run, and the training runs again. Any label or annotation of Argo CD or Flux counts
//! (`argocd.argoproj.io/sync-wave`, `kustomize.toolkit.fluxcd.io/ssa`). Most files in git have no such mark;
//! if such a tool applies all manifests, set the parameter `gitops: true`. The field is still filled into a
//! CronJob or ScaledJob: the tool tracks that, and its runs are not created again. Likewise into an MPIJob of
//! `kubeflow.org/v2beta1`, which stays when its launcher is deleted. The exception is an object of Terraform,
//! which gets a warning instead: every plan would show the field as a change.
//!
//! A TTL that the author has set in an object of such a tool is a warning, since it makes the job run again and
//! again. A label that many manifests have, whoever applies them (`app.kubernetes.io/instance`), is not enough
//! for that. Nothing is said where the tool does not create it again, or is meant to: a hook, a `generateName`, the
//! sync options `Force=true,Replace=true` of Argo CD, with which a Job runs with each sync, and `ssa: Ignore` or
//! `reconcile: disabled` of Flux.
//!
//! A TTL below the parameter `leastSeconds` (60) deletes the job before its end has been read: `kubectl wait` and
//! Terraform fail with `NotFound`, Prometheus scrapes once a minute by default, and so does Fluent Bit look for new
//! logs. It is a warning where the pods hold accelerators, or for a hook of Argo CD: before release 3.0 it
//! waits without end for a hook that is gone. So it does for a hook of Helm that it installs: a note.
//!
//! Hooks of Helm or Argo CD are not filled either. A hook is not created again before the next release, and
//! the tool deletes it according to its deletion policy (`helm.sh/hook-delete-policy`,
//! `argocd.argoproj.io/hook-delete-policy`). A hook without such a policy gets a warning, since it is kept
//! until it runs again.
//!
//! Nothing is written into an object with a non-empty `status`, such as the output of `kubectl get -o yaml`:
//! applied to a finished Job, the field would delete the Job and its pods at once. Set the field in the
//! original manifest.
//!
//! A Job that is controlled by an object other than a CronJob is left alone: its owner cleans it up.
//!
//! The field deletes a finished Job, PyTorchJob or JobSet with its pods, and of an MPIJob
//! (`kubeflow.org/v2beta1`) the launcher only. There a TTL of 0 is reported: if the launcher is gone before
//! the operator has seen it finish, the operator creates it again, and the job runs a second time. A RayJob
//! keeps its cluster for so many seconds, so there the field is never filled in. In a Job of a JobSet or of a
//! training runtime it is reported: the deleted Job would be created and run again. So is one below a minute
//! in what an AppWrapper contains: a component that is gone before the wrapper has seen its end has failed.
//!
//! The webhook never sets the field on UPDATE of a Job or PyTorchJob: a finished one would be deleted at
//! once. In a PyTorchJob without a `cleanPodPolicy`, the TTL is the only thing that frees pods which still
//! run when the job has ended, with every release of the training operator; the operator keeps to the time.
//! It ignores the field while a PyTorchJob is suspended. With a role of `restartPolicy: ExitCode`, a pod that exits
//! with a code below 128 fails the job without a `completionTime`, and the TTL never begins: the operator (1.9.4) was
//! seen to keep such a PyTorchJob, XGBoostJob, JAXJob or PaddleJob. A note says so.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/>
//! * <https://github.com/argoproj/argo-cd/issues/8586>
//! * <https://github.com/argoproj/argo-cd/issues/18884>
//! * <https://github.com/hashicorp/terraform-provider-kubernetes/issues/1578>

use crate::judge::appliers::{hook, leaves_alone, tracker, writes_whole};
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Fills, Flag, Kinds, Needs, Number, Rule};
use crate::kinds::{Field, Finished, History, Part, PodTemplate, Ttl, Workload};
use crate::text::patch::Op;

const CRON_SECONDS: Number = Number::new(
    "cronSeconds",
    "Seconds to keep a finished run of a CronJob, unless its history limits delete it earlier.",
    604_800,
    0,
);
const GITOPS: Flag = Flag::off(
    "gitops",
    "Whether every object is taken to be tracked by a GitOps tool, so that nothing is filled in.",
);
const LEAST: Number = Number::new(
    "leastSeconds",
    "The least TTL: below it a finished job is gone before its end has been read; 0 for none.",
    60,
    0,
);
const SECONDS: Number = Number::new("seconds", "Seconds to keep a finished Job or PyTorchJob.", 86_400, 0);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Finished jobs never deleted".into(),
        summary: "Finished jobs are deleted: `ttlSecondsAfterFinished` is set".into(),
        kinds: Kinds::WithTtl,
        default: Action::Fill,
        fills: Fills::Ttl,
        params: &[CRON_SECONDS.0, GITOPS.0, LEAST.0, SECONDS.0],
        export: Exportable::No(
            "what it fills in, or denies where a policy says so, depends on more than CEL says well",
        ),
        needs: Needs::MANAGERS,
        ..Rule::new("ttl-after-finished", check)
    }
}

/// The TTL of a batch/v1 Job.
const FIELD: &str = "ttlSecondsAfterFinished";

fn check(cx: &mut Cx<'_>) {
    let (field, name) = (cx.workload.ttl(), cx.workload.kind.ttl_name());
    match cx.workload.kind.ttl {
        Ttl::Deletes { jobs_run_again, deletes_pods } => {
            if cx.workload.inside.is_none() {
                check_limits(cx, &field, deletes_pods);
            } else if deletes_pods {
                check_inside(cx, &field);
            }
            if cx.workload.kind.ttl_of_zero_runs_again && field.int() == Field::Set(0) {
                let seconds = cx.number(&SECONDS).max(1);
                let message = format!(
                    "`{name}: 0` may delete the launcher before the operator has seen it finish, which then creates \
                     it and runs it again"
                );
                let finding = cx.report(&field.pointer, message);
                finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
                finding.help(format!("write a longer time, e.g. {seconds} (seconds)"));
                finding.fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), seconds.into())]);
            }
            if jobs_run_again {
                runs_again(cx, None);
            }
        }
        Ttl::RunsAgain => runs_again(cx, Some((field, name))),
        Ttl::None => {}
    }
}

/// Reports the TTL of each batch/v1 Job, and another field: what they delete is created again, as the whole still runs.
fn runs_again(cx: &mut Cx<'_>, other: Option<(Part<'_>, &str)>) {
    let workload = cx.workload;
    let kind = workload.kind.as_str();
    let jobs = workload.runs.iter().filter_map(|run| run.job_spec.as_ref());
    let jobs = jobs.map(|spec| (spec.get(FIELD), FIELD, " of a Job"));
    let fields = jobs.chain(other.map(|(field, name)| (field, name, "")));
    for (field, name, of) in fields.filter(|(field, _, _)| field.is_set()) {
        let harm = format!("{of} in a {kind} deletes finished work, which is then created and run again");
        report_harm(cx, &field, name, harm.trim_start());
    }
}

/// Checks a TTL inside a wrapper, which deletes its components itself, and treats a missing one as failed. So a
/// TTL must be longer than it takes to see that the component has finished
/// (docs/internals/batch-kinds.md#appwrapper).
fn check_inside(cx: &mut Cx<'_>, field: &Part<'_>) {
    const LEAST_SECONDS: i64 = 60;
    if let Field::Set(seconds) = field.int()
        && seconds < LEAST_SECONDS
    {
        report_harm(
            cx,
            field,
            cx.workload.kind.ttl_name(),
            "may delete the finished job before its wrapper has seen it, which then fails",
        );
    }
}

/// Reports a TTL that makes finished work run again.
fn report_harm(cx: &mut Cx<'_>, field: &Part<'_>, name: &str, harm: &str) {
    let finding = cx.report(&field.pointer, format!("`{name}` {harm}"));
    finding.instead_of_fill(Level::Warn).at_most(Level::Warn).at_key().help("remove it");
    finding.fix(Safety::Unsafe, vec![Op::Remove(field.pointer.clone())]);
}

fn check_limits(cx: &mut Cx<'_>, field: &Part<'_>, deletes_pods: bool) {
    let workload = cx.workload;
    let what = if deletes_pods {
        format!("the finished {} and its pods are", workload.kind.noun())
    } else {
        "the finished launcher Job and its logs are".to_owned()
    };
    let name = workload.kind.ttl_name();
    if is_owned(workload) {
        return;
    }
    let is_template = workload.schedule.is_some();
    // Tools track the object itself, and do not recreate the objects that its controller creates.
    let stays = is_template || workload.kind.finished == Finished::Never || !deletes_pods;
    if !field.int().is_unset() {
        if let Field::Set(seconds) = field.int()
            && (stays || !check_tracked(cx, field))
            && deletes_pods
        {
            check_unread(cx, field, seconds);
            check_end(cx, field);
        }
        return;
    }
    let kept = workload.kind.history.map(|history| KeptRuns::new(&workload.object.at(history.at), history));
    if kept == Some(KeptRuns { successful: Some(0), failed: Some(0) }) {
        return;
    }
    if let Some(hook) = hook(workload).filter(|_| !stays) {
        if !hook.has_policy {
            let message = format!(
                "`{name}` and a deletion policy are not set, \
                 so the finished hook is kept until {} runs it again",
                hook.tool
            );
            if let Some(finding) = cx.missing(&field.pointer, message) {
                finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
                finding.help(format!("write the annotation `{}: {}`", hook.policy, hook.suggestion));
            }
        }
        return;
    }
    if let Some(tracker) = tracker_of(cx).filter(|_| !stays) {
        let message = format!(
            "the finished job is never deleted: `{name}` is not set, and is not filled in, \
             because {tracker} would create the job again, and it would run again"
        );
        if let Some(finding) = cx.missing(&field.pointer, message) {
            finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
            finding.help(clean_up(tracker));
        }
        return;
    }
    let message = match &kept {
        Some(kept) => format!("`{name}` is not set: {}, with their pods", kept.words()),
        None => format!("`{name}` is not set, so {what} never deleted"),
    };
    if !is_template && workload.has_begun() {
        if let Some(finding) = cx.missing(&field.pointer, message) {
            finding.instead_of_fill(Level::Note);
            finding.help(
                "this object has a `status`, and a TTL deletes a finished job at once: \
                 set it in the manifest that the job was created from",
            );
        }
        return;
    }
    let seconds = cx.number(if is_template { &CRON_SECONDS } else { &SECONDS });
    if let Some(tool) = writes_whole(workload) {
        let kept = kept.map_or_else(|| format!("{what} never deleted"), KeptRuns::words);
        let message =
            format!("`{name}` is not set: {kept}; it is not filled in, because {tool} would remove it");
        if let Some(finding) = cx.missing(&field.pointer, message) {
            finding.instead_of_fill(Level::Warn).at_most(Level::Warn);
            finding.help(format!("set `ttl_seconds_after_finished` in the configuration, e.g. to {seconds}"));
        }
        return;
    }
    let Some(fix) = workload.limits.set_at(workload.kind.ttl_at, seconds.into()) else { return };
    if let Some(finding) = cx.missing(&field.pointer, message) {
        let earlier = if workload.kind.history.is_some() { ", which deletes them earlier" } else { "" };
        finding
            .help(format!("set `{}`, e.g. to {seconds} (seconds){earlier}", field.pointer))
            .fix(Safety::Safe, vec![fix]);
    }
}

/// Returns the tool that creates the object again once it is gone.
fn tracker_of(cx: &Cx<'_>) -> Option<&'static str> {
    if cx.flag(&GITOPS) { Some("a GitOps tool (the policy says so)") } else { tracker(cx.workload) }
}

/// Reports a TTL that deletes a finished job before its end has been read.
fn check_unread(cx: &mut Cx<'_>, field: &Part<'_>, seconds: i64) {
    let least = cx.number(&LEAST);
    if seconds >= least {
        return;
    }
    let workload = cx.workload;
    let hook = hook(workload);
    let name = workload.kind.ttl_name();
    let (message, level) = match &hook {
        Some(hook) => {
            // Helm itself takes a hook that is gone for one that has ended.
            let level = if hook.tool == "Argo CD" { Level::Warn } else { Level::Note };
            let message = format!(
                "`{name}: {seconds}` may delete the hook before Argo CD has seen its end: before release 3.0 it then waits \
                 without end"
            );
            (message, level)
        }
        None => {
            // A run of a service that cleans up after itself is meant so.
            if !workload.pods.iter().any(PodTemplate::holds_accelerators) {
                return;
            }
            let message = format!(
                "`{name}: {seconds}` deletes the finished {} and its logs before most tools have read how it ended",
                workload.kind.noun()
            );
            (message, Level::Warn)
        }
    };
    let finding = cx.report(&field.pointer, message);
    finding.instead_of_fill(level).at_most(level);
    finding.help(format!("write at least {least} (seconds)"));
    finding.fix(Safety::Unsafe, vec![Op::Replace(field.pointer.clone(), least.into())]);
}

/// Notes a TTL that never begins after some failures.
fn check_end(cx: &mut Cx<'_>, field: &Part<'_>) {
    let Some(pod) = cx.workload.fails_without_end() else { return };
    let policy = pod.around.get("restartPolicy");
    let name = cx.workload.kind.ttl_name();
    let word = policy.text().set().unwrap_or_default();
    let message = format!(
        "`{name}` does not delete the job after an exit code below 128: with `restartPolicy: {word}` it then fails \
         without a `completionTime`"
    );
    let finding = cx.report(&field.pointer, message);
    finding.instead_of_fill(Level::Note).at_most(Level::Note).at_key();
    finding.help("write `restartPolicy: OnFailure` and a `backoffLimit`, or delete such a job yourself");
    finding.label(Place::Here(policy.pointer, FindingPart::Value), "which codes are retried");
}

/// Reports a TTL that the author has set in an object that a tool creates again; tells whether it did.
fn check_tracked(cx: &mut Cx<'_>, field: &Part<'_>) -> bool {
    // A hook is not created again before the next release.
    if hook(cx.workload).is_some() || leaves_alone(cx.workload) {
        return false;
    }
    // A label that many manifests have, whoever applies them, is not enough to call the author's choice wrong.
    let Some(tracker) = tracker_of(cx).filter(|tool| !tool.starts_with("Argo CD or Helm")) else { return false };
    // A warning of the webhook is cut short, and its path names the field.
    let name = cx.workload.kind.ttl_name();
    let message = format!(
        "{tracker} creates the deleted job again, and it runs again: `{name}` deletes it when it has finished"
    );
    let finding = cx.report(&field.pointer, message);
    finding.instead_of_fill(Level::Warn).at_most(Level::Warn).at_key();
    finding.help(format!("remove it; {}", clean_up(tracker)));
    finding.fix(Safety::Unsafe, vec![Op::Remove(field.pointer.clone())]);
    true
}

/// The number of finished runs that are kept (docs/internals/kubernetes.md#history-limits); nothing if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptRuns {
    successful: Option<i64>,
    failed: Option<i64>,
}

impl KeptRuns {
    fn new(around: &Part<'_>, history: History) -> Self {
        let limit = |field, default| around.get(field).int().or_default(default);
        Self {
            successful: limit("successfulJobsHistoryLimit", history.successful),
            failed: limit("failedJobsHistoryLimit", history.failed),
        }
    }

    fn words(self) -> String {
        let numbers = match (self.successful, self.failed) {
            (Some(successful), Some(failed)) => format!(" ({successful} successful, {failed} failed)"),
            _ => String::new(),
        };
        format!("finished runs are kept up to the history limits{numbers}")
    }
}

/// Returns advice for making a tool delete finished objects. Only Argo CD and Helm have hooks.
fn clean_up(tool: &str) -> String {
    match tool {
        "Argo CD" => {
            "let Argo CD delete it: as a hook (`argocd.argoproj.io/hook`) with a deletion policy".to_owned()
        }
        "Helm" => "let Helm delete it: as a hook (`helm.sh/hook`) with a deletion policy".to_owned(),
        _ if tool.starts_with("Argo CD or Helm") => {
            "let the tool delete it: as a hook with a deletion policy".to_owned()
        }
        _ if tool.starts_with("a GitOps tool") => {
            "let the tool delete it: as a hook with a deletion policy (Argo CD, Helm), \
             or remove it from the manifests once it has finished"
                .to_owned()
        }
        _ => {
            format!("remove it from what {tool} applies once it has finished, so that {tool} deletes it")
        }
    }
}

/// Tells whether an object other than a CronJob controls this one, and deletes it.
fn is_owned(workload: &Workload<'_>) -> bool {
    let owners = workload.object.at(&["metadata", "ownerReferences"]);
    owners.mappings().any(|owner| {
        owner.get("controller").bool() == Field::Set(true)
            && owner.get("kind").text() != Field::Set("CronJob")
    })
}
