//! The simulation for people: a table of stories, or one as a timeline.

use std::io::{self, Write};

use super::runs;
use super::stories::{Row, Simulated};
use super::timeline::timeline;
use crate::controllers::incident::Duration;
use crate::controllers::story::{Ending, Outcome};
use crate::controllers::time::Time;
use crate::report::clean;
use crate::text::number::plural;

/// The unit of held time.
pub(super) fn unit(job: &Simulated) -> &'static str {
    if job.accelerators > 0 { "accelerator hours" } else { "pod hours" }
}

/// Returns held time in hours of accelerators, or of pods that have none.
pub(super) fn hours(job: &Simulated, time: Time) -> f64 {
    time.seconds() / 3_600.0 * f64::from(u32::try_from(job.accelerators.max(1)).unwrap_or(u32::MAX))
}

/// Returns hours in words: `0.4`, `12`.
pub(super) fn shown(hours: f64) -> String {
    match hours {
        0.0 => "0".to_owned(),
        hours if hours < 0.05 => "<0.1".to_owned(),
        hours if hours < 9.95 => format!("{hours:.1}"),
        hours => format!("{hours:.0}"),
    }
}

/// Returns how a story ends, with both ends where that depends.
pub(super) fn ends(row: &Row) -> String {
    match &row.or {
        Some((or, _)) => format!("{} or {}", row.outcome.ending.word(), or.ending.word()),
        None => row.outcome.ending.word().to_owned(),
    }
}

/// Returns the failures, and how many there may be: `1/6`.
pub(super) fn failures(job: &Simulated, outcome: &Outcome) -> String {
    let failed = outcome.status.failed;
    match job.retries {
        Some(limit) => format!("{failed}/{limit}"),
        None => failed.to_string(),
    }
}

/// Returns when a story ends.
pub(super) fn when(outcome: &Outcome) -> String {
    match outcome.ending {
        Ending::RunsOn => "never".to_owned(),
        _ => Duration(outcome.at).to_string(),
    }
}

pub(super) fn write(jobs: &[Simulated], out: &mut dyn Write) -> io::Result<()> {
    if let Some(story) = one_story(jobs) {
        return by_object(jobs, story, out);
    }
    for (nth, job) in jobs.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", job.title)?;
        match &job.inside {
            Some(kind) => writeln!(
                out,
                ", the Job at {}; what the operator of {kind} adds is not simulated",
                job.pointer
            )?,
            None => writeln!(out)?,
        }
        writeln!(out)?;
        match job.rows.as_slice() {
            [row] if job.is_asked => one(job, row, out)?,
            rows => table(job, rows, out)?,
        }
        writeln!(out)?;
        for refused in &job.refused {
            writeln!(out, "from the beginning: {}", clean(refused))?;
        }
        writeln!(out, "assumed: {}", job.assumed_in_words())?;
        writeln!(out, "{}", modelled(job))?;
    }
    Ok(())
}

/// Returns whose answer it is.
pub(super) fn modelled(job: &Simulated) -> String {
    match (job.operators.as_slice(), job.by_source) {
        ([], _) => {
            "It is what the controllers of Kubernetes 1.36 do, not its scheduler: nodes have room.".to_owned()
        }
        (operators, by_source) => recorded(operators, by_source),
    }
}

fn recorded(operators: &[&str], by_source: Option<&str>) -> String {
    let operators: String = match operators {
        [] => String::new(),
        operators => format!("{} and ", operators.join(", ")),
    };
    let by_source = by_source.map_or_else(String::new, |name| format!(", and {name} by its source"));
    format!(
        "It is what {operators}the controllers of Kubernetes 1.36 do, as they were recorded{by_source}; no scheduler: nodes \
         have room."
    )
}

/// Returns the story, where there is one and the same of several objects.
fn one_story(jobs: &[Simulated]) -> Option<&str> {
    let mut stories = jobs.iter().map(|job| match job.rows.as_slice() {
        [row] if job.is_asked => Some(row.story.as_str()),
        _ => None,
    });
    let first = stories.next()??;
    (jobs.len() > 1 && stories.all(|story| story == Some(first))).then_some(first)
}

/// Writes a line for each object.
fn by_object(jobs: &[Simulated], story: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{story}")?;
    writeln!(out)?;
    let head = ["object", "ends", "after", "pods", "failures", "used", "idle", "lost", "unit"];
    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for (job, row) in jobs.iter().filter_map(|job| Some((job, job.rows.first()?))) {
        let outcome = &row.outcome;
        let time = |time: Time| shown(hours(job, time));
        lines.push(vec![
            format!("{} {}", job.kind, job.object.full_name()),
            ends(row),
            when(outcome),
            outcome.made.to_string(),
            failures(job, outcome),
            time(outcome.used),
            time(outcome.idle()),
            time(outcome.lost),
            unit(job).to_owned(),
        ]);
    }
    columns(&lines, out)?;
    writeln!(out)?;
    for (job, row) in jobs.iter().filter_map(|job| Some((job, job.rows.first()?))) {
        writeln!(out, "{} {}: {}", job.kind, job.object.full_name(), sentence(job, row))?;
    }
    writeln!(out)?;
    for job in jobs {
        for refused in &job.refused {
            writeln!(
                out,
                "from the beginning of {} {}: {}",
                job.kind,
                job.object.full_name(),
                clean(refused)
            )?;
        }
    }
    for (nth, job) in jobs.iter().enumerate() {
        let assumed = job.assumed_in_words();
        let is_new = |before: &[Simulated]| before.iter().all(|one| one.assumed_in_words() != assumed);
        if jobs.get(..nth).is_none_or(is_new) {
            writeln!(out, "assumed of {} {}: {assumed}", job.kind, job.object.full_name())?;
        }
    }
    let mut operators: Vec<&str> = jobs.iter().flat_map(|job| job.operators.iter().copied()).collect();
    operators.sort_unstable();
    operators.dedup();
    writeln!(out, "{}", recorded(&operators, jobs.iter().find_map(|job| job.by_source)))
}

