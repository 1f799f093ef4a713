use proptest::prelude::*;

use super::*;
use crate::text::value::json;

fn said(object: &Value) -> Vec<String> {
    check(object)
        .iter()
        .map(|finding| format!("{} {} {}", finding.level.as_str(), finding.rule, finding.path))
        .collect()
}

fn job(spec: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
}

#[test]
fn one_field_is_spoken_of_once() {
    let pod = |extra: Value| {
        let mut spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        for (key, value) in extra.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        job(json!({"template": {"spec": spec}}))
    };
    assert_eq!(said(&pod(json!({}))), [""; 0]);
    assert_eq!(
        said(&pod(json!({"containers": {"name": "c", "image": "i"}}))),
        ["deny field-type spec.template.spec.containers"]
    );
    assert_eq!(
        said(&pod(json!({"restartPolicy": "$POLICY"}))),
        ["warn placeholder spec.template.spec.restartPolicy"]
    );
    assert_eq!(
        said(&pod(json!({"serviceAccountName": "${USER}"}))),
        ["warn placeholder spec.template.spec.serviceAccountName"]
    );
    assert_eq!(
        said(&pod(json!({"restartPolicy": null}))),
        ["deny api-server spec.template.spec.restartPolicy"]
    );
    assert_eq!(said(&job(json!([]))), ["deny field-type spec"]);
}

/// The volume whose name is not known may be the one that is mounted.
#[test]
fn a_mount_is_not_missed_beside_a_volume_whose_name_is_a_placeholder() {
    let pod = |name: &str| {
        job(json!({"template": {"spec": {"restartPolicy": "Never",
            "volumes": [{"name": name, "emptyDir": {}}], "containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/v"}]}]}}}))
    };
    let missing = "deny api-server spec.template.spec.containers[0].volumeMounts[0].name";
    for (name, expected) in
        [("{{ .Values.v }}", false), ("${VOLUME}", false), ("other", true), ("data", false)]
    {
        assert_eq!(said(&pod(name)).iter().any(|line| line == missing), expected, "{name}");
    }
}

#[test]
fn who_sets_a_ttl_in_a_ray_job_wants_its_cluster_deleted() {
    let head = json!({"template": {"spec": {"containers": [{"name": "head", "image": "i"}]}}});
    let cluster = json!({"headGroupSpec": head});
    let spec = json!({"ttlSecondsAfterFinished": 60, "entrypoint": "python a.py", "rayClusterSpec": cluster});
    let object =
        json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"}, "spec": spec});
    let found = check(&object);
    let finding = found.iter().find(|finding| finding.rule == RAY_OPERATOR).expect("a finding");
    let help = "write `shutdownAfterJobFinishes: true`, or remove `spec.ttlSecondsAfterFinished`";
    assert_eq!(finding.help, help);
}

/// What a template writes there is not known.
#[test]
fn a_field_whose_name_is_a_placeholder_is_not_unknown() {
    let volume = json!({"name": "v", "{{ .Values.kind }}": {"claimName": "c"}});
    let pod =
        json!({"restartPolicy": "Never", "volumes": [volume], "containers": [{"name": "c", "image": "i"}]});
    let job = job(json!({"template": {"spec": pod}}));
    assert_eq!(said(&job), ["warn placeholder spec.template.spec.volumes[0].{{ .Values.kind }}"]);
}

/// The volume is there, whatever its class will be called.
#[test]
fn a_mount_of_a_volume_that_is_wrong_or_a_placeholder_is_found() {
    let pod = |class: &str| {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
        let volume = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}});
        let mount = json!({"name": "v", "mountPath": "/v"});
        job(json!({"template": {"spec": {"restartPolicy": "Never", "volumes": [volume], "containers": [
            {"name": "c", "image": "i", "volumeMounts": [mount]}]}}}))
    };
    for class in ["{{ .Values.class }}", "$CLASS", "<CLASS>", "YOUR_CLASS", "CHANGE_ME", "REPLACE_ME"] {
        let found = said(&pod(class));
        assert!(found.len() == 1 && found[0].starts_with("warn placeholder"), "{class} {found:?}");
    }
    // What is wrong is the class, not the mount.
    let wrong = said(&pod("No Class"));
    assert!(wrong.len() == 1 && wrong[0].ends_with("storageClassName"), "{wrong:?}");
    assert_eq!(said(&pod("fast")), [""; 0]);
}

