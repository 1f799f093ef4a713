//! Templates with one thing wrong, in objects of operators' kinds: whether the operator can make pods of them is what Jobgate
//! says. (`JOBGATE_TEMPLATES` says how many, or `fixtures` for those of the rule; `JOBGATE_SEED` repeats a run.)

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use jobgate::judge::api;
use jobgate::judge::engine::{self, Origin, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Level;
use jobgate::judge::policy::Policy;
use jobgate::kinds::{TEMPLATE, Workload};
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

use crate::api::list_of;
use crate::cel::{documents, files};
use crate::cluster::shared;
use crate::ensemble::{Ensemble, Lazy, run};
use crate::kinds::ANYBODY;
use crate::mutated::{mutants, places, template_of_job, values};
use crate::random::Random;
use crate::scenario::Place;

/// How many objects there are at once.
const AT_ONCE: usize = 20;
/// How long an operator may take to make a pod, or to be refused one.
const LONG: Duration = Duration::from_secs(25);
/// The share of what is refused that has to be said.
const LEAST: f64 = 0.98;
/// The rule that speaks of it.
const RULE: &str = "pod-template-valid";

/// Values of which some are wrong where they stand, by the names of their fields.
const WRONG: [(&str, &[&str]); 20] = [
    ("name", &["A=B", "Upper", "a b", "-x"]),
    ("containerPort", &["0", "70000"]),
    ("hostPort", &["70000"]),
    ("protocol", &["\"HTTP\""]),
    ("mountPath", &["\"\"", "\"/ckpt\""]),
    ("subPath", &["\"../x\"", "\"/x\""]),
    ("cpu", &["\"-1\"", "\"64\"", "\"x\""]),
    ("memory", &["\"1Pi\"", "\"-1\""]),
    ("nvidia.com/gpu", &["\"500m\"", "3"]),
    ("key", &["\"a b\"", "\"../x\"", "\"\""]),
    ("path", &["\"../x\"", "\"\"", "\"/x\""]),
    ("operator", &["\"Is\"", "\"In\"", "\"Exists\""]),
    ("effect", &["\"NoRun\"", "\"NoExecute\""]),
    ("defaultMode", &["511", "512", "-1"]),
    ("imagePullPolicy", &["\"Sometimes\"", "\"Never\""]),
    ("dnsPolicy", &["\"None\"", "\"Cluster\""]),
    ("fieldPath", &["\"metadata.uid\"", "\"spec.nodes\"", "\"status.hostIP\""]),
    ("divisor", &["\"3\"", "\"1m\""]),
    ("periodSeconds", &["-1", "0"]),
    ("whenUnsatisfiable", &["\"Never\""]),
];

/// Returns the comparison, if it was asked for.
pub(crate) fn trials(ensemble: &Arc<Lazy>) -> Result<Vec<Trial>, String> {
    let Ok(count) = env::var("JOBGATE_TEMPLATES") else { return Ok(Vec::new()) };
    let count = match &*count {
        "fixtures" => None,
        count => Some(
            count.parse().map_err(|_| format!("JOBGATE_TEMPLATES is a number, or fixtures, not {count}"))?,
        ),
    };
    let ensemble = Arc::clone(ensemble);
    Ok(vec![Trial::test("templates_that_are_denied_are_refused", move || {
        run(&ensemble, |ensemble| compare(ensemble, count))
    })])
}

/// An object with a template in which one thing was changed.
struct Case {
    name: String,
    /// What was changed.
    what: String,
    /// Objects that must be there before, and the object.
    objects: Vec<Value>,
    /// What Jobgate says of its pods.
    ours: Option<Level>,
    /// The findings.
    said: Vec<String>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It was refused itself.
    RefusedFirst(String),
    /// A pod of the template was made.
    Made,
    /// The API server refused a pod or Job as invalid.
    Invalid(String),
    /// It refused it for another reason, which is not in the manifest.
    Forbidden(String),
    /// Neither was seen.
    Unknown,
}

fn compare(ensemble: &Ensemble, count: Option<usize>) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    let seed = env::var("JOBGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(now);
    println!("JOBGATE_SEED={seed}");
    let mut random = Random::new(seed);
    let place = Place::new(&ensemble.cluster, false);
    let kinds = kinds(ensemble);
    let templates = templates();
    let fixtures = if count.is_some() { Vec::new() } else { fixtures() };
    println!("{} templates, in {}", templates.len() + fixtures.len(), kinds.join(", "));
    let (mut fates, mut problems) = (BTreeMap::<String, usize>::new(), Vec::new());
    let (mut refused, mut said) = (0_usize, 0_usize);
    let count = count.unwrap_or(fixtures.len() * kinds.len());
    let mut nth = 0;
    while nth < count {
        let cases: Vec<Case> = (nth..count.min(nth + AT_ONCE))
            .map(|nth| {
                let kind = kinds[nth % kinds.len()];
                let (what, template) = match fixtures.get(nth / kinds.len()) {
                    Some(fixture) => fixture.clone(),
                    None => changed(&mut random, &templates),
                };
                case(nth, kind, (&what, &template), &place.namespace)
            })
            .collect();
        nth += cases.len();
        for (case, fate) in cases.iter().zip(play(ensemble, &place, &cases)) {
            let (word, text) = match &fate {
                Fate::RefusedFirst(text) => ("refused itself", text.as_str()),
                Fate::Made => ("made", ""),
                Fate::Invalid(text) => ("invalid", text.as_str()),
                Fate::Forbidden(text) => ("forbidden", text.as_str()),
                Fate::Unknown => ("unknown", ""),
            };
            let ours = match case.ours {
                Some(Level::Deny) => "denied",
                Some(_) => "warned of",
                None => "not said",
            };
            *fates.entry(format!("{word}, {ours}")).or_default() += 1;
            let line = || format!("{} {}: {word}, {ours}: {text} | {:?}", case.name, case.what, case.said);
            if matches!(fate, Fate::Invalid(_)) {
                refused += 1;
                said += usize::from(case.ours.is_some());
                if case.ours.is_none() {
                    println!("not said: {}", line());
                }
            }
            if case.ours == Some(Level::Deny) && matches!(fate, Fate::Made | Fate::Unknown) {
                problems.push(line());
            } else if case.ours.is_some() && fate == Fate::Made {
                println!("warned of: {}", line());
            }
        }
    }
    for (what, count) in &fates {
        println!("{count:5} {what}");
    }
    #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
    let share = said as f64 / refused.max(1) as f64;
    println!("{said} of {refused} that are refused are said; JOBGATE_SEED={seed}");
    assert!(problems.is_empty(), "denied, and not refused:\n{}", problems.join("\n"));
    assert!(refused > 0 && share >= LEAST, "{said} of {refused}");
}

/// Returns the kinds whose operators are there.
fn kinds(ensemble: &Ensemble) -> Vec<&'static str> {
    const ALL: [(&str, &str); 6] = [
        ("training-operator", "PyTorchJob"),
        ("jobset", "JobSet"),
        ("mpi-operator", "MPIJob"),
        ("kuberay", "RayJob"),
        ("trainer", "TrainJob"),
        ("volcano", "VolcanoJob"),
    ];
    let is_there = |name: &str| ensemble.folders.iter().any(|(operator, _)| operator.name == name);
    ALL.iter().filter(|(operator, _)| is_there(operator)).map(|(_, kind)| *kind).collect()
}

