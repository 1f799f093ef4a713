//! The settings of a run: its arguments, on top of the configuration.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::configuration::Configuration;
use super::output::{check, to_file_or};
use super::stderr::say;
use super::{Exit, Source, policy_named};
#[cfg(feature = "serve")]
use crate::cli::args::Audit;
use crate::cli::args::{FailOn, Judging, Lint, Reporting, Sort};
use crate::judge::policy::Policy;
use crate::judge::rules::RuleSet;
use crate::judge::selection::{NothingSelected, Selection};
use crate::local::files::Tree;
use crate::local::lint::{ByPath, Exclusions, Patterns, Rendering};
use crate::local::render::Tools;
use crate::report::{self, Report};

/// The built-in policy of a run without another.
const DEFAULT_POLICY: &str = "default";

/// Maximum columns of a terminal to use.
const WIDEST: usize = 140;

/// What a run judges, and by which settings.
#[derive(Debug)]
pub(super) struct RunSettings {
    /// The policy, without the rules that are not used.
    pub(super) policy: Policy,
    /// The policy with all rules, if some are not used.
    pub(super) whole: Option<Policy>,
    /// The policy of a run without another, if that of the run is another.
    pub(super) reference: Option<Policy>,
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
    pub(super) baseline: Option<Source>,
    /// The files of facts.
    pub(super) facts: Vec<PathBuf>,
    /// The tree that they must be in, if only a configuration that was found names them.
    pub(super) facts_within: Option<Tree>,
    /// How charts and kustomizations are rendered; `None` if they are not.
    pub(super) render: Option<Rendering>,
    fail_on: FailOn,
    /// The configuration's file, as it is shown.
    configuration: Option<String>,
    /// Messages about its settings that are ignored.
    not_done: Vec<String>,
}

/// Returns the policy that is named, that of the configuration, or the default.
fn policy_or_configured(
    named: Option<&str>,
    configuration: Option<&Configuration>,
) -> anyhow::Result<Policy> {
    match (named, configuration.and_then(|file| Some((file, file.policy.as_ref()?)))) {
        (Some(name), _) => policy_named(name),
        (None, Some((file, named))) => file.read_policy(named),
        (None, None) => policy_named(DEFAULT_POLICY),
    }
}

/// Returns the policy of a run over some paths: the one that is named, that of the configuration, or the default.
///
/// # Errors
/// The policy or the configuration is not valid.
pub(super) fn policy_of(named: Option<&str>, paths: &[PathBuf]) -> anyhow::Result<Policy> {
    // A configuration that nobody asks for cannot be wrong.
    if named.is_some() {
        return policy_or_configured(named, None);
    }
    let current = std::env::current_dir().context("find the current directory")?;
    policy_or_configured(None, Configuration::load(None, paths, &current)?.as_ref())
}

impl RunSettings {
    /// Returns the settings of `jobgate lint`.
    ///
    /// # Errors
    /// A policy, the configuration or an argument is not valid.
    pub(super) fn from_lint(args: &Lint) -> anyhow::Result<Self> {
        let mut settings = Self::new(&args.judging.reporting, Some(&args.judging))?;
        if args.write_baseline.is_some() || args.diff {
            settings.baseline = None;
        } else if args.baseline.is_some() {
            settings.baseline = args.baseline.clone().map(|path| Source { path, within: None });
        }
        // What the files would render to with the changes is not known.
        settings.render = settings.render.filter(|_| !args.diff);
        Ok(settings)
    }

    /// Returns the settings of `jobgate dry-run`.
    ///
    /// # Errors
    /// Those of [`Self::from_lint`].
    pub(super) fn from_dry_run(args: &Judging) -> anyhow::Result<Self> {
        Self::new(&args.reporting, Some(args))
    }

    /// Returns the settings of `jobgate audit`.
    ///
    /// # Errors
    /// Those of [`Self::from_lint`].
    #[cfg(feature = "serve")]
    pub(super) fn from_audit(args: &Audit) -> anyhow::Result<Self> {
        Self::new(&args.reporting, None)
    }

    fn new(reporting: &Reporting, judging: Option<&Judging>) -> anyhow::Result<Self> {
        if reporting.statistics && !reporting.format.has_statistics() {
            bail!("--statistics writes --format human or json");
        }
        if let Some(file) = &reporting.output_file {
            check(file)?;
        }
        let current = std::env::current_dir().context("find the current directory")?;
        let paths = judging.map_or(&[][..], |judging| &judging.paths);
        let found = match reporting.no_config {
            true => None,
            false => Configuration::load(reporting.config.as_deref(), paths, &current)?,
        };
        Self::with(found.as_ref(), reporting, judging, &current)
    }

    /// Returns the settings of `jobgate lint` for the files of a directory, which is absolute.
    ///
    /// # Errors
    /// Those of [`Self::from_lint`].
    pub(super) fn from_directory(args: &Lint, directory: &Path) -> anyhow::Result<Self> {
        let reporting = &args.judging.reporting;
        let current = std::env::current_dir().context("find the current directory")?;
        let found = match reporting.no_config {
            true => None,
            false => Configuration::from_directory(reporting.config.as_deref(), directory)?,
        };
        Self::with(found.as_ref(), reporting, Some(&args.judging), &current)
    }

