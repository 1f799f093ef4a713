//! Decides what to do next from what was just read. Pure: no clock, no network, no randomness except for new
//! keys.
//!
//! The order of a rotation keeps every handshake valid: an authority is published, then waits, then signs;
//! and it stays published until the last leaf that it signed is gone. The wait starts when this process sees
//! the authority in both configurations, not when it is written into the Secret, so a replica that is alone,
//! new or has no permission only waits longer.

use std::time::{Duration, SystemTime};

use super::authority::{Authority, AuthorityError, Leaf, Names, Root, SKEW};
use super::state::{Change, Contents, MAX_AHEAD, Slot};

/// How long certificates and waits last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// An authority: 365 days. At two thirds of it the next one is made.
    pub(crate) authority: Duration,
    /// A served certificate: 7 days. At two thirds of it, or a little before, it is renewed.
    pub(crate) leaf: Duration,
    /// How long an authority is published before it signs: 10 minutes, for API servers that see a
    /// configuration late.
    pub(crate) soak: Duration,
    /// How long an authority stays published after its last leaf has expired: 24 hours, for replicas that see
    /// the Secret late.
    pub(crate) grace: Duration,
    /// How long after the configurations are right a replica becomes ready: 2 seconds, for API servers to see
    /// them.
    pub(crate) settle: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            authority: 365 * DAY,
            leaf: 7 * DAY,
            soak: Duration::from_secs(600),
            grace: DAY,
            settle: Duration::from_secs(2),
        }
    }
}

impl Lifetimes {
    /// Returns how often everything is read, even if no watch reports a change: every 10 seconds, or more
    /// often if leaves are very short-lived.
    #[must_use]
    pub(crate) fn look_every(&self) -> Duration {
        (self.leaf / 20).min(Duration::from_secs(10))
    }
}

/// A replica's knowledge at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// The time by the API server's clock.
    pub(crate) now: SystemTime,
    /// The Secret as just read, if it was readable.
    pub(crate) contents: Option<&'a Contents>,
    /// The certificate that this replica serves.
    pub(crate) leaf: Option<&'a Leaf>,
    /// Roots that both configurations have had for the whole of [`Lifetimes::soak`], as seen by this replica.
    pub(crate) soaked: &'a [Root],
    /// Roots that some configuration has now.
    pub(crate) published: &'a [Root],
    /// A random number from 0 to 1 for this replica, which spreads renewals.
    pub(crate) spread: f64,
}

/// A change of the Secret, in one word for the log and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Create the first authority, or replace an unusable one.
    Create,
    /// Put the authority that this replica still has in place of an unusable one.
    Restore,
    /// Create and publish the next authority.
    Next,
    /// Let the next authority sign.
    Promote,
    /// Publish again an authority whose leaf is still served.
    Keep,
    /// Correct the time at which previous authorities stopped signing.
    Date,
    /// Remove an unusable next authority.
    Clear,
    /// Remove authorities whose leaves are all gone.
    Retire,
}

impl Step {
    /// Every step, in order.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::Create,
        Self::Restore,
        Self::Next,
        Self::Promote,
        Self::Keep,
        Self::Date,
        Self::Clear,
        Self::Retire,
    ];

    /// Returns the word used in the log and the metrics.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Restore => "restore",
            Self::Next => "next",
            Self::Promote => "promote",
            Self::Keep => "keep",
            Self::Date => "date",
            Self::Clear => "clear",
            Self::Retire => "retire",
        }
    }
}

/// What to do, in this order; after a change of the Secret, everything is read again first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Write this into the Secret, unless it has changed since.
    pub(crate) store: Option<(Step, Change)>,
    /// Serve a new certificate of this authority.
    pub(crate) sign: Option<Authority>,
    /// What both configurations should have, if known.
    pub(crate) bundle: Option<Vec<Root>>,
}

/// Decides what to do.
///
/// # Errors
/// If an authority is needed and the system gives no randomness.
pub(crate) fn plan(view: &View<'_>, names: &Names, lifetimes: &Lifetimes) -> Result<Plan, AuthorityError> {
    let sign = sign(view);
    let Some(contents) = view.contents else {
        return Ok(Plan { sign, ..Plan::default() });
    };
    let now = view.now;
    // The authority of the certificate that this replica serves after this plan.
    let served = sign
        .as_ref()
        .or_else(|| view.leaf.filter(|leaf| leaf.holds_at(now)).map(Leaf::signer))
        .map(Authority::root);
    let store = match contents.current.usable(now) {
        None => Some(replace(view, contents, names, lifetimes)?),
        Some(current) => store(view, contents, current, served, names, lifetimes)?,
    };
    let mut bundle = contents.roots(now);
    if let Some(root) = served.filter(|root| !bundle.contains(root)) {
        bundle.push(root.clone());
    }
    Ok(Plan { store, sign, bundle: Some(bundle).filter(|bundle| !bundle.is_empty()) })
}

/// Chooses the authority to sign a new certificate, if one is needed.
fn sign(view: &View<'_>) -> Option<Authority> {
    let now = view.now;
    let current = view.contents.and_then(|contents| contents.current.usable(now));
    let Some(leaf) = view.leaf.filter(|leaf| leaf.holds_at(now)) else {
        let last = || view.leaf.map(Leaf::signer).filter(|signer| signer.root().holds_at(now));
        return current.or_else(last).cloned();
    };
    let signer = leaf.signer();
    if let Some(current) =
        current.filter(|current| current.root() != signer.root() && view.soaked.contains(current.root()))
    {
        return Some(current.clone());
    }
    // Renewal does not extend a certificate that expires with its authority.
    let longer = signer.root().holds_at(now) && leaf.not_after() < signer.root().not_after();
    (longer && now >= renewal(leaf, view.spread)).then(|| signer.clone())
}

