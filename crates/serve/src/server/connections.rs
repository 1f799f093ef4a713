//! The open connections, and the choice of those to close when there is no room.
//!
//! A new connection is always admitted unless all others are worth more. Connections without a successful
//! answer are evicted first, of the source that has most of them: those in the handshake or headers, then
//! idle ones, then those that send a body, the oldest first. So a client that sends its request at once is
//! done long before it is the oldest. Connections that have served are evicted last, of the source with the
//! most connections: an API server counts the end of a connection that it has just written to as a failed
//! webhook, and does not retry.
//!
//! Sources and classes are kept sorted, so that a flood costs little: admission takes time in the logarithm
//! of the number of connections, or in the number of one source's connections if all of them have served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::activity::{Activity, Eviction};

/// A source keeps this many connections that never served while another fills more than half of its share
/// with idle ones.
const MAX_SPARED: usize = 16;
/// For this long, in milliseconds, a connection without a request is spared if another has been idle for
/// longer.
const YOUNG_MILLIS: u64 = 1000;
/// Maximum number of served connections that are examined for one new connection.
const MAX_EXAMINED: usize = 512;
/// Minimum number of extra connections while evicted ones have not closed yet; a quarter of the places if
/// that is more.
const MIN_LEAVING: usize = 64;
/// Minimum number of connections beyond those that are kept for sources that have been served; an eighth of the places if that
/// is more.
const MIN_KEPT: usize = 32;

/// The worth of a connection; the least is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// It never served, and is in its handshake or its headers.
    Opening = 0,
    /// It never served, and is idle.
    Unused = 1,
    /// It never served, and is sending a body, or has not taken its answer.
    Sending = 2,
    /// It never served, and its first request is being answered. It is not evicted.
    Answering = 3,
    /// It has served.
    Served = 4,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestRefusal {
    Full,
    FullOfOneSource,
}

impl GuestRefusal {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "connections",
            Self::FullOfOneSource => "connections-per-source",
        }
    }
}

/// The list of all connections of one port. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct OpenConnections(Arc<Mutex<GuestList>>);

#[derive(Debug)]
struct GuestList {
    /// Number of places, and how many one source may have.
    places: usize,
    per_source: usize,
    /// The next number, for connections and for the order of their changes.
    next: u64,
    guests: BTreeMap<u64, Seat>,
    sources: BTreeMap<IpAddr, GuestSource>,
    /// The sources by their number of evictable connections that never served, then by the one to evict
    /// first.
    wasteful: BTreeSet<(Waste, IpAddr)>,
    /// The sources by their number of connections.
    large: BTreeSet<(usize, IpAddr)>,
    present: usize,
    /// Connections of each source, including evicted ones that are still open.
    connected: BTreeMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Seat {
    activity: Arc<Activity>,
    class: Class,
    since: u64,
    leaving: bool,
}

#[derive(Debug, Default)]
struct GuestSource {
    present: usize,
    /// Time and id of the connections in classes that are evicted before any that has served.
    unserved: [BTreeSet<(u64, u64)>; 3],
    served: BTreeSet<u64>,
}

/// The number of evictable connections that never served, and the class and the time of the one to evict
/// first.
type Waste = (usize, Reverse<usize>, Reverse<u64>);

impl GuestSource {
    fn waste(&self) -> Option<Waste> {
        let (class, since) =
            self.unserved.iter().enumerate().find_map(|(class, all)| Some((class, all.first()?.0)))?;
        Some((self.unserved.iter().map(BTreeSet::len).sum(), Reverse(class), Reverse(since)))
    }

    /// Returns the connection to evict first of those that never served.
    fn least(&self) -> Option<u64> {
        self.unserved.iter().find_map(BTreeSet::first).map(|&(_, id)| id)
    }
}

impl OpenConnections {
    pub(super) fn new(places: usize, per_source: usize) -> Self {
        Self(Arc::new(Mutex::new(GuestList {
            places,
            per_source,
            next: 0,
            guests: BTreeMap::new(),
            sources: BTreeMap::new(),
            wasteful: BTreeSet::new(),
            large: BTreeSet::new(),
            present: 0,
            connected: BTreeMap::new(),
        })))
    }

