//! The settings of a configuration: a table for each of its mappings.

use super::KIND;
use crate::judge::settings::{API_VERSION, Setting, SettingsTable, Values};
use crate::text::value::{Value, json};

/// A configuration.
pub static TOP: SettingsTable = SettingsTable(&[
    Setting::new("apiVersion", "", Values::Const(API_VERSION)),
    Setting::new("kind", "", Values::Const(KIND)),
    Setting::new(
        "policy",
        "a [built-in policy](../README.md#policy), or the path of a policy",
        Values::Defined("policy"),
    )
    .option("`--policy`"),
    Setting::new("paths", "what is judged if the command line names no path", Values::Texts(1)).option("arguments"),
    Setting::new(
        "exclude",
        "files and directories that are skipped, in the syntax of `.gitignore`",
        Values::Texts(0),
    )
    .option("`--exclude`, which adds to it"),
    Setting::new(
        "overrides",
        "`policy` and `namespace` for some `paths`, in the syntax of `.gitignore`; for each of the two, the last match wins",
        Values::Mappings { of: &OVERRIDE, required: &["paths"], any: &["policy", "namespace"] },
    ),
    Setting::new("namespace", "the namespace of manifests without one", Values::Defined("namespace"))
        .option("`--namespace`"),
    Setting::new(
        "baseline",
        "the [baseline](ci.md#baseline) of `jobgate lint`; not used with `--write-baseline` and `--diff`",
        Values::Text,
    )
    .option("`--baseline`"),
    Setting::new(
        "failOn",
        "the lowest level that makes the exit code 1: `deny`, `warn` or `note`",
        Values::Word(&["deny", "warn", "note"], "deny"),
    )
    .option("`--fail-on`"),
    Setting::new("facts", "manifests of existing claims", Values::Texts(1)).option("`--facts`"),
    Setting::new(
        "select",
        "the only rules and [checks](rules/README.md#checks) that are used: ids or globs",
        Values::Own(|| rules(1)),
    )
    .option("`--select`, which replaces `select` and `ignore`"),
    Setting::new("ignore", "rules and checks that are not used", Values::Own(|| rules(0)))
        .option("`--ignore`, which adds to it"),
    Setting::new(
        "render",
        "how [charts and kustomizations](rendering.md) are rendered: `charts`, `kustomizations`, `values`, `timeout`, `allowFailures`, `network`",
        Values::Mapping(&RENDER),
    )
    .option("`--render`, `--no-render`"),
]);

/// Settings for some paths.
pub(super) static OVERRIDE: SettingsTable = SettingsTable(&[
    Setting::new("paths", "the paths, in the syntax of `.gitignore`", Values::Texts(1)),
    Setting::new("policy", "", Values::Defined("policy")),
    Setting::new("namespace", "", Values::Defined("namespace")),
]);

/// How charts and kustomizations are rendered.
pub static RENDER: SettingsTable = SettingsTable(&[
    Setting::new("charts", "whether charts are rendered", Values::Flag(Some(true))),
    Setting::new("kustomizations", "whether kustomizations are rendered", Values::Flag(Some(true))),
    Setting::new(
        "values",
        "files of values for the charts whose directories match `charts`, in the syntax of `.gitignore`; later files win, and each item is a rendering of its own",
        Values::Mappings { of: &VALUES, required: &["charts", "files"], any: &[] },
    ),
    Setting::new(
        "timeout",
        "how long one rendering may take, at most an hour; all together may take 20 times as long; less where the [configuration is only found](configuration.md#one-that-is-found)",
        Values::Own(|| json!({"type": "string", "pattern": "^[0-9]+[smh]?$", "default": "30s"})),
    ),
    Setting::new(
        "allowFailures",
        "the directories of charts and kustomizations that may fail to render, in the syntax of `.gitignore`",
        Values::Texts(0),
    ),
    Setting::new(
        "network",
        "whether kustomizations may fetch what they name, where [`--config`](configuration.md#one-that-is-found) names the configuration",
        Values::Flag(Some(false)),
    ),
]);

/// Files of values for some charts.
pub(super) static VALUES: SettingsTable = SettingsTable(&[
    Setting::new("charts", "the directories of charts, in the syntax of `.gitignore`", Values::Texts(1)),
    Setting::new("files", "files of values; later ones win", Values::Texts(0)),
]);

/// Returns the schema of a list of rules and checks.
fn rules(least: usize) -> Value {
    json!({"type": "array", "minItems": least, "items": {"$ref": "#/$defs/rule"}})
}
