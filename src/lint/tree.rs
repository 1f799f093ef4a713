//! What the files around a file say of it: the chart that it is a template of, and the kustomizations that list it as a patch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memchr::memmem::Finder;

use super::Options;
use super::input::{Content, Input};
use super::source;
use crate::value::Value;
use crate::workload::others;
use crate::yaml;

/// The names that kustomize gives its file.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
const CHART: &str = "Chart.yaml";
/// How far above the current directory a chart is looked for.
const ABOVE: usize = 8;

/// What only takes other files in as they are, or says something of the kustomization itself.
const HARMLESS: [&str; 5] = ["apiVersion", "kind", "metadata", "resources", "bases"];

/// The kustomizations beside and among the inputs.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Those that change what they take in, by their files' paths: the directory to render.
    changing: BTreeMap<PathBuf, Arc<str>>,
    /// The files that are patches: who lists them, and whether it is for a kind that is batch work.
    patches: BTreeMap<PathBuf, Patch>,
}

/// A file that a kustomization lists as a patch.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// The kustomization's path.
    pub(super) by: Arc<str>,
    /// Whether it may be for a batch kind, by the target that the kustomization names.
    pub(super) for_batch: bool,
}

/// One kustomization, read.
struct Kustomization {
    changes: bool,
    /// Whether it takes in what is not here: a chart, or something of the net.
    remote: bool,
    takes: Vec<PathBuf>,
    patches: Vec<(PathBuf, bool)>,
}

impl Tree {
    pub(super) fn of(inputs: &[Input], options: &Options<'_>) -> Self {
        let mut candidates: BTreeSet<PathBuf> = BTreeSet::new();
        let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
        for input in inputs {
            let Content::File(path) = &input.content else { continue };
            let Some(parent) = path.parent() else { continue };
            // A patch is mostly in the directory of its kustomization, or in one below it, which may be all that is walked.
            let directory = normal(parent);
            if let Some(above) = directory.parent() {
                directories.insert(above.to_owned());
            }
            directories.insert(directory);
        }
        for directory in &directories {
            let name = KUSTOMIZATIONS.iter().find(|name| directory.join(name).is_file());
            candidates.extend(name.map(|name| directory.join(name)));
        }
        let mut reads: BTreeMap<PathBuf, Option<Kustomization>> = candidates.iter().map(|path| (path.clone(), read(path, options))).collect();
        let taking = taking_batch(&mut reads, options);
        let mut tree = Self::default();
        for path in candidates {
            let Some(Some(read)) = reads.get(&path) else { continue };
            let dir: Arc<str> = shown(path.parent().unwrap_or(Path::new(""))).into();
            for (file, for_batch) in &read.patches {
                let by = shown(&path).into();
                tree.patches.entry(file.clone()).or_insert(Patch { by, for_batch: *for_batch });
            }
            if (read.changes || read.remote) && taking.contains(&path) {
                tree.changing.insert(path, dir);
            }
        }
        tree
    }

    /// Returns who lists a file as a patch.
    pub(super) fn patch(&self, input: &Input) -> Option<&Patch> {
        let Content::File(path) = &input.content else { return None };
        if self.patches.is_empty() {
            return None;
        }
        self.patches.get(&normal(path))
    }

    /// Returns the kustomizations that change batch work, as paths of their files and their directories.
    pub(super) fn changing(&self) -> impl Iterator<Item = (Arc<str>, &Arc<str>)> {
        self.changing.iter().map(|(path, dir)| (shown(path).into(), dir))
    }
}

