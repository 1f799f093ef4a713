//! The manifests hold what Kubernetes' good practices for admission webhooks ask of them (GP and EX are the
//! numbers of that list), in every way that installs Jobgate; and the ways agree with each other and with the
//! program.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use jobgate::admission::{Endpoint, Meta};
use jobgate::judge::facts::FactKind;
use jobgate::judge::policy::Policy;
use jobgate::kinds::Kind;
use jobgate::report::policy_report::{OPEN_REPORTS, POLICY_REPORTS};
use jobgate::serve::server::Metrics;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use crate::support::deploy::{self, Rendering};

/// The words in a list.
fn words(list: &Value) -> Vec<&str> {
    list.as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

fn each(check: impl Fn(&Rendering)) {
    let all = deploy::all();
    assert!(!all.is_empty());
    for rendering in all {
        println!("{}", rendering.name);
        check(rendering);
    }
}

fn each_webhook(check: impl Fn(&Value)) {
    each(|rendering| {
        let webhooks = rendering.webhooks();
        assert!(webhooks.len() >= 2);
        webhooks.into_iter().for_each(&check);
    });
}

fn fails_closed(webhook: &Value) -> bool {
    webhook["failurePolicy"] == "Fail"
}

/// The value lists of the namespace selector, by operator.
fn namespaces<'w>(webhook: &'w Value, operator: &str) -> Vec<Vec<&'w str>> {
    let expressions = webhook["namespaceSelector"]["matchExpressions"].as_array().expect("expressions");
    expressions
        .iter()
        .filter(|expression| expression["operator"] == operator)
        .map(|expression| words(&expression["values"]))
        .collect()
}

#[test]
fn gp3_one_webhook_for_each_purpose_and_failure_policy() {
    each(|rendering| {
        let [mutating, validating] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
            .map(|kind| rendering.the(kind));
        assert_eq!(mutating["webhooks"].as_array().unwrap().len(), 1);
        let policies: Vec<_> = validating["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|webhook| &webhook["failurePolicy"])
            .collect();
        assert!(policies == ["Ignore"] || policies == ["Ignore", "Fail"], "{policies:?}");
    });
}

#[test]
fn gp5_timeouts_are_short() {
    each(|rendering| {
        for (kind, seconds) in [("MutatingWebhookConfiguration", 2), ("ValidatingWebhookConfiguration", 3)] {
            for webhook in rendering.the(kind)["webhooks"].as_array().unwrap() {
                assert_eq!(webhook["timeoutSeconds"], seconds);
            }
        }
    });
}

#[test]
fn gp6_two_replicas_behind_a_service_that_a_roll_out_never_empties() {
    each(|rendering| {
        let deployment = rendering.the("Deployment");
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        assert!(deployment["spec"]["replicas"].as_u64().unwrap() >= 2);
        assert_eq!(
            deployment["spec"]["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
        );
        let spread = rendering.pod()["topologySpreadConstraints"].as_array().unwrap();
        assert_eq!(
            spread.iter().map(|each| &each["topologyKey"]).collect::<Vec<_>>(),
            ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        );
        assert!(
            spread.iter().all(|each| &each["labelSelector"]["matchLabels"] == selector),
            "and it must spread these pods"
        );
        let budget = &rendering.the("PodDisruptionBudget")["spec"];
        assert_eq!((&budget["minAvailable"], &budget["selector"]["matchLabels"]), (&json!(1), selector));
        let service = &rendering.the("Service")["spec"];
        assert_eq!((&service["type"], &service["selector"]), (&json!("ClusterIP"), selector));
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert!(selector.as_object().unwrap().iter().all(|(key, value)| &labels[key] == value));
    });
}

#[test]
fn gp6_the_pods_have_time_to_drain_and_probes_on_the_plain_port() {
    each(|rendering| {
        let limits = jobgate::serve::server::Limits::default();
        let longest = limits.drain_accept + limits.first_request + limits.drain;
        assert!(rendering.pod()["terminationGracePeriodSeconds"].as_u64().unwrap() > longest.as_secs());
        let container = &rendering.pod()["containers"][0];
        for (probe, path) in
            [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "metrics"}));
        }
        assert!(container["lifecycle"].is_null(), "there is no shell in the image, and it drains by itself");
    });
}

