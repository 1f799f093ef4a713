//! Beside real operators: what Jobgate admits and fills in runs to its end, whoever is called first; nobody
//! has to write it again; and whose child is denied learns of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jobgate::judge::runtimes::shipped;
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

use crate::api::list_of;
use crate::cel;
use crate::charges::{Charge, Comes, Filled, charges};
use crate::ensemble::{Ensemble, Lazy, ORDERS, own_gate, run};
use crate::gate::unregister;
use crate::kinds::{ANYBODY, problems};
use crate::kubelet::Scenario;
use crate::kubelet::script::Script;
use crate::kubelet::timeline::{Seen, Timeline};
use crate::manifests::over;
use crate::operator::{self, user_of};
use crate::packages::{WAYS, Way};
use crate::process::eventually;
use crate::scenario::{Place, is};

/// Returns the scenarios of the operators that are there.
pub(crate) fn trials(ensemble: &Arc<Lazy>) -> Result<Vec<Trial>, String> {
    let mut trials = Vec::new();
    let chosen = operator::chosen()?;
    let has = |operator: &str| chosen.iter().any(|(known, _)| known.name == operator);
    let runs =
        |charge: &Charge| has(charge.operator) && charge.children.iter().all(|child| has(child.operator));
    for charge in charges().filter(|charge| runs(charge)) {
        let name = |what: &str| format!("beside_{}_{what}", charge.name);
        for order in ORDERS {
            let ensemble = Arc::clone(ensemble);
            let when = if order == ORDERS[0] { "before" } else { "after" };
            trials.push(Trial::test(
                name(&format!("runs_to_its_end_when_jobgate_is_called_{when}")),
                move || run(&ensemble, |ensemble| runs_to_its_end(ensemble, charge, order)),
            ));
        }
        let again = Arc::clone(ensemble);
        trials.push(Trial::test(name("is_applied_again_without_a_change"), move || {
            run(&again, |ensemble| is_applied_again(ensemble, charge))
        }));
        if !charge.tells.is_empty() {
            let ensemble = Arc::clone(ensemble);
            trials.push(Trial::test(name("tells_who_made_it_that_its_child_was_denied"), move || {
                run(&ensemble, |ensemble| a_denied_child_is_seen(ensemble, charge))
            }));
        }
    }
    if has("jobset") {
        let ensemble = Arc::clone(ensemble);
        trials.push(Trial::test("beside_jobset_defaults_of_its_webhook_make_no_difference", move || {
            run(&ensemble, defaults_of_jobset)
        }));
    }
    if has("trainer") {
        trials.push(Trial::test("beside_trainer_shipped_runtimes_are_those_of_the_release", || {
            Ok(shipped_runtimes()?)
        }));
    }
    if has("volcano") {
        let ensemble = Arc::clone(ensemble);
        trials.push(Trial::test("beside_volcano_defaults_of_its_webhook_make_no_difference", move || {
            run(&ensemble, defaults_of_volcano)
        }));
    }
    Ok(trials)
}

fn take(ensemble: &Ensemble, place: &Place<'_>, script: &serde_json::Value) -> Scenario {
    ensemble.kubelet.take(&place.namespace, Script::parse(script).expect("a script"))
}

/// Compares the runtimes that lint knows with those of the release, without what no rule reads.
fn shipped_runtimes() -> Result<(), String> {
    const UNREAD: [&str; 7] = [
        "annotations",
        "network",
        "readinessProbe",
        "replicas",
        "securityContext",
        "serviceAccountName",
        "trainer.kubeflow.org/framework",
    ];
    fn prune(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !UNREAD.contains(&key));
                fields.values_mut().for_each(prune);
            }
            Value::Array(items) => items.iter_mut().for_each(prune),
            _ => {}
        }
    }
    let folders = operator::folders()?;
    let (_, folder) = folders.iter().find(|(known, _)| known.name == "trainer").ok_or("no trainer")?;
    let mut released = BTreeMap::new();
    for mut object in
        cel::files(&folder.join("manifests/base/runtimes")).iter().flat_map(|file| cel::documents(file))
    {
        if object["kind"] == "ClusterTrainingRuntime" {
            prune(&mut object);
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            object["metadata"] = json!({"name": name});
            released.insert(name, object);
        }
    }
    let known: BTreeMap<String, Value> =
        shipped::objects().map(|(name, runtime)| (name, (*runtime.object).clone())).collect();
    if known == released {
        return Ok(());
    }
    Err(format!("the release has {released:#?}, and lint knows {known:#?}"))
}

