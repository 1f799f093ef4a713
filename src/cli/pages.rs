//! The manual pages of rules and checks, for the terminal and as Markdown files.
//!
//! The text of a page is the doc comment of a rule; its data (action, kinds, parameters) is added. Pages use
//! a subset of Markdown: headings, paragraphs, lists, fenced blocks, inline code, bold, italics and bare
//! links.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::cli::topics::{TOPICS, Topic};
use crate::judge::checks::{self, CHECKS, Check};
use crate::judge::policy::Action;
use crate::judge::rule::{Exportable, Param, ParamDefault, Rule};
use crate::judge::rules::RuleSet;
use crate::kinds::Kind;

const HEADING: Style = Style::new().bold();
const CODE: Style = AnsiColor::Cyan.on_default();
const LINK: Style = Style::new().underline();

/// One block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Block<'p> {
    Heading(&'p str),
    Paragraph(Vec<&'p str>),
    List(Vec<Vec<&'p str>>),
    Fence(Vec<&'p str>),
}

/// Splits a page into blocks. An unclosed fence runs to the end.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    let mut joined = false;
    while let Some(line) = lines.next() {
        let text = line.trim();
        let continues = std::mem::replace(&mut joined, !text.is_empty());
        if text.is_empty() {
            continue;
        }
        if let Some(heading) = text.strip_prefix("## ") {
            blocks.push(Block::Heading(heading));
            joined = false;
        } else if text.starts_with("```") {
            blocks.push(Block::Fence(lines.by_ref().take_while(|line| line.trim_end() != "```").collect()));
            joined = false;
        } else if let Some(item) = text.strip_prefix("* ") {
            match blocks.last_mut() {
                Some(Block::List(items)) => items.push(vec![item]),
                _ => blocks.push(Block::List(vec![vec![item]])),
            }
        } else {
            match blocks.last_mut() {
                Some(Block::Paragraph(lines)) if continues => lines.push(text),
                Some(Block::List(items)) if continues => {
                    items.last_mut().into_iter().for_each(|item| item.push(text));
                }
                _ => blocks.push(Block::Paragraph(vec![text])),
            }
        }
    }
    blocks
}

/// Returns the fenced blocks below a heading of a rule's page, in order.
#[must_use]
pub fn examples(page: &str, heading: &str) -> Vec<String> {
    let mut here = "";
    let mut found = Vec::new();
    for block in blocks(page) {
        match block {
            Block::Heading(text) => here = text,
            Block::Fence(lines) if here == heading => found.push(lines.join("\n") + "\n"),
            _ => {}
        }
    }
    found
}

/// Splits text into runs of one style. Code keeps its backticks, to be visible without colours.
fn runs(text: &str) -> Vec<(Style, &str)> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '<']) {
        let (before, from) = rest.split_at(at);
        let inside = |open: &str, close: &str| {
            let length = from.strip_prefix(open)?.find(close)?;
            (length > 0).then(|| (open.len(), open.len() + length, open.len() + length + close.len()))
        };
        let (style, start, end, next) = if let Some((_, _, next)) = inside("`", "`") {
            (CODE, 0, next, next)
        } else if let Some((start, end, next)) = inside("**", "**") {
            (HEADING, start, end, next)
        } else if let Some((start, end, next)) = inside("<", ">").filter(|_| from.starts_with("<http")) {
            (LINK, start, end, next)
        } else if let Some((start, end, next)) = inside("*", "*") {
            (Style::new().italic(), start, end, next)
        } else {
            (Style::new(), 0, 1, 1)
        };
        runs.push((Style::new(), before));
        runs.push((style, &from[start..end]));
        rest = &from[next..];
    }
    runs.push((Style::new(), rest));
    runs
}

/// Wraps text at `width` characters, with `indent` before every line but the first.
fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    // The pieces of a word, whose style may change inside it.
    let mut word: Vec<(Style, &str)> = Vec::new();
    let mut flush = |word: &mut Vec<(Style, &str)>| {
        let length: usize = word.iter().map(|(_, piece)| piece.chars().count()).sum();
        if length == 0 {
            return;
        }
        if column > indent && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        for (style, piece) in word.drain(..).filter(|(_, piece)| !piece.is_empty()) {
            let _ = write!(out, "{style}{piece}{style:#}");
        }
        column += length;
    };
    for (style, run) in runs(text) {
        for (index, piece) in run.split(' ').enumerate() {
            if index > 0 {
                flush(&mut word);
            }
            word.push((style, piece));
        }
    }
    flush(&mut word);
    out
}

