//! Messages over standard input and output.

use std::io::{self, BufRead, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use lsp_server::{ErrorCode, Message};
use serde_json::json;

/// Maximum bytes of a message: a few times the largest file that is judged by default.
const MAX_MESSAGE: u64 = 256 << 20;
/// Maximum bytes of a header line.
const MAX_HEADER: u64 = 8 << 10;

/// The result of a read.
#[derive(Debug)]
pub(super) enum WireRead {
    Message(Message),
    /// Something framed as a message that is not one.
    Garbage(String),
    End,
}

/// Reads a message.
///
/// [`Message::read`] is not used, since it fails at the first one that is not JSON: half a UTF-16 character, as some
/// editors send, is no reason to stop.
///
/// # Errors
/// Input cannot be read, or it is unknown where the next message starts.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<WireRead> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_HEADER).read_until(b'\n', &mut line)? == 0 {
            return Ok(WireRead::End);
        }
        let line = String::from_utf8_lossy(&line);
        let Some(line) = line.strip_suffix('\n') else {
            return Err(invalid("a header without an end".to_owned()));
        };
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            return Err(invalid(format!("`{}` is not a header", line.escape_debug())));
        };
        if name.eq_ignore_ascii_case("Content-Length") {
            let number = value.trim().parse::<u64>().ok().filter(|length| *length <= MAX_MESSAGE);
            let wrong = || invalid(format!("a message cannot have `{}` bytes", value.trim().escape_debug()));
            length = Some(number.ok_or_else(wrong)?);
        }
    }
    let length = length.ok_or_else(|| invalid("a message without Content-Length".to_owned()))?;
    let mut body = Vec::new();
    if (input.take(length).read_to_end(&mut body)? as u64) < length {
        return Ok(WireRead::End);
    }
    Ok(match serde_json::from_slice(&body) {
        Ok(message) => WireRead::Message(message),
        Err(error) => WireRead::Garbage(format!("a message that is not JSON-RPC: {error}")),
    })
}

/// Standard output; messages of several threads do not mix.
#[derive(Clone)]
pub(super) struct MessageOutput(Arc<Mutex<io::Stdout>>);

impl MessageOutput {
    pub(super) fn stdout() -> Self {
        Self(Arc::new(Mutex::new(io::stdout())))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: impl Into<Message>) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        message.into().write(&mut *out)
    }

    /// Answers a message that cannot be read.
    pub(super) fn refuse(&self, why: &str) -> io::Result<()> {
        super::log(why);
        let code = ErrorCode::ParseError as i32;
        let text = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": why}}).to_string();
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(out, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut input = text.as_bytes();
        let mut found = Vec::new();
        loop {
            match read(&mut input) {
                Ok(WireRead::Message(message)) => found.push(serde_json::to_string(&message).unwrap()),
                Ok(WireRead::Garbage(_)) => found.push("garbage".to_owned()),
                Ok(WireRead::End) => break,
                Err(error) => {
                    found.push(error.to_string());
                    break;
                }
            }
        }
        found
    }

    #[test]
    fn garbage_in_a_message_is_not_the_end() {
        let lone = r#"{"method":"\ud83d"}"#;
        let text = format!(
            "Content-Length: {}\r\n\r\n{lone}Content-Type: x\r\ncontent-length: 14\r\n\r\n{{\"method\":\"a\"}}",
            lone.len()
        );
        assert_eq!(messages(&text), ["garbage", r#"{"method":"a"}"#]);
        assert_eq!(messages("Content-Length: 99\r\n\r\n{}"), [""; 0], "the editor is gone");
    }

    #[test]
    fn without_a_length_there_is_no_next_message() {
        for (text, why) in [
            ("hello\r\n\r\n", "`hello` is not a header"),
            ("A: b\r\n\r\n{}", "a message without Content-Length"),
            (
                "Content-Length: 18446744073709551615\r\n\r\n",
                "a message cannot have `18446744073709551615` bytes",
            ),
            ("Content-Length: -1\r\n\r\n", "a message cannot have `-1` bytes"),
            ("Content-Length", "a header without an end"),
        ] {
            assert_eq!(messages(text), [why]);
        }
    }
}