/// Tells whether a condition of an object is true, or it is in this state.
fn has_come_to(object: &Value, kind: &str) -> bool {
    let status = &object["status"];
    if status["jobDeploymentStatus"] == kind || status["state"]["phase"] == kind {
        return true;
    }
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

#[track_caller]
fn are_filled(stored: &Value, fills: &[(&str, Filled)]) {
    for (place, fill) in fills {
        is(stored, place, fill.value());
    }
}

fn runs_to_its_end(ensemble: &Ensemble, charge: &Charge, order: &'static str) {
    let place = ensemble.place(order);
    let scenario = take(ensemble, &place, &(charge.script)());
    if let Some(needed) = charge.needed("j") {
        place.create(&needed).ok();
        are_filled(&stored_as(&place, &needed), charge.fills_before);
    }
    place.create(&charge.object("j")).ok();
    let stored = place.stored(&charge.what("j"));
    are_filled(&stored, charge.fills);

    let ended = eventually(Duration::from_secs(120), || {
        let object = place.stored(&charge.what("j"));
        if has_come_to(&object, charge.ends) {
            Ok(object)
        } else {
            Err(format!("{object:#}\n{:#?}", scenario.timeline()))
        }
    })
    .expect("it must end");
    // Nobody had to write again what was filled in.
    assert_eq!(charge.written(&ended), charge.written(&stored));
    if charge.sets.is_empty() {
        is(&ended, "/metadata/generation", json!(1));
    }
    if charge.is_queued() {
        is(&ended, "/spec/suspend", json!(false));
    }
    if let Some((resource, condition)) = charge.never {
        let list = place.kubectl(&["get", resource, "-o", "json"]).json();
        let items = list["items"].as_array().expect("a list");
        assert!(!items.is_empty(), "no {resource}");
        assert!(!items.iter().any(|item| has_come_to(item, condition)), "{condition}: {list:#}");
    }
    // Those that serve are told to end when the object has ended.
    eventually(Duration::from_secs(30), || pods_ran(charge, &scenario.timeline()))
        .expect("its pods run and end");
    children_are_admitted(ensemble, &place, charge, order);
    if charge.serves {
        place.kubectl(&["delete", charge.resource, "--all", "--wait=false"]).ok();
    }
}

fn stored_as(place: &Place<'_>, object: &Value) -> Value {
    let kind = object["kind"].as_str().expect("a kind").to_lowercase();
    place.stored(&format!("{kind}/{}", object["metadata"]["name"].as_str().expect("a name")))
}

fn pods_ran(charge: &Charge, timeline: &Timeline) -> Result<(), String> {
    let has_ended = |pod: &Seen| pod.phase == "Succeeded" || pod.deleting.is_some();
    let ran = |pod: &Seen| pod.started.is_some() && has_ended(pod) != charge.serves;
    let all = timeline.pods.len() == charge.pods && timeline.pods.iter().all(ran);
    if all && timeline.refused.is_empty() { Ok(()) } else { Err(format!("{timeline:#?}")) }
}

/// Children are made under the operator's own account; Jobgate is asked about those that it judges, and has
/// nothing to fill in where it judged the parent.
fn children_are_admitted(ensemble: &Ensemble, place: &Place<'_>, charge: &Charge, order: &'static str) {
    let writes = ensemble.writes(&place.namespace);
    let made: Vec<_> = writes
        .iter()
        .filter(|write| write.subresource.is_empty() && matches!(write.status, 200 | 201))
        .collect();
    let ours = made.iter().find(|write| charge.resource.starts_with(&write.resource) && write.name == "j");
    let ours = ours.expect("its creation is written down");
    assert_eq!(ours.changed_by(order), charge.judged.then_some(!charge.fills.is_empty()), "{}", charge.name);
    if charge.is_queued() {
        is(&ours.stored, "/spec/suspend", json!(true));
    }
    for child in charge.children {
        let (user, resource) = (user_of(child.operator), child.resource);
        let name = resource.split('.').next().unwrap_or_default();
        let children: Vec<_> =
            made.iter().filter(|write| write.resource == name && write.user == user).collect();
        assert!(!children.is_empty(), "no {resource} by {user}");
        for write in children {
            let expected = match child.comes {
                Comes::Unasked => None,
                Comes::AsItIs => Some(false),
                Comes::Filled(fills) => {
                    are_filled(&write.stored, fills);
                    Some(write.verb == "create")
                }
            };
            assert_eq!(write.changed_by(order), expected, "{} {resource}/{}", write.verb, write.name);
        }
    }
    // Whoever writes an object a second time does not change what is in it, nor does Jobgate then.
    let mut specs: Vec<(&str, &str, Value)> = Vec::new();
    for write in &made {
        let of = (write.resource.as_str(), write.name.as_str());
        match specs.iter().find(|(resource, name, _)| (*resource, *name) == of) {
            None => specs.push((of.0, of.1, charge.written(&write.stored))),
            Some((_, _, spec)) => {
                assert_eq!(&charge.written(&write.stored), spec, "{of:?} by {}", write.user);
                assert_ne!(write.changed_by(order), Some(true), "{of:?} by {}", write.user);
            }
        }
    }
    // Nobody but the operators and whoever made the object writes at all.
    let users: BTreeSet<&str> = made.iter().map(|write| write.user.as_str()).collect();
    let known: Vec<String> = charge.children.iter().map(|child| user_of(child.operator)).collect();
    let own = user_of(charge.operator);
    for user in users {
        let is_known = user == "admin" || user == own || known.iter().any(|known| known == user);
        assert!(is_known || user.starts_with("system:serviceaccount:kube-system:"), "{user}");
    }
}

/// Specs and generations of what people wrote and of what operators made of it.
fn specs(place: &Place<'_>, charge: &Charge) -> Vec<(String, Value, Value)> {
    let mut resources: BTreeSet<String> =
        charge.children.iter().map(|child| child.resource.to_owned()).collect();
    resources.insert(charge.resource.to_owned());
    if let Some(needed) = charge.needed("j") {
        resources.insert(needed["kind"].as_str().expect("a kind").to_lowercase());
    }
    let all = resources.into_iter().collect::<Vec<_>>().join(",");
    let list = place.kubectl(&["get", &all, "-o", "json"]).json();
    let mut specs: Vec<_> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|object| {
            let metadata = &object["metadata"];
            let name = format!("{}/{}", object["kind"], metadata["name"]);
            (format!("{name} {}", metadata["uid"]), metadata["generation"].clone(), object["spec"].clone())
        })
        .collect();
    specs.sort_by(|one, other| one.0.cmp(&other.0));
    specs
}

