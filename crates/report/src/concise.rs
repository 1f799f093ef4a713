//! One line per finding, as gcc and ruff print them, then the summary line.

use std::io;

use anstyle::{AnsiColor, Style};

use super::text::clean;
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::{summary, verdict};
use jobgate_core::judge::finding::{Level, Safety};

const PLACE: Style = Style::new().bold();
const UNJUDGED: Style = AnsiColor::BrightYellow.on_default().bold();
const FIX: Style = AnsiColor::Cyan.on_default();

/// Writes the verdicts of a dry run, the findings, what was not judged, and the summary.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let paint = |style: Style, text: &str| match options.color && !text.is_empty() {
        true => format!("{style}{text}{style:#}"),
        false => text.to_owned(),
    };
    for answered in &report.answers {
        let place = paint(PLACE, &answered.location.to_string());
        let (style, outcome) = (verdict::style(answered.answer.outcome), answered.answer.outcome.as_str());
        writeln!(out, "{place}: {}: {}", paint(style, outcome), verdict::about(answered))?;
    }
    for located in &report.findings {
        let finding = &located.finding;
        let place = paint(PLACE, &report.place(located));
        let level = paint(style(finding.level), &format!("{}[{}]", finding.level.word(), finding.rule));
        let fix = mark(report, located).map(|mark| format!(" {}", paint(FIX, mark))).unwrap_or_default();
        writeln!(out, "{place}: {level}: {}{fix}", clean(&finding.message))?;
    }
    for unjudged in report.unreported(options) {
        let place = paint(PLACE, &unjudged.place());
        let colon = if place.is_empty() { "" } else { ": " };
        let name = unjudged.name();
        // The message about a path already names it.
        let name = match unjudged.object.is_some() {
            true => format!("{}: ", clean(&name)),
            false => String::new(),
        };
        let what = paint(UNJUDGED, unjudged.reason.what());
        writeln!(out, "{place}{colon}{what}: {name}{}", clean(&unjudged.message()))?;
    }
    if options.quiet {
        return Ok(());
    }
    writeln!(out, "{}", paint(summary::style(report, options), &summary::line(report)))
}

/// Returns the colour of a level, as in the human format.
pub(super) fn style(level: Level) -> Style {
    let color = match level {
        Level::Deny => AnsiColor::BrightRed,
        Level::Warn => AnsiColor::BrightYellow,
        Level::Note => AnsiColor::BrightGreen,
    };
    color.on_default().bold()
}

fn mark(report: &Report, located: &Located) -> Option<&'static str> {
    Some(match report.fix_of(located)? {
        Safety::Safe => "[fixable]",
        Safety::Unsafe => "[fixable with --unsafe-fixes]",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impact::Impact;
    use crate::sample;
    use jobgate_core::text::pointer::Pointer;

    fn concise(report: &Report, options: &Options) -> String {
        let mut out = Vec::new();
        write(report, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_object_of_a_cluster_is_named_instead_of_a_place() {
        let mut report = sample::report();
        report.impact = Some(Impact::default());
        let text = concise(&report, &Options::default());
        assert!(
            text.starts_with(
                "Job team-a/train: spec.activeDeadlineSeconds: error[deadline]: the Job has no deadline\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_finding_about_all_of_an_object_names_no_field() {
        let mut report = sample::report();
        report.impact = Some(Impact::default());
        report.findings[0].finding.path = Pointer::root();
        let text = concise(&report, &Options::default());
        assert!(text.starts_with("Job team-a/train: error[deadline]: the Job"), "{text}");
    }

    #[test]
    fn a_terminal_gets_colours_and_the_same_words() {
        let colored = concise(&sample::all(), &Options { color: true, ..Options::default() });
        let stripped = anstream::adapter::strip_str(&colored).to_string();
        assert_eq!(stripped, concise(&sample::all(), &Options::default()));
        assert!(
            colored.contains(
                "\u{1b}[1m./jobs/train.yaml:6:1\u{1b}[0m: \u{1b}[1m\u{1b}[91merror[deadline]\u{1b}[0m: "
            ),
            "{colored:?}"
        );
    }
}
