//! Amounts that do not fit an `int64`.

use std::cmp::Ordering;

use super::suffix::DECIMAL;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Long {
    pub(super) negative: bool,
    pub(super) digits: Digits,
    pub(super) exponent: i64,
    /// Decimal places of the original's integer, which decide where it overflows.
    pub(super) scale: i64,
}

impl Long {
    /// Rounds to `10^place`, away from zero.
    pub(super) fn round_up(&mut self, place: i32) {
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

    pub(super) fn cmp_magnitude(&self, other: &Self) -> Ordering {
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

    /// Returns the amount in units of `10^-places`, truncated to 64 bits where the original does.
    pub(super) fn scaled(&self, places: i64) -> i64 {
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
            digits: Digits::new(i64::MAX.unsigned_abs()),
            exponent: -self.scale,
            scale: self.scale,
        };
        if self.negative || self.cmp_magnitude(&limit) == Ordering::Less {
            let divisor = 10_i64.pow(u32::try_from(drop).unwrap_or(18).min(18));
            // The original rounds up even negative numbers.
            return unscaled() / divisor + i64::from(unscaled() % divisor != 0);
        }
        let mut whole = self.clone();
        whole.round_up(i32::try_from(-places).unwrap_or(0));
        signed(false, whole.digits.low_bits(whole.exponent + places))
    }

    /// Formats the amount with a binary suffix; nothing if it is below 1024 or has a fraction.
    pub(super) fn in_binary(&self) -> Option<String> {
        let kibi = Self { negative: false, digits: Digits::new(1024), exponent: 0, scale: 0 };
        let significant = i64::try_from(self.digits.significant().len()).ok()?;
        let fraction = i64::try_from(self.digits.0.len()).ok()? - significant + self.exponent < 0;
        if fraction || self.cmp_magnitude(&kibi) == Ordering::Less {
            return None;
        }
        // Parsing caps binary amounts at 2^63-1, so the number fits.
        let mut number = self.digits.low_bits_of_whole(self.exponent);
        let mut times = 0;
        while number >= 1024 && number.is_multiple_of(1024) {
            number /= 1024;
            times += 1;
        }
        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times)?;
        Some(format!("{}{number}{suffix}", if self.negative { "-" } else { "" }))
    }

    /// Formats the amount with the largest power of 1000 that leaves no fraction.
    pub(super) fn in_decimal(&self, as_exponent: bool) -> String {
        let significant = self.digits.significant();
        let zeros = i64::try_from(self.digits.0.len() - significant.len()).unwrap_or(0);
        #[allow(clippy::cast_possible_truncation, reason = "the original uses 32 bits")]
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
            // Other exponents are lost, as in Kubernetes up to 1.36 (`1000E` is stored as `1`).
            out.push_str(suffix);
        }
        out
    }
}

fn signed(negative: bool, low: u64) -> i64 {
    let low = low.cast_signed();
    if negative { low.wrapping_neg() } else { low }
}

/// A natural number of any length: decimal digits, the highest first. In manifests it is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digits(pub(super) Vec<u8>);

impl Digits {
    pub(super) fn new(number: u64) -> Self {
        let mut digits = Self(number.to_string().bytes().map(|byte| byte - b'0').collect());
        digits.trim_leading();
        digits
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.iter().all(|digit| *digit == 0)
    }

    pub(super) fn trim_leading(&mut self) {
        let zeros = self.0.iter().take_while(|digit| **digit == 0).count();
        self.0.drain(..zeros);
    }

    /// Returns the digits without the zeros at their end.
    pub(super) fn significant(&self) -> &[u8] {
        let zeros = self.0.iter().rev().take_while(|digit| **digit == 0).count();
        &self.0[..self.0.len() - zeros]
    }

    pub(super) fn increment(&mut self) {
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
    pub(super) fn shift_left(&mut self, bits: i32) {
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
    pub(super) fn low_bits(&self, power: i64) -> u64 {
        let low =
            self.0.iter().fold(0_u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(*digit)));
        // 10^64 and above are multiples of 2^64.
        (0..power.clamp(0, 64)).fold(low, |low, _| low.wrapping_mul(10))
    }

    /// Returns the number times `10^power` where that is whole and fits 64 bits.
    pub(super) fn low_bits_of_whole(&self, power: i64) -> u64 {
        match usize::try_from(-power) {
            Ok(places) => Self(self.0[..self.0.len().saturating_sub(places)].to_vec()).low_bits(0),
            Err(_) => self.low_bits(power),
        }
    }
}
