//! Requests to the API server with limits on time and size. `kube` provides the connection and the
//! credentials; the rest is here because a webhook needs more than a controller: a limit on every wait and
//! every buffer, bookmarks, and little logging.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::wire::ApiRefusal;
use jobgate_core::text::value::Value;

/// Maximum size of a single object: 1.5 MiB is what etcd stores, and JSON escapes can make that six times as
/// long.
pub const MAX_OBJECT_BYTES: usize = 10 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No answer came.
    #[error("reach the API server")]
    Transport(#[source] kube::Error),
    /// The API server answered with an error status.
    #[error("the API server answered {0}")]
    Status(StatusCode),
    /// The account lacks the permission.
    #[error("the API server forbids it")]
    Forbidden,
    /// There is no such object.
    #[error("the object does not exist")]
    NotFound,
    /// The server no longer has the requested version.
    #[error("the requested version is too old")]
    Expired,
    /// The answer is not JSON, or not of the expected form.
    #[error("parse the answer")]
    Garbage(#[from] serde_json::Error),
    /// The answer is not the requested object.
    #[error("the answer is not the requested object")]
    Foreign,
    /// The answer is too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// No answer came in time.
    #[error("the API server did not answer in time")]
    Silence,
}

/// The `Accept` header for whole objects.
pub(crate) const JSON: &str = "application/json";

/// Sends a GET and returns a successful answer.
pub async fn get(client: &Client, uri: String) -> Result<Response<Body>, Failure> {
    get_as(client, uri, JSON).await
}

/// Sends a GET with this `Accept` header and returns a successful answer.
pub(crate) async fn get_as(
    client: &Client,
    uri: String,
    accept: &'static str,
) -> Result<Response<Body>, Failure> {
    let request = Request::get(uri).header(http::header::ACCEPT, accept).body(Body::empty());
    send(client, request).await
}

/// Sends a GET and returns the JSON of a successful answer of at most `max_bytes` that came within `limit`.
pub async fn value(
    client: &Client,
    uri: String,
    max_bytes: usize,
    limit: Duration,
) -> Result<Value, Failure> {
    let answer = async { Ok(serde_json::from_slice(&read(get(client, uri).await?, max_bytes).await?)?) };
    timeout(limit, answer).await.unwrap_or(Err(Failure::Silence))
}

/// Sends a GET and returns the answer with any status.
pub async fn answer(client: &Client, uri: String) -> Result<Response<Body>, Failure> {
    let request = Request::get(uri).header(http::header::ACCEPT, JSON).body(Body::empty());
    let request = request.map_err(|e| Failure::Transport(kube::Error::HttpError(e)))?;
    client.send(request).await.map_err(Failure::Transport)
}

/// Sends a request and returns a successful answer.
pub async fn send(client: &Client, request: http::Result<Request<Body>>) -> Result<Response<Body>, Failure> {
    let request = request.map_err(|e| Failure::Transport(kube::Error::HttpError(e)))?;
    let response = client.send(request).await.map_err(Failure::Transport)?;
    match response.status() {
        status if status.is_success() => Ok(response),
        StatusCode::FORBIDDEN => Err(Failure::Forbidden),
        StatusCode::GONE => Err(Failure::Expired),
        StatusCode::NOT_FOUND => {
            let body = read(response, MAX_OBJECT_BYTES).await?;
            // If nothing serves the path at all, the answer is a line of text, not a `Status`.
            let refusal: ApiRefusal<'_> = serde_json::from_slice(&body).unwrap_or_default();
            Err(if refusal.is_not_found() { Failure::NotFound } else { Failure::Foreign })
        }
        status => Err(Failure::Status(status)),
    }
}

/// Reads a whole body, if it is no larger than `most` bytes.
pub async fn read(response: Response<Body>, most: usize) -> Result<Bytes, Failure> {
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Failure::Transport)?.into_data() {
            if bytes.len() + data.len() > most {
                return Err(Failure::TooLarge(most));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

/// The lines of a streamed body.
pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// There is no line end in the buffer before this position.
    searched: usize,
}

impl Lines {
    /// Reads the lines of an answer.
    #[must_use]
    pub fn new(response: Response<Body>) -> Self {
        Self { body: response.into_body(), buffer: BytesMut::new(), searched: 0 }
    }

    /// Returns the next line without its end; `None` at the end of the body, where an incomplete line is
    /// dropped. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + end + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(Failure::Transport)?.into_data() {
                        if self.buffer.len() + data.len() > MAX_OBJECT_BYTES {
                            return Err(Failure::TooLarge(MAX_OBJECT_BYTES));
                        }
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Percent-encodes a value for a query: every byte that could have another meaning is escaped.
pub fn escaped(value: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Returns whether text is a valid name of an object: lower-case letters, digits, `-` and `.`, at most 253,
/// with a letter or digit at both ends of every part. Other names exist in no cluster, and must not become
/// part of a path.
pub fn is_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_exist() {
        for name in ["a", "ckpt-0", "data.v1", "0", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "A",
            "../../secrets/x",
            "a/b",
            "a b",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a%2f",
            "a?b",
            "ä",
            "$CLAIM",
            &"a".repeat(254),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_query_value_cannot_end_its_parameter() {
        assert_eq!(escaped("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"), "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ");
        assert_eq!(escaped("a&b=c d+é/"), "a%26b%3Dc%20d%2B%C3%A9%2F");
    }

    fn response(chunks: &'static [&'static str]) -> Response<Body> {
        Response::new(Body::from(chunks.concat().into_bytes()))
    }

    #[tokio::test]
    async fn lines_end_at_line_ends() {
        let mut lines = Lines::new(response(&["one\ntw", "o\n\nhalf"]));
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(seen, ["one", "two", ""]);
    }

    #[tokio::test]
    async fn a_body_has_its_bound() {
        assert_eq!(read(response(&["12345"]), 5).await.unwrap(), "12345");
        assert!(matches!(read(response(&["123456"]), 5).await, Err(Failure::TooLarge(5))));
    }
}
