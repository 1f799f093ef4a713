//! Findings as diagnostics.

use std::path::Path;

use gen_lsp_types::{
    Code, CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Position,
    Range, Uri,
};

use super::document::{DocumentType, LspDocument, OpenDocuments};
use super::text::{self, Encoding};
use super::uri;
use crate::cli::configuration::Configuration;
use crate::judge::finding::Level;
use crate::judge::policy::Policy;
use crate::judge::settings::SettingsErrors;
use crate::local::lint::{Input, path_text, text};
use crate::report::page;
use crate::report::{self, Located, Unjudged};
use crate::text::lines::Lines;

/// Maximum diagnostics of a document: an editor with more than these is of no use.
const MAX_DIAGNOSTICS: usize = 2000;
/// Larger files are not read for the columns of a place in them.
const MAX_RELATED_BYTES: u64 = 1 << 20;
/// The source of all diagnostics.
pub(super) const SOURCE: &str = "jobgate";
/// The code for what was not judged.
const NOT_JUDGED: &str = "not-judged";
/// The code for errors in settings.
const SETTINGS: &str = "settings";

/// The text that diagnostics are about.
pub(super) struct DiagnosticContext<'d> {
    pub(super) uri: &'d str,
    pub(super) document: &'d LspDocument,
    pub(super) documents: &'d OpenDocuments,
    pub(super) encoding: Encoding,
}

