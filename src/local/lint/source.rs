//! The bytes of a file, up to a limit.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use memchr::memmem::Finder;

use super::discover::Unreadable;
use crate::local::files;
use crate::local::paths::STDIN;
use jobgate_lint::{Content, FileBytes, Input};

/// A file above the size limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooLarge {
    /// Its size in bytes, if known: a pipe or device has none.
    pub(super) size: Option<u64>,
}

/// Reads a file up to a size limit. A file of known size above it is not read.
pub(crate) fn load(input: &Input, limit: u64) -> Result<Result<FileBytes, TooLarge>, Unreadable> {
    match &input.content {
        Content::Bytes(bytes) if bytes.len() as u64 > limit => Ok(Err(TooLarge { size: None })),
        Content::Bytes(bytes) => Ok(Ok(FileBytes::new(bytes.to_vec()))),
        Content::Open(_, text) if text.len() as u64 > limit => {
            Ok(Err(TooLarge { size: Some(text.len() as u64) }))
        }
        Content::Open(_, text) => Ok(Ok(FileBytes::shared(Arc::clone(text)))),
        Content::File(path) => {
            // What was a file when it was found may be something else by now.
            let read = files::open(path).map_err(io::Error::from).and_then(|file| {
                let size = file.metadata()?.len();
                if size > limit { Ok(Err(TooLarge { size: Some(size) })) } else { bounded(file, size, limit) }
            });
            match read {
                Ok(read) => Ok(read.map(FileBytes::new)),
                Err(error) => Err(Unreadable { path: input.path.to_string(), reason: error.to_string() }),
            }
        }
    }
}

/// Tells whether a file contains one of some texts, with only a window of it in memory.
pub(super) fn mentions(input: &Input, any: &[Finder<'_>], limit: u64) -> bool {
    match &input.content {
        Content::Bytes(bytes) => any.iter().any(|finder| finder.find(bytes).is_some()),
        Content::Open(_, text) => any.iter().any(|finder| finder.find(text.as_bytes()).is_some()),
        Content::File(path) => {
            let open = files::open(path).map_err(io::Error::from);
            open.and_then(|file| search(file.take(limit), any)).unwrap_or(false)
        }
    }
}

fn search(mut reader: impl Read, any: &[Finder<'_>]) -> io::Result<bool> {
    let longest = any.iter().map(|finder| finder.needle().len()).max().unwrap_or(1);
    let mut window = vec![0; 64 << 10];
    let mut kept = 0;
    loop {
        let read = match reader.read(&mut window[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(false);
        }
        let filled = kept + read;
        if any.iter().any(|finder| finder.find(&window[..filled]).is_some()) {
            return Ok(true);
        }
        // The text may cross the end of the window.
        let keep = filled.min(longest - 1);
        window.copy_within(filled - keep..filled, 0);
        kept = keep;
    }
}

/// Reads to the end, but not beyond a limit.
fn bounded(reader: impl Read, expected: u64, limit: u64) -> io::Result<Result<Vec<u8>, TooLarge>> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected.min(limit)).unwrap_or_default());
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > limit { Err(TooLarge { size: None }) } else { Ok(bytes) })
}

/// Reads standard input, at most one byte beyond the limit, which [`lint`](super::lint) then reports.
///
/// # Errors
///
/// Standard input cannot be read.
pub fn stdin(limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a pipe by its path, or standard input as [`STDIN`], which can be read only once.
///
/// # Errors
///
/// It cannot be read, or a pipe does not end in time.
pub fn drained(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if path.as_os_str() == STDIN {
        return stdin(limit);
    }
    Ok(files::drained(path, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let input = Input::named(&path);
        assert_eq!(load(&input, 5).unwrap().unwrap().bytes(), b"12345");
        assert_eq!(load(&input, 4).unwrap().unwrap_err().size, Some(5));
        assert!(load(&Input::named(Path::new("/no/such/file")), 4).is_err());
    }

    #[test]
    fn what_has_no_size_is_cut_off() {
        assert_eq!(bounded(io::repeat(b'a'), 0, 10).unwrap().unwrap_err().size, None);
        assert_eq!(bounded(&b"1234567890"[..], 0, 10).unwrap().unwrap().len(), 10);
        assert!(load(&Input::text("-", *b"12345"), 4).unwrap().is_err());
    }

    #[test]
    fn a_text_is_found_wherever_the_window_ends() {
        let finder = Finder::new("needle");
        for before in [0, 1, 65_530, 65_531, 65_535, 65_536, 200_000] {
            let text = "x".repeat(before) + "needle" + &"y".repeat(100);
            assert!(search(text.as_bytes(), std::slice::from_ref(&finder)).unwrap(), "{before}");
            assert!(!search(text.replace("ee", "e e").as_bytes(), std::slice::from_ref(&finder)).unwrap());
            // A reader that hands out a few bytes at a time.
            assert!(
                search(io::BufReader::with_capacity(5, text.as_bytes()), std::slice::from_ref(&finder))
                    .unwrap(),
                "{before}"
            );
        }
    }

    #[test]
    fn the_text_of_broken_utf8_ends_where_it_breaks() {
        assert_eq!(&*FileBytes::new(b"ok \xff no".to_vec()).text(), "ok ");
        assert_eq!(&*FileBytes::new("ok ü".into()).text(), "ok ü");
        assert_eq!(&*FileBytes::new(vec![0xff, 0xfe]).text(), "");
    }
}
