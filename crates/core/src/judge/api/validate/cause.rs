//! The API server's validation errors.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::object_part::ObjectPart;
use crate::judge::api::stored_object::Stored;
use crate::judge::fold::{self, FoldableProblem, Folded, Items};
use crate::k8s::go::quoted;
use crate::text::hash;
use crate::text::meter;
use crate::text::pointer::Pointer;

/// The reason of a [`Cause`], as in `details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    /// A required value is missing.
    Required,
    /// A value is invalid.
    Invalid,
    /// A value is not one of the supported ones.
    NotSupported,
    /// A field must not be set.
    Forbidden,
    /// A value refers to something that does not exist.
    NotFound,
    /// A value is a duplicate.
    Duplicate,
    /// A string is too long.
    TooLong,
    /// A list is too long.
    TooMany,
}

impl Reason {
    /// Returns the start of the message.
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One reason why the API server rejects an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where to fix it. It need not exist.
    pub(crate) pointer: Pointer,
    /// The field that the server names, which may not be a field of the object.
    pub path: Pointer,
    /// The reason.
    pub(crate) reason: Reason,
    /// The server's message, without the field: `Required value: valid values: "OnFailure", "Never"`.
    pub message: String,
    /// The items of a list that it is about, if there are many.
    pub(crate) items: Option<Box<Items>>,
}

impl Cause {
    /// Keeps only these items, with the path of the first one; tells whether none is left.
    pub(in crate::judge::api) fn keep(&mut self, kept: Option<(Items, Pointer)>) -> bool {
        let Some((items, path)) = kept else { return true };
        self.pointer = items.of_first(&path, &self.pointer);
        self.path = path;
        self.items = Some(Box::new(items));
        false
    }
}

impl Hash for Cause {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.pointer, &self.path, self.reason, &self.message).hash(state);
    }
}

impl FoldableProblem for Cause {
    fn path(&self) -> &Pointer {
        &self.path
    }

    fn sort(&self, hasher: &mut DefaultHasher) {
        self.reason.hash(hasher);
    }

    fn words(&self, hasher: &mut DefaultHasher) {
        fold::pattern(&self.pointer, hasher);
        self.message.hash(hasher);
    }

    fn items(&mut self) -> &mut Option<Box<Items>> {
        &mut self.items
    }

    fn take_in(&mut self, _: &mut Self) {}

    fn is_open(&self) -> bool {
        false
    }
}

/// A place that a cause can name.
pub(super) trait CausePlace {
    /// Returns its pointer.
    fn pointer(&self) -> Pointer;

    /// Hashes the place without the steps that differ between items, and adds those to `item`; `false` if it
    /// cannot.
    fn pattern<'s>(&'s self, _: &mut Vec<fold::ItemStep<'s>>, _: &mut DefaultHasher) -> bool {
        false
    }
}

impl CausePlace for Pointer {
    fn pointer(&self) -> Pointer {
        self.clone()
    }
}

/// The part of a cause's message after the value.
#[derive(Clone, Copy, Hash)]
enum Detail<'d> {
    Text(&'d str),
    /// The supported values. Their text is built only for causes that are not just counted.
    OneOf(&'d [&'d str]),
}

impl<'d> Detail<'d> {
    fn text(self) -> Cow<'d, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::OneOf(known) => {
                let known: Vec<String> = known.iter().map(|value| quoted(value)).collect();
                format!("supported values: {}", known.join(", ")).into()
            }
        }
    }
}

/// Collects causes.
#[derive(Debug, Default)]
pub(super) struct Causes {
    found: Folded<Cause>,
    /// Places that the server names differently, with the place that it names.
    renamed: Vec<(Pointer, Pointer)>,
    /// Returned in place of a cause that is only counted.
    counted: Option<Cause>,
    /// The counts for the current item, while they are recorded.
    noted: Option<Noted>,
}

