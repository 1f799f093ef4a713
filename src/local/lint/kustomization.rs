//! Kustomizations: which files are patches, and which batch work is never seen as the cluster gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::input::{Content, Input};
use super::paths::{normal, shown};
use super::source::{self, Loaded};
use super::{Options, batch};
use crate::report::{Kustomized, Render};
use crate::text::value::{Map, Value};
use crate::text::yaml;

/// The names that kustomize gives its file.
pub(super) const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What changes nothing that a rule or a check of the API server reads in a batch object. Patches are looked at one by one.
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
/// What makes objects that are in no file.
const GENERATING: [&str; 3] = ["generators", "helmChartInflationGenerator", "helmCharts"];

/// The kustomizations beside and among the inputs, and those that they take in.
#[derive(Debug, Default)]
pub(super) struct Kustomizations {
    read: BTreeMap<PathBuf, Kustomization>,
    /// Those in the directories of inputs.
    beside: BTreeSet<PathBuf>,
    /// Who takes in a file or a directory.
    takers: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// The files that are patches.
    patches: BTreeMap<PathBuf, Patch>,
    /// Those that are rendered with Helm's help.
    with_helm: BTreeSet<PathBuf>,
}

/// A file that a kustomization lists as a patch.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// The kustomization.
    pub(super) by: Kustomized,
    /// Whether it may be for a batch kind.
    pub(super) for_batch: bool,
}

/// One kustomization.
#[derive(Debug)]
struct Kustomization {
    is_component: bool,
    /// Whether it changes what it takes in, as far as that may be batch work.
    changes: bool,
    /// Whether it makes objects, or takes in what is not here.
    has_more: bool,
    needs_helm: bool,
    takes: Vec<PathBuf>,
    patches: Vec<(PathBuf, bool)>,
}

impl Kustomizations {
    /// Reads the kustomizations beside the inputs, and all that these take in.
    pub(super) fn of(inputs: &[Input], options: &Options<'_>) -> Self {
        let files = inputs.iter().filter_map(|input| match &input.content {
            Content::File(path) => path.parent().map(normal),
            Content::Bytes(_) => None,
        });
        let directories: BTreeSet<PathBuf> = files.collect();
        let mut all = Self { beside: directories.iter().filter_map(|directory| file_in(directory)).collect(), ..Self::default() };
        // A patch may be in a directory below that of its kustomization, which may be all that is walked.
        let above = directories.iter().filter_map(|directory| file_in(directory.parent()?));
        let mut open: Vec<PathBuf> = all.beside.iter().cloned().chain(above).collect();
        while let Some(path) = open.pop() {
            if all.read.contains_key(&path) {
                continue;
            }
            let Some(kustomization) = read(&path, options) else { continue };
            for taken in &kustomization.takes {
                let file = file_in(taken).unwrap_or_else(|| taken.clone());
                all.takers.entry(file.clone()).or_default().push(path.clone());
                open.extend(is_kustomization(&file).then_some(file));
            }
            all.read.insert(path, kustomization);
        }
        all.with_helm = all.above(all.read.iter().filter(|(_, read)| read.needs_helm).map(|(path, _)| path.clone()), |_| true);
        for (path, read) in &all.read {
            for (file, for_batch) in &read.patches {
                let by = all.kustomized(path);
                all.patches.entry(file.clone()).or_insert(Patch { by, for_batch: *for_batch });
            }
        }
        all
    }

    /// Returns who lists a file as a patch.
    pub(super) fn patch(&self, input: &Input) -> Option<&Patch> {
        let Content::File(path) = &input.content else { return None };
        if self.patches.is_empty() {
            return None;
        }
        self.patches.get(&normal(path))
    }

    /// Returns the kustomizations whose batch work was not judged as they render it: those that change it, and those among the inputs that take in what
    /// is not among them. `inputs` are the files that were linted, and whether there is batch work in them.
    pub(super) fn unrendered(&self, inputs: &BTreeMap<PathBuf, bool>, options: &Options<'_>) -> Vec<Kustomized> {
        let more = || self.read.iter().filter(|(_, read)| read.has_more).map(|(path, _)| path.clone());
        let leaves = self.takers.keys().filter(|path| !self.read.contains_key(*path));
        let (inside, outside): (Vec<_>, Vec<_>) = leaves.partition(|path| inputs.contains_key(*path));
        let inside = inside.into_iter().filter(|path| inputs.get(*path).is_some_and(|has_batch| *has_batch)).cloned();
        let outside: Vec<PathBuf> = outside.into_iter().filter(|path| may_hold_batch(path, options)).cloned().collect();
        let taking = self.above(inside.chain(outside.iter().cloned()).chain(more()), |_| true);
        // Whoever takes in a kustomization that is reported need not be.
        let taking_more = self.above(outside.into_iter().chain(more()), |path| !inputs.contains_key(path));
        let is_unrendered = |path: &PathBuf, read: &Kustomization| {
            let changes = read.changes && taking.contains(path) && self.beside.contains(path);
            // A component is rendered by those that take it in.
            (changes || inputs.contains_key(path) && taking_more.contains(path)) && !(read.is_component && self.takers.contains_key(path))
        };
        let found = self.read.iter().filter(|(path, read)| is_unrendered(path, read));
        found.map(|(path, _)| self.kustomized(path)).collect()
    }

