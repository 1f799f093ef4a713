//! Self-managed certificates against an API server that rejects, hangs, lies, forgets and meddles. Waits are
//! on tokio's clock, which is paused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use jobgate::serve::certs::{Managed, Names, Settings};
use jobgate::serve::server::Metrics;
use jobgate::serve::server::certificate::Identity;
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::support::fake::Answer;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

const SECRET: &str = "/api/v1/namespaces/gate/secrets/jobgate-tls";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/jobgate";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/jobgate";

/// What a request is, to a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Get,
    Watch,
    Put,
    Apply,
    Release,
}

type Script = dyn Fn(Ask, &str) -> Option<Answer> + Send;
type Meddler = dyn Fn(&str, &mut Value) + Send;

/// An API server with three objects. Where the script has an answer, that is given; else it does as it
/// should.
struct Fake {
    script: Mutex<Box<Script>>,
    /// Changes an object right after it was written.
    meddler: Mutex<Box<Meddler>>,
    objects: Mutex<BTreeMap<&'static str, Value>>,
    watches: Mutex<Vec<(&'static str, UnboundedSender<String>)>>,
    diary: Mutex<Vec<(Instant, Ask, String)>>,
}

fn configuration(kind: &str, path: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "jobgate", "resourceVersion": "1"},
        "webhooks": [{"name": format!("{path}.jobgate.dev"), "clientConfig": {"service": {"name": "jobgate", "namespace": "gate"}}}],
    })
}

