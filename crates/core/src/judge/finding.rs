//! Findings and their fixes.
//!
//! Places are symbolic ([`Pointer`]s); `report` turns them into lines and columns. Fixes are RFC 6902
//! operations: the webhook sends them as a JSON Patch, `lint --fix` turns them into edits of the file.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hash as _;

use serde::Serialize;

use crate::controllers::incident::Incident;
use crate::judge::fold::{self, FoldableProblem, Items};
use crate::judge::loss::Loss;
use crate::judge::rule_id::RuleId;
use crate::text::number::thousands;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;

/// How serious a finding is. Ordered: `Note < Warn < Deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not reported by the webhook. A value that the webhook fills in has this level.
    Note,
    /// The webhook admits the object with a warning.
    Warn,
    /// The webhook rejects the object.
    Deny,
}

impl Level {
    /// Returns the word that linters use for it: `note`, `warning` or `error`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warning",
            Self::Deny => "error",
        }
    }

    /// Returns the word in policies and in formats for programs: `note`, `warn` or `deny`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// Whether a change may be made without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// Does what the webhook would have done, or nothing that changes what the job computes.
    Safe,
    /// A guess at what the author wants; made only under `--unsafe-fixes`, never by the webhook.
    Unsafe,
}

/// A change that fixes a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// Operations, applied in order.
    pub ops: Vec<Op>,
    /// Whether it may be made without asking.
    pub safety: Safety,
}

/// Which part of the place a report points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The key, for "this mapping lacks something" (the whole mapping would fill the screen).
    Key,
    /// The value, for "this value is wrong".
    Value,
    /// Bytes of the value, which is a string: a word of a script. Start and end.
    Within(u32, u32),
}

/// Where another object comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A place in a file.
    File {
        /// The path as the user gave it.
        path: std::sync::Arc<str>,
        /// Byte range of the place in the file.
        span: std::ops::Range<usize>,
        /// The namespace that the object names; empty where it names none.
        namespace: String,
    },
    /// An object of the cluster.
    Cluster,
    /// An object that a release of its operator installs: `Trainer 2.3`.
    Release(&'static str),
}

/// A further place of a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Where.
    pub place: Place,
    /// A short description.
    pub text: Cow<'static, str>,
}

/// The place of a [`Label`].
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// In the object under review.
    Here(Pointer, Part),
    /// In another object.
    Elsewhere {
        /// Its kind and name: `PersistentVolumeClaim team-a/checkpoints`.
        object: String,
        /// Its source.
        source: Source,
    },
}

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule or check that reports it.
    pub rule: RuleId,
    /// How serious it is under the policy.
    pub level: Level,
    /// The primary place. It exists in the object.
    pub pointer: Pointer,
    /// Which part of that place is meant.
    pub part: Part,
    /// The message: no period, identifiers in backticks.
    pub message: Cow<'static, str>,
    /// What to do about it; no period.
    pub help: Cow<'static, str>,
    /// The field that it is about, as Kubernetes writes it; it may not exist yet.
    pub path: Pointer,
    /// Further places.
    pub labels: Vec<Label>,
    /// The change that fixes it.
    pub fix: Option<Fix>,
    /// Whether the webhook makes the change on CREATE (the policy's action for the rule is `fill`).
    pub fills: bool,
    /// The items of a list that it is about, if there are many: pointer and path are those of the first.
    pub items: Option<Box<Items>>,
    /// What has to happen for it to matter, where its rule is about one incident.
    pub incident: Option<Incident>,
    /// What it costs when that happens.
    pub loss: Option<Loss>,
}

/// Maximum operations of a finding about many items: with more, no fix is offered.
pub(crate) const MOST_OPS: usize = 256;

impl Finding {
    /// Names the field a person would look for, when it is not the primary place itself (a missing field).
    pub fn field(&mut self, path: Pointer) -> &mut Self {
        self.path = path;
        self
    }

    /// Points at the key instead of the value.
    pub fn at_key(&mut self) -> &mut Self {
        self.part = Part::Key;
        self
    }

    /// Points at a part of the value, if it is known which.
    pub(crate) fn at(&mut self, part: Part) -> &mut Self {
        self.part = part;
        self
    }

    /// Sets the help.
    pub(crate) fn help(&mut self, text: impl Into<Cow<'static, str>>) -> &mut Self {
        self.help = text.into();
        self
    }

    /// Adds a further place.
    pub fn label(&mut self, place: Place, text: impl Into<Cow<'static, str>>) -> &mut Self {
        self.labels.push(Label { place, text: text.into() });
        self
    }

    /// Sets what it costs, if that is known.
    pub(crate) fn costs(&mut self, loss: impl Into<Option<Loss>>) -> &mut Self {
        self.loss = loss.into();
        self
    }

    /// Sets what has to happen for it to matter, where that is not what its rule says.
    pub(crate) fn about(&mut self, incident: Incident) -> &mut Self {
        self.incident = Some(incident);
        self
    }

    /// Lowers the level to at most `level`.
    pub(crate) fn at_most(&mut self, level: Level) -> &mut Self {
        self.level = self.level.min(level);
        self
    }

    /// Raises the level to at least `level`.
    pub(crate) fn at_least(&mut self, level: Level) -> &mut Self {
        self.level = self.level.max(level);
        self
    }

