//! One walk over an object, along the shapes that the API server reads: wrong types, placeholders, missing
//! and unknown fields.

use super::Reading;
use super::place::{Place, Step};
use super::schema::{Fields, Id, Schema, Shape};
use crate::judge::checks::{self, API_SERVER, FIELD_TYPE, PLACEHOLDER, UNKNOWN_FIELD};
use crate::judge::finding::{Finding, Level, Safety};
use crate::k8s::quantity::Quantity;
use crate::kinds::{Workload, whole};
use crate::text::patch::Op;
use crate::text::placeholder::{self, is_no_image, is_placeholder, is_to_replace};
use crate::text::pointer::{Pointer, Token};
use crate::text::suggest;
use crate::text::value::{Map, Value, json};

/// Walks an object; says nothing of one whose shape is not known.
pub(super) fn check(object: &Value, reading: Reading) -> Vec<Finding> {
    let schema = Schema::get();
    let Some(root) = schema.root(object) else { return Vec::new() };
    let mut walk =
        Walk { schema, object, root: root.shape, required: root.required, reading, found: Vec::new() };
    walk.visit(root.shape, object, &Place::ROOT);
    // Whatever else a part of an object lacks stands in the rest of it, unless it says itself that there is
    // nothing.
    if reading == Reading::Manifest
        && walk.found.iter().any(|finding| finding.rule == API_SERVER)
        && Workload::of(object).is_some_and(|workload| workload.is_partial())
    {
        walk.found.retain(|finding| {
            finding.rule != API_SERVER || super::is_said_to_be_nothing(&finding.path, object)
        });
    }
    walk.found
}

struct Walk<'o> {
    schema: &'static Schema,
    object: &'o Value,
    root: Id,
    required: bool,
    reading: Reading,
    found: Vec<Finding>,
}

