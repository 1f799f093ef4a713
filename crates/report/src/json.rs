//! The JSON document of `docs/json.md`. It is stable: fields may be added, none changes its meaning.

use std::borrow::Cow;
use std::io;

use rayon::prelude::*;
use serde::Serialize;
use serde::ser::{Error as _, SerializeSeq as _, Serializer};
use serde_json::ser::Formatter;
use serde_json::value::to_raw_value;

use crate::answer::Answered;
use crate::holdings::Holdings;
use crate::located::{Located, Location, Related};
use crate::object::ObjectId;
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use crate::{impact, statistics};
use jobgate_core::judge::finding::{Level, Safety};
use jobgate_core::text::lines::Position;
use jobgate_core::text::patch;

/// The version of the document.
const VERSION: u32 = 1;

/// Number of findings to format before they are written: enough for all threads, and little memory.
const WINDOW: usize = 4096;

/// The document. Its lists are serialized directly from the report: it is never in memory as a whole.
#[derive(Serialize)]
struct JsonDocument<'r> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<&'r str>,
    #[serde(serialize_with = "summary")]
    summary: &'r Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<impact::ImpactDocument<'r>>,
    #[serde(skip_serializing_if = "Holdings::is_empty")]
    accelerators: &'r Holdings,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "verdicts")]
    verdicts: &'r [Answered],
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "unjudged")]
    unjudged: &'r [Unjudged],
    #[serde(serialize_with = "findings")]
    findings: &'r Report,
}

#[derive(Serialize)]
struct NotJudged<'r> {
    file: Option<&'r str>,
    document: Option<usize>,
    object: Option<&'r ObjectId>,
    start: Option<Position>,
    reason: &'static str,
    message: Cow<'static, str>,
    help: Cow<'static, str>,
}

#[derive(Serialize)]
struct JsonVerdict<'r> {
    verdict: &'static str,
    allowed: bool,
    operation: &'static str,
    file: &'r str,
    document: usize,
    source: Option<&'r str>,
    object: &'r ObjectId,
    start: Position,
    patch: json_patch::Patch,
}

#[derive(Serialize)]
struct JsonItem<'r> {
    rule: &'r str,
    action: Level,
    fills: bool,
    message: &'r str,
    help: &'r str,
    file: Option<&'r str>,
    document: usize,
    object: Option<&'r ObjectId>,
    pointer: String,
    path: String,
    start: Option<Position>,
    end: Option<Position>,
    related: Vec<Other<'r>>,
    fix: Option<Safety>,
    withheld: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incident: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<JsonCost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<JsonItems>,
}

/// What a finding costs.
#[derive(Serialize)]
struct JsonCost {
    hours: Option<f64>,
    unit: &'static str,
}

/// The items of a list that a finding is about, if they are many.
#[derive(Serialize)]
struct JsonItems {
    count: usize,
    last: Last,
}

#[derive(Serialize)]
struct Last {
    pointer: String,
    path: String,
}

#[derive(Serialize)]
struct Other<'r> {
    message: &'r str,
    object: Option<&'r str>,
    file: Option<&'r str>,
    start: Option<Position>,
    end: Option<Position>,
}

fn summary<S: Serializer>(report: &Report, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([
        ("files", report.files),
        ("documents", report.documents),
        ("objects", report.objects),
        ("deny", report.count(Level::Deny)),
        ("warn", report.count(Level::Warn)),
        ("note", report.count(Level::Note)),
        ("suppressed", report.suppressed),
        ("ignored", report.ignored),
        ("lowered", report.lowered),
        ("baselined", report.baselined),
        ("baselinedUnjudged", report.baselined_unjudged),
        ("excluded", report.excluded),
        ("resolved", report.resolved),
        ("fixed", report.fixed),
        ("changed", report.changed),
        ("withheld", report.withheld),
        ("unjudged", report.unjudged.len()),
        ("charts", report.charts),
        ("kustomizations", report.kustomizations),
    ])
}

fn verdicts<S: Serializer>(answers: &[Answered], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(answers.iter().map(
        |Answered { location, document, source, object, answer, .. }| JsonVerdict {
            verdict: answer.outcome.as_str(),
            allowed: answer.outcome.is_allowed(),
            operation: answer.operation.as_str(),
            file: &location.file,
            document: *document,
            source: source.as_deref(),
            object,
            start: location.start,
            patch: patch::document(&answer.patch),
        },
    ))
}

fn unjudged<S: Serializer>(unjudged: &[Unjudged], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(unjudged.iter().map(|unjudged| NotJudged {
        file: unjudged.location.as_ref().map(|location| &*location.file),
        document: unjudged.document,
        object: unjudged.object.as_deref(),
        start: unjudged.location.as_ref().map(|location| location.start),
        reason: unjudged.reason.word(),
        message: unjudged.message(),
        help: unjudged.help(),
    }))
}

