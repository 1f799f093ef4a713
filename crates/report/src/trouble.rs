//! Objects of a cluster that somebody should look at now: with pods that do not end, or are refused.

use jiff::Timestamp;
use serde::Serialize;

use super::impact::{Impact, ROWS, as_text};
use super::text::{clean, plural, thousands};

/// An object whose pods the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its kind, as in kubectl.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Since when, as far as events say it; else when it was created.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
    /// What the API server says; nothing where events cannot be read.
    pub message: Option<String>,
}

/// A Job with pods that do not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The number of its terminating pods, from its status.
    pub terminating: i64,
    /// Since when, at least.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
    /// The pods, the oldest first; none where they could not be listed.
    pub pods: Vec<StuckPod>,
}

/// A pod that does not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StuckPod {
    /// Its name.
    pub name: String,
    /// The node that it is on.
    pub node: String,
    /// When its deletion was requested.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
}

impl Impact {
    /// Returns lines about objects that somebody should look at now: with pods that do not end, or are refused.
    pub(super) fn in_trouble(&self, full: bool) -> Vec<String> {
        let mut lines = self.do_not_end(full);
        lines.extend(self.are_refused(full));
        lines
    }

    /// Returns a line for each Job with pods that do not end, and one before them, if there are any.
    fn do_not_end(&self, full: bool) -> Vec<String> {
        if self.terminating.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![format!(
            "{} with pods that have been terminating for more than ten minutes, as on a node that stopped \
             answering (docs/operate.md says how to get out)",
            plural(self.terminating.len(), "Job")
        )];
        let shown = if full { self.terminating.len() } else { self.terminating.len().min(ROWS) };
        for Stuck { namespace, name, terminating, since, pods } in &self.terminating[..shown] {
            let pods: Vec<String> = pods
                .iter()
                .map(|pod| format!("{} on {} since {}", clean(&pod.name), clean(&pod.node), pod.since))
                .collect();
            let what = match pods.is_empty() {
                true => format!(
                    "{} since {since} or earlier",
                    plural(usize::try_from(*terminating).unwrap_or_default(), "pod")
                ),
                false => pods.join(", "),
            };
            lines.push(format!("  job/{}/{}: {what}", clean(namespace), clean(name)));
        }
        if shown < self.terminating.len() {
            lines.push(format!("  … and {} more (`--full`)", thousands(self.terminating.len() - shown)));
        }
        lines
    }

    /// Returns a line for each object whose pods are refused, and one before them, if there are any.
    fn are_refused(&self, full: bool) -> Vec<String> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        let what = plural(self.refused.len(), "object");
        let mut lines = vec![format!("{what} whose pods the API server refuses")];
        let shown = if full { self.refused.len() } else { self.refused.len().min(ROWS) };
        for Refused { kind, namespace, name, since, message } in &self.refused[..shown] {
            let why = message
                .as_deref()
                .map_or("its operator has written no status, and events cannot be read", |text| text);
            let object = format!("{}/{}/{}", clean(kind), clean(namespace), clean(name));
            lines.push(format!("  {object} since {since}: {}", clean(why)));
        }
        if shown < self.refused.len() {
            lines.push(format!("  … and {} more (`--full`)", thousands(self.refused.len() - shown)));
        }
        lines
    }
}
