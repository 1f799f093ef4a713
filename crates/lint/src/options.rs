//! How the text of a file is judged.

use jiff::civil::Date;
use jobgate_core::judge::facts::FactTable;
use jobgate_core::judge::finding::Safety;
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::selection::Selection;
use jobgate_core::text::yaml::Limits;

use crate::against::Against;

/// How the text of one file is judged.
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
    /// Whether findings about many items keep the names of all of them, which a baseline asks for.
    pub keep_items: bool,
    /// How to predict the webhook's answers, instead of a plain lint.
    pub dry_run: Option<DryRun<'a>>,
    /// The least safe fixes that are made; nothing where none is.
    pub fix: Option<Safety>,
    /// The rules and checks that are used, of those of the policy; nothing for all.
    pub selection: Option<&'a Selection>,
    /// The policy with the rules that are not used as well, to count what they would find; nothing if there are none.
    pub whole: Option<&'a Policy>,
    /// The policy to count the errors by that are none by that of the run; nothing if it is the same.
    pub reference: Option<&'a Policy>,
    /// Today, for exemptions that end. Without it they do not.
    pub today: Option<Date>,
}

impl LintOptions<'_> {
    /// Tells whether the findings of a rule or check are reported.
    #[must_use]
    pub fn selects(&self, id: &str) -> bool {
        self.selection.is_none_or(|selection| selection.has(id))
    }
}

/// The options of a dry run.
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'a> {
    /// Whether unknown fields are rejected, kubectl's default.
    pub strict: bool,
    /// Objects that exist.
    pub against: &'a Against,
    /// Claims in the cluster, if they were looked up.
    pub cluster: Option<&'a FactTable>,
    /// Whether answers keep the objects as they would be stored.
    pub keep_objects: bool,
}
