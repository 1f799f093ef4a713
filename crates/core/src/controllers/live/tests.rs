//! What Jobs of a cluster wait for, and what comes of them.

use std::time::Instant;

use super::super::incident::Occurrence;
use super::super::program::Peers;
use super::super::script::Termination;
use super::super::story::{Assumptions, Ending};
use super::super::time::Time;
use super::*;
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// 2026-11-28T03:10:10Z.
const NOW: i64 = 1_795_835_410_000;

fn seconds(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

/// Returns a time so many seconds from now, as the API writes it.
fn stamp(at: i64) -> String {
    jiff::Timestamp::from_millisecond(NOW + at * 1_000).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn job(change: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": "u", "creationTimestamp": stamp(-7_800)},
        "spec": {
            "completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 6,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {"active": 2, "ready": 2, "startTime": stamp(-7_800)},
    });
    merge(&mut job, &change);
    job
}

fn pod(index: i64, change: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("train-{index}-x"), "namespace": "ml", "creationTimestamp": stamp(-7_800),
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u", "controller": true}],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {"nodeName": format!("gpu-{index}")},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(-7_790)}],
            "containerStatuses": [
                {"name": "c", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": stamp(-7_795)}}}
            ],
        },
    });
    merge(&mut pod, &change);
    pod
}

/// A pod that failed with 1, so many seconds from now.
fn failed(index: i64, at: i64) -> Value {
    pod(
        index,
        json!({
            "metadata": {"name": format!("train-{index}-failed{at}"), "finalizers": null},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp(at)}],
                "containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "state": {
                    "terminated": {"exitCode": 1, "finishedAt": stamp(at)},
                }}],
            },
        }),
    )
}

/// A pod in deletion, since so many seconds from now.
fn deleted(index: i64, at: i64, change: Value) -> Value {
    let mut deletion =
        json!({"metadata": {"deletionTimestamp": stamp(at + 30), "deletionGracePeriodSeconds": 30}});
    merge(&mut deletion, &change);
    pod(index, deletion)
}

fn waiting(index: i64, reason: &str, change: Value) -> Value {
    let mut waiting = json!({"status": {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp(-7_800)}],
        "containerStatuses": [{"name": "c", "image": "r/i:1", "ready": false, "restartCount": 0, "state": {
            "waiting": {"reason": reason, "message": "why"},
        }}],
    }});
    merge(&mut waiting, &change);
    pod(index, waiting)
}

