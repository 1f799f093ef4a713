//! Reads the source of a [`Configuration`], or reports all its errors.

use std::path::Path;
use std::time::Duration;

use super::{At, ChartValues, Configuration, KIND, Override, Render, tables};
use crate::cli::args::{FailOn, Seconds, seconds};
use crate::judge::finding::Part;
use crate::judge::rules::RuleSet;
use crate::judge::selection::{NothingSelected, matching};
use crate::judge::settings::{self, Field, Form, Reader, SettingsErrors};
use crate::local::lint::{Patterns, STDIN};
use crate::text::pointer::Pointer;

/// The values of `failOn`.
pub(super) const LEVELS: [(&str, FailOn); 3] =
    [("deny", FailOn::Deny), ("warn", FailOn::Warn), ("note", FailOn::Note)];

/// The form of a configuration file.
const FORM: Form = Form { kind: KIND, noun: "configuration" };

/// Reads a configuration.
pub(super) fn configuration(source: &str, name: &str) -> Result<Configuration, SettingsErrors> {
    settings::read(source, name, &FORM, |reader| read(reader, name))
}

fn read(reader: &mut Reader<'_>, name: &str) -> Configuration {
    let top = reader.fields(&Pointer::root(), Some(reader.value()), "a configuration", &tables::TOP);
    let overrides = reader.list(&top.get("overrides"), "`overrides`", true);
    Configuration {
        path: name.to_owned(),
        policy: placed(reader, &top.get("policy"), "`policy`"),
        paths: paths(reader, &top.get("paths"), "`paths`"),
        exclude: patterns(reader, &top.get("exclude"), "`exclude`", true),
        overrides: overrides.map(|item| an_override(reader, &item)).collect(),
        namespace: text(reader, &top.get("namespace"), "`namespace`"),
        baseline: text(reader, &top.get("baseline"), "`baseline`"),
        fail_on: reader.choice(&top.get("failOn"), "`failOn`", &LEVELS),
        facts: paths(reader, &top.get("facts"), "`facts`"),
        select: rules(reader, &top.get("select"), "`select`", false),
        ignore: rules(reader, &top.get("ignore"), "`ignore`", true),
        render: rendering(reader, &top.get("render")),
        ..Configuration::default()
    }
}

fn an_override(reader: &mut Reader<'_>, item: &Field<'_>) -> Override {
    let item = Field { at: item.at.clone(), value: item.at.find(reader.value()) };
    let fields = reader.fields(&item.at, item.value, "an override", &tables::OVERRIDE);
    let (paths, policy, namespace) = (fields.get("paths"), fields.get("policy"), fields.get("namespace"));
    if paths.value.is_none() {
        reader.error(&item.at, Part::Key, "an override needs `paths`", None);
    }
    if policy.value.is_none() && namespace.value.is_none() {
        let message = "an override without `policy` and `namespace` changes nothing";
        reader.error(&item.at, Part::Key, message, None);
    }
    Override {
        paths: patterns(reader, &paths, "`paths`", false),
        policy: placed(reader, &policy, "`policy`"),
        namespace: text(reader, &namespace, "`namespace`"),
    }
}

fn rendering<'s>(reader: &mut Reader<'s>, field: &Field<'s>) -> Option<Render> {
    let fields = reader.fields(&field.at, field.value, "`render`", &tables::RENDER);
    fields.map?;
    let timeout = fields.get("timeout");
    let seconds = reader.text(&timeout, "`timeout`").and_then(|text| match seconds(text) {
        Ok(Seconds(seconds)) if seconds <= LONGEST => Some(Duration::from_secs(seconds)),
        _ => {
            let help = "write a time such as `30s` or `2m`, of at most an hour".to_owned();
            reader.wrong(&timeout.at, format!("`timeout` cannot be `{}`", settings::shown(text)), Some(help));
            None
        }
    });
    let sets: Vec<Field<'s>> = reader.list(&fields.get("values"), "`values`", true).collect();
    Some(Render {
        charts: reader.flag(&fields, "charts"),
        kustomizations: reader.flag(&fields, "kustomizations"),
        values: sets.iter().map(|set| values(reader, set)).collect(),
        timeout: seconds,
        network: reader.flag(&fields, "network"),
        allow_failures: patterns(reader, &fields.get("allowFailures"), "`allowFailures`", true),
    })
}

