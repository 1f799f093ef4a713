//! Source lines around a finding, cut and cleaned so that any manifest can be printed.

use std::ops::Range;

use super::text::clean_into;
use crate::located::Location;
use crate::results::Report;
use jobgate_core::text::lines::character_at;

/// Bytes of a long line that are kept before and after a place.
const BEFORE: usize = 240;
const BEHIND: usize = 480;
/// Bytes of a line that are kept between its first and its last place.
const WIDEST: usize = 2048;
/// Places that are more lines apart than this have separate excerpts.
const APART: usize = 60;

/// A place to be marked.
#[derive(Debug)]
pub(super) struct ExcerptSpot<'r> {
    /// Where it is.
    pub(super) location: &'r Location,
    /// What to write beside it.
    pub(super) label: Option<String>,
    /// Whether it is the finding's primary place.
    pub(super) primary: bool,
}

/// Lines that follow each other in one file.
#[derive(Debug)]
pub(super) struct SourceExcerpt<'s, 'r> {
    /// The place that it is shown for.
    pub(super) location: &'r Location,
    /// The number of the first line.
    pub(super) line: usize,
    /// The lines, ready to be printed; empty if the source is not available.
    pub(super) text: String,
    /// The ranges of `text` to mark, none of them beyond the end of its line.
    pub(super) marks: Vec<(Range<usize>, &'s ExcerptSpot<'r>)>,
}

/// Returns the excerpts that show all spots, the one of the first spot first.
pub(super) fn excerpts<'s, 'r>(
    report: &'r Report,
    spots: &'s [ExcerptSpot<'r>],
) -> Vec<SourceExcerpt<'s, 'r>> {
    let mut groups: Vec<Vec<&'s ExcerptSpot<'r>>> = Vec::new();
    for spot in spots {
        let near = |first: &Location| {
            first.file == spot.location.file && first.start.line.abs_diff(spot.location.start.line) <= APART
        };
        match groups.iter_mut().find(|group| near(group[0].location)) {
            Some(group) => group.push(spot),
            None => groups.push(vec![spot]),
        }
    }
    groups
        .into_iter()
        .map(|group| excerpt(report.sources.get(&group[0].location.file).map_or("", |source| source), group))
        .collect()
}

fn excerpt<'s, 'r>(source: &str, mut spots: Vec<&'s ExcerptSpot<'r>>) -> SourceExcerpt<'s, 'r> {
    let location = spots[0].location;
    spots.sort_by_key(|spot| (spot.location.start.line, spot.location.span.start));
    let (first, last) = (spots[0].location, spots[spots.len() - 1].location);
    let mut out = SourceExcerpt { location, line: first.start.line, text: String::new(), marks: Vec::new() };
    if source.is_empty() {
        return out;
    }
    let (mut start, last_line) = (line_start(source, first.span.start), last.start.line);
    for line in first.start.line..=last_line {
        // Text after a long last line is not searched: a JSON file of one line may have many findings.
        let end = if line == last_line {
            line_end(source, last.span.start.max(start), BEHIND)
        } else {
            line_end(source, start, source.len())
        };
        let here: Vec<_> = spots.iter().copied().filter(|spot| spot.location.start.line == line).collect();
        push_line(&mut out, source, start..end, &here);
        if line < last_line {
            out.text.push('\n');
            start = next_line(source, end);
        }
    }
    out
}

/// Appends a line without the parts far from its spots, and the marks of its spots.
fn push_line<'s, 'r>(
    out: &mut SourceExcerpt<'s, 'r>,
    source: &str,
    line: Range<usize>,
    spots: &[&'s ExcerptSpot<'r>],
) {
    let first = spots.first().map_or(line.start, |spot| spot.location.span.start);
    let last = spots.last().map_or(line.start, |spot| spot.location.span.start);
    let from = character_at(source, first.saturating_sub(BEFORE).clamp(line.start, line.end));
    let to = character_at(source, (last.min(from + WIDEST) + BEHIND).clamp(from, line.end));
    if from > 0 && !source[..from].ends_with(['\n', '\r', '\u{FEFF}']) {
        out.text.push('…');
    }
    let inside = |offset: usize| character_at(source, offset.clamp(from, to));
    let mut cuts: Vec<_> = spots
        .iter()
        .flat_map(|spot| [spot.location.span.start, spot.location.span.end])
        .map(inside)
        .collect();
    cuts.extend([from, to]);
    cuts.sort_unstable();
    cuts.dedup();
    // The offset of each cut in the text.
    let mut places = Vec::with_capacity(cuts.len());
    for (nth, &cut) in cuts.iter().enumerate() {
        places.push(out.text.len());
        clean_into(&mut out.text, &source[cut..cuts.get(nth + 1).copied().unwrap_or(cut)]);
    }
    let place = |offset: usize| cuts.binary_search(&inside(offset)).map_or(out.text.len(), |at| places[at]);
    for spot in spots {
        let start = place(spot.location.span.start);
        out.marks.push((start..place(spot.location.span.end).max(start), *spot));
    }
    if !source[to..].is_empty() && !source[to..].starts_with(['\n', '\r']) {
        out.text.push('…');
    }
}

