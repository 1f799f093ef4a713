//! Baselines: files of `jobgate lint --write-baseline` with existing findings, which `--baseline` does not
//! report again.
//!
//! A finding matches by its [`Identity`] and file, as often as the file lists it. Lines and document numbers
//! do not count, so moving or reformatting makes nothing new. If the file of a named object is gone, its
//! entry matches the object in any file. An entry is kept if its file exists but was not linted in this run.
//! Objects that were not judged match in the same way, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use jobgate_core::judge::fold::Named;
use jobgate_report::{Identity, Name, Report};

/// The version of the file.
const VERSION: u64 = 1;

/// The prefix of the rule in entries for what was not judged.
const NOT_JUDGED: &str = "not-judged/";

/// The baselined findings, with their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    known: BTreeMap<BaselinePlace, NonZeroUsize>,
}

/// An identity in a file. The order is that of the baseline file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BaselinePlace {
    file: String,
    object: Option<Name>,
    path: String,
    rule: String,
}

/// Why a baseline cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It is not JSON of the shape that `--write-baseline` writes. The cause's message includes the position.
    #[error("it is not a baseline of `--write-baseline`")]
    Shape(#[source] serde_json::Error),
    /// It was written by another program, or by another version of this one.
    #[error("it has version {0}, but Jobgate reads version {VERSION}; regenerate it with `--write-baseline`")]
    Version(u64),
}

/// One entry of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineEntry {
    file: String,
    object: Option<Name>,
    path: String,
    rule: String,
    count: NonZeroUsize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineDocument {
    #[serde(rename = "version")]
    _version: u64,
    findings: KnownFindings,
}

struct KnownFindings(BTreeMap<BaselinePlace, NonZeroUsize>);

impl<'de> Deserialize<'de> for KnownFindings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = KnownFindings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of findings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<KnownFindings, A::Error> {
                let mut known = BTreeMap::new();
                while let Some(BaselineEntry { file, object, path, rule, count }) = entries.next_element()? {
                    let twice = format!("`{rule}` of `{file}`, `{path}`, is listed twice; remove one");
                    // A merge of two branches may leave duplicates.
                    if known.insert(BaselinePlace { file, object, path, rule }, count).is_some() {
                        return Err(A::Error::custom(twice));
                    }
                }
                Ok(KnownFindings(known))
            }
        }
        deserializer.deserialize_seq(EntriesVisitor)
    }
}

/// The files of a run by their paths relative to the baseline, so that the working directory does not matter.
#[derive(Clone, Debug)]
pub struct Root {
    /// Absolute, without `.` and `..`.
    base: PathBuf,
    current: PathBuf,
    exists: fn(&Path) -> bool,
}

impl Root {
    /// Returns the root of a baseline file, for a run in a directory. `exists` tells whether a file exists.
    #[must_use]
    pub fn new(baseline: &Path, current: &Path, exists: fn(&Path) -> bool) -> Self {
        let baseline = clean(&current.join(baseline));
        let base = baseline.parent().unwrap_or(&baseline).to_owned();
        Self { base, current: current.to_owned(), exists }
    }

    /// Returns the name of a file of the run; `-` keeps its own.
    #[must_use]
    pub(crate) fn name(&self, path: &str) -> String {
        if path == crate::STDIN {
            return path.to_owned();
        }
        let path = clean(&self.current.join(path));
        let shared = path.components().zip(self.base.components()).take_while(|(a, b)| a == b).count();
        let up = self.base.components().skip(shared).map(|_| "..".to_owned());
        let down = path.components().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned());
        up.chain(down).collect::<Vec<_>>().join("/")
    }

    /// Tells whether a file that a baseline names exists.
    fn has(&self, name: &str) -> bool {
        name == crate::STDIN || (self.exists)(&self.base.join(name))
    }
}

/// Removes `.` and `..` from an absolute path.
fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = out.pop(),
            part => out.push(part),
        }
    }
    out
}

