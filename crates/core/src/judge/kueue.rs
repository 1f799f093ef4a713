//! The longest run that Kueue allows an object.

use crate::judge::finding::Level;
use crate::judge::params::Flag;
use crate::judge::rule::Cx;
use crate::kinds::{Field, Part, Run, Workload};
use crate::text::pointer::Pointer;

/// The parameter that lets the label count.
pub(super) const RUNS: Flag = Flag::off(
    "kueueMaxExecTime",
    "Whether Kueue runs, so that its label `kueue.x-k8s.io/max-exec-time-seconds` limits a queued run.",
);
/// Kueue suspends a workload that runs longer than the number of seconds in this label
/// (docs/internals/kubernetes.md#execution-time-in-kueue).
pub(super) const MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";
/// The label that puts an object in a queue of Kueue's.
pub(super) const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Kueue's label for the longest run, where the object has one.
pub(super) struct Kueue {
    pub(super) label: Pointer,
    /// The seconds, if they bound the run; otherwise the reason why not, to follow "the label".
    pub(super) seconds: Result<i64, &'static str>,
    /// Whether a placeholder hides the number.
    pub(super) hidden: bool,
}

impl Kueue {
    /// Returns the label of a run; `runs` is whether the cluster runs Kueue.
    pub(super) fn new(workload: &Workload<'_>, run: &Run<'_>, runs: bool) -> Option<Self> {
        // Kueue queues a wrapper, not what is inside.
        let wrapper = workload.inside.as_ref().map(|wrapper| wrapper.at(&["metadata", "labels"]));
        let labels = wrapper.unwrap_or_else(|| run.metadata.get("labels"));
        let label = labels.get(MAX_EXEC_TIME);
        if !label.is_set() {
            return Self::from_cron_job(&workload.object);
        }
        let is_queued = labels.get(QUEUE).text().set().is_some_and(|queue| !queue.is_empty());
        let hidden = matches!(label.text(), Field::Placeholder(_));
        let seconds = match label.text().set().and_then(|text| text.parse::<i32>().ok()) {
            _ if !runs => Err("counts only if the policy sets `kueueMaxExecTime`"),
            _ if !is_queued => Err("has no effect without a queue name"),
            // The value is unknown, so it is not denied.
            None if hidden => Ok(1),
            Some(seconds) if seconds > 0 => Ok(seconds.into()),
            _ => Err("is not a positive number of seconds"),
        };
        Some(Self { label: label.pointer, seconds, hidden })
    }

    /// Notes that the label, which alone limits a run, leaves a Job that has neither failed nor a time to be deleted
    /// (docs/internals/kubernetes.md#execution-time-in-kueue).
    pub(super) fn note_no_end(&self, cx: &mut Cx<'_>) {
        if self.hidden || !cx.workload.kind.is_built_in() {
            return;
        }
        let message =
            "when its time is over, Kueue suspends the Job: it does not fail, and no TTL deletes it";
        let finding = cx.report(&self.label, message);
        finding.at_most(Level::Note).help(
            "write `activeDeadlineSeconds` below it as well, which fails the Job; it starts anew with each admission",
        );
    }

    fn from_cron_job(object: &Part<'_>) -> Option<Self> {
        let own = object.at(&["metadata", "labels"]).get(MAX_EXEC_TIME);
        let seconds = Err(
            "is on the CronJob and not inherited by its Jobs: set it in `spec.jobTemplate.metadata.labels`",
        );
        own.is_set().then_some(Self { label: own.pointer, seconds, hidden: false })
    }
}
