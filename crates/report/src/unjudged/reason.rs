//! The reasons why something was not judged.

use std::sync::Arc;

use super::quoted;
use jobgate_core::kinds::Likeness;

/// Why something was not judged. The order is that of reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A batch kind that Jobgate does not judge.
    Kind,
    /// Of an unknown kind that runs batch pods, or pods with accelerators.
    Lookalike(Likeness),
    /// Similar to a batch kind, but of an unknown `kind` or `apiVersion`.
    Misspelled,
    /// Of a version that API servers no longer serve.
    NotServed,
    /// A partial object. Missing fields were not reported.
    Partial,
    /// A patch that a kustomization lists.
    Patch(Kustomized),
    /// A kustomization that changes batch work, or includes files that were not linted.
    Kustomization(Kustomized),
    /// A Helm chart in this directory.
    Chart(Arc<str>),
    /// A Helm chart in this directory that has templates, or dependencies, which were not linted.
    ChartParts(Arc<str>),
    /// A chart or kustomization that could not be rendered.
    NotRendered(NotRendered),
    /// A chart in this directory that was rendered without these dependencies, which are not there.
    Dependencies(Arc<str>, Box<str>),
    /// A template of a rendered chart that rendered to nothing.
    NoOutput(Arc<str>),
    /// A template of something else.
    Template,
    /// An object with a placeholder: the field.
    Placeholder(Box<str>),
    /// A batch object inside another object: the kind of the other one.
    Inside(Box<str>),
    /// A document that could not be read.
    Unreadable,
    /// A file beyond the limit.
    TooLarge,
    /// A path that could not be read: why.
    UnreadablePath(Box<str>),
    /// A file that `--fix` could not change: why. Its unchanged text was judged.
    NotWritten(Box<str>),
    /// A path in which there is nothing to judge.
    Nothing,
    /// A claim of this name with unknown access modes that may matter.
    Claim(Box<str>),
    /// A training runtime of this name that is unknown, and has the job's pods.
    Runtime(Box<str>),
    /// A namespace that the registration of the webhook excludes: what would keep it out.
    Excluded(Box<str>),
    /// Objects of a batch kind in a cluster, with their number if known.
    InCluster(Box<str>, Option<u64>),
    /// Something of a cluster that could not be looked up.
    Unknown(Box<str>),
    /// Objects of a cluster that should have been judged and could not be listed.
    NotListed(Box<str>),
}

/// A kustomization, and how to see its output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kustomized {
    /// The path of its file.
    pub path: Arc<str>,
    /// How it is rendered.
    pub render: Render,
}

/// How a kustomization is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Render {
    /// By itself.
    Build,
    /// By itself, where kustomize may call Helm.
    WithHelm,
    /// By another that includes it: it is a component.
    ByAnother,
}

/// A chart or kustomization that could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotRendered {
    /// Which of the two.
    pub thing: Rendered,
    /// Its directory.
    pub dir: Arc<str>,
    /// Why not.
    pub why: Box<str>,
    /// What to do.
    pub help: Box<str>,
    /// Whether it fails the run: rendering was tried, or requested explicitly, and failures are not allowed there.
    pub failed: bool,
}

/// What is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rendered {
    /// A Helm chart.
    Chart,
    /// A kustomization.
    Kustomization,
}

impl Rendered {
    /// Returns its name, which is also the reason's word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Chart => "chart",
            Self::Kustomization => "kustomization",
        }
    }
}

impl Kustomized {
    /// Returns the directory that kustomize is called with.
    pub fn dir(&self) -> &str {
        self.path.rsplit_once('/').map_or(".", |(dir, _)| dir)
    }

    /// Returns the command that shows all errors of one that does not render.
    pub fn again(&self) -> String {
        let dir = quoted(self.dir());
        let flag = if self.render == Render::WithHelm { "--enable-helm " } else { "" };
        format!("`kubectl kustomize {flag}{dir}` shows all of it")
    }

    /// Returns how to have its output judged.
    pub fn help(&self) -> String {
        let dir = quoted(self.dir());
        match self.render {
            Render::Build => {
                format!("lint the rendered manifests: `kubectl kustomize {dir} | jobgate lint -`")
            }
            Render::WithHelm => {
                format!(
                    "lint the rendered manifests: `kubectl kustomize --enable-helm {dir} | jobgate lint -`"
                )
            }
            Render::ByAnother => {
                "lint the rendered manifests of a kustomization that uses this component".to_owned()
            }
        }
    }
}

