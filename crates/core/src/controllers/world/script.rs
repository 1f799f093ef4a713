//! What people and the cluster do, by a script.

use super::super::cluster::{Controller, Event, Job};
use super::super::cron_job::spec::CronJobSpec;
use super::super::indexes::Indexes;
use super::super::job::spec::JobSpec;
use super::super::object::{Object, ObjectStatus, PodGroupPhase};
use super::super::pod::PodGroup;
use super::super::pod_set::{Owner, PodTemplate};
use super::super::script::{ControllerName, ScriptEvent, Target};
use super::super::time::Time;
use super::{Later, World};
use crate::text::patch::merge;
use crate::text::value::{Value, json};

/// How long a controller takes to start.
const CONTROLLER_START: Time = Time::from_millis(1_500);

/// How long an operator takes to start, and until one that is restarted looks again.
const OPERATOR_START: Time = Time::from_millis(250);
const OPERATOR_RESTART: Time = Time::from_millis(2_000);

/// What a target is.
enum FoundTarget {
    CronJob,
    Object(Owner),
    /// Pods of a group.
    Pods(usize, Indexes),
    /// A quota or a limit of pods.
    Limit,
}

impl World {
    pub(super) fn happen(&mut self, event: ScriptEvent) {
        match event {
            ScriptEvent::Patch(target, patch) => self.change(&target, &json!({ "spec": patch })),
            ScriptEvent::Merge(target, patch) => self.change(&target, &patch),
            ScriptEvent::Delete(target, propagation) => match self.find(&target) {
                Some(FoundTarget::Limit) => {
                    if let Target::Object { kind, name } = &target {
                        self.cluster.admission.remove(kind, name.as_deref());
                    }
                }
                Some(FoundTarget::Object(owner)) => self.delete(owner, propagation),
                Some(FoundTarget::Pods(nth, members)) => {
                    if let Some(nth) = self.split(nth, &members) {
                        let grace = self.grace_of(nth);
                        self.delete_pods(nth, grace);
                    }
                }
                Some(FoundTarget::CronJob) | None => {}
            },
            ScriptEvent::Create(manifest) => {
                self.create(&manifest, None);
            }
            ScriptEvent::Phase(target, phase) => {
                if let Some(FoundTarget::Object(Owner::Object(group))) = self.find(&target) {
                    self.set_phase(group, phase);
                }
            }
            ScriptEvent::Command(action) => self.command(&action),
            ScriptEvent::RefusePods(refuses) => self.cluster.refuses_pods = refuses,
            ScriptEvent::Dashboard(event) => self.change_dashboards(event),
            ScriptEvent::Stop(name) => self.controllers(name, |controller| controller.stop()),
            ScriptEvent::Restart(name) => {
                self.controllers(name, |controller| controller.stop());
                self.later.push((self.now + OPERATOR_RESTART, Later::Start(name)));
            }
            ScriptEvent::Start(name) => {
                let wait = match name {
                    ControllerName::Operator => OPERATOR_START,
                    ControllerName::Job | ControllerName::CronJob => CONTROLLER_START,
                };
                self.later.push((self.now + wait, Later::Start(name)));
            }
        }
    }

    /// Plans when a scheduler takes a new PodGroup.
    pub(super) fn enqueue_later(&mut self, group: usize) {
        let before = self.cluster.objects.iter().filter(|object| object.kind == "PodGroup").count();
        let nth = u32::try_from(before).unwrap_or(u32::MAX);
        if let Some(wait) = self.script.enqueued_after(nth) {
            self.later.push((self.now + wait, Later::Enqueue(group)));
        }
    }

    /// Sets the phase of a PodGroup.
    pub(super) fn set_phase(&mut self, group: usize, phase: PodGroupPhase) {
        let object = self.cluster.objects.get_mut(group);
        if let Some(object) = object.filter(|object| object.is_there() && object.kind == "PodGroup") {
            object.status = ObjectStatus::PodGroup(phase);
            self.tell(Event::ObjectStatus(group));
        }
    }

