//! Ways to make an object long.

use std::fmt;

use serde_json::{Map, Value};

/// What is done at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Copies of the first entry, every name in it made distinct.
    Distinct,
    /// Copies of the first entry with a distinct `name`, but what it refers to is the same.
    Renamed,
    /// Copies of the first entry, all the same; keys of a mapping differ.
    Same,
    /// A long text: this part again and again.
    Text(&'static str),
    /// The key of the first entry of a mapping made long.
    Key,
}

/// One place that is made long.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pointer: String,
    growth: Growth,
}

/// Places that are made long together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    places: Vec<Place>,
    /// Whether what is inside of a list is made long in each of its items, or only in the first.
    each: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, place) in self.places.iter().enumerate() {
            write!(f, "{}{} {:?}", if nth > 0 { " × " } else { "" }, place.pointer, place.growth)?;
        }
        f.write_str(if self.each { " (in each)" } else { "" })
    }
}

/// Parts of texts that somebody takes apart.
const TEXTS: [&str; 9] = ["a", "deadlin,", "deadline,", "${", "{{", "<a", ": `, ", "9", "/\u{202e}"];

/// Returns each place alone, in every way to make it long; those of texts if asked for.
pub(crate) fn singles(object: &Value, texts: bool) -> Vec<Shape> {
    let mut places = Vec::new();
    collect(object, &mut String::new(), &mut places);
    places.retain(|place: &Place| texts || !matches!(place.growth, Growth::Text(_)));
    places.into_iter().map(|place| Shape { places: vec![place], each: false }).collect()
}

