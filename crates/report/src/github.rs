//! Workflow commands of GitHub Actions, which annotate pull requests.
//!
//! GitHub shows ten errors and ten warnings per step, so the worst come first.

use std::borrow::Cow;
use std::io;

use super::text::{clean, repository_path};
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::summary;
use crate::unjudged::Unjudged;
use jobgate_core::judge::finding::Level;

/// Writes one command per line, and the summary as a plain last line.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|located| std::cmp::Reverse(located.finding.level));
    for located in findings {
        command(report, located, out)?;
    }
    for unjudged in report.unreported(options) {
        not_judged(unjudged, options.fail_on_unjudged, out)?;
    }
    if options.quiet { Ok(()) } else { writeln!(out, "{}", summary::line(report)) }
}

/// Writes a notice for an unjudged item, or an error if that fails the run.
fn not_judged(unjudged: &Unjudged, fails: bool, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "::{} ", if fails || unjudged.reason.is_error() { "error" } else { "notice" })?;
    if let Some(location) = &unjudged.location {
        write!(out, "file={},line={},", property(repository_path(&location.file)), location.start.line)?;
    }
    let name = unjudged.name();
    let what = unjudged.reason.what();
    let title = if name.is_empty() { what.to_owned() } else { format!("{what}: {name}") };
    write!(out, "title={}::{}", property(&title), message(&unjudged.message()))?;
    let help = unjudged.help();
    if !help.is_empty() {
        write!(out, "%0Ahelp: {}", message(&help))?;
    }
    writeln!(out)
}

fn command(report: &Report, located: &Located, out: &mut dyn io::Write) -> io::Result<()> {
    let finding = &located.finding;
    let name = match finding.level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note => "notice",
    };
    let (start, end) = (located.location.start, located.location.end);
    write!(out, "::{name} ")?;
    if let Some(file) = report.file(&located.location) {
        write!(out, "file={},line={},endLine={},", property(repository_path(file)), start.line, end.line)?;
        // GitHub rejects columns for a place of several lines.
        if start.line == end.line {
            write!(out, "col={},endColumn={},", start.column, end.column)?;
        }
    }
    let title = match &located.object {
        Some(object) => format!("{}: {object}", finding.rule),
        None => finding.rule.to_string(),
    };
    write!(out, "title={}::{}", property(&title), message(&finding.message))?;
    if !finding.help.is_empty() {
        write!(out, "%0Ahelp: {}", message(&finding.help))?;
    }
    for related in &located.related {
        out.write_all(b"%0Asee ")?;
        if let Some(location) = related.location.as_ref().filter(|_| report.impact.is_none()) {
            write!(out, "{}:{} ", message(repository_path(&location.file)), location.start.line)?;
        }
        if let Some(object) = &related.object {
            write!(out, "{} ", message(object))?;
        }
        write!(out, "({})", message(&related.text))?;
    }
    writeln!(out)
}

/// Escapes the text after `::`. The runner reads `%25`, `%0D` and `%0A`; other control characters become
/// pictures.
fn message(text: &str) -> String {
    let text: Cow<'_, str> = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A").into();
    clean(&text).into_owned()
}

/// Escapes a text for a property, where `:` and `,` are special, too.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn lines(report: &Report) -> Vec<String> {
        let mut out = Vec::new();
        write(report, &Options::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn denials_come_first_and_the_summary_last() {
        let lines = lines(&sample::report());
        assert_eq!(
            lines[1],
            "::error file=jobs/train.yaml,line=17,endLine=17,col=22,endColumn=33,title=checkpoint-volume-access%3A Job team-a/train::\
             4 pods mount the claim `checkpoints`, which one node can mount%0A\
             help: make the claim `ReadWriteMany`, or keep the pods on one node%0A\
             see jobs/train.yaml:7 (so up to 4 pods run at once)%0A\
             see volumes/claims.yaml:6 PersistentVolumeClaim team-a/checkpoints (one node)"
        );
        let kinds: Vec<_> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(kinds, ["::error", "::error", "::warning", "::notice", "::notice", "2"]);
    }

    #[test]
    fn quiet_leaves_out_the_summary() {
        let options = Options { quiet: true, ..Options::default() };
        for format in [crate::Format::Github, crate::Format::Concise] {
            let lines = |options: &Options| {
                let mut out = Vec::new();
                crate::write(&sample::report(), format, options, &mut out).unwrap();
                String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
            };
            let (all, quiet) = (lines(&Options::default()), lines(&options));
            assert_eq!(quiet, all[..all.len() - 1], "{format:?}");
        }
    }

    #[test]
    fn what_means_something_to_the_runner_is_escaped() {
        assert_eq!(property("a:b,c%\r\n\u{1b}"), "a%3Ab%2Cc%25%0D%0A␛");
        assert_eq!(message("a:b,c%\r\n"), "a:b,c%25%0D%0A");
    }
}
