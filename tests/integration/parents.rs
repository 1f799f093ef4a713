//! Parents of what trusted controllers make, from an API server that has them, has others, hides them, or serves
//! no such kind; by themselves, and through the handler of the webhook.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Clock};

use http::{Request, Response};
use jobgate::admission::{Endpoint, Outcome};
use jobgate::cluster::{Claims, Mode, Settings};
use jobgate::judge::facts::{Fact, Facts as _, WantedClaim, WantedParent};
use jobgate::judge::policy::Policy;
use jobgate::judge::verdict::Skipped;
use jobgate::kinds::Kind;
use jobgate::serve::server::{Application as _, Call, Metrics};
use jobgate::serve::webhook::Webhook;
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::support::fake::{self, Answer};

const SECOND: Duration = Duration::from_secs(1);
const RAY_JOBS: &str = "/apis/ray.io/v1/namespaces/ml/rayjobs/";

type OnUri = dyn Fn(&str) -> Answer + Send;

/// A fake API server, and a diary of what it was asked and in which form.
struct Fake {
    on: Mutex<Box<OnUri>>,
    diary: Mutex<Vec<String>>,
}

impl Fake {
    fn new(on: impl Fn(&str) -> Answer + Send + 'static) -> Arc<Self> {
        Arc::new(Self { on: Mutex::new(Box::new(on)), diary: Mutex::default() })
    }

    fn then(&self, on: impl Fn(&str) -> Answer + Send + 'static) {
        *self.on.lock().unwrap() = Box::new(on);
    }

    fn claims(self: &Arc<Self>) -> Claims {
        let fake = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| Arc::clone(&fake).answer(request));
        Claims::start(Mode::Live, Client::new(service, "default"))
    }

    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<fake::Body>, BoxError> {
        let uri = request.uri().to_string();
        let accept = request.headers()["accept"].to_str().unwrap();
        assert_eq!(
            accept.starts_with("application/json;as=PartialObjectMetadata"),
            uri.contains("/apis/"),
            "{uri}"
        );
        self.diary.lock().unwrap().push(uri.clone());
        let answer = (self.on.lock().unwrap())(&uri);
        answer.give().await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.diary.lock().unwrap())
    }
}

fn unserved() -> Answer {
    Answer::Reply(404, "404 page not found\n".to_owned())
}

fn named(name: &str, uid: &str) -> Answer {
    let metadata = json!({"namespace": "ml", "name": name, "uid": uid, "managedFields": [{"manager": "m"}]});
    Answer::Reply(200, json!({"kind": "PartialObjectMetadata", "metadata": metadata}).to_string())
}

/// Knows the RayJob `there` with the uid `1`.
fn one(uri: &str) -> Answer {
    if uri == format!("{RAY_JOBS}there") { named("there", "1") } else { Answer::absent() }
}

