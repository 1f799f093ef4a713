//! A place in an object: a JSON Pointer (RFC 6901) that prints as a Kubernetes field path.
//!
//! Rules use pointers only. Lines and columns are looked up for the report.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Div;
use std::sync::Arc;

use crate::lines::{character_at, cut};
use crate::meter;
use crate::value::Value;

/// One step of a [`Pointer`]: a key of a mapping or an index of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// A key of a mapping.
    Key(Cow<'static, str>),
    /// An index of a list, from 0.
    Index(usize),
}

impl Token {
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Key(key) => value.as_object()?.get(key),
            Self::Index(index) => value.as_array()?.get(*index),
        }
    }
}

/// A place in an object.
///
/// Rules make a pointer for every field they read, and print few. So a pointer is its last step and a shared
/// pointer to the steps before: a step down is one small allocation, a clone none.
#[derive(Clone, Default)]
pub struct Pointer(Option<Arc<PointerStep>>);

/// The last step of a pointer that is not the root.
struct PointerStep {
    before: Pointer,
    token: Token,
    /// Steps from the root, this one included.
    depth: usize,
}

/// Tells whether a field has keys chosen by the author, which Kubernetes prints in brackets
/// (`limits[nvidia.com/gpu]`).
fn is_map(field: &str) -> bool {
    const MAPS: [&str; 6] = ["annotations", "labels", "limits", "matchLabels", "nodeSelector", "requests"];
    MAPS.contains(&field) || field.ends_with("ReplicaSpecs")
}

impl Pointer {
    /// Returns the pointer to the whole object.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns the pointer with the given keys.
    #[must_use]
    pub fn new(keys: &[&'static str]) -> Self {
        keys.iter().fold(Self::root(), |pointer, key| pointer / *key)
    }

    /// Parses an RFC 6901 string. `root` decides whether a step of digits is an index or a key.
    ///
    /// Steps below a missing place are keys, and so is `-`.
    #[must_use]
    pub fn parse(text: &str, root: &Value) -> Option<Self> {
        let mut pointer = Self::root();
        let mut here = Some(root);
        if text.is_empty() {
            return Some(pointer);
        }
        for step in text.strip_prefix('/')?.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            match (here, step.parse::<usize>()) {
                (Some(Value::Array(items)), Ok(index)) => {
                    here = items.get(index);
                    pointer = pointer / index;
                }
                _ => {
                    here = here.and_then(|value| value.get(&step));
                    pointer = pointer.then(Token::Key(step.into()));
                }
            }
        }
        Some(pointer)
    }

