//! Values of a file of settings, each checked for its type.

use std::ops::Range;

use super::Reader;
use crate::judge::finding::{Part, listed};
use crate::judge::settings::error::SettingsError;
use crate::judge::settings::table::SettingsTable;
use crate::text::lines::Position;
use crate::text::pointer::Pointer;
use crate::text::suggest::closest;
use crate::text::value::{Map, Value};

impl<'s> Reader<'s> {
    /// Returns the span of a place, or of the nearest existing place around it.
    fn span(&self, at: &Pointer, part: Part) -> Range<usize> {
        let mut place = Some(at.clone());
        while let Some(pointer) = place {
            if let Some(span) = self.document.locate(&pointer) {
                let range = match (part, span.key) {
                    (Part::Key, Some(key)) => key,
                    (Part::Value, Some(key)) if span.value.is_empty() => key,
                    _ => span.value,
                };
                return first_line(self.source, range);
            }
            place = pointer.parent();
        }
        first_line(self.source, self.document.span.clone())
    }

    /// Returns where a value starts.
    pub fn position(&self, at: &Pointer) -> Position {
        self.lines.position(self.span(at, Part::Value).start)
    }

    /// Adds an error about a part of a place, as long as errors are kept.
    pub fn error(&mut self, at: &Pointer, part: Part, message: impl Into<String>, help: Option<String>) {
        if self.only_counts() {
            return;
        }
        let span = self.span(at, part);
        self.errors.push(SettingsError::new(self.source, self.lines, span, message.into(), help));
    }

    /// Adds an error about a value.
    pub fn wrong(&mut self, at: &Pointer, message: impl Into<String>, help: Option<String>) {
        self.error(at, Part::Value, message, help);
    }

