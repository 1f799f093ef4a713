//! The fixtures of rules about an incident. Those of Jobs on the real kube-controller-manager: each ends as the model says, and where a rule
//! has a fix, the fix changes the end. (`JOBGATE_SIMULATED_FIXTURES`)

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jobgate::controllers::incident::Incident;
use jobgate::controllers::program::Peers;
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::Rule;
use jobgate::judge::rules::RuleSet;
use jobgate::judge::simulation::{ProgramDefaults, SimulatedJob, jobs};
use jobgate::kinds::Workload;
use jobgate::text::patch;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::Value;
use jobgate::text::yaml;

use super::{PHASE, Planned, WATCHED, has_wait_fault, modelled, play, version_of, write};
use crate::ensemble::Ensemble;

/// When something happens, from the start of the pods.
pub(super) const AT: f64 = 3.25;
/// When the other ranks notice.
pub(super) const PEERS: f64 = 5.35;
/// How long a program takes.
pub(super) const RUN: f64 = 6.7;
/// How long a program that fails when it starts runs.
pub(super) const CRASH: f64 = 1.25;
/// The deadline of a Job that has one, in seconds.
const DEADLINE: i64 = 12;
/// The most pods of a Job.
const MOST_PODS: i64 = 16;
/// How long the kubelet takes from one start of a container to the next.
pub(super) const EVERY: f64 = 2.25;

/// A fixture, and what its fix makes of it.
pub(super) struct Fixture {
    /// The rule and the file.
    pub(super) id: String,
    pub(super) object: Value,
    /// What the finding is about, or the rule where there is none.
    pub(super) incident: Incident,
    /// Where the finding is.
    pub(super) place: Option<Pointer>,
    pub(super) fixed: Option<Value>,
}

/// A Job of a fixture to run, and what its fix makes of it.
struct JobCase {
    id: String,
    spec: Value,
    script: serde_json::Value,
    fixed: Option<(Value, serde_json::Value)>,
}

/// Runs all fixtures.
pub(super) fn compare(ensemble: &Ensemble) {
    let version = version_of(ensemble);
    let has_fault = has_wait_fault(&version);
    let cases: Vec<JobCase> = read().into_iter().filter_map(JobCase::from_fixture).collect();
    let planned = |id: String, spec: &Value, script: &serde_json::Value| {
        let spec: serde_json::Value = serde_json::from_str(&spec.to_string()).expect("a spec");
        let manifest = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec});
        let (about, script) = (format!("fixture, {version}"), script.clone());
        Planned { id, about, manifest, script, is_never_ready: false, watched: WATCHED, before: None }
    };
    let mut plans = Vec::new();
    for case in &cases {
        plans.push(planned(case.id.clone(), &case.spec, &case.script));
        let fixed = case.fixed.as_ref();
        plans.extend(fixed.map(|(spec, script)| planned(format!("{}+fix", case.id), spec, script)));
    }
    let runs = play(ensemble, plans, has_fault);
    write(&runs);
    let start = i64::try_from(PHASE).expect("a small number") + 10;
    let until = f64::from(u32::try_from(WATCHED).expect("a small number"));
    let (mut agree, mut pairs, mut problems) = (0_usize, 0_usize, String::new());
    for (nth, run) in runs.iter().enumerate() {
        let Some(seen) = &run.seen else { continue };
        let model = |start: i64, at: f64| modelled(&run.spec(), &run.planned.script, start, at, has_fault);
        let others = [
            (start, until),
            (start, until - 2.5),
            (start, until + 2.5),
            (start + 60, until),
            (start - 60, until),
        ];
        let Planned { id, script, .. } = &run.planned;
        match others.iter().any(|(start, at)| model(*start, *at) == *seen) {
            true => agree += 1,
            false => {
                let expected = model(start, until);
                let _ = writeln!(
                    problems,
                    "{id}: {}\n  script {script}\n  seen  {seen}\n  model {expected}",
                    run.spec()
                );
            }
        }
        if id.ends_with("+fix") {
            pairs += 1;
            if runs[nth - 1].seen.as_ref() == Some(seen) {
                let _ = writeln!(problems, "{id}: its end is that without the fix: {seen}");
            }
        }
    }
    println!(
        "{agree} of {} fixtures end as in the model, {pairs} with a fix, on {version}\n{problems}",
        runs.len()
    );
    assert!(pairs > 0 && problems.is_empty(), "{problems}");
}

/// Returns the fixtures of rules about an incident.
pub(super) fn read() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let policy = Policy::default();
    let mut fixtures = Vec::new();
    for rule in RuleSet::built_in().iter().filter(|rule| rule.incident.is_some()) {
        let files = std::fs::read_dir(root.join(rule.file())).expect("the fixtures");
        let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let is_case = !name.contains(".fixed.") && !name.contains(".unsafe.") && name.ends_with(".yaml");
            if !is_case || !["bad-", "good-"].iter().any(|start| name.starts_with(start)) {
                continue;
            }
            let text = std::fs::read(&file).expect("a file");
            for document in yaml::documents(&text) {
                let Ok(document) = document else { continue };
                let id = format!("{}/{}", rule.id, name.trim_end_matches(".yaml"));
                fixtures.extend(Fixture::from_object(id, document.value, &policy, rule));
            }
        }
    }
    fixtures
}

