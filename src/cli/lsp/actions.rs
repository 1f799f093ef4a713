//! Fixes as code actions.

use gen_lsp_types::{Diagnostic, Range};
use serde::Deserialize;
use serde_json::{Value, json};

use super::FIX_ALL;
use super::judging::JudgedDocument;
use super::text::edits;
use super::worker::Worker;
use crate::judge::finding::Safety;
use crate::local::lint::Fixes;
use crate::report::Located;
use crate::text::lines::cut;
use crate::text::yaml::Edit;

/// The kind of the action that fixes one finding.
const QUICK_FIX: &str = "quickfix";
/// Maximum bytes of a title: a line of a menu.
const MAX_TITLE: usize = 120;
/// Maximum fixes per request: a menu.
const MAX_FIXES: usize = 50;

/// The parameters of a request.
#[derive(Debug, Deserialize)]
pub(super) struct ActionRequest {
    range: Range,
    context: ActionContext,
}

#[derive(Debug, Deserialize)]
struct ActionContext {
    /// Kinds; without them, all.
    only: Option<Vec<String>>,
}

impl ActionRequest {
    /// Tells whether actions of a kind are requested, by its name or that of a parent.
    fn has(&self, kind: &str) -> bool {
        let is_in = |wanted: &String| {
            wanted.is_empty()
                || kind.strip_prefix(&**wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.context.only.as_ref().is_none_or(|only| only.iter().any(is_in))
    }
}

/// Returns the fixes of the findings in a range, and that of the whole file.
pub(super) fn actions(
    worker: &Worker,
    uri: &str,
    judged: &JudgedDocument,
    wanted: &ActionRequest,
) -> Vec<Value> {
    let Some(project) = &judged.project else { return Vec::new() };
    let mut out = Vec::new();
    let fixable = judged
        .findings
        .iter()
        .zip(&judged.diagnostics)
        .filter(|(located, _)| located.finding.fix.is_some() && located.withheld.is_none());
    if wanted.has(QUICK_FIX) {
        let here = fixable.clone().filter(|(_, diagnostic)| {
            diagnostic.range.start <= wanted.range.end && wanted.range.start <= diagnostic.range.end
        });
        let mut fixes = None;
        for (located, diagnostic) in here.take(MAX_FIXES) {
            let fixes = fixes.get_or_insert_with(|| Fixes::new(&judged.document.text, &project.options()));
            let edits = fixes.edits(located);
            if !edits.is_empty() {
                out.push(quick_fix(located, diagnostic, edit(worker, uri, judged, &edits)));
            }
        }
    }
    let has_safe = |(located, _): (&Located, &Diagnostic)| {
        located.finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe)
    };
    if wanted.has(FIX_ALL) && fixable.clone().any(has_safe) {
        let (policy, options) = (&project.settings.policy, project.options());
        let input = judged.document.input();
        let edits = judged
            .fixed
            .get_or_init(|| worker.session.fix_all(&input, policy, &project.facts, &options, Safety::Safe));
        if !edits.is_empty() {
            out.push(json!({
                "title": "Apply all safe fixes of Jobgate",
                "kind": FIX_ALL,
                "edit": edit(worker, uri, judged, edits),
            }));
        }
    }
    out
}

fn quick_fix(located: &Located, diagnostic: &Diagnostic, edit: Value) -> Value {
    let finding = &located.finding;
    let is_safe = finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
    let safety = if is_safe { "" } else { " (unsafe)" };
    let what = if finding.help.is_empty() { &finding.message } else { &finding.help };
    let title = format!("Fix {}{safety}: {what}", finding.rule);
    json!({
        "title": cut(&title, MAX_TITLE, "…"),
        "kind": QUICK_FIX,
        "diagnostics": [diagnostic],
        // An editor may apply preferred actions without asking.
        "isPreferred": is_safe,
        "edit": edit,
    })
}

fn edit(worker: &Worker, uri: &str, judged: &JudgedDocument, made: &[Edit]) -> Value {
    let document = &judged.document;
    let edits = edits(&document.text, made, worker.client.encoding);
    if worker.client.has_versioned_edits {
        let identifier = json!({"uri": uri, "version": document.version});
        return json!({"documentChanges": [{"textDocument": identifier, "edits": edits}]});
    }
    json!({"changes": {uri: edits}})
}
