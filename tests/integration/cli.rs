//! The real binary, from arguments to exit code. Few tests: what is behind it is tested where it stands.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::place::{JOB, Place, code, good, json, stderr, stdout};
use assert_cmd::Command;
use insta::assert_snapshot;
use jobgate::text::value::Value;

#[test]
fn a_finding_is_shown_in_its_file() {
    let place = Place::with(&[("job.yaml", JOB)]);
    let output = place.run(&["lint"]);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
    assert_snapshot!(stdout(&output), @"
    team-a/train (Job) in job.yaml

    error[deadline]: `activeDeadlineSeconds` is not set, so a run that hangs keeps its nodes until someone notices
     --> job.yaml:6:1
      |
    6 | spec:
      | ^^^^ `activeDeadlineSeconds` belongs here
      |
      = help: set `spec.activeDeadlineSeconds` to the longest time a run may take, in seconds (a day is 86400)
      = why: A Job without a deadline runs until it succeeds, fails often enough, or someone notices
      = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md

    1 file, 1 document, 1 job: 1 error
    `jobgate explain deadline` says more about a rule
    ");
}

#[test]
fn every_format_is_written() {
    let place = Place::with(&[("job.yaml", JOB)]);
    let of = |format: &str| place.run(&["lint", "--format", format, "job.yaml"]);
    let document = json(&of("json"));
    assert_eq!(
        (&document["version"], &document["summary"]["deny"], &document["summary"]["files"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(document["findings"][0]["rule"], "deadline");
    assert_eq!(document["findings"][0]["start"], jobgate::text::value::json!({"line": 6, "column": 1}));
    assert_eq!(document["findings"][0]["object"]["name"], "train");
    assert_eq!(json(&of("sarif"))["runs"][0]["results"][0]["ruleId"], "deadline");
    assert_eq!(json(&of("gitlab"))[0]["check_name"], "deadline");
    assert!(stdout(&of("junit")).starts_with("<?xml"));
    assert!(stdout(&of("github")).starts_with("::error file=job.yaml,line=6,"));
    let deadline =
        "`activeDeadlineSeconds` is not set, so a run that hangs keeps its nodes until someone notices";
    assert_eq!(
        stdout(&of("concise")),
        format!(
            "job.yaml:6:1: error[deadline]: {deadline} [fixable with --unsafe-fixes]\n1 file, 1 document, 1 job: 1 error\n"
        )
    );
    let output = place.run(&["dry-run", "--format", "concise", "job.yaml"]);
    assert_eq!(
        stdout(&output),
        format!(
            "job.yaml:1:1: denied by jobgate: Job team-a/train\n\
             job.yaml:6:1: error[deadline]: {deadline} [fixable with --unsafe-fixes]\n\
             1 file, 1 document, 1 job: 1 error; 1 denied by jobgate\n"
        )
    );
}

#[test]
fn a_page_and_a_comment_are_made_of_lints_and_dry_runs() {
    let hostile = JOB.replace("namespace: team-a", "namespace: '<img src=x onerror=alert(1)>'");
    let place = Place::with(&[("a.yaml", &*hostile), ("b.yaml", &good())]);
    for (command, code_of, verdict) in [("lint", 1, false), ("dry-run", 1, true)] {
        let of = |format: &str| {
            let output = place.run(&[command, "--format", format, "a.yaml", "b.yaml"]);
            assert_eq!((code(&output), stderr(&output)), (code_of, ""), "{command} {format}");
            stdout(&output).to_owned()
        };
        let (comment, page) = (of("markdown"), of("html"));
        assert!(
            comment.starts_with("## ❌ Jobgate: 2 errors\n\n2 files, 2 documents, 2 jobs: 2 errors"),
            "{comment}"
        );
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
        for text in [&comment, &page] {
            assert!(!text.contains("<img") && text.contains("img src=x"), "{text}");
            assert_eq!(text.contains("rejected by the API server"), verdict, "{text}");
            assert!(text.contains("--unsafe-fixes") && text.contains("a.yaml"), "{text}");
        }
        // The lines of the source are in the page.
        assert!(page.contains("<mark>&#39;&lt;img src=x onerror=alert(1)&gt;&#39;</mark>"), "{page}");
        let colored = place.run(&[command, "--format", "html", "--color", "always", "a.yaml", "b.yaml"]);
        assert_eq!(stdout(&colored), page, "colours are for terminals");
    }
}

#[test]
fn a_dry_run_is_coloured_on_a_terminal_alone() {
    let patched = JOB.replace("  ttlSecondsAfterFinished: 3600\n", "  activeDeadlineSeconds: 3600\n");
    let place = Place::with(&[("a.yaml", JOB), ("b.yaml", &patched)]);
    let plain = place.run(&["dry-run", "a.yaml", "b.yaml"]);
    let colored = place.run(&["dry-run", "a.yaml", "b.yaml", "--color", "always"]);
    let text = stdout(&colored);
    assert!(!stdout(&plain).contains('\u{1b}'));
    for painted in [
        "\u{1b}[1m\u{1b}[91mdenied by jobgate\u{1b}[0m",
        "\u{1b}[1m\u{1b}[96mallowed, patched\u{1b}[0m",
        "\u{1b}[32m+  ttlSecondsAfterFinished: 86400\u{1b}[0m",
    ] {
        assert!(text.contains(painted), "{painted:?}: {text:?}");
    }
    let diff = place.run(&["dry-run", "b.yaml", "-o", "diff", "--color", "always"]);
    assert!(stdout(&diff).contains("\u{1b}[32m+  ttl"), "{:?}", stdout(&diff));
}

#[cfg(unix)]
#[test]
fn a_path_that_cannot_be_read_is_in_every_format() {
    let place = Place::with(&[("job.yaml", &good())]);
    std::os::unix::fs::symlink("gone.yaml", place.path().join("link.yaml")).unwrap();
    for (command, paths) in [
        ("lint", &["missing.yaml"][..]),
        ("lint", &["job.yaml", "missing.yaml"]),
        ("lint", &["."]),
        ("dry-run", &["missing.yaml", "job.yaml"]),
    ] {
        let file = if paths == ["."] { "link.yaml" } else { "missing.yaml" };
        let of = |format: &str| {
            let output = place.run(&[&[command, "--format", format], paths].concat());
            assert_eq!(code(&output), 2, "{command} {paths:?}");
            assert!(stderr(&output).contains(&format!("{file}: ")), "{}", stderr(&output));
            output
        };
        let unjudged = json(&of("json"))["unjudged"][0].clone();
        assert_eq!(
            (&unjudged["reason"], unjudged["file"].as_str().unwrap().trim_start_matches("./")),
            (&"unreadable-path".into(), file)
        );
        let invocation = json(&of("sarif"))["runs"][0]["invocations"][0].clone();
        let notification = &invocation["toolExecutionNotifications"][0];
        assert_eq!(
            (&invocation["executionSuccessful"], &notification["level"]),
            (&false.into(), &"error".into())
        );
        assert_eq!(notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], file);
        assert_eq!(
            (json(&of("gitlab"))[0]["severity"].clone(), json(&of("gitlab"))[0]["location"]["path"].clone()),
            ("blocker".into(), file.into())
        );
        assert!(
            stdout(&of("github")).starts_with(&format!(
                "::error file={file},line=1,title=not judged::cannot read this path: "
            ))
        );
        assert!(stdout(&of("junit")).contains(r#"errors="1""#));
        assert!(stdout(&of("human")).contains("1 path not readable"));
    }
}

#[test]
fn a_baseline_holds_what_was_not_judged() {
    let experiment = "apiVersion: kubeflow.org/v1\nkind: Experiment\nmetadata: {name: a}\n";
    let place = Place::with(&[("k8s/job.yaml", &good()), ("k8s/experiment.yaml", experiment)]);
    assert_eq!(code(&place.run(&["lint", "k8s", "--fail-on-unjudged"])), 1);
    let written = place.run(&["lint", "k8s", "--fail-on-unjudged", "--write-baseline", "known.json"]);
    assert_eq!(
        (code(&written), stderr(&written)),
        (0, "jobgate: 0 findings and 1 not judged written to known.json\n")
    );
    let known = place.run(&["lint", "k8s", "--fail-on-unjudged", "--baseline", "known.json"]);
    assert_eq!(
        (code(&known), stdout(&known)),
        (0, "2 files, 2 documents, 1 job: nothing found; 1 not judged and baselined\n")
    );
    fs::write(place.path().join("k8s/other.yaml"), experiment.replace("name: a", "name: b")).unwrap();
    assert_eq!(code(&place.run(&["lint", "k8s", "--fail-on-unjudged", "--baseline", "known.json"])), 1);
}

#[test]
fn hidden_directories_are_linted() {
    let place = Place::with(&[(".tekton/job.yaml", JOB), ("job.yaml", &good()), (".git/job.yaml", JOB)]);
    let output = place.run(&["lint", "--format", "json"]);
    assert_eq!((code(&output), json(&output)["summary"]["files"].clone()), (1, 2.into()));
    assert_eq!(json(&output)["findings"][0]["file"], ".tekton/job.yaml");
}

#[test]
fn exit_codes_follow_the_level_asked_for() {
    let good = good();
    let warn = good.replace("metadata:\n", "metadata:\n  annotations: {jobgate.dev/ignore: no-such-rule}\n");
    let note = good.replace("  ttlSecondsAfterFinished: 3600\n", "");
    let place =
        Place::with(&[("good.yaml", &good), ("warn.yaml", &warn), ("note.yaml", &note), ("deny.yaml", JOB)]);
    for (file, codes) in [
        ("good.yaml", [0, 0, 0]),
        ("note.yaml", [0, 0, 1]),
        ("warn.yaml", [0, 1, 1]),
        ("deny.yaml", [1, 1, 1]),
    ] {
        let found =
            ["deny", "warn", "note"].map(|level| code(&place.run(&["lint", "--fail-on", level, file])));
        assert_eq!(found, codes, "{file}");
    }
}

#[test]
fn standard_input_is_a_file_called_dash() {
    let place = Place::with(&[]);
    let output = place.command(&["lint", "-", "--format", "json"]).write_stdin(JOB).output().unwrap();
    assert_eq!(code(&output), 1);
    assert_eq!(json(&output)["findings"][0]["file"], "-");
    assert_eq!(code(&place.command(&["dry-run", "-"]).write_stdin(JOB).output().unwrap()), 1);
    let capped = place
        .command(&["lint", "-", "--max-file-size", "1K", "--format", "json"])
        .write_stdin("# x\n".repeat(1000))
        .output()
        .unwrap();
    assert_eq!(json(&capped)["findings"][0]["message"], "the text is longer than the limit of 1 KiB");
}

/// As the shell's `<(…)` makes them: what has been read of them is gone.
#[cfg(unix)]
#[test]
fn pipes_are_read_by_their_paths() {
    let place = Place::with(&[]);
    let run = |arguments: &[&str]| place.command(arguments).write_stdin(JOB).output().unwrap();
    let output = run(&["lint", "/dev/stdin", "--format", "json"]);
    assert_eq!((code(&output), &json(&output)["findings"][0]["file"]), (1, &"/dev/stdin".into()));
    assert_eq!(code(&run(&["dry-run", "/dev/stdin"])), 1);
    let open = JOB.replace("  ttlSecondsAfterFinished: 3600\n", "");
    let fixed = place.command(&["lint", "--fix", "/dev/stdin"]).write_stdin(open).output().unwrap();
    assert_eq!(code(&fixed), 2);
    assert!(
        stderr(&fixed).contains("cannot write /dev/stdin: it is not a regular file"),
        "{}",
        stderr(&fixed)
    );
}

#[test]
fn what_cannot_be_read_does_not_keep_the_rest_from_being_linted() {
    let place = Place::with(&[("job.yaml", JOB), ("empty/readme.md", "")]);
    let output = place.run(&["lint", "gone.yaml", "job.yaml", "*.json", "empty", "--format", "json"]);
    assert_eq!(code(&output), 2);
    assert_eq!(json(&output)["summary"]["deny"], 1);
    let unjudged: Vec<Value> = json(&output)["unjudged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unjudged| unjudged["message"].clone())
        .collect();
    let missing = "cannot read this path: No such file or directory (os error 2)";
    assert_eq!(
        unjudged,
        ["cannot read this path: no file matches", "there is nothing to judge in empty", missing]
    );
    assert_snapshot!(stderr(&output), @"
    jobgate: cannot read gone.yaml: No such file or directory (os error 2)
    jobgate: cannot read *.json: no file matches
    ");
}

#[test]
fn what_does_not_parse_is_a_finding_and_the_rest_is_linted() {
    let broken = format!("{JOB}---\nkind: Job\nspec: {{a: 1\n---\n{JOB}");
    let place = Place::with(&[
        ("job.yaml", &broken),
        ("chart.yaml", "kind: Job\n{{- if .Values.x }}\nname: {{ .x }}\n{{- end }}\n"),
    ]);
    let document = json(&place.run(&["lint", "--format", "json"]));
    let found: Vec<(&str, &str)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["rule"].as_str().unwrap(), f["action"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [("unrendered-template", "warn"), ("deadline", "deny"), ("syntax", "deny"), ("deadline", "deny")]
    );
    assert_eq!((&document["summary"]["files"], &document["summary"]["documents"]), (&2.into(), &4.into()));
}

#[test]
fn what_cannot_run_says_why_and_exits_with_2() {
    let place = Place::with(&[
        ("job.yaml", JOB),
        ("bad.yaml", "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nrulez: {}\n"),
        ("facts.yaml", "a: ["),
    ]);
    for (arguments, word) in [
        (&["lint", "--policy", "no-such-policy"][..], "no-such-policy"),
        (&["lint", "--policy", "bad.yaml"], "rulez"),
        (&["policy", "export", "--vap", "bad.yaml"], "rulez"),
        (&["policy", "export"], "--vap"),
        (&["lint", "--facts", "gone.yaml"], "gone.yaml"),
        (&["lint", "--facts", "facts.yaml"], "facts.yaml"),
        (&["lint", "--no-such-flag"], "--no-such-flag"),
        (&["lint", "--format", "pdf"], "html"),
        (&["lint", "--max-file-size", "lots"], "64M"),
        (&["explain", "no-such-rule"], "no-such-rule"),
        (&["review", "gone.json"], "gone.json"),
        (&["nonsense"], "nonsense"),
    ] {
        let output = place.run(arguments);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{arguments:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_baseline_lets_only_what_is_new_fail() {
    let place =
        Place::with(&[("k8s/a.yaml", JOB), ("k8s/b.yaml", &JOB.replace("name: train\n", "name: other\n"))]);
    let written = place.run(&["lint", "--write-baseline", "known.json", "k8s"]);
    assert_eq!((code(&written), stderr(&written)), (0, "jobgate: 2 findings written to known.json\n"));
    assert_eq!(stdout(&written), "2 files, 2 documents, 2 jobs: nothing found; 2 baselined\n");
    let text = fs::read_to_string(place.path().join("known.json")).unwrap();
    assert_snapshot!(text, @r#"
    {"version":1,"findings":[
    {"file":"k8s/a.yaml","object":{"kind":"Job","namespace":"team-a","name":"train"},"path":"spec.activeDeadlineSeconds","rule":"deadline","count":1},
    {"file":"k8s/b.yaml","object":{"kind":"Job","namespace":"team-a","name":"other"},"path":"spec.activeDeadlineSeconds","rule":"deadline","count":1}
    ]}
    "#);
    let known = |arguments: &[&str]| {
        place.run(&[&["lint", "--baseline", "known.json", "--format", "json"], arguments].concat())
    };
    assert_eq!(code(&known(&["k8s"])), 0);
    // From somewhere else, or a part of it: the rest is not gone.
    let inside = place
        .command(&["lint", "--baseline", "../known.json", "a.yaml"])
        .current_dir(place.path().join("k8s"))
        .output()
        .unwrap();
    assert_eq!((code(&inside), stderr(&inside)), (0, ""));
    // One more, with what only the API server says.
    let worse = format!(
        "---\n# moved\n{}---\n{JOB}",
        JOB.replace("      restartPolicy", "      tolerations: 5\n      restartPolicy")
    );
    fs::write(place.path().join("k8s/a.yaml"), worse).unwrap();
    fs::write(place.path().join("k8s/b.yaml"), good()).unwrap();
    let output = known(&["k8s"]);
    let document = json(&output);
    assert_eq!(code(&output), 1);
    let summary = &document["summary"];
    assert_eq!(
        (&summary["baselined"], &summary["resolved"], &summary["deny"]),
        (&1.into(), &1.into(), &2.into())
    );
    assert_eq!(
        stderr(&output),
        "jobgate: 1 entry of the baseline is resolved; regenerate it with --write-baseline known.json\n"
    );
    let again = place.run(&["lint", "--write-baseline", "known.json", "k8s"]);
    assert_eq!((code(&again), code(&known(&["k8s"]))), (0, 0));
    assert!(fs::read_to_string(place.path().join("known.json")).unwrap().contains("\"count\":2"));
}

#[test]
fn a_baseline_that_is_none_stops_the_run() {
    let place = Place::with(&[
        ("job.yaml", JOB),
        ("bad.json", "{\"version\": 1,\n\"findings\": [{}]}"),
        ("newer.json", "{\"version\": 7}"),
    ]);
    for (arguments, words) in [
        (&["--baseline", "gone.json"][..], "read the baseline gone.json"),
        (&["--baseline", "bad.json"], "missing field `file` at line 2 column 15"),
        (&["--baseline", "newer.json"], "version 7"),
        (&["--baseline", "bad.json", "--write-baseline", "bad.json"], "cannot be used with"),
        (&["--write-baseline", "new.json", "--diff"], "cannot be used with"),
        (&["--baseline", "bad.json", "--diff"], "cannot be used with"),
        (&["--write-baseline", "."], "it is not a regular file"),
        (
            &["--write-baseline", "no/such/folder.json"],
            "write the baseline no/such/folder.json: No such file or directory (os error 2)\n",
        ),
    ] {
        let output = place.run(&[&["lint", "job.yaml"], arguments].concat());
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
    let output = place.run(&["lint", "job.yaml", "gone.yaml", "--write-baseline", "new.json"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("new.json is not written: not everything could be linted"),
        "{}",
        stderr(&output)
    );
    assert!(!place.path().join("new.json").exists());
}

#[test]
fn a_baseline_knows_what_fixes_leave() {
    let place = Place::with(&[("job.yaml", &JOB.replace("  ttlSecondsAfterFinished: 3600\n", ""))]);
    let output = place.run(&["lint", "--fix", "--write-baseline", "known.json", "--fail-on", "note"]);
    assert_eq!(
        (code(&output), stdout(&output)),
        (0, "1 file, 1 document, 1 job: nothing found; 1 fixed in 1 file; 1 baselined\n")
    );
    assert!(
        fs::read_to_string(place.path().join("job.yaml")).unwrap().contains("ttlSecondsAfterFinished: 86400")
    );
    let text = fs::read_to_string(place.path().join("known.json")).unwrap();
    assert!(text.contains("\"rule\":\"deadline\"") && !text.contains("ttl"), "{text}");
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let place = Place::with(&[("job.yaml", JOB)]);
    let is_coloured = |command: &mut Command| command.output().unwrap().stdout.contains(&0x1b);
    assert!(!is_coloured(&mut place.command(&["lint"])));
    assert!(is_coloured(&mut place.command(&["lint", "--color", "always"])));
    assert!(is_coloured(place.command(&["lint"]).env("CLICOLOR_FORCE", "1")));
    assert!(!is_coloured(place.command(&["lint"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1")));
    assert!(!is_coloured(place.command(&["explain", "deadline"]).env("NO_COLOR", "1")));
}

#[test]
fn facts_and_files_beside_it_tell_of_a_claim() {
    let job = JOB
        .replace("spec:\n  ttl", "spec:\n  parallelism: 2\n  activeDeadlineSeconds: 60\n  ttl")
        .replace("      containers:", "      volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}]\n      containers:")
        + "          volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]\n";
    let claim = |mode: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: checkpoints, namespace: team-a}}\nspec:\n  accessModes: [{mode}]\n"
        )
    };
    let (once, many) = (claim("ReadWriteOnce"), claim("ReadWriteMany"));
    let place = Place::with(&[
        ("jobs/job.yaml", &job),
        ("storage/claim.yaml", &once),
        ("facts.txt", &many),
        ("far/a/b/claim.yaml", &many),
    ]);
    let found = |arguments: &[&str]| {
        let document = json(&place.run(&[&["lint", "--format", "json"], arguments].concat()));
        let findings = document["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .filter(|finding| finding["rule"] == "checkpoint-volume-access")
            .collect::<Vec<_>>()
    };
    let near = found(&["."]);
    assert_eq!(near.len(), 1, "{near:?}");
    let places: Vec<&Value> =
        near[0]["related"].as_array().unwrap().iter().map(|related| &related["file"]).collect();
    assert!(places.contains(&&"storage/claim.yaml".into()), "{places:?}");
    assert_eq!(found(&["jobs"]).len(), 0, "an unknown claim denies nothing");
    assert_eq!(found(&["--facts", "facts.txt", "."]).len(), 0, "facts win");
    assert_eq!(found(&["--facts", "storage/claim.yaml", "jobs"]).len(), 1);
}

#[test]
fn pages_and_scripts_are_written() {
    let place = Place::with(&[]);
    assert!(stdout(&place.run(&["completions", "bash"])).contains("complete -F"));
    assert!(stdout(&place.run(&["man"])).contains(".TH jobgate 1"));
    assert!(stdout(&place.run(&["explain"])).contains("restart-policy"));
    assert!(stdout(&place.run(&["policy", "show", "audit"])).contains("kind: Policy"));
    assert!(
        stdout(&place.run(&["policy", "export", "--vap"])).contains("kind: ValidatingAdmissionPolicyBinding")
    );
    assert_eq!(code(&place.run(&["--version"])), 0);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let place = Place::with(&[("job.yaml", &format!("{JOB}---\n").repeat(2000))]);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_jobgate"))
        .args(["lint", "--format", "json"])
        .current_dir(place.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (1, ""), "the findings are there, read or not");
}

/// Runs the binary on a hostile file; returns its only finding's message. Time and memory are bounded.
fn hostile(name: &str, make: impl FnOnce(&Path)) -> String {
    let place = Place::with(&[]);
    make(&place.path().join(name));
    // An address space of this size also holds the stacks and the allocator's arenas of all threads.
    let limited = format!("ulimit -v {}; exec \"$0\" \"$@\"", 512 << 10);
    let start = Instant::now();
    let output = Command::new("bash")
        .args([
            "-c",
            &limited,
            env!("CARGO_BIN_EXE_jobgate"),
            "lint",
            "--threads",
            "2",
            "--format",
            "json",
            name,
        ])
        .current_dir(place.path())
        .timeout(Duration::from_secs(20))
        .output()
        .unwrap();
    let took = start.elapsed();
    assert_eq!(code(&output), 1, "{name}: {}", stderr(&output));
    // A second in a release build; this one may be unoptimised, and others may be running.
    assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 }), "{name} took {took:?}");
    let document = json(&output);
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{name}: {findings:?}");
    assert_eq!(findings[0]["rule"], "syntax", "{name}");
    findings[0]["message"].as_str().unwrap().to_owned()
}

fn hostile_bytes(name: &str, bytes: impl AsRef<[u8]>) -> String {
    hostile(name, |path| fs::write(path, bytes).unwrap())
}

#[test]
fn hostile_files_are_refused_quickly_and_in_words() {
    let bomb = (1..30).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| {
        text + &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", "))
    });
    assert!(hostile_bytes("bomb.yaml", bomb).contains("alias"));
    assert!(hostile_bytes("flow.yaml", "[".repeat(100_000)).contains("deep"));
    assert!(
        hostile_bytes(
            "block.yaml",
            (0..2_000).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n")
        )
        .contains("deep")
    );
    assert!(hostile_bytes("dashes.yaml", "- ".repeat(100_000)).contains("deep"));
    assert!(hostile_bytes("deep.json", "{\"a\":".repeat(100_000)).contains("deep"));
    assert!(hostile_bytes("nul.yaml", "kind: Job\0\n").contains("U+0000"));
    assert!(hostile_bytes("utf16.yaml", [0xff, 0xfe, b'k', 0, b':', 0]).contains("UTF-16"));
    assert!(hostile_bytes("latin1.yaml", b"kind: Job\nname: caf\xe9\n").contains("UTF-8"));
    let large = hostile("large.yaml", |path| File::create(path).unwrap().set_len(1 << 30).unwrap());
    assert_eq!(large, "the file has 1 GiB, more than the limit of 32 MiB");
    let zeros = hostile("zeros.yaml", |path| File::create(path).unwrap().set_len(30 << 20).unwrap());
    assert!(zeros.contains("U+0000"), "{zeros}");
}

#[test]
fn a_file_with_too_many_documents_is_to_be_split() {
    let place = Place::with(&[("many.yaml", &"---\na: 1\n".repeat(100_001))]);
    let output = place.run(&["lint", "many.yaml"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(text.contains("more than 100000 documents") && text.contains("help: split the file"), "{text}");
    assert!(!text.contains("nesting"), "{text}");
}

/// Arguments, a file's name and its text for so many wrong parts. To look at all parts for each of them takes
/// minutes where there are many.
fn large_and_wrong(many: usize) -> Vec<(&'static [&'static str], &'static str, String)> {
    let job = |metadata: &str, spec: &str, pod: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: wide\n{metadata}spec:\n{spec}  template:\n    spec:\n      restartPolicy: Never\n{pod}"
        )
    };
    let lines = |line: &dyn Fn(usize) -> String| (0..many).map(line).collect::<String>();
    let container = "      containers: [{name: a, image: b}]\n";
    let one = |at: usize| {
        format!(
            "- apiVersion: batch/v1\n  kind: Job\n  metadata: {{name: j{at}}}\n  spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: b}}]}}}}}}\n"
        )
    };
    let claims =
        lines(&|at| format!("      - {{name: v{at}, persistentVolumeClaim: {{claimName: c{at}}}}}\n"));
    let mounts: Vec<String> = (0..many).map(|at| format!("{{name: v{at}, mountPath: /m{at}}}")).collect();
    let mounting = format!(
        "      containers: [{{name: a, image: b, volumeMounts: [{}]}}]\n      volumes:\n{claims}",
        mounts.join(", ")
    );
    let replicas = (0..many / 4).map(|at| {
        format!("    W{at}: {{restartPolicy: Always, template: {{spec: {{containers: [{{name: pytorch, image: b, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}}}\n")
    });
    let replicas: String = replicas.collect();
    let labels = lines(&|at| format!("    l{at}: 5\n"));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", (0..many / 4).map(one).collect::<String>());
    vec![
        (
            &["lint", "--format", "sarif"][..],
            "labels.yaml",
            job(&format!("  labels:\n{labels}"), "", container),
        ),
        (&["lint", "--diff"], "fields.yaml", job("", &lines(&|at| format!("  field{at}: 1\n")), container)),
        (
            &["lint"],
            "tolerations.yaml",
            job(
                "",
                "",
                &format!("{container}      tolerations:\n{}", lines(&|_| "      - {key: 5}\n".to_owned())),
            ),
        ),
        (&["lint"], "volumes.yaml", job("", "", &mounting)),
        (&["lint", "--diff"], "list.yaml", list.clone()),
        (&["dry-run"], "list.yaml", list),
        (
            &["dry-run"],
            "replicas.yaml",
            format!(
                "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: wide}}\nspec:\n  pytorchReplicaSpecs:\n{replicas}"
            ),
        ),
    ]
}

#[test]
fn what_is_large_and_wrong_everywhere_takes_no_longer_than_its_length() {
    const MANY: usize = 20_000;
    for (quarter, all) in large_and_wrong(MANY / 4).iter().zip(&large_and_wrong(MANY)) {
        let (quarter, all, arguments, name) =
            (processor_seconds(quarter), processor_seconds(all), all.0, all.1);
        // Four times as long, more or less, and sixteen times for a walk over all the others. What takes no
        // time may take any multiple of it.
        assert!(
            all < quarter * 7.0 || all < 1.0,
            "{arguments:?} {name} took {quarter} s, and {all} s where it is four times as long"
        );
    }
}

/// Runs the program and returns the seconds that it took of a processor: others may use the machine, too.
fn processor_seconds((arguments, name, manifest): &(&[&str], &str, String)) -> f64 {
    let place = Place::with(&[(name, manifest)]);
    let mut shell = Command::new("bash");
    shell.current_dir(place.path()).args([
        "-c",
        r#"TIMEFORMAT="%U %S"; time "$@" >/dev/null 2>&1"#,
        "time",
        env!("CARGO_BIN_EXE_jobgate"),
    ]);
    let output = shell.args(*arguments).arg(name).timeout(Duration::from_secs(300)).output().unwrap();
    assert_eq!(code(&output), 1, "{arguments:?} {name}: {}", stderr(&output));
    stderr(&output).split_whitespace().map(|seconds| seconds.parse::<f64>().unwrap()).sum()
}

const EXPERIMENT: &str =
    "apiVersion: kubeflow.org/v1\nkind: Experiment\nmetadata: {name: sweep, namespace: ml}\n";
const TEMPLATE: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-x\n{{- if .Values.a }}\n  labels: {}\n{{- end }}\n";

/// Files of which no rule says anything, and of which most cannot be judged.
fn unjudged() -> Place {
    let claim = "      volumes: [{name: v, persistentVolumeClaim: {claimName: ckpt}}]\n";
    let shared = good().replace("  template:", "  parallelism: 2\n  template:") + claim;
    let unknown = "apiVersion: example.com/v1\nkind: Trial\nmetadata: {name: t}\nspec: {pod: {restartPolicy: Never, containers: [{name: c}]}}\n";
    let kustomization = "resources: [../k8s/job.yaml]\npatches:\n- path: patch.yaml\n- {path: web.yaml, target: {kind: Deployment}}\n";
    Place::with(&[
        ("charts/train/Chart.yaml", "name: train\n"),
        ("charts/train/templates/a.yaml", TEMPLATE),
        ("charts/train/templates/b.yaml", TEMPLATE),
        ("k8s/job.yaml", &shared),
        (
            "k8s/other.yaml",
            &format!(
                "{EXPERIMENT}---\n{unknown}---\nspec: {{template: {{spec: {{containers: [{{name: c}}]}}}}}}\n"
            ),
        ),
        ("over/kustomization.yaml", kustomization),
        (
            "over/patch.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {parallelism: 4}\n",
        ),
        ("over/web.yaml", "- {op: add, path: /a, value: 1}\n"),
        (
            "web/deployment.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: {template: {spec: {containers: [{name: c}]}}}\n",
        ),
    ])
}

/// An AppWrapper of all that may be in one: a Job with a misplaced field, and what is not judged.
const WRAPPER: &str = "\
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: wrapped, namespace: ml}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: train, namespace: other}
      spec:
        activeDeadlineSeconds: 60
        podReplacementPolicy: Failed
        restarts: 3
        template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'example.com/c:1'}]}}
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: part}
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}
  - template: {apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: ray}, spec: {}}
  - template:
      apiVersion: v1
      kind: Pod
      metadata: {name: pod}
      spec: {restartPolicy: Never, containers: [{name: c, image: 'example.com/c:1'}]}
  - template:
      apiVersion: example.dev/v1
      kind: Solver
      metadata: {name: solver}
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'example.com/c:1'}]}}}
  - template: {apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: nested}, spec: {components: []}}
  - template: {apiVersion: kubeflow.org/v1alpha1, kind: MPIJob, metadata: {name: old}, spec: {replicas: 2}}
  - template: {metadata: {name: nameless}}
  - template: {apiVersion: v1, kind: Service, metadata: {name: service}, spec: {ports: [{port: 80}]}}
