//! What a whole process takes: processor time and the most resident memory, as the system counts them when it
//! has ended.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jobgate::admission::Endpoint;
use wait4::Wait4 as _;

/// The most that a process may take for an input of so many bytes: processor time, and resident memory.
pub(crate) const REVIEW: [(usize, Duration, usize); 3] = [
    (64 << 10, Duration::from_millis(50), 32 << 20),
    (1 << 20, Duration::from_millis(500), 72 << 20),
    (3 << 20, Duration::from_secs(1), 128 << 20),
];
/// The same of a text that is linted.
pub(crate) const LINT: (usize, Duration, usize) = (1 << 20, Duration::from_millis(500), 72 << 20);

/// What a process has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    time: Duration,
    /// In bytes.
    resident: usize,
}

impl Taken {
    fn is_beyond(&self, time: Duration, resident: usize) -> bool {
        self.time > time || self.resident > resident
    }
}

/// Answers a review with `jobgate review`.
pub(crate) fn review(endpoint: Endpoint, body: &str) -> Taken {
    let endpoint = endpoint.path().trim_start_matches('/');
    run(&["review", "--endpoint", endpoint], "review.json", body, &[0, 1])
}

/// Lints a text with `jobgate lint`.
pub(crate) fn lint(name: &str, text: &str) -> Taken {
    run(&["lint"], name, text, &[0, 1, 2])
}

/// Runs the program over a file.
fn run(arguments: &[&str], name: &str, text: &str, codes: &[i32]) -> Taken {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    fs::create_dir_all(&directory).unwrap();
    // Kinds are searched side by side; what is measured has its turn alone, and the file to itself.
    let turn = fs::File::create(directory.join("turn")).unwrap();
    turn.lock().unwrap();
    let file = directory.join(name);
    fs::write(&file, text).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([MEASURE.into(), program().into_os_string()])
        .args(arguments)
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<i64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [code, micros, bytes] = numbers[..] else { panic!("{arguments:?}: {output:?}") };
    assert!(codes.iter().any(|one| i64::from(*one) == code), "{arguments:?} has ended with {code}");
    let time = Duration::from_micros(micros.try_into().unwrap());
    Taken { time, resident: bytes.try_into().unwrap() }
}

/// The first argument of this program if it is to run another one and print what that takes.
pub(crate) const MEASURE: &str = "measure";

/// Runs a program, and prints how it ended, its processor time in microseconds, and its resident memory in bytes. A
/// search cannot do so itself: what a process starts is counted with the memory that the process had, and a search has
/// hundreds of megabytes.
pub(crate) fn run_measured(mut command: impl Iterator<Item = OsString>) {
    let program = command.next().unwrap();
    let mut started = Command::new(program);
    started.args(command).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = started.spawn().unwrap().wait4().unwrap();
    let used = ended.rusage;
    let code = ended.status.code().unwrap_or(-1);
    println!("{code} {} {}", (used.utime + used.stime).as_micros(), used.maxrss);
}

/// Returns the least of three, if the first takes more than it may: the machine may have been busy.
fn best(time: Duration, resident: usize, take: impl Fn() -> Taken) -> Taken {
    let first = take();
    if !first.is_beyond(time, resident) {
        return first;
    }
    let again = [first, take(), take()];
    Taken {
        time: again.iter().map(|taken| taken.time).min().unwrap_or_default(),
        resident: again.iter().map(|taken| taken.resident).min().unwrap_or_default(),
    }
}

fn program() -> PathBuf {
    std::env::var_os("JOBGATE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_jobgate").into(), PathBuf::from)
}

/// What processes have taken so far.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    /// Of the input, as asked for.
    bytes: usize,
    taken: Taken,
    is_beyond: bool,
    name: String,
}

impl Table {
    /// Measures, and keeps what it comes to.
    pub(crate) fn measure(
        &mut self,
        name: String,
        (bytes, time, resident): (usize, Duration, usize),
        take: impl Fn() -> Taken,
    ) {
        let taken = best(time, resident, take);
        let is_beyond = taken.is_beyond(time, resident);
        self.rows.push(Row { bytes, taken, is_beyond, name });
    }

    /// Prints what took longest and held most, of each size, and returns what was beyond its bounds.
    pub(crate) fn print(&mut self, what: &str) -> Vec<String> {
        let mut sizes: Vec<usize> = self.rows.iter().map(|row| row.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let of_size = || self.rows.iter().filter(|row| row.bytes == size);
            println!("{what} of {} KiB: {} processes", size >> 10, of_size().count());
            let slowest = of_size().max_by_key(|row| row.taken.time);
            let largest = of_size().max_by_key(|row| row.taken.resident);
            for (most, row) in [("slowest", slowest), ("largest", largest)] {
                row.into_iter().for_each(|row| println!("  {most}: {row}"));
            }
        }
        self.rows
            .iter()
            .filter(|row| row.is_beyond)
            .map(|row| format!("{} KiB, {row}", row.bytes >> 10))
            .collect()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { time, resident } = self.taken;
        write!(f, "{} ms, {} MiB: {}", time.as_millis(), resident >> 20, self.name)
    }
}
