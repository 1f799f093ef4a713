//! Helm charts: the chart of a template, and the parts of a chart that the linter never sees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;

use super::options::Options;
use super::source;
use crate::local::paths::{normal, shown};
use crate::text::value::Value;
use jobgate_lint::batch;
use jobgate_lint::objects::first;
use jobgate_lint::{Input, Role};

/// The file that makes a directory a chart.
pub(super) const CHART: &str = "Chart.yaml";
/// Maximum levels above the current directory to search for a chart.
const ABOVE: usize = 8;

/// Returns the directory of the nearest chart above a file, as the user would type it.
pub(super) fn directory_of(input: &Input) -> Option<Arc<str>> {
    let path = input.content.file()?;
    let has_chart = |dir: &Path| dir.join(CHART).is_file();
    let mut ancestors = path.ancestors().skip(1);
    if let Some(dir) = ancestors.find(|dir| has_chart(dir)) {
        return Some(shown(dir).into());
    }
    // The current directory may be inside the chart.
    let depth =
        if path.is_relative() { std::env::current_dir().ok()?.components().count().min(ABOVE) } else { 0 };
    (1..depth)
        .map(|up| ["..", "/"].concat().repeat(up))
        .map(|dir| dir.trim_end_matches('/').to_owned())
        .find(|dir| has_chart(Path::new(dir)))
        .map(Into::into)
}

/// Returns the role of a file in a Helm chart.
pub(super) fn role(dir: &str, input: &Input) -> Role {
    let Some(path) = input.content.file() else { return Role::Other };
    // The chart may be above the current directory, and the path below it.
    let full = |path: &Path| std::path::absolute(path).map(|path| normal(&path)).ok();
    let (Some(path), Some(dir)) = (full(path), full(Path::new(dir))) else { return Role::Other };
    match path.strip_prefix(dir) {
        Ok(inside) if inside.starts_with("templates") => match inside.file_name() {
            Some(name) if name.to_string_lossy().starts_with('.') => Role::PassedOver,
            _ => Role::Template,
        },
        _ => Role::Other,
    }
}

/// Tells whether a file is the one that makes a directory a chart.
pub(super) fn is_chart(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == CHART)
}

/// Returns charts among the inputs that may render more batch work than the inputs show: the path of the
/// chart's file, and its directory. Dependencies may be packed or missing, and every file in `templates` is a
/// template, whatever its extension.
pub(super) fn with_more(inputs: &[Input], options: &Options<'_>) -> Vec<(Arc<str>, Arc<str>)> {
    let files = inputs.iter().filter_map(|input| input.content.file());
    let charts: Vec<_> = files.clone().filter(|path| is_chart(path)).collect();
    let known: BTreeSet<PathBuf> =
        if charts.is_empty() { BTreeSet::new() } else { files.map(|path| normal(path)).collect() };
    let mut found = Vec::new();
    for path in charts {
        let dir = path.parent().unwrap_or(Path::new(""));
        if depends_on_more(dir, &known, options) || has_more_templates(dir, &known, options) {
            found.push((shown(path).into(), shown(dir).into()));
        }
    }
    found
}

/// Tells whether a chart has dependencies that are not unpacked, or that have batch work outside the inputs.
fn depends_on_more(dir: &Path, known: &BTreeSet<PathBuf>, options: &Options<'_>) -> bool {
    let charts = dir.join("charts");
    let is_more = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // Charts among the inputs are reported themselves.
        let is_unseen = || path.join(CHART).is_file() && !known.contains(&normal(&path.join(CHART)));
        // Links may form a cycle.
        let is_here =
            || entry.file_type().is_ok_and(|kind| kind.is_dir()) && depends_on_more(&path, known, options);
        let is_packed = name.ends_with(".tgz") || name.ends_with(".tar.gz");
        // Helm ignores names that start with these.
        !name.starts_with(['_', '.'])
            && (is_packed || is_unseen() && (has_more_templates(&path, known, options) || is_here()))
    };
    let mut entries = std::fs::read_dir(&charts).into_iter().flatten().filter_map(Result::ok);
    // Charts of the first version of the format list their dependencies in a file of their own.
    entries.any(is_more)
        || [CHART, "requirements.yaml"]
            .iter()
            .any(|file| lacks_dependencies(&dir.join(file), &charts, options))
}

