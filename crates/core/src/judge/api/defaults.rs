//! An object as the API server decodes it: with defaults, canonical quantities, and without unset fields.
//!
//! Defaults are those of the server (docs/internals/kubernetes.md#defaults-of-a-job): of a Job, but not for
//! the Job in a `CronJob`; of the pod spec in a template, but not of a pod.

mod custom;
mod pods;
mod unset;

use std::sync::Arc;

pub(super) use pods::{made_job, made_template, pod_patch, trainer};

use super::schema::{Id, Schema, SchemaRoot, SchemaShape};
use super::stored_object::{self, Entries, Stored};
use crate::judge::fold::ByHash;
use crate::k8s::quantity::Quantity;
use crate::kinds::{Api, TEMPLATE, whole};
use crate::text::meter;
use crate::text::value::Value;

/// Like [`stored()`], but returns an owned value.
#[must_use]
pub fn defaulted(object: &Value) -> Value {
    stored(object).to_value()
}

/// Returns an object as the API server decodes it. Unknown kinds and versions, and values of a wrong type,
/// are not changed.
#[must_use]
pub fn stored(object: &Value) -> Stored<'_> {
    let schema = Schema::get();
    let Some(SchemaRoot { kind: Some(kind), shape, .. }) = schema.root(object) else {
        return Stored::from_value(object);
    };
    // A custom resource is stored as it was sent.
    let mut object =
        if kind.is_built_in() { tidied(schema, shape, object) } else { Stored::from_value(object) };
    match kind.api {
        Api::Job => job(&mut object),
        Api::CronJob => cron_job(&mut object),
        Api::Custom { .. } => {
            custom::of_schema(schema, shape, &mut object);
            custom::ports(kind, &mut object);
        }
    }
    object
}

/// Maximum items that a value of a wrong type keeps, for messages.
const MOST_OF_WRONG_TYPE: usize = 1000;

/// Returns a value without unset fields, as the server's types define them, and with canonical numbers and
/// quantities.
fn tidied<'a>(schema: &Schema, id: Id, value: &'a Value) -> Stored<'a> {
    meter::spend(1);
    match (schema.shape(id), value) {
        (SchemaShape::Object(fields), Value::Object(entries)) => {
            Stored::Mapping(stored_object::fields(entries, |key, value| {
                // The server drops unknown fields.
                let field = fields.get(key)?;
                // The server sets the status of a new object, whatever its type.
                if key == "status"
                    && matches!(schema.shape(field), SchemaShape::Object(_))
                    && !value.is_object()
                {
                    return None;
                }
                let value = tidied(schema, field, value);
                let unset = unset::is_unset(schema, fields, (key, field), &value);
                (!unset).then_some(value)
            }))
        }
        (SchemaShape::List(item), Value::Array(items)) => {
            Stored::List(items.iter().map(|value| item_of(schema, *item, value)).collect())
        }
        (SchemaShape::Map(item), Value::Object(entries)) => {
            let empty_text = |value: Stored<'a>| {
                if value.is_null() && matches!(schema.shape(*item), SchemaShape::Text) {
                    "".into()
                } else {
                    value
                }
            };
            Stored::Mapping(stored_object::fields(entries, |_, value| {
                Some(empty_text(tidied(schema, *item, value)))
            }))
        }
        (SchemaShape::Quantity, value) => Quantity::from_json(value)
            .map_or_else(|_| Stored::from_value(value), |quantity| quantity.canonical().into()),
        (SchemaShape::Int32 | SchemaShape::Int64 | SchemaShape::IntOrText, Value::Number(number)) => {
            whole(number).map_or_else(|| Stored::from_value(value), Stored::from)
        }
        (SchemaShape::Any, value) => Stored::from_value(value),
        // Nothing reads the contents of a value of a wrong type, which may be large.
        (_, Value::Array(items)) if items.len() > MOST_OF_WRONG_TYPE => Stored::List(Vec::new()),
        (_, Value::Object(entries)) if entries.len() > MOST_OF_WRONG_TYPE => {
            Stored::Mapping(Entries::default())
        }
        (_, value) => Stored::from_value(value),
    }
}

