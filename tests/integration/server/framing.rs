//! Requests that two readers could read in two ways.

use super::*;

const FIELDS: &str = "content-type: application/json\r\n";

fn ambiguous() -> Vec<String> {
    let head = |fields: &str| format!("POST /mutate HTTP/1.1\r\nhost: x\r\n{FIELDS}{fields}\r\n{{}}");
    let whole = request("/mutate", "{}");
    vec![
        head("content-length: 2\r\ntransfer-encoding: chunked\r\n"),
        head("transfer-encoding: chunked\r\ncontent-length: 2\r\n"),
        head("content-length: 2\r\ncontent-length: 2\r\n"),
        head("content-length: 2\r\nContent-Length: 3\r\n"),
        head("content-length: 2, 2\r\n"),
        head("content-length: +2\r\n"),
        head("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"),
        head("transfer-encoding: gzip, chunked\r\n"),
        head("transfer-encoding: identity\r\ncontent-length: 2\r\n"),
        head("host: y\r\ncontent-length: 2\r\n"),
        head("x: y\r\n z\r\ncontent-length: 2\r\n"),
        head("content-length : 2\r\n"),
        head("x: y\ncontent-length: 2\r\n"),
        head("x: y\rcontent-length: 2\r\n"),
        whole.replacen("\r\n", "\n", 1),
        whole.replacen("\r\n\r\n", "\r\n\n", 1),
        whole.replace("\r\n", "\n"),
        format!("\n{whole}"),
    ]
}

#[tokio::test]
async fn a_request_whose_end_is_in_doubt_is_refused() {
    let server = start(|_| {}).await;
    for bytes in ambiguous() {
        // In one piece, behind another request, and byte by byte.
        for way in 0..3 {
            let mut client = server.connect().await;
            match way {
                0 => client.send(&bytes).await.unwrap(),
                1 => {
                    client.send(format!("{}{bytes}", request("/mutate", "{}"))).await.unwrap();
                    assert_eq!(client.reply().await.unwrap().status, 200, "{bytes:?}");
                }
                _ => {
                    for byte in bytes.bytes() {
                        client.send([byte]).await.unwrap();
                    }
                }
            }
            let reply = client.reply().await.unwrap_or_else(|error| panic!("{bytes:?}, {way}: {error}"));
            assert_eq!((reply.status, reply.closes()), (400, true), "{bytes:?}, {way}");
            client.closed().await;
        }
    }
    let refused = server.metric(r#"jobgate_connections_closed_total{cause="framing"}"#);
    assert_eq!(refused, 3.0 * ambiguous().len() as f64);
}

#[tokio::test]
async fn the_second_port_is_as_strict() {
    let server = start(|_| {}).await;
    for bytes in ambiguous() {
        let mut stream = TcpStream::connect(server.probe_address).await.unwrap();
        stream.write_all(bytes.replace("POST /mutate", "GET /healthz").as_bytes()).await.unwrap();
        let mut reply = String::new();
        timeout(Duration::from_secs(10), stream.read_to_string(&mut reply)).await.expect("an end").unwrap();
        assert!(reply.starts_with("HTTP/1.1 400"), "{bytes:?}: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_arrives_though_the_client_is_still_sending() {
    let server = start(|_| {}).await;
    for _ in 0..10 {
        let mut client = server.connect().await;
        let head = format!(
            "POST /mutate HTTP/1.1\r\nhost: x\r\n{FIELDS}content-length: 2000000\r\ncontent-length: 2000000\r\n\r\n"
        );
        client.send(format!("{head}{}", "x".repeat(2_000_000))).await.expect("it may be sent whole");
        assert_eq!(client.reply().await.unwrap().status, 400);
    }
}

#[tokio::test]
async fn what_is_pipelined_is_answered_in_order() {
    let server = start(|_| {}).await;
    let mut client = server.connect().await;
    // A body that looks like a head, and heads that come in pieces.
    let body = "{}\r\n\r\nGET / HTTP/1.1\nhost: a\nhost: b\n\n";
    let all = [request("/mutate", body), request("/validate", "[]"), request("/mutate", "")].concat();
    let (first, rest) = all.split_at(all.len() - 40);
    client.send(first).await.unwrap();
    let reply = client.reply().await.unwrap();
    assert!(reply.body.contains(&format!(r#""endpoint":"mutate","length":{},"#, body.len())), "{reply:?}");
    assert!(client.reply().await.unwrap().body.contains(r#""endpoint":"validate","length":2"#));
    client.send(rest).await.unwrap();
    assert!(client.reply().await.unwrap().body.contains(r#""endpoint":"mutate","length":0"#));
}

#[tokio::test]
async fn nothing_follows_a_chunked_body() {
    let server = start(|_| {}).await;
    let mut client = server.connect().await;
    let chunked = "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    client.send(format!("{chunked}{}", request("/validate", "[1]"))).await.unwrap();
    let reply = client.reply().await.unwrap();
    assert!(reply.closes() && reply.body.contains(r#""endpoint":"mutate","length":2"#), "{reply:?}");
    client.closed().await;
    assert!(!server.metrics.text().contains(r#"endpoint="validate""#));
}
