//! The kinds that Jobgate judges, with what identifies them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::OnceLock;

use super::{BUILT_IN, cron_job, job, py_torch_job};
use crate::kinds::definition::{Children, Definition};
use crate::kinds::lifecycle::Deadline;
use crate::text::value::Value;

/// A kind that Jobgate judges, ordered as listed.
#[derive(Clone, Copy)]
pub struct Kind(&'static Definition);

/// The kinds that were added. The first call of [`Kind::all`] closes the list.
static ADDED: OnceLock<Vec<&'static Definition>> = OnceLock::new();

/// Why kinds cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdded {
    /// Something has already been read without them.
    #[error("kinds are added once, before anything is read")]
    TooLate,
    /// One of them is already known.
    #[error("the kind {name} of {api_version} is known")]
    Known {
        /// Its group and version.
        api_version: String,
        /// Its name.
        name: &'static str,
    },
}

/// Adds kinds for the rest of the process, after the built-in ones.
///
/// Schemas, registrations and the places that rules may fill are computed once, from all kinds. So kinds must
/// be added before anything is read, and all at once.
///
/// # Errors
/// The kinds are already in use, or one of the new ones is already known.
pub fn add(definitions: Vec<Definition>) -> Result<(), NotAdded> {
    let id = |definition: &Definition| (definition.api_version(), definition.name);
    let mut known: Vec<_> = BUILT_IN.iter().map(|definition| id(definition)).collect();
    for definition in &definitions {
        let id = id(definition);
        if known.contains(&id) {
            return Err(NotAdded::Known { api_version: id.0, name: id.1 });
        }
        known.push(id);
    }
    if ADDED.get().is_some() {
        return Err(NotAdded::TooLate);
    }
    // Kinds are copied everywhere, and live as long as the process.
    let added = definitions.into_iter().map(|definition| &*Box::leak(Box::new(definition)));
    ADDED.set(added.collect()).map_err(|_| NotAdded::TooLate)
}

impl Kind {
    /// `batch` `Job`.
    pub const JOB: Self = Self(&job::JOB);
    /// `batch` `CronJob`.
    pub const CRON_JOB: Self = Self(&cron_job::CRON_JOB);
    /// `kubeflow.org` `PyTorchJob`.
    pub const PY_TORCH_JOB: Self = Self(&py_torch_job::PY_TORCH_JOB);

    /// Returns all kinds, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        BUILT_IN.iter().chain(ADDED.get_or_init(Vec::new)).copied().map(Self)
    }

    /// Returns the titles of all kinds, each once.
    #[must_use]
    pub fn titles() -> Vec<&'static str> {
        titles(Self::all())
    }

    /// Returns the titles of the kinds that the webhook registers for, each once.
    #[must_use]
    pub fn registered_titles() -> Vec<&'static str> {
        titles(Self::all().filter(|kind| !kind.untested))
    }

    /// Returns its name for users and policies.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.0.title.unwrap_or(self.0.name)
    }

    /// Tells whether it is the same kind, possibly in another version.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        self.name == other.name && self.group == other.group
    }

    /// Returns the kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Returns the kind of an object, by group and name, in any version; nothing for other objects.
    #[must_use]
    pub fn from_object(object: &Value) -> Option<Self> {
        Self::typed(object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?)
    }

    /// Returns the kind of an `apiVersion` and `kind`. An unknown version yields the first of the kinds that
    /// differ only by version.
    #[must_use]
    pub fn typed(version: &str, name: &str) -> Option<Self> {
        let (group, _version) = version.split_once('/')?;
        let mut named = Self::all().filter(|kind| kind.name == name && kind.group == group);
        let first = named.next()?;
        Some(std::iter::once(first).chain(named).find(|kind| kind.knows(version)).unwrap_or(first))
    }

    /// Returns the kind of a group and name.
    #[must_use]
    pub fn named(group: &str, name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name == name && kind.group == group)
    }

    /// Returns the kinds of runtimes, in which objects of other kinds run ([`Reference`](super::Reference)).
    pub fn runtimes() -> impl Iterator<Item = Self> {
        Self::all().filter(|kind| matches!(kind.deadline, Deadline::OfOthers { .. }) && !kind.pods.is_empty())
    }

    /// Returns the kind of runtime with a name.
    #[must_use]
    pub fn from_runtime(name: &str) -> Option<Self> {
        Self::runtimes().find(|kind| kind.name == name)
    }

    /// Returns the kinds whose controllers create objects that are judged.
    pub fn with_children() -> impl Iterator<Item = Self> {
        Self::all().filter(|kind| !kind.children.is_empty())
    }

    /// Tells whether its controller creates objects of another kind.
    #[must_use]
    pub fn makes(self, child: Self) -> bool {
        self.children.iter().any(|made| made.group == child.group && made.name == child.name)
    }

    /// Returns the kinds whose controllers create objects of this kind.
    pub fn parents(self) -> impl Iterator<Item = (Self, Children)> {
        let made = move |kind: Self| {
            let children = kind.children.iter().copied();
            children
                .filter(move |children| children.group == self.group && children.name == self.name)
                .map(move |children| (kind, children))
        };
        Self::all().flat_map(made)
    }
}

/// Returns the titles of kinds, each once.
pub(crate) fn titles(kinds: impl Iterator<Item = Kind>) -> Vec<&'static str> {
    let mut titles: Vec<&str> = Vec::new();
    for title in kinds.map(Kind::title) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles
}

impl Kind {
    /// Returns its position in the list; kinds that were added come last.
    fn rank(self) -> usize {
        Self::all().position(|known| std::ptr::eq(known.0, self.0)).unwrap_or(usize::MAX)
    }
}

impl Deref for Kind {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        self.0
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
    }
}
