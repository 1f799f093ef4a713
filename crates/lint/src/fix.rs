//! Turns the changes that findings propose into edits of the file. Pure: the caller decides what to do with the text.
//!
//! ```text
//! fixes ──Joined──> operations ──Draft::make──> edits ──apply──> text
//!             │                                    └──diff──> what is shown
//!             └──────────┴─> what clashes, or does not read as meant: withheld, with the reason
//! ```
//!
//! A bad fix does not hold back others. First, all are tried at once, which takes one parse of the result. If that
//! fails, the fixes of each list item are tried in an excerpt with little else in it, and there by halves, down to the
//! bad ones.

mod diff;

pub use diff::diff;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jobgate_core::judge::finding::Fix;
use jobgate_core::text::patch::Joined;
use jobgate_core::text::patch::Op;
use jobgate_core::text::pointer::{Pointer, Token};
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{Draft, Edit, Withheld};

/// Applies as many fixes to a draft as are compatible; of two that clash, the first. All must be made for the original
/// document. Returns the draft and the fixes that were withheld, by index, in order.
#[must_use]
pub fn make<'d>(draft: Draft<'d>, fixes: &[&Fix]) -> (Draft<'d>, Vec<(usize, Withheld)>) {
    let (mut joined, mut open, mut withheld) = (Joined::default(), Vec::new(), Vec::new());
    for (index, fix) in fixes.iter().enumerate() {
        match joined.join(&fix.ops) {
            Ok(()) => open.push(index),
            Err(clash) => withheld.push((index, clash.into())),
        }
    }
    let mut making =
        Making { start: draft, fixes: fixes.iter().map(|fix| Cow::Borrowed(&*fix.ops)).collect(), withheld };
    let made = making.all(joined.ops(), open);
    let mut withheld = making.withheld;
    withheld.sort_by_key(|(index, _)| *index);
    (made, withheld)
}

/// Applies fixes to one document.
struct Making<'f, 'd> {
    /// The document that they were made for.
    start: Draft<'d>,
    /// The operations of each fix.
    fixes: Vec<Cow<'f, [Op]>>,
    withheld: Vec<(usize, Withheld)>,
}

