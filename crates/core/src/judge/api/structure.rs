//! Checks an object against the API's schema: wrong types, placeholders, missing and unknown fields.

mod field_home;
mod suggestion;

use std::hash::{Hash, Hasher as _};

use super::ObjectReading;
use super::place::{ApiPlace, PlaceStep};
use super::schema::{Id, Schema, SchemaFields, SchemaShape};
use crate::judge::checks::{self, API_SERVER, FIELD_TYPE, PLACEHOLDER, UNKNOWN_FIELD};
use crate::judge::finding::{Finding, Level, Safety};
use crate::judge::fold::{Folded, MOST_WORDS};
use crate::k8s::quantity::Quantity;
use crate::kinds::{Workload, whole};
use crate::text::hash;
use crate::text::patch::Op;
use crate::text::placeholder::{help as placeholder_help, is_no_image, is_placeholder, is_to_replace};
use crate::text::pointer::{Pointer, Token};
use crate::text::suggest;
use crate::text::value::Value;

/// Checks an object. One whose schema is unknown has no findings.
pub(super) fn check(object: &Value, reading: ObjectReading) -> Vec<Finding> {
    let schema = Schema::get();
    let Some(root) = schema.root(object) else { return Vec::new() };
    // The schema is that of the newest version.
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if root.kind.is_some_and(|kind| kind.also.contains(&version)) {
        return Vec::new();
    }
    let mut walk = StructureWalk {
        schema,
        object,
        root: root.shape,
        required: root.required,
        reading,
        found: Folded::default(),
        strangers: 0,
    };
    walk.visit(root.shape, object, &ApiPlace::ROOT);
    walk.older_fields();
    let mut found = walk.found.into_vec();
    // Fields missing from a partial object are in the rest of it, unless it explicitly sets nothing.
    if matches!(reading, ObjectReading::Manifest | ObjectReading::Inside)
        && found.iter().any(|finding| finding.rule == API_SERVER)
        && Workload::from_object(object).is_some_and(|workload| workload.is_partial())
    {
        found.retain_mut(|finding| {
            finding.rule != API_SERVER || super::keep_items(finding, object, &mut super::is_empty_at)
        });
    }
    found
}

struct StructureWalk<'o> {
    schema: &'static Schema,
    object: &'o Value,
    root: Id,
    required: bool,
    reading: ObjectReading,
    found: Folded<Finding>,
    /// The number of unknown fields so far.
    strangers: usize,
}

