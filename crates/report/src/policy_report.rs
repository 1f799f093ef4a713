//! Policy reports, which dashboards of clusters read: those of OpenReports, and of the working group whose
//! API they come from. One report for each namespace, and one for objects in none.

use std::collections::BTreeMap;
use std::io;

use super::text::{clean, plural, thousands};
use crate::located::Located;
use crate::object::ObjectId;
use crate::options::Options;
use crate::page::DOCS;
use crate::results::Report;
use crate::unjudged::Unjudged;
use jobgate_core::judge::checks;
use jobgate_core::judge::finding::Level;
use jobgate_core::kinds::Kind;
use jobgate_core::text::lines::cut;
use jobgate_core::text::value::{Value, json};

/// An API of policy reports. They have the same fields, but for the `source` of a whole report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyReports {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind of a report about a namespace, and its resource.
    pub namespaced: (&'static str, &'static str),
    /// The kind of a report about objects in no namespace, and its resource.
    pub cluster: (&'static str, &'static str),
    has_source: bool,
}

/// The API of OpenReports.
pub const OPEN_REPORTS: PolicyReports = PolicyReports {
    group: "openreports.io",
    version: "v1alpha1",
    namespaced: ("Report", "reports"),
    cluster: ("ClusterReport", "clusterreports"),
    has_source: true,
};

/// The API of the Kubernetes policy working group, which OpenReports succeeds.
pub const POLICY_REPORTS: PolicyReports = PolicyReports {
    group: "wgpolicyk8s.io",
    version: "v1alpha2",
    namespaced: ("PolicyReport", "policyreports"),
    cluster: ("ClusterPolicyReport", "clusterpolicyreports"),
    has_source: false,
};

/// The name of all audit reports; there is one in each namespace.
pub const NAME: &str = "jobgate-audit";

/// The label of all reports of audits.
pub const LABEL: (&str, &str) = ("jobgate.dev/report", "audit");

/// The name and the label of reports about files, which an audit neither replaces nor deletes.
const OF_FILES: (&str, &str) = ("jobgate-lint", "lint");

/// The source of all results.
const SOURCE: &str = "jobgate";

/// The category of all results.
const CATEGORY: &str = "Batch jobs";

/// Maximum results of a report; the others are only counted.
const MAX_RESULTS: usize = 1000;

/// Maximum bytes of a report's results: etcd stores 1.5 MiB, and a client like kubectl needs some of it.
const MAX_BYTES: usize = 900_000;

/// Maximum bytes of one text.
const MAX_TEXT: usize = 1024;

/// One finding, or something that was not judged.
enum PolicyReportEntry<'r> {
    Found(&'r Located),
    Unjudged(&'r Unjudged),
}

impl PolicyReports {
    /// Returns `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// Returns the reports, the one about no namespace first, with their namespaces.
///
/// Findings in files whose objects name no namespace are in a report that names none either.
#[must_use]
pub fn documents<'r>(report: &'r Report, api: &PolicyReports) -> Vec<Value> {
    // Cluster-scoped entries come first, then those without a namespace.
    let mut groups: BTreeMap<(bool, &str), Vec<PolicyReportEntry<'r>>> = BTreeMap::new();
    let mut push = |object: Option<&'r ObjectId>, entry| {
        let kind = object.and_then(|object| Kind::typed(&object.api_version, &object.kind));
        let namespace = object.and_then(|object| object.namespace.as_deref()).unwrap_or_default();
        // Entries about a cluster as a whole are in no namespace.
        let everywhere =
            kind.is_some_and(|kind| kind.cluster_scoped) || (report.impact.is_some() && namespace.is_empty());
        groups.entry((!everywhere, if everywhere { "" } else { namespace })).or_default().push(entry);
    };
    for located in &report.findings {
        push(located.object.as_deref(), PolicyReportEntry::Found(located));
    }
    for unjudged in report.unjudged.iter().filter(|unjudged| !unjudged.reason.is_found()) {
        push(unjudged.object.as_deref(), PolicyReportEntry::Unjudged(unjudged));
    }
    groups
        .into_iter()
        .map(|((namespaced, namespace), mut entries)| {
            // The worst entries come first, so that they are not left out.
            entries.sort_by_key(|entry| match entry {
                PolicyReportEntry::Found(located) => std::cmp::Reverse(Some(located.finding.level)),
                PolicyReportEntry::Unjudged(_) => std::cmp::Reverse(None),
            });
            document(report, api, namespaced.then_some(namespace), &entries)
        })
        .collect()
}

