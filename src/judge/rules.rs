//! The rules, one file each. To add one: write `rules/<id>.rs`, add fixtures in `tests/rules/<id>`, and add
//! its two lines here. Documentation, schema, `explain` page and webhook registration are generated from the
//! file.

mod accelerator_container_ends;
mod accelerator_hours_bounded;
mod checkpoint_path_persistent;
mod checkpoint_volume_access;
mod cron_runs_do_not_overlap;
mod deadline;
mod env_reference_resolves;
mod exit_status_kept;
mod gang_restarts_together;
mod gpu_toleration;
mod image_pinned_across_pods;
mod launcher_flags_exist;
mod launcher_nodes_match_pods;
mod launcher_rendezvous_reachable;
mod nccl_shared_memory_sized;
mod operator_retries_bounded;
mod pod_replacement_policy;
mod processes_fit_accelerators;
mod queue_name_is_a_label;
mod resources_released;
mod restart_policy;
mod signal_reaches_trainer;
mod spot_disruption_not_counted;
mod spot_taint_tolerated;
mod sweep_retries_per_index;
mod tpu_slice_complete;
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
