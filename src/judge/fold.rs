//! Problems of the items of one list that say the same, as one.
//!
//! An object of a megabyte may have hundreds of thousands of items with the same problem, and a finding takes
//! a thousand times the memory of `{}`. So what says the same about more than [`MOST_APART`] items of a list,
//! or entries of a mapping, is kept once, with the set of its items: some bytes for each, and nothing for
//! those that follow each other. What says something else of each item is kept apart up to [`MOST_WORDS`].

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// The most items of a list that have a problem of their own each.
pub const MOST_APART: usize = 16;
/// The most problems of one sort that are kept apart: in lists that are nested, none of which has more items
/// than [`MOST_APART`], or with other words for each item.
pub const MOST_WORDS: usize = 256;

/// Where an item is: a step of a path that differs between the items of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'s> {
    /// The index of an item.
    Index(usize),
    /// The key of an entry, which the author chose.
    Key(&'s str),
}

impl Step<'_> {
    fn token(self) -> Token {
        match self {
            Self::Index(index) => Token::Index(index),
            Self::Key(key) => Token::Key(std::borrow::Cow::Owned(key.to_owned())),
        }
    }
}

/// A step that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Index(usize),
    Key(Box<str>),
}

impl Kept {
    fn of(step: Step<'_>) -> Self {
        match step {
            Step::Index(index) => Self::Index(index),
            Step::Key(key) => Self::Key(key.into()),
        }
    }

    fn step(&self) -> Step<'_> {
        match self {
            Self::Index(index) => Step::Index(*index),
            Self::Key(key) => Step::Key(key),
        }
    }

    /// Tells whether `next` is the item after it.
    fn precedes(&self, next: Step<'_>) -> bool {
        matches!((self, next), (Self::Index(index), Step::Index(next)) if index.checked_add(1) == Some(next))
    }
}

/// Returns the steps of a path that differ between items: indexes, and keys that the author chose.
fn steps(path: &Pointer) -> Vec<Step<'_>> {
    path.tokens().into_iter().filter_map(step).collect()
}

fn step(token: &Token) -> Option<Step<'_>> {
    match token {
        Token::Index(index) => Some(Step::Index(*index)),
        Token::Key(std::borrow::Cow::Owned(key)) => Some(Step::Key(key)),
        Token::Key(std::borrow::Cow::Borrowed(_)) => None,
    }
}

/// The items that a problem is about, if there are more than [`MOST_APART`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// How often the problem was found.
    pub count: usize,
    /// The path of the last item and where it is shown, as those of the problem are the first item's.
    pub last: Option<(Pointer, Pointer)>,
    /// Whether the words are those of the first item, and others have their own.
    pub varied: bool,
    /// Whether the changes that would fix all items are too many to be made.
    pub unfixed: bool,
    /// The words without the places.
    pub(super) words: Option<Box<str>>,
    /// How many of the steps are the same in all items.
    fixed: usize,
    set: Set,
}

/// A set of places that differ in some steps, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    /// Runs: how many steps are those of the run before, the other steps, and then the step that grows and how
    /// many items follow.
    bytes: Vec<u8>,
    /// The last item.
    last: Vec<Kept>,
    /// Which step of the last run grows by one from item to item, and how often it did: not in `bytes` yet.
    run: Option<(usize, usize)>,
}

fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

