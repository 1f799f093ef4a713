//! Scripts that are read, and those that are not.

use serde_json::json;

use super::*;

fn name(role: &str, index: Option<u64>, attempt: u64) -> Name {
    Name { role: role.to_owned(), index, attempt, set: None, job: None, life: Life::Ends }
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
        (json!({"restarts": null, "every": 0}), "need a time between them"),
        (json!({"submitter": {"exits": 1}}), "unknown field `exits`"),
        (json!({"program": 0, "end": "WELL"}), "unknown variant `WELL`"),
        (json!({"program": 0, "runs": 1}), "unknown field `runs`"),
        (json!({"podgroup": 0, "inqueu": 1}), "unknown field `inqueu`"),
        (json!({"at": 1, "comand": "AbortJob"}), "unknown field `comand`"),
    ] {
        let error = Script::parse(&json!([{}, entry])).expect_err("it must be rejected");
        assert!(error.contains(said) && error.contains("entry 1"), "{error}");
    }
}

#[test]
fn what_no_rule_names_has_a_life_of_its_own() {
    let script = Script::parse(&json!([{"role": "named", "run": 1}])).expect("a script");
    let of = |life| script.plan(&Name { life, ..name("worker", None, 0) });
    assert_eq!(of(Life::Ends), Plan::default());
    assert_eq!(of(Life::Serves).run, None);
    assert!(of(Life::Follows).submit.follows);
    // A rule decides alone: what it does not say is the default of all pods.
    let named = script.plan(&Name { life: Life::Follows, ..name("named", None, 0) });
    assert_eq!((named.run, named.submit.follows), (Some(Duration::from_secs(1)), false));
}

#[test]
fn containers_that_submit_have_their_keys() {
    let script = Script::parse(&json!([
        {"role": "submitter", "follow": true, "submit": null, "on_loss": 0},
        {"role": "head", "submitter": {"submit": 2, "run": 3, "exit": 1}},
    ]))
    .expect("a script");
    let plan = script.plan(&name("submitter", None, 0));
    assert_eq!(plan.submit, Submit { after: None, follows: true, on_loss: 0 });
    assert_eq!(plan.submitter, Submitter::default());
    let plan = script.plan(&name("head", None, 0));
    let submit = Submit { after: Some(Duration::from_secs(2)), follows: false, on_loss: 1 };
    assert_eq!(plan.submitter, Submitter { submit, run: Some(Duration::from_secs(3)), exit: 1 });
}

#[test]
fn programs_and_groups_have_rules_of_their_own() {
    let script = Script::parse(&json!([
        {"program": 0, "pending": 8, "run": null, "message": "boom"},
        {"program": [1, 2], "end": "FAILED"},
        {"podgroup": [1, null], "inqueue": null},
        {"podgroup": 0, "inqueue": 6},
    ]))
    .expect("a script");
    let first = script.program(0);
    assert_eq!((first.pending, first.run, first.end), (Duration::from_secs(8), None, End::Succeeded));
    assert_eq!(first.message, "boom");
    assert_eq!((script.program(2).end, script.program(2).run), (End::Failed, Some(Duration::from_secs(8))));
    assert_eq!(script.program(3), ProgramPlan::default());
    assert_eq!((script.group(0), script.group(5)), (Some(Duration::from_secs(6)), None));
    assert_eq!(Script::default().group(0), Some(Duration::from_millis(500)));
    // They are no rules of pods.
    assert_eq!(script.plan(&name("worker", None, 0)), Plan::default());
}

#[test]
fn a_scenario_may_have_no_pod_ready() {
    let script = Script::parse(&json!([{"run": 1}])).expect("a script").never_ready();
    assert!(script.plan(&name("worker", None, 0)).never_ready);
}
