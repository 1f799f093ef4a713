//! One HTML page to send round: counts and charts, filters, and the findings with their source lines.
//!
//! The page loads nothing and may load nothing: its policy allows its own style and script by their hashes.
//! It is complete without the script, which only filters. All text goes through [`text`] or [`sentence`].

mod charts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::excerpt::{self, ExcerptSpot, SourceExcerpt};
use super::group::{self, FindingGroup};
use super::text::{clean, plural, thousands};
use crate::located::{Located, Related};
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use crate::{human, summary, verdict};
use jobgate_core::judge::finding::{Level, Safety};
use jobgate_core::text::lines::cut;

pub(super) const STYLE: &str = include_str!("html/style.css");
pub(super) const SCRIPT: &str = include_str!("html/filter.js");

/// Maximum bytes of findings without `--full`, and of source lines in them, so that the page can be sent round.
const FINDINGS: usize = 4_850_000;
const EXCERPTS: usize = 1_500_000;
/// Maximum bytes of one text from a manifest.
const TEXT: usize = 1000;
/// Maximum rows of a table, and items of a list, without `--full`.
const ROWS: usize = 200;
/// Maximum namespaces to choose from.
const NAMESPACES: usize = 500;
/// Maximum related places of a finding.
const RELATED: usize = 10;

/// Writes the page.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let rows = if options.full { usize::MAX } else { ROWS };
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{style}'; \
         script-src '{script}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Jobgate report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{}",
        head(report, options)
    )?;
    out.write_all(charts::all(report, options).as_bytes())?;
    out.write_all(verdicts(report, rows).as_bytes())?;
    out.write_all(namespaces(report, rows).as_bytes())?;
    findings(report, options, out)?;
    out.write_all(unjudged(report, options, rows).as_bytes())?;
    writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>")
}

/// Returns the source expression by which a Content-Security-Policy allows a text.
pub(super) fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn head(report: &Report, options: &Options) -> String {
    let mut html = format!("<h1>Jobgate report</h1>\n<p>{}</p>\n", text(&summary::line(report)));
    let impact = report.impact.as_ref();
    if let Some(impact) = impact {
        let _ = writeln!(
            html,
            "<p class=\"dim\">Server {}, policy {}</p>",
            text(&impact.server),
            text(&impact.policy)
        );
    }
    let lines = [
        impact.and_then(|impact| impact.left_out()).map(|line| format!("left out: {line}")),
        impact.and_then(|impact| impact.still_holding(&options.rules)),
        report.holdings.in_short().map(|line| format!("accelerators: {line}")),
    ];
    let stuck = impact.into_iter().flat_map(|impact| impact.in_trouble(true));
    for line in lines.into_iter().flatten().chain(stuck) {
        let _ = writeln!(html, "<p class=\"dim\">{}</p>", sentence(line.trim_start()));
    }
    html.push_str("<ul class=\"cards\">\n");
    let noun = |number: usize, noun: &str| format!("{noun}{}", if number == 1 { "" } else { "s" });
    let mut card = |class: &str, number: usize, what: &str| {
        let class = if number == 0 { "dim" } else { class };
        let _ = writeln!(html, "<li><b class=\"{class}\">{}</b>{what}</li>", thousands(number));
    };
    match impact.map(|impact| impact.total()) {
        Some(total) => {
            card("", total.objects, &noun(total.objects, "object"));
            card("error", total.denied, "would be denied");
            card("note", total.patched, "patched");
            card("warning", total.warned, "warned of");
        }
        None => {
            card("", report.objects, &noun(report.objects, "job"));
            card("error", report.count(Level::Deny), &noun(report.count(Level::Deny), "error"));
            card("warning", report.count(Level::Warn), &noun(report.count(Level::Warn), "warning"));
            card("note", report.count(Level::Note), &noun(report.count(Level::Note), "note"));
        }
    }
    for (outcome, count) in verdict::counts(report) {
        card("", count, outcome.as_str());
    }
    card("warning", report.unjudged.len(), "not judged");
    let (safe, unsafe_) = group::fixable(report);
    if safe + unsafe_ > 0 {
        card("", safe, "fixed by <code>--fix</code>");
        if unsafe_ > 0 {
            card("", unsafe_, "more by <code>--unsafe-fixes</code>");
        }
    }
    html + "</ul>\n"
}

