//! `jobgate dry-run` says beforehand what the server then does, webhook included.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jobgate::text::value::{Value, json};

use crate::manifests::{endless, gpu_job, job, over, pytorch_job};
use crate::process::eventually;
use crate::scenario::{Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("dry_run_shows_what_is_stored", shows_what_is_stored),
    Scenario::new("dry_run_is_denied_as_the_server_denies", is_denied_alike),
    Scenario::new("dry_run_is_refused_as_the_server_refuses", is_refused_alike),
    Scenario::new("dry_run_of_an_update_asks_the_cluster", asks_the_cluster),
    Scenario::new("dry_run_tries_the_pods_on_the_cluster", tries_the_pods),
    Scenario::new("dry_run_says_which_namespaces_the_registration_excludes", says_what_is_excluded),
];

/// Runs the command on an object, in the place's namespace; returns its standard output.
fn dry_run(place: &Place<'_>, arguments: &[&str], object: &Value) -> String {
    String::from_utf8(run(place, arguments, object).stdout).expect("text")
}

fn run(place: &Place<'_>, arguments: &[&str], object: &Value) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
    command.args(["dry-run", "-n", &place.namespace]).args(arguments).arg("-");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start jobgate");
    child.stdin.take().expect("its input").write_all(object.to_string().as_bytes()).expect("write its input");
    child.wait_with_output().expect("wait for jobgate")
}

#[track_caller]
fn verdict(place: &Place<'_>, arguments: &[&str], object: &Value) -> String {
    let mut all = vec!["--format", "json"];
    all.extend(arguments);
    let report: Value = serde_json::from_str(&dry_run(place, &all, object)).expect("a report");
    report["verdicts"][0]["verdict"].as_str().expect("a verdict").to_owned()
}

fn shows_what_is_stored(place: &Place<'_>) {
    for object in [job("plain", json!({})), gpu_job("gpu", json!({}))] {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(verdict(place, &[], &object), "allowed, patched");
        let shown: Value =
            serde_json::from_str(&dry_run(place, &["-o", "json"], &object)).expect("an object");
        place.apply(&object).quiet();
        let mut stored = place.stored(&format!("job/{name}"));
        // Only the server can make these up.
        stored["spec"].as_object_mut().expect("a spec").remove("selector");
        let metadata = stored["spec"]["template"]["metadata"].as_object_mut().expect("metadata");
        metadata.remove("labels");
        // Older API servers write an unset time as null (1.31 does, 1.34 does not).
        metadata.retain(|_, value| !value.is_null());
        assert_eq!(shown["spec"], stored["spec"]);
    }
}

fn is_denied_alike(place: &Place<'_>) {
    let object = endless("a");
    assert_eq!(verdict(place, &[], &object), "denied by jobgate");
    place.apply(&object).denied(&["deadline"]);
}

fn is_refused_alike(place: &Place<'_>) {
    // With neither of the two numbers the server would set both.
    let object = job("a", json!({"spec": {"completionMode": "Indexed", "parallelism": 2}}));
    assert_eq!(verdict(place, &[], &object), "rejected by the API server");
    place.apply(&object).refused(&["spec.completions", "when completion mode is Indexed"]);
}

