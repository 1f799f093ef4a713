//! Shell syntax in texts that no shell reads, so that nothing replaces it: `$X`, `${X}`, `$(date)`.

use std::collections::BTreeMap;

use crate::judge::commands::{CommandLine, is_of_service};
use crate::kinds::Part;
use crate::text::meter;
use crate::text::placeholder::is_placeholder;
use crate::text::value::Value;

/// Syntax in an item of a command line that nothing replaces.
pub(super) enum Literal<'t> {
    /// `$(date +%F)` or backticks.
    Substitution(&'t str),
    /// `$X` or `${X}`, with the name.
    Variable(&'t str, &'t str),
    /// `$(X)`, with the name.
    Unknown(&'t str),
}

/// Returns the first syntax in an item that nothing replaces.
pub(super) fn literal<'t>(line: &CommandLine<'_>, text: &'t str) -> Option<Literal<'t>> {
    meter::spend_text(text);
    if let Some(found) = backticks(text) {
        return Some(Literal::Substitution(found));
    }
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'$', rest.as_bytes()) {
        meter::spend(2);
        let (here, behind) = (&rest[at..], &rest[at + 1..]);
        rest = behind.strip_prefix('$').unwrap_or(behind);
        if behind.starts_with('$') {
            continue;
        }
        if let Some(inner) = behind.strip_prefix('(') {
            let end = inner.find(')')?;
            let name = &inner[..end];
            let begins = name.starts_with(|char: char| char.is_ascii_lowercase() || char == '/');
            if begins && name.contains(' ') {
                return Some(Literal::Substitution(&here[..end + 3]));
            }
            let missing = !line.environment.is_open && line.environment.get(name).is_none();
            if missing && is_name(name) && !is_of_service(name) {
                return Some(Literal::Unknown(name));
            }
            rest = &inner[end + 1..];
        } else if let Some((written, name)) = variable(here)
            && is_known(line, name)
        {
            return Some(Literal::Variable(written, name));
        }
    }
    None
}

/// Returns the text in backticks, unless the item is prose.
fn backticks(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once('`')?;
    let (inner, after) = rest.split_once('`')?;
    let begins = inner.starts_with(|char: char| char.is_ascii_lowercase() || char == '/');
    let is_alone = !before.contains([' ', '`']) && !after.contains([' ', '`']);
    (begins && is_alone).then(|| &text[before.len()..before.len() + inner.len() + 2])
}

/// Returns `$X` or `${X}` at the beginning of a text, and the name.
fn variable(text: &str) -> Option<(&str, &str)> {
    let behind = text.strip_prefix('$')?;
    let name =
        |text: &str| text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    if let Some(inner) = behind.strip_prefix('{') {
        let length = name(inner);
        return inner[length..].starts_with('}').then(|| (&text[..length + 3], &inner[..length]));
    }
    let length = name(behind);
    Some((&text[..length + 1], &behind[..length]))
}

