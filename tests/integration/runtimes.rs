//! Training runtimes from an API server that has them, hides them, or serves no such kind. The clock is tokio's
//! and is paused: hours pass in milliseconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response};
use jobgate::cluster::{Claims, Mode, Settings, Why};
use jobgate::judge::facts::{Fact, FactKind, Facts as _, WantedClaim, WantedObject};
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::support::fake::{self, Answer};

const SECOND: Duration = Duration::from_secs(1);
const OF_ALL: &str = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes";
const OF_NAMESPACES: &str = "/apis/trainer.kubeflow.org/v1alpha1/trainingruntimes";

type OnUri = dyn Fn(&str) -> Answer + Send;

/// A fake API server without claims, and a diary of what it was asked about runtimes.
struct Fake {
    on: Mutex<Box<OnUri>>,
    watches: Mutex<Vec<(String, UnboundedSender<String>)>>,
    diary: Mutex<Vec<String>>,
}

impl Fake {
    fn new(on: impl Fn(&str) -> Answer + Send + 'static) -> Arc<Self> {
        Arc::new(Self { on: Mutex::new(Box::new(on)), watches: Mutex::default(), diary: Mutex::default() })
    }

    fn then(&self, on: impl Fn(&str) -> Answer + Send + 'static) {
        *self.on.lock().unwrap() = Box::new(on);
    }

    fn client(self: &Arc<Self>) -> Client {
        let fake = Arc::clone(self);
        Client::new(
            tower::service_fn(move |request: Request<Body>| Arc::clone(&fake).answer(request)),
            "default",
        )
    }

    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<fake::Body>, BoxError> {
        let uri = request.uri().to_string();
        if uri.starts_with("/api/v1/namespaces/") {
            return Answer::absent().give().await;
        }
        if uri.starts_with("/api/v1/") && !uri.contains("watch=true") {
            return page(&[]).give().await;
        }
        if uri.starts_with("/apis/") {
            self.diary.lock().unwrap().push(uri.clone());
        }
        let answer = if uri.starts_with("/apis/") { Some((self.on.lock().unwrap())(&uri)) } else { None };
        match answer {
            Some(answer) if !uri.contains("watch=true") || matches!(answer, Answer::Reply(400.., _)) => {
                answer.give().await
            }
            _ => {
                let (sender, lines) = unbounded();
                self.watches.lock().unwrap().push((uri, sender));
                Ok(Response::new(fake::body(lines)))
            }
        }
    }

    fn send(&self, to: &str, kind: &str, object: &Value) {
        let watches = self.watches.lock().unwrap();
        let (_, watch) = watches.iter().rev().find(|(uri, _)| uri.starts_with(to)).expect("no watch is open");
        watch.unbounded_send(format!("{}\n", json!({"type": kind, "object": object}))).unwrap();
    }

    fn asked(&self, part: &str) -> usize {
        self.diary.lock().unwrap().iter().filter(|uri| uri.contains(part)).count()
    }
}

fn unserved() -> Answer {
    Answer::Reply(404, "404 page not found\n".to_owned())
}

fn runtime(namespace: &str, name: &str, nodes: i64) -> Value {
    let mut metadata =
        json!({"name": name, "resourceVersion": "2", "managedFields": [{"manager": "kubectl"}]});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let pods = json!({"containers": [{"name": "node", "image": "registry.example.com/trainer:v1"}]});
    let job = json!({"name": "node", "template": {"spec": {"template": {"spec": pods}}}});
    json!({
        "metadata": metadata,
        "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": [job]}}},
    })
}

fn found(runtime: &Value) -> Answer {
    Answer::Reply(200, runtime.to_string())
}

fn page(items: &[Value]) -> Answer {
    Answer::Reply(200, json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string())
}

