//! The parts of a quantity's text: sign, digits and suffix.

use super::{Family, QuantityError};

/// Decimal suffixes by power of ten.
pub(super) const DECIMAL: [(i32, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];

/// Binary suffixes by power of two.
pub(super) const BINARY: [(i32, &str); 6] =
    [(10, "Ki"), (20, "Mi"), (30, "Gi"), (40, "Ti"), (50, "Pi"), (60, "Ei")];

/// Parses a suffix: its family and its power of two or ten.
pub(super) fn suffix(text: &str) -> Result<(Family, i32), QuantityError> {
    if let Some((power, _)) = DECIMAL.iter().find(|(_, suffix)| *suffix == text) {
        return Ok((Family::Decimal, *power));
    }
    if let Some((power, _)) = BINARY.iter().find(|(_, suffix)| *suffix == text) {
        return Ok((Family::Binary, *power));
    }
    let digits = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let power: i64 = digits.parse().map_err(|_| QuantityError::Suffix)?;
    #[allow(clippy::cast_possible_truncation, reason = "the original truncates to 32 bits")]
    Ok((Family::Exponent, power as i32))
}

/// The parts of a text.
pub(super) struct QuantityParts<'t> {
    pub(super) negative: bool,
    /// Digits before the point, without leading zeros; `0` if there are none.
    pub(super) whole: &'t str,
    pub(super) fraction: &'t str,
    pub(super) suffix: &'t str,
    /// Whether there is any digit before the suffix.
    pub(super) has_digits: bool,
}

impl QuantityParts<'_> {
    pub(super) fn all_digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|byte| byte - b'0')
    }
}

pub(super) fn split(text: &str) -> Result<QuantityParts<'_>, QuantityError> {
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
    Ok(QuantityParts {
        negative: text.starts_with('-'),
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix,
        has_digits,
    })
}
