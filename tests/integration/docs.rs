//! Every page: its commands run and print what it says, its files are read, and its links lead somewhere.
//!
//! The test finds the pages by itself, so a new one is checked as well. `UPDATE=1` writes the output of
//! samples that leave nothing out.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

mod desk;
mod page;
mod programs;

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use clap::error::ErrorKind;
use jobgate::judge::policy::Policy;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use self::desk::{Call, Desk};
use self::page::{Page, pages, root};
use crate::support::place::{JOB, Place, good, stderr, stdout};

/// In a sample: any lines that it leaves out.
const OMITTED: &str = "…";

/// Samples whose output is not compared, and why. What the API server prints of Jobgate's answers is.
const NOT_COMPARED: &[(&str, &str, &str)] = &[
    ("docs/audit.md", "jobgate audit", "needs a cluster"),
    (
        "docs/rendering.md",
        "jobgate lint",
        "needs a tool that renders; tests/integration/rendering.rs has one",
    ),
    (
        "docs/doctor.md",
        "jobgate doctor",
        "needs a broken cluster; tests/e2e/doctor.rs breaks one in these ways",
    ),
];

/// A directory as in the samples of most pages: one finding that denies, and one that warns.
fn manifests() -> Vec<(&'static str, String)> {
    let warns =
        good().replace("metadata:\n", "metadata:\n  annotations: {jobgate.dev/ignore: no-such-rule}\n");
    vec![
        ("k8s/train.yaml", JOB.to_owned()),
        ("k8s/other.yaml", warns.replace("train\n", "other\n")),
        (".git/HEAD", String::new()),
    ]
}

const POLICY: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec: {}\n";

/// A job that lacks a deadline and a TTL.
const JOB_WITHOUT_TTL: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example.com/train:v1
";

/// An object of a kind that is not judged.
const WORKFLOW: &str =
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: sweep}\nspec: {}\n";

/// The chart of docs/dry-run.md, rendered.
const RENDERED: &str = "\
---
# Source: chart/templates/train.yaml
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team-a
spec:
  activeDeadlineSeconds: 3600
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example.com/train:v1
---
# Source: chart/templates/nightly.yaml
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
spec:
  schedule: \"0 2 * * *\"
  activeDeadlineSeconds: 600
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: nightly
            image: registry.example.com/train:v1
";

/// Policies on pages that are there to show what is wrong with them.
const WRONG: &[&str] = &["wrong.yaml"];

/// Makes the place of a page, with what its commands need and it does not show.
fn desk(page: &Page) -> Desk {
    let manifests = manifests();
    let mut files: Vec<(&str, &str)> = manifests.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let review;
    match page.name.as_str() {
        "docs/ci.md" => files.push(("main.yaml", RENDERED)),
        // The case is the first sample of the page.
        "docs/policy-test.md" => files.extend([
            ("policy.yaml", crate::policy_test::POLICY),
            (
                "cases/week.yaml",
                page.blocks.iter().find(|block| block.language == "yaml").unwrap().text.as_str(),
            ),
        ]),
        "docs/formats.md" => {
            files.extend([("jobs/train.yaml", JOB_WITHOUT_TTL), ("jobs/sweep.yaml", WORKFLOW)]);
        }
        "docs/operate.md" => {
            review = admission_review(&yaml::documents(JOB.as_bytes()).next().unwrap().unwrap().value);
            files.extend([
                ("ours.yaml", POLICY),
                ("policy.yaml", POLICY),
                ("review.json", review.as_str()),
                ("job.yaml", JOB),
            ]);
        }
        _ => {}
    }
    Desk::new(page, &files, &[("helm", RENDERED), ("kustomize", RENDERED)])
}

fn admission_review(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap();
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let mut object = object.clone();
    if object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("default");
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": object["metadata"]["namespace"],
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
            "userInfo": {"username": "somebody"}, "object": object,
        },
    });
    serde_json::to_string(&review).unwrap()
}

/// Checks what a script called, and that nothing else went wrong.
fn check(page: &Page, desk: &Desk, script: &str, output: &Output, calls: &[Call]) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in calls {
        let mut complain = |what: String| {
            wrong.push(format!("{}: `{}`: {what}", page.name, call.words.join(" ")));
        };
        if call.words[0] != "jobgate" {
            programs::check(&call.words, desk.path()).unwrap_or_else(complain);
            continue;
        }
        if let Err(error) = programs::parses(&call.words) {
            complain(error.to_string());
        } else if let Some((code, said)) = &call.end
            && !(0..=1).contains(code)
        {
            complain(format!("ended with {code}: {said}"));
        }
    }
    // What bash itself says: a program that is not there, a mistake in the script.
    let said = stderr(output).lines().filter(|line| line.starts_with("/bin/bash: ")).map(str::to_owned);
    let nothing = calls.is_empty().then(|| "calls no program".to_owned());
    wrong.extend(said.chain(nothing).map(|what| format!("{}: {what} in\n{script}", page.name)));
    wrong
}

