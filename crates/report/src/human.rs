//! The human format: findings by object, with source lines.
//!
//! More than [`MANY`] findings are grouped by rule, with one shown in full and some more listed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use annotate_snippets::{AnnotationKind, Element, Level as Mark, Origin, Renderer, Snippet};
use anstyle::Style;

use super::page::{self, Page};
use super::text::{clean, plural, thousands, wrap};
use crate::impact::Impact;
use crate::located::{Located, Location};
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::{Reason, Unjudged};
use crate::{excerpt, group, impact, statistics, summary};
use jobgate_core::judge::checks;
use jobgate_core::judge::finding::{Level, Part};
use jobgate_core::judge::rules::RuleSet;

const HEADING: Style = Style::new().bold().underline();

/// More findings than this are grouped by rule.
const MANY: usize = 40;
/// Maximum groups with an example; those with fewer or lesser findings come last.
const SHOWN: usize = 8;
/// Maximum characters of a message in a list.
const MESSAGE: usize = 100;
/// Maximum findings of a group that are named besides the example.
const NAMED: usize = 10;
/// Maximum directories in the summary.
const DIRECTORIES: usize = 5;
/// Approximate maximum lines of a grouped report.
const ROOM: usize = 110;
/// Approximate lines of a group besides the findings it names.
const GROUP: usize = 11;
/// Minimum columns to which text is wrapped.
const NARROWEST: usize = 24;
/// The indentation of a continuation line.
const INDENT: &str = "  ";

/// Writes the report.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    if options.statistics {
        statistics::write(report, out)?;
        return if options.quiet { Ok(()) } else { write_summary(report, options, out) };
    }
    let mut writer = Writer::new(report, options, out);
    writer.findings()?;
    writer.unjudged()?;
    if options.quiet { Ok(()) } else { writer.summary(options) }
}

/// Writes the summary alone.
pub(super) fn write_summary(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    Writer::new(report, options, out).summary(options)
}

/// Writes what was not judged.
pub(super) fn write_unjudged(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    Writer::new(report, options, out).unjudged()
}

/// Writes the findings alone.
pub(super) fn write_findings(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    Writer::new(report, options, out).findings()
}

impl<'r, 'o> Writer<'r, 'o> {
    fn new(report: &'r Report, options: &Options, out: &'o mut dyn io::Write) -> Self {
        let renderer = if options.color { Renderer::styled() } else { Renderer::plain() };
        // Lines of an object without a file have no numbers.
        let renderer = renderer.anonymized_snippet_line_numbers(report.impact.is_some());
        Self {
            report,
            renderer: renderer.term_width(options.width),
            color: options.color,
            columns: options.columns,
            grouped: report.findings.len() > MANY && !options.full,
            by_cost: options.by_cost,
            full: options.full,
            pages: page::all(&options.rules),
            rules: options.rules.clone(),
            explained: BTreeSet::new(),
            out,
        }
    }
}

struct Writer<'r, 'o> {
    report: &'r Report,
    renderer: Renderer,
    color: bool,
    /// The columns of the terminal, if it is one.
    columns: Option<usize>,
    /// Whether findings are grouped by rule, not by object.
    grouped: bool,
    /// Whether what costs most comes first.
    by_cost: bool,
    /// Whether everything is to be shown.
    full: bool,
    pages: Vec<Page>,
    rules: RuleSet,
    /// Rules whose reason and page were already written.
    explained: BTreeSet<&'r str>,
    out: &'o mut dyn io::Write,
}

