//! Paths in one form, so that two ways to write one are the same path.

use std::path::{Component, Path, PathBuf};

/// Returns a path without `.` and, as far as the path alone says, without `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => _ = out.pop(),
            part => out.push(part),
        }
    }
    out
}

/// Returns a path as a report shows it.
pub(super) fn shown(path: &Path) -> String {
    let path = normal(path);
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_in_one_form() {
        for (path, form) in [("./a/../b", "b"), ("../a", "../a"), ("a/b/../../c", "c"), ("/x/./y", "/x/y"), ("../../a/..", "../..")] {
            assert_eq!(normal(Path::new(path)), Path::new(form));
        }
        assert_eq!((shown(Path::new("./")), shown(Path::new(""))), (".".to_owned(), ".".to_owned()));
    }
}
