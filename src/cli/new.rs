//! `jobgate new`: a manifest to start from.

use std::io::Write;

use anyhow::bail;

use super::Exit;
use crate::cli::args::New;
use crate::kinds::Kind;
use crate::local::starter::{self, Asked};
use crate::text::suggest::closest;

/// Writes a manifest that no rule denies or warns of.
///
/// # Errors
/// There is no such kind to start from, a value is not valid, or `out` cannot be written.
pub fn run(args: &New, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let kind = kind_named(&args.kind)?;
    let asked = Asked {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
        image: args.image.clone(),
        nodes: args.nodes,
        gpus: args.gpus,
        resource: args.resource.clone(),
        deadline: args.deadline.0,
        claim: args.checkpoints.clone(),
        spot: args.spot,
        queue: args.queue.clone(),
        schedule: args.schedule.clone(),
    };
    let text = starter::manifest(kind, &asked)?;
    if asked.claim.is_some() && asked.nodes > 1 {
        writeln!(
            out,
            "# The claim must have the access mode ReadWriteMany: pods on several nodes mount it."
        )?;
    }
    write!(out, "{text}")?;
    Ok(Exit::Clean)
}

/// Returns a kind by its name in any case, or by that of its resource.
fn kind_named(name: &str) -> anyhow::Result<Kind> {
    let names = |kind: Kind| [kind.title().to_ascii_lowercase(), kind.resource.to_owned()];
    let wanted = name.to_ascii_lowercase();
    if let Some(kind) = starter::kinds().find(|kind| names(*kind).contains(&wanted)) {
        return Ok(kind);
    }
    let all: Vec<String> = starter::kinds().map(|kind| kind.title().to_ascii_lowercase()).collect();
    match closest(&wanted, all.iter().map(String::as_str)) {
        Some(meant) => bail!("there is no manifest of `{}`; did you mean `{meant}`?", name.escape_debug()),
        None => {
            bail!("there is no manifest of `{}`; there is one of {}", name.escape_debug(), all.join(", "))
        }
    }
}
