//! `jobgate policy`: checks policies, and prints built-in ones.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use jiff::civil::Date;

use super::Exit;
use crate::judge::cel;
use crate::judge::policy::Policy;
use crate::local::files::{self, Barred, MAX_SETTINGS_BYTES};
use crate::local::lint::path_text;
use crate::policies::BUILTINS;
use crate::report::{clean, clean_lines};
use crate::text::number::plural;
use crate::text::suggest::closest;

/// Reads policies and reports their errors, with lines; `-` is standard input. With `today`, exemptions that
/// have ended are reported. Text has ANSI styles, which `out` removes if it has no colours.
///
/// Ends with [`Exit::Findings`] where a policy is not valid, and with [`Exit::Failed`] where one cannot be
/// read; the others are still checked.
///
/// # Errors
/// `out` cannot be written.
pub fn check(paths: &[PathBuf], today: Option<Date>, out: &mut dyn Write) -> io::Result<Exit> {
    let mut exit = Exit::Clean;
    for path in paths {
        let shown = clean(&path_text(path)).into_owned();
        let source = match read(path) {
            Ok(source) => source,
            Err(error) => {
                writeln!(out, "{shown}: cannot be read: {}", clean(&error.to_string()))?;
                exit = Exit::Failed;
                continue;
            }
        };
        match Policy::parse(&source, &shown) {
            Ok(policy) => summarize(&policy, &shown, today, out)?,
            Err(errors) => {
                let plain = errors.snippets(false);
                let cleaned = clean_lines(&plain);
                // Colours are only for text with nothing to clean.
                let snippets = if cleaned == plain { errors.snippets(true) } else { cleaned.into_owned() };
                write!(out, "{snippets}")?;
                writeln!(out, "{shown}: {}", plural(errors.count(), "error"))?;
                if exit == Exit::Clean {
                    exit = Exit::Findings;
                }
            }
        }
    }
    Ok(exit)
}

fn read(path: &Path) -> Result<String, Barred> {
    if path == Path::new("-") {
        let mut source = String::new();
        io::stdin().lock().take(MAX_SETTINGS_BYTES + 1).read_to_string(&mut source)?;
        let is_whole = source.len() as u64 <= MAX_SETTINGS_BYTES;
        return if is_whole { Ok(source) } else { Err(Barred::TooLarge(MAX_SETTINGS_BYTES)) };
    }
    files::named(path, MAX_SETTINGS_BYTES).and_then(files::text)
}

fn summarize(policy: &Policy, path: &str, today: Option<Date>, out: &mut dyn Write) -> io::Result<()> {
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    writeln!(
        out,
        "{path}: policy `{}` ({}) sets {} of {}, with {} and {}",
        policy.name,
        policy.hash,
        policy.settings().len(),
        count(policy.rules().len(), "rule"),
        count(policy.overrides.len(), "override"),
        count(policy.exemptions.len(), "exemption"),
    )?;
    for (index, exemption) in
        policy.exemptions.iter().enumerate().filter(|(_, exemption)| !exemption.holds_on(today))
    {
        let until = exemption.until.map(|date| date.to_string()).unwrap_or_default();
        writeln!(
            out,
            "{path}: warning: spec.exemptions[{index}] ended on {until} and suppresses nothing ({})",
            exemption.reason.escape_debug()
        )?;
    }
    Ok(())
}

/// Writes a built-in policy, including comments; without a name the default one.
///
/// # Errors
/// There is no such policy, or `out` cannot be written.
pub fn show(name: Option<&str>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let name = name.unwrap_or(BUILTINS[0].name);
    let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) else {
        let names = BUILTINS.map(|builtin| builtin.name);
        match closest(name, names) {
            Some(meant) => bail!("there is no policy `{}`; did you mean `{meant}`?", name.escape_debug()),
            None => bail!(
                "there is no policy `{}`; there are {}",
                name.escape_debug(),
                names.map(|name| format!("`{name}`")).join(", ")
            ),
        }
    };
    out.write_all(builtin.source.as_bytes())?;
    Ok(Exit::Clean)
}

