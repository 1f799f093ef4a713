//! The `caBundle` of the two webhook configurations: what it contains, whether it is right, and how often it
//! may be written.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;

use super::authority::{Names, Root, bundle};
use jobgate_core::text::value::{Value, json};

/// The owner, in `managedFields`, of the `caBundle` fields while they are written. Afterwards the ownership
/// is given up: server-side apply cannot remove a webhook if another manager owns one of its fields; it would
/// leave the rest of the webhook and fail.
pub(crate) const FIELD_MANAGER: &str = "jobgate-certs";

/// A kind of webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `MutatingWebhookConfiguration`.
    Mutating,
    /// `ValidatingWebhookConfiguration`.
    Validating,
}

impl Kind {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    /// Returns the kind as Kubernetes writes it.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    /// Returns the path of its objects.
    #[must_use]
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutating => "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            Self::Validating => "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        }
    }
}

/// The webhooks of one configuration that call our Service, each with its roots, and whether its bundle has
/// nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    webhooks: Vec<(String, Vec<Root>, bool)>,
    version: String,
    /// The `managedFields` entries of other managers, if there is one of ours, too.
    others: Option<Vec<Value>>,
}

impl Published {
    /// Reads a configuration. Webhooks with another Service are ignored; those with a `url` count as ours.
    #[must_use]
    pub(crate) fn from_configuration(configuration: &Value, names: &Names) -> Self {
        let ours = |webhook: &&Value| match webhook.pointer("/clientConfig/service") {
            Some(service) => service["name"] == names.service() && service["namespace"] == names.namespace(),
            None => true,
        };
        let read = |webhook: &Value| {
            let text = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str).unwrap_or_default();
            let pem = base64::engine::general_purpose::STANDARD.decode(text);
            let (roots, clean) = Root::read_all(pem.as_deref().unwrap_or_default());
            (webhook["name"].as_str().unwrap_or_default().to_owned(), roots, clean && pem.is_ok())
        };
        let webhooks = configuration["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            webhooks: webhooks.iter().filter(ours).map(read).collect(),
            version: configuration
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            others: others(configuration),
        }
    }

    /// Returns the roots that every webhook has; none if there is no webhook.
    #[must_use]
    pub(crate) fn roots(&self) -> Vec<Root> {
        let Some(((_, first, _), rest)) = self.webhooks.split_first() else { return Vec::new() };
        first.iter().filter(|root| rest.iter().all(|(_, roots, _)| roots.contains(root))).cloned().collect()
    }

    /// Returns the roots that any webhook has.
    #[must_use]
    pub(crate) fn any(&self) -> Vec<Root> {
        self.webhooks.iter().flat_map(|(_, roots, _)| roots.iter().cloned()).collect()
    }

    /// Returns whether every webhook has these roots and nothing else, in any order.
    #[must_use]
    pub(crate) fn holds(&self, wanted: &[Root]) -> bool {
        self.webhooks.iter().all(|(_, roots, clean)| {
            *clean && roots.len() == wanted.len() && wanted.iter().all(|root| roots.contains(root))
        })
    }

    /// Returns whether no webhook calls our Service.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.webhooks.is_empty()
    }

    /// Returns whether we own fields of it, by `managedFields`.
    #[must_use]
    pub(crate) fn is_owned(&self) -> bool {
        self.others.is_some()
    }

    /// Returns the merge patch that gives up our ownership. It changes no field, and fails if the
    /// configuration is newer than what was read.
    #[must_use]
    pub(crate) fn release(&self) -> Value {
        let mut left = self.others.clone().unwrap_or_default();
        if left.is_empty() {
            // The API server ignores an empty list, and reads a list of one empty entry as an empty list.
            left.push(json!({}));
        }
        json!({"metadata": {"resourceVersion": self.version, "managedFields": left}})
    }

    /// Returns the server-side apply that sets the roots. It includes the resource version that was read, so
    /// it never changes a newer one.
    #[must_use]
    pub(crate) fn apply(&self, kind: Kind, name: &str, wanted: &[Root]) -> Value {
        let text = base64::engine::general_purpose::STANDARD.encode(bundle(wanted));
        let webhooks: Vec<Value> = self
            .webhooks
            .iter()
            .map(|(name, _, _)| json!({"name": name, "clientConfig": {"caBundle": text}}))
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind.name(),
            "metadata": {"name": name, "resourceVersion": self.version},
            "webhooks": webhooks,
        })
    }
}

/// Returns the `managedFields` entries of other managers, if there is one of ours.
fn others(configuration: &Value) -> Option<Vec<Value>> {
    let managed = configuration.pointer("/metadata/managedFields")?.as_array()?;
    let (ours, others): (Vec<&Value>, Vec<&Value>) =
        managed.iter().partition(|entry| entry["manager"] == FIELD_MANAGER);
    (!ours.is_empty()).then(|| others.into_iter().cloned().collect())
}

