//! The configuration file of a project: what `jobgate lint`, `dry-run` and `audit` do without being told.
//!
//! It is found, read strictly, and put below the arguments, which win. Paths in it are relative to its
//! directory.

mod read;
mod schema;

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};

pub use schema::schema;

use super::policy_at;
use crate::cli::args::FailOn;
use crate::judge::policy::Policy;
use crate::judge::settings::{API_VERSION, SettingsErrors};
use crate::local::lint::{self, Patterns, Rendering, STDIN, normal, path_text};
use crate::text::lines::Position;
use crate::text::value::Value;
use crate::text::yaml;

/// `kind` of a configuration.
pub const KIND: &str = "Configuration";
/// The name of its file.
pub const FILE: &str = "jobgate.yaml";
/// The environment variable that names another file.
const VARIABLE: &str = "JOBGATE_CONFIG";
/// What a repository has in its root: the search ends there.
const REPOSITORY: &str = ".git";

/// A value, and where it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it starts.
    pub position: Position,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The path of the file, as it is shown.
    pub path: String,
    /// Its directory, as seen from the current one.
    directory: PathBuf,
    /// The policy: a name or a path.
    pub policy: Option<At<String>>,
    /// What is judged if no argument names a path.
    paths: Vec<String>,
    /// Patterns of what is skipped.
    exclude: Vec<String>,
    /// What holds for some paths instead; later ones win.
    pub overrides: Vec<Override>,
    /// The namespace of manifests without one.
    pub namespace: Option<String>,
    baseline: Option<String>,
    /// The lowest level that makes the exit code 1.
    pub fail_on: Option<FailOn>,
    facts: Vec<String>,
    /// The rules and checks that are used, as ids and globs; empty for all.
    pub select: Vec<String>,
    /// Those of them that are not.
    pub ignore: Vec<String>,
    /// How charts and kustomizations are rendered.
    pub render: Option<Render>,
}

/// How charts and kustomizations are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Render {
    /// Whether charts are.
    pub charts: bool,
    /// Whether kustomizations are.
    pub kustomizations: bool,
    /// Files of values for some charts, each set for a rendering of its own.
    values: Vec<Values>,
    /// How long one rendering may take.
    pub timeout: Option<Duration>,
    /// Whether what is not here is fetched.
    pub network: bool,
}

/// Files of values for some charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Values {
    /// Patterns of the charts' directories.
    charts: Vec<String>,
    files: Vec<String>,
}

/// Settings for some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Patterns of the paths.
    paths: Vec<String>,
    /// The policy: a name or a path.
    pub policy: Option<At<String>>,
    /// The namespace of manifests without one.
    pub namespace: Option<String>,
}

impl Configuration {
    /// Reads a configuration. `name` is the path of its file, for errors.
    ///
    /// # Errors
    /// All errors in the configuration.
    pub fn parse(source: &str, name: &str) -> Result<Self, SettingsErrors> {
        read::configuration(source, name)
    }

    /// Reads the configuration of a run in the directory `current`, if there is one: `named` by an argument
    /// or the environment, or found upwards from the first of the paths, or else from `current`.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn load(named: Option<&Path>, paths: &[PathBuf], current: &Path) -> anyhow::Result<Option<Self>> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or_else(|| variable.clone()) {
            let by = if named.is_none() { format!(" of {VARIABLE}") } else { String::new() };
            let source = fs::read_to_string(&path)
                .with_context(|| format!("read the configuration {}{by}", path.display()))?;
            return Self::of(&source, &path).map(Some);
        }
        let first = paths.first().filter(|path| path.as_os_str() != STDIN);
        let starts = first.map(|path| normal(&current.join(path))).into_iter().chain([current.to_owned()]);
        for start in starts {
            if let Some((path, source)) = find(&start)? {
                return Self::of(&source, &seen_from(current, &path)).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the configuration of the files in a directory, if there is one: `named` by an argument or the
    /// environment, or found upwards. `directory` is absolute, and so are the paths of what is found there.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn of_directory(named: Option<&Path>, directory: &Path) -> anyhow::Result<Option<Self>> {
        let variable = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
        if named.is_some() || variable {
            return Self::load(named, &[], directory);
        }
        find(directory)?.map(|(path, source)| Self::of(&source, &path)).transpose()
    }

    /// Returns the path of the configuration for a directory, if one is found and can be read.
    pub(super) fn path_for(directory: &Path) -> Option<PathBuf> {
        find(directory).ok().flatten().map(|(path, _)| path)
    }

    fn of(source: &str, path: &Path) -> anyhow::Result<Self> {
        let name = path_text(path);
        Ok(Self::parse(source, &name).context("the configuration is not valid")?.located(path))
    }

    /// Makes its paths relative to the directory of a file.
    pub(super) fn located(self, path: &Path) -> Self {
        Self { directory: path.parent().unwrap_or(Path::new("")).to_owned(), ..self }
    }

    /// Returns a path of the file as seen from the current directory.
    fn at(&self, path: &str) -> PathBuf {
        let path = normal(&self.directory.join(path));
        if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
    }

    /// Returns what is judged if no argument names a path.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.paths.iter().map(|path| self.at(path)).collect()
    }

    /// Returns the files of facts.
    #[must_use]
    pub fn facts(&self) -> Vec<PathBuf> {
        self.facts.iter().map(|path| self.at(path)).collect()
    }

    /// Returns the file of the baseline.
    #[must_use]
    pub fn baseline(&self) -> Option<PathBuf> {
        self.baseline.as_ref().map(|path| self.at(path))
    }

    /// Returns the patterns of what is skipped.
    ///
    /// # Errors
    /// None of those of a file that was read.
    pub fn exclude(&self, current: &Path) -> anyhow::Result<Patterns> {
        Ok(Patterns::new(&self.directory, current, self.exclude.iter().map(String::as_str))?)
    }

    /// Returns the patterns of an override.
    ///
    /// # Errors
    /// None of those of a file that was read.
    pub fn patterns(&self, over: &Override, current: &Path) -> anyhow::Result<Patterns> {
        Ok(Patterns::new(&self.directory, current, over.paths.iter().map(String::as_str))?)
    }

    /// Returns how charts and kustomizations are rendered, without the tools for it.
    ///
    /// # Errors
    /// None of those of a file that was read.
    pub fn rendering(&self, current: &Path) -> anyhow::Result<Rendering> {
        let Some(render) = &self.render else { return Ok(Rendering::default()) };
        let mut rendering = Rendering {
            charts: render.charts,
            kustomizations: render.kustomizations,
            network: render.network,
            ..Rendering::default()
        };
        rendering.timeout = render.timeout.unwrap_or(rendering.timeout);
        for Values { charts, files } in &render.values {
            rendering.values.push(lint::Values {
                charts: Patterns::new(&self.directory, current, charts.iter().map(String::as_str))?,
                files: files.iter().map(|file| self.at(file)).collect(),
            });
        }
        Ok(rendering)
    }

    /// Reads a policy that the file names.
    ///
    /// # Errors
    /// It cannot be read or is not valid; the error has the place in the file.
    pub fn read_policy(&self, named: &At<String>) -> anyhow::Result<Policy> {
        let At { value, position } = named;
        policy_at(value, |name| self.at(name))
            .map_err(|error| anyhow!("{}:{}:{}: {error:#}", self.path, position.line, position.column))
    }
}

