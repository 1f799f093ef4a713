//! One sync of a TrainJob, in the order of `Reconcile` (`pkg/controller/trainjob_controller.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::super::cluster::{Action, Cluster};
use super::super::super::managers;
use super::super::super::meta::{Condition, Propagation};
use super::super::super::object::{Object, ObjectStatus, TrainStatus, set_condition};
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::TrainerRelease;
use super::build::{is_suspended, job_set_spec};
use super::runtimes::{runtime_kind, runtime_of};
use crate::text::value::{Value, json};

/// The reason of a TrainJob that ran too long: it is the only one that stays when its JobSet goes.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// How long it takes to make a JobSet: so long after it, the deadline is looked at.
const CREATION: Time = Time::from_millis(30);

/// What came of a sync.
pub(super) struct SyncOutcome {
    /// What is done.
    pub(super) actions: Vec<Action>,
    /// When to look again, if nothing happens before.
    pub(super) again: Option<Time>,
    /// Whether it ended in an error.
    pub(super) is_error: bool,
}

/// A sync of one TrainJob.
pub(super) struct TrainJobSync<'a> {
    cluster: &'a Cluster,
    number: usize,
    object: &'a Object,
    spec: &'a Value,
    release: TrainerRelease,
    at: Time,
    job_set: Option<(usize, &'a Object)>,
    conditions: Vec<Condition>,
    status: TrainStatus,
    actions: Vec<Action>,
    again: Option<Time>,
    is_error: bool,
}

