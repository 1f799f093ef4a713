//! Problems of many items of one list, which are one finding. The files in `tests/golden/many` beside the
//! manifests were made by version 0.1 (98487a0), which had a finding for each item; two keys of the summary are newer.

use std::path::Path;

use crate::support::place::{Place, code, json, stderr, stdout};

/// Returns a file of `tests/golden/many`.
fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/many").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn sixteen_items_are_reported_as_ever() {
    let place = Place::with(&[("few.json", &golden("few.json"))]);
    for format in ["concise", "json"] {
        let output = place.run(&["lint", "--no-config", "few.json", "--format", format]);
        assert_eq!(stdout(&output), golden(&format!("few.{format}.txt")), "{format}");
    }
}

#[test]
fn more_items_are_one_finding_with_the_first_and_the_last() {
    let place = Place::with(&[("many.json", &golden("many.json")), ("roles.json", &golden("roles.json"))]);
    let output = place.run(&["lint", "--no-config", "many.json", "--format", "json"]);
    let report = json(&output);
    let findings = report["findings"].as_array().unwrap();
    let missing = |field: &str| {
        let path = format!("spec.template.spec.containers[0].{field}");
        findings.iter().find(|finding| finding["path"].as_str() == Some(&path)).unwrap()
    };
    let (name, image) = (missing("name"), missing("image"));
    assert_eq!(
        image["message"].as_str(),
        Some(
            "spec.template.spec.containers[0].image to spec.template.spec.containers[38].image (20 items): \
             the API server rejects this: Required value"
        )
    );
    assert_eq!(image["items"]["count"].as_i64(), Some(20));
    assert_eq!(image["items"]["last"]["path"].as_str(), Some("spec.template.spec.containers[38].image"));
    // Every other container has a name; what lacks nothing else may be in the rest of the object.
    assert_eq!(name["items"]["count"].as_i64(), Some(20));
    assert_eq!(name["items"]["last"]["path"].as_str(), Some("spec.template.spec.containers[38].name"));
    let last = name["related"].as_array().unwrap().last().unwrap();
    assert_eq!(last["message"].as_str(), Some("the last of 20"));
    // Entries of a mapping are items, too.
    let output = place.run(&["lint", "--no-config", "roles.json", "--format", "concise"]);
    let text = stdout(&output);
    let containers = |role: &str| format!("spec.pytorchReplicaSpecs[{role}].template.spec.containers");
    let folded = format!("{} to {} (30 items): ", containers("R0"), containers("R9"));
    assert_eq!(text.matches("Required value").count(), 1, "{text}");
    assert!(text.contains(&folded), "{text}");
    // What names each role says something else of each.
    assert_eq!(text.matches("Unsupported value: \"R").count(), 30, "{text}");
}

#[test]
fn a_baseline_with_an_entry_for_each_item_holds_for_all_of_them() {
    let files = ["many.json", "set.json", "roles.json", "few.json"];
    let contents = files.map(golden);
    let mut written: Vec<(&str, &str)> =
        files.iter().copied().zip(contents.iter().map(String::as_str)).collect();
    let baseline = golden("baseline-0.1.json");
    written.push(("baseline.json", &baseline));
    let place = Place::with(&written);
    let lint = |baseline: &str| {
        let arguments = ["lint", "--no-config", "--format", "json", "--baseline", baseline];
        place.run(&[&arguments[..], &files].concat())
    };
    let output = lint("baseline.json");
    let report = json(&output);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0), "{}", stdout(&output));
    assert_eq!(report["summary"]["resolved"].as_i64(), Some(0));
    // Without the entry of one item, the finding is there again.
    let without: Vec<&str> = baseline
        .lines()
        .filter(|line| !line.contains("\"spec.template.spec.containers[20].image\""))
        .collect();
    assert!(without.len() < baseline.lines().count());
    std::fs::write(place.path().join("less.json"), without.join("\n")).unwrap();
    let report = json(&lint("less.json"));
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report}");
    // One that is written now says the same.
    let write = ["lint", "--no-config", "--write-baseline", "new.json"];
    let output = place.run(&[&write[..], &files].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&lint("new.json"));
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0), "{report}");
    assert_eq!(report["summary"]["resolved"].as_i64(), Some(0));
}
