//! Edits as a unified diff, in one pass over the file: only lines that the edits touch are compared.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::apply;
use crate::input::STDIN;
use jobgate_core::text::yaml::Edit;

/// Lines around a change that a diff shows.
const CONTEXT: usize = 3;

/// Maximum lines of one edit that are compared one by one, in quadratic time if all differ; more are shown as one
/// change.
const MAX_COMPARED_LINES: usize = 2000;

/// Returns sorted edits that do not overlap as a unified diff for `git apply` and `patch -p1`; empty if they change
/// nothing.
///
/// Paths are written as in `git`: from the root for an absolute path, and `stdin` for standard input. Bytes
/// that are not UTF-8 are replaced.
#[must_use]
pub fn diff(path: &str, old: &[u8], edits: &[Edit]) -> String {
    let changes = changes(old, edits);
    if changes.is_empty() {
        return String::new();
    }
    let mut out = format!("--- {}\n+++ {}\n", header("a", path), header("b", path));
    let (mut line, mut at, mut grown) = (0, 0, 0_isize);
    let mut rest = &changes[..];
    while let Some(first) = rest.first() {
        let before = tail(&old[at..first.old.start]);
        line += lines(&old[at..before.start + at]);
        let hunk = rest
            .windows(2)
            .take_while(|pair| lines(&old[pair[0].old.end..pair[1].old.start]) <= 2 * CONTEXT)
            .count()
            + 1;
        let (now, later) = rest.split_at(hunk);
        let end = later.first().map_or(old.len(), |next| next.old.start);
        let mut body = String::new();
        let mut from = at + before.start;
        for change in now {
            write_lines(&mut body, ' ', &old[from..change.old.start]);
            write_lines(&mut body, '-', &old[change.old.clone()]);
            write_lines(&mut body, '+', &change.new);
            from = change.old.end;
        }
        let after = from + head(&old[from..end]);
        write_lines(&mut body, ' ', &old[from..after]);
        let removed = lines(&old[at + before.start..after]);
        let growth: isize = now
            .iter()
            .map(|change| lines(&change.new).cast_signed() - lines(&old[change.old.clone()]).cast_signed())
            .sum();
        let added = removed.saturating_add_signed(growth);
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            place(line, removed),
            place(line.saturating_add_signed(grown), added)
        );
        out.push_str(&body);
        line += removed;
        grown += growth;
        at = after;
        rest = later;
    }
    out
}

/// Removed lines and their replacement.
struct LineChange {
    old: Range<usize>,
    new: Vec<u8>,
}

/// Returns the lines that edits change, as few as possible.
fn changes(old: &[u8], edits: &[Edit]) -> Vec<LineChange> {
    let mut changes = Vec::new();
    let mut rest = edits;
    while let Some(first) = rest.first() {
        let start = memchr::memrchr(b'\n', &old[..first.span.start]).map_or(0, |at| at + 1);
        // Edits of the same line are handled together. Text after a last line without a line break touches
        // that line.
        let (mut end, mut count) = (start, 0);
        while let Some(edit) =
            rest.get(count).filter(|edit| count == 0 || edit.span.start < end || !old[..end].ends_with(b"\n"))
        {
            end = memchr::memchr(b'\n', &old[edit.span.end..]).map_or(old.len(), |at| edit.span.end + at + 1);
            count += 1;
        }
        let (now, later) = rest.split_at(count);
        let moved: Vec<Edit> = now
            .iter()
            .map(|edit| Edit {
                span: edit.span.start - start..edit.span.end - start,
                text: edit.text.clone(),
            })
            .collect();
        compare(&old[start..end], &apply(&old[start..end], &moved), start, &mut changes);
        rest = later;
    }
    changes
}

/// Compares a few lines; `start` is their offset in the file.
fn compare(old: &[u8], new: &[u8], start: usize, changes: &mut Vec<LineChange>) {
    let split = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<_>>();
    let (old, new) = (split(old), split(new));
    let place = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    if old.len().max(new.len()) > MAX_COMPARED_LINES {
        return changes.push(LineChange { old: start..start + place(&old), new: new.concat() });
    }
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (gone, come) = (op.old_range(), op.new_range());
        let from = start + place(&old[..gone.start]);
        changes.push(LineChange { old: from..from + place(&old[gone]), new: new[come].concat() });
    }
}

/// Returns how many lines a text has; one without a break at its end counts.
fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count() + usize::from(!text.is_empty() && !text.ends_with(b"\n"))
}

/// Returns the range of the last lines of a text, with which a hunk starts.
fn tail(text: &[u8]) -> Range<usize> {
    let ends = text.len().saturating_sub(1);
    let start = memchr::memrchr_iter(b'\n', &text[..ends]).nth(CONTEXT - 1).map_or(0, |at| at + 1);
    start..text.len()
}

/// Returns the end of the first lines of a text, with which a hunk ends.
fn head(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).nth(CONTEXT - 1).map_or(text.len(), |at| at + 1)
}

/// Returns the position of a hunk: its first line (the line before it, if it is empty) and its number of lines.
fn place(line: usize, count: usize) -> String {
    match count {
        0 => format!("{line},0"),
        1 => (line + 1).to_string(),
        _ => format!("{},{count}", line + 1),
    }
}

