//! A name in a directory that is held open, so that the file that is checked is the one that is written: nobody can put
//! a link in between.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;

/// The prefix of the names of unfinished files.
const PREFIX: &str = ".jobgate-";

/// A name in a directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    #[cfg(unix)]
    directory: std::os::fd::OwnedFd,
    #[cfg(not(unix))]
    directory: std::path::PathBuf,
    name: OsString,
}

fn unnamed() -> io::Error {
    io::Error::from(io::ErrorKind::IsADirectory)
}

#[cfg(unix)]
impl DirectoryEntry {
    /// Returns the place of a file below a directory: `below` has neither links nor `..`.
    pub(super) fn beneath(root: &Path, below: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags, open, openat};
        let name = below.file_name().ok_or_else(unnamed)?.to_owned();
        // Where the system supports it, the directory need not be readable.
        #[cfg(target_os = "linux")]
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = open(root, flags, Mode::empty())?;
        for part in below.parent().into_iter().flat_map(Path::components) {
            directory = openat(&directory, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(Self { directory, name })
    }

    /// Opens the file to read it; a link is an error, and a pipe is not waited for.
    pub(super) fn open(&self) -> io::Result<File> {
        self.opened(rustix::fs::OFlags::RDONLY)
    }

    /// Opens the file to see whether it may be written.
    pub(super) fn try_write(&self) -> io::Result<()> {
        self.opened(rustix::fs::OFlags::WRONLY).map(drop)
    }

    fn opened(&self, how: rustix::fs::OFlags) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, Mode::empty())?.into())
    }

    /// Creates an empty file beside it with a new name, and returns both.
    pub(super) fn beside(&self, is_private: bool) -> io::Result<(OsString, File)> {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = Mode::RUSR | Mode::WUSR;
        let others = Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let mode = if is_private { own } else { own | others };
        fresh(|name| Ok(openat(&self.directory, name, flags, mode)?.into()))
    }

    /// Renames a file beside it to its name: a link there is replaced, not followed.
    pub(super) fn take(&self, beside: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, beside, &self.directory, &self.name)?)
    }

    /// Removes a file beside it.
    pub(super) fn remove(&self, beside: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.directory, beside, rustix::fs::AtFlags::empty());
    }

    /// Syncs a new name to the disk; where a system cannot do that, the rename is atomic all the same.
    pub(super) fn sync(&self) {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ = openat(&self.directory, ".", flags, Mode::empty())
            .and_then(|directory| rustix::fs::fsync(&directory));
    }
}

#[cfg(not(unix))]
impl DirectoryEntry {
    pub(super) fn beneath(root: &Path, below: &Path) -> io::Result<Self> {
        let path = root.join(below);
        let name = below.file_name().ok_or_else(unnamed)?.to_owned();
        Ok(Self { directory: path.parent().unwrap_or(root).to_owned(), name })
    }

    fn path(&self) -> io::Result<std::path::PathBuf> {
        let path = self.directory.join(&self.name);
        match std::fs::symlink_metadata(&path)?.is_symlink() {
            true => Err(io::Error::other("it is a link")),
            false => Ok(path),
        }
    }

    pub(super) fn open(&self) -> io::Result<File> {
        File::open(self.path()?)
    }

    pub(super) fn try_write(&self) -> io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(self.path()?).map(drop)
    }

    pub(super) fn beside(&self, _is_private: bool) -> io::Result<(OsString, File)> {
        fresh(|name| File::create_new(self.directory.join(name)))
    }

    pub(super) fn take(&self, beside: &OsStr) -> io::Result<()> {
        std::fs::rename(self.directory.join(beside), self.directory.join(&self.name))
    }

    pub(super) fn remove(&self, beside: &OsStr) {
        let _ = std::fs::remove_file(self.directory.join(beside));
    }

    pub(super) fn sync(&self) {}
}

/// Creates a file with an unused name.
fn fresh(make: impl Fn(&OsStr) -> io::Result<File>) -> io::Result<(OsString, File)> {
    const TRIES: usize = 64;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for nth in 0..TRIES {
        let random = std::hash::RandomState::new().hash_one((nth, std::process::id()));
        let name = OsString::from(format!("{PREFIX}{random:016x}"));
        match make(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
