//! The places of findings so far, so that one mistake is reported once.

use std::borrow::Cow;
use std::collections::HashSet;

use super::is_of_image;
use super::validate::{Cause, Reason};
use crate::judge::checks::{API_SERVER, FIELD_TYPE, PLACEHOLDER};
use crate::judge::finding::{Finding, Level};
use crate::judge::fold::{Hashes, ItemWalk, Items, Way, each_place, mix, mix_key};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// A set of places, by their hashes. Places are looked up only once a query may concern them: a finding may be
/// about hundreds of thousands.
#[derive(Default)]
pub(super) struct PlaceSet {
    groups: Vec<PlaceGroup>,
    places: Hashes,
    /// The hashes of the places around them.
    around: Hashes,
    /// Their depths as a bit set: most places around a queried one need no lookup.
    depths: u128,
}

/// Places that differ only in the items of lists, as far as their [`Prefixes`] show.
struct PlaceGroup {
    path: Prefixes,
    /// The places that are not looked up yet.
    waiting: Vec<(Pointer, Option<Box<Items>>)>,
}

/// The hashes of a path and of the places around it, root first; all items of a list have the same hash. It ends
/// before the first key of the author, which may be a key of the API elsewhere.
struct Prefixes {
    hashes: Vec<u64>,
    is_whole: bool,
}

impl Prefixes {
    fn new(path: &Pointer) -> Self {
        let mut prefixes = Self { hashes: vec![0], is_whole: true };
        let mut here = 0;
        for token in path.tokens() {
            here = match token {
                Token::Index(_) => mix(here, 0),
                Token::Key(Cow::Borrowed(key)) => mix_key(here, key),
                Token::Key(Cow::Owned(_)) => {
                    prefixes.is_whole = false;
                    break;
                }
            };
            prefixes.hashes.push(here);
        }
        prefixes
    }

    /// Tells whether a place of one path may be a place of the other, or inside one.
    fn may_share(&self, other: &Self) -> bool {
        let last = self.hashes.len().min(other.hashes.len()) - 1;
        self.hashes[last] == other.hashes[last]
    }

    /// Tells whether the two paths may have a place in common.
    fn may_be(&self, other: &Self) -> bool {
        let is_as_long = !self.is_whole || !other.is_whole || self.hashes.len() == other.hashes.len();
        is_as_long && self.may_share(other)
    }
}

impl PlaceSet {
    /// Adds the places of a finding.
    fn add(&mut self, path: &Pointer, items: Option<&Items>) {
        let prefixes = Prefixes::new(path);
        let is_same = |group: &&mut PlaceGroup| {
            group.path.is_whole == prefixes.is_whole && group.path.hashes == prefixes.hashes
        };
        let waiting = (path.clone(), items.map(|items| Box::new(items.clone())));
        match self.groups.iter_mut().find(is_same) {
            Some(group) => group.waiting.push(waiting),
            None => self.groups.push(PlaceGroup { path: prefixes, waiting: vec![waiting] }),
        }
    }

    /// Looks up the places that may be at, in or around a place of a path, or only at one; tells whether there
    /// may be any.
    fn may_have(&mut self, path: &Pointer, only_at: bool, object: &Value) -> bool {
        if self.groups.is_empty() {
            return false;
        }
        let prefixes = Prefixes::new(path);
        let (mut may_have, mut groups) = (false, std::mem::take(&mut self.groups));
        for group in &mut groups {
            let may = if only_at { group.path.may_be(&prefixes) } else { group.path.may_share(&prefixes) };
            if !may {
                continue;
            }
            may_have = true;
            for (path, items) in group.waiting.drain(..) {
                self.places.reserve(items.as_ref().map_or(1, |items| items.count));
                each_place(&path, items.as_deref(), (object, Way::Exact), &mut |place| self.look_up(place));
            }
        }
        self.groups = groups;
        may_have
    }

    fn look_up(&mut self, place: &ItemWalk<'_>) {
        self.places.insert(place.hash());
        self.depths |= depth(place.depth());
        for around in place.around().rev() {
            // Then the places further out are known, too.
            if !self.around.insert(around) {
                break;
            }
        }
    }

