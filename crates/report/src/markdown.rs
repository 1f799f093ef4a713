//! Markdown for a comment of a pull request or the summary of a CI job.
//!
//! The size of the text is limited, since GitHub rejects all of a larger one. Text from manifests is written as
//! entities wherever it could mean something to Markdown, HTML or GitHub.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use super::group::{self, FindingGroup};
use super::text::{clean, plural, thousands};
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use crate::{page, summary, verdict};
use jobgate_core::judge::finding::{Level, Safety};
use jobgate_core::text::lines::cut;

/// Maximum bytes of a comment: GitHub accepts 65,536 characters.
const COMMENT: usize = 65_000;
/// Maximum bytes with `--full`: GitHub accepts 1 MiB as the summary of a job.
const SUMMARY: usize = 1_000_000;
/// Bytes reserved for the ends of lists, which count what is left out.
const RESERVE: usize = 600;
/// Maximum bytes of one text from a manifest.
const TEXT: usize = 400;
/// Maximum related places of a finding.
const RELATED: usize = 3;
/// Maximum rows of a table, and items of a list of what was not judged.
const ROWS: usize = 10;

/// Writes the report.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let mut text = BoundedText { text: String::new(), most: if options.full { SUMMARY } else { COMMENT } };
    let rows = if options.full { usize::MAX } else { ROWS };
    text.push(&head(report, options));
    text.push_table(&rules(report, options), usize::MAX);
    text.push_table(&verdicts(report), rows.max(2 * ROWS));
    text.push_table(&namespaces(report), rows);
    if let Some(all) = report.holdings.in_short() {
        text.push(&format!("Accelerators: {all}.\n\n"));
    }
    text.push_table(&accelerators(report), rows);
    text.push(&fixes(report));
    findings(report, &mut text);
    unjudged(report, options, rows, &mut text);
    out.write_all(text.text.as_bytes())
}

/// Text up to a size.
struct BoundedText {
    text: String,
    most: usize,
}

impl BoundedText {
    /// Tells whether a text has room, besides the reserve.
    fn fits(&self, text: &str) -> bool {
        self.text.len() + text.len() + RESERVE <= self.most
    }

    /// Appends a text, or nothing of it.
    fn push(&mut self, text: &str) -> bool {
        let fits = self.fits(text);
        if fits {
            self.text.push_str(text);
        }
        fits
    }

    /// Appends as many rows of a table as there is room for.
    fn push_table(&mut self, table: &MarkdownTable, most: usize) {
        // A line about one more row takes as much space as the row.
        let most = if table.rows.len() <= most.saturating_add(1) { table.rows.len() } else { most };
        if table.rows.is_empty() || !self.push(&table.head) {
            return;
        }
        let shown = table.rows.iter().take(most).take_while(|row| self.push(row)).count();
        self.text.push('\n');
        if shown < table.rows.len() {
            let more = thousands(table.rows.len() - shown);
            let _ = writeln!(self.text, "… and {more} more {}\n", table.what);
        }
    }
}

/// A table, by its lines.
struct MarkdownTable {
    head: String,
    rows: Vec<String>,
    /// The noun for its rows.
    what: &'static str,
}

impl MarkdownTable {
    /// Creates a table; columns whose heads start with a colon are numeric.
    fn new(heads: &[&str], rows: Vec<Vec<String>>, what: &'static str) -> Self {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let names: Vec<_> = heads.iter().map(|head| head.trim_start_matches(':').to_owned()).collect();
        let marks: Vec<_> =
            heads.iter().map(|head| if head.starts_with(':') { "---:" } else { "---" }.to_owned()).collect();
        Self { head: line(&names) + &line(&marks), rows: rows.iter().map(|row| line(row)).collect(), what }
    }
}

fn head(report: &Report, options: &Options) -> String {
    let all: Vec<_> = report.findings.iter().collect();
    let found = match &report.impact {
        _ if !all.is_empty() => summary::counts(&all),
        // "No findings" is only about what was judged.
        _ if report.objects == 0 && report.impact.is_none() => "nothing was judged".to_owned(),
        _ => "no findings".to_owned(),
    };
    let fails = report.findings.iter().any(|located| located.finding.level >= options.fail_on)
        || options.fail_on_unjudged && !report.unjudged.is_empty()
        || report.is_incomplete();
    let mark = match () {
        () if fails => "❌",
        () if all.is_empty() && report.is_whole() => "✅",
        () => "⚠️",
    };
    let mut text = format!("## {mark} Jobgate: {found}\n\n{}\n\n", prose(&summary::line(report), 4 * TEXT));
    let impact = report.impact.as_ref();
    if let Some(left_out) = impact.and_then(|impact| impact.left_out()) {
        let _ = writeln!(text, "Left out: {}\n", prose(&left_out, TEXT));
    }
    if let Some(holding) = impact.and_then(|impact| impact.still_holding(&options.rules)) {
        let _ = writeln!(text, "{}\n", prose(&holding, TEXT));
    }
    for line in impact.into_iter().flat_map(|impact| impact.in_trouble(false)) {
        let _ = writeln!(text, "{}\n", prose(line.trim_start(), TEXT));
    }
    text
}

