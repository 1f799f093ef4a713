//! Paths in a normal form.

use std::path::{Component, Path, PathBuf};

pub use jobgate_lint::{STDIN, path_text};

/// Returns a path without `.` and, as far as possible, without `..`.
#[must_use]
pub fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                _ = out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Returns a path as seen from the current directory: `../here/a` is `a`.
pub(super) fn seen(path: &Path) -> PathBuf {
    let path = normal(path);
    if !path.starts_with("..") {
        return path;
    }
    std::env::current_dir().map_or_else(|_| path.clone(), |here| seen_from(&here, &path))
}

fn seen_from(here: &Path, path: &Path) -> PathBuf {
    let ups = path.components().take_while(|part| *part == Component::ParentDir).count();
    let down: Vec<Component<'_>> = path.components().skip(ups).collect();
    let above: Vec<Component<'_>> = here.components().rev().take(ups).collect();
    let back = above.iter().rev().zip(&down).take_while(|(above, down)| above == down).count();
    let back = if above.len() == ups { back } else { 0 };
    std::iter::repeat_n(Component::ParentDir, ups - back).chain(down.into_iter().skip(back)).collect()
}

/// Returns the parent of a directory, even above the current directory.
pub(super) fn parent(directory: &Path) -> Option<PathBuf> {
    match directory.components().next_back() {
        None | Some(Component::ParentDir) => Some(directory.join("..")),
        Some(_) => directory.parent().map(Path::to_owned),
    }
}

/// Returns a path as a report shows it.
pub(super) fn shown(path: &Path) -> String {
    let path = normal(path);
    if path.as_os_str().is_empty() { ".".to_owned() } else { path_text(&path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_in_one_form() {
        for (path, form) in [
            ("./a/../b", "b"),
            ("../a", "../a"),
            ("a/b/../../c", "c"),
            ("/x/./y", "/x/y"),
            ("../../a/..", "../.."),
        ] {
            assert_eq!(normal(Path::new(path)), Path::new(form));
        }
        for (path, form) in [
            ("../b/x", "x"),
            ("../../a/b/x", "x"),
            ("../../a/c", "../c"),
            ("../../../d", "../../../d"),
            ("../c/b", "../c/b"),
        ] {
            assert_eq!(seen_from(Path::new("/r/a/b"), Path::new(path)), Path::new(form));
        }
        for (path, up) in [
            ("a/b", Some("a")),
            ("a", Some("")),
            ("", Some("..")),
            ("..", Some("../..")),
            ("/a", Some("/")),
            ("/", None),
        ] {
            assert_eq!(parent(Path::new(path)).as_deref(), up.map(Path::new));
        }
        assert_eq!((shown(Path::new("./")), shown(Path::new(""))), (".".to_owned(), ".".to_owned()));
    }
}