/// Returns templates whose pods can be made in an empty namespace: those of the corpus, and a full one.
fn templates() -> Vec<Value> {
    let mut all = vec![template_of_job()];
    for file in shared("corpus").map(|folder| files(&folder)).into_iter().flatten() {
        for object in documents(&file) {
            let Some(workload) = Workload::from_object(&object) else { continue };
            let pods = workload.pods.iter().filter(|pod| pod.form.template.containers == TEMPLATE.containers);
            all.extend(pods.filter_map(|pod| pod.template.value.cloned()));
        }
    }
    for template in &mut all {
        if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
            // What they name is not there.
            for field in [
                "serviceAccount",
                "serviceAccountName",
                "priorityClassName",
                "runtimeClassName",
                "schedulerName",
            ] {
                spec.remove(field);
            }
            spec.insert("restartPolicy", Value::from("Never"));
        }
    }
    all.retain(|template| {
        let object = object("PyTorchJob", "t", template, "default").pop().expect("an object");
        // A placeholder is judged by nobody.
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "t"}, "spec": {"template": template.clone()},
        });
        let has_containers = template["spec"]["containers"].as_array().is_some_and(|all| !all.is_empty());
        has_containers && api::check(&job).is_empty() && judged(&object).1.is_empty()
    });
    let mut seen = BTreeSet::new();
    all.retain(|template| seen.insert(template.to_string()));
    all
}