/// Returns a table, or an empty string if it has no rows; cells are HTML.
fn table(title: &str, heads: &[&str], rows: Vec<Vec<String>>, most: usize) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let class = |nth: usize| if heads[nth].starts_with(':') { " class=\"n\"" } else { "" };
    let mut html = format!("<h2>{title}</h2>\n<table class=\"list\">\n<tr>");
    for (nth, head) in heads.iter().enumerate() {
        let _ = write!(html, "<th{}>{}</th>", class(nth), head.trim_start_matches(':'));
    }
    html.push_str("</tr>\n");
    for row in rows.iter().take(most) {
        html.push_str("<tr>");
        for (nth, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{cell}</td>", class(nth));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    if rows.len() > most {
        let _ = writeln!(html, "<p class=\"dim\">… and {} more</p>", thousands(rows.len() - most));
    }
    html
}

fn verdicts(report: &Report, most: usize) -> String {
    let mut answers: Vec<_> = report.answers.iter().collect();
    answers.sort_by_key(|answered| answered.answer.outcome.is_allowed());
    let rows = answers.into_iter().map(|answered| {
        let outcome = answered.answer.outcome;
        let class = if outcome.is_allowed() { "note" } else { "error" };
        let verdict = format!("<span class=\"{class}\">{}</span>", outcome.as_str());
        let place = format!("<code>{}</code>", text(&answered.location.to_string()));
        vec![verdict, text(&verdict::about(answered)), place]
    });
    table("What would become of each object", &["Verdict", "Object", "Place"], rows.collect(), most)
}

fn namespaces(report: &Report, most: usize) -> String {
    let namespaces = report.impact.as_ref().map(|impact| impact.by_namespace()).unwrap_or_default();
    let rows = namespaces.into_iter().map(|(name, tally)| {
        let numbers = [tally.objects, tally.denied, tally.patched, tally.warned];
        std::iter::once(text(name)).chain(numbers.map(thousands)).collect()
    });
    let heads = ["Namespace", ":Objects", ":Denied", ":Patched", ":Warned of"];
    table("What the policy would do", &heads, rows.collect(), most)
}

/// Writes the filters and the findings by file.
fn findings(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    if report.findings.is_empty() {
        return writeln!(out, "<h2>Findings</h2>\n<p>None.</p>");
    }
    writeln!(out, "<h2 id=\"findings\">Findings</h2>\n{}", filters(report))?;
    let (most, mut room) = match options.full {
        true => (usize::MAX, usize::MAX),
        false => (FINDINGS, EXCERPTS),
    };
    let (mut size, mut shown) = (0, 0);
    'files: for FindingGroup { name, findings } in group::groups(report) {
        let counts = summary::counts(&findings.iter().collect::<Vec<_>>());
        let head = format!(
            "<details class=\"file\" open><summary><code>{}</code> <span class=\"dim\">{counts}</span></summary>\n",
            text(&name)
        );
        let mut before: Option<&Located> = None;
        for located in findings {
            let is_same = before.is_some_and(|before| before.object == located.object);
            // A line that was shown just above is not shown again.
            let repeats = is_same && before.is_some_and(|before| before.location == located.location);
            let source = match room == 0 || repeats && located.related.is_empty() {
                true => String::new(),
                false => source(report, located),
            };
            let mut html = match (before, is_same) {
                (None, _) => head.clone() + &object(located),
                (Some(_), true) => String::new(),
                (Some(_), false) => format!("</section>\n{}", object(located)),
            };
            html.push_str(&article(report, located, &source));
            if size + html.len() > most {
                if before.is_some() {
                    writeln!(out, "</section></details>")?;
                }
                break 'files;
            }
            room = room.saturating_sub(source.len());
            size += html.len();
            shown += 1;
            out.write_all(html.as_bytes())?;
            before = Some(located);
        }
        writeln!(out, "</section></details>")?;
    }
    let all = report.findings.len();
    if shown < all {
        let (more, all) = (thousands(all - shown), plural(all, "finding"));
        writeln!(
            out,
            "<p><b>{more} of {all} are left out here.</b> <code>--full</code> shows every finding.</p>"
        )?;
    }
    Ok(())
}