#[test]
fn gp7_gp9_only_the_kinds_that_are_judged_and_nothing_below_them() {
    let judged: BTreeSet<(String, String, String)> = Kind::all()
        .filter(|kind| !kind.untested)
        .map(|kind| (kind.group.into(), kind.version.into(), kind.resource.into()))
        .collect();
    each_webhook(|webhook| {
        let mut matched = BTreeSet::new();
        for rule in webhook["rules"].as_array().unwrap() {
            assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
            let cluster = words(&rule["resources"]) == ["clustertrainingruntimes"];
            assert_eq!(rule["scope"], if cluster { "Cluster" } else { "Namespaced" });
            for group in words(&rule["apiGroups"]) {
                for version in words(&rule["apiVersions"]) {
                    matched.extend(
                        words(&rule["resources"])
                            .into_iter()
                            .map(|resource| (group.to_owned(), version.to_owned(), resource.to_owned())),
                    );
                }
            }
        }
        assert_eq!(matched, judged);
    });
}

#[test]
fn gp8_gp10_the_systems_namespaces_and_our_own_are_left_alone_by_the_label_that_cannot_be_forged() {
    each_webhook(|webhook| {
        assert!(webhook["namespaceSelector"]["matchLabels"].is_null() && webhook["objectSelector"].is_null());
        for expression in webhook["namespaceSelector"]["matchExpressions"].as_array().unwrap() {
            assert_eq!(expression["key"], "kubernetes.io/metadata.name");
        }
        let excluded: BTreeSet<_> = namespaces(webhook, "NotIn").concat().into_iter().collect();
        assert!(
            ["kube-system", "kube-node-lease", "kube-public", "jobgate"]
                .iter()
                .all(|name| excluded.contains(name)),
            "{excluded:?}"
        );
    });
}

#[test]
fn gp11_conditions_look_at_the_request_alone() {
    each_webhook(|webhook| {
        for condition in webhook["matchConditions"].as_array().unwrap() {
            let expression = condition["expression"].as_str().unwrap();
            // Outside of text there is `request.…`, `has`, and operators: nothing that costs more with the
            // object, and nothing that can be absent.
            let outside: String = expression.split('\'').step_by(2).collect();
            let mut words: Vec<&str> = outside
                .split(|char: char| !(char.is_alphanumeric() || char == '.' || char == '_'))
                .filter(|word| !word.is_empty())
                .collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words, ["has", "request.operation", "request.userInfo.username"]);
        }
    });
}

#[test]
fn gp12_every_version_of_a_kind_is_matched() {
    each_webhook(|webhook| assert_eq!(webhook["matchPolicy"], "Equivalent"));
}

#[test]
fn gp16_no_side_effects() {
    each_webhook(|webhook| assert_eq!(webhook["sideEffects"], "None"));
}

#[test]
fn gp17_gp18_an_installation_asks_for_nothing_that_waits_for_itself() {
    each(|rendering| {
        for object in &rendering.objects {
            assert!(
                !matches!(object["kind"].as_str(), Some("Job" | "CronJob" | "Pod")),
                "{}: {object}",
                rendering.name
            );
            assert!(object["metadata"]["annotations"]["helm.sh/hook"].is_null());
        }
        assert!(rendering.pod()["initContainers"].is_null());
    });
}

