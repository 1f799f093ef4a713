//! What happens in a scenario beside its pods: somebody changes, deletes or creates an object, a controller
//! is away for a while.

use std::sync::Arc;

use http::Method;
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};

use super::event::{Action, Event, OTHER_KINDS, Target, Word};
use super::{Running, Server, lock};

/// Whoever can stop and start the controllers of the cluster.
pub(crate) trait Controllers: Send + Sync {
    /// Carries out the word on a controller.
    fn carry_out(&self, which: &str, word: Word) -> Result<(), String>;
}

/// A cluster whose controllers nobody stops.
impl Controllers for () {
    fn carry_out(&self, which: &str, word: Word) -> Result<(), String> {
        Err(format!("{word:?} {which}: nobody can"))
    }
}

/// Waits for the time of an event, and has it happen.
pub(super) async fn happen(
    server: Server,
    running: Arc<Running>,
    event: Event,
    main: String,
    controllers: Arc<dyn Controllers>,
) {
    tokio::time::sleep(event.at.saturating_sub(running.now())).await;
    let refused = |message: &str| {
        let at = running.now().as_secs_f64();
        lock(&running.timeline).refused.push((at, message.to_owned()));
    };
    if let Action::Controller(which, word) = &event.action {
        // It waits for processes.
        let (which, word) = (which.clone(), *word);
        let done = tokio::task::spawn_blocking(move || controllers.carry_out(&which, word)).await;
        if let Err(error) = done.unwrap_or_else(|e| Err(e.to_string())) {
            refused(&error);
        }
        return;
    }
    if let Action::Dashboard(what) = event.action {
        return lock(&running.ray).happen(what, running.now());
    }
    let path = match path_of(&server, &running, &event.target, &main).await {
        Ok(path) => path,
        Err(error) => return refused(&error),
    };
    let (status, answer) = match event.action {
        Action::Merge(patch) => server.merge(&path, &in_namespace(&running, &patch)).await,
        Action::Status(patch) => {
            let of_its_own = if event.target == Target::PodGroup { "" } else { "/status" };
            server.merge(&format!("{path}{of_its_own}"), &in_namespace(&running, &patch)).await
        }
        Action::Delete(policy) => {
            let path = format!("{path}?propagationPolicy={policy:?}");
            server.send(Method::DELETE, &path, "", String::new()).await
        }
        Action::Create(object) => {
            let object = in_namespace(&running, &object);
            match (&event.target, Kind::from_object(&object)) {
                (Target::Path(_), _) => server.json(Method::POST, &path, &object).await,
                (_, Some(kind)) => {
                    server.json(Method::POST, &collection(&running.namespace, &kind), &object).await
                }
                (_, None) => return refused("create: say the path of this kind"),
            }
        }
        Action::Command(action) => {
            let (_, job) = server.send(Method::GET, &path, "", String::new()).await;
            let commands = format!("/apis/bus.volcano.sh/v1alpha1/namespaces/{}/commands", running.namespace);
            let name = &job["metadata"]["name"];
            let target = json!({
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name.clone(),
                "uid": job["metadata"]["uid"].clone(), "controller": true,
            });
            let command = json!({
                "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": format!("{action:?}"),
                "metadata": {"generateName": format!("{}-", name.as_str().unwrap_or("none"))}, "target": target,
            });
            server.json(Method::POST, &commands, &command).await
        }
        Action::Controller(..) | Action::Dashboard(_) => return,
    };
    if status >= 300 || status == 0 {
        running.refused(&path, status, &answer);
    }
}

/// Puts the scenario's namespace wherever `$NS` is.
fn in_namespace(running: &Running, object: &serde_json::Value) -> Value {
    let text = object.to_string().replace("$NS", &running.namespace);
    serde_json::from_str(&text).unwrap_or_default()
}

fn collection(namespace: &str, kind: &Kind) -> String {
    let within = if kind.cluster_scoped { String::new() } else { format!("namespaces/{namespace}/") };
    format!("/apis/{}/{}/{within}{}", kind.group, kind.version, kind.resource)
}

async fn path_of(server: &Server, running: &Running, target: &Target, main: &str) -> Result<String, String> {
    let namespace = &running.namespace;
    match target {
        Target::Main => Ok(main.to_owned()),
        Target::Path(path) => Ok(path.replace("$NS", namespace)),
        Target::Job(number) => {
            let timeline = lock(&running.timeline);
            let name = timeline.job(*number).ok_or(format!("there was no Job {number}"))?;
            Ok(format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}"))
        }
        Target::Pod(role, index) => newest(running, role, *index),
        Target::Named(kind, name) => {
            // Of two kinds of one name, the one of the main object.
            let named = |known: &Kind| known.name == *kind;
            let ours = |known: &Kind| named(known) && main.starts_with(&format!("/apis/{}/", known.group));
            if let Some(kind) = Kind::all().find(ours).or_else(|| Kind::all().find(named)) {
                return Ok(format!("{}/{name}", collection(namespace, &kind)));
            }
            let other = OTHER_KINDS.iter().find(|(known, ..)| known == kind);
            let (_, group, resource) = other.ok_or(format!("{kind}/{name}: say the path of this kind"))?;
            Ok(format!("/apis/{group}/namespaces/{namespace}/{resource}/{name}"))
        }
        Target::PodGroup => {
            let groups = lock(&running.groups);
            Ok(running.group(groups.newest().ok_or("there is no PodGroup")?))
        }
        Target::RayCluster => {
            let timeline = lock(&running.timeline);
            let (_, name) = timeline.cluster("").ok_or("there was no RayCluster with a pod")?;
            Ok(format!("/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{name}"))
        }
        Target::Queue => Ok(format!("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{namespace}")),
        Target::Workload => {
            let all = format!("/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads");
            let (_, list) = server.send(Method::GET, &all, "", String::new()).await;
            let owner = main.rsplit('/').next().unwrap_or_default();
            let is_owned = |workload: &&Value| {
                let owners = workload["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                owners.into_iter().any(|reference| reference["name"] == owner)
            };
            let workload = list["items"].as_array().into_iter().flatten().find(is_owned);
            let name = workload.and_then(|workload| workload["metadata"]["name"].as_str());
            Ok(format!("{all}/{}", name.ok_or(format!("there is no Workload of {owner}"))?))
        }
    }
}

fn newest(running: &Running, role: &str, index: Option<u64>) -> Result<String, String> {
    let timeline = lock(&running.timeline);
    let is_it =
        |pod: &&super::timeline::Seen| pod.role == role && index.is_none_or(|index| pod.index == Some(index));
    let pod = timeline.pods.iter().rev().find(is_it).ok_or(format!("there was no pod of role {role}"))?;
    Ok(pod.path.clone())
}
