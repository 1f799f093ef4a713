//! The options of the commands that judge: which rules are used, which files are read, and how the report is
//! written.

use std::fs;

use crate::support::place::{JOB, Place, code, good, json, stderr, stdout};
use insta::assert_snapshot;
use jobgate::text::value::Value;

/// A job that lacks a deadline (deny) and a toleration (a note, and a fix), with a field at a wrong place.
const GPU_JOB: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  ttlSecondsAfterFinished: 3600
  podReplacementPolicy: Failed
  template:
    spec:
      deadline: 1
      restartPolicy: Never
      containers:
        - name: trainer
          image: registry.example.com/trainer:v1
          resources: {limits: {nvidia.com/gpu: 1}}
";

fn rules(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

#[test]
fn rules_and_checks_are_selected_and_ignored() {
    let place = Place::with(&[("job.yaml", GPU_JOB)]);
    for command in ["lint", "dry-run"] {
        for (arguments, exit, expected) in [
            (&["--select", "deadline"][..], 1, &["deadline"][..]),
            (&["--select", "gpu-*,unknown-field"], 1, &["unknown-field", "gpu-toleration"]),
            (&["--select", "gpu-*", "--select", "deadline", "--ignore", "deadline"], 0, &["gpu-toleration"]),
            (&["--ignore", "deadline,unknown-*,api-server"], 0, &["gpu-toleration"]),
            (&["--ignore", "*"], 0, &[]),
        ] {
            let output = place.run(&[&[command, "--format", "json", "job.yaml"][..], arguments].concat());
            let found = json(&output);
            let mut found = rules(&found);
            found.retain(|rule| *rule != "accelerator-hours-bounded");
            assert_eq!(found.len(), expected.len(), "{command} {arguments:?}: {found:?}");
            assert!(expected.iter().all(|rule| found.contains(rule)), "{command} {arguments:?}: {found:?}");
            assert_eq!(code(&output), exit, "{command} {arguments:?}");
        }
    }
    // On top of the policy, whose actions stay, and before `--fail-on`.
    let audit = place.run(&[
        "lint",
        "--policy",
        "audit",
        "--select",
        "deadline",
        "--fail-on",
        "warn",
        "--format",
        "json",
    ]);
    assert_eq!((code(&audit), json(&audit)["findings"][0]["action"].clone()), (1, "warn".into()));
    assert_eq!(code(&place.run(&["lint", "--fail-on", "note", "--ignore", "*"])), 0);
    // What could not be read is not judged, whichever checks are used.
    let broken = Place::with(&[("job.yaml", &JOB.replace("spec:\n  ttl", "spec: [\n  ttl"))]);
    let output = broken.run(&["lint", "--ignore", "syntax", "--format", "json"]);
    assert_eq!((code(&output), rules(&json(&output)).len()), (0, 0));
    assert_eq!(json(&output)["unjudged"][0]["reason"], "unreadable");
    assert_eq!(code(&broken.run(&["lint", "--ignore", "syntax", "--fail-on-unjudged"])), 1);
    let large = broken.run(&["lint", "--ignore", "syntax", "--max-file-size", "10", "--format", "json"]);
    assert_eq!((code(&large), json(&large)["unjudged"][0]["reason"].clone()), (0, "too-large".into()));
}

#[test]
fn only_findings_of_selected_rules_are_fixed() {
    let place = Place::with(&[("job.yaml", GPU_JOB)]);
    let all = place.run(&["lint", "--diff", "--unsafe-fixes"]);
    assert!(
        stdout(&all).contains("+  activeDeadlineSeconds:") && stdout(&all).contains("+      tolerations:")
    );
    let some = place.run(&["lint", "--diff", "--unsafe-fixes", "--select", "gpu-toleration"]);
    assert!(!stdout(&some).contains("activeDeadline") && stdout(&some).contains("+      tolerations:"));
    let output = place.run(&["lint", "--fix", "--unsafe-fixes", "--ignore", "deadline,unknown-field"]);
    let text = fs::read_to_string(place.path().join("job.yaml")).unwrap();
    assert!(
        text.contains("tolerations:") && text.contains("deadline: 1") && !text.contains("activeDeadline")
    );
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    let filled = place.run(&["dry-run", "-o", "patch", "--ignore", "*"]);
    assert!(stdout(&filled).contains("\"patch\":[]"), "{}", stdout(&filled));
}

#[test]
fn unknown_rules_are_errors_with_a_suggestion() {
    let place = Place::with(&[("job.yaml", JOB)]);
    for (option, name, message) in [
        ("--select", "dedline", "there is no rule or check `dedline`; did you mean `deadline`?"),
        ("--ignore", "deadline,sintax", "there is no rule or check `sintax`; did you mean `syntax`?"),
        ("--ignore", "x-*", "no rule or check matches `x-*`; `jobgate explain` lists the rules and checks"),
        ("--select", "", "there is no rule or check ``; `jobgate explain` lists the rules and checks"),
    ] {
        for command in ["lint", "dry-run", if cfg!(feature = "serve") { "audit" } else { "lint" }] {
            let output = place.run(&[command, option, name]);
            assert_eq!((code(&output), stdout(&output)), (2, ""), "{command}");
            assert_eq!(stderr(&output), format!("jobgate: {message}\n"), "{command}");
        }
    }
}

#[test]
fn a_baseline_is_not_resolved_by_a_selection() {
    let place = Place::with(&[("job.yaml", GPU_JOB)]);
    place.run(&["lint", "--write-baseline", "known.json", "job.yaml"]);
    let output = place.run(&["lint", "--baseline", "known.json", "--select", "deadline", "job.yaml"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    assert!(stdout(&output).contains("1 baselined"), "{}", stdout(&output));
}

#[test]
fn excluded_paths_are_skipped_and_counted() {
    let place = Place::with(&[
        ("a.yaml", &good()),
        ("gen/b.yaml", JOB),
        ("k8s/c.gen.yaml", JOB),
        ("k8s/d.yaml", &good().replace("train", "other")),
    ]);
    for command in ["lint", "dry-run"] {
        assert_eq!(code(&place.run(&[command])), 1);
        let output =
            place.run(&[command, "--exclude", "gen/", "--exclude", "*.gen.yaml", "--format", "json"]);
        let summary = &json(&output)["summary"];
        assert_eq!(
            (code(&output), summary["files"].clone(), summary["excluded"].clone()),
            (0, 2.into(), 2.into()),
            "{command}"
        );
        let bad = place.run(&[command, "--exclude", "!a.yaml"]);
        assert_eq!(code(&bad), 2);
        assert_eq!(
            stderr(&bad),
            "jobgate: --exclude: `!a.yaml` is not a pattern of paths: it cannot be negated\n"
        );
    }
    // As a hook passes them.
    let named = place.run(&["lint", "--exclude", "/gen", "gen/b.yaml", "a.yaml"]);
    assert_eq!(
        (code(&named), stdout(&named)),
        (0, "1 file, 1 document, 1 job: nothing found; 1 path excluded\n")
    );
}

#[test]
fn a_namespace_is_that_of_manifests_without_one() {
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec:\n  overrides:\n  - {match: {namespaces: [sandbox]}, rules: {deadline: {action: warn}}}\n";
    let without = JOB.replace("  namespace: team-a\n", "");
    let place = Place::with(&[("job.yaml", &without), ("named.yaml", JOB), ("ours.yaml", policy)]);
    let lint =
        |arguments: &[&str]| code(&place.run(&[&["lint", "--policy", "ours.yaml"], arguments].concat()));
    assert_eq!(lint(&["job.yaml"]), 1);
    assert_eq!(lint(&["job.yaml", "-n", "sandbox"]), 0);
    assert_eq!(lint(&["named.yaml", "--namespace", "sandbox"]), 1, "its own namespace counts");
    // The claim of that namespace is meant.
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: sandbox}\nspec: {accessModes: [ReadWriteOnce]}\n";
    let job = good().replace("  namespace: team-a\n", "").replace("  template:\n    spec:\n", "  parallelism: 2\n  template:\n    spec:\n      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n");
    let job = job
        .replace("v1\n", "v1\n          volumeMounts: [{name: data, mountPath: /checkpoints}]\n")
        .replace("batch/v1\n          volumeMounts: [{name: data, mountPath: /checkpoints}]\n", "batch/v1\n");
    let place = Place::with(&[("job.yaml", &job), ("claim.yaml", claim)]);
    let arguments = ["lint", "job.yaml", "--facts", "claim.yaml", "--format", "json"];
    assert_eq!(rules(&json(&place.run(&arguments))), [""; 0]);
    let output = place.run(&[&arguments[..], &["-n", "sandbox"]].concat());
    assert_eq!(rules(&json(&output)), ["checkpoint-volume-access"]);
}

#[test]
fn a_quiet_run_writes_only_what_is_found() {
    let experiment = "apiVersion: kubeflow.org/v1\nkind: Experiment\nmetadata: {name: a}\n";
    let place =
        Place::with(&[("job.yaml", JOB), ("good.yaml", &good()), ("other/experiment.yaml", experiment)]);
    let clean = place.run(&["lint", "-q", "good.yaml"]);
    assert_eq!((code(&clean), stdout(&clean), stderr(&clean)), (0, "", ""));
    let found = place.run(&["lint", "--quiet", "job.yaml"]);
    assert_eq!((code(&found), stderr(&found)), (1, ""));
    assert!(
        stdout(&found).contains("error[deadline]") && !stdout(&found).contains("1 file"),
        "{}",
        stdout(&found)
    );
    assert!(stdout(&place.run(&["lint", "-q", "other"])).contains("not judged"));
    let baseline = place.run(&["lint", "-q", "--write-baseline", "known.json", "job.yaml"]);
    assert_eq!((code(&baseline), stdout(&baseline), stderr(&baseline)), (0, "", ""));
    let diff = place.run(&["lint", "-q", "--diff", "--unsafe-fixes", "job.yaml"]);
    assert!(stdout(&diff).starts_with("--- a/job.yaml") && stderr(&diff).is_empty(), "{}", stderr(&diff));
    // What cannot be read is an error all the same.
    assert!(stderr(&place.run(&["lint", "-q", "gone.yaml"])).contains("gone.yaml"));
    let dry_run = place.run(&["dry-run", "-q", "good.yaml"]);
    assert_eq!((code(&dry_run), stdout(&dry_run)), (0, ""));
    let denied = place.run(&["dry-run", "-q", "job.yaml", "good.yaml"]);
    assert!(
        stdout(&denied).starts_with("job.yaml:1: Job team-a/train: denied by jobgate\n"),
        "{}",
        stdout(&denied)
    );
    assert!(!stdout(&denied).contains("good.yaml") && !stdout(&denied).contains("2 objects"));
}

#[test]
fn statistics_count_findings_and_fixes() {
    let place = Place::with(&[("a.yaml", GPU_JOB), ("b.yaml", &GPU_JOB.replace("train\n", "other\n"))]);
    let output = place.run(&["lint", "--statistics", "--ignore", "accelerator-hours-bounded"]);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
    assert_snapshot!(stdout(&output), @"
    RULE               COUNT   FIXABLE    UNSAFE
    deadline               2         0         2
    gpu-toleration         2         2         0
    unknown-field          2         0         0

    2 files, 2 documents, 2 jobs: 4 errors, 2 notes (filled in by the webhook)
    accelerators: 2 jobs may hold 2 GPUs without a time limit
    `jobgate explain deadline` says more about a rule
    ");
    let quiet = place.run(&["lint", "--statistics", "-q", "--select", "deadline"]);
    assert_snapshot!(stdout(&quiet), @"
    RULE         COUNT   FIXABLE    UNSAFE
    deadline         2         0         2
    ");
    let document = json(&place.run(&["lint", "--statistics", "--format", "json", "--select", "deadline"]));
    assert_eq!(
        document["statistics"],
        jobgate::text::value::json!([{"rule": "deadline", "count": 2, "fixable": 0, "unsafeFixable": 2}])
    );
    assert_eq!((document["summary"]["deny"].clone(), document.get("findings")), (2.into(), None));
    let good = Place::with(&[("job.yaml", &good())]);
    assert_eq!(stdout(&good.run(&["lint", "--statistics"])), "1 file, 1 document, 1 job: nothing found\n");
    let other = good.run(&["lint", "--statistics", "--format", "sarif"]);
    assert_eq!((code(&other), stderr(&other)), (2, "jobgate: --statistics writes --format human or json\n"));
    assert!(stdout(&place.run(&["dry-run", "--statistics"])).contains("deadline "));
}

#[test]
fn a_report_goes_to_a_file_in_every_format() {
    let place = Place::with(&[("k8s/job.yaml", GPU_JOB), ("good.yaml", &good())]);
    for command in ["lint", "dry-run"] {
        for format in ["human", "json", "sarif", "junit", "github", "gitlab"] {
            let printed = place.run(&[command, "--format", format, "k8s"]);
            fs::write(place.path().join("report"), "an earlier one").unwrap();
            let output = place.run(&[command, "--format", format, "--output-file", "report", "k8s"]);
            assert_eq!(
                (code(&output), stdout(&output), stderr(&output)),
                (code(&printed), "", ""),
                "{format}"
            );
            assert_eq!(
                fs::read_to_string(place.path().join("report")).unwrap(),
                stdout(&printed),
                "{format}"
            );
        }
    }
    let colored = place.run(&["--color", "always", "lint", "--output-file", "report", "k8s"]);
    assert_eq!(stdout(&colored), "");
    assert!(!fs::read_to_string(place.path().join("report")).unwrap().contains('\u{1b}'));
    let diff = place.run(&["lint", "--diff", "--output-file", "fixes.diff", "k8s"]);
    assert_eq!(stdout(&diff), "");
    assert!(fs::read_to_string(place.path().join("fixes.diff")).unwrap().starts_with("--- a/k8s/job.yaml"));
    // The objects go to standard output, and the report into its file.
    let stored = place.run(&["dry-run", "-o", "yaml", "--output-file", "report", "good.yaml"]);
    assert!(stdout(&stored).starts_with("apiVersion: batch/v1") && stderr(&stored).is_empty());
    assert!(fs::read_to_string(place.path().join("report")).unwrap().contains("1 object: "));
    let fixed = place
        .command(&["lint", "--fix", "-", "--output-file", "report"])
        .write_stdin(GPU_JOB)
        .output()
        .unwrap();
    assert!(stdout(&fixed).contains("tolerations:") && stderr(&fixed).is_empty());
    // The file behind /dev/stdout is written to, and stays the same.
    #[cfg(target_os = "linux")]
    {
        let shared = fs::File::create(place.path().join("shared")).unwrap();
        let lint = |device: &str| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_jobgate"));
            command.current_dir(place.path()).args(["lint", "-q", "--output-file", device, "k8s"]);
            command.stdout(fs::OpenOptions::new().append(true).open(place.path().join("shared")).unwrap());
            assert_eq!(command.status().unwrap().code(), Some(1));
        };
        lint("/dev/stdout");
        let once = shared.metadata().unwrap().len();
        lint("/dev/stdout");
        assert_eq!((once > 0, shared.metadata().unwrap().len()), (true, 2 * once));
        lint("/dev/null");
    }
    // A report that cannot be written is an error before anything is changed.
    for file in ["gone/report", "k8s"] {
        let output = place.run(&["lint", "--fix", "--output-file", file, "k8s"]);
        assert_eq!((code(&output), stdout(&output)), (2, ""));
        assert!(
            stderr(&output).starts_with(&format!("jobgate: write the report to {file}: ")),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(fs::read_to_string(place.path().join("k8s/job.yaml")).unwrap(), GPU_JOB);
}

#[test]
fn findings_need_not_fail_a_run() {
    let place = Place::with(&[("job.yaml", GPU_JOB)]);
    for arguments in [
        &["lint"][..],
        &["lint", "--fail-on", "note"],
        &["lint", "--diff", "--unsafe-fixes"],
        &["lint", "--fail-on-unjudged"],
        &["dry-run"],
    ] {
        assert_eq!(code(&place.run(arguments)), 1, "{arguments:?}");
        assert_eq!(code(&place.run(&[arguments, &["--exit-zero"]].concat())), 0, "{arguments:?}");
    }
    for arguments in
        [&["lint", "gone.yaml"][..], &["lint", "--policy", "gone.yaml"], &["dry-run", "gone.yaml"]]
    {
        assert_eq!(code(&place.run(&[arguments, &["--exit-zero"]].concat())), 2, "{arguments:?}");
    }
}

#[test]
fn what_is_misspelled_gets_a_suggestion() {
    let place = Place::with(&[("job.yaml", JOB)]);
    for (arguments, suggestion) in [
        (&["lint", "--policy", "defualt"][..], "did you mean `default`?"),
        (&["dry-run", "--policy", "strikt"], "did you mean `strict`?"),
        (&["policy", "export", "--vap", "adit"], "did you mean `audit`?"),
        (&["lint", "--format", "jsno"], "a similar value exists: 'json'"),
        (&["lint", "--fail-on", "wran"], "a similar value exists: 'warn'"),
        (&["lint", "--selct", "deadline"], "a similar argument exists: '--select'"),
        (&["lnit"], "similar subcommands exist: 'init', 'lint'"),
        (&["explian"], "a similar subcommand exists: 'explain'"),
        (&["policy", "chek"], "a similar subcommand exists: 'check'"),
        (&["completions", "bsh"], "a similar value exists: 'bash'"),
        (&["explain", "dedline"], "did you mean `deadline`?"),
    ] {
        let output = place.run(arguments);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{arguments:?}");
        assert!(stderr(&output).contains(suggestion), "{arguments:?}: {}", stderr(&output));
    }
    // A path is no misspelled name.
    let path = place.run(&["lint", "--policy", "./defualt"]);
    assert!(!stderr(&path).contains("did you mean"), "{}", stderr(&path));
}

#[test]
fn help_is_a_command_too() {
    let place = Place::with(&[]);
    for command in ["lint", "dry-run", "explain"] {
        let long = place.run(&["help", command]);
        assert_eq!((code(&long), stderr(&long)), (0, ""));
        assert_eq!(stdout(&long), stdout(&place.run(&[command, "--help"])));
    }
    assert_eq!(
        stdout(&place.run(&["help", "policy", "export"])),
        stdout(&place.run(&["policy", "export", "--help"]))
    );
    assert_eq!(code(&place.run(&["help", "lnit"])), 2);
    // The ids of all rules would hide everything else.
    assert!(!stdout(&place.run(&["help", "lint"])).contains("checkpoint-volume-access"));
}
