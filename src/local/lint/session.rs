//! Files that change one at a time, as in an editor: what the others say about claims and kustomizations is
//! kept, so that a change costs the reading of one file.
//!
//! [`Session::lint`] says of a file what [`lint`](super::lint) says of it in a run over all of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::claims::{self, CLAIM, Claims, Read};
use super::fixing::{Change, Fixing, Shifts, Sink, Unwritten};
use super::input::{Content, Input};
use super::kustomization::Kustomizations;
use super::objects::objects;
use super::run::Run;
use super::source;
use super::{Linted, Options, report};
use crate::judge::checks::SYNTAX;
use crate::judge::finding::Safety;
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Reason, Unjudged};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use crate::text::yaml::{self, Chunk, Document, Draft, Edit, SyntaxError, SyntaxErrorKind};

/// How many lines of an unfinished document are left out to read the rest.
const MAX_LEFT_OUT: usize = 3;
/// How many unfinished documents of a file are read: people type in one.
const MAX_BROKEN: usize = 3;
/// Larger files are not read a second time for the rest of their unfinished documents.
const MAX_RECOVERED_BYTES: usize = 1 << 20;

/// The files of a workspace, as far as others depend on them.
#[derive(Debug, Default)]
pub struct Session {
    /// What each file defines, if anything.
    found: BTreeMap<Arc<str>, Vec<Read>>,
    claims: Claims,
    kustomizations: Kustomizations,
}

/// What was found in the files of a workspace.
#[derive(Debug, Default)]
pub struct Scan {
    found: BTreeMap<Arc<str>, Vec<Read>>,
    kustomizations: Kustomizations,
}

impl Scan {
    /// Reads files. It may take long, and uses the current rayon pool.
    #[must_use]
    pub fn of(inputs: &[Input], options: &Options<'_>) -> Self {
        let read = |input: &Input| (Arc::clone(&input.path), claims::in_input(input, None, options));
        let found = inputs.par_iter().map(read).filter(|(_, found)| !found.is_empty()).collect();
        Self { found, kustomizations: Kustomizations::of(inputs, options) }
    }
}

/// What an object refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its kind.
    pub kind: String,
    /// The namespace of the object that refers to it; empty if unknown.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A place in a file.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file.
    pub input: Input,
    /// Its text.
    pub text: Arc<String>,
    /// The bytes.
    pub span: Range<usize>,
}

impl Session {
    /// Replaces what is known by what was found. Files that have changed since are then updated.
    pub fn take(&mut self, scan: Scan) {
        *self = Self { found: scan.found, kustomizations: scan.kustomizations, claims: Claims::default() };
        self.gather();
    }

    /// Reads a file that is new or has changed. Returns whether this may matter to other files.
    pub fn update(&mut self, input: &Input, options: &Options<'_>) -> bool {
        let now = claims::in_input(input, None, options);
        let before = if now.is_empty() {
            self.found.remove(&input.path)
        } else {
            self.found.insert(Arc::clone(&input.path), now)
        };
        let matters = before.is_some() || self.found.contains_key(&input.path);
        if matters {
            self.gather();
        }
        matters
    }

    /// Forgets a file, or a directory with its files. Returns whether this may matter to other files.
    pub fn remove(&mut self, path: &str) -> bool {
        let before = self.found.len();
        let is_in = |file: &str| {
            file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
        };
        self.found.retain(|file, _| !is_in(file));
        let matters = self.found.len() < before;
        if matters {
            self.gather();
        }
        matters
    }

    fn gather(&mut self) {
        self.claims = Claims::default();
        self.claims.extend(self.found.values().flatten().cloned());
    }

    /// Judges one file.
    #[must_use]
    pub fn lint(&self, input: &Input, policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
        let mut linted = self.report(input, policy, facts, options);
        let is_broken = |unjudged: &&Unjudged| matches!(unjudged.reason, Reason::Unreadable);
        let broken = linted.report.unjudged.iter().filter(is_broken);
        let broken: Vec<usize> = broken.filter_map(|unjudged| unjudged.document).collect();
        if !broken.is_empty() {
            let rest = self.unfinished(input, &broken, policy, facts, options);
            linted.report.findings.extend(rest);
            linted.report.findings.sort_by(super::place::order);
        }
        linted
    }

