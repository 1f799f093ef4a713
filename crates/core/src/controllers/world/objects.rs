//! Objects are made, changed and written, as controllers and people ask.

use std::sync::Arc;

use super::super::cluster::{Action, Event, Job, JobStatus, NewJob};
use super::super::dashboard::SubmittedBy;
use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::object::{Object, ObjectStatus};
use super::super::operators;
use super::super::pod_set::{Owner, PodSet, PodTemplate};
use super::super::program::{ApartProgram, GangProgram, Peers};
use super::{JobProgram, TooLong, World};
use crate::text::patch::merge;
use crate::text::value::Value;

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
                if self.cluster.refuses_pods {
                    return Ok(false);
                }
                let owner = Owner::Object(object);
                self.create_members(PodSet { owner, role, round, indexed, template }, &indexes);
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
            Action::CreateJob(new) => return Ok(self.create_job(*new)),
            Action::PatchJob { job, patch } => self.patch(job, &patch),
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
            Action::CreateObject(object) => return Ok(self.add_object(*object)),
            Action::PatchObject { object, patch } => self.patch_object(object, &patch),
            Action::WriteObject { object: number, conditions, status } => {
                let Some(object) = self.cluster.objects.get_mut(number) else { return Ok(false) };
                if !object.is_there() {
                    return Ok(false);
                }
                (object.conditions, object.status) = (conditions, status);
                self.tell(Event::ObjectStatus(number));
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

    /// Creates an object that somebody wrote. Returns nothing where no controller is known that looks at its kind.
    pub(super) fn create(&mut self, manifest: &Value, owner: Option<Owner>) -> Option<Owner> {
        let text = |at: &str| manifest.pointer(at).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default();
        if is_job(manifest) {
            let spec = manifest.get("spec").cloned().unwrap_or_default();
            self.add_job(name, JobSpec::from_spec(&spec), spec);
            return Some(Owner::Job(self.cluster.jobs.len() - 1));
        }
        let kind = operators::kind_of(manifest)?;
        let object = Object::new(kind, name, owner, manifest.clone(), self.now);
        self.add_object(object).then(|| Owner::Object(self.cluster.objects.len() - 1))
    }

    /// Adds a Job that nobody made.
    pub(super) fn add_job(&mut self, name: &str, spec: JobSpec, source: Value) {
        self.push_job(name, spec, source, (None, false), (Arc::from(name), 0));
    }

    fn create_job(&mut self, new: NewJob) -> bool {
        let NewJob { name, owner, role, round, spec } = new;
        if self.cluster.job(&name).is_some() {
            return false;
        }
        self.push_job(&name, JobSpec::from_spec(&spec), spec, (owner, owner.is_none()), (role, round));
        true
    }

    fn push_job(
        &mut self,
        name: &str,
        spec: JobSpec,
        source: Value,
        (owner, is_run): (Option<Owner>, bool),
        (role, round): (Arc<str>, u32),
    ) {
        let job = self.cluster.jobs.len();
        let (template, indexed) = (PodTemplate::from_job(&spec), spec.indexed);
        let set = self.cluster.sets.len();
        // Pods of a role are numbered through all Jobs of it that one object makes.
        let is_same = |other: &&Job| {
            let set = self.cluster.sets.get(other.set);
            owner.is_some() && other.owner == owner && set.is_some_and(|set| set.role == role)
        };
        let made = self.cluster.jobs.iter().rfind(is_same).map_or(0, |before| before.made);
        self.cluster.sets.push(PodSet { owner: Owner::Job(job), role, round, indexed, template });
        self.cluster.jobs.push(Job {
            name: name.to_owned(),
            owner,
            is_run,
            set,
            created: self.now,
            spec,
            status: JobStatus::default(),
            deletion: None,
            gone: None,
            made,
        });
        self.specs.push(source);
        if owner.is_none() {
            self.begin_program(Owner::Job(job));
        }
        self.tell(Event::Job(job));
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
        let is_root = object.owner.is_none();
        self.cluster.objects.push(Object { created: self.now, ..object });
        if is_root {
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
        if patched == object.manifest {
            return;
        }
        object.manifest = patched;
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
