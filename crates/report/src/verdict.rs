//! The verdicts of a dry run, one per object.

use std::collections::BTreeMap;
use std::io;

use anstyle::{AnsiColor, Style};

use super::text::{clean, thousands};
use crate::answer::Answered;
use crate::options::Options;
use crate::results::Report;
use jobgate_core::admission::dry_run::Predicted;
use jobgate_core::judge::engine::Operation;

/// Above this many objects, only some of each outcome are named.
const MANY: usize = 40;
/// Maximum objects of an outcome that are named.
const NAMED: usize = 10;

/// Writes a line for each object, and a blank one after them; with `quiet`, only for those that are not allowed. Of
/// many objects, some of each outcome are named.
pub(super) fn write(report: &Report, options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let is_shown = |answered: &&Answered| !(options.quiet && answered.answer.outcome.is_allowed());
    let mut all: Vec<&Answered> = report.answers.iter().filter(is_shown).collect();
    let named = if all.len() > MANY && !options.full { NAMED } else { usize::MAX };
    if named < all.len() {
        all.sort_by_key(|answered| std::cmp::Reverse(answered.answer.outcome));
    }
    for same in all.chunk_by(|one, next| named == usize::MAX || one.answer.outcome == next.answer.outcome) {
        lines(same.get(..named).unwrap_or(same), options, out)?;
        if let Some(more) = same.len().checked_sub(named).filter(|more| *more > 0) {
            let outcome = same[0].answer.outcome;
            let style = if options.color { style(outcome) } else { Style::new() };
            let outcome = outcome.as_str();
            writeln!(out, "… and {} more: {style}{outcome}{style:#}", thousands(more))?;
        }
    }
    if all.is_empty() { Ok(()) } else { writeln!(out) }
}

fn lines(answers: &[&Answered], options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    for answered in answers {
        let Answered { location, source, object, answer, .. } = answered;
        let source = source.as_ref().map(|source| format!(" ({})", clean(source))).unwrap_or_default();
        let style = if options.color { style(answer.outcome) } else { Style::new() };
        writeln!(
            out,
            "{}:{}{source}: {}{}: {style}{}{style:#}{}",
            clean(&location.file),
            location.start.line,
            clean(&object.to_string()),
            update(answered),
            answer.outcome.as_str(),
            besides(answered)
        )?;
    }
    Ok(())
}

/// Returns the object of a verdict, with remarks.
pub(super) fn about(answered: &Answered) -> String {
    let source = answered.source.as_ref().map(|source| format!(" ({})", clean(source))).unwrap_or_default();
    let object = answered.object.to_string();
    format!("{}{}{source}{}", clean(&object), update(answered), besides(answered))
}

fn update(answered: &Answered) -> &'static str {
    if answered.answer.operation == Operation::Update { " (update)" } else { "" }
}

fn besides(answered: &Answered) -> String {
    let mut text = String::new();
    if answered.answer.outcome.is_allowed() && answered.operator_refuses {
        text.push_str("; the operator would reject it");
    }
    if answered.pods.iter().any(|pod| pod.refused) {
        text.push_str("; its pods would be refused");
    }
    if let Some(doubt) = answered.answer.doubt {
        text.push_str(&format!("; not filled in: {doubt}"));
    }
    text
}

/// Returns the colour of an outcome.
pub(super) fn style(outcome: Predicted) -> Style {
    let color = match outcome {
        Predicted::Allowed => AnsiColor::BrightGreen,
        Predicted::Patched => AnsiColor::BrightCyan,
        Predicted::Denied | Predicted::Rejected => AnsiColor::BrightRed,
        Predicted::Unjudged => AnsiColor::BrightYellow,
    };
    color.on_default().bold()
}

/// Returns the number of objects by outcome; empty if there are no predictions.
pub(super) fn counts(report: &Report) -> Vec<(Predicted, usize)> {
    let mut counts: BTreeMap<Predicted, usize> = BTreeMap::new();
    for answered in &report.answers {
        *counts.entry(answered.answer.outcome).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Returns the same in words: `2 allowed; 1 denied by jobgate`.
pub(super) fn in_short(report: &Report) -> String {
    let count = |(outcome, count): (Predicted, usize)| format!("{} {}", thousands(count), outcome.as_str());
    counts(report).into_iter().map(count).collect::<Vec<_>>().join("; ")
}
