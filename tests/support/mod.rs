//! What several test programs share.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod deploy;
pub mod fixing;
pub mod fixture;
pub mod place;

use std::path::PathBuf;

#[allow(clippy::print_stdout, reason = "a test that did not run says so")]
/// Returns the folder of shared data, or prints that its tests are skipped.
pub fn shared(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("JOBGATE_SHARED").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no shared data here ({what}); set JOBGATE_SHARED to its folder");
    None
}
