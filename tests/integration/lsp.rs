//! `jobgate lsp`, spoken to as an editor does.

mod client;
mod editors;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::place::{JOB, Place, good, json as parsed, stdout};
use client::{Client, applied, codes};
use serde_json::{Value, json};

/// A job with a claim, which is in another file.
fn with_claim() -> String {
    good()
        + "          volumeMounts:\n            - {name: data, mountPath: /data}\n      volumes:\n        - name: data\n          persistentVolumeClaim:\n            claimName: data\n"
}

/// Two pods at once on a claim that one node can mount, with a checkpoint on it.
fn two_pods() -> String {
    with_claim().replace("  template:", "  parallelism: 2\n  completions: 2\n  template:")
}

fn claim(mode: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n  namespace: team-a\nspec:\n  accessModes: [{mode}]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
    )
}

/// The line and column of a word, from 0.
fn find(text: &str, word: &str) -> (u32, u32) {
    let before = &text[..text.find(word).unwrap()];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
    (u32::try_from(line).unwrap(), u32::try_from(column).unwrap())
}

fn range(start: (u32, u32), end: (u32, u32)) -> Value {
    let place = |(line, character)| json!({"line": line, "character": character});
    json!({"start": place(start), "end": place(end)})
}

#[test]
fn a_document_is_judged_like_a_file_of_the_linter() {
    // All fixtures as one workspace, with the claims of all of them.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let place = Place::with(&[]);
    let output = place
        .command(&[
            "lint",
            "--no-render",
            "--no-config",
            "--format",
            "json",
            "--exit-zero",
            root.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut expected: BTreeMap<&str, Vec<(u64, u64, &str)>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let number = |key: &str| finding["start"][key].as_u64().unwrap() - 1;
        expected.entry(finding["file"].as_str().unwrap()).or_default().push((
            number("line"),
            number("column"),
            finding["rule"].as_str().unwrap(),
        ));
    }
    assert!(expected.len() > 500, "{}", expected.len());
    let mut client = Client::with(&root, &["--no-config"], json!({}));
    // A fixture with a claim that only a scan of the workspace can find.
    let scanned = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: NAME}}]}}}\n";
    let name = claimed(&root);
    let text = scanned.replace("NAME", &name);
    client.open("scanned.yaml", &text);
    let (line, column) = find(&text, &name);
    client.settled("scanned.yaml", line, column);
    client.close("scanned.yaml");
    for (file, findings) in &expected {
        let name = Path::new(file).strip_prefix(&root).unwrap().to_str().unwrap();
        let text = fs::read_to_string(file).unwrap();
        client.open(name, &text);
        let found = client.diagnostics(name, 1);
        let found: Vec<(u64, u64, &str)> = found
            .iter()
            .filter(|found| found["code"] != "not-judged" && found["code"] != "settings")
            .map(|found| {
                let start = &found["range"]["start"];
                (
                    start["line"].as_u64().unwrap(),
                    start["character"].as_u64().unwrap(),
                    found["code"].as_str().unwrap(),
                )
            })
            .collect();
        let same: Vec<(u64, u64, &str)> = findings
            .iter()
            .map(|(line, column, rule)| {
                let text = text.lines().nth(usize::try_from(*line).unwrap()).unwrap_or_default();
                let before = text.chars().take(usize::try_from(*column).unwrap());
                (*line, before.map(|char| char.len_utf16() as u64).sum(), *rule)
            })
            .collect();
        assert_eq!(found, same, "{name}");
        client.close(name);
    }
    assert!(client.end().success());
}

/// Returns the name of a claim of the fixtures.
fn claimed(root: &Path) -> String {
    let mut folders: Vec<_> =
        fs::read_dir(root.join("checkpoint_volume_access")).unwrap().flatten().collect();
    folders.sort_by_key(fs::DirEntry::path);
    let texts = folders.iter().filter_map(|file| fs::read_to_string(file.path()).ok());
    let found = texts.filter_map(|text| {
        let document =
            text.split("---").find(|document| document.contains("kind: PersistentVolumeClaim"))?.to_owned();
        Some(document.lines().find_map(|line| line.trim().strip_prefix("name: "))?.to_owned())
    });
    found.into_iter().next().unwrap()
}