/// Returns what the webhook says of the pods of an object, which is never a part of one, as a file may be.
fn judged(object: &Value) -> (Option<Level>, Vec<String>) {
    let request = Request { origin: Origin::Admission, ..Request::from_file(object, None) };
    let verdict = engine::evaluate(&Policy::default(), &NoFacts, &request);
    let found = verdict.findings.into_iter().filter(|finding| *finding.rule == *RULE);
    let found: Vec<(Level, String)> =
        found.map(|finding| (finding.level, finding.message.into_owned())).collect();
    let level = if found.iter().any(|(level, _)| *level == Level::Deny) {
        Some(Level::Deny)
    } else {
        found.first().map(|(level, _)| *level)
    };
    (level, found.into_iter().map(|(_, message)| message).collect())
}

/// Returns the templates of the rule's fixtures, by the names of their files.
fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/pod_template_valid");
    let mut found = Vec::new();
    for file in files(&folder) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let template = documents(&file)
            .into_iter()
            .find_map(|object| object.pointer("/spec/pytorchReplicaSpecs/Worker/template").cloned());
        if let Some(mut template) = template.filter(|_| name.starts_with("bad-") || name.starts_with("good-"))
        {
            template["spec"]["restartPolicy"] = "Never".into();
            found.push((name, template));
        }
    }
    found
}

/// Returns a template with one thing changed, or none.
fn changed(random: &mut Random, templates: &[Value]) -> (String, Value) {
    // The full one has more to change.
    let template = if random.percent(40) { &templates[0] } else { random.pick(templates) };
    if random.percent(8) { ("as it is".to_owned(), template.clone()) } else { mutant(random, template) }
}

fn case(nth: usize, kind: &'static str, (what, template): (&str, &Value), namespace: &str) -> Case {
    let name = format!("t{nth}");
    let objects = object(kind, &name, template, namespace);
    let mut ours = (None, Vec::new());
    for object in &objects {
        let (level, said) = judged(object);
        // That of a runtime is a warning, since it runs nothing.
        let level = if level.is_some() && objects.len() > 1 { Some(Level::Warn) } else { level };
        ours.0 = ours.0.or(level);
        ours.1.extend(said);
    }
    Case { name, what: format!("({kind}) {what}"), objects, ours: ours.0, said: ours.1 }
}

/// Returns a template with one thing changed.
fn mutant(random: &mut Random, template: &Value) -> (String, Value) {
    let places: Vec<String> = places(template).into_iter().filter(|place| place != "/spec").collect();
    let wrong: Vec<(&String, Value)> = places
        .iter()
        .flat_map(|place| {
            let key = place.rsplit('/').next().unwrap_or_default().replace("~1", "/");
            let values = WRONG.iter().filter(move |(name, _)| *name == key).flat_map(|(_, values)| *values);
            values.map(move |value| (place, serde_json::from_str(value).unwrap_or_else(|_| json!(*value))))
        })
        .collect();
    if !wrong.is_empty() && random.percent(65) {
        let (place, value) = random.pick(&wrong);
        let mut changed = template.clone();
        if let Some(at) = changed.pointer_mut(place) {
            *at = value.clone();
        }
        return (format!("{place} {value}"), changed);
    }
    let place = random.pick(&places);
    let all = mutants(template, place, &values());
    let (what, changed) = random.pick(&all);
    (format!("{place} {what}"), changed.clone())
}