/// Returns an item of a list. The server decodes `null` there as an empty item.
fn item_of<'a>(schema: &Schema, id: Id, value: &'a Value) -> Stored<'a> {
    match (schema.shape(id), tidied(schema, id, value)) {
        (SchemaShape::Object(_), Stored::Null) => Stored::Mapping(Entries::default()),
        (SchemaShape::Int32 | SchemaShape::Int64, Stored::Null) => 0.into(),
        (SchemaShape::Text | SchemaShape::Choice, Stored::Null) => "".into(),
        (_, value) => value,
    }
}

/// Returns a mapping, added if missing; nothing for other values.
fn mapping<'m, 'a>(entries: &'m mut Entries<'a>, key: &'static str) -> Option<&'m mut Entries<'a>> {
    entries.get_or_insert_with(key, || Stored::Mapping(Entries::default())).as_mapping_mut()
}

/// Returns an existing mapping.
fn existing<'m, 'a>(entries: &'m mut Entries<'a>, key: &str) -> Option<&'m mut Entries<'a>> {
    entries.get_mut(key)?.as_mapping_mut()
}

/// Returns the mappings in a list.
fn each<'m, 'a>(entries: &'m mut Entries<'a>, key: &str) -> impl Iterator<Item = &'m mut Entries<'a>> {
    entries
        .get_mut(key)
        .and_then(Stored::as_list_mut)
        .into_iter()
        .flatten()
        .filter_map(Stored::as_mapping_mut)
}

/// Maximum distinct items of a list that are kept to be shared. The items of very long lists are short, and
/// there are few distinct short ones.
const MOST_SHARED: usize = 1024;

/// Sets the defaults of the mappings in a list. Equal items of a long list share one copy: there may be a
/// hundred thousand, and defaults take ten times the memory of the written fields.
fn each_sharing<'a>(entries: &mut Entries<'a>, key: &str, defaults: impl Fn(&mut Entries<'a>)) {
    let Some(items) = entries.get_mut(key).and_then(Stored::as_list_mut) else { return };
    let is_long = items.len() > MOST_SHARED;
    let mut shared: ByHash<(Entries<'a>, Arc<Entries<'a>>)> = ByHash::default();
    for item in items {
        let Some(fields) = item.as_mapping_mut() else { continue };
        let Some(hash) = is_long.then(|| stored_object::hash_of_small(fields)).flatten() else {
            defaults(fields);
            continue;
        };
        if let Some((_, all)) = shared.get(&hash).filter(|(written, _)| written == fields) {
            *item = Stored::Shared(Arc::clone(all));
        } else if shared.len() < MOST_SHARED && !shared.contains_key(&hash) {
            let written = fields.clone();
            let mut all = std::mem::take(fields);
            defaults(&mut all);
            let all = Arc::new(all);
            *item = Stored::Shared(Arc::clone(&all));
            shared.insert(hash, (written, all));
        } else {
            defaults(fields);
        }
    }
}

fn set<'a>(entries: &mut Entries<'a>, key: &'static str, value: impl Into<Stored<'a>>) {
    entries.get_or_insert_with(key, || value.into());
}

fn job(object: &mut Stored<'_>) {
    let Some(object) = object.as_mapping_mut() else { return };
    let Some(spec) = mapping(object, "spec") else { return };
    whole_job_spec(spec);
    let labels = spec.get("template").and_then(|template| template.get("metadata")?.get("labels")).cloned();
    if let Some(metadata) = mapping(object, "metadata")
        && let Some(labels) = labels
    {
        set(metadata, "labels", labels);
    }
    set(object, "status", Stored::Mapping(Entries::default()));
}