impl StructureWalk<'_> {
    fn visit(&mut self, id: Id, value: &Value, path: &ApiPlace<'_>) {
        let schema = self.schema;
        if value.is_null() {
            if matches!(schema.shape(id), SchemaShape::Quantity) {
                self.blank(path);
            }
            return;
        }
        let id = if self.required && !path.is_of_root() { schema.inside(id) } else { id };
        match (schema.shape(id), value) {
            (SchemaShape::Any, _)
            | (SchemaShape::Text, Value::String(_))
            | (SchemaShape::Number, Value::Number(_))
            | (SchemaShape::Bool, Value::Bool(_)) => {}
            (SchemaShape::Choice, Value::String(text)) => {
                if is_placeholder(text) {
                    self.placeholder(path, text);
                }
            }
            (SchemaShape::Int32, Value::Number(number))
                if whole(number).is_some_and(|number| i32::try_from(number).is_ok()) => {}
            (SchemaShape::Int64, Value::Number(number)) if whole(number).is_some() => {}
            (SchemaShape::IntOrText, Value::String(_)) => {}
            (SchemaShape::IntOrText, Value::Number(number))
                if whole(number).is_some_and(|number| i32::try_from(number).is_ok()) => {}
            // In a custom resource the schema allows an integer or a string.
            (shape @ SchemaShape::Quantity, Value::Number(number))
                if self.required && whole(number).is_none() =>
            {
                self.wrong_type(shape, value, path);
            }
            (SchemaShape::Quantity, Value::String(_) | Value::Number(_))
                if Quantity::from_json(value).is_ok() => {}
            (SchemaShape::Time, Value::String(text)) if text.parse::<jiff::Timestamp>().is_ok() => {}
            (SchemaShape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.visit(*item, value, &path.step(PlaceStep::Index(index)));
                }
            }
            (SchemaShape::Map(item), Value::Object(entries)) => {
                // No rule reads labels; rules do read resources and replica types.
                let decides =
                    matches!(self.schema.shape(*item), SchemaShape::Quantity | SchemaShape::Object(_));
                for (key, value) in entries {
                    let path = path.step(PlaceStep::Key(key));
                    if decides && is_placeholder(key) {
                        self.placeholder_key(&path, key);
                    }
                    self.visit(*item, value, &path);
                }
            }
            (SchemaShape::Object(fields), Value::Object(entries)) => {
                for (key, value) in entries {
                    match fields.field(key) {
                        Some((name, field)) => {
                            let path = path.step(PlaceStep::Field(name));
                            match (self.schema.shape(field), value) {
                                (SchemaShape::Text, Value::String(text))
                                    if key == "image" && is_no_image(text) =>
                                {
                                    self.placeholder(&path, text);
                                }
                                // No claim can have such a name.
                                (SchemaShape::Choice, Value::String(text))
                                    if key == "claimName" && is_to_replace(text) =>
                                {
                                    self.placeholder(&path, text);
                                }
                                _ => self.visit(field, value, &path),
                            }
                        }
                        None => self.unknown(fields, key, value, path),
                    }
                }
                if self.required {
                    for name in fields
                        .required
                        .iter()
                        .filter(|name| entries.get(name.as_ref()).is_none_or(Value::is_null))
                    {
                        self.missing(path, name, entries.contains_key(name.as_ref()));
                    }
                }
            }
            // No string is valid here, so capitals are enough to call it a placeholder.
            (_, Value::String(text)) if is_placeholder(text) || is_to_replace(text) => {
                self.placeholder(path, text);
            }
            // A template's `[[size]]` is a list in a list in YAML.
            (SchemaShape::List(_), _) => self.wrong_type(schema.shape(id), value, path),
            (shape, _) => match bracketed(value) {
                Some(name) => self.placeholder(path, &format!("[[{name}]]")),
                None => self.wrong_type(shape, value, path),
            },
        }
    }

    fn report(
        &mut self,
        id: &'static str,
        level: Level,
        pointer: Pointer,
        message: String,
        help: String,
    ) -> &mut Finding {
        self.found.push(checks::finding(id, level, pointer, message, help))
    }

    /// Reports a problem that was announced as `what`; see [`Self::repeats`].
    fn announced(
        &mut self,
        what: u64,
        (id, level): (&'static str, Level),
        pointer: Pointer,
        (message, help): (String, String),
    ) -> &mut Finding {
        self.found.announced(what, checks::finding(id, level, pointer, message, help))
    }

    /// Returns the hash under which to announce a problem. Nothing if so many items of a list have the problem
    /// already that one more is only counted.
    fn repeats(&mut self, path: &ApiPlace<'_>, what: impl Hash) -> Option<u64> {
        let (what, item) = path.hashed(what);
        (!self.found.repeats(what, &item)).then_some(what)
    }

    /// Like [`Self::repeats`], for a problem whose words may differ between items.
    fn repeats_sort(&mut self, path: &ApiPlace<'_>, sort: impl Hash, words: impl Hash) -> Option<u64> {
        let (sort, item) = path.hashed(sort);
        let mut hasher = hash::keyed();
        (sort, words).hash(&mut hasher);
        let what = hasher.finish();
        (!self.found.repeats_sort(what, sort, &item)).then_some(what)
    }

    /// Reports a quantity without a value.
    fn blank(&mut self, path: &ApiPlace<'_>) {
        let Some(announced) = self.repeats(path, "blank") else { return };
        let pointer = path.pointer();
        let what = if self.required { "drops it" } else { "reads it as 0" };
        let message = format!("`{}` has no value, and the API server {what}", name_of(&pointer));
        let help = "write an amount, or remove the line".to_owned();
        self.announced(announced, (FIELD_TYPE, Level::Warn), pointer, (message, help)).at_key();
    }

    fn placeholder(&mut self, path: &ApiPlace<'_>, text: &str) {
        let Some(announced) = self.repeats(path, ("placeholder", text)) else { return };
        self.found.announced(announced, held(path.pointer(), text));
    }

    fn placeholder_key(&mut self, path: &ApiPlace<'_>, key: &str) {
        let Some(announced) = self.repeats(path, "placeholder key") else { return };
        self.found.announced(announced, held_as_key(path.pointer(), key));
    }

    fn wrong_type(&mut self, shape: &SchemaShape, value: &Value, path: &ApiPlace<'_>) {
        let wanted = match shape {
            SchemaShape::Int32 | SchemaShape::Int64 => match (value.as_f64(), shape) {
                (Some(number), SchemaShape::Int32) if number.fract() == 0.0 => "an integer of 32 bits",
                (Some(number), _) if number.fract() == 0.0 => "an integer of 64 bits",
                _ => "an integer",
            },
            SchemaShape::Number => "a number",
            SchemaShape::Bool => "a boolean",
            SchemaShape::IntOrText => "an integer or a string",
            SchemaShape::Quantity => "a quantity (`500m`, `2Gi`)",
            SchemaShape::Time => "a time (`2026-01-31T12:00:00Z`)",
            SchemaShape::List(_) => "a list",
            SchemaShape::Map(_) | SchemaShape::Object(_) => "a mapping",
            SchemaShape::Any | SchemaShape::Text | SchemaShape::Choice => "a string",
        };
        let (help, fix) = suggestion::correction(shape, value);
        let is = describe(value);
        let announced = match fix {
            Some(_) => self.repeats(path, ("type", wanted, &is, &help)),
            None => self.repeats_sort(path, ("type", wanted), (&is, &help)),
        };
        let Some(announced) = announced else { return };
        let pointer = path.pointer();
        let mut message = format!("`{}` must be {wanted}, is {is}", name_of(&pointer));
        let mut level = Level::Deny;
        // A cluster may have an older release of the operator.
        if let Some(release) = took_words(&pointer, value).filter(|_| self.reading == ObjectReading::Manifest)
        {
            message += &format!(", which {release} and later refuse");
            level = Level::Warn;
        }
        let finding = self.announced(announced, (FIELD_TYPE, level), pointer.clone(), (message, help));
        if let Some((safety, value)) = fix {
            finding.fix(safety, vec![Op::Replace(pointer, value)]);
        }
    }

    /// Reports a missing required field. The finding points at the nearest existing place.
    fn missing(&mut self, parent: &ApiPlace<'_>, name: &'static str, is_null: bool) {
        let Some(announced) = self.repeats(parent, ("missing", name, is_null)) else { return };
        let parent = parent.pointer();
        let path = &parent / name;
        let message = format!("the API server rejects this: {path}: Required value");
        let at = if is_null { path.clone() } else { parent };
        let help = format!("add `{name}`");
        self.announced(announced, (API_SERVER, Level::Deny), at, (message, help)).field(path).at_key();
    }

    fn unknown(&mut self, fields: &SchemaFields, key: &str, value: &Value, parent: &ApiPlace<'_>) {
        // Go programs write this for an unset time. Removing it loses nothing.
        let is_blank_time = key == "creationTimestamp" && value.is_null();
        if is_blank_time
            && matches!(self.reading, ObjectReading::Body { strict: false } | ObjectReading::Inside)
        {
            return;
        }
        if self.reading == ObjectReading::Manifest && (is_placeholder(key) || is_to_replace(key)) {
            self.placeholder_key(&parent.step(PlaceStep::Key(key)), key);
            return;
        }
        // Very many unknown fields get no suggestions.
        self.strangers += 1;
        let is_plain = self.strangers > MOST_WORDS;
        let place = parent.step(PlaceStep::Key(key));
        let announced = if is_plain {
            let Some(announced) = self.repeats(&place, "unknown") else { return };
            Some(announced)
        } else {
            None
        };
        let (parent, pointer) = (&parent.pointer(), place.pointer());
        let (level, begin) = match self.reading {
            ObjectReading::Body { strict: true } => {
                (Level::Deny, format!("the API server rejects this: unknown field \"{pointer}\""))
            }
            ObjectReading::Body { strict: false } | ObjectReading::Inside => {
                (Level::Warn, format!("unknown field `{}`: the API server drops it silently", short(key)))
            }
            // kubectl requests strict validation unless `--validate` is set.
            ObjectReading::Manifest => (
                Level::Deny,
                format!(
                    "unknown field `{}`: kubectl rejects it by default, other clients drop it silently",
                    short(key)
                ),
            ),
        };
        if let Some(announced) = announced {
            let help = "remove it, or check its name".to_owned();
            let (level, begin) = self.of_release(key, &pointer).unwrap_or((level, begin));
            self.announced(announced, (UNKNOWN_FIELD, level), pointer, (begin, help)).at_key();
            return;
        }
        if is_blank_time {
            let finding = self.report(UNKNOWN_FIELD, level, pointer.clone(), begin, "remove it".to_owned());
            finding.at_key().fix(Safety::Safe, vec![Op::Remove(pointer)]);
            return;
        }
        let sibling = suggest::closest(key, fields.names()).filter(|name| near(key, name));
        let home = if sibling.is_some_and(|name| name.eq_ignore_ascii_case(key)) {
            None
        } else {
            self.home((key, value), fields, parent)
        };
        if let Some(home) = home {
            self.belongs_at(&home, (key, value), (level, &begin), pointer);
            return;
        }
        if let Some(inner) = suggestion::inner(fields, value) {
            self.belongs_without(key, inner, (level, &begin), (parent, pointer));
            return;
        }
        let Some(name) = sibling else {
            let (level, begin) = self.of_release(key, &pointer).unwrap_or((level, begin));
            let help = "remove it, or check its name".to_owned();
            self.report(UNKNOWN_FIELD, level, pointer, begin, help).at_key();
            return;
        };
        let help = format!("did you mean `{name}`?");
        let taken = parent.find(self.object).is_some_and(|parent| parent.get(name).is_some());
        let renames = !taken && self.may_be_renamed(key, value, (name, fields));
        let target = parent.key(name);
        let finding = self.report(UNKNOWN_FIELD, level, pointer.clone(), begin, help).at_key();
        if renames {
            finding.fix(Safety::Unsafe, vec![Op::Add(target, value.clone()), Op::Remove(pointer)]);
        }
    }
}

