//! The files of command line arguments.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::gitignore::Ignored;
use super::patterns::Patterns;
use crate::local::files::{Tree, VERSION_CONTROL};
use crate::local::paths::{STDIN, path_text};
use crate::report::clean;
use jobgate_lint::{Content, Input, Reached, shown};

/// A path that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {}", if path == STDIN { "standard input".into() } else { clean(path) }, clean(reason))]
pub struct Unreadable {
    /// The path, as the user gave it; `-` for standard input.
    pub(crate) path: String,
    /// The reason.
    pub(crate) reason: String,
}

/// The inputs that the arguments of a run name.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The files, sorted by path, each once.
    pub files: Vec<Input>,
    /// Arguments, and directories below them, that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Directory arguments without a single manifest.
    pub(crate) empty: Vec<String>,
    /// How many files and directories were excluded.
    pub(crate) excluded: usize,
    /// What the user may not expect, in sentences without a period.
    pub(crate) warnings: Vec<String>,
    /// Everything that the user named.
    tree: Tree,
    /// The remaining number of files and directories to visit; `None` for all.
    left: Option<usize>,
}

/// Finds the files of arguments: files, directories, globs that the shell did not expand, and `-` for
/// standard input. Standard input and pipes are `drained` at once.
///
/// Directories are walked as by git: hidden files are read, files that `.gitignore` excludes are not. Symbolic links to
/// files are followed, those to directories are not; links that lead out are [marked](Reached). As in a shell,
/// wildcards do not match hidden files.
pub fn collect(arguments: &[PathBuf], drained: impl FnMut(&Path) -> io::Result<Vec<u8>>) -> Inputs {
    collect_without(arguments, &Exclusions::default(), drained)
}

