//! What the nodes, the programs and the people do: the script of a simulation.
//!
//! It is read from a list. An item without `at` is a plan for pods, the first that names a pod is its plan; an item with
//! `at` is an event. The recordings that the controllers are held against have the same form.

mod schema;
mod words;

use super::cluster::Propagation;
use super::indexes::Indexes;
use super::program::ProgramPlan;
use super::time::Time;
use crate::text::value::Value;
pub use schema::schema;

/// What happens beside the controllers.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Plans of pods. The first that names a pod is its plan.
    pub(crate) plans: Vec<PlanRule>,
    /// Events, in order of time.
    pub(crate) events: Vec<(Time, ScriptEvent)>,
    /// Whether pods never report that they are ready.
    pub is_never_ready: bool,
    /// What the pods run whose plan does not say how long they do.
    pub(crate) program: Option<ProgramPlan>,
}

/// A plan, and the pods that it is for.
#[derive(Clone, Debug)]
pub(crate) struct PlanRule {
    /// Completion indexes.
    pub(crate) index: Option<Range>,
    /// Which pod of an index, or of the Job.
    pub attempt: Option<Range>,
    /// Which Job of a CronJob.
    pub job: Option<Range>,
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

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// From its creation until it runs; nothing if it never does.
    pub start: Option<Time>,
    /// Whether no node is chosen for it.
    pub(crate) is_unscheduled: bool,
    /// How long it runs; nothing if it never ends.
    pub(crate) run: Option<Time>,
    /// Whether it runs the program, where there is one, which says how long.
    pub(crate) follows_program: bool,
    /// Whether it ends by itself before the program does.
    pub(crate) fails_by_itself: bool,
    /// From when it runs until its node no longer answers: the program stops, and nobody notices.
    pub(crate) silent: Option<Time>,
    /// The exit codes of containers, by their names; the empty name is the first container.
    pub(crate) exit: Vec<(String, i64)>,
    /// Init containers that fail, with their exit codes.
    pub(crate) init: Vec<(String, i64)>,
    /// The exit code of sidecars.
    pub(crate) sidecar: i64,
    /// Whether an exit code of 137 is reported as `OOMKilled`.
    pub(crate) is_oom: bool,
    /// How often its container restarts before its last run; without a number, always.
    pub restarts: Option<Restarts>,
    /// Whether the kubelet refuses it.
    pub(crate) is_rejected: bool,
    /// What ends it from outside.
    pub(crate) disruption: Option<Disruption>,
    /// What its program does on SIGTERM.
    pub term: Termination,
}

/// Restarts in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restarts {
    /// How many; nothing for no end of them.
    pub(crate) count: Option<u32>,
    /// The time of each.
    pub(crate) every: Time,
    /// Whether the kubelet waits before each: 10 s, and twice as long for each more, at most 5 min.
    pub(crate) is_backed_off: bool,
}

/// What ends a pod from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disruption {
    /// From when it runs; of a pod that never does, from its creation.
    pub(crate) after: Time,
    /// By whom.
    pub(crate) cause: DisruptionCause,
    /// Of a lost node: after which time the pod garbage collector ends its pods; nothing if it does not.
    pub(crate) collected: Option<Time>,
}

/// Who ends a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisruptionCause {
    /// The eviction API: a drain.
    Eviction,
    /// The scheduler, for a pod of a higher priority.
    Preemption,
    /// The taint manager.
    Taint,
    /// Somebody who deletes the pod.
    Deletion,
    /// Somebody who deletes the pod without a grace period.
    ForcedDeletion,
    /// The kubelet, for want of memory or disk.
    Pressure,
    /// A node that does not answer any more: deleted by the taint manager, and never ended.
    LostNode,
}

/// What a program does on SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// How long it takes; nothing if it does not end.
    pub(crate) after: Option<Time>,
    /// Its exit code.
    pub(crate) code: i64,
}

impl Default for Termination {
    fn default() -> Self {
        Self { after: Some(Time::from_millis(1_400)), code: 143 }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            start: Some(Time::from_millis(500)),
            is_unscheduled: false,
            run: Some(Time::from_seconds(5)),
            follows_program: true,
            fails_by_itself: false,
            silent: None,
            exit: Vec::new(),
            init: Vec::new(),
            sidecar: 0,
            is_oom: false,
            restarts: None,
            is_rejected: false,
            disruption: None,
            term: Termination::default(),
        }
    }
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum ScriptEvent {
    /// The `spec` is changed by a merge patch.
    Patch(Value),
    /// The object is deleted, or a Job of the CronJob.
    Delete(Propagation, Option<u32>),
    /// The API server begins to refuse new pods, or takes them again.
    RefusePods(bool),
    /// A controller goes away.
    Stop(ControllerName),
    /// A controller comes back.
    Start(ControllerName),
}

