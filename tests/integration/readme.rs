//! The samples of the documentation are what the program prints.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::place::{JOB, Place, code, good, stdout};

/// Stands for any lines that a sample leaves out.
const OMITTED: &str = "…";

fn page(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Runs the samples of a page, each in its place, and compares what is printed. With UPDATE it is written into
/// the page.
fn compare(name: &str, place: impl Fn() -> Place, place_of_all: Option<&Place>) {
    let (path, text) = page(name);
    let consoles = blocks(&text, "console");
    let samples: Vec<(&str, &str)> = consoles
        .iter()
        .flat_map(|console| console.split("$ ").skip(1))
        .filter_map(|sample| sample.strip_prefix("jobgate ")?.split_once('\n'))
        .collect();
    assert!(samples.len() >= 3, "{samples:?}");
    let mut updated = text.clone();
    for (command, expected) in samples {
        let own;
        let place = match place_of_all {
            Some(place) => place,
            None => {
                own = place();
                &own
            }
        };
        let arguments: Vec<String> = command.split(' ').map(|word| word.replace('\'', "")).collect();
        let output = place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let printed = stdout(&output);
        if std::env::var_os("UPDATE").is_some() && !expected.contains(OMITTED) {
            updated = updated.replace(expected, printed);
            continue;
        }
        let mut rest = printed;
        for (nth, piece) in expected.split(&format!("{OMITTED}\n")).enumerate() {
            let at = rest.find(piece).unwrap_or_else(|| panic!("`jobgate {command}` prints:\n{printed}"));
            assert!(nth > 0 || at == 0, "`jobgate {command}` begins with other lines:\n{printed}");
            rest = &rest[at + piece.len()..];
        }
        assert!(
            rest.is_empty() || expected.ends_with(&format!("{OMITTED}\n")),
            "`jobgate {command}` prints more"
        );
    }
    if updated != text {
        fs::write(&path, updated).unwrap();
    }
}

#[test]
fn samples_of_the_readme_are_what_the_program_prints() {
    let (_, readme) = page("README.md");
    let train = blocks(&readme, "yaml")[0];
    compare("README.md", || Place::with(&[("train.yaml", train)]), None);
}

/// What the samples of docs/configuration.md and docs/ci.md are about.
fn repository() -> Place {
    let warns =
        good().replace("metadata:\n", "metadata:\n  annotations: {jobgate.dev/ignore: no-such-rule}\n");
    Place::with(&[
        ("k8s/train.yaml", JOB),
        ("k8s/other.yaml", &warns.replace("train\n", "other\n")),
        (".git/HEAD", ""),
    ])
}

#[test]
fn samples_of_the_configuration_are_what_the_program_prints() {
    let place = repository();
    compare("docs/configuration.md", repository, Some(&place));
    // The sample file is one that is read.
    let (_, text) = page("docs/configuration.md");
    let place = repository();
    let empty = "{\"version\":1,\"findings\":[\n]}\n";
    let files =
        [("jobgate.yaml", blocks(&text, "yaml")[0]), ("pvc.yaml", ""), (".jobgate-baseline.json", empty)];
    for (name, text) in files {
        fs::write(place.path().join(name), text).unwrap();
    }
    let output = place.run(&["lint"]);
    assert!(stdout(&output).contains("configuration: jobgate.yaml"), "{output:?}");
    assert_eq!(code(&output), 1);
}

#[test]
fn samples_of_the_page_on_tests_of_a_policy_are_what_the_program_prints() {
    let (_, text) = page("docs/policy-test.md");
    let place = Place::with(&[
        ("policy.yaml", super::policy_test::POLICY),
        ("cases/week.yaml", blocks(&text, "yaml")[0]),
    ]);
    compare("docs/policy-test.md", || unreachable!("one place is for all"), Some(&place));
}

/// Whoever asks for well-made jobs should have one.
#[test]
fn the_sample_that_publishes_audits_has_no_findings() {
    let (_, text) = page("docs/audit.md");
    let [job] = blocks(&text, "yaml")[..] else { panic!("one sample") };
    let place = Place::with(&[("audit.yaml", job)]);
    let output = place.run(&["lint", "--no-config", "--policy", "strict", "--fail-on", "note", "audit.yaml"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
}

#[test]
fn commands_of_the_page_on_ci_run() {
    let (_, text) = page("docs/ci.md");
    let lines = text.lines().map(|line| line.trim().trim_start_matches("- run: ").trim_start_matches("- "));
    let commands: Vec<&str> =
        lines.filter_map(|line| line.trim_start_matches(".jobgate/bin/").strip_prefix("jobgate ")).collect();
    assert!(commands.len() >= 9, "{commands:?}");
    let place = repository();
    fs::write(place.path().join("rendered.yaml"), JOB).unwrap();
    fs::write(place.path().join(".jobgate-baseline.json"), "{\"version\":1,\"findings\":[\n]}\n").unwrap();
    for command in commands {
        // A redirection is the shell's.
        let command = command.split(" >").next().unwrap_or(command);
        let arguments: Vec<String> = command.split(' ').map(|word| word.replace('\'', "")).collect();
        let output = place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(code(&output) < 2, "`jobgate {command}`: {output:?}");
    }
}
