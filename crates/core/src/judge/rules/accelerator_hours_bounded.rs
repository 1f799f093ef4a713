//! The accelerator hours of a job have a limit, and are known before it runs.
//!
//! ## Why
//!
//! A job that holds 64 GPUs costs 64 GPU hours an hour, whether it trains or hangs. Its deadline says how many
//! that are at most. Nobody multiplies pods, accelerators, seconds and restarts in their head, so the report
//! does, and a policy may set a limit.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 2592000
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   parallelism: 8
//!   completions: 8
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
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
//!   parallelism: 4
//!   completions: 4
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! ## Fix
//!
//! None: only the author knows how long a run may take. The rule `deadline` has one.
//!
//! ## Details
//!
//! The hours are pods × accelerators × deadline: an upper bound, as if all pods ran at once and to the end.
//! They are a note from 8 accelerators up, and nothing else unless the policy sets `maximum`. A job with more
//! hours, or without a limit, then gets a warning, or is denied if the rule's action is `deny`, however few
//! accelerators it holds. With `maximum: 0`, and below it, every action makes the same note. What lacks a
//! deadline is left to the rule `deadline`, which says what it may cost, unless there is a `maximum`.
//!
//! `kubectl scale` changes the number of workers of a PyTorchJob, JAXJob or PaddleJob through the subresource
//! `scale`, for which webhooks are not called: more hours than `maximum` can be had that way, and
//! `jobgate audit` finds them.
//!
//! Retries of a Job or PyTorchJob do not multiply the hours: the deadline is that of the whole job. A JobSet
//! starts again up to `failurePolicy.maxRestarts` times, a RayJob up to `backoffLimit`, and what is in an AppWrapper
//! up to three times (or its annotation `retryLimit`); a Volcano job runs `maxRetry` times. Each run has a new
//! clock, so these multiply. A JobSet with a rule that ignores `maxRestarts` has no limit. The hours of a
//! CronJob and of a ScaledJob are those of one run, or of all Jobs that may run at once; more runs cost more.
//!
//! The hours have no limit without a deadline, and where the deadline frees nothing: a job of `kubeflow.org`
//! without `cleanPodPolicy: Running`, or a RayJob without `shutdownAfterJobFinishes`, unless
//! `ttlSecondsAfterFinished` deletes the pods, whose seconds then count, too. In the kinds of
//! `kubeflow.org/v1` the number is a best effort: the training operator looks at the deadline only when
//! something happens to the job.
//! The deadline of a batch/v1 Job counts from when its controller first sees it, so it runs while pods wait for nodes, too. The
//! message says that where several pods run at once and nothing holds the Job back until all have room: a queue of
//! Kueue (`kueue.x-k8s.io/queue-name`), `suspend`, or the mark of a group of pods that are scheduled together.
//! What the webhook would fill in counts once it is written: in a file, `jobgate lint --fix` does that.
//!
//! A pod holds what its containers request together, or an init container if that is more. Slices of a GPU
//! (MIG), shared GPUs and Neuron cores are named as what they are, and each counts as one. Nothing is said
//! where a placeholder or a runtime hides a number, or where an autoscaler may add pods without a limit.
//!
//! Kueue's label `kueue.x-k8s.io/max-exec-time-seconds` is a limit only if the parameter `kueueMaxExecTime` is
//! true, as for the rule `deadline`.
//!
//! On UPDATE, a job that was above the maximum is denied only if its hours grow.
//!
//! `jobgate lint` and `jobgate audit` add up what the jobs of a namespace and team hold. The team is the first
//! of the labels in `teamLabels` that the object has.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
//! * <https://github.com/kubeflow/trainer/issues/3358>

use crate::judge::cost::{Cost, FIELD};
use crate::judge::finding::{Level, Part, Place};
use crate::judge::kueue;
use crate::judge::peers::is_group;
use crate::judge::policy::{Action, Effective};
use crate::judge::rule::{Cx, Exportable, Holding, Kinds, Measure, Number, Ratchet, Rule, Strings};
use crate::judge::rules::deadline::{LATE, instead};
use crate::kinds::accelerator::{TAINTS, requests};
use crate::kinds::{self, Deadline, PodTemplate, Run, Workload};
use crate::text::number::thousands;
use crate::text::placeholder::is_placeholder;
use crate::text::pointer::Pointer;

const MAXIMUM: Number = Number::new(
    "maximum",
    "The most accelerator hours of a job: above it the finding is a warning, or a denial if the action is \
     `deny`; 0 for no limit.",
    0,
    0,
);
const TEAMS: Strings = Strings::new(
    "teamLabels",
    "The labels that name an object's team, for the sums of `lint` and `audit`; the first that it has counts.",
    &["team", "app.kubernetes.io/part-of", kueue::QUEUE],
);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Many accelerator hours".into(),
        summary: "The accelerator hours of a job have a limit, and are known before it runs".into(),
        kinds: Kinds::WithRuns,
        default: Action::Note,
        params: &[kueue::RUNS.0, MAXIMUM.0, TEAMS.0],
        export: Exportable::No("CEL has no sum over containers and templates"),
        ratchet: Ratchet {
            labels: &[kueue::MAX_EXEC_TIME, kueue::QUEUE],
            measure: Some(Measure { of: hours, cel: "" }),
        },
        holding: Some(holding),
        warns_by: Some(MAXIMUM),
        ..Rule::new("accelerator-hours-bounded", check)
    }
}