fn cron_job(object: &mut Stored<'_>) {
    let Some(object) = object.as_mapping_mut() else { return };
    mapping(object, "metadata");
    set(object, "status", Stored::Mapping(Entries::default()));
    let Some(spec) = mapping(object, "spec") else { return };
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    let Some(template) = mapping(spec, "jobTemplate") else { return };
    mapping(template, "metadata");
    if let Some(spec) = mapping(template, "spec") {
        job_spec(spec);
    }
}

/// The defaults of the spec of a Job.
fn whole_job_spec(spec: &mut Entries<'_>) {
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    set(
        spec,
        "backoffLimit",
        if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 },
    );
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(
        spec,
        "podReplacementPolicy",
        if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" },
    );
    set(spec, "manualSelector", false);
    job_spec(spec);
}

/// The defaults of a Job spec in both a Job and a `CronJob`.
fn job_spec(spec: &mut Entries<'_>) {
    if let Some(policy) = existing(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            each(rule, "onPodConditions").for_each(|pattern| set(pattern, "status", "True"));
        }
    }
    let Some(template) = mapping(spec, "template") else { return };
    mapping(template, "metadata");
    if let Some(pod) = mapping(template, "spec") {
        pod_spec(pod);
    }
}

fn pod_spec(pod: &mut Entries<'_>) {
    set(pod, "dnsPolicy", "ClusterFirst");
    set(pod, "restartPolicy", "Always");
    mapping(pod, "securityContext");
    set(pod, "terminationGracePeriodSeconds", 30);
    set(pod, "schedulerName", "default-scheduler");
    // The old and new name of the field have the same value.
    let account = pod.get("serviceAccountName").or_else(|| pod.get("serviceAccount")).cloned();
    if let Some(account) = account {
        pod.insert("serviceAccount", account.clone());
        pod.insert("serviceAccountName", account);
    }
    pod.remove("schedulingGroup");
    each_sharing(pod, "volumes", volume);
    for list in TEMPLATE.containers {
        each_sharing(pod, list.name, container);
    }
    if let Some(overhead) = existing(pod, "overhead") {
        round(overhead);
    }
    if let Some(resources) = existing(pod, "resources") {
        resource_lists(resources);
    }
}

fn container(container: &mut Entries<'_>) {
    let image = container.get("image").and_then(Stored::as_str).unwrap_or_default();
    let pull = pull_policy(image);
    set(container, "imagePullPolicy", pull);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    if let Some(resources) = mapping(container, "resources") {
        resource_lists(resources);
    }
    each_sharing(container, "ports", |port| set(port, "protocol", "TCP"));
    for variable in each(container, "env") {
        let Some(source) = existing(variable, "valueFrom") else { continue };
        field_source(source);
        if let Some(file) = existing(source, "fileKeyRef") {
            set(file, "optional", false);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = existing(container, name) else { continue };
        for (key, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            set(probe, key, value);
        }
        http(probe);
        if let Some(grpc) = existing(probe, "grpc") {
            set(grpc, "service", "");
        }
    }
    // These fields need feature gates that are off by default, as do `schedulingGroup` and `podCertificate`.
    if let Some(lifecycle) = existing(container, "lifecycle")
        && lifecycle.remove("stopSignal").is_some()
        && lifecycle.is_empty()
    {
        container.remove("lifecycle");
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = existing(lifecycle, name) {
                http(handler);
            }
        }
    }
}

fn http(handler: &mut Entries<'_>) {
    if let Some(request) = existing(handler, "httpGet") {
        set(request, "path", "/");
        set(request, "scheme", "HTTP");
    }
}

fn field_source(source: &mut Entries<'_>) {
    if let Some(field) = existing(source, "fieldRef") {
        set(field, "apiVersion", "v1");
    }
    if let Some(resource) = existing(source, "resourceFieldRef") {
        set(resource, "divisor", "0");
    }
}

/// The default of a field of a volume.
#[derive(Clone, Copy)]
enum Default {
    Text(&'static str),
    False,
}

impl From<Default> for Stored<'_> {
    fn from(value: Default) -> Self {
        match value {
            Default::Text(text) => text.into(),
            Default::False => false.into(),
        }
    }
}