    /// Returns the place of a key chosen by the author, below this place.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.clone().then(Token::Key(Cow::Owned(key.to_owned())))
    }

    /// Returns the place `rest` below this place.
    #[must_use]
    pub fn join(&self, rest: &Self) -> Self {
        rest.tokens().into_iter().cloned().fold(self.clone(), Self::then)
    }

    /// Returns the same place, sharing its first steps with another one as far as they are equal, so that many
    /// kept places have their common steps in memory once.
    #[must_use]
    pub fn sharing(&self, other: &Self) -> Self {
        let (steps, others) = (self.tokens(), other.tokens());
        let same = steps.iter().zip(&others).take_while(|(step, other)| step == other).count();
        let shared = (same..others.len()).fold(other.clone(), |place, _| place.parent().unwrap_or_default());
        steps.into_iter().skip(same).cloned().fold(shared, Self::then)
    }

    /// Returns the place one step below this place.
    #[must_use]
    pub fn then(self, token: Token) -> Self {
        let depth = self.depth() + 1;
        Self(Some(Arc::new(PointerStep { before: self, token, depth })))
    }

    /// Returns the number of steps from the root.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |step| step.depth)
    }

    /// Tells whether it is the pointer to the whole object.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the steps from the root.
    #[must_use]
    pub fn tokens(&self) -> Vec<&Token> {
        let mut tokens = Vec::with_capacity(self.depth());
        tokens.extend(self.steps().map(|step| &step.token));
        tokens.reverse();
        tokens
    }

    /// Returns the steps from the last one up.
    fn steps(&self) -> impl Iterator<Item = &PointerStep> {
        std::iter::successors(self.0.as_deref(), |step| step.before.0.as_deref())
    }

    /// Returns the pointer without its last step, or nothing at the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.as_ref().map(|step| step.before.clone())
    }

    /// Returns the last step, or nothing at the root.
    #[must_use]
    pub fn last(&self) -> Option<&Token> {
        self.0.as_ref().map(|step| &step.token)
    }

    /// Tells whether `self` is `other` or inside it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        meter::spend(1);
        let Some(deeper) = self.depth().checked_sub(other.depth()) else { return false };
        // Above a shared step they are equal.
        self.steps()
            .skip(deeper)
            .zip(other.steps())
            .take_while(|(here, there)| !std::ptr::eq(*here, *there))
            .all(|(here, there)| here.token == there.token)
    }

    /// Returns the steps from a place around this one; nothing if this is not inside it.
    #[must_use]
    pub fn below(&self, around: &Self) -> Option<Self> {
        self.is_within(around)
            .then(|| self.tokens().into_iter().skip(around.depth()).cloned().fold(Self::root(), Self::then))
    }

    /// Returns the value at this place of `root`.
    #[must_use]
    pub fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.tokens().into_iter().try_fold(root, |value, token| token.find(value))
    }

    /// Returns the place itself, or the nearest place around it that exists in `root`. `null` exists.
    #[must_use]
    pub fn nearest(&self, root: &Value) -> Self {
        let mut here = root;
        let there = self.tokens().into_iter().map_while(|token| {
            here = token.find(here)?;
            Some(())
        });
        let missing = self.depth() - there.count();
        (0..missing).fold(self.clone(), |place, _| place.parent().unwrap_or_default())
    }

    /// Returns the printed path with list items by their names in `root` (`containers[trainer].image`), so
    /// that it stays the same when other items are inserted. Nothing if no item on the path has a name.
    #[must_use]
    pub fn by_name(&self, root: &Value) -> Option<Box<str>> {
        if !self.steps().any(|step| matches!(step.token, Token::Index(_))) {
            return None;
        }
        let mut names = Vec::new();
        let mut here = Some(root);
        for token in self.tokens() {
            here = match token {
                Token::Key(key) => here.and_then(|value| value.as_object()?.get(key)),
                Token::Index(index) => {
                    let item = here.and_then(|value| value.as_array()?.get(*index));
                    names.push(item.and_then(|item| item.get("name")?.as_str()));
                    item
                }
            };
        }
        if !names.iter().any(Option::is_some) {
            return None;
        }
        Some(self.with_names(&names).into())
    }

    /// Returns the printed path with these names for its list items, where there are any.
    #[must_use]
    pub fn with_names(&self, names: &[Option<&str>]) -> String {
        let mut out = String::new();
        self.write(&mut out, usize::MAX, |nth| names.get(nth).copied().flatten());
        out
    }

    /// Writes the path up to about `limit` bytes; `name` returns the name of the nth list item on the path.
    fn write<'n>(&self, out: &mut String, limit: usize, name: impl Fn(usize) -> Option<&'n str>) {
        let (mut parent, mut items) = ("", 0);
        let start = |key: &str| character_at(key, limit.saturating_add(1));
        for token in self.tokens() {
            if out.len() > limit {
                return;
            }
            match token {
                Token::Index(index) => {
                    out.push('[');
                    match name(items) {
                        Some(name) => out.push_str(name),
                        None => out.push_str(&index.to_string()),
                    }
                    out.push(']');
                    items += 1;
                }
                Token::Key(key) if is_map(parent) => {
                    out.push('[');
                    out.push_str(&key[..start(key)]);
                    out.push(']');
                    parent = key;
                }
                Token::Key(key) => {
                    if !parent.is_empty() {
                        out.push('.');
                    }
                    out.push_str(&key[..start(key)]);
                    parent = key;
                }
            }
        }
    }

    /// Returns the path as it is [printed](fmt::Display).
    #[must_use]
    pub fn to_path(&self) -> String {
        self.to_path_within(usize::MAX)
    }

    /// Returns the [path](Self::to_path) up to about `limit` bytes: a key may be as long as the object.
    #[must_use]
    pub fn to_path_within(&self, limit: usize) -> String {
        let mut out = String::with_capacity(64);
        self.write(&mut out, limit, |_| None);
        out
    }

    /// Returns the RFC 6901 form (`/spec/template`).
    #[must_use]
    pub fn to_json_pointer(&self) -> String {
        let mut out = String::with_capacity(64);
        for token in self.tokens() {
            out.push('/');
            match token {
                Token::Key(key) if memchr::memchr2(b'~', b'/', key.as_bytes()).is_some() => {
                    for char in key.chars() {
                        match char {
                            '~' => out.push_str("~0"),
                            '/' => out.push_str("~1"),
                            other => out.push(other),
                        }
                    }
                }
                Token::Key(key) => out.push_str(key),
                Token::Index(index) => out.push_str(&index.to_string()),
            }
        }
        out
    }
}

