//! Recovery of documents that are not readable yet, because somebody is typing in them.
//!
//! The line that breaks a document is repaired, or left out. Every other byte stays in place. A finding in the rest is
//! shown only if it cannot be about that line.

use std::ops::Range;
use std::sync::Arc;

use crate::input::{Content, Input};
use crate::place::order;
use jobgate_core::judge::checks::{
    API_SERVER, APP_WRAPPER_OPERATOR, DUPLICATE_KEY, FIELD_TYPE, KNOWN_KIND, RAY_OPERATOR, SYNTAX,
    TRAINING_OPERATOR, UNKNOWN_FIELD, VOLCANO_OPERATOR,
};
use jobgate_core::text::lines::Lines;
use jobgate_core::text::meter;
use jobgate_core::text::pointer::Token;
use jobgate_core::text::yaml::{self, Chunk, Limits, SyntaxErrorKind};
use jobgate_report::Located;

/// Maximum lines of an unfinished document that are left out to read the rest.
const MAX_LEFT_OUT: usize = 3;
/// Maximum rounds to find them: first without the value of a line, then without all of it.
const MAX_ROUNDS: usize = 4;
/// Maximum unfinished documents of a file to read: each costs some copies of the text, and people type in one.
const MAX_BROKEN: usize = 3;
/// Larger files are not read a second time for the rest of their unfinished documents.
const MAX_BYTES: usize = 1 << 20;

/// A text without the lines that break it.
pub struct Recovered {
    /// The text.
    pub text: String,
    documents: Vec<Rest>,
}

/// A document that can be read now.
struct Rest {
    /// Its number in the file.
    index: usize,
    left_out: Vec<LeftOutLine>,
}

/// A line that was left out, in whole or in part.
struct LeftOutLine {
    line: Range<usize>,
    how: How,
    /// The key of the line as it is typed; empty if it has none.
    name: String,
    /// Whether the key has its colon, so that it is complete.
    is_whole: bool,
}

/// What remains of a line, from most to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// All of it, indented with spaces.
    Spaces,
    /// Its key, and the dashes before it.
    Key,
    /// A placeholder key, for a word that may become a key: there is no room for a colon after it.
    Word,
    /// Nothing.
    Nothing,
}

const WAYS: [How; 4] = [How::Spaces, How::Key, How::Word, How::Nothing];

/// A step to a line's key.
#[derive(Debug, PartialEq, Eq)]
enum KeyStep<'t> {
    Key(&'t str),
    Item(usize),
}

/// Leaves out the lines that break some documents of an open file, so that the rest of them can be read.
pub fn of_input(input: &Input, broken: &[usize], limits: &Limits) -> Option<Recovered> {
    let Content::Open(_, text) = &input.content else { return None };
    if broken.is_empty() || text.len() as u64 > limits.document_bytes as u64 {
        return None;
    }
    // Limited, since each document of the file is looked up in them.
    recovered(text, broken.get(..MAX_BROKEN).unwrap_or(broken), limits)
}

/// Leaves out the lines that break some documents of a text.
pub fn recovered(text: &str, broken: &[usize], limits: &Limits) -> Option<Recovered> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut recovered = Recovered { text: text.to_owned(), documents: Vec::new() };
    for (index, chunk) in yaml::split(text.as_bytes(), limits).enumerate() {
        let Some(chunk) = chunk.ok().filter(|_| broken.contains(&index)) else { continue };
        if let Some((text, left_out)) = rest_of(&recovered.text, &chunk, limits) {
            recovered.text = text;
            recovered.documents.push(Rest { index, left_out });
        }
    }
    (!recovered.documents.is_empty()).then_some(recovered)
}