fn rules(report: &Report, options: &Options) -> MarkdownTable {
    let pages = page::all(&options.rules);
    let rows = summary::by_rule(report).into_iter().map(|(rule, findings)| {
        let count =
            |level: Level| match findings.iter().filter(|located| located.finding.level == level).count() {
                0 => String::new(),
                count => thousands(count),
            };
        let problem = pages
            .iter()
            .find(|page| page.id == *rule)
            .map_or(String::new(), |page| prose(&page.problem, TEXT));
        vec![problem, link(rule), count(Level::Deny), count(Level::Warn), count(Level::Note)]
    });
    MarkdownTable::new(&["Problem", "Rule", ":Errors", ":Warnings", ":Notes"], rows.collect(), "rules")
}

fn verdicts(report: &Report) -> MarkdownTable {
    let mut answers: Vec<_> = report.answers.iter().collect();
    answers.sort_by_key(|answered| answered.answer.outcome.is_allowed());
    let rows = answers.into_iter().map(|answered| {
        let place = code(&format!("{}:{}", answered.location.file, answered.location.start.line));
        vec![answered.answer.outcome.as_str().to_owned(), prose(&verdict::about(answered), TEXT), place]
    });
    MarkdownTable::new(&["Verdict", "Object", "Place"], rows.collect(), "objects")
}

fn namespaces(report: &Report) -> MarkdownTable {
    let namespaces = report.impact.as_ref().map(|impact| impact.by_namespace()).unwrap_or_default();
    let rows = namespaces.into_iter().map(|(name, tally)| {
        let numbers = [tally.objects, tally.denied, tally.patched, tally.warned];
        std::iter::once(code(name)).chain(numbers.map(thousands)).collect()
    });
    let heads = ["Namespace", ":Objects", ":Denied", ":Patched", ":Warned of"];
    MarkdownTable::new(&heads, rows.collect(), "namespaces")
}

fn accelerators(report: &Report) -> MarkdownTable {
    let name = |name: &str| if name.is_empty() { String::new() } else { code(name) };
    let holders = report.holdings.holders();
    // A single holder needs no table.
    let holders = if holders.len() > 1 { holders } else { Vec::new() };
    let rows = holders.into_iter().map(|row| {
        let unbounded = if row.unbounded.is_none() { String::new() } else { row.unbounded.to_string() };
        let hours = if row.hours == 0 { String::new() } else { thousands(to_usize(row.hours)) };
        vec![name(row.namespace), name(row.team), thousands(row.jobs), unbounded, hours]
    });
    let heads = ["Namespace", "Team", ":Jobs", ":Held without a time limit", ":Accelerator hours at most"];
    MarkdownTable::new(&heads, rows.collect(), "teams")
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn fixes(report: &Report) -> String {
    match group::fixable(report) {
        (0, 0) => String::new(),
        (safe, 0) => format!("`jobgate lint --fix` fixes {}.\n\n", thousands(safe)),
        (0, unsafe_) => format!("`jobgate lint --fix --unsafe-fixes` fixes {}.\n\n", thousands(unsafe_)),
        (safe, unsafe_) => format!(
            "`jobgate lint --fix` fixes {}, and `--unsafe-fixes` {} more.\n\n",
            thousands(safe),
            thousands(unsafe_)
        ),
    }
}

fn findings(report: &Report, text: &mut BoundedText) {
    const CLOSE: &str = "\n</details>\n\n";
    let groups = group::groups(report);
    let mut shown = 0;
    'files: for FindingGroup { name, findings } in &groups {
        let counts = summary::counts(&findings.iter().collect::<Vec<_>>());
        let head = format!("<details><summary>{} ({counts})</summary>\n\n", code(name));
        let mut lines = findings.iter().map(|located| finding(report, located));
        let first = lines.next().unwrap_or_default();
        if !text.fits(&[&head, &first, CLOSE].concat()) {
            break;
        }
        text.push(&(head + &first));
        shown += 1;
        for line in lines {
            if !text.fits(&[&line, CLOSE].concat()) {
                text.text.push_str(CLOSE);
                break 'files;
            }
            text.push(&line);
            shown += 1;
        }
        text.text.push_str(CLOSE);
    }
    let left_out = report.findings.len() - shown;
    if left_out > 0 {
        let full = if text.most == COMMENT { "; `--full` shows up to 1 MB of them" } else { "" };
        let _ = writeln!(
            text.text,
            "**{} of {} left out here**{full}.\n",
            thousands(left_out),
            plural(report.findings.len(), "finding")
        );
    }
}

