//! `jobgate init`: looks at a repository and writes a configuration for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::configuration::FILE;
use super::{Exit, today};
use crate::cli::args::Init;
use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Policy;
use crate::local::lint::{self, Claims, DryRun, ExistingObjects, Linted, Options, Rendering, path_text};
use crate::local::render::Tools;
use crate::local::replace::put;
use crate::report::{Reason, Rendered, clean, counts, plural};

/// The policy for a repository in which the default one would deny something.
const GENTLE: &str = "audit";
/// The policy for one in which it would not.
const DEFAULT: &str = "default";
/// Maximum directories, charts and kustomizations to name.
const NAMED: usize = 5;

/// What a repository contains.
#[derive(Debug, Default)]
struct RepositoryInventory {
    files: usize,
    documents: usize,
    /// Objects by kind.
    kinds: BTreeMap<String, usize>,
    /// Objects by the directory that they are in, below the repository.
    places: BTreeMap<String, usize>,
    /// Charts and kustomizations that have to be rendered.
    charts: BTreeSet<String>,
    kustomizations: BTreeSet<String>,
    /// How many of each were rendered.
    rendered: (usize, usize),
    /// Other things that were not judged.
    others: usize,
    /// The findings, in words.
    found: String,
    denied: usize,
    fixable: usize,
    unreadable: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The directory cannot be read, there is a configuration already, or it cannot be written.
pub fn run(args: &Init, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let directory = &args.directory;
    let file = lint::normal(&directory.join(FILE));
    if !std::fs::metadata(directory)
        .with_context(|| format!("read {}", clean(&path_text(directory))))?
        .is_dir()
    {
        bail!("{} is not a directory", clean(&path_text(directory)));
    }
    if !args.force && file.symlink_metadata().is_ok() {
        bail!("{} exists; --force replaces it", clean(&path_text(&file)));
    }
    let inventory = RepositoryInventory::new(directory)?;
    let policy = if inventory.denied > 0 { GENTLE } else { DEFAULT };
    inventory.write(out)?;
    put(&file, configuration(&inventory, policy).as_bytes())
        .with_context(|| format!("write {}", clean(&path_text(&file))))?;
    writeln!(out, "\nwritten: {}, with the policy `{policy}`\n", clean(&path_text(&file)))?;
    next(&inventory, policy, directory, out)?;
    Ok(Exit::Clean)
}

impl RepositoryInventory {
    fn new(directory: &Path) -> anyhow::Result<Self> {
        let tools = Tools::find(&std::env::var_os("PATH").unwrap_or_default());
        let rendering = Rendering { tools, ..Rendering::default() };
        let options = Options {
            keep_sources: false,
            keep_fixes: false,
            render: Some(&rendering),
            today: Some(today()),
            ..Options::default()
        };
        let limit = options.max_file_size;
        let inputs = lint::collect(&[directory.to_owned()], |path| lint::drained(path, limit));
        let policy = Policy::default();
        let facts = Claims::default();
        let Linted { report, unreadable, .. } = lint::lint(&inputs.files, &policy, &facts, &options);
        let mut inventory = Self {
            files: report.files,
            documents: report.documents,
            rendered: (report.charts, report.kustomizations),
            found: counts(&report),
            denied: report.count(Level::Deny),
            fixable: report
                .findings
                .iter()
                .filter(|located| located.finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe))
                .count(),
            ..Self::default()
        };
        inventory.unreadable.extend(inputs.unreadable.iter().chain(&unreadable).map(ToString::to_string));
        for unjudged in &report.unjudged {
            match &unjudged.reason {
                Reason::Chart(dir) | Reason::ChartParts(dir) => _ = inventory.charts.insert(dir.to_string()),
                Reason::Kustomization(kustomized) => {
                    inventory.kustomizations.insert(kustomized.path.to_string());
                }
                Reason::NotRendered(not) => {
                    let all = match not.thing {
                        Rendered::Chart => &mut inventory.charts,
                        Rendered::Kustomization => &mut inventory.kustomizations,
                    };
                    all.insert(not.dir.to_string());
                }
                // A patched object is listed itself.
                Reason::Patch(_) | Reason::Nothing => {}
                reason if reason.is_error() => {}
                _ => inventory.others += 1,
            }
        }
        // A dry run has an answer for each object, with its place.
        let against = ExistingObjects::default();
        let question =
            DryRun { strict: true, against: &against, cluster: None, keep_objects: false, keep_pods: false };
        let options = Options { dry_run: Some(question), ..options };
        let answers = lint::lint(&inputs.files, &policy, &facts, &options).report.answers;
        for answered in answers {
            *inventory.kinds.entry(answered.object.kind.clone()).or_default() += 1;
            let path = Path::new(&*answered.location.file);
            let below = path.strip_prefix(directory).unwrap_or(path);
            let mut parts = below.components();
            let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let place = first.filter(|_| parts.next().is_some()).unwrap_or_else(|| ".".to_owned());
            *inventory.places.entry(place).or_default() += 1;
        }
        Ok(inventory)
    }

