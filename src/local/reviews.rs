//! The reviews that an API server sends for manifests, for use without an API server.

use super::lint::{ExistingObjects, FactsError, Input, Options, objects_of};
use crate::admission;
use crate::report::ObjectId;
use crate::text::value::Value;

/// One object of a file.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The object.
    pub(crate) object: ObjectId,
    /// Its review; `None` for a kind that Jobgate does not judge, for which no review is sent.
    pub(crate) review: Option<Value>,
}

/// Returns the objects of a file with their reviews, in order. Those in `old` are updated, all others created.
///
/// # Errors
/// The file cannot be read, or is not YAML or JSON.
pub(crate) fn reviews(
    input: &Input,
    old: &ExistingObjects,
    options: &Options<'_>,
) -> Result<Vec<Sent>, FactsError> {
    let objects = objects_of(input, options)?;
    let one = |object: &Value| Sent {
        object: ObjectId::from_object(object),
        review: admission::request(object, old.of(object, options.namespace), options.namespace),
    };
    Ok(objects.iter().map(one).collect())
}
