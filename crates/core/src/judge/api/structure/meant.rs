//! What an unknown field may be: a misspelling, or a field of another release.

use super::{IN_QUOTES, StructureWalk, short};
use crate::judge::api::ObjectReading;
use crate::judge::api::schema::{Id, SchemaFields, SchemaShape};
use crate::judge::checks::UNKNOWN_FIELD;
use crate::judge::finding::{Level, Safety};
use crate::kinds::Kind;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

impl StructureWalk<'_> {
    /// Returns the level and message for a field of a custom resource that is like no other: a release of the
    /// operator that Jobgate does not know may have it. Nothing for a body that is answered as by the release
    /// that it knows, and for metadata, which no operator defines.
    pub(super) fn of_release(&self, key: &str, at: &Pointer) -> Option<(Level, String)> {
        let is_metadata =
            at.tokens().iter().any(|token| matches!(token, Token::Key(key) if *key == "metadata"));
        if is_metadata || self.reading == (ObjectReading::Body { strict: true }) {
            return None;
        }
        let release =
            Kind::of(self.object).map(|kind| kind.schema_of).filter(|release| !release.is_empty())?;
        let lacks = format!("unknown field `{}`: {release} does not have it", short(key));
        let message = match self.reading {
            ObjectReading::Manifest | ObjectReading::Body { strict: true } => {
                format!("{lacks}, so the API server rejects it unless the cluster's release does")
            }
            ObjectReading::Body { strict: false } | ObjectReading::Inside => {
                format!("{lacks}, so the API server drops it silently unless the cluster's release does")
            }
        };
        Some((Level::Warn, message))
    }

    /// Reports fields of a manifest that only earlier releases of the operator have.
    pub(super) fn older_fields(&mut self) {
        let Some(kind) = Kind::of(self.object).filter(|_| self.reading == ObjectReading::Manifest) else {
            return;
        };
        for (path, help) in kind.older_fields {
            let at = Pointer::of(path);
            if at.find(self.object).is_some()
                && let Some((level, message)) = self.of_release(path.last().unwrap_or(&""), &at)
            {
                self.report(UNKNOWN_FIELD, level, at, message, (*help).to_owned()).at_key();
            }
        }
    }

    /// Tells whether a field may be given the name of a similar one: if the value has its type, and the name is a
    /// misspelling. Text under a longer name has another form: `runtimeEnv` was base64, `runtimeEnvYAML` is YAML.
    pub(super) fn may_be_renamed(
        &self,
        key: &str,
        value: &Value,
        (name, fields): (&str, &SchemaFields),
    ) -> bool {
        let Some(field) = fields.get(name) else { return false };
        let is_text = matches!(self.schema.shape(field), SchemaShape::Text | SchemaShape::Any);
        self.fits(field, value) && self.has_type(field, value) && !(is_text && name.starts_with(key))
    }

    /// Tells whether a scalar has the type of a field, or is one that has another finding for it.
    fn has_type(&self, id: Id, value: &Value) -> bool {
        match self.schema.shape(id) {
            SchemaShape::Text | SchemaShape::Choice | SchemaShape::Time => value.is_string(),
            SchemaShape::Int32 | SchemaShape::Int64 | SchemaShape::Number => value.as_number().is_some(),
            SchemaShape::Bool => value.as_bool().is_some(),
            _ => true,
        }
    }
}

/// Returns the help for a value of the wrong type, and the value that was probably meant.
pub(super) fn correction(shape: &SchemaShape, value: &Value) -> (String, Option<(Safety, Value)>) {
    match (shape, value) {
        (SchemaShape::Int32 | SchemaShape::Int64, Value::String(text)) if text.parse::<i32>().is_ok() => {
            let number: Value = text.parse::<i32>().unwrap_or_default().into();
            (format!("write it without quotes: {number}"), Some((Safety::Safe, number)))
        }
        (SchemaShape::Bool, Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            (format!("write it without quotes: {text}"), Some((Safety::Safe, (text == "true").into())))
        }
        // The text in the file may differ (`yes`, `0777`); see [`quote`].
        (SchemaShape::Text | SchemaShape::Choice, Value::Number(_) | Value::Bool(_)) => {
            (IN_QUOTES.to_owned(), Some((Safety::Unsafe, value.to_string().into())))
        }
        (SchemaShape::Quantity, Value::Number(_)) => {
            (IN_QUOTES.to_owned(), Some((Safety::Safe, value.to_string().into())))
        }
        (SchemaShape::List(_), Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            ("write it as a list of one item".to_owned(), None)
        }
        (SchemaShape::List(_), Value::Object(fields)) => {
            let rest =
                if fields.len() > 1 { ", and move its other keys two columns to the right," } else { "" };
            (format!("put `- ` before its first key{rest} so that it is a list of one item"), None)
        }
        (SchemaShape::Map(_) | SchemaShape::Object(_), Value::Array(_)) => {
            ("write keys and values instead of a list".to_owned(), None)
        }
        _ => ("write a value of that type".to_owned(), None),
    }
}
