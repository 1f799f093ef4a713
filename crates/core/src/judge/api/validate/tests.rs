use super::job_policies::count_indexes;
use super::*;
use crate::text::value::{Value, json};

#[test]
fn indexes_must_rise() {
    assert_eq!(count_indexes("", 5), Ok(0));
    assert_eq!(count_indexes("0,2-4", 5), Ok(4));
    for (text, error) in [
        ("5", "too large index: \"5\""),
        ("3-1", "non-increasing order, previous: 3, current: 1"),
        ("2,1", "non-increasing order, previous: 2, current: 1"),
        ("a", "cannot convert string to integer for index: \"a\""),
        (
            "1-2-3",
            "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
        ),
    ] {
        assert_eq!(count_indexes(text, 5), Err(error.to_owned()), "{text}");
    }
}

/// The causes for a Job with one container, into which a patch is merged, as `field: message`; the fields
/// below `spec.template.spec` without that.
fn causes(patch: Value) -> Vec<String> {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    crate::text::patch::merge(&mut job, &patch);
    let found = validate(&crate::judge::api::defaults::stored(&job));
    found
        .into_iter()
        .map(|cause| format!("{}: {}", cause.path, cause.message).replacen("spec.template.spec.", "", 1))
        .collect()
}

fn pod(patch: Value) -> Vec<String> {
    causes(json!({"spec": {"template": {"spec": patch}}}))
}

#[test]
fn windows_pods_and_their_host_processes() {
    let process = |value: bool| json!({"windowsOptions": {"hostProcess": value}});
    let wants_network = "hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers";
    assert_eq!(pod(json!({"securityContext": process(true)})), [wants_network]);
    assert_eq!(pod(json!({"hostNetwork": true, "securityContext": process(true)})), [""; 0]);
    let containers = json!([{"name": "c", "image": "i", "securityContext": process(true)}]);
    assert_eq!(
        pod(json!({"securityContext": process(false), "containers": containers})),
        [
            "containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess value must be identical if both are \
             specified, was false",
            wants_network,
        ]
    );
    assert_eq!(
        causes(
            json!({"spec": {"template": {"spec": {"hostNetwork": true, "containers": containers, "initContainers": [{"name": "x", "image": "i"}]}}}})
        ),
        [
            "spec.template.spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers"
        ]
    );
    let own = json!([{"name": "c", "image": "i", "securityContext": {"runAsUser": 5}}]);
    assert_eq!(
        pod(
            json!({"os": {"name": "windows"}, "hostPID": true, "containers": own, "securityContext": {"fsGroup": 1}})
        ),
        [
            "hostPID: Forbidden: cannot be set for a windows pod",
            "securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
            "containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
        ]
    );
    assert_eq!(
        pod(json!({"os": {"name": "linux"}, "containers": containers, "hostNetwork": true})),
        [
            "containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"
        ]
    );
}

#[test]
fn the_host_name_of_a_pod_may_be_set_in_one_way() {
    let both = json!({"hostnameOverride": "h", "hostNetwork": true, "setHostnameAsFQDN": true});
    assert_eq!(
        pod(both),
        [
            "hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
            "hostnameOverride: Forbidden: may not be specified when hostNetwork is true"
        ]
    );
    assert_eq!(
        pod(json!({"hostnameOverride": "h".repeat(65)})),
        ["hostnameOverride: Too long: may not be more than 64 bytes"]
    );
    assert_eq!(pod(json!({"hostnameOverride": ""})).len(), 1);
    assert_eq!(pod(json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": false})), [""; 0]);
}

#[test]
fn a_claim_of_a_pod_is_filled_from_something_that_is_named() {
    let of = |spec: Value| {
        let mut claim =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        crate::text::patch::merge(&mut claim, &spec);
        let found =
            pod(json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]}));
        found
            .into_iter()
            .map(|cause| cause.replace("volumes[0].ephemeral.volumeClaimTemplate.spec", "claim"))
            .collect::<Vec<_>>()
    };
    let (claim, snapshot) = (
        json!({"kind": "PersistentVolumeClaim", "name": "x"}),
        json!({"apiGroup": "a.b", "kind": "S", "name": "x"}),
    );
    let wrong = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    assert_eq!(of(json!({"dataSource": claim, "dataSourceRef": claim})), [""; 0]);
    assert_eq!(of(json!({"dataSourceRef": snapshot})), [""; 0]);
    assert_eq!(
        of(json!({"dataSource": claim, "dataSourceRef": snapshot})),
        ["claim: Invalid value: {}: must match dataSourceRef"]
    );
    assert_eq!(
        of(json!({"dataSourceRef": {"kind": "Foo", "name": "x"}})),
        [format!("claim.dataSourceRef: Invalid value: \"Foo\": {wrong}")]
    );
    assert_eq!(
        of(json!({"dataSource": {}})),
        [
            "claim.dataSource.name: Required value".to_owned(),
            "claim.dataSource.kind: Required value".to_owned(),
            format!("claim.dataSource: Invalid value: \"\": {wrong}")
        ]
    );
    assert!(
        of(json!({"dataSource": {"apiGroup": "A_b", "kind": "S", "name": "x"}}))[0]
            .starts_with("claim.dataSource.apiGroup: Invalid value")
    );
}

