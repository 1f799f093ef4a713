//! Splits a source into documents as kubectl does: as text, before parsing.
//!
//! A stream whose first non-blank byte is `{` is a series of JSON values; if the first or second value is not
//! JSON, kubectl reads the rest as YAML. Otherwise a line that starts with `---` ends a document; only spaces
//! and a comment may follow on that line.

use std::ops::Range;

use memchr::memmem;

use super::json;
use crate::yaml::error::{SyntaxError, SyntaxErrorKind};
use crate::yaml::limits::Limits;

/// How far kubectl searches for the first brace of JSON, in bytes.
const SNIFFED: usize = 4096;

/// How to parse a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentSyntax {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
    /// As YAML after directives, which kubectl rejects.
    YamlWithDirectives,
}

/// The bytes of one document. Chunks can be [parsed](super::parse) in parallel.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The document's number in the source, from 0. Empty documents count, as in kubectl.
    pub(crate) index: usize,
    /// Its bytes in the source, without separators.
    pub span: Range<usize>,
    pub(super) form: DocumentSyntax,
    /// Why kubectl rejects the document although it can be parsed.
    pub(super) refused: Option<SyntaxError>,
    /// Why it is not JSON, if kubectl tries that first.
    pub(super) not_json: Option<SyntaxError>,
}

/// The documents of a source, in order. Made by [`super::split()`].
#[derive(Clone, Debug)]
pub struct Chunks<'s> {
    source: &'s [u8],
    limits: Limits,
    at: usize,
    index: usize,
    stage: SplitStage,
    /// Why the next YAML document is not JSON.
    not_json: Option<SyntaxError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitStage {
    Start,
    Json,
    Yaml,
    Done,
}

impl<'s> Chunks<'s> {
    pub(super) fn new(source: &'s [u8], limits: &Limits) -> Self {
        Self { source, limits: *limits, at: 0, index: 0, stage: SplitStage::Start, not_json: None }
    }

    fn fail(&mut self, message: String, span: Range<usize>, kind: SyntaxErrorKind) -> SyntaxError {
        self.stage = SplitStage::Done;
        SyntaxError { message, span, kind }
    }

    /// Decides whether the stream is JSON or YAML.
    fn sniff(&mut self) -> Result<(), SyntaxError> {
        if self.source.starts_with(b"\xFF\xFE") || self.source.starts_with(b"\xFE\xFF") {
            return Err(self.fail(
                "the file is UTF-16; Kubernetes requires UTF-8".into(),
                0..2,
                SyntaxErrorKind::Encoding,
            ));
        }
        let head = &self.source[..self.source.len().min(SNIFFED)];
        let text = match str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        self.stage = if text.trim_start().starts_with('{') { SplitStage::Json } else { SplitStage::Yaml };
        Ok(())
    }

    /// Returns the next JSON value of the stream; switches to YAML where kubectl does.
    fn next_json(&mut self) -> Option<Chunk> {
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let start = self.at + self.source[self.at..].iter().take_while(blank).count();
        if start == self.source.len() {
            self.stage = SplitStage::Done;
            return None;
        }
        let end = start + json::skim(&self.source[start..]);
        // kubectl switches if the decoder fails on one of the first two values.
        if self.index < 2
            && let Err(error) = json::check(self.source, start..end, &self.limits)
            && !matches!(error.kind, SyntaxErrorKind::Limit | SyntaxErrorKind::Dense)
        {
            self.stage = SplitStage::Yaml;
            self.not_json = Some(error);
            let line_end = memchr::memchr(b'\n', &self.source[self.at..start]);
            self.at = line_end.map_or(start, |offset| self.at + offset + 1);
            return self.next_yaml();
        }
        self.at = end;
        Some(self.chunk(start..end, DocumentSyntax::Json))
    }

