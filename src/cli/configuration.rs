//! The configuration file of a project: defaults for `jobgate lint`, `dry-run` and `audit`.
//!
//! It is found, read strictly, and overridden by the arguments. Paths in it are relative to its directory.
//!
//! A configuration that was found is not trusted: whoever lints a repository has not read its `jobgate.yaml`. It cannot
//! name files outside its directory, turn on the network or let anybody wait for long. One that the user names can.

mod read;
mod schema;
pub mod tables;

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

pub use schema::schema;

use super::{Source, policy_at};
use crate::cli::args::FailOn;
use crate::judge::policy::Policy;
use crate::judge::settings::{API_VERSION, SettingsErrors};
use crate::local::files::{self, Barred, MAX_SETTINGS_BYTES, Tree};
use crate::local::lint::{self, Patterns, Rendering, STDIN, normal, path_text};
use crate::report::clean;
use crate::text::lines::Position;
use crate::text::value::Value;
use crate::text::yaml;

/// `kind` of a configuration.
pub(crate) const KIND: &str = "Configuration";
/// The name of its file.
pub(crate) const FILE: &str = "jobgate.yaml";
/// The environment variable that names another file.
const VARIABLE: &str = "JOBGATE_CONFIG";
/// An entry in the root of a repository, where the search ends.
const REPOSITORY: &str = ".git";
/// Maximum time for one rendering, and for all of them, if the user did not name the configuration.
const LONGEST: Duration = Duration::from_secs(60);
const LONGEST_OF_ALL: Duration = Duration::from_secs(600);

/// A value, and where it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it starts.
    pub(crate) position: Position,
}

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The path of the file, as it is shown.
    pub(crate) path: String,
    /// Its directory, as seen from the current one.
    directory: PathBuf,
    /// The tree that its paths must be in, if it was found and not named.
    within: Option<Tree>,
    /// The policy: a name or a path.
    pub(crate) policy: Option<At<String>>,
    /// The paths to judge if no argument names one.
    paths: Vec<String>,
    /// Patterns of paths to skip.
    exclude: Vec<String>,
    /// Settings for some paths; later ones win.
    pub(crate) overrides: Vec<Override>,
    /// The namespace of manifests without one.
    pub(crate) namespace: Option<String>,
    baseline: Option<String>,
    /// The lowest level that makes the exit code 1.
    pub(crate) fail_on: Option<FailOn>,
    facts: Vec<String>,
    /// The rules and checks that are used, as ids and globs; empty for all.
    pub(crate) select: Vec<String>,
    /// Those of them that are not used.
    pub(crate) ignore: Vec<String>,
    /// How charts and kustomizations are rendered.
    pub(crate) render: Option<Render>,
}

/// How charts and kustomizations are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Render {
    /// Whether charts are.
    pub(crate) charts: bool,
    /// Whether kustomizations are.
    pub(crate) kustomizations: bool,
    /// Files of values for some charts, each set for a rendering of its own.
    values: Vec<ChartValues>,
    /// How long one rendering may take.
    pub(crate) timeout: Option<Duration>,
    /// Whether what is missing locally is fetched.
    pub(crate) network: bool,
    /// The directories whose rendering may fail.
    allow_failures: Vec<String>,
}

/// Files of values for some charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ChartValues {
    /// Patterns of the charts' directories.
    charts: Vec<String>,
    files: Vec<String>,
}

/// Settings for some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Override {
    /// Patterns of the paths.
    paths: Vec<String>,
    /// The policy: a name or a path.
    pub(crate) policy: Option<At<String>>,
    /// The namespace of manifests without one.
    pub(crate) namespace: Option<String>,
}

impl Configuration {
    /// Reads a configuration. `name` is the path of its file, for errors.
    ///
    /// # Errors
    /// All errors in the configuration.
    pub(crate) fn parse(source: &str, name: &str) -> Result<Self, SettingsErrors> {
        read::configuration(source, name)
    }

