use proptest::prelude::*;

use super::super::{API_VERSION, PolicyError};
use super::*;
use crate::text::value::json;

const HEAD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: test}\n";

/// Reads a policy whose spec, or whole text, is given without indentation.
fn read(spec: &str) -> Result<Policy, PolicyErrors> {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    Policy::parse(&format!("{HEAD}spec:\n{spec}"), "p.yaml")
}

/// Returns the errors of a spec, each as `line:column: message; help`, lines counted in the spec.
fn errors(spec: &str) -> Vec<String> {
    let errors = read(spec).map(|policy| panic!("no errors in {policy:?}")).unwrap_err();
    let before = HEAD.lines().count() + 1;
    let line = |error: &PolicyError| {
        let help = error.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        format!("{}:{}: {}{help}", error.position.line - before, error.position.column - 2, error.message)
    };
    errors.errors.iter().map(line).collect()
}

fn error(spec: &str) -> String {
    let errors = errors(spec);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.concat()
}

fn whole(source: &str) -> String {
    Policy::parse(source, "p.yaml").map(|policy| panic!("no errors in {policy:?}")).unwrap_err().to_string()
}

#[test]
fn reads_everything_there_is() {
    let policy = read(
        "rules:
  deadline: {action: warn, params: {suggestion: 3600}}
overrides:
- match: {namespaces: [ci-*], kinds: [Job, CronJob], names: ['a*', b], labels: {tier: x, empty: ''}, accelerators: false}
  rules: {deadline: {action: ignore}}
exemptions:
- match: {kinds: [PyTorchJob]}
  rules: [deadline, restart-policy]
  reason: because
  until: 2030-12-31
- match: {accelerators: true}
  reason: all rules
optOut: none
trustedControllers: [me]",
    )
    .unwrap();
    assert_eq!(policy.name, "test");
    assert_eq!(policy.settings()["deadline"].action, Some(Action::Warn));
    assert_eq!(policy.settings()["deadline"].params["suggestion"], json!(3600));
    let matcher = &policy.overrides[0].matcher;
    assert_eq!(
        (matcher.namespaces.len(), matcher.names.len(), matcher.labels.len(), matcher.accelerators),
        (1, 2, 2, Some(false))
    );
    assert_eq!(matcher.kinds, [Kind::JOB, Kind::CRON_JOB]);
    assert_eq!(policy.overrides[0].rules["deadline"].action, Some(Action::Ignore));
    assert_eq!(policy.exemptions[0].rules, ["deadline", "restart-policy"]);
    assert_eq!(policy.exemptions[0].until, Some(jiff::civil::date(2030, 12, 31)));
    assert_eq!((policy.exemptions[1].rules.len(), policy.exemptions[1].until), (0, None));
    assert_eq!(policy.opt_out, OptOut::None);
    assert_eq!(policy.trusted_controllers, ["me"]);
}

#[test]
fn a_policy_may_be_short() {
    for source in [
        HEAD.to_owned(),
        format!("{HEAD}spec:\n"),
        format!("{HEAD}spec: {{rules: , overrides: , exemptions: , trustedControllers: }}\n"),
    ] {
        let policy = Policy::parse(&source, "p.yaml").unwrap_or_else(|errors| panic!("{errors}"));
        assert!(
            super::super::trusted_controllers().eq(policy.trusted_controllers.iter().map(String::as_str))
        );
        assert_eq!(policy.opt_out, OptOut::Warnings);
        assert!(policy.settings().is_empty());
    }
    assert!(read("trustedControllers: []").unwrap().trusted_controllers.is_empty());
    assert!(read("rules: {deadline: }").unwrap().settings()["deadline"].action.is_none());
}

#[test]
fn reads_json_too() {
    let source = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "j"}, "spec": {"optOut": "denials"}}).to_string();
    assert_eq!(Policy::parse(&source, "p.json").unwrap().opt_out, OptOut::Denials);
}

#[test]
fn unknown_keys_are_errors_with_a_hint() {
    assert_eq!(error("rulez: {}"), "1:1: `spec` has no key `rulez`; did you mean `rules`?");
    assert_eq!(
        error("rules: {deadline: {actoin: deny}}"),
        "1:20: `deadline` has no key `actoin`; did you mean `action`?"
    );
    assert_eq!(
        error("overrides:\n- match: {namespace: [a]}\n  rules: {}"),
        "2:11: `match` has no key `namespace`; did you mean `namespaces`?"
    );
    assert_eq!(
        error("exemptions:\n- match: {names: [a]}\n  reason: r\n  expires: 2030-01-01"),
        "4:3: an exemption has no key `expires`; expected `match`, `rules`, `reason` or `until`"
    );
}

