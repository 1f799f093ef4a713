//! Charts and kustomizations of a run: rendered, judged by the same code as files, and reported at the places
//! in the files that they come from.
//!
//! Findings of a rendering replace those of the file by itself: a base lacks what an overlay adds. A finding that both
//! have is reported for the file, which has its exact place and its fix.

mod chart_copy;
mod explain;
mod input_check;
mod judgement;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::kustomization::{self, Kustomizations, WithBatchWork};
use super::options::{MAX_FILE_SIZE, Rendering};
use super::run::{FileResult, LintRun};
use super::source;
use super::unjudged::no_output;
use crate::judge::checks::{DUPLICATE_KEY, SYNTAX, UNRENDERED_TEMPLATE};
use crate::local::files::Tree;
use crate::local::paths::{normal, seen, shown};
use crate::local::render::Renderer;
use crate::report::{Holdings, NotRendered, Reason, Report, Unjudged};
use explain::MissingTools;
use input_check::harmless;
use jobgate_lint::Input;
use jobgate_lint::attribute::{AttributionOptions, FindingKey, attribute, key};
use jobgate_lint::place::order;
use judgement::{JudgedRendering, judged};
use plan::RenderJob;

/// Maximum retries with the components of failed kustomizations.
const MOST_ROUNDS: usize = 8;

/// The results of rendering and judging.
#[derive(Default)]
pub(super) struct RenderingOutcome {
    /// The report about the renderings.
    pub(super) report: Report,
    /// The roles of the files from which something was rendered.
    covered: BTreeMap<PathBuf, Cover>,
    /// The findings of these files that their renderings have, too.
    kept: BTreeSet<FindingKey>,
    /// The directories of the rendered charts, and those of charts that only serve others.
    charts: BTreeSet<PathBuf>,
    /// The latter alone.
    libraries: BTreeSet<PathBuf>,
    /// The kustomizations that were rendered, or included by one that was.
    pub(super) kustomizations: BTreeSet<PathBuf>,
    /// The files of charts and kustomizations with something to judge.
    spoken: BTreeSet<PathBuf>,
    /// What could not be rendered, by the path of its file.
    failed: BTreeMap<PathBuf, NotRendered>,
    /// The charts that were rendered without dependencies, with the names of these.
    without: BTreeMap<PathBuf, Vec<String>>,
    /// The tools that are missing, without which something is not rendered.
    missing: MissingTools,
}

/// The role of a file in its renderings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// A template: its text by itself means nothing.
    Template,
    /// A manifest or a patch.
    Manifest,
}

impl RenderingOutcome {
    /// Renders the charts and kustomizations of a run, and judges them. `files` are the results of the files by
    /// themselves.
    pub(super) fn new(
        rendering: &Rendering,
        run: &LintRun<'_>,
        inputs: &[Input],
        files: &[Option<&Report>],
        kustomizations: &Kustomizations,
        with_work: &WithBatchWork<'_>,
    ) -> Self {
        let missing = MissingTools::new(rendering);
        let mut outcome = Self { missing, ..Self::default() };
        let renderer = Renderer::new(
            &rendering.tools,
            [rendering.timeout, rendering.timeout_of_all],
            run.options.max_file_size,
            rendering.network,
        );
        let trees = Tree::new(inputs.iter().filter_map(|input| Some(Path::new(&**input.root.as_ref()?))));
        let mut done = Vec::new();
        let mut render = |jobs: Vec<RenderJob>, outcome: &mut Self| {
            let results: Vec<Result<JudgedRendering, NotRendered>> = jobs
                .par_iter()
                .with_max_len(1)
                .map(|job| {
                    harmless(job, rendering, &trees)?;
                    judged(job, &renderer, run)
                })
                .collect();
            for (job, result) in jobs.iter().zip(results) {
                match result {
                    Ok(judged) => {
                        if let RenderJob::Kustomization(tree) = job {
                            let inner = tree.files.iter();
                            let inner = inner.filter(|file| kustomization::is_kustomization(file));
                            outcome.kustomizations.extend(inner.cloned());
                        }
                        done.push(judged);
                    }
                    Err(mut not) => {
                        let dir = job.file().parent().unwrap_or(Path::new(""));
                        let allowed = rendering.allowed.as_ref();
                        not.failed &= !allowed.is_some_and(|allowed| allowed.matches(dir, true));
                        outcome.failed.insert(normal(job.file()), not);
                    }
                }
            }
        };
        let (charts, libraries) = plan::charts(rendering, run, inputs, files);
        outcome.charts.extend(libraries.iter().cloned());
        outcome.libraries.extend(libraries);
        render(charts, &mut outcome);
        // If something cannot be rendered, its parts may be.
        for _ in 0..MOST_ROUNDS {
            let failed: BTreeSet<PathBuf> = outcome.failed.keys().cloned().collect();
            let known = (&failed, &outcome.kustomizations);
            let trees = plan::kustomizations(rendering, run, kustomizations, with_work, known);
            if trees.is_empty() {
                break;
            }
            render(trees, &mut outcome);
        }
        if done.is_empty() {
            return outcome;
        }
        // A chart is judged as a whole or not at all: if one set of values does not render, none is judged.
        done.retain(|judged| !outcome.failed.contains_key(&normal(judged.of.file())));
        outcome.cover_files(&done);
        let names: BTreeMap<PathBuf, Arc<str>> = inputs
            .iter()
            .filter_map(|input| Some((seen(input.content.file()?), Arc::clone(&input.path))))
            .collect();
        let plain = outcome.keys(inputs, files);
        let open = |path: &Path| {
            let text = source::load(&Input::named(path), MAX_FILE_SIZE).ok()?.ok()?;
            Some((names.get(path).cloned().unwrap_or_else(|| shown(path).into()), text))
        };
        let (report, kept) = attribute(
            done.into_iter().map(|judged| judged.manifest),
            &AttributionOptions {
                open: &open,
                limits: &run.options.limits(),
                plain: &plain,
                is_excluded: &|file| rendering.exclusions.has(Path::new(file), false),
                fix: run.options.fix.map(|fixing| fixing.most),
                keep_sources: run.options.keep_sources,
            },
        );
        let (charts, kustomizations) = (outcome.report.charts, outcome.report.kustomizations);
        outcome.report = Report { charts, kustomizations, ..report };
        outcome.kept = kept;
        outcome
    }

