//! `jobgate audit --publish`: policy reports in the cluster.
//!
//! The definitions of the reports are those of their projects where `report-crds` of the shared data has them:
//! `openreports.io_reports.yaml` and so on, as the projects name them. Otherwise they are written here, as
//! strict as those in all fields that Jobgate writes.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use jobgate::report::policy_report::{OPEN_REPORTS, POLICY_REPORTS, PolicyReports};
use jobgate::text::value::{Value, json};

use crate::cluster::{Cluster, shared};
use crate::definitions::definition;
use crate::manifests::{endless, job, over};
use crate::process::eventually;
use crate::scenario::{Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] =
    &[Scenario::new("audit_publishes_reports_that_the_definitions_accept", published).ungated()];

/// Returns the definitions of an API, and whether they are the project's own.
fn definitions(api: &PolicyReports) -> ([Value; 2], bool) {
    let file = |resource: &str| shared(&format!("report-crds/{}_{resource}.yaml", api.group));
    match (file(api.namespaced.1), file(api.cluster.1)) {
        (Some(namespaced), Some(cluster)) => ([definition(&namespaced), definition(&cluster)], true),
        _ => ([own(api, api.namespaced, "Namespaced"), own(api, api.cluster, "Cluster")], false),
    }
}

/// A definition in our own words, with every constraint of the projects' on what Jobgate writes.
fn own(api: &PolicyReports, (kind, plural): (&str, &str), scope: &str) -> Value {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "object", "additionalProperties": text()});
    let one_of = |words: &[&str]| json!({"type": "string", "enum": words});
    let reference = json!({"type": "object", "properties": {
        "apiVersion": text(), "kind": text(), "namespace": text(), "name": text(), "uid": text(),
    }});
    let result = json!({"type": "object", "required": ["policy"], "properties": {
        "source": text(), "category": text(), "policy": text(), "rule": text(), "message": text(),
        "result": one_of(&["pass", "fail", "warn", "error", "skip"]),
        "severity": one_of(&["critical", "high", "low", "medium", "info"]),
        "scored": {"type": "boolean"}, "properties": texts(),
        "resources": {"type": "array", "items": reference},
    }});
    let count = || json!({"type": "integer"});
    let mut schema = json!({"type": "object", "properties": {
        "apiVersion": text(), "kind": text(), "metadata": {"type": "object"},
        "summary": {"type": "object", "properties": {
            "pass": count(), "fail": count(), "warn": count(), "error": count(), "skip": count(),
        }},
        "results": {"type": "array", "items": result},
    }});
    if api.group == OPEN_REPORTS.group {
        schema["properties"]["source"] = text();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", api.group)},
        "spec": {
            "group": api.group, "scope": scope,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [
                {"name": api.version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

/// Installs the definitions of an API, in the version that Jobgate writes.
fn install(cluster: &Cluster, api: &PolicyReports) {
    let (definitions, is_theirs) = definitions(api);
    if !is_theirs {
        println!("{}: the project's own definitions are not in `report-crds` of JOBGATE_SHARED", api.group);
    }
    for mut definition in definitions {
        // A definition may have versions of a time when clusters were other; one is stored.
        let versions = definition["spec"]["versions"].as_array_mut().expect("versions");
        versions.retain(|version| version["name"] == api.version);
        assert_eq!(versions.len(), 1, "{}", api.group);
        versions[0]["storage"] = true.into();
        cluster.admin.run(&["create", "-f", "-"], &definition.to_string()).ok();
    }
    let resources = format!("{0}.{2},{1}.{2}", api.namespaced.1, api.cluster.1, api.group);
    eventually(Duration::from_secs(60), || {
        let output = cluster.admin.run(&["get", &resources, "-A"], "");
        if output.success { Ok(()) } else { Err(output.to_string()) }
    })
    .expect("the definitions are served");
}

fn audit(cluster: &Cluster, user: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command.args(["audit", "--publish", "--exit-zero", "--format", "concise", "--kubeconfig"]);
    command.arg(cluster.kubeconfig_of(user)).args(arguments).output().expect("run jobgate audit")
}

#[track_caller]
fn says(output: &Output, code: i32, text: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(text), "{said}");
}

/// Returns the reports of an API, by namespace.
fn reports(cluster: &Cluster, api: &PolicyReports) -> Vec<(String, Value)> {
    let resource = format!("{}.{}", api.namespaced.1, api.group);
    let output = cluster.admin.run(&["get", &resource, "-A", "-o", "json"], "").ok();
    let list: Value = serde_json::from_str(&output.stdout).expect("a list");
    let of = |item: &Value| {
        (item["metadata"]["namespace"].as_str().expect("a namespace").to_owned(), item.clone())
    };
    list["items"].as_array().expect("items").iter().map(of).collect()
}

fn namespaces(cluster: &Cluster, api: &PolicyReports) -> Vec<String> {
    reports(cluster, api).into_iter().map(|(namespace, _)| namespace).collect()
}

/// A cluster of its own: an audit of all namespaces would see what other scenarios do.
fn published(place: &Place<'_>) {
    let cluster = place.cluster.another(&[]).expect("start another cluster");
    let kubectl = |arguments: &[&str]| cluster.admin.run(arguments, "");
    let create = |namespace: &str, object: &Value| {
        let object = over(object.clone(), json!({"metadata": {"namespace": namespace}}));
        cluster.admin.run(&["create", "-f", "-"], &object.to_string()).ok();
    };
    for namespace in ["one", "two", "three", "jobgate"] {
        kubectl(&["create", "namespace", namespace]).ok();
    }
    create("one", &endless("endless"));
    create("two", &endless("endless"));
    create("two", &job("good", json!({})));
    let complete = json!({"spec": {"ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed"}});
    create("three", &job("complete", complete));

    let neither = audit(&cluster, "admin", &[]);
    says(
        &neither,
        2,
        "the cluster serves neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2: install",
    );
    assert!(!neither.stdout.is_empty(), "the report is written all the same");

    install(&cluster, &POLICY_REPORTS);
    // With the role that comes with Jobgate, and nothing else.
    let access = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/components/audit-publish/access.yaml");
    kubectl(&["apply", "-f", access.to_str().expect("UTF-8")]).ok();
    says(&audit(&cluster, "watcher", &[]), 2, "something could not be read, so nothing was published");
    assert_eq!(namespaces(&cluster, &POLICY_REPORTS), [""; 0]);
    let bind = |role: &str| {
        kubectl(&[
            "create",
            "clusterrolebinding",
            &format!("watcher-{role}"),
            "--clusterrole",
            role,
            "--user=watcher",
        ])
        .ok();
    };
    bind("jobgate-audit");
    eventually(Duration::from_secs(20), || {
        let output = audit(&cluster, "watcher", &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let wanted = "cannot write policyreports.wgpolicyk8s.io in the namespace `one`: the API server forbids it; requires permission to `create` and `patch` them";
        if said.contains(wanted) { Ok(()) } else { Err(said) }
    })
    .expect("the first role reads and does not write");
    bind("jobgate-audit-publish");
    eventually(Duration::from_secs(20), || {
        let output = audit(&cluster, "watcher", &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    })
    .expect("the two roles are all that is needed");
    assert_eq!(namespaces(&cluster, &POLICY_REPORTS), ["one", "two"]);

    // The newer API is written as soon as the cluster has it.
    install(&cluster, &OPEN_REPORTS);
    says(&audit(&cluster, "watcher", &[]), 0, "published 3 reports of openreports.io/v1alpha1\n");
    // The webhook of this cluster looks after none of the namespaces.
    let everywhere = kubectl(&["get", "clusterreports", "jobgate-audit", "-o", "json"]).ok();
    let everywhere: Value = serde_json::from_str(&everywhere.stdout).expect("a report");
    is(&everywhere, "/summary", json!({"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 3}));
    is(&everywhere, "/results/0/rule", json!("not-judged/namespace"));
    let before = reports(&cluster, &OPEN_REPORTS);
    let (namespace, two) = &before[1];
    assert_eq!(namespace, "two");
    is(two, "/summary", json!({"pass": 0, "fail": 1, "warn": 4, "error": 0, "skip": 0}));
    is(two, "/source", json!("jobgate"));
    is(two, "/results/0/policy", json!("deadline"));
    is(two, "/results/0/resources/0/name", json!("endless"));
    is(two, "/metadata/annotations/jobgate.dev~1policy", json!("default"));

    // Where there is no report yet, the API server answers a list of them with null.
    says(
        &audit(&cluster, "watcher", &["-n", "three"]),
        0,
        "published 0 reports of openreports.io/v1alpha1\n",
    );

    // The same findings write nothing.
    audit(&cluster, "watcher", &[]);
    let versions = |reports: &[(String, Value)]| -> Vec<Value> {
        reports.iter().map(|(_, report)| report["metadata"]["resourceVersion"].clone()).collect()
    };
    assert_eq!(versions(&before), versions(&reports(&cluster, &OPEN_REPORTS)));

    // What somebody else has written stays, and what has no findings any more goes.
    let foreign = json!({
        "apiVersion": OPEN_REPORTS.api_version(), "kind": "Report", "metadata": {"name": "other"},
        "summary": {"pass": 1}, "results": [{"policy": "theirs", "result": "pass"}],
    });
    create("one", &foreign);
    kubectl(&["delete", "job", "-n", "one", "endless", "--cascade=background"]).ok();
    kubectl(&["delete", "job", "-n", "two", "endless", "good", "--cascade=background"]).ok();
    eventually(Duration::from_secs(30), || {
        let left = kubectl(&["get", "jobs", "-n", "two", "-o", "name"]).stdout
            + &kubectl(&["get", "jobs", "-n", "one", "-o", "name"]).stdout;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .expect("the jobs are gone");
    // An audit of some namespaces leaves the reports of others alone.
    says(
        &audit(&cluster, "watcher", &["-n", "one"]),
        0,
        "published 0 reports of openreports.io/v1alpha1, deleted 1 without findings\n",
    );
    assert_eq!(namespaces(&cluster, &OPEN_REPORTS), ["one", "two"]);
    says(&audit(&cluster, "watcher", &[]), 0, "deleted 1 without findings\n");
    let left = reports(&cluster, &OPEN_REPORTS);
    assert_eq!(left.len(), 1);
    is(&left[0].1, "/metadata/name", json!("other"));

    // A long report is accepted, too, and the file of `--format` is one that kubectl applies.
    let name = |nth: usize| format!("many-{nth}");
    let many: Vec<Value> = (0..600)
        .map(|nth| {
            over(endless(&name(nth)), json!({"metadata": {"namespace": "three"}, "spec": {"suspend": true}}))
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": many});
    let _ = cluster.admin.run(&["create", "-f", "-"], &list.to_string());
    says(&audit(&cluster, "watcher", &["-n", "three"]), 0, "published 1 report of openreports.io/v1alpha1\n");
    let three = &reports(&cluster, &OPEN_REPORTS)
        .into_iter()
        .find(|(namespace, _)| namespace == "three")
        .expect("a report")
        .1;
    let results = three["results"].as_array().expect("results");
    let counted = |key: &str| three["summary"][key].as_u64().expect("a count");
    assert!(counted("fail") > 300 && counted("warn") > 600, "{}", three["summary"]);
    assert!(results.len() <= 1001, "{}", results.len());
    for (format, api) in [("openreports", &OPEN_REPORTS), ("policy-report", &POLICY_REPORTS)] {
        let output = Command::new(env!("CARGO_BIN_EXE_jobgate"))
            .args(["lint", "--no-config", "--format", format, "tests/rules/deadline"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("run jobgate lint");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let applied = cluster
            .admin
            .run(&["apply", "--server-side", "--validate=strict", "-n", "two", "-f", "-"], &text);
        assert!(applied.ok().stdout.contains("jobgate-lint serverside-applied"), "{}", api.group);
    }
}