impl Baseline {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.values().map(|count| count.get()).sum()
    }

    /// Returns a baseline that knows everything in a report.
    #[must_use]
    pub fn new(report: &Report, root: &Root) -> Self {
        let mut known: BTreeMap<BaselinePlace, NonZeroUsize> = BTreeMap::new();
        let mut names = FileNames::new(root);
        let mut know = |place: BaselinePlace| {
            known
                .entry(place)
                .and_modify(|count| *count = count.saturating_add(1))
                .or_insert(NonZeroUsize::MIN);
        };
        let of_findings = places(report, &mut names);
        for (nth, place) in of_findings.into_iter().enumerate() {
            let Some(place) = place else { continue };
            // Each item has an entry of its own: another run may find other items.
            match report.findings.get(nth).and_then(|located| located.items.as_ref()) {
                Some(items) => items.each(&mut |path| know(BaselinePlace { path, ..place.clone() })),
                None => know(place),
            }
        }
        Self { known }
    }

    /// Reads a printed [`Baseline`].
    ///
    /// # Errors
    ///
    /// It has another shape, or has a finding twice.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        #[derive(Deserialize)]
        struct BaselineVersion {
            version: u64,
        }
        // Check the version first: the shape of another version is not an error here.
        if let Ok(BaselineVersion { version }) = serde_json::from_str(text)
            && version != VERSION
        {
            return Err(BaselineError::Version(version));
        }
        let document: BaselineDocument = serde_json::from_str(text).map_err(BaselineError::Shape)?;
        Ok(Self { known: document.findings.0 })
    }

    /// Keeps only the findings of some rules and checks, by id. Entries for what was not judged belong to no rule, and
    /// stay.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.known.retain(|place, _| place.rule.starts_with(NOT_JUDGED) || is_kept(&place.rule));
    }

    /// Removes baselined findings from a report and counts them there, with the resolved ones. `read` are the
    /// paths of all files of the report.
    pub fn apply<'a>(&self, report: &mut Report, read: impl IntoIterator<Item = &'a str>, root: &Root) {
        let mut names = FileNames::new(root);
        let places = places(report, &mut names);
        let read: BTreeSet<String> = read.into_iter().map(|path| root.name(path)).collect();
        let mut left: BTreeMap<&BaselinePlace, usize> =
            self.known.iter().map(|(place, count)| (place, count.get())).collect();
        let mut is_known: Vec<bool> = places
            .iter()
            .enumerate()
            .map(|(nth, place)| {
                let items = report.findings.get(nth).and_then(|located| located.items.as_ref());
                place.as_ref().is_some_and(|place| match items {
                    Some(items) => of_all(place, items, &mut |place| take(left.get_mut(place))),
                    None => take(left.get_mut(place)),
                })
            })
            .collect();
        // The remaining entries of missing files, by identity.
        let mut files: BTreeMap<&str, bool> = BTreeMap::new();
        left.retain(|place, count| {
            *count > 0
                && (read.contains(&place.file)
                    || !*files.entry(&place.file).or_insert_with(|| root.has(&place.file)))
        });
        let mut moved: BTreeMap<(&Option<Name>, &str, &str), Vec<&BaselinePlace>> = BTreeMap::new();
        for place in left.keys().filter(|place| !read.contains(&place.file)) {
            moved.entry(place.about()).or_default().push(place);
        }
        let mut take_moved = |place: &BaselinePlace| {
            let candidates = moved.get(&place.about()).map_or(&[][..], Vec::as_slice);
            candidates.iter().any(|known| take(left.get_mut(known)))
        };
        for (nth, (place, is_known)) in places.iter().zip(&mut is_known).enumerate() {
            let Some(place) = place.as_ref().filter(|place| !*is_known && place.is_named()) else { continue };
            *is_known = match report.findings.get(nth).and_then(|located| located.items.as_ref()) {
                Some(items) => of_all(place, items, &mut take_moved),
                None => take_moved(place),
            };
        }
        let mut is_known = is_known.into_iter();
        let before = report.findings.len();
        report.findings.retain(|_| !is_known.next().unwrap_or_default());
        report.baselined += before - report.findings.len();
        let before = report.unjudged.len();
        report.unjudged.retain(|_| !is_known.next().unwrap_or_default());
        report.baselined_unjudged += before - report.unjudged.len();
        // A run over some of the files cannot see where the other entries went.
        let whole = self.known.keys().all(|place| read.contains(&place.file) || !root.has(&place.file));
        report.resolved += left
            .iter()
            .filter(|(place, _)| whole || read.contains(&place.file))
            .map(|(_, count)| count)
            .sum::<usize>();
    }
}

