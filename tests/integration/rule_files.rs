//! A rule is one file: nothing outside of it names it, and it declares the parameters that it reads.

use std::fs;
use std::path::{Path, PathBuf};

use jobgate::judge::rules::RuleSet;

/// The only files beside a rule's own that may have its id: reports of made-up findings, for tests.
const SAMPLES: [&str; 2] = ["sample.rs", "laws.rs"];

/// Words that are the id of a rule, and something else where they stand: the reason of a fault, a value of a
/// starter's template, and an example in a file that `init` writes.
const OTHERS: [(&str, &str); 3] = [
    ("admission/fault.rs", "deadline"),
    ("local/starter.rs", "deadline"),
    ("cli/init.rs", "ttl-after-finished"),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let each = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    let all = paths.into_iter().flat_map(each);
    all.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

/// Returns the code of a file, without its tests.
fn code(path: &Path) -> String {
    let source = fs::read_to_string(path).unwrap();
    let tests = source.find("#[cfg(test)]\nmod tests").unwrap_or(source.len());
    let lines = source[..tests].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Tells whether a rule is named at a place, and not what has a longer name. `deadline` is a word of its own.
fn is_word(code: &str, at: usize, id: &str) -> bool {
    let ends =
        |char: Option<char>| char.is_none_or(|char| !char.is_alphanumeric() && !['-', '_'].contains(&char));
    let (before, behind) = (code[..at].chars().next_back(), code[at + id.len()..].chars().next());
    let is_quoted = |char: Option<char>| char.is_some_and(|char| ['"', '`'].contains(&char));
    ends(before) && ends(behind) && (id.contains('-') || is_quoted(before) && is_quoted(behind))
}

#[test]
fn no_rule_is_named_outside_its_file() {
    let roots = [
        "src",
        "crates/cluster/src",
        "crates/core/src",
        "crates/lint/src",
        "crates/report/src",
        "crates/serve/src",
        "crates/text/src",
    ];
    let roots = roots.map(|root| Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
    let rules = RuleSet::built_in();
    let ids: Vec<&str> = rules.iter().map(|rule| &*rule.id).collect();
    let (mut wrong, mut own) = (Vec::new(), 0);
    let paths = roots.iter().flat_map(|root| sources(root).into_iter().map(move |path| (root, path)));
    for (root, path) in paths.filter(|(_, path)| !path.ends_with("tests.rs")) {
        let place = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let code = code(&path);
        let is_named = |id: &&&str| code.match_indices(**id).any(|(at, _)| is_word(&code, at, id));
        for id in ids.iter().filter(is_named) {
            if place == format!("judge/rules/{}.rs", id.replace('-', "_")) {
                own += 1;
            } else if !SAMPLES.contains(&&*place) && !OTHERS.contains(&(&*place, *id)) {
                wrong.push(format!("{place} names `{id}`"));
            }
        }
    }
    assert!(own >= ids.len(), "each file names its rule: {own}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the names that follow one of some words in a text.
fn after<'c>(code: &'c str, words: &[&str]) -> Vec<&'c str> {
    let is_name = |char: char| char.is_alphanumeric() || ['_', ':'].contains(&char);
    let rest = words.iter().flat_map(|word| code.split(*word).skip(1));
    rest.map(|rest| rest.split(|char| !is_name(char)).next().unwrap_or_default()).collect()
}

#[test]
fn a_rule_declares_the_parameters_that_it_reads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/core/src/judge/rules");
    let readers = [".flag(&", ".number(&", ".strings(&", ".word(&", ".mapping(&"];
    let types = ["Flag", "Number", "Strings", "Word", "Mapping"];
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in sources(&folder) {
        let code = code(&path);
        let declared = code.split("params: &[").nth(1).unwrap_or_default();
        let declared: Vec<&str> =
            declared.split(']').next().unwrap_or_default().split(',').map(str::trim).collect();
        let made = code.lines().filter_map(|line| line.strip_prefix("const ")?.split_once(": "));
        let made = made.filter(|(_, rest)| types.iter().any(|of| rest.starts_with(&format!("{of} "))));
        for name in after(&code, &readers).into_iter().chain(made.map(|(name, _)| name)) {
            seen += 1;
            if !declared.contains(&&*format!("{name}.0")) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(seen > 20, "{seen}");
    assert!(wrong.is_empty(), "not in `params`: {wrong:?}");
}