/// Returns a finding as an item of a list, on one line.
fn finding(report: &Report, located: &Located) -> String {
    let finding = &located.finding;
    let mut text = format!("- **{}** {}", finding.level.word(), link(&finding.rule));
    match report.file(&located.location) {
        Some(_) => {
            let _ = write!(text, " line {}", located.location.start.line);
        }
        None => {
            let _ = write!(text, " {}", code(&finding.path.to_string()));
        }
    }
    if let Some(object) = located.object.as_ref().filter(|_| report.impact.is_none()) {
        let _ = write!(text, ", {}", code(&object.to_string()));
    }
    let _ = write!(text, ": {}", prose(&finding.message, TEXT));
    for related in located.related.iter().take(RELATED) {
        text.push_str("<br>See ");
        if let Some(location) = related.location.as_ref().filter(|_| report.impact.is_none()) {
            let _ = write!(text, "{}, ", code(&format!("{}:{}", location.file, location.start.line)));
        }
        if let Some(object) = &related.object {
            let _ = write!(text, "{}: ", code(object));
        }
        text.push_str(&prose(&related.text, TEXT));
    }
    if !finding.help.is_empty() {
        let _ = write!(text, "<br>Help: {}", prose(&finding.help, TEXT));
    }
    match (report.fix_of(located), &located.withheld) {
        (Some(Safety::Safe), _) => text.push_str("<br>`jobgate lint --fix` fixes it"),
        (Some(Safety::Unsafe), _) => text.push_str("<br>`jobgate lint --fix --unsafe-fixes` fixes it"),
        (None, Some(why)) => {
            let _ = write!(text, "<br>Not fixed: {}", prose(why, TEXT));
        }
        (None, None) => {}
    }
    text.push('\n');
    text
}

fn unjudged(report: &Report, options: &Options, rows: usize, text: &mut BoundedText) {
    let mut groups: BTreeMap<&'static str, Vec<&Unjudged>> = BTreeMap::new();
    report.unreported(options).for_each(|one| groups.entry(one.reason.heading()).or_default().push(one));
    let all: usize = groups.values().map(Vec::len).sum();
    if all == 0 || !text.push(&format!("<details><summary>Not judged: {}</summary>\n\n", thousands(all))) {
        return;
    }
    let mut shown = 0;
    'groups: for (heading, group) in groups {
        // In some groups, the help is the same for all.
        let helps: BTreeSet<_> = group.iter().map(|one| one.help()).collect();
        let help = if helps.len() == 1 { helps.first().map_or("", |help| help) } else { "" };
        let colon = if help.is_empty() { "" } else { ": " };
        if !text.push(&format!("- {heading} ({}){colon}{}\n", thousands(group.len()), prose(help, TEXT))) {
            break;
        }
        let most = if group.len() <= rows.saturating_add(1) { group.len() } else { rows };
        for one in &group[..most] {
            let parts = [(one.place(), true), (one.name(), true), (one.message().into_owned(), false)];
            let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
            let parts = parts.map(|(part, is_code)| if is_code { code(&part) } else { prose(&part, TEXT) });
            if !text.push(&format!("  - {}\n", parts.collect::<Vec<_>>().join(": "))) {
                break 'groups;
            }
            shown += 1;
        }
        if most < group.len() && !text.push(&format!("  - … and {} more\n", thousands(group.len() - most)))
        {
            break;
        }
        shown += group.len() - most;
    }
    if shown < all {
        let _ = writeln!(text.text, "\n{} more are left out here.", thousands(all - shown));
    }
    text.text.push_str("\n</details>\n");
}

/// Returns the id of a rule, linked to its page.
fn link(rule: &str) -> String {
    format!("[`{rule}`]({})", page::link(rule))
}

/// Returns a text of a manifest as code.
fn code(text: &str) -> String {
    let mut out = "<code>".to_owned();
    escape(&mut out, &cut(&clean(text), TEXT, "…"), Where::Code);
    out + "</code>"
}

/// Escapes a sentence with text from a manifest; backticks become `<code>`.
fn prose(text: &str, most: usize) -> String {
    let text = clean(text);
    let text = cut(&text, most, "…");
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let (mut rest, mut place) = (&*text, Where::Start);
    while let Some((before, inside, behind)) = rest
        .split_once('`')
        .and_then(|(before, rest)| rest.split_once('`').map(|(inside, behind)| (before, inside, behind)))
    {
        escape(&mut out, before, place);
        place = Where::Text;
        out.push_str("<code>");
        escape(&mut out, inside, Where::Code);
        out.push_str("</code>");
        rest = behind;
    }
    escape(&mut out, rest, place);
    out
}

