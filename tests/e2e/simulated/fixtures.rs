//! The fixtures of rules about an incident. Those of Jobs on the real kube-controller-manager: each ends as the model says, and where a rule
//! has a fix, the fix changes the end. (`JOBGATE_SIMULATED_FIXTURES`)

mod cron;

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jobgate::controllers::incident::Incident;
use jobgate::controllers::program::Peers;
use jobgate::controllers::story::Assumptions;
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Finding;
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::{Kinds, Rule};
use jobgate::judge::rules::RuleSet;
use jobgate::judge::simulation::{ProgramDefaults, SimulatedJob, jobs};
use jobgate::kinds::Workload;
use jobgate::text::patch;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use super::{PHASE, Planned, WATCHED, has_wait_fault, modelled, play, version_of, write};
use crate::ensemble::Ensemble;

/// When something happens, from the start of the pods.
const AT: f64 = 3.25;
/// When the other ranks notice.
const PEERS: f64 = 5.35;
/// How long a program takes.
pub(super) const RUN: f64 = 6.7;
/// How long a program that fails when it starts runs.
const CRASH: f64 = 1.25;
/// The deadline of a Job that has one, in seconds: between two retries.
const DEADLINE: i64 = 17;
/// The most pods of a Job.
const MOST_PODS: i64 = 16;
/// How long the kubelet takes from one start of a container to the next.
const EVERY: f64 = 2.25;

/// A fixture, and what its fix makes of it.
pub(super) struct Fixture {
    /// The rule and the file.
    pub(super) id: String,
    pub(super) object: Value,
    /// What the finding is about, or the rule where there is none; nothing for what runs of a CronJob do to each other.
    pub(super) incident: Option<Incident>,
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

/// Runs all fixtures, and returns what is not as the model says.
pub(super) fn compare(ensemble: &Ensemble) -> String {
    let version = version_of(ensemble);
    let has_fault = has_wait_fault(&version);
    // Those in a queue are played beside Kueue.
    let fixtures = read().into_iter().filter(|fixture| !fixture.is_queued());
    let (cron_jobs, others): (Vec<_>, Vec<_>) = fixtures.partition(Fixture::is_cron_job);
    let mut all = cron::compare(ensemble, &cron_jobs, has_fault);
    let cases: Vec<JobCase> = others.into_iter().filter_map(JobCase::from_fixture).collect();
    if cases.is_empty() {
        return all;
    }
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
    all.push_str(&problems);
    all
}

/// Returns the fixtures of rules about an incident, each once for what may happen to it.
pub(super) fn read() -> Vec<Fixture> {
    let policy = Policy::default();
    let mut fixtures = Vec::new();
    for rule in RuleSet::built_in().iter() {
        let objects = objects(rule);
        let found: Vec<Vec<Finding>> =
            objects.iter().map(|(_, object)| findings(object, &policy, rule)).collect();
        // What a rule that is about no incident in particular says of one.
        let mut incidents: Vec<Option<Incident>> = rule.incident.into_iter().map(Some).collect();
        if incidents.is_empty() {
            incidents.extend(matches!(rule.kinds, Kinds::WithSchedule).then_some(None));
            for incident in found.iter().flatten().filter_map(|finding| finding.incident) {
                if !incidents.contains(&Some(incident)) {
                    incidents.push(Some(incident));
                }
            }
        }
        for ((id, object), found) in objects.into_iter().zip(&found) {
            fixtures.extend(Fixture::of_object(&id, &object, found, &incidents));
        }
    }
    let only = env::var("JOBGATE_ONLY").unwrap_or_default();
    fixtures.retain(|fixture| fixture.id.starts_with(&only));
    fixtures
}

/// Returns the bad and good objects of a rule, with the rule and the file.
fn objects(rule: &Rule) -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let files = std::fs::read_dir(root.join(rule.file())).expect("the fixtures");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let is_other = [".fixed.", ".unsafe.", ".policy."].iter().any(|part| name.contains(part));
        let is_case = !is_other && name.ends_with(".yaml");
        if !is_case || !["bad-", "good-"].iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let text = std::fs::read(&file).expect("a file");
        let id = format!("{}/{}", rule.id, name.trim_end_matches(".yaml"));
        let documents = yaml::documents(&text).filter_map(Result::ok);
        objects.extend(documents.map(|document| (id.clone(), document.value)));
    }
    objects
}

