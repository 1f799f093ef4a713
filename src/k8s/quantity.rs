//! Resource quantities (`500m`, `1.5Gi`, `2`), as `k8s.io/apimachinery/pkg/api/resource` reads, rounds and
//! writes them.
//!
//! The original keeps a short number as an `int64` with a decimal scale and everything else as a decimal of
//! any length; the two overflow differently, so both are kept here (`Amount`). Numbers are never floats.

use std::cmp::Ordering;

use crate::text::value::Value;

/// Why a text is no quantity, in the API server's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has not the form of a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The part before the suffix is no number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is none of `Ki Mi Gi Ti Pi Ei`, `n u m k M G T P E` and `e<exponent>`.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    amount: Amount,
    family: Family,
    /// The text as written, where the original keeps it as the canonical form.
    written: Option<Box<str>>,
}

/// The family of suffixes that a quantity was written with, and is printed with.
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Long {
    negative: bool,
    digits: Digits,
    exponent: i64,
    /// Number of decimal places that the original's integer is counted in; decides where its arithmetic
    /// overflows.
    scale: i64,
}

/// Number of decimal digits that the original trusts to an `int64`.
const SMALL_DIGITS: i64 = 18;
/// Decimal places that are kept: nano.
const NANO: i32 = -9;
const MILLI: i32 = -3;

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// Says what is wrong with the text, in the API server's words.
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

    /// Reads what does not fit the short form: many digits, decimal places below nano, fractions of `Ki` and
    /// the like.
    fn parse_long(parts: &Parts<'_>, mut family: Family, exponent: i32) -> Result<Self, QuantityError> {
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
            // Whoever asks for some of a resource gets some: what is finer than nano is rounded away from
            // zero.
            long.round_up(NANO);
        }
        if family == Family::Binary {
            let largest =
                Long { negative: false, digits: Digits::of(i64::MAX.unsigned_abs()), exponent: 0, scale: 0 };
            if long.cmp_magnitude(&largest) == Ordering::Greater {
                long = Long { negative: long.negative, ..largest };
            }
            let one = Long { negative: false, digits: Digits::of(1), exponent: 0, scale: 0 };
            if !long.digits.is_zero() && long.cmp_magnitude(&one) == Ordering::Less {
                family = Family::Decimal;
            }
        }
        Ok(Self { amount: Amount::Long(long), family, written: None })
    }

    /// Reads a quantity from JSON, where it may be a string, with blanks around it, or a number. `null` is
    /// zero.
    ///
    /// # Errors
    /// As [`Quantity::parse`]; a value of any other type has the wrong form.
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

    /// Tells whether validation takes the amount for a whole number: its thousandths, rounded up and cut to
    /// 64 bits, are a multiple of 1000.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.milli_value() % 1000 == 0
    }

    /// Returns the amount in whole units, rounded away from zero. Out of the range of `i64` it is what Go's
    /// arithmetic leaves: nonsense, but the same.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Returns the amount in thousandths, rounded away from zero. Overflows as [`Quantity::value`] does.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(MILLI)
    }

    /// Tells whether the amount may have more decimal places than thousandths.
    #[must_use]
    pub fn is_finer_than_milli(&self) -> bool {
        !matches!(&self.amount, Amount::Small { scale, .. } if *scale >= MILLI)
    }

    /// Returns the amount rounded away from zero to thousandths, as defaulting does to resource lists.
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

    /// Returns the form in which the API server stores and prints the amount.
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
                digits: Digits::of(value.unsigned_abs()),
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
    /// Compares two amounts, however they are written.
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

/// Multiplies by `10^places`; an overflow makes 0, as the original does.
fn multiply(value: i64, places: i32) -> i64 {
    if value == 0 || places <= 0 {
        return value;
    }
    10_i64.checked_pow(places.unsigned_abs()).and_then(|factor| value.checked_mul(factor)).unwrap_or(0)
}

