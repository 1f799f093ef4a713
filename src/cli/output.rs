//! Where a report goes: to a stream, or into a file.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path};

use anyhow::Context as _;

use crate::local::lint::path_text;
use crate::local::replace::{can_put, put};

/// Writes to a stream that its reader may close.
pub(super) fn to(
    stream: &mut dyn Write,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(stream);
    match text(&mut out).and_then(|()| out.flush()) {
        // A reader may close the pipe: `jobgate lint | head` is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write the report"),
    }
}

/// Writes to a file, all of it or nothing, or else to a stream.
pub(super) fn to_file_or(
    file: Option<&Path>,
    stream: &mut dyn Write,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return to(stream, text) };
    let failed = || failed(file);
    if is_stream(file) {
        let mut device = fs::OpenOptions::new().append(true).open(file).with_context(failed)?;
        return to(&mut device, text).with_context(failed);
    }
    let mut bytes = Vec::new();
    text(&mut bytes).with_context(failed)?;
    put(file, &bytes).with_context(failed)
}

fn failed(file: &Path) -> String {
    format!("write the report to {}", path_text(file))
}

/// Tells whether a file has no earlier text that could be lost: a pipe or a device. `/dev/stdout` may be a file, but
/// replacing it would take it from whoever else writes to it. A link elsewhere is neither.
fn is_stream(file: &Path) -> bool {
    let is_device =
        |metadata: fs::Metadata| !metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink();
    ["/dev", "/proc"].iter().any(|directory| {
        file.starts_with(directory) && !file.components().any(|part| part == Component::ParentDir)
    }) || fs::symlink_metadata(file).is_ok_and(is_device)
}

/// Fails if a file for a report cannot be created: better before the run than after it.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    if file.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(|| failed(file));
    }
    if is_stream(file) { Ok(()) } else { can_put(file).with_context(|| failed(file)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_all_of_a_report_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report");
        let mut stream = Vec::new();
        to_file_or(Some(&file), &mut stream, |out| out.write_all(b"one")).unwrap();
        let broken = |out: &mut dyn Write| out.write_all(b"two").and(Err(io::Error::other("broken")));
        let error = to_file_or(Some(&file), &mut stream, broken).unwrap_err();
        assert!(format!("{error:#}").ends_with("report: broken"), "{error:#}");
        assert_eq!((fs::read(&file).unwrap(), stream.len()), (b"one".to_vec(), 0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        to_file_or(None, &mut stream, |out| out.write_all(b"three")).unwrap();
        assert_eq!(stream, b"three");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_found_first() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let says = |path: &str| check(&folder.path().join(path)).err().map(|error| format!("{error:#}"));
        assert_eq!(says("new.json"), None);
        assert_eq!(says("file"), None);
        for path in ["", "gone/new.json", "file/new.json"] {
            assert!(says(path).unwrap().starts_with("write the report to "), "{path}");
        }
    }
}
