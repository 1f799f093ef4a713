//! A real memory limit, and what takes it: the costliest objects that are known, by few and by many clients,
//! as a user's through the API server and straight from pods. Meanwhile there are ordinary reviews, violators
//! of the attackers' own users, and honest large objects.
//!
//! The server runs in a cgroup with the memory limit of the manifests, where this test may make one; otherwise
//! the most resident memory that it has had is compared with the limit, and a line says so.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::sleep_until;

use crate::attackers::lower_priority;
use crate::client::Client;
use crate::process::eventually;
use crate::report::Row;
use crate::schedule::{self, REVIEW_TIMEOUT};
use crate::server::{POLICY, Server, Target};
use crate::{Settings, reviews};

/// How many clients attack, in the runs.
const CLIENTS: [usize; 3] = [3, 12, 40];
/// How large their objects are: what a user may store, and what weighs so little that it waits with ordinary
/// reviews.
const SIZES: [usize; 2] = [2_000_000, 100_000];
/// The size in a build that is not optimised, which takes ten times as long for each.
const SIZE_UNOPTIMISED: usize = 400_000;
/// The memory limit of the manifests, in bytes.
const LIMIT: u64 = 512 << 20;
/// How much memory is resident so long after the last peak, in KiB.
const AT_REST: (Duration, u64) = (Duration::from_secs(10), 96 << 10);
/// Violators that are created in a second.
const VIOLATORS_PER_SECOND: u32 = 8;
/// Honest large objects in a run of `.ci/load`.
const HONEST: u32 = 200;
/// How soon 99 of a hundred of them are judged, and of the ordinary reviews.
pub(crate) const P99: Duration = Duration::from_millis(1500);

/// One object of those that attack or are attacked.
struct Sent {
    /// A word for it.
    name: &'static str,
    group: &'static str,
    kind: &'static str,
    object: String,
}

impl Sent {
    fn of(name: &'static str, object: &Value) -> Self {
        let (group, kind) = match object["kind"].as_str() {
            Some("JobSet") => ("jobset.x-k8s.io", "JobSet"),
            Some("PyTorchJob") => ("kubeflow.org", "PyTorchJob"),
            _ => ("batch", "Job"),
        };
        Self { name, group, kind, object: object.to_string() }
    }

    /// Returns a review as the API server writes it.
    fn body(&self, number: u64, user: &str, namespace: &str, dry_run: bool) -> Bytes {
        let Self { group, kind, object, .. } = self;
        let version = if self.kind == "JobSet" { "v1alpha2" } else { "v1" };
        let uid = reviews::uid(number);
        let mut text = String::with_capacity(object.len() + 512);
        let _ = write!(
            text,
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{uid}","kind":{{"group":"{group}","version":"{version}","kind":"{kind}"}},"name":"x","namespace":"{namespace}","operation":"CREATE","userInfo":{{"username":"{user}"}},"object":{object},"oldObject":null,"dryRun":{dry_run}}}}}"#
        );
        text.into()
    }
}

fn job(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = reviews::job("x", 1);
    change(&mut object);
    object
}

fn script(text: String) -> Value {
    job(|job| job["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["bash", "-c", text]))
}

fn py_torch_job(replicas: Map<String, Value>) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x", "namespace": "research"},
        "spec": {"runPolicy": {"activeDeadlineSeconds": 60, "cleanPodPolicy": "All"}, "pytorchReplicaSpecs": replicas},
    })
}

/// The costliest objects that are known, of so many bytes. All but the last two can be stored or sent as dry
/// runs by any user; those two are what a pod can send.
fn costly(bytes: usize) -> Vec<Sent> {
    let repeated = |part: &str, end: &str| part.repeat(bytes / part.len()) + end;
    let list = |item: &str| -> Value {
        let items = vec![item; bytes / (item.len() + 1)].join(",");
        serde_json::from_str(&format!("[{items}]")).expect("a list")
    };
    let replica = json!({"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "a"}]}}});
    let replicas = bytes / (replica.to_string().len() + 10);
    let tolerations: Vec<Value> =
        (0..bytes / 40).map(|at| json!({"key": format!("k{at}"), "operator": "Exists"})).collect();
    let variables: Vec<Value> =
        (0..bytes / 40).map(|at| json!({"name": format!("V{at}"), "value": "x"})).collect();
    let pod = |job: &mut Value, field: &str, value: Value| job["spec"]["template"]["spec"][field] = value;
    vec![
        Sent::of("pipes", &script(repeated("a|", "tee x"))),
        Sent::of("commands", &script(repeated("a;", "a"))),
        Sent::of("either", &script(repeated("a||true;", "a"))),
        Sent::of(
            "replicas",
            &py_torch_job((0..replicas).map(|at| (format!("T{at}"), replica.clone())).collect()),
        ),
        Sent::of("tolerations", &job(|job| pod(job, "tolerations", tolerations.into()))),
        Sent::of(
            "variables",
            &job(|job| job["spec"]["template"]["spec"]["containers"][0]["env"] = variables.into()),
        ),
        Sent::of(
            "annotation",
            &job(|job| {
                job["metadata"]["annotations"] = json!({"jobgate.dev/ignore": repeated("deadlin,", "")});
            }),
        ),
        Sent::of("empty containers", &job(|job| pod(job, "containers", list("{}")))),
        Sent::of(
            "empty jobs",
            &json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "x", "namespace": "research"}, "spec": {"replicatedJobs": list("{}")}}),
        ),
    ]
}

