//! Counts the work of an evaluation in steps, and stops it at a limit.
//!
//! Evaluation has no clock, but an object may take long to evaluate, and the API server waits two seconds. So
//! all walks over input (reading JSON, looking up a field, iterating a list, comparing places, reporting a
//! finding) spend a step here, and [`run`] stops the work when the steps are used up or a flag is set. An
//! input always takes the same number of steps, so tests can assert how work grows without measuring time.
//!
//! Stopping unwinds from [`spend`] to [`run`], as in rust-analyzer, so that functions in between need not
//! return a `Result`. It is not a panic: no hook is called.
//!
//! Outside [`run`] nothing is counted or stopped: the command line has no deadline.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bounds of some work.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The most steps; a step takes 10 to 100 ns. Nothing means no limit.
    pub steps: Option<u64>,
    /// Set from another thread to stop the work: its deadline passed, or the client disconnected.
    pub stop: Option<Arc<AtomicBool>>,
}

/// The work was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Steps between two checks of the stop flag.
const STEPS_PER_LOOK: u64 = 256;

thread_local! {
    /// Steps left until the next check of the bounds.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static CURRENT: RefCell<Option<MeterState>> = const { RefCell::new(None) };
}

/// The work that this thread does.
#[derive(Debug)]
struct MeterState {
    bounds: Bounds,
    /// Steps spent until the last check.
    spent: u64,
    /// Steps from the last check to the next.
    stretch: u64,
}

impl MeterState {
    /// Returns the steps until the next check.
    fn next_stretch(&mut self) -> u64 {
        let to_limit =
            self.bounds.steps.map_or(u64::MAX, |limit| limit.saturating_sub(self.spent).saturating_add(1));
        self.stretch = STEPS_PER_LOOK.min(to_limit);
        self.stretch
    }

    fn is_over(&self) -> bool {
        self.bounds.steps.is_some_and(|limit| self.spent > limit)
            || self.bounds.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Restores the previous work of the thread, also after a panic.
struct Restore {
    left: u64,
    current: Option<MeterState>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        LEFT.set(self.left);
        CURRENT.set(self.current.take());
    }
}

/// Runs work on this thread within bounds; returns its result and the steps it took.
///
/// # Errors
/// The work was stopped.
pub fn run<T>(bounds: Bounds, work: impl FnOnce() -> T) -> Result<(T, u64), Stopped> {
    let mut current = MeterState { bounds, spent: 0, stretch: 0 };
    let left = LEFT.replace(current.next_stretch());
    let restore = Restore { left, current: CURRENT.replace(Some(current)) };
    let result = catch_unwind(AssertUnwindSafe(work));
    let left = LEFT.get();
    let steps = CURRENT.with_borrow(|current| {
        current.as_ref().map_or(0, |now| now.spent + now.stretch.saturating_sub(left))
    });
    drop(restore);
    match result {
        Ok(result) => Ok((result, steps)),
        Err(payload) if payload.is::<Stopped>() => Err(Stopped),
        Err(payload) => resume_unwind(payload),
    }
}

/// Tells whether work is counted on this thread.
#[must_use]
pub fn is_counting() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Counts steps of work. Does not return if the work must stop.
#[inline]
pub fn spend(steps: u64) {
    let left = LEFT.get();
    if left > steps {
        LEFT.set(left - steps);
    } else {
        look(steps);
    }
}

/// Counts the work of reading a text once.
#[inline]
pub fn spend_text(text: &str) {
    spend(1 + text.len() as u64 / BYTES_PER_STEP);
}

/// Bytes of text that take as long to read as a step.
const BYTES_PER_STEP: u64 = 64;

/// Checks the bounds. Not part of [`spend`], which is inlined everywhere.
#[cold]
fn look(steps: u64) {
    let next = CURRENT.with_borrow_mut(|current| {
        // This thread has no bounds.
        let Some(current) = current else { return Some(u64::MAX) };
        let before = current.stretch - LEFT.get();
        current.spent = current.spent.saturating_add(before).saturating_add(steps);
        if current.is_over() { None } else { Some(current.next_stretch()) }
    });
    match next {
        Some(stretch) => LEFT.set(stretch),
        None => {
            // Destructors that run now may spend as they like.
            LEFT.set(u64::MAX);
            resume_unwind(Box::new(Stopped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(steps: u64) -> Bounds {
        Bounds { steps: Some(steps), stop: None }
    }

    #[test]
    fn steps_are_counted_exactly() {
        for count in [0, 1, 255, 256, 257, 10_000] {
            let work = || (0..count).for_each(|_| spend(1));
            assert_eq!(run(Bounds::default(), work), Ok(((), count)));
            assert_eq!(run(bounds(count), work), Ok(((), count)), "the last step allowed is done");
        }
        assert_eq!(run(Bounds::default(), || [700, 3, 5000].into_iter().for_each(spend)), Ok(((), 5703)));
    }

    #[test]
    fn work_beyond_its_bounds_is_stopped_where_it_is() {
        for limit in [0, 1, 255, 256, 300] {
            let done = Cell::new(0);
            let work = || {
                for _ in 0..1000 {
                    spend(1);
                    done.set(done.get() + 1);
                }
            };
            assert_eq!((run(bounds(limit), work), done.get()), (Err(Stopped), limit));
        }
    }

    #[test]
    fn a_flag_stops_work_soon() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut done = 0;
        let work = || {
            loop {
                spend(1);
                done += 1;
                stop.store(done >= 1000, Ordering::Relaxed);
            }
        };
        let _: Result<((), u64), Stopped> = run(Bounds { steps: None, stop: Some(stop.clone()) }, work);
        assert!((1000..1000 + STEPS_PER_LOOK).contains(&done), "{done}");
    }

    #[test]
    fn work_within_work_has_its_own_bounds_and_the_outer_goes_on() {
        let outer = run(bounds(100), || {
            spend(60);
            assert_eq!(run(bounds(10), || spend(11)), Err(Stopped));
            assert_eq!(run(bounds(1000), || spend(500)), Ok(((), 500)));
            spend(40);
        });
        assert_eq!(outer, Ok(((), 100)));
        spend(1_000_000);
    }

    #[test]
    fn a_panic_is_a_panic() {
        let caught = catch_unwind(|| run(bounds(1), || std::panic::panic_any("oops")));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"oops"));
        spend(1_000_000);
    }
}
