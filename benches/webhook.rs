//! Is the webhook faster than the one that a user would write instead? And what does it cost to keep, and to
//! start?
//!
//! ```text
//! cargo bench --bench webhook                  # under a minute; exit code 1 if a goal is missed
//! cargo bench --bench webhook -- --no-goals    # only prints
//! ```
//!
//! Throughput: five applications are behind the same [`Server`], in one process, and are called in turn by
//! the same client over connections that are kept. `jobgate` is [`Webhook`]. `typed` is the handler that a
//! user would write: it decodes the review and the Job into the types of `kube` and `k8s-openapi`, and
//! answers with one JSON patch. `lean` is the same with the least that it can decode. `body-only` looks for
//! the uid and allows: what is left is the server, TLS and the client. `seven-rules` is `jobgate` with a policy
//! that ignores all rules but the first seven, those that read no command lines. The client shares the machine with
//! them; `server CPU` says what the server's threads alone spent on one review, by the kernel's account.
//! Every answer is compared byte by byte with one that was looked into before the clock ran.
//!
//! Endpoints: one training Job at `/mutate` and at `/validate`. What all rules cost of the server's time, against a policy
//! that ignores all but the six that Jobgate is for; and how many reviews it answers, against `typed`.
//!
//! Templates: one PyTorchJob. What it costs to validate its templates, against a policy without that rule.
//!
//! Other kinds: one object of each, with the pod template of a Job, and no goal.
//!
//! Memory and start: the real binary, `jobgate serve` with a certificate in files and without a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a bench that cannot do its work has nothing better to do than to panic"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use jobgate::admission::{Answer, Endpoint, Meta};
use jobgate::cli::today;
use jobgate::cluster::Claims;
use jobgate::judge::policy::Policy;
use jobgate::kinds::Kind;
use jobgate::serve::server::certificate::{Development, Identity};
use jobgate::serve::server::{Application, Call, Config, Limits, Metrics, Readiness, Server, Stop};
use jobgate::serve::webhook::Webhook;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Barrier, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The allocator of the command `jobgate`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Our reviews per second, against those of the handler that a user would write.
const GOAL_RATIO: f64 = 1.3;
/// Reviews per second with all rules, against those with the first seven.
const GOAL_RULES: f64 = 0.85;
/// Resident memory of a server that has answered one review, in KiB.
const GOAL_IDLE: u64 = 24 << 10;
/// The most resident memory a server ever had, at the largest number of connections, in KiB.
const GOAL_LOADED: u64 = 64 << 10;
/// From the start of the process to the first right answer; the median of all starts.
const GOAL_READY: Duration = Duration::from_millis(100);

const CONNECTIONS: [usize; 3] = [2, 8, 64];

/// The threads of the servers under test; their names tell the server's time from the client's.
const SERVER_THREAD: &str = "served";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    // Cargo adds `--bench` for `cargo bench`, and not for `cargo test --all-targets`: then it is enough that
    // everything works.
    let plan = if given("--bench") { Plan::measure() } else { Plan::try_out() };
    let mut out = format!(
        "{}, {} cores, shared by server and client\n\n",
        build(),
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let mut missed = throughput(&plan, &mut out);
    missed.extend(endpoints(&plan, &mut out));
    missed.extend(templates(&plan, &mut out));
    other_kinds(&plan, &mut out);
    missed.extend(process(&plan, &mut out));
    if !given("--bench") || given("--no-goals") {
        missed.clear();
    }
    for goal in &missed {
        let _ = writeln!(out, "MISSED: {goal}");
    }
    let _ = io::stdout().write_all(out.as_bytes());
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug build" } else { "optimised build" }
}

/// How long everything takes.
struct Plan {
    rounds: usize,
    round: Duration,
    warm_up: Duration,
    starts: usize,
    load: Duration,
}

impl Plan {
    fn measure() -> Self {
        Self {
            rounds: 5,
            round: Duration::from_millis(800),
            warm_up: Duration::from_millis(150),
            starts: 20,
            load: Duration::from_secs(3),
        }
    }

    fn try_out() -> Self {
        let short = Duration::from_millis(50);
        Self { rounds: 1, round: short, warm_up: Duration::ZERO, starts: 1, load: short }
    }
}

// ----------------------------------------------------------------------------------------------------------------------------------
// what is sent

/// One request and the answer that must come.
struct Exchange {
    /// Head and body.
    request: Vec<u8>,
    /// Body of the answer.
    answer: Vec<u8>,
}

/// What the webhook is to do with a Job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Everything is written by the author.
    Complete,
    /// As people write them: a deadline, and the rest is filled in.
    Filled,
    /// No deadline.
    Denied,
}

/// The eight Jobs that go round: as in a cluster, most are filled and few are denied.
const MANNERS: [Manner; 8] = {
    use Manner::{Complete, Denied, Filled};
    [Filled, Complete, Filled, Denied, Filled, Complete, Filled, Complete]
};

/// Returns a Job of 8 KiB, give or take one variable of its environment.
fn job(number: usize, manner: Manner) -> Value {
    (8..)
        .map(|variables| job_with(number, manner, variables))
        .find(|job| job.to_string().len() >= 8 << 10)
        .expect("it grows")
}

