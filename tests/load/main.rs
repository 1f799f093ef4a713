//! No client and no object costs another one its answer: ordinary reviews at a fixed rate beside each attack,
//! against the real program over TLS.
//!
//! ```text
//! cargo test --test load                      # the gate: seconds beside each attack
//! .ci/load                                    # the full figures, against the release build
//! .ci/load soak                               # minutes with reloads, renewed certificates and attacks at random
//! ```
//!
//! Every answer is checked: status, uid, verdict, and that the patch applies and fills in what it should. A
//! review without the right answer is lost. Everything stays on the loopback interface; attackers have
//! addresses of their own there (127.0.0.2 and on).
//!
//! `JOBGATE_LOAD=full` is what `.ci/load` runs; without it there are a quarter of the attackers, for a
//! quarter of the connections that a server has by default. `JOBGATE_BIN` names another program to test,
//! `JOBGATE_LOAD_SECONDS` and `JOBGATE_LOAD_RATE` change how long and how often, `JOBGATE_SOAK_MINUTES` adds
//! the soak.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; what was measured is printed"
)]

mod attackers;
mod claim_cache;
mod claims;
mod client;
mod hostile;
mod pressure;
#[path = "../e2e/process.rs"]
#[allow(dead_code, reason = "it serves the end-to-end tests, too")]
mod process;
mod report;
mod reviews;
mod schedule;
mod server;
mod soak;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::sync::oneshot;

use crate::attackers::{ATTACKS, Attack};
use crate::process::eventually;
use crate::report::{HEAD, Row};
use crate::schedule::Plan;
use crate::server::{POLICY, Server};

/// Reviews run so long before an attack begins: the API server's connections are there already.
const BEFORE_ATTACK: Duration = Duration::from_millis(500);

/// How long, how often, against how many, and how slow an answer may be.
#[derive(Clone, Copy)]
struct Settings {
    plan: Plan,
    scale: usize,
    p99: Duration,
    full: bool,
}

