//! Reads the cluster: a few dozen requests with limits on time and size, none of which changes anything.
//!
//! ```text
//! names that are known ──> what they name ──> counters, canaries, counters
//!   configurations,          Secret, policy,     dry runs of two Jobs
//!   Deployment, pods, …      rights, TLS, …
//! ```

mod canary;
mod certificates;
mod forward;
mod handshake;
mod metrics;
mod operators;
mod rights;

use std::future::Future;
use std::path::Path;
use std::time::{Duration, SystemTime};

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

pub(super) use self::canary::MANAGER;
use self::rights::rights;
use super::observations::{
    Certificates, DEPLOYMENT, MountedSource, Observed, Place, PolicySource, Seen, Unread, container, mounted,
    serve_arguments,
};
use crate::certs::driver::time;
use crate::certs::publish::Kind;
use jobgate_cluster::fetch::{self, Failure};
use jobgate_cluster::{Connection, chain, is_own};
use jobgate_core::kinds::registration::is_ours;
use jobgate_core::text::value::Value;

/// Maximum size of an answer. All webhook configurations of a large cluster are some MiB.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Maximum number of pods that are queried individually; further replicas are alike.
const MAX_PODS: usize = 5;
/// The label of the pods in the manifests.
const LABEL: &str = "app.kubernetes.io/name=jobgate";

/// What to read, and how long to wait.
#[derive(Clone, Debug)]
pub struct Options {
    /// The names.
    pub place: Place,
    /// Whether the canaries are sent.
    pub canary: bool,
    /// How long each answer may take. A canary waits for all webhooks of the cluster, so this must not be
    /// short.
    pub timeout: Duration,
    /// Returns the source of a built-in policy of the server, by name.
    pub builtin: fn(&str) -> Option<&'static str>,
}

/// Reads the cluster.
pub async fn observe(connection: &Connection, options: &Options) -> Observed {
    let ask = Ask { client: &connection.client, inside: is_own(connection), options };
    let mut observed = ask.names(&options.place).await;
    ask.named(&mut observed).await;
    if options.canary {
        ask.canaries(&mut observed).await;
    }
    observed
}

/// Sends the requests.
struct Ask<'c> {
    client: &'c Client,
    /// Whether this process can reach the Services of the cluster.
    inside: bool,
    options: &'c Options,
}

/// An API: path, resource, and namespace if its objects have one.
#[derive(Clone, Copy)]
struct ApiCollection<'a>(&'static str, &'static str, &'a str);

impl ApiCollection<'_> {
    fn path(self) -> String {
        let Self(base, resource, namespace) = self;
        if namespace.is_empty() {
            format!("{base}/{resource}")
        } else {
            format!("{base}/namespaces/{namespace}/{resource}")
        }
    }

    fn needs(self, verb: &str, name: &str) -> String {
        let Self(_, resource, namespace) = self;
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        let place =
            if namespace.is_empty() { String::new() } else { format!(" in the namespace {namespace}") };
        format!("{verb} {resource}{name}{place}")
    }
}

const CORE: &str = "/api/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns the configuration that calls a Service in the namespace of the installation, whatever its name.
fn nearest<'a>(all: &'a [Value], namespace: &str) -> Option<&'a Value> {
    let leads = |configuration: &&Value| {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        webhooks.into_iter().any(|webhook| {
            webhook.pointer("/clientConfig/service/namespace").is_some_and(|name| name == namespace)
        })
    };
    all.iter().filter(|configuration| is_ours(configuration)).find(leads)
}

/// Converts an answer into one of the three states.
fn seen<T>(answer: Result<T, Failure>, needs: impl Fn() -> String) -> Seen<T> {
    match answer {
        Ok(value) => Seen::Known(value),
        // An API that is not served has no objects.
        Err(Failure::NotFound | Failure::Foreign) => Seen::Absent,
        Err(Failure::Forbidden) => Seen::Unread(Unread::Forbidden(needs())),
        Err(failure) => Seen::Unread(Unread::Failed(format!("could not {}: {}", needs(), chain(&failure)))),
    }
}

