//! An object of each kind that has one of everything: each list and mapping of its schema, and each list,
//! mapping and text of its metadata and pods, with one entry.

use std::fmt::Write as _;

use jobgate::kinds::{Api, Count, EACH, Kind, Mounted, Pods};
use jobgate::text::value::Value as Small;
use serde_json::{Map, Value, json};

use super::places::{self, Place, below};

/// One object to make shapes of.
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) object: Value,
    /// How long it is as JSON.
    pub(crate) length: usize,
    pub(crate) known: Known,
}

/// What is known of the places of an object, as JSON Pointers.
#[derive(Default)]
pub(crate) struct Known {
    /// Mappings whose keys are names of the author's.
    pub(crate) names: Vec<String>,
    /// The items and entries above pod templates, and pod templates that are in none.
    pub(crate) pods: Vec<String>,
    /// The pod templates.
    pub(crate) templates: Vec<String>,
    /// The metadata of the object, and of those in it.
    pub(crate) metadata: Vec<String>,
    /// Fields with which rules find nothing: the object has them only in shapes that make them long.
    pub(crate) switches: Vec<String>,
}

/// Fields with which rules find nothing, besides those of definitions.
const SWITCHES: [&str; 2] = ["backoffLimitPerIndex", "podFailurePolicy"];

const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Fields of limits and Jobs that a rule reports as missing.
const MISSING: [&str; 3] = ["activeDeadlineSeconds", "podReplacementPolicy", "ttlSecondsAfterFinished"];

impl Base {
    fn of(kind: Kind, name: String, inner: &[&Self]) -> Self {
        let mut sampler = Sampler { kind, inner, component: 0, known: Known::default() };
        // What is applied again is not filled in.
        sampler.known.switches.push(LAST_APPLIED.to_owned());
        sampler.known.metadata.push("/metadata".to_owned());
        let schema = places::schema(kind);
        let place = Place::of(kind);
        let spec = sampler.place("/spec", &place.fields["spec"], below(&schema, "spec"));
        let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": metadata(), "spec": spec});
        for claims in kind.claims {
            let claim = at_path(&mut object, claims.at);
            // As the pods call what they mount.
            *at_path(claim, claims.name) = json!("vol");
            claim[claims.spec] = json!({"accessModes": ["ReadWriteOnce"]});
            if let Mounted::Everywhere(path) = claims.mounted {
                claim[path] = json!("/mnt/x");
            }
        }
        if let Some(reference) = kind.runs_in {
            at_path(&mut object, reference.at)["name"] = json!("runtime");
            at_path(&mut object, reference.nodes).clone_from(&json!(4));
            at_path(&mut object, reference.jobs)["name"] = json!("worker");
            *at_path(&mut object, reference.patches) = json!({
                "containers": [{"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/mnt/x"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            });
        }
        Self { name, kind, length: object.to_string().len(), object, known: sampler.known }
    }

    /// Returns a review of an object: as it is created, or with one before it that had all tolerations that
    /// the webhook writes, and another spec.
    pub(crate) fn review(&self, object: &str, update: bool) -> String {
        let old = if update { self.old(object) } else { "null".to_owned() };
        let operation = if update { "UPDATE" } else { "CREATE" };
        let (group, version, kind) = (self.kind.group, self.kind.version, self.kind.as_str());
        let mut review = String::with_capacity(object.len() + old.len() + 512);
        let _ = write!(
            review,
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{{"group":"{group}","version":"{version}","kind":"{kind}"}},"name":"train","namespace":"team-a","operation":"{operation}","userInfo":{{"username":"alice"}},"object":{object},"oldObject":{old}}}}}"#
        );
        review
    }

    /// Returns the shortest form of the value at a place that has the same pod templates.
    pub(crate) fn lean(&self, at: &str, value: &Value) -> Value {
        if self.known.templates.iter().any(|template| template == at) {
            return json!({"spec": {
                "restartPolicy": "Always",
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            }});
        }
        let has_pods = |at: &str| self.known.templates.iter().any(|template| template.starts_with(at));
        let step = |step: &str, value: &Value| {
            let at = format!("{at}/{step}");
            let is_needed = !(value.is_object() || value.is_array()) || has_pods(&at);
            is_needed.then(|| self.lean(&at, value))
        };
        match value {
            Value::Array(items) => {
                items.iter().enumerate().filter_map(|(nth, item)| step(&nth.to_string(), item)).collect()
            }
            Value::Object(fields) => {
                let fields = fields.iter().filter_map(|(key, value)| Some((key.clone(), step(key, value)?)));
                Value::Object(fields.collect())
            }
            value => value.clone(),
        }
    }

    fn old(&self, object: &str) -> String {
        let mut old: Small = serde_json::from_str(object).unwrap();
        for pods in self.kind.pods {
            let list = [&pods.spec_path()[..], &["tolerations"]].concat();
            places::each_mut(&mut old, &list, &mut |list| {
                for taint in ["amd.com/gpu", "nvidia.com/gpu"] {
                    let toleration = json!({"key": taint, "operator": "Exists", "effect": "NoSchedule"});
                    list.as_array_mut().into_iter().for_each(|list| list.push(toleration.clone().into()));
                }
            });
        }
        if let Some(spec) = old.get_mut("spec").and_then(Small::as_object_mut) {
            spec.insert("x-changed", true.into());
        }
        old.to_string()
    }
}

