//! Runs one program, with a limit of time and of output, and without the user's settings.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Wait before the first check whether a program has ended; later ones wait longer.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(20);
/// Maximum bytes of a program's standard error to read, and maximum characters of it to report.
const COMPLAINT: u64 = 64 << 10;
const REPORTED: usize = 300;
/// The environment variables that a program gets. The rest may name plugins, clusters and networks, and hold secrets.
const KEPT: [&str; 6] = ["PATH", "PATHEXT", "SYSTEMROOT", "LANG", "LC_ALL", "TZ"];
/// Those that it also gets to use the network.
const NETWORK: [&str; 4] = ["no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"];
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
/// Variables for the settings of the tools, which point into the scratch folder.
const HOMES: [&str; 9] = [
    "HOME",
    "USERPROFILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HELM_CACHE_HOME",
    "HELM_CONFIG_HOME",
    "HELM_DATA_HOME",
    "HELM_PLUGINS",
];
/// An address where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A program and its limits.
pub(super) struct ProcessCall<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [OsString],
    /// The folder that it may write to.
    pub(super) scratch: &'a Path,
    /// Whether it may use the network, by the user's proxies.
    pub(super) network: bool,
    pub(super) time: Duration,
    /// Maximum bytes of its output.
    pub(super) bytes: u64,
}

/// Why there is no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It could not be started, or watched.
    Start(String),
    /// It took too long.
    Time,
    /// The time for all is used up.
    All(Duration),
    /// It printed more than this many bytes.
    Size(u64),
    /// It failed, with this line.
    Tool(String),
}

impl Failure {
    pub(super) fn message(&self, name: &str, time: Duration) -> String {
        match self {
            Self::Start(error) => format!("`{name}` cannot be started: {error}"),
            Self::Time => format!("`{name}` takes longer than {}s", time.as_secs()),
            Self::All(time) => format!("all renderings together take longer than {}s", time.as_secs()),
            Self::Size(bytes) => format!("`{name}` prints more than {} KiB", bytes.div_ceil(1024)),
            Self::Tool(line) if line.is_empty() => format!("`{name}` fails"),
            Self::Tool(line) => format!("`{name}` fails: {line}"),
        }
    }
}

impl ProcessCall<'_> {
    /// Runs the program and returns what it prints. Everything that it has started is ended with it.
    pub(super) fn run(&self) -> Result<Vec<u8>, Failure> {
        let start = |error: io::Error| Failure::Start(error.to_string());
        // Files, not pipes: whatever keeps them open, nobody waits for it.
        let (out, err) = (self.scratch.join("stdout"), self.scratch.join("stderr"));
        let mut command = Command::new(self.program);
        command
            .args(self.arguments)
            .current_dir(self.scratch)
            .stdin(Stdio::null())
            .stdout(File::create(&out).map_err(start)?)
            .stderr(File::create(&err).map_err(start)?);
        self.surround(&mut command);
        let mut child = ProcessGroup(command.spawn().map_err(start)?);
        let begun = Instant::now();
        let mut wait = FIRST_LOOK;
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(start)? {
                break status;
            }
            if length(&out) > self.bytes || length(&err) > self.bytes {
                return Err(Failure::Size(self.bytes));
            }
            if begun.elapsed() >= self.time {
                return Err(Failure::Time);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(LAST_LOOK);
        };
        drop(child);
        if length(&out) > self.bytes {
            return Err(Failure::Size(self.bytes));
        }
        if status.success() {
            return fs::read(&out).map_err(start);
        }
        let mut said = Vec::new();
        let read = File::open(&err).and_then(|file| {
            use io::Read as _;
            file.take(COMPLAINT).read_to_end(&mut said)
        });
        read.map_err(start)?;
        Err(Failure::Tool(error_line(&String::from_utf8_lossy(&said))))
    }

    /// Keeps out the user's settings, secrets, clusters and plugins.
    fn surround(&self, command: &mut Command) {
        let kept = KEPT.iter().chain(PROXIES.iter().chain(&NETWORK).filter(|_| self.network));
        command.env_clear();
        command.envs(kept.filter_map(|key| Some((key, std::env::var_os(key)?))));
        for variable in HOMES {
            command.env(variable, self.scratch.join(variable.to_lowercase()));
        }
        command.env("KUBECONFIG", self.scratch.join("kubeconfig")).env("TMPDIR", self.scratch);
        command.env("GIT_TERMINAL_PROMPT", "0");
        if self.network {
            command.env("GIT_ALLOW_PROTOCOL", "https:http:ssh:git");
        } else {
            command.envs(PROXIES.map(|proxy| (proxy, NOWHERE)));
            // git has no transport of that name, so it uses none.
            command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_SSH_COMMAND", "false");
        }
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            command.process_group(0);
        }
    }
}

/// A program, and all that it starts, which are killed when this is dropped.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Also after its end: what it has left behind is still in its group.
        #[cfg(unix)]
        if let Some(id) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the line with the error, ready for a report.
