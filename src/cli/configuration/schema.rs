//! The JSON Schema of configurations for editors.
//!
//! [`super::Configuration::parse`] is stricter, and decides.

use super::tables;
use crate::judge::rules::RuleSet;
use crate::judge::selection;
use crate::policies::BUILTINS;
use crate::text::value::{Value, json};

/// Returns the JSON Schema (draft 2020-12) of configurations.
#[must_use]
pub fn schema() -> Value {
    let rules = RuleSet::built_in();
    let ids: Vec<_> = selection::ids(&rules).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobgate configuration",
        "description": "Defaults of `jobgate lint`, `dry-run` and `audit`: jobgate.yaml.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "additionalProperties": false,
        "properties": tables::TOP.properties(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::configuration::read::LEVELS;

    #[test]
    fn every_rule_and_check_is_in_it() {
        let schema = schema();
        let rules = schema["$defs"]["rule"]["anyOf"][0]["enum"].as_array().unwrap();
        assert_eq!(rules.len(), selection::ids(&RuleSet::built_in()).count());
    }

    #[test]
    fn the_words_of_fail_on_are_those_that_are_read() {
        let words = &schema()["properties"]["failOn"]["enum"];
        assert_eq!(*words, json!(LEVELS.map(|(word, _)| word)));
    }
}
