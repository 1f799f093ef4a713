//! Times as people read them: of the clock, in UTC as kubectl prints them, and how long.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::controllers::incident::Duration;
use crate::controllers::time::Time;

/// The moment that times count from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// In milliseconds since 1970.
    now: i64,
}

const DAY: i64 = 86_400_000;

impl Moment {
    pub(super) fn new(now: i64) -> Self {
        Self { now }
    }

    fn at(self, time: Time) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.now.checked_add(time.millis())?).ok()
    }

    /// Returns the moment itself: `2026-11-28 03:10:10 UTC`.
    pub(super) fn in_full(self) -> String {
        let at = self.at(Time::START);
        at.map_or_else(String::new, |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
    }

    /// Returns a time as the clock shows it, with its day where that is another: `03:14:20`, `Nov 29 03:14:20`.
    pub(super) fn clock(self, time: Time) -> String {
        let (Some(at), Some(now)) = (self.at(time), self.at(Time::START)) else { return "never".to_owned() };
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        let (at_day, now_day) = (day(at), day(now));
        let form = if at_day == now_day {
            "%H:%M:%S"
        } else if at_day.year() == now_day.year() {
            "%b %d %H:%M:%S"
        } else {
            "%Y-%m-%d %H:%M:%S"
        };
        at.strftime(form).to_string()
    }

    /// Returns a time with how far it is away: `03:14:20 (in 4m10s)`, `03:04:20 (5m50s ago)`.
    pub(super) fn with_distance(self, time: Time) -> String {
        if self.at(time).is_none() {
            return "never".to_owned();
        }
        let distance = if time < Time::START {
            format!("{} ago", long(Time::START - time))
        } else {
            format!("in {}", long(time))
        };
        format!("{} ({distance})", self.clock(time))
    }

    /// Returns a time for programs; nothing for what is out of all time.
    pub(super) fn stamp(self, time: Time) -> Option<String> {
        self.at(time).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// Returns how long something takes: `4m10s`, `41m`, `2h10m`, `5d3h`.
pub(super) fn long(time: Time) -> String {
    let millis = time.millis().max(0);
    let (days, hours) = (millis / DAY, millis % DAY / 3_600_000);
    match (days, hours) {
        (2.., 0) => format!("{days}d"),
        (100.., _) => format!("{days}d"),
        (2.., hours) => format!("{days}d{hours}h"),
        // Seconds mean nothing after ten minutes.
        _ if millis >= 600_000 => Duration(Time::from_seconds(millis / 60_000 * 60)).to_string(),
        _ => Duration(Time::from_seconds(millis / 1_000)).to_string(),
    }
}

/// Returns how long ago something was: `41m`.
pub(super) fn since(time: Time) -> String {
    long(Time::START - time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (250, "4m10s"),
            (2_460, "41m"),
            (2_479, "41m"),
            (7_800, "2h10m"),
            (86_400, "24h"),
            (3 * 86_400, "3d"),
            (5 * 86_400 + 3 * 3_600, "5d3h"),
            (i64::MAX, "106751991167d"),
        ] {
            assert_eq!(long(Time::from_seconds(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn a_clock_says_the_day_where_it_is_another() {
        let now: Timestamp = "2026-11-28T03:10:10Z".parse().unwrap();
        let moment = Moment::new(now.as_millisecond());
        for (seconds, expected) in [
            (250, "03:14:20 (in 4m10s)"),
            (-600, "03:00:10 (10m ago)"),
            (86_400, "Nov 29 03:10:10 (in 24h)"),
            (400 * 86_400, "2028-01-02 03:10:10 (in 400d)"),
            (i64::MAX, "never"),
        ] {
            assert_eq!(moment.with_distance(Time::from_seconds(seconds)), expected);
        }
    }
}
