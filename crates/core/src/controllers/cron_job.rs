//! The CronJob controller (`pkg/controller/cronjob/cronjob_controllerv2.go`, `utils.go`).

pub(super) mod spec;

use std::sync::Arc;

use super::cluster::{Action, Cluster, Controller, CronJob, Event, NewJob};
use super::meta::Propagation;
use super::time::{Clock, Time};
use spec::Concurrency;

/// How long after its time a run is started (`nextScheduleDelta`).
const DELTA: Time = Time::from_millis(100);
/// How long after a write the controller sees what was written.
const LAG: Time = Time::from_millis(20);

/// The CronJob controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronJobController {
    now: Option<Time>,
    timer: Option<Time>,
    stopped: bool,
}

impl CronJobController {
    /// Sets the timer for the next time of the schedule (`nextScheduleTimeDuration`).
    fn wait(&mut self, cron_job: &CronJob, last_schedule: Option<Time>, clock: Clock, at: Time) {
        let from = last_schedule.unwrap_or_else(|| clock.stored(cron_job.created));
        let (earliest, recent) = cron_job.spec.most_recent(from, at, clock);
        let from = recent.unwrap_or(earliest);
        if let Some(next) = cron_job.spec.next(from, clock) {
            let next = (next + DELTA).max(at);
            self.timer = Some(self.timer.map_or(next, |timer| timer.min(next)));
        }
    }
}

impl Controller for CronJobController {
    fn observe(&mut self, event: Event, _: &Cluster, at: Time) {
        if self.stopped || matches!(event, Event::Pod(_)) {
            return;
        }
        let soon = at + LAG;
        self.now = Some(self.now.map_or(soon, |now| now.min(soon)));
    }

    fn due(&self) -> Option<Time> {
        self.now.into_iter().chain(self.timer).min()
    }

    fn stop(&mut self) {
        *self = Self { stopped: true, ..Self::default() };
    }

    fn start(&mut self, _: &Cluster, at: Time) {
        *self = Self { now: Some(at), ..Self::default() };
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        if self.now.is_some_and(|now| now <= at) {
            self.now = None;
        } else {
            self.timer = None;
        }
        let Some(cron_job) = &cluster.cron_job else { return Vec::new() };
        let mut actions = Vec::new();
        let mut active = cron_job.active.clone();
        delete_finished(cluster, cron_job, &mut active, &mut actions);
        let mut last_success = cron_job.last_success;
        for (number, job) in
            cluster.jobs.iter().enumerate().filter(|(_, job)| job.is_run && job.gone.is_none())
        {
            let Some(finished) = job.status.finished() else { continue };
            if active.contains(&number) {
                active.retain(|other| *other != number);
            } else if finished.sort == "Complete" {
                let at = cluster.clock.stored(finished.at);
                last_success = Some(last_success.map_or(at, |last| last.max(at)));
            }
        }
        active.retain(|number| cluster.jobs.get(*number).is_some_and(|job| job.gone.is_none()));
        let mut last_schedule = cron_job.last_schedule;
        if !cron_job.spec.suspend {
            let time = time_to_start(cron_job, &active, cluster, at);
            if let Some(time) = time {
                if cron_job.spec.concurrency == Concurrency::Replace {
                    for job in active.drain(..) {
                        actions.push(Action::DeleteJob { job, propagation: Propagation::Background });
                    }
                }
                let name = name_of(cron_job, time, cluster.clock);
                actions.push(Action::CreateJob(Box::new(NewJob {
                    role: Arc::from(name.as_str()),
                    name,
                    owner: None,
                    round: 0,
                    spec: cron_job.spec.template.clone(),
                })));
                active.push(cluster.jobs.len());
                last_schedule = Some(time);
            }
            self.wait(cron_job, last_schedule, cluster.clock, at);
        }
        if (&active, last_schedule, last_success)
            != (&cron_job.active, cron_job.last_schedule, cron_job.last_success)
        {
            actions.push(Action::WriteCronJob { active, last_schedule, last_success });
        }
        actions
    }
}

/// Returns the time for which a run is started now.
fn time_to_start(cron_job: &CronJob, active: &[usize], cluster: &Cluster, at: Time) -> Option<Time> {
    let (spec, clock) = (&cron_job.spec, cluster.clock);
    let mut from = cron_job.last_schedule.unwrap_or_else(|| clock.stored(cron_job.created));
    if let Some(deadline) = spec.starting_deadline {
        from = from.max(at - deadline);
    }
    let time = spec.most_recent(from, at, clock).1?;
    if spec.starting_deadline.is_some_and(|deadline| time + deadline < at) {
        return None;
    }
    let name = name_of(cron_job, time, clock);
    let is_there = |job: &usize| cluster.jobs.get(*job).is_some_and(|job| job.name == name);
    if active.iter().any(is_there) || cron_job.last_schedule == Some(time) {
        return None;
    }
    if cluster.jobs.iter().any(|job| job.gone.is_none() && job.name == name) {
        return None;
    }
    (spec.concurrency != Concurrency::Forbid || active.is_empty()).then_some(time)
}

/// Returns the name of a run: that of the CronJob, and the minutes since 1970.
pub(super) fn name_of(cron_job: &CronJob, time: Time, clock: Clock) -> String {
    format!("{}-{}", cron_job.name, (time.millis() + clock.start).div_euclid(60_000))
}

/// Deletes the oldest finished Jobs above the limits of the history.
fn delete_finished(
    cluster: &Cluster,
    cron_job: &CronJob,
    active: &mut Vec<usize>,
    actions: &mut Vec<Action>,
) {
    let finished = |sort: &'static str| {
        let jobs = cluster.jobs.iter().enumerate();
        jobs.filter(move |(_, job)| {
            job.is_run
                && job.gone.is_none()
                && job.deletion.is_none()
                && job.status.finished().is_some_and(|condition| condition.sort == sort)
        })
        .map(|(number, _)| number)
        .collect::<Vec<usize>>()
    };
    for (jobs, limit) in
        [(finished("Failed"), cron_job.spec.failed), (finished("Complete"), cron_job.spec.successful)]
    {
        for job in jobs.iter().copied().take(jobs.len().saturating_sub(limit)) {
            active.retain(|other| *other != job);
            actions.push(Action::DeleteJob { job, propagation: Propagation::Background });
        }
    }
}