fn take(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

impl Set {
    fn push(&mut self, item: &[Step<'_>]) {
        if self.bytes.is_empty() {
            self.begin(0, item);
            return;
        }
        let differs = |at: &usize| self.last.get(*at).map(Kept::step) != item.get(*at).copied();
        let Some(first) = (0..item.len()).find(differs) else { return };
        let only = (first + 1..item.len()).all(|at| !differs(&at));
        if only && self.last[first].precedes(item[first]) {
            match &mut self.run {
                None => self.run = Some((first, 1)),
                Some((at, more)) if *at == first => *more += 1,
                Some(_) => return self.begin(first, item),
            }
            self.last[first] = Kept::of(item[first]);
            return;
        }
        self.begin(first, item);
    }

    /// Begins a run, which has the first `shared` steps of the last item.
    fn begin(&mut self, shared: usize, item: &[Step<'_>]) {
        if !self.bytes.is_empty() {
            self.close();
        }
        put(&mut self.bytes, shared);
        for step in &item[shared..] {
            match step {
                Step::Index(index) => {
                    self.bytes.push(0);
                    put(&mut self.bytes, *index);
                }
                Step::Key(key) => {
                    self.bytes.push(1);
                    put(&mut self.bytes, key.len());
                    self.bytes.extend(key.as_bytes());
                }
            }
        }
        self.last.truncate(shared);
        self.last.extend(item[shared..].iter().copied().map(Kept::of));
    }

    fn close(&mut self) {
        let (at, more) = self.run.take().unwrap_or_default();
        put(&mut self.bytes, more);
        if more > 0 {
            put(&mut self.bytes, at);
        }
    }

    /// Calls a function with each item, and the number of steps that are those of the one before.
    fn each(&self, width: usize, found: &mut dyn FnMut(&[Step<'_>], usize)) {
        let mut bytes = &*self.bytes;
        let mut item: Vec<Step<'_>> = Vec::with_capacity(width);
        while !bytes.is_empty() {
            let shared = take(&mut bytes);
            item.truncate(shared);
            while item.len() < width {
                let Some((tag, rest)) = bytes.split_first() else { return };
                bytes = rest;
                let number = take(&mut bytes);
                item.push(if *tag == 0 {
                    Step::Index(number)
                } else {
                    let Some((key, rest)) = bytes.split_at_checked(number) else { return };
                    bytes = rest;
                    Step::Key(str::from_utf8(key).unwrap_or_default())
                });
            }
            found(&item, shared);
            // The last run is not closed.
            let (more, at) = if bytes.is_empty() {
                self.run.map_or((0, 0), |(at, more)| (more, at))
            } else {
                let more = take(&mut bytes);
                (more, if more > 0 { take(&mut bytes) } else { 0 })
            };
            for _ in 0..more {
                if let Some(Step::Index(index)) = item.get_mut(at) {
                    *index += 1;
                }
                found(&item, at);
            }
        }
    }
}

impl Items {
    fn of(item: &[Step<'_>]) -> Self {
        let mut set = Set::default();
        set.push(item);
        Self { count: 1, fixed: item.len(), set, ..Self::default() }
    }

    fn add(&mut self, item: &[Step<'_>]) {
        self.count += 1;
        self.set.push(item);
    }

    fn absorb(&mut self, other: &Self) {
        self.count += other.count;
        other.set.each(other.set.last.len(), &mut |item, _| self.set.push(item));
        self.unfixed |= other.unfixed;
        self.varied |= other.varied;
    }

    /// Puts steps before those of all items: the object is inside another one.
    pub(super) fn move_below(&mut self, around: &Pointer) {
        let around = steps(around);
        if around.is_empty() {
            return;
        }
        let mut set = Set::default();
        self.set.each(self.set.last.len(), &mut |item, _| {
            set.push(&around.iter().chain(item).copied().collect::<Vec<_>>());
        });
        self.fixed += around.len();
        self.set = set;
    }

    /// Adds the items of a list that are as one of them, if it is about that one: those with indexes from one to
    /// another, and the entries with some keys.
    pub(super) fn add_like(&mut self, like: &Pointer, indexes: &[(usize, usize)], keys: &[&str]) {
        let like = steps(like);
        let mut is_one = false;
        self.set.each(self.set.last.len(), &mut |item, _| is_one |= item == like);
        let Some((_, around)) = like.split_last().filter(|_| is_one) else { return };
        let mut add = |step: Step<'_>| {
            let mut item: Vec<Step<'_>> = around.to_vec();
            item.push(step);
            self.add(&item);
        };
        indexes.iter().flat_map(|(first, last)| *first..=*last).for_each(|index| add(Step::Index(index)));
        keys.iter().for_each(|key| add(Step::Key(key)));
    }

    /// Returns a place of the first item as it is for the last one.
    pub(super) fn of_last(&self, place: &Pointer) -> Pointer {
        with_steps(place, self.set.last.iter().map(Kept::step))
    }

    /// Returns a place of what was the first item as it is for the one with this path.
    pub(super) fn of_first(&self, path: &Pointer, place: &Pointer) -> Pointer {
        with_steps(place, steps(path).into_iter())
    }

    /// Returns those that are wanted, and where the first of them is; nothing if none is. `path` is that of the
    /// first.
    pub(crate) fn kept(
        &self,
        path: &Pointer,
        (root, way): (&Value, Way),
        wants: &mut dyn FnMut(&Walk<'_>, &[Step<'_>], usize) -> bool,
    ) -> Option<(Self, Pointer)> {
        let mut kept = Self { count: 0, set: Set::default(), last: None, ..self.clone() };
        let mut walk = Walk::new(path, root, way);
        let mut first = None;
        self.set.each(self.set.last.len(), &mut |item, shared| {
            walk.go(item, shared);
            if wants(&walk, item, shared) {
                kept.add(item);
                first.get_or_insert_with(|| walk.pointer());
            }
        });
        Some((kept, first?))
    }

    /// Returns the places of all items, of which the first has this path in `root`.
    pub(crate) fn named(&self, path: &Pointer, root: &Value) -> Named {
        let mut walk = Walk::new(path, root, Way::Exact);
        let is_index = |at: &usize| matches!(walk.path[*at], Token::Index(_));
        let indexes: Vec<bool> = walk.wild.iter().map(is_index).collect();
        let mut named = Named { path: path.clone(), indexes, set: Set::default(), count: self.count };
        self.set.each(self.set.last.len(), &mut |item, shared| {
            walk.go(item, shared);
            let names = walk.wild.iter().zip(item).map(|(at, step)| {
                let item = walk.stack.get(at + 1).and_then(|(here, _)| *here);
                match (step, item.and_then(|item| item.get("name")?.as_str())) {
                    (Step::Index(_), Some(name)) => Step::Key(name),
                    _ => *step,
                }
            });
            named.set.push(&names.collect::<Vec<_>>());
        });
        named
    }
}

/// The places of many items, with those that have a name by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    path: Pointer,
    /// Which of the steps that differ are items of lists.
    indexes: Vec<bool>,
    set: Set,
    count: usize,
}

impl Named {
    /// Calls a function with each place, as [`Pointer::by_name`] has it, and where nothing has a name as it is
    /// printed.
    pub(crate) fn each(&self, found: &mut dyn FnMut(String)) {
        self.set.each(self.set.last.len(), &mut |item, _| {
            let names: Vec<Option<&str>> = item
                .iter()
                .zip(&self.indexes)
                .filter(|(_, is_index)| **is_index)
                .map(|(step, _)| if let Step::Key(name) = step { Some(*name) } else { None })
                .collect();
            let steps = item.iter().zip(&self.indexes).map(|(step, is_index)| match step {
                Step::Key(_) if *is_index => Step::Index(0),
                step => *step,
            });
            let path = with_steps(&self.path, steps);
            match names.iter().any(Option::is_some) {
                true => found(path.with_names(&names)),
                false => found(path.to_string()),
            }
        });
    }
}

/// Returns a place with other steps, as far as there are any.
fn with_steps<'s>(place: &Pointer, mut steps: impl Iterator<Item = Step<'s>>) -> Pointer {
    let tokens = place.tokens().into_iter().map(|token| match step(token).and_then(|_| steps.next()) {
        Some(step) => step.token(),
        None => token.clone(),
    });
    tokens.fold(Pointer::root(), Pointer::then)
}

/// Calls a function with each place that a problem is about.
pub(crate) fn each_place(
    path: &Pointer,
    items: Option<&Items>,
    (root, way): (&Value, Way),
    found: &mut dyn FnMut(&Walk<'_>),
) {
    let first = steps(path);
    let mut walk = Walk::new(path, root, way);
    match items {
        None => {
            walk.go(&first, 0);
            found(&walk);
        }
        Some(items) => items.set.each(first.len(), &mut |item, shared| {
            walk.go(item, shared);
            found(&walk);
        }),
    }
}

/// What tells places apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Their steps.
    Exact,
    /// What does not change when list items move: items with a name are called by it, as Kubernetes does when
    /// it merges lists. A claim is identified by its name, whichever volume or template uses it.
    ByName,
}

/// Goes from item to item of a set: their values, and hashes of their places.
#[allow(missing_debug_implementations, reason = "it lives while a set is walked")]
pub(crate) struct Walk<'v> {
    path: Vec<Token>,
    /// The positions of the steps that differ, in the path.
    wild: Vec<usize>,
    /// The value and the hash at each step of the path, the root first.
    stack: Vec<(Option<&'v Value>, DefaultHasher)>,
    way: Way,
}

impl<'v> Walk<'v> {
    pub(crate) fn new(path: &Pointer, root: &'v Value, way: Way) -> Self {
        let path: Vec<Token> = path.tokens().into_iter().cloned().collect();
        let wild = (0..path.len()).filter(|at| step(&path[*at]).is_some()).collect();
        Self { path, wild, stack: vec![(Some(root), DefaultHasher::new())], way }
    }

    /// Goes to an item of which the first `shared` steps are those of the one before.
    pub(crate) fn go(&mut self, item: &[Step<'_>], shared: usize) {
        meter::spend(1);
        for (at, step) in self.wild.iter().zip(item).skip(shared) {
            self.path[*at] = step.token();
        }
        // What is before the first step that differs is where it was.
        let from = self.wild.get(shared).copied().unwrap_or(self.path.len()).min(self.stack.len() - 1);
        self.stack.truncate(from + 1);
        for token in &self.path[from..] {
            let Some((here, hasher)) = self.stack.last().cloned() else { break };
            self.stack.push(below(here, hasher, token, self.way));
        }
    }

    /// Returns the hash of the place.
    pub(crate) fn hash(&self) -> u64 {
        let Some((here, hasher)) = self.stack.last() else { return 0 };
        let is_claim = || matches!(self.path.last(), Some(Token::Key(key)) if **key == *"claimName");
        match here.and_then(Value::as_str).filter(|_| self.way == Way::ByName && is_claim()) {
            Some(claim) => {
                let mut hasher = DefaultHasher::new();
                (1_u8, claim).hash(&mut hasher);
                hasher.finish()
            }
            None => hasher.finish(),
        }
    }

    /// Returns the hashes of the places around it, from the root.
    pub(crate) fn around(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.stack.iter().take(self.path.len()).map(|(_, hasher)| hasher.finish())
    }

    /// Returns the value there, or that of the nearest place around it.
    pub(crate) fn nearest(&self) -> Option<&'v Value> {
        self.stack.iter().rev().find_map(|(here, _)| *here)
    }

    /// Returns the value there.
    pub(crate) fn here(&self) -> Option<&'v Value> {
        self.stack.last().and_then(|(here, _)| *here)
    }

    fn pointer(&self) -> Pointer {
        self.path.iter().cloned().fold(Pointer::root(), Pointer::then)
    }
}

fn below<'v>(
    here: Option<&'v Value>,
    mut hasher: DefaultHasher,
    token: &Token,
    way: Way,
) -> (Option<&'v Value>, DefaultHasher) {
    let here = match token {
        Token::Key(key) => {
            key.hash(&mut hasher);
            here.and_then(|value| value.get(&**key))
        }
        Token::Index(index) => {
            let item = here.and_then(|value| value.get(*index));
            let name = || item.and_then(|item| item.get("name")?.as_str());
            match name().filter(|_| way == Way::ByName) {
                Some(name) => name.hash(&mut hasher),
                None => index.hash(&mut hasher),
            }
            item
        }
    };
    (here, hasher)
}

/// Something that is wrong at a place, and that may be so in others.
pub(crate) trait Problem: Sized {
    /// The path of its field.
    fn path(&self) -> &Pointer;
    /// What it is a sort of, without its words.
    fn sort(&self, hasher: &mut DefaultHasher);
    /// What it says, without what differs only because the place does.
    fn words(&self, hasher: &mut DefaultHasher);
    /// The items that it is about.
    fn items(&mut self) -> &mut Option<Box<Items>>;
    /// Takes in what it has to keep of another one: its changes.
    fn take_in(&mut self, other: &mut Self);
    /// Tells whether others have something that it would take in.
    fn is_open(&self) -> bool;
}

/// Collects problems, in the order in which they are found.
#[derive(Debug)]
pub(crate) struct Folded<P> {
    list: Vec<Option<P>>,
    /// The last problem, to which things may still be added, and what it was announced as.
    open: Option<(P, Option<u64>)>,
    classes: HashMap<u64, Vec<Kin>>,
    sorts: HashMap<u64, Sort>,
    /// Where problems belong that were announced.
    announced: HashMap<u64, (usize, Vec<Kept>)>,
    /// How many were added.
    added: usize,
}

/// A problem among those that say the same.
#[derive(Debug)]
struct Kin {
    /// Its index in the list.
    nth: usize,
    item: Vec<Kept>,
    /// How many steps are the same for all its items.
    fixed: usize,
}

/// The problems of one sort.
#[derive(Debug, Default)]
struct Sort {
    apart: usize,
    /// The index of the one that has those beyond [`MOST_WORDS`].
    rest: Option<usize>,
}

impl<P> Default for Folded<P> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            open: None,
            classes: HashMap::new(),
            sorts: HashMap::new(),
            announced: HashMap::new(),
            added: 0,
        }
    }
}