";

#[test]
fn what_is_in_a_wrapper_is_judged_or_named() {
    let place = Place::with(&[("wrapper.yaml", WRAPPER)]);
    let document = json(&place.run(&["lint", "--format", "json"]));
    let said = |list: &str, line: &dyn Fn(&Value) -> String| -> String {
        document[list].as_array().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let unjudged = said("unjudged", &|one| {
        format!("{} {}: {}", text(&one["reason"]), text(&one["object"]["name"]), text(&one["message"]))
    });
    assert_snapshot!(unjudged, @"
    partial part: this is a partial object: no container has an image
    kind ray: Jobgate does not judge the kind RayCluster
    kind pod: Jobgate does not judge the kind Pod
    lookalike solver: Jobgate does not know the kind Solver, which runs batch pods
    inside nested: the AppWrapper inside the AppWrapper is not judged
    not-served old: this version is no longer served
    ");
    let findings = said("findings", &|one| {
        format!("{} {}: {}", text(&one["action"]), text(&one["rule"]), text(&one["message"]))
    });
    assert_snapshot!(findings, @r#"
    warn appwrapper-operator: AppWrapper rejects this: spec.components[0].template.metadata.namespace: Forbidden: must be the namespace of the AppWrapper
    warn unknown-field: unknown field `restarts`: the API server drops it silently
    warn appwrapper-operator: AppWrapper rejects this: spec.components[5].template: Forbidden: may not be an AppWrapper
    deny known-kind: `kubeflow.org/v1alpha1` of `MPIJob` is no longer served
    deny api-server: the API server rejects this: spec.components[7].template.apiVersion: Required value: must not be empty
    deny api-server: the API server rejects this: spec.components[7].template.kind: Required value: must not be empty
    "#);
    // A cluster gets whole objects, and the operator's webhook rejects this one.
    let nameless = "  - template: {metadata: {name: nameless}}\n";
    let place = Place::with(&[(
        "wrapper.yaml",
        &WRAPPER
            .replace(nameless, "")
            .replace("spec: {template: {spec", "spec: {activeDeadlineSeconds: 60, template: {spec"),
    )]);
    let answered = place.run(&["dry-run"]);
    for line in ["the operator would reject it", "5 of 6 objects not judged"] {
        assert!(stdout(&answered).contains(line), "{}", stdout(&answered));
    }
}

#[test]
fn what_is_not_judged_is_said_with_the_reason() {
    let place = unjudged();
    let document = json(&place.run(&["lint", "--format", "json"]));
    let said: Vec<String> = document["unjudged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unjudged| {
            let text = |key: &str| unjudged[key].as_str().unwrap().to_owned();
            format!(
                "{} {} {}: {}; {}",
                text("file"),
                unjudged["document"],
                text("reason"),
                text("message"),
                text("help")
            )
        })
        .collect();
    assert_snapshot!(said.join("\n"), @"
    charts/train/templates/a.yaml null chart: the chart in charts/train is not rendered; lint the rendered manifests: `helm template charts/train | jobgate lint -`
    k8s/job.yaml 0 claim: the access modes of the claim `ckpt` are unknown; pass the claim's manifest, or `kubectl get pvc -A -o yaml`, with `--facts`
    k8s/other.yaml 0 kind: Jobgate does not judge the kind Experiment; review it by hand
    k8s/other.yaml 1 lookalike: Jobgate does not know the kind Trial, which runs batch pods; review it by hand
    k8s/other.yaml 2 partial: this is a partial object without `apiVersion` and `kind`; lint the whole object: `kubectl kustomize DIR | jobgate lint -`
    over/kustomization.yaml null kustomization: the kustomization in over is not rendered; lint the rendered manifests: `kubectl kustomize over | jobgate lint -`
    over/patch.yaml 0 patch: this is a patch of over/kustomization.yaml; lint the rendered manifests: `kubectl kustomize over | jobgate lint -`
    ");
    assert_eq!(document["summary"]["unjudged"], 7);
    // Of a chart there is one finding, and of a patch none for what it lacks.
    let rules: Vec<&Value> =
        document["findings"].as_array().unwrap().iter().map(|finding| &finding["rule"]).collect();
    assert_eq!(rules, ["unrendered-template"]);
    for command in ["lint", "dry-run"] {
        assert_eq!(code(&place.run(&[command])), 0, "{command}");
        assert_eq!(code(&place.run(&[command, "--fail-on-unjudged"])), 1, "{command}");
    }
    let human = place.run(&["lint", "k8s", "over"]);
    assert_snapshot!(stdout(&human), @"
    not judged: batch kinds that Jobgate does not judge
      k8s/other.yaml:2:7  Experiment ml/sweep
      = help: review it by hand

    not judged: unknown kinds that run batch pods
      k8s/other.yaml:6:7  Trial t
      = help: review it by hand

    not judged: partial objects: the rest may be elsewhere
      k8s/other.yaml:10:1  no kind, no name
      = help: lint the whole object: `kubectl kustomize DIR | jobgate lint -`

    not judged: kustomize patches
      over/patch.yaml:2:7  Job train of over/kustomization.yaml
      = help: lint the rendered manifests: `kubectl kustomize over | jobgate lint -`

    not judged: kustomizations that are not rendered
      over/kustomization.yaml
      = help: lint the rendered manifests: `kubectl kustomize over | jobgate lint -`

    not judged: claims with unknown access modes
      k8s/job.yaml:17:62  claim ckpt of Job team-a/train
      = help: pass the claim's manifest, or `kubectl get pvc -A -o yaml`, with `--facts`

    5 files, 7 documents, 2 jobs: no findings; 4 of 5 objects not judged (Experiment 1, Trial 1, partial Job 1, without a kind 1); 1 kustomization not rendered; 1 claim unknown
    ");
    let coloured = place.run(&["lint", "k8s", "--color", "always"]);
    assert!(!stdout(&coloured).contains("\u{1b}[92m"), "no green: {}", stdout(&coloured));
}

#[test]
fn what_a_chart_or_a_kustomization_takes_from_elsewhere_is_said() {
    let place = Place::with(&[
        ("job.yaml", &good()),
        ("in/Kustomization", "resources: [../job.yaml]\n"),
        ("in/chart/Chart.yaml", "dependencies: [{name: common}]\n"),
        ("in/chart/templates/web.yaml", "kind: Deployment\nspec: {{ .Values.job }}\n"),
    ]);
    let output = place.run(&["lint", "in"]);
    assert_snapshot!(stdout(&output), @"
    not judged: kustomizations that are not rendered
      in/Kustomization
      = help: lint the rendered manifests: `kubectl kustomize in | jobgate lint -`

    not judged: charts with templates or dependencies that were not linted
      in/chart/Chart.yaml
      = help: lint the rendered manifests: `helm template in/chart | jobgate lint -`

    3 files, 3 documents: no batch jobs among them; 1 kustomization not rendered; 1 chart not rendered
    ");
    assert_eq!(code(&place.run(&["lint", "in", "--fail-on-unjudged"])), 1);
    assert_eq!(
        stdout(&place.run(&["lint", "."])).lines().filter(|line| line.contains("Kustomization")).count(),
        0
    );
}

/// Says which files of a tree were not judged, each with the reason, and which errors and warnings there are.
fn said(files: &[(&str, &str)], arguments: &[&str]) -> Vec<String> {
    let output = Place::with(files).run(&[&["lint", "--format", "json"], arguments].concat());
    let document = json(&output);
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let unjudged = document["unjudged"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|unjudged| format!("{} {}", text(unjudged, "file"), text(unjudged, "reason")));
    let found = document["findings"].as_array().into_iter().flatten();
    let found = found.map(|finding| {
        format!("{} {} {}", text(finding, "file"), text(finding, "action"), text(finding, "rule"))
    });
    unjudged.chain(found.filter(|found| !found.ends_with("unrendered-template"))).collect()
}

#[test]
fn what_a_kustomization_does_to_batch_work_is_said() {
    let job = good();
    let base = |over: &'static str| {
        [
            ("base/kustomization.yaml", "resources: [job.yaml]\n"),
            ("base/job.yaml", &*job),
            ("o/kustomization.yaml", over),
        ]
    };
    let unrendered = ["o/kustomization.yaml kustomization"];
    for over in [
        "# Copyright\n---\nresources: [../base]\npatches: [{target: {kind: Job}, patch: \"- {op: remove, path: /spec/a}\"}]\n",
        "# Copyright\r\n---\r\nresources: [../base]\r\nnamespace: x\r\n",
        "resources: [../base]\npatches: [{target: {kind: Job}, patch: 'kind: NotImportant'}]\n",
        "resources: [../base]\npatches: [{target: {name: train}, patch: 'kind: NotImportant'}]\n",
        "resources: [../base]\npatches: [{target: {kind: (Deployment|Job)}, patch: '[]'}]\n",
        "kind: Kustomization\nresources:\n- ../base\nnamespace: {{ x }}\n",
        "resources: [../base]\nnamespace: {{ x }}\n",
        "resources:\n- {{ x }}\n",
    ] {
        assert_eq!(said(&base(over), &["."]), unrendered, "{over}");
    }
    for over in [
        "resources: [../base]\npatches: [{target: {kind: Deployment|StatefulSet}, patch: '[]'}, {target: {kind: ^(?:Service)$}, patch: '[]'}]\n",
        "resources: [../base]\npatches: [{target: {kind: Deployment}, patch: 'kind: Job'}, {target: {group: apps}, patch: '[]'}]\n",
    ] {
        assert_eq!(said(&base(over), &["."]), [""; 0], "{over}");
    }
    assert_eq!(
        said(&base("resources: [../base\n"), &["."]),
        ["o/kustomization.yaml unreadable", "o/kustomization.yaml deny syntax"]
    );
}

#[test]
fn a_patch_is_said_where_it_is_for_batch_work() {
    let patch = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {template: {spec: {containers: [{name: trainer, image: a/b:v2}]}}}\n";
    let job = good();
    let far = [
        ("k/kustomization.yaml", "resources: [job.yaml]\npatches: [{path: a/b/p.yaml}]\n"),
        ("k/job.yaml", &job),
        ("k/a/b/p.yaml", patch),
    ];
    assert_eq!(said(&far, &["k/a/b"]), ["k/a/b/p.yaml patch"]);
    let place = Place::with(&far);
    let output = place
        .command(&["lint", "--format", "json", "b"])
        .current_dir(place.path().join("k/a"))
        .output()
        .unwrap();
    assert_eq!(
        (&json(&output)["unjudged"][0]["reason"], code(&output)),
        (&"patch".into(), 0),
        "what is below the current directory"
    );
    let licensed = [
        ("kustomization.yaml", "# Copyright\n---\nresources: [job.yaml]\npatches: [{path: p.yaml}]\n"),
        ("job.yaml", &job),
        ("p.yaml", patch),
    ];
    assert_eq!(said(&licensed, &["."]), ["kustomization.yaml kustomization", "p.yaml patch"]);
    let operations = "- {op: remove, path: /spec/x}\n";
    let part = "spec: {template: {spec: {containers: [{name: a, image: b}]}}}\n";
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    for (target, patch) in [
        ("name: web", operations),
        ("kind: Deployment", operations),
        ("kind: Deployment|Service", part),
        ("name: web", part),
    ] {
        let kustomization =
            format!("resources: [a.yaml]\npatches: [{{path: p.yaml, target: {{{target}}}}}]\n");
        assert_eq!(
            said(
                &[
                    ("kustomization.yaml", &kustomization),
                    ("a.yaml", web),
                    ("p.yaml", patch),
                    ("job.yaml", &job)
                ],
                &["."]
            ),
            [""; 0],
            "{target}"
        );
    }
    let listed = [
        ("kustomization.yaml", "resources: [a.yaml]\npatches: [{path: p.yaml, target: {name: t}}]\n"),
        ("a.yaml", &job),
        ("p.yaml", operations),
    ];
    assert_eq!(said(&listed, &["."]), ["kustomization.yaml kustomization", "p.yaml patch"]);
    // A component is for whatever is taken in with it.
    let component = "kind: Component\npatches: [{path: p.yaml, target: {name: t}}]\n";
    let over = ("kustomization.yaml", "resources: [a.yaml]\ncomponents: [c]\n");
    let with = |base: &'static str| {
        [
            over,
            ("a.yaml", if base == "job" { &*job } else { web }),
            ("c/kustomization.yaml", component),
            ("c/p.yaml", operations),
        ]
    };
    assert!(said(&with("job"), &["."]).contains(&"c/p.yaml patch".to_owned()));
    assert_eq!(said(&with("web"), &["."]), [". nothing"]);
}

#[test]
fn what_a_cluster_patches_is_said() {
    let flux = |patch: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: x}}\nspec: {{path: ./a, patches: [{patch}]}}\n"
        )
    };
    let argo = |source: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: x}}\nspec: {{{source}}}\n"
        )
    };
    for text in [
        flux("{target: {kind: Job}, patch: '[]'}"),
        flux("{patch: 'kind: PyTorchJob'}"),
        argo("source: {kustomize: {patches: [{target: {kind: CronJob}, patch: '[]'}]}}"),
        argo("sources: [{}, {kustomize: {patches: [{target: {kind: Job}, patch: '[]'}]}}]"),
    ] {
        assert_eq!(said(&[("a.yaml", &text)], &["."]), ["a.yaml inside"], "{text}");
    }
    for text in [
        flux("{target: {kind: Deployment}, patch: '[]'}"),
        flux("{patch: 'kind: Service'}"),
        argo("source: {kustomize: {images: [a]}}"),
    ] {
        assert_eq!(said(&[("a.yaml", &text)], &["."]), [". nothing"], "{text}");
    }
}

