//! A stranger's repository: linting writes nothing outside what it was given, reads nothing without end, asks no
//! network, and prints nothing that a CI runner takes for a command.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command as System, Output};
use std::time::{Duration, Instant};

use crate::support::place::{JOB, Place, code, good, json, stderr, stdout};

const HEAD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";

/// A policy that warns about a missing deadline.
const OURS: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec: {rules: {deadline: {action: warn}}}\n";

/// What a fix changes.
fn fixable() -> String {
    good().replace("  ttlSecondsAfterFinished: 3600\n", "")
}

/// A folder with a repository in `repo`, and with files of the user beside it.
fn place(files: &[(&str, &str)]) -> Place {
    Place::with(&[&[("repo/.git/HEAD", ""), ("home/.bashrc", "mine\n")][..], files].concat())
}

/// Runs the binary in the repository. Nothing may take long.
fn run(place: &Place, arguments: &[&str]) -> Output {
    let begun = Instant::now();
    let mut command = place.command(arguments);
    command.current_dir(place.path().join("repo")).timeout(Duration::from_secs(60));
    let output = command.output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(50), "{arguments:?}");
    output
}

fn link(place: &Place, to: &str, from: &str) {
    symlink(to, place.path().join(from)).unwrap();
}

fn read(place: &Place, path: &str) -> String {
    fs::read_to_string(place.path().join(path)).unwrap()
}

