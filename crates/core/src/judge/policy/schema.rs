//! The JSON Schema of policies for editors, generated from the rules.
//!
//! [`super::Policy::parse`] is stricter, and decides.

use super::read::keys;
use super::{API_VERSION, Action, KIND, OptOut};
use crate::judge::rule::{Param, ParamDefault, Rule};
use crate::judge::rules::RuleSet;
use crate::kinds::Kind;
use crate::text::value::{Map, Value, json};

/// Returns the JSON Schema (draft 2020-12) of policies.
#[must_use]
pub fn schema(rules: &RuleSet) -> Value {
    let ids: Vec<&str> = rules.iter().map(|rule| &*rule.id).collect();
    let rules: Map = rules.iter().map(|own| (own.id.to_string(), rule(own))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobgate policy",
        "description": "What Jobgate does about each rule's findings, for which objects.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "additionalProperties": false,
        "properties": describe(keys::TOP, |key| match key {
            "apiVersion" => json!({"const": API_VERSION}),
            "kind" => json!({"const": KIND}),
            "metadata" => json!({
                "type": "object",
                "required": keys::METADATA,
                "additionalProperties": false,
                "properties": {"name": text("The policy's name, for logs, metrics and audit annotations.")},
            }),
            _ => json!({"type": ["object", "null"], "additionalProperties": false, "properties": describe(keys::SPEC, spec)}),
        }),
        "$defs": {
            "rules": {
                "description": "Settings by rule. Rules that are not set use their defaults.",
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": rules,
            },
            "ruleId": {"enum": ids},
            "match": {
                "description": "Selects objects. All given criteria must match.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": false,
                "properties": describe(keys::MATCH, matcher),
            },
        },
    })
}

/// Returns the schemas of a mapping's fields.
fn describe(keys: &[&str], field: impl Fn(&str) -> Value) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), field(key))).collect::<Map>().into()
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string", "pattern": "\\S"})
}

fn spec(key: &str) -> Value {
    match key {
        "rules" => json!({"$ref": "#/$defs/rules"}),
        "overrides" => json!({
            "description": "Settings for some objects, on top of the policy's. The last match wins.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": keys::OVERRIDE,
                "additionalProperties": false,
                "properties": describe(keys::OVERRIDE, |key| json!({"$ref": format!("#/$defs/{key}")})),
            },
        }),
        "exemptions" => json!({
            "description": "Suppresses findings of some rules for some objects.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": ["match", "reason"],
                "additionalProperties": false,
                "properties": describe(keys::EXEMPTION, exemption),
            },
        }),
        "optOut" => json!({
            "description": "Which findings an author may suppress with the annotation jobgate.dev/ignore.",
            "enum": OptOut::ALL.map(OptOut::as_str),
            "default": OptOut::default().as_str(),
        }),
        "reportFills" => json!({
            "description": "Whether the webhook warns about what it has filled in.",
            "type": "boolean",
            "default": true,
        }),
        _ => json!({
            "description": "User names of controllers whose objects were judged with their parent.",
            "type": ["array", "null"],
            "items": text("A user name."),
            "default": super::trusted_controllers().collect::<Vec<_>>(),
        }),
    }
}

fn exemption(key: &str) -> Value {
    match key {
        "rules" => json!({
            "description": "The rules whose findings are suppressed; all if it is not set.",
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/ruleId"},
        }),
        "reason" => text("Why it is needed. Shown with every suppressed finding."),
        "until" => json!({
            "description": "The last valid day. After it the exemption is reported and suppresses nothing.",
            "type": "string",
            "format": "date",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        }),
        _ => json!({"$ref": "#/$defs/match"}),
    }
}