fn is_name(name: &str) -> bool {
    let first = name.as_bytes().first();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Tells whether the container has a variable, and nothing fills it in before Kubernetes sees it.
fn is_known(line: &CommandLine<'_>, name: &str) -> bool {
    is_name(name)
        && line.environment.get(name).is_some_and(|known| {
            known.is_added() || known.value.as_deref().is_some_and(|value| !is_placeholder(value))
        })
}

/// Returns an item with `$(X)` for each `$X` and `${X}` of a known variable.
pub(super) fn with_brackets(line: &CommandLine<'_>, text: &str) -> String {
    let mut new = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'$', rest.as_bytes()) {
        new.push_str(&rest[..at]);
        rest = &rest[at..];
        match variable(rest).filter(|(_, name)| is_known(line, name)) {
            Some((written, name)) => {
                new += &format!("$({name})");
                rest = &rest[written.len()..];
            }
            None => {
                let length = if rest.starts_with("$$") { 2 } else { 1 };
                new.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    new + rest
}

/// Syntax in the value of a variable that nothing replaces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InValue<'t> {
    /// A list of directories, such as `PATH`, that should extend the one of the image; the variable's reference
    /// to itself.
    Own(&'t str),
    /// `$((1 + 2))`.
    Sum(&'t str),
    /// `$(date +%F)` or backticks.
    Substitution(&'t str),
    /// A variable that `mpirun` or Slurm sets when it starts a process.
    OfLauncher(&'t str, &'t str),
    /// A variable of the container, with its name, and whether it comes before this one.
    Variable(&'t str, &'t str, bool),
}

/// The variables that a launcher sets for each process that it starts.
const OF_LAUNCHERS: [&str; 5] = ["OMPI_", "PMI_", "PMIX_", "PRTE_", "SLURM_"];

/// Frameworks that replace `${X}` in values themselves.
const REPLACE_BRACES: [&str; 4] = ["LOGGING_", "MICRONAUT_", "QUARKUS_", "SPRING_"];

/// Returns the first syntax in the value of a variable that nothing replaces. `defined` has the index of each
/// variable's first definition in `items`, the variables of the container.
///
/// A value that is only `$X` or `${X}`, with an unknown name or its own, is left to `envsubst`, and one with
/// spaces is a command for some shell.
pub(super) fn in_value<'t>(
    line: &CommandLine<'_>,
    items: &[Part<'_>],
    at: usize,
    (name, text): (&str, &'t str),
    defined: &BTreeMap<&str, (usize, usize)>,
) -> Option<InValue<'t>> {
    meter::spend_text(text);
    if !text.contains(['$', '`']) || text.contains('\n') {
        return None;
    }
    if text.starts_with("$((") && text.ends_with("))") {
        return Some(InValue::Sum(text));
    }
    let is_spaced = text.contains(char::is_whitespace);
    if let Some(found) = backticks(text) {
        return Some(InValue::Substitution(found));
    }
    if is_spaced {
        // `$(date +%F)` has its space inside.
        let (before, rest) = text.split_once("$(")?;
        let (inner, after) = rest.split_once(')')?;
        let begins = inner.starts_with(|char: char| char.is_ascii_lowercase() || char == '/');
        let is_alone = begins && inner.contains(' ') && !before.contains(' ') && !after.contains(' ');
        let is_escaped = before.ends_with('$');
        let length = before.len() + inner.len() + "$()".len();
        return (is_alone && !is_escaped).then(|| InValue::Substitution(&text[before.len()..length]));
    }
    if let Some(own) = own_list(line, name, text) {
        // A second definition refers to the first.
        return (defined.get(name).is_none_or(|(first, _)| *first >= at)).then_some(InValue::Own(own));
    }
    let mut rest = text;
    while let Some(found) = memchr::memchr(b'$', rest.as_bytes()) {
        meter::spend(2);
        let here = &rest[found..];
        let behind = &here[1..];
        rest = behind.strip_prefix('$').unwrap_or(behind);
        if behind.starts_with('$') {
            continue;
        }
        let Some((written, other)) = variable(here).filter(|(_, other)| is_name(other)) else { continue };
        if OF_LAUNCHERS.iter().any(|begin| other.starts_with(begin)) && !defined.contains_key(other) {
            return Some(InValue::OfLauncher(written, other));
        }
        let in_braces = written.starts_with("${");
        let is_replaced =
            in_braces && (line.is_of_image() || REPLACE_BRACES.iter().any(|begin| name.starts_with(begin)));
        if other == name || is_replaced {
            continue;
        }
        match defined.get(other) {
            Some((first, _)) if is_filled(&items[*first]) => {
                return Some(InValue::Variable(written, other, *first < at));
            }
            None if line.environment.adds(other) => return Some(InValue::Variable(written, other, false)),
            _ => {}
        }
    }
    None
}

/// Returns how a list of directories refers to itself, if it has other items: `$PATH:/opt/bin`.
fn own_list<'t>(line: &CommandLine<'_>, name: &str, text: &'t str) -> Option<&'t str> {
    if !name.ends_with("PATH") || !text.contains(':') {
        return None;
    }
    let items = || text.split(':');
    let names_itself = |item: &&str| {
        item.strip_prefix('$').is_some_and(|behind| {
            let inner = |begin, end| behind.strip_prefix(begin)?.strip_suffix(end);
            behind == name
                || inner('{', '}') == Some(name)
                || !line.environment.is_open && inner('(', ')') == Some(name)
        })
    };
    let own = items().find(names_itself)?;
    items().any(|item| item.starts_with('/')).then_some(own)
}

/// Tells whether a variable has a value that no tool has to fill in first.
fn is_filled(variable: &Part<'_>) -> bool {
    let Some(fields) = variable.value else { return false };
    let is_set = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
    is_set("valueFrom")
        || fields.get("value").and_then(Value::as_str).is_some_and(|text| !is_placeholder(text))
}

/// Returns a value with `$(X)` for each `$X` and `${X}`, if Kubernetes replaces all of them.
pub(super) fn value_with_brackets(
    text: &str,
    at: usize,
    defined: &BTreeMap<&str, (usize, usize)>,
) -> Option<String> {
    let mut new = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(found) = memchr::memchr(b'$', rest.as_bytes()) {
        new.push_str(&rest[..found]);
        rest = &rest[found..];
        let (written, name) = variable(rest).filter(|(_, name)| is_name(name))?;
        defined.get(name).filter(|(first, _)| *first < at)?;
        new += &format!("$({name})");
        rest = &rest[written.len()..];
    }
    Some(new + rest)
}