impl<'r> Writer<'r, '_> {
    fn findings(&mut self) -> io::Result<()> {
        if self.grouped { self.by_rule() } else { self.by_object() }
    }

    fn by_object(&mut self) -> io::Result<()> {
        let findings = &self.report.findings;
        for group in findings.chunk_by(|a, b| {
            a.location.file == b.location.file && a.document == b.document && a.object == b.object
        }) {
            let file = self.report.file(&group[0].location).map(clean);
            let heading = match (&group[0].object, file) {
                (Some(object), Some(file)) => {
                    format!("{} ({}) in {file}", clean(&object.full_name()), clean(&object.kind))
                }
                (Some(object), None) => format!("{} ({})", clean(&object.full_name()), clean(&object.kind)),
                (None, file) => file.unwrap_or_default().into_owned(),
            };
            let heading = self.paint(HEADING, &heading);
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
        // The sort is stable: within a level, rules before checks of the input, and most hit first.
        groups.sort_by_key(|(rule, findings)| {
            (std::cmp::Reverse(worst(findings)), checks::find(rule).is_some())
        });
        if self.by_cost {
            let dearest = |findings: &[&Located]| findings.iter().map(|located| located.finding.loss).max();
            groups.sort_by_key(|(_, findings)| std::cmp::Reverse(dearest(findings)));
        }
        let shown = groups.len().min(SHOWN);
        let named = (ROOM.saturating_sub(GROUP * shown) / groups.len()).clamp(2, NAMED);
        for (nth, (rule, mut findings)) in groups.into_iter().enumerate() {
            let heading = self.paint(HEADING, &format!("{rule}: {}", summary::counts(&findings)));
            writeln!(self.out, "{heading}  {}", page::link(rule))?;
            let by_cost = self.by_cost;
            // The example and the first ones listed are of the worst level. An audit keeps only some objects.
            findings.sort_by_key(|located| {
                (
                    std::cmp::Reverse(located.finding.loss.filter(|_| by_cost)),
                    std::cmp::Reverse(located.finding.level),
                    self.report.impact.is_some() && !self.report.sources.contains_key(&located.location.file),
                )
            });
            if nth < shown {
                self.finding(findings[0], false)?;
                self.names(&findings[1..], Some(findings[0]), named)?;
            } else {
                self.names(&findings, None, named)?;
            }
        }
        Ok(())
    }

    /// Lists the first findings, one line each: their place, and their message if it differs from the
    /// example's.
    fn names(
        &mut self,
        findings: &[&'r Located],
        example: Option<&'r Located>,
        most: usize,
    ) -> io::Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        // A line "and 1 more" takes as much space as naming it.
        let (shown, rest) = findings.split_at(if findings.len() <= most + 1 { findings.len() } else { most });
        let mixed = shown.iter().any(|located| located.finding.level != shown[0].finding.level);
        let in_files = self.report.impact.is_none();
        let object = |located: &Located| {
            located.object.as_ref().map(|object| clean(&object.to_string()).into_owned()).unwrap_or_default()
        };
        let places: Vec<_> = shown
            .iter()
            .map(|located| if in_files { located.location.to_string() } else { object(located) })
            .collect();
        let width = places.iter().map(|place| place.chars().count()).max().unwrap_or_default();
        for (located, place) in shown.iter().zip(&places) {
            let level = if mixed { format!("{:<8}", located.finding.level.word()) } else { String::new() };
            let object = if in_files { object(located) } else { String::new() };
            let message = match example {
                Some(example) if example.finding.message == located.finding.message => String::new(),
                _ => shortened(&clean(&located.finding.message)),
            };
            let colon = if object.is_empty() || message.is_empty() { "" } else { ": " };
            let line = format!("  {level}{place:<width$}  {object}{colon}{message}");
            writeln!(self.out, "{}", line.trim_end())?;
        }
        if !rest.is_empty() {
            let files = rest.iter().map(|located| &located.location.file).collect::<BTreeSet<_>>().len();
            writeln!(
                self.out,
                "  … and {} more in {}",
                thousands(rest.len()),
                plural(files, if in_files { "file" } else { "object" })
            )?;
        }
        writeln!(self.out)
    }

    /// Writes one finding, and the empty line after it.
    fn finding(&mut self, located: &'r Located, shown: bool) -> io::Result<()> {
        let finding = &located.finding;
        let mark = match finding.level {
            Level::Deny => Mark::ERROR,
            Level::Warn => Mark::WARNING,
            Level::Note => Mark::NOTE,
        };
        let word = finding.level.word();
        let heading = format!("{word}[{}]: ", finding.rule);
        let message = wrapped(self.columns, &clean(&finding.message), INDENT.len(), heading.len());
        // The renderer puts these lines below the message, however far to the right that is.
        let title_lines = message.lines().count();
        let title = mark.with_name(word).primary_title(message).id(&*finding.rule);
        let mut elements: Vec<Element<'_>> = Vec::new();
        let mut notes: Vec<String> = Vec::new();
        let mut spots = vec![excerpt::ExcerptSpot {
            location: &located.location,
            label: missing(located),
            primary: true,
        }];
        for related in &located.related {
            let object =
                related.object.as_deref().map(|object| format!("{}: ", clean(object))).unwrap_or_default();
            let text = format!("{object}{}", clean(&related.text));
            match &related.location {
                Some(location) => {
                    spots.push(excerpt::ExcerptSpot { location, label: Some(text), primary: false });
                }
                None => notes.push(text),
            }
        }
        // Notes begin after the line numbers, ` = ` and their name.
        let last_line = spots.iter().map(|spot| spot.location.end.line).max().unwrap_or_default();
        let indent = last_line.to_string().len() + 3;
        let columns = self.columns;
        let note = |mark: Mark<'static>, name: &str, text: &str| {
            mark.message(wrapped(columns, text, indent + name.len() + ": ".len(), 0))
        };
        let excerpts = excerpt::excerpts(self.report, &spots);
        let place = |location: &Location| {
            if *location == located.location { self.report.place(located) } else { location.to_string() }
        };
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
            elements.push(
                Snippet::source(excerpt.text)
                    .path(stand_in(nth))
                    .line_start(excerpt.line)
                    .annotations(annotations)
                    .into(),
            );
        }
        elements.extend(notes.iter().map(|text| note(Mark::NOTE, "note", text).into()));
        if !finding.help.is_empty() {
            elements.push(note(Mark::HELP, "help", &clean(&finding.help)).into());
        }
        if let Some(why) = &located.withheld {
            elements.push(note(Mark::NOTE, "note", &format!("not fixed: {}", clean(why))).into());
        }
        if self.explained.insert(&finding.rule) {
            if let Some(page) = self.pages.iter().find(|page| page.id == finding.rule) {
                elements.push(note(Mark::INFO.with_name("why"), "why", &page.why_in_short()).into());
            }
            if !self.grouped {
                elements.push(Mark::INFO.with_name("rule").message(page::link(&finding.rule)).into());
            }
        }
        let text = put_places(&self.renderer.render(&[title.elements(elements)]), &places);
        // Without source lines the renderer leaves no margin for their numbers; all other findings have one.
        let margin = if bare && self.report.impact.is_none() {
            located.location.start.line.to_string().len()
        } else {
            0
        };
        for (nth, line) in text.lines().enumerate() {
            match nth {
                0 => writeln!(self.out, "{}", line.trim_end())?,
                _ if nth < title_lines => writeln!(self.out, "{INDENT}{}", line.trim())?,
                _ => writeln!(self.out, "{:margin$}{}", "", line.trim_end())?,
            }
        }
        writeln!(self.out)
    }

    /// Writes what was not judged, by reason, with the place of each and what to do.
    fn unjudged(&mut self) -> io::Result<()> {
        let mut groups: BTreeMap<&Reason, Vec<&Unjudged>> = BTreeMap::new();
        let mut first: BTreeMap<&'static str, &Reason> = BTreeMap::new();
        // A single path with nothing to judge is in the summary.
        let alone =
            self.report.unjudged.iter().filter(|unjudged| unjudged.reason == Reason::Nothing).count() == 1;
        // Errors on standard error and findings are not repeated.
        let is_said =
            |reason: &Reason| reason.is_found() || reason.is_error() || (alone && *reason == Reason::Nothing);
        let shown = |unjudged: &&Unjudged| !is_said(&unjudged.reason);
        for unjudged in self.report.unjudged.iter().filter(shown) {
            let reason = *first.entry(unjudged.reason.heading()).or_insert(&unjudged.reason);
            groups.entry(reason).or_default().push(unjudged);
        }
        for (reason, group) in groups {
            let heading = self.paint(HEADING, &format!("not judged: {}", reason.heading()));
            writeln!(self.out, "{heading}")?;
            // A line "and 1 more" takes as much space as naming it.
            let most = if self.full || group.len() <= NAMED + 1 { group.len() } else { NAMED };
            let (shown, rest) = group.split_at(most);
            let places: Vec<String> = shown.iter().map(|unjudged| unjudged.place()).collect();
            let width = places.iter().map(|place| place.chars().count()).max().unwrap_or_default();
            let helps: BTreeSet<_> = group.iter().map(|unjudged| unjudged.help()).collect();
            for (unjudged, place) in shown.iter().zip(&places) {
                let name = clean(&unjudged.name()).into_owned();
                // A help that is the same for all is written once.
                let what = match &unjudged.reason {
                    Reason::ChartParts(_) | Reason::Kustomization(_) if helps.len() > 1 => {
                        clean(&unjudged.help()).into_owned()
                    }
                    Reason::Chart(_) | Reason::ChartParts(_) | Reason::Kustomization(_) | Reason::Nothing => {
                        String::new()
                    }
                    Reason::Patch(by) => {
                        format!("{name}{}of {}", if name.is_empty() { "" } else { " " }, clean(&by.path))
                    }
                    Reason::NotRendered(not) => clean(&not.why).into_owned(),
                    Reason::Dependencies(_, names) => clean(names).into_owned(),
                    Reason::NoOutput(_) => String::new(),
                    Reason::Unknown(what) => clean(what).into_owned(),
                    Reason::Excluded(why) => format!("{name}: {}", clean(why)),
                    _ => name,
                };
                writeln!(
                    self.out,
                    "{}",
                    format!("  {place:<width$}{}{what}", if width > 0 { "  " } else { "" }).trim_end()
                )?;
            }
            if !rest.is_empty() {
                writeln!(self.out, "  … and {} more (`--full`)", thousands(rest.len()))?;
            }
            if let (1, Some(help)) = (helps.len(), helps.first().filter(|help| !help.is_empty())) {
                let help =
                    wrapped(self.columns, &clean(help), "  = help: ".len(), 0).replace('\n', "\n          ");
                writeln!(self.out, "  = help: {help}")?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn summary(&mut self, options: &Options) -> io::Result<()> {
        let report = self.report;
        let line = self.prose(&summary::line(report));
        let line = self.paint(summary::style(report, options), &line);
        if let Some(impact) = &self.report.impact {
            impact::tables(self.report, impact, self.full, self.out)?;
            impact::filled(impact, self.full, self.out)?;
        }
        writeln!(self.out, "{line}")?;
        super::write_origin(report, self.out)?;
        if let Some(left_out) = self.report.impact.as_ref().and_then(Impact::left_out) {
            writeln!(self.out, "{}", self.prose(&format!("left out: {left_out}")))?;
        }
        if let Some(holding) =
            self.report.impact.as_ref().and_then(|impact| impact.still_holding(&self.rules))
        {
            writeln!(self.out, "{}", self.prose(&holding))?;
        }
        for line in self.report.impact.iter().flat_map(|impact| impact.in_trouble(self.full)) {
            writeln!(self.out, "{}", self.prose(&line))?;
        }
        let mut holdings = Vec::new();
        self.report.holdings.write(self.full, &mut holdings)?;
        for line in String::from_utf8_lossy(&holdings).lines() {
            writeln!(self.out, "{}", self.prose(line))?;
        }
        let rules = summary::by_rule(self.report);
        let Some((most, _)) = rules.first() else { return Ok(()) };
        if rules.len() > 1 && self.report.impact.is_none() && !options.statistics {
            // No line breaks between a rule and its number.
            let hits =
                rules.iter().map(|(rule, findings)| format!("{rule}\u{a0}{}", thousands(findings.len())));
            let line = format!("by rule: {}", hits.collect::<Vec<_>>().join(", "));
            writeln!(self.out, "{}", self.prose(&line).replace('\u{a0}', " "))?;
        }
        let directories = group::by_directory(report);
        if !directories.is_empty() {
            let shown = if directories.len() <= DIRECTORIES + 1 { directories.len() } else { DIRECTORIES };
            let (shown, rest) = directories.split_at(shown);
            let worst = shown.iter().map(|(name, findings)| format!("{name} {}", thousands(findings.len())));
            let worst = worst.collect::<Vec<_>>().join(", ");
            let more = if rest.is_empty() {
                String::new()
            } else {
                format!(" … and {} more", thousands(rest.len()))
            };
            writeln!(self.out, "{}", self.prose(&format!("by directory: {worst}{more}")))?;
        }
        let full = if self.grouped { "; `--full` shows every finding" } else { "" };
        let line = format!("`jobgate explain {most}` says more about a rule{full}");
        writeln!(self.out, "{}", self.prose(&line))
    }

    /// Wraps a line of the summary at the columns of the terminal, and indents what follows.
    fn prose(&self, line: &str) -> String {
        let start = line.len() - line.trim_start().len();
        let (margin, text) = line.split_at(start);
        let indent = format!("{margin}{INDENT}");
        let text = wrapped(self.columns, text, indent.len(), 0);
        format!("{margin}{}", text.replace('\n', &format!("\n{indent}")))
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Wraps text for lines with an indent; of the first, `used` columns are taken.
fn wrapped(columns: Option<usize>, text: &str, indent: usize, used: usize) -> String {
    match columns {
        Some(columns) => {
            wrap(text, columns.saturating_sub(indent).max(NARROWEST), used.saturating_sub(indent))
        }
        None => text.to_owned(),
    }
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", message[..end].trim_end()),
        None => message.to_owned(),
    }
}

/// Returns the placeholder for the nth place in the renderer's text.
///
/// The renderer counts columns in its excerpt, which differs from the file where a line was cut or a
/// character made visible. The private-use character around the number cannot be in cleaned text.
fn stand_in(nth: usize) -> String {
    format!("\u{F8FF}{nth}\u{F8FF}")
}

/// Replaces the placeholders, and the renderer's line and column, by the places.
fn put_places(text: &str, places: &[String]) -> String {
    let mut text = text.to_owned();
    for (nth, place) in places.iter().enumerate() {
        let stand_in = stand_in(nth);
        if let Some((before, behind)) = text.split_once(&stand_in) {
            text = format!(
                "{before}{place}{}",
                behind.trim_start_matches(|char: char| char == ':' || char.is_ascii_digit())
            );
        }
    }
    text
}

/// Names the missing field, if the place is the mapping around it.
pub(super) fn missing(located: &Located) -> Option<String> {
    let finding = &located.finding;
    let (path, place) = (&finding.path, &finding.pointer);
    if finding.part != Part::Key || path == place {
        return None;
    }
    let rest = path.below(place)?;
    Some(format!("`{}` belongs here", clean(&rest.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use jobgate_core::text::pointer::Pointer;

    fn human(report: &Report, options: &Options) -> String {
        let mut out = Vec::new();
        write(report, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn many(count: usize) -> Report {
        let mut report = Report { documents: count, objects: count, ..Report::default() }
            .with("jobs/train.yaml", sample::TRAIN);
        for nth in 0..count {
            let level = if nth % 2 == 0 { Level::Deny } else { Level::Warn };
            let rule = ["deadline", "restart-policy", "gpu-toleration"][(nth / 2) % 3];
            let finding =
                sample::finding(rule, level, Pointer::new(&["spec"]), "something is wrong", "fix it");
            let located = report.found("jobs/train.yaml", "spec", finding);
            located.location.file =
                if nth < 3 { "jobs/train.yaml".into() } else { format!("jobs/{nth}.yaml").into() };
        }
        report
    }

    #[test]
    fn the_summary_names_the_worst_directories() {
        let mut report = many(60);
        for (nth, located) in report.findings.iter_mut().enumerate() {
            located.location.file = format!(
                "k8s/{}/{nth}.yaml",
                ["a", "b", "c", "d", "e", "f", "g"][nth.min(nth * nth / 300).min(6)]
            )
            .into();
        }
        let text = human(&report, &Options::default());
        let line = text.lines().find(|line| line.starts_with("by directory: ")).unwrap();
        assert_eq!(line, "by directory: k8s/a 18, k8s/g 17, k8s/b 7, k8s/c 5, k8s/d 5 … and 2 more");
        assert!(!human(&many(60), &Options::default()).contains("by directory"), "there is one");
    }

    #[test]
    fn text_is_wrapped_at_the_columns_of_a_terminal() {
        let report = sample::report();
        let narrow = human(&report, &Options { columns: Some(72), width: 72, ..Options::default() });
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&human(&report, &Options::default())));
        for line in narrow.lines().filter(|line| line.chars().count() > 72) {
            // Addresses and labels of source lines are not broken.
            assert!(line.contains("= rule: http") || line.contains(" | "), "{line}");
        }
        let from = narrow.find("= why: Without this field").unwrap();
        let text: String = narrow[from..].lines().take(3).map(|line| format!("{line}\n")).collect();
        insta::assert_snapshot!(text, @r"
        = why: Without this field, a finished job is never deleted, and the
                 finished runs of a CronJob are kept up to its history limits,
                 each with its pods
        ");
        assert!(narrow.contains(
            "\nerror[checkpoint-volume-access]: 4 pods mount the claim `checkpoints`,\n  which one node can mount\n"
        ));
        let summary = narrow.split_once("by rule: ").unwrap().1;
        insta::assert_snapshot!(summary, @r"
        checkpoint-volume-access 1, deadline 1, duplicate-key 1,
          placeholder 1, ttl-after-finished 1
        `jobgate explain checkpoint-volume-access` says more about a rule
        ");
    }

    #[test]
    fn findings_stand_under_their_object() {
        insta::assert_snapshot!(human(&sample::report(), &Options::default()), @r#"
        team-a/train (Job) in ./jobs/train.yaml

        error[deadline]: the Job has no deadline
         --> ./jobs/train.yaml:6:1
          |
        6 | spec:
          | ^^^^ `activeDeadlineSeconds` belongs here
          |
          = help: add `spec.activeDeadlineSeconds` with the longest time a run may take
          = why: A Job without a deadline runs until it succeeds, fails often enough, or someone notices
          = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md

        note[ttl-after-finished]: a finished Job is never deleted
         --> ./jobs/train.yaml:6:1
          = help: the webhook adds `ttlSecondsAfterFinished: 86400`
          = why: Without this field, a finished job is never deleted, and the finished runs of a CronJob are kept up to its history limits, each with its pods
          = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/ttl-after-finished.md

        error[checkpoint-volume-access]: 4 pods mount the claim `checkpoints`, which one node can mount
          --> ./jobs/train.yaml:17:22
           |
         7 |   parallelism: 4
           |   ----------- so up to 4 pods run at once
        ...
        17 |           claimName: checkpoints
           |                      ^^^^^^^^^^^
           |
          ::: ./volumes/claims.yaml:6:17
           |
         6 |   accessModes: [ReadWriteOnce]
           |                 ------------- PersistentVolumeClaim team-a/checkpoints: one node
           |
           = help: make the claim `ReadWriteMany`, or keep the pods on one node
           = why: A `ReadWriteOnce` volume is attached to one node at a time: pods on another node wait in ContainerCreating, without a time limit, and keep their GPUs
           = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/checkpoint-volume-access.md

        note[placeholder]: `checkpoints` looks like a placeholder
          --> ./jobs/train.yaml:17:22
           = why: The field has a placeholder such as `$NUM_NODES`, `<PROJECT>`, `{{ .Values.x }}` or `YOUR_IMAGE` instead of a value
           = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/README.md#placeholder

        ./volumes/claims.yaml

        warning[duplicate-key]: duplicate key `resources`; kubectl drops the first
         --> ./volumes/claims.yaml:7:3
          |
        7 |   resources: {}
          |   ^^^^^^^^^
          |
          = help: remove one
          = why: kubectl uses the last of two equal keys and silently ignores the first, so one of the two values never reaches the cluster
          = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/README.md#duplicate-key

        2 files, 3 documents, 1 job: 2 errors, 1 warning, 2 notes (1 filled in by the webhook)
        by rule: checkpoint-volume-access 1, deadline 1, duplicate-key 1, placeholder 1, ttl-after-finished 1
        `jobgate explain checkpoint-volume-access` says more about a rule
        "#);
    }

    #[test]
    fn hard_shapes_stay_readable() {
        insta::assert_snapshot!(human(&sample::shapes(), &Options { width: 100, ..Options::default() }), @r#"
        team-a/train (Job) in long.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> long.yaml:1:788
          |
        1 | ...", "aaaa bbbb", "aaaa bbbb", "aaaa bbbb", --flag, "cccc dddd", "cccc dddd", "cccc dddd", "...
          |                                              ^^^^^^
          |
          = help: fix it
          = why: A Job without a deadline runs until it succeeds, fails often enough, or someone notices
          = rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md

        team-a/train (Job) in one-line.json

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> one-line.json:1:9019
          |
        1 | ...äääääääääääääääääääääääääääääää", "kind": "Job", "b": "ööööööööööööööööööööööööööööööööööö...
          |                                              ^^^^^
          |
          = help: fix it

        team-a/train (Job) in tabs.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> tabs.yaml:1:5
          |
        1 | a:        x
          |           ^
          |
          = help: fix it

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> tabs.yaml:2:5
          |
        2 |     b:    y # ␛[31mred␛[0m <U+009B>1m
          |           ^
          |
          = help: fix it

        team-a/train (Job) in crlf.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> crlf.yaml:2:1
          |
        2 | spec:
          | ^^^^
          |
          = help: fix it

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> crlf.yaml:3:3
          |
        3 |   a: 1
          |   ^^^^
          |
          = help: fix it

        team-a/train (Job) in wide.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> wide.yaml:1:14
          |
        1 | name: 漢字🚀 # <U+200B>zero<U+202E>width
          |                        ^^^^
          |
          = help: fix it

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> wide.yaml:2:7
          |
        2 | שלום: עולם
          |       ^^^^
          |
          = help: fix it

        team-a/train (Job) in evil␛]8;;http://x␇name␊.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> evil␛]8;;http://x␇name␊.yaml:1:7
          |
        1 | kind: Job
          |       ^^^
          |
          = help: fix it

        team-a/train (Job) in end.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> end.yaml:2:1
          = help: fix it

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> end.yaml:1:6
          |
        1 | kind: Job
          |      ^
          |
          = help: fix it

        team-a/train (Job) in empty.yaml

        error[deadline]: escape ␛[2J and␊line break <U+202E>
         --> empty.yaml:1:1
          = help: fix it

        team-a/train (Job) in gone.yaml

        error[deadline]: no source at hand
         --> gone.yaml:1:7
          = help: fix it

        team-a/train (Job) in end.yaml

        error[deadline]: a place in the cluster
         --> end.yaml:1:7
          |
        1 | kind: Job
          |       ^^^
          |
          = note: PersistentVolumeClaim team-a/data: `ReadWriteOnce`
          = help: fix it

        8 files, 9 documents, 1 job: 14 errors
        `jobgate explain deadline` says more about a rule
        "#);
    }

    #[test]
    fn many_findings_stand_under_their_rule() {
        insta::assert_snapshot!(human(&many(60), &Options::default()), @r#"
        deadline: 10 errors, 10 warnings  https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md
        error[deadline]: something is wrong
         --> jobs/train.yaml:6:1
          |
        6 | spec:
          | ^^^^
          |
          = help: fix it
          = why: A Job without a deadline runs until it succeeds, fails often enough, or someone notices

          error   jobs/6.yaml:6:1      Job team-a/train
          error   jobs/12.yaml:6:1     Job team-a/train
          error   jobs/18.yaml:6:1     Job team-a/train
          error   jobs/24.yaml:6:1     Job team-a/train
          error   jobs/30.yaml:6:1     Job team-a/train
          error   jobs/36.yaml:6:1     Job team-a/train
          error   jobs/42.yaml:6:1     Job team-a/train
          error   jobs/48.yaml:6:1     Job team-a/train
          error   jobs/54.yaml:6:1     Job team-a/train
          warning jobs/train.yaml:6:1  Job team-a/train
          … and 9 more in 9 files

        gpu-toleration: 10 errors, 10 warnings  https://github.com/jobgate/jobgate/blob/main/docs/rules/gpu-toleration.md
        error[gpu-toleration]: something is wrong
         --> jobs/4.yaml:6:1
          = help: fix it
          = why: Nodes with accelerators usually have a taint that keeps other pods away (GKE sets `nvidia.com/gpu=present:NoSchedule` by itself)

          error   jobs/10.yaml:6:1  Job team-a/train
          error   jobs/16.yaml:6:1  Job team-a/train
          error   jobs/22.yaml:6:1  Job team-a/train
          error   jobs/28.yaml:6:1  Job team-a/train
          error   jobs/34.yaml:6:1  Job team-a/train
          error   jobs/40.yaml:6:1  Job team-a/train
          error   jobs/46.yaml:6:1  Job team-a/train
          error   jobs/52.yaml:6:1  Job team-a/train
          error   jobs/58.yaml:6:1  Job team-a/train
          warning jobs/5.yaml:6:1   Job team-a/train
          … and 9 more in 9 files

        restart-policy: 10 errors, 10 warnings  https://github.com/jobgate/jobgate/blob/main/docs/rules/restart-policy.md
        error[restart-policy]: something is wrong
         --> jobs/train.yaml:6:1
          |
        6 | spec:
          | ^^^^
          |
          = help: fix it
          = why: With `restartPolicy: Always`, a container that has finished its work is started again, forever

          error   jobs/8.yaml:6:1   Job team-a/train
          error   jobs/14.yaml:6:1  Job team-a/train
          error   jobs/20.yaml:6:1  Job team-a/train
          error   jobs/26.yaml:6:1  Job team-a/train
          error   jobs/32.yaml:6:1  Job team-a/train
          error   jobs/38.yaml:6:1  Job team-a/train
          error   jobs/44.yaml:6:1  Job team-a/train
          error   jobs/50.yaml:6:1  Job team-a/train
          error   jobs/56.yaml:6:1  Job team-a/train
          warning jobs/3.yaml:6:1   Job team-a/train
          … and 9 more in 9 files

        1 file, 60 documents, 60 jobs: 30 errors, 30 warnings
        by rule: deadline 20, gpu-toleration 20, restart-policy 20
        `jobgate explain deadline` says more about a rule; `--full` shows every finding
        "#);
    }

    #[test]
    fn a_thousand_findings_can_be_read() {
        assert!(human(&many(1000), &Options::default()).lines().count() < 120);
        assert!(human(&many(1000), &Options { full: true, ..Options::default() }).lines().count() > 1000);
    }

    #[test]
    fn a_clean_run_is_one_line() {
        let report = Report { files: 2, documents: 3, objects: 2, ..Report::default() };
        assert_eq!(human(&report, &Options::default()), "2 files, 3 documents, 2 jobs: nothing found\n");
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        assert!(!human(&sample::report(), &Options::default()).contains('\u{1b}'));
        let colored = human(&sample::report(), &Options { color: true, ..Options::default() });
        assert!(colored.contains("\u{1b}["));
        assert_eq!(
            anstream::adapter::strip_str(&colored).to_string(),
            human(&sample::report(), &Options::default())
        );
    }
}