#[test]
fn gp19_gp29_everything_fails_open_but_for_what_validates_in_named_namespaces() {
    each(|rendering| {
        assert!(
            rendering.the("MutatingWebhookConfiguration")["webhooks"]
                .as_array()
                .unwrap()
                .iter()
                .all(|webhook| !fails_closed(webhook))
        );
        for webhook in rendering.webhooks() {
            if !fails_closed(webhook) {
                assert_eq!(webhook["failurePolicy"], "Ignore");
                continue;
            }
            assert_eq!(namespaces(webhook, "In"), [["training"]], "only what is listed");
            let open = &rendering.the("ValidatingWebhookConfiguration")["webhooks"][0];
            assert!(namespaces(open, "NotIn").contains(&vec!["training"]), "and nothing is judged twice");
        }
    });
}

#[test]
fn gp23_other_mutators_are_looked_at_again() {
    each(|rendering| {
        for webhook in rendering.the("MutatingWebhookConfiguration")["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
        }
    });
}

/// Tells whether a resource has objects that rules look up.
fn is_looked_up(resource: &str) -> bool {
    FactKind::all().any(|kind| kind.definition().resource.name == resource)
}

#[test]
fn gp30_permissions_have_names_and_no_wildcard() {
    each(|rendering| {
        for role in rendering.all("Role").chain(rendering.all("ClusterRole")) {
            for rule in role["rules"].as_array().unwrap() {
                let all: Vec<&str> = ["apiGroups", "resources", "verbs"]
                    .into_iter()
                    .flat_map(|key| words(&rule[key]))
                    .collect();
                assert!(!all.iter().any(|word| word.contains('*')), "{role}");
                assert!(
                    !words(&rule["verbs"])
                        .iter()
                        .any(|verb| ["create", "delete", "deletecollection"].contains(verb)),
                    "{role}"
                );
                match words(&rule["resources"])[..] {
                    ref resources if resources.iter().all(|name| is_looked_up(name)) => {
                        assert_eq!(role["metadata"]["name"], "jobgate-claims");
                    }
                    // Whether a parent exists, and nothing else of it.
                    [resource] if Kind::with_children().any(|kind| kind.resource == resource) => {
                        assert_eq!(role["metadata"]["name"], "jobgate-claims");
                        assert_eq!(words(&rule["verbs"]), ["get"]);
                    }
                    ["secrets"] => {
                        assert_eq!(
                            (&role["kind"], &rule["resourceNames"]),
                            (&json!("Role"), &json!(["jobgate-tls"]))
                        );
                    }
                    ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] => {
                        assert_eq!(rule["resourceNames"], json!(["jobgate"]));
                    }
                    ref other => panic!("{}: no business with {other:?}", rendering.name),
                }
            }
        }
        let mounts_token = rendering.pod()["automountServiceAccountToken"] == true;
        let roles = rendering.all("Role").chain(rendering.all("ClusterRole")).count();
        assert_eq!(mounts_token, roles > 0, "a token where there is something to do with it");
        assert_eq!(rendering.the("ServiceAccount")["automountServiceAccountToken"], false);
        let egress = rendering.the("NetworkPolicy")["spec"]["egress"].as_array().unwrap();
        assert_eq!(egress.is_empty(), roles == 0, "and a way out where there is somebody to speak to");
    });
}

#[test]
fn what_rules_look_up_and_parents_can_be_read_where_anything_can() {
    let looked_up = |verbs: &[&'static str]| -> BTreeSet<_> {
        let facts = FactKind::all().map(|kind| kind.definition().resource);
        let facts =
            facts.flat_map(|resource| verbs.iter().map(move |verb| (resource.group, resource.name, *verb)));
        facts.chain(Kind::with_children().map(|kind| (kind.group, kind.resource, "get"))).collect()
    };
    let (cached, live) = (looked_up(&["get", "list", "watch"]), looked_up(&["get"]));
    each(|rendering| {
        let roles = rendering.all("ClusterRole");
        for role in roles.filter(|role| role["metadata"]["name"] == "jobgate-claims") {
            let mut allowed = BTreeSet::new();
            for rule in role["rules"].as_array().unwrap() {
                for group in words(&rule["apiGroups"]) {
                    for resource in words(&rule["resources"]) {
                        allowed.extend(words(&rule["verbs"]).into_iter().map(|verb| (group, resource, verb)));
                    }
                }
            }
            let differ: Vec<_> = allowed.symmetric_difference(&cached).collect();
            assert!(differ.is_empty() || allowed == live, "{}: {differ:?}", rendering.name);
        }
    });
}