/// Returns a Job as an API server sends it: with its defaults, the manifest it was applied from where there
/// is one, and managed fields.
fn job_with(number: usize, manner: Manner, size: usize) -> Value {
    let workers = 2 + number % 6;
    let variables = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|at| match at % 5 {
                0 => json!({"name": format!("SECRET_{at}"), "valueFrom": {"secretKeyRef": {"name": format!("team-{number}"), "key": format!("k{at}")}}}),
                1 => json!({"name": format!("POD_{at}"), "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
                _ => json!({"name": format!("TRAINER_OPTION_{at}"), "value": format!("--shard={number} --step={}", at * 1009)}),
            })
            .collect()
    };
    let container = |name: &str, count: usize, gpus: usize| {
        let mut limits = json!({"cpu": "8", "memory": "64Gi"});
        if gpus > 0 {
            limits["nvidia.com/gpu"] = gpus.to_string().into();
        }
        json!({
            "name": name, "image": format!("registry.example.com/team-{number}/{name}:2.{number}.0"), "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-m", "trainer.main"], "args": ["--epochs", "90", "--out", "/ckpt/run", "--data", "/data/imagenet"],
            "env": variables(count), "resources": {"limits": limits.clone(), "requests": limits},
            "volumeMounts": [{"name": "ckpt", "mountPath": "/ckpt"}, {"name": "data", "mountPath": "/data", "readOnly": true}, {"name": "shm", "mountPath": "/dev/shm"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let gpus = 1 + number % 8;
    let mut spec = json!({
        "backoffLimit": 3, "completionMode": "Indexed", "completions": workers, "parallelism": workers, "suspend": false, "manualSelector": false,
        "activeDeadlineSeconds": 86400, "podReplacementPolicy": "TerminatingOrFailed",
        "template": {
            "metadata": {"labels": {"app": "train", "run": number.to_string(), "batch.kubernetes.io/job-name": format!("train-{number}")}},
            "spec": {
                "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {"fsGroup": 1000},
                "terminationGracePeriodSeconds": 120, "nodeSelector": {"pool": "gpu"},
                "initContainers": [container("fetch", 4, 0)],
                "containers": [container("trainer", size, gpus), container("metrics", 8, 0)],
                "volumes": [
                    {"name": "ckpt", "persistentVolumeClaim": {"claimName": format!("ckpt-{number}")}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet", "readOnly": true}},
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
                ],
            },
        },
    });
    match manner {
        Manner::Complete => {
            spec["podReplacementPolicy"] = "Failed".into();
            spec["ttlSecondsAfterFinished"] = 3600.into();
            spec["template"]["spec"]["tolerations"] =
                json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]);
        }
        Manner::Denied => _ = spec.as_object_mut().unwrap().remove("activeDeadlineSeconds"),
        Manner::Filled => {}
    }
    let mut annotations = json!({"example.com/owner": format!("team-{number}@example.com")});
    if number % 4 < 2 {
        // Applied with kubectl: the manifest comes a second time, without what the API server has put in.
        let manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("train-{number}")}, "spec": {
            "completions": workers, "parallelism": workers, "activeDeadlineSeconds": 86400, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "trainer", "image": "registry.example.com/trainer", "env": variables(6)}]}}}});
        annotations["kubectl.kubernetes.io/last-applied-configuration"] = manifest.to_string().into();
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("train-{number}"), "namespace": format!("team-{number}"), "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "creationTimestamp": "2030-01-01T00:00:00Z", "generation": 1, "annotations": annotations,
            "labels": {"app.kubernetes.io/name": "train", "kueue.x-k8s.io/queue-name": "gpu"},
            "managedFields": [{"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "batch/v1", "time": "2030-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:example.com/owner": {}}},
                    "f:spec": {"f:activeDeadlineSeconds": {}, "f:backoffLimit": {}, "f:completions": {}, "f:parallelism": {}, "f:template": {"f:spec": {
                        "f:containers": {"k:{\"name\":\"trainer\"}": {".": {}, "f:env": {".": {}}, "f:image": {}, "f:name": {}, "f:resources": {}}},
                        "f:restartPolicy": {}, "f:volumes": {".": {}, "k:{\"name\":\"ckpt\"}": {".": {}, "f:name": {}}}}}}}}],
        },
        "spec": spec, "status": {},
    })
}

/// The kinds of which one object each is reviewed.
const KINDS: [&str; 5] = ["Job", "PyTorchJob", "MPIJob", "JobSet", "RayJob"];