impl Walk<'_> {
    fn visit(&mut self, id: Id, value: &Value, path: &Place<'_>) {
        if value.is_null() {
            if matches!(self.schema.shape(id), Shape::Quantity) {
                self.blank(path.pointer());
            }
            return;
        }
        match (self.schema.shape(id), value) {
            (Shape::Any, _)
            | (Shape::Text, Value::String(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::Bool, Value::Bool(_)) => {}
            (Shape::Choice, Value::String(text)) => {
                if is_placeholder(text) {
                    self.placeholder(path, text);
                }
            }
            (Shape::Int32, Value::Number(number))
                if whole(number).is_some_and(|number| i32::try_from(number).is_ok()) => {}
            (Shape::Int64, Value::Number(number)) if whole(number).is_some() => {}
            (Shape::IntOrText, Value::String(_)) => {}
            (Shape::IntOrText, Value::Number(number))
                if whole(number).is_some_and(|number| i32::try_from(number).is_ok()) => {}
            // In a custom resource it is an integer or a string, to the schema.
            (shape @ Shape::Quantity, Value::Number(number)) if self.required && whole(number).is_none() => {
                self.wrong_type(shape, value, path.pointer());
            }
            (Shape::Quantity, Value::String(_) | Value::Number(_)) if Quantity::from_json(value).is_ok() => {}
            (Shape::Time, Value::String(text)) if text.parse::<jiff::Timestamp>().is_ok() => {}
            (Shape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.visit(*item, value, &path.step(Step::Index(index)));
                }
            }
            (Shape::Map(item), Value::Object(entries)) => {
                // Labels are no business of any rule; what a pod asks for, and which replicas there are, is.
                let decides = matches!(self.schema.shape(*item), Shape::Quantity | Shape::Object(_));
                for (key, value) in entries {
                    let path = path.step(Step::Key(key));
                    if decides && is_placeholder(key) {
                        self.placeholder_key(path.pointer(), key);
                    }
                    self.visit(*item, value, &path);
                }
            }
            (Shape::Object(fields), Value::Object(entries)) => {
                for (key, value) in entries {
                    match fields.get(key) {
                        Some(field) => {
                            let path = path.step(Step::Key(key));
                            match (self.schema.shape(field), value) {
                                (Shape::Text, Value::String(text)) if key == "image" && is_no_image(text) => {
                                    self.placeholder(&path, text);
                                }
                                // No claim can have such a name.
                                (Shape::Choice, Value::String(text))
                                    if key == "claimName" && is_to_replace(text) =>
                                {
                                    self.placeholder(&path, text);
                                }
                                _ => self.visit(field, value, &path),
                            }
                        }
                        None => self.unknown(fields, key, value, &path.pointer()),
                    }
                }
                if self.required {
                    for name in fields
                        .required
                        .iter()
                        .filter(|name| entries.get(name.as_ref()).is_none_or(Value::is_null))
                    {
                        self.missing(&path.pointer(), name, entries.contains_key(name.as_ref()));
                    }
                }
            }
            // What it is written for is refused as it is, so capitals are enough to tell that something is to
            // replace it.
            (_, Value::String(text)) if is_placeholder(text) || is_to_replace(text) => {
                self.placeholder(path, text);
            }
            (shape, _) => self.wrong_type(shape, value, path.pointer()),
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
        self.found.push(checks::finding(id, level, pointer, message, help));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Says that an amount is left blank.
    fn blank(&mut self, pointer: Pointer) {
        let what = if self.required { "drops it" } else { "reads it as 0" };
        let message = format!("`{}` has no value, and the API server {what}", name_of(&pointer));
        self.report(
            FIELD_TYPE,
            Level::Warn,
            pointer,
            message,
            "write an amount, or remove the line".to_owned(),
        )
        .at_key();
    }

    fn placeholder(&mut self, path: &Place<'_>, text: &str) {
        self.found.push(held(path.pointer(), text));
    }

    fn placeholder_key(&mut self, pointer: Pointer, key: &str) {
        let around = pointer.parent().unwrap_or_default();
        let message = format!("`{}` has the placeholder `{}` as a key", name_of(&around), short(key));
        self.report(PLACEHOLDER, Level::Warn, pointer, message, placeholder::help(key).to_owned()).at_key();
    }

    fn wrong_type(&mut self, shape: &Shape, value: &Value, pointer: Pointer) {
        let wanted = match shape {
            Shape::Int32 | Shape::Int64 => match (value.as_f64(), shape) {
                (Some(number), Shape::Int32) if number.fract() == 0.0 => "an integer of 32 bits",
                (Some(number), _) if number.fract() == 0.0 => "an integer of 64 bits",
                _ => "an integer",
            },
            Shape::Number => "a number",
            Shape::Bool => "a boolean",
            Shape::IntOrText => "an integer or a string",
            Shape::Quantity => "a quantity (`500m`, `2Gi`)",
            Shape::Time => "a time (`2026-01-31T12:00:00Z`)",
            Shape::List(_) => "a list",
            Shape::Map(_) | Shape::Object(_) => "a mapping",
            Shape::Any | Shape::Text | Shape::Choice => "a string",
        };
        let message = format!("`{}` must be {wanted}, is {}", name_of(&pointer), describe(value));
        let (help, fix) = mend(shape, value);
        let finding = self.report(FIELD_TYPE, Level::Deny, pointer.clone(), message, help);
        if let Some((safety, value)) = fix {
            finding.fix(safety, vec![Op::Replace(pointer, value)]);
        }
    }

    /// Says that a required field is missing, in the API server's words. The finding points at the nearest
    /// place that exists.
    fn missing(&mut self, parent: &Pointer, name: &str, is_null: bool) {
        let path = parent.key(name);
        let message = format!("the API server refuses this: {path}: Required value");
        let at = if is_null { path.clone() } else { parent.clone() };
        let help = format!("add `{name}`");
        self.report(API_SERVER, Level::Deny, at, message, help).field(path).at_key();
    }

    fn unknown(&mut self, fields: &Fields, key: &str, value: &Value, parent: &Pointer) {
        let pointer = parent.key(key);
        let (level, begin) = match self.reading {
            Reading::Body { strict: true } => {
                (Level::Deny, format!("the API server refuses this: unknown field \"{pointer}\""))
            }
            Reading::Body { strict: false } => {
                (Level::Warn, format!("the API server drops `{}` here silently", short(key)))
            }
            // kubectl asks for strict validation unless `--validate` says otherwise.
            Reading::Manifest => (
                Level::Deny,
                format!(
                    "kubectl refuses `{}` here, and tools that are less strict drop it silently",
                    short(key)
                ),
            ),
        };
        let sibling = suggest::closest(key, fields.names()).filter(|name| near(key, name));
        let home = if sibling.is_some_and(|name| name.eq_ignore_ascii_case(key)) {
            None
        } else {
            self.home(key, fields, parent)
        };
        if let Some(home) = home {
            let message = format!("{begin}; it belongs at `{home}`");
            let target = home.key(key);
            let is_mapping = |at: &Pointer| at.find(self.object).is_some_and(Value::is_object);
            let moved = match home.find(self.object) {
                Some(Value::Object(fields)) if fields.get(key).is_none() => {
                    Some(Op::Add(target.clone(), value.clone()))
                }
                None if home.parent().is_some_and(|around| is_mapping(&around)) => {
                    Some(Op::Add(home.clone(), json!({key: value.clone()})))
                }
                _ => None,
            };
            let help = format!("move it to `{target}`");
            let finding = self.report(UNKNOWN_FIELD, level, pointer.clone(), message, help).at_key();
            if let Some(moved) = moved {
                finding.fix(Safety::Unsafe, vec![moved, Op::Remove(pointer)]);
            }
            return;
        }
        if let Some(inner) = inner(fields, value) {
            // An older form of the API, or a key too many: `source` of a pod's resource claim, until
            // Kubernetes 1.31.
            let message = format!("{begin}: what is in it belongs directly in `{parent}`");
            let names = inner.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
            let help = format!("take `{}` out, and write {names} in its place", short(key));
            let around = parent.find(self.object);
            let free = !parent.is_root()
                && inner.keys().all(|name| around.is_some_and(|around| around.get(name).is_none()));
            let ops = inner
                .iter()
                .map(|(name, value)| Op::Add(parent.key(name), value.clone()))
                .chain([Op::Remove(pointer.clone())]);
            let ops: Vec<Op> = if free { ops.collect() } else { Vec::new() };
            let finding = self.report(UNKNOWN_FIELD, level, pointer, message, help).at_key();
            if !ops.is_empty() {
                finding.fix(Safety::Unsafe, ops);
            }
            return;
        }
        let help = sibling.map_or_else(
            || "remove it, or look its name up".to_owned(),
            |name| format!("did you mean `{name}`?"),
        );
        let message = if parent.is_root() {
            format!("{begin}: no object has it")
        } else {
            format!("{begin}: `{parent}` has no such field")
        };
        let taken = sibling
            .is_none_or(|name| parent.find(self.object).is_some_and(|parent| parent.get(name).is_some()));
        let target = sibling.map(|name| parent.key(name));
        let finding = self.report(UNKNOWN_FIELD, level, pointer.clone(), message, help).at_key();
        if let Some(target) = target.filter(|_| !taken) {
            finding.fix(Safety::Unsafe, vec![Op::Add(target, value.clone()), Op::Remove(pointer)]);
        }
    }

    /// Returns the nearest mapping of the object in which the API knows a field of this name.
    fn home(&self, key: &str, fields: &Fields, parent: &Pointer) -> Option<Pointer> {
        if fields.get("limits").is_some() && (key.contains('/') || key == "cpu" || key == "memory") {
            return Some(parent.key("limits"));
        }
        let mut levels = Vec::new();
        self.levels(self.root, Some(self.object), Pointer::root(), &mut levels);
        let holders = levels.into_iter().filter(|(at, fields)| at != parent && fields.get(key).is_some());
        holders
            .map(|(at, _)| (distance(&at, parent), at))
            .min_by(|left, right| left.0.cmp(&right.0))
            .map(|(_, at)| at)
    }

    /// Collects the mappings that authors mix up: the object, its specs, templates and first containers.
    fn levels(&self, id: Id, value: Option<&Value>, at: Pointer, out: &mut Vec<(Pointer, &'static Fields)>) {
        const SPINE: [&str; 8] = [
            "metadata",
            "spec",
            "jobTemplate",
            "template",
            "containers",
            "runPolicy",
            "pytorchReplicaSpecs",
            "securityContext",
        ];
        match self.schema.shape(id) {
            Shape::Object(fields) => {
                for name in SPINE {
                    if let Some(field) = fields.get(name) {
                        self.levels(field, value.and_then(|value| value.get(name)), &at / name, out);
                    }
                }
                out.push((at, fields));
            }
            Shape::List(item) => self.levels(*item, value.and_then(|value| value.get(0)), at / 0, out),
            Shape::Map(item)
                if at.last().is_some_and(|last| *last == Token::Key("pytorchReplicaSpecs".into())) =>
            {
                for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
                    self.levels(*item, Some(value), at.key(key), out);
                }
            }
            _ => {}
        }
    }
}

/// Says that a field holds a placeholder.
pub(crate) fn held(pointer: Pointer, text: &str) -> Finding {
    let message = format!("`{}` holds the placeholder `{}`", name_of(&pointer), short(text));
    checks::finding(PLACEHOLDER, Level::Warn, pointer, message, placeholder::help(text))
}

/// Returns how many steps lead from one place to another; a place above counts as slightly farther than one
/// below.
fn distance(from: &Pointer, to: &Pointer) -> (usize, usize) {
    let common = from.tokens().into_iter().zip(to.tokens()).take_while(|(left, right)| left == right).count();
    let (up, down) = (to.depth() - common, from.depth() - common);
    (up + down, up)
}

/// How many fields a mapping may have for its author to be told to take each of them out of it.
const INNER: usize = 3;

/// Returns the fields of a mapping that is one too many: all of them are fields of the mapping around it.
fn inner<'v>(fields: &Fields, value: &'v Value) -> Option<&'v Map> {
    let inner = value.as_object()?;
    let fits = (1..=INNER).contains(&inner.len()) && inner.keys().all(|name| fields.get(name).is_some());
    fits.then_some(inner)
}

