//! Pods are replaced once they have terminated: `podReplacementPolicy` is `Failed`.
//!
//! ## Why
//!
//! By default (`TerminatingOrFailed`), the Job controller starts a replacement as soon as a pod is marked for
//! deletion. For a while both pods run: they use twice the GPUs, the new pod waits for the ReadWriteOnce
//! volume of the old one, and frameworks that give each worker an identity, such as TensorFlow, reject two
//! workers with the same one. With `Failed`, the replacement waits until the old pod has terminated.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   ttlSecondsAfterFinished: 86400
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
//! Safe: writes `podReplacementPolicy: Failed`. The webhook fills in the same value.
//!
//! **Before you rely on it:** with `Failed`, a pod that traps SIGTERM, writes a checkpoint and exits 0 has
//! *succeeded*. If such a pod is evicted, the Job is complete with only half of the training done; with
//! `TerminatingOrFailed` the pod would have been replaced. Exit with another status after the checkpoint (by
//! convention 143), and let `podFailurePolicy` ignore the condition `DisruptionTarget`, so that an eviction
//! does not count as a retry. Workers that `torchrun` starts need no such change: it exits with 1 on SIGTERM,
//! whatever the training script exits with.
//!
//! Where the script of a container says that it ends with 0 on SIGTERM, the webhook warns instead of filling
//! the value in, and the fix is unsafe. That is so where a shell waits for its program (`train & wait`) and
//! its `trap` exits with 0, or lets the script go on to its end after the `wait`. Where that is not sure, nothing
//! is said: of a `trap` in a branch or a subshell, of one that is taken back (`trap - TERM`), of a status that is
//! computed (`exit $?`, `exit $rc`), of `wait` under `set -e` in the `trap`, of a shell that does not wait, or
//! that has another program in the foreground, and of what a program does with the signal itself. In a script of
//! `sh`, `SIGTERM` says nothing, since dash only knows `TERM`. Of a Job that has `Failed` already, also by its
//! `podFailurePolicy`, that is a finding of `exit-status-on-sigterm`.
//!
//! ## Details
//!
//! Only for Jobs, and kinds that Jobs are made from: CronJob, JobSet, ScaledJob and training runtimes. The
//! Jobs of a JobSet and of a runtime are in a list, which an apply replaces as a whole: where the object will
//! be applied again, the webhook warns, and `lint --fix` writes the field. Where it has filled the field into
//! a JobSet that is applied later, the webhook restores it on UPDATE if nothing else in the Job has changed;
//! JobSet would reject the change otherwise. A Job with a `podFailurePolicy` defaults to `Failed` and may
//! have no other value.
//!
//! A Job with `backoffLimit: 0` and without `backoffLimitPerIndex` ends with its first failed pod, so no pod
//! is replaced. `TerminatingOrFailed` counts a pod as failed as soon as it is marked for deletion, `Failed`
//! only if it then fails. In a JobSet or a runtime, such a Job is a note instead of a warning.
//!
//! A JobSet with `failurePolicy.restartStrategy: InPlaceRestart` restarts its pods where they are. JobSet
//! accepts it only if each Job has `podReplacementPolicy: Failed`, a `backoffLimit` of 2147483647, and as
//! many `completions` as `parallelism`. There another value of the first is reported even if the author chose
//! it, and one that is missing even with a `podFailurePolicy`.
//!
//! A `TerminatingOrFailed` that the author chose is kept. The API server writes the same value into every Job
//! that leaves the field unset, before it calls any webhook. So on CREATE of a Job, the webhook treats the
//! value as a choice only if a server-side apply owns the field, the last-applied annotation of `kubectl
//! apply` sets it, or the annotation `jobgate.dev/keep: pod-replacement-policy` is set. After a plain
//! `kubectl create` a choice looks like the default, and the value is replaced.
//!
//! The first `kubectl apply --server-side` of a Job that was made with `kubectl apply` removes the filled value,
//! since kubectl then hands the API server's default to the new owner, and its manifest does not have it. The
//! webhook restores `Failed` where a server-side apply owns the spec, nobody owns the field, and the action is
//! `fill`; a warning says so. An edit, a patch or `kubectl replace` owns what it sets, and is left alone. While
//! Jobgate is not running, such an apply takes the value back: write it into the manifest.
//!
//! **On a node that stops answering**, `Failed` waits for what may never come. The control plane deletes the
//! pod after five minutes, but only the node can say that it has terminated. Until then there is no
//! replacement, and a Job beyond its deadline does not become `Failed`, so that no TTL begins and a CronJob
//! with `Forbid` starts no run. With Kueue and `waitForPodsReady` it is worse: the other pods of the Job are
//! killed and started again every half hour, since they are never all ready. It ends when the lost pod is
//! gone: delete the Node, or give it the taint `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, or
//! delete the pod with `--force` if nothing runs on the node any more. With `TerminatingOrFailed` the pod is
//! replaced at once, and does the work of the old one; the Job does not become `Complete` before that is gone, and
//! a CronJob with `Forbid` starts no run, with `Failed` or without (`cron-runs-do-not-overlap`). Clusters whose lost
//! nodes are not deleted soon set the parameter `onlyWhereTwoPodsHarm`, or the action `note`. With that parameter, a
//! Job that nothing is filled into, and in which the author chose `Failed`, gets a note.
//!
//! The field is filled into objects of Terraform as well: its provider does not know the field, so plans show
//! no change.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy>
//! * <https://github.com/kubernetes/enhancements/tree/master/keps/sig-apps/3939-allow-replacement-when-fully-terminated>

