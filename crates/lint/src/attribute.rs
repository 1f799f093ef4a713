//! Attributes findings of rendered manifests to places in their source files.

mod outline;
mod source_files;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use source_files::OpenSource;
use source_files::{Home, SourceFiles};

use crate::FileBytes;
use jobgate_core::judge::finding::{Level, Part, Place, Safety};
use jobgate_core::judge::rule::RuleId;
use jobgate_core::text::lines::{Lines, Position};
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;
use jobgate_core::text::yaml::{self, Chunk, Limits};
use jobgate_report::{Located, Location, ObjectId, Reason, Report, Unjudged};

/// The key that a finding of a file shares with the same finding of its rendering: the file, the document, the rule,
/// the level (which depends on the path) and the field.
pub type FindingKey = (Arc<str>, usize, RuleId, Level, String);

/// Returns the key of a finding at its place.
#[must_use]
pub fn key(located: &Located) -> FindingKey {
    (
        Arc::clone(&located.location.file),
        located.document,
        located.finding.rule.clone(),
        located.finding.level,
        located.finding.path.to_string(),
    )
}

/// A manifest that was rendered from files and judged as a text.
#[derive(Debug)]
pub struct RenderedManifest {
    /// The file name in locations within the rendered text.
    pub path: Arc<str>,
    /// The rendered text.
    pub text: FileBytes,
    /// Its documents, as far as they are readable.
    pub chunks: Vec<Option<Chunk>>,
    /// The findings, with locations in the rendered text.
    pub report: Report,
    /// The file that makes the directory a chart or a kustomization.
    pub root: PathBuf,
    /// Whether it is a chart's: its templates are not read as YAML, so the nearest line counts.
    pub is_chart: bool,
    /// The file that each document comes from.
    pub origins: Vec<Option<PathBuf>>,
    /// The chart that a document comes from, where it is packed.
    pub packed: BTreeMap<usize, String>,
    /// The patches; all files if the renderer does not report where documents come from.
    pub patches: Vec<PathBuf>,
}

impl RenderedManifest {
    /// Tells whether the renderer reported source files.
    fn has_origins(&self) -> bool {
        self.origins.iter().any(Option::is_some)
    }
}

/// How findings of rendered manifests are attributed.
pub struct AttributionOptions<'a> {
    /// Opens the files that something is rendered from.
    pub open: &'a OpenSource<'a>,
    /// The bounds of a rendered document.
    pub limits: &'a Limits,
    /// Findings of the files as they are, which are not repeated.
    pub plain: &'a BTreeSet<FindingKey>,
    /// Tells whether a file is excluded from the report, by its path as reports show it.
    pub is_excluded: &'a dyn Fn(&str) -> bool,
    /// The least safe kind of fix to apply; `None` to apply none. Rendered manifests are never fixed.
    pub fix: Option<Safety>,
    /// Whether the report keeps the text of files with findings.
    pub keep_sources: bool,
}

/// Maps findings of rendered manifests to the files that they come from, and reports each once. Returns the report, and
/// the findings of `plain` that the rendered manifests have, too.
#[must_use]
pub fn attribute(
    manifests: impl IntoIterator<Item = RenderedManifest>,
    options: &AttributionOptions<'_>,
) -> (Report, BTreeSet<FindingKey>) {
    let mut attribution = Attribution::new(options);
    for manifest in manifests {
        attribution.take(manifest);
    }
    attribution.end()
}

/// The findings attributed so far.
struct Attribution<'a> {
    options: &'a AttributionOptions<'a>,
    files: SourceFiles<'a>,
    report: Report,
    kept: BTreeSet<FindingKey>,
    /// The documents of the rendering that others refer to.
    others: BTreeMap<usize, RenderedDocument>,
    findings: BTreeSet<(Arc<str>, usize, FindingKey, String)>,
    unjudged: BTreeSet<(Arc<str>, usize, Reason)>,
}

/// A rendered document and its source.
struct RenderedDocument {
    /// Its number; `usize::MAX` before the first lookup.
    nth: usize,
    value: Value,
    /// The file, where it is known.
    file: Option<PathBuf>,
    /// The documents that it comes from: in that file, and in patches of the object.
    homes: Vec<Home>,
}

impl Default for RenderedDocument {
    fn default() -> Self {
        Self { nth: usize::MAX, value: Value::Null, file: None, homes: Vec::new() }
    }
}

/// The documents of patches, by the kind and name of what they patch.
type Patches = BTreeMap<(String, String), Vec<Home>>;

