//! The places of a kind's objects, as its definition has them: what a test makes objects from.

use std::collections::BTreeMap;

use jobgate::kinds::{Api, Count, Definition, EACH, Finished, Kind, Path, Pods, Times};
use jobgate::text::value::{Value, json};

/// A place in the objects of a kind.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Fields of the mapping, if it is one.
    pub(crate) fields: BTreeMap<&'static str, Self>,
    /// Every item or entry, if it is a list or a mapping from names of the author's.
    pub(crate) each: Option<Box<Self>>,
    /// Whether `each` are entries.
    pub(crate) has_names: bool,
    /// Whether it is the mapping with the run limits.
    pub(crate) is_limits: bool,
    /// Whether it is the metadata of a run.
    pub(crate) is_metadata: bool,
    /// Whether it is the mapping with the schedule.
    pub(crate) is_schedule: bool,
    /// Whether it is a whole object of another kind.
    pub(crate) is_component: bool,
    /// Whether an object without it runs nothing.
    pub(crate) is_needed: bool,
    /// The pod templates in this mapping.
    pub(crate) pods: Vec<&'static Pods>,
}

/// The kinds for which the webhook is registered.
pub(crate) fn kinds() -> Vec<Kind> {
    Kind::all().filter(|kind| !kind.untested).collect()
}

/// Returns the schema of a kind's objects; an empty one for built-in kinds.
pub(crate) fn schema(kind: Kind) -> Value {
    match kind.api {
        Api::Custom { schema, .. } => serde_json::from_str(schema).expect("a schema"),
        Api::Job | Api::CronJob => json!({}),
    }
}

/// Returns the schema of what a field, an item or an entry may be; null if it is unknown.
pub(crate) fn below<'s>(schema: &'s Value, field: &str) -> &'s Value {
    let found = match field {
        EACH => schema.get("items").or_else(|| schema.get("additionalProperties")),
        field => schema.get("properties").and_then(|fields| fields.get(field)),
    };
    found.unwrap_or(&Value::Null)
}

impl Place {
    /// Returns the whole object of a kind.
    pub(crate) fn of(kind: Kind) -> Self {
        let mut object = Self::default();
        object.at(kind.body).is_needed = true;
        object.at(kind.run_metadata).is_metadata = true;
        object.at(kind.limits).is_limits = true;
        if let Some(schedule) = kind.schedule {
            object.at(schedule).is_schedule = true;
        }
        if let Some(components) = kind.components {
            object.at(components).is_component = true;
        }
        for pods in kind.pods {
            let around = object.at(pods.at);
            around.pods.push(pods);
            around.is_needed |= !matches!(pods.count, Count::One);
        }
        if let Some(roles) = kind.roles() {
            object.at(roles).has_names = true;
        }
        for path in named(&kind) {
            object.at(path);
        }
        for field in kind.release.iter().flat_map(|release| release.unless) {
            object.at(kind.limits).fields.entry(field).or_default();
        }
        object
    }

    /// Returns the place at the end of a path.
    fn at(&mut self, path: Path) -> &mut Self {
        path.iter().fold(self, |place, step| match *step {
            EACH => place.each.get_or_insert_default(),
            field => place.fields.entry(field).or_default(),
        })
    }

    /// Tells whether it is needed, or something below it is.
    pub(crate) fn leads_somewhere(&self) -> bool {
        self.is_needed
            || self.is_component
            || self.fields.values().chain(self.each.as_deref()).any(Self::leads_somewhere)
    }

    /// Tells whether the definition says no more of it than its name.
    pub(crate) fn is_only_named(&self) -> bool {
        let says = self.is_limits || self.is_metadata || self.is_schedule || self.is_component;
        !says && !self.is_needed && self.fields.is_empty() && self.each.is_none() && self.pods.is_empty()
    }
}

/// Returns the other fields that a definition names.
fn named(kind: &Definition) -> Vec<Path> {
    let mut named = kind.whole.to_vec();
    named.extend(kind.release.and_then(|release| release.twin));
    for pods in kind.pods {
        match pods.count {
            Count::Jobs(Times::Field(path, _)) | Count::RayWorkers { autoscales: path } => named.push(path),
            Count::Replicas { elastic: Some(elastic), .. } => named.extend([elastic.least, elastic.most]),
            Count::Jobs(_) | Count::Replicas { .. } | Count::Range | Count::One => {}
        }
    }
    named
}

/// Returns the status of an object that has finished.
pub(crate) fn finished(kind: Kind) -> Value {
    match kind.finished {
        Finished::Conditions(types) => json!({"conditions": [{"type": types[0], "status": "True"}]}),
        Finished::Field(path, words) => path
            .iter()
            .skip(1)
            .rev()
            .fold(Value::from(words[0]), |value, field| [(*field, value)].into_iter().collect()),
        Finished::Never => json!({}),
    }
}

/// Calls a function with everything that an object has at a path.
pub(crate) fn each_mut(object: &mut Value, path: &[&str], found: &mut dyn FnMut(&mut Value)) {
    match path {
        [] => found(object),
        [EACH, rest @ ..] => match object {
            Value::Array(items) => items.iter_mut().for_each(|item| each_mut(item, rest, found)),
            Value::Object(entries) => entries.values_mut().for_each(|entry| each_mut(entry, rest, found)),
            _ => {}
        },
        [field, rest @ ..] => {
            if let Some(value) = object.as_object_mut().and_then(|fields| fields.get_mut(field)) {
                each_mut(value, rest, found);
            }
        }
    }
}