fn values<'s>(reader: &mut Reader<'s>, set: &Field<'s>) -> ChartValues {
    let fields = reader.fields(&set.at, set.value, "an item of `values`", &tables::VALUES);
    let (charts, files) = (fields.get("charts"), fields.get("files"));
    for (key, field) in [("charts", &charts), ("files", &files)] {
        if field.value.is_none() {
            reader.error(&set.at, Part::Key, format!("an item of `values` needs `{key}`"), None);
        }
    }
    ChartValues {
        charts: patterns(reader, &charts, "`charts`", false),
        files: texts(reader, &files, "`files`", true, |path| {
            let is_address = path.contains("://");
            let message = || format!("`{}` is not a file", settings::shown(path));
            if is_address || path == STDIN { Err((message(), None)) } else { Ok(()) }
        }),
    }
}

/// The longest time limit of a rendering, in seconds.
const LONGEST: u64 = 3600;

fn text<'s>(reader: &mut Reader<'s>, field: &Field<'s>, name: &str) -> Option<String> {
    reader.text(field, name).map(str::to_owned)
}

fn placed<'s>(reader: &mut Reader<'s>, field: &Field<'s>, name: &str) -> Option<At<String>> {
    let value = text(reader, field, name)?;
    Some(At { value, position: reader.position(&field.at) })
}

/// Reads a list of texts that a function accepts.
fn texts<'s>(
    reader: &mut Reader<'s>,
    field: &Field<'s>,
    name: &str,
    may_be_empty: bool,
    check: impl Fn(&str) -> Result<(), (String, Option<String>)>,
) -> Vec<String> {
    let mut texts = Vec::new();
    for item in reader.list(field, name, may_be_empty) {
        let Some(text) = reader.text(&item, &format!("an item of {name}")) else { continue };
        match check(text) {
            Ok(()) => texts.push(text.to_owned()),
            Err((message, help)) => reader.wrong(&item.at, message, help),
        }
    }
    texts
}

fn paths<'s>(reader: &mut Reader<'s>, field: &Field<'s>, name: &str) -> Vec<String> {
    texts(reader, field, name, false, |path| {
        let help = || Some("name it on the command line".to_owned());
        if path == STDIN { Err(("`-` is standard input, not a path".to_owned(), help())) } else { Ok(()) }
    })
}

fn patterns<'s>(reader: &mut Reader<'s>, field: &Field<'s>, name: &str, may_be_empty: bool) -> Vec<String> {
    texts(reader, field, name, may_be_empty, |pattern| {
        let root = Path::new("/");
        Patterns::new(root, root, [pattern]).map(drop).map_err(|error| (error.to_string(), None))
    })
}

