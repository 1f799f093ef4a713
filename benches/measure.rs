//! Times the binary as people run it, and holds it to its targets. `.ci/measure` runs this; nothing in it
//! comes from outside but the corpus.
//!
//! Times are the best of some runs, taken in turns with the others: what else the machine does only ever
//! makes a run longer. Ratios are medians of what the rounds gave.

mod support;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The size of the large file.
const BYTES: usize = 20_000_000;
/// How often each of the long runs is made.
const ROUNDS: usize = 15;
/// How often each way to run is watched for its memory.
const WATCHED: usize = 3;
/// How often the short one is.
const STARTS: usize = 50;

/// Returns the most memory that was resident in a run of the binary, in KiB; nothing where the system does
/// not tell. To watch a run slows it down.
fn peak(arguments: &[&str], file: &Path) -> Option<u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    let mut child = command.args(arguments).arg(file).stdout(Stdio::null()).spawn().expect("the binary runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        if let Ok(Some(_)) = child.try_wait() {
            return peak;
        }
        // The kernel keeps the high-water mark, so only what is allocated in the last moment can be missed.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mark = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        peak = peak.max(mark);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns how long a run of the binary takes, and nothing else.
fn time(arguments: &[&str], file: &Path) -> Duration {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command
        .args(arguments)
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the binary runs");
    start.elapsed()
}

/// Returns the ratio of two runs: the median of those of all rounds. What follows one another in a round has
/// the same neighbours on the host, while of all rounds the shortest run is the likeliest to have none.
fn ratio<const N: usize>(rounds: &[[Duration; N]], of: usize, to: usize) -> f64 {
    let mut ratios: Vec<f64> =
        rounds.iter().map(|round| round[of].as_secs_f64() / round[to].as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Returns how long it takes to lint a tree, or to lint and fix it. It is put back as it is in `original`
/// before, on nobody's time.
fn linting(arguments: &[&str], original: &Path, copy: &Path) -> Duration {
    restore(original, copy);
    time(&[&["lint", "--format", "json", "--threads", "1"], arguments].concat(), copy)
}

fn restore(original: &Path, copy: &Path) {
    if original.is_dir() {
        std::fs::create_dir_all(copy).expect("a folder");
        for entry in std::fs::read_dir(original).expect("a folder").map(|entry| entry.expect("an entry")) {
            restore(&entry.path(), &copy.join(entry.file_name()));
        }
    } else {
        std::fs::copy(original, copy).expect("a copy");
    }
}

/// The figures, and whether each is as it should be.
#[derive(Default)]
struct Table {
    missed: usize,
}

impl Table {
    fn row(&mut self, what: &str, figure: &str, target: &str, holds: bool) {
        self.missed += usize::from(!holds);
        let verdict = if holds { "ok" } else { "MISSED" };
        let _ = writeln!(std::io::stdout(), "{what:<44} {figure:>24}   {target:<12} {verdict}");
    }
}

fn main() -> ExitCode {
    let folder = tempfile::tempdir().expect("a folder for the files");
    let source = support::manifests(BYTES);
    let large = folder.path().join("large.yaml");
    let small = folder.path().join("small.yaml");
    std::fs::write(&large, &source).expect("write the large file");
    std::fs::write(&small, support::manifests(1)).expect("write the small file");

    let lint = |threads| time(&["lint", "--format", "json", "--threads", threads], &large);
    let rounds: Vec<[Duration; 3]> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(support::events(&source));
            [start.elapsed(), lint("1"), lint("2")]
        })
        .collect();
    let mixture = support::mixed(BYTES);
    let mixed = folder.path().join("mixed.yaml");
    std::fs::write(&mixed, &mixture).expect("write the file of several kinds");
    let of_kinds: Vec<[Duration; 2]> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(support::events(&mixture));
            [start.elapsed(), time(&["lint", "--format", "json", "--threads", "1"], &mixed)]
        })
        .collect();
    let ways: [&[&str]; 3] = [
        &["lint"],
        &["lint", "--format", "json", "--threads", "1"],
        &["lint", "--format", "json", "--threads", "2"],
    ];
    let peak = (0..WATCHED).flat_map(|_| ways).map(|arguments| peak(arguments, &large)).max().flatten();
    let fixed = folder.path().join("fixed.yaml");
    let in_turns = |original: &Path, copy: &Path| {
        let rounds: Vec<[Duration; 2]> = (0..ROUNDS)
            .map(|_| [&[][..], &["--fix"]].map(|arguments| linting(arguments, original, copy)))
            .collect();
        ratio(&rounds, 1, 0)
    };
    let fix = in_turns(&large, &fixed);
    let start_up = (0..STARTS).map(|_| time(&["lint"], &small)).min().unwrap_or_default();

    let mut table = Table::default();
    let megabytes = |time: Duration| {
        format!("{:.3} s, {:.1} MB/s", time.as_secs_f64(), source.len() as f64 / 1e6 / time.as_secs_f64())
    };
    let best = |which: usize| megabytes(rounds.iter().map(|round| round[which]).min().unwrap_or_default());
    table.row("bare event parsing of 20 MB, one thread", &best(0), "", true);
    table.row("lint of the same file, one thread", &best(1), "", true);
    table.row("lint of the same file, two threads", &best(2), "", true);
    let against = ratio(&rounds, 0, 1);
    table.row("throughput against event parsing", &format!("{against:.2}"), ">= 0.6", against >= 0.6);
    let gain = ratio(&rounds, 1, 2);
    table.row("gain from the second thread", &format!("{gain:.2}"), ">= 1.6", gain >= 1.6);
    let against = ratio(&of_kinds, 0, 1);
    let best = of_kinds.iter().map(|round| round[1]).min().unwrap_or_default();
    table.row("lint of 20 MB of five kinds, one thread", &megabytes(best), "", true);
    table.row("throughput there against event parsing", &format!("{against:.2}"), "", true);
    match peak {
        Some(peak) => table.row(
            "peak memory on that file",
            &format!("{:.1} MiB", peak as f64 / 1024.0),
            "< 96 MiB",
            peak < 96 << 10,
        ),
        None => table.row("peak memory on that file", "unknown here", "< 96 MiB", true),
    }
    table.row("fix of that file, against lint", &format!("{fix:.2}"), "<= 2", fix <= 2.0);
    table.row(
        "start-up: one small file",
        &format!("{:.1} ms", start_up.as_secs_f64() * 1e3),
        "< 10 ms",
        start_up < Duration::from_millis(10),
    );
    let shared = std::env::var_os("JOBGATE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let corpus = shared.join("corpus");
    if corpus.is_dir() {
        let best = (0..ROUNDS).map(|_| time(&["lint", "--threads", "2"], &corpus)).min().unwrap_or_default();
        table.row(
            "the corpus, two threads",
            &format!("{:.3} s", best.as_secs_f64()),
            "< 1 s",
            best < Duration::from_secs(1),
        );
        let fix = in_turns(&corpus, &folder.path().join("corpus"));
        table.row("fix of the corpus, against lint", &format!("{fix:.2}"), "<= 2", fix <= 2.0);
    } else {
        table.row("the corpus, two threads", "skipped: not here", "< 1 s", true);
    }
    if table.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
