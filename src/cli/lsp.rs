//! `jobgate lsp`: the linter for editors, over the Language Server Protocol.
//!
//! ```text
//! standard input ──> this thread: lifecycle, texts ──tasks──> worker: judges, answers ──> standard output
//!                                                                ^
//!                          scan of the workspace, once; judging of a long text, one at a time
//! ```
//!
//! This thread never judges, so the editor never waits to send. The worker takes all tasks that are there,
//! answers the requests among them, and judges only the newest text of each document. Long texts are judged in
//! a thread of their own, and answers about them have a time limit, so that no answer waits for them.

mod actions;
mod completion;
mod definition;
mod diagnostics;
mod document;
mod hover;
mod judging;
mod keys;
mod project;
mod scan;
mod text;
mod uri;
mod wire;
mod worker;

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread;

use gen_lsp_types::{
    DidChangeWatchedFilesParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    DidSaveTextDocumentParams, VersionedTextDocumentIdentifier,
};
use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::document::{LspDocument, OpenDocuments};
use self::text::{Encoding, TextChange};
use self::wire::{MessageOutput, WireRead};
use self::worker::{Worker, WorkerTask};
use super::Exit;
use super::args::Lsp;

/// The kind of the action that fixes a whole file.
const FIX_ALL: &str = "source.fixAll.jobgate";
/// The glob pattern of files that may affect others.
const WATCHED: &str = "**/{*.yaml,*.yml,*.json,Kustomization}";

/// Serves an editor until it sends `exit`.
///
/// # Errors
/// Standard input or output cannot be used.
pub fn run(args: &Lsp) -> anyhow::Result<Exit> {
    let output = MessageOutput::stdout();
    let mut input = BufReader::new(io::stdin().lock());
    let Some((id, params)) = first(&mut input, &output)? else { return Ok(Exit::Findings) };
    let client = Client::from_params(&params);
    output.send(Response::new_ok(id, initialized(client.encoding)))?;
    let (sender, tasks) = mpsc::channel();
    let documents = OpenDocuments::default();
    let worker = Worker::new(args, &client, documents.clone(), output.clone(), sender.clone());
    let thread = thread::Builder::new().name("worker".to_owned()).spawn(move || worker.run(&tasks))?;
    let mut server = LspServer { client, documents, output, sender, has_shut_down: false };
    let exit = server.serve(&mut input)?;
    // Nobody is left to receive its output, so its current work is not waited for.
    drop(thread);
    Ok(exit)
}

/// Waits for `initialize`, which comes first.
fn first(input: &mut impl io::BufRead, output: &MessageOutput) -> io::Result<Option<(RequestId, Value)>> {
    loop {
        match wire::read(input)? {
            WireRead::End => return Ok(None),
            WireRead::Garbage(why) => output.refuse(&why)?,
            WireRead::Message(Message::Request(request)) if request.method == "initialize" => {
                return Ok(Some((request.id, request.params)));
            }
            WireRead::Message(Message::Request(request)) => {
                let why = "the first request is `initialize`".to_owned();
                output.send(Response::new_err(request.id, ErrorCode::ServerNotInitialized as i32, why))?;
            }
            WireRead::Message(Message::Notification(notification)) if notification.method == "exit" => {
                return Ok(None);
            }
            WireRead::Message(_) => {}
        }
    }
}

/// What is known about the editor.
#[derive(Clone, Debug)]
struct Client {
    encoding: Encoding,
    /// The directories of the workspace.
    roots: Vec<PathBuf>,
    /// Whether it can be asked to watch files.
    watches: bool,
    /// Whether an edit may name the version that it is for.
    has_versioned_edits: bool,
}

