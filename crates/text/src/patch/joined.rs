//! Combines independent changes of one object into one list of operations.

use std::collections::{BTreeMap, BTreeSet};

use super::apply_one;
use crate::patch::op::Op;
use crate::pointer::{Pointer, Token};
use crate::value::Value;

/// A conflict of two changes at one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another change is made at `{0}`")]
pub struct Clash(pub Pointer);

/// Independent changes of one object, combined into operations on separate places.
///
/// An operation below a place that another one adds becomes part of that value, so two changes that add the
/// same missing mapping add it once. A change that conflicts with an earlier one is rejected.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    ops: Vec<Op>,
    places: OperationTree,
}

/// A tree of the operations by place.
#[derive(Clone, Debug, Default)]
struct OperationTree {
    /// The operations at this place: one, or several insertions before the same item.
    ops: Vec<usize>,
    below: BTreeMap<Token, Self>,
    /// The indexes of insertions and removals, which move the items after them.
    moving: BTreeSet<usize>,
    /// The indexes of removals. An insertion after one would be at another index, or after the end.
    removed: BTreeSet<usize>,
}

/// How an operation combines with earlier ones.
enum Fit {
    /// It is separate.
    Beside,
    /// It becomes part of the value of another one.
    Within(usize),
    /// It is a duplicate.
    Known,
}

impl Joined {
    /// Adds a change: all its operations, in order, or none.
    ///
    /// # Errors
    /// It conflicts with an earlier change.
    pub fn join(&mut self, change: &[Op]) -> Result<(), Clash> {
        let mut undo = Vec::new();
        for op in change {
            if self.add(op, &mut undo).is_none() {
                for (at, before) in undo.into_iter().rev() {
                    self.restore(at, before);
                }
                return Err(Clash(op.pointer().clone()));
            }
        }
        Ok(())
    }

    /// Returns the operations, in the order in which they were added.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the operations, in the order in which they were added.
    #[must_use]
    pub fn into_ops(self) -> Vec<Op> {
        self.ops
    }

    fn add(&mut self, op: &Op, undo: &mut Vec<(usize, Option<Op>)>) -> Option<()> {
        match self.fit(op)? {
            Fit::Known => {}
            Fit::Within(at) => {
                let before = self.ops[at].clone();
                let grown = grow(&mut self.ops[at], op);
                undo.push((at, Some(before)));
                grown?;
            }
            Fit::Beside => {
                let mut places = &mut self.places;
                let tokens = op.pointer().tokens();
                for (at, token) in tokens.iter().enumerate() {
                    if let Token::Index(index) = token
                        && at + 1 == tokens.len()
                        && moves(op)
                    {
                        places.moving.insert(*index);
                        if let Op::Remove(_) = op {
                            places.removed.insert(*index);
                        }
                    }
                    places = places.below.entry((*token).clone()).or_default();
                }
                places.ops.push(self.ops.len());
                undo.push((self.ops.len(), None));
                self.ops.push(op.clone());
            }
        }
        Some(())
    }

    /// Restores an operation, or removes the last one.
    fn restore(&mut self, at: usize, before: Option<Op>) {
        if let Some(before) = before {
            self.ops[at] = before;
            return;
        }
        if let Some(op) = self.ops.pop() {
            forget(&mut self.places, &op.pointer().tokens(), &self.ops);
        }
    }

    fn fit(&self, op: &Op) -> Option<Fit> {
        let tokens = op.pointer().tokens();
        let (last, parents) = tokens.split_last()?;
        let mut places = &self.places;
        for token in parents {
            if let [at] = places.ops[..]
                && !self.is_insertion(at)
            {
                return Some(Fit::Within(at));
            }
            if places.shifts(token) {
                return None;
            }
            let Some(next) = places.below.get(token) else { return Some(Fit::Beside) };
            places = next;
        }
        if let [at] = places.ops[..] {
            return Some(Fit::Within(at));
        }
        let inserts = matches!(op, Op::Add(..)) && matches!(last, Token::Index(_));
        if inserts || matches!(op, Op::Remove(_)) && matches!(last, Token::Index(_)) {
            // Items after it move. Only insertions are compatible with each other.
            let mut behind =
                places.below.range((*last).clone()..).filter(|(token, _)| matches!(token, Token::Index(_)));
            let moves = behind.any(|(_, place)| {
                !place.below.is_empty() || !inserts || place.ops.iter().any(|at| !self.is_insertion(*at))
            });
            let shifted = if inserts { before(&places.removed, last) } else { places.shifts(last) };
            if moves || shifted {
                return None;
            }
            return Some(Fit::Beside);
        }
        if places.shifts(last) {
            return None;
        }
        match places.below.get(last) {
            None => Some(Fit::Beside),
            Some(there) if !there.below.is_empty() => None,
            Some(there) => match there.ops[..] {
                [at] if self.ops[at] == *op => Some(Fit::Known),
                [at] if brings_mapping(&self.ops[at]) && brings_mapping(op) => Some(Fit::Within(at)),
                _ => None,
            },
        }
    }

