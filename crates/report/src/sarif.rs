//! SARIF 2.1.0, the format of code scanning.
//!
//! Results are written one by one, so that large reports need little memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use super::text::{clean, repository_path};
use crate::located::{Located, Location};
use crate::object::ObjectId;
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use crate::{fingerprint, page};
use jobgate_core::judge::finding::Level;
use jobgate_core::text::lines::Lines;
use jobgate_core::text::lines::Position;
use jobgate_core::text::value::{Value, json};

/// The key of our fingerprints; the number is their version.
const FINGERPRINT: &str = "jobgateFinding/v2";

/// Writes the log.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let pages = page::all(&options.rules);
    let index: BTreeMap<&str, usize> = pages.iter().enumerate().map(|(at, page)| (&*page.id, at)).collect();
    let driver = json!({
        "name": "jobgate",
        "informationUri": "https://github.com/jobgate/jobgate",
        "version": env!("CARGO_PKG_VERSION"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": pages.iter().map(rule).collect::<Vec<_>>(),
    });
    let mut columns = Columns { report, lines: BTreeMap::new() };
    out.write_all(b"{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{\"tool\":{\"driver\":")?;
    serde_json::to_writer(&mut *out, &driver)?;
    out.write_all(b"},\"columnKind\":\"utf16CodeUnits\",\"results\":[")?;
    for (nth, located) in report.findings.iter().enumerate() {
        out.write_all(if nth == 0 { b"\n" } else { b",\n" })?;
        let index = index.get(&*located.finding.rule).copied();
        serde_json::to_writer(&mut *out, &result(located, index, &mut columns))?;
    }
    out.write_all(b"]")?;
    // What was not judged is not a result but a notification of the run.
    if !report.unjudged.is_empty() {
        let successful = !report.is_incomplete();
        write!(
            out,
            ",\"invocations\":[{{\"executionSuccessful\":{successful},\"toolExecutionNotifications\":["
        )?;
        for (nth, unjudged) in report.unjudged.iter().enumerate() {
            out.write_all(if nth == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &notification(unjudged, &mut columns))?;
        }
        out.write_all(b"]}]")?;
    }
    if let Some(path) = &report.configuration {
        out.write_all(b",\"properties\":")?;
        serde_json::to_writer(&mut *out, &json!({"configuration": path}))?;
    }
    out.write_all(b"}]}\n")
}

fn notification(unjudged: &Unjudged, columns: &mut Columns<'_>) -> Value {
    let what = unjudged.reason.what();
    let mut message = format!("{what}: {}", clean(&unjudged.message()));
    let help = unjudged.help();
    if !help.is_empty() {
        let _ = write!(message, "\nHelp: {}", clean(&help));
    }
    let mut location = json!({});
    if let Some(place) = &unjudged.location {
        location["physicalLocation"] = columns.physical(place);
    }
    if let Some(object) = &unjudged.object {
        location["logicalLocations"] = logical(object);
    }
    let level = if unjudged.reason.is_error() { "error" } else { "warning" };
    let id = format!("{}/{}", what.replace(' ', "-"), unjudged.reason.word());
    let mut notification = json!({"descriptor": {"id": id}, "level": level, "message": {"text": message}});
    if location.as_object().is_some_and(|location| !location.is_empty()) {
        notification["locations"] = json!([location]);
    }
    notification
}

fn logical(object: &ObjectId) -> Value {
    let name = object.name.as_deref().unwrap_or(&object.kind);
    json!([{"name": name, "fullyQualifiedName": object.to_string(), "kind": "object"}])
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note => "note",
    }
}

fn rule(page: &page::Page) -> Value {
    json!({
        "id": page.id,
        "name": page.name(),
        // Code scanning uses it as the title of its alerts: the problem, not what must hold.
        "shortDescription": {"text": page.problem},
        "fullDescription": {"text": page.in_full()},
        "helpUri": page::link(&page.id),
        "help": {"text": page.text, "markdown": page.text},
        "defaultConfiguration": {"level": level(page.level)},
        "properties": {"tags": ["kubernetes", "batch", page.group]},
    })
}

