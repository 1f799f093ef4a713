//! Holds defaults, validation and shapes to answers recorded from kube-apiserver.

use jobgate::admission::dry_run::{self, Question};
use jobgate::judge::api::defaults::defaulted;
use jobgate::judge::facts::NoFacts;
use jobgate::judge::policy::Policy;
use jobgate::judge::rules::RuleSet;
use jobgate::text::value::{Value, json};

use crate::support::refusals::{Answer, ours, plain, theirs};

fn trim(object: &mut Value, path: &str, keys: &[&str]) {
    if let Some(entries) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        entries.retain(|key, _| !keys.contains(&key));
    }
}

fn recorded(row: &Value) -> Answer {
    theirs(row["code"].as_u64().unwrap_or_default(), &row["causes"], row["input"]["kind"] == "PyTorchJob")
}

/// Takes out what only a server can know.
fn without_server_parts(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let generated = object["metadata"].get("generateName").is_some();
    let manual = object["spec"]["manualSelector"] == true;
    trim(
        &mut object,
        "/metadata",
        &["creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"],
    );
    if generated {
        trim(&mut object, "/metadata", &["name"]);
    }
    if !manual {
        trim(&mut object, "/spec", &["selector"]);
    }
    const LABELS: [&str; 4] =
        ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
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
    let Some(rows) = crate::support::shared::rows("oracles/apiserver.jsonl") else { return };
    let source = RuleSet::built_in()
        .iter()
        .map(|rule| format!("    {}: {{action: ignore}}\n", rule.id))
        .collect::<String>();
    let source = format!(
        "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: none}}\nspec:\n  rules:\n{source}"
    );
    let policy = Policy::parse(&source, "none").expect("a policy");
    let mut wrong = Vec::new();
    for row in &rows {
        let question =
            Question { object: &row["input"], old: None, namespace: "", strict: true, today: None };
        let answer = dry_run::answer(&policy, &NoFacts, &question);
        if answer.outcome.is_allowed() != (row["code"] == 201) {
            wrong.push(format!("{}: {} {:#?}", row["name"], answer.outcome.as_str(), answer.findings));
        }
        // Types and unknown fields are rejected before validation, and named in a sentence only.
        let fields: Vec<String> = match recorded(row) {
            Answer::Rejected(said) => said.into_iter().map(|(field, _)| field).collect(),
            Answer::Unreadable | Answer::Accepted => Vec::new(),
        };
        let named: Vec<String> =
            answer.findings.iter().map(|finding| plain(&finding.path.to_string())).collect();
        let missing = fields.iter().filter(|field| !named.contains(&plain(field))).collect::<Vec<_>>();
        if row["code"] == 422 && !missing.is_empty() {
            wrong.push(format!("{}: names {named:?}, not {missing:?}", row["name"]));
        }
        if let Some(stored) =
            answer.admitted.filter(|_| row["input"]["kind"] != "PyTorchJob" && row["code"] == 201)
            && without_server_parts(&stored) != without_server_parts(&row["admitted"])
        {
            wrong.push(format!("{}: stores {stored}", row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn agrees_with_the_oracle() {
    let Some(rows) = crate::support::shared::rows("oracles/apiserver.jsonl") else { return };
    assert!(rows.len() >= 90, "only {} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let (name, input) = (&row["name"], &row["input"]);
        let (given, expected) = (ours(input, None), recorded(row));
        if given != expected {
            wrong.push(format!("{name}: {expected:#?}, given {given:#?}"));
        } else if given == Answer::Accepted {
            let (given, expected) =
                (without_server_parts(&defaulted(input)), without_server_parts(&row["admitted"]));
            if given != expected {
                wrong.push(format!("{name}: stored as\n  {expected}, given\n  {given}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
