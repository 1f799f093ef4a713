//! An error in a file of settings, with its place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::text::lines::{Lines, Position, character_at};
use crate::text::number::plural;

/// One thing that is wrong with a file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The message, without a period.
    pub message: String,
    /// What to do about it, where there is more to say; no period.
    pub help: Option<String>,
    /// Where: bytes of the source, inside it and on character boundaries.
    pub span: Range<usize>,
    /// Where it starts.
    pub position: Position,
}

/// Everything that is wrong with a file of settings, in the order of the source. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsErrors {
    /// The name of the source: the path of its file.
    pub name: String,
    /// The source.
    pub source: Arc<str>,
    /// Its errors.
    pub errors: Vec<SettingsError>,
    /// How many more there are.
    pub(crate) more: usize,
}

impl SettingsError {
    pub(super) fn new(
        source: &str,
        lines: &Lines<'_>,
        span: Range<usize>,
        message: String,
        help: Option<String>,
    ) -> Self {
        let start = character_at(source, span.start);
        Self {
            message,
            help,
            span: start..character_at(source, span.end).max(start),
            position: lines.position(start),
        }
    }
}

impl SettingsErrors {
    /// Returns how many errors the file has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.errors.len() + self.more
    }

    fn more(&self) -> Option<String> {
        let Self { name, more, .. } = self;
        (*more > 0).then(|| format!("{name}: {}", plural(*more, "more error")))
    }

    /// Returns the errors with the lines of source they are about, for a person.
    #[must_use]
    pub fn snippets(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for error in &self.errors {
            let snippet = Snippet::source(&*self.source)
                .path(self.name.as_str())
                .annotation(AnnotationKind::Primary.span(error.span.clone()));
            let group = Level::ERROR.primary_title(error.message.as_str()).element(snippet);
            let group = match &error.help {
                Some(help) => group.element(Level::HELP.message(help.as_str())),
                None => group,
            };
            out += &renderer.render(&[group]);
            out += "\n\n";
        }
        if let Some(more) = self.more() {
            out += &more;
            out += "\n\n";
        }
        out
    }
}

impl fmt::Display for SettingsErrors {
    /// Writes one line for each error: `file:line:column: message; help`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let SettingsError { message, help, position, .. } = error;
            let break_before = if index == 0 { "" } else { "\n" };
            write!(f, "{break_before}{}:{}:{}: {message}", self.name, position.line, position.column)?;
            if let Some(help) = help {
                write!(f, "; {help}")?;
            }
        }
        self.more().map_or(Ok(()), |more| write!(f, "\n{more}"))
    }
}

impl std::error::Error for SettingsErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str, span: Range<usize>, message: &str, help: Option<&str>) -> SettingsError {
        SettingsError::new(
            source,
            &Lines::new(source.as_bytes()),
            span,
            message.to_owned(),
            help.map(str::to_owned),
        )
    }

    #[test]
    fn positions_count_characters_from_one() {
        let source = "a: ä\nbé: ?\n";
        let at = |needle: &str| {
            let start = source.find(needle).unwrap();
            error(source, start..start + needle.len(), "", None)
        };
        assert_eq!(at("a").position, Position { line: 1, column: 1 });
        assert_eq!(at("ä").position, Position { line: 1, column: 4 });
        assert_eq!(at("?").position, Position { line: 2, column: 5 });
    }

    #[test]
    fn spans_stay_inside_the_source_and_on_characters() {
        assert_eq!(error("ä", 1..7, "", None).span, 0..2);
        assert_eq!(error("", 3..9, "", None).span, 0..0);
        let backwards = Range { start: 2, end: 1 };
        assert_eq!(error("abc", backwards, "", None).span, 2..2);
    }

    fn errors() -> SettingsErrors {
        let source = "spec:\n  rulez: {}\n";
        let first = error(source, 8..13, "unknown key `rulez`", Some("did you mean `rules`?"));
        let other = error(source, 0..4, "nothing of use", None);
        SettingsErrors {
            name: "p.yaml".to_owned(),
            source: source.into(),
            errors: vec![first, other],
            more: 0,
        }
    }

    #[test]
    fn display_is_one_line_each() {
        assert_eq!(
            errors().to_string(),
            "p.yaml:2:3: unknown key `rulez`; did you mean `rules`?\np.yaml:1:1: nothing of use"
        );
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let errors = SettingsErrors { more: 3, ..errors() };
        assert!(errors.to_string().ends_with("nothing of use\np.yaml: 3 more errors"));
        assert!(errors.snippets(false).ends_with("\n\np.yaml: 3 more errors\n\n"));
        assert_eq!(errors.count(), 5);
    }

    #[test]
    fn snippets_show_the_source() {
        insta::assert_snapshot!(errors().snippets(false).trim_end(), @r"
        error: unknown key `rulez`
         --> p.yaml:2:3
          |
        2 |   rulez: {}
          |   ^^^^^
          |
          = help: did you mean `rules`?

        error: nothing of use
         --> p.yaml:1:1
          |
        1 | spec:
          | ^^^^
        ");
        assert!(errors().snippets(true).contains('\u{1b}'));
    }
}