#[test]
fn ex1_the_version_of_reviews_is_v1() {
    each_webhook(|webhook| assert_eq!(webhook["admissionReviewVersions"], json!(["v1"])));
}

#[test]
fn the_pods_are_restricted() {
    each(|rendering| {
        let (pod, container) = (rendering.pod(), &rendering.pod()["containers"][0]);
        let context = json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(pod["securityContext"], context);
        let context = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(container["securityContext"], context);
        assert!(container["resources"]["limits"]["cpu"].is_null(), "a throttled webhook is a late one");
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod[key].is_null());
        }
        for volume in pod["volumes"].as_array().unwrap() {
            assert!(volume["configMap"].is_object() || volume["secret"].is_object());
        }
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert_eq!(
                (&mount["readOnly"], &mount["subPath"]),
                (&json!(true), &Value::Null),
                "what is mounted by subPath never changes"
            );
        }
    });
}

/// The arithmetic is at `Limits::memory_ceiling`.
#[test]
fn the_memory_limit_is_above_what_the_program_bounds_itself_to() {
    each(|rendering| {
        let mebibytes = rendering.memory_limit();
        let ceiling = jobgate::serve::server::Limits::default().memory_ceiling();
        assert!(ceiling <= mebibytes << 20, "{} MiB of {mebibytes}", ceiling >> 20);
        // And not far above it: a limit that nothing can reach hides a leak.
        assert!(ceiling > (mebibytes - 128) << 20, "{} MiB of {mebibytes}", ceiling >> 20);
    });
}

#[test]
fn what_is_called_is_what_is_served() {
    each(|rendering| {
        let service = rendering.the("Service");
        let container = &rendering.pod()["containers"][0];
        for webhook in rendering.webhooks() {
            let called = &webhook["clientConfig"]["service"];
            assert_eq!(
                (&called["name"], &called["namespace"]),
                (&service["metadata"]["name"], &service["metadata"]["namespace"])
            );
            let port = service["spec"]["ports"]
                .as_array()
                .unwrap()
                .iter()
                .find(|port| port["port"] == called["port"])
                .unwrap();
            let target = container["ports"]
                .as_array()
                .unwrap()
                .iter()
                .find(|served| served["name"] == port["targetPort"])
                .unwrap();
            assert_eq!(target["containerPort"], 10250, "the port that managed clusters let through");
            assert!(["/mutate", "/validate"].contains(&called["path"].as_str().unwrap()));
        }
    });
}

#[test]
fn nobody_but_who_makes_the_certificates_owns_the_bundle() {
    each_webhook(|webhook| {
        assert!(webhook["clientConfig"].get("caBundle").is_none(), "applying it again must not blank it");
    });
    each(|rendering| {
        assert!(
            rendering
                .all("Secret")
                .all(|secret| secret.get("data").is_none() && secret.get("stringData").is_none())
        );
    });
}

#[test]
fn everything_has_the_label_by_which_it_is_found() {
    each(|rendering| {
        for object in &rendering.objects {
            assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/name"], "jobgate", "{object}");
        }
    });
}

#[test]
fn the_program_takes_the_arguments() {
    each(|rendering| {
        let arguments = rendering.arguments();
        let parsed =
            jobgate::cli::args::Cli::try_parse_from(["jobgate"].into_iter().chain(arguments.iter().copied()));
        assert!(parsed.is_ok(), "{arguments:?}: {}", parsed.unwrap_err());
    });
}

