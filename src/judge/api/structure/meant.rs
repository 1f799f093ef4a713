//! What an unknown field may be: a misspelling, or a field of another release.

use super::{Walk, short};
use crate::judge::api::Reading;
use crate::judge::api::schema::{Fields, Id, Shape};
use crate::judge::finding::Level;
use crate::kinds::Kind;
use crate::text::value::Value;

impl Walk<'_> {
    /// Returns the level and message for a field of a custom resource that is like no other: a release of the
    /// operator that Jobgate does not know may have it.
    pub(super) fn of_release(&self, key: &str) -> Option<(Level, String)> {
        let release =
            Kind::of(self.object).map(|kind| kind.schema_of).filter(|release| !release.is_empty())?;
        let lacks = format!("unknown field `{}`: {release} does not have it", short(key));
        let message = match self.reading {
            Reading::Manifest | Reading::Body { strict: true } => {
                format!("{lacks}, so the API server rejects it unless the cluster's release does")
            }
            Reading::Body { strict: false } | Reading::Inside => {
                format!("{lacks}, so the API server drops it silently unless the cluster's release does")
            }
        };
        Some((Level::Warn, message))
    }

    /// Tells whether a field may be given the name of a similar one: if the value has its type, and the name is a
    /// misspelling. Text under a longer name has another form: `runtimeEnv` was base64, `runtimeEnvYAML` is YAML.
    pub(super) fn may_be_renamed(&self, key: &str, value: &Value, (name, fields): (&str, &Fields)) -> bool {
        let Some(field) = fields.get(name) else { return false };
        let is_text = matches!(self.schema.shape(field), Shape::Text | Shape::Any);
        self.fits(field, value) && self.has_type(field, value) && !(is_text && name.starts_with(key))
    }

    /// Tells whether a scalar has the type of a field, or is one that has another finding for it.
    fn has_type(&self, id: Id, value: &Value) -> bool {
        match self.schema.shape(id) {
            Shape::Text | Shape::Choice | Shape::Time => value.is_string(),
            Shape::Int32 | Shape::Int64 | Shape::Number => value.as_number().is_some(),
            Shape::Bool => value.as_bool().is_some(),
            _ => true,
        }
    }
}
