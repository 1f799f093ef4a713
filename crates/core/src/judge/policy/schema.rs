//! The JSON Schema of policies for editors, generated from the rules.
//!
//! [`super::Policy::parse`] is stricter, and decides.

use super::{Action, tables};
use crate::judge::rule::{Param, ParamDefault, Rule};
use crate::judge::rules::RuleSet;
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
        "properties": tables::TOP.properties(),
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
                "properties": tables::MATCH.properties(),
            },
        },
    })
}

fn rule(rule: &Rule) -> Value {
    let actions: Vec<&str> = Action::allowed(rule.can_fill()).map(Action::as_str).collect();
    let params: Map = rule.params.iter().map(|param| (param.name.to_owned(), parameter(param))).collect();
    let mut settings = tables::RULE.properties();
    settings["action"]["enum"] = json!(actions);
    settings["action"]["default"] = rule.default.as_str().into();
    settings["params"]["properties"] = params.into();
    json!({
        "description": rule.summary,
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": settings,
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
