//! `podFailurePolicy` (`pkg/controller/job/pod_failure_policy.go`).

use super::super::pod::{ContainerStatus, PodGroup};
use super::spec::{ContainerSort, FailureAction, FailureMatch, FailureRule, JobSpec};

/// What the policy makes of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The action of the first rule that matches.
    pub(super) action: Option<FailureAction>,
    /// Of `FailJob`: the message of the condition.
    pub(super) message: Option<String>,
}

impl Matched {
    /// Tells whether the failure counts.
    pub(super) fn counts(&self) -> bool {
        self.action != Some(FailureAction::Ignore)
    }
}

/// Judges a failed pod.
pub(super) fn matched(spec: &JobSpec, pods: &PodGroup) -> Matched {
    for (nth, rule) in spec.failure_policy.iter().flatten().enumerate() {
        if let Some(what) = matches(spec, rule, pods) {
            let message = (rule.action == FailureAction::FailJob)
                .then(|| format!("{what} matching FailJob rule at index {nth}"));
            return Matched { action: Some(rule.action), message };
        }
    }
    Matched { action: None, message: None }
}

fn matches(spec: &JobSpec, rule: &FailureRule, pods: &PodGroup) -> Option<String> {
    match &rule.on {
        FailureMatch::ExitCodes { container, is_in, values } => {
            let is_asked = |status: &ContainerStatus| {
                let spec = spec.containers.get(status.nth);
                container.as_ref().is_none_or(|name| spec.is_some_and(|spec| spec.name == *name))
            };
            let code = |status: &ContainerStatus| {
                let (code, _) = status.terminated?;
                (code != 0 && values.contains(&code) == *is_in).then_some((status.nth, code))
            };
            // `containerStatuses` come before `initContainerStatuses`.
            let mut statuses: Vec<&ContainerStatus> = pods.containers.iter().collect();
            statuses.sort_by_key(|status| status.sort != ContainerSort::Main);
            let (nth, code) = statuses.into_iter().filter(|status| is_asked(status)).find_map(code)?;
            let name = spec.containers.get(nth).map_or("", |container| &container.name);
            Some(format!("Container {name} for pod NS/POD failed with exit code {code}"))
        }
        FailureMatch::Conditions(conditions) => {
            let (sort, _) = conditions.iter().find(|(sort, status)| pods.has_condition(sort, status))?;
            Some(format!("Pod NS/POD has condition {sort}"))
        }
    }
}