fn rules<'s>(reader: &mut Reader<'s>, field: &Field<'s>, name: &str, may_be_empty: bool) -> Vec<String> {
    texts(reader, field, name, may_be_empty, |pattern| {
        matching(&RuleSet::built_in(), pattern)
            .map(drop)
            .map_err(|NothingSelected { message, help }| (message, Some(help)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n";

    fn errors(text: &str) -> String {
        Configuration::parse(text, "c")
            .map(|configuration| panic!("no errors in {configuration:?}"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn everything_is_read() {
        let source = "\
policy: audit
paths: [k8s, 'jobs/*.yaml']
exclude: [vendor, '*.gen.yaml']
overrides:
- {paths: [k8s/research], policy: ours.yaml, namespace: research}
- {paths: [k8s/ci], namespace: ci}
namespace: team-a
baseline: known.json
failOn: warn
facts: [pvc.yaml]
select: [deadline, gpu-*]
ignore: [syntax]
render:
  charts: true
  kustomizations: false
  values:
  - {charts: [/charts/train], files: [ci.yaml, charts/train/gpu.yaml]}
  - {charts: ['*'], files: []}
  timeout: 2m
  network: true
  allowFailures: [overlays/old]
";
        let read = Configuration::parse(&format!("{HEAD}{source}"), "c").unwrap();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let at = |value: &str, line: usize, column: usize| {
            Some(At { value: value.to_owned(), position: crate::text::lines::Position { line, column } })
        };
        let expected = Configuration {
            path: "c".to_owned(),
            directory: std::path::PathBuf::new(),
            within: None,
            policy: at("audit", 3, 9),
            paths: texts(&["k8s", "jobs/*.yaml"]),
            exclude: texts(&["vendor", "*.gen.yaml"]),
            overrides: vec![
                Override {
                    paths: texts(&["k8s/research"]),
                    policy: at("ours.yaml", 7, 35),
                    namespace: Some("research".to_owned()),
                },
                Override { paths: texts(&["k8s/ci"]), policy: None, namespace: Some("ci".to_owned()) },
            ],
            namespace: Some("team-a".to_owned()),
            baseline: Some("known.json".to_owned()),
            fail_on: Some(FailOn::Warn),
            facts: texts(&["pvc.yaml"]),
            select: texts(&["deadline", "gpu-*"]),
            ignore: texts(&["syntax"]),
            render: Some(Render {
                charts: true,
                kustomizations: false,
                values: vec![
                    ChartValues {
                        charts: texts(&["/charts/train"]),
                        files: texts(&["ci.yaml", "charts/train/gpu.yaml"]),
                    },
                    ChartValues { charts: texts(&["*"]), files: Vec::new() },
                ],
                timeout: Some(Duration::from_secs(120)),
                network: true,
                allow_failures: texts(&["overlays/old"]),
            }),
        };
        assert_eq!(read, expected);
        assert_eq!(
            Configuration::parse(HEAD, "c").unwrap(),
            Configuration { path: "c".to_owned(), ..Configuration::default() }
        );
    }

    #[test]
    fn errors_have_a_position_and_say_what_was_meant() {
        for (text, message) in [
            ("polcy: audit", "c:3:1: a configuration has no key `polcy`; did you mean `policy`?"),
            ("policy: [audit]", "c:3:9: `policy` is a string, not a list"),
            ("paths: k8s", "c:3:8: `paths` is a list, not a string; write a single item in brackets: `[…]`"),
            (
                "paths: [~]\nnamespace: 1",
                "c:3:9: an item of `paths` is a string, not nothing\nc:4:12: `namespace` is a string, not a number; put it in quotes",
            ),
            ("paths: ['-']", "c:3:9: `-` is standard input, not a path; name it on the command line"),
            ("exclude: [a, '!b']", "c:3:14: `!b` is not a pattern of paths: it cannot be negated"),
            ("failOn: wran", "c:3:9: `failOn` cannot be `wran`; did you mean `warn`?"),
            ("select: [dedline]", "c:3:10: there is no rule or check `dedline`; did you mean `deadline`?"),
            ("select: []", "c:3:9: `select` is an empty list; omit the key to match all"),
            (
                "ignore: [x-*]",
                "c:3:10: no rule or check matches `x-*`; `jobgate explain` lists the rules and checks",
            ),
            (
                "overrides: [{paths: [a]}]",
                "c:3:13: an override without `policy` and `namespace` changes nothing",
            ),
            ("overrides: [{policy: audit}]", "c:3:13: an override needs `paths`"),
            (
                "overrides: [{paths: [], policy: audit}]",
                "c:3:21: `paths` is an empty list; omit the key to match all",
            ),
            (
                "overrides: [{path: [a], paths: [a], policy: b}]",
                "c:3:14: an override has no key `path`; did you mean `paths`?",
            ),
            ("render: true", "c:3:9: `render` is a mapping, not a boolean"),
            ("render: {chart: true}", "c:3:10: `render` has no key `chart`; did you mean `charts`?"),
            ("render: {charts: 'yes'}", "c:3:18: `charts` is `true` or `false`, not a string"),
            (
                "render: {timeout: 2 min}",
                "c:3:19: `timeout` cannot be `2 min`; write a time such as `30s` or `2m`, of at most an hour",
            ),
            ("render: {timeout: 30}", "c:3:19: `timeout` is a string, not a number; put it in quotes"),
            ("render: {values: [{charts: [a]}]}", "c:3:19: an item of `values` needs `files`"),
            ("render: {values: [{files: [a]}]}", "c:3:19: an item of `values` needs `charts`"),
            (
                "render: {values: [{charts: ['!a'], files: ['https://x/y']}]}",
                "c:3:29: `!a` is not a pattern of paths: it cannot be negated\nc:3:44: `https://x/y` is not a file",
            ),
            ("policy: audit\npolicy: default", "c:4:1: duplicate key `policy`; remove one of the two"),
            ("---\na: 1", "c:4:1: a configuration is a single document; remove this one"),
        ] {
            assert_eq!(errors(&format!("{HEAD}{text}\n")), message, "{text}");
        }
        for (text, message) in [
            (
                "",
                "c:1:1: the file contains no configuration; begin with `apiVersion: jobgate.dev/v1alpha1` and `kind: Configuration`",
            ),
            (
                "policy: audit\n",
                "c:1:1: `apiVersion` is missing; add `apiVersion: jobgate.dev/v1alpha1`\nc:1:1: `kind` is missing; add `kind: Configuration`",
            ),
            (
                "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\n",
                "c:2:7: `kind` is `Policy`, which this version of Jobgate does not support; expected `Configuration`",
            ),
        ] {
            assert_eq!(errors(text), message, "{text}");
        }
    }
}