    /// Gives a Volcano Job a command, as an object of its own.
    fn command(&mut self, action: &str) {
        let Owner::Object(main) = self.main else { return };
        let name = self.cluster.objects.get(main).map_or("", |object| &object.name);
        let command = json!({
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": format!("command-{}", self.cluster.objects.len())},
            "action": action,
            "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name},
        });
        self.create(&command, None);
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

    fn find(&self, target: &Target) -> Option<FoundTarget> {
        match target {
            Target::Main if self.cluster.cron_job.is_some() => Some(FoundTarget::CronJob),
            Target::Main => Some(FoundTarget::Object(self.main)),
            Target::Run(number) => Some(FoundTarget::Object(Owner::Job(*number as usize))),
            Target::Object { kind, .. } if ["ResourceQuota", "LimitRange"].contains(&kind.as_str()) => {
                Some(FoundTarget::Limit)
            }
            Target::Object { kind, name } => self.find_object(kind, name.as_deref()).map(FoundTarget::Object),
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
                Some(FoundTarget::Pods(nth, Indexes::from_range(first, first)))
            }
        }
    }

    fn find_object(&self, kind: &str, name: Option<&str>) -> Option<Owner> {
        if kind == "Job" {
            let is_it = |job: &Job| job.gone.is_none() && name.is_none_or(|name| job.name == name);
            return self.cluster.jobs.iter().position(is_it).map(Owner::Job);
        }
        let is_it = |object: &Object| {
            object.is_there() && object.kind == kind && name.is_none_or(|name| object.name == name)
        };
        // Without a name, that of the main object comes first.
        let objects = &self.cluster.objects;
        let is_its = |object: &Object| object.owner == Some(self.main) && is_it(object);
        objects.iter().position(is_its).or_else(|| objects.iter().position(is_it)).map(Owner::Object)
    }

    fn change(&mut self, target: &Target, patch: &Value) {
        match self.find(target) {
            Some(FoundTarget::CronJob) => {
                if let Some(patch) = patch.get("spec") {
                    self.patch_cron_job(patch);
                }
            }
            Some(FoundTarget::Object(Owner::Job(job))) => self.patch_admitted(job, patch),
            Some(FoundTarget::Object(Owner::Object(object))) => self.patch_object(object, patch),
            Some(FoundTarget::Limit) => {
                if let Target::Object { kind, name } = target {
                    self.cluster.admission.patch(kind, name.as_deref(), patch);
                }
            }
            Some(FoundTarget::Pods(..)) | None => {}
        }
    }

    fn patch_cron_job(&mut self, patch: &Value) {
        merge(&mut self.cron_spec, patch);
        if let Some(cron_job) = &mut self.cluster.cron_job {
            cron_job.spec = CronJobSpec::from_spec(&self.cron_spec);
        }
        self.tell(Event::CronJob);
    }

    /// Changes a Job as somebody asks, if the webhooks take it.
    fn patch_admitted(&mut self, job: usize, patch: &Value) {
        let Some(object) = self.cluster.jobs.get(job) else { return };
        let mut patched = object.manifest.clone();
        merge(&mut patched, patch);
        let old = Some(&object.manifest);
        if self.operators.iter().all(|operator| operator.admits(old, &patched, &self.cluster)) {
            self.patch(job, patch);
        }
    }

    /// Changes a Job.
    pub(super) fn patch(&mut self, job: usize, patch: &Value) {
        let Some(object) = self.cluster.jobs.get_mut(job).filter(|job| job.gone.is_none()) else { return };
        let mut patched = object.manifest.clone();
        merge(&mut patched, patch);
        let now = JobSpec::from_spec(patched.get("spec").unwrap_or(&Value::Null));
        if patched == object.manifest || !now.may_replace(&object.spec) {
            return;
        }
        object.manifest = patched;
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
