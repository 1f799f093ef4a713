//! The runtimes that a release of Trainer installs, for TrainJobs whose runtime is in no file.
//!
//! A cluster may have others with these names, so they count only where no cluster was asked: in `lint`, and in
//! a dry run without a cluster.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::judge::facts::{Fact, FoundObject};
use crate::judge::finding::Source;
use crate::text::yaml;

/// The release with these runtimes.
pub(crate) const RELEASE: &str = "Trainer 2.3";
/// The kind of all runtimes here.
const KIND: &str = "ClusterTrainingRuntime";
/// The objects, as far as rules read them.
const OBJECTS: &str = include_str!("shipped.yaml");

static RUNTIMES: LazyLock<BTreeMap<String, FoundObject>> = LazyLock::new(|| objects().collect());

/// Returns a runtime of the release, if it has one of that kind and name.
#[must_use]
pub fn runtime(kind: &str, name: &str) -> Option<Fact<FoundObject>> {
    if kind != KIND {
        return None;
    }
    RUNTIMES.get(name).cloned().map(Fact::Known)
}

/// Returns all of them, by name.
pub fn objects() -> impl Iterator<Item = (String, FoundObject)> {
    yaml::documents(OBJECTS.as_bytes()).filter_map(|document| {
        let object = document.ok()?.value;
        let name = object.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((name, FoundObject::from_object(&object, Source::Release(RELEASE))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_a_runtime_with_pods() {
        let documents = OBJECTS.lines().filter(|line| *line == "---").count();
        assert_eq!(RUNTIMES.len(), documents);
        for (name, runtime) in &*RUNTIMES {
            assert!(!super::super::pods(&runtime.object).is_empty(), "{name}");
        }
    }

    #[test]
    fn only_runtimes_without_a_namespace_are_of_a_release() {
        assert!(runtime("ClusterTrainingRuntime", "torch-distributed").is_some());
        assert_eq!(runtime("TrainingRuntime", "torch-distributed"), None);
        assert_eq!(runtime("ClusterTrainingRuntime", "ours"), None);
    }
}