#[test]
fn what_is_typed_is_judged_and_all_fixes_are_those_of_the_linter() {
    let text = format!("# 😀 ä\n{JOB}").replace("  ttlSecondsAfterFinished: 3600\n", "");
    let place = Place::with(&[("job.yaml", &text)]);
    let mut client = Client::new(place.path());
    client.open("job.yaml", &text);
    assert_eq!(codes(&client.diagnostics("job.yaml", 1)), ["deadline", "ttl-after-finished"]);
    // Behind the emoji, in the middle of a line, and over a line break.
    client.change("job.yaml", 2, range((0, 4), (0, 6)), "😀! 😀");
    let (line, column) = find(&text, "train\n");
    client.change("job.yaml", 3, range((line, column), (line, column + 5)), "trains");
    client.change("job.yaml", 4, range((line, column + 6), (line + 1, 0)), " # 😀\n");
    let typed = text.replacen("# 😀 ä", "# 😀😀! 😀", 1).replacen("name: train\n", "name: trains # 😀\n", 1);
    assert_eq!(codes(&client.diagnostics("job.yaml", 4)), ["deadline", "ttl-after-finished"]);
    let all = client.actions("job.yaml", &["source.fixAll"]);
    let [all] = &all[..] else { panic!("{all:?}") };
    assert_eq!(all["kind"], "source.fixAll.jobgate");
    fs::write(place.path().join("job.yaml"), &typed).unwrap();
    place.run(&["lint", "--fix", "job.yaml"]);
    let fixed = fs::read_to_string(place.path().join("job.yaml")).unwrap();
    assert_ne!(fixed, typed);
    assert_eq!(applied(&typed, all), fixed);
    // The editor writes the edits itself.
    client.change("job.yaml", 5, Value::Null, &fixed);
    assert_eq!(codes(&client.diagnostics("job.yaml", 5)), ["deadline"]);
    assert_eq!(client.actions("job.yaml", &["source.fixAll"]), [json!(null); 0], "an unsafe one is left");
    assert!(client.end().success());
}

#[test]
fn one_fix_is_that_of_the_linter_for_its_rule() {
    let text = JOB.replace("  ttlSecondsAfterFinished: 3600\n", "");
    let place = Place::with(&[("job.yaml", &text)]);
    let mut client =
        Client::with(place.path(), &[], json!({"workspace": {"workspaceEdit": {"documentChanges": true}}}));
    client.open("job.yaml", &text);
    let actions = client.actions("job.yaml", &["quickfix"]);
    let titles: Vec<&str> = actions.iter().map(|action| action["title"].as_str().unwrap()).collect();
    assert!(
        titles[0].starts_with("Fix deadline (unsafe): ") && titles[1].starts_with("Fix ttl-after-finished: "),
        "{titles:?}"
    );
    assert_eq!(actions[1]["edit"]["documentChanges"][0]["textDocument"]["version"], 1);
    assert_eq!((&actions[0]["isPreferred"], &actions[1]["isPreferred"]), (&json!(false), &json!(true)));
    for (action, rule) in actions.iter().zip(["deadline", "ttl-after-finished"]) {
        assert_eq!(action["diagnostics"][0]["code"], rule);
        fs::write(place.path().join("job.yaml"), &text).unwrap();
        place.run(&["lint", "--fix", "--unsafe-fixes", "--select", rule, "job.yaml"]);
        assert_eq!(applied(&text, action), fs::read_to_string(place.path().join("job.yaml")).unwrap());
    }
}

#[test]
fn diagnostics_have_severities_pages_and_second_places() {
    let place = Place::with(&[("jobs/job.yaml", &two_pods()), ("storage/😀.yaml", &claim("ReadWriteOnce"))]);
    let mut client = Client::new(place.path());
    client.open("jobs/job.yaml", &two_pods());
    let found = client.until("jobs/job.yaml", 1, |found| codes(found).contains(&"checkpoint-volume-access"));
    let found = found.iter().find(|found| found["code"] == "checkpoint-volume-access").unwrap();
    assert_eq!((&found["source"], &found["severity"]), (&json!("jobgate"), &json!(2)));
    assert!(found["codeDescription"]["href"].as_str().unwrap().ends_with("/checkpoint-volume-access.md"));
    assert!(found["message"].as_str().unwrap().contains("\nhelp: "));
    let related = found["relatedInformation"].as_array().unwrap();
    let elsewhere =
        related.iter().find(|related| related["message"].as_str().unwrap().contains("PersistentVolumeClaim"));
    let location = &elsewhere.unwrap()["location"];
    assert_eq!(location["uri"], client.uri("storage/%F0%9F%98%80.yaml"));
    assert_eq!(location["range"]["start"]["line"], 6);
    // The claim as it is in the editor counts.
    client.open("storage/%F0%9F%98%80.yaml", &claim("ReadWriteMany"));
    client.until("jobs/job.yaml", 1, |found| !codes(found).contains(&"checkpoint-volume-access"));
    // As on disk once it is closed, and none once it is deleted.
    client.close("storage/%F0%9F%98%80.yaml");
    client.until("jobs/job.yaml", 1, |found| codes(found).contains(&"checkpoint-volume-access"));
    fs::remove_file(place.path().join("storage/😀.yaml")).unwrap();
    client.watched(&["storage/%F0%9F%98%80.yaml"]);
    client.until("jobs/job.yaml", 1, |found| !codes(found).contains(&"checkpoint-volume-access"));
    fs::write(place.path().join("storage/other.yaml"), claim("ReadWriteOnce")).unwrap();
    client.watched(&["storage/other.yaml"]);
    client.until("jobs/job.yaml", 1, |found| codes(found).contains(&"checkpoint-volume-access"));
}

