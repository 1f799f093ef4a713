//! The audit of an API server that lists in pages, forgets where it was, forbids and breaks.
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use jobgate::cluster::Connection;
use jobgate::cluster::audit::{self, Options, Progress};
use jobgate::judge::policy::Policy;
use jobgate::judge::selection::Selection;
use jobgate::report::{self, Format, Report, Tally};
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;

type Script = dyn Fn(&str, usize) -> (u16, Value) + Send + Sync;

/// Runs an audit of what a script answers to each path and its turn among equal ones.
async fn run(
    options: &Options,
    script: impl Fn(&str, usize) -> (u16, Value) + Send + Sync + 'static,
) -> (Report, Vec<String>) {
    let diary: Arc<Mutex<Vec<String>>> = Arc::default();
    let (script, seen): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&diary));
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let turn = seen.lock().unwrap().iter().filter(|known| **known == uri).count();
        seen.lock().unwrap().push(uri.clone());
        let (code, body) = script(&uri, turn);
        async move {
            Ok::<_, tower::BoxError>(
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
            )
        }
    });
    let connection =
        Connection { client: Client::new(service, "default"), server: "https://fake".to_owned() };
    let policy = jobgate::policies::builtin("default").unwrap();
    let report = audit::audit(&connection, &policy, options, &Progress::default()).await;
    let diary = diary.lock().unwrap().clone();
    (report, diary)
}

/// A Job that lacks a deadline; as in a list, without its kind.
fn job(namespace: &str, name: &str, change: Value) -> Value {
    let mut job = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}")},
        "spec": {"ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    jobgate::text::patch::merge(&mut job, &change);
    job
}

fn page(items: &[Value], next: &str) -> (u16, Value) {
    (200, json!({"kind": "List", "metadata": {"resourceVersion": "1", "continue": next}, "items": items}))
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "reason": reason, "code": code}))
}

fn names(report: &Report) -> Vec<String> {
    report.findings.iter().filter_map(|located| located.object.as_ref()?.name.clone()).collect()
}

