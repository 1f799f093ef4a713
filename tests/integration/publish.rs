//! Reports of an audit, written into an API server that has none, forbids, pages and breaks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use jobgate::cluster::publish::{Published, Unpublished, publish};
use jobgate::judge::finding::{Finding, Level, Part};
use jobgate::report::{Impact, Located, Location, ObjectId, Report};
use jobgate::text::lines::Position;
use jobgate::text::pointer::Pointer;
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;

type Outcome = (Result<Published, Unpublished>, Vec<String>, Vec<Value>);

/// Publishes findings in namespaces to what a script answers to a method and a path. Returns the requests, and
/// what was applied.
async fn run(
    found_in: &[&str],
    audited: &[&str],
    script: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> Outcome {
    let mut report = Report { impact: Some(Impact::default()), ..Report::default() };
    report.findings = found_in.iter().map(|namespace| located(namespace)).collect();
    publish_report(&report, audited, script).await
}

async fn publish_report(
    report: &Report,
    audited: &[&str],
    script: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> Outcome {
    let diary: Arc<Mutex<(Vec<String>, Vec<Value>)>> = Arc::default();
    let (script, seen) = (Arc::new(script), Arc::clone(&diary));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect().await?.to_bytes();
            let (code, answer) = script(&line);
            let mut seen = seen.lock().unwrap();
            seen.0.push(line);
            seen.1.extend(serde_json::from_slice::<Value>(&body).ok());
            Ok::<_, tower::BoxError>(
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
            )
        }
    });
    let namespaces: BTreeSet<String> = audited.iter().map(|name| (*name).to_owned()).collect();
    let published = publish(&Client::new(service, "default"), report, &namespaces).await;
    let (requests, bodies) = diary.lock().unwrap().clone();
    (published, requests, bodies)
}

fn located(namespace: &str) -> Located {
    let object = ObjectId {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: Some("train".to_owned()),
    };
    let place = Position { line: 1, column: 1 };
    let location = Location { file: "job".into(), span: 0..0, start: place, end: place };
    let finding = Finding {
        rule: "deadline".into(),
        level: Level::Deny,
        pointer: Pointer::root(),
        part: Part::Key,
        message: "unset".into(),
        help: "set it".into(),
        path: Pointer::root(),
        labels: Vec::new(),
        fix: None,
        fills: false,
        items: None,
        incident: None,
        loss: None,
    };
    Located { object: Some(object.into()), ..Located::new(location, 0, finding) }
}

fn resources(names: [&str; 2]) -> (u16, Value) {
    (200, json!({"kind": "APIResourceList", "resources": names.map(|name| json!({"name": name}))}))
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "reason": reason, "code": code}))
}

fn list(namespaces: &[&str], next: &str) -> (u16, Value) {
    let item = |namespace: &&str| json!({"metadata": {"name": "jobgate-audit", "namespace": *namespace}});
    // An API server that has none answers null.
    let items = (!namespaces.is_empty()).then(|| namespaces.iter().map(item).collect::<Vec<Value>>());
    (200, json!({"kind": "PartialObjectMetadataList", "metadata": {"continue": next}, "items": items}))
}

const OPEN: &str = "GET /apis/openreports.io/v1alpha1";
const LIST: &str =
    "/apis/openreports.io/v1alpha1/reports?labelSelector=jobgate.dev%2Freport%3Daudit&limit=500";

fn served(line: &str) -> Option<(u16, Value)> {
    (line == OPEN).then(|| resources(["reports", "clusterreports"]))
}

