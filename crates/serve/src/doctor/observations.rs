//! The observations: data that the checks judge and tests construct.

mod deployment;
mod entry;
mod operators;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use jiff::civil::Date;
use rustls_pki_types::CertificateDer;

pub(crate) use self::deployment::serve_arguments;
pub(super) use self::deployment::{MountedSource, container, mounted};
pub(crate) use self::entry::Entry;
pub(super) use self::entry::webhooks;
pub(crate) use self::operators::{Access, Operator, operators};
use crate::arguments::Serve;
use crate::certs::publish::Kind;
use jobgate_core::admission::dry_run;
use jobgate_core::judge::finding::{Finding, Level};
use jobgate_core::judge::rule::RuleId;
use jobgate_core::text::value::Value;

/// The name of the Deployment and of everything else in an installation (`deploy/`).
pub(crate) const DEPLOYMENT: &str = "jobgate";
/// The ConfigMap of the policy, and the key in it, if the Deployment cannot be read.
pub(crate) const POLICY: (&str, &str) = ("jobgate-policy", "policy.yaml");
/// The Secret, if the Deployment cannot be read.
pub(crate) const SECRET: &str = "jobgate-tls";

/// The prefix of the name of an API server's policy in [`Observed::fail_open`].
pub(crate) const POLICY_OF_SERVER: &str = "policy/";
/// The same for a webhook whose match condition could not be evaluated.
pub(crate) const CONDITION: &str = "condition/";

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    /// It exists.
    Known(T),
    /// The API server answered that it does not exist.
    Absent,
    /// It is unknown.
    Unread(Unread),
}

impl<T> Seen<T> {
    /// Returns the value, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Turns a result under a guessed name into unread, with the reason why the name is unknown.
    pub(crate) fn unless(self, guessed: Option<&Unread>) -> Self {
        match (self, guessed) {
            (Self::Known(_) | Self::Absent, Some(why)) => Self::Unread(why.clone()),
            (seen, _) => seen,
        }
    }

    /// Returns a look-up that was skipped for this reason.
    pub(crate) fn skipped(why: &str) -> Self {
        Self::Unread(Unread::Skipped(why.to_owned()))
    }
}

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The API server forbids it; the missing permission, such as `get secrets/jobgate-tls in the namespace
    /// jobgate`.
    Forbidden(String),
    /// It failed: what was tried, and what happened.
    Failed(String),
    /// It was not tried, and why.
    Skipped(String),
    /// The arguments that determine its name are not supported, and why.
    Unsupported(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(needs) => write!(f, "needs permission to {needs}"),
            Self::Failed(what) | Self::Skipped(what) | Self::Unsupported(what) => f.write_str(what),
        }
    }
}

impl Unread {
    /// Returns how to make it readable.
    #[must_use]
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Forbidden(_) => "run it as a user with that permission, or bind the role in docs/doctor.md".to_owned(),
            Self::Failed(_) => "run it again; --timeout gives the API server more time".to_owned(),
            Self::Skipped(_) => "nothing, unless you want this checked".to_owned(),
            Self::Unsupported(_) => {
                "run the doctor of the version that is in the cluster: kubectl -n {ns} get deployment {deployment} -o wide".to_owned()
            }
        }
    }
}

/// The names of the installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace of the installation.
    pub namespace: String,
    /// The name of the `MutatingWebhookConfiguration`.
    pub mutating: String,
    /// The name of the `ValidatingWebhookConfiguration`.
    pub validating: String,
    /// The namespace of the canaries.
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

