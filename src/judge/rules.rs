//! The rules, one file each. To add one: write `rules/<id>.rs`, add fixtures in `tests/rules/<id>`, and add
//! its two lines here. Documentation, schema, `explain` page and webhook registration are generated from the
//! file.

mod accelerator_hours_bounded;
mod checkpoint_volume_access;
mod cron_runs_do_not_overlap;
mod deadline;
mod gpu_toleration;
mod image_pinned_across_pods;
mod launcher_flags_exist;
mod launcher_nodes_match_pods;
mod launcher_rendezvous_reachable;
mod operator_retries_bounded;
mod pod_replacement_policy;
mod processes_fit_accelerators;
mod queue_name_is_a_label;
mod resources_released;
mod restart_policy;
mod spot_disruption_not_counted;
mod spot_taint_tolerated;
mod tpu_slice_complete;
mod ttl_after_finished;

pub(crate) use checkpoint_volume_access::is_named_like_checkpoints;

use crate::judge::rule::Rule;
use crate::kinds::Workload;

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
    accelerator_hours_bounded
    checkpoint_volume_access
    cron_runs_do_not_overlap
    deadline
    gpu_toleration
    image_pinned_across_pods
    launcher_flags_exist
    launcher_nodes_match_pods
    launcher_rendezvous_reachable
    operator_retries_bounded
    pod_replacement_policy
    processes_fit_accelerators
    queue_name_is_a_label
    resources_released
    restart_policy
    spot_disruption_not_counted
    spot_taint_tolerated
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

/// Tells whether a rule reads command lines, mounts or hooks of the object's containers, without regard to
/// claims that are looked up. The webhook passes over them where none does.
#[must_use]
pub(crate) fn read_containers(workload: &Workload<'_>) -> bool {
    cron_runs_do_not_overlap::reads_mounts(workload) || spot_disruption_not_counted::reads_commands(workload)
}

/// Returns a rule by id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    RULES.iter().find(|entry| entry.rule.id == id)
}
