//! Kustomizations: which files are patches, and which batch work is never linted in the form that the cluster gets.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::options::Options;
use super::source;
use crate::local::paths::{normal, parent, seen, shown};
use crate::report::{Kustomized, Render};
use crate::text::value::Value;
use jobgate_lint::FileBytes;
use jobgate_lint::Input;
use jobgate_lint::batch;
use jobgate_lint::objects::first;
use jobgate_lint::patches::{Patch, list, may_be_batch, patches_of};
pub(super) use tree::{Absent, KustomizationTree};

/// The names that kustomize gives its file.
pub(super) const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields of a kustomization that do not change what rules or API checks read. Patches are checked one by
/// one.
const HARMLESS: &[&str] = &[
    "apiVersion",
    "bases",
    "buildMetadata",
    "configMapGenerator",
    "crds",
    "generatorOptions",
    "generators",
    "helmGlobals",
    "images",
    "kind",
    "metadata",
    "openapi",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replicas",
    "resources",
    "secretGenerator",
    "sortOptions",
    "validators",
];
/// Fields that generate objects which are in no file.
const GENERATING: [&str; 3] = ["generators", "helmChartInflationGenerator", "helmCharts"];

/// The kustomizations beside and among the inputs, and those that they include.
#[derive(Debug, Default)]
pub(super) struct Kustomizations {
    read: BTreeMap<PathBuf, Kustomization>,
    /// Those in the directories of inputs.
    beside: BTreeSet<PathBuf>,
    /// The kustomizations that include a file or directory.
    takers: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// The files that are patches.
    patches: BTreeMap<PathBuf, Patch>,
    /// Those that are rendered with Helm.
    with_helm: BTreeSet<PathBuf>,
}

/// The kustomizations that include batch work.
#[derive(Debug)]
pub(super) struct WithBatchWork<'i> {
    /// The linted files, and whether they have batch work.
    inputs: &'i BTreeMap<PathBuf, bool>,
    /// Those that include any.
    batch: BTreeSet<PathBuf>,
    /// Those that include some that was not linted.
    more: BTreeSet<PathBuf>,
}

/// Whether patches may be for batch work, by their files: many kustomizations may list one.
type PatchCache = BTreeMap<PathBuf, bool>;

/// Maximum levels above an input to search for the kustomization that lists it as a patch.
const ABOVE: usize = 8;

/// One kustomization.
#[derive(Debug)]
struct Kustomization {
    is_component: bool,
    /// Whether it changes what it includes, as far as that may be batch work.
    changes: bool,
    /// Whether it generates objects or includes missing files.
    has_more: bool,
    needs_helm: bool,
    takes: Vec<PathBuf>,
    patches: Vec<(PathBuf, bool)>,
}

impl Kustomizations {
    /// Reads the kustomizations beside the inputs, and all that these include.
    pub(super) fn new(inputs: &[Input], options: &Options<'_>) -> Self {
        let files = inputs.iter().filter_map(|input| input.content.file()?.parent().map(normal));
        let directories: BTreeSet<PathBuf> = files.collect();
        let mut all = Self {
            beside: directories.iter().filter_map(|directory| file_in(directory)).collect(),
            ..Self::default()
        };
        let above = above(&directories).into_iter().filter_map(|directory| file_in(&directory));
        let mut open: Vec<PathBuf> = all.beside.iter().cloned().chain(above).collect();
        let mut known = PatchCache::new();
        while let Some(path) = open.pop() {
            if all.read.contains_key(&path) {
                continue;
            }
            let Some(kustomization) = read(&path, &mut known, options) else { continue };
            for taken in &kustomization.takes {
                let file = file_in(taken).unwrap_or_else(|| taken.clone());
                all.takers.entry(file.clone()).or_default().push(path.clone());
                open.extend(is_kustomization(&file).then_some(file));
            }
            all.read.insert(path, kustomization);
        }
        all.with_helm = all
            .above(all.read.iter().filter(|(_, read)| read.needs_helm).map(|(path, _)| path.clone()), |_| {
                true
            });
        for (path, read) in &all.read {
            for (file, for_batch) in &read.patches {
                let by = all.kustomized(path);
                all.patches.entry(file.clone()).or_insert(Patch { by, for_batch: false }).for_batch |=
                    *for_batch;
            }
        }
        all
    }

