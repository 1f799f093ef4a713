//! Makes objects of a kind, place by place.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jobgate::judge::facts::{Claim, Fact, FactTable};
use jobgate::judge::finding::Source;
use jobgate::kinds::{Api, Count, EACH, Kind, Pods, Released, Template};
use jobgate::text::value::{Map, Value, json};

use super::Random;
use super::fills::for_each_template;
use super::places::{self, Place, below};

const STRANGE_TEXT: [&str; 16] = [
    "",
    "x",
    "Always",
    "-",
    "0",
    "-1",
    "01",
    "a/b",
    "a~b",
    "~1",
    "\u{1b}[31mred",
    "line\nbreak",
    "\u{202e}turned",
    "\u{0}",
    "ü𝔘",
    "$NUM_NODES",
];
const RESOURCES: [&str; 9] = [
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/rdma-vf",
    "google.com/tpu",
    "habana.ai/gaudi",
    "nvidia.com/",
];
const CLAIMS: [&str; 5] = ["checkpoints", "data", "ckpt-rwop", "shared", "missing"];

/// Names of entries and items: those of roles, as operators know them.
const NAMES: [&str; 7] = ["Master", "Worker", "Worker", "Launcher", "PS", "0", "a/b~c"];
/// How deep objects are made from schemas alone.
const DEPTH: usize = 3;

/// The places and the schema of each kind.
static KNOWN: LazyLock<BTreeMap<Kind, (Place, Value)>> = LazyLock::new(|| {
    let kinds = places::kinds().into_iter();
    kinds.map(|kind| (kind, (Place::of(kind), places::schema(kind)))).collect()
});

pub(super) struct Maker<'r> {
    pub(super) random: &'r mut Random,
    /// How many of a hundred fields hold something else than they should.
    pub(super) mess: usize,
}