/// Everything that was observed. Objects are as the API server returned them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The names that were read.
    pub(crate) place: Place,
    /// The time by the API server's clock, by which it verifies certificates.
    pub(crate) now: SystemTime,
    /// Today in UTC, for exemptions that expire.
    pub(crate) today: Date,
    /// The answer of `/version`.
    pub(crate) version: Seen<Value>,
    /// The two configurations.
    pub mutating: Seen<Value>,
    /// See `mutating`.
    pub(crate) validating: Seen<Value>,
    /// All configurations of the cluster: mutating, validating.
    pub(crate) all: [Seen<Vec<Value>>; 2],
    /// The namespace of the installation.
    pub(crate) namespace: Seen<Value>,
    /// The Service that the configurations name, else `jobgate`.
    pub(crate) service: Seen<Value>,
    /// Its EndpointSlices.
    pub(crate) slices: Seen<Vec<Value>>,
    /// The Deployment.
    pub(crate) deployment: Seen<Value>,
    /// Its pods.
    pub(crate) pods: Seen<Vec<Value>>,
    /// The PodDisruptionBudgets of the namespace.
    pub(crate) budgets: Seen<Vec<Value>>,
    /// The NetworkPolicies of the namespace.
    pub(crate) network_policies: Seen<Vec<Value>>,
    /// The PriorityClass that the pods name.
    pub(crate) priority_class: Seen<Value>,
    /// The Secret with the certificates.
    pub(crate) secret: Seen<Value>,
    /// The policy in its source.
    pub(crate) policy: Seen<PolicySource>,
    /// The permissions that the pods' service account needs, and whether it has them.
    pub(crate) rights: Vec<(Right, Seen<bool>)>,
    /// The accounts that act as operators of kinds whose children are judged.
    pub(crate) operators: Seen<Vec<Operator>>,
    /// The served certificates.
    pub(crate) served: Vec<Served>,
    /// The metrics of each pod.
    pub replicas: Vec<Replica>,
    /// Calls that failed open since the API server started, by webhook; and failed evaluations of policies
    /// and conditions, by [`POLICY_OF_SERVER`] or [`CONDITION`] and the name.
    pub(crate) fail_open: Seen<BTreeMap<String, u64>>,
    /// The namespace of the canaries.
    pub(crate) canary_namespace: Seen<Value>,
    /// All namespaces, some of which may be skipped.
    pub(crate) namespaces: Seen<Vec<Value>>,
    /// Configurations that do not exist under the given name, so that another one was used: the kind and the
    /// given name.
    pub(crate) renamed: Vec<(Kind, String)>,
    /// The canary that should be denied, or get a warning if the policy denies nothing.
    pub(crate) judged: Seen<Canary>,
    /// The canary that should be filled in.
    pub(crate) filled: Seen<Canary>,
}

/// A policy's text, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicySource {
    /// Its name, such as `configmap/jobgate-policy`.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
}

/// A permission that the service account needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// The verb.
    pub(crate) verb: &'static str,
    /// The API group; empty for the core.
    pub(crate) group: &'static str,
    /// The resource.
    pub(crate) resource: &'static str,
    /// The namespace; empty for all namespaces, and for objects without.
    pub(crate) namespace: String,
    /// The name; empty for any.
    pub(crate) name: String,
    /// Whether certificates need it; otherwise only look-ups of claims do.
    pub(crate) certificates: bool,
}

impl Right {
    /// Returns the object: `secrets/jobgate-tls`.
    #[must_use]
    pub(crate) fn object(&self) -> String {
        if self.name.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.name)
        }
    }
}

/// A certificate that was seen at a TLS handshake.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// Where, for people: `pod jobgate-0`, `https://127.0.0.1:10250`.
    pub(crate) at: String,
    /// Whether a failure to connect means that the API server cannot connect either.
    pub(crate) conclusive: bool,
    /// The chain, the server's own first.
    pub(crate) chain: Seen<Vec<CertificateDer<'static>>>,
}

/// The metrics of a pod, read through the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// The pod's name.
    pub(crate) pod: String,
    /// The relevant metrics.
    pub says: Seen<Says>,
}

/// See [`Replica`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Says {
    /// The running version; empty if it does not report one.
    pub version: String,
    /// The hash of the policy in force; empty if it does not report one.
    pub policy: String,
    /// Certificates and policies that it has rejected since it started.
    pub(crate) failed_reloads: u64,
}

/// A Job that was sent as a dry run, its expected result, and the actual one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Canary {
    /// The expected result, if the policy is known.
    pub(crate) expected: Option<Expected>,
    /// The HTTP status of the answer.
    pub(crate) status: u16,
    /// The answer: a Job, or a Status.
    pub(crate) answer: Value,
    /// The warnings that came with it.
    pub(crate) warnings: Vec<String>,
    /// The increase of the API server's fail-open count meanwhile, if readable.
    pub(crate) failed_open: Option<u64>,
}

/// The expected result: the prediction of `jobgate dry-run` under the policy of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Whether it should be denied.
    pub(crate) denied: bool,
    /// The rules that deny it, or warn about it if none does.
    pub(crate) rules: Vec<RuleId>,
    /// The rules that fill something in.
    pub(crate) fills: Vec<RuleId>,
}

