//! Times on the command line.

/// A number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub u64);

/// Reads [`Seconds`]: digits, with an optional suffix `s`, `m`, `h` or `d`; at least one second.
pub(crate) fn seconds(text: &str) -> Result<Seconds, &'static str> {
    const EXPECTED: &str = "expected a number of seconds such as 3600, or 90m, 24h or 7d";
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86400)];
    let unit = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (digits, factor) = unit.unwrap_or((text, 1));
    let number: u64 = digits.parse().map_err(|_| EXPECTED)?;
    number
        .checked_mul(factor)
        .filter(|seconds| (1..=i64::MAX as u64).contains(seconds))
        .map(Seconds)
        .ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expected) in [("3600", 3600), ("45s", 45), ("90m", 5400), ("24h", 86400), ("7d", 604_800)]
        {
            assert_eq!(seconds(text), Ok(Seconds(expected)), "{text}");
        }
        for text in ["", "h", "0", "-1", "1.5h", "1w", "99999999999999999999", "999999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