#[test]
fn a_chart_says_what_may_be_batch_work() {
    let chart = ("c/Chart.yaml", "apiVersion: v2\nname: c\n");
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: {{ x }}}\n";
    assert_eq!(said(&[chart, ("c/templates/.j.yaml", job)], &["."]), [". nothing"], "Helm does not read it");
    assert_eq!(said(&[chart, ("c/templates/j.yaml", job)], &["."]), ["c/templates/j.yaml chart"]);
    let parts = ["c/Chart.yaml chart-parts"];
    assert_eq!(
        said(&[("c/Chart.yaml", "# Copyright\n---\nname: c\ndependencies: [{name: sub}]\n")], &["."]),
        parts
    );
    assert_eq!(said(&[chart, ("c/requirements.yaml", "dependencies: [{name: sub}]\n")], &["."]), parts);
    let ignored = (".gitignore", "charts/\n");
    let sub = ("c/charts/sub/Chart.yaml", "name: sub\n");
    assert_eq!(said(&[chart, ignored, sub, ("c/charts/sub/templates/j.yaml", job)], &["."]), parts);
    assert_eq!(
        said(&[chart, ignored, sub, ("c/charts/sub/templates/s.yaml", "kind: Service\n")], &["."]),
        [". nothing"]
    );
    // Behind a separator stands what a value holds.
    let text =
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---{{ toYaml .Values.extra | nindent 0 }}\n";
    assert_eq!(said(&[chart, ("c/templates/a.yaml", text)], &["."]), ["c/templates/a.yaml chart"]);
}