/// The unchanged manifest, applied again while the object runs, changes nothing: with Jobgate up, stopped and
/// started again.
fn is_applied_again(ensemble: &Ensemble, charge: &Charge) {
    let place = Place::new(&ensemble.cluster, false);
    let (gate, setup) = own_gate(ensemble, &place, ORDERS[0], None);
    let for_ever = serde_json::json!([{"start": 0.3, "run": null}, {"program": [0, null], "run": null}]);
    let scenario = take(ensemble, &place, &for_ever);
    let write = |way: Way| way.write(&place, &ensemble.packagers, &charge.all(way.name()));
    for way in WAYS {
        // The webhook of an operator may not have heard of the runtime before.
        let written = eventually(Duration::from_secs(30), || write(way));
        written.unwrap_or_else(|error| panic!("{way:?} for the first time: {error}"));
    }
    let expected = charge.pods * WAYS.len();
    eventually(Duration::from_secs(120), || {
        let running = scenario.timeline().pods.iter().filter(|pod| pod.started.is_some()).count();
        if running == expected { Ok(()) } else { Err(format!("{running} of {expected} pods run")) }
    })
    .expect("all pods run");
    let before = specs(&place, charge);
    let unchanged = |when: &str| {
        for way in WAYS {
            write(way).unwrap_or_else(|error| panic!("{way:?} {when}: {error}"));
        }
        let after = specs(&place, charge);
        assert_eq!(before.len(), after.len(), "{when}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{when}");
        }
    };
    unchanged("with Jobgate up");
    drop(gate);
    unchanged("with Jobgate stopped");
    unregister(&ensemble.cluster, &setup.name);
    let (gate, again) = own_gate(ensemble, &place, ORDERS[1], None);
    unchanged("with Jobgate started again");
    // No pod was made anew.
    assert_eq!(scenario.timeline().pods.len(), expected, "{:#?}", scenario.timeline());
    drop(gate);
    unregister(&ensemble.cluster, &again.name);
    place.kubectl(&["delete", charge.resource, "--all", "--wait=false"]).ok();
}

