//! Scripts are read as bash runs them: random ones, run with a function in place of each program.

use std::process::{Command, Stdio};

use jobgate::text::shell::{Script, Variables};
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
    if read.contains(jobgate::text::shell::SPREADS) {
        return None;
    }
    let pieces: Vec<&str> = read.split(jobgate::text::shell::UNKNOWN).collect();
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
            let read = Script::read(&script, &mut Variables::of(&nothing));
            let Some(read) = read else {
                // Silence is allowed, but not where bash has nothing to say against it.
                prop_assert!(!is_valid(&script), "not read: {script}");
                return Ok(());
            };
            prop_assert!(is_valid(&script), "read, and bash rejects it: {script}");
            let ran = run(&script).expect("bash runs");
            let called: Vec<_> = read
                .commands
                .iter()
                .filter(|one| one.words.first().is_some_and(|word| word.text == "p"))
                .collect();
            // Those that may not run are skipped by the branches above; without any, all run in order.
            if called.iter().any(|one| one.place.branch) || script.contains("||") {
                return Ok(());
            }
            prop_assert_eq!(called.len(), ran.len(), "{}", script);
            for (command, words) in called.iter().zip(&ran) {
                let mut words = words.as_slice();
                for word in &command.words[1..] {
                    let Some(taken) = fits(&word.text, words) else {
                        prop_assert!(word.spreads(), "{script}: {:?} is {words:?}", word.text);
                        words = &[];
                        break;
                    };
                    read_and_known.set(read_and_known.get() + 1);
                    words = &words[taken..];
                }
                prop_assert!(
                    words.is_empty() || command.words.iter().any(|word| word.spreads()),
                    "{script}: {words:?}"
                );
            }
            Ok(())
        })
        .unwrap();
    assert!(read_and_known.get() > 300, "only {} words were compared", read_and_known.get());
}
