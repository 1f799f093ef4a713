//! One operation of a patch.

use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// One RFC 6902 operation, in the subset that means the same to every JSON Patch engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Sets a key of an existing mapping, or inserts into an existing list before the index (the length
    /// appends).
    Add(Pointer, Value),
    /// Puts another value in the place of an existing one.
    Replace(Pointer, Value),
    /// Takes an existing value out.
    Remove(Pointer),
}

impl Op {
    /// Returns the place that the operation changes.
    #[must_use]
    pub fn pointer(&self) -> &Pointer {
        match self {
            Self::Add(pointer, _) | Self::Replace(pointer, _) | Self::Remove(pointer) => pointer,
        }
    }

    /// Returns the same operation on the value at a place, which the operation's own place lies in; nothing
    /// if it does not.
    #[must_use]
    pub fn below(&self, around: &Pointer) -> Option<Self> {
        let place = self.pointer().below(around)?;
        Some(match self {
            Self::Add(_, value) => Self::Add(place, value.clone()),
            Self::Replace(_, value) => Self::Replace(place, value.clone()),
            Self::Remove(_) => Self::Remove(place),
        })
    }

    /// Makes an operation on an object one on the document in which the object stands at a place.
    pub fn move_below(&mut self, at: &Pointer) {
        match self {
            Self::Add(pointer, _) | Self::Replace(pointer, _) | Self::Remove(pointer) => {
                *pointer = at.join(pointer);
            }
        }
    }
}
