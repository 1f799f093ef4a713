//! Holds defaults, validation and shapes to answers recorded from kube-apiserver.

mod shared;

use std::collections::BTreeSet;

use jobgate::api;
use jobgate::api::defaults::{defaulted, stored};
use jobgate::api::validate::{Cause, validate};
use jobgate::checks::{FIELD_TYPE, UNKNOWN_FIELD};
use jobgate::dry_run::{self, Question};
use jobgate::facts::NoFacts;
use jobgate::finding::Level;
use jobgate::policy::Policy;
use jobgate::rules::RULES;
use serde_json::{Value, json};

/// A field with the server's message, or without one where it names the field only.
type Said = BTreeSet<(String, Option<String>)>;

/// What Jobgate says: a refusal of the whole body before validation, or the causes of one.
enum Answer {
    Unreadable,
    Refused(Said),
    Accepted,
}

/// The validation of custom resources writes all paths with dots.
fn plain(path: &str) -> String {
    path.replace("pytorchReplicaSpecs[", "pytorchReplicaSpecs.").replace("limits[", "limits.").replace("].", ".").trim_end_matches(']').to_owned()
}

fn answer(object: &Value) -> Answer {
    let found = api::check(object);
    let custom = object["kind"] == "PyTorchJob";
    if found.iter().any(|finding| finding.rule == UNKNOWN_FIELD || finding.rule == FIELD_TYPE && !custom) {
        return Answer::Unreadable;
    }
    let said = |cause: Cause| if custom { (plain(&cause.path.to_string()), None) } else { (cause.path.to_string(), Some(cause.message)) };
    let mut said: Said = validate(&stored(object)).into_iter().map(said).collect();
    if custom {
        said.extend(found.iter().filter(|finding| finding.level == Level::Deny).map(|finding| (plain(&finding.path.to_string()), None)));
    }
    if said.is_empty() { Answer::Accepted } else { Answer::Refused(said) }
}

fn recorded(row: &Value) -> Said {
    let causes = row["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let custom = row["input"]["kind"] == "PyTorchJob";
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = causes.iter().map(|cause| (text(&cause["field"]), (!custom).then(|| text(&cause["message"]))));
    said.map(|(field, message)| (if custom { plain(&field) } else { field }, message)).filter(|(field, _)| field != "<nil>").collect()
}

fn trim(object: &mut Value, path: &str, keys: &[&str]) {
    if let Some(entries) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        entries.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Takes out what only a server can know.
fn without_server_parts(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let generated = object["metadata"].get("generateName").is_some();
    let manual = object["spec"]["manualSelector"] == true;
    trim(&mut object, "/metadata", &["creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"]);
    if generated {
        trim(&mut object, "/metadata", &["name"]);
    }
    if !manual {
        trim(&mut object, "/spec", &["selector"]);
    }
    const LABELS: [&str; 4] = ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let labels = format!("{metadata}/labels");
        trim(&mut object, &labels, &LABELS);
        if object.pointer(&labels) == Some(&json!({})) {
            trim(&mut object, metadata, &["labels"]);
        }
    }
    object
}

/// The whole dry run, with a policy that has no rules: what is left is the server.
#[test]
fn a_dry_run_ends_as_the_oracle_does() {
    let Some(rows) = shared::rows("oracles/apiserver.jsonl") else { return };
    let source = RULES.iter().map(|entry| format!("    {}: {{action: ignore}}\n", entry.rule.id)).collect::<String>();
    let source = format!("apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: none}}\nspec:\n  rules:\n{source}");
    let policy = Policy::parse(&source, "none").expect("a policy");
    let mut wrong = Vec::new();
    for row in &rows {
        let question = Question { object: &row["input"], old: None, namespace: "", strict: true, today: None };
        let answer = dry_run::answer(&policy, &NoFacts, &question);
        if answer.outcome.is_allowed() != (row["code"] == 201) {
            wrong.push(format!("{}: {} {:#?}", row["name"], answer.outcome.as_str(), answer.findings));
        }
        // Types and unknown fields are refused before validation, and named in a sentence only.
        let fields: Vec<String> = recorded(row).into_iter().map(|(field, _)| field).collect();
        let named: Vec<String> = answer.findings.iter().map(|finding| plain(&finding.path.to_string())).collect();
        let missing = fields.iter().filter(|field| !named.contains(&plain(field))).collect::<Vec<_>>();
        if row["code"] == 422 && !missing.is_empty() {
            wrong.push(format!("{}: names {named:?}, not {missing:?}", row["name"]));
        }
        if let Some(stored) = answer.admitted.filter(|_| row["input"]["kind"] != "PyTorchJob" && row["code"] == 201)
            && without_server_parts(&stored) != without_server_parts(&row["admitted"])
        {
            wrong.push(format!("{}: stores {stored}", row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn agrees_with_the_oracle() {
    let Some(rows) = shared::rows("oracles/apiserver.jsonl") else { return };
    assert!(rows.len() >= 90, "only {} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let (name, input) = (&row["name"], &row["input"]);
        match (row["code"].as_u64(), answer(input)) {
            (Some(201), Answer::Accepted) => {
                let (given, expected) = (without_server_parts(&defaulted(input)), without_server_parts(&row["admitted"]));
                if given != expected {
                    wrong.push(format!("{name}: stored as\n  {expected}, given\n  {given}"));
                }
            }
            (Some(400), Answer::Unreadable) => {}
            (Some(422), Answer::Refused(said)) if said == recorded(row) => {}
            (code, answer) => {
                let given = match answer {
                    Answer::Unreadable => "unreadable".to_owned(),
                    Answer::Refused(said) => format!("{said:#?}"),
                    Answer::Accepted => "accepted".to_owned(),
                };
                wrong.push(format!("{name}: code {code:?} {:#?}, given {given}", recorded(row)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
