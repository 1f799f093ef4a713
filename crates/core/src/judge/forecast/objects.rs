//! What would happen to an object of an operator, for rules that ask.

use std::cell::Cell;
use std::sync::Arc;

use super::{Forecast, MOST_WORK};
use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::object_story::{HORIZON, ObjectStory, Remains, lower_object, subject};
use crate::controllers::pod::{Phase, PodGroup};
use crate::controllers::program::{Peers, times};
use crate::controllers::script::{DashboardEvent, INQUEUE, Plan, PlanRule, Range, Script, ScriptEvent};
use crate::controllers::story::Assumptions;
use crate::controllers::subject::{Role, Subject, placeholder};
use crate::controllers::time::Time;
use crate::judge::cost::{Cost, FIELD};
use crate::judge::needs::may_be_unread;
use crate::judge::ranks::WorkloadReading;
use crate::judge::simulation::{ProgramDefaults, name_of, read_object, weigh};
use crate::kinds::{AcceleratorCount, Workload};
use crate::text::meter;
use crate::text::value::Value;

/// Maximum values, and maximum bytes of texts, of an object about which a question is asked.
const MOST_VALUES: usize = 800;
const MOST_TEXT: usize = 16 * 1_024;
/// How many values an object has whose operator takes twice as long to look at it as at the smallest: it reads all of it.
const VALUES_TWICE: usize = 200;
/// How long after it starts a pod fails of which it is asked: at once, so that what follows is what it may cost at most.
const FAILS_AFTER: Time = Time::from_seconds(10);
/// How long pods may run on that nothing stops: those that end within a minute end with the one that failed.
const TOGETHER: Time = Time::from_seconds(60);
/// Maximum roles whose pods are asked about.
const MOST_ROLES: usize = 16;

/// What keeps pods running that can do no more work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::judge) enum Cause {
    /// A pod of this role has exited with 1, and the others wait for it.
    PodFailed(Arc<str>),
    /// Pods of this role have passed their deadline, and the others wait for them.
    PodsOverdue(Arc<str>),
    /// The deadline has passed.
    Deadline,
    /// The work was not submitted.
    NotSubmitted,
}

/// Pods that run on after a failure, which their operator neither stops nor replaces.
#[derive(Clone, Debug)]
pub(in crate::judge) struct LeftBehind {
    /// What came before.
    pub(in crate::judge) cause: Cause,
    /// What they hold, and for how long.
    pub(in crate::judge) cost: Cost,
}

/// What a question is about, and what it may take.
pub(in crate::judge) struct Question<'c, 'a> {
    /// The object.
    pub(in crate::judge) workload: &'c Workload<'a>,
    /// Its texts.
    pub(in crate::judge) reading: &'c WorkloadReading<'a>,
    /// What is assumed of its program.
    pub(in crate::judge) defaults: &'c ProgramDefaults,
    /// The work that is left.
    pub(in crate::judge) left_of_rule: &'c Cell<u64>,
}