/// Jobs without a deadline: a small one, and one that is padded to look large.
fn violators() -> [Sent; 2] {
    let endless =
        |job: &mut Value| drop(job["spec"].as_object_mut().map(|spec| spec.remove("activeDeadlineSeconds")));
    let padded = |job: &mut Value| {
        endless(job);
        job["metadata"]["annotations"] = json!({"example.com/notes": "x".repeat(70_000)});
    };
    [Sent::of("small", &job(endless)), Sent::of("padded", &job(padded))]
}

/// What researchers send whose jobs are large, from a part to the whole of `bytes`.
fn honest(bytes: usize) -> Vec<Sent> {
    let lines = |bytes: usize| {
        let line = |at: usize| format!("python train.py --stage {at} --lr 0.1 && cp -r out /data/{at}\n");
        (0..bytes / line(1000).len()).map(line).collect::<String>()
    };
    let role = |at: usize| {
        let env: Vec<Value> =
            (0..bytes / 5 / 64 / 40).map(|at| json!({"name": format!("V{at}"), "value": "x"})).collect();
        let replica = json!({"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [{"name": "pytorch", "image": "a", "env": env}]}}});
        (format!("Role{at}"), replica)
    };
    let variables: Vec<Value> =
        (0..500).map(|at| json!({"name": format!("V{at}"), "value": "x".repeat(bytes / 5 / 500)})).collect();
    vec![
        Sent::of("short script", &script(lines(bytes / 5))),
        Sent::of("script", &script(lines(bytes))),
        Sent::of(
            "500 variables",
            &job(|job| job["spec"]["template"]["spec"]["containers"][0]["env"] = variables.into()),
        ),
        Sent::of("64 roles", &py_torch_job((0..64).map(role).collect())),
    ]
}

/// What came of the reviews that are watched.
#[derive(Default)]
struct Seen {
    violators: u32,
    /// Violators that no answer denied.
    admitted: Vec<String>,
    honest: Vec<Duration>,
    /// Honest objects that were not judged.
    unjudged: Vec<String>,
}

/// Returns the runs: how many clients attack, with objects of how many bytes.
pub(crate) fn runs(full: bool) -> Vec<(usize, usize)> {
    let sizes = if full { &SIZES[..] } else { &[SIZE_UNOPTIMISED] };
    sizes.iter().flat_map(|size| CLIENTS.map(|clients| (clients, *size))).collect()
}

/// Attacks with so many clients and objects of so many bytes, and checks all that is promised of such a time.
pub(crate) fn run(clients: usize, bytes: usize, settings: Settings) -> Result<Row, String> {
    let mut server = Server::start(POLICY, settings.scale)?;
    let limit = Limit::of(server.id());
    let stop = Arc::new(AtomicBool::new(false));
    let (target, stopped) = (server.target.clone(), Arc::clone(&stop));
    let attackers = thread::spawn(move || attack(&target, clients, bytes, &stopped));
    let (target, full, time) = (server.target.clone(), settings.full, settings.plan.time);
    let largest = if full { SIZES[0] } else { SIZE_UNOPTIMISED };
    let watched = thread::spawn(move || watch(&target, full, largest, time));
    let tally = schedule::run(server.target.clone(), settings.plan, &AtomicBool::new(false));
    let seen = watched.join().expect("the watched reviews do not panic");
    stop.store(true, Ordering::Relaxed);
    let note = attackers.join().expect("the attackers do not panic");
    let began = Instant::now();
    server.check()?;
    let peak = server.memory("VmHWM");
    let rested = eventually(AT_REST.0, || match server.memory("VmRSS") {
        resident if resident < AT_REST.1 => Ok(resident >> 10),
        resident => Err(format!("{} MiB are resident", resident >> 10)),
    });
    println!("  at rest after {:.1?}: {rested:?} MiB; {}", began.elapsed(), limit.describe());
    let faults = server.counter("jobgate_faults_total", "").ok();
    let row = Row {
        name: format!("{clients} clients with the costliest objects of {} KB", bytes / 1000),
        tally,
        probes: 0,
        unready: Vec::new(),
        faults,
        peak,
        note,
    };
    let mut wrong = limit.check(peak).err().unwrap_or_default();
    if let Err(error) = rested {
        let _ = writeln!(wrong, "memory does not come back: {error}");
    }
    if !seen.admitted.is_empty() || seen.violators < 5 {
        let _ = writeln!(
            wrong,
            "{} of {} violators admitted: {:?}",
            seen.admitted.len(),
            seen.violators,
            seen.admitted
        );
    }
    if !seen.unjudged.is_empty() {
        let _ = writeln!(wrong, "{} honest objects not judged: {:?}", seen.unjudged.len(), seen.unjudged);
    }
    let mut times = seen.honest;
    times.sort_unstable();
    let p99 =
        times.get((times.len() * 99 / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default();
    println!("  {} honest large objects, p99 {p99:.0?}, {} violators", times.len(), seen.violators);
    if full && p99 > P99 {
        let _ = writeln!(wrong, "p99 of honest large objects is {p99:?}");
    }
    if wrong.is_empty() { Ok(row) } else { Err(wrong) }
}

/// Sends costly objects without a pause until it is told to stop; half of the clients are users of the API
/// server, whose requests are dry runs, and half are pods.
fn attack(target: &Target, clients: usize, bytes: usize, stop: &Arc<AtomicBool>) -> String {
    lower_priority();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let counts: Rc<RefCell<std::collections::BTreeMap<u16, u64>>> = Rc::default();
    let objects: Rc<[Sent]> = costly(bytes).into();
    LocalSet::new().block_on(&runtime, async {
        let api_server = Client::new(target.address, Ipv4Addr::LOCALHOST, target.tls.clone());
        let mut all = JoinSet::new();
        let next = Rc::new(Cell::new(0_u64));
        for number in 0..clients {
            let pod = number % 2 == 1;
            let client = if pod {
                let last = 2 + u8::try_from(number % 8).unwrap_or_default();
                Client::new(target.address, Ipv4Addr::new(127, 0, 0, last), target.tls.clone())
            } else {
                Rc::clone(&api_server)
            };
            let (stop, counts, objects, next) =
                (Arc::clone(stop), Rc::clone(&counts), Rc::clone(&objects), Rc::clone(&next));
            all.spawn_local(async move {
                while !stop.load(Ordering::Relaxed) {
                    let turn = next.replace(next.get() + 1);
                    // A user may store anything but what only pods can send.
                    let most = if pod { objects.len() } else { objects.len() - 2 };
                    let object = &objects[usize::try_from(turn).unwrap_or_default() % most];
                    // A pod writes what it likes.
                    let (user, namespace) = if pod {
                        (format!("u{turn}"), format!("n{turn}"))
                    } else {
                        ("mallory".to_owned(), "research".to_owned())
                    };
                    let body = object.body(1_000_000 + turn, &user, &namespace, !pod);
                    let path = ["/validate?timeout=3s", "/mutate?timeout=2s"][number / 2 % 2];
                    let status =
                        client.post(path, body, REVIEW_TIMEOUT).await.map_or(0, |reply| reply.status);
                    *counts.borrow_mut().entry(status).or_default() += 1;
                }
            });
        }
        while all.join_next().await.is_some() {}
    });
    format!("answers by status: {:?}", counts.take())
}

/// Sends violators of the attacker's own user, and honest large objects of others, through the API server.
fn watch(target: &Target, full: bool, bytes: usize, time: Duration) -> Seen {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let seen: Rc<RefCell<Seen>> = Rc::default();
    LocalSet::new().block_on(&runtime, async {
        let client = Client::new(target.address, Ipv4Addr::LOCALHOST, target.tls.clone());
        let violating = spawn_local(violate(Rc::clone(&client), Rc::clone(&seen), time));
        // In a build that is not optimised they take so long that they are the attack.
        let count = if full { HONEST } else { 6 };
        let objects: Rc<[Sent]> = honest(bytes * 3 / 4).into();
        let began = Instant::now();
        let mut flying = JoinSet::new();
        for number in 0..count {
            sleep_until((began + time * number / count).into()).await;
            let (client, seen, objects) = (Rc::clone(&client), Rc::clone(&seen), Rc::clone(&objects));
            flying.spawn_local(async move {
                let object = &objects[number as usize % objects.len()];
                let (user, namespace) = (format!("user-{}", number % 7), format!("team-{}", number % 5));
                let body = object.body(u64::from(number) + 2_000_000, &user, &namespace, false);
                let began = Instant::now();
                let reply = client.post("/validate?timeout=3s", body, REVIEW_TIMEOUT).await;
                let took = began.elapsed();
                let mut seen = seen.borrow_mut();
                match reply {
                    Ok(reply) if reply.status == 200 && !has(&reply.body, b"unchecked") => {
                        seen.honest.push(took);
                    }
                    Ok(reply) => seen.unjudged.push(format!(
                        "{}: status {}, {:.200}",
                        object.name,
                        reply.status,
                        String::from_utf8_lossy(&reply.body)
                    )),
                    Err(error) => seen.unjudged.push(format!("{}: {error}", object.name)),
                }
            });
        }
        while flying.join_next().await.is_some() {}
        let _ = violating.await;
    });
    seen.take()
}

async fn violate(client: Rc<Client>, seen: Rc<RefCell<Seen>>, time: Duration) {
    let objects: Rc<[Sent]> = violators().into();
    let began = Instant::now();
    let mut flying = JoinSet::new();
    for number in 0_u32.. {
        let due = Duration::from_secs(1) * number / VIOLATORS_PER_SECOND;
        if due >= time {
            break;
        }
        sleep_until((began + due).into()).await;
        let (client, seen, objects) = (Rc::clone(&client), Rc::clone(&seen), Rc::clone(&objects));
        flying.spawn_local(async move {
            let object = &objects[number as usize % objects.len()];
            let body = object.body(u64::from(number) + 3_000_000, "mallory", "research", false);
            let reply = client.post("/validate?timeout=3s", body, REVIEW_TIMEOUT).await;
            let mut seen = seen.borrow_mut();
            seen.violators += 1;
            match reply {
                Ok(reply) if reply.status == 200 && has(&reply.body, br#""allowed":false"#) => {}
                Ok(reply) => seen.admitted.push(format!("{}: status {}", object.name, reply.status)),
                Err(error) => seen.admitted.push(format!("{}: {error}", object.name)),
            }
        });
    }
    while flying.join_next().await.is_some() {}
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The memory limit of a process.
enum Limit {
    /// A cgroup of the first or second version, removed when this is dropped.
    Group { folder: PathBuf, second: bool },
    /// None could be made, for this reason.
    None(String),
}

impl Limit {
    /// Moves a process into a cgroup of its own.
    fn of(process: u32) -> Self {
        let root = PathBuf::from("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let second = controllers.split_whitespace().any(|name| name == "memory");
        let parent = if second { root } else { root.join("memory") };
        let folder = parent.join(format!("jobgate-load-{process}"));
        let make = || -> std::io::Result<()> {
            fs::create_dir(&folder)?;
            let (file, swap) = if second {
                ("memory.max", "memory.swap.max")
            } else {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            };
            fs::write(folder.join(file), LIMIT.to_string())?;
            // Where swap is not counted there is nothing to switch off.
            let _ = fs::write(folder.join(swap), if second { "0".to_owned() } else { LIMIT.to_string() });
            fs::write(folder.join("cgroup.procs"), process.to_string())
        };
        match make() {
            Ok(()) => Self::Group { folder, second },
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Self::None(error.to_string())
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Group { folder, second } => {
                let file = if *second { "memory.peak" } else { "memory.max_usage_in_bytes" };
                let peak = fs::read_to_string(folder.join(file))
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok());
                format!(
                    "cgroup of {} MiB, {:?} MiB of it used at most",
                    LIMIT >> 20,
                    peak.map(|peak| peak >> 20)
                )
            }
            Self::None(why) => format!("no cgroup ({why}): only the most resident memory is compared"),
        }
    }

    /// Fails if something in it was killed, or if the most resident memory, in KiB, was above it.
    fn check(&self, peak: u64) -> Result<(), String> {
        if let Self::Group { folder, second } = self {
            let file = if *second { "memory.events" } else { "memory.oom_control" };
            let events = fs::read_to_string(folder.join(file)).unwrap_or_default();
            let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap_or("0").trim();
            if kills != "0" {
                return Err(format!("killed {kills} times for lack of memory\n"));
            }
        }
        if peak << 10 < LIMIT {
            Ok(())
        } else {
            Err(format!("{} MiB at most, above the limit\n", peak >> 10))
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Self::Group { folder, .. } = self {
            // The process has to be out of it first.
            let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            let outside = folder.parent().map(|parent| parent.join("cgroup.procs"));
            for process in procs.lines() {
                let _ = outside.as_ref().map(|outside| fs::write(outside, process));
            }
            let _ = fs::remove_dir(folder);
        }
    }
}
