//! JUnit XML: a suite per file (or namespace of a cluster), a case per finding. Findings that do not fail the
//! run are cases that pass.

use std::fmt::Write as _;
use std::io;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::text::clean;
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::unjudged::Unjudged;
use crate::{page, summary};
use jobgate_core::judge::finding::Level;

/// Writes the report; findings at or above `fail_on` are failures.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let fail_on = options.fail_on;
    let mut junit = quick_junit::Report::new("jobgate");
    if report.findings.is_empty() && report.unjudged.is_empty() {
        // Readers of these files treat one without cases as a broken run.
        let mut suite = TestSuite::new("jobgate");
        suite.add_test_case(TestCase::new(summary::line(report), TestCaseStatus::success()));
        junit.add_test_suite(suite);
    }
    for findings in report.findings.chunk_by(|a, b| suite_of(report, a) == suite_of(report, b)) {
        let mut suite = TestSuite::new(&*clean(suite_of(report, &findings[0])));
        suite.add_test_cases(findings.iter().map(|located| case(report, located, fail_on)));
        junit.add_test_suite(suite);
    }
    // In a suite of their own: in the suites of files, tools track findings.
    let said: Vec<_> = report.unreported(options).collect();
    if !said.is_empty() {
        let mut suite = TestSuite::new("not judged");
        suite.add_test_cases(said.into_iter().map(|unjudged| not_judged(unjudged, options.fail_on_unjudged)));
        junit.add_test_suite(suite);
    }
    junit.serialize(out).map_err(io::Error::other)
}

/// Returns the case of something that was not judged: skipped, failed if that fails the run, or an error of
/// the run.
fn not_judged(unjudged: &Unjudged, fails: bool) -> TestCase {
    let name = [unjudged.reason.word().to_owned(), unjudged.name()].join(": ");
    let message = unjudged.message();
    let mut text = format!("{}\n{}: {}", unjudged.place(), unjudged.reason.what(), clean(&message));
    let help = unjudged.help();
    if !help.is_empty() {
        let _ = write!(text, "\nhelp: {}", clean(&help));
    }
    let mut status = match unjudged.reason.is_error() {
        true => TestCaseStatus::non_success(NonSuccessKind::Error),
        false if fails => TestCaseStatus::non_success(NonSuccessKind::Failure),
        false => TestCaseStatus::skipped(),
    };
    status.set_message(&*clean(&message)).set_description(text.trim_start());
    let mut case = TestCase::new(&*clean(name.trim_end_matches(": ")), status);
    case.set_classname(
        unjudged.location.as_ref().map_or("jobgate".into(), |location| clean(&location.file)).as_ref(),
    );
    case
}

/// Returns the name of a finding's suite: its file, or else its namespace.
fn suite_of<'r>(report: &Report, located: &'r Located) -> &'r str {
    let namespace = || located.object.as_ref()?.namespace.as_deref();
    report.file(&located.location).or_else(namespace).unwrap_or("jobgate")
}

fn case(report: &Report, located: &Located, fail_on: Level) -> TestCase {
    let finding = &located.finding;
    // Tools track a case by its name, so it has no line number.
    let name = match &located.object {
        Some(object) => format!("{}: {object} {}", finding.rule, finding.path),
        None => format!("{}: document {}", finding.rule, located.document + 1),
    };
    let message = clean(&finding.message);
    let text = text(report, located);
    let status = if finding.level >= fail_on {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_type(&*finding.rule).set_message(&*message).set_description(&*text);
        status
    } else {
        TestCaseStatus::success()
    };
    let passes = matches!(status, TestCaseStatus::Success { .. });
    let mut case = TestCase::new(&*clean(name.trim_end()), status);
    case.set_classname(&*clean(suite_of(report, located)));
    if passes {
        case.set_system_out(&*text);
    }
    case
}

fn text(report: &Report, located: &Located) -> String {
    let finding = &located.finding;
    let mut text = format!("{}\n", report.place(located));
    let _ = writeln!(text, "{}[{}]: {}", finding.level.as_str(), finding.rule, clean(&finding.message));
    if !finding.help.is_empty() {
        let _ = writeln!(text, "help: {}", clean(&finding.help));
    }
    for related in &located.related {
        let place =
            related.location.as_ref().filter(|_| report.impact.is_none()).map(|place| format!("{place} "));
        let object = related.object.as_deref().map(|object| format!("{} ", clean(object)));
        let _ = writeln!(
            text,
            "see: {}{}({})",
            place.unwrap_or_default(),
            object.unwrap_or_default(),
            clean(&related.text)
        );
    }
    let _ = write!(text, "rule: {}", page::link(&finding.rule));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn xml(report: &Report, fail_on: Level) -> String {
        let mut out = Vec::new();
        write(report, &Options { fail_on, ..Options::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_clean_run_is_one_case_that_passes() {
        let report = Report { files: 2, documents: 3, objects: 2, ..Report::default() };
        insta::assert_snapshot!(xml(&report, Level::Deny), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="jobgate" tests="1" skipped="0" failures="0" errors="0">
            <testsuite name="jobgate" tests="1" skipped="0" errors="0" failures="0">
                <testcase name="2 files, 3 documents, 2 jobs: nothing found"/>
            </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn what_is_below_the_mark_passes() {
        let xml_deny = xml(&sample::report(), Level::Deny);
        assert!(xml_deny.contains(r#"tests="5" skipped="0" failures="2""#), "{xml_deny}");
        assert!(xml(&sample::report(), Level::Note).contains(r#"failures="5""#));
        let case = xml_deny.split("<testcase ").nth(1).unwrap();
        insta::assert_snapshot!(case, @r#"
        name="deadline: Job team-a/train spec.activeDeadlineSeconds" classname="./jobs/train.yaml">
                    <failure message="the Job has no deadline" type="deadline">./jobs/train.yaml:6:1
        deny[deadline]: the Job has no deadline
        help: add `spec.activeDeadlineSeconds` with the longest time a run may take
        rule: https://github.com/jobgate/jobgate/blob/main/docs/rules/deadline.md</failure>
                </testcase>
        "#);
    }
}
