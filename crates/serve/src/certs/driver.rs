//! The task that reads the cluster, asks the plan what to do, and does it. It makes no decisions about
//! certificates itself.

mod settings;
mod watch;
mod write;

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use http::Request;
use http::header::{ACCEPT, DATE};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

pub use self::settings::Settings;
use self::watch::watch;
use super::authority::{AuthorityError, Leaf, Root};
use super::plan::{Plan, Soak, View, plan};
use super::publish::{Kind, Pace, Published};
use super::state::{Contents, Data, ROTATE};
use crate::server::Metrics;
use crate::server::certificate::{CertificateError, Identity};
use jobgate_cluster::fetch::{self, Failure, MAX_OBJECT_BYTES};
use jobgate_cluster::{chain, chance};
use jobgate_core::text::value::Value;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The pause after [`MAX_PROMPT_LOOKS`] in a minute: objects that change without end, or watches that always
/// break, must not make us overload the API server. A change is still fixed within two seconds.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// See [`LONG_PAUSE`].
const MAX_PROMPT_LOOKS: usize = 30;
/// Writes to one object in any minute: two writers that undo each other must not overload the API server.
const MAX_WRITES: usize = 6;
/// Attempts at a write that conflicts with those of others; after them it waits for the next look.
const MAX_ATTEMPTS: usize = 4;
/// Clock differences below this are ignored: the `Date` of a response has no fractions, and responses take
/// time.
const MIN_CLOCK_SKEW: i64 = 30;

