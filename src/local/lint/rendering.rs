//! Charts and kustomizations of a run: rendered, judged by the same code as files, and reported at the places
//! in the files that they come from.
//!
//! What is rendered from a file takes the place of what the file says by itself: a base lacks what an overlay
//! adds. A finding that both have is the file's, which knows its place exactly and how to fix it.

mod explain;
mod harmless;
mod outline;
mod place;
mod plan;
mod told;
mod without;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use super::input::{Exclusions, Input};
use super::kustomization::{Absent, Kustomizations, Taking};
use super::paths::{normal, seen, shown};
use super::patterns::Patterns;
use super::run::{File, Run};
use super::source::Loaded;
use super::whole_file;
use crate::judge::checks::{DUPLICATE_KEY, SYNTAX, UNRENDERED_TEMPLATE};
use crate::judge::finding::Level;
use crate::judge::rule::RuleId;
use crate::local::files::Tree;
use crate::local::lint::claims::Claims;
use crate::local::render::{Origin, Renderer, TIMEOUT, Tools, of_chart};
use crate::report::{
    Kustomized, Located, NotRendered, Reason, Render, Rendered, Report, Unjudged, helm_again,
};
use crate::text::yaml::{self, Chunk};
use explain::Missing;
use harmless::harmless;
use plan::Of;
use told::Telling;

/// How charts and kustomizations are rendered.
#[derive(Clone, Debug)]
pub struct Rendering {
    /// Whether charts are.
    pub charts: bool,
    /// Whether kustomizations are.
    pub kustomizations: bool,
    /// Files of values, for some charts. Each is a rendering of its own; charts without any are rendered once.
    pub values: Vec<Values>,
    /// How long one rendering may take.
    pub timeout: Duration,
    /// How long all of them may take together.
    pub timeout_of_all: Duration,
    /// Whether what is not here is fetched.
    pub network: bool,
    /// Whether the run fails without a tool that something needs: it was asked for by name.
    pub required: bool,
    /// The directories whose rendering may fail.
    pub allowed: Option<Patterns>,
    /// Where the files of values must be, if nobody has named them.
    pub within: Option<Tree>,
    /// The programs.
    pub tools: Tools,
    /// The files that are skipped, also where something is rendered from them.
    pub exclusions: Exclusions,
}

/// Files of values for some charts.
#[derive(Clone, Debug)]
pub struct Values {
    /// The directories of the charts.
    pub charts: Patterns,
    /// The files, as Helm takes them: later ones win.
    pub files: Vec<PathBuf>,
}

impl Default for Rendering {
    fn default() -> Self {
        Self {
            charts: true,
            kustomizations: true,
            values: Vec::new(),
            timeout: TIMEOUT,
            timeout_of_all: TIMEOUT * TIMEOUTS,
            network: false,
            required: false,
            allowed: None,
            within: None,
            tools: Tools::default(),
            exclusions: Exclusions::default(),
        }
    }
}

/// How many time limits all renderings of a run take together, at most.
pub const TIMEOUTS: u32 = 20;
/// How often the parts are tried of kustomizations that cannot be rendered.
const MOST_ROUNDS: usize = 8;

/// What a finding of a file and one of its rendering have in common: the file, the document, the rule, the
/// level, which depends on the path, and the field.
pub(super) type Key = (Arc<str>, usize, RuleId, Level, String);

/// What was rendered, and judged.
#[derive(Default)]
pub(super) struct Outcome {
    /// What is reported for it.
    pub(super) report: Report,
    /// What became of the files from which something was rendered.
    covered: BTreeMap<PathBuf, Cover>,
    /// The findings of these files that their renderings have, too.
    kept: BTreeSet<Key>,
    /// The directories of the rendered charts, and those of charts that only serve others.
    charts: BTreeSet<PathBuf>,
    /// The latter alone.
    libraries: BTreeSet<PathBuf>,
    /// The kustomizations that were rendered, or taken in by one that was.
    pub(super) kustomizations: BTreeSet<PathBuf>,
    /// The files of those that hold something to judge.
    spoken: BTreeSet<PathBuf>,
    /// What could not be rendered, by the path of its file.
    failed: BTreeMap<PathBuf, NotRendered>,
    /// The charts that were rendered without dependencies, with the names of these.
    without: BTreeMap<PathBuf, Vec<String>>,
    /// What is not rendered because its tool is not there.
    missing: Missing,
}

