//! What was observed of a cluster: data that the checks judge, and that tests write down.

mod deployment;
mod entry;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use jiff::civil::Date;
use rustls_pki_types::CertificateDer;

pub use self::deployment::serve_arguments;
pub(super) use self::deployment::{Source, container, mounted};
pub use self::entry::Entry;
pub(super) use self::entry::webhooks;
use crate::admission::dry_run;
use crate::judge::finding::{Finding, Level};
use crate::serve::arguments::Serve;
use crate::serve::certs::publish::Kind;
use crate::text::value::Value;

/// What the Deployment, and everything else of an installation, is called (`deploy/`).
pub const DEPLOYMENT: &str = "jobgate";
/// The ConfigMap that holds the policy, and the key of the policy in it, where the Deployment cannot be read.
pub const POLICY: (&str, &str) = ("jobgate-policy", "policy.yaml");
/// The Secret, where the Deployment cannot be read.
pub const SECRET: &str = "jobgate-tls";

/// What came of a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    /// This is there.
    Known(T),
    /// It is not there: the API server says so.
    Absent,
    /// Nobody knows.
    Unread(Unread),
}

impl<T> Seen<T> {
    /// Returns what is there, if that is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Takes what was found under a guessed name for unread, for the reason why the name is not known. What
    /// could not be read stays so.
    pub fn unless(self, guessed: Option<&Unread>) -> Self {
        match (self, guessed) {
            (Self::Known(_) | Self::Absent, Some(why)) => Self::Unread(why.clone()),
            (seen, _) => seen,
        }
    }

    /// Says that it was not looked for.
    pub fn skipped(why: &str) -> Self {
        Self::Unread(Unread::Skipped(why.to_owned()))
    }
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The API server forbids it; this is what it takes, such as `get secrets/jobgate-tls in the namespace
    /// jobgate`.
    Forbidden(String),
    /// It failed: what was tried, and what happened.
    Failed(String),
    /// It was not tried, and why.
    Skipped(String),
    /// What tells of it is not understood, and why.
    Strange(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(needs) => write!(f, "needs permission to {needs}"),
            Self::Failed(what) | Self::Skipped(what) | Self::Strange(what) => f.write_str(what),
        }
    }
}

impl Unread {
    /// Returns what would let it be read.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Forbidden(_) => "run it as a user with that permission, or bind the role in docs/doctor.md".to_owned(),
            Self::Failed(_) => "run it again; --timeout gives the API server more time".to_owned(),
            Self::Skipped(_) => "nothing, unless you want this checked".to_owned(),
            Self::Strange(_) => {
                "run the doctor of the version that is in the cluster: kubectl -n {ns} get deployment {deployment} -o wide".to_owned()
            }
        }
    }
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace of the installation.
    pub namespace: String,
    /// The name of the `MutatingWebhookConfiguration`.
    pub mutating: String,
    /// The name of the `ValidatingWebhookConfiguration`.
    pub validating: String,
    /// Where the canaries are tried.
    pub canary_namespace: String,
}

impl Default for Place {
    fn default() -> Self {
        let name = || DEPLOYMENT.to_owned();
        Self {
            namespace: name(),
            mutating: name(),
            validating: name(),
            canary_namespace: "default".to_owned(),
        }
    }
}

