//! The thread that judges and answers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use gen_lsp_types::{Diagnostic, PublishDiagnosticsParams, TextDocumentPositionParams, Uri};
use lsp_server::{ErrorCode, Notification, Request, Response};
use serde_json::Value;

use super::diagnostics::{Place, failed, without_settings};
use super::document::{Document, Documents, Form, form};
use super::project::{Project, Projects};
use super::wire::Output;
use super::{Client, actions, completion, definition, hover, log, scan, uri};
use crate::cli::args::Lsp;
use crate::cli::configuration;
use crate::local::lint::{Input, Scan, Session, path_text, text};
use crate::report::Located;
use crate::text::yaml::Edit;

/// How long diagnostics of an older text are held back while somebody types.
const MAX_SILENCE: Duration = Duration::from_millis(500);
/// With more changed files than this, the workspace is read again.
const MAX_CHANGED_FILES: usize = 200;
/// Larger files are no settings.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// A message to the worker.
pub(super) enum Task {
    /// The workspace is to be read.
    Scan,
    /// It was read.
    Scanned(Box<Scan>),
    /// A document is open with another text.
    Changed(String),
    /// A document was closed.
    Closed(String, Document),
    /// Files were written or deleted.
    Saved(Vec<String>),
    /// The workspace has other directories.
    Folders {
        added: Vec<PathBuf>,
        removed: Vec<PathBuf>,
    },
    Request(Request),
}

/// A document that was judged.
pub(super) struct Judged {
    pub(super) document: Document,
    pub(super) findings: Vec<Located>,
    /// One for each finding, and more.
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) project: Option<Arc<Project>>,
    /// The edits of all safe fixes: an editor asks for them whenever the cursor moves.
    pub(super) fixed: OnceCell<Vec<Edit>>,
}

pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) documents: Documents,
    pub(super) session: Session,
    projects: Projects,
    output: Output,
    sender: Sender<Task>,
    judged: BTreeMap<String, Judged>,
    /// Documents that others may depend on and that were not read since they changed.
    changed: BTreeSet<String>,
    /// Documents to judge, the next one first.
    open: VecDeque<String>,
    requests: VecDeque<Request>,
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
        documents: Documents,
        output: Output,
        sender: Sender<Task>,
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
            reported: BTreeMap::new(),
            scanning: Scanning::No,
        }
    }

    /// Works until there is nobody left to tell.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
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

    /// Does something whose errors must not be the end of the server.
    fn guarded(&mut self, what: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| what(self))).is_err() {
            log("an error in Jobgate");
        }
    }

    fn take(&mut self, task: Task) {
        match task {
            Task::Scan => self.scan(),
            Task::Scanned(scan) => self.scanned(*scan),
            Task::Changed(uri) => {
                self.open.retain(|other| *other != uri);
                self.open.push_front(uri.clone());
                self.changed.insert(uri);
            }
            Task::Closed(uri, document) => self.closed(&uri, &document),
            Task::Saved(uris) => self.saved(&uris),
            Task::Folders { added, removed } => {
                self.client.roots.retain(|root| !removed.contains(root));
                self.client.roots.extend(added);
                self.scan();
            }
            Task::Request(request) => self.requests.push_back(request),
        }
    }

    /// Reads what changed documents say about others.
    fn read_changed(&mut self) {
        let mut telling = Vec::new();
        for uri in std::mem::take(&mut self.changed) {
            let Some(document) = self.documents.get(&uri) else { continue };
            // What has no file, such as an older version of one, is none of the workspace.
            let matters = if !document.path.is_absolute() || self.is_excluded(&document.path) {
                self.session.remove(&path_text(&document.path))
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
        // Their texts count, not those of the files.
        self.changed = self.documents.all().into_iter().map(|(uri, _)| uri).collect();
        self.judge_all();
    }

    fn closed(&mut self, uri: &str, document: &Document) {
        if self.documents.get(uri).is_some() {
            return;
        }
        self.judged.remove(uri);
        self.reported.remove(uri);
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
            // What is excluded may have changed.
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
        is_named || text().is_some_and(|text| form(path, &text) != Form::Manifest)
    }

    /// Judges a document as it is now and reports what was found, unless a newer text is there already.
    fn report(&mut self, uri: &str) -> io::Result<()> {
        self.judge(uri);
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

    fn publish(&self, uri: &str, version: Option<i32>, diagnostics: Vec<Diagnostic>) -> io::Result<()> {
        let params = PublishDiagnosticsParams { uri: Uri(uri.to_owned()), version, diagnostics };
        self.output.send(Notification::new("textDocument/publishDiagnostics".to_owned(), params))
    }

    /// Judges a document as it is now, if it was not.
    fn judge(&mut self, uri: &str) {
        let Some(document) = self.documents.get(uri) else { return };
        if self.judged.get(uri).is_some_and(|judged| judged.document.is_same(&document)) {
            return;
        }
        let setting = self.projects.of(&document.path);
        let judge = || {
            let place = Place {
                uri,
                document: &document,
                documents: &self.documents,
                encoding: self.client.encoding,
            };
            if document.form() != Form::Manifest {
                return (Vec::new(), place.settings());
            }
            let Some(project) = &setting.project else { return (Vec::new(), Vec::new()) };
            if project.settings.exclusions.has(&document.path, false) {
                return (Vec::new(), Vec::new());
            }
            let policy = &project.settings.policy;
            let mut linted = self.session.lint(&document.input(), policy, &project.facts, &project.options());
            if let Some((baseline, root)) = &project.baseline {
                baseline.lift(&mut linted.report, [&*path_text(&document.path)], root);
            }
            let diagnostics = place.diagnostics(&linted.report.findings, &linted.report.unjudged);
            (linted.report.findings, diagnostics)
        };
        // An error in one rule costs one document, as in the webhook.
        let judged = catch_unwind(AssertUnwindSafe(judge));
        let (findings, mut diagnostics) = judged.unwrap_or_else(|_| (Vec::new(), vec![failed()]));
        let error = setting.error.filter(|_| document.form() == Form::Manifest);
        diagnostics.extend(error.map(|error| without_settings(&error, setting.project.is_some())));
        let judged =
            Judged { document, findings, diagnostics, project: setting.project, fixed: OnceCell::new() };
        self.judged.insert(uri.to_owned(), judged);
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        let Request { id, method, params } = request;
        if self.documents.is_cancelled(&id) {
            let why = "cancelled".to_owned();
            return self.output.send(Response::new_err(id, ErrorCode::RequestCanceled as i32, why));
        }
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.judge(&uri);
        let answered = catch_unwind(AssertUnwindSafe(|| self.answer_to(&method, &uri, params)));
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
        if method == "textDocument/codeAction" {
            let wanted = serde_json::from_value(params)?;
            let Some(judged) = self.judged.get(uri) else { return Ok(Value::Null) };
            return serde_json::to_value(actions::actions(self, uri, judged, &wanted));
        }
        let at: TextDocumentPositionParams = serde_json::from_value(params)?;
        let Some(judged) = self.judged.get(uri) else { return Ok(Value::Null) };
        let (document, encoding) = (&judged.document, self.client.encoding);
        let offset = super::text::offset(&document.text, at.position, encoding);
        match method {
            "textDocument/hover" => serde_json::to_value(hover::hover(judged, offset, encoding)),
            "textDocument/completion" => serde_json::to_value(completion::items(document, offset, encoding)),
            _ => serde_json::to_value(definition::locations(self, judged, offset)),
        }
    }
}

/// Tells whether a file decides how others are read.
fn is_of_workspace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["kustomization.yaml", "kustomization.yml", "Kustomization", ".gitignore", ".ignore"].contains(&name)
}