#[tokio::test]
async fn what_has_no_findings_any_more_is_deleted_on_all_pages() {
    let (published, requests, bodies) = run(&["a", "b"], &[], |line| {
        served(line).unwrap_or_else(|| match line {
            line if line == format!("GET {LIST}") => list(&["a", "stale"], "n/1"),
            line if line == format!("GET {LIST}&continue=n%2F1") => {
                // One of another name with our label is somebody else's.
                let (code, mut page) = list(&["later", "b"], "");
                page["items"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"metadata": {"name": "x", "namespace": "c"}}));
                (code, page)
            }
            // Somebody else was faster.
            line if line.starts_with("DELETE") && line.contains("/later/") => status(404, "NotFound"),
            line if line.starts_with("GET") => list(&[], ""),
            _ => (200, json!({})),
        })
    })
    .await;
    let published = published.unwrap();
    assert_eq!((published.written, published.deleted, published.problems), (2, 1, vec![]));
    let writes: Vec<&String> = requests.iter().filter(|line| !line.starts_with("GET")).collect();
    let report = |namespace: &str| {
        format!("/apis/openreports.io/v1alpha1/namespaces/{namespace}/reports/jobgate-audit")
    };
    assert_eq!(
        writes,
        [
            &format!("PATCH {}?fieldManager=jobgate-audit&force=true", report("a")),
            &format!("PATCH {}?fieldManager=jobgate-audit&force=true", report("b")),
            &format!("DELETE {}", report("stale")),
            &format!("DELETE {}", report("later")),
        ]
    );
    assert_eq!(bodies[0]["metadata"]["namespace"], "a");
}

#[tokio::test]
async fn reports_of_other_namespaces_are_neither_listed_nor_deleted() {
    let (published, requests, _) = run(&["a"], &["a", "b", "../c"], |line| {
        served(line).unwrap_or_else(|| match line {
            line if line.starts_with("GET") && line.contains("/namespaces/b/") => list(&["b"], ""),
            line if line.starts_with("GET") => list(&[], ""),
            _ => (200, json!({})),
        })
    })
    .await;
    assert_eq!(published.unwrap().deleted, 1);
    assert!(
        requests
            .iter()
            .skip(1)
            .all(|line| line.contains("/namespaces/a/") || line.contains("/namespaces/b/")),
        "{requests:?}"
    );
}

#[tokio::test]
async fn the_api_is_the_one_that_is_served() {
    let older = |line: &str| match line {
        OPEN => (404, json!("404 page not found")),
        "GET /apis/wgpolicyk8s.io/v1alpha2" => resources(["policyreports", "clusterpolicyreports"]),
        line if line.starts_with("GET") => list(&[], ""),
        _ => (200, json!({})),
    };
    let (published, _, bodies) = run(&["a"], &[], older).await;
    assert_eq!(
        (published.unwrap().api.as_str(), &bodies[0]["kind"]),
        ("wgpolicyk8s.io/v1alpha2", &"PolicyReport".into())
    );
    // Half a definition is none.
    let half = |line: &str| match line {
        OPEN => resources(["reports", "reports/status"]),
        _ => status(404, "NotFound"),
    };
    let (published, requests, _) = run(&["a"], &[], half).await;
    assert!(matches!(published, Err(Unpublished::NotServed)));
    assert_eq!(requests.len(), 2, "nothing is written");
    // A server that breaks is not one without reports.
    let (published, _, _) = run(&["a"], &[], |_| status(503, "ServiceUnavailable")).await;
    assert!(matches!(published, Err(Unpublished::Discovery(_))));
}

#[tokio::test]
async fn an_audit_that_lacks_something_is_not_published() {
    let mut report = Report { impact: Some(Impact::default()), ..Report::default() };
    report.impact.as_mut().unwrap().problems.push("cannot list jobs.batch".to_owned());
    let (published, requests, _) = publish_report(&report, &[], |_| status(500, "")).await;
    assert!(matches!(published, Err(Unpublished::Incomplete)) && requests.is_empty());
}

#[tokio::test]
async fn a_server_that_rejects_everything_is_not_asked_for_all_of_it() {
    let names: Vec<String> = (0..500).map(|nth| format!("n{nth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (published, requests, _) =
        run(&names, &[], |line| served(line).unwrap_or_else(|| status(422, "Invalid"))).await;
    let published = published.unwrap();
    assert_eq!((published.written, published.problems.len()), (0, 11));
    assert_eq!(
        published.problems[0],
        "cannot write reports.openreports.io in the namespace `n0`: the API server answered 422 Unprocessable Entity; is the CustomResourceDefinition another?"
    );
    assert!(requests.len() < 20, "{}", requests.len());
}