    /// Returns the next YAML document of the stream.
    fn next_yaml(&mut self) -> Option<Chunk> {
        let source = self.source;
        if self.at >= source.len() {
            self.stage = SplitStage::Done;
            return None;
        }
        let mut start = self.at;
        let mut refused = None;
        if let Some(separator) = Separator::parse(source, start) {
            start = separator.line_end;
            if let Some(rest) = separator.rest {
                start = if separator.apart { rest.start } else { separator.line_end };
                refused = Some(separator_error(source, self.at, &rest));
            }
        }
        let mut end = self.find_end(start);
        let mut form = DocumentSyntax::Yaml;
        if let Some(directive) = directives_only(source, start..end)
            && end < source.len()
        {
            form = DocumentSyntax::YamlWithDirectives;
            end = self.find_end(Separator::parse(source, end).map_or(end, |separator| separator.line_end));
            refused.get_or_insert_with(|| directive_error(directive));
        }
        // A separator that kubectl rejects is part of the next document, which reports it.
        self.at = match Separator::parse(source, end) {
            Some(separator) if separator.rest.is_none() => separator.line_end,
            _ => end,
        };
        let mut chunk = self.chunk(start..end, form);
        chunk.refused = refused;
        chunk.not_json = self.not_json.take();
        Some(chunk)
    }

    fn chunk(&mut self, span: Range<usize>, form: DocumentSyntax) -> Chunk {
        let index = self.index;
        self.index += 1;
        Chunk { index, span, form, refused: None, not_json: None }
    }

    /// Returns the start of the next separator line from `start` on, or the end of the source.
    fn find_end(&self, start: usize) -> usize {
        if self.source[start..].starts_with(b"---") && (start == 0 || self.source[start - 1] == b'\n') {
            return start;
        }
        memmem::find(&self.source[start..], b"\n---").map_or(self.source.len(), |offset| start + offset + 1)
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Chunk, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stage == SplitStage::Start
            && let Err(error) = self.sniff()
        {
            return Some(Err(error));
        }
        let chunk = match self.stage {
            SplitStage::Json => self.next_json()?,
            SplitStage::Yaml => self.next_yaml()?,
            SplitStage::Start | SplitStage::Done => return None,
        };
        if chunk.index >= self.limits.documents {
            let message = format!("the file has more than {} documents", self.limits.documents);
            let start = chunk.span.start;
            return Some(Err(self.fail(message, start..start, SyntaxErrorKind::Documents)));
        }
        Some(Ok(chunk))
    }
}

/// A line that starts with `---`.
struct Separator {
    /// Where the next line starts.
    line_end: usize,
    /// The text after the dashes that is no comment, which kubectl rejects.
    rest: Option<Range<usize>>,
    /// Whether spaces precede it, so that it can be content.
    apart: bool,
}

impl Separator {
    fn parse(source: &[u8], start: usize) -> Option<Self> {
        if !source.get(start..)?.starts_with(b"---") {
            return None;
        }
        let line_end =
            memchr::memchr(b'\n', &source[start..]).map_or(source.len(), |offset| start + offset + 1);
        let line = String::from_utf8_lossy(&source[start + 3..line_end]);
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Some(Self { line_end, rest: None, apart: true });
        }
        let bytes = &source[start + 3..line_end];
        let lead = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let tail = bytes.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
        Some(Self { line_end, rest: Some(start + 3 + lead..line_end - tail), apart: lead > 0 })
    }
}

fn separator_error(source: &[u8], line: usize, rest: &Range<usize>) -> SyntaxError {
    let message = if rest.start == line + 3 {
        let dashes = source[line..rest.end].iter().all(|byte| *byte == b'-');
        let what = if dashes {
            "a separator has exactly three dashes"
        } else {
            "a line that starts with `---` separates documents"
        };
        format!("kubectl rejects this separator: {what}")
    } else {
        "kubectl rejects a document that starts on the line of its `---`; start it on the next line"
            .to_owned()
    };
    SyntaxError::syntax(message, line..rest.end)
}

fn directive_error(span: Range<usize>) -> SyntaxError {
    let message = "kubectl rejects YAML directives; remove this line".to_owned();
    SyntaxError::syntax(message, span)
}

/// Returns the first directive of a text with only directives, comments and blank lines.
fn directives_only(source: &[u8], span: Range<usize>) -> Option<Range<usize>> {
    let mut first = None;
    let mut start = span.start;
    for line in source[span].split_inclusive(|byte| *byte == b'\n') {
        let content = line.trim_ascii();
        if line.starts_with(b"%") {
            first.get_or_insert(start..start + line.trim_ascii_end().len());
        } else if !content.is_empty() && !content.starts_with(b"#") && content != b"\xEF\xBB\xBF" {
            return None;
        }
        start += line.len();
    }
    first
}
