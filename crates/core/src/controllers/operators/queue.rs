//! The work queue of an operator: which of its objects it looks at, and when; and what operators have in common that have
//! one.

use std::collections::BTreeMap;

use super::super::cluster::{Action, Cluster, Controller, Event};
use super::super::object::Object;
use super::super::time::Time;

/// How long after a write an operator sees it.
const LAG: Time = Time::from_millis(10);
/// The first wait after an error, and the longest (`DefaultTypedControllerRateLimiter`, `client-go/util/workqueue`).
const FIRST_ERROR_WAIT: i64 = 5;
const MOST_ERROR_WAIT: i64 = 1_000_000;

/// Objects to be looked at, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkQueue {
    keys: BTreeMap<usize, Key>,
    stopped: bool,
    /// The object that was taken last, until it is known what came of that.
    tried: Option<usize>,
}

/// An object to be looked at.
#[derive(Clone, Debug, Default)]
struct Key {
    /// Something happened to it.
    now: Option<Time>,
    /// A timer: the earliest counts.
    timer: Option<Time>,
    /// A try after an error. Whatever lets the object be looked at before takes its place: it waits in the same entry of the
    /// queue (`pkg/controller/priorityqueue` of controller-runtime).
    retry: Option<Time>,
    /// How many tries in a row ended in an error.
    errors: u32,
}

impl Key {
    fn due(&self) -> Option<Time> {
        self.now.into_iter().chain(self.timer).chain(self.retry).min()
    }
}

impl WorkQueue {
    /// Lets an object be looked at soon after something happened to it.
    pub(super) fn add(&mut self, object: usize, at: Time) {
        if self.stopped {
            return;
        }
        let key = self.keys.entry(object).or_default();
        let soon = at + LAG;
        key.now = Some(key.now.map_or(soon, |now| now.min(soon)));
    }

    /// Lets an object be looked at soon, and forgets when it was to be looked at otherwise: the priority queue of
    /// controller-runtime keeps one entry of each object (`pkg/controller/priorityqueue/priorityqueue.go`).
    pub(super) fn add_alone(&mut self, object: usize, at: Time) {
        self.add(object, at);
        if let Some(key) = self.keys.get_mut(&object) {
            (key.timer, key.retry) = (None, None);
        }
    }

    /// Takes an object that is to be looked at now, and forgets when it was to be looked at otherwise, like
    /// [`Self::add_alone`].
    pub(super) fn take_alone(&mut self, at: Time) -> Option<usize> {
        let object = self.take(at)?;
        if let Some(key) = self.keys.get_mut(&object) {
            (key.now, key.timer, key.retry) = (None, None, None);
        }
        Some(object)
    }

    /// Lets an object be looked at at a time.
    pub(super) fn add_at(&mut self, object: usize, at: Time) {
        if self.stopped {
            return;
        }
        let key = self.keys.entry(object).or_default();
        key.timer = Some(key.timer.map_or(at, |timer| timer.min(at)));
    }

    /// Plans another try after an error: 5 ms later, and twice as long for each more, at most 1000 s. An event in between is
    /// a try as well: where that fails too, the next one counts from it.
    pub(super) fn fail(&mut self, object: usize, at: Time) {
        if self.stopped {
            return;
        }
        if self.tried == Some(object) {
            self.tried = None;
        }
        let key = self.keys.entry(object).or_default();
        let wait = FIRST_ERROR_WAIT.checked_shl(key.errors).unwrap_or(MOST_ERROR_WAIT).min(MOST_ERROR_WAIT);
        key.errors = (key.errors + 1).min(32);
        key.retry = Some(at + Time::from_millis(wait));
    }

    /// Returns how many tries in a row ended in an error.
    pub(super) fn errors(&self, object: usize) -> u32 {
        self.keys.get(&object).map_or(0, |key| key.errors)
    }

