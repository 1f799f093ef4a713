//! Merges equal problems of the items of one list.
//!
//! An object of a megabyte may have hundreds of thousands of items with the same problem, and a finding takes a
//! thousand times the memory of `{}`. So a problem that more than [`MOST_APART`] items of a list, or entries of
//! a mapping, have in common is kept once, with the set of its items: a few bytes for each, and nothing for
//! consecutive ones. Problems whose words differ between items are kept apart up to [`MOST_WORDS`].

mod items;
mod mark;
mod walk;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use crate::text::pointer::{Pointer, Token};
use crate::text::{hash, meter};
pub use items::{Items, Named};
pub(crate) use mark::{ByHash, Hashes, key as mix_key, mix};
pub(crate) use walk::{ItemWalk, Way, each_place};

/// Maximum items of a list that each have a copy of the same problem.
pub(crate) const MOST_APART: usize = 16;
/// Maximum problems of one sort that are kept apart: in nested lists of at most [`MOST_APART`] items, or with
/// different words for each item.
pub(crate) const MOST_WORDS: usize = 256;

/// A step of a path that differs between the items of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemStep<'s> {
    /// The index of an item.
    Index(usize),
    /// The key of an entry, which the author chose.
    Key(&'s str),
}

impl ItemStep<'_> {
    fn token(self) -> Token {
        match self {
            Self::Index(index) => Token::Index(index),
            Self::Key(key) => Token::Key(std::borrow::Cow::Owned(key.to_owned())),
        }
    }
}

/// An owned [`ItemStep`].
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeptStep {
    Index(usize),
    Key(Box<str>),
}

impl KeptStep {
    fn new(step: ItemStep<'_>) -> Self {
        match step {
            ItemStep::Index(index) => Self::Index(index),
            ItemStep::Key(key) => Self::Key(key.into()),
        }
    }

    fn step(&self) -> ItemStep<'_> {
        match self {
            Self::Index(index) => ItemStep::Index(*index),
            Self::Key(key) => ItemStep::Key(key),
        }
    }

    /// Tells whether `next` is the item after it.
    fn precedes(&self, next: ItemStep<'_>) -> bool {
        matches!((self, next), (Self::Index(index), ItemStep::Index(next)) if index.checked_add(1) == Some(next))
    }
}

/// Returns the steps of a path that differ between items: indexes, and keys that the author chose.
fn steps(path: &Pointer) -> Vec<ItemStep<'_>> {
    path.tokens().into_iter().filter_map(step).collect()
}

fn step(token: &Token) -> Option<ItemStep<'_>> {
    match token {
        Token::Index(index) => Some(ItemStep::Index(*index)),
        Token::Key(std::borrow::Cow::Owned(key)) => Some(ItemStep::Key(key)),
        Token::Key(std::borrow::Cow::Borrowed(_)) => None,
    }
}

/// Returns a place with its differing steps replaced, as far as `steps` has them.
fn with_steps<'s>(place: &Pointer, mut steps: impl Iterator<Item = ItemStep<'s>>) -> Pointer {
    let tokens = place.tokens().into_iter().map(|token| match step(token).and_then(|_| steps.next()) {
        Some(step) => step.token(),
        None => token.clone(),
    });
    tokens.fold(Pointer::root(), Pointer::then)
}

/// A problem at a place, which other places may have as well.
pub(crate) trait FoldableProblem: Sized {
    /// The path of its field.
    fn path(&self) -> &Pointer;
    /// Hashes its sort, without its words.
    fn sort(&self, hasher: &mut DefaultHasher);
    /// Hashes its words, without parts that differ only because the place does.
    fn words(&self, hasher: &mut DefaultHasher);
    /// The items that it is about.
    fn items(&mut self) -> &mut Option<Box<Items>>;
    /// Merges another problem into it: its changes.
    fn take_in(&mut self, other: &mut Self);
    /// Tells whether it needs the changes of problems that are merged into it.
    fn is_open(&self) -> bool;
}

/// Collects problems, in the order in which they are found.
#[derive(Debug)]
pub(crate) struct Folded<P> {
    list: Vec<Option<P>>,
    /// The last problem, which may still be changed, and the hash that it was announced as.
    open: Option<(P, Option<u64>)>,
    classes: ByHash<Vec<Kin>>,
    sorts: ByHash<ProblemSort>,
    /// Folded problems by announced hash: the index in `list`, and the steps around the items.
    announced: ByHash<(usize, Vec<KeptStep>)>,
    /// The index in `list` of the problem that collects a sort, by the announced hash of the sort.
    rests: ByHash<usize>,
    /// The announced hash of the open problem's sort.
    sort: Option<u64>,
    /// The number of problems added.
    added: usize,
}

