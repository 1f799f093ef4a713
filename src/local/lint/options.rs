//! The options of a run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::civil::Date;

use jobgate_lint::{DryRun, LintOptions};

use super::discover::Exclusions;
use super::discover::{ByPath, Patterns};
use super::fixing::Fixing;
use crate::judge::policy::Policy;
use crate::judge::selection::Selection;
use crate::local::files::Tree;
use crate::local::render::{TIMEOUT, Tools};
use crate::text::yaml::Limits;
use jobgate_lint::Input;

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Files larger than this many bytes are not read.
    pub max_file_size: u64,
    /// Whether to report what the API server would reject.
    pub api_checks: bool,
    /// Whether the report keeps the text of files with findings.
    pub keep_sources: bool,
    /// Whether findings keep the operations of their fixes.
    pub keep_fixes: bool,
    /// Whether findings about many items keep the names of all of them, as a baseline needs.
    pub keep_items: bool,
    /// Options for predicting the webhook's answers, instead of a plain lint.
    pub dry_run: Option<DryRun<'a>>,
    /// How charts and kustomizations are rendered; `None` if they are not.
    pub render: Option<&'a Rendering>,
    /// Which findings to fix, and the destination of the fixed files.
    pub fix: Option<Fixing<'a>>,
    /// The selected rules and checks of the policy; `None` for all.
    pub selection: Option<&'a Selection>,
    /// The policy including the rules that are not used, to count what they would find; `None` if there are none.
    pub whole: Option<&'a Policy>,
    /// The policy by which to count errors that are not errors by the policy of the run; `None` if it is the same.
    pub reference: Option<&'a Policy>,
    /// The namespace of objects without one; empty if unknown.
    pub namespace: &'a str,
    /// Settings that replace the policy and the namespace for some files; later ones win.
    pub by_path: &'a [ByPath],
    /// Today's date, for exemptions that expire. Without it they do not.
    pub today: Option<Date>,
    /// Counts the files that are done.
    pub progress: Option<&'a Progress>,
}

/// The default of [`Options::max_file_size`] in bytes: several times the largest object list in etcd. A file of this
/// size takes some 700 MiB at most, whatever is in it: see `docs/lint.md`.
pub const MAX_FILE_SIZE: u64 = 32 << 20;

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            max_file_size: MAX_FILE_SIZE,
            api_checks: true,
            keep_sources: true,
            keep_fixes: true,
            keep_items: false,
            dry_run: None,
            render: None,
            fix: None,
            selection: None,
            whole: None,
            reference: None,
            namespace: "",
            by_path: &[],
            today: None,
            progress: None,
        }
    }
}

impl<'a> Options<'a> {
    /// Tells whether the findings of a rule or check are reported.
    pub(super) fn selects(&self, id: &str) -> bool {
        self.selection.is_none_or(|selection| selection.has(id))
    }

    /// Returns the namespace of a file's objects without one.
    pub(super) fn namespace_of(&self, input: &Input) -> &'a str {
        self.last_for(input, |by_path| by_path.namespace.as_deref()).unwrap_or(self.namespace)
    }

    /// Returns the policy for a file.
    pub(super) fn policy_of<'p>(&self, input: &Input, policy: &'p Policy) -> &'p Policy
    where
        'a: 'p,
    {
        self.last_for(input, |by_path| by_path.policy.as_ref()).unwrap_or(policy)
    }

    /// Returns the policy for a file, including the rules that are not used.
    pub(super) fn whole_of(&self, input: &Input) -> Option<&'a Policy> {
        let whole = self.whole?;
        Some(self.last_for(input, |by_path| by_path.whole.as_ref()).unwrap_or(whole))
    }

    fn last_for<T>(&self, input: &Input, setting: impl Fn(&'a ByPath) -> Option<T>) -> Option<T> {
        // A text without a file is in no directory.
        let path = input.content.file()?;
        let path: &Path = path;
        let set = |by_path: &'a ByPath| setting(by_path).filter(|_| by_path.patterns.matches(path, false));
        self.by_path.iter().rev().find_map(set)
    }

    /// Returns the options for judging the text of a file.
    pub(super) fn of_file<'o>(
        &'o self,
        input: &Input,
        policy: &'o Policy,
        limits: &'o Limits,
    ) -> LintOptions<'o> {
        LintOptions {
            policy: self.policy_of(input, policy),
            namespace: self.namespace_of(input),
            limits,
            api_checks: self.api_checks,
            keep_sources: self.keep_sources,
            keep_fixes: self.keep_fixes,
            keep_items: self.keep_items,
            dry_run: self.dry_run,
            fix: self.fix.map(|fixing| fixing.most),
            selection: self.selection,
            whole: self.whole_of(input),
            reference: self.reference,
            today: self.today,
        }
    }

    /// A document may be as large as a file.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            document_bytes: usize::try_from(self.max_file_size).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }
}

/// The progress of a run.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicUsize,
}

impl Progress {
    /// Counts one more.
    pub(super) fn count(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many files are done.
    #[must_use]
    pub(crate) fn files(&self) -> usize {
        self.files.load(Ordering::Relaxed)
    }
}

/// How charts and kustomizations are rendered.
#[derive(Clone, Debug)]
pub struct Rendering {
    /// Whether charts are.
    pub(crate) charts: bool,
    /// Whether kustomizations are.
    pub(crate) kustomizations: bool,
    /// Files of values, for some charts. Each is a rendering of its own; charts without any are rendered once.
    pub(crate) values: Vec<Values>,
    /// How long one rendering may take.
    pub(crate) timeout: Duration,
    /// How long all of them may take together.
    pub(crate) timeout_of_all: Duration,
    /// Whether what is missing locally is fetched.
    pub(crate) network: bool,
    /// Whether the run fails without a tool that something needs: rendering was requested explicitly.
    pub(crate) required: bool,
    /// The directories whose rendering may fail.
    pub(crate) allowed: Option<Patterns>,
    /// The tree that the files of values must be in, if the user did not name them.
    pub(crate) within: Option<Tree>,
    /// The programs.
    pub(crate) tools: Tools,
    /// The files to skip, also if something is rendered from them.
    pub(crate) exclusions: Exclusions,
}

/// Files of values for some charts.
#[derive(Clone, Debug)]
pub struct Values {
    /// The directories of the charts.
    pub(crate) charts: Patterns,
    /// The files, as Helm takes them: later ones win.
    pub(crate) files: Vec<PathBuf>,
}

impl Default for Rendering {
    fn default() -> Self {
        Self {
            charts: true,
            kustomizations: true,
            values: Vec::new(),
            timeout: TIMEOUT,
            timeout_of_all: TIMEOUT * TIMEOUTS,
            network: false,
            required: false,
            allowed: None,
            within: None,
            tools: Tools::default(),
            exclusions: Exclusions::default(),
        }
    }
}

/// Time limit of all renderings of a run together, as a multiple of the limit of one.
pub const TIMEOUTS: u32 = 20;
