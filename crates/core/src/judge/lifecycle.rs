//! Holds what the definitions of kinds say of their operators, and what rules say without asking, to the model.

mod examples;

use crate::controllers::object_story::{Remains, subject};
use crate::controllers::pod::Phase;
use crate::controllers::script::Script;
use crate::controllers::time::Time;
use crate::kinds::{Attempts, Deadline, Disruption, Kind, Part, Ttl, Workload};
use crate::text::value::{Value, json};
use examples::{
    DAY, DEADLINE, IDLE, alive, crash, done, example, examples, failed_at, hang, limited, none, run, run_in,
    run_script, runtime, template,
};

#[test]
fn a_deadline_ends_or_marks_as_its_definition_says() {
    let mut wrong = Vec::new();
    for (kind, object) in examples() {
        let mut say = |what: String| wrong.push(format!("{}: {what}", kind.title()));
        let of_model = subject(&object, &[runtime(&json!({}))]);
        let at = [&kind.limits[1..], kind.deadline_at].concat();
        let has_field = matches!(kind.deadline, Deadline::Ends | Deadline::Marks);
        if let Some(subject) = of_model
            && subject.deadline_at != if has_field { &at[..] } else { &[] }
        {
            say(format!("the deadline is in {:?}", subject.deadline_at));
        }
        if !has_field {
            continue;
        }
        let object = limited(&object, kind, kind.deadline_at, DEADLINE.into());
        let told = run(&object, &hang(), 2 * DAY);
        match failed_at(&told) {
            Some(at) if at <= DEADLINE + 60 && !kind.deadline_is_late => {}
            Some(at) if (IDLE..=IDLE + 60).contains(&at) && kind.deadline_is_late => {}
            at => say(format!("it fails at {at:?}")),
        }
        if alive(&told).is_empty() != (kind.deadline == Deadline::Ends) {
            say(format!("{:?}: {:?} run on", kind.deadline, alive(&told)));
        }
        if kind.release.is_some() != (kind.deadline == Deadline::Marks) {
            say("what releases its pods?".to_owned());
        }
    }
    none(&wrong);
}