#[test]
fn a_directory_holds_much_that_is_no_manifest() {
    let deep = ["[".repeat(5000), "]".repeat(5000)].concat();
    let others = [
        (".vscode/launch.json", "{\n // c\n \"version\": \"0.2.0\"\n}\n"),
        (".vscode/tasks.json", "{ // Task\n \"group\": {\"kind\": \"build\"}, \"label\": \"Run Task\" }\n"),
        ("tsconfig.json", "{\"a\": 1, /* x */ }\n"),
        ("database.yml", "a: <%= x %>\nb: <% if x %>\n  c: [\njob: 1\n"),
        ("log.json", "{\"a\":1}\n{\"b\":2}\n"),
        ("deep.json", &deep),
        ("directive.yaml", "%YAML 1.2\n---\na: 1\n"),
        ("separator.yaml", "--- foo\na: 1\n"),
        ("helmfile.yaml", "releases:\n- name: {{ x }}\n  chart: a/job\n"),
        ("meta.yaml", "{% set name = \"x\" %}\npackage:\n  name: {{ name }}\n"),
        ("play.yml", "- hosts: {{ h }}\n  tasks:\n  - shell: {{ job }}\n"),
        ("stack.yml", "version: \"3\"\nservices:\n  job: {{ x }}\n"),
    ];
    assert_eq!(said(&others, &["."]), [". nothing"]);
    for (name, text) in others {
        assert_ne!(said(&[(name, text)], &[name]), [""; 0], "{name}: a file that is named is meant");
    }
    let place = Place::with(&[("good.yaml", &good())]);
    fs::write(place.path().join("latin.yaml"), b"a: \xe9\n").unwrap();
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    fs::write(place.path().join("wide.json"), wide("\u{feff}{\"a\": 1}")).unwrap();
    assert_eq!(code(&place.run(&["lint", ".", "--fail-on-unjudged"])), 0);
    fs::write(
        place.path().join("wide.json"),
        wide("\u{feff}{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\"}"),
    )
    .unwrap();
    assert_eq!(code(&place.run(&["lint", "."])), 1);
}

#[test]
fn what_cannot_be_read_and_names_a_batch_kind_is_an_error() {
    for text in [
        "kind: Job\nspec: [\n",
        "apiVersion: batch/v1\nspec: [\n",
        "apiVersion: batch/v1\nkind: J$X\nspec: [\n---\nkind: Service\nmetadata: {name: {{ x }}}\n",
    ] {
        assert_eq!(said(&[("a.yaml", text)], &["."]), ["a.yaml unreadable", "a.yaml deny syntax"], "{text}");
    }
    // Others are not what this linter is for, unless they are named.
    for text in [
        "apiVersion: v1\nkind: Run\nspec: [\n",
        "spec: {restartPolicy: Never, containers: [{]}\n",
        "{\"spec\": {}, \"apiVersion\" : \"v1\",, \"kind\" : \"Run\"}\n",
        "apiVersion: apps/v1\nkind: Deployment\nspec: [\n",
    ] {
        assert_eq!(said(&[("a.yaml", text)], &["."]), ["a.yaml unreadable"], "{text}");
        assert_eq!(
            said(&[("a.yaml", text)], &["a.yaml"]),
            ["a.yaml unreadable", "a.yaml deny syntax"],
            "{text}"
        );
        let place = Place::with(&[("a.yaml", text)]);
        assert_eq!(code(&place.run(&["lint", "."])), 0, "{text}");
        assert_eq!(code(&place.run(&["lint", ".", "--fail-on-unjudged"])), 1, "{text}");
    }
    let behind = format!("{}...\n{}", good(), JOB);
    assert_eq!(said(&[("a.yaml", &behind)], &["."]), ["a.yaml unreadable", "a.yaml deny syntax"]);
    assert_eq!(said(&[("a.yaml", &format!("{}...\n# The end.\n", good()))], &["."]), [""; 0]);
}

#[test]
fn what_only_looks_like_batch_work_is_said() {
    let pod = |extra: &str| {
        format!(
            "metadata: {{name: x}}\nspec: {{template: {{spec: {{containers: [{{name: a, image: b{extra}}}]}}}}}}\n"
        )
    };
    for (version, kind) in [
        ("train.kubedl.io/v1", "PyTorchJob"),
        ("kubeflow.org/v1", "FooJob"),
        ("run.ai/v1", "RunaiJob"),
        ("x.com/v1", "TrainingJob"),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\n{}", pod(""));
        let said = said(&[("a.yaml", &text)], &["."]);
        assert!(said.len() == 1 || said.len() == 2 && said[1].ends_with("known-kind"), "{said:?}");
    }
    assert_eq!(
        said(&[("a.yaml", &format!("apiVersion: x.com/v1\nkind: Run\n{}", pod("")))], &["."]),
        [". nothing"]
    );
    let gpu =
        format!("apiVersion: x.com/v1\nkind: Serving\n{}", pod(", resources: {limits: {nvidia.com/gpu: 1}}"));
    let document = json(&Place::with(&[("a.yaml", &gpu)]).run(&["lint", ".", "--format", "json"]));
    assert_eq!(
        document["unjudged"][0]["message"],
        "Jobgate does not know the kind Serving, which runs pods with accelerators"
    );
    let job = "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {a: 1}}";
    for text in [
        format!("manifests:\n- {job}\n"),
        format!("items:\n- {job}\n"),
        format!("apiVersion: v1\nkind: list\nitems:\n- {job}\n"),
        format!("- hosts: all\n  tasks:\n  - k8s: {{definition: {job}}}\n"),
    ] {
        assert_eq!(said(&[("a.yaml", &text)], &["."]), ["a.yaml inside"], "{text}");
    }
}

#[test]
fn a_key_that_is_to_be_replaced_keeps_an_object_from_being_judged() {
    let job = |resource: &str| {
        let spec = "runPolicy: {activeDeadlineSeconds: 9, cleanPodPolicy: All, ttlSecondsAfterFinished: 9}";
        let pod = format!(
            "{{containers: [{{name: pytorch, image: a/b:v1, resources: {{limits: {{{resource}: 8}}}}}}]}}"
        );
        let worker = format!("Worker: {{replicas: 1, restartPolicy: Never, template: {{spec: {pod}}}}}");
        format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: t}}\nspec: {{{spec}, pytorchReplicaSpecs: {{{worker}}}}}\n"
        )
    };
    for text in [
        job("'${GPU_RESOURCE}'"),
        job("$G"),
        job("<gpu>"),
        job("cpu").replace("Worker", "$ROLE"),
        job("cpu").replace("Worker", "'{{ x }}'"),
    ] {
        let said = said(&[("a.yaml", &text)], &["."]);
        assert!(
            said.contains(&"a.yaml placeholder".to_owned())
                && said.contains(&"a.yaml warn placeholder".to_owned()),
            "{said:?} {text}"
        );
    }
    assert_eq!(said(&[("a.yaml", &job("cpu"))], &["."]), [""; 0]);
}