    fn report(&self, input: &Input, policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
        let alone = source::load(input, options.max_file_size).ok().and_then(Result::ok);
        let (claims, kustomizations) = (&self.claims, &self.kustomizations);
        let mut linted = report(
            std::slice::from_ref(input),
            &Run { policy, facts, claims, kustomizations, alone, options },
        );
        // The rest is about other files, or about all of them.
        linted.report.unjudged.retain(|unjudged| {
            let is_here = unjudged.location.as_ref().is_some_and(|location| location.file == input.path);
            is_here && !matches!(unjudged.reason, Reason::Nothing)
        });
        linted
    }

    /// Returns what can be said of documents that cannot be read yet: the line that breaks one is left out.
    /// There are no fixes: they would be for another text.
    fn unfinished(
        &self,
        input: &Input,
        broken: &[usize],
        policy: &Policy,
        facts: &Claims,
        options: &Options<'_>,
    ) -> Vec<Located> {
        let Content::Open(path, text) = &input.content else { return Vec::new() };
        if text.len() > MAX_RECOVERED_BYTES || text.len() as u64 > options.max_file_size {
            return Vec::new();
        }
        let is_broken = |index| broken.contains(&index);
        let Some(recovered) = recovered(text, is_broken, options) else { return Vec::new() };
        let rest = Input { content: Content::Open(path.clone(), Arc::new(recovered.text)), ..input.clone() };
        let mut findings = self.report(&rest, policy, facts, options).report.findings;
        findings.retain_mut(|located| {
            located.finding.fix = None;
            let left_out = |line: &Range<usize>| {
                located.location.span.start < line.end && line.start < located.location.span.end
            };
            recovered.documents.contains(&located.document)
                && located.finding.rule != SYNTAX
                && !recovered.left_out.iter().any(left_out)
        });
        findings
    }

    /// Returns the edits that all fixes of a safety make, as `jobgate lint --fix` writes them.
    #[must_use]
    pub fn fix_all(
        &self,
        input: &Input,
        policy: &Policy,
        facts: &Claims,
        options: &Options<'_>,
        most: Safety,
    ) -> Vec<Edit> {
        let taken = Taken::default();
        let options = Options { fix: Some(Fixing { most, sink: &taken }), ..*options };
        let _ = self.report(input, policy, facts, &options);
        taken.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the object that a place of a file refers to, in all files. `namespace` is that of objects
    /// without one.
    #[must_use]
    pub fn definitions(
        &self,
        input: &Input,
        offset: usize,
        facts: &Claims,
        namespace: &str,
        options: &Options<'_>,
    ) -> Vec<Target> {
        let Ok(Ok(loaded)) = source::load(input, options.max_file_size) else { return Vec::new() };
        let Some(wanted) = reference(&loaded.text(), offset, namespace, options) else { return Vec::new() };
        let mut files = Vec::new();
        for claims in [facts, &self.claims] {
            files = claims.files_of(&wanted.kind, &wanted.namespace, &wanted.name, &input.path);
            if !files.is_empty() {
                break;
            }
        }
        files.into_iter().flat_map(|file| targets(file, &wanted, options)).collect()
    }
}

/// Returns the edits that one fix makes; none if it cannot be made.
#[must_use]
pub fn fix_one(text: &str, located: &Located, options: &Options<'_>) -> Vec<Edit> {
    let source = text.as_bytes();
    let chunks: Vec<Result<Chunk, SyntaxError>> = yaml::split(source, &options.limits()).collect();
    let chunk = chunks.get(located.document).and_then(|chunk| chunk.as_ref().ok());
    let document = chunk.and_then(|chunk| yaml::parse(source, chunk, &options.limits()).ok());
    let (Some(document), Some(wanted)) = (document, &located.finding.fix) else { return Vec::new() };
    let Ok(draft) = Draft::new(source, &document) else { return Vec::new() };
    let (draft, withheld) = fix::make(draft, &[wanted]);
    let edits = draft.edits();
    let new = fix::apply(source, &edits);
    let after: Vec<_> = yaml::split(&new, &options.limits()).collect();
    if !withheld.is_empty() || !Shifts::new(&edits).keep(&chunks, &after) {
        return Vec::new();
    }
    edits
}

/// Keeps the edits of a file.
#[derive(Debug, Default)]
struct Taken(Mutex<Vec<Edit>>);

impl Sink for Taken {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = change.edits.to_vec();
        Ok(())
    }
}

