//! Real manifests, templates and hand-made edge cases: nothing panics or hangs, every place is in its file,
//! and each edge case ends as its index says.
//!
//! The files are shared data, found by `JOBGATE_SHARED` (default `../shared`); without them each test prints
//! a line and passes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::shared;
use jobgate::judge::checks::{
    DUPLICATE_KEY, FIELD_TYPE, KNOWN_KIND, PLACEHOLDER, SYNTAX, UNRENDERED_TEMPLATE,
};
use jobgate::judge::finding::Level;
use jobgate::judge::policy::Policy;
use jobgate::local::lint::{self, Claims, Input, Linted, Options};
use jobgate::report::{self, Format, Location, Report};
use jobgate::text::lines::Lines;

fn policy() -> Policy {
    jobgate::policies::builtin("default").expect("the default policy")
}

fn lint_all(path: &Path) -> Linted {
    let inputs = lint::collect(&[path.to_owned()], |_| Ok(Vec::new()));
    assert!(inputs.unreadable.is_empty(), "{:?}", inputs.unreadable);
    lint::lint(&inputs.files, &policy(), &Claims::default(), &Options::default())
}

/// Checks that a place is inside its file, on character boundaries, and where its line and column say.
fn check_place(report: &Report, lines: &BTreeMap<&str, Lines<'_>>, location: &Location) {
    let text = report.sources.get(&location.file).unwrap_or_else(|| panic!("no source of {}", location.file));
    let shown = || {
        format!("{}:{}:{} ({:?})", location.file, location.start.line, location.start.column, location.span)
    };
    // A file that is not UTF-8 is quoted up to where it breaks.
    let span = location.span.start.min(text.len())..location.span.end.min(text.len());
    assert!(text.get(span).is_some(), "{}", shown());
    assert!(location.start <= location.end, "{}", shown());
    if location.span.end <= text.len() {
        assert_eq!(lines[&*location.file].position(location.span.start), location.start, "{}", shown());
        assert_eq!(lines[&*location.file].position(location.span.end), location.end, "{}", shown());
    }
}

/// Checks what must hold of any report.
fn check(report: &Report) {
    let lines: BTreeMap<&str, Lines<'_>> =
        report.sources.iter().map(|(path, text)| (&**path, Lines::new(text.as_bytes()))).collect();
    for located in &report.findings {
        check_place(report, &lines, &located.location);
        located
            .related
            .iter()
            .filter_map(|related| related.location.as_ref())
            .for_each(|place| check_place(report, &lines, place));
        assert!(
            !located.finding.message.is_empty() && !located.finding.message.ends_with('.'),
            "{:?}",
            located.finding
        );
        assert_eq!(located.related.len(), located.finding.labels.len());
    }
    let order = |a: &report::Located, b: &report::Located| {
        (&a.location.file, a.location.span.start, &a.finding.rule)
            <= (&b.location.file, b.location.span.start, &b.finding.rule)
    };
    assert!(report.findings.is_sorted_by(order), "findings are out of order");
    for format in Format::ALL.iter().copied() {
        let mut out = Vec::new();
        report::write(report, format, &report::Options::default(), &mut out).expect("write to memory");
        let text = String::from_utf8(out).expect("reports are UTF-8");
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n'),
            "{format:?} has a control character in it"
        );
    }
}

fn count(report: &Report, rule: &str) -> usize {
    report.findings.iter().filter(|located| located.finding.rule == rule).count()
}

#[test]
fn real_manifests() {
    let Some(path) = shared::path("corpus") else { return };
    let Linted { report, unreadable, .. } = lint_all(&path);
    assert!(unreadable.is_empty());
    check(&report);
    assert!(
        report.files > 1200 && report.objects > 700,
        "{} files, {} objects",
        report.files,
        report.objects
    );
    // The corpus is made of files that parse, as far as a lax parser could tell.
    assert!(count(&report, SYNTAX) <= 3, "{} syntax findings", count(&report, SYNTAX));
    assert_eq!(count(&report, UNRENDERED_TEMPLATE), 0);
}

