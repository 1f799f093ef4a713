//! Arguments that the commands that judge share: the policy, the paths, and the report.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::names::{policies, rules_and_checks};
use super::size::{Size, size};
use crate::judge::finding::Level;
use crate::local::lint::MAX_FILE_SIZE;
use crate::report::{Format, Report};

/// Reads the name of a format.
fn formats() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| {
        let (name, what) = format.describe();
        PossibleValue::new(name).help(what)
    });
    let named = |name: &String| Format::ALL.iter().copied().find(|format| format.describe().0 == *name);
    PossibleValuesParser::new(names).map(move |name| named(&name).unwrap_or(Format::Human))
}

/// The policy and the report: arguments of `jobgate lint`, `jobgate dry-run` and `jobgate audit`.
#[derive(Debug, Args)]
pub(crate) struct Reporting {
    /// The configuration [default: JOBGATE_CONFIG, else jobgate.yaml in or above the first PATH, else the
    /// current directory]
    #[arg(long, value_name = "FILE", overrides_with = "no_config", help_heading = "Configuration")]
    pub(crate) config: Option<PathBuf>,

    /// Use no configuration
    #[arg(long, overrides_with = "config", help_heading = "Configuration")]
    pub(crate) no_config: bool,

    /// The policy: a file, or one of default, audit, accelerators, strict [default: default]
    #[arg(long, value_name = "FILE|NAME", value_parser = policies(), hide_possible_values = true, help_heading = "Judging")]
    pub(crate) policy: Option<String>,

    /// Use only these rules and checks, of those of the policy: ids or globs, separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rules_and_checks(), hide_possible_values = true, help_heading = "Judging")]
    pub(crate) select: Vec<String>,

    /// Do not use these rules and checks: ids or globs, separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rules_and_checks(), hide_possible_values = true, help_heading = "Judging")]
    pub(crate) ignore: Vec<String>,

    /// The lowest level that makes the exit code 1 [default: deny]
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Judging")]
    pub(crate) fail_on: Option<FailOn>,

    /// Also exit with 1 if something was not judged: an unknown kind, a chart, a patch, an unknown claim
    #[arg(long, help_heading = "Judging")]
    pub(crate) fail_on_unjudged: bool,

    /// Exit with 0 whatever is found; errors of the run still exit with 2
    #[arg(long, help_heading = "Judging")]
    pub(crate) exit_zero: bool,

    /// The format of the report
    #[arg(long, value_name = "FORMAT", value_parser = formats(), default_value = "human", help_heading = "Report")]
    pub(crate) format: Format,

    /// Write the report to a file, all of it or nothing
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) output_file: Option<PathBuf>,

    /// Show every finding instead of summarizing many of one kind
    #[arg(long, help_heading = "Report")]
    pub(crate) full: bool,

    /// Report only findings and what was not judged, without summary and progress
    #[arg(short, long, help_heading = "Report")]
    pub(crate) quiet: bool,

    /// The order of the findings
    #[arg(long, value_name = "ORDER", value_enum, default_value = "place", help_heading = "Report")]
    pub(crate) sort: Sort,

    /// Report how many findings of each rule there are, and how many can be fixed; for human and json
    #[arg(long, conflicts_with = "full", help_heading = "Report")]
    pub(crate) statistics: bool,
}

/// Input, policy and report: arguments of `jobgate lint` and `jobgate dry-run`.
#[derive(Debug, Args)]
pub(crate) struct Judging {
    /// Files, directories, globs, or - for standard input [default: those of the configuration, else .]
    ///
    /// A file is read whatever its name. In a directory, .yaml, .yml and .json files are read unless
    /// .gitignore excludes them, hidden ones (.github, .tekton) too. Links to files are followed, links to
    /// directories are not.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// The policy and the report.
    #[command(flatten)]
    pub(crate) reporting: Reporting,

    /// Skip these files and directories, on top of .gitignore and in its syntax (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = "Judging")]
    pub(crate) exclude: Vec<String>,

    /// The namespace for manifests without one, as in `kubectl -n`
    #[arg(short, long, value_name = "NAME", help_heading = "Judging")]
    pub(crate) namespace: Option<String>,

    /// Manifests of existing claims, such as the output of `kubectl get pvc -A -o yaml` (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "Judging")]
    pub(crate) facts: Vec<PathBuf>,

    /// Render charts and kustomizations, whatever the configuration says [default: with the tools that are
    /// there: helm, kustomize or kubectl]
    #[arg(long, overrides_with = "no_render", help_heading = "Judging")]
    pub(crate) render: bool,

    /// Render nothing, and start no other program
    #[arg(long, overrides_with = "render", help_heading = "Judging")]
    pub(crate) no_render: bool,

    /// Threads to use; 0 for one per processor
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = "Limits")]
    pub(crate) threads: usize,

    /// Skip files larger than this: a number of bytes, or with a suffix K, M or G
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(MAX_FILE_SIZE), help_heading = "Limits")]
    pub(crate) max_file_size: Size,
}

impl Reporting {
    /// Puts the findings of a report into the order that was asked for.
    pub(crate) fn arrange(&self, report: &mut Report) {
        match self.sort {
            Sort::Place => {}
            Sort::Cost => report.sort_by_cost(),
        }
    }
}

/// The order of the findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By file, place and rule
    #[default]
    Place,
    /// By what they cost, the dearest first; what has no cost comes last
    Cost,
}

/// The lowest level that makes a run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Denials
    Deny,
    /// Denials and warnings
    Warn,
    /// Denials, warnings and notes
    Note,
}

impl From<FailOn> for Level {
    fn from(level: FailOn) -> Self {
        match level {
            FailOn::Deny => Self::Deny,
            FailOn::Warn => Self::Warn,
            FailOn::Note => Self::Note,
        }
    }
}
