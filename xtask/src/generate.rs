//! `cargo xtask generate`: writes the generated files of this repository, or lists those that are not up to date.
//!
//! To generate another file, add it to [`files`].

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use jobgate::cli::configuration;
use jobgate::cli::configuration::tables::{RENDER, TOP};
use jobgate::controllers::script;
use jobgate::judge::policy::{
    self,
    tables::{ASSUMPTIONS, MATCH, SPEC},
};
use jobgate::judge::rules::RuleSet;
use jobgate::judge::settings::{Column, SettingsTable};

use crate::{deploy, pages, schemas};

/// A folder in which every Markdown file is generated, so that others are leftovers of a removed rule.
const WHOLE: &str = "docs/rules";

/// A generated file.
struct GeneratedFile {
    /// Its path from the root of the repository, with `/`.
    path: String,
    /// Its contents.
    contents: String,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GenerateOutcome {
    /// All files are up to date, maybe because they have been written.
    UpToDate,
    /// With `check`: some are not.
    Stale,
}

/// The tables of settings in pages that are otherwise written by hand: the page, the head of the first column, the
/// settings, and what is in the third column.
const TABLES: [(&str, &str, &SettingsTable, Column); 5] = [
    ("docs/configuration.md", "key", &TOP, Column::Option),
    ("docs/policy.md", "`match`", &MATCH, Column::None),
    ("docs/policy.md", "`assumptions`", &ASSUMPTIONS, Column::Default),
    ("docs/policy.md", "`spec`", &SPEC, Column::Default),
    ("docs/rendering.md", "key", &RENDER, Column::Default),
];

/// Returns the pages of [`TABLES`].
fn pages_with_tables(root: &Path) -> anyhow::Result<Vec<GeneratedFile>> {
    let mut pages: Vec<GeneratedFile> = Vec::new();
    for (path, first, settings, third) in TABLES {
        let known = pages.iter().position(|page| page.path == path);
        let page = match known {
            Some(known) => pages.remove(known).contents,
            None => fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?,
        };
        let contents = with_table(&page, &settings.to_markdown(first, third))
            .with_context(|| format!("{path} has no table of {first}"))?;
        pages.push(GeneratedFile { path: path.to_owned(), contents });
    }
    Ok(pages)
}

/// Replaces the table of a page that has the same first line.
fn with_table(page: &str, table: &str) -> Option<String> {
    let head = table.lines().next()?;
    let start = page.find(&format!("\n{head}\n"))? + 1;
    let end = page[start..].find("\n\n").map_or(page.len(), |end| start + end + 1);
    Some(format!("{}{table}{}", &page[..start], &page[end..]))
}

/// Returns all generated files, sorted by path.
fn files(root: &Path) -> anyhow::Result<Vec<GeneratedFile>> {
    let made = |path: &str, contents: String| GeneratedFile { path: path.to_owned(), contents };
    let mut files = vec![
        made("docs/doctor.md", pages::doctor_file()),
        made("docs/kinds.md", pages::kinds_file()),
        made("docs/rules/README.md", pages::index_file()),
        made("policies/simulation.schema.json", format!("{:#}\n", script::schema())),
        made("policies/configuration.schema.json", format!("{:#}\n", configuration::schema())),
        made("policies/policy.schema.json", format!("{:#}\n", policy::schema(&RuleSet::built_in()))),
        made("crates/core/src/judge/api/schema/built_in.json", schemas::built_in()),
    ];
    files.extend(
        RuleSet::built_in()
            .iter()
            .map(|rule| made(&format!("{WHOLE}/{}.md", rule.id), pages::rule_file(rule))),
    );
    files.extend(deploy::files().into_iter().map(|(path, contents)| GeneratedFile { path, contents }));
    files.extend(pages_with_tables(root)?);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Writes the files that are not up to date, and removes leftovers; with `check` only lists them.
///
/// # Errors
/// A file cannot be read or written, or `out` cannot be written.
pub(crate) fn run(root: &Path, check: bool, out: &mut dyn Write) -> anyhow::Result<GenerateOutcome> {
    let mut outcome = GenerateOutcome::UpToDate;
    let files = files(root)?;
    for GeneratedFile { path, contents } in &files {
        let place = root.join(path);
        let current = read(&place).with_context(|| format!("read {path}"))?;
        if current.as_deref() == Some(contents.as_bytes()) {
            continue;
        }
        if check {
            let what = if current.is_none() { "is missing" } else { "is not up to date" };
            writeln!(out, "{path}: {what}; run `cargo xtask generate`")?;
            outcome = GenerateOutcome::Stale;
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
            writeln!(out, "{path}: this file is not generated any more; run `cargo xtask generate`")?;
            outcome = GenerateOutcome::Stale;
        } else {
            fs::remove_file(root.join(&path)).with_context(|| format!("remove {path}"))?;
            writeln!(out, "{path}: removed")?;
        }
    }
    Ok(outcome)
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
fn left_behind(root: &Path, files: &[GeneratedFile]) -> io::Result<Vec<String>> {
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

    fn generate(root: &Path, check: bool) -> (GenerateOutcome, String) {
        let mut out = Vec::new();
        let outcome = run(root, check, &mut out).unwrap();
        (outcome, String::from_utf8(out).unwrap())
    }

    /// Returns a root with the pages that are written by hand, each with a table that is not up to date.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        for (path, first, settings, third) in TABLES {
            let table = settings.to_markdown(first, third);
            let head = table.lines().next().unwrap();
            let page = fs::read_to_string(root.path().join(path)).unwrap_or_else(|_| "# Page\n\n".to_owned());
            fs::write(root.path().join(path), format!("{page}{head}\n| old |\n\nMore.\n\n")).unwrap();
        }
        root
    }

    #[test]
    fn what_is_written_is_up_to_date() {
        let root = root();
        let (outcome, text) = generate(root.path(), true);
        let count = files(root.path()).unwrap().len();
        assert_eq!((outcome, text.lines().count()), (GenerateOutcome::Stale, count));
        assert!(text.contains("docs/rules/deadline.md: is missing; run `cargo xtask generate`\n"), "{text}");
        let (outcome, text) = generate(root.path(), false);
        assert_eq!((outcome, text.lines().count()), (GenerateOutcome::UpToDate, count));
        let page = fs::read_to_string(root.path().join("docs/configuration.md")).unwrap();
        assert!(page.contains("| `facts` | manifests of existing claims | `--facts` |\n"), "{page}");
        assert!(page.ends_with("\n\nMore.\n\n") && !page.contains("old"), "{page}");
        for check in [true, false] {
            assert_eq!(generate(root.path(), check), (GenerateOutcome::UpToDate, String::new()));
        }
    }

    #[test]
    fn what_is_stale_or_left_behind_is_found_and_fixed() {
        let root = root();
        generate(root.path(), false);
        fs::write(root.path().join("docs/rules/deadline.md"), "old").unwrap();
        fs::write(root.path().join("docs/rules/gone.md"), "old").unwrap();
        let (outcome, text) = generate(root.path(), true);
        assert_eq!(outcome, GenerateOutcome::Stale);
        assert_eq!(
            text,
            "docs/rules/deadline.md: is not up to date; run `cargo xtask generate`\n\
             docs/rules/gone.md: this file is not generated any more; run `cargo xtask generate`\n"
        );
        assert_eq!(
            generate(root.path(), false).1,
            "docs/rules/deadline.md: written\ndocs/rules/gone.md: removed\n"
        );
        assert_eq!(generate(root.path(), true).0, GenerateOutcome::UpToDate);
    }

    #[test]
    fn this_repository_is_up_to_date() {
        let root = crate::root();
        if std::env::var_os("UPDATE").is_some() {
            generate(root, false);
        }
        assert_eq!(generate(root, true), (GenerateOutcome::UpToDate, String::new()), "UPDATE=1 writes them");
    }
}
