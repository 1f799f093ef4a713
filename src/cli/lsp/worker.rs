//! The thread that judges and answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use gen_lsp_types::{Diagnostic, PublishDiagnosticsParams, TextDocumentPositionParams, Uri};
use lsp_server::{ErrorCode, Notification, Request, Response};
use rayon::ThreadPoolBuilder;
use serde_json::Value;

use super::document::{DocumentType, LspDocument, OpenDocuments, form};
use super::judging::{self, JudgedDocument, JudgingJob, in_time, is_long};
use super::project::Projects;
use super::wire::MessageOutput;
use super::{Client, actions, completion, definition, hover, log, scan, uri};
use crate::cli::args::Lsp;
use crate::cli::configuration;
use crate::local::lint::{Defined, Input, Scan, Session, path_text, text};

/// How long diagnostics of an older text are held back while somebody types.
const MAX_SILENCE: Duration = Duration::from_millis(500);
/// With more changed files than this, the workspace is read again.
const MAX_CHANGED_FILES: usize = 200;
/// Larger files are not settings.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// A message to the worker.
pub(super) enum WorkerTask {
    /// The workspace is to be read.
    Scan,
    /// It was read.
    Scanned(Box<Scan>),
    /// A document is open with another text.
    Changed(String),
    /// A document was closed.
    Closed(String, LspDocument),
    /// Files were written or deleted.
    Saved(Vec<String>),
    /// The workspace has other directories.
    Folders {
        added: Vec<PathBuf>,
        removed: Vec<PathBuf>,
    },
    Request(Request),
    /// The definitions of a long document were read.
    Read(String, LspDocument, Option<Defined>),
    /// A long document was judged.
    Judged(String, Box<JudgedDocument>),
}

pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) documents: OpenDocuments,
    pub(super) session: Session,
    projects: Projects,
    output: MessageOutput,
    sender: Sender<WorkerTask>,
    judged: BTreeMap<String, JudgedDocument>,
    /// Documents that others may depend on and that were not read since they changed.
    changed: BTreeSet<String>,
    /// Documents to judge, the next one first.
    open: VecDeque<String>,
    requests: VecDeque<Request>,
    /// The long document that is being read or judged; no name if it was closed since.
    elsewhere: Option<String>,
    /// Long documents to judge after it, the next one first.
    long: VecDeque<String>,
    /// Long documents whose definitions were not read since they changed.
    unread: BTreeSet<String>,
    reported: BTreeMap<String, Instant>,
    scanning: Scanning,
}

/// Whether the workspace is being read.
enum Scanning {
    No,
    /// With the files that have changed since it began.
    Yes(Vec<PathBuf>),
    /// It has to be read once more.
    Again,
}

impl Worker {
    pub(super) fn new(
        args: &Lsp,
        client: &Client,
        documents: OpenDocuments,
        output: MessageOutput,
        sender: Sender<WorkerTask>,
    ) -> Self {
        Self {
            client: client.clone(),
            documents,
            session: Session::default(),
            projects: Projects::new(args),
            output,
            sender,
            judged: BTreeMap::new(),
            changed: BTreeSet::new(),
            open: VecDeque::new(),
            requests: VecDeque::new(),
            elsewhere: None,
            long: VecDeque::new(),
            unread: BTreeSet::new(),
            reported: BTreeMap::new(),
            scanning: Scanning::No,
        }
    }

    /// Works until the tasks end or the output is closed.
    pub(super) fn run(mut self, tasks: &Receiver<WorkerTask>) {
        // Its own work is short, and can be stopped only on its own thread.
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        if let Err(error) = &pool {
            log(&format!("{error}"));
        }
        while let Ok(task) = tasks.recv() {
            self.guarded(|worker| worker.take(task));
            loop {
                tasks.try_iter().for_each(|task| self.guarded(|worker| worker.take(task)));
                self.guarded(Self::read_changed);
                let done = if let Some(request) = self.requests.pop_front() {
                    self.answer(request)
                } else if let Some(uri) = self.open.pop_front() {
                    self.report(&uri)
                } else {
                    break;
                };
                // Its output is closed.
                if done.is_err() {
                    return;
                }
            }
        }
    }