/// The names in a directory.
fn names(place: &Place, path: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path().join(path)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

// Links that are written.

#[test]
fn no_report_is_written_through_a_link() {
    let place = place(&[("repo/job.yaml", JOB)]);
    link(&place, "../home/.bashrc", "repo/jobgate.sarif");
    link(&place, "../home/new", "repo/broken.sarif");
    link(&place, "../home", "repo/out");
    link(&place, "..", "repo/up");
    fs::create_dir(place.path().join("repo/real")).unwrap();
    link(&place, "real", "repo/near");
    for (file, why) in [
        ("jobgate.sarif", "it is a link"),
        ("broken.sarif", "it is a link"),
        ("out/.bashrc", "leads out"),
        ("out/new", "leads out"),
        ("up/home/.bashrc", "leads out"),
        ("./out/new", "leads out"),
        ("real/../out/new", "leads out"),
    ] {
        for how in [&["--format", "sarif", "--output-file", file][..], &["--write-baseline", file]] {
            let output = run(&place, &[&["lint"], how].concat());
            assert_eq!(code(&output), 2, "{file}");
            assert!(stderr(&output).contains(why), "{file}: {}", stderr(&output));
        }
    }
    // Also by its whole path, which is below the current directory.
    let whole = place.path().join("repo/out/new");
    let whole = fs::canonicalize(place.path()).unwrap().join(whole.strip_prefix(place.path()).unwrap());
    assert_eq!(code(&run(&place, &["lint", "--output-file", whole.to_str().unwrap()])), 2);
    assert_eq!(read(&place, "home/.bashrc"), "mine\n");
    assert_eq!(names(&place, "home"), [".bashrc"]);
    // What does not leave the directory is written, and what the user names outside of it.
    for file in ["near/report", "../home/report"] {
        assert_eq!(code(&run(&place, &["lint", "--output-file", file])), 1);
    }
    assert_eq!((names(&place, "repo/real"), names(&place, "home").len()), (vec!["report".to_owned()], 2));
}

#[test]
fn no_configuration_is_written_through_a_link() {
    let place = place(&[("repo/job.yaml", JOB)]);
    link(&place, "../home/.bashrc", "repo/jobgate.yaml");
    assert_eq!(code(&run(&place, &["init"])), 2);
    assert_eq!(code(&run(&place, &["init", "--force"])), 2);
    assert_eq!(read(&place, "home/.bashrc"), "mine\n");
}

#[test]
fn no_fix_leaves_what_was_named() {
    let text = fixable();
    let place = place(&[
        ("home/victim.yaml", &text),
        ("home/more/victim.yaml", &text),
        ("repo/k8s/real.yaml", &text),
        ("repo/k8s/.git/hidden.yaml", &text),
    ]);
    link(&place, "../../home/victim.yaml", "repo/k8s/far.yaml");
    link(&place, "far.yaml", "repo/k8s/twice.yaml");
    link(&place, "../../home/more", "repo/k8s/directory");
    link(&place, "directory/victim.yaml", "repo/k8s/through.yaml");
    link(&place, ".git/hidden.yaml", "repo/k8s/git.yaml");
    link(&place, "real.yaml", "repo/k8s/near.yaml");
    for (arguments, more) in [(&["."][..], 0), (&["k8s"], 0), (&["k8s/*.yaml"], 0), (&["."], 0)] {
        let output = run(&place, &[&["lint", "--fix", "--format", "json"], arguments].concat());
        let report = json(&output);
        let withheld: Vec<&str> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|finding| {
                let why = finding["withheld"].as_str()?;
                assert!(why.contains("a link that leads out of the directory"), "{why}");
                finding["file"].as_str()?.rsplit('/').next()
            })
            .collect();
        assert_eq!(withheld, ["far.yaml", "git.yaml", "through.yaml", "twice.yaml"], "{arguments:?}");
        assert_eq!(report["summary"]["withheld"], 4 + more);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    for untouched in ["home/victim.yaml", "home/more/victim.yaml", "repo/k8s/.git/hidden.yaml"] {
        assert_eq!(read(&place, untouched), text, "{untouched}");
    }
    assert_ne!(read(&place, "repo/k8s/real.yaml"), text, "what is inside is fixed, once");
    assert_eq!(read(&place, "repo/k8s/real.yaml").matches("ttlSecondsAfterFinished").count(), 1);
    assert!(place.path().join("repo/k8s/near.yaml").is_symlink());
    let said = run(&place, &["lint", "--fix"]);
    assert!(stdout(&said).contains("not fixed: the file is a link that leads out"), "{}", stdout(&said));
    // A link that is named is fine.
    assert_eq!(code(&run(&place, &["lint", "--fix", "k8s/far.yaml"])), 0);
    assert_ne!(read(&place, "home/victim.yaml"), text);
    assert!(place.path().join("repo/k8s/far.yaml").is_symlink());
}

#[test]
fn no_case_is_updated_through_a_link() {
    let place = place(&[("home/victim.yaml", JOB), ("repo/cases/a.yaml", JOB)]);
    link(&place, "../../home/victim.yaml", "repo/cases/far.yaml");
    run(&place, &["policy", "test", "--update", "cases"]);
    assert_eq!(read(&place, "home/victim.yaml"), JOB);
    assert!(read(&place, "repo/cases/a.yaml").contains("# expect:"));
}

// A configuration that nobody has named.

#[test]
fn a_configuration_that_is_found_names_nothing_outside_its_directory() {
    let place = place(&[
        ("home/ours.yaml", OURS),
        ("home/k8s/job.yaml", JOB),
        ("home/pvc.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n"),
        ("home/baseline.json", "{\"version\":1,\"findings\":[]}"),
        ("home/values.yaml", "a: 1\n"),
        ("repo/job.yaml", JOB),
        ("repo/charts/x/Chart.yaml", "name: x\n"),
    ]);
    link(&place, "../home", "repo/out");
    link(&place, "../home/ours.yaml", "repo/ours.yaml");
    link(&place, "../home/baseline.json", "repo/baseline.json");
    let home = fs::canonicalize(place.path().join("home")).unwrap();
    let home = home.to_str().unwrap();
    let configurations = [
        "policy: ../home/ours.yaml".to_owned(),
        "policy: ours.yaml".to_owned(),
        "policy: out/ours.yaml".to_owned(),
        format!("policy: {home}/ours.yaml"),
        "overrides: [{paths: ['*'], policy: ../home/ours.yaml}]".to_owned(),
        "baseline: ../home/baseline.json".to_owned(),
        "baseline: baseline.json".to_owned(),
        "facts: [../home/pvc.yaml]".to_owned(),
        "facts: [out/pvc.yaml]".to_owned(),
        "paths: [../home/k8s]".to_owned(),
        "paths: [out/k8s]".to_owned(),
        "paths: ['out/k8s/*.yaml']".to_owned(),
        format!("paths: [{home}/k8s]"),
        "render: {values: [{charts: ['*'], files: [../home/values.yaml]}]}".to_owned(),
        "render: {values: [{charts: ['*'], files: [out/values.yaml]}]}".to_owned(),
    ];
    for configuration in configurations {
        fs::write(place.path().join("repo/jobgate.yaml"), format!("{HEAD}{configuration}\n")).unwrap();
        let found = run(&place, &["lint"]);
        assert_eq!(code(&found), 2, "{configuration}: {}", stdout(&found));
        let said = stderr(&found);
        assert!(said.contains("outside") || said.contains("it is a link"), "{configuration}: {said}");
        assert!(said.contains("jobgate.yaml"), "{configuration}: {said}");
        // Whoever names it vouches for it, and it means what it always meant.
        for named in [run(&place, &["lint", "--config", "jobgate.yaml"]), {
            let mut command = place.command(&["lint"]);
            command
                .current_dir(place.path().join("repo"))
                .env("JOBGATE_CONFIG", "jobgate.yaml")
                .output()
                .unwrap()
        }] {
            assert!([0, 1].contains(&code(&named)), "{configuration}: {}", stderr(&named));
        }
        assert!([0, 1].contains(&code(&run(&place, &["lint", "--no-config"]))));
    }
}

#[test]
fn what_a_repository_names_is_a_regular_file_of_bounded_size() {
    let place = place(&[("repo/job.yaml", JOB)]);
    let repo = place.path().join("repo");
    link(&place, "/dev/zero", "repo/zero");
    link(&place, "/dev/stdin", "repo/input");
    assert!(System::new("mkfifo").arg(repo.join("pipe")).status().unwrap().success());
    fs::File::create(repo.join("huge")).unwrap().set_len(1 << 40).unwrap();
    for key in [
        "policy: {}",
        "baseline: {}",
        "facts: [{}]",
        "paths: [{}]",
        "overrides: [{paths: ['*'], policy: {}}]",
    ] {
        for file in ["zero", "input", "pipe", "huge"] {
            if (key, file) == ("paths: [{}]", "huge") {
                continue;
            }
            fs::write(repo.join("jobgate.yaml"), format!("{HEAD}{}\n", key.replace("{}", file))).unwrap();
            let output = run(&place, &["lint"]);
            assert_eq!(code(&output), 2, "{key} {file}: {}", stdout(&output));
        }
    }
    // The configuration itself.
    fs::remove_file(repo.join("jobgate.yaml")).unwrap();
    link(&place, "/dev/zero", "repo/jobgate.yaml");
    assert!(code(&run(&place, &["lint"])) > 0);
    fs::remove_file(repo.join("jobgate.yaml")).unwrap();
    link(&place, "../home/.bashrc", "repo/jobgate.yaml");
    let output = run(&place, &["lint"]);
    assert_eq!(code(&output), 2);
    assert!(!stderr(&output).contains("mine"), "{}", stderr(&output));
    fs::remove_file(repo.join("jobgate.yaml")).unwrap();
    fs::File::create(repo.join("jobgate.yaml")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(code(&run(&place, &["lint"])), 2);
    // What takes in others.
    fs::write(repo.join("jobgate.yaml"), HEAD).unwrap();
    fs::write(
        repo.join("kustomization.yaml"),
        "resources: [/dev/stdin, pipe, zero, job.yaml]\nnamespace: a\n",
    )
    .unwrap();
    assert_eq!(code(&run(&place, &["lint", "--no-render"])), 1);
}

#[test]
fn an_ignore_file_without_end_is_not_read() {
    let place = place(&[("repo/job.yaml", JOB), ("repo/sub/job.yaml", JOB)]);
    link(&place, "/dev/zero", "repo/.gitignore");
    link(&place, "/dev/zero", "repo/sub/.ignore");
    for directory in [".", "sub"] {
        let output = run(&place, &["lint", directory]);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(".gitignore is not used: it is a link"), "{}", stderr(&output));
        assert!(stderr(&output).contains(".ignore is not used: it is a link"), "{}", stderr(&output));
        assert!(stdout(&output).contains("sub/job.yaml"), "{}", stdout(&output));
    }
}

#[test]
fn what_the_command_line_names_may_be_a_pipe() {
    let place = place(&[("repo/job.yaml", JOB)]);
    for (option, text, result) in [
        ("--policy", OURS, 0),
        ("--config", &*format!("{HEAD}failOn: warn\n"), 1),
        ("--baseline", "{\"version\":1,\"findings\":[]}", 1),
        ("--facts", "", 1),
    ] {
        let pipe = place.path().join("pipe");
        assert!(System::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (there, text) = (pipe.clone(), text.to_owned());
        let writer = std::thread::spawn(move || fs::write(there, text).unwrap());
        let output = run(&place, &["lint", option, pipe.to_str().unwrap()]);
        writer.join().unwrap();
        assert_eq!(code(&output), result, "{option}: {}", stderr(&output));
        fs::remove_file(pipe).unwrap();
    }
    // It has an end, however much comes.
    for option in ["--policy", "--config", "--baseline"] {
        let output = run(&place, &["lint", option, "/dev/zero"]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("it is larger than the limit of "), "{}", stderr(&output));
    }
}

// Tools that render.

/// A `helm` and a `kustomize` that note their arguments and environment, and the environment to run them in.
fn run_with_tools(place: &Place, arguments: &[&str]) -> (Output, String) {
    let bin = place.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let log = place.path().join("log");
    for tool in ["helm", "kustomize"] {
        let script = format!(
            "#!/bin/sh\n{{ echo \"{tool} $*\"; env; }} >> '{}'\ncat '{}'\n",
            log.display(),
            place.path().join("repo/job.yaml").display()
        );
        fs::write(bin.join(tool), script).unwrap();
        fs::set_permissions(bin.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let _ = fs::remove_file(&log);
    let mut command = place.command(arguments);
    command
        .current_dir(place.path().join("repo"))
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("GITHUB_TOKEN", "secret-1")
        .env("AWS_SECRET_ACCESS_KEY", "secret-2")
        .env("HTTPS_PROXY", "http://proxy.example.com")
        .timeout(Duration::from_secs(60));
    let output = command.output().unwrap();
    (output, fs::read_to_string(log).unwrap_or_default())
}

const CHART: (&str, &str) = ("repo/chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n");
const TEMPLATE: (&str, &str) =
    ("repo/chart/templates/job.yaml", "kind: Job\nmetadata: {name: {{ .Values.x }}}\n");

#[test]
fn only_who_names_a_configuration_turns_the_network_on() {
    let text = format!("{HEAD}render: {{network: true, timeout: 1h}}\n");
    let place = place(&[
        ("repo/jobgate.yaml", &text),
        ("repo/job.yaml", &good()),
        (
            "repo/over/kustomization.yaml",
            "namespace: x\nresources: [../job.yaml, 'https://example.com/x.yaml']\n",
        ),
    ]);
    let (output, log) = run_with_tools(&place, &["lint", "--format", "json"]);
    assert_eq!(log, "", "nothing is fetched");
    assert!(stdout(&output).contains("nothing is fetched"), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.contains("jobgate: warning: jobgate.yaml: `render.network` is not used; `--config jobgate.yaml` allows it\n"), "{said}");
    assert!(said.contains("`render.timeout` is 60s; `--config jobgate.yaml` allows more\n"), "{said}");
    let (output, log) = run_with_tools(&place, &["lint", "--config", "jobgate.yaml"]);
    assert!(log.contains("kustomize build"), "{}", stdout(&output));
    assert!(log.contains("HTTPS_PROXY=http://proxy.example.com\n"), "{log}");
    // What is secret is given to nobody.
    assert!(!log.contains("secret-"), "{log}");
    let home = log.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(home.contains("jobgate-"), "{home}");
}

#[test]
fn a_chart_hands_helm_nothing_of_the_user() {
    let place = place(&[("repo/job.yaml", &good()), CHART, TEMPLATE, ("home/config", "token: secret\n")]);
    let (_, log) = run_with_tools(&place, &["lint"]);
    assert!(log.contains("helm template"), "{log}");
    for (to, from) in [
        ("../../../home/config", "repo/chart/templates/a.yaml"),
        ("../../home", "repo/chart/files"),
        ("/dev/zero", "repo/chart/values.yaml"),
        ("/", "repo/chart/crds"),
    ] {
        link(&place, to, from);
        let (output, log) = run_with_tools(&place, &["lint", "--format", "json"]);
        assert_eq!(log, "", "{from}");
        assert!(stdout(&output).contains("is a link that leads out of the directory"), "{}", stdout(&output));
        // Nobody has looked at its jobs, which is no green answer.
        assert_eq!(code(&output), 2, "{from}");
        fs::remove_file(place.path().join(from)).unwrap();
    }
    // One inside the repository is none of these.
    link(&place, "../../job.yaml", "repo/chart/templates/a.yaml");
    assert!(run_with_tools(&place, &["lint"]).1.contains("helm template"));
    // Templates that are the whole system are not looked through.
    fs::remove_dir_all(place.path().join("repo/chart/templates")).unwrap();
    link(&place, "/", "repo/chart/templates");
    assert!(code(&run(&place, &["lint", "--no-render"])) < 2);
}

#[test]
fn a_kustomization_takes_in_nothing_of_the_user() {
    let place = place(&[
        ("repo/job.yaml", &good()),
        ("repo/over/kustomization.yaml", "namespace: x\nresources: [../job.yaml, ../../home/base]\n"),
        ("home/base/kustomization.yaml", "resources: [job.yaml]\n"),
        ("home/base/job.yaml", JOB),
    ]);
    let (output, log) = run_with_tools(&place, &["lint", "--format", "json"]);
    assert!(!log.contains("/over"), "{log}");
    assert!(stdout(&output).contains("is outside the repository"), "{}", stdout(&output));
    assert_eq!(code(&output), 2);
}

#[test]
fn what_is_not_read_makes_the_run_fail_unless_that_is_accepted() {
    let shared = ("repo/shared/values.yaml", "a: 1\n");
    let base = ("home/base/kustomization.yaml", "resources: [job.yaml]\n");
    let over = ("repo/over/kustomization.yaml", "resources: [../../home/base]\n");
    let place = place(&[
        ("repo/job.yaml", &good()),
        CHART,
        TEMPLATE,
        shared,
        base,
        ("home/base/job.yaml", JOB),
        over,
    ]);
    link(&place, "../shared/values.yaml", "repo/chart/values.yaml");
    for (arguments, why) in [
        (&["lint", "chart"][..], "`values.yaml` is a link that leads out of the directory"),
        (&["lint", "over"], "is outside the repository"),
    ] {
        let (output, _) = run_with_tools(&place, arguments);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    // What the link leads to is in the tree.
    let (output, log) = run_with_tools(&place, &["lint", "chart", "shared"]);
    assert_eq!((code(&output), log.contains("helm template")), (0, true), "{}", stdout(&output));
    fs::remove_file(place.path().join("repo/chart/values.yaml")).unwrap();
    link(&place, "../../home/.bashrc", "repo/chart/values.yaml");
    let text =
        "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\nrender: {allowFailures: [chart, over]}\n";
    fs::write(place.path().join("repo/jobgate.yaml"), text).unwrap();
    for directory in ["chart", "over"] {
        let (output, _) = run_with_tools(&place, &["lint", directory]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(stdout(&output).contains("could not be rendered"), "{}", stdout(&output));
    }
}

// What people and runners see.

/// Fails if a runner of GitHub or Azure would take a line for a command that is none of ours.
fn has_no_command(text: &str, ours: bool) {
    for line in text.lines() {
        let trimmed = line.trim();
        let is_ours = ours && ["::error ", "::warning ", "::notice "].iter().any(|own| line.starts_with(own));
        assert!(is_ours || !trimmed.starts_with("::"), "{line:?}");
        assert!(!line.contains("##[") && !line.contains("##vso["), "{line:?}");
    }
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']), "{text:?}");
}

const COMMAND: &str = "\n::stop-commands::x ##[stop-commands]x \u{1b}[31m\u{202e}";

#[test]
fn nothing_that_is_printed_is_a_command() {
    let name = format!("d{COMMAND}");
    let place = Place::with(&[]);
    let repo = place.path().join(&name);
    let start = place.path().join("::add-mask::x");
    for directory in [&repo, &start] {
        fs::create_dir_all(directory.join(".git")).unwrap();
        fs::write(
            directory.join("job.yaml"),
            JOB.replace("name: train\n", "name: '##[error]x ::debug::y'\n"),
        )
        .unwrap();
        let script = "            - |\n              ::add-mask::y\n              ##[add-mask]y\n";
        fs::write(directory.join("fix.yaml"), format!("{}          command:\n{script}", fixable())).unwrap();
        symlink("gone", directory.join("broken.yaml")).unwrap();
        fs::write(directory.join("bad.yaml"), "kind: Job\na: '##[error]x\n").unwrap();
        symlink("/dev/zero", directory.join(".gitignore")).unwrap();
    }
    fs::write(repo.join("jobgate.yaml"), HEAD).unwrap();
    fs::write(start.join("jobgate.yaml"), HEAD).unwrap();
    let bad = place.path().join(format!("bad{COMMAND}.yaml"));
    fs::write(&bad, format!("{HEAD}'::x ##[error]y': 1\n{}", "policy: [a]\n")).unwrap();
    let gone = format!("{name}/gone{COMMAND}");
    let bad = bad.to_str().unwrap();
    for format in ["human", "concise", "github"] {
        for directory in [name.as_str(), "::add-mask::x"] {
            let output = place.run(&["lint", "--format", format, directory]);
            has_no_command(stdout(&output), format == "github");
            has_no_command(stderr(&output), false);
            assert!(stderr(&output).contains("broken.yaml"), "{}", stderr(&output));
        }
    }
    for arguments in [
        &["lint", &gone][..],
        &["lint", "--config", &gone],
        &["lint", "--config", bad],
        &["lint", "--policy", &gone],
        &["lint", "--policy", bad],
        &["lint", "--baseline", bad],
        &["lint", "--facts", &gone],
        &["lint", "--output-file", &gone],
        &["lint", &format!("--x{COMMAND}")],
        &["lint", "--diff", &name],
        &["lint", "--fix", &name, "--output-file", "report"],
        &["lint", "--write-baseline", &format!("b{COMMAND}"), &name],
        &["dry-run", &name],
        &["dry-run", "-o", "diff", "::add-mask::x"],
        &["policy", "check", bad, &gone],
        &["policy", "test", &name],
        &["review", &gone],
        &["review", "--from", &name],
        &["explain", &gone],
        &["init", &gone],
        &["init", "--force", &name],
    ] {
        let output = place.run(arguments);
        has_no_command(stderr(&output), false);
        if arguments[1] != "--from" {
            has_no_command(stdout(&output), false);
        }
    }
}

#[test]
fn an_editor_is_told_nothing_that_steers() {
    // The folder of an editor is no different from one on the command line.
    let place =
        place(&[("repo/jobgate.yaml", &format!("{HEAD}policy: ../home/.bashrc\n")), ("repo/job.yaml", JOB)]);
    let text = |message: &str| format!("Content-Length: {}\r\n\r\n{message}", message.len());
    let root = format!("file://{}", fs::canonicalize(place.path().join("repo")).unwrap().display());
    let input = [
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"rootUri":"{root}","capabilities":{{}}}}}}"#
        ),
        r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#.to_owned(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{{"textDocument":{{"uri":"{root}/job.yaml","languageId":"yaml","version":1,"text":"kind: Job\napiVersion: batch/v1\n"}}}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{{"textDocument":{{"uri":"{root}/job.yaml"}},"position":{{"line":0,"character":0}}}}}}"#
        ),
        r#"{"jsonrpc":"2.0","id":3,"method":"shutdown"}"#.to_owned(),
    ];
    let input: String = input.iter().map(|message| text(message)).collect();
    let mut command = place.command(&["lsp"]);
    let output = command
        .current_dir(place.path().join("repo"))
        .write_stdin(input)
        .timeout(Duration::from_secs(60))
        .output()
        .unwrap();
    has_no_command(stderr(&output), false);
    assert!(!stdout(&output).contains("mine"), "{}", stdout(&output));
}

