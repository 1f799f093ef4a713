//! What a kubelet does with one pod, and with it the scheduler that binds it, whoever evicts it and the
//! collector of lost pods: a plan and what was seen go in, requests come out. Pure: time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jobgate::text::value::{Value, json};

use super::ray::Submission;
use super::script::{Cause, Exit, Plan};

/// What is asked of the API server, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Binds the pod to the node.
    Bind,
    /// A merge patch of its status.
    Status(Value),
    /// Deletes it; with this grace, or with its own.
    Delete { grace: Option<u64> },
}

/// A pod and how far it has come. All times are since it was created.
pub(crate) struct Pod {
    plan: Plan,
    containers: Vec<String>,
    /// Name, and whether it is a native sidecar.
    init: Vec<(String, bool)>,
    created: Timestamp,
    /// What will be done, by time; equal times in the order in which they were planned.
    steps: Vec<(Duration, Step)>,
    conditions: Vec<Condition>,
    started: Option<Duration>,
    restarts: u32,
    /// The container that submits a program to Ray, until it has ended.
    submission: Option<Submission>,
    /// A container that has ended while the pod runs on, and when and how.
    ended_alone: Option<(String, Duration, i64)>,
    is_bound: bool,
    is_over: bool,
    is_dying: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Bind,
    Reject,
    Start,
    Restart,
    End,
    Disrupt,
    /// It was deleted before it ran.
    Refuse,
    /// It was deleted, and the first container ends with this code.
    Stop(i64),
    /// Its node is lost, and the collector takes it.
    Collect,
    /// It has ended and was deleted.
    Remove,
}

struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: Option<&'static str>,
    since: Duration,
}

/// How far the containers of a pod have come.
enum Stage {
    Waiting,
    InitFailed,
    Running,
    Ended(BTreeMap<String, i64>),
}

