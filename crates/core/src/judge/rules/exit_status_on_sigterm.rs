//! A container does not end with 0 on SIGTERM: what is only half done does not count as done.
//!
//! ## Why
//!
//! A script that gets SIGTERM, saves a checkpoint and exits with 0 has succeeded: nobody starts it again, and the Job is
//! complete with half of its work. That is one drained node, or one spot node that is taken back. Nothing fails, nothing
//! is retried, and the next step takes a model that is not trained.
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
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [bash, -c, "trap 'python save.py; exit 0' TERM; python train.py & wait"]
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
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [bash, -c, "trap 'python save.py; exit 143' TERM; python train.py & wait"]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `exit 143` instead of `exit 0` into the action of a `trap` that is for signals alone. 143 is what
//! shells and container runtimes report for SIGTERM. The pod then fails, and the Job replaces it: a
//! `podFailurePolicy` that ignores the condition `DisruptionTarget` keeps that from counting as a retry. There is no
//! fix where a function or the end of the script has the status, since both may be reached without a signal.
//!
//! ## Details
//!
//! A script is read as for `pod-replacement-policy`: a shell waits for its program
//! (`train & wait`), and its `trap` exits with 0 or lets the script go on to its end. What a program makes of the
//! signal itself is not known, and nothing is said of it.
//!
//! What comes of it is what `jobgate simulate --what drain` says:
//!
//! * **Job, CronJob, JobSet.** With `podReplacementPolicy: Failed`, or a `podFailurePolicy`, a pod that is deleted
//!   counts when it has ended, so 0 is a success. Code 0 is no failure, so no rule of the `podFailurePolicy` sees it.
//!   Where it is not known whether the pods need one another, the finding says only that.
//! * By default (`TerminatingOrFailed`) a pod that is deleted has failed and is replaced at once, whatever it ends
//!   with, and nothing is reported. What `Failed` would do is in the finding of `pod-replacement-policy`.
//! * **PyTorchJob and other kinds.** A master that ends SIGTERM with 0 has succeeded if the training operator looks before
//!   the pod is gone, and the job with it: its workers run on, or are deleted. A worker beside a master is made again.
//!
//! A pod that the kubelet ends because the node shuts down or lacks memory is not deleted first: with status 0 it has
//! succeeded whatever the policy is (Kubernetes 1.27 and later).
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy>
//! * <https://github.com/kubernetes/kubernetes/issues/90636>

use crate::controllers::incident::Incident;
use crate::controllers::story::Ending;
use crate::judge::commands::{CommandLine, Token};
use crate::judge::finding::{Part as FindingPart, Place, Safety};
use crate::judge::forecast::Forecast;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::sigterm;
use crate::kinds::{Field, Part};
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Half-done work counted as done".into(),
        summary: "A container does not end with 0 on SIGTERM: what is only half done does not count as done"
            .into(),
        kinds: Kinds::WithRestart,
        default: Action::Warn,
        incident: Some(Incident::Drain),
        export: Exportable::No("it reads scripts"),
        ..Rule::new("exit-status-on-sigterm", check)
    }
}

/// The status that shells report for a program that SIGTERM ends.
const TERMINATED: i64 = 143;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate() {
        if !sigterm::may_be_handled(pod) {
            continue;
        }
        let Some((line, token)) = sigterm::ends_with_zero(&cx.commands(index).containers) else { continue };
        let is_job = pod.form.is_job();
        let run = if is_job { "Job" } else { "job" };
        let forecast = if is_job {
            cx.forecast(index, Incident::Drain)
        } else {
            cx.forecast_object(index, Incident::Drain, Some(0))
        };
        let counts = is_job.then(|| counts_at_its_end(&pod.around)).flatten();
        let then = match &forecast {
            Some(forecast) if forecast.outcome.ending == Ending::CompletesHalfDone => {
                format!("counts as succeeded, and the {run} is complete half done")
            }
            // Its index, or one of its completions, is taken for done.
            None if counts.is_some() => "counts as succeeded, and is not started again".to_owned(),
            // With 0 it depends on when the operator looks.
            None if !is_job && cx.forecast_object(index, Incident::Drain, Some(TERMINATED)).is_some() => {
                format!("may count as succeeded, and the {run} as complete half done")
            }
            _ => continue,
        };
        let ops = fixed(line, token).map(|op| vec![op]);
        let ops = ops.filter(|ops| helps(cx, index, forecast.as_ref(), ops));
        let message = format!("the container ends with 0 on SIGTERM: a pod that is drained {then}");
        let finding = cx.report(&line.place(token), message).at(line.part(token));
        finding.help(format!("end with another status on SIGTERM, e.g. `exit {TERMINATED}`"));
        finding.costs(forecast.map(|forecast| forecast.loss()));
        if let Some(field) = counts {
            finding.label(
                Place::Here(field.pointer, FindingPart::Key),
                "with it, a pod that is deleted counts by its exit status",
            );
        }
        if let Some(ops) = ops {
            finding.fix(Safety::Unsafe, ops);
        }
    }
}

/// Returns the field with which a Job counts a pod that is deleted when it has ended.
fn counts_at_its_end<'a>(spec: &Part<'a>) -> Option<Part<'a>> {
    let (policy, replacement) = (spec.get("podFailurePolicy"), spec.get("podReplacementPolicy"));
    if policy.is_set() {
        return Some(policy);
    }
    Some(replacement).filter(|replacement| replacement.text() == Field::Set("Failed"))
}

/// Tells whether a change lets the work be done, as far as that is known.
fn helps(cx: &Cx<'_>, index: usize, before: Option<&Forecast>, ops: &[Op]) -> bool {
    let is_job = cx.workload.pods[index].form.is_job();
    let after = || match is_job {
        true => cx.forecast_after(index, Incident::Drain, ops),
        false => cx.forecast_object_after(index, Incident::Drain, Some(TERMINATED), ops),
    };
    before.is_none() || after().is_some_and(|after| after.outcome.ending != Ending::CompletesHalfDone)
}

/// Returns the operation that lets a `trap` for signals exit with another status; nothing if it may also run without a
/// signal, or if the status is elsewhere.
fn fixed(line: &CommandLine<'_>, action: &Token) -> Option<Op> {
    let is_it = |word: &Token| std::ptr::eq(word, action);
    let trap = line.commands.iter().find(|command| command.words.iter().skip(1).any(is_it))?;
    let signals = trap.words.iter().skip_while(|word| !is_it(word)).skip(1);
    if trap.program != "trap" || signals.clone().any(|signal| signal.known().is_none_or(sigterm::is_exit)) {
        return None;
    }
    let item = line.argv.get(action.item).filter(|item| item.is_verbatim())?;
    let (span, script) = (&action.word.span, item.written);
    let text = script.get(span.clone())?;
    let (before, behind) = text.split_once("exit 0")?;
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-$".contains(char);
    if before.ends_with(is_part)
        || behind.starts_with(is_part)
        || behind.contains("exit")
        || before.contains("exit")
    {
        return None;
    }
    let (outer, rest) = (&script[..span.start], &script[span.end..]);
    Some(Op::Replace(item.pointer(), format!("{outer}{before}exit {TERMINATED}{behind}{rest}").into()))
}
