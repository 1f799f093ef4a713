//! The pods of a job that runs in a runtime: those of the runtime, with the job's changes
//! (docs/internals/batch-kinds.md#trainjob).

use std::collections::BTreeMap;

use crate::judge::facts::{Fact, Facts, FoundObject};
use crate::judge::finding::{Finding, Place};
use crate::judge::runtimes;
use crate::kinds::{Part, PodCount, PodTemplate, Reference, Workload, each_at};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};

/// A runtime with the changes of one job.
pub struct Joined<'a> {
    /// The place of the runtime's name in the job.
    at: Pointer,
    /// The kind and the name of the runtime.
    named: (&'a str, &'a str),
    runtime: FoundObject,
    /// The runtime with the patches of the job.
    object: Value,
    /// The number of pods that the job asks for.
    nodes: Part<'a>,
    /// The places where the job names claims, by Job of the runtime and volume.
    claims: BTreeMap<&'a str, BTreeMap<&'a str, Pointer>>,
}

/// Lists that a patch merges by a key of their items; it replaces all others.
const KEYED: [(&str, &str); 6] = [
    ("containers", "name"),
    ("env", "name"),
    ("initContainers", "name"),
    ("replicatedJobs", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// The container that gets the job's command, arguments and variables.
const NODE: &str = "node";

impl<'a> Joined<'a> {
    /// Joins an object with the runtime that it names, if both are known.
    pub fn find(facts: &dyn Facts, namespace: &str, workload: &Workload<'a>) -> Option<Self> {
        let reference = workload.kind.runs_in?;
        let named = reference.of(&workload.object)?;
        match facts.runtime(named.0, namespace, named.1) {
            Fact::Known(runtime) => Self::new(workload, reference, named, runtime),
            Fact::Absent | Fact::Unknown => None,
        }
    }

    fn new(
        workload: &Workload<'a>,
        reference: Reference,
        named: (&'a str, &'a str),
        runtime: FoundObject,
    ) -> Option<Self> {
        let job = &workload.object;
        let mut patches: BTreeMap<&'a str, Vec<Part<'a>>> = BTreeMap::new();
        each_at(job, reference.jobs, &mut |patch| {
            if let Some(name) = patch.get("name").value.and_then(Value::as_str) {
                patches.entry(name).or_default().push(patch);
            }
        });
        let mut claims: BTreeMap<&str, BTreeMap<&str, Pointer>> = BTreeMap::new();
        for (name, patch) in patches.iter().flat_map(|(name, all)| all.iter().map(move |one| (*name, one))) {
            for volume in patch.at(&["template", "spec", "template", "spec", "volumes"]).mappings() {
                let claim = volume.get("persistentVolumeClaim").get("claimName");
                if let Some(volume) = volume.get("name").value.and_then(Value::as_str)
                    && claim.is_set()
                {
                    claims.entry(name).or_default().insert(volume, claim.pointer);
                }
            }
        }
        let nodes = job.at(reference.nodes);
        // The trainer's settings apply to the first Job that is marked as trainer, and a patch to one Job of its
        // name: nothing is copied twice.
        let mut started = started(&job.at(reference.trainer));
        let mut spec = runtime.object.pointer("/spec/template/spec")?.as_object()?.clone();
        let jobs = runtime.object.pointer("/spec/template/spec/replicatedJobs")?.as_array()?;
        let merged = jobs.iter().map(|job| {
            let name = job.get("name").and_then(Value::as_str).unwrap_or_default();
            let of_job = patches.remove(name).unwrap_or_default();
            let trains =
                job.pointer("/template/metadata/labels").and_then(|labels| labels.get(runtimes::STEP))
                    == Some(&runtimes::TRAINER.into());
            let started = if trains { started.take() } else { None };
            merge(Some(job), of_job.iter().filter_map(|patch| patch.value).chain(&started).collect(), "")
        });
        let merged: Vec<Value> = merged.collect();
        spec.insert("replicatedJobs".to_owned(), merged.into());
        let own = |pointer: &str| runtime.object.pointer(pointer).cloned().unwrap_or_default();
        let template = mapping([("spec", Value::Object(spec))]);
        let spec = mapping([("mlPolicy", own("/spec/mlPolicy")), ("template", template)]);
        let object = mapping([("apiVersion", own("/apiVersion")), ("kind", own("/kind")), ("spec", spec)]);
        let at = job.at(reference.at).get("name").pointer;
        Some(Self { at, named, runtime, object, nodes, claims })
    }

    /// Returns the runtime as the job runs it, with the number of its pods. Its places are in no object:
    /// [`Self::place`] returns those in the job.
    pub fn workload(&self) -> Option<Workload<'_>> {
        let mut workload = Workload::from_object(&self.object)?;
        let policy = workload.object.at(&["spec", "mlPolicy"]);
        for pod in &mut workload.pods {
            let count = self.count(pod, &policy);
            // A place in the runtime is not a place in the job.
            let said_by = count.said_by.filter(|said_by| *said_by == self.nodes.pointer);
            pod.count = PodCount { said_by, ..count };
        }
        Some(workload)
    }

    fn count(&self, pod: &PodTemplate<'_>, policy: &Part<'_>) -> PodCount {
        let mpi = policy.get("mpi");
        let is_node = pod.entry.as_ref().is_some_and(|entry| entry.name == Some(NODE));
        let step = runtimes::step(pod);
        let trains = step == Some(runtimes::TRAINER);
        let asked = self.nodes.is_set() && if mpi.is_set() { is_node } else { trains };
        match step {
            _ if asked => {
                let asked = PodCount::from_field(&self.nodes, 1);
                let launcher =
                    i64::from(mpi.is_set() && mpi.get("runLauncherAsNode").bool().set() == Some(true));
                let most = asked.most.map(|most| if launcher > 0 { (most - launcher).max(1) } else { most });
                PodCount { most, least: most.unwrap_or(0).max(0), ..asked }
            }
            Some(runtimes::TRAINER) => PodCount::from_field(&policy.get("numNodes"), 1),
            // An initializer.
            Some(_) => PodCount::certain(1, None),
            None => {
                let replicas = pod.entry.as_ref().map(|entry| entry.part.get("replicas"));
                let one = PodCount::from_job(&pod.around);
                replicas.map_or(one.clone(), |replicas| one.times(&replicas, 1))
            }
        }
    }

    /// Returns the place in the job that a volume of a claim comes from: a patch, or the runtime's name.
    pub(crate) fn place(&self, pod: &PodTemplate<'_>, volume: &str) -> &Pointer {
        let job = pod.entry.as_ref().and_then(|entry| entry.name).unwrap_or_default();
        self.claims.get(job).and_then(|claims| claims.get(volume)).unwrap_or(&self.at)
    }

    /// Labels the runtime, if the finding points at its name.
    pub(crate) fn label(&self, finding: &mut Finding, text: String) {
        if finding.pointer == self.at {
            let object = runtimes::title(self.named.0, self.named.1);
            finding.label(Place::Elsewhere { object, source: self.runtime.source.clone() }, text);
        }
    }
}

/// Returns the command, arguments and variables that a job sets, as a patch of the Job that gets them. Items of
/// a wrong type, and variables without a name, are left out: nothing reads them there, and there may be many.
fn started(trainer: &Part<'_>) -> Option<Value> {
    let items = |key: &'static str, is_item: fn(&Value) -> bool| {
        let items = trainer.get(key).value?.as_array()?.iter().filter(|item| is_item(item));
        Some((key.to_owned(), Value::from(items.cloned().collect::<Vec<_>>())))
    };
    let is_variable = |item: &Value| item.get("name").is_some_and(Value::is_string);
    let lists =
        [items("args", Value::is_string), items("command", Value::is_string), items("env", is_variable)];
    let mut container: Map = lists.into_iter().flatten().collect();
    if container.is_empty() {
        return None;
    }
    container.insert("name".to_owned(), NODE.into());
    let pod = mapping([("containers", vec![Value::Object(container)].into())]);
    Some(["spec", "template", "spec", "template"].into_iter().fold(pod, |inner, key| mapping([(key, inner)])))
}

