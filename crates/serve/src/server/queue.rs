//! The queue of reviews for evaluation. Turns and memory are shared first among sources, and then, within the
//! share of a source, among its users and namespaces.
//!
//! The weight of a review is its estimated cost, and its source, user and namespace are charged for it. The
//! next review is one of the source that has been charged least, and among its reviews, of the user and
//! namespace that have been charged least (the larger of the two charges counts); so a user with many
//! namespaces only delays itself, and so does a namespace with many accounts. The weight of the review itself
//! counts, too: a light one need not wait for heavy ones, not even for those of the same user. Dry runs come
//! after reviews of objects that will be stored. Heavy reviews never take all turns, so that one is always
//! free soon for a light review.
//!
//! A user is a string in a body, which anyone who reaches the port can write. Made-up users and namespaces
//! share the part of their source, and only a limited number of them are tracked by name.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of users, and of namespaces, of a source that are tracked by name while they have been
/// charged more than others, and of pairs of them while they wait. The others count as one.
const MAX_NAMES: usize = 256;
/// Maximum number of sources that are remembered for having been charged more than others.
const MAX_SOURCES: usize = 1024;

/// The capacity that reviews share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Reviews evaluated at the same time.
    pub(super) turns: usize,
    /// Memory for them, in bytes by their weight.
    pub(super) memory: usize,
    /// How much of the memory one source may have.
    pub(super) memory_per_source: usize,
    /// The weight up to which a review is light.
    pub(super) light: usize,
}

impl Capacity {
    /// A source leaves a quarter for others.
    fn turns_per_source(&self) -> usize {
        self.turns - self.turns / 4
    }

    /// Heavy reviews leave a turn, if there are two.
    fn heavy_turns(&self) -> usize {
        (self.turns - 1).max(1)
    }

    fn heavy_turns_per_source(&self) -> usize {
        (self.turns_per_source() - 1).max(1)
    }
}

/// A review's request for a turn and memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bid<'b> {
    pub(super) source: IpAddr,
    pub(super) user: &'b [u8],
    pub(super) namespace: &'b [u8],
    pub(super) dry_run: bool,
    /// Its estimated cost.
    pub(super) weight: usize,
    /// The memory that it takes from this queue.
    pub(super) memory: usize,
}

/// The queue. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ReviewQueue(Arc<QueueInner>);

#[derive(Debug)]
struct QueueInner {
    capacity: Capacity,
    hasher: RandomState,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    used: Used,
    /// Sources that wait, hold something, or have been charged more than others.
    sources: BTreeMap<IpAddr, QueueSource>,
    /// The charge of the source that was served last, from before it was served.
    clock: u64,
    waiting: usize,
    next_ticket: u64,
}

/// The capacity in use.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    turns: usize,
    heavy: usize,
    memory: usize,
}

#[derive(Debug, Default)]
struct QueueSource {
    used: Used,
    /// The charge for its reviews, which starts from the clock at least.
    had: u64,
    clock: u64,
    users: Accounts,
    namespaces: Accounts,
    lines: BTreeMap<Tenant, QueueLine>,
}

/// The hashes of a user and a namespace.
type Tenant = (u64, u64);
/// Reviews in the order in which they are served: dry runs last, then by weight, then by arrival.
type QueueLine = BTreeMap<(bool, usize, u64), QueueWaiter>;

#[derive(Debug)]
struct QueueWaiter {
    memory: usize,
    grant: oneshot::Sender<Permit>,
}

/// The charges of users or of namespaces, by name.
#[derive(Debug, Default)]
struct Accounts {
    had: BTreeMap<u64, u64>,
    /// The charge of all names for which there was no room.
    others: u64,
}

impl Accounts {
    fn of(&self, name: u64) -> u64 {
        self.had.get(&name).copied().unwrap_or(if self.had.len() < MAX_NAMES { 0 } else { self.others })
    }

    /// Charges a name. A charge no higher than the clock is the same as none.
    fn charge(&mut self, name: u64, clock: u64, weight: u64) {
        if self.had.len() >= MAX_NAMES && !self.had.contains_key(&name) {
            self.had.retain(|_, had| *had > clock);
        }
        let now = self.of(name).max(clock).saturating_add(weight);
        if self.had.len() < MAX_NAMES || self.had.contains_key(&name) {
            self.had.insert(name, now);
        } else {
            self.others = now;
        }
    }
}