/// An operator that no policy trusts makes a child that is denied: whoever made the parent finds rule and
/// place in the events of an object.
fn a_denied_child_is_seen(ensemble: &Ensemble, charge: &Charge) {
    let place = Place::new(&ensemble.cluster, false);
    let file = ensemble.cluster.dir.path().join(format!("{}.yaml", place.namespace));
    let rules = json!([charge.spoilt.rule]);
    let exemption = json!({"match": {"kinds": charge.exempt}, "rules": rules, "reason": "a scenario"});
    let exemptions = if charge.exempt.is_empty() { json!([]) } else { json!([exemption]) };
    let policy = json!({
        "apiVersion": "jobgate.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "distrust"},
        "spec": {"trustedControllers": [], "exemptions": exemptions},
    });
    fs::write(&file, policy.to_string()).expect("write a policy");
    let (gate, setup) = own_gate(ensemble, &place, ORDERS[0], Some(file));
    let scenario = take(ensemble, &place, &serde_json::json!([]));
    for object in charge.all_spoilt("j") {
        place.create(&object).ok();
    }
    let (kind, name) = charge.tells.split_once('/').expect("KIND/NAME");
    let name = name.replace("{}", "j");
    // Volcano tries for almost three minutes before it says so.
    let told = eventually(Duration::from_secs(240), || {
        let output = place.kubectl(&["events", "--for", &format!("{kind}/{name}")]).ok();
        let all = ["denied the request", charge.spoilt.said];
        if all.iter().all(|part| output.stdout.contains(part)) {
            Ok(output.stdout)
        } else {
            Err(output.to_string())
        }
    })
    .expect("an event says why");
    println!("{} tells: {told}", charge.name);
    assert!(
        scenario.timeline().pods.iter().all(|pod| matches!(pod.role.as_str(), "worker" | "head")),
        "{:#?}",
        scenario.timeline()
    );
    drop(gate);
    unregister(&ensemble.cluster, &setup.name);
    place.kubectl(&["delete", charge.resource, "--all", "--wait=false"]).ok();
}

const POD_OF_SET: &str = "/spec/replicatedJobs/0/template/spec/template/spec";

