//! A schedule has a next run or none, found in time, and says of itself what its runs show.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use jobgate::k8s::cron::{Schedule, load_location};

/// Seconds from 1970 to 2095: no leap year is left out in between, so that whatever can run does so within
/// five years.
const REGULAR: std::ops::Range<i64> = 0..3_944_678_400;

/// Takes a schedule; in further lines, where they are there, a time zone and the second since 1970 after
/// which runs are asked for.
pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let schedule = lines.next().unwrap_or_default();
    let zone = load_location(lines.next().unwrap_or_default()).ok().flatten().unwrap_or(TimeZone::UTC);
    let second = lines.next().and_then(|line| line.parse().ok()).unwrap_or(1_769_903_970);
    let Ok(after) = Timestamp::from_second(second) else { return };
    match Schedule::parse(schedule) {
        Ok(read) => {
            runs(&read, &after.to_zoned(zone));
            runs_in_utc(&read, schedule, after);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn runs(schedule: &Schedule, after: &Zoned) {
    let mut before = after.clone();
    for _ in 0..5 {
        let Some(next) = schedule.next(&before) else { return };
        assert!(!schedule.never_fires(), "{schedule:?} never runs, and does at {next}");
        assert!(next > before, "{next} is not after {before}");
        if let Schedule::Fields(_) = schedule {
            assert_eq!(next.timestamp().subsec_nanosecond(), 0);
        }
        before = next;
    }
}

fn runs_in_utc(schedule: &Schedule, text: &str, after: Timestamp) {
    let start = after.to_zoned(TimeZone::UTC);
    let period = schedule.shortest_period_seconds();
    assert!(period != Some(0) && (period.is_none() || !schedule.never_fires()), "{period:?}");
    if text.contains("TZ=") || !REGULAR.contains(&after.as_second()) {
        return;
    }
    let runs: Vec<Zoned> =
        std::iter::successors(schedule.next(&start), |run| schedule.next(run)).take(3).collect();
    assert_eq!(runs.is_empty(), schedule.never_fires(), "{schedule:?} after {start}: {runs:?}");
    for pair in runs.windows(2) {
        let gap = pair[1].timestamp().as_second() - pair[0].timestamp().as_second();
        assert!(
            period.is_some_and(|period| period <= gap.unsigned_abs()),
            "{schedule:?}: {period:?}, but {pair:?}"
        );
    }
    if !text.trim_start().starts_with('@') {
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let again = Schedule::parse(&plain).unwrap_or_else(|error| panic!("{plain:?}: {error}"));
        assert_eq!(again.next(&start), runs.first().cloned(), "{text:?} and {plain:?} differ");
    }
}