fn filters(report: &Report) -> String {
    let mut html = "<form hidden>\n".to_owned();
    for level in [Level::Deny, Level::Warn, Level::Note] {
        let word = level.word();
        let _ = writeln!(
            html,
            "<label><input type=\"checkbox\" value=\"{word}\" checked> <span class=\"{word}\">{word}</span></label>"
        );
    }
    html.push_str("<select name=\"rule\" aria-label=\"Rule\"><option value=\"\">all rules</option>");
    for (rule, _) in summary::by_rule(report) {
        let _ = write!(html, "<option>{rule}</option>");
    }
    html.push_str("</select>\n");
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
    report.findings.iter().for_each(|located| *namespaces.entry(namespace(located)).or_default() += 1);
    let mut most: Vec<_> = namespaces.into_iter().collect();
    most.sort_by_key(|(_, count)| Reverse(*count));
    // The others can be searched for.
    let namespaces: BTreeSet<&str> = most.into_iter().take(NAMESPACES).map(|(name, _)| name).collect();
    if namespaces.len() > 1 {
        html.push_str(
            "<select name=\"namespace\" aria-label=\"Namespace\"><option value=\"\">all namespaces</option>",
        );
        for name in namespaces {
            let shown = if name.is_empty() { "no namespace".to_owned() } else { text(name) };
            let _ = write!(html, "<option value=\"{}\">{shown}</option>", text(name));
        }
        html.push_str("</select>\n");
    }
    html + "<input type=\"search\" name=\"text\" placeholder=\"Search\" aria-label=\"Search\">\n\
            <output class=\"dim\"></output>\n</form>"
}

fn namespace(located: &Located) -> &str {
    located.object.as_ref().and_then(|object| object.namespace.as_deref()).unwrap_or_default()
}

/// Returns the opening HTML for the findings of an object.
fn object(located: &Located) -> String {
    let name = located.object.as_ref().map(|object| format!("<h3>{}</h3>\n", text(&object.to_string())));
    format!("<section data-n=\"{}\">{}", text(namespace(located)), name.unwrap_or_default())
}

/// Returns a finding as HTML. A page has thousands of them, so its script and style rely on structure, not on extra
/// markup.
fn article(report: &Report, located: &Located, source: &str) -> String {
    let finding = &located.finding;
    let level = finding.level.word();
    let mut html = format!(
        "<article><h4><b class=\"{level}\">{level}</b> {}</h4><p><a href=\"#{rule}\">{rule}</a> ",
        sentence(&finding.message),
        rule = finding.rule,
    );
    match report.file(&located.location) {
        Some(_) => {
            let _ = write!(html, "line {}", located.location.start.line);
        }
        None => {
            let _ = write!(html, "<code>{}</code>", text(&finding.path.to_string()));
        }
    }
    match report.fix_of(located) {
        Some(Safety::Safe) => html.push_str(" <code>--fix</code>"),
        Some(Safety::Unsafe) => html.push_str(" <code>--unsafe-fixes</code>"),
        None => {}
    }
    html.push_str("</p>");
    html.push_str(source);
    let near = |related: &&Related| !source.is_empty() && is_near(report, located, related);
    for related in located.related.iter().take(RELATED).filter(|related| !near(related)) {
        html.push_str("<p>See ");
        if let Some(location) = related.location.as_ref().filter(|_| report.impact.is_none()) {
            let _ = write!(html, "<code>{}</code>, ", text(&location.to_string()));
        }
        if let Some(object) = &related.object {
            let _ = write!(html, "{}: ", text(object));
        }
        let _ = write!(html, "{}</p>", sentence(&related.text));
    }
    if !finding.help.is_empty() {
        let _ = write!(html, "<p>Help: {}</p>", sentence(&finding.help));
    }
    if let Some(why) = &located.withheld {
        let _ = write!(html, "<p>Not fixed: {}</p>", sentence(why));
    }
    html + "</article>\n"
}

/// Tells whether a related place is shown among the source lines of a finding.
fn is_near(report: &Report, located: &Located, related: &Related) -> bool {
    let here = &located.location.file;
    let is_here = related.location.as_ref().is_some_and(|location| location.file == *here);
    is_here && report.sources.get(here).is_some_and(|source| !source.is_empty())
}

