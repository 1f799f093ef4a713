//! Choices, made by bytes: what libFuzzer has to turn to get other values and operations.

use jobgate::text::patch;
use jobgate::text::patch::Op;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::{Map, Value, json};

/// Keys and texts: common ones, and those that a notation has trouble with.
const WORDS: [&str; 24] = [
    "a",
    "b",
    "spec",
    "name",
    "key",
    "",
    "0",
    "1",
    "01",
    "-",
    "a/b",
    "a~b",
    "~1",
    "ü",
    "yes",
    "null",
    "0777",
    "a: b # c",
    "one\n\ntwo\n",
    " x ",
    "bell \u{7}",
    "'\"",
    "nvidia.com/gpu",
    "a value that is longer than twenty-four bytes",
];

/// Bytes that decide; zeros when they are used up.
#[derive(Clone, Debug)]
pub struct Draws<'b>(&'b [u8]);

impl<'b> Draws<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }

    /// Draws a value of so many levels at most.
    pub fn value(&mut self, levels: usize) -> Value {
        match self.below(if levels == 0 { 6 } else { 10 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 1),
            2 => json!(self.byte()),
            3 => json!(-i64::from(self.byte()) << self.below(56)),
            4 => json!(f64::from(self.byte()) + 0.5),
            5 => self.word().into(),
            6 | 7 => (0..self.below(4)).map(|_| self.value(levels - 1)).collect::<Vec<_>>().into(),
            _ => Value::Object(
                (0..self.below(5)).map(|_| (self.word().to_owned(), self.value(levels - 1))).collect::<Map>(),
            ),
        }
    }

    /// Draws an operation that applies to a value; nothing for the root.
    pub fn op(&mut self, value: &Value) -> Option<Op> {
        let all = places(value, 256);
        let at = &all[(usize::from(self.byte()) << 8 | usize::from(self.byte())) % all.len()];
        let what = self.below(3);
        Some(match (at.find(value), what) {
            (Some(Value::Object(_)), 0) => Op::Add(at.key(self.word()), self.value(3)),
            (Some(Value::Array(items)), 0) => Op::Add(at / self.below(items.len() + 1), self.value(3)),
            _ if at.is_root() => return None,
            (_, 1) => Op::Remove(at.clone()),
            _ => Op::Replace(at.clone(), self.value(3)),
        })
    }

    /// Draws operations that apply to a value one after the other, with what they make of it.
    pub fn ops(&mut self, value: &Value, most: usize) -> (Vec<Op>, Value) {
        let (mut ops, mut current) = (Vec::new(), value.clone());
        for _ in 0..1 + self.below(most) {
            let Some(op) = self.op(&current) else { continue };
            patch::apply_in_place(&mut current, std::slice::from_ref(&op))
                .expect("an operation on what is there applies");
            ops.push(op);
        }
        (ops, current)
    }
}

/// Returns the places of a value, the outer ones first, up to a number.
pub fn places(value: &Value, most: usize) -> Vec<Pointer> {
    let mut found = vec![(Pointer::root(), value)];
    let mut at = 0;
    while let Some((place, value)) = found.get(at).cloned()
        && found.len() < most
    {
        match value {
            Value::Array(items) => {
                found.extend(items.iter().enumerate().map(|(index, item)| (&place / index, item)));
            }
            Value::Object(map) => found.extend(map.iter().map(|(key, value)| (place.key(key), value))),
            _ => {}
        }
        at += 1;
    }
    found.truncate(most);
    found.into_iter().map(|(place, _)| place).collect()
}
