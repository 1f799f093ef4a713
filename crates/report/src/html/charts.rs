//! Bar charts as small pictures in tables, so that the numbers can be read and copied without them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::holdings::Holder;
use super::super::text::thousands;
use super::{namespace, text};
use crate::group;
use crate::located::Located;
use crate::options::Options;
use crate::results::Report;
use crate::{page, summary};
use jobgate_core::judge::finding::Level;
use jobgate_core::kinds::AcceleratorCount;

/// Maximum bars of a chart, before one for all others.
const BARS: usize = 12;

/// A row: what it is about (HTML), its parts by their class, and the number to show (HTML).
struct Bar {
    label: String,
    parts: Vec<(&'static str, u64)>,
    number: String,
}

/// Returns the charts.
pub(super) fn all(report: &Report, options: &Options) -> String {
    let holders = report.holdings.holders();
    let teams = holders.iter().any(|holder| !holder.team.is_empty());
    let mut html = String::new();
    html.push_str(&chart("Findings by rule", rules(report, options)));
    html.push_str(&chart("Findings by namespace", namespaces(report)));
    let directories = group::by_directory(report).into_iter();
    let directories = first(directories.map(|(name, findings)| (text(&name), findings)));
    html.push_str(&chart("Findings by directory", directories));
    for (of_team, name) in [(false, "namespace"), (true, "team")] {
        if of_team && !teams {
            continue;
        }
        let shares = shares(&holders, of_team);
        html.push_str(&chart(
            &format!("Accelerator hours at most, by {name}"),
            bars(&shares, "hours", |share| share.hours, |share| thousands(size(share.hours))),
        ));
        html.push_str(&chart(
            &format!("Accelerators without a time limit, by {name}"),
            bars(
                &shares,
                "error",
                |share| u64::try_from(share.unbounded.total()).unwrap_or_default(),
                |share| text(&share.unbounded.to_string()),
            ),
        ));
    }
    if html.is_empty() { html } else { format!("<div class=\"charts\">\n{html}</div>\n") }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn rules(report: &Report, options: &Options) -> Vec<Bar> {
    let pages: BTreeMap<_, _> =
        page::all(&options.rules).into_iter().map(|page| (page.id, page.problem)).collect();
    let bar = |(rule, findings): (&str, Vec<&Located>)| {
        let problem = pages.get(rule).map_or(rule, |problem| &**problem);
        let label = format!(
            "<a id=\"{rule}\" href=\"{}\">{}</a> <code class=\"dim\">{rule}</code>",
            page::link(rule),
            text(problem)
        );
        levels(label, &findings)
    };
    summary::by_rule(report).into_iter().map(bar).collect()
}

fn namespaces(report: &Report) -> Vec<Bar> {
    let mut found: BTreeMap<&str, Vec<&Located>> = BTreeMap::new();
    for located in &report.findings {
        found.entry(namespace(located)).or_default().push(located);
    }
    if found.len() < 2 {
        return Vec::new();
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, findings)| Reverse(findings.len()));
    first(found.into_iter().map(|(name, findings)| (named(name, "no namespace"), findings)))
}

/// Returns the first bars, and one for all others.
fn first<'r>(mut found: impl Iterator<Item = (String, Vec<&'r Located>)>) -> Vec<Bar> {
    let mut bars: Vec<_> =
        found.by_ref().take(BARS).map(|(label, findings)| levels(label, &findings)).collect();
    let rest: Vec<_> = found.map(|(_, findings)| findings).collect();
    if !rest.is_empty() {
        bars.push(levels(format!("{} more", thousands(rest.len())), &rest.concat()));
    }
    bars
}

fn named(name: &str, none: &str) -> String {
    if name.is_empty() { format!("<span class=\"dim\">{none}</span>") } else { text(name) }
}

fn levels(label: String, findings: &[&Located]) -> Bar {
    let part = |level: Level| {
        let count = findings.iter().filter(|located| located.finding.level == level).count();
        (level.word(), count as u64)
    };
    let parts = [Level::Deny, Level::Warn, Level::Note].map(part).to_vec();
    Bar { label, parts, number: thousands(findings.len()) }
}

/// Accelerators that a namespace or a team holds.
#[derive(Default)]
struct ChartShare {
    hours: u64,
    unbounded: AcceleratorCount,
}

/// Sums up holdings by namespace or by team.
fn shares(holders: &[Holder<'_>], of_team: bool) -> Vec<(String, ChartShare)> {
    let mut shares: BTreeMap<&str, ChartShare> = BTreeMap::new();
    for holder in holders {
        let share = shares.entry(if of_team { holder.team } else { holder.namespace }).or_default();
        share.hours = share.hours.saturating_add(holder.hours);
        share.unbounded += holder.unbounded;
    }
    let none = if of_team { "no team" } else { "no namespace" };
    shares.into_iter().map(|(name, share)| (named(name, none), share)).collect()
}

fn bars(
    shares: &[(String, ChartShare)],
    class: &'static str,
    value: impl Fn(&ChartShare) -> u64,
    number: impl Fn(&ChartShare) -> String,
) -> Vec<Bar> {
    let mut shares: Vec<_> = shares.iter().filter(|(_, share)| value(share) > 0).collect();
    shares.sort_by_key(|(_, share)| Reverse(value(share)));
    let (shown, rest) = shares.split_at(shares.len().min(BARS));
    let bar = |label: &str, share: &ChartShare| Bar {
        label: label.to_owned(),
        parts: vec![(class, value(share))],
        number: number(share),
    };
    let mut bars: Vec<_> = shown.iter().map(|(label, share)| bar(label, share)).collect();
    if !rest.is_empty() {
        let mut sum = ChartShare::default();
        for (_, share) in rest {
            sum.hours = sum.hours.saturating_add(share.hours);
            sum.unbounded += share.unbounded;
        }
        bars.push(bar(&format!("{} more", thousands(rest.len())), &sum));
    }
    bars
}

/// Returns a chart, or an empty string if there is nothing to show.
fn chart(title: &str, bars: Vec<Bar>) -> String {
    let total = |bar: &Bar| bar.parts.iter().map(|(_, value)| *value).fold(0, u64::saturating_add);
    let Some(most) = bars.iter().map(total).max().filter(|most| *most > 0) else { return String::new() };
    // Numbers with their units need more room than those without.
    let class = if bars.iter().any(|bar| bar.number.contains(' ')) { "chart wide" } else { "chart" };
    let mut html = format!("<section class=\"{class}\">\n<h3>{title}</h3>\n<table>\n");
    for bar in bars {
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"bar\"><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
            bar.label
        );
        let mut at = 0;
        for (class, value) in bar.parts.into_iter().filter(|(_, value)| *value > 0) {
            // A nonzero part is always visible.
            let width = ((u128::from(value) * 1000 / u128::from(most)) as u64).max(4);
            let _ = write!(html, "<rect class=\"{class}\" x=\"{at}\" width=\"{width}\" height=\"10\"/>");
            at += width;
        }
        let _ = writeln!(html, "</svg></td><td class=\"n\">{}</td></tr>", bar.number);
    }
    html + "</table>\n</section>\n"
}
