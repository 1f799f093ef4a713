//! `jobgate policy test`: the cases of people's own policies.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::place::{Place, code, good, stderr, stdout};
use insta::assert_snapshot;

/// A policy that is stricter than the default one in two rules.
pub(crate) const POLICY: &str = "apiVersion: jobgate.dev/v1alpha1
kind: Policy
metadata: {name: research}
spec:
  rules:
    deadline: {action: deny, params: {maximum: 172800}}
    ttl-after-finished: {action: fill, params: {seconds: 3600}}
";

const WEEK: &str = "# Two days are the most.
# expect: nothing
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  activeDeadlineSeconds: 604800
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/trainer:v1
";

#[test]
fn a_case_that_fails_is_shown_as_a_diff() {
    let place = Place::with(&[("policy.yaml", POLICY), ("cases/week.yaml", WEEK)]);
    let output = place.run(&["policy", "test", "cases"]);
    assert_eq!((code(&output), stderr(&output)), (1, ""));
    assert_snapshot!(stdout(&output), @"
    FAILED cases/week.yaml
    --- a/cases/week.yaml
    +++ b/cases/week.yaml
    @@ -1,5 +1,6 @@
     # Two days are the most.
    -# expect: nothing
    +# expect: note ttl-after-finished train spec.ttlSecondsAfterFinished
    +# expect: deny deadline train spec.activeDeadlineSeconds
     apiVersion: batch/v1
     kind: Job
     metadata: {name: train}
    cases/week.fixed.yaml is missing; --fix makes these changes
    --- a/cases/week.fixed.yaml
    +++ b/cases/week.fixed.yaml
    @@ -7,6 +7,7 @@
     spec:
       activeDeadlineSeconds: 604800
       podReplacementPolicy: Failed
    +  ttlSecondsAfterFinished: 3600
       template:
         spec:
           restartPolicy: Never
    cases/week.yaml:6:1: note[ttl-after-finished]: `ttlSecondsAfterFinished` is not set, so the finished job and its pods are never deleted
    cases/week.yaml:7:26: error[deadline]: `activeDeadlineSeconds` is 604800, above the policy's maximum of 172800

    0 cases passed, 1 failed (policy policy.yaml); --update writes what was found into the cases
    ");
}

#[test]
fn an_update_writes_what_was_found_and_then_the_case_passes() {
    let place = Place::with(&[("policy.yaml", POLICY), ("cases/week.yaml", WEEK)]);
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    fs::write(place.path().join("cases/week.patch.json"), "").unwrap();
    let output = place.run(&["policy", "test", "--update", "cases"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    assert_eq!(
        stdout(&output),
        "wrote cases/week.yaml\nwrote cases/week.fixed.yaml\nwrote cases/week.patch.json\n0 cases passed, 1 updated (policy policy.yaml)\n"
    );
    let case = read("cases/week.yaml");
    assert!(case.contains("\n# expect: deny deadline train spec.activeDeadlineSeconds\n"), "{case}");
    assert_eq!(
        read("cases/week.fixed.yaml"),
        case.replace("Policy: Failed\n", "Policy: Failed\n  ttlSecondsAfterFinished: 3600\n")
    );
    assert!(read("cases/week.patch.json").contains("\"value\": 3600"));
    let output = place.run(&["policy", "test", "cases"]);
    assert_eq!((code(&output), stdout(&output)), (0, "1 case passed (policy policy.yaml)\n"));
    let output = place.run(&["policy", "test", "--verbose", "cases/week.yaml"]);
    assert_eq!(stdout(&output), "ok cases/week.yaml\n1 case passed (policy policy.yaml)\n");

    // A change of the policy changes both what is found and what is filled in.
    let changed = POLICY.replace("3600", "7200").replace("172800", "700000");
    fs::write(place.path().join("policy.yaml"), changed).unwrap();
    let output = place.run(&["policy", "test", "cases"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1);
    for line in [
        "-# expect: deny deadline train spec.activeDeadlineSeconds\n",
        "-  ttlSecondsAfterFinished: 3600\n+  ttlSecondsAfterFinished: 7200\n",
        "-        \"value\": 3600\n+        \"value\": 7200\n",
        "-    \"verdict\": \"denied by jobgate\"\n+    \"verdict\": \"allowed, patched\"\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    // Nothing is left to fill in: the file goes.
    fs::write(place.path().join("policy.yaml"), POLICY.replace("fill, params: {seconds: 3600}", "ignore"))
        .unwrap();
    let output = place.run(&["policy", "test", "cases"]);
    assert!(stdout(&output).contains("cases/week.fixed.yaml should not exist: there is nothing to fix\n"));
    let output = place.run(&["policy", "test", "--update", "cases"]);
    assert!(stdout(&output).contains("removed cases/week.fixed.yaml\n"), "{output:?}");
    let lost = "  no longer expected: note ttl-after-finished train spec.ttlSecondsAfterFinished\n";
    assert!(stdout(&output).contains(lost), "{output:?}");
    assert!(!place.path().join("cases/week.fixed.yaml").exists());
    assert_eq!(code(&place.run(&["policy", "test", "cases"])), 0);
}

#[test]
fn the_nearest_policy_counts_and_a_case_may_have_its_own() {
    let lax = POLICY.replace("172800", "700000").replace("fill, params: {seconds: 3600}", "ignore");
    let strict = lax.replace("700000", "60");
    let denied = WEEK.replace("nothing", "deny deadline train spec.activeDeadlineSeconds");
    let place = Place::with(&[
        (".git/HEAD", ""),
        ("policy.yaml", &lax),
        ("cases/lax.yaml", WEEK),
        ("cases/own.yaml", &denied),
        ("cases/own.policy.yaml", &strict),
        ("cases/strict/policy.yaml", &strict),
        ("cases/strict/week.yml", &denied),
        // A policy of something else is not ours.
        ("cases/below/policy.yaml", &lax),
        ("cases/below/deep/week.yaml", WEEK),
    ]);
    let output = place.run(&["policy", "test", "."]);
    assert_eq!((code(&output), stdout(&output)), (0, "4 cases passed (3 policies)\n"), "{output:?}");
    let foreign = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\n";
    fs::write(place.path().join("cases/below/policy.yaml"), foreign).unwrap();
    let output = place.run(&["policy", "test", "."]);
    assert_eq!((code(&output), stdout(&output)), (0, "4 cases passed (2 policies)\n"), "{output:?}");
    // The argument is for all folders, but not for a case with its own.
    let output = place.run(&["policy", "test", "--policy", "cases/strict/policy.yaml", "cases"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1);
    assert!(text.contains("FAILED cases/lax.yaml\n") && !text.contains("FAILED cases/own.yaml"), "{text}");
    assert!(text.ends_with("2 cases passed, 2 failed (policy cases/strict/policy.yaml); --update writes what was found into the cases\n"), "{text}");
}

#[test]
fn claims_may_be_in_the_case_or_beside_it_and_unknown_ones_are_said() {
    let job = good().replace(
        "restartPolicy: Never\n",
        "restartPolicy: Never\n      volumes: [{name: v, persistentVolumeClaim: {claimName: checkpoints}}]\n",
    );
    let job = job.replace("  ttlS", "  parallelism: 2\n  completions: 2\n  ttlS");
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: checkpoints, namespace: team-a}\nspec: {accessModes: [ReadWriteOnce]}\n";
    let place = Place::with(&[
        ("in/a.yaml", &format!("{job}---\n{claim}")),
        ("beside/a.yaml", &job),
        ("beside/a.facts.yaml", claim),
        ("unknown/a.yaml", &job),
    ]);
    assert_eq!(code(&place.run(&["policy", "test", "--update", "."])), 0);
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(place.path().join(name)).unwrap();
        text.lines().filter(|line| line.starts_with("# expect: ")).map(str::to_owned).collect()
    };
    assert_eq!(lines("in/a.yaml"), lines("beside/a.yaml"));
    assert!(lines("in/a.yaml").iter().any(|line| line.contains(" checkpoint-volume-access train ")));
    assert_eq!(lines("unknown/a.yaml"), ["# expect: not-judged claim train checkpoints"]);
}

#[test]
fn what_tests_nothing_is_an_error_with_its_place() {
    let place = Place::with(&[
        ("a/none.yaml", &good()),
        ("b/slip.yaml", &format!("# expect: deny deadlien train spec\n{}", good())),
        ("c/broken.yaml", "# expect: nothing\nkind: Job\nspec: [\n"),
        ("d/other.yaml", "# expect: nothing\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ("e/gone.fixed.yaml", &good()),
        ("f/bad.yaml", &format!("# expect: nothing\n{}", good())),
        ("f/policy.yaml", &POLICY.replace("deny", "denny")),
        ("g/control.yaml", &format!("# expect: deny \u{1b}[2J train \u{1b}[31m\n{}", good())),
        ("h/readme.md", ""),
    ]);
    for (folder, message) in [
        (
            "a",
            "a/none.yaml:1:1: the case has no `# expect:` line; add `# expect: nothing`, or `# expect: LEVEL RULE NAME FIELD` for each finding; --update does it",
        ),
        ("b", "b/slip.yaml:1:16: there is no rule or check `deadlien`; did you mean `deadline`?"),
        ("c", "c/broken.yaml:3:7: `[` is never closed"),
        (
            "d",
            "d/other.yaml: the case has no object of a kind that Jobgate judges; docs/kinds.md lists the kinds",
        ),
        ("e", "e/gone.fixed.yaml: this file belongs to no case; there is no e/gone.yaml"),
        ("f", "f/policy.yaml:6:24: `action` cannot be `denny`; did you mean `deny`?"),
        ("h", "no cases in h; see docs/policy-test.md"),
        ("gone", "gone: No such file"),
    ] {
        let output = place.run(&["policy", "test", folder]);
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{folder}: {output:?}");
        assert!(text.starts_with(&format!("jobgate: {message}")) && text.lines().count() == 1, "{text}");
    }
    let output = place.run(&["policy", "test", "g"]);
    assert_eq!(code(&output), 2);
    assert!(!stderr(&output).contains('\u{1b}') && !stdout(&output).contains('\u{1b}'), "{output:?}");
    // One that is broken does not keep the others from running, nor an update from writing them.
    let output = place.run(&["policy", "test", "a", "b", "--update"]);
    assert_eq!((code(&output), stderr(&output).lines().count()), (2, 1), "{output:?}");
    assert!(stdout(&output).starts_with("wrote a/none.yaml\n0 cases passed, 1 updated, 1 not run "));
}

#[test]
fn the_folder_of_a_rule_is_about_that_rule() {
    let place = Place::with(&[
        ("gpu-toleration/a.yaml", WEEK),
        (
            "ttl_after_finished/a.yaml",
            &WEEK.replace("nothing", "note ttl-after-finished train spec.ttlSecondsAfterFinished"),
        ),
        (
            "ttl_after_finished/a.fixed.yaml",
            &WEEK
                .replace("nothing", "note ttl-after-finished train spec.ttlSecondsAfterFinished")
                .replace("Failed\n", "Failed\n  ttlSecondsAfterFinished: 86400\n"),
        ),
    ]);
    let output = place.run(&["policy", "test", "."]);
    assert_eq!(
        (code(&output), stdout(&output)),
        (0, "2 cases passed (policy default, as there is no policy.yaml)\n"),
        "{output:?}"
    );
    fs::write(
        place.path().join("jobgate.yaml"),
        "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\npolicy: audit\n",
    )
    .unwrap();
    let output = place.run(&["policy", "test", "."]);
    assert!(stdout(&output).contains("(policy audit of jobgate.yaml)"), "{output:?}");
}

#[test]
fn ten_thousand_files_and_loops_of_links_are_no_matter() {
    let place = Place::with(&[("policy.yaml", POLICY)]);
    let good = format!("# expect: nothing\n{}", good());
    let folder = place.path().join("cases");
    fs::create_dir(&folder).unwrap();
    for nth in 0..10_000 {
        // Most are no cases, and are not even opened.
        let (ending, text) = if nth % 20 == 0 { ("yaml", good.as_str()) } else { ("txt", "") };
        fs::write(folder.join(format!("{nth}.{ending}")), text).unwrap();
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(".", folder.join("round")).unwrap();
        symlink("loop.yaml", folder.join("loop.yaml")).unwrap();
    }
    let start = Instant::now();
    let output = place.run(&["policy", "test", "cases"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    #[cfg(unix)]
    {
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).starts_with("jobgate: cases/loop.yaml: broken link: "), "{output:?}");
        fs::remove_file(folder.join("loop.yaml")).unwrap();
    }
    let output = place.run(&["policy", "test", "cases"]);
    assert_eq!((code(&output), stdout(&output)), (0, "500 cases passed (policy policy.yaml)\n"));
}

#[test]
fn a_huge_case_is_judged_and_its_diff_is_cut() {
    let many = format!("{}---\n", WEEK.replace("# expect: nothing\n", "")).repeat(1500);
    let place =
        Place::with(&[("policy.yaml", POLICY), ("cases/many.yaml", &format!("# expect: nothing\n{many}"))]);
    let start = Instant::now();
    let output = place.run(&["policy", "test", "cases"]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(code(&output), 1);
    let diffs = stdout(&output).lines().filter(|line| line.starts_with(['+', '-', ' ', '@'])).count();
    assert!(diffs <= 400, "{diffs}");
    assert!(stdout(&output).contains("\n… and "), "{}", &stdout(&output)[..2000]);
    // Two texts without a line in common are not compared line by line.
    let numbers = |from: usize| (from..from + 100_000).map(|line| format!("{line}\n")).collect::<String>();
    let scripts = format!("{WEEK}---\nnotes: |\n  {}", numbers(0).replace('\n', "\n  "));
    let other = Place::with(&[("cases/a.yaml", &scripts), ("cases/a.fixed.yaml", &numbers(1_000_000))]);
    let start = Instant::now();
    assert_eq!(code(&other.run(&["policy", "test", "cases"])), 1);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let output = place.run(&["policy", "test", "--update", "cases"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let output = place.run(&["policy", "test", "cases"]);
    assert_eq!((code(&output), stdout(&output)), (0, "1 case passed (policy policy.yaml)\n"));
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_written_is_said_and_nothing_is_left_beside_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::with(&[("policy.yaml", POLICY), ("cases/week.yaml", WEEK)]);
    let case = place.path().join("cases/week.yaml");
    fs::set_permissions(&case, fs::Permissions::from_mode(0o444)).unwrap();
    let output = place.run(&["policy", "test", "--update", "cases"]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output), "jobgate: cases/week.yaml: cannot be written: the file is read-only\n");
    assert_eq!(fs::read_to_string(&case).unwrap(), WEEK);
}

/// Whoever reads a pipe waits for its writer.
#[cfg(unix)]
#[test]
fn pipes_and_devices_beside_a_case_are_not_read() {
    use std::os::unix::fs::symlink;
    let good = format!("# expect: nothing\n{}", good());
    for beside in ["a.policy.yaml", "a.facts.yaml", "a.fixed.yaml", "a.unsafe.yaml", "a.patch.json"] {
        let place = Place::with(&[("a.yaml", &good)]);
        let path = place.path().join(beside);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let output = place.run(&["policy", "test", "."]);
        assert_eq!(
            (code(&output), stderr(&output)),
            (2, format!("jobgate: {beside}: this is not a regular file\n").as_str())
        );
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        let output = place.run(&["policy", "test", "--update", "a.yaml"]);
        assert_eq!(code(&output), 2, "{output:?}");
    }
    let place = Place::with(&[]);
    assert!(
        std::process::Command::new("mkfifo").arg(place.path().join("a.yaml")).status().unwrap().success()
    );
    for arguments in [&["policy", "test", "a.yaml"][..], &["policy", "test", "."]] {
        assert_eq!(code(&place.run(arguments)), 2);
    }
}