fn condition(sort: &str, reason: &str, at: i64) -> Value {
    json!({"type": sort, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": stamp(at)})
}

fn live(job: Value, pods: Vec<Value>) -> LiveJob {
    let mut snapshot = LiveSnapshot::new(NOW);
    assert!(is_live(&job));
    snapshot.add(&job);
    for pod in pods {
        assert!(snapshot.add_pod(&pod));
    }
    snapshot.into_jobs().remove(0)
}

fn assumed() -> Assumptions {
    Assumptions {
        runtime: seconds(4 * 3_600),
        startup: seconds(120),
        checkpoint: Some(seconds(1_800)),
        peers: Peers::Independent,
        pods_per_node: 1,
        term: Termination::default(),
        unreachable: Some(seconds(300)),
        wait_for_pods_ready: None,
        gang_after: Some(super::super::script::INQUEUE),
    }
}

fn ahead(job: &LiveJob, story: &str) -> LiveOutcome {
    let story: Vec<Occurrence> =
        story.split('+').filter(|one| !one.is_empty()).map(|one| one.parse().unwrap()).collect();
    told(job, &story, &assumed())
}

fn told(job: &LiveJob, story: &[Occurrence], assumptions: &Assumptions) -> LiveOutcome {
    tell(job, &lower(job, story, assumptions)).unwrap()
}

type Case = (&'static str, Value, Vec<Value>, &'static [(&'static str, Option<i64>, Option<i64>)]);

/// Each state: a Job and its pods; what it waits for, since when and until when.
fn states() -> Vec<Case> {
    let complete = json!({"status": {"conditions": [condition("Complete", "CompletionsReached", -600)]}});
    let unscheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/5 nodes are available", "lastTransitionTime": stamp(-900)});
    let running = || vec![pod(0, json!({})), pod(1, json!({}))];
    let by_taint = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"});
    let not_ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": stamp(-100)});
    let silent = json!({"status": {"conditions": [not_ready]}});
    vec![
        ("runs", job(json!({})), running(), &[("running", Some(-7_795), None)]),
        (
            "runs to a deadline",
            job(json!({"spec": {"activeDeadlineSeconds": 86_400}})),
            running(),
            &[("running", Some(-7_795), Some(86_400 - 7_800))],
        ),
        (
            "has ended, with a TTL",
            job(merged(complete.clone(), json!({"spec": {"ttlSecondsAfterFinished": 3_600}}))),
            vec![],
            &[("ttl", Some(-600), Some(3_000))],
        ),
        ("has ended", job(complete), vec![], &[("ended", Some(-600), None)]),
        (
            "is in deletion",
            job(json!({"metadata": {"deletionTimestamp": stamp(-60), "finalizers": ["foregroundDeletion"]}})),
            vec![deleted(0, -60, json!({}))],
            &[("deletion", Some(-60), None), ("terminating", Some(-60), Some(-30))],
        ),
        (
            "is managed by another",
            job(json!({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}})),
            vec![],
            &[("managed-by", None, None)],
        ),
        (
            "is suspended",
            job(json!({"spec": {"suspend": true}, "status": {"conditions": [condition("Suspended", "JobSuspended", -50)]}})),
            vec![],
            &[("suspended", Some(-50), None)],
        ),
        (
            "is decided",
            job(json!({"status": {"conditions": [condition("FailureTarget", "BackoffLimitExceeded", -2_000)]}})),
            vec![deleted(1, -2_000, json!({}))],
            &[("last-condition", Some(-2_000), None), ("pod-stuck", Some(-2_000), None)],
        ),
        (
            "has a pod on a lost node",
            job(json!({})),
            vec![pod(0, json!({})), deleted(1, -2_000, merged(silent.clone(), json!({"status": {"conditions": [by_taint]}})))],
            // The controller takes the one in deletion for failed: another is missing since the back-off of 10 s.
            &[("pod-stuck", Some(-2_000), None), ("pods-missing", Some(-1_990), None), ("running", Some(-7_795), None)],
        ),
        (
            "has a pod that others hold",
            job(json!({"spec": {"podReplacementPolicy": "Failed"}})),
            vec![pod(0, json!({})), merged(failed(1, -900), json!({"metadata": {
                "deletionTimestamp": stamp(-800), "finalizers": ["example.com/f"],
            }}))],
            &[("pod-kept", Some(-800), None), ("pods-missing", Some(-890), None), ("running", Some(-7_795), None)],
        ),
        (
            "has a node that does not answer",
            job(json!({})),
            vec![pod(0, json!({})), pod(1, silent)],
            &[("node-silent", Some(-100), Some(205)), ("running", Some(-7_795), None)],
        ),
        (
            "finds no node",
            job(json!({})),
            (0..2).map(|index| pod(index, json!({"spec": {"nodeName": null}, "status": {
                "phase": "Pending", "conditions": [unscheduled.clone()], "containerStatuses": null,
            }}))).collect(),
            &[("unschedulable", Some(-900), None)],
        ),
        (
            "waits for a gate",
            job(json!({})),
            (0..2).map(|index| pod(index, json!({
                "spec": {"nodeName": null, "schedulingGates": [{"name": "g"}]},
                "status": {"phase": "Pending", "conditions": [unscheduled.clone()], "containerStatuses": null},
            }))).collect(),
            &[("scheduling-gated", Some(-7_800), None)],
        ),
        (
            "pulls an image",
            job(json!({})),
            vec![waiting(0, "ErrImagePull", json!({})), waiting(1, "ImagePullBackOff", json!({}))],
            &[("image-pull", Some(-7_800), None)],
        ),
        (
            "lacks a secret",
            job(json!({})),
            vec![pod(0, json!({})), waiting(1, "CreateContainerConfigError", json!({}))],
            &[("container", Some(-7_800), None), ("running", Some(-7_795), None)],
        ),
        (
            "crashes",
            job(json!({"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}})),
            vec![pod(0, json!({})), waiting(1, "CrashLoopBackOff", json!({"status": {"phase": "Running"}}))],
            &[("crash-loop", Some(-7_800), None), ("running", Some(-7_795), None)],
        ),
        (
            "starts",
            job(json!({})),
            vec![pod(0, json!({})), waiting(1, "ContainerCreating", json!({}))],
            &[("starting", Some(-7_800), None), ("running", Some(-7_795), None)],
        ),
        (
            "backs off",
            job(json!({"status": {"failed": 3}})),
            vec![pod(0, json!({})), failed(1, -300), failed(1, -200), failed(1, -20)],
            &[("back-off", Some(-20), Some(20)), ("running", Some(-7_795), None)],
        ),
        (
            "backs off an index",
            job(json!({"spec": {"backoffLimitPerIndex": 3}})),
            vec![pod(0, json!({})), merged(failed(1, -5), json!({"metadata": {
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "annotations": {"batch.kubernetes.io/job-index-failure-count": "1"},
            }}))],
            &[("back-off", Some(-5), Some(15)), ("running", Some(-7_795), None)],
        ),
        (
            "has a pod in its grace period",
            job(json!({"spec": {"podReplacementPolicy": "Failed"}})),
            vec![pod(0, json!({})), deleted(1, -10, json!({}))],
            &[("terminating", Some(-10), Some(20)), ("running", Some(-7_795), None)],
        ),
        (
            "has no pods, and nobody says why",
            job(json!({"status": {"active": 0}})),
            vec![],
            &[("pods-missing", Some(-7_800), None)],
        ),
        ("asks for none", job(json!({"spec": {"parallelism": 0}})), vec![], &[("no-pods", None, None)]),
        (
            "was not looked at",
            job(json!({"status": {"startTime": null}})),
            vec![],
            &[("not-started", Some(-7_800), None)],
        ),
    ]
}

fn merged(mut value: Value, change: Value) -> Value {
    merge(&mut value, &change);
    value
}

#[test]
fn each_state_is_known() {
    for (name, job, pods, expected) in states() {
        let job = live(job, pods);
        let found: Vec<_> =
            job.waits().into_iter().map(|wait| (wait.what.word(), wait.since, wait.until)).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(word, since, until)| (*word, since.map(seconds), until.map(seconds)))
            .collect();
        assert_eq!(found, expected, "a Job that {name}");
    }
}

#[test]
fn every_state_has_a_future() {
    for (name, job, pods, _) in states() {
        let job = live(job, pods);
        let plain = ahead(&job, "");
        let ending = plain.outcome.ending;
        let expected = match name {
            "has ended" | "has ended, with a TTL" | "runs" | "runs to a deadline" | "is decided" => continue,
            "is in deletion" => {
                assert!(plain.gone.is_some_and(|gone| gone < seconds(10)), "{plain:?}");
                continue;
            }
            "is managed by another"
            | "is suspended"
            | "finds no node"
            | "waits for a gate"
            | "pulls an image"
            | "asks for none" => Ending::Waits,
            // The other pod runs until its work is done, and then nothing does.
            "lacks a secret" => Ending::Waits,
            "has a pod on a lost node" | "has a node that does not answer" => Ending::Wedged,
            "crashes" => Ending::Fails,
            _ => Ending::Completes,
        };
        assert_eq!(ending, expected, "a Job that {name}");
    }
}

#[test]
fn work_that_is_left_counts_from_the_start_of_the_pods() {
    let running = vec![pod(0, json!({})), pod(1, json!({}))];
    let job_now = live(job(json!({})), running.clone());
    // Four hours and two minutes from their start, 7,795 s ago; a second later it is seen.
    let left = 4 * 3_600 + 120 - 7_795;
    let told = ahead(&job_now, "");
    assert_eq!(told.outcome.ending, Ending::Completes);
    assert!((seconds(left)..seconds(left + 3)).contains(&told.outcome.at), "{:?}", told.outcome.at);
    assert_eq!((told.made, told.failed), (0, 0));
    // A deadline before that.
    let deadline = live(job(json!({"spec": {"activeDeadlineSeconds": 10_000}})), running.clone());
    let told = ahead(&deadline, "");
    assert_eq!(
        (told.outcome.ending, told.outcome.reason.as_deref()),
        (Ending::Fails, Some("DeadlineExceeded"))
    );
    // Longer than was assumed: nobody knows.
    let short = Assumptions { runtime: seconds(3_600), ..assumed() };
    assert!(job_now.is_overdue(&short));
    assert_eq!(self::told(&job_now, &[], &short).outcome.ending, Ending::RunsOn);
    // Ranks that need one another end together.
    let gang = Assumptions { peers: Peers::Exit(seconds(600)), ..assumed() };
    let told = self::told(&job_now, &[], &gang);
    assert!((seconds(left)..seconds(left + 3)).contains(&told.outcome.at), "{:?}", told.outcome.at);
}

#[test]
fn incidents_happen_to_what_runs() {
    let running = vec![pod(0, json!({})), pod(1, json!({}))];
    let job = live(job(json!({})), running);
    for (story, made, failed) in
        [("drain", 1, 1), ("oom@10m", 1, 1), ("node-gone@1h", 1, 1), ("drain:all", 2, 2)]
    {
        let told = ahead(&job, story);
        assert_eq!(
            (told.outcome.ending, told.made, told.failed),
            (Ending::Completes, made, failed),
            "{story}"
        );
    }
    assert_eq!(ahead(&job, "node-lost@1h").outcome.ending, Ending::Wedged);
    assert_eq!(ahead(&job, "crash-all").outcome.ending, Ending::Fails);
    assert_eq!(ahead(&job, "hang").outcome.ending, Ending::RunsOn);
    let gang = Assumptions { peers: Peers::Exit(seconds(600)), ..assumed() };
    let drain: Occurrence = "drain@1h".parse().unwrap();
    let told = told(&job, &[drain], &gang);
    assert_eq!((told.outcome.ending, told.made), (Ending::Completes, 2));
}

#[test]
fn the_back_off_ends_when_it_is_said_to() {
    let pods = vec![pod(0, json!({})), failed(1, -300), failed(1, -200), failed(1, -20)];
    let told = ahead(&live(job(json!({"status": {"failed": 3}})), pods), "");
    assert_eq!((told.outcome.ending, told.made), (Ending::Completes, 1));
    let next =
        told.outcome.pods.iter().filter(|pods| pods.created > Time::START).map(|pods| pods.created).min();
    assert!(next.is_some_and(|at| at >= seconds(20) && at < seconds(22)), "{next:?}");
    // A success ends it.
    let success = merged(failed(0, -10), json!({"status": {"phase": "Succeeded"}}));
    let pods = vec![success, failed(1, -300), failed(1, -20)];
    let job = live(job(json!({"status": {"failed": 2, "succeeded": 1, "completedIndexes": "0"}})), pods);
    assert!(job.waits().iter().all(|wait| wait.what.word() != "back-off"), "{:?}", job.waits());
}

#[test]
fn a_silent_node_is_given_up_after_the_toleration_of_each_pod() {
    let until = |tolerations: Value| {
        let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp(-60)}]}});
        let pod = merged(pod(0, silent), json!({"spec": {"tolerations": tolerations}}));
        let job = live(job(json!({})), vec![pod]);
        let wait =
            job.waits().into_iter().find(|wait| wait.what.word() == "node-silent").expect("a silent node");
        let deleted = ahead(&job, "").outcome.pods.iter().find_map(|pods| pods.deletion);
        assert_eq!(wait.until.is_some(), deleted.is_some(), "what it says and what comes");
        wait.until
    };
    let key = "node.kubernetes.io/unreachable";
    assert_eq!(until(json!([])), Some(seconds(245)));
    assert_eq!(
        until(json!([{"key": key, "operator": "Exists", "tolerationSeconds": 1_000}])),
        Some(seconds(945))
    );
    assert_eq!(until(json!([{"operator": "Exists"}])), None);
}

#[test]
fn failures_whose_pods_are_gone_count_for_the_back_off() {
    let failed = failed(1, -10);
    let uncounted = merged(failed, json!({"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}));
    let status = json!({"status": {"active": 1, "ready": 1, "failed": 3}});
    let job = live(job(status), vec![pod(0, json!({})), uncounted]);
    let until = job.waits().iter().find(|wait| wait.what.word() == "back-off").and_then(|wait| wait.until);
    // The fourth failure, of which nothing but the number is known: 10, 20, 40, 80 s.
    assert_eq!(until, Some(seconds(70)));
    let made = ahead(&job, "").outcome.pods.iter().map(|pods| pods.created).max();
    assert!(made >= until && made <= Some(seconds(73)), "{made:?}");
}

#[test]
fn pods_find_their_job() {
    let mut snapshot = LiveSnapshot::new(NOW);
    let other = |change: Value| pod(0, change);
    let owner = |change: Value| {
        json!([merged(json!({"kind": "Job", "name": "train", "uid": "u", "controller": true}), change)])
    };
    for (name, change) in [
        ("by-uid", json!({})),
        ("of-the-one-before", json!({"ownerReferences": owner(json!({"uid": "old"}))})),
        ("by-name", json!({"ownerReferences": owner(json!({"uid": null}))})),
        ("of-a-set", json!({"ownerReferences": owner(json!({"kind": "StatefulSet"}))})),
        ("elsewhere", json!({"namespace": "other"})),
        ("by-label", json!({"ownerReferences": null, "labels": {"batch.kubernetes.io/job-name": "train"}})),
        ("alone", json!({"ownerReferences": null})),
        ("wrong", json!({"ownerReferences": 7, "labels": [1]})),
    ] {
        let mut metadata = change;
        metadata["name"] = name.into();
        assert!(snapshot.add_pod(&other(json!({"metadata": metadata}))));
    }
    snapshot.add(&job(json!({})));
    snapshot.add(&job(json!({"status": {"active": 9}})));
    // Twice, which is once.
    snapshot.add_pod(&other(json!({"metadata": {"name": "by-uid"}})));
    assert_eq!(snapshot.left_out(), ["the Job train is there more than once: the first is used"]);
    let jobs = snapshot.into_jobs();
    let names: Vec<&str> = jobs[0].pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!((jobs.len(), jobs[0].status.active), (1, 2));
    assert_eq!(names, ["by-label", "by-name", "by-uid"]);
}

#[test]
fn a_manifest_is_not_live() {
    for (change, expected) in [
        (json!({}), true),
        (json!({"status": null}), false),
        (json!({"status": {"active": null, "ready": null, "startTime": null}}), false),
        (json!({"metadata": {"creationTimestamp": null}}), false),
        (json!({"kind": "CronJob"}), false),
        (json!({"apiVersion": "batch.example.com/v1"}), false),
    ] {
        assert_eq!(is_live(&job(change.clone())), expected, "{change}");
    }
}

/// What a field may hold that nobody expects.
fn strange() -> Vec<Value> {
    vec![
        Value::Null,
        json!({}),
        json!([]),
        json!([[], 7, {}]),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::from(u32::MAX)),
        json!("0001-01-01T00:00:00Z"),
        json!("9999-12-31T23:59:59Z"),
        json!("-9999-01-01T00:00:00Z"),
        json!("0-4294967295"),
        json!("4294967295"),
        json!("\u{1b}[31m"),
    ]
}

/// Calls a function with each place of a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    if let Some(fields) = value.as_object() {
        for (key, inner) in fields.iter() {
            places(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }
    }
    for (nth, inner) in value.as_array().into_iter().flatten().enumerate() {
        places(inner, &format!("{at}/{nth}"), found);
    }
}

#[test]
fn strange_fields_are_no_reason_to_panic() {
    let objects = [
        job(
            json!({"spec": {"activeDeadlineSeconds": 10_000, "ttlSecondsAfterFinished": 5, "backoffLimitPerIndex": 1,
            "template": {"spec": {"restartPolicy": "OnFailure"}}},
            "status": {"completedIndexes": "0", "failedIndexes": "", "conditions": [condition("FailureTarget", "", -5)]}}),
        ),
        job(json!({"spec": {"completionMode": null, "completions": null,
            "activeDeadlineSeconds": 10_000, "template": {"spec": {"restartPolicy": "OnFailure"}}}})),
        deleted(1, -10, json!({})),
        failed(1, -5),
        waiting(0, "CrashLoopBackOff", json!({"status": {"phase": "Running"}})),
    ];
    for (nth, object) in objects.iter().enumerate() {
        let mut found = Vec::new();
        places(object, "", &mut found);
        for place in found {
            for value in strange() {
                let mut changed = object.clone();
                if let Some(field) = changed.pointer_mut(&place) {
                    *field = value.clone();
                }
                let mut snapshot = LiveSnapshot::new(NOW);
                for (other, object) in objects.iter().enumerate() {
                    let object = if other == nth { &changed } else { object };
                    if !snapshot.add_pod(object) && (other == nth || nth > 1 || other > 1) {
                        snapshot.add(object);
                    }
                }
                // So many pods take their time, and are no matter of this test.
                let is_huge = value.as_u64().is_some_and(|number| number > 1_000_000)
                    && ["/completions", "/parallelism"].iter().any(|field| place.ends_with(field));
                for job in snapshot.into_jobs() {
                    let _ = (job.waits(), job.deadline(), job.expiry(), job.is_overdue(&assumed()));
                    if is_huge {
                        continue;
                    }
                    let drain: Occurrence = "drain".parse().unwrap();
                    let story = if place.len() % 2 == 0 { vec![drain] } else { Vec::new() };
                    let _ = tell(&job, &lower(&job, &story, &assumed())).map(|told| told.outcome.at);
                }
            }
        }
    }
}

#[test]
fn many_pods_take_bounded_time() {
    let count = 20_000;
    let began = Instant::now();
    let mut snapshot = LiveSnapshot::new(NOW);
    snapshot
        .add(&job(json!({"spec": {"completions": count, "parallelism": count, "backoffLimit": 100_000}})));
    for index in 0..count {
        let at = stamp(-7_000 + index % 6_000);
        snapshot.add_pod(&match index % 4 {
            0 => failed(index, -index - 1),
            // All of one index.
            1 => pod(7, json!({"metadata": {"name": format!("p{index}")}})),
            _ => pod(index, json!({"metadata": {"creationTimestamp": at.clone()}, "status": {"containerStatuses": [
                {"name": "c", "ready": true, "restartCount": index, "state": {"running": {"startedAt": at}}},
            ]}})),
        });
    }
    let jobs = snapshot.into_jobs();
    assert_eq!(jobs[0].pods.len(), usize::try_from(count).unwrap());
    let waits = jobs[0].waits();
    let _ = tell(&jobs[0], &lower(&jobs[0], &[], &assumed())).map(|told| told.outcome.ending);
    assert!(!waits.is_empty());
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