#[test]
fn unknown_rules_parameters_actions_and_kinds_are_errors_with_a_hint() {
    assert_eq!(error("rules: {dedline: {}}"), "1:9: there is no rule `dedline`; did you mean `deadline`?");
    assert_eq!(
        error("rules: {placeholder: {}}"),
        "1:9: `placeholder` is a check of the input, which a policy cannot set"
    );
    assert_eq!(
        error("rules: {deadline: {params: {sugestion: 1}}}"),
        "1:29: `deadline` has no parameter `sugestion`; did you mean `suggestion`?"
    );
    assert_eq!(
        error("rules: {restart-policy: {params: {x: 1}}}"),
        "1:35: `restart-policy` has no parameter `x`; it has no parameters"
    );
    assert_eq!(
        error("rules: {deadline: {action: denny}}"),
        "1:28: `action` cannot be `denny`; did you mean `deny`?"
    );
    assert_eq!(
        error("rules: {deadline: {action: off}}"),
        "1:28: `action` is a word, not a boolean; expected `deny`, `warn`, `note` or `ignore`"
    );
    assert_eq!(error("optOut: warning"), "1:9: `optOut` cannot be `warning`; did you mean `warnings`?");
    let kind = error("overrides:\n- match: {kinds: [Cronjob]}\n  rules: {}");
    assert_eq!(kind, "2:19: a kind cannot be `Cronjob`; did you mean `CronJob`?");
    let exempt = error("exemptions:\n- match: {names: [a]}\n  rules: [gpu-tolerations]\n  reason: r");
    assert_eq!(exempt, "3:11: there is no rule `gpu-tolerations`; did you mean `gpu-toleration`?");
}

#[test]
fn only_rules_that_fill_can_fill() {
    assert_eq!(
        error("rules: {deadline: {action: fill}}"),
        "1:28: `deadline` cannot fill in a value; expected `deny`, `warn`, `note` or `ignore`"
    );
    assert!(read("rules: {gpu-toleration: {action: fill}}").is_ok());
}

#[test]
fn parameters_are_checked_by_type_and_least_value() {
    let with = |value: &str| format!("rules: {{ttl-after-finished: {{params: {value}}}}}");
    assert!(read(&with("{seconds: 0, gitops: true}")).is_ok());
    assert_eq!(error(&with("{seconds: -1}")), "1:48: `seconds` is -1, below the minimum of 0");
    assert_eq!(
        error(&with("{seconds: 1h}")),
        "1:48: `seconds` is a whole number, not a string; write it in seconds: `3600`"
    );
    assert_eq!(
        error(&with("{seconds: 1.5}")),
        "1:48: `seconds` is a whole number, not a number that is not whole, or too large"
    );
    assert_eq!(error(&with("{gitops: 'yes'}")), "1:47: `gitops` is `true` or `false`, not a string");
    assert_eq!(error(&with("{seconds: }")), "1:39: `seconds` is a whole number, not nothing");
    assert_eq!(error(&with("[]")), "1:38: `params` is a mapping, not a list");
    let list = |value: &str| format!("rules: {{checkpoint-volume-access: {{params: {{words: {value}}}}}}}");
    assert!(read(&list("[]")).is_ok());
    assert_eq!(
        error(&list("[a, 1]")),
        "1:56: an item of `words` is a string, not a number; put it in quotes"
    );
    assert_eq!(
        error(&list("save")),
        "1:52: `words` is a list, not a string; write a single item in brackets: `[…]`"
    );
    let map = |value: &str| format!("rules: {{gpu-toleration: {{params: {{taints: {value}}}}}}}");
    assert!(read(&map("{nvidia.com/gpu: dedicated}")).is_ok());
    assert_eq!(error(&map("{a: {}}")), "1:47: `a` of `taints` is a string, not a mapping");
    assert_eq!(error(&map("[]")), "1:43: `taints` is a mapping, not a list");
}

#[test]
fn a_rule_set_to_a_word_gets_the_right_form() {
    assert_eq!(
        error("rules: {deadline: warn}"),
        "1:19: `deadline` is a mapping, not a string; write `{action: warn}`"
    );
}