    /// Lets an object be looked at as after an error, which is how operators count events that enqueue with
    /// `AddRateLimited`: one more counts as one more error, and of the waits of an object the shortest is left
    /// (`client-go/util/workqueue/delaying_queue.go`).
    pub(super) fn add_limited(&mut self, object: usize, at: Time) {
        let before = self.keys.get(&object).and_then(|key| key.retry);
        let tried = self.tried;
        self.fail(object, at);
        self.tried = tried;
        if let Some(key) = self.keys.get_mut(&object) {
            key.retry = key.retry.into_iter().chain(before).min();
        }
    }

    /// Returns the object that was taken last, the first time that it is asked for after that.
    pub(super) fn take_tried(&mut self) -> Option<usize> {
        self.tried.take()
    }

    /// Counts the try of the object that was taken last as an error.
    pub(super) fn refuse(&mut self, at: Time) {
        if let Some(object) = self.take_tried() {
            self.fail(object, at);
        }
    }

    /// Forgets the errors of the object that was taken last, unless this try is one of them.
    pub(super) fn accept(&mut self) {
        if let Some(key) = self.take_tried().and_then(|object| self.keys.get_mut(&object)) {
            key.errors = 0;
        }
    }

    /// Forgets an object.
    pub(super) fn remove(&mut self, object: usize) {
        self.keys.remove(&object);
    }

    /// Stops: what is only in memory is lost.
    pub(super) fn stop(&mut self) {
        *self = Self { stopped: true, ..Self::default() };
    }

    /// Starts again, with the objects that it finds.
    pub(super) fn start(&mut self, objects: impl IntoIterator<Item = usize>, at: Time) {
        *self = Self::default();
        for object in objects {
            self.add(object, at);
        }
    }

    /// Returns when an object is to be looked at next.
    pub(super) fn due(&self) -> Option<Time> {
        self.keys.values().filter_map(Key::due).min()
    }

    /// Takes an object that is to be looked at now.
    pub(super) fn take(&mut self, at: Time) -> Option<usize> {
        self.tried = None;
        let is_due = |(_, key): &(&usize, &mut Key)| key.due().is_some_and(|due| due <= at);
        let (object, key) = self.keys.iter_mut().find(is_due)?;
        for due in [&mut key.now, &mut key.timer] {
            if due.is_some_and(|due| due <= at) {
                *due = None;
            }
        }
        key.retry = None;
        self.tried = Some(*object);
        self.tried
    }
}

/// An operator with one queue: it looks at an object at a time, and tries again, later each time, what ends in an error.
pub(super) trait Operator: std::fmt::Debug {
    /// Returns its queue.
    fn queue(&self) -> &WorkQueue;

    /// Returns its queue.
    fn queue_mut(&mut self) -> &mut WorkQueue;

    /// Tells whether an object is of the kind that it looks at.
    fn is_its(object: &Object) -> bool;

    /// Takes notice of something.
    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time);

    /// Takes an object from the queue.
    fn take(&mut self, at: Time) -> Option<usize> {
        self.queue_mut().take(at)
    }

    /// Looks at an object that is there. An error is one for [`WorkQueue::fail`].
    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action>;

    /// Takes notice that the API server refused something.
    fn fail(&mut self, at: Time) {
        self.queue_mut().refuse(at);
    }

    /// Loses what else is only in memory.
    fn lose(&mut self) {}

    /// Finds the objects that are there.
    fn find(&mut self, _objects: &[usize]) {}
}

impl<T: Operator> Controller for T {
    fn observe(&mut self, event: Event, cluster: &Cluster, at: Time) {
        self.notice(event, cluster, at);
    }

    fn due(&self) -> Option<Time> {
        self.queue().due()
    }

    fn sync(&mut self, cluster: &Cluster, at: Time) -> Vec<Action> {
        let Some(number) = self.take(at) else { return Vec::new() };
        match cluster.objects.get(number).filter(|object| object.is_there() && Self::is_its(object)) {
            Some(object) => self.reconcile(cluster, number, object, at),
            None => {
                self.queue_mut().remove(number);
                Vec::new()
            }
        }
    }

    fn refuse(&mut self, _cluster: &Cluster, at: Time) {
        self.fail(at);
    }