/// Tells whether a chart has a dependency that is not unpacked.
fn lacks_dependencies(file: &Path, charts: &Path, options: &Options<'_>) -> bool {
    let Some(text) = source::load(&Input::named(file), options.max_file_size).ok().and_then(Result::ok)
    else {
        return false;
    };
    let Some(document) = first(text.bytes(), &options.limits()) else { return false };
    let dependencies =
        document.value.get("dependencies").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut names = dependencies.iter().filter_map(|dependency| dependency.get("name")?.as_str());
    names.any(|name| !charts.join(name).join(CHART).is_file())
}

/// Tells whether a chart has templates of batch work that are not among the inputs.
fn has_more_templates(dir: &Path, known: &BTreeSet<PathBuf>, options: &Options<'_>) -> bool {
    let templates = dir.join("templates");
    // A link may lead to the whole system. Helm would follow it.
    if templates.is_symlink() {
        return true;
    }
    // Helm does not read `.gitignore`.
    let walk = WalkBuilder::new(templates).standard_filters(false).build();
    let files =
        walk.filter_map(Result::ok).filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let is_rendered = |entry: &ignore::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        !name.starts_with(['_', '.']) && name != "NOTES.txt"
    };
    let more = files
        .filter(is_rendered)
        .map(|entry| entry.into_path())
        .filter(|path| !known.contains(&normal(path)));
    more.into_iter().any(|path| {
        let loaded = source::load(&Input::named(&path), options.max_file_size);
        loaded.is_ok_and(|loaded| loaded.is_ok_and(|text| batch::is_in_template(text.bytes(), true)))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(dir: &Path, name: &str, text: &str) -> Input {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        Input::named(&path)
    }

    #[test]
    fn the_nearest_chart_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let nested = "charts/train/charts/sub/templates/jobs/job.yaml";
        write(dir.path(), nested, "");
        let of = |path: &str| {
            directory_of(&Input::named(&dir.path().join(path)))
                .map(|dir| dir.rsplit('/').next().unwrap().to_owned())
        };
        assert_eq!(of(nested), None);
        write(dir.path(), "charts/train/Chart.yaml", "");
        assert_eq!(of(nested).as_deref(), Some("train"));
        write(dir.path(), "charts/train/charts/sub/Chart.yaml", "");
        assert_eq!(of(nested).as_deref(), Some("sub"));
        assert_eq!(of("charts/train/templates/a.yaml").as_deref(), Some("train"));
    }

    #[test]
    fn a_chart_may_hold_what_no_input_shows() {
        let dir = tempfile::tempdir().unwrap();
        let job = "{{ if .x }}\nkind: Job\n{{ end }}\n";
        let inputs = [
            write(dir.path(), "all-here/Chart.yaml", "dependencies: [{name: sub}]\n"),
            write(dir.path(), "all-here/templates/a.yaml", job),
            write(dir.path(), "all-here/charts/sub/Chart.yaml", "name: sub\n"),
            write(dir.path(), "missing/Chart.yaml", "dependencies: [{name: sub}]\n"),
            write(dir.path(), "packed/Chart.yaml", "name: packed\n"),
            write(dir.path(), "other-names/Chart.yaml", "name: other\n"),
            write(dir.path(), "helpers/Chart.yaml", "name: helpers\n"),
        ];
        write(dir.path(), "packed/charts/sub-1.0.0.tgz", "");
        write(dir.path(), "other-names/templates/jobs/a.tpl", job);
        write(dir.path(), "helpers/templates/_helpers.tpl", job);
        write(dir.path(), "helpers/templates/NOTES.txt", "This chart runs a Job.");
        write(dir.path(), "helpers/templates/service.tpl", "kind: Service\n");
        let found = with_more(&inputs, &Options::default());
        let names: Vec<&str> = found.iter().map(|(_, dir)| dir.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["missing", "packed", "other-names"]);
    }
}
