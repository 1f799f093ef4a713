//! The command line: types and help texts. Nothing here opens a file.

#[cfg(feature = "serve")]
mod cluster;
mod judging;
mod lsp;
mod names;
mod simulate;
mod size;
mod time;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

#[cfg(feature = "serve")]
pub use self::cluster::{Audit, ClusterAccess, Doctor, DoctorFormat, KubeConfig};
pub(crate) use self::judging::{FailOn, Judging, Reporting, Sort};
pub use self::lsp::Lsp;
pub(crate) use self::names::page_ids;
use self::names::{page_names, policies};
pub use self::simulate::Simulate;
pub(crate) use self::simulate::{Expectation, OrNone, SimulationFormat, Story};
pub(crate) use self::time::Seconds;
pub(super) use self::time::seconds;
use crate::admission;
use crate::local::starter::Spot;
#[cfg(feature = "serve")]
use crate::serve::arguments::Serve;

/// Keeps batch jobs that will waste a night of GPU time out of a Kubernetes cluster, and says how to fix
/// them.
#[derive(Debug, Parser)]
#[command(name = "jobgate", version, max_term_width = 120)]
#[command(after_help = "Exit codes: 0 clean, 1 findings at or above --fail-on, 2 could not run.")]
pub struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check manifests before they reach a cluster
    Lint(Box<Lint>),
    /// Serve diagnostics, fixes and documentation to an editor (Language Server Protocol)
    Lsp(Lsp),
    /// Show how an API server with the webhook would answer manifests, and what it would store
    DryRun(Box<DryRun>),
    /// Show what becomes of Jobs when something happens, and what Jobs that run wait for
    Simulate(Box<Simulate>),
    /// Show what a policy would do to the jobs that are already in a cluster
    #[cfg(feature = "serve")]
    Audit(Box<Audit>),
    /// Check the webhook of a cluster, and explain how to fix problems
    #[cfg(feature = "serve")]
    Doctor(Box<Doctor>),
    /// Serve the admission webhook
    #[cfg(feature = "serve")]
    Serve(Box<Serve>),
    /// Answer an AdmissionReview as the webhook would, or make one from a manifest
    Review(Review),
    /// Show the manual page of a rule or topic, or list them
    Explain {
        /// The rule, check or topic; without one, the list of all
        #[arg(value_name = "NAME", value_parser = page_names(), hide_possible_values = true)]
        rule: Option<String>,
    },
    /// Look at a repository and write a configuration for it
    Init(Init),
    /// Print a manifest to start from, which no rule denies or warns of
    New(Box<New>),
    /// Check policies, or print the built-in ones
    #[command(subcommand)]
    Policy(Policy),
    /// Make certificates by hand
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Certs(Certs),
    /// Print a shell completion script
    ///
    /// For bash: jobgate completions bash > /etc/bash_completion.d/jobgate
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    ///
    /// To read it: jobgate man | man -l -
    Man,
}

/// Arguments of `jobgate init`.
#[derive(Debug, Args)]
#[command(after_help = "Writes jobgate.yaml into the directory. Nothing else is changed.")]
pub struct Init {
    /// The root of the repository
    #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) directory: PathBuf,

    /// Replace an existing jobgate.yaml
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `jobgate new`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate new job --gpus 1 > job.yaml
  jobgate new pytorchjob --gpus 8 --nodes 4 --deadline 24h --checkpoints checkpoints
  jobgate new jobset --gpus 8 --nodes 16 --spot gke")]
pub struct New {
    /// The kind: job, cronjob, pytorchjob, jaxjob, mpijob, jobset, rayjob, trainjob, job.batch.volcano.sh
    pub(crate) kind: String,

    /// The name of the object
    #[arg(long, value_name = "NAME", default_value = "train")]
    pub(crate) name: String,

    /// Its namespace
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The image
    #[arg(long, value_name = "IMAGE", default_value = "registry.example.com/train:v1")]
    pub(crate) image: String,

    /// How many nodes it uses, one pod on each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) nodes: u32,

    /// How many accelerators each pod requests
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) gpus: u32,

    /// The resource of the accelerators
    #[arg(long, value_name = "RESOURCE", default_value = "nvidia.com/gpu")]
    pub(crate) resource: String,

    /// When it is stopped: seconds, or with a suffix s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "24h")]
    pub(crate) deadline: Seconds,

    /// The claim for checkpoints, which is mounted at /checkpoints
    #[arg(long, value_name = "CLAIM")]
    pub(crate) checkpoints: Option<String>,

    /// Use spot nodes of this provider
    #[arg(long, value_name = "PROVIDER", value_enum)]
    pub(crate) spot: Option<Spot>,

    /// The queue of Kueue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,

    /// When a CronJob starts
    #[arg(long, value_name = "CRON", default_value = "0 3 * * *")]
    pub(crate) schedule: String,
}

