//! Claims, known to Jobgate from the cluster itself.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, unregister};
use crate::manifests::{claim, job, mounting, mounts, over};
use crate::process::eventually;
use crate::scenario::{Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("claim_of_one_node_with_one_pod_is_admitted", one_node_one_pod),
    Scenario::new("claim_of_one_node_with_many_pods_is_denied", one_node_many_pods),
    Scenario::new("claim_of_one_node_on_one_node_is_admitted", one_node_pinned),
    Scenario::new("claim_of_one_node_that_holds_no_checkpoints_is_a_warning", one_node_other_data),
    Scenario::new("claim_of_one_pod_with_many_pods_is_denied", one_pod_many_pods),
    Scenario::new("claim_shared_for_writing_is_admitted", shared),
    Scenario::new("claim_shared_for_reading_is_not_denied", shared_for_reading),
    Scenario::new("claim_made_for_each_pod_is_admitted", ephemeral),
    Scenario::new("claim_that_is_absent_is_a_warning", absent),
    Scenario::new("claim_made_after_the_job_is_caught_by_the_next_review", made_after_the_job),
    Scenario::new("claim_made_a_moment_ago_is_known", made_a_moment_ago),
    Scenario::new("claim_made_again_with_another_mode_is_known", made_again),
    Scenario::new("claim_of_another_namespace_is_not_ours", another_namespace),
    Scenario::new("claims_live_without_a_cache", live).ungated(),
    Scenario::new("claims_off_admit", off).ungated(),
    Scenario::new("claims_without_permission_admit", without_permission).ungated(),
    Scenario::new("claim_made_again_while_the_watch_is_away_is_judged_as_it_is", made_again_unwatched)
        .ungated(),
    Scenario::new("claims_that_are_too_many_are_not_passed_over_in_silence", too_many).ungated(),
    Scenario::new("claims_of_a_hanging_api_server_admit", hanging).ungated(),
    Scenario::new("claims_of_a_resetting_api_server_admit", resetting).ungated(),
];

fn with_claim(place: &Place<'_>, mode: &str, parallelism: u32) -> Value {
    place.create(&claim("checkpoints", mode)).ok();
    mounting("a", "checkpoints", parallelism)
}

fn one_node_one_pod(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteOnce", 1);
    place.create(&object).ok();
}

fn one_node_many_pods(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteOnce", 4);
    let parts = ["checkpoint-volume-access: spec.template.spec.volumes[0]", "checkpoints", "ReadWriteOnce"];
    place.create(&object).denied(&parts);
    place.apply(&object).denied(&parts);
    place.apply_server_side(&object).denied(&parts);
    place.dry_run(&object).denied(&parts);
    assert!(!place.is_stored("job/a"));
}

fn one_node_pinned(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteOnce", 4);
    let pinned =
        json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "gpu-7"}}}}});
    place.create(&over(object, pinned)).ok();
}

fn one_node_other_data(place: &Place<'_>) {
    place.create(&claim("images", "ReadWriteOnce")).ok();
    let mut pod = mounts("images");
    pod["containers"][0]["volumeMounts"][0]["mountPath"] = json!("/images");
    let object = job("a", json!({"spec": {"parallelism": 4, "completions": 4, "template": {"spec": pod}}}));
    place.create(&object).warns(&["checkpoint-volume-access"]);
}

fn one_pod_many_pods(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteOncePod", 2);
    place.create(&object).denied(&["checkpoint-volume-access", "ReadWriteOncePod"]);
}

fn shared(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteMany", 4);
    place.create(&object).quiet();
}

fn shared_for_reading(place: &Place<'_>) {
    let object = with_claim(place, "ReadOnlyMany", 4);
    place.create(&object).ok();
}

fn ephemeral(place: &Place<'_>) {
    let mut pod = mounts("unused");
    let template =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    pod["volumes"][0] = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}});
    place
        .create(&job("a", json!({"spec": {"parallelism": 4, "completions": 4, "template": {"spec": pod}}})))
        .quiet();
}

fn absent(place: &Place<'_>) {
    place.create(&mounting("a", "checkpoints", 4)).warns(&["checkpoints"]);
    assert!(place.is_stored("job/a"));
}

