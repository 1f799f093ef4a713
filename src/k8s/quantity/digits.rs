//! Natural numbers of any length.

/// A natural number of any length: decimal digits, the highest first. In manifests it is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digits(pub(super) Vec<u8>);

impl Digits {
    pub(super) fn of(number: u64) -> Self {
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
