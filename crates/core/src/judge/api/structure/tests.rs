use super::*;
use crate::text::meter;
use crate::text::value::{Map, json};

fn job(spec: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
}

fn with_container(extra: Value) -> Value {
    let mut container = json!({"name": "trainer", "image": "example.com/t:1"});
    for (key, value) in extra.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    job(json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}))
}

/// The findings as `id path: message (help)`.
fn said(object: &Value) -> Vec<String> {
    let found = check(object, ObjectReading::Manifest);
    for finding in &found {
        assert!(finding.pointer.find(object).is_some(), "{finding:?}");
        if let Some(fix) = &finding.fix {
            let patched = crate::text::patch::apply(object, &fix.ops).expect("a fix applies");
            assert!(check(&patched, ObjectReading::Manifest).len() < found.len(), "{finding:?}");
        }
    }
    found
        .iter()
        .map(|finding| format!("{} {}: {} ({})", finding.rule, finding.path, finding.message, finding.help))
        .collect()
}

#[test]
fn says_nothing_of_what_is_right() {
    let whole = json!({
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "2Gi", "cpu": 0.5}, "requests": null},
        "ports": [{"containerPort": 80, "name": null}],
        "livenessProbe": {"httpGet": {"port": "http"}},
        "env": [{"name": "A", "value": "${B}"}],
        "args": ["$(B)", null],
    });
    assert_eq!(said(&with_container(whole)), [""; 0]);
    assert_eq!(said(&job(Value::Null)), [""; 0]);
    assert_eq!(said(&job(json!({"parallelism": 4.0, "completions": null}))), [""; 0]);
    assert_eq!(said(&json!({"apiVersion": "execution.furiko.io/v1", "kind": "Job", "spec": 5})), [""; 0]);
}

#[test]
fn a_field_belongs_to_the_role_around_it_at_a_cost_that_other_roles_do_not_raise() {
    let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i:1"}]}});
    let of = |roles: usize| {
        let replicas: Map = (0..roles)
            .map(|nth| {
                (format!("R{nth:04}"), json!({"hostNetwork": true, "replicas": 1, "template": template}))
            })
            .collect();
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"},
               "spec": {"pytorchReplicaSpecs": replicas}})
    };
    let messages = said(&of(2));
    for role in ["R0000", "R0001"] {
        let home = format!("it belongs at `spec.pytorchReplicaSpecs[{role}].template.spec`");
        assert!(messages.iter().any(|message| message.contains(&home)), "{home}: {messages:#?}");
    }
    let steps = |roles: usize| {
        let object = of(roles);
        meter::run(meter::Bounds::default(), || check(&object, ObjectReading::Manifest)).unwrap().1
    };
    let (few, many) = (steps(50), steps(200));
    assert!(few > 50 && many < 5 * few, "{few} steps for 50 roles, {many} for 200");
}

#[test]
fn the_metrics_of_an_elastic_policy_have_a_shape() {
    let job = |metric: Value| {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"},
               "spec": {"pytorchReplicaSpecs": {}, "elasticPolicy": {"metrics": [metric]}}})
    };
    let resource = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    assert_eq!(said(&job(resource(json!({"type": "Utilization", "averageUtilization": 80})))), [""; 0]);
    let wrong = said(&job(resource(json!({"type": "Utilization", "averageUtilization": "80%"}))));
    assert!(
        wrong.len() == 1
            && wrong[0]
                .starts_with("field-type spec.elasticPolicy.metrics[0].resource.target.averageUtilization"),
        "{wrong:#?}"
    );
    let unknown = said(&job(resource(json!({"type": "Value", "averageUse": "80"}))));
    assert!(unknown.len() == 1 && unknown[0].starts_with("unknown-field "), "{unknown:#?}");
}

