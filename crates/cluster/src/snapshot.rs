//! Reads a few named objects of a cluster at one moment: claims and the objects that manifests would replace.

use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;

use super::fetch::{self, Failure, MAX_OBJECT_BYTES};
use jobgate_core::judge::facts::{FactTable, WantedObject};
use jobgate_core::kinds::{ApiResource, Kind};
use jobgate_core::text::value::Value;

/// How long one answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent requests.
const MAX_PARALLEL: usize = 8;

/// One object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A claim, or another object that rules look up.
    Fact(WantedObject),
    /// A workload, by kind, namespace and name.
    Object(Kind, String, String),
    /// A namespace, which must exist before anything is created in it.
    Namespace(String),
}

/// Where namespaces are.
const NAMESPACES: ApiResource =
    ApiResource { group: "", version: "v1", name: "namespaces", cluster_scoped: true, is_optional: false };

impl Wanted {
    /// Returns where the object is, its namespace and its name.
    fn place(&self) -> (ApiResource, &str, &str) {
        match self {
            Self::Fact(WantedObject { kind, namespace, name }) => {
                (kind.definition().resource, namespace, name)
            }
            // An object without a namespace counts as new.
            Self::Object(kind, namespace, name) => {
                (ApiResource { cluster_scoped: false, ..ApiResource::from_kind(*kind) }, namespace, name)
            }
            Self::Namespace(name) => (NAMESPACES, "", name),
        }
    }

    /// Says what cannot be read.
    fn words(&self) -> String {
        let (title, namespace) = match self {
            Self::Fact(WantedObject { kind, namespace, .. }) => (kind.definition().title, namespace),
            Self::Object(kind, namespace, _) => (kind.resource, namespace),
            Self::Namespace(namespace) => return format!("the namespace `{namespace}`"),
        };
        if self.place().0.cluster_scoped {
            return title.to_owned();
        }
        format!("{title} in the namespace `{namespace}`")
    }
}

/// The objects that were found.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Claims and other objects; those that could not be read are unknown.
    pub claims: FactTable,
    /// Workloads that exist.
    pub objects: Vec<Value>,
    /// Namespaces that do not exist; none without permission to read them.
    pub absent_namespaces: Vec<String>,
    /// Human-readable reasons why something could not be read, without duplicates.
    pub problems: Vec<String>,
    /// Whether the API server stopped answering: the rest was not read.
    pub broken: bool,
}

/// Reads objects; `progress` is called after each answer. A failure makes an object unknown and is listed as
/// a problem, never an error.
pub async fn snapshot(client: &Client, wanted: Vec<Wanted>, progress: impl Fn()) -> Snapshot {
    let mut answers = futures::stream::iter(wanted)
        .map(|wanted| async move {
            let answer = match tokio::time::timeout(REQUEST_TIMEOUT, read(client, &wanted)).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::Silence),
            };
            (wanted, answer)
        })
        .buffered(MAX_PARALLEL);
    let mut found = Snapshot::default();
    while let Some((wanted, answer)) = answers.next().await {
        progress();
        let unreachable = matches!(answer, Err(Failure::Transport(_) | Failure::Silence));
        found.take(wanted, answer);
        if unreachable {
            // Otherwise each request would wait for its timeout.
            found.broken = true;
            break;
        }
    }
    found
}

impl Snapshot {
    /// Adds a later snapshot.
    pub fn add(&mut self, later: Self) {
        let Self { claims, objects, absent_namespaces, problems, broken } = later;
        self.claims.extend(claims);
        self.objects.extend(objects);
        self.absent_namespaces.extend(absent_namespaces);
        for problem in problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        self.broken |= broken;
    }

