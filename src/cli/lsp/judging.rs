//! Judges a document: at once where it is short, else in a thread of its own, so that no answer waits for it.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use gen_lsp_types::Diagnostic;

use super::diagnostics::{DiagnosticContext, failed, without_settings};
use super::document::{DocumentType, LspDocument, OpenDocuments};
use super::project::{FileSetting, Project};
use super::text::Encoding;
use super::worker::WorkerTask;
use crate::local::lint::{Defined, Known, Options, path_text};
use crate::report::Located;
use crate::text::meter::{self, Bounds};
use crate::text::yaml::Edit;

/// Texts with more bytes are judged elsewhere: a byte takes a microsecond at most, and an unreadable text is read about
/// ten times.
const LONG: usize = 64 << 10;
/// Time limit of the answer about a long text, after which there is none.
const PATIENCE: Duration = Duration::from_millis(400);

/// Tells whether a document is judged elsewhere.
pub(super) fn is_long(document: &LspDocument) -> bool {
    document.text.len() > LONG
}

/// A document that was judged.
pub(super) struct JudgedDocument {
    pub(super) document: LspDocument,
    pub(super) findings: Vec<Located>,
    /// One for each finding, and others.
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) project: Option<Arc<Project>>,
    /// The edits of all safe fixes: an editor asks for them whenever the cursor moves.
    pub(super) fixed: OnceCell<Vec<Edit>>,
}

/// Everything needed to judge a document.
pub(super) struct JudgingJob {
    pub(super) uri: String,
    pub(super) document: LspDocument,
    pub(super) documents: OpenDocuments,
    pub(super) encoding: Encoding,
    pub(super) setting: FileSetting,
    pub(super) known: Known,
}

impl JudgingJob {
    /// Judges the document.
    pub(super) fn judge(self) -> JudgedDocument {
        let Self { uri, document, documents, encoding, setting, known } = self;
        let judge = || {
            let place = DiagnosticContext { uri: &uri, document: &document, documents: &documents, encoding };
            if document.form() != DocumentType::Manifest {
                return (Vec::new(), place.settings());
            }
            let Some(project) = &setting.project else { return (Vec::new(), Vec::new()) };
            if project.settings.exclusions.has(&document.path, false) {
                return (Vec::new(), Vec::new());
            }
            let policy = &project.settings.policy;
            let mut linted = known.lint(&document.input(), policy, &project.facts, &project.options());
            if let Some((baseline, root)) = &project.baseline {
                baseline.apply(&mut linted.report, [&*path_text(&document.path)], root);
            }
            let diagnostics = place.diagnostics(&linted.report.findings, &linted.report.unjudged);
            (linted.report.findings, diagnostics)
        };
        // An error in one rule costs one document, as in the webhook.
        let judged = catch_unwind(AssertUnwindSafe(judge));
        let (findings, mut diagnostics) = judged.unwrap_or_else(|_| (Vec::new(), vec![failed()]));
        let error = setting.error.filter(|_| document.form() == DocumentType::Manifest);
        diagnostics.extend(error.map(|error| without_settings(&error, setting.project.is_some())));
        JudgedDocument { document, findings, diagnostics, project: setting.project, fixed: OnceCell::new() }
    }

    /// Judges the document in a thread of its own. The result is sent as a task. Returns whether the thread was
    /// started.
    pub(super) fn start(self, sender: Sender<WorkerTask>) -> bool {
        elsewhere(move || {
            let uri = self.uri.clone();
            let judged = Box::new(self.judge());
            // The worker may be gone.
            let _ = sender.send(WorkerTask::Judged(uri, judged));
        })
    }
}

/// Reads what a document defines for others in a thread of its own. The result is sent as a task. Returns whether the
/// thread was started.
pub(super) fn read(
    uri: String,
    document: LspDocument,
    options: Options<'static>,
    sender: Sender<WorkerTask>,
) -> bool {
    elsewhere(move || {
        let input = document.input();
        let defined = catch_unwind(AssertUnwindSafe(|| Defined::new(&input, &options))).ok();
        let _ = sender.send(WorkerTask::Read(uri, document, defined));
    })
}

fn elsewhere(work: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name("judge".to_owned()).spawn(work).is_ok()
}

/// Does work on this thread, within the time that an editor waits; `None` if it takes longer.
pub(super) fn in_time<T>(work: impl FnOnce() -> T) -> Option<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let (done, is_done) = mpsc::channel::<()>();
    let wait = move || {
        if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            flag.store(true, Ordering::Relaxed);
        }
    };
    // Without a clock there is no answer, since it might delay all others.
    thread::Builder::new().name("clock".to_owned()).spawn(wait).ok()?;
    let result = meter::run(Bounds { steps: None, stop: Some(stop) }, work).ok();
    drop(done);
    result.map(|(result, _)| result)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_that_takes_too_long_is_given_up() {
        let began = Instant::now();
        let endless = || {
            loop {
                meter::spend(1);
            }
        };
        assert_eq!(in_time::<()>(endless), None);
        assert!(began.elapsed() >= PATIENCE);
        assert_eq!(in_time(|| 1), Some(1));
    }
}
