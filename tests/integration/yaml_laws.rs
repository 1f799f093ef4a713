//! Laws of reading and editing YAML, over generated documents in many styles and over garbage.

use jobgate::text::lines::Lines;
use jobgate::text::patch;
use jobgate::text::patch::Op;
use jobgate::text::pointer::{Pointer, Token};
use jobgate::text::value::{Map, Value, json};
use jobgate::text::yaml::{self, Document, Withheld};
use proptest::prelude::*;

/// How a generated document is written; drawn anew at every node from these bits.
#[derive(Clone, Debug)]
pub(crate) struct Ink {
    bits: Vec<u8>,
    at: usize,
    newline: &'static str,
    step: usize,
}

impl Ink {
    fn draw(&mut self, below: u8) -> u8 {
        self.at += 1;
        self.bits[self.at % self.bits.len()].wrapping_add(self.at as u8) % below
    }

    fn text(&mut self, text: &str, flow: bool) -> String {
        let plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'.'))
            && text.len() > 5;
        match self.draw(4) {
            0 | 1 if plain => text.to_owned(),
            2 if !text.contains(['\n', '\\', '\u{7}']) => format!("'{}'", text.replace('\'', "''")),
            3 if !flow
                && !text.is_empty()
                && !text.contains('\u{7}')
                && !text.starts_with([' ', '\n'])
                && text.ends_with('\n') =>
            {
                "|".to_owned()
            }
            _ => serde_json::to_string(text).unwrap(),
        }
    }

    /// Writes text in quotes over several lines, which need no indentation to kubectl.
    fn lines(&mut self, text: &str) -> Option<String> {
        let (quote, text) = match self.draw(2) {
            0 if !text.contains(['\n', '\\', '\u{7}']) => ('\'', text.replace('\'', "''")),
            _ => {
                let text = serde_json::to_string(text).unwrap();
                ('"', text[1..text.len() - 1].to_owned())
            }
        };
        let is_letter =
            |part: &str, at: usize| part.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric);
        let at = text
            .match_indices(' ')
            .map(|(at, _)| at)
            .find(|at| *at > 0 && is_letter(&text, at - 1) && is_letter(&text, at + 1))?;
        let blanks = ["", " ", "\t", "     "][self.draw(4) as usize];
        Some(format!("{quote}{}{}{blanks}{}{quote}", &text[..at], self.newline, &text[at + 1..]))
    }

    fn comment(&mut self) -> &'static str {
        ["", "", "", " # a comment", "   # two: {words}"][self.draw(5) as usize]
    }

    fn flow(&mut self, value: &Value) -> String {
        let (comma, pad) = ([", ", ",", ",  "][self.draw(3) as usize], ["", " "][self.draw(2) as usize]);
        match value {
            Value::Array(items) if items.is_empty() => "[]".into(),
            Value::Object(map) if map.is_empty() => "{}".into(),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{pad}{}{pad}]", items.join(comma))
            }
            Value::Object(map) => {
                let entries: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self.text(key, true), self.flow(value)))
                    .collect();
                format!("{{{pad}{}{pad}}}", entries.join(comma))
            }
            Value::String(text) => self.text(text, true),
            scalar => scalar.to_string(),
        }
    }

    /// Writes what follows a colon or a dash, with its line break.
    fn value(&mut self, value: &Value, column: usize, dash: bool) -> String {
        let newline = self.newline;
        let inline = matches!(value, Value::Array(items) if items.is_empty())
            || matches!(value, Value::Object(map) if map.is_empty());
        match value {
            Value::Null if self.draw(2) == 0 => format!("{}{newline}", self.comment()),
            Value::Array(_) | Value::Object(_) if inline || self.draw(4) == 0 => {
                format!(" {}{}{newline}", self.flow(value), self.comment())
            }
            Value::Array(items) => {
                let column =
                    if dash { column + 2 } else { column + if self.draw(2) == 0 { 0 } else { self.step } };
                let mut out = format!("{}{newline}", self.comment());
                for item in items {
                    out += &format!("{}-{}", " ".repeat(column), self.value(item, column, true));
                }
                out
            }
            Value::Object(map) => {
                let column = if dash { column + 2 } else { column + self.step };
                let tight = dash && self.draw(3) > 0;
                let mut out = if tight { " ".to_owned() } else { format!("{}{newline}", self.comment()) };
                for (index, (key, value)) in map.iter().enumerate() {
                    if index > 0 || !tight {
                        out += &" ".repeat(column);
                    }
                    out += &self.entry(key, value, column);
                }
                out
            }
            Value::String(text) if text.contains(' ') && self.draw(3) > 0 => {
                let text = self.lines(text).unwrap_or_else(|| self.text(text, true));
                format!(" {text}{}{newline}", self.comment())
            }
            Value::String(text) => match self.text(text, false) {
                block if block == "|" => {
                    let mut out = format!(" |{newline}");
                    for line in text.lines() {
                        out += &format!(
                            "{}{line}{newline}",
                            if line.is_empty() { String::new() } else { " ".repeat(column + 2) }
                        );
                    }
                    out
                }
                text => format!(" {text}{}{newline}", self.comment()),
            },
            scalar => format!(" {scalar}{}{newline}", self.comment()),
        }
    }

    fn entry(&mut self, key: &str, value: &Value, column: usize) -> String {
        format!("{}:{}", self.text(key, true), self.value(value, column, false))
    }

    pub(crate) fn document(&mut self, map: &Map) -> String {
        let mut out = String::new();
        for (key, value) in map {
            if self.draw(4) == 0 {
                out += &format!("# above {}{}", self.at, self.newline);
            }
            out += &self.entry(key, value, 0);
        }
        out
    }
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,9}",
        2 => "[a-z]{1,5} [a-z']{1,5} [a-z]{0,3}",
        1 => "[ -~]{0,8}",
        1 => Just("yes".to_owned()),
        1 => Just("0777".to_owned()),
        1 => Just("a: b # c".to_owned()),
        1 => Just("one\n\ntwo\n".to_owned()),
        1 => Just("训练 😀".to_owned()),
        1 => Just("bell \u{7}".to_owned()),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-100_i8..100).prop_map(|n| json!(f64::from(n) + 0.5)),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(string(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(crate) fn object() -> impl Strategy<Value = Map> {
    prop::collection::btree_map(string(), value(), 1..5).prop_map(|map| map.into_iter().collect())
}

pub(crate) fn ink() -> impl Strategy<Value = Ink> {
    (
        prop::collection::vec(any::<u8>(), 16),
        prop::sample::select(vec!["\n", "\r\n"]),
        prop::sample::select(vec![2_usize, 4]),
    )
        .prop_map(|(bits, newline, step)| Ink { bits, at: 0, newline, step })
}

/// All the places of a value.
fn places(value: &Value, at: &Pointer, out: &mut Vec<Pointer>) {
    out.push(at.clone());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, &(at / index), out));
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| places(value, &at.key(key), out)),
        _ => {}
    }
}