/// The place of a review in the queue.
#[derive(Clone, Copy, Debug)]
struct QueuePlace {
    source: IpAddr,
    tenant: Tenant,
    at: (bool, usize, u64),
}

impl ReviewQueue {
    pub(super) fn new(capacity: Capacity) -> Self {
        let capacity = Capacity { turns: capacity.turns.max(1), ..capacity };
        Self(Arc::new(QueueInner { capacity, hasher: RandomState::new(), state: Mutex::default() }))
    }

    /// Takes a turn and memory if nobody waits, and there is enough. Only the source of the review is known,
    /// so only the source is charged.
    pub(super) fn take_now(&self, source: IpAddr, weight: usize, memory: usize) -> Option<Permit> {
        let mut state = self.0.lock();
        if state.waiting > 0 {
            return None;
        }
        let capacity = &self.0.capacity;
        let used = state.sources.get(&source).map(|source| source.used).unwrap_or_default();
        let has_memory = memory <= capacity.memory.saturating_sub(state.used.memory);
        if !has_memory || !state.may_have(capacity, &used, weight, memory) {
            return None;
        }
        state.charge(source, None, weight);
        Some(self.0.grant(&mut state, source, weight > capacity.light, memory))
    }

    /// Waits for a turn and memory. The future can be dropped at any time.
    ///
    /// More memory than a source may have is never granted.
    pub(super) async fn take(&self, bid: Bid<'_>) -> Permit {
        let (place, granted) = {
            let mut state = self.0.lock();
            let (grant, granted) = oneshot::channel();
            let place = state.enter(&self.0.hasher, &bid, grant);
            (place, granted)
        };
        // Dropped with the future: a review that has left must not delay those behind it.
        let _place = QueuePlaceGuard { queue: &self.0, place };
        self.0.serve();
        match granted.await {
            Ok(permit) => permit,
            // The sender is in the queue, which lives as long as `self`.
            Err(_) => std::future::pending().await,
        }
    }
}

impl QueueInner {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grant(self: &Arc<Self>, state: &mut QueueState, source: IpAddr, heavy: bool, memory: usize) -> Permit {
        for used in [&mut state.used, &mut state.sources.entry(source).or_default().used] {
            used.turns += 1;
            used.heavy += usize::from(heavy);
            used.memory += memory;
        }
        Permit { queue: self.clone(), source, heavy, memory }
    }

    /// Grants waiting reviews the available turns and memory.
    fn serve(self: &Arc<Self>) {
        let mut granted = Vec::new();
        let mut state = self.lock();
        while state.waiting > 0
            && let Some((place, memory)) = state.first(&self.capacity)
        {
            // The next review waits for memory; otherwise a heavy one would never get enough.
            if memory > self.capacity.memory.saturating_sub(state.used.memory) {
                break;
            }
            let Some(waiting) = state.leave(place) else { break };
            let weight = place.at.1;
            state.charge(place.source, Some(place.tenant), weight);
            let permit = self.grant(&mut state, place.source, weight > self.capacity.light, memory);
            granted.push((waiting.grant, permit));
        }
        drop(state);
        // Not under the lock: a permit whose review is gone is returned at once.
        for (grant, permit) in granted {
            drop(grant.send(permit));
        }
    }
}

impl QueueState {
    fn enter(&mut self, hasher: &RandomState, bid: &Bid<'_>, grant: oneshot::Sender<Permit>) -> QueuePlace {
        self.next_ticket += 1;
        self.waiting += 1;
        let at = (bid.dry_run, bid.weight, self.next_ticket);
        let source = self.sources.entry(bid.source).or_default();
        let mut tenant = (hasher.hash_one(bid.user), hasher.hash_one(bid.namespace));
        if source.lines.len() >= MAX_NAMES && !source.lines.contains_key(&tenant) {
            tenant = (0, 0);
        }
        source.lines.entry(tenant).or_default().insert(at, QueueWaiter { memory: bid.memory, grant });
        QueuePlace { source: bid.source, tenant, at }
    }