/// Everything that was observed. Objects are as the API server gave them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Where was looked.
    pub place: Place,
    /// The time by the API server's clock, which is the one that certificates are judged by.
    pub now: SystemTime,
    /// Today in UTC, for exemptions that end.
    pub today: Date,
    /// The answer of `/version`.
    pub version: Seen<Value>,
    /// The two configurations.
    pub mutating: Seen<Value>,
    /// See `mutating`.
    pub validating: Seen<Value>,
    /// All configurations of the cluster: mutating, validating.
    pub all: [Seen<Vec<Value>>; 2],
    /// The namespace of the installation.
    pub namespace: Seen<Value>,
    /// The Service that the configurations name, else `jobgate`.
    pub service: Seen<Value>,
    /// Its EndpointSlices.
    pub slices: Seen<Vec<Value>>,
    /// The Deployment.
    pub deployment: Seen<Value>,
    /// Its pods.
    pub pods: Seen<Vec<Value>>,
    /// The PodDisruptionBudgets of the namespace.
    pub budgets: Seen<Vec<Value>>,
    /// The NetworkPolicies of the namespace.
    pub network_policies: Seen<Vec<Value>>,
    /// The PriorityClass that the pods name.
    pub priority_class: Seen<Value>,
    /// The Secret with the certificates.
    pub secret: Seen<Value>,
    /// The policy as it is written.
    pub policy: Seen<PolicySource>,
    /// What the pods' service account needs, and whether it may.
    pub rights: Vec<(Right, Seen<bool>)>,
    /// What is served where.
    pub served: Vec<Served>,
    /// What each pod says of itself.
    pub replicas: Vec<Replica>,
    /// How many reviews the API server has let pass without an answer since it started, by webhook.
    pub fail_open: Seen<BTreeMap<String, u64>>,
    /// The namespace of the canaries.
    pub canary_namespace: Seen<Value>,
    /// All namespaces: who is left out.
    pub namespaces: Seen<Vec<Value>>,
    /// Configurations that are not there under the name that was asked for, and what was found in their
    /// place: the kind and that name.
    pub renamed: Vec<(Kind, String)>,
    /// The canary that is to be denied, or warned of where the policy denies nothing.
    pub judged: Seen<Canary>,
    /// The canary that is to be filled in.
    pub filled: Seen<Canary>,
}

/// A policy's text, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    /// What to call it, such as `configmap/jobgate-policy`.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Something that the service account must be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The namespace; empty for all, or none.
    pub namespace: String,
    /// The name; empty for any.
    pub name: String,
    /// Whether the certificates depend on it; otherwise only the look-up of claims does.
    pub certificates: bool,
}

impl Right {
    /// Returns what it is about: `secrets/jobgate-tls`.
    #[must_use]
    pub fn object(&self) -> String {
        if self.name.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.name)
        }
    }
}

/// A certificate that was seen at a TLS handshake.
#[derive(Clone, Debug)]
pub struct Served {
    /// Where, for people: `pod jobgate-0`, `https://127.0.0.1:10250`.
    pub at: String,
    /// Whether a failure to connect says that the API server cannot connect either.
    pub telling: bool,
    /// The chain, the server's own first.
    pub chain: Seen<Vec<CertificateDer<'static>>>,
}

/// What a pod says of itself at its metrics port, through the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// The pod's name.
    pub pod: String,
    /// Its metrics that matter here: version, policy name, policy hash.
    pub says: Seen<Says>,
}

/// See [`Replica`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Says {
    /// The version that runs; empty where it does not say.
    pub version: String,
    /// The hash of the policy in force; empty where it does not say.
    pub policy: String,
    /// Certificates and policies that were refused since it started.
    pub failed_reloads: u64,
}

/// A canary: a Job that was sent as a dry run, what was to come of it, and what did.
#[derive(Clone, Debug, PartialEq)]
pub struct Canary {
    /// What is to come of it; nothing where the policy is not known.
    pub expected: Option<Expected>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The answer: a Job, or a Status.
    pub answer: Value,
    /// The warnings that came with it.
    pub warnings: Vec<String>,
    /// By how much the API server's count of reviews without an answer rose meanwhile, where it can be read.
    pub failed_open: Option<u64>,
}

/// What is to come of a canary: what `jobgate dry-run` foretells under the policy of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Whether it is to be denied.
    pub denied: bool,
    /// The rules that deny it, or warn of it where nothing does.
    pub rules: Vec<&'static str>,
    /// The rules that fill something in.
    pub fills: Vec<&'static str>,
}

