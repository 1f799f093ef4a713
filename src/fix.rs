//! From the changes that findings propose to edits of the file. Pure: whoever calls decides what becomes of the text.
//!
//! ```text
//! fixes ──Joined──> operations ──Draft::make──> edits ──apply──> text
//!             │                                    └──diff──> what is shown
//!             └──────────┴─> what clashes, or does not read as meant: withheld, with the reason
//! ```
//!
//! No fix holds another one back. All are tried at once, which takes one reading of the result; where that fails, halves of them, down to the bad ones.

mod diff;

pub use diff::diff;

use crate::finding::{Fix, Op};
use crate::patch::Joined;
use crate::pointer::Pointer;
use crate::value::Value;
use crate::yaml::{Draft, Edit, Withheld};

/// Makes fixes on a draft, as many of them as can be made together. They were each made for the document as it is; where two clash, the first one is
/// made. Returns the draft with them, and those that were not made, by their number, in order.
#[must_use]
pub fn make<'d>(draft: Draft<'d>, fixes: &[&Fix]) -> (Draft<'d>, Vec<(usize, Withheld)>) {
    let mut making = Making { start: draft, fixes, withheld: Vec::new() };
    let draft = making.run();
    making.withheld.sort_by_key(|(index, _)| *index);
    (draft, making.withheld)
}

/// Fixes on their way into one document.
struct Making<'f, 'd> {
    /// The document that they were made for.
    start: Draft<'d>,
    fixes: &'f [&'f Fix],
    withheld: Vec<(usize, Withheld)>,
}

impl<'d> Making<'_, 'd> {
    fn run(&mut self) -> Draft<'d> {
        let mut joined = Joined::default();
        let mut open = Vec::new();
        for (index, fix) in self.fixes.iter().enumerate() {
            match joined.join(&fix.ops) {
                Ok(()) => open.push(index),
                Err(clash) => self.withheld.push((index, clash.into())),
            }
        }
        let start = self.start.clone();
        if open.is_empty() {
            return start;
        }
        if let Ok(draft) = start.make(joined.ops()) {
            return draft;
        }
        // What the text around a place speaks against takes no reading to find out.
        open.retain(|index| match start.try_out(&self.joined(&[*index])) {
            Ok(()) => true,
            Err(why) => {
                self.withheld.push((*index, why));
                false
            }
        });
        self.halves(start, &open)
    }

    /// Makes some fixes on top of others: all together, or each half of them by itself.
    fn halves(&mut self, draft: Draft<'d>, open: &[usize]) -> Draft<'d> {
        let ops = self.on_top(&draft, self.joined(open));
        match (draft.make(&ops), open) {
            (_, []) => draft,
            (Ok(made), _) => made,
            (Err(_), [only]) => match ops.iter().try_fold(draft.clone(), |draft, op| draft.make(std::slice::from_ref(op))) {
                Ok(made) => made,
                Err(why) => {
                    self.withheld.push((*only, why));
                    draft
                }
            },
            (Err(_), _) => {
                let (left, right) = open.split_at(open.len() / 2);
                let draft = self.halves(draft, left);
                self.halves(draft, right)
            }
        }
    }

    fn joined(&self, indexes: &[usize]) -> Vec<Op> {
        let mut joined = Joined::default();
        for index in indexes {
            // They have all been joined before, so none of them clashes.
            let _ = joined.join(&self.fixes[*index].ops);
        }
        joined.into_ops()
    }

    /// Returns operations that were made for the document as it was in a form for what it is now: a mapping that another fix has brought is added to.
    fn on_top(&self, draft: &Draft<'_>, ops: Vec<Op>) -> Vec<Op> {
        let is_mapping = |draft: &Draft<'_>, at: &Pointer| at.find(&draft.document().value).is_some_and(Value::is_object);
        let mut out = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Op::Add(at, Value::Object(entries)) | Op::Replace(at, Value::Object(entries))
                    if is_mapping(draft, &at) && !is_mapping(&self.start, &at) =>
                {
                    out.extend(entries.into_iter().map(|(key, value)| Op::Add(at.key(&key), value)));
                }
                op => out.push(op),
            }
        }
        out
    }
}

