//! `jobgate dry-run` says beforehand what the server then does, webhook included.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use jobgate::text::value::{Value, json};

use crate::manifests::{endless, gpu_job, job, over};
use crate::scenario::{Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("dry_run_shows_what_is_stored", shows_what_is_stored),
    Scenario::new("dry_run_is_denied_as_the_server_denies", is_denied_alike),
    Scenario::new("dry_run_is_refused_as_the_server_refuses", is_refused_alike),
    Scenario::new("dry_run_of_an_update_asks_the_cluster", asks_the_cluster),
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