use crate::controllers::incident::Incident;
use crate::judge::appliers::{self, applied_again};
use crate::judge::annotations;
use crate::judge::engine::{KEEP, Origin};
use crate::judge::finding::{Finding, Level, Place, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Fills, Flag, Kinds, Needs, Rule};
use crate::judge::sigterm;
use crate::kinds::{Api, Choice, Field, OnUpdate, Part, text_in};
use crate::text::patch::Op;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods replaced before they have terminated".into(),
        summary: "Pods are replaced once they have terminated: `podReplacementPolicy` is `Failed`".into(),
        kinds: Kinds::JobSpecs,
        default: Action::Fill,
        fills: Fills::JobSpec(FIELD),
        params: &[ONLY_WHERE_HARMFUL.0],
        export: Exportable::No(
            "the API server has set the field by then, so that an author's choice cannot be told from its default",
        ),
        restore: Some(restore),
        needs: Needs::MANAGERS,
        ..Rule::new("pod-replacement-policy", check)
    }
}

const FIELD: &str = "podReplacementPolicy";
const HELP: &str = "write `podReplacementPolicy: Failed`; \
                    a pod that checkpoints on SIGTERM must then exit with a status other than 0";

/// The help for a pod that is known to end with 0 on SIGTERM.
const ENDS_WITH_ZERO: &str = "exit with another status on SIGTERM, e.g. 143, then write `podReplacementPolicy: \
                              Failed`; as it is, a pod that is deleted would count as succeeded, and the Job \
                              could be complete half done";

const ONLY_WHERE_HARMFUL: Flag = Flag::off(
    "onlyWhereTwoPodsHarm",
    "Whether only Jobs are looked at in which two pods at once do harm: Indexed ones, and those with whole \
     accelerators or a claim that they write to.",
);

/// What happens without the field.
const OVERLAPS: &str = "so a replacement starts while the old pod is still terminating";
/// What happens instead where the first failed pod is not replaced.
const FAILS: &str =
    "so a pod that is deleted counts as failed before it has terminated, even if it then succeeds (no \
     replacement starts: `backoffLimit` is 0)";
/// The same of an Indexed Job with a limit for each index.
const FAILS_INDEX: &str =
    "so a pod that is deleted counts as failed before it has terminated, even if it then succeeds (no \
     replacement starts: `backoffLimitPerIndex` is 0)";

fn check(cx: &mut Cx<'_>) {
    // An apply sends a list around the Job as a whole, without what was filled in.
    let in_list = cx.workload.kind.pods.iter().any(|pods| pods.is_job() && pods.is_in_list());
    let from_file =
        || cx.request.origin == Origin::File && cx.workload.object.at(&["metadata", "name"]).is_set();
    let is_lost = in_list && (from_file() || applied_again(cx.workload).is_some());
    let in_place = cx.workload.kind.replaces_in_place;
    let in_place = in_place.filter(|choice| choice.of(&cx.workload.object).is_some());
    for (run, each) in cx.workload.runs.iter().enumerate() {
        if let Some(spec) = &each.job_spec {
            check_run(cx, (run, spec), is_lost, in_place);
        }
    }
}