/// The causes that were only counted for an item of a list.
#[derive(Debug)]
struct Noted {
    /// The number of differing steps before the index of the item.
    before: usize,
    index: usize,
    /// The hash and the differing steps of each.
    counted: Vec<(u64, Vec<fold::ItemStep<'static>>)>,
    /// Whether that is complete: no cause was reported, and none was counted outside the item.
    is_all: bool,
}

/// Maximum causes recorded for an item. An item with more, such as a long nested list, is not repeated.
const MOST_NOTED: usize = 64;

impl Noted {
    fn add(&mut self, as_what: u64, item: &[fold::ItemStep<'_>]) {
        let index = |step: &fold::ItemStep<'_>| match step {
            fold::ItemStep::Index(index) => Some(fold::ItemStep::Index(*index)),
            fold::ItemStep::Key(_) => None,
        };
        let is_inside = item.get(self.before).is_none_or(|step| *step == fold::ItemStep::Index(self.index));
        if self.counted.len() == MOST_NOTED {
            self.is_all = false;
        }
        if !self.is_all {
            return;
        }
        match item.iter().map(index).collect() {
            Some(steps) if is_inside => self.counted.push((as_what, steps)),
            _ => self.is_all = false,
        }
    }
}

impl Causes {
    pub(super) fn into_vec(self) -> Vec<Cause> {
        self.found.into_vec()
    }

    /// Returns the number of causes so far.
    pub(super) fn len(&mut self) -> usize {
        self.found.newest().0
    }

    /// Collects causes in which the server names `to` instead of `from`.
    pub(super) fn renamed(
        &mut self,
        from: &dyn CausePlace,
        to: &dyn CausePlace,
        collect: impl FnOnce(&mut Self),
    ) {
        self.renamed.push((from.pointer(), to.pointer()));
        collect(self);
        self.renamed.pop();
    }

    /// Checks the readable items of a list. In a row of equal items, the counts of one are repeated for the next
    /// instead of checking it, except for the last of the row: there may be hundreds of thousands.
    pub(super) fn of_items<'p, 'v>(
        &mut self,
        list: &'p ObjectPart<'_, 'v>,
        check: impl FnMut(&ObjectPart<'p, 'v>, usize, &mut Self),
    ) {
        self.of(list, list.readable_with_index(), check);
    }

    /// Like [`Causes::of_items`], for all items: for checks that concern several items, or the list.
    pub(super) fn of_all_items<'p, 'v>(
        &mut self,
        list: &'p ObjectPart<'_, 'v>,
        check: impl FnMut(&ObjectPart<'p, 'v>, usize, &mut Self),
    ) {
        self.of(list, list.items().enumerate(), check);
    }

