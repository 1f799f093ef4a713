//! Resolves scalars by YAML 1.1, as Go's decoder does, or by JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Number;

use crate::value::Value;
use crate::yaml::tree::{Style, Tag};

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::yaml) enum Scalar<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    /// May be infinite or NaN.
    Float(f64),
    Text(Cow<'t, str>),
}

/// Resolves a scalar of a YAML document.
///
/// # Errors
/// Why the text does not match its tag.
pub(in crate::yaml) fn scalar(text: &str, style: Style, tag: Tag) -> Result<Scalar<'_>, String> {
    let (wanted, name) = match tag {
        Tag::None if style == Style::Plain => return Ok(plain(text, true)),
        Tag::NonSpecific => return Ok(plain(text, true)),
        Tag::None | Tag::Str | Tag::Other | Tag::Merge => return Ok(Scalar::Text(text.into())),
        Tag::Binary => {
            return binary(text)
                .map(|text| Scalar::Text(text.into()))
                .ok_or_else(|| "not base64, which `!!binary` requires".to_owned());
        }
        // Go resolves a timestamp and then keeps the text.
        Tag::Timestamp if is_timestamp(text) => return Ok(Scalar::Text(text.into())),
        Tag::Timestamp => return Err("not a time, which `!!timestamp` requires".to_owned()),
        tag => match (tag, plain(text, false)) {
            (Tag::Null, found @ Scalar::Null)
            | (Tag::Bool, found @ Scalar::Bool(_))
            | (Tag::Int, found @ (Scalar::Int(_) | Scalar::Uint(_)))
            | (Tag::Float, found @ Scalar::Float(_)) => return Ok(found),
            (Tag::Float, Scalar::Int(int)) => return Ok(Scalar::Float(int as f64)),
            (Tag::Null, _) => ("null", "!!null"),
            (Tag::Bool, _) => ("a boolean", "!!bool"),
            (Tag::Int, _) => ("an integer", "!!int"),
            _ => ("a number", "!!float"),
        },
    };
    Err(format!("not {wanted}, which `{name}` requires"))
}

/// Tells quickly whether text without quotes is surely a string, as nearly all keys are: words that are not,
/// such as `false`, have at most five letters and begin with one of these.
pub(in crate::yaml) fn is_word(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O') => text.len() > 5,
        first => first.is_some_and(u8::is_ascii_alphabetic),
    }
}

/// Resolves text without quotes.
fn plain(text: &str, timestamps: bool) -> Scalar<'_> {
    let Some(first) = text.as_bytes().first() else { return Scalar::Null };
    match first {
        b'0'..=b'9' | b'+' | b'-' => number(text, timestamps),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => go_float(text),
        },
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Scalar::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
                Scalar::Bool(false)
            }
            "~" | "null" | "Null" | "NULL" => Scalar::Null,
            _ => Scalar::Text(text.into()),
        },
        _ => Scalar::Text(text.into()),
    }
}

/// Resolves text that starts with a digit or a sign.
fn number(text: &str, timestamps: bool) -> Scalar<'_> {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    // All that follows is ASCII letters, digits and signs. This rules out most other text (images,
    // quantities).
    if !text.bytes().all(|byte| {
        byte.is_ascii_hexdigit() || matches!(byte, b'_' | b'.' | b'+' | b'-' | b'x' | b'X' | b'o' | b'O')
    }) {
        return Scalar::Text(text.into());
    }
    if timestamps && is_timestamp(text) {
        return Scalar::Text(text.into());
    }
    let plain: Cow<'_, str> = if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Some(int) = go_int(&plain) {
        return int;
    }
    if is_yaml_float(&plain)
        && let Ok(float) = plain.parse::<f64>()
        && float.is_finite()
    {
        return Scalar::Float(float);
    }
    Scalar::Text(text.into())
}