/// The commands below `jobgate policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Report errors in policies, with their lines
    Check {
        /// Files, or - for standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Test a policy with a directory of cases: manifests that say what must be found in them
    Test(PolicyTest),
    /// Print a built-in policy to use as a starting point
    Show {
        /// Its name: default, audit, accelerators or strict
        #[arg(value_parser = policies(), hide_possible_values = true)]
        name: Option<String>,
    },
    /// Print the parts of a policy that the API server can enforce by itself, even while Jobgate is down
    #[command(after_help = "Example:
  jobgate policy export --vap ours.yaml | kubectl apply -f -

For Kubernetes 1.30 and later. Policies of an earlier export stay in force: docs/operate.md explains how to prune them.")]
    Export {
        /// As ValidatingAdmissionPolicies, with their bindings
        #[arg(long, required = true)]
        vap: bool,

        /// The policy: a file, or one of default, audit, accelerators, strict
        #[arg(value_name = "POLICY", value_parser = policies(), hide_possible_values = true, default_value = "default")]
        policy: String,

        /// The namespace of Jobgate, which is skipped like the system's
        #[arg(long, value_name = "NAMESPACE", default_value = "jobgate")]
        namespace: String,
    },
}

/// Arguments of `jobgate policy test`.
#[derive(Debug, Args)]
#[command(
    after_help = "A case is a manifest with comments that say what must be found in it, and nothing else may be:
  # expect: deny deadline train spec.activeDeadlineSeconds     level, rule, name, field
  # expect: nothing

What `jobgate lint --fix` makes of the case is in <case>.fixed.yaml. The policy is policy.yaml in the directory of the case, or above it. docs/policy-test.md has the other files.

Exit codes: 0 all cases passed, 1 a case failed, 2 a case could not be run, or there is none."
)]
pub struct PolicyTest {
    /// Directories with cases, or single cases
    #[arg(value_name = "DIR", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Use this policy for all cases without one of their own: a file, or one of default, audit, accelerators,
    /// strict
    #[arg(long, value_name = "FILE|NAME", value_parser = policies(), hide_possible_values = true)]
    pub(crate) policy: Option<String>,

    /// Write what was found into the cases
    #[arg(long)]
    pub(crate) update: bool,

    /// Also list the cases that passed
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The commands below `jobgate certs`.
#[cfg(feature = "serve")]
#[derive(Debug, Subcommand)]
pub enum Certs {
    /// Create an authority and a certificate for the webhook's Service, and print how to use them
    Init(CertsInit),
}

/// Arguments of `jobgate certs init`.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct CertsInit {
    /// The directory for ca.crt, ca.key, tls.crt and tls.key
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,

    /// The Service of the webhook
    #[arg(long, value_name = "NAME", default_value = "jobgate")]
    pub(crate) service: String,

    /// The Service's namespace
    #[arg(long, value_name = "NAMESPACE", default_value = "jobgate")]
    pub(crate) namespace: String,

    /// Days for which both are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,

    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `jobgate review`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate review review.json                                   what /validate answers
  jobgate review --endpoint mutate review.json
  jobgate review --from job.yaml | jobgate review              without an API server
  jobgate review --from job.yaml --old main/job.yaml           an update

With --from, the objects are as the API server sends them: with its defaults and kubectl's annotation. What only a server adds is missing: uids, timestamps, managedFields, a Job's selector, and what other webhooks change.

The answers are written to standard output. Exit codes: 0 answered (allowed or denied), 2 could not answer.")]
pub struct Review {
    /// The AdmissionReview, as JSON, or several, one after the other; - for standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub(crate) file: PathBuf,

    /// Which of the two webhooks answers
    #[arg(long, value_name = "ENDPOINT", value_enum, default_value_t = Endpoint::Validate)]
    pub(crate) endpoint: Endpoint,

    /// The policy: a file, or one of default, audit, accelerators, strict
    #[arg(long, value_name = "FILE|NAME", value_parser = policies(), hide_possible_values = true, default_value = "default")]
    pub(crate) policy: String,

    /// Manifests of existing claims, such as the output of `kubectl get pvc -A -o yaml` (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Vec<PathBuf>,

    /// Answer nothing: print the AdmissionReviews of these manifests, one line of JSON each; - for standard input
    #[arg(long, value_name = "MANIFEST", conflicts_with_all = ["file", "endpoint", "policy", "facts"], help_heading = "Make a review")]
    pub(crate) from: Option<PathBuf>,

    /// Manifests of existing objects, which are updated instead of created (repeatable)
    #[arg(long, value_name = "FILE", requires = "from", help_heading = "Make a review")]
    pub(crate) old: Vec<PathBuf>,