#[test]
fn a_claim_is_found_from_its_use() {
    let runtime = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata:\n  name: torch\nspec: {}\n";
    let train = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec:\n  runtimeRef:\n    name: torch\n  unfinish";
    let place = Place::with(&[("claims/a.yaml", &claim("ReadWriteOnce")), ("runtimes/torch.yaml", runtime)]);
    let mut client = Client::new(place.path());
    for (name, text, word, file, line) in [
        ("job.yaml", with_claim(), "claimName", "claims/a.yaml", 3),
        ("train.yaml", train.to_owned(), "torch", "runtimes/torch.yaml", 3),
    ] {
        client.open(name, &text);
        let (row, column) = find(&text, word);
        client.settled(name, row, column);
        let found = client.request("textDocument/definition", client.at(name, row, column));
        assert_eq!(found[0]["uri"], client.uri(file));
        assert_eq!(found[0]["range"]["start"]["line"], line);
        assert_eq!(client.request("textDocument/definition", client.at(name, 0, 0)), json!([]));
    }
}

#[test]
fn an_unfinished_document_is_judged_as_far_as_it_goes() {
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    let other = JOB.replace("name: train\n", "name: other\n");
    for (broken, line) in [
        (JOB.replace("  podReplacementPolicy: Failed\n", "  podReplacementPolicy: Failed\n  parallel\n"), 8),
        (JOB.replace("  podReplacementPolicy: Failed\n", "  podReplacementPolicy: \"Failed\n"), 7),
        (JOB.replace("    - name: trainer", "    - name: trainer: x"), 12),
    ] {
        let text = format!("{broken}---\n{other}");
        let name = format!("{line}.yaml");
        client.open(&name, &text);
        let found = client.diagnostics(&name, 1);
        let syntax: Vec<&Value> = found.iter().filter(|found| found["code"] == "syntax").collect();
        assert_eq!(syntax.len(), 1, "{found:?}");
        let said = format!("help: kubectl rejects this document; it was checked without line {}", line + 1);
        assert!(syntax[0]["message"].as_str().unwrap().ends_with(&said), "{syntax:?}");
        let of_rule: Vec<u64> = found
            .iter()
            .filter(|found| found["code"] == "deadline")
            .map(|found| found["range"]["start"]["line"].as_u64().unwrap())
            .collect();
        let second = u64::from(find(&text, "---").0) + 6;
        assert_eq!(of_rule, [5, second], "{line}: {found:?}");
        // A fix is for a text that can be read.
        let fixed = client.actions(&name, &["quickfix"]);
        let lines =
            fixed.iter().map(|action| action["diagnostics"][0]["range"]["start"]["line"].as_u64().unwrap());
        assert!(lines.clone().count() > 0 && lines.into_iter().all(|line| line >= second), "{fixed:?}");
    }
}

