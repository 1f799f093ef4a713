//! The effect of enforcing a policy on the objects of a cluster: the part of a report that only audits have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::ops::AddAssign;

use jiff::Timestamp;
use serde::Serialize;

use super::text::{clean, plural, thousands};
use super::trouble::{Refused, Stuck};
use crate::results::Report;
use jobgate_core::judge::finding::Level;
use jobgate_core::judge::rule::Fills;
use jobgate_core::judge::rules::RuleSet;
use jobgate_core::judge::verdict::Verdict;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;

/// Maximum rows of a table without `--full`.
pub(super) const ROWS: usize = 15;

/// The effect of enforcing a policy.
#[derive(Clone, Debug, Default)]
pub struct Impact {
    /// The address of the API server.
    pub server: String,
    /// The policy's name.
    pub policy: String,
    /// The number of objects by answer, for each namespace.
    pub namespaces: BTreeMap<String, Tally>,
    /// The number of objects that were not judged.
    pub left_out: LeftOut,
    /// The objects with values that their authors did not write, by `kind/namespace/name`.
    pub filled: BTreeMap<std::sync::Arc<str>, Vec<Filled>>,
    /// What could not be read, one line each; not part of the report.
    pub problems: Vec<String>,
    /// Limitations of the report compared with the webhook, one line each.
    pub notices: Vec<String>,
    /// Finished objects that do not release their accelerators, by `kind/namespace/name`.
    pub holding: BTreeSet<std::sync::Arc<str>>,
    /// Jobs with pods that have been terminating for more than ten minutes, by namespace and name.
    pub terminating: Vec<Stuck>,
    /// Objects whose pods the API server refuses, by namespace, kind and name.
    pub refused: Vec<Refused>,
    /// Kinds that the API server does not serve.
    pub unserved: Vec<&'static str>,
}

pub(super) fn as_text<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// A value of a live object that its author did not write, and that Jobgate fills in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// The field.
    #[serde(serialize_with = "as_path")]
    pub path: Pointer,
    /// The value, or the items that were added to a list.
    pub value: Value,
    /// What the next apply does without Jobgate.
    pub reapply: Reapply,
}

/// What an apply of an unchanged manifest does to a filled value without Jobgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reapply {
    /// It leaves the value alone.
    Kept,
    /// It takes the value out.
    Lost,
    /// It is rejected: the field is immutable.
    Rejected,
}

fn as_path<S: serde::Serializer>(pointer: &Pointer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&pointer.to_path())
}

/// The number of objects by answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Objects that were judged.
    pub objects: usize,
    /// Those that would be rejected. They are not counted among the others.
    pub denied: usize,
    /// Those that would be admitted with values filled in.
    pub patched: usize,
    /// Those that would be admitted with a warning, patched or not.
    pub warned: usize,
    /// Those that would be admitted as they are, without a warning.
    pub unchanged: usize,
}

/// The number of objects that were not judged, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// They have finished and will not be created again.
    pub finished: usize,
    /// A trusted controller made them from a parent that is judged.
    pub children: usize,
    /// They are being deleted.
    pub deleting: usize,
    /// They are in namespaces that the webhook is not registered for.
    pub system: usize,
}

impl Tally {
    /// Counts one object.
    #[must_use]
    pub fn from_verdict(verdict: &Verdict) -> Self {
        let denied = verdict.level() == Some(Level::Deny);
        let patched = !denied && !verdict.fill_ops().is_empty();
        let warned = !denied && verdict.findings.iter().any(|finding| finding.level == Level::Warn);
        let count = usize::from;
        Self {
            objects: 1,
            denied: count(denied),
            patched: count(patched),
            warned: count(warned),
            unchanged: count(!denied && !patched && !warned),
        }
    }

    /// Returns a sort key: the most affected first.
    fn weight(&self) -> impl Ord + use<> {
        std::cmp::Reverse((self.denied, self.patched, self.warned, self.objects))
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.denied += other.denied;
        self.patched += other.patched;
        self.warned += other.warned;
        self.unchanged += other.unchanged;
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.finished += other.finished;
        self.children += other.children;
        self.deleting += other.deleting;
        self.system += other.system;
    }
}