    /// Returns paths and all that take them in, without those that take in what does not `pass`. Each way is gone once, whatever takes in whatever.
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

fn is_kustomization(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name))
}

/// Returns the kustomization's file in a directory.
fn file_in(directory: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| directory.join(name)).find(|file| file.is_file())
}

/// Tells whether a file that a kustomization takes in may hold batch work. What is not here may: kustomize takes it from the net, or something makes it.
fn may_hold_batch(path: &Path, options: &Options<'_>) -> bool {
    if path.is_dir() {
        return false;
    }
    load(path, options).is_none_or(|loaded| batch::is_in(loaded.bytes(), &options.limits()))
}

fn load(path: &Path, options: &Options<'_>) -> Option<Loaded> {
    source::load(&Input::named(path), options.max_file_size).ok()?.ok()
}

/// Reads a kustomization; nothing if it cannot be read: linting it says so.
fn read(path: &Path, options: &Options<'_>) -> Option<Kustomization> {
    let loaded = load(path, options)?;
    let limits = options.limits();
    let chunk = yaml::split(loaded.bytes(), &limits).next()?.ok()?;
    let document = yaml::parse(loaded.bytes(), &chunk, &limits).ok()?;
    let fields = document.value.as_object()?;
    let directory = path.parent()?;
    let mut patches = Vec::new();
    let mut patches_batch = false;
    for patch in patches_of(fields) {
        let file = patch.file.map(|file| normal(&directory.join(file)));
        let for_batch = patch.kind.is_none_or(may_be_kind)
            && match (&file, patch.text) {
                (Some(file), _) => load(file, options).is_none_or(|loaded| batch::is_patched_by(loaded.bytes(), &limits)),
                (None, Some(text)) => batch::is_patched_by(text.as_bytes(), &limits),
                (None, None) => true,
            };
        patches_batch |= for_batch;
        patches.extend(file.map(|file| (file, for_batch)));
    }
    let taken: Vec<&str> = ["resources", "bases", "components"].iter().flat_map(|key| list(fields, key)).filter_map(Value::as_str).collect();
    let is_remote = |item: &&str| item.contains("://") || item.contains("?ref=") || item.starts_with("git@") || item.starts_with("github.com/");
    Some(Kustomization {
        is_component: fields.get("kind").and_then(Value::as_str) == Some("Component"),
        changes: patches_batch || fields.keys().any(|key| !HARMLESS.contains(&key)),
        has_more: taken.iter().any(is_remote) || GENERATING.iter().any(|key| fields.get(key).is_some()),
        needs_helm: ["helmChartInflationGenerator", "helmCharts"].iter().any(|key| fields.get(key).is_some()),
        takes: taken.iter().filter(|item| !is_remote(item)).map(|item| normal(&directory.join(item))).collect(),
        patches,
    })
}

/// A patch, as a kustomization lists it.
struct Listed<'a> {
    file: Option<&'a str>,
    text: Option<&'a str>,
    /// The kind of its target.
    kind: Option<&'a str>,
}

fn patches_of(fields: &Map) -> impl Iterator<Item = Listed<'_>> {
    let with_target = ["patches", "patchesJson6902"].iter().flat_map(|key| list(fields, key)).map(|item| {
        let text = |key: &str| item.get(key).and_then(Value::as_str);
        Listed { file: text("path"), text: text("patch"), kind: item.get("target").and_then(|target| target.get("kind")?.as_str()) }
    });
    // An item may be the patch itself, which is no file.
    let merged = list(fields, "patchesStrategicMerge").iter().filter_map(Value::as_str).map(|item| {
        let is_text = item.contains('\n');
        Listed { file: (!is_text).then_some(item), text: is_text.then_some(item), kind: None }
    });
    with_target.chain(merged)
}

/// Tells whether the kind of a target, which is a regular expression, may be one of batch work.
fn may_be_kind(kind: &str) -> bool {
    batch::is_kind(kind) || !kind.chars().all(char::is_alphanumeric)
}

