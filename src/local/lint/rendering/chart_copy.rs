//! A copy of a chart that does not list its missing dependencies.

use std::fs;
use std::io;
use std::path::Path;

use ignore::WalkBuilder;
use tempfile::TempDir;

use super::plan;
use crate::local::lint::chart::CHART;
use crate::local::lint::options::Options;
use crate::text::value::Value;
use crate::text::yaml;

/// The name of the copy in its folder.
pub(super) const CHART_COPY: &str = "chart";
/// Maximum files and bytes of a copy; a chart is a package of some hundred kilobytes.
const MOST_FILES: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;

/// Copies a chart into a folder of its own, without the dependencies of some names.
///
/// # Errors
/// It cannot be read or written, or has too much in it.
pub(super) fn copy(dir: &Path, missing: &[String], options: &Options<'_>) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("jobgate-").tempdir()?;
    let target = folder.path().join(CHART_COPY);
    let (mut files, mut bytes) = (0, 0);
    // The targets of links were checked before: Helm would follow them, too.
    for entry in WalkBuilder::new(dir).standard_filters(false).follow_links(true).build() {
        let entry = entry.map_err(io::Error::other)?;
        let to = target.join(entry.path().strip_prefix(dir).map_err(io::Error::other)?);
        let metadata = fs::metadata(entry.path())?;
        if metadata.is_dir() {
            fs::create_dir_all(&to)?;
            continue;
        }
        files += 1;
        bytes += metadata.len();
        if files > MOST_FILES || bytes > MOST_BYTES || !metadata.is_file() {
            return Err(io::Error::other("it has too many files"));
        }
        fs::copy(entry.path(), &to)?;
    }
    for file in [CHART, plan::REQUIREMENTS] {
        let to = target.join(file);
        let Some(mut chart) = plan::read(&dir.join(file), options) else { continue };
        let Some(dependencies) = chart.get_mut("dependencies").and_then(Value::as_array_mut) else {
            continue;
        };
        let is_there = |dependency: &Value| {
            let name = dependency.get("name").and_then(Value::as_str);
            name.is_none_or(|name| !missing.iter().any(|missing| missing == name))
        };
        dependencies.retain(is_there);
        // The file may be read-only, so it is not overwritten.
        fs::remove_file(&to)?;
        fs::write(&to, yaml::print(&chart))?;
    }
    Ok(folder)
}