/// What a file is to what is rendered from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// A template: its text by itself says nothing.
    Template,
    /// A manifest or a patch.
    Manifest,
}

/// A rendering that was judged.
struct Judged {
    of: Of,
    input: Input,
    text: Loaded,
    chunks: Vec<Option<Chunk>>,
    /// The file of each document.
    origins: Vec<Option<PathBuf>>,
    /// Whether the tool says that of any.
    says: bool,
    /// The chart that a document comes from, where it is packed.
    packed: BTreeMap<usize, String>,
    /// The dependencies that the chart was rendered without.
    without: Vec<String>,
    file: File,
}

impl Outcome {
    /// Renders what the run has, and judges it. `files` are the results of the files by themselves.
    pub(super) fn of(
        rendering: &Rendering,
        run: &Run<'_>,
        inputs: &[Input],
        files: &[Option<&Report>],
        kustomizations: &Kustomizations,
        taking: &Taking<'_>,
    ) -> Self {
        let missing = Missing::of(rendering);
        let mut outcome = Self { missing, ..Self::default() };
        let renderer = Renderer::new(
            &rendering.tools,
            [rendering.timeout, rendering.timeout_of_all],
            run.options.max_file_size,
            rendering.network,
        );
        let trees = Tree::of(inputs.iter().filter_map(|input| Some(Path::new(&**input.root.as_ref()?))));
        let mut done = Vec::new();
        let mut render = |jobs: Vec<Of>, outcome: &mut Self| {
            let results: Vec<Result<Judged, NotRendered>> = jobs
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
                        if let Of::Kustomization(tree) = job {
                            let inner = tree.files.iter();
                            let inner = inner.filter(|file| super::kustomization::is_kustomization(file));
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
        // The parts of what cannot be rendered may be.
        for _ in 0..MOST_ROUNDS {
            let failed: BTreeSet<PathBuf> = outcome.failed.keys().cloned().collect();
            let known = (&failed, &outcome.kustomizations);
            let trees = plan::kustomizations(rendering, run, kustomizations, taking, known);
            if trees.is_empty() {
                break;
            }
            render(trees, &mut outcome);
        }
        if done.is_empty() {
            return outcome;
        }
        // Of a chart, all or nothing: what one set of values does not render is not judged.
        done.retain(|judged| !outcome.failed.contains_key(&normal(judged.of.file())));
        let mut charts: BTreeSet<&Path> = BTreeSet::new();
        for judged in &done {
            let report = &judged.file.report;
            if report.objects > 0 || !report.findings.is_empty() || !report.unjudged.is_empty() {
                outcome.spoken.insert(normal(judged.of.file()));
            }
            match &judged.of {
                Of::Chart { dir, .. } => {
                    charts.insert(dir);
                    if !judged.without.is_empty() {
                        outcome.without.insert(normal(judged.of.file()), judged.without.clone());
                    }
                    outcome.charts.insert(normal(dir));
                    let templates = judged.origins.iter().flatten().cloned();
                    outcome.covered.extend(templates.map(|file| (file, Cover::Template)));
                }
                Of::Kustomization(tree) => {
                    outcome.report.kustomizations += 1;
                    for file in &tree.files {
                        outcome.covered.entry(seen(file)).or_insert(Cover::Manifest);
                    }
                }
            }
        }
        outcome.report.charts = charts.len();
        let names: BTreeMap<PathBuf, Arc<str>> = inputs
            .iter()
            .filter_map(|input| Some((seen(input.content.file()?), Arc::clone(&input.path))))
            .collect();
        let plain = outcome.keys(inputs, files);
        let mut telling = Telling::new(rendering, run.options, &names, &plain);
        for judged in done {
            telling.take(judged);
        }
        let (report, kept) = telling.end();
        let (charts, kustomizations) = (outcome.report.charts, outcome.report.kustomizations);
        outcome.report = Report { charts, kustomizations, ..report };
        outcome.kept = kept;
        outcome
    }

    /// Returns the keys of what files say by themselves from which something was rendered.
    fn keys(&self, inputs: &[Input], files: &[Option<&Report>]) -> BTreeSet<Key> {
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

    /// Tells whether something was judged that is rendered from a chart or kustomization because of this file.
    pub(super) fn is_of(&self, input: &Input) -> bool {
        let Some(path) = input.content.file() else { return false };
        self.spoken.contains(&normal(path))
    }

    /// Takes out of what a file says by itself what its renderings say better.
    pub(super) fn reduce(&self, input: &Input, file: &mut File) {
        let Some(cover) = self.cover(input) else { return self.silent(input, file) };
        let report = &mut file.report;
        let is_of_text = |rule: &str| rule == DUPLICATE_KEY || rule == SYNTAX;
        report.findings.retain(|located| {
            let stays = cover == Cover::Manifest && is_of_text(&located.finding.rule);
            stays || self.kept.contains(&key(located))
        });
        report.unjudged.retain(|unjudged| cover == Cover::Manifest && unjudged.object.is_none());
        report.unjudged.retain(|unjudged| !matches!(unjudged.reason, Reason::Patch(_)));
        report.answers.clear();
        (report.objects, report.suppressed, report.holdings) = (0, 0, crate::report::Holdings::default());
        (report.ignored, report.lowered) = (0, 0);
        file.diff = None;
        forget_sources(report);
    }

    /// Says of the templates of a rendered chart from which nothing came that they are not judged.
    fn silent(&self, input: &Input, file: &mut File) {
        let report = &mut file.report;
        let is_done = |unjudged: &Unjudged| match &unjudged.reason {
            Reason::Chart(dir) => normal(Path::new(&**dir)).ancestors().any(|dir| self.charts.contains(dir)),
            _ => false,
        };
        if self.charts.is_empty() || !report.unjudged.iter().any(is_done) {
            return;
        }
        let path = Path::new(&*input.path);
        // Helm renders none of these by itself: others include them.
        let is_part = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('_'));
        report.unjudged.retain_mut(|unjudged| {
            let Reason::Chart(dir) = &unjudged.reason else { return true };
            if is_part || self.libraries.contains(&normal(Path::new(&**dir))) {
                return false;
            }
            *unjudged = whole_file(Arc::clone(&input.path), Reason::NoOutput(Arc::clone(dir)));
            true
        });
        report.findings.retain(|located| located.finding.rule != UNRENDERED_TEMPLATE);
        forget_sources(report);
    }

    /// Tells whether a chart was rendered, or is part of one that was.
    pub(super) fn has_chart(&self, dir: &str) -> bool {
        !self.charts.is_empty() && normal(Path::new(dir)).ancestors().any(|dir| self.charts.contains(dir))
    }

    /// Puts what was rendered into a report, in the order of its files.
    pub(super) fn join(&mut self, inputs: &[Input], report: &mut Report) {
        if self.report.charts + self.report.kustomizations == 0 {
            return;
        }
        report.append(std::mem::take(&mut self.report));
        let nth: BTreeMap<&str, usize> =
            inputs.iter().enumerate().map(|(nth, input)| (&*input.path, nth)).collect();
        let of = |file: &Arc<str>| (nth.get(&**file).copied().unwrap_or(usize::MAX), Arc::clone(file));
        report.findings.sort_by(|a, b| {
            of(&a.location.file).cmp(&of(&b.location.file)).then_with(|| super::place::order(a, b))
        });
        report.answers.sort_by_cached_key(|answered| of(&answered.location.file));
    }
}

fn forget_sources(report: &mut Report) {
    if report.findings.is_empty() {
        report.sources.clear();
    }
}

fn key(located: &Located) -> Key {
    (
        Arc::clone(&located.location.file),
        located.document,
        located.finding.rule.clone(),
        located.finding.level,
        located.finding.path.to_string(),
    )
}

/// Renders and judges.
fn judged(job: &Of, renderer: &Renderer<'_>, run: &Run<'_>) -> Result<Judged, NotRendered> {
    let path = job.file();
    let input = Input { path: shown(path).into(), named: false, ..Input::named(path) };
    let dir: Arc<str> = shown(path.parent().unwrap_or(Path::new(""))).into();
    let mut lacking = Vec::new();
    let (text, origins) = match job {
        Of::Chart { dir: of, values, .. } => {
            let failed = |why: String, help: String| NotRendered {
                thing: Rendered::Chart,
                dir: Arc::clone(&dir),
                why: why.into(),
                help: help.into(),
                failed: true,
            };
            let namespace = run.options.namespace_of(&input);
            let text = match plan::missing_dependencies(of, run.options) {
                None => renderer
                    .chart(of, values, namespace)
                    .map_err(|why| failed(why.to_string(), helm_again(&dir)))?,
                Some(missing) => {
                    let lacks = |why: String| {
                        let missing = missing.join(", ");
                        let why = format!("dependencies are missing ({missing}), and without them {why}");
                        failed(why, crate::report::helm_dependencies(&dir))
                    };
                    let copy = without::copy(of, &missing, run.options)
                        .map_err(|error| lacks(format!("it cannot be copied: {error}")))?;
                    let text = renderer.chart(&copy.path().join(without::CHART_COPY), values, namespace);
                    let text = text.map_err(|why| lacks(why.to_string()))?;
                    lacking = missing;
                    text
                }
            };
            (text, Vec::new())
        }
        Of::Kustomization(tree) => {
            let render = if tree.with_helm { Render::WithHelm } else { Render::Build };
            let kustomized = Kustomized { path: Arc::clone(&input.path), render };
            let failed = |why: String| NotRendered {
                thing: Rendered::Kustomization,
                dir: Arc::clone(&dir),
                why: why.into(),
                help: kustomized.again().into(),
                failed: true,
            };
            match &tree.absent {
                Some(Absent::Path(path)) => return Err(failed(format!("`{path}` does not exist"))),
                Some(Absent::Remote(address)) if !renderer.uses_network() => {
                    // Nobody has asked for it.
                    let not = failed(format!("`{address}` is not here, and nothing is fetched"));
                    let help = kustomized.help().into();
                    return Err(NotRendered { failed: false, help, ..not });
                }
                _ => {}
            }
            let of = path.parent().unwrap_or(Path::new(""));
            let built = renderer.kustomization(of, tree.with_helm).map_err(|why| failed(why.to_string()))?;
            (built.text, built.origins)
        }
    };
    let text = Loaded::new(text);
    let limits = run.options.limits();
    let chunks: Vec<Option<Chunk>> = yaml::split(text.bytes(), &limits).map(Result::ok).collect();
    let (origins, packed) = match job {
        Of::Chart { dir, .. } => templates(dir, text.bytes(), &chunks),
        Of::Kustomization(tree) => (files_of(tree, origins, chunks.len()), BTreeMap::new()),
    };
    let own = Claims::in_inputs(std::slice::from_ref(&input), Some(&text), run.options);
    let options = super::Options { fix: None, keep_sources: false, ..*run.options };
    let (file, _) = run.documents(&input, &text, &options, Some(&own));
    let says = origins.iter().any(Option::is_some);
    Ok(Judged { of: job.clone(), input, text, chunks, origins, says, packed, without: lacking, file })
}

/// Returns the template of each document, and the dependency of those whose template is packed.
fn templates(
    dir: &Path,
    text: &[u8],
    chunks: &[Option<Chunk>],
) -> (Vec<Option<PathBuf>>, BTreeMap<usize, String>) {
    let mut known = BTreeMap::new();
    let (mut files, mut packed): (Vec<Option<PathBuf>>, _) = (Vec::new(), BTreeMap::new());
    for (nth, chunk) in chunks.iter().enumerate() {
        let comment = chunk.as_ref().and_then(|chunk| super::document::helm_source(text, chunk.span.clone()));
        // Helm notes it once for what one document of a template renders to.
        let file = match &comment {
            Some(comment) => of_chart(comment, dir, &mut known).map(|file| seen(&file)),
            None => files.last().cloned().flatten(),
        };
        if let (None, Some(comment)) = (&file, &comment) {
            let mut parts = comment.split('/').skip(1);
            if let (Some("charts"), Some(name)) = (parts.next(), parts.next()) {
                packed.insert(nth, name.to_owned());
            }
        }
        files.push(file);
    }
    (files, packed)
}

/// Returns the file of each document, of those that a kustomization takes in.
fn files_of(
    tree: &super::kustomization::Tree,
    origins: Vec<Option<Origin>>,
    documents: usize,
) -> Vec<Option<PathBuf>> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let known: BTreeMap<PathBuf, &PathBuf> =
        tree.files.iter().filter_map(|file| Some((real(file)?, file))).collect();
    let mut asked: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
    let file = |origin: Option<Origin>| {
        let Some(Origin::File(path)) = origin else { return None };
        let find = || real(&path).and_then(|path| known.get(&path).map(|path| seen(path)));
        asked.entry(path.clone()).or_insert_with(find).clone()
    };
    let mut files: Vec<Option<PathBuf>> = origins.into_iter().map(file).collect();
    files.resize(documents, None);
    files
}