/// Merges all patches of a value at once, in the order in which they apply: one walk, however many there are.
fn merge(source: Option<&Value>, mut patches: Vec<&Value>, field: &str) -> Value {
    meter::spend(1);
    let key = KEYED.iter().find(|(list, _)| *list == field).map(|(_, key)| *key);
    let merges = |patch: &&Value| patch.is_object() || key.is_some() && patch.is_array();
    // A patch that replaces the value overrides all before it.
    let mut source = source;
    if let Some(last) = patches.iter().rposition(|patch| !merges(patch)) {
        source = Some(patches[last]).filter(|value| !value.is_null());
        patches.drain(..=last);
    }
    let Some(last) = patches.last() else { return source.cloned().unwrap_or(Value::Null) };
    if last.is_object() {
        merge_fields(source.and_then(Value::as_object), &patches)
    } else {
        merge_items(source.and_then(Value::as_array).map(Vec::as_slice), &patches, key.unwrap_or_default())
    }
}

fn merge_fields(source: Option<&Map>, patches: &[&Value]) -> Value {
    let mut changed: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (key, value) in patches.iter().filter_map(|patch| patch.as_object()).flatten() {
        meter::spend(1);
        changed.entry(key).or_default().push(value);
    }
    let kept = source.into_iter().flatten().filter(|(key, _)| !changed.contains_key(*key));
    let mut merged: Map = kept.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    for (key, values) in changed {
        let value = merge(source.and_then(|source| source.get(key)), values, key);
        if !value.is_null() {
            merged.insert(key.to_owned(), value);
        }
    }
    Value::Object(merged)
}

