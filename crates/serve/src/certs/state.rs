//! The contents of the Secret, which are not trusted: each part is present, missing, or broken.
//!
//! | key | what |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs |
//! | `ca-next.crt`, `ca-next.key` | the authority that will sign once every API server has had time to learn of it |
//! | `ca-prev.crt` | authorities that signed, and whose leaves may still be served; any number |
//! | `ca-prev.since` | when they stopped signing, RFC 3339 |
//!
//! Other keys are not changed. The time is stored beside the certificates and not in an annotation, so that a
//! Secret that is emptied, replaced or restored is consistent.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::authority::{Authority, Names, Root, bundle};

/// An annotation on the Secret that requests a new authority, whatever its value.
pub(crate) const ROTATE: &str = "jobgate.dev/rotate";

const CURRENT: [&str; 2] = ["ca.crt", "ca.key"];
const NEXT: [&str; 2] = ["ca-next.crt", "ca-next.key"];
const PREVIOUS: &str = "ca-prev.crt";
const SINCE: &str = "ca-prev.since";

/// Maximum number of previous authorities: a `caBundle` must stay small.
const MAX_PREVIOUS: usize = 8;

/// The data of a Secret, decoded.
pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// An authority as stored.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// Nothing is there.
    Empty,
    /// It can sign. Its dates are not checked.
    Good(Authority),
    /// It cannot sign, for this reason. The certificates may still verify what it signed.
    Broken(String, Vec<Root>),
}

impl Slot {
    fn from_data(data: &Data, [certificate, key]: [&str; 2], names: &Names) -> Self {
        let part = |name: &str| data.get(name).map(Vec::as_slice).unwrap_or_default();
        let (certificate, key) = (part(certificate), part(key));
        if certificate.trim_ascii().is_empty() && key.trim_ascii().is_empty() {
            return Self::Empty;
        }
        match Authority::from_pem(certificate, key, names) {
            Ok(authority) => Self::Good(authority),
            Err(error) => Self::Broken(jobgate_cluster::chain(&error), Root::read_all(certificate).0),
        }
    }

    /// Returns the authority, if it can sign and holds at the time.
    #[must_use]
    pub(crate) fn usable(&self, now: SystemTime) -> Option<&Authority> {
        match self {
            Self::Good(authority) if authority.root().holds_at(now) => Some(authority),
            _ => None,
        }
    }

    /// Returns its certificates, usable or not.
    #[must_use]
    pub(crate) fn roots(&self) -> Vec<Root> {
        match self {
            Self::Empty => Vec::new(),
            Self::Good(authority) => vec![authority.root().clone()],
            Self::Broken(_, roots) => roots.clone(),
        }
    }
}

/// The parsed Secret.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// The authority that signs.
    pub(crate) current: Slot,
    /// The authority that will sign next.
    pub(crate) next: Slot,
    /// Previous authorities, which no longer sign.
    pub(crate) previous: Vec<Root>,
    /// Whether all of `ca-prev.crt` could be read.
    pub(crate) previous_clean: bool,
    /// When they stopped signing; `None` if missing or unreadable.
    pub(crate) since: Option<SystemTime>,
    /// Whether a new authority is requested.
    pub(crate) rotate: bool,
}

impl Contents {
    /// Reads the data of a Secret, and whether it has the annotation [`ROTATE`].
    #[must_use]
    pub(crate) fn from_data(data: &Data, rotate: bool, names: &Names) -> Self {
        let (mut previous, previous_clean) =
            Root::read_all(data.get(PREVIOUS).map(Vec::as_slice).unwrap_or_default());
        previous.truncate(MAX_PREVIOUS);
        let since = data
            .get(SINCE)
            .and_then(|text| std::str::from_utf8(text).ok()?.trim().parse::<Timestamp>().ok())
            .map(SystemTime::from);
        Self {
            current: Slot::from_data(data, CURRENT, names),
            next: Slot::from_data(data, NEXT, names),
            previous,
            previous_clean,
            since,
            rotate,
        }
    }