fn findings(object: &Value, policy: &Policy, rule: &Rule) -> Vec<Finding> {
    let verdict = engine::evaluate(policy, &NoFacts, &Request::from_file(object, None));
    verdict.findings.into_iter().filter(|finding| *finding.rule == *rule.id).collect()
}

impl Fixture {
    /// Returns an object once for each incident that its findings are about; for all of the rule's, where none is about one.
    fn of_object(id: &str, object: &Value, found: &[Finding], incidents: &[Option<Incident>]) -> Vec<Self> {
        let mut own: Vec<Option<Incident>> = Vec::new();
        for incident in found.iter().map(|finding| finding.incident).filter(Option::is_some) {
            if !own.contains(&incident) {
                own.push(incident);
            }
        }
        let of_incident = |incident: Option<Incident>| {
            let finding = found.iter().find(|finding| finding.incident == incident).or(found.first());
            let fix = finding.and_then(|finding| finding.fix.as_ref());
            let fixed = fix.and_then(|fix| patch::apply(object, &fix.ops).ok());
            let place = finding.map(|finding| finding.pointer.clone());
            let id = match incident {
                Some(incident) if incidents.len() > 1 => format!("{id}@{incident}"),
                _ => id.to_owned(),
            };
            Self { id, object: object.clone(), incident, place, fixed }
        };
        let incidents: &[Option<Incident>] = if !own.is_empty() {
            &own
        } else if found.is_empty() || incidents.len() == 1 {
            incidents
        } else if incidents.contains(&None) {
            &[None]
        } else {
            // What it is about is no incident.
            &[]
        };
        incidents.iter().copied().map(of_incident).collect()
    }

    fn is_cron_job(&self) -> bool {
        self.object["kind"] == "CronJob"
    }

    /// Tells whether its Job, or that of its CronJob, waits in a queue of Kueue.
    pub(super) fn is_queued(&self) -> bool {
        let job =
            if self.is_cron_job() { self.object.pointer("/spec/jobTemplate") } else { Some(&self.object) };
        let label = job.and_then(|job| job.pointer("/metadata/labels/kueue.x-k8s.io~1queue-name"));
        label.and_then(Value::as_str).is_some_and(|queue| !queue.is_empty())
    }
}

impl JobCase {
    fn from_fixture(fixture: Fixture) -> Option<Self> {
        let incident = fixture.incident?;
        let (spec, script) = played(&fixture.object, incident)?;
        let fixed = fixture.fixed.and_then(|fixed| played(&fixed, incident));
        Some(Self { id: fixture.id, spec, script, fixed })
    }
}

/// Returns the spec of a Job, with short times, and what happens to its pods.
fn played(object: &Value, incident: Incident) -> Option<(Value, serde_json::Value)> {
    let is_job = object["kind"] == "Job" && object["apiVersion"] == "batch/v1";
    let workload = Workload::from_object(object).filter(|_| is_job)?;
    let of_job = jobs(&workload, &ProgramDefaults::default());
    let spec = short(object.get("spec")?, DEADLINE, MOST_PODS)?;
    let script = script(&spec, of_job.first()?, incident, (serde_json::json!({}), RUN))?;
    Some((spec, script))
}

/// Returns a spec whose times are short, without what another object would have to be there for.
pub(super) fn short(spec: &Value, deadline: i64, most_pods: i64) -> Option<Value> {
    let mut spec = spec.clone();
    for (field, most) in
        [("activeDeadlineSeconds", deadline), ("completions", most_pods), ("parallelism", most_pods)]
    {
        // A placeholder is no number.
        if spec.get(field).is_some_and(|own| own.as_i64().is_none_or(|own| own > most)) {
            spec[field] = most.into();
        }
    }
    spec["suspend"] = false.into();
    spec["template"].as_object_mut()?.remove("metadata");
    let pod = &mut spec["template"]["spec"];
    *pod = bare(pod, "registry.example.com/c:1")?;
    if pod.get("restartPolicy").is_none() {
        pod["restartPolicy"] = "Never".into();
    }
    Some(spec)
}

