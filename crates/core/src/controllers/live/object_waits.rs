//! What an object of an operator waits for, and since when: its own, and that of what its operator made.

use super::super::operators::asked::{AskedObjects, AskedRole};
use super::super::pod::Phase;
use super::super::time::Time;
use super::object::LiveObject;
use super::pod::{LivePod, PodStage};
use super::pod_waits::{Watch, Watched, in_trouble, running, wait_of};
use super::wait::{Wait, WaitFor};
use super::waits::CREATION;

impl LiveObject {
    /// Returns what it waits for, what stands in its way first.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        let watch = self.gather(&mut waits, None);
        let mut pods = Vec::new();
        self.watched(watch, &mut pods);
        let mut all = in_trouble(pods.iter().copied());
        all.extend(waits);
        all.extend(running(pods.into_iter(), self.deadline()));
        all.sort_by_key(Wait::order);
        if all.is_empty() {
            all.push(WaitFor::FirstLook.alone(Some(self.last_change()), None));
        }
        all
    }

    /// Adds what it waits for beside pods; `name` is what it is called below another object. Returns which of its pods
    /// matter.
    fn gather(&self, waits: &mut Vec<Wait>, name: Option<String>) -> Watch {
        let of: Vec<String> = name.into_iter().collect();
        let mut add = |what: WaitFor, since: Option<Time>, until: Option<Time>| {
            waits.push(Wait { of: of.clone(), ..what.alone(since, until) });
        };
        if let Some(at) = self.deletion {
            add(WaitFor::Deletion { finalizers: self.finalizers.clone() }, Some(at), None);
            return Watch::InDeletion;
        }
        if let Some(end) = self.end() {
            // What is above it has taken notice, or is about to.
            if of.is_empty() {
                let what = if self.ttl().is_some() { WaitFor::Ttl } else { WaitFor::Nobody };
                add(what, end.at, self.expiry());
                waits.extend(self.left_over());
            }
            return Watch::InDeletion;
        }
        if let Some(name) = self.manager() {
            add(WaitFor::Manager { name: name.to_owned() }, None, None);
            return Watch::All;
        }
        if self.is_suspended() {
            // What is above it is suspended as well.
            if of.is_empty() {
                let since = self.condition("Suspended").map(|condition| condition.at);
                add(WaitFor::Resume { queue: self.queue.clone() }, since, None);
            }
            return Watch::InDeletion;
        }
        let is_idle = self.asked.is_deadline_idle;
        let passed = self.deadline().filter(|at| *at + CREATION < Time::START);
        // Of an MPIJob, the launcher has it.
        if let Some(at) = passed.filter(|_| self.kind != "MPIJob") {
            add(WaitFor::Overdue { is_idle }, Some(at), None);
        }
        self.of_jobs(waits);
        self.of_missing(waits);
        for object in &self.objects {
            object.gather(waits, Some(format!("{} {}", object.kind, object.name)));
        }
        Watch::All
    }

    /// Gathers its pods and those of what it made, as far as they matter.
    fn watched<'p>(&'p self, watch: Watch, pods: &mut Vec<Watched<'p>>) {
        // A name that is taken is made again only when it is free.
        pods.extend(self.pods.iter().map(|pod| Watched { pod, is_held: true, watch }));
        for job in &self.jobs {
            let (_, of_job) = job.own_waits();
            let of_job = if watch == Watch::All { of_job } else { narrower(of_job) };
            pods.extend(job.watched(of_job));
        }
        for object in &self.objects {
            let of_object = object.gather(&mut Vec::new(), Some(String::new()));
            object.watched(if watch == Watch::All { of_object } else { narrower(of_object) }, pods);
        }
    }

    /// Adds what its Jobs wait for, those alike together.
    fn of_jobs(&self, waits: &mut Vec<Wait>) {
        let mut found: Vec<Wait> = Vec::new();
        let previous: Vec<String> =
            self.jobs.iter().filter(|job| self.is_previous(job)).map(|job| named(&job.name)).collect();
        if let Ok(count @ 1..) = u32::try_from(previous.len()) {
            let going = self.jobs.iter().filter(|job| self.is_previous(job));
            let since = going.filter_map(|job| job.deletion).min();
            found.push(Wait { of: previous, ..WaitFor::Previous { count }.alone(since, None) });
        }
        for job in self.jobs.iter().filter(|job| !self.is_previous(job)) {
            // How it ended is for its operator to look at, and so is when it goes.
            if job.finished().is_some() && job.deletion.is_none() {
                continue;
            }
            let (own, _) = job.own_waits();
            for wait in own {
                let alike =
                    found.iter_mut().find(|other| other.what == wait.what && other.until == wait.until);
                match alike {
                    Some(other) => {
                        other.of.push(named(&job.name));
                        other.since = other.since.into_iter().chain(wait.since).min();
                    }
                    None => found.push(Wait { of: vec![named(&job.name)], ..wait }),
                }
            }
        }
        waits.extend(found);
    }

    /// Adds what its operator has not made.
    fn of_missing(&self, waits: &mut Vec<Wait>) {
        // Within seconds, the operator makes them.
        let last = self.last_change();
        let is_late = last + CREATION < Time::START;
        for role in &self.asked.pods {
            let pods: Vec<&LivePod> =
                self.pods.iter().filter(|pod| pod.role.as_deref() == Some(role.name.as_str())).collect();
            waits.extend(not_replaced(role, &pods));
            let there = u32::try_from(pods.len()).unwrap_or(u32::MAX);
            let count = role.count.unwrap_or_default().saturating_sub(there);
            if count > 0 && is_late {
                let what = WaitFor::Missing { count, role: Some(role.name.clone()) };
                waits.push(what.alone(Some(last), None));
            }
        }
        // While Jobs of the attempt before are there, the next ones are not.
        let is_between = self.jobs.iter().any(|job| self.is_previous(job));
        for asked in self.asked.objects.iter().filter(|_| is_late && !is_between) {
            waits.extend(self.of_objects(asked, last));
        }
    }

    /// Returns for what objects wait that are not there; nothing where they are.
    fn of_objects(&self, asked: &AskedObjects, last: Time) -> Option<Wait> {
        let there = match asked.kind {
            "Job" => self.jobs.iter().filter(|job| asked.role.as_deref() == job.role()).count(),
            kind => self.objects.iter().filter(|object| object.kind == kind).count(),
        };
        let count = asked.count.saturating_sub(u32::try_from(there).unwrap_or(u32::MAX));
        if count == 0 {
            return None;
        }
        let open = asked.after.iter().find(|(role, is_complete)| !self.is_reached(role, *is_complete));
        let role = asked.role.clone();
        let what = match (open, &role) {
            (Some((after, is_complete)), Some(role)) => {
                WaitFor::Order { role: role.clone(), after: after.clone(), is_complete: *is_complete }
            }
            _ => WaitFor::Objects { count, kind: asked.kind, role },
        };
        Some(what.alone(Some(last), None))
    }

    /// Tells whether all of a role are ready, or complete.
    fn is_reached(&self, role: &str, is_complete: bool) -> bool {
        if role == "cluster" && self.kind == "RayJob" {
            return self.objects.iter().any(|object| object.state() == Some("ready"));
        }
        if let Some(asked) = self.asked.pods.iter().find(|one| one.name == role) {
            let ready = self.pods.iter().filter(|pod| {
                pod.role.as_deref() == Some(role) && pod.ready.is_some_and(|(is_ready, _)| is_ready)
            });
            return u32::try_from(ready.count()).unwrap_or(u32::MAX) >= asked.count.unwrap_or_default();
        }
        let wanted = self.asked.objects.iter().find(|one| one.role.as_deref() == Some(role));
        let reached = self.jobs.iter().filter(|job| job.role() == Some(role)).filter(|job| {
            let is_ended = job.finished().is_some_and(|end| end.sort == "Complete" || !is_complete);
            let ready = job.status.succeeded.saturating_add(job.status.ready.unwrap_or_default());
            is_ended || !is_complete && ready >= job.spec.at_once()
        });
        let reached = u32::try_from(reached.count()).unwrap_or(u32::MAX);
        reached >= wanted.map_or(0, |wanted| wanted.count)
    }

    /// Returns when something last happened to it, as far as that is known.
    fn last_change(&self) -> Time {
        let conditions = self.conditions.iter().map(|condition| condition.at);
        let pods = self.all_pods().into_iter().flat_map(|pod| {
            let ends = pod.containers.iter().filter_map(|one| one.terminated).map(|(_, at)| at);
            ends.chain([pod.created])
        });
        let jobs =
            self.jobs.iter().flat_map(|job| job.conditions.iter().map(|one| one.at).chain([job.created]));
        conditions.chain(pods).chain(jobs).chain(self.start).fold(self.created, Time::max)
    }

    /// Returns its pods that run on after its end.
    fn left_over(&self) -> Option<Wait> {
        let running: Vec<&LivePod> = self
            .all_pods()
            .into_iter()
            .filter(|pod| pod.is_active() && pod.phase == Phase::Running)
            .collect();
        let count = u32::try_from(running.len()).unwrap_or(u32::MAX);
        (count > 0).then(|| wait_of(WaitFor::LeftOver { count }, PodStage::Runs, &running))
    }
}

/// Returns pods of a role that have ended and keep their place.
fn not_replaced(role: &AskedRole, pods: &[&LivePod]) -> Option<Wait> {
    let ended: Vec<&LivePod> = pods.iter().copied().filter(|pod| role.is_final && pod.is_ended()).collect();
    let what = WaitFor::NotReplaced { role: role.name.clone() };
    let since = ended.iter().filter_map(|pod| pod.last_end()).min();
    (!ended.is_empty()).then(|| Wait { since, ..wait_of(what, PodStage::Ended, &ended) })
}

fn named(job: &str) -> String {
    format!("Job {job}")
}

/// Returns which pods matter of something whose owner is on its way out.
fn narrower(watch: Watch) -> Watch {
    if watch == Watch::All { Watch::InDeletion } else { watch }
}
