//! The files that `.gitignore` and `.ignore` exclude from a walk.
//!
//! The walker could read them itself, but without a limit: a repository may have a link to `/dev/zero` in their place.
//! As in git, links are not read. What is not read excludes nothing, so that more is judged, never less.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::local::files::{self, Barred};
use crate::local::paths::path_text;

/// The names of the files, in order of precedence.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];
/// Maximum bytes of one file. Thousands of patterns compile to hundreds of times their size.
const MOST_BYTES: u64 = 64 << 10;
/// Maximum bytes of all files in a walk.
const MOST_BYTES_OF_ALL: u64 = 1 << 20;
/// Maximum number of unread files that are named.
const MOST_NAMED: usize = 10;

/// The files of a walk, read as it goes down.
#[derive(Debug)]
pub(super) struct Ignored {
    /// The directory of the walk, as it was given, and without links.
    given: PathBuf,
    real: PathBuf,
    state: Mutex<IgnoreState>,
}

#[derive(Debug, Default)]
struct IgnoreState {
    /// How many of the levels are above the walk.
    above: usize,
    /// The directories from the root of the system to the one that the walk is in.
    levels: Vec<IgnoreLevel>,
    bytes: u64,
    /// What was not read, and why.
    unread: Vec<String>,
    more: usize,
}

/// The files of one directory, in the order of [`NAMES`].
type IgnoreLevel = [Option<Gitignore>; 2];

impl Ignored {
    /// Reads the files of a directory to walk, and those above it.
    pub(super) fn new(directory: &Path) -> Self {
        let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let mut state = IgnoreState::default();
        let mut above: Vec<&Path> = real.ancestors().collect();
        above.reverse();
        for at in above {
            state.enter(at, if at == real { directory } else { at });
        }
        state.above = state.levels.len() - 1;
        Self { given: directory.to_owned(), real, state: Mutex::new(state) }
    }

    /// Tells whether a file or directory of the walk is excluded. `depth` is how far below the directory it is, at
    /// least 1; entries come in depth-first order.
    pub(super) fn has(&self, path: &Path, depth: usize, is_directory: bool) -> bool {
        let Ok(below) = path.strip_prefix(&self.given) else { return false };
        let real = self.real.join(below);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let depth = state.above + depth;
        state.levels.truncate(depth);
        let found = (0..NAMES.len()).find_map(|nth| {
            let files = state.levels.iter().rev().filter_map(|level| level[nth].as_ref());
            files
                .map(|file| file.matched(&real, is_directory))
                .find(|found| !matches!(found, Match::None))
                .map(|found| found.is_ignore())
        });
        let is_ignored = found.unwrap_or_default();
        if is_directory && !is_ignored {
            state.enter(&real, path);
        }
        is_ignored
    }

    /// Returns what was not read, in sentences without a period.
    pub(super) fn unread(&self) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unread = state.unread.clone();
        if state.more > 0 {
            unread.push(format!("{} more such files are not used", state.more));
        }
        unread
    }
}

impl IgnoreState {
    /// Enters a directory, which messages call `shown`.
    fn enter(&mut self, directory: &Path, shown: &Path) {
        let level = NAMES.map(|name| match self.read(&directory.join(name)) {
            Ok(text) => text.map(|text| patterns(directory, &text)),
            Err(why) => {
                if self.unread.len() < MOST_NAMED {
                    self.unread.push(format!("{} is not used: {why}", path_text(&shown.join(name))));
                } else {
                    self.more += 1;
                }
                None
            }
        });
        self.levels.push(level);
    }

