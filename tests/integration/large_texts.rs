//! What the linter says of texts in which there is more than it keeps.

use crate::support::place::{JOB, Place, code, json, stdout};
use jobgate::text::value::Value;

/// Returns the findings of a rule in a file: their messages and first lines.
fn found(text: &str, rule: &str) -> (i32, Vec<(String, u64)>) {
    let place = Place::with(&[("a.yaml", text)]);
    let output = place.run(&["lint", "--no-config", "--format", "json", "a.yaml"]);
    let report = json(&output);
    let of_rule = |finding: &&Value| finding["rule"] == *rule;
    let findings = report["findings"].as_array().unwrap().iter().filter(of_rule);
    let said = |finding: &Value| {
        (finding["message"].as_str().unwrap().to_owned(), finding["start"]["line"].as_u64().unwrap())
    };
    (code(&output), findings.map(said).collect())
}

#[test]
fn many_duplicate_keys_of_an_object_are_one_finding() {
    // A mapping of labels, in which each key but the last is dropped.
    let job = |count: usize| {
        JOB.replace("\nspec:\n", &format!("\n  labels:\n{}spec:\n", "    a: b\n".repeat(count)))
    };
    let (_, few) = found(&job(17), "duplicate-key");
    assert_eq!(few.len(), 16, "{few:?}");
    assert!(few.iter().all(|(message, _)| message == "duplicate key `a`: kubectl ignores this one"));
    let (_, many) = found(&job(1002), "duplicate-key");
    let first = few[0].1;
    let message = format!(
        "duplicate key `a`: kubectl ignores this one, and 1,000 more duplicate keys of this object, the last on line {}",
        first + 1000
    );
    assert_eq!(many, [(message, first)]);
    // Each object of a file has its own.
    let two = format!("{}---\n{}", job(3), job(18));
    assert_eq!(found(&two, "duplicate-key").1.len(), 3);
}

#[test]
fn many_documents_that_cannot_be_read_are_one_finding_beyond_some() {
    let (status, few) = found(&format!("{JOB}---\n{}", "a: @\n---\n".repeat(256)), "syntax");
    assert_eq!((status, few.len()), (1, 256));
    assert!(few.iter().all(|(message, _)| message == &few[0].0));
    let (status, many) = found(&format!("{JOB}---\n{}", "a: @\n---\n".repeat(5000)), "syntax");
    assert_eq!((status, many.len()), (1, 257));
    let (message, line) = &many[256];
    assert!(message.starts_with("4,744 documents cannot be read, the last one here: "), "{message}");
    let lines = u64::try_from(JOB.lines().count()).unwrap();
    assert_eq!(*line, lines + 2 * 5000);
}

#[test]
fn what_is_behind_too_many_findings_is_said_not_to_be_judged() {
    let too_many = "objects and findings, so from here on nothing was checked";
    // A violator is at the end, and the run fails without it.
    let item = "- {apiVersion: batch/v1, kind: Job}\n";
    for (head, unit) in
        [("apiVersion: v1\nkind: List\nitems:\n", item), ("", "apiVersion: batch/v1\nkind: Job\n---\n")]
    {
        let (status, few) = found(&format!("{head}{}", unit.repeat(1500)), "syntax");
        assert_eq!((status, few.len()), (0, 0));
        let text = format!("{head}{}", unit.repeat(12_000));
        let (status, many) = found(&text, "syntax");
        assert_eq!(status, 1);
        let [(message, line)] = many.as_slice() else { panic!("{many:?}") };
        assert!(message.contains(too_many), "{message}");
        let lines = u64::try_from(text.lines().count()).unwrap();
        assert!(*line > 1000 && *line < lines, "{line}");
        let place = Place::with(&[("a.yaml", &text)]);
        let output = place.run(&["lint", "--no-config", "--format", "concise", "a.yaml"]);
        assert!(stdout(&output).contains(&format!("a.yaml:{line}:")), "{}", stdout(&output));
    }
}

#[test]
fn a_file_of_honest_jobs_is_judged_to_its_end() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: b\n      restartPolicy: Never\n---\n";
    let (status, found) = found(&job.repeat((1 << 20) / job.len()), "deadline");
    assert_eq!((status, found.len()), (1, (1 << 20) / job.len()));
}