/// Returns how many nodes a runtime has, as it is known.
async fn nodes(claims: &Claims, kind: &str, name: &str) -> Result<i64, &'static str> {
    let wanted = Kind::from_runtime(kind).map(|kind| WantedObject::new(FactKind::Runtime(kind), "ml", name));
    let facts = claims.objects(&wanted, Instant::now() + SECOND).await;
    match facts.runtime(kind, "ml", name) {
        Fact::Known(runtime) => {
            assert_eq!(runtime.object["kind"], kind);
            Ok(runtime.object.pointer("/spec/mlPolicy/numNodes").and_then(Value::as_i64).unwrap())
        }
        Fact::Absent => Err("absent"),
        Fact::Unknown => Err(if facts.caveat().is_some() { "unknown, and told" } else { "unknown" }),
    }
}

async fn cached(fake: &Arc<Fake>) -> Claims {
    let claims = Claims::start(Mode::Cache, fake.client());
    assert!(claims.ready().await);
    sleep(SECOND / 1000).await;
    claims
}

#[tokio::test(start_paused = true)]
async fn each_is_asked_for_by_its_kind() {
    let fake = Fake::new(|uri| match uri.strip_prefix("/apis/trainer.kubeflow.org/v1alpha1/") {
        Some("clustertrainingruntimes/torch") => found(&runtime("", "torch", 1)),
        Some("namespaces/ml/trainingruntimes/torch") => found(&runtime("ml", "torch", 2)),
        _ => Answer::absent(),
    });
    let claims = Claims::start(Mode::Live, fake.client());
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(1));
    assert_eq!(nodes(&claims, "TrainingRuntime", "torch").await, Ok(2));
    assert_eq!(nodes(&claims, "TrainingRuntime", "gone").await, Err("absent"));
    // What is no name reaches no path, and other kinds are none of ours.
    assert_eq!(nodes(&claims, "TrainingRuntime", "../../secrets/x").await, Err("absent"));
    assert_eq!(nodes(&claims, "Secret", "torch").await, Err("unknown"));
    assert_eq!(fake.asked("/apis/"), 3);
    // An answer is remembered for a while.
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(1));
    assert_eq!(fake.asked("/apis/"), 3);
}

#[tokio::test(start_paused = true)]
async fn off_asks_nobody() {
    assert_eq!(nodes(&Claims::off(), "ClusterTrainingRuntime", "torch").await, Err("unknown"));
}