impl<'a> Attribution<'a> {
    fn new(options: &'a AttributionOptions<'a>) -> Self {
        Self {
            options,
            files: SourceFiles::new(options.open),
            report: Report::default(),
            kept: BTreeSet::new(),
            others: BTreeMap::new(),
            findings: BTreeSet::new(),
            unjudged: BTreeSet::new(),
        }
    }

    /// Adds a rendered manifest.
    fn take(&mut self, mut judged: RenderedManifest) {
        let report = std::mem::take(&mut judged.report);
        self.files.read(&judged.root);
        let patches = self.patches(&judged);
        self.report.objects += report.objects;
        self.report.suppressed += report.suppressed;
        self.report.ignored += report.ignored;
        self.report.lowered += report.lowered;
        self.report.holdings.append(report.holdings);
        self.others.clear();
        let mut source = RenderedDocument::default();
        for located in report.findings {
            self.look_up(&mut source, located.document, &judged, &patches);
            self.finding(located, &source, &judged, &patches);
        }
        for unjudged in report.unjudged {
            let Some(document) = unjudged.document else { continue };
            self.look_up(&mut source, document, &judged, &patches);
            self.not_judged(unjudged, &source, &judged);
        }
        for mut answered in report.answers {
            self.look_up(&mut source, answered.document, &judged, &patches);
            let place = self.place(&source, &Pointer::root(), Part::Key, &judged);
            (answered.location, answered.document) = place;
            self.report.answers.push(answered);
        }
    }

    /// Returns the report, and the findings that the files have, too.
    fn end(mut self) -> (Report, BTreeSet<FindingKey>) {
        let lines: BTreeMap<&str, Lines<'_>> =
            self.files.all().map(|file| (&*file.path, Lines::new(file.text.bytes()))).collect();
        let settle = |location: &mut Location| {
            if let Some(lines) = lines.get(&*location.file) {
                location.start = lines.position(location.span.start);
                location.end = lines.position(location.span.end);
            }
        };
        let Report { findings, unjudged, answers, .. } = &mut self.report;
        for located in &mut *findings {
            settle(&mut located.location);
            // Locations in other files already have lines.
            let related = located.related.iter_mut().filter_map(|related| related.location.as_mut());
            related.filter(|location| location.start.line == 0).for_each(&settle);
        }
        unjudged.iter_mut().filter_map(|unjudged| unjudged.location.as_mut()).for_each(&settle);
        answers.iter_mut().for_each(|answered| settle(&mut answered.location));
        if self.options.keep_sources {
            let with_findings: BTreeSet<&str> =
                self.report.findings.iter().map(|located| &*located.location.file).collect();
            let files = self.files.all().filter(|file| with_findings.contains(&*file.path));
            self.report.sources = files.map(|file| (Arc::clone(&file.path), file.text.text())).collect();
        }
        (self.report, self.kept)
    }

    fn finding(
        &mut self,
        mut located: Located,
        source: &RenderedDocument,
        judged: &RenderedManifest,
        patches: &Patches,
    ) {
        let path = located.finding.path.to_string();
        let mut is_of_file = false;
        for home in &source.homes {
            let Some(file) = self.files.get(&home.file) else { continue };
            let key: FindingKey = (
                Arc::clone(&file.path),
                home.section,
                located.finding.rule.clone(),
                located.finding.level,
                path.clone(),
            );
            if self.options.plain.contains(&key) {
                self.kept.insert(key);
                is_of_file = true;
            }
        }
        if is_of_file {
            return;
        }
        let (location, document) = self.place(source, &located.finding.pointer, located.finding.part, judged);
        if self.is_excluded(&location.file) {
            return;
        }
        let key: FindingKey =
            (Arc::clone(&location.file), document, located.finding.rule.clone(), located.finding.level, path);
        if !self.findings.insert((
            Arc::clone(&location.file),
            location.span.start,
            key,
            located.finding.message.to_string(),
        )) {
            return;
        }
        for (label, related) in located.finding.labels.iter().zip(&mut located.related) {
            match (&label.place, &mut related.location) {
                (Place::Here(pointer, part), Some(location)) => {
                    *location = self.place(source, pointer, *part, judged).0;
                }
                // A claim that is also rendered.
                (Place::Elsewhere { .. }, Some(location)) if location.file == judged.path => {
                    let at = location.span.start;
                    let after = judged
                        .chunks
                        .partition_point(|chunk| chunk.as_ref().is_some_and(|chunk| chunk.span.start <= at));
                    let nth = after.saturating_sub(1);
                    let mut other = self.others.remove(&nth).unwrap_or_default();
                    self.look_up(&mut other, nth, judged, patches);
                    let modes = Pointer::new(&["spec", "accessModes"]);
                    *location = self.place(&other, &modes, Part::Value, judged).0;
                    self.others.insert(nth, other);
                }
                _ => {}
            }
        }
        (located.location, located.document) = (location, document);
        let fix = located.finding.fix.as_ref();
        let is_asked = |most: Safety| fix.is_some_and(|fix| fix.safety <= most);
        if self.options.fix.is_some_and(is_asked) {
            located.withheld = Some("it is rendered, so change the file by hand".into());
            self.report.withheld += 1;
        }
        located.finding.fix = None;
        self.report.findings.push(located);
    }