/// Returns one report: about a namespace, which is empty if it is unknown, or about objects in none.
fn document(
    report: &Report,
    api: &PolicyReports,
    namespace: Option<&str>,
    entries: &[PolicyReportEntry<'_>],
) -> Value {
    let (mut fail, mut warn, mut skip) = (0, 0, 0);
    for entry in entries {
        match entry {
            PolicyReportEntry::Found(located) if located.finding.level == Level::Deny => fail += 1,
            PolicyReportEntry::Found(_) => warn += 1,
            PolicyReportEntry::Unjudged(_) => skip += 1,
        }
    }
    let mut results = Vec::new();
    let mut bytes = 0;
    for entry in entries.iter().take(MAX_RESULTS) {
        let result = match entry {
            PolicyReportEntry::Found(located) => found(report, located),
            PolicyReportEntry::Unjudged(unjudged) => not_judged(report, unjudged),
        };
        bytes += result.to_string().len();
        if bytes > MAX_BYTES {
            break;
        }
        results.push(result);
    }
    let left_out = entries.len() - results.len();
    if left_out > 0 {
        let message = format!(
            "{} of {} are not in this report, which has the worst; the summary counts all of them",
            thousands(left_out),
            plural(entries.len(), "result")
        );
        results.push(result("results-left-out", "skip", "info", &message, None, json!({})));
    }
    let (kind, _) = if namespace.is_some() { api.namespaced } else { api.cluster };
    let (name, label) = if report.impact.is_some() { (NAME, LABEL.1) } else { OF_FILES };
    let mut metadata = json!({
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": SOURCE, (LABEL.0): label},
    });
    if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
        metadata["namespace"] = namespace.into();
    }
    if let Some(impact) = &report.impact {
        metadata["annotations"] = json!({"jobgate.dev/policy": text(&impact.policy)});
    }
    let mut document = json!({
        "apiVersion": api.api_version(), "kind": kind, "metadata": metadata,
        "summary": {"pass": 0, "fail": fail, "warn": warn, "error": 0, "skip": skip},
        "results": results,
    });
    if api.has_source {
        document["source"] = SOURCE.into();
    }
    document
}

fn found(report: &Report, located: &Located) -> Value {
    let finding = &located.finding;
    let (outcome, severity) = match finding.level {
        Level::Deny => ("fail", "high"),
        Level::Warn => ("warn", "medium"),
        Level::Note if finding.fills => ("warn", "low"),
        Level::Note => ("warn", "info"),
    };
    let mut properties = json!({});
    let mut set = |key: &str, value: &str| {
        if !value.is_empty() {
            properties[key] = text(value).into();
        }
    };
    set("path", &finding.path.to_string());
    set("help", &finding.help);
    if checks::find(&finding.rule).is_none() {
        set("documentation", &format!("{DOCS}/{}.md", finding.rule));
    }
    if report.file(&located.location).is_some() {
        set("place", &located.location.to_string());
    }
    result(&finding.rule, outcome, severity, &finding.message, located.object.as_deref(), properties)
}

fn not_judged(report: &Report, unjudged: &Unjudged) -> Value {
    let mut properties = json!({});
    let help = unjudged.help();
    if !help.is_empty() {
        properties["help"] = text(&help).into();
    }
    if let Some(location) = unjudged.location.as_ref().filter(|location| report.file(location).is_some()) {
        properties["place"] = text(&location.to_string()).into();
    }
    let rule = format!("not-judged/{}", unjudged.reason.word());
    result(&rule, "skip", "info", &unjudged.message(), unjudged.object.as_deref(), properties)
}

fn result(
    rule: &str,
    outcome: &str,
    severity: &str,
    message: &str,
    object: Option<&ObjectId>,
    properties: Value,
) -> Value {
    let mut result = json!({
        "source": SOURCE, "category": CATEGORY, "policy": rule, "rule": rule, "result": outcome,
        "severity": severity, "scored": outcome == "fail", "message": text(message),
        "properties": properties,
    });
    // Without a kind and a name it is not a reference.
    if let Some(object) = object.filter(|object| !object.kind.is_empty() && object.name.is_some()) {
        let mut resource = json!({"apiVersion": text(&object.api_version), "kind": text(&object.kind)});
        for (key, value) in [("namespace", &object.namespace), ("name", &object.name)] {
            if let Some(value) = value {
                resource[key] = text(value).into();
            }
        }
        result["resources"] = json!([resource]);
    }
    result
}

/// Cleans a text for display, and cuts it if it is too long.
fn text(text: &str) -> String {
    cut(&clean(text), MAX_TEXT, "…").into_owned()
}