impl Expected {
    /// Takes what a dry run foretells.
    #[must_use]
    pub fn of(answer: &dry_run::Prediction) -> Self {
        let denied = answer.outcome == dry_run::Predicted::Denied;
        let level = if denied { Level::Deny } else { Level::Warn };
        let ids = |wanted: &dyn Fn(&Finding) -> bool| {
            let mut ids: Vec<&'static str> = answer
                .findings
                .iter()
                .filter(|finding| wanted(finding))
                .map(|finding| finding.rule)
                .collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Self {
            denied,
            rules: ids(&|finding| finding.level == level),
            fills: ids(&|finding| finding.fills && !answer.patch.is_empty()),
        }
    }
}

/// Where the certificate that the pods serve comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// Each replica makes its own, of the authority in this Secret.
    Own(String),
    /// From a Secret: its name, the key of the chain, and that of the private key, if it is in it.
    Mounted(String, String, Option<String>),
    /// From this file, which is in no Secret.
    Elsewhere(String),
    /// It is in memory, for `localhost` (`--dev`).
    Memory,
}

impl Observed {
    /// Returns the configurations that are there.
    pub fn configurations(&self) -> impl Iterator<Item = (Kind, &Value)> {
        let pairs = [(Kind::Mutating, &self.mutating), (Kind::Validating, &self.validating)];
        pairs.into_iter().filter_map(|(kind, seen)| Some((kind, seen.known()?)))
    }

    /// Returns the webhooks of the configurations that are there.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.configurations().flat_map(|(kind, configuration)| {
            webhooks(configuration).iter().map(move |webhook| Entry { kind, webhook })
        })
    }

    /// Returns the arguments that the pods run with, where they can be read.
    #[must_use]
    pub fn serve(&self) -> Option<Serve> {
        serve_arguments(self.deployment.known()?).ok()
    }

    /// Returns the name of the Service that leads to the webhook.
    #[must_use]
    pub fn service_name(&self) -> String {
        let named = self.entries().find_map(|entry| Some(entry.service()?["name"].as_str()?.to_owned()));
        named.unwrap_or_else(|| DEPLOYMENT.to_owned())
    }

    /// Returns where the pods' certificate comes from, by their arguments.
    #[must_use]
    pub fn certificates(&self) -> Option<Certificates> {
        let (deployment, serve) = self.deployment.known().zip(self.serve())?;
        let Some(file) = serve.tls_cert else {
            return Some(if serve.dev {
                Certificates::Memory
            } else {
                Certificates::Own(serve.managed.secret_name)
            });
        };
        let Some((secret, certificate)) = mounted(deployment, &file, Source::Secret) else {
            return Some(Certificates::Elsewhere(file.to_string_lossy().into_owned()));
        };
        let key = serve.tls_key.and_then(|file| mounted(deployment, &file, Source::Secret));
        let key = key.filter(|(name, _)| *name == secret).map(|(_, key)| key);
        Some(Certificates::Mounted(secret, certificate, key))
    }

    /// Returns the name of the Secret with the certificates; the manifests' where there is none, or none that
    /// is known.
    #[must_use]
    pub fn secret_name(&self) -> String {
        match self.certificates() {
            Some(Certificates::Own(secret) | Certificates::Mounted(secret, ..)) => secret,
            _ => SECRET.to_owned(),
        }
    }

    /// Returns why it is not known what only the Deployment tells, such as the names of the policy, the
    /// Secret and the service account; nothing where it is known, and where there is no Deployment, so that
    /// nothing else can be meant than what the manifests call so.
    #[must_use]
    pub fn untold(&self) -> Option<Unread> {
        match &self.deployment {
            Seen::Known(deployment) => serve_arguments(deployment).err().map(Unread::Strange),
            Seen::Absent => None,
            Seen::Unread(unread) => Some(match unread.clone() {
                Unread::Forbidden(what) => Unread::Forbidden(format!("{what}, which says what the pods use")),
                Unread::Failed(what) => Unread::Failed(format!("{what}; it says what the pods use")),
                other @ (Unread::Skipped(_) | Unread::Strange(_)) => other,
            }),
        }
    }

    /// Returns the ConfigMap with the policy, and the key in it, as the Deployment tells; those of the
    /// manifests where it tells none.
    #[must_use]
    pub fn policy_source(&self) -> (String, String) {
        let told = self.deployment.known().zip(self.serve());
        let told = told
            .and_then(|(deployment, serve)| mounted(deployment, Path::new(&serve.policy), Source::ConfigMap));
        told.unwrap_or_else(|| (POLICY.0.to_owned(), POLICY.1.to_owned()))
    }
}