fn volume(volume: &mut Entries<'_>) {
    if !volume.iter().any(|(key, _)| key != "name") {
        set(volume, "emptyDir", Stored::Mapping(Entries::default()));
    }
    const MODES: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];
    for key in MODES {
        if let Some(source) = existing(volume, key) {
            set(source, "defaultMode", 0o644);
            each(source, "items").for_each(field_source);
        }
    }
    if let Some(projected) = existing(volume, "projected") {
        for source in each(projected, "sources") {
            source.remove("podCertificate");
            if let Some(fields) = existing(source, "downwardAPI") {
                each(fields, "items").for_each(field_source);
            }
            if let Some(token) = existing(source, "serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
        }
    }
    const PLAIN: [(&str, &[(&str, Default)]); 5] = [
        ("hostPath", &[("type", Default::Text(""))]),
        ("iscsi", &[("iscsiInterface", Default::Text("default"))]),
        (
            "rbd",
            &[
                ("pool", Default::Text("rbd")),
                ("user", Default::Text("admin")),
                ("keyring", Default::Text("/etc/ceph/keyring")),
            ],
        ),
        (
            "azureDisk",
            &[
                ("cachingMode", Default::Text("ReadWrite")),
                ("fsType", Default::Text("ext4")),
                ("readOnly", Default::False),
                ("kind", Default::Text("Shared")),
            ],
        ),
        ("scaleIO", &[("storageMode", Default::Text("ThinProvisioned")), ("fsType", Default::Text("xfs"))]),
    ];
    for (key, defaults) in PLAIN {
        if let Some(source) = existing(volume, key) {
            for (key, value) in defaults {
                set(source, key, *value);
            }
        }
    }
    if let Some(image) = existing(volume, "image") {
        let pull = pull_policy(image.get("reference").and_then(Stored::as_str).unwrap_or_default());
        set(image, "pullPolicy", pull);
    }
    if let Some(template) =
        existing(volume, "ephemeral").and_then(|source| existing(source, "volumeClaimTemplate"))
    {
        mapping(template, "metadata");
        if let Some(spec) = mapping(template, "spec") {
            set(spec, "volumeMode", "Filesystem");
            for name in ["dataSource", "dataSourceRef"] {
                if let Some(source) = existing(spec, name) {
                    set(source, "apiGroup", Stored::Null);
                }
            }
            if let Some(resources) = mapping(spec, "resources") {
                resource_lists(resources);
            }
        }
    }
}

fn resource_lists(resources: &mut Entries<'_>) {
    for key in ["limits", "requests"] {
        if let Some(list) = existing(resources, key) {
            round(list);
        }
    }
}

/// Rounds the quantities of a resource list up to thousandths.
fn round(list: &mut Entries<'_>) {
    for value in list.values_mut() {
        if let Some(quantity) = value.quantity().ok().filter(Quantity::is_finer_than_milli) {
            *value = quantity.rounded_to_milli().canonical().into();
        }
    }
}