impl<'d> Making<'_, 'd> {
    /// Applies fixes, all at once if possible.
    fn all(&mut self, ops: &[Op], mut open: Vec<usize>) -> Draft<'d> {
        if open.is_empty() {
            return self.start.clone();
        }
        if let Ok(draft) = self.start.make(ops) {
            return draft;
        }
        let count = open.len();
        // A fix that its surroundings rule out is withheld without another parse.
        open.retain(|index| match self.start.try_out(&self.joined(&[*index])) {
            Ok(()) => true,
            Err(why) => {
                self.withheld.push((*index, why));
                false
            }
        });
        let good = if open.len() < count { self.start.make(&self.joined(&open)).ok() } else { None };
        good.unwrap_or_else(|| self.apart(&open, 0))
    }

    /// Applies fixes of which some may be bad, one list item below a depth at a time, so that a bad fix costs
    /// only parses of its item.
    fn apart(&mut self, open: &[usize], depth: usize) -> Draft<'d> {
        let mut items: BTreeMap<Pointer, Vec<usize>> = BTreeMap::new();
        let mut rest = Vec::new();
        for index in open {
            match item(&self.fixes[*index], depth) {
                Some(item) => items.entry(item).or_default().push(*index),
                None => rest.push(*index),
            }
        }
        match items.first_key_value() {
            Some((item, inside)) if inside.len() == open.len() => return self.apart(open, item.depth()),
            _ if items.len() < 2 => return self.halves(self.start.clone(), open),
            _ => {}
        }
        let (mut edits, mut made, mut withheld) = (Vec::new(), Vec::new(), Vec::new());
        for (item, inside) in items {
            let Some(excerpt) = self.start.excerpt(&item) else {
                rest.extend(inside);
                continue;
            };
            let fixes = inside
                .iter()
                .map(|index| {
                    self.fixes[*index].iter().filter_map(|op| excerpt.op(op)).collect::<Vec<_>>().into()
                })
                .collect();
            let mut making = Making { start: excerpt.draft().clone(), fixes, withheld: Vec::new() };
            let all: Vec<usize> = (0..inside.len()).collect();
            let draft = match making.start.make(&making.joined(&all)) {
                Ok(draft) => draft,
                Err(_) => making.apart(&all, excerpt.depth()),
            };
            edits.extend(excerpt.edits(&draft));
            let bad: BTreeMap<usize, Withheld> = making.withheld.into_iter().collect();
            made.extend(
                inside.iter().enumerate().filter(|(nth, _)| !bad.contains_key(nth)).map(|(_, index)| *index),
            );
            withheld.extend(bad.into_iter().map(|(nth, why)| (inside[nth], excerpt.withheld(why))));
        }
        made.sort_unstable();
        rest.sort_unstable();
        edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
        match self.start.make_as(edits, &self.joined(&made)) {
            Ok(draft) => {
                self.withheld.extend(withheld);
                if rest.is_empty() { draft } else { self.halves(draft, &rest) }
            }
            // They are not compatible after all.
            Err(_) => self.halves(self.start.clone(), open),
        }
    }

    /// Applies fixes on top of others: all together, or else each half by itself.
    fn halves(&mut self, draft: Draft<'d>, open: &[usize]) -> Draft<'d> {
        let ops = self.on_top(&draft, self.joined(open));
        match (draft.make(&ops), open) {
            (_, []) => draft,
            (Ok(made), _) => made,
            (Err(_), [only]) => {
                match ops.iter().try_fold(draft.clone(), |draft, op| draft.make(std::slice::from_ref(op))) {
                    Ok(made) => made,
                    Err(why) => {
                        self.withheld.push((*only, why));
                        draft
                    }
                }
            }
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
            let _ = joined.join(&self.fixes[*index]);
        }
        joined.into_ops()
    }

    /// Returns operations for the original document in a form for the current one: a mapping that another fix
    /// has added is extended.
    fn on_top(&self, draft: &Draft<'_>, ops: Vec<Op>) -> Vec<Op> {
        let is_mapping =
            |draft: &Draft<'_>, at: &Pointer| at.find(&draft.document().value).is_some_and(Value::is_object);
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

/// Returns the first list item below a depth that contains all operations.
fn item(ops: &[Op], depth: usize) -> Option<Pointer> {
    let first = ops.first()?.pointer();
    let item =
        first.tokens().iter().skip(depth).position(|token| matches!(token, Token::Index(_)))? + depth + 1;
    let mut at = first.clone();
    while at.depth() > item {
        at = at.parent()?;
    }
    ops.iter().all(|op| op.pointer().depth() > item && op.pointer().is_within(&at)).then_some(at)
}

/// Returns the source with the edits applied, which are sorted and do not overlap ([`Draft::edits`]).
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
    use jobgate_core::judge::finding::Safety;
    use jobgate_core::text::meter;
    use jobgate_core::text::value::json;
    use jobgate_core::text::yaml::documents;

    fn fix(ops: Vec<Op>) -> Fix {
        Fix { ops, safety: Safety::Safe }
    }

    /// Returns the source with fixes made, and the numbers of those that were not.
    fn fixed(source: &str, fixes: &[Fix]) -> (String, Vec<usize>) {
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let draft = Draft::new(source.as_bytes(), &document).unwrap();
        let (draft, withheld) = make(draft, &fixes.iter().collect::<Vec<_>>());
        (
            String::from_utf8(apply(source.as_bytes(), &draft.edits())).unwrap(),
            withheld.into_iter().map(|(index, _)| index).collect(),
        )
    }

    fn add(path: &[&'static str], value: Value) -> Op {
        Op::Add(Pointer::new(path), value)
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
        let good = |key: &str| fix(vec![Op::Add(Pointer::new(&["spec", "inner"]).key(key), json!(1))]);
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
        assert_eq!(
            fixed(source, &[good("b"), shared, good("c"), absent, clash]),
            (wanted.to_owned(), vec![1, 3, 4])
        );
    }

    #[test]
    fn changes_that_get_in_each_others_way_are_made_one_after_the_other() {
        // The last key of a mapping goes: what is put in behind it stands on the line that goes.
        let moved =
            fix(vec![add(&["spec", "inner", "key"], json!(1)), Op::Remove(Pointer::new(&["spec", "key"]))]);
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
        let renamed =
            fix(vec![add(&["spec", "right"], json!({"a": 1})), Op::Remove(Pointer::new(&["spec", "wrong"]))]);
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

    /// Items of a list, every other one of which cannot be added to: what is put in above a long value lands
    /// between its mark and its key.
    fn half_bad(count: usize) -> String {
        let item = |at: usize| match at % 2 {
            0 => format!("- name: i{at}\n  spec: {{t: {{a: {{b: {{c: [{at}]}}}}}}}}\n"),
            _ => format!("- name: i{at}\n  spec:\n    ? t\n    : {{a: {{b: {{c: [{at}]}}}}}}\n"),
        };
        format!("items:\n{}", (0..count).map(item).collect::<String>())
    }

    fn one_each(count: usize) -> Vec<Fix> {
        let spec = |at: usize| Pointer::new(&["items"]) / at / "spec";
        (0..count).map(|at| fix(vec![Op::Add(spec(at) / "ttl", json!(1))])).collect()
    }

    #[track_caller]
    fn grows_with_its_input(work: impl Fn(usize) -> (String, Vec<Fix>, usize)) {
        let steps = |count: usize| {
            let (source, fixes, bad) = work(count);
            let (made, steps) = meter::run(meter::Bounds::default(), || fixed(&source, &fixes)).unwrap();
            assert_eq!(made.1.len(), bad);
            steps
        };
        let (few, many) = (steps(200), steps(800));
        assert!(many <= 6 * few, "{many} steps for four times the input of {few}");
    }

    #[test]
    fn fixes_in_one_long_line_take_no_look_at_the_whole_line_each() {
        grows_with_its_input(|count| {
            let item = |at: usize| {
                format!(
                    "{{\"name\":\"i{at}\",\"spec\":{{\"t\":{{\"a\":{{\"b\":{{\"c\":[1]}}}}}},\"old\":1}}}}"
                )
            };
            let items: Vec<String> = (0..count).map(item).collect();
            let spec = |at: usize| Pointer::new(&["items"]) / at / "spec";
            let others = (0..count).map(|at| {
                fix(vec![Op::Replace(spec(at) / "old", json!(2)), Op::Add(spec(at) / "l", json!([1]))])
            });
            (
                format!("{{\"items\":[{}]}}", items.join(",")),
                one_each(count).into_iter().chain(others).collect(),
                0,
            )
        });
    }

    #[test]
    fn a_bad_fix_of_an_item_takes_no_reading_of_the_others() {
        grows_with_its_input(|count| (half_bad(count), one_each(count), count / 2));
    }

    #[test]
    fn fixes_of_items_are_made_where_some_are_bad() {
        let source = half_bad(4).replace("- name: i0", "- name: &n i0").replace("name: i2", "name: *n")
            + "- plain\n- {spec: {b: *n}} # end\n";
        let mut fixes = one_each(4);
        fixes.push(fix(vec![Op::Add(Pointer::new(&["items"]) / 5 / "spec" / "ttl", json!(1))]));
        fixes.push(fix(vec![add(&["more"], json!({"a": 1}))]));
        let wanted =
            source.replace("{t:", "{ttl: 1, t:").replace("{b: *n}", "{b: *n, ttl: 1}") + "more:\n  a: 1\n";
        assert_eq!(fixed(&source, &fixes), (wanted, vec![1, 3]));
        let document = documents(source.as_bytes()).next().unwrap().unwrap();
        let (_, withheld) =
            make(Draft::new(source.as_bytes(), &document).unwrap(), &fixes.iter().collect::<Vec<_>>());
        assert!(withheld[1].1.to_string().contains("items[3].spec.ttl"), "{withheld:?}");
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