    /// Admits a connection, if need be by evicting another one.
    pub(super) fn admit(&self, source: IpAddr) -> Result<Guest, GuestRefusal> {
        let source = source.to_canonical();
        let mut list = self.lock();
        list.make_room(source)?;
        let id = list.number();
        let activity = Arc::new(Activity::new(self.clone(), id, source));
        let since = list.number();
        list.guests
            .insert(id, Seat { activity: activity.clone(), class: Class::Opening, since, leaving: false });
        list.seat(id);
        *list.connected.entry(source).or_default() += 1;
        Ok(Guest { activity, id, guests: self.clone() })
    }

    /// Evicts the connection that is worth least, if there is one.
    pub(super) fn thin_out(&self) {
        let mut list = self.lock();
        if let Some((id, eviction)) = list.victim(0) {
            list.evict(id, eviction);
        }
    }

    /// Updates the class of a connection. It is computed under the lock, so that of two concurrent updates
    /// the last is right.
    pub(super) fn classify(&self, id: u64, class: impl FnOnce() -> Class) {
        let mut list = self.lock();
        let class = class();
        let since = list.number();
        let Some(leaving) = list.guests.get(&id).filter(|seat| seat.class != class).map(|seat| seat.leaving)
        else {
            return;
        };
        if !leaving {
            list.unseat(id);
        }
        if let Some(seat) = list.guests.get_mut(&id) {
            (seat.class, seat.since) = (class, since);
        }
        if !leaving {
            list.seat(id);
        }
    }

