//! The report for people: each object's findings under one heading, with the source lines they are about.
//!
//! Beyond [`MANY`] findings nobody reads them one by one, so they are grouped by rule, with one shown in full and some more named.

use std::collections::BTreeSet;
use std::io;

use annotate_snippets::{AnnotationKind, Element, Level as Mark, Message, Origin, Renderer, Snippet};
use anstyle::{AnsiColor, Style};

use super::page::{self, Page};
use super::text::{clean, plural, thousands};
use super::{Located, Location, Options, Report, excerpt, summary};
use crate::finding::{Level, Part};
use crate::pointer::Pointer;

/// Above this many findings they are grouped by rule.
const MANY: usize = 40;
/// How many findings of a group are named besides the one that is shown.
const NAMED: usize = 10;
/// About how many lines a grouped report may take.
const ROOM: usize = 110;
/// About how many lines a group takes besides the findings it names.
const GROUP: usize = 12;

/// Writes the report.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let renderer = if options.color { Renderer::styled() } else { Renderer::plain() };
    let mut writer =
        Writer { report, renderer: renderer.term_width(options.width), color: options.color, pages: page::all(), told: BTreeSet::new(), out };
    let grouped = report.findings.len() > MANY && !options.full;
    if grouped {
        writer.by_rule()?
    } else {
        writer.by_object()?
    }
    writer.summary(grouped)
}

struct Writer<'r, 'o> {
    report: &'r Report,
    renderer: Renderer,
    color: bool,
    pages: Vec<Page>,
    /// Rules whose reason and page have been named.
    told: BTreeSet<&'static str>,
    out: &'o mut dyn io::Write,
}