// What the settings take away.

#[test]
fn what_settings_take_away_is_counted() {
    let place = place(&[("repo/job.yaml", JOB), ("repo/ours.yaml", OURS), ("repo/more/job.yaml", &good())]);
    let summary = |configuration: &str, more: &[&str]| {
        fs::write(place.path().join("repo/jobgate.yaml"), format!("{HEAD}{configuration}\n")).unwrap();
        let report = json(&run(&place, &[&["lint", "--format", "json"], more].concat()));
        let line = stdout(&run(&place, &[&["lint"], more].concat())).to_owned();
        let count = |key: &str| report["summary"][key].as_u64().unwrap();
        ([count("deny"), count("ignored"), count("lowered"), count("excluded"), count("baselined")], line)
    };
    let (counts, line) = summary("", &[]);
    assert_eq!(counts, [1, 0, 0, 0, 0]);
    assert!(!line.contains("more would be errors") && !line.contains("not used"), "{line}");
    for (configuration, counts) in [
        ("ignore: [deadline]", [0, 1, 0, 0, 0]),
        ("select: [restart-policy]", [0, 1, 0, 0, 0]),
        ("policy: audit", [0, 0, 1, 0, 0]),
        ("policy: ours.yaml", [0, 0, 1, 0, 0]),
        ("policy: audit\nignore: [deadline]", [0, 1, 0, 0, 0]),
        ("overrides: [{paths: [/job.yaml], policy: audit}]", [0, 0, 1, 0, 0]),
        ("overrides: [{paths: [/job.yaml], policy: audit}]\nignore: ['*']", [0, 1, 0, 0, 0]),
        ("policy: strict", [1, 0, 0, 0, 0]),
        ("exclude: [/job.yaml]", [0, 0, 0, 1, 0]),
    ] {
        let (found, line) = summary(configuration, &[]);
        assert_eq!(found[0], counts[0], "{configuration}");
        assert!(found[1] >= counts[1] && (found[1] > 0) == (counts[1] > 0), "{configuration}: {found:?}");
        assert_eq!(found[2..], counts[2..], "{configuration}");
        assert_eq!(line.contains("of rules and checks that are not used"), counts[1] > 0, "{line}");
        assert_eq!(
            line.contains("; 1 more would be errors by the policy `default`"),
            counts[2] > 0,
            "{line}"
        );
        assert_eq!(line.contains("; 1 path excluded"), counts[3] > 0, "{line}");
    }
    // A dry run says so as well, and so does what --fix leaves.
    fs::write(place.path().join("repo/jobgate.yaml"), format!("{HEAD}policy: audit\n")).unwrap();
    let said = run(&place, &["dry-run"]);
    assert!(stdout(&said).contains("; 1 more would be errors by the policy `default`"), "{}", stdout(&said));
    assert_eq!(summary("policy: audit", &["--fix"]).0[2], 1);
    run(&place, &["lint", "--policy", "default", "--write-baseline", "known.json"]);
    let (counts, line) = summary("baseline: known.json", &[]);
    assert_eq!(counts, [0, 0, 0, 0, 1]);
    assert!(line.contains("; 1 baselined"), "{line}");
}