    /// Reads a file, if it is there.
    fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, String> {
        match fs::symlink_metadata(path) {
            Err(_) => return Ok(None),
            Ok(metadata) if metadata.is_symlink() => return Err("it is a link".to_owned()),
            Ok(_) => {}
        }
        let left = MOST_BYTES_OF_ALL - self.bytes;
        let limit = MOST_BYTES.min(left);
        match files::open(path).and_then(|file| files::bounded(file, limit)) {
            Ok(text) => {
                self.bytes += text.len() as u64;
                Ok(Some(text))
            }
            Err(Barred::TooLarge(_)) if limit < MOST_BYTES => Err("there are too many of these".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Reads a file's patterns. As in git, an invalid one matches nothing.
fn patterns(directory: &Path, text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(directory);
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    // As in the walker, nothing after invalid UTF-8 is read.
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    for line in text.lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use ignore::WalkBuilder;
    use proptest::prelude::*;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    /// What a walk sees, with the files read by it or by us.
    fn walked(directory: &Path, ours: bool) -> Vec<PathBuf> {
        let mut walk = WalkBuilder::new(directory);
        walk.require_git(false).git_global(false).git_exclude(false).hidden(false);
        if ours {
            walk.git_ignore(false).ignore(false).parents(false);
            let ignored = Ignored::new(directory);
            walk.filter_entry(move |entry| {
                let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                entry.depth() == 0 || !ignored.has(entry.path(), entry.depth(), is_directory)
            });
        }
        walk.build().map(|entry| entry.unwrap().into_path()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn the_same_is_left_out_as_by_the_walker(
            files in prop::collection::vec(("([abc]/){0,3}(\\.gitignore|\\.ignore)", "((!|/)?([abc]|\\*|\\*\\*|\\*\\.yaml|b/c|x)/?\n){0,4}"), 0..6),
            names in prop::collection::vec("([abc]/){0,3}[abx](\\.yaml)?", 1..12),
            below in "([abc]/?){0,2}",
        ) {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files.iter().map(|(name, text)| (name, text.as_str())).chain(names.iter().map(|name| (name, ""))) {
                let path = dir.path().join(name);
                // A name may be that of a directory already.
                let _ = fs::create_dir_all(path.parent().unwrap());
                let _ = fs::write(path, text);
            }
            let directory = dir.path().join(below);
            if directory.is_dir() {
                prop_assert_eq!(walked(&directory, true), walked(&directory, false));
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_may_be_without_end_is_not_read_and_is_said() {
        let dir = tree(&[("a.yaml", ""), ("b/a.yaml", ""), ("c/a.yaml", ""), ("d/a.yaml", "")]);
        let at = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", at(".gitignore")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("b/.ignore")).status().unwrap().success());
        fs::write(at("c/.gitignore"), "*\n".repeat(1 << 16)).unwrap();
        fs::write(at("d/.gitignore"), "*.yaml\n").unwrap();
        let ignored = Ignored::new(dir.path());
        let has = |name: &str, depth: usize, is_directory: bool| ignored.has(&at(name), depth, is_directory);
        assert!(!has("a.yaml", 1, false));
        assert!(!has("b", 1, true) && !has("b/a.yaml", 2, false));
        assert!(!has("c", 1, true) && !has("c/a.yaml", 2, false));
        assert!(!has("d", 1, true) && has("d/a.yaml", 2, false));
        let unread = ignored.unread().join("\n").replace(&path_text(dir.path()), "");
        assert!(unread.contains("/.gitignore is not used: it is a link"), "{unread}");
        assert!(unread.contains("/b/.ignore is not used: it is not a regular file"), "{unread}");
        assert!(
            unread.contains("/c/.gitignore is not used: it is larger than the limit of 64 KiB"),
            "{unread}"
        );
    }

    #[test]
    fn all_of_them_together_have_a_limit() {
        let dir = tree(&[]);
        for nth in 0..40 {
            let path = dir.path().join(format!("{nth:02}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join(".gitignore"), "a\n".repeat(20_000)).unwrap();
        }
        let ignored = Ignored::new(dir.path());
        for nth in 0..40 {
            ignored.has(&dir.path().join(format!("{nth:02}")), 1, true);
        }
        let unread = ignored.unread();
        assert_eq!(unread.len(), MOST_NAMED + 1);
        assert!(unread[0].ends_with("there are too many of these"), "{unread:?}");
    }
}