    /// Does something whose panics must not end the server.
    fn guarded(&mut self, what: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| what(self))).is_err() {
            log("an error in Jobgate");
        }
    }

    fn take(&mut self, task: WorkerTask) {
        match task {
            WorkerTask::Scan => self.scan(),
            WorkerTask::Scanned(scan) => self.scanned(*scan),
            WorkerTask::Changed(uri) => {
                self.open.retain(|other| *other != uri);
                self.open.push_front(uri.clone());
                self.changed.insert(uri);
            }
            WorkerTask::Closed(uri, document) => self.closed(&uri, &document),
            WorkerTask::Saved(uris) => self.saved(&uris),
            WorkerTask::Folders { added, removed } => {
                self.client.roots.retain(|root| !removed.contains(root));
                self.client.roots.extend(added);
                self.scan();
            }
            WorkerTask::Request(request) => self.requests.push_back(request),
            WorkerTask::Read(uri, document, defined) => self.read_elsewhere(&uri, document, defined),
            WorkerTask::Judged(uri, judged) => self.judged_elsewhere(uri, *judged),
        }
    }

    /// Reads what changed documents define for others.
    fn read_changed(&mut self) {
        let mut telling = Vec::new();
        for uri in std::mem::take(&mut self.changed) {
            let Some(document) = self.documents.get(&uri) else { continue };
            let matters = if !self.defines(&document) {
                self.session.remove(&path_text(&document.path))
            } else if is_long(&document) {
                // It is read where it is judged.
                self.unread.insert(uri.clone());
                false
            } else {
                self.session.update(&document.input(), &self.projects.limits())
            };
            if matters {
                telling.push(uri);
            }
        }
        match telling.as_slice() {
            [] => {}
            [one] => self.judge_others(one),
            _ => self.judge_all(),
        }
    }

    /// Tells whether others may depend on a document: one without a file, such as an older version of a file, is not
    /// part of the workspace.
    fn defines(&mut self, document: &LspDocument) -> bool {
        document.path.is_absolute() && !self.is_excluded(&document.path)
    }

    /// Judges all open documents again, after one.
    fn judge_others(&mut self, first: &str) {
        let waiting: BTreeSet<String> = self.open.iter().cloned().collect();
        for (uri, _) in self.documents.all() {
            if uri != first && !waiting.contains(&uri) {
                self.judged.remove(&uri);
                self.open.push_back(uri);
            }
        }
    }

    fn judge_all(&mut self) {
        self.judged.clear();
        self.judge_others("");
    }

    fn scan(&mut self) {
        match &self.scanning {
            Scanning::No if self.client.roots.is_empty() => {}
            Scanning::No => {
                self.scanning = Scanning::Yes(Vec::new());
                scan::start(self.projects.args(), self.client.roots.clone(), self.sender.clone());
            }
            Scanning::Yes(_) | Scanning::Again => self.scanning = Scanning::Again,
        }
    }

    fn scanned(&mut self, scan: Scan) {
        self.session.take(scan);
        let before = std::mem::replace(&mut self.scanning, Scanning::No);
        match before {
            Scanning::Again => self.scan(),
            Scanning::Yes(paths) => {
                for path in paths {
                    self.read(&path);
                }
            }
            Scanning::No => {}
        }
        // The open texts count, not those of the files.
        self.changed = self.documents.all().into_iter().map(|(uri, _)| uri).collect();
        self.judge_all();
    }

    fn closed(&mut self, uri: &str, document: &LspDocument) {
        if self.documents.get(uri).is_some() {
            return;
        }
        self.judged.remove(uri);
        self.reported.remove(uri);
        self.unread.remove(uri);
        if self.elsewhere.as_deref() == Some(uri) {
            self.elsewhere = Some(String::new());
        }
        self.open.retain(|other| other != uri);
        if self.read(&document.path) {
            self.judge_all();
        }
        let _ = self.publish(uri, None, Vec::new());
    }

    /// Tells whether the configuration skips a file, as `jobgate lint` skips it.
    fn is_excluded(&mut self, path: &Path) -> bool {
        let project = self.projects.of(path).project;
        project.is_some_and(|project| project.settings.exclusions.has(path, false))
    }

    /// Reads a file as it is on disk. Returns whether this may matter to others.
    fn read(&mut self, path: &Path) -> bool {
        let is_of_workspace = self.client.roots.iter().any(|root| path.starts_with(root));
        if is_of_workspace && path.is_file() && !self.is_excluded(path) {
            let input = Input { named: false, ..Input::named(path) };
            self.session.update(&input, &self.projects.limits())
        } else {
            self.session.remove(&path_text(path))
        }
    }

    fn saved(&mut self, uris: &[String]) {
        let paths: Vec<PathBuf> = uris.iter().filter_map(|uri| uri::to_path(uri)).collect();
        let are_many = paths.len() > MAX_CHANGED_FILES;
        if are_many || paths.iter().any(|path| self.is_of_settings(path)) {
            self.projects.forget();
            self.judge_all();
            // The exclusions may have changed.
            self.scan();
            return;
        }
        if paths.iter().any(|path| is_of_workspace(path)) {
            self.scan();
            return;
        }
        // A policy may be gone, too.
        let is_gone = |path: &PathBuf| !path.exists() && self.documents.of_path(path).is_none();
        if self.projects.may_have_changed() || paths.iter().any(is_gone) {
            self.projects.forget();
            self.judge_all();
        }
        if let Scanning::Yes(since) = &mut self.scanning {
            since.extend(paths.iter().cloned());
        }
        let mut matters = false;
        for path in paths {
            // The text of an open document counts.
            if self.documents.of_path(&path).is_none() {
                matters |= self.read(&path);
            }
        }
        if matters {
            self.judge_all();
        }
    }

    fn is_of_settings(&self, path: &Path) -> bool {
        let is_named = path.ends_with(configuration::FILE) || self.projects.read_from(path);
        let open = self.documents.of_path(path).map(|(_, document)| document.text);
        let text = || open.or_else(|| text(&Input::named(path), MAX_SETTINGS_BYTES));
        is_named || text().is_some_and(|text| form(path, &text) != DocumentType::Manifest)
    }

    /// Judges a document as it is now and reports the result, unless there is already a newer text. One that is judged
    /// elsewhere is reported when that is done.
    fn report(&mut self, uri: &str) -> io::Result<()> {
        if self.judge(uri) { self.say(uri) } else { Ok(()) }
    }

    fn say(&mut self, uri: &str) -> io::Result<()> {
        let Some(judged) = self.judged.get(uri) else { return Ok(()) };
        let version = judged.document.version;
        let is_newest = self.documents.get(uri).is_some_and(|document| document.is_same(&judged.document));
        let is_silent = self.reported.get(uri).is_none_or(|at| at.elapsed() > MAX_SILENCE);
        if is_newest || is_silent {
            self.reported.insert(uri.to_owned(), Instant::now());
            return self.publish(uri, Some(version), judged.diagnostics.clone());
        }
        Ok(())
    }

    /// Starts to judge a long document elsewhere, or queues it.
    fn start_or_wait(&mut self, uri: &str) {
        if self.elsewhere.is_some() {
            self.long.retain(|other| other != uri);
            self.long.push_back(uri.to_owned());
        } else {
            self.start(uri);
        }
    }

    /// Starts to judge a long document as it is now. Its definitions are read first, since they also apply to itself.
    fn start(&mut self, uri: &str) {
        let Some(document) = self.documents.get(uri) else { return };
        let is_started = if self.unread.remove(uri) && self.defines(&document) {
            let options = self.projects.limits();
            judging::read(uri.to_owned(), document, options, self.sender.clone())
        } else {
            self.judging(uri, document).start(self.sender.clone())
        };
        self.elsewhere = is_started.then(|| uri.to_owned());
    }

    fn read_elsewhere(&mut self, uri: &str, document: LspDocument, defined: Option<Defined>) {
        if self.elsewhere.as_deref() != Some(uri) {
            return self.next_elsewhere();
        }
        if defined.is_some_and(|defined| self.session.put(&document.input(), defined)) {
            self.judge_others(uri);
        }
        if !self.judging(uri, document).start(self.sender.clone()) {
            self.next_elsewhere();
        }
    }

    fn judged_elsewhere(&mut self, uri: String, judged: JudgedDocument) {
        if self.elsewhere.as_ref() == Some(&uri) {
            self.judged.insert(uri.clone(), judged);
            let _ = self.say(&uri);
        }
        self.next_elsewhere();
    }

    fn next_elsewhere(&mut self) {
        self.elsewhere = None;
        while self.elsewhere.is_none()
            && let Some(next) = self.long.pop_front()
        {
            self.start(&next);
        }
    }

    fn judging(&mut self, uri: &str, document: LspDocument) -> JudgingJob {
        JudgingJob {
            uri: uri.to_owned(),
            setting: self.projects.of(&document.path),
            document,
            documents: self.documents.clone(),
            encoding: self.client.encoding,
            known: self.session.known(),
        }
    }

    fn publish(&self, uri: &str, version: Option<i32>, diagnostics: Vec<Diagnostic>) -> io::Result<()> {
        let params = PublishDiagnosticsParams { uri: Uri(uri.to_owned()), version, diagnostics };
        self.output.send(Notification::new("textDocument/publishDiagnostics".to_owned(), params))
    }

    /// Judges a document as it is now, unless that is done. Returns `false` if it is judged elsewhere.
    fn judge(&mut self, uri: &str) -> bool {
        let Some(document) = self.documents.get(uri) else { return true };
        if self.judged.get(uri).is_some_and(|judged| judged.document.is_same(&document)) {
            return true;
        }
        if is_long(&document) {
            self.start_or_wait(uri);
            return false;
        }
        let judged = self.judging(uri, document).judge();
        self.judged.insert(uri.to_owned(), judged);
        true
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        let Request { id, method, params } = request;
        if self.documents.is_cancelled(&id) {
            let why = "cancelled".to_owned();
            return self.output.send(Response::new_err(id, ErrorCode::RequestCanceled as i32, why));
        }
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        // A long one is judged elsewhere, and there is no answer before that is done.
        let document = self.documents.get(&uri);
        let is_long = document.is_some_and(|document| is_long(&document));
        if !is_long {
            self.judge(&uri);
        }
        let answered = catch_unwind(AssertUnwindSafe(|| {
            if is_long {
                in_time(|| self.answer_to(&method, &uri, params)).unwrap_or(Ok(Value::Null))
            } else {
                self.answer_to(&method, &uri, params)
            }
        }));
        let response = match answered {
            Ok(Ok(result)) => Response::new_ok(id, result),
            Ok(Err(error)) => Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string()),
            Err(_) => {
                log(&format!("{method}: an error in Jobgate"));
                let why = "an error in Jobgate; its log has more".to_owned();
                Response::new_err(id, ErrorCode::InternalError as i32, why)
            }
        };
        self.output.send(response)
    }

    fn answer_to(&self, method: &str, uri: &str, params: Value) -> serde_json::Result<Value> {
        let is_now = |judged: &&JudgedDocument| {
            self.documents.get(uri).is_none_or(|document| document.is_same(&judged.document))
        };
        let judged = self.judged.get(uri).filter(is_now);
        if method == "textDocument/codeAction" {
            let wanted = serde_json::from_value(params)?;
            let Some(judged) = judged else { return Ok(Value::Null) };
            return serde_json::to_value(actions::actions(self, uri, judged, &wanted));
        }
        let at: TextDocumentPositionParams = serde_json::from_value(params)?;
        let encoding = self.client.encoding;
        let offset = |document: &LspDocument| super::text::offset(&document.text, at.position, encoding);
        match (method, judged) {
            ("textDocument/completion", _) => {
                let Some(document) = self.documents.get(uri) else { return Ok(Value::Null) };
                serde_json::to_value(completion::items(&document, offset(&document), encoding))
            }
            (_, None) => Ok(Value::Null),
            ("textDocument/hover", Some(judged)) => {
                serde_json::to_value(hover::hover(judged, offset(&judged.document), encoding))
            }
            (_, Some(judged)) => {
                serde_json::to_value(definition::locations(self, judged, offset(&judged.document)))
            }
        }
    }
}

/// Tells whether a file decides how others are read.
fn is_of_workspace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["kustomization.yaml", "kustomization.yml", "Kustomization", ".gitignore", ".ignore"].contains(&name)
}
