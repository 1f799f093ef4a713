//! The law of fixes, checked with a YAML reader that is not ours: `read(edit(source)) == patch(read(source))`.
//!
//! That reader is a port of libyaml, as PyYAML and Go's decoder are. It adds no line break to the end of a file,
//! as kubectl does, so a fix must keep the values of a text for both.

use std::collections::BTreeMap;

use jobgate::judge::finding::Safety;
use jobgate::judge::policy::Policy;
use jobgate::local::lint::{self, Input};
use jobgate::text::patch;
use jobgate::text::value::Value;
use jobgate::text::yaml;
use proptest::prelude::*;
use serde::de::Deserialize as _;

use crate::support::fixing::{self, Changed};
use crate::support::{fixture, shared};
use crate::yaml_laws::{self, Ink};

/// Reads the documents of a text; nothing if the other reader rejects one.
fn read(text: &str) -> Option<Vec<serde_json::Value>> {
    yaml_serde::Deserializer::from_str(text)
        .map(|document| serde_json::Value::deserialize(document).ok())
        .collect()
}

/// Reads the documents of a text as kubectl does.
fn read_as_kubectl(text: &str) -> Option<Vec<serde_json::Value>> {
    yaml::documents(text.as_bytes()).map(|document| Some(document.ok()?.value.to_json())).collect()
}

/// Checks that an edit changes for the other reader what it changes for kubectl. Returns whether both can read
/// the text.
fn changes_the_same(path: &str, old: &str, new: &str) -> bool {
    let (Some(old_there), Some(old_here)) = (read(old), read_as_kubectl(old)) else { return false };
    // Before the first `---` and behind the last there may be a document for one of them.
    let objects = |mut documents: Vec<serde_json::Value>| {
        documents.retain(|document| !document.is_null());
        documents
    };
    let (old_there, old_here) = (objects(old_there), objects(old_here));
    if old_there.len() != old_here.len() {
        return false;
    }
    let (new_there, new_here) = (read(new), read_as_kubectl(new));
    let new_there =
        objects(new_there.unwrap_or_else(|| panic!("{path} cannot be read after the fix:\n{new}")));
    let new_here = objects(new_here.unwrap_or_else(|| panic!("{path} is no YAML after the fix:\n{new}")));
    assert_eq!(new_there.len(), old_there.len(), "{path} has other documents now");
    for (((mut before, after), old), new) in old_there.into_iter().zip(new_there).zip(old_here).zip(new_here)
    {
        json_patch::patch(&mut before, &json_patch::diff(&old, &new))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(before == after, "{path}: a fix changed something else:\n{before:#}\n{after:#}");
    }
    true
}

fn check_all(changed: &BTreeMap<String, Changed>) -> usize {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    changed
        .iter()
        .filter(|(path, changed)| changes_the_same(path, &text(&changed.old), &text(&changed.new)))
        .count()
}

#[test]
fn fixes_of_real_manifests_change_what_they_say_for_another_reader() {
    let Some(corpus) = shared::path("corpus") else { return };
    let inputs = lint::collect(&[corpus], |_| Ok(Vec::new())).files;
    for (most, least) in [(Safety::Safe, 500), (Safety::Unsafe, 600)] {
        let (_, changed) = fixing::fix(&inputs, &Policy::default(), most);
        let checked = check_all(&changed);
        assert!(checked > least && checked * 100 > changed.len() * 95, "{checked} of {}", changed.len());
    }
}

/// The fixtures of all rules, also without their last line break.
#[test]
fn fixes_of_fixtures_change_what_they_say_for_another_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut checked = 0;
    for rule in &jobgate::judge::rules::RuleSet::built_in() {
        for fixture in fixture::of_rule(rule) {
            let source = std::fs::read_to_string(&fixture.path).expect("a fixture");
            for text in [source.as_str(), source.trim_end()] {
                let path = folder.path().join("a.yaml");
                std::fs::write(&path, text).expect("a file");
                for most in [Safety::Safe, Safety::Unsafe] {
                    let (_, changed) = fixing::fix(&[Input::named(&path)], &fixture.policy, most);
                    checked += check_all(&changed);
                }
            }
        }
    }
    assert!(checked > 500, "{checked}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_do_for_another_reader_what_the_patch_does(
        map in yaml_laws::object(),
        ink in yaml_laws::ink(),
        draws in prop::collection::vec((any::<u16>(), any::<u8>(), yaml_laws::value()), 1..5),
        cut in any::<bool>(),
    ) {
        let mut ink: Ink = ink;
        let mut source = ink.document(&map);
        if cut {
            source.truncate(source.trim_end_matches(['\n', '\r']).len());
        }
        let document = yaml_laws::only(&source);
        let ops = yaml_laws::ops(&document.value, &draws);
        let (Ok(out), Some(before)) = (yaml_laws::edited(&source, &document, &ops), read(&source)) else {
            return Ok(());
        };
        let wanted = patch::apply(&Value::from(before[0].clone()), &ops);
        let out = (read(&out).map(|mut all| all.swap_remove(0)), out);
        prop_assert_eq!(out.0.map(Value::from), wanted.ok(), "{:?}\n{}\n{}", ops, source, out.1);
    }
}
