//! The syntax tree of one document: what stands where, before any of it means something. This file and
//! `quoted` are the only ones that know the YAML parser.
//!
//! Nodes lie in one vector in the order in which they start, so that a node's children follow it directly and
//! [`Node::next`] leaps over them. Offsets are bytes of the document's own text. There are no pointers to
//! follow on drop, so no input can make dropping it deep.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;

use granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StructureStyle, TryLoadError,
    TrySpannedEventReceiver,
};

use super::locate::Wide;
use super::quoted::{Covered, Covers, apostrophes, is_covered};
use super::{Limits, SyntaxError, SyntaxErrorKind};
use crate::text::lines::character_at;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mapping,
    Sequence,
    Scalar,
    Alias,
}

/// How a node is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A collection by indentation.
    Block,
    /// A collection in brackets.
    Flow,
    /// A scalar without quotes; also the value that is left out, which has no width.
    Plain,
    /// A scalar in `'`.
    Single,
    /// A scalar in `"`.
    Double,
    /// A block scalar, `|`.
    Literal,
    /// A block scalar, `>`.
    Folded,
}

/// What a scalar's tag asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// No tag.
    None,
    /// `!`: the text decides, even in quotes.
    NonSpecific,
    Str,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
    Merge,
    /// Any other tag: the text as it stands.
    Other,
}

/// One node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) style: Style,
    pub(super) tag: Tag,
    /// Whether it has an anchor.
    pub(super) anchored: bool,
    /// Whether the text lies in [`Tree::owned`] rather than in the document.
    owned: bool,
    /// Where it starts, tag and anchor included.
    pub(super) start: u32,
    /// Where it starts, without tag and anchor; the header of a block scalar.
    pub(super) content: u32,
    /// Where it ends: behind the last byte of its last part; a block scalar ends before its last line break.
    pub(super) end: u32,
    /// The node behind it and all of its children.
    pub(super) next: u32,
    /// A scalar's text; an alias's target.
    text: u32,
    text_len: u32,
}

impl Node {
    /// Returns the bytes it takes in the document, tag and anchor included.
    pub(super) fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Tells whether it is a value that is left out.
    pub(super) fn is_absent(&self) -> bool {
        self.kind == Kind::Scalar && self.style == Style::Plain && self.content == self.end
    }

    /// Returns the node that an alias stands for.
    pub(super) fn target(&self) -> usize {
        self.text as usize
    }
}

/// The syntax tree of one document.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Text of scalars that is not in the document as such: escapes, folded lines.
    owned: String,
    /// The parts of its large collections, once a place in one of them was looked for.
    pub(super) wide: OnceLock<BTreeMap<usize, Wide>>,
    /// By how much blocks are indented, and whether lists in mappings are; once that was asked.
    pub(super) indentation: OnceLock<(usize, bool)>,
    /// The nodes that aliases stand for, with all that is in them, in order; once one was asked about.
    shared: OnceLock<Vec<Range<usize>>>,
}

impl Tree {
    /// Returns how many nodes it has.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a node.
    pub(super) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// Tells whether the document has no content.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns a scalar's text, after escapes and folding.
    pub(super) fn text<'t>(&'t self, source: &'t str, node: &Node) -> &'t str {
        let pool = if node.owned { &self.owned } else { source };
        pool.get(node.text as usize..(node.text + node.text_len) as usize).unwrap_or_default()
    }

    /// Returns the children of a collection; for a mapping, keys and values by turns.
    pub(super) fn children(&self, at: usize) -> Children<'_> {
        Children { tree: self, at: at + 1, end: self.nodes[at].next as usize }
    }

    /// Tells whether an alias stands for a node or for something that it is a part of.
    pub(super) fn is_shared(&self, at: usize) -> bool {
        let shared = self.shared.get_or_init(|| {
            let targets: BTreeSet<usize> =
                self.nodes.iter().filter(|node| node.kind == Kind::Alias).map(Node::target).collect();
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for target in targets {
                // Nodes lie within one another or apart.
                if ranges.last().is_none_or(|last| last.end <= target) {
                    ranges.push(target..self.nodes[target].next as usize);
                }
            }
            ranges
        });
        let before = shared.partition_point(|range| range.start <= at);
        before > 0 && shared[before - 1].contains(&at)
    }

    /// Returns the keys of a mapping with their values.
    pub(super) fn entries(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut children = self.children(at);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }
}