fn merge_items(source: Option<&[Value]>, patches: &[&Value], key: &str) -> Value {
    let name = |item: &Value| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut changed: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut order = Vec::new();
    for item in patches.iter().filter_map(|patch| patch.as_array()).flatten() {
        meter::spend(1);
        let Some(name) = name(item) else { continue };
        let items = changed.entry(name.clone()).or_default();
        if items.is_empty() {
            order.push(name);
        }
        items.push(item);
    }
    let mut merged = Vec::new();
    for item in source.unwrap_or_default() {
        match name(item).and_then(|name| changed.remove(&name)) {
            Some(patches) => merged.push(merge(Some(item), patches, "")),
            None => merged.push(item.clone()),
        }
    }
    let added = order.iter().filter_map(|name| changed.remove(name));
    merged.extend(added.map(|patches| merge(None, patches, "")));
    merged.into()
}

/// Returns a mapping without copying its values, as `json!` would: a patch may be as large as the object.
fn mapping<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::facts::{FactKind, FactTable, WantedObject};
    use crate::text::value::json;

    fn merged(source: &Value, patches: &[Value]) -> Value {
        merge(Some(source), patches.iter().collect(), "")
    }

    #[test]
    fn patches_merge_lists_by_their_keys_and_replace_others() {
        let source = json!({
            "containers": [{"name": "a", "image": "x"}, {"name": "b"}],
            "tolerations": [{"key": "one"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        });
        let patches = [
            json!({"containers": [{"name": "b", "image": "y"}, {"name": "c"}], "tolerations": [{"key": "two"}]}),
            json!({"containers": [{"name": "b", "tty": true}, {"image": "nameless"}], "volumes": null}),
        ];
        assert_eq!(
            merged(&source, &patches),
            json!({
                "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y", "tty": true}, {"name": "c"}],
                "tolerations": [{"key": "two"}],
            })
        );
    }

    #[test]
    fn a_patch_that_replaces_undoes_those_before_it() {
        let source = json!({"a": {"b": 1}});
        assert_eq!(merged(&source, &[json!({"a": {"c": 2}})]), json!({"a": {"b": 1, "c": 2}}));
        assert_eq!(merged(&source, &[json!({"a": {"c": 2}}), json!({"a": 3})]), json!({"a": 3}));
        let after = [json!({"a": {"c": 2}}), json!({"a": null}), json!({"a": {"d": 4}})];
        assert_eq!(merged(&source, &after), json!({"a": {"d": 4}}));
        assert_eq!(merged(&source, &[]), source);
    }

    /// Returns how many pods each Job of a runtime has, and where a job says so.
    fn counts(policy: &Value, jobs: &Value, trainer: &Value) -> Vec<(Option<i64>, i64, bool)> {
        let job = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "spec": {"runtimeRef": {"name": "torch"}, "trainer": trainer},
        });
        let runtime = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}},
        });
        let kind = FactKind::from_object(&runtime).expect("a runtime");
        let mut facts = FactTable::default();
        facts.enter(WantedObject::new(kind, "ml", "torch"), Some(&runtime));
        let workload = Workload::from_object(&job).expect("a TrainJob");
        let joined = Joined::find(&facts, "ml", &workload).expect("both are known");
        let runs = joined.workload().expect("a runtime");
        let count = |pod: &PodTemplate<'_>| {
            let said_here = pod.count.said_by.as_ref().map(ToString::to_string);
            assert!(
                said_here.as_deref().is_none_or(|place| place == "spec.trainer.numNodes"),
                "{said_here:?}"
            );
            (pod.count.most, pod.count.least, said_here.is_some())
        };
        runs.pods.iter().map(count).collect()
    }

    fn job(name: &str, step: Option<&str>, spec: Value) -> Value {
        let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": step});
        let mut spec = spec;
        spec["template"] = json!({"spec": {}});
        json!({"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}})
    }

    #[test]
    fn the_job_says_how_many_nodes_there_are_and_else_its_runtime() {
        let jobs = json!([
            job("dataset-initializer", Some("dataset-initializer"), json!({"parallelism": 5})),
            job("node", Some("trainer"), json!({"parallelism": 7, "completions": 7})),
            job("reporter", None, json!({"parallelism": 2, "completions": 2})),
        ]);
        let one = (Some(1), 1, false);
        let beside = (Some(2), 2, false);
        let with = |policy: Value, trainer: Value| counts(&policy, &jobs, &trainer);
        assert_eq!(with(json!({"numNodes": 3}), json!({"numNodes": 4})), [one, (Some(4), 4, true), beside]);
        assert_eq!(with(json!({"numNodes": 3}), json!({})), [one, (Some(3), 3, false), beside]);
        assert_eq!(with(json!(null), json!(null)), [one, one, beside]);
        assert_eq!(with(json!({"numNodes": 3}), json!({"numNodes": "$N"})), [one, (None, 0, true), beside]);
    }

    #[test]
    fn the_nodes_of_mpi_are_those_of_that_name() {
        let jobs = json!([
            job("launcher", Some("trainer"), json!({})),
            job("node", None, json!({"parallelism": 9}))
        ]);
        let one = (Some(1), 1, false);
        let with = |mpi: Value, trainer: Value| counts(&json!({"numNodes": 1, "mpi": mpi}), &jobs, &trainer);
        assert_eq!(with(json!({}), json!({"numNodes": 4})), [one, (Some(4), 4, true)]);
        assert_eq!(
            with(json!({"runLauncherAsNode": true}), json!({"numNodes": 4})),
            [one, (Some(3), 3, true)]
        );
        assert_eq!(
            with(json!({"runLauncherAsNode": true}), json!({"numNodes": 1})),
            [one, (Some(1), 1, true)]
        );
        assert_eq!(with(json!({}), json!({})), [one, (Some(9), 9, false)]);
    }
}
