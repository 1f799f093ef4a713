//! Finds the end of an HTTP/1 request, so strictly that every other parser agrees.
//!
//! hyper answers some requests that RFC 9112 lets a server reject: lines that end with a bare LF, a
//! Content-Length beside a Transfer-Encoding, the same length twice. A proxy in front may read other requests
//! in the same bytes, so they are rejected here, before hyper sees them.
//!
//! The scanner gets the bytes of a connection in order, in pieces of any size, and does constant work for
//! each byte of a head. Bodies are skipped by their length; after a chunked one the connection has to end, so
//! chunks are not parsed.

/// The longest relevant field name.
const LONGEST_NAME: usize = "transfer-encoding".len();
const CHUNKED: &[u8] = b"chunked";

/// A scanner of everything that one client sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    at: FramingState,
    head: RequestHead,
}

/// What is expected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramingState {
    /// A request, or an empty line before it.
    #[default]
    Start,
    /// The LF of an empty line before a request.
    StartLf,
    /// The rest of a request line.
    Line,
    /// The LF after a request line or a field.
    Lf,
    /// A field, or the empty line that ends the head.
    Field,
    /// The rest of a field's name.
    Name,
    /// The rest of a field's value.
    Value(FramingField),
    /// The LF that ends the head.
    EndLf,
    /// This many bytes of a body.
    Body(u64),
    /// Chunks, and nothing after them.
    Chunks,
    /// Nothing: the connection is refused.
    Rejected,
}

/// The fields that determine the end of a request, or its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingField {
    Host,
    ContentLength,
    TransferEncoding,
    Other,
}

/// The head that is being read, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RequestHead {
    name: [u8; LONGEST_NAME],
    /// Length of the name, at most one more than fits.
    name_bytes: usize,
    value: FramingValue,
    host: bool,
    length: Option<u64>,
    chunked: bool,
}

/// A value that is being read. Blanks around it are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FramingValue {
    number: u64,
    /// Its length without blanks.
    bytes: usize,
    /// Whether it is followed by a blank.
    ended: bool,
}

/// The request is not framed in the one way that every parser accepts. The value is the offset of the first
/// invalid byte in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misframed(pub(super) usize);