/// The context of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Perhaps at the start of a line, where it may be a list, a quote or code.
    Start,
    Text,
    Code,
}

/// Appends a text so that neither Markdown nor HTML interprets it: a character reference is never structure. GitHub
/// looks for names of people and numbers of issues only outside of code, where an invisible space separates them from
/// their sign.
fn escape(out: &mut String, text: &str, place: Where) {
    let bytes = text.as_bytes();
    // `1.` and `1)` start a list, and `1 file` does not.
    let behind = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let numbered = behind.starts_with(['.', ')']);
    for (at, char) in text.char_indices() {
        let is_address = match char {
            '.' => at >= 3 && bytes[at - 3..at].eq_ignore_ascii_case(b"www"),
            ':' => bytes.get(at + 1) == Some(&b'/'),
            _ => false,
        };
        let starts =
            if char.is_ascii_digit() { numbered } else { char.is_ascii() && !char.is_ascii_alphabetic() };
        let is_first = at == 0 && place == Where::Start && starts;
        match char {
            '@' | '#' if place != Where::Code => {
                let _ = write!(out, "&#{};&#8203;", u32::from(char));
            }
            _ if is_first || is_address => {
                let _ = write!(out, "&#{};", u32::from(char));
            }
            ' ' | '-' | ',' | ';' | ':' | '/' | '(' | ')' | '=' | '\'' | '%' | '.' | '?' => out.push(char),
            _ if char.is_ascii_punctuation() => {
                let _ = write!(out, "&#{};", u32::from(char));
            }
            _ => out.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::pointer::Pointer;

    fn markdown(report: &Report, options: &Options) -> String {
        let mut out = Vec::new();
        write(report, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_means_something_is_a_reference() {
        assert_eq!(
            prose("- a `b|*c*` [x](y)", TEXT),
            "&#45; a <code>b&#124;&#42;c&#42;</code> &#91;x&#93;(y)"
        );
        assert_eq!(prose("12 files", TEXT), "12 files");
        assert_eq!(prose("1) a", TEXT), "&#49;) a");
        assert_eq!(prose("1. <b> `odd", TEXT), "&#49;. &#60;b&#62; &#96;odd");
        assert_eq!(
            prose("by @octo in #12 at www.x.y, http://x", TEXT),
            "by &#64;&#8203;octo in &#35;&#8203;12 at www&#46;x.y, http&#58;//x"
        );
        assert_eq!(code("a@b`</code>"), "<code>a&#64;b&#96;&#60;/code&#62;</code>");
        assert_eq!(code("a\n\n# b"), "<code>a␊␊&#35; b</code>");
    }

    /// A report with errors in one file, and as many notes in others before it.
    fn large(count: usize) -> Report {
        let mut report = Report { documents: count, objects: count, ..Report::default() };
        for nth in 0..2 * count {
            let (level, file) = if nth < count {
                (Level::Note, format!("a{nth}.yaml"))
            } else {
                (Level::Deny, "z.yaml".to_owned())
            };
            report.sources.entry("x".into()).or_insert_with(|| std::sync::Arc::new("kind: Job\n".to_owned()));
            let finding = sample::finding("deadline", level, Pointer::root(), "*".repeat(99), "help");
            report.found("x", "kind", finding).location.file = file.into();
        }
        report
    }

    #[test]
    fn a_comment_has_room_for_it_and_says_what_is_left_out() {
        for (full, most) in [(false, 65_536), (true, 1 << 20)] {
            let text = markdown(&large(5000), &Options { full, ..Options::default() });
            assert!(text.len() <= most && text.len() > most * 9 / 10, "{}", text.len());
            let shown = text.matches("\n- **").count();
            assert!(
                text.contains(&format!("**{} of 10,000 findings left out here**", thousands(10_000 - shown))),
                "{shown}"
            );
            assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
            // The file with errors comes first.
            assert!(text.contains("<code>z.yaml</code> (5,000 errors)"));
        }
        let text = markdown(&large(20), &Options::default());
        assert!(text.contains("<code>a19.yaml</code>") && !text.contains("left out"), "{text}");
    }

    #[test]
    fn the_head_says_how_it_ended() {
        let first =
            |report: &Report| markdown(report, &Options::default()).lines().next().unwrap().to_owned();
        let mut report = Report { files: 1, documents: 1, objects: 1, ..Report::default() };
        assert_eq!(first(&report), "## ✅ Jobgate: no findings");
        report.unjudged = sample::all().unjudged;
        assert_eq!(first(&report), "## ⚠️ Jobgate: no findings");
        assert_eq!(first(&Report::default()), "## ⚠️ Jobgate: nothing was judged");
    }
}