fn result(located: &Located, index: Option<usize>, columns: &mut Columns<'_>) -> Value {
    let finding = &located.finding;
    let mut message = clean(&finding.message).into_owned();
    if !finding.help.is_empty() {
        let _ = write!(message, "\nHelp: {}", clean(&finding.help));
    }
    let mut related = Vec::new();
    for other in &located.related {
        let object = other.object.as_deref().map(|object| format!("{}: ", clean(object))).unwrap_or_default();
        let text = format!("{object}{}", clean(&other.text));
        match other.location.as_ref().filter(|_| columns.report.impact.is_none()) {
            // Code scanning shows a related place only where the message links to it.
            Some(location) => {
                let id = related.len() + 1;
                let _ = write!(
                    message,
                    "\nSee [{}]({id})",
                    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
                );
                let place = columns.physical(location);
                related.push(json!({"id": id, "physicalLocation": place, "message": {"text": text}}));
            }
            None => {
                let _ = write!(message, "\nSee {text}");
            }
        }
    }
    let mut location = json!({});
    if columns.report.file(&located.location).is_some() {
        location["physicalLocation"] = columns.physical(&located.location);
    }
    if let Some(object) = &located.object {
        location["logicalLocations"] = logical(object);
    }
    let mut result = json!({
        "ruleId": finding.rule,
        "level": level(finding.level),
        "message": {"text": message},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: fingerprint::fingerprint(located)},
    });
    if let Some(index) = index {
        result["ruleIndex"] = index.into();
    }
    if finding.count() > 1 {
        result["occurrenceCount"] = finding.count().into();
    }
    if !related.is_empty() {
        result["relatedLocations"] = related.into();
    }
    result
}

/// Recomputes columns in SARIF's units, and caches the lines of each file.
struct Columns<'r> {
    report: &'r Report,
    /// `None` for an ASCII file, where all units are the same.
    lines: BTreeMap<&'r str, Option<Lines<'r>>>,
}

impl Columns<'_> {
    fn physical(&mut self, location: &Location) -> Value {
        let (start, end) = self.ends(location);
        json!({
            "artifactLocation": {"uri": uri(&location.file)},
            "region": {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column},
        })
    }

    fn ends(&mut self, location: &Location) -> (Position, Position) {
        let Some((file, source)) = self.report.sources.get_key_value(&location.file) else {
            return (location.start, location.end);
        };
        let lines = self
            .lines
            .entry(file)
            .or_insert_with(|| (!source.is_ascii()).then(|| Lines::new(source.as_bytes())));
        let Some(lines) = lines else { return (location.start, location.end) };
        (lines.position_utf16(location.span.start), lines.position_utf16(location.span.end))
    }
}

