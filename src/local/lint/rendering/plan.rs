//! Plans what a run renders: the charts and kustomizations that may hold batch work, outermost first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::local::lint::chart;
use crate::local::lint::kustomization::{KustomizationTree, Kustomizations, WithBatchWork};
use crate::local::lint::options::Options;
use crate::local::lint::options::Rendering;
use crate::local::lint::run::LintRun;
use crate::local::lint::source;
use crate::local::paths::normal;
use crate::report::{Reason, Report};
use crate::text::value::Value;
use jobgate_lint::Input;
use jobgate_lint::Role;
use jobgate_lint::objects::first;

/// Something to render.
#[derive(Clone, Debug)]
pub(super) enum RenderJob {
    /// A chart, with files of values.
    Chart {
        /// Its directory.
        dir: PathBuf,
        /// Its file.
        file: PathBuf,
        /// The files of values.
        values: Vec<PathBuf>,
    },
    /// A kustomization.
    Kustomization(Arc<KustomizationTree>),
}

impl RenderJob {
    /// Returns the file that makes it a chart or a kustomization.
    pub(super) fn file(&self) -> &Path {
        match self {
            Self::Chart { file, .. } => file,
            Self::Kustomization(tree) => &tree.path,
        }
    }
}

/// Returns the charts to render, in the order of reports, and those that only serve others.
pub(super) fn charts(
    rendering: &Rendering,
    run: &LintRun<'_>,
    inputs: &[Input],
    files: &[Option<&Report>],
) -> (Vec<RenderJob>, Vec<PathBuf>) {
    let (mut jobs, mut libraries) = (Vec::new(), Vec::new());
    if !rendering.charts {
        return (jobs, libraries);
    }
    for dir in directories(inputs, files, run.options) {
        if is_library(&dir, run.options) {
            libraries.push(dir);
            continue;
        }
        if !rendering.tools.has_helm() {
            continue;
        }
        let matching = rendering.values.iter().filter(|values| values.charts.matches(&dir, true));
        let mut sets: Vec<Vec<PathBuf>> = matching.map(|values| values.files.clone()).collect();
        if sets.is_empty() {
            sets.push(Vec::new());
        }
        let file = dir.join(chart::CHART);
        let sets = sets.into_iter();
        jobs.extend(sets.map(|values| RenderJob::Chart { dir: dir.clone(), file: file.clone(), values }));
    }
    (jobs, libraries)
}

/// Returns the kustomizations to render. `known` are those that could not be and those that were rendered.
pub(super) fn kustomizations(
    rendering: &Rendering,
    run: &LintRun<'_>,
    kustomizations: &Kustomizations,
    with_work: &WithBatchWork<'_>,
    known: (&BTreeSet<PathBuf>, &BTreeSet<PathBuf>),
) -> Vec<RenderJob> {
    if !rendering.kustomizations || !rendering.tools.has_kustomize() {
        return Vec::new();
    }
    // Calling Helm means fetching the charts that it is called for.
    let trees = kustomizations.to_render(with_work, known, rendering.network, run.options);
    trees.into_iter().map(|tree| RenderJob::Kustomization(Arc::new(tree))).collect()
}

/// Returns the directories of the outermost charts that may hold batch work.
fn directories(inputs: &[Input], files: &[Option<&Report>], options: &Options<'_>) -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = BTreeSet::new();
    let mut known: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut take = |dir: &str| {
        let dir = normal(Path::new(dir));
        found.insert(known.entry(dir.clone()).or_insert_with(|| outermost(dir)).clone());
    };
    for (input, report) in inputs.iter().zip(files) {
        let Some(report) = report else { continue };
        let mut said = false;
        for unjudged in &report.unjudged {
            if let Reason::Chart(dir) = &unjudged.reason {
                take(dir);
                said = true;
            }
        }
        let speaks = report.objects > 0 || !report.unjudged.is_empty();
        if said || !(speaks || input.named) {
            continue;
        }
        let Some(dir) = chart::directory_of(input) else { continue };
        if speaks && chart::role(&dir, input) == Role::Template || input.named && is_part(&dir, input) {
            take(&dir);
        }
    }
    chart::with_more(inputs, options).iter().for_each(|(_, dir)| take(dir));
    found
}

