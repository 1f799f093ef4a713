//! The doctor: checks the webhook of a cluster, and explains how to fix it.
//!
//! ```text
//! API server ──> observe ──> Observed ──> CHECKS (pure) ──> Examination ──> human, json
//!                              └─ every look-up is known, absent, or unread and why
//! ```
//!
//! A check is a row of [`CHECKS`]: an id, what is expected, why it matters, a remedy, and a function from the
//! observations to notes. What could not be read never counts as ok: the check reports that it was not made,
//! and which permission it needs. Nothing in the cluster is changed; the two canaries are dry runs. To add a
//! check: write its function below `checks/` and its row in [`CHECKS`].

mod checks;
mod examination;
pub mod observations;
pub mod observe;
mod report;

pub use self::checks::CHECKS;
pub use self::examination::{Check, Examination, Note, Outcome, Status};
pub use self::report::{write_human, write_json};

use self::observations::Observed;

/// Runs every check.
#[must_use]
pub fn examine(observed: &Observed) -> Examination {
    let mut outcomes: Vec<Outcome> = CHECKS.iter().map(|check| check.outcome(observed)).collect();
    // Stable: checks of one status stay in the order of the table.
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.status));
    Examination { outcomes }
}

#[cfg(test)]
mod tests;
