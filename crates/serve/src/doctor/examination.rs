//! The results of the doctor: checks, their outcomes, and notes.

use super::observations::{self, Observed, Place, Unread};

/// How a check ends, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// As expected.
    Ok,
    /// Something could not be read.
    NotChecked,
    /// It works, but something is wrong or will soon be.
    Warning,
    /// Jobs are not judged, or may be rejected without a reason.
    Problem,
}

impl Status {
    /// All, the worst first: the order of the report.
    pub(crate) const ALL: [Self; 4] = [Self::Problem, Self::Warning, Self::NotChecked, Self::Ok];

    /// Returns the human-readable words.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotChecked => "not checked",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Returns the word in JSON.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotChecked => "not-checked",
            other => other.as_str(),
        }
    }
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub(crate) status: Status,
    /// The finding, without a final period.
    pub(crate) text: String,
    /// The remedy, if it differs from the one of the check.
    pub(crate) remedy: Option<String>,
}

impl Note {
    pub(super) fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), remedy: None }
    }

    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self::new(Status::Warning, text)
    }

    pub(super) fn problem(text: impl Into<String>) -> Self {
        Self::new(Status::Problem, text)
    }

    pub(super) fn not_checked(text: impl Into<String>) -> Self {
        Self::new(Status::NotChecked, text)
    }

    /// Something could not be read; nothing is wrong with the installation.
    pub(super) fn unread(unread: &Unread) -> Self {
        Self::not_checked(unread.to_string()).remedy(unread.remedy())
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The notes of a check, at least one; or the note that ends it early.
pub(super) type CheckOutcome = Result<Vec<Note>, Note>;

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Kebab-case id.
    pub id: &'static str,
    /// One line: what is expected.
    pub title: &'static str,
    /// Why, and what is checked: one paragraph of Markdown.
    pub about: &'static str,
    /// The remedy: a sentence or a command. `{ns}`, `{deployment}`, `{service}`, `{secret}`, `{policy}` (the
    /// ConfigMap), `{key}` (in it), `{mutating}` and `{validating}` stand for the names of the installation.
    pub(crate) remedy: &'static str,
    pub(super) judge: fn(&Observed) -> CheckOutcome,
}

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The check.
    pub id: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// The worst of the notes.
    pub status: Status,
    /// The notes of that status, and all notes that are worse than ok.
    pub finding: String,
    /// The remedy, if one is needed.
    pub remedy: Option<String>,
}

/// The outcomes of all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// One outcome for each check, the worst first, then in the order of [`CHECKS`](super::CHECKS).
    pub outcomes: Vec<Outcome>,
}

impl Examination {
    /// Returns the number of checks with this status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.status == status).count()
    }

    /// Returns the worst status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.outcomes.iter().map(|outcome| outcome.status).max().unwrap_or(Status::Ok)
    }
}

impl Check {
    /// Returns the remedy for an installation with the names that `deploy/base` gives.
    #[must_use]
    pub fn usual_remedy(&self) -> String {
        let policy = (observations::POLICY.0.to_owned(), observations::POLICY.1.to_owned());
        named(self.remedy, &Place::default(), observations::DEPLOYMENT, observations::SECRET, &policy)
    }

    pub(super) fn outcome(&self, observed: &Observed) -> Outcome {
        let notes = (self.judge)(observed).unwrap_or_else(|note| vec![note]);
        let status = notes.iter().map(|note| note.status).max().unwrap_or(Status::NotChecked);
        let mut shown: Vec<&Note> =
            notes.iter().filter(|note| note.status == status || note.status > Status::Ok).collect();
        shown.sort_by_key(|note| std::cmp::Reverse(note.status));
        let finding = shown.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
        // The remedy of the worst note: the others may need none.
        let mut worst = shown.iter().filter(|note| note.status == status);
        let remedy = (status != Status::Ok)
            .then(|| worst.find_map(|note| note.remedy.as_deref()).unwrap_or(self.remedy));
        let remedy = remedy.map(|text| {
            named(
                text,
                &observed.place,
                &observed.service_name(),
                &observed.secret_name(),
                &observed.policy_source(),
            )
        });
        Outcome { id: self.id, title: self.title, status, finding, remedy }
    }
}

/// Fills the names of the installation into a remedy.
pub(super) fn named(
    remedy: &str,
    place: &Place,
    service: &str,
    secret: &str,
    (policy, key): &(String, String),
) -> String {
    // A dot ends a name in a JSONPath.
    let key = key.replace('.', "\\.");
    let names = [
        ("{ns}", place.namespace.as_str()),
        ("{deployment}", observations::DEPLOYMENT),
        ("{service}", service),
        ("{secret}", secret),
        ("{policy}", policy),
        ("{key}", &key),
        ("{mutating}", &place.mutating),
        ("{validating}", &place.validating),
    ];
    names.iter().fold(remedy.to_owned(), |text, (mark, name)| text.replace(mark, name))
}

/// Maximum length of quoted text, in characters.
const MAX_QUOTED_CHARS: usize = 400;

/// Quotes a text of the API server, on one line.
pub(super) fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