impl fmt::Display for Pointer {
    /// Writes the first 1,024 bytes of the path, as Kubernetes does in errors:
    /// `spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Many messages may have the same key in their path, which may be as long as the object.
        f.write_str(&cut(&self.to_path_within(MAX_PRINTED_BYTES), MAX_PRINTED_BYTES, "…"))
    }
}

/// The longest path that is printed, in bytes. The longest of Kubernetes' own are about 200.
const MAX_PRINTED_BYTES: usize = 1024;

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pointer").field(&self.to_json_pointer()).finish()
    }
}

impl PartialEq for Pointer {
    fn eq(&self, other: &Self) -> bool {
        self.depth() == other.depth() && self.is_within(other)
    }
}

impl Eq for Pointer {}

impl PartialOrd for Pointer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pointer {
    /// Compares step by step from the root; a place sorts before those inside it.
    fn cmp(&self, other: &Self) -> Ordering {
        meter::spend(1);
        let (ours, theirs) = (self.depth(), other.depth());
        let common = ours.min(theirs);
        // The last difference on the way up is the first on the way down; above a shared step there is none.
        let pairs = self.steps().skip(ours - common).zip(other.steps().skip(theirs - common));
        let differing = pairs
            .take_while(|(here, there)| !std::ptr::eq(*here, *there))
            .map(|(here, there)| here.token.cmp(&there.token));
        differing.filter(|order| order.is_ne()).last().unwrap_or_else(|| ours.cmp(&theirs))
    }
}

impl Hash for Pointer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.depth().hash(state);
        self.steps().for_each(|step| step.token.hash(state));
    }
}

impl Drop for Pointer {
    /// Drops the steps one by one: a pointer from outside may be too deep for recursion.
    fn drop(&mut self) {
        let mut last = self.0.take();
        while let Some(step) = last.and_then(Arc::into_inner) {
            let mut before = step.before;
            last = before.0.take();
        }
    }
}

impl Div<&'static str> for Pointer {
    type Output = Self;
    fn div(self, key: &'static str) -> Self {
        self.then(Token::Key(Cow::Borrowed(key)))
    }
}

impl Div<usize> for Pointer {
    type Output = Self;
    fn div(self, index: usize) -> Self {
        self.then(Token::Index(index))
    }
}

impl Div<&'static str> for &Pointer {
    type Output = Pointer;
    fn div(self, key: &'static str) -> Pointer {
        self.clone() / key
    }
}