/// Returns an object of a kind with the pod template of a Job, to be filled in.
fn of_kind(name: &str) -> (Kind, Value) {
    let Value::Object(mut job) = job(2, Manner::Filled) else { unreachable!("a Job is a mapping") };
    let (mut metadata, job) = (job["metadata"].take(), job["spec"].take());
    metadata.as_object_mut().unwrap().remove("managedFields");
    let template = job["template"].clone();
    let small =
        json!({"spec": {"containers": [{"name": "launcher", "image": "registry.example.com/launcher:1"}]}});
    let limits = json!({"activeDeadlineSeconds": 86400});
    let (group, spec) = match name {
        "Job" => ("batch", job),
        "PyTorchJob" => (
            "kubeflow.org",
            json!({"runPolicy": limits, "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": small}, "Worker": {"replicas": 4, "template": template}}}),
        ),
        "MPIJob" => (
            "kubeflow.org",
            json!({"runPolicy": limits, "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": small}, "Worker": {"replicas": 4, "template": template}}}),
        ),
        "JobSet" => (
            "jobset.x-k8s.io",
            json!({"replicatedJobs": [{"name": "worker", "replicas": 2, "template": {"spec": job}}]}),
        ),
        _ => (
            "ray.io",
            json!({"entrypoint": "python train.py", "activeDeadlineSeconds": 86400, "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": small},
                "workerGroupSpecs": [{"groupName": "gpu", "replicas": 4, "rayStartParams": {}, "template": template}]}}),
        ),
    };
    let kind = Kind::named(group, name).expect("a kind that is judged");
    (kind, json!({"apiVersion": kind.api_version(), "kind": name, "metadata": metadata, "spec": spec}))
}

/// Returns the request of a review, its head and its body.
fn request(number: usize, endpoint: Endpoint, manner: Manner) -> Vec<u8> {
    review(number, endpoint, Kind::JOB, &job(number, manner))
}

fn review(number: usize, endpoint: Endpoint, of: Kind, object: &Value) -> Vec<u8> {
    // In the order in which the API server writes it: the uid first.
    let (group, version) = (of.group, of.version);
    let kind = format!(r#"{{"group":"{group}","version":"{version}","kind":"{}"}}"#, of.name);
    let resource = format!(r#"{{"group":"{group}","version":"{version}","resource":"{}"}}"#, of.resource);
    let body = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{}","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"train-{number}","namespace":"team-{number}","operation":"CREATE","userInfo":{{"username":"user-{number}@example.com","groups":["researchers","system:authenticated"]}},"object":{},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#,
        uid(number),
        object
    );
    let path = endpoint.path();
    let head = format!(
        "POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\nContent-Type: application/json\r\n\
         Accept: application/json, */*\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

fn uid(number: usize) -> String {
    format!("{number:08x}-1111-4222-8333-444455556666")
}

/// What an application makes of the reviews.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// All that Jobgate does.
    Jobgate,
    /// A TTL for those that have none.
    Typed,
    /// Nothing.
    None,
}

/// Tells whether an answer to a review is what it must be. Only this looks into an answer; later ones are
/// compared with it.
fn is_right(answer: &[u8], number: usize, endpoint: Endpoint, manner: Manner, judgement: Judgement) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let response = &answer["response"];
    // `kube` writes the bytes as a list of numbers, which Go reads as well.
    let patch = match &response["patch"] {
        Value::Array(_) => serde_json::from_value(response["patch"].clone()).ok(),
        patch => patch.as_str().and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok()),
    };
    let ops: Vec<Value> = patch
        .map(|patch: Vec<u8>| serde_json::from_slice(&patch).expect("a patch is JSON"))
        .unwrap_or_default();
    let (denied, filled) = match (judgement, endpoint, manner) {
        (Judgement::None, ..) | (_, _, Manner::Complete) => (false, 0),
        (Judgement::Jobgate, Endpoint::Validate, _) => (manner == Manner::Denied, 0),
        // podReplacementPolicy, the TTL and a toleration.
        (Judgement::Jobgate, Endpoint::Mutate, _) => (false, 3),
        (Judgement::Typed, Endpoint::Validate, _) => (false, 0),
        (Judgement::Typed, Endpoint::Mutate, _) => (false, 1),
    };
    let warnings = response["warnings"].as_array().map_or(0, Vec::len);
    // One line says what was filled in.
    let told = usize::from(judgement == Judgement::Jobgate && filled > 0);
    response["uid"] == uid(number).as_str()
        && response["allowed"] == !denied
        && ops.len() == filled
        && warnings == told
}

// -------------------------------------------------------------------------------------------------------------------------------
// what is compared

/// Allows, after a look for the uid: what no webhook can do without.
struct BodyOnly;

impl Application for BodyOnly {
    async fn review(&self, call: Call) -> Answer {
        let text = std::str::from_utf8(&call.body).unwrap_or_default();
        let uid = text
            .split_once(r#""uid":""#)
            .and_then(|(_, rest)| rest.split_once('"'))
            .map_or("", |(uid, _)| uid);
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
        );
        allowed(uid.to_owned(), body.into_bytes())
    }
}

fn allowed(uid: String, body: Vec<u8>) -> Answer {
    Answer { status: 200, body, meta: Meta { uid, kind: Some(Kind::JOB), ..Meta::default() } }
}

/// The handler that a user would write, by the documentation of `kube`: the review and its Job as types, and
/// a patch that gives a TTL to a Job without one. It judges nothing else, looks nothing up, and does not
/// check its patch.
struct Typed;

impl Application for Typed {
    async fn review(&self, call: Call) -> Answer {
        let review: AdmissionReview<Job> = serde_json::from_slice(&call.body).expect("a review of a Job");
        let request: AdmissionRequest<Job> = review.try_into().expect("a request");
        let has_ttl = request
            .object
            .as_ref()
            .and_then(|job| job.spec.as_ref())
            .is_none_or(|spec| spec.ttl_seconds_after_finished.is_some());
        let mut response = AdmissionResponse::from(&request);
        if call.endpoint == Endpoint::Mutate && !has_ttl {
            response = response.with_patch(ttl_patch()).expect("a patch is JSON");
        }
        let body = serde_json::to_vec(&response.into_review()).expect("an answer is JSON");
        allowed(request.uid, body)
    }
}

