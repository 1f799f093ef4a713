//! Jobgate's annotations, and findings about them and about exemptions.

use std::collections::BTreeSet;

use crate::judge::checks::{ANNOTATION_WITHOUT_EFFECT, ENDED_EXEMPTION, UNKNOWN_RULE, finding};
use crate::judge::finding::{self, Finding, Level, listed};
use crate::judge::policy::Exemption;
use crate::judge::rules::RuleSet;
use crate::kinds::{Part, Workload};
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};

/// The annotation that prevents fills.
pub const KEEP: &str = "jobgate.dev/keep";
/// The annotation that suppresses findings, if the policy allows it.
pub const IGNORE: &str = "jobgate.dev/ignore";

/// Reports that an exemption that covers `rule` has ended.
pub(crate) fn ended_exemption(exemption: &Exemption, rule: &str) -> Finding {
    let until = exemption.until.map(|date| date.to_string()).unwrap_or_default();
    let message =
        format!("the exemption from `{rule}` ended on {until} and no longer holds ({})", exemption.reason);
    let mut finding = finding(
        ENDED_EXEMPTION,
        Level::Warn,
        Pointer::root(),
        message,
        "fix the object, or extend the exemption in the policy",
    );
    finding.part = finding::Part::Key;
    finding
}

/// Maximum unknown names of an annotation that a finding lists; the rest are counted.
const UNKNOWN_NAMES_LISTED: usize = 3;
/// Maximum length of an unknown name in a message, in bytes.
const UNKNOWN_NAME_BYTES: usize = 64;

/// Returns a finding for each Jobgate annotation with names that match no rule.
pub(crate) fn unknown_annotation_names(rules: &RuleSet, workload: &Workload<'_>) -> Vec<Finding> {
    let unknown = |key: &'static str| {
        let mut named: Vec<&str> = Vec::new();
        let mut more = 0_usize;
        for name in annotation_names(workload.own_annotation(key)).filter(|name| rules.find(name).is_none()) {
            if named.contains(&name) {
                continue;
            }
            if named.len() < UNKNOWN_NAMES_LISTED { named.push(name) } else { more += 1 }
        }
        let mut names: Vec<String> = named
            .iter()
            .map(|name| format!("`{}`", cut(name, UNKNOWN_NAME_BYTES, "…").escape_debug()))
            .collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        let names = listed(&names, "and");
        let message = match named.len() {
            0 => return None,
            1 => format!("`{key}` names {names}, which is not a rule"),
            _ => format!("`{key}` names {names}, which are not rules"),
        };
        let pointer = workload.object.at(&["metadata", "annotations"]).pointer.key(key);
        Some(finding(UNKNOWN_RULE, Level::Warn, pointer, message, "`jobgate explain` lists the rules"))
    };
    [KEEP, IGNORE].into_iter().filter_map(unknown).chain(unknown_annotations(workload)).collect()
}

/// The prefix of Jobgate's annotations.
const ANNOTATIONS: &str = "jobgate.dev/";

/// Returns a finding for annotations that have Jobgate's prefix, but are not Jobgate's.
fn unknown_annotations(workload: &Workload<'_>) -> Option<Finding> {
    let keys = workload.metadata("annotations").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let mut unknown = keys
        .inspect(|_| meter::spend(1))
        .filter(|key| key.starts_with(ANNOTATIONS) && ![KEEP, IGNORE].contains(key));
    let first = unknown.next()?;
    let name = cut(first, UNKNOWN_NAME_BYTES, "…");
    let message = match unknown.count() {
        0 => format!("`{}` is not a Jobgate annotation", name.escape_debug()),
        more => format!("`{}` and {more} more are not Jobgate annotations", name.escape_debug()),
    };
    let pointer = workload.object.at(&["metadata", "annotations"]).pointer.key(first);
    Some(finding(UNKNOWN_RULE, Level::Warn, pointer, message, format!("write `{KEEP}` or `{IGNORE}`")))
}

