//! The `runtimeEnvYAML` of a RayJob: text that KubeRay reads as a YAML mapping (`UnmarshalRuntimeEnvYAML`, v1.7.0).

use std::ops::Range;

use crate::text::meter;
use crate::text::placeholder::is_placeholder;
use crate::text::value::Value;
use crate::text::yaml::{self, Limits, SyntaxErrorKind};

/// Longer texts are not read.
const MOST_BYTES: usize = 64 << 10;

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(in crate::judge::api) struct WrongText {
    /// What, to follow the field.
    pub(in crate::judge::api) message: String,
    /// The bytes of the text.
    pub(in crate::judge::api) part: Range<usize>,
}

/// Returns what is wrong with a text; nothing if it is a mapping, empty, or too long to tell.
pub(in crate::judge::api) fn wrong(text: &str) -> Option<WrongText> {
    if text.len() > MOST_BYTES || is_placeholder(text) {
        return None;
    }
    meter::spend_text(text);
    let limits = Limits::default();
    let chunk = match yaml::split(text.as_bytes(), &limits).next()? {
        Ok(chunk) => chunk,
        Err(error) => return of_error(error),
    };
    let document = match yaml::parse(text.as_bytes(), &chunk, &limits) {
        Ok(document) => document,
        Err(error) => return of_error(error),
    };
    let is = match document.value {
        Value::Object(_) | Value::Null => return None,
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
    };
    let start =
        chunk.span.start + text[chunk.span.clone()].len() - text[chunk.span.clone()].trim_start().len();
    let end = text[start..].find('\n').map_or(text.len(), |line| start + line);
    Some(WrongText { message: format!("must be a YAML mapping, and is {is}"), part: start..end })
}

fn of_error(error: yaml::SyntaxError) -> Option<WrongText> {
    let is_sure = error.kind == SyntaxErrorKind::Syntax;
    is_sure.then(|| WrongText { message: format!("is no YAML: {}", error.message), part: error.span })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_mapping_is_reported_with_its_place() {
        let told = |text: &str| wrong(text).map(|wrong| (wrong.message, text[wrong.part].to_owned()));
        for text in [
            "",
            "\n",
            "# nothing\n",
            "pip: [a]\n",
            "{}",
            "$RUNTIME_ENV",
            "env_vars: {A: \"{{ x }}\"}\n",
            "{{ .Values.env }}",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
        let is = |what: &str| format!("must be a YAML mapping, and is {what}");
        assert_eq!(told("invalid_yaml_str"), Some((is("a string"), "invalid_yaml_str".to_owned())));
        assert_eq!(told("\n- pip\n- conda\n"), Some((is("a list"), "- pip".to_owned())));
        let (message, _) = told("pip: [a\n").expect("an error");
        assert!(message.starts_with("is no YAML: "), "{message}");
        let (_, at) = told("working_dir: /a\npip: a: b\nenv_vars: {}\n").expect("an error");
        assert!("pip: a: b".contains(&at), "{at}");
    }
}