/// See [`Tree::children`].
pub(super) struct Children<'t> {
    tree: &'t Tree,
    at: usize,
    end: usize,
}

impl Iterator for Children<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.at;
        (at < self.end).then(|| {
            self.at = self.tree.nodes[at].next as usize;
            at
        })
    }
}

/// A collection that is not closed yet.
struct Open {
    at: u32,
    children: u32,
}

/// Puts nodes into a tree, in the order in which they start.
pub(super) struct Builder<'t> {
    source: &'t str,
    limits: &'t Limits,
    tree: Tree,
    open: Vec<Open>,
    /// Where the last part that was read ends.
    last_end: u32,
}

impl<'t> Builder<'t> {
    /// The caller has seen to it that offsets fit 32 bits ([`Limits::document_bytes`]).
    pub(super) fn new(source: &'t str, limits: &'t Limits) -> Self {
        // Manifests have a node for every ten bytes or so.
        let nodes = Vec::with_capacity((source.len() / 10).min(1 << 16));
        Self { source, limits, tree: Tree { nodes, ..Tree::default() }, open: Vec::new(), last_end: 0 }
    }

    fn push(&mut self, node: Node) -> Result<usize, SyntaxError> {
        let at = self.tree.nodes.len();
        if at >= self.limits.nodes {
            let message = format!("the document has more than {} values", self.limits.nodes);
            return Err(SyntaxError { message, span: node.span(), kind: SyntaxErrorKind::Limit });
        }
        if let Some(parent) = self.open.last_mut() {
            parent.children += 1;
        }
        self.last_end = node.end;
        self.tree.nodes.push(node);
        Ok(at)
    }

    /// Opens a collection whose first byte (bracket, or first child) is at `content`.
    pub(super) fn open(&mut self, kind: Kind, style: Style, content: u32) -> Result<usize, SyntaxError> {
        if self.open.len() >= self.limits.depth {
            return Err(too_deep(self.limits, content as usize..content as usize + 1));
        }
        let node = Node {
            kind,
            style,
            tag: Tag::None,
            anchored: false,
            owned: false,
            start: content,
            content,
            end: content,
            next: 0,
            text: 0,
            text_len: 0,
        };
        let at = self.push(node)?;
        self.open.push(Open { at: at as u32, children: 0 });
        Ok(at)
    }

    /// Tells whether what comes next is the value of a key.
    fn is_at_value(&self) -> bool {
        self.open.last().is_some_and(|open| {
            open.children % 2 == 1 && self.tree.nodes[open.at as usize].kind == Kind::Mapping
        })
    }

    /// Tells whether what comes next is a key.
    fn is_at_key(&self) -> bool {
        self.open.last().is_some_and(|open| {
            open.children.is_multiple_of(2) && self.tree.nodes[open.at as usize].kind == Kind::Mapping
        })
    }

    /// Closes the innermost collection; one in brackets ends at `end`, any other where its last part ends.
    pub(super) fn close(&mut self, end: u32) {
        let next = self.tree.nodes.len() as u32;
        let Some(open) = self.open.pop() else { return };
        let node = &mut self.tree.nodes[open.at as usize];
        if node.style == Style::Flow {
            self.last_end = end;
        }
        node.end = self.last_end;
        node.next = next;
    }

    /// Adds a scalar. Text that is a part of the document is referred to, not copied.
    pub(super) fn scalar(
        &mut self,
        style: Style,
        span: Range<u32>,
        text: &str,
    ) -> Result<usize, SyntaxError> {
        let base = self.source.as_ptr() as usize;
        let offset = (text.as_ptr() as usize).wrapping_sub(base);
        let owned = offset > self.source.len() || offset + text.len() > self.source.len();
        let start = if text.is_empty() {
            0
        } else if owned {
            self.tree.owned.push_str(text);
            self.tree.owned.len() - text.len()
        } else {
            offset
        };
        let next = self.tree.nodes.len() as u32 + 1;
        self.push(Node {
            kind: Kind::Scalar,
            style,
            tag: Tag::None,
            anchored: false,
            owned,
            start: span.start,
            content: span.start,
            end: span.end,
            next,
            text: start as u32,
            text_len: text.len() as u32,
        })
    }