/// Returns Markdown as text for a terminal of a width, with ANSI styles.
fn styled(page: &str, width: usize) -> String {
    let mut out = String::new();
    for block in blocks(page) {
        match block {
            Block::Heading(text) => {
                // Visible without colours too, as in a man page.
                let _ = writeln!(out, "{HEADING}{}{HEADING:#}", text.to_uppercase());
            }
            Block::Paragraph(lines) => {
                let _ = writeln!(out, "{}\n", wrap(&lines.join(" "), width, 0));
            }
            Block::List(items) => {
                for item in items {
                    let _ = writeln!(out, "  * {}", wrap(&item.join(" "), width, 4));
                }
                out.push('\n');
            }
            Block::Fence(lines) => {
                for line in lines {
                    let _ = writeln!(out, "{}", format!("    {line}").trim_end());
                }
                out.push('\n');
            }
        }
    }
    out
}

/// Returns the type of a parameter, for people.
fn type_of(param: &Param) -> String {
    match param.default {
        ParamDefault::Bool(_) => "boolean".to_owned(),
        ParamDefault::Int { least, .. } => format!("whole number, at least {least}"),
        ParamDefault::Strings(_) => "list of strings".to_owned(),
        ParamDefault::Map(_) => "mapping of strings to strings".to_owned(),
        ParamDefault::Word(known) => format!("one of {}", words(known.iter().copied())),
    }
}

/// Returns the rule's defaults as in a policy: YAML with every parameter.
fn settings(rule: &Rule) -> String {
    let mut out = format!("rules:\n  {}:\n    action: {}\n", rule.id, rule.default.as_str());
    if !rule.params.is_empty() {
        out.push_str("    params:\n");
    }
    for param in rule.params {
        let _ = match param.default {
            ParamDefault::Bool(value) => writeln!(out, "      {}: {value}", param.name),
            ParamDefault::Int { value, .. } => writeln!(out, "      {}: {value}", param.name),
            ParamDefault::Word(words) => {
                writeln!(out, "      {}: {}", param.name, words.first().copied().unwrap_or_default())
            }
            ParamDefault::Strings(list) => writeln!(out, "      {}: [{}]", param.name, list.join(", ")),
            ParamDefault::Map(map) => {
                let _ = writeln!(out, "      {}:", param.name);
                map.iter().try_for_each(|(key, value)| {
                    let key =
                        if key.contains(['*', ':', '#']) { format!("\"{key}\"") } else { (*key).to_owned() };
                    let value = if value.is_empty() { "\"\"" } else { value };
                    writeln!(out, "        {key}: {value}")
                })
            }
        };
    }
    out
}

/// Returns words as code, each once.
fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut out: Vec<String> = Vec::new();
    for word in words.into_iter().map(|word| format!("`{word}`")) {
        if !out.contains(&word) {
            out.push(word);
        }
    }
    out.join(", ")
}

/// Returns the data of a rule, as a Markdown list.
fn facts(rule: &Rule) -> String {
    let others =
        Action::allowed(rule.can_fill()).filter(|action| *action != rule.default).map(Action::as_str);
    let mut out = format!("* Action: `{}`; a policy may set {}\n", rule.default.as_str(), words(others));
    let _ = writeln!(out, "* Kinds: {}", words(rule.kinds.iter().map(Kind::title)));
    if rule.can_fill() {
        let _ = writeln!(out, "* Fills: {}", words(rule.fills.places().iter().map(String::as_str)));
    }
    let _ = match &rule.export {
        Exportable::Cel(cel) => writeln!(
            out,
            "* Without Jobgate: the API server can enforce it (`jobgate policy export --vap`), for {}",
            words(cel.kinds.iter().map(Kind::title))
        ),
        Exportable::No(why) => writeln!(out, "* Without Jobgate: no; {why}"),
    };
    for param in rule.params {
        let _ = writeln!(out, "* Parameter `{}` ({}): {}", param.name, type_of(param), param.doc);
    }
    out
}

