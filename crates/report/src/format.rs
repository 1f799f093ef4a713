//! The formats of a report, and their names.

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: source lines, what is wrong with them, and what to do.
    Human,
    /// One line a finding: path, line, column, rule and message.
    Concise,
    /// One JSON document with everything in it (docs/json.md).
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for test reports.
    Junit,
    /// GitHub workflow commands, which annotate the changed lines.
    Github,
    /// GitLab code quality report.
    Gitlab,
    /// Markdown, for a comment of a pull request or the summary of a CI job.
    Markdown,
    /// One HTML page with charts and filters, to send round.
    Html,
    /// Reports of openreports.io/v1alpha1, for dashboards of clusters.
    OpenReports,
    /// PolicyReports of wgpolicyk8s.io/v1alpha2, which came before OpenReports.
    PolicyReport,
}

impl Format {
    /// All formats, in the order in which they are listed.
    pub const ALL: [Self; 11] = [
        Self::Human,
        Self::Concise,
        Self::Json,
        Self::Sarif,
        Self::Junit,
        Self::Github,
        Self::Gitlab,
        Self::Markdown,
        Self::Html,
        Self::OpenReports,
        Self::PolicyReport,
    ];

    /// Returns the name on the command line, and a description of one line.
    #[must_use]
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Human => ("human", "For people: source lines, what is wrong with them, and what to do"),
            Self::Concise => ("concise", "One line a finding: path, line, column, rule and message"),
            Self::Json => ("json", "One JSON document with everything in it (docs/json.md)"),
            Self::Sarif => ("sarif", "SARIF 2.1.0, for code scanning"),
            Self::Junit => ("junit", "JUnit XML, for test reports"),
            Self::Github => ("github", "GitHub workflow commands, which annotate the changed lines"),
            Self::Gitlab => ("gitlab", "GitLab code quality report"),
            Self::Markdown => {
                ("markdown", "Markdown, for a comment of a pull request or the summary of a CI job")
            }
            Self::Html => ("html", "One HTML page with charts and filters, to send round"),
            Self::OpenReports => {
                ("openreports", "Reports of openreports.io/v1alpha1, for dashboards of clusters")
            }
            Self::PolicyReport => {
                ("policy-report", "PolicyReports of wgpolicyk8s.io/v1alpha2, which came before OpenReports")
            }
        }
    }

    /// Tells whether the format reads [`Report::sources`](crate::Report::sources), for excerpts or for columns in other
    /// units.
    #[must_use]
    pub fn reads_sources(self) -> bool {
        matches!(self, Self::Human | Self::Sarif | Self::Html)
    }

    /// Tells whether the format has a form of its own for statistics.
    #[must_use]
    pub fn has_statistics(self) -> bool {
        matches!(self, Self::Human | Self::Json)
    }

    /// Tells whether the format names the [configuration](crate::Report::configuration).
    #[must_use]
    pub fn names_configuration(self) -> bool {
        matches!(self, Self::Human | Self::Json | Self::Sarif)
    }
}