#[test]
fn tells_wrong_types() {
    assert_eq!(
        said(&job(json!({"activeDeadlineSeconds": "3600"}))),
        [
            "field-type spec.activeDeadlineSeconds: `activeDeadlineSeconds` must be an integer, is the string \"3600\" (write it without quotes: 3600)"
        ]
    );
    assert_eq!(
        said(&with_container(json!({"args": "--x"}))),
        [
            "field-type spec.template.spec.containers[0].args: `args` must be a list, is the string \"--x\" (write it as a list of one item)"
        ]
    );
    let ports = |ports: Value| said(&with_container(json!({"ports": ports})))[0].clone();
    let help = "(put `- ` before its first key, and move its other keys two columns to the right, so that it is a list of one item)";
    assert!(ports(json!({"containerPort": 80, "name": "http"})).ends_with(help));
    assert!(
        ports(json!({"containerPort": 80}))
            .ends_with("(put `- ` before its first key so that it is a list of one item)")
    );
    assert_eq!(
        said(&with_container(json!({"args": [1]}))),
        [
            "field-type spec.template.spec.containers[0].args[0]: `args[0]` must be a string, is the integer 1 (put it in quotes)"
        ]
    );
    assert_eq!(
        said(&with_container(json!({"resources": {"limits": {"memory": "1KB"}}}))),
        [
            "field-type spec.template.spec.containers[0].resources.limits[memory]: `limits[memory]` must be a quantity (`500m`, `2Gi`), \
          is the string \"1KB\" (write a value of that type)"
        ]
    );
    let big = said(&job(
        json!({"parallelism": 3_000_000_000_u64, "ttlSecondsAfterFinished": 1e20, "suspend": "true", "backoffLimit": 1.5}),
    ));
    assert_eq!(big.len(), 4, "{big:#?}");
    assert!(big[1].contains("must be an integer of 32 bits, is the integer 3000000000"), "{big:#?}");
    assert_eq!(said(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": 20240101, "labels": {"a": true}}})).len(), 2);
    assert_eq!(said(&job(json!([1, 2]))).len(), 1);
}

#[test]
fn one_finding_for_each_placeholder() {
    let found = said(&job(
        json!({"parallelism": "$NODES", "completions": "${N:-4}", "template": {"spec": {"restartPolicy": "<POLICY>"}}}),
    ));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().all(|line| line.starts_with("placeholder ")), "{found:#?}");
    let found = said(&job(json!({"parallelism": "__NODES__", "completions": [["size"]]})));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|line| line.starts_with("placeholder ")), "{found:#?}");
    assert!(found.iter().any(|line| line.contains("`[[size]]`")), "{found:#?}");
}

#[test]
fn one_finding_for_each_placeholder_however_often() {
    let containers = json!([
        {"name": "a", "image": "<ACCOUNT>.dkr.ecr.example.com/a:1"}, {"name": "b", "image": "YOUR_IMAGE"}, {"name": "c", "image": "a:LATEST"},
    ]);
    let mut object = job(
        json!({"parallelism": "$NODES", "completions": "$NODES", "backoffLimit": "$NODES", "activeDeadlineSeconds": "${N}"}),
    );
    object["spec"]["template"] = json!({"spec": {"containers": containers}});
    object["metadata"]["name"] = "TARGET_NODE_NAME".into();
    let found: Vec<String> = super::super::check(&object)
        .into_iter()
        .filter(|finding| finding.path.to_string() != "spec.template.spec.restartPolicy")
        .map(|finding| finding.message.into_owned())
        .collect();
    // One for the object, which lists some.
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("other placeholders are ") && found[0].ends_with(" and 1 more"), "{found:#?}");
}

#[test]
fn a_blank_amount_is_none() {
    for (value, expected) in
        [(Value::Null, "warn field-type"), (json!(""), "deny field-type"), (json!("$N"), "warn placeholder")]
    {
        let object = with_container(json!({"resources": {"limits": {"nvidia.com/gpu": value}}}));
        let found = super::super::check(&object);
        let at = found.iter().find(|finding| finding.path.to_string().contains("nvidia.com/gpu")).unwrap();
        assert_eq!(format!("{} {}", at.level.as_str(), at.rule), expected);
    }
    assert!(said(&with_container(json!({"resources": {"limits": {"nvidia.com/gpu": 0}}}))).is_empty());
}

#[test]
fn names_the_place_where_a_field_belongs() {
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"activeDeadlineSeconds": 600, "jobTemplate": {"spec": {"restartPolicy": "Never"}}}});
    let found = said(&cron);
    assert!(found[0].contains("it belongs at `spec.jobTemplate.spec`"), "{found:#?}");
    assert!(found[1].contains("it belongs at `spec.jobTemplate.spec.template.spec`"), "{found:#?}");
    let found = said(&job(
        json!({"tolerations": [], "template": {"spec": {"imagePullPolicy": "Always", "containers": [{"image": "i"}]}}}),
    ));
    assert!(found[1].contains("it belongs at `spec.template.spec`"), "{found:#?}");
    assert!(found[0].contains("it belongs at `spec.template.spec.containers[0]`"), "{found:#?}");
    let found = said(&with_container(json!({"resources": {"nvidia.com/gpu": 1}})));
    assert!(
        found[0].contains("it belongs at `spec.template.spec.containers[0].resources.limits`"),
        "{found:#?}"
    );
}

