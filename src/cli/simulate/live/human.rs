//! A Job of a cluster, for people.

use std::io::{self, Write};

use super::advice::advice;
use super::course::{course, end, premise};
use super::standing::{Standing, Told};
use super::times::{long, since};
use super::words::{quoted, sentence};
use crate::cli::simulate::timeline::shortened;
use crate::controllers::indexes::Indexes;
use crate::controllers::live::WaitFor;
use crate::controllers::time::Time;

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
        if standing.has_work() {
            writeln!(out, "assumed: {}", standing.assumed)?;
        }
        if standing.waits.iter().any(|wait| matches!(wait.what, WaitFor::Backoff { indexes: None, .. })) {
            writeln!(
                out,
                "The back-off is computed from when the pods ended. The Job controller has it in its memory: a restart of that ends it."
            )?;
        }
        writeln!(
            out,
            "What comes next is what the controllers of Kubernetes 1.36 do; times are UTC, and nodes have room."
        )?;
    }
    Ok(())
}

/// Returns where a Job stands, line by line.
pub(super) fn status(standing: &Standing) -> Vec<(&'static str, String)> {
    let Standing { job, moment, .. } = standing;
    let status = &job.status;
    let mut lines = vec![("age", since(job.created))];
    if let Some(start) = status.start.filter(|start| since(*start) != since(job.created)) {
        lines.push(("started", format!("{} ago", since(start))));
    }
    let ready = status.ready.map_or_else(String::new, |ready| format!(", {ready} ready"));
    let terminating = match status.terminating {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} terminating"),
    };
    let of = match job.completions() {
        Some(all) => format!("{} of {all} succeeded", status.succeeded),
        None => format!("{} succeeded", status.succeeded),
    };
    lines.push(("pods", format!("{} active{ready}{terminating}; {of}", status.active)));
    lines.push(("failures", failures(standing)));
    if job.spec.indexed {
        let failed = status.failed_indexes.clone().unwrap_or_default();
        let list = |indexes: &Indexes| {
            if indexes.is_empty() { "none".to_owned() } else { shortened(indexes) }
        };
        let mut text = format!("{} done", list(&status.completed));
        if job.is_per_index() {
            text.push_str(&format!(", {} failed", list(&failed)));
        }
        lines.push(("indexes", text));
    }
    for condition in &job.conditions {
        let reason = if condition.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", quoted(&condition.reason))
        };
        let text = if condition.message.is_empty() {
            String::new()
        } else {
            format!(": {}", quoted(&condition.message))
        };
        lines.push((
            "condition",
            format!("{}{reason}, {} ago{text}", quoted(&condition.sort), since(condition.at)),
        ));
    }
    if let Some(at) = job.deadline().filter(|_| job.finished().is_none()) {
        lines.push(("ends by", moment.with_distance(at)));
    }
    lines
}

fn failures(standing: &Standing) -> String {
    let (limit, failed) = (standing.job.spec.backoff_limit, standing.job.status.failed);
    if standing.job.is_per_index() && limit == i32::MAX.unsigned_abs() {
        return format!("{failed}, with a limit for each index");
    }
    match limit.checked_sub(failed) {
        Some(left) => format!("{failed} of `backoffLimit` {limit}, {left} left"),
        None => format!("{failed}, more than `backoffLimit` {limit}"),
    }
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
