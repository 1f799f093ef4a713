//! One field of a schedule as a set of bits.

use super::CronError;

/// The bit of a field with `*` or `?` without a step above 1.
pub(super) const STAR: u64 = 1 << 63;

/// The values of one field.
#[derive(Debug)]
pub(super) struct FieldBounds {
    least: u64,
    most: u64,
    /// Names of the values from `least` on.
    names: &'static [&'static str],
}

pub(super) const MINUTE: FieldBounds = FieldBounds { least: 0, most: 59, names: &[] };

pub(super) const HOUR: FieldBounds = FieldBounds { least: 0, most: 23, names: &[] };

pub(super) const DAY: FieldBounds = FieldBounds { least: 1, most: 31, names: &[] };

pub(super) const MONTH: FieldBounds = FieldBounds {
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};

pub(super) const WEEKDAY: FieldBounds =
    FieldBounds { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Parses one field.
pub(super) fn set(field: &str, bounds: &FieldBounds) -> Result<u64, CronError> {
    field
        .split(',')
        .filter(|range| !range.is_empty())
        .try_fold(0, |bits, text| Ok(bits | range(text, bounds)?))
}

pub(super) fn range(text: &str, bounds: &FieldBounds) -> Result<u64, CronError> {
    let owned = || text.to_owned();
    let mut slashes = text.split('/');
    let mut hyphens = slashes.next().unwrap_or_default().split('-');
    let low = hyphens.next().unwrap_or_default();
    let (high, more) = (hyphens.next(), hyphens.next().is_some());
    let (start, mut end, mut star) = if low == "*" || low == "?" {
        (bounds.least, bounds.most, STAR)
    } else {
        let start = value(low, bounds)?;
        let end = match high {
            None => start,
            Some(_) if more => return Err(CronError::Hyphens(owned())),
            Some(high) => value(high, bounds)?,
        };
        (start, end, 0)
    };
    let step = match (slashes.next(), slashes.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = number(step)?;
            // `5/15` means `5-59/15`.
            if high.is_none() {
                end = bounds.most;
            }
            if step > 1 {
                star = 0;
            }
            step
        }
        (Some(_), Some(_)) => return Err(CronError::Slashes(owned())),
    };
    if start < bounds.least {
        return Err(CronError::Below { start, least: bounds.least, text: owned() });
    }
    if end > bounds.most {
        return Err(CronError::Above { end, most: bounds.most, text: owned() });
    }
    if start > end {
        return Err(CronError::Backwards { start, end, text: owned() });
    }
    if step == 0 {
        return Err(CronError::Step(owned()));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok((start..=end).step_by(step).fold(star, |bits, value| bits | 1 << value))
}

pub(super) fn value(text: &str, bounds: &FieldBounds) -> Result<u64, CronError> {
    match (bounds.least..).zip(bounds.names).find(|(_, name)| text.eq_ignore_ascii_case(name)) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

/// Parses a number as `strconv.Atoi` does: with a sign and leading zeros.
pub(super) fn number(text: &str) -> Result<u64, CronError> {
    let problem = |problem| CronError::Number { text: text.to_owned(), problem };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(problem("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| problem("value out of range"))?;
    u64::try_from(number).map_err(|_| CronError::Negative { number, text: text.to_owned() })
}
