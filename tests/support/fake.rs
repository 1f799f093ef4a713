//! What a fake API server answers with: the ways in which a real one can fail to be one.

#![allow(unreachable_pub, dead_code, reason = "each test program uses its own part")]

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, future};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::BoxBody;
use jobgate::text::value::json;
use tokio::time::sleep;
use tower::BoxError;

/// The body of an answer.
pub type Body = BoxBody<Bytes, BoxError>;

/// What the fake API server does with a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Says nothing, for ever.
    Hang,
    /// Breaks the connection.
    Reset,
    /// Answers with a code and a body.
    Reply(u16, String),
    /// Answers later.
    Late(Duration, String),
    /// Sends the head and half an object, and then nothing more.
    Stall(String),
    /// Sends the head, and ends the body after a time in which nothing happened.
    Quiet(Duration),
}

impl Answer {
    /// Answers with a `Status`, as an API server says no.
    pub fn status(code: u16, reason: &str) -> Self {
        Self::Reply(code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}).to_string())
    }

    /// Answers that the object does not exist.
    pub fn absent() -> Self {
        Self::status(404, "NotFound")
    }

    /// Gives the answer.
    pub async fn give(self) -> Result<Response<Body>, BoxError> {
        let reply = |code: u16, text: String| {
            Ok(Response::builder().status(code).body(body(futures::stream::iter([text])))?)
        };
        match self {
            Self::Hang => future::pending().await,
            Self::Reset => Err("connection reset by peer".into()),
            Self::Late(pause, text) => {
                sleep(pause).await;
                reply(200, text)
            }
            Self::Stall(text) => {
                Ok(Response::new(body(futures::stream::iter([text]).chain(futures::stream::pending()))))
            }
            Self::Quiet(pause) => {
                let end = futures::stream::once(sleep(pause)).filter_map(|()| future::ready(None));
                Ok(Response::new(body(end)))
            }
            Self::Reply(code, text) => reply(code, text),
        }
    }
}

/// Makes a body of pieces of text.
pub fn body(pieces: impl futures::Stream<Item = String> + Send + Sync + 'static) -> Body {
    BoxBody::new(StreamBody::new(pieces.map(|text| Ok(Frame::data(Bytes::from(text))))))
}