    /// Tells whether an operation is an insertion into a list.
    fn is_insertion(&self, at: usize) -> bool {
        matches!(&self.ops[at], Op::Add(place, _) if matches!(place.last(), Some(Token::Index(_))))
    }
}

impl OperationTree {
    /// Tells whether an operation moves an item of this list.
    fn shifts(&self, item: &Token) -> bool {
        before(&self.moving, item)
    }
}

/// Tells whether an item of a list is one of `items` or after one.
fn before(items: &BTreeSet<usize>, item: &Token) -> bool {
    let Token::Index(item) = item else { return false };
    items.first().is_some_and(|first| first <= item)
}

/// Tells whether an operation on an item of a list moves the items after it.
fn moves(op: &Op) -> bool {
    !matches!(op, Op::Replace(..))
}

/// Removes the last operation from its place; `ops` are the others.
fn forget(places: &mut OperationTree, tokens: &[&Token], ops: &[Op]) {
    let Some((first, rest)) = tokens.split_first() else {
        places.ops.pop();
        return;
    };
    if let Some(next) = places.below.get_mut(*first) {
        forget(next, rest, ops);
        if let (Token::Index(index), []) = (first, rest)
            && !next.ops.iter().any(|at| moves(&ops[*at]))
        {
            places.moving.remove(index);
            places.removed.remove(index);
        }
        if next.ops.is_empty() && next.below.is_empty() {
            places.below.remove(*first);
        }
    }
}

fn brings_mapping(op: &Op) -> bool {
    matches!(op, Op::Add(_, Value::Object(_)) | Op::Replace(_, Value::Object(_)))
}

/// Adds an operation to the value of one around it. Nothing if that would change what the value has.
fn grow(around: &mut Op, op: &Op) -> Option<()> {
    let (Op::Add(place, value) | Op::Replace(place, value)) = around else { return None };
    let below = op.pointer().below(place)?;
    match op {
        Op::Add(_, new) | Op::Replace(_, new) if below.is_root() => merge(value, new),
        Op::Add(_, new) => match below.find(value) {
            Some(_) if !matches!(below.last(), Some(Token::Index(_))) => {
                merge(value.pointer_mut(&below.to_json_pointer())?, new)
            }
            _ => apply_one(value, &Op::Add(below, new.clone())).map(drop),
        },
        Op::Replace(..) | Op::Remove(_) => None,
    }
}

