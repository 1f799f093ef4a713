//! What a Job asks for, as its controller reads it: with the defaults of the API server.

use std::sync::Arc;

use super::super::admission::PodDemand;
use super::super::indexes::Indexes;
use super::super::managers;
use super::super::time::Time;
use crate::text::placeholder::is_placeholder;
use crate::text::value::Value;

/// The fields of a Job's `spec` that its controller looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// `parallelism`.
    pub parallelism: u32,
    /// `completions`; nothing for a work queue, which is done with the first success.
    pub(crate) completions: Option<u32>,
    /// Whether `completionMode` is `Indexed`.
    pub indexed: bool,
    /// `backoffLimit`.
    pub backoff_limit: u32,
    /// `backoffLimitPerIndex`.
    pub(crate) backoff_limit_per_index: Option<u32>,
    /// `maxFailedIndexes`.
    pub(crate) max_failed_indexes: Option<u32>,
    /// `activeDeadlineSeconds`.
    pub deadline: Option<Time>,
    /// `ttlSecondsAfterFinished`.
    pub(crate) ttl: Option<Time>,
    /// `suspend`.
    pub suspend: bool,
    /// Whether a pod counts as failed only at its end: `podReplacementPolicy: Failed`, or any `podFailurePolicy`
    /// (`onlyReplaceFailedPods`, `pkg/controller/job/job_controller.go`).
    pub only_failed: bool,
    /// `podFailurePolicy.rules`; nothing where there is no policy.
    pub(crate) failure_policy: Option<Vec<FailureRule>>,
    /// `successPolicy.rules`; nothing where there is no policy.
    pub(crate) success_policy: Option<Vec<SuccessRule>>,
    /// `managedBy` names another controller.
    pub is_managed_by_other: bool,
    /// Whether `restartPolicy` is `OnFailure`.
    pub restarts_in_place: bool,
    /// `terminationGracePeriodSeconds`.
    pub(crate) grace: Time,
    /// The containers of the pod template.
    pub containers: Arc<[ContainerSpec]>,
    /// What decides whether the API server takes its pods.
    pub(crate) demand: Arc<PodDemand>,
}

/// A container of the pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// `name`.
    pub(crate) name: String,
    /// In which list it is.
    pub sort: ContainerSort,
}

impl ContainerSpec {
    /// Returns `name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerSort {
    /// One of `containers`.
    Main,
    /// One of `initContainers` that has to end before the others start.
    Init,
    /// One of `initContainers` with `restartPolicy: Always`, beside the others.
    Sidecar,
}

/// A rule of `podFailurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureRule {
    /// `action`.
    pub(crate) action: FailureAction,
    /// What it asks of a pod.
    pub(crate) on: FailureMatch,
}

/// `action` of a rule of `podFailurePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureAction {
    /// `FailJob`.
    FailJob,
    /// `FailIndex`.
    FailIndex,
    /// `Ignore`.
    Ignore,
    /// `Count`.
    Count,
}

/// What a rule of `podFailurePolicy` asks of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FailureMatch {
    /// `onExitCodes`.
    ExitCodes {
        /// `containerName`; nothing for any container.
        container: Option<String>,
        /// Whether `operator` is `In`.
        is_in: bool,
        /// `values`.
        values: Vec<i64>,
    },
    /// `onPodConditions`: each a type and a status.
    Conditions(Vec<(String, String)>),
}

/// A rule of `successPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuccessRule {
    /// `succeededIndexes`.
    pub(crate) indexes: Option<Indexes>,
    /// `succeededCount`.
    pub(crate) count: Option<u32>,
}

/// The default of `terminationGracePeriodSeconds`.
pub(in super::super) const GRACE: Time = Time::from_seconds(30);

