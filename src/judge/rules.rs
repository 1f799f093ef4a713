//! The rules, one file each. To add one: write `rules/<id>.rs`, add fixtures in `tests/rules/<id>`, and add
//! its two lines here. Documentation, schema, `explain` page and webhook registration are generated from the
//! file.

mod accelerator_container_ends;
mod checkpoint_path_persistent;
mod checkpoint_volume_access;
mod deadline;
mod env_reference_resolves;
mod exit_status_kept;
mod gang_restarts_together;
mod gpu_toleration;
mod nccl_shared_memory_sized;
mod pod_replacement_policy;
mod resources_released;
mod restart_policy;
mod signal_reaches_trainer;
mod sweep_retries_per_index;
mod ttl_after_finished;

pub(crate) use checkpoint_volume_access::is_named_like_checkpoints;

use crate::judge::rule::Rule;

/// A rule and the text of its file, whose doc comment is the rule's manual page.
#[derive(Debug)]
pub struct Entry {
    /// The rule.
    pub rule: &'static Rule,
    /// The source of its file.
    source: &'static str,
}

macro_rules! entries {
    ($($file:ident)*) => {
        &[$(Entry {
            rule: &$file::RULE,
            source: include_str!(concat!("rules/", stringify!($file), ".rs")),
        }),*]
    };
}

/// All rules, sorted by id.
pub static RULES: &[Entry] = entries! {
    accelerator_container_ends
    checkpoint_path_persistent
    checkpoint_volume_access
    deadline
    env_reference_resolves
    exit_status_kept
    gang_restarts_together
    gpu_toleration
    nccl_shared_memory_sized
    pod_replacement_policy
    resources_released
    restart_policy
    signal_reaches_trainer
    sweep_retries_per_index
    ttl_after_finished
};

impl Entry {
    /// Returns the rule's manual page, in Markdown.
    #[must_use]
    pub fn page(&self) -> String {
        let lines = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        lines
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .fold(String::new(), |page, line| page + line + "\n")
    }
}

/// Returns a rule by id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    RULES.iter().find(|entry| entry.rule.id == id)
}