/// A Job with one container, whose pod has these fields.
fn with_pod(extra: Value) -> Value {
    let mut pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i",
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "emptyDir": {}}]});
    for (key, value) in extra.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    job(json!({"template": {"spec": pod}}))
}

#[test]
fn one_mistake_in_a_volume_is_one_finding() {
    let volumes = "spec.template.spec.volumes";
    let many: Vec<Value> = (0..40).map(|n| json!({"name": "v", "mountPath": format!("/{n}")})).collect();
    for (volume, at) in [
        (json!([{"name": "v", "hostPath": {"path": "/a", "type": "dir"}}]), "[0].hostPath.type"),
        (json!([{"name": "v", "nfs": {"server": "a", "path": "b"}}]), "[0].nfs.path"),
        (json!({"name": "v"}), ""),
    ] {
        let mut object = with_pod(json!({"volumes": volume}));
        for mounts in [json!([{"name": "v", "mountPath": "/v"}]), json!(many)] {
            object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts;
            let found = said(&object);
            assert!(found.len() == 1 && found[0].ends_with(&format!(" {volumes}{at}")), "{found:?}");
        }
    }
    let mut object = with_pod(json!({"volumes": [{"name": "My_V", "emptyDir": {}}]}));
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = "My_V".into();
    assert_eq!(said(&object), [format!("deny api-server {volumes}[0].name")]);
    // One that is nowhere.
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = "other".into();
    assert_eq!(said(&object).len(), 2);
    let mut others: Vec<Value> =
        (0..40).map(|n| json!({"name": format!("o{n}"), "mountPath": format!("/{n}")})).collect();
    others.push(json!({"name": "My_V", "mountPath": "/v"}));
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = others.into();
    let found = check(&object);
    let missing = found.iter().filter(|finding| finding.message.contains("Not found"));
    assert_eq!(missing.map(Finding::count).sum::<usize>(), 40);
}