/// Leaves out lines of one document until the rest can be read.
fn rest_of(text: &str, chunk: &Chunk, limits: &Limits) -> Option<(String, Vec<LeftOutLine>)> {
    let parse = |text: &str| yaml::parse(text.as_bytes(), chunk, limits);
    let mut error = parse(text).err()?;
    let (mut draft, mut left_out) = (text.to_owned(), Vec::<LeftOutLine>::new());
    for round in 0..MAX_ROUNDS {
        if error.kind != SyntaxErrorKind::Syntax {
            return None;
        }
        let lines = suspects(&draft, error.span.start, &chunk.span);
        // People type in one line, so all ways of leaving out a single line are tried first.
        let mut ways: Vec<(How, &Range<usize>)> = Vec::new();
        for line in &lines {
            let last = left_out.iter().find(|other| other.line == *line).map(|other| other.how);
            let more = WAYS.into_iter().filter(|how| last.is_none_or(|last| *how > last));
            let more = more.filter(|how| left(&draft, line, *how).is_some());
            ways.extend(more.map(|how| (how, line)).take(if round == 0 { WAYS.len() } else { 1 }));
        }
        if round == 0 {
            ways.sort_by_key(|(how, _)| *how);
        }
        let mut next = None;
        for (how, line) in ways {
            let tried = without(&draft, line, how)?;
            let parsed = parse(&tried).err();
            let is_read = parsed.is_none();
            // If no way succeeds, the line of the error is left out first.
            let is_first = next.is_none() && lines.first() == Some(line);
            if is_read || is_first {
                let (name, is_whole) = name(&text[line.clone()]);
                next = Some((LeftOutLine { line: line.clone(), how, name, is_whole }, tried, parsed));
            }
            if is_read {
                break;
            }
        }
        let (line, tried, parsed) = next?;
        draft = tried;
        left_out.retain(|other| other.line != line.line);
        left_out.push(line);
        if left_out.len() > MAX_LEFT_OUT {
            return None;
        }
        let Some(next) = parsed else {
            left_out.sort_by_key(|left_out| left_out.line.start);
            return Some((draft, left_out));
        };
        error = next;
    }
    None
}

/// Returns the lines that may cause an error: its line, and the one above, since the parser may notice an error only
/// after its line.
fn suspects(text: &str, offset: usize, within: &Range<usize>) -> Vec<Range<usize>> {
    let here = line_of(text, offset.min(text.len()));
    let before = above(text, &here);
    let is_in = |line: &Range<usize>| {
        line.start >= within.start && line.end <= within.end && !is_blank(&text[line.clone()])
    };
    [Some(here), before].into_iter().flatten().filter(is_in).collect()
}

impl Recovered {
    /// Returns the file with this text, reduced to the documents that have to be judged.
    pub fn input(&self, input: &Input, limits: &Limits) -> Input {
        let content = match &input.content {
            Content::Open(path, _) => Content::Open(path.clone(), Arc::new(self.rest_of_text(limits))),
            other => other.clone(),
        };
        Input { content, ..input.clone() }
    }

    /// Returns the text without the other documents, which are already judged.
    fn rest_of_text(&self, limits: &Limits) -> String {
        let mut bytes = self.text.clone().into_bytes();
        let mut count = 0;
        for (index, chunk) in yaml::split(self.text.as_bytes(), limits).enumerate() {
            count += 1;
            let Ok(chunk) = chunk else { continue };
            if !self.documents.iter().any(|rest| rest.index == index) {
                let others = bytes[chunk.span].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r'));
                others.for_each(|byte| *byte = b' ');
            }
        }
        // Without them, a stream of JSON may have no other separators.
        let is_same = yaml::split(&bytes, limits).count() == count;
        String::from_utf8(bytes).ok().filter(|_| is_same).unwrap_or_else(|| self.text.clone())
    }

    /// Adds the findings in the rest of its documents to those of the file, and mentions the recovery in its syntax
    /// errors.
    pub fn add(&self, findings: &mut Vec<Located>, rest: Vec<Located>) {
        for rest in &self.documents {
            let errors = findings.iter_mut().filter(|located| located.document == rest.index);
            for error in errors.filter(|located| located.finding.rule == SYNTAX) {
                error.finding.help = self.checked_without(rest).into();
            }
        }
        let lines: Vec<_> = self.documents.iter().map(|rest| (rest, self.fields(rest))).collect();
        let said = rest.into_iter().filter_map(|mut located| {
            let (rest, fields) = lines.iter().find(|(rest, _)| rest.index == located.document)?;
            // No fixes: they would be for another text.
            located.finding.fix = None;
            let span = &located.location.span;
            let is_there =
                |left_out: &LeftOutLine| span.start < left_out.line.end && left_out.line.start < span.end;
            let path = located.finding.path.tokens();
            let may_be_there = fields.iter().any(|field| field.may_be_about(&path));
            let is_sure = rest.is_sure(&located.finding.rule);
            (is_sure && !may_be_there && !rest.left_out.iter().any(is_there)).then_some(located)
        });
        let said: Vec<_> = said.collect();
        findings.extend(said);
        findings.sort_by(order);
    }