/// Returns a pod spec with what decides when its pods end: what they are made of does not matter, since the kubelet goes by the
/// script. Nothing where the script would have to know of init containers.
pub(super) fn bare(pod: &Value, image: &str) -> Option<Value> {
    if pod.get("initContainers").is_some() {
        return None;
    }
    let names =
        pod.get("containers")?.as_array()?.iter().filter_map(|container| container.get("name").cloned());
    let containers: Vec<Value> = names.map(|name| json!({"name": name, "image": image})).collect();
    let mut bare = json!({"terminationGracePeriodSeconds": 4, "containers": containers});
    if let Some(policy) = pod.get("restartPolicy") {
        bare["restartPolicy"] = policy.clone();
    }
    Some(bare)
}

/// Returns what happens to one pod the first time, to the same pod always, or to all.
pub(super) enum Befalls {
    Once(serde_json::Value),
    Always(serde_json::Value),
    All(serde_json::Value),
}

impl Befalls {
    /// Returns what an incident does to pods whose program exits with a code on SIGTERM, and whose containers may start again in
    /// them; nothing for one that no script of pods can show.
    pub(super) fn from_incident(
        incident: Incident,
        assumptions: &Assumptions,
        in_place: bool,
    ) -> Option<Self> {
        let disrupted = |cause: &str| {
            serde_json::json!({
                "run": null, "disrupt": {"after": AT, "cause": cause},
                "term": {"after": 1.15, "code": assumptions.term.code}})
        };
        let exits = |code: i64| serde_json::json!({"run": AT, "exit": code});
        let crash = match in_place {
            true => serde_json::json!({"run": null, "restarts": null, "every": EVERY}),
            false => serde_json::json!({"run": CRASH, "exit": 1}),
        };
        Some(match incident {
            Incident::Exit(code) => Self::Once(exits(code.into())),
            Incident::Oom => Self::Once(exits(137)),
            Incident::Drain => Self::Once(disrupted("evict")),
            Incident::Spot => Self::Once(disrupted("taint")),
            Incident::Preempt => Self::Once(disrupted("preempt")),
            Incident::DeletePod => Self::Once(disrupted("delete")),
            // Nobody deletes a pod that tolerates the taint of its node.
            Incident::NodeLost if assumptions.unreachable.is_none() => {
                Self::Once(serde_json::json!({ "run": null }))
            }
            Incident::NodeLost => {
                let mut plan = disrupted("lost");
                plan["term"] = serde_json::json!({"after": null, "code": 0});
                Self::Once(plan)
            }
            Incident::CrashLoop => Self::Always(crash),
            Incident::CrashAll => Self::All(crash),
            Incident::Hang => Self::All(serde_json::json!({ "run": null })),
            Incident::ImagePull => Self::All(serde_json::json!({ "start": null })),
            _ => return None,
        })
    }

    /// Returns the rule of a script, with the one pod that it is about.
    pub(super) fn rule(self, pod: &serde_json::Value) -> serde_json::Value {
        let (mut rule, is_once) = match self {
            Self::All(rule) => return rule,
            Self::Always(rule) => (rule, false),
            Self::Once(rule) => (rule, true),
        };
        for (key, value) in pod.as_object().into_iter().flatten() {
            rule[key] = value.clone();
        }
        if is_once {
            rule["attempt"] = 0.into();
        }
        rule
    }
}

/// Returns what the other pods do then, as far as that is known.
pub(super) fn of_peers(peers: Peers, or_peers: Option<Peers>) -> Option<serde_json::Value> {
    match peers {
        Peers::Exit(_) if or_peers.is_none() => {
            Some(serde_json::json!({"attempt": 0, "run": PEERS, "exit": 1}))
        }
        Peers::Hang => Some(serde_json::json!({"attempt": 0, "run": null})),
        _ => None,
    }
}

/// Returns what happens to the pods of a Job that match, and how long others run; nothing for an incident that no script of pods
/// can show.
pub(super) fn script(
    spec: &Value,
    job: &SimulatedJob<'_>,
    incident: Incident,
    (mut pod, run): (serde_json::Value, f64),
) -> Option<serde_json::Value> {
    if spec.get("completionMode").is_some_and(|mode| mode == "Indexed") {
        pod["index"] = serde_json::json!([0, 0]);
    }
    let in_place = spec.pointer("/template/spec/restartPolicy").is_some_and(|policy| *policy == "OnFailure");
    let mut rules = vec![Befalls::from_incident(incident, &job.assumptions, in_place)?.rule(&pod)];
    rules.extend(of_peers(job.assumptions.peers, job.or_peers));
    rules.push(serde_json::json!({ "run": run }));
    Some(serde_json::Value::Array(rules))
}
