//! The language of a scenario: what the kubelet and the world do, as JSON.
//!
//! A list of rules and events. A rule has no `at`; the first that names a pod is its plan, and a pod that
//! none names succeeds after five seconds. A key that is not known is an error, so that no rule is silently
//! without effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// What the kubelet and the world do in a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
    /// What happens at a time, in the order in which it was written.
    pub(crate) events: Vec<Event>,
}

/// Which pod one is, as rules name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// What it is to its operator: `worker`, `launcher`, a replicated job with its number; the name of the
    /// Job of a pod that is only a Job's.
    pub(crate) role: String,
    /// Its number among the pods of its role.
    pub(crate) index: Option<u64>,
    /// How many pods of that role and number there were before it.
    pub(crate) attempt: u64,
    /// The number of the restart of the set that it belongs to.
    pub(crate) set: Option<u64>,
    /// The number of its Job among the Jobs of the scenario, in the order of their first pods.
    pub(crate) job: Option<u64>,
}

/// A number, or `[first, last]`, where a last of null is no end.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Span {
    One(u64),
    From(u64, Option<u64>),
}

impl Span {
    fn contains(self, number: u64) -> bool {
        match self {
            Self::One(one) => number == one,
            Self::From(first, last) => first <= number && last.is_none_or(|last| number <= last),
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    who: Who,
    plan: Plan,
}

#[derive(Clone, Debug, Default)]
struct Who {
    role: Option<String>,
    index: Option<Span>,
    attempt: Option<Span>,
    set: Option<Span>,
    job: Option<Span>,
}

impl Who {
    fn names(&self, pod: &Name) -> bool {
        let within = |span: Option<Span>, number: Option<u64>| match (span, number) {
            (None, _) => true,
            (Some(span), Some(number)) => span.contains(number),
            (Some(_), None) => false,
        };
        self.role.as_ref().is_none_or(|role| *role == pod.role)
            && within(self.index, pod.index)
            && within(self.attempt, Some(pod.attempt))
            && within(self.set, pod.set)
            && within(self.job, pod.job)
    }
}

/// What becomes of one pod. Times are since its creation or since it ran, as each says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// From creation to Running; none: never.
    pub(crate) start: Option<Duration>,
    /// Whether it is never bound to a node.
    pub(crate) unscheduled: bool,
    /// From Running, or from the last restart, to the end; none: for ever.
    pub(crate) run: Option<Duration>,
    /// How its containers end.
    pub(crate) exit: Exit,
    /// The codes of init containers of which one fails: no other container ever runs.
    pub(crate) init: BTreeMap<String, i64>,
    /// The code of native sidecars when the pod ends.
    pub(crate) sidecar: i64,
    /// Whether 137 is reported as `OOMKilled`.
    pub(crate) oom: bool,
    /// How often the first container is restarted in place; none: without end.
    pub(crate) restarts: Option<u32>,
    /// After how long each time.
    pub(crate) every: Duration,
    /// Whether the kubelet refuses the pod when it would start.
    pub(crate) reject: bool,
    pub(crate) disrupt: Option<Disrupt>,
    pub(crate) term: Term,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            start: Some(Duration::from_millis(500)),
            unscheduled: false,
            run: Some(Duration::from_secs(5)),
            exit: Exit::First(0),
            init: BTreeMap::new(),
            sidecar: 0,
            oom: false,
            restarts: Some(0),
            every: Duration::from_secs(5),
            reject: false,
            disrupt: None,
            term: Term::default(),
        }
    }
}

/// The exit code of the first container, or of each by its name; 0 for those that are not named.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub(crate) enum Exit {
    First(i64),
    Each(BTreeMap<String, i64>),
}

/// What happens to a pod that would have run on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Disrupt {
    /// From Running; from creation if it never runs.
    pub(crate) after: Duration,
    pub(crate) cause: Cause,
    /// After how long the pod of a lost node is collected; none: never.
    pub(crate) gc: Option<Duration>,
}

/// Why a pod ends before its time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cause {
    Evict,
    Preempt,
    Taint,
    /// By a user, without a condition.
    Delete,
    /// By a user, with no grace.
    Force,
    /// Node pressure: the kubelet fails the pod, nobody deletes it.
    Kubelet,
    /// As by a taint, but the kubelet never answers: it is silent to every deletion.
    Lost,
}

impl Cause {
    /// Returns the reason of the condition `DisruptionTarget`, as Kubernetes writes it.
    pub(crate) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Evict => Some("EvictionByEvictionAPI"),
            Self::Preempt => Some("PreemptionByScheduler"),
            Self::Taint | Self::Lost => Some("DeletionByTaintManager"),
            Self::Kubelet => Some("TerminationByKubelet"),
            Self::Delete | Self::Force => None,
        }
    }
}

/// What the first container does when it is told to end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// None, or longer than the grace period: it is killed then, with 137.
    pub(crate) after: Option<Duration>,
    pub(crate) code: i64,
}

impl Default for Term {
    fn default() -> Self {
        Self { after: Some(Duration::from_millis(1400)), code: 143 }
    }
}

