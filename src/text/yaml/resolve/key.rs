//! The keys of mappings, as text, and merge keys.

use std::borrow::Cow;

use super::scalar::{Scalar, is_word, scalar};
use crate::text::yaml::SyntaxError;
use crate::text::yaml::tree::{Kind, Style, Tag, Tree};

/// The type of a key: Go treats `1` and `"1"` as different keys until it prints both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::text::yaml) enum KeyType {
    Text,
    Bool,
    Int,
    Float,
}

/// Returns a key as text, with its type.
fn key_text(scalar: Scalar<'_>) -> Result<(Cow<'_, str>, KeyType), &'static str> {
    Ok(match scalar {
        Scalar::Text(text) => (text, KeyType::Text),
        Scalar::Bool(true) => ("true".into(), KeyType::Bool),
        Scalar::Bool(false) => ("false".into(), KeyType::Bool),
        Scalar::Int(int) => (int.to_string().into(), KeyType::Int),
        Scalar::Float(float) => (short_float(float).into(), KeyType::Float),
        Scalar::Uint(_) => return Err("kubectl rejects keys above 9223372036854775807; put it in quotes"),
        Scalar::Null => return Err("kubectl rejects null keys; put it in quotes"),
    })
}

/// Prints a float as Go's `FormatFloat(x, 'g', -1, 32)`, with YAML's names for NaN and infinity.
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

/// A document to read: its tree and text, and whether JSON rules apply.
#[derive(Clone, Copy)]
pub(in crate::text::yaml) struct Text<'t> {
    pub(in crate::text::yaml) tree: &'t Tree,
    pub(in crate::text::yaml) source: &'t str,
    pub(in crate::text::yaml) json: bool,
}

impl<'t> Text<'t> {
    /// Returns a key that is plain text and no merge key, if one look shows it, as for nearly all keys.
    pub(in crate::text::yaml) fn word(self, at: usize) -> Option<&'t str> {
        let node = self.tree.node(at);
        if node.kind != Kind::Scalar || node.tag != Tag::None || node.style != Style::Plain {
            return None;
        }
        Some(self.tree.text(self.source, node)).filter(|text| is_word(text))
    }

    /// Returns a key of a mapping as text, with its type.
    pub(in crate::text::yaml) fn key(self, at: usize) -> Result<(Cow<'t, str>, KeyType), SyntaxError> {
        let mut node = self.tree.node(at);
        let span = node.span();
        if node.kind == Kind::Alias {
            node = self.tree.node(node.target());
        }
        let syntax = |message: String| SyntaxError::syntax(message, span.clone());
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
        let scalar = scalar(text, node.style, node.tag).map_err(|why| syntax(format!("the key is {why}")))?;
        key_text(scalar).map_err(|why| syntax(why.to_owned()))
    }

    /// Tells whether a key is a merge key.
    pub(in crate::text::yaml) fn is_merge(self, at: usize) -> bool {
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

    /// Returns the mappings that a merge key merges in, the one with the highest priority first.
    pub(in crate::text::yaml) fn merged(self, at: usize) -> Result<Vec<usize>, SyntaxError> {
        let fails = || {
            let message = "`<<` requires a mapping or a list of mappings";
            Err(SyntaxError::syntax(message, self.tree.node(at).span()))
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
