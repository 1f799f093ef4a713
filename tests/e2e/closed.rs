//! The overlay `fail-closed`: getting there and back, and what still works while nobody answers.

use std::time::Duration;

use jobgate::text::value::json;

use crate::api::{Api, time_until};
use crate::installation::{Installation, bundles, dry_run};
use crate::kubectl::Output;
use crate::manifests::{cron_job, endless, job, pytorch_job};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("closed_by_client_side_apply_and_back", |place| there_and_back(place, &[])).ungated(),
    Scenario::new("closed_by_server_side_apply_and_back", |place| there_and_back(place, &["--server-side"]))
        .ungated(),
    Scenario::new("closed_refuses_the_kinds_and_nothing_else", down).ungated(),
    Scenario::new("closed_refuses_pytorch_jobs", pytorch_jobs).needs(Needs::CustomResources).ungated(),
];

fn installed<'c>(place: &Place<'c>, overlay: &str, arguments: &[&str]) -> Installation<'c> {
    let mut installation = Installation::of(place.cluster, overlay, &place.namespace);
    installation.apply(arguments).ok();
    installation.start(1, &["--claims=off"]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    installation
}

/// From open to closed and back, again and again: what was published stays so, and what is new is published.
fn there_and_back(place: &Place<'_>, arguments: &[&str]) {
    let api = Api::admin(place.cluster);
    let mut installation = installed(place, "self-managed", arguments);
    let right = installation.bundles(&api).swap_remove(0);
    let path = installation.configuration("validating");
    let authority = api.get(&installation.secret())["data"].clone();
    for round in 0..2 {
        installation.render("fail-closed", &place.namespace);
        installation.apply(arguments).quiet();
        let stored = api.get(&path);
        assert_eq!(stored["webhooks"][0]["clientConfig"]["service"]["path"], "/validate");
        assert_eq!(bundles(&stored)[0], right, "round {round}: applying must not blank what is published");
        let filled = time_until(Duration::from_secs(20), || {
            let now = installation.bundles(&api);
            if now == [right.clone(), right.clone(), right.clone()] {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        });
        println!(
            "round {round}: the new webhook can be verified after {:?}",
            filled.expect("every webhook is published")
        );
        installation.wait_until_judged(&place.namespace);
        installation.apply(arguments).quiet();
        assert_eq!(
            installation.bundles(&api),
            [right.clone(), right.clone(), right.clone()],
            "applied again"
        );

        installation.render("self-managed", "");
        installation.apply(arguments).quiet();
        assert_eq!(installation.bundles(&api), [right.clone(), right.clone()], "round {round}: back again");
        assert_eq!(api.get(&installation.secret())["data"], authority, "the Secret keeps what is in it");
    }
    installation.wait_until_judged(&place.namespace);
}

/// Tries until it works: a busy machine may have no answer within the few seconds that the API server waits,
/// and then it rejects.
fn passes(attempt: impl Fn() -> Output) -> Output {
    let passed = || {
        let output = attempt();
        if output.success { Ok(output) } else { Err(output.to_string()) }
    };
    eventually(Duration::from_secs(20), passed).expect("it must pass")
}

fn down(place: &Place<'_>) {
    let mut installation = installed(place, "fail-closed", &[]);
    let open = place.cluster.unique("team");
    place.cluster.admin.run(&["create", "namespace", &open], "").ok();
    installation.look_after("kube-system");
    installation.judge(&open);
    passes(|| place.create(&job("before", json!({}))));
    installation.kill();

    for object in [job("a", json!({})), cron_job("a", json!({}))] {
        let output = place.create(&object);
        assert!(
            !output.success && output.stderr.contains("failed calling webhook \"validate-closed"),
            "{output}"
        );
    }
    // Nothing else is asked about, and what is there can be ended.
    for object in [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}),
    ] {
        dry_run(place.cluster, &place.namespace, &object).ok();
    }
    place.kubectl(&["delete", "job", "before", "--wait=false"]).ok();
    // Elsewhere jobs pass unjudged, as before.
    for namespace in [&open, "kube-system", &installation.name, "default"] {
        let output = dry_run(place.cluster, namespace, &endless("a")).ok();
        assert!(!output.stderr.contains("deadline"), "{output}");
    }

    // Jobgate's own pods can start, also by the strictest of the Pod Security Standards, and then everything
    // is judged again.
    let template = installation
        .objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .expect("a Deployment")["spec"]["template"]
        .clone();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": template["metadata"]["labels"]}, "spec": template["spec"]});
    place.cluster.admin.run(&["-n", &installation.name, "create", "-f", "-"], &pod.to_string()).quiet();
    place
        .cluster
        .admin
        .run(&["-n", &installation.name, "delete", "pod", "own", "--force", "--grace-period=0"], "")
        .ok();
    installation.start(1, &["--claims=off"]);
    installation.wait_until_ready();
    installation.wait_until_judged(&place.namespace);
    passes(|| place.create(&job("after", json!({})))).quiet();

    // And who is in a hurry takes the configurations away.
    installation.kill();
    let output = place.create(&job("hurry", json!({})));
    assert!(!output.success, "{output}");
    let label = "app.kubernetes.io/name=jobgate";
    let own = format!("metadata.name={}", installation.name);
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        place.cluster.admin.run(&["delete", kind, "-l", label, "--field-selector", &own], "").ok();
    }
    let admitted = || {
        let output = place.dry_run(&job("hurry", json!({})));
        if output.success { Ok(()) } else { Err(output.to_string()) }
    };
    eventually(Duration::from_secs(20), admitted).expect("taking the configurations away must help");
    installation.delete();
}

fn pytorch_jobs(place: &Place<'_>) {
    let mut installation = installed(place, "fail-closed", &[]);
    passes(|| dry_run(place.cluster, &place.namespace, &pytorch_job("a", json!({}))));
    installation.kill();
    let output = place.create(&pytorch_job("a", json!({})));
    assert!(
        !output.success && output.stderr.contains("failed calling webhook \"validate-closed"),
        "{output}"
    );
    installation.delete();
}
