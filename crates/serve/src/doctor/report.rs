//! Writes the results for people and for programs.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::doctor::examination::{Examination, Status};
use jobgate_core::text::value::json;
use jobgate_report::{clean, plural};

/// The version of the JSON document.
const VERSION: u32 = 1;

fn style(status: Status) -> Style {
    match status {
        Status::Problem => AnsiColor::Red.on_default().bold(),
        Status::Warning => AnsiColor::Yellow.on_default().bold(),
        Status::NotChecked => AnsiColor::Cyan.on_default(),
        Status::Ok => AnsiColor::Green.on_default(),
    }
}

/// Writes the results for people, with ANSI styles, which `out` removes if it has no colours. `server` is the
/// API server's URL.
///
/// # Errors
/// `out` cannot be written.
pub fn write_human(examination: &Examination, server: &str, out: &mut dyn Write) -> io::Result<()> {
    let first = Status::ALL.iter().map(|status| status.as_str().len()).max().unwrap_or_default();
    let second = examination.outcomes.iter().map(|outcome| outcome.id.len()).max().unwrap_or_default();
    let mut before: Option<&str> = None;
    for outcome in &examination.outcomes {
        let style = style(outcome.status);
        writeln!(
            out,
            "{style}{:first$}{style:#}  {:second$}  {}",
            outcome.status.as_str(),
            outcome.id,
            clean(&outcome.finding)
        )?;
        // With the expectation, for readers who do not know the check.
        if outcome.status > Status::NotChecked {
            writeln!(out, "{:first$}  {:second$}  expected: {}", "", "", outcome.title)?;
        }
        // Many checks may lack the same permission, which is reported once.
        let repeated = outcome.status == Status::NotChecked && outcome.remedy.as_deref() == before;
        before = outcome.remedy.as_deref();
        if let Some(remedy) = outcome.remedy.as_deref().filter(|_| !repeated) {
            writeln!(out, "{:first$}  {:second$}  help: {}", "", "", clean(remedy))?;
        }
    }
    let counted = |status: Status, noun: &str| {
        Some(examination.count(status)).filter(|count| *count > 0).map(|count| plural(count, noun))
    };
    let unchecked = Some(examination.count(Status::NotChecked))
        .filter(|count| *count > 0)
        .map(|count| format!("{count} not checked"));
    let parts = [
        counted(Status::Problem, "problem"),
        counted(Status::Warning, "warning"),
        unchecked,
        Some(format!("{} ok", examination.count(Status::Ok))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    writeln!(out, "\n{}: {}", clean(server), parts.join(", "))
}

/// Writes the results as one JSON document.
///
/// # Errors
/// `out` cannot be written.
pub fn write_json(examination: &Examination, server: &str, out: &mut dyn Write) -> io::Result<()> {
    let count = |status: Status| examination.count(status);
    let checks = examination.outcomes.iter().map(|outcome| {
        json!({"id": outcome.id, "title": outcome.title, "status": outcome.status.word(), "finding": outcome.finding, "remedy": outcome.remedy})
    });
    let document = json!({
        "version": VERSION,
        "server": server,
        "summary": {"problem": count(Status::Problem), "warning": count(Status::Warning), "notChecked": count(Status::NotChecked), "ok": count(Status::Ok)},
        "checks": checks.collect::<Vec<_>>(),
    });
    writeln!(out, "{document:#}")
}
