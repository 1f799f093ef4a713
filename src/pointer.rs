//! A place inside one object: a JSON Pointer (RFC 6901) that is also printed the way Kubernetes writes field paths.
//!
//! Rules speak in pointers only. Line and column are looked up once, when a report is made.

use std::borrow::Cow;
use std::fmt;
use std::ops::Div;

use serde_json::Value;

/// One step of a [`Pointer`]: a key of a mapping or an index of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// A key of a mapping.
    Key(Cow<'static, str>),
    /// An index of a list, from 0.
    Index(usize),
}

/// A place inside one object, from its root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Vec<Token>);

/// Fields whose keys are chosen by the author; Kubernetes prints such keys in brackets (`limits[nvidia.com/gpu]`).
const MAPS: [&str; 7] = ["annotations", "labels", "limits", "matchLabels", "nodeSelector", "pytorchReplicaSpecs", "requests"];

impl Pointer {
    /// Returns the pointer to the whole object.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns the pointer that the given keys spell, from the root.
    #[must_use]
    pub fn of(keys: &[&'static str]) -> Self {
        Self(keys.iter().map(|key| Token::Key(Cow::Borrowed(key))).collect())
    }

    /// Reads an RFC 6901 string against `root`, which decides whether a step of digits is an index or a key.
    ///
    /// Steps below a missing place are taken as keys. `-` is not resolved: it stays a key.
    #[must_use]
    pub fn parse(text: &str, root: &Value) -> Option<Self> {
        let mut tokens = Vec::new();
        let mut here = Some(root);
        if text.is_empty() {
            return Some(Self(tokens));
        }
        for step in text.strip_prefix('/')?.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            match (here, step.parse::<usize>()) {
                (Some(Value::Array(items)), Ok(index)) => {
                    here = items.get(index);
                    tokens.push(Token::Index(index));
                }
                _ => {
                    here = here.and_then(|value| value.get(&step));
                    tokens.push(Token::Key(step.into()));
                }
            }
        }
        Some(Self(tokens))
    }

    /// Returns the place of a key that the author chose, below this place.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut tokens = self.0.clone();
        tokens.push(Token::Key(Cow::Owned(key.to_owned())));
        Self(tokens)
    }

    /// Returns the place that `rest` is of the object at this place.
    #[must_use]
    pub fn join(&self, rest: &Self) -> Self {
        Self(self.0.iter().chain(&rest.0).cloned().collect())
    }

    /// Returns the place one step below this place.
    #[must_use]
    pub fn then(mut self, step: Token) -> Self {
        self.0.push(step);
        self
    }

    /// Gives back the memory that is left over from growing.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Returns the steps from the root.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.0
    }

    /// Returns the pointer without its last step, or nothing at the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        Some(Self(rest.to_vec()))
    }

    /// Returns the last step, or nothing at the root.
    #[must_use]
    pub fn last(&self) -> Option<&Token> {
        self.0.last()
    }

    /// Tells whether `self` is `other` or lies inside it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns the value at this place of `root`.
    #[must_use]
    pub fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(root, |value, token| match token {
            Token::Key(key) => value.as_object()?.get(&**key),
            Token::Index(index) => value.as_array()?.get(*index),
        })
    }

    /// Returns the RFC 6901 form, as a JSON Patch carries it (`/spec/template`).
    #[must_use]
    pub fn to_json_pointer(&self) -> String {
        let mut out = String::new();
        for token in &self.0 {
            out.push('/');
            match token {
                Token::Key(key) => out.push_str(&key.replace('~', "~0").replace('/', "~1")),
                Token::Index(index) => out.push_str(&index.to_string()),
            }
        }
        out
    }
}

impl fmt::Display for Pointer {
    /// Writes the path as Kubernetes does in its own errors: `spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parent = "";
        for token in &self.0 {
            match token {
                Token::Index(index) => write!(f, "[{index}]")?,
                Token::Key(key) => {
                    if MAPS.contains(&parent) {
                        write!(f, "[{key}]")?;
                    } else if parent.is_empty() {
                        f.write_str(key)?;
                    } else {
                        write!(f, ".{key}")?;
                    }
                    parent = key;
                }
            }
        }
        Ok(())
    }
}

impl Div<&'static str> for Pointer {
    type Output = Self;
    fn div(mut self, key: &'static str) -> Self {
        self.0.push(Token::Key(key.into()));
        self
    }
}

impl Div<usize> for Pointer {
    type Output = Self;
    fn div(mut self, index: usize) -> Self {
        self.0.push(Token::Index(index));
        self
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
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_like_kubernetes() {
        let pointer = Pointer::of(&["spec", "template", "spec", "containers"]) / 0 / "resources" / "limits" / "nvidia.com/gpu";
        assert_eq!(pointer.to_string(), "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]");
        assert_eq!(pointer.to_json_pointer(), "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu");
        let worker = Pointer::of(&["spec", "pytorchReplicaSpecs", "Worker", "restartPolicy"]);
        assert_eq!(worker.to_string(), "spec.pytorchReplicaSpecs[Worker].restartPolicy");
        assert_eq!(Pointer::root().to_string(), "");
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let root = json!({"a": [{"1": {"b/c~d": true}}]});
        let pointer = Pointer::of(&["a"]) / 0 / "1" / "b/c~d";
        assert_eq!(Pointer::parse(&pointer.to_json_pointer(), &root), Some(pointer.clone()));
        assert_eq!(pointer.find(&root), Some(&json!(true)));
        assert_eq!(Pointer::parse("a", &root), None);
    }

    #[test]
    fn containment_is_by_whole_steps() {
        let spec = Pointer::of(&["spec"]);
        assert!((&spec / "template").is_within(&spec));
        assert!(!Pointer::of(&["specs"]).is_within(&spec));
    }
}
