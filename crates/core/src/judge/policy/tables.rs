//! The keys of a policy: a table for each of its mappings.

use super::{API_VERSION, KIND, OptOut};
use crate::judge::settings::{Setting, SettingsTable, Values};
use crate::kinds::Kind;
use crate::text::value::{Value, json};

/// A policy.
pub(super) static TOP: SettingsTable = SettingsTable(&[
    Setting::new("apiVersion", "", Values::Const(API_VERSION)),
    Setting::new("kind", "", Values::Const(KIND)),
    Setting::new("metadata", "", Values::Whole(&METADATA)),
    Setting::new("spec", "", Values::Mapping(&SPEC)),
]);

/// Its metadata.
pub(super) static METADATA: SettingsTable = SettingsTable(&[Setting::new(
    "name",
    "the policy's name, for logs, metrics and audit annotations",
    Values::Text,
)]);

/// Its spec.
pub static SPEC: SettingsTable = SettingsTable(&[
    Setting::new(
        "rules",
        "settings by rule; rules that are not set use their defaults",
        Values::Defined("rules"),
    ),
    Setting::new(
        "overrides",
        "settings for some objects, on top of the policy's; the last match wins",
        Values::Mappings { of: &OVERRIDE, required: &["match", "rules"], any: &[] },
    ),
    Setting::new(
        "exemptions",
        "suppresses findings of some rules for some objects",
        Values::Mappings { of: &EXEMPTION, required: &["match", "reason"], any: &[] },
    ),
    Setting::new(
        "optOut",
        "which findings an author may suppress with the annotation `jobgate.dev/ignore`",
        Values::Own(
            || json!({"enum": OptOut::ALL.map(OptOut::as_str), "default": OptOut::default().as_str()}),
        ),
    ),
    Setting::new(
        "reportFills",
        "whether the webhook warns about what it has filled in",
        Values::Flag(Some(true)),
    ),
    Setting::new(
        "assumptions",
        "what is assumed of the programs in pods where a rule, or `jobgate simulate`, asks what would happen",
        Values::Mapping(&ASSUMPTIONS),
    ),
    Setting::new(
        "trustedControllers",
        "user names of controllers whose objects were [judged with their parent](#trusted-controllers)",
        Values::Own(trusted),
    ),
]);

/// What is assumed of programs.
pub static ASSUMPTIONS: SettingsTable = SettingsTable(&[
    Setting::new(
        "runtime",
        "how long a run takes that has no deadline; of one with a deadline, half of it is assumed",
        Values::Own(|| duration("12h", "")),
    ),
    Setting::new("startup", "from when all pods run until they work", Values::Own(|| duration("2m", ""))),
    Setting::new(
        "checkpointEvery",
        "how often work is saved; `none` if it never is",
        Values::Own(|| duration("30m", "|none")),
    ),
    Setting::new(
        "peerTimeout",
        "how long pods that train together wait for one that is lost, before they exit",
        Values::Own(|| duration("10m", "")),
    ),
    Setting::new(
        "grace",
        "how long a program takes to end after SIGTERM",
        Values::Own(|| duration("1s", "")),
    ),
    Setting::new(
        "waitForPodsReady",
        "how long Kueue waits until all pods are ready, before it evicts a job; `none` if it does not, as before 0.19",
        Values::Own(|| duration("30m", "|none")),
    ),
]);

fn duration(default: &str, or: &str) -> Value {
    json!({"type": "string", "pattern": format!("^(([0-9]+[dhms])+{or})$"), "default": default})
}

fn trusted() -> Value {
    json!({
        "type": ["array", "null"],
        "items": {"description": "A user name.", "type": "string", "pattern": "\\S"},
        "default": super::trusted_controllers().collect::<Vec<_>>(),
    })
}

/// The settings of a rule; the values of some depend on the rule.
pub(super) static RULE: SettingsTable = SettingsTable(&[
    Setting::new(
        "action",
        "deny: refuse the object. warn: admit it with a warning. fill: write the value in. ignore: skip the rule",
        Values::Own(|| json!({})),
    ),
    Setting::new(
        "params",
        "",
        Values::Own(|| json!({"type": ["object", "null"], "additionalProperties": false})),
    ),
]);

/// An override.
pub(super) static OVERRIDE: SettingsTable = SettingsTable(&[
    Setting::new("match", "", Values::Defined("match")),
    Setting::new("rules", "", Values::Defined("rules")),
]);

/// An exemption.
pub(super) static EXEMPTION: SettingsTable = SettingsTable(&[
    Setting::new("match", "", Values::Defined("match")),
    Setting::new(
        "rules",
        "the rules whose findings are suppressed; all if it is not set",
        Values::Own(|| json!({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/ruleId"}})),
    ),
    Setting::new("reason", "why it is needed; shown with every suppressed finding", Values::Text),
    Setting::new(
        "until",
        "the last valid day; after it the exemption is reported and suppresses nothing",
        Values::Own(
            || json!({"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
        ),
    ),
]);

/// The conditions that select objects.
pub static MATCH: SettingsTable = SettingsTable(&[
    Setting::new("namespaces", "globs; the object's namespace must match one", Values::Texts(1)),
    Setting::new(
        "kinds",
        "names of [kinds](kinds.md); the object must be of one of them",
        Values::Own(|| json!({"type": "array", "minItems": 1, "items": {"enum": Kind::titles()}})),
    ),
    Setting::new("names", "globs; the object's name must match one", Values::Texts(1)),
    Setting::new(
        "labels",
        "labels that the object must have",
        Values::Own(|| json!({"type": "object", "additionalProperties": {"type": "string"}})),
    ),
    Setting::new(
        "accelerators",
        "`true`: one of the object's pods requests an accelerator; `false`: none does",
        Values::Flag(None),
    ),
]);
