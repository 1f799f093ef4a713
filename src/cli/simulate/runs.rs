//! The runs of a CronJob, in words.

use crate::controllers::incident::Duration;
use crate::controllers::runs::Runs;
use crate::controllers::world::TooLong;
use crate::text::number::plural;

/// Returns how many runs start, of how many.
pub(super) fn fraction(runs: &Result<Runs, TooLong>) -> String {
    runs.as_ref().map_or_else(|_| "?".to_owned(), |runs| format!("{}/{}", runs.started, runs.due))
}

/// Returns what becomes of the runs, and why.
pub(super) fn sentence(runs: &Result<Runs, TooLong>) -> String {
    let runs = match runs {
        Ok(runs) => runs,
        Err(error) => return format!("runs: not simulated: {error}"),
    };
    let Runs { due, started, within, concurrency, .. } = runs;
    let mut text = match due - started {
        0 => format!("runs: all {due} that are due within {} start", Duration(*within)),
        _ => format!("runs: {started} of the {due} that are due within {} start", Duration(*within)),
    };
    if runs.at_once > 1 {
        text += &format!(", {} at once (`concurrencyPolicy: {concurrency}`)", runs.at_once);
    }
    if runs.replaced > 0 {
        let ended = plural(runs.replaced as usize, "run");
        text += &format!("; {ended} before it is over, for the next (`concurrencyPolicy: {concurrency}`)");
    }
    if let Some(late) = runs.late {
        text += &format!("; one is {} late", Duration(late));
    }
    match (due - started, runs.is_missed, runs.starting_deadline) {
        (0, ..) => {}
        (_, false, _) => {
            text +=
                &format!(": the others fall into one that is not over (`concurrencyPolicy: {concurrency}`)");
        }
        (_, true, Some(deadline)) => {
            text += &format!(
                ": the others are more than `startingDeadlineSeconds` late ({})",
                Duration(deadline)
            );
        }
        (_, true, None) => text += ": of several that are missed, only the last is made up for",
    }
    text
}