/// Which controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerName {
    /// That of Jobs.
    Job,
    /// That of CronJobs.
    CronJob,
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

const PLAN_KEYS: [&str; 16] = [
    "attempt",
    "crashLoop",
    "disrupt",
    "every",
    "exit",
    "index",
    "init",
    "job",
    "oom",
    "reject",
    "restarts",
    "run",
    "sidecar",
    "silent",
    "start",
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

fn event(value: &Value) -> Read<(Time, ScriptEvent)> {
    let at = seconds(value, "at")?.ok_or("`at` is a number of seconds")?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let which = || match text("which") {
        Some("job") => Ok(ControllerName::Job),
        Some("cron") => Ok(ControllerName::CronJob),
        _ => Err("`which` is `job` or `cron`".to_owned()),
    };
    if let Some(patch) = value.get("patch") {
        if !patch.is_object() {
            return Err("`patch` is a mapping".to_owned());
        }
        return Ok((at, ScriptEvent::Patch(patch.clone())));
    }
    if value.get("delete").is_some() {
        let propagation = match text("delete") {
            Some("Background") => Propagation::Background,
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            _ => return Err("`delete` is `Background`, `Foreground` or `Orphan`".to_owned()),
        };
        let job = value.get("job").map(|job| integer(job, "job")).transpose()?;
        return Ok((at, ScriptEvent::Delete(propagation, job.and_then(|job| u32::try_from(job).ok()))));
    }
    if let Some(refuse) = value.get("refusePods") {
        let refuse = refuse.as_bool().ok_or("`refusePods` is true or false")?;
        return Ok((at, ScriptEvent::RefusePods(refuse)));
    }
    match text("controller") {
        Some("stop") => Ok((at, ScriptEvent::Stop(which()?))),
        Some("start") => Ok((at, ScriptEvent::Start(which()?))),
        _ => {
            Err("an event has `patch`, `delete`, `refusePods`, or `controller` with `stop` or `start`"
                .to_owned())
        }
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
            silent: seconds(value, "silent")?,
            exit: codes(value, "exit")?,
            init: codes(value, "init")?,
            sidecar: value.get("sidecar").map_or(Ok(0), |code| integer(code, "sidecar"))?,
            is_oom: flag(value, "oom")?,
            restarts: restarts(value)?,
            is_rejected: flag(value, "reject")?,
            disruption: value.get("disrupt").filter(|one| !one.is_null()).map(disruption).transpose()?,
            term: value.get("term").map_or(Ok(default.term), termination)?,
        };
        Ok(Self {
            index: range(value, "index")?,
            attempt: range(value, "attempt")?,
            job: range(value, "job")?,
            plan,
        })
    }
}

fn restarts(value: &Value) -> Read<Option<Restarts>> {
    let count = match value.get("restarts") {
        None => return Ok(None),
        Some(Value::Null) => None,
        Some(count) => {
            Some(u32::try_from(integer(count, "restarts")?).map_err(|_| "`restarts` is too large")?)
        }
    };
    if count == Some(0) {
        return Ok(None);
    }
    let every = seconds(value, "every")?.unwrap_or(Time::from_seconds(5));
    let is_backed_off = flag(value, "crashLoop")?;
    Ok(Some(Restarts { count, every: every.max(Time::from_millis(1)), is_backed_off }))
}

fn disruption(value: &Value) -> Read<Disruption> {
    let cause = match value.get("cause").and_then(Value::as_str) {
        Some("evict") => DisruptionCause::Eviction,
        Some("preempt") => DisruptionCause::Preemption,
        Some("taint") => DisruptionCause::Taint,
        Some("delete") => DisruptionCause::Deletion,
        Some("force") => DisruptionCause::ForcedDeletion,
        Some("kubelet") => DisruptionCause::Pressure,
        Some("lost") => DisruptionCause::LostNode,
        _ => {
            return Err(
                "`cause` is `evict`, `preempt`, `taint`, `delete`, `force`, `kubelet` or `lost`".to_owned()
            );
        }
    };
    Ok(Disruption {
        after: seconds(value, "after")?.unwrap_or_default(),
        cause,
        collected: seconds(value, "gc")?,
    })
}

fn termination(value: &Value) -> Read<Termination> {
    let default = Termination::default();
    Ok(Termination {
        after: seconds_or_never(value, "after", default.after)?,
        code: value.get("code").map_or(Ok(default.code), |code| integer(code, "code"))?,
    })
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