// Files of an older version.

#[test]
fn what_an_older_version_wrote_means_what_it_meant() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/older");
    let text = |name: &str| fs::read_to_string(samples.join(name)).unwrap();
    let [configuration, policy, baseline] = ["jobgate.yaml", "policy.yaml", "baseline.json"].map(text);
    let place = place(&[
        ("repo/jobgate.yaml", &configuration),
        ("repo/policies/ours.yaml", &policy),
        ("repo/.jobgate-baseline.json", &baseline),
        ("repo/k8s/job.yaml", JOB),
        ("repo/k8s/experiments/job.yaml", JOB),
        ("repo/vendor/job.yaml", JOB),
        (
            "repo/pvc.yaml",
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {accessModes: [ReadWriteOnce]}\n",
        ),
    ]);
    let output = run(&place, &["lint", "--format", "json"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""), "{}", stdout(&output));
    let report = json(&output);
    assert_eq!(report["summary"]["baselined"], 2, "{}", stdout(&output));
    assert_eq!(report["summary"]["deny"], 0);
    assert_eq!(report["summary"]["excluded"], 1);
    assert_eq!(report["summary"]["resolved"], 0);
    assert_eq!(code(&run(&place, &["policy", "check", "policies/ours.yaml"])), 0);
    assert_eq!(code(&run(&place, &["lint", "--no-config", "k8s"])), 1);
}