/// Returns what a job holds, and the team that the first of the policy's labels names.
fn holding<'a>(workload: &Workload<'a>, settings: &Effective) -> Option<Holding<'a>> {
    // Most objects hold nothing, and need no settings.
    let cost = Cost::from_workload(workload, false)?;
    let kueue = settings.flag(&kueue::RUNS);
    let cost = if kueue { Cost::from_workload(workload, true).unwrap_or(cost) } else { cost };
    let named = |key: &str| {
        let mut values = workload.labels().filter_map(|labels| labels.value?.get(key)?.as_str());
        values.find(|value| !value.is_empty() && !is_placeholder(value))
    };
    Some(Holding { cost, team: settings.strings(&TEAMS).find_map(named) })
}

/// The minimum number of accelerators that makes a job worth a note.
const MANY: i64 = 8;

/// Returns the hours of a workload; the maximum value if they have no limit.
fn hours(workload: &Workload<'_>) -> i64 {
    let hours = |cost: Cost| cost.hours().and_then(|hours| i64::try_from(hours).ok()).unwrap_or(i64::MAX);
    Cost::from_workload(workload, false).map_or(0, hours)
}

fn check(cx: &mut Cx<'_>) {
    // The fields that a partial object lacks are elsewhere.
    if cx.partial {
        return;
    }
    let Some(cost) = Cost::from_workload(cx.workload, cx.flag(&kueue::RUNS)) else { return };
    let hours = cost.hours();
    let most = u64::try_from(cx.number(&MAXIMUM)).ok().filter(|most| *most > 0);
    // A denial needs known values.
    let above = most.filter(|most| !cost.is_open() && hours.is_none_or(|hours| hours > *most));
    if hours == Some(0) || above.is_none() && (cost.held.total() < MANY || lacks_deadline(cx.workload, &cost))
    {
        return;
    }
    let late = if cost.ends() && cx.workload.kind.deadline_is_late {
        format!(" (best effort: {LATE})")
    } else if cost.ends() && waits_for_nodes(cx.workload) {
        " (the deadline runs while pods wait for nodes, too)".to_owned()
    } else {
        String::new()
    };
    let over = above.map(|most| {
        let most = thousands(usize::try_from(most).unwrap_or(usize::MAX));
        match hours {
            Some(_) => format!(", above the policy's maximum of {most}"),
            None if cost.ends() => format!("; attempts have no limit, and the policy's maximum is {most}"),
            None => format!("; the policy's maximum is {most} hours"),
        }
    });
    let message = format!("the job may hold {cost}{}{late}", over.unwrap_or_default());
    let (help, request) = (help(cx.workload, &cost), request(cx.workload));
    let found = match deadline(cx.workload) {
        Some(deadline) if deadline.is_set() => Some(cx.report(&deadline.pointer, message)),
        Some(deadline) => cx.missing(&deadline.pointer, message),
        None => Some(cx.report(&cx.workload.object.at(cx.workload.kind.body).pointer, message).at_key()),
    };
    let Some(finding) = found else { return };
    match above {
        Some(_) => finding.at_least(Level::Warn),
        None => finding.at_most(Level::Note),
    };
    finding.help(help).costs(cost.loss());
    if let Some(request) = request {
        finding.label(Place::Here(request, Part::Value), "what a pod requests");
    }
}

/// Tells whether several pods of a batch/v1 Job wait for nodes while its deadline runs: nothing holds the Job back until there is
/// room for all (docs/internals/kubernetes.md#deadlines-and-ttl).
fn waits_for_nodes(workload: &Workload<'_>) -> bool {
    let is_queued = |metadata: &kinds::Part<'_>| metadata.get("labels").get(kueue::QUEUE).is_set();
    let is_held = workload.inside.is_some()
        || is_queued(&workload.object.get("metadata"))
        || workload.runs.iter().any(|run| is_queued(&run.metadata));
    let waits = |pod: &PodTemplate<'_>| {
        pod.form.is_job()
            && pod.count.most.is_some_and(|most| most > 1)
            && pod.around.get(FIELD).is_set()
            && !pod.around.get("suspend").is_set()
            && !is_group(pod)
    };
    !is_held && workload.pods.iter().any(waits)
}

/// Tells whether there is no limit because a deadline is missing: the rule `deadline` reports that, with the
/// cost.
fn lacks_deadline(workload: &Workload<'_>, cost: &Cost) -> bool {
    !cost.ends() && deadline(workload).is_none_or(|field| !field.is_set())
}