impl Long {
    /// Drops what is finer than `10^place`, away from zero.
    fn round_up(&mut self, place: i32) {
        let cut = i64::from(place).saturating_sub(self.exponent);
        let Ok(cut) = usize::try_from(cut) else { return };
        if cut == 0 {
            return;
        }
        let keep = self.digits.0.len().saturating_sub(cut);
        let lost = self.digits.0.split_off(keep);
        self.exponent = i64::from(place);
        if cut > lost.len() || lost.iter().any(|digit| *digit != 0) {
            self.digits.increment();
        }
        self.digits.trim_leading();
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        let top = |long: &Self| {
            i64::try_from(long.digits.0.len()).unwrap_or(i64::MAX).saturating_add(long.exponent)
        };
        match (self.digits.is_zero(), other.digits.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        top(self).cmp(&top(other)).then_with(|| self.digits.significant().cmp(other.digits.significant()))
    }

    /// Returns the amount counted in `10^-places`, with the original's overflows: its integer is cut to 64
    /// bits, in whichever order it computes.
    fn scaled(&self, places: i64) -> i64 {
        // The original's integer, modulo 2^64.
        let unscaled = || signed(self.negative, self.digits.low_bits(self.exponent + self.scale));
        let drop = self.scale - places;
        if drop <= 0 {
            let factor =
                u32::try_from(-drop).ok().and_then(|drop| 10_i64.checked_pow(drop)).unwrap_or(i64::MIN);
            return unscaled().wrapping_mul(factor);
        }
        let limit = Self {
            negative: false,
            digits: Digits::of(i64::MAX.unsigned_abs()),
            exponent: -self.scale,
            scale: self.scale,
        };
        if self.negative || self.cmp_magnitude(&limit) == Ordering::Less {
            let divisor = 10_i64.pow(u32::try_from(drop).unwrap_or(18).min(18));
            // Upwards even for a negative number: so says the original.
            return unscaled() / divisor + i64::from(unscaled() % divisor != 0);
        }
        let mut whole = self.clone();
        whole.round_up(i32::try_from(-places).unwrap_or(0));
        signed(false, whole.digits.low_bits(whole.exponent + places))
    }

    /// Writes the amount with a suffix of the binary family, unless that would lose a fraction or the amount
    /// is small.
    fn in_binary(&self) -> Option<String> {
        let kibi = Self { negative: false, digits: Digits::of(1024), exponent: 0, scale: 0 };
        let significant = i64::try_from(self.digits.significant().len()).ok()?;
        let fraction = i64::try_from(self.digits.0.len()).ok()? - significant + self.exponent < 0;
        if fraction || self.cmp_magnitude(&kibi) == Ordering::Less {
            return None;
        }
        // Binary amounts are capped at 2^63-1 when they are read, so the whole of it fits.
        let mut number = self.digits.low_bits_of_whole(self.exponent);
        let mut times = 0;
        while number >= 1024 && number.is_multiple_of(1024) {
            number /= 1024;
            times += 1;
        }
        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times)?;
        Some(format!("{}{number}{suffix}", if self.negative { "-" } else { "" }))
    }

    /// Writes the amount with the largest power of 1000 that leaves no fraction.
    fn in_decimal(&self, as_exponent: bool) -> String {
        let significant = self.digits.significant();
        let zeros = i64::try_from(self.digits.0.len() - significant.len()).unwrap_or(0);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the original counts in 32 bits, here as where it reads an exponent"
        )]
        let exponent = (self.exponent + zeros) as i32;
        let pad = exponent.rem_euclid(3);
        let exponent = exponent.wrapping_sub(pad);
        let mut out = String::with_capacity(significant.len() + 4);
        if self.negative {
            out.push('-');
        }
        out.extend(significant.iter().map(|digit| char::from(b'0' + digit)));
        out.extend((0..pad).map(|_| '0'));
        if as_exponent {
            if exponent != 0 {
                out.push_str(&format!("e{exponent}"));
            }
        } else if let Some((_, suffix)) = DECIMAL.iter().find(|(power, _)| *power == exponent) {
            // Beyond the suffixes the exponent is lost: so does Kubernetes up to 1.36 (`1000E` is stored as
            // `1`).
            out.push_str(suffix);
        }
        out
    }
}

