//! What a story happens to: the pods of an object, by their roles.

use std::cmp::Reverse;
use std::sync::Arc;

use super::incident::{Incident, IncidentPlace, Occurrence};
use super::job::spec::JobSpec;
use super::operators::queue_name::queue_of;
use super::time::Time;
use crate::text::placeholder::is_placeholder;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::{Value, json};

/// How many roles are named where one is not found.
const MOST_NAMES: usize = 8;

/// Fields that decide what an operator does, wherever they are in its objects; without one of them, nothing can be said.
const DECIDING: [&str; 30] = [
    "action",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "cleanPodPolicy",
    "completionMode",
    "completions",
    "event",
    "events",
    "exitCode",
    "jobDeploymentStatus",
    "jobStatus",
    "managedBy",
    "maxFailedIndexes",
    "maxRestarts",
    "maxRetry",
    "minAvailable",
    "minReplicas",
    "numNodes",
    "numOfHosts",
    "parallelism",
    "podReplacementPolicy",
    "policy",
    "preRunningDeadlineSeconds",
    "replicas",
    "restartPolicy",
    "submissionMode",
    "suspend",
    "terminationGracePeriodSeconds",
    "ttlSeconds",
];
/// Mappings and lists in which none of those is.
const WITHOUT: [&str; 4] = ["containers", "initContainers", "metadata", "volumes"];

/// Returns a field of a `spec` that decides and has a placeholder, such as `$COUNT`, in place of a value, with its text.
#[must_use]
pub fn placeholder(spec: &Value) -> Option<(Pointer, &str)> {
    find_placeholder(spec, &Pointer::root())
}

fn find_placeholder<'v>(value: &'v Value, at: &Pointer) -> Option<(Pointer, &'v str)> {
    match value {
        Value::Object(fields) => {
            fields.iter().filter(|(key, _)| !WITHOUT.contains(key)).find_map(|(key, value)| {
                match value.as_str() {
                    Some(text) if DECIDING.contains(&key) && is_placeholder(text) => {
                        Some((at.key(key), text))
                    }
                    Some(_) => None,
                    None if DECIDING.contains(&key) && value.is_array() => {
                        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                        texts.into_iter().find(|text| is_placeholder(text)).map(|text| (at.key(key), text))
                    }
                    None if value.is_object() || value.is_array() => find_placeholder(value, &at.key(key)),
                    None => None,
                }
            })
        }
        Value::Array(items) => {
            let inner = items.iter().enumerate().filter(|(_, item)| item.is_object());
            inner
                .into_iter()
                .find_map(|(nth, item)| find_placeholder(item, &at.clone().then(Token::Index(nth))))
        }
        _ => None,
    }
}

/// The pods of an object, as far as its manifest says, and what of it a story may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its roles.
    pub roles: Vec<Role>,
    /// `activeDeadlineSeconds`, or what its kind has for it.
    pub deadline: Option<Time>,
    /// Where the deadline is, below `spec`; empty where the kind has none.
    pub deadline_at: &'static [&'static str],
    /// Which field decides where it fails, and why.
    pub(crate) deciders: Vec<Decider>,
    /// The operator and its release, as the model has it; nothing for what is in Kubernetes itself.
    pub operator: Option<&'static str>,
    /// Whether its program runs beside the pods, as their dashboard says.
    pub(crate) has_dashboard: bool,
    /// Whether its operator joins its pods to one program.
    pub is_gang: bool,
    /// Whether its pods wait until a scheduler takes their PodGroup.
    pub has_pod_group: bool,
    /// Whether it is suspended.
    pub is_suspended: bool,
    /// Where `suspend` is, below `spec`; empty where it cannot be suspended.
    pub(crate) suspend: &'static [&'static str],
    /// The queue of Kueue in which it waits: that suspends and resumes it.
    pub queue: Option<String>,
}

/// A field that decides that an object fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decider {
    /// Part of the reason or of the message that its operator gives.
    pub(crate) sign: &'static str,
    /// The field, below `spec`.
    pub(crate) field: Vec<&'static str>,
    /// How it decides.
    pub(crate) why: &'static str,
}

/// Pods of an object that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// What they are to the object; nothing for the pods of a Job.
    pub name: Option<Arc<str>>,
    /// How many there are, over the whole run.
    pub count: u32,
    /// How many of them run at once.
    pub(crate) at_once: u32,
    /// Whether each has an index.
    pub(crate) indexed: bool,
    /// Whether their containers start again in their pods after a failure.
    pub restarts_in_place: bool,
    /// Whether they serve the others, and do not end with the program.
    pub serves: bool,
    /// How much one counts where time is summed: its accelerators, or one where the object has none.
    pub(crate) weight: u32,
}