/// Returns the commands in the YAML of a pipeline of CI.
fn steps(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let command = line.strip_prefix("- run: ").or_else(|| line.strip_prefix("run: ")).or_else(|| {
            line.strip_prefix("- ").filter(|rest| !rest.contains(": ") && !rest.ends_with(':'))
        })?;
        let programs = ["jobgate ", ".jobgate/bin/jobgate ", "test ", "helm ", "kustomize ", "cargo ", "gh "];
        // The program is there, so that what installs it would not run.
        let install = command.strip_prefix("test ").and_then(|test| Some(test.split_once(" || ")?.1));
        programs.iter().any(|program| command.starts_with(program)).then(|| install.unwrap_or(command))
    })
}

/// Compares what a command printed with a sample; returns the updated sample if it is to be written.
fn compare(expected: &str, printed: &str) -> Result<(), String> {
    let mut rest = printed;
    for (nth, piece) in expected.split(&format!("{OMITTED}\n")).enumerate() {
        let at = rest.find(piece).ok_or_else(|| format!("prints\n{printed}and not\n{piece}"))?;
        if nth == 0 && at > 0 {
            return Err(format!("begins with other lines:\n{printed}"));
        }
        rest = &rest[at + piece.len()..];
    }
    if rest.is_empty() || expected.ends_with(&format!("{OMITTED}\n")) {
        Ok(())
    } else {
        Err(format!("prints more:\n{rest}"))
    }
}

