//! File URIs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::local::lint::{normal, path_text};

/// Returns the file of a URI; `None` for one without a file (`untitled:1`).
pub(super) fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    let share = match host {
        "" | "localhost" => String::new(),
        share if cfg!(windows) => format!("//{share}"),
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                left = &rest[2..];
            }
            None => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    // `/C:/…`
    let has_drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Some(normal(Path::new(&if has_drive { path[1..].to_owned() } else { share + &path })))
}

/// Returns the URI of a file.
pub(super) fn of_path(path: &Path) -> String {
    let path = path_text(path);
    // On Windows, `//share/…` names its host, and `C:/…` has no `/` before it.
    let mut uri = if path.starts_with("//") { "file:" } else { "file://" }.to_owned();
    if !path.starts_with('/') {
        uri.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(windows)]
    #[test]
    fn a_drive_and_a_share_have_uris() {
        for (path, uri) in [
            (r"C:\a b\c.yaml", "file:///C%3A/a%20b/c.yaml"),
            (r"\\host\share\a.yaml", "file://host/share/a.yaml"),
        ] {
            assert_eq!(of_path(Path::new(path)), uri);
            assert_eq!(to_path(uri).unwrap(), Path::new(path));
        }
        assert_eq!(to_path("file:///c:/a/../b").unwrap(), Path::new(r"c:\b"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_one_uri_and_a_uri_one_file() {
        for (path, uri) in
            [("/a/b.yaml", "file:///a/b.yaml"), ("/a b/ä%.yaml", "file:///a%20b/%C3%A4%25.yaml")]
        {
            assert_eq!(of_path(Path::new(path)), uri);
            assert_eq!(to_path(uri).unwrap(), Path::new(path));
        }
        assert_eq!(to_path("file://localhost/a/../b").unwrap(), Path::new("/b"));
        assert_eq!(to_path("file:///a%2").unwrap(), Path::new("/a%2"), "not a digit");
        for uri in ["untitled:1", "file://share/a", "file:///%ff", "file:", "", "file://é"] {
            assert_eq!(to_path(uri), None, "{uri}");
        }
    }
}