/// Formatting findings takes about as long as writing them, so all threads format and one writes.
fn findings<S: Serializer>(report: &Report, serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(report.findings.len()))?;
    for window in report.findings.chunks(WINDOW) {
        let items: Vec<_> =
            window.par_iter().map(|located| to_raw_value(&JsonItem::new(report, located))).collect();
        for item in items {
            list.serialize_element(&item.map_err(S::Error::custom)?)?;
        }
    }
    list.end()
}

impl<'r> JsonItem<'r> {
    fn new(report: &Report, located: &'r Located) -> Self {
        let Located { location, document, object, finding, related, withheld, .. } = located;
        let (file, start, end) = in_file(report, location);
        let other = |other: &'r Related| {
            let (file, start, end) =
                other.location.as_ref().map_or((None, None, None), |location| in_file(report, location));
            Other { message: &other.text, object: other.object.as_deref(), file, start, end }
        };
        Self {
            rule: &finding.rule,
            action: finding.level,
            fills: finding.fills,
            message: &finding.message,
            help: &finding.help,
            file,
            document: *document,
            object: object.as_deref(),
            pointer: finding.pointer.to_json_pointer(),
            path: finding.path.to_path(),
            start,
            end,
            related: related.iter().map(other).collect(),
            fix: finding.fix.as_ref().map(|fix| fix.safety),
            withheld: withheld.as_deref(),
            incident: finding.incident.as_ref().map(ToString::to_string),
            cost: finding.loss.map(|loss| JsonCost { hours: loss.hours(), unit: loss.unit() }),
            items: finding.items.as_ref().and_then(|items| {
                let (path, at) = items.last.as_ref()?;
                let last = Last { pointer: at.to_json_pointer(), path: path.to_path() };
                Some(JsonItems { count: items.count, last })
            }),
        }
    }
}

/// Returns the file of a location, its start and its end, where there is a file.
fn in_file<'r>(
    report: &Report,
    location: &'r Location,
) -> (Option<&'r str>, Option<Position>, Option<Position>) {
    let file = report.file(location);
    (file, file.map(|_| location.start), file.map(|_| location.end))
}

/// Breaks the line before each item of the document's own lists.
#[derive(Default)]
struct LineBreakFormatter {
    depth: usize,
}

impl Formatter for LineBreakFormatter {
    fn begin_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"}")
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"]")
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let is_own = self.depth == 2;
        out.write_all(match (first, is_own) {
            (true, true) => b"\n",
            (true, false) => b"",
            (false, true) => b",\n",
            (false, false) => b",",
        })
    }
}

/// Writes the document, one finding per line.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    if options.statistics {
        return write_statistics(report, out);
    }
    let document = JsonDocument {
        version: VERSION,
        configuration: report.configuration.as_deref(),
        summary: report,
        impact: report.impact.as_ref().map(|impact| impact::ImpactDocument::new(report, impact)),
        accelerators: &report.holdings,
        verdicts: &report.answers,
        unjudged: &report.unjudged,
        findings: report,
    };
    document
        .serialize(&mut serde_json::Serializer::with_formatter(&mut *out, LineBreakFormatter::default()))?;
    out.write_all(b"\n")
}

/// The document of `--statistics`.
#[derive(Serialize)]
struct Statistics<'r> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<&'r str>,
    #[serde(serialize_with = "summary")]
    summary: &'r Report,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "unjudged")]
    unjudged: &'r [Unjudged],
    statistics: Vec<statistics::StatisticsRow<'r>>,
}

