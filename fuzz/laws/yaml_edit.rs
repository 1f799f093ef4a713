//! `parse(edit(source, ops)) == patch(parse(source), ops)`, and no byte moves but for that; by single
//! operations, and by what `lint --fix` makes of a file.

use std::sync::{LazyLock, Mutex};

use jobgate::judge::finding::Safety;
use jobgate::judge::policy::Policy;
use jobgate::local::fix;
use jobgate::local::lint::{self, Change, Claims, Fixing, Input, Options, Sink, Unwritten};
use jobgate::text::patch::Op;
use jobgate::text::pointer::Token;
use jobgate::text::value::{Map, Value};
use jobgate::text::yaml::{self, Document, Edit, SyntaxError};

use super::draws::{Draws, places};

static POLICY: LazyLock<Policy> = LazyLock::new(Policy::default);

/// Takes a file; behind its last zero byte, where it has one, the bytes that draw operations.
pub fn check(input: &[u8]) {
    let (source, draws) = super::halves(input);
    let mut draws = Draws::new(draws);
    let all: Vec<Result<Document, SyntaxError>> = yaml::documents(source).collect();
    for read in &all {
        match read {
            Ok(document) => one(source, document, &mut draws, all.len() == 1),
            Err(error) => {
                let whole =
                    str::from_utf8(source).map_or(true, |text| text.get(error.span.clone()).is_some());
                assert!(whole && source.get(error.span.clone()).is_some(), "{error:?}");
                assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{error:?}");
            }
        }
    }
    fixed(source, if draws.below(2) == 0 { Safety::Safe } else { Safety::Unsafe });
}

fn one(source: &[u8], document: &Document, draws: &mut Draws<'_>, alone: bool) {
    assert!(source.get(document.span.clone()).is_some());
    for twice in document.duplicates().first(1000) {
        assert!(
            source.get(twice.dropped.clone()).is_some() && source.get(twice.kept.clone()).is_some(),
            "{twice:?}"
        );
    }
    for at in places(&document.value, 32) {
        let span = document.locate(&at).unwrap_or_else(|| panic!("{at:?} is nowhere"));
        assert!(
            source.get(span.value).is_some() && source.get(span.key.unwrap_or_default()).is_some(),
            "{at:?}"
        );
    }
    printed(&document.value);
    let (ops, wanted) = draws.ops(&document.value, 4);
    let Ok(edits) = yaml::edit(source, document, &ops) else { return };
    apart(source, &edits);
    let new = fix::apply(source, &edits);
    let text = String::from_utf8_lossy(&new);
    if alone {
        let read: Vec<Value> = yaml::documents(&new)
            .map(|read| read.unwrap_or_else(|error| panic!("{error}: {ops:?} make {text:?}")).value)
            .collect();
        assert_eq!(read.len(), 1, "{ops:?} make {text:?}");
        assert!(same(&read[0], &wanted), "{ops:?} make {text:?}, which is {} and not {wanted}", read[0]);
    }
    let added = |op: &Op| matches!(op, Op::Add(at, _) if at.find(&document.value).is_none() || matches!(at.last(), Some(Token::Index(_))));
    if let [op] = &ops[..]
        && added(op)
    {
        for edit in &edits {
            let gone = String::from_utf8_lossy(&source[edit.span.clone()]);
            assert!(gone.trim().is_empty(), "{op:?} takes {gone:?} out and makes {text:?}");
        }
    }
}

/// What is printed reads as what it was.
fn printed(value: &Value) {
    if value.as_object().is_none_or(Map::is_empty) {
        return;
    }
    let text = yaml::print(value);
    let read: Vec<Value> = yaml::documents(text.as_bytes())
        .map(|read| read.unwrap_or_else(|error| panic!("{error}: {value} is printed as {text:?}")).value)
        .collect();
    assert!(
        matches!(&read[..], [read] if same(read, value)),
        "{value} is printed as {text:?}, which is {read:?}"
    );
}

/// Edits are sorted and apart from each other, between whole characters.
fn apart(source: &[u8], edits: &[Edit]) {
    assert!(edits.windows(2).all(|pair| pair[0].span.end <= pair[1].span.start), "{edits:?}");
    for edit in edits {
        assert!(source.get(edit.span.clone()).is_some_and(|gone| str::from_utf8(gone).is_ok()), "{edit:?}");
    }
}

/// Numbers are the same that are worth the same: `1` and `1.0`.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right.iter())
                    .all(|((key, left), (other, right))| key == other && same(left, right))
        }
        (left, right) => left == right,
    }
}

/// A file that has been fixed, and the way to it.
type Fixed = (Vec<u8>, Vec<Edit>);

#[derive(Debug, Default)]
struct Kept(Mutex<Option<Fixed>>);

impl Sink for Kept {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        *self.0.lock().expect("a sound lock") = Some((change.new.to_vec(), change.edits.to_vec()));
        Ok(())
    }
}

/// Lints a file and fixes it; returns what becomes of it where it changes.
fn run(source: &[u8], most: Safety) -> Option<Fixed> {
    let kept = Kept::default();
    let options = Options { fix: Some(Fixing { most, sink: &kept }), ..Options::default() };
    let linted = lint::lint(&[Input::text("k8s.yaml", source)], &POLICY, &Claims::default(), &options);
    for located in &linted.report.findings {
        let span = located.location.span.clone();
        assert!(span.start <= span.end && located.location.start <= located.location.end, "{located:?}");
    }
    kept.0.into_inner().expect("a sound lock")
}

fn fixed(source: &[u8], most: Safety) {
    let Some((new, edits)) = run(source, most) else { return };
    apart(source, &edits);
    let text = String::from_utf8_lossy(&new);
    assert_eq!(new, fix::apply(source, &edits), "{text:?}");
    let read = |source: &[u8]| {
        yaml::documents(source).map(|read| read.map(|document| document.value).ok()).collect::<Vec<_>>()
    };
    let (before, after) = (read(source), read(&new));
    assert_eq!(before.len(), after.len(), "{text:?}");
    for (before, after) in before.iter().zip(&after) {
        // What could not be read is as it was; what could be can be still, and is of the same kind.
        assert_eq!(before.is_some(), after.is_some(), "{text:?}");
        let (Some(before), Some(after)) = (before, after) else { continue };
        assert!(before["kind"] == after["kind"] || most == Safety::Unsafe, "{text:?}");
    }
    // Fixing comes to an end: a fix may bring another one about, but no fix is made twice.
    let mut last = new;
    for _ in 0..8 {
        let Some((next, _)) = run(&last, most) else { return };
        assert_ne!(next, last);
        last = next;
    }
    panic!("fixes without end: {:?}", String::from_utf8_lossy(&last));
}