/// Returns a rule's page with its data, in Markdown, without a title.
#[must_use]
pub fn rule_in_markdown(rule: &Rule) -> String {
    format!(
        "{}\n\n## Policy\n\n{}\nIn a policy, with the defaults:\n\n```yaml\n{}```\n",
        rule.page.text().trim(),
        facts(rule),
        settings(rule)
    )
}

/// Returns the page of a rule or check in Markdown, as an editor shows it.
#[must_use]
pub fn page_for_editor(id: &str) -> Option<String> {
    if let Some(rule) = RuleSet::built_in().find(id) {
        return Some(format!("### {id}\n\n**{}**\n\n{}", rule.summary, rule_in_markdown(rule)));
    }
    let check = checks::find(id)?;
    Some(format!("### {id}\n\n**{}.**\n\n{}\n", check.summary, check.page))
}

/// Returns a rule's page for a terminal of a width, with ANSI styles.
#[must_use]
pub(crate) fn rule_for_terminal(rule: &Rule, width: usize) -> String {
    format!("{HEADING}{}{HEADING:#}\n\n{}", rule.id, styled(&rule_in_markdown(rule), width))
}

/// Returns a check's page for a terminal of a width, with ANSI styles.
#[must_use]
pub(crate) fn check_for_terminal(check: &Check, width: usize) -> String {
    let page = format!(
        "{}.\n\n{}\n\nThis is a check of the input; a policy cannot set it.\n",
        check.summary, check.page
    );
    format!("{HEADING}{}{HEADING:#}\n\n{}", check.id, styled(&page, width))
}

/// Returns a topic's page for a terminal of a width, with ANSI styles.
#[must_use]
pub(crate) fn topic_for_terminal(topic: &Topic, width: usize) -> String {
    let page = format!("{}.\n\n{}\n", topic.title(), topic.page());
    format!("{HEADING}{}{HEADING:#}\n\n{}", topic.id, styled(&page, width))
}