    /// Withdraws an eviction.
    pub(super) fn keep(&self, id: u64) {
        let mut list = self.lock();
        if let Some(seat) = list.guests.get_mut(&id).filter(|seat| seat.leaving) {
            seat.leaving = false;
            list.seat(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, GuestList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuestList {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn make_room(&mut self, source: IpAddr) -> Result<(), GuestRefusal> {
        // Evicted connections may stay for a while; their number must be limited.
        let beyond = |places: usize| places + MIN_LEAVING.max(places / 4);
        // Those that an attack leaves behind while the server is held up must not turn a client away that is served.
        let is_served = self.sources.get(&source).is_some_and(|source| !source.served.is_empty());
        let kept = if is_served { MIN_KEPT.max(self.places / 8) } else { 0 };
        if self.guests.len() >= beyond(self.places) + kept {
            return Err(GuestRefusal::Full);
        }
        if self.connected.get(&source).is_some_and(|count| *count >= beyond(self.per_source)) {
            return Err(GuestRefusal::FullOfOneSource);
        }
        let own = self.sources.get(&source).map_or(0, |source| source.present);
        if own >= self.per_source {
            let (id, eviction) = self.victim_of(source).ok_or(GuestRefusal::FullOfOneSource)?;
            self.evict(id, eviction);
            return Ok(());
        }
        // Evict a second one if an evicted one has stayed.
        let mut found = false;
        for _ in 0..2 {
            if self.present < self.places {
                break;
            }
            match self.victim(own) {
                Some((id, eviction)) => self.evict(id, eviction),
                None if found => break,
                None => return Err(GuestRefusal::Full),
            }
            found = true;
        }
        Ok(())
    }

    /// Returns the connection that is worth least of all that never served.
    fn least(&self) -> Option<u64> {
        let (_, source) = self.wasteful.last()?;
        self.sources.get(source)?.least()
    }

    /// Returns the connection to evict for another one of a source that is at its limit.
    fn victim_of(&self, source: IpAddr) -> Option<(u64, Eviction)> {
        let source = self.sources.get(&source)?;
        source
            .least()
            .map(|id| (id, Eviction::Unserved))
            .or_else(|| Some((self.longest(source, Activity::idle_since)?, Eviction::Idle)))
    }

    /// Returns the connection to evict for one of a source that has `own` connections.
    fn victim(&self, own: usize) -> Option<(u64, Eviction)> {
        let spared = self.wasteful.last().is_none_or(|&((count, ..), _)| count <= MAX_SPARED);
        let hoarder = self.large.last().filter(|&&(count, _)| spared && count > self.per_source / 2);
        let hoarder =
            hoarder.and_then(|(_, source)| self.longest(self.sources.get(source)?, Activity::idle_since));
        if let Some(id) = hoarder {
            return Some((id, Eviction::Idle));
        }
        if let Some(id) = self.least() {
            // A new connection may be about to send a request; one that has been idle for longer is not
            // needed.
            let young = self.guests.get(&id).is_some_and(|seat| seat.activity.now() < YOUNG_MILLIS);
            let idle = if spared && young { self.longest_idle(own) } else { None };
            return Some(idle.map_or((id, Eviction::Unserved), |id| (id, Eviction::Idle)));
        }
        let mut left = MAX_EXAMINED;
        for (count, source) in self.large.iter().rev() {
            let source = self.sources.get(source)?;
            if let Some(id) = self.longest(source, Activity::idle_since) {
                return Some((id, Eviction::Idle));
            }
            // A source with more connections than that of the new one also loses slow ones.
            if *count > own
                && let Some(id) = self.longest(source, Activity::slow_since)
            {
                return Some((id, Eviction::Slow));
            }
            left = left.saturating_sub(source.served.len().max(1));
            if left == 0 {
                break;
            }
        }
        None
    }

    /// Returns the served connection that has been idle for longest, and for longer than `YOUNG_MILLIS`, of
    /// sources with at least `own` connections.
    fn longest_idle(&self, own: usize) -> Option<u64> {
        let sources = self
            .large
            .iter()
            .rev()
            .take_while(|(count, _)| *count >= own)
            .filter_map(|(_, source)| self.sources.get(source));
        let served = sources.flat_map(|source| &source.served).take(MAX_EXAMINED);
        let idle = served.filter_map(|id| Some((self.guests.get(id)?.activity.idle_since()?, *id)));
        idle.filter(|(since, _)| since.elapsed().as_millis() > u128::from(YOUNG_MILLIS))
            .min()
            .map(|(_, id)| id)
    }

    /// Returns the served connection of a source that has been in a state for longest.
    fn longest(
        &self,
        source: &GuestSource,
        since: impl Fn(&Activity) -> Option<std::time::Instant>,
    ) -> Option<u64> {
        let all = source.served.iter().filter_map(|id| Some((since(&self.guests.get(id)?.activity)?, *id)));
        all.min().map(|(_, id)| id)
    }

    fn evict(&mut self, id: u64, eviction: Eviction) {
        self.unseat(id);
        if let Some(seat) = self.guests.get_mut(&id) {
            seat.leaving = true;
            seat.activity.evict(eviction);
        }
    }

    fn seat(&mut self, id: u64) {
        self.present += 1;
        self.arrange(id, |source, class, since| {
            source.present += 1;
            match class {
                Class::Opening | Class::Unused | Class::Sending => {
                    source.unserved[class as usize].insert((since, id))
                }
                Class::Answering => true,
                Class::Served => source.served.insert(id),
            };
        });
    }

    fn unseat(&mut self, id: u64) {
        self.present -= 1;
        self.arrange(id, |source, class, since| {
            source.present -= 1;
            match class {
                Class::Opening | Class::Unused | Class::Sending => {
                    source.unserved[class as usize].remove(&(since, id))
                }
                Class::Answering => true,
                Class::Served => source.served.remove(&id),
            };
        });
    }

    /// Changes the entry of a source, and keeps the sources sorted.
    fn arrange(&mut self, id: u64, change: impl FnOnce(&mut GuestSource, Class, u64)) {
        let Some(seat) = self.guests.get(&id) else { return };
        let address = seat.activity.source;
        let source = self.sources.entry(address).or_default();
        let present = |source: &GuestSource| Some(source.present).filter(|count| *count > 0);
        let before = (present(source), source.waste());
        change(source, seat.class, seat.since);
        let after = (present(source), source.waste());
        if after.0.is_none() {
            self.sources.remove(&address);
        }
        move_within(&mut self.large, address, before.0, after.0);
        move_within(&mut self.wasteful, address, before.1, after.1);
    }
}

fn move_within<R: Ord>(
    order: &mut BTreeSet<(R, IpAddr)>,
    source: IpAddr,
    before: Option<R>,
    after: Option<R>,
) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        order.remove(&(before, source));
    }
    if let Some(after) = after {
        order.insert((after, source));
    }
}

/// A place among the connections, given back when dropped.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) activity: Arc<Activity>,
    id: u64,
    guests: OpenConnections,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut list = self.guests.lock();
        let Some(leaving) = list.guests.get(&self.id).map(|seat| seat.leaving) else { return };
        if !leaving {
            list.unseat(self.id);
        }
        list.guests.remove(&self.id);
        let source = self.activity.source;
        if let Some(count) = list.connected.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                list.connected.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Phase, Serving};
    use super::*;