/// Returns a base of every kind.
pub(crate) fn all() -> Vec<Base> {
    let (wrappers, plain): (Vec<Kind>, Vec<Kind>) =
        places::kinds().into_iter().partition(|kind| kind.components.is_some());
    let named = |kind: Kind| format!("{}/{}", kind.api_version(), kind.as_str());
    let mut bases: Vec<Base> = plain.into_iter().map(|kind| Base::of(kind, named(kind), &[])).collect();
    for kind in wrappers {
        // One around a Job, and one around pods of an operator's.
        let inner = [true, false].map(|jobs| bases.iter().find(|base| base.kind.has_jobs() == jobs));
        let inner: Vec<&Base> = inner.into_iter().flatten().collect();
        let wrapper = Base::of(kind, named(kind), &inner);
        bases.push(wrapper);
    }
    bases
}

/// Returns the value at a path, with an item in each list on the way.
fn at_path<'v>(value: &'v mut Value, path: &[&str]) -> &'v mut Value {
    path.iter().fold(value, |value, step| match *step {
        EACH => {
            if !value.is_array() {
                *value = json!([{}]);
            }
            &mut value[0]
        }
        key => &mut value[key],
    })
}

/// Makes one of everything of a kind.
struct Sampler<'b> {
    kind: Kind,
    /// What a component may be.
    inner: &'b [&'b Base],
    /// Which of them the next one is.
    component: usize,
    known: Known,
}

