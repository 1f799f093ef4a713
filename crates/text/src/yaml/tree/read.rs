//! Turns the events of the YAML parser into nodes.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, Span, StructureStyle, TryLoadError,
    TrySpannedEventReceiver,
};

use super::build::TreeBuilder;
use super::explain::explain;
use super::refuse::{check_escapes, check_tabs};
use super::{NodeKind, Style, SyntaxTree, Tag};
use crate::meter;
use crate::yaml::error::SyntaxError;
use crate::yaml::limits::Limits;
use crate::yaml::quotes::{CoveredSource, Covers, apostrophes, is_covered};

/// The steps for an event, with the tokens that it is made of.
const STEPS_PER_EVENT: u64 = 4;
pub(super) const UNCLOSED_QUOTE: &str = "the quote is never closed";

/// Reads the first YAML document of a text, as Go's decoder does.
pub(in crate::yaml) fn read(
    source: &str,
    directives: bool,
    limits: &Limits,
) -> Result<SyntaxTree, SyntaxError> {
    let options = granit_parser::options! {
        disallow_directives: !directives,
        emit_anchor_events: true,
        emit_comments: false,
        // `TreeBuilder::open` has the stricter limit: it counts block and flow together.
        flow_nesting_limit: limits.depth + 1,
        block_nesting_limit: limits.depth + 1,
    };
    let mut reader = EventReader::new(source, limits, None);
    let result = Parser::new_from_str_with_options(source, options.clone()).try_load(&mut reader, false);
    match result {
        Ok(()) => reader.finish(),
        Err(TryLoadError::Receiver(error)) => Err(error),
        Err(TryLoadError::Scan(error)) => {
            let explained = explain(&error, source, limits, &reader.builder);
            // Make room for the second reading.
            drop(reader);
            if is_strict(error.kind()) {
                read_covered(source, options, limits, explained)
            } else {
                Err(explained)
            }
        }
    }
}

/// Tells whether Go's decoder may accept what the parser rejected: see [`crate::yaml::quotes`].
fn is_strict(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidQuotedScalarIndent
            | ErrorKind::TabInIndentation
            | ErrorKind::UnknownQuotedScalarEscape
            | ErrorKind::CommentNotSeparated
    )
}

/// Reads a text again with quoted text of several lines covered, which the parser may reject. `refused` is its
/// first error.
fn read_covered(
    source: &str,
    options: Options,
    limits: &Limits,
    refused: SyntaxError,
) -> Result<SyntaxTree, SyntaxError> {
    let covers = Rc::new(Covers::default());
    let mut reader = EventReader::new(source, limits, Some(options.clone()));
    let result = Parser::with_options(CoveredSource::new(source, Rc::clone(&covers)), options)
        .try_load(&mut reader, false);
    if let Some(open) = covers.unclosed.get() {
        let line = memchr::memchr2(b'\n', b'\r', &source.as_bytes()[open..]).unwrap_or(source.len() - open);
        return Err(SyntaxError::syntax(UNCLOSED_QUOTE, open..open + line));
    }
    match result {
        // All that was covered is quoted text.
        Ok(()) if *covers.texts.borrow() == reader.texts => reader.finish(),
        Ok(()) => Err(refused),
        Err(TryLoadError::Scan(error)) => Err(explain(&error, source, limits, &reader.builder)),
        Err(TryLoadError::Receiver(error)) => Err(error),
    }
}

/// Reads quoted text by itself, where its lines need no indentation.
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
                let mut error = explain(&error, &alone, limits, &TreeBuilder::new(&alone, limits));
                error.span.end = error.span.end.min(text.len());
                return Err(error.shifted(span.start));
            }
        }
    }
    Err(SyntaxError::syntax(UNCLOSED_QUOTE, span))
}

/// Returns a text without some ASCII bytes, whose places are in order.
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
struct EventReader<'t> {
    source: &'t str,
    builder: TreeBuilder<'t>,
    /// The nodes of anchors, by the parser's numbers.
    anchors: Vec<u32>,
    /// The node that was added last.
    last: usize,
    /// Where the document ends.
    end: usize,
    /// Set if quoted text is covered, and must be read separately.
    covered: Option<Options>,
    /// The quoted text that was covered.
    texts: Vec<Range<usize>>,
}

