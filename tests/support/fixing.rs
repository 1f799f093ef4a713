//! What `lint --fix` makes of files, kept in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jobgate::admission::{self, Endpoint, Review};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Safety;
use jobgate::judge::policy::Policy;
use jobgate::kinds::Kind;
use jobgate::local::lint::{self, Change, Claims, Fixing, Input, Linted, Options, Sink, Unwritten};
use jobgate::text::value::Value;
use jobgate::text::yaml::Edit;

/// One changed file.
#[derive(Debug)]
pub struct Changed {
    /// What was read.
    pub old: Vec<u8>,
    /// What it is to be.
    pub new: Vec<u8>,
    /// The way from one to the other.
    pub edits: Vec<Edit>,
}

#[derive(Debug, Default)]
struct Kept(Mutex<BTreeMap<String, Changed>>);

impl Sink for Kept {
    fn take(&self, change: &Change<'_>) -> Result<(), Unwritten> {
        let changed =
            Changed { old: change.old.to_vec(), new: change.new.to_vec(), edits: change.edits.to_vec() };
        self.0.lock().expect("a sound lock").insert(change.input.path.to_string(), changed);
        Ok(())
    }
}

/// Fixes files, and returns the report with what has become of those that change, by path.
pub fn fix(inputs: &[Input], policy: &Policy, most: Safety) -> (Linted, BTreeMap<String, Changed>) {
    let kept = Kept::default();
    let options = Options { fix: Some(Fixing { most, sink: &kept }), ..Options::default() };
    let linted = lint::lint(inputs, policy, &Claims::default(), &options);
    (linted, kept.0.into_inner().expect("a sound lock"))
}

/// Returns the objects of a text that Jobgate judges, out of their lists.
pub fn workloads(text: &[u8]) -> Vec<Value> {
    fn take(value: Value, found: &mut Vec<Value>) {
        match value.get("items") {
            Some(Value::Array(items)) if Kind::from_object(&value).is_none() => {
                items.iter().for_each(|item| take(item.clone(), found));
            }
            _ if Kind::from_object(&value).is_some() => found.push(value),
            _ => {}
        }
    }
    let mut found = Vec::new();
    jobgate::text::yaml::documents(text)
        .filter_map(Result::ok)
        .for_each(|document| take(document.value, &mut found));
    found
}

/// Returns the patch that the webhook answers with when kubectl creates an object, if it does.
pub fn patch_of(policy: &Policy, object: &Value) -> Option<String> {
    let review = admission::request(object, None, "default")?;
    let body = review.to_string();
    for endpoint in Endpoint::ALL {
        let whole = Review::read_whole(body.as_bytes())
            .map(|review| admission::judge(endpoint, policy, &NoFacts, review, None));
        let skimmed = admission::answer(endpoint, policy, &NoFacts, body.as_bytes(), None);
        assert_eq!(
            whole.ok(),
            Some(skimmed),
            "what is passed over while reading changes no answer, nor a word of it: {object}"
        );
    }
    let answer = admission::answer(Endpoint::Mutate, policy, &NoFacts, body.as_bytes(), None);
    assert_eq!((answer.status, answer.meta.fault), (200, None), "{object}");
    let answer: Value = serde_json::from_slice(&answer.body).expect("a review");
    answer["response"].get("patch").map(Value::to_string)
}