#[test]
fn every_format_says_what_is_not_judged() {
    let place = unjudged();
    let of = |format: &str, more: &[&str]| {
        place.run(&[&["lint", "--format", format, "k8s/other.yaml"], more].concat())
    };
    let sarif = json(&of("sarif", &[]));
    let notification = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(
        (&notification["descriptor"]["id"], &notification["level"]),
        (&"not-judged/kind".into(), &"warning".into())
    );
    assert_eq!(sarif["runs"][0]["invocations"][0]["executionSuccessful"], true);
    assert_eq!(notification["locations"][0]["physicalLocation"]["region"]["startLine"], 2);
    let junit = of("junit", &[]);
    assert!(stdout(&junit).contains(r#"tests="3" skipped="3" failures="0""#), "{}", stdout(&junit));
    assert!(stdout(&of("junit", &["--fail-on-unjudged"])).contains(r#"tests="3" skipped="0" failures="3""#));
    assert!(stdout(&of("github", &[])).starts_with(
        "::notice file=k8s/other.yaml,line=2,title=not judged%3A Experiment ml/sweep::Jobgate does not"
    ));
    assert!(stdout(&of("github", &["--fail-on-unjudged"])).starts_with("::error file="));
    let gitlab = json(&of("gitlab", &[]));
    assert_eq!((&gitlab[0]["check_name"], &gitlab[0]["severity"]), (&"not-judged".into(), &"info".into()));
    assert_eq!(json(&of("gitlab", &["--fail-on-unjudged"]))[0]["severity"], "major");
}

#[test]
fn a_chart_is_named_as_the_user_would_type_it() {
    let place = unjudged();
    let help = |directory: &str, argument: &str| {
        let output = place
            .command(&["lint", "--format", "json", argument])
            .current_dir(place.path().join(directory))
            .output()
            .unwrap();
        json(&output)["unjudged"][0]["help"].as_str().unwrap().to_owned()
    };
    for (directory, argument, chart) in [
        ("", ".", "charts/train"),
        ("charts", "train/templates", "train"),
        ("charts/train", "templates/b.yaml", "."),
        ("charts/train/templates", "a.yaml", ".."),
    ] {
        assert_eq!(
            help(directory, argument),
            format!("lint the rendered manifests: `helm template {chart} | jobgate lint -`"),
            "{directory}"
        );
    }
}

#[test]
fn a_path_with_nothing_to_judge_is_not_green() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let place =
        Place::with(&[("web/config.yaml", config), ("k8s/job.yaml", &good()), ("none/readme.md", "")]);
    for (path, said) in [
        ("web", "nothing to judge in web"),
        ("web/config.yaml", "nothing to judge in web/config.yaml"),
        ("none", "nothing to judge in none"),
    ] {
        for command in ["lint", "dry-run"] {
            let output = place.run(&[command, path, "--color", "always"]);
            assert!(code(&output) == 0 && stdout(&output).contains(said), "{}", stdout(&output));
            assert!(
                !stdout(&output).contains("nothing found") && !stdout(&output).contains("\u{1b}[92m"),
                "{}",
                stdout(&output)
            );
            assert_eq!(code(&place.run(&[command, path, "--fail-on-unjudged"])), 1);
        }
    }
    // The files of a commit, or of a glob, are mostly none of ours.
    assert_eq!(code(&place.run(&["lint", "web/config.yaml", "k8s/job.yaml", "--fail-on-unjudged"])), 0);
    assert_eq!(code(&place.run(&["lint", "web", "k8s", "--fail-on-unjudged"])), 1);
    assert_eq!(code(&place.run(&["lint", "k8s", "--fail-on-unjudged"])), 0);
}

#[test]
fn a_claim_is_unknown_only_where_it_could_decide() {
    let with = |extra: &str, claim: &str| {
        let volumes = "      volumes: [{name: v, persistentVolumeClaim: {claimName: ckpt}}]\n";
        format!("{}{volumes}{claim}", good().replace("  template:", &format!("{extra}  template:")))
    };
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: ckpt}\nspec: {accessModes: [ReadWriteMany]}\n";
    let place = Place::with(&[
        ("one.yaml", &with("", "")),
        ("two.yaml", &with("  parallelism: 2\n", "")),
        ("known.yaml", &with("  parallelism: 2\n", claim)),
    ]);
    for (file, count) in [("one.yaml", 0), ("two.yaml", 1), ("known.yaml", 0)] {
        for command in ["lint", "dry-run"] {
            let document = json(&place.run(&[command, "--format", "json", file]));
            assert_eq!(document["summary"]["unjudged"], count, "{command} {file}");
        }
    }
    assert_eq!(code(&place.run(&["lint", "two.yaml", "--facts", "known.yaml", "--fail-on-unjudged"])), 0);
}

#[test]
fn what_cannot_be_read_counts_as_not_judged() {
    let place = Place::with(&[
        ("broken.yaml", "kind: Job\nspec: {a: 1\n"),
        ("large.yaml", &format!("{JOB}{}", "# x\n".repeat(1000))),
    ]);
    let document = json(&place.run(&["lint", "--max-file-size", "1K", "--format", "json"]));
    let reasons: Vec<&Value> =
        document["unjudged"].as_array().unwrap().iter().map(|unjudged| &unjudged["reason"]).collect();
    assert_eq!(reasons, ["unreadable", "too-large"]);
}

#[test]
fn lint_and_dry_run_give_a_problem_one_level() {
    let typo = good().replace("  template:", "  paralelism: 2\n  template:");
    let placeholder = good().replace("  template:", "  parallelism: $WORKERS\n  template:");
    let name = good().replace("name: train\n", "name: $NAME\n");
    let place =
        Place::with(&[("typo.yaml", &typo), ("placeholder.yaml", &placeholder), ("name.yaml", &name)]);
    let found = |command: &str, file: &str| {
        let document = json(&place.run(&[command, "--format", "json", file]));
        let findings = document["findings"].as_array().unwrap().iter();
        let found: Vec<String> = findings
            .map(|finding| format!("{} {} {}", finding["action"], finding["rule"], finding["path"]))
            .collect();
        (found, document["verdicts"][0]["verdict"].as_str().map(str::to_owned))
    };
    for (file, expected, verdict) in [
        ("typo.yaml", &[r#""deny" "unknown-field" "spec.paralelism""#][..], "rejected by the API server"),
        ("placeholder.yaml", &[r#""warn" "placeholder" "spec.parallelism""#], "not judged"),
        ("name.yaml", &[r#""warn" "placeholder" "metadata.name""#], "not judged"),
    ] {
        assert_eq!(found("lint", file).0, expected, "{file}");
        assert_eq!(
            found("dry-run", file),
            (expected.iter().map(|line| (*line).to_owned()).collect(), Some(verdict.to_owned())),
            "{file}"
        );
    }
}

#[cfg(feature = "serve")]
#[test]
fn a_cluster_that_cannot_be_asked_is_an_error() {
    let config = |context: &str, server: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
        )
    };
    let gone = config("a", "https://127.0.0.1:1");
    let place = Place::with(&[
        ("job.yaml", &good()),
        ("web.yaml", "apiVersion: v1\nkind: ConfigMap\n"),
        ("gone", &gone),
        ("other", &config("b", "https://127.0.0.1:1")),
        ("broken", "a: [b"),
    ]);
    for (file, kubeconfig, said) in [
        ("job.yaml", "gone", "https://127.0.0.1:1: reach the API server"),
        ("web.yaml", "gone", "https://127.0.0.1:1: reach the API server"),
        (
            "job.yaml",
            "other",
            "the kubeconfig other: its current context `b` is not in it; name one with --context (it has a)",
        ),
        ("job.yaml", "broken", "the kubeconfig broken: it is not a valid kubeconfig: line 1"),
        ("job.yaml", "none", "the kubeconfig none: cannot read it: No such file"),
    ] {
        let output = place.run(&["dry-run", "--cluster", "--kubeconfig", kubeconfig, file]);
        assert_eq!((code(&output), stdout(&output)), (2, ""), "{kubeconfig}");
        assert!(
            stderr(&output).contains(said) && stderr(&output).lines().count() == 1,
            "{}",
            stderr(&output)
        );
    }
    let output = place.run(&["dry-run", "--cluster", "--kubeconfig", "gone", "--context", "z", "job.yaml"]);
    assert!(
        stderr(&output).contains("the kubeconfig gone: there is no context `z` in it (it has a)"),
        "{}",
        stderr(&output)
    );
}

/// Answers every request on a port of this machine alike, for as long as the tests run. Returns its URL.
#[cfg(feature = "serve")]
fn answering(answer: String) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), Vec::new());
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                request.push(byte[0]);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[cfg(feature = "serve")]
#[test]
fn what_is_no_api_server_is_an_error() {
    let reply = |head: &str, body: &str| {
        answering(format!(
            "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    };
    let status =
        |code: u16| format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code}}}"#);
    let not_found = "404 Not Found";
    for (server, said) in [
        (
            reply("500 Internal Server Error", "oops\n"),
            "500 Internal Server Error and \"oops\": is it a Kubernetes API server?",
        ),
        (reply("500 Internal Server Error", &status(500)), "500 Internal Server Error and"),
        (
            reply("200 OK", "\n<!DOCTYPE html>\n<title>Sign in</title>"),
            "200 OK and \"<!DOCTYPE html>\": is it",
        ),
        (reply("200 OK", "{}"), "200 OK and \"{}\": is it"),
        (reply("200 OK", ""), "200 OK and \"an empty body\": is it"),
        (reply("200 OK", r#"{"major":"1","minor":"","gitVersion":"x"}"#), "200 OK and"),
        (reply("200 OK", &" ".repeat(100_000)), "too much data"),
        (reply("302 Found", ""), "302 Found and"),
        (reply(not_found, "404 page not found"), "404 Not Found and"),
        (reply("401 Unauthorized", "log in"), "401 Unauthorized and \"log in\""),
        (reply("401 Unauthorized", &status(401)), "does not accept the kubeconfig's credentials"),
        (reply("403 Forbidden", "<html>"), "403 Forbidden and"),
        (answering("SSH-2.0-OpenSSH_9.6\r\n".to_owned()), "reach the API server"),
    ] {
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
        );
        let place = Place::with(&[("job.yaml", &good()), ("config", &config)]);
        for command in [&["dry-run", "--cluster", "job.yaml"][..], &["audit"], &["doctor"]] {
            let output = place.run(&[command, &["--kubeconfig", "config"]].concat());
            assert_eq!((code(&output), stdout(&output)), (2, ""), "{command:?} {said}");
            assert!(
                stderr(&output).contains(said) && stderr(&output).contains(&server),
                "{said}: {}",
                stderr(&output)
            );
        }
    }
    // Who may not ask for the version is answered by an API server all the same.
    let server = reply("403 Forbidden", &status(403));
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
    );
    let place = Place::with(&[("job.yaml", &good()), ("config", &config)]);
    let output =
        place.run(&["dry-run", "--cluster", "--format", "json", "--kubeconfig", "config", "job.yaml"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["unjudged"][0]["reason"], "not-looked-up");
}

#[test]
fn review_says_what_it_could_not_judge() {
    let place = Place::with(&[]);
    let review = |object: &str, group: &str, kind: &str| {
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","namespace":"n",
                "kind":{{"group":"{group}","version":"v1","kind":"{kind}"}},"object":{object}}}}}"#
        );
        let output = place.command(&["review"]).write_stdin(body).output().unwrap();
        assert_eq!(json(&output)["response"]["uid"], "u");
        stderr(&output).to_owned()
    };
    assert_eq!(
        review(r#"{"apiVersion":"kubeflow.org/v1","kind":"Experiment"}"#, "kubeflow.org", "Experiment"),
        "jobgate: not judged: Jobgate does not judge the kind Experiment; review it by hand\n"
    );
    let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"parallelism":2,"completions":2,"activeDeadlineSeconds":9,"template":{"spec":{
        "restartPolicy":"Never","containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"ckpt"}}]}}}}"#;
    assert!(
        review(job, "batch", "Job")
            .starts_with("jobgate: not judged: the access modes of the claim `ckpt` are unknown; pass")
    );
    assert_eq!(review(&job.replace(r#""parallelism":2"#, r#""parallelism":1"#), "batch", "Job"), "");
}

/// Returns what `lint` and `dry-run` find, as level, rule and message; the same for both.
fn found_by_both(place: &Place, file: &str) -> Vec<(String, String, String)> {
    let found = |command: &str| {
        let document = json(&place.run(&[command, "--format", "json", file]));
        let findings = document["findings"].as_array().unwrap().iter();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        findings
            .map(|finding| (text(finding, "action"), text(finding, "rule"), text(finding, "message")))
            .collect::<Vec<_>>()
    };
    let lint = found("lint");
    assert_eq!(lint, found("dry-run"), "{file}");
    lint
}

#[test]
fn a_volume_that_a_claim_names_decides_with_it() {
    let job = good().replace("  template:", "  parallelism: 2\n  template:").replace(
        "      containers:",
        "      volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: c}}]\n      containers:",
    ) + "          volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]\n";
    let claim = |extra: &str, mode: &str| {
        format!(
            "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c{extra}}}\nspec:\n  volumeName: pv\n  accessModes: [{mode}]\n"
        )
    };
    let by_author = claim("", "ReadWriteOnce");
    let bound = claim(", annotations: {pv.kubernetes.io/bind-completed: 'yes'}", "ReadWriteOnce");
    let volume = |source: &str| {
        format!("---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv}}\nspec: {{{source}}}\n")
    };
    let once = "accessModes: [ReadWriteOnce]";
    let cases = [
        ("unseen", by_author.clone(), &["warn"][..]),
        ("bound", bound.clone(), &["deny"]),
        ("host-path", by_author.clone() + &volume(&format!("{once}, hostPath: {{path: /data}}")), &["warn"]),
        ("nfs", by_author.clone() + &volume(&format!("{once}, nfs: {{server: s, path: /}}")), &[]),
        ("bound-nfs", bound + &volume(&format!("{once}, nfs: {{server: s, path: /}}")), &[]),
        (
            "csi",
            by_author.clone() + &volume(&format!("{once}, csi: {{driver: disk.example.com}}")),
            &["deny"],
        ),
        (
            "csi-many",
            by_author
                + &volume("accessModes: [ReadWriteOnce, ReadWriteMany], csi: {driver: files.example.com}"),
            &[],
        ),
        (
            "one-pod",
            claim("", "ReadWriteOncePod") + &volume(&format!("{once}, nfs: {{server: s, path: /}}")),
            &["deny"],
        ),
        ("none", claim("", "ReadWriteOnce").replace("  volumeName: pv\n", ""), &["deny"]),
    ];
    for (name, objects, expected) in cases {
        let place = Place::with(&[("job.yaml", &(job.clone() + &objects))]);
        let found = found_by_both(&place, "job.yaml");
        let levels: Vec<&str> = found
            .iter()
            .filter(|found| found.1 == "checkpoint-volume-access")
            .map(|found| &*found.0)
            .collect();
        assert_eq!(levels, expected, "{name}: {found:?}");
    }
    let host_path = volume(&format!("{once}, hostPath: {{path: /data}}"));
    let place = Place::with(&[
        ("jobs/job.yaml", &job),
        ("storage/claim.yaml", &claim("", "ReadWriteOnce")),
        ("storage/volume.yaml", &host_path),
    ]);
    // A claim of another directory is meant where its namespace is that of the Job.
    let found = |arguments: &[&str]| {
        stdout(&place.run(&[&["lint", "--format", "json"], arguments].concat()))
            .contains("bound to a `hostPath`")
    };
    assert!(
        !found(&["jobs"])
            && found(&["jobs", "--facts", "storage/claim.yaml", "--facts", "storage/volume.yaml"])
    );
}

#[test]
fn versions_that_are_not_served_are_errors() {
    let job = good();
    let cron = "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: c}\nspec:\n  schedule: '@daily'\n  concurrencyPolicy: Forbid\n  \
                jobTemplate:\n    spec:\n      template:\n        spec:\n          restartPolicy: Never\n          \
                containers: [{name: c, image: 'example.com/c:1'}]\n";
    let old = "apiVersion: kubeflow.org/v1beta2\nkind: PyTorchJob\nmetadata: {name: p}\nspec:\n  cleanPodPolicy: None\n  pytorchReplicaSpecs: {}\n";
    let place = Place::with(&[
        ("case.yaml", &job.replace("kind: Job", "kind: job")),
        ("group.yaml", &cron.replace("batch/v1beta1", "v1")),
        ("operator.yaml", "apiVersion: kubeflow.org/v1\nkind: PytorchJob\nmetadata: {name: p}\nspec: {}\n"),
        ("extensions.yaml", &job.replace("batch/v1", "extensions/v1beta1")),
        ("old.yaml", old),
        ("cron.yaml", cron),
        (
            "ray.yaml",
            "apiVersion: ray.io/v1alpha1\nkind: RayJob\nmetadata: {name: r}\nspec: {activeDeadlineSeconds: 60, entrypoint: x, rayClusterSpec: \
          {headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'example.com/h:1'}]}}}}}\n",
        ),
    ]);
    let kinds = |file: &str| {
        let found = found_by_both(&place, file);
        let (of_kind, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| found.1 == "known-kind");
        let level = if file == "ray.yaml" { "note" } else { "deny" };
        assert!(of_kind.len() == 1 && of_kind[0].0 == level, "{file}: {of_kind:?}");
        (of_kind[0].2.clone(), others.into_iter().map(|found| found.1).collect::<Vec<_>>())
    };
    for file in ["case.yaml", "group.yaml", "operator.yaml"] {
        assert_eq!(kinds(file).1, [""; 0], "{file}");
    }
    // A Job of another tool is none of Kubernetes.
    let other = "apiVersion: v1alpha\nkind: Job\nmetadata: {name: x}\nspec: {agent: {machine: {type: e1}}}\n";
    let tool = Place::with(&[("a.yaml", other)]);
    assert_eq!(code(&tool.run(&["lint", "."])), 0);
    assert_eq!(
        kinds("extensions.yaml"),
        ("`extensions/v1beta1` of `Job` is no longer served".to_owned(), vec![])
    );
    assert_eq!(
        kinds("old.yaml"),
        ("`kubeflow.org/v1beta2` of `PyTorchJob` is no longer served".to_owned(), vec![])
    );
    // Only a pre-release had it there.
    let train = "apiVersion: kubeflow.org/v1\nkind: TrainJob\nmetadata: {name: t}\nspec: {}\n";
    let output = Place::with(&[("a.yaml", train)]).run(&["lint", "."]);
    let text = stdout(&output);
    assert!(text.contains("there is no `TrainJob` in `apiVersion: kubeflow.org/v1`"), "{text}");
    assert!(
        text.contains("write `apiVersion: trainer.kubeflow.org/v1alpha1` and `kind: TrainJob`"),
        "{text}"
    );
    let (message, others) = kinds("cron.yaml");
    assert_eq!(message, "`batch/v1beta1` of `CronJob` is no longer served since Kubernetes 1.25");
    assert!(others.contains(&"deadline".to_owned()), "{others:?}");
    // Still served.
    assert_eq!(kinds("ray.yaml").0, "`ray.io/v1alpha1` of `RayJob` is deprecated");
}

/// A later release of an operator may have a later version. All that came before are known.
#[test]
fn a_version_that_no_release_had_is_an_error() {
    let of = |version: &str, kind: &str, spec: &str| {
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n");
        let place = Place::with(&[("a.yaml", &text)]);
        let mut found = found_by_both(&place, "a.yaml");
        found.retain(|found| found.1 == "known-kind");
        assert_eq!(found.len(), 1, "{version} {kind}: {found:?}");
        (found[0].0.clone(), found[0].2.clone())
    };
    let container = "{restartPolicy: Never, containers: [{name: pytorch, image: 'example.com/a:1'}]}";
    let role = format!("{{replicas: 1, template: {{spec: {container}}}}}");
    let torch =
        format!("{{runPolicy: {{activeDeadlineSeconds: 60}}, pytorchReplicaSpecs: {{Master: {role}}}}}");
    let jobs =
        format!("{{replicatedJobs: [{{name: a, template: {{spec: {{template: {{spec: {container}}}}}}}}}]}}");
    for (version, kind, spec, level, words) in [
        ("kubeflow.org/v2", "PyTorchJob", &torch, "deny", "there is no `PyTorchJob`"),
        ("kubeflow.org/v1beta3", "PyTorchJob", &torch, "deny", "there is no `PyTorchJob`"),
        ("jobset.x-k8s.io/v1alpha1", "JobSet", &jobs, "deny", "is no longer served since JobSet 0.2"),
        ("jobset.x-k8s.io/v1alpha3", "JobSet", &jobs, "note", "there is no `JobSet`"),
        ("jobset.x-k8s.io/v1beta1", "JobSet", &jobs, "note", "there is no `JobSet`"),
        ("jobset.x-k8s.io/V1", "JobSet", &jobs, "deny", "there is no `JobSet`"),
        (
            "ray.io/v1beta1",
            "RayJob",
            &"{entrypoint: x, activeDeadlineSeconds: 60, shutdownAfterJobFinishes: true}".to_owned(),
            "deny",
            "there is no `RayJob`",
        ),
        ("kubeflow.org/v2alpha1", "TrainJob", &"{}".to_owned(), "note", "is retired"),
    ] {
        let (action, message) = of(version, kind, spec);
        assert_eq!((&*action, message.contains(words)), (level, true), "{version} {kind}: {message}");
    }
}

#[test]
fn a_kind_that_does_not_exist_is_no_green_answer() {
    let typed = |version: &str, kind: &str| {
        good().replace("apiVersion: batch/v1\nkind: Job\n", &format!("{version}\n{kind}\n"))
    };
    for (version, kind, rule, reason) in [
        ("apiVersion: batch/v1", "kind: Jobs", "known-kind", "misspelled-kind"),
        ("apiVersion: batch/v1", "kind: $KIND", "placeholder", "placeholder"),
        ("apiVersion: batch/v1", "kind: '{{ .Values.kind }}'", "placeholder", "placeholder"),
        ("apiVersion: batch/v1", "", "known-kind", "misspelled-kind"),
        ("apiVersion: batch/v2alpha1", "kind: ScheduledJob", "known-kind", "misspelled-kind"),
        ("apiVersion: kubeflow.org/v1", "kind: MPIjob", "known-kind", "misspelled-kind"),
        ("apiVersion: ray.io/v1", "kind: RayJobs", "known-kind", "misspelled-kind"),
        ("apiVersion: batch/v1", "kind: Jbo", "known-kind", "misspelled-kind"),
        ("apiVersion: batch/v1", "kind: JOB", "known-kind", "misspelled-kind"),
        ("apiVersion: batch/v1", "kind: Cronjob", "known-kind", "misspelled-kind"),
        ("apiVersion: kubeflow.org/v1", "kind: PyTorchJobs", "known-kind", "misspelled-kind"),
        ("apiVersion: kubeflow.org/v1", "kind: JobSet", "known-kind", "misspelled-kind"),
        ("apiVersion: apps/v1", "kind: Job", "known-kind", "misspelled-kind"),
        ("apiVersion: batch.k8s.io/v1", "kind: Job", "known-kind", "misspelled-kind"),
        ("apiVersion: kubeflow.org/v1", "kind: TrainJob", "known-kind", "misspelled-kind"),
        ("apiVersion: kubeflow.org/v1", "kind: TrainingRuntime", "known-kind", "misspelled-kind"),
        ("apiVersion: batch", "kind: Job", "known-kind", "misspelled-kind"),
        ("apiversion: batch/v1", "kind: Job", "known-kind", "misspelled-kind"),
        ("", "kind: MPIJob", "known-kind", "misspelled-kind"),
        ("apiVersion: $API", "kind: Job", "placeholder", "placeholder"),
        ("apiVersion: batch/$V", "kind: Job", "placeholder", "placeholder"),
        ("apiVersion: ${A}", "kind: ${K}", "placeholder", "placeholder"),
        ("apiVersion: v1", "kind: PodTemplate", "", "lookalike"),
        // No batch work.
        ("apiVersion: apps/v1", "kind: $KIND", "", "nothing"),
        ("apiVersion: kubeflow.org/v1", "kind: Notebook", "", "nothing"),
    ] {
        let place = Place::with(&[("a.yaml", &typed(version, kind))]);
        let exit = i32::from(rule == "known-kind");
        assert_eq!(place.run(&["lint", "a.yaml"]).status.code(), Some(exit), "{version} {kind}");
        for command in ["lint", "dry-run"] {
            let document = json(&place.run(&[command, "--format", "json", "a.yaml"]));
            let unjudged = document["unjudged"].as_array().map_or(0, Vec::len);
            assert_eq!(
                (unjudged, document["unjudged"][0]["reason"].as_str()),
                (1, Some(reason)),
                "{command} {version} {kind}: {document}"
            );
            let found: Vec<&str> = document["findings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|finding| finding["rule"].as_str().unwrap())
                .collect();
            assert_eq!(
                found,
                if rule.is_empty() { vec![] } else { vec![rule] },
                "{command} {version} {kind}"
            );
        }
    }
}

#[test]
fn objects_inside_of_others_are_not_judged_and_that_is_said() {
    let inside: String = good().lines().map(|line| format!("    {line}\n")).collect();
    let wrapped = |version: &str, kind: &str| {
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  manifests:\n  -\n{inside}"
        )
    };
    for (version, kind) in [
        ("template.openshift.io/v1", "Template"),
        ("work.open-cluster-management.io/v1", "ManifestWork"),
        ("argoproj.io/v1alpha1", "Sensor"),
        ("kyverno.io/v1", "ClusterPolicy"),
    ] {
        let place = Place::with(&[("a.yaml", &wrapped(version, kind))]);
        for command in ["lint", "dry-run"] {
            let document = json(&place.run(&[command, "--format", "json", "a.yaml"]));
            let unjudged = &document["unjudged"][0];
            assert_eq!(
                (unjudged["reason"].as_str(), unjudged["object"]["kind"].as_str()),
                (Some("inside"), Some("Job")),
                "{kind}: {document}"
            );
            assert_eq!(unjudged["message"], format!("the Job inside the {kind} is not judged"));
            let line = unjudged["start"]["line"].as_u64().unwrap();
            assert!(line > 5, "the place is that of the Job: {line}");
        }
        let output = place.run(&["lint", "a.yaml"]);
        let people = stdout(&output);
        assert!(people.contains(&format!("1 of 1 object not judged (Job inside {kind} 1)")), "{people}");
        assert_eq!(place.run(&["lint", "--fail-on-unjudged", "a.yaml"]).status.code(), Some(1));
    }
}

#[test]
fn lint_and_dry_run_name_the_same_placeholders() {
    let name = |name: &str| good().replacen("name: train", &format!("name: {name}"), 1);
    let place = Place::with(&[
        ("name.yaml", &name("${JOB_NAME}")),
        ("image.yaml", &good().replace("registry.example.com/trainer:v1", "YOUR_REGISTRY/trainer:v1")),
        (
            "number.yaml",
            &good().replace("  template:", "  parallelism: NUM_NODES\n  completions: NUM_NODES\n  template:"),
        ),
    ]);
    for (file, message, unjudged) in [
        ("name.yaml", "`name` contains the placeholder `${JOB_NAME}`", 1),
        ("image.yaml", "`image` contains the placeholder `YOUR_REGISTRY/trainer:v1`", 0),
        ("number.yaml", "`completions` contains the placeholder `NUM_NODES`, here and at 1 more place", 1),
    ] {
        let found = found_by_both(&place, file);
        let told: Vec<&str> =
            found.iter().filter(|found| found.1 == "placeholder").map(|found| &*found.2).collect();
        assert_eq!(told, [message], "{file}");
        for command in ["lint", "dry-run"] {
            let document = json(&place.run(&[command, "--format", "json", file]));
            assert_eq!(document["summary"]["unjudged"], unjudged, "{command} {file}");
        }
    }
}

#[test]
fn an_image_that_is_none_yet_keeps_nothing_from_being_judged() {
    let image = good().replace("registry.example.com/trainer:v1", "<ACCOUNT>.example.com/trainer:v1");
    let place = Place::with(&[
        ("image.yaml", &image),
        ("both.yaml", &image.replace("  template:", "  parallelism: <ACCOUNT>\n  template:")),
    ]);
    for (file, count) in [("image.yaml", 0), ("both.yaml", 1)] {
        let document = json(&place.run(&["lint", "--format", "json", file]));
        assert_eq!(document["summary"]["unjudged"], count, "{file}");
        assert_eq!(document["findings"][0]["rule"], "placeholder", "{file}");
    }
}

#[test]
fn only_pods_with_gpus_hold_gpus() {
    let job = |resources: &str| {
        format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: p}}\nspec:\n  runPolicy: {{activeDeadlineSeconds: 60}}\n  \
             pytorchReplicaSpecs:\n    Master:\n      replicas: 1\n      template:\n        spec:\n          \
             containers: [{{name: pytorch, image: 'example.com/c:1', resources: {{limits: {{{resources}}}}}}}]\n"
        )
    };
    let place = Place::with(&[("cpu.yaml", &job("cpu: 4")), ("gpu.yaml", &job("nvidia.com/gpu: 4"))]);
    for (file, rule, words) in [
        ("cpu.yaml", "deadline", "its pods keep running"),
        ("gpu.yaml", "resources-released", "hold their accelerators"),
    ] {
        let found = found_by_both(&place, file);
        let of_pods: Vec<_> = found.iter().filter(|found| found.2.contains("cleanPodPolicy")).collect();
        assert!(of_pods.len() == 1 && of_pods[0].1 == rule && of_pods[0].2.contains(words), "{found:?}");
    }
}

#[test]
fn a_train_job_is_judged_with_its_runtime() {
    let job = |more: &str| {
        format!(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: t, namespace: ml}}\nspec:\n  \
             activeDeadlineSeconds: 60\n  runtimeRef: {{name: torch}}\n  \
             trainer: {{resourcesPerNode: {{limits: {{nvidia.com/gpu: 8}}}}}}\n{more}"
        )
    };
    let runtime = |kind: &str, pod: &str| {
        format!(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: {kind}\nmetadata: {{name: torch}}\nspec: {{template: {{spec: \
             {{replicatedJobs: [{{name: node, template: {{spec: {{podReplacementPolicy: Failed, template: {{spec: {{{pod} \
             containers: [{{name: node, image: 'example.com/t:1'}}]}}}}}}}}}}]}}}}}}\n"
        )
    };
    const TOLERATION: &str = "tolerations: [{key: nvidia.com/gpu, operator: Exists}]";
    let bare = runtime("ClusterTrainingRuntime", "");
    let patch = format!(
        "  runtimePatches: [{{manager: a.example.com/b, trainingRuntimeSpec: {{template: {{spec: {{replicatedJobs: \
         [{{name: node, template: {{spec: {{template: {{spec: {{{TOLERATION}}}}}}}}}}}]}}}}}}}}]\n"
    );
    for (job, runtime, found, unknown) in [
        (job(""), bare.clone(), 1, 0),
        (job(""), runtime("ClusterTrainingRuntime", &format!("{TOLERATION},")), 0, 0),
        (job(&patch), bare.clone(), 0, 0),
        (job("").replace("nvidia.com/gpu: 8", "cpu: 8"), bare, 0, 0),
        // A runtime of a namespace is meant only where the job says so.
        (job(""), runtime("TrainingRuntime", ""), 0, 1),
    ] {
        let place = Place::with(&[("job.yaml", &job), ("runtime.yaml", &runtime)]);
        let document = json(&place.run(&["lint", "--format", "json"]));
        let rules: Vec<&Value> =
            document["findings"].as_array().unwrap().iter().map(|finding| &finding["rule"]).collect();
        assert_eq!(rules, vec!["gpu-toleration"; found], "{document:#}");
        let reasons: Vec<&Value> = document["unjudged"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|unjudged| &unjudged["reason"])
            .collect();
        assert_eq!(reasons, vec!["runtime"; unknown], "{document:#}");
        let facts = place.run(&["dry-run", "job.yaml", "--facts", "runtime.yaml"]);
        assert_eq!(stdout(&facts).contains("warning[gpu-toleration]"), found > 0, "{}", stdout(&facts));
    }
}

/// Returns the findings of files, as JSON.
fn findings(place: &Place, arguments: &[&str]) -> Vec<Value> {
    json(&place.run(&[&["lint", "--format", "json"], arguments].concat()))["findings"]
        .as_array()
        .unwrap()
        .clone()
}

/// Returns `rule: message; help` of each finding of a file.
fn texts(file: &str) -> Vec<String> {
    let place = Place::with(&[("a.yaml", file)]);
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    findings(&place, &["a.yaml"])
        .iter()
        .map(|finding| {
            format!("{}: {}; {}", text(finding, "rule"), text(finding, "message"), text(finding, "help"))
        })
        .collect()
}

/// A `CronJob` with nothing to report, but for what is taken out of it.
const CRON: &str = "\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '@daily'
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      activeDeadlineSeconds: 3600
      ttlSecondsAfterFinished: 3600
      podReplacementPolicy: Failed
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: 'example.com/c:1'}]
";

