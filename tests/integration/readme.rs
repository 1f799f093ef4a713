//! The samples of the README are what the program prints.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::fs;
use std::path::Path;

use crate::support::place::{Place, stdout};

/// Stands for any lines that a sample leaves out.
const OMITTED: &str = "…";

#[test]
fn samples_of_the_readme_are_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let blocks = |language: &str| {
        let begin = format!("```{language}\n");
        readme.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect::<Vec<_>>()
    };
    let train = blocks("yaml")[0];
    let consoles = blocks("console");
    let samples: Vec<(&str, &str)> = consoles
        .iter()
        .flat_map(|console| console.split("$ ").skip(1))
        .filter_map(|sample| sample.strip_prefix("jobgate ")?.split_once('\n'))
        .collect();
    assert!(samples.len() >= 3, "{samples:?}");
    let mut updated = readme.clone();
    for (command, expected) in samples {
        let place = Place::with(&[("train.yaml", train)]);
        let output = place.run(&command.split(' ').collect::<Vec<_>>());
        let printed = stdout(&output);
        if std::env::var_os("UPDATE").is_some() && !expected.contains(OMITTED) {
            updated = updated.replace(expected, printed);
            continue;
        }
        let mut rest = printed;
        for (nth, piece) in expected.split(&format!("{OMITTED}\n")).enumerate() {
            let at = rest.find(piece).unwrap_or_else(|| panic!("`jobgate {command}` prints:\n{printed}"));
            assert!(nth > 0 || at == 0, "`jobgate {command}` begins with other lines:\n{printed}");
            rest = &rest[at + piece.len()..];
        }
        assert_eq!(rest, "", "`jobgate {command}` prints more");
    }
    if updated != readme {
        fs::write(&path, updated).unwrap();
    }
}
