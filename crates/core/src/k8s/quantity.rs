//! Resource quantities (`500m`, `1.5Gi`, `2`), a port of `k8s.io/apimachinery/pkg/api/resource`.
//!
//! The original has an `int64` with a decimal scale for short numbers and a decimal of any length for others.
//! The two overflow differently, so both are here (`Amount`). Numbers are never floats.

mod long;
mod suffix;

use std::cmp::Ordering;

use long::{Digits, Long};
use suffix::{QuantityParts, split, suffix};

use crate::text::value::Value;

/// Why a text is not a quantity, with the API server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The part before the suffix is not a number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is not one of `Ki Mi Gi Ti Pi Ei`, `n u m k M G T P E` and `e<exponent>`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    amount: Amount,
    family: Family,
    /// The text, if the original keeps it as the canonical form.
    written: Option<Box<str>>,
}

/// The family of suffixes of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `Ki`, `Mi`, …
    Binary,
    /// `n`, `m`, none, `k`, …
    Decimal,
    /// `e3`.
    Exponent,
}

/// A number, in one of the original's two representations.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Amount {
    /// `value · 10^scale`.
    Small { value: i64, scale: i32 },
    /// `±digits · 10^exponent`, seen by the original as an integer over `10^scale`.
    Long(Long),
}

/// The most decimal digits that the original stores in an `int64`.
const SMALL_DIGITS: i64 = 18;
/// Decimal places that are kept: nano.
const NANO: i32 = -9;
const MILLI: i32 = -3;

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        let (family, exponent) = suffix(parts.suffix)?;
        let digits = parts.whole.len() as i64 + parts.fraction.len() as i64;
        let room = match family {
            Family::Decimal | Family::Exponent => SMALL_DIGITS - digits,
            // Only whole numbers of Ki, Mi, Gi and Ti are short enough; 2^10 takes about three digits.
            Family::Binary if parts.fraction.is_empty() => {
                14 - parts.whole.len() as i64 - i64::from(exponent * 3 / 10)
            }
            Family::Binary => -1,
        };
        let scale = if family == Family::Binary { 0 } else { exponent }
            .wrapping_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX));
        if room >= 0 && scale >= NANO {
            let number = parts.all_digits().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit));
            let unit = if family == Family::Binary { 1_i64 << exponent } else { 1 };
            if let Some(magnitude) = number.checked_mul(unit) {
                let kept = match family {
                    Family::Binary => number & 7 != 0,
                    Family::Decimal | Family::Exponent => {
                        let mut last = parts.all_digits().rev();
                        let thousand = digits >= 3 && last.by_ref().take(3).all(|digit| digit == 0);
                        scale % 3 == 0 && !thousand && parts.all_digits().next() != Some(0)
                    }
                };
                let value = if parts.negative { -magnitude } else { magnitude };
                return Ok(Self {
                    amount: Amount::Small { value, scale },
                    family,
                    written: kept.then(|| text.into()),
                });
            }
        }
        Self::parse_long(&parts, family, exponent)
    }

    /// Parses what does not fit an `int64`: many digits, places below nano, fractions of `Ki` etc.
    fn parse_long(
        parts: &QuantityParts<'_>,
        mut family: Family,
        exponent: i32,
    ) -> Result<Self, QuantityError> {
        if !parts.has_digits {
            return Err(QuantityError::Number);
        }
        let mut digits = Digits(parts.all_digits().collect());
        let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
        let mut power = -places;
        if family == Family::Binary {
            digits.shift_left(exponent);
        } else {
            power += i64::from(exponent);
        }
        digits.trim_leading();
        let mut long = Long { negative: parts.negative, digits, exponent: power, scale: i64::from(-NANO) };
        if !long.digits.is_zero() {
            // Round what is finer than nano away from zero.
            long.round_up(NANO);
        }
        if family == Family::Binary {
            let largest =
                Long { negative: false, digits: Digits::new(i64::MAX.unsigned_abs()), exponent: 0, scale: 0 };
            if long.cmp_magnitude(&largest) == Ordering::Greater {
                long = Long { negative: long.negative, ..largest };
            }
            let one = Long { negative: false, digits: Digits::new(1), exponent: 0, scale: 0 };
            if !long.digits.is_zero() && long.cmp_magnitude(&one) == Ordering::Less {
                family = Family::Decimal;
            }
        }
        Ok(Self { amount: Amount::Long(long), family, written: None })
    }

    /// Parses a quantity in JSON: a string, with spaces around it, or a number. `null` is zero.
    ///
    /// # Errors
    /// As [`Quantity::parse`]; other types are [`QuantityError::Format`].
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Self::parse("0"),
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Format),
        }
    }

    /// Tells whether the amount is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// Tells whether the amount is above zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.sign() > 0
    }

    /// Tells whether the amount is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.sign() < 0
    }

    /// Tells whether validation accepts the amount as an integer: its thousandths, rounded up and truncated
    /// to 64 bits, are a multiple of 1000.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.milli_value() % 1000 == 0
    }

    /// Returns the amount in whole units, rounded away from zero. Overflows as in Go.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Returns the amount in thousandths, rounded away from zero. Overflows as [`Quantity::value`] does.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(MILLI)
    }

    /// Tells whether the amount may be finer than thousandths.
    #[must_use]
    pub(crate) fn is_finer_than_milli(&self) -> bool {
        !matches!(&self.amount, Amount::Small { scale, .. } if *scale >= MILLI)
    }

    /// Returns the amount rounded away from zero to thousandths, as defaulting does.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        if !self.is_finer_than_milli() {
            return self;
        }
        match &mut self.amount {
            Amount::Small { value, scale } => {
                *value = divide_away(*value, MILLI.wrapping_sub(*scale));
                *scale = MILLI;
                self.written = None;
            }
            Amount::Long(long) => {
                long.round_up(MILLI);
                long.scale = i64::from(-MILLI);
                self.written = None;
            }
        }
        self
    }

    /// Returns another amount, in thousandths, that is printed with the same suffixes.
    #[must_use]
    pub(crate) fn with_milli(&self, milli: i64) -> Self {
        Self { amount: Amount::Small { value: milli, scale: MILLI }, family: self.family, written: None }
    }

    /// Returns the amount as the API server stores and prints it.
    #[must_use]
    pub fn canonical(&self) -> String {
        if let Some(written) = &self.written {
            return written.as_ref().to_owned();
        }
        if self.is_zero() {
            return "0".to_owned();
        }
        let long = self.to_long();
        if self.family == Family::Binary
            && let Some(text) = long.in_binary()
        {
            return text;
        }
        long.in_decimal(self.family == Family::Exponent)
    }

    fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Small { value, .. } => value.signum() as i32,
            Amount::Long(long) if long.digits.is_zero() => 0,
            Amount::Long(long) if long.negative => -1,
            Amount::Long(_) => 1,
        }
    }

    fn scaled(&self, to: i32) -> i64 {
        match &self.amount {
            Amount::Small { value, scale } if *scale < to => divide_away(*value, to - *scale),
            Amount::Small { value, scale } => multiply(*value, scale.wrapping_sub(to)),
            Amount::Long(long) => long.scaled(-i64::from(to)),
        }
    }

    fn to_long(&self) -> Long {
        match &self.amount {
            Amount::Small { value, scale } => Long {
                negative: *value < 0,
                digits: Digits::new(value.unsigned_abs()),
                exponent: i64::from(*scale),
                scale: -i64::from(*scale),
            },
            Amount::Long(long) => long.clone(),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.amount_cmp(other))
    }
}

