//! kubectl, and what it prints.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jobgate::text::value::Value;

/// kubectl with a kubeconfig.
#[derive(Clone)]
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) cache: PathBuf,
}

/// What kubectl answered.
pub(crate) struct Output {
    command: String,
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kubectl {
    /// Runs kubectl, with something on its standard input. A machine that is too busy for a TLS handshake
    /// within kubectl's ten seconds gets another two tries: nothing was sent yet.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let once = || self.run_once(arguments, input);
        let unheard = |output: &Output| {
            !output.success
                && output.stderr.contains("Unable to connect to the server: net/http: TLS handshake timeout")
        };
        let first = once();
        (0..2).fold(first, |output, _| if unheard(&output) { once() } else { output })
    }

    /// Ends within 40 s.
    fn run_once(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            .arg("--request-timeout=35s")
            .args(arguments)
            .env("HOME", Path::new(&self.cache))
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let input = input.to_owned();
        // kubectl may end without reading what it is given; that is its business.
        let writing = thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let out = thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        let err = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let began = Instant::now();
        let success = loop {
            match child.try_wait().expect("wait for kubectl") {
                Some(status) => break status.success(),
                None if began.elapsed() > Duration::from_secs(40) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break false;
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let _ = writing.join();
        let text = |handle: thread::JoinHandle<String>| handle.join().expect("read a pipe");
        Output { command: arguments.join(" "), success, stdout: text(out), stderr: text(err) }
    }
}

impl Output {
    /// Fails the test unless the command worked.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.success, "{self}");
        self
    }

    /// Fails the test unless the command worked and nobody warned of anything but what Jobgate itself wrote.
    #[track_caller]
    pub(crate) fn quiet(self) -> Self {
        let output = self.ok();
        let told = |line: &str| {
            ["filled in", "restored"].iter().any(|what| line.starts_with(&format!("Warning: jobgate {what}")))
        };
        assert!(
            !output.stderr.lines().any(|line| line.contains("Warning:") && !told(line)),
            "must not warn: {output}"
        );
        output
    }

    /// Fails the test unless the command worked and a warning of one line says all this.
    #[track_caller]
    pub(crate) fn warns(self, parts: &[&str]) -> Self {
        let output = self.ok();
        let all = |line: &str| line.starts_with("Warning:") && parts.iter().all(|part| line.contains(part));
        assert!(output.stderr.lines().any(all), "no warning says {parts:?}: {output}");
        output
    }

    /// Tells whether Jobgate denied the request, saying all this.
    pub(crate) fn is_denied(&self, parts: &[&str]) -> bool {
        !self.success
            && self.stderr.contains("denied the request")
            && parts.iter().all(|part| self.stderr.contains(part))
    }

    /// Fails the test unless Jobgate denied the request, saying all this.
    #[track_caller]
    pub(crate) fn denied(self, parts: &[&str]) -> Self {
        assert!(self.is_denied(parts), "must be denied, saying {parts:?}: {self}");
        self
    }

    /// Fails the test unless the API server itself rejected the request, saying all this.
    #[track_caller]
    pub(crate) fn refused(self, parts: &[&str]) -> Self {
        assert!(
            !self.success && !self.stderr.contains("denied the request"),
            "must be rejected by the API server: {self}"
        );
        for part in parts {
            assert!(self.stderr.contains(part), "must say {part:?}: {self}");
        }
        self
    }

    /// Returns the object that was printed as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let output = self.ok();
        serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output}"))
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, success, stdout, stderr } = self;
        write!(f, "kubectl {command}\nsuccess: {success}\nstdout:\n{stdout}\nstderr:\n{stderr}")
    }
}
