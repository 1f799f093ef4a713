//! Arguments of `jobgate lsp`.

use std::path::PathBuf;

use clap::Args;

use super::Lint;
use super::names::policies;
use super::size::{Size, size};
use crate::local::lint::MAX_FILE_SIZE;

/// Arguments of `jobgate lsp`.
#[derive(Debug, Args)]
#[command(
    after_help = "An editor starts it and speaks to it over standard input and output; docs/editors.md shows how.

A file is judged as by `jobgate lint` with the configuration in or above its directory: the text of open files in place of the saved one, with the claims and runtimes of the whole workspace. Nothing is rendered.

Exit codes: 0 ended by the editor, 1 ended without a shutdown request, 2 the input is not the protocol."
)]
pub struct Lsp {
    /// The configuration of all files [default: JOBGATE_CONFIG, else jobgate.yaml in or above the directory
    /// of each]
    #[arg(long, value_name = "FILE", overrides_with = "no_config")]
    pub(crate) config: Option<PathBuf>,

    /// Use no configuration
    #[arg(long, overrides_with = "config")]
    pub(crate) no_config: bool,

    /// The policy: a file, or one of default, audit, accelerators, strict [default: default]
    #[arg(long, value_name = "FILE|NAME", value_parser = policies(), hide_possible_values = true)]
    pub(crate) policy: Option<String>,

    /// The namespace for manifests without one
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Manifests of existing claims, such as the output of `kubectl get pvc -A -o yaml` (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Vec<PathBuf>,

    /// Skip files larger than this: a number of bytes, or with a suffix K, M or G
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(MAX_FILE_SIZE), hide_default_value = true)]
    pub(crate) max_file_size: Size,

    /// Use standard input and output, which it does anyway
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
}

impl Lsp {
    /// Returns the arguments with which `jobgate lint` judges the same.
    #[must_use]
    pub fn lint(&self) -> Lint {
        #[derive(clap::Parser)]
        struct LintParser {
            #[command(flatten)]
            lint: Lint,
        }
        let mut lint = <LintParser as clap::Parser>::parse_from(["jobgate"]).lint;
        let judging = &mut lint.judging;
        judging.reporting.config.clone_from(&self.config);
        judging.reporting.no_config = self.no_config;
        judging.reporting.policy.clone_from(&self.policy);
        judging.namespace.clone_from(&self.namespace);
        judging.facts.clone_from(&self.facts);
        judging.max_file_size = self.max_file_size;
        // Rendering starts other programs, and takes longer than a key press.
        judging.no_render = true;
        lint
    }
}
