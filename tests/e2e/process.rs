//! Child processes that end with the test, and free ports for them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A process that is killed when this is dropped, in whatever way the test ends.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; what it prints goes to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let out = File::create(log)
            .and_then(|out| Ok((out.try_clone()?, out)))
            .map_err(|e| format!("create {}: {e}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.0)
            .stderr(out.1)
            .spawn()
            .map_err(|e| format!("start {command:?}: {e}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Says what the process printed last, if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended with {status}:\n{}", self.log.display(), self.log())),
            Err(e) => Err(format!("wait for {}: {e}", self.log.display())),
        }
    }

    /// Returns its process id.
    #[allow(dead_code, reason = "for the load test")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Tells whether the process has ever printed this.
    pub(crate) fn printed(&self, text: &str) -> bool {
        self.whole_log().contains(text)
    }

    fn whole_log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the last lines that the process printed.
    pub(crate) fn log(&self) -> String {
        let text = self.whole_log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a port of the loopback interface that nobody listens on, and that this process has not given out
/// before.
///
/// It is below those that systems take for outgoing connections (from 32768 on Linux), of which there are
/// hundreds at any moment here: one of them would have it before whoever is to listen there has started.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 15_000;
    const COUNT: u32 = 17_000;
    // Another run at the same time begins elsewhere.
    let start = std::process::id().wrapping_mul(7919);
    for _ in 0..COUNT {
        let port = FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(port).expect("below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Tries until it works or the time is over; then says what went wrong last.
pub(crate) fn eventually<T>(
    within: Duration,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if began.elapsed() > within => return Err(format!("not within {within:?}: {error}")),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Sums a counter with the label over the page of metrics on a port, for example `jobgate_x_total` and
/// `step="sign"`; 0 where nothing was counted.
pub(crate) fn count(port: u16, counter: &str, label: &str) -> f64 {
    sum(&http_get(port, "/metrics").expect("read the metrics"), counter, label)
}

/// Sums the values that a text of metrics has for a counter with the label.
pub(crate) fn sum(metrics: &str, counter: &str, label: &str) -> f64 {
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(counter).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
    });
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Gets a page over plain HTTP; the error is the whole answer.
pub(crate) fn http_get(port: u16, path: &str) -> Result<String, String> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = fetch().map_err(|e| format!("get {path}: {e}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no end of the header")?;
    if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(answer.clone()) }
}