fn number(value: &Value, key: &str) -> Option<u32> {
    value.get(key).and_then(Value::as_u64).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn seconds(value: &Value, key: &str) -> Option<Time> {
    value.get(key).and_then(Value::as_i64).map(Time::from_seconds)
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The fields with one value that decide what the controller does; without one of them, nothing can be said.
const FIELDS: [&str; 12] = [
    "/parallelism",
    "/completions",
    "/completionMode",
    "/backoffLimit",
    "/backoffLimitPerIndex",
    "/maxFailedIndexes",
    "/activeDeadlineSeconds",
    "/suspend",
    "/managedBy",
    "/podReplacementPolicy",
    "/template/spec/restartPolicy",
    "/template/spec/terminationGracePeriodSeconds",
];

impl JobSpec {
    /// Returns a field that decides and has a placeholder, such as `$COUNT`, in place of a value, with its text.
    #[must_use]
    pub fn placeholder(spec: &Value) -> Option<(&'static str, &str)> {
        FIELDS.into_iter().find_map(|field| {
            let text = spec.pointer(field).and_then(Value::as_str).filter(|text| is_placeholder(text))?;
            Some((field.trim_start_matches('/'), text))
        })
    }

    /// Reads a `spec`.
    #[must_use]
    pub fn from_spec(spec: &Value) -> Self {
        let parallelism = number(spec, "parallelism");
        let completions = match (number(spec, "completions"), parallelism) {
            (None, None) => Some(1),
            (completions, _) => completions,
        };
        let per_index = number(spec, "backoffLimitPerIndex");
        let unlimited = i32::MAX.unsigned_abs();
        let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
        let failure_policy = spec.get("podFailurePolicy").filter(|policy| !policy.is_null());
        let success_policy = spec.get("successPolicy").filter(|policy| !policy.is_null());
        Self {
            parallelism: parallelism.unwrap_or(1),
            completions,
            indexed: text(spec, "completionMode") == Some("Indexed"),
            backoff_limit: number(spec, "backoffLimit").unwrap_or(if per_index.is_some() {
                unlimited
            } else {
                6
            }),
            backoff_limit_per_index: per_index,
            max_failed_indexes: number(spec, "maxFailedIndexes"),
            deadline: seconds(spec, "activeDeadlineSeconds"),
            ttl: seconds(spec, "ttlSecondsAfterFinished"),
            suspend: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
            only_failed: failure_policy.is_some() || text(spec, "podReplacementPolicy") == Some("Failed"),
            failure_policy: failure_policy
                .map(|policy| list(policy, "rules").filter_map(FailureRule::from_rule).collect()),
            success_policy: success_policy
                .map(|policy| list(policy, "rules").map(SuccessRule::from_rule).collect()),
            is_managed_by_other: text(spec, "managedBy").is_some_and(|manager| manager != managers::JOB),
            restarts_in_place: text(pod, "restartPolicy") == Some("OnFailure"),
            grace: seconds(pod, "terminationGracePeriodSeconds").unwrap_or(GRACE),
            containers: containers(pod),
            demand: Arc::new(PodDemand::from_pod(pod)),
        }
    }

    /// Tells whether the API server takes it, as far as it decides what happens: an Indexed Job has `completions`.
    #[must_use]
    pub(crate) fn is_valid(&self) -> bool {
        !self.indexed || self.completions.is_some()
    }

    /// Tells whether the API server takes this in place of another: `completions` of an Indexed Job changes together
    /// with `parallelism`, and nobody else's does.
    #[must_use]
    pub(crate) fn may_replace(&self, old: &Self) -> bool {
        self.completions == old.completions || self.indexed && self.completions == Some(self.parallelism)
    }

    /// Returns how many failures it survives; nothing where only those of each index have a limit, or none has.
    #[must_use]
    pub fn retries(&self) -> Option<u32> {
        Some(self.backoff_limit).filter(|limit| *limit < i32::MAX.unsigned_abs())
    }

    /// Returns how many pods there are at once, at most.
    #[must_use]
    pub fn at_once(&self) -> u32 {
        self.completions.map_or(self.parallelism, |all| all.min(self.parallelism))
    }

    /// Returns the completion indexes.
    #[must_use]
    pub(crate) fn indexes(&self) -> Indexes {
        Indexes::below(self.completions.unwrap_or(u32::MAX))
    }
}

pub(in super::super) fn containers(pod: &Value) -> Arc<[ContainerSpec]> {
    let named = |container: &Value, sort| ContainerSpec {
        name: text(container, "name").unwrap_or_default().to_owned(),
        sort,
    };
    let main = list(pod, "containers").map(|container| named(container, ContainerSort::Main));
    let others = list(pod, "initContainers").map(|container| {
        let is_sidecar = text(container, "restartPolicy") == Some("Always");
        named(container, if is_sidecar { ContainerSort::Sidecar } else { ContainerSort::Init })
    });
    main.chain(others).collect()
}

impl FailureRule {
    /// Reads an item of `podFailurePolicy.rules`.
    #[must_use]
    pub(crate) fn from_rule(rule: &Value) -> Option<Self> {
        let action = match text(rule, "action")? {
            "FailJob" => FailureAction::FailJob,
            "FailIndex" => FailureAction::FailIndex,
            "Ignore" => FailureAction::Ignore,
            "Count" => FailureAction::Count,
            _ => return None,
        };
        let on = match rule.get("onExitCodes").filter(|codes| !codes.is_null()) {
            Some(codes) => FailureMatch::ExitCodes {
                container: text(codes, "containerName").map(str::to_owned),
                is_in: text(codes, "operator") == Some("In"),
                values: list(codes, "values").filter_map(Value::as_i64).collect(),
            },
            None => FailureMatch::Conditions(
                list(rule, "onPodConditions")
                    .filter_map(|condition| {
                        let status = text(condition, "status").unwrap_or("True");
                        Some((text(condition, "type")?.to_owned(), status.to_owned()))
                    })
                    .collect(),
            ),
        };
        Some(Self { action, on })
    }
}

impl SuccessRule {
    fn from_rule(rule: &Value) -> Self {
        Self {
            indexes: text(rule, "succeededIndexes").map(Indexes::parse),
            count: number(rule, "succeededCount"),
        }
    }

    /// Tells whether the done indexes are enough.
    #[must_use]
    pub(crate) fn is_met(&self, done: &Indexes) -> bool {
        match (&self.indexes, self.count) {
            (Some(indexes), Some(count)) => done.intersection(indexes).len() >= count,
            (Some(indexes), None) => indexes.without(done).is_empty(),
            (None, Some(count)) => done.len() >= count,
            (None, None) => false,
        }
    }
}
