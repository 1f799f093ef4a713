//! The JSON Schema of configurations for editors.
//!
//! [`super::Configuration::parse`] is stricter, and decides.

use super::KIND;
use super::read::{LEVELS, keys};
use crate::judge::rules::RuleSet;
use crate::judge::selection;
use crate::judge::settings::API_VERSION;
use crate::policies::BUILTINS;
use crate::text::value::{Map, Value, json};

/// Returns the JSON Schema (draft 2020-12) of configurations.
#[must_use]
pub fn schema() -> Value {
    let rules = RuleSet::built_in();
    let ids: Vec<_> = selection::ids(&rules).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobgate configuration",
        "description": "What `jobgate lint`, `dry-run` and `audit` do without being told: jobgate.yaml.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "additionalProperties": false,
        "properties": describe(keys::TOP, top),
        "$defs": {
            "policy": {
                "description": "A built-in policy, or the path of a policy file.",
                "anyOf": [{"enum": BUILTINS.map(|builtin| builtin.name)}, {"type": "string", "pattern": "\\S"}],
            },
            "namespace": {
                "description": "The namespace of manifests without one.",
                "type": "string",
                "pattern": "\\S",
            },
            "rule": {
                "anyOf": [{"enum": ids}, {"type": "string", "pattern": "[*?\\[{]"}],
            },
        },
    })
}

fn describe(keys: &[&str], field: impl Fn(&str) -> Value) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), field(key))).collect::<Map>().into()
}

fn top(key: &str) -> Value {
    match key {
        "apiVersion" => json!({"const": API_VERSION}),
        "kind" => json!({"const": KIND}),
        "policy" | "namespace" => json!({"$ref": format!("#/$defs/{key}")}),
        "paths" => texts("Files, directories and globs that are judged if the command line names none.", 1),
        "exclude" => texts("Files and directories that are skipped, in the syntax of .gitignore.", 0),
        "overrides" => json!({
            "description": "Policy and namespace for some paths. The last match wins.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": ["paths"],
                "anyOf": [{"required": ["policy"]}, {"required": ["namespace"]}],
                "additionalProperties": false,
                "properties": describe(keys::OVERRIDE, |key| match key {
                    "paths" => texts("The paths, in the syntax of .gitignore.", 1),
                    key => json!({"$ref": format!("#/$defs/{key}")}),
                }),
            },
        }),
        "baseline" => json!({
            "description": "The baseline of `jobgate lint`; its findings are not reported.",
            "type": "string",
            "pattern": "\\S",
        }),
        "failOn" => json!({
            "description": "The lowest level that makes the exit code 1.",
            "enum": LEVELS.map(|(word, _)| word),
            "default": "deny",
        }),
        "facts" => texts("Manifests of existing claims.", 1),
        "select" => rules("Only these rules and checks are used.", 1),
        "render" => json!({
            "description": "How charts and kustomizations are rendered.",
            "type": ["object", "null"],
            "additionalProperties": false,
            "properties": describe(keys::RENDER, render),
        }),
        _ => rules("These rules and checks are not used.", 0),
    }
}

fn render(key: &str) -> Value {
    let flag = |description: &str, default: bool| json!({"description": description, "type": "boolean", "default": default});
    match key {
        "charts" => flag("Whether charts are rendered.", true),
        "kustomizations" => flag("Whether kustomizations are rendered.", true),
        "values" => json!({
            "description": "Files of values. Each item is a rendering of its own.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": keys::VALUES,
                "additionalProperties": false,
                "properties": describe(keys::VALUES, |key| match key {
                    "charts" => texts("The directories of charts, in the syntax of .gitignore.", 1),
                    _ => texts("Files of values; later ones win.", 0),
                }),
            },
        }),
        "timeout" => json!({
            "description": "How long one rendering may take.",
            "type": "string",
            "pattern": "^[0-9]+[smh]?$",
            "default": "30s",
        }),
        "allowFailures" => texts(
            "The directories of charts and kustomizations that may fail to render, in the syntax of .gitignore.",
            0,
        ),
        _ => flag("Whether what a kustomization takes in from elsewhere is fetched.", false),
    }
}

fn texts(description: &str, least: usize) -> Value {
    json!({
        "description": description,
        "type": "array",
        "minItems": least,
        "items": {"type": "string", "pattern": "\\S"},
    })
}

fn rules(description: &str, least: usize) -> Value {
    json!({"description": description, "type": "array", "minItems": least, "items": {"$ref": "#/$defs/rule"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_read_is_in_it() {
        let schema = schema();
        let keys_of = |pointer: &str| -> Vec<String> {
            schema.pointer(pointer).unwrap().as_object().unwrap().keys().map(str::to_owned).collect()
        };
        let sorted = |keys: &[&str]| -> Vec<String> {
            let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            keys.sort();
            keys
        };
        let mut found = keys_of("/properties");
        found.sort();
        assert_eq!(found, sorted(keys::TOP));
        let mut found = keys_of("/properties/overrides/items/properties");
        found.sort();
        assert_eq!(found, sorted(keys::OVERRIDE));
        for (pointer, keys) in [
            ("/properties/render/properties", keys::RENDER),
            ("/properties/render/properties/values/items/properties", keys::VALUES),
        ] {
            let mut found = keys_of(pointer);
            found.sort();
            assert_eq!(found, sorted(keys));
        }
        let rules = schema["$defs"]["rule"]["anyOf"][0]["enum"].as_array().unwrap();
        assert_eq!(rules.len(), selection::ids(&RuleSet::built_in()).count());
    }
}