impl Pod {
    /// Takes a pod as it is when it was created, or when somebody else has bound it.
    pub(crate) fn new(object: &Value, plan: Plan, created: Timestamp) -> Self {
        let submission = Submission::of(object, &plan);
        let names = |key: &str| object["spec"][key].as_array().cloned().unwrap_or_default();
        let name = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
        let mut pod = Self {
            containers: names("containers").iter().map(name).collect(),
            init: names("initContainers")
                .iter()
                .map(|container| (name(container), container["restartPolicy"] == "Always"))
                .collect(),
            plan,
            created,
            steps: Vec::new(),
            conditions: Vec::new(),
            started: None,
            restarts: 0,
            submission,
            ended_alone: None,
            is_bound: object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()),
            is_over: false,
            is_dying: false,
        };
        pod.schedule();
        pod
    }

    fn schedule(&mut self) {
        if !self.plan.unscheduled {
            self.later(Duration::ZERO, Step::Bind);
        }
        if self.plan.reject {
            if let Some(start) = self.plan.start {
                self.later(start, Step::Reject);
            }
            return;
        }
        if let Some(start) = self.plan.start {
            self.later(start, Step::Start);
            match self.plan.restarts {
                Some(0) => self.plan_end(start),
                _ => self.later(start + self.plan.every, Step::Restart),
            }
        }
        if let Some(disrupt) = &self.plan.disrupt {
            self.later(self.plan.start.unwrap_or_default() + disrupt.after, Step::Disrupt);
        }
    }

    fn plan_end(&mut self, from: Duration) {
        // One that follows its program ends with that.
        if let Some(run) = self.plan.run.filter(|_| !self.plan.submit.follows) {
            self.later(from + run, Step::End);
        }
    }

    fn later(&mut self, at: Duration, step: Step) {
        let place = self.steps.partition_point(|(time, _)| *time <= at);
        self.steps.insert(place, (at, step));
    }

    /// Returns when something is to be done next; none: not before something happens to it.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.steps.first().map(|(at, _)| *at)
    }

    /// Notes that it is being deleted, with this grace in seconds.
    pub(crate) fn deleted(&mut self, now: Duration, grace: u64) {
        if self.is_dying {
            return;
        }
        self.is_dying = true;
        self.steps.clear();
        if self.is_over {
            self.later(now, Step::Remove);
            return;
        }
        if !self.is_bound {
            // The API server removes it at once.
            return;
        }
        if let Some(disrupt) = self.plan.disrupt.as_ref().filter(|disrupt| disrupt.cause == Cause::Lost) {
            if let Some(gc) = disrupt.gc {
                self.later(now + gc, Step::Collect);
            }
            return;
        }
        if self.started.is_none() {
            self.later(now + Duration::from_millis(200), Step::Refuse);
            return;
        }
        let grace = Duration::from_secs(grace);
        let (after, code) = match self.plan.term.after {
            Some(after) if after <= grace => (after, self.plan.term.code),
            _ => (grace, 137),
        };
        self.later(now + after, Step::Stop(code));
    }

    /// Does everything that is due.
    pub(crate) fn act(&mut self, now: Duration) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some((at, step)) = self.steps.first().copied().filter(|(at, _)| *at <= now) {
            self.steps.remove(0);
            self.take(step, at, now, &mut requests);
        }
        requests
    }

    fn take(&mut self, step: Step, at: Duration, now: Duration, requests: &mut Vec<Request>) {
        match step {
            Step::Bind => {
                if !self.is_bound {
                    self.is_bound = true;
                    requests.push(Request::Bind);
                }
                let late = self.plan.start.is_none_or(|start| start > Duration::from_secs(1));
                if late && !self.plan.reject {
                    self.set("Ready", "False", Some("ContainersNotReady"), now);
                    requests.push(self.status("Pending", Some(&Stage::Waiting), None, now));
                }
            }
            Step::Reject => {
                requests.push(self.status("Failed", None, Some("UnexpectedAdmissionError"), now));
                self.end();
            }
            Step::Start => {
                self.started = Some(now);
                if self.plan.init.is_empty() {
                    if !self.plan.never_ready {
                        self.set("Ready", "True", None, now);
                    }
                    requests.push(self.status("Running", Some(&Stage::Running), None, now));
                } else {
                    self.set("Ready", "False", Some("ContainersNotInitialized"), now);
                }
            }
            Step::Restart => {
                self.restarts += 1;
                requests.push(self.status("Running", Some(&Stage::Running), None, now));
                if self.plan.restarts.is_none_or(|most| self.restarts < most) {
                    self.later(at + self.plan.every, Step::Restart);
                } else {
                    self.plan_end(at);
                }
            }
            Step::End => {
                self.set("Ready", "False", None, now);
                let request = if self.plan.init.is_empty() {
                    let codes = match self.plan.exit.clone() {
                        Exit::First(code) => self.first(code),
                        Exit::Each(codes) => codes,
                    };
                    self.ended(codes, now)
                } else {
                    self.status("Failed", Some(&Stage::InitFailed), None, now)
                };
                requests.push(request);
                self.end();
            }
            Step::Disrupt => self.disrupt(now, requests),
            Step::Refuse => {
                self.set("Ready", "False", None, now);
                requests.push(self.status("Failed", Some(&Stage::Waiting), None, now));
                self.remove(requests);
            }
            Step::Stop(code) => {
                self.set("Ready", "False", None, now);
                let codes = self.first(code);
                requests.push(self.ended(codes, now));
                self.remove(requests);
            }
            Step::Collect => {
                self.set("DisruptionTarget", "True", Some("DeletionByPodGC"), now);
                requests.push(Request::Status(
                    json!({"phase": "Failed", "conditions": self.conditions_as_json()}),
                ));
                self.remove(requests);
            }
            Step::Remove => self.remove(requests),
        }
    }

    /// Returns the container that submits a program to Ray, and the time since its start; none: there is none,
    /// or it does not run.
    pub(super) fn submission(&mut self, now: Duration) -> Option<(&mut Submission, Duration)> {
        let started = self.started.filter(|_| !self.is_over && !self.is_dying)?;
        Some((self.submission.as_mut()?, now.saturating_sub(started)))
    }

    /// Ends the container that submits a program, and with it the pod that is there for it.
    pub(super) fn submission_ended(&mut self, code: i64, now: Duration) -> Vec<Request> {
        let Some(submission) = self.submission.take() else { return Vec::new() };
        let request = if submission.is_sidecar {
            self.ended_alone = Some((submission.container, now, code));
            self.set("Ready", "False", Some("ContainersNotReady"), now);
            self.status("Running", Some(&Stage::Running), None, now)
        } else {
            self.set("Ready", "False", None, now);
            let codes = self.first(code);
            let request = self.ended(codes, now);
            self.end();
            request
        };
        vec![request]
    }

    fn disrupt(&mut self, now: Duration, requests: &mut Vec<Request>) {
        let Some(cause) = self.plan.disrupt.as_ref().map(|disrupt| disrupt.cause) else { return };
        if let Some(reason) = cause.reason() {
            self.set("DisruptionTarget", "True", Some(reason), now);
        }
        // Whatever else was planned does not happen any more.
        self.steps.clear();
        match cause {
            Cause::Kubelet => {
                self.set("Ready", "False", None, now);
                let stage =
                    if self.started.is_some() { Stage::Ended(self.first(137)) } else { Stage::Waiting };
                requests.push(self.status("Failed", Some(&stage), Some("Evicted"), now));
                self.end();
            }
            Cause::Delete => requests.push(Request::Delete { grace: None }),
            Cause::Force => requests.push(Request::Delete { grace: Some(0) }),
            Cause::Evict | Cause::Preempt | Cause::Taint | Cause::Lost => {
                requests.push(Request::Status(json!({"conditions": self.conditions_as_json()})));
                requests.push(Request::Delete { grace: None });
            }
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.steps.clear();
    }

    fn remove(&mut self, requests: &mut Vec<Request>) {
        self.end();
        requests.push(Request::Delete { grace: Some(0) });
    }

    fn first(&self, code: i64) -> BTreeMap<String, i64> {
        self.containers.first().map(|name| (name.clone(), code)).into_iter().collect()
    }

    /// As the kubelet: the time of a condition is that of its last change.
    fn set(&mut self, kind: &'static str, status: &'static str, reason: Option<&'static str>, now: Duration) {
        let old = self.conditions.iter().position(|condition| condition.kind == kind);
        let old = old.map(|place| self.conditions.remove(place));
        let since = old.filter(|old| old.status == status).map_or(now, |old| old.since);
        self.conditions.push(Condition { kind, status, reason, since });
    }

    fn ended(&self, codes: BTreeMap<String, i64>, now: Duration) -> Request {
        let phase = if codes.values().any(|code| *code != 0) { "Failed" } else { "Succeeded" };
        self.status(phase, Some(&Stage::Ended(codes)), None, now)
    }

    fn status(&self, phase: &str, stage: Option<&Stage>, reason: Option<&str>, now: Duration) -> Request {
        let mut status = json!({
            "phase": phase, "startTime": self.stamp(Duration::ZERO),
            "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": self.conditions_as_json(),
        });
        if let Some(reason) = reason {
            status["reason"] = json!(reason);
        }
        if let Some(stage) = stage {
            status["containerStatuses"] = self.main_statuses(stage, now);
            if !self.init.is_empty() {
                status["initContainerStatuses"] = self.init_statuses(stage, now);
            }
        }
        Request::Status(status)
    }

    fn conditions_as_json(&self) -> Value {
        let one = |condition: &Condition| {
            let mut value = json!({
                "type": condition.kind, "status": condition.status,
                "lastTransitionTime": self.stamp(condition.since),
            });
            if let Some(reason) = condition.reason {
                value["reason"] = json!(reason);
            }
            value
        };
        self.conditions.iter().map(one).collect()
    }

    fn main_statuses(&self, stage: &Stage, now: Duration) -> Value {
        let one = |(number, name): (usize, &String)| {
            let alone = self.ended_alone.as_ref().filter(|(ended, ..)| ended == name);
            let state = match stage {
                Stage::Waiting => waiting("ContainerCreating"),
                Stage::InitFailed => waiting("PodInitializing"),
                Stage::Running => {
                    alone.map_or_else(|| self.running(), |(_, at, code)| self.terminated(*code, *at))
                }
                Stage::Ended(codes) => {
                    let code = codes.get(name).copied().unwrap_or_default();
                    alone.map_or_else(
                        || self.terminated(code, now),
                        |(_, at, code)| self.terminated(*code, *at),
                    )
                }
            };
            container(name, if number == 0 { self.restarts } else { 0 }, state)
        };
        self.containers.iter().enumerate().map(one).collect()
    }

    /// What comes after a failed init container never starts.
    fn init_statuses(&self, stage: &Stage, now: Duration) -> Value {
        let mut is_broken = false;
        let one = |(name, is_sidecar): &(String, bool)| {
            let code = if *is_sidecar {
                self.plan.sidecar
            } else {
                self.plan.init.get(name).copied().unwrap_or_default()
            };
            let state = match stage {
                Stage::Waiting => waiting("ContainerCreating"),
                _ if is_broken => waiting("PodInitializing"),
                Stage::Running if *is_sidecar => self.running(),
                _ => self.terminated(code, now),
            };
            is_broken |= !is_sidecar && code != 0;
            container(name, 0, state)
        };
        self.init.iter().map(one).collect()
    }

    fn running(&self) -> Value {
        json!({"running": {"startedAt": self.stamp(self.started.unwrap_or_default())}})
    }

    fn terminated(&self, code: i64, now: Duration) -> Value {
        let reason = match code {
            0 => "Completed",
            137 if self.plan.oom => "OOMKilled",
            _ => "Error",
        };
        json!({"terminated": {
            "exitCode": code, "reason": reason,
            "startedAt": self.stamp(self.started.unwrap_or_default()), "finishedAt": self.stamp(now),
        }})
    }

    /// As the API server keeps times: whole seconds.
    fn stamp(&self, at: Duration) -> String {
        let time = self.created.checked_add(at).unwrap_or(self.created);
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason}})
}

fn container(name: &str, restarts: u32, state: Value) -> Value {
    let is_running = state.get("running").is_some();
    json!({
        "name": name, "image": "image", "imageID": "", "ready": is_running, "started": is_running,
        "restartCount": restarts, "state": state,
    })
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