/// Returns the source lines of a finding's places in its own file, if there are any.
fn source(report: &Report, located: &Located) -> String {
    let near = located.related.iter().take(RELATED).filter(|related| is_near(report, located, related));
    let near = near.filter_map(|related| {
        let object = related.object.as_deref().map(|object| format!("{object}: ")).unwrap_or_default();
        let label = Some(object + &related.text);
        Some(ExcerptSpot { location: related.location.as_ref()?, label, primary: false })
    });
    let first = ExcerptSpot { location: &located.location, label: human::missing(located), primary: true };
    let spots: Vec<_> = std::iter::once(first).chain(near).collect();
    let mut html = String::new();
    for excerpt in excerpt::excerpts(report, &spots).iter().filter(|excerpt| !excerpt.text.is_empty()) {
        lines(report, excerpt, &mut html);
    }
    if html.is_empty() { html } else { format!("<pre>{}</pre>", html.trim_end_matches('\n')) }
}

/// Appends the marked lines of an excerpt.
fn lines(report: &Report, excerpt: &SourceExcerpt<'_, '_>, html: &mut String) {
    let mut marks: Vec<_> = excerpt.marks.iter().collect();
    marks.sort_by_key(|(range, _)| (range.start, range.end));
    let mut marks = marks.into_iter().peekable();
    let (mut start, mut skipped) = (0, false);
    for (nth, line) in excerpt.text.split('\n').enumerate() {
        let end = start + line.len();
        let (mut at, mut marked, mut labels) = (start, String::new(), String::new());
        let mut any = false;
        while let Some((range, spot)) = marks.next_if(|(range, _)| range.start <= end) {
            any = true;
            if let Some(label) = spot.label.as_ref().filter(|label| !label.is_empty()) {
                let _ = write!(labels, "  <i>← {}</i>", sentence(label));
            }
            // Of nested places, only the first is marked.
            if range.start >= at && range.end <= end && !range.is_empty() {
                let (before, inside) = (&excerpt.text[at..range.start], &excerpt.text[range.clone()]);
                let _ = write!(marked, "{}<mark>{}</mark>", escaped(before), escaped(inside));
                at = range.end;
            }
        }
        if any {
            if skipped {
                html.push_str("<i>   …</i>\n");
            }
            if report.impact.is_none() {
                let _ = write!(html, "<i>{:>4}  </i>", excerpt.line + nth);
            }
            let _ = writeln!(html, "{marked}{}{labels}", escaped(&excerpt.text[at..end]));
        }
        skipped = !any;
        start = end + 1;
    }
}

fn unjudged(report: &Report, options: &Options, most: usize) -> String {
    let mut groups: BTreeMap<&'static str, Vec<&Unjudged>> = BTreeMap::new();
    report.unreported(options).for_each(|one| groups.entry(one.reason.heading()).or_default().push(one));
    if groups.is_empty() {
        return String::new();
    }
    let mut html = "<h2>Not judged</h2>\n".to_owned();
    for (heading, group) in groups {
        let _ = write!(
            html,
            "<details class=\"file\"><summary>{heading} <span class=\"dim\">{}</span></summary>\n<div class=\"in\">\n",
            thousands(group.len())
        );
        let helps: BTreeSet<_> = group.iter().map(|one| one.help()).collect();
        for one in group.iter().take(most) {
            let (place, name) = (one.place(), one.name());
            html.push_str("<p>");
            for part in [place, name].iter().filter(|part| !part.is_empty()) {
                let _ = write!(html, "<code>{}</code> ", text(part));
            }
            let _ = writeln!(html, "{}</p>", sentence(&one.message()));
        }
        if group.len() > most {
            let _ = writeln!(html, "<p class=\"dim\">… and {} more</p>", thousands(group.len() - most));
        }
        if let (1, Some(help)) = (helps.len(), helps.first().filter(|help| !help.is_empty())) {
            let _ = writeln!(html, "<p>Help: {}</p>", sentence(help));
        }
        html.push_str("</div></details>\n");
    }
    html
}

/// Escapes untrusted text for an element or an attribute.
fn text(text: &str) -> String {
    escaped(&cut(&clean(text), TEXT, "…"))
}