    fn take(&mut self, wanted: Wanted, answer: Result<Value, Failure>) {
        match (wanted, answer) {
            (Wanted::Fact(wanted), Ok(object)) => self.claims.enter(wanted, Some(&object)),
            (Wanted::Fact(wanted), Err(Failure::NotFound)) => self.claims.enter(wanted, None),
            (Wanted::Object(..), Ok(object)) => self.objects.push(object),
            (Wanted::Namespace(namespace), Err(Failure::NotFound)) => self.absent_namespaces.push(namespace),
            (Wanted::Object(..), Err(Failure::NotFound))
            | (Wanted::Namespace(_), Ok(_) | Err(Failure::Forbidden)) => {}
            (wanted, Err(failure)) => {
                let what = wanted.words();
                let problem = format!("cannot read {what}: {}", super::chain(&failure));
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
    }
}

async fn read(client: &Client, wanted: &Wanted) -> Result<Value, Failure> {
    let (resource, namespace, name) = wanted.place();
    // An invalid name exists in no cluster, and must not become part of a path.
    if !(resource.cluster_scoped || fetch::is_name(namespace)) || !fetch::is_name(name) {
        return Err(Failure::NotFound);
    }
    let path = resource.object(resource.version, namespace, name);
    let response = match fetch::get(client, path).await {
        // A cluster without the kind has no object of it, and answers in plain text.
        Err(Failure::Foreign | Failure::Garbage(_)) if resource.is_optional => {
            return Err(Failure::NotFound);
        }
        response => response?,
    };
    Ok(serde_json::from_slice(&fetch::read(response, MAX_OBJECT_BYTES).await?)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use jobgate_core::judge::facts::{Claim, Fact, FactKind};
    use jobgate_core::text::value::json;

    /// Asks a fake API server, which answers a path with a status and a text, or not at all.
    /// Returns what was found, and the paths that were asked for.
    fn ask(
        answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
        wanted: Vec<Wanted>,
    ) -> (Snapshot, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            seen.lock().unwrap().push(path.clone());
            let (status, text) = answer(&path);
            async move {
                match status {
                    0 => Err(std::io::Error::other("no route to host")),
                    status => {
                        Ok(Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap())
                    }
                }
            }
        });
        let (told, all) = (Cell::new(0), wanted.len());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(async {
            snapshot(&Client::new(service, "default"), wanted, || told.set(told.get() + 1)).await
        });
        assert!(told.get() <= all);
        let asked = asked.lock().unwrap().clone();
        (found, asked)
    }

    fn not_found() -> (u16, String) {
        (404, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).to_string())
    }

    fn claim(name: &str) -> Wanted {
        Wanted::Fact(WantedObject::new(FactKind::Claim, "team-a", name))
    }

    fn object(kind: Kind, name: &str) -> Wanted {
        Wanted::Object(kind, "team-a".to_owned(), name.to_owned())
    }

    fn fact(found: &Snapshot, name: &str) -> Option<Fact<Claim>> {
        found.claims.claims.get(&("team-a".to_owned(), name.to_owned())).cloned()
    }

