//! The queue of an object is a label: Kueue does not read the annotation `kueue.x-k8s.io/queue-name`.
//!
//! ## Why
//!
//! Since release 0.15, Kueue reads the name of a queue only from the label `kueue.x-k8s.io/queue-name`. A job
//! that has it as an annotation is in no queue: it starts at once, outside of all quotas, and takes the GPUs
//! that others wait for; or, if it is suspended, it never starts.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata:
//!   name: train
//!   annotations: {kueue.x-k8s.io/queue-name: gpu}
//! spec:
//!   suspend: true
//!   activeDeadlineSeconds: 86400
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
//! metadata:
//!   name: train
//!   labels: {kueue.x-k8s.io/queue-name: gpu}
//! spec:
//!   suspend: true
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers: [{name: trainer, image: "registry.example.com/trainer:v1"}]
//! ```
//!
//! ## Fix
//!
//! Safe: moves the annotation to the labels. Kueue up to release 0.14 reads both, so nothing changes there.
//!
//! ## Details
//!
//! Only kinds that Kueue manages. Of a CronJob, the metadata of `spec.jobTemplate` counts: its Jobs are
//! queued, not the CronJob. Of what is inside an AppWrapper, the metadata of the AppWrapper counts.
//!
//! Nothing is reported where the label is set as well, to any name. Nothing is moved where the value
//! cannot be that of a label. Ignore the rule where Kueue is older than 0.15.
//!
//! ## References
//!
//! * <https://kueue.sigs.k8s.io/docs/tasks/run/jobs/>
//! * <https://github.com/kubernetes-sigs/kueue/pull/7271>

use crate::judge::finding::Safety;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Ratchet, Rule};
use crate::k8s::names::label_value;
use crate::kinds::{Field, Kind, Part};
use crate::text::patch::Op;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Queue name in an annotation".into(),
        summary: "The queue of an object is a label: Kueue does not read the annotation".into(),
        kinds: Kinds::Queued,
        default: Action::Warn,
        export: Exportable::No(
            "it reads the metadata of an object, and of one around it, which the export does not",
        ),
        ratchet: Ratchet { labels: &[QUEUE], measure: None },
        ..Rule::new("queue-name-is-a-label", check)
    }
}

const QUEUE: &str = "kueue.x-k8s.io/queue-name";

fn check(cx: &mut Cx<'_>) {
    // Kueue queues a wrapper, not what is inside.
    let queued = match &cx.workload.inside {
        None => cx.workload.object.at(cx.workload.kind.run_metadata),
        Some(wrapper) => match wrapper.value.and_then(Kind::from_object).filter(|kind| kind.queued_by_kueue) {
            Some(kind) => wrapper.at(kind.run_metadata),
            None => return,
        },
    };
    let (labels, annotations) = (queued.get("labels"), queued.get("annotations"));
    let annotation = annotations.get(QUEUE);
    let name = match annotation.text() {
        Field::Set("") | Field::Unset | Field::Wrong => return,
        Field::Set(name) => Some(name),
        Field::Placeholder(_) => None,
    };
    // An empty name is none.
    if !matches!(labels.get(QUEUE).text(), Field::Unset | Field::Set("")) {
        return;
    }
    let ops = name.and_then(|name| moved(&labels, &annotations, name));
    let message =
        format!("`{QUEUE}` is an annotation, which Kueue does not read since 0.15: no queue has it");
    let finding = cx.report(&annotation.pointer, message);
    finding.at_key().help("write it in `labels`");
    if let Some(ops) = ops {
        finding.fix(Safety::Safe, ops);
    }
}

/// Returns the operations that move the annotation to the labels.
fn moved(labels: &Part<'_>, annotations: &Part<'_>, name: &str) -> Option<Vec<Op>> {
    if !label_value(name).is_empty() {
        return None;
    }
    let add = labels.set(QUEUE, name.into())?;
    Some(vec![add, annotations.removal(QUEUE)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::finding::Level;
    use crate::judge::ratchet::level_after_update;
    use crate::text::value::{Value, json};

    #[test]
    fn a_job_cannot_leave_its_queue_by_its_label() {
        let job = |labels: Value| {
            let metadata = json!({"name": "train", "labels": labels, "annotations": {QUEUE: "gpu"}});
            let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}})
        };
        let (queued, bare) = (job(json!({QUEUE: "gpu"})), job(json!({"team": "a"})));
        let after = |old, new| level_after_update("queue-name-is-a-label", old, new);
        assert_eq!(after(&queued, &bare), Some(Level::Deny));
        assert_eq!(after(&bare, &bare), Some(Level::Warn), "it was so before");
        assert_eq!(after(&bare, &queued), None);
    }
}
