//! Objects are made, changed and written, as controllers and people ask.

use std::sync::Arc;

use super::super::cluster::{Action, Event, Eviction, Job, JobStatus, NewJob};
use super::super::dashboard::programs::SubmittedBy;
use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::meta::Condition;
use super::super::object::{Object, ObjectStatus};
use super::super::operators;
use super::super::pod_set::{Owner, PodSet, PodTemplate};
use super::super::program::{ApartProgram, GangProgram, Peers};
use super::super::weight::weight;
use super::{JobProgram, TooLong, World};
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// The work of a value in the `spec` of a Job that is made: it is kept as long as the simulation.
const WORK_A_VALUE: usize = 20;

impl World {
    /// Does what a controller asks, in order, until the API server refuses something. Returns whether it did.
    pub(super) fn apply(&mut self, actions: Vec<Action>) -> Result<bool, TooLong> {
        for action in actions {
            if !self.act(action)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does one thing. Returns whether the API server took it.
    fn act(&mut self, action: Action) -> Result<bool, TooLong> {
        match action {
            Action::CreatePods { job, indexes, count, failures, ignored } => {
                // Plans and earlier pods are looked through.
                self.spend(self.script.plans.len() + self.cluster.pods.len())?;
                self.create_pods(job, indexes.as_ref(), count, (failures, ignored));
            }
            Action::CreateMembers { object, role, round, indexes, indexed, template } => {
                self.spend(self.script.plans.len() + self.cluster.pods.len())?;
                let (owner, count) = (Owner::Object(object), indexes.len());
                let room = if template.demand.is_valid() {
                    self.cluster.room_for(&template.demand, count)
                } else {
                    0
                };
                // Pods are made one after the other: those before the first that is refused are there.
                if room > 0 {
                    let set = PodSet { owner, role, round, indexed, template };
                    self.create_members(set, &indexes.lowest(room));
                }
                return Ok(room >= count);
            }
            Action::DeletePods { pods, members, is_released } => {
                let Some(pods) = self.split(pods, &members) else { return Ok(true) };
                if is_released {
                    self.cluster.release_pods(pods, self.now);
                }
                let grace = self.grace_of(pods);
                self.delete_pods(pods, grace);
            }
            Action::ReleasePods { pods, members } => {
                let Some(pods) = self.split(pods, &members) else { return Ok(true) };
                self.cluster.release_pods(pods, self.now);
                let owner = self.cluster.pods.get(pods).and_then(|pods| self.cluster.owner_of(pods));
                if let Some(owner) = owner {
                    self.tell(Event::Pod(owner));
                    self.collect_owner(owner);
                }
            }
            Action::CreateJob(new) => {
                self.spend(self.cluster.jobs.len() + WORK_A_VALUE * weight(&new.spec))?;
                return Ok(self.create_job(*new));
            }
            Action::PatchJob { job, patch } => self.patch(job, &json!({ "spec": patch })),
            Action::HoldJob { job, until } => {
                if let Some(job) = self.cluster.jobs.get_mut(job) {
                    job.held = Some(until);
                }
            }
            Action::WriteJob { job, mut status } => {
                status.start = status.start.map(|start| self.cluster.clock.stored(start));
                if let Some(job) = self.cluster.jobs.get_mut(job) {
                    job.status = *status;
                }
                self.tell(Event::JobStatus(job));
            }
            Action::DeleteJob { job, propagation } => self.delete(Owner::Job(job), propagation),
            Action::WriteCronJob { active, last_schedule, last_success } => {
                if let Some(cron_job) = &mut self.cluster.cron_job {
                    (cron_job.active, cron_job.last_schedule, cron_job.last_success) =
                        (active, last_schedule, last_success);
                }
                self.tell(Event::CronJob);
            }
            Action::CreateObject(object) => {
                // It is kept as long as the simulation.
                self.spend(weight(&object.manifest))?;
                return Ok(self.add_object(*object));
            }
            Action::PatchObject { object, patch } => self.patch_object(object, &patch),
            Action::WriteObject { object, conditions, status } => {
                return Ok(self.write_object(object, conditions, status));
            }
            Action::DeleteObject { object, propagation } => self.delete(Owner::Object(object), propagation),
            Action::HoldObject { object } => {
                if let Some(object) = self.cluster.objects.get_mut(object) {
                    object.finalizer = true;
                }
            }
            Action::ReleaseObject { object } => self.release(object),
            // An operator does not wait for what a dashboard answers.
            Action::SubmitProgram { cluster, id } => {
                self.submit(&cluster, &id, SubmittedBy::Operator);
            }
            Action::StopProgram { cluster, id } => {
                self.cluster.stop_program(&cluster, &id, self.now);
                self.observe_submitters();
            }
        }
        Ok(true)
    }

    /// Writes the status of an object. Returns whether the API server took it.
    fn write_object(&mut self, number: usize, conditions: Vec<Condition>, status: ObjectStatus) -> bool {
        let Some(object) = self.cluster.objects.get_mut(number).filter(|object| object.is_there()) else {
            return false;
        };
        let is_evicted = |conditions: &[Condition]| {
            conditions.iter().find(|one| one.sort == "Evicted" && one.is_true).cloned()
        };
        if let (None, Some(evicted)) = (is_evicted(&object.conditions), is_evicted(&conditions)) {
            let Condition { at, reason, .. } = evicted;
            self.cluster.evictions.push(Eviction { at, owner: object.owner, reason });
        }
        (object.conditions, object.status) = (conditions, status);
        self.tell(Event::ObjectStatus(number));
        true
    }

    /// Creates an object that somebody wrote. Returns nothing where no controller is known that looks at its kind.
    pub(super) fn create(&mut self, manifest: &Value, owner: Option<Owner>) -> Option<Owner> {
        let text = |at: &str| manifest.pointer(at).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default();
        if is_job(manifest) {
            let mut manifest = manifest.clone();
            for operator in &self.operators {
                operator.mutate(&mut manifest, &self.cluster);
            }
            if !self.operators.iter().all(|operator| operator.admits(None, &manifest, &self.cluster)) {
                return None;
            }
            let spec = JobSpec::from_spec(manifest.get("spec").unwrap_or(&Value::Null));
            self.add_job(name, spec, manifest);
            return Some(Owner::Job(self.cluster.jobs.len() - 1));
        }
        if self.cluster.admission.add(manifest) {
            return None;
        }
        let kind = operators::kind_of(manifest)?;
        let mut manifest = manifest.clone();
        for operator in &self.operators {
            operator.mutate(&mut manifest, &self.cluster);
        }
        let object = Object::new(kind, name, owner, manifest, self.now);
        self.add_object(object).then(|| Owner::Object(self.cluster.objects.len() - 1))
    }

    /// Adds a Job that nobody made.
    pub(super) fn add_job(&mut self, name: &str, spec: JobSpec, manifest: Value) {
        self.push_job(name, spec, manifest, (None, false), (Arc::from(name), 0));
    }

    fn create_job(&mut self, new: NewJob) -> bool {
        let NewJob { name, owner, role, round, spec } = new;
        let read = JobSpec::from_spec(&spec);
        let is_refused = owner.is_some() && !(read.is_valid() && read.demand.is_valid());
        if is_refused || self.cluster.job(&name).is_some() {
            return false;
        }
        self.push_job(&name, read, json!({ "spec": spec }), (owner, owner.is_none()), (role, round));
        true
    }

    fn push_job(
        &mut self,
        name: &str,
        spec: JobSpec,
        manifest: Value,
        (owner, is_run): (Option<Owner>, bool),
        (role, round): (Arc<str>, u32),
    ) {
        let job = self.cluster.jobs.len();
        let (template, indexed) = (PodTemplate::from_job(&spec), spec.indexed);
        let set = self.cluster.sets.len();
        let made = self.made_before(owner, &role);
        self.cluster.sets.push(PodSet { owner: Owner::Job(job), role, round, indexed, template });
        self.cluster.jobs.push(Job {
            name: name.to_owned(),
            owner,
            is_run,
            set,
            created: self.now,
            manifest,
            spec,
            status: JobStatus::default(),
            held: None,
            deletion: None,
            gone: None,
            made,
        });
        if owner.is_none() {
            self.begin_program(Owner::Job(job));
        }
        self.tell(Event::Job(job));
    }

    /// Returns how many pods of a role an object's earlier Jobs have had: a script numbers those of all of them.
    fn made_before(&self, owner: Option<Owner>, role: &Arc<str>) -> u32 {
        let is_before = |job: &&Job| {
            let set = self.cluster.sets.get(job.set);
            owner.is_some() && job.owner == owner && set.is_some_and(|set| set.role == *role)
        };
        self.cluster.jobs.iter().filter(is_before).map(|job| job.made).max().unwrap_or_default()
    }

    fn begin_program(&mut self, root: Owner) {
        if let Some(plan) = self.script.program {
            let program = match plan.peers {
                Peers::Independent => JobProgram::Apart(ApartProgram::new(plan)),
                _ => JobProgram::Gang(GangProgram::new(plan)),
            };
            self.running.insert(root, program);
        }
    }

    /// Adds a custom resource. Returns whether there was none of its name.
    fn add_object(&mut self, object: Object) -> bool {
        if self.cluster.object(object.kind, &object.name).is_some() {
            return false;
        }
        let number = self.cluster.objects.len();
        let ranks = operators::ranks(&self.cluster, &object);
        let runs_program = object.owner.is_none() && ranks > 0;
        if object.kind == "PodGroup" {
            self.enqueue_later(number);
        }
        self.cluster.objects.push(Object { created: self.now, ranks, ..object });
        if runs_program {
            self.begin_program(Owner::Object(number));
        }
        self.tell(Event::Object(number));
        true
    }

    pub(super) fn patch_object(&mut self, number: usize, patch: &Value) {
        let Some(object) = self.cluster.objects.get_mut(number).filter(|object| object.is_there()) else {
            return;
        };
        let mut patched = object.manifest.clone();
        merge(&mut patched, patch);
        if patched == object.manifest || !operators::admits(object.kind, &object.manifest, &patched) {
            return;
        }
        object.manifest = patched;
        let ranks = self.cluster.objects.get(number).map(|object| operators::ranks(&self.cluster, object));
        if let Some(object) = self.cluster.objects.get_mut(number) {
            object.ranks = ranks.unwrap_or_default();
        }
        self.tell(Event::Object(number));
    }

    fn create_members(&mut self, set: PodSet, indexes: &Indexes) {
        let known = self.cluster.sets.iter().position(|other| *other == set);
        let number = known.unwrap_or_else(|| {
            self.cluster.sets.push(set);
            self.cluster.sets.len() - 1
        });
        self.add_members(number, indexes);
    }
}

/// Tells whether an object is a Job of Kubernetes itself.
fn is_job(manifest: &Value) -> bool {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    text("kind") == Some("Job") && text("apiVersion") == Some("batch/v1")
}

impl Object {
    /// Returns one that is new.
    #[must_use]
    pub(crate) fn new(
        kind: &'static str,
        name: &str,
        owner: Option<Owner>,
        manifest: Value,
        created: super::Time,
    ) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            owner,
            created,
            manifest,
            ranks: 0,
            conditions: Vec::new(),
            status: ObjectStatus::default(),
            finalizer: false,
            deletion: None,
            gone: None,
        }
    }
}