    /// Returns the kustomization that lists a file as a patch.
    pub(super) fn patch(&self, input: &Input) -> Option<&Patch> {
        let path = input.content.file()?;
        if self.patches.is_empty() {
            return None;
        }
        self.patches.get(&seen(path))
    }

    /// Finds the kustomizations that include batch work. `inputs` are the linted files, and whether they have
    /// any.
    pub(super) fn with_batch_work<'i>(
        &self,
        inputs: &'i BTreeMap<PathBuf, bool>,
        options: &Options<'_>,
    ) -> WithBatchWork<'i> {
        let more = || self.read.iter().filter(|(_, read)| read.has_more).map(|(path, _)| path.clone());
        let leaves = self.takers.keys().filter(|path| !self.read.contains_key(*path));
        let (inside, outside): (Vec<_>, Vec<_>) = leaves.partition(|path| inputs.contains_key(*path));
        let inside =
            inside.into_iter().filter(|path| inputs.get(*path).is_some_and(|has_batch| *has_batch)).cloned();
        let outside: Vec<PathBuf> =
            outside.into_iter().filter(|path| may_hold_batch(path, options)).cloned().collect();
        let batch = self.above(inside.chain(outside.iter().cloned()).chain(more()), |_| true);
        // Kustomizations that include a reported one are not reported.
        let more = self.above(outside.into_iter().chain(more()), |path| !inputs.contains_key(path));
        WithBatchWork { inputs, batch, more }
    }

    /// Tells whether a kustomization's patches may be of batch work, if it includes any. A component patches
    /// what is included with it.
    pub(super) fn patches_batch(&self, by: &Kustomized, with_work: &WithBatchWork<'_>) -> bool {
        let path = PathBuf::from(&*by.path);
        let Some(read) = self.read.get(&path) else { return true };
        with_work.batch.contains(&path)
            || read.is_component
                && self
                    .above(std::iter::once(path), |_| true)
                    .iter()
                    .any(|path| with_work.batch.contains(path))
    }

    /// Returns the kustomizations whose batch work was not judged as rendered: those that change it, and
    /// those among the inputs that include files outside of them.
    pub(super) fn unrendered(&self, with_work: &WithBatchWork<'_>) -> Vec<Kustomized> {
        let is_unrendered = |path: &PathBuf, read: &Kustomization| {
            let changes = read.changes && with_work.batch.contains(path) && self.beside.contains(path);
            // A component is rendered by those that include it.
            (changes || with_work.inputs.contains_key(path) && with_work.more.contains(path))
                && !(read.is_component && self.takers.contains_key(path))
        };
        let found = self.read.iter().filter(|(path, read)| is_unrendered(path, read));
        found.map(|(path, _)| self.kustomized(path)).collect()
    }

    /// Returns paths and all kustomizations that include them, except through one that does not `pass`.
    /// Cycles are allowed.
    fn above(&self, from: impl Iterator<Item = PathBuf>, pass: impl Fn(&Path) -> bool) -> BTreeSet<PathBuf> {
        let mut open: Vec<PathBuf> = from.collect();
        let mut found = BTreeSet::new();
        while let Some(path) = open.pop() {
            let takers = self.takers.get(&path).filter(|_| pass(&path) || !self.read.contains_key(&path));
            if found.insert(path) {
                open.extend(takers.into_iter().flatten().cloned());
            }
        }
        found
    }

    fn kustomized(&self, path: &Path) -> Kustomized {
        let is_component = self.read.get(path).is_some_and(|read| read.is_component);
        let render = match () {
            () if is_component => Render::ByAnother,
            () if self.with_helm.contains(path) => Render::WithHelm,
            () => Render::Build,
        };
        Kustomized { path: shown(path).into(), render }
    }
}

/// Tells whether kustomize reads a file of this name as a kustomization.
pub(super) fn is_kustomization(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name))
}

