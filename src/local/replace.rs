//! Replaces the text of a file, completely or not at all, and never through a link that was not named.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path};

use super::files::{self, Barred, Tree};
use super::paths::normal;
use super::spot::DirectoryEntry;

/// Why a file was not replaced. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum NotReplaced {
    /// The text on the disk is no longer the one that the new text was made from.
    #[error("the file has changed since it was read")]
    Changed,
    /// It is a pipe, a device or the like.
    #[error("it is not a regular file")]
    NoFile,
    /// It is a link, which whoever made the directory may have put there.
    #[error("it is a link, and nothing is written through one; name the file that it leads to")]
    Link,
    /// A directory on the way is a link that leads out of the one that the path begins in.
    #[error("a link on its way leads out of the directory; name the directory that it leads to")]
    LeadsOut,
    /// It may not be written.
    #[error("the file is read-only")]
    ReadOnly,
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Barred> for NotReplaced {
    fn from(barred: Barred) -> Self {
        match barred {
            Barred::Outside => Self::LeadsOut,
            Barred::Io(error) => Self::Io(error),
            _ => Self::NoFile,
        }
    }
}

/// Replaces a file that the user has named and whose text is `old`, or the target of a symbolic link, and keeps
/// its permissions.
///
/// The new text is written to a file beside it, synced and renamed, so that no reader sees half of it. Hard
/// links keep the old text. A file that already has the new text is not written.
///
/// # Errors
///
/// The file is unchanged.
pub(crate) fn replace(path: &Path, old: &[u8], new: &[u8]) -> Result<(), NotReplaced> {
    let target = fs::canonicalize(path)?;
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(NotReplaced::NoFile);
    };
    if target.is_dir() {
        return Err(NotReplaced::NoFile);
    }
    replace_at(&DirectoryEntry::beneath(directory, Path::new(name))?, old, new)
}

/// Replaces a file of a tree that the user did not name, like [`replace`]. If a link leads out of the tree, nothing is
/// written.
///
/// # Errors
///
/// The file is unchanged.
pub(crate) fn replace_in(tree: &Tree, path: &Path, old: &[u8], new: &[u8]) -> Result<(), NotReplaced> {
    replace_at(&tree.spot(path)?, old, new)
}

fn replace_at(spot: &DirectoryEntry, old: &[u8], new: &[u8]) -> Result<(), NotReplaced> {
    let file = files::regular(spot.open()?)?;
    let permissions = file.metadata()?.permissions();
    // Renaming needs only the directory's permissions, but the file's matter, too.
    if permissions.readonly() {
        return Err(NotReplaced::ReadOnly);
    }
    spot.try_write()?;
    write(spot, Some(permissions), new, || {
        // As late as possible: an editor may have written it meanwhile.
        let [is_old, is_new] = holds(files::regular(spot.open()?)?, [old, new])?;
        if is_new || is_old { Ok(!is_new) } else { Err(NotReplaced::Changed) }
    })
}

/// Writes a text to a new file beside another and renames it to that, unless `is_due` returns `false`.
fn write(
    spot: &DirectoryEntry,
    permissions: Option<fs::Permissions>,
    text: &[u8],
    is_due: impl FnOnce() -> Result<bool, NotReplaced>,
) -> Result<(), NotReplaced> {
    // The new text of a file that only some may read is hidden from everybody else.
    let (name, beside) = spot.beside(permissions.is_some())?;
    let written = fill(beside, permissions, text).map_err(NotReplaced::from).and_then(|()| is_due());
    let taken = match written {
        Ok(true) => spot.take(&name).map_err(NotReplaced::from),
        Ok(false) => {
            spot.remove(&name);
            return Ok(());
        }
        Err(error) => Err(error),
    };
    match taken {
        Ok(()) => spot.sync(),
        Err(_) => spot.remove(&name),
    }
    taken
}