/// Returns the deadline of the whole, if the kind has one.
fn deadline<'a>(workload: &Workload<'a>) -> Option<kinds::Part<'a>> {
    let has_one = matches!(workload.kind.deadline, Deadline::Ends | Deadline::Marks);
    workload.runs.first().filter(|_| has_one).map(Run::deadline)
}

/// Returns what to do about the hours.
fn help(workload: &Workload<'_>, cost: &Cost) -> String {
    let Some(field) = deadline(workload) else {
        return match workload.kind.deadline {
            _ if cost.ends() => format!("a shorter `{FIELD}`, or fewer restarts, lower it"),
            Deadline::Missing => instead(workload.kind),
            _ => format!("set `{FIELD}` in each Job whose pods hold accelerators"),
        };
    };
    match workload.kind.release {
        _ if cost.ends() => format!("a shorter `{}` lowers it", field.pointer),
        Some(release) if field.is_set() => {
            let value = release.value();
            let value = value.as_str().unwrap_or("true").to_owned();
            let place = release.place(&workload.object, &workload.limits).pointer;
            format!("write `{value}` in `{place}`: without it the deadline frees nothing")
        }
        _ => format!("set `{}` to the longest time a run may take, in seconds", field.pointer),
    }
}

/// Returns the first request for an accelerator.
fn request(workload: &Workload<'_>) -> Option<Pointer> {
    if let Some(reference) = workload.kind.runs_in {
        return Some(workload.object.at(reference.resources).pointer);
    }
    let holder = workload.pods.iter().find(|pod| pod.count.most != Some(0) && pod.holds_accelerators())?;
    requests(holder, TAINTS).next().map(|request| request.place(holder))
}

#[cfg(test)]
mod tests {
    use crate::judge::engine::{self, Operation, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::finding::Level;
    use crate::judge::policy::Policy;
    use crate::text::value::{Value, json};

    fn job(pods: i64, deadline: Value, labels: &Value) -> Value {
        let container = json!({"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "labels": labels}, "spec": {
            "parallelism": pods, "activeDeadlineSeconds": deadline, "template": {"spec": {"containers": [container]}}}})
    }

    fn updated(old: &Value, object: &Value) -> Option<Level> {
        let source = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: limited}\nspec: {rules: {accelerator-hours-bounded: {action: deny, params: {maximum: 100, kueueMaxExecTime: true}}}}\n";
        let policy = Policy::parse(source, "limited").unwrap().with_only(|id| id == "accelerator-hours-bounded");
        let request =
            Request { operation: Operation::Update, old: Some(old), ..Request::from_file(object, None) };
        engine::evaluate(&policy, &NoFacts, &request).level()
    }

    #[test]
    fn an_update_is_denied_only_if_the_hours_grow() {
        let none = Value::Null;
        let (small, large) = (job(1, 3600.into(), &none), job(8, 86_400.into(), &none));
        assert_eq!(updated(&small, &large), Some(Level::Deny));
        assert_eq!(updated(&large, &large), Some(Level::Warn));
        assert_eq!(updated(&large, &job(4, 86_400.into(), &none)), Some(Level::Warn), "it shrinks");
        assert_eq!(updated(&large, &job(9, 86_400.into(), &none)), Some(Level::Deny), "more pods");
        assert_eq!(updated(&large, &job(8, none.clone(), &none)), Some(Level::Deny), "no limit any more");
        let queued = json!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/max-exec-time-seconds": "60"});
        let bound = job(8, none.clone(), &queued);
        assert_eq!(updated(&bound, &bound), Some(Level::Note));
        assert_eq!(updated(&bound, &job(8, none.clone(), &none)), Some(Level::Deny), "the label has gone");
    }

    #[test]
    fn many_templates_rules_and_resources_take_time_in_proportion_to_them() {
        let source = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: limited}\nspec: {rules: {deadline: {action: deny, params: {maximum: 1}}}}\n";
        let policy = Policy::parse(source, "limited").unwrap();
        let policy = policy.with_only(|id| ["deadline", "accelerator-hours-bounded"].contains(&id));
        let steps = |templates: usize, resources: usize| {
            let limits: Value = (0..resources)
                .map(|nth| (format!("nvidia.com/mig-{nth}"), Value::from(1)))
                .collect::<crate::text::value::Map>()
                .into();
            let container = json!({"name": "a", "image": "i", "resources": {"limits": limits}});
            let job = json!({"template": {"spec": {"activeDeadlineSeconds": 60, "template": {"spec": {"containers": [container]}}}}});
            let rules = vec![json!({"action": "FailJobSet"}); templates];
            let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {
                "failurePolicy": {"rules": rules}, "replicatedJobs": vec![job; templates]}});
            let judge = || engine::evaluate(&policy, &NoFacts, &Request::from_file(&set, None)).findings.len();
            crate::text::meter::run(crate::text::meter::Bounds::default(), judge).expect("no bounds").1
        };
        assert!(steps(400, 10) < 5 * steps(100, 10) && steps(10, 400) < 5 * steps(10, 100));
    }
}
