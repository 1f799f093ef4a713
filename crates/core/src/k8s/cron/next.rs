//! The search for the next run.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::{Fields, has};

impl Fields {
    /// Searches step by step through civil time, as the original does, so that clock changes have the same
    /// effect.
    pub(super) fn next(&self, after: i64, zone: &TimeZone) -> Option<i64> {
        if self.minute << 1 == 0 || self.hour << 1 == 0 || self.month << 1 == 0 {
            return None;
        }
        let mut clock = ZonedClock { second: after + 1, zone };
        let last_year = clock.civil()?.year() + 5;
        // Whether a field has changed, and all smaller ones were reset.
        let mut moved = false;
        'wrap: loop {
            let mut now = clock.civil()?;
            if now.year() > last_year {
                return None;
            }
            while !has(self.month, now.month().unsigned_abs().into()) {
                if !moved {
                    moved = true;
                    now = clock.set(now.date().first_of_month().at(0, 0, 0, 0))?;
                }
                let month = now.date().first_of_month().checked_add(jiff::Span::new().months(1)).ok()?;
                now = clock.set_later(month.to_datetime(now.time()))?;
                if now.month() == 1 {
                    continue 'wrap;
                }
            }
            while !self.is_day(
                now.day().unsigned_abs().into(),
                now.weekday().to_sunday_zero_offset().unsigned_abs().into(),
            ) {
                if !moved {
                    moved = true;
                    now = clock.set(now.date().at(0, 0, 0, 0))?;
                }
                now = clock.set_later(now.date().tomorrow().ok()?.to_datetime(now.time()))?;
                // If midnight does not exist, the clock is an hour off.
                let hour = i64::from(now.hour());
                if hour != 0 {
                    clock.second += if hour > 12 { 24 - hour } else { -hour } * 3600;
                    now = clock.civil()?;
                }
                if now.day() == 1 {
                    continue 'wrap;
                }
            }
            while !has(self.hour, now.hour().unsigned_abs().into()) {
                if !moved {
                    moved = true;
                    clock.set(now.date().at(now.hour(), 0, 0, 0))?;
                }
                clock.second += 3600;
                now = clock.civil()?;
                if now.hour() == 0 {
                    continue 'wrap;
                }
            }
            while !has(self.minute, now.minute().unsigned_abs().into()) {
                if !moved {
                    moved = true;
                    clock.second -= clock.second.rem_euclid(60);
                }
                clock.second += 60;
                now = clock.civil()?;
                if now.minute() == 0 {
                    continue 'wrap;
                }
            }
            // Runs start at second 0.
            while now.second() != 0 {
                moved = true;
                clock.second += 1;
                now = clock.civil()?;
                if now.second() == 0 {
                    continue 'wrap;
                }
            }
            return Some(clock.second);
        }
    }
}

/// A time in a zone, with the arithmetic of Go.
struct ZonedClock<'z> {
    /// Seconds since 1970.
    second: i64,
    zone: &'z TimeZone,
}

impl ZonedClock<'_> {
    fn offset(&self, second: i64) -> Option<Offset> {
        Some(self.zone.to_offset(Timestamp::from_second(second).ok()?))
    }

    fn civil(&self) -> Option<DateTime> {
        Some(self.offset(self.second)?.to_datetime(Timestamp::from_second(self.second).ok()?))
    }

    /// Moves to a civil time. If it does not exist, or exists twice, Go uses the offset at that time in UTC,
    /// corrected once.
    fn set(&mut self, civil: DateTime) -> Option<DateTime> {
        let read_as_utc = Offset::UTC.to_timestamp(civil).ok()?.as_second();
        let guess = i64::from(self.offset(read_as_utc)?.seconds());
        let offset = i64::from(self.offset(read_as_utc - guess)?.seconds());
        self.second = read_as_utc - offset;
        self.civil()
    }

    /// Moves to a later civil time. If a zone skips a whole day, to change sides of the date line, that time
    /// is on the day before, and the original loops forever. Here it is a day later.
    fn set_later(&mut self, civil: DateTime) -> Option<DateTime> {
        let before = self.second;
        let now = self.set(civil)?;
        if self.second > before { Some(now) } else { self.set(civil.tomorrow().ok()?) }
    }
}
