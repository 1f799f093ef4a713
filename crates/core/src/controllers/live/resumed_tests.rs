//! A run that is taken up in the middle, from what kubectl would print then, ends as it would have ended.

use super::super::incident::Occurrence;
use super::super::object_story::subject;
use super::super::program::Peers;
use super::super::script::Termination;
use super::super::story::{Assumptions, Outcome, Summary, lower_for};
use super::super::time::{Clock, Time};
use super::super::world::World;
use super::kubectl_output::exported;
use super::{LiveObject, LiveOutcome, LiveSnapshot, lower_object, tell_object, tell_object_otherwise};
use crate::text::value::{Value, json};

/// 2026-11-28T03:10:10Z, in milliseconds.
const START: i64 = 1_795_835_410_000;
const MINUTE: i64 = 60_000;
/// How far two ends may be apart: operators look every few seconds, and the API keeps whole ones.
const NEAR: i64 = 8_000;

fn assumed(peers: Peers) -> Assumptions {
    Assumptions {
        runtime: Time::from_seconds(3_600),
        startup: Time::from_seconds(60),
        checkpoint: None,
        peers,
        pods_per_node: 1,
        term: Termination::default(),
        wait_for_pods_ready: None,
        gang_after: Some(super::super::script::INQUEUE),
        unreachable: Some(Time::from_seconds(300)),
    }
}

fn story(text: &str) -> Vec<Occurrence> {
    text.split_whitespace().map(|one| one.parse().unwrap()).collect()
}

/// A run from the beginning.
struct Run<'m> {
    manifest: &'m Value,
    story: Vec<Occurrence>,
    assumptions: Assumptions,
}

impl Run<'_> {
    /// Returns its cluster at a moment.
    fn until(&self, moment: Time) -> World {
        let subject = subject(self.manifest, &[]).unwrap();
        let script = lower_for(&subject, &self.story, &self.assumptions);
        let mut world = World::with_object(self.manifest, &[], script, Clock { start: START }).unwrap();
        let hosts = subject.roles.iter().filter(|role| role.serves).map(|role| role.count);
        world.hosts = Some(hosts.sum()).filter(|hosts| *hosts > 0);
        world.run(moment).unwrap();
        world
    }

    /// Returns how it ends from a moment on.
    fn end(world: &mut World) -> Outcome {
        let is_still = world.run_to_end(Time::from_seconds(60 * 86_400)).unwrap();
        Summary::from_main(world).outcome(world, None, is_still)
    }

    /// Returns the object as it is at a moment, and what happens to it later.
    fn live(&self, world: &World, moment: Time) -> (LiveObject, Vec<Occurrence>) {
        let mut snapshot = LiveSnapshot::new(START + moment.millis());
        for object in exported(world, START) {
            if !snapshot.add_pod(&object) {
                snapshot.add(&object);
            }
        }
        let parts = snapshot.into_parts();
        let name = self.manifest.pointer("/metadata/name").and_then(Value::as_str);
        let object = parts.objects.into_iter().find(|object| Some(object.name.as_str()) == name).unwrap();
        let later = self.story.iter().filter(|one| one.at.is_some_and(|at| at > moment));
        (object, later.map(|one| Occurrence { at: one.at.map(|at| at - moment), ..one.clone() }).collect())
    }

    /// Returns in words what differs between the end of the whole run and the end as it is seen from a moment on.
    fn differs(&self, moment: Time) -> Option<String> {
        // Nobody sees a second or, of Ray, a tick long what happens then.
        let unseen = if self.manifest.get("apiVersion").unwrap() == "ray.io/v1" { 3_500 } else { 1_100 };
        let happens = self.story.iter().filter_map(|one| one.at);
        if happens.into_iter().any(|at| (0..unseen).contains(&(moment - at).millis())) {
            return None;
        }
        let mut world = self.until(moment);
        if world.cluster.is_over(world.main) {
            return None;
        }
        let (object, later) = self.live(&world, moment);
        // Pods in deletion are taken to need all of their grace.
        let is_ending = world.cluster.pods.iter().any(|pods| pods.gone.is_none() && pods.deletion.is_some());
        let near = if is_ending { NEAR + 30_000 } else { NEAR };
        let whole = Self::end(&mut world);
        let script = match lower_object(&object, &later, &self.assumptions) {
            Ok(script) => script,
            Err(problem) => return Some(problem),
        };
        let told = tell_object(&object, &script).unwrap();
        let is_same = |told: &LiveOutcome| {
            let at = told.outcome.at + moment;
            let is_near = (at - whole.at).millis().abs() <= near
                || !matches!(told.outcome.ending.word(), "completes" | "fails" | "completes-half-done");
            (told.outcome.ending, &told.outcome.reason) == (whole.ending, &whole.reason) && is_near
        };
        let or = || tell_object_otherwise(&object, &script, &told).unwrap().is_some_and(|or| is_same(&or));
        (!is_same(&told) && !or()).then(|| {
            format!(
                "at {moment}: {} ({:?}) at {}, not {} ({:?}) at {}",
                told.outcome.ending.word(),
                told.outcome.reason,
                told.outcome.at + moment,
                whole.ending.word(),
                whole.reason,
                whole.at
            )
        })
    }
}

