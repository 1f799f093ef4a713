//! The fixtures of rules about an incident whose kinds are run by operators, and Jobs in a queue of Kueue: each with short times
//! and bare pods, and what happens to them.

mod queued;

use jobgate::controllers::incident::Incident;
use jobgate::controllers::subject::Role;
use jobgate::judge::simulation::{self, ProgramDefaults, SimulatedObject};
use jobgate::kinds::Workload;
use jobgate::text::pointer::{Pointer, Token};
use jobgate::text::value::{Value as Object, json as object};
use serde_json::{Value, json};

use super::super::fixtures::{Befalls, Fixture, RUN, bare, of_peers, read};
use super::Plan;

/// How long an object is watched, in seconds.
const WATCHED: u64 = 60;
/// The deadline of an object that has one, in seconds.
const DEADLINE: i64 = 20;
/// When a job that hangs is changed, in a way that changes nothing of it.
const HAPPENS: f64 = 30.45;
/// The most of what an object may have many of.
const MOST: i64 = 4;
/// The fields that say how many there are of something.
const COUNTS: [&str; 5] = ["replicas", "parallelism", "completions", "numNodes", "minReplicas"];
/// Fields that need what is not there: a scheduler of gangs, metrics, accounts, a script of a submitter's own, queues, claims and
/// classes.
const NEEDY: [&str; 7] = [
    "schedulingPolicy",
    "elasticPolicy",
    "runtimePatches",
    "submitterPodTemplate",
    "queue",
    "volumes",
    "priorityClassName",
];
/// The roles with which a job ends, and how long they run: not until the others end, of which some would be deleted.
const LEADERS: [&str; 2] = ["master", "chief"];
const LEADS: f64 = 5.15;
/// How long the others run, and those with which a job ends, where one pod fails again and again: until its limit is reached.
const LONG: [f64; 2] = [42.7, 40.15];

/// Returns the objects of the kinds that are there, and after each what its fix makes of it.
pub(super) fn plans(is_there: &dyn Fn(&str) -> bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    for fixture in read() {
        let kind = match (fixture.object["kind"].as_str(), fixture.object["apiVersion"].as_str()) {
            (Some("Job"), Some(version)) if version.starts_with("batch.volcano.sh/") => "VolcanoJob",
            (Some("Job" | "CronJob"), _) if fixture.is_queued() => "Job",
            // Those are run without an operator.
            (Some("Job" | "CronJob") | None, _) => continue,
            (Some(kind), _) => kind,
        };
        if !is_there(kind) {
            println!("not played, since its operator is not there: {}", fixture.id);
            continue;
        }
        let (row, watched) = match kind {
            "Job" => (queued::row(&fixture, &fixture.object), queued::WATCHED),
            _ => (row(&fixture, &fixture.object, kind), WATCHED),
        };
        let Some(row) = row else {
            println!("not played: {}", fixture.id);
            continue;
        };
        plans.push(Plan { row, watched });
        let fixed = fixture.fixed.as_ref().and_then(|fixed| row_of_fix(&fixture, fixed, kind));
        plans.extend(fixed.map(|row| Plan { row, watched }));
    }
    plans
}

fn row_of_fix(fixture: &Fixture, fixed: &Object, kind: &str) -> Option<Value> {
    let is_left_out = |token: &&Token| matches!(token, Token::Key(key) if NEEDY.contains(&&**key));
    if fixture.place.as_ref().is_some_and(|place| place.tokens().iter().any(is_left_out)) {
        return None;
    }
    let mut row = if kind == "Job" { queued::row(fixture, fixed)? } else { row(fixture, fixed, kind)? };
    row["id"] = format!("{}+fix", fixture.id).into();
    row["fixed"] = true.into();
    Some(row)
}

fn row(fixture: &Fixture, object: &Object, kind: &str) -> Option<Value> {
    let mut object = object.clone();
    let also: Vec<Object> = (kind == "TrainJob").then(runtime).into_iter().collect();
    if !also.is_empty() {
        object["spec"]["runtimeRef"] = object!({"name": "r", "kind": "TrainingRuntime"});
    }
    // What the program does is read of the fixture as it is: its commands say it.
    let workload = Workload::from_object(&object)?;
    let of_operator = simulation::object(&workload, &also, &ProgramDefaults::default())?;
    let script = script(&of_operator, fixture.incident?, fixture.place.as_ref(), &object)?;
    let plain = |object: &Object| serde_json::from_str::<Value>(&object.to_string()).expect("an object");
    let mut row = json!({
        "id": fixture.id, "kind": kind, "about": "fixture", "manifest": short(&object, &workload)?,
        "script": script, "limit": WATCHED,
    });
    if !also.is_empty() {
        row["also"] = also.iter().map(plain).collect();
    }
    Some(row)
}

/// Returns a runtime of two nodes: those that fixtures name are not there.
fn runtime() -> Object {
    let step = object!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let pod = object!({"containers": [{"name": "node", "image": "registry.example.com/c:1"}]});
    let job = object!({"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": {"spec": pod}}}});
    object!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "path": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/$NS/trainingruntimes",
        "metadata": {"name": "r", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [job]}}},
    })
}

