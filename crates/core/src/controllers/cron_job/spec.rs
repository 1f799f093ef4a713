//! What a CronJob asks for.

use jiff::{Timestamp, tz::TimeZone};

use super::super::time::{Clock, Time};
use crate::k8s::cron::{Schedule, load_location};
use crate::text::value::Value;

/// What a CronJob asks for, with the defaults of the API server.
#[derive(Clone, Debug, Default)]
pub struct CronJobSpec {
    /// `schedule`; nothing if it cannot be read.
    pub(crate) schedule: Option<Schedule>,
    /// `timeZone`.
    pub(crate) zone: Option<TimeZone>,
    /// `concurrencyPolicy`.
    pub(crate) concurrency: Concurrency,
    /// `startingDeadlineSeconds`.
    pub(crate) starting_deadline: Option<Time>,
    /// `suspend`.
    pub(crate) suspend: bool,
    /// `successfulJobsHistoryLimit`.
    pub(crate) successful: usize,
    /// `failedJobsHistoryLimit`.
    pub failed: usize,
    /// `jobTemplate.spec`.
    pub(crate) template: Value,
}

/// `concurrencyPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Concurrency {
    /// `Allow`.
    #[default]
    Allow,
    /// `Forbid`.
    Forbid,
    /// `Replace`.
    Replace,
}

impl CronJobSpec {
    /// Reads a `spec`.
    #[must_use]
    pub(crate) fn from_spec(spec: &Value) -> Self {
        let text = |key: &str| spec.get(key).and_then(Value::as_str);
        let number = |key: &str| spec.get(key).and_then(Value::as_u64);
        let limit = |key: &str, default| {
            number(key).map_or(default, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
        };
        Self {
            schedule: text("schedule").and_then(|schedule| Schedule::parse(schedule).ok()),
            zone: text("timeZone").and_then(|zone| load_location(zone).ok().flatten()),
            concurrency: match text("concurrencyPolicy") {
                Some("Forbid") => Concurrency::Forbid,
                Some("Replace") => Concurrency::Replace,
                _ => Concurrency::Allow,
            },
            starting_deadline: spec
                .get("startingDeadlineSeconds")
                .and_then(Value::as_i64)
                .map(Time::from_seconds),
            suspend: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
            successful: limit("successfulJobsHistoryLimit", 3),
            failed: limit("failedJobsHistoryLimit", 1),
            template: spec.pointer("/jobTemplate/spec").cloned().unwrap_or_default(),
        }
    }

    /// Returns the first time of the schedule after a moment.
    pub(in super::super) fn next(&self, after: Time, clock: Clock) -> Option<Time> {
        let after = Timestamp::from_millisecond(after.millis().checked_add(clock.start)?).ok()?;
        let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
        let next = self.schedule.as_ref()?.next(&after.to_zoned(zone))?;
        Some(Time::from_millis(next.timestamp().as_millisecond() - clock.start))
    }

    /// Returns when a moment counts from, and the last time of the schedule between, if there is one
    /// (`mostRecentScheduleTime`).
    pub(super) fn most_recent(&self, from: Time, now: Time, clock: Clock) -> (Time, Option<Time>) {
        let Some(first) = self.next(from, clock).filter(|first| *first <= now) else { return (from, None) };
        let Some(second) = self.next(first, clock).filter(|second| *second <= now) else {
            return (from, Some(first));
        };
        let period = ((second - first).millis() + 500) / 1_000;
        if period < 1 {
            return (from, None);
        }
        let missed = (now - first).millis() / 1_000 / period + 1;
        // From one period before the last, in which an irregular schedule may have several.
        let mut last = None;
        let mut next = self.next(first + Time::from_seconds((missed - 2).saturating_mul(period)), clock);
        while let Some(time) = next.filter(|time| *time <= now) {
            last = Some(time);
            next = self.next(time, clock);
        }
        (from, last)
    }
}