/// Returns the list of all rules, checks and topics for a terminal of a width, with ANSI styles.
#[must_use]
pub(crate) fn list_for_terminal(width: usize) -> String {
    let rules = RuleSet::built_in();
    let ids = rules.iter().map(|rule| &*rule.id).chain(CHECKS.iter().map(|check| check.id));
    let first = ids.map(str::len).max().unwrap_or_default() + 2;
    let second = Action::ALL.iter().map(|action| action.as_str().len()).max().unwrap_or_default() + 2;
    let mut out = format!("{HEADING}{:first$}{:second$}What must hold{HEADING:#}\n", "Rule", "Action");
    // A name of a field is not broken, so a narrow terminal has what must hold on lines of its own.
    let is_narrow = width < first + second + 30;
    for rule in &rules {
        let summary = match is_narrow {
            true => format!("\n    {}", wrap(&rule.summary, width, 4)),
            false => wrap(&rule.summary, width, first + second),
        };
        let _ = writeln!(out, "{CODE}{:first$}{CODE:#}{:second$}{summary}", rule.id, rule.default.as_str());
    }
    let _ = writeln!(out, "\n{HEADING}{:first$}What must hold{HEADING:#}", "Check");
    for check in CHECKS {
        let _ = writeln!(out, "{CODE}{:first$}{CODE:#}{}", check.id, wrap(check.summary, width, first));
    }
    let _ = writeln!(out, "\n{HEADING}{:first$}What is often wrong{HEADING:#}", "Topic");
    for topic in TOPICS {
        let _ = writeln!(out, "{CODE}{:first$}{CODE:#}{}", topic.id, wrap(topic.title(), width, first));
    }
    let advice = "A policy sets a rule's action; checks are about the input itself. `jobgate explain NAME` shows a page.";
    let _ = writeln!(out, "\n{}", wrap(advice, width, 0));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::judge::policy::{API_VERSION, KIND, Policy};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn pages_are_split_into_blocks() {
        let page = "One\ntwo.\n\n## Bad\n\n```yaml\na: 1\n\nb: 2\n```\n* x\n* y\n  z\n\nEnd `a`\n";
        let expected = vec![
            Block::Paragraph(vec!["One", "two."]),
            Block::Heading("Bad"),
            Block::Fence(vec!["a: 1", "", "b: 2"]),
            Block::List(vec![vec!["x"], vec!["y", "z"]]),
            Block::Paragraph(vec!["End `a`"]),
        ];
        assert_eq!(blocks(page), expected);
        assert_eq!(examples(page, "Bad"), ["a: 1\n\nb: 2\n"]);
        assert!(examples(page, "Good").is_empty());
    }

    #[test]
    fn markdown_becomes_text() {
        let page = "A **bold** word, *one*, and `some code`.\n\n## Head\n\n* see <https://example.com/x>\n* 2 * 3 < 7\n\n```yaml\nkey: *x\n```\n";
        insta::assert_snapshot!(plain(&styled(page, 80)), @"
        A bold word, one, and `some code`.

        HEAD
          * see https://example.com/x
          * 2 * 3 < 7

            key: *x
        ");
        assert_eq!(styled("**b**", 80), "\u{1b}[1mb\u{1b}[0m\n\n");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        insta::assert_snapshot!(plain(&wrap("one two `three four` five, six-and-seven `a`.", 12, 2)), @"
        one two
          `three
          four`
          five,
          six-and-seven
          `a`.
        ");
    }

    #[test]
    fn every_rule_page_has_its_sections_in_order() {
        for rule in &RuleSet::built_in() {
            let page = rule.page.text();
            let headings: Vec<&str> = blocks(&page)
                .into_iter()
                .filter_map(|block| if let Block::Heading(text) = block { Some(text) } else { None })
                .collect();
            assert_eq!(headings, ["Why", "Bad", "Good", "Fix", "Details", "References"], "{}", rule.id);
            assert!(matches!(blocks(&page)[0], Block::Paragraph(_)), "{}", rule.id);
        }
    }

    #[test]
    fn pages_use_only_the_markdown_that_is_rendered() {
        let rules = RuleSet::built_in();
        let pages = rules
            .iter()
            .map(|rule| (&*rule.id, rule.page.text()))
            .chain(CHECKS.iter().map(|check| (check.id, check.page.into())));
        for (id, page) in pages {
            for block in blocks(&page) {
                let lines = match block {
                    Block::Paragraph(lines) => lines,
                    Block::List(items) => items.concat(),
                    Block::Heading(_) | Block::Fence(_) => continue,
                };
                let text = lines.join(" ");
                let outside: String =
                    runs(&text).iter().filter(|(style, _)| *style != CODE).map(|(_, run)| *run).collect();
                for mark in ["](", "`", "__", "<", "| ", "# ", "- "] {
                    assert!(!outside.contains(mark), "{id}: {mark:?} in {outside}");
                }
            }
        }
    }

    #[test]
    fn the_settings_shown_are_a_policy_that_changes_nothing() {
        for rule in &RuleSet::built_in() {
            let spec: String = settings(rule).lines().map(|line| format!("  {line}\n")).collect();
            let source =
                format!("apiVersion: {API_VERSION}\nkind: {KIND}\nmetadata: {{name: shown}}\nspec:\n{spec}");
            let policy =
                Policy::parse(&source, "shown.yaml").unwrap_or_else(|errors| panic!("{errors}\n{source}"));
            assert_eq!(policy.base(&rule.id), Policy::default().base(&rule.id));
            let params = &policy.settings()[&*rule.id].params;
            assert_eq!(params.len(), rule.params.len());
        }
    }

    #[test]
    fn pages_say_what_is_data() {
        for rule in &RuleSet::built_in() {
            for page in [plain(&rule_for_terminal(rule, 100)), rule_in_markdown(rule)] {
                assert!(page.contains(&*rule.id));
                for param in rule.params {
                    assert!(page.contains(&format!("`{}`", param.name)), "{}: {}", rule.id, param.name);
                }
            }
        }
    }

    #[test]
    fn the_list_fits_its_width_and_names_everything() {
        // A name of a field beside the longest id takes 70 columns.
        for width in [72, 80, 120] {
            let list = plain(&list_for_terminal(width));
            assert!(list.lines().all(|line| line.chars().count() <= width), "{list}");
            assert!(RuleSet::built_in().iter().all(|rule| list.contains(&*rule.id)));
            assert!(CHECKS.iter().all(|check| list.contains(check.id)));
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_shown(text in "[a` *<>h\n#-]{0,40}", width in 0usize..30) {
            let _ = styled(&text, width);
        }

        #[test]
        fn wrapping_keeps_the_words(text in "[a-c `]{0,40}", width in 1usize..30) {
            let shown = plain(&wrap(&text, width, 3));
            prop_assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
