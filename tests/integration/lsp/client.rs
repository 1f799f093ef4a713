//! An editor, as far as a language server sees one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Nothing may take longer than this, in the slowest build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An editor with a workspace.
pub(super) struct Client {
    process: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    root: PathBuf,
    next: i32,
    /// The last diagnostics of each document, and their version.
    pub(super) published: BTreeMap<String, Value>,
    /// How many times diagnostics came.
    pub(super) publications: usize,
    pub(super) initialized: Value,
}

impl Client {
    pub(super) fn new(root: &Path) -> Self {
        Self::with(root, &[], json!({}))
    }

    /// Starts the server with arguments and the capabilities of an editor.
    pub(super) fn with(root: &Path, arguments: &[&str], capabilities: Value) -> Self {
        let mut client = Self::silent(root, arguments);
        let params = json!({"processId": null, "rootUri": client.uri(""), "capabilities": capabilities});
        client.initialized = client.request("initialize", params);
        client.notify("initialized", json!({}));
        client
    }

    /// Starts the server and says nothing.
    pub(super) fn silent(root: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_jobgate"))
            .arg("lsp")
            .args(arguments)
            .current_dir(root)
            .env_remove("JOBGATE_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = process.stdout.take().unwrap();
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            input,
            messages,
            root: root.canonicalize().unwrap(),
            next: 0,
            published: BTreeMap::new(),
            publications: 0,
            initialized: Value::Null,
        }
    }

    pub(super) fn uri(&self, name: &str) -> String {
        format!("file://{}", self.root.join(name).display())
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        let text = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params}));
    }

    /// Waits for the next message.
    pub(super) fn next(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE).expect("a message");
        if message["method"] == "textDocument/publishDiagnostics" {
            let params = message["params"].clone();
            self.publications += 1;
            self.published.insert(params["uri"].as_str().unwrap().to_owned(), params);
        }
        message
    }

    /// Sends a request. Returns its answer: the result, or the error.
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(json!({"id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message.get("result").or(message.get("error")).cloned().unwrap();
            }
        }
    }

    pub(super) fn open(&mut self, name: &str, text: &str) {
        let item = json!({"uri": self.uri(name), "languageId": "yaml", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": item}));
    }

    /// Replaces a range of a document.
    pub(super) fn change(&mut self, name: &str, version: i32, range: Value, text: &str) {
        let identifier = json!({"uri": self.uri(name), "version": version});
        let mut change = json!({"text": text});
        if !range.is_null() {
            change["range"] = range;
        }
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": identifier, "contentChanges": [change]}),
        );
    }

    pub(super) fn close(&mut self, name: &str) {
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": self.uri(name)}}));
    }

    /// Tells that files have changed on disk.
    pub(super) fn watched(&mut self, names: &[&str]) {
        let changes: Vec<Value> =
            names.iter().map(|name| json!({"uri": self.uri(name), "type": 2})).collect();
        self.notify("workspace/didChangeWatchedFiles", json!({"changes": changes}));
    }

    /// Waits for the diagnostics of a version of a document that a function accepts.
    pub(super) fn until(
        &mut self,
        name: &str,
        version: i32,
        accepts: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let uri = self.uri(name);
        let start = Instant::now();
        loop {
            let found = self.published.get(&uri).filter(|params| params["version"] == version);
            if let Some(found) = found.map(|params| params["diagnostics"].as_array().unwrap().clone())
                && accepts(&found)
            {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "{:?}", self.published.get(&uri));
            self.next();
        }
    }

    /// Returns the diagnostics of a version of a document.
    pub(super) fn diagnostics(&mut self, name: &str, version: i32) -> Vec<Value> {
        self.until(name, version, |_| true)
    }

    pub(super) fn at(&self, name: &str, line: u32, character: u32) -> Value {
        json!({"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}})
    }

    /// Waits until the workspace was read: until a reference of a file is resolved.
    pub(super) fn settled(&mut self, name: &str, line: u32, character: u32) {
        let start = Instant::now();
        while self.request("textDocument/definition", self.at(name, line, character)) == json!([]) {
            assert!(start.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn actions(&mut self, name: &str, only: &[&str]) -> Vec<Value> {
        self.asked_for_actions(name, json!({"diagnostics": [], "only": only})).as_array().unwrap().clone()
    }

    /// Asks for actions of all kinds. There may be no answer.
    pub(super) fn actions_at_all(&mut self, name: &str) -> Value {
        self.asked_for_actions(name, json!({"diagnostics": []}))
    }

    fn asked_for_actions(&mut self, name: &str, context: Value) -> Value {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 100_000, "character": 0}});
        let identifier = json!({"uri": self.uri(name)});
        let params = json!({"textDocument": identifier, "range": range, "context": context});
        self.request("textDocument/codeAction", params)
    }

    /// Ends the server. Returns how it ended.
    pub(super) fn end(mut self) -> ExitStatus {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.process.wait().unwrap()
    }

    /// Closes its input. Returns how it ended.
    pub(super) fn hang_up(mut self) -> ExitStatus {
        self.input = None;
        self.process.wait().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(output: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", number)) => length = number.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Applies the edits of an action to the text of the only document that it changes. Columns are in UTF-16,
/// found in another way than the server does it.
pub(super) fn applied(text: &str, action: &Value) -> String {
    let edit = &action["edit"];
    let edits = match edit["changes"].as_object() {
        Some(changes) => changes.values().next().unwrap().clone(),
        None => edit["documentChanges"][0]["edits"].clone(),
    };
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let offset = |place: &Value| {
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.encode_utf16().enumerate().filter(|(_, unit)| *unit == 10).map(|(at, _)| at + 1))
            .collect();
        starts[usize::try_from(place["line"].as_u64().unwrap()).unwrap()]
            + usize::try_from(place["character"].as_u64().unwrap()).unwrap()
    };
    for edit in edits.as_array().unwrap().iter().rev() {
        let (start, end) = (offset(&edit["range"]["start"]), offset(&edit["range"]["end"]));
        units.splice(start..end, edit["newText"].as_str().unwrap().encode_utf16());
    }
    String::from_utf16(&units).unwrap()
}

/// Returns the codes of diagnostics, in order.
pub(super) fn codes(diagnostics: &[Value]) -> Vec<&str> {
    diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap()).collect()
}