/// Tells whether one name is the other with a slip, rather than another word of the same letters.
fn near(key: &str, name: &str) -> bool {
    key.eq_ignore_ascii_case(name) || (key.len() > 3 && key.len().abs_diff(name.len()) <= 3)
}

/// Returns the name of a field for people: its last key, with the index or the author's key behind it.
fn name_of(pointer: &Pointer) -> String {
    let tokens = pointer.tokens();
    let named = tokens.iter().rposition(|token| matches!(token, Token::Key(_))).unwrap_or(0);
    let text = pointer.to_string();
    match (tokens.get(named), tokens.get(named + 1)) {
        (Some(Token::Key(key)), None) if !text.ends_with(']') => short(key),
        (Some(Token::Key(key)), Some(_)) => {
            text.rfind(&**key).map_or_else(|| text.clone(), |at| text[at..].to_owned())
        }
        // A key of the author's choice: `limits[memory]`.
        _ => text.rfind('[').map_or_else(
            || text.clone(),
            |at| text[text[..at].rfind('.').map_or(0, |dot| dot + 1)..].to_owned(),
        ),
    }
}

/// Returns a text fit for one line: escaped, and cut.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    let mut out: String = text.chars().take(MOST).collect::<String>().escape_debug().to_string();
    if text.chars().nth(MOST).is_some() {
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

/// The help where a string is wanted and another scalar found, as long as its text is not known.
const IN_QUOTES: &str = "put it in quotes";

/// Lets a finding that a scalar needs quotes name its text in the file. Without a text nothing is proposed:
/// what the value prints as may be another text than its author's (`1.10`, `5e-5`, `NO`).
pub(crate) fn quote(finding: &mut Finding, text: Option<&str>) {
    if finding.rule != FIELD_TYPE || finding.help != IN_QUOTES {
        return;
    }
    let Some(fix) = &mut finding.fix else { return };
    // Only plain scalars: quotes would make something else of an alias or a tag.
    let is_plain = |text: &&str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
    };
    match (text.filter(is_plain), fix.ops.first_mut()) {
        (Some(text), Some(Op::Replace(_, value))) => {
            // A safe fix is for a quantity, which not every text of a number is (`1_0.5`).
            if fix.safety != Safety::Safe || Quantity::from_json(&text.into()).is_ok() {
                *value = text.into();
            }
            let help = format!("{IN_QUOTES}: \"{}\"", value.as_str().unwrap_or(text));
            finding.help = help.into();
        }
        _ => finding.fix = None,
    }
}

