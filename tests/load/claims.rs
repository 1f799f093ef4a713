//! As much of an API server as the cache of claims needs: one list, and a watch on which nothing happens.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A claim that any number of nodes can mount.
pub(crate) const SHARED: &str = "imagenet";
/// A claim that one node can mount, whose name does not say that it is for checkpoints.
pub(crate) const ONE_NODE: &str = "c";

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);

/// Returns where it listens; it serves until the tests end.
pub(crate) fn server() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || drop(answer(stream)));
            }
        });
        address
    })
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request)?;
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut stream = stream.into_inner();
    let path = request.split(' ').nth(1).unwrap_or_default();
    if path.contains("watch=true") {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")?;
        for version in 2.. {
            stream.flush()?;
            // The other side never sends more; it ends the wait by closing.
            stream.set_read_timeout(Some(BOOKMARK_INTERVAL))?;
            if stream.read(&mut [0]).is_ok() {
                return Ok(());
            }
            let object = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}});
            writeln!(stream, "{}", json!({"type": "BOOKMARK", "object": object}))?;
        }
    }
    let all = [claim(SHARED, "ReadWriteMany"), claim(ONE_NODE, "ReadWriteOnce")];
    let one = all.iter().find(|claim| {
        path.ends_with(&format!("/{}", claim["metadata"]["name"].as_str().unwrap_or_default()))
    });
    let list = || json!({"kind": "PersistentVolumeClaimList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": all});
    let body = one.cloned().unwrap_or_else(list).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn claim(name: &str, mode: &str) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name, "namespace": "research", "resourceVersion": "1", "uid": name},
        "spec": {"accessModes": [mode], "volumeName": "v"}, "status": {"phase": "Bound", "accessModes": [mode]},
    })
}

/// Returns a kubeconfig for it.
pub(crate) fn kubeconfig() -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "load",
        "clusters": [{"name": "load", "cluster": {"server": format!("http://{}", server())}}],
        "users": [{"name": "load", "user": {}}],
        "contexts": [{"name": "load", "context": {"cluster": "load", "user": "load"}}],
    });
    config.to_string()
}
