//! An object of a known kind, as rules see it: its runs and pod templates.

use super::count::PodCount;
use super::definition::Finished;
use super::field::{Field, Part, Path};
use super::kind::Kind;
use super::other_kinds::{has_image, has_pod_with_image, misspells_image};
use super::pod::{MOST_BARE, PodTemplate};
use super::pods::{ContainerSlot, Count, EACH, Entry, Pods, Visit, each_at};
use crate::text::patch::Op;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::{Map, Value};

/// One object of a known kind, as rules see it.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Which kind.
    pub kind: Kind,
    /// The object around it, if it is a component of one.
    pub inside: Option<Part<'a>>,
    /// The whole object.
    pub object: Part<'a>,
    /// The mapping with the run limits.
    pub limits: Part<'a>,
    /// Its runs, each with its own deadline.
    pub runs: Vec<Run<'a>>,
    /// The mapping with `schedule` and `concurrencyPolicy`, if the kind has a schedule.
    pub schedule: Option<Part<'a>>,
    /// The pod templates of all runs, but only a few for list items or mapping entries that say nothing about
    /// pods: there may be hundreds of thousands.
    pub pods: Vec<PodTemplate<'a>>,
    /// The items and entries left out of [`Self::pods`].
    pub bare: Vec<Bare<'a>>,
}

/// Items of a list or entries of a mapping that say nothing about pods, represented by one in
/// [`Workload::pods`].
#[derive(Clone, Debug)]
pub struct Bare<'a> {
    /// The item or entry that represents them.
    pub(crate) like: Pointer,
    /// Ranges of indexes of items, each by its first and last.
    pub(crate) items: Vec<(usize, usize)>,
    /// Keys of entries.
    pub(crate) keys: Vec<&'a str>,
}

impl<'a> Bare<'a> {
    /// Adds an item or entry, unless it is in another list or mapping; returns whether it did.
    fn add(&mut self, entry: &Entry<'a>) -> bool {
        let here = entry.part.pointer.parent();
        match (entry.part.pointer.last(), entry.name) {
            (Some(Token::Index(index)), _) => here.is_some_and(|list| self.add_item(&list, *index)),
            (Some(Token::Key(_)), Some(key)) if here == self.like.parent() => {
                self.keys.push(key);
                true
            }
            _ => false,
        }
    }

    /// Adds an item, unless it is in another list; returns whether it did.
    fn add_item(&mut self, list: &Pointer, index: usize) -> bool {
        if self.like.parent().as_ref() != Some(list) {
            return false;
        }
        match self.items.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => self.items.push((index, index)),
        }
        true
    }
}

/// Tells whether an item above a pod template says nothing about its pods.
fn is_bare(form: &Pods, around: &Part<'_>, entry: &Entry<'_>) -> bool {
    const READ: [&str; 7] =
        ["dependsOn", "maxReplicas", "minReplicas", "numOfHosts", "policies", "replicas", "restartPolicy"];
    // The path from the item to the template begins with this field.
    let each = form.at.iter().rposition(|step| *step == EACH);
    let below = each.and_then(|each| form.at.get(each + 1)).or(form.template.at.first());
    // Else the item itself is the template, and has containers.
    let Some(below) = below.copied() else { return false };
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    let says = |key: &str, value: &Value| READ.contains(&key) || key == below && !is_empty(value);
    let fields = entry.part.value.and_then(Value::as_object);
    around.value.is_none_or(|value| around.pointer == entry.part.pointer || is_empty(value))
        && fields.is_none_or(|fields| !fields.iter().any(|(key, value)| says(key, value)))
}

/// A run: pods that start and end together.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The metadata of the run.
    pub(crate) metadata: Part<'a>,
    /// The mapping with its limits.
    pub limits: Part<'a>,
    deadline_at: Path,
    /// The batch/v1 Job spec, if it has one.
    pub job_spec: Option<Part<'a>>,
}

impl<'a> Run<'a> {
    /// Returns the field with its deadline.
    #[must_use]
    pub(crate) fn deadline(&self) -> Part<'a> {
        self.limits.at(self.deadline_at)
    }

    /// Returns the operation that sets its deadline.
    #[must_use]
    pub(crate) fn set_deadline(&self, seconds: i64) -> Option<Op> {
        self.limits.set_at(self.deadline_at, seconds.into())
    }
}

