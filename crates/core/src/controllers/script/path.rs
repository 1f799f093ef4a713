//! Objects that are named by their path in the API.

use super::{Read, Target};

/// The kinds that are named by their path in the API.
const PATH_KINDS: [(&str, &str); 3] =
    [("jobs", "Job"), ("limitranges", "LimitRange"), ("resourcequotas", "ResourceQuota")];

/// Reads the path of an object.
pub(super) fn path_target(path: &str) -> Read<Target> {
    let mut steps = path.rsplit('/');
    let (name, plural) = (steps.next(), steps.next());
    let kind = PATH_KINDS.into_iter().find(|(known, _)| Some(*known) == plural);
    match (kind, name) {
        (Some((_, kind)), Some(name)) if !name.is_empty() => {
            Ok(Target::Object { kind: kind.to_owned(), name: Some(name.to_owned()) })
        }
        _ => Err("`path` ends in `jobs/NAME`, `limitranges/NAME` or `resourcequotas/NAME`".to_owned()),
    }
}
