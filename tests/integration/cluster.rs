//! Claims from an API server that lists, hangs, resets, lies and comes back. The clock is tokio's and is
//! paused: hours pass in milliseconds.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{FutureExt as _, future};
use http::{Request, Response};
use jobgate::cluster::{Claims, Mode, Settings, Why};
use jobgate::judge::facts::{Fact, FactTable, Facts as _, WantedClaim};
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};
use tower::BoxError;

use crate::support::fake::Answer;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Answers with a claim.
fn found(namespace: &str, name: &str, modes: &[&str]) -> Answer {
    Answer::Reply(200, claim(namespace, name, modes, 1).to_string())
}

fn claim(namespace: &str, name: &str, modes: &[&str], version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace, "name": name, "resourceVersion": version.to_string(), "uid": "3b0c",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:accessModes": {}}}}],
        },
        "spec": {"accessModes": modes, "storageClassName": "fast"},
        "status": {"phase": "Pending"},
    })
}

fn page(claims: &[Value], version: u64, next: &str) -> Answer {
    let body = json!({"kind": "PersistentVolumeClaimList", "metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": claims});
    Answer::Reply(200, body.to_string())
}

type OnUri = dyn Fn(&str) -> Answer + Send;
type OnWatch = dyn Fn(&str) -> Option<Answer> + Send;

/// A fake API server: three scripts and a diary.
struct Fake {
    get: Mutex<Box<OnUri>>,
    list: Mutex<Box<OnUri>>,
    /// `None` opens a watch whose lines the test sends.
    watch: Mutex<Box<OnWatch>>,
    watches: Mutex<Vec<UnboundedSender<String>>>,
    diary: Mutex<Vec<String>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            get: Mutex::new(Box::new(|_| Answer::absent())),
            list: Mutex::new(Box::new(|_| page(&[], 1, ""))),
            watch: Mutex::new(Box::new(|_| None)),
            watches: Mutex::default(),
            diary: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        })
    }

    fn on_get(self: &Arc<Self>, f: impl Fn(&str) -> Answer + Send + 'static) -> Arc<Self> {
        *self.get.lock().unwrap() = Box::new(f);
        Arc::clone(self)
    }

    fn on_list(self: &Arc<Self>, f: impl Fn(&str) -> Answer + Send + 'static) -> Arc<Self> {
        *self.list.lock().unwrap() = Box::new(f);
        Arc::clone(self)
    }

    fn on_watch(self: &Arc<Self>, f: impl Fn(&str) -> Option<Answer> + Send + 'static) -> Arc<Self> {
        *self.watch.lock().unwrap() = Box::new(f);
        Arc::clone(self)
    }

    fn client(self: &Arc<Self>) -> Client {
        let fake = Arc::clone(self);
        Client::new(
            tower::service_fn(move |request: Request<Body>| Arc::clone(&fake).answer(request)),
            "default",
        )
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<crate::support::fake::Body>, BoxError> {
        let uri = request.uri().to_string();
        // It serves no runtimes, as most clusters do: `runtimes.rs` has one that does.
        if uri.starts_with("/apis/trainer.kubeflow.org/") {
            return Answer::Reply(404, "404 page not found\n".to_owned()).give().await;
        }
        self.diary.lock().unwrap().push(uri.clone());
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let _leaving = Leaving(&self.at_once);
        let answer = if uri.contains("watch=true") {
            let answer = (self.watch.lock().unwrap())(&uri);
            match answer {
                Some(answer) => answer,
                None => {
                    let (sender, lines) = unbounded();
                    self.watches.lock().unwrap().push(sender);
                    return Ok(Response::new(crate::support::fake::body(lines)));
                }
            }
        } else if uri.starts_with("/api/v1/persistentvolumeclaims") {
            (self.list.lock().unwrap())(&uri)
        } else {
            (self.get.lock().unwrap())(&uri)
        };
        answer.give().await
    }

    /// Sends an event on the watch opened last.
    fn send(&self, kind: &str, object: &Value) {
        let watches = self.watches.lock().unwrap();
        watches
            .last()
            .expect("no watch is open")
            .unbounded_send(format!("{}\n", json!({"type": kind, "object": object})))
            .unwrap();
    }

    fn bookmark(&self, version: u64) {
        self.send(
            "BOOKMARK",
            &json!({"kind": "PersistentVolumeClaim", "metadata": {"resourceVersion": version.to_string()}}),
        );
    }

    /// Ends the watch opened last, as the API server does after `timeoutSeconds`.
    fn end_watch(&self) {
        self.watches.lock().unwrap().pop();
    }

    fn asked(&self, part: &str) -> usize {
        self.diary.lock().unwrap().iter().filter(|uri| uri.contains(part)).count()
    }

    fn gets(&self) -> usize {
        self.asked("/namespaces/")
    }

    fn lists(&self) -> usize {
        self.asked("limit=")
    }

    fn last(&self, part: &str) -> String {
        self.diary.lock().unwrap().iter().rev().find(|uri| uri.contains(part)).cloned().expect("never asked")
    }
}

/// Claims that several pods share, so that a denial may rest on them.
fn wanted(names: &[&str]) -> Vec<WantedClaim> {
    names
        .iter()
        .map(|name| WantedClaim { namespace: "ml".to_owned(), name: (*name).to_owned(), shared: true })
        .collect()
}

async fn ask(claims: &Claims, names: &[&str]) -> FactTable {
    claims.facts(&wanted(names), Instant::now() + SECOND).await
}

async fn one(claims: &Claims, name: &str) -> Result<Vec<String>, &'static str> {
    match ask(claims, &[name]).await.claim("ml", name) {
        Fact::Known(claim) => Ok(claim.access_modes),
        Fact::Absent => Err("absent"),
        Fact::Unknown => Err("unknown"),
    }
}

