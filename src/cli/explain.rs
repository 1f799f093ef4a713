//! `jobgate explain`: the manual page of a rule, check or topic, or the list of all.

use std::io::Write;

use anyhow::bail;

use super::Exit;
use super::settings::columns;
use crate::cli::args::page_ids;
use crate::cli::pages;
use crate::cli::topics::TOPICS;
use crate::judge::checks;
use crate::judge::rules::RuleSet;
use crate::text::suggest::closest;

/// Maximum characters of a line: comfortable to read, and fits beside an editor.
const WIDTH: usize = 100;

/// Writes the page of a rule, check or topic, or the list of all, with ANSI styles, which `out` removes if it has no
/// colours.
///
/// # Errors
/// There is no such page, or `out` cannot be written.
pub fn run(id: Option<&str>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let width = columns().unwrap_or(WIDTH).clamp(40, WIDTH);
    let text = match id {
        None => pages::list_for_terminal(width),
        Some(id) => page(id, width)?,
    };
    writeln!(out, "{}", text.trim_end())?;
    Ok(Exit::Clean)
}

fn page(id: &str, width: usize) -> anyhow::Result<String> {
    if let Some(rule) = RuleSet::built_in().find(id) {
        return Ok(pages::rule_for_terminal(rule, width));
    }
    if let Some(check) = checks::find(id) {
        return Ok(pages::check_for_terminal(check, width));
    }
    if let Some(topic) = TOPICS.iter().find(|topic| topic.id == id) {
        return Ok(pages::topic_for_terminal(topic, width));
    }
    match closest(id, page_ids()) {
        Some(meant) => bail!("there is no rule `{}`; did you mean `{meant}`?", id.escape_debug()),
        None => bail!("there is no rule `{}`; `jobgate explain` lists them", id.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(id: Option<&str>) -> Result<String, String> {
        let mut out = Vec::new();
        let result = run(id, &mut anstream::StripStream::new(&mut out));
        result.map(|exit| assert_eq!(exit, Exit::Clean)).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn explains_rules_and_checks() {
        for id in page_ids() {
            assert!(explain(Some(id)).unwrap().starts_with(&format!("{id}\n\n")), "{id}");
        }
    }

    #[test]
    fn lists_them_without_a_name() {
        let list = explain(None).unwrap();
        assert!(list.contains("\ndeadline ") && list.contains("\nplaceholder "), "{list}");
    }

    #[test]
    fn a_misspelling_gets_a_suggestion() {
        assert_eq!(
            explain(Some("dedline")).unwrap_err(),
            "there is no rule `dedline`; did you mean `deadline`?"
        );
        assert_eq!(
            explain(Some("placeholders")).unwrap_err(),
            "there is no rule `placeholders`; did you mean `placeholder`?"
        );
        assert_eq!(
            explain(Some("x\n")).unwrap_err(),
            "there is no rule `x\\n`; `jobgate explain` lists them"
        );
    }
}