impl<'a> Workload<'a> {
    /// Returns the workload of an object; nothing for other kinds.
    #[must_use]
    pub fn from_object(object: &'a Value) -> Option<Self> {
        Self::from_part(Part::root(object))
    }

    /// Returns the workload of an object inside another one, with places in the outer one.
    #[must_use]
    pub(crate) fn from_part(object: Part<'a>) -> Option<Self> {
        let kind = Kind::from_object(object.value?)?;
        let (limits, metadata) = (object.at(kind.limits), object.at(kind.run_metadata));
        let run = |limits: &Part<'a>, job_spec| Run {
            metadata: metadata.clone(),
            limits: limits.clone(),
            deadline_at: kind.deadline_at,
            job_spec,
        };
        // Each Job of a list is a run of its own.
        let one_run = !kind.pods.iter().any(|form| form.is_job() && form.is_in_list());
        let mut runs = Vec::new();
        let mut pods = Vec::new();
        let mut bare: Vec<Bare<'a>> = Vec::new();
        let mut few = 0;
        if one_run {
            runs.push(run(&limits, None));
        }
        for form in kind.pods {
            let shared = form.template.shared.map(|path| object.at(path));
            form.each(&object, &mut |visit| {
                let (around, entry) = match visit {
                    Visit::Place(around, entry) => (around, entry),
                    Visit::Empty(..) if few < MOST_BARE || matches!(form.count, Count::One) => return false,
                    Visit::Empty(list, index) => {
                        return bare.last_mut().is_some_and(|bare| bare.add_item(&list.pointer, index));
                    }
                };
                if !form.is_in(&around) {
                    return true;
                }
                if let Some(entry) = entry.as_ref().filter(|entry| is_bare(form, &around, entry)) {
                    few += 1;
                    if few > MOST_BARE && bare.last_mut().is_some_and(|bare| bare.add(entry)) {
                        return true;
                    }
                    let like = entry.part.pointer.clone();
                    match bare.last_mut().filter(|last| last.like.parent() == like.parent()) {
                        Some(last) => last.like = like,
                        None => {
                            few = 1;
                            bare.push(Bare { like, items: Vec::new(), keys: Vec::new() });
                        }
                    }
                }
                // Without a mapping there is no Job, and nothing can be added.
                let job_spec = form.is_job().then(|| around.clone()).filter(Part::is_mapping);
                if one_run {
                    runs[0].job_spec = job_spec;
                } else {
                    runs.push(run(&around, job_spec));
                }
                let count = PodCount::new(form.count, &object, &around, entry.as_ref());
                pods.push(PodTemplate::new((runs.len() - 1, form), shared.clone(), around, entry, count));
                true
            });
        }
        Some(Self {
            kind,
            inside: None,
            schedule: kind.schedule.map(|path| object.at(path)),
            limits,
            runs,
            pods,
            bare,
            object,
        })
    }

    /// Returns the workloads in an object: its own, and those of the objects inside it that are judged in its
    /// place.
    #[must_use]
    pub fn all_in(object: &'a Value) -> Vec<Self> {
        let Some(own) = Self::from_object(object) else { return Vec::new() };
        let mut all = Vec::new();
        if let Some(path) = own.kind.components {
            each_at(&own.object, path, &mut |part| all.extend(Self::from_part(part)));
        }
        all.push(own);
        all
    }

    /// Tells whether the object is partial, such as a kustomize patch: what it lacks is unknown.
    ///
    /// In a partial object no container has an image, not even a misspelled one
    /// (docs/internals/manifests.md#partial-manifests); and no pod has both a command and a restart policy, or
    /// accelerators. Only for files: an API server sends whole objects, and accepts a PyTorchJob without
    /// images.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        if self.kind.whole.iter().any(|field| self.object.at(field).is_set()) {
            return false;
        }
        let mut containers = self.pods.iter().flat_map(PodTemplate::container_values);
        let has_image = |container: &Map| has_image(container) || misspells_image(container);
        !containers.any(|(_, container)| container.as_object().is_some_and(has_image))
            && !self.has_images_elsewhere()
            && !self.lacks_only_images()
    }

    /// Tells whether an object is complete except for images: a patch has no reason to repeat `restartPolicy`
    /// and commands. An object with owners does not count: an operator made it, and a test may leave fields
    /// out.
    ///
    /// In kinds outside Kubernetes the restart policy may be beside the template, or unset, and a patch may
    /// change one role. So each of their pods must have a command, and a restart policy or accelerators.
    fn lacks_only_images(&self) -> bool {
        let runs = |container: &Value| {
            let list =
                |key| container.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            list("command") || list("args")
        };
        let is_set = |part: &Part<'_>| matches!(part.get("restartPolicy").text(), Field::Set(_));
        let is_built_in = self.kind.is_built_in();
        let mains = |pod: &PodTemplate<'a>| {
            pod.container_values().filter(|(place, _)| place.slot() == ContainerSlot::Main)
        };
        let is_whole = |pod: &PodTemplate<'a>| {
            let says_more =
                is_set(&pod.spec.own) || !is_built_in && (is_set(&pod.around) || pod.holds_accelerators());
            says_more && mains(pod).all(|(_, container)| runs(container)) && mains(pod).next().is_some()
        };
        !self.object.at(&["metadata", "ownerReferences"]).is_set()
            && if is_built_in {
                self.pods.iter().any(is_whole)
            } else {
                self.metadata("name").is_some() && !self.pods.is_empty() && self.pods.iter().all(is_whole)
            }
    }

    /// Tells whether containers with images are in the wrong place, so that the object is not partial. In
    /// another version that place may be right.
    fn has_images_elsewhere(&self) -> bool {
        let is_known = |version: &str| version.split_once('/') == Some((self.kind.group, self.kind.version));
        self.object.get("apiVersion").value.and_then(Value::as_str).is_some_and(is_known)
            && self.object.get("spec").value.is_some_and(has_pod_with_image)
    }

    /// Tells whether the object has a spec. Without one it runs nothing, and nothing can be added.
    #[must_use]
    pub(crate) fn has_spec(&self) -> bool {
        self.object.at(self.kind.body).is_mapping()
    }

    /// Returns the field with the deadline of the whole.
    #[must_use]
    pub(crate) fn deadline(&self) -> Part<'a> {
        self.limits.at(self.kind.deadline_at)
    }

    /// Returns the field with the TTL of the whole.
    #[must_use]
    pub fn ttl(&self) -> Part<'a> {
        self.limits.at(self.kind.ttl_at)
    }

    /// Returns a role whose failure may leave the object without the time of its end, from which its TTL counts
    /// (docs/internals/kubeflow.md#retries-of-the-training-operator).
    #[must_use]
    pub(crate) fn fails_without_end(&self) -> Option<&PodTemplate<'a>> {
        let word = self.kind.retries?.without_end?;
        self.pods.iter().find(|pod| pod.around.get("restartPolicy").text() == Field::Set(word))
    }

    /// Returns the pod templates of a run.
    #[must_use]
    pub(crate) fn pods_of(&self, run: usize) -> &[PodTemplate<'a>] {
        let begin = self.pods.partition_point(|pod| pod.run < run);
        let end = self.pods.partition_point(|pod| pod.run <= run);
        &self.pods[begin..end]
    }

    /// Returns the run of a pod template.
    #[must_use]
    pub(crate) fn run_of(&self, pod: &PodTemplate<'a>) -> &Run<'a> {
        &self.runs[pod.run]
    }

    /// Tells whether the status shows that the object has started.
    #[must_use]
    pub(crate) fn has_begun(&self) -> bool {
        let status = self.object.get("status");
        let conditions = status
            .get("conditions")
            .value
            .and_then(Value::as_array)
            .is_some_and(|conditions| !conditions.is_empty());
        conditions || status.get("startTime").is_set() || status.get("completionTime").is_set()
    }

    /// Tells whether the status shows that the object has finished.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        let is_one =
            |field: Part<'_>, words: &[&str]| field.text().set().is_some_and(|word| words.contains(&word));
        match self.kind.finished {
            Finished::Conditions(types) => {
                self.object.at(&["status", "conditions"]).mappings().any(|condition| {
                    condition.get("status").text() == Field::Set("True")
                        && is_one(condition.get("type"), types)
                })
            }
            Finished::Field(path, words) => is_one(self.object.at(path), words),
            Finished::Never => false,
        }
    }

    /// Returns an annotation of the object, or of the one around it.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.own_annotation(key).or_else(|| annotation(self.inside.as_ref()?, key))
    }

    /// Returns an annotation of the object itself.
    #[must_use]
    pub(crate) fn own_annotation(&self, key: &str) -> Option<&'a str> {
        annotation(&self.object, key)
    }

    /// Returns a label of the object.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// Returns a field of the object's metadata.
    #[must_use]
    pub(crate) fn metadata(&self, field: &str) -> Option<&'a Value> {
        self.object.value?.get("metadata")?.get(field)
    }
}