/// A text without the lines that break it.
struct Recovered {
    text: String,
    /// The documents that can be read now.
    documents: Vec<usize>,
    left_out: Vec<Range<usize>>,
}

/// Leaves out lines of some documents that cannot be read, so that the rest of them can. Every other byte stays
/// where it is.
fn recovered(text: &str, wanted: impl Fn(usize) -> bool, options: &Options<'_>) -> Option<Recovered> {
    let limits = options.limits();
    let mut broken = 0;
    let mut recovered = Recovered { text: text.to_owned(), documents: Vec::new(), left_out: Vec::new() };
    for (index, chunk) in
        yaml::split(text.as_bytes(), &limits).enumerate().filter(|(index, _)| wanted(*index))
    {
        let Ok(chunk) = chunk else { continue };
        let parse = |text: &str| yaml::parse(text.as_bytes(), &chunk, &limits);
        let Err(first) = parse(text) else { continue };
        // Each costs a few copies of the text.
        broken += 1;
        if broken > MAX_BROKEN {
            break;
        }
        let mut error = first;
        let (mut draft, mut left_out) = (recovered.text.clone(), Vec::new());
        while error.kind == SyntaxErrorKind::Syntax && left_out.len() < MAX_LEFT_OUT {
            // The parser may notice only on the line after it.
            let here = line_of(&draft, error.span.start.min(draft.len()));
            let above = draft[..here.start].strip_suffix('\n');
            let above = above.map(|above| above.strip_suffix('\r').unwrap_or(above));
            let before = above.map(|above| line_of(&draft, above.len()));
            let lines = [Some(here), before].into_iter().flatten().filter(|line| {
                line.start >= chunk.span.start
                    && line.end <= chunk.span.end
                    && !draft[line.clone()].trim().is_empty()
            });
            let tried = lines.map(|line| {
                let text = without(&draft, &line);
                let parsed = parse(&text);
                (line, text, parsed)
            });
            let tried: Vec<_> = tried.collect();
            let best = tried.iter().position(|(_, _, parsed)| parsed.is_ok()).unwrap_or_default();
            let Some((line, text, parsed)) = tried.into_iter().nth(best) else { break };
            draft = text;
            left_out.push(line);
            match parsed {
                Ok(_) => {
                    recovered.text = draft;
                    recovered.documents.push(index);
                    recovered.left_out.extend(left_out);
                    break;
                }
                Err(next) => error = next,
            }
        }
    }
    (!recovered.documents.is_empty()).then_some(recovered)
}

/// Returns the line of an offset, without its line break.
fn line_of(text: &str, offset: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = memchr::memrchr2(b'\n', b'\r', &bytes[..offset]).map_or(0, |at| at + 1);
    let end = memchr::memchr2(b'\n', b'\r', &bytes[offset..]).map_or(bytes.len(), |at| offset + at);
    start..end
}

/// Blanks a line. Of one that begins an item of a list, the dash and the key stay, so that the rest of the
/// item is still one.
fn without(text: &str, line: &Range<usize>) -> String {
    let content = &text[line.clone()];
    let item = content.trim_start().starts_with("- ").then(|| {
        let key = content.find(": ").filter(|at| !content[..*at].contains(['"', '\'', '{', '[', '#']));
        key.map_or_else(|| content.find("- ").unwrap_or_default() + 1, |at| at + 1)
    });
    let from = line.start + item.unwrap_or_default();
    let mut out = text.to_owned();
    out.replace_range(from..line.end, &" ".repeat(line.end - from));
    out
}

/// Returns what a place of a text refers to.
fn reference(text: &str, offset: usize, namespace: &str, options: &Options<'_>) -> Option<Reference> {
    let document = document_at(text, offset, options)?;
    for object in objects(&document.value) {
        let mut found = Vec::new();
        references(&object.value, &object.at, &mut found);
        let is_there = |at: &Pointer| {
            document.locate(at).is_some_and(|span| {
                let start = span.key.map_or(span.value.start, |key| key.start);
                (start..=span.value.end).contains(&offset)
            })
        };
        let Some((_, kind, name)) = found.into_iter().find(|(at, ..)| is_there(at)) else { continue };
        let own = object.value.pointer("/metadata/namespace").and_then(Value::as_str);
        return Some(Reference { kind, namespace: own.unwrap_or(namespace).to_owned(), name });
    }
    None
}