/// Returns moments: all over the run, and one after the other where something happens.
fn moments() -> Vec<Time> {
    let wide = [1, 700, 1_500, 5_000, 10 * MINUTE, 29 * MINUTE, 35 * MINUTE, 45 * MINUTE, 80 * MINUTE];
    let close = (0..20).map(|nth| 30 * MINUTE - 700 + nth * 740);
    let later = (0..12).map(|nth| 31 * MINUTE + nth * 17_130);
    wide.into_iter().chain(close).chain(later).map(Time::from_millis).collect()
}

fn assert_resumes(cases: &[(&str, Value)], stories: &[&str], peers: Peers) {
    let mut differing = Vec::new();
    let mut all = 0;
    for (name, manifest) in cases {
        for text in stories {
            let run = Run { manifest, story: story(text), assumptions: assumed(peers) };
            for moment in moments() {
                all += 1;
                differing.extend(run.differs(moment).map(|what| format!("{name}, {text}: {what}")));
            }
        }
    }
    assert!(differing.is_empty(), "{} of {all}\n{}", differing.len(), differing.join("\n"));
}

fn volcano(spec: Value) -> Value {
    let task = |name: &str, replicas: u32| {
        let pod =
            json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "m", "image": "i" }] } });
        json!({ "name": name, "replicas": replicas, "template": pod })
    };
    let mut whole = json!({ "maxRetry": 3, "tasks": [task("a", 2), task("b", 1)] });
    crate::text::patch::merge(&mut whole, &spec);
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "v" }, "spec": whole,
    })
}

fn policy(event: &str, action: &str) -> Value {
    volcano(json!({ "policies": [{ "event": event, "action": action }] }))
}

#[test]
fn a_volcano_job_ends_as_it_would_have() {
    let cases = [
        ("no policy", volcano(json!({}))),
        ("few are enough", volcano(json!({ "minAvailable": 1 }))),
        ("RestartJob", policy("PodFailed", "RestartJob")),
        (
            "RestartJob once",
            volcano(json!({
            "maxRetry": 1, "policies": [{ "event": "PodFailed", "action": "RestartJob" }] })),
        ),
        ("RestartTask", policy("PodFailed", "RestartTask")),
        ("RestartPod", policy("PodFailed", "RestartPod")),
        ("AbortJob", policy("PodFailed", "AbortJob")),
        ("TerminateJob", policy("PodFailed", "TerminateJob")),
        ("CompleteJob", policy("TaskCompleted", "CompleteJob")),
        ("RestartJob after an eviction", policy("PodEvicted", "RestartJob")),
        ("any", policy("*", "RestartJob")),
    ];
    let stories = [
        "",
        "exit=1@30m:role=a,index=0",
        "exit=1@30m:role=b",
        "drain@30m:role=a,index=1",
        "oom@30m:role=a,n=2",
    ];
    assert_resumes(&cases, &stories, Peers::Independent);
}

#[test]
fn an_action_of_a_policy_that_waits_comes_when_it_is_due() {
    let timed = |action: &str| {
        let policy = json!([{ "event": "PodFailed", "action": action, "timeout": "3m" }]);
        volcano(json!({ "policies": policy }))
    };
    let cases = [("RestartPod", timed("RestartPod")), ("AbortJob", timed("AbortJob"))];
    assert_resumes(&cases, &["exit=1@30m:role=a,index=0"], Peers::Independent);
}

#[test]
fn a_volcano_job_whose_ranks_need_one_another_ends_as_it_would_have() {
    let cases = [
        ("RestartJob", policy("PodFailed", "RestartJob")),
        ("RestartTask", policy("PodFailed", "RestartTask")),
    ];
    assert_resumes(&cases, &["", "exit=1@30m:role=a,index=0"], Peers::Exit(Time::from_seconds(5)));
}

fn ray(spec: Value) -> Value {
    let pod = |name: &str| json!({ "spec": { "containers": [{ "name": name, "image": "rayproject/ray:2.46.0" }] } });
    let mut whole = json!({
        "entrypoint": "python x.py",
        "rayClusterSpec": {
            "headGroupSpec": { "template": pod("ray-head") },
            "workerGroupSpecs": [
                { "groupName": "w", "replicas": 2, "minReplicas": 1, "maxReplicas": 5, "template": pod("ray-worker") },
            ],
        },
    });
    crate::text::patch::merge(&mut whole, &spec);
    json!({ "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": { "name": "r" }, "spec": whole })
}

#[test]
fn a_rayjob_ends_as_it_would_have() {
    let cases = [
        ("a Job submits", ray(json!({}))),
        ("the operator submits", ray(json!({ "submissionMode": "HTTPMode" }))),
        ("a container beside the head submits", ray(json!({ "submissionMode": "SidecarMode" }))),
        ("a retry", ray(json!({ "backoffLimit": 2 }))),
        ("a deadline", ray(json!({ "activeDeadlineSeconds": 2_400 }))),
        ("it shuts down", ray(json!({ "shutdownAfterJobFinishes": true, "backoffLimit": 1 }))),
    ];
    let stories = [
        "",
        "exit=1@30m",
        "drain@30m:role=head",
        "drain@30m:role=w",
        "submitter-lost@30m",
        "dashboard-silent@90m:6m",
        "operator-away@50m:1m",
    ];
    assert_resumes(&cases, &stories, Peers::Independent);
}
