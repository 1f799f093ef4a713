//! One operation of a patch.

use crate::pointer::Pointer;
use crate::value::Value;

/// An RFC 6902 operation that works the same in every JSON Patch engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Sets a key of a mapping, or inserts into a list before the index (the length appends).
    Add(Pointer, Value),
    /// Replaces an existing value.
    Replace(Pointer, Value),
    /// Removes an existing value.
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

    /// Returns the operation relative to a place around it; nothing if it is not inside that place.
    #[must_use]
    pub fn below(&self, around: &Pointer) -> Option<Self> {
        self.pointer().below(around).map(|place| self.moved_to(place))
    }

    /// Returns the operation at another place.
    #[must_use]
    pub(crate) fn moved_to(&self, place: Pointer) -> Self {
        match self {
            Self::Add(_, value) => Self::Add(place, value.clone()),
            Self::Replace(_, value) => Self::Replace(place, value.clone()),
            Self::Remove(_) => Self::Remove(place),
        }
    }

    /// Moves the operation below a place.
    pub fn move_below(&mut self, at: &Pointer) {
        match self {
            Self::Add(pointer, _) | Self::Replace(pointer, _) | Self::Remove(pointer) => {
                *pointer = at.join(pointer);
            }
        }
    }
}