fn container(patch: Value) -> Vec<String> {
    let mut container = json!({"name": "c", "image": "i"});
    crate::text::patch::merge(&mut container, &patch);
    pod(json!({"containers": [container], "volumes": [{"name": "v"}]}))
}

#[test]
fn jobs_are_judged_as_the_server_judges_them() {
    for (spec, said) in [
        (json!({}), &[][..]),
        (
            json!({"managedBy": "a/b c"}),
            &[
                "spec.managedBy: Invalid value: \"b c\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            ],
        ),
        (
            json!({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1, "parallelism": 10_001}),
            &[
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
            ],
        ),
        (
            json!({"backoffLimitPerIndex": 1}),
            &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0,2", "succeededCount": 4}, {}]}}),
            &[
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 2 (the number of indexes in the specified \
                 succeededIndexes field)",
                "spec.successPolicy.rules[1]: Required value: at least one of succeededCount or succeededIndexes must be specified",
            ],
        ),
        (
            json!({"podFailurePolicy": {"rules": [
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [0, 2, 1, 2], "containerName": "x"}},
                {"action": "Ignore"},
                {"onPodConditions": [{"type": "a", "status": "yes"}]},
            ]}}),
            &[
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Duplicate value: 2",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [0,2,1,2]: must be ordered",
                "spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                "spec.podFailurePolicy.rules[2].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                "spec.podFailurePolicy.rules[2].onPodConditions[0].status: Unsupported value: \"yes\": supported values: \"False\", \"True\", \"Unknown\"",
            ],
        ),
        (
            json!({"manualSelector": true}),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            ],
        ),
        (
            json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}),
            &[
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            ],
        ),
    ] {
        assert_eq!(causes(json!({"spec": spec})), said, "{spec}");
    }
}