impl Impact {
    /// Returns the sum over all namespaces.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.namespaces.values().for_each(|tally| total += *tally);
        total
    }

    /// Returns the namespaces, most affected first.
    pub(super) fn by_namespace(&self) -> Vec<(&str, Tally)> {
        let mut rows: Vec<_> = self.namespaces.iter().map(|(name, tally)| (&**name, *tally)).collect();
        rows.sort_by_key(|(_, tally)| tally.weight());
        rows
    }

    /// Returns the summary line of an audit.
    pub(super) fn line(&self) -> String {
        let total = self.total();
        if total.objects == 0 {
            return "no batch jobs to judge".to_owned();
        }
        let objects =
            format!("{} in {}", plural(total.objects, "object"), plural(self.namespaces.len(), "namespace"));
        let counts = [
            (total.denied, "denied"),
            (total.patched, "patched"),
            (total.warned, "warned of"),
            (total.unchanged, "admitted as they are"),
        ];
        let mut parts: Vec<_> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} would be {what}", thousands(count)))
            .collect();
        for part in parts.iter_mut().skip(1) {
            *part = part.replace(" would be", "");
        }
        format!("{objects}: {}", parts.join(", "))
    }

    /// Returns a line about omitted objects, if any.
    pub(super) fn left_out(&self) -> Option<String> {
        let LeftOut { finished, children, deleting, system } = self.left_out;
        let mut parts = Vec::new();
        if finished > 0 {
            parts.push(format!("{} finished (`--include-finished`)", thousands(finished)));
        }
        if children > 0 {
            parts.push(format!("{} owned by an object that is judged instead", thousands(children)));
        }
        if deleting > 0 {
            parts.push(format!("{} being deleted", thousands(deleting)));
        }
        if system > 0 {
            parts.push(format!("{} in namespaces that the webhook excludes", thousands(system)));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Returns a line about finished objects that may still hold accelerators, if there are any.
    pub(super) fn still_holding(&self, rules: &RuleSet) -> Option<String> {
        const SHOWN: usize = 5;
        let names: Vec<&str> = self.holding.iter().take(SHOWN).map(|name| &**name).collect();
        let more = match self.holding.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {} more", thousands(more)),
        };
        let what = plural(self.holding.len(), "finished object");
        (!names.is_empty()).then(|| {
            let rule = rules.iter().find(|rule| rule.fills == Fills::Release);
            let rule = rule.map(|rule| format!(" (`{}`)", rule.id)).unwrap_or_default();
            format!("{what} may still hold accelerators{rule}: {}{more}", names.join(", "))
        })
    }
}

/// Returns how many objects each rule alone would have denied, patched and warned of, worst first.
fn by_rule(report: &Report) -> Vec<(&str, Tally)> {
    type Objects<'r> = [BTreeSet<&'r str>; 3];
    let mut rules: BTreeMap<&str, Objects<'_>> = BTreeMap::new();
    for located in &report.findings {
        let finding = &located.finding;
        let column = match finding.level {
            Level::Deny => 0,
            Level::Note if finding.fills => 1,
            Level::Warn => 2,
            Level::Note => continue,
        };
        rules.entry(&finding.rule).or_default()[column].insert(&located.location.file);
    }
    let tally = |[denied, patched, warned]: Objects<'_>| Tally {
        objects: 0,
        denied: denied.len(),
        patched: patched.len(),
        warned: warned.len(),
        unchanged: 0,
    };
    let mut rows: Vec<_> = rules.into_iter().map(|(rule, objects)| (rule, tally(objects))).collect();
    rows.sort_by_key(|(_, tally)| tally.weight());
    rows
}