impl Quantity {
    /// Compares two amounts, whatever their suffixes.
    #[must_use]
    pub fn amount_cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (self.sign(), other.sign());
        match left.cmp(&right) {
            Ordering::Equal if left == 0 => Ordering::Equal,
            Ordering::Equal if left < 0 => other.to_long().cmp_magnitude(&self.to_long()),
            Ordering::Equal => self.to_long().cmp_magnitude(&other.to_long()),
            unequal => unequal,
        }
    }
}

/// Divides by `10^places`, away from zero.
fn divide_away(value: i64, places: i32) -> i64 {
    let Some(divisor) = u32::try_from(places).ok().and_then(|places| 10_i64.checked_pow(places)) else {
        return value.signum();
    };
    value / divisor + if value % divisor == 0 { 0 } else { value.signum() }
}

/// Multiplies by `10^places`; an overflow returns 0, as in the original.
fn multiply(value: i64, places: i32) -> i64 {
    if value == 0 || places <= 0 {
        return value;
    }
    10_i64.checked_pow(places.unsigned_abs()).and_then(|factor| value.checked_mul(factor)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn amounts_beyond_an_int64_overflow_as_in_go() {
        assert_eq!(read("-1.5Ki").value(), -1536);
        assert_eq!(read("-0.5Ki").milli_value(), -512_000);
        assert_eq!(read("9Ei").canonical(), "9223372036854775807");
        assert_eq!(read("-9Ei").value(), -i64::MAX);
        assert_eq!(read("12345678901234567890123").canonical(), "12345678901234567890123");
        assert_eq!(read("1000E").canonical(), "1");
        assert_eq!(read("1234567890123456789e999999999").value(), 0);
        assert_eq!(read("1e-999999999").canonical(), "1e-9");
    }

    #[test]
    fn exponents_beyond_32_bits_are_printed_as_they_are_read_again() {
        for (text, canonical) in [
            ("10e2147483647", "10e2147483647"),
            ("1234567890.0E-2147483648", "12345678900e2147483647"),
            ("1e2147483645", "100e2147483643"),
            ("10e2147483646", "10e2147483646"),
        ] {
            assert_eq!(read(text).canonical(), canonical, "{text}");
            assert_eq!(read(canonical).canonical(), canonical, "{text}");
        }
    }

    #[test]
    fn fractions_of_binary_units_keep_their_worth() {
        assert_eq!(read("0.5Ki").canonical(), "512");
        assert_eq!(read("1.5Ki").canonical(), "1536");
        assert_eq!(read("2.5Mi").canonical(), "2560Ki");
        assert_eq!(read("0.0001Ki").canonical(), "102400u");
        assert_eq!(read("1100.5").canonical(), "1100500m");
        assert_eq!(read("1.0001Ki").canonical(), "1024102400u");
    }

    #[test]
    fn compares_by_worth() {
        for (left, right) in [
            ("1Ki", "1024"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("0", "-0m"),
            ("1E", "1000P"),
            ("0.5Gi", "512Mi"),
        ] {
            assert_eq!(read(left).amount_cmp(&read(right)), Ordering::Equal, "{left} {right}");
        }
        for (left, right) in [
            ("-2", "-1"),
            ("-1", "0"),
            ("999m", "1"),
            ("1M", "1Mi"),
            ("9", "10"),
            ("1e99", "1e100"),
            ("10n", "1u"),
        ] {
            assert_eq!(read(left).amount_cmp(&read(right)), Ordering::Less, "{left} {right}");
            assert_eq!(read(right).amount_cmp(&read(left)), Ordering::Greater, "{left} {right}");
        }
    }

    #[test]
    fn defaulting_rounds_to_thousandths() {
        for (text, stored) in [
            ("1.0001", "1001m"),
            ("100n", "1m"),
            ("5.", "5."),
            ("0.1", "100m"),
            ("-1.0001", "-1001m"),
            ("1.0001Ki", "1024103m"),
        ] {
            assert_eq!(read(text).rounded_to_milli().canonical(), stored, "{text}");
        }
    }

    #[test]
    fn reads_what_json_can_hold() {
        use crate::text::value::json;
        for (value, canonical) in [
            (json!(2), "2"),
            (json!(0.5), "500m"),
            (json!(" 1Gi "), "1Gi"),
            (json!(null), "0"),
            (json!(1e30), "1e+30"),
        ] {
            assert_eq!(
                Quantity::from_json(&value).map(|quantity| quantity.canonical()),
                Ok(canonical.to_owned()),
                "{value}"
            );
        }
        assert_eq!(Quantity::from_json(&json!(true)), Err(QuantityError::Format));
        assert_eq!(Quantity::from_json(&json!({})), Err(QuantityError::Format));
        assert_eq!(Quantity::parse("-e-10"), Err(QuantityError::Number));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+0-9.eEinumkKMGTPé ]{0,40}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.value(), quantity.milli_value(), quantity.canonical(), quantity.rounded_to_milli().canonical());
            }
        }

        #[test]
        fn the_canonical_form_is_worth_the_same(number in "[-+]?[0-9]{1,16}(\\.[0-9]{0,6})?", suffix in "(Ki|Mi|Gi|m|k|M|G|e3|)") {
            let quantity = read(&format!("{number}{suffix}"));
            let again = read(&quantity.canonical());
            prop_assert_eq!(quantity.amount_cmp(&again), Ordering::Equal, "{} {}", number, quantity.canonical());
        }

        #[test]
        fn small_numbers_are_themselves(number in -1_000_000_i64..1_000_000) {
            let quantity = read(&number.to_string());
            prop_assert_eq!(quantity.value(), number);
            prop_assert_eq!(quantity.milli_value(), number * 1000);
            prop_assert!(quantity.is_integer());
        }
    }
}
