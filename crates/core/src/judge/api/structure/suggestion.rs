//! What an unknown field may be: a misspelling, or a field of another release.

use super::{IN_QUOTES, StructureWalk, short};
use crate::judge::api::ObjectReading;
use crate::judge::api::schema::{Id, SchemaFields, SchemaShape};
use crate::judge::checks::UNKNOWN_FIELD;
use crate::judge::finding::{Level, Safety};
use crate::kinds::Kind;
use crate::text::patch::Op;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::{Map, Value, json};

/// The most fields of an extra level that are proposed to move up.
const MAX_MOVED_FIELDS: usize = 3;

impl StructureWalk<'_> {
    /// Returns the level and message for a field of a custom resource that resembles no other: a release of the
    /// operator that Jobgate does not know may have it. Nothing for a strict request body, which is answered as
    /// by the known release, and for metadata, which no operator defines.
    pub(super) fn of_release(&self, key: &str, at: &Pointer) -> Option<(Level, String)> {
        let is_metadata =
            at.tokens().iter().any(|token| matches!(token, Token::Key(key) if *key == "metadata"));
        if is_metadata || self.reading == (ObjectReading::Body { strict: true }) {
            return None;
        }
        let release = Kind::from_object(self.object)
            .map(|kind| kind.schema_of)
            .filter(|release| !release.is_empty())?;
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
        let Some(kind) = Kind::from_object(self.object).filter(|_| self.reading == ObjectReading::Manifest)
        else {
            return;
        };
        for (path, help) in kind.older_fields {
            let at = Pointer::new(path);
            if at.find(self.object).is_some()
                && let Some((level, message)) = self.of_release(path.last().unwrap_or(&""), &at)
            {
                self.report(UNKNOWN_FIELD, level, at, message, (*help).to_owned()).at_key();
            }
        }
    }

    /// Reports an unknown field that belongs at another place.
    pub(super) fn belongs_at(
        &mut self,
        home: &Pointer,
        (key, value): (&str, &Value),
        (level, begin): (Level, &str),
        pointer: Pointer,
    ) {
        let message = format!("{begin}; it belongs at `{home}`");
        let target = home.key(key);
        let is_mapping = |at: &Pointer| at.find(self.object).is_some_and(Value::is_object);
        let moved = match home.find(self.object) {
            Some(Value::Object(fields)) if fields.get(key).is_none() => {
                Some(Op::Add(target.clone(), value.clone()))
            }
            None if home.parent().is_some_and(|around| is_mapping(&around)) => {
                Some(Op::Add(home.clone(), json!({key: value.clone()})))
            }
            _ => None,
        };
        let help = format!("move it to `{target}`");
        let finding = self.report(UNKNOWN_FIELD, level, pointer.clone(), message, help).at_key();
        if let Some(moved) = moved {
            finding.fix(Safety::Unsafe, vec![moved, Op::Remove(pointer)]);
        }
    }

    /// Reports an unknown field whose own fields belong in its place: an extra level, or an older API, such as
    /// `source` of a pod's resource claim, until Kubernetes 1.31.
    pub(super) fn belongs_without(
        &mut self,
        key: &str,
        inner: &Map,
        (level, begin): (Level, &str),
        (parent, pointer): (&Pointer, Pointer),
    ) {
        let message = format!("{begin}; its fields belong directly in `{parent}`");
        let names = inner.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
        let help = format!("replace `{}` with {names}", short(key));
        let around = parent.find(self.object);
        let free = !parent.is_root()
            && inner.keys().all(|name| around.is_some_and(|around| around.get(name).is_none()));
        let ops = inner
            .iter()
            .map(|(name, value)| Op::Add(parent.key(name), value.clone()))
            .chain([Op::Remove(pointer.clone())]);
        let ops: Vec<Op> = if free { ops.collect() } else { Vec::new() };
        let finding = self.report(UNKNOWN_FIELD, level, pointer, message, help).at_key();
        if !ops.is_empty() {
            finding.fix(Safety::Unsafe, ops);
        }
    }

    /// Tells whether a field may be renamed to a similar one: if the value has its type, and the name is a
    /// misspelling. Text under a longer name has another format: `runtimeEnv` was base64, `runtimeEnvYAML` is
    /// YAML.
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

    /// Tells whether a scalar has the type of a field, or gets a finding of its own for a wrong type.
    fn has_type(&self, id: Id, value: &Value) -> bool {
        match self.schema.shape(id) {
            SchemaShape::Text | SchemaShape::Choice | SchemaShape::Time => value.is_string(),
            SchemaShape::Int32 | SchemaShape::Int64 | SchemaShape::Number => value.as_number().is_some(),
            SchemaShape::Bool => value.as_bool().is_some(),
            _ => true,
        }
    }
}

/// Returns the fields of a mapping that is an extra level: all of them are fields of the mapping around it.
pub(super) fn inner<'v>(fields: &SchemaFields, value: &'v Value) -> Option<&'v Map> {
    let inner = value.as_object()?;
    let fits =
        (1..=MAX_MOVED_FIELDS).contains(&inner.len()) && inner.keys().all(|name| fields.get(name).is_some());
    fits.then_some(inner)
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