fn list<'a>(fields: &'a Map, key: &str) -> &'a [Value] {
    fields.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files of a directory, of which those with a path that begins with `in/` are inputs. Returns the kustomizations that are not rendered.
    fn unrendered(files: &[(&str, &str)]) -> (Vec<String>, Kustomizations, Vec<Input>) {
        let dir = tempfile::tempdir().unwrap();
        let mut inputs = Vec::new();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if name.starts_with("in/") {
                inputs.push(Input { path: path.to_string_lossy().into(), content: Content::File(path), named: false, root: None });
            }
        }
        let options = Options::default();
        let all = Kustomizations::of(&inputs, &options);
        let has_batch = |input: &Input| {
            let Content::File(path) = &input.content else { unreachable!() };
            (path.clone(), batch::is_in(&fs::read(path).unwrap(), &options.limits()))
        };
        let found = all.unrendered(&inputs.iter().map(has_batch).collect(), &options);
        let names = found.iter().map(|kustomized| {
            let place = Path::new(&*kustomized.path).strip_prefix(dir.path()).unwrap().parent().unwrap().to_string_lossy().into_owned();
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
    const WEB: (&str, &str) = ("in/base/web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {prometheus.io/job: web}}\n");
    const BASE: (&str, &str) = ("in/base/kustomization.yaml", "resources: [job.yaml]\n");

    #[test]
    fn a_kustomization_is_said_where_it_changes_batch_work() {
        let (names, all, inputs) = unrendered(&[
            JOB,
            BASE,
            ("in/prod/kustomization.yaml", "resources: [../base]\npatches:\n- path: more.yaml\n- {path: web.yaml, target: {kind: Deployment}}\n"),
            ("in/prod/more.yaml", "a: 1\n"),
            ("in/web/kustomization.yml", "resources: [../base/web.yaml]\nnamespace: web\n"),
            WEB,
            // They take in one another.
            ("in/ring/a/kustomization.yaml", "resources: [../b]\nnamespace: a\n"),
            ("in/ring/b/kustomization.yaml", "resources: [../a]\nnamespace: b\n"),
        ]);
        assert_eq!(names, ["in/prod"]);
        assert!(all.patch(&inputs[3]).is_some_and(|patch| patch.for_batch && patch.by.path.ends_with("prod/kustomization.yaml")));
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
            assert!(names(&[JOB, BASE, ("in/over/kustomization.yaml", text), ("in/over/web.yaml", "kind: Deployment\n")]).is_empty(), "{text}");
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
        assert_eq!(names(&[job, ("out/kustomization.yaml", "resources: [job.yaml]\n"), ("in/kustomization.yaml", "resources: [../out]\n")]), ["in"]);
        assert!(names(&[("out/web.yaml", WEB.1), ("in/kustomization.yaml", "resources: [../out/web.yaml]\n")]).is_empty());
        for text in
            ["resources: [../out/job.tpl]\n", "resources: [missing.yaml]\n", "generators: [g.yaml]\n", "resources: ['https://example.com/x.yaml']\n"]
        {
            assert_eq!(names(&[("in/kustomization.yaml", text), ("out/job.tpl", JOB.1)]), ["in"], "{text}");
        }
        assert_eq!(names(&[job, ("in/Kustomization", "resources: [../out/job.yaml]\n")]), ["in"]);
        // Whoever takes in what is reported need not be.
        let sub = ("in/a/kustomization.yaml", "resources: [../../out/job.yaml]\n");
        assert_eq!(names(&[job, sub, ("in/b/kustomization.yaml", "resources: [../a]\n")]), ["in/a"]);
        // What is beside a named file was not asked about.
        let beside = ("in/base/Kustomization", "resources: [job.yaml, ../../out/job.yaml]\n");
        let (_, all, inputs) = unrendered(&[JOB, job, beside]);
        let only: BTreeMap<PathBuf, bool> = inputs[..1].iter().map(|input| (PathBuf::from(&*input.path), true)).collect();
        assert!(all.unrendered(&only, &Options::default()).is_empty());
    }

    #[test]
    fn a_kustomization_says_how_it_is_rendered() {
        assert_eq!(names(&[("in/kustomization.yaml", "helmCharts: [{name: a}]\n")]), ["in (Helm)"]);
        let part = ("in/part/kustomization.yaml", "kind: Component\nresources: [../base/job.yaml]\nnamespace: x\n");
        assert_eq!(names(&[JOB, part]), ["in/part (component)"]);
        assert_eq!(names(&[JOB, part, ("in/over/kustomization.yaml", "components: [../part]\n")]), ["in/over"]);
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
