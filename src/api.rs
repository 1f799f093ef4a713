//! What the API server would say of an object before anybody's webhook is asked: types, unknown fields, defaults, validation.

mod schema;
mod structure;

use serde_json::Value;

use crate::finding::Finding;

/// Returns what the API server, and kubectl before it, would find wrong with a whole object.
///
/// Ids: [`FIELD_TYPE`](crate::checks::FIELD_TYPE) (refused), [`API_SERVER`](crate::checks::API_SERVER) (refused, in the server's words),
/// [`UNKNOWN_FIELD`](crate::checks::UNKNOWN_FIELD) (dropped or refused) and [`PLACEHOLDER`](crate::checks::PLACEHOLDER) (nobody can say).
/// Says nothing of objects whose kind or version is not known here, and of a part of an object nothing that only a whole one can lack.
#[must_use]
pub fn check(object: &Value) -> Vec<Finding> {
    structure::check(object)
}
