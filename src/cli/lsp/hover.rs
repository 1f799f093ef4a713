//! Hover texts: the pages of the rules with findings at a place, or of the rule that is named there.

use std::fmt::Write as _;
use std::ops::Range;

use gen_lsp_types::{Contents, Hover, MarkupContent, MarkupKind};

use super::completion::{default_of, schema_of};
use super::document::DocumentType;
use super::judging::JudgedDocument;
use super::keys;
use super::text::{self, Encoding};
use crate::cli::pages;
use crate::judge::engine::{IGNORE, KEEP};
use crate::text::lines::Lines;
use crate::text::value::Value;

/// Maximum pages for one place: nobody reads more of them.
const MAX_PAGES: usize = 3;

/// Returns the hover text of a place.
pub(super) fn hover(judged: &JudgedDocument, offset: usize, encoding: Encoding) -> Option<Hover> {
    let (span, value) = named(judged, offset).or_else(|| found(judged, offset))?;
    let lines = Lines::new(judged.document.text.as_bytes());
    Some(Hover {
        contents: Contents::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value }),
        range: Some(text::range(&lines, &span, encoding)),
    })
}

/// Returns the pages of the rules with findings at a place.
fn found(judged: &JudgedDocument, offset: usize) -> Option<(Range<usize>, String)> {
    let here = judged.findings.iter().filter(|located| {
        let span = &located.location.span;
        (span.start..=span.end).contains(&offset)
    });
    let mut rules: Vec<&str> = Vec::new();
    let (mut span, mut text) = (None, String::new());
    for located in here {
        let finding = &located.finding;
        if rules.contains(&&*finding.rule) {
            continue;
        }
        if rules.len() == MAX_PAGES {
            break;
        }
        rules.push(&finding.rule);
        if span.is_none() {
            span = Some(located.location.span.clone());
        } else {
            text += "\n---\n\n";
        }
        text += &pages::page_for_editor(&finding.rule).unwrap_or_default();
    }
    Some((span?, text))
}

/// Returns the page of the rule that is named at a place, or the description of the key.
fn named(judged: &JudgedDocument, offset: usize) -> Option<(Range<usize>, String)> {
    let source = &judged.document.text;
    let form = judged.document.form();
    let at = keys::at(source, offset);
    let word = source.get(at.word.clone())?;
    let start = source[..at.word.start].rfind('\n').map_or(0, |at| at + 1);
    let line = source[start..].lines().next().unwrap_or_default();
    let may_be_rule = form != DocumentType::Manifest || line.contains(KEEP) || line.contains(IGNORE);
    if let Some(page) = pages::page_for_editor(word).filter(|_| may_be_rule) {
        return Some((at.word, page));
    }
    let schema = schema_of(form)?;
    // At the end of the word, so that a key is complete.
    let mut path = keys::at(source, at.word.end).path;
    if at.is_key {
        path.push(keys::PathStep::Key(word.to_owned()));
    }
    let part = keys::schema_at(schema, &path)?;
    let part = keys::followed(schema, part)?;
    let mut text = part.get("description").and_then(Value::as_str)?.to_owned();
    let default = default_of(part);
    if !default.is_empty() {
        let _ = write!(text, "\n\n{default}");
    }
    Some((at.word, text))
}
