//! The `# expect:` lines of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Problem;
use crate::judge::finding::Level;
use crate::judge::rules::RuleSet;
use crate::judge::selection;
use crate::report::{ObjectId, clean};
use crate::text::lines::Lines;
use crate::text::pointer::Pointer;
use crate::text::suggest::closest;
use crate::text::yaml::Edit;

/// The start of a line.
const EXPECT: &str = "# expect: ";

/// The line of a case without findings.
const NOTHING: &str = "nothing";

/// The level of a line about something that is not judged; it has the reason in place of a rule.
pub(super) const NOT_JUDGED: &str = "not-judged";

/// The placeholder for a missing name or field.
const NONE: &str = "-";

/// Maximum characters of a name in a line. A valid one has at most 253.
const MAX_NAME: usize = 253;

/// The expectations of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    /// What must be found, sorted, without `nothing`.
    pub lines: Vec<String>,
    /// All lines of the file with their texts, line breaks included, in order.
    spans: Vec<(Range<usize>, String)>,
}

/// Formats a finding as a line: its level, the rule, the object's name and the field. Nothing in it can end the
/// comment.
#[must_use]
pub fn line(level: Level, rule: &str, object: Option<&ObjectId>, field: &Pointer) -> String {
    words(level.as_str(), rule, object, &field.to_string())
}

/// Returns a line of four words.
pub(super) fn words(level: &str, rule: &str, object: Option<&ObjectId>, field: &str) -> String {
    let name: String = object
        .and_then(|object| object.name.as_deref())
        .filter(|name| !name.is_empty())
        .unwrap_or(NONE)
        .chars()
        .take(MAX_NAME)
        .collect();
    let field = if field.is_empty() { NONE } else { field };
    clean(&format!("{level} {rule} {name} {field}")).trim_end().to_owned()
}

impl Expectations {
    /// Reads the lines of a text. `path` is shown in problems.
    ///
    /// # Errors
    ///
    /// A line can never come true, or is almost a line. Having no lines is not an error.
    pub(crate) fn parse(source: &[u8], path: &str) -> Result<Self, Vec<Problem>> {
        let (mut expectations, mut problems) = (Self::default(), Vec::new());
        let mut bad = Vec::new();
        let mut start = 0;
        for line in source.split_inclusive(|byte| *byte == b'\n') {
            let span = start..start + line.len();
            start = span.end;
            // Checks for a comment first, since most lines are not comments.
            if !line.trim_ascii_start().starts_with(b"#") && !line.starts_with(MARK) {
                continue;
            }
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end();
            match line.trim_start_matches('\u{feff}').strip_prefix(EXPECT) {
                Some(text) => {
                    let text = text.trim();
                    if let Err((at, message, help)) = check(text) {
                        bad.push((span.start + line.rfind(text).unwrap_or_default() + at, message, help));
                    }
                    if text != NOTHING {
                        expectations.lines.push(text.to_owned());
                    }
                    let mark = line.len() - line.trim_start_matches('\u{feff}').len();
                    expectations.spans.push((span.start + mark..span.end, text.to_owned()));
                }
                None if is_near(line) => bad.push((
                    span.start + line.find('#').unwrap_or_default(),
                    "this line is not read as an expectation".to_owned(),
                    Some("start it with `# expect: `, without blanks before it".to_owned()),
                )),
                None => {}
            }
        }
        if let Some((span, _)) = expectations.spans.iter().find(|(_, text)| text == NOTHING)
            && !expectations.lines.is_empty()
        {
            bad.push((span.start, format!("`{NOTHING}` is expected, and something else too"), None));
        }
        if !bad.is_empty() {
            let lines = Lines::new(source);
            bad.sort_by_key(|(at, ..)| *at);
            problems.extend(bad.into_iter().map(|(at, message, help)| Problem {
                path: path.to_owned(),
                position: Some(lines.position(at)),
                message,
                help,
            }));
        }
        expectations.lines.sort();
        if problems.is_empty() { Ok(expectations) } else { Err(problems) }
    }

    /// Tells whether there are no lines.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Tells whether a line names a rule or check.
    pub(super) fn names(&self, id: &str) -> bool {
        self.lines.iter().any(|line| line.split(' ').nth(1) == Some(id))
    }