fn rwo() -> Result<Vec<String>, &'static str> {
    Ok(vec!["ReadWriteOnce".to_owned()])
}

fn rwx() -> Result<Vec<String>, &'static str> {
    Ok(vec!["ReadWriteMany".to_owned()])
}

fn live(fake: &Arc<Fake>) -> Claims {
    Claims::start(Mode::Live, fake.client())
}

async fn cached(fake: &Arc<Fake>) -> Claims {
    let claims = Claims::start(Mode::Cache, fake.client());
    assert!(claims.ready().await);
    settle().await;
    claims
}

/// Lets every task run until it waits.
async fn settle() {
    sleep(MS).await;
}

#[tokio::test(start_paused = true)]
async fn off_knows_nothing_and_says_so_for_each_claim() {
    let claims = Claims::off();
    let table = ask(&claims, &["a", "b"]).await;
    assert_eq!(table.claims.values().collect::<Vec<_>>(), [&Fact::Unknown, &Fact::Unknown]);
    assert!(claims.is_synced() && claims.ready().await);
    assert_eq!(claims.stats().unknown_for(Why::Off), 2);
}

#[test]
fn off_needs_no_runtime() {
    let table = Claims::off().facts(&wanted(&["a"]), Instant::now()).now_or_never();
    assert_eq!(table.expect("must not wait").claim("ml", "a"), Fact::Unknown);
}