/// Writes OpenReports.
pub(super) fn write_open_reports(report: &Report, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    write(report, &OPEN_REPORTS, out)
}

/// Writes PolicyReports.
pub(super) fn write_policy_reports(report: &Report, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    write(report, &POLICY_REPORTS, out)
}

/// Writes the reports as a `List`, which kubectl can apply.
fn write(report: &Report, api: &PolicyReports, out: &mut dyn io::Write) -> io::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents(report, api)});
    serde_json::to_writer_pretty(&mut *out, &list)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::impact::Impact;
    use crate::sample;

    #[test]
    fn a_result_has_what_dashboards_show() {
        let documents = documents(&sample::report(), &OPEN_REPORTS);
        let report = &documents[documents.len() - 1];
        assert_eq!(
            (&report["apiVersion"], &report["kind"], &report["metadata"]["namespace"], &report["source"]),
            (&"openreports.io/v1alpha1".into(), &"Report".into(), &"team-a".into(), &"jobgate".into())
        );
        assert_eq!(
            report["results"][0],
            json!({
                "source": "jobgate", "category": "Batch jobs", "policy": "deadline", "rule": "deadline",
                "result": "fail", "severity": "high", "scored": true,
                "message": "the Job has no deadline",
                "resources": [
                    {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-a", "name": "train"},
                ],
                "properties": {
                    "path": "spec.activeDeadlineSeconds",
                    "help": "add `spec.activeDeadlineSeconds` with the longest time a run may take",
                    "documentation": format!("{DOCS}/deadline.md"),
                    "place": "./jobs/train.yaml:6:1",
                },
            })
        );
        let results = report["results"].as_array().unwrap();
        let count = |outcome: &str| results.iter().filter(|result| result["result"] == outcome).count();
        assert_eq!(report["summary"]["fail"], count("fail"));
        assert_eq!(report["summary"]["warn"], count("warn"));
    }

    #[test]
    fn each_namespace_has_its_report_and_an_audit_names_no_files() {
        let mut report = sample::report();
        let mut located = report.findings[0].clone();
        let object = |kind: &str, version: &str, namespace: Option<&str>| {
            Some(Arc::new(ObjectId {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: Some("other".to_owned()),
            }))
        };
        located.object = object("Job", "batch/v1", Some("team-b"));
        report.findings.push(located.clone());
        located.object = object("ClusterTrainingRuntime", "trainer.kubeflow.org/v1alpha1", None);
        report.findings.push(located.clone());
        report.findings.retain(|located| located.object.is_some());
        report.impact = Some(Impact { policy: "default".into(), ..Impact::default() });
        let documents = documents(&report, &POLICY_REPORTS);
        let of: Vec<(&Value, &Value)> = documents
            .iter()
            .map(|document| (&document["kind"], &document["metadata"]["namespace"]))
            .collect();
        let kind = Value::from("PolicyReport");
        assert_eq!(
            of,
            [
                (&"ClusterPolicyReport".into(), &Value::Null),
                (&kind, &"team-a".into()),
                (&kind, &"team-b".into())
            ]
        );
        for document in &documents {
            assert!(document.get("source").is_none() && !document.to_string().contains("train.yaml"));
            assert_eq!(document["metadata"]["annotations"]["jobgate.dev/policy"], "default");
        }
    }

    /// The worst that can be in a namespace: many findings with long texts.
    #[test]
    fn a_report_fits_into_etcd_and_says_what_it_lacks() {
        for (count, length) in [(5000, 10), (5000, 100_000), (1001, 1)] {
            let mut report = sample::report();
            let note = report.findings.iter().find(|located| located.finding.level == Level::Note).unwrap();
            let mut note = note.clone();
            note.finding.message = "\"\u{1b}".repeat(length).into();
            let deny = report.findings[0].clone();
            report.findings = vec![note; count - 1];
            report.findings.push(deny);
            let documents = documents(&report, &OPEN_REPORTS);
            let document = &documents[0];
            assert!(document.to_string().len() < 1_400_000, "{}", document.to_string().len());
            assert_eq!(document["summary"]["fail"], 1);
            assert_eq!(document["summary"]["warn"], count - 1);
            let results = document["results"].as_array().unwrap();
            assert!(results.len() <= MAX_RESULTS + 1);
            assert_eq!(results[0]["result"], "fail", "the worst is first");
            let last = results[results.len() - 1]["message"].as_str().unwrap();
            assert!(last.ends_with("which has the worst; the summary counts all of them"), "{last}");
        }
    }
}