impl Client {
    /// Reads the relevant parameters of `initialize`, and tolerates unknown forms of all others.
    fn from_params(params: &Value) -> Self {
        let capability = |pointer: &str| params.pointer(&format!("/capabilities{pointer}"));
        let is_set = |pointer: &str| capability(pointer).and_then(Value::as_bool).unwrap_or_default();
        let encodings = capability("/general/positionEncodings").and_then(Value::as_array);
        let has_utf8 = encodings.is_some_and(|list| list.iter().any(|encoding| encoding == "utf-8"));
        let folders = params.get("workspaceFolders").and_then(Value::as_array);
        let folders = folders.into_iter().flatten().filter_map(|folder| folder.get("uri")?.as_str());
        let mut roots: Vec<PathBuf> = folders.filter_map(uri::to_path).collect();
        if roots.is_empty() {
            roots.extend(params.get("rootUri").and_then(Value::as_str).and_then(uri::to_path));
        }
        Self {
            encoding: if has_utf8 { Encoding::Utf8 } else { Encoding::Utf16 },
            roots,
            watches: is_set("/workspace/didChangeWatchedFiles/dynamicRegistration"),
            has_versioned_edits: is_set("/workspace/workspaceEdit/documentChanges"),
        }
    }
}

/// Returns the answer to `initialize`.
fn initialized(encoding: Encoding) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": encoding.word(),
            "textDocumentSync": {"openClose": true, "change": 2, "save": true},
            "codeActionProvider": {"codeActionKinds": ["quickfix", FIX_ALL]},
            "hoverProvider": true,
            "definitionProvider": true,
            "completionProvider": {"triggerCharacters": [":", " ", ",", "-"]},
            "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
        },
        "serverInfo": {"name": "jobgate", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The changes of a document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changes {
    text_document: VersionedTextDocumentIdentifier,
    content_changes: Vec<Value>,
}

/// The thread that reads what the editor sends.
struct LspServer {
    client: Client,
    documents: OpenDocuments,
    output: MessageOutput,
    sender: Sender<WorkerTask>,
    has_shut_down: bool,
}

impl LspServer {
    fn serve(&mut self, input: &mut impl io::BufRead) -> anyhow::Result<Exit> {
        loop {
            match wire::read(input) {
                Ok(WireRead::Message(Message::Notification(notification)))
                    if notification.method == "exit" =>
                {
                    // The protocol requires exit code 1 without a previous `shutdown`.
                    return Ok(if self.has_shut_down { Exit::Clean } else { Exit::Findings });
                }
                Ok(WireRead::Message(Message::Notification(notification))) => self.notified(notification)?,
                Ok(WireRead::Message(Message::Request(request))) => self.request(request)?,
                Ok(WireRead::Message(Message::Response(_))) => {}
                Ok(WireRead::Garbage(why)) => self.output.refuse(&why)?,
                // The editor is gone.
                Ok(WireRead::End) => {
                    return Ok(if self.has_shut_down { Exit::Clean } else { Exit::Findings });
                }
                Err(error) => {
                    self.output.refuse(&error.to_string())?;
                    return Err(anyhow::Error::new(error).context("read a message of the editor"));
                }
            }
        }
    }

    fn request(&mut self, request: Request) -> io::Result<()> {
        match &*request.method {
            _ if self.has_shut_down => {
                let why = "the server has shut down".to_owned();
                self.output.send(Response::new_err(request.id, ErrorCode::InvalidRequest as i32, why))
            }
            "shutdown" => {
                self.has_shut_down = true;
                self.output.send(Response::new_ok(request.id, Value::Null))
            }
            "initialize" => {
                let why = "the server is already initialized".to_owned();
                self.output.send(Response::new_err(request.id, ErrorCode::InvalidRequest as i32, why))
            }
            "textDocument/codeAction"
            | "textDocument/hover"
            | "textDocument/completion"
            | "textDocument/definition" => {
                self.tell(WorkerTask::Request(request));
                Ok(())
            }
            method => {
                let why = format!("there is no method `{}`", method.escape_debug());
                self.output.send(Response::new_err(request.id, ErrorCode::MethodNotFound as i32, why))
            }
        }
    }

    fn notified(&mut self, notification: Notification) -> io::Result<()> {
        let Notification { method, params } = notification;
        match &*method {
            "initialized" => {
                if self.client.watches {
                    self.output.send(watch())?;
                }
                self.tell(WorkerTask::Scan);
            }
            "textDocument/didOpen" => {
                if let Some(params) = read::<DidOpenTextDocumentParams>(&method, params) {
                    let item = params.text_document;
                    let document = LspDocument::new(&item.uri.0, item.version, item.text);
                    self.documents.open(item.uri.0.clone(), document);
                    self.tell(WorkerTask::Changed(item.uri.0));
                }
            }
            "textDocument/didChange" => {
                if let Some(params) = read::<Changes>(&method, params) {
                    self.change(&params);
                }
            }
            "textDocument/didClose" => {
                if let Some(params) = read::<DidCloseTextDocumentParams>(&method, params) {
                    let uri = params.text_document.uri.0;
                    if let Some(document) = self.documents.close(&uri) {
                        self.tell(WorkerTask::Closed(uri, document));
                    }
                }
            }
            "textDocument/didSave" => {
                if let Some(params) = read::<DidSaveTextDocumentParams>(&method, params) {
                    self.tell(WorkerTask::Saved(vec![params.text_document.uri.0]));
                }
            }
            "workspace/didChangeWatchedFiles" => {
                if let Some(params) = read::<DidChangeWatchedFilesParams>(&method, params) {
                    self.tell(WorkerTask::Saved(
                        params.changes.into_iter().map(|change| change.uri.0).collect(),
                    ));
                }
            }
            "workspace/didChangeWorkspaceFolders" => {
                let folders = |which: &str| -> Vec<PathBuf> {
                    let list = params.pointer(&format!("/event/{which}")).and_then(Value::as_array);
                    let uris = list.into_iter().flatten().filter_map(|folder| folder.get("uri")?.as_str());
                    uris.filter_map(uri::to_path).collect()
                };
                self.tell(WorkerTask::Folders { added: folders("added"), removed: folders("removed") });
            }
            "$/cancelRequest" => {
                let id = params.get("id").cloned().and_then(|id| serde_json::from_value(id).ok());
                if let Some(id) = id {
                    self.documents.cancel(id);
                }
            }
            // The protocol allows servers to ignore others.
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, params: &Changes) {
        let uri = &params.text_document.text_document_identifier.uri.0;
        let Some(changes) =
            params.content_changes.iter().map(TextChange::from_change).collect::<Option<Vec<_>>>()
        else {
            log(&format!("a change of `{}` without a range or text", uri.escape_debug()));
            return;
        };
        let (version, encoding) = (params.text_document.version, self.client.encoding);
        let make = |text: &mut String| text::change(text, changes, encoding);
        if self.documents.change(uri, |document| document.change(version, make)) {
            self.tell(WorkerTask::Changed(uri.clone()));
        } else {
            log(&format!("a change of `{}`, which is not open", uri.escape_debug()));
        }
    }

    fn tell(&self, task: WorkerTask) {
        // The worker ends after this thread.
        let _ = self.sender.send(task);
    }
}

/// Returns the request to watch the files that may affect others.
fn watch() -> Request {
    let watchers = json!({"watchers": [{"globPattern": WATCHED}]});
    let registration =
        json!({"id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": watchers});
    Request::new(
        RequestId::from("files".to_owned()),
        "client/registerCapability".to_owned(),
        json!({"registrations": [registration]}),
    )
}

/// Reads the parameters of a notification. There is no answer to one, so an error can only be logged.
fn read<T: DeserializeOwned>(method: &str, params: Value) -> Option<T> {
    serde_json::from_value(params).map_err(|error| log(&format!("{method}: {error}"))).ok()
}

/// Writes a line to standard error, which editors keep as a log.
fn log(text: &str) {
    let _ = super::stderr::say(text);
}