/// Tells whether two pods of a run at once do harm: they are numbered, hold whole accelerators, or write to a
/// claim. Whether the claim is for one node is not checked, so that fills are the same where claims are unknown.
fn does_harm(cx: &Cx<'_>, run: usize, spec: &Part<'_>) -> bool {
    let is_numbered = spec.get("completionMode").text() == Field::Set("Indexed");
    is_numbered
        || cx
            .workload
            .pods_of(run)
            .iter()
            .any(|pod| pod.holds_accelerators() || pod.claims().any(|claim| !claim.read_only))
}

fn check_run(cx: &mut Cx<'_>, (run, spec): (usize, &Part<'_>), is_lost: bool, in_place: Option<Choice>) {
    // The API server then sets `Failed`, but the operator checks before that.
    if spec.get("podFailurePolicy").is_set() && in_place.is_none() {
        return;
    }
    let needed = in_place.map(|choice| {
        format!("the operator refuses `{}` unless `podReplacementPolicy` is `Failed`", choice.word)
    });
    if cx.flag(&ONLY_WHERE_HARMFUL) && needed.is_none() && !does_harm(cx, run, spec) {
        return report_not_replaced(cx, run, spec);
    }
    let field = spec.get(FIELD);
    let is_over = !replaces_pods(spec);
    let harm = match is_over {
        true if spec.get("backoffLimit").int() == Field::Set(0) => FAILS,
        true => FAILS_INDEX,
        false => OVERLAPS,
    };
    match field.text() {
        Field::Unset => {
            let Some(fix) = spec.set(FIELD, "Failed".into()) else { return };
            // No server of a retired version has the field.
            let retired = match cx.workload.object.get("apiVersion").text() {
                Field::Set(version) => cx.workload.kind.retired(version).map(|_| version),
                _ => None,
            };
            let is_needed = needed.is_some();
            let message = needed.unwrap_or_else(|| format!("`podReplacementPolicy` is not set, {harm}"));
            let succeeds = if retired.is_none() { succeeds_on_term(cx, run) } else { None };
            let message = with_reason(message, succeeds.is_some());
            if let Some(finding) = cx.missing(&field.pointer, message) {
                match retired {
                    Some(version) => {
                        finding.instead_of_fill(Level::Note).help(format!(
                            "write `apiVersion: batch/v1` first: no server of `{version}` has the field"
                        ));
                    }
                    None => {
                        finding.help(HELP).fix(Safety::Safe, vec![fix]);
                        if is_lost {
                            let is_minor = is_over && !is_needed;
                            finding.instead_of_fill(if is_minor { Level::Note } else { Level::Warn });
                        }
                        if let Some(place) = succeeds {
                            keep_from_filling(finding, place);
                        }
                    }
                }
            }
        }
        // In a file or a CronJob's template, a value is a choice: the API server sets its default in Jobs
        // only.
        Field::Set("TerminatingOrFailed")
            if cx.workload.kind.api == Api::Job
                && cx.request.origin == Origin::Admission
                && !is_chosen(&cx.workload.object) =>
        {
            let message = format!("`podReplacementPolicy` is the API server's default, {harm}");
            let succeeds = succeeds_on_term(cx, run);
            let message = with_reason(message, succeeds.is_some());
            let fix = Op::Replace(field.pointer.clone(), "Failed".into());
            let finding = cx.report(&field.pointer, message).help(HELP).fix(Safety::Safe, vec![fix]);
            if let Some(place) = succeeds {
                keep_from_filling(finding, place);
            }
        }
        Field::Set("TerminatingOrFailed") => {
            if let Some(message) = needed {
                let fix = Op::Replace(field.pointer.clone(), "Failed".into());
                let finding = cx.report(&field.pointer, message).instead_of_fill(Level::Warn);
                finding.help(HELP).fix(Safety::Unsafe, vec![fix]);
            }
        }
        // Whether that completes the Job half done is a question for `exit-status-on-sigterm`.
        Field::Set(_) | Field::Placeholder(_) | Field::Wrong => {}
    }
}

