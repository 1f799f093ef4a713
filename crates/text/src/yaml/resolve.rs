//! Turns a syntax tree into a value: scalars by YAML 1.1 as in Go's decoder, keys as text, aliases and merge
//! keys resolved, the last of equal keys kept.
//!
//! The decoder is go.yaml.in/yaml/v2 in sigs.k8s.io/yaml, whose result goes through JSON: a whole float
//! becomes an integer, infinity is an error.

mod scalar;

use std::borrow::Cow;

pub(super) use scalar::{Scalar, is_word, scalar};
use scalar::{json_float, json_word};

use super::tree::{NodeKind, Style, SyntaxNode, SyntaxTree, Tag, too_deep};
use crate::meter;
use crate::number::thousands;
use crate::value::{Fields, KeyTable, Value};
use crate::yaml::error::SyntaxError;
use crate::yaml::limits::Limits;

/// The type of a key: Go treats `1` and `"1"` as different keys until it prints both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
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
pub(super) struct TreeText<'t> {
    pub(super) tree: &'t SyntaxTree,
    pub(super) source: &'t str,
    pub(super) json: bool,
}

impl<'t> TreeText<'t> {
    /// Returns a key that is plain text and not a merge key, if a quick look shows that, as for nearly all
    /// keys.
    pub(super) fn word(self, at: usize) -> Option<&'t str> {
        let node = self.tree.node(at);
        if node.kind != NodeKind::Scalar || node.tag != Tag::None || node.style != Style::Plain {
            return None;
        }
        Some(self.tree.text(self.source, &node)).filter(|text| is_word(text))
    }

    /// Returns a key of a mapping as text, with its type.
    pub(super) fn key(self, at: usize) -> Result<(Cow<'t, str>, KeyType), SyntaxError> {
        let mut node = self.tree.node(at);
        let span = node.span();
        if node.kind == NodeKind::Alias {
            node = self.tree.node(node.target());
        }
        let syntax = |message: String| SyntaxError::syntax(message, span.clone());
        if node.kind != NodeKind::Scalar {
            let message = if node.kind == NodeKind::Mapping {
                "a key cannot be a mapping"
            } else {
                "a key cannot be a list"
            };
            return Err(syntax(message.to_owned()));
        }
        let text = self.tree.text(self.source, &node);
        if self.json || node.tag == Tag::None && (node.style != Style::Plain || is_word(text)) {
            return Ok((text.into(), KeyType::Text));
        }
        let scalar = scalar(text, node.style, node.tag).map_err(|why| syntax(format!("the key is {why}")))?;
        key_text(scalar).map_err(|why| syntax(why.to_owned()))
    }

    /// Tells whether a key is a merge key.
    pub(super) fn is_merge(self, at: usize) -> bool {
        let node = self.tree.node(at);
        node.kind == NodeKind::Scalar
            && !self.json
            && match node.tag {
                Tag::None => node.style == Style::Plain,
                Tag::NonSpecific | Tag::Merge => true,
                _ => false,
            }
            && self.tree.text(self.source, &node) == "<<"
    }

    /// Returns the mappings that a merge key merges in, the one with the highest priority first.
    pub(super) fn merged(self, at: usize) -> Result<Vec<usize>, SyntaxError> {
        let fails = || {
            let message = "`<<` requires a mapping or a list of mappings";
            Err(SyntaxError::syntax(message, self.tree.node(at).span()))
        };
        let is_mapping = |at: &usize| {
            let node = self.tree.node(*at);
            node.kind == NodeKind::Mapping
                || node.kind == NodeKind::Alias && self.tree.node(node.target()).kind == NodeKind::Mapping
        };
        if is_mapping(&at) {
            return Ok(vec![at]);
        }
        if self.tree.node(at).kind != NodeKind::Sequence {
            return fails();
        }
        let parts: Vec<usize> = self.tree.children(at).collect();
        if parts.iter().all(is_mapping) { Ok(parts) } else { fails() }
    }
}

/// Two equal keys of one mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Twice {
    pub(super) mapping: u32,
    pub(super) dropped: u32,
    pub(super) kept: u32,
}

