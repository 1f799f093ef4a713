//! The JSON document, described in `docs/json.md`. Its shape is a promise: fields may be added, none changes its meaning within a version.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::{Answered, Located, ObjectId, Related, Report, Unjudged, impact};
use crate::judge::finding::{Level, Safety};
use crate::text::lines::Position;
use crate::text::patch;

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
    #[serde(rename = "knownUnjudged")]
    known_unjudged: usize,
    gone: usize,
    fixed: usize,
    changed: usize,
    withheld: usize,
    unjudged: usize,
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

impl<'r> From<&'r Unjudged> for NotJudged<'r> {
    fn from(unjudged: &'r Unjudged) -> Self {
        let location = unjudged.location.as_ref();
        Self {
            file: location.map(|location| &*location.file),
            document: unjudged.document,
            object: unjudged.object.as_deref(),
            start: location.map(|location| location.start),
            reason: unjudged.reason.word(),
            message: unjudged.message(),
            help: unjudged.help(),
        }
    }
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
        known_unjudged: report.known_unjudged,
        gone: report.gone,
        fixed: report.fixed,
        changed: report.changed,
        withheld: report.withheld,
        unjudged: report.unjudged.len(),
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
    if !report.unjudged.is_empty() {
        out.write_all(b",\"unjudged\":[")?;
        for (nth, unjudged) in report.unjudged.iter().enumerate() {
            out.write_all(if nth == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &NotJudged::from(unjudged))?;
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
    let mut out = Items(Vec::with_capacity(findings.len() * 640));
    // The findings of an object follow one another, and share what it is called.
    for (nth, of_one) in findings.chunk_by(|a, b| is_same(a.object.as_ref(), b.object.as_ref())).enumerate() {
        let object = of_one.first().and_then(|first| first.object.as_deref());
        let object = serde_json::to_string(&object)?;
        for (within, located) in of_one.iter().enumerate() {
            if nth + within > 0 {
                out.raw(",\n");
            }
            out.finding(report, located, &object)?;
        }
    }
    Ok(out.0)
}

/// Items of the list of findings, as far as they are written.
///
/// By hand: there are tens of thousands of some six hundred bytes, of which keys and words are most. That takes a third of the time that serde does.
struct Items(Vec<u8>);

impl Items {
    fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, text: &str) -> serde_json::Result<()> {
        // Nearly all texts stand as they are.
        if text.bytes().fold(false, |odd, byte| odd | (byte < b' ') | (byte == b'"') | (byte == b'\\')) {
            return serde_json::to_writer(&mut self.0, text);
        }
        self.raw("\"");
        self.raw(text);
        self.raw("\"");
        Ok(())
    }

    fn text_or_null(&mut self, text: Option<&str>) -> serde_json::Result<()> {
        match text {
            Some(text) => self.text(text)?,
            None => self.raw("null"),
        }
        Ok(())
    }

    fn number(&mut self, number: usize) -> serde_json::Result<()> {
        serde_json::to_writer(&mut self.0, &number)
    }

    fn position(&mut self, position: Option<Position>) -> serde_json::Result<()> {
        match position {
            Some(Position { line, column }) => {
                self.raw(r#"{"line":"#);
                self.number(line)?;
                self.raw(r#","column":"#);
                self.number(column)?;
                self.raw("}");
            }
            None => self.raw("null"),
        }
        Ok(())
    }

    /// Writes a finding; `object` is the name of what it is about, as JSON.
    fn finding(&mut self, report: &Report, located: &Located, object: &str) -> serde_json::Result<()> {
        let finding = &located.finding;
        let file = report.file(&located.location);
        self.raw(r#"{"rule":""#);
        self.raw(finding.rule);
        self.raw(r#"","action":""#);
        self.raw(finding.level.as_str());
        self.raw(if finding.fills { r#"","fills":true,"message":"# } else { r#"","fills":false,"message":"# });
        self.text(&finding.message)?;
        self.raw(r#","help":"#);
        self.text(&finding.help)?;
        self.raw(r#","file":"#);
        self.text_or_null(file)?;
        self.raw(r#","document":"#);
        self.number(located.document)?;
        self.raw(r#","object":"#);
        self.raw(object);
        self.raw(r#","pointer":"#);
        self.text(&finding.pointer.to_json_pointer())?;
        self.raw(r#","path":"#);
        self.text(&finding.path.to_path())?;
        self.raw(r#","start":"#);
        self.position(file.map(|_| located.location.start))?;
        self.raw(r#","end":"#);
        self.position(file.map(|_| located.location.end))?;
        self.raw(r#","related":["#);
        for (nth, related) in located.related.iter().enumerate() {
            if nth > 0 {
                self.raw(",");
            }
            serde_json::to_writer(&mut self.0, &Other::of(report, related))?;
        }
        self.raw(r#"],"fix":"#);
        self.raw(match finding.fix.as_ref().map(|fix| fix.safety) {
            Some(Safety::Safe) => r#""safe""#,
            Some(Safety::Unsafe) => r#""unsafe""#,
            None => "null",
        });
        self.raw(r#","withheld":"#);
        self.text_or_null(located.withheld.as_deref())?;
        self.raw("}");
        Ok(())
    }
}

/// Tells whether two findings share the name of one object.
fn is_same(a: Option<&Arc<ObjectId>>, b: Option<&Arc<ObjectId>>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::text::value::{Value, json};

    fn document(report: &Report) -> Value {
        let mut out = Vec::new();
        write(report, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_empty_report_is_a_whole_document() {
        let summary = json!({"files": 0, "documents": 0, "objects": 0, "deny": 0, "warn": 0, "note": 0, "lifted": 0, "known": 0, "knownUnjudged": 0, "gone": 0, "fixed": 0, "changed": 0, "withheld": 0, "unjudged": 0});
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
                assert!(["message", "help", "file", "withheld"].iter().all(|key| finding[key] == odd), "{finding}");
                assert_eq!(finding["path"], located.finding.path.to_path().as_str());
                assert_eq!(finding["pointer"], located.finding.pointer.to_json_pointer().as_str());
            }
        }
    }

    #[test]
    fn a_finding_has_the_fields_that_are_promised() {
        let document = document(&sample::report());
        assert_eq!(
            document["summary"],
            json!({"files": 2, "documents": 3, "objects": 1, "deny": 2, "warn": 1, "note": 2, "lifted": 0, "known": 0, "knownUnjudged": 0, "gone": 0, "fixed": 0, "changed": 0, "withheld": 0, "unjudged": 0})
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
