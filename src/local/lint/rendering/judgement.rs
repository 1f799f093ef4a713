//! A chart or kustomization, rendered and judged like a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chart_copy;
use super::plan::{self, RenderJob};
use crate::local::lint::claims;
use crate::local::lint::kustomization::{self, Absent};
use crate::local::lint::options::Options;
use crate::local::lint::run::LintRun;
use crate::local::paths::{seen, shown};
use crate::local::render::{Origin, Renderer, of_chart};
use crate::report::{Kustomized, NotRendered, Render, Rendered, helm_again, helm_dependencies};
use crate::text::yaml::{self, Chunk};
use jobgate_lint::FileBytes;
use jobgate_lint::Input;
use jobgate_lint::attribute::RenderedManifest;
use jobgate_lint::judge::document::helm_source;

/// A rendering that was judged.
pub(super) struct JudgedRendering {
    pub(super) of: RenderJob,
    pub(super) manifest: RenderedManifest,
    /// The dependencies that the chart was rendered without.
    pub(super) without: Vec<String>,
}

/// Renders and judges.
pub(super) fn judged(
    job: &RenderJob,
    renderer: &Renderer<'_>,
    run: &LintRun<'_>,
) -> Result<JudgedRendering, NotRendered> {
    let path = job.file();
    let input = Input { path: shown(path).into(), named: false, ..Input::named(path) };
    let dir: Arc<str> = shown(path.parent().unwrap_or(Path::new(""))).into();
    let mut lacking = Vec::new();
    let (text, origins) = match job {
        RenderJob::Chart { dir: of, values, .. } => {
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
                        failed(why, helm_dependencies(&dir))
                    };
                    let copy = chart_copy::copy(of, &missing, run.options)
                        .map_err(|error| lacks(format!("it cannot be copied: {error}")))?;
                    let text = renderer.chart(&copy.path().join(chart_copy::CHART_COPY), values, namespace);
                    let text = text.map_err(|why| lacks(why.to_string()))?;
                    lacking = missing;
                    text
                }
            };
            (text, Vec::new())
        }
        RenderJob::Kustomization(tree) => {
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
                    // The user did not request the network.
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
    let text = FileBytes::new(text);
    let limits = run.options.limits();
    let chunks: Vec<Option<Chunk>> = yaml::split(text.bytes(), &limits).map(Result::ok).collect();
    let (origins, packed) = match job {
        RenderJob::Chart { dir, .. } => templates(dir, text.bytes(), &chunks),
        RenderJob::Kustomization(tree) => (files_of(tree, origins, chunks.len()), BTreeMap::new()),
    };
    let own = claims::in_inputs(std::slice::from_ref(&input), Some(&text), run.options);
    let options = Options { fix: None, keep_sources: false, ..*run.options };
    let (file, _) = run.documents(&input, &text, &options, Some(&own));
    let has_origins = origins.iter().any(Option::is_some);
    let patches = match job {
        RenderJob::Chart { .. } => Vec::new(),
        RenderJob::Kustomization(tree) if has_origins => tree.patches.iter().cloned().collect(),
        RenderJob::Kustomization(tree) => tree.files.iter().cloned().collect(),
    };
    let manifest = RenderedManifest {
        path: input.path,
        text,
        chunks,
        report: file.report,
        root: path.to_owned(),
        is_chart: matches!(job, RenderJob::Chart { .. }),
        origins,
        packed,
        patches,
    };
    Ok(JudgedRendering { of: job.clone(), manifest, without: lacking })
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
        let comment = chunk.as_ref().and_then(|chunk| helm_source(text, chunk.span.clone()));
        // Helm writes it once for everything that one document of a template renders to.
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

/// Returns the file of each document, among those that a kustomization includes.
fn files_of(
    tree: &kustomization::KustomizationTree,
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
