//! The settings of the files of a directory: the same as for `jobgate lint` there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::cli::args::{Lint, Lsp};
use crate::cli::configuration::Configuration;
use crate::cli::lint::read_baseline;
use crate::cli::settings::RunSettings;
use crate::cli::stderr::in_full;
use crate::cli::{facts, today};
use crate::local::baseline::{Baseline, Root};
use crate::local::lint::{Claims, Options};

/// The settings of some files.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) settings: RunSettings,
    pub(super) facts: Claims,
    pub(super) baseline: Option<(Baseline, Root)>,
    max_file_size: u64,
}

impl Project {
    /// Reads the settings of the files in a directory.
    pub(super) fn new(args: &Lint, directory: &Path) -> anyhow::Result<Self> {
        let settings = RunSettings::from_directory(args, directory)?;
        let max_file_size = args.judging.max_file_size.0;
        let facts = facts(
            &settings.facts,
            settings.facts_within.as_ref(),
            &Options { max_file_size, ..Options::default() },
        )?;
        let baseline = settings.baseline.as_ref();
        let baseline = baseline.map(|file| read_baseline(file, &settings)).transpose();
        Ok(Self {
            facts,
            baseline: baseline.context("the baseline of the configuration")?,
            settings,
            max_file_size,
        })
    }

    /// Returns the options for judging a file.
    pub(super) fn options(&self) -> Options<'_> {
        Options {
            max_file_size: self.max_file_size,
            keep_sources: false,
            keep_items: self.baseline.is_some(),
            selection: self.settings.selection.as_ref(),
            namespace: self.settings.namespace.as_deref().unwrap_or_default(),
            by_path: &self.settings.by_path,
            today: Some(today()),
            ..Options::default()
        }
    }

    /// Tells whether it was read from a file, apart from the configuration and the policy.
    fn reads(&self, path: &Path) -> bool {
        let settings = &self.settings;
        let baseline = settings.baseline.as_ref().map(|file| &file.path);
        settings.facts.iter().chain(baseline).any(|file| path.ends_with(file))
    }
}

/// The settings of one file.
#[derive(Clone, Debug)]
pub(super) struct FileSetting {
    /// Its settings: the last ones that were valid.
    pub(super) project: Option<Arc<Project>>,
    /// Why the current ones are not valid.
    pub(super) error: Option<Arc<str>>,
}

/// The settings of all directories, read once.
#[derive(Debug)]
pub(super) struct Projects {
    args: Arc<Lint>,
    /// The configuration of each directory, and when it was written.
    configurations: BTreeMap<PathBuf, (Option<PathBuf>, Option<SystemTime>)>,
    /// The settings of each configuration.
    settings: BTreeMap<Option<PathBuf>, FileSetting>,
    /// The last valid ones.
    valid: BTreeMap<Option<PathBuf>, Arc<Project>>,
}

impl Projects {
    pub(super) fn new(args: &Lsp) -> Self {
        Self {
            args: Arc::new(args.lint()),
            configurations: BTreeMap::new(),
            settings: BTreeMap::new(),
            valid: BTreeMap::new(),
        }
    }

    pub(super) fn args(&self) -> Arc<Lint> {
        Arc::clone(&self.args)
    }

    /// Returns options with the maximum size of files.
    pub(super) fn limits(&self) -> Options<'static> {
        Options { max_file_size: self.args.judging.max_file_size.0, ..Options::default() }
    }

    /// Returns the settings of a file.
    pub(super) fn of(&mut self, path: &Path) -> FileSetting {
        let current = std::env::current_dir().unwrap_or_default();
        let path = current.join(path);
        let directory = path.parent().unwrap_or(&path);
        let configuration = match self.configurations.get(directory) {
            Some((known, _)) => known.clone(),
            None => {
                let found = found(directory);
                self.configurations.insert(directory.to_owned(), found.clone());
                found.0
            }
        };
        if let Some(known) = self.settings.get(&configuration) {
            return known.clone();
        }
        let setting = match Project::new(&self.args, directory) {
            Ok(project) => {
                let project = Arc::new(project);
                self.valid.insert(configuration.clone(), Arc::clone(&project));
                FileSetting { project: Some(project), error: None }
            }
            Err(error) => FileSetting {
                project: self.valid.get(&configuration).cloned(),
                error: Some(in_full(&error).into()),
            },
        };
        self.settings.insert(configuration, setting.clone());
        setting
    }

    /// Forgets the settings, which are read again when they are needed.
    pub(super) fn forget(&mut self) {
        self.configurations.clear();
        self.settings.clear();
    }

    /// Tells whether settings may have changed without a notification: they were invalid because something was missing,
    /// or a configuration was written that the editor does not watch.
    pub(super) fn may_have_changed(&self) -> bool {
        let has_changed = |(directory, known): (&PathBuf, &(_, _))| found(directory) != *known;
        self.settings.values().any(|setting| setting.error.is_some())
            || self.configurations.iter().any(has_changed)
    }

    /// Tells whether some settings were read from a file, apart from configurations and policies.
    pub(super) fn read_from(&self, path: &Path) -> bool {
        self.valid.values().any(|project| project.reads(path))
    }
}

/// Returns the configuration of a directory, and when it was written.
fn found(directory: &Path) -> (Option<PathBuf>, Option<SystemTime>) {
    let path = Configuration::path_for(directory);
    let written = path.as_ref().and_then(|path| path.metadata().ok()?.modified().ok());
    (path, written)
}
