//! Charts and kustomizations, rendered by the tools that the machine has: in a scratch folder, with limits,
//! and without the network unless it is asked for. Nothing is written into the tree that is linted.

mod origins;
mod process;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use origins::{Origin, of_chart, without_origins};
pub(crate) use process::Failure;
use process::ProcessCall;

/// The default of the time limit of one rendering.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The name of the release, which is also Helm's own where none is named.
const RELEASE: &str = "release-name";

/// The programs that render.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tools {
    helm: Option<PathBuf>,
    kustomize: Option<Kustomize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kustomize {
    program: PathBuf,
    verb: &'static str,
    name: &'static str,
}

impl Tools {
    /// Finds them in the directories of a `PATH`. Relative ones are ignored: linted files must not decide which program
    /// is run.
    #[must_use]
    pub(crate) fn find(path: &OsStr) -> Self {
        let program = |name: &str| {
            let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
            std::env::split_paths(path)
                .filter(|directory| directory.is_absolute())
                .map(|directory| directory.join(&name))
                .find(|file| is_program(file))
        };
        let kustomize =
            [("kustomize", "build", "kustomize build"), ("kubectl", "kustomize", "kubectl kustomize")];
        Self {
            helm: program("helm"),
            kustomize: kustomize
                .into_iter()
                .find_map(|(file, verb, name)| Some(Kustomize { program: program(file)?, verb, name })),
        }
    }

    /// Tells whether there is one for charts.
    #[must_use]
    pub(crate) fn has_helm(&self) -> bool {
        self.helm.is_some()
    }

    /// Tells whether there is one for kustomizations.
    #[must_use]
    pub(crate) fn has_kustomize(&self) -> bool {
        self.kustomize.is_some()
    }
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// The reason why something was not rendered, in words that follow a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotRendered(pub String);

impl fmt::Display for NotRendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The output of a kustomization.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The manifests.
    pub(crate) text: Vec<u8>,
    /// Where each document comes from; empty if the tool does not report it.
    pub(crate) origins: Vec<Option<Origin>>,
}

/// Renders charts and kustomizations, within the time limits.
#[derive(Debug)]
pub(crate) struct Renderer<'a> {
    tools: &'a Tools,
    timeout: Duration,
    timeout_of_all: Duration,
    most: u64,
    network: bool,
    started: Instant,
}

impl<'a> Renderer<'a> {
    /// The time limits are that of one rendering and that of all, whose time begins now. `most` is the maximum number
    /// of bytes of a rendering.
    #[must_use]
    pub(crate) fn new(
        tools: &'a Tools,
        [timeout, timeout_of_all]: [Duration; 2],
        most: u64,
        network: bool,
    ) -> Self {
        Self { tools, timeout, timeout_of_all, most, network, started: Instant::now() }
    }

    /// Tells whether what is missing locally is fetched.
    #[must_use]
    pub(crate) fn uses_network(&self) -> bool {
        self.network
    }

    /// Returns the output of a chart with files of values.
    ///
    /// # Errors
    /// There is no tool, it fails, or it exceeds a limit.
    pub(crate) fn chart(
        &self,
        directory: &Path,
        values: &[PathBuf],
        namespace: &str,
    ) -> Result<Vec<u8>, NotRendered> {
        let Some(program) = &self.tools.helm else {
            return Err(NotRendered("there is no `helm` on the PATH".to_owned()));
        };
        // An absolute path is never mistaken for an option, or for the name of a remote chart.
        let mut arguments: Vec<OsString> = ["template", RELEASE].map(OsString::from).into();
        arguments.push(absolute(directory)?.into());
        for file in values {
            arguments.push("--values".into());
            arguments.push(absolute(file)?.into());
        }
        if !namespace.is_empty() {
            // As one word: a namespace may begin with a dash.
            arguments.push(format!("--namespace={namespace}").into());
        }
        let text = self.call(program, &arguments, &scratch()?);
        text.map_err(|failure| NotRendered(failure.message("helm template", self.timeout)))
    }

