//! Places of findings in a file, and how edits move them.

use std::sync::Arc;

use jobgate_core::text::lines::{Lines, Position};
use jobgate_report::{Located, Location, Reason, Unjudged};

/// Compares findings of one file by offset, rule, end, path and message.
pub fn order(a: &Located, b: &Located) -> std::cmp::Ordering {
    let (left, right) = (&a.location.span, &b.location.span);
    (left.start, &a.finding.rule, left.end)
        .cmp(&(right.start, &b.finding.rule, right.end))
        .then_with(|| (&a.finding.path, &a.finding.message).cmp(&(&b.finding.path, &b.finding.message)))
}

/// Moves the places of a finding in its own file, but not their lines and columns: see [`settle`].
pub fn shift(located: &mut Located, to: impl Fn(usize) -> usize) {
    for location in here(located) {
        location.span = to(location.span.start)..to(location.span.end);
    }
}

/// Updates lines and columns of the places of a finding in its own file.
pub fn settle(located: &mut Located, lines: &Lines<'_>) {
    for location in here(located) {
        (location.start, location.end) =
            (lines.position(location.span.start), lines.position(location.span.end));
    }
}

/// Returns the places of a finding in its own object.
fn here(located: &mut Located) -> impl Iterator<Item = &mut Location> {
    let related = located.related.iter_mut().filter(|related| related.object.is_none());
    std::iter::once(&mut located.location).chain(related.filter_map(|related| related.location.as_mut()))
}

/// Returns the start of a file, for findings about all of it.
pub fn first_of(file: Arc<str>) -> Location {
    let start = Position { line: 1, column: 1 };
    Location { file, span: 0..0, start, end: start }
}

/// Returns an entry for the document of a finding, as not judged.
pub(crate) fn unjudged(located: &Located, reason: Reason) -> Unjudged {
    Unjudged {
        location: Some(located.location.clone()),
        document: Some(located.document),
        object: None,
        reason,
    }
}

/// Returns an entry for a whole file, as not judged.
pub fn whole_file(path: Arc<str>, reason: Reason) -> Unjudged {
    Unjudged { location: Some(first_of(path)), document: None, object: None, reason }
}

/// Returns an entry for a path with nothing to judge.
#[must_use]
pub fn nothing_in(path: &str) -> Unjudged {
    whole_file(path.into(), Reason::Nothing)
}
