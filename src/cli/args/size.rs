//! Sizes on the command line.

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        match units.into_iter().find(|(bits, _)| self.0 > 0 && self.0.trailing_zeros() >= *bits) {
            Some((bits, unit)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Reads a [`Size`]: digits, with an optional suffix `K`, `M` or `G`, which are powers of 1024.
pub(super) fn size(text: &str) -> Result<Size, &'static str> {
    const EXPECTED: &str = "expected a number of bytes such as 1048576, 512K, 64M or 1G";
    let (digits, factor) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| EXPECTED)?;
    number.checked_mul(factor).map(Size).ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_alike() {
        for (text, bytes) in
            [("0", 0), ("1000", 1000), ("512K", 512 << 10), ("64M", 64 << 20), ("2G", 2 << 30)]
        {
            assert_eq!(size(text), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(size("64m"), Ok(Size(64 << 20)));
        for text in
            ["", "M", "-1", "1.5G", "64MB", "1 K", "99999999999999999999", "18446744073709551615K", "ü"]
        {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