fn wanted(version: &str, name: &str, uid: &str) -> WantedParent {
    WantedParent {
        kind: Kind::named("ray.io", "RayJob").unwrap(),
        version: version.to_owned(),
        namespace: "ml".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

/// Returns what is known of a parent: its state, and whether there is something to tell.
async fn known(claims: &Claims, wanted: &WantedParent) -> (&'static str, bool) {
    let facts = claims.parent(wanted, Instant::now() + SECOND).await;
    let word = match facts.parent(wanted) {
        Fact::Known(()) => "there",
        Fact::Absent => "absent",
        Fact::Unknown => "unknown",
    };
    (word, facts.caveat().is_some())
}

#[tokio::test(start_paused = true)]
async fn a_parent_is_there_under_its_own_uid_only() {
    let fake = Fake::new(one);
    let claims = fake.claims();
    assert_eq!(known(&claims, &wanted("v1", "there", "1")).await, ("there", false));
    assert_eq!(known(&claims, &wanted("v1", "there", "2")).await, ("absent", false));
    assert_eq!(known(&claims, &wanted("v1", "other", "1")).await, ("absent", false));
    assert_eq!(fake.asked().len(), 3);
    // What can be no object reaches no path.
    let long = "1".repeat(1000);
    for (name, uid) in [("../../secrets/x", "1"), ("", "1"), ("there", ""), ("there", &*long), ("ü", "1")] {
        assert_eq!(known(&claims, &wanted("v1", name, uid)).await, ("absent", false), "{name}");
    }
    assert_eq!(fake.asked(), [""; 0]);
    assert_eq!(known(&Claims::off(), &wanted("v1", "there", "1")).await, ("unknown", false));
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_was_made_a_moment_ago_is_there() {
    let fake = Fake::new(|_| Answer::absent());
    let claims = fake.claims();
    // Somebody asks for the name, again and again, before it exists; then the operator makes its child at once.
    for _ in 0..3 {
        assert_eq!(known(&claims, &wanted("v1", "there", "forged")).await, ("absent", false));
    }
    fake.then(one);
    assert_eq!(known(&claims, &wanted("v1", "there", "1")).await, ("there", false));
    // It is made again under its name.
    fake.then(|_| named("there", "2"));
    assert_eq!(known(&claims, &wanted("v1", "there", "2")).await, ("there", false));
    // And taken away: known for a few seconds more.
    fake.then(|_| Answer::absent());
    assert_eq!(known(&claims, &wanted("v1", "there", "2")).await, ("there", false));
    sleep(Settings::default().known_for).await;
    assert_eq!(known(&claims, &wanted("v1", "there", "2")).await, ("absent", false));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_children_cost_one_look_up() {
    let fake = Fake::new(|_| {
        let object = json!({"metadata": {"namespace": "ml", "name": "there", "uid": "1"}, "spec": {}});
        Answer::Late(SECOND / 20, object.to_string())
    });
    let claims = fake.claims();
    let parent = wanted("v1", "there", "1");
    let all = futures::future::join_all((0..1000).map(|_| known(&claims, &parent))).await;
    assert!(all.iter().all(|known| *known == ("there", false)));
    for _ in 0..1000 {
        assert_eq!(known(&claims, &parent).await, ("there", false));
    }
    assert_eq!(fake.asked(), [format!("{RAY_JOBS}there")]);
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_reference_comes_first() {
    let fake = Fake::new(one);
    let claims = fake.claims();
    // A cluster may serve an older version only, or no longer.
    fake.then(|uri| if uri.contains("/v1alpha1/") { named("there", "1") } else { unserved() });
    assert_eq!(known(&claims, &wanted("v1alpha1", "there", "1")).await, ("there", false));
    assert_eq!(fake.asked().len(), 1);
    fake.then(|uri| if uri.contains("/v1/") { named("there", "2") } else { unserved() });
    assert_eq!(known(&claims, &wanted("v1alpha1", "there", "2")).await, ("there", false));
    assert_eq!(fake.asked().len(), 2);
    // A version that cannot be one is not asked for.
    fake.then(one);
    for version in ["v1/../../../api", "V1", "v1?x", "v1.2", &"v".repeat(100)] {
        assert_eq!(known(&claims, &wanted(version, "other", "2")).await, ("absent", false), "{version}");
        assert!(fake.asked().iter().all(|uri| *uri == format!("{RAY_JOBS}other")), "{version}");
        sleep(2 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kind_has_no_parent_of_it() {
    let fake = Fake::new(|_| unserved());
    let claims = fake.claims();
    for nth in 0..20 {
        let uid = nth.to_string();
        assert_eq!(known(&claims, &wanted("v1", "there", &uid)).await, ("absent", false));
        assert_eq!(known(&claims, &wanted("v9", "there", &uid)).await, ("absent", false));
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_says_is_unknown_in_time() {
    let silent: [fn(&str) -> Answer; 6] = [
        |_| Answer::Hang,
        |_| Answer::Reset,
        |_| Answer::status(403, "Forbidden"),
        |_| Answer::status(500, "InternalError"),
        |_| Answer::Reply(200, "[]".to_owned()),
        |_| Answer::Stall("{".to_owned()),
    ];
    for answer in silent {
        let fake = Fake::new(answer);
        let claims = fake.claims();
        // Beyond the failures that open the circuit breaker, too.
        for nth in 0..10 {
            let began = Instant::now();
            assert_eq!(known(&claims, &wanted("v1", "there", &nth.to_string())).await, ("unknown", true));
            assert!(began.elapsed() <= Settings::default().budget + SECOND / 100, "{:?}", began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn claims_are_looked_up_however_many_parents_are() {
    let fake = Fake::new(|_| Answer::absent());
    let claims = fake.claims();
    let settings = Settings::default();
    let many = settings.parent_burst + settings.parents_per_second;
    let (mut absent, mut unknown) = (0, 0);
    for nth in 0..2 * many {
        match known(&claims, &wanted("v1", "there", &nth.to_string())).await {
            ("absent", false) => absent += 1,
            ("unknown", true) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(absent >= settings.parent_burst && unknown > 0, "{absent} {unknown}");
    let claim = WantedClaim { namespace: "ml".to_owned(), name: "a".to_owned(), shared: true };
    let facts = claims.facts(&[claim], Instant::now() + SECOND).await;
    assert_eq!((facts.claim("ml", "a"), facts.caveat()), (Fact::Absent, None));
}

const USUAL: &str = "system:serviceaccount:default:kuberay-operator";
const OWN: &str = "system:serviceaccount:kuberay-system:kuberay-operator";

/// Has the webhook answer a review of an object that the operator makes, and returns its outcome, why the object
/// was not judged, and the response.
async fn review(webhook: &Webhook, user: &str, kind: &str, uid: &str) -> (Outcome, Option<Skipped>, Value) {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let spec = if kind == "Job" {
        json!({"template": pod})
    } else {
        json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": pod}}})
    };
    let owner =
        json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "there", "uid": uid, "controller": true});
    let body = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u", "kind": {"group": "batch", "version": "v1", "kind": kind}, "operation": "CREATE",
        "namespace": "ml", "userInfo": {"username": user},
        "object": {
            "apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "c", "ownerReferences": [owner]},
            "spec": spec,
        },
    }});
    let call = Call {
        endpoint: Endpoint::Validate,
        authenticated: false,
        body: body.to_string().into(),
        deadline: Clock::now() + 2 * SECOND,
    };
    let answer = webhook.review(call).await;
    let response: Value = serde_json::from_slice(&answer.body).unwrap();
    (answer.meta.outcome, answer.meta.skipped, response["response"].clone())
}

fn webhook(policy: Policy, claims: Claims) -> (Webhook, Metrics) {
    let metrics = Metrics::new();
    (Webhook::new(policy, claims, metrics.clone(), || jiff::civil::date(2026, 11, 24)), metrics)
}

#[tokio::test]
async fn the_webhook_believes_an_operator_whose_parent_is_there() {
    let fake = Fake::new(one);
    let (webhook, metrics) = webhook(Policy::default(), fake.claims());
    let (outcome, skipped, response) = review(&webhook, USUAL, "Job", "1").await;
    assert_eq!((outcome, skipped), (Outcome::Allowed, Some(Skipped::TrustedController)), "{response}");
    assert_eq!(response["auditAnnotations"].get("parent"), None);

    let (outcome, skipped, response) = review(&webhook, USUAL, "Job", "2").await;
    assert_eq!((outcome, skipped), (Outcome::Denied, None));
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("deadline") && message.contains(USUAL), "{message}");
    assert!(message.ends_with("the RayJob `there`, does not exist with that uid"), "{message}");

    fake.asked();
    assert_eq!(review(&webhook, USUAL, "CronJob", "1").await.0, Outcome::Denied, "a RayJob has none");
    assert_eq!(review(&webhook, "admin", "Job", "1").await.0, Outcome::Denied);
    assert_eq!(fake.asked(), [""; 0], "nobody is asked where the answer does not matter");

    let text = metrics.text();
    for (result, count) in [("found", 1), ("absent", 1)] {
        let line = format!("jobgate_parent_lookups_total{{result=\"{result}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test]
async fn the_webhook_believes_an_operator_if_nobody_answers_and_says_so() {
    let hidden = Fake::new(|_| Answer::status(403, "Forbidden"));
    let silent = Fake::new(|_| Answer::Hang);
    for (claims, reason) in [
        (hidden.claims(), "at its RayJob there (no permission)"),
        (silent.claims(), "at its RayJob there (no answer in time)"),
        (Claims::off(), "at its parent"),
    ] {
        let (webhook, _) = webhook(Policy::default(), claims);
        let began = Clock::now();
        let (outcome, skipped, response) = review(&webhook, USUAL, "Job", "1").await;
        assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
        assert_eq!((outcome, skipped), (Outcome::Warned, Some(Skipped::TrustedUnseen)), "{response}");
        let warning = response["warnings"][0].as_str().unwrap();
        assert!(
            warning.ends_with(reason) && response["warnings"].as_array().unwrap().len() == 1,
            "{warning}"
        );
        assert_eq!(response["auditAnnotations"]["parent"], "unknown");
    }
}

#[tokio::test]
async fn the_webhook_tells_an_operator_that_is_not_trusted_how_to_be() {
    let fake = Fake::new(one);
    let (usual, _) = webhook(Policy::default(), fake.claims());
    let (outcome, _, response) = review(&usual, OWN, "Job", "1").await;
    let message = response["status"]["message"].as_str().unwrap();
    let last = message.lines().last().unwrap();
    assert_eq!(outcome, Outcome::Denied);
    assert!(last.contains(&format!("`{OWN}`")) && last.contains("`trustedControllers`"), "{message}");
    // As it says.
    let mut own = Policy::default();
    own.trusted_controllers = vec![OWN.to_owned()];
    let (own, _) = webhook(own, fake.claims());
    assert_eq!(review(&own, OWN, "Job", "1").await.0, Outcome::Allowed);
    assert_eq!(review(&own, OWN, "Job", "2").await.0, Outcome::Denied);
}
