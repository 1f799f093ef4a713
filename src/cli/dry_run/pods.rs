//! What a cluster says of the pods of the objects that it would store.

use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::sync::Arc;

use super::{DryRunConnection, ProgressLine};
use crate::cluster::{self, Tried};
use crate::judge::checks::{self, POD_REFUSED};
use crate::judge::finding::{Level, Part};
use crate::local::lint::{Input, order};
use crate::report::{Answered, Located, PodOfTemplate, Report, Unjudged};
use anyhow::bail;

/// Asks about all pods, and adds what is refused to the report.
///
/// # Errors
/// The API server goes away.
pub(super) fn try_all(
    connection: &DryRunConnection,
    files: &[Input],
    namespace: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let pods = report.answers.iter().flat_map(|answered| {
        let namespace = answered.object.namespace.as_deref().unwrap_or(namespace);
        answered.pods.iter().map(move |of| (namespace, &of.pod))
    });
    let pods: Vec<_> = pods.collect();
    let line = ProgressLine::new("trying", pods.len(), "pods");
    let client = &connection.connection.client;
    let tried = cluster::try_pods(client, pods, || line.advance());
    let tried = connection.runtime.block_on(tried);
    line.end()?;
    if let Some(Tried::Unreachable(failure)) = tried.last() {
        bail!("{} stopped answering: {failure}", connection.connection.server);
    }
    let mut unknown = BTreeSet::new();
    for answered in report.answers.iter().filter(|one| one.answer.outcome.is_allowed() && one.pods.is_empty())
    {
        unknown.insert(format!("cannot try the pods of {}: which it has is not known here", answered.object));
    }
    let mut found = Vec::new();
    let pods = report.answers.iter_mut().flat_map(|answered| {
        let Answered { document, object, pods, .. } = answered;
        pods.iter_mut().map(|of| (*document, &*object, of))
    });
    let tried = tried.into_iter().map(Some).chain(iter::repeat_with(|| None));
    for ((document, object, of), tried) in pods.zip(tried) {
        let Some(tried) = tried else {
            unknown.insert("the rest of the pods was not tried".to_owned());
            break;
        };
        let namespace = object.namespace.as_deref().unwrap_or(namespace);
        match tried {
            Tried::Made | Tried::Unreachable(_) => {}
            Tried::Refused(message) => {
                of.refused = true;
                let located = refused(document, of, &message);
                found.push(Located { object: Some(Arc::clone(object)), ..located });
            }
            Tried::Forbidden => {
                let what = "you may not create pods there, not even as a dry run";
                unknown.insert(format!("cannot try pods in the namespace `{namespace}`: {what}"));
            }
            Tried::Unknown(why) => {
                unknown.insert(format!("cannot try the pods of {object}: {why}"));
            }
        }
    }
    report.unjudged.extend(unknown.into_iter().map(Unjudged::unknown));
    if !found.is_empty() {
        found.into_iter().for_each(|located| report.keep(located));
        let nth: HashMap<&str, usize> =
            files.iter().enumerate().map(|(nth, file)| (&*file.path, nth)).collect();
        let file = |located: &Located| nth.get(&*located.location.file).copied().unwrap_or(usize::MAX);
        report.findings.sort_by(|a, b| file(a).cmp(&file(b)).then_with(|| order(a, b)));
    }
    Ok(())
}

fn refused(document: usize, of: &PodOfTemplate, message: &str) -> Located {
    let is_quota = message.contains("exceeded quota");
    let (level, help) = if is_quota {
        (Level::Warn, "ask for less, or wait until other pods have ended")
    } else {
        (Level::Deny, "change the template, or what refuses its pods")
    };
    let message = format!("the API server would refuse the pods of this template: {message}");
    let mut finding = checks::finding(POD_REFUSED, level, of.template.clone(), message, help);
    finding.part = Part::Key;
    Located::new(of.location.clone(), document, finding)
}