/// Writes the document of `--statistics`.
fn write_statistics(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let document = Statistics {
        version: VERSION,
        configuration: report.configuration.as_deref(),
        summary: report,
        unjudged: &report.unjudged,
        statistics: statistics::rows(report),
    };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::value::{Value, json};

    fn document(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &Options::default(), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_empty_report_is_a_whole_document() {
        let summary = json!({"files": 0, "documents": 0, "objects": 0, "deny": 0, "warn": 0, "note": 0, "suppressed": 0, "ignored": 0, "lowered": 0, "baselined": 0, "baselinedUnjudged": 0, "excluded": 0, "resolved": 0, "fixed": 0, "changed": 0, "withheld": 0, "unjudged": 0, "charts": 0, "kustomizations": 0});
        assert_eq!(document(&Report::default()), json!({"version": 1, "summary": summary, "findings": []}));
    }

    #[test]
    fn texts_come_back_as_they_were() {
        for odd in ["", "\"", "\\", "a\nb", "\u{1}", "\u{7f}", "é \u{2028}", "plain", "/", "</script>"] {
            let mut report = sample::report();
            for located in &mut report.findings {
                located.location.file = odd.into();
                located.withheld = Some(odd.into());
                let finding = &mut located.finding;
                (finding.message, finding.help) = (odd.to_owned().into(), odd.to_owned().into());
                finding.path = finding.path.key(odd);
                finding.pointer = finding.pointer.key(odd);
            }
            let document = document(&report);
            for (finding, located) in document["findings"].as_array().unwrap().iter().zip(&report.findings) {
                assert!(
                    ["message", "help", "file", "withheld"].iter().all(|key| finding[key] == odd),
                    "{finding}"
                );
                assert_eq!(finding["path"], located.finding.path.to_path().as_str());
                assert_eq!(finding["pointer"], located.finding.pointer.to_json_pointer().as_str());
            }
        }
    }

    #[test]
    fn every_list_of_the_document_has_one_item_a_line() {
        let mut report = sample::report();
        report.findings.truncate(2);
        report.unjudged =
            vec![Unjudged::unknown("claims".to_owned()), Unjudged::not_listed("jobs".to_owned())];
        report.impact = Some(super::super::Impact {
            server: "https://a".to_owned(),
            notices: vec!["one".to_owned(), "two".to_owned()],
            ..Default::default()
        });
        let mut out = Vec::new();
        write(&report, &Options::default(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r##"
        {"version":1,"summary":{"files":2,"documents":3,"objects":1,"deny":1,"warn":0,"note":1,"suppressed":0,"ignored":0,"lowered":0,"baselined":0,"baselinedUnjudged":0,"excluded":0,"resolved":0,"fixed":0,"changed":0,"withheld":0,"unjudged":2,"charts":0,"kustomizations":0},"impact":{"server":"https://a","policy":"","total":{"objects":0,"denied":0,"patched":0,"warned":0,"unchanged":0},"rules":[{"rule":"deadline","denied":1,"patched":0,"warned":0},{"rule":"ttl-after-finished","denied":0,"patched":1,"warned":0}],"namespaces":[],"filled":[],"leftOut":{"finished":0,"children":0,"deleting":0,"system":0},"problems":[],"notices":["one","two"],"holding":[],"terminating":[],"refused":[],"unserved":[]},"unjudged":[
        {"file":null,"document":null,"object":null,"start":null,"reason":"not-looked-up","message":"claims","help":""},
        {"file":null,"document":null,"object":null,"start":null,"reason":"not-listed","message":"jobs","help":""}],"findings":[
        {"rule":"deadline","action":"deny","fills":false,"message":"the Job has no deadline","help":"add `spec.activeDeadlineSeconds` with the longest time a run may take","file":null,"document":0,"object":{"apiVersion":"batch/v1","kind":"Job","namespace":"team-a","name":"train"},"pointer":"/spec","path":"spec.activeDeadlineSeconds","start":null,"end":null,"related":[],"fix":"unsafe","withheld":null},
        {"rule":"ttl-after-finished","action":"note","fills":true,"message":"a finished Job is never deleted","help":"the webhook adds `ttlSecondsAfterFinished: 86400`","file":null,"document":0,"object":{"apiVersion":"batch/v1","kind":"Job","namespace":"team-a","name":"train"},"pointer":"/spec","path":"spec.ttlSecondsAfterFinished","start":null,"end":null,"related":[],"fix":null,"withheld":null}]}
        "##);
    }

    #[test]
    fn a_finding_has_the_fields_that_are_promised() {
        let document = document(&sample::report());
        assert_eq!(
            document["summary"],
            json!({"files": 2, "documents": 3, "objects": 1, "deny": 2, "warn": 1, "note": 2, "suppressed": 0, "ignored": 0, "lowered": 0, "baselined": 0, "baselinedUnjudged": 0, "excluded": 0, "resolved": 0, "fixed": 0, "changed": 0, "withheld": 0, "unjudged": 0, "charts": 0, "kustomizations": 0})
        );
        let findings = document["findings"].as_array().unwrap();
        let clash = findings.iter().find(|finding| finding["rule"] == "checkpoint-volume-access").unwrap();
        assert_eq!(
            *clash,
            json!({
                "rule": "checkpoint-volume-access", "action": "deny", "fills": false,
                "message": "4 pods mount the claim `checkpoints`, which one node can mount",
                "help": "make the claim `ReadWriteMany`, or keep the pods on one node",
                "file": "./jobs/train.yaml", "document": 0,
                "object": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-a", "name": "train"},
                "pointer": "/spec/template/spec/volumes/0/persistentVolumeClaim/claimName",
                "path": "spec.template.spec.volumes[0].persistentVolumeClaim.claimName",
                "start": {"line": 17, "column": 22}, "end": {"line": 17, "column": 33},
                "related": [
                    {"message": "so up to 4 pods run at once", "object": null, "file": "./jobs/train.yaml",
                     "start": {"line": 7, "column": 3}, "end": {"line": 7, "column": 14}},
                    {"message": "one node", "object": "PersistentVolumeClaim team-a/checkpoints", "file": "./volumes/claims.yaml",
                     "start": {"line": 6, "column": 17}, "end": {"line": 6, "column": 30}},
                ],
                "fix": null, "withheld": null,
            })
        );
        let missing = findings.iter().find(|finding| finding["rule"] == "deadline").unwrap();
        assert_eq!(
            (&missing["pointer"], &missing["path"], &missing["fix"]),
            (&json!("/spec"), &json!("spec.activeDeadlineSeconds"), &json!("unsafe"))
        );
    }
}