    fn leave(&mut self, place: QueuePlace) -> Option<QueueWaiter> {
        let source = self.sources.get_mut(&place.source)?;
        let line = source.lines.get_mut(&place.tenant)?;
        let waiting = line.remove(&place.at)?;
        if line.is_empty() {
            source.lines.remove(&place.tenant);
        }
        self.waiting -= 1;
        Some(waiting)
    }

    /// Returns whether there is a turn for a source, and whether it may have this much memory, regardless of
    /// whether the memory is free.
    fn may_have(&self, capacity: &Capacity, used: &Used, weight: usize, memory: usize) -> bool {
        self.used.turns < capacity.turns
            && used.turns < capacity.turns_per_source()
            && used.memory.saturating_add(memory) <= capacity.memory_per_source
            && (weight <= capacity.light
                || self.used.heavy < capacity.heavy_turns() && used.heavy < capacity.heavy_turns_per_source())
    }

    /// Returns the next of the reviews for which there is a turn, and the memory that it takes.
    fn first(&self, capacity: &Capacity) -> Option<(QueuePlace, usize)> {
        let of_source = |(address, source): (&IpAddr, &QueueSource)| {
            let may_have = |weight, memory| self.may_have(capacity, &source.used, weight, memory);
            let (place, memory) = source.first(*address, may_have)?;
            Some((source.had.max(self.clock).saturating_add(place.at.1 as u64), place.at.2, place, memory))
        };
        let next =
            self.sources.iter().filter_map(of_source).min_by_key(|(then, ticket, ..)| (*then, *ticket));
        next.map(|(.., place, memory)| (place, memory))
    }

    /// Charges a source, and in it a tenant, for a review that is served.
    fn charge(&mut self, address: IpAddr, tenant: Option<Tenant>, weight: usize) {
        let weight = weight as u64;
        if self.sources.len() >= MAX_SOURCES {
            let clock = self.clock;
            self.sources.retain(|_, source| source.is_used() || source.had > clock);
            if self.sources.len() >= MAX_SOURCES {
                self.sources.retain(|_, source| source.is_used());
            }
        }
        let source = self.sources.entry(address).or_default();
        self.clock = source.had.max(self.clock);
        source.had = self.clock.saturating_add(weight);
        if let Some(tenant) = tenant {
            source.clock = source.had_by(tenant).max(source.clock);
            let clock = source.clock;
            source.users.charge(tenant.0, clock, weight);
            source.namespaces.charge(tenant.1, clock, weight);
        }
    }

    fn give_back(&mut self, address: IpAddr, heavy: bool, memory: usize) {
        let Some(source) = self.sources.get_mut(&address) else { return };
        for used in [&mut self.used, &mut source.used] {
            used.turns -= 1;
            used.heavy -= usize::from(heavy);
            used.memory -= memory;
        }
        // When nothing waits or runs, past charges do not matter.
        if self.waiting == 0 && self.used.turns == 0 {
            self.sources.clear();
            self.clock = 0;
        }
    }
}

impl QueueSource {
    fn is_used(&self) -> bool {
        self.used.turns > 0 || !self.lines.is_empty()
    }

    /// Returns the charge of the user or of the namespace, whichever is higher.
    fn had_by(&self, (user, namespace): Tenant) -> u64 {
        self.users.of(user).max(self.namespaces.of(namespace))
    }

    /// Returns the next of its reviews that may have what they request, and its memory.
    fn first(&self, source: IpAddr, may_have: impl Fn(usize, usize) -> bool) -> Option<(QueuePlace, usize)> {
        let of_line = |(tenant, line): (&Tenant, &QueueLine)| {
            let had = self.had_by(*tenant).max(self.clock);
            // The lightest review of an object that will be stored, and the lightest dry run.
            let (stored, dry) = ((false, 0, 0), (true, 0, 0));
            let heads = [line.range(stored..dry).next(), line.range(dry..).next()];
            let tenant = *tenant;
            heads.map(|head| {
                let (at, QueueWaiter { memory, .. }) = head.filter(|(at, it)| may_have(at.1, it.memory))?;
                let rank = (at.0, had.saturating_add(at.1 as u64), at.2);
                Some((rank, QueuePlace { source, tenant, at: *at }, *memory))
            })
        };
        let next = self.lines.iter().flat_map(of_line).flatten().min_by_key(|(rank, ..)| *rank);
        next.map(|(_, place, memory)| (place, memory))
    }
}