/// Returns the default `imagePullPolicy`: `Always` for images without a tag and for `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[path..].split_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    // The first part may be a host with a port and capitals; the rest must be a valid reference.
    let host =
        repository.split_once('/').filter(|(host, _)| host.contains(['.', ':']) || *host == "localhost");
    let rest = host.map_or(repository, |(_, rest)| rest);
    let fine = !rest.is_empty()
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/._-".contains(&byte));
    match (tag, digest) {
        _ if !fine => "IfNotPresent",
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::value::json;

    #[test]
    fn items_of_long_lists_have_the_defaults_of_short_ones() {
        let containers = [
            json!({}),
            json!({"name": "a"}),
            json!({"name": "b", "ports": [{"containerPort": 1}], "env": [{"valueFrom": {"fieldRef": {}}}]}),
            json!({"image": "i:latest", "args": (0..40).map(|_| json!("x")).collect::<Value>()}),
            json!({"unknown": 1}),
            json!(1),
        ];
        let of = |list: &[Value]| {
            let containers: Value = list.iter().cloned().collect();
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": containers}}}});
            let job = defaulted(&job);
            job["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default()
        };
        let short = of(&containers);
        let many: Vec<Value> = containers.iter().cycle().take(6 * 500).cloned().collect();
        for (nth, one) in of(&many).iter().enumerate() {
            assert_eq!(*one, short[nth % short.len()]);
        }
    }

    #[test]
    fn images_are_pulled_by_their_tag() {
        for (image, policy) in [
            ("i", "Always"),
            ("i:latest", "Always"),
            ("example.com:5000/t", "Always"),
            ("example.com:5000/t:v1", "IfNotPresent"),
            ("i@sha256:abc", "IfNotPresent"),
            ("i:latest@sha256:abc", "Always"),
            ("", "IfNotPresent"),
            ("Upper/Case", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn a_job_in_a_cron_job_gets_less() {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        let job =
            defaulted(&json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}));
        assert_eq!(job["spec"]["backoffLimit"], json!(6));
        assert_eq!(job["spec"]["podReplacementPolicy"], json!("TerminatingOrFailed"));
        let cron = defaulted(
            &json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}),
        );
        assert_eq!(
            cron["spec"]["jobTemplate"]["spec"].as_object().map(|spec| spec.keys().collect::<Vec<_>>()),
            Some(vec!["template"])
        );
        assert_eq!(cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"], json!("Always"));
    }

    #[test]
    fn what_stands_behind_a_closed_gate_is_dropped() {
        let stop = json!({"stopSignal": "SIGTERM"});
        let both = json!({"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}});
        let volumes =
            json!([{"name": "v", "projected": {"sources": [{"podCertificate": {"keyType": "ED25519"}}]}}]);
        let pod = json!({"schedulingGroup": {"podGroupName": "g"}, "volumes": volumes, "containers": [{"lifecycle": stop}, {"lifecycle": both}, {"lifecycle": {}}]});
        let got =
            defaulted(&json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}))
                ["spec"]["template"]["spec"]
                .clone();
        assert_eq!(
            (got.get("schedulingGroup"), &got["volumes"][0]["projected"]["sources"]),
            (None, &json!([{}]))
        );
        let lifecycles: Vec<Option<&Value>> =
            (0..3).map(|nth| got["containers"][nth].get("lifecycle")).collect();
        assert_eq!(
            lifecycles,
            [None, Some(&json!({"preStop": {"sleep": {"seconds": 1}}})), Some(&json!({}))]
        );
    }

    #[test]
    fn resources_are_rounded_and_canonical() {
        let resources = json!({"limits": {"cpu": 0.5, "memory": "1024Mi", "nvidia.com/gpu": 1}, "requests": {"cpu": "100n"}});
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [{"resources": resources}]}}}});
        let got = &defaulted(&object)["spec"]["template"]["spec"]["containers"][0]["resources"];
        assert_eq!(
            *got,
            json!({"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1m"}})
        );
    }

    proptest! {
        #[test]
        fn defaults_are_set_once(parallelism in proptest::option::of(0_i32..5), completions in proptest::option::of(0_i32..5), policy in proptest::bool::ANY, wrong in 0_usize..5) {
            let junk = [json!(null), json!(5), json!("x"), json!([1]), json!({"x": 1})][wrong].clone();
            let mut spec = json!({"parallelism": parallelism, "completions": completions, "template": {"spec": {"volumes": [junk.clone(), {"name": "v"}]}}});
            if policy {
                spec["podFailurePolicy"] = json!({"rules": [{"onPodConditions": [{"type": "a"}, junk]}]});
            }
            let object = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
            let once = defaulted(&object);
            prop_assert_eq!(defaulted(&once), once);
        }
    }
}