    /// Returns where the innermost collection in brackets that is not closed starts. A pair in a list (`[a:
    /// b]`) is a mapping that has none.
    fn open_bracket(&self, source: &str) -> Option<usize> {
        let open = self
            .open
            .iter()
            .rev()
            .map(|open| &self.tree.nodes[open.at as usize])
            .filter(|node| node.style == Style::Flow);
        open.map(|node| node.content as usize)
            .find(|at| matches!(source.as_bytes().get(*at), Some(b'[' | b'{')))
    }

    /// Returns the tree.
    pub(super) fn finish(self) -> Tree {
        self.tree
    }
}

fn too_deep(limits: &Limits, span: Range<usize>) -> SyntaxError {
    SyntaxError {
        message: format!("nested more than {} levels deep", limits.depth),
        span,
        kind: SyntaxErrorKind::Limit,
    }
}

/// Reads the first YAML document of a text; Go's decoder looks no further either.
pub(super) fn read(source: &str, directives: bool, limits: &Limits) -> Result<Tree, SyntaxError> {
    let options = granit_parser::options! {
        disallow_directives: !directives,
        emit_anchor_events: true,
        emit_comments: false,
        // Ours is the stricter limit: it counts block and flow together.
        flow_nesting_limit: limits.depth + 1,
        block_nesting_limit: limits.depth + 1,
    };
    let mut reader = Reader::new(source, limits, None);
    match Parser::new_from_str_with_options(source, options.clone()).try_load(&mut reader, false) {
        Ok(()) => reader.finish(),
        Err(TryLoadError::Receiver(error)) => Err(error),
        Err(TryLoadError::Scan(error)) => {
            let explained = explain(&error, source, limits, &reader.builder);
            if is_strict(error.kind()) {
                read_covered(source, options, limits, explained)
            } else {
                Err(explained)
            }
        }
    }
}

/// Tells whether the parser may have refused what Go's decoder takes: see [`super::quoted`].
fn is_strict(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidQuotedScalarIndent
            | ErrorKind::TabInIndentation
            | ErrorKind::UnknownQuotedScalarEscape
            | ErrorKind::CommentNotSeparated
    )
}

/// Reads a text in which lines in quotes are not indented as the parser wants them. `refused` says what it
/// stumbled over first.
fn read_covered(
    source: &str,
    options: Options,
    limits: &Limits,
    refused: SyntaxError,
) -> Result<Tree, SyntaxError> {
    let covers = Rc::new(Covers::default());
    let mut reader = Reader::new(source, limits, Some(options.clone()));
    let result =
        Parser::with_options(Covered::new(source, Rc::clone(&covers)), options).try_load(&mut reader, false);
    if let Some(open) = covers.unclosed.get() {
        let line = memchr::memchr2(b'\n', b'\r', &source.as_bytes()[open..]).unwrap_or(source.len() - open);
        let message = "this quote is never closed".to_owned();
        return Err(SyntaxError { message, span: open..open + line, kind: SyntaxErrorKind::Syntax });
    }
    match result {
        // Nothing was covered that is no text in quotes.
        Ok(()) if *covers.texts.borrow() == reader.texts => reader.finish(),
        Ok(()) => Err(refused),
        Err(TryLoadError::Scan(error)) => Err(explain(&error, source, limits, &reader.builder)),
        Err(TryLoadError::Receiver(error)) => Err(error),
    }
}

/// Reads a text in quotes by itself, where its lines need no indentation.
fn quoted(
    source: &str,
    span: Range<usize>,
    options: &Options,
    limits: &Limits,
) -> Result<String, SyntaxError> {
    let text = &source[span.clone()];
    let dropped = if text.starts_with('"') { apostrophes(text.as_bytes()) } else { Vec::new() };
    let alone: Cow<'_, str> = if dropped.is_empty() { text.into() } else { without(text, &dropped).into() };
    for event in Parser::new_from_str_with_options(&alone, options.clone()) {
        match event {
            Ok((Event::Scalar(text, ..), _)) => return Ok(text.into_owned()),
            Ok(_) => {}
            Err(error) => {
                let mut error = explain(&error, &alone, limits, &Builder::new(&alone, limits));
                error.span.end = error.span.end.min(text.len());
                return Err(error.shifted(span.start));
            }
        }
    }
    Err(SyntaxError { message: "this quote is never closed".to_owned(), span, kind: SyntaxErrorKind::Syntax })
}