/// Returns a finding for each annotation of Jobgate that has no effect on a rule: an `ignore` that suppresses
/// nothing, or a `keep` for a rule that fills nothing.
pub(crate) fn annotations_without_effect(
    workload: &Workload<'_>,
    denied: &BTreeSet<&str>,
    unused: &BTreeSet<&str>,
) -> Vec<Finding> {
    let one = |key: &'static str, rules: &BTreeSet<&str>, why: &str, help: &'static str| {
        let names: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
        let message = format!("`{key}` has no effect on {}: {why}", listed(&names, "and"));
        let around = workload.inside.as_ref().filter(|_| workload.own_annotation(key).is_none());
        let object = around.unwrap_or(&workload.object);
        let pointer = object.at(&["metadata", "annotations"]).pointer.key(key);
        (!rules.is_empty()).then(|| finding(ANNOTATION_WITHOUT_EFFECT, Level::Warn, pointer, message, help))
    };
    let ignore = one(
        IGNORE,
        denied,
        "the policy does not let authors suppress it",
        "fix the finding, or ask for an exemption in the policy",
    );
    let keep = one(KEEP, unused, "nothing is filled in for it here", "remove the rule from the annotation");
    ignore.into_iter().chain(keep).collect()
}

/// Returns findings for Jobgate's annotations that are misplaced: on labels, on a pod template, or on the
/// `jobTemplate` of a `CronJob` unless `jobs_are_judged` one by one. One that is also in its place is not
/// reported.
pub(crate) fn misplaced_annotations(workload: &Workload<'_>, jobs_are_judged: bool) -> Vec<Finding> {
    let is_one = |key: &&str| key.starts_with(ANNOTATIONS) && workload.annotation(key).is_none();
    let first_of = |places: &[Part<'_>], why: &str| {
        let mut all: Vec<(&str, Pointer)> = Vec::new();
        for place in places {
            let keys = place
                .value
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys)
                .inspect(|_| meter::spend(1));
            all.extend(keys.filter(is_one).map(|key| (key, place.pointer.key(key))));
        }
        let (name, first) = all.first()?;
        let name = cut(name, UNKNOWN_NAME_BYTES, "…").escape_debug().to_string();
        let message = match all.len() - 1 {
            0 => format!("`{name}` has no effect {why}"),
            more => format!("`{name}` and {more} more have no effect {why}"),
        };
        Some(finding(
            ANNOTATION_WITHOUT_EFFECT,
            Level::Warn,
            first.clone(),
            message,
            "write it in `metadata.annotations`",
        ))
    };
    let templates: Vec<_> =
        workload.pods.iter().flat_map(|pod| marks(&pod.template.get("metadata"))).collect();
    let runs: Vec<_> = if workload.schedule.is_some() && !jobs_are_judged {
        workload.runs.iter().flat_map(|run| marks(&run.metadata)).collect()
    } else {
        Vec::new()
    };
    let labels = first_of(&[workload.object.at(&["metadata", "labels"])], "as a label");
    let runs = first_of(&runs, "on a `jobTemplate`: Jobgate checks the CronJob");
    labels.into_iter().chain(runs).chain(first_of(&templates, "on a pod template")).collect()
}

/// Returns the mappings of some metadata in which people write annotations: annotations and labels.
fn marks<'a>(metadata: &Part<'a>) -> [Part<'a>; 2] {
    ["annotations", "labels"].map(|key| metadata.get(key))
}