#[test]
fn globs_and_dates_are_checked() {
    assert_eq!(
        error("overrides:\n- match: {names: ['a[']}\n  rules: {}"),
        "2:19: `a[` is not a glob: unclosed character class; missing ']'"
    );
    let until = |date: &str| format!("exemptions:\n- match: {{names: [a]}}\n  reason: r\n  until: {date}");
    assert!(read(&until("2028-02-29")).is_ok());
    for date in ["2027-02-29", "2027-13-01", "tomorrow", "2027-1-1", "2027-01-01T00:00:00Z", "+02027-01-1"] {
        let expected = format!(
            "4:10: `until` is not a date: `{date}`; write the last valid day as year-month-day: `2030-12-31`"
        );
        assert_eq!(error(&until(date)), expected);
    }
    assert_eq!(error(&until("20270101")), "4:10: `until` is a string, not a number; put it in quotes");
}

#[test]
fn nothing_is_matched_by_accident() {
    for place in ["match: {}\n  ", "match:\n  "] {
        let message = error(&format!("exemptions:\n- {place}reason: r"));
        assert!(
            message
                .starts_with("2:3: an exemption needs a `match` that selects objects; name at least one of"),
            "{message}"
        );
    }
    assert!(error("exemptions:\n- reason: r").starts_with("2:3: an exemption needs a `match`"));
    for key in ["namespaces", "kinds", "names"] {
        let message = error(&format!("overrides:\n- match: {{{key}: []}}\n  rules: {{}}"));
        assert_eq!(
            message,
            format!("2:{}: `{key}` is an empty list; omit the key to match all", 13 + key.len())
        );
    }
    let message = error("exemptions:\n- match: {names: [a]}\n  rules: []\n  reason: r");
    assert_eq!(message, "3:10: `rules` of an exemption is an empty list; omit the key to match all");
}

#[test]
fn an_exemption_needs_a_reason_and_an_override_rules() {
    assert_eq!(error("exemptions:\n- match: {names: [a]}"), "2:3: `reason` is missing");
    assert_eq!(error("exemptions:\n- match: {names: [a]}\n  reason: ' '"), "3:11: `reason` is empty");
    assert_eq!(
        error("overrides:\n- match: {names: [a]}"),
        "2:3: an override without `rules` changes nothing"
    );
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_source() {
    let all = errors(
        "rulez: 1\noptOut: maybe\nexemptions: [{reason: 1}]\nrules: {deadline: {action: fill, params: {x: 1}}}",
    );
    let lines: Vec<&str> = all.iter().map(|error| error.split_once(':').unwrap().0).collect();
    assert_eq!(lines, ["1", "2", "3", "3", "4", "4"], "{all:#?}");
}

#[test]
fn the_head_must_be_a_policys() {
    assert_eq!(
        whole("kind: Policy\nmetadata: {name: a}\n"),
        "p.yaml:1:1: `apiVersion` is missing; add `apiVersion: jobgate.dev/v1alpha1`"
    );
    assert_eq!(
        whole("apiVersion: jobgate.dev/v1\nkind: Policy\nmetadata: {name: a}\n"),
        "p.yaml:1:13: `apiVersion` is `jobgate.dev/v1`, which this version of Jobgate does not support; expected `jobgate.dev/v1alpha1`"
    );
    let two = whole("{}");
    assert!(two.contains("`apiVersion` is missing") && two.contains("`kind` is missing"), "{two}");
    assert_eq!(whole(&HEAD.replace("{name: test}", "{}")), "p.yaml:3:1: `metadata.name` is missing");
    assert_eq!(
        whole("apiVersion: jobgate.dev/v1alpha1\nkind: Policy\n"),
        "p.yaml:1:1: `metadata.name` is missing"
    );
    assert_eq!(
        whole(&HEAD.replace("{name: test}", "[]")),
        "p.yaml:3:11: `metadata` is a mapping, not a list"
    );
    assert_eq!(
        whole(&HEAD.replace("test", "7")),
        "p.yaml:3:18: `metadata.name` is a string, not a number; put it in quotes"
    );
}

#[test]
fn an_object_of_another_sort_gets_one_error() {
    let text = whole("apiVersion: batch/v1\nkind: Job\nmetadata: {}\nspec: {template: {}}\n");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("`kind` is `Job`, which this version of Jobgate does not support"), "{text}");
    assert!(whole("[]").contains("a policy is a mapping, not a list"));
}