/// Returns the kustomization's file in a directory.
fn file_in(directory: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| directory.join(name)).find(|file| file.is_file())
}

/// Tells whether an included file may have batch work. A missing one may: it may be remote or generated.
fn may_hold_batch(path: &Path, options: &Options<'_>) -> bool {
    if path.is_dir() {
        return false;
    }
    load(path, options).is_none_or(|loaded| batch::is_in(loaded.bytes(), &options.limits()))
}

fn load(path: &Path, options: &Options<'_>) -> Option<FileBytes> {
    source::load(&Input::named(path), options.max_file_size).ok()?.ok()
}

/// Returns the parent directories of inputs, up to the root of a repository: a patch may be far below its
/// kustomization, with only the patch's directory among the inputs.
fn above(directories: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for directory in directories {
        let mut at = directory.clone();
        for _ in 0..ABOVE {
            if at.join(".git").exists() {
                break;
            }
            let Some(up) = parent(&at).filter(|up| !directories.contains(up) && found.insert(up.clone()))
            else {
                break;
            };
            at = up;
        }
    }
    found
}

/// Reads a kustomization, or guesses from its text if it is a template. `None` if it is unreadable: linting reports
/// that.
fn read(path: &Path, known: &mut PatchCache, options: &Options<'_>) -> Option<Kustomization> {
    let loaded = load(path, options)?;
    let limits = options.limits();
    let directory = path.parent()?;
    let place = |file: &str| normal(&directory.join(file));
    let Some(document) = first(loaded.bytes(), &limits) else {
        return template(&String::from_utf8_lossy(loaded.bytes()), place);
    };
    let fields = document.value.as_object()?;
    let mut is_for_batch = |file: &PathBuf| {
        let is_for_batch =
            || load(file, options).is_none_or(|loaded| batch::is_patched_by(loaded.bytes(), &limits));
        *known.entry(file.clone()).or_insert_with(is_for_batch)
    };
    let mut patches = Vec::new();
    let mut patches_batch = false;
    for patch in patches_of(fields) {
        let file = patch.file.map(place);
        let for_batch = match (patch.target, &file, patch.text) {
            // A target takes precedence over the patch.
            (Some(target), ..) => may_be_batch(target),
            (None, Some(file), _) => is_for_batch(file),
            (None, None, Some(text)) => batch::is_patched_by(text.as_bytes(), &limits),
            (None, None, None) => true,
        };
        patches_batch |= for_batch;
        patches.extend(file.map(|file| (seen(&file), for_batch)));
    }
    let taken: Vec<&str> = ["resources", "bases", "components"]
        .iter()
        .flat_map(|key| list(fields, key))
        .filter_map(Value::as_str)
        .collect();
    Some(Kustomization {
        is_component: fields.get("kind").and_then(Value::as_str) == Some("Component"),
        changes: patches_batch || fields.keys().any(|key| !HARMLESS.contains(&key)),
        has_more: taken.iter().any(|item| is_remote(item))
            || GENERATING.iter().any(|key| fields.get(key).is_some()),
        needs_helm: ["helmChartInflationGenerator", "helmCharts"].iter().any(|key| fields.get(key).is_some()),
        takes: taken.iter().filter(|item| !is_remote(item)).map(|item| place(item)).collect(),
        patches,
    })
}

/// Reads a kustomization that is a template: it includes every existing file that it names, and may change
/// it.
fn template(text: &str, place: impl Fn(&str) -> PathBuf) -> Option<Kustomization> {
    if !text.contains("{{") && !text.contains("{%") {
        return None;
    }
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let words = lines()
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "[]{},\"'".contains(c)))
        .filter(|word| !matches!(*word, "" | "-" | "."));
    let is_open = |line: &str| {
        line.strip_prefix("- ").is_some_and(|item| item.trim_start_matches(['"', '\'']).starts_with("{{"))
    };
    Some(Kustomization {
        is_component: lines().any(|line| line == "kind: Component"),
        changes: true,
        has_more: lines().any(|line| is_open(line) || GENERATING.iter().any(|key| line.starts_with(key)))
            || words.clone().any(is_remote),
        needs_helm: lines().any(|line| line.starts_with("helmChart")),
        takes: words.map(place).filter(|path| path.exists()).collect(),
        patches: Vec::new(),
    })
}

