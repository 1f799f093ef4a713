//! Explains why something is not rendered.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RenderingOutcome;
use crate::judge::checks::UNRENDERED_TEMPLATE;
use crate::local::lint::chart;
use crate::local::lint::options::Rendering;
use crate::local::lint::unjudged::{dependencies, not_rendered};
use crate::local::paths::normal;
use crate::report::{Located, NotRendered, Reason, Rendered, Report, Unjudged};

const NO_HELM: &str = "`helm` is not on the PATH";
const INSTALL_HELM: &str = "install Helm, and Jobgate renders the chart itself";
const NO_KUSTOMIZE: &str = "neither `kustomize` nor `kubectl` is on the PATH";
const INSTALL_KUSTOMIZE: &str = "install kustomize, and Jobgate renders it itself";

/// The missing tools, and whether they fail the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MissingTools {
    helm: bool,
    kustomize: bool,
    required: bool,
}

impl MissingTools {
    pub(super) fn new(rendering: &Rendering) -> Self {
        let tools = &rendering.tools;
        Self {
            helm: rendering.charts && !tools.has_helm(),
            kustomize: rendering.kustomizations && !tools.has_kustomize(),
            required: rendering.required,
        }
    }
}

impl RenderingOutcome {
    /// Explains why something was not rendered, if that was tried, or would have been with the right tool.
    pub(in crate::local::lint) fn explain(&self, report: &mut Report) {
        let Report { unjudged, findings, .. } = report;
        self.ask_for_tools(unjudged, findings);
        let mut tried: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut said: BTreeSet<PathBuf> = BTreeSet::new();
        for unjudged in &mut *unjudged {
            let file = match &unjudged.reason {
                Reason::Chart(dir) | Reason::ChartParts(dir) => Path::new(&**dir).join(chart::CHART),
                Reason::Kustomization(kustomized) => PathBuf::from(&*kustomized.path),
                _ => continue,
            };
            if let Some((file, not)) = self.failed.get_key_value(&normal(&file)) {
                tried.extend(unjudged.location.as_ref().map(|location| Arc::clone(&location.file)));
                unjudged.reason = Reason::NotRendered(not.clone());
                said.insert(file.clone());
            }
        }
        // The reason is more specific than the finding that this is a template.
        findings.retain(|located| {
            located.finding.rule != UNRENDERED_TEMPLATE || !tried.contains(&located.location.file)
        });
        unjudged.extend(self.without.iter().map(|(file, names)| dependencies(file, names)));
        let left = self.failed.iter().filter(|(file, _)| !said.contains(*file));
        unjudged.extend(left.map(|(file, not)| not_rendered(file, not)));
    }

    /// Reports missing tools: as the reason where they are required, else in the help of findings about templates.
    fn ask_for_tools(&self, unjudged: &mut [Unjudged], findings: &mut [Located]) {
        let mut charts: BTreeSet<Arc<str>> = BTreeSet::new();
        for unjudged in unjudged {
            let (thing, dir, why, help) = match &unjudged.reason {
                Reason::Chart(dir) | Reason::ChartParts(dir) if self.missing.helm => {
                    (Rendered::Chart, Arc::clone(dir), NO_HELM, INSTALL_HELM)
                }
                Reason::Kustomization(kustomized) if self.missing.kustomize => {
                    (Rendered::Kustomization, kustomized.dir().into(), NO_KUSTOMIZE, INSTALL_KUSTOMIZE)
                }
                _ => continue,
            };
            if self.missing.required {
                let (why, help) = (why.into(), help.into());
                unjudged.reason = Reason::NotRendered(NotRendered { thing, dir, why, help, failed: true });
            } else if thing == Rendered::Chart {
                charts.extend(unjudged.location.as_ref().map(|location| Arc::clone(&location.file)));
            }
        }
        let is_of_chart = |located: &&mut Located| {
            located.finding.rule == UNRENDERED_TEMPLATE && charts.contains(&located.location.file)
        };
        for located in findings.iter_mut().filter(is_of_chart) {
            located.finding.help = format!("{NO_HELM}: {INSTALL_HELM}").into();
        }
    }
}
