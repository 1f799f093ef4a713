//! Weighs a review and waits until there is a turn and memory to evaluate it.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::super::Application;
use super::super::body::Received;
use super::super::pool::Portion;
use super::super::queue::{Bid, Permit, ReviewQueue};
use super::Site;
use jobgate_core::admission::{Answer, Endpoint, Estimate};

impl<A: Application> Site<A> {
    /// Waits for a limited time for a turn and memory to evaluate a body.
    pub(super) async fn admit(
        &self,
        endpoint: Endpoint,
        body: Received,
        source: IpAddr,
        deadline: Instant,
    ) -> Result<Permits, Unfit> {
        let all = async {
            let bytes = body.bytes.len();
            if bytes <= self.limits.weighed_bytes {
                let weigh = AssertUnwindSafe(|| self.app.weight(&body.bytes));
                let weight = std::panic::catch_unwind(weigh).map_err(|_| Unfit::Unknown)?;
                let light = self.limits.light;
                if weight <= light || bytes <= self.limits.inline_bytes {
                    let weight = weight.min(light);
                    let review = self.wait(&self.reviews, source, &body.bytes, weight, weight).await;
                    return Ok(Permits {
                        _review: review,
                        _long: None,
                        _body: body.memory,
                        inline: Some(weight),
                    });
                }
            }
            self.make_room(endpoint, body, source).await
        };
        timeout(self.queue_time(deadline), all).await.unwrap_or(Err(Unfit::Now))
    }

    /// Takes a turn, or waits in the queue for one on behalf of the user and namespace in the body.
    pub(super) async fn wait(
        &self,
        queue: &ReviewQueue,
        source: IpAddr,
        body: &[u8],
        weight: usize,
        memory: usize,
    ) -> Permit {
        if let Some(permit) = queue.take_now(source, weight, memory) {
            return permit;
        }
        let Estimate { user, namespace, dry_run, weight: looked, .. } = self.estimate(body);
        // Small bodies were given the maximum weight for their size.
        let (weight, memory) = (weight.min(looked), memory.min(looked));
        queue.take(Bid { source, user, namespace, dry_run, weight, memory }).await
    }

    /// Waits for a core and memory to evaluate a heavy body.
    async fn make_room(&self, endpoint: Endpoint, body: Received, source: IpAddr) -> Result<Permits, Unfit> {
        let turn = self.weighing.take(source).await;
        let (app, all) = (self.app.clone(), self.limits.evaluation_memory);
        // The body is kept until weighing has ended, even if the request is gone.
        let weighing = spawn_blocking(move || {
            let _turn = turn;
            let bytes = &body.bytes;
            let Estimate { weight, user, namespace, dry_run, .. } = app.estimate(bytes);
            if weight > all {
                return (Err(app.too_heavy(endpoint, bytes)), body);
            }
            let names = (bytes.slice_ref(user), bytes.slice_ref(namespace), dry_run);
            (Ok((weight, names)), body)
        });
        let (verdict, body) = weighing.await.map_err(|_| Unfit::Unknown)?;
        let (weight, (user, namespace, dry_run)) = verdict.map_err(Unfit::Ever)?;
        let bid = |memory| Bid { source, user: &user, namespace: &namespace, dry_run, weight, memory };
        let long = self.long_reviews.take(bid(weight)).await;
        let review = self.reviews.take(bid(0)).await;
        Ok(Permits { _review: review, _long: Some(long), _body: body.memory, inline: None })
    }

    /// Returns how long a review may wait for its turn: the rest of its time is for its evaluation.
    pub(super) fn queue_time(&self, deadline: Instant) -> Duration {
        self.limits.queue.min(deadline.saturating_duration_since(Instant::now()) * 2 / 3)
    }
}

/// Why a body is not evaluated.
pub(super) enum Unfit {
    /// Other reviews have taken the capacity for too long.
    Now,
    /// It is too heavy: the application's answer to that.
    Ever(Option<Answer>),
    /// Weighing it has failed.
    Unknown,
}

/// Permission to evaluate. Its resources are held until the evaluation has ended, even if nothing waits for
/// it any more.
pub(super) struct Permits {
    pub(super) _review: Permit,
    pub(super) _long: Option<Permit>,
    pub(super) _body: Option<Portion>,
    /// The weight of a light review, which is evaluated on the thread that read it.
    pub(super) inline: Option<usize>,
}

/// Maximum number of bodies weighed at the same time that would block a thread that serves connections for
/// too long. Addresses take turns.
pub(super) const WEIGHED_AT_ONCE: usize = 2;