impl<'a> Question<'_, 'a> {
    /// Returns what would happen to an object of an operator in an incident of one role, whose program exits with a code on
    /// SIGTERM if that is known; nothing where its operator is not modelled, or there is no short answer.
    pub(in crate::judge) fn forecast(
        &self,
        incident: Incident,
        role: &str,
        code: Option<i64>,
    ) -> Option<Forecast> {
        let of_role = |subject: &Subject| {
            let role = subject.roles.iter().find(|known| known.is_named(role))?.name.clone()?;
            Some(vec![Occurrence { role: Some(role.to_string()), ..Occurrence::from(incident) }])
        };
        self.told(of_role, code)
    }

    /// Returns what comes of an object to which nothing happens: its pods do their work and succeed.
    pub(in crate::judge) fn undisturbed(&self) -> Option<Forecast> {
        self.told(|_| Some(Vec::new()), None)
    }

    /// Returns what comes of a story about the roles of the object.
    fn told(
        &self,
        story_of: impl FnOnce(&Subject) -> Option<Vec<Occurrence>>,
        code: Option<i64>,
    ) -> Option<Forecast> {
        let (_, values) = self.manifest()?;
        let mut object = read_object(self.workload, self.reading, &[], self.defaults)?;
        object.subject.queue = None;
        let story = ObjectStory { manifest: object.manifest, before: &[], subject: &object.subject };
        let occurrences = story_of(&object.subject)?;
        let mut assumptions = object.assumptions;
        assumptions.term.code = code.unwrap_or(assumptions.term.code);
        let (outcome, other) = self.within(values, |left| {
            let mut end = |peers| {
                let assumptions = Assumptions { peers, ..assumptions };
                let script = lower_object(&object.subject, &occurrences, &assumptions);
                story.tell_within(&script, left).ok().flatten()
            };
            let outcome = end(assumptions.peers);
            let other = outcome.as_ref().zip(object.or_peers).map(|(_, peers)| end(peers));
            (outcome, other)
        })?;
        let outcome = outcome?;
        let is_known = other.is_none_or(|other| other.is_some_and(|other| other.ending == outcome.ending));
        let end = outcome.status.conditions.iter().find(|condition| condition.sort == "Failed");
        let why = end.and_then(|end| object.subject.decider(&end.reason, &end.message));
        let roles = &object.subject.roles;
        let weight = |role: &Role| role.at_once.saturating_mul(role.weight);
        let weights = roles.iter().map(weight).fold(0, u32::saturating_add);
        let at_once = roles.iter().map(|role| role.at_once).fold(0, u32::saturating_add);
        let wasted = outcome.idle() + outcome.lost - times(assumptions.startup, weights);
        is_known.then_some(Forecast {
            outcome,
            at_once,
            wasted: wasted.max(Time::START),
            checkpoint: assumptions.checkpoint,
            has_accelerators: object.has_accelerators,
            why: why.map(|(_, why)| why),
        })
    }

    /// Returns the pods that hold accelerators and run on after a failure, though their work can go on no more: the operator
    /// neither ends them nor starts anything again. Nothing where there are none, or where there is no short answer.
    pub(in crate::judge) fn left_behind(&self) -> Option<LeftBehind> {
        let (manifest, values) = self.manifest()?;
        let mut subject = Subject { queue: None, ..subject(manifest, &[])? };
        if !weigh(&mut subject, self.workload) || subject.roles.len() > MOST_ROLES {
            return None;
        }
        let asked =
            if subject.has_dashboard { vec![self.of_dashboard(&subject)] } else { self.of_pods(&subject) };
        let story = ObjectStory { manifest, before: &[], subject: &subject };
        asked.into_iter().find_map(|(cause, script)| {
            let remains = self.within(values, |left| story.remains(&script, HORIZON, left).ok())??;
            self.held(&subject, cause, &remains)
        })
    }

    /// Returns the manifest and how many values it has, if a question about it is short, and nothing is hidden that decides.
    fn manifest(&self) -> Option<(&'a Value, usize)> {
        // What is inside another object is deleted and made again by that.
        let manifest = self.workload.object.value.filter(|_| self.workload.inside.is_none())?;
        let values = small_size(manifest);
        meter::spend(values.unwrap_or(MOST_VALUES) as u64);
        let values = values?;
        placeholder(manifest.get("spec")?).is_none().then_some((manifest, values))
    }

    /// Lets a question about an object of some values take what is left of the work of its rule.
    fn within<T>(&self, values: usize, ask: impl FnOnce(&mut u64) -> T) -> Option<T> {
        let (twice, values) = (VALUES_TWICE as u64, values as u64);
        let of_rule = self.left_of_rule.get();
        let most = MOST_WORK.min(of_rule) * twice / (twice + values);
        if most == 0 {
            return None;
        }
        let mut left = most;
        let told = ask(&mut left);
        let work = (most - left) * (twice + values) / twice;
        meter::spend(work);
        self.left_of_rule.set(of_rule.saturating_sub(work));
        Some(told)
    }

    /// Returns how a Ray cluster comes to have nothing to do, without a program that has failed.
    fn of_dashboard(&self, subject: &Subject) -> (Cause, Script) {
        let assumptions = self.assumptions();
        if subject.deadline.is_some() {
            let hang = Occurrence::from(Incident::Hang);
            return (Cause::Deadline, lower_object(subject, &[hang], &assumptions));
        }
        let mut script = lower_object(subject, &[], &assumptions);
        script.events.insert(0, (Time::START, ScriptEvent::Dashboard(DashboardEvent::Down)));
        (Cause::NotSubmitted, script)
    }

    /// Returns how a pod of each role fails, while all others wait for it until a deadline of their own.
    fn of_pods(&self, subject: &Subject) -> Vec<(Cause, Script)> {
        let first = Range { first: 0, last: Some(0) };
        let fails = |after, code| Plan {
            run: Some(after),
            follows_program: false,
            fails_by_itself: true,
            exit: vec![(String::new(), code)],
            ..Plan::default()
        };
        let deadline = |role: &Role| {
            let pod = self.workload.pods.iter().find(|pod| role.is_named(name_of(pod)))?;
            let seconds = pod.spec.get(FIELD).int().set().filter(|seconds| *seconds > 0)?;
            Some(Time::from_seconds(seconds))
        };
        let mut wait = Script { program: None, ..lower_object(subject, &[], &self.assumptions()) };
        wait.plans.clear();
        for role in &subject.roles {
            let hangs = Plan { run: None, follows_program: false, ..Plan::default() };
            let plan = deadline(role).map_or(hangs, |deadline| fails(deadline, 137));
            wait.plans.push(PlanRule { role: role.name.clone(), plan, ..PlanRule::default() });
        }
        let asked = subject.roles.iter().filter_map(|role| {
            let name = role.name.clone()?;
            if role.restarts_in_place {
                return deadline(role).map(|_| (Cause::PodsOverdue(name), wait.clone()));
            }
            let (plan, role) = (fails(FAILS_AFTER, 1), Some(Arc::clone(&name)));
            let rule =
                PlanRule { role, index: Some(first), attempt: Some(first), plan, ..PlanRule::default() };
            let mut script = wait.clone();
            script.plans.insert(0, rule);
            Some((Cause::PodFailed(name), script))
        });
        asked.collect()
    }

    fn assumptions(&self) -> Assumptions {
        let ProgramDefaults { runtime, startup, checkpoint, .. } = *self.defaults;
        let (peers, term) = (Peers::Hang, Plan::default().term);
        Assumptions {
            runtime,
            startup,
            checkpoint,
            peers,
            pods_per_node: 1,
            term,
            unreachable: None,
            wait_for_pods_ready: None,
            gang_after: Some(INQUEUE),
        }
    }

    /// Returns what the pods hold that nothing stops, and for how long.
    fn held(&self, subject: &Subject, cause: Cause, remains: &Remains) -> Option<LeftBehind> {
        let failed = match &cause {
            Cause::PodFailed(role) | Cause::PodsOverdue(role) => {
                let failed =
                    remains.pods.iter().filter(|(of, pods)| of == role && pods.phase == Phase::Failed);
                failed.filter_map(|(_, pods)| pods.ended).min()?
            }
            Cause::Deadline | Cause::NotSubmitted => remains.end.as_ref().filter(|end| !end.is_success)?.at,
        };
        let weighs = |role: &Arc<str>| {
            subject.roles.iter().any(|known| known.name.as_ref() == Some(role) && known.weight > 0)
        };
        let left = || remains.pods.iter().filter(|(role, pods)| weighs(role) && runs_on(pods, failed));
        // What is made while they run on may be what they wait for.
        let first_end = left().filter_map(|(_, pods)| pods.ended).min();
        let is_made = |made: Time| made > failed && first_end.is_none_or(|end| made < end);
        if remains.pods.iter().any(|(_, pods)| is_made(pods.created)) {
            return None;
        }
        let (mut held, mut longest) = (AcceleratorCount::default(), Some(Time::START));
        for (role, pods) in left() {
            let template = self.workload.pods.iter().find(|pod| name_of(pod).eq_ignore_ascii_case(role));
            held += AcceleratorCount::from_pod(template?)?.times(pods.count().into());
            longest = longest.zip(pods.ended).map(|(longest, ended)| longest.max(ended - failed));
        }
        let seconds = longest.map(|longest| (longest.millis() + 999) / 1_000);
        Some(LeftBehind { cause, cost: Cost::new(held, seconds)? })
    }
}

