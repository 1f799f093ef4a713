//! What a Ray dashboard answers KubeRay, which asks it over plain HTTP, through a proxy here.
//!
//! What was submitted by an object called `j` has ended well whenever it is asked about; everything else runs
//! on. A real dashboard would not know it before the submitter's pod has run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use jobgate::text::value::{Value, json};

/// Starts one, which serves until the tests end, and returns its port.
pub(crate) fn start() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("listen: {e}"))?;
    let port = listener.local_addr().map_err(|e| format!("listen: {e}"))?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    Ok(port)
}

/// Answers one request; who asked sees a broken connection where that fails, and asks again.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    lines.take(length).read_to_end(&mut Vec::new()).ok()?;
    let body = answer(&first).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()
}

/// Returns the answer to a request, of which this is the first line.
fn answer(request: &str) -> Value {
    let url = request.split(' ').nth(1).unwrap_or_default();
    let id = url.rsplit_once("/api/jobs/").map_or("", |(_, id)| id);
    if id.ends_with("/stop") {
        return json!({"stopped": true});
    }
    let status = if id.starts_with("j-") { "SUCCEEDED" } else { "RUNNING" };
    json!({"job_id": id, "submission_id": id, "status": status, "message": "", "start_time": 1000})
}
