//! Scripts are read as bash runs them: random ones, run with a function in place of each program.

use std::io::Write as _;
use std::process::{Command, Stdio};

use jobgate::admission::{self, Endpoint};
use jobgate::judge::facts::NoFacts;
use jobgate::text::shell::{self, Variables, Word};
use proptest::prelude::*;

/// Words as people write them, with quotes, escapes, variables and substitutions.
fn word() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z0-9=./:-]{1,6}",
        1 => "'[a-z $\"\\\\#;&]{0,5}'",
        1 => "\"[a-z ';&|#]{0,5}\"",
        1 => Just("\\ ".to_owned()),
        1 => Just("\\\n".to_owned()),
        1 => "\\$[A-C]",
        1 => "\"\\$\\{[A-C]\\}\"",
        1 => "\\$\\{[A-C]:-[a-z]{1,3}\\}",
        1 => Just("$(echo s)".to_owned()),
        1 => Just("\"$(echo 'q)' \"r\")\"".to_owned()),
        1 => Just("$((1 + 2))".to_owned()),
        1 => Just("`echo b`".to_owned()),
    ];
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

/// A command: the function `p`, an assignment, or both.
fn command() -> impl Strategy<Value = String> {
    let call = proptest::collection::vec(word(), 1..4).prop_map(|words| format!("p {}", words.join(" ")));
    let assignment = ("[A-C]", word()).prop_map(|(name, value)| format!("{name}={value}"));
    let export = ("[A-C]", "[a-z0-9]{1,4}").prop_map(|(name, value)| format!("export {name}={value}"));
    prop_oneof![6 => call, 2 => assignment, 1 => export, 1 => Just("p <<E\n$A 'not\" a (p x\nE".to_owned())]
}

/// A list of commands and compound commands.
fn script() -> impl Strategy<Value = String> {
    let leaf = command();
    leaf.prop_recursive(3, 24, 4, |inner| {
        let joined = (
            proptest::collection::vec(inner.clone(), 1..4),
            prop_oneof![Just("; "), Just("\n"), Just(" && "), Just(" # c'\n"), Just(" || ")],
        );
        let joined = joined.prop_map(|(parts, by)| {
            parts.join(if parts.iter().any(|part| part.contains("<<")) { "\n" } else { by })
        });
        prop_oneof![
            4 => joined,
            1 => inner.clone().prop_map(|list| format!("if true; then {list}\nfi")),
            1 => inner.clone().prop_map(|list| format!("if false; then p no; else\n{list}\nfi")),
            1 => inner.clone().prop_map(|list| format!("for i in 1; do {list}\ndone")),
            1 => inner.clone().prop_map(|list| format!("( {list}\n)")),
            1 => inner.clone().prop_map(|list| format!("{{ {list}\n}}")),
            1 => inner.clone().prop_map(|list| format!("case x in y) p no;; x) {list}\n;; esac")),
            1 => inner.prop_map(|list| format!("f() {{ {list}\n}}; f")),
        ]
    })
}

/// Runs a script, and returns the arguments of each call of `p`, in order; nothing if bash rejects it.
fn run(script: &str) -> Option<Vec<Vec<String>>> {
    let prelude =
        "p() { for w in \"$@\"; do printf '%s\\0' \"$w\" >&3; done; printf '\\1\\0' >&3; cat >/dev/null; }\n";
    let output = Command::new("bash")
        .args(["-c", &format!("exec 3>&1 >/dev/null\n{prelude}eval \"$1\"\n"), "bash", script])
        .stdin(Stdio::null())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let calls =
        text.split("\u{1}\0").map(|call| call.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>());
    let calls: Vec<_> = calls.collect();
    Some(calls[..calls.len() - 1].to_vec())
}

fn is_valid(script: &str) -> bool {
    let checked = Command::new("bash").args(["-n", "-c", script]).stderr(Stdio::null()).status();
    checked.is_ok_and(|status| status.success())
}

/// Tells whether a word that was read may be what bash made of it: several words, if it spreads.
fn fits(read: &str, words: &[String]) -> Option<usize> {
    if read.contains(shell::SPREADS) {
        return None;
    }
    let pieces: Vec<&str> = read.split(shell::UNKNOWN).collect();
    let word = words.first()?;
    let fits = match pieces.as_slice() {
        [whole] => word == whole,
        [first, .., last] => word.starts_with(first) && word.ends_with(last),
        [] => false,
    };
    fits.then_some(1)
}