impl DiagnosticContext<'_> {
    /// Returns the diagnostics of findings, and of what was not judged.
    pub(super) fn diagnostics(&self, findings: &[Located], unjudged: &[Unjudged]) -> Vec<Diagnostic> {
        let lines = Lines::new(self.document.text.as_bytes());
        let mut out: Vec<Diagnostic> =
            findings.iter().take(MAX_DIAGNOSTICS).map(|located| self.finding(located, &lines)).collect();
        let rest = unjudged.iter().filter(|unjudged| !unjudged.reason.is_found());
        let rest = rest.filter_map(|unjudged| {
            let span = unjudged.location.as_ref()?.span.clone();
            let message = format!("not judged: {}", unjudged.message());
            Some(Diagnostic {
                range: text::range(&lines, &span, self.encoding),
                severity: Some(DiagnosticSeverity::Information),
                code: Some(Code::String(NOT_JUDGED.to_owned())),
                ..plain(message, &unjudged.help())
            })
        });
        out.extend(rest.take(MAX_DIAGNOSTICS));
        if findings.len() > MAX_DIAGNOSTICS {
            let more = findings.len() - MAX_DIAGNOSTICS;
            let message = format!("{} not shown", report::plural(more, "more finding"));
            out.push(Diagnostic {
                severity: Some(DiagnosticSeverity::Information),
                ..plain(message, "`jobgate lint` shows all")
            });
        }
        out
    }

    fn finding(&self, located: &Located, lines: &Lines<'_>) -> Diagnostic {
        let finding = &located.finding;
        let severity = match finding.level {
            Level::Deny => DiagnosticSeverity::Error,
            Level::Warn => DiagnosticSeverity::Warning,
            Level::Note => DiagnosticSeverity::Information,
        };
        let related: Vec<_> =
            located.related.iter().filter_map(|related| self.related(related, lines)).collect();
        Diagnostic {
            range: text::range(lines, &located.location.span, self.encoding),
            severity: Some(severity),
            code: Some(Code::String(finding.rule.to_string())),
            code_description: Some(CodeDescription { href: Uri(page::link(&finding.rule)) }),
            related_information: Some(related).filter(|related| !related.is_empty()),
            ..plain(finding.message.to_string(), &finding.help)
        }
    }

    fn related(&self, related: &report::Related, lines: &Lines<'_>) -> Option<DiagnosticRelatedInformation> {
        let location = related.location.as_ref()?;
        let path = Path::new(&*location.file);
        let message = match &related.object {
            Some(object) => format!("{object}: {}", related.text),
            None => related.text.to_string(),
        };
        let here = path == self.document.path;
        let (uri, range) = if here {
            (self.uri.to_owned(), text::range(lines, &location.span, self.encoding))
        } else {
            let open = self.documents.of_path(path);
            let uri = open.as_ref().map_or_else(|| uri::of_path(path), |(uri, _)| uri.clone());
            let source = match open {
                Some((_, document)) => Some(document.text),
                None => text(&Input::named(path), MAX_RELATED_BYTES),
            };
            let range = match source {
                Some(source) => text::range(&Lines::new(source.as_bytes()), &location.span, self.encoding),
                None => Range { start: text::of(location.start), end: text::of(location.end) },
            };
            (uri, range)
        };
        Some(DiagnosticRelatedInformation { location: Location { uri: Uri(uri), range }, message })
    }

    /// Returns the errors of a policy or a configuration.
    pub(super) fn settings(&self) -> Vec<Diagnostic> {
        let name = path_text(&self.document.path);
        let lines = Lines::new(self.document.text.as_bytes());
        let of_errors = |errors: &SettingsErrors| -> Vec<Diagnostic> {
            let of_error = |error: &crate::judge::settings::SettingsError| Diagnostic {
                range: text::range(&lines, &error.span, self.encoding),
                severity: Some(DiagnosticSeverity::Error),
                code: Some(Code::String(SETTINGS.to_owned())),
                ..plain(error.message.clone(), error.help.as_deref().unwrap_or_default())
            };
            errors.errors.iter().take(MAX_DIAGNOSTICS).map(of_error).collect()
        };
        match self.document.form() {
            DocumentType::Policy => match Policy::parse(&self.document.text, &name) {
                Ok(_) => Vec::new(),
                Err(errors) => of_errors(&errors),
            },
            DocumentType::Configuration => match Configuration::parse(&self.document.text, &name) {
                Ok(read) => {
                    let read = read.located(&self.document.path);
                    let overrides = read.overrides.iter().filter_map(|over| over.policy.as_ref());
                    // Limited, since each one is read.
                    let named = read.policy.iter().chain(overrides).take(MAX_DIAGNOSTICS);
                    let wrong = named.filter_map(|named| {
                        let error = read.read_policy(named).err()?;
                        let mut at = text::of(named.position);
                        // Columns of settings count characters; a name of a policy is on a line of ASCII.
                        let start = at;
                        at.character = at.character.saturating_add(u32::try_from(named.value.len()).ok()?);
                        Some(Diagnostic {
                            range: Range { start, end: at },
                            severity: Some(DiagnosticSeverity::Error),
                            code: Some(Code::String(SETTINGS.to_owned())),
                            ..plain(format!("{error:#}"), "")
                        })
                    });
                    wrong.collect()
                }
                Err(errors) => of_errors(&errors),
            },
            DocumentType::Manifest => Vec::new(),
        }
    }
}

/// Returns the diagnostic of a document whose settings are not valid.
pub(super) fn without_settings(error: &str, is_judged: bool) -> Diagnostic {
    let help = if is_judged {
        "the document was judged with the last valid settings"
    } else {
        "the document was not judged"
    };
    Diagnostic {
        severity: Some(DiagnosticSeverity::Error),
        code: Some(Code::String(SETTINGS.to_owned())),
        ..plain(error.to_owned(), help)
    }
}

/// Returns the diagnostic of a document that could not be judged.
pub(super) fn failed() -> Diagnostic {
    Diagnostic {
        severity: Some(DiagnosticSeverity::Error),
        code: Some(Code::String(NOT_JUDGED.to_owned())),
        ..plain("not judged: an error in Jobgate".to_owned(), "the log of the server has more")
    }
}

/// Returns a diagnostic about the start of a document.
fn plain(message: String, help: &str) -> Diagnostic {
    let start = Position { line: 0, character: 0 };
    let message = if help.is_empty() { message } else { format!("{message}\nhelp: {help}") };
    Diagnostic {
        range: Range { start, end: start },
        source: Some(SOURCE.to_owned()),
        message: message.into(),
        ..Diagnostic::default()
    }
}
