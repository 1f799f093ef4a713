//! Options for writing a report.

use jobgate_core::judge::finding::Level;
use jobgate_core::judge::rules::RuleSet;

/// Options for writing a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to colour; only the formats for terminals do: human and concise.
    pub color: bool,
    /// The columns that source lines of the human format may fill.
    pub width: usize,
    /// The columns of the terminal, at which the text of the human format is wrapped; `None` if it is not written to a
    /// terminal.
    pub columns: Option<usize>,
    /// Whether every finding is shown in full, however many there are; for the formats that people read.
    pub full: bool,
    /// Whether the formats human, concise and github leave out the summary.
    pub quiet: bool,
    /// Whether only the number of findings of each rule is written. Only formats that
    /// [have statistics](crate::Format::has_statistics) do.
    pub statistics: bool,
    /// Whether what costs most comes first, where findings are grouped by rule.
    pub by_cost: bool,
    /// The lowest level that fails the run.
    pub fail_on: Level,
    /// Whether an unjudged item fails the run, too.
    pub fail_on_unjudged: bool,
    /// The rules of the run's policy, for their descriptions in the formats.
    pub rules: RuleSet,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            width: 140,
            columns: None,
            full: false,
            quiet: false,
            statistics: false,
            by_cost: false,
            fail_on: Level::Deny,
            fail_on_unjudged: false,
            rules: RuleSet::built_in(),
        }
    }
}