/// One of several equal problems.
#[derive(Debug)]
struct Kin {
    /// Its index in the list.
    nth: usize,
    item: Vec<KeptStep>,
    /// The number of leading steps that all its items share.
    fixed: usize,
}

/// The problems of one sort.
#[derive(Debug, Default)]
struct ProblemSort {
    apart: usize,
    /// The index of the problem that has those beyond [`MOST_WORDS`].
    rest: Option<usize>,
}

impl<P> Default for Folded<P> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            open: None,
            classes: ByHash::default(),
            sorts: ByHash::default(),
            announced: ByHash::default(),
            rests: ByHash::default(),
            sort: None,
            added: 0,
        }
    }
}

impl<P: FoldableProblem> Folded<P> {
    /// Adds a problem, and returns it for changes until the next one is added.
    pub(crate) fn push(&mut self, problem: P) -> &mut P {
        self.settle();
        self.added += 1;
        &mut self.open.insert((problem, None)).0
    }

    /// Like [`Self::push`], for a problem that [`Self::repeats`] was called for.
    pub(crate) fn announced(&mut self, as_what: u64, problem: P) -> &mut P {
        let sort = self.sort.take();
        self.settle();
        self.sort = sort;
        self.added += 1;
        &mut self.open.insert((problem, Some(as_what))).0
    }

