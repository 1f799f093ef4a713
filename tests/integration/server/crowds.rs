//! Others who take places: from several addresses, on both ports, in each phase of a connection.

use super::*;

/// The addresses of the attackers. The API server is at 127.0.0.1.
const SIX: std::ops::RangeInclusive<u8> = 2..=7;
const FORTY: std::ops::RangeInclusive<u8> = 2..=41;

/// How many connections there may be where they are few.
const PLACES: usize = 24;

async fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

/// What an attacker does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waste {
    /// Nothing at all.
    Silent,
    /// A handshake, and nothing after it.
    Idle,
    /// A handshake and the beginning of a request.
    Headers,
    /// A handshake, headers and the beginning of a body.
    Body,
    /// A review, and nothing after it.
    Served,
}

/// A connection that is held open.
#[expect(dead_code, reason = "held, not used")]
enum Held {
    Plain(TcpStream),
    Tls(Box<Client>),
}

/// Opens a connection from an address, unless it is refused or evicted while it is being opened.
async fn waste(server: &Running, last: u8, waste: Waste) -> Option<Held> {
    let stream = connect_from(last, server.address).await;
    if waste == Waste::Silent {
        return Some(Held::Plain(stream));
    }
    let connector = TlsConnector::from(Arc::new(server.tls()));
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.ok()?;
    let mut client = Client { stream, buffer: Vec::new() };
    match waste {
        Waste::Silent | Waste::Idle => {}
        Waste::Headers => client.send("POST /mutate HTTP/1.1\r\nhost:").await.ok()?,
        Waste::Body => {
            client.send(&request("/mutate", "{}")[..request("/mutate", "{}").len() - 1]).await.ok()?;
        }
        Waste::Served => drop(client.post("/mutate", "{}").await.ok()?),
    }
    Some(Held::Tls(Box::new(client)))
}

/// Fills a server beyond its places with one kind of waste from several addresses, and checks what the API
/// server sees of it.
async fn crowd(addresses: impl Iterator<Item = u8> + Clone, kind: Waste) {
    let server =
        start(|config| (config.limits.connections, config.limits.connections_per_source) = (PLACES, 8)).await;
    let mut pool = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        assert_eq!(client.post("/mutate", "{}").await.unwrap().status, 200);
        pool.push(client);
    }
    let mut held = Vec::new();
    for round in 0..3 {
        for last in addresses.clone().cycle().take(PLACES) {
            held.extend(waste(&server, last, kind).await);
        }
        for (number, client) in pool.iter_mut().enumerate() {
            let reply = client.post("/mutate", "{}").await;
            assert_eq!(
                reply.unwrap_or_else(|error| panic!("{kind:?}, round {round}, {number}: {error}")).status,
                200
            );
        }
        let begun = Instant::now();
        let mut new = server
            .try_connect(server.tls())
            .await
            .unwrap_or_else(|error| panic!("{kind:?}, round {round}: {error}"));
        assert_eq!(new.post("/mutate", "{}").await.unwrap().status, 200, "{kind:?}");
        assert!(begun.elapsed() < ms(2500), "a newcomer does not wait: {:?}", begun.elapsed());
    }
    let evicted = server.metric(r#"jobgate_connections_closed_total{cause="evicted"}"#);
    assert!(evicted >= PLACES as f64, "{kind:?}: {evicted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_only_connect_make_room() {
    crowd(SIX, Waste::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_connections_make_room() {
    crowd(SIX, Waste::Idle).await;
    crowd(FORTY, Waste::Idle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_with_slow_headers_make_room() {
    crowd(SIX, Waste::Headers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_with_slow_bodies_make_room() {
    crowd(SIX, Waste::Body).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_connections_that_have_served_the_largest_source_makes_room() {
    crowd(2..=4, Waste::Served).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_has_arrived_is_answered_whoever_comes_next() {
    let server = start(|config| config.limits.connections = 1).await;
    for round in 0..50 {
        let mut first = server.connect().await;
        first.post("/mutate", "{}").await.unwrap();
        first.send(request("/mutate", "{}")).await.unwrap();
        let mut second = TcpStream::connect(server.address).await.unwrap();
        let reply = first.reply().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(reply.status, 200);
        let _ = second.shutdown().await;
        drop((first, second));
        for _ in 0..2000 {
            if server.metric("jobgate_connections") == 0.0 {
                break;
            }
            sleep(ms(1)).await;
        }
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_kept() {
    let server = start(|_| {}).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The beginning of a ClientHello of 65,520 bytes, in records of 16 KiB.
    let record =
        |message: &[u8]| [&[22, 3, 1, 0x40, 0][..], message, &vec![0; 0x4000 - message.len()]].concat();
    let _ = stream.write_all(&[record(&[1, 0, 0xff, 0xf0]), record(&[])].concat()).await;
    server.until_metric(r#"jobgate_handshake_errors_total{cause="invalid"}"#, 1.0).await;
}

/// Probes as the kubelet does: each on a connection of its own, with a second for it.
async fn probes_succeed(server: &Running, what: &str) {
    for path in ["/healthz", "/readyz", "/healthz", "/readyz"] {
        let reply =
            timeout(ms(1000), server.probe(path)).await.unwrap_or_else(|_| panic!("{path} beside {what}"));
        assert_eq!(reply.0, 200, "{path} beside {what}: {}", reply.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_beside_any_crowd() {
    for (name, begin) in [
        ("idle connections", ""),
        ("single bytes", "G"),
        ("half-sent headers", "GET /readyz HTTP/1.1\r\nhost: x\r\n"),
    ] {
        for addresses in [2..=2, SIX, FORTY] {
            let server = start(|_| {}).await;
            let what = format!("{name} from {} addresses", addresses.len());
            let mut held = Vec::new();
            for last in addresses.cycle().take(300) {
                let mut stream = connect_from(last, server.probe_address).await;
                // It may have been evicted by the next one already.
                let _ = stream.write_all(begin.as_bytes()).await;
                held.push(stream);
            }
            probes_succeed(&server, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_from_the_address_of_a_crowd_are_answered() {
    let server = start(|_| {}).await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(connect_from(1, server.probe_address).await);
    }
    probes_succeed(&server, "connections from the node itself").await;
}

#[tokio::test]
async fn a_probe_is_the_only_one_of_its_connection() {
    let server = start(|_| {}).await;
    let mut stream = TcpStream::connect(server.probe_address).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut reply = String::new();
    timeout(Duration::from_secs(10), stream.read_to_string(&mut reply))
        .await
        .expect("the server ends the connection")
        .unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 200") && reply.to_lowercase().contains("connection: close"),
        "{reply}"
    );
}

#[tokio::test]
async fn threads_that_are_busy_do_not_delay_probes() {
    // One thread serves reviews here, and a small review blocks it.
    let server = start(|config| config.limits.inline_bytes = 1000).await;
    let address = server.probe_address;
    let mut client = server.connect().await;
    client.send(request("/mutate", &order("compute"))).await.unwrap();
    let probed = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let begun = Instant::now();
        while begun.elapsed() < ms(1000) {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(ms(1000))).unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        }
    });
    assert_eq!(client.reply().await.unwrap().status, 200);
    probed.join().unwrap();
}
