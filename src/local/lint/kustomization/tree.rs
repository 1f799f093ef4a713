//! The kustomizations to render, and what they include.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Kustomizations, WithBatchWork, file_in, is_kustomization, is_remote, load};
use crate::local::lint::options::Options;
use crate::text::value::{Map, Value};
use jobgate_lint::objects::first;

/// A kustomization to render, with all that it includes.
#[derive(Debug, Default)]
pub(in super::super) struct KustomizationTree {
    /// Its file.
    pub(in super::super) path: PathBuf,
    /// The files that it includes, kustomizations among them.
    pub(in super::super) files: BTreeSet<PathBuf>,
    /// Those that are patches.
    pub(in super::super) patches: BTreeSet<PathBuf>,
    /// Whether it is rendered with Helm.
    pub(in super::super) with_helm: bool,
    /// Something that it includes and that is missing here.
    pub(in super::super) absent: Option<Absent>,
}

/// Something that a kustomization names and that is missing here.
#[derive(Debug)]
pub(in super::super) enum Absent {
    /// Something on the network.
    Remote(String),
    /// A file or directory.
    Path(String),
}

impl Kustomizations {
    /// Returns the kustomizations to render: those that include batch work and that no other one of the run includes.
    /// One that includes itself is rendered, too, so that the tool reports it. `failed` are those that could not be
    /// rendered, whose parts may be, and `done` those that were. Those that need Helm are rendered only `with_helm`.
    pub(in super::super) fn to_render(
        &self,
        with_work: &WithBatchWork<'_>,
        (failed, done): (&BTreeSet<PathBuf>, &BTreeSet<PathBuf>),
        with_helm: bool,
        options: &Options<'_>,
    ) -> Vec<KustomizationTree> {
        let is_asked = |path: &PathBuf| {
            self.beside.contains(path)
                || with_work.inputs.contains_key(path)
                || self.read.get(path).is_some_and(|read| {
                    read.patches.iter().any(|(patch, _)| with_work.inputs.contains_key(patch))
                })
        };
        let candidates: BTreeSet<&PathBuf> =
            self.read.keys().filter(|path| with_work.batch.contains(*path) && is_asked(path)).collect();
        let candidates: BTreeSet<&PathBuf> = candidates
            .into_iter()
            .filter(|path| !failed.contains(*path) && !done.contains(*path))
            .filter(|path| with_helm || !self.with_helm.contains(*path))
            .collect();
        let is_taken = |path: &PathBuf| {
            self.takers.get(path).is_some_and(|takers| takers.iter().any(|taker| candidates.contains(taker)))
        };
        let is_component = |path: &PathBuf| self.read.get(path).is_some_and(|read| read.is_component);
        let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
        let mut trees = Vec::new();
        let (inner, outer): (Vec<&PathBuf>, Vec<&PathBuf>) =
            candidates.iter().copied().partition(|path| is_taken(path));
        for path in outer.into_iter().chain(inner) {
            if is_component(path) || reached.contains(path) {
                continue;
            }
            let tree = self.tree(path, options);
            reached.extend(tree.files.iter().filter(|file| is_kustomization(file)).cloned());
            trees.push(tree);
        }
        trees.sort_by(|a, b| a.path.cmp(&b.path));
        trees
    }

    fn tree(&self, path: &Path, options: &Options<'_>) -> KustomizationTree {
        let mut tree = KustomizationTree {
            path: path.to_owned(),
            with_helm: self.with_helm.contains(path),
            ..KustomizationTree::default()
        };
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            if !tree.files.insert(path.clone()) {
                continue;
            }
            let Some(read) = self.read.get(&path) else { continue };
            for taken in &read.takes {
                open.push(file_in(taken).unwrap_or_else(|| taken.clone()));
            }
            tree.patches.extend(read.patches.iter().map(|(patch, _)| patch.clone()));
            if tree.absent.is_none() {
                tree.absent = absent(&path, options);
            }
        }
        tree.files.extend(tree.patches.iter().cloned());
        tree
    }
}

/// Returns what a kustomization names that kustomize would look for on the network: what has the form of an address, or
/// does not exist here.
fn absent(path: &Path, options: &Options<'_>) -> Option<Absent> {
    const LISTS: [&str; 8] = [
        "resources",
        "bases",
        "components",
        "generators",
        "transformers",
        "validators",
        "configurations",
        "crds",
    ];
    let loaded = load(path, options)?;
    let document = first(loaded.bytes(), &options.limits())?;
    let fields = document.value.as_object()?;
    let directory = path.parent()?;
    let listed = || LISTS.iter().flat_map(|key| super::list(fields, key)).filter_map(Value::as_str);
    let is_absent = |item: &&str| !item.contains('\n') && !directory.join(item).exists();
    let remote = listed().find(|item| is_remote(item)).or_else(|| address(fields));
    let remote = remote.map(|item| Absent::Remote(item.to_owned()));
    remote.or_else(|| listed().find(is_absent).map(|item| Absent::Path(item.to_owned())))
}

/// Returns an address in the fields that name files.
fn address(fields: &Map) -> Option<&str> {
    let text =
        |value: &'_ Value| value.as_str().is_some_and(|text| text.contains("://") && !text.contains('\n'));
    let mut found = None;
    for key in ["patches", "patchesJson6902", "replacements"] {
        let paths = super::list(fields, key).iter().filter_map(|item| item.get("path"));
        found = found.or_else(|| paths.filter(|value| text(value)).find_map(Value::as_str));
    }
    for key in ["configMapGenerator", "secretGenerator"] {
        let items = super::list(fields, key).iter();
        let named = items.flat_map(|item| {
            let lists = ["files", "envs"].into_iter().filter_map(|key| item.get(key)?.as_array()).flatten();
            lists.chain(item.get("env"))
        });
        let mut named = named.filter(|value| text(value)).filter_map(Value::as_str);
        found = found.or_else(|| named.next());
    }
    let merged = super::list(fields, "patchesStrategicMerge").iter();
    found
        .or_else(|| merged.filter(|value| text(value)).find_map(Value::as_str))
        .or_else(|| fields.get("openapi")?.get("path").filter(|value| text(value))?.as_str())
}