/// Returns the keys of a report's findings, followed by those of what was not judged; `None` where a baseline has no
/// entry.
fn places(report: &Report, names: &mut FileNames<'_>) -> Vec<Option<BaselinePlace>> {
    let mut places = Vec::with_capacity(report.findings.len() + report.unjudged.len());
    for located in &report.findings {
        places.push(Some(BaselinePlace::new(
            names.of(&located.location.file),
            Identity::from_located(located),
        )));
    }
    for unjudged in &report.unjudged {
        let known = Identity::from_unjudged(unjudged).zip(unjudged.location.as_ref());
        places.push(known.map(|(identity, location)| BaselinePlace::new(names.of(&location.file), identity)));
    }
    places
}

/// Takes one from a remaining count, if there is one.
fn take(left: Option<&mut usize>) -> bool {
    match left {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// Tells whether a predicate holds for each item of a finding about many; calls it for every item.
fn of_all(place: &BaselinePlace, items: &Named, holds: &mut dyn FnMut(&BaselinePlace) -> bool) -> bool {
    let mut all = true;
    let mut at = place.clone();
    items.each(&mut |path| {
        at.path = path;
        all &= holds(&at);
    });
    all
}

impl BaselinePlace {
    fn new(file: String, Identity { rule, object, path }: Identity) -> Self {
        Self { file, object, path, rule }
    }

    /// Returns its identity without the file.
    fn about(&self) -> (&Option<Name>, &str, &str) {
        (&self.object, &self.path, &self.rule)
    }

    fn is_named(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.name.is_some())
    }
}

impl fmt::Display for Baseline {
    /// Writes the file: sorted, one finding per line, so that version control shows the changes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"version\":{VERSION},\"findings\":[")?;
        for (nth, (BaselinePlace { file, object, path, rule }, count)) in self.known.iter().enumerate() {
            let entry = BaselineEntry {
                file: file.clone(),
                object: object.clone(),
                path: path.clone(),
                rule: rule.clone(),
                count: *count,
            };
            let line = serde_json::to_string(&entry).map_err(|_| fmt::Error)?;
            write!(f, "{}\n{line}", if nth == 0 { "" } else { "," })?;
        }
        f.write_str("\n]}\n")
    }
}

/// File names in the baseline; the last one is cached.
struct FileNames<'r> {
    root: &'r Root,
    last: Option<(std::sync::Arc<str>, String)>,
}

impl<'r> FileNames<'r> {
    fn new(root: &'r Root) -> Self {
        Self { root, last: None }
    }

