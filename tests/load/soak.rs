//! A long run at a steady rate with everything that happens to a server in its life: new certificates, new
//! policies, attacks now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::attackers::{self, ATTACKS};
use crate::report::Row;
use crate::schedule::{self, Plan};
use crate::server::{POLICY, Server};

/// How often files are swapped and memory is sampled.
const TICK: Duration = Duration::from_secs(10);
/// An attack begins every so many ticks, after a sample.
const TICKS_PER_ATTACK: u64 = 3;
/// How long it goes on; the rest is for the server to come to rest before the next sample that counts.
const ATTACK: Duration = Duration::from_secs(15);
/// How much more memory than in the second quarter the last may need: pages that the allocator keeps are not
/// a leak.
const MEMORY_GROWTH: f64 = 1.10;
const MEMORY_SLACK_KIB: f64 = 8.0 * 1024.0;
/// Likewise for descriptors: connections that are on their way out.
const DESCRIPTORS_SLACK: f64 = 16.0;

/// One look at the process, at rest.
#[derive(Debug)]
struct Sample {
    at: Duration,
    /// `VmRSS`, in KiB.
    memory: f64,
    descriptors: f64,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<String>,
    until: Instant,
}

/// Runs it and returns the row of the table; what failed comes second.
pub(crate) fn run(plan: Plan, p99: Duration) -> Result<(Row, Result<(), String>), String> {
    let mut server = Server::start(POLICY, 1)?;
    let target = server.target.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let (stop_probe, probe_stopped) = mpsc::channel();
    let (called, load_stop) = (target.clone(), Arc::clone(&stop));
    let load = thread::spawn(move || schedule::run(called, plan, &load_stop));
    let probe = thread::spawn(move || schedule::probe(target.probe, &probe_stopped));

    let mut random = Random::new();
    println!(
        "soak: {} minutes at {} reviews/s, JOBGATE_SOAK_SEED={}",
        plan.time.as_secs() / 60,
        plan.rate,
        random.0
    );
    let began = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let mut attacks = 0_u64;
    let mut attack: Option<Running> = None;
    for tick in 0.. {
        let due = began + TICK * tick;
        if due.duration_since(began) >= plan.time {
            break;
        }
        let end = attack.as_ref().map(|attack| attack.until).filter(|until| *until < due);
        if let Some(end) = end {
            thread::sleep(end.saturating_duration_since(Instant::now()));
            finish(&mut attack);
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        server.check().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        if u64::from(tick) % TICKS_PER_ATTACK == 0 {
            finish(&mut attack);
            #[allow(clippy::cast_precision_loss, reason = "sizes of a process")]
            let sample = Sample {
                at: began.elapsed(),
                memory: server.memory("VmRSS") as f64,
                descriptors: server.descriptors() as f64,
            };
            let next = &ATTACKS[random.below(ATTACKS.len())];
            println!(
                "soak: {:>5.0} s, {:.1} MiB, {} descriptors; next: {}",
                sample.at.as_secs_f64(),
                sample.memory / 1024.0,
                sample.descriptors,
                next.name
            );
            samples.push(sample);
            attacks += 1;
            let (stop, stopped) = oneshot::channel();
            let attacked = server.target.clone();
            let thread = thread::spawn(move || attackers::run(next, attacked, stopped));
            attack = Some(Running { stop, thread, until: Instant::now() + ATTACK });
        }
        server.renew_certificate()?;
        server.policy.write(&[("policy.yaml", policy(tick))])?;
    }
    finish(&mut attack);
    let tally = load.join().expect("the load does not panic");
    drop(stop_probe);
    let (probes, unready) = probe.join().expect("the probe does not panic");
    let faults = server.counter("jobgate_faults_total", "").ok();
    let reloads = |result| server.counter("jobgate_reloads_total", result);
    let (reloads, failed) = (reloads(r#"result="success""#)?, reloads(r#"result="failure""#)?);

    let quarter = |from: usize| &samples[samples.len() * from / 4..samples.len() * (from + 1) / 4];
    let medians = |of: fn(&Sample) -> f64| [1, 3].map(|from| median(quarter(from).iter().map(of).collect()));
    let [memory, descriptors] = [medians(|sample| sample.memory), medians(|sample| sample.descriptors)];
    let note = format!(
        "{attacks} attacks, {reloads} reloads; memory at rest {:.1} MiB, then {:.1}; descriptors {}, then {}",
        memory[0] / 1024.0,
        memory[1] / 1024.0,
        descriptors[0],
        descriptors[1]
    );
    let row =
        Row { name: "soak".to_owned(), tally, probes, unready, faults, peak: server.memory("VmHWM"), note };
    let flat = memory[1] <= memory[0] * MEMORY_GROWTH + MEMORY_SLACK_KIB
        && descriptors[1] <= descriptors[0] + DESCRIPTORS_SLACK;
    // Each tick changes the certificate and the policy.
    let swaps = 2.0 * (plan.time.as_secs_f64() / TICK.as_secs_f64() - 1.0);
    let result = row.check(p99).and_then(|()| match (flat, reloads >= swaps && failed == 0.0) {
        (false, _) => Err(format!("memory or descriptors grow: {}\n{samples:#?}", row.note)),
        (_, false) => Err(format!("{reloads} reloads of {swaps}, and {failed} failed")),
        (true, true) => Ok(()),
    });
    Ok((row, result))
}

fn finish(attack: &mut Option<Running>) {
    if let Some(Running { stop, thread, .. }) = attack.take() {
        let _ = stop.send(());
        println!("soak: attackers: {}", thread.join().expect("the attackers do not panic"));
    }
}

/// Returns one of two policies of the same verdicts and different words.
fn policy(tick: u32) -> String {
    let seconds = ["suggestion: 86400", "suggestion: 43200"][tick as usize % 2];
    POLICY.replace("suggestion: 86400", seconds) + &format!("\n# {tick}\n")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Numbers that can be had again by their seed (splitmix64).
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("JOBGATE_SOAK_SEED").ok().and_then(|text| text.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self(seed.unwrap_or_else(now))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap_or_default() % end
    }
}