impl Fake {
    fn new() -> Arc<Self> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "jobgate-tls", "namespace": "gate", "resourceVersion": "1"}});
        let objects = [
            (SECRET, secret),
            (MUTATING, configuration("MutatingWebhookConfiguration", "mutate")),
            (VALIDATING, configuration("ValidatingWebhookConfiguration", "validate")),
        ];
        Arc::new(Self {
            script: Mutex::new(Box::new(|_, _| None)),
            meddler: Mutex::new(Box::new(|_, _| ())),
            objects: Mutex::new(objects.into()),
            watches: Mutex::default(),
            diary: Mutex::default(),
        })
    }

    fn answers(self: &Arc<Self>, script: impl Fn(Ask, &str) -> Option<Answer> + Send + 'static) -> Arc<Self> {
        *self.script.lock().unwrap() = Box::new(script);
        Arc::clone(self)
    }

    fn meddles(self: &Arc<Self>, meddler: impl Fn(&str, &mut Value) + Send + 'static) -> Arc<Self> {
        *self.meddler.lock().unwrap() = Box::new(meddler);
        Arc::clone(self)
    }

    fn behaves(&self) {
        *self.script.lock().unwrap() = Box::new(|_, _| None);
        *self.meddler.lock().unwrap() = Box::new(|_, _| ());
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
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path().to_owned();
        let kind = parts
            .headers
            .get("content-type")
            .map(|value| value.to_str().unwrap().to_owned())
            .unwrap_or_default();
        let ask = match (&parts.method, parts.uri.query().unwrap_or_default()) {
            (&Method::GET, query) if query.contains("watch=true") => Ask::Watch,
            (&Method::GET, _) => Ask::Get,
            (&Method::PUT, _) => Ask::Put,
            (&Method::PATCH, query) if kind.contains("apply-patch") => {
                assert!(
                    query.contains("fieldManager=jobgate-certs") && query.contains("force=true"),
                    "{query}"
                );
                Ask::Apply
            }
            (&Method::PATCH, _) => Ask::Release,
            other => panic!("{other:?}"),
        };
        self.diary.lock().unwrap().push((Instant::now(), ask, path.clone()));
        let scripted = (self.script.lock().unwrap())(ask, &path);
        if let Some(answer) = scripted {
            return answer.give().await;
        }
        if ask == Ask::Watch {
            return Ok(Response::new(crate::support::fake::body(self.watch(&path))));
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.serve(ask, &path, body).give().await
    }

    fn watch(&self, list: &str) -> impl futures::Stream<Item = String> + use<> {
        let (sender, lines) = unbounded();
        let objects = self.objects.lock().unwrap();
        let (path, object) = objects.iter().find(|(path, _)| path.starts_with(list)).unwrap();
        sender.unbounded_send(event("ADDED", object)).unwrap();
        self.watches.lock().unwrap().push((path, sender));
        lines
    }

    fn serve(&self, ask: Ask, path: &str, body: Value) -> Answer {
        let found = self.objects.lock().unwrap().get(path).cloned();
        let Some(mut object) = found else { return Answer::absent() };
        if ask == Ask::Get {
            return Answer::Reply(200, object.to_string());
        }
        if body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return Answer::status(409, "Conflict");
        }
        match ask {
            Ask::Put => object = body,
            Ask::Release => object["metadata"]["managedFields"] = body["metadata"]["managedFields"].clone(),
            _ => {
                for webhook in body["webhooks"].as_array().unwrap() {
                    let all = object["webhooks"].as_array_mut().unwrap();
                    let Some(stored) = all.iter_mut().find(|stored| stored["name"] == webhook["name"]) else {
                        return Answer::status(422, "Invalid");
                    };
                    stored["clientConfig"]["caBundle"] = webhook["clientConfig"]["caBundle"].clone();
                }
                object["metadata"]["managedFields"] =
                    json!([{"manager": "kubectl"}, {"manager": "jobgate-certs"}]);
            }
        }
        (self.meddler.lock().unwrap())(path, &mut object);
        Answer::Reply(200, self.put(path, object).to_string())
    }

    /// Stores an object and tells who watches it.
    fn put(&self, path: &str, mut object: Value) -> Value {
        let mut objects = self.objects.lock().unwrap();
        let stored = objects.get_mut(path).unwrap();
        let version: u64 =
            stored["metadata"]["resourceVersion"].as_str().map_or(1, |text| text.parse().unwrap());
        object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        *stored = object.clone();
        self.watches.lock().unwrap().retain(|(watched, sender)| {
            *watched != path || sender.unbounded_send(event("MODIFIED", &object)).is_ok()
        });
        object
    }

    fn object(&self, path: &str) -> Value {
        self.objects.lock().unwrap()[path].clone()
    }

    /// Changes an object as somebody else.
    fn change(&self, path: &str, change: impl Fn(&mut Value)) {
        let mut object = self.object(path);
        change(&mut object);
        self.put(path, object);
    }

    /// Returns the most requests of a kind in any minute.
    fn most(&self, wanted: impl Fn(Ask, &str) -> bool) -> usize {
        let diary = self.diary.lock().unwrap();
        let times: Vec<Instant> =
            diary.iter().filter(|(_, ask, path)| wanted(*ask, path)).map(|(time, _, _)| *time).collect();
        times
            .iter()
            .enumerate()
            .map(|(first, from)| times[first..].iter().take_while(|time| **time - *from < MINUTE).count())
            .max()
            .unwrap_or(0)
    }

    fn forget(&self) {
        self.diary.lock().unwrap().clear();
    }

    fn bundle(&self, path: &str) -> String {
        let text = self.object(path)["webhooks"][0]["clientConfig"]["caBundle"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    }

    fn authority(&self) -> String {
        let text = self.object(SECRET)["data"]["ca.crt"].as_str().unwrap_or_default().to_owned();
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    }
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// One replica.
struct Replica {
    managed: Managed,
    identity: Arc<Identity>,
}

impl Replica {
    fn start(fake: &Arc<Fake>) -> Self {
        let metrics = Metrics::new();
        let identity = Arc::new(Identity::empty(&metrics));
        let settings = Settings::new(Names::new("jobgate", "gate").unwrap());
        Self { managed: Managed::start(fake.client(), settings, Arc::clone(&identity), metrics), identity }
    }

    async fn started(fake: &Arc<Fake>) -> Self {
        let replica = Self::start(fake);
        sleep(10 * SECOND).await;
        replica.managed.ready().unwrap();
        assert_eq!((fake.bundle(MUTATING), fake.bundle(VALIDATING)), (fake.authority(), fake.authority()));
        replica
    }
}

/// Ways in which an API server answers nothing of use, each with what is said of it.
fn troubles() -> Vec<(Answer, &'static str)> {
    vec![
        (Answer::status(403, "Forbidden"), "may not be used"),
        (Answer::absent(), "does not exist"),
        (Answer::Reply(404, "404 page not found\n".to_owned()), "cannot be used"),
        (Answer::status(401, "Unauthorized"), "cannot be used"),
        (Answer::status(429, "TooManyRequests"), "cannot be used"),
        (Answer::status(500, "InternalError"), "cannot be used"),
        (Answer::status(503, "ServiceUnavailable"), "cannot be used"),
        (Answer::Hang, "cannot be reached"),
        (Answer::Reset, "cannot be reached"),
        (Answer::Stall("{\"kind\": \"Sec".to_owned()), "cannot be reached"),
        (Answer::Reply(200, "garbage".to_owned()), "cannot be used"),
        (Answer::Reply(200, "null".to_owned()), "cannot be used"),
        (Answer::Reply(200, "[]".to_owned()), "cannot be used"),
        (Answer::Reply(200, "7".to_owned()), "cannot be used"),
        (Answer::Reply(200, "{}".to_owned()), "cannot be used"),
        (
            Answer::Reply(200, json!({"kind": "Pod", "metadata": {"name": "jobgate-tls"}}).to_string()),
            "cannot be used",
        ),
    ]
}

/// What one replica sends in a minute, at the worst: 30 looks at 100 ms and one a second after, of three
/// requests each, and the watches. Where writes are lost to others, up to four looks follow each other, but
/// then none are wasted on broken watches.
const AT_MOST: usize = (30 + 57) * 3 + WATCHES;

/// Watches of three objects in a minute: each is opened anew after 2.5 s or more, and oftener only at first.
const WATCHES: usize = 3 * (60 * 2 / 5 + 3);

#[tokio::test(start_paused = true)]
async fn it_gets_ready_and_is_quiet_then() {
    let fake = Fake::new();
    let _replica = Replica::started(&fake).await;
    for path in [MUTATING, VALIDATING] {
        assert_eq!(
            fake.object(path)["metadata"]["managedFields"],
            json!([{"manager": "kubectl"}]),
            "nothing of it is ours"
        );
    }
    fake.forget();
    sleep(60 * MINUTE).await;
    assert_eq!(fake.most(|ask, _| !matches!(ask, Ask::Get | Ask::Watch)), 0, "nothing is written");
    let most = fake.most(|_, _| true);
    assert!(most <= 60, "{most}");
}

#[tokio::test(start_paused = true)]
async fn at_the_start_each_trouble_is_told_and_gone_when_it_is_over() {
    for (answer, said) in troubles() {
        let (fake, given) = (Fake::new(), answer.clone());
        fake.answers(move |_, _| Some(given.clone()));
        let replica = Replica::start(&fake);
        sleep(10 * MINUTE).await;
        let why = replica.managed.ready().expect_err("must not be ready");
        assert!(why.contains(said), "{answer:?}: {why}");
        assert!(replica.identity.ready().is_err(), "{answer:?}: nothing to serve");
        let most = fake.most(|_, _| true);
        assert!(most <= AT_MOST, "{answer:?}: {most}");
        fake.behaves();
        sleep(40 * SECOND).await;
        replica.managed.ready().unwrap_or_else(|e| panic!("{answer:?}: {e}"));
        replica.identity.ready().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn once_ready_no_trouble_takes_the_certificate_away() {
    for (answer, _) in troubles() {
        let fake = Fake::new();
        let replica = Replica::started(&fake).await;
        let (served, given) = (replica.identity.not_after(), answer.clone());
        fake.forget();
        fake.answers(move |_, _| Some(given.clone()));
        sleep(30 * MINUTE).await;
        replica.managed.ready().unwrap_or_else(|e| panic!("{answer:?}: {e}"));
        assert_eq!(replica.identity.not_after(), served, "{answer:?}");
        let most = fake.most(|_, _| true);
        assert!(most <= AT_MOST, "{answer:?}: {most}");
        let authority = fake.authority();
        fake.behaves();
        sleep(MINUTE).await;
        assert_eq!(fake.authority(), authority, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_are_told_and_not_repeated_without_end() {
    for ask in [Ask::Put, Ask::Apply, Ask::Release] {
        for (answer, _) in troubles()
            .into_iter()
            .chain([(Answer::status(409, "Conflict"), ""), (Answer::status(422, "Invalid"), "")])
        {
            let (fake, given) = (Fake::new(), answer.clone());
            fake.answers(move |asked, _| (asked == ask).then(|| given.clone()));
            let replica = Replica::start(&fake);
            sleep(10 * MINUTE).await;
            // What an API server says of a write that it took is not looked at, but for its status; then the
            // object tells what came of it.
            assert_eq!(
                replica.managed.ready().is_ok(),
                ask == Ask::Release,
                "{ask:?} {answer:?}: {:?}",
                replica.managed.ready()
            );
            let (all, writes) = (fake.most(|_, _| true), fake.most(|asked, _| asked == ask));
            assert!(all <= AT_MOST && writes <= 120, "{ask:?} {answer:?}: {all}, {writes}");
            fake.behaves();
            sleep(2 * MINUTE).await;
            replica.managed.ready().unwrap_or_else(|e| panic!("{ask:?} {answer:?}: {e}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_none_do_no_harm() {
    let object = configuration("MutatingWebhookConfiguration", "mutate");
    let watches = [
        Answer::Reply(200, String::new()),
        Answer::Reply(200, "\n\n\n".to_owned()),
        Answer::Reply(200, "garbage\n{\"type\":7}\n[]\n".to_owned()),
        Answer::Reply(200, event("ERROR", &json!({"kind": "Status", "code": 410}))),
        Answer::Reply(200, event("ADDED", &object).repeat(1000)),
        Answer::Stall("{\"type\": \"ADD".to_owned()),
        Answer::status(410, "Expired"),
    ];
    for answer in watches.into_iter().chain(troubles().into_iter().map(|(answer, _)| answer)) {
        let (fake, given) = (Fake::new(), answer.clone());
        fake.answers(move |ask, _| (ask == Ask::Watch).then(|| given.clone()));
        let _replica = Replica::started(&fake).await;
        fake.change(MUTATING, |object| {
            drop(object["webhooks"][0]["clientConfig"].as_object_mut().unwrap().remove("caBundle"));
        });
        sleep(10 * SECOND).await;
        assert_eq!(fake.bundle(MUTATING), fake.authority(), "{answer:?}: seen without a watch");
        fake.forget();
        sleep(30 * MINUTE).await;
        let (all, watches) = (fake.most(|_, _| true), fake.most(|ask, _| ask == Ask::Watch));
        assert!(all <= AT_MOST && watches <= WATCHES, "{answer:?}: {all}, {watches}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_fixed_within_two_seconds() {
    let fake = Fake::new();
    let _replica = Replica::started(&fake).await;
    for path in [MUTATING, VALIDATING] {
        for text in ["", "Z2FyYmFnZQ==", "not base64"] {
            fake.change(path, |object| object["webhooks"][0]["clientConfig"]["caBundle"] = text.into());
            sleep(2 * SECOND).await;
            assert_eq!(fake.bundle(path), fake.authority(), "{text:?}");
        }
    }
    let before = fake.authority();
    fake.change(SECRET, |object| drop(object.as_object_mut().unwrap().remove("data")));
    sleep(2 * SECOND).await;
    assert_eq!(fake.authority(), before);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_added_is_published_too() {
    let fake = Fake::new();
    let _replica = Replica::started(&fake).await;
    fake.change(VALIDATING, |object| {
        let mut added = object["webhooks"][0].clone();
        added["name"] = "validate-closed.jobgate.dev".into();
        added["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        object["webhooks"].as_array_mut().unwrap().push(added);
    });
    sleep(2 * SECOND).await;
    let object = fake.object(VALIDATING);
    assert_eq!(
        object["webhooks"][1]["clientConfig"]["caBundle"],
        object["webhooks"][0]["clientConfig"]["caBundle"]
    );
}

/// Who undoes every write at once makes us neither faster nor wrong.
#[tokio::test(start_paused = true)]
async fn an_adversary_gets_six_writes_a_minute() {
    let fake = Fake::new().meddles(|path, object| {
        if path == SECRET {
            object.as_object_mut().unwrap().remove("data");
        } else {
            object["webhooks"][0]["clientConfig"]["caBundle"] = "".into();
        }
    });
    let replica = Replica::start(&fake);
    sleep(30 * MINUTE).await;
    let why = replica.managed.ready().unwrap_err();
    assert!(why.contains("keeps changing"), "{why}");
    for path in [SECRET, MUTATING, VALIDATING] {
        let writes = fake.most(|ask, asked| asked == path && matches!(ask, Ask::Put | Ask::Apply));
        assert!(writes <= 6, "{path}: {writes}");
    }
    assert!(fake.most(|_, _| true) <= AT_MOST);
    fake.behaves();
    sleep(2 * MINUTE).await;
    replica.managed.ready().unwrap();
}

/// Objects that parse and mean nothing.
#[tokio::test(start_paused = true)]
async fn objects_of_the_wrong_shape_are_no_reason_to_panic() {
    let nonsense = [
        json!(null),
        json!(7),
        json!("text"),
        json!([]),
        json!([[]]),
        json!([null, 7]),
        json!({}),
        json!({"ca.crt": 7}),
        json!([{"name": 7}]),
    ];
    for value in nonsense {
        let fake = Fake::new();
        let replica = Replica::started(&fake).await;
        let given = value.clone();
        for (path, key) in [(SECRET, "data"), (MUTATING, "webhooks"), (VALIDATING, "webhooks")] {
            fake.change(path, |object| object[key] = given.clone());
        }
        fake.change(SECRET, |object| object["metadata"]["annotations"] = given.clone());
        fake.change(MUTATING, |object| object["metadata"]["managedFields"] = given.clone());
        sleep(MINUTE).await;
        replica.managed.ready().unwrap_or_else(|e| panic!("{value}: {e}"));
        for (path, kind, word) in [
            (MUTATING, "MutatingWebhookConfiguration", "mutate"),
            (VALIDATING, "ValidatingWebhookConfiguration", "validate"),
        ] {
            fake.change(path, |object| object["webhooks"] = configuration(kind, word)["webhooks"].clone());
        }
        sleep(MINUTE).await;
        assert!(!fake.authority().is_empty(), "{value}");
        assert_eq!(
            (fake.bundle(MUTATING), fake.bundle(VALIDATING)),
            (fake.authority(), fake.authority()),
            "{value}: it still works"
        );
    }
}