/// Returns an object with short times, few pods, and nothing in them but containers that have a name.
fn short(whole: &Object, workload: &Workload<'_>) -> Option<Value> {
    let mut short =
        object!({"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": {"name": "j"}});
    short["spec"] = whole.get("spec")?.clone();
    // KubeRay reads the release of Ray from it.
    let image = if whole["kind"] == "RayJob" { "rayproject/ray:2.46.0" } else { "registry.example.com/c:1" };
    for pod in &workload.pods {
        let spec = short.pointer_mut(&format!("{}/spec", pod.template.pointer.to_json_pointer()))?;
        *spec = bare(spec, image)?;
    }
    let mut short: Value = serde_json::from_str(&short.to_string()).expect("an object");
    shorten(&mut short["spec"]);
    gather(&mut short["spec"]);
    Some(short)
}

/// Lowers the numbers of a Volcano Job that count its pods to how many there are now.
fn gather(spec: &mut Value) {
    let Some(tasks) = spec["tasks"].as_array_mut() else { return };
    let mut whole = 0;
    for task in tasks {
        let count = task["replicas"].as_i64().unwrap_or(1);
        lower(task, "minAvailable", count);
        whole += count;
    }
    lower(spec, "minAvailable", whole);
    lower(spec, "minSuccess", whole);
}

fn lower(object: &mut Value, key: &str, most: i64) {
    if object[key].as_i64().is_some_and(|own| own > most) {
        object[key] = most.into();
    }
}

fn shorten(value: &mut Value) {
    if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(shorten);
        return;
    }
    let Some(fields) = value.as_object_mut() else { return };
    fields.retain(|key, _| !NEEDY.contains(&&**key));
    for (key, value) in fields.iter_mut() {
        let most = match &**key {
            "activeDeadlineSeconds" => DEADLINE,
            count if COUNTS.contains(&count) => MOST,
            _ => {
                shorten(value);
                continue;
            }
        };
        if value.as_i64().is_none_or(|own| own > most) {
            *value = most.into();
        }
    }
}

/// Returns what happens to the pods; nothing for an incident that no script of pods can show.
fn script(
    of: &SimulatedObject<'_>,
    incident: Incident,
    place: Option<&Pointer>,
    object: &Object,
) -> Option<Value> {
    if object["kind"] == "RayJob" {
        // Its program, and no pod, decides how it ends.
        let hangs = json!([{"program": 0, "pending": 2, "run": 600, "end": "SUCCEEDED"}]);
        return (incident == Incident::Hang).then_some(hangs);
    }
    let roles = of.subject.roles.iter().filter_map(|role| Some((role.name.as_deref()?, role)));
    // What fails again and again is about containers that are started again.
    let fails_in_place = |role: &Role| incident == Incident::CrashLoop && role.restarts_in_place;
    let most = roles.clone().max_by_key(|(_, role)| (fails_in_place(role), role.count))?;
    let is_at = |name: &str| place.is_some_and(|place| is_within(place, name, object));
    let (victim, role) = roles.clone().find(|(name, _)| is_at(name)).unwrap_or(most);
    let mut pod = json!({ "role": victim });
    if role.count > 1 {
        pod["index"] = json!([0, 0]);
    }
    let befalls = Befalls::from_incident(incident, &of.assumptions, role.restarts_in_place)?;
    let mut rules = vec![befalls.rule(&pod)];
    // Those that are started again in their pods, as the first one, do not fail as pods.
    if incident != Incident::CrashLoop || !role.restarts_in_place {
        rules.extend(of_peers(of.assumptions.peers, of.or_peers));
    }
    let [run, leads] = if incident == Incident::CrashLoop { LONG } else { [RUN, LEADS] };
    // What serves the others does not end with the program.
    let servers =
        roles.clone().filter(|(_, role)| role.serves).map(|(name, _)| json!({"role": name, "run": null}));
    let leaders =
        roles.filter(|(name, _)| LEADERS.contains(name)).map(|(name, _)| json!({"role": name, "run": leads}));
    rules.extend(servers.chain(leaders));
    rules.push(json!({ "run": run }));
    if incident == Incident::Hang {
        // The training operator looks at a job when something happens, else after ten hours.
        rules.push(
            json!({"at": HAPPENS, "merge": {"metadata": {"annotations": {"example.com/looked-at": "now"}}}}),
        );
    }
    Some(rules.into())
}

/// Tells whether a place is in the part of an object that a role is of.
fn is_within(place: &Pointer, role: &str, object: &Object) -> bool {
    let mut value = Some(object);
    place.tokens().iter().any(|token| {
        let key = match token {
            Token::Key(key) => {
                value = value.and_then(|value| value.get(&**key));
                key.to_string()
            }
            Token::Index(index) => {
                value = value.and_then(|value| value.as_array()?.get(*index));
                value.and_then(|value| value.get("name")?.as_str()).unwrap_or_default().to_owned()
            }
        };
        let number = |rest: &str| {
            rest.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        !key.is_empty() && (role.eq_ignore_ascii_case(&key) || role.strip_prefix(&*key).is_some_and(number))
    })
}
