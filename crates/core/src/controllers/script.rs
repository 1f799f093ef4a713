//! What the nodes, the programs and the people do: the script of a simulation.
//!
//! It is read from a list. An item without `at` is a plan for pods, the first that names a pod is its plan; an item with
//! `at` is an event. The recordings that the controllers are held against have the same form.

mod endings;
mod path;
mod plan;
mod ray;
mod schema;
mod volcano;
mod words;

use std::sync::Arc;

pub use super::chance::{MapOrder, TimedActions, WATCH_DELAY};
use super::indexes::Indexes;
use super::kueue_settings::KueueSettings;
use super::meta::Propagation;
use super::object::PodGroupPhase;
use super::program::ProgramPlan;
use super::time::Time;
use crate::text::value::Value;
use endings::{disruption, restarts, termination};
use path::path_target;
pub use plan::Termination;
pub(crate) use plan::{Disruption, DisruptionCause, Plan, Restarts};
pub(crate) use ray::{DashboardEvent, ProgramRule, Submission, program_plan, running_plan};
pub use schema::schema;
pub use volcano::INQUEUE;
pub(crate) use volcano::PodGroupRule;

/// What happens beside the controllers.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Plans of pods. The first that names a pod is its plan.
    pub(crate) plans: Vec<PlanRule>,
    /// When a scheduler takes PodGroups. The first that names one counts.
    pub(crate) pod_groups: Vec<PodGroupRule>,
    /// What programs do that are submitted to Ray clusters.
    pub(crate) programs: Vec<ProgramRule>,
    /// Events, in order of time.
    pub(crate) events: Vec<(Time, ScriptEvent)>,
    /// Whether pods never report that they are ready.
    pub is_never_ready: bool,
    /// What the pods run whose plan does not say how long they do.
    pub(crate) program: Option<ProgramPlan>,
    /// In which order operators go through what has no order.
    pub map_order: MapOrder,
    /// How much later than usual operators see what happens: two things of one moment are seen together then.
    pub watch_delay: Time,
    /// Whether pods that would end in one moment end one after the other.
    pub ends_apart: bool,
    /// What comes of the actions of Volcano that wait for a timeout.
    pub timed_actions: TimedActions,
    /// Whether operators see the end or the forced deletion of a pod only when its object is gone: two writes that are
    /// milliseconds apart are seen one by one, or as one.
    pub is_seen_late: bool,
    /// How long training-operator and Trainer do not see that they have ended an object, while they see that what they deleted
    /// with it is gone: a sync between the two makes it once more.
    pub end_lag: Time,
    /// The configuration of Kueue.
    pub kueue: KueueSettings,
    /// How much work it may take; where nothing is said, as much as a simulation does.
    pub most_work: Option<u64>,
}

/// A plan, and the pods that it is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanRule {
    /// What the pods are to the object that made them.
    pub(crate) role: Option<Arc<str>>,
    /// Completion indexes.
    pub(crate) index: Option<Range>,
    /// Which pod of a role and index, or of the Job.
    pub attempt: Option<Range>,
    /// Which Job of a CronJob.
    pub job: Option<Range>,
    /// Which attempt of an object of several Jobs or pods.
    pub(crate) round: Option<Range>,
    /// The plan.
    pub(crate) plan: Plan,
}