#[test]
fn nothing_is_said_of_what_an_unfinished_line_may_become() {
    let finished = JOB
        .replace("spec:\n  ttl", "spec:\n  activeDeadlineSeconds: 86400\n  ttl")
        .replace("  template:\n", "  backoffLimit: 0\n  template:\n")
        .replace(
            "      containers:\n",
            "      volumes:\n        - name: scratch\n          emptyDir: {}\n      containers:\n",
        );
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    client.open("job.yaml", &finished);
    let expected: Vec<String> =
        codes(&client.diagnostics("job.yaml", 1)).into_iter().map(str::to_owned).collect();
    let mut version = 1;
    let mut unfinished = 0;
    let mut judge = |text: &str, why: &str| {
        version += 1;
        client.change("job.yaml", version, Value::Null, text);
        let found = client.diagnostics("job.yaml", version);
        if !codes(&found).contains(&"syntax") {
            return;
        }
        unfinished += 1;
        for found in &found {
            let code = found["code"].as_str().unwrap();
            assert!(code == "syntax" || expected.iter().any(|known| known == code), "{why}: {found}\n{text}");
        }
    };
    // Cut everywhere, and each line as it may be while it is typed.
    for (end, _) in finished.char_indices() {
        judge(&finished[..end], "cut");
    }
    let lines: Vec<&str> = finished.lines().collect();
    for (nth, line) in lines.iter().enumerate() {
        let indentation = &line[..line.len() - line.trim_start().len()];
        let key = line.split(':').next().unwrap();
        for typed in [
            key.to_owned(),
            key[..(indentation.len() + key.len()).div_ceil(2)].to_owned(),
            format!("{key}: \"x"),
            format!("{key}: {{a: b"),
            format!("{key}: [a,"),
            format!("{key}: *"),
            format!("{key}: &a b: c"),
            format!("{line}: x"),
            format!("\t{line}"),
            format!(" {line}"),
            format!("{line}\n{indentation}new"),
            format!("{line}\n{indentation}-"),
        ] {
            let mut text = lines.clone();
            text[nth] = &typed;
            judge(&(text.join("\n") + "\n"), &typed);
        }
    }
    assert!(unfinished > 200, "{unfinished}");
    client.change("job.yaml", version + 1, Value::Null, &finished);
    assert_eq!(codes(&client.diagnostics("job.yaml", version + 1)), expected);
}

#[test]
fn a_document_that_is_opened_again_is_another_one() {
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    client.open("job.yaml", JOB);
    client.diagnostics("job.yaml", 1);
    // Its version starts again.
    client.close("job.yaml");
    client.open("job.yaml", &JOB.replace("Never", "Always"));
    client.until("job.yaml", 1, |found| codes(found).contains(&"restart-policy"));
    client.open("job.yaml", JOB);
    client.until("job.yaml", 1, |found| codes(found) == ["deadline"]);
    client.change("job.yaml", 1, Value::Null, &JOB.replace("Never", "Always"));
    client.until("job.yaml", 1, |found| codes(found).contains(&"restart-policy"));
}

#[test]
fn a_range_beyond_the_largest_column_does_not_replace_the_document() {
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    client.open("job.yaml", JOB);
    for (version, end) in [(2, json!(u64::MAX)), (3, json!(9_007_199_254_740_991_u64)), (4, json!(1e9))] {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": end}});
        client.change("job.yaml", version, range, "apiVersion: batch/v1");
        assert_eq!(codes(&client.diagnostics("job.yaml", version)), ["deadline"], "{end}");
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_is_not_waited_for() {
    let place = Place::with(&[]);
    assert!(
        std::process::Command::new("mkfifo").arg(place.path().join("a.yaml")).status().unwrap().success()
    );
    let mut client = Client::new(place.path());
    client.watched(&["a.yaml"]);
    client.open("a.yaml", JOB);
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": client.uri("a.yaml")}}));
    client.close("a.yaml");
    client.open("job.yaml", JOB);
    assert_eq!(codes(&client.diagnostics("job.yaml", 1)), ["deadline"]);
}

#[test]
fn the_configuration_above_a_file_counts_once_it_is_saved() {
    let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
    let place = Place::with(&[
        ("jobgate.yaml", &format!("{head}ignore: [deadline]\n")),
        ("own/jobgate.yaml", &format!("{head}policy: policy.yaml\n")),
        (
            "own/policy.yaml",
            "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {deadline: {action: warn}}}\n",
        ),
    ]);
    let mut client = Client::new(place.path());
    client.open("a/job.yaml", JOB);
    client.open("own/job.yaml", JOB);
    assert_eq!(codes(&client.diagnostics("a/job.yaml", 1)), [""; 0]);
    assert_eq!(client.diagnostics("own/job.yaml", 1)[0]["severity"], 2);
    // A typing error shows where it is, and the last valid settings go on.
    let wrong = format!("{head}ignore: [dedline]\npolicy: missing.yaml\n");
    client.open("jobgate.yaml", &wrong);
    let found = client.diagnostics("jobgate.yaml", 1);
    assert_eq!(codes(&found), ["settings"]);
    assert_eq!(found[0]["range"], range((2, 9), (2, 16)));
    assert!(found[0]["message"].as_str().unwrap().contains("did you mean `deadline`?"), "{found:?}");
    fs::write(place.path().join("jobgate.yaml"), &wrong).unwrap();
    client.watched(&["jobgate.yaml"]);
    let found = client.until("a/job.yaml", 1, |found| !found.is_empty());
    assert_eq!(codes(&found), ["settings"]);
    // A policy that is not there has its place, too.
    let wrong = format!("{head}policy: missing.yaml\n");
    client.change("jobgate.yaml", 2, Value::Null, &wrong);
    assert_eq!(client.diagnostics("jobgate.yaml", 2)[0]["range"], range((2, 8), (2, 20)));
    fs::write(place.path().join("jobgate.yaml"), head).unwrap();
    client.watched(&["jobgate.yaml"]);
    client.until("a/job.yaml", 1, |found| codes(found) == ["deadline"]);
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {deadline: {action: forbid}}}\n";
    client.open("own/policy.yaml", policy);
    let found = client.diagnostics("own/policy.yaml", 1);
    assert_eq!(found[0]["range"]["start"], json!({"line": 3, "character": find(policy, "forbid").1}));
}

#[test]
fn settings_that_nobody_watches_count_with_the_next_file_that_is_saved() {
    let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {deadline: {action: ignore}}}\n";
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    client.open("job.yaml", JOB);
    assert_eq!(codes(&client.diagnostics("job.yaml", 1)), ["deadline"]);
    let job = json!({"textDocument": {"uri": client.uri("job.yaml")}});
    for (file, text, expected) in [
        ("jobgate.yaml", format!("{head}ignore: [deadline]\n"), vec![]),
        ("jobgate.yaml", format!("{head}policy: policy.txt\n# another one\n"), vec!["settings"]),
        ("policy.txt", policy.to_owned(), vec![]),
    ] {
        fs::write(place.path().join(file), text).unwrap();
        client.notify("textDocument/didSave", job.clone());
        client.until("job.yaml", 1, |found| codes(found) == expected);
    }
    // A policy that is gone is no file that says so.
    fs::remove_file(place.path().join("policy.txt")).unwrap();
    client.watched(&["policy.txt"]);
    client.until("job.yaml", 1, |found| codes(found).contains(&"settings"));
}