#[test]
fn pods_are_judged_as_the_server_judges_them() {
    for (spec, said) in [
        (
            json!({"hostNetwork": true, "hostUsers": false, "hostPID": true}),
            &[
                "hostNetwork: Forbidden: when `hostUsers` is false",
                "HostPID: Forbidden: when `hostUsers` is false",
            ][..],
        ),
        (
            json!({"dnsPolicy": "None"}),
            &["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"tolerations": [{"value": "a"}, {"key": "a", "operator": "Lt"}]}),
            &[
                "tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                "tolerations[1].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            ],
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "Maybe"}]}),
            &[
                "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "a"}}]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}}),
            &[
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: \
                 must be specified when `operator` is 'In' or 'NotIn'",
                "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
            ],
        ),
        (
            json!({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
            &[
                "resources.limits[nvidia.com/gpu]: Unsupported value: \"nvidia.com/gpu\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
            ],
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}, {"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}]}),
            &[
                "volumes[0].secret: Forbidden: may not specify more than 1 volume type",
                "volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
            ],
        ),
        (
            json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}}}}]}),
            &[
                "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
        (
            json!({"initContainers": [{"name": "c", "image": "i"}]}),
            &["initContainers[0].name: Duplicate value: \"c\""],
        ),
        (
            json!({"initContainers": [{"name": "s", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            &[
                "initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
    ] {
        assert_eq!(pod(spec.clone()), said, "{spec}");
    }
}

#[test]
fn containers_are_judged_as_the_server_judges_them() {
    for (patch, said) in [
        (json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}), &[][..]),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}, {"name": "v", "mountPath": "/a"}]}),
            &[
                "containers[0].volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'",
                "containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
            ],
        ),
        (
            json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]}),
            &["containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume \
            source type of PersistentVolumeClaim or Ephemeral for block mode"],
        ),
        (
            json!({"env": [{"name": "a=b"}, {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}, {"name": "B", "valueFrom": {}}]}),
            &[
                "containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
                "containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                "containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            json!({"envFrom": [{}]}),
            &[
                "containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ],
        ),
        (
            json!({"ports": [{"name": "A", "containerPort": 70_000}, {"hostPort": 1}]}),
            &[
                "containers[0].ports[0].name: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "containers[0].ports[0].name: Invalid value: \"A\": must contain at least one letter (a-z)",
                "containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "containers[0].ports[1].containerPort: Required value",
            ],
        ),
        (
            json!({"livenessProbe": {"successThreshold": 2}, "lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}),
            &[
                "containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)",
                "containers[0].livenessProbe: Required value: must specify a handler type",
                "containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "4Mi"}, "claims": [{"name": "g"}]}}),
            &[
                "containers[0].resources.requests: Invalid value: \"4Mi\": must be equal to hugepages-2Mi limit of 2Mi",
                "containers[0].resources: Forbidden: HugePages require cpu or memory",
                "containers[0].resources.claims[0]: Not found: \"g\": must be one of the names in pod.spec.resourceClaims which is empty",
            ],
        ),
        (
            json!({"restartPolicy": "Sometimes"}),
            &[
                "containers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"Never\", \"OnFailure\"",
            ],
        ),
        (
            json!({"imagePullPolicy": "Often"}),
            &[
                "containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            json!({"securityContext": {"runAsUser": -1}}),
            &[
                "containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
    ] {
        assert_eq!(container(patch.clone()), said, "{patch}");
    }
}

#[test]
fn metadata_of_a_custom_resource_is_that_of_any_object() {
    let of = |kind: &str, version: &str, metadata: Value| {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        crate::text::patch::merge(&mut object["metadata"], &metadata);
        let found = validate(&crate::judge::api::defaults::stored(&object));
        let found = found.into_iter().map(|cause| format!("{}: {}", cause.path, cause.message));
        found.filter(|cause| cause.starts_with("metadata")).collect::<Vec<_>>()
    };
    let custom = |metadata: Value| of("ScaledJob", "keda.sh/v1alpha1", metadata);
    let plain = json!({"finalizers": ["finalizer.keda.sh"]});
    assert_eq!(custom(plain.clone()), [""; 0]);
    assert_eq!(
        of("Job", "batch/v1", plain),
        [
            "metadata.finalizers[0]: Invalid value: \"finalizer.keda.sh\": name is neither a standard finalizer name \
             nor is it fully qualified"
        ]
    );
    assert_eq!(custom(json!({"finalizers": [""]})).len(), 2);
    assert_eq!(custom(json!({"finalizers": ["orphan", "foregroundDeletion"]})).len(), 1);
    let owner = |version: &str, kind: &str| {
        custom(json!({"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "a", "uid": "u"}]}))
    };
    assert_eq!(owner("apps/v1", "Event"), [""; 0]);
    assert_eq!(
        owner("v1", "Event"),
        [
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"a\",\"uid\":\"u\"}: \
             /v1, Kind=Event is disallowed from being an owner"
        ]
    );
    assert_eq!(
        owner("a/b/c", "Pod"),
        ["metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty"]
    );
}

#[test]
fn what_is_there_twice_is_found_whatever_it_is_with() {
    let claims = |claims: Value| {
        let found = container(json!({"resources": {"claims": claims}}))
            .into_iter()
            .filter(|cause| cause.contains("Dup"));
        found.count()
    };
    let (whole, one, other) =
        (json!({"name": "g"}), json!({"name": "g", "request": "a"}), json!({"name": "g", "request": "b"}));
    assert_eq!(claims(json!([one, other])), 0);
    assert_eq!(claims(json!([one, other, one])), 1);
    assert_eq!(claims(json!([whole, one])), 1);
    assert_eq!(claims(json!([one, whole, other])), 2);
    let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"});
    let twice = "Duplicate value: \"{a, DoNotSchedule}\"";
    assert_eq!(
        pod(json!({"topologySpreadConstraints": [spread("a"), spread("b"), spread("a"), spread("a")]})),
        [0, 2]
            .map(|at| format!("topologySpreadConstraints[{at}].{{topologyKey, whenUnsatisfiable}}: {twice}"))
    );
}

/// Specs of pods with long lists, or pairs of them, whose items all differ.
fn long_lists(count: usize) -> [Value; 5] {
    let many = |item: &dyn Fn(usize) -> Value| (0..count).map(item).collect::<Value>();
    let named = many(&|nth| json!({"name": format!("n{nth}")}));
    let amounts = |from: usize| {
        let entries = (from..from + count).map(|nth| (format!("x.io/{nth}"), json!("1")));
        Value::Object(entries.collect())
    };
    let keys = |from: usize| (from..from + count).map(|nth| json!(format!("k{nth}"))).collect::<Value>();
    [
        json!({"schedulingGates": named}),
        json!({"topologySpreadConstraints": many(&|nth| json!({"topologyKey": format!("k{nth}")}))}),
        json!({"resources": {"requests": amounts(0), "limits": amounts(0)}, "containers": [
            {"name": "a", "image": "a", "resources": {"requests": amounts(10), "limits": amounts(10)}}
        ]}),
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {}, "matchLabelKeys": keys(0), "mismatchLabelKeys": keys(count)}
        ]}}}),
        json!({"containers": [{"name": "a", "image": "a", "resources": {"claims": named}}], "resourceClaims": named}),
    ]
}

/// Returns the shortest time that it took to check an object with such a spec.
fn time_to_check(spec: &Value, codes: i64) -> std::time::Duration {
    let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {
        "template": {"spec": spec},
        "podFailurePolicy": {"rules": [{
            "action": "Count",
            "onExitCodes": {"operator": "In", "values": (1..codes).collect::<Value>()},
        }]},
    }});
    let stored = crate::judge::api::defaults::stored(&object);
    let took = (0..5).map(|_| {
        let start = std::time::Instant::now();
        drop(validate(&stored));
        start.elapsed()
    });
    took.min().unwrap_or_default()
}

#[test]
fn long_lists_of_different_items_take_time_by_their_length() {
    for (few, many) in long_lists(2000).iter().zip(&long_lists(20_000)) {
        let (few, many) = (time_to_check(few, 2000), time_to_check(many, 20_000));
        // Each with each would take a hundred times as long.
        assert!(many < few * 40, "{few:?}, and {many:?} for ten times as many");
    }
}

/// How often each thing is said, at each place without its indexes.
fn counts(job: &Value) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for cause in validate(&crate::judge::api::defaults::stored(job)) {
        let place: String = cause.path.to_string().chars().filter(|c| !c.is_ascii_digit()).collect();
        *counts.entry(format!("{place}: {}", cause.message)).or_default() +=
            cause.items.map_or(1, |items| items.count);
    }
    counts
}