/// Whatever the placeholder becomes, these may be right.
#[test]
fn nothing_that_a_placeholder_leaves_open_is_an_error() {
    for text in ["{{ .Values.x }}", "${X}", "$X", "<X>", "__X__", "YOUR_X", "CHANGE_ME"] {
        let modes = json!({"accessModes": [text], "resources": {"requests": {"storage": "1Gi"}}});
        let claims = json!([{"name": text, "resourceClaimTemplateName": "t"}]);
        let container = json!([{"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}]);
        let rule = json!({"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1]}});
        let mut named = with_pod(json!({"containers": [{"name": text, "image": "i"}]}));
        named["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
        let mut indexed = with_pod(json!({}));
        indexed["spec"]["completionMode"] = text.into();
        indexed["spec"]["completions"] = 2.into();
        indexed["spec"]["successPolicy"] = json!({"rules": [{"succeededIndexes": "0"}]});
        let mut resource = with_pod(json!({}));
        resource["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {text: 1}});
        for object in [
            with_pod(
                json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": modes}}}]}),
            ),
            with_pod(json!({"volumes": [{"name": "v", "csi": {"driver": text}}]})),
            with_pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/a", "type": text}}]})),
            with_pod(json!({"volumes": [{"name": "v", text: {}}]})),
            with_pod(json!({"volumes": [text]})),
            with_pod(json!({"volumes": text})),
            with_pod(json!({"resourceClaims": claims, "containers": container})),
            named,
            indexed,
            resource,
        ] {
            let found = said(&object);
            assert!(
                found.len() == 1 && found[0].starts_with("warn placeholder"),
                "{text} {object} {found:?}"
            );
        }
        // In capitals, it is a key like others.
        let of_keys = if text.contains(['{', '$', '<']) || text.starts_with('_') { 1 } else { 0 };
        let mut labelled = with_pod(json!({"nodeSelector": {text: "true"}}));
        labelled["metadata"] = json!({"name": "j", "labels": {text: "true"}, "annotations": {text: "true"}});
        let found = check(&labelled);
        assert_eq!(found.len(), of_keys, "{text} {found:?}");
        if let Some(found) = found.first() {
            assert!(
                found.message.ends_with(&format!("`{text}` as a key, here and at 2 more places")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn a_role_or_a_container_of_an_operator_may_be_a_placeholder() {
    for text in ["${X}", "YOUR_X"] {
        let role = |name: &str| json!({"restartPolicy": "OnFailure", "template": {"spec": {"containers": [{"name": name, "image": "i"}]}}});
        for replicas in [json!({"Worker": role(text)}), json!({text: role("pytorch")})] {
            let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"},
                "spec": {"elasticPolicy": {"minReplicas": 1}, "pytorchReplicaSpecs": replicas}});
            let found = check(&object);
            assert!(found.iter().all(|finding| finding.level != Level::Deny), "{text} {replicas} {found:?}");
        }
    }
}

#[test]
fn a_part_of_an_object_lacks_nothing() {
    assert_eq!(said(&job(json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}))), [""; 0]);
    assert_eq!(
        said(&job(
            json!({"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": 1}}}]}}})
        )),
        [""; 0]
    );
    // What it says itself, it says.
    assert_eq!(said(&job(Value::Null)).len(), 2);
    assert_eq!(said(&job(json!({"template": {"spec": {"restartPolicy": "Sometimes"}}}))).len(), 1);
    assert_eq!(said(&job(json!({"paralelism": 2}))), [format!("deny {UNKNOWN_FIELD} spec.paralelism")]);
}

#[test]
fn a_whole_job_without_an_image_is_not_a_part() {
    let of = |container: Value, restart: Value| {
        said(&job(json!({"template": {"spec": {"restartPolicy": restart, "containers": [container]}}})))
    };
    let image = "spec.template.spec.containers[0]";
    let runs = json!({"name": "c", "command": ["train"]});
    assert_eq!(of(runs.clone(), "Never".into()), [format!("deny api-server {image}.image")]);
    // A misspelled one says by itself that the object is whole.
    assert_eq!(
        of(json!({"name": "c", "imgae": "i"}), "Never".into()),
        [format!("deny unknown-field {image}.imgae"), format!("deny api-server {image}.image")]
    );
    // Patches of a kustomization.
    assert_eq!(of(runs.clone(), Value::Null), ["deny api-server spec.template.spec.restartPolicy"]);
    assert_eq!(of(json!({"name": "c", "env": []}), "Never".into()), [""; 0]);
    assert_eq!(said(&job(json!({"template": {"spec": {"containers": [runs]}}}))), [""; 0]);
    // What a test of an operator compares with.
    let mut made = job(json!({"template": {"spec": {"restartPolicy": "Never", "containers": [runs]}}}));
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]);
    assert_eq!(said(&made), [""; 0]);
}

#[test]
fn one_mistake_is_reported_once_at_its_place() {
    let of = |spec: Value, labels: Value| {
        let mut pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        crate::text::patch::merge(&mut pod, &spec);
        let mut object = job(json!({"template": {"metadata": {"labels": {"app": "x y"}}, "spec": pod}}));
        if !labels.is_null() {
            object["metadata"]["labels"] = labels;
        }
        check(&object)
    };
    let places =
        |found: Vec<Finding>| found.iter().map(|finding| finding.path.to_string()).collect::<Vec<_>>();
    // The server copies the labels of the template to the Job.
    assert_eq!(places(of(json!({}), Value::Null)), ["spec.template.labels"]);
    assert_eq!(places(of(json!({}), json!({"app": "x y"}))), ["metadata.labels", "spec.template.labels"]);
    let found = of(json!({"restartPolicy": "never"}), json!({"a": "b"}));
    let [_, restart] = &found[..] else { panic!("{found:#?}") };
    assert!(restart.message.ends_with("supported values: \"OnFailure\", \"Never\""), "{restart:#?}");
    assert_eq!(restart.help, "did you mean `Never`?");
    let mut indexed = job(
        json!({"completionMode": "indexed", "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}),
    );
    assert_eq!(check(&indexed)[0].help, "did you mean `Indexed`?");
    indexed["spec"]["completionMode"] = "Something".into();
    assert_eq!(check(&indexed)[0].help, "fix `spec.completionMode`");
}

#[test]
fn schedules_without_a_date_are_told() {
    let cron = |schedule: &str| {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}})
    };
    assert_eq!(said(&cron("0 0 31 2 *")), ["warn schedule-never-fires spec.schedule"]);
    let mut suspended = cron("0 0 31 2 *");
    suspended["spec"]["suspend"] = true.into();
    assert_eq!(said(&suspended), [""; 0]);
    assert_eq!(said(&cron("0 0 29 2 *")), [""; 0]);
    assert_eq!(said(&cron("61 * * * *")), ["deny api-server spec.schedule"]);
    assert_eq!(said(&cron("$SCHEDULE")), ["warn placeholder spec.schedule"]);
}

