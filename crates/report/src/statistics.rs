//! Counts the findings of each rule, and those that can be fixed.

use std::io;

use crate::results::Report;
use crate::summary;
use jobgate_core::judge::finding::Safety;

/// The counts of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatisticsRow<'r> {
    /// Its id.
    rule: &'r str,
    /// Its findings.
    count: usize,
    /// Those that `--fix` can fix.
    fixable: usize,
    /// Those that only `--unsafe-fixes` can fix.
    unsafe_fixable: usize,
}

/// Returns a row for each rule with findings, the most frequent first.
pub(super) fn rows(report: &Report) -> Vec<StatisticsRow<'_>> {
    let of_safety = |findings: &[&super::Located], safety: Safety| {
        findings
            .iter()
            .filter(|located| located.withheld.is_none())
            .filter(|located| located.finding.fix.as_ref().is_some_and(|fix| fix.safety == safety))
            .count()
    };
    summary::by_rule(report)
        .into_iter()
        .map(|(rule, findings)| StatisticsRow {
            rule,
            count: findings.len(),
            fixable: of_safety(&findings, Safety::Safe),
            unsafe_fixable: of_safety(&findings, Safety::Unsafe),
        })
        .collect()
}

/// Writes the table; nothing if there are no findings.
pub(super) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let rows = rows(report);
    if rows.is_empty() {
        return Ok(());
    }
    let width = rows.iter().map(|row| row.rule.len()).max().unwrap_or_default().max("RULE".len());
    writeln!(out, "{:<width$}  {:>8}  {:>8}  {:>8}", "RULE", "COUNT", "FIXABLE", "UNSAFE")?;
    for StatisticsRow { rule, count, fixable, unsafe_fixable } in rows {
        writeln!(out, "{rule:<width$}  {count:>8}  {fixable:>8}  {unsafe_fixable:>8}")?;
    }
    writeln!(out)
}
