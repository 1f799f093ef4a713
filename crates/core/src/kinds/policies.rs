//! Lifecycle policies: lists of what an operator does after an event.

use super::field::{Field, Part, text_in};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// The event of a policy that is for all events.
const ANY: &str = "*";

/// One policy of an object, or of one of its tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifecyclePolicy<'a> {
    /// The policy.
    value: &'a Value,
    /// Its index in the list.
    index: usize,
}

impl<'a> LifecyclePolicy<'a> {
    /// Returns the policies of a list. They have no pointers: there may be hundreds of thousands.
    pub(crate) fn all_in(list: &Part<'a>) -> impl Iterator<Item = Self> + Clone + use<'a> {
        let items = list.values().iter().enumerate().inspect(|_| meter::spend(1));
        items.map(|(index, value)| Self { value, index })
    }

    /// Returns a field, for findings. `list` is the one that it is in.
    pub(crate) fn field(&self, list: &Part<'a>, key: &'static str) -> Part<'a> {
        Part { pointer: &list.pointer / self.index, value: Some(self.value) }.get(key)
    }

    /// Returns the policy itself, likewise.
    pub(crate) fn part(&self, list: &Part<'a>) -> Part<'a> {
        Part { pointer: &list.pointer / self.index, value: Some(self.value) }
    }

    /// Returns the events that it names: those of `event` and of `events`.
    pub(crate) fn events(&self) -> impl Iterator<Item = Field<'a, &'a str>> + use<'a> {
        let more = Part { pointer: Pointer::root(), value: self.value.get("events") };
        let one = Some(text_in(self.value, "event")).filter(|event| *event != Field::Unset);
        one.into_iter().chain(more.items().map(|event| event.text()))
    }

    /// Tells whether it is for any of some events, or may be.
    pub(crate) fn is_for(&self, events: &[&str]) -> bool {
        self.events().any(|event| match event {
            Field::Set(event) => events.contains(&event),
            field => matches!(field, Field::Placeholder(_)),
        })
    }

    /// Tells whether it is for an event, or for all.
    pub(crate) fn covers(&self, event: &str) -> bool {
        self.is_for(&[event, ANY])
    }

    /// Tells whether it certainly is for some of these events, and for no other.
    pub(crate) fn is_only_for(&self, events: &[&str]) -> bool {
        let mut named = self.events().peekable();
        named.peek().is_some()
            && named.all(|event| matches!(event, Field::Set(event) if events.contains(&event)))
    }

    /// Returns what is done; nothing if that is not set, or hidden.
    pub(crate) fn action(&self) -> Option<&'a str> {
        text_in(self.value, "action").set()
    }

    /// Tells whether it is for an exit code.
    pub(crate) fn has_exit_code(&self) -> bool {
        self.value.get("exitCode").is_some_and(|code| !code.is_null())
    }

    /// Tells whether what is done waits for a time.
    pub(crate) fn waits(&self) -> bool {
        !matches!(text_in(self.value, "timeout"), Field::Unset | Field::Set("" | "0" | "0s"))
    }
}
