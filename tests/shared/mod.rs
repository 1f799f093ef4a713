//! The data that oracle tests read. It lies outside the repository; where it is absent the tests say so in one line and pass.

use std::path::PathBuf;

use jobgate::value::Value;

/// Returns the rows of a file of JSON lines, or nothing where the shared data is absent.
pub(crate) fn rows(file: &str) -> Option<Vec<Value>> {
    let text = text(file)?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}"))).collect())
}

/// Returns a file of the shared data, or nothing where it is absent.
#[allow(clippy::print_stderr, reason = "a test that did not run says so")]
pub(crate) fn text(file: &str) -> Option<String> {
    let root = std::env::var_os("JOBGATE_SHARED").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(file);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: no {}", path.display());
    }
    text
}