    /// Reads a mapping that may be left out or empty.
    pub(crate) fn mapping(&mut self, at: &Pointer, value: Option<&'s Value>, name: &str) -> Option<&'s Map> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(other) => {
                self.wrong(at, format!("{name} is a mapping, not {}", what(other)), None);
                None
            }
        }
    }

    /// Reads a mapping with fixed keys.
    pub fn fields(
        &mut self,
        at: &Pointer,
        value: Option<&'s Value>,
        name: &str,
        known: &'static SettingsTable,
    ) -> Fields<'s> {
        let map = self.mapping(at, value, name);
        for key in map.into_iter().flat_map(Map::keys).filter(|key| !known.has(key)) {
            let message = format!("{name} has no key `{}`", shown(key));
            self.error(&at.key(key), Part::Key, message, Some(hint(key, known.keys())));
        }
        Fields { at: at.clone(), map, known }
    }

    /// Reads a list that may be left out or, if `may_be_empty`, empty.
    pub fn list(
        &mut self,
        field: &Field<'s>,
        name: &str,
        may_be_empty: bool,
    ) -> impl Iterator<Item = Field<'s>> + use<'s> {
        let items: &[Value] = match field.value {
            None => &[],
            Some(Value::Null) if may_be_empty => &[],
            Some(Value::Array(items)) => {
                if items.is_empty() && !may_be_empty {
                    self.wrong(
                        &field.at,
                        format!("{name} is an empty list"),
                        Some("omit the key to match all".to_owned()),
                    );
                }
                items
            }
            Some(other) => {
                let help = matches!(other, Value::String(_))
                    .then(|| "write a single item in brackets: `[…]`".to_owned());
                self.wrong(&field.at, format!("{name} is a list, not {}", what(other)), help);
                &[]
            }
        };
        let at = field.at.clone();
        items.iter().enumerate().map(move |(index, value)| Field { at: &at / index, value: Some(value) })
    }

    /// Reads a string that is not empty.
    pub fn text(&mut self, field: &Field<'s>, name: &str) -> Option<&'s str> {
        match field.value? {
            Value::String(text) if !text.trim().is_empty() => return Some(text),
            Value::String(_) => self.wrong(&field.at, format!("{name} is empty"), None),
            other => {
                let help =
                    matches!(other, Value::Bool(_) | Value::Number(_)).then(|| "put it in quotes".to_owned());
                self.wrong(&field.at, format!("{name} is a string, not {}", what(other)), help);
            }
        }
        None
    }

    /// Reads a field that must be there.
    pub(crate) fn required(&mut self, fields: &Fields<'s>, key: &'static str, name: &str) -> Option<&'s str> {
        let field = fields.get(key);
        if field.value.is_none() {
            self.error(&fields.at, Part::Key, format!("{name} is missing"), None);
        }
        self.text(&field, name)
    }

    /// Reads a word from a list of words.
    pub fn choice<T: Copy>(
        &mut self,
        field: &Field<'s>,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let words = choices.iter().map(|(word, _)| *word);
        let message = match field.value? {
            Value::String(text) => match choices.iter().find(|(word, _)| word == text) {
                Some((_, choice)) => return Some(*choice),
                None => {
                    let help = hint(text, words);
                    self.wrong(&field.at, format!("{name} cannot be `{}`", shown(text)), Some(help));
                    return None;
                }
            },
            other => format!("{name} is a word, not {}", what(other)),
        };
        self.wrong(&field.at, message, Some(format!("expected {}", one_of(words))));
        None
    }

    /// Reads `true` or `false`.
    pub fn boolean(&mut self, field: &Field<'s>, name: &str) -> Option<bool> {
        match field.value? {
            Value::Bool(value) => Some(*value),
            other => {
                self.wrong(&field.at, format!("{name} is `true` or `false`, not {}", what(other)), None);
                None
            }
        }
    }

    /// Reads a key that is `true` or `false`, with the default of its table.
    pub fn flag(&mut self, fields: &Fields<'s>, key: &'static str) -> bool {
        let given = self.boolean(&fields.get(key), &format!("`{key}`"));
        given.unwrap_or_else(|| fields.known.is_on_by_default(key))
    }

    /// Reads a mapping with fixed keys that is a field of another one.
    pub(crate) fn nested(
        &mut self,
        outer: &Fields<'s>,
        key: &'static str,
        known: &'static SettingsTable,
    ) -> Fields<'s> {
        let field = outer.get(key);
        self.fields(&field.at, field.value, &format!("`{key}`"), known)
    }

    /// Reads a list of globs.
    pub(crate) fn globs(&mut self, field: &Field<'s>, name: &str) -> Vec<globset::GlobMatcher> {
        let mut globs = Vec::new();
        for item in self.list(field, name, false) {
            let Some(text) = self.text(&item, &format!("an item of {name}")) else { continue };
            match globset::Glob::new(text) {
                Ok(glob) => globs.push(glob.compile_matcher()),
                Err(error) => {
                    self.wrong(&item.at, format!("`{}` is not a glob: {}", shown(text), error.kind()), None);
                }
            }
        }
        globs
    }
}

/// Returns the part of a span on its first line that is not blank.
pub(super) fn first_line(source: &str, span: Range<usize>) -> Range<usize> {
    let Some(text) = source.get(span.clone()) else { return span };
    let start = span.start + (text.len() - text.trim_start().len());
    let length =
        source[start..span.end.max(start)].find(['\n', '\r']).unwrap_or(span.end.saturating_sub(start));
    start..start + length
}

/// Names the type of a value.
pub fn what(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Writes words as a list for a sentence: `a`, `b` or `c`.
pub fn one_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    listed(&words, "or")
}

/// Suggests the closest word, or lists all.
pub fn hint<'w>(word: &str, known: impl IntoIterator<Item = &'w str> + Clone) -> String {
    match closest(word, known.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("expected {}", one_of(known)),
    }
}

/// Makes a word of the source fit for one line of output.
pub fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    cut.escape_debug().to_string()
}

/// A value and its place; no value for a key that is left out.
pub struct Field<'s> {
    /// The place.
    pub at: Pointer,
    /// The value.
    pub value: Option<&'s Value>,
}

/// The fields of a mapping that may be left out.
pub struct Fields<'s> {
    /// The place of the mapping.
    pub at: Pointer,
    /// The mapping.
    pub map: Option<&'s Map>,
    /// Its keys.
    known: &'static SettingsTable,
}

impl<'s> Fields<'s> {
    /// Returns a field.
    pub fn get(&self, key: &'static str) -> Field<'s> {
        Field { at: &self.at / key, value: self.map.and_then(|map| map.get(key)) }
    }
}
