//! What a cluster holds of a few named things at one moment, for a run that ends: claims and the objects that manifests would replace. Read-only.

use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use serde_json::Value;

use super::fetch::{self, Failure, LARGEST_OBJECT};
use crate::facts::{Claim, Fact, FactTable};
use crate::finding::Source;
use crate::workload::Kind;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many questions are open at a time.
const PARALLEL: usize = 8;

/// One object that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A claim, by namespace and name.
    Claim(String, String),
    /// A workload, by kind, namespace and name.
    Object(Kind, String, String),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Claims; those that could not be read are unknown.
    pub claims: FactTable,
    /// Workloads that exist.
    pub objects: Vec<Value>,
    /// What could not be read, and why, each once: for people.
    pub problems: Vec<String>,
}

/// Reads what is wanted; `told` is called after each answer. What cannot be read becomes unknown, and is a problem: never an error.
pub async fn snapshot(client: &Client, wanted: Vec<Wanted>, told: impl Fn()) -> Snapshot {
    let mut answers = futures::stream::iter(wanted)
        .map(|wanted| async move {
            let answer = match tokio::time::timeout(PATIENCE, read(client, &wanted)).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::Silence),
            };
            (wanted, answer)
        })
        .buffered(PARALLEL);
    let mut found = Snapshot::default();
    while let Some((wanted, answer)) = answers.next().await {
        told();
        let unreachable = matches!(answer, Err(Failure::Transport(_) | Failure::Silence));
        found.take(wanted, answer);
        if unreachable {
            // Whoever does not answer once would be waited for again and again.
            found.problems.push("the other questions were not asked".to_owned());
            break;
        }
    }
    found
}

impl Snapshot {
    fn take(&mut self, wanted: Wanted, answer: Result<Value, Failure>) {
        match (wanted, answer) {
            (Wanted::Claim(namespace, name), Ok(object)) => {
                let claim = Claim::from_object(&object, Source::Cluster).map_or(Fact::Unknown, Fact::Known);
                self.claims.claims.insert((namespace, name), claim);
            }
            (Wanted::Claim(namespace, name), Err(Failure::NotFound)) => _ = self.claims.claims.insert((namespace, name), Fact::Absent),
            (Wanted::Object(..), Ok(object)) => self.objects.push(object),
            (Wanted::Object(..), Err(Failure::NotFound)) => {}
            (wanted, Err(failure)) => {
                let what = match wanted {
                    Wanted::Claim(namespace, _) => format!("claims in the namespace `{namespace}`"),
                    Wanted::Object(kind, namespace, _) => format!("{} in the namespace `{namespace}`", kind.adapter().resource),
                };
                let why = std::error::Error::source(&failure).map(|source| format!(": {source}")).unwrap_or_default();
                let problem = format!("cannot read {what}: {failure}{why}");
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
    }
}

async fn read(client: &Client, wanted: &Wanted) -> Result<Value, Failure> {
    let (path, namespace, resource, name) = match wanted {
        Wanted::Claim(namespace, name) => ("api/v1".to_owned(), namespace, "persistentvolumeclaims", name),
        Wanted::Object(kind, namespace, name) => {
            let adapter = kind.adapter();
            (format!("apis/{}/{}", adapter.group, adapter.version), namespace, adapter.resource, name)
        }
    };
    // What is no name exists in no cluster, and must not get into the path of a request.
    if !fetch::is_name(namespace) || !fetch::is_name(name) {
        return Err(Failure::NotFound);
    }
    let response = match fetch::get(client, format!("/{path}/namespaces/{namespace}/{resource}/{name}")).await {
        // A cluster without the kind has no object of it, and says so in plain text.
        Err(Failure::Foreign | Failure::Garbage(_)) if matches!(wanted, Wanted::Object(Kind::PyTorchJob, ..)) => return Err(Failure::NotFound),
        response => response?,
    };
    Ok(serde_json::from_slice(&fetch::read(response, LARGEST_OBJECT).await?)?)
}