/// Certificates being managed, until this is dropped. The objects are left as they are: other replicas and
/// the next start need them.
#[derive(Debug)]
#[must_use = "certificates are managed only while this lives"]
pub struct Managed {
    state: Arc<Mutex<Result<(), String>>>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Managed {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Managed {
    /// Starts to manage the certificate that `identity` serves. Needs a tokio runtime; returns at once,
    /// whatever the API server does.
    pub fn start(client: Client, settings: Settings, identity: Arc<Identity>, metrics: Metrics) -> Self {
        let state = Arc::new(Mutex::new(Err("the API server has not been reached yet".to_owned())));
        let wake = Arc::new(Notify::new());
        let mut watched = vec![(
            format!("/api/v1/namespaces/{}/secrets", settings.names.namespace()),
            settings.secret.clone(),
        )];
        watched
            .extend(Kind::ALL.map(|kind| (kind.path().to_owned(), settings.configuration(kind).to_owned())));
        let mut tasks: Vec<AbortHandle> = watched
            .into_iter()
            .map(|(path, name)| tokio::spawn(watch(client.clone(), path, name, wake.clone())).abort_handle())
            .collect();
        let driver = Driver {
            client,
            settings,
            identity,
            metrics,
            state: state.clone(),
            began: Instant::now(),
            leaf: None,
            soak: Soak::default(),
            paces: [Pace::new(MAX_WRITES), Pace::new(MAX_WRITES)],
            release_paces: [Pace::new(MAX_WRITES), Pace::new(MAX_WRITES)],
            store_pace: Pace::new(MAX_WRITES),
            look_pace: Pace::new(MAX_PROMPT_LOOKS),
            spread: chance(),
            right_since: None,
            ahead: 0,
            reported: BTreeSet::new(),
        };
        tasks.push(tokio::spawn(driver.run(wake)).abort_handle());
        Self { state, tasks }
    }

    /// Returns `Ok` if, as far as is known, the API server can verify the served certificate. Once true, this
    /// stays so.
    ///
    /// # Errors
    /// What is missing, as a human-readable message.
    pub fn ready(&self) -> Result<(), String> {
        check(&self.state)
    }

    /// Returns [`Self::ready`] as a check that outlives `self`.
    pub fn readiness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let state = self.state.clone();
        move || check(&state)
    }
}

fn check(state: &Mutex<Result<(), String>>) -> Result<(), String> {
    state.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The objects read in one look.
struct CertsSnapshot {
    secret: Result<Value, Failure>,
    configurations: [Result<Published, Failure>; 2],
}

struct Driver {
    client: Client,
    settings: Settings,
    identity: Arc<Identity>,
    metrics: Metrics,
    state: Arc<Mutex<Result<(), String>>>,
    began: Instant,
    leaf: Option<Leaf>,
    soak: Soak,
    paces: [Pace; 2],
    release_paces: [Pace; 2],
    store_pace: Pace,
    look_pace: Pace,
    spread: f64,
    /// Since when both configurations verify what is served.
    right_since: Option<Duration>,
    /// Seconds by which the API server's clock is ahead.
    ahead: i64,
    /// Current errors that have been logged.
    reported: BTreeSet<String>,
}

impl Driver {
    async fn run(mut self, wake: Arc<Notify>) {
        loop {
            let mut wrong = BTreeSet::new();
            for _ in 0..MAX_ATTEMPTS {
                wrong.clear();
                if !self.turn(&mut wrong).await {
                    break;
                }
            }
            self.say(wrong);
            let uptime = self.uptime();
            let breath = if self.look_pace.allows(uptime) { MIN_PAUSE } else { LONG_PAUSE };
            self.look_pace.note(uptime);
            // Replicas that see the same change at once should not all try to fix it.
            sleep(breath.mul_f64(1.0 + 0.5 * chance())).await;
            let settling = check(&self.state).is_err() && self.right_since.is_some();
            let pause = if settling { 2 * MIN_PAUSE } else { self.settings.lifetimes.look_every() };
            let _ = timeout(pause, wake.notified()).await;
        }
    }

    fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time by the API server's clock, as far as it is known.
    fn now(&self) -> SystemTime {
        let (now, by) = (SystemTime::now(), Duration::from_secs(self.ahead.unsigned_abs()));
        let there = if self.ahead < 0 { now.checked_sub(by) } else { now.checked_add(by) };
        there.unwrap_or(now)
    }

    /// Looks once and applies the plan; returns whether to look again at once.
    async fn turn(&mut self, wrong: &mut BTreeSet<String>) -> bool {
        let look = self.look().await;
        let contents = match &look.secret {
            Ok(object) => {
                let rotate =
                    object.pointer("/metadata/annotations").is_some_and(|all| all.get(ROTATE).is_some());
                let contents = Contents::from_data(&data(object), rotate, &self.settings.names);
                for fault in contents.faults() {
                    self.metrics.certificate_error("broken");
                    wrong.insert(format!("the Secret {} is broken: {fault}", self.place()));
                }
                Some(contents)
            }
            Err(failure) => {
                wrong.insert(self.explain("the Secret", &self.place(), failure));
                None
            }
        };
        for (kind, configuration) in Kind::ALL.into_iter().zip(&look.configurations) {
            let name = self.settings.configuration(kind);
            match configuration {
                Err(failure) => drop(wrong.insert(self.explain(kind.name(), name, failure))),
                Ok(published) if published.is_empty() => {
                    let service = self.settings.names.server_name();
                    wrong.insert(format!(
                        "no webhook of the {} {name} calls the Service {service}",
                        kind.name()
                    ));
                }
                Ok(_) => {}
            }
        }
        let both = match &look.configurations {
            [Ok(a), Ok(b)] => Some(common(a, b)),
            _ => None,
        };
        if let Some(both) = &both {
            self.soak.note(self.uptime(), both);
        }
        let soaked = self.soak.over(self.uptime(), self.settings.lifetimes.soak);
        let published: Vec<Root> = look.configurations.iter().flatten().flat_map(Published::any).collect();
        let view = View {
            now: self.now(),
            contents: contents.as_ref(),
            leaf: self.leaf.as_ref(),
            soaked: &soaked,
            published: &published,
            spread: self.spread,
        };
        let Plan { store, sign, bundle } = match plan(&view, &self.settings.names, &self.settings.lifetimes) {
            Ok(plan) => plan,
            Err(error) => {
                self.metrics.certificate_error("internal");
                wrong.insert(format!("cannot create a certificate: {}", chain(&error)));
                return false;
            }
        };
        if let Some(Ok(authority)) =
            contents.as_ref().map(|contents| contents.current.usable(view.now).ok_or(()))
        {
            self.metrics.authority_not_after(authority.root().not_after());
        }
        // The Secret comes first: nothing is served or published that another replica could still change.
        if let (Some((step, change)), Ok(object)) = (&store, &look.secret)
            && self.store(*step, change, object, wrong).await
        {
            return true;
        }
        if let Some(authority) = sign {
            match authority
                .sign(&self.settings.names, self.now(), self.settings.lifetimes.leaf)
                .map_err(NotServed::from)
                .and_then(|leaf| self.serve(leaf))
            {
                Ok(()) => {}
                Err(trouble) => {
                    self.metrics.certificate_error("internal");
                    wrong.insert(format!("cannot serve a new certificate: {}", chain(&trouble)));
                }
            }
        }
        let mut wrote = false;
        if let Some(bundle) = bundle {
            for (index, kind) in Kind::ALL.into_iter().enumerate() {
                let Ok(published) = &look.configurations[index] else { continue };
                if !published.holds(&bundle) {
                    wrote |= self.publish(index, kind, published, &bundle, wrong).await;
                } else if published.is_owned() {
                    self.release(index, kind, published, wrong).await;
                }
            }
        }
        self.judge(both.as_deref(), wrong);
        wrote
    }

    /// Reads the three objects, the Secret first: its response has the clock.
    async fn look(&mut self) -> CertsSnapshot {
        let secret = self.get(&self.settings.secret_uri()).await;
        let secret = match secret
            .and_then(|(object, date)| Ok((requested(object, "Secret", &self.settings.secret)?, date)))
        {
            Ok((object, date)) => {
                if let Some(date) = date {
                    self.set_clock(date);
                }
                Ok(object)
            }
            Err(failure) => Err(failure),
        };
        let mut configurations = Vec::with_capacity(2);
        for kind in Kind::ALL {
            let got = self.get(&self.settings.uri(kind)).await;
            let got =
                got.and_then(|(object, _)| requested(object, kind.name(), self.settings.configuration(kind)));
            configurations
                .push(got.map(|object| Published::from_configuration(&object, &self.settings.names)));
        }
        let second = configurations.pop().unwrap_or(Err(Failure::Silence));
        let first = configurations.pop().unwrap_or(Err(Failure::Silence));
        CertsSnapshot { secret, configurations: [first, second] }
    }

    async fn get(&self, uri: &str) -> Result<(Value, Option<SystemTime>), Failure> {
        let request = Request::get(uri).header(ACCEPT, "application/json").body(Body::empty());
        self.send(request).await
    }

    async fn send(
        &self,
        request: http::Result<Request<Body>>,
    ) -> Result<(Value, Option<SystemTime>), Failure> {
        let exchange = async {
            let response = fetch::send(&self.client, request).await?;
            let date = response.headers().get(DATE).and_then(|value| value.to_str().ok()).and_then(time);
            let body = fetch::read(response, MAX_OBJECT_BYTES).await?;
            Ok((serde_json::from_slice(&body)?, date))
        };
        timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or(Err(Failure::Silence))
    }

    fn set_clock(&mut self, theirs: SystemTime) {
        let ours = SystemTime::now();
        let ahead = match theirs.duration_since(ours) {
            Ok(ahead) => i64::try_from(ahead.as_secs()).unwrap_or(0),
            Err(behind) => -i64::try_from(behind.duration().as_secs()).unwrap_or(0),
        };
        let ahead = if ahead.abs() < MIN_CLOCK_SKEW { 0 } else { ahead };
        if ahead.abs_diff(self.ahead) >= MIN_CLOCK_SKEW.unsigned_abs() {
            tracing::warn!(
                ahead_seconds = ahead,
                "the API server's clock differs from this machine's; certificates use the API server's"
            );
            self.ahead = ahead;
            self.identity.set_clock(ahead);
            self.metrics.clock_ahead(ahead);
        }
    }

    fn serve(&mut self, leaf: Leaf) -> Result<(), NotServed> {
        self.identity.replace(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes())?;
        self.metrics.certificate_step("sign");
        let until =
            jiff::Timestamp::try_from(leaf.not_after()).map(|time| time.to_string()).unwrap_or_default();
        tracing::info!(authority = leaf.signer().root().id(), until, "serving a new certificate");
        self.leaf = Some(leaf);
        Ok(())
    }

    /// Updates readiness. Once ready, only the certificate itself can change that, which the server checks.
    fn judge(&mut self, both: Option<&[Root]>, wrong: &BTreeSet<String>) {
        if check(&self.state).is_ok() {
            return;
        }
        let now = self.now();
        let right =
            both.is_some_and(|roots| self.leaf.as_ref().is_some_and(|leaf| leaf.verifies(roots, now)));
        let uptime = self.uptime();
        self.right_since = if right { self.right_since.or(Some(uptime)) } else { None };
        let verdict = match self.right_since {
            Some(since) if uptime.saturating_sub(since) >= self.settings.lifetimes.settle => Ok(()),
            Some(_) => Err("waiting for the caBundle to take effect".to_owned()),
            None => Err(wrong
                .first()
                .cloned()
                .unwrap_or_else(|| "the webhook configurations do not have the authority yet".to_owned())),
        };
        if verdict.is_ok() {
            tracing::info!("the API server can verify the certificate");
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = verdict;
    }

    fn place(&self) -> String {
        format!("{}/{}", self.settings.names.namespace(), self.settings.secret)
    }

    /// Explains a failure and its remedy in one line, and counts it.
    fn explain(&self, what: &str, name: &str, failure: &Failure) -> String {
        let (cause, advice) = match failure {
            Failure::NotFound if what == "the Secret" => {
                ("missing", "does not exist: create it empty, then Jobgate fills it")
            }
            Failure::NotFound => ("missing", "does not exist: create it, then Jobgate sets its caBundle"),
            Failure::Forbidden => (
                "forbidden",
                "may not be used: give the service account the permissions that certs/README.md lists",
            ),
            Failure::Transport(_) | Failure::Silence => ("unreachable", "cannot be reached"),
            _ => ("refused", "cannot be used"),
        };
        self.metrics.certificate_error(cause);
        let source = failure.source().map(|source| format!(": {source}")).unwrap_or_default();
        format!("{what} {name} {advice} ({failure}{source})")
    }

    /// Logs new errors, and the recovery once there are none.
    fn say(&mut self, wrong: BTreeSet<String>) {
        for what in wrong.difference(&self.reported) {
            tracing::error!("{what}");
        }
        if wrong.is_empty() && !self.reported.is_empty() {
            tracing::info!("certificates are managed again");
        }
        self.reported = wrong;
    }
}

/// Why a new certificate is not served.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("sign a certificate")]
    Sign(#[from] AuthorityError),
    #[error("load the new certificate")]
    Take(#[from] CertificateError),
}

/// Returns an object if it is the requested one.
fn requested(object: Value, kind: &str, name: &str) -> Result<Value, Failure> {
    if object["kind"] == kind && object["metadata"]["name"] == name {
        Ok(object)
    } else {
        Err(Failure::Foreign)
    }
}

fn common(a: &Published, b: &Published) -> Vec<Root> {
    let other = b.roots();
    a.roots().into_iter().filter(|root| other.contains(root)).collect()
}

/// Returns the data of a Secret. The API server stores only valid base64.
pub(crate) fn data(object: &Value) -> Data {
    let decode = |value: &Value| base64::engine::general_purpose::STANDARD.decode(value.as_str()?).ok();
    let entries = object["data"].as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.to_owned(), decode(value).unwrap_or_default())).collect()
}

/// Reads the time of a `Date` header: RFC 2822 except for the name of the time zone.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| SystemTime::from(zoned.timestamp()))
}
