//! Arguments of the commands that read a cluster: `jobgate audit` and `jobgate doctor`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::args::judging::Reporting;

/// The cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct KubeConfig {
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
}

/// The kubeconfig of a command that reads a cluster only with `--cluster`.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterAccess {
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "cluster", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "cluster", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
}

/// Arguments of `jobgate audit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate audit                                                   all namespaces but the system's, under the default policy
  jobgate audit --policy ours.yaml -n team-a -n team-b            some namespaces, under your own policy
  jobgate audit --format json --fail-on note > audit.json         for a program
  jobgate audit --publish --exit-zero                             for dashboards of the cluster

Nothing is written to the cluster, except by --publish. Requires permission to list the kinds that it audits, persistentvolumeclaims and training runtimes.")]
pub struct Audit {
    /// Only this namespace (repeatable) [default: all but the system's]
    #[arg(short, long = "namespace", value_name = "NAMESPACE", help_heading = "Cluster")]
    pub(crate) namespaces: Vec<String>,

    /// Only objects with these labels, as in kubectl: team=vision,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", help_heading = "Cluster")]
    pub(crate) selector: Option<String>,

    /// Also judge finished jobs, which cannot be fixed
    #[arg(long, help_heading = "Cluster")]
    pub(crate) include_finished: bool,

    /// Also write the findings into the cluster: a Report of OpenReports, or else a PolicyReport, in each
    /// namespace
    ///
    /// Reports of namespaces without findings are deleted. If something cannot be read, nothing is written.
    #[arg(long, conflicts_with = "selector", help_heading = "Cluster")]
    pub(crate) publish: bool,

    /// The cluster.
    #[command(flatten)]
    pub(crate) cluster: KubeConfig,

    /// The policy and the report.
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Arguments of `jobgate doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate doctor                                                  an installation of the manifests, in the kubeconfig's cluster
  jobgate doctor --namespace batch-gate --context prod-eu         another namespace, another cluster
  jobgate doctor --canary-namespace training                      send the canaries to another namespace than `default`
  jobgate doctor --format json                                    for a program

Nothing is changed: the two canaries are dry runs. What you may not read is reported as not checked.
Exit codes: 0 no problem found (see what was not checked), 1 a problem, 2 could not run.")]
pub struct Doctor {
    /// The namespace of the installation
    #[arg(short, long, value_name = "NAMESPACE", default_value = "jobgate", help_heading = "Installation")]
    pub(crate) namespace: String,

    /// The MutatingWebhookConfiguration
    #[arg(long, value_name = "NAME", default_value = "jobgate", help_heading = "Installation")]
    pub(crate) mutating_configuration: String,

    /// The ValidatingWebhookConfiguration
    #[arg(long, value_name = "NAME", default_value = "jobgate", help_heading = "Installation")]
    pub(crate) validating_configuration: String,

    /// The namespace for two Jobs that are sent as dry runs
    #[arg(long, value_name = "NAMESPACE", default_value = "default", help_heading = "Canary")]
    pub(crate) canary_namespace: String,

    /// Send no Jobs
    #[arg(long, conflicts_with = "canary_namespace", help_heading = "Canary")]
    pub(crate) no_canary: bool,

    /// The cluster.
    #[command(flatten)]
    pub(crate) cluster: KubeConfig,

    /// Timeout in seconds for each answer of the API server; a canary waits for all webhooks of the cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600), help_heading = "Cluster")]
    pub(crate) timeout: u64,

    /// The format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DoctorFormat::Human, help_heading = "Report")]
    pub(crate) format: DoctorFormat,
}

/// The format of the doctor's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people, the worst first
    Human,
    /// One JSON document
    Json,
}