impl Decider {
    /// Returns one: a part of the reason or of the message, a field below `spec`, and how it decides.
    pub(crate) fn new(sign: &'static str, field: &[&'static str], why: &'static str) -> Self {
        Self { sign, field: field.to_vec(), why }
    }
}

/// How the pods of an object work together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// How many there are.
    pub count: u32,
    /// Whether their operator joins them to one program.
    pub is_gang: bool,
    /// Whether the program runs beside them, as their dashboard says.
    pub has_dashboard: bool,
}

impl Subject {
    /// Returns how its pods work together.
    #[must_use]
    pub fn together(&self) -> Together {
        let count = self.roles.iter().map(|role| role.at_once).fold(0, u32::saturating_add);
        Together { count, is_gang: self.is_gang, has_dashboard: self.has_dashboard }
    }

    /// Returns that of a Job.
    #[must_use]
    pub fn from_job(spec: &JobSpec) -> Self {
        let role = Role {
            name: None,
            count: spec.completions.unwrap_or(spec.parallelism).max(1),
            at_once: spec.at_once(),
            indexed: spec.indexed,
            restarts_in_place: spec.restarts_in_place,
            serves: false,
            weight: 1,
        };
        Self {
            roles: vec![role],
            deadline: spec.deadline,
            deadline_at: &["activeDeadlineSeconds"],
            deciders: Vec::new(),
            operator: None,
            has_dashboard: false,
            is_gang: false,
            is_suspended: spec.suspend,
            suspend: &["suspend"],
            has_pod_group: false,
            queue: None,
        }
    }

    /// Returns that of a Job, as somebody creates it.
    #[must_use]
    pub fn from_job_manifest(manifest: &Value) -> Self {
        let spec = JobSpec::from_spec(manifest.get("spec").unwrap_or(&Value::Null));
        let queue = queue_of(manifest).map(str::to_owned);
        Self { queue, ..Self::from_job(&spec) }
    }

    /// Returns the roles of a name; without one, the role that has most pods.
    pub(crate) fn named(&self, name: Option<&str>) -> impl Iterator<Item = &Role> {
        let most = self.roles.iter().min_by_key(|role| Reverse(role.count));
        let is_most = move |role: &&Role| most.is_some_and(|most| std::ptr::eq(*role, most));
        self.roles.iter().filter(move |role| match name {
            Some(name) => role.is_named(name),
            None => is_most(role),
        })
    }

    /// Returns why an incident is about nothing that the object has: nothing would come of it, and a typing error would look
    /// like a run that survives.
    #[must_use]
    pub fn lacks(&self, occurrence: &Occurrence) -> Option<String> {
        let none = |what: &str| Some(format!("`{occurrence}` is about {what}, and it has none"));
        match occurrence.incident {
            Incident::SubmitterLost if self.named(Some("submitter")).next().is_none() => {
                return none("the pod that submits a RayJob");
            }
            Incident::DashboardSilent(_) if !self.has_dashboard => {
                return none("the dashboard of a Ray cluster");
            }
            Incident::OperatorAway(_) if self.operator.is_none() => return none("an operator"),
            Incident::KueuePreempt(_) if self.suspend.is_empty() => {
                return Some(format!("`{occurrence}`: it has no field that suspends it"));
            }
            _ => {}
        }
        if occurrence.incident == Incident::SubmitterLost {
            return None;
        }
        let name = occurrence.role.as_deref();
        let Some(end) = self.named(name).map(Role::end).max() else {
            return name.map(|_| format!("`{occurrence}`: no pods have this role{}", self.role_names()));
        };
        match occurrence.place {
            IncidentPlace::Index(index) if index >= end => {
                Some(format!("`{occurrence}`: these pods have the indexes 0-{}", end - 1))
            }
            _ => None,
        }
    }

    /// Returns the names of the first roles, to go on with a sentence.
    fn role_names(&self) -> String {
        let names: Vec<String> =
            self.roles.iter().filter_map(|role| Some(format!("`{}`", role.name.as_ref()?))).collect();
        match names.get(MOST_NAMES..).map_or(0, <[String]>::len) {
            _ if names.is_empty() => String::new(),
            0 => format!("; there are {}", names.join(", ")),
            more => format!(
                "; there are {} and {more} more",
                names.get(..MOST_NAMES).unwrap_or_default().join(", ")
            ),
        }
    }