/// Limits how often something is done in any minute.
#[derive(Debug)]
pub(crate) struct Pace {
    most: usize,
    times: VecDeque<Duration>,
}

impl Pace {
    const MINUTE: Duration = Duration::from_secs(60);

    /// Allows the action `most` times in any minute.
    #[must_use]
    pub(crate) fn new(most: usize) -> Self {
        Self { most, times: VecDeque::with_capacity(most) }
    }

    /// Returns whether the action is allowed at an uptime.
    #[must_use]
    pub(crate) fn allows(&self, uptime: Duration) -> bool {
        self.times.len() < self.most
            || self.times.front().is_none_or(|first| uptime.saturating_sub(*first) >= Self::MINUTE)
    }

    /// Records the action.
    pub(crate) fn note(&mut self, uptime: Duration) {
        if self.times.len() >= self.most {
            self.times.pop_front();
        }
        self.times.push_back(uptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::samples::{authority, names};

    fn root() -> Root {
        authority().root().clone()
    }

    fn webhook(name: &str, service: &str, pem: Option<&str>) -> Value {
        let mut webhook = json!({"name": name, "clientConfig": {"service": {"name": service, "namespace": names().namespace()}}});
        if let Some(pem) = pem {
            webhook["clientConfig"]["caBundle"] =
                base64::engine::general_purpose::STANDARD.encode(pem).into();
        }
        webhook
    }

    fn read(webhooks: &[Value]) -> Published {
        Published::from_configuration(
            &json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks}),
            &names(),
        )
    }

    #[test]
    fn only_what_leads_to_us_is_written() {
        let published = read(&[
            webhook("a", "jobgate", None),
            webhook("b", "theirs", None),
            json!({"name": "c", "clientConfig": {"url": "https://x"}}),
        ]);
        let apply = published.apply(Kind::Mutating, "jobgate", &[root()]);
        let written: Vec<_> =
            apply["webhooks"].as_array().unwrap().iter().map(|webhook| webhook["name"].clone()).collect();
        assert_eq!(written, ["a", "c"]);
        assert_eq!(apply["metadata"], json!({"name": "jobgate", "resourceVersion": "7"}));
        assert!(read(&[webhook("b", "theirs", None)]).is_empty() && read(&[]).is_empty());
    }

    #[test]
    fn order_does_not_matter_and_anything_else_does() {
        let (a, b) = (root(), root());
        let with = |pem: &str| read(&[webhook("a", "jobgate", Some(pem))]);
        let wanted = [a.clone(), b.clone()];
        assert!(with(&bundle(&[b.clone(), a.clone()])).holds(&wanted));
        for pem in [
            bundle(std::slice::from_ref(&a)),
            bundle(&[a.clone(), b.clone(), root()]),
            String::new(),
            "garbage".to_owned(),
        ] {
            assert!(!with(&pem).holds(&wanted), "{pem}");
        }
        let torn =
            format!("{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", bundle(&wanted));
        assert!(!with(&torn).holds(&wanted));
        let uneven =
            read(&[webhook("a", "jobgate", Some(&bundle(&wanted))), webhook("b", "jobgate", Some(&a.pem()))]);
        assert_eq!((uneven.roots(), uneven.any().len(), uneven.holds(&wanted)), (vec![a], 3, false));
    }

    #[test]
    fn what_is_ours_is_let_go_and_what_is_not_is_kept() {
        let read = |managed: Value| {
            let metadata = json!({"resourceVersion": "7", "managedFields": managed});
            Published::from_configuration(
                &json!({"metadata": metadata, "webhooks": [webhook("a", "jobgate", None)]}),
                &names(),
            )
        };
        let (ours, theirs) = (
            json!({"manager": FIELD_MANAGER, "operation": "Apply"}),
            json!({"manager": "kubectl", "operation": "Apply"}),
        );
        let both = read(json!([theirs, ours]));
        assert!(both.is_owned());
        assert_eq!(both.release(), json!({"metadata": {"resourceVersion": "7", "managedFields": [theirs]}}));
        assert_eq!(read(json!([ours])).release()["metadata"]["managedFields"], json!([{}]));
        assert!(!read(json!([theirs])).is_owned() && !read(Value::Null).is_owned());
    }

    #[test]
    fn six_in_any_minute() {
        let mut pace = Pace::new(6);
        let mut times = Vec::new();
        for tenth in 0..3000 {
            let uptime = Duration::from_millis(tenth * 100);
            if pace.allows(uptime) {
                pace.note(uptime);
                times.push(uptime);
            }
        }
        assert_eq!(times.len(), 5 * 6);
        assert!(times.windows(7).all(|run| run[6] - run[0] >= Pace::MINUTE));
    }
}
