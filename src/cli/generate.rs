//! `jobgate generate`: writes the generated files of this repository, or lists those that are not up to date.
//!
//! To generate another file, add it to [`files`].

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::Exit;
use crate::cli::configuration;
use crate::cli::install;
use crate::cli::pages;
use crate::judge::api::schema::built_in;
use crate::judge::policy;
use crate::judge::rules::RULES;

/// A folder in which every Markdown file is generated, so that others are leftovers of a removed rule.
const WHOLE: &str = "docs/rules";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its path from the root of the repository, with `/`.
    pub path: String,
    /// Its contents.
    pub contents: String,
}

/// Returns all generated files, sorted by path.
#[must_use]
pub fn files() -> Vec<Made> {
    let made = |path: &str, contents: String| Made { path: path.to_owned(), contents };
    let mut files = vec![
        made("docs/kinds.md", pages::kinds_file()),
        made("docs/rules/README.md", pages::index_file()),
        made("policies/configuration.schema.json", format!("{:#}\n", configuration::schema())),
        made("policies/policy.schema.json", format!("{:#}\n", policy::schema())),
        made(built_in::PATH, built_in::generate()),
    ];
    files.extend(
        RULES.iter().map(|entry| made(&format!("{WHOLE}/{}.md", entry.rule.id), pages::rule_file(entry))),
    );
    files.extend(install::files().into_iter().map(|(path, contents)| Made { path, contents }));
    #[cfg(feature = "serve")]
    files.push(made("docs/doctor.md", crate::serve::doctor::page()));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Writes the files that are not up to date, and removes leftovers; with `check` only lists them.
///
/// Ends with [`Exit::Findings`] if `check` finds any.
///
/// # Errors
/// `root` is not the root of this repository, a file cannot be read or written, or `out` cannot be written.
pub fn run(root: &Path, check: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if !root.join("src/judge/rules.rs").is_file() {
        bail!("{} is not the root of Jobgate's sources", root.display());
    }
    let mut exit = Exit::Clean;
    let files = files();
    for Made { path, contents } in &files {
        let place = root.join(path);
        let current = read(&place).with_context(|| format!("read {path}"))?;
        if current.as_deref() == Some(contents.as_bytes()) {
            continue;
        }
        if check {
            let what = if current.is_none() { "is missing" } else { "is not up to date" };
            writeln!(out, "{path}: {what}; run `jobgate generate`")?;
            exit = Exit::Findings;
        } else {
            place
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&place, contents))
                .with_context(|| format!("write {path}"))?;
            writeln!(out, "{path}: written")?;
        }
    }
    for path in left_behind(root, &files).with_context(|| format!("list {WHOLE}"))? {
        if check {
            writeln!(out, "{path}: this file is not generated any more; run `jobgate generate`")?;
            exit = Exit::Findings;
        } else {
            fs::remove_file(root.join(&path)).with_context(|| format!("remove {path}"))?;
            writeln!(out, "{path}: removed")?;
        }
    }
    Ok(exit)
}

/// Reads a file; nothing if there is none.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the leftover Markdown files in a generated folder.
fn left_behind(root: &Path, files: &[Made]) -> io::Result<Vec<String>> {
    let folder = match fs::read_dir(root.join(WHOLE)) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names: io::Result<Vec<String>> =
        folder.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    let mut paths: Vec<String> = names?
        .into_iter()
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("{WHOLE}/{name}"))
        .collect();
    paths.retain(|path| files.iter().all(|made| made.path != *path));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("src/judge")).unwrap();
        fs::write(root.path().join("src/judge/rules.rs"), "").unwrap();
        root
    }

    fn generate(root: &Path, check: bool) -> (Exit, String) {
        let mut out = Vec::new();
        let exit = run(root, check, &mut out).unwrap();
        (exit, String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_written_is_up_to_date() {
        let root = repository();
        let (exit, text) = generate(root.path(), true);
        assert_eq!((exit, text.lines().count()), (Exit::Findings, files().len()));
        assert!(text.contains("docs/rules/deadline.md: is missing; run `jobgate generate`\n"), "{text}");
        let (exit, text) = generate(root.path(), false);
        assert_eq!((exit, text.lines().count()), (Exit::Clean, files().len()));
        for check in [true, false] {
            assert_eq!(generate(root.path(), check), (Exit::Clean, String::new()));
        }
    }

    #[test]
    fn what_is_stale_or_left_behind_is_found_and_fixed() {
        let root = repository();
        generate(root.path(), false);
        fs::write(root.path().join("docs/rules/deadline.md"), "old").unwrap();
        fs::write(root.path().join("docs/rules/gone.md"), "old").unwrap();
        let (exit, text) = generate(root.path(), true);
        assert_eq!(exit, Exit::Findings);
        assert_eq!(
            text,
            "docs/rules/deadline.md: is not up to date; run `jobgate generate`\n\
             docs/rules/gone.md: this file is not generated any more; run `jobgate generate`\n"
        );
        assert_eq!(
            generate(root.path(), false).1,
            "docs/rules/deadline.md: written\ndocs/rules/gone.md: removed\n"
        );
        assert_eq!(generate(root.path(), true).0, Exit::Clean);
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        assert!(run(folder.path(), false, &mut Vec::new()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn this_repository_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE").is_some() {
            generate(root, false);
        }
        assert_eq!(generate(root, true), (Exit::Clean, String::new()), "UPDATE=1 writes them");
    }
}
