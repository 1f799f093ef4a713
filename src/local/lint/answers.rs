//! Objects that exist, from files.

use jobgate_lint::Input;
use jobgate_lint::existing_objects::ExistingObjects;
use jobgate_lint::objects::objects;

use super::claims::FactsError;
use super::options::Options;
use super::source;
use crate::text::lines::Lines;
use crate::text::number::bytes;
use crate::text::value::Value;
use crate::text::yaml;

/// Reads the objects of files.
///
/// # Errors
///
/// A file cannot be read or is not YAML: a missing object would turn an UPDATE into a CREATE.
pub(crate) fn against_in(inputs: &[Input], options: &Options<'_>) -> Result<ExistingObjects, FactsError> {
    let mut against = ExistingObjects::default();
    // Where files have namespaces of their own, an object without one may be in any of them.
    let any = options.by_path.iter().any(|by_path| by_path.namespace.is_some());
    let namespace = if any { "" } else { options.namespace };
    for input in inputs {
        for object in objects_of(input, options)? {
            against.add(object, namespace);
        }
    }
    Ok(against)
}

/// Reads all objects of a file.
///
/// # Errors
///
/// It cannot be read, or is not YAML or JSON.
pub(crate) fn objects_of(input: &Input, options: &Options<'_>) -> Result<Vec<Value>, FactsError> {
    let path = || input.path.to_string();
    let limits = options.limits();
    let loaded = match source::load(input, options.max_file_size)? {
        Ok(loaded) => loaded,
        Err(source::TooLarge { .. }) => {
            return Err(FactsError::TooLarge { path: path(), limit: bytes(options.max_file_size) });
        }
    };
    let mut found = Vec::new();
    for chunk in yaml::split(loaded.bytes(), &limits) {
        let document = chunk.and_then(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits));
        let document = document.map_err(|source| {
            let line = Lines::new(loaded.bytes()).position(source.span.start).line;
            FactsError::Syntax { path: path(), line, source }
        })?;
        found.extend(objects(&document.value).into_iter().map(|object| object.value.into_owned()));
    }
    Ok(found)
}
