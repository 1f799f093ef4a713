//! A port of a pod, through the API server: `kubectl port-forward`, for one connection.
//!
//! The API server speaks this over WebSocket (RFC 6455): each message begins with a byte that says which of two channels it belongs to, 0 for the
//! connection's bytes and 1 for errors, and the first message on each is the port, twice two bytes long in all (`v4.channel.k8s.io`). It takes a
//! hundred lines; kube's own way would bring a WebSocket library into the webhook for them.

use base64::Engine as _;
use http::Request;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use rustls::crypto::ring;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};

/// The channels.
const DATA: u8 = 0;
const ERROR: u8 = 1;
/// The kinds of frames; all others carry nothing for us.
const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// A certificate chain fits many times. The API server sends frames of 32 KiB.
const LARGEST: u64 = 1 << 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    #[error("the API server forbids it")]
    Forbidden,
    #[error("the API server answered {0}")]
    Status(http::StatusCode),
    #[error("reach the API server")]
    Transport(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Opens a connection to a port of a pod. What goes wrong behind the API server ends the connection.
pub(super) async fn dial(client: &Client, namespace: &str, pod: &str, port: u16) -> Result<DuplexStream, ForwardError> {
    let key = base64::engine::general_purpose::STANDARD.encode(random::<16>());
    let request = Request::get(format!("/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io")
        .header(SEC_WEBSOCKET_KEY, key)
        .body(Body::empty())
        .map_err(|error| ForwardError::Transport(error.into()))?;
    let response = client.send(request).await.map_err(|error| ForwardError::Transport(error.into()))?;
    match response.status() {
        http::StatusCode::SWITCHING_PROTOCOLS => {}
        http::StatusCode::FORBIDDEN => return Err(ForwardError::Forbidden),
        status => return Err(ForwardError::Status(status)),
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| ForwardError::Transport(error.into()))?;
    let (near, far) = duplex(1 << 16);
    tokio::spawn(pump(TokioIo::new(upgraded), far));
    Ok(near)
}

/// Carries bytes between a WebSocket and a stream until either ends.
async fn pump<S: AsyncRead + AsyncWrite + Send>(socket: S, stream: DuplexStream) {
    let (mut from_socket, mut to_socket) = tokio::io::split(socket);
    let (mut from_stream, mut to_stream) = tokio::io::split(stream);
    let (pongs, mut pending) = tokio::sync::mpsc::channel::<Vec<u8>>(4);
    let inwards = async {
        // The first message of each channel is the port.
        let mut opened = [false; 2];
        let mut channel = None;
        while let Some((kind, payload)) = read(&mut from_socket).await? {
            let data = match kind {
                CLOSE => break,
                PING => {
                    let _ = pongs.try_send(payload);
                    continue;
                }
                BINARY => {
                    let Some((first, data)) = payload.split_first() else { continue };
                    channel = Some(*first);
                    match opened.get_mut(usize::from(*first)) {
                        Some(opened) if !*opened => {
                            *opened = true;
                            continue;
                        }
                        _ => data,
                    }
                }
                CONTINUATION => &payload[..],
                _ => continue,
            };
            match channel {
                Some(DATA) => to_stream.write_all(data).await?,
                Some(ERROR) => {
                    tracing::debug!(error = %String::from_utf8_lossy(data), "the port-forward failed");
                    break;
                }
                _ => {}
            }
        }
        std::io::Result::Ok(())
    };
    let outwards = async {
        let mut buffer = vec![0; 1 << 14];
        loop {
            tokio::select! {
                Some(payload) = pending.recv() => to_socket.write_all(&frame(PONG, &[&payload])).await?,
                read = from_stream.read(&mut buffer) => match read? {
                    0 => break,
                    count => to_socket.write_all(&frame(BINARY, &[&[DATA], &buffer[..count]])).await?,
                },
            }
        }
        to_socket.write_all(&frame(CLOSE, &[])).await
    };
    tokio::select! { _ = inwards => {}, _ = outwards => {} }
}

/// Reads one frame: its kind and what is in it; nothing at the end.
async fn read<S: AsyncRead + Unpin>(socket: &mut S) -> std::io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 2];
    if socket.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut head[1..]).await?;
    let length = match head[1] & 0x7f {
        126 => u64::from(socket.read_u16().await?),
        127 => socket.read_u64().await?,
        length => u64::from(length),
    };
    // A server does not mask what it sends.
    if head[1] & 0x80 != 0 || length > LARGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
    socket.read_exact(&mut payload).await?;
    Ok(Some((head[0] & 0x0f, payload)))
}

/// Makes a frame as a client must: masked.
fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let mut out = vec![0x80 | kind];
    match payload.len() {
        length @ 0..126 => out.push(0x80 | u8::try_from(length).unwrap_or_default()),
        length => {
            // What is sent comes from a buffer of 16 KiB.
            out.push(0x80 | 126);
            out.extend(u16::try_from(length).unwrap_or_default().to_be_bytes());
        }
    }
    let mask = random::<4>();
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Returns random bytes. They are there to tell connections apart, and keep no secret: where the system gives none, zeros do.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = ring::default_provider().secure_random.fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a client's frame, unmasked.
    async fn sent(server: &mut DuplexStream) -> (u8, Vec<u8>) {
        let head = server.read_u16().await.unwrap();
        let length = match head & 0x7f {
            126 => usize::from(server.read_u16().await.unwrap()),
            length => usize::from(length),
        };
        assert_eq!(head & 0x80, 0x80, "masked");
        let mut mask = [0; 4];
        server.read_exact(&mut mask).await.unwrap();
        let mut payload = vec![0; length];
        server.read_exact(&mut payload).await.unwrap();
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        (u8::try_from(head >> 8).unwrap() & 0x0f, payload)
    }

    fn from_server(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x80 | kind];
        match payload.len() {
            length @ 0..126 => out.push(u8::try_from(length).unwrap()),
            length => {
                out.push(126);
                out.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        out.extend(payload);
        out
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_ports_are_left_out() {
        let (socket, mut server) = duplex(1 << 16);
        let (mut near, far) = duplex(1 << 16);
        let pumping = tokio::spawn(pump(socket, far));
        near.write_all(b"hello").await.unwrap();
        assert_eq!(sent(&mut server).await, (BINARY, b"\0hello".to_vec()));
        let long = vec![7; 300];
        for (kind, payload) in [
            (BINARY, &b"\x00\x0a\x28"[..]),
            (BINARY, b"\x01\x0a\x28"),
            (PING, b"?"),
            (BINARY, b"\x00wor"),
            (CONTINUATION, b"ld"),
            (BINARY, &[&[0], &long[..]].concat()),
        ] {
            server.write_all(&from_server(kind, payload)).await.unwrap();
        }
        assert_eq!(sent(&mut server).await, (PONG, b"?".to_vec()));
        let mut got = vec![0; 305];
        near.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [b"world", &long[..]].concat());
        server.write_all(&from_server(BINARY, b"\x01connection refused")).await.unwrap();
        pumping.await.unwrap();
        assert_eq!(near.read(&mut got).await.unwrap(), 0, "an error ends it");
    }

    #[tokio::test]
    async fn what_is_no_frame_ends_it() {
        for bytes in [&b"\x82\x85abcd"[..], b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", b"\x82", b""] {
            let (socket, mut server) = duplex(1 << 16);
            let (mut near, far) = duplex(1 << 16);
            let pumping = tokio::spawn(pump(socket, far));
            server.write_all(bytes).await.unwrap();
            server.shutdown().await.unwrap();
            drop(server);
            pumping.await.unwrap();
            assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }
}