impl Sampler<'_> {
    /// Makes what is at a place of which the definition says something.
    fn place(&mut self, at: &str, place: &Place, schema: &Small) -> Value {
        if place.is_component {
            let base = self.inner[self.component];
            let below =
                |pointers: &[String]| pointers.iter().map(|rest| format!("{at}{rest}")).collect::<Vec<_>>();
            self.known.names.extend(below(&base.known.names));
            self.known.pods.extend(below(&base.known.pods));
            self.known.templates.extend(below(&base.known.templates));
            self.known.metadata.extend(below(&base.known.metadata));
            self.known.switches.extend(below(&base.known.switches));
            return base.object.clone();
        }
        let Some(each) = &place.each else { return self.fields(at, place, schema) };
        let schema = below(schema, EACH);
        if place.has_names {
            self.known.names.push(at.to_owned());
            return json!({"Worker": self.place(&format!("{at}/Worker"), each, schema)});
        }
        let items = if has_component(each) { self.inner.len() } else { 1 };
        let item = |nth| {
            self.component = nth;
            self.place(&format!("{at}/{nth}"), each, schema)
        };
        (0..items).map(item).collect()
    }

    /// Makes a mapping of which the definition says something.
    fn fields(&mut self, at: &str, place: &Place, schema: &Small) -> Value {
        let mut fields = Map::new();
        if place.is_metadata {
            fields.insert("labels".to_owned(), json!({"app": "train"}));
            fields.insert("annotations".to_owned(), json!({"a": "b"}));
        }
        if place.is_schedule {
            fields.insert("schedule".to_owned(), "*/5 * * * *".into());
            fields.insert("concurrencyPolicy".to_owned(), "Allow".into());
        }
        for (name, below_it) in &place.fields {
            let (at, schema) = (format!("{at}/{name}"), below(schema, name));
            let value = if below_it.is_only_named() {
                self.typed(&at, schema)
            } else {
                Some(self.place(&at, below_it, schema))
            };
            fields.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        for pods in &place.pods {
            self.pods(at, pods, place, &mut fields);
        }
        for (name, schema) in schema.get("properties").and_then(Small::as_object).into_iter().flatten() {
            if !fields.contains_key(name) && !MISSING.contains(&name) {
                let value = self.typed(&format!("{at}/{name}"), schema);
                fields.extend(value.map(|value| (name.to_owned(), value)));
            }
        }
        let unless = self.kind.release.filter(|_| place.is_limits).map_or(&[][..], |release| release.unless);
        let switches = unless.iter().chain(&SWITCHES).filter(|field| fields.contains_key(**field));
        self.known.switches.extend(switches.map(|field| format!("{at}/{field}")));
        fields.into()
    }

    /// Makes a pod template, with what is beside it.
    fn pods(&mut self, at: &str, pods: &Pods, place: &Place, fields: &mut Map<String, Value>) {
        let is_item = pods.at.last() == Some(&EACH) || pods.is_in_list();
        // All built-in kinds have the form of Kubernetes.
        let name = pods.template.at[0];
        self.known.templates.push(format!("{at}/{name}"));
        self.known.pods.push(if is_item { at.to_owned() } else { format!("{at}/{name}") });
        fields.insert(name.to_owned(), template(self.kind));
        let mut beside = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        match pods.count {
            Count::Jobs(_) => {
                beside("parallelism", 4.into());
                beside("completions", 4.into());
                beside(
                    "podFailurePolicy",
                    json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}),
                );
                if self.kind.api == Api::Job {
                    // The API server's default.
                    beside("podReplacementPolicy", "TerminatingOrFailed".into());
                }
                if !place.is_limits {
                    beside("ttlSecondsAfterFinished", 1.into());
                }
            }
            Count::Replicas { .. } | Count::Range | Count::RayWorkers { .. } => {
                beside("name", "worker".into());
                beside("replicas", 2.into());
                beside("restartPolicy", "Always".into());
            }
            Count::One => {}
        }
    }

    /// Makes a value of a type; nothing for one that is neither a list nor a mapping, and has none: in as far
    /// as nothing reads it, it is like any other.
    fn typed(&mut self, at: &str, schema: &Small) -> Option<Value> {
        let text = |key: &str| schema.get(key).and_then(Small::as_str);
        if let Some(name) = text("$ref") {
            return match name.rsplit('.').next() {
                Some("ObjectMeta") => Some(json!({"labels": {"app": "train"}, "annotations": {"a": "b"}})),
                Some("Quantity") => None,
                _ => Some(json!({})),
            };
        }
        let one = below(schema, EACH);
        match text("type") {
            Some("array") => {
                let item = self.typed(&format!("{at}/0"), one);
                Some(json!([item.unwrap_or_else(|| "text".into())]))
            }
            Some("object") if one.is_object() => {
                self.known.names.push(at.to_owned());
                let entry = self.typed(&format!("{at}/key"), one);
                Some(json!({"key": entry.unwrap_or_else(|| "text".into())}))
            }
            Some("object") => {
                let properties = schema.get("properties").and_then(Small::as_object);
                let fields = properties.into_iter().flatten().filter_map(|(name, schema)| {
                    Some((name.to_owned(), self.typed(&format!("{at}/{name}"), schema)?))
                });
                let fields: Map<String, Value> = fields.collect();
                (properties.is_none() || !fields.is_empty()).then(|| fields.into())
            }
            _ => None,
        }
    }
}

