//! `jobgate.yaml`, and the commands that read and write it.

use std::fs;

use crate::support::place::{JOB, Place, code, good, json, stderr, stdout};
use jobgate::text::value::Value;

const HEAD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";

/// A policy that warns about a missing deadline.
const OURS: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec: {rules: {deadline: {action: warn}}}\n";

fn place(configuration: &str, files: &[(&str, &str)]) -> Place {
    let text = format!("{HEAD}{configuration}\n");
    let mut files = files.to_vec();
    files.push(("jobgate.yaml", &text));
    files.push((".git/HEAD", ""));
    Place::with(&files)
}

fn found(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| {
            format!(
                "{} {} {}",
                finding["file"].as_str().unwrap(),
                finding["rule"].as_str().unwrap(),
                finding["action"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn a_configuration_is_found_upwards_and_named_in_reports() {
    let place = place("policy: policies/ours.yaml", &[("k8s/job.yaml", JOB), ("policies/ours.yaml", OURS)]);
    for (directory, arguments, shown) in [
        ("", &["lint"][..], "jobgate.yaml"),
        ("", &["lint", "k8s/job.yaml"], "jobgate.yaml"),
        ("k8s", &["lint"], "../jobgate.yaml"),
        ("k8s", &["dry-run", "job.yaml"], "../jobgate.yaml"),
        ("k8s", &["lint", "../k8s"], "../jobgate.yaml"),
    ] {
        let run = |more: &[&str]| {
            let mut command = place.command(&[arguments, more].concat());
            command.current_dir(place.path().join(directory)).output().unwrap()
        };
        let output = run(&["--format", "json"]);
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{directory} {arguments:?}");
        assert_eq!(json(&output)["configuration"], shown);
        assert_eq!(json(&output)["findings"][0]["action"], "warn");
        assert!(stdout(&run(&[])).contains(&format!("\nconfiguration: {shown}\n")), "{}", stdout(&run(&[])));
        assert_eq!(json(&run(&["--format", "sarif"]))["runs"][0]["properties"]["configuration"], shown);
        for format in ["junit", "github", "gitlab"] {
            assert_eq!(stderr(&run(&["--format", format])), format!("jobgate: configuration: {shown}\n"));
            assert_eq!(stderr(&run(&["--format", format, "-q"])), "");
        }
        assert_eq!(code(&run(&["--no-config"])), 1, "without it the default policy denies");
    }
    // From elsewhere, the first path leads to it; standard input has none.
    let elsewhere = Place::with(&[(".git/HEAD", "")]);
    let path = place.path().join("k8s");
    assert_eq!(code(&elsewhere.run(&["lint", path.to_str().unwrap()])), 0);
    assert_eq!(code(&elsewhere.command(&["lint", "-"]).write_stdin(JOB).output().unwrap()), 1);
    assert_eq!(code(&place.command(&["lint", "-"]).write_stdin(JOB).output().unwrap()), 0);
}

#[test]
fn a_configuration_is_named_by_an_option_or_the_environment() {
    let place = place(
        "policy: audit",
        &[
            ("job.yaml", JOB),
            ("ci/strict.yaml", &format!("{HEAD}policy: strict\n")),
            ("ci/none.yaml", &format!("{HEAD}ignore: ['*']\n")),
        ],
    );
    let run = |arguments: &[&str], variable: &str| {
        let mut command = place.command(&[&["lint", "--format", "json", "job.yaml"], arguments].concat());
        json(&command.env("JOBGATE_CONFIG", variable).output().unwrap())["configuration"].clone()
    };
    assert_eq!(run(&[], ""), "jobgate.yaml");
    assert_eq!(run(&["--config", "ci/strict.yaml"], ""), "ci/strict.yaml");
    assert_eq!(run(&[], "ci/none.yaml"), "ci/none.yaml");
    assert_eq!(run(&["--config", "ci/strict.yaml"], "ci/none.yaml"), "ci/strict.yaml");
    assert_eq!(run(&["--no-config"], "ci/none.yaml"), Value::Null);
    assert_eq!(
        run(&["--no-config", "--config", "ci/strict.yaml"], ""),
        "ci/strict.yaml",
        "the last one counts"
    );
    assert_eq!(run(&["--config", "ci/strict.yaml", "--no-config"], ""), Value::Null);
    let gone = place.run(&["lint", "--config", "gone.yaml"]);
    assert_eq!(
        (code(&gone), stderr(&gone)),
        (2, "jobgate: read the configuration gone.yaml: No such file or directory (os error 2)\n")
    );
    let gone = place.command(&["lint"]).env("JOBGATE_CONFIG", "gone.yaml").output().unwrap();
    assert!(stderr(&gone).contains("gone.yaml of JOBGATE_CONFIG: "), "{}", stderr(&gone));
}

#[test]
fn errors_of_a_configuration_have_a_position() {
    for (configuration, message) in [
        (
            "polcy: audit",
            "the configuration is not valid: jobgate.yaml:3:1: a configuration has no key `polcy`; did you mean `policy`?",
        ),
        (
            "policy: adit",
            "jobgate.yaml:3:9: read the policy adit: No such file or directory (os error 2); did you mean `audit`?",
        ),
        (
            "policy: ./gone.yaml",
            "jobgate.yaml:3:9: read the policy gone.yaml: No such file or directory (os error 2)",
        ),
        (
            "overrides: [{paths: [a], policy: broken.yaml}]",
            "jobgate.yaml:3:34: the policy is not valid: broken.yaml:1:1: a policy is a mapping, not a list; begin with `apiVersion: jobgate.dev/v1alpha1` and `kind: Policy`",
        ),
        ("baseline: gone.json", "read the baseline gone.json: No such file or directory (os error 2)"),
        (
            "facts: [gone.yaml]",
            "read the facts: cannot read gone.yaml: No such file or directory (os error 2)",
        ),
    ] {
        let place = place(configuration, &[("job.yaml", JOB), ("broken.yaml", "[]")]);
        let output = place.run(&["lint", "job.yaml"]);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{configuration}");
        assert_eq!(stderr(&output), format!("jobgate: {message}\n"), "{configuration}");
        // What an argument replaces is not read.
        if configuration.starts_with("policy:") {
            assert_eq!(code(&place.run(&["lint", "job.yaml", "--policy", "audit"])), 0, "{configuration}");
        }
    }
    // A path that is not there is an error as if it were an argument.
    let gone = place("paths: [gone]", &[("job.yaml", JOB)]);
    assert_eq!(
        (code(&gone.run(&["lint"])), stderr(&gone.run(&["lint"]))),
        (2, "jobgate: cannot read gone: No such file or directory (os error 2)\n")
    );
}

#[test]
fn paths_rules_and_levels_come_from_the_configuration() {
    let configuration = "paths: [k8s, jobs]\nexclude: [/k8s/old, '*.gen.yaml']\nfailOn: note\nselect: [deadline, ttl-*]\nignore: [ttl-after-finished]";
    let note = good().replace("  ttlSecondsAfterFinished: 3600\n", "");
    let place = place(
        configuration,
        &[
            ("k8s/note.yaml", &note),
            ("k8s/old/job.yaml", JOB),
            ("jobs/a.gen.yaml", JOB),
            ("jobs/b.yaml", &good()),
            ("other/job.yaml", JOB),
        ],
    );
    let run = |arguments: &[&str]| place.run(&[&["lint", "--format", "json"], arguments].concat());
    let output = run(&[]);
    let document = json(&output);
    assert_eq!((code(&output), found(&document).len()), (0, 0), "{}", stdout(&output));
    assert_eq!((&document["summary"]["files"], &document["summary"]["excluded"]), (&2.into(), &2.into()));
    // Arguments win.
    assert_eq!(found(&json(&run(&["other"]))), ["other/job.yaml deadline deny"]);
    assert_eq!(
        found(&json(&run(&["--select", "ttl-after-finished"]))),
        ["k8s/note.yaml ttl-after-finished note"]
    );
    assert_eq!(code(&run(&["--select", "ttl-after-finished"])), 1);
    assert_eq!(code(&run(&["--select", "ttl-after-finished", "--fail-on", "warn"])), 0);
    assert_eq!(found(&json(&run(&["other", "--ignore", "deadline"]))), [""; 0]);
    // What is excluded is so by all who name it.
    assert_eq!(json(&run(&["k8s/old/job.yaml"]))["summary"]["excluded"], 1);
    assert_eq!(json(&run(&["--exclude", "note.yaml"]))["summary"]["excluded"], 3);
    let inside =
        place.command(&["lint", "--format", "json"]).current_dir(place.path().join("jobs")).output().unwrap();
    assert_eq!(json(&inside)["summary"], document["summary"], "{}", stderr(&inside));
    let dry_run = place.run(&["dry-run", "--format", "json"]);
    assert_eq!(json(&dry_run)["summary"]["files"], 2, "{}", stderr(&dry_run));
}

#[test]
fn policy_and_namespace_depend_on_the_path() {
    let sandbox = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: by-namespace}\nspec:\n  overrides:\n  - {match: {namespaces: [sandbox]}, rules: {deadline: {action: note}}}\n";
    let without = JOB.replace("  namespace: team-a\n", "");
    let configuration = "policy: by-namespace.yaml\nnamespace: prod\noverrides:\n- {paths: [/k8s/research], policy: ours.yaml}\n- {paths: [/k8s/sandbox, '*.sandbox.yaml'], namespace: sandbox}\n- {paths: [k8s/research/strict], policy: default}";
    let place = place(
        configuration,
        &[
            ("by-namespace.yaml", sandbox),
            ("ours.yaml", OURS),
            ("k8s/a.yaml", &without),
            ("k8s/research/b.yaml", &without),
            ("k8s/research/strict/c.yaml", &without),
            ("k8s/sandbox/d.yaml", &without),
            ("k8s/e.sandbox.yaml", JOB),
            ("k8s/f.sandbox.yaml", &without),
        ],
    );
    let run =
        |arguments: &[&str]| found(&json(&place.run(&[arguments, &["--format", "json", "k8s"]].concat())));
    let expected = [
        "k8s/a.yaml deadline deny",
        "k8s/e.sandbox.yaml deadline deny",
        "k8s/f.sandbox.yaml deadline note",
        "k8s/research/b.yaml deadline warn",
        "k8s/research/strict/c.yaml deadline deny",
        "k8s/sandbox/d.yaml deadline note",
    ];
    assert_eq!(run(&["lint"]), expected);
    assert_eq!(run(&["dry-run"]), expected);
    assert_eq!(
        run(&["lint", "--policy", "ours.yaml"]),
        expected.map(|line| format!("{} warn", line.rsplit_once(' ').unwrap().0))
    );
    // A namespace of the command line is that of all, too.
    assert_eq!(run(&["lint", "-n", "sandbox"])[0], "k8s/a.yaml deadline note");
    assert_eq!(run(&["lint", "-n", "other"])[5], "k8s/sandbox/d.yaml deadline deny");
    // Selected rules are those of all policies; fixes are those of the file's policy.
    assert_eq!(run(&["lint", "--ignore", "deadline"]), [""; 0]);
    let stdin = place.command(&["lint", "--format", "json", "-"]).write_stdin(without).output().unwrap();
    assert_eq!(found(&json(&stdin)), ["- deadline deny"]);
}

#[test]
fn an_existing_object_is_found_in_the_namespace_of_its_path() {
    let without = good().replace("  namespace: team-a\n", "");
    let place = place(
        "overrides: [{paths: [/k8s], namespace: team-b}]",
        &[("k8s/job.yaml", &without), ("main/k8s/job.yaml", &without)],
    );
    let output = place.run(&["dry-run", "--against", "main/k8s", "k8s"]);
    assert!(
        stdout(&output).starts_with("k8s/job.yaml:1: Job train (update): allowed"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn baseline_and_facts_come_from_the_configuration() {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: team-a}\nspec: {accessModes: [ReadWriteMany]}\n";
    let place = place(
        "baseline: ci/known.json\nfacts: [ci/pvc.yaml]",
        &[("k8s/job.yaml", JOB), ("ci/pvc.yaml", claim)],
    );
    let written = place.run(&["lint", "--write-baseline", "ci/known.json", "k8s"]);
    assert_eq!((code(&written), stderr(&written)), (0, "jobgate: 1 finding written to ci/known.json\n"));
    let lint = place.command(&["lint", "."]).current_dir(place.path().join("k8s")).output().unwrap();
    assert_eq!((code(&lint), stderr(&lint)), (0, ""));
    assert!(stdout(&lint).contains("1 baselined"), "{}", stdout(&lint));
    assert_eq!(code(&place.run(&["lint", "--no-config", "k8s"])), 1);
    // A diff is of everything, and the webhook knows no baseline.
    assert!(
        stdout(&place.run(&["lint", "--diff", "--unsafe-fixes", "k8s"])).contains("+  activeDeadlineSeconds")
    );
    assert_eq!(code(&place.run(&["dry-run", "k8s"])), 1);
    fs::write(place.path().join("other.json"), "{\"version\":1,\"findings\":[\n]}\n").unwrap();
    assert_eq!(code(&place.run(&["lint", "--baseline", "other.json", "k8s"])), 1);
    fs::write(place.path().join("ci/pvc.yaml"), "a: [").unwrap();
    assert_eq!(
        stderr(&place.run(&["lint", "k8s"])),
        "jobgate: facts in ci/pvc.yaml: line 1: `[` is never closed\n"
    );
    assert_eq!(code(&place.run(&["lint", "--facts", "k8s/job.yaml", "k8s"])), 0, "an argument replaces them");
}

#[test]
fn a_manifest_of_that_name_is_no_configuration() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: jobgate}\n";
    let place = Place::with(&[("k8s/jobgate.yaml", service), ("k8s/job.yaml", JOB), (".git/HEAD", "")]);
    let output = place.run(&["lint", "--format", "json", "k8s"]);
    assert_eq!((code(&output), json(&output).get("configuration")), (1, None));
    let named = place.run(&["lint", "--config", "k8s/jobgate.yaml"]);
    assert_eq!(code(&named), 2);
    assert!(stderr(&named).contains("k8s/jobgate.yaml:2:7: `kind` is `Service`"), "{}", stderr(&named));
}

#[test]
fn init_looks_at_a_repository_and_writes_a_configuration() {
    let chart = "apiVersion: v2\nname: chart\nversion: 1.0.0\n";
    let template = JOB.replace("name: train", "name: {{ .Release.Name }}");
    let place = Place::with(&[
        ("k8s/a.yaml", JOB),
        ("k8s/deep/b.yaml", &good()),
        (
            "cron.yaml",
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {schedule: '0 0 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: registry.example.com/a:v1}]}}}}}\n",
        ),
        ("chart/Chart.yaml", chart),
        ("chart/templates/job.yaml", &template),
        (".git/HEAD", ""),
    ]);
    let output = place.run(&["init"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    insta::assert_snapshot!(stdout(&output), @"
    found: 5 files, 5 documents, 3 jobs: Job (2), CronJob (1)
      in: k8s (2), . (1)
      charts that were not rendered: chart
    the policy `default` reports: 2 errors, 1 warning, 2 notes (filled in by the webhook)

    written: jobgate.yaml, with the policy `audit`

    next:
      jobgate lint                                            show what was found
      jobgate lint --diff                                     show what --fix would change (2 findings)
      jobgate lint --policy default                           show what would be denied
      jobgate lint --policy default --write-baseline FILE     baseline it, so that only new findings fail
      helm template chart | jobgate lint -                    lint a chart by hand
      git add jobgate.yaml                                    then run `jobgate lint` in CI
    ");
    let text = fs::read_to_string(place.path().join("jobgate.yaml")).unwrap();
    assert!(
        text.contains("\npolicy: audit\n") && text.contains("# Batch jobs were found in: k8s (2), . (1)."),
        "{text}"
    );
    let lint = place.run(&["lint", "--format", "json"]);
    assert_eq!(
        (code(&lint), json(&lint)["configuration"].clone()),
        (0, "jobgate.yaml".into()),
        "{}",
        stderr(&lint)
    );
    // An existing one is left alone.
    fs::write(place.path().join("jobgate.yaml"), "mine").unwrap();
    let again = place.run(&["init"]);
    assert_eq!(
        (code(&again), stdout(&again), stderr(&again)),
        (2, "", "jobgate: jobgate.yaml exists; --force replaces it\n")
    );
    assert_eq!(fs::read_to_string(place.path().join("jobgate.yaml")).unwrap(), "mine");
    assert_eq!(code(&place.run(&["init", "--force"])), 0);
    assert_eq!(fs::read_to_string(place.path().join("jobgate.yaml")).unwrap(), text);
}

#[test]
fn init_of_a_repository_without_jobs_says_so() {
    let place = Place::with(&[("sub/notes.yaml", "a: 1\n")]);
    let output = place.run(&["init", "sub"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    assert!(
        stdout(&output).starts_with("found: 1 file, 1 document: no batch jobs among them\n"),
        "{}",
        stdout(&output)
    );
    assert!(stdout(&output).contains("next, in sub:\n"), "{}", stdout(&output));
    let text = fs::read_to_string(place.path().join("sub/jobgate.yaml")).unwrap();
    assert!(text.contains("\npolicy: default\n"), "{text}");
    for directory in ["gone", "sub/notes.yaml"] {
        let output = place.run(&["init", directory]);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{}", stderr(&output));
    }
}
