//! What objects of all kinds have.

use std::borrow::Cow;

use super::time::Time;

/// What becomes of the objects that a deleted object made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub sort: &'static str,
    /// Whether `status` is `True`.
    pub is_true: bool,
    /// `reason`.
    pub reason: Cow<'static, str>,
    /// `message`.
    pub message: String,
    /// `lastTransitionTime`, before it is cut to the second.
    pub at: Time,
}