    /// Gives the finding a level instead of filling the value in, if the rule's action is `fill`.
    pub(crate) fn instead_of_fill(&mut self, level: Level) -> &mut Self {
        if self.fills {
            self.fills = false;
            self.level = level;
        }
        self
    }

    /// Moves it from an object inside another one, at a place, to the outer object. Its `path` stays that in the
    /// inner object.
    pub fn move_below(&mut self, at: &Pointer) {
        if at.is_root() {
            return;
        }
        self.pointer = at.join(&self.pointer);
        if let Some(items) = &mut self.items
            && let Some((_, last)) = &mut items.last
        {
            *last = at.join(last);
        }
        for label in &mut self.labels {
            if let Place::Here(pointer, _) = &mut label.place {
                *pointer = at.join(pointer);
            }
        }
        for op in self.fix.iter_mut().flat_map(|fix| &mut fix.ops) {
            op.move_below(at);
        }
    }

    /// Shares equal steps of its places with those of another finding: many findings may be kept.
    pub fn share(&mut self, other: &Pointer, path: &Pointer) {
        self.pointer = self.pointer.sharing(other);
        self.path = self.path.sharing(path);
        for label in &mut self.labels {
            if let Place::Here(pointer, _) = &mut label.place {
                *pointer = pointer.sharing(&self.pointer);
            }
        }
    }

    /// Returns how many items it is about.
    #[must_use]
    pub fn count(&self) -> usize {
        self.items.as_ref().map_or(1, |items| items.count)
    }

    /// Returns its message without the places of its items.
    pub(crate) fn words(&self) -> &str {
        self.items.as_ref().and_then(|items| items.words.as_deref()).unwrap_or(&self.message)
    }

    /// Tells whether the webhook writes its fix into the object.
    #[must_use]
    pub(crate) fn is_filled_in(&self) -> bool {
        self.fills && self.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe)
    }

    /// Tells whether it is not filled in only because of too many places.
    #[must_use]
    pub(crate) fn fills_too_much(&self) -> bool {
        self.fills && self.items.as_ref().is_some_and(|items| items.unfixed)
    }

    /// Returns the first and the last place of its items, and their number, as text.
    pub(crate) fn range(&self) -> Option<String> {
        let items = self.items.as_ref()?;
        let (first, last, count) = (&self.path, items.of_last(&self.path), thousands(items.count));
        let first_of = if items.varied { "; these are the words of the first" } else { "" };
        Some(match *first == last {
            true => format!("{first} ({count} times{first_of})"),
            false => format!("{first} to {last} ({count} items{first_of})"),
        })
    }

    /// Names its items in the message, if there are many, and labels the last one.
    pub(crate) fn tell_items(&mut self) {
        let Some(range) = self.range() else { return };
        let path = format!("{}: ", self.path);
        let Some(items) = &mut self.items else { return };
        let is_new = items.words.is_none();
        let words = items.words.get_or_insert_with(|| self.message.replacen(&path, "", 1).into());
        self.message = format!("{range}: {words}").into();
        let part = if self.part == Part::Key { Part::Key } else { Part::Value };
        let text = format!("the last of {}", thousands(items.count));
        let (last, at) = (items.of_last(&self.path), items.of_last(&self.pointer));
        items.last = Some((last, at.clone()));
        if !is_new {
            self.labels.pop();
        }
        self.labels.push(Label { place: Place::Here(at, part), text: text.into() });
    }

    /// Attaches the change that fixes it.
    pub fn fix(&mut self, safety: Safety, ops: Vec<Op>) -> &mut Self {
        self.fix = Some(Fix { ops, safety });
        self
    }
}

impl FoldableProblem for Finding {
    fn path(&self) -> &Pointer {
        &self.path
    }

    fn sort(&self, hasher: &mut DefaultHasher) {
        (&self.rule, self.level, self.fills).hash(hasher);
    }

    fn words(&self, hasher: &mut DefaultHasher) {
        fold::words(&self.message, &self.path, hasher);
        fold::words(&self.help, &self.path, hasher);
        (self.part == Part::Key).hash(hasher);
        self.fix.as_ref().map(|fix| fix.safety).hash(hasher);
    }

    fn items(&mut self) -> &mut Option<Box<Items>> {
        &mut self.items
    }

    /// A fix holds for all, or is not offered.
    fn take_in(&mut self, other: &mut Self) {
        let ops = match (&mut self.fix, other.fix.take()) {
            (None, None) => return,
            (Some(ours), Some(theirs))
                if ours.safety == theirs.safety && ours.ops.len() + theirs.ops.len() <= MOST_OPS =>
            {
                ours.ops.extend(theirs.ops);
                return;
            }
            (fix, _) => fix.take(),
        };
        drop(ops);
        if let Some(items) = &mut self.items {
            items.unfixed = true;
        }
    }

    fn is_open(&self) -> bool {
        self.fix.is_some()
    }
}

/// Joins words for a sentence: `a, b and c`.
#[must_use]
pub fn listed(words: &[String], conjunction: &str) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Puts findings into their total order: place in the object, rule, message.
pub(crate) fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        (&a.pointer, &a.rule, &a.path, &a.message).cmp(&(&b.pointer, &b.rule, &b.path, &b.message))
    });
}
