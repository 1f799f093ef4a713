//! Files from untrusted sources: opened without waiting for anybody, never through a link that leads out of a tree, and
//! read up to a limit.
//!
//! What the user names may be a pipe. What a tree or its configuration names must be a regular file inside it:
//! a link to `/dev/zero` never ends, a pipe never answers, and a file of another user is none of its business.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::spot::DirectoryEntry;

/// Maximum bytes of a policy, of a configuration, and of a file of values for a chart. A policy has to fit into a
/// ConfigMap, which has the same limit.
pub(crate) const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Maximum bytes of a baseline: several hundred thousand findings.
pub(crate) const MAX_BASELINE_BYTES: u64 = 64 << 20;
/// Timeout of a pipe that the user names.
pub(crate) const PIPE_TIMEOUT: Duration = Duration::from_secs(120);

/// The directories of version control, which are not part of a tree.
pub(super) const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Barred {
    /// It is outside of the tree, or a link leads there.
    #[error("it is outside the directory")]
    Outside,
    /// It is a pipe, a device, a directory or the like.
    #[error("it is not a regular file")]
    NoFile,
    /// It has more bytes than the limit.
    #[error("it is larger than the limit of {}", crate::text::number::bytes(*.0))]
    TooLarge(u64),
    /// It did not end in time.
    #[error("it does not end within {} seconds", .0.as_secs())]
    Slow(Duration),
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NoText,
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Barred {
    /// Tells whether there is no such file.
    #[must_use]
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Barred> for io::Error {
    fn from(barred: Barred) -> Self {
        match barred {
            Barred::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// Opens a regular file, also through a link. It waits for nothing: neither the writer of a pipe nor a device.
///
/// # Errors
/// It cannot be opened, or is something else.
pub(crate) fn open(path: &Path) -> Result<File, Barred> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    // Opening some devices has effects, so they are not opened.
    if !fs::metadata(path)?.is_file() {
        return Err(Barred::NoFile);
    }
    regular(options.open(path)?)
}

/// Returns a file if it is a regular one.
pub(super) fn regular(file: File) -> Result<File, Barred> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(Barred::NoFile) }
}

/// Reads to the end, but not beyond a limit.
pub(super) fn bounded(file: File, limit: u64) -> Result<Vec<u8>, Barred> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > limit {
        return Err(Barred::TooLarge(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(Barred::TooLarge(limit)) } else { Ok(bytes) }
}

/// Reads what the user names: a file, or a pipe as long as it does not take longer than [`PIPE_TIMEOUT`].
///
/// # Errors
/// It cannot be read, is larger than the limit, or takes too long.
pub(crate) fn named(path: &Path, limit: u64) -> Result<Vec<u8>, Barred> {
    let bytes = drained(path, limit)?;
    if bytes.len() as u64 > limit { Err(Barred::TooLarge(limit)) } else { Ok(bytes) }
}

/// Reads what the user names like [`named`], but cuts what is too large after the first byte beyond the limit.
///
/// # Errors
/// It cannot be read, or takes too long.
pub(crate) fn drained(path: &Path, limit: u64) -> Result<Vec<u8>, Barred> {
    drained_within(path, limit, PIPE_TIMEOUT)
}

fn drained_within(path: &Path, limit: u64, time: Duration) -> Result<Vec<u8>, Barred> {
    let read = move |path: &Path| -> Result<Vec<u8>, Barred> {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    if fs::metadata(path)?.is_file() {
        return read(path);
    }
    // Only another thread can stop waiting for whoever has the other end. It ends with the process.
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    let read = move || _ = sender.send(read(&path));
    std::thread::Builder::new().name("pipe".to_owned()).spawn(read)?;
    receiver.recv_timeout(time).unwrap_or(Err(Barred::Slow(time)))
}

/// Returns the text of bytes.
///
/// # Errors
/// They are not UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, Barred> {
    String::from_utf8(bytes).map_err(|_| Barred::NoText)
}

/// One or several directories with their contents: those that a run was given, or that a configuration is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Absolute, without links.
    roots: Arc<[PathBuf]>,
}

impl Tree {
    /// Returns the tree of directories. A missing one has no contents.
    #[must_use]
    pub(crate) fn new<'p>(directories: impl IntoIterator<Item = &'p Path>) -> Self {
        let real = |directory: &Path| {
            fs::canonicalize(if directory.as_os_str().is_empty() { Path::new(".") } else { directory }).ok()
        };
        Self { roots: directories.into_iter().filter_map(real).collect() }
    }

    /// Returns the tree of directories that [`Self::roots`] gave.
    #[must_use]
    pub(crate) fn from_roots(roots: Arc<[PathBuf]>) -> Self {
        Self { roots }
    }

    /// Returns its directories, absolute and without links.
    #[must_use]
    pub(crate) fn roots(&self) -> Arc<[PathBuf]> {
        Arc::clone(&self.roots)
    }

    /// Tells whether a file or directory is in the tree, after all links.
    #[must_use]
    pub(crate) fn has(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|real| self.below(&real).is_some())
    }

    /// Tells whether a file or directory is in the tree, after all links; the empty path is the current directory.
    #[must_use]
    pub(crate) fn has_here(&self, path: &Path) -> bool {
        self.has(if path.as_os_str().is_empty() { Path::new(".") } else { path })
    }

    /// Returns the root that a path without links is below, and the path from there.
    fn below<'p>(&self, real: &'p Path) -> Option<(&Path, &'p Path)> {
        let is_own = |below: &Path| {
            let is_name = |part: Component<'_>| VERSION_CONTROL.iter().any(|name| part.as_os_str() == *name);
            !below.components().any(is_name)
        };
        self.roots.iter().find_map(|root| {
            let below = real.strip_prefix(root).ok().filter(|below| is_own(below))?;
            Some((&**root, below))
        })
    }

    /// Returns the entry of a file of the tree. Its path has no links, so none can be put there later.
    pub(super) fn spot(&self, path: &Path) -> Result<DirectoryEntry, Barred> {
        let real = fs::canonicalize(path)?;
        let (root, below) = self.below(&real).ok_or(Barred::Outside)?;
        Ok(DirectoryEntry::beneath(root, below)?)
    }

    /// Reads a file of the tree.
    ///
    /// # Errors
    /// It is elsewhere, not a regular file, larger than the limit, or cannot be read.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Barred> {
        let spot = self.spot(path)?;
        // Opening some devices has effects, so they are not opened.
        if !fs::metadata(path)?.is_file() {
            return Err(Barred::NoFile);
        }
        bounded(regular(spot.open()?)?, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "12345").unwrap();
        let tree = Tree::new([dir.path()]);
        for read in [named(&path, 5), tree.read(&path, 5)] {
            assert_eq!(read.unwrap(), b"12345");
        }
        for read in [named(&path, 4), tree.read(&path, 4)] {
            assert_eq!(read.unwrap_err().to_string(), "it is larger than the limit of 4 bytes");
        }
        assert!(matches!(open(dir.path()), Err(Barred::NoFile)));
        assert!(named(&dir.path().join("gone"), 1).unwrap_err().is_missing());
        assert!(tree.read(&dir.path().join("gone"), 1).unwrap_err().is_missing());
    }

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_not_read_and_a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("/dev/zero", at("zero")).unwrap();
        let pipe = at("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let tree = Tree::new([dir.path()]);
        assert!(matches!(open(&at("zero")), Err(Barred::NoFile)));
        assert!(matches!(open(&pipe), Err(Barred::NoFile)));
        assert!(matches!(tree.read(&at("zero"), 10), Err(Barred::Outside)));
        assert!(matches!(tree.read(&pipe, 10), Err(Barred::NoFile)));
        assert!(matches!(named(&at("zero"), 10), Err(Barred::TooLarge(10))));
        let short = Duration::from_millis(50);
        assert!(matches!(drained_within(&pipe, 10, short), Err(Barred::Slow(_))));
        // Whoever was given up on still waits at the first one.
        let pipe = at("other");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (there, again) = (pipe.clone(), pipe.clone());
        let writer = std::thread::spawn(move || fs::write(there, "text").unwrap());
        assert_eq!(named(&again, 10).unwrap(), b"text");
        writer.join().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_tree_has_what_is_in_it_after_all_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("tree/sub/.git")).unwrap();
        fs::create_dir_all(at("out")).unwrap();
        for file in ["tree/sub/a", "tree/sub/.git/a", "out/a"] {
            fs::write(at(file), file).unwrap();
        }
        for (to, from) in [
            ("sub/a", "tree/near"),
            ("../out/a", "tree/far"),
            ("../out", "tree/directory"),
            ("sub/.git/a", "tree/git"),
            ("sub", "tree/inner"),
        ] {
            symlink(to, at(from)).unwrap();
        }
        symlink(at("tree/sub/a"), at("tree/absolute")).unwrap();
        let tree = Tree::new([&*at("tree")]);
        for inside in ["tree/near", "tree/absolute", "tree/inner/a", "tree/directory/../tree/near"] {
            assert_eq!(tree.read(&at(inside), 99).unwrap(), b"tree/sub/a", "{inside}");
        }
        for outside in
            ["tree/far", "tree/directory/a", "tree/git", "tree/sub/.git/a", "out/a", "tree/../out/a"]
        {
            assert!(!tree.has(&at(outside)), "{outside}");
            assert!(matches!(tree.read(&at(outside), 99), Err(Barred::Outside)), "{outside}");
        }
        let both = Tree::new([&*at("tree"), &*at("out")]);
        assert_eq!(both.read(&at("tree/far"), 99).unwrap(), b"out/a");
    }
}