/// The verdict and the object are the same whichever webhook is called first, and the object has what both of
/// them write.
fn defaults_of_jobset(ensemble: &Ensemble) {
    let charge = charges().find(|charge| charge.name == "jobset").expect("a JobSet");
    let job = |change: Value| {
        let mut object = charge.object("j");
        let job = &mut object["spec"]["replicatedJobs"][0]["template"]["spec"];
        let unsaid = over(job.take(), json!({"completionMode": null}));
        *job = over(unsaid, change);
        object
    };
    let policy = |policy: &str| job(json!({"template": {"spec": {"restartPolicy": policy}}}));
    let unset = || json!({"template": {"spec": {"restartPolicy": null}}});
    let failing = json!({"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]}});
    let denied = Some("restart-policy");
    let cases = [
        (job(unset()), None),
        (policy("Never"), None),
        (policy("Always"), denied),
        // These pods must not restart, and the operator lets them.
        (job(over(failing, unset())), denied),
    ];
    for (object, made) in in_both_orders(ensemble, charge, &cases) {
        is(&made, "/spec/replicatedJobs/0/template/spec/completionMode", json!("Indexed"));
        let own = object.pointer(POD_OF_SET).and_then(|pod| pod.get("restartPolicy")).cloned();
        is(&made, &format!("{POD_OF_SET}/restartPolicy"), own.unwrap_or_else(|| json!("OnFailure")));
    }
}

/// The same beside Volcano, which does not take a client-side apply of a manifest without what it writes.
fn defaults_of_volcano(ensemble: &Ensemble) {
    let charge = charges().find(|charge| charge.name == "volcano_job").expect("a Job of Volcano");
    let said = charge.object("j");
    let defaults = json!({"schedulerName": null, "queue": null, "minAvailable": null, "maxRetry": null});
    let mut unsaid = over(said.clone(), json!({"spec": defaults}));
    let task = &mut unsaid["spec"]["tasks"][0];
    *task = over(task.take(), json!({"name": null, "minAvailable": null, "maxRetry": null}));
    let policy = |policy: Value| {
        let mut object = unsaid.clone();
        let pod = &mut object["spec"]["tasks"][0]["template"]["spec"];
        *pod = over(pod.take(), json!({"restartPolicy": policy}));
        object
    };
    let denied = Some("restart-policy");
    let cases = [
        (said, None),
        (unsaid.clone(), None),
        (policy(json!("Always")), denied),
        (policy(json!(null)), denied),
    ];
    for (_, made) in in_both_orders(ensemble, charge, &cases) {
        for place in ["/spec/minAvailable", "/spec/tasks/0/minAvailable"] {
            is(&made, place, json!(2));
        }
        for place in ["/spec/maxRetry", "/spec/tasks/0/maxRetry"] {
            is(&made, place, json!(3));
        }
        is(&made, "/spec/queue", json!("default"));
    }
    let place = ensemble.place(ORDERS[0]);
    let _scenario = take(ensemble, &place, &serde_json::json!([{"run": null}]));
    place.apply(&unsaid).ok();
    let again = place.apply(&unsaid);
    assert!(!again.success && again.stderr.contains("job updates may not change fields"), "{again}");
    place.kubectl(&["delete", charge.resource, "--all", "--wait=false"]).ok();
}

/// Has objects created, as dry runs, with Jobgate called before the operator and after it: both must answer
/// the same. Each must be denied by the rule beside it, or be filled in; those are returned, and what became
/// of them.
fn in_both_orders(
    ensemble: &Ensemble,
    charge: &Charge,
    cases: &[(Value, Option<&str>)],
) -> Vec<(Value, Value)> {
    let answers = ORDERS.map(|order| {
        let place = ensemble.place(order);
        let created = |object: &Value| {
            let path = format!("{}?dryRun=All", list_of(&place.namespace, object));
            ensemble.api.send_as(ANYBODY, Method::POST, &path, object)
        };
        cases.iter().map(|(object, _)| created(object)).collect::<Vec<_>>()
    });
    let mut admitted = Vec::new();
    for ((object, denied), (first, last)) in cases.iter().zip(answers[0].iter().zip(&answers[1])) {
        let (status, made) = first;
        assert_eq!((status, &made["spec"]), (&last.0, &last.1["spec"]), "{object:#}");
        if let Some(rule) = denied {
            for answer in [first, last] {
                let problems = problems(answer);
                assert!(problems.len() == 1 && problems[0].starts_with(rule), "{answer:#?}");
            }
            continue;
        }
        assert_eq!(*status, 201, "{made:#}");
        are_filled(made, charge.fills);
        admitted.push((object.clone(), made.clone()));
    }
    admitted
}