fn ttl_patch() -> Patch {
    let path = PointerBuf::from_tokens(["spec", "ttlSecondsAfterFinished"]);
    Patch(vec![PatchOperation::Add(AddOperation { path, value: 86_400.into() })])
}

/// As [`Typed`], with types of its own for the review: those of `kube` flatten their fields, for which serde
/// reads the whole review twice. As fast as a handler can be that decodes what it judges; no goal stands on
/// it.
struct Lean;

/// An AdmissionReview as it comes in.
#[derive(Deserialize)]
struct Review {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    request: ReviewRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a handler decodes what it may want to look at")]
struct ReviewRequest {
    uid: String,
    kind: Resource,
    resource: Resource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    request_kind: Option<Resource>,
    #[serde(default)]
    request_resource: Option<Resource>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    operation: String,
    user_info: UserInfo,
    object: Option<Job>,
    old_object: Option<Job>,
    #[serde(default)]
    dry_run: bool,
    options: Option<Value>,
}

/// A GroupVersionKind or GroupVersionResource.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a handler decodes what it may want to look at")]
struct Resource {
    group: String,
    version: String,
    #[serde(alias = "resource")]
    kind: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reviewed {
    api_version: String,
    kind: String,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
}

impl Application for Lean {
    async fn review(&self, call: Call) -> Answer {
        let Review { api_version, kind, request } =
            serde_json::from_slice(&call.body).expect("a review of a Job");
        let has_ttl = request
            .object
            .and_then(|job| job.spec)
            .is_none_or(|spec| spec.ttl_seconds_after_finished.is_some());
        let patch = (call.endpoint == Endpoint::Mutate && !has_ttl).then(|| {
            base64::engine::general_purpose::STANDARD
                .encode(serde_json::to_vec(&ttl_patch()).expect("a patch is JSON"))
        });
        let patch_type = patch.is_some().then_some("JSONPatch");
        let response = Response { uid: request.uid.clone(), allowed: true, status: None, patch, patch_type };
        let body = serde_json::to_vec(&Reviewed { api_version, kind, response }).expect("an answer is JSON");
        allowed(request.uid, body)
    }
}

/// A server in this process; it ends with its runtime.
fn start<A: Application>(
    runtime: &Runtime,
    made: &Development,
    application: impl FnOnce(Metrics) -> A,
) -> (SocketAddr, watch::Sender<Stop>) {
    let metrics = Metrics::new();
    let identity = Arc::new(Identity::empty(&metrics));
    identity.replace(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let readiness = Readiness::default();
    let limits = Limits::default();
    let config = Config {
        address: any,
        probe_address: any,
        identity,
        clients: None,
        tokens: None,
        http2: false,
        readiness,
        limits,
    };
    let server = runtime.block_on(Server::bind(config, metrics.clone())).expect("bind to loopback");
    let address = server.address;
    let (stop, told) = watch::channel(Stop::No);
    runtime.spawn(server.run(application(metrics), told));
    (address, stop)
}

// ------------------------------------------------------------------------------------------------------------------------------------
// the client

/// A connection that is kept.
struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr, tls: &TlsConnector) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = tls.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and returns the body of its answer. As little as will do: what the client computes is
    /// taken from the server.
    async fn call(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let end = loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = std::str::from_utf8(&self.buffer[..end]).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next())
            .expect("a length");
        let length: usize = length.parse().unwrap();
        while self.buffer.len() < end + length {
            self.more().await?;
        }
        Ok(&self.buffer[end..])
    }