/// Finds a configuration in a directory, or above it as far as the root of the repository.
fn find(start: &Path) -> anyhow::Result<Option<(PathBuf, String)>> {
    for directory in start.ancestors().filter(|directory| directory.is_dir()) {
        let path = directory.join(FILE);
        if path.is_file() {
            let source = fs::read_to_string(&path)
                .with_context(|| format!("read the configuration {}", path.display()))?;
            if !is_foreign(&source) {
                return Ok(Some((path, source)));
            }
        }
        if directory.join(REPOSITORY).exists() {
            break;
        }
    }
    Ok(None)
}

/// Tells whether a file is of something else: it may be a manifest that installs Jobgate.
fn is_foreign(source: &str) -> bool {
    let mut documents = yaml::documents(source.as_bytes()).flatten().filter(|read| !read.value.is_null());
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    documents.next().is_some_and(|first| {
        let group = API_VERSION.split('/').next().unwrap_or_default();
        text(&first.value, "apiVersion").is_some_and(|version| version.split('/').next() != Some(group))
            && text(&first.value, "kind").is_some_and(|kind| kind != KIND)
    })
}

/// Returns an absolute path as seen from a directory, where it is in it or above it.
pub(super) fn seen_from(current: &Path, path: &Path) -> PathBuf {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    if let Ok(below) = directory.strip_prefix(current) {
        return below.join(name);
    }
    match current.strip_prefix(directory) {
        Ok(down) => down.components().map(|_| Component::ParentDir).collect::<PathBuf>().join(name),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_current_directory() {
        for (path, seen) in [
            ("/a/b/jobgate.yaml", "jobgate.yaml"),
            ("/a/b/c/jobgate.yaml", "c/jobgate.yaml"),
            ("/jobgate.yaml", "../../jobgate.yaml"),
            ("/a/c/jobgate.yaml", "/a/c/jobgate.yaml"),
        ] {
            assert_eq!(seen_from(Path::new("/a/b"), Path::new(path)), Path::new(seen));
        }
        let configuration = Configuration { directory: "..".into(), ..Configuration::default() };
        for (path, at) in [("k8s", "../k8s"), (".", ".."), ("../x", "../../x"), ("/x", "/x")] {
            assert_eq!(configuration.at(path), Path::new(at));
        }
        assert_eq!(Configuration::default().at("./"), Path::new("."));
    }

    #[test]
    fn the_search_ends_at_the_root_of_the_repository() {
        let place = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        make("jobgate.yaml", "kind: Configuration");
        make("repo/.git/HEAD", "");
        make("repo/k8s/a/job.yaml", "");
        let found = |start: &str| find(&place.path().join(start)).unwrap().map(|(path, _)| path);
        assert_eq!(found("repo/k8s/a"), None);
        make("repo/jobgate.yaml", "a: [");
        assert_eq!(
            found("repo/k8s/a/job.yaml"),
            Some(place.path().join("repo/jobgate.yaml")),
            "broken or not"
        );
        assert_eq!(found("repo/gone/gone"), Some(place.path().join("repo/jobgate.yaml")));
        // Manifests that install Jobgate are passed over.
        make(
            "repo/k8s/jobgate.yaml",
            "apiVersion: v1\nkind: Namespace\n---\napiVersion: v1\nkind: Service\n",
        );
        assert_eq!(found("repo/k8s/a"), Some(place.path().join("repo/jobgate.yaml")));
        for meant in
            ["kind: Configuration", "apiVersion: jobgate.dev/v2\nkind: Config", "", "a: 1", "kind: Policy"]
        {
            make("repo/k8s/jobgate.yaml", meant);
            assert_eq!(found("repo/k8s/a"), Some(place.path().join("repo/k8s/jobgate.yaml")), "{meant}");
        }
    }
}
