//! The schema of the API: fields, types and required fields, as a compact table.
//!
//! The table is made from schemas once, when it is first needed: those of built-in kinds are in
//! `schema/built_in.json`, which `cargo xtask generate` makes from Kubernetes' types; that of a custom resource
//! is beside its kind.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::kinds::{Api, EACH, Kind};
use crate::text::value;

/// The schemas of the built-in kinds, by definition.
const DEFINITIONS: &str = include_str!("schema/built_in.json");

/// A node of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u16);

/// The type of a value. `null` is always allowed, and means "unset".
#[derive(Debug)]
pub(super) enum SchemaShape {
    /// Anything.
    Any,
    /// A string.
    Text,
    /// A string with few values, or one that rules read: placeholders are reported.
    Choice,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A number.
    Number,
    /// A boolean.
    Bool,
    /// An integer or a string, such as a port.
    IntOrText,
    /// A resource quantity.
    Quantity,
    /// An RFC 3339 time.
    Time,
    /// A list of one shape.
    List(Id),
    /// A mapping from the author's keys to one shape.
    Map(Id),
    /// A mapping with fields.
    Object(SchemaFields),
}

/// The fields of a mapping, in a hash table: every field of every object is looked up twice.
#[derive(Debug)]
pub(super) struct SchemaFields {
    /// Names and shapes, sorted by name.
    fields: Vec<SchemaField>,
    /// A field's index plus 1, in the first free slot from the hash of its name; 0 in free slots. At least
    /// half are free.
    slots: Box<[u16]>,
    /// Names of required fields, sorted.
    pub(super) required: Vec<Box<str>>,
    /// Fields with a default, which the API server sets where they are missing.
    pub(super) defaults: Vec<(Box<str>, value::Value)>,
}

/// One field of a mapping.
#[derive(Debug)]
struct SchemaField {
    name: Box<str>,
    shape: Id,
}