fn write_lines(out: &mut String, mark: char, text: &[u8]) {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        out.push(mark);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Returns a path as written in the header of a diff.
fn header(side: &str, path: &str) -> String {
    let mut inside = if path == STDIN { "stdin" } else { path };
    // No tool applies a diff outside of the directory that it runs in.
    while let Some(rest) = ["/", "./", "../"].iter().find_map(|prefix| inside.strip_prefix(prefix)) {
        inside = rest;
    }
    let name: Cow<'_, str> = format!("{side}/{inside}").into();
    if name.chars().any(|char| char.is_control() || matches!(char, '"' | '\\')) {
        let quoted = name.bytes().fold(String::new(), |mut out, byte| {
            match byte {
                b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
                b' '..=b'~' => out.push(char::from(byte)),
                _ => _ = write!(out, "\\{byte:03o}"),
            }
            out
        });
        return format!("\"{quoted}\"");
    }
    // A space would end the name, unless a tab follows it.
    if name.contains(' ') { format!("{name}\t") } else { name.into_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(span: Range<usize>, text: &str) -> Edit {
        Edit { span, text: text.to_owned() }
    }

    /// Applies a diff, as strictly as it can be applied.
    fn patched(old: &str, diff: &str) -> String {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut hunk = (0, 0, 0, 0);
        let mut diff = diff.lines().skip(2).peekable();
        while let Some(line) = diff.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                assert_eq!((hunk.1, hunk.3), (0, 0), "a hunk has as many lines as it says");
                let (old, new) = header.strip_suffix(" @@").unwrap().split_once(" +").unwrap();
                let range = |text: &str| -> (usize, usize) {
                    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
                    let (start, count): (usize, usize) = (start.parse().unwrap(), count.parse().unwrap());
                    (start - usize::from(count > 0), count)
                };
                let ((start, count), (new_start, new_count)) = (range(old), range(new));
                hunk = (start, count, new_start, new_count);
                lines[at..start].iter().for_each(|line| out.push_str(line));
                at = start;
                assert_eq!(out.split_inclusive('\n').count(), new_start);
                continue;
            }
            let (mark, text) = line.split_at(1);
            let ends = diff.next_if(|next| next.starts_with('\\')).is_some();
            let text = if ends { text.to_owned() } else { format!("{text}\n") };
            if mark != "+" {
                assert_eq!(lines[at], text);
                at += 1;
                hunk.1 -= 1;
            }
            if mark != "-" {
                out.push_str(&text);
                hunk.3 -= 1;
            }
        }
        lines[at..].iter().for_each(|line| out.push_str(line));
        out
    }

    #[test]
    fn a_diff_is_one_that_patch_reads() {
        let old = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6";
        let wanted = "--- a/k8s/job.yaml
+++ b/k8s/job.yaml
@@ -2,5 +2,7 @@
 b: 2
 c: 3
 d: 4
+x: 9
 e: 5
-f: 6
\\ No newline at end of file
+f: 6
+g: 7
\\ No newline at end of file
";
        let edits = [edit(19..19, "\nx: 9"), edit(29..29, "\ng: 7")];
        assert_eq!(diff("k8s/job.yaml", old.as_bytes(), &edits), wanted);
        let edits = [edit(28..29, ""), edit(29..29, "\ng: 7")];
        assert_eq!(
            patched(old, &diff("x", old.as_bytes(), &edits)),
            "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: \ng: 7"
        );
        assert_eq!(diff("x", b"a", &[]), "");
        assert_eq!(diff("x", b"a", &[edit(0..1, "a")]), "");
        assert_eq!(diff("x", b"", &[edit(0..0, "a\n")]), "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(diff("x", b"a\n", &[edit(0..2, "")]), "--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (1..=20).map(|line| format!("{line:02}\n")).collect();
        let diff = diff("x", old.as_bytes(), &[edit(6..8, "aa\nbb"), edit(30..33, ""), edit(57..59, "cc")]);
        assert_eq!(
            patched(&old, &diff),
            "01\n02\naa\nbb\n04\n05\n06\n07\n08\n09\n10\n12\n13\n14\n15\n16\n17\n18\n19\ncc\n"
        );
        let hunks: Vec<&str> = diff.lines().filter(|line| line.starts_with('@')).collect();
        assert_eq!(hunks, ["@@ -1,6 +1,7 @@", "@@ -8,7 +9,6 @@", "@@ -17,4 +17,4 @@"]);
    }

    #[test]
    fn paths_are_such_as_git_writes() {
        for (path, name) in [
            ("k8s/job.yaml", "a/k8s/job.yaml"),
            ("/tmp/x", "a/tmp/x"),
            ("../../x", "a/x"),
            ("-", "a/stdin"),
            ("my job.yaml", "a/my job.yaml\t"),
            ("ü\n\"", "\"a/\\303\\274\\012\\\"\""),
            ("ü", "a/ü"),
        ] {
            assert_eq!(header("a", path), name);
        }
    }

    proptest! {
        #[test]
        fn a_diff_makes_the_new_text_of_the_old(
            old in "[ab\n]{0,120}",
            cuts in prop::collection::vec((0_usize..30, 0_usize..5, "[ab\n]{0,4}"), 0..8),
            at_end in "[ab\n]{0,4}",
        ) {
            let (mut edits, mut at): (Vec<Edit>, usize) = (Vec::new(), 0);
            for (gap, length, text) in &cuts {
                let (start, end) = (at + gap, at + gap + length);
                if end <= old.len() {
                    edits.push(edit(start..end, text));
                    // Two insertions at one place would have no order.
                    at = end + usize::from(*length == 0);
                }
            }
            if at <= old.len() {
                edits.push(edit(old.len()..old.len(), &at_end));
            }
            let new = String::from_utf8(apply(old.as_bytes(), &edits)).unwrap();
            prop_assert_eq!(patched(&old, &diff("x", old.as_bytes(), &edits)), new);
        }
    }
}