#[test]
fn items_in_a_row_that_are_the_same_are_all_counted() {
    let job = |list: &[&str], items: Value| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": pod}, "podFailurePolicy": {"rules": []}},
        });
        let (last, around) = list.split_last().expect("a list");
        let around = around.iter().fold(&mut job, |value, step| match step.parse::<usize>() {
            Ok(index) => &mut value[index],
            Err(_) => &mut value[*step],
        });
        around[*last] = items;
        job
    };
    const POD: [&str; 3] = ["spec", "template", "spec"];
    for list in [
        &["containers"][..],
        &["initContainers"],
        &["volumes"],
        &["schedulingGates"],
        &["topologySpreadConstraints"],
        &["tolerations"],
        &["hostAliases"],
        &["resourceClaims"],
        &["containers", "0", "env"],
        &["containers", "0", "envFrom"],
        &["containers", "0", "ports"],
        &["containers", "0", "volumeMounts"],
        &["containers", "0", "volumeDevices"],
        &["containers", "0", "resizePolicy"],
        &["/", "spec", "podFailurePolicy", "rules"],
        &["/", "metadata", "ownerReferences"],
    ] {
        let list = match list {
            ["/", rest @ ..] => rest.to_vec(),
            rest => [&POD[..], rest].concat(),
        };
        let items = [json!({}), json!({"name": "a"}), json!({"key": "b", "name": "B"}), json!(1)];
        for other in &items[1..] {
            // In rows, and by turns, so that none is as the one before.
            let all = |is_first: fn(usize) -> bool| -> Value {
                (0..1200).map(|nth| if is_first(nth) { items[0].clone() } else { other.clone() }).collect()
            };
            let (rows, turns) = (all(|nth| nth < 600), all(|nth| nth % 2 == 0));
            let (rows, turns) = (counts(&job(&list, rows)), counts(&job(&list, turns)));
            assert_eq!(rows, turns, "{list:?} {other}");
            assert!(rows.values().any(|count| *count > 500), "{list:?} {other} {rows:?}");
        }
    }
}

