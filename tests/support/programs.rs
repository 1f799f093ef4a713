//! Programs that tests run and that are not Jobgate's: a cluster's own, Helm and Kustomize.
//!
//! A program comes from where the environment or the machine has it; else `tests/cluster/get` makes it, once
//! for all checkouts, which needs Go. Where it cannot be had, the test says so and passes, and fails with
//! `CI=true`: a gate that judged nothing must not be green.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// What a cluster is started from.
const SERVERS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// Where the programs of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// In this folder.
    In(PathBuf),
    /// In the one that `tests/cluster/get` makes when it is asked.
    ToBeMade,
}

impl Servers {
    /// Looks for the programs of a cluster: `KUBEBUILDER_ASSETS`, else `/usr/local/kubebuilder/bin`, as
    /// envtest has it, else those that can be made here.
    ///
    /// # Errors
    /// What is missing, and what to install.
    pub fn find() -> Result<Self, String> {
        let named = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let usual = PathBuf::from("/usr/local/kubebuilder/bin");
        let missing = |folder: &Path| SERVERS.into_iter().find(|name| !folder.join(name).is_file());
        match named {
            Some(folder) => match missing(&folder) {
                None => Ok(Self::In(folder)),
                Some(name) => Err(format!("KUBEBUILDER_ASSETS is {}, without {name}", folder.display())),
            },
            None if missing(&usual).is_none() => Ok(Self::In(usual)),
            None if on_path("go").is_some() => Ok(Self::ToBeMade),
            None => Err(format!(
                "there is no {} in KUBEBUILDER_ASSETS or {}, and no Go to make them with; install Go {} or later",
                SERVERS.join(", "),
                usual.display(),
                newest_go()
            )),
        }
    }

    /// Returns the folder. Making it takes some minutes the first time.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self) -> Result<PathBuf, String> {
        match self {
            Self::In(folder) => Ok(folder.clone()),
            Self::ToBeMade => made("kubernetes"),
        }
    }
}

/// Returns kubectl.
///
/// # Errors
/// There is none, and it cannot be made.
pub fn kubectl() -> Result<PathBuf, String> {
    match on_path("kubectl") {
        Some(program) => Ok(program),
        None => Ok(Servers::find()?.folder()?.join("kubectl")),
    }
}

/// Returns Helm: what `JOBGATE_HELM` names, else that of the machine, else one that is made.
///
/// # Errors
/// There is none, and it cannot be made.
pub fn helm() -> Result<PathBuf, String> {
    program("JOBGATE_HELM", "helm")
}

/// Returns Kustomize: what `JOBGATE_KUSTOMIZE` names, else that of the machine, else one that is made.
///
/// # Errors
/// There is none, and it cannot be made.
pub fn kustomize() -> Result<PathBuf, String> {
    program("JOBGATE_KUSTOMIZE", "kustomize")
}

fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    let given = env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    match given.or_else(|| on_path(name)) {
        Some(program) => Ok(program),
        None => Ok(made(name)?.join(name)),
    }
}

/// Returns the folder of a component of `tests/cluster/components`, for example `helm` or `kubernetes@1.33`.
/// The first time it is made, which takes some minutes.
///
/// # Errors
/// It cannot be made: what `tests/cluster/get` said.
pub fn made(component: &str) -> Result<PathBuf, String> {
    static MADE: Mutex<BTreeMap<String, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    // Held while it is made: whoever else needs it would only wait for the same.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(component.to_owned()).or_insert_with(|| make(component)).clone()
}

/// Tells whether `tests/cluster/get` knows how a component is made.
#[must_use]
pub fn is_component(name: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cluster/components")
        .join(name)
        .join("component")
        .is_file()
}

fn make(component: &str) -> Result<PathBuf, String> {
    let get = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/get");
    let output = Command::new(&get)
        .arg(component)
        .stdin(Stdio::null())
        // Its progress is for whoever waits.
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("run {}: {e}", get.display()))?;
    if !output.status.success() {
        return Err(format!("{} {component}: {}", get.display(), output.status));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// Returns the newest Go that a component asks for, as its `go.mod` says.
fn newest_go() -> String {
    let module =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/components/kubernetes/1.37/go.mod");
    let text = std::fs::read_to_string(module).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or_default().to_owned()
}

/// Returns the place of a program on the `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Says that a test did not run, and why.
///
/// # Panics
/// With `CI=true`.
#[track_caller]
#[allow(clippy::print_stdout, reason = "a test that did not run says so")]
pub fn not_run(what: &str, why: &str) {
    assert!(!in_ci(), "{what}: {why}");
    println!("not run: {what}: {why}");
}

/// Tells whether this is a run of the gate, which must not leave anything out.
pub fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}