#[test]
fn names_the_field_that_was_meant() {
    for (object, name) in [
        (job(json!({"podReplacmentPolicy": "Failed"})), "podReplacementPolicy"),
        (job(json!({"template": {"spec": {"restartpolicy": "Never"}}})), "restartPolicy"),
        (with_container(json!({"commands": []})), "command"),
        (with_container(json!({"volumeMount": []})), "volumeMounts"),
    ] {
        let found = said(&object);
        assert!(found.len() == 1 && found[0].ends_with(&format!("(did you mean `{name}`?)")), "{found:#?}");
    }
    let source = json!([{"name": "gpu", "source": {"resourceClaimTemplateName": "one"}}]);
    let object = job(
        json!({"template": {"spec": {"resourceClaims": source, "containers": [{"name": "c", "image": "i"}]}}}),
    );
    let found = said(&object);
    assert!(
        found.len() == 1
            && found[0].contains("its fields belong directly in `spec.template.spec.resourceClaims[0]`"),
        "{found:#?}"
    );
    assert!(found[0].ends_with("(replace `source` with `resourceClaimTemplateName`)"), "{found:#?}");
    let found = said(&with_container(json!({"colour": "red"})));
    assert!(found[0].ends_with("(remove it, or check its name)"), "{found:#?}");
}

/// A name that is like another is no reason to put a value of another type or form under it.
#[test]
fn only_a_misspelled_name_is_replaced() {
    let fixes = |object: &Value| {
        let found = check(object, ObjectReading::Manifest);
        assert_eq!(found.len(), 1, "{found:#?}");
        (found[0].help.starts_with("did you mean"), found[0].fix.is_some())
    };
    let ray = |fields: Value| {
        let mut object = json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": {
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [
                {"name": "c", "image": "i:1"}]}}}}}});
        for (key, value) in fields.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    };
    assert_eq!(fixes(&ray(json!({"runtimeEnv": "cGlwOiBbXQ=="}))), (true, false));
    assert_eq!(fixes(&ray(json!({"runtimeEnv": {"pip": ["a"]}}))), (true, false));
    assert_eq!(fixes(&ray(json!({"entryPoint": "python a.py"}))), (true, true));
    assert_eq!(fixes(&job(json!({"podReplacmentPolicy": "Failed"}))), (true, true));
    assert_eq!(fixes(&job(json!({"paralelism": "two"}))), (true, false));
    assert_eq!(fixes(&job(json!({"paralelism": 2}))), (true, true));
}

#[test]
fn a_field_that_a_release_lacks_is_a_warning_and_a_misspelled_one_an_error() {
    let set = |field: &str| {
        let template =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
        let mut object = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"},
               "spec": {"replicatedJobs": [{"name": "w", "template": template}]}});
        object["spec"][field] = json!({"a": 1});
        let found = check(&object, ObjectReading::Manifest);
        let one = found.iter().find(|finding| finding.rule == UNKNOWN_FIELD).unwrap();
        (one.level, one.message.to_string())
    };
    let (level, message) = set("gangWindow");
    assert_eq!(level, Level::Warn);
    assert_eq!(
        message,
        "unknown field `gangWindow`: JobSet 0.12 does not have it, so the API server rejects it unless the cluster's release does"
    );
    assert_eq!(set("failurePolcy").0, Level::Deny);
    // Kubernetes' own fields are all known.
    assert_eq!(
        check(&with_container(json!({"colour": "red"})), ObjectReading::Manifest)[0].level,
        Level::Deny
    );
}

#[test]
fn custom_resources_lack_what_their_schema_requires() {
    let object = |spec: Value| json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": spec});
    let worker = |container: Value| {
        object(
            json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}),
        )
    };
    assert_eq!(said(&worker(json!({"name": "pytorch", "image": "i"}))), [""; 0]);
    let found = said(&worker(json!({"image": "i"})));
    assert!(
        found[0]
            .contains("spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].name: Required value"),
        "{found:#?}"
    );
    // A patch lacks what it does not change.
    assert_eq!(said(&worker(json!({"env": []}))), [""; 0]);
    let found = said(&worker(
        json!({"name": "pytorch", "image": "i", "resources": {"limits": {"cpu": 0.5, "memory": 1}}}),
    ));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("limits[cpu]") && found[0].ends_with("(put it in quotes)"), "{found:#?}");
    let found = said(&object(
        json!({"activeDeadlineSeconds": 5, "pytorchReplicaSpecs": {"Worker": {"image": "i", "replicas": "4"}}}),
    ));
    assert!(found[0].contains("it belongs at `spec.runPolicy`"), "{found:#?}");
    let moved = check(
        &object(json!({"activeDeadlineSeconds": 5, "pytorchReplicaSpecs": {}})),
        ObjectReading::Manifest,
    )
    .remove(0)
    .fix
    .expect("a fix");
    assert_eq!(
        moved.ops[0],
        Op::Add(Pointer::new(&["spec", "runPolicy"]), json!({"activeDeadlineSeconds": 5}))
    );
    assert!(
        found[1].contains("it belongs at `spec.pytorchReplicaSpecs[Worker].template.spec.containers[0]`"),
        "{found:#?}"
    );
    assert!(found[2].starts_with("field-type spec.pytorchReplicaSpecs[Worker].replicas"), "{found:#?}");
}