/// Returns the value of a tree, and its duplicate keys.
pub(super) fn value(text: TreeText<'_>, limits: &Limits) -> Result<(Value, Vec<Twice>), SyntaxError> {
    if text.tree.is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    // Go counts the document too.
    let mut resolver = Resolver {
        text,
        limits,
        most: limits.nodes_in(text.source.len()) as u64,
        decoded: 1,
        aliased: 0,
        aliases: Vec::new(),
        twice: Vec::new(),
    };
    let value = resolver.value(0, 0)?;
    Ok((value, resolver.twice))
}

/// The keys of a mapping so far.
struct MappingKeys<'t> {
    text: TreeText<'t>,
    keys: Vec<SeenKey>,
    places: KeyTable,
}

/// A key, the last of equal ones.
#[derive(Clone, Copy)]
struct SeenKey {
    key: u32,
    /// The type of the first of them.
    ty: KeyType,
}

impl MappingKeys<'_> {
    fn get_mut(&mut self, name: &str) -> Option<&mut SeenKey> {
        let (text, keys) = (self.text, &mut self.keys);
        let is_own = |at: usize| text.key(keys[at].key as usize).is_ok_and(|(known, _)| known == name);
        let at = self.places.find(name, is_own)?;
        keys.get_mut(at)
    }

    fn add(&mut self, name: &str, key: usize, ty: KeyType) {
        self.places.add(name, self.keys.len());
        self.keys.push(SeenKey { key: key as u32, ty });
    }
}

struct Resolver<'t> {
    text: TreeText<'t>,
    limits: &'t Limits,
    /// The most nodes that aliases may expand the document to.
    most: u64,
    decoded: u64,
    aliased: u64,
    /// The aliases that are being followed.
    aliases: Vec<usize>,
    twice: Vec<Twice>,
}