/// Escapes untrusted text; backticks become `<code>`.
fn sentence(text: &str) -> String {
    let text = clean(text);
    let text = cut(&text, TEXT, "…");
    let mut html = String::with_capacity(text.len() + 32);
    let mut rest = &*text;
    while let Some((before, inside, behind)) = rest
        .split_once('`')
        .and_then(|(before, rest)| rest.split_once('`').map(|(inside, behind)| (before, inside, behind)))
    {
        let _ = write!(html, "{}<code>{}</code>", escaped(before), escaped(inside));
        rest = behind;
    }
    html + &escaped(rest)
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\t' => html.push_str("    "),
            _ => html.push(char),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::pointer::Pointer;

    fn html(report: &Report, options: &Options) -> String {
        let mut out = Vec::new();
        write(report, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_policy_allows_what_is_in_the_page_and_nothing_else() {
        let page = html(&sample::all(), &Options::default());
        let part =
            |from: &str, to: &str| page.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
        let policy = part("Content-Security-Policy\" content=\"", "\"");
        assert_eq!(
            policy,
            format!(
                "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
                hash(&part("<style>", "</style>")),
                hash(&part("<script>", "</script>"))
            )
        );
        // Such attributes would need more than that. `laws` knows all others.
        assert!(!page.contains(" style="), "{page}");
        for part in [STYLE, SCRIPT] {
            assert!(
                !part.contains("</")
                    && !part.contains("url(")
                    && !part.contains("://")
                    && !part.contains("import")
            );
        }
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn places_are_marked_in_their_lines() {
        let mut report = Report::default().with("a.yaml", "a: <b>\n\tc: 1\nd: [e, f]\n");
        let related = |report: &Report, needle: &str, text: &str| Related {
            location: Some(report.location_of("a.yaml", needle)),
            object: None,
            text: text.to_owned().into(),
        };
        let places = vec![
            related(&report, "e", "`e`, too"),
            related(&report, "f", ""),
            related(&report, "e, f", "around"),
        ];
        let finding = sample::finding("deadline", Level::Deny, Pointer::root(), "message", "");
        report.found("a.yaml", "<b>", finding).related = places;
        assert_eq!(
            source(&report, &report.findings[0]),
            "<pre><i>   1  </i>a: <mark>&lt;b&gt;</mark>\n<i>   …</i>\n\
             <i>   3  </i>d: [<mark>e</mark>, <mark>f</mark>]  <i>← <code>e</code>, too</i>  <i>← around</i></pre>"
        );
        report.sources.clear();
        assert_eq!(source(&report, &report.findings[0]), "");
        assert_eq!(html(&report, &Options::default()).matches("<p>See <code>a.yaml:3:").count(), 3);
    }

    #[test]
    fn a_large_report_is_a_page_that_can_be_sent() {
        let mut report = Report::default().with("a.yaml", &format!("kind: {}\n", "x".repeat(300)));
        for nth in 0..12_000 {
            let level = if nth < 6000 { Level::Note } else { Level::Deny };
            let finding = sample::finding("deadline", level, Pointer::root(), "<".repeat(80), "&".repeat(80));
            let located = report.found("a.yaml", "x", finding);
            located.document = nth;
            located.location.span.start += nth % 2;
            if nth < 6000 {
                located.location.file = format!("{nth}.yaml").into();
            }
        }
        let page = html(&report, &Options::default());
        assert!(page.len() < 5_000_000 && page.len() > 4_000_000, "{}", page.len());
        let shown = page.matches("<article>").count();
        assert!(
            page.contains(&format!(
                "<p><b>{} of 12,000 findings are left out here.</b>",
                thousands(12_000 - shown)
            )),
            "{shown}"
        );
        for tag in ["article", "section", "details", "table"] {
            assert_eq!(
                page.matches(&format!("<{tag}")).count(),
                page.matches(&format!("</{tag}>")).count(),
                "{tag}"
            );
        }
        assert!(
            page.find("<code>a.yaml</code>").unwrap()
                < page.find("<code>0.yaml</code>").unwrap_or(page.len())
        );
        let full = html(&report, &Options { full: true, ..Options::default() });
        assert_eq!(full.matches("<article>").count(), 12_000);
    }

    #[test]
    fn an_empty_report_is_a_page() {
        let page =
            html(&Report { files: 1, documents: 1, objects: 1, ..Report::default() }, &Options::default());
        assert!(page.contains("<h2>Findings</h2>\n<p>None.</p>") && !page.contains("<form"), "{page}");
    }
}