impl Fixture {
    fn from_object(id: String, object: Value, policy: &Policy, rule: &Rule) -> Option<Self> {
        let verdict = engine::evaluate(policy, &NoFacts, &Request::of_file(&object, None));
        let finding = verdict.findings.iter().find(|finding| *finding.rule == *rule.id);
        let incident = finding.and_then(|finding| finding.incident).or(rule.incident)?;
        let fix = finding.and_then(|finding| finding.fix.as_ref());
        let fixed = fix.and_then(|fix| patch::apply(&object, &fix.ops).ok());
        let place = finding.map(|finding| finding.pointer.clone());
        Some(Self { id, incident, place, fixed, object })
    }
}

impl JobCase {
    fn from_fixture(fixture: Fixture) -> Option<Self> {
        let (spec, script) = played(&fixture.object, fixture.incident)?;
        let fixed = fixture.fixed.and_then(|fixed| played(&fixed, fixture.incident));
        Some(Self { id: fixture.id, spec, script, fixed })
    }
}

/// Returns the spec of a Job, with short times, and what happens to its pods.
fn played(object: &Value, incident: Incident) -> Option<(Value, serde_json::Value)> {
    let is_job = object["kind"] == "Job" && object["apiVersion"] == "batch/v1";
    let workload = Workload::from_object(object).filter(|_| is_job)?;
    let of_job = jobs(&workload, &ProgramDefaults::default());
    let spec = short(object.get("spec")?)?;
    let script = script(&spec, of_job.first()?, incident)?;
    Some((spec, script))
}

/// Returns a spec whose times are short, without what another object would have to be there for.
fn short(spec: &Value) -> Option<Value> {
    let mut spec = spec.clone();
    for (field, most) in
        [("activeDeadlineSeconds", DEADLINE), ("completions", MOST_PODS), ("parallelism", MOST_PODS)]
    {
        // A placeholder is no number.
        if spec.get(field).is_some_and(|own| own.as_i64().is_none_or(|own| own > most)) {
            spec[field] = most.into();
        }
    }
    spec["suspend"] = false.into();
    // No queue: what Kueue does is no part of these runs.
    spec["template"].as_object_mut()?.remove("metadata");
    let pod = &mut spec["template"]["spec"];
    let containers = pod.get("containers")?.as_array()?.len();
    let (restart, hooks) = (pod.get("restartPolicy").cloned(), pod.get("initContainers").is_some());
    let names: Vec<Value> =
        pod["containers"].as_array()?.iter().filter_map(|container| container.get("name").cloned()).collect();
    // What the pods are made of does not matter: the kubelet goes by the script.
    let containers: Vec<Value> = names
        .into_iter()
        .take(containers)
        .map(|name| {
            let mut container = jobgate::text::value::json!({"image": "registry.example.com/c:1"});
            container["name"] = name;
            container
        })
        .collect();
    *pod = jobgate::text::value::json!({"terminationGracePeriodSeconds": 4});
    pod["containers"] = containers.into();
    pod["restartPolicy"] = restart.unwrap_or_else(|| "Never".into());
    (!hooks).then_some(spec)
}

/// Returns what happens to the pods; nothing for an incident that no script of pods can show.
fn script(spec: &Value, job: &SimulatedJob<'_>, incident: Incident) -> Option<serde_json::Value> {
    let indexed = spec.get("completionMode").is_some_and(|mode| mode == "Indexed");
    let of_first = |mut plan: serde_json::Value, always: bool| {
        if indexed {
            plan["index"] = serde_json::json!([0, 0]);
        }
        if !always {
            plan["attempt"] = 0.into();
        }
        plan
    };
    let code = job.assumptions.term.code;
    let disrupted = |cause: &str| {
        serde_json::json!({
            "run": null, "disrupt": {"after": AT, "cause": cause}, "term": {"after": 1.15, "code": code}})
    };
    let exits = |code: i64| serde_json::json!({"run": AT, "exit": code});
    let in_place = spec.pointer("/template/spec/restartPolicy").is_some_and(|policy| *policy == "OnFailure");
    let crash = match in_place {
        true => serde_json::json!({"run": null, "restarts": null, "every": EVERY}),
        false => serde_json::json!({"run": CRASH, "exit": 1}),
    };
    let first = match incident {
        Incident::Exit(code) => of_first(exits(code.into()), false),
        Incident::Oom => of_first(exits(137), false),
        Incident::Drain => of_first(disrupted("evict"), false),
        Incident::Spot => of_first(disrupted("taint"), false),
        Incident::Preempt => of_first(disrupted("preempt"), false),
        Incident::DeletePod => of_first(disrupted("delete"), false),
        Incident::NodeLost => {
            // Nobody deletes a pod that tolerates the taint of its node.
            let mut plan = serde_json::json!({ "run": null });
            if job.assumptions.unreachable.is_some() {
                plan = disrupted("lost");
                plan["term"] = serde_json::json!({"after": null, "code": 0});
            }
            of_first(plan, false)
        }
        Incident::CrashLoop => of_first(crash, true),
        Incident::CrashAll => crash,
        Incident::Hang => serde_json::json!({ "run": null }),
        Incident::ImagePull => serde_json::json!({ "start": null }),
        _ => return None,
    };
    let mut rules = vec![first];
    match job.assumptions.peers {
        Peers::Exit(_) if job.or_peers.is_none() => {
            rules.push(serde_json::json!({"attempt": 0, "run": PEERS, "exit": 1}));
        }
        Peers::Hang => rules.push(serde_json::json!({"attempt": 0, "run": null})),
        _ => {}
    }
    rules.push(serde_json::json!({ "run": RUN }));
    Some(serde_json::Value::Array(rules))
}