/// A place in the queue, given up when dropped.
struct QueuePlaceGuard<'q> {
    queue: &'q Arc<QueueInner>,
    place: QueuePlace,
}

impl Drop for QueuePlaceGuard<'_> {
    fn drop(&mut self) {
        let left = self.queue.lock().leave(self.place);
        if left.is_some() {
            self.queue.serve();
        }
    }
}

/// A turn and memory, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    queue: Arc<QueueInner>,
    source: IpAddr,
    heavy: bool,
    memory: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.give_back(self.source, self.heavy, self.memory);
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.queue.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt as _;

    use super::*;

    const LIGHT: usize = 10;

    fn queue(turns: usize, memory: usize) -> ReviewQueue {
        ReviewQueue::new(Capacity { turns, memory, memory_per_source: memory, light: LIGHT })
    }

    fn source(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn bid<'b>(user: &'b str, namespace: &'b str, weight: usize) -> Bid<'b> {
        let (user, namespace) = (user.as_bytes(), namespace.as_bytes());
        Bid { source: source(1), user, namespace, dry_run: false, weight, memory: 0 }
    }

    /// Waiting reviews, each with a name.
    type Waiters<'q> = Vec<(String, Pin<Box<dyn Future<Output = Permit> + 'q>>)>;

    fn wait<'q>(waiters: &mut Waiters<'q>, queue: &'q ReviewQueue, word: &str, bid: Bid<'q>) {
        let mut future: Pin<Box<dyn Future<Output = Permit> + 'q>> = Box::pin(queue.take(bid));
        assert!(future.as_mut().now_or_never().is_none(), "{word} has to wait");
        waiters.push((word.to_owned(), future));
    }

    /// Ends the held review and then each one served, and returns the names in the order of service.
    fn order(held: Permit, mut waiters: Waiters<'_>) -> Vec<String> {
        let mut order = Vec::new();
        drop(held);
        while let Some((place, permit)) = waiters
            .iter_mut()
            .enumerate()
            .find_map(|(place, (_, future))| Some((place, future.as_mut().now_or_never()?)))
        {
            order.push(waiters.remove(place).0);
            drop(permit);
        }
        assert!(waiters.is_empty(), "all are served: {order:?}");
        order
    }

    #[test]
    fn users_take_turns_and_the_light_go_first() {
        let (queue, mut waiters) = (queue(1, 1000), Vec::new());
        let held = queue.take_now(source(1), 1, 0).unwrap();
        for _ in 0..3 {
            wait(&mut waiters, &queue, "mallory", bid("mallory", "a", 100));
        }
        wait(&mut waiters, &queue, "alice", bid("alice", "b", 100));
        wait(&mut waiters, &queue, "light", bid("mallory", "a", 5));
        assert_eq!(order(held, waiters), ["light", "alice", "mallory", "mallory", "mallory"]);
    }

    #[test]
    fn neither_many_namespaces_nor_many_accounts_get_more() {
        for attack in [0, 1] {
            let names: Vec<String> = (0..5).map(|number| format!("x{number}")).collect();
            let (queue, mut waiters) = (queue(1, 1000), Vec::new());
            let held = queue.take_now(source(1), 1, 0).unwrap();
            for name in &names {
                let bid = if attack == 0 { bid("mallory", name, 100) } else { bid(name, "mallory", 100) };
                wait(&mut waiters, &queue, "mallory", bid);
            }
            for _ in 0..2 {
                wait(&mut waiters, &queue, "alice", bid("alice", "b", 100));
            }
            let order = order(held, waiters);
            assert_eq!(order[..4], ["mallory", "alice", "mallory", "alice"], "{attack}");
        }
    }

    #[test]
    fn what_is_stored_comes_before_dry_runs() {
        let (queue, mut waiters) = (queue(1, 1000), Vec::new());
        let held = queue.take_now(source(1), 1, 0).unwrap();
        wait(&mut waiters, &queue, "dry", Bid { dry_run: true, ..bid("alice", "a", 1) });
        wait(&mut waiters, &queue, "stored", bid("mallory", "b", 500));
        assert_eq!(order(held, waiters), ["stored", "dry"]);
    }

    #[test]
    fn made_up_users_share_what_their_source_is_given() {
        let names: Vec<String> = (0..2_000).map(|number| format!("u{number}")).collect();
        let (queue, mut waiters) = (queue(1, 1000), Vec::new());
        let held = queue.take_now(source(9), 1, 0).unwrap();
        for name in &names {
            wait(&mut waiters, &queue, "made up", bid(name, name, 100));
        }
        assert!(queue.0.lock().sources[&source(1)].lines.len() <= MAX_NAMES + 1);
        for _ in 0..3 {
            wait(&mut waiters, &queue, "other", Bid { source: source(2), ..bid("u1", "u1", 100) });
        }
        let order = order(held, waiters);
        let places: Vec<usize> =
            order.iter().enumerate().filter(|(_, word)| *word == "other").map(|(place, _)| place).collect();
        assert!(places.iter().zip([1, 3, 5]).all(|(place, most)| *place <= most), "{places:?}");
        assert!(queue.0.lock().sources.is_empty(), "nothing is remembered of whom nobody waits for");
    }

    #[test]
    fn names_that_have_had_something_are_bounded() {
        let mut accounts = Accounts::default();
        for name in 0..10_000 {
            accounts.charge(name, 0, 7);
            assert!(accounts.had.len() <= MAX_NAMES);
        }
        assert_eq!(accounts.of(5), 7);
        assert_eq!(accounts.of(20_000), 7 * (10_000 - MAX_NAMES as u64), "the others are one");
        // Once they are forgotten, there is room for others.
        accounts.charge(20_000, 1_000_000, 7);
        assert_eq!((accounts.had.len(), accounts.of(20_000)), (1, 1_000_007));
    }

    #[test]
    fn sources_are_bounded() {
        let queue = queue(3, 1000);
        let _held = queue.take_now(source(1), 1, 0);
        for number in 0..3000_u32 {
            drop(queue.take_now(IpAddr::V4(number.into()), 5, 0));
            assert!(queue.0.lock().sources.len() <= MAX_SOURCES);
        }
    }

    #[test]
    fn heavy_reviews_leave_a_turn_for_light_ones_and_a_source_one_for_others() {
        let queue = queue(4, 1000);
        let heavy = |from| queue.take_now(source(from), 100, 0);
        let own = [heavy(1), heavy(1)];
        assert!(own.iter().all(Option::is_some));
        assert!(heavy(1).is_none(), "one of its turns is for light reviews");
        let other = heavy(2);
        assert!(other.is_some() && heavy(3).is_none(), "and so is one of all");
        let light = queue.take_now(source(1), LIGHT, 0);
        assert!(light.is_some() && queue.take_now(source(3), 1, 0).is_none(), "all turns are taken");
        // A heavy review that waits does not hold up a light one.
        drop(light);
        let mut waiting = Box::pin(queue.take(bid("mallory", "a", 100)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(queue.take(bid("alice", "b", 1)).now_or_never().is_some());
    }

    #[test]
    fn memory_comes_together_for_who_is_next() {
        let queue = queue(8, 1000);
        let with =
            |from, weight: usize| Bid { source: source(from), memory: weight, ..bid("u", "n", weight) };
        let first = queue.take(with(1, 600)).now_or_never().unwrap();
        let mut large = Box::pin(queue.take(with(2, 900)));
        assert!(large.as_mut().now_or_never().is_none());
        // What its own source has had counts for a review, so this one is behind.
        let mut behind = Box::pin(queue.take(with(1, 350)));
        assert!(behind.as_mut().now_or_never().is_none());
        drop(first);
        let large = large.as_mut().now_or_never().unwrap();
        assert!(behind.as_mut().now_or_never().is_none());
        drop(large);
        assert!(behind.as_mut().now_or_never().is_some());
    }

    #[test]
    fn whoever_goes_away_leaves_nothing_behind() {
        let queue = queue(1, 1000);
        let held = queue.take_now(source(1), 1, 0).unwrap();
        let mut gone = Box::pin(queue.take(bid("a", "a", 1)));
        let mut stays = Box::pin(queue.take(bid("b", "b", 5)));
        assert!(gone.as_mut().now_or_never().is_none() && stays.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        // Granted, and given up before it is looked at.
        drop(stays);
        let state = queue.0.lock();
        assert!(state.waiting == 0 && state.used.turns == 0 && state.sources.is_empty());
    }
}
