//! The layers of `src/`: each folder, with the file beside it, may use those below it and none above; what is below
//! all of them is in crates of its own, which cannot. And the length of a file.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that have layers: where they are, their layers from the top down, and the crates below them by the names
/// that they have there. CONTRIBUTING.md says what each layer is for.
const CRATES: &[(&str, &[&str], &[&str])] = &[
    (
        "src",
        &["cli", "local", "policies"],
        &["serve", "cluster", "report", "admission", "judge", "kinds", "controllers", "k8s", "text"],
    ),
    ("crates/core/src", &["admission", "judge", "kinds", "controllers", "k8s"], &["text"]),
];

/// What would name a layer by a way that [`named`] does not read.
const ASIDE: &[&str] = &["crate as ", "super as ", "extern crate self", "$crate", "#[path", "include!("];

/// Returns the layers that a Rust file names, each with its line. The file's module is `depth` steps below the root of its
/// crate.
fn named(source: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_tests = false;
    for (at, line) in source.lines().enumerate() {
        let is_comment = line.trim_start().starts_with("//");
        // Not the `//` of an address.
        let code = if is_comment { "" } else { line.split(" //").next().unwrap_or_default() };
        in_tests |= code == "mod tests {";
        for aside in ASIDE {
            assert!(!code.contains(aside), "line {}: `{aside}` hides which layer is used", at + 1);
        }
        let to_root = "super::".repeat(depth);
        // Tests in a module of their own are one step further down, and no part of the product.
        let ways = if in_tests { vec!["crate::"] } else { vec!["crate::", &to_root] };
        for way in ways {
            for (start, _) in code.match_indices(way) {
                let rest = &code[start + way.len()..];
                assert!(!rest.starts_with('{'), "line {}: one `use` for each module of the crate", at + 1);
                let name = rest
                    .split(|char: char| !char.is_alphanumeric() && char != '_')
                    .next()
                    .unwrap_or_default();
                assert!(name != "super", "line {}: it leads out of the crate", at + 1);
                found.push((at + 1, name.to_owned()));
            }
        }
    }
    found
}

#[test]
fn layers_are_found_by_whatever_way_they_are_named() {
    let names = |source: &str, depth: usize| -> Vec<String> {
        named(source, depth).into_iter().map(|(_, name)| name).collect()
    };
    assert_eq!(names("use crate::cli::Exit; // crate::local", 2), ["cli"]);
    assert_eq!(names("// use crate::cli::Exit;", 2), [""; 0]);
    assert_eq!(names("use super::super::cli::Exit;", 2), ["cli"]);
    assert_eq!(names("use super::super::Options;", 3), [""; 0]);
    assert_eq!(names("mod tests {\n    use super::super::Options;", 2), [""; 0]);
    assert_eq!(names("f(\"https://a\", crate::cli::x)", 1), ["cli"]);
    for hidden in [
        "use crate as root;",
        "extern crate self as all;",
        "$crate::cli::x()",
        "#[path = \"../cli/x.rs\"] mod x;",
    ] {
        assert!(std::panic::catch_unwind(|| names(hidden, 1)).is_err(), "{hidden}");
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn imports_point_down() {
    for (root, layers, below) in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let rank = |name: &str| layers.iter().position(|layer| *layer == name);
        let mut wrong = Vec::new();
        let mut seen = 0;
        for (at, layer) in layers.iter().enumerate() {
            let paths =
                std::iter::once(root.join(layer).with_extension("rs")).chain(files(&root.join(layer)));
            for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
                seen += 1;
                let depth = path.strip_prefix(&root).unwrap().components().count();
                for (line, name) in named(&fs::read_to_string(&path).unwrap(), depth) {
                    let place = || format!("{}:{line}", path.strip_prefix(&root).unwrap().display());
                    match rank(&name) {
                        Some(other) if other < at => {
                            wrong.push(format!("{} uses `{name}`, which is above `{layer}`", place()));
                        }
                        Some(_) => {}
                        None if below.contains(&&*name) => {}
                        None => wrong.push(format!("{} uses `{name}`, which is no layer", place())),
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} imports do not point down:\n{}", wrong.len(), wrong.join("\n"));
        // A file beside the layers would belong to none of them.
        let is_source = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "rs");
        let is_root = |path: &PathBuf| path.ends_with("lib.rs") || path.ends_with("main.rs");
        let all = files(&root).into_iter().filter(|path| is_source(path) && !is_root(path)).count();
        assert_eq!(all, seen, "every file of {} is in a layer", root.display());
    }
}

/// The most lines of a file without its tests: what is longer is about more than one thing.
const MAX_LINES: usize = 500;

#[test]
fn no_file_is_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_source =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs");
    let lines = |path: &Path| {
        let source = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let is_tests = |line: &&str| line.starts_with("mod ") && line.ends_with('{');
        let tests = (0..lines.len())
            .find(|at| lines[*at] == "#[cfg(test)]" && lines[*at..].iter().take(4).any(is_tests));
        tests.unwrap_or(lines.len())
    };
    let all: Vec<PathBuf> = ["src", "crates", "xtask/src"]
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .filter(is_source)
        .collect();
    assert!(all.len() > 100, "{all:?}");
    let long: Vec<&PathBuf> = all.iter().filter(|path| lines(path) > MAX_LINES).collect();
    assert!(long.is_empty(), "more than {MAX_LINES} lines: {long:?}");
}
