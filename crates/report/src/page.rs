//! Metadata of rules and checks, for links and for formats that include it.

use std::borrow::Cow;

use jobgate_core::judge::checks::{self, CHECKS};
use jobgate_core::judge::finding::Level;
use jobgate_core::judge::policy::Action;
use jobgate_core::judge::rule::RuleId;
use jobgate_core::judge::rules::RuleSet;

/// The address of the pages of the rules.
pub(crate) const DOCS: &str = "https://github.com/jobgate/jobgate/blob/main/docs/rules";

/// A rule or a check, with the data from its manual page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its id.
    pub(crate) id: RuleId,
    /// What is wrong, in a few words.
    pub(super) problem: Cow<'static, str>,
    /// One line: what must hold.
    pub(super) summary: Cow<'static, str>,
    /// The whole page, in Markdown.
    pub(super) text: Cow<'static, str>,
    /// The default level of its findings.
    pub(super) level: Level,
    /// `rule` or `input`: which of the two it is.
    pub(super) group: &'static str,
}

/// Returns the pages of some rules and of all checks, sorted by id.
pub(crate) fn all(rules: &RuleSet) -> Vec<Page> {
    let rules = rules.iter().map(|rule| Page {
        id: rule.id.clone(),
        problem: rule.problem.clone(),
        summary: rule.summary.clone(),
        text: rule.page.text().into_owned().into(),
        level: match rule.default {
            Action::Deny => Level::Deny,
            Action::Warn => Level::Warn,
            Action::Note | Action::Fill | Action::Ignore => Level::Note,
        },
        group: "rule",
    });
    let checks = CHECKS.iter().map(|check| Page {
        id: check.id.into(),
        problem: check.problem.into(),
        summary: check.summary.into(),
        text: check.page.into(),
        level: if check.id == checks::SYNTAX { Level::Deny } else { Level::Warn },
        group: "input",
    });
    let mut pages: Vec<_> = rules.chain(checks).collect();
    pages.sort_by(|a, b| a.id.cmp(&b.id));
    pages
}

/// Returns the address of a rule's page, or of a check's section on the page of all checks.
pub fn link(id: &str) -> String {
    if checks::find(id).is_none() { format!("{DOCS}/{id}.md") } else { format!("{DOCS}/README.md#{id}") }
}

impl Page {
    /// Returns what is wrong as one word, the name that SARIF requires: `NoDeadline`.
    pub(super) fn name(&self) -> String {
        let capital = |word: &str| {
            let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
            first.to_uppercase() + rest
        };
        let words = self.problem.split(|char: char| !char.is_alphanumeric());
        words.map(capital).collect()
    }

    /// Returns what must hold and why, as a paragraph.
    pub(super) fn in_full(&self) -> String {
        format!("{}. {}", self.summary, self.why())
    }

    /// Returns the paragraph on why it matters, on one line.
    pub(super) fn why(&self) -> String {
        let rest = self.text.split_once("## Why\n").map_or(&*self.text, |(_, rest)| rest);
        let paragraph = rest.trim_start().lines().take_while(|line| !line.trim().is_empty());
        paragraph.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Returns the first sentence of [`Page::why`].
    pub(super) fn why_in_short(&self) -> String {
        let why = self.why();
        let ends = why.match_indices(". ").map(|(at, _)| at);
        let end = ends
            .into_iter()
            .find(|&at| !["e.g", "i.e", "etc", "cf", "vs"].iter().any(|short| why[..at].ends_with(short)));
        let sentence = end.map_or(&*why, |at| &why[..at]);
        sentence.strip_suffix('.').unwrap_or(sentence).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn page(text: &str) -> Page {
        let text = text.to_owned().into();
        Page {
            id: "x".into(),
            problem: "x".into(),
            summary: "x".into(),
            text,
            level: Level::Deny,
            group: "rule",
        }
    }

    #[test]
    fn every_rule_and_check_has_a_reason() {
        let pages = all(&RuleSet::built_in());
        assert!(pages.windows(2).all(|pair| pair[0].id < pair[1].id));
        for page in pages {
            let why = page.why_in_short();
            assert!(
                why.len() > 20 && !why.contains("##") && !why.contains('\n') && !why.ends_with('.'),
                "{}: {why:?}",
                page.id
            );
        }
    }

    #[test]
    fn every_rule_and_check_has_a_title_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for page in all(&RuleSet::built_in()) {
            let (problem, name) = (&*page.problem, page.name());
            assert!((5..=55).contains(&problem.len()) && !problem.ends_with('.'), "{problem:?}");
            assert!(problem.starts_with(char::is_uppercase) && !problem.contains(['`', '<']), "{problem:?}");
            assert!(problem != page.summary && names.insert(name.clone()), "{problem:?}");
            assert!(
                name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric),
                "{name:?}"
            );
        }
    }

    #[test]
    fn the_name_is_the_title_as_one_word() {
        let mut page = page("x");
        page.problem = "Queue name in an annotation".into();
        assert_eq!(page.name(), "QueueNameInAnAnnotation");
    }

    #[test]
    fn the_reason_is_the_first_sentence_under_why() {
        let page = page("Summary. More.\n\n## Why\n\nIt hangs, e.g. in NCCL. kubectl\nis idle.\n\n## Bad\n");
        assert_eq!(page.why(), "It hangs, e.g. in NCCL. kubectl is idle.");
        assert_eq!(page.why_in_short(), "It hangs, e.g. in NCCL");
    }

    #[test]
    fn every_link_leads_to_a_page_of_this_repository() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules");
        for page in all(&RuleSet::built_in()) {
            let link = link(&page.id);
            let (file, part) = link.split_once('#').unwrap_or((&link, ""));
            let text =
                fs::read_to_string(folder.join(file.strip_prefix(DOCS).unwrap().trim_start_matches('/')));
            let heading = if part.is_empty() { format!("# {}\n", page.id) } else { format!("\n## {part}\n") };
            assert!(text.unwrap().contains(&heading), "{link}");
        }
    }
}