/// Returns the slot of a name by its first 8 bytes and length. `slots` is a power of two.
fn slot(name: &str, slots: usize) -> usize {
    let begin = match name.as_bytes().first_chunk::<8>() {
        Some(begin) => u64::from_be_bytes(*begin),
        None => name.bytes().fold(0, |begin, byte| begin << 8 | u64::from(byte)),
    };
    // Fibonacci hashing: the upper half of the product depends on all bits.
    let mixed = (begin ^ name.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    mixed as usize & (slots - 1)
}

impl SchemaFields {
    fn new(mut fields: Vec<(&str, Id)>, mut required: Vec<Box<str>>) -> Self {
        fields.sort_unstable_by_key(|(name, _)| *name);
        required.sort();
        let fields: Vec<SchemaField> =
            fields.into_iter().map(|(name, shape)| SchemaField { name: name.into(), shape }).collect();
        let mut slots = vec![0; (2 * fields.len()).next_power_of_two().max(2)].into_boxed_slice();
        for (number, field) in (1..).zip(&fields) {
            let mut at = slot(&field.name, slots.len());
            while slots[at] != 0 {
                at = (at + 1) % slots.len();
            }
            slots[at] = number;
        }
        Self { fields, slots, required, defaults: Vec::new() }
    }

    /// Returns the shape of a field.
    pub(super) fn get(&self, name: &str) -> Option<Id> {
        self.field(name).map(|(_, shape)| shape)
    }

    /// Returns the name and the shape of a field.
    pub(super) fn field(&self, name: &str) -> Option<(&str, Id)> {
        let mut at = slot(name, self.slots.len());
        loop {
            let field = &self.fields[usize::from(self.slots[at]).checked_sub(1)?];
            if *field.name == *name {
                return Some((&field.name, field.shape));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the names of all fields, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_ref())
    }
}

/// The shape of one kind of object.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaRoot {
    /// The kind; nothing for a claim, which is not judged.
    pub(super) kind: Option<Kind>,
    /// The shape.
    pub(super) shape: Id,
    /// Whether the schema's required fields are checked, as for custom resources; built-in kinds have
    /// validation.
    pub(super) required: bool,
}

/// All shapes.
#[derive(Debug)]
pub(super) struct Schema {
    shapes: Vec<SchemaShape>,
    /// For each shape, whether it has defaults, or something below it has.
    defaulted: Vec<bool>,
    job: Id,
    cron_job: Id,
    claim: Id,
    custom: BTreeMap<Kind, Id>,
    metadata: Id,
    inner_metadata: Id,
}

/// Fields with strings of type [`SchemaShape::Choice`].
const CHOICES: [&str; 13] = [
    "claimName",
    "cleanPodPolicy",
    "completionMode",
    "concurrencyPolicy",
    "dnsPolicy",
    "effect",
    "imagePullPolicy",
    "operator",
    "podReplacementPolicy",
    "restartPolicy",
    "schedule",
    "timeZone",
    "whenUnsatisfiable",
];

/// The kinds of built-in objects that are read: Job, CronJob and claim.
const BUILT_IN: [&str; 3] =
    ["io.k8s.api.batch.v1.Job", "io.k8s.api.batch.v1.CronJob", "io.k8s.api.core.v1.PersistentVolumeClaim"];

/// The metadata of any object.
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The metadata fields of a pod template, Job or claim inside an object, as in the CustomResourceDefinitions of
/// all judged kinds: those that controller-gen writes.
const INNER_METADATA: [&str; 5] = ["annotations", "finalizers", "labels", "name", "namespace"];

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl Schema {
    /// Returns the table.
    pub(super) fn get() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(Self::build)
    }

    /// Returns the shape of an object's kind and version; nothing if unknown.
    pub(super) fn root(&self, object: &value::Value) -> Option<SchemaRoot> {
        let version = object.get("apiVersion").and_then(value::Value::as_str)?;
        let kind = Kind::from_object(object);
        let built_in = |shape| Some(SchemaRoot { kind, shape, required: false });
        let known = kind.filter(|kind| kind.knows(version));
        match known.map(|kind| kind.api) {
            Some(Api::Job) => built_in(self.job),
            Some(Api::CronJob) => built_in(self.cron_job),
            Some(Api::Custom { .. }) => {
                Some(SchemaRoot { kind, shape: *self.custom.get(&known?)?, required: true })
            }
            None if kind.is_none()
                && version == "v1"
                && object.get("kind").and_then(value::Value::as_str) == Some("PersistentVolumeClaim") =>
            {
                built_in(self.claim)
            }
            None => None,
        }
    }

    /// Returns the shape of a Job.
    pub(super) fn job(&self) -> Id {
        self.job
    }

    /// Returns a shape.
    pub(super) fn shape(&self, id: Id) -> &SchemaShape {
        &self.shapes[usize::from(id.0)]
    }

    /// Returns the shape to use inside a custom resource instead of a shape. There metadata has fewer fields.
    pub(super) fn inside(&self, id: Id) -> Id {
        if id == self.metadata { self.inner_metadata } else { id }
    }

    /// Tells whether a shape, or something below it, has defaults.
    pub(super) fn has_defaults(&self, id: Id) -> bool {
        self.defaulted[usize::from(id.0)]
    }

    fn build() -> Self {
        // Tests parse all schemas.
        let mut definitions: BTreeMap<String, Value> = serde_json::from_str(DEFINITIONS).unwrap_or_default();
        let customs: Vec<(Kind, String)> = Kind::all()
            .filter(|kind| !kind.is_built_in())
            .map(|kind| (kind, format!("{}.{}.{}", kind.resource, kind.version, kind.group)))
            .collect();
        for (kind, name) in &customs {
            if let Api::Custom { schema, .. } = kind.api {
                let mut schema = serde_json::from_str(schema).unwrap_or_default();
                kind.older_fields.iter().for_each(|(path, _)| add_anything(&mut schema, path));
                definitions.insert(name.clone(), schema);
            }
        }
        let inner = "metadata inside a custom resource".to_owned();
        if let Some(whole) = definitions.get(METADATA).and_then(|whole| whole.get("properties")?.as_object())
        {
            let fields = whole.iter().filter(|(name, _)| INNER_METADATA.contains(&name.as_str()));
            let fields: serde_json::Map<String, Value> =
                fields.map(|(name, schema)| (name.clone(), schema.clone())).collect();
            definitions.insert(inner.clone(), serde_json::json!({"type": "object", "properties": fields}));
        }
        let mut builder =
            SchemaBuilder { definitions: &definitions, shapes: Vec::new(), known: BTreeMap::new() };
        let [job, cron_job, claim] = BUILT_IN.map(|name| builder.named(name, ""));
        let custom = customs.iter().map(|(kind, name)| (*kind, builder.named(name, ""))).collect();
        let [metadata, inner_metadata] = [METADATA, &inner].map(|name| builder.named(name, ""));
        let defaulted = defaulted(&builder.shapes);
        Self { shapes: builder.shapes, defaulted, job, cron_job, claim, custom, metadata, inner_metadata }
    }
}

/// Adds a field that may hold anything to a schema; [`EACH`] in its path stands for the items of a list.
fn add_anything(schema: &mut Value, path: &[&str]) {
    let Some((last, around)) = path.split_last() else { return };
    let found = around.iter().try_fold(schema, |schema, key| match *key {
        EACH => schema.get_mut("items"),
        key => schema.get_mut("properties")?.get_mut(key),
    });
    if let Some(Value::Object(fields)) = found.and_then(|schema| schema.get_mut("properties")) {
        fields.insert((*last).to_owned(), Value::Object(serde_json::Map::new()));
    }
}

/// Returns for each shape whether it has defaults, or something below it has.
fn defaulted(shapes: &[SchemaShape]) -> Vec<bool> {
    let mut known = vec![false; shapes.len()];
    // Shapes may contain themselves, so repeat until nothing changes.
    loop {
        let is = |id: &Id| known[usize::from(id.0)];
        let found: Vec<bool> = shapes
            .iter()
            .map(|shape| match shape {
                SchemaShape::List(item) | SchemaShape::Map(item) => is(item),
                SchemaShape::Object(fields) => {
                    !fields.defaults.is_empty() || fields.fields.iter().any(|field| is(&field.shape))
                }
                _ => false,
            })
            .collect();
        if found == known {
            return known;
        }
        known = found;
    }
}

