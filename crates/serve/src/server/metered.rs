//! Futures with a limit on computation: each poll runs under the meter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use jobgate_core::text::meter::{self, Bounds, Stopped};

/// A future that is stopped when its polls together have taken too many steps, or when a flag is set.
pub(super) struct MeteredFuture<F> {
    /// Dropped when it is stopped, since its state may then be invalid.
    future: Option<Pin<Box<F>>>,
    bounds: Bounds,
}

impl<F: Future> MeteredFuture<F> {
    pub(super) fn new(future: F, bounds: Bounds) -> Self {
        Self { future: Some(Box::pin(future)), bounds }
    }
}

impl<F: Future> Future for MeteredFuture<F> {
    type Output = Result<F::Output, Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else { return Poll::Ready(Err(Stopped)) };
        match meter::run(this.bounds.clone(), || future.as_mut().poll(cx)) {
            Ok((Poll::Ready(output), _)) => {
                this.future = None;
                Poll::Ready(Ok(output))
            }
            Ok((Poll::Pending, steps)) => {
                this.bounds.steps = this.bounds.steps.map(|left| left.saturating_sub(steps));
                Poll::Pending
            }
            Err(stopped) => {
                this.future = None;
                Poll::Ready(Err(stopped))
            }
        }
    }
}

/// Sets a flag when dropped: nothing waits for the work any more.
pub(super) struct StopOnDrop(pub(super) Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(limit: u64) -> Bounds {
        Bounds { steps: Some(limit), stop: None }
    }

    #[tokio::test]
    async fn steps_are_counted_over_all_polls() {
        let work = || async {
            for _ in 0..10 {
                meter::spend(10);
                tokio::task::yield_now().await;
            }
            "done"
        };
        assert_eq!(MeteredFuture::new(work(), steps(100)).await, Ok("done"));
        assert_eq!(MeteredFuture::new(work(), steps(99)).await, Err(Stopped));
    }
}