fn made_after_the_job(place: &Place<'_>) {
    let object = over(mounting("a", "checkpoints", 4), json!({"spec": {"suspend": true}}));
    place.create(&object).warns(&["checkpoints"]);
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    // The answer that it is not there holds for a second.
    thread::sleep(Duration::from_secs(1));
    place.kubectl(&["label", "job/a", "run=2"]).warns(&["checkpoint-volume-access"]);
    place.create(&mounting("b", "checkpoints", 4)).denied(&["checkpoint-volume-access"]);
}

fn made_a_moment_ago(place: &Place<'_>) {
    let list = |name: &str, mode: &str| json!({"apiVersion": "v1", "kind": "List", "items": [claim(name, mode), mounting(name, name, 4)]});
    for i in 0..5 {
        place.create(&list(&format!("one-{i}"), "ReadWriteOnce")).denied(&["checkpoint-volume-access"]);
        place.create(&list(&format!("many-{i}"), "ReadWriteMany")).quiet();
    }
}

fn made_again(place: &Place<'_>) {
    let object = with_claim(place, "ReadWriteOnce", 4);
    place.create(&object).denied(&["checkpoint-volume-access"]);
    make_again(place, "ReadWriteMany");
    let admitted = || if place.dry_run(&object).success { Ok(()) } else { Err("still denied".to_owned()) };
    eventually(Duration::from_secs(30), admitted).expect("the cache must notice");
}

/// Makes the claim again with another mode.
fn make_again(place: &Place<'_>, mode: &str) {
    // The controller that guards claims in use does not run here, so its finalizer is ours to take.
    place.kubectl(&["delete", "pvc/checkpoints", "--wait=false"]).ok();
    place.patch("pvc/checkpoints", "merge", &json!({"metadata": {"finalizers": null}}));
    place.create(&claim("checkpoints", mode)).ok();
}