fn is_remote(item: &str) -> bool {
    item.contains("://")
        || item.contains("?ref=")
        || item.starts_with("git@")
        || item.starts_with("github.com/")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::local::paths::path_text;
    use jobgate_lint::Content;

    /// Files of a directory, of which those with a path that begins with `in/` are inputs. Returns the
    /// kustomizations that are not rendered.
    fn unrendered(files: &[(&str, &str)]) -> (Vec<String>, Kustomizations, Vec<Input>) {
        let dir = tempfile::tempdir().unwrap();
        let mut inputs = Vec::new();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if name.starts_with("in/") {
                inputs.push(Input {
                    path: path_text(&path).into(),
                    content: Content::File(path),
                    named: false,
                    root: None,
                    reached: crate::local::lint::Reached::Named,
                });
            }
        }
        let options = Options::default();
        let all = Kustomizations::new(&inputs, &options);
        let has_batch = |input: &Input| {
            let Content::File(path) = &input.content else { unreachable!() };
            (path.clone(), batch::is_in(&fs::read(path).unwrap(), &options.limits()))
        };
        let linted = inputs.iter().map(has_batch).collect();
        let found = all.unrendered(&all.with_batch_work(&linted, &options));
        let names = found.iter().map(|kustomized| {
            let place =
                Path::new(&*kustomized.path).strip_prefix(dir.path()).unwrap().parent().unwrap().to_owned();
            let place = path_text(&place);
            match kustomized.render {
                Render::Build => place,
                Render::WithHelm => format!("{place} (Helm)"),
                Render::ByAnother => format!("{place} (component)"),
            }
        });
        (names.collect(), all, inputs)
    }

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        unrendered(files).0
    }

    const JOB: (&str, &str) = ("in/base/job.yaml", "apiVersion: batch/v1\nkind: Job\n");
    const WEB: (&str, &str) = (
        "in/base/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {prometheus.io/job: web}}\n",
    );
    const BASE: (&str, &str) = ("in/base/kustomization.yaml", "resources: [job.yaml]\n");

    #[test]
    fn a_kustomization_is_said_where_it_changes_batch_work() {
        let (names, all, inputs) = unrendered(&[
            JOB,
            BASE,
            (
                "in/prod/kustomization.yaml",
                "resources: [../base]\npatches:\n- path: more.yaml\n- {path: web.yaml, target: {kind: Deployment}}\n",
            ),
            ("in/prod/more.yaml", "a: 1\n"),
            ("in/web/kustomization.yml", "resources: [../base/web.yaml]\nnamespace: web\n"),
            WEB,
            // They take in one another.
            ("in/ring/a/kustomization.yaml", "resources: [../b]\nnamespace: a\n"),
            ("in/ring/b/kustomization.yaml", "resources: [../a]\nnamespace: b\n"),
        ]);
        assert_eq!(names, ["in/prod"]);
        assert!(
            all.patch(&inputs[3])
                .is_some_and(|patch| patch.for_batch && patch.by.path.ends_with("prod/kustomization.yaml"))
        );
        assert!(all.patch(&inputs[0]).is_none());
        assert!(all.patches.values().any(|patch| !patch.for_batch));
    }

    #[test]
    fn what_changes_no_batch_work_is_not_said() {
        for text in [
            "resources: [../base]\nimages: [{name: a, newTag: b}]\nconfigMapGenerator: [{name: a}]\n",
            "resources: [../base]\npatches: [{path: web.yaml}]\n",
            "resources: [../base]\npatchesStrategicMerge: [web.yaml]\n",
            "resources: [../base]\npatches:\n- patch: |-\n    kind: Deployment\n",
            "resources: [../base]\npatches: [{patch: '[]', target: {kind: Deployment}}]\n",
        ] {
            assert!(
                names(&[
                    JOB,
                    BASE,
                    ("in/over/kustomization.yaml", text),
                    ("in/over/web.yaml", "kind: Deployment\n")
                ])
                .is_empty(),
                "{text}"
            );
        }
        for text in [
            "resources: [../base]\nnamespace: prod\n",
            "resources: [../base]\npatches: [{patch: '[]', target: {kind: Deployment|Job}}]\n",
            "resources: [../base]\npatches: [{patch: '[]', target: {name: train}}]\n",
            "resources: [../base]\npatches: [{path: missing.yaml}]\n",
            "resources: [../base]\npatchesStrategicMerge:\n- |-\n  kind: Job\n",
        ] {
            assert_eq!(names(&[JOB, BASE, ("in/over/kustomization.yaml", text)]), ["in/over"], "{text}");
        }
    }

    #[test]
    fn what_is_taken_in_from_elsewhere_was_not_judged() {
        let job = ("out/job.yaml", JOB.1);
        assert_eq!(
            names(&[
                job,
                ("out/kustomization.yaml", "resources: [job.yaml]\n"),
                ("in/kustomization.yaml", "resources: [../out]\n")
            ]),
            ["in"]
        );
        assert!(
            names(&[("out/web.yaml", WEB.1), ("in/kustomization.yaml", "resources: [../out/web.yaml]\n")])
                .is_empty()
        );
        for text in [
            "resources: [../out/job.tpl]\n",
            "resources: [missing.yaml]\n",
            "generators: [g.yaml]\n",
            "resources: ['https://example.com/x.yaml']\n",
        ] {
            assert_eq!(names(&[("in/kustomization.yaml", text), ("out/job.tpl", JOB.1)]), ["in"], "{text}");
        }
        assert_eq!(names(&[job, ("in/Kustomization", "resources: [../out/job.yaml]\n")]), ["in"]);
        // Whoever takes in what is reported need not be.
        let sub = ("in/a/kustomization.yaml", "resources: [../../out/job.yaml]\n");
        assert_eq!(names(&[job, sub, ("in/b/kustomization.yaml", "resources: [../a]\n")]), ["in/a"]);
        // What is beside a named file was not asked about.
        let beside = ("in/base/Kustomization", "resources: [job.yaml, ../../out/job.yaml]\n");
        let (_, all, inputs) = unrendered(&[JOB, job, beside]);
        let only: BTreeMap<PathBuf, bool> =
            inputs[..1].iter().map(|input| (PathBuf::from(&*input.path), true)).collect();
        assert!(all.unrendered(&all.with_batch_work(&only, &Options::default())).is_empty());
    }

    #[test]
    fn a_kustomization_says_how_it_is_rendered() {
        assert_eq!(names(&[("in/kustomization.yaml", "helmCharts: [{name: a}]\n")]), ["in (Helm)"]);
        let part =
            ("in/part/kustomization.yaml", "kind: Component\nresources: [../base/job.yaml]\nnamespace: x\n");
        assert_eq!(names(&[JOB, part]), ["in/part (component)"]);
        assert_eq!(
            names(&[JOB, part, ("in/over/kustomization.yaml", "components: [../part]\n")]),
            ["in/over"]
        );
    }

    #[test]
    fn a_patch_is_read_once_whoever_lists_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kustomization.yaml");
        fs::write(&path, "patches: [{path: p.yaml}]\n").unwrap();
        fs::write(dir.path().join("p.yaml"), "kind: Deployment\n").unwrap();
        let mut known = PatchCache::new();
        let mut is_for_batch = || read(&path, &mut known, &Options::default()).unwrap().patches[0].1;
        assert!(!is_for_batch());
        fs::write(dir.path().join("p.yaml"), "kind: Job\n").unwrap();
        assert!(!is_for_batch(), "it was read again");
    }

    #[test]
    fn a_patch_is_known_by_the_kustomization_above_it() {
        let (names, all, inputs) = unrendered(&[
            ("kustomization.yaml", "resources: [job.yaml]\npatches: [{path: in/more.yaml}]\n"),
            ("job.yaml", JOB.1),
            ("in/more.yaml", "kind: Job\n"),
        ]);
        assert!(all.patch(&inputs[0]).is_some_and(|patch| patch.for_batch));
        assert!(names.is_empty(), "what is above was not asked about");
    }
}
