//! Maps places in rendered manifests to places in their source files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::outline::Outline;
use crate::FileBytes;
use jobgate_core::judge::finding::Part;
use jobgate_core::text::pointer::{Pointer, Token};
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{self, Document, Limits};
use jobgate_report::span;

/// Maximum number of objects of one kind to compare if no name is equal.
const MOST_ALIKE: usize = 256;
/// Maximum number of list items to compare if the one at the same index has another name.
const MOST_ITEMS: usize = 256;

/// A source file of a rendered manifest.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The path in reports.
    pub(super) path: Arc<str>,
    pub(super) text: FileBytes,
    sections: Vec<SourceSection>,
    by_name: BTreeMap<(String, String), usize>,
    by_kind: BTreeMap<String, Vec<usize>>,
}

/// A document of a file, or the template of one.
#[derive(Debug)]
struct SourceSection {
    kind: String,
    name: String,
    read: SectionContent,
}

#[derive(Debug)]
enum SectionContent {
    Document(Box<Document>),
    Outline(Outline),
}

/// The document in a file that an object is rendered from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Home {
    pub(super) file: PathBuf,
    pub(super) section: usize,
}

/// Opens a source file; returns its path as reports show it, and its text.
pub(crate) type OpenSource<'a> = dyn Fn(&Path) -> Option<(Arc<str>, FileBytes)> + 'a;

/// The source files read so far, each opened once.
pub(super) struct SourceFiles<'a> {
    open: &'a OpenSource<'a>,
    known: BTreeMap<PathBuf, Option<SourceFile>>,
}

impl<'a> SourceFiles<'a> {
    pub(super) fn new(open: &'a OpenSource<'a>) -> Self {
        Self { open, known: BTreeMap::new() }
    }

    /// Opens a file, or returns it from the cache.
    pub(super) fn read(&mut self, path: &Path) -> Option<&SourceFile> {
        let open = self.open;
        let read = || open(path).map(|(shown, text)| SourceFile::new(shown, text));
        self.known.entry(path.to_owned()).or_insert_with(read).as_ref()
    }

    /// Returns a file that was read.
    pub(super) fn get(&self, path: &Path) -> Option<&SourceFile> {
        self.known.get(path)?.as_ref()
    }

    /// Returns the files that were read.
    pub(super) fn all(&self) -> impl Iterator<Item = &SourceFile> {
        self.known.values().flatten()
    }
}

impl SourceFile {
    fn new(shown: Arc<str>, text: FileBytes) -> Self {
        let limits = Limits::default();
        let mut file = Self {
            path: shown,
            text,
            sections: Vec::new(),
            by_name: BTreeMap::new(),
            by_kind: BTreeMap::new(),
        };
        let source = file.text.clone();
        for chunk in yaml::split(source.bytes(), &limits) {
            let section = match chunk {
                Ok(chunk) => match yaml::parse(source.bytes(), &chunk, &limits) {
                    Ok(document) => SourceSection::from_document(document),
                    Err(_) => SourceSection::nearly(Outline::new(source.bytes(), chunk.span)),
                },
                Err(_) => SourceSection::nearly(Outline::new(source.bytes(), 0..source.bytes().len())),
            };
            let nth = file.sections.len();
            if !section.kind.is_empty() {
                file.by_name.entry((section.kind.clone(), section.name.clone())).or_insert(nth);
                file.by_kind.entry(section.kind.clone()).or_default().push(nth);
            }
            file.sections.push(section);
        }
        file
    }

    /// Returns the document that an object is rendered from, if that is certain.
    pub(super) fn section_of(&self, kind: &str, name: &str) -> Option<usize> {
        if let Some(nth) = self.by_name.get(&(kind.to_owned(), name.to_owned())) {
            return Some(*nth);
        }
        let Some(of_kind) = self.by_kind.get(kind) else {
            // The kind may come from a template action, and a list has a kind of its own.
            let mut filled = self.sections.iter().enumerate().filter(|(_, section)| !section.is_empty());
            return filled.next().filter(|_| filled.next().is_none()).map(|(nth, _)| nth);
        };
        if let [only] = of_kind.as_slice() {
            return Some(*only);
        }
        let alike = of_kind.iter().take(MOST_ALIKE).copied();
        let mut alike: Vec<(usize, usize)> =
            alike.filter_map(|nth| Some((likeness(&self.sections[nth].name, name)?, nth))).collect();
        alike.sort_unstable_by(|a, b| b.cmp(a));
        match alike.as_slice() {
            [(best, nth), rest @ ..] if rest.first().is_none_or(|(next, _)| next < best) => Some(*nth),
            _ => None,
        }
    }

    /// Returns the documents by the kinds and names of their objects before rendering.
    pub(super) fn named(&self) -> impl Iterator<Item = (&(String, String), usize)> {
        self.by_name.iter().map(|(object, nth)| (object, *nth))
    }

    /// Returns the line of a chart's file that names a dependency.
    pub(super) fn dependency(&self, name: &str) -> Option<Range<usize>> {
        let document = self.sections.iter().find_map(|section| match &section.read {
            SectionContent::Document(document) => Some(document),
            SectionContent::Outline(_) => None,
        })?;
        let listed = document.value.get("dependencies")?.as_array()?;
        let is_it = |dependency: &Value| {
            ["alias", "name"].iter().any(|key| dependency.get(key).and_then(Value::as_str) == Some(name))
        };
        let at = Pointer::new(&["dependencies"]) / listed.iter().position(is_it)?;
        Some(span(self.text.bytes(), document, &(at / "name"), Part::Value))
    }

    /// Returns the name of a document's object before rendering.
    pub(super) fn name_of(&self, section: usize) -> &str {
        self.sections.get(section).map_or("", |section| &section.name)
    }