    fn with(
        configuration: Option<&Configuration>,
        reporting: &Reporting,
        judging: Option<&Judging>,
        current: &Path,
    ) -> anyhow::Result<Self> {
        let policy = policy_or_configured(reporting.policy.as_deref(), configuration)?;
        let selection = selection(policy.rules(), reporting, configuration)?;
        let selected = |policy: Policy| match &selection {
            Some(selection) => selection.of_policy(policy),
            None => policy,
        };
        let default = crate::policies::default();
        let whole = selection.is_some().then(|| policy.clone());
        let mut is_other = policy.hash != default.hash;
        let settings = Self {
            policy: selected(policy),
            whole,
            reference: None,
            by_path: Vec::new(),
            namespace: None,
            paths: Vec::new(),
            exclusions: Exclusions::default(),
            baseline: None,
            facts: Vec::new(),
            facts_within: None,
            render: None,
            fail_on: reporting
                .fail_on
                .or(configuration.and_then(|file| file.fail_on))
                .unwrap_or(FailOn::Deny),
            configuration: configuration.map(|file| file.path.clone()),
            not_done: Vec::new(),
            selection: selection.clone(),
        };
        let Some(judging) = judging else { return Ok(settings) };
        let here = Patterns::new(Path::new(""), current, judging.exclude.iter().map(String::as_str));
        let mut exclusions = vec![here.context("--exclude")?];
        exclusions.extend(configuration.map(|file| file.exclude(current)).transpose()?);
        let mut by_path = Vec::new();
        for (file, over) in
            configuration.into_iter().flat_map(|file| file.overrides.iter().map(move |over| (file, over)))
        {
            // An argument applies to all paths.
            let policy = over.policy.as_ref().filter(|_| reporting.policy.is_none());
            let whole = policy.map(|named| file.read_policy(named)).transpose()?;
            is_other |= whole.as_ref().is_some_and(|policy| policy.hash != default.hash);
            let policy = whole.clone().map(selected);
            let namespace = over.namespace.clone().filter(|_| judging.namespace.is_none());
            by_path.push(ByPath { patterns: file.patterns(over, current)?, policy, whole, namespace });
        }
        let or_else = |given: &[PathBuf], configured: fn(&Configuration) -> anyhow::Result<Vec<PathBuf>>| {
            match configuration {
                Some(file) if given.is_empty() => configured(file),
                _ => Ok(given.to_vec()),
            }
        };
        let mut paths = or_else(&judging.paths, Configuration::paths)?;
        if paths.is_empty() {
            paths.push(PathBuf::from("."));
        }
        let mut render =
            configuration.map_or_else(|| Ok(Rendering::default()), |file| file.rendering(current))?;
        if judging.render {
            (render.charts, render.kustomizations, render.required) = (true, true, true);
        }
        let exclusions = Exclusions::from(exclusions);
        render.exclusions = exclusions.clone();
        render.tools = Tools::find(&std::env::var_os("PATH").unwrap_or_default());
        let render = Some(render).filter(|_| !judging.no_render);
        Ok(Self {
            not_done: configuration
                .filter(|_| render.is_some())
                .map(Configuration::not_done)
                .unwrap_or_default(),
            reference: is_other.then_some(default),
            render,
            by_path,
            namespace: judging.namespace.clone().or_else(|| configuration?.namespace.clone()),
            paths,
            exclusions,
            baseline: configuration.map(Configuration::baseline).transpose()?.flatten(),
            facts: or_else(&judging.facts, Configuration::facts)?,
            facts_within: configuration
                .filter(|_| judging.facts.is_empty())
                .and_then(|file| file.within().cloned()),
            ..settings
        })
    }

    /// Adds the origin of the settings, and the number of excluded files, to a report.
    pub(super) fn add_to(&self, report: &mut Report, excluded: usize) {
        report.excluded = excluded;
        report.configuration.clone_from(&self.configuration);
    }

    /// Announces the origin of the settings, if the format of the report lacks it, and the settings that are ignored.
    pub(super) fn announce(&self, reporting: &Reporting) -> io::Result<()> {
        for warning in &self.not_done {
            say(&format!("warning: {warning}"))?;
        }
        match &self.configuration {
            Some(path) if !reporting.quiet && !reporting.format.names_configuration() => {
                say(&format!("configuration: {path}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the options for writing the report.
    pub(super) fn options(&self, reporting: &Reporting, color: bool) -> report::Options {
        let default = report::Options::default();
        let columns = if reporting.output_file.is_none() { columns() } else { None };
        report::Options {
            color: color && reporting.output_file.is_none(),
            width: columns.unwrap_or(default.width),
            columns,
            full: reporting.full,
            quiet: reporting.quiet,
            statistics: reporting.statistics,
            by_cost: reporting.sort == Sort::Cost,
            fail_on: self.fail_on.into(),
            fail_on_unjudged: reporting.fail_on_unjudged,
            rules: self.policy.rules().clone(),
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

    /// Returns the outcome of the run; `complete` is whether everything could be read and written.
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

/// Returns the columns of the terminal, if standard output is one: lines wider than [`WIDEST`] are hard to read.
pub(super) fn columns() -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(columns).min(WIDEST))
}

/// Returns the rules and checks that are used. With `--select`, the configuration's lists do not count:
/// whoever asks for a rule gets it.
fn selection(
    rules: &RuleSet,
    reporting: &Reporting,
    configuration: Option<&Configuration>,
) -> Result<Option<Selection>, NothingSelected> {
    if let (true, Some(file)) = (reporting.select.is_empty(), configuration) {
        let ignore = [&file.ignore[..], &reporting.ignore].concat();
        return Selection::new(rules, &file.select, &ignore);
    }
    Selection::new(rules, &reporting.select, &reporting.ignore)
}