    /// Returns the output of a kustomization in a directory.
    ///
    /// # Errors
    /// As for a chart.
    pub(crate) fn kustomization(&self, directory: &Path, with_helm: bool) -> Result<Built, NotRendered> {
        let Some(kustomize) = &self.tools.kustomize else {
            return Err(NotRendered("there is neither `kustomize` nor `kubectl` on the PATH".to_owned()));
        };
        let directory = absolute(directory)?;
        let build = |of: &Path, scratch: &tempfile::TempDir| {
            let mut arguments: Vec<OsString> = vec![kustomize.verb.into(), of.into()];
            arguments.extend(with_helm.then(|| "--enable-helm".into()));
            self.call(&kustomize.program, &arguments, scratch)
        };
        let said = |failure: &Failure| NotRendered(failure.message(kustomize.name, self.timeout));
        // Only the outermost kustomization can turn on origin annotations, so a wrapper does.
        let scratch_folder = scratch()?;
        let around = absolute(scratch_folder.path())?;
        if let Some(inner) = relative(&around, &directory) {
            let wrapper = format!("buildMetadata: [originAnnotations]\nresources: [{inner}]\n");
            fs::write(around.join("kustomization.yaml"), wrapper).map_err(|error| not_prepared(&error))?;
            match build(&around, &scratch_folder) {
                Ok(text) => {
                    let (text, origins) = without_origins(&text, &around);
                    return Ok(Built { text, origins });
                }
                // The tool may be too old for origins. If it is not, its next message does not name the scratch folder.
                Err(Failure::Tool(_)) => {}
                Err(failure) => return Err(said(&failure)),
            }
        }
        let text = build(&directory, &scratch()?).map_err(|failure| said(&failure))?;
        Ok(Built { text, origins: Vec::new() })
    }

    fn call(
        &self,
        program: &Path,
        arguments: &[OsString],
        scratch: &tempfile::TempDir,
    ) -> Result<Vec<u8>, Failure> {
        let left = self.timeout_of_all.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return Err(Failure::All(self.timeout_of_all));
        }
        let call = ProcessCall {
            program,
            arguments,
            scratch: scratch.path(),
            network: self.network,
            time: self.timeout.min(left),
            bytes: self.most,
        };
        call.run()
    }
}

fn scratch() -> Result<tempfile::TempDir, NotRendered> {
    tempfile::Builder::new().prefix("jobgate-").tempdir().map_err(|error| not_prepared(&error))
}

fn not_prepared(error: &std::io::Error) -> NotRendered {
    NotRendered(format!("cannot prepare it: {error}"))
}

fn absolute(path: &Path) -> Result<PathBuf, NotRendered> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path).map_err(|error| NotRendered(format!("cannot read {}: {error}", path.display())))
}

/// Returns a directory as seen from another, as a quoted string; both are absolute. kustomize rejects absolute paths.
fn relative(from: &Path, to: &Path) -> Option<String> {
    let common = from.components().zip(to.components()).take_while(|(from, to)| from == to).count();
    let ups = std::iter::repeat_n(Some(".."), from.components().count() - common);
    let down = to.components().skip(common).map(|part| part.as_os_str().to_str());
    // With `/` on every system, as in all kustomizations.
    let path = ups.chain(down).collect::<Option<Vec<_>>>()?.join("/");
    serde_json::to_string(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_seen_from_the_scratch_folder() {
        let seen = |to: &str| relative(Path::new("/tmp/x"), Path::new(to));
        assert_eq!(seen("/tmp/y/z").as_deref(), Some("\"../y/z\""));
        assert_eq!(seen("/a\"b").as_deref(), Some("\"../../a\\\"b\""));
        assert_eq!(seen("/").as_deref(), Some("\"../..\""));
    }

    #[cfg(unix)]
    #[test]
    fn tools_are_found_in_absolute_directories_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        put("helm", 0o644);
        put("kubectl", 0o755);
        let path = dir.path().as_os_str();
        let found = Tools::find(path);
        assert!(!found.has_helm() && found.has_kustomize());
        assert_eq!(found.kustomize.unwrap().verb, "kustomize");
        put("helm", 0o755);
        put("kustomize", 0o755);
        let found = Tools::find(path);
        assert!(found.has_helm());
        assert_eq!(found.kustomize.unwrap().verb, "build");
        assert_eq!(Tools::find(OsStr::new(".:bin:")), Tools::default());
    }
}
