//! Messages for what the YAML parser refuses.

use granit_parser::{ErrorKind, ScanError};

use super::build::{Builder, too_deep};
use super::read::introducer;
use super::refuse::TAB;
use crate::text::lines::character_at;
use crate::text::yaml::{Limits, SyntaxError, SyntaxErrorKind};

/// Says in our words what the parser stumbled over.
pub(super) fn explain(
    error: &ScanError,
    source: &str,
    limits: &Limits,
    builder: &Builder<'_>,
) -> SyntaxError {
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
