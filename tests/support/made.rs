//! Programs that `tests/cluster/get` makes of Go modules, for whoever has none of their own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Has `tests/cluster/get` make a component, which takes minutes the first time, and returns its folder.
pub fn made(component: &str) -> Result<PathBuf, String> {
    let get = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/get");
    let output =
        Command::new(&get).arg(component).output().map_err(|e| format!("run {}: {e}", get.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Returns Helm: where `JOBGATE_HELM` says, else on the path, else made.
pub fn helm() -> Result<PathBuf, String> {
    static HELM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    HELM.get_or_init(|| program("JOBGATE_HELM", "helm")).clone()
}

/// Returns Kustomize: where `JOBGATE_KUSTOMIZE` says, else on the path, else made.
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

/// Finds a program on the path.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}
