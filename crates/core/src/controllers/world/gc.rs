//! Objects are deleted, and what they made goes with them: the garbage collector
//! (`pkg/controller/garbagecollector/garbagecollector.go`).

use super::super::cluster::Event;
use super::super::meta::Propagation;
use super::super::object::PodGroupPhase;
use super::super::pod::PodGroup;
use super::super::pod_set::Owner;
use super::super::time::Time;
use super::{Later, World};

/// How long the garbage collector takes.
pub(super) const COLLECTION: Time = Time::from_millis(50);

/// `metadata.deletionTimestamp` of an object with what is done with its dependents, and when it is gone.
type Life<'a> = (&'a mut Option<(Time, Propagation)>, &'a mut Option<Time>);

impl World {
    /// Deletes an object.
    pub(super) fn delete(&mut self, owner: Owner, propagation: Propagation) {
        let now = self.now;
        let Some((deletion, gone)) = self.life_of(owner) else { return };
        if gone.is_some() || deletion.is_some() {
            return;
        }
        *deletion = Some((now, propagation));
        match propagation {
            Propagation::Background => {
                if self.is_held(owner) {
                    self.tell(changed(owner));
                } else {
                    self.go(owner);
                    self.later.push((self.now + COLLECTION, Later::Collect(owner)));
                }
            }
            Propagation::Foreground => {
                self.tell(changed(owner));
                self.later.push((self.now + COLLECTION, Later::Collect(owner)));
            }
            Propagation::Orphan => {
                self.tell(changed(owner));
                self.later.push((self.now + COLLECTION, Later::Orphan(owner)));
            }
        }
    }

    /// Takes the finalizer of its operator from a custom resource.
    pub(super) fn release(&mut self, number: usize) {
        let Some(object) = self.cluster.objects.get_mut(number) else { return };
        object.finalizer = false;
        let owner = Owner::Object(number);
        match object.deletion {
            Some((_, Propagation::Background)) if object.gone.is_none() => {
                self.go(owner);
                self.later.push((self.now + COLLECTION, Later::Collect(owner)));
            }
            Some(_) => self.collect_owner(owner),
            None => {}
        }
    }

    fn life_of(&mut self, owner: Owner) -> Option<Life<'_>> {
        match owner {
            Owner::Job(job) => self.cluster.jobs.get_mut(job).map(|job| (&mut job.deletion, &mut job.gone)),
            Owner::Object(object) => {
                self.cluster.objects.get_mut(object).map(|object| (&mut object.deletion, &mut object.gone))
            }
        }
    }

    fn is_held(&self, owner: Owner) -> bool {
        match owner {
            Owner::Job(_) => false,
            Owner::Object(object) => self.cluster.objects.get(object).is_some_and(|object| object.finalizer),
        }
    }

    /// Takes an object away; of a Job, the controller takes the finalizers from the pods that are left.
    fn go(&mut self, owner: Owner) {
        let now = self.now;
        if let Some((_, gone)) = self.life_of(owner) {
            *gone = Some(now);
        }
        match owner {
            Owner::Job(job) => {
                self.tell(Event::JobGone(job));
                let set = self.cluster.jobs.get(job).map(|job| job.set);
                for nth in self.cluster.settled..self.cluster.pods.len() {
                    if self.cluster.pods.get(nth).is_some_and(|pods| Some(pods.set) == set) {
                        self.cluster.release_pods(nth, self.now);
                    }
                }
            }
            Owner::Object(object) => self.tell(Event::ObjectGone(object)),
        }
        let above = match owner {
            Owner::Job(job) => self.cluster.jobs.get(job).and_then(|job| job.owner),
            Owner::Object(object) => self.cluster.objects.get(object).and_then(|object| object.owner),
        };
        if let Some(above) = above {
            self.collect_owner(above);
        }
    }

    pub(super) fn catch_up(&mut self, later: Later) {
        match later {
            Later::Collect(owner) => {
                self.collect_dependents(owner);
                self.collect_owner(owner);
            }
            Later::Orphan(owner) => {
                self.orphan(owner);
                if !self.is_held(owner) {
                    self.go(owner);
                } else if let Some((Some((_, propagation)), _)) = self.life_of(owner) {
                    // Nothing is left of it but its operator's finalizer.
                    *propagation = Propagation::Background;
                }
            }
            Later::Start(name) => self.start(name),
            Later::Enqueue(group) => self.set_phase(group, PodGroupPhase::Inqueue),
        }
    }

    /// Deletes what an object made. Where that waits, what has made others waits for those too.
    fn collect_dependents(&mut self, owner: Owner) {
        let Some((deletion, _)) = self.life_of(owner) else { return };
        let is_foreground = deletion.is_some_and(|(_, propagation)| propagation == Propagation::Foreground);
        for nth in self.cluster.settled..self.cluster.pods.len() {
            let is_left = |pods: &PodGroup| {
                pods.gone.is_none() && pods.deletion.is_none() && self.cluster.owner_of(pods) == Some(owner)
            };
            if self.cluster.pods.get(nth).is_some_and(is_left) {
                let grace = self.grace_of(nth);
                self.delete_pods(nth, grace);
            }
        }
        let jobs = self.cluster.jobs_owned(owner).map(|(job, _)| Owner::Job(job));
        let objects = self.cluster.objects_owned(owner).map(|(object, _)| Owner::Object(object));
        for dependent in jobs.chain(objects).collect::<Vec<Owner>>() {
            let waits = is_foreground && self.cluster.has_dependents(dependent);
            self.delete(dependent, if waits { Propagation::Foreground } else { Propagation::Background });
        }
    }

    /// Takes the owner from what an object made.
    fn orphan(&mut self, owner: Owner) {
        for job in &mut self.cluster.jobs {
            job.owner = job.owner.filter(|other| *other != owner);
        }
        for object in &mut self.cluster.objects {
            object.owner = object.owner.filter(|other| *other != owner);
        }
    }

    /// Takes an object away that waits until all that it made is gone.
    pub(super) fn collect_owner(&mut self, owner: Owner) {
        let now = self.now;
        let is_held = self.is_held(owner);
        let Some((deletion, gone)) = self.life_of(owner) else { return };
        let waits = gone.is_none()
            && deletion.is_some_and(|(at, propagation)| {
                propagation == Propagation::Foreground && now - at >= COLLECTION
            });
        if waits && !is_held && !self.cluster.has_dependents(owner) {
            self.go(owner);
        }
    }
}

/// Returns what controllers see of an object that changed.
fn changed(owner: Owner) -> Event {
    match owner {
        Owner::Job(job) => Event::Job(job),
        Owner::Object(object) => Event::Object(object),
    }
}
