//! Objects that nobody would write and an API server may still send: right in most places, wrong in some,
//! with strangers in between.

use std::collections::BTreeMap;

use jobgate::judge::facts::{Claim, Fact, FactTable};
use jobgate::judge::finding::Source;
use jobgate::judge::policy::{Action, Policy, RuleSettings};
use jobgate::judge::rules::RULES;
use jobgate::text::value::{Map, Value, json};

/// Random numbers of which a seed gives always the same (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// Returns true in so many of a hundred cases.
    fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

/// One review, and what is known around it.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) uid: String,
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) object: Value,
    pub(crate) old: Option<Value>,
    pub(crate) facts: FactTable,
    /// The index of its policy.
    pub(crate) policy: usize,
    said_kind: &'static str,
    subresource: Option<&'static str>,
    user: &'static str,
}

impl Case {
    pub(crate) fn review(&self, dry_run: bool) -> Value {
        let group = |kind| if kind == "PyTorchJob" { "kubeflow.org" } else { "batch" };
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": self.uid,
            "kind": {"group": group(self.said_kind), "version": "v1", "kind": self.said_kind},
            "name": "train", "namespace": "team-a", "operation": self.operation, "subResource": self.subresource,
            "userInfo": {"username": self.user, "groups": ["system:authenticated"]},
            "object": if self.operation == "DELETE" { &Value::Null } else { &self.object },
            "oldObject": self.old, "dryRun": dry_run, "options": {"kind": "CreateOptions"},
        }})
    }

    /// Tells whether Jobgate must keep its hands off.
    pub(crate) fn is_none_of_ours(&self) -> bool {
        !matches!(self.operation, "CREATE" | "UPDATE")
            || self.subresource.is_some()
            || self.said_kind != self.kind
    }

    /// Returns the same request for another object.
    pub(crate) fn with_object(&self, object: Value) -> Self {
        Self { object, ..self.clone() }
    }
}

/// Policies of every sort: the built-in ones, and every rule set to each action that it may have.
pub(crate) fn policies() -> Vec<Policy> {
    let mut policies: Vec<Policy> = ["default", "audit", "accelerators"]
        .iter()
        .map(|name| Policy::builtin(name).expect("a policy"))
        .collect();
    for action in [Action::Deny, Action::Warn, Action::Fill] {
        let settings = |may: bool| RuleSettings { action: may.then_some(action), params: BTreeMap::new() };
        let rules = RULES.iter().map(|entry| {
            (entry.rule.id.to_owned(), settings(action != Action::Fill || entry.rule.can_fill()))
        });
        policies.push(Policy::builtin("default").expect("a policy").with_rules(rules.collect()));
    }
    policies
}

pub(crate) fn case(random: &mut Random, policies: usize) -> Case {
    let kind = *random.pick(&["Job", "Job", "CronJob", "PyTorchJob", "PyTorchJob"]);
    let operation = *random.pick(&["CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT"]);
    // Most objects are wrong in a place or two; some nowhere, some everywhere.
    let mess = *random.pick(&[0, 0, 1, 3, 3, 10, 40]);
    let mut maker = Maker { random, mess };
    let object = maker.object(kind);
    let old = match operation {
        "UPDATE" => Some(maker.old(kind, &object)),
        "DELETE" => Some(object.clone()),
        _ => None,
    };
    let facts = maker.facts();
    let random = maker.random;
    Case {
        uid: format!("uid-{}", random.next()),
        kind,
        operation,
        object,
        old,
        facts,
        // The default policy as often as all others.
        policy: if random.percent(50) { 0 } else { random.below(policies) },
        said_kind: if random.percent(2) {
            random.pick::<&str>(&["Job", "CronJob", "PyTorchJob", "ReplicaSet"])
        } else {
            kind
        },
        subresource: random.percent(2).then_some("status"),
        user: random.pick::<&str>(&[
            "admin",
            "admin",
            "system:serviceaccount:kube-system:cronjob-controller",
            "system:serviceaccount:evil:cronjob-controller",
            "",
        ]),
    }
}

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