#[test]
fn finished_runs_of_a_cron_job_are_kept_up_to_its_history_limits() {
    let cron = |limits: &str| {
        CRON.replace("      ttlSecondsAfterFinished: 3600\n", "")
            .replace("  jobTemplate", &format!("{limits}  jobTemplate"))
    };
    let help = "set `spec.jobTemplate.spec.ttlSecondsAfterFinished`, e.g. to 604800 (seconds), which deletes them earlier";
    let begin = "ttl-after-finished: `ttlSecondsAfterFinished` is not set: finished runs are kept up to the history limits";
    assert_eq!(texts(&cron("")), [format!("{begin} (3 successful, 1 failed), with their pods; {help}")]);
    assert_eq!(
        texts(&cron("  failedJobsHistoryLimit: 5\n")),
        [format!("{begin} (3 successful, 5 failed), with their pods; {help}")]
    );
    let none = texts(&cron("  successfulJobsHistoryLimit: 0\n  failedJobsHistoryLimit: 0\n"));
    assert!(
        none.iter().all(|text| text.starts_with("cron-runs-do-not-overlap: `failedJobsHistoryLimit` is 0"))
    );
    let terraform = cron("").replace(
        "{name: nightly}",
        "{name: nightly, managedFields: [{manager: Terraform, operation: Update}]}",
    );
    assert!(texts(&terraform)[0].contains(
        ": finished runs are kept up to the history limits (3 successful, 1 failed); it is not filled in"
    ));
}

