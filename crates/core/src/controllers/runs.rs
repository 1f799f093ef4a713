//! The runs of a CronJob, while something happens to the first of them or to their controller.

use super::cron_job::name_of;
use super::cron_job::spec::{Concurrency, CronJobSpec};
use super::incident::{Incident, Occurrence};
use super::job::spec::JobSpec;
use super::script::{ControllerName, Range, ScriptEvent};
use super::story::{Assumptions, Outcome, lower};
use super::time::{Clock, Time};
use super::world::{TooLong, World};
use crate::text::value::Value;

/// Minimum and maximum times between two runs for which a CronJob is looked at.
const LEAST_PERIODS: i64 = 3;
const MOST_PERIODS: i64 = 24;
/// From a time of the schedule until its Job is seen.
const LAG: Time = Time::from_seconds(1);
/// How long after its time a run is late.
const LATE: Time = Time::from_seconds(10);

/// What becomes of the runs of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// For how long they are looked at, from the first.
    pub within: Time,
    /// How many are due.
    pub due: u32,
    /// How many of them start.
    pub started: u32,
    /// How many are not over when another starts, at most, with it.
    pub at_once: u32,
    /// How many are deleted before they end, to make room for the next.
    pub replaced: u32,
    /// By how much the latest is late; nothing where none is.
    pub late: Option<Time>,
    /// Whether their controller is away when one is due.
    pub is_missed: bool,
    /// `concurrencyPolicy`.
    pub concurrency: &'static str,
    /// `startingDeadlineSeconds`.
    pub starting_deadline: Option<Time>,
}