    /// Returns the edits that make the lines of a text match the findings, sorted. Correct lines stay where they are;
    /// new ones come after the last line, or else after the comments at the start.
    #[must_use]
    pub(crate) fn edits(&self, source: &[u8], found: &[String]) -> Vec<Edit> {
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for line in found {
            *missing.entry(line).or_default() += 1;
        }
        let mut edits = Vec::new();
        let mut kept = 0;
        for (span, text) in &self.spans {
            match missing.get_mut(text.as_str()).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None if text == NOTHING && found.is_empty() && kept == 0 => {}
                None => {
                    edits.push(Edit { span: span.clone(), text: String::new() });
                    continue;
                }
            }
            kept += 1;
        }
        let mut new: Vec<&str> = Vec::new();
        let mut seen = BTreeSet::new();
        for line in found.iter().filter(|line| seen.insert(line.as_str())) {
            new.extend(std::iter::repeat_n(line.as_str(), missing.get(line.as_str()).copied().unwrap_or(0)));
        }
        if found.is_empty() && kept == 0 {
            new.push(NOTHING);
        }
        if !new.is_empty() {
            let at = self.spans.last().map_or_else(|| behind_comments(source), |(span, _)| span.end);
            let end = if source.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r"))
            {
                "\r\n"
            } else {
                "\n"
            };
            let mut text: String = new.iter().map(|line| format!("{EXPECT}{line}{end}")).collect();
            let is_line_start = at == 0 || source[..at].ends_with(b"\n") || source[..at] == *MARK;
            if !is_line_start {
                text.insert_str(0, end);
            }
            edits.push(Edit { span: at..at, text });
        }
        edits
    }
}

/// The byte order mark.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns the end of the comments at the start of a text.
fn behind_comments(source: &[u8]) -> usize {
    let start = if source.starts_with(MARK) { MARK.len() } else { 0 };
    let lines = source[start..].split_inclusive(|byte| *byte == b'\n');
    start + lines.take_while(|line| line.starts_with(b"#")).map(<[u8]>::len).sum::<usize>()
}

/// Tells whether a comment was meant as a line.
fn is_near(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix('#') else { return false };
    let text = text.trim_start_matches('#').trim_start().to_ascii_lowercase();
    let Some((word, rest)) = text.split_once(':') else { return false };
    let first = rest.split_whitespace().next().unwrap_or_default();
    matches!(word.trim_end(), "expect" | "expects" | "expected" | "expectation")
        && (rest.is_empty() && line == "# expect:"
            || LEVELS.iter().chain(&[NOTHING, "error", "warning"]).any(|level| *level == first))
}

/// The levels that a line may start with, apart from `nothing`.
const LEVELS: [&str; 4] = ["deny", "warn", "note", NOT_JUDGED];

/// Checks the words of a line. An error includes its offset in the text.
fn check(text: &str) -> Result<(), (usize, String, Option<String>)> {
    if text == NOTHING {
        return Ok(());
    }
    let shown = |word: &str| clean(&word.chars().take(80).collect::<String>()).into_owned();
    let mut words = text.splitn(4, ' ');
    let level = words.next().unwrap_or_default();
    if !LEVELS.contains(&level) {
        let meant = match level {
            "error" => Some("deny"),
            "warning" => Some("warn"),
            _ => closest(level, LEVELS.into_iter().chain([NOTHING])),
        };
        let help = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("write one of {}, or {NOTHING}", LEVELS.join(", ")),
        };
        return Err((0, format!("`{}` is not a level", shown(level)), Some(help)));
    }
    let rule = words.next().unwrap_or_default();
    if rule.is_empty() || words.next().is_none() || words.next().is_none_or(str::is_empty) {
        let help =
            format!("write `{EXPECT}LEVEL RULE NAME FIELD`, with `-` for a name or field that there is not");
        return Err((0, "an expectation has four words".to_owned(), Some(help)));
    }
    if level != NOT_JUDGED
        && let Err(error) = known(rule)
    {
        return Err((level.len() + 1, error.0, Some(error.1)));
    }
    Ok(())
}

