//! How edits move places, and which fixes to apply.

use jobgate_core::judge::finding::{Fix, Safety};
use jobgate_core::text::yaml::{Chunk, Edit, SyntaxError};
use jobgate_report::Located;

/// Returns the fixes to apply, up to a safety, each with the index of its finding. Fixes of existing values come
/// before fills of missing ones.
#[must_use]
pub(crate) fn fixes(most: Safety, findings: &[Located]) -> Vec<(usize, &Fix)> {
    let mut fixes = Vec::new();
    for fills in [false, true] {
        let of_sort = findings.iter().enumerate().filter(|(_, located)| located.finding.fills == fills);
        fixes.extend(
            of_sort
                .filter_map(|(at, located)| Some((at, located.finding.fix.as_ref()?)))
                .filter(|(_, fix)| fix.safety <= most),
        );
    }
    fixes
}

/// How far the edits of a file move the text after them.
#[derive(Debug)]
pub struct Shifts(Vec<(usize, isize)>);

impl Shifts {
    /// Reads edits, which are sorted.
    pub fn new(edits: &[Edit]) -> Self {
        let sums = edits.iter().scan(0, |sum, edit| {
            *sum += edit.text.len().cast_signed() - edit.span.len().cast_signed();
            Some((edit.span.start, *sum))
        });
        Self(sums.collect())
    }

    /// Returns the new offset of a place after all edits that start before `from`.
    pub fn of(&self, from: usize, place: usize) -> usize {
        let before = self.0.partition_point(|(start, _)| *start < from);
        let shift = before.checked_sub(1).map_or(0, |last| self.0[last].1);
        place.saturating_add_signed(shift)
    }

    /// Tells whether the edited file splits into the same documents as before.
    pub fn keep(&self, old: &[Chunked], new: &[Chunked]) -> bool {
        let next = old.iter().skip(1).map(start).chain([usize::MAX]);
        old.len() == new.len()
            && old.iter().zip(next).zip(new).all(|((old, next), new)| match (old, new) {
                (Ok(old), Ok(new)) => {
                    new.span == (self.of(old.span.start, old.span.start)..self.of(next, old.span.end))
                }
                (Err(old), Err(new)) => old.kind == new.kind,
                _ => false,
            })
    }
}

/// A document of a file, or the error that hides its end.
pub(crate) type Chunked = Result<Chunk, SyntaxError>;

/// Returns where a document starts.
pub fn start(chunk: &Chunked) -> usize {
    chunk.as_ref().map_or_else(|error| error.span.start, |chunk| chunk.span.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::yaml::{Limits, split};

    fn chunks(source: &str) -> Vec<Chunked> {
        split(source.as_bytes(), &Limits::default()).collect()
    }

    #[test]
    fn what_stands_behind_an_edit_moves() {
        let edit = |span: std::ops::Range<usize>, text: &str| Edit { span, text: text.to_owned() };
        let shifts = Shifts::new(&[edit(3..3, "xx"), edit(5..9, ""), edit(20..21, "abc")]);
        let moved: Vec<usize> = [0, 3, 4, 9, 20, 30].into_iter().map(|at| shifts.of(at, at)).collect();
        assert_eq!(moved, [0, 3, 6, 7, 18, 30]);
    }

    #[test]
    fn documents_stay_apart() {
        let old = "a: 1\n---\nb: 1\n";
        let shifts = Shifts::new(&[Edit { span: 4..4, text: "\nc: 1".to_owned() }]);
        assert!(shifts.keep(&chunks(old), &chunks("a: 1\nc: 1\n---\nb: 1\n")));
        for other in ["a: 1\nc: 1\nb: 1\n", "a: 1\n---\nc: 1\n---\nb: 1\n", "a: 1\nc:\n---\nb: 11\n"] {
            assert!(!shifts.keep(&chunks(old), &chunks(other)), "{other}");
        }
    }
}