/// Returns the source with edits made, which are sorted and apart from each other, as [`Draft::edits`] returns them.
#[must_use]
pub fn apply(source: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(source.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut at = 0;
    for edit in edits {
        out.extend_from_slice(source.get(at..edit.span.start).unwrap_or_default());
        out.extend_from_slice(edit.text.as_bytes());
        at = edit.span.end;
    }
    out.extend_from_slice(source.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Safety;
    use crate::value::json;
    use crate::yaml::documents;

    fn fix(ops: Vec<Op>) -> Fix {
        Fix { ops, safety: Safety::Safe }
    }

    /// Returns the source with fixes made, and the numbers of those that were not.
    fn fixed(source: &str, fixes: &[Fix]) -> (String, Vec<usize>) {
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let draft = Draft::new(source.as_bytes(), &document).unwrap();
        let (draft, withheld) = make(draft, &fixes.iter().collect::<Vec<_>>());
        (String::from_utf8(apply(source.as_bytes(), &draft.edits())).unwrap(), withheld.into_iter().map(|(index, _)| index).collect())
    }

    fn add(path: &[&'static str], value: Value) -> Op {
        Op::Add(Pointer::of(path), value)
    }

    #[test]
    fn fixes_of_one_place_are_made_together() {
        let source = "kind: PyTorchJob
spec:
  # replicas
  replicas: {}
# end
";
        let fixes = [
            fix(vec![add(&["spec", "runPolicy"], json!({"ttl": 1}))]),
            fix(vec![add(&["spec", "runPolicy"], json!({"deadline": 2}))]),
            fix(vec![add(&["spec", "replicas", "Master"], json!({"replicas": 1}))]),
        ];
        let wanted = "kind: PyTorchJob
spec:
  # replicas
  replicas: {Master: {replicas: 1}}
  runPolicy:
    deadline: 2
    ttl: 1
# end
";
        assert_eq!(fixed(source, &fixes), (wanted.to_owned(), vec![]));
    }

    #[test]
    fn a_bad_fix_holds_no_other_back() {
        let source = "base: &b {x: 1}
spec:
  <<: *b
  inner:
    a: 1
";
        let good = |key: &str| fix(vec![Op::Add(Pointer::of(&["spec", "inner"]).key(key), json!(1))]);
        let shared = fix(vec![add(&["base", "y"], json!(1))]);
        let absent = fix(vec![add(&["nothing", "y"], json!(1))]);
        let clash = fix(vec![add(&["spec", "inner", "b"], json!(2))]);
        let wanted = "base: &b {x: 1}
spec:
  <<: *b
  inner:
    a: 1
    b: 1
    c: 1
";
        assert_eq!(fixed(source, &[good("b"), shared, good("c"), absent, clash]), (wanted.to_owned(), vec![1, 3, 4]));
    }

    #[test]
    fn changes_that_get_in_each_others_way_are_made_one_after_the_other() {
        // The last key of a mapping goes: what is put in behind it stands on the line that goes.
        let moved = fix(vec![add(&["spec", "inner", "key"], json!(1)), Op::Remove(Pointer::of(&["spec", "key"]))]);
        let bring = |key: &str| fix(vec![add(&["spec", "policy"], json!({key: 1}))]);
        let source = "spec:
  inner: {}
  key: 1
end: 1
";
        let wanted = "spec:
  inner: {key: 1}
  policy:
    a: 1
    b: 1
end: 1
";
        assert_eq!(fixed(source, &[bring("a"), moved, bring("b")]), (wanted.to_owned(), vec![]));
    }

    #[test]
    fn a_renaming_stands_beside_other_changes() {
        let renamed = fix(vec![add(&["spec", "right"], json!({"a": 1})), Op::Remove(Pointer::of(&["spec", "wrong"]))]);
        let other = fix(vec![add(&["spec", "b"], json!(2))]);
        let source = "spec:
  wrong: # so
    a: 1
end: 1
";
        let wanted = "spec:
  right: # so
    a: 1
  b: 2
end: 1
";
        assert_eq!(fixed(source, &[other, renamed]), (wanted.to_owned(), vec![]));
    }

    #[test]
    fn a_source_that_is_another_is_left_alone() {
        let document = documents(
            b"a: 1
b: 1
",
        )
        .next()
        .unwrap()
        .unwrap();
        assert_eq!(Draft::new(b"a", &document).err(), Some(Withheld::Stale));
    }
}
