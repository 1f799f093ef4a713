//! The doctor: whether the webhook of a cluster is fine, and what to do where it is not.
//!
//! ```text
//! API server ──> observe ──> Observed ──> CHECKS (pure) ──> Examination ──> human, json
//!                              └─ every look-up is known, absent, or unread and why
//! ```
//!
//! A check is a row of [`CHECKS`]: an id, what must hold, why that matters, what to do, and a function from
//! what was observed to notes. What could not be read is never taken for fine: the check then says that it
//! was not made, and which permission it takes. Nothing in the cluster is changed; the two canaries are dry
//! runs. To add a check: write its function below `checks/` and its row in [`CHECKS`].

mod checks;
pub mod observe;
pub mod observed;
mod report;

use std::fmt::Write as _;

pub use self::checks::CHECKS;
pub use self::report::{write_human, write_json};

use self::observed::{Observed, Place, Unread};

/// How a check ends, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// What must hold does.
    Ok,
    /// What it takes to tell could not be read.
    NotChecked,
    /// It works, but something is not as it should be, or will not stay so.
    Warning,
    /// Jobs are not judged, or may be refused for no reason of theirs.
    Problem,
}

impl Status {
    /// All, from the worst: the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Problem, Self::Warning, Self::NotChecked, Self::Ok];

    /// Returns the words for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotChecked => "not checked",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Returns the word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotChecked => "not-checked",
            other => other.as_str(),
        }
    }
}

/// One thing that a check has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub status: Status,
    /// What was found; no period.
    pub text: String,
    /// What to do, where that is not what the check's row says.
    pub remedy: Option<String>,
}

impl Note {
    fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), remedy: None }
    }

    fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    fn warning(text: impl Into<String>) -> Self {
        Self::new(Status::Warning, text)
    }

    fn problem(text: impl Into<String>) -> Self {
        Self::new(Status::Problem, text)
    }

    fn not_checked(text: impl Into<String>) -> Self {
        Self::new(Status::NotChecked, text)
    }

    /// What is missing is to be allowed, or made reachable; nothing is wrong with the installation.
    fn unread(unread: &Unread) -> Self {
        Self::not_checked(unread.to_string()).remedy(unread.remedy())
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// What a check says: its notes, at least one; or the one note that keeps it from going on.
type Judged = Result<Vec<Note>, Note>;

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Kebab-case id.
    pub id: &'static str,
    /// One line: what must hold.
    pub title: &'static str,
    /// Why, and what it looks at: one paragraph of Markdown.
    pub about: &'static str,
    /// What to do where it does not hold: a sentence or a command. `{ns}`, `{deployment}`, `{service}`,
    /// `{secret}`, `{policy}` (the ConfigMap), `{key}` (in it), `{mutating}` and `{validating}` stand for the
    /// names of the installation.
    pub remedy: &'static str,
    judge: fn(&Observed) -> Judged,
}

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The check.
    pub id: &'static str,
    /// What it says must hold.
    pub title: &'static str,
    /// The worst of the notes.
    pub status: Status,
    /// What was found: notes of that status, and with them all that are worse than fine.
    pub finding: String,
    /// What to do; nothing where nothing is to be done.
    pub remedy: Option<String>,
}

/// What the doctor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// One outcome for each check, the worst first, otherwise in the order of [`CHECKS`].
    pub outcomes: Vec<Outcome>,
}

impl Examination {
    /// Returns how many checks ended so.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.status == status).count()
    }

    /// Returns the worst end of a check.
    #[must_use]
    pub fn status(&self) -> Status {
        self.outcomes.iter().map(|outcome| outcome.status).max().unwrap_or(Status::Ok)
    }
}

/// Makes every check.
#[must_use]
pub fn examine(observed: &Observed) -> Examination {
    let mut outcomes: Vec<Outcome> = CHECKS.iter().map(|check| check.outcome(observed)).collect();
    // Stable: within a status the order is that of the table, which goes from the outside in.
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.status));
    Examination { outcomes }
}

impl Check {
    fn outcome(&self, observed: &Observed) -> Outcome {
        let notes = (self.judge)(observed).unwrap_or_else(|note| vec![note]);
        let status = notes.iter().map(|note| note.status).max().unwrap_or(Status::NotChecked);
        let mut told: Vec<&Note> =
            notes.iter().filter(|note| note.status == status || note.status > Status::Ok).collect();
        told.sort_by_key(|note| std::cmp::Reverse(note.status));
        let finding = told.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
        // What to do about the worst: the rest may need nothing.
        let mut worst = told.iter().filter(|note| note.status == status);
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

/// Puts the installation's names into a remedy.
fn named(
    remedy: &str,
    place: &Place,
    service: &str,
    secret: &str,
    (policy, key): &(String, String),
) -> String {
    // In a JSONPath a dot ends a name.
    let key = key.replace('.', "\\.");
    let names = [
        ("{ns}", place.namespace.as_str()),
        ("{deployment}", observed::DEPLOYMENT),
        ("{service}", service),
        ("{secret}", secret),
        ("{policy}", policy),
        ("{key}", &key),
        ("{mutating}", &place.mutating),
        ("{validating}", &place.validating),
    ];
    names.iter().fold(remedy.to_owned(), |text, (mark, name)| text.replace(mark, name))
}

/// The longest text of somebody else's that is shown, in characters.
const LONGEST: usize = 400;

/// Returns a text of the API server's, or of who speaks through it, in one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The part of the page that people write.
const PAGE: &str = include_str!("doctor/page.md");

/// Returns `docs/doctor.md`: what is written by hand, and the checks.
#[must_use]
pub fn page() -> String {
    let mut out = format!(
        "<!-- Made by `jobgate generate` from src/serve/doctor/page.md and src/serve/doctor/checks.rs. Edit those. -->\n\n{PAGE}\n## The checks\n"
    );
    for check in CHECKS {
        let policy = (observed::POLICY.0.to_owned(), observed::POLICY.1.to_owned());
        let remedy =
            as_code(&named(check.remedy, &Place::default(), observed::DEPLOYMENT, observed::SECRET, &policy));
        let _ = write!(
            out,
            "\n### {}\n\n{}. {}.\n\n*What to do:* {remedy}.\n",
            check.id, check.title, check.about
        );
    }
    out
}

/// Sets the commands of a remedy, which stand behind a colon, as code.
fn as_code(remedy: &str) -> String {
    match remedy.split_once(": ") {
        Some((words, command)) => format!("{words}: `{command}`"),
        None => remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests;