/// Returns a text without the bytes at some places, which are ASCII and in order.
fn without(text: &str, places: &[usize]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for place in places {
        out.push_str(&text[from..*place]);
        from = place + 1;
    }
    out + &text[from..]
}

/// Turns the parser's events into nodes.
struct Reader<'t> {
    source: &'t str,
    builder: Builder<'t>,
    /// The nodes that anchors stand at, by the parser's numbers.
    anchors: Vec<u32>,
    /// The node that was added last.
    last: usize,
    /// Where the document ends: what follows is not read.
    end: usize,
    /// Set where texts in quotes come covered, and are to be read apart.
    covered: Option<Options>,
    /// The texts that came covered.
    texts: Vec<Range<usize>>,
}

impl<'i> TrySpannedEventReceiver<'i> for Reader<'_> {
    type Error = SyntaxError;

    fn on_event(&mut self, event: Event<'i>, span: Span) -> Result<(), SyntaxError> {
        let start = offset(span.start.byte_offset());
        let end = offset(span.end.byte_offset());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.last = self.scalar(&text, style, &span)?;
                if let Some(tag) = tag.as_deref() {
                    self.set_tag(tag, &span);
                }
                self.set_anchor(anchor);
            }
            Event::MappingStart(style, anchor, _) => {
                self.last = self.builder.open(Kind::Mapping, collection_style(style), start)?;
                self.widen(tag_start(&span));
                self.set_anchor(anchor);
            }
            Event::SequenceStart(style, anchor, _) => {
                let style = collection_style(style);
                let mut content = start;
                if style == Style::Block && self.builder.is_at_value() {
                    // A list whose dashes stand right below the key's first letter is reported at its first
                    // item.
                    let from = self.builder.last_end.max(tag_end(&span));
                    content = introducer(self.source, from as usize, start as usize, b"-") as u32;
                }
                self.last = self.builder.open(Kind::Sequence, style, content)?;
                self.widen(tag_start(&span));
                self.set_anchor(anchor);
            }
            Event::MappingEnd | Event::SequenceEnd => self.builder.close(end),
            Event::DocumentEnd => self.end = start as usize,
            Event::Anchor(..) => {
                self.builder.tree.nodes[self.last].anchored = true;
                self.widen(Some(start));
            }
            Event::Alias(id) => {
                self.last = self.builder.scalar(Style::Plain, start..end, "")?;
                let node = &mut self.builder.tree.nodes[self.last];
                node.kind = Kind::Alias;
                node.text = self.anchors.get(id).copied().unwrap_or_default();
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'t> Reader<'t> {
    fn new(source: &'t str, limits: &'t Limits, covered: Option<Options>) -> Self {
        let builder = Builder::new(source, limits);
        Self { source, builder, anchors: Vec::new(), last: 0, end: source.len(), covered, texts: Vec::new() }
    }

    fn finish(self) -> Result<Tree, SyntaxError> {
        let tree = self.builder.finish();
        check_tabs(&self.source[..self.end.min(self.source.len())], &tree)?;
        Ok(tree)
    }

    /// Adds a text in quotes that may come covered.
    fn lines(&mut self, style: Style, text: &str, span: Range<u32>) -> Result<usize, SyntaxError> {
        let place = span.start as usize..span.end as usize;
        let has_colon = || self.source[place.end..].trim_start_matches([' ', '\t']).starts_with(':');
        if self.builder.is_at_key() && self.source[place.clone()].contains(['\n', '\r']) && has_colon() {
            let message = "a key of several lines, which kubectl refuses".to_owned();
            return Err(SyntaxError { message, span: place, kind: SyntaxErrorKind::Syntax });
        }
        let Some(options) = &self.covered else { return self.builder.scalar(style, span, text) };
        let text = quoted(self.source, place.clone(), options, self.builder.limits)?;
        self.texts.push(place);
        self.builder.scalar(style, span, &text)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: &Span) -> Result<usize, SyntaxError> {
        let start = offset(span.start.byte_offset());
        let end = offset(span.end.byte_offset());
        let style = match style {
            // The parser calls a value that is left out `~`, or the empty text, and puts it before the colon.
            ScalarStyle::Plain if start == end => {
                let place = if self.builder.is_at_value() {
                    behind_colon(self.source, start as usize) as u32
                } else {
                    start
                };
                return self.builder.scalar(Style::Plain, place..place, "");
            }
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => {
                check_escapes(self.source, start as usize..end as usize)?;
                Style::Double
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let from = self.builder.last_end.max(tag_end(span));
                let header = introducer(self.source, from as usize, start as usize, b"|>");
                let end = trim_block(self.source, header, start as usize, end as usize);
                let style = if style == ScalarStyle::Literal { Style::Literal } else { Style::Folded };
                return self.builder.scalar(style, header as u32..end as u32, text);
            }
        };
        if style != Style::Plain && is_covered(&self.source.as_bytes()[start as usize..end as usize]) {
            return self.lines(style, text, start..end);
        }
        self.builder.scalar(style, start..end, text)
    }

    fn set_tag(&mut self, tag: &granit_parser::Tag, span: &Span) {
        let node = &mut self.builder.tree.nodes[self.last];
        node.tag = match resolve_tag(tag) {
            // With nothing behind it, `!` is the empty text.
            Tag::NonSpecific if node.is_absent() => Tag::Other,
            tag => tag,
        };
        self.widen(tag_start(span));
    }

    fn set_anchor(&mut self, id: usize) {
        if id == 0 {
            return;
        }
        if self.anchors.len() <= id {
            self.anchors.resize(id + 1, 0);
        }
        self.anchors[id] = self.last as u32;
    }

    /// Makes the node that was added last start at its tag or anchor.
    fn widen(&mut self, start: Option<u32>) {
        let node = &mut self.builder.tree.nodes[self.last];
        node.start = node.start.min(start.unwrap_or(node.start));
    }
}

fn offset(at: Option<usize>) -> u32 {
    u32::try_from(at.unwrap_or_default()).unwrap_or(u32::MAX)
}

fn collection_style(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Block => Style::Block,
        StructureStyle::Flow => Style::Flow,
    }
}