#[test]
fn the_policy_is_good_and_is_where_the_program_looks() {
    each(|rendering| {
        let map = rendering.all("ConfigMap").find(|map| map["metadata"]["name"] == "jobgate-policy").unwrap();
        let source = map["data"]["policy.yaml"].as_str().unwrap();
        Policy::parse(source, "policy.yaml").unwrap();
        let mount = &rendering.pod()["containers"][0]["volumeMounts"][0];
        assert_eq!(rendering.pod()["volumes"][0]["configMap"]["name"], "jobgate-policy");
        let path = format!("--policy={}/policy.yaml", mount["mountPath"].as_str().unwrap());
        assert!(rendering.arguments().contains(&path.as_str()));
        let named = ["audit", "strict"].into_iter().find(|name| rendering.name.contains(name));
        let expected = named.unwrap_or("default");
        let builtin = jobgate::policies::BUILTINS.iter().find(|builtin| builtin.name == expected).unwrap();
        assert_eq!(source, builtin.source);
    });
}

/// Objects in an order that does not depend on how they were rendered, without what Helm says of itself.
fn comparable(rendering: &Rendering) -> Vec<Value> {
    let mut objects: Vec<Value> =
        rendering.objects.iter().filter(|object| object["kind"] != "Namespace").cloned().collect();
    for object in &mut objects {
        let labels = object["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("app.kubernetes.io/managed-by");
        labels.remove("helm.sh/chart");
        for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            webhook["rules"] = one_rule_each(&webhook["rules"]);
        }
    }
    objects.sort_by_key(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]));
    objects
}

/// A webhook is called for what any of its rules names, so it does not matter that the chart has a rule for each
/// kind, which its values can leave out, where the overlays have one for each group.
fn one_rule_each(rules: &Value) -> Value {
    let mut each = Vec::new();
    for rule in rules.as_array().expect("rules") {
        for resource in rule["resources"].as_array().expect("resources") {
            let mut one = rule.clone();
            one["resources"] = json!([resource]);
            each.push(one);
        }
    }
    each.sort_by_key(ToString::to_string);
    json!(each)
}

fn same(a: &Rendering, b: &Rendering) {
    let (left, right) = (comparable(a), comparable(b));
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right, "{} and {}", a.name, b.name);
    }
    assert_eq!(left.len(), right.len(), "{} and {}", a.name, b.name);
}

#[test]
fn kustomize_and_the_one_file_agree() {
    let install = deploy::install();
    match deploy::kustomize(Path::new("overlays/self-managed")) {
        Some(rendering) => same(&install, &rendering),
        None => println!("skipped: the overlays need kubectl"),
    }
}

#[test]
fn the_chart_agrees_with_the_overlays() {
    let pairs = [
        ("self-managed", json!({})),
        ("audit", json!({"policy": {"name": "audit"}})),
        ("cert-manager", json!({"certificates": {"mode": "cert-manager"}})),
        ("no-rbac", json!({"certificates": {"mode": "mounted"}, "claims": "off"})),
        ("fail-closed", json!({"webhooks": {"failClosedNamespaces": ["training"]}})),
    ];
    for (overlay, values) in pairs {
        match (deploy::kustomize(&Path::new("overlays").join(overlay)), deploy::chart(&values)) {
            (Some(overlay), Some(chart)) => same(&overlay, &chart),
            _ => continue,
        }
    }
}

#[test]
fn the_charts_options_agree_with_the_components() {
    let values = json!({"serviceMonitor": {"enabled": true}, "alerts": {"enabled": true}, "dashboard": {"enabled": true}});
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_MANIFEST_DIR")).join("target"))
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let at = |what: &str| {
        pathdiff(folder.path(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(what))
    };
    let all = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [at("base")],
        "components": [at("components/service-monitor"), at("components/alerts"), at("components/dashboard")],
    });
    std::fs::write(folder.path().join("kustomization.yaml"), all.to_string()).unwrap();
    if let (Some(overlay), Some(chart)) = (deploy::kustomize(folder.path()), deploy::chart(&values)) {
        same(&overlay, &chart);
    }
}

