//! The JSON document, described in `docs/json.md`. Its shape is a promise: fields may be added, none changes its meaning within a version.

use std::io;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{Answered, Located, ObjectId, Position, Related, Report, impact};
use crate::finding::{Level, Safety};
use crate::patch;

/// The version of the document.
const VERSION: u32 = 1;

/// How many findings are made into text before they are written: enough for all threads, and little to hold in memory.
const WINDOW: usize = 4096;

#[derive(Serialize)]
struct Summary {
    files: usize,
    documents: usize,
    objects: usize,
    deny: usize,
    warn: usize,
    note: usize,
    lifted: usize,
    known: usize,
    gone: usize,
    fixed: usize,
    changed: usize,
    withheld: usize,
}

#[derive(Serialize)]
struct Item<'r> {
    rule: &'static str,
    action: Level,
    fills: bool,
    message: &'r str,
    help: &'r str,
    file: Option<&'r str>,
    document: usize,
    object: Option<&'r RawValue>,
    pointer: String,
    path: String,
    start: Option<Position>,
    end: Option<Position>,
    related: Vec<Other<'r>>,
    fix: Option<Safety>,
    withheld: Option<&'r str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict<'r> {
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

impl<'r> From<&'r Answered> for Verdict<'r> {
    fn from(answered: &'r Answered) -> Self {
        let answer = &answered.answer;
        Self {
            verdict: answer.outcome.as_str(),
            allowed: answer.outcome.is_allowed(),
            operation: answer.operation.as_str(),
            file: &answered.location.file,
            document: answered.document,
            source: answered.source.as_deref(),
            object: &answered.object,
            start: answered.location.start,
            patch: patch::document(&answer.patch),
        }
    }
}

#[derive(Serialize)]
struct Other<'r> {
    message: &'r str,
    object: Option<&'r str>,
    file: Option<&'r str>,
    start: Option<Position>,
    end: Option<Position>,
}

impl<'r> Item<'r> {
    fn of(report: &'r Report, located: &'r Located, object: Option<&'r RawValue>) -> Self {
        let finding = &located.finding;
        Self {
            rule: finding.rule,
            action: finding.level,
            fills: finding.fills,
            message: &finding.message,
            help: &finding.help,
            file: report.file(&located.location),
            document: located.document,
            object,
            pointer: finding.pointer.to_json_pointer(),
            path: finding.path.to_string(),
            start: report.file(&located.location).map(|_| located.location.start),
            end: report.file(&located.location).map(|_| located.location.end),
            related: located.related.iter().map(|related| Other::of(report, related)).collect(),
            fix: finding.fix.as_ref().map(|fix| fix.safety),
            withheld: located.withheld.as_deref(),
        }
    }
}

impl<'r> Other<'r> {
    fn of(report: &Report, related: &'r Related) -> Self {
        let location = related.location.as_ref().filter(|_| report.impact.is_none());
        Self {
            message: &related.text,
            object: related.object.as_deref(),
            file: location.map(|location| &*location.file),
            start: location.map(|location| location.start),
            end: location.map(|location| location.end),
        }
    }
}

/// Writes the document, one finding a line, without ever holding it whole.
pub(super) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let summary = Summary {
        files: report.files,
        documents: report.documents,
        objects: report.objects,
        deny: report.count(Level::Deny),
        warn: report.count(Level::Warn),
        note: report.count(Level::Note),
        lifted: report.lifted,
        known: report.known,
        gone: report.gone,
        fixed: report.fixed,
        changed: report.changed,
        withheld: report.withheld,
    };
    write!(out, "{{\"version\":{VERSION},\"summary\":")?;
    serde_json::to_writer(&mut *out, &summary)?;
    if let Some(impact) = &report.impact {
        out.write_all(b",\"impact\":")?;
        serde_json::to_writer(&mut *out, &impact::Document::of(report, impact))?;
    }
    if !report.answers.is_empty() {
        out.write_all(b",\"verdicts\":[")?;
        for (nth, answered) in report.answers.iter().enumerate() {
            out.write_all(if nth == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &Verdict::from(answered))?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b",\"findings\":[")?;
    let mut lead: &[u8] = b"\n";
    // Tens of thousands of findings take about as long to write as to read back, and one thread would write while the others rest.
    for window in report.findings.chunks(WINDOW) {
        let parts: Vec<serde_json::Result<Vec<u8>>> = window.par_chunks(WINDOW / 16).map(|part| items(report, part)).collect();
        for part in parts {
            out.write_all(lead)?;
            out.write_all(&part?)?;
            lead = b",\n";
        }
    }
    out.write_all(b"]}\n")
}

/// Returns findings as items of a list, one a line.
fn items(report: &Report, findings: &[Located]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(findings.len() * 512);
    // The findings of an object follow one another, and share what it is called.
    for (nth, of_one) in findings.chunk_by(|a, b| is_same(a.object.as_ref(), b.object.as_ref())).enumerate() {
        let object = of_one.first().and_then(|first| first.object.as_deref()).map(to_raw_value).transpose()?;
        for (within, located) in of_one.iter().enumerate() {
            if nth + within > 0 {
                out.extend_from_slice(b",\n");
            }
            serde_json::to_writer(&mut out, &Item::of(report, located, object.as_deref()))?;
        }
    }
    Ok(out)
}

/// Tells whether two findings share the name of one object.
fn is_same(a: Option<&Arc<ObjectId>>, b: Option<&Arc<ObjectId>>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::value::{Value, json};

    fn document(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_empty_report_is_a_whole_document() {
        let summary = json!({"files": 0, "documents": 0, "objects": 0, "deny": 0, "warn": 0, "note": 0, "lifted": 0, "known": 0, "gone": 0, "fixed": 0, "changed": 0, "withheld": 0});
        assert_eq!(document(&Report::default()), json!({"version": 1, "summary": summary, "findings": []}));
    }

    #[test]
    fn a_finding_has_the_fields_that_are_promised() {
        let document = document(&sample::report());
        assert_eq!(
            document["summary"],
            json!({"files": 2, "documents": 3, "objects": 1, "deny": 2, "warn": 1, "note": 2, "lifted": 0, "known": 0, "gone": 0, "fixed": 0, "changed": 0, "withheld": 0})
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