/// Returns when a leaf is renewed: after two thirds of its life, or up to a tenth of it sooner.
fn renewal(leaf: &Leaf, spread: f64) -> SystemTime {
    let life = leaf.not_after().duration_since(leaf.signed()).unwrap_or_default();
    leaf.signed() + life.mul_f64(2.0 / 3.0 - 0.1 * spread.clamp(0.0, 1.0))
}

/// Replaces an authority that cannot sign because it is missing, broken, expired or not valid yet. No wait is
/// needed.
fn replace(
    view: &View<'_>,
    contents: &Contents,
    names: &Names,
    lifetimes: &Lifetimes,
) -> Result<(Step, Change), AuthorityError> {
    let now = view.now;
    // Authorities whose leaves any replica may still serve stay published: the Secret may have lost an
    // authority that signed for another replica.
    let mut previous = contents.current.roots();
    previous.extend(contents.previous.iter().cloned());
    previous.extend(view.published.iter().cloned());
    if let Some(held) = view.leaf.map(Leaf::signer).filter(|held| held.root().holds_at(now)) {
        return Ok((
            Step::Restore,
            Change::default().current(held).previous(&distinct(previous, held.root(), now), now),
        ));
    }
    if let Some(next) = contents.next.usable(now) {
        return Ok((
            Step::Promote,
            Change::default().current(next).no_next().previous(&distinct(previous, next.root(), now), now),
        ));
    }
    let made = Authority::generate(names, now, lifetimes.authority)?;
    let mut change =
        Change::default().current(&made).no_next().previous(&distinct(previous, made.root(), now), now);
    change.clear_rotate = contents.rotate;
    Ok((Step::Create, change))
}

/// Finds the next step of a Secret whose authority can sign.
fn store(
    view: &View<'_>,
    contents: &Contents,
    current: &Authority,
    served: Option<&Root>,
    names: &Names,
    lifetimes: &Lifetimes,
) -> Result<Option<(Step, Change)>, AuthorityError> {
    let now = view.now;
    if let Some(root) = served.filter(|root| !contents.roots(now).contains(root)) {
        let mut previous = vec![root.clone()];
        previous.extend(contents.previous.iter().cloned());
        return Ok(Some((
            Step::Keep,
            Change::default().previous(&distinct(previous, current.root(), now), now),
        )));
    }
    let begin = current.root().not_before() + SKEW;
    let life = current.root().not_after().duration_since(begin).unwrap_or_default();
    let due = contents.rotate || now >= begin + life.mul_f64(2.0 / 3.0);
    match (contents.next.usable(now), &contents.next) {
        (Some(next), _) if next.root() != current.root() => {
            if view.soaked.contains(next.root()) {
                let mut previous = vec![current.root().clone()];
                previous.extend(contents.previous.iter().cloned());
                let change = Change::default()
                    .current(next)
                    .no_next()
                    .previous(&distinct(previous, next.root(), now), now);
                return Ok(Some((Step::Promote, change)));
            }
        }
        (_, _) if due => {
            let mut change = Change::default().next(&Authority::generate(names, now, lifetimes.authority)?);
            change.clear_rotate = contents.rotate;
            return Ok(Some((Step::Next, change)));
        }
        (_, Slot::Empty) => {}
        _ => return Ok(Some((Step::Clear, Change::default().no_next()))),
    }
    if contents.previous.is_empty() && contents.previous_clean {
        return Ok(None);
    }
    let left = distinct(contents.previous.clone(), current.root(), now);
    let over = match contents.since {
        Some(since) => since.checked_add(lifetimes.leaf + lifetimes.grace).is_some_and(|end| now >= end),
        None => false,
    };
    let unneeded = served.is_none_or(|root| !left.contains(root));
    if left.is_empty() || over && unneeded {
        return Ok(Some((Step::Retire, Change::default().previous(&[], now))));
    }
    let dated = contents.since.is_some_and(|since| since <= now + MAX_AHEAD);
    Ok((!dated || !contents.previous_clean).then(|| (Step::Date, Change::default().previous(&left, now))))
}

/// Returns the roots that have not expired, each once, without the one that signs.
fn distinct(roots: Vec<Root>, signing: &Root, now: SystemTime) -> Vec<Root> {
    let mut kept: Vec<Root> = Vec::new();
    for root in roots {
        if root != *signing && now < root.not_after() && !kept.contains(&root) {
            kept.push(root);
        }
    }
    kept
}

/// Tracks since when roots have been in both configurations, by a monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Soak {
    since: Vec<(Root, Duration)>,
    last: Duration,
}

impl Soak {
    /// After a gap between looks of this length, earlier observations do not count.
    const MAX_GAP: Duration = Duration::from_secs(60);

    /// Records the roots of both configurations at an uptime.
    pub(crate) fn note(&mut self, uptime: Duration, roots: &[Root]) {
        if uptime.saturating_sub(self.last) > Self::MAX_GAP {
            self.since.clear();
        }
        self.last = uptime;
        self.since.retain(|(root, _)| roots.contains(root));
        for root in roots {
            if !self.since.iter().any(|(known, _)| known == root) {
                self.since.push((root.clone(), uptime));
            }
        }
    }

    /// Returns the roots that have been in both configurations for `time`, at an uptime.
    #[must_use]
    pub(crate) fn over(&self, uptime: Duration, time: Duration) -> Vec<Root> {
        self.since
            .iter()
            .filter(|(_, since)| uptime.saturating_sub(*since) >= time)
            .map(|(root, _)| root.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests;