/// Checks what kubectl is said to print of the webhook's answers, under one of the built-in policies.
fn compare_answers(page: &Page, script: &str, expected: &str) -> Result<(), String> {
    let denied = "denied the request: ";
    let claimed: Vec<&str> = expected.lines().filter_map(|line| line.strip_prefix("Warning: ")).collect();
    let denial = expected.split_once(denied).map(|(_, message)| message.trim_end());
    if claimed.is_empty() && denial.is_none() {
        return Ok(());
    }
    let file = script.split_once("-f ").ok_or("names no file")?.1.split_whitespace().next().unwrap();
    // As the page shows it: other commands may have fixed it.
    let (_, text) = page.files().find(|(name, _)| *name == file).ok_or("shows no such file")?;
    let place =
        Place::with(&[("facts.yaml", &text.replace("metadata: {", "metadata: {namespace: default, "))]);
    let (mut warnings, mut denials) = (BTreeSet::new(), BTreeSet::new());
    for document in yaml::documents(text.as_bytes()) {
        let value = document.unwrap().value;
        if value["kind"] == json!("PersistentVolumeClaim") {
            continue;
        }
        fs::write(place.path().join("review.json"), admission_review(&value)).unwrap();
        // With the API server's defaults and without: a page may show either.
        fs::write(place.path().join("one.json"), value.to_string()).unwrap();
        let sent = place.run(&["review", "--from", "one.json", "-n", "default"]).stdout;
        fs::write(place.path().join("sent.json"), sent).unwrap();
        for policy in ["default", "audit", "strict"] {
            for endpoint in ["mutate", "validate"] {
                for input in ["review.json", "sent.json"] {
                    let arguments = ["review", "--endpoint", endpoint, "--policy", policy];
                    let output = place.run(&[&arguments[..], &["--facts", "facts.yaml", input]].concat());
                    let answer: Value = serde_json::from_slice(&output.stdout)
                        .map_err(|error| format!("{error}: {}", stderr(&output)))?;
                    let response = &answer["response"];
                    for warning in response.get("warnings").and_then(Value::as_array).into_iter().flatten() {
                        warnings.insert(warning.as_str().unwrap().to_owned());
                    }
                    let message = response.pointer("/status/message").and_then(Value::as_str);
                    denials.extend(message.map(str::to_owned));
                }
            }
        }
    }
    if let Some(warning) = claimed.iter().find(|warning| !warnings.contains(**warning)) {
        return Err(format!("does not warn `{warning}`, but {warnings:#?}"));
    }
    match denial {
        Some(message) if !denials.contains(message) => {
            Err(format!("is not denied with {message}, but {denials:#?}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn commands_run_and_print_what_their_page_says() {
    let mut wrong = Vec::new();
    let (mut samples, mut not_compared) = (0, BTreeSet::new());
    let pages = pages();
    assert!(pages.len() > 50, "{} pages", pages.len());
    for page in &pages {
        let commands =
            page.blocks.iter().filter(|block| ["console", "sh", "yaml"].contains(&block.language.as_str()));
        if commands.count() == 0 {
            continue;
        }
        let desk = desk(page);
        let mut updated = page.text.clone();
        for block in &page.blocks {
            match block.language.as_str() {
                "sh" => {
                    let (output, calls) = desk.run(&block.text);
                    wrong.extend(check(page, &desk, &block.text, &output, &calls));
                }
                "yaml" => {
                    for step in steps(&block.text) {
                        let (output, calls) = desk.run(step);
                        wrong.extend(check(page, &desk, step, &output, &calls));
                    }
                }
                "console" => {
                    assert!(block.text.starts_with("$ "), "{}: a sample starts with a command", page.name);
                    for sample in block.text.split("$ ").skip(1) {
                        samples += 1;
                        let (script, expected) = sample.split_once('\n').unwrap_or((sample, ""));
                        let (output, calls) = desk.run(script);
                        wrong.extend(check(page, &desk, script, &output, &calls));
                        let is_run = calls.iter().any(|call| call.end.is_some());
                        let listed = NOT_COMPARED
                            .iter()
                            .position(|(of, command, _)| *of == page.name && *command == script);
                        let compared = if let Some(listed) = listed {
                            not_compared.insert(listed);
                            Ok(())
                        } else if !is_run {
                            compare_answers(page, script, expected)
                        } else if std::env::var_os("UPDATE").is_some() && !expected.contains(OMITTED) {
                            updated = updated
                                .replace(&format!("$ {sample}"), &format!("$ {script}\n{}", stdout(&output)));
                            Ok(())
                        } else {
                            compare(expected, stdout(&output))
                        };
                        if let Err(what) = compared {
                            wrong.push(format!("{}: `{script}` {what}", page.name));
                        }
                    }
                }
                _ => {}
            }
        }
        if updated != page.text {
            fs::write(root().join(&page.name), updated).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(samples >= 20, "{samples} samples");
    assert_eq!(not_compared.len(), NOT_COMPARED.len(), "some of them are on no page");
}

/// A sentence may name a command without its arguments, or with placeholders in their place.
#[test]
fn commands_in_sentences_exist() {
    let mut wrong = Vec::new();
    let mut checked = BTreeSet::new();
    for page in pages() {
        let place = Place::with(&[]);
        for command in page.code.iter().flat_map(|code| code.split(" | ")) {
            let words: Vec<String> =
                command.split([' ', '\n']).map(|word| word.replace(['"', '\''], "")).collect();
            // The name of a program alone is none.
            if words.len() < 2 || !["jobgate", "kubectl"].contains(&words[0].as_str()) {
                continue;
            }
            if !checked.insert(command.to_owned()) {
                continue;
            }
            let complaint = if words[0] == "kubectl" {
                programs::check(&words, place.path()).err().filter(|what| what.contains("unknown "))
            } else {
                programs::parses(&words)
                    .err()
                    .filter(|error| is_in_what_is_given(error, command))
                    .map(|error| error.to_string())
            };
            wrong.extend(complaint.map(|what| format!("{}: `{command}`: {what}", page.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked.len() > 30, "{checked:?}");
}

/// Tells whether an error is not only that something is left out.
fn is_in_what_is_given(error: &clap::Error, command: &str) -> bool {
    // Quotes around several words are left to a shell.
    let is_quoted = command.contains('"');
    let is_left_out = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_placeholder = command.contains(OMITTED) && error.kind() == ErrorKind::InvalidValue;
    !is_quoted && !is_left_out && !is_placeholder
}

/// Policies and configurations on a page are valid, whole or not.
#[test]
fn policies_on_pages_are_valid() {
    let mut count = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "yaml") {
            let is_wrong = block.file.as_deref().is_some_and(|file| WRONG.contains(&file));
            if !is_wrong
                && block.text.contains("apiVersion: jobgate.dev/")
                && block.text.contains("kind: Policy")
            {
                count += 1;
                Policy::parse(&block.text, &page.name)
                    .unwrap_or_else(|errors| panic!("{}: {errors}", page.name));
            }
        }
    }
    assert!(count >= 3, "{count} policies");
}

/// Whoever asks for well-made jobs should have one.
#[test]
fn the_sample_that_publishes_audits_has_no_findings() {
    let pages = pages();
    let page = pages.iter().find(|page| page.name == "docs/audit.md").unwrap();
    let mut samples = page.blocks.iter().filter(|block| block.language == "yaml");
    let (Some(job), None) = (samples.next(), samples.next()) else { panic!("one sample") };
    let place = Place::with(&[("audit.yaml", &job.text)]);
    let output = place.run(&["lint", "--no-config", "--policy", "strict", "--fail-on", "note", "audit.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// No block escapes the test by its language.
#[test]
fn commands_are_marked_as_such() {
    for page in pages() {
        for block in &page.blocks {
            let (language, text) = (block.language.as_str(), &block.text);
            assert!(
                ["console", "elisp", "json", "lua", "sh", "text", "toml", "yaml"].contains(&language),
                "{}: a block of the language `{language}`: use sh or console for commands",
                page.name
            );
            let is_command =
                |line: &str| ["$ ", "jobgate ", "kubectl "].iter().any(|begin| line.starts_with(begin));
            assert!(
                language != "text" || !text.lines().any(is_command),
                "{}: commands in a block of text:\n{text}",
                page.name
            );
        }
    }
}

#[test]
fn pictures_are_small_and_shown() {
    let pages = pages();
    let shown: BTreeSet<&str> =
        pages.iter().flat_map(|page| &page.links).filter_map(|link| link.rsplit('/').next()).collect();
    let mut count = 0;
    for entry in fs::read_dir(root().join("docs/images")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "png") {
            continue;
        }
        count += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(shown.contains(name), "{name} is on no page");
        assert!(fs::metadata(&path).unwrap().len() <= 150_000, "{name} is large; see .ci/screenshots");
    }
    assert_eq!(count, 5);
}

/// The sample of docs/configuration.md is one that is read.
#[test]
fn the_configuration_on_its_page_is_read() {
    let pages = pages();
    let page = pages.iter().find(|page| page.name == "docs/configuration.md").unwrap();
    let sample = page.blocks.iter().find(|block| block.language == "yaml").unwrap();
    let manifests = manifests();
    let mut files: Vec<(&str, &str)> = manifests.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let empty = "{\"version\":1,\"findings\":[\n]}\n";
    files.extend([
        ("jobgate.yaml", sample.text.as_str()),
        ("pvc.yaml", ""),
        (".jobgate-baseline.json", empty),
    ]);
    let output = Place::with(&files).run(&["lint"]);
    assert!(stdout(&output).contains("configuration: jobgate.yaml"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    let mut followed = 0;
    for page in &pages {
        let folder = root().join(&page.name).parent().unwrap().to_owned();
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            followed += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&page.name) } else { folder.join(path) };
            let Ok(target) = target.canonicalize() else {
                wrong.push(format!("{}: {link} does not exist", page.name));
                continue;
            };
            let name = target.strip_prefix(root()).map(|path| path.to_str().unwrap().to_owned());
            let to = pages.iter().find(|page| name.as_deref() == Ok(&page.name));
            if !anchor.is_empty() && !to.is_some_and(|to| to.anchors.iter().any(|one| one == anchor)) {
                wrong.push(format!("{}: {link} has no such heading", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 150, "{followed} links");
}

/// Comments in the code cite a page of `docs/internals/` and a heading, and no page that is not here.
#[test]
fn citations_lead_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    let mut followed = 0;
    let folders = ["src", "crates", "xtask", "tests", "benches", "fuzz/laws", "fuzz/fuzz_targets"];
    for path in folders.iter().flat_map(|folder| sources(&root().join(folder))) {
        let source = fs::read_to_string(&path).unwrap();
        let place = || path.strip_prefix(root()).unwrap().display().to_string();
        for (at, _) in source.match_indices("docs/internals/") {
            let is_in_link = |char: char| char.is_ascii_alphanumeric() || "/.#-".contains(char);
            let link = source[at..].split(|char| !is_in_link(char)).next().unwrap_or_default();
            // A sentence may end behind it.
            let link = link.trim_end_matches('.');
            let Some((name, anchor)) = link.split_once('#') else { continue };
            followed += 1;
            let page = pages.iter().find(|page| page.name == name);
            if !page.is_some_and(|page| page.anchors.iter().any(|one| one == anchor)) {
                wrong.push(format!("{}: {link} is no heading", place()));
            }
        }
        let cites = |line: &&str| line.trim_start().starts_with("//") && line.contains(".md §");
        wrong.extend(source.lines().filter(cites).map(|line| format!("{}: {}", place(), line.trim())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 50, "{followed} citations");
}

/// Returns the Rust files of a folder.
fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

/// Readers find every page: docs/README.md lists all of docs and of its topics.
#[test]
fn the_index_lists_every_page() {
    let pages = pages();
    let index = pages.iter().find(|page| page.name == "docs/README.md").unwrap();
    for page in &pages {
        let Some(name) = page.name.strip_prefix("docs/").filter(|name| *name != "README.md") else {
            continue;
        };
        if !name.starts_with("rules/") || name == "rules/README.md" {
            assert!(index.links.iter().any(|link| link == name), "docs/README.md does not name {name}");
        }
    }
}
