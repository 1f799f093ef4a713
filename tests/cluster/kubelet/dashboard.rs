//! What the dashboards of Ray answer KubeRay, which asks them over plain HTTP, through a proxy here.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobgate::text::value::{Value, json};

use super::ray::{Answer, Stand};
use super::{Running, Scenarios, lock};

/// Starts the proxy, which serves until the program ends, and returns its port.
pub(super) fn start(scenarios: Scenarios) -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("listen: {e}"))?;
    let port = listener.local_addr().map_err(|e| format!("listen: {e}"))?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let scenarios = Arc::clone(&scenarios);
            thread::spawn(move || serve(stream, &scenarios));
        }
    });
    Ok(port)
}

/// Answers one request; who asked sees a broken connection where that fails, and asks again.
fn serve(mut stream: TcpStream, scenarios: &Scenarios) -> Option<()> {
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
    let mut body = Vec::new();
    lines.take(length).read_to_end(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, body) = Request::read(&first)
        .and_then(|request| {
            let running = lock(scenarios).get(request.namespace).cloned()?;
            Some(answer(&running, &request, &body))
        })
        .unwrap_or_else(|| (502, json!("there is no such dashboard")));
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nConnection: close");
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()
}

/// A request to a dashboard, by its first line.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    is_post: bool,
    /// The Service of the head, and its namespace.
    service: &'a str,
    namespace: &'a str,
    /// What comes after `/api/jobs`.
    rest: Vec<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads a first line with a whole URL, as it is sent to a proxy.
    fn read(line: &'a str) -> Option<Self> {
        let (method, rest) = line.split_once(' ')?;
        let url = rest.split(' ').next()?.split('?').next()?;
        let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
        let mut labels = host.split('.');
        let (service, namespace) = (labels.next()?, labels.next()?.split(':').next()?);
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        if (parts.next(), parts.next()) != (Some("api"), Some("jobs")) {
            return None;
        }
        Some(Self { is_post: method == "POST", service, namespace, rest: parts.collect() })
    }
}

/// Returns status and body of the answer to a request.
fn answer(running: &Running, request: &Request<'_>, body: &Value) -> (u16, Value) {
    let now = running.now();
    let (mut ray, timeline) = (lock(&running.ray), lock(&running.timeline));
    let silence = || (502, json!("no dashboard"));
    let Some((_, cluster)) = timeline.cluster(request.service) else { return silence() };
    match (request.is_post, request.rest.as_slice()) {
        (true, []) => {
            let id = body["submission_id"].as_str().unwrap_or_default();
            match ray.submit(&timeline, &running.script, (cluster, id), "operator", now) {
                None => silence(),
                Some(false) => (500, json!("Please use a different submission_id")),
                Some(true) => (200, json!({"job_id": id, "submission_id": id})),
            }
        }
        (true, [id, "stop"]) => match ray.ask(&timeline, cluster, id, now) {
            Answer::Silence => silence(),
            Answer::Unknown => (404, json!(format!("Job {id} does not exist"))),
            Answer::Is(_) => (200, json!({"stopped": ray.stop(&timeline, cluster, id, now)})),
        },
        (_, [id, ..]) => match ray.ask(&timeline, cluster, id, now) {
            Answer::Silence => silence(),
            Answer::Unknown => (404, json!(format!("Job {id} does not exist"))),
            Answer::Is(stand) => (200, described(id, &stand, SystemTime::now() - now)),
        },
        (false, []) => (200, json!([])),
    }
}

/// Returns what is said of a program; its times count from the beginning of the scenario.
fn described(id: &str, stand: &Stand, began: SystemTime) -> Value {
    let milliseconds = |at: Option<Duration>| {
        let at = at.and_then(|at| (began + at).duration_since(UNIX_EPOCH).ok());
        u64::try_from(at.unwrap_or_default().as_millis()).unwrap_or_default()
    };
    json!({
        "job_id": id, "submission_id": id, "status": stand.state, "message": stand.message.clone(),
        "entrypoint": "python train.py", "type": "SUBMISSION", "start_time": milliseconds(stand.started),
        "end_time": milliseconds(stand.ended),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_programs_are_those_of_the_clock() {
        let stand = Stand {
            state: "SUCCEEDED",
            message: "program succeeded".to_owned(),
            started: Some(Duration::from_secs(1)),
            ended: None,
        };
        let described = described("j-9", &stand, UNIX_EPOCH + Duration::from_secs(1_000));
        assert_eq!((&described["start_time"], &described["end_time"]), (&json!(1_001_000), &json!(0)));
    }

    #[test]
    fn a_request_names_service_namespace_and_program() {
        let line = "GET http://j-x-head-svc.team-1.svc.cluster.local:8265/api/jobs/j-9 HTTP/1.1\r\n";
        let expected =
            Request { is_post: false, service: "j-x-head-svc", namespace: "team-1", rest: vec!["j-9"] };
        assert_eq!(Request::read(line), Some(expected));
        let line = "POST http://s.n:8265/api/jobs/?x=1 HTTP/1.1";
        assert_eq!(
            Request::read(line).map(|request| (request.is_post, request.namespace, request.rest.len())),
            Some((true, "n", 0))
        );
        for line in ["", "GET / HTTP/1.1", "GET http://s.n/other HTTP/1.1", "GET http://s/api/jobs HTTP/1.1"]
        {
            assert_eq!(Request::read(line), None, "{line}");
        }
    }
}