impl Framing {
    /// Scans more bytes. After an error, everything is rejected.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Result<(), Misframed> {
        let mut next = 0;
        while let Some(rest) = bytes.get(next..).filter(|rest| !rest.is_empty()) {
            match self.at {
                FramingState::Body(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    next += here;
                    let left = left - here as u64;
                    self.at = if left == 0 { FramingState::Start } else { FramingState::Body(left) };
                }
                FramingState::Chunks => return Ok(()),
                // Most bytes of a head are in values.
                FramingState::Line | FramingState::Value(FramingField::Other | FramingField::Host) => {
                    match memchr::memchr2(b'\r', b'\n', rest) {
                        None => return Ok(()),
                        Some(end) => {
                            next += end;
                            self.step(rest[end]).map_err(|()| Misframed(next))?;
                            next += 1;
                        }
                    }
                }
                _ => {
                    self.step(rest[0]).map_err(|()| Misframed(next))?;
                    next += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns whether it is inside the head of a request.
    pub(super) fn in_head(&self) -> bool {
        !matches!(
            self.at,
            FramingState::Start | FramingState::Body(_) | FramingState::Chunks | FramingState::Rejected
        )
    }

    /// Returns whether something was rejected.
    pub(super) fn refused(&self) -> bool {
        self.at == FramingState::Rejected
    }

    fn step(&mut self, byte: u8) -> Result<(), ()> {
        let next = self.after(byte);
        self.at = next.unwrap_or(FramingState::Rejected);
        next.map(drop).ok_or(())
    }

    /// Returns the next state, if the byte is valid here.
    fn after(&mut self, byte: u8) -> Option<FramingState> {
        let head = &mut self.head;
        Some(match (self.at, byte) {
            (FramingState::Start, b'\r') => FramingState::StartLf,
            (FramingState::StartLf, b'\n') => FramingState::Start,
            (FramingState::Line, b'\r') | (FramingState::Value(_), b'\r') => {
                if let FramingState::Value(field) = self.at {
                    head.take(field)?;
                }
                FramingState::Lf
            }
            (FramingState::Lf, b'\n') => FramingState::Field,
            (FramingState::Field, b'\r') => FramingState::EndLf,
            (FramingState::EndLf, b'\n') => {
                let RequestHead { length, chunked, .. } = std::mem::take(head);
                match length {
                    _ if chunked => FramingState::Chunks,
                    None | Some(0) => FramingState::Start,
                    Some(length) => FramingState::Body(length),
                }
            }
            // Every valid LF is matched above; only an LF may follow a CR.
            (_, b'\n' | b'\r')
            | (FramingState::StartLf | FramingState::Lf | FramingState::EndLf | FramingState::Rejected, _) => {
                return None;
            }
            (FramingState::Start | FramingState::Line, _) => FramingState::Line,
            // An empty name, or a blank before or in a name: obsolete line folding, or worse.
            (FramingState::Field, b':') | (FramingState::Field | FramingState::Name, b' ' | b'\t') => {
                return None;
            }
            (FramingState::Name, b':') => {
                head.value = FramingValue::default();
                FramingState::Value(head.field())
            }
            (FramingState::Field, _) => {
                head.name_bytes = 0;
                head.name_byte(byte);
                FramingState::Name
            }
            (FramingState::Name, _) => {
                head.name_byte(byte);
                FramingState::Name
            }
            (FramingState::Value(field), _) => {
                head.value_byte(field, byte)?;
                self.at
            }
            (FramingState::Body(_) | FramingState::Chunks, _) => self.at,
        })
    }
}

impl RequestHead {
    fn name_byte(&mut self, byte: u8) {
        if let Some(place) = self.name.get_mut(self.name_bytes) {
            *place = byte.to_ascii_lowercase();
            self.name_bytes += 1;
        } else {
            self.name_bytes = LONGEST_NAME + 1;
        }
    }

    fn field(&self) -> FramingField {
        match self.name.get(..self.name_bytes) {
            Some(b"host") => FramingField::Host,
            Some(b"content-length") => FramingField::ContentLength,
            Some(b"transfer-encoding") => FramingField::TransferEncoding,
            _ => FramingField::Other,
        }
    }

    fn value_byte(&mut self, field: FramingField, byte: u8) -> Option<()> {
        let value = &mut self.value;
        if matches!(byte, b' ' | b'\t') {
            value.ended = value.bytes > 0;
            return Some(());
        }
        match field {
            FramingField::Host | FramingField::Other => return Some(()),
            _ if value.ended => return None,
            FramingField::ContentLength => {
                let digit = char::from(byte).to_digit(10)?;
                value.number = value.number.checked_mul(10)?.checked_add(digit.into())?;
            }
            FramingField::TransferEncoding => {
                if CHUNKED.get(value.bytes) != Some(&byte.to_ascii_lowercase()) {
                    return None;
                }
            }
        }
        value.bytes += 1;
        Some(())
    }

    /// Stores a field whose value has ended.
    fn take(&mut self, field: FramingField) -> Option<()> {
        let once = match field {
            FramingField::Host => !std::mem::replace(&mut self.host, true),
            FramingField::ContentLength => {
                self.value.bytes > 0 && !self.chunked && self.length.replace(self.value.number).is_none()
            }
            FramingField::TransferEncoding => {
                self.value.bytes == CHUNKED.len()
                    && self.length.is_none()
                    && !std::mem::replace(&mut self.chunked, true)
            }
            FramingField::Other => true,
        };
        once.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> (Result<(), Misframed>, Framing) {
        let mut framing = Framing::default();
        (framing.scan(text.as_bytes()), framing)
    }

    #[test]
    fn ordinary_requests_follow_each_other() {
        let get = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST /mutate?timeout=2s HTTP/1.1\r\nhost:a\r\nContent-Length: \t 12 \r\nX: \r\nx-y: a b, c\r\n\r\n{\n\r\n\n: [1]\n}";
        let chunked = "POST / HTTP/1.1\r\nTRANSFER-ENCODING: Chunked\t\r\n\r\n5\nno request";
        for text in [
            get.to_owned(),
            format!("\r\n\r\n{get}{get}"),
            format!("{post}{post}{get}"),
            format!("{post}{chunked}"),
        ] {
            let (result, framing) = whole(&text);
            assert_eq!(result, Ok(()), "{text}");
            assert!(!framing.in_head() && !framing.refused(), "{text}: {framing:?}");
        }
        for text in [
            "G",
            "GET / HTTP/1.1\r",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n",
            "GET / HTTP/1.1\r\n\r",
        ] {
            assert!(whole(text).1.in_head(), "{text}");
        }
        assert!(!whole("POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{").1.in_head());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (fields, at) in [
            ("\n", 0),
            ("a: b\n\r\n", 4),
            ("a: b\r\n\n", 6),
            ("a: b\rc: d\r\n\r\n", 5),
            ("a: b\r\r\n\r\n", 5),
            (" a: b\r\n\r\n", 0),
            ("a: b\r\n\tc: d\r\n\r\n", 6),
            ("a : b\r\n\r\n", 1),
            (": b\r\n\r\n", 0),
            ("ab\r\n\r\n", 2),
            ("host: a\r\nHost: a\r\n\r\n", 16),
            ("content-length:\r\n\r\n", 15),
            ("content-length: +2\r\n\r\n", 16),
            ("content-length: 0x2\r\n\r\n", 17),
            ("content-length: 2 2\r\n\r\n", 18),
            ("content-length: 2, 2\r\n\r\n", 17),
            ("content-length: 18446744073709551616\r\n\r\n", 35),
            ("content-length: 2\r\ncontent-length: 2\r\n\r\n", 36),
            ("content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", 45),
            ("transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n", 45),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", 54),
            ("transfer-encoding:\r\n\r\n", 18),
            ("transfer-encoding: identity\r\n\r\n", 19),
            ("transfer-encoding: chunke\r\n\r\n", 25),
            ("transfer-encoding: chunked, chunked\r\n\r\n", 26),
            ("transfer-encoding: chunkedd\r\n\r\n", 26),
            ("transfer-encoding: chunked;q=1\r\n\r\n", 26),
            ("transfer-encoding: \x0bchunked\r\n\r\n", 19),
        ] {
            let line = "POST / HTTP/1.1\r\n";
            let (result, framing) = whole(&format!("{line}{fields}"));
            assert_eq!(result, Err(Misframed(line.len() + at)), "{fields:?}");
            assert!(framing.refused());
        }
        for (text, at) in [("\n", 0), ("\r\r\n", 1), ("GET / HTTP/1.1\n", 14), ("GET /\rx HTTP/1.1\r\n", 6)] {
            assert_eq!(whole(text).0, Err(Misframed(at)), "{text:?}");
        }
        let mut framing = whole("\n").1;
        assert_eq!(
            framing.scan(b"GET / HTTP/1.1\r\n"),
            Err(Misframed(0)),
            "nothing is taken after a rejection"
        );
    }

    /// Requests, good and bad, as a sequence of the pieces that matter.
    fn traffic() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "GET / HTTP/1.1\r\n",
            "POST /mutate HTTP/1.1\r\n",
            "host: a\r\n",
            "Content-Length: 3\r\n",
            "content-length: 0\r\n",
            "content-length:",
            "12",
            "transfer-encoding: chunked\r\n",
            "Transfer-Encoding:",
            " chunked",
            "x: y\r\n",
            "\r\n",
            "\r",
            "\n",
            " ",
            "\t",
            ":",
            "abc",
            "\r\n\r\n",
            "{}\n",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_read_alike(bytes in traffic(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let mut at_once = Framing::default();
            let expected = at_once.scan(&bytes);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let mut framing = Framing::default();
            let mut result = Ok(());
            for pair in cuts.windows(2) {
                result = framing.scan(&bytes[pair[0]..pair[1]]).map_err(|Misframed(at)| Misframed(pair[0] + at));
                if result.is_err() {
                    break;
                }
            }
            prop_assert_eq!(result, expected);
            prop_assert_eq!(framing, at_once);
        }

        #[test]
        fn bodies_are_never_read_as_requests(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let mut framing = Framing::default();
            for body in bodies {
                let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
                prop_assert_eq!(framing.scan(&[head.as_bytes(), &body].concat()), Ok(()));
                prop_assert_eq!(&framing, &Framing::default());
            }
        }
    }
}