impl<P: Problem> Folded<P> {
    /// Adds a problem, and returns it to be added to until the next one comes.
    pub(crate) fn push(&mut self, problem: P) -> &mut P {
        self.settle();
        self.added += 1;
        &mut self.open.insert((problem, None)).0
    }

    /// As [`Self::push`], for a problem of which [`Self::repeats`] was asked.
    pub(crate) fn announced(&mut self, as_what: u64, problem: P) -> &mut P {
        self.settle();
        self.added += 1;
        &mut self.open.insert((problem, Some(as_what))).0
    }

    /// Adds an item to a problem that was announced before and is folded, without making it; tells whether there
    /// is one. `as_what` is all that it says and is at but for the steps of its path that differ between items.
    pub(crate) fn repeats(&mut self, as_what: u64, item: &[Step<'_>]) -> bool {
        if let Some((_, Some(open))) = &self.open
            && *open == as_what
        {
            self.settle();
        }
        let Some((nth, around)) = self.announced.get(&as_what) else { return false };
        let fits = around.iter().zip(item).all(|(kept, step)| kept.step() == *step);
        let there = self.list[*nth].as_mut().filter(|problem| fits && !problem.is_open());
        let Some(items) = there.and_then(|problem| problem.items().as_mut()) else { return false };
        meter::spend(1);
        self.added += 1;
        items.add(item);
        true
    }

    /// Returns all, in the order in which the first item of each was found.
    pub(crate) fn into_vec(mut self) -> Vec<P> {
        self.settle();
        self.list.into_iter().flatten().collect()
    }

    /// Returns how many were added, and the newest.
    pub(crate) fn newest(&mut self) -> (usize, Option<&mut P>) {
        (self.added, self.open.as_mut().map(|(problem, _)| problem))
    }

    /// Adds problems that were collected elsewhere.
    pub(crate) fn extend(&mut self, problems: impl IntoIterator<Item = P>) {
        problems.into_iter().for_each(|problem| _ = self.push(problem));
    }

    fn settle(&mut self) {
        let Some((mut problem, announced)) = self.open.take() else { return };
        let mut hasher = DefaultHasher::new();
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
                Some(rest) => self.merge(rest, problem),
                None => {
                    known.rest = Some(self.list.len());
                    let items = problem.items().get_or_insert_with(|| Box::new(Items::of(&item)));
                    items.varied = true;
                    self.list.push(Some(problem));
                }
            }
            return;
        }
        known.apart += 1;
        let nth = self.list.len();
        let kin = self.classes.entry(class).or_default();
        kin.push(Kin { nth, item: item.iter().copied().map(Kept::of).collect(), fixed });
        self.list.push(Some(problem));
        self.fold(class, sort);
    }

    /// Makes those that say the same as the newest one, and are items of one list, one.
    fn fold(&mut self, class: u64, sort: u64) {
        let Some(kin) = self.classes.get_mut(&class) else { return };
        let Some(newest) = kin.last() else { return };
        if kin.len() <= MOST_APART {
            return;
        }
        let item = newest.item.clone();
        let beside = |kin: &Kin, at: usize| kin.fixed >= at && kin.item[..at] == item[..at];
        let has_many = |at: &usize| {
            let mut different: Vec<&Kept> = Vec::new();
            for kin in kin.iter().filter(|kin| kin.fixed > *at && beside(kin, *at)) {
                let step = &kin.item[*at];
                if different.last() != Some(&step) && !different.contains(&step) {
                    different.push(step);
                }
            }
            different.len() > MOST_APART
        };
        let Some(at) = (0..newest.fixed).find(has_many).or((kin.len() > MOST_WORDS).then_some(0)) else {
            return;
        };
        let (mut folded, apart): (Vec<Kin>, Vec<Kin>) =
            std::mem::take(kin).into_iter().partition(|kin| beside(kin, at));
        *kin = apart;
        let Some(first) = folded.first_mut() else { return };
        first.fixed = at;
        let nth = first.nth;
        let others: Vec<usize> = folded.iter().skip(1).map(|kin| kin.nth).collect();
        kin.extend(folded.into_iter().next());
        if let Some(sort) = self.sorts.get_mut(&sort) {
            sort.apart = sort.apart.saturating_sub(others.len());
        }
        if let Some(first) = &mut self.list[nth] {
            let path = first.path().clone();
            let items = first.items().get_or_insert_with(|| Box::new(Items::of(&steps(&path))));
            items.fixed = at;
        }
        for other in others {
            if let Some(other) = self.list[other].take() {
                self.merge(nth, other);
            }
        }
    }

    /// Makes a problem a part of one that is about many items.
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
/// marks.
pub(crate) fn words(text: &str, path: &Pointer, hasher: &mut DefaultHasher) {
    let keys: Vec<&str> = steps(path)
        .into_iter()
        .filter_map(|step| match step {
            Step::Key(key) if !key.is_empty() => Some(key),
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

    use super::*;
    use crate::judge::checks;
    use crate::judge::finding::{Finding, Level, Safety};
    use crate::text::patch::Op;
    use crate::text::value::json;

    fn at(container: usize, variable: usize) -> Pointer {
        Pointer::of(&["spec", "containers"]) / container / "env" / variable / "name"
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
            finding(&Pointer::of(&["spec", "roles"]).key(&role), &format!("`{role}` has no template"))
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
        let mut items = Items::of(&steps(&at(0, 0)));
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
        let mut two = Items::of(&steps(&at(0, 0)));
        two.add(&steps(&at(0, 1)));
        let (before, after) = (places(&items, &root), places(&two, &moved));
        assert_eq!((before[2], before[0]), (after[0], after[1]));
        let kept = items.kept(&at(0, 0), (&root, Way::ByName), &mut |place, _, _| place.hash() != before[0]);
        let (kept, first) = kept.expect("two are left");
        assert_eq!((kept.count, first, kept.of_last(&at(0, 0))), (2, at(0, 1), at(0, 2)));
    }

    #[test]
    fn items_that_follow_each_other_take_no_room() {
        let mut items = Items::of(&steps(&at(0, 0)));
        (1..100_000).for_each(|nth| items.add(&steps(&at(0, nth))));
        assert!(items.set.bytes.len() < 32, "{}", items.set.bytes.len());
        let mut items = Items::of(&steps(&at(0, 0)));
        (1..100_000).for_each(|nth| items.add(&steps(&at(nth, 0))));
        assert!(items.set.bytes.len() < 32, "{}", items.set.bytes.len());
    }

    proptest! {
        #[test]
        fn a_set_gives_back_what_was_put_in(
            items in prop::collection::vec((0..3_usize, "[a-c]{0,2}", 0..4_usize), 1..60),
        ) {
            let mut set = Set::default();
            let mut expected: Vec<Vec<Kept>> = Vec::new();
            for (first, key, last) in &items {
                let item = [Step::Index(*first), Step::Key(key), Step::Index(*last)];
                set.push(&item);
                expected.push(item.into_iter().map(Kept::of).collect());
            }
            expected.dedup();
            let mut found: Vec<Vec<Kept>> = Vec::new();
            let mut shared_well = true;
            set.each(3, &mut |item, shared| {
                let item: Vec<Kept> = item.iter().copied().map(Kept::of).collect();
                shared_well &= found.last().is_none_or(|last| last[..shared] == item[..shared]);
                found.push(item);
            });
            prop_assert!(shared_well);
            prop_assert_eq!(found, expected);
        }
    }
}
