//! Completion of names of rules, keys, parameters and values.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::document::{DocumentType, LspDocument};
use super::keys::{self, CursorPosition, PathStep};
use super::text::{self, Encoding};
use crate::cli::configuration;
use crate::judge::checks;
use crate::judge::engine::{IGNORE, KEEP};
use crate::judge::policy;
use crate::judge::rules::RuleSet;
use crate::text::lines::Lines;
use crate::text::value::Value;

static POLICY: LazyLock<Value> = LazyLock::new(|| policy::schema(&RuleSet::built_in()));
static CONFIGURATION: LazyLock<Value> = LazyLock::new(configuration::schema);

/// The kinds of the protocol for a key and for a value.
const PROPERTY: u8 = 10;
const VALUE: u8 = 12;

/// Returns the schema of a document.
pub(super) fn schema_of(form: DocumentType) -> Option<&'static Value> {
    match form {
        DocumentType::Policy => Some(&POLICY),
        DocumentType::Configuration => Some(&CONFIGURATION),
        DocumentType::Manifest => None,
    }
}

/// One proposal.
struct CompletionItem {
    label: String,
    /// The text to insert.
    text: String,
    detail: String,
    documentation: String,
    kind: u8,
}

/// Returns the completions at a place.
pub(super) fn items(document: &LspDocument, offset: usize, encoding: Encoding) -> Vec<Json> {
    let text = &document.text;
    let at = keys::at(text, offset);
    let items = match schema_of(document.form()) {
        Some(schema) => in_settings(schema, &at, is_before_value(text, &at)),
        None => in_manifest(text, &at),
    };
    if items.is_empty() {
        return Vec::new();
    }
    let lines = Lines::new(text.as_bytes());
    let range = text::range(&lines, &at.word, encoding);
    let item = |item: CompletionItem| {
        json!({
            "label": item.label,
            "kind": item.kind,
            "detail": item.detail,
            "documentation": {"kind": "markdown", "value": item.documentation},
            "filterText": item.label,
            "textEdit": {"range": range, "newText": item.text},
        })
    };
    items.into_iter().map(item).collect()
}

/// Tells whether the key already has its colon.
fn is_before_value(text: &str, at: &CursorPosition) -> bool {
    text[at.word.end..].trim_start_matches(['"', '\'']).starts_with(':')
}

fn in_settings(schema: &Value, at: &CursorPosition, has_colon: bool) -> Vec<CompletionItem> {
    let part = keys::schema_at(schema, &at.path).and_then(|part| keys::followed(schema, part));
    let Some(part) = part else { return Vec::new() };
    let properties = part.get("properties").and_then(Value::as_object).filter(|_| at.is_key);
    let mut items: Vec<CompletionItem> = properties
        .into_iter()
        .flatten()
        .map(|(key, field)| {
            let field = keys::followed(schema, field).unwrap_or(field);
            CompletionItem {
                label: key.to_owned(),
                text: if has_colon { key.to_owned() } else { format!("{key}: ") },
                detail: default_of(field),
                documentation: words(field, "description"),
                kind: PROPERTY,
            }
        })
        .collect();
    // An unfinished list item may become a mapping or a value.
    if !at.is_key || at.path.last() == Some(&PathStep::Item) {
        items.extend(values(part));
    }
    items
}

/// Returns the values that a part of a schema lists.
fn values(part: &Value) -> Vec<CompletionItem> {
    let of_either = part.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let listed = of_either.chain([part]).filter_map(|part| part.get("enum")?.as_array()).flatten();
    let mut found: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
    found.extend(part.get("const").and_then(Value::as_str).map(str::to_owned));
    if part.get("type").and_then(Value::as_str) == Some("boolean") {
        found.extend(["true", "false"].map(str::to_owned));
    }
    if found.is_empty() {
        let default = part.get("default").filter(|default| !default.is_array() && !default.is_object());
        found.extend(default.map(|default| default.to_json().to_string()));
    }
    let default = default_of(part);
    let item = |value: String| CompletionItem {
        detail: if default == format!("default: {value}") { "default".to_owned() } else { String::new() },
        documentation: summary(&value).map_or_else(|| words(part, "description"), Cow::into_owned),
        text: value.clone(),
        label: value,
        kind: VALUE,
    };
    found.into_iter().map(item).collect()
}

fn words(part: &Value, key: &str) -> String {
    part.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the default of a part of a schema, in words.
pub(super) fn default_of(part: &Value) -> String {
    match part.get("default") {
        Some(Value::String(text)) => format!("default: {text}"),
        Some(default) => format!("default: {}", default.to_json()),
        None => String::new(),
    }
}

/// Returns the summary of a rule or check.
fn summary(id: &str) -> Option<Cow<'static, str>> {
    let check = || checks::find(id).map(|check| check.summary.into());
    RuleSet::built_in().find(id).map(|rule| rule.summary.clone()).or_else(check)
}

fn in_manifest(text: &str, at: &CursorPosition) -> Vec<CompletionItem> {
    match at.path.last() {
        Some(PathStep::Key(key)) if !at.is_key && (key == KEEP || key == IGNORE) => {
            let is_listed = |id: &str| {
                let line = text[..at.word.start].rsplit('\n').next().unwrap_or_default();
                line.split([':', ',', '"', '\'', ' ']).any(|listed| listed == id)
            };
            let rules = RuleSet::built_in();
            let rules =
                rules.iter().filter(|rule| (key == IGNORE || rule.can_fill()) && !is_listed(&rule.id));
            let item = |rule: &crate::judge::rule::Rule| CompletionItem {
                label: rule.id.to_string(),
                text: rule.id.to_string(),
                detail: rule.problem.to_string(),
                documentation: rule.summary.to_string(),
                kind: VALUE,
            };
            rules.map(item).collect()
        }
        Some(PathStep::Key(key)) if at.is_key && key == "annotations" => {
            let has_colon = is_before_value(text, at);
            let item = |key: &str, documentation: &str| CompletionItem {
                label: key.to_owned(),
                text: if has_colon { key.to_owned() } else { format!("{key}: ") },
                detail: String::new(),
                documentation: documentation.to_owned(),
                kind: PROPERTY,
            };
            vec![
                item(KEEP, "Rules that fill in no value here, separated by commas."),
                item(
                    IGNORE,
                    "Rules whose warnings are suppressed, separated by commas, where the policy allows it.",
                ),
            ]
        }
        _ => Vec::new(),
    }
}
