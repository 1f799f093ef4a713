//! The events of a scenario: what happens at a time, whatever the pods do.

use std::time::Duration;

use jobgate::kinds::Kind;
use serde::Deserialize;

use super::script::{seconds, text};

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Since the main object was created.
    pub(crate) at: Duration,
    pub(crate) target: Target,
    pub(crate) action: Action,
}

/// To what it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The object that the scenario is about.
    Main,
    /// The n-th Job, in the order of their first pods.
    Job(u64),
    /// An object by its kind and name.
    Named(String, String),
    /// The newest pod of a role, and of a number if there is one.
    Pod(String, Option<u64>),
    /// The newest group of pods of Volcano that is still there.
    PodGroup,
    /// The newest Ray cluster.
    RayCluster,
    /// Kueue's ClusterQueue of the scenario, which has the name of its namespace.
    Queue,
    /// Kueue's Workload of the main object.
    Workload,
    /// An object by its path at the API server; `$NS` is the scenario's namespace.
    Path(String),
}

/// What happens to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// A merge patch.
    Merge(serde_json::Value),
    /// A merge patch of its status.
    Status(serde_json::Value),
    /// A deletion with this propagation policy.
    Delete(Propagation),
    /// This object is created.
    Create(serde_json::Value),
    /// A controller is stopped, started or both: which one, and the word.
    Controller(String, Word),
    /// A Volcano Command with this action.
    Command(Command),
    Dashboard(Dashboard),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What is done with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Stop,
    Start,
    Restart,
}

/// The actions that people ask Volcano for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Command {
    AbortJob,
    CompleteJob,
    RestartJob,
    RestartPartition,
    RestartPod,
    RestartTask,
    ResumeJob,
    SyncJob,
    TerminateJob,
}

/// What happens to the dashboards of Ray.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dashboard {
    /// They do not answer.
    Down,
    Up,
    /// They know no program any more.
    Forget,
    /// Somebody stops all programs.
    Stop,
}

/// The kinds that no rule of Jobgate is about, with their group, version and resource.
pub(super) const OTHER_KINDS: &[(&str, &str, &str)] = &[
    ("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups"),
    ("RayCluster", "ray.io/v1", "rayclusters"),
    ("StatefulSet", "apps/v1", "statefulsets"),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventText {
    at: f64,
    on: Option<String>,
    path: Option<String>,
    job: Option<u64>,
    patch: Option<serde_json::Value>,
    merge: Option<serde_json::Value>,
    status: Option<serde_json::Value>,
    delete: Option<Propagation>,
    create: Option<serde_json::Value>,
    controller: Option<String>,
    which: Option<String>,
    command: Option<Command>,
    dashboard: Option<Dashboard>,
}

impl Event {
    /// Reads an event.
    pub(super) fn read(entry: &serde_json::Value) -> Result<Self, String> {
        let mut event: EventText = Deserialize::deserialize(entry).map_err(text)?;
        // An object of a kind that is not known says where it is created.
        let own = event.create.as_mut().and_then(|object| object.as_object_mut()?.remove("path"));
        let own = own.and_then(|path| path.as_str().map(str::to_owned));
        let target = match (event.on, event.path.or(own), event.job) {
            (None, None, None) => Target::Main,
            (Some(on), None, None) => Target::read(&on)?,
            (None, Some(path), None) => Target::Path(path),
            (None, None, Some(job)) => Target::Job(job),
            _ => return Err("an event has one of on, path and job".to_owned()),
        };
        let which = event.which;
        let mut actions = [
            event.patch.map(|spec| Action::Merge(serde_json::json!({"spec": spec}))),
            event.merge.map(Action::Merge),
            event.status.map(|status| Action::Status(serde_json::json!({"status": status}))),
            event.delete.map(Action::Delete),
            event.create.map(Action::Create),
            event.controller.map(|text| controller(&text, which)),
            event.command.map(Action::Command),
            event.dashboard.map(Action::Dashboard),
        ]
        .into_iter()
        .flatten();
        match (actions.next(), actions.next()) {
            (Some(action), None) => Ok(Self { at: seconds(event.at)?, target, action }),
            _ => {
                Err("an event does one thing: patch, merge, status, delete, create, controller, command or \
                      dashboard"
                    .to_owned())
            }
        }
    }
}

impl Target {
    fn read(on: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("on {on}: {why}"));
        match on.split('/').collect::<Vec<_>>().as_slice() {
            ["PodGroup"] => Ok(Self::PodGroup),
            ["RayCluster"] => Ok(Self::RayCluster),
            ["CQ"] => Ok(Self::Queue),
            ["WL"] => Ok(Self::Workload),
            ["Pod", role] => Ok(Self::Pod((*role).to_owned(), None)),
            ["Pod", role, index] => match index.parse() {
                Ok(index) => Ok(Self::Pod((*role).to_owned(), Some(index))),
                Err(_) => wrong("the last part is a number"),
            },
            [kind, name] => {
                let is_known = OTHER_KINDS.iter().any(|(known, ..)| known == kind)
                    || Kind::all().any(|known| known.name == *kind);
                if is_known {
                    Ok(Self::Named((*kind).to_owned(), (*name).to_owned()))
                } else {
                    wrong("say the path of this kind")
                }
            }
            _ => wrong("it is not KIND/NAME, Pod/ROLE/INDEX, PodGroup, RayCluster, CQ or WL"),
        }
    }
}

