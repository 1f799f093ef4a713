//! Files that change one at a time, as in an editor: the claims and kustomizations of the others are kept, so that a
//! change costs the reading of one file.
//!
//! [`Session::lint`] reports on a file what [`lint`](super::lint) reports on it in a run over all of them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::claims;
use super::fixing::{Change, Fixing, Sink, Unwritten};
use super::kustomization::Kustomizations;
use super::merge::{Linted, report};
use super::options::Options;
use super::run::LintRun;
use super::source;
use crate::judge::facts::FactKind;
use crate::judge::finding::Safety;
use crate::judge::policy::Policy;
use crate::local::fix;
use crate::report::{Located, Reason, Unjudged};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;
use crate::text::yaml::{self, Chunk, Document, Draft, Edit, Limits, SyntaxError};
use jobgate_lint::claims::{Claims, Read};
use jobgate_lint::objects::each;
use jobgate_lint::recovery;
use jobgate_lint::shifts::Shifts;
use jobgate_lint::{Content, Input};

/// The files of a workspace, as far as others depend on them.
#[derive(Debug, Default)]
pub struct Session {
    /// What each file defines, if anything.
    found: BTreeMap<Arc<str>, Vec<Read>>,
    /// All of that merged, on demand: many files may change before.
    claims: OnceCell<Arc<Claims>>,
    kustomizations: Arc<Kustomizations>,
}

/// A snapshot of a session: enough to judge a file of it elsewhere.
#[derive(Clone, Debug)]
pub struct Known {
    claims: Arc<Claims>,
    kustomizations: Arc<Kustomizations>,
}

/// What a file defines for others.
#[derive(Debug)]
pub struct Defined(Vec<Read>);

impl Defined {
    /// Reads a file.
    #[must_use]
    pub(crate) fn new(input: &Input, options: &Options<'_>) -> Self {
        Self(claims::in_input(input, None, options))
    }
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
    pub(crate) fn new(inputs: &[Input], options: &Options<'_>) -> Self {
        let read = |input: &Input| (Arc::clone(&input.path), claims::in_input(input, None, options));
        let found = inputs.par_iter().map(read).filter(|(_, found)| !found.is_empty()).collect();
        Self { found, kustomizations: Kustomizations::new(inputs, options) }
    }
}

/// A reference of an object to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectReference {
    kind: String,
    /// The namespace of the object that refers to it; empty if unknown.
    namespace: String,
    name: String,
}

/// A place in a file.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file.
    pub(crate) input: Input,
    /// Its text.
    pub(crate) text: Arc<String>,
    /// The bytes.
    pub(crate) span: Range<usize>,
}

impl Session {
    /// Replaces what is known by the results of a scan. Files that have changed since must then be updated.
    pub(crate) fn take(&mut self, scan: Scan) {
        let kustomizations = Arc::new(scan.kustomizations);
        *self = Self { found: scan.found, kustomizations, claims: OnceCell::new() };
    }

    /// Reads a file that is new or has changed. Returns whether this may matter to other files.
    pub(crate) fn update(&mut self, input: &Input, options: &Options<'_>) -> bool {
        self.put(input, Defined::new(input, options))
    }

    /// Stores the definitions of a file that were read elsewhere. Returns whether this may matter to other files.
    pub(crate) fn put(&mut self, input: &Input, Defined(now): Defined) -> bool {
        let before = if now.is_empty() {
            self.found.remove(&input.path)
        } else {
            self.found.insert(Arc::clone(&input.path), now)
        };
        let matters = before.is_some() || self.found.contains_key(&input.path);
        if matters {
            self.claims.take();
        }
        matters
    }