/// Writes the parts of a policy that an API server can enforce by itself, as YAML. `own` is the namespace of
/// Jobgate; exemptions that have ended on `today` are skipped.
///
/// # Errors
/// The policy cannot be read or is not valid, or `out` cannot be written.
pub fn export(name: &str, own: &str, today: Option<Date>, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let policy = super::policy_named(name)?;
    writeln!(
        out,
        "# The parts of the policy `{}` ({}) that the API server can enforce by itself.",
        policy.name.escape_debug(),
        policy.hash
    )?;
    out.write_all(cel::export(&policy, own, today).to_yaml().as_bytes())?;
    Ok(Exit::Clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_sources(sources: &[&str]) -> (Exit, String) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..sources.len()).map(|index| folder.path().join(format!("{index}.yaml"))).collect();
        for (path, source) in paths.iter().zip(sources) {
            std::fs::write(path, source).unwrap();
        }
        check_paths(&paths, folder.path())
    }

    fn check_paths(paths: &[PathBuf], folder: &Path) -> (Exit, String) {
        let mut out = Vec::new();
        let exit =
            check(paths, Some(jiff::civil::date(2026, 1, 1)), &mut anstream::StripStream::new(&mut out))
                .unwrap();
        (exit, String::from_utf8(out).unwrap().replace(&format!("{}/", path_text(folder)), ""))
    }

    const GOOD: &str = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\nspec: {rules: {deadline: {action: warn}}}\n";

    #[test]
    fn good_policies_are_summed_up() {
        let (exit, text) = check_sources(&[GOOD]);
        assert_eq!(exit, Exit::Clean);
        let hash = Policy::parse(GOOD, "").unwrap().hash;
        assert_eq!(
            text,
            format!(
                "0.yaml: policy `mine` ({hash}) sets 1 of {} rules, with 0 overrides and 0 exemptions\n",
                Policy::default().rules().len()
            )
        );
    }

    #[test]
    fn exemptions_that_have_ended_are_reported() {
        let exemption = |until: &str| format!("{{match: {{names: [a]}}, reason: r, until: {until}}}");
        let source = format!(
            "{}exemptions: [{}, {}]}}\n",
            &GOOD.replace("}}}\n", "}}, "),
            exemption("2026-01-01"),
            exemption("2025-12-31")
        );
        let (exit, text) = check_sources(&[&source]);
        assert_eq!(exit, Exit::Clean);
        assert!(text.ends_with("2 exemptions\n0.yaml: warning: spec.exemptions[1] ended on 2025-12-31 and suppresses nothing (r)\n"), "{text}");
    }

    #[test]
    fn bad_policies_are_shown_where_they_are_bad() {
        let (exit, text) = check_sources(&[&GOOD.replace("warn", "wran"), GOOD]);
        assert_eq!(exit, Exit::Findings);
        insta::assert_snapshot!(text.split_once("1.yaml").unwrap().0, @"
        error: `action` cannot be `wran`
         --> 0.yaml:4:35
          |
        4 | spec: {rules: {deadline: {action: wran}}}
          |                                   ^^^^
          |
          = help: did you mean `warn`?

        0.yaml: 1 error
        ");
    }

    #[test]
    fn a_policy_that_cannot_be_read_does_not_stop_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let (bad, not_text) = (folder.path().join("bad.yaml"), folder.path().join("not-text.yaml"));
        std::fs::write(&bad, "[]").unwrap();
        std::fs::write(&not_text, [0xff, 0xfe]).unwrap();
        let (exit, text) = check_paths(&[folder.path().join("none.yaml"), not_text, bad], folder.path());
        assert_eq!(exit, Exit::Failed);
        assert!(
            text.contains("none.yaml: cannot be read: ") && text.contains("not-text.yaml: cannot be read: "),
            "{text}"
        );
        assert!(text.contains("a policy is a mapping, not a list"), "{text}");
    }

    #[test]
    fn shows_what_is_built_in() {
        let shown = |name| {
            let mut out = Vec::new();
            show(name, &mut out).map(|_| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(shown(None).unwrap(), BUILTINS[0].source);
        for builtin in BUILTINS {
            assert_eq!(shown(Some(builtin.name)).unwrap(), builtin.source);
        }
        assert_eq!(shown(Some("adit")).unwrap_err(), "there is no policy `adit`; did you mean `audit`?");
        assert!(shown(Some("zzz")).unwrap_err().contains("there are `default`, `audit`, `accelerators`"));
    }
}