    async fn more(&mut self) -> io::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn tls(ca: &str) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let builder =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn requests() -> impl Iterator<Item = (usize, Endpoint, Manner)> {
    MANNERS.into_iter().enumerate().flat_map(|(number, manner)| {
        [(number, Endpoint::Mutate, manner), (number, Endpoint::Validate, manner)]
    })
}

/// Learns the answers of a server, and makes sure of each that it is right.
async fn learn(address: SocketAddr, tls: &TlsConnector, judgement: Judgement) -> Vec<Exchange> {
    let mut client = Client::connect(address, tls).await.unwrap();
    let mut exchanges = Vec::new();
    for (number, endpoint, manner) in requests() {
        let request = request(number, endpoint, manner);
        let answer = client.call(&request).await.unwrap().to_vec();
        assert!(
            is_right(&answer, number, endpoint, manner, judgement),
            "review {number}: {}",
            String::from_utf8_lossy(&answer)
        );
        exchanges.push(Exchange { request, answer });
    }
    exchanges
}

/// What came of calling a server for a while.
#[derive(Default)]
struct Load {
    /// Reviews per second.
    rate: f64,
    /// How long each review took, in the order in which they were counted.
    took: Vec<Duration>,
    /// What threads named [`SERVER_THREAD`] computed for one review.
    cpu: Duration,
}

/// Calls a server over so many connections, each of which has one review on its way at a time.
async fn load(
    address: SocketAddr,
    tls: &TlsConnector,
    connections: usize,
    exchanges: &Arc<Vec<Exchange>>,
    warm_up: Duration,
    time: Duration,
) -> Load {
    let ready = Arc::new(Barrier::new(connections + 1));
    let mut clients = tokio::task::JoinSet::new();
    for first in 0..connections {
        let (tls, exchanges, ready) = (tls.clone(), exchanges.clone(), ready.clone());
        clients.spawn(async move {
            let mut client = Client::connect(address, &tls).await.unwrap();
            let mut took = Vec::with_capacity(1 << 14);
            ready.wait().await;
            let begin = Instant::now() + warm_up;
            let end = begin + time;
            for exchange in exchanges.iter().cycle().skip(first * 5 % exchanges.len()) {
                let sent = Instant::now();
                if sent >= end {
                    break;
                }
                let answer = client.call(&exchange.request).await.unwrap();
                assert!(
                    answer == exchange.answer,
                    "another answer than before: {}",
                    String::from_utf8_lossy(answer)
                );
                if sent >= begin {
                    took.push(sent.elapsed());
                }
            }
            took
        });
    }
    ready.wait().await;
    tokio::time::sleep(warm_up).await;
    let before = server_cpu();
    tokio::time::sleep(time).await;
    let cpu = server_cpu() - before;
    let took = clients.join_all().await.concat();
    let reviews = u32::try_from(took.len()).unwrap().max(1);
    Load { rate: f64::from(reviews) / time.as_secs_f64(), cpu: cpu / reviews, took }
}

/// Returns what the servers' threads have computed so far; nothing where the system does not say.
fn server_cpu() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let served = tasks.filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == SERVER_THREAD)
    });
    let spent = served.filter_map(|task| {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}

// ------------------------------------------------------------------------------------------------------------------------------------
// throughput

fn throughput(plan: &Plan, out: &mut String) -> Vec<String> {
    let Ground { server, client, made, tls } = Ground::new();
    let policy = jobgate::policies::builtin("default").expect("the default policy is built in");
    let (jobgate, _running) =
        start(&server, &made, |metrics| Webhook::new(policy, Claims::off(), metrics, today));
    let (seven_rules, _running) =
        start(&server, &made, |metrics| Webhook::new(only(&FIRST), Claims::off(), metrics, today));
    let (typed, _running) = start(&server, &made, |_| Typed);
    let (lean, _running) = start(&server, &made, |_| Lean);
    let (body_only, _running) = start(&server, &made, |_| BodyOnly);
    let targets = [
        ("jobgate", jobgate, Judgement::Jobgate),
        ("typed", typed, Judgement::Typed),
        ("seven-rules", seven_rules, Judgement::Jobgate),
        ("lean", lean, Judgement::Typed),
        ("body-only", body_only, Judgement::None),
    ];
    let targets = targets.map(|(name, address, judgement)| {
        (name, address, Arc::new(client.block_on(learn(address, &tls, judgement))))
    });

    let sizes = MANNERS.iter().enumerate().map(|(number, manner)| job(number, *manner).to_string().len());
    let (least, most) = (sizes.clone().min().unwrap_or_default(), sizes.max().unwrap_or_default());
    let _ = writeln!(
        out,
        "{} reviews, Jobs of {least} to {most} bytes, half to /mutate and half to /validate",
        targets[0].2.len()
    );
    let _ = writeln!(out, "`jobgate ×`: reviews per second of jobgate, against those of the row");
    let _ = writeln!(
        out,
        "conns  application   reviews/s  jobgate ×  p50 µs   p90 µs   p99 µs  p99.9 µs   server CPU µs"
    );
    let mut missed = Vec::new();
    for connections in CONNECTIONS {
        let mut rounds: [Vec<Load>; 5] = Default::default();
        for round in 0..plan.rounds {
            // None has the first word in every round.
            for which in (0..targets.len()).map(|turn| (round + turn) % targets.len()) {
                let (_, address, exchanges) = &targets[which];
                rounds[which].push(client.block_on(load(
                    *address,
                    &tls,
                    connections,
                    exchanges,
                    plan.warm_up,
                    plan.round,
                )));
            }
        }
        let ratio = |loads: &[Load]| {
            median(rounds[0].iter().zip(loads).map(|(jobgate, one)| jobgate.rate / one.rate).collect())
        };
        for ((name, ..), loads) in targets.iter().zip(&rounds) {
            let rate = median(loads.iter().map(|load| load.rate).collect());
            let cpu = median(loads.iter().map(|load| load.cpu.as_secs_f64() * 1e6).collect());
            let mut took: Vec<Duration> = loads.iter().flat_map(|load| load.took.iter().copied()).collect();
            took.sort_unstable();
            let at = |share: f64| percentile(&took, share).as_micros();
            let _ = writeln!(
                out,
                "{connections:>5}  {name:<12} {rate:>10.0}  {:>9.2}  {:>6} {:>8} {:>8} {:>9}  {cpu:>14.1}",
                ratio(loads),
                at(0.5),
                at(0.9),
                at(0.99),
                at(0.999)
            );
        }
        for (loads, than, goal) in [
            (&rounds[1], "the typed handler's throughput", GOAL_RATIO),
            (&rounds[2], "the throughput with seven rules", GOAL_RULES),
        ] {
            let ratio = ratio(loads);
            if ratio < goal {
                missed.push(format!("{ratio:.2} times {than} at {connections} connections, goal {goal}"));
            }
        }
    }
    missed
}

/// The rules that were there first.
const FIRST: [&str; 7] = [
    "checkpoint-volume-access",
    "deadline",
    "gpu-toleration",
    "pod-replacement-policy",
    "resources-released",
    "restart-policy",
    "ttl-after-finished",
];
/// The rules that Jobgate is for: three that deny, and three that fill in.
const MISSION: [&str; 6] = [
    "checkpoint-volume-access",
    "deadline",
    "gpu-toleration",
    "pod-replacement-policy",
    "restart-policy",
    "ttl-after-finished",
];

/// Returns the default policy with some rules only.
fn only(rules: &[&str]) -> Policy {
    let all = Policy::default();
    let others = all.rules().iter().map(|rule| &*rule.id).filter(|id| !rules.contains(id));
    let rules: String = others.map(|id| format!("    {id}: {{action: ignore}}\n")).collect();
    let text = format!(
        "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: some}}\nspec:\n  rules:\n{rules}"
    );
    Policy::parse(&text, "some.yaml").expect("a policy")
}

/// Returns a training Job of 8 KiB that runs `torchrun` with 70 variables and 8 GPUs, to be filled in.
fn training() -> Value {
    let mut job = job(2, Manner::Filled);
    let spec = &mut job["spec"]["template"]["spec"];
    let trainer = &mut spec["containers"][0];
    trainer["command"] = json!([
        "torchrun",
        "--nnodes=4",
        "--nproc-per-node=8",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=train-2-0.train-2:29500",
        "train.py",
        "--checkpoint-dir=/ckpt/run",
        "--data=/data/imagenet"
    ]);
    trainer["args"] = json!(["--epochs=90", "--batch-size=256"]);
    for resources in ["limits", "requests"] {
        trainer["resources"][resources]["nvidia.com/gpu"] = "8".into();
    }
    let variables =
        (0..70).map(|at| json!({"name": format!("OPTION_{at}"), "value": format!("--step={}", at * 1009)}));
    trainer["env"] = Value::Array(variables.collect());
    job["spec"]["completions"] = 4.into();
    job["spec"]["parallelism"] = 4.into();
    // To 8 KiB with what nobody reads.
    let missing = (8_usize << 10).saturating_sub(job.to_string().len());
    job["metadata"]["annotations"]["example.com/notes"] = "x".repeat(missing).into();
    job
}

/// What servers and clients run on, and their certificates.
struct Ground {
    server: Runtime,
    client: Runtime,
    made: Development,
    tls: TlsConnector,
}

impl Ground {
    fn new() -> Self {
        let threads = |name| Builder::new_multi_thread().thread_name(name).enable_all().build().unwrap();
        let made = Development::generate().unwrap();
        let tls = tls(&made.ca);
        Self { server: threads(SERVER_THREAD), client: threads("client"), made, tls }
    }
}

/// Starts Jobgate with a policy.
fn start_webhook(server: &Runtime, made: &Development, policy: Policy) -> (SocketAddr, watch::Sender<Stop>) {
    start(server, made, |metrics| Webhook::new(policy, Claims::off(), metrics, today))
}

/// A server, and what it answers to one request.
type Learned = (SocketAddr, Arc<Vec<Exchange>>);

/// Asks a server once, which must allow the request.
fn ask_once(client: &Runtime, tls: &TlsConnector, address: SocketAddr, request: &[u8]) -> Learned {
    let answer = client.block_on(async {
        Client::connect(address, tls).await.unwrap().call(request).await.unwrap().to_vec()
    });
    let said: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert!(said["response"]["allowed"] == true, "{said}");
    (address, Arc::new(vec![Exchange { request: request.to_vec(), answer }]))
}

/// Loads servers in turns, so that what changes on the machine meanwhile is the same for all.
fn in_turns<const N: usize>(
    plan: &Plan,
    client: &Runtime,
    tls: &TlsConnector,
    connections: usize,
    servers: &[Learned; N],
) -> [Vec<Load>; N] {
    let mut rounds: [Vec<Load>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..plan.rounds {
        for which in (0..N).map(|turn| (round + turn) % N) {
            let (address, exchanges) = &servers[which];
            let one = load(*address, tls, connections, exchanges, plan.warm_up, plan.round);
            rounds[which].push(client.block_on(one));
        }
    }
    rounds
}

/// The most that `pod-template-valid` may add to the processor time of a review on `/validate`, and on `/mutate`, where it does not
/// run.
const TEMPLATES: [(Endpoint, f64); 2] = [(Endpoint::Mutate, 1.03), (Endpoint::Validate, 1.1)];

/// Reviews a PyTorchJob with the pods of the training Job, with all rules and without the one that validates its templates.
fn templates(plan: &Plan, out: &mut String) -> Vec<String> {
    let Ground { server, client, made, tls } = Ground::new();
    let webhook = |policy| start_webhook(&server, &made, policy);
    let all = Policy::default();
    let others: Vec<&str> =
        all.rules().iter().map(|rule| &*rule.id).filter(|id| *id != "pod-template-valid").collect();
    let (without, _running) = webhook(only(&others));
    let (all, _running) = webhook(all.clone());
    let mut job = training();
    let mut template = job["spec"]["template"].take();
    template["spec"]["containers"][0]["name"] = "pytorch".into();
    let kind = Kind::named("kubeflow.org", "PyTorchJob").expect("a kind that is judged");
    let object = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": job["metadata"].take(),
        "spec": {
            "runPolicy": {"activeDeadlineSeconds": 86400, "cleanPodPolicy": "Running"},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "restartPolicy": "OnFailure", "template": template}},
        },
    });
    let _ = writeln!(
        out,
        "\none PyTorchJob of {} bytes, against a policy without pod-template-valid",
        object.to_string().len()
    );
    let _ = writeln!(out, "endpoint   conns  CPU µs, all rules  against without");
    let mut missed = Vec::new();
    for (endpoint, most) in TEMPLATES {
        let request = review(2, endpoint, kind, &object);
        let servers = [all, without].map(|address| ask_once(&client, &tls, address, &request));
        let rounds = in_turns(plan, &client, &tls, 8, &servers);
        let cpu = |load: &Load| load.cpu.as_secs_f64() * 1e6;
        let ratio = median(rounds[0].iter().zip(&rounds[1]).map(|(all, one)| cpu(all) / cpu(one)).collect());
        let each = median(rounds[0].iter().map(cpu).collect());
        let _ = writeln!(out, "{:<9} {:>6} {each:>18.1} {ratio:>16.2}", endpoint.path(), 8);
        if ratio > most {
            missed.push(format!(
                "{ratio:.2} times the processor time without pod-template-valid, {}, goal {most}",
                endpoint.path()
            ));
        }
    }
    missed
}

