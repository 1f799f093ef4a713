//! Texts judged by the default policy, for tests.

use jobgate_core::judge::policy::Policy;
use jobgate_core::text::yaml::Limits;
use jobgate_report::Report;

use crate::claims::{Claims, Scope};
use crate::file_bytes::FileBytes;
use crate::input::Input;
use crate::judge::judge;
use crate::options::LintOptions;
use crate::subject::Subject;

/// Judges texts that know nothing of each other.
pub(crate) fn report(files: &[(&str, &str)]) -> Report {
    let (policy, limits, none) = (Policy::default(), Limits::default(), Claims::default());
    let options = LintOptions {
        policy: &policy,
        namespace: "",
        limits: &limits,
        api_checks: true,
        keep_sources: true,
        keep_fixes: true,
        keep_items: false,
        dry_run: None,
        fix: None,
        selection: None,
        whole: None,
        reference: None,
        today: None,
    };
    let mut report = Report::default();
    for (path, text) in files {
        let input = Input::text(path, text.as_bytes());
        let subject =
            Subject { input: &input, patch: None, is_kustomization: false, is_chart: false, chart: &|| None };
        let scope = Scope { file: &input, facts: &none, own: None, linted: &none };
        report.append(judge(&subject, &FileBytes::new(text.as_bytes().to_vec()), &scope, &options).report);
    }
    report
}