#[tokio::test(start_paused = true)]
async fn live_finds_and_misses() {
    let fake = Fake::new().on_get(|uri| match uri {
        "/api/v1/namespaces/ml/persistentvolumeclaims/there" => found("ml", "there", &["ReadWriteOnce"]),
        _ => Answer::absent(),
    });
    let claims = live(&fake);
    assert_eq!(one(&claims, "there").await, rwo());
    assert_eq!(one(&claims, "gone").await, Err("absent"));
    let stats = claims.stats();
    assert_eq!((stats.found, stats.absent, stats.requests, stats.cached), (1, 1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn the_modes_of_the_bound_volume_win() {
    let fake = Fake::new().on_get(|_| {
        let mut object = claim("ml", "a", &["ReadWriteOnce"], 1);
        object["status"] = json!({"phase": "Bound", "accessModes": ["ReadWriteMany"]});
        Answer::Reply(200, object.to_string())
    });
    assert_eq!(one(&live(&fake), "a").await, rwx());
}

#[tokio::test(start_paused = true)]
async fn modes_from_the_future_are_unknown() {
    let fake = Fake::new().on_get(|_| found("ml", "a", &["ReadWriteSometimes"]));
    let claims = live(&fake);
    assert_eq!(one(&claims, "a").await, Err("unknown"));
    assert_eq!(claims.stats().unknown_for(Why::Modes), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_holds_five_seconds_and_an_absence_one() {
    let fake = Fake::new().on_get(|uri| {
        if uri.ends_with("/a") { found("ml", "a", &["ReadWriteOnce"]) } else { Answer::absent() }
    });
    let claims = live(&fake);
    assert_eq!((one(&claims, "a").await, one(&claims, "b").await), (rwo(), Err("absent")));
    sleep(SECOND - 2 * MS).await;
    ask(&claims, &["a", "b"]).await;
    assert_eq!(fake.gets(), 2);
    fake.on_get(|_| found("ml", "b", &["ReadWriteMany"]));
    sleep(3 * MS).await;
    assert_eq!(one(&claims, "b").await, rwx(), "an absence is forgotten within a second");
    assert_eq!(one(&claims, "a").await, rwo());
    assert_eq!(fake.gets(), 3);
    sleep(4 * SECOND).await;
    ask(&claims, &["a"]).await;
    assert_eq!(fake.gets(), 4);
}

#[tokio::test(start_paused = true)]
async fn one_flight_serves_all_who_ask() {
    let fake =
        Fake::new().on_get(|_| Answer::Late(100 * MS, claim("ml", "a", &["ReadWriteOnce"], 1).to_string()));
    let claims = live(&fake);
    let asked = future::join_all((0..20).map(|_| one(&claims, "a"))).await;
    assert!(asked.iter().all(|got| *got == rwo()));
    assert_eq!(fake.gets(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flight_outlives_who_asked_first() {
    let fake =
        Fake::new().on_get(|_| Answer::Late(200 * MS, claim("ml", "a", &["ReadWriteOnce"], 1).to_string()));
    let claims = live(&fake);
    let gone = timeout(50 * MS, one(&claims, "a")).await;
    assert!(gone.is_err());
    assert_eq!(one(&claims, "a").await, rwo());
    assert_eq!(fake.gets(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_named_twice_is_looked_up_once() {
    let fake = Fake::new().on_get(|_| found("ml", "a", &["ReadWriteOnce"]));
    let table = ask(&live(&fake), &["a", "a", "a"]).await;
    assert_eq!((table.claims.len(), fake.gets()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn claims_are_looked_up_side_by_side() {
    let fake = Fake::new().on_get(|uri| {
        let name = uri.rsplit('/').next().unwrap();
        Answer::Late(200 * MS, claim("ml", name, &["ReadWriteOnce"], 1).to_string())
    });
    let names: Vec<String> = (0..16).map(|i| format!("c{i:02}")).collect();
    let began = Instant::now();
    let table = ask(&live(&fake), &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(table.claims.values().all(|fact| matches!(fact, Fact::Known(_))));
    assert!(began.elapsed() < 250 * MS, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_seventeenth_claim_is_unknown_and_the_author_is_told() {
    let fake = Fake::new();
    let claims = live(&fake);
    // In the order of importance, which is the caller's.
    let names: Vec<String> = (0..20).rev().map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let facts = claims.facts(&wanted(&names), Instant::now() + SECOND).await;
    let unknown: Vec<_> = facts
        .claims
        .iter()
        .filter(|(_, fact)| **fact == Fact::Unknown)
        .map(|((_, name), _)| name.as_str())
        .collect();
    assert_eq!(unknown, ["c00", "c01", "c02", "c03"]);
    assert_eq!((facts.claims.len(), fake.gets(), claims.stats().unknown_for(Why::TooMany)), (20, 16, 4));
    let caveat = "jobgate could not look up 4 claims and did not check them (too many in one object): c03, c02, c01, …";
    assert_eq!(facts.caveat(), Some(caveat));
    // What was just answered costs no request: the second attempt gets further.
    let facts = claims.facts(&wanted(&names), Instant::now() + SECOND).await;
    assert_eq!((facts.caveat(), fake.gets()), (None, 20));
}

#[tokio::test(start_paused = true)]
async fn a_caveat_is_for_claims_that_decide_and_were_meant_to_be_looked_up() {
    let fake = Fake::new().on_get(|_| Answer::Hang);
    let claims = live(&fake);
    let mut wanted = wanted(&["a", "b"]);
    let deadline = Instant::now() + SECOND;
    let caveat = "jobgate could not look up 2 claims and did not check them (no answer in time): a, b";
    assert_eq!(claims.facts(&wanted, deadline).await.caveat(), Some(caveat));
    assert_eq!(Claims::off().facts(&wanted, deadline).await.caveat(), None);
    wanted.iter_mut().for_each(|claim| claim.shared = false);
    assert_eq!(claims.facts(&wanted, deadline).await.caveat(), None, "one pod may use any claim");
    fake.on_get(|_| found("ml", "c", &["ReadWriteSometimes"]));
    let caveat = "jobgate could not look up 1 claim and did not check it (unknown access modes): c";
    assert_eq!(claims.facts(&self::wanted(&["c"]), Instant::now() + SECOND).await.caveat(), Some(caveat));
}

#[tokio::test(start_paused = true)]
async fn the_cache_answers_for_any_number_of_claims() {
    let names: Vec<String> = (0..1000).map(|i| format!("c{i:04}")).collect();
    let objects: Vec<Value> = names.iter().map(|name| claim("ml", name, &["ReadWriteOnce"], 1)).collect();
    let fake = Fake::new().on_list(move |_| page(&objects, 1, ""));
    let claims = cached(&fake).await;
    let facts = claims
        .facts(&wanted(&names.iter().map(String::as_str).collect::<Vec<_>>()), Instant::now() + SECOND)
        .await;
    let known = facts.claims.values().filter(|fact| matches!(fact, Fact::Known(_))).count();
    assert_eq!((known, fake.gets(), facts.caveat()), (1000, 0, None));
}

#[tokio::test(start_paused = true)]
async fn all_reviews_together_ask_at_a_bounded_rate() {
    let fake = Fake::new();
    let claims = live(&fake);
    // Three seconds of a thousand reviews each, all of sixteen claims that nobody has asked for before.
    for review in 0..3000 {
        let names: Vec<String> = (0..16).map(|i| format!("c{review}-{i}")).collect();
        ask(&claims, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        sleep(MS).await;
    }
    assert!((240..=260).contains(&fake.gets()), "{} requests in three seconds", fake.gets());
    let stats = claims.stats();
    assert_eq!(stats.unknown_for(Why::RateLimited) + stats.requests, 3000 * 16);
    sleep(SECOND).await;
    assert_eq!(one(&claims, "later").await, Err("absent"), "it is over when they are");
}

#[tokio::test(start_paused = true)]
async fn answers_from_memory_do_not_count_against_the_rate() {
    let fake = Fake::new()
        .on_list(two_pages)
        .on_get(|uri| found("ml", uri.rsplit('/').next().unwrap(), &["ReadWriteOnce"]));
    let claims = cached(&fake).await;
    for _ in 0..1000 {
        ask(&claims, &["a", "b", "fresh"]).await;
    }
    assert_eq!((fake.gets(), claims.stats().unknown_for(Why::RateLimited)), (1, 0));
}

/// The ways in which a watch is not open: it was ended, and this is what comes of opening another.
fn broken_watches() -> Vec<(&'static str, Answer)> {
    vec![
        ("hangs", Answer::Hang),
        ("is reset", Answer::Reset),
        ("is forbidden", Answer::status(403, "Forbidden")),
        ("fails", Answer::status(500, "InternalError")),
        ("is too old, and so is every list", Answer::status(410, "Expired")),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_confirmed_while_the_watch_is_not_open() {
    for (what, broken) in broken_watches() {
        let fake = Fake::new().on_list(two_pages).on_get(|_| found("ml", "a", &["ReadWriteMany"]));
        let claims = cached(&fake).await;
        assert_eq!(one(&claims, "a").await, rwo(), "{what}");
        assert!(claims.stats().watching && fake.gets() == 0, "{what}: an open watch is believed");
        fake.on_watch(move |_| Some(broken.clone())).on_list(|_| Answer::Hang);
        fake.end_watch();
        settle().await;
        assert!(!claims.stats().watching, "{what}");
        assert_eq!(one(&claims, "a").await, rwx(), "{what}: made again meanwhile");
        assert_eq!(fake.gets(), 1, "{what}");
        fake.on_get(|_| Answer::absent());
        sleep(SECOND).await;
        assert_eq!(one(&claims, "a").await, Err("absent"), "{what}: the last answer counts, not the cache");
        fake.on_get(|_| Answer::Hang);
        sleep(SECOND).await;
        assert_eq!(
            one(&claims, "a").await,
            Err("unknown"),
            "{what}: what cannot be confirmed in time never denies"
        );
        assert_eq!(fake.gets(), 3, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_denied_is_not_confirmed() {
    let fake = Fake::new().on_list(two_pages).on_watch(|_| Some(Answer::Reset));
    let claims = cached(&fake).await;
    assert_eq!(one(&claims, "b").await, rwx(), "any number of nodes can mount it");
    let alone = WantedClaim { shared: false, ..wanted(&["a"]).remove(0) };
    let facts = claims.facts(&[alone], Instant::now() + SECOND).await;
    assert!(matches!(facts.claim("ml", "a"), Fact::Known(_)), "one pod uses it");
    assert_eq!((fake.gets(), claims.stats().watching), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_good_for_both_reviews_of_a_request_and_no_longer() {
    let fake = Fake::new()
        .on_list(two_pages)
        .on_watch(|_| Some(Answer::Reset))
        .on_get(|_| found("ml", "a", &["ReadWriteOnce"]));
    let claims = cached(&fake).await;
    assert_eq!((one(&claims, "a").await, one(&claims, "a").await), (rwo(), rwo()));
    assert_eq!(fake.gets(), 1);
    fake.on_get(|_| found("ml", "a", &["ReadWriteMany"]));
    sleep(250 * MS).await;
    assert_eq!(one(&claims, "a").await, rwx());
}

#[tokio::test(start_paused = true)]
async fn confirmations_come_first_and_have_a_share_of_the_rate() {
    let fake = Fake::new().on_list(two_pages).on_watch(|_| Some(Answer::Reset)).on_get(|uri| {
        match uri.rsplit('/').next() {
            Some("a") => found("ml", "a", &["ReadWriteOnce"]),
            _ => Answer::absent(),
        }
    });
    let claims = cached(&fake).await;
    // Anybody can name claims that do not exist.
    let decoys: Vec<String> = (0..400).map(|i| format!("ckpt-{i}")).collect();
    for names in decoys.chunks(20) {
        ask(&claims, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let gets = fake.gets();
    let mut names: Vec<&str> = decoys[..20].iter().map(String::as_str).collect();
    names.push("a");
    let table = ask(&claims, &names).await;
    assert!(matches!(table.claim("ml", "a"), Fact::Known(_)), "{:?}", claims.stats());
    assert_eq!(fake.gets(), gets + 1);
    assert!(claims.stats().unknown_for(Why::RateLimited) > 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_away_catches_up_before_it_is_relied_on() {
    let fake = Fake::new().on_list(two_pages).on_get(|_| found("ml", "a", &["ReadWriteMany"]));
    let claims = cached(&fake).await;
    fake.on_watch(|_| Some(Answer::Reset));
    fake.end_watch();
    sleep(20 * SECOND).await;
    fake.on_watch(|_| None);
    while fake.watches.lock().unwrap().is_empty() {
        settle().await;
    }
    assert_eq!(one(&claims, "a").await, rwx(), "the event is still on its way");
    assert_eq!(fake.gets(), 1);
    sleep(2 * SECOND).await;
    assert_eq!((one(&claims, "a").await, fake.gets()), (rwo(), 1));
    // A regular end is no gap.
    sleep(10 * SECOND).await;
    fake.end_watch();
    settle().await;
    assert_eq!((one(&claims, "a").await, fake.gets()), (rwo(), 1));
}

/// Ends a watch when the time is over that the request asks for, as the API server does, and sends nothing
/// before.
fn quiet(uri: &str) -> Answer {
    let seconds = uri.split(['?', '&']).find_map(|part| part.strip_prefix("timeoutSeconds=")).unwrap();
    Answer::Quiet(Duration::from_secs(seconds.parse().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_not_a_failed_watch() {
    let log = Log::default();
    let _guard = log.listen();
    let fake = Fake::new().on_list(two_pages).on_watch(|uri| Some(quiet(uri)));
    let claims = cached(&fake).await;
    for second in 0..7200 {
        sleep(SECOND).await;
        let stats = claims.stats();
        assert!(!stats.stale && stats.watching, "after {second} s: {stats:?}");
        assert_eq!(one(&claims, "a").await, rwo());
    }
    assert_eq!((fake.gets(), fake.lists(), claims.stats().watch_failures), (0, 2, 0));
    assert!(fake.asked("watch=true") <= 140, "{} watches in two hours", fake.asked("watch=true"));
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_well_again_after_a_failure_without_a_word() {
    let log = Log::default();
    let _guard = log.listen();
    let fake = Fake::new().on_list(two_pages).on_watch(|_| Some(Answer::Reset));
    let claims = cached(&fake).await;
    sleep(60 * SECOND).await;
    fake.on_watch(|uri| Some(quiet(uri)));
    sleep(60 * SECOND).await;
    assert!(claims.stats().watching && claims.stats().watch_failures > 0);
    assert_eq!(log.lines().len(), 2, "it fails, it works again: {:?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn no_more_than_thirty_two_requests_at_once() {
    let fake = Fake::new().on_get(|uri| {
        let name = uri.rsplit('/').next().unwrap();
        Answer::Late(20 * MS, claim("ml", name, &["ReadWriteOnce"], 1).to_string())
    });
    let claims =
        Claims::with(Mode::Live, fake.client(), Settings { request_burst: 320, ..Settings::default() });
    let names: Vec<String> = (0..320).map(|i| format!("c{i:03}")).collect();
    let reviews = names.chunks(16).map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let tables = future::join_all(reviews.map(|names| {
        let claims = claims.clone();
        async move { ask(&claims, &names).await }
    }))
    .await;
    let known = tables
        .iter()
        .flat_map(|table| table.claims.values())
        .filter(|fact| matches!(fact, Fact::Known(_)))
        .count();
    assert_eq!(known, 320, "ten rounds of 20 ms fit into 300 ms");
    assert_eq!(fake.most_at_once.load(Ordering::SeqCst), 32);
}

#[tokio::test(start_paused = true)]
async fn names_that_cannot_exist_are_absent_and_never_sent() {
    let fake = Fake::new();
    let claims = live(&fake);
    for name in ["", "../../secrets/db", "a?watch=true", "A", "$CLAIM", "a/b", "ä", "a\n"] {
        assert_eq!(one(&claims, name).await, Err("absent"), "{name:?}");
    }
    let of = |namespace: &str| WantedClaim { namespace: namespace.into(), name: "a".into(), shared: true };
    let facts = claims.facts(&[of("no/such"), of("")], Instant::now() + SECOND).await;
    assert!(facts.claims.values().all(|fact| *fact == Fact::Absent));
    assert_eq!(fake.gets(), 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_is_unknown_and_in_time() {
    let cases: Vec<(&str, Answer, Why)> = vec![
        ("hang", Answer::Hang, Why::Timeout),
        ("late", Answer::Late(10 * SECOND, "{}".into()), Why::Timeout),
        ("half an answer", Answer::Stall(r#"{"metadata":{"na"#.into()), Why::Timeout),
        ("reset", Answer::Reset, Why::Unavailable),
        ("401", Answer::status(401, "Unauthorized"), Why::Unavailable),
        ("403", Answer::status(403, "Forbidden"), Why::Forbidden),
        ("409", Answer::status(409, "Conflict"), Why::Unavailable),
        ("410", Answer::status(410, "Expired"), Why::Unavailable),
        ("429", Answer::status(429, "TooManyRequests"), Why::Unavailable),
        ("500", Answer::status(500, "InternalError"), Why::Unavailable),
        ("503 of a proxy", Answer::Reply(503, "<h1>Bad</h1>".into()), Why::Unavailable),
        ("404 of a proxy", Answer::Reply(404, "<h1>Not Found</h1>".into()), Why::Garbage),
        ("404 with other JSON", Answer::Reply(404, "{}".into()), Why::Garbage),
        ("redirect", Answer::Reply(302, String::new()), Why::Unavailable),
        ("empty body", Answer::Reply(200, String::new()), Why::Garbage),
        ("html", Answer::Reply(200, "<html>".into()), Why::Garbage),
        ("other JSON", Answer::Reply(200, "[1,2]".into()), Why::Garbage),
        ("another claim", found("ml", "b", &["ReadWriteOnce"]), Why::Garbage),
        ("another namespace", found("other", "a", &["ReadWriteOnce"]), Why::Garbage),
        (
            "wrong types",
            Answer::Reply(
                200,
                r#"{"metadata":{"namespace":"ml","name":"a"},"spec":{"accessModes":"ReadWriteOnce"}}"#.into(),
            ),
            Why::Garbage,
        ),
        ("no modes", found("ml", "a", &[]), Why::Modes),
        ("without end", Answer::Reply(200, format!("{{\"x\":\"{}\"}}", "y".repeat(11 << 20))), Why::Garbage),
    ];
    for (what, answer, why) in cases {
        let fake = Fake::new().on_get(move |_| answer.clone());
        let claims = live(&fake);
        let began = Instant::now();
        assert_eq!(one(&claims, "a").await, Err("unknown"), "{what}");
        assert!(began.elapsed() <= 302 * MS, "{what}: {:?}", began.elapsed());
        assert_eq!(claims.stats().unknown_for(why), 1, "{what}: {:?}", claims.stats());
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_review_comes_before_the_budget() {
    let fake = Fake::new().on_get(|_| Answer::Hang);
    let claims = live(&fake);
    let began = Instant::now();
    claims.facts(&wanted(&["a"]), began + 50 * MS).await;
    assert!(began.elapsed() <= 52 * MS);
    let began = Instant::now();
    let facts = claims.facts(&wanted(&["b"]), began).await;
    assert_eq!(facts.claim("ml", "b"), Fact::Unknown);
    assert!(began.elapsed() <= 2 * MS, "a deadline that is over must not wait");
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_shared_by_all_claims_of_a_review() {
    let fake = Fake::new().on_get(|_| Answer::Hang);
    let settings = Settings { parallel: 1, ..Settings::default() };
    let claims = Claims::with(Mode::Live, fake.client(), settings);
    let began = Instant::now();
    let table = ask(&claims, &["a", "b", "c", "d"]).await;
    assert!(table.claims.values().all(|fact| *fact == Fact::Unknown) && table.claims.len() == 4);
    assert!(began.elapsed() <= 302 * MS, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn five_failures_open_the_breaker_and_a_probe_closes_it() {
    let fake = Fake::new().on_get(|_| Answer::status(500, "InternalError"));
    let claims = live(&fake);
    for i in 0..5 {
        assert!(!claims.stats().breaker_open);
        assert_eq!(one(&claims, &format!("c{i}")).await, Err("unknown"));
    }
    assert!(claims.stats().breaker_open);
    fake.on_get(|uri| found("ml", uri.rsplit('/').next().unwrap(), &["ReadWriteOnce"]));
    let began = Instant::now();
    for i in 0..100 {
        assert_eq!(one(&claims, &format!("d{i}")).await, Err("unknown"));
    }
    assert_eq!(fake.gets(), 5, "an open breaker sends nothing");
    assert!(began.elapsed() < 10 * MS, "and waits for nothing");
    assert_eq!(claims.stats().unknown_for(Why::BreakerOpen), 100);
    sleep(10 * SECOND).await;
    assert_eq!(one(&claims, "c0").await, rwo(), "the probe's answer is used");
    assert!(!claims.stats().breaker_open);
    assert_eq!(one(&claims, "c1").await, rwo());
}

#[tokio::test(start_paused = true)]
async fn half_open_lets_one_through() {
    let fake = Fake::new().on_get(|_| Answer::Reset);
    let claims = live(&fake);
    for i in 0..5 {
        one(&claims, &format!("c{i}")).await.unwrap_err();
    }
    sleep(10 * SECOND).await;
    fake.on_get(|_| Answer::Hang);
    let table = ask(&claims, &["a", "b", "c", "d"]).await;
    assert_eq!(table.claims.len(), 4);
    assert_eq!(fake.gets(), 6, "one probe");
    sleep(SECOND).await;
    assert_eq!(one(&claims, "e").await, Err("unknown"));
    assert_eq!(fake.gets(), 6, "the probe failed: open again");
}

#[tokio::test(start_paused = true)]
async fn absence_does_not_open_the_breaker() {
    let fake = Fake::new();
    let claims = live(&fake);
    for i in 0..50 {
        assert_eq!(one(&claims, &format!("c{i}")).await, Err("absent"));
    }
    assert!(!claims.stats().breaker_open);
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_said_once_and_asked_seldom() {
    let log = Log::default();
    let _guard = log.listen();
    let fake = Fake::new().on_get(|_| Answer::status(403, "Forbidden"));
    let claims = live(&fake);
    for _ in 0..1000 {
        assert_eq!(one(&claims, "a").await, Err("unknown"));
        sleep(10 * MS).await;
    }
    assert!(fake.gets() <= 3, "{} requests in ten seconds", fake.gets());
    assert_eq!(claims.stats().unknown_for(Why::Forbidden), 1000);
    assert!(!claims.stats().breaker_open);
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
    assert!(log.lines()[0].contains("persistentvolumeclaims"));
    fake.on_get(|_| found("ml", "a", &["ReadWriteOnce"]));
    sleep(5 * SECOND).await;
    assert_eq!(one(&claims, "a").await, rwo(), "it works as soon as the role is there");
}

fn two_pages(uri: &str) -> Answer {
    if uri.contains("continue=") {
        page(&[claim("ml", "b", &["ReadWriteMany"], 2)], 7, "")
    } else {
        page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 7, "to&b=2")
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_answers_without_a_request() {
    let fake = Fake::new().on_list(two_pages);
    let claims = cached(&fake).await;
    assert_eq!((one(&claims, "a").await, one(&claims, "b").await), (rwo(), rwx()));
    assert_eq!(fake.gets(), 0);
    assert_eq!(fake.lists(), 2);
    assert!(fake.last("limit=").contains("limit=500") && fake.last("limit=").contains("continue=to%26b%3D2"));
    let watch = fake.last("watch=true");
    assert!(
        watch.contains("resourceVersion=7")
            && watch.contains("allowWatchBookmarks=true")
            && watch.contains("timeoutSeconds="),
        "{watch}"
    );
    let stats = claims.stats();
    assert_eq!((stats.claims, stats.cached, stats.lists, stats.stale), (2, 2, 1, false));
}

#[tokio::test(start_paused = true)]
async fn a_miss_is_verified_by_a_get() {
    let fake = Fake::new().on_get(|uri| {
        if uri.ends_with("/fresh") { found("ml", "fresh", &["ReadWriteOnce"]) } else { Answer::absent() }
    });
    let claims = cached(&fake).await;
    assert_eq!(one(&claims, "fresh").await, rwo(), "made a moment ago, not in the cache yet");
    assert_eq!(one(&claims, "gone").await, Err("absent"));
    fake.on_get(|_| Answer::Hang);
    assert_eq!(one(&claims, "other").await, Err("unknown"), "not in the cache is not yet absent");
}

#[tokio::test(start_paused = true)]
async fn events_change_the_answer() {
    let fake = Fake::new();
    let claims = cached(&fake).await;
    fake.send("ADDED", &claim("ml", "a", &["ReadWriteOnce"], 2));
    settle().await;
    assert_eq!(one(&claims, "a").await, rwo());
    let mut bound = claim("ml", "a", &["ReadWriteOnce"], 3);
    bound["status"] = json!({"phase": "Bound", "accessModes": ["ReadWriteMany"]});
    fake.send("MODIFIED", &bound);
    settle().await;
    assert_eq!(one(&claims, "a").await, rwx());
    assert_eq!(fake.gets(), 0);
    fake.send("DELETED", &claim("ml", "a", &["ReadWriteOnce"], 4));
    settle().await;
    assert_eq!(one(&claims, "a").await, Err("absent"));
    assert_eq!((fake.gets(), claims.stats().claims), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_may_come_in_pieces() {
    let fake = Fake::new();
    let claims = cached(&fake).await;
    let text = format!("{}\n", json!({"type": "ADDED", "object": claim("ml", "a", &["ReadWriteOnce"], 2)}));
    for piece in text.as_bytes().chunks(7) {
        fake.watches
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .unbounded_send(String::from_utf8(piece.to_vec()).unwrap())
            .unwrap();
        settle().await;
    }
    assert_eq!(one(&claims, "a").await, rwo());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_its_last_version() {
    let fake = Fake::new();
    let claims = cached(&fake).await;
    fake.send("ADDED", &claim("ml", "a", &["ReadWriteOnce"], 11));
    sleep(60 * SECOND).await;
    fake.bookmark(25);
    sleep(60 * SECOND).await;
    fake.end_watch();
    settle().await;
    assert!(fake.last("watch=true").contains("resourceVersion=25"));
    assert_eq!((fake.lists(), fake.asked("watch=true")), (1, 2));
    assert_eq!(one(&claims, "a").await, rwo());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_does_not_spin() {
    let fake = Fake::new().on_watch(|_| Some(Answer::Reply(200, String::new())));
    let _claims = cached(&fake).await;
    sleep(60 * SECOND).await;
    assert!(fake.asked("watch=true") < 12, "{}", fake.asked("watch=true"));
}

#[tokio::test(start_paused = true)]
async fn too_old_a_version_brings_a_new_list() {
    for gone in [
        Answer::status(410, "Expired"),
        Answer::Reply(
            200,
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}}\n"
                .into(),
        ),
    ] {
        let fake = Fake::new()
            .on_list(|_| page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 1, ""))
            .on_watch(move |_| Some(gone.clone()));
        let claims = Claims::start(Mode::Cache, fake.client());
        assert!(claims.ready().await);
        fake.on_list(|_| page(&[claim("ml", "b", &["ReadWriteMany"], 1)], 9, ""))
            .on_get(|_| found("ml", "a", &["ReadWriteOnce"]));
        settle().await;
        assert_eq!(
            (one(&claims, "a").await, fake.gets()),
            (rwo(), 1),
            "the old list answers, confirmed, until the new one is there"
        );
        fake.on_get(|_| Answer::absent());
        fake.on_watch(|_| None);
        sleep(11 * SECOND).await;
        assert_eq!((fake.lists(), claims.stats().lists), (2, 2));
        assert_eq!((one(&claims, "a").await, one(&claims, "b").await), (Err("absent"), rwx()));
        assert!(fake.last("watch=true").contains("resourceVersion=9"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_half_way_starts_again() {
    let first = AtomicUsize::new(0);
    let fake = Fake::new().on_list(move |uri| match first.fetch_add(1, Ordering::SeqCst) {
        1 => Answer::status(410, "Expired"),
        _ => two_pages(uri),
    });
    let claims = cached(&fake).await;
    assert_eq!((one(&claims, "a").await, one(&claims, "b").await), (rwo(), rwx()));
    assert_eq!(fake.lists(), 4);
}

#[tokio::test(start_paused = true)]
async fn garbage_on_the_watch_is_survived() {
    let fake = Fake::new().on_list(|_| page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 5, ""));
    let claims = cached(&fake).await;
    for garbage in [
        "<html>\n",
        "{}\n",
        "{\"type\":\"ADDED\",\"object\":7}\n",
        "{\"type\":\"WHAT\",\"object\":{}}\n",
        "\n",
    ] {
        fake.watches.lock().unwrap().last().unwrap().unbounded_send(garbage.into()).unwrap();
        sleep(40 * SECOND).await;
        assert_eq!(one(&claims, "a").await, rwo(), "{garbage:?}");
        fake.bookmark(5);
        settle().await;
    }
    assert_eq!(fake.lists(), 1);
    assert_eq!(claims.stats().watch_failures, 4);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_end_in_time_is_dead() {
    let fake = Fake::new()
        .on_list(|_| page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 1, ""))
        .on_get(|_| Answer::Hang);
    let claims = cached(&fake).await;
    fake.on_watch(|_| Some(Answer::Hang));
    sleep(60 * SECOND).await;
    assert_eq!(one(&claims, "a").await, rwo());
    assert!(claims.stats().watching);
    sleep(16 * SECOND).await;
    let stats = claims.stats();
    assert!(!stats.watching && !stats.stale && stats.watch_failures == 1, "{stats:?}");
    assert_eq!(one(&claims, "a").await, Err("unknown"), "the claim may be another by now");
    sleep(20 * SECOND).await;
    let stats = claims.stats();
    assert!(stats.stale && stats.silence.unwrap() > 90 * SECOND && claims.is_synced(), "{stats:?}");
    fake.on_get(|_| found("ml", "a", &["ReadWriteMany"]));
    assert_eq!(one(&claims, "a").await, rwx(), "a GET is believed");
    assert_eq!(fake.asked("watch=true"), 2, "a dead watch is given up");
    fake.on_watch(|_| None);
    sleep(120 * SECOND).await;
    let stats = claims.stats();
    assert!(!stats.stale && stats.watching, "an open watch needs no event to count: {stats:?}");
    assert_eq!(one(&claims, "a").await, rwo());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_cluster_fresh() {
    let fake = Fake::new().on_list(|_| page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 1, ""));
    let claims = cached(&fake).await;
    for minute in 1..60 {
        sleep(60 * SECOND).await;
        fake.bookmark(minute + 1);
        settle().await;
        assert_eq!(one(&claims, "a").await, rwo());
    }
    assert_eq!((fake.gets(), fake.lists(), fake.asked("watch=true")), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn start_up_waits_ten_seconds_and_then_works_without_the_cache() {
    for broken in [
        Answer::Hang,
        Answer::Reset,
        Answer::status(500, "InternalError"),
        Answer::status(429, "TooManyRequests"),
        Answer::Reply(200, "<html>".into()),
    ] {
        let what = format!("{broken:?}");
        let fake =
            Fake::new().on_list(move |_| broken.clone()).on_get(|_| found("ml", "a", &["ReadWriteOnce"]));
        let began = Instant::now();
        let claims = Claims::start(Mode::Cache, fake.client());
        assert!(!claims.ready().await && !claims.is_synced(), "{what}");
        assert!(began.elapsed() >= 10 * SECOND && began.elapsed() <= 10 * SECOND + 2 * MS, "{what}");
        assert_eq!(one(&claims, "a").await, rwo(), "{what}");
        fake.on_list(two_pages);
        sleep(61 * SECOND).await;
        assert!(claims.is_synced(), "{what}: {:?}", fake.lists());
        let gets = fake.gets();
        assert_eq!(one(&claims, "b").await, rwx());
        assert_eq!(fake.gets(), gets);
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_list_is_said_once_and_tried_seldom() {
    let log = Log::default();
    let _guard = log.listen();
    let fake = Fake::new()
        .on_list(|_| Answer::status(403, "Forbidden"))
        .on_get(|_| Answer::status(403, "Forbidden"));
    let claims = Claims::start(Mode::Cache, fake.client());
    assert!(!claims.ready().await);
    for _ in 0..600 {
        assert_eq!(one(&claims, "a").await, Err("unknown"));
        sleep(6 * SECOND).await;
    }
    assert!(fake.lists() <= 240, "{} lists in an hour", fake.lists());
    assert_eq!(log.lines().len(), 2, "one line for the list, one for the get: {:?}", log.lines());
    assert!(claims.stats().watch_failures > 100);
    fake.on_list(two_pages);
    sleep(31 * SECOND).await;
    assert_eq!(one(&claims, "b").await, rwx());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_an_hour_is_two_lines_in_the_log() {
    let log = Log::default();
    let _guard = log.listen();
    let fake = Fake::new();
    let claims = cached(&fake).await;
    fake.on_watch(|_| Some(Answer::Reset)).on_list(|_| Answer::Reset).on_get(|_| Answer::Reset);
    fake.end_watch();
    for _ in 0..720 {
        one(&claims, "a").await.unwrap_err();
        sleep(5 * SECOND).await;
    }
    fake.on_watch(|_| None);
    sleep(36 * SECOND).await;
    let lines = log.lines();
    assert_eq!(lines.iter().filter(|line| line.contains("the watch of claims")).count(), 2, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("look-ups keep failing")).count(), 1, "{lines:?}");
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_come_in_smaller_ones() {
    let most_seen = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most_seen);
    // Every claim weighs 40 kB: a page of 500 would be 20 MB.
    let fake = Fake::new().on_list(move |uri| {
        let number = |key: &str| {
            uri.split(['?', '&']).find_map(|p| p.strip_prefix(key)).map_or(0, |v| v.parse::<usize>().unwrap())
        };
        let (limit, from) = (number("limit="), number("continue="));
        let until = (from + limit).min(1000);
        let heavy = |i: usize| {
            let mut object = claim("ml", &format!("c{i}"), &["ReadWriteOnce"], 1);
            object["metadata"]["annotations"] = json!({"x": "y".repeat(40_000)});
            object
        };
        let items: Vec<Value> = (from..until).map(heavy).collect();
        seen.fetch_max(items.len(), Ordering::SeqCst);
        page(&items, 1, &if until < 1000 { until.to_string() } else { String::new() })
    });
    let claims = cached(&fake).await;
    assert_eq!(claims.stats().claims, 1000);
    assert_eq!(most_seen.load(Ordering::SeqCst), 500, "the first try");
    assert!(fake.last("limit=").contains("limit=31"), "{}", fake.last("limit="));
}

#[tokio::test(start_paused = true)]
async fn too_many_claims_are_not_kept() {
    let fake = Fake::new()
        .on_list(|_| {
            page(
                &(0..11).map(|i| claim("ml", &format!("c{i}"), &["ReadWriteOnce"], 1)).collect::<Vec<_>>(),
                1,
                "",
            )
        })
        .on_get(|_| found("ml", "c1", &["ReadWriteOnce"]));
    let claims = Claims::with(Mode::Cache, fake.client(), Settings { max_claims: 10, ..Settings::default() });
    assert!(claims.ready().await);
    assert_eq!(one(&claims, "c1").await, rwo());
    assert_eq!((fake.gets(), claims.stats().claims, claims.stats().stale), (1, 0, false));
    sleep(600 * SECOND).await;
    assert_eq!((fake.lists(), fake.asked("watch=true")), (1, 0), "and not listed again");
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_with_the_last_handle() {
    let fake = Fake::new();
    let claims = cached(&fake).await;
    let clone = claims.clone();
    drop(claims);
    settle().await;
    fake.bookmark(2);
    drop(clone);
    settle().await;
    assert!(fake.watches.lock().unwrap().last().unwrap().is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_of_every_look_up() {
    let fake =
        Fake::new().on_list(|_| page(&[claim("ml", "a", &["ReadWriteOnce"], 1)], 1, "")).on_get(|uri| {
            match uri.rsplit('/').next() {
                Some("b") => found("ml", "b", &["ReadWriteOnce"]),
                Some("c") => Answer::status(403, "Forbidden"),
                _ => Answer::absent(),
            }
        });
    let claims = cached(&fake).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    claims.observe(move |source, result| ear.lock().unwrap().push((source, result)));
    for name in ["a", "b", "c", "d", "no name"] {
        ask(&claims, &[name]).await;
    }
    assert_eq!(
        *heard.lock().unwrap(),
        [
            ("cache", "found"),
            ("live", "found"),
            ("live", "forbidden"),
            ("live", "absent"),
            ("none", "absent")
        ]
    );
}

/// The log lines at `info` and above of the test's own thread, where the runtime of a test lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        tracing::subscriber::set_default(
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish(),
        )
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