/// Writes a new file, and closes it: some systems cannot rename an open one.
fn fill(mut file: File, permissions: Option<fs::Permissions>, text: &[u8]) -> io::Result<()> {
    file.write_all(text)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

/// Tells for each text whether a file equals it, without reading the whole file into memory.
fn holds<const N: usize>(mut file: File, texts: [&[u8]; N]) -> io::Result<[bool; N]> {
    let (mut buffer, mut at, mut same) = (vec![0; 1 << 16], 0, [true; N]);
    loop {
        let read = match file.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for (same, text) in same.iter_mut().zip(texts) {
            *same &=
                if read == 0 { text.len() == at } else { text.get(at..at + read) == Some(&buffer[..read]) };
        }
        if read == 0 || same == [false; N] {
            return Ok(same);
        }
        at += read;
    }
}

/// Writes a file completely or not at all, like [`replace`]. A new file gets default permissions.
///
/// Nothing is written through a link: whoever made the directory may have put one there.
///
/// # Errors
///
/// The file is unchanged.
pub fn put(path: &Path, text: &[u8]) -> Result<(), NotReplaced> {
    let spot = output(path)?;
    let Some(permissions) = there(path)? else { return write(&spot, None, text, || Ok(true)) };
    if permissions.readonly() {
        return Err(NotReplaced::ReadOnly);
    }
    spot.try_write()?;
    if holds(files::regular(spot.open()?)?, [text])? == [true] {
        return Ok(());
    }
    write(&spot, Some(permissions), text, || Ok(true))
}

/// Tells whether [`put`] could write a file, as far as that is known before.
///
/// # Errors
///
/// It could not.
pub(crate) fn can_put(path: &Path) -> Result<(), NotReplaced> {
    output(path)?;
    there(path).map(drop)
}

/// Returns the permissions of a file, if it is there.
fn there(path: &Path) -> Result<Option<fs::Permissions>, NotReplaced> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
        Ok(metadata) if metadata.is_symlink() => Err(NotReplaced::Link),
        Ok(metadata) if !metadata.is_file() => Err(NotReplaced::NoFile),
        Ok(metadata) => Ok(Some(metadata.permissions())),
    }
}