#[test]
fn what_is_not_in_the_workspace_counts_while_it_is_open() {
    let (place, other) = (Place::with(&[]), Place::with(&[("claim.yaml", &claim("ReadWriteOnce"))]));
    let mut client = Client::new(place.path());
    client.open("job.yaml", &with_claim());
    let (line, column) = find(&with_claim(), "claimName");
    let at = client.at("job.yaml", line, column);
    let count =
        |client: &mut Client| client.request("textDocument/definition", at.clone()).as_array().unwrap().len();
    let notify = |client: &mut Client, method: &str, uri: &str| {
        let item = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": claim("ReadWriteOnce")});
        client.notify(method, json!({"textDocument": item}));
    };
    let outside = format!("file://{}", other.path().canonicalize().unwrap().join("claim.yaml").display());
    notify(&mut client, "textDocument/didOpen", &outside);
    assert_eq!(count(&mut client), 1);
    notify(&mut client, "textDocument/didClose", &outside);
    assert_eq!(count(&mut client), 0);
    // An editor may show a file as it was before.
    notify(&mut client, "textDocument/didOpen", "git:/claim.yaml?HEAD");
    assert_eq!(count(&mut client), 0);
}

#[test]
fn names_are_completed() {
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    let head = "apiVersion: jobgate.dev/v1alpha1\nkind: ";
    for (nth, (text, wanted, unwanted)) in [
        (
            format!("{head}Policy\nmetadata: {{name: p}}\nspec:\n  rules:\n    dead|"),
            "deadline: ",
            "syntax: ",
        ),
        (
            format!("{head}Policy\nspec:\n  rules:\n    deadline:\n      params:\n        |"),
            "maximum: ",
            "action: ",
        ),
        (format!("{head}Policy\nspec:\n  rules:\n    deadline: {{action: |"), "deny", "fill"),
        (
            format!("{head}Policy\nspec:\n  overrides:\n  - match: {{}}\n    rules: {{|"),
            "deadline: ",
            "match: ",
        ),
        (format!("{head}Policy\nspec:\n  exemptions:\n  - rules:\n    - |"), "deadline", "syntax"),
        (format!("{head}Configuration\nignore: [syntax, |"), "deadline", "audit"),
        (format!("{head}Configuration\npolicy: |"), "audit", "deadline"),
        (format!("{head}Configuration\nfailOn: w|"), "warn", "default"),
        (
            JOB.replace(
                "  name: train\n",
                "  name: train\n  annotations:\n    jobgate.dev/ignore: deadline,|\n",
            ),
            "restart-policy",
            "deadline",
        ),
        (
            JOB.replace("  name: train\n", "  name: train\n  annotations:\n    jobgate.dev/keep: \"|\"\n"),
            "ttl-after-finished",
            "deadline",
        ),
        (
            JOB.replace("  name: train\n", "  name: train\n  annotations:\n    |\n"),
            "jobgate.dev/keep: ",
            "deadline",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (line, column) = find(&text, "|");
        let name = format!("{nth}.yaml");
        client.open(&name, &text.replacen('|', "", 1));
        let items = client.request("textDocument/completion", client.at(&name, line, column));
        let texts: Vec<&str> = items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["textEdit"]["newText"].as_str().unwrap())
            .collect();
        assert!(texts.contains(&wanted) && !texts.contains(&unwanted), "{text}: {texts:?}");
        let chosen =
            items.as_array().unwrap().iter().find(|item| item["textEdit"]["newText"] == wanted).unwrap();
        assert_eq!(chosen["textEdit"]["range"]["end"], json!({"line": line, "character": column}));
    }
    // A parameter has its meaning and its default.
    let items = client.request("textDocument/completion", client.at("1.yaml", 6, 8));
    let maximum = items.as_array().unwrap().iter().find(|item| item["label"] == "maximum").unwrap();
    assert_eq!(maximum["detail"], "default: 0");
    assert!(maximum["documentation"]["value"].as_str().unwrap().len() > 20, "{items}");
    client.open("plain.yaml", JOB);
    assert_eq!(client.request("textDocument/completion", client.at("plain.yaml", 3, 6)), json!([]));
}

