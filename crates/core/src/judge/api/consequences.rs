//! Causes that follow from a reported problem elsewhere: the API server does not see an invalid volume, and a
//! placeholder may be the name that it looks for.

use std::collections::{HashMap, HashSet};

use super::validate::{Cause, NO_CONTAINER, NOT_INDEXED, Reason};
use crate::judge::fold::{ItemWalk, Way, each_place};
use crate::text::meter;
use crate::text::placeholder::{is_placeholder, is_to_replace};
use crate::text::pointer::Token;
use crate::text::value::Value;

/// Steps from a reference up to the value that has both lists: `containers[0].volumeMounts[0].name`,
/// `containers[0].resources.claims[0]`, `podFailurePolicy.rules[0].onExitCodes.containerName`.
const STEPS: usize = 5;

/// The kind of item that a place refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Refers {
    /// A volume of the pod.
    Volume,
    /// A resource claim of the pod.
    Claim,
    /// A container of the pod template.
    Container,
}

impl Refers {
    fn new(cause: &Cause) -> Option<Self> {
        let tokens = cause.pointer.tokens();
        let is = |back: usize, keys: &[&str]| {
            let at = tokens.len().checked_sub(back).and_then(|at| tokens.get(at));
            matches!(at, Some(Token::Key(key)) if keys.contains(&&**key))
        };
        match cause.reason {
            Reason::NotFound if is(1, &["name"]) && is(3, &["volumeMounts", "volumeDevices"]) => {
                Some(Self::Volume)
            }
            Reason::NotFound if is(2, &["claims"]) && is(3, &["resources"]) => Some(Self::Claim),
            Reason::Invalid if is(1, &["containerName"]) && cause.message.ends_with(NO_CONTAINER) => {
                Some(Self::Container)
            }
            _ => None,
        }
    }
}

/// The names in the lists that places refer to.
#[derive(Default)]
struct ReferredNames<'o> {
    known: HashSet<&'o str>,
    /// Whether there may be other names, because of a placeholder or a wrong type.
    open: bool,
}

impl<'o> ReferredNames<'o> {
    fn add(&mut self, list: Option<&'o Value>) {
        let items = match list {
            None | Some(Value::Null) => return,
            Some(Value::Array(items)) => items,
            // The wrong type is reported elsewhere.
            Some(_) => {
                self.open = true;
                return;
            }
        };
        for item in items {
            meter::spend(1);
            match item.get("name") {
                Some(Value::String(name)) => {
                    self.open |= is_placeholder(name) || is_to_replace(name);
                    self.known.insert(name);
                }
                None | Some(Value::Null) => self.open |= !item.is_object(),
                Some(_) => self.open = true,
            }
        }
    }
}

/// The names read from the lists of an object, cached.
#[derive(Default)]
pub(super) struct Consequence<'o> {
    lists: HashMap<(*const Value, Refers), ReferredNames<'o>>,
}

impl<'o> Consequence<'o> {
    /// Tells whether a cause follows from an error or a placeholder elsewhere. Drops those of many items for
    /// which it does.
    pub(super) fn imply(&mut self, cause: &mut Cause, object: &'o Value) -> bool {
        if cause.reason == Reason::Invalid && cause.message.ends_with(NOT_INDEXED) {
            let around = cause.pointer.parent().unwrap_or_default();
            let mode = around.key("completionMode").find(object).and_then(Value::as_str);
            return mode.is_some_and(|mode| is_placeholder(mode) || is_to_replace(mode));
        }
        let Some(refers) = Refers::new(cause) else { return false };
        let here = (object, Way::Exact);
        let Some(items) = &cause.items else {
            let mut follows = false;
            each_place(&cause.pointer, None, here, &mut |place| follows = self.has(refers, place));
            return follows;
        };
        let kept = items.kept(&cause.path, here, &mut |place, _, _| !self.has(refers, place));
        cause.keep(kept)
    }

    fn has(&mut self, refers: Refers, place: &ItemWalk<'o>) -> bool {
        let Some(around) = place.above(STEPS) else { return false };
        let names = self.lists.entry((std::ptr::from_ref(around), refers)).or_insert_with(|| {
            let mut names = ReferredNames::default();
            match refers {
                Refers::Volume => names.add(around.get("volumes")),
                Refers::Claim => names.add(around.get("resourceClaims")),
                Refers::Container => {
                    let pod = around.get("template").and_then(|template| template.get("spec"));
                    for list in ["containers", "initContainers"] {
                        names.add(pod.and_then(|pod| pod.get(list)));
                    }
                }
            }
            names
        });
        let is_there = || place.here().and_then(Value::as_str).is_some_and(|name| names.known.contains(name));
        names.open || refers == Refers::Volume && is_there()
    }
}