    /// Returns the field that decides where it fails with a reason and a message, and how.
    #[must_use]
    pub fn decider(&self, reason: &str, message: &str) -> Option<(&[&'static str], &'static str)> {
        let is_it = |decider: &&Decider| reason == decider.sign || message.contains(decider.sign);
        let decider = self.deciders.iter().find(is_it)?;
        Some((&decider.field, decider.why))
    }

    /// Returns the patch of `spec` that suspends or resumes it.
    pub(crate) fn suspension(&self, suspend: bool) -> Value {
        suspension(self.suspend, suspend)
    }
}

/// Returns the patch of a `spec` that writes a field, such as `suspend` of its `runPolicy`.
pub(super) fn suspension(field: &[&str], suspend: bool) -> Value {
    field.iter().rev().fold(Value::Bool(suspend), |value, key| {
        let mut around = json!({});
        around[*key] = value;
        around
    })
}

impl Role {
    /// Returns below which number its indexes are; where its pods have none, they are counted as they are made.
    fn end(&self) -> u32 {
        if self.indexed { self.count.max(1) } else { u32::MAX }
    }

    /// Takes over how much another one counts.
    pub fn copy_weight(&mut self, other: &Self) {
        self.weight = other.weight;
    }

    /// Tells whether a manifest calls it so.
    #[must_use]
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.as_deref().is_some_and(|role| is_of(role, name))
    }
}

/// Tells whether a role has a name; those of a JobSet have the number of the Job after it.
fn is_of(role: &str, name: &str) -> bool {
    let number =
        |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    role.eq_ignore_ascii_case(name) || role.strip_prefix(name).is_some_and(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(subject: &Subject, incident: &str) -> String {
        subject.lacks(&incident.parse().unwrap()).unwrap_or_default()
    }

    #[test]
    fn a_placeholder_in_a_field_that_decides_is_found_and_no_other() {
        let replicas = |value: &str| {
            json!({"tasks": [null, {"replicas": value, "template": {"spec": {
                "nodeSelector": {"pool": "$POOL"}, "containers": [{"image": "$IMAGE", "replicas": "$N"}]}}}]})
        };
        let found = |spec: &Value| placeholder(spec).map(|(at, text)| (at.to_string(), text.to_owned()));
        let at = "tasks[1].replicas".to_owned();
        assert_eq!(found(&replicas("$COUNT")), Some((at, "$COUNT".to_owned())));
        assert_eq!(found(&replicas("4")), None);
    }

    #[test]
    fn an_incident_about_nothing_is_not_one_that_is_survived() {
        let role = |name: &str, count| Role {
            name: Some(Arc::from(name)),
            count,
            at_once: count,
            indexed: name != "head",
            restarts_in_place: false,
            serves: false,
            weight: 1,
        };
        let job =
            Subject::from_job(&JobSpec::from_spec(&json!({"completions": 4, "completionMode": "Indexed"})));
        let with = |roles: Vec<Role>| Subject { roles, ..job.clone() };
        let set = with(vec![role("w-0", 2), role("head", 1)]);
        for incident in
            ["exit=1", "exit=1:index=1", "exit=1:role=w,index=1", "oom:role=head,index=7", "hang:all"]
        {
            assert_eq!(lacks(&set, incident), "", "{incident}");
        }
        let none = "`oom:role=worker`: no pods have this role; there are `w-0`, `head`";
        assert_eq!(lacks(&set, "oom:role=worker"), none);
        assert_eq!(lacks(&job, "oom:role=worker"), "`oom:role=worker`: no pods have this role");
        assert_eq!(lacks(&job, "oom:index=3"), "");
        assert_eq!(lacks(&job, "oom:index=4"), "`oom:index=4`: these pods have the indexes 0-3");
        for incident in ["submitter-lost", "dashboard-silent:6m", "operator-away:1m"] {
            assert!(lacks(&job, incident).contains("and it has none"), "{incident}");
        }
        assert_eq!(lacks(&with(vec![role("submitter", 1)]), "submitter-lost"), "");
        assert_eq!(lacks(&job, "kueue-preempt:30m"), "");
        assert!(
            lacks(&Subject { suspend: &[], ..set }, "kueue-preempt:30m").contains("no field that suspends")
        );
        let many = with((0..10).map(|nth| role(&format!("w{nth}"), 1)).collect());
        assert!(lacks(&many, "oom:role=x").ends_with("`w7` and 2 more"));
    }
}
