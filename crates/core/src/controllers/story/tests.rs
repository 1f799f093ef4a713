use proptest::prelude::*;

use super::super::incident::{Incident, IncidentPlace, Occurrence};
use super::super::script::{Plan, PlanRule, Range};
use super::*;
use crate::text::value::json;

const HOUR: Time = Time::from_seconds(3_600);

fn assumptions(peers: Peers) -> Assumptions {
    Assumptions::for_tests(peers)
}

fn gang(ranks: u32, limit: u32) -> Value {
    json!({
        "completionMode": "Indexed",
        "completions": i64::from(ranks),
        "parallelism": i64::from(ranks),
        "backoffLimit": i64::from(limit),
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    })
}

fn told(spec: &Value, incident: Incident, assumptions: &Assumptions) -> Outcome {
    let story = [Occurrence::from(incident)];
    tell(spec, lower(&JobSpec::from_spec(spec), &story, assumptions)).unwrap()
}

#[test]
fn ranks_that_exit_together_are_more_failures_than_the_limit() {
    let assumed = assumptions(Peers::Exit(Time::from_seconds(600)));
    let outcome = told(&gang(16, 6), Incident::Drain, &assumed);
    assert_eq!((outcome.ending, outcome.reason.as_deref()), (Ending::Fails, Some("BackoffLimitExceeded")));
    let outcome = told(&gang(16, 20), Incident::Drain, &assumed);
    assert_eq!((outcome.ending, outcome.made, outcome.status.failed), (Ending::Completes, 32, 16));
    // Sixteen pods, and fifteen minutes of each.
    assert_eq!(outcome.lost, Time::from_seconds(16 * 900));
    let outcome = told(&gang(16, 6), Incident::Drain, &assumptions(Peers::Restart(3)));
    assert_eq!((outcome.ending, outcome.made), (Ending::Completes, 17));
    let outcome = told(&gang(16, 6), Incident::Drain, &assumptions(Peers::Independent));
    assert_eq!((outcome.ending, outcome.lost), (Ending::Completes, Time::from_seconds(900)));
}

#[test]
fn a_pod_that_never_ends_keeps_the_last_condition_away() {
    let outcome = told(&gang(2, 6), Incident::NodeLost, &assumptions(Peers::Hang));
    assert_eq!(outcome.ending, Ending::RunsOn);
    let mut spec = gang(2, 6);
    spec["podReplacementPolicy"] = "Failed".into();
    let outcome = told(&spec, Incident::NodeLost, &assumptions(Peers::Hang));
    assert_eq!((outcome.ending, outcome.made), (Ending::RunsOn, 2));
    let outcome = told(&spec, Incident::NodeLost, &assumptions(Peers::Independent));
    assert_eq!((outcome.ending, outcome.made), (Ending::Waits, 2));
    let outcome = told(&gang(2, 6), Incident::NodeLost, &assumptions(Peers::Independent));
    assert_eq!((outcome.ending, outcome.made), (Ending::Wedged, 3));
    let never = Assumptions { unreachable: None, ..assumptions(Peers::Independent) };
    assert_eq!(told(&gang(2, 6), Incident::NodeLost, &never).ending, Ending::Waits);
}

#[test]
fn exit_code_zero_on_sigterm_is_half_the_work() {
    let term = Termination { code: 0, ..Termination::default() };
    let mut spec = gang(1, 6);
    spec["podReplacementPolicy"] = "Failed".into();
    let outcome = told(&spec, Incident::Drain, &Assumptions { term, ..assumptions(Peers::Independent) });
    assert_eq!(outcome.ending, Ending::CompletesHalfDone);
    // It has failed by then, and is replaced.
    spec["podReplacementPolicy"] = "TerminatingOrFailed".into();
    let outcome = told(&spec, Incident::Drain, &Assumptions { term, ..assumptions(Peers::Independent) });
    assert_eq!((outcome.ending, outcome.made), (Ending::Completes, 2));
}

#[test]
fn what_falls_on_one_moment_has_two_ends() {
    let mut spec = gang(1, 6);
    spec["activeDeadlineSeconds"] = 10.into();
    for (run, other) in [(8.4, Some(Ending::Fails)), (3.0, None)] {
        let script = Script::parse(&json!([{"run": run}])).unwrap();
        let outcome = tell(&spec, script.clone()).unwrap();
        assert_eq!(outcome.ending, Ending::Completes);
        let otherwise = tell_otherwise(&spec, &script, &outcome).unwrap();
        assert_eq!(otherwise.map(|outcome| outcome.ending), other, "{run}");
    }
}