/// Draws operations that apply one after the other.
pub(crate) fn ops(value: &Value, draws: &[(u16, u8, Value)]) -> Vec<Op> {
    let mut current = value.clone();
    let mut ops = Vec::new();
    for (place, what, new) in draws {
        let mut all = Vec::new();
        places(&current, &Pointer::root(), &mut all);
        let at = &all[*place as usize % all.len()];
        let op = match (at.find(&current), what % 3) {
            (Some(Value::Object(_)), 0) => Op::Add(at.key(&format!("new{}", what % 8)), new.clone()),
            (Some(Value::Array(items)), 0) => {
                Op::Add(at / (*what as usize / 3 % (items.len() + 1)), new.clone())
            }
            _ if at == &Pointer::root() => continue,
            (_, 1) => Op::Remove(at.clone()),
            _ => Op::Replace(at.clone(), new.clone()),
        };
        current = patch::apply(&current, std::slice::from_ref(&op)).unwrap();
        ops.push(op);
    }
    ops
}

pub(crate) fn only(source: &str) -> Document {
    let mut documents = yaml::documents(source.as_bytes());
    let document =
        documents.next().unwrap().unwrap_or_else(|error| panic!("{error} at {:?} of {source}", error.span));
    assert!(documents.next().is_none(), "{source}");
    document
}

pub(crate) fn edited(source: &str, document: &Document, ops: &[Op]) -> Result<String, Withheld> {
    let edits = yaml::edit(source.as_bytes(), document, ops)?;
    assert!(edits.windows(2).all(|pair| pair[0].span.end <= pair[1].span.start), "{edits:?}");
    let mut out = source.to_owned();
    for edit in edits.into_iter().rev() {
        out.replace_range(edit.span, &edit.text);
    }
    Ok(out)
}