#[test]
fn pages_are_shown_at_findings_and_names() {
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    let text = JOB
        .replace("  name: train\n", "  name: train\n  annotations: {jobgate.dev/ignore: restart-policy}\n");
    client.open("job.yaml", &text);
    let mut page = |name: &str, (line, column): (u32, u32)| {
        let found = client.request("textDocument/hover", client.at(name, line, column));
        found.pointer("/contents/value").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (line, column) = find(&text, "spec:\n");
    let deadline = page("job.yaml", (line, column + 1));
    assert!(deadline.starts_with("### deadline\n") && deadline.contains("## Bad"), "{deadline}");
    // Editors with a cursor between characters ask for its end, too.
    assert_eq!(page("job.yaml", (line, column + 4)), deadline);
    assert!(page("job.yaml", find(&text, "policy}")).starts_with("### restart-policy\n"));
    assert_eq!(page("job.yaml", find(&text, "containers")), "");
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n  rules:\n    deadline:\n      params: {maximum: 1}\n  optOut: none\n";
    client.open("policy.yaml", policy);
    let mut page = |(line, column): (u32, u32)| {
        let found = client.request("textDocument/hover", client.at("policy.yaml", line, column));
        found.pointer("/contents/value").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    assert!(page(find(policy, "deadline")).starts_with("### deadline\n"));
    assert!(page(find(policy, "maximum")).ends_with("default: 0"), "{}", page(find(policy, "maximum")));
    assert!(page(find(policy, "optOut")).contains("annotation"));
}

#[test]
fn columns_are_bytes_where_the_editor_counts_bytes() {
    let text = JOB
        .replace("restartPolicy: Never", "restartPolicy: \"Always\"")
        .replace("kind: Job", "kind: Job # 😀");
    let text = text
        .replace("    spec:\n      restartPolicy", "    spec: {restartPolicy")
        .split("      containers")
        .next()
        .unwrap()
        .trim_end()
        .to_owned();
    let text = text.replace("spec: {restartPolicy: ", "spec: {nodeName: 😀, restartPolicy: ") + "}\n";
    let column = |encodings: Value| {
        let place = Place::with(&[]);
        let mut client =
            Client::with(place.path(), &[], json!({"general": {"positionEncodings": encodings}}));
        client.open("job.yaml", &text);
        let found = client.diagnostics("job.yaml", 1);
        let found = found.iter().find(|found| found["code"] == "restart-policy").unwrap().clone();
        let encoding = client.initialized["capabilities"]["positionEncoding"].as_str().unwrap().to_owned();
        (encoding, found["range"]["start"]["character"].as_u64().unwrap())
    };
    let line = text.lines().find(|line| line.contains("Always")).unwrap();
    let bytes = line.find("\"Always").unwrap() as u64;
    assert_eq!(column(json!(["utf-32", "utf-16", "utf-8"])), ("utf-8".to_owned(), bytes));
    assert_eq!(column(json!(["utf-32"])), ("utf-16".to_owned(), bytes - 2));
}

#[test]
fn the_newest_text_is_judged_and_the_editor_never_waits() {
    let place = Place::with(&[]);
    let text = format!("{JOB}---\n").repeat(100);
    let mut client = Client::new(place.path());
    client.open("jobs.yaml", &text);
    for version in 2..=200 {
        client.change("jobs.yaml", version, range((0, 0), (0, 0)), "#\n");
    }
    assert_eq!(client.diagnostics("jobs.yaml", 200).len(), 100);
    assert!(client.publications < 150, "{}", client.publications);
    assert!(client.end().success());
}

#[test]
fn a_thousand_lines_take_no_time() {
    // .ci/editors measures a release build; this is a bound for the slowest one on a busy machine.
    let place = Place::with(&[]);
    let mut client = Client::new(place.path());
    let text = format!("{JOB}---\n").repeat(1 + 1000 / JOB.lines().count());
    client.open("jobs.yaml", &text);
    client.diagnostics("jobs.yaml", 1);
    let times: Vec<Duration> = (2..7)
        .map(|version| {
            let start = Instant::now();
            client.change("jobs.yaml", version, range((0, 0), (0, 0)), "#");
            client.diagnostics("jobs.yaml", version);
            start.elapsed()
        })
        .collect();
    assert!(times.iter().min().unwrap() < &Duration::from_secs(1), "{times:?}");
}

/// Returns how long an answer takes at best: other processes may have the machine.
fn soonest(mut ask: impl FnMut() -> Value) -> Duration {
    let once = || {
        let start = Instant::now();
        ask();
        start.elapsed()
    };
    std::iter::repeat_with(once).take(3).min().unwrap()
}

#[test]
fn no_answer_waits_for_a_long_text() {
    let second = Duration::from_secs(1);
    for unit in ["  a:\n", "a: 1\n", "- [{}, {}]\n", "a: [\n---\n", "- {apiVersion: batch/v1, kind: Job}\n"] {
        let place = Place::with(&[]);
        let mut client = Client::new(place.path());
        client.open("job.yaml", JOB);
        client.diagnostics("job.yaml", 1);
        let head = if unit.starts_with("- {") { "apiVersion: v1\nkind: List\nitems:\n" } else { "" };
        let text = format!("{head}{}", unit.repeat((3 << 20) / unit.len()));
        client.open("long.yaml", &text);
        let (line, column) = find(JOB, "batch");
        for version in 2..5 {
            client.change("long.yaml", version, range((0, 0), (0, 0)), "# ");
            for (name, line, column) in [("job.yaml", line, column), ("long.yaml", 1, 2)] {
                for method in ["hover", "completion", "definition"] {
                    let method = format!("textDocument/{method}");
                    let at = client.at(name, line, column);
                    let took = soonest(|| client.request(&method, at.clone()));
                    assert!(took < second, "{method} in {name} beside {unit:?}: {took:?}");
                }
                let took = soonest(|| client.actions_at_all(name));
                assert!(took < second, "actions in {name} beside {unit:?}: {took:?}");
            }
        }
        assert!(client.end().success());
    }
}

#[test]
fn a_long_text_is_judged_as_a_short_one() {
    let place = Place::with(&[("job.yaml", &with_claim())]);
    let mut client = Client::new(place.path());
    let text = format!("{JOB}---\n").repeat(300) + "# more\n---\n" + &claim("ReadWriteOnce");
    client.open("jobs.yaml", &text);
    assert_eq!(client.diagnostics("jobs.yaml", 1).len(), 300);
    for version in 2..=20 {
        client.change("jobs.yaml", version, range((0, 0), (0, 0)), "#\n");
    }
    let found = client.diagnostics("jobs.yaml", 20);
    assert_eq!(found.len(), 300);
    // Places and fixes are those of the newest text.
    let at = &found[299]["range"]["start"];
    let place = |name: &str| u32::try_from(at[name].as_u64().unwrap()).unwrap();
    let position = client.at("jobs.yaml", place("line"), place("character"));
    assert!(client.request("textDocument/hover", position).is_object());
    // What it defines is known to others.
    let job = with_claim();
    client.open("job.yaml", &job);
    let (line, character) = find(&job, "claimName");
    client.settled("job.yaml", line, character);
    assert!(client.end().success());
}

#[test]
fn a_file_above_the_limit_is_not_judged_and_says_so() {
    let place = Place::with(&[]);
    let mut client = Client::with(place.path(), &["--max-file-size", "100"], json!({}));
    client.open("job.yaml", JOB);
    let found = client.diagnostics("job.yaml", 1);
    assert_eq!(codes(&found), ["syntax"]);
    assert!(found[0]["message"].as_str().unwrap().contains("limit"), "{found:?}");
}

#[test]
fn what_no_editor_sends_ends_in_an_error_answer() {
    let place = Place::with(&[]);
    let mut client = Client::silent(place.path(), &[]);
    assert_eq!(client.request("textDocument/hover", json!({}))["code"], -32002);
    client.notify("textDocument/didOpen", json!({"textDocument": 1}));
    client.request("initialize", json!({"capabilities": 5, "rootUri": 7, "workspaceFolders": "x"}));
    assert_eq!(client.request("initialize", json!({}))["code"], -32600);
    assert_eq!(client.request("no/such", json!({}))["code"], -32601);
    client.notify("textDocument/didOpen", json!({"textDocument": 1}));
    client.notify("textDocument/didChange", json!([]));
    client.change("not-open.yaml", 2, Value::Null, "");
    client.close("not-open.yaml");
    client.open("job.yaml", "a😀b");
    for (start, end) in
        [((0, 2), (0, 2)), ((0, 99), (9, 9)), ((5, 0), (0, 0)), ((u32::MAX, u32::MAX), (u32::MAX, 0))]
    {
        client.change("job.yaml", 2, range(start, end), "😀");
    }
    for method in ["hover", "definition", "completion"] {
        let place = client.at("job.yaml", u32::MAX, u32::MAX);
        let answer = client.request(&format!("textDocument/{method}"), place);
        assert!(answer.get("code").is_none(), "{answer}");
        assert_eq!(
            client.request(&format!("textDocument/{method}"), json!({"position": -1}))["code"],
            -32602
        );
        let unknown = client.at("unknown.yaml", 0, 0);
        assert_eq!(client.request(&format!("textDocument/{method}"), unknown), Value::Null);
    }
    // Half a character, as some editors send one.
    client.send_bytes(b"Content-Length: 21\r\n\r\n{\"method\":\"\\ud83dxx\"}");
    let answer = loop {
        let message = client.next();
        if message.get("error").is_some() {
            break message;
        }
    };
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(client.request("shutdown", Value::Null), Value::Null);
    assert_eq!(client.request("textDocument/hover", json!({}))["code"], -32600);
    client.send_bytes(b"hello\r\n\r\n");
    assert_eq!(client.next()["error"]["code"], -32700);
    assert_eq!(client.hang_up().code(), Some(2));
}

#[test]
fn an_end_without_a_shutdown_is_told_by_the_exit_code() {
    let place = Place::with(&[]);
    assert_eq!(Client::new(place.path()).hang_up().code(), Some(1));
    let mut client = Client::new(place.path());
    client.notify("exit", Value::Null);
    assert_eq!(client.hang_up().code(), Some(1));
    assert_eq!(Client::new(place.path()).end().code(), Some(0));
    assert_eq!(Client::silent(place.path(), &["--stdio"]).hang_up().code(), Some(1));
    assert!(stdout(&place.run(&["lsp", "--help"])).contains("Exit codes: "));
}

#[test]
fn an_excluded_file_is_neither_judged_nor_known() {
    let configuration = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\nexclude: [vendor]\n";
    let place = Place::with(&[
        ("jobgate.yaml", configuration),
        ("vendor/claim.yaml", &claim("ReadWriteOnce")),
        ("claims/claim.yaml", &claim("ReadWriteMany")),
    ]);
    let mut client = Client::new(place.path());
    client.open("vendor/job.yaml", JOB);
    client.open("vendor/claim.yaml", &claim("ReadWriteOnce"));
    assert_eq!(client.diagnostics("vendor/job.yaml", 1), [json!(null); 0]);
    client.open("job.yaml", &with_claim());
    let (line, column) = find(&with_claim(), "claimName");
    client.settled("job.yaml", line, column);
    let found = client.request("textDocument/definition", client.at("job.yaml", line, column));
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found[0]["uri"], client.uri("claims/claim.yaml"));
}

#[test]
fn baselined_findings_are_not_shown() {
    let place = Place::with(&[
        ("jobgate.yaml", "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\nbaseline: known.json\n"),
        ("k8s/job.yaml", JOB),
    ]);
    place.run(&["lint", "--no-config", "--write-baseline", "known.json", "k8s"]);
    assert!(
        parsed(&place.run(&["lint", "--format", "json", "k8s"]))["findings"].as_array().unwrap().is_empty()
    );
    let mut client = Client::new(place.path());
    client.open("k8s/job.yaml", JOB);
    assert_eq!(client.diagnostics("k8s/job.yaml", 1), [json!(null); 0]);
    client.change("k8s/job.yaml", 2, Value::Null, &JOB.replace("Never", "Always"));
    assert_eq!(codes(&client.diagnostics("k8s/job.yaml", 2)), ["restart-policy"]);
}