/// Numbers from the first to the last; without a last one, all after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first.
    pub(crate) first: u32,
    /// The last.
    pub(crate) last: Option<u32>,
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum ScriptEvent {
    /// The `spec` of an object is changed by a merge patch.
    Patch(Target, Value),
    /// An object is changed by a merge patch.
    Merge(Target, Value),
    /// An object is deleted.
    Delete(Target, Propagation),
    /// An object is made.
    Create(Value),
    /// A PodGroup gets a phase from its scheduler.
    Phase(Target, PodGroupPhase),
    /// A Volcano Job is given a command: an action.
    Command(String),
    /// The API server begins to refuse new pods, or takes them again.
    RefusePods(bool),
    /// Something happens to the dashboards of Ray clusters.
    Dashboard(DashboardEvent),
    /// A controller goes away.
    Stop(ControllerName),
    /// A controller comes back.
    Start(ControllerName),
    /// A controller goes away and comes back.
    Restart(ControllerName),
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Target {
    /// The one that is simulated.
    #[default]
    Main,
    /// A Job of the CronJob, by its number.
    Run(u32),
    /// One of a kind: that of a name, or the first that is there.
    Object {
        /// `kind`.
        kind: String,
        /// `metadata.name`.
        name: Option<String>,
    },
    /// The pod of a role and an index, of those that are there.
    Pod {
        /// Its role.
        role: String,
        /// Its index.
        index: Option<u32>,
    },
}

/// Which controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerName {
    /// That of Jobs.
    Job,
    /// That of CronJobs.
    CronJob,
    /// The operators of the kind that is simulated.
    Operator,
}

/// A script that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {item}: {message}")]
pub struct ScriptError {
    /// The item, from 0.
    pub(crate) item: usize,
    /// What is wrong.
    pub message: String,
}

const PLAN_KEYS: [&str; 22] = [
    "attempt",
    "crashLoop",
    "disrupt",
    "every",
    "exit",
    "follow",
    "index",
    "init",
    "job",
    "on_loss",
    "oom",
    "reject",
    "restarts",
    "role",
    "run",
    "set",
    "sidecar",
    "silent",
    "start",
    "submit",
    "submitter",
    "term",
];

/// The version of the format.
const VERSION: i64 = 1;

impl Script {
    /// Reads a list of plans and events, or a mapping with the version and such a list.
    ///
    /// # Errors
    ///
    /// An item that is no mapping, an unknown key, or a value of the wrong type.
    pub fn parse(value: &Value) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        let whole = |message: &str| ScriptError { item: 0, message: message.to_owned() };
        let list = match value.as_object() {
            Some(fields) if fields.get("version").and_then(Value::as_i64) != Some(VERSION) => {
                return Err(whole("`version` is 1"));
            }
            Some(fields) => fields.get("script").unwrap_or(&Value::Null),
            None => value,
        };
        let Some(items) = list.as_array() else {
            return Err(whole("a script is a list, or a mapping with `version` and a list in `script`"));
        };
        for (item, value) in items.iter().enumerate() {
            let fail = |message: String| ScriptError { item, message };
            if !value.is_object() {
                return Err(fail("a plan or an event is a mapping".to_owned()));
            }
            if value.get("at").is_some() {
                script.events.push(event(value).map_err(fail)?);
            } else if value.get("podgroup").is_some() {
                script.pod_groups.push(PodGroupRule::parse(value).map_err(fail)?);
            } else if value.get("program").is_some() {
                script.programs.push(ProgramRule::parse(value).map_err(fail)?);
            } else {
                script.plans.push(PlanRule::parse(value).map_err(fail)?);
            }
        }
        script.events.sort_by_key(|(at, _)| *at);
        Ok(script)
    }
}

type Read<T> = Result<T, String>;

fn seconds(value: &Value, key: &str) -> Read<Option<Time>> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(number) => {
            let time = number.as_f64().and_then(Time::from_fraction).filter(|time| *time >= Time::START);
            time.map(Some).ok_or_else(|| format!("`{key}` is a number of seconds"))
        }
    }
}

/// Reads a time that may be `null`, which means never.
fn seconds_or_never(value: &Value, key: &str, default: Option<Time>) -> Read<Option<Time>> {
    if value.get(key).is_none() { Ok(default) } else { seconds(value, key) }
}

fn integer(value: &Value, what: &str) -> Read<i64> {
    value.as_i64().ok_or_else(|| format!("`{what}` is a whole number"))
}

fn flag(value: &Value, key: &str) -> Read<bool> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(flag) => flag.as_bool().ok_or_else(|| format!("`{key}` is true or false")),
    }
}

fn codes(value: &Value, key: &str) -> Read<Vec<(String, i64)>> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(map)) => {
            map.iter().map(|(name, code)| Ok((name.to_string(), integer(code, key)?))).collect()
        }
        Some(code) => Ok(vec![(String::new(), integer(code, key)?)]),
    }
}

