//! What a syntax tree means: scalars by YAML 1.1 as Go's decoder has it, keys as text, aliases and merge keys
//! followed, the last of equal keys kept.
//!
//! The decoder is go.yaml.in/yaml/v2 under sigs.k8s.io/yaml, whose result goes through JSON: a whole float
//! becomes an integer, infinity an error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Number;

use super::tree::{Kind, Node, Style, Tag, Tree};
use super::{Limits, SyntaxError, SyntaxErrorKind};
use crate::text::value::{Fields, Value};

/// What a scalar means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    /// May be infinite, or no number.
    Float(f64),
    Text(Cow<'t, str>),
}

/// Resolves a scalar of a YAML document.
///
/// # Errors
/// Says why the text does not fit its tag.
pub(super) fn scalar(text: &str, style: Style, tag: Tag) -> Result<Scalar<'_>, String> {
    let (wanted, name) = match tag {
        Tag::None if style == Style::Plain => return Ok(plain(text, true)),
        Tag::NonSpecific => return Ok(plain(text, true)),
        Tag::None | Tag::Str | Tag::Other | Tag::Merge => return Ok(Scalar::Text(text.into())),
        Tag::Binary => {
            return binary(text)
                .map(|text| Scalar::Text(text.into()))
                .ok_or_else(|| "not base64, which `!!binary` asks for".to_owned());
        }
        // Go resolves a timestamp and then keeps the text.
        Tag::Timestamp if is_timestamp(text) => return Ok(Scalar::Text(text.into())),
        Tag::Timestamp => return Err("not a time, which `!!timestamp` asks for".to_owned()),
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
    Err(format!("not {wanted}, which `{name}` asks for"))
}

/// Tells, without looking further, that text without quotes means nothing but itself, as nearly all keys do:
/// all words that mean something else, such as `false`, have at most five letters and begin with one of
/// these.
pub(super) fn is_word(text: &str) -> bool {
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
    // Everything that follows is ASCII letters, digits and signs; most text that starts with a digit (images,
    // quantities) is told by this.
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
        // Go reads what does not fit `int64` as unsigned, and that takes no sign.
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

/// Tells whether Go's decoder takes text for a time. Such a text stays text, so only texts that could be
/// something else matter: `2024-1-2`.
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

/// Tells whether text is nothing, or the time of a day behind `T`, `t` (with a zone) or a space (without
/// one).
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

/// Decodes base64 as Go does: line breaks do not count. Bytes that are not UTF-8 become U+FFFD when Go prints
/// them as JSON.
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

/// Returns a float as it comes out of Go's JSON: whole numbers without a fraction, which makes them integers.
/// Nothing for what JSON cannot say.
fn json_float(float: f64) -> Option<Value> {
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
fn json_word(text: &str) -> Option<Value> {
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

/// The type of a key, since Go keeps `1` and `"1"` apart until both are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
    Text,
    Bool,
    Int,
    Float,
}

/// Returns a key as text, and the type it had.
fn key_text(scalar: Scalar<'_>) -> Result<(Cow<'_, str>, KeyType), &'static str> {
    Ok(match scalar {
        Scalar::Text(text) => (text, KeyType::Text),
        Scalar::Bool(true) => ("true".into(), KeyType::Bool),
        Scalar::Bool(false) => ("false".into(), KeyType::Bool),
        Scalar::Int(int) => (int.to_string().into(), KeyType::Int),
        Scalar::Float(float) => (short_float(float).into(), KeyType::Float),
        Scalar::Uint(_) => return Err("kubectl takes no key above 9223372036854775807; put it in quotes"),
        Scalar::Null => return Err("kubectl takes no null key; put it in quotes"),
    })
}

/// Prints a float as Go's `FormatFloat(x, 'g', -1, 32)`, with YAML's names for what is no number.
fn short_float(float: f64) -> String {
    let float = float as f32;
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf".to_owned() } else { "-.inf".to_owned() };
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{float}")
}

/// Two keys of one mapping that are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Twice {
    pub(super) mapping: u32,
    pub(super) dropped: u32,
    pub(super) kept: u32,
}