/// Reports a Job with `Failed` in which two pods at once would do no harm, so that nothing is filled in: the pod of a lost node
/// is never replaced.
fn report_not_replaced(cx: &mut Cx<'_>, run: usize, spec: &Part<'_>) {
    const LOST: Incident = Incident::NodeLost;
    let field = spec.get(FIELD);
    if field.text() != Field::Set("Failed") || !replaces_pods(spec) {
        return;
    }
    let pod = cx.workload.pods.partition_point(|pod| pod.run < run);
    let fix = Op::Replace(field.pointer.clone(), "TerminatingOrFailed".into());
    let is_done = |forecast: Option<Forecast>| {
        forecast.map(|forecast| forecast.outcome.reason.as_deref() == Some("CompletionsReached"))
    };
    let now = is_done(cx.forecast(pod, LOST));
    if now != Some(false) || is_done(cx.forecast_after(pod, LOST, std::slice::from_ref(&fix))) != Some(true) {
        return;
    }
    let message = "`podReplacementPolicy` is `Failed`, so the pod of a node that stops answering is never replaced";
    let finding = cx.report(&field.pointer, message).instead_of_fill(Level::Note).at_most(Level::Note);
    finding.help("write `TerminatingOrFailed`: its pods share nothing, and two of them at once do no harm");
    finding.about(LOST).fix(Safety::Unsafe, vec![fix]);
}

/// Returns the place in a container that ends it with 0 on SIGTERM, so that its pod counts as succeeded.
fn succeeds_on_term(cx: &Cx<'_>, run: usize) -> Option<Place> {
    let first = cx.workload.pods.partition_point(|pod| pod.run < run);
    let pods = first..first + cx.workload.pods_of(run).len();
    pods.filter(|index| sigterm::may_be_handled(&cx.workload.pods[*index])).find_map(|index| {
        let (line, token) = sigterm::ends_with_zero(&cx.commands(index).containers)?;
        Some(Place::Here(line.place(token), line.part(token)))
    })
}

/// Returns the message of a Job that is not filled because a container ends with 0 on SIGTERM. The reason comes
/// first: a warning of the webhook is cut short.
fn with_reason(message: String, succeeds: bool) -> String {
    if succeeds {
        format!("a container exits 0 on SIGTERM: with `Failed` a deleted pod succeeds; {message}")
    } else {
        message
    }
}

/// Leaves a fix that could complete a Job half done to the author.
fn keep_from_filling(finding: &mut Finding, place: Place) {
    finding.instead_of_fill(Level::Warn).help(ENDS_WITH_ZERO);
    finding.label(place, "on SIGTERM, this ends the container with 0");
    if let Some(fix) = &mut finding.fix {
        fix.safety = Safety::Unsafe;
    }
}

/// Tells whether a pod that is deleted is replaced: not where a limit is zero, of the Job or of each index.
fn replaces_pods(spec: &Part<'_>) -> bool {
    ["backoffLimit", "backoffLimitPerIndex"].iter().all(|limit| spec.get(limit).int() != Field::Set(0))
}

/// Returns the operations that restore the field where an apply of the list around a Job removes it, and
/// nothing else that is the Job's: the operator would reject that.
fn restore(cx: &Cx<'_>) -> Vec<Op> {
    if let Some(op) = defaulted_again(cx) {
        return vec![op];
    }
    let in_list = cx.workload.kind.pods.iter().any(|pods| pods.is_job() && pods.is_in_list());
    let Some(old) = cx.request.old.filter(|_| in_list) else { return Vec::new() };
    if cx.workload.kind.on_update != OnUpdate::TemplateImmutable {
        return Vec::new();
    }
    let lost = |spec: &Part<'_>| {
        let (before, after) = (spec.pointer.find(old)?.as_object()?, spec.value?.as_object()?);
        // Tolerations in the template are restored by their own rule.
        let same = before
            .iter()
            .all(|(key, value)| [FIELD, "template"].contains(&key) || after.get(key) == Some(value));
        let is_lost = before.get(FIELD)?.as_str() == Some("Failed") && !after.contains_key(FIELD);
        if same && is_lost { spec.set(FIELD, "Failed".into()) } else { None }
    };
    cx.workload.runs.iter().filter_map(|run| lost(run.job_spec.as_ref()?)).collect()
}