impl Ask<'_> {
    async fn within<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        timeout(self.options.timeout, work).await.unwrap_or(Err(Failure::Silence))
    }

    async fn get(&self, path: String) -> Result<Value, Failure> {
        fetch::value(self.client, path, MAX_ANSWER_BYTES, self.options.timeout).await
    }

    async fn object(&self, api: ApiCollection<'_>, name: &str) -> Seen<Value> {
        // Other names exist in no cluster, and must not become part of a path.
        if !fetch::is_name(name) {
            return Seen::Absent;
        }
        let answer = self.get(format!("{}/{name}", api.path())).await;
        // Other JSON would look like an object without any fields.
        let answer = answer.and_then(|value| {
            if value["metadata"].is_object() { Ok(value) } else { Err(Failure::TooLarge(0)) }
        });
        match answer {
            Err(Failure::TooLarge(0)) => Seen::Unread(Unread::Failed(format!(
                "could not {}: the answer is not an object",
                api.needs("get", name)
            ))),
            answer => seen(answer, || api.needs("get", name)),
        }
    }

    async fn list(&self, api: ApiCollection<'_>, selector: &str) -> Seen<Vec<Value>> {
        let selector = if selector.is_empty() {
            String::new()
        } else {
            format!("?labelSelector={}", fetch::escaped(selector))
        };
        let answer = self.get(format!("{}{selector}", api.path())).await;
        match answer {
            Ok(mut list) => match list.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => Seen::Known(items),
                // Go writes an empty list as null.
                Some(Value::Null) if list["metadata"].is_object() => Seen::Known(Vec::new()),
                _ => Seen::Unread(Unread::Failed(format!(
                    "could not {}: the answer is not a list",
                    api.needs("list", "")
                ))),
            },
            Err(failure) => seen(Err(failure), || api.needs("list", "")),
        }
    }

    /// Reads everything with a known name, at the same time.
    async fn names(&self, place: &Place) -> Observed {
        let ns = place.namespace.as_str();
        let configurations = |kind: Kind| {
            let resource = kind.path().rsplit('/').next().unwrap_or_default();
            ApiCollection(ADMISSION, resource, "")
        };
        let (mutating, validating) = (configurations(Kind::Mutating), configurations(Kind::Validating));
        let apps = ApiCollection("/apis/apps/v1", "deployments", ns);
        let (
            version,
            first,
            second,
            all_first,
            all_second,
            namespace,
            deployment,
            pods,
            budgets,
            network_policies,
            canary_namespace,
            namespaces,
        ) = tokio::join!(
            self.version(),
            self.object(mutating, &place.mutating),
            self.object(validating, &place.validating),
            self.list(mutating, ""),
            self.list(validating, ""),
            self.object(ApiCollection(CORE, "namespaces", ""), ns),
            self.object(apps, DEPLOYMENT),
            self.list(ApiCollection(CORE, "pods", ns), LABEL),
            self.list(ApiCollection("/apis/policy/v1", "poddisruptionbudgets", ns), ""),
            self.list(ApiCollection("/apis/networking.k8s.io/v1", "networkpolicies", ns), ""),
            self.object(ApiCollection(CORE, "namespaces", ""), &place.canary_namespace),
            self.list(ApiCollection(CORE, "namespaces", ""), ""),
        );
        let (mut first, mut second) = (first, second);
        let mut place = place.clone();
        let mut renamed = Vec::new();
        for (kind, seen, name, all) in [
            (Kind::Mutating, &mut first, &mut place.mutating, &all_first),
            (Kind::Validating, &mut second, &mut place.validating, &all_second),
        ] {
            if let (Seen::Absent, Some(found)) =
                (&*seen, all.known().and_then(|all| nearest(all, &place.namespace)))
            {
                let called =
                    found.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                renamed.push((kind, std::mem::replace(name, called)));
                *seen = Seen::Known(found.clone());
            }
        }
        let (version, now) = version;
        let now = now.unwrap_or_else(SystemTime::now);
        let zoned = jiff::Timestamp::try_from(now).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
        let later = || Seen::skipped("was not read");
        let off = "skipped: --no-canary";
        Observed {
            place,
            now,
            today: zoned.date(),
            version,
            mutating: first,
            validating: second,
            all: [all_first, all_second],
            namespace,
            service: later(),
            slices: Seen::skipped("was not read"),
            deployment,
            pods,
            budgets,
            network_policies,
            priority_class: Seen::Absent,
            secret: later(),
            policy: Seen::skipped("was not read"),
            rights: Vec::new(),
            operators: Seen::skipped("was not read"),
            served: Vec::new(),
            replicas: Vec::new(),
            fail_open: Seen::skipped("was not read"),
            canary_namespace,
            namespaces,
            renamed,
            judged: Seen::skipped(off),
            filled: Seen::skipped(off),
        }
    }

    /// Returns the answer of `/version`, and the time on that server.
    async fn version(&self) -> (Seen<Value>, Option<SystemTime>) {
        let mut date = None;
        let answer = self
            .within(async {
                let response = fetch::get(self.client, "/version".to_owned()).await?;
                date = response.headers().get(DATE).and_then(|value| value.to_str().ok()).and_then(time);
                Ok(serde_json::from_slice(&fetch::read(response, MAX_ANSWER_BYTES).await?)?)
            })
            .await;
        (seen(answer, || "get /version".to_owned()), date)
    }

    /// Reads the objects that are named in the first answers.
    async fn named(&self, observed: &mut Observed) {
        let ns = observed.place.namespace.clone();
        let service_name = observed.service_name();
        let class = observed
            .deployment
            .known()
            .and_then(|deployment| deployment.pointer("/spec/template/spec/priorityClassName")?.as_str());
        let class = class.unwrap_or_default().to_owned();
        let slices = format!("kubernetes.io/service-name={service_name}");
        let rights = rights(observed);
        let (service, slices, secret, class, policy, rights, replicas, fail_open, operators) = tokio::join!(
            self.object(ApiCollection(CORE, "services", &ns), &service_name),
            self.list(ApiCollection("/apis/discovery.k8s.io/v1", "endpointslices", &ns), &slices),
            self.secret(observed),
            self.object(ApiCollection("/apis/scheduling.k8s.io/v1", "priorityclasses", ""), &class),
            self.policy(observed),
            self.may(observed, rights),
            self.replicas(observed),
            self.fail_open(),
            self.operators(),
        );
        observed.operators = operators;
        observed.served = self.served(observed, service.known()).await;
        let guessed = observed.unknown_names();
        let guessed = guessed.as_ref();
        (observed.service, observed.slices, observed.priority_class) = (service, slices, class);
        (observed.secret, observed.policy) = (secret.unless(guessed), policy.unless(guessed));
        observed.rights = rights.into_iter().map(|(right, seen)| (right, seen.unless(guessed))).collect();
        (observed.replicas, observed.fail_open) = (replicas, fail_open);
    }

    /// Reads the Secret with the certificates.
    async fn secret(&self, observed: &Observed) -> Seen<Value> {
        if let Some(Certificates::Elsewhere(file)) = observed.certificates() {
            return Seen::skipped(&format!("the pods read {file}, which is in no Secret"));
        }
        self.object(ApiCollection(CORE, "secrets", &observed.place.namespace), &observed.secret_name()).await
    }

    /// Reads the policy named by the container's arguments.
    async fn policy(&self, observed: &Observed) -> Seen<PolicySource> {
        if let Some(deployment) = observed.deployment.known() {
            let serve = match serve_arguments(deployment) {
                Ok(serve) => serve,
                Err(why) => return Seen::Unread(Unread::Unsupported(why)),
            };
            if let Some(source) = (self.options.builtin)(&serve.policy) {
                return Seen::Known(PolicySource {
                    name: format!("the built-in policy {}", serve.policy),
                    text: source.to_owned(),
                });
            }
            if mounted(deployment, Path::new(&serve.policy), MountedSource::ConfigMap).is_none() {
                return Seen::skipped(&format!("the pods read {}, which is in no ConfigMap", serve.policy));
            }
        }
        let (map, key) = observed.policy_source();
        let name = format!("configmap/{map}");
        match self.object(ApiCollection(CORE, "configmaps", &observed.place.namespace), &map).await {
            Seen::Known(object) => object["data"][&key]
                .as_str()
                .map_or(Seen::Absent, |text| Seen::Known(PolicySource { name, text: text.to_owned() })),
            Seen::Absent => Seen::Absent,
            Seen::Unread(unread) => Seen::Unread(unread),
        }
    }

    async fn post(&self, path: String, body: &Value) -> Result<Value, Failure> {
        let request =
            Request::post(path).header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
        let response =
            fetch::send(self.client, request.body(Body::from(body.to_string().into_bytes()))).await?;
        Ok(serde_json::from_slice(&fetch::read(response, MAX_ANSWER_BYTES).await?)?)
    }
}

/// Returns the number of a container port.
fn port_named(deployment: &Value, name: &str) -> Option<u16> {
    let port = container(deployment)?["ports"].as_array()?.iter().find(|port| port["name"] == name)?;
    u16::try_from(port["containerPort"].as_u64()?).ok()
}

/// Returns the names of running pods.
fn running(observed: &Observed) -> impl Iterator<Item = &str> {
    let pods = observed.pods.known().into_iter().flatten().filter(|pod| pod["status"]["phase"] == "Running");
    pods.filter_map(|pod| pod["metadata"]["name"].as_str()).filter(|name| fetch::is_name(name))
}
