//! One webhook of a configuration, and what it calls.

use crate::certs::authority::Root;
use crate::certs::publish::Kind;
use jobgate_core::text::value::Value;

/// One webhook of one of the two configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// The kind of its configuration.
    pub(crate) kind: Kind,
    /// The webhook.
    pub(crate) webhook: &'a Value,
}

impl<'a> Entry<'a> {
    /// Returns its name.
    #[must_use]
    pub(crate) fn name(self) -> &'a str {
        self.webhook["name"].as_str().unwrap_or_default()
    }

    /// Returns the Service that it calls.
    #[must_use]
    pub(crate) fn service(self) -> Option<&'a Value> {
        self.webhook.pointer("/clientConfig/service").filter(|service| service.is_object())
    }

    /// Returns the URL that it calls.
    #[must_use]
    pub(crate) fn url(self) -> Option<&'a str> {
        self.webhook.pointer("/clientConfig/url").and_then(Value::as_str)
    }

    /// Returns the port of the Service.
    #[must_use]
    pub(crate) fn port(self) -> u16 {
        let port = self.service().and_then(|service| service["port"].as_u64());
        port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443)
    }

    /// Returns the name that must be in the certificate.
    #[must_use]
    pub(crate) fn server_name(self) -> Option<String> {
        if let Some(service) = self.service() {
            return Some(format!("{}.{}.svc", service["name"].as_str()?, service["namespace"].as_str()?));
        }
        let uri: http::Uri = self.url()?.parse().ok()?;
        Some(uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned())
    }

    /// Returns the decoded `caBundle`, if there is one.
    #[must_use]
    pub(crate) fn bundle(self) -> Option<Result<Vec<u8>, base64::DecodeError>> {
        use base64::Engine as _;
        let text = self.webhook.pointer("/clientConfig/caBundle")?.as_str()?;
        (!text.is_empty()).then(|| base64::engine::general_purpose::STANDARD.decode(text))
    }

    /// Returns the readable certificates in `caBundle`.
    #[must_use]
    pub(crate) fn roots(self) -> Vec<Root> {
        self.bundle().and_then(Result::ok).map(|pem| Root::read_all(&pem).0).unwrap_or_default()
    }

    /// Returns whether requests are rejected if it does not answer, which is the default.
    #[must_use]
    pub(crate) fn fails_closed(self) -> bool {
        self.webhook["failurePolicy"] != "Ignore"
    }

    /// Returns its timeout in seconds.
    #[must_use]
    pub(crate) fn timeout(self) -> u64 {
        self.webhook["timeoutSeconds"].as_u64().unwrap_or(10)
    }
}

/// Returns the webhooks of a configuration.
pub(in super::super) fn webhooks(configuration: &Value) -> &[Value] {
    configuration["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default()
}
