//! Options for judging the text of a file.

use jiff::civil::Date;
use jobgate_core::judge::facts::FactTable;
use jobgate_core::judge::finding::Safety;
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::selection::Selection;
use jobgate_core::text::yaml::Limits;

use crate::existing_objects::ExistingObjects;

/// Options for judging the text of one file.
#[derive(Clone, Copy, Debug)]
pub struct LintOptions<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The namespace of objects without one; empty if unknown.
    pub namespace: &'a str,
    /// The bounds of a document.
    pub limits: &'a Limits,
    /// Whether to report what the API server would reject.
    pub api_checks: bool,
    /// Whether the report keeps the text of a file with findings.
    pub keep_sources: bool,
    /// Whether findings keep the operations of their fixes.
    pub keep_fixes: bool,
    /// Whether findings about many items keep the names of all of them, as a baseline needs.
    pub keep_items: bool,
    /// Options for predicting the webhook's answers, instead of a plain lint.
    pub dry_run: Option<DryRun<'a>>,
    /// The least safe kind of fix to apply; `None` to apply none.
    pub fix: Option<Safety>,
    /// The selected rules and checks of the policy; `None` for all.
    pub selection: Option<&'a Selection>,
    /// The policy including the rules that are not used, to count what they would find; `None` if there are none.
    pub whole: Option<&'a Policy>,
    /// The policy by which to count errors that are not errors by the policy of the run; `None` if it is the same.
    pub reference: Option<&'a Policy>,
    /// Today's date, for exemptions that expire. Without it they do not.
    pub today: Option<Date>,
}

impl LintOptions<'_> {
    /// Tells whether the findings of a rule or check are reported.
    #[must_use]
    pub(crate) fn selects(&self, id: &str) -> bool {
        self.selection.is_none_or(|selection| selection.has(id))
    }
}

/// The options of a dry run.
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'a> {
    /// Whether unknown fields are rejected, kubectl's default.
    pub strict: bool,
    /// Existing objects.
    pub against: &'a ExistingObjects,
    /// Claims in the cluster, if they were looked up.
    pub cluster: Option<&'a FactTable>,
    /// Whether answers keep the objects as they would be stored.
    pub keep_objects: bool,
    /// Whether answers have the pods of objects that would be stored.
    pub keep_pods: bool,
}
