//! Findings about a job that are resolved by a fix in another file, that of its runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::claims;
use super::discover::Unreadable;
use super::options::Options;
use super::run::{FileResult, LintRun};
use super::source;
use crate::judge::rule::RuleId;
use crate::report::Located;
use jobgate_lint::FileBytes;
use jobgate_lint::Input;
use jobgate_lint::claims::Claims;

/// The key that a finding shares before and after the other fixes: its document, its rule and its field.
type RecheckKey = (usize, RuleId, String);

/// Judges findings about objects in fixed files again, and drops those that are gone. All files were read before any
/// was fixed.
pub(super) fn drop_fixed(inputs: &[Input], files: &mut [Result<FileResult, Unreadable>], run: &LintRun<'_>) {
    let mut texts: BTreeMap<Arc<str>, FileBytes> = BTreeMap::new();
    for (input, file) in inputs.iter().zip(files.iter_mut()) {
        let text = file.as_mut().ok().and_then(|file| file.text.take());
        texts.extend(text.map(|text| (Arc::clone(&input.path), text)));
    }
    let fixed: BTreeSet<&Arc<str>> = texts
        .keys()
        .filter(|path| run.claims.file(path).is_some() && run.facts.file(path).is_none())
        .collect();
    let is_about = |located: &Located| {
        let places = located.related.iter().filter_map(|related| related.location.as_ref());
        places.into_iter().any(|location| fixed.contains(&location.file))
    };
    let depends = |file: &FileResult| file.report.findings.iter().any(is_about);
    if fixed.is_empty() || !files.iter().flatten().any(depends) {
        return;
    }
    let found: Vec<_> =
        inputs.par_iter().map(|input| claims::in_input(input, texts.get(&input.path), run.options)).collect();
    let mut now = Claims::default();
    now.extend(found.into_iter().flatten());
    let options = Options { fix: None, keep_sources: false, ..*run.options };
    let again = LintRun { claims: &now, alone: None, options: &options, ..*run };
    inputs.par_iter().zip(files).for_each(|(input, file)| {
        let Ok(file) = file else { return };
        if !depends(file) {
            return;
        }
        let loaded = texts.get(&input.path).cloned();
        let loaded = loaded.or_else(|| source::load(input, options.max_file_size).ok().and_then(Result::ok));
        let Some(loaded) = loaded else { return };
        let (judged, _) = again.documents(input, &loaded, &options, None);
        let left: BTreeSet<RecheckKey> = judged.report.findings.iter().map(key).collect();
        file.report.findings.retain(|located| !is_about(located) || left.contains(&key(located)));
        if file.report.findings.is_empty() {
            file.report.sources.clear();
        }
    });
}

fn key(located: &Located) -> RecheckKey {
    (located.document, located.finding.rule.clone(), located.finding.path.to_string())
}