fn range(value: &Value, key: &str) -> Read<Option<Range>> {
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| format!("`{key}` is a number or a list of the first and the last"))
    };
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let first = number(items.first().unwrap_or(&Value::Null))?;
            let last = items.get(1).filter(|last| !last.is_null()).map(number).transpose()?;
            Ok(Some(Range { first, last }))
        }
        Some(one) => number(one).map(|one| Some(Range { first: one, last: Some(one) })),
    }
}

fn target(value: &Value) -> Read<Target> {
    if let Some(job) = value.get("job") {
        let number = u32::try_from(integer(job, "job")?);
        return number.map(Target::Run).map_err(|_| "`job` is a number of a Job".to_owned());
    }
    if let Some(path) = value.get("path") {
        return path_target(path.as_str().unwrap_or_default());
    }
    let Some(on) = value.get("on") else { return Ok(Target::Main) };
    let on = on.as_str().ok_or("`on` is `KIND/NAME` or `Pod/ROLE/INDEX`")?;
    let mut parts = on.split('/');
    let kind = parts.next().unwrap_or_default();
    let name = parts.next().map(str::to_owned);
    match (kind, name) {
        ("Pod", Some(role)) => {
            let index = parts.next().map(str::parse).transpose();
            let index = index.map_err(|_| format!("`{on}`: the index is a number"))?;
            Ok(Target::Pod { role, index })
        }
        ("CQ", None) => Ok(Target::Object { kind: "ClusterQueue".to_owned(), name: None }),
        ("WL", None) => Ok(Target::Object { kind: "Workload".to_owned(), name: None }),
        (kind, name) => Ok(Target::Object { kind: kind.to_owned(), name }),
    }
}

fn event(value: &Value) -> Read<(Time, ScriptEvent)> {
    let at = seconds(value, "at")?.ok_or("`at` is a number of seconds")?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let which = || match text("which") {
        Some("job") => Ok(ControllerName::Job),
        Some("cron") => Ok(ControllerName::CronJob),
        Some("operator") => Ok(ControllerName::Operator),
        _ => Err("`which` is `job`, `cron` or `operator`".to_owned()),
    };
    if let Some(patch) = value.get("patch") {
        if !patch.is_object() {
            return Err("`patch` is a mapping".to_owned());
        }
        return Ok((at, ScriptEvent::Patch(target(value)?, patch.clone())));
    }
    if let Some(patch) = value.get("merge") {
        return Ok((at, ScriptEvent::Merge(target(value)?, patch.clone())));
    }
    if let Some(event) = volcano::event(value)? {
        return Ok((at, event));
    }
    if let Some(object) = value.get("create") {
        return Ok((at, ScriptEvent::Create(object.clone())));
    }
    if value.get("delete").is_some() {
        let propagation = match text("delete") {
            Some("Background") => Propagation::Background,
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            _ => return Err("`delete` is `Background`, `Foreground` or `Orphan`".to_owned()),
        };
        return Ok((at, ScriptEvent::Delete(target(value)?, propagation)));
    }
    if let Some(refuse) = value.get("refusePods") {
        let refuse = refuse.as_bool().ok_or("`refusePods` is true or false")?;
        return Ok((at, ScriptEvent::RefusePods(refuse)));
    }
    if let Some(dashboard) = value.get("dashboard") {
        return Ok((at, ScriptEvent::Dashboard(DashboardEvent::parse(dashboard)?)));
    }
    match text("controller") {
        Some(word) if word.starts_with("stop-") => Ok((at, ScriptEvent::Stop(ControllerName::Operator))),
        Some(word) if word.starts_with("start-") || word == "kuberay" => {
            Ok((at, ScriptEvent::Start(ControllerName::Operator)))
        }
        Some("stop") => Ok((at, ScriptEvent::Stop(which()?))),
        Some("start") => Ok((at, ScriptEvent::Start(which()?))),
        Some(text) if text.starts_with("restart-") => {
            Ok((at, ScriptEvent::Restart(ControllerName::Operator)))
        }
        _ => Err("an event has `patch`, `merge`, `status`, `command`, `create`, `delete`, `refusePods`, `dashboard`, or \
                  `controller` with `stop` or `start`"
            .to_owned()),
    }
}