impl<'t> Resolver<'t> {
    /// Counts a node, with the limits of Go's decoder on expanding aliases.
    fn count(&mut self, at: usize) -> Result<SyntaxNode, SyntaxError> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        meter::spend(1);
        self.decoded += 1;
        if !self.aliases.is_empty() {
            self.aliased += 1;
        }
        let node = self.text.tree.node(at);
        if self.aliased > 100 && self.decoded > 1000 {
            let decoded = self.decoded as f64;
            let allowed = 0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            let at = || self.aliases.first().map_or(node, |alias| self.text.tree.node(*alias)).span();
            if self.aliased as f64 / decoded > allowed {
                let message = "aliases expand the document beyond kubectl's limit".to_owned();
                return Err(SyntaxError::limit(message, at()));
            }
            if self.decoded > self.most {
                let most = thousands(self.most as usize);
                let message = format!("aliases expand the document to more than {most} keys and values");
                return Err(SyntaxError::dense(message, at()));
            }
        }
        Ok(node)
    }

    /// Enters an alias; returns its target.
    fn follow(&mut self, at: usize) -> Result<usize, SyntaxError> {
        let node = self.text.tree.node(at);
        if self.aliases.contains(&at) {
            let message = format!(
                "`{}` refers to a value that contains it",
                self.text.source.get(node.span()).unwrap_or_default()
            );
            return Err(SyntaxError::syntax(message, node.span()));
        }
        self.aliases.push(at);
        Ok(node.target())
    }

    fn value(&mut self, at: usize, depth: usize) -> Result<Value, SyntaxError> {
        let node = self.count(at)?;
        match node.kind {
            NodeKind::Scalar => self.scalar(&node),
            NodeKind::Alias => {
                let target = self.follow(at)?;
                let value = self.value(target, depth)?;
                self.aliases.pop();
                Ok(value)
            }
            NodeKind::Sequence => {
                self.check_depth(&node, depth)?;
                // With room for just them: an item may have two bytes of source, and most lists have few.
                let mut items = Vec::with_capacity(self.text.tree.children(at).count());
                let mut child = at + 1;
                while child < node.next as usize {
                    items.push(self.value(child, depth + 1)?);
                    child = self.text.tree.node(child).next as usize;
                }
                Ok(Value::Array(items))
            }
            NodeKind::Mapping => {
                self.check_depth(&node, depth)?;
                let mut fields = Fields::with_capacity(self.text.tree.entries(at).count());
                self.mapping(at, &mut fields, depth)?;
                Ok(Value::Object(fields.into_map()))
            }
        }
    }

    fn check_depth(&self, node: &SyntaxNode, depth: usize) -> Result<(), SyntaxError> {
        if depth < self.limits.depth {
            return Ok(());
        }
        let node = self.aliases.first().map_or(*node, |alias| self.text.tree.node(*alias));
        Err(too_deep(self.limits, node.span()))
    }

    fn scalar(&self, node: &SyntaxNode) -> Result<Value, SyntaxError> {
        let text = self.text.tree.text(self.text.source, node);
        if node.tag == Tag::None && (node.style != Style::Plain || !self.text.json && is_word(text)) {
            return Ok(Value::String(text.into()));
        }
        let fails = |message: String| SyntaxError::syntax(message, node.span());
        if self.text.json {
            return json_word(text).ok_or_else(|| fails("the number is too large".to_owned()));
        }
        Ok(match scalar(text, node.style, node.tag).map_err(|why| fails(format!("the value is {why}")))? {
            Scalar::Null => Value::Null,
            Scalar::Bool(bool) => Value::Bool(bool),
            Scalar::Int(int) => int.into(),
            Scalar::Uint(int) => int.into(),
            Scalar::Float(float) => json_float(float)
                .ok_or_else(|| fails(format!("JSON has no number `{text}`; put it in quotes")))?,
            Scalar::Text(text) => Value::String(text.into()),
        })
    }

    /// Adds the entries of a mapping to `fields`, in Go's order: a merge key overrides the keys before it.
    fn mapping(&mut self, at: usize, fields: &mut Fields, depth: usize) -> Result<(), SyntaxError> {
        let end = self.text.tree.node(at).next as usize;
        // The keys of this mapping; made for the first duplicate.
        let mut seen: Option<MappingKeys<'t>> = None;
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
            if self.text.tree.node(key).kind == NodeKind::Alias {
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
                    if seen.as_mut().is_none_or(|seen| self.note(at, key, &name, ty, seen)) {
                        fields.push(name.into(), value);
                    }
                }
                Some(known) => {
                    let seen = match &mut seen {
                        Some(seen) => seen,
                        none => none.insert(self.keys_before(at, key)?),
                    };
                    if self.note(at, key, &name, ty, seen) {
                        *known = value;
                    }
                }
            }
            key = self.text.tree.node(below).next as usize;
        }
        Ok(())
    }

    /// Returns the keys of a mapping before one of them.
    fn keys_before(&self, at: usize, end: usize) -> Result<MappingKeys<'t>, SyntaxError> {
        let mut seen = MappingKeys { text: self.text, keys: Vec::new(), places: KeyTable::default() };
        for (key, _) in self.text.tree.entries(at).take_while(|(key, _)| *key < end) {
            if !self.text.is_merge(key) {
                let (name, ty) = self.text.key(key)?;
                if seen.get_mut(&name).is_none() {
                    seen.add(&name, key, ty);
                }
            }
        }
        Ok(seen)
    }

    /// Records a key; returns whether its value counts. Of keys that only print alike Go keeps a random one;
    /// here it is the first.
    fn note(&mut self, at: usize, key: usize, name: &str, ty: KeyType, seen: &mut MappingKeys<'t>) -> bool {
        let Some(first) = seen.get_mut(name) else {
            seen.add(name, key, ty);
            return true;
        };
        let counts = first.ty == ty;
        let (dropped, kept) = if counts { (first.key, key as u32) } else { (key as u32, first.key) };
        if counts {
            first.key = key as u32;
        }
        // Behind an alias, duplicates were recorded where they are written.
        if self.aliases.is_empty() {
            self.twice.push(Twice { mapping: at as u32, dropped, kept });
        }
        counts
    }

    /// Adds the entries of merged mappings to `fields`; the first mapping has priority.
    fn merge(&mut self, at: usize, fields: &mut Fields, depth: usize) -> Result<(), SyntaxError> {
        for part in self.text.merged(at)?.into_iter().rev() {
            let node = self.count(part)?;
            if node.kind == NodeKind::Alias {
                let target = self.follow(part)?;
                self.count(target)?;
                self.mapping(target, fields, depth)?;
                self.aliases.pop();
            } else {
                self.check_depth(&node, depth)?;
                self.mapping(part, fields, depth)?;
            }
        }
        Ok(())
    }
}