/// Reviews one training Job at each endpoint: with all rules, with those of the mission, and by the handler that a
/// user would write.
fn endpoints(plan: &Plan, out: &mut String) -> Vec<String> {
    let Ground { server, client, made, tls } = Ground::new();
    let webhook = |policy| start_webhook(&server, &made, policy);
    let (all, _running) = webhook(jobgate::policies::builtin("default").expect("a policy"));
    let (mission, _running) = webhook(only(&MISSION));
    let (typed, _running) = start(&server, &made, |_| Typed);
    let job = training();
    let _ = writeln!(
        out,
        "\none training Job of {} bytes: torchrun, 70 variables, 8 GPUs",
        job.to_string().len()
    );
    let _ = writeln!(out, "endpoint   conns  CPU µs, all rules  against six rules  reviews/s against typed");
    let mut missed = Vec::new();
    for (endpoint, most, least) in [(Endpoint::Mutate, 1.15, 1.3), (Endpoint::Validate, 1.7, 1.0)] {
        let request = review(2, endpoint, Kind::JOB, &job);
        let servers = [all, mission, typed].map(|address| ask_once(&client, &tls, address, &request));
        for connections in [8, 64] {
            let rounds = in_turns(plan, &client, &tls, connections, &servers);
            let pairs = |other: usize, of: fn(&Load) -> f64| {
                median(rounds[0].iter().zip(&rounds[other]).map(|(all, one)| of(all) / of(one)).collect())
            };
            let cpu = median(rounds[0].iter().map(|one| one.cpu.as_secs_f64() * 1e6).collect());
            let (rules, rate) = (pairs(1, |one| one.cpu.as_secs_f64()), pairs(2, |one| one.rate));
            let _ = writeln!(
                out,
                "{:<9} {connections:>6} {cpu:>18.1} {rules:>18.2} {rate:>24.2}",
                endpoint.path()
            );
            let at = format!("{} at {connections} connections", endpoint.path());
            if rules > most {
                missed.push(format!("{rules:.2} times the processor time of six rules, {at}, goal {most}"));
            }
            if rate < least {
                missed.push(format!("{rate:.2} times the typed handler's throughput, {at}, goal {least}"));
            }
        }
    }
    missed
}