fn tag_start(span: &Span) -> Option<u32> {
    span.tag_start().map(|mark| offset(mark.byte_offset()))
}

fn tag_end(span: &Span) -> u32 {
    span.tag_span().map_or(0, |tag| offset(tag.end.byte_offset()))
}

fn resolve_tag(tag: &granit_parser::Tag) -> Tag {
    const CORE: &str = "tag:yaml.org,2002:";
    match tag.suffix_in_namespace(CORE).as_deref() {
        Some("str") => Tag::Str,
        Some("bool") => Tag::Bool,
        Some("int") => Tag::Int,
        Some("float") => Tag::Float,
        Some("null") => Tag::Null,
        Some("timestamp") => Tag::Timestamp,
        Some("binary") => Tag::Binary,
        Some("merge") => Tag::Merge,
        Some(_) => Tag::Other,
        None if tag.parts() == ("", "!") => Tag::NonSpecific,
        None => Tag::Other,
    }
}

/// Returns the place behind the colon that follows the end of a key, or that end itself where no colon
/// follows.
fn behind_colon(source: &str, end: usize) -> usize {
    let rest = source.get(end..).unwrap_or_default();
    let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    if trimmed.starts_with(':') { source.len() - trimmed.len() + 1 } else { end }
}

/// Returns where one of the given indicators stands, behind the end of what came before and before `content`;
/// otherwise `content`.
fn introducer(source: &str, from: usize, content: usize, indicators: &[u8]) -> usize {
    let bytes = source.as_bytes();
    let mut at = from;
    while at < content {
        match bytes[at] {
            byte if indicators.contains(&byte) => return at,
            b'#' => at += memchr::memchr2(b'\n', b'\r', &bytes[at..content]).unwrap_or(content - at),
            // An anchor or a verbatim tag may have any character.
            b'&' | b'!' => {
                at += bytes[at..content].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
            }
            _ => at += 1,
        }
    }
    content
}

/// Returns where a block scalar ends for a reader: before its last line break and, where they do not count,
/// the blank lines behind it.
fn trim_block(source: &str, header: usize, content: usize, end: usize) -> usize {
    let keeps =
        source[header..content].split(['\n', '\r', '#']).next().is_some_and(|line| line.contains('+'));
    let end = end.max(content);
    let text = &source[content..end];
    let text = if keeps {
        // The parser may have gone on into the indentation of what follows.
        let text =
            Some(text.trim_end_matches(' ')).filter(|text| text.ends_with(['\n', '\r'])).unwrap_or(text);
        text.strip_suffix("\r\n").or_else(|| text.strip_suffix(['\n', '\r'])).unwrap_or(text)
    } else {
        text.trim_end_matches(['\n', '\r', ' '])
    };
    if text.is_empty() {
        source[..content].trim_end_matches(['\n', '\r', ' ']).len().max(header + 1)
    } else {
        content + text.len()
    }
}