/// Reads a kustomization; nothing if it cannot be read: linting it says so.
fn read(path: &Path, options: &Options<'_>) -> Option<Kustomization> {
    let loaded = source::load(&Input::named(path), options.max_file_size).ok()?.ok()?;
    let limits = options.limits();
    let chunk = yaml::split(loaded.bytes(), &limits).next()?.ok()?;
    let document = yaml::parse(loaded.bytes(), &chunk, &limits).ok()?;
    let fields = document.value.as_object()?;
    let directory = path.parent()?;
    let list = |key: &str| fields.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut patches = Vec::new();
    for item in list("patches").iter().chain(list("patchesJson6902")) {
        let kind = item.get("target").and_then(|target| target.get("kind")?.as_str());
        let for_batch = kind.is_none_or(|kind| WORDS.iter().any(|word| kind.contains(word)) || others().any(|(_, kinds)| kinds.contains(&kind)));
        patches.extend(item.get("path").and_then(Value::as_str).map(|file| (normal(&directory.join(file)), for_batch)));
    }
    // An item may be the patch itself, which is no file.
    let files = list("patchesStrategicMerge").iter().filter_map(Value::as_str).filter(|file| !file.contains('\n'));
    patches.extend(files.map(|file| (normal(&directory.join(file)), true)));
    let taken: Vec<&str> = ["resources", "bases", "components"].iter().flat_map(|key| list(key)).filter_map(Value::as_str).collect();
    let is_remote = |item: &&str| item.contains("://") || item.contains("?ref=") || item.starts_with("git@") || item.starts_with("github.com/");
    Some(Kustomization {
        changes: fields.keys().any(|key| !HARMLESS.contains(&key)),
        remote: taken.iter().any(is_remote) || ["helmCharts", "helmChartInflationGenerator"].iter().any(|key| fields.get(key).is_some()),
        takes: taken.iter().filter(|item| !is_remote(item)).map(|item| normal(&directory.join(item))).collect(),
        patches,
    })
}

/// Returns the files and directories of kustomizations through which some batch work is taken in. Each file is looked at once, and then each way back
/// from what was found: a look from every kustomization would be the square of a chain's length.
fn taking_batch(reads: &mut BTreeMap<PathBuf, Option<Kustomization>>, options: &Options<'_>) -> BTreeSet<PathBuf> {
    let mut open: Vec<PathBuf> = reads.keys().cloned().collect();
    let mut seen = BTreeSet::new();
    let mut takers: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let is_kustomization = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| KUSTOMIZATIONS.contains(&name));
        let taken: Vec<PathBuf> = if path.is_dir() {
            KUSTOMIZATIONS.iter().map(|name| path.join(name)).find(|file| file.is_file()).into_iter().collect()
        } else if is_kustomization {
            let Some(kustomization) = reads.entry(path.clone()).or_insert_with(|| read(&path, options)) else { continue };
            if kustomization.remote {
                found.push(path.clone());
            }
            let patches = kustomization.patches.iter().filter(|(_, for_batch)| *for_batch).map(|(file, _)| file);
            kustomization.takes.iter().chain(patches).cloned().collect()
        } else {
            let loaded = source::load(&Input::named(&path), options.max_file_size);
            if loaded.is_ok_and(|loaded| loaded.is_ok_and(|loaded| mentions_batch(loaded.bytes()))) {
                found.push(path.clone());
            }
            Vec::new()
        };
        for child in taken {
            takers.entry(child.clone()).or_default().push(path.clone());
            open.push(child);
        }
    }
    let mut taking = BTreeSet::new();
    while let Some(path) = found.pop() {
        if taking.insert(path.clone()) {
            found.extend(takers.remove(&path).unwrap_or_default());
        }
    }
    taking
}

/// The words that are in the names of most batch kinds, and in those of their fields.
const WORDS: [&str; 2] = ["Job", "job"];

/// Tells whether a text may speak of batch work: of the kinds that are judged, or of one that is known.
pub(super) fn mentions_batch(text: &[u8]) -> bool {
    let has = |word: &str| Finder::new(word).find(text).is_some();
    WORDS.iter().any(|word| has(word)) || others().flat_map(|(_, kinds)| kinds).filter(|kind| !kind.contains("Job")).any(|kind| has(kind))
}