    fn source(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn serve(guest: &Guest) {
        let (serving, body) = Serving::begin(&guest.activity, Phase::Idle);
        drop(body);
        serving.succeeded();
    }

    /// Returns which of them have been asked to leave, and lets them go.
    fn gone(guests: &mut Vec<(&'static str, Guest)>) -> Vec<&'static str> {
        let (gone, rest) = guests.drain(..).partition::<Vec<_>, _>(|(_, guest)| guest.activity.is_evicted());
        *guests = rest;
        gone.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_has_served_goes_last_and_the_largest_source_pays_first() {
        let list = OpenConnections::new(8, 100);
        let mut guests: Vec<(&'static str, Guest)> = Vec::new();
        for (name, last) in [
            ("api server", 1),
            ("api server, new", 1),
            ("handshake", 2),
            ("unused", 2),
            ("headers", 2),
            ("body", 2),
            ("answer", 2),
            ("other", 3),
        ] {
            let guest = list.admit(source(last)).unwrap();
            guest.activity.set(if name == "handshake" { Phase::Handshake } else { Phase::Idle });
            guests.push((name, guest));
        }
        serve(&guests[0].1);
        guests[4].1.activity.set(Phase::Head);
        let _body = Serving::begin(&guests[5].1.activity, Phase::Idle);
        let (_answer, body) = Serving::begin(&guests[6].1.activity, Phase::Idle);
        drop(body);
        // What comes in is answered at once, so that it does not count.
        let mut order = Vec::new();
        let mut all = Vec::new();
        for _ in 0..6 {
            let newcomer = list.admit(source(9));
            order.extend(gone(&mut guests));
            if let Ok(newcomer) = newcomer {
                let (serving, body) = Serving::begin(&newcomer.activity, Phase::Idle);
                drop(body);
                all.push((newcomer, serving));
            }
        }
        assert_eq!(order, ["handshake", "headers", "unused", "api server, new", "other", "body"]);
        assert_eq!(guests.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["api server", "answer"]);
        all.push(
            list.admit(source(9))
                .map(|guest| {
                    let (serving, body) = Serving::begin(&guest.activity, Phase::Idle);
                    drop(body);
                    (guest, serving)
                })
                .unwrap(),
        );
        assert_eq!(gone(&mut guests), ["api server"]);
        assert_eq!(list.admit(source(9)).unwrap_err(), GuestRefusal::Full, "what is being answered stays");
    }

    #[test]
    fn of_what_has_served_the_largest_source_gives_up_the_longest_idle() {
        let list = OpenConnections::new(5, 4);
        let mut guests: Vec<(&'static str, Guest)> = Vec::new();
        for (name, last) in [("a1", 1), ("b1", 2), ("b2", 2), ("b3", 2), ("a2", 1)] {
            let guest = list.admit(source(last)).unwrap();
            serve(&guest);
            guests.push((name, guest));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        serve(&guests[1].1);
        let newcomer = list.admit(source(3)).unwrap();
        assert_eq!(gone(&mut guests), ["b2"]);
        // A source that is at its cap pays for itself.
        drop(newcomer);
        guests.push(("b4", list.admit(source(2)).unwrap()));
        serve(&guests[4].1);
        let list = OpenConnections::new(5, 2);
        let first = list.admit(source(1)).unwrap();
        let _second = list.admit(source(1)).unwrap();
        let _third = list.admit(source(1)).unwrap();
        assert!(first.activity.is_evicted());
    }

    #[test]
    fn a_client_that_is_slow_with_a_body_makes_room_for_smaller_sources_only() {
        let list = OpenConnections::new(3, 3);
        let guests: Vec<_> = (0..3).map(|_| list.admit(source(1)).unwrap()).collect();
        guests.iter().for_each(serve);
        // Times have whole milliseconds.
        let slow = |guest: &Guest| {
            let body = Serving::begin(&guest.activity, Phase::Writing);
            std::thread::sleep(std::time::Duration::from_millis(2));
            body
        };
        let _bodies: Vec<_> = guests.iter().map(slow).collect();
        assert_eq!(list.admit(source(1)).unwrap_err(), GuestRefusal::FullOfOneSource);
        let newcomer = list.admit(source(2)).unwrap();
        assert!(guests[0].activity.is_evicted() && guests[0].activity.gives_way());
        drop(newcomer);
    }

    #[test]
    fn whoever_is_needed_after_all_keeps_its_place() {
        let list = OpenConnections::new(1, 1);
        let first = list.admit(source(1)).unwrap();
        first.activity.set(Phase::Idle);
        let second = list.admit(source(2)).unwrap();
        let (serving, body) = Serving::begin(&first.activity, Phase::Writing);
        drop(body);
        assert!(first.activity.is_evicted() && !first.activity.gives_way() && !first.activity.is_evicted());
        // There is one too many now, and the next one pays for it.
        let third = list.admit(source(3)).unwrap();
        assert!(second.activity.is_evicted() && second.activity.gives_way());
        drop(second);
        drop((serving, first, third));
        let list = list.lock();
        assert!(
            list.guests.is_empty()
                && list.sources.is_empty()
                && list.large.is_empty()
                && list.wasteful.is_empty()
        );
        assert_eq!((list.present, list.guests.values().filter(|seat| seat.leaving).count()), (0, 0));
    }

    #[test]
    fn hoarders_do_not_turn_handshakes_away() {
        let list = OpenConnections::new(20, 16);
        let hoarders: Vec<_> =
            (0..20).map(|number| list.admit(source(if number < 9 { 1 } else { 2 })).unwrap()).collect();
        hoarders.iter().for_each(serve);
        let first = list.admit(source(3)).unwrap();
        let _second = list.admit(source(3)).unwrap();
        assert!(!first.activity.is_evicted());
        assert_eq!(hoarders.iter().filter(|guest| guest.activity.is_evicted()).count(), 2);
    }

    #[test]
    fn evicted_connections_that_stay_do_not_turn_away_who_is_served() {
        let list = OpenConnections::new(100, 100);
        let api_server = list.admit(source(1)).unwrap();
        serve(&api_server);
        let crowd: Vec<_> =
            (0..400_u32).filter_map(|number| list.admit(source(2 + (number % 40) as u8)).ok()).collect();
        assert_eq!(crowd.len(), 163);
        assert_eq!(list.admit(source(50)).unwrap_err(), GuestRefusal::Full);
        let more: Vec<_> = (0..40).filter_map(|_| list.admit(source(1)).ok()).collect();
        assert_eq!((more.len(), api_server.activity.is_evicted()), (32, false));
    }

    #[test]
    fn the_cost_of_a_newcomer_does_not_grow_with_their_number() {
        // Each newcomer evicts one, which never leaves: that must have a limit.
        let list = OpenConnections::new(1000, 1000);
        let all: Vec<_> = (0..2000_u32)
            .filter_map(|number| list.admit([10, 0, (number / 25 % 40) as u8, 1].into()).ok())
            .collect();
        assert_eq!(all.len(), 1250, "no more than a quarter of the places is given twice");
    }
}