fn total(report: &Report) -> Tally {
    report.impact.as_ref().unwrap().total()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_to_the_end() {
    let (report, diary) = run(&Options::default(), |uri, _| match uri {
        "/apis/batch/v1/jobs?limit=500" => page(&[job("a", "one", json!({}))], "x/y"),
        "/apis/batch/v1/jobs?limit=500&continue=x%2Fy" => {
            page(&[job("a", "two", json!({})), job("b", "three", json!({}))], "")
        }
        _ => page(&[], ""),
    })
    .await;
    assert_eq!(names(&report), ["one", "two", "three"]);
    assert_eq!(total(&report), Tally { objects: 3, denied: 3, ..Tally::default() });
    assert!(diary.iter().all(|uri| !uri.contains("watch")) && report.impact.unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn accelerators_are_added_up_for_what_runs() {
    let gpus = |team: &str, deadline: Value| {
        json!({"metadata": {"labels": {"team": team}}, "spec": {"activeDeadlineSeconds": deadline,
            "template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}}}})
    };
    let mut finished = gpus("vision", 3600.into());
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let (one, two) = (gpus("vision", Value::Null), gpus("speech", 7200.into()));
    let (report, _) = run(&Options::default(), move |uri, _| match uri {
        "/apis/batch/v1/jobs?limit=500" => page(
            &[
                job("a", "one", one.clone()),
                job("a", "two", two.clone()),
                job("a", "done", finished.clone()),
                job("a", "cpu", json!({})),
            ],
            "",
        ),
        _ => page(&[], ""),
    })
    .await;
    let row = |team: &str, unbounded: Value, hours: u64| json!({"namespace": "a", "team": team, "objects": 1, "held": {"gpu": 8}, "unbounded": unbounded, "hours": hours});
    let mut out = Vec::new();
    report::write(&report, Format::Json, &report::Options::default(), &mut out).unwrap();
    let document: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        document["accelerators"],
        json!([row("speech", json!({}), 16), row("vision", json!({"gpu": 8}), 0)])
    );
    for (format, expected) in [
        (Format::Concise, "Job a/two: spec.activeDeadlineSeconds: note[accelerator-hours-bounded]: "),
        (
            Format::Markdown,
            "| <code>a</code> | <code>vision</code> | 1 | 8 GPUs |  |\n| <code>a</code> | <code>speech</code> | 1 |  | 16 |\n",
        ),
        (Format::Html, "<h3>Accelerator hours at most, by team</h3>\n<table>\n<tr><td>speech</td>"),
    ] {
        let mut out = Vec::new();
        report::write(&report, format, &report::Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(expected), "{format:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_expires_is_read_anew_without_duplicates() {
    let (report, diary) = run(&Options::default(), |uri, turn| match (uri, turn) {
        ("/apis/batch/v1/jobs?limit=500", _) => page(&[job("a", "one", json!({}))], "next"),
        ("/apis/batch/v1/jobs?limit=500&continue=next", 0) => status(410, "Expired"),
        ("/apis/batch/v1/jobs?limit=500&continue=next", _) => page(&[job("a", "two", json!({}))], ""),
        _ => page(&[], ""),
    })
    .await;
    assert_eq!(names(&report), ["one", "two"]);
    assert_eq!(
        (total(&report).objects, diary.iter().filter(|uri| uri.contains("/batch/v1/jobs?")).count()),
        (2, 4)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_always_expires_is_a_problem() {
    let (report, _) = run(&Options::default(), |uri, _| match uri {
        "/apis/batch/v1/jobs?limit=500" => page(&[job("a", "one", json!({}))], "next"),
        uri if uri.contains("continue=") => status(410, "Expired"),
        _ => page(&[], ""),
    })
    .await;
    assert_eq!(names(&report), [""; 0], "half a list would be counted as a whole one");
    let problems = report.impact.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("jobs.batch"), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_is_said_and_the_rest_is_judged() {
    let (report, _) = run(&Options::default(), |uri, _| match uri {
        uri if uri.contains("/cronjobs") || uri.contains("/persistentvolumeclaims") => {
            status(403, "Forbidden")
        }
        uri if uri.contains("/jobs") => page(&[job("a", "one", json!({}))], ""),
        _ => status(404, "NotFound"),
    })
    .await;
    assert_eq!(names(&report), ["one"]);
    // The formats for programs say so as well.
    let reasons: Vec<&str> = report.unjudged.iter().map(|unjudged| unjudged.reason.word()).collect();
    assert!(
        reasons == ["not-looked-up", "not-looked-up", "not-listed"] && report.is_incomplete(),
        "{reasons:?}"
    );
    let impact = report.impact.unwrap();
    assert!(
        impact.problems.len() == 1 && impact.problems[0].contains("cronjobs.batch"),
        "{:?}",
        impact.problems
    );
    assert!(
        impact.notices.len() == 1 && impact.notices[0].contains("persistentvolumeclaims"),
        "{:?}",
        impact.notices
    );
    assert!(
        impact.unserved.contains(&"PyTorchJob") && impact.unserved.contains(&"TrainJob"),
        "{:?}",
        impact.unserved
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_of_trouble_is_waited_out() {
    let (report, _) = run(&Options::default(), |uri, turn| match uri {
        uri if uri.contains("/jobs") && turn == 0 => status(503, "ServiceUnavailable"),
        uri if uri.contains("/jobs") => page(&[job("a", "one", json!({}))], ""),
        _ => page(&[], ""),
    })
    .await;
    assert!(names(&report) == ["one"] && report.impact.unwrap().problems.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_enforcement_would_not_hit_is_left_out_and_counted() {
    let owner = |uid: &str| json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": uid, "controller": true}]}});
    let by_hand = json!({"metadata": {"annotations": {"cronjob.kubernetes.io/instantiate": "manual"}}});
    let mut manual = job("a", "manual", owner("a-nightly"));
    jobgate::text::patch::merge(&mut manual, &by_hand);
    let jobs = [
        job("a", "child", owner("a-nightly")),
        job("a", "forged", owner("nobody")),
        manual,
        job("a", "done", json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}})),
        job("a", "going", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        job("kube-system", "system", json!({})),
    ];
    let nightly = json!({
        "metadata": {"namespace": "a", "name": "nightly", "uid": "a-nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": job("a", "", json!({"metadata": null}))},
    });
    let answer = move |uri: &str, _: usize| match uri {
        uri if uri.contains("/cronjobs") => page(std::slice::from_ref(&nightly), ""),
        uri if uri.contains("/batch/v1/") => page(&jobs, ""),
        _ => page(&[], ""),
    };
    let (report, _) = run(&Options::default(), answer.clone()).await;
    assert_eq!(names(&report), ["nightly", "forged", "manual"]);
    let left_out = report.impact.unwrap().left_out;
    assert_eq!((left_out.children, left_out.finished, left_out.deleting, left_out.system), (1, 1, 1, 1));
    let (report, _) = run(&Options { include_finished: true, ..Options::default() }, answer).await;
    assert!(names(&report).contains(&"done".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_selected_rules_and_checks_are_reported() {
    let typo = json!({"metadata": {"annotations": {"jobgate.dev/ignore": "dedline"}}});
    let jobs = [job("a", "one", typo)];
    let answer = move |uri: &str, _: usize| match uri {
        uri if uri.contains("/batch/v1/jobs") => page(&jobs, ""),
        _ => page(&[], ""),
    };
    for (ignore, expected) in [
        (&[][..], &["deadline", "unknown-rule"][..]),
        (&["unknown-*"], &["deadline"]),
        (&["deadline"], &["unknown-rule"]),
    ] {
        let ignore: Vec<String> = ignore.iter().map(|id| (*id).to_owned()).collect();
        let selection = Selection::new(Policy::default().rules(), &[], &ignore).unwrap();
        let (report, _) = run(&Options { selection, ..Options::default() }, answer.clone()).await;
        let mut rules: Vec<&str> = report.findings.iter().map(|located| &*located.finding.rule).collect();
        rules.retain(|rule| ["deadline", "unknown-rule"].contains(rule));
        rules.sort_unstable();
        assert_eq!(rules, expected, "{ignore:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_and_selectors_are_the_api_servers_to_apply() {
    let options = Options {
        namespaces: ["a".to_owned(), "typo".to_owned()].into(),
        selector: Some("team=x,tier!=y".to_owned()),
        ..Options::default()
    };
    let (report, diary) = run(&options, |uri, _| match uri {
        "/api/v1/namespaces/typo" => status(404, "NotFound"),
        "/apis/batch/v1/namespaces/a/jobs?labelSelector=team%3Dx%2Ctier%21%3Dy&limit=500" => {
            page(&[job("a", "one", json!({}))], "")
        }
        _ => page(&[], ""),
    })
    .await;
    assert_eq!(names(&report), ["one"], "{diary:?}");
    assert_eq!(report.impact.unwrap().problems, ["there is no namespace `typo`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_one_node_can_mount_denies_and_an_unknown_one_does_not() {
    let mounts = json!({"spec": {"activeDeadlineSeconds": 60, "parallelism": 4, "completions": 4, "template": {"spec": {
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "checkpoints"}}]}}}});
    let claims = [
        json!({"metadata": {"namespace": "a", "name": "checkpoints"}, "spec": {"accessModes": ["ReadWriteOnce"]}}),
    ];
    for (known, denied) in [(true, 1), (false, 0)] {
        let (mounts, claims) = (mounts.clone(), claims.clone());
        let (report, _) = run(&Options::default(), move |uri, _| match uri {
            uri if uri.contains("persistentvolumeclaims") && known => page(&claims, ""),
            uri if uri.contains("persistentvolumeclaims") => status(403, "Forbidden"),
            uri if uri.contains("/batch/v1/jobs") => page(&[job("a", "one", mounts.clone())], ""),
            _ => page(&[], ""),
        })
        .await;
        assert_eq!(total(&report).denied, denied);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_kinds_that_are_not_judged_are_counted() {
    let (report, diary) = run(&Options::default(), |path, _| match path {
        "/apis" => {
            let group = |name: &str, version: &str| json!({"name": name, "preferredVersion": {"groupVersion": format!("{name}/{version}")}});
            (200, json!({"groups": [group("apps", "v1"), group("batch.x-k8s.io", "v1alpha1"), group("ray.io", "v1")]}))
        }
        "/apis/batch.x-k8s.io/v1alpha1" => {
            (200, json!({"resources": [{"name": "jobsets", "kind": "JobSet"}, {"name": "jobsets/status", "kind": "JobSet"}]}))
        }
        "/apis/ray.io/v1" => (200, json!({"resources": [{"name": "rayclusters", "kind": "RayCluster"}, {"name": "rayservices", "kind": "RayService"}]})),
        "/apis/batch.x-k8s.io/v1alpha1/jobsets?limit=1" => (200, json!({"metadata": {"remainingItemCount": 4}, "items": [{}]})),
        "/apis/ray.io/v1/rayclusters?limit=1" => status(403, "Forbidden"),
        path if path.starts_with("/apis/batch/v1/jobs") => page(&[job("a", "one", json!({}))], ""),
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations" => status(403, "Forbidden"),
        _ => page(&[], ""),
    })
    .await;
    let said: Vec<String> = report.unjudged.iter().map(|unjudged| unjudged.message().into_owned()).collect();
    assert_eq!(
        said,
        [
            "Jobgate does not judge the kind JobSet.batch.x-k8s.io",
            "cannot count rayclusters.ray.io, which are not judged: the API server forbids it",
            "cannot list validatingwebhookconfigurations: the API server forbids it; whether jobs in these namespaces are denied or warned about is unknown",
        ]
    );
    assert_eq!(
        report.unjudged_in_short().as_deref(),
        Some("5 objects not judged (JobSet.batch.x-k8s.io 5); 2 look-ups failed")
    );
    assert!(!diary.iter().any(|path| path.contains("rayservices") || path.contains("status")), "{diary:?}");
}

/// A TrainJob, and the runtime with its pods, which mount a claim of one node.
#[tokio::test(flavor = "multi_thread")]
async fn a_train_job_is_judged_with_its_runtime() {
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let pod = json!({
        "containers": [{"name": "node", "image": "i"}],
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
    });
    let node = json!({"name": "node", "template": {
        "metadata": {"labels": labels}, "spec": {"podReplacementPolicy": "Failed", "template": {"spec": pod}},
    }});
    let runtime = json!({
        "metadata": {"name": "torch"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}},
    });
    let train_job = json!({
        "metadata": {"namespace": "a", "name": "train", "uid": "u"},
        "spec": {"activeDeadlineSeconds": 60, "runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 4}},
    });
    let claim = json!({
        "metadata": {"namespace": "a", "name": "checkpoints"}, "spec": {"accessModes": ["ReadWriteOnce"]},
    });
    let group = "/apis/trainer.kubeflow.org/v1alpha1/";
    let script = |may_list: bool| {
        let (runtime, train_job, claim) = (runtime.clone(), train_job.clone(), claim.clone());
        move |uri: &str, turn: usize| match uri {
            "/api/v1/persistentvolumeclaims?limit=500" => page(std::slice::from_ref(&claim), ""),
            _ if uri.starts_with(&format!("{group}trainjobs?")) => page(std::slice::from_ref(&train_job), ""),
            // Once for what is known, and once to be audited itself.
            _ if uri.starts_with(&format!("{group}clustertrainingruntimes?")) => match turn {
                0 if !may_list => status(403, "Forbidden"),
                _ => page(std::slice::from_ref(&runtime), ""),
            },
            _ => page(&[], ""),
        }
    };
    let found = |report: &Report| -> Vec<(String, String)> {
        let located =
            report.findings.iter().filter(|located| located.finding.rule == "checkpoint-volume-access");
        located.map(|one| (one.finding.level.as_str().to_owned(), one.finding.path.to_string())).collect()
    };
    let (report, _) = run(&Options::default(), script(true)).await;
    assert_eq!(found(&report), [("deny".to_owned(), "spec.runtimeRef.name".to_owned())]);
    let (report, _) = run(&Options::default(), script(false)).await;
    assert_eq!(found(&report), []);
    let notices = report.impact.unwrap().notices;
    assert!(notices.iter().any(|notice| notice.contains("runtimes are unknown")), "{notices:?}");
}

/// A PyTorchJob whose workers share a claim that one node can mount, as `kubectl scale` leaves it.
fn scaled_job(name: &str, workers: i64, entries: Value) -> Value {
    let pod = json!({
        "containers": [{"name": "pytorch", "image": "i@sha256:0", "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}]}],
        "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
    });
    json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "managedFields": entries},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 60},
            "pytorchReplicaSpecs": {"Worker": {"replicas": workers, "restartPolicy": "Never", "template": {"spec": pod}}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_scale_subresource_let_in_is_found_and_says_so() {
    let owned = json!({"f:spec": {"f:pytorchReplicaSpecs": {"f:Worker": {"f:replicas": {}}}}});
    let entry = |subresource: Value| json!([{"manager": "kubectl", "operation": "Update", "subresource": subresource, "fieldsV1": owned}]);
    let other = json!([{"manager": "kubectl", "subresource": "scale", "fieldsV1": {"f:spec": {}}}]);
    let jobs = [
        scaled_job("scaled", 8, entry("scale".into())),
        scaled_job("written", 8, entry(Value::Null)),
        scaled_job("other", 8, other),
        scaled_job("one", 1, entry("scale".into())),
    ];
    let claim = json!({"metadata": {"namespace": "a", "name": "checkpoints"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let (report, _) = run(&Options::default(), move |uri, _| match uri {
        uri if uri.contains("/pytorchjobs") => page(&jobs, ""),
        uri if uri.contains("/persistentvolumeclaims") => page(std::slice::from_ref(&claim), ""),
        _ => page(&[], ""),
    })
    .await;
    let told: Vec<(String, &str, String)> = report
        .findings
        .iter()
        .flat_map(|located| {
            let name = located.object.as_ref().unwrap().name.clone().unwrap();
            let scaled = located.related.iter().filter(|related| related.text.contains("`scale`"));
            scaled.map(move |related| (name.clone(), &*located.finding.rule, related.text.to_string()))
        })
        .collect();
    let text = "set to 8 by `kubectl` through the subresource `scale`, which is not judged";
    assert_eq!(told, [("scaled".to_owned(), "checkpoint-volume-access", text.to_owned())]);
    let found = report.findings.iter().filter(|located| located.finding.rule == "checkpoint-volume-access");
    assert_eq!(found.count(), 3, "and what it finds does not depend on who set it");
    for format in [Format::Human, Format::Json] {
        let mut out = Vec::new();
        report::write(&report, format, &report::Options::default(), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains(text), "{format:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_whose_pods_are_refused_are_named() {
    let train = |name: &str, status: Value| {
        let template =
            json!({"spec": {"containers": [{"name": "pytorch", "image": "registry.example.com/train:v1"}]}});
        let metadata = json!({
            "namespace": "a", "name": name, "uid": name, "creationTimestamp": "2026-01-02T03:04:05Z",
        });
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "status": status,
            "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        })
    };
    let started = json!({"conditions": [{"type": "Created", "status": "True"}]});
    let jobs = vec![train("frozen", Value::Null), train("runs", started.clone()), train("quota", started)];
    let event = |uid: &str, message: &str, at: &str| json!({"type": "Warning", "involvedObject": {"uid": uid}, "message": message, "lastTimestamp": at, "firstTimestamp": at});
    let said = "Error creating: pods \"quota-worker-1\" is forbidden: exceeded quota: gpus";
    let events = vec![
        event("quota", said, "2026-01-02T04:00:00Z"),
        event("quota", said, "2026-01-02T03:30:00Z"),
        event("runs", "Back-off restarting failed container", "2026-01-02T03:30:00Z"),
        event("frozen", "Error creating: Pod \"frozen-worker-0\" is invalid: spec.x", "2026-01-02T03:04:06Z"),
    ];
    let listed = jobs.clone();
    let (report, _) = run(&Options::default(), move |uri, _| match uri {
        "/apis/kubeflow.org/v1/pytorchjobs?limit=500" => page(&listed, ""),
        "/api/v1/namespaces/a/events?limit=500" => page(&events, ""),
        _ => page(&[], ""),
    })
    .await;
    let mut out = Vec::new();
    report::write(&report, Format::Human, &report::Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "2 objects whose pods the API server refuses",
        "pytorchjob/a/frozen since 2026-01-02T03:04:06Z: Error creating: Pod \"frozen-worker-0\" is invalid: spec.x",
        "pytorchjob/a/quota since 2026-01-02T03:30:00Z: Error creating: pods \"quota-worker-1\" is forbidden",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }

    // Without the permission, one request is made, and what the status does not say is left.
    let (report, diary) = run(&Options::default(), move |uri, _| match uri {
        "/apis/kubeflow.org/v1/pytorchjobs?limit=500" => page(&jobs, ""),
        uri if uri.contains("/events?") => status(403, "Forbidden"),
        _ => page(&[], ""),
    })
    .await;
    let impact = report.impact.as_ref().unwrap();
    let named: Vec<&str> = impact.refused.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(named, ["frozen"]);
    assert_eq!(diary.iter().filter(|uri| uri.contains("/events?")).count(), 1);
    assert!(
        impact.notices.iter().any(|notice| notice.contains("cannot list events")),
        "{:?}",
        impact.notices
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_do_not_end_are_named() {
    let job_with = |name: &str, terminating: u32, written: &str| {
        let entry = json!({"manager": "kube-controller-manager", "subresource": "status", "time": written});
        let status = json!({"metadata": {"managedFields": [entry]}, "status": {"terminating": terminating}});
        job("a", name, status)
    };
    const LONG_AGO: &str = "2026-01-02T03:04:05Z";
    let soon = jiff::Timestamp::now().to_string();
    let pod = |name: &str, deleted: &str, phase: &str| {
        json!({
            "metadata": {"name": name, "deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30},
            "spec": {"nodeName": "gpu-7"}, "status": {"phase": phase},
        })
    };
    let jobs = vec![
        job_with("hangs", 2, &soon),
        job_with("ends", 1, LONG_AGO),
        job_with("old", 0, LONG_AGO),
        job_with("silent", 3, LONG_AGO),
    ];
    let pods =
        [pod("p-1", LONG_AGO, "Running"), pod("p-2", &soon, "Running"), pod("p-0", LONG_AGO, "Failed")];
    let (stuck, ends) = (pods.to_vec(), vec![pod("p-3", &soon, "Running")]);
    let of = |name: &str| {
        format!("/api/v1/namespaces/a/pods?labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}&limit=500")
    };
    let (hangs_pods, ends_pods, silent_pods) = (of("hangs"), of("ends"), of("silent"));
    let listed = jobs.clone();
    let (report, _) = run(&Options::default(), move |uri, _| match uri {
        "/apis/batch/v1/jobs?limit=500" => page(&listed, ""),
        uri if uri == hangs_pods => page(&stuck, ""),
        uri if uri == ends_pods => page(&ends, ""),
        uri if uri == silent_pods => page(&[], ""),
        _ => page(&[], ""),
    })
    .await;
    let impact = report.impact.as_ref().unwrap();
    let named: Vec<(&str, Vec<&str>)> = impact
        .terminating
        .iter()
        .map(|job| (job.name.as_str(), job.pods.iter().map(|pod| pod.name.as_str()).collect()))
        .collect();
    assert_eq!(named, [("hangs", vec!["p-1"])], "{:?}", impact.notices);
    let pod = &impact.terminating[0].pods[0];
    assert_eq!((pod.node.as_str(), pod.since.to_string().as_str()), ("gpu-7", "2026-01-02T03:03:35Z"));
    let mut out = Vec::new();
    report::write(&report, Format::Human, &report::Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("job/a/hangs: p-1 on gpu-7 since 2026-01-02T03:03:35Z"), "{text}");

    // Without the permission, one request is made, and what the Jobs' status says is left.
    let (report, diary) = run(&Options::default(), move |uri, _| match uri {
        "/apis/batch/v1/jobs?limit=500" => page(&jobs, ""),
        uri if uri.contains("/pods?") => status(403, "Forbidden"),
        _ => page(&[], ""),
    })
    .await;
    let impact = report.impact.as_ref().unwrap();
    let named: Vec<&str> = impact.terminating.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(named, ["ends", "silent"]);
    assert_eq!(diary.iter().filter(|uri| uri.contains("/pods?")).count(), 1);
    assert!(impact.notices.iter().any(|notice| notice.contains("cannot list pods")), "{:?}", impact.notices);
    assert_eq!(impact.problems, [""; 0]);
}
