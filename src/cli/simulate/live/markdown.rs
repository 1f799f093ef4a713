//! A Job of a cluster, or an object of an operator, for a comment.

use std::io::{self, Write};

use super::advice::advice;
use super::counts::status;
use super::course::{end, premise};
use super::status::Standing;
use super::words::sentence;
use crate::cli::simulate::markdown::escaped;

pub(in crate::cli::simulate) fn write(standings: &[Standing], out: &mut dyn Write) -> io::Result<()> {
    for standing in standings {
        writeln!(out, "### {}, at {}\n", escaped(&standing.title), standing.moment.in_full())?;
        writeln!(out, "| | |\n|---|---|")?;
        for (name, text) in status(standing) {
            writeln!(out, "| {name} | {} |", escaped(&text))?;
        }
        writeln!(out, "\nWaits for:\n")?;
        for wait in &standing.waits {
            writeln!(out, "- {}", escaped(&sentence(standing, wait)))?;
        }
        match &standing.next {
            None => {}
            Some(Err(problem)) => writeln!(out, "\nWhat comes next is {}.", escaped(problem))?,
            Some(Ok(told)) => {
                writeln!(
                    out,
                    "\nWhat comes next: {}, {}.",
                    premise(standing),
                    escaped(&end(standing, told))
                )?;
            }
        }
        if !standing.stories.is_empty() {
            writeln!(out, "\n| incident | what comes of it |\n|---|---|")?;
        }
        for told in &standing.stories {
            let unused = told.outcome.unused.iter().map(|unused| format!("; not used: {unused}"));
            let unused: String = unused.collect();
            writeln!(out, "| {} | {}{} |", told.story, escaped(&end(standing, told)), escaped(&unused))?;
        }
        let advice = advice(standing);
        if !advice.is_empty() {
            writeln!(out, "\nWhat you can do:\n")?;
        }
        for line in advice {
            writeln!(out, "- {}", escaped(&line))?;
        }
        for refused in &standing.refused {
            writeln!(out, "\nFrom now on: {}.", escaped(refused))?;
        }
        if let Some(assumed) = standing.assumed() {
            writeln!(out, "\nAssumed: {}.", escaped(&assumed))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