    /// Forgets a file, or a directory with its files. Returns whether this may matter to other files.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let before = self.found.len();
        let is_in =
            |file: &str| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.found.retain(|file, _| !is_in(file));
        let matters = self.found.len() < before;
        if matters {
            self.claims.take();
        }
        matters
    }

    fn claims(&self) -> &Arc<Claims> {
        self.claims.get_or_init(|| {
            let mut claims = Claims::default();
            claims.extend(self.found.values().flatten().cloned());
            Arc::new(claims)
        })
    }

    /// Returns a snapshot.
    #[must_use]
    pub(crate) fn known(&self) -> Known {
        Known { claims: Arc::clone(self.claims()), kustomizations: Arc::clone(&self.kustomizations) }
    }

    /// Judges one file as [`Known::lint`] does.
    #[must_use]
    pub fn lint(&self, input: &Input, policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
        self.known().lint(input, policy, facts, options)
    }

    /// Returns the edits that all fixes of a safety make, as `jobgate lint --fix` writes them.
    #[must_use]
    pub(crate) fn fix_all(
        &self,
        input: &Input,
        policy: &Policy,
        facts: &Claims,
        options: &Options<'_>,
        most: Safety,
    ) -> Vec<Edit> {
        let taken = EditSink::default();
        let options = Options { fix: Some(Fixing { most, sink: &taken }), ..*options };
        let _ = self.known().report(input, policy, facts, &options);
        taken.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the object that a place of a file refers to, in all files. `namespace` is that of objects
    /// without one.
    #[must_use]
    pub(crate) fn definitions(
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
        for claims in [facts, &**self.claims()] {
            files = claims.files_of(&wanted.kind, &wanted.namespace, &wanted.name, &input.path);
            if !files.is_empty() {
                break;
            }
        }
        files.into_iter().flat_map(|file| targets(file, &wanted, options)).collect()
    }
}

impl Known {
    /// Judges one file, including the rest of documents that cannot be read yet.
    #[must_use]
    pub fn lint(&self, input: &Input, policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
        let mut linted = self.report(input, policy, facts, options);
        let is_broken = |unjudged: &&Unjudged| matches!(unjudged.reason, Reason::Unreadable);
        let broken = linted.report.unjudged.iter().filter(is_broken);
        let broken: Vec<usize> = broken.filter_map(|unjudged| unjudged.document).collect();
        let limits = options.limits();
        if let Some(recovered) = recovery::of_input(input, &broken, &limits) {
            let rest = self.report(&recovered.input(input, &limits), policy, facts, options);
            recovered.add(&mut linted.report.findings, rest.report.findings);
        }
        linted
    }

    fn report(&self, input: &Input, policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
        let alone = source::load(input, options.max_file_size).ok().and_then(Result::ok);
        let (claims, kustomizations) = (&*self.claims, &*self.kustomizations);
        let mut linted = report(
            std::slice::from_ref(input),
            &LintRun { policy, facts, claims, kustomizations, alone, options },
        );
        // The rest is about other files, or about all of them.
        linted.report.unjudged.retain(|unjudged| {
            let is_here = unjudged.location.as_ref().is_some_and(|location| location.file == input.path);
            is_here && !matches!(unjudged.reason, Reason::Nothing)
        });
        linted
    }
}

/// The fixes of a text, each by itself.
pub struct Fixes<'t> {
    source: &'t [u8],
    limits: Limits,
    chunks: Vec<Result<Chunk, SyntaxError>>,
    /// The document of the last one, with its number: people apply fixes in one place.
    last: Option<(usize, Document)>,
}

impl<'t> Fixes<'t> {
    /// Reads a text.
    #[must_use]
    pub(crate) fn new(text: &'t str, options: &Options<'_>) -> Self {
        let limits = options.limits();
        let chunks = yaml::split(text.as_bytes(), &limits).collect();
        Self { source: text.as_bytes(), limits, chunks, last: None }
    }

    /// Returns the edits that the fix of a finding makes; none if it cannot be made.
    pub(crate) fn edits(&mut self, located: &Located) -> Vec<Edit> {
        self.made(located).unwrap_or_default()
    }

    fn made(&mut self, located: &Located) -> Option<Vec<Edit>> {
        let wanted = located.finding.fix.as_ref()?;
        if self.last.as_ref().is_none_or(|(index, _)| *index != located.document) {
            let chunk = self.chunks.get(located.document)?.as_ref().ok()?;
            self.last = Some((located.document, yaml::parse(self.source, chunk, &self.limits).ok()?));
        }
        let (_, document) = self.last.as_ref()?;
        let (draft, withheld) = fix::make(Draft::new(self.source, document).ok()?, &[wanted]);
        let edits = draft.edits();
        let new = fix::apply(self.source, &edits);
        let after: Vec<_> = yaml::split(&new, &self.limits).collect();
        (withheld.is_empty() && Shifts::new(&edits).keep(&self.chunks, &after)).then_some(edits)
    }
}