/// Kustomize takes folders by relative paths only.
fn pathdiff(from: &Path, to: &Path) -> String {
    let (from, to) =
        (from.canonicalize().expect("an existing folder"), to.canonicalize().expect("an existing folder"));
    let up = from.components().skip(1).map(|_| "..").collect::<Vec<_>>().join("/");
    format!("{up}{}", to.display())
}

#[test]
fn the_chart_refuses_values_that_mean_nothing() {
    let wrong = [
        json!({"replicas": 1}),
        json!({"replica": 3}),
        json!({"policy": {"name": "lenient"}}),
        json!({"claims": "on"}),
        json!({"certificates": {"mode": "helm"}}),
        json!({"webhooks": {"failClosedNamespaces": ["*"]}}),
        json!({"image": {"digest": "latest"}}),
    ];
    for values in wrong {
        match deploy::chart_refuses(&values) {
            Some(refused) => assert!(refused, "{values}"),
            None => return,
        }
    }
    assert_ne!(deploy::chart_refuses(&json!({})), Some(true));
}

#[test]
fn the_charts_values_reach_what_they_are_about() {
    let values = json!({
        "image": {"repository": "registry.example.com/jobgate", "digest": format!("sha256:{}", "0".repeat(64))},
        "claims": "live", "replicas": 3, "hostNetwork": true, "ports": {"webhook": 10260, "metrics": 8081},
        "policy": {"text": "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec: {}\n"},
        "priorityClass": {"create": false, "name": "system-cluster-critical"},
        "networkPolicy": {"apiServerCidrs": ["192.0.2.0/28"], "egressCidrs": ["192.0.2.9/32"], "apiServerPorts": [8443]},
        "certificates": {"mode": "mounted", "ca": "pem"}, "extraArgs": ["--log=debug"], "podLabels": {"team": "platform"},
    });
    let Some(rendering) = deploy::chart(&values) else {
        return;
    };
    let (pod, container) = (rendering.pod(), &rendering.pod()["containers"][0]);
    assert_eq!(
        container["image"],
        format!("registry.example.com/jobgate@sha256:{}", "0".repeat(64)).as_str()
    );
    assert_eq!(
        (&pod["hostNetwork"], &pod["priorityClassName"]),
        (&json!(true), &json!("system-cluster-critical"))
    );
    assert_eq!(rendering.all("PriorityClass").count(), 0);
    let arguments =
        ["--claims=live", "--listen=0.0.0.0:10260", "--metrics-listen=0.0.0.0:8081", "--log=debug"];
    assert!(
        arguments.iter().all(|argument| rendering.arguments().contains(argument)),
        "{:?}",
        rendering.arguments()
    );
    assert!(
        jobgate::cli::args::Cli::try_parse_from(["jobgate"].into_iter().chain(rendering.arguments())).is_ok()
    );
    assert_eq!(rendering.the("Deployment")["spec"]["template"]["metadata"]["labels"]["team"], "platform");
    assert_eq!(
        rendering.the("ClusterRole")["rules"][0]["verbs"],
        json!(["get"]),
        "a live look-up lists nothing"
    );
    let network = &rendering.the("NetworkPolicy")["spec"];
    assert_eq!(network["ingress"][0]["from"], json!([{"ipBlock": {"cidr": "192.0.2.0/28"}}]));
    assert_eq!(network["egress"][0]["ports"][0]["port"], 8443);
    assert_eq!(network["egress"][0]["to"], json!([{"ipBlock": {"cidr": "192.0.2.9/32"}}]));
    assert!(rendering.webhooks().iter().all(|webhook| webhook["clientConfig"]["caBundle"] == "cGVt"));
}

#[test]
fn nobody_evicts_the_work_of_others_with_our_priority() {
    each(|rendering| {
        for class in rendering.all("PriorityClass") {
            assert_eq!(
                (&class["preemptionPolicy"], &class["globalDefault"]),
                (&json!("Never"), &json!(false))
            );
        }
    });
    assert_eq!(deploy::install().all("PriorityClass").count(), 1);
}