/// Reads an integer as Go's `strconv` does with base 0.
fn go_int(text: &str) -> Option<Scalar<'static>> {
    let (negative, signed, digits) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let lower = |prefix: char| {
        digits.strip_prefix('0').and_then(|rest| rest.strip_prefix([prefix, prefix.to_ascii_uppercase()]))
    };
    let (radix, digits) = if let Some(rest) = lower('x') {
        (16, rest)
    } else if let Some(rest) = lower('b') {
        (2, rest)
    } else if let Some(rest) = lower('o') {
        (8, rest)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(int) => Some(Scalar::Int(int)),
        // Go parses what exceeds `int64` as unsigned, which allows no sign.
        Err(_) => (!signed).then_some(Scalar::Uint(magnitude)),
    }
}

/// Tells whether text is a float in the form `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if whole == 0 && count == 0 {
            return false;
        }
        rest = &fraction[count..];
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        None => rest.is_empty(),
    }
}

/// Reads text that starts with a dot.
fn go_float(text: &str) -> Scalar<'_> {
    match text.parse::<f64>() {
        Ok(float) if is_yaml_float(text) && float.is_finite() => Scalar::Float(float),
        _ => Scalar::Text(text.into()),
    }
}

/// Tells whether Go's decoder parses text as a time, which stays a string: `2024-1-2`.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    let mut fields = text[5..].splitn(2, '-');
    let month = fields.next().and_then(small);
    let rest = fields.next().unwrap_or_default();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let day = small(&rest[..digits]);
    let year: u32 = text[..4].parse().unwrap_or_default();
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        Some(2) => 28 + u32::from(leap),
        Some(4 | 6 | 9 | 11) => 30,
        Some(1..=12) => 31,
        _ => return false,
    };
    day.is_some_and(|day| (1..=days).contains(&day)) && is_time(&rest[digits..])
}

/// Reads a number of one or two digits.
fn small(text: &str) -> Option<u32> {
    ((1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// Tells whether text is empty, or a time of day after `T` or `t` (with a zone) or a space (without one).
fn is_time(text: &str) -> bool {
    let Some(lead) = text.chars().next() else { return true };
    let mut rest = &text[lead.len_utf8()..];
    for (position, most) in [23, 59, 59].into_iter().enumerate() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // An hour has two digits in Go's layout `15`; minutes and seconds may have one.
        if small(&rest[..digits]).is_none_or(|field| field > most) {
            return false;
        }
        rest = &rest[digits..];
        if position < 2 {
            let Some(behind) = rest.strip_prefix(':') else { return false };
            rest = behind;
        }
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    match lead {
        ' ' => rest.is_empty(),
        'T' | 't' => {
            let zone = |zone: &str| {
                let (hours, minutes) = zone.split_once(':')?;
                (hours.len() == 2 && minutes.len() == 2).then_some(())?;
                Some(small(hours)? <= 24 && small(minutes)? <= 60)
            };
            rest == "Z" || rest.strip_prefix(['+', '-']).and_then(zone).unwrap_or(false)
        }
        _ => false,
    }
}

/// Decodes base64 as Go does, without line breaks. Go prints bytes that are not UTF-8 as U+FFFD.
fn binary(text: &str) -> Option<String> {
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let bare: String = text.chars().filter(|char| !matches!(char, '\n' | '\r')).collect();
    let bytes = GeneralPurpose::new(&STANDARD, config).decode(bare).ok()?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Some(out)
}

/// Returns a float as Go's JSON has it: whole numbers become integers; nothing for NaN and infinity.
pub(super) fn json_float(float: f64) -> Option<Value> {
    if !float.is_finite() {
        return None;
    }
    if float.fract() == 0.0 && float.abs() < 1e21 {
        let text = format!("{float}");
        if let Ok(int) = text.parse::<i64>() {
            return Some(int.into());
        }
        if let Ok(int) = text.parse::<u64>() {
            return Some(int.into());
        }
    }
    Number::from_f64(float).map(Value::Number)
}

/// Resolves a word of a JSON document.
pub(super) fn json_word(text: &str) -> Option<Value> {
    match text {
        "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(int), _) => Some(int.into()),
            (_, Ok(int)) => Some(int.into()),
            _ => json_float(text.parse().ok()?),
        },
    }
}
