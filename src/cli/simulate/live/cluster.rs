//! Jobs and objects of operators of a cluster, with what they made, read with the kubeconfig of whoever asks: only get and
//! list.

use std::path::Path;

use anyhow::{Context as _, bail};
use kube::Client;

use super::resources::{Known, POD_GROUPS, named};
use crate::cli::args::Simulate;
use crate::cli::audit::{FIRST_ANSWER_TIMEOUT, reach};
use crate::cluster::fetch::Failure;
use crate::cluster::jobs::{JOBS, PODS, Resource};
use crate::cluster::{self, chain, jobs};
use crate::controllers::live::LiveSnapshot;
use crate::report::clean;
use crate::text::value::Value;

/// How many pods of one object are read.
const MOST_PODS: usize = 20_000;
/// How many Jobs of one object are read.
const MOST_JOBS: usize = 5_000;

/// Reads the Jobs and objects that the arguments name, and what they made. Returns what could not be read.
///
/// # Errors
///
/// There is no kubeconfig, the API server does not answer, or an argument is no name of a kind that is read.
pub(in crate::cli::simulate) fn read(
    args: &Simulate,
    snapshot: &mut LiveSnapshot,
) -> anyhow::Result<Vec<String>> {
    let names: Vec<(Known, String)> =
        args.paths.iter().map(|path| name(path)).collect::<anyhow::Result<_>>()?;
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
        let mut reader = NamespaceReader { client, namespace, snapshot, problems: Vec::new() };
        for (known, name) in &names {
            reader.read(known, name).await;
        }
        Ok(reader.problems)
    })
}

/// Reads objects of a namespace.
struct NamespaceReader<'a> {
    client: &'a Client,
    namespace: &'a str,
    snapshot: &'a mut LiveSnapshot,
    /// What could not be read.
    problems: Vec<String>,
}

impl NamespaceReader<'_> {
    /// Reads an object and what it made.
    async fn read(&mut self, known: &Known, name: &str) {
        let shown = self.shown(known.resource, name);
        let Some(object) = self.get(known.resource, name, true).await else { return };
        self.snapshot.add(&object);
        if known.resource == JOBS {
            self.pods(&jobs::selector(&object), &shown).await;
            return;
        }
        if known.has_pod_group() {
            self.pod_group(&object, name).await;
        }
        let (mut maker, mut of) = (*known, name);
        if let Some(below) = known.below() {
            // That of a RayJob has a name of its own, once it is there.
            if below.resource.kind == "RayCluster" {
                of = object.pointer("/status/rayClusterName").and_then(Value::as_str).unwrap_or_default();
            }
            if of.is_empty() {
                return;
            }
            if let Some(object) = self.get(below.resource, of, false).await {
                self.snapshot.add(&object);
            }
            maker = below;
        }
        let selector = format!("{}={of}", maker.label());
        if maker.has_jobs() {
            self.list(JOBS, &selector, (&shown, MOST_JOBS), |snapshot, job| snapshot.add(&job)).await;
        }
        self.pods(&selector, &shown).await;
        // The launcher of an MPIJob, the submitter of a RayJob.
        let job = match known.resource.kind {
            "MPIJob" => format!("{name}-launcher"),
            "RayJob" => name.to_owned(),
            _ => return,
        };
        if let Some(job) = self.get(JOBS, &job, false).await {
            self.snapshot.add(&job);
            self.pods(&jobs::selector(&job), &shown).await;
        }
    }

    /// Reads the PodGroup of a Volcano Job. Without it, or without the permission, what it says is assumed, and printed.
    async fn pod_group(&mut self, job: &Value, name: &str) {
        let uid = job.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let group = format!("{name}-{uid}");
        if let Ok(group) = jobs::object(self.client, POD_GROUPS, self.namespace, &group).await {
            self.snapshot.add_pod(&group);
        }
    }

    fn shown(&self, resource: Resource, name: &str) -> String {
        format!("the {} {} in the namespace {}", resource.kind, clean(name), clean(self.namespace))
    }

    /// Gets an object. One that need not be there may be missing.
    async fn get(&mut self, resource: Resource, name: &str, is_needed: bool) -> Option<Value> {
        match jobs::object(self.client, resource, self.namespace, name).await {
            Ok(object) => Some(object),
            Err(Failure::NotFound) if !is_needed => None,
            Err(failure) => {
                let permission = format!("get {} in {}", resource.plural, resource.group);
                let what = format!("get {}", self.shown(resource, name));
                self.problems.push(problem(&what, &permission, &failure));
                None
            }
        }
    }

    /// Lists pods that have some labels.
    async fn pods(&mut self, selector: &str, shown: &str) {
        let take = |snapshot: &mut LiveSnapshot, pod: Value| {
            snapshot.add_pod(&pod);
        };
        self.list(PODS, selector, (shown, MOST_PODS), take).await;
    }

    /// Lists what has some labels, and takes each as it comes: whole pods are many times what is known of them.
    async fn list(
        &mut self,
        resource: Resource,
        selector: &str,
        (shown, most): (&str, usize),
        take: impl Fn(&mut LiveSnapshot, Value),
    ) {
        let plural = resource.plural;
        let take = |object| take(self.snapshot, object);
        let listed = jobs::list(self.client, resource, (self.namespace, selector), most, take).await;
        match listed {
            Ok(false) => {}
            Ok(true) => self.problems.push(format!("{shown}: only {most} of its {plural} are looked at")),
            Err(failure) => {
                let permission = if resource.group.is_empty() {
                    format!("list {plural}")
                } else {
                    format!("list {plural} in {}", resource.group)
                };
                self.problems.push(problem(&format!("list the {plural} of {shown}"), &permission, &failure));
            }
        }
    }
}

fn problem(what: &str, permission: &str, failure: &Failure) -> String {
    match failure {
        Failure::NotFound => format!("{what}: there is none"),
        Failure::Forbidden => format!("{what}: you may not; it takes the permission to {permission}"),
        other => format!("{what}: {}", chain(other)),
    }
}

/// Returns what an argument names, as kubectl takes it: `job/train`, `pytorchjob/train`, or `train` for a Job.
fn name(argument: &Path) -> anyhow::Result<(Known, String)> {
    let shown = argument.to_string_lossy();
    let (kind, name) = shown.split_once('/').unwrap_or(("job", &shown));
    let Some(known) = named(kind) else {
        bail!(
            "with --cluster, name what runs: job/train, jobset/train, trainjob/train, pytorchjob/train, mpijob/train, \
             vcjob/train, rayjob/train, or train for a Job; not {}",
            clean(&shown)
        );
    };
    if !cluster::fetch::is_name(name) {
        bail!("{} is no name of a {}", clean(name), known.resource.kind);
    }
    Ok((known, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_as_kubectl_does() {
        for (argument, expected) in [
            ("train", Some(("batch", "train"))),
            ("job/train", Some(("batch", "train"))),
            ("jobs.batch/train", Some(("batch", "train"))),
            ("pytorchjob/train", Some(("kubeflow.org", "train"))),
            ("pod/train", None),
            ("-", None),
            ("job/a/b", None),
            ("job/..", None),
            ("./job.yaml", None),
        ] {
            let read = name(Path::new(argument)).ok();
            let read = read.as_ref().map(|(known, name)| (known.resource.group, name.as_str()));
            assert_eq!(read, expected, "{argument}");
        }
    }
}
