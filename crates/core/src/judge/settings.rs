//! Files of settings: one YAML document with an `apiVersion` and a `kind`, read strictly. Errors are reported
//! at once, each with its place; of very many, a hundred.
//!
//! Not with serde, which stops at the first error and knows no positions.

mod error;
mod fields;
mod table;

pub use error::{SettingsError, SettingsErrors};
use fields::first_line;
pub use fields::{Field, Fields, hint, one_of, shown, what};
pub use table::{Column, Setting, SettingsTable, Values};

use crate::judge::finding::Part;
use crate::text::lines::Lines;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};
use crate::text::yaml::{self, Document};

/// `apiVersion` of the files that this version reads.
pub const API_VERSION: &str = "jobgate.dev/v1alpha1";

/// Maximum errors of a file that are shown: finding the place of each takes as long as the file is long.
const MAX_ERRORS: usize = 100;

/// The form of a file.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Its `kind`.
    pub kind: &'static str,
    /// What it is called in errors.
    pub noun: &'static str,
}

/// Reads a file. `content` reads the document, once it is known to be of the form.
///
/// # Errors
///
/// The errors in the file.
pub fn read<T>(
    source: &str,
    name: &str,
    form: &Form,
    content: impl FnOnce(&mut Reader<'_>) -> T,
) -> Result<T, SettingsErrors> {
    let Form { kind, noun } = form;
    let lines = Lines::new(source.as_bytes());
    let (mut errors, mut more) = (Vec::new(), 0);
    let mut documents = Vec::new();
    for document in yaml::documents(source.as_bytes()) {
        match document {
            // A document of comments only.
            Ok(document) if document.value.is_null() => {}
            Ok(document) => documents.push(document),
            Err(error) => errors.push(SettingsError::new(source, &lines, error.span, error.message, None)),
        }
    }
    let mut found = None;
    match documents.split_first() {
        None if errors.is_empty() => {
            let help = format!("begin with `apiVersion: {API_VERSION}` and `kind: {kind}`");
            let message = format!("the file contains no {noun}");
            errors.push(SettingsError::new(source, &lines, 0..0, message, Some(help)));
        }
        None => {}
        Some((document, others)) => {
            let mut reader = Reader { source, lines: &lines, document, errors, more };
            if reader.is_of(form) {
                found = Some(content(&mut reader));
            }
            (errors, more) = (reader.errors, reader.more);
            for document in others {
                let span = first_line(source, document.span.clone());
                let message = format!("a {noun} is a single document; remove this one");
                errors.push(SettingsError::new(source, &lines, span, message, None));
            }
        }
    }
    match found {
        Some(found) if errors.is_empty() => Ok(found),
        _ => {
            errors.sort_by(|a, b| (a.span.start, &a.message).cmp(&(b.span.start, &b.message)));
            Err(SettingsErrors { name: name.to_owned(), source: source.into(), errors, more })
        }
    }
}

/// The document of a file, and the errors in it.
pub struct Reader<'s> {
    source: &'s str,
    lines: &'s Lines<'s>,
    document: &'s Document,
    errors: Vec<SettingsError>,
    /// How many errors are only counted.
    more: usize,
}

impl<'s> Reader<'s> {
    /// Returns the whole document.
    pub fn value(&self) -> &'s Value {
        &self.document.value
    }

    /// Returns how many errors there are so far.
    pub(crate) fn error_count(&self) -> usize {
        self.errors.len() + self.more
    }

    /// Counts an error that is beyond the maximum; tells whether it is.
    fn only_counts(&mut self) -> bool {
        let is_full = self.errors.len() >= MAX_ERRORS;
        self.more += usize::from(is_full);
        is_full
    }

    /// Reports duplicate keys, and tells whether the document is meant to be of a form.
    fn is_of(&mut self, form: &Form) -> bool {
        let duplicates = self.document.duplicates();
        let first = duplicates.first(MAX_ERRORS.saturating_sub(self.errors.len()));
        self.more += duplicates.len() - first.len();
        for duplicate in first {
            let key = shown(self.source.get(duplicate.kept.clone()).unwrap_or_default());
            self.errors.push(SettingsError::new(
                self.source,
                self.lines,
                duplicate.kept.clone(),
                format!("duplicate key `{key}`"),
                Some("remove one of the two".to_owned()),
            ));
        }
        if let Some(map) = self.document.value.as_object() {
            return self.is_meant(map, form);
        }
        let Form { kind, noun } = form;
        let help = format!("begin with `apiVersion: {API_VERSION}` and `kind: {kind}`");
        let message = format!("a {noun} is a mapping, not {}", what(&self.document.value));
        self.wrong(&Pointer::root(), message, Some(help));
        false
    }

    /// Tells whether the document is meant to be of a form. Other objects get no further errors.
    fn is_meant(&mut self, map: &Map, form: &Form) -> bool {
        let root = Pointer::root();
        let mut known = 0;
        let mut foreign = 0;
        for (key, expected) in [("apiVersion", API_VERSION), ("kind", form.kind)] {
            match map.get(key) {
                None => self.error(
                    &root,
                    Part::Key,
                    format!("`{key}` is missing"),
                    Some(format!("add `{key}: {expected}`")),
                ),
                Some(Value::String(text)) if text == expected => known += 1,
                Some(found) => {
                    foreign += 1;
                    let message = match found {
                        Value::String(text) => format!(
                            "`{key}` is `{}`, which this version of Jobgate does not support",
                            shown(text)
                        ),
                        other => format!("`{key}` is a string, not {}", what(other)),
                    };
                    self.wrong(&(&root / key), message, Some(format!("expected `{expected}`")));
                }
            }
        }
        known > 0 || foreign == 0
    }
}