#[test]
fn a_run_that_the_next_one_replaces_does_not_hang_until_someone_notices() {
    let cron = CRON.replace("      activeDeadlineSeconds: 3600\n", "");
    let of = |policy: &str| texts(&cron.replace("Policy: Forbid", policy))[0].clone();
    assert!(of("Policy: Forbid").starts_with(
        "deadline: `activeDeadlineSeconds` is not set, so a run that hangs keeps its nodes until someone notices;"
    ));
    assert!(
        of("Policy: Replace").starts_with("deadline: `activeDeadlineSeconds` is not set, so a run that hangs keeps its nodes until the next run replaces it;")
    );
    assert!(of("Policy: Replace\n  suspend: true").contains("until someone notices"), "there is no next run");
}

#[test]
fn what_a_tool_is_to_delete_is_a_hook_only_where_it_has_hooks() {
    let help = |mark: &str| {
        let job = good()
            .replace("  ttlSecondsAfterFinished: 3600\n", "")
            .replace("  namespace: team-a\n", &format!("  {mark}\n"));
        texts(&job).pop().unwrap()
    };
    let flux = help("labels: {kustomize.toolkit.fluxcd.io/name: apps}");
    assert!(
        flux.ends_with("; remove it from what Flux applies once it has finished, so that Flux deletes it"),
        "{flux}"
    );
    let helm = help("labels: {helm.sh/chart: train-1.0.0}");
    assert!(
        helm.ends_with("; let Helm delete it: as a hook (`helm.sh/hook`) with a deletion policy"),
        "{helm}"
    );
    let argo = help("annotations: {argocd.argoproj.io/tracking-id: a}");
    assert!(
        argo.ends_with(
            "; let Argo CD delete it: as a hook (`argocd.argoproj.io/hook`) with a deletion policy"
        ),
        "{argo}"
    );
    let either = help("labels: {app.kubernetes.io/instance: train}");
    assert!(either.ends_with("; let the tool delete it: as a hook with a deletion policy"), "{either}");
    for (mark, tool) in
        [("labels: {kapp.k14s.io/app: a}", "kapp"), ("labels: {crossplane.io/composite: a}", "Crossplane")]
    {
        assert!(
            !help(mark).contains("hook") && help(mark).contains(&format!("so that {tool} deletes it")),
            "{}",
            help(mark)
        );
    }
}

#[test]
fn an_old_cron_job_gets_its_version_first_and_then_what_that_version_has() {
    let old = CRON
        .replace("batch/v1", "batch/v1beta1")
        .replace("      podReplacementPolicy: Failed\n", "")
        .replace("      ttlSecondsAfterFinished: 3600\n", "");
    let place = Place::with(&[("a.yaml", &old)]);
    place.run(&["lint", "--fix", "a.yaml"]);
    let safe = fs::read_to_string(place.path().join("a.yaml")).unwrap();
    assert!(
        safe.contains("v1beta1") && safe.contains("ttlSeconds") && !safe.contains("podReplacementPolicy"),
        "{safe}"
    );
    place.run(&["lint", "--fix", "--unsafe-fixes", "a.yaml"]);
    let all = fs::read_to_string(place.path().join("a.yaml")).unwrap();
    assert!(
        all.starts_with("apiVersion: batch/v1\n") && all.contains("podReplacementPolicy: Failed"),
        "{all}"
    );
}

#[test]
fn a_second_volume_type_is_named_as_manifests_name_it() {
    let job = good().replace(
        "      containers:",
        "      volumes:\n      - {name: v, emptyDir: {}, cephfs: {monitors: [m]}, downwardAPI: {items: []}}\n      containers:",
    );
    let place = Place::with(&[("a.yaml", &job)]);
    let found = findings(&place, &["a.yaml"]);
    for (field, said) in [("cephfs", "cephFS"), ("downwardAPI", "downwarAPI")] {
        let at = format!("spec.template.spec.volumes[0].{field}");
        let one = found
            .iter()
            .find(|finding| finding["path"] == at.as_str())
            .unwrap_or_else(|| panic!("{field}: {found:#?}"));
        assert!(
            one["message"].as_str().unwrap().contains(&format!("volumes[0].{said}: Forbidden")),
            "the server's own words: {one}"
        );
        assert_eq!(one["help"], format!("remove `{at}`"));
        let column = job.lines().find(|line| line.contains("emptyDir")).unwrap().find(field).unwrap() + 1;
        assert!(column <= usize::try_from(one["start"]["column"].as_u64().unwrap()).unwrap(), "{one}");
        assert!(
            one["pointer"].as_str().is_none_or(|pointer| pointer.ends_with(&format!("/volumes/0/{field}"))),
            "{one}"
        );
    }
}

#[test]
fn a_claim_of_another_namespace_says_nothing_of_a_job_that_names_none() {
    let job = good()
        .replace("  namespace: team-a\n", "")
        .replace("  template:", "  parallelism: 2\n  template:")
        .replace("      containers:", "      volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}]\n      containers:")
        + "          volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]\n";
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: checkpoints, namespace: team-b}\nspec: {accessModes: [ReadWriteOnce]}\n";
    let place = Place::with(&[
        ("job.yaml", &job),
        ("claims.txt", claim),
        ("open.txt", &claim.replace(", namespace: team-b", "")),
    ]);
    let of = |arguments: &[&str]| {
        let document = json(&place.run(&[arguments, &["--format", "json", "job.yaml"]].concat()));
        let denied = document["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|finding| finding["rule"] == "checkpoint-volume-access");
        (
            denied,
            document["unjudged"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|unjudged| unjudged["reason"] == "claim"),
        )
    };
    let facts = ["--facts", "claims.txt"];
    assert_eq!(of(&["lint", facts[0], facts[1]]), (false, true));
    assert_eq!(of(&["lint", "--facts", "open.txt"]), (true, false), "it leaves its namespace open as well");
    assert_eq!(of(&["dry-run", facts[0], facts[1]]), (false, true));
    assert_eq!(of(&["dry-run", facts[0], facts[1], "--namespace", "team-a"]), (false, true));
    assert_eq!(of(&["dry-run", facts[0], facts[1], "--namespace", "team-b"]), (true, false));
    // Manifests that are linted together mean one another, and the second place is called by its own
    // namespace.
    let both = Place::with(&[("job.yaml", &(job + "---\n" + claim))]);
    let found = findings(&both, &["job.yaml"]);
    let related: Vec<&str> = found[0]["related"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|related| related["object"].as_str())
        .collect();
    assert_eq!(
        (found.len(), &related[..]),
        (1, &["PersistentVolumeClaim team-b/checkpoints"][..]),
        "{found:#?}"
    );
}

#[test]
fn a_claim_on_a_host_path_points_at_the_host_path() {
    let job = good().replace("  template:", "  parallelism: 2\n  template:").replace(
        "      containers:",
        "      volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]\n      containers:",
    ) + "          volumeMounts: [{name: v, mountPath: /checkpoints}]\n";
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec:\n  volumeName: pv\n  accessModes: [ReadWriteOnce]\n";
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec:\n  accessModes: [ReadWriteOnce]\n  hostPath:\n    path: /data\n";
    for (files, file, line) in [
        (
            vec![("a.yaml", format!("{job}{claim}---\n{volume}"))],
            "a.yaml",
            (job.clone() + claim).lines().count() + 7,
        ),
        (vec![("a.yaml", job.clone() + claim), ("b.yaml", volume.to_owned())], "b.yaml", 6),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let place = Place::with(&files);
        let found = findings(&place, &["."]);
        assert!(
            found.len() == 1 && found[0]["message"].as_str().unwrap().contains("bound to a `hostPath`"),
            "{found:#?}"
        );
        let elsewhere: Vec<&Value> = found[0]["related"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|related| related["object"].is_string())
            .collect();
        assert_eq!(elsewhere.len(), 1, "{found:#?}");
        assert_eq!(
            (&elsewhere[0]["object"], &elsewhere[0]["start"]["line"]),
            (&"PersistentVolume pv".into(), &(line as u64).into())
        );
        assert!(
            elsewhere[0]["file"].as_str().unwrap().ends_with(file)
                && elsewhere[0]["message"] == "a different directory on each node",
            "{elsewhere:?}"
        );
    }
    // Of two volumes that are alike either may be meant.
    let place = Place::with(&[("a.yaml", &(job + claim)), ("b.yaml", volume), ("c.yaml", volume)]);
    assert!(findings(&place, &["."])[0]["message"].as_str().unwrap().contains("bound to a `hostPath`"));
}

