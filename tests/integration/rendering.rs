//! `jobgate lint` and `dry-run` over charts and kustomizations: with tools that the test writes, so that the
//! machinery is tested where no tool is, and with those of the machine.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use jobgate::text::value::Value;

use crate::support::place::{JOB, Place, code, json, stderr, stdout};
use crate::support::programs;

/// A template of a Job: the one of [`JOB`] with an action.
fn template() -> String {
    JOB.replace("name: train\n", "name: {{ .Release.Name }}-train\n")
        .replace("registry.example.com/trainer:v1", "{{ .Values.image }}")
}

const CHART: &str = "apiVersion: v2\nname: our-chart\nversion: 0.1.0\n";
const VALUES: &str = "image: registry.example.com/trainer:v1\n";

/// What Helm makes of a template.
fn rendered(source: &str) -> String {
    format!("---\n# Source: {source}\n{}", JOB.replace("name: train\n", "name: release-name-train\n"))
}

/// A folder with a chart in `charts/train`.
fn with_chart(more: &[(&str, &str)]) -> Place {
    let template = template();
    let files = [
        ("charts/train/Chart.yaml", CHART),
        ("charts/train/values.yaml", VALUES),
        ("charts/train/templates/job.yaml", &*template),
    ];
    Place::with(&[&files[..], more].concat())
}

