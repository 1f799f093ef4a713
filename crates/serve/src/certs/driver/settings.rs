//! The settings of managed certificates: the names of the objects, and how long certificates last.

use crate::certs::authority::Names;
use crate::certs::plan::Lifetimes;
use crate::certs::publish::Kind;

/// The objects that are managed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Service, and the namespace of the Secret.
    pub names: Names,
    /// The Secret.
    pub secret: String,
    /// The `MutatingWebhookConfiguration`.
    pub mutating: String,
    /// The `ValidatingWebhookConfiguration`.
    pub validating: String,
    /// How long certificates last.
    pub lifetimes: Lifetimes,
}

impl Settings {
    /// Returns the settings for a Service, with the default names of the objects.
    #[must_use]
    pub fn new(names: Names) -> Self {
        Self {
            names,
            secret: "jobgate-tls".to_owned(),
            mutating: "jobgate".to_owned(),
            validating: "jobgate".to_owned(),
            lifetimes: Lifetimes::default(),
        }
    }

    pub(super) fn configuration(&self, kind: Kind) -> &str {
        match kind {
            Kind::Mutating => &self.mutating,
            Kind::Validating => &self.validating,
        }
    }

    pub(super) fn uri(&self, kind: Kind) -> String {
        format!("{}/{}", kind.path(), self.configuration(kind))
    }

    pub(super) fn secret_uri(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{}", self.names.namespace(), self.secret)
    }
}