    /// Records the roles of the files from which something was rendered.
    fn cover_files(&mut self, done: &[JudgedRendering]) {
        let mut charts: BTreeSet<&Path> = BTreeSet::new();
        for judged in done {
            let report = &judged.manifest.report;
            if report.objects > 0 || !report.findings.is_empty() || !report.unjudged.is_empty() {
                self.spoken.insert(normal(judged.of.file()));
            }
            match &judged.of {
                RenderJob::Chart { dir, .. } => {
                    charts.insert(dir);
                    if !judged.without.is_empty() {
                        self.without.insert(normal(judged.of.file()), judged.without.clone());
                    }
                    self.charts.insert(normal(dir));
                    let templates = judged.manifest.origins.iter().flatten().cloned();
                    self.covered.extend(templates.map(|file| (file, Cover::Template)));
                }
                RenderJob::Kustomization(tree) => {
                    self.report.kustomizations += 1;
                    for file in &tree.files {
                        self.covered.entry(seen(file)).or_insert(Cover::Manifest);
                    }
                }
            }
        }
        self.report.charts = charts.len();
    }

    /// Returns the keys of the findings that files have by themselves, if something was rendered from them.
    fn keys(&self, inputs: &[Input], files: &[Option<&Report>]) -> BTreeSet<FindingKey> {
        let mut keys = BTreeSet::new();
        for (input, file) in inputs.iter().zip(files) {
            let Some(report) = file.filter(|_| self.cover(input).is_some()) else { continue };
            keys.extend(report.findings.iter().map(key));
        }
        keys
    }

    fn cover(&self, input: &Input) -> Option<Cover> {
        let path = input.content.file()?;
        if self.covered.is_empty() { None } else { self.covered.get(&seen(path)).copied() }
    }

    /// Tells whether the rendering of this chart or kustomization file had anything to judge.
    pub(super) fn is_of(&self, input: &Input) -> bool {
        let Some(path) = input.content.file() else { return false };
        self.spoken.contains(&normal(path))
    }

    /// Drops the findings of a file by itself that its renderings replace.
    pub(super) fn drop_superseded(&self, input: &Input, file: &mut FileResult) {
        let Some(cover) = self.cover(input) else { return self.report_empty_templates(input, file) };
        let report = &mut file.report;
        let is_of_text = |rule: &str| rule == DUPLICATE_KEY || rule == SYNTAX;
        report.findings.retain(|located| {
            let stays = cover == Cover::Manifest && is_of_text(&located.finding.rule);
            stays || self.kept.contains(&key(located))
        });
        report.unjudged.retain(|unjudged| cover == Cover::Manifest && unjudged.object.is_none());
        report.unjudged.retain(|unjudged| !matches!(unjudged.reason, Reason::Patch(_)));
        report.answers.clear();
        (report.objects, report.suppressed, report.holdings) = (0, 0, Holdings::default());
        (report.ignored, report.lowered) = (0, 0);
        file.diff = None;
        forget_sources(report);
    }

    /// Reports the templates of a rendered chart that rendered to nothing as not judged.
    fn report_empty_templates(&self, input: &Input, file: &mut FileResult) {
        let report = &mut file.report;
        let is_done = |unjudged: &Unjudged| match &unjudged.reason {
            Reason::Chart(dir) => normal(Path::new(&**dir)).ancestors().any(|dir| self.charts.contains(dir)),
            _ => false,
        };
        if self.charts.is_empty() || !report.unjudged.iter().any(is_done) {
            return;
        }
        let path = Path::new(&*input.path);
        // Helm does not render these by themselves: others include them.
        let is_part = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('_'));
        report.unjudged.retain_mut(|unjudged| {
            let Reason::Chart(dir) = &unjudged.reason else { return true };
            if is_part || self.libraries.contains(&normal(Path::new(&**dir))) {
                return false;
            }
            *unjudged = no_output(&input.path, dir);
            true
        });
        report.findings.retain(|located| located.finding.rule != UNRENDERED_TEMPLATE);
        forget_sources(report);
    }

    /// Tells whether a chart was rendered, or is part of one that was.
    pub(super) fn has_chart(&self, dir: &str) -> bool {
        !self.charts.is_empty() && normal(Path::new(dir)).ancestors().any(|dir| self.charts.contains(dir))
    }

    /// Merges the renderings into a report, in the order of its files.
    pub(super) fn join(&mut self, inputs: &[Input], report: &mut Report) {
        if self.report.charts + self.report.kustomizations == 0 {
            return;
        }
        report.append(std::mem::take(&mut self.report));
        let nth: BTreeMap<&str, usize> =
            inputs.iter().enumerate().map(|(nth, input)| (&*input.path, nth)).collect();
        let of = |file: &Arc<str>| (nth.get(&**file).copied().unwrap_or(usize::MAX), Arc::clone(file));
        report
            .findings
            .sort_by(|a, b| of(&a.location.file).cmp(&of(&b.location.file)).then_with(|| order(a, b)));
        report.answers.sort_by_cached_key(|answered| of(&answered.location.file));
    }
}

fn forget_sources(report: &mut Report) {
    if report.findings.is_empty() {
        report.sources.clear();
    }
}
