//! The rules, one file each, and the set of those that a policy has. To add one: write `rules/<id>.rs`, add fixtures
//! in `tests/rules/<id>`, and add its name here. Documentation, schema, `explain` page and webhook registration are
//! generated from the file.

use std::sync::{Arc, OnceLock};

use crate::judge::fillable::Places;
use crate::judge::finding::listed;
use crate::judge::needs::Needs;
use crate::judge::rule::{Page, Rule};

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
    checkpoint_path_persistent
    checkpoint_volume_access
    cron_runs_do_not_overlap
    deadline
    env_reference_resolves
    exit_status_kept
    gang_restarts_together
    gpu_toleration
    image_pinned_across_pods
    launcher_flags_exist
    launcher_nodes_match_pods
    launcher_rendezvous_reachable
    nccl_shared_memory_sized
    operator_retries_bounded
    pod_replacement_policy
    processes_fit_accelerators
    queue_name_is_a_label
    resources_released
    restart_policy
    signal_reaches_trainer
    spot_disruption_not_counted
    spot_taint_tolerated
    sweep_retries_per_index
    tpu_slice_complete
    ttl_after_finished
}

/// The rules that a policy has, sorted by id. Clones share them.
///
/// Nothing else knows which rules there are: two policies with different sets can judge side by side.
#[derive(Clone, Debug)]
pub struct RuleSet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rules: Vec<Rule>,
    /// Made on first use.
    fillable: OnceLock<Places>,
}

/// Two rules of a set have the same id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two rules `{0}`")]
pub struct SameId(pub String);

impl RuleSet {
    /// Returns the set of the built-in rules.
    #[must_use]
    pub fn built_in() -> Self {
        Self::of(built_in())
    }

    /// Makes a set of rules.
    ///
    /// # Errors
    /// Two of them have the same id.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, SameId> {
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        match rules.windows(2).find(|pair| pair[0].id == pair[1].id) {
            Some(pair) => Err(SameId(pair[0].id.to_string())),
            None => Ok(Self::of(rules)),
        }
    }

    /// Returns the set with some more rules.
    ///
    /// # Errors
    /// One of them has the id of another.
    pub fn with(&self, rules: impl IntoIterator<Item = Rule>) -> Result<Self, SameId> {
        Self::new(self.iter().cloned().chain(rules).collect())
    }

    /// Makes a set of rules that are sorted.
    fn of(rules: Vec<Rule>) -> Self {
        Self(Arc::new(Inner { rules, fillable: OnceLock::new() }))
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
        self.0.rules.get(self.position(id)?)
    }

    /// Returns the place of a rule in the set.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.0.rules.binary_search_by(|rule| rule.id.as_str().cmp(id)).ok()
    }

    /// Returns what a rule needs; a check of the input needs nothing.
    #[must_use]
    pub fn needs(&self, id: &str) -> Needs {
        self.find(id).map_or(Needs::NONE, |rule| rule.needs)
    }

    /// Returns the rules that have these needs, in words: `` `a` and `b` ``.
    #[must_use]
    pub fn in_need_of(&self, needs: Needs) -> String {
        let rules = self.iter().filter(|rule| rule.needs.has(needs));
        listed(&rules.map(|rule| format!("`{}`", rule.id)).collect::<Vec<_>>(), "and")
    }

    /// Returns the places that the rules may fill.
    pub(crate) fn fillable(&self) -> &Places {
        self.0.fillable.get_or_init(|| Places::of(self.iter().flat_map(|rule| rule.fills.places())))
    }
}

impl<'s> IntoIterator for &'s RuleSet {
    type Item = &'s Rule;
    type IntoIter = std::slice::Iter<'s, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