#[test]
fn a_mounted_certificate_must_be_for_the_service() {
    each(|rendering| {
        let arguments = rendering.arguments();
        let mounted = arguments.iter().any(|argument| argument.starts_with("--tls-cert="));
        assert_eq!(
            arguments.contains(&"--tls-server-name=jobgate.jobgate.svc"),
            mounted,
            "{}: {arguments:?}",
            rendering.name
        );
    });
}

/// What anybody can send to the port must not be able to raise an alert about faults.
#[test]
fn no_alert_is_on_what_a_stranger_sends() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/components/alerts/prometheus-rule.yaml"),
    )
    .unwrap();
    let rule = yaml::documents(text.as_bytes()).next().unwrap().unwrap().value;
    for rule in rule["spec"]["groups"][0]["rules"].as_array().unwrap() {
        let expression = rule["expr"].as_str().unwrap();
        assert!(
            !expression.contains("malformed_reviews") || expression.contains("caller=\"authenticated\""),
            "{expression}"
        );
        for metric in ["requests_rejected", "handshake_errors", "connections_refused", "connections_closed"] {
            assert!(!expression.contains(metric), "{expression}");
        }
    }
}

/// From the event to the alert: until it is scraped, until the rules are evaluated, and until it has lasted.
#[test]
fn what_opens_the_gate_is_an_alert_within_a_minute() {
    let read = |path: &str| {
        let text = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        yaml::documents(&text).next().unwrap().unwrap().value
    };
    let seconds = |value: &Value| -> u64 {
        value.as_str().map_or(0, |text| text.strip_suffix('s').unwrap_or("600").parse().unwrap_or(600))
    };
    let monitor = read("deploy/components/service-monitor/service-monitor.yaml");
    let scraped = seconds(&monitor["spec"]["endpoints"][0]["interval"]);
    let group = &read("deploy/components/alerts/prometheus-rule.yaml")["spec"]["groups"][0];
    for name in ["JobgateFault", "JobgateShedding"] {
        let rule = group["rules"].as_array().unwrap().iter().find(|rule| rule["alert"] == name).unwrap();
        let time = scraped + seconds(&group["interval"]) + seconds(&rule["for"]);
        assert!(scraped > 0 && time <= 60, "{name} takes {time} s");
    }
    // A counter that appears with its first event shows no increase.
    assert!(Metrics::new().text().contains("jobgate_faults_total{cause=\"shed\"} 0\n"));
}

/// Every metric that an alert names is one that the program prints, or the API server's own.
#[test]
fn alerts_are_written_on_metrics_that_there_are() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/components/alerts/prometheus-rule.yaml"),
    )
    .unwrap();
    let rule = yaml::documents(text.as_bytes()).next().unwrap().unwrap().value;
    let metrics = Metrics::new();
    // What has labels is printed once there is something to say.
    metrics.review(Endpoint::Validate, &Meta::default(), Duration::from_millis(1));
    metrics.reload("policy", false);
    metrics.policy("default", "a");
    let printed = metrics.text();
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 10);
    for rule in rules {
        assert!(
            rule["annotations"]["summary"].is_string()
                && rule["annotations"]["description"].is_string()
                && rule["labels"]["severity"].is_string()
        );
        let expression = rule["expr"].as_str().unwrap();
        let mut named = expression
            .split(|char: char| !(char.is_alphanumeric() || char == '_'))
            .filter(|word| word.starts_with("jobgate_"))
            .peekable();
        assert!(named.peek().is_some() || expression.contains("apiserver_admission_"), "{expression}");
        for metric in named {
            let base = ["_total", "_bucket", "_info"]
                .iter()
                .find_map(|suffix| metric.strip_suffix(suffix))
                .unwrap_or(metric);
            let declared = |name: &str| {
                printed.lines().any(|line| {
                    line.strip_prefix("# TYPE ").is_some_and(|rest| rest.split(' ').next() == Some(name))
                })
            };
            assert!(declared(base) || declared(metric), "{metric}");
        }
    }
}