/// Every place is located, and reads as its value where it stands.
fn check_places(source: &str, document: &Document) {
    let mut all = Vec::new();
    places(&document.value, &Pointer::root(), &mut all);
    for at in all {
        let span = document.locate(&at).unwrap_or_else(|| panic!("{at} of {source}"));
        if span.via_alias {
            continue;
        }
        let line = source[..span.value.start].rfind(['\n', '\r']).map_or(0, |line| line + 1);
        // A part of a line keeps its column; what follows the part is not read.
        let column = source[line..span.value.start].chars().count();
        let text = format!("{}{}", " ".repeat(column), &source[span.value.clone()]);
        let text = if document.is_json() { format!("# a scalar may stand alone\n{text}") } else { text };
        let read = yaml::documents(text.as_bytes())
            .next()
            .map_or(Value::Null, |read| read.unwrap_or_else(|error| panic!("{error}: {text:?}")).value);
        assert_eq!(Some(&read), at.find(&document.value), "{at} is {text:?} in\n{source}");
        if let (Some(Token::Key(key)), Some(span)) = (at.last(), span.key) {
            let read = only(&format!("{}: 1", &source[span])).value;
            assert_eq!(read.as_object().unwrap().keys().collect::<Vec<_>>(), [key]);
        }
    }
}

/// What YAML is made of, and what breaks it.
const PIECES: &[&str] = &[
    "a",
    "ä",
    "🦀",
    "\u{feff}",
    "\u{85}",
    ": ",
    ":",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "\n",
    "\r\n",
    "\n  ",
    "\n    ",
    "\t",
    " ",
    "#",
    " # ö",
    "'",
    "\"",
    "\\",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!",
    "|\n  ",
    ">-\n  ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "@",
    "`",
    "{{ .x }}",
    "{{- if ü }}\n",
    "\0",
    "null",
    "~",
    "1e3",
    "=",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn places_read_as_their_values(map in object(), mut ink in ink()) {
        let source = ink.document(&map);
        let document = only(&source);
        prop_assert_eq!(&document.value, &Value::Object(map));
        check_places(&source, &document);
    }

    /// The positions of an error lie inside of the text, at the borders of characters, whatever it is that
    /// breaks it.
    #[test]
    fn what_comes_near_to_yaml_is_read_or_refused(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        let source = pieces.concat();
        for document in yaml::documents(source.as_bytes()) {
            match document {
                Ok(document) => prop_assert!(source.get(document.span).is_some()),
                Err(error) => prop_assert!(source.get(error.span.clone()).is_some(), "{:?} at {:?}", source, error),
            }
        }
    }

    #[test]
    fn places_of_json_read_as_their_values(map in object(), pretty in any::<bool>()) {
        let source = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) }.unwrap();
        let document = only(&source);
        prop_assert!(document.is_json());
        prop_assert_eq!(&document.value, &Value::Object(map));
        // YAML's double quotes do not know all of JSON's escapes.
        if !source.contains("\\u") {
            check_places(&source, &document);
        }
    }

    #[test]
    fn edits_do_what_the_patch_does(
        map in object(),
        mut ink in ink(),
        draws in prop::collection::vec((any::<u16>(), any::<u8>(), value()), 1..5),
        cut in any::<bool>(),
        tail in prop::sample::select(vec!["", "---\nnext: 1\n", "# end\n"]),
    ) {
        let mut source = ink.document(&map);
        if cut && tail.is_empty() && !source.contains('|') {
            source.truncate(source.trim_end_matches(['\n', '\r']).len());
        }
        let source = source + tail;
        let document = yaml::documents(source.as_bytes()).next().unwrap().unwrap();
        let ops = ops(&document.value, &draws);
        let wanted = patch::apply(&document.value, &ops).unwrap();
        if let Ok(out) = edited(&source, &document, &ops) {
            let all: Vec<Value> = yaml::documents(out.as_bytes()).map(|read| read.unwrap().value).collect();
            prop_assert_eq!(&all[0], &wanted, "{:?}\n{}\n{}", ops, source, out);
            prop_assert_eq!(all.len(), 1 + usize::from(tail.starts_with("---")));
            let mut added = ops.iter().scan(document.value.clone(), |current, op| {
                let new = matches!(op, Op::Add(at, _) if at.find(current).is_none() || matches!(at.last(), Some(Token::Index(_))));
                *current = patch::apply(current, std::slice::from_ref(op)).unwrap();
                Some(new)
            });
            if added.all(|new| new) {
                // What is added takes nothing away but the blanks in empty brackets.
                for edit in yaml::edit(source.as_bytes(), &document, &ops).unwrap() {
                    prop_assert!(source[edit.span.clone()].trim().is_empty(), "{:?}\n{}\n{}", edit, source, out);
                }
            }
        }
    }

    #[test]
    fn fixes_of_the_usual_kind_are_not_withheld(map in object(), mut ink in ink(), new in value(), place in any::<u16>()) {
        let source = ink.document(&map);
        let document = only(&source);
        let mut all = Vec::new();
        places(&document.value, &Pointer::root(), &mut all);
        let holders: Vec<&Pointer> = all.iter().filter(|at| at.find(&document.value).is_some_and(|value| value.is_object() || value.is_array())).collect();
        let at = holders[place as usize % holders.len()];
        let op = match at.find(&document.value) {
            Some(Value::Array(items)) => Op::Add(at / items.len(), new),
            _ => Op::Add(at.key("newKey"), new),
        };
        let out = edited(&source, &document, std::slice::from_ref(&op));
        prop_assert!(out.is_ok(), "{:?} {:?}\n{}", out, op, source);
    }

    #[test]
    fn json_stays_json(map in object(), pretty in any::<bool>(), draws in prop::collection::vec((any::<u16>(), any::<u8>(), value()), 1..4)) {
        let source = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) }.unwrap();
        let document = only(&source);
        let ops = ops(&document.value, &draws);
        let out = edited(&source, &document, &ops);
        prop_assert!(out.is_ok(), "{:?} {:?}\n{}", out, ops, source);
        let out = out.unwrap();
        let read: Value = serde_json::from_str(&out).unwrap();
        prop_assert_eq!(read, patch::apply(&document.value, &ops).unwrap());
    }

    #[test]
    fn garbage_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        walk(&bytes);
    }

    #[test]
    fn broken_yaml_is_read_or_refused(parts in prop::collection::vec(prop::sample::select(FRAGMENTS.to_vec()), 0..24)) {
        walk(parts.concat().as_bytes());
    }

    #[test]
    fn broken_manifests_are_read_or_refused(map in object(), mut ink in ink(), cuts in prop::collection::vec((any::<u16>(), 0_usize..6, prop::sample::select(FRAGMENTS.to_vec())), 1..5)) {
        let mut source = ink.document(&map).into_bytes();
        for (at, len, new) in cuts {
            let at = at as usize % (source.len() + 1);
            let end = (at + len).min(source.len());
            source.splice(at..end, new.bytes());
        }
        walk(&source);
    }
}