impl Maker<'_> {
    /// Returns any JSON value.
    fn anything(&mut self, depth: usize) -> Value {
        match self.random.below(if depth == 0 { 9 } else { 11 }) {
            0 => Value::Null,
            1 => true.into(),
            2 => false.into(),
            3 => (*self.random.pick(&[0_i64, 1, -1, 4, i64::MAX, i64::MIN])).into(),
            4 => (*self.random.pick(&[0.0_f64, 0.5, -1.5, 4.0, 1e300])).into(),
            5 => u64::MAX.into(),
            6 | 7 => (*self.random.pick(&STRANGE_TEXT)).into(),
            8 => json!([]),
            9 => (0..self.random.below(3)).map(|_| self.anything(depth - 1)).collect(),
            _ => {
                let mut map = Map::new();
                for _ in 0..self.random.below(3) {
                    map.insert((*self.random.pick(&STRANGE_TEXT)).to_owned(), self.anything(depth - 1));
                }
                map.into()
            }
        }
    }

    /// Makes a mapping: fields as they should be, but for the mess, and some that nobody knows.
    fn mapping(&mut self, fields: Vec<(&str, Value)>) -> Value {
        let mut map = Map::new();
        for (key, value) in fields {
            let value = if self.random.percent(self.mess) { self.anything(3) } else { value };
            map.insert(key.to_owned(), value);
        }
        if self.random.percent(5 + self.mess) {
            map.insert(
                (*self.random.pick(&["x-unknown", "", "a/b~c", "-", "0", "tolerations", "runPolicy"]))
                    .to_owned(),
                self.anything(3),
            );
        }
        map.into()
    }

    /// Puts a field in with so much of a chance in a hundred.
    fn maybe<'k>(
        &mut self,
        fields: &mut Vec<(&'k str, Value)>,
        percent: usize,
        key: &'k str,
        make: impl FnOnce(&mut Self) -> Value,
    ) {
        if self.random.percent(percent) {
            let value = make(self);
            fields.push((key, value));
        }
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        self.random.pick(values).clone()
    }

    /// Makes an object, as the controller of its parent would have if it has one.
    pub(super) fn object(&mut self, kind: Kind, parent: Option<Kind>) -> Value {
        let (place, schema) = &KNOWN[&kind];
        let spec = self.place(kind, "spec", &place.fields["spec"], below(schema, "spec"));
        let metadata = self.metadata(kind, parent);
        let status = if self.random.percent(10) { places::finished(kind) } else { json!({}) };
        let mut object = self.mapping(vec![("spec", spec), ("metadata", metadata), ("status", status)]);
        object["apiVersion"] = if kind.retired.is_empty() || self.random.percent(97) {
            kind.api_version().into()
        } else {
            self.random.pick(kind.retired).api_version.into()
        };
        object["kind"] = kind.as_str().into();
        object
    }

    /// Makes what is at a place of which the definition says something.
    fn place(&mut self, kind: Kind, name: &str, place: &Place, schema: &Value) -> Value {
        if place.is_component {
            return self.component();
        }
        if place.is_metadata {
            return self.mapping(vec![("labels", json!({"a": "b"}))]);
        }
        if place.is_only_named() {
            return self.typed(name, schema, DEPTH);
        }
        if let Some(each) = &place.each {
            let number = *self.random.pick(&[0, 1, 1, 2, 2, 3]);
            let schema = below(schema, EACH);
            if !place.has_names {
                return (0..number).map(|_| self.place(kind, "", each, schema)).collect();
            }
            let entries: Vec<(&str, Value)> = (0..number)
                .map(|_| (*self.random.pick(&NAMES), self.place(kind, "", each, schema)))
                .collect();
            return self.mapping(entries);
        }
        self.fields(kind, place, schema)
    }

    /// Makes a mapping of which the definition says something: the fields that it names, and some others.
    fn fields(&mut self, kind: Kind, place: &Place, schema: &Value) -> Value {
        let mut fields: Vec<(&str, Value)> = Vec::new();
        for (name, below_it) in &place.fields {
            let percent = match () {
                () if below_it.leads_somewhere() => 97,
                () if below_it.is_only_named() => 15,
                () => 60,
            };
            self.maybe(&mut fields, percent, name, |maker| {
                // A null is as good as nothing.
                let is_null = !below_it.leads_somewhere() && maker.random.percent(20);
                if is_null { Value::Null } else { maker.place(kind, name, below_it, below(schema, name)) }
            });
        }
        if place.is_limits {
            self.limits(&mut fields);
            self.release(kind, &mut fields);
        }
        if place.is_schedule {
            fields.push(("schedule", "0 2 * * *".into()));
            for name in ["concurrencyPolicy", "successfulJobsHistoryLimit"] {
                self.maybe(&mut fields, 50, name, |maker| maker.typed(name, &Value::Null, 0));
            }
        }
        for pods in &place.pods {
            self.pods(kind, pods, place, &mut fields);
        }
        let others = schema.get("properties").and_then(Value::as_object);
        let percent = others.map_or(0, |others| 150 / (3 + others.len()));
        for (name, schema) in others.into_iter().flatten() {
            let known = |fields: &[(&str, Value)]| fields.iter().any(|(known, _)| *known == name);
            if !place.fields.contains_key(name) && !known(&fields) && self.random.percent(percent) {
                let value = self.typed(name, schema, DEPTH);
                fields.push((name, value));
            }
        }
        self.mapping(fields)
    }

    /// Makes a pod template, with what is beside it.
    fn pods(&mut self, kind: Kind, pods: &'static Pods, place: &Place, fields: &mut Vec<(&str, Value)>) {
        let defaulted = kind.api == Api::Job;
        if !matches!(pods.count, Count::One) || self.random.percent(50) {
            let template = self.template(defaulted);
            match pods.template.at {
                [name] => fields.push((name, template)),
                _ => inline(pods.template, &template, fields),
            }
        }
        match pods.count {
            Count::Jobs(_) => self.job(defaulted, place.is_limits, fields),
            Count::Replicas { .. } | Count::Range | Count::RayWorkers { .. } => {
                for name in ["name", "groupName", "replicas", "restartPolicy", "maxReplicas"] {
                    self.maybe(fields, 50, name, |maker| maker.typed(name, &Value::Null, 0));
                }
            }
            Count::One => {}
        }
    }

    fn job(&mut self, defaulted: bool, has_limits: bool, fields: &mut Vec<(&str, Value)>) {
        if !has_limits {
            self.limits(fields);
        }
        self.maybe(fields, if defaulted { 95 } else { 30 }, "podReplacementPolicy", |maker| {
            maker.one_of(&["TerminatingOrFailed".into(), "TerminatingOrFailed".into(), "Failed".into()])
        });
        self.maybe(fields, 10, "podFailurePolicy", |_| json!({"rules": []}));
        for name in ["parallelism", "completions", "suspend"] {
            self.maybe(fields, 40, name, |maker| maker.typed(name, &Value::Null, 0));
        }
    }

    fn limits(&mut self, fields: &mut Vec<(&str, Value)>) {
        for (name, percent) in [("activeDeadlineSeconds", 50), ("ttlSecondsAfterFinished", 40)] {
            self.maybe(fields, percent, name, |maker| maker.typed(name, &Value::Null, 0));
        }
    }

    fn release(&mut self, kind: Kind, fields: &mut Vec<(&str, Value)>) {
        let Some(release) = kind.release else { return };
        self.maybe(fields, 40, release.field, |maker| match release.value {
            Released::Word(word) => maker.one_of(&[word.into(), "None".into(), "All".into(), "".into()]),
            Released::True => maker.one_of(&[true.into(), false.into()]),
        });
    }

    /// Makes an object of another kind, or of none.
    fn component(&mut self) -> Value {
        match self.random.below(20) {
            0 => json!({"apiVersion": "v1", "kind": "Service", "spec": {}}),
            1 => self.anything(2),
            _ => {
                let is_right = |kind: &&Kind| kind.components.is_none() || self.mess > 3;
                let kinds: Vec<Kind> = KNOWN.keys().filter(is_right).copied().collect();
                let kind = *self.random.pick(&kinds);
                self.object(kind, None)
            }
        }
    }

    /// Makes a value of a field from its name, where a rule reads it, else from its schema.
    fn typed(&mut self, name: &str, schema: &Value, depth: usize) -> Value {
        let values: &[Value] = &match name {
            "activeDeadlineSeconds" => vec![3600.into(), 86400.into(), 0.into(), i64::MAX.into()],
            "ttlSecondsAfterFinished" => vec![0.into(), 86400.into()],
            "replicas"
            | "minReplicas"
            | "maxReplicas"
            | "parallelism"
            | "completions"
            | "numOfHosts"
            | "maxReplicaCount"
            | "successfulJobsHistoryLimit" => {
                vec![0.into(), 1.into(), 1.into(), 3.into(), 4.into()]
            }
            "restartPolicy" => {
                vec!["Never".into(), "OnFailure".into(), "Always".into(), "ExitCode".into(), "".into()]
            }
            "concurrencyPolicy" => vec!["Allow".into(), "Forbid".into(), "Replace".into()],
            "name" | "groupName" => NAMES.map(Value::from).to_vec(),
            "event" => vec!["TaskCompleted".into(), "PodFailed".into()],
            "action" => vec!["CompleteJob".into(), "TerminateJob".into()],
            "suspend" => vec![true.into(), false.into()],
            _ => Vec::new(),
        };
        if !values.is_empty() {
            return self.one_of(values);
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        match text("$ref").map(|name| name.rsplit('.').next().unwrap_or_default()) {
            Some("PodTemplateSpec") => return self.template(false),
            Some("Quantity") => return self.quantity(),
            Some(_) => return json!({}),
            None => {}
        }
        match text("type") {
            Some("string") => self.one_of(&["x".into(), "a/b".into(), "".into()]),
            Some("integer" | "number") => self.one_of(&[0.into(), 1.into(), 4.into()]),
            Some("boolean") => self.one_of(&[true.into(), false.into()]),
            Some("array") if depth > 0 => {
                let number = self.random.below(3);
                (0..number).map(|_| self.typed("", below(schema, EACH), depth - 1)).collect()
            }
            Some("object") if depth > 0 => {
                let names = schema.get("properties").and_then(Value::as_object);
                let mut fields = Vec::new();
                for (name, schema) in names.into_iter().flatten() {
                    self.maybe(&mut fields, 40, name, |maker| maker.typed(name, schema, depth - 1));
                }
                let entry = below(schema, EACH);
                if entry.is_object() {
                    self.maybe(&mut fields, 60, "a", |maker| maker.typed("", entry, depth - 1));
                }
                self.mapping(fields)
            }
            _ => json!({}),
        }
    }

    fn metadata(&mut self, kind: Kind, parent: Option<Kind>) -> Value {
        let mut fields = vec![("name", "train".into())];
        if !kind.cluster_scoped {
            fields.push(("namespace", "team-a".into()));
        }
        self.maybe(&mut fields, 30, "annotations", |maker| {
            let mut annotations = Vec::new();
            maker.maybe(&mut annotations, 20, "jobgate.dev/keep", |maker| {
                maker.one_of(&[
                    "ttl-after-finished".into(),
                    "pod-replacement-policy, gpu-toleration,resources-released".into(),
                    "nonsense\n".into(),
                ])
            });
            maker.maybe(&mut annotations, 20, "jobgate.dev/ignore", |maker| {
                maker.one_of(&["deadline".into(), "gpu-toleration,ttl-after-finished".into()])
            });
            maker.maybe(&mut annotations, 20, "kubectl.kubernetes.io/last-applied-configuration", |maker| {
                maker.one_of(&[
                    "{\"spec\":{\"podReplacementPolicy\":\"TerminatingOrFailed\"}}".into(),
                    "{\"spec\":{}}".into(),
                    "not json".into(),
                    "[".repeat(500).into(),
                ])
            });
            maker.maybe(&mut annotations, 10, "meta.helm.sh/release-name", |_| "train".into());
            maker.mapping(annotations)
        });
        self.maybe(&mut fields, 20, "labels", |maker| {
            let label = maker.one_of(&[
                json!({"kueue.x-k8s.io/max-exec-time-seconds": "3600"}),
                json!({"argocd.argoproj.io/instance": "x"}),
                json!({"a": "b"}),
            ]);
            maker.mapping(vec![]).as_object().cloned().map_or(label.clone(), |_| label)
        });
        let owner =
            |kind: Kind| json!({"apiVersion": kind.api_version(), "kind": kind.as_str(), "controller": true});
        if let Some(parent) = parent {
            fields.push(("ownerReferences", json!([owner(parent)])));
        } else {
            self.maybe(&mut fields, 15, "ownerReferences", |maker| {
                let kinds: Vec<Kind> = KNOWN.keys().copied().collect();
                let stranger = owner(*maker.random.pick(&kinds));
                let owner = maker.one_of(&[
                    stranger,
                    json!({"kind": "CronJob", "controller": true}),
                    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true}),
                    json!({"apiVersion": "batch/v1", "kind": "CronJob", "controller": "true"}),
                ]);
                json!([owner])
            });
        }
        self.maybe(&mut fields, 20, "managedFields", |maker| {
            let operation = maker.one_of(&["Apply".into(), "Update".into()]);
            json!([{"operation": operation, "fieldsV1": {"f:spec": {"f:podReplacementPolicy": {}}}}])
        });
        self.maybe(&mut fields, 5, "deletionTimestamp", |_| "2026-11-21T08:00:00Z".into());
        self.mapping(fields)
    }

    fn template(&mut self, defaulted: bool) -> Value {
        let mut spec = Vec::new();
        self.maybe(&mut spec, 10, "activeDeadlineSeconds", |maker| maker.one_of(&[60.into(), 0.into()]));
        self.maybe(&mut spec, if defaulted { 98 } else { 60 }, "restartPolicy", |maker| {
            maker.one_of(&["Never".into(), "Never".into(), "OnFailure".into(), "Always".into()])
        });
        let containers: Value = (0..1 + self.random.below(2)).map(|at| self.container(at)).collect();
        spec.push(("containers", containers));
        self.maybe(&mut spec, 20, "initContainers", |maker| json!([maker.container(9)]));
        self.maybe(&mut spec, 40, "tolerations", Self::tolerations);
        self.maybe(&mut spec, 40, "volumes", |maker| {
            (0..1 + maker.random.below(2))
                .map(|at| {
                    let claim = *maker.random.pick(&CLAIMS);
                    let source = maker.mapping(vec![("claimName", claim.into())]);
                    maker.mapping(vec![("name", format!("v{at}").into()), ("persistentVolumeClaim", source)])
                })
                .collect()
        });
        self.maybe(&mut spec, 10, "nodeSelector", |_| json!({"kubernetes.io/hostname": "node-7"}));
        let spec = self.mapping(spec);
        self.mapping(vec![("metadata", json!({})), ("spec", spec)])
    }

    fn container(&mut self, at: usize) -> Value {
        let mut fields =
            vec![("name", format!("c{at}").into()), ("image", "registry.example.com/a:v1".into())];
        self.maybe(&mut fields, 60, "resources", |maker| {
            let mut resources = Vec::new();
            for list in ["limits", "requests"] {
                maker.maybe(&mut resources, 60, list, |maker| {
                    let names = [*maker.random.pick(&RESOURCES), *maker.random.pick(&RESOURCES)];
                    let quantities = [maker.quantity(), maker.quantity()];
                    maker.mapping(names.into_iter().zip(quantities).collect())
                });
            }
            maker.mapping(resources)
        });
        self.maybe(&mut fields, 40, "volumeMounts", |maker| {
            let mount = maker.mapping(vec![("name", "v0".into()), ("mountPath", "/checkpoints".into())]);
            json!([mount])
        });
        self.maybe(&mut fields, 20, "env", |_| json!([{"name": "TOKEN", "value": "hunter2"}]));
        self.mapping(fields)
    }

    fn quantity(&mut self) -> Value {
        self.one_of(&[
            "1".into(),
            1.into(),
            "0".into(),
            0.into(),
            "4".into(),
            "1k".into(),
            1.5.into(),
            "$GPUS".into(),
            "many".into(),
            (-1).into(),
        ])
    }

    fn tolerations(&mut self) -> Value {
        (0..self.random.below(3))
            .map(|_| {
                let key = *self.random.pick(&["nvidia.com/gpu", "amd.com/gpu", "other", ""]);
                let operator = *self.random.pick(&["Exists", "Exists", "Equal", ""]);
                let effect = *self.random.pick(&["NoSchedule", "NoExecute", ""]);
                self.mapping(vec![
                    ("key", key.into()),
                    ("operator", operator.into()),
                    ("effect", effect.into()),
                ])
            })
            .collect()
    }

    /// Makes an object that the new one may have come from: the same, another, or one that still has what an
    /// apply took out.
    pub(super) fn old(&mut self, kind: Kind, object: &Value) -> Value {
        let mut old = object.clone();
        match self.random.below(10) {
            0 | 1 => self.object(kind, None),
            2 => {
                old["metadata"] = json!({"name": "train"});
                old
            }
            3 => {
                if let Some(spec) = old["spec"].as_object_mut() {
                    spec.insert("suspend".to_owned(), true.into());
                }
                old
            }
            4 => old,
            _ => {
                for_each_template(kind, &mut old, &mut add_tolerations);
                old
            }
        }
    }

    pub(super) fn facts(&mut self) -> FactTable {
        let modes = [["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOncePod"], ["ReadOnlyMany"]];
        let mut facts = FactTable::default();
        for name in CLAIMS {
            let fact = match self.random.below(6) {
                0 => Fact::Unknown,
                1 => Fact::Absent,
                at => Fact::Known(Claim {
                    access_modes: modes[(at - 2) % 4].map(str::to_owned).to_vec(),
                    source: Source::Cluster,
                }),
            };
            facts.claims.insert(("team-a".to_owned(), name.to_owned()), fact);
        }
        facts
    }
}

/// Adds what the webhook would have added for one NVIDIA or AMD card: sometimes right, which is what an old
/// object to be restored is like.
/// Adds the parts of a pod template to the item that is one.
fn inline(form: Template, template: &Value, fields: &mut Vec<(&str, Value)>) {
    let spec = &template["spec"];
    for name in ["activeDeadlineSeconds", "nodeSelector", "tolerations", "volumes"] {
        fields.extend(spec.get(name).map(|value| (name, value.clone())));
    }
    let one = form.containers.iter().find(|field| !field.is_list);
    fields.extend(one.map(|field| (field.name, spec["containers"][0].clone())));
}

fn add_tolerations(template: &mut Value) {
    let text = template.to_string();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let list = spec.get_or_insert_with("tolerations", || json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for (resource, taint) in [("amd.com/gpu", "amd.com/gpu"), ("nvidia.com/gpu", "nvidia.com/gpu")] {
        if text.contains(&format!("\"{resource}\":")) {
            list.push(json!({"key": taint, "operator": "Exists", "effect": "NoSchedule"}));
        }
    }
    if list.is_empty() {
        spec.remove("tolerations");
    }
}