/// What Kubernetes 1.37 says of them.
#[test]
fn what_a_pod_asks_for_is_not_less_than_its_containers_do_at_once() {
    let of = |list: &str, name: &str, amount: &str| json!({(list.to_owned()): {(name.to_owned()): amount}});
    let container = |list: &str, name: &str, amount: &str| json!({"name": "x", "image": "i", "resources": of(list, name, amount)});
    let sidecar = |amount: &str| {
        let mut container = container("requests", "cpu", amount);
        container["restartPolicy"] = "Always".into();
        container
    };
    let said = |amount: &str, containers: Vec<Value>, mut init: Vec<Value>| {
        for (nth, container) in init.iter_mut().enumerate() {
            container["name"] = format!("i{nth}").into();
        }
        pod(
            json!({"resources": of("requests", "cpu", amount), "containers": containers, "initContainers": init}),
        )
    };
    let less = |amount: &str, total: &str| {
        format!(
            "resources.requests[cpu]: Invalid value: \"{amount}\": must be greater than or equal to aggregate container requests of {total}"
        )
    };
    let main = || vec![container("requests", "cpu", "1")];
    assert_eq!(said("1", main(), Vec::new()), [""; 0]);
    assert_eq!(said("1", main(), vec![container("requests", "cpu", "2")]), [less("1", "2")]);
    assert_eq!(said("2", main(), vec![container("requests", "cpu", "2")]), [""; 0]);
    // A sidecar runs beside the containers, and beside init containers that come after it.
    assert_eq!(said("1500m", main(), vec![sidecar("1")]), [less("1500m", "2")]);
    assert_eq!(said("2", main(), vec![container("requests", "cpu", "2"), sidecar("1")]), [""; 0]);
    assert_eq!(said("2", main(), vec![sidecar("1"), container("requests", "cpu", "2")]), [less("2", "3")]);
    // With the suffixes of the first.
    let memory = |first: &str, second: &str| {
        let mut second = container("requests", "memory", second);
        second["name"] = "y".into();
        let containers = vec![container("requests", "memory", first), second];
        pod(json!({"resources": of("requests", "memory", "1"), "containers": containers}))
    };
    for (first, second, total) in
        [("1Gi", "1Gi", "2Gi"), ("1Gi", "1G", "2073741824"), ("1500M", "1500M", "3G"), ("0", "1Mi", "1Mi")]
    {
        let found = memory(first, second);
        assert!(found[0].ends_with(&format!(" of {total}")), "{found:?}");
    }
    let huge = pod(json!({
        "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
        "containers": [
            {"name": "a", "image": "i", "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}}},
            {"name": "b", "image": "i", "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}}},
        ],
    }));
    assert_eq!(
        huge,
        [
            "resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container limits of 4Mi"
        ]
    );
}

/// What Kubernetes 1.37 says of them.
#[test]
fn an_empty_choice_is_not_an_unset_one() {
    for (field, words) in [
        ("runtimeClassName", "Invalid value: \"\""),
        ("preemptionPolicy", "Required value"),
        ("priorityClassName", ""),
        ("restartPolicy", "Required value"),
    ] {
        let found = pod(json!({(field.to_owned()): ""}));
        let first = found.first().map(String::as_str).unwrap_or_default();
        assert!(first.contains(words) && first.is_empty() == words.is_empty(), "{field}: {found:?}");
    }
    let found = pod(json!({"securityContext": {"fsGroupChangePolicy": ""}}));
    assert_eq!(
        found,
        [
            "securityContext.fsGroupChangePolicy: Unsupported value: \"\": supported values: \"Always\", \"OnRootMismatch\""
        ]
    );
}

/// What Kubernetes 1.37 says of them.
#[test]
fn sysctls_of_namespaces_that_a_pod_shares_with_its_node() {
    let of = |host: &str, name: &str| {
        let security = json!({"sysctls": [{"name": name, "value": "1"}]});
        pod(json!({(host.to_owned()): true, "securityContext": security}))
    };
    for name in ["net.core.somaxconn", "net/core/somaxconn"] {
        assert_eq!(of("hostNetwork", name).len(), 1, "{name}");
        assert_eq!(of("hostIPC", name), [""; 0], "{name}");
    }
    for name in ["kernel.shmmax", "kernel/shmmax", "kernel.sem", "fs.mqueue.msg_max", "fs/mqueue/msg_max"] {
        assert_eq!(of("hostIPC", name).len(), 1, "{name}");
    }
    for name in ["kernel.shm_next_id", "kernel.semaphore", "network.x", "fs.mqueue"] {
        assert_eq!(of("hostIPC", name), [""; 0], "{name}");
    }
}