#[test]
fn the_chart_leaves_out_any_kind() {
    let Some(whole) = deploy::chart(&json!({})) else { return };
    let registered = |rendering: &Rendering| -> BTreeSet<(String, String)> {
        let rules = rendering
            .webhooks()
            .into_iter()
            .flat_map(|webhook| webhook["rules"].as_array().expect("rules").clone());
        rules
            .flat_map(|rule| {
                let group = words(&rule["apiGroups"])[0].to_owned();
                words(&rule["resources"])
                    .into_iter()
                    .map(|name| (group.clone(), name.to_owned()))
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let all = registered(&whole);
    for kind in Kind::all().filter(|kind| !kind.untested) {
        let Some(less) = deploy::chart(&json!({"kinds": {kind.title(): false}})) else { return };
        let mut rest = all.clone();
        assert!(rest.remove(&(kind.group.to_owned(), kind.resource.to_owned())), "{kind:?}");
        assert_eq!(registered(&less), rest, "{kind:?}");
    }
    assert_eq!(deploy::chart_refuses(&json!({"kinds": {"Deployment": false}})), Some(true));
}

/// What `jobgate audit --publish` may do: read what it audits, and write reports. The webhook may do neither.
#[test]
fn the_role_of_published_audits_is_as_narrow_as_can_be() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/components/audit-publish/access.yaml");
    let text = std::fs::read(path).unwrap();
    let objects: Vec<Value> = yaml::documents(&text).map(|document| document.unwrap().value).collect();
    let role = |name: &str| -> Vec<(String, String, Vec<String>)> {
        let role = objects
            .iter()
            .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name);
        let words = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let mut all: Vec<(String, String, Vec<String>)> = Vec::new();
        for rule in role.unwrap()["rules"].as_array().unwrap() {
            assert!(rule.get("nonResourceURLs").is_none());
            for group in words(&rule["apiGroups"]) {
                all.extend(
                    words(&rule["resources"])
                        .into_iter()
                        .map(|resource| (group.clone(), resource, words(&rule["verbs"]))),
                );
            }
        }
        all.sort();
        all
    };
    let list = || vec!["list".to_owned()];
    let of = |group: &str, resource: &str, verbs: Vec<String>| (group.to_owned(), resource.to_owned(), verbs);
    let mut wanted: Vec<_> =
        Kind::all().filter(|kind| !kind.untested).map(|kind| of(kind.group, kind.resource, list())).collect();
    let facts = FactKind::all().map(|kind| kind.definition().resource);
    wanted.extend(facts.map(|resource| of(resource.group, resource.name, list())));
    wanted.extend([
        of("", "namespaces", vec!["get".to_owned(), "list".to_owned()]),
        of("admissionregistration.k8s.io", "mutatingwebhookconfigurations", list()),
        of("admissionregistration.k8s.io", "validatingwebhookconfigurations", list()),
    ]);
    wanted.sort();
    wanted.dedup();
    assert_eq!(role("jobgate-audit"), wanted);
    let write = || ["list", "create", "patch", "delete"].map(str::to_owned).to_vec();
    let reports: Vec<_> = [POLICY_REPORTS, OPEN_REPORTS]
        .into_iter()
        .flat_map(|api| [api.cluster.1, api.namespaced.1].map(|resource| of(api.group, resource, write())))
        .collect();
    let mut reports = reports;
    reports.sort();
    assert_eq!(role("jobgate-audit-publish"), reports);
    for object in &objects {
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["name"], "jobgate-audit", "the webhook's account gets none of it");
        }
    }
    for rendering in deploy::all() {
        let roles = rendering.all("ClusterRole").chain(rendering.all("Role"));
        let mut groups = roles
            .flat_map(|role| role["rules"].as_array().into_iter().flatten())
            .flat_map(|rule| rule["apiGroups"].as_array().into_iter().flatten());
        assert!(
            groups.all(|group| *group != OPEN_REPORTS.group && *group != POLICY_REPORTS.group),
            "{}",
            rendering.name
        );
    }
}
