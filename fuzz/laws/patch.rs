//! Operations mean the same to every engine, to the part of the object that they see, and joined.

use jobgate::text::patch::Op;
use jobgate::text::patch::{self, Joined};
use jobgate::text::pointer::{Pointer, Token};
use jobgate::text::value::Value;

use super::draws::{Draws, places};

/// Takes an object in JSON; behind a zero byte, the bytes that draw operations, and the object where it is no
/// JSON.
pub fn check(input: &[u8]) {
    let (json, draws) = super::halves(input);
    let mut draws = Draws::new(draws);
    let object = serde_json::from_slice(json).unwrap_or_else(|_| draws.value(6));
    pointers(&object);
    let (ops, _) = draws.ops(&object, 6);
    engines_agree(&object, &ops);
    // Of any operations, those that do not fit too.
    let strange = strange(&mut draws, &object);
    engines_agree(&object, std::slice::from_ref(&strange));
    sees_all(&object, std::slice::from_ref(&strange));
    joined(&mut draws, &object);
    merged(&object, &draws.value(4));
}

fn pointers(object: &Value) {
    let all = places(object, 24);
    for (number, at) in all.iter().enumerate() {
        let text = at.to_json_pointer();
        let read = Pointer::parse(&text, object).unwrap_or_else(|| panic!("{text:?} is no pointer"));
        assert_eq!(&read, at);
        assert_eq!(read.cmp(at), std::cmp::Ordering::Equal);
        assert!(at.find(object).is_some() && at.find(object) == object.pointer(&text), "{text}");
        assert_eq!(at.nearest(object), *at);
        assert_eq!(at.key("nothing of this name").nearest(object), *at);
        assert_eq!(at.to_path(), at.to_string());
        let _ = at.by_name(object);
        if let (Some(parent), Some(last)) = (at.parent(), at.last()) {
            assert!(at.is_within(&parent) && !parent.is_within(at) && at.depth() == parent.depth() + 1);
            assert_eq!(parent.then(last.clone()), *at);
        }
        for other in &all[number..] {
            assert_eq!(at == other, at.cmp(other).is_eq(), "{at:?} {other:?}");
            assert_eq!(at.cmp(other), other.cmp(at).reverse(), "{at:?} {other:?}");
            match other.below(at) {
                Some(rest) => assert_eq!(at.join(&rest), *other),
                None => assert!(!other.is_within(at)),
            }
        }
    }
}

/// What is accepted here is accepted by an engine that is not ours, and made the same of.
fn engines_agree(object: &Value, ops: &[Op]) {
    let Ok(after) = patch::apply(object, ops) else { return };
    assert!(patch::agrees_with_rfc_6902(object, ops, &after), "{ops:?} on {object}");
    let wire = serde_json::to_vec(&patch::document(ops)).expect("a patch is JSON");
    let theirs: json_patch::Patch = serde_json::from_slice(&wire).expect("a patch is read again");
    let mut other = object.to_json();
    json_patch::patch(&mut other, &theirs).expect("it applies from the wire");
    assert!(after == other, "{ops:?} on {object}");
}

/// Draws an operation that need not fit.
fn strange(draws: &mut Draws<'_>, object: &Value) -> Op {
    let all = places(object, 256);
    let mut at = all[draws.below(all.len())].clone();
    for _ in 0..draws.below(3) {
        at = if draws.below(2) == 0 { at.key(draws.word()) } else { &at / draws.below(4) };
    }
    match draws.below(3) {
        0 => Op::Add(at, draws.value(2)),
        1 => Op::Remove(at),
        _ => Op::Replace(at, draws.value(2)),
    }
}

/// The footprint is as good as the object, for operations that were each made for it.
fn sees_all(object: &Value, ops: &[Op]) {
    let (small, moved) = patch::footprint(object, ops);
    let (whole, part) = (patch::apply(object, ops), patch::apply(&small, &moved));
    assert_eq!(whole.is_ok(), part.is_ok(), "{ops:?} on {object}, of which they see {small}");
    let (Ok(whole), Ok(part)) = (whole, part) else { return };
    for (op, moved) in ops.iter().zip(&moved) {
        let at = op.pointer();
        if at.tokens().iter().all(|token| matches!(token, Token::Key(_))) {
            assert_eq!(at.find(&whole), at.find(&part), "{ops:?} on {object}, of which they see {small}");
        }
        let grown = |at: &Pointer, before: &Value, after: &Value| {
            let length = |of: &Value| at.parent().and_then(|list| list.find(of)?.as_array().map(Vec::len));
            length(after).zip(length(before)).map(|(after, before)| after.wrapping_sub(before))
        };
        assert_eq!(
            grown(at, object, &whole),
            grown(moved.pointer(), &small, &part),
            "{ops:?} on {object}, of which they see {small}"
        );
    }
}

/// Changes that each fit the object fit it together, but for those that clash; and those leave no trace.
fn joined(draws: &mut Draws<'_>, object: &Value) {
    let (mut joined, mut sound) = (Joined::default(), Joined::default());
    let mut taken = Vec::new();
    for _ in 0..1 + draws.below(5) {
        let (change, _) = draws.ops(object, 3);
        let here = joined.join(&change);
        if let Err(clash) = &here {
            assert!(change.iter().any(|op| *op.pointer() == clash.0), "{clash:?} of {change:?}");
            let again = sound.clone().join(&change);
            assert_eq!(again, here, "a clash has left a trace: {taken:?}, {change:?}");
        } else {
            assert_eq!(sound.join(&change), Ok(()), "a clash has left a trace: {taken:?}, {change:?}");
            taken.push(change);
        }
        assert_eq!(joined.ops(), sound.ops(), "{taken:?}");
    }
    let ops = joined.into_ops();
    let after = patch::apply(object, &ops)
        .unwrap_or_else(|error| panic!("{error}: {ops:?} of {taken:?} on {object}"));
    sees_all(object, &ops);
    engines_agree(object, &ops);
    for op in taken.iter().flatten() {
        if op.pointer().tokens().iter().any(|token| matches!(token, Token::Index(_))) {
            continue;
        }
        let there = op.pointer().find(&after);
        let made = match op {
            Op::Add(_, value) | Op::Replace(_, value) => there.is_some_and(|there| has(there, value)),
            Op::Remove(_) => there.is_none(),
        };
        assert!(made, "{op:?} is undone: {ops:?} of {taken:?} on {object}");
    }
}

/// Tells whether a value is another one, or a mapping that has all of the other one's fields.
fn has(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => {
            other.iter().all(|(key, other)| value.get(key).is_some_and(|value| has(value, other)))
        }
        // Into a list that a change brings, others may put items.
        (Value::Array(value), Value::Array(other)) => value.len() >= other.len(),
        (value, other) => value == other,
    }
}

fn merged(object: &Value, with: &Value) {
    let mut once = object.clone();
    patch::merge(&mut once, with);
    let mut twice = once.clone();
    patch::merge(&mut twice, with);
    assert_eq!(once, twice, "{object} with {with}");
}
