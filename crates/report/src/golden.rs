//! A small report in each format, as files to be read. `UPDATE=1` writes them.

use std::fs;
use std::path::Path;

use crate::impact::{Impact, Tally};
use crate::options::Options;
use crate::results::Report;
use crate::{Format, write};
use crate::{html, sample};

/// Returns the text in a format, without what is the same in each report.
fn written(report: &Report, format: Format) -> String {
    let mut out = Vec::new();
    write(report, format, &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    match format {
        Format::Html => [html::STYLE, html::SCRIPT]
            .iter()
            .fold(text, |text, part| text.replace(*part, "…").replace(&html::hash(part), "…")),
        _ => text,
    }
}

/// The sample as an audit has it.
fn audited() -> Report {
    let mut report = sample::all();
    report.findings.retain(|located| located.object.is_some());
    report.unjudged.iter_mut().for_each(|unjudged| unjudged.location = None);
    let mut impact =
        Impact { server: "https://k8s.example.com".into(), policy: "default".into(), ..Impact::default() };
    let tally = Tally { objects: 3, denied: 1, patched: 1, warned: 0, unchanged: 1 };
    impact.namespaces.insert("team-a".into(), tally);
    impact.namespaces.insert("team-b".into(), Tally { objects: 1, unchanged: 1, ..Tally::default() });
    impact.left_out.finished = 2;
    report.impact = Some(impact);
    report
}

#[test]
fn the_sample_in_each_format() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/reports");
    let formats = Format::ALL.iter().filter_map(|format| Some((*format, format.ending()?)));
    for (name, report) in [("lint", sample::all()), ("dry-run", sample::answered()), ("audit", audited())] {
        for (format, ending) in formats.clone() {
            let path = dir.join(format!("{name}.{ending}"));
            let text = written(&report, format);
            if std::env::var_os("UPDATE").is_some() {
                fs::create_dir_all(&dir).unwrap();
                fs::write(&path, &text).unwrap();
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert!(text == expected, "{} differs (UPDATE=1 writes it):\n{text}", path.display());
        }
    }
}