/// Keeps the edits of a file.
#[derive(Debug, Default)]
struct EditSink(Mutex<Vec<Edit>>);

impl Sink for EditSink {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = change.edits.to_vec();
        Ok(())
    }
}

/// Returns what a place of a text refers to.
fn reference(text: &str, offset: usize, namespace: &str, options: &Options<'_>) -> Option<ObjectReference> {
    let document = document_at(text, offset, options)?;
    each(&document.value, |object| {
        let mut found = Vec::new();
        references(&object.value, &object.at, &mut found);
        let is_there = |at: &Pointer| {
            document.locate(at).is_some_and(|span| {
                let start = span.key.map_or(span.value.start, |key| key.start);
                (start..=span.value.end).contains(&offset)
            })
        };
        let Some((_, kind, name)) = found.into_iter().find(|(at, ..)| is_there(at)) else {
            return ControlFlow::Continue(());
        };
        let own = object.value.pointer("/metadata/namespace").and_then(Value::as_str);
        ControlFlow::Break(ObjectReference { kind, namespace: own.unwrap_or(namespace).to_owned(), name })
    })
}

/// Reads the document at a place, without the lines that break it.
fn document_at(text: &str, offset: usize, options: &Options<'_>) -> Option<Document> {
    let limits = options.limits();
    let (index, chunk) = yaml::split(text.as_bytes(), &limits).enumerate().find_map(|(index, chunk)| {
        let chunk = chunk.ok()?;
        (chunk.span.start..=chunk.span.end).contains(&offset).then_some((index, chunk))
    })?;
    let parse = |text: &str| yaml::parse(text.as_bytes(), &chunk, &limits).ok();
    parse(text).or_else(|| parse(&recovery::recovered(text, &[index], &limits)?.text))
}

/// Finds the references of an object: the place of the name, the kind and the name.
fn references(value: &Value, at: &Pointer, found: &mut Vec<(Pointer, String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let here = at.key(key);
                match (key, value) {
                    ("claimName", Value::String(name)) => {
                        let kind = FactKind::Claim.definition().name;
                        found.push((here, kind.to_owned(), name.to_string()));
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
fn targets(input: &Input, wanted: &ObjectReference, options: &Options<'_>) -> Vec<Target> {
    let Ok(Ok(loaded)) = source::load(input, options.max_file_size) else { return Vec::new() };
    let text = loaded.text();
    let limits = options.limits();
    let mut found = Vec::new();
    for chunk in yaml::split(text.as_bytes(), &limits).flatten() {
        let Ok(document) = yaml::parse(text.as_bytes(), &chunk, &limits) else { continue };
        each(&document.value, |object| {
            let says = |pointer: &str, text: &str| {
                object.value.pointer(pointer).and_then(Value::as_str).is_some_and(|found| found == text)
            };
            if says("/kind", &wanted.kind) && says("/metadata/name", &wanted.name) {
                let name = document.locate(&(&(&object.at / "metadata") / "name")).map(|span| span.value);
                let span = name.unwrap_or_else(|| document.span.clone());
                found.push(Target { input: input.clone(), text: Arc::clone(&text), span });
            }
            ControlFlow::<()>::Continue(())
        });
    }
    found
}

/// Returns the text of a file up to a size. A pipe has none here: reading it may never end.
#[must_use]
pub fn text(input: &Input, limit: u64) -> Option<Arc<String>> {
    if let Content::File(path) = &input.content
        && !path.is_file()
    {
        return None;
    }
    source::load(input, limit).ok()?.ok().map(|loaded| loaded.text())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_panics(text in "[a:\\-\"'{}\\[\\] \n\ré#]{0,40}", place in 0_usize..50) {
            let _ = reference(&text, place, "", &Options::default());
        }
    }
}