#[tokio::test(start_paused = true)]
async fn the_cache_follows_the_cluster() {
    let fake =
        Fake::new(|uri| if uri.starts_with(OF_ALL) { page(&[runtime("", "torch", 1)]) } else { page(&[]) });
    let claims = cached(&fake).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(1));
    fake.send(OF_ALL, "MODIFIED", &runtime("", "torch", 8));
    fake.send(OF_NAMESPACES, "ADDED", &runtime("ml", "torch", 3));
    sleep(SECOND / 1000).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(8));
    assert_eq!(nodes(&claims, "TrainingRuntime", "torch").await, Ok(3));
    assert_eq!((fake.asked("/torch"), fake.asked("limit=")), (0, 2), "from the cache");
    fake.then(|_| Answer::absent());
    fake.send(OF_ALL, "DELETED", &runtime("", "torch", 8));
    sleep(SECOND / 1000).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Err("absent"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kinds_is_asked_rarely_and_disturbs_nothing() {
    let fake = Fake::new(|_| unserved());
    let claims = cached(&fake).await;
    assert!(claims.is_synced());
    assert_eq!(fake.asked("limit="), 2, "one list of each kind");
    sleep(200 * SECOND).await;
    assert_eq!(fake.asked("limit="), 2, "and no other soon");
    assert_eq!(fake.asked("watch=true"), 0);
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Err("absent"));
    // A look-up that fails so, however often, takes no claim's place.
    for nth in 0..20 {
        let name = format!("torch-{nth}");
        assert_eq!(nodes(&claims, "ClusterTrainingRuntime", &name).await, Err("absent"));
        sleep(SECOND).await;
    }
    assert!(!claims.stats().breaker_open);
    let claim = WantedClaim { namespace: "ml".to_owned(), name: "a".to_owned(), shared: true };
    let facts = claims.facts(&[claim], Instant::now() + SECOND).await;
    assert_eq!(
        (facts.claim("ml", "a"), facts.caveat()),
        (Fact::Absent, None),
        "claims are looked up as ever"
    );
    // Where the kinds come later, their objects are read one by one at once, and listed within minutes.
    fake.then(|uri| match uri {
        _ if uri.contains("/torch") => found(&runtime("", "torch", 4)),
        _ => page(&[runtime("", "torch", 4)]),
    });
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(4));
    assert_eq!(fake.asked("watch=true"), 0);
    sleep(601 * SECOND).await;
    assert!(fake.asked("watch=true") >= 2);
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_taken_away_are_forgotten() {
    let fake =
        Fake::new(|uri| if uri.starts_with(OF_ALL) { page(&[runtime("", "torch", 1)]) } else { page(&[]) });
    let claims = cached(&fake).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Ok(1));
    fake.then(|_| unserved());
    fake.watches.lock().unwrap().clear();
    sleep(20 * SECOND).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Err("absent"));
    let lists = fake.asked("limit=");
    sleep(200 * SECOND).await;
    assert_eq!(fake.asked("limit="), lists, "no loop");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_unknown_and_told() {
    let fake = Fake::new(|_| Answer::status(403, "Forbidden"));
    let claims = cached(&fake).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Err("unknown, and told"));
    sleep(200 * SECOND).await;
    assert_eq!(fake.asked("limit="), 2, "asked for again only after minutes");
    assert!(claims.is_synced() && !claims.stats().breaker_open);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_costs_no_more_than_the_budget() {
    let fake = Fake::new(|_| Answer::Hang);
    let claims = Claims::start(Mode::Live, fake.client());
    let began = Instant::now();
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "torch").await, Err("unknown, and told"));
    assert!(began.elapsed() <= Settings::default().budget + SECOND / 100, "{:?}", began.elapsed());
    assert_eq!(claims.stats().unknown_for(Why::Timeout), 0, "the counts are those of claims");
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let huge = |name: &str| {
        let mut object = runtime("", name, 1);
        object["spec"]["note"] = "x".repeat(65 << 10).into();
        object
    };
    // One that is larger than any that people write is unknown, from the cache and by itself.
    let fake = Fake::new(move |uri| if uri.contains("/torch") { found(&huge("torch")) } else { page(&[]) });
    assert_eq!(
        nodes(&Claims::start(Mode::Live, fake.client()), "ClusterTrainingRuntime", "torch").await,
        Err("unknown")
    );
    // With too many of them the cache is not used.
    let many: Vec<Value> = (0..10).map(|nth| runtime("", &format!("r{nth}"), nth)).collect();
    let fake = Fake::new(move |uri| match uri {
        _ if uri.contains("/r3") => found(&runtime("", "r3", 3)),
        _ if uri.starts_with(OF_ALL) => page(&many),
        _ => page(&[]),
    });
    let settings = Settings { max_object_bytes: 2000, ..Settings::default() };
    let claims = Claims::with(Mode::Cache, fake.client(), settings);
    assert!(claims.ready().await);
    sleep(SECOND / 1000).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "r3").await, Ok(3));
    assert_eq!(fake.asked("/r3"), 1, "read by itself");
    sleep(3600 * SECOND).await;
    assert_eq!(fake.asked(&format!("{OF_ALL}?limit=")), 1, "and not listed again");
    // The same where they come one by one.
    let fake = Fake::new(|uri| if uri.contains("/r3") { found(&runtime("", "r3", 3)) } else { page(&[]) });
    let settings = Settings { max_object_bytes: 2000, ..Settings::default() };
    let claims = Claims::with(Mode::Cache, fake.client(), settings);
    assert!(claims.ready().await);
    sleep(SECOND / 1000).await;
    for nth in 0..10 {
        fake.send(OF_ALL, "ADDED", &runtime("", &format!("r{nth}"), nth));
    }
    sleep(SECOND).await;
    assert_eq!(nodes(&claims, "ClusterTrainingRuntime", "r3").await, Ok(3));
    assert_eq!(fake.asked("/r3"), 1, "read by itself");
}
