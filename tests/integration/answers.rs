//! The answers of the commit before: what is found in each manifest, what would be written into it, how it is fixed,
//! and what each review gets. `tests/golden/answers.txt` has a hash of them, so that a change of answers shows in
//! the commit that makes it. `.ci/compare OLD NEW` shows what has changed; `UPDATE=1` writes the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::shared;

/// The fixtures of the rules, and what is in the shared data.
const FIXTURES: &str = "tests/rules";
const CORPORA: [&str; 3] = ["corpus", "corpus-edge", "corpus-templated"];
const REVIEWS: [&str; 2] = ["reviews", "reviews-kinds"];
/// Keys of what people read; all else is the answer itself.
const WORDS: [&str; 4] = ["description", "help", "message", "warnings"];
/// How many lines that differ are shown.
const SHOWN: usize = 20;

/// Of one folder, or one review.
#[derive(Default)]
struct Answers {
    answers: Sha256,
    words: Sha256,
}

impl Answers {
    /// Adds a value: its words, and the rest.
    fn add(&mut self, value: &mut Value) {
        let mut words = Vec::new();
        take_words(value, &mut words);
        self.words.update(Value::Array(words).to_string());
        self.answers.update(value.to_string());
    }

    fn line(self, name: &str) -> String {
        let short = |hash: Sha256| {
            hash.finalize().iter().take(6).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        format!("{} {} {name}", short(self.answers), short(self.words))
    }
}

/// Moves the words out of a value, and drops the hash of the policy.
fn take_words(value: &mut Value, words: &mut Vec<Value>) {
    match value {
        Value::Object(fields) => {
            for key in WORDS {
                words.extend(fields.remove(key));
            }
            if let Some(annotations) = fields.get_mut("auditAnnotations").and_then(Value::as_object_mut) {
                annotations.remove("policy");
            }
            fields.values_mut().for_each(|field| take_words(field, words));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| take_words(item, words)),
        _ => {}
    }
}

/// Runs the program in a folder, with the policy that it has built in.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_jobgate")).args(arguments).current_dir(folder).output().unwrap();
    let code = output.status.code();
    assert!(matches!(code, Some(0..=2)), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the first folder of a path, or the file.
fn folder_of(file: &str) -> &str {
    file.trim_start_matches("./").split('/').next().unwrap_or_default()
}

/// Returns a line for each folder of manifests.
fn of_manifests(root: &Path, name: &str) -> Vec<String> {
    let mut all: BTreeMap<String, Answers> = BTreeMap::new();
    for command in ["lint", "dry-run"] {
        let out = run(root, &[command, "--no-config", "--format", "json", "."]);
        let mut report: Value = serde_json::from_str(&out).unwrap();
        for list in ["findings", "unjudged", "verdicts"] {
            for item in report[list].as_array_mut().into_iter().flatten() {
                let folder = folder_of(item["file"].as_str().unwrap()).to_owned();
                all.entry(folder).or_default().add(item);
            }
        }
    }
    for fix in ["--fix", "--unsafe-fixes"] {
        let diff = run(root, &["lint", "--no-config", "--diff", fix, "."]);
        let mut folder = String::new();
        for line in diff.lines() {
            if let Some(file) = line.strip_prefix("--- a/") {
                folder = folder_of(file).to_owned();
            }
            let of_folder = all.entry(folder.clone()).or_default();
            of_folder.answers.update(line);
        }
    }
    all.into_iter().map(|(folder, answers)| answers.line(&format!("{name}/{folder}"))).collect()
}

/// Returns a line for each review.
fn of_reviews(root: &Path, name: &str) -> Vec<String> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let file = file.file_name().unwrap().to_str().unwrap();
        for endpoint in ["mutate", "validate"] {
            if file.ends_with(&format!(".{endpoint}.json")) {
                let out = run(root, &["review", "--endpoint", endpoint, file]);
                let mut answers = Answers::default();
                answers.add(&mut serde_json::from_str(&out).unwrap());
                lines.push(answers.line(&format!("{name}/{file}")));
            }
        }
    }
    lines
}

#[test]
fn answers_are_those_of_the_commit_before() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lines = of_manifests(&repository.join(FIXTURES), FIXTURES);
    assert!(lines.len() > 25, "each rule has a folder");
    let mut has_all = true;
    for (names, of) in [
        (&CORPORA[..], of_manifests as fn(&Path, &str) -> Vec<String>),
        (&REVIEWS[..], of_reviews as fn(&Path, &str) -> Vec<String>),
    ] {
        for name in names {
            match shared::path(name) {
                Some(root) => lines.extend(of(&root, name)),
                None => has_all = false,
            }
        }
    }
    let golden = repository.join("tests/golden/answers.txt");
    let before = std::fs::read_to_string(&golden).unwrap_or_default();
    let is_here = |line: &&str| has_all || line.contains(FIXTURES);
    let before: Vec<&str> = before.lines().filter(is_here).collect();
    if std::env::var_os("UPDATE").is_some() {
        assert!(has_all, "there is no shared data to write the answers of");
        std::fs::write(golden, lines.join("\n") + "\n").unwrap();
        return;
    }
    let now: Vec<&str> = lines.iter().map(String::as_str).collect();
    let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("- {line}"));
    let come = now.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    let mut changed: Vec<String> = gone.chain(come).collect();
    let count = changed.len();
    changed.sort_by(|one, other| one[2..].rsplit(' ').next().cmp(&other[2..].rsplit(' ').next()));
    changed.truncate(SHOWN);
    assert!(
        changed.is_empty(),
        "{count} lines of tests/golden/answers.txt differ; `.ci/compare OLD NEW` shows how:\n{}",
        changed.join("\n")
    );
}
