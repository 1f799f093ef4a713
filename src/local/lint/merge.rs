//! Judges files together, with one report about all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::discover::Unreadable;
use super::fixing::Unwritten;
use super::kustomization::Kustomizations;
use super::options::Options;
use super::rendering::RenderingOutcome;
use super::run::{FileResult, LintRun};
use super::{chart, claims, resolved_elsewhere, source, unjudged};
use crate::judge::policy::Policy;
use crate::local::paths::normal;
use crate::report::{Reason, Report, Unjudged, unjudged_order};
use jobgate_lint::Input;
use jobgate_lint::claims::Claims;
use jobgate_lint::merge::{Moved, RunArguments, has_kind, move_related, once_a_chart};

/// The results of a run.
#[derive(Debug, Default)]
pub struct Linted {
    /// Findings, and what was not judged.
    pub report: Report,
    /// In a dry run, Jobgate's fills as one unified diff per file.
    pub(crate) diffs: Vec<String>,
    /// Files that could not be read. The report has them as not judged.
    pub unreadable: Vec<Unreadable>,
    /// Files that could not be fixed. The report is about their unchanged text.
    pub unwritten: Vec<Unwritten>,
}

/// Lints files.
///
/// `facts` take precedence over claims in the inputs. The report follows the order of the inputs.
#[must_use]
pub fn lint(inputs: &[Input], policy: &Policy, facts: &Claims, options: &Options<'_>) -> Linted {
    // Any file may have a claim, so claims are read first. A single file is read once.
    let alone = match inputs {
        [input] => source::load(input, options.max_file_size).ok().and_then(Result::ok),
        _ => None,
    };
    let claims = claims::in_inputs(inputs, alone.as_ref(), options);
    let kustomizations = Kustomizations::new(inputs, options);
    report(
        inputs,
        &LintRun { policy, facts, claims: &claims, kustomizations: &kustomizations, alone, options },
    )
}

/// Judges files, and reports on them together.
pub(super) fn report(inputs: &[Input], run: &LintRun<'_>) -> Linted {
    let LintRun { kustomizations, options, .. } = run;
    let mut files: Vec<Result<FileResult, Unreadable>> =
        inputs.par_iter().with_max_len(1).map(|input| run.file(input)).collect();
    if options.fix.is_some() {
        resolved_elsewhere::drop_fixed(inputs, &mut files, run);
    }
    let with_batch = with_batch(inputs, &files);
    let with_work = kustomizations.with_batch_work(&with_batch, options);
    let by_themselves: Vec<Option<&Report>> =
        files.iter().map(|file| file.as_ref().ok().map(|file| &file.report)).collect();
    // After the files were fixed, so that renderings are of the fixed files.
    let mut rendered = options.render.map_or_else(RenderingOutcome::default, |rendering| {
        RenderingOutcome::new(rendering, run, inputs, &by_themselves, kustomizations, &with_work)
    });
    let mut merged = Merged::default();
    for (input, file) in inputs.iter().zip(files) {
        match file {
            Ok(mut file) => {
                // For a patch without a kind, the patched object decides.
                file.report.unjudged.retain(|unjudged| match &unjudged.reason {
                    Reason::Patch(by) => has_kind(unjudged) || kustomizations.patches_batch(by, &with_work),
                    _ => true,
                });
                merged.arguments.add(input, &file.report);
                if options.render.is_some() {
                    if rendered.is_of(input) {
                        merged.arguments.mark_reported(input);
                    }
                    rendered.drop_superseded(input, &mut file);
                }
                merged.add(file);
            }
            Err(error) => merged.add_unreadable(input, error),
        }
    }
    let Merged { mut linted, moved, mut arguments } = merged;
    let report = &mut linted.report;
    move_related(report, &moved);
    let charts = once_a_chart(report);
    let has_more = |dir: &Arc<str>| !charts.contains(dir) && !rendered.has_chart(dir);
    let parts = chart::with_more(inputs, options).into_iter().filter(|(_, dir)| has_more(dir));
    let parts = parts.map(|(path, dir)| unjudged::chart_parts(path, dir));
    let unrendered = kustomizations
        .unrendered(&with_work)
        .into_iter()
        .filter(|kustomized| !rendered.kustomizations.contains(&normal(Path::new(&*kustomized.path))));
    let trees: Vec<Unjudged> = parts.chain(unrendered.map(unjudged::kustomization)).collect();
    arguments.mark_reported_files(inputs, &trees);
    report.unjudged.extend(trees);
    if options.render.is_some() {
        rendered.explain(report);
        rendered.join(inputs, report);
    }
    report
        .unjudged
        .extend(arguments.unreported(report.objects + report.unjudged.len() + report.findings.len()));
    report.unjudged.sort_by(unjudged_order);
    if options.keep_sources {
        add_sources_of_related(report, run);
    }
    linted
}

/// The files of a run, added one after the other.
#[derive(Default)]
struct Merged {
    linted: Linted,
    /// The places of claims that fixes have moved.
    moved: Moved,
    arguments: RunArguments,
}

impl Merged {
    fn add(&mut self, file: FileResult) {
        let Linted { report, diffs, unwritten, .. } = &mut self.linted;
        report.append(file.report);
        diffs.extend(file.diff);
        report.unjudged.extend(file.unwritten.as_ref().map(Unwritten::unjudged));
        unwritten.extend(file.unwritten);
        self.moved.extend(file.moved);
    }

    fn add_unreadable(&mut self, input: &Input, error: Unreadable) {
        self.arguments.mark_reported(input);
        self.linted.report.unjudged.push(error.unjudged());
        self.linted.unreadable.push(error);
    }
}

/// Returns the files, each with whether it has batch work.
fn with_batch(inputs: &[Input], files: &[Result<FileResult, Unreadable>]) -> BTreeMap<PathBuf, bool> {
    let has_batch = |file: &FileResult| file.report.objects > 0 || !file.report.unjudged.is_empty();
    let files = inputs.iter().zip(files);
    files
        .filter_map(|(input, file)| Some((normal(input.content.file()?), file.as_ref().is_ok_and(has_batch))))
        .collect()
}

/// Adds the texts of files that have only related places of findings.
fn add_sources_of_related(report: &mut Report, run: &LintRun<'_>) {
    let here: BTreeSet<Arc<str>> = report.sources.keys().cloned().collect();
    let related = report.findings.iter().flat_map(|located| &located.related);
    let files = related.filter_map(|related| Some(Arc::clone(&related.location.as_ref()?.file)));
    let missing: BTreeSet<Arc<str>> = files.filter(|file| !here.contains(file)).collect();
    let texts = missing.into_iter().filter_map(|path| Some((Arc::clone(&path), run.claim_text(&path)?)));
    report.sources.extend(texts.collect::<Vec<_>>());
}