    fn jobs(&self) -> usize {
        self.kinds.values().sum()
    }

    /// Returns the kinds with their numbers, the most frequent first.
    fn kinds(&self) -> String {
        listed(&self.kinds)
    }

    fn places(&self) -> String {
        listed(&self.places)
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let read = format!("{}, {}", plural(self.files, "file"), plural(self.documents, "document"));
        match self.jobs() {
            0 => writeln!(out, "found: {read}: no batch jobs among them")?,
            jobs => {
                writeln!(out, "found: {read}, {}: {}", plural(jobs, "job"), self.kinds())?;
                writeln!(out, "  in: {}", self.places())?;
            }
        }
        let rendered = [(self.rendered.0, "chart"), (self.rendered.1, "kustomization")];
        let rendered = rendered.into_iter().filter(|(count, _)| *count > 0);
        let rendered: Vec<String> = rendered.map(|(count, what)| plural(count, what)).collect();
        if !rendered.is_empty() {
            writeln!(out, "  rendered: {}", rendered.join(", "))?;
        }
        for (what, all) in [("charts", &self.charts), ("kustomizations", &self.kustomizations)] {
            if !all.is_empty() {
                let named: Vec<_> = all.iter().take(NAMED).map(|path| clean(path)).collect();
                let more = match all.len() - named.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                writeln!(out, "  {what} that were not rendered: {}{more}", named.join(", "))?;
            }
        }
        if self.others > 0 {
            writeln!(out, "  not judged: {} more, which `jobgate lint` names", self.others)?;
        }
        for error in &self.unreadable {
            writeln!(out, "  {}", clean(error))?;
        }
        writeln!(out, "the policy `{DEFAULT}` reports: {}", self.found)
    }
}

/// Lists names with their counts, the largest first.
fn listed(all: &BTreeMap<String, usize>) -> String {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut words: Vec<String> =
        all.iter().take(NAMED).map(|(name, count)| format!("{} ({count})", clean(name))).collect();
    let more: usize = all.iter().skip(NAMED).map(|(_, count)| **count).sum();
    if more > 0 {
        words.push(format!("others ({more})"));
    }
    words.join(", ")
}

/// Writes what to do next.
fn next(
    inventory: &RepositoryInventory,
    policy: &str,
    directory: &Path,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let here = directory == Path::new(".");
    let inside = if here { String::new() } else { format!(", in {}", clean(&path_text(directory))) };
    writeln!(out, "next{inside}:")?;
    let mut line = |command: &str, what: &str| writeln!(out, "  {command:<55} {what}");
    line("jobgate lint", "show what was found")?;
    if inventory.fixable > 0 {
        line(
            "jobgate lint --diff",
            &format!("show what --fix would change ({})", plural(inventory.fixable, "finding")),
        )?;
    }
    if policy == GENTLE {
        line("jobgate lint --policy default", "show what would be denied")?;
        line(
            "jobgate lint --policy default --write-baseline FILE",
            "baseline it, so that only new findings fail",
        )?;
    }
    if let Some(chart) = inventory.charts.first() {
        line(&format!("helm template {} | jobgate lint -", clean(chart)), "lint a chart by hand")?;
    }
    line("git add jobgate.yaml", "then run `jobgate lint` in CI")
}