/// Refuses tabs where Go's decoder takes no blanks: at the start of a line or behind a dash, outside of
/// brackets and text.
///
/// That holds for lines that are blank or have nothing but a comment, too.
fn check_tabs(source: &str, tree: &Tree) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    // Where text and brackets that started before the tab end.
    let mut covered = 0;
    let mut next = 0;
    // The last tab that stands behind something on its line.
    let mut behind = None;
    for tab in memchr::memchr_iter(b'\t', bytes) {
        while let Some(node) = tree.nodes.get(next).filter(|node| node.content as usize <= tab) {
            if node.style != Style::Block {
                covered = covered.max(node.end as usize);
            }
            next += 1;
        }
        if tab < covered {
            continue;
        }
        let known = behind
            .is_some_and(|behind: usize| bytes[behind..tab].iter().all(|byte| matches!(byte, b' ' | b'\t')));
        if !known
            && bytes[..tab]
                .iter()
                .rev()
                .take_while(|byte| !matches!(byte, b'\n' | b'\r'))
                .all(|byte| matches!(byte, b' ' | b'\t' | b'-'))
        {
            return Err(SyntaxError {
                message: TAB.to_owned(),
                span: tab..tab + 1,
                kind: SyntaxErrorKind::Syntax,
            });
        }
        behind = Some(tab);
    }
    Ok(())
}

const TAB: &str = "a tab in the indentation; YAML is indented with spaces";

