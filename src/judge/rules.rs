//! The rules, one file each. To add one: write `rules/<id>.rs`, add fixtures in `tests/rules/<id>`, and add
//! its two lines here. Documentation, schema, `explain` page and webhook registration are generated from the
//! file.

mod checkpoint_volume_access;
mod deadline;
mod gpu_toleration;
mod launcher_flags_exist;
mod launcher_nodes_match_pods;
mod launcher_rendezvous_reachable;
mod pod_replacement_policy;
mod processes_fit_accelerators;
mod resources_released;
mod restart_policy;
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
    checkpoint_volume_access
    deadline
    gpu_toleration
    launcher_flags_exist
    launcher_nodes_match_pods
    launcher_rendezvous_reachable
    pod_replacement_policy
    processes_fit_accelerators
    resources_released
    restart_policy
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
