//! What the real binary writes into files, and what it says would become of them: `lint --fix`, `--diff`,
//! `--unsafe-fixes`, and `dry-run`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::place::{JOB, Place, code, good, json, stderr, stdout};
use insta::assert_snapshot;
use jobgate::text::value::{Value, json};

/// Lacks two values that are filled in.
fn open() -> String {
    good()
        .replace("  ttlSecondsAfterFinished: 3600\n", "")
        .replace("  podReplacementPolicy: Failed\n", "  # The pod template.\n")
}

/// The same as the webhook would have it.
fn fixed() -> String {
    let filled = "  podReplacementPolicy: Failed\n  ttlSecondsAfterFinished: 86400\n  # The pod template.\n";
    open().replace("  # The pod template.\n", filled)
}

fn read(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

/// Pipes a text through the binary.
fn pipe(place: &Place, arguments: &[&str], text: &str) -> std::process::Output {
    place.command(arguments).write_stdin(text).output().unwrap()
}

#[test]
fn a_file_is_fixed_and_the_report_is_about_what_is_left() {
    let place = Place::with(&[
        ("a.yaml", &open()),
        ("b.yaml", &open().replace("  activeDeadlineSeconds: 3600\n", "")),
        ("c.yaml", &good()),
    ]);
    let output = place.run(&["lint", "--fix"]);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
    assert_snapshot!(stdout(&output), @"
    team-a/train (Job) in b.yaml

    error[deadline]: `activeDeadlineSeconds` is not set, so a run that hangs keeps its nodes until someone notices
     --> b.yaml:6:1
      |
    6 | spec:
      | ^^^^ `activeDeadlineSeconds` belongs here
      |
      = help: set `spec.activeDeadlineSeconds` to the longest time a run may take, in seconds (a day is 86400)
      = why: A Job without a deadline runs until it succeeds, fails often enough, or someone notices
      = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md

    3 files, 3 documents, 3 jobs: 1 error; 4 fixed in 2 files
    `jobgate explain deadline` says more about a rule
    ");
    assert_eq!((read(&place, "a.yaml"), read(&place, "c.yaml")), (fixed(), good()));
    let again = json(&place.run(&["lint", "--fix", "--format", "json"]));
    assert_eq!(
        (&again["summary"]["fixed"], &again["summary"]["changed"], &again["summary"]["deny"]),
        (&json!(0), &json!(0), &json!(1))
    );
    let guessed = place.run(&["lint", "--fix", "--unsafe-fixes", "b.yaml"]);
    assert_eq!(
        (code(&guessed), stdout(&guessed)),
        (0, "1 file, 1 document, 1 job: nothing found; 1 fixed in 1 file\n")
    );
    assert!(read(&place, "b.yaml").contains("\n  activeDeadlineSeconds: 86400\n"));
    assert_eq!(code(&place.run(&["lint", "--unsafe-fixes"])), 2, "it asks for --fix or --diff");
}

#[test]
fn a_diff_changes_nothing_and_is_one_that_tools_read() {
    let place = Place::with(&[("k8s/a job.yaml", &open()), ("k8s/good.yaml", &good())]);
    let output = place.run(&["lint", "--diff", "k8s"]);
    assert_eq!(
        (code(&output), stderr(&output)),
        (1, "2 findings would be fixed in 1 file; left are: nothing found\n")
    );
    assert_snapshot!(stdout(&output).replace('\t', "<tab>"), @"
    --- a/k8s/a job.yaml<tab>
    +++ b/k8s/a job.yaml<tab>
    @@ -5,6 +5,8 @@
       namespace: team-a
     spec:
       activeDeadlineSeconds: 3600
    +  podReplacementPolicy: Failed
    +  ttlSecondsAfterFinished: 86400
       # The pod template.
       template:
         spec:
    ");
    assert_eq!(read(&place, "k8s/a job.yaml"), open());
    let clean = place.run(&["lint", "--diff", "k8s/good.yaml"]);
    assert_eq!((code(&clean), stdout(&clean)), (0, ""));
    let coloured = place.run(&["lint", "--diff", "--color", "always", "k8s"]);
    assert!(stdout(&coloured).contains("\u{1b}[32m+  podReplacementPolicy: Failed\u{1b}[0m\n"));
    let whole = format!("{}/k8s", place.path().display());
    for (paths, strip) in [("k8s", 1), (&*whole, place.path().components().count())] {
        fs::write(place.path().join("the.patch"), place.run(&["lint", "--diff", paths]).stdout).unwrap();
        for tool in [["patch", "--dry-run"], ["git", "apply"]] {
            let mut command = Command::new(tool[0]);
            command
                .arg(tool[1])
                .args(if tool[0] == "git" { &["--check"][..] } else { &[] })
                .arg(format!("-p{strip}"));
            command.args(if tool[0] == "git" { ["the.patch"] } else { ["-ithe.patch"] });
            // Where a tool is missing, there is nothing to be read by.
            let Ok(read) = command.current_dir(place.path()).output() else { continue };
            assert!(read.status.success(), "{tool:?} {paths}: {}{}", stdout(&read), stderr(&read));
        }
    }
}

#[test]
fn a_diff_wins_over_a_fix() {
    let place = Place::with(&[("a.yaml", &open())]);
    let diff = place.run(&["lint", "--diff"]);
    let both = place.run(&["lint", "--fix", "--diff"]);
    assert!(stdout(&diff).contains("+  ttlSecondsAfterFinished: 86400"), "{}", stdout(&diff));
    assert_eq!(
        (stdout(&both), stderr(&both), code(&both)),
        (stdout(&diff), stderr(&diff), code(&diff)),
        "nothing is written"
    );
    assert_eq!(read(&place, "a.yaml"), open());
}

#[test]
fn a_licence_before_the_first_separator_is_no_document() {
    let place = Place::with(&[]);
    let output = pipe(&place, &["lint", "-"], &format!("# A licence.\n---\n{}---\n# nothing\n", good()));
    assert_eq!((code(&output), stdout(&output)), (0, "1 file, 1 document, 1 job: nothing found\n"));
    // It has a number all the same, by which kubectl separates.
    let json = pipe(&place, &["lint", "--format", "json", "-"], &format!("# A licence.\n---\n{}", open()));
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!((&json["summary"]["documents"], &json["findings"][0]["document"]), (&1.into(), &1.into()));
}

#[test]
fn standard_input_is_fixed_into_standard_output() {
    let place = Place::with(&[]);
    let output = pipe(&place, &["lint", "--fix", "-"], &open());
    assert_eq!((code(&output), stdout(&output)), (0, &*fixed()));
    assert_eq!(stderr(&output), "1 file, 1 document, 1 job: nothing found; 2 fixed in 1 file\n");
    let as_it_is = pipe(&place, &["lint", "--fix", "--format", "json", "-"], "kind: [");
    assert_eq!((code(&as_it_is), stdout(&as_it_is)), (1, "kind: ["));
    let diff = pipe(&place, &["lint", "--diff", "-"], &open());
    assert!(stdout(&diff).starts_with("--- a/stdin\n+++ b/stdin\n@@ -5,6 +5,8 @@\n"), "{}", stdout(&diff));
}

#[cfg(unix)]
#[test]
fn links_and_permissions_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let place = Place::with(&[("real/job.yaml", &open()), ("locked.yaml", &open())]);
    symlink("real/job.yaml", place.path().join("link.yaml")).unwrap();
    let set = |name: &str, mode| {
        fs::set_permissions(place.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("real/job.yaml", 0o640);
    set("locked.yaml", 0o444);
    let output = place.run(&["lint", "--fix", "link.yaml", "locked.yaml"]);
    assert_eq!(
        (code(&output), stderr(&output)),
        (2, "jobgate: cannot write locked.yaml: the file is read-only\n")
    );
    // What was not written is still found.
    assert!(
        stdout(&output).contains("2 notes (filled in by the webhook); 2 fixed in 1 file"),
        "{}",
        stdout(&output)
    );
    assert!(stdout(&output).contains("1 file not written"));
    for (format, words) in [
        ("sarif", r#"not fixed: cannot write this file: the file is read-only"#),
        ("sarif", r#""executionSuccessful":false"#),
        ("gitlab", r#"not fixed: cannot write this file: the file is read-only"#),
        ("github", "::error file=locked.yaml,line=1,title=not fixed::cannot write this file"),
        ("junit", r#"errors="1""#),
    ] {
        let output = place.run(&["lint", "--fix", "--format", format, "locked.yaml"]);
        assert!(code(&output) == 2 && stdout(&output).contains(words), "{format}: {}", stdout(&output));
    }
    assert!(fs::symlink_metadata(place.path().join("link.yaml")).unwrap().is_symlink());
    assert_eq!((read(&place, "real/job.yaml"), read(&place, "locked.yaml")), (fixed(), open()));
    assert_eq!(
        fs::metadata(place.path().join("real/job.yaml")).unwrap().permissions().mode() & 0o7777,
        0o640
    );
}

#[cfg(unix)]
#[test]
fn a_folder_that_may_not_be_written_is_said_and_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let place = Place::with(&[("k8s/job.yaml", &open())]);
    let folder = place.path().join("k8s");
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(place.path(), 0o755);
    set(&folder.join("job.yaml"), 0o666);
    set(&folder, 0o555);
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command.args(["lint", "--fix", "--format", "json", "k8s"]).current_dir(place.path()).stdin(Stdio::null());
    if fs::write(folder.join("probe"), "").is_ok() {
        // Root may write anywhere, nobody may not.
        fs::remove_file(folder.join("probe")).unwrap();
        command.uid(65534).gid(65534);
    }
    let output = command.output();
    set(&folder, 0o755);
    let output = output.unwrap();
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(
        stderr(&output).starts_with("jobgate: cannot write k8s/job.yaml: ")
            && stderr(&output).contains("ermission denied"),
        "{}",
        stderr(&output)
    );
    assert_eq!(
        (json(&output)["summary"]["fixed"].clone(), json(&output)["summary"]["note"].clone()),
        (json!(0), json!(2))
    );
    let unjudged = &json(&output)["unjudged"][0];
    assert_eq!((&unjudged["file"], &unjudged["reason"]), (&json!("k8s/job.yaml"), &json!("not-written")));
    assert_eq!((read(&place, "k8s/job.yaml"), fs::read_dir(&folder).unwrap().count()), (open(), 1));
}

#[test]
fn a_dry_run_prints_what_would_be_stored() {
    let place = Place::with(&[("job.yaml", &open()), ("bad.yaml", JOB)]);
    let of = |output: &str, files: &[&str]| place.run(&[&["dry-run", "-o", output], files].concat());
    let yaml = of("yaml", &["job.yaml", "bad.yaml"]);
    assert_eq!(code(&yaml), 1);
    let stored: Vec<_> =
        jobgate::text::yaml::documents(&yaml.stdout).map(|document| document.unwrap().value).collect();
    assert_eq!(stored.len(), 1, "what is rejected is not stored");
    let spec = &stored[0]["spec"];
    assert_eq!(
        (&spec["podReplacementPolicy"], &spec["ttlSecondsAfterFinished"], &spec["backoffLimit"]),
        (&json!("Failed"), &json!(86400), &json!(6))
    );
    assert_eq!(stored[0]["metadata"], json!({"name": "train", "namespace": "team-a"}));
    assert!(
        stderr(&yaml).ends_with("2 objects: 1 allowed, patched; 1 denied by jobgate\n"),
        "{}",
        stderr(&yaml)
    );
    assert_eq!(json(&of("json", &["job.yaml"])), stored[0]);
    assert_eq!(json(&of("json", &["bad.yaml"])), json!({"apiVersion": "v1", "kind": "List", "items": []}));
    let patch = of("patch", &["job.yaml", "bad.yaml"]);
    assert_snapshot!(stdout(&patch), @r#"
    {"file":"bad.yaml","line":1,"object":{"apiVersion":"batch/v1","kind":"Job","name":"train","namespace":"team-a"},"operation":"CREATE","patch":[],"verdict":"denied by jobgate"}
    {"file":"job.yaml","line":1,"object":{"apiVersion":"batch/v1","kind":"Job","name":"train","namespace":"team-a"},"operation":"CREATE","patch":[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":86400},{"op":"replace","path":"/spec/podReplacementPolicy","value":"Failed"}],"verdict":"allowed, patched"}
    "#);
    // What would be filled in is what --fix writes.
    assert_eq!(stdout(&of("diff", &["job.yaml"])), stdout(&place.run(&["lint", "--diff", "job.yaml"])));
    assert_eq!(code(&of("diff", &["job.yaml"])), 0, "it is admitted");
    assert_eq!(code(&place.run(&["dry-run", "-o", "yaml", "--format", "json"])), 2, "one or the other");
    assert_eq!(read(&place, "job.yaml"), open());
}

#[test]
fn a_dry_run_reports_verdicts() {
    let place = Place::with(&[]);
    let helm = format!(
        "---\n# Source: train/templates/job.yaml\n{}---\n{}",
        open(),
        good().replace("spec:\n  active", "spec:\n  parallelism: -1\n  active")
    );
    let output = pipe(&place, &["dry-run", "-"], &helm);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
    let lines: Vec<&str> = stdout(&output)
        .lines()
        .filter(|line| line.starts_with("-:") || line.ends_with("API server"))
        .collect();
    assert_eq!(
        lines,
        [
            "-:3 (train/templates/job.yaml): Job team-a/train: allowed, patched",
            "-:18: Job team-a/train: rejected by the API server",
            "2 objects: 1 allowed, patched; 1 rejected by the API server"
        ]
    );
    assert!(stdout(&output).contains("\n--- a/stdin\n+++ b/stdin\n"), "{}", stdout(&output));
    let document = json(&pipe(&place, &["dry-run", "--format", "json", "-"], &helm));
    let verdicts: Vec<_> = document["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| verdict["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["allowed, patched", "rejected by the API server"]);
    assert_eq!(document["verdicts"][0]["source"], "train/templates/job.yaml");
    for (format, start) in [("sarif", "{"), ("junit", "<?xml"), ("github", "::"), ("gitlab", "[")] {
        let output = pipe(&place, &["dry-run", "--format", format, "-"], &helm);
        assert_eq!(code(&output), 1);
        assert!(stdout(&output).starts_with(start), "{format}: {}", stdout(&output));
    }
    let nothing = pipe(&place, &["dry-run", "-"], "kind: ConfigMap\n");
    assert_eq!(
        (code(&nothing), stdout(&nothing)),
        (0, "no batch jobs found; nothing to judge in standard input\n")
    );
}

/// The one object that is denied stays visible among the others.
#[test]
fn a_dry_run_of_a_thousand_jobs_fits_on_some_screens() {
    let named = |text: &str, nth: usize| text.replace("name: train\n", &format!("name: train-{nth}\n"));
    let mut jobs: Vec<String> = (0..1000).map(|nth| named(&open(), nth)).collect();
    jobs[500] = named(JOB, 500);
    let files: Vec<(String, String)> =
        jobs.into_iter().enumerate().map(|(nth, job)| (format!("{nth:04}.yaml"), job)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, job)| (name.as_str(), job.as_str())).collect();
    let place = Place::with(&files);
    let output = place.run(&["dry-run"]);
    let text = stdout(&output);
    let lines = text.lines().count();
    assert!(lines < 200, "{lines} lines");
    for expected in [
        "0500.yaml:1: Job team-a/train-500: denied by jobgate\n",
        "… and 989 more: allowed, patched\n",
        "… and changes of 996 more files: `-o diff` prints all\n",
        "1,000 objects: ",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let full = place.run(&["dry-run", "--full"]);
    assert!(stdout(&full).lines().count() > 10_000);
}

#[test]
fn a_dry_run_against_what_is_there_is_an_update() {
    let image = good().replace("trainer:v1", "trainer:v2");
    let place = Place::with(&[
        ("old/job.yaml", &good()),
        ("same/job.yaml", &good()),
        ("new/job.yaml", &image),
        ("lax/job.yaml", JOB),
        ("broken.yaml", "a: ["),
    ]);
    let line = |old: &str, new: &str| {
        let output = place.run(&["dry-run", "--against", old, new]);
        (
            code(&output),
            stdout(&output)
                .lines()
                .next()
                .unwrap_or_default()
                .split(": ")
                .last()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert_eq!(line("old", "same"), (0, "allowed".to_owned()));
    assert_eq!(line("old", "new"), (1, "rejected by the API server".to_owned()));
    assert_eq!(line("old", "lax"), (1, "denied by jobgate".to_owned()), "the deadline is taken away");
    assert_eq!(line("lax", "lax"), (0, "allowed".to_owned()), "it was as bad before");
    let immutable = place.run(&["dry-run", "--against", "old", "new", "--format", "json"]);
    let finding = &json(&immutable)["findings"][0];
    assert_eq!(
        (&finding["rule"], &finding["start"]),
        (&json!("api-server"), &json!({"line": 15, "column": 18}))
    );
    assert!(finding["message"].as_str().unwrap().ends_with("field is immutable"), "{finding}");
    for bad in ["gone", "broken.yaml"] {
        let output = place.run(&["dry-run", "--against", bad, "new"]);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{bad}");
        assert!(
            stderr(&output).contains("read the objects that exist") && stderr(&output).contains(bad),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn fields_that_the_api_does_not_know_are_refused_or_dropped() {
    let place =
        Place::with(&[("job.yaml", &good().replace("spec:\n  active", "spec:\n  deadline: 5\n  active"))]);
    assert_eq!(code(&place.run(&["dry-run"])), 1);
    let lax = place.run(&["dry-run", "--validate", "warn", "-o", "json"]);
    assert_eq!((code(&lax), json(&lax)["spec"].get("deadline")), (0, None));
}

/// Returns the Job with environment variables.
fn with_values(values: &[&str]) -> String {
    let list: Vec<String> =
        values.iter().map(|value| format!("            - {{name: A, value: {value}}}\n")).collect();
    good() + "          env:\n" + &list.concat()
}

#[test]
fn what_needs_quotes_is_quoted_as_it_is_written() {
    let texts = ["5e-5", "1.10", "010", "NO", "on", "1_000"];
    let place = Place::with(&[("job.yaml", &with_values(&texts))]);
    let wanted: Vec<String> = texts.iter().map(|text| format!("put it in quotes: \"{text}\"")).collect();
    for command in ["lint", "dry-run"] {
        let document = json(&place.run(&[command, "--format", "json", "job.yaml"]));
        let findings =
            document["findings"].as_array().unwrap().iter().filter(|finding| finding["rule"] == "field-type");
        assert_eq!(
            findings.map(|finding| finding["help"].as_str().unwrap()).collect::<Vec<_>>(),
            wanted,
            "{command}"
        );
    }
    let fixed = pipe(&place, &["lint", "--fix", "--unsafe-fixes", "-"], &with_values(&texts));
    assert_eq!(
        stdout(&fixed),
        with_values(&texts.map(|text| format!("\"{text}\"")).each_ref().map(String::as_str)),
        "{}",
        stderr(&fixed)
    );
    // The text of an alias is no value.
    let alias = with_values(&["*x"]).replace("  name: train\n", "  name: train\n  generation: &x 5\n");
    let document = json(&pipe(&place, &["lint", "--format", "json", "-"], &alias));
    assert_eq!(document["findings"][0]["help"], "put it in quotes");
    assert_eq!(document["findings"][0]["fix"], json!(null), "{document}");
}

#[test]
fn a_misspelled_field_is_renamed_and_not_written_anew() {
    let place = Place::with(&[]);
    let typos = good()
        .replace("restartPolicy: Never", "restartpolicy: Never")
        .replace("activeDeadlineSeconds: 3600", "activedeadlineSeconds: 100")
        .replace("ttlSecondsAfterFinished: 3600", "ttlsecondsAfterFinished: 200");
    let wanted = good()
        .replace("activeDeadlineSeconds: 3600", "activeDeadlineSeconds: 100")
        .replace("ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 200");
    let fixed = pipe(&place, &["lint", "--fix", "--unsafe-fixes", "-"], &typos);
    assert_eq!((stdout(&fixed), code(&fixed)), (&*wanted, 0), "{}", stderr(&fixed));
    assert_eq!(
        stdout(&pipe(&place, &["lint", "--fix", "-"], &typos)),
        typos,
        "the safe fixes do not write it anew either"
    );
}

/// A template of a chart that is YAML by itself, and a manifest with an action in it: what is applied is what they
/// render to.
#[test]
fn templates_are_fixed_only_where_they_are_named() {
    let action = JOB.replace("name: train\n", "name: train\n  labels: {app: '{{ .Values.app }}'}\n");
    let place = Place::with(&[
        ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("chart/templates/job.yaml", JOB),
        ("k8s/action.yaml", &action),
        ("k8s/job.yaml", JOB),
    ]);
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let fix = ["lint", "--fix", "--unsafe-fixes", "--no-render", "--format", "json"];
    let report = json(&place.run(&[&fix[..], &["."]].concat()));
    assert_eq!(
        (&report["summary"]["fixed"], &report["summary"]["withheld"]),
        (&1.into(), &2.into()),
        "{report}"
    );
    assert_eq!((read("chart/templates/job.yaml"), read("k8s/action.yaml")), (JOB.to_owned(), action.clone()));
    assert!(read("k8s/job.yaml").contains("activeDeadlineSeconds"));
    let why: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|found| found["withheld"].as_str())
        .collect();
    assert!(
        why.len() == 2
            && why[0].starts_with("it is a template of a chart")
            && why[1].starts_with("it may be a template"),
        "{why:?}"
    );
    place.run(&[&fix[..], &["chart/templates/job.yaml", "k8s/action.yaml"]].concat());
    assert!(read("chart/templates/job.yaml").contains("activeDeadlineSeconds"));
    assert!(read("k8s/action.yaml").contains("activeDeadlineSeconds"));
}

/// A runtime, and a job of it that asks for the accelerators itself.
const RUNTIME: &str = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: ours}
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: registry.example.com/train:v1
                  resources: {limits: {nvidia.com/gpu: 8}}
";
const TRAIN_JOB: &str = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: one, namespace: team-a}
spec:
  activeDeadlineSeconds: 3600
  runtimeRef: {name: ours, kind: ClusterTrainingRuntime}
  trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}
";

#[test]
fn what_the_fix_of_a_runtime_does_away_with_is_not_reported_of_its_jobs() {
    // A cluster has one runtime of the name, so it is found wherever it is.
    let place =
        Place::with(&[("platform/base/runtimes/r.yaml", RUNTIME), ("teams/a/jobs/j.yaml", TRAIN_JOB)]);
    let before = json(&place.run(&["lint", "--format", "json"]));
    let rules = |report: &Value| {
        let found = report["findings"].as_array().unwrap().iter();
        found.map(|found| format!("{} {}", found["file"], found["rule"])).collect::<Vec<_>>()
    };
    assert!(rules(&before).contains(&"\"teams/a/jobs/j.yaml\" \"gpu-toleration\"".to_owned()), "{before}");
    assert!(before.get("unjudged").is_none(), "{before}");
    for arguments in [&["lint", "--fix", "--format", "json"][..], &["lint", "--format", "json"]] {
        let after = json(&place.run(arguments));
        assert_eq!(rules(&after), [""; 0], "{arguments:?}");
    }
}