#[test]
fn each_job_has_its_own_deadline_and_the_set_starts_again() {
    for (kind, mut object) in examples() {
        let Deadline::EndsEachJob { restarts } = kind.deadline else { continue };
        object["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = DEADLINE.into();
        let once = run(&object, &hang(), DAY);
        assert_eq!((failed_at(&once).is_some(), once.jobs), (true, 1));
        let object = limited(&object, kind, &restarts[1..], 2.into());
        let again = run(&object, &hang(), DAY);
        assert_eq!((again.jobs, failed_at(&again).map(|at| at / DEADLINE)), (3, Some(3)));
        let rule =
            json!([{"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]);
        let told = run(&limited(&object, kind, &["failurePolicy", "rules"], rule), &hang(), DAY);
        assert_eq!(told.jobs, 1, "what the help of the rule says");
    }
}

#[test]
fn what_releases_pods_does_and_is_what_is_left() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (kind, object) in examples() {
        let Some(release) = kind.release else { continue };
        let mut say = |what: String| wrong.push(format!("{}: {what}", kind.title()));
        count += 1;
        let object = limited(&object, kind, kind.deadline_at, DEADLINE.into());
        let released = limited(&object, kind, &[release.field], release.value());
        for (object, releases) in [(&object, false), (&released, true)] {
            let told = run(object, &hang(), 2 * DAY);
            let part = Part::root(object);
            if release.releases(&part, &part.at(kind.limits)) != Some(releases)
                || alive(&told).is_empty() != releases
            {
                say(format!("{}: {:?} run on", release.field, alive(&told)));
            }
        }
        // One of them ends the job: a master, a launcher, what runs on a Ray cluster.
        let left = match (kind.name, release.left) {
            ("MPIJob", "the workers") | ("PyTorchJob" | "XGBoostJob", "pods that have not ended") => {
                &["worker"][..]
            }
            ("RayJob", "the pods of the Ray cluster") => &["head", "w"],
            ("JAXJob" | "PaddleJob" | "TFJob", "pods that have not ended") => continue,
            other => panic!("{other:?}"),
        };
        let told = run(&object, &done(kind), DAY);
        if !told.end.as_ref().is_some_and(|end| end.is_success) || alive(&told) != left {
            say(format!("it ends as {:?}, and {:?} are left", told.end, alive(&told)));
        }
    }
    none(&wrong);
    assert_eq!(count, 7);
}

#[test]
fn a_ttl_deletes_what_its_definition_says() {
    let mut wrong = Vec::new();
    for (kind, object) in examples() {
        let mut say = |what: String| wrong.push(format!("{}: {what}", kind.title()));
        // Whatever may hang does, where there is a deadline: what is left then is deleted or not.
        let has_deadline = matches!(kind.deadline, Deadline::Ends | Deadline::Marks);
        let object =
            if has_deadline { limited(&object, kind, kind.deadline_at, DEADLINE.into()) } else { object };
        let script = if has_deadline { hang() } else { done(kind) };
        let kept = run(&object, &script, 3 * DAY);
        if kept.end.is_none() || kept.gone.is_some() {
            say(format!("without a TTL it is gone at {:?}", kept.gone));
        }
        let told = run(&limited(&object, kind, kind.ttl_at, 3_600.into()), &script, 3 * DAY);
        let deletes_all = matches!(kind.ttl, Ttl::Deletes { deletes_pods: true, .. });
        if told.gone.is_some() != deletes_all
            || deletes_all && told.pods.iter().any(|(_, pods)| pods.gone.is_none())
        {
            say(format!("with a TTL it is gone at {:?}, {:?} run on", told.gone, alive(&told)));
        }
        let launchers = |object: &Value| {
            let told = run(object, &done(kind), 3 * DAY);
            told.pods.iter().filter(|(role, pods)| &**role == "launcher" && pods.gone.is_none()).count()
        };
        if matches!(kind.ttl, Ttl::Deletes { deletes_pods: false, .. }) {
            let after = launchers(&limited(&object, kind, kind.ttl_at, 3_600.into()));
            if (launchers(&object), after) != (1, 0) {
                say(format!("{after} launchers are left"));
            }
        }
    }
    none(&wrong);
}

#[test]
fn a_ttl_of_zero_runs_work_again_where_its_definition_says_so() {
    let mut wrong = Vec::new();
    for (kind, object) in examples() {
        if !matches!(kind.ttl, Ttl::Deletes { .. }) {
            continue;
        }
        let made = |object: &Value| {
            let script = Script::parse(&done(kind)).expect("a script");
            // An operator that is slow sees the end and the deletion of a Job as one.
            let late = Script { watch_delay: Time::from_seconds(5), ..script.clone() };
            let told = [script, late].map(|script| run_script(object, &[], script, 120));
            told.map(|told| told.pods.iter().map(|(_, pods)| pods.count()).sum::<u32>()).into_iter().max()
        };
        let (once, zero) = (made(&object), made(&limited(&object, kind, kind.ttl_at, 0.into())));
        if (zero > once) != kind.ttl_of_zero_runs_again {
            wrong.push(format!("{}: {once:?} pods, with a TTL of 0 {zero:?}", kind.title()));
        }
    }
    none(&wrong);
}

#[test]
fn a_job_that_its_ttl_deletes_runs_again() {
    let mut wrong = Vec::new();
    let count = |told: &Remains, role: &str| {
        let is_of = |of: &str| of == role || of.starts_with(&format!("{role}-"));
        told.pods.iter().filter(|(of, _)| is_of(of)).map(|(_, pods)| pods.count()).sum::<u32>()
    };
    let short = json!({"name": "short", "replicas": 1, "template": {"spec": {
        "ttlSecondsAfterFinished": 10, "template": template(Some("Never"))}}});
    let script = json!([{"role": "short-0", "run": 5}, {"run": 120}]);
    for (kind, mut object) in examples() {
        let Ttl::Deletes { jobs_run_again, .. } = kind.ttl else { continue };
        if !kind.has_jobs() || kind.is_built_in() {
            assert!(!jobs_run_again, "{}", kind.title());
            continue;
        }
        object["spec"]["replicatedJobs"].as_array_mut().expect("a list").push(short.clone());
        let told = run(&object, &script, DAY);
        if (count(&told, "short") > 1) != jobs_run_again {
            wrong.push(format!("{}: {} pods", kind.title(), count(&told, "short")));
        }
    }
    none(&wrong);
}

#[test]
fn what_a_runtime_has_of_deadlines_and_ttls_is_not_of_the_whole() {
    let kinds: Vec<Kind> = Kind::all().filter(|kind| kind.ttl == Ttl::RunsAgain).collect();
    assert_eq!(kinds.len(), 2);
    let train = Kind::all().find(|kind| kind.name == "TrainJob" && !kind.untested).expect("TrainJobs");
    assert!(kinds.iter().all(|kind| kind.deadline == Deadline::OfOthers { run_by: Some(train.name) }));
    let object = example(train, None).expect("an example");
    // Each attempt of a Job has a clock of its own.
    let mut job = runtime(&json!({"failurePolicy": {"maxRestarts": 2}}));
    job["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] =
        DEADLINE.into();
    let told = run_in(&object, &[job], &hang(), DAY);
    assert_eq!((told.jobs, failed_at(&told).map(|at| at / DEADLINE)), (3, Some(3)));
    // After a failure the JobSet that is deleted is made again.
    let told = run_in(&object, &[runtime(&json!({"ttlSecondsAfterFinished": 10}))], &crash(train), 120);
    assert!(told.jobs > 1, "{}", told.jobs);
}

#[test]
fn work_starts_as_often_as_its_definition_says() {
    let mut wrong = Vec::new();
    for (kind, object) in examples() {
        // The pods that are made in each attempt.
        let (object, limit, role, each) = match kind.name {
            "JobSet" => (object, &["failurePolicy", "maxRestarts"][..], "w-0", 2),
            "RayJob" => (object, &["backoffLimit"][..], "head", 1),
            "Job" if !kind.is_built_in() => {
                let policies = json!([{"event": "PodFailed", "action": "RestartJob"}]);
                (limited(&object, kind, &["policies"], policies), &["maxRetry"][..], "w", 2)
            }
            _ => continue,
        };
        for object in [limited(&object, kind, limit, 4.into()), object] {
            let attempts = (kind.attempts)(&Part::root(&object));
            let told = run(&object, &crash(kind), DAY);
            let pods = told.pods.iter().filter(|(of, _)| &**of == role).map(|(_, pods)| pods.count());
            let made = i64::from(pods.sum::<u32>());
            if failed_at(&told).is_none() || attempts != Attempts::Times(made / each) {
                wrong.push(format!("{}: {attempts:?}, {made} pods", kind.title()));
            }
        }
    }
    none(&wrong);
}

#[test]
fn a_wait_is_not_bounded_by_the_deadline() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (kind, object) in examples() {
        let Some(wait) = kind.wait else { continue };
        count += 1;
        let object = limited(&object, kind, kind.deadline_at, DEADLINE.into());
        let mut waits = object.clone();
        let at = wait.choice.at.last().expect("a field");
        waits["spec"][*at] = wait.choice.word.into();
        assert!(wait.choice.of(&Part::root(&waits)).is_some());
        // The workers find no node, and nobody submits anything.
        let script =
            json!([{"program": [0, null], "run": null}, {"role": "worker", "start": null}, {"run": null}]);
        let ends = |object: &Value| failed_at(&run(object, &script, 3 * DAY)).is_some();
        if !ends(&object) || ends(&waits) {
            wrong.push(format!("{}: {} {}", kind.title(), ends(&object), ends(&waits)));
        }
    }
    none(&wrong);
    assert_eq!(count, 2);
}

#[test]
fn retries_have_no_bound_but_the_field_and_the_default_policy_is_the_model_s() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let crash = json!([{"run": null, "restarts": null, "every": 10}]);
    for (kind, object) in examples() {
        let Some(retries) = kind.retries else { continue };
        count += 1;
        let mut say = |what: String| wrong.push(format!("{}: {what}", kind.title()));
        let roles = subject(&object, &[]).expect("roles").roles;
        if roles.iter().any(|role| role.restarts_in_place != (retries.unset != "Never")) {
            say(format!("{} is not its default", retries.unset));
        }
        let restarts = example(kind, Some("OnFailure")).expect("an example");
        let told = run(&restarts, &crash, 3 * DAY);
        if told.end.is_some() {
            say("it ends without a bound".to_owned());
        }
        let told = run(&limited(&restarts, kind, &[retries.field], 3.into()), &crash, 3 * DAY);
        if failed_at(&told).is_none() {
            say(format!("`{}` is no bound", retries.field));
        }
    }
    none(&wrong);
    assert_eq!(count, 5);
}

#[test]
fn a_role_fails_without_an_end_and_when_deleted_as_its_definition_says() {
    let mut wrong = Vec::new();
    let crash = json!([{"run": 5, "exit": 1}]);
    let deleted = json!([
        {"index": 0, "attempt": 0, "run": 600, "disrupt": {"after": 60, "cause": "evict"}},
        {"run": 600},
    ]);
    for (kind, _) in examples() {
        let Some(retries) = kind.retries else { continue };
        let mut say = |what: String| wrong.push(format!("{}: {what}", kind.title()));
        // The operator reads the exit code of the container that it knows.
        let container = match kind.name {
            "TFJob" => "tensorflow".to_owned(),
            name => name.trim_end_matches("Job").to_lowercase(),
        };
        let text = example(kind, Some("ExitCode")).expect("an example").to_string();
        let text = text.replace(r#""name":"c""#, &format!(r#""name":"{container}""#));
        let by_code: Value = serde_json::from_str(&text).expect("an object");
        // An operator that cannot delete it tries again and again.
        let told = run(&limited(&by_code, kind, kind.ttl_at, 60.into()), &crash, 600);
        if failed_at(&told).is_none() || told.gone.is_none() != (retries.without_end == Some("ExitCode")) {
            say(format!(
                "after a permanent code it fails at {:?}, and is gone at {:?}",
                failed_at(&told),
                told.gone
            ));
        }
        for word in ["OnFailure", "ExitCode"] {
            let told = run(&example(kind, Some(word)).expect("an example"), &deleted, DAY);
            if failed_at(&told).is_some() != retries.fails_when_deleted.contains(&word) {
                say(format!("{word}: it fails at {:?}", failed_at(&told)));
            }
        }
    }
    none(&wrong);
}

#[test]
fn what_bounds_restarts_in_place_does() {
    let crash = json!([{"run": null, "restarts": null, "every": 10}]);
    let mut count = 0;
    for (kind, mut object) in examples() {
        let Some(in_place) = kind.in_place else { continue };
        count += 1;
        object["spec"]["tasks"][0]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
        for (event, is_bound) in [("PodFailed", false), ("TaskFailed", true), ("*", true)] {
            let policies = json!([{"event": event, "action": "TerminateJob"}]);
            let object = limited(&object, kind, &in_place.at[1..], policies);
            let workload = Workload::from_object(&object).expect("a workload");
            assert_eq!((in_place.bounded)(&workload.object, &workload.pods[0].around), is_bound, "{event}");
            assert_eq!(failed_at(&run(&object, &crash, 3 * DAY)).is_some(), is_bound, "{event}");
        }
    }
    assert_eq!(count, 1);
}

#[test]
fn a_lost_node_counts_as_its_definition_says() {
    let lost = json!([
        {"index": 0, "attempt": 0, "run": 600, "disrupt": {"after": 60, "cause": "evict"}},
        {"run": 600},
    ]);
    let mut seen = 0;
    let fails = |object: &Value| failed_at(&run(object, &lost, DAY)).is_some();
    for (kind, object) in examples() {
        let Some(disruption) = kind.disruption else { continue };
        seen += 1;
        match disruption {
            Disruption::FailsJob => {
                assert!(fails(&object) && !fails(&limited(&object, kind, &["backoffLimit"], 6.into())));
                let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
                assert!(!fails(&limited(&object, kind, &["podFailurePolicy"], json!({"rules": [rule]}))));
            }
            Disruption::FailsSet { restarts, rules, uncounted } => {
                assert!(fails(&object) && !fails(&limited(&object, kind, &restarts[1..], 1.into())));
                let rule = json!([{"name": "r", "action": uncounted}]);
                assert!(!fails(&limited(&object, kind, &rules[1..], rule)));
            }
            Disruption::OfRole { elastic } => {
                assert!(fails(&example(kind, Some("Never")).expect("an example")));
                let on_failure = example(kind, Some("OnFailure")).expect("an example");
                assert!(!fails(&on_failure));
                assert!(
                    Workload::from_object(&on_failure).is_some_and(|job| !job.object.at(elastic).is_set())
                );
            }
            Disruption::OfPolicies { runs, policies } => {
                let restart = json!([{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"}]);
                let restarted = limited(&object, kind, &policies[1..], restart);
                assert!(!fails(&object) && !fails(&restarted));
                assert!(fails(&limited(&restarted, kind, &runs[1..], 1.into())));
            }
        }
    }
    assert_eq!(seen, 4);
}

#[test]
fn pods_fail_by_themselves_only_as_the_scripts_here_say() {
    let (kind, object) = examples().remove(0);
    let told = run(&object, &done(kind), DAY);
    assert!(told.pods.iter().all(|(_, pods)| pods.phase == Phase::Succeeded));
}