/// Reads the document at a place, without the lines that break it.
fn document_at(text: &str, offset: usize, options: &Options<'_>) -> Option<Document> {
    let limits = options.limits();
    let (index, chunk) = yaml::split(text.as_bytes(), &limits).enumerate().find_map(|(index, chunk)| {
        let chunk = chunk.ok()?;
        (chunk.span.start..=chunk.span.end).contains(&offset).then_some((index, chunk))
    })?;
    let parse = |text: &str| yaml::parse(text.as_bytes(), &chunk, &limits).ok();
    parse(text).or_else(|| {
        let is_small = text.len() <= MAX_RECOVERED_BYTES;
        let recovered = is_small.then(|| recovered(text, |other| other == index, options)).flatten()?;
        parse(&recovered.text)
    })
}

/// Finds the references of an object: the place of the name, the kind and the name.
fn references(value: &Value, at: &Pointer, found: &mut Vec<(Pointer, String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let here = at.key(key);
                match (key, value) {
                    ("claimName", Value::String(name)) => {
                        found.push((here, CLAIM.to_owned(), name.to_string()));
                    }
                    ("runtimeRef", Value::Object(runtime)) => {
                        let text = |key: &str| runtime.get(key).and_then(Value::as_str);
                        let kind = text("kind").unwrap_or("ClusterTrainingRuntime");
                        let Some(name) = text("name") else { continue };
                        found.push((here.key("name"), kind.to_owned(), name.to_owned()));
                    }
                    (_, value) => references(value, &here, found),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                references(item, &at.clone().then(Token::Index(index)), found);
            }
        }
        _ => {}
    }
}

/// Returns the places of an object in a file: its name, or else its start.
fn targets(input: &Input, wanted: &Reference, options: &Options<'_>) -> Vec<Target> {
    let Ok(Ok(loaded)) = source::load(input, options.max_file_size) else { return Vec::new() };
    let text = loaded.text();
    let limits = options.limits();
    let mut found = Vec::new();
    for chunk in yaml::split(text.as_bytes(), &limits).flatten() {
        let Ok(document) = yaml::parse(text.as_bytes(), &chunk, &limits) else { continue };
        for object in objects(&document.value) {
            let says = |pointer: &str, text: &str| {
                object.value.pointer(pointer).and_then(Value::as_str).is_some_and(|found| found == text)
            };
            if says("/kind", &wanted.kind) && says("/metadata/name", &wanted.name) {
                let name = document.locate(&(&(&object.at / "metadata") / "name")).map(|span| span.value);
                let span = name.unwrap_or_else(|| document.span.clone());
                found.push(Target { input: input.clone(), text: Arc::clone(&text), span });
            }
        }
    }
    found
}

/// Returns the text of a file up to a size.
#[must_use]
pub fn text(input: &Input, limit: u64) -> Option<Arc<String>> {
    source::load(input, limit).ok()?.ok().map(|loaded| loaded.text())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left_out(text: &str) -> Option<String> {
        let recovered = recovered(text, |_| true, &Options::default())?;
        assert_eq!(recovered.text.len(), text.len());
        Some(recovered.text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
    }

    #[test]
    fn the_line_that_breaks_a_document_is_left_out() {
        for (text, rest) in [
            ("a:\n  b: 1\n  c\nd: 2\n", "a:\n  b: 1\n\nd: 2\n"),
            ("a:\r\n  b: \"x\r\nc: 2\r\n", "a:\n\nc: 2\n"),
            ("a:\n- b: c: d\n  e: 1\n", "a:\n- b:\n  e: 1\n"),
            ("a: b\n---\nc: d: e\nf: 1\n", "a: b\n---\n\nf: 1\n"),
        ] {
            assert_eq!(left_out(text).as_deref(), Some(rest), "{text}");
        }
        assert_eq!(left_out("a: 1\n"), None, "nothing is broken");
        assert_eq!(left_out("[[[[\n]]]]]]\n{\n}}}\n: : :\n- x: y: z\n\"\n'\n"), None, "too much is");
    }

    #[test]
    fn many_broken_documents_cost_no_more_than_a_few() {
        let text = "a: b: c\n---\n".repeat(20_000);
        let recovered = recovered(&text, |_| true, &Options::default()).unwrap();
        assert_eq!(recovered.documents, [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a:\\-\"'{}\\[\\] \n\ré#]{0,40}", place in 0_usize..50) {
            let _ = left_out(&text);
            let _ = reference(&text, place, "", &Options::default());
        }
    }
}