/// Merges two values. Nothing if they differ where both have a value.
fn merge(value: &mut Value, other: &Value) -> Option<()> {
    match (value, other) {
        (Value::Object(entries), Value::Object(others)) => {
            others.iter().try_for_each(|(key, other)| match entries.get_mut(key) {
                Some(value) => merge(value, other),
                None => {
                    entries.insert(key, other.clone());
                    Some(())
                }
            })
        }
        (value, other) => (value == other).then_some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    fn at(path: &[&'static str]) -> Pointer {
        Pointer::new(path)
    }

    fn add(path: &[&'static str], value: Value) -> Op {
        Op::Add(at(path), value)
    }

    fn joined(changes: &[&[Op]]) -> (Vec<Op>, Vec<usize>) {
        let mut joined = Joined::default();
        let clashes = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| joined.join(change).is_err())
            .map(|(index, _)| index)
            .collect();
        (joined.into_ops(), clashes)
    }

    #[test]
    fn two_that_bring_the_same_mapping_bring_it_together() {
        let (a, b) = (
            add(&["spec", "runPolicy"], json!({"a": 1})),
            add(&["spec", "runPolicy"], json!({"b": {"c": 2}})),
        );
        let c = add(&["spec", "runPolicy", "b", "d"], json!(3));
        assert_eq!(
            joined(&[&[a], &[b], &[c]]),
            (vec![add(&["spec", "runPolicy"], json!({"a": 1, "b": {"c": 2, "d": 3}}))], vec![])
        );
        let replace = |value: Value| Op::Replace(at(&["spec", "runPolicy"]), value);
        assert_eq!(
            joined(&[&[replace(json!({"a": 1}))], &[replace(json!({"b": 2}))]]).0,
            [replace(json!({"a": 1, "b": 2}))]
        );
    }

    #[test]
    fn who_comes_second_may_not_undo_the_first() {
        let (one, two) = (add(&["spec", "ttl"], json!(1)), add(&["spec", "ttl"], json!(2)));
        assert_eq!(
            joined(&[std::slice::from_ref(&one), std::slice::from_ref(&two), std::slice::from_ref(&one)]),
            (vec![one.clone()], vec![1])
        );
        // A change is left out as a whole, even a part that does not conflict.
        let other = add(&["spec", "other"], json!(3));
        assert_eq!(
            joined(&[std::slice::from_ref(&one), &[other.clone(), two], std::slice::from_ref(&other)]),
            (vec![one.clone(), other], vec![1])
        );
        for around in
            [Op::Remove(at(&["spec"])), Op::Replace(at(&["spec"]), json!(null)), add(&["spec"], json!({}))]
        {
            assert_eq!(joined(&[std::slice::from_ref(&one), &[around]]).1, [1]);
        }
        assert_eq!(joined(&[&[Op::Remove(at(&["spec"]))], std::slice::from_ref(&one)]).1, [1]);
        let bring = add(&["spec"], json!({"ttl": 2}));
        assert_eq!(joined(&[std::slice::from_ref(&bring), &[one]]), (vec![bring], vec![1]));
    }

    #[test]
    fn insertions_do_not_mind_one_another_but_move_everything_else() {
        let list = at(&["list"]);
        let insert = |index: usize, value: i32| Op::Add(&list / index, value.into());
        assert_eq!(
            joined(&[&[insert(2, 1), insert(3, 2)], &[insert(2, 3)]]),
            (vec![insert(2, 1), insert(3, 2), insert(2, 3)], vec![])
        );
        let inside = |index: usize| Op::Add(&(&list / index) / "key", json!(1));
        assert_eq!(joined(&[&[inside(0)], &[insert(1, 1)], &[inside(1)], &[inside(0)]]).1, [2]);
        assert_eq!(joined(&[&[inside(1)], &[insert(1, 1)]]).1, [1]);
        assert_eq!(
            joined(&[&[Op::Remove(&list / 0)], &[inside(1)], &[Op::Replace(&list / 0, json!(1))]]).1,
            [1, 2]
        );
        assert_eq!(joined(&[&[Op::Replace(&list / 0, json!(1))], &[inside(1)]]).1, [0; 0]);
    }

    #[test]
    fn nothing_is_put_in_behind_what_is_taken_out() {
        let list = at(&["list"]);
        let insert = |index: usize| Op::Add(&list / index, json!("new"));
        let remove = |index: usize| Op::Remove(&list / index);
        // Of a list of one: to append to it would be to insert behind its end.
        assert_eq!(joined(&[&[remove(0)], &[insert(1)], &[insert(0)]]).1, [1, 2]);
        assert_eq!(joined(&[&[insert(1)], &[remove(0)]]).1, [1]);
        assert_eq!(
            joined(&[&[remove(2)], &[insert(1)], &[insert(0)]]).1,
            [1, 2],
            "what is taken out would be another item"
        );
        // What stays out leaves no trace.
        assert_eq!(joined(&[&[remove(0), insert(2)], &[insert(1)]]).1, [0]);
    }

    #[test]
    fn what_a_change_makes_it_may_go_on_with() {
        let change =
            [add(&["a"], json!({})), add(&["a", "b"], json!([])), Op::Add(&at(&["a", "b"]) / 0, json!(1))];
        assert_eq!(joined(&[&change]), (vec![add(&["a"], json!({"b": [1]}))], vec![]));
        let moved = [add(&["spec", "ttl"], json!(1)), Op::Remove(at(&["ttl"]))];
        assert_eq!(joined(&[&moved]), (moved.to_vec(), vec![]));
    }
}
