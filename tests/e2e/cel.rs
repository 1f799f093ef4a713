//! The rule `deadline` as a policy that the API server judges by itself says of every fixture what Jobgate says.

use std::path::Path;
use std::time::Duration;

use jobgate::engine::{self, Request};
use jobgate::facts::NoFacts;
use jobgate::finding::Level;
use jobgate::policy::Policy;
use serde_json::{Value, json};

use crate::manifests::endless;
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] =
    &[Scenario::new("deadline_in_the_api_server_agrees_with_the_rule", agrees).ungated().needs(Needs::PyTorchJobs)];

const DENIED: &str = "ValidatingAdmissionPolicy 'jobgate-deadline'";

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).expect("read a manifest");
    jobgate::yaml::documents(&text).map(|document| document.expect("YAML").value).collect()
}

fn agrees(place: &Place<'_>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut objects = documents(&root.join("deploy/components/deadline-in-the-api-server/policy.yaml"));
    // Other scenarios run beside this one.
    let only = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [place.namespace]});
    objects[1]["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"].as_array_mut().expect("expressions").push(only);
    let all = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    place.cluster.admin.run(&["apply", "--validate=strict", "-f", "-"], &all).quiet();
    let in_force = || if place.dry_run(&endless("probe")).stderr.contains(DENIED) { Ok(()) } else { Err("not in force yet".to_owned()) };
    eventually(Duration::from_secs(30), in_force).expect("the policy is judged by");

    let (mut denied, mut admitted) = (0, 0);
    let mut files: Vec<_> =
        std::fs::read_dir(root.join("tests/rules/deadline")).expect("fixtures").map(|entry| entry.expect("a fixture").path()).collect();
    files.sort();
    for file in files {
        for mut object in documents(&file) {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("namespace");
            }
            let verdict = engine::evaluate(&Policy::default(), &NoFacts, &Request::of_file(&object, None));
            let ours = verdict.findings.iter().any(|finding| finding.rule == "deadline" && finding.level == Level::Deny);
            let said = place.dry_run(&object);
            let theirs = said.stderr.contains(DENIED);
            // Of what the server refuses anyway, and of kinds it does not serve, it asks no policy.
            if said.success || theirs {
                assert_eq!(theirs, ours, "{}: {said}", file.display());
                denied += usize::from(theirs);
                admitted += usize::from(!theirs);
            }
        }
    }
    assert!(denied >= 5 && admitted >= 5, "{denied} denied and {admitted} admitted");

    let child =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "00000000-0000-4000-8000-000000000000", "controller": true}]);
    let mut run = endless("run");
    run["metadata"]["ownerReferences"] = child;
    place.dry_run(&run).ok();
    place.cluster.admin.run(&["delete", "-f", "-"], &all).ok();
}