    /// Returns the source range of a place in a rendered object, or of its nearest existing parent; and whether the
    /// place itself exists there with the same value.
    pub(super) fn find(
        &self,
        section: Option<usize>,
        pointer: &Pointer,
        part: Part,
        rendered: &Value,
    ) -> (Range<usize>, bool) {
        match section.and_then(|section| self.sections.get(section)).map(|section| &section.read) {
            Some(SectionContent::Document(document)) => {
                let (at, whole) = aligned(pointer, rendered, &document.value);
                let part = if whole { part } else { Part::Key };
                (span(self.text.bytes(), document, &at, part), whole)
            }
            Some(SectionContent::Outline(outline)) => outline.find(pointer, rendered),
            None => (self.first(), false),
        }
    }

    /// Returns the first line with anything on it.
    pub(super) fn first(&self) -> Range<usize> {
        jobgate_report::first_line(self.text.bytes(), 0..self.text.bytes().len())
    }
}

impl SourceSection {
    fn from_document(document: Document) -> Self {
        let text = |pointer: &str| {
            document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Self {
            kind: text("/kind"),
            name: text("/metadata/name"),
            read: SectionContent::Document(Box::new(document)),
        }
    }

    fn nearly(outline: Outline) -> Self {
        let text = |path: &[&str]| outline.text(path).unwrap_or_default().to_owned();
        Self {
            kind: text(&["kind"]),
            name: text(&["metadata", "name"]),
            read: SectionContent::Outline(outline),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.read {
            SectionContent::Document(document) => document.value.is_null(),
            SectionContent::Outline(outline) => !outline.writes(),
        }
    }
}

/// Returns how many bytes of a source name recur in a rendered name, which may have a prefix, a suffix, or values in
/// place of template actions. `None` if any of them is missing.
fn likeness(written: &str, rendered: &str) -> Option<usize> {
    let mut rest = rendered;
    let mut length = 0;
    let mut written = written;
    while !written.is_empty() {
        let (text, behind) = match written.split_once("{{") {
            Some((text, behind)) => (text, behind.split_once("}}").map_or("", |(_, behind)| behind)),
            None => (written, ""),
        };
        rest = &rest[rest.find(text)? + text.len()..];
        length += text.len();
        written = behind;
    }
    (length > 0).then_some(length)
}

/// Maps a place in a rendered object to its source document, as far as it exists there; also returns whether it does,
/// with the same value.
fn aligned(pointer: &Pointer, rendered: &Value, document: &Value) -> (Pointer, bool) {
    let mut at = Pointer::root();
    let (mut from, mut to) = (Some(rendered), document);
    for token in pointer.tokens() {
        let next = match token {
            Token::Key(key) => {
                from = from.and_then(|from| from.as_object()?.get(key));
                to.as_object().and_then(|to| to.get(key)).map(|to| (token.clone(), to))
            }
            Token::Index(index) => {
                from = from.and_then(|from| from.as_array()?.get(*index));
                to.as_array()
                    .and_then(|to| item(*index, from, to))
                    .map(|(index, to)| (Token::Index(index), to))
            }
        };
        let Some((token, next)) = next else { return (at, false) };
        at = at.then(token);
        to = next;
    }
    let is_leaf = |value: &Value| !value.is_object() && !value.is_array();
    let differs = from.is_some_and(|from| (is_leaf(from) || is_leaf(to)) && from != to);
    (at, !differs)
}

/// Returns the list item that a rendered item comes from: the one of the same name or, if it has none, at the same
/// index.
fn item<'v>(index: usize, rendered: Option<&Value>, list: &'v [Value]) -> Option<(usize, &'v Value)> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let Some(wanted) = rendered.and_then(name) else { return list.get(index).map(|item| (index, item)) };
    let is_it = |item: &Value| name(item).as_deref() == Some(&*wanted);
    match list.get(index).filter(|item| is_it(item)) {
        Some(item) => Some((index, item)),
        None => list.iter().enumerate().take(MOST_ITEMS).find(|(_, item)| is_it(item)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    #[test]
    fn names_are_alike_where_one_is_in_the_other() {
        for (written, rendered, expected) in [
            ("train", "prod-train-v1", Some(5)),
            ("{{ .Release.Name }}-train", "release-name-train", Some(6)),
            ("a-{{ .x }}-b", "a-1-b", Some(4)),
            ("{{ .x }}", "a", None),
            ("train", "test", None),
            ("", "a", None),
            ("a{{ .x", "ab", Some(1)),
        ] {
            assert_eq!(likeness(written, rendered), expected, "{written} {rendered}");
        }
    }

    #[test]
    fn items_are_found_by_name_and_values_compared() {
        let rendered =
            json!({"spec": {"c": [{"name": "new"}, {"name": "a", "image": "x", "n": 1}], "l": [1, 2]}});
        let document = json!({"spec": {"c": [{"name": "a", "image": "x", "n": 2}], "l": [1, 3]}});
        for (pointer, expected, whole) in [
            ("/spec/c/1/image", "/spec/c/0/image", true),
            ("/spec/c/1/n", "/spec/c/0/n", false),
            ("/spec/c/0", "/spec/c", false),
            ("/spec/l/1", "/spec/l/1", false),
            ("/spec/l/0", "/spec/l/0", true),
            ("/spec", "/spec", true),
        ] {
            let pointer = Pointer::parse(pointer, &rendered).unwrap();
            let (at, is_whole) = aligned(&pointer, &rendered, &document);
            assert_eq!((at.to_json_pointer().as_str(), is_whole), (expected, whole), "{pointer}");
        }
    }
}