impl Range {
    /// Tells whether a number is in it.
    #[must_use]
    pub(crate) fn contains(self, number: u32) -> bool {
        self.first <= number && self.last.is_none_or(|last| number <= last)
    }

    /// Returns its numbers.
    #[must_use]
    pub(crate) fn indexes(self) -> Indexes {
        Indexes::from_range(self.first, self.last.unwrap_or(u32::MAX - 1))
    }
}

impl PlanRule {
    fn parse(value: &Value) -> Read<Self> {
        let known = |key: &str| PLAN_KEYS.contains(&key) || key == "unscheduled";
        if let Some(key) = value.as_object().and_then(|map| map.keys().find(|key| !known(key))) {
            return Err(format!("unknown key `{key}`"));
        }
        let default = Plan::default();
        let plan = Plan {
            start: seconds_or_never(value, "start", default.start)?,
            is_unscheduled: flag(value, "unscheduled")?,
            run: seconds_or_never(value, "run", default.run)?,
            follows_program: value.get("run").is_none(),
            fails_by_itself: false,
            serves: false,
            silent: seconds(value, "silent")?,
            unready: None,
            exit: codes(value, "exit")?,
            init: codes(value, "init")?,
            sidecar: value.get("sidecar").map_or(Ok(0), |code| integer(code, "sidecar"))?,
            is_oom: flag(value, "oom")?,
            restarts: restarts(value)?,
            is_rejected: flag(value, "reject")?,
            disruption: value.get("disrupt").filter(|one| !one.is_null()).map(disruption).transpose()?,
            term: value.get("term").map_or(Ok(default.term), termination)?,
            submission: Submission::parse(value)?,
            sidecar_submission: Submission::parse_sidecar(value)?,
        };
        // A pod that follows the program ends with it.
        let plan = Plan { run: plan.run.filter(|_| !plan.submission.follows), ..plan };
        let role = value.get("role").filter(|role| !role.is_null());
        let role = role.map(|role| role.as_str().ok_or("`role` is a text")).transpose()?;
        Ok(Self {
            role: role.map(Arc::from),
            index: range(value, "index")?,
            attempt: range(value, "attempt")?,
            job: range(value, "job")?,
            round: range(value, "set")?,
            plan,
        })
    }
}

impl Script {
    /// Returns the script with what is left to chance settled otherwise, one thing at a time.
    #[must_use]
    pub fn chances(&self) -> Vec<Self> {
        vec![
            Self { map_order: MapOrder::Backward, ..self.clone() },
            Self { is_seen_late: true, ..self.clone() },
            Self { watch_delay: WATCH_DELAY, ..self.clone() },
            Self { ends_apart: true, ..self.clone() },
            Self { timed_actions: TimedActions::Taken, ..self.clone() },
            Self { timed_actions: TimedActions::Lost, ..self.clone() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema = schema();
        let plan = &schema["oneOf"][0]["items"]["anyOf"][0]["properties"];
        let mut keys: Vec<&str> = plan.as_object().unwrap().keys().collect();
        let mut read: Vec<&str> = PLAN_KEYS.to_vec();
        read.push("unscheduled");
        keys.sort_unstable();
        read.sort_unstable();
        assert_eq!(keys, read);
    }

    #[test]
    fn a_script_may_have_a_version() {
        assert!(Script::parse(&json!({"version": 1, "script": [{"run": 1}]})).is_ok());
        for (script, expected) in [
            (json!({"version": 2, "script": []}), "`version` is 1"),
            (json!({"version": 1}), "a script is a list"),
            (json!([{"run": -1}]), "`run` is a number of seconds"),
            (json!([{"at": 1}]), "an event has"),
            (json!([{"disrupt": {"cause": "flood"}}]), "`cause` is"),
        ] {
            let error = Script::parse(&script).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