/// Returns the finding for a field that contains a placeholder.
pub fn held(pointer: Pointer, text: &str) -> Finding {
    let message = format!("`{}` contains the placeholder `{}`", name_of(&pointer), short(text));
    checks::finding(PLACEHOLDER, Level::Warn, pointer, message, placeholder_help(text))
}

/// Returns the finding for a mapping with a placeholder as a key.
pub(crate) fn held_as_key(pointer: Pointer, key: &str) -> Finding {
    let around = pointer.parent().unwrap_or_default();
    let message = format!("`{}` has the placeholder `{}` as a key", name_of(&around), short(key));
    let mut finding = checks::finding(PLACEHOLDER, Level::Warn, pointer, message, placeholder_help(key));
    finding.at_key();
    finding
}

/// Returns the name of a placeholder in double brackets.
fn bracketed(value: &Value) -> Option<&str> {
    let [inner] = value.as_array()?.as_slice() else { return None };
    let [name] = inner.as_array()?.as_slice() else { return None };
    name.as_str()
}

/// Tells whether one name is a misspelling of the other, or its first words, rather than another word with
/// similar letters.
fn near(key: &str, name: &str) -> bool {
    let is_begun = || name.strip_prefix(key).is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase()));
    key.eq_ignore_ascii_case(name) || (key.len() > 3 && (key.len().abs_diff(name.len()) <= 3 || is_begun()))
}

