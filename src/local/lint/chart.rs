//! Helm charts: which one a file is a template of, and what of a chart the linter never sees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::WalkBuilder;

use super::input::{Content, Input};
use super::paths::{normal, shown};
use super::{Options, batch, source};
use crate::text::value::Value;
use crate::text::yaml;

const CHART: &str = "Chart.yaml";
/// How far above the current directory a chart is looked for.
const ABOVE: usize = 8;

/// Returns the directory of the nearest chart above a file, as the user would type it.
pub(super) fn of(input: &Input) -> Option<Arc<str>> {
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

/// Returns the charts among the inputs that may render batch work of which the inputs show nothing: the path of the chart's file, and its directory.
/// Dependencies may be packed or not be here at all, and every file of `templates` is a template, whatever its name ends in.
pub(super) fn with_more(inputs: &[Input], options: &Options<'_>) -> Vec<(Arc<str>, Arc<str>)> {
    let files = inputs.iter().filter_map(|input| match &input.content {
        Content::File(path) => Some((input, path)),
        Content::Bytes(_) => None,
    });
    let charts: Vec<_> = files.clone().filter(|(_, path)| path.file_name().is_some_and(|name| name == CHART)).collect();
    let known: BTreeSet<PathBuf> = if charts.is_empty() { BTreeSet::new() } else { files.map(|(_, path)| normal(path)).collect() };
    let mut found = Vec::new();
    for (input, path) in charts {
        let dir = path.parent().unwrap_or(Path::new(""));
        if depends_on_more(input, dir, options) || has_more_templates(dir, &known, options) {
            found.push((shown(path).into(), shown(dir).into()));
        }
    }
    found
}

/// Tells whether a chart has dependencies that are not unpacked beside it.
fn depends_on_more(input: &Input, dir: &Path, options: &Options<'_>) -> bool {
    let charts = dir.join("charts");
    let is_packed =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| entry.path().extension().is_some_and(|ending| ending == "tgz"));
    if std::fs::read_dir(&charts).is_ok_and(|mut entries| entries.any(is_packed)) {
        return true;
    }
    let Some(chart) = source::load(input, options.max_file_size).ok().and_then(Result::ok) else { return false };
    let limits = options.limits();
    let document = yaml::split(chart.bytes(), &limits).next().and_then(|chunk| yaml::parse(chart.bytes(), &chunk.ok()?, &limits).ok());
    let Some(document) = document else { return false };
    let dependencies = document.value.get("dependencies").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = dependencies.iter().filter_map(|dependency| dependency.get("name")?.as_str());
    names.into_iter().any(|name| !charts.join(name).join(CHART).is_file())
}

/// Tells whether a chart has templates of batch work that are not among the inputs.
fn has_more_templates(dir: &Path, known: &BTreeSet<PathBuf>, options: &Options<'_>) -> bool {
    // Helm knows nothing of `.gitignore`.
    let walk = WalkBuilder::new(dir.join("templates")).standard_filters(false).build();
    let files = walk.filter_map(Result::ok).filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let is_rendered = |entry: &ignore::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        !name.starts_with(['_', '.']) && name != "NOTES.txt"
    };
    let more = files.filter(is_rendered).map(|entry| entry.into_path()).filter(|path| !known.contains(&normal(path)));
    more.into_iter().any(|path| {
        let loaded = source::load(&Input::named(&path), options.max_file_size);
        loaded.is_ok_and(|loaded| loaded.is_ok_and(|text| batch::is_in_template(text.bytes())))
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
        let of = |path: &str| of(&Input::named(&dir.path().join(path))).map(|dir| dir.rsplit('/').next().unwrap().to_owned());
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
