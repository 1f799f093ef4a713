//! Data outside the repository: `JOBGATE_SHARED`, else `../shared`. Where it is absent, tests that read it
//! print a line and pass, unless `JOBGATE_REQUIRE=1` says that it must be there.

use std::path::PathBuf;

use jobgate::text::value::Value;

/// Returns a file or folder of the shared data, or nothing where it is absent.
#[allow(clippy::print_stdout, reason = "a test that did not run says so")]
pub fn path(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("JOBGATE_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("JOBGATE_REQUIRE").is_none_or(|value| value != "1"),
        "JOBGATE_REQUIRE=1 and no {}",
        path.display()
    );
    println!("skipped: no shared data here ({what}); set JOBGATE_SHARED to its folder");
    None
}

/// Returns a file of the shared data, or nothing where it is absent.
pub fn text(file: &str) -> Option<String> {
    Some(std::fs::read_to_string(path(file)?).unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// Returns the rows of a file of JSON lines, or nothing where it is absent.
pub fn rows(file: &str) -> Option<Vec<Value>> {
    let text = text(file)?;
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}: {error}")))
            .collect(),
    )
}