/// Repositories lie side by side in the corpus, and use each other's names for their claims.
#[test]
fn claims_of_another_repository_are_not_taken() {
    let Some(path) = shared::path("corpus") else { return };
    let report = lint_all(&path).report;
    let repository = |file: &str| {
        Path::new(file)
            .strip_prefix(&path)
            .ok()
            .and_then(|rest| rest.components().next().map(|part| part.as_os_str().to_owned()))
    };
    let mut elsewhere = 0;
    for located in &report.findings {
        for place in located
            .related
            .iter()
            .filter(|related| related.object.is_some())
            .filter_map(|related| related.location.as_ref())
        {
            assert_eq!(
                repository(&place.file),
                repository(&located.location.file),
                "{} and {}",
                place.file,
                located.location.file
            );
            elsewhere += 1;
        }
    }
    assert!(elsewhere >= 3, "only {elsewhere} claims were found");
}

#[test]
fn templates() {
    let Some(path) = shared::path("corpus-templated") else { return };
    let Linted { report, .. } = lint_all(&path);
    check(&report);
    let mut per_file: BTreeMap<&str, usize> = BTreeMap::new();
    for located in report.findings.iter().filter(|located| located.finding.rule == UNRENDERED_TEMPLATE) {
        *per_file.entry(&located.location.file).or_default() += 1;
    }
    assert!(per_file.values().all(|count| *count == 1), "a template is one finding");
    assert!(per_file.len() > 50, "only {} templates were told from manifests", per_file.len());
    // What breaks for another reason has no directive in it that a template engine would know.
    let broken: Vec<&str> = report
        .findings
        .iter()
        .filter(|located| located.finding.rule == SYNTAX)
        .map(|located| &*located.location.file)
        .collect();
    assert!(broken.len() * 10 <= per_file.len(), "{broken:#?}");
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    let Some(path) = shared::path("corpus") else { return };
    let json = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let mut out = Vec::new();
        report::write(
            &pool.install(|| lint_all(&path)).report,
            Format::Json,
            &report::Options::default(),
            &mut out,
        )
        .expect("write to memory");
        out
    };
    assert!(json(1) == json(4), "the reports differ");
}

/// One row of the index of edge cases.
struct Row<'a> {
    file: &'a str,
    expected: &'a str,
}

/// What an edge case came to.
struct Outcome {
    report: Report,
    took: Duration,
}

impl Outcome {
    fn of(path: &Path) -> Self {
        let start = Instant::now();
        let linted = lint::lint(&[Input::named(path)], &policy(), &Claims::default(), &Options::default());
        assert!(linted.unreadable.is_empty(), "{:?}", linted.unreadable);
        Self { report: linted.report, took: start.elapsed() }
    }

    fn has(&self, level: Level, rules: &[&str]) -> bool {
        self.report.findings.iter().any(|located| {
            located.finding.level == level && (rules.is_empty() || rules.contains(&&*located.finding.rule))
        })
    }

    /// The file is rejected, for what it is and not for what a rule says.
    fn is_refused(&self) -> bool {
        self.has(Level::Deny, &[SYNTAX, FIELD_TYPE])
    }

    /// Its objects were judged.
    fn is_linted(&self) -> bool {
        self.report.objects > 0 && !self.has(Level::Deny, &[SYNTAX])
    }

    fn is_silent(&self) -> bool {
        self.report.findings.is_empty()
    }
}

