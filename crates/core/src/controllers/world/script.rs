//! What people and the cluster do, by a script.

use super::super::cluster::{Controller, Event, Job};
use super::super::cron_job::CronJobSpec;
use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::pod::PodGroup;
use super::super::pod_set::{Owner, PodTemplate};
use super::super::script::{ControllerName, ScriptEvent, Target};
use super::super::time::Time;
use super::{Later, World};
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// How long a controller takes to start.
const CONTROLLER_START: Time = Time::from_millis(1_500);

/// What a target is.
enum Found {
    CronJob,
    Object(Owner),
    /// Pods of a group.
    Pods(usize, Indexes),
}

impl World {
    pub(super) fn happen(&mut self, event: ScriptEvent) {
        match event {
            ScriptEvent::Patch(target, patch) => self.change(&target, &json!({ "spec": patch })),
            ScriptEvent::Merge(target, patch) => self.change(&target, &patch),
            ScriptEvent::Delete(target, propagation) => match self.find(&target) {
                Some(Found::Object(owner)) => self.delete(owner, propagation),
                Some(Found::Pods(nth, members)) => {
                    if let Some(nth) = self.split(nth, &members) {
                        let grace = self.grace_of(nth);
                        self.delete_pods(nth, grace);
                    }
                }
                Some(Found::CronJob) | None => {}
            },
            ScriptEvent::Create(manifest) => {
                self.create(&manifest, None);
            }
            ScriptEvent::RefusePods(refuses) => self.cluster.refuses_pods = refuses,
            ScriptEvent::Dashboard(event) => self.change_dashboards(event),
            ScriptEvent::Stop(name) => self.controllers(name, |controller| controller.stop()),
            ScriptEvent::Start(name) => self.later.push((self.now + CONTROLLER_START, Later::Start(name))),
        }
    }

    pub(super) fn start(&mut self, name: ControllerName) {
        let at = self.now;
        match name {
            ControllerName::Job => self.jobs.start(&self.cluster, at),
            ControllerName::CronJob => self.cron_jobs.start(&self.cluster, at),
            ControllerName::Operator => {
                for operator in &mut self.operators {
                    operator.start(&self.cluster, at);
                }
            }
        }
    }

    fn controllers(&mut self, name: ControllerName, mut act: impl FnMut(&mut dyn Controller)) {
        match name {
            ControllerName::Job => act(&mut self.jobs),
            ControllerName::CronJob => act(&mut self.cron_jobs),
            ControllerName::Operator => {
                for operator in &mut self.operators {
                    act(&mut **operator);
                }
            }
        }
    }

    fn find(&self, target: &Target) -> Option<Found> {
        match target {
            Target::Main if self.cluster.cron_job.is_some() => Some(Found::CronJob),
            Target::Main => Some(Found::Object(self.main)),
            Target::Run(number) => Some(Found::Object(Owner::Job(*number as usize))),
            Target::Object { kind, name } => self.find_object(kind, name.as_deref()).map(Found::Object),
            Target::Pod { role, index } => {
                let wanted = index.map(|index| Indexes::from_range(index, index));
                let is_it = |pods: &PodGroup| {
                    let set = self.cluster.set_of(pods);
                    pods.gone.is_none()
                        && set.is_some_and(|set| *set.role == **role)
                        && wanted.as_ref().is_none_or(|wanted| !pods.members.intersection(wanted).is_empty())
                };
                let there = self.cluster.pods.iter().enumerate().filter(|(_, pods)| is_it(pods));
                // Of several, the newest.
                let (nth, pods) = there.max_by_key(|(_, pods)| (pods.created, pods.members.last()))?;
                let first = index.or_else(|| pods.members.last())?;
                Some(Found::Pods(nth, Indexes::from_range(first, first)))
            }
        }
    }

    fn find_object(&self, kind: &str, name: Option<&str>) -> Option<Owner> {
        if kind == "Job" {
            let is_it = |job: &Job| job.gone.is_none() && name.is_none_or(|name| job.name == name);
            return self.cluster.jobs.iter().position(is_it).map(Owner::Job);
        }
        let mut objects = self.cluster.objects.iter();
        let found = objects.position(|object| {
            object.is_there() && object.kind == kind && name.is_none_or(|name| object.name == name)
        });
        found.map(Owner::Object)
    }

    fn change(&mut self, target: &Target, patch: &Value) {
        match self.find(target) {
            Some(Found::CronJob) => {
                if let Some(patch) = patch.get("spec") {
                    self.patch_cron_job(patch);
                }
            }
            Some(Found::Object(Owner::Job(job))) => {
                if let Some(patch) = patch.get("spec") {
                    self.patch(job, patch);
                }
            }
            Some(Found::Object(Owner::Object(object))) => self.patch_object(object, patch),
            Some(Found::Pods(..)) | None => {}
        }
    }

    fn patch_cron_job(&mut self, patch: &Value) {
        merge(&mut self.cron_spec, patch);
        if let Some(cron_job) = &mut self.cluster.cron_job {
            cron_job.spec = CronJobSpec::from_spec(&self.cron_spec);
        }
        self.tell(Event::CronJob);
    }

    /// Changes the `spec` of a Job.
    pub(super) fn patch(&mut self, job: usize, patch: &Value) {
        let (Some(spec), Some(object)) = (self.specs.get_mut(job), self.cluster.jobs.get_mut(job)) else {
            return;
        };
        if object.gone.is_some() {
            return;
        }
        let mut patched = spec.clone();
        merge(&mut patched, patch);
        let now = JobSpec::from_spec(&patched);
        if !now.may_replace(&object.spec) {
            return;
        }
        *spec = patched;
        object.spec = now;
        let set = object.set;
        if let Some(set) = self.cluster.sets.get_mut(set) {
            set.template = PodTemplate::from_job(&object.spec);
        }
        // A group is of indexes that the Job has, or of others.
        if let (true, Some(end)) = (object.spec.indexed, object.spec.completions) {
            let here = Indexes::below(end);
            for nth in 0..self.cluster.pods.len() {
                if self.cluster.pods.get(nth).is_some_and(|pods| pods.set == set) {
                    self.split(nth, &here);
                }
            }
        }
        self.tell(Event::Job(job));
    }
}