/// Returns the start of the line around an offset, at most [`BEFORE`] bytes before it.
fn line_start(source: &str, offset: usize) -> usize {
    let offset = character_at(source, offset);
    let from = character_at(source, offset.saturating_sub(BEFORE));
    let start =
        memchr::memrchr2(b'\n', b'\r', &source.as_bytes()[from..offset]).map_or(from, |at| from + at + 1);
    if start == 0 && source.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { start }
}

/// Returns the end of the line around an offset, at most `most` bytes after it.
fn line_end(source: &str, offset: usize, most: usize) -> usize {
    let offset = character_at(source, offset);
    let to = character_at(source, offset.saturating_add(most));
    memchr::memchr2(b'\n', b'\r', &source.as_bytes()[offset..to]).map_or(to, |at| offset + at)
}

/// Returns the start of the line after the line break at `end`.
fn next_line(source: &str, end: usize) -> usize {
    let rest = &source[end..];
    end + if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with(['\n', '\r'])) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use jobgate_core::text::lines::Lines;
    use jobgate_core::text::lines::Position;

    fn location(source: &str, span: Range<usize>) -> Location {
        let lines = Lines::new(source.as_bytes());
        Location { file: "f".into(), start: lines.position(span.start), end: lines.position(span.end), span }
    }

    /// The text, and what is marked in it.
    fn show(source: &str, spans: &[(usize, usize)]) -> Vec<(usize, String, Vec<String>)> {
        let report = Report::default().with("f", source);
        let locations: Vec<_> = spans.iter().map(|&(start, end)| location(source, start..end)).collect();
        let spots: Vec<_> =
            locations.iter().map(|location| ExcerptSpot { location, label: None, primary: false }).collect();
        let shown = excerpts(&report, &spots).into_iter().map(|excerpt| {
            let marked =
                excerpt.marks.iter().map(|(range, _)| excerpt.text[range.clone()].to_owned()).collect();
            (excerpt.line, excerpt.text, marked)
        });
        shown.collect()
    }

    #[test]
    fn shows_the_line_whatever_breaks_it() {
        for source in ["a\nbc\nd", "a\r\nbc\r\nd", "a\rbc\rd"] {
            let at = source.find('c').unwrap();
            assert_eq!(show(source, &[(at, at + 1)]), [(2, "bc".to_owned(), vec!["c".to_owned()])]);
        }
        assert_eq!(show("a\n", &[(2, 2)]), [(2, String::new(), vec![String::new()])]);
        assert_eq!(show("\u{FEFF}a", &[(3, 4)]), [(1, "a".to_owned(), vec!["a".to_owned()])]);
    }

    #[test]
    fn a_span_of_many_lines_is_its_first() {
        assert_eq!(
            show("spec:\n  a: 1\n  b: 2\n", &[(8, 19)]),
            [(2, "  a: 1".to_owned(), vec!["a: 1".to_owned()])]
        );
    }

    #[test]
    fn near_places_share_an_excerpt_and_far_ones_do_not() {
        let source = "a\n".repeat(100);
        let near = show(&source, &[(4, 5), (0, 1)]);
        assert_eq!(near, [(1, "a\na\na".to_owned(), vec!["a".to_owned(), "a".to_owned()])]);
        assert_eq!(
            show(&source, &[(180, 181), (0, 1)]).iter().map(|(line, ..)| *line).collect::<Vec<_>>(),
            [91, 1]
        );
    }

    #[test]
    fn a_line_of_megabytes_is_cut() {
        let source = "é".repeat(1 << 20) + "x" + &"é".repeat(1 << 20);
        let at = source.find('x').unwrap();
        let shown = show(&source, &[(at, at + 1), (0, 2)]);
        let (_, text, marked) = &shown[0];
        assert!(text.len() < 4 * (BEFORE + BEHIND + WIDEST), "{}", text.len());
        assert!(text.ends_with('…') && marked[0] == "é", "{marked:?}");
        let (_, text, marked) = &show(&source, &[(at, at + 1)])[0];
        assert!(
            text.starts_with("…é") && text.ends_with("é…") && text.len() < 2 * (BEFORE + BEHIND),
            "{}",
            text.len()
        );
        assert_eq!(marked, &["x"]);
    }

    proptest! {
        #[test]
        fn any_place_can_be_shown(source in "[a \t\r\n\u{0}\u{1b}\u{85}\u{202e}ßé🚀]{0,50}", spans in prop::collection::vec((0..220usize, 0..220usize), 1..4)) {
            let spans: Vec<_> = spans.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            for (_, text, _) in show(&source, &spans) {
                prop_assert_eq!(text.find(['\u{1b}', '\r', '\u{85}', '\u{202e}']), None);
            }
        }

        #[test]
        fn a_wrong_position_does_no_harm(line in 1..9usize, column in 1..9usize, span in 0..9usize) {
            let report = Report::default().with("f", "a\nb");
            let position = Position { line, column };
            let wrong = Location { file: "f".into(), span: span..span, start: position, end: position };
            let right = location("a\nb", 0..1);
            let spot = |location| ExcerptSpot { location, label: None, primary: false };
            for excerpt in excerpts(&report, &[spot(&wrong), spot(&right)]) {
                prop_assert!(excerpt.marks.iter().all(|(range, _)| excerpt.text.get(range.clone()).is_some()));
            }
        }
    }
}
