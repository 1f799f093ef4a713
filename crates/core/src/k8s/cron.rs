//! Cron schedules as in Kubernetes: `ParseStandard` of `robfig/cron` v3 and its search for the next run.
//!
//! Five fields or a descriptor; Sunday is 0, never 7; no `L`, `W` or `#`; `?` is `*`; day of month and day of
//! week are combined by OR unless one of them is a star (docs/internals/kubernetes.md#schedules).

mod field;
mod next;

use field::{DAY, HOUR, MINUTE, MONTH, STAR, WEEKDAY, set};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

use super::go::quoted;
use crate::text::meter;

/// Why a text is not a schedule, with the message of `robfig/cron`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it; the fields are its parts")]
pub enum CronError {
    /// The text is empty.
    #[error("empty spec string")]
    Empty,
    /// Not five fields.
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    Fields { found: usize, fields: String },
    /// A number or name was expected.
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {}: {problem}", quoted(text))]
    Number { text: String, problem: &'static str },
    /// A step below zero.
    #[error("negative number ({number}) not allowed: {text}")]
    Negative { number: i64, text: String },
    /// `1-2-3`.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// `1/2/3`.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// A range starts below the minimum of its field.
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    Below { start: u64, least: u64, text: String },
    /// A range ends above the maximum of its field.
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    Above { end: u64, most: u64, text: String },
    /// A range is reversed.
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Backwards { start: u64, end: u64, text: String },
    /// A step of zero.
    #[error("step of range should be a positive number: {0}")]
    Step(String),
    /// An unknown `@` word.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// `@every` without a valid duration.
    #[error("failed to parse duration {descriptor}: time: {problem}")]
    Duration { descriptor: String, problem: String },
    /// `TZ=` without a valid time zone.
    #[error("provided bad location {name}: {error}")]
    Location { name: String, error: LocationError },
    /// `TZ=` without a space after it: `robfig/cron` panics, which Kubernetes reports as an error.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    Panic,
}

/// Why a name is not a time zone, with the message of Go's `time.LoadLocation`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The name could be outside the directory of time zones.
    #[error("time: invalid location name")]
    Name,
    /// No such zone.
    #[error("unknown time zone {0}")]
    Unknown(String),
}

/// Returns the time zone of an IANA name, as Go does: case-sensitive, and UTC for the empty name. Returns
/// nothing for `Local`, the zone of the host.
///
/// Uses the built-in database, for the same answer everywhere.
///
/// # Errors
/// The name is unknown or invalid.
pub fn load_location(name: &str) -> Result<Option<TimeZone>, LocationError> {
    match name {
        "" | "UTC" => return Ok(Some(TimeZone::UTC)),
        "Local" => return Ok(None),
        _ => {}
    }
    if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|step| step == "..") {
        return Err(LocationError::Name);
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok();
    let zone = zone.filter(|zone| zone.iana_name() == Some(name));
    zone.map(Some).ok_or_else(|| LocationError::Unknown(name.to_owned()))
}

/// When a `CronJob` runs.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Minutes, hours and days.
    Fields(Fields),
    /// `@every`: seconds after the previous run, at least 1.
    Every(i64),
}

/// The five fields of a schedule, as sets of bits.
#[derive(Clone, Debug)]
pub struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// The zone of a `TZ=` prefix.
    zone: Option<TimeZone>,
}