    fn of<'p, 'v: 'p>(
        &mut self,
        list: &ObjectPart<'_, 'v>,
        items: impl Iterator<Item = (usize, ObjectPart<'p, 'v>)>,
        mut check: impl FnMut(&ObjectPart<'p, 'v>, usize, &mut Self),
    ) {
        let (outer, length) = (self.noted.take(), self.len());
        let mut last: Option<(&Stored<'v>, Noted)> = None;
        let mut previous = None;
        let mut items = items.peekable();
        while let Some((index, item)) = items.next() {
            let mut is_last = || items.peek().is_none_or(|(_, next)| next.value != item.value);
            if let (Some(value), Some((known, noted))) = (item.value, &mut last)
                && *known == value
                && !is_last()
                && self.count_again(noted, index)
            {
                continue;
            }
            // The first of a row may not be a duplicate where the second one is.
            let is_second = previous.is_some() && previous == item.value;
            previous = item.value;
            self.noted = is_second.then(|| Noted {
                before: list.differing(),
                index,
                counted: Vec::new(),
                is_all: true,
            });
            check(&item, index, self);
            let noted = self.noted.take().filter(|noted| noted.is_all && !noted.counted.is_empty());
            last = item.value.zip(noted);
        }
        self.noted = outer;
        if length != self.len() {
            self.noted.iter_mut().for_each(|outer| outer.is_all = false);
        }
    }

    /// Repeats the counts of one item for another.
    fn count_again(&mut self, noted: &mut Noted, index: usize) -> bool {
        for (_, steps) in &mut noted.counted {
            if let Some(step) = steps.get_mut(noted.before) {
                *step = fold::ItemStep::Index(index);
            }
        }
        self.found.repeat_all(&noted.counted)
    }

    fn push(&mut self, reason: Reason, at: &dyn CausePlace, value: &str, detail: &str) -> &mut Cause {
        self.push_as(reason, at, value, Detail::Text(detail))
    }

    fn push_as(
        &mut self,
        reason: Reason,
        at: &dyn CausePlace,
        value: &str,
        detail: Detail<'_>,
    ) -> &mut Cause {
        meter::spend(4);
        let mut announced = None;
        if self.renamed.is_empty() {
            let (mut item, mut hasher) = (Vec::new(), hash::keyed());
            (reason, value, detail).hash(&mut hasher);
            if at.pattern(&mut item, &mut hasher) {
                let what = hasher.finish();
                if self.found.repeats(what, &item) {
                    if let Some(noted) = &mut self.noted {
                        noted.add(what, &item);
                    }
                    return self.counted.get_or_insert_with(|| Cause {
                        pointer: Pointer::root(),
                        path: Pointer::root(),
                        reason,
                        message: String::new(),
                        items: None,
                    });
                }
                announced = Some(what);
            }
        }
        if let Some(noted) = &mut self.noted {
            noted.is_all = false;
        }
        let mut message = reason.words().to_owned();
        for part in [value, &*detail.text()].into_iter().filter(|part| !part.is_empty()) {
            message.push_str(": ");
            message.push_str(part);
        }
        let pointer = at.pointer();
        let mut path = pointer.clone();
        for (from, to) in self.renamed.iter().rev() {
            if let Some(rest) = path.below(from) {
                path = to.join(&rest);
            }
        }
        let cause = Cause { path, pointer, reason, message, items: None };
        match announced {
            Some(what) => self.found.announced(what, cause),
            None => self.found.push(cause),
        }
    }

    pub(super) fn required(&mut self, at: &dyn CausePlace, detail: &str) -> &mut Cause {
        self.push(Reason::Required, at, "", detail)
    }

    pub(super) fn forbidden(&mut self, at: &dyn CausePlace, detail: &str) -> &mut Cause {
        self.push(Reason::Forbidden, at, "", detail)
    }

    /// Reports an invalid string or number.
    pub(super) fn invalid(&mut self, field: &ObjectPart<'_, '_>, detail: &str) -> &mut Cause {
        self.push(Reason::Invalid, field, &shown(field), detail)
    }

    /// Reports a string in an invalid format.
    pub(super) fn format(&mut self, field: &ObjectPart<'_, '_>, check: fn(&str) -> Vec<String>) {
        for message in check(field.text()) {
            self.invalid(field, &message);
        }
    }

    /// Like [`Causes::format`], but allows an empty string.
    pub(super) fn format_if_set(&mut self, field: &ObjectPart<'_, '_>, check: fn(&str) -> Vec<String>) {
        if !field.text().is_empty() {
            self.format(field, check);
        }
    }

    /// Like [`Causes::format`], but reports an empty string as missing.
    pub(super) fn required_format(&mut self, field: &ObjectPart<'_, '_>, check: fn(&str) -> Vec<String>) {
        self.required_text(field);
        self.format_if_set(field, check);
    }

    /// Reports an empty string as missing.
    pub(super) fn required_text(&mut self, field: &ObjectPart<'_, '_>) {
        if field.text().is_empty() {
            self.required(field, "");
        }
    }

    /// Reports an invalid value, shown as another string.
    pub(super) fn invalid_text(&mut self, at: &dyn CausePlace, text: &str, detail: &str) -> &mut Cause {
        self.push(Reason::Invalid, at, &quoted(text), detail)
    }

    /// Like [`Causes::invalid_text`], for each message.
    pub(super) fn invalid_texts(&mut self, at: &dyn CausePlace, text: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid_text(at, text, &message);
        }
    }