    /// Returns a note that names the lines left out.
    fn checked_without(&self, rest: &Rest) -> String {
        let lines = Lines::new(self.text.as_bytes());
        let number = |left_out: &LeftOutLine| lines.position(left_out.line.start).line.to_string();
        let numbers: Vec<String> = rest.left_out.iter().map(number).collect();
        let lines = match numbers.as_slice() {
            [all @ .., last] if !all.is_empty() => format!("lines {} and {last}", all.join(", ")),
            numbers => format!("line {}", numbers.concat()),
        };
        format!("kubectl rejects this document; it was checked without {lines}")
    }

    /// Returns the fields of the lines that were left out.
    fn fields(&self, rest: &Rest) -> Vec<LeftOutField<'_>> {
        rest.left_out
            .iter()
            .map(|left_out| LeftOutField {
                name: left_out.name.clone(),
                is_whole: left_out.is_whole,
                place: place(&self.text, &left_out.line),
            })
            .collect()
    }
}

impl Rest {
    /// Tells whether the findings of a rule or check are reliable.
    fn is_sure(&self, rule: &str) -> bool {
        // While the key is in place, everything around it is unchanged.
        let has_keys = matches!(self.left_out.as_slice(), [one] if matches!(one.how, How::Key | How::Word));
        match rule {
            // The document is rejected in any case, and it has no kind while that is being typed.
            SYNTAX | API_SERVER | APP_WRAPPER_OPERATOR | RAY_OPERATOR | TRAINING_OPERATOR
            | VOLCANO_OPERATOR | KNOWN_KIND => false,
            UNKNOWN_FIELD | FIELD_TYPE | DUPLICATE_KEY => has_keys,
            _ => true,
        }
    }
}

/// The field that a left-out line sets.
struct LeftOutField<'t> {
    name: String,
    is_whole: bool,
    place: Vec<KeyStep<'t>>,
}

impl LeftOutField<'_> {
    /// Tells whether a finding about a field may be about this one: it has the same name, or contains it.
    fn may_be_about(&self, path: &[&Token]) -> bool {
        let is_named = |token: &&Token| match token {
            Token::Key(key) if self.is_whole => **key == *self.name,
            Token::Key(key) => key.starts_with(&*self.name),
            Token::Index(_) => false,
        };
        let is_step = |(token, step): (&&Token, &KeyStep<'_>)| match (token, step) {
            (Token::Key(key), KeyStep::Key(here)) => key == here,
            (Token::Index(index), KeyStep::Item(here)) => index == here,
            _ => false,
        };
        let is_around = path.len() < self.place.len() && path.iter().zip(&self.place).all(is_step);
        is_around || (!self.name.is_empty() && path.iter().any(is_named))
    }
}