#[test]
fn an_old_py_torch_job_is_told_what_has_changed() {
    let template = "{spec: {containers: [{name: pytorch, image: 'example.com/t:1'}]}}";
    let alpha = format!(
        "apiVersion: kubeflow.org/v1alpha1\nkind: PyTorchJob\nmetadata: {{name: p}}\nspec:\n  replicaSpecs:\n  - replicas: 1\n    template: {template}\n"
    );
    let text = texts(&alpha).remove(0);
    assert!(
        text.contains("`spec.pytorchReplicaSpecs` instead of `spec.replicaSpecs[]`")
            && text.contains("is not enough"),
        "{text}"
    );
    for version in ["v1alpha2", "v1beta1", "v1beta2"] {
        let text = texts(&alpha.replace("v1alpha1", version)).remove(0);
        assert!(
            text.contains("in `spec.runPolicy` instead of `spec`") && text.contains("is not enough"),
            "{text}"
        );
    }
    let place = Place::with(&[("a.yaml", &alpha), ("b.yaml", &alpha.replace("v1alpha1", "v1"))]);
    let old = place.run(&["lint", "--format", "json", "a.yaml"]);
    assert_eq!(json(&old)["unjudged"][0]["reason"], "not-served");
    assert_eq!(json(&old)["unjudged"][0]["message"], "this version is no longer served");
    assert!(
        stdout(&place.run(&["lint", "a.yaml"]))
            .contains("0 jobs: 1 error; 1 of 1 object not judged (PyTorchJob 1)")
    );
    // With another version alone it is whole, and lacks what that version requires.
    let new = json(&place.run(&["lint", "--format", "json", "b.yaml"]));
    let said: Vec<&str> = new["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    assert!(
        said.contains(&"the API server rejects this: spec.pytorchReplicaSpecs: Required value"),
        "{said:?}"
    );
    assert_eq!(new["summary"]["unjudged"], 0, "{new}");
}

#[test]
fn an_object_that_lacks_what_runs_is_wrong_and_no_part_of_one() {
    let job = |spec: &str| format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:{spec}");
    let torch = |spec: &str| {
        job(spec).replace("batch/v1", "kubeflow.org/v1").replace("kind: Job", "kind: PyTorchJob")
    };
    let pod = "\n  activeDeadlineSeconds: 60\n  template:\n    spec:\n      restartPolicy: Never\n";
    for (object, is_part) in [
        (job("\n"), false),
        (job(" []\n"), false),
        (job("\n  activeDeadlineSeconds: 60\n  template:\n"), false),
        (job(&format!("{pod}      containers:\n        name: c\n        image: i\n")), false),
        (job(&format!("{pod}      containers: []\n")), false),
        (job(&format!("{pod}      Containers: [{{name: c, image: i}}]\n")), false),
        (torch("\n"), false),
        (torch("\n  pytorchReplicaSpecs:\n    Master:\n      replicas: 1\n      template:\n"), false),
        (torch("\n  pytorchReplicaSpecs: []\n"), false),
        // What another file may complete.
        (job("\n  activeDeadlineSeconds: 60\n"), true),
        (job("\n  activeDeadlineSeconds: '60'\n"), true),
        (job(pod), true),
        (job(&format!("{pod}      containers: [{{name: c, env: []}}]\n")), true),
        (torch("\n  runPolicy: {activeDeadlineSeconds: 60}\n"), true),
    ] {
        let place = Place::with(&[("a.yaml", &object)]);
        let document = json(&place.run(&["lint", "--format", "json", "a.yaml"]));
        let parts = document["unjudged"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|unjudged| unjudged["reason"] == "partial")
            .count();
        assert_eq!(parts, usize::from(is_part), "{object}\n{document}");
        assert!(is_part || !document["findings"].as_array().unwrap().is_empty(), "{object}");
    }
}

#[test]
fn the_name_of_a_claim_in_capitals_is_a_placeholder() {
    let job = good().replace(
        "      containers:",
        "      volumes: [{name: v, persistentVolumeClaim: {claimName: CKPT_PVC_NAME}}]\n      containers:",
    ) + "          volumeMounts: [{name: v, mountPath: /checkpoints}]\n";
    let job = job.replace("  template:", "  parallelism: 2\n  template:");
    let place = Place::with(&[("a.yaml", &job)]);
    let found = found_by_both(&place, "a.yaml");
    assert_eq!(
        found.iter().map(|found| (&*found.1, &*found.2)).collect::<Vec<_>>(),
        [("placeholder", "`claimName` contains the placeholder `CKPT_PVC_NAME`")]
    );
    let unjudged = json(&place.run(&["lint", "--format", "json", "a.yaml"]))["unjudged"].clone();
    assert_eq!((unjudged.as_array().map(Vec::len), &unjudged[0]["reason"]), (Some(1), &"placeholder".into()));
}

#[test]
fn a_field_of_a_misspelled_name_is_not_missing_as_well() {
    let job = good()
        .replace("restartPolicy", "RestartPolicy")
        .replace("activeDeadlineSeconds", "activeDeadlineSecond");
    let place = Place::with(&[("a.yaml", &job)]);
    let rules = |place: &Place, arguments: &[&str]| {
        let document = json(&place.run(&[arguments, &["--format", "json", "a.yaml"]].concat()));
        document["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["rule"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for command in ["lint", "dry-run"] {
        assert_eq!(rules(&place, &[command]), ["unknown-field", "unknown-field"], "{command}");
    }
    // At another level it is found as well, and moved.
    let moved = CRON
        .replace("      activeDeadlineSeconds: 3600\n", "")
        .replace("  jobTemplate", "  activeDeadlineSeconds: 3600\n  jobTemplate");
    let place = Place::with(&[("a.yaml", &moved)]);
    assert_eq!(rules(&place, &["lint"]), ["unknown-field"]);
    assert_eq!(code(&place.run(&["lint", "--fix", "--unsafe-fixes", "a.yaml"])), 0);
    // The mapping that it is moved into need not be there.
    let torch = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: p}\nspec:\n  activeDeadlineSeconds: 5\n  cleanPodPolicy: All\n  \
                 pytorchReplicaSpecs:\n    \
                 Master: {replicas: 1, restartPolicy: Never, template: {spec: {containers: [{name: pytorch, image: 'example.com/t:1'}]}}}\n";
    let place = Place::with(&[("a.yaml", torch)]);
    assert_eq!(rules(&place, &["lint"]), ["ttl-after-finished", "unknown-field", "unknown-field"]);
    assert_eq!(code(&place.run(&["lint", "--fix", "--unsafe-fixes", "a.yaml"])), 0);
    let fixed = fs::read_to_string(place.path().join("a.yaml")).unwrap();
    assert!(
        fixed.contains("    activeDeadlineSeconds: 5\n")
            && fixed.contains("    cleanPodPolicy: All\n")
            && fixed.contains("    ttlSeconds"),
        "{fixed}"
    );
    // Where it cannot be moved, both are to be done.
    let taken = torch.replace("  cleanPodPolicy: All\n", "  runPolicy: {activeDeadlineSeconds: null}\n");
    let both = rules(&Place::with(&[("a.yaml", &taken)]), &["lint"]);
    assert!(both.contains(&"unknown-field".to_owned()) && both.contains(&"deadline".to_owned()), "{both:?}");
    // What is dropped silently is missing.
    let loose = rules(&Place::with(&[("a.yaml", &job)]), &["dry-run", "--validate", "warn"]);
    assert!(
        loose.contains(&"deadline".to_owned()) && loose.contains(&"restart-policy".to_owned()),
        "{loose:?}"
    );
}

#[test]
fn a_kind_of_an_operator_that_is_gone_is_no_green_answer() {
    let replica = "{replicas: 2, restartPolicy: Never, template: {spec: {containers: [{name: c, image: 'example.com/c:1'}]}}}";
    let of = |version: &str, kind: &str| {
        let object = format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{replicaSpecs: {{Worker: {replica}}}}}\n"
        );
        json(&Place::with(&[("a.yaml", &object)]).run(&["lint", "--format", "json", "a.yaml"]))["unjudged"][0]
            ["reason"]
            .clone()
    };
    assert_eq!(of("xgboostjob.kubeflow.org/v1", "XGBoostJob"), "not-served");
    assert_eq!(of("xgboostjob.kubeflow.org/v1alpha1", "XGBoostJob"), "not-served");
    assert_eq!(of("example.com/v1", "SomeJob"), "lookalike");
}

/// Without the claim, what is unknown is said at the name of the runtime that mounts it.
#[test]
fn an_unknown_claim_of_a_runtime_is_said_of_the_job() {
    let runtime = "apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            podReplacementPolicy: Failed
            template:
              spec:
                volumes: [{name: v, persistentVolumeClaim: {claimName: checkpoints}}]
                containers: [{name: node, image: registry.example.com/trainer:v1}]
";
    let job = "apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: ml}
spec: {activeDeadlineSeconds: 86400, runtimeRef: {name: torch}, trainer: {numNodes: 4}}
";
    let claim = |mode: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: checkpoints, namespace: ml}}\nspec: {{accessModes: [{mode}]}}\n"
        )
    };
    let place = Place::with(&[("job.yaml", job), ("runtime.yaml", runtime)]);
    let report = json(&place.run(&["lint", "--format", "json", "."]));
    assert_eq!((&report["unjudged"][0]["reason"], &report["unjudged"][1]), (&"claim".into(), &Value::Null));
    assert_eq!(report["unjudged"][0]["start"], jobgate::text::value::json!({"line": 4, "column": 57}));
    for (mode, denied) in [("ReadWriteOnce", 1), ("ReadWriteMany", 0)] {
        fs::write(place.path().join("claim.yaml"), claim(mode)).unwrap();
        let report = json(&place.run(&["lint", "--format", "json", "."]));
        let summary = (&report["summary"]["deny"], &report["summary"]["unjudged"]);
        assert_eq!(summary, (&denied.into(), &0.into()), "{report:#}");
    }
}

#[test]
fn a_review_is_made_from_manifests_and_answered() {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n";
    let both = format!("{JOB}---\n{claim}---\n{}", JOB.replace("name: train\n", "name: again\n"));
    let place = Place::with(&[
        ("job.yaml", JOB),
        ("both.yaml", &both),
        ("main/job.yaml", &good()),
        ("pvc.yaml", claim),
    ]);
    let output = place.run(&["review", "--from", "both.yaml"]);
    assert_eq!(
        (code(&output), stderr(&output)),
        (
            0,
            "jobgate: no review of PersistentVolumeClaim c: Jobgate does not judge the kind, so the API server does not ask\n"
        )
    );
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&Value> = lines.iter().map(|review| &review["request"]["name"]).collect();
    assert_eq!(names, [&Value::from("train"), &"again".into()]);
    let answer = |made: &[&str], endpoint: &str| {
        let made = place.run(made);
        let mut command = Command::cargo_bin("jobgate").unwrap();
        let answered =
            command.args(["review", "--endpoint", endpoint]).write_stdin(made.stdout).output().unwrap();
        assert_eq!((code(&answered), stderr(&answered)), (0, ""), "no hint where input comes from a pipe");
        stdout(&answered).to_owned()
    };
    let answered = answer(&["review", "--from", "both.yaml"], "validate");
    assert_eq!(answered.matches("\"allowed\": false").count(), 2, "{answered}");
    assert!(answered.contains("deadline: spec.activeDeadlineSeconds: "), "{answered}");
    // An update denies nothing that the old object has, too; this one had a deadline.
    let answered = answer(&["review", "--from", "job.yaml", "--old", "main"], "validate");
    assert!(answered.contains("\"allowed\": false"), "{answered}");
    let answered = answer(&["review", "--from", "job.yaml", "--old", "job.yaml"], "validate");
    assert!(answered.contains("\"allowed\": true"), "{answered}");
    for (arguments, message) in [
        (
            &["review", "--from", "pvc.yaml"][..],
            "jobgate: no object of a kind that Jobgate judges in pvc.yaml\n",
        ),
        (&["review", "--from", "gone.yaml"], "jobgate: cannot read gone.yaml: No such file"),
        (&["review", "--from", "job.yaml", "--old", "gone.yaml"], "jobgate: read the objects that exist: "),
        (
            &["review", "--from", "job.yaml", "review.json"],
            "error: the argument '--from <MANIFEST>' cannot be used with",
        ),
        (&["review", "--old", "job.yaml"], "error: the following required arguments were not provided"),
    ] {
        let output = place.run(arguments);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(stderr(&output).contains(message), "{output:?}");
    }
}

/// `script` gives a program a terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_person_is_told_what_a_review_waits_for() {
    let place = Place::with(&[]);
    let binary = assert_cmd::cargo::cargo_bin("jobgate");
    let command = format!("{} review", binary.display());
    let Ok(output) = std::process::Command::new("script")
        .args(["--quiet", "--command", &command, "/dev/null"])
        .current_dir(place.path())
        .stdin(std::process::Stdio::null())
        .output()
    else {
        println!("skipped: there is no `script`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("jobgate: reading an AdmissionReview from standard input; `jobgate review --from job.yaml` makes one"),
        "{text}"
    );
}
