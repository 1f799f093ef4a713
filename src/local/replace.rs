//! Puts a new text in the place of a file, all of it or nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Why a file was not replaced. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotReplaced {
    /// The text on the disk is no longer the one that the new text was made from.
    #[error("the file has changed since it was read")]
    Changed,
    /// It is a pipe, a device or the like.
    #[error("it is not a regular file")]
    NoFile,
    /// It may not be written.
    #[error("the file is read-only")]
    ReadOnly,
    /// The system rejects.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Replaces a file whose text is `old`, or the target of a symbolic link, and keeps its permissions.
///
/// The new text is written to a file beside it, synced and renamed, so that no reader sees half of it. Hard
/// links keep the old text. A file that already has the new text is not written.
///
/// # Errors
///
/// The file is unchanged.
pub fn replace(path: &Path, old: &[u8], new: &[u8]) -> Result<(), NotReplaced> {
    let target = fs::canonicalize(path)?;
    let metadata = fs::metadata(&target)?;
    if !metadata.is_file() {
        return Err(NotReplaced::NoFile);
    }
    // Renaming needs only the directory's permissions; the file's count, too.
    if metadata.permissions().readonly() {
        return Err(NotReplaced::ReadOnly);
    }
    OpenOptions::new().write(true).open(&target)?;
    let directory = target.parent().unwrap_or(Path::new("/"));
    let mut beside = tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory)?;
    beside.write_all(new)?;
    beside.as_file().set_permissions(metadata.permissions())?;
    beside.as_file().sync_all()?;
    let [is_old, is_new] = holds(&target, [old, new])?;
    if is_new {
        return Ok(());
    }
    if !is_old {
        return Err(NotReplaced::Changed);
    }
    beside.persist(&target).map_err(|error| error.error)?;
    sync(directory);
    Ok(())
}

/// Tells for each text whether a file equals it, without reading the whole file into memory.
fn holds<const N: usize>(path: &Path, texts: [&[u8]; N]) -> io::Result<[bool; N]> {
    let mut file = File::open(path)?;
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
/// # Errors
///
/// The file is unchanged.
pub fn put(path: &Path, text: &[u8]) -> Result<(), NotReplaced> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, text),
        Err(error) => Err(error.into()),
        Ok(_) if !fs::metadata(path)?.is_file() => Err(NotReplaced::NoFile),
        Ok(_) => replace(path, &fs::read(path)?, text),
    }
}

fn create(path: &Path, text: &[u8]) -> Result<(), NotReplaced> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Else the error would name the unfinished file, which means nothing to a person.
    fs::metadata(directory)?;
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut beside = builder.prefix(PREFIX).tempfile_in(directory)?;
    beside.write_all(text)?;
    beside.as_file().sync_all()?;
    beside.persist_noclobber(path).map_err(|error| error.error)?;
    sync(directory);
    Ok(())
}

/// How the names of unfinished files start.
const PREFIX: &str = ".jobgate-";

/// Brings a new name to the disk; where a system cannot do that, the rename is no less whole.
fn sync(directory: &Path) {
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
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
                &path,
                [long.as_bytes(), &last, &longer, &long.as_bytes()[1..], &long.as_bytes()[..1 << 16], b""]
            )
            .unwrap(),
            [true, false, false, false, false, false]
        );
        let (_dir, path) = file("");
        assert_eq!(holds(&path, [&b""[..], b"a"]).unwrap(), [true, false]);
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
}