/// Descriptors and their fields.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Schedule {
    /// Parses a schedule. Accepts a `TZ=` or `CRON_TZ=` prefix, which validation rejects in a `CronJob`.
    ///
    /// # Errors
    /// The text is not a schedule.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.is_empty() {
            return Err(CronError::Empty);
        }
        let mut rest = text;
        let mut zone = None;
        if let Some(prefixed) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, fields) = prefixed.split_once(' ').ok_or(CronError::Panic)?;
            zone =
                load_location(name).map_err(|error| CronError::Location { name: name.to_owned(), error })?;
            rest = fields.trim();
        }
        if !rest.starts_with('@') {
            return Fields::parse(rest, zone).map(Self::Fields);
        }
        if let Some((_, fields)) = DESCRIPTORS.iter().find(|(name, _)| *name == rest) {
            return Fields::parse(fields, zone).map(Self::Fields);
        }
        let duration = rest.strip_prefix("@every ").ok_or_else(|| CronError::Descriptor(rest.to_owned()))?;
        let nanoseconds = duration_nanoseconds(duration)
            .map_err(|problem| CronError::Duration { descriptor: rest.to_owned(), problem })?;
        Ok(Self::Every((nanoseconds / 1_000_000_000).max(1)))
    }

    /// Returns the first run after a time, in that time's zone; nothing if there is none within five years.
    #[must_use]
    pub fn next(&self, after: &Zoned) -> Option<Zoned> {
        let second = after.timestamp().as_second() - i64::from(after.timestamp().subsec_nanosecond() < 0);
        let next = match self {
            Self::Every(delay) => second.checked_add(*delay)?,
            Self::Fields(fields) => fields.next(second, fields.zone.as_ref().unwrap_or(after.time_zone()))?,
        };
        Some(Timestamp::from_second(next).ok()?.to_zoned(after.time_zone().clone()))
    }

    /// Tells whether no date matches the schedule (`0 0 31 2 *`). The API server accepts it; it never runs.
    #[must_use]
    pub fn never_fires(&self) -> bool {
        match self {
            Self::Every(_) => false,
            Self::Fields(fields) => {
                fields.minute << 1 == 0 || fields.hour << 1 == 0 || fields.days().next().is_none()
            }
        }
    }

    /// Tells whether it restricts both the day of the month and the day of the week: it then runs on days
    /// that match either of them.
    #[must_use]
    pub(crate) fn either_day(&self) -> bool {
        matches!(self, Self::Fields(fields) if (fields.day | fields.weekday) & STAR == 0)
    }

    /// Returns the shortest time between two runs, in seconds; nothing if there are no two runs. Ignores
    /// daylight saving time.
    #[must_use]
    pub fn shortest_period_seconds(&self) -> Option<u64> {
        let fields = match self {
            Self::Every(delay) => return u64::try_from(*delay).ok(),
            Self::Fields(fields) => fields,
        };
        meter::spend(SEARCH_STEPS);
        let mut minutes =
            (0..24 * 60).filter(|minute| has(fields.hour, minute / 60) && has(fields.minute, minute % 60));
        let first = minutes.next()?;
        let mut within_day = u64::MAX;
        let last = minutes.fold(first, |before, minute| {
            within_day = within_day.min(minute - before);
            minute
        });
        let overnight = 24 * 60 - last + first;
        let mut days = fields.days();
        let mut before = days.next()?;
        let mut best = within_day;
        for day in days {
            best = best.min(overnight + (day - before - 1) * 24 * 60);
            // No gap can be shorter.
            if best <= overnight {
                break;
            }
            before = day;
        }
        (best < u64::MAX).then_some(best * 60)
    }
}

/// Steps of the search for the shortest time between two runs, which looks at the days of 28 years.
const SEARCH_STEPS: u64 = 500;

fn has(bits: u64, value: u64) -> bool {
    bits >> value & 1 == 1
}

impl Fields {
    fn parse(text: &str, zone: Option<TimeZone>) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError::Fields { found: fields.len(), fields: fields.join(" ") });
        };
        Ok(Self {
            minute: set(minute, &MINUTE)?,
            hour: set(hour, &HOUR)?,
            day: set(day, &DAY)?,
            month: set(month, &MONTH)?,
            weekday: set(weekday, &WEEKDAY)?,
            zone,
        })
    }

    fn is_day(&self, day: u64, weekday: u64) -> bool {
        let (by_day, by_weekday) = (has(self.day, day), has(self.weekday, weekday));
        if (self.day | self.weekday) & STAR != 0 { by_day && by_weekday } else { by_day || by_weekday }
    }

    /// Returns the numbers of the days that match in 28 years, after which weekdays repeat.
    fn days(&self) -> impl Iterator<Item = u64> {
        const LENGTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        // 2000-01-01 was a Saturday.
        let mut number = 5;
        (2000..=2028_u64).flat_map(|year| (1..=12_u64).map(move |month| (year, month))).flat_map(
            move |(year, month)| {
                let start = number;
                let length = LENGTHS[month as usize - 1] + u64::from(month == 2 && year % 4 == 0);
                number += length;
                let length = if has(self.month, month) { length } else { 0 };
                (1..=length)
                    .filter(move |day| self.is_day(*day, (start + day) % 7))
                    .map(move |day| start + day)
            },
        )
    }
}