impl Div<usize> for &Pointer {
    type Output = Pointer;
    fn div(self, index: usize) -> Pointer {
        self.clone() / index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    #[test]
    fn prints_like_kubernetes() {
        let pointer = Pointer::new(&["spec", "template", "spec", "containers"])
            / 0
            / "resources"
            / "limits"
            / "nvidia.com/gpu";
        assert_eq!(pointer.to_string(), "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]");
        assert_eq!(
            pointer.to_json_pointer(),
            "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu"
        );
        let worker = Pointer::new(&["spec", "pytorchReplicaSpecs", "Worker", "restartPolicy"]);
        assert_eq!(worker.to_string(), "spec.pytorchReplicaSpecs[Worker].restartPolicy");
        assert_eq!(Pointer::root().to_string(), "");
    }

    #[test]
    fn places_that_are_kept_share_their_steps() {
        let of = |keys: &[&'static str]| Pointer::new(keys);
        let there = of(&["spec", "template"]) / 0 / "name";
        for place in [
            of(&[]),
            of(&["spec"]),
            of(&["spec", "template"]) / 0 / "image",
            of(&["spec", "template"]) / 1,
            of(&["status"]),
            there.clone(),
            &there / "x",
        ] {
            let shared = place.sharing(&there);
            assert_eq!(shared, place);
            let both = shared.steps().filter(|step| there.steps().any(|other| std::ptr::eq(*step, other)));
            let same = place.tokens().into_iter().zip(there.tokens()).take_while(|(a, b)| a == b);
            assert_eq!(both.count(), same.count(), "{place}");
        }
    }

    #[test]
    fn items_are_called_by_their_names() {
        let root = json!({"spec": {"containers": [{"name": "a", "ports": [{"name": 5}, {"name": "http"}]}]}});
        let containers = Pointer::new(&["spec", "containers"]);
        let named = |pointer: Pointer| pointer.by_name(&root).map(String::from);
        assert_eq!(
            named(&containers / 0 / "ports" / 1 / "x"),
            Some("spec.containers[a].ports[http].x".to_owned())
        );
        assert_eq!(named(&containers / 0 / "ports" / 0), Some("spec.containers[a].ports[0]".to_owned()));
        assert_eq!((named(&containers / 7 / "x"), named(containers)), (None, None));
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let root = json!({"a": [{"1": {"b/c~d": true}}]});
        let pointer = Pointer::new(&["a"]) / 0 / "1" / "b/c~d";
        assert_eq!(Pointer::parse(&pointer.to_json_pointer(), &root), Some(pointer.clone()));
        assert_eq!(pointer.find(&root), Some(&json!(true)));
        assert_eq!(Pointer::parse("a", &root), None);
    }

    #[test]
    fn the_nearest_place_exists() {
        let root = json!({"a": [{"b": null}]});
        let item = Pointer::new(&["a"]) / 0;
        assert_eq!((&item / "b").nearest(&root), &item / "b");
        assert_eq!((&item / "b" / "c").nearest(&root), &item / "b");
        assert_eq!((&item / "c" / 1 / "d").nearest(&root), item);
        assert_eq!((Pointer::new(&["a"]) / "0").nearest(&root), Pointer::new(&["a"]));
        assert_eq!(Pointer::new(&["x", "y"]).nearest(&root), Pointer::root());
    }

    #[test]
    fn containment_is_by_whole_steps() {
        let spec = Pointer::new(&["spec"]);
        assert!((&spec / "template").is_within(&spec));
        assert!(!Pointer::new(&["specs"]).is_within(&spec));
    }

    #[test]
    fn order_is_that_of_the_steps_from_the_root() {
        let spec = Pointer::new(&["spec"]);
        let sorted = [
            Pointer::root(),
            Pointer::new(&["metadata", "name"]),
            spec.clone(),
            &spec / 2,
            &spec / 10,
            &spec / "a" / "z",
            &spec / "b",
        ];
        // A key comes before an index, as `Token` has it.
        let mut shuffled: Vec<Pointer> = sorted.iter().rev().cloned().collect();
        shuffled.sort();
        let tokens = |pointers: &[Pointer]| {
            pointers
                .iter()
                .map(|pointer| pointer.tokens().into_iter().cloned().collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let mut expected = tokens(&sorted);
        expected.sort();
        assert_eq!(tokens(&shuffled), expected);
    }

    #[test]
    fn equal_places_are_equal_however_they_were_made() {
        let one = Pointer::new(&["spec", "template"]);
        let other = Pointer::root().key("spec").key("template");
        assert_eq!(one, other);
        assert!(one.is_within(&other) && other.is_within(&one));
        assert_eq!(std::collections::HashSet::from([one.clone(), other]).len(), 1);
        assert_ne!(one, &one / 0);
        assert_eq!((&one / 0).parent(), Some(one.clone()));
        assert_eq!(one.join(&Pointer::new(&["spec"])).below(&one), Some(Pointer::new(&["spec"])));
        assert_eq!(one.below(&Pointer::new(&["status"])), None);
    }

    #[test]
    fn a_pointer_may_be_deeper_than_the_stack() {
        let root = json!({});
        let deep = Pointer::parse(&"/a".repeat(1_000_000), &root).unwrap();
        let copy = deep.clone();
        assert_eq!((copy.depth(), deep.find(&root)), (1_000_000, None));
    }
}