/// Returns the line of an offset, without its line break.
fn line_of(text: &str, offset: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = memchr::memrchr2(b'\n', b'\r', &bytes[..offset]).map_or(0, |at| at + 1);
    let end = memchr::memchr2(b'\n', b'\r', &bytes[offset..]).map_or(bytes.len(), |at| offset + at);
    start..end
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Returns the line above a line.
fn above(text: &str, line: &Range<usize>) -> Option<Range<usize>> {
    let above = &text[..line.start];
    let end = above.strip_suffix("\r\n").or_else(|| above.strip_suffix(['\n', '\r']))?.len();
    Some(line_of(text, end))
}

/// Returns the line below a line.
fn below(text: &str, line: &Range<usize>) -> Option<Range<usize>> {
    let behind = &text[line.end..];
    let length = if behind.starts_with("\r\n") { 2 } else { 1 };
    (behind.len() > length).then(|| line_of(text, line.end + length))
}

/// Returns where the content of a line starts, after its dashes.
fn column(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t', '-']).len()
}

/// Leaves out a part of a line.
fn without(text: &str, line: &Range<usize>, how: How) -> Option<String> {
    let left = left(text, line, how)?;
    let mut out = text.to_owned();
    out.replace_range(line.clone(), &left);
    Some(out)
}

/// Returns the remainder of a line, padded to the same length; `None` if this way does not apply.
fn left(text: &str, line: &Range<usize>, how: How) -> Option<String> {
    let content = &text[line.clone()];
    let blank = |length: usize| " ".repeat(length);
    let (indentation, rest) = content.split_at(column(content));
    match how {
        How::Spaces => indentation.contains('\t').then(|| indentation.replace('\t', " ") + rest),
        How::Key => {
            let (key, value) = key(rest)?;
            let is_plain = !value.trim().is_empty() && value.trim().chars().all(is_word);
            let has_deeper =
                || below(text, line).is_some_and(|below| column(&text[below]) > indentation.len());
            // This line is fine: the one below is indented too far.
            if is_blank(value) || (is_plain && has_deeper()) {
                return None;
            }
            Some(format!("{indentation}{key}:{}", blank(value.len())))
        }
        How::Word => {
            let word = rest.trim_end();
            let is_key = word.len() > 1 && word.chars().all(is_word);
            // A word between a key and its content is a sibling of that key.
            let is_between = || {
                above(text, line).map(|above| &text[above]).is_some_and(|above| {
                    column(above) == indentation.len() && above.trim_end().ends_with(':')
                })
            };
            if !is_key || is_between() {
                return None;
            }
            let key = "_".repeat(word.len() - 1);
            Some(format!("{indentation}{key}:{}", blank(rest.len() - word.len())))
        }
        // An item without its content is still an item.
        How::Nothing if content.trim_start().starts_with("- ") => {
            let dash = content.find('-').unwrap_or_default() + 1;
            Some(content[..dash].replace('\t', " ") + &blank(content.len() - dash))
        }
        How::Nothing => Some(blank(content.len())),
    }
}

/// Returns the first word of a line, and whether it is a key.
fn name(content: &str) -> (String, bool) {
    let quotes = ['"', '\''];
    let rest = content.trim_start_matches([' ', '\t', '-']).trim_start_matches(quotes);
    let end = rest.find(|char: char| !is_word(char)).unwrap_or(rest.len());
    (rest[..end].to_owned(), rest[end..].trim_start_matches(quotes).starts_with(':'))
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-_./".contains(char)
}

/// Splits what follows the dashes of a line at the colon after its key.
fn key(text: &str) -> Option<(&str, &str)> {
    let key = match text.split_once(": ") {
        Some((key, _)) => key,
        None => text.trim_end().strip_suffix(':')?,
    };
    let key = key.trim_end_matches(':');
    let value = &text[key.len() + 1..];
    (!key.is_empty() && !key.contains(['"', '\'', '{', '[', '#', '&', '*', '!'])).then_some((key, value))
}

/// Returns the steps to the key of a line, from the indentation of the lines above.
fn place<'t>(text: &'t str, line: &Range<usize>) -> Vec<KeyStep<'t>> {
    let mut steps = Vec::new();
    // The column of the enclosing mapping or list, and whether it is a list, whose previous items are counted.
    let (mut level, mut in_list) = (usize::MAX, false);
    for line in text[..line.end].split(['\n', '\r']).rev() {
        meter::spend(1);
        if line.starts_with("---") || (level == 0 && !in_list) {
            break;
        }
        let column = line.len() - line.trim_start_matches([' ', '-']).len();
        let content = &line[column..];
        let has_dashes = line[..column].contains('-');
        if content.starts_with('#') || (content.is_empty() && !has_dashes) {
            continue;
        }
        if column < level || (in_list && column == level && !has_dashes) {
            if let Some((key, _)) = key(content) {
                steps.push(KeyStep::Key(key));
                (level, in_list) = (column, false);
            } else if level == usize::MAX {
                level = column;
            }
        }
        for (dash, _) in line[..column].rmatch_indices('-') {
            if dash < level {
                steps.push(KeyStep::Item(0));
                (level, in_list) = (dash, true);
            } else if let Some(KeyStep::Item(before)) = steps.last_mut().filter(|_| in_list && dash == level)
            {
                *before += 1;
            }
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left_out(text: &str) -> Option<String> {
        let all: Vec<usize> = (0..10).collect();
        let recovered = recovered(text, &all, &Limits::default())?;
        assert_eq!(recovered.text.len(), text.len());
        for rest in &recovered.documents {
            let _ = recovered.fields(rest);
        }
        assert_eq!(recovered.rest_of_text(&Limits::default()).len(), text.len());
        Some(recovered.text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
    }

    #[test]
    fn the_line_that_breaks_a_document_is_left_out() {
        for (text, rest) in [
            ("a:\n  b: 1\n  cd\ne: 2\n", "a:\n  b: 1\n  _:\ne: 2\n"),
            ("a:\n  b: 1\n  c\nd: 2\n", "a:\n  b: 1\n\nd: 2\n"),
            ("a:\r\n  b: \"x\r\nc: 2\r\n", "a:\n  b:\nc: 2\n"),
            ("a:\n- b: c: d\n  e: 1\n", "a:\n- b:\n  e: 1\n"),
            ("a: b\n---\nc: d: e\nf: 1\n", "a: b\n---\nc:\nf: 1\n"),
            ("a:\n\tb: 1\n", "a:\n b: 1\n"),
            ("a:\n  bc\n    d: 1\n", "a:\n  _:\n    d: 1\n"),
            ("a:\n  b:\n  cd\n    e: 1\n", "a:\n  b:\n\n    e: 1\n"),
            ("a: 1\n b: 2\nc: 3\n", "a: 1\n\nc: 3\n"),
            ("a:\n b: 1\n  c: 2\n  d: 3\n", "a:\n\n  c: 2\n  d: 3\n"),
            ("a: [\nb: 1\n", "a:\nb: 1\n"),
        ] {
            assert_eq!(left_out(text).as_deref(), Some(rest), "{text}");
        }
        assert_eq!(left_out("a: 1\n"), None, "nothing is broken");
        assert_eq!(left_out("[[[[\n]]]]]]\n{\n}}}\n: : :\n- x: y: z\n\"\n'\n"), None, "too much is");
    }

    #[test]
    fn a_line_has_its_place() {
        for (text, expected) in [
            ("a:\n  b:\n    c:", "/a/b/c"),
            ("a:\n- b: 1\n  c:", "/a/0/c"),
            ("a:\n  - b: 1\n  # c\n\n  - c: 1\n    d: 2\n  - e:", "/a/2/e"),
            ("x: 1\n---\na:\n  - - b: 1\n    - c:", "/a/0/1/c"),
            ("a:\n  x:\n  - y: 1\n  z:", "/a/z"),
            ("a:\n  - 1\n  - 2", "/a/1"),
        ] {
            let line = line_of(text, text.len());
            let step = |step: KeyStep<'_>| match step {
                KeyStep::Key(key) => format!("/{key}"),
                KeyStep::Item(index) => format!("/{index}"),
            };
            let found: String = place(text, &line).into_iter().map(step).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn many_broken_documents_cost_no_more_than_a_few() {
        let text = "a: b\n---\n".repeat(20_000) + &"a: b: c\n---\n".repeat(20_000);
        let broken: Vec<usize> = (20_000..40_000).collect();
        let input = Input {
            content: Content::Open("a".into(), Arc::new(text)),
            ..Input::named(std::path::Path::new("a"))
        };
        let recovered = of_input(&input, &broken, &Limits::default()).unwrap();
        let found: Vec<usize> = recovered.documents.iter().map(|rest| rest.index).collect();
        assert_eq!(found, [20_000, 20_001, 20_002]);
    }

    #[test]
    fn a_line_has_its_name() {
        for (line, expected, is_whole) in [
            ("  - name: a: b", "name", true),
            ("\tact", "act", false),
            ("  \"nvidia.com/gpu\": {", "nvidia.com/gpu", true),
            ("  \"act", "act", false),
            ("", "", false),
        ] {
            assert_eq!(name(line), (expected.to_owned(), is_whole), "{line}");
        }
    }

    #[test]
    fn only_what_was_broken_is_judged_again() {
        let limits = Limits::default();
        for (text, alone) in [
            ("a: ä\n---\nb: c: d\ne: 1\n---\nf: 1\n", "     \n---\nb:     \ne: 1\n---\n    \n"),
            ("# c\n---\n\na: b: c\n", "   \n---\n\na:     \n"),
        ] {
            assert_eq!(recovered(text, &[1], &limits).unwrap().rest_of_text(&limits), alone);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a:\\-\"'{}\\[\\] \n\r\té#]{0,40}") {
            let _ = left_out(&text);
        }
    }
}
