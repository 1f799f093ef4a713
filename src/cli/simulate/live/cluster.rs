//! Jobs of a cluster, read with the kubeconfig of whoever asks: only get and list.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::cli::args::Simulate;
use crate::cli::audit::{FIRST_ANSWER_TIMEOUT, reach};
use crate::cluster::fetch::Failure;
use crate::cluster::{self, chain, jobs};
use crate::controllers::live::LiveSnapshot;
use crate::report::clean;

/// How many pods of one Job are read.
const MOST_PODS: usize = 20_000;

/// Reads the Jobs that the arguments name, and their pods. Returns them, with what could not be read.
///
/// # Errors
///
/// There is no kubeconfig, the API server does not answer, or an argument is no name of a Job.
pub(in crate::cli::simulate) fn read(
    args: &Simulate,
    snapshot: &mut LiveSnapshot,
) -> anyhow::Result<Vec<String>> {
    let names: Vec<String> = args.paths.iter().map(|path| name(path)).collect::<anyhow::Result<_>>()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        let connection =
            cluster::connection(args.access.kubeconfig.as_deref(), args.access.context.as_deref())
                .await
                .context("find the cluster for --cluster")?;
        reach(&connection, FIRST_ANSWER_TIMEOUT).await.context("ask the cluster for --cluster")?;
        let client = &connection.client;
        let namespace = args.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
        let mut problems = Vec::new();
        for name in &names {
            let shown = format!("the Job {} in the namespace {}", clean(name), clean(namespace));
            let job = match jobs::job(client, namespace, name).await {
                Ok(job) => job,
                Err(failure) => {
                    problems.push(problem(&format!("get {shown}"), "get jobs in batch", &failure));
                    continue;
                }
            };
            snapshot.add_job(&job);
            let pods = jobs::pods(client, &job, MOST_PODS, |pod| {
                snapshot.add_pod(&pod);
            });
            match pods.await {
                Ok(false) => {}
                Ok(true) => problems.push(format!("{shown}: only {MOST_PODS} of its pods are looked at")),
                Err(failure) => {
                    problems.push(problem(&format!("list the pods of {shown}"), "list pods", &failure));
                }
            }
        }
        Ok(problems)
    })
}

fn problem(what: &str, permission: &str, failure: &Failure) -> String {
    match failure {
        Failure::NotFound => format!("{what}: there is none"),
        Failure::Forbidden => format!("{what}: you may not; it takes the permission to {permission}"),
        other => format!("{what}: {}", chain(other)),
    }
}

/// Returns the name of a Job: `job/train`, `jobs/train`, `job.batch/train` or `train`.
fn name(argument: &Path) -> anyhow::Result<String> {
    let shown = argument.to_string_lossy();
    let (kind, name) = shown.split_once('/').unwrap_or(("job", &shown));
    if !["job", "jobs", "job.batch", "jobs.batch", "job.v1.batch", "jobs.v1.batch"].contains(&kind) {
        bail!("with --cluster, name Jobs: job/train or train, not {}", clean(&shown));
    }
    if !cluster::fetch::is_name(name) {
        bail!("{} is no name of a Job", clean(name));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_as_kubectl_does() {
        for (argument, expected) in [
            ("train", Some("train")),
            ("job/train", Some("train")),
            ("jobs.batch/train", Some("train")),
            ("pod/train", None),
            ("-", None),
            ("job/a/b", None),
            ("job/..", None),
            ("./job.yaml", None),
        ] {
            assert_eq!(name(Path::new(argument)).ok().as_deref(), expected, "{argument}");
        }
    }
}
