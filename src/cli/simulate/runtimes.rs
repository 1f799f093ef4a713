//! The runtimes that TrainJobs name, as far as they are among the files.

use crate::text::value::Value;
use crate::text::yaml::{self, Limits};
use jobgate_lint::objects::objects;

/// The kinds of runtimes.
const KINDS: [&str; 2] = ["ClusterTrainingRuntime", "TrainingRuntime"];
/// What a file with a TrainJob has in it.
const TRAIN_JOB: &str = "TrainJob";

/// Tells whether a file may have TrainJobs, which wait for the runtimes of all files.
pub(super) fn has_train_job(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, TRAIN_JOB.as_bytes()).is_some()
}

/// Returns the runtimes of a file. What cannot be read is said where the file is simulated.
pub(super) fn of_file(bytes: &[u8], limits: &Limits) -> Vec<Value> {
    let has_one = |kind: &str| memchr::memmem::find(bytes, kind.as_bytes()).is_some();
    if !KINDS.into_iter().any(has_one) {
        return Vec::new();
    }
    let mut runtimes = Vec::new();
    for chunk in yaml::split(bytes, limits) {
        let Ok(document) = chunk.and_then(|chunk| yaml::parse(bytes, &chunk, limits)) else { continue };
        for object in objects(&document.value) {
            let kind = object.value.get("kind").and_then(Value::as_str);
            if kind.is_some_and(|kind| KINDS.contains(&kind)) {
                runtimes.push(object.value.into_owned());
            }
        }
    }
    runtimes
}