    fn of(&mut self, file: &std::sync::Arc<str>) -> String {
        match &self.last {
            Some((path, name)) if path == file => name.clone(),
            _ => {
                let name = self.root.name(file);
                self.last = Some((std::sync::Arc::clone(file), name.clone()));
                name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;

    const JOB: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  ttlSecondsAfterFinished: 60
  podReplacementPolicy: Failed
  activeDeadlineSeconds: 60
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: a, image: i, workDir: /x}
";

    fn root() -> Root {
        Root::new(Path::new("known.json"), Path::new("/no/such/place"), Path::exists)
    }

    /// Returns how many findings are new, known and gone.
    fn against(known: &[(&str, &str)], now: &[(&str, &str)]) -> (usize, usize, usize) {
        let baseline = Baseline::new(&report(known), &root());
        let mut report = report(now);
        baseline.apply(&mut report, now.iter().map(|(path, _)| *path), &root());
        (report.findings.len(), report.baselined, report.resolved)
    }

    #[test]
    fn what_is_known_stays_known_while_things_move() {
        let known = [("k8s/a.yaml", JOB)];
        assert_eq!(against(&known, &known), (0, 1, 0));
        let moved = format!("# moved\n\n{}", JOB.replace("  ttl", "\n  # down\n  ttl"));
        let beside = format!("{}---\n{JOB}", JOB.replace("train", "other").replace(", workDir: /x", ""));
        let json = serde_json::to_string(
            &jobgate_core::text::yaml::documents(JOB.as_bytes()).next().unwrap().unwrap().value,
        )
        .unwrap();
        let list = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{{}}, {json}]}}");
        let newer = JOB.replace("      - {name: a", "      - {name: first, image: i}\n      - {name: a");
        for text in [&moved, &beside, &json, &list, &newer] {
            assert_eq!(against(&known, &[("k8s/a.yaml", text)]), (0, 1, 0), "{text}");
        }
    }

    #[test]
    fn what_is_another_or_once_more_is_new() {
        let known = [("a.yaml", JOB)];
        for (text, found) in [
            (JOB.replace("train", "other"), (1, 0, 1)),
            (JOB.replace("{name: a", "{name: b"), (1, 0, 1)),
            (JOB.replace("workDir", "workdir"), (1, 0, 1)),
            (JOB.replace("workDir: /x", "workDir: /x, workdir: /x"), (1, 1, 0)),
            (JOB.replace("{name: train}", "{name: train, namespace: team}"), (1, 0, 1)),
            (format!("{JOB}---\n{JOB}"), (1, 1, 0)),
            (JOB.replace(", workDir: /x", ""), (0, 0, 1)),
        ] {
            assert_eq!(against(&known, &[("a.yaml", &text)]), found, "{text}");
        }
        assert_eq!(against(&[("a.yaml", &format!("{JOB}---\n{JOB}"))], &known), (0, 1, 1));
    }

    #[test]
    fn what_is_not_judged_is_known_by_its_reason() {
        let mpi = "apiVersion: training.kubedl.io/v1\nkind: MPIJob\nmetadata: {name: a}\n";
        let claims = JOB.replace("spec:\n  ttl", "spec:\n  parallelism: 2\n  ttl").replace(
            "      restart",
            "      volumes:\n      - {name: v, persistentVolumeClaim: {claimName: data}}\n      restart",
        );
        let known = [("mpi.yaml", mpi), ("job.yaml", &*claims), ("readme.yaml", "a: 1\n")];
        let against = |now: &[(&str, &str)]| {
            let baseline = Baseline::new(&report(&known), &root());
            let mut report = report(now);
            baseline.apply(&mut report, now.iter().map(|(path, _)| *path), &root());
            assert_eq!(report.resolved, 0);
            let left: Vec<&str> = report.unjudged.iter().map(|unjudged| unjudged.reason.word()).collect();
            (left.join(" "), report.baselined_unjudged)
        };
        assert_eq!(against(&known), (String::new(), 2));
        let other = format!("{mpi}---\n{}", mpi.replace("name: a", "name: b"));
        assert_eq!(against(&[("mpi.yaml", &other), ("job.yaml", &claims)]), ("kind".to_owned(), 2));
        let claim = claims.replace(
            "claimName: data",
            "claimName: data}}\n      - {name: w, persistentVolumeClaim: {claimName: more",
        );
        assert_eq!(against(&[("mpi.yaml", mpi), ("job.yaml", &claim)]), ("claim".to_owned(), 2));
        // A path with nothing in it is the run's own matter.
        let mut nothing = report(&[("readme.yaml", "a: 1\n")]);
        nothing.unjudged.push(crate::place::nothing_in("readme.yaml"));
        assert_eq!((nothing.unjudged.len(), Baseline::new(&nothing, &root()).len()), (1, 0));
    }

    #[test]
    fn a_file_may_move_and_a_copy_of_it_is_new() {
        assert_eq!(against(&[("a.yaml", JOB)], &[("b/c.yaml", JOB)]), (0, 1, 0));
        assert_eq!(against(&[("a.yaml", JOB)], &[("a.yaml", JOB), ("b.yaml", JOB)]), (1, 1, 0));
        // The file says which of the two is new.
        let baseline = Baseline::new(&report(&[("b.yaml", JOB)]), &root());
        let mut both = report(&[("a.yaml", JOB), ("b.yaml", JOB)]);
        baseline.apply(&mut both, ["a.yaml", "b.yaml"], &root());
        assert_eq!(
            both.findings.iter().map(|located| &*located.location.file).collect::<Vec<_>>(),
            ["a.yaml"]
        );
        // What cannot be read is nothing but its file.
        let broken = "kind: [";
        assert_eq!(against(&[("a.yaml", broken)], &[("a.yaml", broken)]), (0, 1, 0));
        assert_eq!(
            against(&[("a.yaml", broken)], &[("b.yaml", broken)]),
            (1, 0, 2),
            "it is not judged, either"
        );
    }

    #[test]
    fn a_file_that_was_not_looked_at_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), JOB).unwrap();
        let root = Root::new(Path::new("known.json"), dir.path(), Path::exists);
        let baseline = Baseline::new(&report(&[("a.yaml", JOB)]), &root);
        let mut copy = report(&[("b.yaml", JOB)]);
        baseline.apply(&mut copy, ["b.yaml"], &root);
        assert_eq!((copy.findings.len(), copy.baselined, copy.resolved), (1, 0, 0));
        std::fs::remove_file(dir.path().join("a.yaml")).unwrap();
        baseline.apply(&mut copy, ["b.yaml"], &root);
        assert_eq!((copy.findings.len(), copy.baselined, copy.resolved), (0, 1, 0));
    }

    #[test]
    fn files_are_named_from_where_the_baseline_lies() {
        let root = |baseline: &str| Root::new(Path::new(baseline), Path::new("/repo/k8s"), Path::exists);
        for (baseline, path, name) in [
            ("known.json", "a.yaml", "a.yaml"),
            ("../known.json", "./sub/../a.yaml", "k8s/a.yaml"),
            ("/repo/known.json", "/repo/k8s/a.yaml", "k8s/a.yaml"),
            ("ci/known.json", "a.yaml", "../a.yaml"),
            ("/elsewhere/known.json", "a.yaml", "../repo/k8s/a.yaml"),
            ("known.json", "-", "-"),
        ] {
            assert_eq!(root(baseline).name(path), name, "{baseline} {path}");
        }
    }

    #[test]
    fn a_baseline_is_written_sorted_and_read_back() {
        let broken = "kind: [";
        let two = format!("{JOB}---\n{JOB}");
        let baseline = Baseline::new(&report(&[("b.yaml", &two), ("a.yaml", broken)]), &root());
        let text = baseline.to_string();
        let wanted = [
            "{\"version\":1,\"findings\":[",
            "{\"file\":\"a.yaml\",\"object\":null,\"path\":\"\",\"rule\":\"not-judged/unreadable\",\"count\":1},",
            "{\"file\":\"a.yaml\",\"object\":null,\"path\":\"\",\"rule\":\"syntax\",\"count\":1},",
            "{\"file\":\"b.yaml\",\"object\":{\"kind\":\"Job\",\"namespace\":null,\"name\":\"train\"},\
             \"path\":\"spec.template.spec.containers[a].workDir\",\"rule\":\"unknown-field\",\"count\":2}",
            "]}\n",
        ];
        assert_eq!(text, wanted.join("\n"));
        assert_eq!(Baseline::parse(&text).unwrap(), baseline);
        assert_eq!(baseline.len(), 4);
        let none = Baseline::default();
        assert_eq!(Baseline::parse(&none.to_string()).unwrap(), none);
    }

    #[test]
    fn a_bad_baseline_is_refused_with_its_place() {
        let entry = r#"{"file":"a","object":null,"path":"","rule":"syntax","count":1}"#;
        let wrap = |entries: &str| format!("{{\"version\":1,\"findings\":[\n{entries}\n]}}");
        for (text, words) in [
            (String::new(), "EOF while parsing a value at line 1 column 0"),
            ("[]".to_owned(), "invalid length 0"),
            (
                wrap(&format!("{entry},\n{entry}")),
                "`syntax` of `a`, ``, is listed twice; remove one at line 4",
            ),
            (wrap(&entry.replace('1', "0")), "nonzero usize at line 2"),
            (wrap(&entry.replace("path", "paths")), "unknown field `paths`"),
            (wrap(&entry.replace("\"object\":null,", "")), ""),
            (wrap(&entry.replace("null", "{\"kind\":\"Job\"}")), ""),
            ("{\"version\":1}".to_owned(), "missing field `findings`"),
            ("{\"findings\":[]}".to_owned(), "missing field `version`"),
            (format!("{}\n<<<<<<< ours", wrap(entry)), "trailing characters at line 4"),
        ] {
            match Baseline::parse(&text) {
                Err(BaselineError::Shape(cause)) => {
                    assert!(cause.to_string().contains(words), "{text}: {cause}");
                }
                other => assert!(words.is_empty() && other.is_ok(), "{text}: {other:?}"),
            }
        }
        let newer = Baseline::parse("{\"version\":2,\"entries\":{}}").unwrap_err();
        assert_eq!(
            newer.to_string(),
            "it has version 2, but Jobgate reads version 1; regenerate it with `--write-baseline`"
        );
    }
}
