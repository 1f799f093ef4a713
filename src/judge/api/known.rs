//! Which places findings are about already, so that one mistake is said once.

use std::collections::HashSet;

use super::is_of_image;
use super::validate::{Cause, Reason};
use crate::judge::checks::{API_SERVER, FIELD_TYPE, PLACEHOLDER};
use crate::judge::finding::{Finding, Level};
use crate::judge::fold::{Walk, Way, each_place};
use crate::text::value::Value;

/// A set of places, by their hashes.
#[derive(Default)]
pub(super) struct Places {
    pub(super) places: HashSet<u64>,
    /// What is around them.
    pub(super) around: HashSet<u64>,
}

impl Places {
    pub(super) fn add(&mut self, place: &Walk<'_>) {
        self.places.insert(place.hash());
        for around in place.around().rev() {
            // What is around it is there already.
            if !self.around.insert(around) {
                break;
            }
        }
    }

    pub(super) fn contains(&self, place: &Walk<'_>) -> bool {
        !self.places.is_empty() && self.places.contains(&place.hash())
    }

    /// Tells whether one of the places is at a place, inside it, or around it.
    pub(super) fn has(&self, place: &Walk<'_>) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let at = place.hash();
        self.places.contains(&at)
            || self.around.contains(&at)
            || place.around().any(|around| self.places.contains(&around))
    }
}

/// An index of the findings so far: a hostile object has thousands of causes.
#[derive(Default)]
pub(super) struct Known {
    /// The places of wrong types and placeholders.
    pub(super) unread: Places,
    /// Those of images, on which nothing else depends.
    pub(super) images: Places,
    /// The places of other errors of the API server.
    pub(super) refused: Places,
    pub(super) reported: HashSet<Cause>,
}

impl Known {
    pub(super) fn of(found: &[Finding], object: &Value) -> Self {
        let mut known = Self::default();
        found.iter().for_each(|finding| known.add(finding, object));
        known
    }

    pub(super) fn add(&mut self, finding: &Finding, object: &Value) {
        let places = match &*finding.rule {
            PLACEHOLDER if is_of_image(finding) => &mut self.images,
            FIELD_TYPE | PLACEHOLDER => &mut self.unread,
            API_SERVER => {
                let places = &mut self.refused.places;
                places.reserve(finding.items.as_ref().map_or(1, |items| items.count));
                return each_place(
                    &finding.path,
                    finding.items.as_deref(),
                    (object, Way::Exact),
                    &mut |place| {
                        places.insert(place.hash());
                    },
                );
            }
            _ => return,
        };
        each_place(&finding.path, finding.items.as_deref(), (object, Way::Exact), &mut |place| {
            places.add(place);
        });
    }

    /// Tells whether a cause was reported, or follows from a wrong type, a placeholder or a missing required
    /// field. Of many items, those for which it does are left out.
    pub(super) fn imply(&self, cause: &mut Cause, object: &Value) -> bool {
        if self.reported.contains(cause) {
            return true;
        }
        if [&self.images, &self.unread, &self.refused].iter().all(|places| places.places.is_empty()) {
            return false;
        }
        // If the server names the mapping around a value, go by the value: there may be others in it.
        let is_named = !cause.pointer.is_within(&cause.path);
        // What must not change may be the same once the image is known.
        let is_change = cause.message.ends_with("immutable");
        let is_missing = cause.reason == Reason::Required;
        let is_implied = |pointer: &Walk<'_>, path: &Walk<'_>| {
            self.images.contains(pointer)
                || self.images.contains(path)
                || is_change && self.images.has(pointer)
                || self.unread.has(pointer)
                || is_named && self.unread.has(path)
                || is_missing && self.refused.contains(path)
        };
        let is_one = cause.path == cause.pointer;
        let mut pointer = Walk::new(&cause.pointer, object, Way::Exact);
        let Some(items) = &cause.items else {
            let mut implied = false;
            pointer.go(&[], 0);
            each_place(&cause.path, None, (object, Way::Exact), &mut |path| {
                implied = is_implied(&pointer, path);
            });
            return implied;
        };
        let kept = items.kept(&cause.path, (object, Way::Exact), &mut |path, item, shared| {
            if is_one {
                return !is_implied(path, path);
            }
            pointer.go(item, shared);
            !is_implied(&pointer, path)
        });
        cause.keep(kept)
    }
}

/// Leaves only those items to a finding of which a condition holds; tells whether some are left.
pub(super) fn keep_items(
    finding: &mut Finding,
    object: &Value,
    wants: &mut dyn FnMut(&Walk<'_>) -> bool,
) -> bool {
    let here = (object, Way::Exact);
    let Some(items) = &finding.items else {
        let mut wanted = false;
        each_place(&finding.path, None, here, &mut |place| wanted = wants(place));
        return wanted;
    };
    let count = items.count;
    let Some((items, path)) = items.kept(&finding.path, here, &mut |place, _, _| wants(place)) else {
        return false;
    };
    if items.count < count {
        finding.pointer = items.of_first(&path, &finding.pointer);
        finding.path = path;
        finding.fix = None;
        finding.items = Some(Box::new(items));
    }
    true
}

/// Removes findings about places that others deny: a rule has the better message.
pub(crate) fn prefer_denials(findings: &[Finding], refused: &mut Vec<Finding>, object: &Value) {
    let mut denied = Places::default();
    for finding in findings.iter().filter(|finding| finding.level == Level::Deny) {
        each_place(&finding.path, finding.items.as_deref(), (object, Way::Exact), &mut |place| {
            denied.add(place);
        });
    }
    refused.retain_mut(|refusal| {
        let left = keep_items(refusal, object, &mut |place| !denied.contains(place));
        refusal.tell_items();
        left
    });
}