fn has_component(place: &Place) -> bool {
    place.is_component || place.fields.values().chain(place.each.as_deref()).any(has_component)
}

fn metadata() -> Value {
    let applied = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"podReplacementPolicy": null, "list": [{"a": "b"}]}}).to_string();
    json!({
        "name": "train", "namespace": "team-a",
        "labels": {"app": "train"},
        "annotations": {
            "jobgate.dev/keep": "deadline", "jobgate.dev/ignore": "restart-policy", "kubectl.kubernetes.io/last-applied-configuration": applied,
        },
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "controller": false}],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:podReplacementPolicy": {}, "f:parallelism": {}}}}],
    })
}

/// Returns a pod template whose affinity selects by an operator, another one for kinds that follow each other.
fn template(kind: Kind) -> Value {
    let nth = Kind::all().position(|known| known == kind).unwrap_or_default();
    let operator = ["In", "NotIn", "DoesNotExist"][nth % 3];
    // For `Always`, a Job is denied before anything is filled in.
    let restart = if kind.is_built_in() { "OnFailure" } else { "Always" };
    let term = json!({
        "topologyKey": "kubernetes.io/hostname", "namespaces": ["team-a"], "matchLabelKeys": ["app"],
        "labelSelector": {"matchLabels": {"app": "train"}, "matchExpressions": [{"key": "app", "operator": operator, "values": ["other"]}]},
    });
    let node = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
    // What runs in the first container is a script, in the others an argument vector.
    let script = "set -e\npython train.py --checkpoint-dir /mnt/x/y\nHOSTS='a b'; export HOSTS\n\
                  torchrun --nnodes=3 --nproc-per-node=4 --node-rank=0 --min-nodes=2 --max-nodes=4 \
                  train.py trainer.num_nodes=2 trainer.devices=3\n";
    let container = |name: &str| {
        let mut container = json!({
            "name": name, "image": "registry.example.com/trainer:v1",
            "command": ["python", "train.py"], "args": ["--data=/data", "--checkpoint-dir", "/mnt/x/y"],
            "env": [{"name": "CHECKPOINT_DIR", "value": "/mnt/x/y"}],
            "envFrom": [{"configMapRef": {"name": "c"}}],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g": 1}, "requests": {"amd.com/gpu": "1"}},
            "volumeMounts": [{"name": "vol", "mountPath": "/mnt/x", "readOnly": false}],
        });
        if name == "pytorch" {
            container["command"] = json!(["bash", "-c", script]);
            // Any variable may be in a ConfigMap, so that nothing is compared.
            container["envFrom"] = json!([]);
            // Most of these are accelerators that nothing is compared with.
            if nth.is_multiple_of(2) {
                container["resources"] = json!({"limits": {"nvidia.com/gpu": 1}, "requests": {}});
            }
        }
        container
    };
    json!({
        "metadata": {"labels": {"app": "train"}, "annotations": {"a": "b"}},
        "spec": {
            "restartPolicy": restart, "nodeSelector": {"pool": "gpu"}, "activeDeadlineSeconds": 60,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node]}},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            },
            "containers": [container("pytorch")], "initContainers": [container("init")], "ephemeralContainers": [container("debug")],
            "tolerations": [{"key": "example.com/x", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
            "volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": "data", "readOnly": false}}],
        },
    })
}
