//! Counts what the settings of a run remove from its report: a repository's own settings may hide its findings.

use std::collections::BTreeSet;

use super::object::DocumentView;
use super::{Depth, DocumentContext};
use jobgate_core::judge::engine;
use jobgate_core::judge::finding::{Finding, Level};
use jobgate_core::kinds::Workload;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;

impl DocumentView<'_> {
    /// Counts what the settings of the run remove: the findings of rules that are not used, and errors that the
    /// reference policy would report.
    pub(super) fn count_missed(&mut self, value: &Value, workload: &Workload<'_>) {
        let DocumentContext { scope, options, .. } = self.context;
        if matches!(self.depth, Depth::Fixes) || options.whole.is_none() && options.reference.is_none() {
            return;
        }
        let request = self.request(value, workload);
        let (mut ignored, mut lowered) = (0, 0);
        if let Some(whole) = options.whole {
            let all = engine::evaluate(whole, *scope, &request).findings;
            ignored = all.iter().filter(|finding| !options.selects(&finding.rule)).count();
        }
        if let Some(reference) = options.reference {
            let own = engine::evaluate(options.policy, *scope, &request);
            // An exemption is counted already.
            let suppressed = own.suppressed.iter().map(|suppressed| &suppressed.finding);
            let denied = own.findings.iter().filter(|finding| finding.level == Level::Deny);
            let known: BTreeSet<(&str, &Pointer)> =
                denied.chain(suppressed).map(|finding| (&*finding.rule, &finding.path)).collect();
            let more = engine::evaluate(reference, *scope, &request).findings;
            let is_lowered = |finding: &&Finding| {
                finding.level == Level::Deny
                    && options.selects(&finding.rule)
                    && !known.contains(&(&*finding.rule, &finding.path))
            };
            lowered = more.iter().filter(is_lowered).count();
        }
        self.judged.ignored += ignored;
        self.judged.lowered += lowered;
    }
}