    fn contains(&self, place: &ItemWalk<'_>) -> bool {
        self.depths & depth(place.depth()) != 0 && self.places.contains(&place.hash())
    }

    /// Tells whether one of the places is at a place, inside it, or around it.
    fn has(&self, place: &ItemWalk<'_>) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let mut around = place.around().enumerate().filter(|(nth, _)| self.depths & depth(*nth) != 0);
        self.contains(place)
            || self.around.contains(&place.hash())
            || around.any(|(_, around)| self.places.contains(&around))
    }
}

/// Returns the bit of a depth.
fn depth(steps: usize) -> u128 {
    1 << steps.min(127)
}

/// An index of the findings so far: a hostile object has thousands of causes.
#[derive(Default)]
pub(super) struct KnownPlaces {
    /// The places of wrong types and placeholders.
    pub(super) unread: PlaceSet,
    /// The places of images, on which nothing else depends.
    pub(super) images: PlaceSet,
    /// The places of other errors of the API server.
    pub(super) refused: PlaceSet,
    pub(super) reported: HashSet<Cause>,
}

impl KnownPlaces {
    pub(super) fn new(found: &[Finding]) -> Self {
        let mut known = Self::default();
        found.iter().for_each(|finding| known.add(finding));
        known
    }

    pub(super) fn add(&mut self, finding: &Finding) {
        let places = match &*finding.rule {
            PLACEHOLDER if is_of_image(finding) => &mut self.images,
            FIELD_TYPE | PLACEHOLDER => &mut self.unread,
            API_SERVER => &mut self.refused,
            _ => return,
        };
        places.add(&finding.path, finding.items.as_deref());
    }

    /// Tells whether a cause was reported, or follows from a wrong type, a placeholder or a missing required
    /// field. Drops those of many items for which it does.
    pub(super) fn imply(&mut self, cause: &mut Cause, object: &Value) -> bool {
        if self.reported.contains(cause) {
            return true;
        }
        let is_one = cause.path == cause.pointer;
        // If the server names the mapping around a value, go by the value: there may be others in it.
        let is_named = !cause.pointer.is_within(&cause.path);
        // An immutable field may turn out unchanged once the image is known.
        let is_change = cause.message.ends_with("immutable");
        let is_missing = cause.reason == Reason::Required;
        let (path, pointer) = (&cause.path, &cause.pointer);
        let may = |places: &mut PlaceSet, only_at: bool| {
            let at = places.may_have(path, only_at, object);
            at | (!is_one && places.may_have(pointer, only_at, object))
        };
        let may_follow = may(&mut self.images, false)
            | may(&mut self.unread, false)
            | (is_missing && self.refused.may_have(path, true, object));
        if !may_follow {
            return false;
        }
        let is_implied = |pointer: &ItemWalk<'_>, path: &ItemWalk<'_>| {
            self.images.contains(pointer)
                || self.images.contains(path)
                || is_change && self.images.has(pointer)
                || self.unread.has(pointer)
                || is_named && self.unread.has(path)
                || is_missing && self.refused.contains(path)
        };
        let mut pointer = ItemWalk::new(&cause.pointer, object, Way::Exact);
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

/// Keeps only the items of a finding that meet a condition; tells whether any are left.
pub(super) fn keep_items(
    finding: &mut Finding,
    object: &Value,
    wants: &mut dyn FnMut(&ItemWalk<'_>) -> bool,
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

/// Removes findings about places that other findings deny: a rule has the better message.
pub fn prefer_denials(findings: &[Finding], refused: &mut Vec<Finding>, object: &Value) {
    let mut denied = PlaceSet::default();
    for finding in findings.iter().filter(|finding| finding.level == Level::Deny) {
        denied.add(&finding.path, finding.items.as_deref());
    }
    refused.retain_mut(|refusal| {
        let left = !denied.may_have(&refusal.path, true, object)
            || keep_items(refusal, object, &mut |place| !denied.contains(place));
        refusal.tell_items();
        left
    });
}
