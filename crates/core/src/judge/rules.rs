//! The rules, one file each, and the set of those that a policy has. To add one: write `rules/<id>.rs`, add fixtures
//! in `tests/rules/<id>`, and add its name here. Documentation, schema, `explain` page and webhook registration are
//! generated from the file.

use std::sync::{Arc, OnceLock};

use crate::judge::checks;
use crate::judge::fillable::FillablePaths;
use crate::judge::finding::listed;
use crate::judge::needs::Needs;
use crate::judge::rule::{Page, Rule, RuleId};

macro_rules! rules {
    ($($file:ident)*) => {
        $(mod $file;)*

        /// Returns the built-in rules.
        fn built_in() -> Vec<Rule> {
            vec![$(Rule {
                page: Page::OfFile(include_str!(concat!("rules/", stringify!($file), ".rs"))),
                ..$file::rule()
            }),*]
        }
    };
}

rules! {
    accelerator_container_ends
    accelerator_hours_bounded
    annotation_at_its_level
    checkpoint_path_persistent
    checkpoint_volume_access
    cron_runs_do_not_overlap
    deadline
    env_reference_resolves
    exit_status_kept
    exit_status_on_sigterm
    failure_policy_rules_reachable
    gang_restarts_together
    gpu_toleration
    image_pinned_across_pods
    launcher_flags_exist
    launcher_nodes_match_pods
    launcher_rendezvous_reachable
    lifecycle_policies_act
    lost_node_left
    managed_by_known
    nccl_shared_memory_sized
    node_name_bypasses_scheduler
    operator_retries_bounded
    pod_replacement_policy
    pod_template_valid
    processes_fit_accelerators
    queue_eviction_ends
    queue_name_is_a_label
    resources_released
    restart_policy
    retries_cover_a_gang
    retries_take_effect
    sidecar_ends
    signal_reaches_trainer
    spot_disruption_not_counted
    spot_taint_tolerated
    success_completes_job
    sweep_retries_per_index
    tpu_slice_complete
    ttl_after_finished
    voluntary_eviction_blocked
}

/// The rules that a policy has, sorted by id. Clones share them.
///
/// Nothing else knows which rules there are: two policies with different sets can judge side by side.
#[derive(Clone, Debug)]
pub struct RuleSet(Arc<RulesInner>);

#[derive(Debug)]
struct RulesInner {
    rules: Vec<Rule>,
    /// The lengths of their ids, a bit for each: an annotation may name hundreds of thousands of others.
    lengths: u64,
    /// Made on first use.
    fillable: OnceLock<FillablePaths>,
}

/// The reason why rules do not form a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSet {
    /// Two of them have the same id.
    #[error("there are two rules `{0}`")]
    SameId(RuleId),
    /// An id cannot be written in policies, annotations and reports.
    #[error("`{0}` is not the id of a rule: write lower-case words with hyphens between them")]
    NoId(RuleId),
    /// A rule has the id of a check of the input.
    #[error("`{0}` is a check of the input, and cannot be the id of a rule")]
    OfCheck(RuleId),
    /// A rule does not declare its parameter that defines accelerators.
    #[error("the rule `{0}` does not declare the parameter that says what an accelerator is")]
    NoTable(RuleId),
}

/// Tells whether a text may be the id of a rule: words of lower-case letters and digits, with hyphens.
fn is_id(id: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    id.len() <= LONGEST_ID && id.split('-').all(is_word)
}

/// Returns the bit of the length of an id.
fn length(id: &str) -> u64 {
    if id.len() > LONGEST_ID { 0 } else { 1 << id.len() }
}

/// The longest id, in bytes: it is part of names of objects in a cluster.
const LONGEST_ID: usize = 63;

impl RuleSet {
    /// Returns the set of the built-in rules.
    #[must_use]
    pub fn built_in() -> Self {
        Self::from_rules(built_in())
    }

    /// Makes a set of rules.
    ///
    /// # Errors
    /// Two of them have the same id, or one cannot be in a set.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, NoSet> {
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(pair) = rules.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(NoSet::SameId(pair[0].id.clone()));
        }
        for rule in &rules {
            let id = || rule.id.clone();
            if !is_id(&rule.id) {
                return Err(NoSet::NoId(id()));
            }
            if checks::find(&rule.id).is_some() {
                return Err(NoSet::OfCheck(id()));
            }
            if rule.accelerators.is_some_and(|table| rule.param(table.0.name).is_none()) {
                return Err(NoSet::NoTable(id()));
            }
        }
        Ok(Self::from_rules(rules))
    }

    /// Returns the set with some more rules.
    ///
    /// # Errors
    /// Same as for [`Self::new`].
    pub fn with(&self, rules: impl IntoIterator<Item = Rule>) -> Result<Self, NoSet> {
        Self::new(self.iter().cloned().chain(rules).collect())
    }

    /// Creates a set of rules that are sorted.
    fn from_rules(rules: Vec<Rule>) -> Self {
        let lengths = rules.iter().fold(0, |all, rule| all | length(&rule.id));
        Self(Arc::new(RulesInner { rules, lengths, fillable: OnceLock::new() }))
    }

    /// Returns the rules, sorted by id.
    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.0.rules.iter()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.rules.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.rules.is_empty()
    }

    /// Returns a rule by id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Rule> {
        self.at(self.position(id)?)
    }

    /// Returns the rule at a place in the set.
    pub(super) fn at(&self, position: usize) -> Option<&Rule> {
        self.0.rules.get(position)
    }

    /// Returns the place of a rule in the set.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        if self.0.lengths & length(id) == 0 {
            return None;
        }
        self.0.rules.binary_search_by(|rule| rule.id.as_str().cmp(id)).ok()
    }

    /// Returns what a rule needs; a check of the input needs nothing.
    #[must_use]
    pub fn needs(&self, id: &str) -> Needs {
        self.find(id).map_or(Needs::NONE, |rule| rule.needs)
    }

    /// Returns the ids of the rules with these needs, in words: `` `a` and `b` ``.
    #[must_use]
    pub fn names_needing(&self, needs: Needs) -> String {
        let rules = self.iter().filter(|rule| rule.needs.has(needs));
        listed(&rules.map(|rule| format!("`{}`", rule.id)).collect::<Vec<_>>(), "and")
    }

    /// Returns the places that the rules may fill.
    pub(crate) fn fillable(&self) -> &FillablePaths {
        self.0.fillable.get_or_init(|| FillablePaths::new(self.iter().flat_map(|rule| rule.fills.places())))
    }
}

impl<'s> IntoIterator for &'s RuleSet {
    type Item = &'s Rule;
    type IntoIter = std::slice::Iter<'s, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