impl Settings {
    fn from_environment() -> Self {
        let full = std::env::var("JOBGATE_LOAD").is_ok_and(|text| text == "full");
        // In the gate the build is not optimised, and the machine may be busy: a server that is held up by an
        // attack is slower than a second.
        let (seconds, rate, scale, p99) = if full { (20, 200, 1, 100) } else { (3, 100, 4, 1000) };
        let time = Duration::from_secs(number("JOBGATE_LOAD_SECONDS").unwrap_or(seconds).into());
        Self {
            plan: Plan { rate: number("JOBGATE_LOAD_RATE").unwrap_or(rate), time },
            scale,
            p99: Duration::from_millis(p99),
            full,
        }
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == hostile::MEASURE) {
        hostile::run_measured(words);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    if cfg!(not(target_os = "linux")) {
        println!("skipped: the load test needs the addresses of Linux's loopback interface, and /proc");
        return ExitCode::SUCCESS;
    }
    // Two at once would measure each other.
    arguments.test_threads = Some(1);
    let settings = Settings::from_environment();
    let rows: Arc<Mutex<Vec<Row>>> = Arc::default();
    let mut trials = vec![
        Trial::test("a_hundred_thousand_claims_cost_less_than_two_hundred_bytes_each", || {
            claim_cache::a_hundred_thousand_claims_cost_less_than_two_hundred_bytes_each();
            Ok(())
        }),
        Trial::test("no_object_costs_more_than_its_bytes", || {
            hostile::no_object_costs_more_than_its_bytes();
            Ok(())
        }),
        Trial::test("no_text_costs_more_than_its_bytes", || {
            hostile::no_text_costs_more_than_its_bytes();
            Ok(())
        }),
        Trial::test("wrong_verdicts_are_noticed", || Ok(wrong_verdicts_are_noticed()?)),
        Trial::test("an_end_of_service_is_noticed", || Ok(an_end_of_service_is_noticed()?)),
    ];
    for attack in std::iter::once(None)
        .chain(ATTACKS.iter().filter(|attack| settings.full || !attack.full_only).map(Some))
    {
        let rows = Arc::clone(&rows);
        trials.push(Trial::test(name(attack), move || {
            let row = beside(attack, settings)?;
            let result = row.check(settings.p99);
            rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
            result.map_err(Failed::from)
        }));
    }
    for (clients, size) in pressure::runs(settings.full) {
        let rows = Arc::clone(&rows);
        trials.push(Trial::test(
            format!("memory under {clients} clients with the costliest objects of {} KB", size / 1000),
            move || {
                let row = pressure::run(clients, size, settings)?;
                // The attackers ask for more than the machine can do; ordinary reviews must not be lost.
                let result = row.check(pressure::P99);
                rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
                result.map_err(Failed::from)
            },
        ));
    }
    if let Some(minutes) = number("JOBGATE_SOAK_MINUTES") {
        let rows = Arc::clone(&rows);
        let plan = Plan { time: Duration::from_secs(60 * u64::from(minutes)), ..settings.plan };
        trials.push(Trial::test("soak", move || {
            let (row, result) = soak::run(plan, settings.p99)?;
            rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
            result.map_err(Failed::from)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
    if !rows.is_empty() {
        println!("{HEAD}{}", rows.iter().map(Row::to_string).collect::<String>());
    }
    conclusion.exit_code()
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

fn name(attack: Option<&Attack>) -> &'static str {
    attack.map_or("nothing", |attack| attack.name)
}

/// Runs the plan beside an attack, against a server of its own.
fn beside(attack: Option<&'static Attack>, settings: Settings) -> Result<Row, String> {
    let mut server = Server::start(POLICY, settings.scale)?;
    let target = server.target.clone();
    let (stop_probe, probe_stopped) = mpsc::channel();
    let (stop_attack, attack_stopped) = oneshot::channel();
    let probe = thread::spawn(move || schedule::probe(target.probe, &probe_stopped));
    let attacked = server.target.clone();
    let attackers = thread::spawn(move || {
        thread::sleep(BEFORE_ATTACK);
        attack.map_or_else(String::new, |attack| attackers::run(attack, attacked, attack_stopped))
    });
    let tally = schedule::run(server.target.clone(), settings.plan, &AtomicBool::new(false));
    drop(stop_probe);
    let (probes, unready) = probe.join().expect("the probe does not panic");
    let _ = stop_attack.send(());
    let note = attackers.join().expect("the attackers do not panic");
    server.check()?;
    let faults = eventually(Duration::from_secs(15), || server.counter("jobgate_faults_total", "")).ok();
    Ok(Row {
        name: name(attack).to_owned(),
        tally,
        probes,
        unready,
        faults,
        peak: server.memory("VmHWM"),
        note,
    })
}

/// The load test can fail: a policy that only warns gives wrong verdicts and no patches, and leaves what
/// needs neither alone.
fn wrong_verdicts_are_noticed() -> Result<(), String> {
    let server = Server::start(include_str!("../../policies/audit.yaml"), 1)?;
    let plan = Plan { rate: 50, time: Duration::from_secs(1) };
    let tally = schedule::run(server.target.clone(), plan, &AtomicBool::new(false));
    let of = |cause: &str| tally.lost.iter().filter(|lost| lost.cause.starts_with(cause)).count();
    let (verdicts, patches) = (of("verdict: not denied by deadline"), of("patch: none"));
    let complete = tally.lost.iter().any(|lost| lost.review.contains("complete"));
    if verdicts > 0 && patches > 0 && verdicts + patches == tally.lost.len() && !complete {
        Ok(())
    } else {
        Err(format!("{:?}", tally.lost))
    }
}

/// The load test can fail: reviews and probes after the end of the process are lost.
fn an_end_of_service_is_noticed() -> Result<(), String> {
    let mut server = Server::start(POLICY, 1)?;
    let (target, probe_address) = (server.target.clone(), server.target.probe);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let plan = Plan { rate: 50, time: Duration::from_secs(30) };
    let load = thread::spawn(move || schedule::run(target, plan, &stopped));
    let (stop_probe, probe_stopped) = mpsc::channel();
    let probe = thread::spawn(move || schedule::probe(probe_address, &probe_stopped));
    thread::sleep(Duration::from_millis(600));
    server.kill();
    thread::sleep(Duration::from_millis(1100));
    stop.store(true, Ordering::Relaxed);
    drop(stop_probe);
    let tally = load.join().expect("the load does not panic");
    let (probes, unready) = probe.join().expect("the probe does not panic");
    let answered = tally.latencies.len();
    if answered > 0
        && tally.lost.len() > 10
        && !unready.is_empty()
        && unready.len() < usize::try_from(probes).unwrap_or_default()
    {
        Ok(())
    } else {
        Err(format!(
            "{answered} answered, {} lost; {} of {probes} probes failed",
            tally.lost.len(),
            unready.len()
        ))
    }
}