    #[test]
    fn claims_and_objects_are_read_by_their_names() {
        let wanted = vec![
            claim("there"),
            claim("gone"),
            claim("modeless"),
            object(Kind::JOB, "train"),
            object(Kind::CRON_JOB, "new"),
        ];
        let answer = |path: &str| match path {
            "/api/v1/namespaces/team-a/persistentvolumeclaims/there" => (
                200,
                json!({"kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteOnce"]}})
                    .to_string(),
            ),
            "/api/v1/namespaces/team-a/persistentvolumeclaims/modeless" => {
                (200, json!({"spec": {}}).to_string())
            }
            "/apis/batch/v1/namespaces/team-a/jobs/train" => {
                (200, json!({"kind": "Job", "metadata": {"uid": "u"}}).to_string())
            }
            _ => not_found(),
        };
        let (found, asked) = ask(answer, wanted);
        assert!(matches!(fact(&found, "there"), Some(Fact::Known(claim)) if claim.has("ReadWriteOnce")));
        assert_eq!(
            (fact(&found, "gone"), fact(&found, "modeless")),
            (Some(Fact::Absent), Some(Fact::Unknown))
        );
        assert_eq!(found.objects, [json!({"kind": "Job", "metadata": {"uid": "u"}})]);
        assert_eq!((found.problems.len(), asked.len()), (0, 5));
    }

    #[test]
    fn a_kind_that_is_not_served_has_no_objects() {
        let unserved = |_: &str| (404, "404 page not found".to_owned());
        let (found, _) = ask(unserved, vec![object(Kind::PY_TORCH_JOB, "train")]);
        assert_eq!((found.objects.len(), found.problems), (0, vec![]));
        // A server that does not serve Jobs is none.
        let (strange, _) = ask(unserved, vec![object(Kind::JOB, "train")]);
        assert_eq!(strange.problems.len(), 1);
    }

    #[test]
    fn runtimes_are_read_from_where_their_kind_is() {
        let wanted = |kind: &str, name: &str| {
            let kind = Kind::from_runtime(kind).expect("a kind of runtime");
            WantedObject::new(FactKind::Runtime(kind), "team-a", name)
        };
        let answer = |path: &str| match path.strip_prefix("/apis/trainer.kubeflow.org/v1alpha1/") {
            Some("clustertrainingruntimes/torch") => {
                let object =
                    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"});
                (200, object.to_string())
            }
            Some("namespaces/team-a/trainingruntimes/hidden") => (403, String::new()),
            _ => (404, "404 page not found".to_owned()),
        };
        let all = [
            wanted("ClusterTrainingRuntime", "torch"),
            wanted("TrainingRuntime", "torch"),
            wanted("TrainingRuntime", "hidden"),
            wanted("TrainingRuntime", "../secrets/x"),
        ];
        let (found, asked) = ask(answer, all.iter().cloned().map(Wanted::Fact).collect());
        let known: Vec<bool> = all
            .iter()
            .map(|wanted| matches!(found.claims.objects.get(wanted), Some(Fact::Known(_))))
            .collect();
        assert_eq!((known, asked.len()), (vec![true, false, false, false], 3));
        assert_eq!(found.claims.objects.get(&all[1]), Some(&Fact::Absent));
        assert_eq!(found.claims.objects.get(&all[2]), None);
        assert_eq!(
            found.problems,
            ["cannot read trainingruntimes in the namespace `team-a`: the API server forbids it"]
        );
    }

    #[test]
    fn what_may_not_be_read_is_told_once_and_stays_unknown() {
        let answer = |path: &str| {
            if path.contains("persistentvolumeclaims") { (403, String::new()) } else { not_found() }
        };
        let (found, asked) = ask(answer, vec![claim("a"), claim("b"), object(Kind::JOB, "train")]);
        assert_eq!(
            found.problems,
            ["cannot read claims in the namespace `team-a`: the API server forbids it"]
        );
        assert_eq!((fact(&found, "a"), asked.len()), (None, 3));
    }

    #[test]
    fn a_namespace_that_is_not_there_is_told_and_one_that_may_not_be_read_is_not() {
        let answer = |path: &str| match path {
            "/api/v1/namespaces/there" => (200, json!({"kind": "Namespace"}).to_string()),
            "/api/v1/namespaces/hidden" => (403, String::new()),
            _ => not_found(),
        };
        let (found, asked) =
            ask(answer, ["there", "hidden", "gone"].map(|name| Wanted::Namespace(name.to_owned())).into());
        assert_eq!(
            (found.absent_namespaces, found.problems, asked.len()),
            (vec!["gone".to_owned()], vec![], 3)
        );
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_not_asked_for_long() {
        let (found, asked) =
            ask(|_| (0, String::new()), (0..100).map(|nth| claim(&format!("c{nth}"))).collect());
        assert!(found.broken && found.problems.len() == 1);
        assert!(
            found.problems[0]
                .starts_with("cannot read claims in the namespace `team-a`: reach the API server: "),
            "{:?}",
            found.problems
        );
        assert!(asked.len() <= 2 * MAX_PARALLEL, "{}", asked.len());
    }

    #[test]
    fn what_is_no_name_reaches_no_path() {
        let wanted = vec![
            Wanted::Fact(WantedObject::new(FactKind::Claim, "../kube-system", "a")),
            claim("a/../b"),
            claim("a?watch=true"),
            object(Kind::JOB, "$NAME"),
            Wanted::Object(Kind::JOB, String::new(), "train".to_owned()),
        ];
        let (found, asked) = ask(|_| not_found(), wanted);
        assert_eq!((asked.len(), found.problems.len(), found.objects.len()), (0, 0, 0));
    }

    #[test]
    fn an_answer_that_is_no_object_is_a_problem() {
        let (found, _) = ask(|_| (200, "<html>".to_owned()), vec![object(Kind::CRON_JOB, "n")]);
        assert!(
            found.problems[0].starts_with("cannot read cronjobs in the namespace `team-a`: parse the answer"),
            "{:?}",
            found.problems
        );
    }
}
