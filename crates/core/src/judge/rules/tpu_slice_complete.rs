//! The pods of a Job fill their TPU slice: together they request all chips of its topology.
//!
//! ## Why
//!
//! The hosts of a TPU slice on GKE work only together. If a Job has fewer pods than the slice has hosts, they
//! start, wait for the others at the first step, and hold their TPUs while they do; if it has more, the rest
//! wait on another slice.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   completionMode: Indexed
//!   completions: 2
//!   parallelism: 2
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector:
//!         cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
//!         cloud.google.com/gke-tpu-topology: 4x4
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {google.com/tpu: 4}}
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
//!   completionMode: Indexed
//!   completions: 4
//!   parallelism: 4
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       nodeSelector:
//!         cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
//!         cloud.google.com/gke-tpu-topology: 4x4
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {google.com/tpu: 4}}
//! ```
//!
//! ## Fix
//!
//! None: the number of pods, the chips of each and the topology can each be the one that is wrong.
//!
//! ## Details
//!
//! Jobs, CronJobs and each Job of a JobSet. The chips of a topology are the product of its numbers, so `4x4`
//! has 16 and `2x2x4` too. The pods are those that run at once: `parallelism`, but not more than
//! `completions`. All containers of a pod are counted.
//!
//! Pods that fill several slices are fine: eight pods that each request the four chips of a `2x2` run on
//! eight slices. Nothing is reported where the topology, the number of pods or of chips is a placeholder.
//!
//! ## References
//!
//! * <https://cloud.google.com/kubernetes-engine/docs/concepts/tpus>

use crate::judge::finding::{Part as FindingPart, Place};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::k8s::quantity::Quantity;
use crate::kinds::{ContainerSlot, Count, PodCount, PodTemplate, Times};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "TPU slice not filled".into(),
        summary: "The pods of a Job fill their TPU slice: they request all chips of its topology".into(),
        kinds: Kinds::Jobs,
        default: Action::Warn,
        export: Exportable::No("the sum over all containers, and the product of a topology, are long in CEL"),
        ..Rule::new("tpu-slice-complete", check)
    }
}

const TOPOLOGY: &str = "cloud.google.com/gke-tpu-topology";
const CHIPS: &str = "google.com/tpu";

fn check(cx: &mut Cx<'_>) {
    for pod in &cx.workload.pods {
        if !matches!(pod.form.count, Count::Jobs(Times::Once | Times::Replicas)) {
            continue;
        }
        let field = pod.spec.at(&["nodeSelector", TOPOLOGY]);
        let Some(topology) = field.text().set() else { continue };
        let Some(slice) = chips_of(topology) else { continue };
        // Each Job of the template has a slice of its own.
        let count = PodCount::from_job(&pod.around);
        let Some((pods, each)) = count.most.zip(chips_of_pod(pod)) else { continue };
        let fills = each <= slice && pods.saturating_mul(each) % slice == 0;
        if pods < 1 || each < 1 || fills {
            continue;
        }
        let (are, request) = if pods == 1 { ("pod", "requests") } else { ("pods", "request") };
        let message = format!(
            "a slice of `{topology}` has {slice} TPU chips, but {pods} {are} of {each} {request} {}: \
             it is never complete",
            pods.saturating_mul(each)
        );
        let help = if slice % each == 0 {
            let needed = slice / each;
            format!("write `parallelism: {needed}` and `completions: {needed}`, or another topology")
        } else {
            format!("request a number of `{CHIPS}` that divides {slice}, or write another topology")
        };
        let finding = cx.report(&field.pointer, message);
        finding.help(help);
        if let Some(place) = count.said_by {
            finding.label(Place::Here(place, FindingPart::Value), "the number of pods");
        }
    }
}

/// Returns the chips of a topology: the product of its numbers.
fn chips_of(topology: &str) -> Option<i64> {
    const MAX_BYTES: usize = 20;
    if topology.len() > MAX_BYTES {
        return None;
    }
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number > 0);
    topology.split('x').try_fold(1_i64, |product, text| product.checked_mul(number(text)?))
}

/// Returns the chips that a pod requests; nothing if that is unknown.
fn chips_of_pod(pod: &PodTemplate<'_>) -> Option<i64> {
    let mut all = 0_i64;
    for container in pod.containers().filter(|container| container.slot == ContainerSlot::Main) {
        let container = container.part;
        let resources = container.get("resources");
        let chips = ["limits", "requests"].map(|list| resources.get(list).get(CHIPS));
        let Some(chips) = chips.into_iter().find(crate::kinds::Part::is_set) else { continue };
        let quantity = Quantity::from_json(chips.value?).ok().filter(Quantity::is_integer)?;
        all = all.saturating_add(quantity.value());
    }
    Some(all)
}