/// Returns the directory of the nearest chart above a file, as the user would type it.
pub(super) fn chart_of(input: &Input) -> Option<Arc<str>> {
    let Content::File(path) = &input.content else { return None };
    let is_chart = |dir: &Path| dir.join(CHART).is_file();
    let mut ancestors = path.ancestors().skip(1);
    if let Some(dir) = ancestors.find(|dir| is_chart(dir)) {
        return Some(shown(dir).into());
    }
    // The chart may be what the user is in.
    let depth = if path.is_relative() { std::env::current_dir().ok()?.components().count().min(ABOVE) } else { 0 };
    (1..depth)
        .map(|up| ["..", "/"].concat().repeat(up))
        .map(|dir| dir.trim_end_matches('/').to_owned())
        .find(|dir| is_chart(Path::new(dir)))
        .map(Into::into)
}

/// Returns a path without `.` and, as far as the path alone says, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => _ = out.pop(),
            part => out.push(part),
        }
    }
    out
}

fn shown(path: &Path) -> String {
    let path = normal(path);
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn paths_are_put_in_one_form() {
        for (path, form) in [("./a/../b", "b"), ("../a", "../a"), ("a/b/../../c", "c"), ("/x/./y", "/x/y"), ("../../a/..", "../..")] {
            assert_eq!(normal(Path::new(path)), Path::new(form));
        }
        assert_eq!((shown(Path::new("./")), shown(Path::new(""))), (".".to_owned(), ".".to_owned()));
    }

    #[test]
    fn a_kustomization_is_said_where_it_changes_batch_work() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            Input { path: path.to_string_lossy().into(), content: Content::File(path), named: false, root: None }
        };
        let inputs = [
            write("base/job.yaml", "kind: Job\n"),
            write("base/kustomization.yaml", "resources: [job.yaml]\n"),
            write("prod/kustomization.yaml", "resources: [../base]\npatches:\n- path: more.yaml\n- {path: web.yaml, target: {kind: Deployment}}\n"),
            write("prod/more.yaml", "a: 1\n"),
            write("web/deployment.yaml", "kind: Deployment\n"),
            write("web/kustomization.yml", "resources: [deployment.yaml]\nnamespace: web\n"),
            write("net/kustomization.yaml", "resources: ['https://example.com/x.yaml']\n"),
            // They take in one another.
            write("ring/a/kustomization.yaml", "resources: [../b]\nnamespace: a\n"),
            write("ring/b/kustomization.yaml", "resources: [../a]\nnamespace: b\n"),
        ];
        let tree = Tree::of(&inputs, &Options::default());
        let said: Vec<String> = tree.changing().map(|(_, dir)| dir.rsplit('/').next().unwrap().to_owned()).collect();
        assert_eq!(said, ["net", "prod"]);
        assert!(tree.patch(&inputs[3]).is_some_and(|patch| patch.for_batch && patch.by.ends_with("prod/kustomization.yaml")));
        assert!(tree.patch(&inputs[0]).is_none());
        assert!(tree.patches.values().any(|patch| !patch.for_batch));
    }

    #[test]
    fn the_nearest_chart_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("charts/train/charts/sub/templates/jobs");
        fs::create_dir_all(&nested).unwrap();
        let named = |path: PathBuf| Input::named(&path);
        assert_eq!(chart_of(&named(nested.join("job.yaml"))), None);
        fs::write(dir.path().join("charts/train/Chart.yaml"), "").unwrap();
        let of = |path: &str| chart_of(&named(dir.path().join(path))).map(|dir| dir.rsplit('/').next().unwrap().to_owned());
        assert_eq!(of("charts/train/charts/sub/templates/jobs/job.yaml").as_deref(), Some("train"));
        fs::write(dir.path().join("charts/train/charts/sub/Chart.yaml"), "").unwrap();
        assert_eq!(of("charts/train/charts/sub/templates/jobs/job.yaml").as_deref(), Some("sub"));
        assert_eq!(of("charts/train/templates/a.yaml").as_deref(), Some("train"));
    }

    #[test]
    fn batch_work_is_known_by_its_words() {
        assert!(mentions_batch(b"kind: Job") && mentions_batch(b"kind: RayCluster") && mentions_batch(b"{{ .Values.job }}"));
        assert!(!mentions_batch(b"kind: Deployment"));
    }
}
