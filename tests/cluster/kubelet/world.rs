//! What happens in a scenario beside its pods: somebody changes, deletes or creates an object, a controller
//! is away for a while.

use std::sync::Arc;

use http::Method;
use jobgate::kinds::Kind;
use jobgate::text::value::Value;

use super::script::{Action, Event, Target};
use super::{Running, Server, lock};

/// Whoever can stop and start the controllers of the cluster.
pub(crate) trait Controllers: Send + Sync {
    /// Carries out the word, `stop` or `start`, on a controller.
    fn carry_out(&self, which: &str, word: &str) -> Result<(), String>;
}

/// A cluster whose controllers nobody stops.
impl Controllers for () {
    fn carry_out(&self, which: &str, word: &str) -> Result<(), String> {
        Err(format!("{word} {which}: nobody can"))
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
        let (which, word) = (which.clone(), word.clone());
        let done = tokio::task::spawn_blocking(move || controllers.carry_out(&which, &word)).await;
        if let Err(error) = done.unwrap_or_else(|e| Err(e.to_string())) {
            refused(&error);
        }
        return;
    }
    let path = match path_of(&running, &event.target, &main) {
        Ok(path) => path,
        Err(error) => return refused(&error),
    };
    let (status, answer) = match event.action {
        Action::Merge(patch) => server.merge(&path, &in_namespace(&running, &patch)).await,
        Action::Delete(policy) => {
            let path = format!("{path}?propagationPolicy={policy}");
            server.send(Method::DELETE, &path, "", String::new()).await
        }
        Action::Create(object) => {
            let object = in_namespace(&running, &object);
            match (&event.target, Kind::of(&object)) {
                (Target::Path(_), _) => server.json(Method::POST, &path, &object).await,
                (_, Some(kind)) => {
                    server.json(Method::POST, &collection(&running.namespace, &kind), &object).await
                }
                (_, None) => return refused("create: say the path of this kind"),
            }
        }
        Action::Controller(..) => return,
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

fn path_of(running: &Running, target: &Target, main: &str) -> Result<String, String> {
    let namespace = &running.namespace;
    match target {
        Target::Main => Ok(main.to_owned()),
        Target::Path(path) => Ok(path.replace("$NS", namespace)),
        Target::Job(number) => {
            let timeline = lock(&running.timeline);
            let name = timeline.job(*number).ok_or(format!("there was no Job {number}"))?;
            Ok(format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}"))
        }
        Target::Object(on) => match on.split('/').collect::<Vec<_>>().as_slice() {
            ["Pod", role] => newest(running, role, None),
            ["Pod", role, index] => newest(running, role, Some(index)),
            [kind, name] => {
                // Of two kinds of one name, the one of the main object.
                let named = |known: &Kind| known.name == *kind;
                let ours =
                    |known: &Kind| named(known) && main.starts_with(&format!("/apis/{}/", known.group));
                let kind = Kind::all().find(ours).or_else(|| Kind::all().find(named));
                let kind = kind.ok_or(format!("{on}: say the path of this kind"))?;
                Ok(format!("{}/{name}", collection(namespace, &kind)))
            }
            _ => Err(format!("{on} is not KIND/NAME or Pod/ROLE/INDEX")),
        },
    }
}

fn newest(running: &Running, role: &str, index: Option<&&str>) -> Result<String, String> {
    let timeline = lock(&running.timeline);
    let number = |index: Option<u64>| index.map(|index| index.to_string()).unwrap_or_default();
    let is_it = |pod: &&super::timeline::Seen| {
        pod.role == role && index.is_none_or(|index| number(pod.index) == **index)
    };
    let pod = timeline.pods.iter().rev().find(is_it).ok_or(format!("there was no pod of role {role}"))?;
    Ok(pod.path.clone())
}