impl Row<'_> {
    /// Tells whether the outcome is the one that the index expects. A wording that is not known here fails:
    /// the index has grown.
    fn holds(&self, outcome: &Outcome) -> Option<bool> {
        let word = self.expected.split([' ', ';', ',']).next().unwrap_or_default();
        Some(match (word, self.expected) {
            (_, expected) if expected.starts_with("must NOT be linted") => {
                // The rules of a batch/v1 Job without a deadline say nothing of it.
                !outcome.has(Level::Deny, &["deadline"])
                    && !outcome.has(Level::Note, &["pod-replacement-policy"])
            }
            (_, "no crash") => outcome.report.objects > 0,
            (_, expected) if expected.starts_with("clear finding") => outcome.has(Level::Deny, &[]),
            (_, expected) if expected.starts_with("typed error / unresolved-placeholder note") => {
                self.replicas(outcome)?
            }
            (_, "typed error") => outcome.has(Level::Deny, &[FIELD_TYPE]),
            ("finding", _) => outcome.has(Level::Deny, &["deadline"]),
            ("lint", _) => outcome.is_linted(),
            ("lint-or-clear-error", _) => outcome.is_linted() || outcome.is_refused(),
            ("lint-or-skip", _) => outcome.is_linted() || outcome.is_silent(),
            ("clear-error", _) => outcome.is_refused(),
            ("clear-error-or-skip", _) => outcome.is_refused() || outcome.is_silent(),
            ("warn-or-clear-error", _) => outcome.is_refused() || outcome.has(Level::Warn, &[DUPLICATE_KEY]),
            ("ok-nothing", _) => outcome.report.objects == 0 && outcome.is_silent(),
            // Not linted, and an error is right for a kind that its group does not have.
            ("skip-or-note", _) => {
                let mut findings = outcome.report.findings.iter().map(|located| &located.finding);
                outcome.report.objects == 0
                    && findings.all(|found| found.level == Level::Note || found.rule == KNOWN_KIND)
            }
            _ => return None,
        })
    }

    /// `replicas` of eleven kinds: what the API server reads as an integer is one, and each of the others is
    /// spoken of.
    fn replicas(&self, outcome: &Outcome) -> Option<bool> {
        let (refused, stands_in) =
            (outcome.has(Level::Deny, &[FIELD_TYPE]), outcome.has(Level::Warn, &[PLACEHOLDER]));
        Some(match self.file.strip_prefix("replicas-")?.strip_suffix(".yaml")? {
            "envsubst" | "braces" => stands_in && !refused,
            "string" | "huge" | "bool" => refused && !stands_in,
            // 4.0 and 1_000 and 010 are integers to a YAML 1.1 reader, and null is the default; -1 is an
            // integer of the right size.
            "float" | "null" | "octal" | "underscore" | "negative" => !refused && !stands_in,
            _ => return None,
        })
    }
}

#[test]
fn edge_cases_end_as_their_index_says() {
    let Some(folder) = shared::path("corpus-edge") else { return };
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).expect("an index");
    let rows = index.lines().skip(1).filter_map(|line| {
        let mut columns = line.split('\t');
        Some(Row { file: columns.next()?, expected: columns.next()? })
    });
    let (mut seen, mut wrong) = (0, Vec::new());
    for row in rows {
        let outcome = Outcome::of(&folder.join(row.file));
        check(&outcome.report);
        assert!(outcome.took < Duration::from_secs(2), "{} took {:?}", row.file, outcome.took);
        seen += 1;
        match row.holds(&outcome) {
            Some(true) => {}
            Some(false) => {
                let found = outcome
                    .report
                    .findings
                    .iter()
                    .map(|located| format!("\n    {} {}", located.finding.rule, located.finding.message));
                wrong.push(format!(
                    "{}: expected {}, found {} objects and{}",
                    row.file,
                    row.expected,
                    outcome.report.objects,
                    found.collect::<String>()
                ));
            }
            None => {
                wrong
                    .push(format!("{}: nobody has taught this test what `{}` means", row.file, row.expected));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 60, "only {seen} rows");
}

#[test]
fn errors_of_edge_cases_stand_where_the_trouble_is() {
    let Some(folder) = shared::path("corpus-edge") else { return };
    for (file, rule, line, column, words) in [
        ("tab-indent.yaml", SYNTAX, 6, 1, "tab"),
        ("utf16.yaml", SYNTAX, 1, 1, "UTF-16"),
        ("nul.yaml", SYNTAX, 161, 42, "U+0000"),
        ("deep-nesting.yaml", SYNTAX, 5, 511, "deep"),
        ("alias-bomb.yaml", SYNTAX, 4, 17, "aliases"),
        ("toplevel-list.yaml", SYNTAX, 1, 1, "list"),
        ("kind-int.yaml", FIELD_TYPE, 2, 7, "`kind`"),
        ("deadline-string.yaml", FIELD_TYPE, 23, 26, "integer"),
        ("dup-key.yaml", DUPLICATE_KEY, 21, 7, "`restartPolicy`"),
    ] {
        let report = Outcome::of(&folder.join(file)).report;
        let found = report.findings.iter().filter(|located| located.finding.rule == rule);
        let found: Vec<_> = found
            .map(|located| {
                (located.location.start.line, located.location.start.column, &located.finding.message)
            })
            .collect();
        assert!(
            matches!(found[..], [(l, c, message)] if (l, c) == (line, column) && message.contains(words)),
            "{file}: {found:?}"
        );
    }
}