impl<'i> TrySpannedEventReceiver<'i> for EventReader<'_> {
    type Error = SyntaxError;

    fn on_event(&mut self, event: Event<'i>, span: Span) -> Result<(), SyntaxError> {
        meter::spend(STEPS_PER_EVENT);
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
                self.last = self.builder.open(NodeKind::Mapping, collection_style(style), start)?;
                self.widen(tag_start(&span));
                self.set_anchor(anchor);
            }
            Event::SequenceStart(style, anchor, _) => {
                let style = collection_style(style);
                let mut content = start;
                if style == Style::Block && self.builder.is_at_value() {
                    // The parser reports a list that is not indented at its first item.
                    let from = self.builder.last_end.max(tag_end(&span));
                    content = introducer(self.source, from as usize, start as usize, b"-") as u32;
                }
                self.last = self.builder.open(NodeKind::Sequence, style, content)?;
                self.widen(tag_start(&span));
                self.set_anchor(anchor);
            }
            Event::MappingEnd | Event::SequenceEnd => self.builder.close(end),
            Event::DocumentEnd => self.end = start as usize,
            Event::Anchor(..) => {
                self.builder.tree.nodes.update(self.last, |node| node.anchored = true);
                self.widen(Some(start));
            }
            Event::Alias(id) => {
                self.last = self.builder.scalar(Style::Plain, start..end, "")?;
                let target = self.anchors.get(id).copied().unwrap_or_default();
                self.builder.tree.nodes.update(self.last, |node| {
                    node.kind = NodeKind::Alias;
                    (node.text, node.text_len) = (target, 0);
                });
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'t> EventReader<'t> {
    fn new(source: &'t str, limits: &'t Limits, covered: Option<Options>) -> Self {
        let builder = TreeBuilder::new(source, limits);
        Self { source, builder, anchors: Vec::new(), last: 0, end: source.len(), covered, texts: Vec::new() }
    }

    fn finish(self) -> Result<SyntaxTree, SyntaxError> {
        let tree = self.builder.finish();
        check_tabs(&self.source[..self.end.min(self.source.len())], &tree)?;
        Ok(tree)
    }

    /// Adds quoted text that may be covered.
    fn quoted(&mut self, style: Style, text: &str, span: Range<u32>) -> Result<usize, SyntaxError> {
        let place = span.start as usize..span.end as usize;
        let has_colon = || self.source[place.end..].trim_start_matches([' ', '\t']).starts_with(':');
        if self.builder.is_at_key() && self.source[place.clone()].contains(['\n', '\r']) && has_colon() {
            return Err(SyntaxError::syntax("kubectl rejects keys of several lines", place));
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
            // The parser puts a missing value (`~` or empty text) before the colon.
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
            return self.quoted(style, text, start..end);
        }
        self.builder.scalar(style, start..end, text)
    }

    fn set_tag(&mut self, tag: &granit_parser::Tag, span: &Span) {
        self.builder.tree.nodes.update(self.last, |node| {
            node.tag = match resolve_tag(tag) {
                // `!` alone is the empty text.
                Tag::NonSpecific if node.is_absent() => Tag::Other,
                tag => tag,
            };
        });
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

    /// Moves the start of the last node to its tag or anchor.
    fn widen(&mut self, start: Option<u32>) {
        let Some(start) = start else { return };
        self.builder.tree.nodes.update(self.last, |node| node.start = node.start.min(start));
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

/// Returns the place after the colon that follows `end`, or `end` if none follows.
fn behind_colon(source: &str, end: usize) -> usize {
    let rest = source.get(end..).unwrap_or_default();
    let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    if trimmed.starts_with(':') { source.len() - trimmed.len() + 1 } else { end }
}

/// Returns the place of one of the indicators between `from` and `content`, or `content` if there is none.
pub(super) fn introducer(source: &str, from: usize, content: usize, indicators: &[u8]) -> usize {
    let bytes = source.as_bytes();
    let mut at = from;
    while at < content {
        match bytes[at] {
            byte if indicators.contains(&byte) => return at,
            b'#' => at += memchr::memchr2(b'\n', b'\r', &bytes[at..content]).unwrap_or(content - at),
            // Anchors and verbatim tags may have any character.
            b'&' | b'!' => {
                at += bytes[at..content].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
            }
            _ => at += 1,
        }
    }
    content
}

/// Returns the visible end of a block scalar: before its last line break and before blank lines that are not
/// part of it.
fn trim_block(source: &str, header: usize, content: usize, end: usize) -> usize {
    let keeps =
        source[header..content].split(['\n', '\r', '#']).next().is_some_and(|line| line.contains('+'));
    let end = end.max(content);
    let text = &source[content..end];
    let text = if keeps {
        // The parser may include the indentation of what follows.
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