/// Writes how often fields were filled, and the objects that an apply of their manifests would change.
pub(super) fn filled(impact: &Impact, full: bool, out: &mut dyn io::Write) -> io::Result<()> {
    if impact.filled.is_empty() {
        return Ok(());
    }
    let all = impact.filled.len();
    writeln!(
        out,
        "{} with values that Jobgate fills in and the applied manifest does not have (`lint --fix` writes them)",
        plural(all, "object")
    )?;
    let mut rows: Vec<(Reapply, &str, String)> = Vec::new();
    for (object, fields) in &impact.filled {
        let worst = fields.iter().map(|field| field.reapply).max().unwrap_or(Reapply::Kept);
        if full || worst != Reapply::Kept {
            let paths: Vec<String> = fields
                .iter()
                .filter(|field| full || field.reapply == worst)
                .map(|field| field.path.to_path())
                .collect();
            rows.push((worst, object, paths.join(", ")));
        }
    }
    rows.sort_by(|a, b| (std::cmp::Reverse(a.0), a.1).cmp(&(std::cmp::Reverse(b.0), b.1)));
    let shown = if full { rows.len() } else { rows.len().min(ROWS) };
    for (reapply, object, paths) in &rows[..shown] {
        let apply = match reapply {
            Reapply::Kept => "an apply keeps it",
            Reapply::Lost => "the next apply without Jobgate removes it",
            Reapply::Rejected => "an apply without Jobgate is rejected",
        };
        writeln!(out, "  {}: {}: {apply}", clean(object), clean(paths))?;
    }
    if shown < rows.len() {
        writeln!(out, "  … and {} more (`--full`)", thousands(rows.len() - shown))?;
    }
    writeln!(out)
}

/// Writes the two tables of the report for people.
pub(super) fn tables(
    report: &Report,
    impact: &Impact,
    full: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let numbers = |tally: &Tally| [tally.denied, tally.patched, tally.warned];
    let rules = by_rule(report);
    if !rules.is_empty() {
        let rows = rules.iter().map(|(rule, tally)| ((*rule).to_owned(), numbers(tally).to_vec())).collect();
        table(["rule", "denied", "patched", "warned"], rows, full, "rules", out)?;
    }
    if impact.namespaces.len() > 1 {
        let row = |(name, tally): (&str, Tally)| {
            let [denied, patched, warned] = numbers(&tally);
            (clean(name).into_owned(), vec![tally.objects, denied, patched, warned])
        };
        let rows = impact.by_namespace().into_iter().map(row).collect();
        table(["namespace", "objects", "denied", "patched", "warned"], rows, full, "namespaces", out)?;
    }
    Ok(())
}

fn table<const N: usize>(
    heads: [&str; N],
    mut rows: Vec<(String, Vec<usize>)>,
    full: bool,
    what: &str,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let all = rows.len();
    // A line about one more row takes as much space as the row.
    if !full && all > ROWS + 1 {
        rows.truncate(ROWS);
    }
    let width =
        rows.iter().map(|(name, _)| name.chars().count()).chain([heads[0].len()]).max().unwrap_or_default();
    write!(out, "{:width$}", heads[0])?;
    for head in &heads[1..] {
        write!(out, "  {head:>8}")?;
    }
    writeln!(out)?;
    for (name, numbers) in &rows {
        let mut line = format!("{name:width$}");
        for number in numbers {
            let _ = write!(line, "  {:>8}", thousands(*number));
        }
        writeln!(out, "{line}")?;
    }
    if rows.len() < all {
        writeln!(out, "… and {} more {what} (`--full`)", thousands(all - rows.len()))?;
    }
    writeln!(out)
}

/// The impact in the JSON document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImpactDocument<'r> {
    server: &'r str,
    policy: &'r str,
    total: Tally,
    rules: Vec<ImpactRule<'r>>,
    namespaces: Vec<Namespace<'r>>,
    filled: Vec<FilledIn<'r>>,
    left_out: LeftOut,
    problems: &'r [String],
    notices: &'r [String],
    holding: Vec<&'r str>,
    terminating: &'r [Stuck],
    refused: &'r [Refused],
    unserved: &'r [&'static str],
}

#[derive(Serialize)]
struct ImpactRule<'r> {
    rule: &'r str,
    denied: usize,
    patched: usize,
    warned: usize,
}

