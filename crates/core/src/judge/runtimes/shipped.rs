//! The runtimes that a release of Trainer installs, for TrainJobs whose runtime is in no file.
//!
//! A cluster may have others with these names, so they count only where no cluster was asked: in `lint`, and in
//! a dry run without a cluster.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::controllers::operators::shipped;
use crate::judge::facts::{Fact, FoundObject};
use crate::judge::finding::Source;

/// The release with these runtimes.
pub(crate) const RELEASE: &str = "Trainer 2.3";
/// The kind of all runtimes here.
const KIND: &str = "ClusterTrainingRuntime";

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
    shipped().iter().filter_map(|(name, object)| {
        Some((name.clone(), FoundObject::from_object(object, Source::Release(RELEASE))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_a_runtime_with_pods() {
        assert_eq!(RUNTIMES.len(), 9);
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