struct Maker<'r> {
    random: &'r mut Random,
    /// How many of a hundred fields hold something else than they should.
    mess: usize,
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

    fn object(&mut self, kind: &'static str) -> Value {
        let spec = match kind {
            "Job" => self.job_spec(true),
            "CronJob" => self.cron_job_spec(),
            _ => self.py_torch_job_spec(),
        };
        let metadata = self.metadata();
        let version = if kind == "PyTorchJob" { "kubeflow.org/v1" } else { "batch/v1" };
        let mut object = self.mapping(vec![("spec", spec), ("metadata", metadata), ("status", json!({}))]);
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object
    }

    fn metadata(&mut self) -> Value {
        let mut fields = vec![("name", "train".into()), ("namespace", "team-a".into())];
        self.maybe(&mut fields, 30, "annotations", |maker| {
            let mut annotations = Vec::new();
            maker.maybe(&mut annotations, 20, "jobgate.dev/keep", |maker| {
                maker.one_of(&[
                    "ttl-after-finished".into(),
                    "pod-replacement-policy, gpu-toleration".into(),
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
        self.maybe(&mut fields, 15, "ownerReferences", |maker| {
            let owner = maker.one_of(&[
                json!({"kind": "CronJob", "controller": true}),
                json!({"kind": "JobSet", "controller": true}),
                json!({"controller": "true"}),
            ]);
            json!([owner])
        });
        self.maybe(&mut fields, 20, "managedFields", |maker| {
            let operation = maker.one_of(&["Apply".into(), "Update".into()]);
            json!([{"operation": operation, "fieldsV1": {"f:spec": {"f:podReplacementPolicy": {}}}}])
        });
        self.maybe(&mut fields, 5, "deletionTimestamp", |_| "2026-11-21T08:00:00Z".into());
        self.mapping(fields)
    }

    fn job_spec(&mut self, defaulted: bool) -> Value {
        let mut fields = vec![("template", self.template(defaulted))];
        self.limits(&mut fields);
        self.maybe(&mut fields, if defaulted { 95 } else { 30 }, "podReplacementPolicy", |maker| {
            maker.one_of(&["TerminatingOrFailed".into(), "TerminatingOrFailed".into(), "Failed".into()])
        });
        self.maybe(&mut fields, 50, "parallelism", |maker| maker.one_of(&[1.into(), 4.into(), 0.into()]));
        self.maybe(&mut fields, 50, "completions", |maker| maker.one_of(&[1.into(), 4.into()]));
        self.maybe(&mut fields, 10, "podFailurePolicy", |_| json!({"rules": []}));
        self.maybe(&mut fields, 30, "suspend", |maker| maker.one_of(&[true.into(), false.into()]));
        self.mapping(fields)
    }

    fn limits(&mut self, fields: &mut Vec<(&str, Value)>) {
        self.maybe(fields, 50, "activeDeadlineSeconds", |maker| {
            maker.one_of(&[3600.into(), 86400.into(), 0.into(), i64::MAX.into()])
        });
        self.maybe(fields, 40, "ttlSecondsAfterFinished", |maker| maker.one_of(&[0.into(), 86400.into()]));
    }

    fn cron_job_spec(&mut self) -> Value {
        let spec = self.job_spec(false);
        let template = self.mapping(vec![("metadata", json!({})), ("spec", spec)]);
        let mut fields = vec![("jobTemplate", template), ("schedule", "0 2 * * *".into())];
        self.maybe(&mut fields, 50, "concurrencyPolicy", |maker| {
            maker.one_of(&["Allow".into(), "Forbid".into(), "Replace".into()])
        });
        self.mapping(fields)
    }

    fn py_torch_job_spec(&mut self) -> Value {
        let mut replicas = Map::new();
        for name in ["Master", "Worker"] {
            if self.random.percent(80) {
                replicas.insert(name.to_owned(), self.replica());
            }
        }
        if self.random.percent(10) {
            replicas.insert((*self.random.pick(&STRANGE_TEXT)).to_owned(), self.replica());
        }
        let mut fields = vec![("pytorchReplicaSpecs", replicas.into())];
        self.maybe(&mut fields, 60, "runPolicy", |maker| {
            let mut policy = Vec::new();
            maker.limits(&mut policy);
            maker
                .one_of(&[Value::Null, json!({}), Value::Bool(true), Value::Bool(true), Value::Bool(true)])
                .as_bool()
                .map_or(Value::Null, |_| maker.mapping(policy))
        });
        self.maybe(&mut fields, 20, "elasticPolicy", |_| json!({"maxReplicas": 8}));
        self.mapping(fields)
    }

    fn replica(&mut self) -> Value {
        let template = self.template(false);
        let mut fields = vec![("template", template)];
        self.maybe(&mut fields, 70, "replicas", |maker| maker.one_of(&[1.into(), 3.into()]));
        self.maybe(&mut fields, 50, "restartPolicy", |maker| {
            maker.one_of(&["Always".into(), "OnFailure".into(), "Never".into(), "ExitCode".into()])
        });
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
    fn old(&mut self, kind: &'static str, object: &Value) -> Value {
        let mut old = object.clone();
        match self.random.below(10) {
            0 | 1 => self.object(kind),
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
                for template in templates(&mut old) {
                    add_tolerations(template);
                }
                old
            }
        }
    }

    fn facts(&mut self) -> FactTable {
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

/// Returns the pod templates of an object, where they are mappings.
fn templates(object: &mut Value) -> Vec<&mut Value> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(spec) = object.get_mut("spec") else { return Vec::new() };
    match &*kind {
        "Job" => spec.get_mut("template").into_iter().collect(),
        "CronJob" => spec.pointer_mut("/jobTemplate/spec/template").into_iter().collect(),
        _ => match spec.get_mut("pytorchReplicaSpecs").and_then(Value::as_object_mut) {
            Some(replicas) => {
                replicas.values_mut().filter_map(|replica| replica.get_mut("template")).collect()
            }
            None => Vec::new(),
        },
    }
}

/// Adds what the webhook would have added for one NVIDIA or AMD card: sometimes right, which is what an old
/// object to be restored is like.
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

/// Returns an object without the fields that may be filled in. Of tolerations the ones that `original` had
/// stay: nobody's may change.
pub(crate) fn without_fills(object: &Value, original: &Value) -> Value {
    let (mut object, mut original) = (object.clone(), original.clone());
    // A null is as good as nothing: what takes its place is ours.
    let before = templates(&mut original)
        .into_iter()
        .map(|template| template.pointer("/spec/tolerations").filter(|list| !list.is_null()).cloned());
    for (template, before) in templates(&mut object).into_iter().zip(before.collect::<Vec<_>>()) {
        let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { continue };
        match (before, spec.get_mut("tolerations")) {
            (Some(Value::Array(before)), Some(Value::Array(list))) => list.truncate(before.len()),
            (Some(_), Some(_)) => {}
            (None, _) => drop(spec.remove("tolerations")),
            (Some(_), None) => panic!("tolerations are gone"),
        }
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let path = match &*kind {
        "Job" => "/spec",
        "CronJob" => "/spec/jobTemplate/spec",
        _ => "/spec/runPolicy",
    };
    let had = original.pointer(path).cloned();
    if let Some(limits) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        let own = |key: &str| {
            had.as_ref()
                .and_then(|had| had.get(key))
                .is_some_and(|value| !value.is_null() && value != "TerminatingOrFailed")
        };
        for key in ["ttlSecondsAfterFinished", "podReplacementPolicy"] {
            if !own(key) {
                limits.remove(key);
            }
        }
        if limits.is_empty() && kind == "PyTorchJob" && !had.is_some_and(|had| had.is_object()) {
            let spec = object["spec"].as_object_mut().expect("it has a runPolicy");
            spec.remove("runPolicy");
        }
    }
    if kind == "PyTorchJob" && object.pointer("/spec/runPolicy").is_some_and(Value::is_null) {
        object["spec"].as_object_mut().expect("it has a runPolicy").remove("runPolicy");
    }
    object
}

/// Checks that an update was given back what an apply took out of its pod templates, and that nothing else
/// was done.
pub(crate) fn assert_restored(object: &Value, patched: &Value, old: &Value) {
    let (mut object, mut patched, mut old) = (object.clone(), patched.clone(), old.clone());
    let mut restored = 0;
    for ((before, after), old) in
        templates(&mut object).into_iter().zip(templates(&mut patched)).zip(templates(&mut old))
    {
        if before != after {
            assert_eq!(after, old, "a template is changed back or not at all");
            restored += 1;
            *after = before.take();
        } else {
            before.take();
            let _ = after;
        }
    }
    assert!(restored > 0, "something was restored");
}