#[derive(Serialize)]
struct Namespace<'r> {
    namespace: &'r str,
    #[serde(flatten)]
    tally: Tally,
}

/// The fills of one object.
#[derive(Serialize)]
struct FilledIn<'r> {
    object: &'r str,
    fields: &'r [Filled],
}

impl<'r> ImpactDocument<'r> {
    pub(super) fn new(report: &'r Report, impact: &'r Impact) -> Self {
        let rule = |(rule, tally): (&'r str, Tally)| ImpactRule {
            rule,
            denied: tally.denied,
            patched: tally.patched,
            warned: tally.warned,
        };
        let filled = impact.filled.iter().map(|(object, fields)| FilledIn { object, fields });
        Self {
            server: &impact.server,
            policy: &impact.policy,
            total: impact.total(),
            rules: by_rule(report).into_iter().map(rule).collect(),
            namespaces: impact
                .by_namespace()
                .into_iter()
                .map(|(namespace, tally)| Namespace { namespace, tally })
                .collect(),
            filled: filled.collect(),
            left_out: impact.left_out,
            problems: &impact.problems,
            notices: &impact.notices,
            holding: impact.holding.iter().map(|name| &**name).collect(),
            terminating: &impact.terminating,
            refused: &impact.refused,
            unserved: &impact.unserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn tally(denied: usize, patched: usize, warned: usize, unchanged: usize) -> Tally {
        Tally { objects: denied + patched + warned + unchanged, denied, patched, warned, unchanged }
    }

    #[test]
    fn the_line_says_what_would_be_done_and_leaves_out_what_would_not() {
        let mut impact = Impact::default();
        assert_eq!(impact.line(), "no batch jobs to judge");
        impact.namespaces.insert("a".to_owned(), tally(1, 0, 0, 2));
        assert_eq!(impact.line(), "3 objects in 1 namespace: 1 would be denied, 2 admitted as they are");
        impact.namespaces.insert("b".to_owned(), tally(0, 1200, 3, 0));
        assert_eq!(
            impact.line(),
            "1,206 objects in 2 namespaces: 1 would be denied, 1,200 patched, 3 warned of, 2 admitted as they are"
        );
    }

    #[test]
    fn the_worst_namespace_comes_first_and_equal_ones_by_name() {
        let rows = [
            ("a", tally(0, 9, 9, 0)),
            ("b", tally(1, 0, 0, 0)),
            ("d", tally(0, 0, 1, 0)),
            ("c", tally(0, 0, 1, 0)),
        ];
        let impact = Impact {
            namespaces: rows.map(|(name, tally)| (name.to_owned(), tally)).into(),
            ..Impact::default()
        };
        assert_eq!(
            impact.by_namespace().iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["b", "a", "c", "d"]
        );
    }

    #[test]
    fn a_rule_counts_objects_and_not_findings() {
        let report = sample::report();
        let rows = by_rule(&report);
        let row = |rule: &str| {
            rows.iter()
                .find(|(id, _)| *id == rule)
                .map(|(_, tally)| (tally.denied, tally.patched, tally.warned))
        };
        assert_eq!(
            (row("deadline"), row("ttl-after-finished"), row("duplicate-key")),
            (Some((1, 0, 0)), Some((0, 1, 0)), Some((0, 0, 1)))
        );
    }

    #[test]
    fn no_format_shows_the_place_in_a_file_that_does_not_exist() {
        let mut report = sample::report();
        report.impact = Some(Impact::default());
        for format in [
            super::super::Format::Human,
            super::super::Format::Concise,
            super::super::Format::Markdown,
            super::super::Format::Html,
            super::super::Format::Json,
            super::super::Format::Sarif,
            super::super::Format::Github,
        ] {
            report.findings.retain(|located| located.object.is_some());
            let mut out = Vec::new();
            super::super::write(&report, format, &super::super::Options::default(), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(
                text.contains("team-a") && !text.contains("train.yaml") && !text.contains("startLine"),
                "{format:?}: {text}"
            );
        }
    }
}