impl<'a> TrainJobSync<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        number: usize,
        object: &'a Object,
        release: TrainerRelease,
        at: Time,
    ) -> Self {
        let status = match &object.status {
            ObjectStatus::Train(status) => status.clone(),
            _ => TrainStatus::default(),
        };
        Self {
            cluster,
            number,
            object,
            spec: object.spec(),
            release,
            at,
            job_set: cluster.object("JobSet", &object.name),
            conditions: object.conditions.clone(),
            status,
            actions: Vec::new(),
            again: None,
            is_error: false,
        }
    }

    pub(super) fn run(mut self, snapshots: &mut BTreeMap<usize, Value>) -> SyncOutcome {
        if !self.is_managed_by_other() {
            // What failed may go on after a change, but for the deadline.
            self.conditions
                .retain(|condition| condition.sort != "Failed" || condition.reason == DEADLINE_EXCEEDED);
            self.build(snapshots);
            self.set_suspended();
            self.copy_status();
            let delete = self.check_deadline();
            let status = ObjectStatus::Train(self.status);
            if self.conditions != self.object.conditions || status != self.object.status {
                let conditions = self.conditions;
                self.actions.push(Action::WriteObject { object: self.number, conditions, status });
            }
            self.actions.extend(delete);
        }
        SyncOutcome { actions: self.actions, again: self.again, is_error: self.is_error }
    }

    fn is_managed_by_other(&self) -> bool {
        let manager = self.spec.get("managedBy").and_then(Value::as_str);
        manager.is_some_and(|manager| manager != managers::TRAINER)
    }

    fn condition(&self, sort: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.sort == sort)
    }

    fn is_finished(&self) -> bool {
        ["Complete", "Failed"].into_iter().any(|sort| self.condition(sort).is_some_and(|one| one.is_true))
    }

    /// Makes the JobSet, or changes it while one of the two is suspended (`reconcileObjects`; `plugins/jobset/jobset.go`,
    /// `Build`). Up to 2.1 that is done after the end too.
    fn build(&mut self, snapshots: &mut BTreeMap<usize, Value>) {
        let kind = runtime_kind(self.spec);
        if !["ClusterTrainingRuntime", "TrainingRuntime"].contains(&kind) {
            let message = format!("unsupported runtime: {kind}.trainer.kubeflow.org");
            // It is taken back and said again in each sync: what is stored changes by the second.
            self.at = self.cluster.clock.stored(self.at);
            self.fail("TrainingRuntimeNotSupported", message);
            self.is_error = true;
            return;
        }
        if self.is_finished() && self.release > TrainerRelease::V2_1 {
            return;
        }
        let Some(runtime) = self.runtime(snapshots) else {
            self.is_error = true;
            return;
        };
        let Some((number, job_set)) = self.job_set else {
            let manifest = json!({
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": self.object.name.as_str()},
                "spec": job_set_spec(self.spec, &runtime),
            });
            let owner = Some(Owner::Object(self.number));
            let job_set = Object::new("JobSet", &self.object.name, owner, manifest, self.at);
            self.actions.push(Action::CreateObject(Box::new(job_set)));
            return;
        };
        let job_set_is_suspended = is_suspended(job_set.spec());
        if is_suspended(self.spec) || job_set_is_suspended {
            let patch = json!({"spec": job_set_spec(self.spec, &runtime)});
            self.actions.push(Action::PatchObject { object: number, patch });
        }
    }

    /// Returns the runtime: since 2.3 as it was at first sight.
    fn runtime<'s>(&self, snapshots: &'s mut BTreeMap<usize, Value>) -> Option<Cow<'s, Value>>
    where
        'a: 's,
    {
        let now = || runtime_of(self.cluster, self.spec, self.release);
        if self.release <= TrainerRelease::V2_2 {
            return now();
        }
        Some(Cow::Borrowed(match snapshots.entry(self.number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(now()?.into_owned()),
        }))
    }

    fn set(&mut self, sort: &'static str, is_true: bool, reason: &'static str, message: String) {
        let reason = Cow::Borrowed(reason);
        set_condition(&mut self.conditions, Condition { sort, is_true, reason, message, at: self.at });
    }

    fn fail(&mut self, reason: &'static str, message: String) {
        self.set("Failed", true, reason, message);
    }

    fn set_suspended(&mut self) {
        if is_suspended(self.spec) {
            self.set("Suspended", true, "Suspended", "TrainJob is suspended".to_owned());
        } else if self.condition("Suspended").is_some_and(|condition| condition.is_true) {
            self.set("Suspended", false, "Resumed", "TrainJob is resumed".to_owned());
        }
    }

    /// Takes the end and the counts over from the JobSet (`setTrainJobStatus`; `plugins/jobset/jobset.go`, `Status`). The
    /// deadline stays the reason of a TrainJob that it ended.
    fn copy_status(&mut self) {
        let deadline = self.condition("Failed").filter(|condition| condition.reason == DEADLINE_EXCEEDED);
        let deadline = deadline.cloned();
        let Some((_, job_set)) = self.job_set else { return };
        for (sort, of) in [("Complete", "Completed"), ("Failed", "Failed")] {
            if let Some(end) = job_set.condition(of) {
                set_condition(&mut self.conditions, Condition { sort, ..end.clone() });
            }
        }
        if let Some(deadline) = deadline {
            set_condition(&mut self.conditions, deadline);
        }
        self.status.jobs = match &job_set.status {
            ObjectStatus::JobSet(status) => status.replicated_jobs.clone(),
            _ => Vec::new(),
        };
    }

    /// Ends a TrainJob that runs too long (`reconcileDeadline`): the time counts in whole seconds, from its creation or from
    /// when it was resumed last. Returns the deletion of its JobSet.
    fn check_deadline(&mut self) -> Option<Action> {
        let seconds = self.spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
        let seconds = seconds.filter(|seconds| *seconds != 0 && self.release > TrainerRelease::V2_1)?;
        if self.is_finished() || is_suspended(self.spec) {
            return None;
        }
        let resumed = self.condition("Suspended").filter(|condition| !condition.is_true);
        let start = resumed.map_or(self.object.created, |condition| condition.at);
        let deadline = self.cluster.clock.stored(start) + Time::from_seconds(seconds);
        if self.at <= deadline {
            self.again = Some(deadline + Time::from_millis(1));
            return None;
        }
        if self.actions.iter().any(|action| matches!(action, Action::CreateObject(_))) {
            self.again = Some(self.at + CREATION);
            return None;
        }
        self.fail(DEADLINE_EXCEEDED, "TrainJob exceeded its active deadline".to_owned());
        let (object, propagation) = (self.job_set?.0, Propagation::Background);
        Some(Action::DeleteObject { object, propagation })
    }
}