/// Reads what is done with a controller: `stop` with its name beside it, `stop-NAME`, or the name alone of one
/// that is started.
fn controller(text: &str, which: Option<String>) -> Action {
    let words = [("stop", Word::Stop), ("start", Word::Start), ("restart", Word::Restart)];
    for (word, meaning) in words {
        if text == word {
            return Action::Controller(which.unwrap_or_else(|| "job".to_owned()), meaning);
        }
        if let Some(name) = text.strip_prefix(word).and_then(|rest| rest.strip_prefix('-')) {
            return Action::Controller(name.to_owned(), meaning);
        }
    }
    Action::Controller(text.to_owned(), Word::Start)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(entry: serde_json::Value) -> Event {
        Event::read(&entry).unwrap_or_else(|error| panic!("{entry}: {error}"))
    }

    #[test]
    fn events_say_when_to_what_and_what() {
        let event = read(json!({"at": 5, "patch": {"suspend": true}}));
        assert_eq!((event.at, &event.target), (Duration::from_secs(5), &Target::Main));
        assert_eq!(event.action, Action::Merge(json!({"spec": {"suspend": true}})));
        let event = read(json!({"at": 1.5, "job": 1, "delete": "Foreground"}));
        assert_eq!((event.target, event.action), (Target::Job(1), Action::Delete(Propagation::Foreground)));
        let event = read(json!({"at": 1, "on": "PodGroup", "status": {"phase": "Unknown"}}));
        assert_eq!(event.action, Action::Status(json!({"status": {"phase": "Unknown"}})));
    }

    #[test]
    fn objects_are_named_in_several_ways() {
        for (on, target) in [
            ("Pod/w/0", Target::Pod("w".to_owned(), Some(0))),
            ("Pod/head", Target::Pod("head".to_owned(), None)),
            ("Job/j-w-0", Target::Named("Job".to_owned(), "j-w-0".to_owned())),
            ("RayCluster/ext", Target::Named("RayCluster".to_owned(), "ext".to_owned())),
            ("RayCluster", Target::RayCluster),
            ("PodGroup", Target::PodGroup),
            ("CQ", Target::Queue),
            ("WL", Target::Workload),
        ] {
            assert_eq!(read(json!({"at": 1, "on": on, "delete": "Background"})).target, target);
        }
        // An object that is created may say where.
        let event = read(json!({"at": 1, "create": {"kind": "LimitRange", "path": "/api/v1/x"}}));
        assert_eq!(event.target, Target::Path("/api/v1/x".to_owned()));
        assert_eq!(event.action, Action::Create(json!({"kind": "LimitRange"})));
    }

    #[test]
    fn controllers_are_named_beside_the_word_or_in_it() {
        for (entry, name, word) in [
            (json!({"at": 2, "which": "cron", "controller": "stop"}), "cron", Word::Stop),
            (json!({"at": 2, "controller": "start"}), "job", Word::Start),
            (json!({"at": 2, "controller": "stop-volcano-cm"}), "volcano-cm", Word::Stop),
            (json!({"at": 2, "controller": "restart-volcano-cm"}), "volcano-cm", Word::Restart),
            (json!({"at": 2, "controller": "kuberay"}), "kuberay", Word::Start),
        ] {
            assert_eq!(read(entry).action, Action::Controller(name.to_owned(), word));
        }
    }

    #[test]
    fn what_cannot_be_carried_out_is_an_error_that_names_the_word() {
        for (entry, said) in [
            (json!({"at": 1}), "an event does one thing"),
            (json!({"at": 1, "patch": {}, "delete": "Orphan"}), "an event does one thing"),
            (json!({"at": 1, "on": "Job/j", "path": "/api", "patch": {}}), "one of on, path and job"),
            (json!({"at": 1, "delete": "Slowly"}), "unknown variant `Slowly`"),
            (json!({"at": 1, "command": "ExplodeJob"}), "unknown variant `ExplodeJob`"),
            (json!({"at": 1, "dashboard": "off"}), "unknown variant `off`"),
            (json!({"at": 1, "deletes": "Orphan"}), "unknown field `deletes`"),
            (json!({"at": 1, "on": "Gadget/j", "patch": {}}), "on Gadget/j"),
            (json!({"at": 1, "on": "Pod/w/first", "patch": {}}), "on Pod/w/first"),
            (json!({"at": 1, "on": "Podgroup", "patch": {}}), "on Podgroup"),
            (json!({"at": -1, "patch": {}}), "-1 seconds"),
        ] {
            let error = Event::read(&entry).expect_err("it must be rejected");
            assert!(error.contains(said), "{error}");
        }
    }
}
