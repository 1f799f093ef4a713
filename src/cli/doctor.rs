//! `jobgate doctor`: a cluster in, problems of its installation out, and an exit code.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::Exit;
use super::audit::reach;
use super::progress::narrated;
use crate::cli::args::{Doctor, DoctorFormat};
use crate::cluster;
use crate::k8s::names;
use crate::policies;
use crate::serve::doctor::observations::Place;
use crate::serve::doctor::observe::{self, Options};
use crate::serve::doctor::{self, Status};

/// Runs the command.
///
/// # Errors
/// The API server cannot be reached, a name is not valid, or `out` cannot be written. What cannot be read in the
/// cluster is not an error: the checks report it.
pub fn run(args: &Doctor, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let place = Place {
        namespace: args.namespace.clone(),
        mutating: args.mutating_configuration.clone(),
        validating: args.validating_configuration.clone(),
        canary_namespace: args.canary_namespace.clone(),
    };
    for name in [&place.namespace, &place.mutating, &place.validating, &place.canary_namespace] {
        if let Some(why) = names::dns_subdomain(name).into_iter().next() {
            bail!("{name:?} is not the name of an object: {why}");
        }
    }
    let options = Options {
        place,
        canary: !args.no_canary,
        timeout: Duration::from_secs(args.timeout),
        builtin: policies::source,
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let (server, observed) = narrated(false, &|| "reading the cluster".to_owned(), || {
        runtime.block_on(async {
            let connection =
                cluster::connection(args.cluster.kubeconfig.as_deref(), args.cluster.context.as_deref())
                    .await?;
            reach(&connection, options.timeout).await?;
            let observed = observe::observe(&connection, &options).await;
            anyhow::Ok((connection.server, observed))
        })
    })?;
    let examination = doctor::examine(&observed);
    match args.format {
        DoctorFormat::Human => doctor::write_human(&examination, &server, out)?,
        DoctorFormat::Json => doctor::write_json(&examination, &server, out)?,
    }
    Ok(if examination.status() == Status::Problem { Exit::Findings } else { Exit::Clean })
}
