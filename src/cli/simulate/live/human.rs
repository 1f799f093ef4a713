//! A Job of a cluster, or an object of an operator, for people.

use std::io::{self, Write};

use super::advice::advice;
use super::counts::status;
use super::course::{course, end, premise};
use super::status::{Standing, Told};
use super::times::long;
use super::words::sentence;
use crate::controllers::live::WaitFor;
use crate::controllers::time::Time;
use crate::report::clean;

pub(in crate::cli::simulate) fn write(standings: &[Standing], out: &mut dyn Write) -> io::Result<()> {
    for (nth, standing) in standings.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        one(standing, out)?;
    }
    Ok(())
}

fn one(standing: &Standing, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}, at {}\n", standing.title, standing.moment.in_full())?;
    for (name, text) in status(standing) {
        writeln!(out, "  {name:<10}  {text}")?;
    }
    writeln!(out, "\nwaits for:")?;
    for wait in &standing.waits {
        writeln!(out, "  {}", sentence(standing, wait))?;
    }
    match &standing.next {
        None => {}
        Some(Err(problem)) => writeln!(out, "\nwhat comes next is {problem}")?,
        Some(Ok(told)) => {
            writeln!(out, "\n{}, {}", premise(standing), end(standing, told))?;
            if standing.stories.is_empty() {
                timeline(standing, told, out)?;
            }
        }
    }
    for told in &standing.stories {
        writeln!(out, "\n{}: {}", told.story, end(standing, told))?;
        if standing.stories.len() == 1 {
            timeline(standing, told, out)?;
        }
        for unused in &told.outcome.unused {
            writeln!(out, "  not used: {unused}")?;
        }
    }
    let advice = advice(standing);
    if !advice.is_empty() {
        writeln!(out, "\nwhat you can do:")?;
        for line in advice {
            writeln!(out, "  {line}")?;
        }
    }
    if matches!(standing.next, Some(Ok(_))) {
        writeln!(out)?;
        for refused in &standing.refused {
            writeln!(out, "from now on: {}", clean(refused))?;
        }
        if let Some(assumed) = standing.assumed() {
            writeln!(out, "assumed: {assumed}")?;
        }
        if standing.waits.iter().any(|wait| matches!(wait.what, WaitFor::Backoff { indexes: None, .. })) {
            writeln!(
                out,
                "The back-off is computed from when the pods ended. The Job controller has it in its memory: a restart of that ends it."
            )?;
        }
        writeln!(
            out,
            "What comes next is what the controllers of Kubernetes 1.36{} do; times are UTC, and nodes have room.",
            standing.subject.operator().map_or_else(String::new, |operator| format!(" and {operator}"))
        )?;
    }
    Ok(())
}

fn timeline(standing: &Standing, told: &Told, out: &mut dyn Write) -> io::Result<()> {
    let (entries, left_out) = course(standing, told);
    let shown: Vec<(String, String, &String)> = entries
        .iter()
        .map(|(at, what)| (standing.moment.clock(*at), long((*at).max(Time::START)), what))
        .collect();
    let width =
        |of: &dyn Fn(&(String, String, &String)) -> usize| shown.iter().map(of).max().unwrap_or_default();
    let (clock, distance) = (width(&|row| row.0.len()), width(&|row| row.1.len()));
    let half = shown.len() / 2;
    for (nth, (at, after, what)) in shown.iter().enumerate() {
        if left_out > 0 && nth == half {
            writeln!(out, "  {:>clock$}  ... {left_out} more", "")?;
        }
        writeln!(out, "  {at:>clock$}  in {after:<distance$}  {what}")?;
    }
    Ok(())
}