#[test]
fn a_large_job_is_simulated_quickly_or_refused() {
    let failures: Vec<PlanRule> = (0..1_000)
        .map(|index| PlanRule {
            index: Some(Range { first: index * 10, last: Some(index * 10) }),
            attempt: Some(Range { first: 0, last: Some(0) }),
            plan: Plan {
                run: Some(HOUR + Time::from_seconds(i64::from(index))),
                follows_program: false,
                exit: vec![(String::new(), 1)],
                ..Plan::default()
            },
            ..PlanRule::default()
        })
        .collect();
    let mut spec = gang(10_000, 5_000);
    spec["completions"] = 10_000.into();
    let script = Script { plans: failures, ..Script::default() };
    let outcome = tell(&spec, script).unwrap();
    assert_eq!((outcome.ending, outcome.status.failed, outcome.made), (Ending::Completes, 1_000, 11_000));
    // As many as the API server takes.
    for (parallelism, completions) in [(i64::from(i32::MAX), i64::from(i32::MAX)), (4, i64::from(i32::MAX))] {
        let mut spec = gang(1, 6);
        spec["parallelism"] = parallelism.into();
        spec["completions"] = completions.into();
        let assumed = Assumptions { runtime: Time::from_seconds(1), ..assumptions(Peers::Independent) };
        let story = lower(&JobSpec::from_spec(&spec), &[], &assumed);
        let told = tell(&spec, story);
        assert!(told.is_err() || told.is_ok_and(|outcome| outcome.ending == Ending::RunsOn));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn used_time_is_that_of_the_pods(
        ranks in 1_u32..8,
        limit in 0_u32..8,
        incident in prop::sample::select(Incident::USUAL.to_vec()),
        peers in prop::sample::select(vec![Peers::Independent, Peers::Hang, Peers::Restart(1), Peers::Exit(HOUR)]),
    ) {
        let mut spec = gang(ranks, limit);
        spec["activeDeadlineSeconds"] = 172_800.into();
        let outcome = told(&spec, incident, &assumptions(peers));
        let last = outcome.at;
        let of_pods: i64 = outcome
            .pods
            .iter()
            .filter_map(|pods| {
                let ended = pods.ended.or(pods.gone).unwrap_or(last);
                Some((ended - pods.started?).millis().max(0) * i64::from(pods.count()))
            })
            .sum();
        prop_assert!((outcome.used.millis() - of_pods).abs() <= 60_000 * i64::from(outcome.made));
        prop_assert!(outcome.lost <= outcome.used && outcome.idle() >= Time::START);
        prop_assert!(outcome.status.failed <= outcome.made);
    }

    #[test]
    fn failures_are_never_taken_back(
        ranks in 1_u32..8,
        limit in 0_u32..8,
        only_failed in any::<bool>(),
        incident in prop::sample::select(Incident::USUAL.to_vec()),
        other in prop::sample::select(Incident::USUAL.to_vec()),
        peers in prop::sample::select(vec![Peers::Independent, Peers::Hang, Peers::Restart(1), Peers::Exit(HOUR)]),
    ) {
        let mut spec = gang(ranks, limit);
        spec["activeDeadlineSeconds"] = 172_800.into();
        spec["podReplacementPolicy"] = if only_failed { "Failed" } else { "TerminatingOrFailed" }.into();
        let place = IncidentPlace::Index(ranks - 1);
        let story = [
            Occurrence::from(incident),
            Occurrence { at: Some(HOUR + HOUR), place, ..Occurrence::from(other) },
        ];
        let script = lower(&JobSpec::from_spec(&spec), &story, &assumptions(peers));
        let mut world = World::with_job("job", &spec, script, Clock::default(), false);
        let (mut failed, mut ended, mut steps) = (0, 0, 0);
        while let Some(due) = world.due().filter(|due| *due <= HORIZON) {
            world.run(due).expect("little work");
            let status = &world.cluster.jobs[0].status;
            prop_assert!(status.failed >= failed, "{} after {failed}", status.failed);
            failed = status.failed;
            let finished = usize::from(status.finished().is_some());
            prop_assert!(finished >= ended, "a Job that has ended goes on");
            ended = finished;
            steps += 1;
        }
        prop_assert!(steps > 2);
    }
}