/// Parses a duration as Go's `time.ParseDuration` does.
pub(crate) fn duration_nanoseconds(text: &str) -> Result<i64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let invalid = || format!("invalid duration {}", quoted(text));
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(0);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut sum = 0_u64;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        if name.is_empty() {
            return Err(format!("missing unit in duration {}", quoted(text)));
        }
        let Some((_, unit)) = UNITS.iter().find(|(unit, _)| *unit == name) else {
            return Err(format!("unknown unit {} in duration {}", quoted(name), quoted(text)));
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let mut term = whole.checked_mul(*unit).filter(|term| *term <= 1 << 63).ok_or_else(invalid)?;
        if !fraction.is_empty() {
            // Further digits are below a nanosecond.
            let places = fraction.len().min(18);
            let number: u64 = fraction[..places].parse().map_err(|_| invalid())?;
            let scaled =
                u128::from(number) * u128::from(*unit) / 10_u128.pow(u32::try_from(places).unwrap_or(18));
            term = term.checked_add(u64::try_from(scaled).map_err(|_| invalid())?).ok_or_else(invalid)?;
        }
        sum = sum.checked_add(term).filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    if text.starts_with('-') {
        return Ok(0_i64.wrapping_sub_unsigned(sum));
    }
    i64::try_from(sum).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Schedule {
        Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn at(text: &str) -> Zoned {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn tells_the_shortest_gap() {
        for (schedule, seconds) in [
            ("* * * * *", Some(60)),
            ("*/7 * * * *", Some(4 * 60)),
            ("0,50 * * * *", Some(600)),
            ("0 * * * *", Some(3600)),
            ("0 */5 * * *", Some(4 * 3600)),
            ("0 9-17 * * 1-5", Some(3600)),
            ("30 23,0 * * *", Some(3600)),
            ("15 3 * * *", Some(86_400)),
            ("0 0 * * 1,4", Some(3 * 86_400)),
            ("0 0 1 * *", Some(28 * 86_400)),
            ("0 0 31 * *", Some(31 * 86_400)),
            ("0 0 1,15 * 1", Some(86_400)),
            ("@weekly", Some(7 * 86_400)),
            ("@yearly", Some(365 * 86_400)),
            ("0 0 29 2 *", Some(1461 * 86_400)),
            ("@every 90s", Some(90)),
            ("@every 1ms", Some(1)),
            ("@every -1h", Some(1)),
            ("0 0 31 2 *", None),
            (", * * * *", None),
        ] {
            assert_eq!(read(schedule).shortest_period_seconds(), seconds, "{schedule}");
        }
    }

    #[test]
    fn knows_schedules_without_a_date() {
        for schedule in [
            "0 0 31 2 *",
            "0 0 30 2 ?",
            "0 0 31 4,6,9,11 *",
            ", * * * *",
            "0 , * * *",
            "0 0 * , *",
            "0 0 , * *",
            "0 0 * * ,",
        ] {
            assert!(read(schedule).never_fires(), "{schedule}");
            assert!(read(schedule).next(&at("2026-01-31T23:59:30[UTC]")).is_none(), "{schedule}");
        }
        for schedule in ["0 0 29 2 *", "0 0 31 2 1", "0 0 , * 1", "@every 1s"] {
            assert!(!read(schedule).never_fires(), "{schedule}");
        }
    }

    #[test]
    fn clocks_that_change_move_runs_as_in_go() {
        let next = |schedule: &str, after: &str| read(schedule).next(&at(after)).map(|run| run.to_string());
        // 02:30 does not exist on 2026-03-29 in Berlin: that run is skipped.
        assert_eq!(
            next("30 2 * * *", "2026-03-28T12:00[Europe/Berlin]").as_deref(),
            Some("2026-03-30T02:30:00+02:00[Europe/Berlin]")
        );
        // 02:30 comes twice on 2026-10-25: the run starts at the first.
        assert_eq!(
            next("30 2 * * *", "2026-10-24T12:00[Europe/Berlin]").as_deref(),
            Some("2026-10-25T02:30:00+02:00[Europe/Berlin]")
        );
        // São Paulo once skipped midnight.
        assert_eq!(
            next("0 1 * * *", "2018-11-03T12:00[America/Sao_Paulo]").as_deref(),
            Some("2018-11-04T01:00:00-02:00[America/Sao_Paulo]")
        );
    }

    #[test]
    fn a_day_that_a_zone_leaves_out_is_passed() {
        let next = |schedule: &str, after: &str| read(schedule).next(&at(after)).map(|run| run.to_string());
        // Samoa had no 2011-12-30, Kwajalein no 1993-08-21.
        let apia = "2012-01-02T00:00:00+14:00[Pacific/Apia]";
        assert_eq!(next("0 0 * * 1", "2011-12-29T12:00[Pacific/Apia]").as_deref(), Some(apia));
        assert_eq!(
            next("*/5 1-1,7 ? jan-dec/1 MON", "2011-12-29T18:20-10[Pacific/Apia]").as_deref(),
            Some("2012-01-02T01:00:00+14:00[Pacific/Apia]")
        );
        let kwajalein = "1993-08-22T00:00:00+12:00[Pacific/Kwajalein]";
        assert_eq!(next("0 0 21,22 8 *", "1993-08-19T12:00[Pacific/Kwajalein]").as_deref(), Some(kwajalein));
    }

    #[test]
    fn zones_are_named_exactly() {
        for name in ["", "UTC", "Europe/Berlin", "Etc/GMT+3", "EST5EDT"] {
            assert!(matches!(load_location(name), Ok(Some(_))), "{name}");
        }
        assert!(matches!(load_location("Local"), Ok(None)));
        for name in ["europe/berlin", "Mars/Olympus", "utc+1"] {
            assert_eq!(load_location(name).err(), Some(LocationError::Unknown(name.to_owned())));
        }
        for name in ["../etc/passwd", "/etc/localtime", "a/../b"] {
            assert_eq!(load_location(name).err(), Some(LocationError::Name), "{name}");
        }
    }

    #[test]
    fn errors_are_gos() {
        for (text, message) in [
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1/-2 * * * *", "negative number (-2) not allowed: -2"),
            ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            (
                "TZ=Mars/Olympus 0 0 * * *",
                "provided bad location Mars/Olympus: unknown time zone Mars/Olympus",
            ),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5d", "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\""),
            (
                "@every 9999999h",
                "failed to parse duration @every 9999999h: time: invalid duration \"9999999h\"",
            ),
            ("@reboot", "unrecognized descriptor: @reboot"),
        ] {
            assert_eq!(
                Schedule::parse(text).map(|_| ()).map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(TZ=[A-Z]{0,4} ?)?[-*/,0-9@a-z? .]{0,24}") {
            if let Ok(schedule) = Schedule::parse(&text) {
                let _ = (schedule.next(&at("2026-03-28T12:00[Europe/Berlin]")), schedule.never_fires(), schedule.shortest_period_seconds());
            }
        }

        #[test]
        fn runs_are_never_closer_than_the_shortest_gap(minute in "(\\*|\\*/[1-9]|[0-5]?[0-9],7)", hour in "(\\*|\\*/[1-9]|[0-9]|1[0-9]-2[0-3])", day in "(\\*|\\*/[2-9]|[1-9],28)", weekday in "(\\*|[0-6]|1-5)") {
            let schedule = read(&format!("{minute} {hour} {day} * {weekday}"));
            let shortest = schedule.shortest_period_seconds();
            let mut time = at("2026-01-31T23:59:30[UTC]");
            let mut gaps = Vec::new();
            for _ in 0..40 {
                let Some(next) = schedule.next(&time) else { break };
                gaps.push(next.timestamp().as_second() - time.timestamp().as_second());
                time = next;
            }
            for gap in gaps.iter().skip(1) {
                prop_assert!(shortest.is_some_and(|shortest| shortest.cast_signed() <= *gap), "{:?} {}", shortest, gap);
            }
        }
    }
}