/// Returns an object of a kind whose pods are of a template, after what must be there before it.
fn object(kind: &str, name: &str, template: &Value, namespace: &str) -> Vec<Value> {
    let mut template = template.clone();
    let rename = |template: &mut Value, name: &str| {
        if let Some(first) = template.pointer_mut("/spec/containers/0/name")
            && first.is_string()
        {
            *first = name.into();
        }
    };
    let metadata = json!({"name": name, "namespace": namespace});
    let good =
        |name: &str| json!({"spec": {"containers": [{"name": name, "image": "rayproject/ray:2.46.0"}]}});
    let with = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata.clone(), "spec": spec});
    match kind {
        "PyTorchJob" => {
            rename(&mut template, "pytorch");
            let worker = json!({"replicas": 1, "restartPolicy": "Never", "template": template});
            vec![with("kubeflow.org/v1", kind, json!({"pytorchReplicaSpecs": {"Worker": worker}}))]
        }
        "JobSet" => {
            let job = json!({"name": "w", "template": {"spec": {"backoffLimit": 0, "template": template}}});
            vec![with("jobset.x-k8s.io/v1alpha2", kind, json!({"replicatedJobs": [job]}))]
        }
        "MPIJob" => {
            let replicas = json!({"Launcher": {"template": good("mpi")}, "Worker": {"replicas": 1, "template": template}});
            vec![with("kubeflow.org/v2beta1", kind, json!({"mpiReplicaSpecs": replicas}))]
        }
        "RayJob" => {
            let head = json!({"rayStartParams": {}, "template": good("head")});
            let group = json!({"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}, "template": template});
            let cluster = json!({"headGroupSpec": head, "workerGroupSpecs": [group]});
            vec![with("ray.io/v1", kind, json!({"entrypoint": "python x.py", "rayClusterSpec": cluster}))]
        }
        "TrainJob" => {
            rename(&mut template, "node");
            let step = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
            let job = json!({"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": template}}});
            let mut runtime = with(
                "trainer.kubeflow.org/v1alpha1",
                "TrainingRuntime",
                json!({"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}}),
            );
            runtime["metadata"]["labels"] = json!({"trainer.kubeflow.org/framework": "torch"});
            let reference = json!({"name": name, "kind": "TrainingRuntime"});
            vec![runtime, with("trainer.kubeflow.org/v1alpha1", kind, json!({"runtimeRef": reference}))]
        }
        _ => {
            let task = json!({"name": "w", "replicas": 1, "template": template});
            vec![with("batch.volcano.sh/v1alpha1", "Job", json!({"tasks": [task]}))]
        }
    }
}

/// Creates objects, waits for what becomes of their pods, and deletes them.
fn play(ensemble: &Ensemble, place: &Place<'_>, cases: &[Case]) -> Vec<Fate> {
    let mut fates: Vec<Option<Fate>> = cases.iter().map(|case| created(ensemble, place, case)).collect();
    let began = Instant::now();
    while fates.iter().any(Option::is_none) && began.elapsed() < LONG {
        sleep(Duration::from_millis(500));
        let list = |resource: &str| {
            let path = format!("/api/v1/namespaces/{}/{resource}", place.namespace);
            ensemble.api.send_as(ANYBODY, Method::GET, &path, &Value::Null).1
        };
        let (pods, events) = (list("pods"), list("events"));
        for (case, fate) in cases.iter().zip(&mut fates).filter(|(_, fate)| fate.is_none()) {
            *fate = seen(case, &pods, &events);
        }
    }
    for case in cases {
        for object in case.objects.iter().rev() {
            let path = format!(
                "{}/{}?propagationPolicy=Background&gracePeriodSeconds=0",
                list_of(&place.namespace, object),
                case.name
            );
            ensemble.api.send_as(ANYBODY, Method::DELETE, &path, &Value::Null);
        }
    }
    fates.into_iter().map(|fate| fate.unwrap_or(Fate::Unknown)).collect()
}

fn created(ensemble: &Ensemble, place: &Place<'_>, case: &Case) -> Option<Fate> {
    for object in &case.objects {
        let list = list_of(&place.namespace, object);
        let (status, answer) = ensemble.api.send_as(ANYBODY, Method::POST, &list, object);
        if status != 201 {
            let message = answer["message"].as_str().unwrap_or_default();
            return Some(Fate::RefusedFirst(message.chars().take(300).collect()));
        }
    }
    None
}

/// Returns what is seen of the pods of an object; nothing if that is nothing yet.
fn seen(case: &Case, pods: &Value, events: &Value) -> Option<Fate> {
    let is_of = |name: &str| {
        name == case.name || name.strip_prefix(&*case.name).is_some_and(|rest| rest.starts_with('-'))
    };
    let items = |list: &'_ Value| list["items"].as_array().cloned().unwrap_or_default();
    for event in items(events) {
        if !event["involvedObject"]["name"].as_str().is_some_and(is_of) {
            continue;
        }
        let message = event["message"].as_str().unwrap_or_default();
        // The training operator makes a Service of the ports.
        if message.contains("Service \"") {
            continue;
        }
        let text = || message.chars().take(400).collect();
        if message.contains("is invalid:")
            || message.contains("Invalid value")
            || message.contains("unable to parse")
            // A RuntimeClass without a name is looked for first.
            || message.contains("resource name may not be empty")
        {
            return Some(Fate::Invalid(text()));
        }
        if message.contains("forbidden") {
            return Some(Fate::Forbidden(text()));
        }
    }
    // Those with the good template do not count.
    let is_good = |name: &str| name.contains("-head") || name.contains("-launcher");
    let is_made = items(pods)
        .iter()
        .any(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| is_of(name) && !is_good(name)));
    is_made.then_some(Fate::Made)
}
