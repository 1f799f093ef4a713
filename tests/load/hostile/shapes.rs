//! Ways to make an object long.

use std::fmt;

use serde_json::{Map, Value};

use super::objects::{Base, Known};

/// What is done at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Copies of the first entry, every name in it made distinct.
    Distinct,
    /// Copies of the first entry with a distinct `name`, but what it refers to is the same.
    Renamed,
    /// Copies of the first entry, all the same; keys of a mapping differ.
    Same,
    /// Copies of the first entry with distinct names and nothing in it but pods, so that there are many.
    Lean,
    /// A long text: this part again and again.
    Text(&'static str),
    /// Copies of the first variable, each with the value of the one before it, twice.
    Chain,
    /// The key of the first entry of a mapping made long.
    Key,
    /// Items, or entries with other keys, that are this: JSON in which `#` is a number.
    Wrong(&'static str),
}

/// What is wrong in most lists and mappings, and short: empty, null, of another type, with strange fields, and
/// with names, numbers and quantities that are invalid.
const WRONG: [&str; 12] = [
    "{}",
    "null",
    "1",
    "-1",
    "\"1x\"",
    "\"_#\"",
    "[]",
    "{\"\":0}",
    "{\"name\":\"_#\"}",
    "{\"name\":-1}",
    "{\"x#\":[{}]}",
    "{\"name\":\"a\",\"image\":\"<A>\"}",
];

/// Returns each list and each mapping with names, full of what is wrong.
pub(crate) fn wrong(base: &Base) -> Vec<Shape> {
    let lists = singles(base).into_iter().filter(|shape| {
        let place = &shape.places[0];
        place.growth == Growth::Distinct || place.growth == Growth::Same && place.has_names
    });
    let mut lists: Vec<Place> = lists.flat_map(|shape| shape.places).collect();
    lists.dedup_by(|one, other| one.pointer == other.pointer);
    let with = |place: &Place, item| Place { growth: Growth::Wrong(item), ..place.clone() };
    let places = lists.iter().flat_map(|place| WRONG.map(|item| with(place, item)));
    places.map(|place| Shape { places: vec![place], each: false }).collect()
}

/// One place that is made long.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pointer: String,
    growth: Growth,
    /// Whether the keys of a mapping are names of the author's, not fields.
    has_names: bool,
    /// Whether a rule may read it, or what is in it.
    is_read: bool,
    /// Whether it is in a pod template, or metadata, which all kinds have.
    is_common: bool,
    /// Whether it is in one of which the object has another.
    is_again: bool,
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

/// Parts of scripts: commands, quotes, expansions and compound commands, also such as never end.
const SCRIPTS: [&str; 27] = [
    "torchrun --nnodes=9 --node-rank=0 x; ",
    "torchrun --standalone --min-nodes=2 --max-nodes=3 --rdzv-endpoint=localhost:1 x\n",
    "accelerate launch --num_machines 9 --num_processes 99 --machine_rank 0 x\n",
    "deepspeed --num_gpus 99 x || mpirun -np 9 y | tee z &\n",
    " -m",
    " trainer.devices=9 trainer.num_nodes=9",
    "A=$A$A; ",
    "a$A\"$A\"${A:-$A}",
    "$(",
    "`",
    "\"$(a)\"",
    "bash -c '",
    "if a; then ",
    "while :; do a; done; ",
    "a <<E\n",
    "'\\''",
    ";a",
    "|a",
    "&a",
    "||true;a",
    ";sh -c a",
    ";python a | tee b",
    ";cp a /b",
    ";a=1 b",
    ";((a++))",
    ";f(){ a;}",
    ";case a in b)c;;esac",
];

/// Returns each place alone, in every way to make it long.
pub(crate) fn singles(base: &Base) -> Vec<Shape> {
    let mut places = Vec::new();
    collect(base, &base.object, &mut String::new(), &mut places);
    places.into_iter().map(|place| Shape { places: vec![place], each: false }).collect()
}

fn collect(base: &Base, value: &Value, at: &mut String, places: &mut Vec<Place>) {
    let (has_names, is_read) = (has_names(base, at), is_read(base, at));
    let Known { templates, metadata, .. } = &base.known;
    let is_common = templates.iter().chain(metadata).any(|common| is_inside(at, common));
    let is_again = is_again(base, at);
    let has_pods = base.known.templates.iter().any(|template| is_inside(template, at));
    let mut add =
        |growth| places.push(Place { pointer: at.clone(), growth, has_names, is_read, is_common, is_again });
    match value {
        Value::Array(_) => {
            [Growth::Distinct, Growth::Renamed, Growth::Same].into_iter().for_each(&mut add);
            if has_pods {
                add(Growth::Lean);
            }
            if at.ends_with("/env") {
                add(Growth::Chain);
            }
        }
        Value::Object(_) if has_names => {
            [Growth::Distinct, Growth::Same, Growth::Key].into_iter().for_each(&mut add);
            if has_pods {
                add(Growth::Lean);
            }
        }
        Value::Object(_) => add(Growth::Same),
        // With another word there, nothing reads the script, which the growth is compared with.
        Value::String(shell) if shell == "bash" || shell == "-c" => {}
        Value::String(_) => {
            TEXTS.into_iter().for_each(|text| add(Growth::Text(text)));
            if at.ends_with("/command/2") {
                SCRIPTS.into_iter().for_each(|text| add(Growth::Text(text)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    let steps: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(nth, item)| (nth.to_string(), item)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        _ => Vec::new(),
    };
    for (step, child) in steps {
        let length = at.len();
        at.push('/');
        at.push_str(&step);
        collect(base, child, at, places);
        at.truncate(length);
    }
}

/// Tells whether the keys of a mapping are names, not fields.
fn has_names(base: &Base, at: &str) -> bool {
    let maps = ["labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "f:spec"];
    maps.iter().any(|map| at.ends_with(map)) || base.known.names.iter().any(|known| known == at)
}

/// Tells whether a rule may read a place: metadata, pods and the items that they are in, and what is above
/// them.
fn is_read(base: &Base, at: &str) -> bool {
    let Known { pods, metadata, .. } = &base.known;
    let is_above = |pods: &str| is_inside(pods, at) || pods == at;
    metadata.iter().any(|metadata| is_inside(at, metadata))
        || pods.iter().any(|pods| is_above(pods) || is_inside(at, pods))
}

/// Tells whether a place is in a pod template that is not the one with the longest way to it, or in the
/// metadata of the second object inside another.
fn is_again(base: &Base, at: &str) -> bool {
    let Known { templates, metadata, .. } = &base.known;
    let first = templates.iter().max_by_key(|template| template.len());
    let mut others =
        templates.iter().filter(|template| Some(*template) != first).chain(metadata.iter().skip(2));
    others.any(|other| is_inside(at, other))
}

/// Returns pairs of lists and mappings, nested ones in both ways; each pair once for each way to grow that
/// both have.
pub(crate) fn pairs(singles: &[Shape]) -> Vec<Shape> {
    let mut pairs = Vec::new();
    for growth in [Growth::Distinct, Growth::Renamed, Growth::Same] {
        let of = |shape: &&Shape| {
            let place = &shape.places[0];
            place.growth == growth
                || growth == Growth::Renamed && place.growth == Growth::Same && place.has_names
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

/// Returns each list of lean items together with each other place, and with long annotations.
pub(crate) fn lean_pairs(singles: &[Shape]) -> Vec<Shape> {
    let places = || singles.iter().map(|shape| &shape.places[0]);
    let is_other = |place: &&Place| match place.growth {
        Growth::Distinct | Growth::Key => is_worth_a_pair(place),
        Growth::Text(text) => text.ends_with(',') && place.pointer.starts_with("/metadata/annotations/"),
        Growth::Renamed | Growth::Same | Growth::Lean | Growth::Chain | Growth::Wrong(_) => false,
    };
    let lean = places().filter(|place| place.growth == Growth::Lean);
    lean.flat_map(|lean| {
        let others = places()
            .filter(is_other)
            .filter(|other| !other.is_again)
            .filter(|other| other.pointer != lean.pointer);
        others.map(|other| Shape { places: vec![lean.clone(), other.clone()], each: false })
    })
    .collect()
}

/// Leaves out what is the same code for another list: containers of other slots, pods and metadata that the
/// object has twice, and what nothing reads.
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
    place.is_read && !place.is_again && !skipped.iter().any(|name| place.pointer.contains(name))
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
    /// Tells whether the gate tries it for a kind: what nothing reads in one way, what the object has twice
    /// once, and what all kinds have in ways that take turns.
    pub(crate) fn is_in_the_gate(&self, nth: usize) -> bool {
        self.places.iter().all(|place| match place.growth {
            _ if place.is_again => false,
            Growth::Text(_) | Growth::Distinct | Growth::Lean | Growth::Chain | Growth::Wrong(_) => true,
            Growth::Renamed | Growth::Same | Growth::Key if place.is_common => {
                let turn = usize::from(place.growth == Growth::Same);
                (nth + turn + place.pointer.len()).is_multiple_of(2)
            }
            Growth::Renamed | Growth::Same | Growth::Key => place.is_read,
        })
    }

    /// Tells whether it is only of places that the kind does not share with others.
    pub(crate) fn is_own(&self) -> bool {
        self.places.iter().all(|place| !place.is_common)
    }

    /// Tells whether it is a long text.
    pub(crate) fn is_text(&self) -> bool {
        self.places.iter().any(|place| matches!(place.growth, Growth::Text(_)))
    }

    /// Tells whether a rule may read what is long.
    pub(crate) fn is_read(&self) -> bool {
        self.places.iter().any(|place| place.is_read)
    }

    /// Returns the object in this shape, of about so many bytes as JSON, but not much more.
    pub(crate) fn of_size(&self, base: &Base, size: usize) -> String {
        let object = self.without_switches(base);
        let length = object.to_string().len();
        let mut count = 4_usize;
        let mut shaped = self.of_count(base, &object, count);
        for _ in 0..6 {
            if (size * 8 / 10..size * 11 / 10).contains(&shaped.len()) {
                break;
            }
            // What is longer than it was with one of each grows with the count, or with its square.
            let longer = |long: usize| long.saturating_sub(length).max(1);
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes of test objects"
            )]
            let next = ((count as f64)
                * (longer(size) as f64 / longer(shaped.len()) as f64).powf(if self.each { 0.5 } else { 1.0 }))
            .ceil() as usize;
            if next == count || shaped.len() > size && count == 1 {
                break;
            }
            count = next.max(1);
            shaped = self.of_count(base, &object, count);
        }
        shaped
    }

    /// Returns the object without the fields that switch rules off, but for those that are made long.
    fn without_switches(&self, base: &Base) -> Value {
        let mut object = base.object.clone();
        for switch in &base.known.switches {
            let is_long =
                self.places.iter().any(|place| place.pointer == *switch || is_inside(&place.pointer, switch));
            let Some((around, field)) = switch.rsplit_once('/').filter(|_| !is_long) else { continue };
            if let Some(fields) = object.pointer_mut(around).and_then(Value::as_object_mut) {
                fields.remove(&field.replace("~1", "/"));
            }
        }
        object
    }

    fn of_count(&self, base: &Base, object: &Value, count: usize) -> String {
        let mut shaped = object.clone();
        let mut places: Vec<&Place> = self.places.iter().collect();
        // What is copied first is in each copy afterwards.
        places.sort_by_key(|place| place.pointer.len());
        if self.each {
            places.reverse();
        }
        for place in places {
            let Some(value) = shaped.pointer_mut(&place.pointer) else { continue };
            match place.growth {
                Growth::Lean => grow_lean(value, base, &place.pointer, count),
                growth => grow(value, growth, count),
            }
        }
        shaped.to_string()
    }
}

fn grow(value: &mut Value, growth: Growth, count: usize) {
    match (value, growth) {
        (Value::Array(items), Growth::Wrong(item)) => {
            items.extend((1..4 * count).map(|nth| numbered(item, nth)));
        }
        (Value::Object(entries), Growth::Wrong(item)) => {
            entries.extend((1..4 * count).map(|nth| (format!("a{nth}"), numbered(item, nth))));
        }
        (Value::String(text), Growth::Text(part)) => *text += &part.repeat(count * 16 / part.len()),
        (Value::Array(items), Growth::Chain) => {
            let value = |before: usize| format!("$(V{before})$(V{before})");
            items.extend(
                (1..count).map(|nth| serde_json::json!({"name": format!("V{nth}"), "value": value(nth - 1)})),
            );
        }
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

fn numbered(item: &str, nth: usize) -> Value {
    serde_json::from_str(&item.replace('#', &nth.to_string())).unwrap()
}

fn grow_lean(value: &mut Value, base: &Base, at: &str, count: usize) {
    let copies = |first: &Value, step: &str| {
        let lean = base.lean(&format!("{at}/{step}"), first);
        (1..4 * count).map(move |nth| renamed(&lean, Growth::Distinct, nth))
    };
    match value {
        Value::Array(items) => {
            let Some(copies) = items.first().map(|first| copies(first, "0")) else { return };
            items.extend(copies);
        }
        Value::Object(entries) => {
            let Some((key, copies)) =
                entries.iter().next().map(|(key, value)| (key.clone(), copies(value, key)))
            else {
                return;
            };
            entries.extend(copies.enumerate().map(|(nth, copy)| (format!("{key}-{nth}"), copy)));
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
                let name = growth == Growth::Renamed && (key == "name" || key == "groupName")
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
        "name"
            | "groupName"
            | "key"
            | "mountPath"
            | "persistentVolumeClaim"
            | "claimName"
            | "value"
            | "manager"
            | "uid"
    )
}
