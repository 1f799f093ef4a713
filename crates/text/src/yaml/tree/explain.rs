//! Messages for what the YAML parser rejects.

use std::borrow::Cow;

use granit_parser::{ErrorKind, ScanError};

use super::build::{TreeBuilder, too_deep};
use super::read::{UNCLOSED_QUOTE, introducer};
use super::refuse::TAB;
use crate::lines::character_at;
use crate::yaml::error::SyntaxError;
use crate::yaml::limits::Limits;

/// Returns the parser's error with a message of ours, and the place that most likely needs the fix.
pub(super) fn explain(
    error: &ScanError,
    source: &str,
    limits: &Limits,
    builder: &TreeBuilder<'_>,
) -> SyntaxError {
    // The parser may stop inside a character that it takes for a line break.
    let at = character_at(source, error.marker().byte_offset().unwrap_or(source.len()));
    let rest = &source[at..];
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let first = rest.chars().next();
    let width = first.map_or(0, char::len_utf8);
    if matches!(
        error.kind(),
        ErrorKind::MappingValueNotAllowed
            | ErrorKind::InvalidColonPlacement
            | ErrorKind::ExpectedFlowMappingSeparator
            | ErrorKind::ExpectedFlowSequenceSeparator
            | ErrorKind::BlockEntryInFlowCollection
            | ErrorKind::BlockSequenceEntryNotAllowed
    ) && let Some(bracket) = bracket_above(builder, source, at)
    {
        let message = format!("`{}` is not closed, or a `,` is missing after it", &source[bracket..=bracket]);
        return SyntaxError::syntax(message, bracket..bracket + 1);
    }
    let mut span = at..at + word.len().max(width);
    let message = match error.kind() {
        ErrorKind::RecursionLimitExceeded => return too_deep(limits, at..at + width),
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation | ErrorKind::TabAtBlockScalarStart => {
            let line = source[..at].rfind(['\n', '\r']).map_or(0, |line| line + 1);
            if let Some(tab) = source[line..at].find('\t') {
                span = line + tab..line + tab + 1;
            }
            TAB.into()
        }
        ErrorKind::UnexpectedCharacter { character: '\t' } => TAB.into(),
        ErrorKind::UnexpectedCharacter { character } => {
            let character = character.escape_default();
            format!("a value cannot start with `{character}`; put it in quotes").into()
        }
        ErrorKind::UnknownAnchor => {
            let alias = word.trim_end_matches([',', ']', '}']);
            format!("`{alias}` refers to an anchor that is not defined before it").into()
        }
        ErrorKind::UnclosedFlowCollection { open } => format!("`{open}` is never closed").into(),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            format!("`{open}` is closed with `{close}`").into()
        }
        ErrorKind::ExpectedBlockMappingKey => expected_key(first).into(),
        ErrorKind::InvalidQuotedScalarIndent if rest.trim().is_empty() => {
            // The text ends inside quotes that opened after the last node.
            let open = introducer(source, builder.last_end as usize, at, b"'\"");
            span = open..open + source[open..].split(['\n', '\r']).next().map_or(0, str::len);
            UNCLOSED_QUOTE.into()
        }
        kind => plain(kind).map_or_else(|| format!("invalid YAML: {kind}").into(), Cow::Borrowed),
    };
    SyntaxError::syntax(message, span)
}

/// Returns what is wrong where a key is expected and something else begins.
fn expected_key(first: Option<char>) -> &'static str {
    match first {
        Some('-') => "expected a key, found a list item; check the indentation",
        Some('}') => "`}` without an opening `{`",
        Some(']') => "`]` without an opening `[`",
        _ => "expected a key; check the indentation",
    }
}

/// Returns the message of an error if it does not depend on the place.
fn plain(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::TabNotAllowed | ErrorKind::TabInPlainScalar => "tab where a space is required",
        ErrorKind::DirectiveDisallowed => "a line that starts with `%` is a directive; kubectl rejects it",
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "unexpected `:`; check the indentation, or put the value in quotes"
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => "missing `:` after this key",
        ErrorKind::ExpectedBlockSequenceEntry => "expected a list item (`- …`); check the indentation",
        ErrorKind::BlockSequenceEntryNotAllowed => "a list cannot start here; start it on its own line",
        ErrorKind::BlockEntryInFlowCollection => "`- ` inside brackets; separate the items with `,`",
        ErrorKind::MappingKeyNotAllowed => "a key cannot start here",
        ErrorKind::ExpectedFlowMappingSeparator => "expected `,` or `}`",
        ErrorKind::ExpectedFlowSequenceSeparator => "expected `,` or `]`",
        ErrorKind::MisplacedFlowCollectionEnd => "closing bracket without an opening one",
        ErrorKind::UnexpectedEofFlowSequence => "the document ends inside `[`",
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            "the document ends inside `{`"
        }
        ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence => "the document ends too early",
        ErrorKind::UnclosedQuotedScalar => UNCLOSED_QUOTE,
        ErrorKind::DocumentIndicatorInQuotedScalar => "the document ends inside quotes",
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "unexpected text after the closing quote"
        }
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::InvalidFlowScalarIndent => {
            "a line inside quotes or brackets is not indented enough"
        }
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => {
            "unknown escape; use `'` instead of `\"`, or double the backslash"
        }
        ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => "escape of half a character",
        ErrorKind::InvalidIndentation | ErrorKind::InvalidBlockScalarIndent => {
            "the indentation does not match the line above"
        }
        ErrorKind::InvalidBlockScalarHeader | ErrorKind::ZeroBlockScalarIndent => {
            "invalid start of a block of text; write only `|` or `>`"
        }
        ErrorKind::CommentInterceptedScalar => "comment inside a text of several lines",
        ErrorKind::CommentNotSeparated => "a comment needs a space before its `#`",
        ErrorKind::BomInsideDocument => "byte order mark inside the document",
        ErrorKind::UndeclaredTagHandle => "undeclared tag handle",
        ErrorKind::InvalidDocumentEnd => "unexpected text after the end of the document",
        _ => return None,
    })
}

/// Returns the innermost open bracket if it is on a line above: closing it is then the likely fix.
fn bracket_above(builder: &TreeBuilder<'_>, source: &str, at: usize) -> Option<usize> {
    let bracket = builder.open_bracket(source)?;
    source.get(bracket..at)?.contains(['\n', '\r']).then_some(bracket)
}
