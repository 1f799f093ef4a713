//! Pods that train together run the same image: its tag is one that does not move.
//!
//! ## Why
//!
//! A tag such as `latest` moves whenever somebody pushes an image. The pods of a job pull it at different
//! times, and each that is replaced pulls it again: the members of one training run may then run different
//! code, and a run cannot be repeated.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   completionMode: Indexed
//!   completions: 4
//!   parallelism: 4
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:latest
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
//!   completionMode: Indexed
//!   completions: 4
//!   parallelism: 4
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:2.4.1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! None: only the author knows which image is meant. A digest (`@sha256:…`) cannot move at all.
//!
//! ## Details
//!
//! One note for each object, and only if more than one pod runs at once whose containers request an
//! accelerator and have such an image. An image without a tag has the tag `latest`. The parameter `tags`
//! lists the tags that move. A placeholder for an image is not reported here. Each Job of a ScaledJob, and each
//! run of a CronJob, is counted alone: they do not train together.
//!
//! With `imagePullPolicy: IfNotPresent`, which is the default for all tags but `latest`, each node runs what
//! it happens to have under that tag, so that a difference between nodes can last for weeks.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/containers/images/>

use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule, Strings};
use crate::kinds::{Container, Field, PodTemplate, accelerator};
use crate::text::lines::cut;
use crate::text::placeholder::is_no_image;
use crate::text::pointer::Pointer;

const TAGS: Strings =
    Strings::new("tags", "Tags that move.", &["dev", "latest", "main", "master", "nightly"]);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Image tag that may move between pods".into(),
        summary: "Pods that train together run the same image: its tag does not move".into(),
        kinds: Kinds::OwnPods,
        default: Action::Note,
        params: &[TAGS.0],
        export: Exportable::No("it is a note, which an API server has no place for"),
        ..Rule::new("image-pinned-across-pods", check)
    }
}

/// The longest tag to repeat.
const MAX_TAG_BYTES: usize = 60;

/// An image with a mutable tag.
struct Moving<'a> {
    place: Pointer,
    /// The tag, if it is written.
    tag: Option<&'a str>,
    /// Whether nodes keep the image that they have.
    is_kept: bool,
}

fn check(cx: &mut Cx<'_>) {
    let tags: Vec<&str> = cx.strings(&TAGS).collect();
    let (mut pods, mut first) = (0_i64, None);
    for pod in &cx.workload.pods {
        let Some(image) = moving(pod, &tags) else { continue };
        let count = pod.together();
        pods = pods.saturating_add(count.most.unwrap_or(count.least).max(0));
        first.get_or_insert(image);
    }
    let Some(image) = first.filter(|_| pods > 1) else { return };
    let what = match image.tag {
        Some(tag) => {
            format!("the image has the tag `{}`, which moves", cut(tag, MAX_TAG_BYTES, "…").escape_debug())
        }
        None => "the image has no tag, which means `latest`".to_owned(),
    };
    let then = if image.is_kept {
        "and each node runs what it has under it (`imagePullPolicy: IfNotPresent`): \
         pods that train together may run different code"
    } else {
        "so pods that start at different times may run different code"
    };
    cx.report(&image.place, format!("{what}, {then}"))
        .help("write a tag that is pushed once, or a digest (`@sha256:…`)");
}

/// Returns the first image of a template that may change, of containers that request an accelerator.
fn moving<'a>(pod: &PodTemplate<'a>, tags: &[&str]) -> Option<Moving<'a>> {
    let holds = |container: &Container<'_>| container.part.value.is_some_and(accelerator::is_requested_by);
    pod.containers().filter(holds).find_map(|container| {
        let image = container.part.get("image");
        let text = image.text().set()?;
        if text.is_empty() || is_no_image(text) || text.contains('@') {
            return None;
        }
        let name = text.rsplit('/').next().unwrap_or(text);
        let tag = name.split_once(':').map(|(_, tag)| tag);
        if !tag.is_none_or(|tag| tags.contains(&tag)) || tag.is_none() && !tags.contains(&"latest") {
            return None;
        }
        let is_kept = match container.part.get("imagePullPolicy").text() {
            Field::Set("IfNotPresent") => true,
            Field::Unset | Field::Set("") => tag.is_some_and(|tag| tag != "latest"),
            _ => false,
        };
        Some(Moving { place: image.pointer, tag, is_kept })
    })
}
