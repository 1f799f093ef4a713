//! Why a source cannot be read.

use std::ops::Range;

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The message, without a period.
    pub message: String,
    /// The bytes of the source that it is about.
    pub span: Range<usize>,
    /// The kind of error.
    pub kind: SyntaxErrorKind,
}

impl SyntaxError {
    pub(super) fn syntax(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span, kind: SyntaxErrorKind::Syntax }
    }

    pub(super) fn not_utf8(at: usize) -> Self {
        let message = "the file is not UTF-8".to_owned();
        Self { message, span: at..at + 1, kind: SyntaxErrorKind::Encoding }
    }

    pub(super) fn limit(message: String, span: Range<usize>) -> Self {
        Self { message, span, kind: SyntaxErrorKind::Limit }
    }

    pub(super) fn dense(message: String, span: Range<usize>) -> Self {
        Self { message, span, kind: SyntaxErrorKind::Dense }
    }

    /// Moves the span by the offset of the document in the source.
    pub(super) fn shifted(mut self, base: usize) -> Self {
        self.span = self.span.start + base..self.span.end + base;
        self
    }
}

/// The kinds of [`SyntaxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// Not YAML or JSON, or kubectl rejects it.
    Syntax,
    /// A template that is not rendered (`{{ … }}`, `{% … %}` outside quotes).
    Template,
    /// Beyond a limit: too deep, too many aliases, too large.
    Limit,
    /// More keys and values than a document of its length may have.
    Dense,
    /// More documents than are read.
    Documents,
    /// Not UTF-8.
    Encoding,
}