#[test]
fn the_operator_rejects_what_the_server_accepts() {
    let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i"}]}});
    let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}}}});
    assert_eq!(said(&object), ["deny training-operator spec.pytorchReplicaSpecs[Master].replicas"]);
    // A placeholder for an image hides nothing else, and one for the name may be right to the operator.
    let with = |name: &str, image: &str| {
        let template = json!({"spec": {"containers": [{"name": name, "image": image}]}});
        let worker = json!({"replicas": 1, "template": template});
        said(
            &json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": {"pytorchReplicaSpecs": {"Worker": worker}}}),
        )
    };
    let containers = "spec.pytorchReplicaSpecs[Worker].template.spec.containers";
    let image = format!("warn placeholder {containers}[0].image");
    assert_eq!(with("pytorch", "<ACCOUNT>/i:1"), std::slice::from_ref(&image));
    assert_eq!(with("trainer", "<ACCOUNT>/i:1"), [image, format!("deny training-operator {containers}")]);
    assert_eq!(with("$NAME", "i:1"), [format!("warn placeholder {containers}[0].name")]);
}

/// A whole Job, to break.
fn whole() -> Value {
    job(json!({
        "parallelism": 2, "completionMode": "Indexed", "completions": 2, "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a"}]}]},
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "restartPolicy": "Never",
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}},
                "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
                "containers": [{
                    "name": "c", "image": "i", "args": ["a"], "ports": [{"containerPort": 1}], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}], "resources": {"limits": {"nvidia.com/gpu": 1}}, "livenessProbe": {"httpGet": {"port": 1}},
                }],
            },
        },
    }))
}

/// All places of a value.
fn places(value: &Value, at: &Pointer, out: &mut Vec<Pointer>) {
    out.push(at.clone());
    for (key, value) in value.as_object().into_iter().flatten() {
        places(value, &at.key(key), out);
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        places(value, &(at / index), out);
    }
}

#[test]
fn the_whole_job_is_fine() {
    assert_eq!(said(&whole()), [""; 0]);
}

proptest! {
    #[test]
    fn no_object_panics_and_every_finding_points_at_something(place in 0_usize..1000, value in 0_usize..14) {
        let values = [
            json!(null), json!(true), json!(0), json!(-1), json!(1e30), json!(2.5), json!(""), json!("é$("), json!("${X}"), json!([]), json!([null]), json!({}),
            json!({"": null}), json!({"a/b/c": {"d": [1]}}),
        ];
        let mut object = whole();
        let mut all = Vec::new();
        places(&object, &Pointer::root(), &mut all);
        let place = &all[place % all.len()];
        if let Some(target) = object.pointer_mut(&place.to_json_pointer()) {
            *target = values[value].clone();
        }
        for finding in check(&object) {
            prop_assert!(finding.pointer.find(&object).is_some(), "{:?}", finding);
            prop_assert!(!finding.message.contains('\n') && !finding.help.is_empty(), "{:?}", finding);
        }
        let once = defaults::defaulted(&object);
        prop_assert_eq!(&defaults::defaulted(&once), &once);
    }
}