fn table(job: &Simulated, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut head = vec!["incident", "ends", "after", "pods", "failures", "used", "idle", "lost"];
    let has_runs = rows.iter().any(|row| row.runs.is_some());
    head.extend(has_runs.then_some("runs"));
    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for row in rows {
        let outcome = &row.outcome;
        let time = |time: Time| shown(hours(job, time));
        let mut line = vec![
            row.story.clone(),
            ends(row),
            when(outcome),
            outcome.made.to_string(),
            failures(job, outcome),
            time(outcome.used),
            time(outcome.idle()),
            time(outcome.lost),
        ];
        let runs = row.runs.as_ref().map_or_else(String::new, runs::fraction);
        line.extend(has_runs.then_some(runs));
        lines.push(line);
    }
    columns(&lines, out)?;
    writeln!(out)?;
    writeln!(out, "used, idle and lost are {}", unit(job))?;
    if has_runs {
        writeln!(out, "runs are those of the schedule that start, of those that are due")?;
    }
    if let Some(worst) = rows.first().filter(|row| row.outcome.ending != Ending::Completes) {
        writeln!(out, "worst: {}: {}", worst.story, sentence(job, worst))?;
        if let Some(of) = &worst.runs {
            writeln!(out, "{}", runs::sentence(of))?;
        }
        writeln!(out, "`jobgate simulate --what {}` shows it in order", worst.story)?;
    }
    Ok(())
}

/// Writes lines of cells below one another: words to the left, numbers to the right.
fn columns(lines: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default())
        .collect();
    for line in lines {
        let mut text = String::from("  ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            if column < 2 {
                text.push_str(&format!("{cell}{pad}  "));
            } else {
                text.push_str(&format!("{pad}{cell}  "));
            }
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Returns why a story ends as it does, and where that is written.
pub(super) fn sentence(job: &Simulated, row: &Row) -> String {
    let after = when(&row.outcome);
    let ends = match row.outcome.ending {
        Ending::Completes => format!("completes after {after}"),
        Ending::CompletesHalfDone => format!("completes after {after}, half done"),
        Ending::Fails => format!("fails after {after}"),
        Ending::Wedged => format!("hangs without end from {after} on"),
        Ending::Waits => format!("waits without end from {after} on"),
        Ending::RunsOn => "runs without end".to_owned(),
    };
    let or = row.or.as_ref().map_or_else(String::new, |(or, because)| {
        format!("; {}, the end is `{}`", because.words(), or.ending.word())
    });
    let Some(decision) = &row.decision else { return format!("it {ends}{or}") };
    let place =
        row.place.map_or_else(String::new, |(line, column)| format!(" at {}:{line}:{column}", job.path));
    format!("it {ends}: {} (`{}`{place}){or}", decision.why, decision.name())
}

/// Returns a time as a clock shows it: `2:10:01`.
fn clock(at: Time) -> String {
    let seconds = at.millis() / 1_000;
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn one(job: &Simulated, row: &Row, out: &mut dyn Write) -> io::Result<()> {
    let (entries, left_out) = timeline(&row.outcome, &row.happens, job.indexed, None);
    let width = entries.iter().map(|(at, _)| clock(*at).len()).max().unwrap_or_default();
    let half = entries.len() / 2;
    for (nth, (at, what)) in entries.iter().enumerate() {
        if left_out > 0 && nth == half {
            writeln!(out, "  {:>width$}  … {left_out} more", "")?;
        }
        writeln!(out, "  {:>width$}  {what}", clock(*at))?;
    }
    writeln!(out)?;
    writeln!(out, "{}: {}", row.story, sentence(job, row))?;
    let outcome = &row.outcome;
    let time = |time: Time| shown(hours(job, time));
    writeln!(
        out,
        "{}, {}; {} {}: {} idle, {} lost",
        plural(outcome.made as usize, "pod"),
        plural(outcome.status.failed as usize, "failure"),
        time(outcome.used),
        unit(job),
        time(outcome.idle()),
        time(outcome.lost)
    )?;
    if let Some(of) = &row.runs {
        writeln!(out, "{}", runs::sentence(of))?;
    }
    if !row.changes.is_empty() {
        writeln!(out)?;
        writeln!(out, "what would change it:")?;
    }
    for change in &row.changes {
        let after = &change.outcome;
        writeln!(
            out,
            "  the fix of {} ({}): {} after {}, {}, {} lost",
            change.rule,
            change.field,
            after.ending.word(),
            when(after),
            plural(after.made as usize, "pod"),
            time(after.lost)
        )?;
        let others: Vec<String> =
            change.others.iter().map(|(story, ending)| format!("{story} {}", ending.word())).collect();
        if !others.is_empty() {
            writeln!(out, "    then also: {}", others.join(", "))?;
        }
    }
    Ok(())
}
