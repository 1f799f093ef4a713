//! The language of a scenario: what the kubelet and the world do, as JSON.
//!
//! A list of rules and events. An event has a time (`at`); it is read in `event`. A rule is about pods, about
//! Volcano's groups of pods (`podgroup`) or about programs of Ray (`program`). The first rule that names
//! something is its plan; what none names has a plan of its own. A key that is not known is an error, so that
//! no rule is silently without effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::event::Event;

/// What the kubelet and the world do in a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
    groups: Vec<(Span, Option<Duration>)>,
    programs: Vec<(Span, ProgramPlan)>,
    never_ready: bool,
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
    /// The number of the restart of the set, or of the Ray cluster, that it belongs to.
    pub(crate) set: Option<u64>,
    /// The number of its Job among the Jobs of the scenario, in the order of their first pods.
    pub(crate) job: Option<u64>,
    pub(crate) life: Life,
}

/// What a pod does that no rule names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    /// It succeeds after five seconds.
    #[default]
    Ends,
    /// It runs on, as the pods of a Ray cluster.
    Serves,
    /// It submits a program to Ray, and ends with it.
    Follows,
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
    /// From Running, or from the last restart, to the end; nothing if it never ends.
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
    /// What its own container does that submits a program to Ray, if it has one.
    pub(crate) submit: Submit,
    /// The same for the container that submits beside the head of a Ray cluster.
    pub(crate) submitter: Submitter,
    /// Whether it is never ready, though it runs.
    pub(crate) never_ready: bool,
}

/// How a container submits a program to Ray.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Submit {
    /// From its start to the first try; none: it never tries.
    pub(crate) after: Option<Duration>,
    /// Whether it ends with its program, not after `run`.
    pub(crate) follows: bool,
    /// The exit code of one that follows a program of which nothing is known any more.
    pub(crate) on_loss: i64,
}

impl Default for Submit {
    fn default() -> Self {
        Self { after: Some(Duration::from_millis(500)), follows: false, on_loss: 1 }
    }
}

/// The life of a container that submits beside the head of a Ray cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Submitter {
    pub(crate) submit: Submit,
    /// From the start of the pod to its end, if it does not follow its program; nothing if it never ends.
    pub(crate) run: Option<Duration>,
    pub(crate) exit: i64,
}

impl Default for Submitter {
    fn default() -> Self {
        Self { submit: Submit { follows: true, ..Submit::default() }, run: None, exit: 0 }
    }
}

/// What becomes of a program that is submitted to Ray.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramPlan {
    /// From its submission to its start.
    pub(crate) pending: Duration,
    /// From its start to its end; none: it runs on.
    pub(crate) run: Option<Duration>,
    pub(crate) end: End,
    /// What Ray says of it.
    pub(crate) message: String,
}

impl Default for ProgramPlan {
    fn default() -> Self {
        Self {
            pending: Duration::ZERO,
            run: Some(Duration::from_secs(8)),
            end: End::Succeeded,
            message: String::new(),
        }
    }
}

/// How a program of Ray ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum End {
    Succeeded,
    Failed,
    Stopped,
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
            submit: Submit::default(),
            submitter: Submitter::default(),
            never_ready: false,
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
    #[serde(default = "half_a_second")]
    submit: Option<f64>,
    #[serde(default)]
    follow: bool,
    #[serde(default = "failure")]
    on_loss: i64,
    submitter: Option<SubmitterText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmitterText {
    #[serde(default = "half_a_second")]
    submit: Option<f64>,
    #[serde(default)]
    follow: bool,
    #[serde(default = "failure")]
    on_loss: i64,
    run: Option<f64>,
    #[serde(default)]
    exit: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramText {
    program: Span,
    #[serde(default)]
    pending: f64,
    #[serde(default = "eight_seconds")]
    run: Option<f64>,
    #[serde(default = "succeeded")]
    end: End,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupText {
    podgroup: Span,
    #[serde(default = "half_a_second")]
    inqueue: Option<f64>,
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

fn eight_seconds() -> Option<f64> {
    Some(8.0)
}

fn failure() -> i64 {
    1
}

fn succeeded() -> End {
    End::Succeeded
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
            self.events.push(Event::read(entry)?);
        } else if entry.get("program").is_some() {
            let text: ProgramText = Deserialize::deserialize(entry).map_err(text)?;
            let plan = ProgramPlan {
                pending: seconds(text.pending)?,
                run: text.run.map(seconds).transpose()?,
                end: text.end,
                message: text.message,
            };
            self.programs.push((text.program, plan));
        } else if entry.get("podgroup").is_some() {
            let text: GroupText = Deserialize::deserialize(entry).map_err(text)?;
            self.groups.push((text.podgroup, text.inqueue.map(seconds).transpose()?));
        } else {
            self.rules.push(Rule::read(Deserialize::deserialize(entry).map_err(text)?)?);
        }
        Ok(())
    }

    /// Has no pod report that it is ready.
    pub(crate) fn never_ready(self) -> Self {
        Self { never_ready: true, ..self }
    }

    /// Returns the plan of a pod: that of the first rule that names it.
    pub(crate) fn plan(&self, pod: &Name) -> Plan {
        let rule = self.rules.iter().find(|rule| rule.who.names(pod));
        let unnamed = || match pod.life {
            Life::Ends => Plan::default(),
            Life::Serves => Plan { run: None, ..Plan::default() },
            Life::Follows => {
                Plan { submit: Submit { follows: true, ..Submit::default() }, ..Plan::default() }
            }
        };
        Plan { never_ready: self.never_ready, ..rule.map_or_else(unnamed, |rule| rule.plan.clone()) }
    }

    /// Returns when the n-th group of pods is put into its queue, from its creation; none: never.
    pub(crate) fn group(&self, number: u64) -> Option<Duration> {
        let rule = self.groups.iter().find(|(span, _)| span.contains(number));
        rule.map_or(Some(Duration::from_millis(500)), |(_, inqueue)| *inqueue)
    }

    /// Returns the plan of the n-th program that is submitted to Ray.
    pub(crate) fn program(&self, number: u64) -> ProgramPlan {
        let rule = self.programs.iter().find(|(span, _)| span.contains(number));
        rule.map(|(_, plan)| plan.clone()).unwrap_or_default()
    }
}

pub(super) fn text(error: serde_json::Error) -> String {
    error.to_string()
}

pub(super) fn seconds(number: f64) -> Result<Duration, String> {
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
        let submitter = match text.submitter {
            None => Submitter::default(),
            Some(text) => Submitter {
                submit: Submit {
                    after: text.submit.map(seconds).transpose()?,
                    follows: text.follow,
                    on_loss: text.on_loss,
                },
                run: text.run.map(seconds).transpose()?,
                exit: text.exit,
            },
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
            submit: Submit {
                after: text.submit.map(seconds).transpose()?,
                follows: text.follow,
                on_loss: text.on_loss,
            },
            submitter,
            never_ready: false,
        };
        if plan.every.is_zero() && plan.restarts.is_none() {
            return Err("restarts without end need a time between them".to_owned());
        }
        Ok(Self { who: Who { role, index, attempt, set, job }, plan })
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