/// Returns the part of a configuration that is about charts and kustomizations.
fn rendering(inventory: &RepositoryInventory) -> String {
    let any =
        inventory.rendered != (0, 0) || !inventory.charts.is_empty() || !inventory.kustomizations.is_empty();
    let mark = if any { "" } else { "# " };
    format!(
        "
# Charts and kustomizations are rendered with `helm`, `kustomize` or `kubectl`, where these are installed.
{mark}render:
{mark}  charts: true
{mark}  kustomizations: true
# Values files by chart; each item is a rendering of its own.
#   values:
#   - {{charts: [/charts/train], files: [charts/train/production.yaml]}}
#   timeout: 30s
"
    )
}

/// Returns the text of a configuration.
fn configuration(inventory: &RepositoryInventory, policy: &str) -> String {
    let jobs = match inventory.jobs() {
        0 => "No batch jobs were found.".to_owned(),
        _ => format!("Batch jobs were found in: {}.", inventory.places()),
    };
    let why = if policy == GENTLE {
        "# It reports and denies nothing. When what is left is fixed or in a baseline, change it to `default`."
    } else {
        "# Also: audit (only warns), accelerators, strict, or the path of your own policy."
    };
    format!(
        "\
# yaml-language-server: $schema=https://raw.githubusercontent.com/jobgate/jobgate/main/policies/configuration.schema.json
# Defaults for `jobgate lint`, `jobgate dry-run` and `jobgate audit`; options on the command line win. Paths are
# relative to this file. All keys: docs/configuration.md of Jobgate.
apiVersion: jobgate.dev/v1alpha1
kind: Configuration

{why}
policy: {policy}

# {jobs}
paths: [.]

# Skip files and directories, in the syntax of .gitignore.
# exclude: [vendor/, '*.generated.yaml']

# The lowest level that makes the exit code 1: deny, warn or note.
failOn: deny

# Existing findings, of `jobgate lint --write-baseline .jobgate-baseline.json`.
# baseline: .jobgate-baseline.json

# Manifests of existing claims, of `kubectl get pvc -A -o yaml`.
# facts: [pvc.yaml]

# The namespace of manifests without one, as in `kubectl -n`.
# namespace: training

# Another policy or namespace for some paths; the last match wins.
# overrides:
# - paths: [/experiments]
#   policy: audit
#   namespace: research

# Rules and checks that are used, or not; `jobgate explain` lists them.
# select: [deadline, 'gpu-*']
# ignore: [ttl-after-finished]
{}",
        rendering(inventory)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::FailOn;
    use crate::cli::configuration::Configuration;

    #[test]
    fn what_is_written_is_a_configuration_also_with_its_comments_in_force() {
        let inventory = RepositoryInventory {
            places: BTreeMap::from([("k8s\n: {".to_owned(), 2)]),
            ..RepositoryInventory::default()
        };
        for policy in [DEFAULT, GENTLE] {
            let text = configuration(&inventory, policy);
            let read = Configuration::parse(&text, FILE).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.policy.as_ref().map(|at| &*at.value), Some(policy));
            assert_eq!((read.paths().unwrap(), read.fail_on), (vec![".".into()], Some(FailOn::Deny)));
            let keys = [
                "exclude:",
                "baseline:",
                "facts:",
                "namespace:",
                "overrides:",
                "- paths:",
                "  policy:",
                "  namespace:",
                "select:",
                "ignore:",
                "render:",
                "  charts:",
                "  kustomizations:",
                "  values:",
                "  - {charts:",
                "  timeout:",
            ];
            let all: String = text
                .lines()
                .map(|line| match line.strip_prefix("# ") {
                    Some(rest) if keys.iter().any(|key| rest.starts_with(key)) => format!("{rest}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            let read = Configuration::parse(&all, FILE).unwrap_or_else(|error| panic!("{error}"));
            assert!(read.render.is_some_and(|render| render.timeout.is_some()), "{all}");
            assert_eq!((read.overrides.len(), read.select.len(), read.ignore.len()), (1, 2, 1), "{all}");
        }
    }

    #[test]
    fn the_most_frequent_come_first() {
        let all: BTreeMap<String, usize> = ["a", "b", "c", "d", "e", "f", "g"]
            .iter()
            .enumerate()
            .map(|(count, name)| ((*name).to_owned(), count + 1))
            .collect();
        assert_eq!(listed(&all), "g (7), f (6), e (5), d (4), c (3), others (3)");
    }
}
