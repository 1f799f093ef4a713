//! Reviews at a fixed rate, whatever comes back (an open loop), and the probes of a kubelet.
//!
//! Latency counts from the moment a review was due, so a server that stalls is charged for every review that
//! should have come meanwhile.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep_until;

use crate::client::{Client, IDLE_CONNECTIONS};
use crate::reviews::{Review, ordinary, uid};
use crate::server::Target;

/// What the API server waits for an answer (`timeoutSeconds` of the configurations).
pub(crate) const REVIEW_TIMEOUT: Duration = Duration::from_secs(3);
/// Once a second so many of the reviews come at once, as CronJobs of the same minute do. It fills the pool of
/// connections, too.
const BURST: u32 = IDLE_CONNECTIONS as u32;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Reviews a second.
    pub(crate) rate: u32,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) lost: Vec<Lost>,
    /// Of those that were answered right, from the moment they were due; sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Answers that asked to come again.
    pub(crate) put_off: u64,
    /// Connections that were made.
    pub(crate) dialed: u64,
    /// How late the generator itself was at most. It must be small for the latencies to mean something.
    pub(crate) late: Duration,
}

/// A review that was not answered right in time.
#[derive(Debug)]
pub(crate) struct Lost {
    /// When it was due, from the start.
    pub(crate) at: Duration,
    pub(crate) review: &'static str,
    pub(crate) path: &'static str,
    /// A word, a colon and what happened.
    pub(crate) cause: String,
}

/// Sends reviews until the plan is over or `stop` is set, then waits for the last answers.
pub(crate) fn run(target: Target, plan: Plan, stop: &AtomicBool) -> Tally {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tally = Rc::new(RefCell::new(Tally::default()));
    LocalSet::new().block_on(
        &runtime,
        send_all(Client::new(target.address, Ipv4Addr::LOCALHOST, target.tls), plan, stop, &tally),
    );
    let mut tally = tally.take();
    tally.latencies.sort_unstable();
    tally
}

async fn send_all(client: Rc<Client>, plan: Plan, stop: &AtomicBool, tally: &Rc<RefCell<Tally>>) {
    let reviews: Rc<[Review]> = ordinary().into();
    let began = Instant::now();
    let mut waiting = JoinSet::new();
    for number in 0.. {
        let due = due(number, plan.rate);
        if due >= plan.time || stop.load(Ordering::Relaxed) {
            break;
        }
        if began.elapsed() < due {
            sleep_until((began + due).into()).await;
        }
        tally.borrow_mut().sent += 1;
        let (client, reviews, tally) = (Rc::clone(&client), Rc::clone(&reviews), Rc::clone(tally));
        waiting.spawn_local(async move {
            let review = &reviews[usize::try_from(number).unwrap_or_default() % reviews.len()];
            let late = began.elapsed().saturating_sub(due);
            let result = one(&client, review, number).await;
            let took = began.elapsed().saturating_sub(due);
            let mut tally = tally.borrow_mut();
            tally.late = tally.late.max(late);
            match result {
                Ok(retries) => {
                    tally.latencies.push(took);
                    tally.put_off += u64::from(retries);
                }
                Err(cause) => {
                    tally.lost.push(Lost { at: due, review: review.name, path: review.path, cause });
                }
            }
        });
        while waiting.try_join_next().is_some() {}
    }
    while waiting.join_next().await.is_some() {}
    tally.borrow_mut().dialed = client.dialed.get();
}

/// Sends one review and checks its answer; returns how often it was put off.
async fn one(client: &Rc<Client>, review: &Review, number: u64) -> Result<u32, String> {
    let uid = uid(number);
    let reply = client.post(review.path, review.body(&uid), REVIEW_TIMEOUT).await?;
    if reply.status != 200 {
        return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)));
    }
    review.check(&uid, &reply.body)?;
    Ok(reply.retries)
}

/// Returns when a review is due: of each second's, some at its beginning, the others evenly.
fn due(number: u64, rate: u32) -> Duration {
    let (rate, burst) = (u64::from(rate), u64::from(BURST.min(rate / 2)));
    let (second, at) = (number / rate, number % rate);
    let within = Duration::from_secs(1).mul_f64(at.saturating_sub(burst) as f64 / (rate - burst) as f64);
    Duration::from_secs(second) + within
}

/// A probe of `/readyz` that failed.
#[derive(Debug)]
pub(crate) struct Unready {
    /// When it was sent, from the start.
    pub(crate) at: Duration,
    pub(crate) cause: String,
}

const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// The kubelet's default.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Probes as a kubelet does, each time over a new connection, until `stop` is dropped.
pub(crate) fn probe(address: SocketAddr, stop: &mpsc::Receiver<()>) -> (u64, Vec<Unready>) {
    let began = Instant::now();
    let (mut count, mut failed) = (0, Vec::new());
    while stop.recv_timeout(PROBE_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        let at = began.elapsed();
        count += 1;
        if let Err(cause) = probe_once(address) {
            failed.push(Unready { at, cause });
        }
    }
    (count, failed)
}

fn probe_once(address: SocketAddr) -> Result<(), String> {
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let left = || Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let ask = || -> std::io::Result<Vec<u8>> {
        let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
        write!(
            stream,
            "GET /readyz HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
        loop {
            stream.set_read_timeout(Some(left().ok_or_else(timed_out)?))?;
            match stream.read(&mut buffer)? {
                0 => return Ok(answer),
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
    };
    let answer = ask().map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&answer);
    if answer.starts_with("HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(answer.lines().next().unwrap_or("no answer").to_owned())
    }
}