impl<'r> Writer<'r, '_> {
    fn by_object(&mut self) -> io::Result<()> {
        let findings = &self.report.findings;
        for group in findings.chunk_by(|a, b| a.location.file == b.location.file && a.document == b.document && a.object == b.object) {
            let file = clean(&group[0].location.file);
            let heading = match &group[0].object {
                Some(object) => format!("{} ({}) in {file}", clean(&object.full_name()), clean(&object.kind)),
                None => file.into_owned(),
            };
            let heading = self.paint(Style::new().bold().underline(), &heading);
            writeln!(self.out, "{heading}\n")?;
            let mut before: Option<&Located> = None;
            for located in group {
                // The line above need not be shown again.
                let shown = before.is_some_and(|before| before.location == located.location);
                self.finding(located, shown)?;
                before = Some(located);
            }
        }
        Ok(())
    }

    fn by_rule(&mut self) -> io::Result<()> {
        let mut groups = summary::by_rule(self.report);
        let worst = |findings: &[&Located]| findings.iter().map(|located| located.finding.level).max();
        // The sort is stable: within a level, most hit first.
        groups.sort_by_key(|(_, findings)| std::cmp::Reverse(worst(findings)));
        let named = (ROOM.saturating_sub(GROUP * groups.len()) / groups.len()).clamp(3, NAMED);
        for (rule, findings) in groups {
            let heading = self.paint(Style::new().bold().underline(), &format!("{rule}: {}", summary::counts(&findings)));
            writeln!(self.out, "{heading}\n")?;
            let worst = worst(&findings);
            let Some(example) = findings.iter().position(|located| Some(located.finding.level) == worst) else { continue };
            self.finding(findings[example], false)?;
            let others: Vec<_> = findings.iter().enumerate().filter(|(at, _)| *at != example).map(|(_, located)| *located).collect();
            self.names(&others, named)?;
        }
        Ok(())
    }

    /// Names the first of some findings, a line each.
    fn names(&mut self, findings: &[&'r Located], most: usize) -> io::Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        // To say "and 1 more" takes the line that would name it.
        let (shown, rest) = findings.split_at(if findings.len() <= most + 1 { findings.len() } else { most });
        let mixed = shown.iter().any(|located| located.finding.level != shown[0].finding.level);
        let places: Vec<_> = shown.iter().map(|located| place(&located.location)).collect();
        let width = places.iter().map(|place| place.chars().count()).max().unwrap_or_default();
        for (located, place) in shown.iter().zip(&places) {
            let level = if mixed { format!("{:<6}", located.finding.level.as_str()) } else { String::new() };
            let object = located.object.as_ref().map(|object| clean(&object.to_string()).into_owned()).unwrap_or_default();
            let line = format!("  {level}{place:<width$}  {object}");
            writeln!(self.out, "{}", line.trim_end())?;
        }
        if !rest.is_empty() {
            let files = rest.iter().map(|located| &located.location.file).collect::<BTreeSet<_>>().len();
            writeln!(self.out, "  … and {} more in {}", thousands(rest.len()), plural(files, "file"))?;
        }
        writeln!(self.out)
    }

    /// Writes one finding, and the empty line behind it.
    fn finding(&mut self, located: &'r Located, shown: bool) -> io::Result<()> {
        let finding = &located.finding;
        let mark = match finding.level {
            Level::Deny => Mark::ERROR,
            Level::Warn => Mark::WARNING,
            Level::Note => Mark::NOTE,
        };
        let title = mark.with_name(finding.level.as_str()).primary_title(clean(&finding.message)).id(finding.rule);
        let mut elements: Vec<Element<'_>> = Vec::new();
        let mut notes: Vec<Message<'_>> = Vec::new();
        let mut spots = vec![excerpt::Spot { location: &located.location, label: missing(located), primary: true }];
        for related in &located.related {
            let object = related.object.as_deref().map(|object| format!("{}: ", clean(object))).unwrap_or_default();
            let text = format!("{object}{}", clean(&related.text));
            match &related.location {
                Some(location) => spots.push(excerpt::Spot { location, label: Some(text), primary: false }),
                None => notes.push(Mark::NOTE.message(text)),
            }
        }
        let excerpts = excerpt::excerpts(self.report, &spots);
        let places: Vec<_> = excerpts.iter().map(|excerpt| place(excerpt.location)).collect();
        let repeats = shown && spots.len() == 1;
        let mut bare = true;
        for (nth, excerpt) in excerpts.into_iter().enumerate() {
            if repeats || excerpt.text.is_empty() {
                elements.push(Origin::path(stand_in(nth)).into());
                continue;
            }
            bare = false;
            let annotations = excerpt.marks.into_iter().map(|(span, spot)| {
                let kind = if spot.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                kind.span(span).label(spot.label.as_deref())
            });
            elements.push(Snippet::source(excerpt.text).path(stand_in(nth)).line_start(excerpt.line).annotations(annotations).into());
        }
        elements.extend(notes.into_iter().map(Element::from));
        if !finding.help.is_empty() {
            elements.push(Mark::HELP.message(clean(&finding.help)).into());
        }
        if self.told.insert(finding.rule) {
            if let Some(page) = self.pages.iter().find(|page| page.id == finding.rule) {
                elements.push(Mark::INFO.with_name("why").message(page.why_in_short()).into());
            }
            elements.push(Mark::INFO.with_name("rule").message(page::link(finding.rule)).into());
        }
        let text = put_places(&self.renderer.render(&[title.elements(elements)]), &places);
        // Without source lines the renderer leaves no margin for their numbers; all other findings have one.
        let margin = if bare { located.location.start.line.to_string().len() } else { 0 };
        for (nth, line) in text.lines().enumerate() {
            let margin = if nth == 0 { 0 } else { margin };
            writeln!(self.out, "{:margin$}{}", "", line.trim_end())?;
        }
        writeln!(self.out)
    }

    fn summary(&mut self, grouped: bool) -> io::Result<()> {
        let failing = self.report.count(Level::Deny) > 0;
        let color = if failing { AnsiColor::BrightRed } else { AnsiColor::BrightGreen };
        let line = self.paint(color.on_default().bold(), &summary::line(self.report));
        writeln!(self.out, "{line}")?;
        let rules = summary::by_rule(self.report);
        let Some((most, _)) = rules.first() else { return Ok(()) };
        if rules.len() > 1 {
            let hits = rules.iter().map(|(rule, findings)| format!("{rule} {}", thousands(findings.len())));
            writeln!(self.out, "by rule: {}", hits.collect::<Vec<_>>().join(", "))?;
        }
        let full = if grouped { "; `--full` shows every finding" } else { "" };
        writeln!(self.out, "`jobgate explain {most}` says more about a rule{full}")
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

fn place(location: &Location) -> String {
    format!("{}:{}:{}", clean(&location.file), location.start.line, location.start.column)
}

/// Returns what stands for the nth place in the text that the renderer makes.
///
/// The renderer counts columns in the excerpt it is given, which is not the file where a line was cut or a character made visible.
/// The character around the number is of private use, so no cleaned text has it.
fn stand_in(nth: usize) -> String {
    format!("\u{F8FF}{nth}\u{F8FF}")
}

/// Puts the places in for what stands for them, and for the line and column that the renderer added.
fn put_places(text: &str, places: &[String]) -> String {
    let mut text = text.to_owned();
    for (nth, place) in places.iter().enumerate() {
        let stand_in = stand_in(nth);
        if let Some((before, behind)) = text.split_once(&stand_in) {
            text = format!("{before}{place}{}", behind.trim_start_matches(|char: char| char == ':' || char.is_ascii_digit()));
        }
    }
    text
}

/// Says which field belongs to the place, where it is the mapping around a field that is missing.
fn missing(located: &Located) -> Option<String> {
    let finding = &located.finding;
    let (path, place) = (&finding.path, &finding.pointer);
    if finding.part != Part::Key || path == place || !path.is_within(place) {
        return None;
    }
    let rest = path.tokens()[place.tokens().len()..].iter();
    let rest = rest.fold(Pointer::root(), |rest, token| match token {
        crate::pointer::Token::Key(key) => rest.key(key),
        crate::pointer::Token::Index(index) => rest / *index,
    });
    Some(format!("`{}` belongs here", clean(&rest.to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    #[test]
    fn shows() {
        let mut out = Vec::new();
        write(&sample::report(), &Options::default(), &mut out).unwrap();
        write(&sample::shapes(), &Options { full: true, width: 100, ..Options::default() }, &mut out).unwrap();
        write(&sample::shapes(), &Options { full: true, color: true, ..Options::default() }, &mut out).unwrap();
        println!("{}", String::from_utf8(out).unwrap());
    }
}