/// Returns the names in an annotation's list.
pub(crate) fn annotation_names(annotation: Option<&str>) -> impl Iterator<Item = &str> {
    let names = annotation.unwrap_or_default().split(',');
    names.inspect(|_| meter::spend(1)).map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    #[test]
    fn unknown_names_are_one_finding_that_lists_few() {
        let found = |ignored: &str| {
            let annotations = json!({"jobgate.dev/ignore": ignored});
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"annotations": annotations}, "spec": {}});
            let workload = Workload::from_object(&job).expect("a Job");
            unknown_annotation_names(&RuleSet::built_in(), &workload)
                .into_iter()
                .map(|finding| finding.message.into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("deadline, ,gpu-toleration"), [""; 0]);
        assert_eq!(
            found("deadlin, deadline, deadlin"),
            ["`jobgate.dev/ignore` names `deadlin`, which is not a rule"]
        );
        assert_eq!(found("a,b,c"), ["`jobgate.dev/ignore` names `a`, `b` and `c`, which are not rules"]);
        assert_eq!(
            found("a,b,c,b,d,e"),
            ["`jobgate.dev/ignore` names `a`, `b`, `c` and 2 more, which are not rules"]
        );
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"annotations": {"jobgate.dev/ignores": "deadline", "jobgate.dev/skip": ""}}});
        let workload = Workload::from_object(&job).expect("a Job");
        let messages: Vec<_> = unknown_annotation_names(&RuleSet::built_in(), &workload)
            .into_iter()
            .map(|finding| finding.message)
            .collect();
        assert_eq!(messages, ["`jobgate.dev/ignores` and 1 more are not Jobgate annotations"]);
        assert!(found(&"x".repeat(1 << 20))[0].len() < 2 * UNKNOWN_NAME_BYTES, "a long name is cut");
    }

    #[test]
    fn annotations_where_nobody_reads_them_are_named_with_their_place() {
        let mark = json!({"jobgate.dev/ignore": "deadline"});
        let cron = |own: Value, labels: Value, run: Value, pod: Value| {
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"annotations": own, "labels": labels},
                   "spec": {"jobTemplate": {"metadata": {"annotations": run}, "spec": {"template": {"metadata": {"annotations": pod}, "spec": {}}}}}})
        };
        let found = |object: &Value, judged: bool| {
            let found = misplaced_annotations(&Workload::from_object(object).expect("a workload"), judged);
            assert!(found.iter().all(|finding| finding.pointer.find(object).is_some()), "{found:?}");
            found.into_iter().map(|finding| finding.message.into_owned()).collect::<Vec<_>>()
        };
        let none = json!({"a": "b"});
        assert_eq!(found(&cron(mark.clone(), mark.clone(), mark.clone(), mark.clone()), false), [""; 0]);
        assert_eq!(
            found(&cron(none.clone(), mark.clone(), none.clone(), none.clone()), false),
            ["`jobgate.dev/ignore` has no effect as a label"]
        );
        let run = cron(none.clone(), none.clone(), mark.clone(), none.clone());
        assert_eq!(
            found(&run, false),
            ["`jobgate.dev/ignore` has no effect on a `jobTemplate`: Jobgate checks the CronJob"]
        );
        assert_eq!(found(&run, true), [""; 0]);
        assert_eq!(
            found(&cron(none.clone(), none.clone(), none, mark.clone()), false),
            ["`jobgate.dev/ignore` has no effect on a pod template"]
        );
        let replica = json!({"template": {"metadata": {"labels": mark}, "spec": {}}});
        let replicas = json!({"Master": replica, "Worker": replica});
        let job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replicas}});
        assert_eq!(found(&job, false), ["`jobgate.dev/ignore` and 1 more have no effect on a pod template"]);
    }

    #[test]
    fn rules_without_effect_are_one_finding_for_each_annotation() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job"});
        let workload = Workload::from_object(&job).expect("a Job");
        let found = |not_suppressed: &[&'static str], unused: &[&'static str]| {
            let set = |rules: &[&'static str]| rules.iter().copied().collect();
            let found = annotations_without_effect(&workload, &set(not_suppressed), &set(unused));
            found.into_iter().map(|finding| finding.message.into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[], &[]), [""; 0]);
        let ignore = "`jobgate.dev/ignore` has no effect on `deadline` and `restart-policy`: the policy does not let authors suppress it";
        let keep = "`jobgate.dev/keep` has no effect on `deadline`: nothing is filled in for it here";
        assert_eq!(found(&["restart-policy", "deadline"], &["deadline"]), [ignore, keep]);
    }
}