/// How a document is read: its tree, its text, and whether JSON's rules hold.
#[derive(Clone, Copy)]
pub(super) struct Text<'t> {
    pub(super) tree: &'t Tree,
    pub(super) source: &'t str,
    pub(super) json: bool,
}

impl<'t> Text<'t> {
    /// Returns a key of a mapping that can be told, without looking further, to be a text and no merge, as
    /// nearly all keys can.
    pub(super) fn word(self, at: usize) -> Option<&'t str> {
        let node = self.tree.node(at);
        if node.kind != Kind::Scalar || node.tag != Tag::None || node.style != Style::Plain {
            return None;
        }
        Some(self.tree.text(self.source, node)).filter(|text| is_word(text))
    }

    /// Returns a key of a mapping as text; nothing where a merge stands.
    pub(super) fn key(self, at: usize) -> Result<(Cow<'t, str>, KeyType), SyntaxError> {
        let mut node = self.tree.node(at);
        let span = node.span();
        if node.kind == Kind::Alias {
            node = self.tree.node(node.target());
        }
        let syntax =
            |message: String| SyntaxError { message, span: span.clone(), kind: SyntaxErrorKind::Syntax };
        if node.kind != Kind::Scalar {
            let message = if node.kind == Kind::Mapping {
                "a key cannot be a mapping"
            } else {
                "a key cannot be a list"
            };
            return Err(syntax(message.to_owned()));
        }
        let text = self.tree.text(self.source, node);
        if self.json || node.tag == Tag::None && (node.style != Style::Plain || is_word(text)) {
            return Ok((text.into(), KeyType::Text));
        }
        let scalar =
            scalar(text, node.style, node.tag).map_err(|why| syntax(format!("a key that is {why}")))?;
        key_text(scalar).map_err(|why| syntax(why.to_owned()))
    }

    /// Tells whether a key is a merge key.
    pub(super) fn is_merge(self, at: usize) -> bool {
        let node = self.tree.node(at);
        node.kind == Kind::Scalar
            && !self.json
            && match node.tag {
                Tag::None => node.style == Style::Plain,
                Tag::NonSpecific | Tag::Merge => true,
                _ => false,
            }
            && self.tree.text(self.source, node) == "<<"
    }

    /// Returns the mappings that a merge takes in, the one that counts most first.
    pub(super) fn merged(self, at: usize) -> Result<Vec<usize>, SyntaxError> {
        let fails = || {
            let message = "`<<` wants a mapping, or a list of mappings".to_owned();
            Err(SyntaxError { message, span: self.tree.node(at).span(), kind: SyntaxErrorKind::Syntax })
        };
        let is_mapping = |at: &usize| {
            let node = self.tree.node(*at);
            node.kind == Kind::Mapping
                || node.kind == Kind::Alias && self.tree.node(node.target()).kind == Kind::Mapping
        };
        if is_mapping(&at) {
            return Ok(vec![at]);
        }
        if self.tree.node(at).kind != Kind::Sequence {
            return fails();
        }
        let parts: Vec<usize> = self.tree.children(at).collect();
        if parts.iter().all(is_mapping) { Ok(parts) } else { fails() }
    }
}

/// Turns a tree into a value.
pub(super) fn value(text: Text<'_>, limits: &Limits) -> Result<(Value, Vec<Twice>), SyntaxError> {
    if text.tree.is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    // Go counts the document itself as one.
    let mut resolver =
        Resolver { text, limits, decoded: 1, aliased: 0, aliases: Vec::new(), twice: Vec::new() };
    let value = resolver.value(0, 0)?;
    Ok((value, resolver.twice))
}