fn signed(negative: bool, low: u64) -> i64 {
    let low = low.cast_signed();
    if negative { low.wrapping_neg() } else { low }
}

/// A natural number of any length: decimal digits, the highest first. Inputs are manifests, so it is short;
/// no big-number arithmetic is worth having.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Digits(Vec<u8>);

impl Digits {
    fn of(number: u64) -> Self {
        let mut digits = Self(number.to_string().bytes().map(|byte| byte - b'0').collect());
        digits.trim_leading();
        digits
    }

    fn is_zero(&self) -> bool {
        self.0.iter().all(|digit| *digit == 0)
    }

    fn trim_leading(&mut self) {
        let zeros = self.0.iter().take_while(|digit| **digit == 0).count();
        self.0.drain(..zeros);
    }

    /// Returns the digits without the zeros at their end.
    fn significant(&self) -> &[u8] {
        let zeros = self.0.iter().rev().take_while(|digit| **digit == 0).count();
        &self.0[..self.0.len() - zeros]
    }

    fn increment(&mut self) {
        for digit in self.0.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.0.insert(0, 1);
    }

    /// Multiplies by `2^bits`; at most 60 bits.
    fn shift_left(&mut self, bits: i32) {
        let factor = 1_u128 << bits.clamp(0, 60);
        let mut carry = 0_u128;
        for digit in self.0.iter_mut().rev() {
            let product = u128::from(*digit) * factor + carry;
            *digit = (product % 10) as u8;
            carry = product / 10;
        }
        while carry > 0 {
            self.0.insert(0, (carry % 10) as u8);
            carry /= 10;
        }
    }

    /// Returns the number times `10^power`, modulo 2^64; the power is not negative.
    fn low_bits(&self, power: i64) -> u64 {
        let low =
            self.0.iter().fold(0_u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(*digit)));
        // 10^64 and above are multiples of 2^64.
        (0..power.clamp(0, 64)).fold(low, |low, _| low.wrapping_mul(10))
    }

    /// Returns the number times `10^power` where that is whole and fits 64 bits.
    fn low_bits_of_whole(&self, power: i64) -> u64 {
        match usize::try_from(-power) {
            Ok(places) => Self(self.0[..self.0.len().saturating_sub(places)].to_vec()).low_bits(0),
            Err(_) => self.low_bits(power),
        }
    }
}

/// Decimal suffixes by power of ten.
const DECIMAL: [(i32, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
/// Binary suffixes by power of two.
const BINARY: [(i32, &str); 6] = [(10, "Ki"), (20, "Mi"), (30, "Gi"), (40, "Ti"), (50, "Pi"), (60, "Ei")];

/// Reads a suffix: its family and its power, of two or of ten.
fn suffix(text: &str) -> Result<(Family, i32), QuantityError> {
    if let Some((power, _)) = DECIMAL.iter().find(|(_, suffix)| *suffix == text) {
        return Ok((Family::Decimal, *power));
    }
    if let Some((power, _)) = BINARY.iter().find(|(_, suffix)| *suffix == text) {
        return Ok((Family::Binary, *power));
    }
    let digits = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let power: i64 = digits.parse().map_err(|_| QuantityError::Suffix)?;
    #[allow(clippy::cast_possible_truncation, reason = "the original cuts it to 32 bits")]
    Ok((Family::Exponent, power as i32))
}

/// A text, cut where the original cuts it.
struct Parts<'t> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` where there are none.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
    /// Whether there is any digit before the suffix.
    has_digits: bool,
}

impl Parts<'_> {
    fn all_digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|byte| byte - b'0')
    }
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = unsigned.trim_start_matches('0');
    let (whole, rest) = number.split_at(digits(number));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits(exponent) < exponent.len() {
        return Err(QuantityError::Format);
    }
    let has_digits = number.len() < unsigned.len() || !whole.is_empty() || !fraction.is_empty();
    Ok(Parts {
        negative: text.starts_with('-'),
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix,
        has_digits,
    })
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
