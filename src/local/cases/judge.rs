//! The results of a case: its findings, its fixed texts, and what the webhook would answer.

use std::sync::Mutex;

use super::{Beside, Case, Problem, expectations, shown};
use crate::judge::checks::SYNTAX;
use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Policy;
use crate::local::lint::{self, Change, DryRun, ExistingObjects, Fixing, Input, Options, Sink, Unwritten};
use crate::report::{Answered, Located, Reason, Report, clean};
use crate::text::patch;
use crate::text::value::json;

/// What was found in a case, and what its files should be.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// What was found, in the form of the lines, in the order of the file.
    pub(crate) lines: Vec<String>,
    /// The finding of each line for display, with its place: `a.yaml:3:1: error[deadline]: …`.
    pub(crate) told: Vec<String>,
    /// The text with safe fixes, if these change anything.
    pub(crate) fixed: Option<Vec<u8>>,
    /// The text with all fixes, if that is different.
    pub(crate) fully_fixed: Option<Vec<u8>>,
    /// Why some fixes were not made.
    pub withheld: Vec<String>,
    /// What the webhook would answer, as JSON.
    pub(crate) patch: Option<Vec<u8>>,
    pub(super) has_fully_fixed: bool,
    pub(super) has_patch: bool,
}

#[derive(Debug, Default)]
struct FixedTextSink(Mutex<Option<Vec<u8>>>);

impl Sink for FixedTextSink {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(change.new.to_vec());
        Ok(())
    }
}

/// Judges a case by a policy.
pub(super) fn judge(case: &Case, policy: &Policy, beside: Beside) -> Result<Judged, Vec<Problem>> {
    let path = shown(&case.paths.case);
    let inputs = [Input::text(&path, case.source.clone())];
    // Without a date: an exemption may have ended on one, and a test must not depend on the day.
    let options = Options { keep_sources: false, keep_fixes: false, ..Options::default() };
    let report = lint::lint(&inputs, policy, &case.facts, &options).report;
    let problems = problems(case, &report);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut judged = Judged::default();
    for located in report.findings.iter().filter(|located| case.counts(&located.finding.rule)) {
        let finding = &located.finding;
        judged.lines.push(expectations::line(
            finding.level,
            &finding.rule,
            located.object.as_deref(),
            &finding.path,
        ));
        judged.told.push(description(located));
    }
    for unjudged in report.unjudged.iter().filter(|_| case.paths.rule().is_none()) {
        let what = match &unjudged.reason {
            Reason::Claim(name) | Reason::Runtime(name) => name.to_string(),
            _ => String::new(),
        };
        let word = unjudged.reason.word();
        judged.lines.push(expectations::words(
            expectations::NOT_JUDGED,
            word,
            unjudged.object.as_deref(),
            &what,
        ));
        let place = unjudged.location.as_ref().map(|location| format!("{location}: ")).unwrap_or_default();
        judged.told.push(format!("{place}not judged[{word}]: {}", clean(&unjudged.message())));
    }
    let mut fix = |most| {
        let kept = FixedTextSink::default();
        let options = Options { fix: Some(Fixing { most, sink: &kept }), ..options };
        let report = lint::lint(&inputs, policy, &case.facts, &options).report;
        let withheld = report.findings.iter().filter_map(|located| located.withheld.as_deref());
        judged.withheld.extend(withheld.map(str::to_owned));
        kept.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    let fixed = fix(Safety::Safe);
    let has_fully_fixed = beside == Beside::Unsafe || case.paths.fully_fixed().exists();
    let fully_fixed = if has_fully_fixed { fix(Safety::Unsafe) } else { None };
    judged.fully_fixed = fully_fixed.filter(|text| Some(text) != fixed.as_ref());
    judged.fixed = fixed;
    judged.has_fully_fixed = has_fully_fixed;
    judged.has_patch = case.paths.patch().exists();
    if judged.has_patch {
        judged.patch = Some(answers(case, policy, &inputs, &options));
    }
    Ok(judged)
}

/// Returns the errors because of which the manifests test nothing.
fn problems(case: &Case, report: &Report) -> Vec<Problem> {
    let is_broken =
        |located: &&Located| located.finding.rule == SYNTAX && located.finding.level == Level::Deny;
    let broken = report.findings.iter().filter(is_broken);
    let mut problems: Vec<Problem> = broken
        .map(|located| Problem {
            path: shown(&case.paths.case),
            position: Some(located.location.start),
            message: clean(&located.finding.message).into_owned(),
            help: Some(clean(&located.finding.help).into_owned()).filter(|help| !help.is_empty()),
        })
        .collect();
    if problems.is_empty() && report.unjudged.iter().any(|unjudged| unjudged.reason == Reason::Nothing) {
        problems.push(Problem {
            help: Some("docs/kinds.md lists the kinds".to_owned()),
            ..Problem::new(&case.paths.case, "the case has no object of a kind that Jobgate judges")
        });
    }
    problems
}

fn description(located: &Located) -> String {
    let finding = &located.finding;
    let (level, rule) = (finding.level.word(), &finding.rule);
    format!("{}: {level}[{rule}]: {}", located.location, clean(&finding.message))
}

/// Returns what the webhook would answer for each object when it is created, as JSON.
fn answers(case: &Case, policy: &Policy, inputs: &[Input], options: &Options<'_>) -> Vec<u8> {
    let against = ExistingObjects::default();
    let question =
        DryRun { strict: true, against: &against, cluster: None, keep_objects: false, keep_pods: false };
    let options = Options { dry_run: Some(question), ..*options };
    let report = lint::lint(inputs, policy, &case.facts, &options).report;
    let one = |answered: &Answered| {
        json!({
            "object": &*answered.object, "verdict": answered.answer.outcome.as_str(),
            "patch": patch::document(&answered.answer.patch),
        })
    };
    let answers: Vec<_> = report.answers.iter().map(one).collect();
    let mut text = serde_json::to_vec_pretty(&answers).unwrap_or_default();
    text.push(b'\n');
    text
}