#[test]
fn only_a_place_that_takes_the_value_is_offered() {
    let ray = |head: Value, workers: Value| {
        json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": {"rayClusterSpec": {
            "headGroupSpec": head, "workerGroupSpecs": workers}}})
    };
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let worker = json!({"groupName": "w", "rayStartParams": {}, "template": pod});
    let head = json!({"rayStartParams": {}, "template": pod, "replicas": 1});
    let found = said(&ray(head, json!([worker])));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].ends_with("(remove it, or check its name)"), "{found:#?}");
    // A template is no object.
    let found =
        said(&job(json!({"template": {"kind": "Pod", "spec": {"containers": [], "priorityClass": "high"}}})));
    assert!(found.iter().any(|text| text.ends_with("(did you mean `priorityClassName`?)")), "{found:#?}");
    assert!(found.iter().any(|text| text.ends_with("(remove it, or check its name)")), "{found:#?}");
    let runtime = |key: &str, value: Value| {
        let template =
            json!({"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}});
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "r"},
               "spec": {"mlPolicy": {"torch": {key: value}}, "template": template}})
    };
    let found = said(&runtime("numNodes", 2.into()));
    assert!(found.iter().any(|text| text.contains("it belongs at `spec.mlPolicy`")), "{found:#?}");
    let found = said(&runtime("numNodes", json!({"count": 2})));
    assert!(found.iter().all(|text| !text.contains("it belongs at")), "{found:#?}");
}

#[test]
fn metadata_inside_a_custom_resource_has_fewer_fields() {
    let blank = json!({"creationTimestamp": null, "labels": {"a": "b"}});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"]}, "metadata": {"creationTimestamp": null}});
    let pod = json!({"metadata": blank, "spec": {
        "containers": [{"name": "pytorch", "image": "i:1"}],
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}],
    }});
    let object = |kind: &str, version: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "creationTimestamp": null}, "spec": spec});
    let set = json!({"replicatedJobs": [{"name": "w", "template": {"metadata": blank, "spec": {"template": pod}}}]});
    let head = json!({"rayStartParams": {}, "template": pod});
    for (object, places) in [
        (
            object(
                "PyTorchJob",
                "kubeflow.org/v1",
                json!({"pytorchReplicaSpecs": {"Master": {"template": pod}}}),
            ),
            2,
        ),
        (
            object(
                "MPIJob",
                "kubeflow.org/v2beta1",
                json!({"mpiReplicaSpecs": {"Launcher": {"template": pod}}}),
            ),
            2,
        ),
        (object("JobSet", "jobset.x-k8s.io/v1alpha2", set), 3),
        (object("RayJob", "ray.io/v1", json!({"rayClusterSpec": {"headGroupSpec": head}})), 2),
        (
            object(
                "ScaledJob",
                "keda.sh/v1alpha1",
                json!({"jobTargetRef": {"template": pod}, "triggers": []}),
            ),
            2,
        ),
        (job(json!({"template": pod})), 0),
    ] {
        let found = check(&object, ObjectReading::Manifest);
        let named = |finding: &&Finding| finding.path.to_string().ends_with(".metadata.creationTimestamp");
        let found: Vec<&Finding> = found.iter().filter(named).collect();
        assert_eq!(found.len(), places, "{found:#?}");
        let mut fixed = object.clone();
        for finding in found {
            assert_eq!((finding.level, &*finding.help), (Level::Deny, "remove it"));
            let fix = finding.fix.as_ref().expect("a fix");
            assert_eq!(fix.safety, Safety::Safe);
            crate::text::patch::apply_in_place(&mut fixed, &fix.ops).expect("it applies");
        }
        assert!(check(&fixed, ObjectReading::Manifest).iter().all(|finding| !named(&finding)));
        // Where the server drops what it does not know, nothing is lost.
        let found = check(&object, ObjectReading::Body { strict: false });
        assert!(found.iter().all(|finding| !named(&finding)), "{found:#?}");
    }
}