#[test]
fn scripts_are_read_as_bash_runs_them() {
    if Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: needs bash");
        return;
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let read_and_known = std::cell::Cell::new(0);
    runner
        .run(&script(), |script| {
            let nothing = |_: &str| None;
            let mut called = Vec::new();
            let mut may_not_run = false;
            let read = shell::read(&script, &mut Variables::new(&nothing), &mut |one| {
                if one.words.first().is_some_and(|word| word.text == "p") {
                    may_not_run |= one.place.branch;
                    called.push(one.words.iter().map(Word::kept).collect::<Vec<_>>());
                }
            });
            let Ok(read) = read else {
                // Silence is allowed, but not where bash has nothing to say against it.
                prop_assert!(!is_valid(&script), "not read: {script}");
                return Ok(());
            };
            prop_assert!(is_valid(&script), "read, and bash rejects it: {script}");
            let ran = run(&script).expect("bash runs");
            prop_assert!(read.beyond.is_none() && !read.is_cut, "{script}");
            // Those that may not run are skipped by the branches above; without any, all run in order.
            if may_not_run || script.contains("||") {
                return Ok(());
            }
            prop_assert_eq!(called.len(), ran.len(), "{}", script);
            for (command, words) in called.iter().zip(&ran) {
                let mut words = words.as_slice();
                for word in &command[1..] {
                    let Some(taken) = fits(&word.text, words) else {
                        prop_assert!(word.spreads(), "{script}: {:?} is {words:?}", word.text);
                        words = &[];
                        break;
                    };
                    read_and_known.set(read_and_known.get() + 1);
                    words = &words[taken..];
                }
                prop_assert!(
                    words.is_empty() || command.iter().any(|word| word.spreads()),
                    "{script}: {words:?}"
                );
            }
            Ok(())
        })
        .unwrap();
    assert!(read_and_known.get() > 300, "only {} words were compared", read_and_known.get());
}

/// A Job without a deadline, whose script is beyond a bound in its middle.
fn job_beyond_bounds() -> serde_json::Value {
    let script = format!("set -e\npython train.py {}\nsleep infinity\n", "--x ".repeat(1 << 16));
    serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "i", "command": ["bash", "-c", script],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }]}}},
    })
}

const SAID: &str = "a command is longer than 64 KiB: what is behind that was not judged";

#[test]
fn the_webhook_says_what_it_did_not_judge_and_denies_the_rest() {
    let review = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": {"group": "batch", "version": "v1", "kind": "Job"}, "operation": "CREATE",
            "namespace": "team", "object": job_beyond_bounds(),
        },
    });
    let policy = jobgate::policies::builtin("default").unwrap();
    let answer =
        admission::answer(Endpoint::Validate, &policy, &NoFacts, review.to_string().as_bytes(), None);
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let response = &answer["response"];
    let message = response["status"]["message"].as_str().unwrap_or_default();
    assert_eq!(response["allowed"], false, "{response}");
    assert!(message.contains("deadline: ") && message.contains(SAID), "{message}");
    // With the denial out of the way, it is a warning.
    let mut allowed = review;
    allowed["request"]["object"]["spec"]["activeDeadlineSeconds"] = 3600.into();
    let answer =
        admission::answer(Endpoint::Validate, &policy, &NoFacts, allowed.to_string().as_bytes(), None);
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let warnings = answer["response"]["warnings"].to_string();
    assert_eq!(answer["response"]["allowed"], true);
    assert!(
        warnings.contains("script-within-bounds: ") && warnings.contains("longer than 64 KiB"),
        "{warnings}"
    );
}

#[test]
fn the_linter_says_what_it_did_not_judge() {
    let mut lint = Command::new(env!("CARGO_BIN_EXE_jobgate"))
        .args(["lint", "--no-config", "--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    lint.stdin.take().unwrap().write_all(job_beyond_bounds().to_string().as_bytes()).unwrap();
    let output = lint.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of = |rule: &str| findings.iter().filter(|one| one["rule"] == rule).collect::<Vec<_>>();
    let [said] = of("script-within-bounds")[..] else { panic!("{findings:?}") };
    assert_eq!((said["action"].as_str(), said["message"].as_str()), (Some("warn"), Some(SAID)));
    assert!(!of("deadline").is_empty() && !of("accelerator-container-ends").is_empty(), "{findings:?}");
}
