//! Holds the metadata of custom resources, and of what is inside them, to answers recorded from kube-apiserver.

use jobgate::admission::dry_run::{self, Question};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::policy::Policy;
use jobgate::judge::rules::RuleSet;
use jobgate::kinds::Kind;
use jobgate::text::value::Value;

use crate::support::{evanphx, shared};

/// Rows that need what is not checked yet: the namespace that a request is for, rules of CEL on names, and the
/// schema of a TrainJob's patches.
const NOT_CHECKED: [&str; 7] = [
    "appwrapper/61",
    "rayjob/156",
    "trainjob/156",
    "trainjob/242",
    "trainjob/243",
    "trainjob/246",
    "trainjob/247",
];

/// The whole dry run of a new object, with a policy that has no rules: what is left is the server.
#[test]
fn metadata_of_custom_resources_is_refused_as_the_server_does() {
    let Some(rows) = shared::rows("oracles/crd.jsonl") else { return };
    let Some(bases) = shared::text("oracles/crd-bases.json") else { return };
    let bases: Value = serde_json::from_str(&bases).expect("the bases");
    let ignored: String =
        RuleSet::built_in().iter().map(|rule| format!("    {}: {{action: ignore}}\n", rule.id)).collect();
    let source = format!(
        "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: none}}\nspec:\n  rules:\n{ignored}"
    );
    let policy = Policy::parse(&source, "none").expect("a policy");
    let (mut judged, mut wrong) = (0, Vec::new());
    for row in &rows {
        let is_metadata =
            ["metadata", "template-metadata"].contains(&row["class"].as_str().unwrap_or_default());
        if !is_metadata
            || row["op"] != "create"
            || NOT_CHECKED.contains(&row["name"].as_str().unwrap_or_default())
        {
            continue;
        }
        let base = &bases[row["base"].as_str().unwrap_or_default()];
        let Ok(object) = evanphx::apply(base, &row["patch"]) else { continue };
        if Kind::from_object(&object).is_none() {
            continue;
        }
        let strict = row["validation"] == "Strict";
        let question = Question { object: &object, old: None, namespace: "", strict, today: None };
        let answer = dry_run::answer(&policy, &NoFacts, &question);
        if answer.outcome.as_str() == "not judged" {
            continue;
        }
        judged += 1;
        if answer.outcome.is_allowed() != (row["code"] == 201) {
            wrong.push(format!(
                "{}: {} {} {}",
                row["name"],
                row["code"],
                answer.outcome.as_str(),
                row["patch"]
            ));
        }
    }
    assert!(judged >= 300, "only {judged} rows");
    assert!(wrong.is_empty(), "{} of {judged} rows:\n{}", wrong.len(), wrong.join("\n"));
}
