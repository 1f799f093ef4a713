//! What the Deployment specifies: the arguments of the program, and the sources of its files.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::{ContextKind, ErrorKind};

use super::DEPLOYMENT;
use crate::arguments::Serve;
use jobgate_core::text::value::Value;

/// The command line of a Deployment.
#[derive(clap::Parser)]
struct DeploymentCommand {
    #[command(subcommand)]
    command: ContainerCommand,
}

#[derive(clap::Subcommand)]
enum ContainerCommand {
    Serve(Box<Serve>),
}

/// Returns the arguments of `jobgate serve` in a Deployment, parsed as the program does.
///
/// # Errors
/// There are none, or this version does not support them.
pub(crate) fn serve_arguments(deployment: &Value) -> Result<Serve, String> {
    let container = container(deployment).ok_or("the Deployment has no container")?;
    let arguments = container["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let arguments = arguments.iter().filter_map(Value::as_str).map(str::to_owned);
    let all = std::iter::once("jobgate".to_owned()).chain(arguments);
    match DeploymentCommand::try_parse_from(all) {
        Ok(DeploymentCommand { command: ContainerCommand::Serve(serve) }) => Ok(*serve),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            Err("the container does not run `jobgate serve`".to_owned())
        }
        Err(error) => {
            let about = error
                .get(ContextKind::InvalidArg)
                .map(|argument| format!(": {argument}"))
                .unwrap_or_default();
            Err(format!(
                "this version does not understand the container's arguments ({}{about})",
                error.kind()
            ))
        }
    }
}

/// Returns the container of Jobgate: the one of that name, else the first.
pub(in super::super) fn container(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| container["name"] == DEPLOYMENT).or_else(|| containers.first())
}

/// The source of a file in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum MountedSource {
    ConfigMap,
    Secret,
}

/// Returns the object behind a file of the container, and the key in it.
pub(in super::super) fn mounted(
    deployment: &Value,
    file: &Path,
    source: MountedSource,
) -> Option<(String, String)> {
    let mounts = container(deployment)?["volumeMounts"].as_array()?.iter();
    let within = |mount: &Value| Some(file.strip_prefix(mount["mountPath"].as_str()?).ok()?.to_path_buf());
    // Mounts may be nested; the innermost is what the container sees.
    let (mount, rest) = mounts
        .filter_map(|mount| Some((mount, within(mount)?)))
        .min_by_key(|(_, rest)| rest.components().count())?;
    let inside: PathBuf = Path::new(mount["subPath"].as_str().unwrap_or_default())
        .components()
        .chain(rest.components())
        .collect();
    // A path in a container has `/`, whatever system this runs on.
    let inside: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    let inside = inside.join("/");
    let volumes = deployment.pointer("/spec/template/spec/volumes")?.as_array()?;
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"])?;
    let projected = volume.pointer("/projected/sources").and_then(Value::as_array).into_iter().flatten();
    std::iter::once(volume).chain(projected).find_map(|holder| {
        let object = match source {
            MountedSource::ConfigMap => &holder["configMap"],
            MountedSource::Secret => &holder["secret"],
        };
        // In a volume, the name of a Secret is `secretName`.
        let name = object["secretName"].as_str().or_else(|| object["name"].as_str())?;
        let key = match object["items"].as_array() {
            Some(items) => items.iter().find(|item| item["path"] == *inside)?["key"].as_str()?,
            None => &inside,
        };
        Some((name.to_owned(), key.to_owned()))
    })
}