/// Returns the operation that restores the field of a Job where a server-side apply removes it, so that the API
/// server writes its default again.
///
/// kubectl's first server-side apply of an object hands all that `kubectl apply` wrote to the new owner, the
/// API server's default of this field among it, and its manifest does not have that. Whoever sets the field by an
/// edit or a patch owns it then.
fn defaulted_again(cx: &Cx<'_>) -> Option<Op> {
    let (workload, old) = (cx.workload, cx.request.old?);
    if workload.kind.api != Api::Job || cx.settings.action != Action::Fill {
        return None;
    }
    let field = workload.runs.first()?.job_spec.as_ref()?.get(FIELD);
    let was_filled = field.pointer.find(old).and_then(Value::as_str) == Some("Failed");
    let is_kept = || annotations::annotation_names(workload.annotation(KEEP)).any(|name| name == &*cx.rule.id);
    let is_lost = field.text() == Field::Set("TerminatingOrFailed") && was_filled;
    (is_lost && appliers::is_left_out(workload, &field.pointer) && !is_chosen(&workload.object) && !is_kept())
        .then(|| Op::Replace(field.pointer, "Failed".into()))
}

/// Tells whether the author of a Job chose its `podReplacementPolicy`
/// (docs/internals/kubernetes.md#what-the-author-set). `Update` entries of managedFields own defaults too, so
/// they do not count. A requester can forge both marks, but only for their own Job.
fn is_chosen(object: &Part<'_>) -> bool {
    let metadata = object.get("metadata");
    let applied = appliers::managed_fields(object).any(|entry| {
        text_in(entry, "operation") == Field::Set("Apply")
            && entry.pointer("/fieldsV1/f:spec/f:podReplacementPolicy").is_some()
    });
    applied
        || metadata
            .get("annotations")
            .get("kubectl.kubernetes.io/last-applied-configuration")
            .value
            .and_then(Value::as_str)
            .is_some_and(sets_it)
}

/// Tells whether a last-applied manifest sets the field.
fn sets_it(manifest: &str) -> bool {
    // The manifest may be as large as the object, and most do not name the field anywhere.
    if !manifest.contains(FIELD) {
        return false;
    }
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    manifest.pointer("/spec/podReplacementPolicy").is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{self, Operation, Origin, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::text::value::json;

    /// Returns what an update of a running Job restores.
    fn restored(policy: &Policy, metadata: &Value, value: &str) -> Vec<Op> {
        let job = |metadata: &Value, value: &str| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
                "spec": {"podReplacementPolicy": value, "template": {"spec": {"containers": []}}},
            })
        };
        let (old, new) = (job(&json!({}), "Failed"), job(metadata, value));
        let request = Request {
            operation: Operation::Update,
            origin: Origin::Admission,
            old: Some(&old),
            ..Request::from_file(&new, None)
        };
        engine::evaluate(policy, &NoFacts, &request).restore
    }

    fn managed(entries: &[(&str, &str, Value)]) -> Value {
        let entry = |(manager, operation, spec): &(&str, &str, Value)| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": spec}});
        json!({"managedFields": entries.iter().map(entry).collect::<Vec<_>>()})
    }

    #[test]
    fn a_server_side_apply_that_leaves_the_field_out_does_not_take_it_back() {
        let policy = Policy::default();
        let left_out = || ("kubectl", "Apply", json!({"f:template": {}}));
        let migrated = managed(&[left_out(), ("kube-controller-manager", "Update", json!({}))]);
        let again = restored(&policy, &migrated, "TerminatingOrFailed");
        assert_eq!(
            again,
            [Op::Replace(crate::text::pointer::Pointer::new(&["spec", FIELD]), "Failed".into())]
        );
        assert_eq!(restored(&policy, &migrated, "Failed"), []);

        let owns = json!({"f:podReplacementPolicy": {}});
        for (what, metadata) in [
            ("the author applies it", managed(&[("kubectl", "Apply", owns.clone())])),
            ("somebody edits it", managed(&[left_out(), ("kubectl-edit", "Update", owns.clone())])),
            ("nobody applies it", managed(&[("kubectl-patch", "Update", owns)])),
            ("nothing is known", json!({})),
        ] {
            assert_eq!(restored(&policy, &metadata, "TerminatingOrFailed"), [], "{what}");
        }
        let mut kept = migrated.clone();
        kept["annotations"] = json!({KEEP: "pod-replacement-policy"});
        assert_eq!(restored(&policy, &kept, "TerminatingOrFailed"), []);
        let source = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: own}\n\
                      spec: {rules: {pod-replacement-policy: {action: warn}}}";
        let warns = Policy::parse(source, "own.yaml").expect("a policy");
        assert_eq!(restored(&warns, &migrated, "TerminatingOrFailed"), []);
    }
}