/// Reviews one object of each kind over and over.
fn other_kinds(plan: &Plan, out: &mut String) {
    let Ground { server, client, made, tls } = Ground::new();
    let policy = jobgate::policies::builtin("default").expect("the default policy is built in");
    let (address, _running) =
        start(&server, &made, |metrics| Webhook::new(policy, Claims::off(), metrics, today));
    let connections = CONNECTIONS[0];
    let _ = writeln!(out, "\none object of each kind, {connections} connections, jobgate alone");
    let _ = writeln!(out, "kind          bytes   reviews/s  p50 µs   p99 µs   server CPU µs");
    for name in KINDS {
        let (kind, object) = of_kind(name);
        let mut exchanges = Vec::new();
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            let request = review(2, endpoint, kind, &object);
            let answer = client.block_on(async {
                Client::connect(address, &tls).await.unwrap().call(&request).await.unwrap().to_vec()
            });
            let said: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
            let is_filled = said["response"]["patch"].is_string();
            assert!(
                said["response"]["uid"] == uid(2).as_str()
                    && said["response"]["allowed"] == true
                    && is_filled == (endpoint == Endpoint::Mutate),
                "{name}: {said}"
            );
            exchanges.push(Exchange { request, answer });
        }
        let exchanges = Arc::new(exchanges);
        let one = client.block_on(load(address, &tls, connections, &exchanges, plan.warm_up, plan.round));
        let mut took = one.took;
        took.sort_unstable();
        let at = |share: f64| percentile(&took, share).as_micros();
        let _ = writeln!(
            out,
            "{name:<12} {:>6}  {:>10.0}  {:>6}  {:>7}  {:>14.1}",
            object.to_string().len(),
            one.rate,
            at(0.5),
            at(0.99),
            one.cpu.as_secs_f64() * 1e6
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the value below which the given share of sorted values lies.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index of a sample"
)]
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