/// Refuses the escapes of a double-quoted scalar that Go's decoder does not know: `\/`, and halves of
/// surrogate pairs.
fn check_escapes(source: &str, span: Range<usize>) -> Result<(), SyntaxError> {
    let bytes = source.as_bytes();
    let mut at = span.start;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..span.end]) {
        at += step;
        let refuse = |len: usize, what: &str| {
            let span = at..(at + len).min(span.end);
            Err(SyntaxError {
                message: format!("kubectl does not know the escape `{}`{what}", &source[span.clone()]),
                span,
                kind: SyntaxErrorKind::Syntax,
            })
        };
        match bytes.get(at + 1) {
            Some(b'/') => return refuse(2, ""),
            Some(b'u')
                if matches!(bytes.get(at + 2), Some(b'd' | b'D'))
                    && matches!(bytes.get(at + 3), Some(b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F')) =>
            {
                return refuse(6, ": it is half of a character; write the character itself");
            }
            _ => {}
        }
        at = (at + 2).min(span.end);
    }
    Ok(())
}

/// Says in our words what the parser stumbled over.
fn explain(error: &ScanError, source: &str, limits: &Limits, builder: &Builder<'_>) -> SyntaxError {
    // The parser may stand in the middle of a character that is a line break to it.
    let at = character_at(source, error.marker().byte_offset().unwrap_or(source.len()));
    let rest = &source[at..];
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let mut span = at..at + word.len().max(rest.chars().next().map_or(0, char::len_utf8));
    let first = rest.chars().next();
    // Inside of brackets that opened on a line above, the bracket that is missing is the better guess.
    let bracket = builder
        .open_bracket(source)
        .filter(|bracket| source.get(*bracket..at).is_some_and(|between| between.contains(['\n', '\r'])));
    let message = match error.kind() {
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::BlockSequenceEntryNotAllowed
            if bracket.is_some() =>
        {
            let bracket = bracket.unwrap_or_default();
            span = bracket..bracket + 1;
            format!(
                "this `{}` is not closed where it should be, or a `,` is missing behind it",
                &source[span.clone()]
            )
        }
        ErrorKind::RecursionLimitExceeded => {
            return too_deep(limits, at..at + first.map_or(0, char::len_utf8));
        }
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation | ErrorKind::TabAtBlockScalarStart => {
            let line = source[..at].rfind(['\n', '\r']).map_or(0, |line| line + 1);
            if let Some(tab) = source[line..at].find('\t') {
                span = line + tab..line + tab + 1;
            }
            TAB.to_owned()
        }
        ErrorKind::TabNotAllowed | ErrorKind::TabInPlainScalar => "a tab where YAML wants a space".to_owned(),
        ErrorKind::UnexpectedCharacter { character: '\t' } => TAB.to_owned(),
        ErrorKind::UnexpectedCharacter { character } => {
            format!("a value cannot start with `{}`; put it in quotes", character.escape_default())
        }
        ErrorKind::DirectiveDisallowed => {
            "a line that starts with `%` is a directive, which kubectl refuses".to_owned()
        }
        ErrorKind::UnknownAnchor => format!(
            "`{}` refers to an anchor that is not defined before it",
            word.trim_end_matches([',', ']', '}'])
        ),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "a `:` that makes no key here; check the indentation, or put the value in quotes".to_owned()
        }
        ErrorKind::ExpectedBlockMappingKey => match first {
            Some('-') => "a list item where a key belongs; check the indentation".to_owned(),
            Some('}' | ']') => format!("a `{}` that closes nothing", first.unwrap_or_default()),
            _ => "a key belongs here; check the indentation".to_owned(),
        },
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            "a key without a `:` behind it".to_owned()
        }
        ErrorKind::ExpectedBlockSequenceEntry => {
            "a list item, `- …`, belongs here; check the indentation".to_owned()
        }
        ErrorKind::BlockSequenceEntryNotAllowed => {
            "a list cannot start here; start it on a line of its own".to_owned()
        }
        ErrorKind::BlockEntryInFlowCollection => {
            "a `- ` inside of brackets; separate the items with `,`".to_owned()
        }
        ErrorKind::MappingKeyNotAllowed => "a key cannot start here".to_owned(),
        ErrorKind::ExpectedFlowMappingSeparator => "a `,` or `}` belongs here".to_owned(),
        ErrorKind::ExpectedFlowSequenceSeparator => "a `,` or `]` belongs here".to_owned(),
        ErrorKind::UnclosedFlowCollection { open } => format!("this `{open}` is never closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            format!("a `{close}` where the bracket `{open}` is open")
        }
        ErrorKind::MisplacedFlowCollectionEnd => "a bracket that closes nothing".to_owned(),
        ErrorKind::UnexpectedEofFlowSequence => "the document ends inside of `[`".to_owned(),
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            "the document ends inside of `{`".to_owned()
        }
        ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence => "the document ends too early".to_owned(),
        ErrorKind::InvalidQuotedScalarIndent if rest.trim().is_empty() => {
            // The text ends inside of quotes, which opened behind the last thing that was read.
            let open = introducer(source, builder.last_end as usize, at, b"'\"");
            span = open..open + source[open..].split(['\n', '\r']).next().map_or(0, str::len);
            "this quote is never closed".to_owned()
        }
        ErrorKind::UnclosedQuotedScalar => "this quote is never closed".to_owned(),
        ErrorKind::DocumentIndicatorInQuotedScalar => "a document ends inside of quotes".to_owned(),
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "text behind a closing quote".to_owned()
        }
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::InvalidFlowScalarIndent => {
            "a line inside of quotes or brackets that is not indented enough".to_owned()
        }
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => {
            "an escape that YAML does not know; use `'` instead of `\"`, or double the backslash".to_owned()
        }
        ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => "an escape that is half of a character".to_owned(),
        ErrorKind::InvalidIndentation | ErrorKind::InvalidBlockScalarIndent => {
            "the indentation does not fit the line above".to_owned()
        }
        ErrorKind::InvalidBlockScalarHeader | ErrorKind::ZeroBlockScalarIndent => {
            "this is no header of a block of text; write `|` or `>` alone".to_owned()
        }
        ErrorKind::CommentInterceptedScalar => {
            "a comment in the middle of a text of several lines".to_owned()
        }
        ErrorKind::CommentNotSeparated => "a comment needs a space before its `#`".to_owned(),
        ErrorKind::BomInsideDocument => "a byte-order mark in the middle of the document".to_owned(),
        ErrorKind::UndeclaredTagHandle => "a tag whose handle is not declared".to_owned(),
        ErrorKind::InvalidDocumentEnd => "text behind the end of the document".to_owned(),
        other => format!("this is not YAML: {other}"),
    };
    SyntaxError { message, span, kind: SyntaxErrorKind::Syntax }
}