fn asks_the_cluster(place: &Place<'_>) {
    let kubeconfig = place.cluster.kubeconfig_of("admin");
    let cluster = ["--cluster", "--kubeconfig", kubeconfig.to_str().expect("a path")];
    let object = job("a", json!({}));
    assert_eq!(verdict(place, &cluster, &object), "allowed, patched");
    place.apply(&object).quiet();
    assert_eq!(
        verdict(place, &cluster, &object),
        "allowed",
        "nothing changes, and nothing is filled in on UPDATE"
    );
    place.apply(&object).ok();
    assert!(
        dry_run(place, &cluster, &object).contains("Job a (update): allowed"),
        "it is said what was judged"
    );
    let containers = json!([{"name": "trainer", "image": "registry.example.com/trainer:2"}]);
    let changed = over(object, json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    assert_eq!(verdict(place, &cluster, &changed), "rejected by the API server");
    place.apply(&changed).refused(&["field is immutable"]);
    let lost = over(job("a", json!({})), json!({"metadata": {"namespace": "nowhere"}}));
    let told = |object: &Value| String::from_utf8(run(place, &cluster, object).stderr).expect("text");
    assert!(told(&lost).contains("the namespace `nowhere` does not exist"), "{}", told(&lost));
    assert_eq!(told(&changed), "");
}

/// Validation, Pod Security, a quota and the rights of the caller have their say, and nothing is stored.
fn tries_the_pods(place: &Place<'_>) {
    let file = |user: &str| place.cluster.kubeconfig_of(user).to_str().expect("a path").to_owned();
    let report = |user: &str, arguments: &[&str], object: &Value| {
        let kubeconfig = file(user);
        let all = [&["--cluster", "--kubeconfig", &kubeconfig, "--format", "json"], arguments].concat();
        let output = run(place, &all, object);
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|_| panic!("a report: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let refused = |object: &Value| {
        let report = report("admin", &["--try-pods"], object);
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let of_pods = findings.into_iter().filter(|finding| finding["rule"] == "pod-refused");
        (report["verdicts"][0]["verdict"].clone(), of_pods.collect::<Vec<_>>())
    };
    for object in [job("a", json!({})), pytorch_job("a", json!({}))] {
        let (verdict, refused) = refused(&object);
        assert_eq!((verdict, refused), (json!("allowed, patched"), Vec::new()), "{object}");
    }
    let (hard, used) = (json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"}));
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    place.create(&quota).ok();
    // Nothing else counts what is used.
    let status = json!({"status": {"hard": hard, "used": used}}).to_string();
    place
        .kubectl(&["patch", "resourcequota", "q", "--subresource=status", "--type=merge", "-p", &status])
        .ok();
    let cpus = json!({"limits": {"cpu": "2", "memory": "1Gi"}});
    let containers =
        json!([{"name": "pytorch", "image": "registry.example.com/trainer:1.4", "resources": cpus}]);
    let template = json!({"template": {"spec": {"containers": containers}}});
    let large = pytorch_job("a", json!({"spec": {"pytorchReplicaSpecs": {"Worker": template}}}));
    // The API server learns of a quota a moment later.
    let worker = eventually(Duration::from_secs(20), || {
        let (verdict, found) = refused(&large);
        assert_eq!(verdict, "allowed, patched", "the object is stored");
        let has_quota = |finding: &Value| finding["message"].to_string().contains("exceeded quota: q");
        found.iter().find(|finding| has_quota(finding)).cloned().ok_or_else(|| format!("{found:?}"))
    });
    let worker = worker.expect("a finding");
    assert_eq!(
        (&worker["action"], &worker["path"]),
        (&json!("warn"), &json!("spec.pytorchReplicaSpecs[Worker].template"))
    );
    let restricted =
        ["label", "namespace", &place.namespace, "pod-security.kubernetes.io/enforce=restricted"];
    place.cluster.admin.run(&restricted, "").ok();
    let found = eventually(Duration::from_secs(20), || {
        let (verdict, found) = refused(&job("a", json!({})));
        assert_eq!(verdict, "allowed, patched", "the object is stored");
        let is_told =
            found.iter().any(|finding| finding["message"].to_string().contains("violates PodSecurity"));
        if is_told { Ok(found) } else { Err(format!("{found:?}")) }
    });
    let found = found.expect("a finding");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["action"], "deny");
    assert_eq!(place.kubectl(&["get", "pods", "-o", "json"]).json()["items"], json!([]), "nothing is stored");
    // Without the right to create pods, and without the flag, it is said that pods were not tried.
    let report = report("watcher", &["--try-pods"], &job("a", json!({})));
    assert!(report["unjudged"].to_string().contains("you may not create pods"), "{report}");
    let kubeconfig = file("admin");
    let output = run(place, &["--cluster", "--kubeconfig", &kubeconfig], &job("a", json!({})));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--try-pods"), "{output:?}");
}

/// The gate asks about this place, and never about the system's namespaces or those of nobody.
fn says_what_is_excluded(place: &Place<'_>) {
    let kubeconfig = place.cluster.kubeconfig_of("admin");
    let cluster = ["--cluster", "--kubeconfig", kubeconfig.to_str().expect("a path"), "--format", "json"];
    let unjudged = |namespace: &str| {
        let object = over(job("a", json!({})), json!({"metadata": {"namespace": namespace}}));
        let report: Value = serde_json::from_str(&dry_run(place, &cluster, &object)).expect("a report");
        report["unjudged"].clone()
    };
    assert_eq!(unjudged(&place.namespace), Value::Null);
    let other = place.cluster.unique("excluded");
    place.cluster.admin.run(&["create", "namespace", &other], "").ok();
    let said = unjudged(&other);
    assert_eq!(
        (&said[0]["reason"], &said[0]["object"]["name"]),
        (&json!("namespace"), &json!(other)),
        "{said}"
    );
}
