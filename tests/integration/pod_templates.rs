//! The pods of every kind are validated as those of a Job: with the same words, at the place in the object.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jobgate::admission::dry_run::{self, Question};
use jobgate::judge::api;
use jobgate::judge::engine::{self, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Level;
use jobgate::judge::policy::Policy;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use crate::support::{evanphx, shared};

const RULE: &str = "pod-template-valid";

/// Returns what is said of the pods of an object: the level, the place, and the words behind it.
fn of_pods(object: &Value) -> Vec<(Level, String, String)> {
    let verdict = engine::evaluate(&Policy::default(), &NoFacts, &Request::from_file(object, None));
    let found = verdict.findings.into_iter().filter(|finding| *finding.rule == *RULE);
    found.map(|finding| (finding.level, finding.path.to_string(), words(&finding.message))).collect()
}

/// Returns the words of the API server in a message, behind whose they are and the place.
fn words(message: &str) -> String {
    let message = message.split("; ").next().unwrap_or_default();
    message.splitn(3, ": ").nth(2).unwrap_or_default().to_owned()
}

/// Returns what the API server says of an object.
fn of_server(object: &Value) -> BTreeSet<(String, String)> {
    let found = api::check(object);
    found.into_iter().map(|finding| (finding.path.to_string(), words(&finding.message))).collect()
}

fn job(template: &Value) -> Value {
    let mut template = template.clone();
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}})
}

/// Returns an object of a kind with a template.
fn in_kind(kind: &str, template: &Value) -> Value {
    match kind {
        "PyTorchJob" => {
            let worker = json!({"replicas": 2, "template": template.clone()});
            let spec = json!({"pytorchReplicaSpecs": {"Worker": worker}});
            json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
        }
        _ => {
            let mut template = template.clone();
            template["spec"]["restartPolicy"] = "Never".into();
            let jobs = json!([{"name": "a", "template": {"spec": {"template": template}}}]);
            let spec = json!({"replicatedJobs": jobs});
            json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
        }
    }
}

#[test]
fn each_fixture_is_refused_in_a_job_with_the_same_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/pod_template_valid");
    let mut cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("bad-") {
            continue;
        }
        let text = fs::read(&path).unwrap();
        let objects: Vec<Value> = yaml::documents(&text).map(|document| document.unwrap().value).collect();
        let template = &objects[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"];
        let of_job: BTreeSet<String> =
            of_server(&job(template)).into_iter().map(|(_, words)| words).collect();
        assert!(!of_job.is_empty(), "{name}: a Job is accepted");
        cases += 1;
        for object in &objects {
            let kind = object["kind"].as_str().unwrap();
            for (_, place, words) in of_pods(object) {
                assert!(of_job.contains(&words), "{name}: {kind}: {place}: {words:?} is none of {of_job:?}");
            }
        }
        // What the schema of the resource refuses is said of that.
        let said = of_pods(&objects[0]).len() + of_server(&objects[0]).len();
        assert!(said > 0, "{name}: nothing is said");
    }
    assert!(cases >= 100, "only {cases} cases");
}

/// Jobs that were sent to a real API server: what it says of their templates is said of a PyTorchJob and a JobSet with them.
#[test]
fn what_a_server_said_of_jobs_is_said_of_other_kinds() {
    let Some(rows) = shared::rows("oracles/crd-job.jsonl") else { return };
    let Some(bases) = shared::text("oracles/crd-bases.json") else { return };
    let bases: Value = serde_json::from_str(&bases).expect("the bases");
    let (mut refused, mut accepted, mut wrong) = (0, 0, Vec::new());
    for row in rows.iter().filter(|row| row["kind"] == "job" && row["op"] == "create") {
        let Ok(object) = evanphx::apply(&bases[row["base"].as_str().unwrap_or_default()], &row["patch"])
        else {
            continue;
        };
        let template = &object["spec"]["template"];
        if !template.is_object() || !template["spec"].is_object() {
            continue;
        }
        // A Job must say it; of the others, operators do.
        let mut template = template.clone();
        if let Some(spec) = template["spec"].as_object_mut() {
            spec.remove("restartPolicy");
        }
        let causes = row["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        const BELOW: &str = "spec.template.";
        let of_template = causes.iter().any(|cause| {
            let place = cause["field"].as_str().and_then(|place| place.strip_prefix(BELOW));
            // The labels of the Job, and its restarts.
            place.is_some_and(|place| !place.contains("restartPolicy") && !place.contains("labels"))
        });
        for kind in ["PyTorchJob", "JobSet"] {
            let object = in_kind(kind, &template);
            let found = of_pods(&object);
            let before = of_server(&object);
            if row["code"] == 201 {
                accepted += 1;
                let denied: Vec<_> = found.iter().filter(|(level, ..)| *level == Level::Deny).collect();
                if !denied.is_empty() {
                    wrong.push(format!("{} {kind}: accepted, and {denied:?}", row["name"]));
                }
                continue;
            }
            // What is not said of a Job itself either is no matter of kinds.
            if !of_template || of_server(&job(&template)).is_empty() {
                continue;
            }
            refused += 1;
            if found.is_empty() && before.is_empty() {
                wrong.push(format!("{} {kind}: not said: {}", row["name"], row["causes"]));
            }
        }
    }
    println!("{refused} refused objects, {accepted} accepted objects, {} are different", wrong.len());
    assert!(refused >= 100 && accepted >= 100, "{refused} refused and {accepted} accepted objects");
    assert!(wrong.is_empty(), "{} are different:\n{}", wrong.len(), wrong.join("\n"));
}

/// `/mutate` does without this rule: what is filled in refuses no pods.
#[test]
fn what_is_filled_in_refuses_no_pods() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let policy = Policy::default();
    let mut filled = 0;
    for folder in fs::read_dir(rules).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
            let text = fs::read(&path).unwrap();
            for object in yaml::documents(&text).filter_map(|document| Some(document.ok()?.value)) {
                let question =
                    Question { object: &object, old: None, namespace: "n", strict: false, today: None };
                let answer = dry_run::answer(&policy, &NoFacts, &question);
                let Some(admitted) = answer.admitted.filter(|_| !answer.patch.is_empty()) else { continue };
                filled += 1;
                let refused = |object: &Value| of_pods(object).into_iter().collect::<BTreeSet<_>>();
                assert_eq!(refused(&admitted), refused(&object), "{}", path.display());
            }
        }
    }
    assert!(filled >= 500, "only {filled} objects are filled in");
}