/// Returns a path as a URI reference: relative to the root of the repository, or `file:` for an absolute one.
fn uri(path: &str) -> String {
    let path = repository_path(path);
    let drive = path.as_bytes().get(1) == Some(&b':') && cfg!(windows);
    let mut out = match (path.starts_with('/'), drive) {
        (true, _) => "file://".to_owned(),
        (_, true) => "file:///".to_owned(),
        _ => String::new(),
    };
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            b':' if drive => out.push(':'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::pointer::Pointer;

    fn log(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &Options::default(), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn results_point_into_the_list_of_rules() {
        let log = log(&sample::report());
        assert_eq!(
            (&log["version"], &log["runs"][0]["columnKind"]),
            (&json!("2.1.0"), &json!("utf16CodeUnits"))
        );
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        for rule in rules {
            for text in [
                &rule["shortDescription"]["text"],
                &rule["fullDescription"]["text"],
                &rule["help"]["text"],
                &rule["help"]["markdown"],
            ] {
                assert!(text.as_str().is_some_and(|text| !text.is_empty()), "{rule}");
            }
            assert!(
                ["error", "warning", "note"]
                    .contains(&rule["defaultConfiguration"]["level"].as_str().unwrap())
            );
        }
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), 5);
        for result in results {
            if let Some(index) = result["ruleIndex"].as_u64() {
                assert_eq!(rules[usize::try_from(index).unwrap()]["id"], result["ruleId"]);
            }
        }
        assert_eq!(results[0]["ruleId"], "deadline");
        let deadline = rules.iter().find(|rule| rule["id"] == "deadline").unwrap();
        assert_eq!(
            (&deadline["name"], &deadline["shortDescription"]["text"]),
            (&json!("NoDeadline"), &json!("No deadline"))
        );
        let full = deadline["fullDescription"]["text"].as_str().unwrap();
        assert!(
            full.starts_with(
                "Every run has a deadline: `activeDeadlineSeconds` is set and above zero. A Job without"
            ),
            "{full}"
        );
        assert!(results[0]["ruleIndex"].as_u64().is_some());
    }

    #[test]
    fn a_clash_has_both_places() {
        let log = log(&sample::report());
        let mut clash = log["runs"][0]["results"][2].clone();
        let clash = clash.as_object_mut().unwrap();
        let fingerprints = clash.remove("partialFingerprints").unwrap();
        assert_eq!(fingerprints[FINGERPRINT].as_str().unwrap().len(), 64);
        clash.remove("ruleIndex");
        let region = |line, start, end| json!({"startLine": line, "startColumn": start, "endLine": line, "endColumn": end});
        let place = |uri, region: Value| json!({"artifactLocation": {"uri": uri}, "region": region});
        assert_eq!(
            json!(clash),
            json!({
                "ruleId": "checkpoint-volume-access",
                "level": "error",
                "message": {"text": "4 pods mount the claim `checkpoints`, which one node can mount\n\
                    Help: make the claim `ReadWriteMany`, or keep the pods on one node\n\
                    See [so up to 4 pods run at once](1)\n\
                    See [PersistentVolumeClaim team-a/checkpoints: one node](2)"},
                "locations": [{
                    "physicalLocation": place("jobs/train.yaml", region(17, 22, 33)),
                    "logicalLocations": [{"name": "train", "fullyQualifiedName": "Job team-a/train", "kind": "object"}],
                }],
                "relatedLocations": [
                    {"id": 1, "physicalLocation": place("jobs/train.yaml", region(7, 3, 14)), "message": {"text": "so up to 4 pods run at once"}},
                    {"id": 2, "physicalLocation": place("volumes/claims.yaml", region(6, 17, 30)),
                     "message": {"text": "PersistentVolumeClaim team-a/checkpoints: one node"}},
                ],
            })
        );
    }

    #[test]
    fn columns_are_utf16() {
        let mut report = Report::default().with("a.yaml", "🚀: [🚀, x]\n");
        report.found("a.yaml", "x", sample::finding("deadline", Level::Deny, Pointer::root(), "m", ""));
        assert_eq!(report.findings[0].location.start.column, 8);
        let region = &log(&report)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
        assert_eq!(*region, json!({"startLine": 1, "startColumn": 10, "endLine": 1, "endColumn": 11}));
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("./a b/ü#1.yaml"), "a%20b/%C3%BC%231.yaml");
        // A drive on Windows, a name elsewhere.
        let drive = if cfg!(windows) { "file:///c:d/" } else { "c%3Ad/" };
        assert_eq!(uri("c:d/%41.yaml"), format!("{drive}%2541.yaml"));
        assert_eq!(uri("/srv/a.yaml"), "file:///srv/a.yaml");
        assert_eq!(uri("../a.yaml"), "../a.yaml");
        assert_eq!(uri("-"), "-");
    }
}