    fn accept(&mut self) {
        self.queue_mut().accept();
    }

    fn stop(&mut self) {
        self.lose();
        self.queue_mut().stop();
    }

    fn start(&mut self, cluster: &Cluster, at: Time) {
        let its = cluster
            .objects
            .iter()
            .enumerate()
            .filter(|(_, object)| object.is_there() && Self::is_its(object));
        let its: Vec<usize> = its.map(|(number, _)| number).collect();
        self.find(&its);
        self.queue_mut().start(its, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_taken_first_and_once() {
        let mut queue = WorkQueue::default();
        queue.add_at(1, Time::from_seconds(5));
        queue.add_at(1, Time::from_seconds(3));
        queue.add(0, Time::START);
        assert_eq!(queue.due(), Some(LAG));
        assert_eq!((queue.take(LAG), queue.take(LAG)), (Some(0), None));
        assert_eq!(queue.due(), Some(Time::from_seconds(3)));
    }

    #[test]
    fn errors_wait_twice_as_long_each_time() {
        let mut queue = WorkQueue::default();
        let waits = [5, 10, 20, 40].map(|wait| {
            queue.fail(0, Time::START);
            let due = queue.due();
            assert_eq!(due, Some(Time::from_millis(wait)));
            queue.take(Time::from_seconds(10))
        });
        assert_eq!(waits, [Some(0); 4]);
        queue.accept();
        queue.fail(0, Time::START);
        assert_eq!(queue.due(), Some(Time::from_millis(FIRST_ERROR_WAIT)));
    }

    #[test]
    fn what_was_refused_waits_longer_and_what_was_taken_does_not() {
        let mut queue = WorkQueue::default();
        queue.add(0, Time::START);
        for errors in 1..4 {
            assert_eq!(queue.take(Time::from_seconds(1)), Some(0));
            queue.refuse(Time::START);
            // Only the first says what came of a try.
            queue.accept();
            queue.refuse(Time::START);
            assert_eq!(queue.errors(0), errors);
        }
        assert_eq!(queue.take(Time::from_seconds(1)), Some(0));
        queue.accept();
        assert_eq!(queue.errors(0), 0);
    }

    #[test]
    fn an_event_takes_the_place_of_a_waiting_try() {
        let mut queue = WorkQueue::default();
        let at = Time::from_seconds(1);
        (0..11).for_each(|_| queue.fail(0, at));
        assert_eq!(queue.due(), Some(at + Time::from_millis(5_120)));
        queue.add(0, at);
        assert_eq!(queue.take(at + LAG), Some(0));
        queue.fail(0, at + LAG);
        assert_eq!(queue.due(), Some(at + LAG + Time::from_millis(10_240)));
        assert_eq!(queue.errors(0), 12);
    }

    #[test]
    fn events_that_wait_as_errors_do_make_the_next_wait_longer_and_not_this_one() {
        let mut queue = WorkQueue::default();
        for _ in 0..3 {
            queue.add_limited(0, Time::START);
        }
        let first = Time::from_millis(FIRST_ERROR_WAIT);
        assert_eq!((queue.due(), queue.take(first)), (Some(first), Some(0)));
        queue.add_limited(0, Time::START);
        assert_eq!(queue.due(), Some(Time::from_millis(8 * FIRST_ERROR_WAIT)));
    }

    #[test]
    fn what_happens_takes_the_place_of_a_timer() {
        let mut queue = WorkQueue::default();
        queue.add_at(0, Time::from_seconds(3));
        queue.add_alone(0, Time::START);
        assert_eq!((queue.take(LAG), queue.due()), (Some(0), None));
    }

    #[test]
    fn what_is_stopped_forgets() {
        let mut queue = WorkQueue::default();
        queue.add(3, Time::START);
        queue.stop();
        queue.add(4, Time::START);
        assert_eq!(queue.due(), None);
        queue.start([3, 4], Time::START);
        assert_eq!(queue.due(), Some(LAG));
    }
}
