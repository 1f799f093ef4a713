//! Durations as Go prints them, for the query `?timeout=10s` of every call by the API server.

use std::time::Duration;

/// Reads the output of Go's `time.Duration.String`: `1m30s`, `2.5s`, `100ms`. Returns `None` for anything
/// else, including negative durations.
///
/// The API server sends at most 30 s. Fractions are kept to the nanosecond.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, after) =
            after.split_at(after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len()));
        let nanoseconds: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(number(whole)?.checked_mul(nanoseconds)?)?;
        // Twelve digits are more than nanoseconds of an hour.
        let fraction = &fraction[..fraction.len().min(12)];
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        total = total.checked_add(number(fraction)?.checked_mul(nanoseconds)? / scale)?;
        rest = after;
    }
    Some(Duration::from_nanos(u64::try_from(total).ok()?))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn number(digits: &str) -> Option<u128> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_writes() {
        for (text, milliseconds) in [
            ("10s", 10_000),
            ("2s", 2000),
            ("1m0s", 60_000),
            ("1h0m0s", 3_600_000),
            ("1.5s", 1500),
            ("100ms", 100),
            (".5s", 500),
            ("1.s", 1000),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse("1.5µs"), Some(Duration::from_nanos(1500)));
        assert_eq!(parse("3ns"), Some(Duration::from_nanos(3)));
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "",
            "s",
            "10",
            "-1s",
            "+1s",
            "1 s",
            "10x",
            ".s",
            "1e3s",
            "1s1",
            "99999999999999999999999999999999999999h",
            "٣s",
            "10S",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn sums_its_parts(h in 0..100_u64, m in 0..60_u64, s in 0..60_u64, ms in 0..1000_u64) {
            let expected = Duration::from_millis(((h * 60 + m) * 60 + s) * 1000 + ms);
            prop_assert_eq!(parse(&format!("{h}h{m}m{s}.{ms:03}s")), Some(expected));
        }
    }
}
