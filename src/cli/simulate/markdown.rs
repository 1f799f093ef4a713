//! The simulation as a table for a comment in a review.

use std::io::{self, Write};

use super::human::{ends, failures, hours, sentence, shown, unit, when};
use super::runs;
use super::stories::Simulated;
use crate::report::clean;

pub(super) fn write(jobs: &[Simulated], out: &mut dyn Write) -> io::Result<()> {
    for job in jobs {
        writeln!(out, "### {}\n", escaped(&job.title))?;
        writeln!(
            out,
            "| incident | ends | after | pods | failures | {} used | idle | lost | decided by |",
            unit(job)
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
        for row in &job.rows {
            let outcome = &row.outcome;
            let decided = row.decision.as_ref().map(|_| sentence(job, row));
            let decided = decided.into_iter().chain(row.runs.as_ref().map(runs::sentence));
            let decided = decided.collect::<Vec<String>>().join("; ");
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.story,
                ends(row),
                when(outcome),
                outcome.made,
                failures(job, outcome),
                shown(hours(job, outcome.used)),
                shown(hours(job, outcome.idle())),
                shown(hours(job, outcome.lost)),
                escaped(&decided)
            )?;
        }
        for refused in &job.refused {
            writeln!(out, "\nFrom the beginning: {}.", escaped(refused))?;
        }
        writeln!(out, "\nAssumed: {}.\n", escaped(&job.assumed_in_words()))?;
    }
    Ok(())
}

/// Returns a text that breaks no table.
pub(super) fn escaped(text: &str) -> String {
    clean(text).replace('|', "\\|").replace('<', "&lt;")
}