fn collect(value: &Value, at: &mut String, places: &mut Vec<Place>) {
    let mut add = |growth| places.push(Place { pointer: at.clone(), growth });
    match value {
        Value::Array(_) => [Growth::Distinct, Growth::Renamed, Growth::Same].into_iter().for_each(&mut add),
        Value::Object(_) if has_keys_of_the_author(at) => {
            [Growth::Distinct, Growth::Same, Growth::Key].into_iter().for_each(&mut add);
        }
        Value::Object(_) => add(Growth::Same),
        Value::String(_) => TEXTS.into_iter().for_each(|text| add(Growth::Text(text))),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    let steps: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().take(1).map(|item| ("0".to_owned(), item)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        _ => Vec::new(),
    };
    for (step, child) in steps {
        let length = at.len();
        at.push('/');
        at.push_str(&step);
        collect(child, at, places);
        at.truncate(length);
    }
}

/// Tells whether the keys of a mapping are names, not fields.
fn has_keys_of_the_author(at: &str) -> bool {
    let maps = [
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "limits",
        "requests",
        "minResources",
        "f:spec",
        "pytorchReplicaSpecs",
    ];
    maps.iter().any(|map| at.ends_with(map))
}

/// Returns pairs of lists and mappings, nested ones in both ways; each pair once for each way to grow that
/// both have.
pub(crate) fn pairs(singles: &[Shape]) -> Vec<Shape> {
    let mut pairs = Vec::new();
    for growth in [Growth::Distinct, Growth::Renamed, Growth::Same] {
        let of = |shape: &&Shape| {
            let place = &shape.places[0];
            place.growth == growth
                || growth == Growth::Renamed
                    && place.growth == Growth::Same
                    && has_keys_of_the_author(&place.pointer)
        };
        let places: Vec<&Place> = singles
            .iter()
            .filter(of)
            .map(|shape| &shape.places[0])
            .filter(|place| is_worth_a_pair(place))
            .collect();
        for (nth, one) in places.iter().enumerate() {
            for other in &places[nth + 1..] {
                if one.pointer != other.pointer {
                    pairs.push(Shape { places: vec![(*one).clone(), (*other).clone()], each: false });
                }
                if is_inside(&other.pointer, &one.pointer) {
                    pairs.push(Shape { places: vec![(*one).clone(), (*other).clone()], each: true });
                }
            }
        }
    }
    pairs
}

/// Leaves out what is the same code for another list: containers of other slots, and what nothing reads.
fn is_worth_a_pair(place: &Place) -> bool {
    let skipped = [
        "initContainers",
        "ephemeralContainers",
        "podFailurePolicy",
        "envFrom",
        "ports",
        "finalizers",
        "matchFields",
        "schedulingPolicy",
    ];
    !skipped.iter().any(|name| place.pointer.contains(name))
}

/// Returns shapes with one place more.
pub(crate) fn threes<'s>(shapes: impl Iterator<Item = &'s Shape>, singles: &[Shape]) -> Vec<Shape> {
    let third = singles
        .iter()
        .map(|shape| &shape.places[0])
        .filter(|place| place.growth == Growth::Distinct && is_worth_a_pair(place));
    let third: Vec<&Place> = third.collect();
    let with = |shape: &Shape, place: &Place| {
        let mut shape = shape.clone();
        shape.places.push(place.clone());
        shape
    };
    let is_new =
        |shape: &Shape, place: &Place| !shape.places.iter().any(|known| known.pointer == place.pointer);
    shapes
        .flat_map(|shape| {
            third
                .iter()
                .filter(|place| is_new(shape, place))
                .map(|place| with(shape, place))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

impl Shape {
    /// Returns the object in this shape, of about so many bytes as JSON, but not much more.
    pub(crate) fn of_size(&self, object: &Value, size: usize) -> Value {
        let mut count = 4_usize;
        let mut shaped = self.of_count(object, count);
        for _ in 0..6 {
            let length = shaped.to_string().len();
            if (size * 8 / 10..size * 11 / 10).contains(&length) {
                break;
            }
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes of test objects"
            )]
            let next = ((count as f64)
                * (size as f64 / length as f64).powf(if self.each { 0.5 } else { 1.0 }))
            .ceil() as usize;
            if next == count || length > size && count == 1 {
                break;
            }
            count = next.max(1);
            shaped = self.of_count(object, count);
        }
        shaped
    }

    fn of_count(&self, object: &Value, count: usize) -> Value {
        let mut shaped = object.clone();
        let mut places: Vec<&Place> = self.places.iter().collect();
        // What is copied first is in each copy afterwards.
        places.sort_by_key(|place| place.pointer.len());
        if self.each {
            places.reverse();
        }
        for place in places {
            if let Some(value) = shaped.pointer_mut(&place.pointer) {
                grow(value, place.growth, count);
            }
        }
        shaped
    }
}

fn grow(value: &mut Value, growth: Growth, count: usize) {
    match (value, growth) {
        (Value::String(text), Growth::Text(part)) => *text += &part.repeat(count * 16 / part.len()),
        (Value::Array(items), growth) => {
            let Some(first) = items.first().cloned() else { return };
            items.extend((1..count).map(|nth| renamed(&first, growth, nth)));
        }
        (Value::Object(entries), Growth::Key) => {
            let Some((key, value)) = entries.iter().next().map(|(key, value)| (key.clone(), value.clone()))
            else {
                return;
            };
            entries.insert(key + &"k".repeat(count * 16), value);
        }
        (Value::Object(entries), growth) => {
            let Some((key, value)) = entries.iter().next().map(|(key, value)| (key.clone(), value.clone()))
            else {
                return;
            };
            let more: Map<String, Value> =
                (1..count).map(|nth| (format!("{key}-{nth}"), renamed(&value, growth, nth))).collect();
            entries.extend(more);
        }
        _ => {}
    }
}

/// Returns a copy with other names.
fn renamed(value: &Value, growth: Growth, nth: usize) -> Value {
    match (value, growth) {
        (value, Growth::Same) => value.clone(),
        (Value::String(text), Growth::Distinct) => format!("{text}-{nth}").into(),
        (Value::Object(entries), growth) => {
            let rename = |(key, value): (&String, &Value)| {
                let name = growth == Growth::Renamed && key == "name"
                    || growth == Growth::Distinct && is_a_name(key);
                let value = if name { renamed(value, Growth::Distinct, nth) } else { value.clone() };
                (key.clone(), value)
            };
            Value::Object(entries.iter().map(rename).collect())
        }
        (value, _) => value.clone(),
    }
}

/// Tells whether a field's value is a name of the author's, or refers to one. Some must stay what they are
/// for a rule to look further.
fn is_a_name(key: &str) -> bool {
    matches!(
        key,
        "name" | "key" | "mountPath" | "persistentVolumeClaim" | "claimName" | "value" | "manager" | "uid"
    )
}