impl Expected {
    /// Converts a prediction.
    #[must_use]
    pub(crate) fn from_answer(answer: &dry_run::Prediction) -> Self {
        let denied = answer.outcome == dry_run::Predicted::Denied;
        let level = if denied { Level::Deny } else { Level::Warn };
        let ids = |wanted: &dyn Fn(&Finding) -> bool| {
            let mut ids: Vec<RuleId> = answer
                .findings
                .iter()
                .filter(|finding| wanted(finding))
                .map(|finding| finding.rule.clone())
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

/// Where the served certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Each replica creates its own, signed by the authority in this Secret.
    Own(String),
    /// A Secret: its name, the key of the chain, and that of the private key, if it is there.
    Mounted(String, String, Option<String>),
    /// This file, which is in no Secret.
    Elsewhere(String),
    /// It is in memory, for `localhost` (`--dev`).
    Memory,
}

impl Observed {
    /// Returns the configurations that exist.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = (Kind, &Value)> {
        let pairs = [(Kind::Mutating, &self.mutating), (Kind::Validating, &self.validating)];
        pairs.into_iter().filter_map(|(kind, seen)| Some((kind, seen.known()?)))
    }

    /// Returns the webhooks of the configurations that exist.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.configurations().flat_map(|(kind, configuration)| {
            webhooks(configuration).iter().map(move |webhook| Entry { kind, webhook })
        })
    }

    /// Returns the arguments of the pods, if readable.
    #[must_use]
    pub(crate) fn serve(&self) -> Option<Serve> {
        serve_arguments(self.deployment.known()?).ok()
    }

    /// Returns the name of the webhook's Service.
    #[must_use]
    pub(crate) fn service_name(&self) -> String {
        let named = self.entries().find_map(|entry| Some(entry.service()?["name"].as_str()?.to_owned()));
        named.unwrap_or_else(|| DEPLOYMENT.to_owned())
    }

    /// Returns where the pods' certificate comes from, by their arguments.
    #[must_use]
    pub(crate) fn certificates(&self) -> Option<Certificates> {
        let (deployment, serve) = self.deployment.known().zip(self.serve())?;
        let Some(file) = serve.tls_cert else {
            return Some(if serve.dev {
                Certificates::Memory
            } else {
                Certificates::Own(serve.managed.secret_name)
            });
        };
        let Some((secret, certificate)) = mounted(deployment, &file, MountedSource::Secret) else {
            return Some(Certificates::Elsewhere(file.to_string_lossy().into_owned()));
        };
        let key = serve.tls_key.and_then(|file| mounted(deployment, &file, MountedSource::Secret));
        let key = key.filter(|(name, _)| *name == secret).map(|(_, key)| key);
        Some(Certificates::Mounted(secret, certificate, key))
    }

    /// Returns the name of the Secret with the certificates; that of the manifests if unknown.
    #[must_use]
    pub(crate) fn secret_name(&self) -> String {
        match self.certificates() {
            Some(Certificates::Own(secret) | Certificates::Mounted(secret, ..)) => secret,
            _ => SECRET.to_owned(),
        }
    }

    /// Returns why the names that only the Deployment has are unknown (policy, Secret, service account);
    /// nothing if they are known, or if there is no Deployment, so that those of the manifests apply.
    #[must_use]
    pub(crate) fn unknown_names(&self) -> Option<Unread> {
        match &self.deployment {
            Seen::Known(deployment) => serve_arguments(deployment).err().map(Unread::Unsupported),
            Seen::Absent => None,
            Seen::Unread(unread) => Some(match unread.clone() {
                Unread::Forbidden(what) => Unread::Forbidden(format!("{what}, which says what the pods use")),
                Unread::Failed(what) => Unread::Failed(format!("{what}; it says what the pods use")),
                other @ (Unread::Skipped(_) | Unread::Unsupported(_)) => other,
            }),
        }
    }

    /// Returns the ConfigMap of the policy, and the key in it, by the Deployment; those of the manifests if
    /// unknown.
    #[must_use]
    pub(crate) fn policy_source(&self) -> (String, String) {
        let named = self.deployment.known().zip(self.serve());
        let named = named.and_then(|(deployment, serve)| {
            mounted(deployment, Path::new(&serve.policy), MountedSource::ConfigMap)
        });
        named.unwrap_or_else(|| (POLICY.0.to_owned(), POLICY.1.to_owned()))
    }
}