/// Returns the entry of a new file.
///
/// The directories of an absolute path outside of the current directory are trusted. Those of a path that begins in the
/// current directory, or above it, may be somebody else's links: none of them may lead out of there.
fn output(path: &Path) -> Result<DirectoryEntry, NotReplaced> {
    let name = path.file_name().ok_or(NotReplaced::NoFile)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = fs::canonicalize(directory)?;
    if !real.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    let current = std::env::current_dir()?;
    let base = if path.is_absolute() {
        normal(path).starts_with(&current).then_some(current)
    } else {
        let path = normal(path);
        let up = path.components().take_while(|part| *part == Component::ParentDir);
        Some(up.fold(current, |at, up| at.join(up)))
    };
    match base {
        Some(base) if !real.starts_with(fs::canonicalize(&base)?) => Err(NotReplaced::LeadsOut),
        _ => Ok(DirectoryEntry::beneath(&real, Path::new(name))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.yaml");
        fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn entries(dir: &tempfile::TempDir) -> usize {
        fs::read_dir(dir.path()).unwrap().count()
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let (dir, path) = file("old");
        replace(&path, b"old", b"new text").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(&dir)), ("new text", 1));
        replace(&path, b"something else", b"new text").unwrap();
    }

    #[test]
    fn texts_differ_at_any_byte() {
        let long = "0123456789abcdef".repeat(1 << 13);
        let (_dir, path) = file(&long);
        let mut last = long.clone().into_bytes();
        *last.last_mut().unwrap() = b'x';
        let longer = [long.as_bytes(), b"0"].concat();
        assert_eq!(
            holds(
                File::open(&path).unwrap(),
                [long.as_bytes(), &last, &longer, &long.as_bytes()[1..], &long.as_bytes()[..1 << 16], b""]
            )
            .unwrap(),
            [true, false, false, false, false, false]
        );
        let (_dir, path) = file("");
        assert_eq!(holds(File::open(&path).unwrap(), [&b""[..], b"a"]).unwrap(), [true, false]);
    }

    #[test]
    fn what_changed_meanwhile_is_left_alone() {
        let (dir, path) = file("newer");
        assert!(matches!(replace(&path, b"old", b"new"), Err(NotReplaced::Changed)));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(&dir)), ("newer", 1));
        assert!(matches!(replace(dir.path(), b"", b"new"), Err(NotReplaced::NoFile)));
        assert!(matches!(replace(&dir.path().join("gone"), b"", b"new"), Err(NotReplaced::Io(_))));
    }

    #[test]
    fn a_file_is_written_whether_it_is_there_or_not() {
        let (dir, path) = file("old");
        put(&path, b"new").unwrap();
        let fresh = dir.path().join("fresh.json");
        put(&fresh, b"fresh").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read_to_string(&fresh).unwrap(), entries(&dir)),
            ("new".into(), "fresh".into(), 2)
        );
        assert!(matches!(put(dir.path(), b"x"), Err(NotReplaced::NoFile)));
        assert!(matches!(put(&dir.path().join("no/such/place"), b"x"), Err(NotReplaced::Io(_))));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let beside = dir.path().join("beside");
            File::create(&beside).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(&fresh), mode(&beside), "what the umask says, as for any file");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let (dir, path) = file("old");
        let link = dir.path().join("link.yaml");
        symlink("job.yaml", &link).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&link, b"old", b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(matches!(replace(&link, b"new", b"newer"), Err(NotReplaced::ReadOnly)));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(&dir)), ("new", 2));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_put_through_a_link() {
        use std::os::unix::fs::symlink;
        let (dir, path) = file("old");
        for (to, from) in [("job.yaml", "link"), ("gone", "broken"), ("/dev/null", "device")] {
            let link = dir.path().join(from);
            symlink(to, &link).unwrap();
            assert!(matches!(can_put(&link), Err(NotReplaced::Link)), "{from}");
            assert!(matches!(put(&link, b"new"), Err(NotReplaced::Link)), "{from}");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert!(!dir.path().join("gone").exists());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(&dir)), ("old", 4));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_comes_meanwhile_is_replaced_and_not_followed() {
        use std::os::unix::fs::symlink;
        let (dir, path) = file("old");
        let out = dir.path().join("out");
        let spot = output(&out).unwrap();
        symlink("job.yaml", &out).unwrap();
        write(&spot, None, b"new", || Ok(true)).unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read_to_string(&out).unwrap()),
            ("old".into(), "new".into())
        );
        assert!(!fs::symlink_metadata(&out).unwrap().is_symlink());
        // One that comes in the place of a file that is fixed is not read.
        fs::remove_file(&out).unwrap();
        symlink("job.yaml", &out).unwrap();
        assert!(replace_at(&spot, b"old", b"new").is_err());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(&dir)), ("old", 2));
    }

    #[cfg(unix)]
    #[test]
    fn a_tree_is_left_by_no_link() {
        use std::os::unix::fs::symlink;
        let (out, target) = file("old");
        let (dir, _) = file("old");
        symlink(&target, dir.path().join("far.yaml")).unwrap();
        symlink(out.path(), dir.path().join("directory")).unwrap();
        symlink("job.yaml", dir.path().join("near.yaml")).unwrap();
        let tree = Tree::new([dir.path()]);
        for name in ["far.yaml", "directory/job.yaml"] {
            let done = replace_in(&tree, &dir.path().join(name), b"old", b"new");
            assert!(matches!(done, Err(NotReplaced::LeadsOut)), "{name}");
        }
        replace_in(&tree, &dir.path().join("near.yaml"), b"old", b"new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_to_string(dir.path().join("job.yaml")).unwrap(), "new");
        assert!(fs::symlink_metadata(dir.path().join("near.yaml")).unwrap().is_symlink());
        assert_eq!(entries(&out), 1);
    }
}