/// Writes a tool that is a shell script. It notes its arguments in `calls`.
fn tool(place: &Place, name: &str, script: &str) {
    let bin = place.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let file = bin.join(name);
    let calls = place.path().join("bin/calls");
    fs::write(&file, format!("#!/bin/sh\necho \"$@\" >> '{}'\n{script}\n", calls.display())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A tool that prints a text.
fn prints(place: &Place, name: &str, text: &str) {
    let file = place.path().join(format!("bin/{name}.out"));
    fs::create_dir_all(place.path().join("bin")).unwrap();
    fs::write(&file, text).unwrap();
    tool(place, name, &format!("cat '{}'", file.display()));
}

fn calls_of(place: &Place) -> Vec<String> {
    let text = fs::read_to_string(place.path().join("bin/calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Runs the binary with the tools of the test, and no others but those of the shell.
fn run(place: &Place, arguments: &[&str]) -> Output {
    let path = format!("{}:/bin:/usr/bin", place.path().join("bin").display());
    // A kubectl of the machine would be found there.
    let shells = place.path().join("shells");
    if !shells.exists() {
        fs::create_dir(&shells).unwrap();
        for name in ["sh", "cat", "sleep", "yes", "env", "printf", "head", "grep"] {
            let found =
                ["/bin", "/usr/bin"].iter().map(|bin| Path::new(bin).join(name)).find(|file| file.exists());
            symlink(found.unwrap(), shells.join(name)).unwrap();
        }
    }
    let path = path.replace(":/bin:/usr/bin", &format!(":{}", shells.display()));
    let scratch = place.path().join("tmp");
    fs::create_dir_all(&scratch).unwrap();
    let mut command = place.command(arguments);
    command.env("PATH", path).env("TMPDIR", scratch).timeout(Duration::from_secs(60)).output().unwrap()
}

/// The rules of a report's findings, with their places.
fn findings(report: &Value) -> Vec<String> {
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|found| {
        let (file, rule) = (found["file"].as_str().unwrap(), found["rule"].as_str().unwrap());
        format!("{file}:{} {rule}", found["start"]["line"])
    })
    .collect()
}

fn unjudged(report: &Value) -> Vec<String> {
    let all = report.get("unjudged").and_then(Value::as_array).into_iter().flatten();
    all.map(|unjudged| {
        let (file, message) = (unjudged["file"].as_str().unwrap(), unjudged["message"].as_str().unwrap());
        format!("{file}: {message}")
    })
    .collect()
}

fn lint(place: &Place, more: &[&str]) -> Value {
    json(&run(place, &[&["lint", "--format", "json"], more].concat()))
}

#[test]
fn a_chart_is_judged_as_helm_renders_it_at_the_lines_of_its_template() {
    let place = with_chart(&[]);
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    let report = lint(&place, &[]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"]);
    assert_eq!(unjudged(&report), [""; 0]);
    assert_eq!((&report["summary"]["objects"], &report["summary"]["charts"]), (&1.into(), &1.into()));
    let found = &report["findings"][0];
    assert_eq!((&found["fix"], &found["object"]["name"]), (&Value::Null, &"release-name-train".into()));
    let chart = fs::canonicalize(place.path().join("charts/train")).unwrap();
    assert_eq!(calls_of(&place), [format!("template release-name {}", chart.display())]);
    let output = run(&place, &["lint"]);
    assert!(stdout(&output).contains("rendered: 1 chart"), "{}", stdout(&output));
    assert!(stdout(&output).contains("charts/train/templates/job.yaml:6:1"), "{}", stdout(&output));
    assert_eq!(code(&output), 1);
    // The sample of the page is what is printed.
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rendering.md")).unwrap();
    let sample = page.split("$ jobgate lint\n").nth(1).unwrap().split("```").next().unwrap();
    let mut rest = stdout(&output);
    for piece in sample.split("…\n").filter(|piece| !piece.is_empty()) {
        let at = rest.find(piece).unwrap_or_else(|| panic!("{piece}\n is not in\n{rest}"));
        rest = &rest[at + piece.len()..];
    }
    // What it configures can be read.
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
    fs::write(place.path().join("sample.yaml"), format!("{head}{yaml}")).unwrap();
    let unread = run(&place, &["lint", "--config", "sample.yaml", "--exclude", "/*.yaml"]);
    assert_eq!((code(&unread), stderr(&unread).contains("cannot read charts/train/")), (2, true));
    for values in ["charts/train/production.yaml", "charts/train/staging.yaml", "gpu.yaml"] {
        fs::write(place.path().join(values), VALUES).unwrap();
    }
    let sample = run(&place, &["lint", "--config", "sample.yaml", "--exclude", "/*.yaml"]);
    assert!(stderr(&sample).is_empty(), "{}", stderr(&sample));
    // A fix that is asked for is withheld.
    let fixed = run(&place, &["lint", "--format", "json", "--fix", "--unsafe-fixes", "--exclude", "/*.yaml"]);
    let fixed = json(&fixed);
    assert_eq!(fixed["findings"][0]["withheld"], "it is rendered, so change the file by hand");
    assert_eq!(fixed["summary"]["withheld"], 1);
    for file in ["sample.yaml", "gpu.yaml"] {
        fs::remove_file(place.path().join(file)).unwrap();
    }
    // Every format has places in files that exist.
    for format in ["sarif", "github", "gitlab", "junit", "concise", "markdown", "html"] {
        let output = run(&place, &["lint", "--format", format]);
        assert!(stdout(&output).contains("charts/train/templates/job.yaml"), "{format}: {}", stdout(&output));
        assert!(!stdout(&output).contains("Chart.yaml:"), "{format}: {}", stdout(&output));
    }
}

#[test]
fn without_the_tool_or_without_leave_a_chart_is_not_judged() {
    let place = with_chart(&[]);
    let report = lint(&place, &[]);
    assert_eq!(
        unjudged(&report),
        ["charts/train/templates/job.yaml: the chart in charts/train is not rendered"]
    );
    let help = report["unjudged"][0]["help"].as_str().unwrap();
    assert!(help.contains("`helm template charts/train | jobgate lint -`"), "{help}");
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    for (arguments, configuration, expected) in [
        (&["--no-render"][..], "", 0),
        (&[], "render: {charts: false}\n", 0),
        (&[], "render: {kustomizations: false}\n", 1),
        (&["--render"], "render: {charts: false}\n", 1),
        (&["--no-render", "--render"], "", 1),
        (&["--diff"], "", 0),
    ] {
        let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
        fs::write(place.path().join("jobgate.yaml"), format!("{head}{configuration}")).unwrap();
        let _ = fs::remove_file(place.path().join("bin/calls"));
        run(&place, &[&["lint"], arguments].concat());
        assert_eq!(calls_of(&place).len(), expected, "{arguments:?} {configuration}");
    }
}

#[test]
fn each_set_of_values_is_a_rendering_and_what_is_the_same_is_said_once() {
    let configuration = "\
apiVersion: jobgate.dev/v1alpha1
kind: Configuration
render:
  values:
  - {charts: [/charts/train], files: [a.yaml, b.yaml]}
  - {charts: [train], files: []}
  - {charts: [/charts/other], files: [no.yaml]}
";
    let place = with_chart(&[("jobgate.yaml", configuration), ("a.yaml", ""), ("b.yaml", "")]);
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    let report = lint(&place, &[]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"]);
    assert_eq!((&report["summary"]["objects"], &report["summary"]["charts"]), (&2.into(), &1.into()));
    let root = fs::canonicalize(place.path()).unwrap();
    let root = root.display();
    let mut calls = calls_of(&place);
    calls.sort();
    assert_eq!(
        calls,
        [
            format!("template release-name {root}/charts/train"),
            format!(
                "template release-name {root}/charts/train --values {root}/a.yaml --values {root}/b.yaml"
            ),
        ]
    );
    // The namespace is passed on, as one word.
    let _ = fs::remove_file(place.path().join("bin/calls"));
    lint(&place, &["--namespace=--debug"]);
    assert!(
        calls_of(&place).iter().all(|call| call.ends_with(" --namespace=--debug")),
        "{:?}",
        calls_of(&place)
    );
    // One that is missing leaves the chart unjudged.
    fs::remove_file(place.path().join("b.yaml")).unwrap();
    let report = lint(&place, &[]);
    assert!(unjudged(&report)[0].contains("cannot read b.yaml"), "{:?}", unjudged(&report));
}

#[test]
fn a_tool_that_fails_hangs_or_floods_leaves_the_chart_unjudged() {
    let configuration = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\nrender: {timeout: 1s}\n";
    let place = with_chart(&[("jobgate.yaml", configuration)]);
    for (script, expected) in [
        (
            "echo 'walk.go: x' >&2; printf 'Error: no \\033[31mway\\n' >&2; exit 1",
            "`helm template` fails: no [31mway",
        ),
        ("exit 3", "`helm template` fails"),
        ("sleep 60 & sleep 60", "`helm template` takes longer than 1s"),
        ("yes", "`helm template` prints more than 1024 KiB"),
    ] {
        tool(&place, "helm", script);
        let begun = Instant::now();
        let report = lint(&place, &["--max-file-size", "1M"]);
        assert!(begun.elapsed() < Duration::from_secs(15), "{script}: {:?}", begun.elapsed());
        assert_eq!(
            unjudged(&report),
            [format!(
                "charts/train/templates/job.yaml: the chart in charts/train is not rendered: {expected}"
            )],
            "{script}"
        );
        assert!(report["unjudged"][0]["help"].as_str().unwrap().contains("helm template charts/train"));
        let output = run(&place, &["lint", "--max-file-size", "1M", "--fail-on-unjudged"]);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        let output = run(&place, &["lint", "--max-file-size", "1M"]);
        // Said once, with the way out.
        assert_eq!((code(&output), stderr(&output).matches(expected).count()), (2, 1), "{}", stderr(&output));
        assert!(!stdout(&output).contains(expected) && !stdout(&output).contains("unrendered-template"));
        assert!(stderr(&output).contains("add its directory to `render.allowFailures` in jobgate.yaml"));
        // What else there is, is judged.
        fs::write(place.path().join("job.yaml"), JOB).unwrap();
        let output = run(&place, &["lint", "--max-file-size", "1M"]);
        assert_eq!(code(&output), 2);
        assert!(stdout(&output).contains("job.yaml:6:1"), "{}", stdout(&output));
        fs::remove_file(place.path().join("job.yaml")).unwrap();
    }
    let left: Vec<_> = fs::read_dir(place.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// By the configuration or a baseline, and each by its name.
#[test]
fn a_rendering_that_fails_can_be_accepted() {
    let place =
        with_chart(&[("charts/old/Chart.yaml", CHART), ("charts/old/templates/job.yaml", &template())]);
    tool(&place, "helm", "exit 1");
    assert_eq!(code(&run(&place, &["lint"])), 2);
    let configure = |allowed: &str| {
        let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
        let text = format!("{head}render: {{allowFailures: {allowed}}}\n");
        fs::write(place.path().join("jobgate.yaml"), text).unwrap();
        run(&place, &["lint"])
    };
    let one = configure("[charts/old]");
    assert_eq!(
        (code(&one), stderr(&one).contains("charts/old"), stderr(&one).contains("charts/train")),
        (2, false, true)
    );
    let both = configure("[charts/*]");
    assert_eq!(code(&both), 0, "{}", stderr(&both));
    assert!(stdout(&both).contains("charts that could not be rendered"), "{}", stdout(&both));
    assert_eq!(code(&run(&place, &["lint", "--fail-on-unjudged"])), 1);
    fs::remove_file(place.path().join("jobgate.yaml")).unwrap();
    run(&place, &["lint", "--write-baseline", "known.json"]);
    let known = run(&place, &["lint", "--baseline", "known.json"]);
    assert_eq!(code(&known), 0, "{}", stderr(&known));
}

/// What was asked for by name.
#[test]
fn to_render_without_the_tool_is_an_error() {
    let place = with_chart(&[]);
    let output = run(&place, &["lint", "--render", "charts/train"]);
    assert_eq!(code(&output), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("`helm` is not on the PATH; install Helm"), "{}", stderr(&output));
    let asked_nothing = run(&place, &["lint", "charts/train"]);
    assert_eq!(code(&asked_nothing), 0);
    let text = stdout(&asked_nothing);
    assert_eq!(text.matches("`helm` is not on the PATH: install Helm").count(), 1, "{text}");
    // Nothing needs it.
    let job = Place::with(&[("job.yaml", JOB)]);
    assert_eq!(code(&run(&job, &["lint", "--render"])), 1);
}

#[test]
fn a_kustomization_that_names_what_is_not_there_is_an_error() {
    let place =
        Place::with(&[("job.yaml", JOB), ("kustomization.yaml", "resources: [job.yaml, nojob.yaml]\n")]);
    tool(&place, "kubectl", "exit 1");
    let output = run(&place, &["lint"]);
    assert_eq!(code(&output), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("`nojob.yaml` does not exist"), "{}", stderr(&output));
}

/// Helm renders no chart whose dependencies are not in `charts/`, so a copy does not ask for them.
#[test]
fn a_chart_is_rendered_without_the_dependencies_that_are_missing() {
    let dependencies = "dependencies: [{name: common, version: 1.x}, {name: here, version: 1.x}]\n";
    let place = with_chart(&[
        ("charts/train/Chart.yaml", &format!("{CHART}{dependencies}")),
        ("charts/train/charts/here/Chart.yaml", "apiVersion: v2\nname: here\nversion: 1.0.0\n"),
    ]);
    let text = place.path().join("rendered");
    fs::write(&text, rendered("our-chart/templates/job.yaml")).unwrap();
    // As Helm does.
    tool(
        &place,
        "helm",
        &format!(
            "grep -q common \"$3/Chart.yaml\" && {{ echo 'Error: missing in charts/' >&2; exit 1; }}\n\
             grep -q here \"$3/Chart.yaml\" || exit 1\ncat '{}'",
            text.display()
        ),
    );
    let report = lint(&place, &[]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"]);
    assert_eq!(
        unjudged(&report),
        [
            "charts/train/Chart.yaml: the chart in charts/train is rendered without its dependencies, which are missing: `common`"
        ]
    );
    assert_eq!(report["unjudged"][0]["reason"], "chart-dependencies");
    let left: Vec<_> = fs::read_dir(place.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let chart = fs::read_to_string(place.path().join("charts/train/Chart.yaml")).unwrap();
    assert!(chart.contains("common"), "the chart itself is not touched");
}

#[test]
fn a_chart_that_needs_its_dependencies_fails_and_one_that_serves_others_is_not_rendered() {
    let place = with_chart(&[
        ("charts/train/Chart.yaml", &format!("{CHART}dependencies: [{{name: common, version: 1.x}}]\n")),
        ("charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n"),
        ("charts/lib/templates/job.yaml", "{{ define \"lib.job\" }}\nkind: Job\n{{ end }}\n"),
    ]);
    tool(&place, "helm", "exit 1");
    let report = lint(&place, &[]);
    assert_eq!(
        unjudged(&report),
        ["charts/train/templates/job.yaml: the chart in charts/train is not rendered: \
             dependencies are missing (common), and without them `helm template` fails"]
    );
    assert_eq!(report["unjudged"][0]["help"], "run `helm dependency build charts/train`, and lint again");
    assert_eq!(calls_of(&place).len(), 1, "only a copy without the dependencies was tried");
    // Also where Helm is missing.
    fs::remove_file(place.path().join("bin/helm")).unwrap();
    let report = lint(&place, &[]);
    assert!(unjudged(&report).iter().all(|unjudged| !unjudged.contains("charts/lib")), "{report}");
}

#[test]
fn a_subchart_is_rendered_with_its_chart_and_found_in_it() {
    let place = with_chart(&[
        ("charts/train/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/train/charts/sub/templates/a.yaml", &template()),
        ("charts/train/charts/sub/templates/off.yaml", &template()),
        ("charts/train/charts/packed-1.0.0.tgz", ""),
        (
            "charts/train/Chart.yaml",
            &format!("{CHART}dependencies:\n- {{name: sub}}\n- name: packed\n  version: 1.0.0\n"),
        ),
    ]);
    let text = rendered("our-chart/charts/sub/templates/a.yaml")
        + &rendered("our-chart/charts/packed/templates/x.yaml")
        + &rendered("our-chart/templates/job.yaml");
    prints(&place, "helm", &text);
    let report = lint(&place, &[]);
    assert_eq!(
        findings(&report),
        [
            "charts/train/Chart.yaml:6 deadline",
            "charts/train/charts/sub/templates/a.yaml:6 deadline",
            "charts/train/templates/job.yaml:6 deadline",
        ]
    );
    assert_eq!(calls_of(&place).len(), 1);
    // What is rendered to nothing was not judged.
    assert_eq!(
        unjudged(&report),
        [
            "charts/train/charts/sub/templates/off.yaml: this template renders to nothing with the values that were used"
        ]
    );
    assert_eq!(report["unjudged"][0]["reason"], "no-output");
}

#[test]
fn no_rendering_points_out_of_its_chart() {
    let place = with_chart(&[("outside.yaml", "a: 1\n")]);
    let sources = [
        "../../../etc/passwd",
        "our-chart/../../outside.yaml",
        "our-chart//etc/passwd",
        "our-chart/templates/gone.yaml",
        "",
    ];
    prints(&place, "helm", &sources.map(rendered).concat());
    let report = lint(&place, &[]);
    // All of them are about the chart, at one place.
    assert_eq!(findings(&report), ["charts/train/Chart.yaml:1 deadline"]);
    assert_eq!(report["summary"]["objects"], 5);
    // As many as there can be cost no more than their bytes.
    tool(&place, "helm", "yes \"$(printf -- '---\\n# Source: ../../../etc/passwd')\" | head -n 2000000");
    let begun = Instant::now();
    let report = lint(&place, &[]);
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    assert_eq!(findings(&report), [""; 0]);
}

#[test]
fn names_are_no_options_and_links_are_followed_to_nowhere_else() {
    let job = template();
    let place = Place::with(&[
        ("-f --post-renderer=x/Chart.yaml", CHART),
        ("-f --post-renderer=x/templates/job.yaml", &job),
        ("far/Chart.yaml", CHART),
        ("far/templates/job.yaml", &job),
    ]);
    symlink("far", place.path().join("link")).unwrap();
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    let report = lint(&place, &[]);
    assert_eq!(
        findings(&report),
        ["-f --post-renderer=x/templates/job.yaml:6 deadline", "far/templates/job.yaml:6 deadline"]
    );
    let root = fs::canonicalize(place.path()).unwrap();
    let mut calls = calls_of(&place);
    calls.sort();
    assert_eq!(
        calls,
        [
            format!("template release-name {}/-f --post-renderer=x", root.display()),
            format!("template release-name {}/far", root.display()),
        ]
    );
    // A link that is named is the chart that it leads to.
    let report = lint(&place, &["link"]);
    assert_eq!(findings(&report), ["link/templates/job.yaml:6 deadline"]);
}

#[test]
fn a_named_template_brings_in_its_chart() {
    let place = with_chart(&[]);
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    for file in ["charts/train/templates/job.yaml", "charts/train/values.yaml", "charts/train/Chart.yaml"] {
        let report = lint(&place, &[file]);
        assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"], "{file}");
    }
    // From inside of the chart, too.
    let mut command = place.command(&["lint", "--format", "json", "job.yaml"]);
    let path = format!("{}:{}", place.path().join("bin").display(), place.path().join("shells").display());
    let output =
        command.current_dir(place.path().join("charts/train/templates")).env("PATH", path).output().unwrap();
    assert_eq!(findings(&json(&output)), ["job.yaml:6 deadline"]);
}

#[test]
fn what_is_excluded_is_not_reported_through_a_rendering() {
    let place = with_chart(&[("charts/train/templates/tests/job.yaml", &template())]);
    let text = rendered("our-chart/templates/job.yaml") + &rendered("our-chart/templates/tests/job.yaml");
    prints(&place, "helm", &text);
    let report = lint(&place, &["--exclude", "tests/"]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"]);
}

#[test]
fn a_template_that_is_yaml_keeps_its_own_places_and_fixes() {
    let plain = JOB.replace("  podReplacementPolicy: Failed\n", "");
    let place = with_chart(&[("charts/train/templates/plain.yaml", &plain)]);
    let text =
        rendered("our-chart/templates/job.yaml") + "---\n# Source: our-chart/templates/plain.yaml\n" + &plain;
    prints(&place, "helm", &text);
    let report = lint(&place, &[]);
    let fixes: Vec<(String, &Value)> = findings(&report)
        .into_iter()
        .zip(report["findings"].as_array().unwrap().iter().map(|found| &found["fix"]))
        .collect();
    assert_eq!(
        fixes,
        [
            ("charts/train/templates/job.yaml:6 deadline".to_owned(), &Value::Null),
            ("charts/train/templates/plain.yaml:6 deadline".to_owned(), &"unsafe".into()),
            ("charts/train/templates/plain.yaml:6 pod-replacement-policy".to_owned(), &"safe".into()),
        ]
    );
    assert_eq!(report["summary"]["objects"], 2);
}

#[test]
fn claims_of_a_rendering_are_those_of_its_jobs() {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: MODE, namespace: team-a}\nspec: {accessModes: [ReadWriteOnce]}\n"
        .replace("MODE", "checkpoints");
    let uses =
        "      volumes:\n        - name: c\n          persistentVolumeClaim: {claimName: checkpoints}\n";
    let parallel = |text: &str| {
        text.replace("  ttl", "  activeDeadlineSeconds: 60\n  parallelism: 4\n  ttl")
            .replace("      restartPolicy", &format!("{uses}      restartPolicy"))
    };
    let pvc = claim.replace("checkpoints", "{{ .Values.claim }}");
    let place = with_chart(&[
        ("charts/train/templates/job.yaml", &parallel(&template())),
        ("charts/train/templates/pvc.yaml", &pvc),
    ]);
    let text = parallel(&rendered("our-chart/templates/job.yaml"))
        + "---\n# Source: our-chart/templates/pvc.yaml\n"
        + &claim;
    prints(&place, "helm", &text);
    let report = lint(&place, &["--select", "checkpoint-volume-access"]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:15 checkpoint-volume-access"]);
    let related = report["findings"][0]["related"].as_array().unwrap();
    let files: Vec<String> = related
        .iter()
        .map(|other| format!("{}:{}", other["file"].as_str().unwrap(), other["start"]["line"]))
        .collect();
    assert_eq!(files, ["charts/train/templates/job.yaml:8", "charts/train/templates/pvc.yaml:4"]);
}

#[test]
fn a_dry_run_has_verdicts_for_what_is_rendered() {
    let place = with_chart(&[]);
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    let report = json(&run(&place, &["dry-run", "--format", "json"]));
    let verdict = &report["verdicts"][0];
    assert_eq!(verdict["verdict"], "denied by jobgate");
    assert_eq!(verdict["file"], "charts/train/templates/job.yaml");
    assert_eq!(verdict["source"], "our-chart/templates/job.yaml");
    assert_eq!(verdict["start"]["line"], 2);
}

/// Two overlays of one base; one adds a deadline.
fn with_overlays(more: &[(&str, &str)]) -> Place {
    let files = [
        ("base/kustomization.yaml", "resources: [job.yaml]\n"),
        ("base/job.yaml", JOB),
        ("overlays/dev/kustomization.yaml", "resources: [../../base]\nnamePrefix: dev-\n"),
        (
            "overlays/prod/kustomization.yaml",
            "resources: [../../base]\nnamePrefix: prod-\npatches: [{path: deadline.yaml}]\n",
        ),
        (
            "overlays/prod/deadline.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: team-a}\nspec: {activeDeadlineSeconds: 60}\n",
        ),
    ];
    Place::with(&[&files[..], more].concat())
}

/// Runs the binary with the machine's own `kubectl`; nothing if there is none.
fn with_kubectl(place: &Place, arguments: &[&str]) -> Option<Output> {
    let kubectl = match programs::kubectl() {
        Ok(kubectl) => kubectl,
        Err(why) => {
            programs::not_run("rendering by kubectl", &why);
            return None;
        }
    };
    let bin = kubectl.parent().expect("a program in a folder");
    Some(place.command(arguments).env("PATH", bin).timeout(Duration::from_secs(120)).output().unwrap())
}

#[test]
fn a_base_is_judged_through_its_overlays() {
    let place = with_overlays(&[]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json"]) else { return };
    let report = json(&output);
    // Said once, at the base, by itself: only `dev` lacks the deadline.
    assert_eq!(findings(&report), ["base/job.yaml:6 deadline"]);
    assert_eq!(report["findings"][0]["object"]["name"], "train");
    assert_eq!(unjudged(&report), [""; 0]);
    assert_eq!((&report["summary"]["objects"], &report["summary"]["kustomizations"]), (&2.into(), &2.into()));
    // With a deadline in both, nothing is left, although the base by itself has none.
    let dev = "resources: [../../base]\nnamePrefix: dev-\npatches: [{path: ../prod/deadline.yaml}]\n";
    fs::write(place.path().join("overlays/dev/kustomization.yaml"), dev.replace("../prod/", "")).unwrap();
    fs::copy(
        place.path().join("overlays/prod/deadline.yaml"),
        place.path().join("overlays/dev/deadline.yaml"),
    )
    .unwrap();
    let report = json(&with_kubectl(&place, &["lint", "--format", "json"]).unwrap());
    assert_eq!((findings(&report), unjudged(&report)), (Vec::new(), Vec::new()));
}

#[test]
fn a_named_file_brings_in_the_kustomizations_that_it_is_seen_to_be_in() {
    let place = with_overlays(&[]);
    let lint = |paths: &[&str]| {
        let output = with_kubectl(&place, &[&["lint", "--format", "json"], paths].concat())?;
        let report = json(&output);
        Some((findings(&report), unjudged(&report), report["summary"]["kustomizations"].clone()))
    };
    let Some(found) = lint(&["base/job.yaml"]) else { return };
    // Nothing says here which overlays there are.
    assert_eq!(found, (vec!["base/job.yaml:6 deadline".to_owned()], Vec::new(), 1.into()));
    let found = lint(&["overlays/prod/deadline.yaml"]).unwrap();
    assert_eq!(found, (Vec::new(), Vec::new(), 1.into()));
    let found = lint(&["overlays/dev/kustomization.yaml"]).unwrap();
    assert_eq!(found, (vec!["base/job.yaml:6 deadline".to_owned()], Vec::new(), 1.into()));
    let found = lint(&["overlays/prod", "base"]).unwrap();
    assert_eq!(found, (Vec::new(), Vec::new(), 1.into()));
}

#[test]
fn what_an_overlay_does_wrong_is_found_in_its_files() {
    let place = with_overlays(&[
        (
            "overlays/prod/deadline.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: team-a}\nspec:\n  activeDeadlineSeconds: 60\n  template:\n    spec:\n      restartPolicy: Always\n",
        ),
        (
            "overlays/dev/kustomization.yaml",
            "resources: [../../base]\npatches:\n- patch: |-\n    - {op: replace, path: /spec/template/spec/restartPolicy, value: Always}\n  target: {kind: Job}\n",
        ),
    ]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json", "--select", "restart-policy"])
    else {
        return;
    };
    let report = json(&output);
    assert_eq!(
        findings(&report),
        ["overlays/dev/kustomization.yaml:1 restart-policy", "overlays/prod/deadline.yaml:8 restart-policy"]
    );
}

#[test]
fn a_fix_of_a_base_is_offered_and_made_before_it_is_rendered() {
    let place = with_overlays(&[("base/job.yaml", &JOB.replace("  podReplacementPolicy: Failed\n", ""))]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json", "--fix"]) else { return };
    let report = json(&output);
    assert_eq!(findings(&report), ["base/job.yaml:6 deadline"]);
    assert_eq!(report["summary"]["fixed"], 1);
    let text = fs::read_to_string(place.path().join("base/job.yaml")).unwrap();
    assert!(text.contains("podReplacementPolicy: Failed"), "{text}");
}

#[test]
fn the_tree_is_not_touched_and_nothing_is_fetched() {
    let place = with_overlays(&[
        (
            "overlays/far/kustomization.yaml",
            "resources: [../../base, 'https://example.invalid/x.yaml']\nnameSuffix: -x\n",
        ),
        ("overlays/gone/kustomization.yaml", "resources: [../../base, gone.yaml]\nnameSuffix: -x\n"),
        ("a/kustomization.yaml", "resources: [../b]\nnamePrefix: a-\n"),
        ("b/kustomization.yaml", "resources: [../a, job.yaml]\nnamePrefix: b-\n"),
        ("b/job.yaml", JOB),
    ]);
    let files = |place: &Place| {
        let mut all: Vec<PathBuf> =
            ignore::Walk::new(place.path()).map(|entry| entry.unwrap().into_path()).collect();
        all.sort();
        all
    };
    let before = files(&place);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json"]) else { return };
    assert_eq!(files(&place), before);
    let said = unjudged(&json(&output));
    let (own, cycle): (Vec<&String>, Vec<&String>) =
        said.iter().partition(|line| line.starts_with("overlays/"));
    assert_eq!(
        own,
        [
            "overlays/far/kustomization.yaml: the kustomization in overlays/far is not rendered: \
             `https://example.invalid/x.yaml` is not here, and nothing is fetched",
            "overlays/gone/kustomization.yaml: the kustomization in overlays/gone is not rendered: `gone.yaml` does not exist",
        ]
    );
    assert!(cycle.iter().any(|line| line.starts_with("a/") && line.contains("cycle")), "{cycle:?}");
}

#[test]
fn what_is_not_here_is_fetched_only_where_the_configuration_says_so() {
    let head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";
    let place = with_overlays(&[
        ("overlays/dev/kustomization.yaml", "resources: [../../base, 'https://example.invalid/x.yaml']\n"),
        ("jobgate.yaml", &format!("{head}render: {{network: true}}\n")),
    ]);
    let job = place.path().join("base/job.yaml");
    // Only one that is named gives leave. Without it, addresses lead nowhere.
    let script = "test \"$GIT_ALLOW_PROTOCOL$HTTPS_PROXY\" = \"$1\" || exit 1";
    tool(&place, "kustomize", &format!("set -- https:http:ssh:git; {script}; cat '{}'", job.display()));
    let report = lint(&place, &["--config", "jobgate.yaml"]);
    assert_eq!((unjudged(&report), &report["summary"]["kustomizations"]), (Vec::new(), &2.into()));
    assert!(calls_of(&place).iter().all(|call| call.starts_with("build /")), "{:?}", calls_of(&place));
    fs::write(place.path().join("jobgate.yaml"), head).unwrap();
    tool(&place, "kustomize", &format!("set -- nonehttp://127.0.0.1:9; {script}; cat '{}'", job.display()));
    let report = lint(&place, &[]);
    assert_eq!(report["summary"]["kustomizations"], 1, "{:?}", unjudged(&report));
    assert!(
        unjudged(&report)[0]
            .ends_with("`https://example.invalid/x.yaml` is not here, and nothing is fetched")
    );
}

#[test]
fn a_tool_that_does_not_say_where_documents_come_from_is_enough() {
    let place = with_overlays(&[]);
    fs::remove_dir_all(place.path().join("overlays/prod")).unwrap();
    let two = format!("{JOB}---\n{}", JOB.replace("name: train\n", "name: other\n"));
    fs::write(place.path().join("two.yaml"), &two).unwrap();
    // As an old kustomize that does not know the field for it.
    let script = format!(
        "grep -q buildMetadata \"$2/kustomization.yaml\" && {{ echo 'Error: unknown field' >&2; exit 1; }}\ncat '{}'",
        place.path().join("two.yaml").display()
    );
    tool(&place, "kustomize", &script);
    let report = lint(&place, &["--exclude", "two.yaml"]);
    assert_eq!(findings(&report), ["base/job.yaml:6 deadline", "overlays/dev/kustomization.yaml:1 deadline"]);
    assert_eq!((unjudged(&report), &report["summary"]["objects"]), (Vec::new(), &2.into()));
}

#[test]
fn a_stricter_policy_of_an_overlay_is_not_hidden_by_the_base() {
    let configuration = "\
apiVersion: jobgate.dev/v1alpha1
kind: Configuration
policy: audit
overrides: [{paths: [/overlays/dev], policy: default}]
";
    let place = with_overlays(&[("jobgate.yaml", configuration)]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json"]) else { return };
    let report = json(&output);
    assert_eq!(findings(&report), ["base/job.yaml:6 deadline"]);
    assert_eq!((&report["findings"][0]["action"], code(&output)), (&"deny".into(), 1));
}

#[test]
fn the_parts_of_what_cannot_be_rendered_are() {
    let place = with_overlays(&[(
        "overlays/all/kustomization.yaml",
        "resources: [../dev, ../prod, 'https://example.invalid/x']\n",
    )]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json"]) else { return };
    let report = json(&output);
    assert_eq!((&report["summary"]["objects"], &report["summary"]["kustomizations"]), (&2.into(), &2.into()));
    assert_eq!(unjudged(&report).len(), 1, "{:?}", unjudged(&report));
}

#[test]
fn many_overlays_of_a_large_base_are_judged_in_time_and_in_one_order() {
    let jobs: String = (0..300)
        .map(|nth| format!("---\n{}", JOB.replace("name: train\n", &format!("name: train-{nth}\n"))))
        .collect();
    // The one that is patched.
    let jobs = jobs.replace("name: train-0\n", "name: train\n");
    let place = with_overlays(&[("base/job.yaml", &jobs)]);
    let Some(output) = with_kubectl(&place, &["lint", "--format", "json", "--threads", "1"]) else { return };
    let report = json(&output);
    assert_eq!(report["summary"]["objects"], 600);
    let again = with_kubectl(&place, &["lint", "--format", "json", "--threads", "2"]).unwrap();
    assert_eq!(stdout(&output), stdout(&again));
}

#[test]
fn init_looks_at_what_is_rendered_and_says_how() {
    let place = with_chart(&[]);
    prints(&place, "helm", &rendered("our-chart/templates/job.yaml"));
    let output = run(&place, &["init"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("1 job: Job (1)"), "{}", stdout(&output));
    let written = fs::read_to_string(place.path().join("jobgate.yaml")).unwrap();
    assert!(written.contains("\nrender:\n  charts: true\n"), "{written}");
    let report = lint(&place, &[]);
    assert_eq!(findings(&report), ["charts/train/templates/job.yaml:6 deadline"]);
}

/// Helm itself, not what stands for it elsewhere.
#[test]
fn helm_itself_renders_what_is_judged() {
    let helm = match programs::helm() {
        Ok(helm) => helm,
        Err(why) => return programs::not_run("rendering by Helm itself", &why),
    };
    let many = "\
{{- range $nth := until (int .Values.runs) }}
---
{{ include \"our-chart.job\" $ }}
{{- end }}
";
    let helper = "{{- define \"our-chart.job\" -}}\n".to_owned() + &template() + "{{- end }}\n";
    let place = with_chart(&[
        ("charts/train/templates/many.yaml", many),
        ("charts/train/templates/_helpers.tpl", &helper),
        ("charts/train/values.yaml", &format!("{VALUES}runs: 2\n")),
    ]);
    fs::create_dir_all(place.path().join("bin")).unwrap();
    tool(&place, "helm", &format!("exec '{}' \"$@\"", helm.display()));
    let report = lint(&place, &[]);
    assert_eq!(
        findings(&report),
        ["charts/train/templates/job.yaml:6 deadline", "charts/train/templates/many.yaml:3 deadline"],
        "{:?}",
        unjudged(&report)
    );
    assert_eq!(report["summary"]["objects"], 3);
}
