//! Where findings are in a file, and how edits move them.

use std::sync::Arc;

use super::fixing::Unwritten;
use super::input::Unreadable;
use crate::report::{Located, Location, Reason, Unjudged};
use crate::text::lines::{Lines, Position};

/// Compares findings of one file by offset, rule, end, path and message.
pub(super) fn order(a: &Located, b: &Located) -> std::cmp::Ordering {
    let (left, right) = (&a.location.span, &b.location.span);
    (left.start, &a.finding.rule, left.end)
        .cmp(&(right.start, &b.finding.rule, right.end))
        .then_with(|| (&a.finding.path, &a.finding.message).cmp(&(&b.finding.path, &b.finding.message)))
}

/// Moves the places of a finding in its own file, but not their lines and columns: see [`settle`].
pub(super) fn shift(located: &mut Located, to: impl Fn(usize) -> usize) {
    for location in here(located) {
        location.span = to(location.span.start)..to(location.span.end);
    }
}

/// Updates lines and columns of the places of a finding in its own file.
pub(super) fn settle(located: &mut Located, lines: &Lines<'_>) {
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
pub(super) fn first_of(file: Arc<str>) -> Location {
    let start = Position { line: 1, column: 1 };
    Location { file, span: 0..0, start, end: start }
}

/// Returns the document of a finding as not judged.
pub(super) fn unjudged(located: &Located, reason: Reason) -> Unjudged {
    Unjudged {
        location: Some(located.location.clone()),
        document: Some(located.document),
        object: None,
        reason,
    }
}

/// Returns a whole file as not judged.
pub(super) fn whole_file(path: Arc<str>, reason: Reason) -> Unjudged {
    Unjudged { location: Some(first_of(path)), document: None, object: None, reason }
}

impl Unreadable {
    /// Returns the path as not judged.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::UnreadablePath(self.reason.as_str().into()))
    }
}

impl Unwritten {
    /// Returns the file as not fixed.
    #[must_use]
    pub fn unjudged(&self) -> Unjudged {
        whole_file(self.path.as_str().into(), Reason::NotWritten(self.reason.as_str().into()))
    }
}

/// Returns a path as one with nothing to judge.
#[must_use]
pub fn nothing_in(path: &str) -> Unjudged {
    whole_file(path.into(), Reason::Nothing)
}