/// Fails for anything that is not the id of a rule or check, including globs.
fn known(rule: &str) -> Result<(), (String, String)> {
    let ids: Vec<_> = selection::ids(&RuleSet::built_in()).collect();
    if ids.iter().any(|id| *id == *rule) {
        return Ok(());
    }
    let shown = clean(&rule.chars().take(80).collect::<String>()).into_owned();
    let help = match closest(rule, ids.iter().map(|id| &**id)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`jobgate explain` lists the rules and checks".to_owned(),
    };
    Err((format!("there is no rule or check `{shown}`"), help))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fix;
    use super::*;

    fn problems(source: &str) -> Vec<String> {
        Expectations::parse(source.as_bytes(), "a.yaml")
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn with(source: &str, found: &[&str]) -> String {
        let expectations = Expectations::parse(source.as_bytes(), "").unwrap();
        let found: Vec<String> = found.iter().map(|line| (*line).to_owned()).collect();
        let edits = expectations.edits(source.as_bytes(), &found);
        String::from_utf8(fix::apply(source.as_bytes(), &edits)).unwrap()
    }

    const DEADLINE: &str = "deny deadline train spec.activeDeadlineSeconds";

    #[test]
    fn a_line_that_cannot_come_true_is_shown_where_it_is() {
        for (line, problem) in [
            (
                "# expect: deny deadlien train spec.x",
                "15: there is no rule or check `deadlien`; did you mean `deadline`?",
            ),
            (
                "# expect: deny dead* train spec.x",
                "15: there is no rule or check `dead*`; `jobgate explain` lists the rules and checks",
            ),
            ("# expect: deni deadline train spec.x", "10: `deni` is not a level; did you mean `deny`?"),
            ("# expect: error deadline train x", "10: `error` is not a level; did you mean `deny`?"),
            (
                "# expect: \u{1b}[31m",
                "10: `␛[31m` is not a level; write one of deny, warn, note, not-judged, or nothing",
            ),
            (
                "# expect: deny deadline train",
                "10: an expectation has four words; write `# expect: LEVEL RULE NAME FIELD`, with `-` for a name or field that there is not",
            ),
            (
                "#expect: nothing",
                "0: this line is not read as an expectation; start it with `# expect: `, without blanks before it",
            ),
            (
                "  # Expected: deny deadline x y",
                "2: this line is not read as an expectation; start it with `# expect: `, without blanks before it",
            ),
            (
                "# expect:",
                "0: this line is not read as an expectation; start it with `# expect: `, without blanks before it",
            ),
        ] {
            let (column, rest) = problem.split_once(": ").unwrap();
            let column = column.parse::<usize>().unwrap() + 1;
            assert_eq!(problems(&format!("a: 1\n{line}\n")), [format!("a.yaml:2:{column}: {rest}")]);
        }
        let both = format!("# expect: nothing\n# expect: {DEADLINE}\n");
        assert_eq!(problems(&both), ["a.yaml:1:1: `nothing` is expected, and something else too"]);
        for prose in
            ["# We expect: a lot", "# expected: the webhook denies it", "x: '# expect nothing'", "# expect"]
        {
            assert_eq!(problems(prose), [""; 0], "{prose}");
        }
    }

    #[test]
    fn lines_that_are_right_stay_where_they_are() {
        let two = format!("# Why.\n# expect: {DEADLINE}\na: 1\n# expect: warn gpu-toleration x y\nb: 2\n");
        assert_eq!(with(&two, &["warn gpu-toleration x y", DEADLINE]), two);
        assert_eq!(with(&two, &[DEADLINE]), format!("# Why.\n# expect: {DEADLINE}\na: 1\nb: 2\n"));
        assert_eq!(
            with(&two, &[DEADLINE, DEADLINE]),
            format!("# Why.\n# expect: {DEADLINE}\na: 1\n# expect: {DEADLINE}\nb: 2\n")
        );
        assert_eq!(with(&two, &[]), "# Why.\na: 1\n# expect: nothing\nb: 2\n");
        assert_eq!(with("# expect: nothing\n", &[]), "# expect: nothing\n");
        assert_eq!(with("# expect: nothing\na: 1\n", &[DEADLINE]), format!("# expect: {DEADLINE}\na: 1\n"));
    }

    #[test]
    fn a_first_line_comes_behind_the_comments_at_the_start() {
        for (source, wanted) in [
            ("a: 1\n", "# expect: nothing\na: 1\n"),
            ("# Why.\n# More.\na: 1\n# x\n", "# Why.\n# More.\n# expect: nothing\na: 1\n# x\n"),
            ("\u{feff}a: 1\n", "\u{feff}# expect: nothing\na: 1\n"),
            ("a: 1\r\nb: 2\r\n", "# expect: nothing\r\na: 1\r\nb: 2\r\n"),
            ("# Why.", "# Why.\n# expect: nothing\n"),
            ("", "# expect: nothing\n"),
        ] {
            assert_eq!(with(source, &[]), wanted);
        }
    }

    #[test]
    fn a_name_cannot_end_the_comment() {
        let object =
            ObjectId { name: Some("a\n---\nkind: \u{1b}[2J\u{2028}\r".to_owned()), ..ObjectId::default() };
        let text = line(Level::Deny, "deadline", Some(&object), &Pointer::root());
        assert_eq!(text, "deny deadline a␊---␊kind: ␛[2J<U+2028>␍ -");
        let long = ObjectId { name: Some("x".repeat(1 << 20)), ..ObjectId::default() };
        assert!(line(Level::Deny, "deadline", Some(&long), &Pointer::root()).len() < 300);
        assert_eq!(line(Level::Note, "deadline", None, &Pointer::root()), "note deadline - -");
    }

    proptest! {
        /// What is written is read back, and then nothing is left to write.
        #[test]
        fn edited_lines_say_what_was_found(
            source in "(# expect: (deny deadline a b|warn deadline a b|note deadline c d)\n|a: 1\r?\n|# x\n|\n){0,8}",
            found in prop::collection::vec(prop::sample::select(vec![
                "deny deadline a b", "warn deadline a b", "note gpu-toleration \u{1F600} -",
            ]), 0..4),
        ) {
            let text = with(&source, &found);
            let again = Expectations::parse(text.as_bytes(), "").unwrap();
            let mut sorted: Vec<String> = found.iter().map(|line| (*line).to_owned()).collect();
            sorted.sort();
            prop_assert_eq!(&again.lines, &sorted);
            prop_assert!(!again.is_empty());
            prop_assert_eq!(with(&text, &found), text.clone());
            let rest = |text: &str| -> Vec<String> {
                text.lines().filter(|line| !line.starts_with(EXPECT)).map(str::to_owned).collect()
            };
            prop_assert_eq!(rest(&text), rest(&source));
        }
    }
}