/// Tells whether pods run after a moment, and nobody deletes them.
fn runs_on(pods: &PodGroup, failed: Time) -> bool {
    let is_stopped = match (pods.deletion, pods.gone, pods.ended) {
        (None, None, _) => false,
        (Some(deletion), _, Some(ended)) => deletion.since < ended,
        _ => true,
    };
    let ends_with_it = pods.ended.is_some_and(|ended| ended <= failed + TOGETHER);
    pods.started.is_some_and(|started| started <= failed + TOGETHER) && !is_stopped && !ends_with_it
}

/// Returns how many values the metadata and `spec` of an object have, if they are few and their texts are short, without what
/// a review may be read without: an answer must not depend on that.
pub(in crate::judge) fn small_size(object: &Value) -> Option<usize> {
    let (mut values, mut text) = (MOST_VALUES, MOST_TEXT);
    let parts = ["metadata", "spec"].map(|part| object.get(part));
    let is_small = parts.into_iter().flatten().all(|part| is_small(part, &mut values, &mut text));
    is_small.then_some(MOST_VALUES - values)
}

/// Tells whether a value has few values and short texts; they are counted off until there are too many.
fn is_small(value: &Value, values: &mut usize, text: &mut usize) -> bool {
    let take = |from: &mut usize, amount: usize| {
        let left = from.checked_sub(amount);
        *from = left.unwrap_or_default();
        left.is_some()
    };
    take(values, 1)
        && match value {
            Value::String(string) => take(text, string.len()),
            Value::Array(items) => items.iter().all(|item| is_small(item, values, text)),
            Value::Object(fields) => {
                let mut read = fields.iter().filter(|(key, _)| !may_be_unread(key));
                read.all(|(key, value)| take(text, key.len()) && is_small(value, values, text))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::forecast::MOST_WORK_OF_RULE;
    use crate::text::patch::merge;
    use crate::text::value::json;

    fn pod(gpus: i64, restart: &str) -> Value {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}});
        json!({"spec": {"restartPolicy": restart, "containers": [container]}})
    }

    fn volcano(tasks: &Value, policies: &Value) -> Value {
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"tasks": tasks.clone(), "policies": policies.clone()}})
    }

    fn workers(replicas: i64, restart: &str) -> Value {
        json!([{"name": "w", "replicas": replicas, "template": pod(8, restart)}])
    }

    fn ray(patch: &Value) -> Value {
        let mut job = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": {
            "entrypoint": "python a.py", "rayClusterSpec": {"headGroupSpec": {"template": pod(0, "Always")},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": pod(8, "Always")}]}}});
        merge(&mut job, &json!({"spec": patch.clone()}));
        job
    }

    fn ask<T>(object: &Value, question: impl FnOnce(&Question<'_, '_>) -> T) -> (T, u64) {
        let workload = Workload::from_object(object).expect("a workload");
        let reading = WorkloadReading::from_workload(&workload);
        let (defaults, left) = (ProgramDefaults::default(), Cell::new(MOST_WORK_OF_RULE));
        let asked =
            Question { workload: &workload, reading: &reading, defaults: &defaults, left_of_rule: &left };
        meter::run(meter::Bounds::default(), || question(&asked)).expect("no bounds")
    }

    fn left(object: &Value) -> Option<(Cause, String)> {
        ask(object, |asked| asked.left_behind()).0.map(|left| (left.cause, left.cost.to_string()))
    }

    #[test]
    fn pods_are_left_behind_where_no_policy_is_for_what_happens() {
        let failed = Some((Cause::PodFailed("w".into()), "24 GPUs without a time limit".to_owned()));
        let policies = |event: &str, action: &str| json!([{"event": event, "action": action}]);
        for (policies, expected) in [
            (json!([]), &failed),
            (policies("PodEvicted", "RestartJob"), &failed),
            (json!([{"exitCode": 137, "action": "RestartJob"}]), &failed),
            (json!([{"exitCode": 1, "action": "TerminateJob"}]), &None),
            (policies("PodFailed", "TerminateJob"), &None),
            (policies("PodFailed", "RestartJob"), &None),
            (policies("PodFailed", "RestartTask"), &None),
            (policies("*", "AbortJob"), &None),
            (policies("$EVENT", "RestartJob"), &None),
            (json!([{"events": ["$EVENT"], "action": "RestartJob"}]), &None),
            (policies("PodFailed", "$ACTION"), &None),
        ] {
            assert_eq!(&left(&volcano(&workers(4, "Never"), &policies)), expected, "{policies}");
        }
        assert_eq!(left(&volcano(&workers(1, "Never"), &json!([]))), None, "no other");
        assert_eq!(left(&volcano(&workers(4, "OnFailure"), &json!([]))), None, "none fails");
    }

    #[test]
    fn what_a_review_is_read_without_changes_no_answer() {
        let (bare, mut whole) =
            (volcano(&workers(4, "Never"), &json!([])), volcano(&workers(4, "Never"), &json!([])));
        let ports: Vec<Value> = (1..900).map(|port| json!({"containerPort": port})).collect();
        whole["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"] = ports.into();
        whole["metadata"]["managedFields"] = vec![json!({"manager": "x".repeat(20_000)})].into();
        whole["status"] = json!({"conditions": vec![json!({}); 900]});
        assert_eq!(small_size(&bare), small_size(&whole));
        assert_eq!((left(&bare), left(&bare).is_some()), (left(&whole), true));
    }

    #[test]
    fn a_ray_cluster_is_left_behind_where_no_rule_is_for_its_end() {
        let rules = |conditions: &[&str]| {
            let rule = |status: &&str| {
                let key = if *status == "Failed" { "jobDeploymentStatus" } else { "jobStatus" };
                let mut condition = json!({});
                condition[key] = (*status).into();
                json!({"policy": "DeleteCluster", "condition": condition})
            };
            let rules: Vec<Value> = conditions.iter().map(rule).collect();
            json!({"deletionStrategy": {"deletionRules": rules}})
        };
        let with = |conditions: &[&str], deadline: bool| {
            let mut job = ray(&rules(conditions));
            if deadline {
                job["spec"]["activeDeadlineSeconds"] = 43_200.into();
            }
            left(&job)
        };
        let held = || "16 GPUs without a time limit".to_owned();
        assert_eq!(with(&["FAILED", "SUCCEEDED"], true), Some((Cause::Deadline, held())));
        assert_eq!(with(&["FAILED", "SUCCEEDED"], false), Some((Cause::NotSubmitted, held())));
        assert_eq!(with(&["Failed", "SUCCEEDED"], true), None);
        assert_eq!(with(&["Failed", "SUCCEEDED"], false), None);
        assert_eq!(with(&["$STATUS"], true), None);
    }

    #[test]
    fn the_loss_of_a_node_costs_what_the_others_wait() {
        let job = |policy: &Value| {
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": {
                "runPolicy": policy.clone(), "pytorchReplicaSpecs": {"Worker": {
                    "replicas": 4, "restartPolicy": "OnFailure", "template": pod(8, "Never")}}}})
        };
        let told = |job: &Value| {
            let (told, steps) = ask(job, |asked| asked.forecast(Incident::Spot, "Worker", None));
            assert!(steps <= 2 * MOST_WORK, "{steps}");
            told.map(|told| (told.outcome.ending.word(), told.why.is_some(), told.loss().to_string()))
        };
        let waste = "14 accelerator hours with a checkpoint every 30m".to_owned();
        assert_eq!(told(&job(&json!({}))), Some(("completes", false, waste)));
        let (ending, has_reason, _) = told(&job(&json!({"backoffLimit": 2}))).expect("an answer");
        assert_eq!((ending, has_reason), ("fails", true));
        assert_eq!(told(&job(&json!({"backoffLimit": "$LIMIT"}))), None);
    }

    #[test]
    fn a_question_has_a_bound_whatever_the_object_says() {
        let many: Vec<Value> = (0..500)
            .map(|nth| json!({"name": nth.to_string(), "replicas": 1, "template": pod(8, "Never")}))
            .collect();
        let long = "x".repeat(1_000_000);
        let tasks = |count: usize| {
            let task =
                |nth: usize| json!({"name": nth.to_string(), "replicas": 9, "template": pod(1, "Never")});
            Value::from((0..count).map(task).collect::<Vec<_>>())
        };
        let restart = json!([{"event": "*", "action": "RestartJob"}]);
        let group = json!({"groupName": "gpu", "replicas": i32::MAX, "numOfHosts": i32::MAX, "template": pod(8, "Always")});
        let strategy = json!({"deletionStrategy": {"deletionRules": [{"policy": "DeleteNone"}]}});
        let mut again = volcano(&workers(4, "OnFailure"), &restart);
        merge(&mut again, &json!({"spec": {"maxRetry": i32::MAX}}));
        let pod = &mut again["spec"]["tasks"][0]["template"]["spec"];
        pod["activeDeadlineSeconds"] = 1.into();
        pod["containers"][0]["env"] = vec![json!({"name": "A", "value": "b"}); 250].into();
        let mut objects = vec![
            volcano(&workers(i64::from(i32::MAX), "Never"), &json!([])),
            volcano(&workers(4, "Never"), &json!([{"event": "*", "action": "RestartTask"}])),
            volcano(&tasks(16), &restart),
            volcano(&many.into(), &json!([])),
            volcano(&workers(4, "Never"), &json!([{"event": long.as_str(), "action": "RestartJob"}])),
            volcano(&json!([[[{}], null]]), &json!({"a": 3})),
            ray(&strategy),
            again,
        ];
        let mut wide = ray(&strategy);
        wide["spec"]["backoffLimit"] = i32::MAX.into();
        wide["spec"]["rayClusterSpec"]["workerGroupSpecs"] = vec![group; 8].into();
        objects.push(wide);
        for object in &objects {
            let (_, steps) = ask(object, |asked| asked.left_behind());
            // With what it takes to read the object.
            assert!(steps <= 2 * MOST_WORK_OF_RULE, "{steps}");
        }
    }
}