    /// Reads the configuration of a run in the directory `current`, if there is one: `named` by an argument
    /// or the environment, or found upwards from the first of the paths, or else from `current`.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub(crate) fn load(
        named: Option<&Path>,
        paths: &[PathBuf],
        current: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or_else(|| variable.clone()) {
            let by = if named.is_none() { format!(" of {VARIABLE}") } else { String::new() };
            let source = files::named(&path, MAX_SETTINGS_BYTES)
                .and_then(files::text)
                .with_context(|| format!("read the configuration {}{by}", path_text(&path)))?;
            return Self::new(&source, &path).map(Some);
        }
        let first = paths.first().filter(|path| path.as_os_str() != STDIN);
        let starts = first.map(|path| normal(&current.join(path))).into_iter().chain([current.to_owned()]);
        for start in starts {
            if let Some((path, source)) = find(&start)? {
                return Ok(Some(Self::new(&source, &seen_from(current, &path))?.found()));
            }
        }
        Ok(None)
    }

    /// Reads the configuration of the files in a directory, if there is one: `named` by an argument or the
    /// environment, or found upwards. `directory` is absolute, and so are the paths of what is found there.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub(crate) fn from_directory(named: Option<&Path>, directory: &Path) -> anyhow::Result<Option<Self>> {
        let variable = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
        if named.is_some() || variable {
            return Self::load(named, &[], directory);
        }
        find(directory)?.map(|(path, source)| Ok(Self::new(&source, &path)?.found())).transpose()
    }

    /// Returns the path of the configuration for a directory, if one is found and can be read.
    pub(super) fn path_for(directory: &Path) -> Option<PathBuf> {
        find(directory).ok().flatten().map(|(path, _)| path)
    }

    fn new(source: &str, path: &Path) -> anyhow::Result<Self> {
        let name = clean(&path_text(path)).into_owned();
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

    /// Marks it as found and not named.
    fn found(self) -> Self {
        Self { within: Some(Tree::new([&*self.directory])), ..self }
    }

    /// Returns a path that a key names.
    ///
    /// # Errors
    /// It leads out of the directory of a configuration that was found, or to something that may never end.
    fn own(&self, key: &str, path: &str) -> anyhow::Result<PathBuf> {
        let at = self.at(path);
        let Some(tree) = &self.within else { return Ok(at) };
        let named = || format!("{}: `{key}` names {}", self.path, path_text(&at));
        // For a missing path or a pattern, the nearest existing directory counts.
        if !at
            .ancestors()
            .find(|at| at.as_os_str().is_empty() || at.exists())
            .is_some_and(|at| tree.has_here(at))
        {
            bail!("{}, which is outside its directory; {}", named(), self.help());
        }
        if fs::metadata(&at).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            bail!("{}, which is not a regular file", named());
        }
        Ok(at)
    }

    fn all_own(&self, key: &str, paths: &[String]) -> anyhow::Result<Vec<PathBuf>> {
        paths.iter().map(|path| self.own(key, path)).collect()
    }

    /// Returns the help for a setting that only a named configuration may have.
    fn help(&self) -> String {
        format!("`--config {}` allows it", self.path)
    }

    /// Returns the paths to judge if no argument names one.
    ///
    /// # Errors
    /// A path leads out of the directory.
    pub(crate) fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.all_own("paths", &self.paths)
    }

    /// Returns the files of facts.
    ///
    /// # Errors
    /// A path leads out of the directory.
    pub(crate) fn facts(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.all_own("facts", &self.facts)
    }

    /// Returns the file of the baseline.
    ///
    /// # Errors
    /// It leads out of the directory.
    pub(crate) fn baseline(&self) -> anyhow::Result<Option<Source>> {
        let own =
            |path: &String| Ok(Source { path: self.own("baseline", path)?, within: self.within.clone() });
        self.baseline.as_ref().map(own).transpose()
    }

    /// Returns the tree that its paths must be in, if it was found and not named.
    #[must_use]
    pub(crate) fn within(&self) -> Option<&Tree> {
        self.within.as_ref()
    }

    /// Returns messages about settings that are ignored because it was found and not named.
    #[must_use]
    pub(crate) fn not_done(&self) -> Vec<String> {
        let Some(render) = self.render.as_ref().filter(|_| self.within.is_some()) else { return Vec::new() };
        let mut said = Vec::new();
        if render.network {
            said.push(format!("{}: `render.network` is not used; {}", self.path, self.help()));
        }
        if render.timeout.is_some_and(|timeout| timeout > LONGEST) {
            let longest = LONGEST.as_secs();
            said.push(format!(
                "{path}: `render.timeout` is {longest}s; `--config {path}` allows more",
                path = self.path
            ));
        }
        said
    }

    /// Returns the patterns of paths to skip.
    ///
    /// # Errors
    /// None, if the configuration was read from a file.
    pub(crate) fn exclude(&self, current: &Path) -> anyhow::Result<Patterns> {
        Ok(Patterns::new(&self.directory, current, self.exclude.iter().map(String::as_str))?)
    }

    /// Returns the patterns of an override.
    ///
    /// # Errors
    /// None, if the configuration was read from a file.
    pub(crate) fn patterns(&self, over: &Override, current: &Path) -> anyhow::Result<Patterns> {
        Ok(Patterns::new(&self.directory, current, over.paths.iter().map(String::as_str))?)
    }

    /// Returns how charts and kustomizations are rendered, without the tools for it.
    ///
    /// # Errors
    /// A file of values leads out of the directory.
    pub(crate) fn rendering(&self, current: &Path) -> anyhow::Result<Rendering> {
        let Some(render) = &self.render else { return Ok(Rendering::default()) };
        let mut rendering = Rendering {
            charts: render.charts,
            kustomizations: render.kustomizations,
            network: render.network && self.within.is_none(),
            within: self.within.clone(),
            ..Rendering::default()
        };
        rendering.timeout = render.timeout.unwrap_or(rendering.timeout);
        rendering.timeout_of_all = rendering.timeout * lint::TIMEOUTS;
        if self.within.is_some() {
            rendering.timeout = rendering.timeout.min(LONGEST);
            rendering.timeout_of_all = (rendering.timeout * lint::TIMEOUTS).min(LONGEST_OF_ALL);
        }
        if !render.allow_failures.is_empty() {
            let allowed = render.allow_failures.iter().map(String::as_str);
            rendering.allowed = Some(Patterns::new(&self.directory, current, allowed)?);
        }
        for ChartValues { charts, files } in &render.values {
            rendering.values.push(lint::Values {
                charts: Patterns::new(&self.directory, current, charts.iter().map(String::as_str))?,
                files: self.all_own("values", files)?,
            });
        }
        Ok(rendering)
    }

    /// Reads a policy that the file names.
    ///
    /// # Errors
    /// It cannot be read or is not valid; the error has the place in the file.
    pub(crate) fn read_policy(&self, named: &At<String>) -> anyhow::Result<Policy> {
        let At { value, position } = named;
        let read = |path: &Path| match &self.within {
            Some(tree) => tree.read(path, MAX_SETTINGS_BYTES),
            None => files::named(path, MAX_SETTINGS_BYTES),
        };
        policy_at(value, |name| self.at(name), read)
            .map_err(|error| match error.downcast_ref() {
                Some(Barred::Outside) => anyhow!("{error:#} of the configuration; {}", self.help()),
                _ => error,
            })
            .with_context(|| format!("{}:{}:{}", self.path, position.line, position.column))
    }
}

/// Finds a configuration in a directory, or above it as far as the root of the repository.
fn find(start: &Path) -> anyhow::Result<Option<(PathBuf, String)>> {
    for directory in start.ancestors().filter(|directory| directory.is_dir()) {
        let path = directory.join(FILE);
        if path.is_file() {
            // It may be a link to the one of the whole repository, but not out of the repository.
            let source = Tree::new([root_of(directory)])
                .read(&path, MAX_SETTINGS_BYTES)
                .and_then(files::text)
                .with_context(|| format!("read the configuration {}", path_text(&path)))?;
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

/// Returns the root of the repository of a directory, or else the directory.
fn root_of(directory: &Path) -> &Path {
    directory.ancestors().find(|above| above.join(REPOSITORY).exists()).unwrap_or(directory)
}

/// Tells whether a file is not a configuration: it may be a manifest that installs Jobgate.
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