    /// Adds an item to a folded problem that was announced before, without creating a problem; tells whether
    /// there is one. `as_what` is a hash of the message and the place, without the steps of its path that differ
    /// between items.
    pub(crate) fn repeats(&mut self, as_what: u64, item: &[ItemStep<'_>]) -> bool {
        if let Some((_, Some(open))) = &self.open
            && *open == as_what
        {
            self.settle();
        }
        let Some(items) = self.items_of(as_what, item) else { return false };
        meter::spend(1);
        items.add(item);
        self.added += 1;
        true
    }

    /// Like [`Self::repeats`], for a problem whose words differ between items: tells whether it is beyond
    /// [`MOST_WORDS`] and only counted. If not, it must be announced next. `as_sort` is the hash without these
    /// words.
    pub(crate) fn repeats_sort(&mut self, as_what: u64, as_sort: u64, item: &[ItemStep<'_>]) -> bool {
        if self.repeats(as_what, item) {
            return true;
        }
        self.settle();
        let rest = self.rests.get(&as_sort).filter(|_| !self.announced.contains_key(&as_what));
        let there =
            rest.copied().and_then(|rest| self.list[rest].as_mut()).filter(|problem| !problem.is_open());
        let Some(items) = there.and_then(|problem| problem.items().as_deref_mut()) else {
            self.sort = Some(as_sort);
            return false;
        };
        meter::spend(1);
        items.add(item);
        self.added += 1;
        true
    }

    /// Adds an item to several problems, as [`Self::repeats`] does for one, with the steps of each: to all, or
    /// to none.
    pub(crate) fn repeat_all(&mut self, all: &[(u64, Vec<ItemStep<'_>>)]) -> bool {
        let is_folded = all.iter().all(|(as_what, item)| self.items_of(*as_what, item).is_some());
        is_folded && all.iter().all(|(as_what, item)| self.repeats(*as_what, item))
    }

    /// Returns the items of a folded problem that was announced before.
    fn items_of(&mut self, as_what: u64, item: &[ItemStep<'_>]) -> Option<&mut Items> {
        let (nth, around) = self.announced.get(&as_what)?;
        let fits = around.iter().zip(item).all(|(kept, step)| kept.step() == *step);
        let there = self.list[*nth].as_mut().filter(|problem| fits && !problem.is_open())?;
        there.items().as_deref_mut()
    }

    /// Returns all problems, in the order of their first items.
    pub(crate) fn into_vec(mut self) -> Vec<P> {
        self.settle();
        self.list.into_iter().flatten().collect()
    }

    /// Returns the number of problems added, and the newest one.
    pub(crate) fn newest(&mut self) -> (usize, Option<&mut P>) {
        (self.added, self.open.as_mut().map(|(problem, _)| problem))
    }

    /// Adds problems that were collected elsewhere.
    pub(crate) fn extend(&mut self, problems: impl IntoIterator<Item = P>) {
        problems.into_iter().for_each(|problem| _ = self.push(problem));
    }

    fn settle(&mut self) {
        let Some((mut problem, announced)) = self.open.take() else { return };
        let as_sort = self.sort.take();
        let mut hasher = hash::keyed();
        problem.sort(&mut hasher);
        pattern(problem.path(), &mut hasher);
        let sort = hasher.finish();
        problem.words(&mut hasher);
        let class = hasher.finish();
        let path = problem.path().clone();
        let item = steps(&path);
        let fixed = problem.items().as_ref().map_or(item.len(), |items| items.fixed);
        let kin = self.classes.entry(class).or_default();
        let fits = |kin: &&Kin| {
            kin.fixed < item.len().max(1)
                && kin.fixed <= fixed
                && kin.item.iter().zip(&item).take(kin.fixed).all(|(kept, step)| kept.step() == *step)
        };
        if let Some(at) = kin.iter().rposition(|kin| kin.fixed < kin.item.len().max(1) && fits(&kin)) {
            let (nth, around) = (kin[at].nth, kin[at].item[..kin[at].fixed].to_vec());
            if self.list[nth].as_mut().is_some_and(|there| there.items().is_some()) {
                self.merge(nth, problem);
                if let Some(as_what) = announced {
                    self.announced.insert(as_what, (nth, around));
                }
                return;
            }
        }
        let alike = kin.len();
        let known = self.sorts.entry(sort).or_default();
        if known.apart >= MOST_WORDS && alike < MOST_WORDS {
            match known.rest {
                Some(rest) => {
                    self.merge(rest, problem);
                    if let Some(as_what) = announced {
                        self.announced.insert(as_what, (rest, Vec::new()));
                    }
                    if let Some(as_sort) = as_sort {
                        self.rests.insert(as_sort, rest);
                    }
                }
                None => {
                    known.rest = Some(self.list.len());
                    let items = problem.items().get_or_insert_with(|| Box::new(Items::new(&item)));
                    items.varied = true;
                    self.list.push(Some(problem));
                }
            }
            return;
        }
        known.apart += 1;
        let nth = self.list.len();
        let kin = self.classes.entry(class).or_default();
        kin.push(Kin { nth, item: item.iter().copied().map(KeptStep::new).collect(), fixed });
        self.list.push(Some(problem));
        if let (Some((nth, around)), Some(as_what)) = (self.fold(class, sort), announced) {
            self.announced.insert(as_what, (nth, around));
        }
    }

    /// Merges the problems that equal the newest one and are about items of the same list. Returns the index of
    /// the merged problem, and the steps around its items.
    fn fold(&mut self, class: u64, sort: u64) -> Option<(usize, Vec<KeptStep>)> {
        let kin = self.classes.get_mut(&class)?;
        let newest = kin.last()?;
        if kin.len() <= MOST_APART {
            return None;
        }
        let item = newest.item.clone();
        let beside = |kin: &Kin, at: usize| kin.fixed >= at && kin.item[..at] == item[..at];
        let has_many = |at: &usize| {
            let mut different: Vec<&KeptStep> = Vec::new();
            for kin in kin.iter().filter(|kin| kin.fixed > *at && beside(kin, *at)) {
                let step = &kin.item[*at];
                if different.last() != Some(&step) && !different.contains(&step) {
                    different.push(step);
                }
            }
            different.len() > MOST_APART
        };
        let at = (0..newest.fixed).find(has_many).or((kin.len() > MOST_WORDS).then_some(0))?;
        let (mut folded, apart): (Vec<Kin>, Vec<Kin>) =
            std::mem::take(kin).into_iter().partition(|kin| beside(kin, at));
        *kin = apart;
        let first = folded.first_mut()?;
        first.fixed = at;
        let nth = first.nth;
        let others: Vec<usize> = folded.iter().skip(1).map(|kin| kin.nth).collect();
        kin.extend(folded.into_iter().next());
        if let Some(sort) = self.sorts.get_mut(&sort) {
            sort.apart = sort.apart.saturating_sub(others.len());
        }
        if let Some(first) = &mut self.list[nth] {
            let path = first.path().clone();
            let items = first.items().get_or_insert_with(|| Box::new(Items::new(&steps(&path))));
            items.fixed = at;
        }
        for other in others {
            if let Some(other) = self.list[other].take() {
                self.merge(nth, other);
            }
        }
        Some((nth, item[..at].to_vec()))
    }

    /// Merges a problem into one that is about many items.
    fn merge(&mut self, nth: usize, mut other: P) {
        let Some(there) = &mut self.list[nth] else { return };
        there.take_in(&mut other);
        let Some(items) = there.items() else { return };
        match other.items().take() {
            Some(more) => items.absorb(&more),
            None => items.add(&steps(other.path())),
        }
    }
}

/// Hashes a path without the steps that differ between items.
pub(crate) fn pattern(path: &Pointer, hasher: &mut DefaultHasher) {
    for token in path.tokens() {
        match token {
            Token::Key(std::borrow::Cow::Borrowed(key)) => key.hash(hasher),
            Token::Key(std::borrow::Cow::Owned(_)) => 1_u8.hash(hasher),
            Token::Index(_) => 0_u8.hash(hasher),
        }
    }
}

/// Hashes words without the steps of a path that differ between items: indexes in brackets, and keys between
/// delimiters.
pub(crate) fn words(text: &str, path: &Pointer, hasher: &mut DefaultHasher) {
    let keys: Vec<&str> = steps(path)
        .into_iter()
        .filter_map(|step| match step {
            ItemStep::Key(key) if !key.is_empty() => Some(key),
            _ => None,
        })
        .collect();
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(mark) = bytes[at..].iter().position(|byte| matches!(byte, b'[' | b'`' | b'.' | b'"')) {
        at += mark + 1;
        let rest = &bytes[at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_end = |length: usize| matches!(rest.get(length), Some(b']' | b'`' | b'.' | b'"') | None);
        let key = keys.iter().find(|key| rest.starts_with(key.as_bytes()) && is_end(key.len()));
        let skipped = match key {
            Some(key) => key.len(),
            None if bytes[at - 1] == b'[' && digits > 0 && rest.get(digits) == Some(&b']') => digits,
            None => continue,
        };
        hasher.write(&bytes[from..at]);
        hasher.write_u8(0xff);
        at += skipped;
        from = at;
    }
    hasher.write(&bytes[from..]);
    hasher.write_u8(0xfe);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::items::ItemSet;
    use super::*;
    use crate::judge::checks;
    use crate::judge::finding::{Finding, Level, Safety};
    use crate::text::patch::Op;
    use crate::text::value::Value;
    use crate::text::value::json;

    fn at(container: usize, variable: usize) -> Pointer {
        Pointer::new(&["spec", "containers"]) / container / "env" / variable / "name"
    }

    fn finding(path: &Pointer, words: &str) -> Finding {
        checks::finding("deadline", Level::Deny, path.clone(), words.to_owned(), format!("set `{path}`"))
    }

    fn folded(findings: impl IntoIterator<Item = Finding>) -> Vec<(String, usize)> {
        let mut folded = Folded::default();
        folded.extend(findings);
        folded.into_vec().iter().map(|finding| (finding.path.to_path(), finding.count())).collect()
    }

    #[test]
    fn sixteen_items_are_apart_and_seventeen_are_one() {
        let same = |count: usize| folded((0..count).map(|nth| finding(&at(0, nth), "no name")));
        assert_eq!(same(16).len(), 16);
        assert_eq!(same(17), [("spec.containers[0].env[0].name".to_owned(), 17)]);
        assert_eq!(same(100_000), [("spec.containers[0].env[0].name".to_owned(), 100_000)]);
    }

    #[test]
    fn the_list_with_many_items_decides() {
        // Sixteen containers with sixteen variables each: no list has more.
        let all = |containers: usize, variables: usize| {
            let places = (0..containers).flat_map(move |c| (0..variables).map(move |v| at(c, v)));
            folded(places.map(|place| finding(&place, "no name")))
        };
        assert_eq!(all(16, 16).len(), 256);
        let each = all(3, 20);
        assert_eq!(each.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [20, 20, 20]);
        assert_eq!(all(17, 1), [("spec.containers[0].env[0].name".to_owned(), 17)]);
        assert_eq!(all(20, 20), [("spec.containers[0].env[0].name".to_owned(), 400)]);
    }

    #[test]
    fn other_words_are_apart_up_to_a_number() {
        let words = |count: usize| folded((0..count).map(|nth| finding(&at(0, nth), &format!("`x{nth}`"))));
        assert_eq!(words(256).len(), 256);
        let many = words(1000);
        assert_eq!((many.len(), many[256].1), (257, 744));
        // What differs only because the place does is not another word.
        let own = (0..20).map(|nth| finding(&at(0, nth), &format!("the API says: {}: Required", at(0, nth))));
        assert_eq!(folded(own).len(), 1);
        let roles = (0..20).map(|nth| {
            let role = format!("a{nth}");
            finding(&Pointer::new(&["spec", "roles"]).key(&role), &format!("`{role}` has no template"))
        });
        assert_eq!(folded(roles).len(), 1);
    }

    #[test]
    fn a_fix_holds_for_all_items_or_is_not_offered() {
        let fixed = |count: usize, of: fn(usize) -> bool| {
            let mut folded = Folded::default();
            for nth in 0..count {
                let place = at(0, nth);
                let finding = folded.push(finding(&place, "no name"));
                if of(nth) {
                    finding.fix(Safety::Safe, vec![Op::Replace(place, 1.into())]);
                }
            }
            folded.into_vec()
        };
        let all = fixed(100, |_| true);
        assert_eq!(all[0].fix.as_ref().map(|fix| fix.ops.len()), Some(100));
        let many = fixed(257, |_| true);
        assert!(many[0].fix.is_none() && many[0].items.as_ref().is_some_and(|items| items.unfixed));
        // Those without a fix say something else.
        assert_eq!(fixed(40, |nth| nth % 2 == 0).len(), 2);
    }

    #[test]
    fn items_are_told_apart_by_their_names() {
        let root = json!({"spec": {"containers": [{"env": [{"name": "A"}, {}, {"name": "B"}]}]}});
        let mut items = Items::new(&steps(&at(0, 0)));
        (1..3).for_each(|nth| items.add(&steps(&at(0, nth))));
        let mut names = Vec::new();
        items.named(&at(0, 0), &root).each(&mut |name| names.push(name));
        assert_eq!(
            names,
            [
                "spec.containers[0].env[A].name",
                "spec.containers[0].env[1].name",
                "spec.containers[0].env[B].name"
            ]
        );
        let moved = json!({"spec": {"containers": [{"env": [{"name": "B"}, {"name": "A"}]}]}});
        let places = |items: &Items, root: &Value| {
            let mut places = Vec::new();
            each_place(&at(0, 0), Some(items), (root, Way::ByName), &mut |place| places.push(place.hash()));
            places
        };
        let mut two = Items::new(&steps(&at(0, 0)));
        two.add(&steps(&at(0, 1)));
        let (before, after) = (places(&items, &root), places(&two, &moved));
        assert_eq!((before[2], before[0]), (after[0], after[1]));
        let kept = items.kept(&at(0, 0), (&root, Way::ByName), &mut |place, _, _| place.hash() != before[0]);
        let (kept, first) = kept.expect("two are left");
        assert_eq!((kept.count, first, kept.of_last(&at(0, 0))), (2, at(0, 1), at(0, 2)));
    }

    #[test]
    fn items_that_follow_each_other_take_no_room() {
        let mut items = Items::new(&steps(&at(0, 0)));
        (1..100_000).for_each(|nth| items.add(&steps(&at(0, nth))));
        assert!(items.set.bytes.len() < 32, "{}", items.set.bytes.len());
        let mut items = Items::new(&steps(&at(0, 0)));
        (1..100_000).for_each(|nth| items.add(&steps(&at(nth, 0))));
        assert!(items.set.bytes.len() < 32, "{}", items.set.bytes.len());
    }

    proptest! {
        #[test]
        fn a_set_gives_back_what_was_put_in(
            items in prop::collection::vec((0..3_usize, "[a-c]{0,2}", 0..4_usize), 1..60),
        ) {
            let mut set = ItemSet::default();
            let mut expected: Vec<Vec<KeptStep>> = Vec::new();
            for (first, key, last) in &items {
                let item = [ItemStep::Index(*first), ItemStep::Key(key), ItemStep::Index(*last)];
                set.push(&item);
                expected.push(item.into_iter().map(KeptStep::new).collect());
            }
            expected.dedup();
            let mut found: Vec<Vec<KeptStep>> = Vec::new();
            let mut shared_well = true;
            set.each(3, &mut |item, shared| {
                let item: Vec<KeptStep> = item.iter().copied().map(KeptStep::new).collect();
                shared_well &= found.last().is_none_or(|last| last[..shared] == item[..shared]);
                found.push(item);
            });
            prop_assert!(shared_well);
            prop_assert_eq!(found, expected);
        }
    }
}