impl Reason {
    /// Returns the word for it in machine-readable formats.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Lookalike(_) => "lookalike",
            Self::Misspelled => "misspelled-kind",
            Self::NotServed => "not-served",
            Self::Partial => "partial",
            Self::Patch(_) => "patch",
            Self::Kustomization(_) => "kustomization",
            Self::Chart(_) => "chart",
            Self::ChartParts(_) => "chart-parts",
            Self::NotRendered(not) => not.thing.word(),
            Self::Dependencies(..) => "chart-dependencies",
            Self::NoOutput(_) => "no-output",
            Self::Template => "template",
            Self::Placeholder(_) => "placeholder",
            Self::Inside(_) => "inside",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too-large",
            Self::UnreadablePath(_) => "unreadable-path",
            Self::NotWritten(_) => "not-written",
            Self::Nothing => "nothing",
            Self::Claim(_) => "claim",
            Self::Runtime(_) => "runtime",
            Self::Excluded(_) => "namespace",
            Self::InCluster(..) => "kind-in-cluster",
            Self::Unknown(_) => "not-looked-up",
            Self::NotListed(_) => "not-listed",
        }
    }

    /// Tells whether the run itself failed: the exit code is 2, and standard error says why.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::UnreadablePath(_) | Self::NotWritten(_) | Self::NotListed(_))
            || self.has_failed()
    }

    /// Tells whether it is a rendering for which the run fails.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::NotRendered(not) if not.failed)
    }

    /// Returns the prefix of the message.
    pub(in super::super) fn what(&self) -> &'static str {
        if matches!(self, Self::NotWritten(_)) { "not fixed" } else { "not judged" }
    }

    /// Tells whether a finding reports the same.
    pub fn is_found(&self) -> bool {
        matches!(
            self,
            Self::Misspelled
                | Self::NotServed
                | Self::Chart(_)
                | Self::Template
                | Self::Placeholder(_)
                | Self::Unreadable
                | Self::TooLarge
        )
    }

    /// Returns its heading in the human format.
    pub(in super::super) fn heading(&self) -> &'static str {
        match self {
            Self::Kind | Self::InCluster(..) => "batch kinds that Jobgate does not judge",
            Self::Lookalike(Likeness::Trains) => "kinds for services that run training",
            Self::Lookalike(_) => "unknown kinds that run batch pods",
            Self::Misspelled => "kinds that no API server knows",
            Self::NotServed => "versions that are no longer served",
            Self::Partial => "partial objects: the rest may be elsewhere",
            Self::Patch(_) => "kustomize patches",
            Self::Kustomization(_) => "kustomizations that are not rendered",
            Self::Chart(_) => "charts that are not rendered",
            Self::ChartParts(_) => "charts with templates or dependencies that were not linted",
            Self::NotRendered(not) => match not.thing {
                Rendered::Chart => "charts that could not be rendered",
                Rendered::Kustomization => "kustomizations that could not be rendered",
            },
            Self::Dependencies(..) => "charts that were rendered without their dependencies",
            Self::NoOutput(_) => "templates from which nothing is rendered",
            Self::Template => "templates that are not rendered",
            Self::Placeholder(_) => "unresolved placeholders",
            Self::Inside(_) => "batch objects inside other objects",
            Self::Unreadable => "documents that cannot be read",
            Self::TooLarge => "files that are too large",
            Self::UnreadablePath(_) => "paths that cannot be read",
            Self::NotWritten(_) => "files that cannot be written",
            Self::Nothing => "paths with nothing to judge",
            Self::Claim(_) => "claims with unknown access modes",
            Self::Runtime(_) => "runtimes that are unknown",
            Self::Excluded(_) => "namespaces that the webhook excludes",
            Self::Unknown(_) => "what could not be looked up",
            Self::NotListed(_) => "what could not be listed",
        }
    }

    /// Returns the singular noun that the summary counts and its state; nothing for objects, which it counts
    /// by kind.
    pub(super) fn noun(&self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Kind
            | Self::Lookalike(_)
            | Self::Misspelled
            | Self::NotServed
            | Self::Partial
            | Self::Patch(_)
            | Self::Inside(_)
            | Self::InCluster(..) => {
                return None;
            }
            Self::Kustomization(_) => ("kustomization", "not rendered"),
            Self::Chart(_) | Self::ChartParts(_) => ("chart", "not rendered"),
            Self::NotRendered(not) => (not.thing.word(), "not rendered"),
            Self::Dependencies(..) => ("chart", "without dependencies"),
            Self::NoOutput(_) => ("template", "without output"),
            Self::Template => ("template", "not rendered"),
            Self::Placeholder(_) => ("object", "with placeholders"),
            Self::Unreadable => ("document", "not readable"),
            Self::TooLarge => ("file", "too large"),
            Self::UnreadablePath(_) => ("path", "not readable"),
            Self::NotWritten(_) => ("file", "not written"),
            Self::Nothing => ("path", "with nothing to judge"),
            Self::Claim(_) => ("claim", "unknown"),
            Self::Runtime(_) => ("runtime", "unknown"),
            Self::Excluded(_) => ("namespace", "left out"),
            Self::Unknown(_) => ("look-up", "failed"),
            Self::NotListed(_) => ("list", "not readable"),
        })
    }

    pub(super) fn rank(&self) -> usize {
        match self {
            Self::Kustomization(_) => 0,
            Self::Chart(_) | Self::ChartParts(_) => 1,
            Self::NotRendered(not) => usize::from(not.thing == Rendered::Chart),
            Self::Dependencies(..) => 1,
            Self::Template | Self::NoOutput(_) => 2,
            Self::Placeholder(_) => 8,
            Self::Unreadable => 3,
            Self::TooLarge | Self::UnreadablePath(_) | Self::NotWritten(_) => 4,
            Self::Claim(_) | Self::Runtime(_) => 5,
            Self::Excluded(_) => 6,
            Self::Unknown(_) | Self::NotListed(_) => 7,
            _ => 9,
        }
    }
}