const FRAGMENTS: &[&str] = &[
    "---\n",
    "--- ",
    "...\n",
    "\t",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\r",
    "- ",
    ": ",
    ":",
    "? ",
    "# c\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "|+\n",
    "|2\n",
    "&a ",
    "*a",
    "*a : ",
    "!!str ",
    "!x ",
    "! ",
    "<<: ",
    "<<: *a\n",
    "~",
    "yes",
    "0777",
    "1.0",
    ".inf",
    "\\",
    "\\n",
    "%YAML 1.1\n",
    "@",
    "\u{85}",
    "\u{2028}",
    "\u{FEFF}",
    "a",
    "b: 1\n",
    "a: &a\n",
    "a: &a {x: 1}\n",
    "{{ x }}",
    "{% if %}",
    "\u{7}",
    "训",
    "\"a\": 1,",
    "{\"a\": 1}",
    "!!binary aGk=",
    "1: 2\n",
    "1.0: 3\n",
];

/// Reads a source and looks at everything in it; nothing may panic, and every place must lie where it says.
fn walk(source: &[u8]) {
    let lines = Lines::new(source);
    for document in yaml::documents(source) {
        match document {
            Ok(document) => {
                let mut all = Vec::new();
                places(&document.value, &Pointer::root(), &mut all);
                for at in all.iter().take(100) {
                    let span = document
                        .locate(at)
                        .unwrap_or_else(|| panic!("{at} in {:?}", String::from_utf8_lossy(source)));
                    assert!(
                        source.get(span.value.clone()).is_some()
                            && source.get(span.key.unwrap_or_default()).is_some()
                    );
                    let _ = lines.position(span.value.start);
                    let _ = yaml::edit(source, &document, &[Op::Replace(at.clone(), json!({"a": [1]}))]);
                    let _ = yaml::edit(source, &document, &[Op::Remove(at.clone())]);
                    let _ = yaml::edit(source, &document, &[Op::Add(at.key("new"), json!("x"))]);
                    let _ = yaml::edit(source, &document, &[Op::Add(at / 0, json!(null))]);
                }
                for duplicate in document.duplicates().first(1000) {
                    assert!(
                        source.get(duplicate.dropped.clone()).is_some()
                            && source.get(duplicate.kept.clone()).is_some()
                    );
                }
            }
            Err(error) => assert!(
                source.get(error.span.clone()).is_some() && !error.message.ends_with('.'),
                "{error:?}"
            ),
        }
    }
}