/// Returns what to do about a value of the wrong type, and the value that was probably meant.
fn mend(shape: &Shape, value: &Value) -> (String, Option<(Safety, Value)>) {
    match (shape, value) {
        (Shape::Int32 | Shape::Int64, Value::String(text)) if text.parse::<i32>().is_ok() => {
            let number: Value = text.parse::<i32>().unwrap_or_default().into();
            (format!("write it without quotes: {number}"), Some((Safety::Safe, number)))
        }
        (Shape::Bool, Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            (format!("write it without quotes: {text}"), Some((Safety::Safe, (text == "true").into())))
        }
        // What the author wrote may read otherwise (`yes`, `0777`): whoever has the file puts the text of it
        // here (see [`quote`]).
        (Shape::Text | Shape::Choice, Value::Number(_) | Value::Bool(_)) => {
            (IN_QUOTES.to_owned(), Some((Safety::Unsafe, value.to_string().into())))
        }
        (Shape::Quantity, Value::Number(_)) => {
            (IN_QUOTES.to_owned(), Some((Safety::Safe, value.to_string().into())))
        }
        (Shape::List(_), Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            ("write it as a list of one item".to_owned(), None)
        }
        (Shape::List(_), Value::Object(fields)) => {
            let rest =
                if fields.len() > 1 { ", and move its other keys two columns to the right," } else { "" };
            (format!("put `- ` before its first key{rest} so that it is a list of one item"), None)
        }
        (Shape::Map(_) | Shape::Object(_), Value::Array(_)) => {
            ("write keys and values instead of a list".to_owned(), None)
        }
        _ => ("write a value of that type; the API server refuses any other".to_owned(), None),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn job(spec: Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
    }

    fn with_container(extra: Value) -> Value {
        let mut container = json!({"name": "trainer", "image": "example.com/t:1"});
        for (key, value) in extra.as_object().into_iter().flatten() {
            container[key] = value.clone();
        }
        job(json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}))
    }

    /// The findings as `id path: message (help)`.
    fn said(object: &Value) -> Vec<String> {
        let found = check(object, Reading::Manifest);
        for finding in &found {
            assert!(finding.pointer.find(object).is_some(), "{finding:?}");
            if let Some(fix) = &finding.fix {
                let patched = crate::text::patch::apply(object, &fix.ops).expect("a fix applies");
                assert!(check(&patched, Reading::Manifest).len() < found.len(), "{finding:?}");
            }
        }
        found
            .iter()
            .map(|finding| {
                format!("{} {}: {} ({})", finding.rule, finding.path, finding.message, finding.help)
            })
            .collect()
    }

    #[test]
    fn says_nothing_of_what_is_right() {
        let whole = json!({
            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "2Gi", "cpu": 0.5}, "requests": null},
            "ports": [{"containerPort": 80, "name": null}],
            "livenessProbe": {"httpGet": {"port": "http"}},
            "env": [{"name": "A", "value": "${B}"}],
            "args": ["$(B)", null],
        });
        assert_eq!(said(&with_container(whole)), [""; 0]);
        assert_eq!(said(&job(Value::Null)), [""; 0]);
        assert_eq!(said(&job(json!({"parallelism": 4.0, "completions": null}))), [""; 0]);
        assert_eq!(
            said(&json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": 5})),
            [""; 0]
        );
    }

    #[test]
    fn the_metrics_of_an_elastic_policy_have_a_shape() {
        let job = |metric: Value| {
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"},
                   "spec": {"pytorchReplicaSpecs": {}, "elasticPolicy": {"metrics": [metric]}}})
        };
        let resource =
            |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        assert_eq!(said(&job(resource(json!({"type": "Utilization", "averageUtilization": 80})))), [""; 0]);
        let wrong = said(&job(resource(json!({"type": "Utilization", "averageUtilization": "80%"}))));
        assert!(
            wrong.len() == 1
                && wrong[0].starts_with(
                    "field-type spec.elasticPolicy.metrics[0].resource.target.averageUtilization"
                ),
            "{wrong:#?}"
        );
        let unknown = said(&job(resource(json!({"type": "Value", "averageUse": "80"}))));
        assert!(unknown.len() == 1 && unknown[0].starts_with("unknown-field "), "{unknown:#?}");
    }

    #[test]
    fn tells_wrong_types() {
        assert_eq!(
            said(&job(json!({"activeDeadlineSeconds": "3600"}))),
            [
                "field-type spec.activeDeadlineSeconds: `activeDeadlineSeconds` must be an integer, is the string \"3600\" (write it without quotes: 3600)"
            ]
        );
        assert_eq!(
            said(&with_container(json!({"args": "--x"}))),
            [
                "field-type spec.template.spec.containers[0].args: `args` must be a list, is the string \"--x\" (write it as a list of one item)"
            ]
        );
        let ports = |ports: Value| said(&with_container(json!({"ports": ports})))[0].clone();
        let help = "(put `- ` before its first key, and move its other keys two columns to the right, so that it is a list of one item)";
        assert!(ports(json!({"containerPort": 80, "name": "http"})).ends_with(help));
        assert!(
            ports(json!({"containerPort": 80}))
                .ends_with("(put `- ` before its first key so that it is a list of one item)")
        );
        assert_eq!(
            said(&with_container(json!({"args": [1]}))),
            [
                "field-type spec.template.spec.containers[0].args[0]: `args[0]` must be a string, is the integer 1 (put it in quotes)"
            ]
        );
        assert_eq!(
            said(&with_container(json!({"resources": {"limits": {"memory": "1KB"}}}))),
            [
                "field-type spec.template.spec.containers[0].resources.limits[memory]: `limits[memory]` must be a quantity (`500m`, `2Gi`), \
              is the string \"1KB\" (write a value of that type; the API server refuses any other)"
            ]
        );
        let big = said(&job(
            json!({"parallelism": 3_000_000_000_u64, "ttlSecondsAfterFinished": 1e20, "suspend": "true", "backoffLimit": 1.5}),
        ));
        assert_eq!(big.len(), 4, "{big:#?}");
        assert!(big[1].contains("must be an integer of 32 bits, is the integer 3000000000"), "{big:#?}");
        assert_eq!(said(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": 20240101, "labels": {"a": true}}})).len(), 2);
        assert_eq!(said(&job(json!([1, 2]))).len(), 1);
    }

    #[test]
    fn one_finding_for_each_placeholder() {
        let found = said(&job(
            json!({"parallelism": "$NODES", "completions": "${N:-4}", "template": {"spec": {"restartPolicy": "<POLICY>"}}}),
        ));
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found.iter().all(|line| line.starts_with("placeholder ")), "{found:#?}");
    }

    #[test]
    fn one_finding_for_each_placeholder_however_often() {
        let containers = json!([
            {"name": "a", "image": "<ACCOUNT>.dkr.ecr.example.com/a:1"}, {"name": "b", "image": "YOUR_IMAGE"}, {"name": "c", "image": "a:LATEST"},
        ]);
        let mut object = job(
            json!({"parallelism": "$NODES", "completions": "$NODES", "backoffLimit": "$NODES", "activeDeadlineSeconds": "${N}"}),
        );
        object["spec"]["template"] = json!({"spec": {"containers": containers}});
        object["metadata"]["name"] = "TARGET_NODE_NAME".into();
        let found: Vec<String> = super::super::check(&object)
            .into_iter()
            .filter(|finding| finding.path.to_string() != "spec.template.spec.restartPolicy")
            .map(|finding| finding.message.into_owned())
            .collect();
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found.iter().any(|line| line.contains("`$NODES`, here and at 2 more places")), "{found:#?}");
        assert!(
            found.iter().any(|line| line.contains("`name` holds the placeholder `TARGET_NODE_NAME`")),
            "{found:#?}"
        );
    }

    #[test]
    fn a_blank_amount_is_none() {
        for (value, expected) in [
            (Value::Null, "warn field-type"),
            (json!(""), "deny field-type"),
            (json!("$N"), "warn placeholder"),
        ] {
            let object = with_container(json!({"resources": {"limits": {"nvidia.com/gpu": value}}}));
            let found = super::super::check(&object);
            let at =
                found.iter().find(|finding| finding.path.to_string().contains("nvidia.com/gpu")).unwrap();
            assert_eq!(format!("{} {}", at.level.as_str(), at.rule), expected);
        }
        assert!(said(&with_container(json!({"resources": {"limits": {"nvidia.com/gpu": 0}}}))).is_empty());
    }

    #[test]
    fn names_the_place_where_a_field_belongs() {
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"activeDeadlineSeconds": 600, "jobTemplate": {"spec": {"restartPolicy": "Never"}}}});
        let found = said(&cron);
        assert!(found[0].contains("it belongs at `spec.jobTemplate.spec`"), "{found:#?}");
        assert!(found[1].contains("it belongs at `spec.jobTemplate.spec.template.spec`"), "{found:#?}");
        let found = said(&job(
            json!({"tolerations": [], "template": {"spec": {"imagePullPolicy": "Always", "containers": [{"image": "i"}]}}}),
        ));
        assert!(found[1].contains("it belongs at `spec.template.spec`"), "{found:#?}");
        assert!(found[0].contains("it belongs at `spec.template.spec.containers[0]`"), "{found:#?}");
        let found = said(&with_container(json!({"resources": {"nvidia.com/gpu": 1}})));
        assert!(
            found[0].contains("it belongs at `spec.template.spec.containers[0].resources.limits`"),
            "{found:#?}"
        );
    }

    #[test]
    fn names_the_field_that_was_meant() {
        for (object, name) in [
            (job(json!({"podReplacmentPolicy": "Failed"})), "podReplacementPolicy"),
            (job(json!({"template": {"spec": {"restartpolicy": "Never"}}})), "restartPolicy"),
            (with_container(json!({"commands": []})), "command"),
            (with_container(json!({"volumeMount": []})), "volumeMounts"),
        ] {
            let found = said(&object);
            assert!(
                found.len() == 1 && found[0].ends_with(&format!("(did you mean `{name}`?)")),
                "{found:#?}"
            );
        }
        let source = json!([{"name": "gpu", "source": {"resourceClaimTemplateName": "one"}}]);
        let object = job(
            json!({"template": {"spec": {"resourceClaims": source, "containers": [{"name": "c", "image": "i"}]}}}),
        );
        let found = said(&object);
        assert!(
            found.len() == 1
                && found[0]
                    .contains("what is in it belongs directly in `spec.template.spec.resourceClaims[0]`"),
            "{found:#?}"
        );
        assert!(
            found[0].ends_with("(take `source` out, and write `resourceClaimTemplateName` in its place)"),
            "{found:#?}"
        );
        let found = said(&with_container(json!({"colour": "red"})));
        assert!(found[0].ends_with("(remove it, or look its name up)"), "{found:#?}");
    }

    #[test]
    fn custom_resources_lack_what_their_schema_requires() {
        let object = |spec: Value| json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": spec});
        let worker = |container: Value| {
            object(
                json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}),
            )
        };
        assert_eq!(said(&worker(json!({"name": "pytorch", "image": "i"}))), [""; 0]);
        let found = said(&worker(json!({"image": "i"})));
        assert!(
            found[0].contains(
                "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].name: Required value"
            ),
            "{found:#?}"
        );
        // A patch lacks what it does not change.
        assert_eq!(said(&worker(json!({"env": []}))), [""; 0]);
        let found = said(&worker(
            json!({"name": "pytorch", "image": "i", "resources": {"limits": {"cpu": 0.5, "memory": 1}}}),
        ));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("limits[cpu]") && found[0].ends_with("(put it in quotes)"), "{found:#?}");
        let found = said(&object(
            json!({"activeDeadlineSeconds": 5, "pytorchReplicaSpecs": {"Worker": {"image": "i", "replicas": "4"}}}),
        ));
        assert!(found[0].contains("it belongs at `spec.runPolicy`"), "{found:#?}");
        let moved =
            check(&object(json!({"activeDeadlineSeconds": 5, "pytorchReplicaSpecs": {}})), Reading::Manifest)
                .remove(0)
                .fix
                .expect("a fix");
        assert_eq!(
            moved.ops[0],
            Op::Add(Pointer::of(&["spec", "runPolicy"]), json!({"activeDeadlineSeconds": 5}))
        );
        assert!(
            found[1].contains("it belongs at `spec.pytorchReplicaSpecs[Worker].template.spec.containers[0]`"),
            "{found:#?}"
        );
        assert!(found[2].starts_with("field-type spec.pytorchReplicaSpecs[Worker].replicas"), "{found:#?}");
    }
}