#[test]
fn what_a_pytorch_job_asks_of_its_pods() {
    let worker = |pod: Value| {
        let replicas = json!({"Worker": {"template": {"spec": pod}}});
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": {"pytorchReplicaSpecs": replicas}})
    };
    let container =
        json!({"name": "vjepa2-1", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
    let found = check(&worker(json!({"containers": [container]})));
    // That a volume is missing is said by a rule.
    assert!(found.iter().all(|finding| !finding.message.contains("volumeMounts")), "{found:#?}");
    let name = found.iter().find(|finding| finding.rule == TRAINING_OPERATOR).unwrap();
    assert_eq!(name.help, "rename the container `vjepa2-1` to `pytorch`");
    assert!(
        matches!(&name.fix, Some(fix) if fix.safety == Safety::Unsafe && matches!(&*fix.ops, [Op::Replace(_, name)] if *name == "pytorch"))
    );
    // Silent where the volume is there, or one of several containers is meant; of a placeholder nobody
    // knows.
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let found =
        check(&worker(json!({"containers": [container, {"name": "b", "image": "i"}], "volumes": volumes})));
    assert!(found.len() == 1 && found[0].fix.is_none() && found[0].level == Level::Deny, "{found:#?}");
    let mut object = worker(json!({"containers": [{"name": "pytorch", "image": "i"}]}));
    let replicas = &mut object["spec"]["pytorchReplicaSpecs"];
    replicas["Master"] = replicas["Worker"].clone();
    let found = fixable(&object);
    assert!(found.len() == 1 && found[0].help == "write `replicas: 1`", "{found:#?}");
    let fixed = crate::text::patch::apply(&object, &found[0].fix.as_ref().unwrap().ops).unwrap();
    assert_eq!(check(&fixed), []);
    let found = check(&worker(
        json!({"containers": [{"name": "pytorch", "image": "i", "volumeMounts": [{"name": "$DATA", "mountPath": "/d"}]}]}),
    ));
    assert!(found.len() == 1 && found[0].rule == PLACEHOLDER, "{found:#?}");
}

#[test]
fn what_is_refused_and_looks_like_a_placeholder_is_called_one() {
    let whole = |extra: Value| {
        let mut object = whole();
        crate::text::patch::merge(&mut object, &extra);
        object
    };
    let pod = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
    for (extra, expected) in [
        (json!({"metadata": {"name": "${JOB_NAME}"}}), &["metadata.name"][..]),
        (json!({"metadata": {"name": "JOB_NAME"}}), &["metadata.name"]),
        (json!({"metadata": {"generateName": "<name>-", "name": null}}), &["metadata.generateName"]),
        (
            json!({"metadata": {"labels": {"a": "$A", "b": "{{ b }}"}}}),
            // One for the object; the other is listed.
            &["metadata.labels[a]"],
        ),
        (pod(json!({"serviceAccountName": "V_KSA"})), &["spec.template.spec.serviceAccountName"]),
        (json!({"spec": {"parallelism": "NUM_NODES"}}), &["spec.parallelism"]),
        (pod(json!({"restartPolicy": "RESTART_POLICY"})), &["spec.template.spec.restartPolicy"]),
    ] {
        let object = whole(extra);
        let found: Vec<String> = expected.iter().map(|path| format!("warn placeholder {path}")).collect();
        assert_eq!(said(&object), found, "{object}");
        let body = defaults::defaulted(&object);
        let answer = answer(&SentObject { written: &object, stored: &body, old: None, strict: true });
        let told: Vec<String> = answer
            .findings
            .iter()
            .map(|finding| format!("{} {} {}", finding.level.as_str(), finding.rule, finding.path))
            .collect();
        assert!(told == found && answer.open && !answer.unreadable, "{told:?}");
    }
    // What is accepted in capitals is no placeholder, and another wrong label is not hidden by one.
    assert_eq!(said(&whole(json!({"metadata": {"labels": {"team": "MY_TEAM"}}}))), [""; 0]);
    assert_eq!(said(&whole(json!({"metadata": {"labels": {"a": "$A", "b": "-"}}}))).len(), 2);
    let image = |image: &str| {
        let mut object = whole(json!({}));
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        object
    };
    let object = image("YOUR_REGISTRY/trainer:v1");
    let told = answer(&SentObject {
        written: &object,
        stored: &defaults::defaulted(&object),
        old: None,
        strict: true,
    });
    assert!(
        !told.open && told.findings.len() == 1 && told.findings[0].rule == PLACEHOLDER,
        "the API server takes any image: {told:?}"
    );
    assert_eq!(told.findings[0].help, "replace it with the value");
    assert_eq!(check(&image("$IMAGE"))[0].help, "lint what the template renders to");
}

#[test]
fn an_update_to_capitals_is_no_placeholder() {
    let labelled = |label: &str| {
        let mut object = whole();
        object["spec"]["template"]["metadata"]["labels"]["a"] = label.into();
        defaults::defaulted(&object)
    };
    let (old, new) = (labelled("OLD_ONE"), labelled("NEW_ONE"));
    let told = answer(&SentObject { written: &new, stored: &new, old: Some(&old), strict: true });
    assert!(!told.open && told.findings.iter().all(|finding| finding.rule == API_SERVER), "{told:?}");
}