/// Turns JSON Schemas into the table.
struct SchemaBuilder<'d> {
    definitions: &'d BTreeMap<String, Value>,
    shapes: Vec<SchemaShape>,
    known: BTreeMap<&'d str, Id>,
}

impl<'d> SchemaBuilder<'d> {
    fn push(&mut self, shape: SchemaShape) -> Id {
        let id = u16::try_from(self.shapes.len()).unwrap_or(u16::MAX);
        self.shapes.push(shape);
        Id(id)
    }

    /// Adds a definition, unless it is there already.
    fn named(&mut self, name: &'d str, field: &str) -> Id {
        if let Some(id) = self.known.get(name) {
            return *id;
        }
        // For shapes that refer to themselves.
        let id = self.push(SchemaShape::Any);
        self.known.insert(name, id);
        let shape = match self.definitions.get(name) {
            Some(_) if name == QUANTITY => SchemaShape::Quantity,
            Some(definition) => self.shape(definition, field),
            None => SchemaShape::Any,
        };
        self.shapes[usize::from(id.0)] = shape;
        id
    }

    fn add(&mut self, schema: &'d Value, field: &str) -> Id {
        match schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| reference.strip_prefix("#/$defs/"))
        {
            Some(name) => self.named(name, field),
            None => {
                let shape = self.shape(schema, field);
                self.push(shape)
            }
        }
    }

    fn shape(&mut self, schema: &'d Value, field: &str) -> SchemaShape {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return SchemaShape::IntOrText;
        }
        match (text("type"), text("format")) {
            (Some("string"), Some("date-time")) => SchemaShape::Time,
            (Some("string"), _) if CHOICES.contains(&field) => SchemaShape::Choice,
            (Some("string"), _) => SchemaShape::Text,
            (Some("integer"), Some("int64")) => SchemaShape::Int64,
            (Some("integer"), _) => SchemaShape::Int32,
            (Some("number"), _) => SchemaShape::Number,
            (Some("boolean"), _) => SchemaShape::Bool,
            (Some("array"), _) => {
                schema.get("items").map_or(SchemaShape::Any, |items| SchemaShape::List(self.add(items, "")))
            }
            (Some("object"), _) => self.mapping(schema),
            _ => SchemaShape::Any,
        }
    }

    fn mapping(&mut self, schema: &'d Value) -> SchemaShape {
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            return SchemaShape::Map(self.add(values, ""));
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return SchemaShape::Any;
        };
        let fields =
            properties.iter().map(|(name, schema)| (name.as_str(), self.add(schema, name))).collect();
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // A field with a default is set before required fields are checked.
        let has_default =
            |name: &&str| properties.get(*name).is_some_and(|field| field.get("default").is_some());
        let required = required.iter().filter_map(Value::as_str).filter(|name| !has_default(name));
        let mut fields = SchemaFields::new(fields, required.map(Into::into).collect());
        fields.defaults = properties
            .iter()
            .filter_map(|(name, schema)| Some((name.as_str().into(), schema.get("default")?.clone().into())))
            .collect();
        SchemaShape::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(schema: &Schema, id: Id) -> Vec<&str> {
        match schema.shape(id) {
            SchemaShape::Object(fields) => fields.names().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let names =
            ["", "a", "ab", "b", "failure", "failureP", "failurePolicy", "failureThreshold", "z", "é"];
        let fields = SchemaFields::new(
            names.iter().rev().enumerate().map(|(nth, name)| (*name, Id(nth as u16))).collect(),
            Vec::new(),
        );
        assert!(fields.names().eq(names));
        assert!(["failurePolice", "failureQ", "c"].iter().all(|name| fields.get(name).is_none()));
        assert_eq!(SchemaFields::new(Vec::new(), Vec::new()).get("a"), None);
        for (nth, name) in names.iter().rev().enumerate() {
            assert_eq!(fields.get(name), Some(Id(nth as u16)), "{name}");
        }
        assert!(
            ["c", "failureT", "failureZ", "a\0", "abcdefgh"].iter().all(|name| fields.get(name).is_none())
        );
    }

    #[test]
    fn shapes_come_from_the_apis_own_types() {
        let schema = Schema::build();
        for id in
            [schema.job, schema.cron_job, schema.claim].into_iter().chain(schema.custom.values().copied())
        {
            if matches!(schema.shape(id), SchemaShape::Any) {
                // The vendor does not publish it.
                continue;
            }
            let names = names(&schema, id);
            assert!(names.starts_with(&["apiVersion", "kind", "metadata", "spec"]), "{names:?}");
        }
        let SchemaShape::Object(job) = schema.shape(schema.job) else { panic!("a Job is a mapping") };
        let spec = job.get("spec").expect("a Job has a spec");
        assert!(names(&schema, spec).contains(&"podReplacementPolicy"));
        assert!(schema.shapes.len() < 4000, "{}", schema.shapes.len());
    }
}