    /// Returns every root in it that has not expired, each once: the signing one first, then the next, then
    /// the previous ones.
    #[must_use]
    pub(crate) fn roots(&self, now: SystemTime) -> Vec<Root> {
        let mut roots = Vec::new();
        for root in
            self.current.roots().into_iter().chain(self.next.roots()).chain(self.previous.iter().cloned())
        {
            if now < root.not_after() && !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots
    }

    /// Returns its errors, for the log.
    #[must_use]
    pub(crate) fn faults(&self) -> Vec<String> {
        let slot = |slot: &Slot, [certificate, key]: [&str; 2]| match slot {
            Slot::Broken(why, _) => Some(format!("{certificate} and {key}: {why}")),
            _ => None,
        };
        let previous = (!self.previous_clean).then(|| format!("{PREVIOUS}: not only certificates"));
        let since =
            (!self.previous.is_empty() && self.since.is_none()).then(|| format!("{SINCE}: not a time"));
        [slot(&self.current, CURRENT), slot(&self.next, NEXT), previous, since]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A change to the Secret. Other keys are not touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    set: Vec<(&'static str, Vec<u8>)>,
    remove: Vec<&'static str>,
    /// Whether to remove the annotation [`ROTATE`].
    pub(crate) clear_rotate: bool,
}

impl Change {
    /// Makes the authority the one that signs.
    #[must_use]
    pub(crate) fn current(self, authority: &Authority) -> Self {
        self.pair(CURRENT, authority)
    }

    /// Makes the authority the one that will sign.
    #[must_use]
    pub(crate) fn next(self, authority: &Authority) -> Self {
        self.pair(NEXT, authority)
    }

    fn pair(mut self, [certificate, key]: [&'static str; 2], authority: &Authority) -> Self {
        self.set.push((certificate, authority.root().pem().into_bytes()));
        self.set.push((key, authority.key_pem().into_bytes()));
        self
    }

    /// Removes the next authority.
    #[must_use]
    pub(crate) fn no_next(mut self) -> Self {
        self.remove.extend(NEXT);
        self
    }

    /// Keeps these as previous authorities since the given time; only the latest if there are too many.
    #[must_use]
    pub(crate) fn previous(mut self, roots: &[Root], since: SystemTime) -> Self {
        if roots.is_empty() {
            self.remove.extend([PREVIOUS, SINCE]);
        } else {
            let since = Timestamp::try_from(since).unwrap_or(Timestamp::UNIX_EPOCH);
            let seconds = Timestamp::from_second(since.as_second()).unwrap_or(since);
            self.set.push((PREVIOUS, bundle(&roots[..roots.len().min(MAX_PREVIOUS)]).into_bytes()));
            self.set.push((SINCE, seconds.to_string().into_bytes()));
        }
        self
    }

    /// Changes the data of a Secret.
    pub(crate) fn apply(&self, data: &mut Data) {
        for key in &self.remove {
            data.remove(*key);
        }
        for (key, value) in &self.set {
            data.insert((*key).to_owned(), value.clone());
        }
    }
}

/// How far a time may be ahead of the clock before it counts as an error.
pub(super) const MAX_AHEAD: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::samples::{DAY, authority, names, now};

    #[test]
    fn what_is_written_is_read_and_the_rest_stays() {
        let [a, b, c] = [authority(), authority(), authority()];
        let mut data =
            Data::from([("theirs".to_owned(), vec![1, 2, 3]), ("ca-prev.crt".to_owned(), b"old".to_vec())]);
        Change::default().current(&a).next(&b).previous(&[c.root().clone()], now()).apply(&mut data);
        let contents = Contents::from_data(&data, false, &names());
        assert!(contents.faults().is_empty(), "{:?}", contents.faults());
        assert_eq!(contents.roots(now()), [a.root().clone(), b.root().clone(), c.root().clone()]);
        assert_eq!(contents.since, Some(now()));
        assert_eq!(data["ca-prev.since"], b"2027-01-15T08:00:00Z");
        Change::default().current(&b).no_next().previous(&[], now()).apply(&mut data);
        assert_eq!(data.keys().map(String::as_str).collect::<Vec<_>>(), ["ca.crt", "ca.key", "theirs"]);
        assert_eq!(Contents::from_data(&data, false, &names()).roots(now()), [b.root().clone()]);
    }

    #[test]
    fn garbage_is_not_taken_for_nothing() {
        let (a, b) = (authority(), authority());
        let pem = |authority: &Authority| authority.root().pem().into_bytes();
        let key = |authority: &Authority| authority.key_pem().into_bytes();
        let read = |entries: &[(&str, Vec<u8>)]| {
            let data = entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            Contents::from_data(&data, false, &names())
        };
        assert!(matches!(read(&[]).current, Slot::Empty));
        assert!(matches!(read(&[("ca.crt", b"\n".to_vec()), ("ca.key", Vec::new())]).current, Slot::Empty));
        let salvaged = |contents: &Contents| match &contents.current {
            Slot::Broken(_, roots) => roots.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(salvaged(&read(&[("ca.crt", pem(&a)), ("ca.key", key(&b))])), 1);
        assert_eq!(salvaged(&read(&[("ca.crt", pem(&a))])), 1);
        assert_eq!(salvaged(&read(&[("ca.key", key(&a))])), 0);
        assert_eq!(salvaged(&read(&[("ca.crt", vec![0xff; 99]), ("ca.key", key(&a))])), 0);
        let contents = read(&[
            ("ca.crt", pem(&a)),
            ("ca.key", key(&a)),
            ("ca-prev.crt", pem(&b)),
            ("ca-prev.since", b"soon".to_vec()),
        ]);
        assert_eq!((contents.previous.len(), contents.since, contents.faults().len()), (1, None, 1));
    }

    #[test]
    fn the_expired_is_in_no_bundle() {
        let (a, b) = (authority(), Authority::generate(&names(), now() - 400 * DAY, 365 * DAY).unwrap());
        let mut data = Data::new();
        Change::default().current(&a).previous(&[b.root().clone()], now()).apply(&mut data);
        assert_eq!(Contents::from_data(&data, false, &names()).roots(now()), [a.root().clone()]);
    }

    #[test]
    fn the_previous_are_not_without_number() {
        let many: Vec<Root> = (0..20).map(|_| authority().root().clone()).collect();
        let mut data = Data::new();
        Change::default().previous(&many, now()).apply(&mut data);
        assert_eq!(Contents::from_data(&data, false, &names()).previous, many[..MAX_PREVIOUS]);
    }
}