/// Returns the name of a field to show: its last key, with an index or the author's key after it.
fn name_of(pointer: &Pointer) -> String {
    let tokens = pointer.tokens();
    let named = tokens.iter().rposition(|token| matches!(token, Token::Key(_))).unwrap_or(0);
    let text = pointer.to_string();
    match (tokens.get(named), tokens.get(named + 1)) {
        (Some(Token::Key(key)), None) if !text.ends_with(']') => short(key),
        (Some(Token::Key(key)), Some(_)) => {
            text.rfind(&**key).map_or_else(|| text.clone(), |at| text[at..].to_owned())
        }
        // A key chosen by the author: `limits[memory]`.
        _ => text.rfind('[').map_or_else(
            || text.clone(),
            |at| text[text[..at].rfind('.').map_or(0, |dot| dot + 1)..].to_owned(),
        ),
    }
}

/// Returns a text escaped and shortened to fit on one line.
pub(super) fn short(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut out: String = text.chars().take(MAX_CHARS).collect::<String>().escape_debug().to_string();
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push('…');
    }
    out
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) if whole(number).is_some() || number.is_u64() => {
            format!("the integer {number}")
        }
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", short(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

/// The help for a scalar that must be a string, as long as its text in the file is unknown.
const IN_QUOTES: &str = "put it in quotes";

/// Sets the fix of a scalar that needs quotes to its text in the file. Without one there is no fix: the value
/// may print differently (`1.10`, `5e-5`, `NO`).
pub fn quote(finding: &mut Finding, text: Option<&str>) {
    if finding.rule != FIELD_TYPE || finding.help != IN_QUOTES {
        return;
    }
    let Some(fix) = &mut finding.fix else { return };
    // Each of many items has its own text.
    if finding.items.is_some() {
        finding.fix = None;
        return;
    }
    // Only plain scalars: quotes would change an alias or a tag.
    let is_plain = |text: &&str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
    };
    match (text.filter(is_plain), fix.ops.first_mut()) {
        (Some(text), Some(Op::Replace(_, value))) => {
            // A safe fix must be a quantity, which not every number is (`1_0.5`).
            if fix.safety != Safety::Safe || Quantity::from_json(&text.into()).is_ok() {
                *value = text.into();
            }
            let help = format!("{IN_QUOTES}: \"{}\"", value.as_str().unwrap_or(text));
            finding.help = help.into();
        }
        _ => finding.fix = None,
    }
}

/// Returns the first release of an operator that rejects a word which it accepted before.
fn took_words(pointer: &Pointer, value: &Value) -> Option<&'static str> {
    let is_field = matches!(pointer.last(), Some(Token::Key(key)) if **key == *"numProcPerNode");
    let is_word = matches!(value.as_str(), Some("auto" | "cpu" | "gpu"));
    (is_field && is_word).then_some("Trainer 2.2")
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests;