fn annotation<'a>(object: &Part<'a>, key: &str) -> Option<&'a str> {
    object.value?.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn who_forgets_an_image_has_written_a_whole_object() {
        let is_partial = |container: Value, policy: Value| {
            let pod = json!({"restartPolicy": policy, "containers": [container]});
            let object =
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}});
            Workload::from_object(&object).expect("a Job").is_partial()
        };
        let never = || json!("Never");
        for (container, policy, partial) in [
            (json!({"name": "a", "imgae": "i"}), Value::Null, false),
            (json!({"name": "a", "images": "i"}), never(), false),
            (json!({"name": "a", "command": ["x"]}), never(), false),
            (json!({"name": "a", "args": ["x"]}), Value::Null, true),
            (json!({"name": "a", "env": []}), never(), true),
            (json!({"name": "a"}), never(), true),
            (json!({"name": "a", "stage": 1, "lifecycle": {}}), Value::Null, true),
        ] {
            assert_eq!(is_partial(container.clone(), policy), partial, "{container}");
        }
    }

    #[test]
    fn an_operators_object_that_lacks_only_images_is_whole() {
        let container = |command: bool, gpus: i64| {
            let mut container = json!({"name": "pytorch"});
            if command {
                container["command"] = json!(["python", "train.py"]);
            }
            if gpus > 0 {
                container["resources"] = json!({"limits": {"nvidia.com/gpu": gpus}});
            }
            container
        };
        let role =
            |container: Value| json!({"replicas": 1, "template": {"spec": {"containers": [container]}}});
        let mut ending = role(container(true, 0));
        ending["restartPolicy"] = json!("OnFailure");
        let whole = || role(container(true, 8));
        for (what, roles, partial) in [
            ("a command and GPUs", json!({"Master": whole(), "Worker": whole()}), false),
            ("a command and a restart policy", json!({"Master": ending}), false),
            ("names only", json!({"Master": role(container(false, 0))}), true),
            ("GPUs only", json!({"Master": role(container(false, 8))}), true),
            ("a command only", json!({"Master": role(container(true, 0))}), true),
            ("a part beside", json!({"Master": whole(), "Worker": role(container(false, 8))}), true),
            ("no roles", json!({}), true),
        ] {
            let object = json!({
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"},
                "spec": {"pytorchReplicaSpecs": roles},
            });
            assert_eq!(Workload::from_object(&object).expect("a PyTorchJob").is_partial(), partial, "{what}");
        }
        let pod = json!({"containers": [container(true, 8)]});
        let object = |metadata: Value| {
            let job = json!({"name": "a", "template": {"spec": {"template": {"spec": pod}}}});
            json!({
                "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
                "spec": {"replicatedJobs": [job]},
            })
        };
        for (metadata, partial) in [(json!({"name": "a"}), false), (json!({}), true)] {
            assert_eq!(Workload::from_object(&object(metadata)).expect("a JobSet").is_partial(), partial);
        }
    }

    #[test]
    fn an_item_without_a_job_spec_has_no_job() {
        for template in [json!(null), json!(true), json!({}), json!({"spec": null}), json!({"spec": "x"})] {
            let object = json!({
                "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                "spec": {"replicatedJobs": [{"template": template}, {"template": {"spec": {}}}]},
            });
            let workload = Workload::from_object(&object).expect("a JobSet");
            let has_job: Vec<bool> = workload.runs.iter().map(|run| run.job_spec.is_some()).collect();
            assert_eq!(has_job, [false, true], "{template}");
        }
    }
}