/// Returns the chart that a chart is part of, or the chart itself.
fn outermost(dir: PathBuf) -> PathBuf {
    let mut dir = dir;
    while let Some(around) = dir
        .parent()
        .filter(|charts| charts.ends_with("charts"))
        .and_then(Path::parent)
        .filter(|around| around.join(chart::CHART).is_file())
    {
        dir = around.to_owned();
    }
    dir
}

/// Tells whether Helm reads a file of a chart: naming such a file brings in the chart.
fn is_part(dir: &str, input: &Input) -> bool {
    let Some(path) = input.content.file() else { return false };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (path, dir) = (normal(path), normal(Path::new(dir)));
    path.strip_prefix(&dir).is_ok_and(|inside| {
        inside.starts_with("templates")
            || inside.starts_with("charts")
            || inside.components().count() == 1 && (name == chart::CHART || name.starts_with("values"))
    })
}

/// The file in which charts of the first version of the format list their dependencies.
pub(super) const REQUIREMENTS: &str = "requirements.yaml";

/// Tells whether a chart only serves others.
pub(super) fn is_library(dir: &Path, options: &Options<'_>) -> bool {
    let value = read(&dir.join(chart::CHART), options);
    value.is_some_and(|value| value.get("type").and_then(Value::as_str) == Some("library"))
}

/// Returns the dependencies of a chart that are not in its directory `charts`, if there are any.
pub(super) fn missing_dependencies(dir: &Path, options: &Options<'_>) -> Option<Vec<String>> {
    let mut wanted = BTreeSet::new();
    for file in [chart::CHART, REQUIREMENTS] {
        let value = read(&dir.join(file), options);
        let listed = value.as_ref().and_then(|value| value.get("dependencies")).and_then(Value::as_array);
        let names = listed.into_iter().flatten().filter_map(|dependency| dependency.get("name")?.as_str());
        wanted.extend(names.map(str::to_owned));
    }
    if wanted.is_empty() {
        return None;
    }
    let mut packed = Vec::new();
    for entry in std::fs::read_dir(dir.join("charts")).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        wanted.remove(&name);
        if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
            packed.push(name);
        } else if let Some(chart) = read(&entry.path().join(chart::CHART), options) {
            wanted.remove(chart.get("name").and_then(Value::as_str).unwrap_or_default());
        }
    }
    let is_packed = |name: &String| {
        packed.iter().any(|file| file.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-')))
    };
    wanted.retain(|name| !is_packed(name));
    (!wanted.is_empty()).then(|| wanted.into_iter().collect())
}

pub(super) fn read(file: &Path, options: &Options<'_>) -> Option<Value> {
    let text = source::load(&Input::named(file), options.max_file_size).ok()?.ok()?;
    Some(first(text.bytes(), &options.limits())?.value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_chart_in_a_chart_is_rendered_with_it_and_lacks_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("a/Chart.yaml", "name: a\ndependencies: [{name: b}, {name: c}, {name: d}, {name: e-f}]\n");
        put("a/charts/b/Chart.yaml", "name: b\n");
        put("a/charts/b/charts/x/Chart.yaml", "name: x\ntype: library\n");
        put("a/charts/other/Chart.yaml", "name: c\n");
        put("a/charts/e-1.0.0.tgz", "");
        let options = Options::default();
        let root = dir.path().join("a");
        assert_eq!(outermost(root.join("charts/b/charts/x")), root);
        assert_eq!(outermost(root.clone()), root);
        assert_eq!(missing_dependencies(&root, &options), Some(vec!["d".to_owned(), "e-f".to_owned()]));
        put("a/charts/d-1.0.0.tgz", "");
        put("a/charts/e-f-1.0.0.tgz", "");
        assert_eq!(missing_dependencies(&root, &options), None);
        assert!(is_library(&root.join("charts/b/charts/x"), &options) && !is_library(&root, &options));
    }
}