/// Returns what becomes of the runs of a CronJob with this `spec`, if something happens to the first, which alone would end
/// so; nothing where none starts by itself: its schedule cannot be read or never comes, or it or its Jobs are suspended.
///
/// # Errors
///
/// More work than a simulation does.
pub fn runs(
    spec: &Value,
    job: &JobSpec,
    story: &[Occurrence],
    assumptions: &Assumptions,
    alone: &Outcome,
) -> Result<Option<Runs>, TooLong> {
    let clock = Clock::default();
    let cron_job = CronJobSpec::from_spec(spec);
    let times: Vec<Time> = std::iter::successors(cron_job.next(Time::START, clock), |last| {
        cron_job.next(*last, clock).filter(|next| next > last)
    })
    .take(usize::try_from(MOST_PERIODS).unwrap_or_default() + 1)
    .collect();
    let (Some(first), Some(second)) = (times.first().copied(), times.get(1).copied()) else {
        return Ok(None);
    };
    if cron_job.suspend || job.suspend {
        return Ok(None);
    }
    let period = (second - first).millis();
    let away = story.iter().filter_map(|occurrence| match occurrence.incident {
        Incident::Missed(away) => Some(occurrence.at.unwrap_or_default() + away),
        _ => None,
    });
    let longest = away.chain([alone.at]).max().unwrap_or_default();
    let periods = longest.millis() / period.max(1) + 2;
    let within = Time::from_millis(periods.clamp(LEAST_PERIODS, MOST_PERIODS).saturating_mul(period));
    let until = first + within;
    let mut script = lower(job, story, assumptions);
    // The last plan is that of all others.
    if let Some((_, incidents)) = script.plans.split_last_mut() {
        for rule in incidents {
            rule.job = Some(Range { first: 0, last: Some(0) });
        }
    }
    // A patch here is one of the CronJob.
    script.events.retain(|(_, event)| !matches!(event, ScriptEvent::Patch(..)));
    for (at, _) in &mut script.events {
        *at = *at + first;
    }
    for occurrence in story {
        if let Incident::Missed(away) = occurrence.incident {
            let at = first + occurrence.at.unwrap_or_default();
            let missed = times.iter().copied().find(|time| *time > at).unwrap_or(second) - LAG;
            script.events.push((missed, ScriptEvent::Stop(ControllerName::CronJob)));
            script.events.push((missed + away, ScriptEvent::Start(ControllerName::CronJob)));
        }
    }
    script.events.sort_by_key(|(at, _)| *at);
    let mut world = World::with_cron_job("cron", spec, script, clock, false);
    world.run(until + LAG)?;
    let Some(seen) = &world.cluster.cron_job else { return Ok(None) };
    let jobs = &world.cluster.jobs;
    let due = times.iter().filter(|time| **time <= until);
    let (mut count, mut started, mut late) = (0, 0, Time::START);
    for time in due {
        count += 1;
        let name = name_of(seen, *time, clock);
        if let Some(job) = jobs.iter().find(|job| job.name == name) {
            started += 1;
            late = late.max(job.created - *time);
        }
    }
    let end = |nth: usize| {
        let job = jobs.get(nth)?;
        job.status.finished().map(|condition| condition.at).or(job.gone)
    };
    let is_over = |nth: usize, at: Time| end(nth).is_some_and(|end| end <= at);
    let at_once = jobs
        .iter()
        .enumerate()
        .map(|(nth, job)| 1 + (0..nth).filter(|other| !is_over(*other, job.created)).count());
    let replaced = jobs.iter().filter(|job| job.gone.is_some() && job.status.finished().is_none()).count();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(Some(Runs {
        within,
        due: count,
        started,
        at_once: number(at_once.max().unwrap_or_default()),
        replaced: number(replaced),
        is_missed: story.iter().any(|occurrence| matches!(occurrence.incident, Incident::Missed(_))),
        late: Some(late).filter(|late| *late >= LATE),
        concurrency: match cron_job.concurrency {
            Concurrency::Allow => "Allow",
            Concurrency::Forbid => "Forbid",
            Concurrency::Replace => "Replace",
        },
        starting_deadline: cron_job.starting_deadline,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::program::Peers;
    use super::super::story::tell;
    use super::*;
    use crate::text::value::json;

    const HOUR: i64 = 3_600;

    fn assumptions(runtime: i64) -> Assumptions {
        Assumptions {
            runtime: Time::from_seconds(runtime),
            startup: Time::from_seconds(60),
            checkpoint: None,
            ..Assumptions::for_tests(Peers::Independent)
        }
    }

    fn told(settings: &Value, incident: Incident) -> Runs {
        let job = json!({"activeDeadlineSeconds": 3_000, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
        let mut cron_job = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": job.clone()}});
        for (key, value) in settings.as_object().expect("settings") {
            cron_job[key] = value.clone();
        }
        let (spec, assumptions) = (JobSpec::from_spec(&job), assumptions(1_500));
        let story = [Occurrence::from(incident)];
        let alone = tell(&job, lower(&spec, &story, &assumptions)).expect("an end");
        let told = runs(&cron_job, &spec, &story, &assumptions, &alone);
        told.expect("an end").expect("a schedule")
    }

    #[test]
    fn a_run_that_never_ends_holds_the_others_up() {
        let lost = |concurrency: &str| told(&json!({"concurrencyPolicy": concurrency}), Incident::NodeLost);
        let forbid = lost("Forbid");
        assert!(forbid.started < forbid.due && forbid.at_once == 1, "{forbid:?}");
        let allow = lost("Allow");
        assert!(allow.started == allow.due && allow.at_once == 2, "{allow:?}");
        let replace = lost("Replace");
        assert!(replace.started == replace.due && replace.replaced == 1, "{replace:?}");
    }

    #[test]
    fn a_run_that_is_missed_starts_late_or_never() {
        let away = |settings: &Value| told(settings, Incident::Missed(Time::from_seconds(HOUR / 2)));
        let late = away(&json!({}));
        assert_eq!((late.due, late.started), (4, 4));
        assert!(late.late.is_some_and(|late| late >= Time::from_seconds(HOUR / 2)), "{late:?}");
        let never = away(&json!({"startingDeadlineSeconds": 60}));
        assert_eq!((never.due, never.started, never.late), (4, 3, None));
        // Of several, the last one is made up for.
        let long = told(&json!({}), Incident::Missed(Time::from_seconds(5 * HOUR / 2)));
        assert_eq!((long.due, long.started), (5, 3));
    }

    #[test]
    fn what_never_starts_by_itself_has_no_runs() {
        let suspended = json!({"schedule": "0 * * * *", "suspend": true});
        let never = json!({"schedule": "0 0 30 2 *"});
        let spec = JobSpec::from_spec(&json!({}));
        let assumptions = assumptions(60);
        let alone = tell(&json!({}), lower(&spec, &[], &assumptions)).expect("an end");
        for cron_job in [suspended, never, json!({}), json!({"schedule": "nonsense"})] {
            assert_eq!(runs(&cron_job, &spec, &[], &assumptions, &alone), Ok(None), "{cron_job:?}");
        }
    }
}