    /// Reports an invalid list or mapping.
    pub(super) fn invalid_value(&mut self, field: &ObjectPart<'_, '_>, detail: &str) {
        let value = field.value.map_or_else(|| "null".to_owned(), |value| value.to_value().to_string());
        self.push(Reason::Invalid, field, &value, detail);
    }

    /// Reports an invalid value, shown in another form.
    pub(super) fn invalid_shown(&mut self, at: &dyn CausePlace, shown: &str, detail: &str) -> &mut Cause {
        self.push(Reason::Invalid, at, shown, detail)
    }

    /// Reports an invalid number; an unset one is zero.
    pub(super) fn invalid_number(&mut self, at: &dyn CausePlace, number: i64, detail: &str) {
        self.push(Reason::Invalid, at, &number.to_string(), detail);
    }

    /// Reports an invalid value without showing it.
    pub(super) fn invalid_bare(&mut self, at: &dyn CausePlace, detail: &str) {
        self.push(Reason::Invalid, at, "", detail);
    }

    pub(super) fn unsupported(&mut self, at: &dyn CausePlace, value: &str, known: &[&str]) -> &mut Cause {
        self.push_as(Reason::NotSupported, at, value, Detail::OneOf(known))
    }

    /// Reports a value that is not a known one. Ignores wrong types.
    pub(super) fn one_of(&mut self, field: &ObjectPart<'_, '_>, known: &[&str]) {
        if is_other(field, known) {
            self.unsupported(field, &shown(field), known);
        }
    }

    /// Like [`Causes::one_of`], where the server names another place.
    pub(super) fn one_of_at(&mut self, at: &dyn CausePlace, field: &ObjectPart<'_, '_>, known: &[&str]) {
        if is_other(field, known) {
            self.unsupported(at, &shown(field), known).pointer = field.pointer();
        }
    }

    /// Like [`Causes::invalid`], where the server names another place.
    pub(super) fn invalid_at(&mut self, at: &dyn CausePlace, field: &ObjectPart<'_, '_>, detail: &str) {
        self.push(Reason::Invalid, at, &shown(field), detail).pointer = field.pointer();
    }

    /// Like [`Causes::one_of`], but allows an unset field.
    pub(super) fn one_of_if_set(&mut self, field: &ObjectPart<'_, '_>, known: &[&str]) {
        if field.is_set() {
            self.one_of(field, known);
        }
    }

    pub(super) fn not_found(&mut self, at: &dyn CausePlace, text: &str, detail: &str) {
        self.push(Reason::NotFound, at, &quoted(text), detail);
    }

    pub(super) fn duplicate(&mut self, at: &dyn CausePlace, value: &str) {
        self.push(Reason::Duplicate, at, value, "");
    }

    pub(super) fn too_long(&mut self, at: &dyn CausePlace, most: usize) {
        self.push(Reason::TooLong, at, "", &format!("may not be more than {most} bytes"));
    }

    /// Reports a list that is too long.
    pub(super) fn at_most(&mut self, list: &ObjectPart<'_, '_>, most: usize) {
        let length = list.items().count();
        if length > most {
            self.push(Reason::TooMany, list, &length.to_string(), &format!("must have at most {most} items"));
        }
    }

    pub(super) fn not_negative(&mut self, field: &ObjectPart<'_, '_>) {
        if field.number().is_some_and(i64::is_negative) {
            self.invalid(field, "must be greater than or equal to 0");
        }
    }
}

/// Tells whether a value is none of the known ones; wrong types are reported elsewhere.
fn is_other(field: &ObjectPart<'_, '_>, known: &[&str]) -> bool {
    match field.value {
        Some(Stored::Text(text)) => !known.contains(&&**text),
        Some(Stored::Bool(_)) | None => true,
        Some(_) => false,
    }
}

/// Returns a value as the server prints it.
fn shown(field: &ObjectPart<'_, '_>) -> String {
    match field.value {
        Some(Stored::Text(text)) => quoted(text),
        Some(value) => value.to_value().to_string(),
        None => "\"\"".to_owned(),
    }
}
