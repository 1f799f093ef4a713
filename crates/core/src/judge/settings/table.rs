//! Tables of settings: a row for each key of a mapping. They define the keys that are read, the JSON Schema for
//! editors, which the language server also uses for completion, and tables of the manual.
//!
//! The reader of a file is stricter than the schema, and decides.

use std::fmt::Write as _;

use crate::text::value::{Map, Value, json};

/// The keys of a mapping, in the order in which they are listed to people.
#[derive(Debug)]
pub struct SettingsTable(pub &'static [Setting]);

/// One key of a mapping.
#[derive(Debug)]
pub struct Setting {
    /// The key.
    pub(crate) key: &'static str,
    /// Its description: a phrase in Markdown; empty if another table has it.
    pub what: &'static str,
    /// Its values.
    pub(crate) form: Values,
    /// The command-line option that belongs to it, in Markdown; empty if there is none.
    pub(crate) option: &'static str,
}

/// The values of a key.
#[derive(Debug)]
pub enum Values {
    /// This text.
    Const(&'static str),
    /// A text that is not blank.
    Text,
    /// A list of at least so many texts.
    Texts(usize),
    /// `true` or `false`, and the default.
    Flag(Option<bool>),
    /// One of some words, and the default.
    Word(&'static [&'static str], &'static str),
    /// A mapping.
    Mapping(&'static SettingsTable),
    /// A mapping that has all its keys.
    Whole(&'static SettingsTable),
    /// A list of mappings.
    Mappings {
        /// Their keys.
        of: &'static SettingsTable,
        /// The keys that each must have.
        required: &'static [&'static str],
        /// The keys of which each must have at least one.
        any: &'static [&'static str],
    },
    /// The schema's definition of this name, which is used in several places.
    Defined(&'static str),
    /// Values that depend on rules or kinds, or have a form of their own: a function that returns their schema.
    Own(fn() -> Value),
}

impl Setting {
    /// Returns a row.
    #[must_use]
    pub const fn new(key: &'static str, what: &'static str, form: Values) -> Self {
        Self { key, what, form, option: "" }
    }

    /// Returns the row with its command-line option.
    #[must_use]
    pub const fn option(self, option: &'static str) -> Self {
        Self { option, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = self.form.schema();
        if !self.what.is_empty() && !matches!(self.form, Values::Defined(_)) {
            schema["description"] = sentence(self.what).into();
        }
        schema
    }
}

impl Values {
    fn schema(&self) -> Value {
        match self {
            Self::Const(text) => json!({"const": text}),
            Self::Text => json!({"type": "string", "pattern": "\\S"}),
            Self::Texts(least) => json!({"type": "array", "minItems": least, "items": Self::Text.schema()}),
            Self::Flag(None) => json!({"type": "boolean"}),
            Self::Flag(Some(default)) => json!({"type": "boolean", "default": default}),
            Self::Word(words, default) => json!({"enum": words, "default": default}),
            Self::Mapping(table) => table.mapping(json!(["object", "null"]), &[]),
            Self::Whole(table) => table.mapping("object".into(), &table.keys().collect::<Vec<_>>()),
            Self::Mappings { of, required, any } => {
                let mut items = of.mapping("object".into(), required);
                if !any.is_empty() {
                    items["anyOf"] = any.iter().map(|key| json!({"required": [key]})).collect();
                }
                json!({"type": ["array", "null"], "items": items})
            }
            Self::Defined(name) => json!({"$ref": format!("#/$defs/{name}")}),
            Self::Own(schema) => schema(),
        }
    }
}

impl SettingsTable {
    /// Returns the keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let Self(settings) = *self;
        settings.iter().map(|setting| setting.key)
    }

    /// Tells whether it has a key.
    #[must_use]
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }

    /// Tells whether a flag is on if its key is left out.
    pub(super) fn is_on_by_default(&self, key: &str) -> bool {
        let flag = self.0.iter().find_map(|setting| match setting.form {
            Values::Flag(default) if setting.key == key => default,
            _ => None,
        });
        debug_assert!(flag.is_some(), "`{key}` is no flag with a default");
        flag.unwrap_or_default()
    }

    /// Returns the schemas of the keys.
    #[must_use]
    pub fn properties(&self) -> Value {
        self.0.iter().map(|setting| (setting.key.to_owned(), setting.schema())).collect::<Map>().into()
    }

    /// Returns the schema of the mapping.
    fn mapping(&self, of_type: Value, required: &[&str]) -> Value {
        let mut schema =
            json!({"type": of_type, "additionalProperties": false, "properties": self.properties()});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// Returns a Markdown table of the keys that have a description, with a third column.
    #[must_use]
    pub fn to_markdown(&self, first: &str, third: Column) -> String {
        let title = match third {
            Column::None => "| what |",
            Column::Option => "| what | option |",
            Column::Default => "| what | default |",
        };
        let rule = if third == Column::None { "---|" } else { "---|---|" };
        let mut out = format!("| {first} {title}\n|---|{rule}\n");
        for setting in self.0.iter().filter(|setting| !setting.what.is_empty()) {
            let _ = write!(out, "| `{}` | {} |", setting.key, setting.what);
            let _ = match third {
                Column::None => Ok(()),
                Column::Option if setting.option.is_empty() => write!(out, " |"),
                Column::Option => write!(out, " {} |", setting.option),
                Column::Default => match setting.form.schema().get("default") {
                    Some(Value::String(text)) => write!(out, " `{text}` |"),
                    Some(default @ (Value::Bool(_) | Value::Number(_))) => write!(out, " `{default}` |"),
                    _ => write!(out, " |"),
                },
            };
            out.push('\n');
        }
        out
    }
}

/// The third column of a table in Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// None.
    None,
    /// The command-line option that belongs to a key.
    Option,
    /// The default.
    Default,
}

/// Returns a phrase in Markdown as a sentence without links.
fn sentence(phrase: &str) -> String {
    let mut out = String::with_capacity(phrase.len() + 1);
    let mut rest = phrase;
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        match link.split_once("](").and_then(|(text, target)| Some((text, target.split_once(')')?.1))) {
            Some((text, behind)) => {
                out.push_str(text);
                rest = behind;
            }
            None => {
                out.push('[');
                rest = link;
            }
        }
    }
    out.push_str(rest);
    let mut chars = out.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    static INNER: SettingsTable = SettingsTable(&[Setting::new("a", "how far", Values::Text)]);
    static TABLE: SettingsTable = SettingsTable(&[
        Setting::new("kind", "", Values::Const("K")),
        Setting::new("on", "whether [it](x.md) is", Values::Flag(Some(true))).option("`--on`"),
        Setting::new("items", "all of `them`", Values::Mappings { of: &INNER, required: &["a"], any: &[] }),
    ]);

    #[test]
    fn a_table_is_a_schema() {
        let schema = json!({
            "kind": {"const": "K"},
            "on": {"type": "boolean", "default": true, "description": "Whether it is."},
            "items": {
                "type": ["array", "null"],
                "description": "All of `them`.",
                "items": {
                    "type": "object",
                    "required": ["a"],
                    "additionalProperties": false,
                    "properties": {"a": {"type": "string", "pattern": "\\S", "description": "How far."}},
                },
            },
        });
        assert_eq!(TABLE.properties(), schema);
    }

    #[test]
    fn a_table_is_one_of_the_manual() {
        assert_eq!(
            TABLE.to_markdown("key", Column::Option),
            "| key | what | option |\n|---|---|---|\n| `on` | whether [it](x.md) is | `--on` |\n| `items` | all of `them` | |\n"
        );
        assert_eq!(
            TABLE.to_markdown("key", Column::Default),
            "| key | what | default |\n|---|---|---|\n| `on` | whether [it](x.md) is | `true` |\n| `items` | all of `them` | |\n"
        );
    }
}