fn matcher(key: &str) -> Value {
    match key {
        "namespaces" => globs("Globs; the object's namespace must match one."),
        "names" => globs("Globs; the object's name must match one."),
        "kinds" => json!({
            "description": "The object must be of one of these kinds.",
            "type": "array",
            "minItems": 1,
            "items": {"enum": Kind::titles()},
        }),
        "labels" => json!({
            "description": "Labels the object must have.",
            "type": "object",
            "additionalProperties": {"type": "string"},
        }),
        _ => json!({
            "description": "true: one of the object's pods requests an accelerator. false: none does.",
            "type": "boolean",
        }),
    }
}

fn globs(description: &str) -> Value {
    json!({"description": description, "type": "array", "minItems": 1, "items": {"type": "string", "pattern": "\\S"}})
}

fn rule(rule: &Rule) -> Value {
    let actions: Vec<&str> = Action::allowed(rule.can_fill()).map(Action::as_str).collect();
    let params: Map = rule.params.iter().map(|param| (param.name.to_owned(), parameter(param))).collect();
    json!({
        "description": rule.summary,
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "action": {
                "description": "deny: refuse the object. warn: admit it with a warning. \
                                fill: write the value in. ignore: skip the rule.",
                "enum": actions,
                "default": rule.default.as_str(),
            },
            "params": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": params,
            },
        },
    })
}

fn parameter(param: &Param) -> Value {
    let mut schema = match &param.default {
        ParamDefault::Bool(_) => json!({"type": "boolean"}),
        ParamDefault::Int { least, .. } => json!({"type": "integer", "minimum": least}),
        ParamDefault::Strings(_) => json!({"type": "array", "items": {"type": "string", "pattern": "\\S"}}),
        ParamDefault::Word(words) => json!({"enum": words}),
        ParamDefault::Map(_) => {
            json!({"type": "object", "additionalProperties": {"type": "string", "pattern": "^$|\\S"}})
        }
    };
    schema["description"] = param.doc.into();
    schema["default"] = param.default.to_value();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_parameter_is_in_it() {
        let schema = schema(&RuleSet::built_in());
        let rules = &schema["$defs"]["rules"]["properties"];
        for rule in &RuleSet::built_in() {
            let own = &rules[&*rule.id];
            assert_eq!(own["description"].as_str(), Some(&*rule.summary));
            let actions = own["properties"]["action"]["enum"].as_array().unwrap();
            assert_eq!(actions.contains(&json!("fill")), rule.can_fill(), "{}", rule.id);
            for param in rule.params {
                let schema = &own["properties"]["params"]["properties"][param.name];
                assert_eq!(
                    (&schema["description"], &schema["default"]),
                    (&json!(param.doc), &param.default.to_value())
                );
            }
        }
        assert_eq!(schema["$defs"]["ruleId"]["enum"].as_array().unwrap().len(), RuleSet::built_in().len());
    }

    #[test]
    fn every_key_that_is_read_is_in_it() {
        let schema = schema(&RuleSet::built_in());
        let keys_of = |pointer: &str| -> Vec<String> {
            schema.pointer(pointer).unwrap().as_object().unwrap().keys().map(str::to_owned).collect()
        };
        let sorted = |keys: &[&str]| -> Vec<String> {
            let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            keys.sort();
            keys
        };
        assert_eq!(keys_of("/properties"), sorted(keys::TOP));
        assert_eq!(keys_of("/properties/metadata/properties"), sorted(keys::METADATA));
        assert_eq!(keys_of("/properties/spec/properties"), sorted(keys::SPEC));
        assert_eq!(keys_of("/properties/spec/properties/overrides/items/properties"), sorted(keys::OVERRIDE));
        assert_eq!(
            keys_of("/properties/spec/properties/exemptions/items/properties"),
            sorted(keys::EXEMPTION)
        );
        assert_eq!(keys_of("/$defs/match/properties"), sorted(keys::MATCH));
        assert_eq!(keys_of("/$defs/rules/properties/deadline/properties"), sorted(keys::RULE));
    }

    #[test]
    fn references_lead_somewhere() {
        fn walk(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| walk(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let schema = schema(&RuleSet::built_in());
        let mut found = Vec::new();
        walk(&schema, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(schema.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
        }
    }
}
