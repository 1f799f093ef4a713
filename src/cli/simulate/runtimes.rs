//! The runtimes that TrainJobs name, as far as they are among the files.

use crate::local::lint::{Input, MAX_FILE_SIZE, Options, load};
use crate::text::value::Value;
use crate::text::yaml;
use jobgate_lint::objects::objects;

/// The kinds of runtimes.
const KINDS: [&str; 2] = ["ClusterTrainingRuntime", "TrainingRuntime"];

/// Returns the runtimes of files. What cannot be read is said where the files are simulated.
pub(super) fn of_files(inputs: &[Input]) -> Vec<Value> {
    let mut runtimes = Vec::new();
    for input in inputs {
        let Ok(Ok(loaded)) = load(input, MAX_FILE_SIZE) else { continue };
        let has_one = |kind: &&str| memchr::memmem::find(loaded.bytes(), kind.as_bytes()).is_some();
        if !KINDS.iter().any(has_one) {
            continue;
        }
        let limits = Options::default().limits();
        for chunk in yaml::split(loaded.bytes(), &limits) {
            let document = chunk.and_then(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits));
            let Ok(document) = document else { continue };
            for object in objects(&document.value) {
                let kind = object.value.get("kind").and_then(Value::as_str);
                if kind.is_some_and(|kind| KINDS.contains(&kind)) {
                    runtimes.push(object.value.into_owned());
                }
            }
        }
    }
    runtimes
}