    fn not_judged(&mut self, unjudged: Unjudged, source: &RenderedDocument, judged: &RenderedManifest) {
        let (location, document) = self.place(source, &Pointer::root(), Part::Key, judged);
        let once = (Arc::clone(&location.file), location.span.start, unjudged.reason.clone());
        if !self.is_excluded(&location.file) && self.unjudged.insert(once) {
            self.report.unjudged.push(Unjudged {
                location: Some(location),
                document: Some(document),
                ..unjudged
            });
        }
    }

    fn is_excluded(&self, file: &str) -> bool {
        (self.options.is_excluded)(file)
    }

    /// Looks up the source of a rendered document.
    fn look_up(
        &mut self,
        source: &mut RenderedDocument,
        nth: usize,
        judged: &RenderedManifest,
        patches: &Patches,
    ) {
        if source.nth == nth {
            return;
        }
        let text = judged.text.bytes();
        let chunk = judged.chunks.get(nth).and_then(Option::as_ref);
        let value = chunk.and_then(|chunk| yaml::parse(text, chunk, self.options.limits).ok());
        let value = value.map_or(Value::Null, |document| document.value);
        let file = judged.origins.get(nth).cloned().flatten();
        let mut homes = Vec::new();
        let ObjectId { kind, name, .. } = ObjectId::from_object(&value);
        let name = name.unwrap_or_default();
        if !judged.has_origins() {
            homes = patches.get(&(kind, name)).cloned().unwrap_or_default();
        } else if let Some(path) = &file
            && let Some(read) = self.files.read(path)
            && let Some(section) = read.section_of(&kind, &name)
        {
            // Patches refer to the name before rendering.
            let named = patches.get(&(kind, read.name_of(section).to_owned()));
            homes.push(Home { file: path.clone(), section });
            homes.extend(named.into_iter().flatten().cloned());
        }
        *source = RenderedDocument { nth, value, file, homes };
    }

    /// Returns the documents of the patches.
    fn patches(&mut self, judged: &RenderedManifest) -> Patches {
        let mut patches = Patches::new();
        for path in &judged.patches {
            let Some(file) = self.files.read(path) else { continue };
            for (object, section) in file.named() {
                patches.entry(object.clone()).or_default().push(Home { file: path.clone(), section });
            }
        }
        patches
    }

    /// Returns the location of a place of a document in the source files, and the number of the document there. Lines
    /// and columns are filled in later.
    fn place(
        &self,
        source: &RenderedDocument,
        pointer: &Pointer,
        part: Part,
        judged: &RenderedManifest,
    ) -> (Location, usize) {
        let mut nearest = None;
        for home in &source.homes {
            let Some(file) = self.files.get(&home.file) else { continue };
            let (span, whole) = file.find(Some(home.section), pointer, part, &source.value);
            if whole {
                return (at(&file.path, span), home.section);
            }
            nearest.get_or_insert((&file.path, span, home.section));
        }
        if let Some((path, span, section)) = nearest.filter(|_| judged.is_chart) {
            return (at(path, span), section);
        }
        // The kustomization adds fields that are in none of the files; an ambiguous document is somewhere in its file.
        let somewhere = source.file.as_ref().filter(|_| source.homes.is_empty());
        let file = somewhere.and_then(|path| self.files.get(path));
        if let Some(file) = file.or_else(|| self.files.get(&judged.root)) {
            let packed = judged.packed.get(&source.nth).and_then(|name| file.dependency(name));
            return (at(&file.path, packed.unwrap_or_else(|| file.first())), 0);
        }
        (at(&judged.path, 0..0), 0)
    }
}

/// Returns a location without its line and column.
fn at(file: &Arc<str>, span: Range<usize>) -> Location {
    let nowhere = Position { line: 0, column: 0 };
    Location { file: Arc::clone(file), span, start: nowhere, end: nowhere }
}
