//! The schemas of the built-in kinds, generated from the types of k8s-openapi, and reduced to what the shapes of the
//! product need.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The keywords of JSON Schema that the shapes are made from.
const KEYWORDS: [&str; 8] = [
    "$ref",
    "additionalProperties",
    "format",
    "items",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
];

/// Returns the file with a schema by the name of each definition, one definition per line.
pub(crate) fn built_in() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<Job>();
    generator.subschema_for::<CronJob>();
    generator.subschema_for::<PersistentVolumeClaim>();
    // The schemas of custom resources refer to these.
    generator.subschema_for::<PodTemplateSpec>();
    generator.subschema_for::<MetricSpec>();
    let definitions: BTreeMap<String, Value> = generator.take_definitions(false).into_iter().collect();
    let lines: Vec<String> = definitions
        .iter()
        .map(|(name, schema)| format!("{}: {}", Value::from(name.as_str()), reduced(schema)))
        .collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// Returns a schema with the keywords that are read, sorted.
fn reduced(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    let by_name = |value: &Value| {
        let fields = value.as_object().into_iter().flatten();
        fields.map(|(name, schema)| (name.clone(), reduced(schema))).collect::<Map<_, _>>().into()
    };
    KEYWORDS
        .iter()
        .filter_map(|keyword| {
            let value = schema.get(*keyword)?;
            let value = match *keyword {
                "properties" => by_name(value),
                "items" | "additionalProperties" => reduced(value),
                "required" => required(schema, value),
                _ => value.clone(),
            };
            Some(((*keyword).to_owned(), value))
        })
        .collect::<Map<_, _>>()
        .into()
}

/// Returns the required fields except for the names of references: these are required by the descriptions, but have a
/// default in the schemas of API servers.
fn required(schema: &Map<String, Value>, names: &Value) -> Value {
    let has_default = |name: &Value| {
        let field = schema.get("properties")?.get(name.as_str()?)?;
        Some(field.get("description")?.as_str()?.contains("is allowed to be empty"))
    };
    let names = names.as_array().into_iter().flatten();
    names.filter(|name| !has_default(name).unwrap_or_default()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_keep_what_shapes_need() {
        let name = json!({"type": "string", "description": "This field is allowed to be empty."});
        let schema = json!({
            "description": "What it is.",
            "properties": {"name": name, "description": {"type": "string"}},
            "required": ["name", "description"],
            "type": "object",
        });
        let expected = json!({
            "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
            "required": ["description"],
            "type": "object",
        });
        assert_eq!(reduced(&schema), expected);
    }
}
