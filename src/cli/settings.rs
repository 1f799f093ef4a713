//! The settings of a run, from its arguments.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::output::{check, to_file_or};
use super::{Exit, policy_named};
#[cfg(feature = "serve")]
use crate::cli::args::Audit;
use crate::cli::args::{FailOn, Judging, Lint, Reporting};
use crate::judge::policy::Policy;
use crate::judge::selection::Selection;
use crate::local::lint::{ByPath, Exclusions, Patterns};
use crate::report::{self, Report};

/// The built-in policy of a run without another.
const DEFAULT_POLICY: &str = "default";

/// What a run judges, and by what.
#[derive(Debug)]
pub(super) struct Settings {
    /// The policy, without the rules that are not used.
    pub(super) policy: Policy,
    /// The rules and checks that are used; nothing for all.
    pub(super) selection: Option<Selection>,
    /// What holds for some files instead.
    pub(super) by_path: Vec<ByPath>,
    /// The namespace of manifests without one.
    pub(super) namespace: Option<String>,
    /// The files and directories.
    pub(super) paths: Vec<PathBuf>,
    /// Those of them that are skipped.
    pub(super) exclusions: Exclusions,
    /// The baseline to read.
    pub(super) baseline: Option<PathBuf>,
    /// The files of facts.
    pub(super) facts: Vec<PathBuf>,
    fail_on: FailOn,
}

impl Settings {
    /// Returns the settings of `jobgate lint`.
    ///
    /// # Errors
    /// A policy or an argument is not valid.
    pub(super) fn of_lint(args: &Lint) -> anyhow::Result<Self> {
        let settings = Self::of(&args.judging.reporting, Some(&args.judging))?;
        Ok(Self { baseline: args.baseline.clone(), ..settings })
    }

    /// Returns the settings of `jobgate dry-run`.
    ///
    /// # Errors
    /// Those of [`Self::of_lint`].
    pub(super) fn of_dry_run(args: &Judging) -> anyhow::Result<Self> {
        Self::of(&args.reporting, Some(args))
    }

    /// Returns the settings of `jobgate audit`.
    ///
    /// # Errors
    /// Those of [`Self::of_lint`].
    #[cfg(feature = "serve")]
    pub(super) fn of_audit(args: &Audit) -> anyhow::Result<Self> {
        Self::of(&args.reporting, None)
    }

    fn of(reporting: &Reporting, judging: Option<&Judging>) -> anyhow::Result<Self> {
        if reporting.statistics && !reporting.format.has_statistics() {
            bail!("--statistics writes --format human or json");
        }
        if let Some(file) = &reporting.output_file {
            check(file)?;
        }
        let selection = Selection::new(&reporting.select, &reporting.ignore)?;
        let policy = policy_named(reporting.policy.as_deref().unwrap_or(DEFAULT_POLICY))?;
        let policy = match &selection {
            Some(selection) => selection.of_policy(policy),
            None => policy,
        };
        let mut exclusions = Vec::new();
        let mut paths = Vec::new();
        if let Some(judging) = judging {
            let current = std::env::current_dir().context("find the current directory")?;
            let patterns = judging.exclude.iter().map(String::as_str);
            exclusions.push(Patterns::new(Path::new(""), &current, patterns).context("--exclude")?);
            paths.clone_from(&judging.paths);
            if paths.is_empty() {
                paths.push(PathBuf::from("."));
            }
        }
        Ok(Self {
            policy,
            selection,
            by_path: Vec::new(),
            namespace: judging.and_then(|judging| judging.namespace.clone()),
            paths,
            exclusions: exclusions.into(),
            baseline: None,
            facts: judging.map(|judging| judging.facts.clone()).unwrap_or_default(),
            fail_on: reporting.fail_on.unwrap_or(FailOn::Deny),
        })
    }

    /// Returns how the report is written.
    pub(super) fn options(&self, reporting: &Reporting, color: bool) -> report::Options {
        report::Options {
            color: color && reporting.output_file.is_none(),
            full: reporting.full,
            quiet: reporting.quiet,
            statistics: reporting.statistics,
            fail_on: self.fail_on.into(),
            fail_on_unjudged: reporting.fail_on_unjudged,
            ..report::Options::default()
        }
    }

    /// Writes the report to standard output, or to the file for it.
    pub(super) fn write(&self, reporting: &Reporting, report: &Report, color: bool) -> anyhow::Result<()> {
        self.write_to(reporting, report, color, &mut io::stdout().lock())
    }

    /// Writes the report to a stream, or to the file for it.
    pub(super) fn write_to(
        &self,
        reporting: &Reporting,
        report: &Report,
        color: bool,
        stream: &mut dyn io::Write,
    ) -> anyhow::Result<()> {
        let options = self.options(reporting, color);
        to_file_or(reporting.output_file.as_deref(), stream, |out| {
            report::write(report, reporting.format, &options, out)
        })
    }

    /// Returns how the run ends; `complete` is whether everything could be read and written.
    pub(super) fn exit(&self, reporting: &Reporting, report: &Report, complete: bool) -> Exit {
        let level = self.fail_on.into();
        let found = report.findings.iter().any(|located| located.finding.level >= level)
            || reporting.fail_on_unjudged && !report.unjudged.is_empty();
        match (complete, found && !reporting.exit_zero) {
            (false, _) => Exit::Failed,
            (true, true) => Exit::Findings,
            (true, false) => Exit::Clean,
        }
    }
}