fn error_line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| {
        let (word, rest) = line.split_once(": ")?;
        word.eq_ignore_ascii_case("error").then_some(rest)
    });
    let first = || {
        let line = lines().next().map(unlogged)?;
        // An error of several lines, in the format of such a log.
        let Some(head) = line.strip_suffix("err=<") else { return Some(Cow::Borrowed(line)) };
        let error: Vec<&str> = lines().skip(1).take_while(|line| *line != ">").collect();
        Some(if error.is_empty() { head.trim_end().into() } else { error.join(" ").into() })
    };
    let line = error.map(Cow::Borrowed).or_else(first).unwrap_or_default();
    let clean: Vec<char> = line.chars().filter(|char| !char.is_control()).collect();
    if clean.len() <= REPORTED {
        return clean.into_iter().collect();
    }
    // The cause is often at the end, after the place.
    let (first, last) =
        (clean.iter().take(REPORTED / 3), clean.iter().skip(clean.len() - (REPORTED - REPORTED / 3)));
    first.chain(&['…']).chain(last).collect()
}

/// Removes what the log of a Go program puts before an error: the time and the process differ in each run.
fn unlogged(line: &str) -> &str {
    let Some((head, rest)) = line.split_once("] ") else { return line };
    let is_head = head.starts_with(['E', 'F', 'W', 'I'])
        && head.get(1..5).is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit()));
    match rest.split_once("err=\"") {
        _ if !is_head => line,
        Some((_, error)) => error.strip_suffix('"').unwrap_or(error),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_short_line_without_control_characters() {
        assert_eq!(
            error_line("walk.go:1: found link\nError: it is\u{1b}[31m bad\u{7}\nhint\n"),
            "it is[31m bad"
        );
        assert_eq!(error_line("\n  no such file \n"), "no such file");
        assert_eq!(error_line(""), "");
        assert_eq!(error_line(&"x".repeat(9999)).chars().count(), REPORTED + 1);
        let log = "E1123 09:07:49.444568    8026 run.go:72] \"command failed\" err=\"no 'x' here\"";
        assert_eq!(error_line(log), "no 'x' here");
        assert_eq!(error_line("E1123 09:07:49.4 1 a.go:7] no way"), "no way");
        let several = "E1123 09:07:49.444568    8026 run.go:72] \"command failed\" err=<\n\tno `\n\tx: 1\n\t`\n >\nmore";
        assert_eq!(error_line(several), "no ` x: 1 `");
        assert_eq!(error_line("Else [x] y"), "Else [x] y");
    }

    #[cfg(unix)]
    fn run(script: &str, seconds: u64, bytes: u64) -> (Result<String, Failure>, tempfile::TempDir) {
        let scratch = tempfile::tempdir().unwrap();
        let arguments = ["-c".into(), script.into()];
        let call = ProcessCall {
            program: Path::new("/bin/sh"),
            arguments: &arguments,
            scratch: scratch.path(),
            network: false,
            time: Duration::from_secs(seconds),
            bytes,
        };
        (call.run().map(|text| String::from_utf8(text).unwrap()), scratch)
    }

    #[cfg(unix)]
    #[test]
    fn what_is_printed_is_returned_and_what_is_wrong_is_said() {
        assert_eq!(run("echo a; echo no >&2", 20, 10).0, Ok("a\n".to_owned()));
        assert_eq!(
            run("echo a; echo 'Error: no' >&2; exit 3", 20, 10).0,
            Err(Failure::Tool("no".to_owned()))
        );
        assert_eq!(run("kill -9 $$", 20, 10).0, Err(Failure::Tool(String::new())));
        assert_eq!(
            run("read x && echo $x", 20, 10).0,
            Err(Failure::Tool(String::new())),
            "no standard input"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_floods_is_ended() {
        assert_eq!(run("yes", 20, 1 << 20).0, Err(Failure::Size(1 << 20)));
        assert_eq!(run("yes >&2", 20, 1 << 20).0, Err(Failure::Size(1 << 20)));
        assert_eq!(run("printf 12345678901", 20, 10).0, Err(Failure::Size(10)));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let begun = Instant::now();
        let (result, scratch) = run("sh -c 'sleep 2; echo late > late' & echo $! > child; wait", 1, 10);
        assert_eq!(result, Err(Failure::Time));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(scratch.path().join("child").is_file());
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!scratch.path().join("late").exists(), "a child lives");
        // One that it leaves behind, too.
        let (result, scratch) = run("sh -c 'sleep 1; echo late > late' & echo done", 20, 10);
        assert_eq!(result, Ok("done\n".to_owned()));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!scratch.path().join("late").exists(), "a child lives");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_of_the_users_settings_is_there() {
        let (result, scratch) = run("env", 20, 1 << 20);
        let all = result.unwrap();
        let value = |name: &str| all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let inside = |name: &str| value(name).is_some_and(|at| Path::new(at).starts_with(scratch.path()));
        assert!(
            inside("HOME") && inside("HELM_PLUGINS") && inside("KUBECONFIG") && inside("TMPDIR"),
            "{all}"
        );
        assert_eq!((value("HTTPS_PROXY"), value("GIT_ALLOW_PROTOCOL")), (Some(NOWHERE), Some("none")));
        assert_eq!(value("CARGO_MANIFEST_DIR"), None, "the environment of the test");
    }
}
