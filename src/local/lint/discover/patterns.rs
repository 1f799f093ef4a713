//! Patterns of paths, as in `.gitignore`, and settings for the files that match them.

use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::judge::policy::Policy;
use crate::local::paths::{STDIN, normal};

/// Patterns of paths below a directory. They are read as lines of a `.gitignore` there: without a `/` at the
/// start or inside, a pattern matches at any depth, and a directory matches with everything in it.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    /// Absolute.
    root: PathBuf,
    current: PathBuf,
    globs: Gitignore,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a pattern of paths: {reason}", pattern.escape_debug())]
pub(crate) struct BadPattern {
    /// The pattern.
    pub(crate) pattern: String,
    /// The reason.
    pub(crate) reason: String,
}

impl Patterns {
    /// Reads patterns of paths below `root`, for a run in the directory `current`, which is absolute.
    ///
    /// # Errors
    /// One of them would match nothing, or not what it appears to.
    pub(crate) fn new<'p>(
        root: &Path,
        current: &Path,
        patterns: impl IntoIterator<Item = &'p str>,
    ) -> Result<Self, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        let bad = |pattern: &str, reason: String| BadPattern { pattern: pattern.to_owned(), reason };
        for pattern in patterns {
            if let Some(reason) = refused(pattern) {
                return Err(bad(pattern, reason.to_owned()));
            }
            // `./` also means the root, which `.gitignore` does not support.
            let anchored = pattern.strip_prefix("./").map(|rest| format!("/{rest}"));
            builder.add_line(None, anchored.as_deref().unwrap_or(pattern)).map_err(|error| {
                let reason = match error {
                    ignore::Error::Glob { err, .. } => err,
                    error => error.to_string(),
                };
                bad(pattern, reason)
            })?;
        }
        let globs = builder.build().map_err(|error| bad("", error.to_string()))?;
        Ok(Self { root: normal(&current.join(root)), current: current.to_owned(), globs })
    }

    /// Tells whether a path matches, or a directory above it. Standard input never does.
    #[must_use]
    pub(crate) fn matches(&self, path: &Path, is_directory: bool) -> bool {
        if self.globs.is_empty() || path.as_os_str() == STDIN {
            return false;
        }
        let path = normal(&self.current.join(path));
        // A path elsewhere can only match by its names.
        let below = match path.strip_prefix(&self.root) {
            Ok(below) => below.to_owned(),
            Err(_) => path.components().filter(|part| matches!(part, Component::Normal(_))).collect(),
        };
        !below.as_os_str().is_empty()
            && self.globs.matched_path_or_any_parents(below, is_directory).is_ignore()
    }
}

/// Returns what is wrong with a pattern that `.gitignore` would not read as it looks.
fn refused(pattern: &str) -> Option<&'static str> {
    match pattern {
        _ if pattern.trim().is_empty() => Some("it is empty"),
        _ if pattern.contains(['\n', '\r']) => Some("it has more than one line"),
        _ if pattern.starts_with('#') => Some("write `\\#` for a name that starts with `#`"),
        _ if pattern.starts_with('!') => Some("it cannot be negated"),
        _ if Path::new(pattern).components().any(|part| part == Component::ParentDir) => {
            Some("`..` matches nothing")
        }
        "." | "./" | "/" => Some("it is the directory itself; write `*` for everything in it"),
        _ => None,
    }
}

/// Settings for some files that replace those for all.
#[derive(Clone, Debug)]
pub struct ByPath {
    /// The files.
    pub(crate) patterns: Patterns,
    /// Their policy.
    pub(crate) policy: Option<Policy>,
    /// The same, including the rules that are not used.
    pub(crate) whole: Option<Policy>,
    /// The namespace of their objects without one.
    pub(crate) namespace: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Result<Patterns, String> {
        Patterns::new(Path::new("../repo"), Path::new("/home/here"), patterns.iter().copied())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn patterns_are_those_of_gitignore_below_their_root() {
        for (pattern, path, matches) in [
            ("vendor", "../repo/vendor", true),
            ("vendor", "../repo/k8s/vendor/a/job.yaml", true),
            ("vendor/", "../repo/k8s/vendor/job.yaml", true),
            ("/vendor", "../repo/k8s/vendor/job.yaml", false),
            ("/vendor", "/home/repo/vendor/job.yaml", true),
            ("./vendor", "/home/repo/vendor/job.yaml", true),
            ("k8s/old", "../repo/k8s/old/job.yaml", true),
            ("k8s/old", "../repo/x/k8s/old/job.yaml", false),
            ("k8s/**/old", "../repo/k8s/a/b/old/job.yaml", true),
            ("*.gen.yaml", "../repo/a/b.gen.yaml", true),
            ("*.gen.yaml", "../repo/a/b.yaml", false),
            ("*.gen.yaml", "b.gen.yaml", true),
            ("/here", "job.yaml", false),
            ("*", "-", false),
        ] {
            let found = patterns(&[pattern]).unwrap().matches(Path::new(path), false);
            assert_eq!(found, matches, "{pattern}: {path}");
        }
        assert!(!patterns(&["vendor/"]).unwrap().matches(Path::new("../repo/vendor"), false), "a file");
        assert!(patterns(&["vendor/"]).unwrap().matches(Path::new("../repo/vendor"), true));
        assert!(!patterns(&["*"]).unwrap().matches(Path::new("../repo"), true), "the root itself");
        assert!(!patterns(&[]).unwrap().matches(Path::new("../repo/a"), false));
    }

    #[test]
    fn patterns_that_would_do_nothing_are_errors() {
        for pattern in ["", " ", "#a", "!a", "../a", "a/../b", ".", "/", "a\nb", "{a", "[z-a]"] {
            let error = patterns(&["a", pattern]).unwrap_err();
            assert!(error.contains("is not a pattern of paths: "), "{pattern}: {error}");
        }
    }
}
