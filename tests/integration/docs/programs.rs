//! What a page may ask of other programs: options that they have, and files that are in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jobgate::cli::args::Cli;
use jobgate::text::yaml;

use super::page::root;
use crate::support::programs;

/// Checks a call of a program that is not run. Files are in the repository, or in the place of the page.
pub(super) fn check(words: &[String], place: &Path) -> Result<(), String> {
    let arguments = &words[1..];
    match words[0].as_str() {
        "cargo" => cargo(arguments),
        "docker" => docker(arguments),
        "helm" => helm(arguments, place),
        "kind" => kind(arguments, place),
        "kubectl" => kubectl(arguments, place),
        "npm" => npm(arguments),
        script if script.starts_with(".ci/") => Ok(()),
        _ => Ok(()),
    }
}

/// Checks that the program would take a command line.
pub(super) fn parses(words: &[String]) -> Result<(), clap::Error> {
    let parsed = <Cli as clap::CommandFactory>::command().try_get_matches_from(words);
    match parsed {
        Err(error) if error.use_stderr() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the values of an option, written with a space or `=`.
fn values<'w>(arguments: &'w [String], names: &[&str]) -> Vec<&'w str> {
    let mut values = Vec::new();
    for (nth, word) in arguments.iter().enumerate() {
        if names.contains(&word.as_str()) {
            values.extend(arguments.get(nth + 1).map(String::as_str));
        } else if let Some((name, value)) = word.split_once('=')
            && names.contains(&name)
        {
            values.push(value);
        }
    }
    values
}

fn exists(path: &str, place: &Path) -> Option<PathBuf> {
    [root(), place].iter().map(|folder| folder.join(path)).find(|path| path.exists())
}

/// Scripts are those of the extension for Visual Studio Code, the one place with any.
fn npm(arguments: &[String]) -> Result<(), String> {
    let text = fs::read_to_string(root().join("editors/vscode/package.json")).unwrap();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap();
    match arguments {
        [run, script] if run == "run" && package["scripts"][script].is_string() => Ok(()),
        [ci] if ci == "ci" => Ok(()),
        _ => Err("this command of npm is not known here".to_owned()),
    }
}

fn kubectl(arguments: &[String], place: &Path) -> Result<(), String> {
    match arguments.first().map(String::as_str) {
        // A plugin that it may have.
        Some("krew") => return Ok(()),
        // Jobgate as a plugin.
        Some("jobgate") => return parses(arguments).map_err(|error| error.to_string()),
        _ => {}
    }
    for path in values(arguments, &["-f", "--filename"]) {
        if path != "-" && exists(path, place).is_none() {
            return Err(format!("{path} does not exist"));
        }
    }
    for path in values(arguments, &["-k", "--kustomize"]) {
        if exists(&format!("{path}/kustomization.yaml"), place).is_none() {
            return Err(format!("{path} is no kustomization"));
        }
    }
    let program = match programs::kubectl() {
        Ok(program) => program,
        Err(why) => {
            programs::not_run("commands of kubectl on the pages", &why);
            return Ok(());
        }
    };
    // With --help kubectl checks the command and its options, and does nothing.
    let output = Command::new(program)
        .args(arguments)
        .arg("--help")
        .env_clear()
        .current_dir(place)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    // Of a command that it does not know, it prints its own help.
    if !output.status.success() || said.starts_with("kubectl controls the Kubernetes cluster manager") {
        return Err(format!(
            "{}{}",
            said.lines().next().unwrap_or(""),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(())
}

fn cargo(arguments: &[String]) -> Result<(), String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (own, rest) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &arguments[..0]),
    };
    for name in ["--bench", "--test", "--bin"].iter().flat_map(|option| values(own, &[option])) {
        if name != "jobgate" && !manifest.contains(&format!("name = \"{name}\"\n")) {
            return Err(format!("there is no target {name}"));
        }
    }
    for profile in values(own, &["--profile"]) {
        if !manifest.contains(&format!("[profile.{profile}]")) {
            return Err(format!("there is no profile {profile}"));
        }
    }
    for path in values(own, &["--path"]) {
        if !root().join(path).exists() {
            return Err(format!("{path} does not exist"));
        }
    }
    for filter in own.iter().filter_map(|word| word.rsplit_once("::").filter(|_| !word.contains('/'))) {
        let function = format!("fn {}", filter.1);
        let folders = ["src", "crates", "tests"].map(|folder| root().join(folder));
        if !folders.iter().any(|folder| is_in(folder, &function)) {
            return Err(format!("there is no test {}", filter.1));
        }
    }
    if own.first().is_some_and(|word| word == "run") {
        let words: Vec<String> = std::iter::once("jobgate".to_owned()).chain(rest.iter().cloned()).collect();
        parses(&words).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Tells whether a source file in a folder contains a text.
fn is_in(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_in(&path, text);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).unwrap().contains(text)
    })
}

/// Returns the image that the manifests name.
fn image() -> String {
    let workload = fs::read_to_string(root().join("deploy/base/workload.yaml")).unwrap();
    let line = workload.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
    line.to_owned()
}

fn same_image(named: &str) -> Result<(), String> {
    let image = image();
    if named == image { Ok(()) } else { Err(format!("the manifests name the image {image}, not {named}")) }
}

fn docker(arguments: &[String]) -> Result<(), String> {
    for path in values(arguments, &["-f"]) {
        if !root().join(path).exists() {
            return Err(format!("{path} does not exist"));
        }
    }
    values(arguments, &["-t"]).into_iter().try_for_each(same_image)
}

fn kind(arguments: &[String], place: &Path) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for path in values(arguments, &["--config"]) {
        if exists(path, place).is_none() {
            return Err(format!("{path} does not exist"));
        }
    }
    match words.as_slice() {
        ["create" | "delete", "cluster", ..] => Ok(()),
        ["load", "docker-image", image, ..] => same_image(image),
        _ => Err("this command of kind is not known here".to_owned()),
    }
}

fn helm(arguments: &[String], place: &Path) -> Result<(), String> {
    let chart = "deploy/helm/jobgate";
    if let Some(path) = arguments.iter().find(|word| word.starts_with("deploy/"))
        && exists(&format!("{path}/Chart.yaml"), place).is_none()
    {
        return Err(format!("{path} is no chart"));
    }
    let values_file = fs::read_to_string(root().join(chart).join("values.yaml")).unwrap();
    let known = yaml::documents(values_file.as_bytes()).next().unwrap().unwrap().value;
    for pair in values(arguments, &["--set"]) {
        let (key, _) = pair.split_once('=').unwrap_or((pair, ""));
        if arguments.iter().any(|word| word == chart)
            && known.pointer(&format!("/{}", key.replace('.', "/"))).is_none()
        {
            return Err(format!("the chart has no value {key}"));
        }
    }
    Ok(())
}