/// Returns the files of arguments like [`collect`], without some. A file that is named itself is excluded, too: a hook
/// names the files of a commit, and should find what a run over the directory finds.
pub fn collect_without(
    arguments: &[PathBuf],
    excluded: &Exclusions,
    mut drained: impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Inputs {
    let base = |argument: &PathBuf| match glob(argument) {
        Some((base, _)) if !argument.exists() => base,
        _ => argument.clone(),
    };
    let directories: Vec<PathBuf> =
        arguments.iter().map(base).filter(|directory| directory.is_dir()).collect();
    let tree = Tree::new(directories.iter().map(PathBuf::as_path));
    let mut inputs = Inputs { tree, ..Inputs::default() };
    let mut pipes: Vec<&Path> = Vec::new();
    for argument in arguments {
        let is_stdin = argument.as_os_str() == STDIN;
        let metadata = std::fs::metadata(argument);
        if is_stdin || metadata.as_ref().is_ok_and(|metadata| !metadata.is_dir() && !metadata.is_file()) {
            if pipes.contains(&argument.as_path()) {
                continue;
            }
            pipes.push(argument);
            match drained(argument) {
                Ok(bytes) => inputs
                    .files
                    .push(Input { content: Content::Bytes(bytes.into()), ..Input::named(argument) }),
                Err(error) => inputs
                    .unreadable
                    .push(Unreadable { path: path_text(argument), reason: error.to_string() }),
            }
            continue;
        }
        match metadata {
            Ok(metadata) if excluded.has(argument, metadata.is_dir()) => inputs.excluded += 1,
            Ok(metadata) if metadata.is_dir() => inputs.walk(argument, excluded),
            Ok(_) => inputs.files.push(Input::named(argument)),
            Err(error) => match glob(argument) {
                Some((base, matcher)) => inputs.matches(argument, &base, &matcher, excluded),
                None => inputs
                    .unreadable
                    .push(Unreadable { path: path_text(argument), reason: error.to_string() }),
            },
        }
    }
    // A file that is both named and walked over is a named one.
    inputs.files.sort_by(|a, b| (&a.path, !a.named).cmp(&(&b.path, !b.named)));
    inputs.files.dedup_by(|later, kept| later.path == kept.path);
    inputs
}

/// Returns the files of a directory like [`collect_without`], but visits a limited number of files and directories, and
/// tells whether that was all.
#[must_use]
pub fn collect_some(directory: &Path, excluded: &Exclusions, most: usize) -> (Inputs, bool) {
    let mut inputs = Inputs { left: Some(most), tree: Tree::new([directory]), ..Inputs::default() };
    inputs.walk(directory, excluded);
    let is_all = inputs.left.is_some_and(|left| left > 0);
    (inputs, is_all)
}

/// The files and directories that are not linted.
#[derive(Clone, Debug, Default)]
pub struct Exclusions(Arc<Vec<Patterns>>);

impl From<Vec<Patterns>> for Exclusions {
    fn from(patterns: Vec<Patterns>) -> Self {
        Self(Arc::new(patterns))
    }
}

impl Exclusions {
    /// Tells whether a file or directory is skipped.
    #[must_use]
    pub(crate) fn has(&self, path: &Path, is_directory: bool) -> bool {
        self.0.iter().any(|patterns| patterns.matches(path, is_directory))
    }
}

impl Inputs {
    fn walk(&mut self, directory: &Path, excluded: &Exclusions) {
        let root = shown(directory);
        let before = (self.files.len(), self.unreadable.len());
        let wanted = |path: &Path| {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            // kustomize also recognizes a file by its name.
            ["yaml", "yml", "json"].iter().any(|known| ending.eq_ignore_ascii_case(known))
                || path.ends_with("Kustomization")
        };
        self.find(directory, true, excluded, wanted, |path| Input {
            path: shown(&path),
            content: Content::File(path),
            named: false,
            root: Some(Arc::clone(&root)),
            reached: Reached::Named,
        });
        if before == (self.files.len(), self.unreadable.len()) {
            self.empty.push(path_text(directory));
        }
    }

    fn matches(&mut self, argument: &Path, base: &Path, matcher: &GlobMatcher, excluded: &Exclusions) {
        let before = (self.files.len(), self.unreadable.len(), self.excluded);
        self.find(
            base,
            false,
            excluded,
            |path| matcher.is_match(path.strip_prefix(".").unwrap_or(path)),
            |path| Input::named(&path),
        );
        if before == (self.files.len(), self.unreadable.len(), self.excluded) {
            self.unreadable
                .push(Unreadable { path: path_text(argument), reason: "no file matches".to_owned() });
        }
    }

    fn find(
        &mut self,
        directory: &Path,
        hidden: bool,
        excluded: &Exclusions,
        wanted: impl Fn(&Path) -> bool,
        input: impl Fn(PathBuf) -> Input,
    ) {
        // The global git configuration of one machine must not make the difference between passing and failing.
        let mut walk = WalkBuilder::new(directory);
        walk.require_git(false).git_global(false).git_exclude(false).hidden(!hidden);
        // Ours are read with a limit.
        walk.git_ignore(false).ignore(false).parents(false);
        let ignored = Arc::new(Ignored::new(directory));
        let reading = Arc::clone(&ignored);
        // A directory that is named itself is walked.
        let (directories, pruned) = (excluded.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&pruned);
        walk.filter_entry(move |entry| {
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            if entry.depth() == 0 {
                return true;
            }
            if VERSION_CONTROL.iter().any(|name| entry.file_name() == *name)
                || reading.has(entry.path(), entry.depth(), is_directory)
            {
                return false;
            }
            let is_excluded = is_directory && directories.has(entry.path(), true);
            count.fetch_add(usize::from(is_excluded), Ordering::Relaxed);
            !is_excluded
        });
        for entry in walk.build() {
            if let Some(left) = &mut self.left {
                *left -= 1;
                if *left == 0 {
                    break;
                }
            }
            match entry {
                // Like kubectl, follows links to files, but not to directories.
                Ok(entry)
                    if (entry.file_type().is_some_and(|kind| kind.is_file()) || links_to_file(&entry))
                        && wanted(entry.path()) =>
                {
                    if excluded.has(entry.path(), false) {
                        self.excluded += 1;
                    } else {
                        // Only a link can lead outside.
                        let is_outside = entry.path_is_symlink() && !self.tree.has(entry.path());
                        let reached =
                            if is_outside { Reached::Outside } else { Reached::Inside(self.tree.roots()) };
                        self.files.push(Input { reached, ..input(entry.into_path()) });
                    }
                }
                // To git it is a file: it must not be skipped silently.
                Ok(entry)
                    if is_broken_link(&entry)
                        && wanted(entry.path())
                        && !excluded.has(entry.path(), false) =>
                {
                    let reason = match std::fs::metadata(entry.path()) {
                        Err(error) => format!("broken link: {error}"),
                        Ok(_) => "broken link".to_owned(),
                    };
                    self.unreadable.push(Unreadable { path: path_text(entry.path()), reason });
                }
                Ok(_) => {}
                Err(error) => self.unreadable.push(unreadable(directory, &error)),
            }
        }
        self.excluded += pruned.load(Ordering::Relaxed);
        self.warnings.extend(ignored.unread());
    }
}

fn links_to_file(entry: &ignore::DirEntry) -> bool {
    entry.path_is_symlink() && entry.path().is_file()
}

fn is_broken_link(entry: &ignore::DirEntry) -> bool {
    entry.path_is_symlink() && !entry.path().exists()
}

/// Returns the path that a walk could not read, with the reason.
fn unreadable(directory: &Path, error: &ignore::Error) -> Unreadable {
    let mut path = directory;
    let mut inner = error;
    loop {
        match inner {
            ignore::Error::WithPath { path: at, err } => (path, inner) = (at, err),
            ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => inner = err,
            _ => break,
        }
    }
    let reason = inner.io_error().map_or_else(|| inner.to_string(), ToString::to_string);
    Unreadable { path: path_text(path), reason }
}

/// Returns the directory to walk and the pattern to match, for an argument with wildcards in it.
fn glob(argument: &Path) -> Option<(PathBuf, GlobMatcher)> {
    let text = argument.to_str()?;
    let text = text.strip_prefix("./").unwrap_or(text);
    let wild = |part: &str| part.contains(['*', '?', '[', '{']);
    if !wild(text) {
        return None;
    }
    let mut base: PathBuf = Path::new(text)
        .components()
        .take_while(|part| !matches!(part, Component::Normal(name) if name.to_str().is_none_or(wild)))
        .collect();
    if base.as_os_str().is_empty() {
        base.push(".");
    }
    let matcher = GlobBuilder::new(text).literal_separator(true).build().ok()?.compile_matcher();
    Some((base, matcher))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    fn found(dir: &tempfile::TempDir, arguments: &[&str]) -> Inputs {
        let arguments: Vec<PathBuf> = arguments.iter().map(|argument| dir.path().join(argument)).collect();
        collect(&arguments, |_| Ok(Vec::new()))
    }

    fn names(dir: &tempfile::TempDir, inputs: &Inputs) -> Vec<String> {
        let prefix = format!("{}/", path_text(dir.path()));
        inputs
            .files
            .iter()
            .map(|input| input.path.strip_prefix(&prefix).unwrap_or(&input.path).to_owned())
            .collect()
    }

    #[test]
    fn a_directory_is_walked_sorted_and_as_git_sees_it() {
        let dir = tree(&[
            "b/job.yml",
            "b.YAML",
            "a.json",
            "notes.txt",
            ".tekton/x.yaml",
            ".x.yaml",
            "out/gen.yaml",
            "b/a/x.yaml",
            ".git/x.yaml",
        ]);
        fs::write(dir.path().join(".gitignore"), "out/\n").unwrap();
        let inputs = found(&dir, &[""]);
        assert_eq!(
            names(&dir, &inputs),
            [".tekton/x.yaml", ".x.yaml", "a.json", "b.YAML", "b/a/x.yaml", "b/job.yml"]
        );
        assert_eq!(names(&dir, &found(&dir, &[".tekton"])), [".tekton/x.yaml"]);
        assert_eq!(
            names(&dir, &found(&dir, &["*.yaml", "*/*.yaml"])),
            [""; 0],
            "a wildcard matches nothing hidden"
        );
        assert_eq!(names(&dir, &found(&dir, &[".tekton/*.yaml"])), [".tekton/x.yaml"]);
        assert!(inputs.files.iter().all(|input| !input.named && input.root.is_some()));
        assert!(inputs.unreadable.is_empty() && inputs.empty.is_empty());
    }

    #[test]
    fn a_named_file_is_read_whatever_its_name_and_only_once() {
        let dir = tree(&["job.txt", ".job.yaml"]);
        let inputs = found(&dir, &["job.txt", ".job.yaml", "job.txt"]);
        assert_eq!(names(&dir, &inputs), [".job.yaml", "job.txt"]);
        assert!(inputs.files.iter().all(|input| input.named));
        let both = found(&tree(&["a.yaml"]), &["", "a.yaml"]);
        assert_eq!(both.files.len(), 1);
        assert!(both.files[0].named);
    }

    #[cfg(unix)]
    #[test]
    fn links_to_files_are_read_and_broken_ones_are_reported() {
        use std::os::unix::fs::symlink;
        let dir = tree(&["real/job.yaml", "k8s/other.yaml"]);
        let link = |to: &str, from: &str| symlink(to, dir.path().join(from)).unwrap();
        link("../real/job.yaml", "k8s/link.yaml");
        link("link.yaml", "k8s/twice.yaml");
        link("../real", "k8s/directory");
        link("../real", "k8s/directory.yaml");
        link("../gone.yaml", "k8s/broken.yaml");
        link("round.yaml", "k8s/round.yaml");
        link("../gone.txt", "k8s/notes");
        let inputs = found(&dir, &["k8s"]);
        assert_eq!(names(&dir, &inputs), ["k8s/link.yaml", "k8s/other.yaml", "k8s/twice.yaml"]);
        let mut unreadable: Vec<String> = inputs.unreadable.iter().map(ToString::to_string).collect();
        unreadable.sort();
        assert_eq!(unreadable.len(), 2, "{unreadable:?}");
        assert!(unreadable[0].contains("k8s/broken.yaml: broken link: No such file"), "{unreadable:?}");
        assert!(unreadable[1].contains("k8s/round.yaml: broken link: "), "{unreadable:?}");
        let named = found(&dir, &["k8s/link.yaml", "k8s/directory", "k8s/broken.yaml"]);
        assert_eq!(names(&dir, &named), ["k8s/directory/job.yaml", "k8s/link.yaml"]);
        assert_eq!(named.unreadable.len(), 1);
        assert_eq!(names(&dir, &found(&dir, &["k8s/l*.yaml"])), ["k8s/link.yaml"]);
    }

    #[test]
    fn globs_that_the_shell_left_alone_are_expanded() {
        let dir = tree(&["k8s/a.yaml", "k8s/b/c.yaml", "k8s/b/d.txt"]);
        assert_eq!(names(&dir, &found(&dir, &["k8s/*.yaml"])), ["k8s/a.yaml"]);
        assert_eq!(names(&dir, &found(&dir, &["k8s/**/*.yaml"])), ["k8s/a.yaml", "k8s/b/c.yaml"]);
        assert_eq!(names(&dir, &found(&dir, &["k8s/b/{c,d}.*"])), ["k8s/b/c.yaml", "k8s/b/d.txt"]);
        let none = found(&dir, &["k8s/*.json"]);
        assert!(none.files.is_empty());
        assert!(none.unreadable[0].to_string().ends_with("k8s/*.json: no file matches"));
    }

    #[test]
    fn what_is_not_there_and_what_is_empty_is_said() {
        let dir = tree(&["empty/readme.md"]);
        let inputs = found(&dir, &["missing.yaml", "empty"]);
        assert!(inputs.files.is_empty());
        assert!(inputs.unreadable[0].to_string().contains("missing.yaml: "), "{:?}", inputs.unreadable);
        assert_eq!(inputs.empty.len(), 1);
    }

    #[test]
    fn what_is_excluded_is_counted_and_not_read() {
        let dir = tree(&[
            "a.yaml",
            "gen/b.yaml",
            "gen/c.yaml",
            "k8s/d.gen.yaml",
            "k8s/e.yaml",
            "k8s/notes.gen.txt",
        ]);
        let without = |arguments: &[&str], patterns: &[&str]| {
            let patterns = Patterns::new(dir.path(), dir.path(), patterns.iter().copied()).unwrap();
            let arguments: Vec<PathBuf> =
                arguments.iter().map(|argument| dir.path().join(argument)).collect();
            collect_without(&arguments, &vec![patterns].into(), |_| Ok(Vec::new()))
        };
        let inputs = without(&[""], &["gen", "*.gen.*"]);
        assert_eq!(
            (names(&dir, &inputs), inputs.excluded),
            (vec!["a.yaml".to_owned(), "k8s/e.yaml".to_owned()], 2)
        );
        // Also what is named, and what a glob finds.
        let inputs = without(&["gen/b.yaml", "k8s/*.yaml", "gen", "a.yaml"], &["gen", "/k8s"]);
        assert_eq!((names(&dir, &inputs), inputs.excluded), (vec!["a.yaml".to_owned()], 4));
        assert!(inputs.unreadable.is_empty() && inputs.empty.is_empty());
        let inputs = without(&["gone.yaml"], &["gone.yaml"]);
        assert_eq!(inputs.unreadable.len(), 1, "what is not there is no less an error");
    }

    #[test]
    fn standard_input_is_read_once() {
        let inputs = collect(&["-".into(), "-".into()], |_| Ok(b"kind: Job".to_vec()));
        assert_eq!(inputs.files.len(), 1);
        assert_eq!(&*inputs.files[0].path, "-");
        let broken = collect(&["-".into()], |_| Err(io::Error::other("closed")));
        assert_eq!(broken.unreadable[0].to_string(), "cannot read standard input: closed");
    }

    #[test]
    fn a_leading_dot_is_not_shown() {
        assert_eq!(&*shown(Path::new("./k8s/a.yaml")), "k8s/a.yaml");
        assert_eq!(&*shown(Path::new(".")), ".");
        assert_eq!(&*shown(Path::new("../a.yaml")), "../a.yaml");
    }
}