    /// The namespace for manifests without one [default: default]
    #[arg(short, long, value_name = "NAME", requires = "from", help_heading = "Make a review")]
    pub(crate) namespace: Option<String>,
}

/// Arguments of `jobgate lint`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate lint k8s/                                            a directory
  jobgate lint charts/train overlays/prod                      a chart and a kustomization, rendered
  kustomize build overlays/prod | jobgate lint -               rendered manifests
  kubectl get pvc -A -o yaml > pvc.yaml
  jobgate lint --facts pvc.yaml k8s/                           with the claims of the cluster
  jobgate lint --policy audit --format github k8s/             a first rollout in CI
  jobgate lint --write-baseline .jobgate-baseline.json k8s/    baseline existing findings
  jobgate lint --baseline .jobgate-baseline.json k8s/          report only new findings
  jobgate lint --select 'gpu-*,deadline' k8s/                  some rules only
  jobgate lint --diff k8s/                                     show what --fix would change
  jobgate lint --fix k8s/                                      fill in the files what the webhook would fill in

With --diff the exit code is also 1 if there is something to fix.", group = ArgGroup::new("fixes").multiple(true))]
pub struct Lint {
    /// What is judged, and how.
    #[command(flatten)]
    pub(crate) judging: Judging,

    /// Do not report what the API server would reject anyway
    #[arg(long, help_heading = "Judging")]
    pub(crate) no_api_checks: bool,

    /// Hide the findings of this baseline (see --write-baseline), and fail only for others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write_baseline", "diff"], help_heading = "Judging")]
    pub(crate) baseline: Option<PathBuf>,

    /// Write all findings to a file for --baseline; with --fix, the remaining ones
    #[arg(long, value_name = "FILE", conflicts_with = "diff", help_heading = "Judging")]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Apply safe fixes to the files, and report what is left
    ///
    /// The rest of a file does not change. With -, the fixed text goes to standard output, and the report to
    /// standard error.
    #[arg(long, group = "fixes", help_heading = "Fixing")]
    pub(crate) fix: bool,

    /// Show what --fix would change as a unified diff, and write nothing, with --fix or without
    #[arg(long, group = "fixes", help_heading = "Fixing")]
    pub(crate) diff: bool,

    /// Also apply fixes that may not be what the author wants
    #[arg(long, requires = "fixes", help_heading = "Fixing")]
    pub(crate) unsafe_fixes: bool,
}

/// Arguments of `jobgate dry-run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  helm template my-chart | jobgate dry-run -                   a rendered chart
  kustomize build overlays/prod | jobgate dry-run -
  jobgate dry-run --against main/k8s k8s                       compared with an earlier version
  jobgate dry-run --cluster k8s                                compared with the cluster
  jobgate dry-run -o yaml job.yaml                             the objects as they would be stored

Each object is one of: allowed; allowed, patched; denied by jobgate; refused by the API server.")]
pub struct DryRun {
    /// What is judged, and how.
    #[command(flatten)]
    pub(crate) judging: Judging,

    /// Print this instead of the report, which then goes to standard error
    #[arg(short, long, value_name = "WHAT", value_enum, conflicts_with = "format", help_heading = "Report")]
    pub(crate) output: Option<Output>,

    /// How to treat unknown fields, as in `kubectl --validate`
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Validate::Strict, help_heading = "Judging")]
    pub(crate) validate: Validate,

    /// Files or directories with existing objects, which are updated instead of created (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Judging")]
    pub(crate) against: Vec<PathBuf>,

    /// Read claims, training runtimes and existing objects from the cluster; nothing is written
    #[cfg(feature = "serve")]
    #[arg(long, help_heading = "Cluster")]
    pub(crate) cluster: bool,

    /// Also create one pod of each template as a server-side dry run, to see what webhooks for pods, quotas, LimitRanges
    /// and Pod Security refuse. Needs the right to create pods; nothing is stored
    #[cfg(feature = "serve")]
    #[arg(long, requires = "cluster", help_heading = "Cluster")]
    pub(crate) try_pods: bool,

    #[cfg(feature = "serve")]
    #[command(flatten)]
    pub(crate) access: ClusterAccess,
}

/// What `jobgate dry-run` prints instead of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The objects as they would be stored, one document each
    Yaml,
    /// The same as JSON: one object, or a List of several
    Json,
    /// The webhook's JSON Patch of each object, one line of JSON each
    Patch,
    /// What the webhook fills in, as a unified diff of the files
    Diff,
}

/// How unknown fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    /// They are rejected, which is kubectl's default
    Strict,
    /// They are dropped with a warning
    Warn,
}

/// One of the two webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Endpoint {
    /// The mutating webhook, which fills in values
    Mutate,
    /// The validating webhook, which denies
    Validate,
}

impl From<Endpoint> for admission::Endpoint {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Mutate => Self::Mutate,
            Endpoint::Validate => Self::Validate,
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