/// Something that happens at a time, whatever the pods do.
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
    /// `KIND/NAME`, or `Pod/ROLE/INDEX`: the newest of these.
    Object(String),
    /// An object by its path at the API server; `$NS` is the scenario's namespace.
    Path(String),
}

/// What happens to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// A merge patch.
    Merge(serde_json::Value),
    /// A deletion with this propagation policy.
    Delete(String),
    /// This object is created.
    Create(serde_json::Value),
    /// A controller is stopped or started: which one, and the word.
    Controller(String, String),
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    role: Option<String>,
    index: Option<Span>,
    attempt: Option<Span>,
    set: Option<Span>,
    job: Option<Span>,
    #[serde(default = "half_a_second")]
    start: Option<f64>,
    #[serde(default)]
    unscheduled: bool,
    #[serde(default = "five_seconds")]
    run: Option<f64>,
    #[serde(default = "success")]
    exit: Exit,
    #[serde(default)]
    init: BTreeMap<String, i64>,
    #[serde(default)]
    sidecar: i64,
    #[serde(default)]
    oom: bool,
    #[serde(default = "no_restart")]
    restarts: Option<u32>,
    #[serde(default = "five")]
    every: f64,
    #[serde(default)]
    reject: bool,
    disrupt: Option<DisruptText>,
    #[serde(default)]
    term: TermText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisruptText {
    after: f64,
    cause: Cause,
    gc: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermText {
    #[serde(default = "soon")]
    after: Option<f64>,
    #[serde(default = "terminated")]
    code: i64,
}

impl Default for TermText {
    fn default() -> Self {
        Self { after: soon(), code: terminated() }
    }
}

fn half_a_second() -> Option<f64> {
    Some(0.5)
}

fn five_seconds() -> Option<f64> {
    Some(5.0)
}

fn soon() -> Option<f64> {
    Some(1.4)
}

fn no_restart() -> Option<u32> {
    Some(0)
}

fn five() -> f64 {
    5.0
}

fn success() -> Exit {
    Exit::First(0)
}

fn terminated() -> i64 {
    143
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventText {
    at: f64,
    on: Option<String>,
    path: Option<String>,
    job: Option<u64>,
    patch: Option<serde_json::Value>,
    merge: Option<serde_json::Value>,
    delete: Option<String>,
    create: Option<serde_json::Value>,
    controller: Option<String>,
    which: Option<String>,
}

impl Script {
    /// Reads a script, and says which entry is wrong and why.
    pub(crate) fn parse(entries: &serde_json::Value) -> Result<Self, String> {
        let entries = entries.as_array().ok_or("a script is a list")?;
        let mut script = Self::default();
        for (number, entry) in entries.iter().enumerate() {
            script.add(entry).map_err(|e| format!("entry {number} of the script: {e}"))?;
        }
        Ok(script)
    }

    fn add(&mut self, entry: &serde_json::Value) -> Result<(), String> {
        if entry.get("at").is_some() {
            self.events.push(Event::read(Deserialize::deserialize(entry).map_err(text)?)?);
        } else {
            self.rules.push(Rule::read(Deserialize::deserialize(entry).map_err(text)?)?);
        }
        Ok(())
    }

    /// Returns the plan of a pod: that of the first rule that names it.
    pub(crate) fn plan(&self, pod: &Name) -> Plan {
        let rule = self.rules.iter().find(|rule| rule.who.names(pod));
        rule.map(|rule| rule.plan.clone()).unwrap_or_default()
    }
}

fn text(error: serde_json::Error) -> String {
    error.to_string()
}

fn seconds(number: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number).map_err(|e| format!("{number} seconds: {e}"))
}

impl Rule {
    fn read(text: RuleText) -> Result<Self, String> {
        let RuleText { role, index, attempt, set, job, .. } = text;
        let disrupt = match text.disrupt {
            None => None,
            Some(disrupt) => Some(Disrupt {
                after: seconds(disrupt.after)?,
                cause: disrupt.cause,
                gc: disrupt.gc.map(seconds).transpose()?,
            }),
        };
        let plan = Plan {
            start: text.start.map(seconds).transpose()?,
            unscheduled: text.unscheduled,
            run: text.run.map(seconds).transpose()?,
            exit: text.exit,
            init: text.init,
            sidecar: text.sidecar,
            oom: text.oom,
            restarts: text.restarts,
            every: seconds(text.every)?,
            reject: text.reject,
            disrupt,
            term: Term { after: text.term.after.map(seconds).transpose()?, code: text.term.code },
        };
        if plan.every.is_zero() && plan.restarts.is_none() {
            return Err("restarts without end need a time between them".to_owned());
        }
        Ok(Self { who: Who { role, index, attempt, set, job }, plan })
    }
}

impl Event {
    fn read(text: EventText) -> Result<Self, String> {
        let target = match (text.on, text.path, text.job) {
            (None, None, None) => Target::Main,
            (Some(on), None, None) => Target::Object(on),
            (None, Some(path), None) => Target::Path(path),
            (None, None, Some(job)) => Target::Job(job),
            _ => return Err("an event has one of on, path and job".to_owned()),
        };
        let which = text.which.unwrap_or_else(|| "job".to_owned());
        let mut actions = [
            text.patch.map(|spec| Action::Merge(serde_json::json!({"spec": spec}))),
            text.merge.map(Action::Merge),
            text.delete.map(Action::Delete),
            text.create.map(Action::Create),
            text.controller.map(|word| Action::Controller(which, word)),
        ]
        .into_iter()
        .flatten();
        match (actions.next(), actions.next()) {
            (Some(action), None) => Ok(Self { at: seconds(text.at)?, target, action }),
            _ => Err("an event does one thing: patch, merge, delete, create or controller".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(role: &str, index: Option<u64>, attempt: u64) -> Name {
        Name { role: role.to_owned(), index, attempt, set: None, job: None }
    }

    fn run_of(script: &Script, pod: &Name) -> Option<Duration> {
        script.plan(pod).run
    }

    #[test]
    fn the_first_rule_that_names_a_pod_is_its_plan() {
        let script = Script::parse(&json!([
            {"role": "worker", "index": [1, 2], "attempt": 0, "run": 1},
            {"role": "worker", "attempt": [1, null], "run": 2},
            {"role": "worker", "run": 3},
        ]))
        .expect("a script");
        let seconds = |number| Some(Duration::from_secs(number));
        assert_eq!(run_of(&script, &name("worker", Some(0), 0)), seconds(3));
        assert_eq!(run_of(&script, &name("worker", Some(1), 0)), seconds(1));
        assert_eq!(run_of(&script, &name("worker", Some(2), 0)), seconds(1));
        assert_eq!(run_of(&script, &name("worker", Some(3), 0)), seconds(3));
        assert_eq!(run_of(&script, &name("worker", Some(2), 7)), seconds(2));
        assert_eq!(script.plan(&name("master", Some(0), 0)), Plan::default());
        // A rule that asks for a number does not name a pod that has none.
        assert_eq!(run_of(&script, &name("worker", None, 0)), seconds(3));
    }

    #[test]
    fn rules_name_pods_by_set_and_job() {
        let script =
            Script::parse(&json!([{"set": 1, "run": 1}, {"job": [2, null], "run": 2}])).expect("a script");
        let pod = |set, job| Name { set, job, ..name("worker", None, 0) };
        assert_eq!(run_of(&script, &pod(Some(1), None)), Some(Duration::from_secs(1)));
        assert_eq!(run_of(&script, &pod(Some(0), Some(3))), Some(Duration::from_secs(2)));
        assert_eq!(run_of(&script, &pod(None, Some(1))), Some(Duration::from_secs(5)));
    }

    #[test]
    fn null_is_never_and_what_is_not_written_is_the_default() {
        let script =
            Script::parse(&json!([{"start": null, "run": null, "restarts": null, "term": {"after": null}}]))
                .expect("a script");
        let plan = script.plan(&name("worker", None, 0));
        assert_eq!((plan.start, plan.run, plan.restarts, plan.term.after), (None, None, None, None));
        assert_eq!((plan.every, plan.term.code), (Duration::from_secs(5), 143));
        let plan = Script::parse(&json!([{}])).expect("a script").plan(&name("worker", None, 0));
        assert_eq!(plan, Plan::default());
    }

    #[test]
    fn what_cannot_be_carried_out_is_an_error_that_names_the_entry() {
        for (entry, said) in [
            (json!({"runs": 3}), "unknown field `runs`"),
            (json!({"disrupt": {"after": 1, "cause": "fire"}}), "unknown variant `fire`"),
            (json!({"start": -1}), "-1 seconds"),
            (json!({"at": 1}), "an event does one thing"),
            (json!({"at": 1, "patch": {}, "delete": "Orphan"}), "an event does one thing"),
            (json!({"at": 1, "on": "Job/j", "path": "/api", "patch": {}}), "one of on, path and job"),
            (json!({"restarts": null, "every": 0}), "need a time between them"),
        ] {
            let error = Script::parse(&json!([{}, entry])).expect_err("it must be rejected");
            assert!(error.contains(said) && error.contains("entry 1"), "{error}");
        }
    }

    #[test]
    fn events_say_when_to_what_and_what() {
        let script = Script::parse(&json!([
            {"at": 5, "patch": {"suspend": true}},
            {"at": 1.5, "job": 1, "delete": "Foreground"},
            {"at": 2, "which": "cron", "controller": "stop"},
        ]))
        .expect("a script");
        let [first, second, third] = script.events.as_slice() else { panic!("three events") };
        assert_eq!((first.at, &first.target), (Duration::from_secs(5), &Target::Main));
        assert_eq!(first.action, Action::Merge(json!({"spec": {"suspend": true}})));
        assert_eq!(second.target, Target::Job(1));
        assert_eq!(third.action, Action::Controller("cron".to_owned(), "stop".to_owned()));
    }
}