/// Lets the user `watcher` do this with claims.
fn permit(place: &Place<'_>, verbs: &[&str]) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "watcher"},
        "rules": [{"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": verbs}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "watcher"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watcher"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "watcher"}],
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
    place.cluster.admin.run(&["apply", "-f", "-"], &list.to_string()).ok();
}

/// Permission to watch is taken away; the API server notices when the watch is opened again, within a minute
/// or so.
fn made_again_unwatched(place: &Place<'_>) {
    permit(place, &["get", "list", "watch"]);
    with_gate(
        place,
        |setup| "watcher".clone_into(&mut setup.user),
        |gate| {
            let object = with_claim(place, "ReadWriteOnce", 4);
            place.dry_run(&object).denied(&["checkpoint-volume-access"]);
            permit(place, &["get"]);
            let broken = || {
                if gate.log().contains("no permission to list or watch claims") {
                    Ok(())
                } else {
                    Err(gate.log())
                }
            };
            eventually(Duration::from_secs(120), broken).expect("the watch must end");
            for _ in 0..3 {
                make_again(place, "ReadWriteMany");
                place.dry_run(&object).quiet();
                make_again(place, "ReadWriteOnce");
                place.dry_run(&object).denied(&["checkpoint-volume-access"]);
            }
            permit(place, &["list"]);
            let unknown = || {
                let output = place.dry_run(&object);
                let said = output.success && output.stderr.contains("jobgate could not look up 1 claim");
                if said { Ok(()) } else { Err(output.to_string()) }
            };
            eventually(Duration::from_secs(30), unknown).expect("what cannot be confirmed does not deny");
        },
    );
}

/// The claim that matters comes after more others than both reviews of a request together may ask for.
fn too_many(place: &Place<'_>) {
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
    let names: Vec<String> =
        (0..40).map(|i| format!("a-checkpoint-{i}")).chain(["checkpoints".to_owned()]).collect();
    let mut pod = mounts("checkpoints");
    pod["volumes"] = names.iter().map(|name| volume(name)).collect();
    pod["containers"][0]["volumeMounts"] = names.iter().map(|name| mount(name)).collect();
    let object = job("a", json!({"spec": {"parallelism": 4, "completions": 4, "template": {"spec": pod}}}));
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    with_gate(
        place,
        |_| {},
        |_| {
            let denied = || {
                let output = place.dry_run(&object);
                if output.is_denied(&["checkpoint-volume-access", "`checkpoints`"]) {
                    Ok(())
                } else {
                    Err(output.to_string())
                }
            };
            eventually(Duration::from_secs(10), denied).expect("the cache knows it");
        },
    );
    with_gate(
        place,
        |setup| setup.claims = "live",
        |_| {
            place.dry_run(&object).warns(&["jobgate could not look up ", "(too many in one object): "]);
        },
    );
}

fn another_namespace(place: &Place<'_>) {
    let elsewhere = place.cluster.unique("elsewhere");
    place.cluster.admin.run(&["create", "namespace", &elsewhere], "").ok();
    let object = over(claim("checkpoints", "ReadWriteOnce"), json!({"metadata": {"namespace": elsewhere}}));
    place.cluster.admin.run(&["create", "-f", "-"], &object.to_string()).ok();
    place.create(&mounting("a", "checkpoints", 4)).warns(&["checkpoints"]);
}

/// Runs with a Jobgate of the namespace's own.
fn with_gate(place: &Place<'_>, change: impl FnOnce(&mut Setup), then: impl FnOnce(&Gate)) {
    let mut setup = Setup::only(&place.cluster.unique("own"), &place.namespace);
    change(&mut setup);
    let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
    then(&gate);
    unregister(place.cluster, &setup.name);
}

fn live(place: &Place<'_>) {
    let change = |setup: &mut Setup| setup.claims = "live";
    with_gate(place, change, |_| {
        let object = with_claim(place, "ReadWriteOnce", 4);
        place.create(&object).denied(&["checkpoint-volume-access"]);
        place.create(&mounting("b", "nothing-here", 4)).warns(&["nothing-here"]);
    });
}

fn off(place: &Place<'_>) {
    let change = |setup: &mut Setup| {
        setup.claims = "off";
        setup.user = "nobody".to_owned();
    };
    with_gate(place, change, |_| {
        let object = with_claim(place, "ReadWriteOnce", 4);
        place.create(&object).ok();
        is(&place.stored("job/a"), "/spec/podReplacementPolicy", json!("Failed"));
    });
}

fn without_permission(place: &Place<'_>) {
    for mode in ["live", "cache"] {
        let change = |setup: &mut Setup| {
            setup.claims = mode;
            setup.user = "nobody".to_owned();
        };
        with_gate(place, change, |gate| {
            let object = over(mounting(mode, "checkpoints", 4), json!({}));
            if mode == "live" {
                place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
            }
            for _ in 0..3 {
                place.dry_run(&object).ok();
            }
            place.create(&object).ok();
            let said = gate.log().lines().filter(|line| line.contains("persistentvolumeclaims")).count();
            assert!((1..=2).contains(&said), "once for the list, once for the look-up: {}", gate.log());
        });
    }
}

/// Jobgate looks claims up at an API server that takes connections and does something unhelpful with them.
fn unhelpful(place: &Place<'_>, reset: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming().flatten() {
            if !reset {
                held.push(stream);
            }
        }
    });
    let user = place.cluster.unique("unhelpful");
    place
        .cluster
        .write_kubeconfig(&user, "token", &format!("https://127.0.0.1:{port}"))
        .expect("write a kubeconfig");
    place.create(&claim("checkpoints", "ReadWriteOnce")).ok();
    for mode in ["live", "cache"] {
        let change = |setup: &mut Setup| {
            setup.claims = mode;
            setup.user.clone_from(&user);
            setup.patient = false;
        };
        with_gate(place, change, |gate| {
            let began = Instant::now();
            for i in 0..10 {
                place.create(&mounting(&format!("{mode}-{i}"), "checkpoints", 4)).ok();
            }
            // Five look-ups until the circuit breaker opens, and then one every ten seconds: nobody waits for
            // the others. As many again may be given up because the machine was busy.
            let most = 10 + began.elapsed().as_secs() / 10;
            let lookups = |result: &str| gate.count("jobgate_claim_lookups_total", result);
            let (all, spared) = (lookups(""), lookups("result=\"breaker_open\""));
            println!("{mode}: {spared} of {all} look-ups were spared");
            #[allow(clippy::cast_precision_loss, reason = "nobody counts so far")]
            let most = most as f64;
            assert!(
                all >= 10.0 && all - spared <= most,
                "{spared} of {all} look-ups were spared, and {most} may be tried"
            );
            is(&place.stored(&format!("job/{mode}-0")), "/spec/podReplacementPolicy", json!("Failed"));
        });
    }
}

fn hanging(place: &Place<'_>) {
    unhelpful(place, false);
}

fn resetting(place: &Place<'_>) {
    unhelpful(place, true);
}