#[test]
fn a_source_without_one_policy_is_an_error() {
    for source in ["", "\n", "# nothing\n", "---\n---\n"] {
        assert!(
            whole(source).starts_with("p.yaml:1:1: the file contains no policy"),
            "{source:?}: {}",
            whole(source)
        );
    }
    let two = whole(&format!("{HEAD}---\n{HEAD}"));
    assert_eq!(two, "p.yaml:5:1: a policy is a single document; remove this one");
    assert!(Policy::parse(&format!("# mine\n---\n{HEAD}---\n"), "p.yaml").is_ok());
}

#[test]
fn what_is_not_yaml_is_an_error_with_a_place() {
    let text = whole(&format!("{HEAD}spec: [\n"));
    assert!(text.starts_with("p.yaml:"), "{text}");
}

#[test]
fn a_key_twice_is_an_error() {
    assert_eq!(error("optOut: none\noptOut: none"), "2:1: duplicate key `optOut`; remove one of the two");
}

#[test]
fn words_of_the_source_are_shown_on_one_line() {
    let text = whole(&format!("{HEAD}spec: {{\"a\\nb\\u0007\": 1}}"));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("`a\\nb\\u{7}`"), "{text}");
    let long = whole(&format!("{HEAD}spec: {{{}: 1}}", "x".repeat(999)));
    assert!(long.len() < 300, "{long}");
}

/// Pieces of policies, so that random text comes near to one.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "apiVersion: jobgate.dev/v1alpha1\n",
        "kind: Policy\n",
        "metadata: {name: a}\n",
        "spec:\n",
        "  rules:\n",
        "    deadline: ",
        "{action: ",
        "fill}",
        "deny",
        "\n",
        "  exemptions:\n",
        "  - match: ",
        "{names: [",
        "ä",
        "'",
        "\"",
        "]}",
        "reason: ",
        "until: ",
        "2030-01-01",
        "&a ",
        "*a",
        "<<: ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "---\n",
        "\t",
        "null",
        "🦀",
        "| \n",
        "params: {suggestion: ",
        "-1",
        "\r\n",
        "\u{feff}",
        "? ",
        "#",
    ];
    prop_oneof![8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

#[test]
fn of_very_many_errors_a_hundred_are_shown() {
    let rules: String = (0..5000).map(|n| format!("  nothing{n}: {{}}\n")).collect();
    let errors = read(&format!("rules:\n{rules}")).unwrap_err();
    assert_eq!((errors.errors.len(), errors.count()), (100, 5000));
}

fn check_errors(source: &str) -> Result<(), TestCaseError> {
    let Err(errors) = Policy::parse(source, "p.yaml") else { return Ok(()) };
    prop_assert!(!errors.errors.is_empty());
    for error in &errors.errors {
        prop_assert!(source.get(error.span.clone()).is_some(), "{:?} in {:?}", error, source);
        prop_assert!(error.position.line >= 1 && error.position.column >= 1);
        prop_assert!(!error.message.contains('\n'), "{:?}", error);
    }
    prop_assert!(errors.errors.is_sorted_by_key(|error| error.span.start));
    prop_assert!(!errors.snippets(false).is_empty());
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_places_inside_it(source in any::<String>()) {
        check_errors(&source)?;
    }

    #[test]
    fn what_comes_near_to_a_policy_is_read_or_refused_with_places_inside_it(pieces in proptest::collection::vec(piece(), 0..24)) {
        check_errors(&pieces.concat())?;
        check_errors(&format!("{HEAD}spec:\n  {}", pieces.concat()))?;
    }
}

#[test]
fn assumptions_are_durations() {
    let policy = read(
        "assumptions: {runtime: 1d12h, checkpointEvery: none, peerTimeout: 90s, waitForPodsReady: none}",
    )
    .unwrap();
    let expected = ProgramDefaults {
        wait_for_pods_ready: None,
        runtime: Time::from_seconds(129_600),
        checkpoint: None,
        peer_timeout: Time::from_seconds(90),
        ..ProgramDefaults::default()
    };
    assert_eq!(policy.assumptions, expected);
    assert_eq!(read("assumptions: {}").unwrap().assumptions, ProgramDefaults::default());
    assert_eq!(
        errors("assumptions:\n  runtime: soon\n  startup: 5\n  grace: none\n  retries: 3"),
        [
            "2:12: `runtime`: `soon` is no duration; write `90s`, `30m` or `1h30m`",
            "3:12: `startup` is a string, not a number; put it in quotes",
            "4:10: `grace`: `none` is no duration; write `90s`, `30m` or `1h30m`",
            "5:3: `assumptions` has no key `retries`; expected `runtime`, `startup`, `checkpointEvery`, `peerTimeout`, `grace` or `waitForPodsReady`",
        ]
    );
}