// -----------------------------------------------------------------------------------------------------------------------------------
// the process

/// A `jobgate serve` of its own.
struct Serving {
    process: Child,
    address: SocketAddr,
    /// From before the start of the process to the first `/readyz` of 200.
    ready: Duration,
}

impl Serving {
    /// Starts it on ports that the system chooses, and reads from its log which.
    fn start(certificate: &Path, key: &Path) -> Self {
        let began = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_jobgate"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--metrics-listen",
                "127.0.0.1:0",
                "--claims",
                "off",
                "--tls-cert",
            ])
            .arg(certificate)
            .arg("--tls-key")
            .arg(key)
            .env_remove("JOBGATE_LOG")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start jobgate serve");
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let line =
            log.by_ref().map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let serving = line
            .into_iter()
            .find(|line| line["message"] == "serving" && line["probe_address"].is_string())
            .expect("a line that says where");
        let address = |key: &str| -> SocketAddr {
            serving[key].as_str().and_then(|text| text.parse().ok()).expect("an address")
        };
        let (probe, address) = (address("probe_address"), address("address"));
        // Nobody reads it, but a pipe that is full would make it drop lines.
        std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
        while !is_ready(probe) {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not become ready");
            std::thread::sleep(Duration::from_micros(200));
        }
        Self { process, address, ready: began.elapsed() }
    }

    /// Returns a size of the process, in KiB, by its name in `/proc/PID/status`.
    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let size = status.lines().find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse::<u64>().ok()
        });
        size.unwrap_or_default()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_ready(probe: SocketAddr) -> bool {
    let ask = || -> io::Result<String> {
        let mut stream = std::net::TcpStream::connect(probe)?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    ask().is_ok_and(|reply| reply.starts_with("HTTP/1.1 200 "))
}

fn process(plan: &Plan, out: &mut String) -> Vec<String> {
    let made = Development::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    fs::write(&certificate, &made.certificate).unwrap();
    fs::write(&key, &made.key).unwrap();
    let tls = tls(&made.ca);
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();

    let (mut ready, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..plan.starts {
        let began = Instant::now();
        let serving = Serving::start(&certificate, &key);
        ready.push(serving.ready);
        let (number, endpoint, manner) = requests().next().unwrap();
        let right = runtime.block_on(async {
            let mut client = Client::connect(serving.address, &tls).await.unwrap();
            let request = request(number, endpoint, manner);
            is_right(client.call(&request).await.unwrap(), number, endpoint, manner, Judgement::Jobgate)
        });
        answered.push(began.elapsed());
        assert!(right, "the first answer is wrong");
    }
    ready.sort_unstable();
    answered.sort_unstable();

    let serving = Serving::start(&certificate, &key);
    std::thread::sleep(Duration::from_secs(1));
    let idle = serving.memory("VmRSS");
    let exchanges = Arc::new(runtime.block_on(learn(serving.address, &tls, Judgement::Jobgate)));
    let connections = CONNECTIONS[CONNECTIONS.len() - 1];
    let load =
        runtime.block_on(load(serving.address, &tls, connections, &exchanges, Duration::ZERO, plan.load));
    let (peak, after) = (serving.memory("VmHWM"), serving.memory("VmRSS"));

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mib = |kib: u64| kib / 1024;
    let (median_ready, median_answer) = (percentile(&ready, 0.5), percentile(&answered, 0.5));
    let _ = writeln!(out, "\njobgate serve, with a certificate from files and without claims");
    let _ = writeln!(
        out,
        "  /readyz says 200      median {:>5.1} ms, slowest {:>5.1} ms of {} starts",
        ms(median_ready),
        ms(percentile(&ready, 1.0)),
        plan.starts
    );
    let _ = writeln!(
        out,
        "  first right answer    median {:>5.1} ms, slowest {:>5.1} ms",
        ms(median_answer),
        ms(percentile(&answered, 1.0))
    );
    let _ = writeln!(out, "  memory idle           {:>5.1} MiB", kib(idle));
    let _ = writeln!(
        out,
        "  memory under load     {:>5.1} MiB at most, {:.1} MiB after it ({connections} connections, {:.0} reviews/s)",
        kib(peak),
        kib(after),
        load.rate
    );
    let goals = [
        (
            median_ready.max(median_answer) < GOAL_READY,
            format!("ready in {:.0} ms, goal {:.0}", ms(median_answer), ms(GOAL_READY)),
        ),
        (idle < GOAL_IDLE, format!("{} MiB idle, goal {}", mib(idle), mib(GOAL_IDLE))),
        (peak < GOAL_LOADED, format!("{} MiB under load, goal {}", mib(peak), mib(GOAL_LOADED))),
    ];
    goals.into_iter().filter(|(met, _)| !met).map(|(_, goal)| goal).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a size that is shown")]
fn kib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