struct Resolver<'t> {
    text: Text<'t>,
    limits: &'t Limits,
    decoded: u64,
    aliased: u64,
    /// The aliases that are being followed.
    aliases: Vec<usize>,
    twice: Vec<Twice>,
}

impl<'t> Resolver<'t> {
    /// Counts one step, with the bounds of Go's decoder on what aliases may blow up.
    fn count(&mut self, at: usize) -> Result<&'t Node, SyntaxError> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        self.decoded += 1;
        if !self.aliases.is_empty() {
            self.aliased += 1;
        }
        let node = self.text.tree.node(at);
        if self.aliased > 100 && self.decoded > 1000 {
            let decoded = self.decoded as f64;
            let allowed = 0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            if self.aliased as f64 / decoded > allowed || self.decoded > 2 * self.limits.nodes as u64 {
                let at = self.aliases.first().map_or(node, |alias| self.text.tree.node(*alias));
                let message = "aliases blow the document up beyond what kubectl takes".to_owned();
                return Err(SyntaxError { message, span: at.span(), kind: SyntaxErrorKind::Limit });
            }
        }
        Ok(node)
    }

    /// Enters an alias; returns its target.
    fn follow(&mut self, at: usize) -> Result<usize, SyntaxError> {
        let node = self.text.tree.node(at);
        if self.aliases.contains(&at) {
            let message = format!(
                "`{}` is inside of what it refers to",
                self.text.source.get(node.span()).unwrap_or_default()
            );
            return Err(SyntaxError { message, span: node.span(), kind: SyntaxErrorKind::Syntax });
        }
        self.aliases.push(at);
        Ok(node.target())
    }

    fn value(&mut self, at: usize, depth: usize) -> Result<Value, SyntaxError> {
        let node = self.count(at)?;
        match node.kind {
            Kind::Scalar => self.scalar(node),
            Kind::Alias => {
                let target = self.follow(at)?;
                let value = self.value(target, depth)?;
                self.aliases.pop();
                Ok(value)
            }
            Kind::Sequence => {
                self.check_depth(node, depth)?;
                let mut items = Vec::new();
                let mut child = at + 1;
                while child < node.next as usize {
                    items.push(self.value(child, depth + 1)?);
                    child = self.text.tree.node(child).next as usize;
                }
                Ok(Value::Array(items))
            }
            Kind::Mapping => {
                self.check_depth(node, depth)?;
                let mut fields = Fields::default();
                self.mapping(at, &mut fields, depth)?;
                Ok(Value::Object(fields.into_map()))
            }
        }
    }

    fn check_depth(&self, node: &Node, depth: usize) -> Result<(), SyntaxError> {
        if depth < self.limits.depth {
            return Ok(());
        }
        let node = self.aliases.first().map_or(node, |alias| self.text.tree.node(*alias));
        Err(SyntaxError {
            message: format!("nested more than {} levels deep", self.limits.depth),
            span: node.span(),
            kind: SyntaxErrorKind::Limit,
        })
    }

    fn scalar(&self, node: &Node) -> Result<Value, SyntaxError> {
        let text = self.text.tree.text(self.text.source, node);
        if node.tag == Tag::None && (node.style != Style::Plain || !self.text.json && is_word(text)) {
            return Ok(Value::String(text.into()));
        }
        let fails =
            |message: String| SyntaxError { message, span: node.span(), kind: SyntaxErrorKind::Syntax };
        if self.text.json {
            return json_word(text).ok_or_else(|| fails("a number that is too large".to_owned()));
        }
        Ok(match scalar(text, node.style, node.tag).map_err(|why| fails(format!("this is {why}")))? {
            Scalar::Null => Value::Null,
            Scalar::Bool(bool) => Value::Bool(bool),
            Scalar::Int(int) => int.into(),
            Scalar::Uint(int) => int.into(),
            Scalar::Float(float) => json_float(float).ok_or_else(|| {
                fails(format!("`{text}` is a number that JSON does not have; put it in quotes"))
            })?,
            Scalar::Text(text) => Value::String(text.into()),
        })
    }

    /// Puts the keys of a mapping into `fields`, in the order in which Go does: a merge overrides what stands
    /// before it.
    fn mapping(&mut self, at: usize, fields: &mut Fields, depth: usize) -> Result<(), SyntaxError> {
        let end = self.text.tree.node(at).next as usize;
        // Keys of this mapping by text; made when one of them turns up twice.
        let mut seen: Option<BTreeMap<Cow<'t, str>, (usize, KeyType)>> = None;
        let mut key = at + 1;
        while key < end {
            let below = self.text.tree.node(key).next as usize;
            let word = self.text.word(key);
            if word.is_none() && self.text.is_merge(key) {
                self.merge(below, fields, depth)?;
                key = self.text.tree.node(below).next as usize;
                continue;
            }
            self.count(key)?;
            if self.text.tree.node(key).kind == Kind::Alias {
                let target = self.follow(key)?;
                self.count(target)?;
                self.aliases.pop();
            }
            let (name, ty) = match word {
                Some(word) => (word.into(), KeyType::Text),
                None => self.text.key(key)?,
            };
            let value = self.value(below, depth + 1)?;
            match fields.get_mut(&name) {
                None => {
                    if seen.as_mut().is_none_or(|seen| self.note(at, key, name.clone(), ty, seen)) {
                        fields.push(name.into(), value);
                    }
                }
                Some(known) => {
                    let seen = match &mut seen {
                        Some(seen) => seen,
                        none => none.insert(self.keys_before(at, key)?),
                    };
                    if self.note(at, key, name, ty, seen) {
                        *known = value;
                    }
                }
            }
            key = self.text.tree.node(below).next as usize;
        }
        Ok(())
    }

    /// Returns the keys of a mapping up to one of them.
    fn keys_before(
        &self,
        at: usize,
        end: usize,
    ) -> Result<BTreeMap<Cow<'t, str>, (usize, KeyType)>, SyntaxError> {
        let mut seen = BTreeMap::new();
        for (key, _) in self.text.tree.entries(at).take_while(|(key, _)| *key < end) {
            if !self.text.is_merge(key) {
                let (name, ty) = self.text.key(key)?;
                seen.entry(name).or_insert((key, ty));
            }
        }
        Ok(seen)
    }

    /// Notes a key; tells whether it counts. Of keys that only print alike Go keeps either, at random; here
    /// it is the first.
    fn note(
        &mut self,
        at: usize,
        key: usize,
        name: Cow<'t, str>,
        ty: KeyType,
        seen: &mut BTreeMap<Cow<'t, str>, (usize, KeyType)>,
    ) -> bool {
        let Some(first) = seen.get_mut(&name) else {
            seen.insert(name, (key, ty));
            return true;
        };
        let counts = first.1 == ty;
        let (dropped, kept) = if counts { (first.0, key) } else { (key, first.0) };
        if counts {
            first.0 = key;
        }
        // What an alias repeats was noted where it is written.
        if self.aliases.is_empty() {
            self.twice.push(Twice { mapping: at as u32, dropped: dropped as u32, kept: kept as u32 });
        }
        counts
    }

    /// Puts the keys that a merge takes in into `fields`; of several mappings the first counts most.
    fn merge(&mut self, at: usize, fields: &mut Fields, depth: usize) -> Result<(), SyntaxError> {
        for part in self.text.merged(at)?.into_iter().rev() {
            let node = self.count(part)?;
            if node.kind == Kind::Alias {
                let target = self.follow(part)?;
                self.count(target)?;
                self.mapping(target, fields, depth)?;
                self.aliases.pop();
            } else {
                self.check_depth(node, depth)?;
                self.mapping(part, fields, depth)?;
            }
        }
        Ok(())
    }
}
