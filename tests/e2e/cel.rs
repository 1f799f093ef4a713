//! What `jobgate policy export --vap` prints, judged by a real API server, says of every object what Jobgate
//! says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use jobgate::judge::cel;
use jobgate::judge::engine::{self, Origin, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Level;
use jobgate::judge::policy::Policy;
use jobgate::judge::rule::Exportable;
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use crate::api::{Api, list_of};
use crate::kinds::ANYBODY;
use crate::manifests::{asking, cron_job, endless, job, over, pytorch_job};
use crate::process::eventually;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("policies_in_the_api_server_know_overrides_and_exemptions", own_policy)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_let_old_violators_be", updates)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_know_what_has_grown", grown)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_know_no_label_of_kueue", |place| parameters(place, PLAIN))
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_know_labels_of_kueue", |place| parameters(place, KUEUE))
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_know_a_maximum", |place| parameters(place, MAXIMUM))
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_know_parameters_of_overrides", |place| {
        parameters(place, OVERRIDES);
    })
    .ungated()
    .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_trust_controllers", trusted)
        .ungated()
        .needs(Needs::CustomResources),
];

pub(crate) const RULES: [&str; 2] = ["deadline", "restart-policy"];

/// Policies in force in one namespace, until this is dropped.
pub(crate) struct InForce<'p> {
    place: &'p Place<'p>,
    policy: Policy,
    objects: String,
}

impl Drop for InForce<'_> {
    fn drop(&mut self) {
        self.place.cluster.admin.run(&["delete", "--wait=false", "-f", "-"], &self.objects);
    }
}

impl<'p> InForce<'p> {
    /// Applies what is exported of a policy, for this scenario's namespace only and by names of its own;
    /// nothing where the API server knows no such policies.
    pub(crate) fn of(place: &'p Place<'p>, policy: Policy) -> Option<Self> {
        let served = place
            .cluster
            .admin
            .run(&["get", "--raw", "/apis/admissionregistration.k8s.io/v1"], "")
            .quiet()
            .json();
        let mut resources = served["resources"].as_array().into_iter().flatten();
        if !resources.any(|resource| resource["name"] == "validatingadmissionpolicies") {
            println!("skipped: this API server has no ValidatingAdmissionPolicy (Kubernetes 1.30 and later)");
            return None;
        }
        let only =
            json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [place.namespace]});
        let mut objects = Vec::new();
        let mut names: Vec<(String, bool)> = Vec::new();
        for [mut judging, mut binding] in cel::export(&policy, "jobgate", None).objects {
            let name = format!("{}-{}", judging["metadata"]["name"].as_str()?, place.namespace);
            mark(&mut judging["spec"], &format!("probe-{name}"));
            judging["metadata"]["name"] = name.as_str().into();
            binding["metadata"]["name"] = name.as_str().into();
            binding["spec"]["policyName"] = name.as_str().into();
            binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
                .as_array_mut()?
                .push(only.clone());
            let is_inside = name.contains("-in-appwrapper");
            objects.extend([judging, binding]);
            names.push((name, is_inside));
        }
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        place.cluster.admin.run(&["apply", "--validate=strict", "-f", "-"], &objects).quiet();
        let policies = Self { place, policy, objects };
        // The API server compiles what it is given, and says what does not fit the types of the kinds.
        let typed = || {
            let all = place
                .cluster
                .admin
                .run(&["get", "validatingadmissionpolicies", "-o", "json"], "")
                .quiet()
                .json();
            for policy in all["items"].as_array().into_iter().flatten() {
                let name = policy["metadata"]["name"].as_str().unwrap_or_default();
                if name.ends_with(&place.namespace) {
                    assert_eq!(policy["status"]["typeChecking"]["expressionWarnings"], Value::Null, "{name}");
                }
            }
        };
        // Each comes into force by itself, in no order: one that is judged by tells nothing of the others.
        for (name, is_inside) in names {
            // The one kind that every policy here is about, but for those of what is inside another object.
            let probe = pytorch_job(&format!("probe-{name}"), json!({}));
            let probe = if is_inside { wrapped(&format!("probe-{name}"), [probe]) } else { probe };
            let told = format!("ValidatingAdmissionPolicy '{name}'");
            let in_force = || {
                if policies.place.dry_run(&probe).stderr.contains(&told) {
                    Ok(())
                } else {
                    Err(format!("{name} is not in force yet"))
                }
            };
            eventually(Duration::from_secs(60), in_force).expect("the policies are judged by");
        }
        typed();
        Some(policies)
    }

    /// Returns what the API server says of an object by a rule.
    pub(crate) fn says(&self, text: &str, rule: &str) -> Option<Level> {
        let by = |level: &str| {
            ["", "-in-appwrapper"].iter().any(|of| {
                text.contains(&format!(
                    "ValidatingAdmissionPolicy 'jobgate-{rule}{of}{level}-{}'",
                    self.place.namespace
                ))
            })
        };
        let denied = by("").then_some(Level::Deny);
        denied.or_else(|| by("-warn").then_some(Level::Warn))
    }

    /// Returns what Jobgate says of an object by a rule, if the policies have the rule for its kind.
    pub(crate) fn ours(&self, object: &Value, rule: &str) -> Option<Level> {
        self.judged(&self.policy, object, rule)
    }

    /// Returns the same by another policy.
    pub(crate) fn judged(&self, policy: &Policy, object: &Value, rule: &str) -> Option<Level> {
        let Exportable::Cel(exported) = policy.rules().find(rule)?.export else { return None };
        let is_exported = |kind: Kind| kind.is_built_in() || exported.kinds.contains(kind);
        let kind = Kind::from_object(object)?;
        if kind.components.is_none() && !is_exported(kind) {
            return None;
        }
        // The objects inside that are judged by nobody but Jobgate.
        let components = object["spec"]["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        let templates = components.iter().map(|component| Kind::from_object(&component["template"]));
        let others: Vec<String> = templates
            .enumerate()
            .filter(|(_, kind)| !kind.is_some_and(|kind| exported.kinds.contains(kind)))
            .map(|(at, _)| format!("spec.components[{at}]."))
            .collect();
        let is_ours =
            |place: String| kind.components.is_none() || !others.iter().any(|other| place.starts_with(other));
        let request = Request {
            namespace: &self.place.namespace,
            origin: Origin::Admission,
            ..Request::from_file(object, None)
        };
        let verdict = engine::evaluate(policy, &NoFacts, &request);
        let findings = verdict.findings.iter().filter(|finding| finding.rule == rule);
        // Policies in the API server deny and warn, and note nothing.
        let levels =
            findings.filter(|finding| is_ours(finding.path.to_string())).map(|finding| finding.level);
        levels.filter(|level| *level > Level::Note).max()
    }

    /// Returns how often the API server could not evaluate a policy, as its metrics have it.
    pub(crate) fn errors(&self) -> Vec<String> {
        let metrics = self.place.cluster.admin.run(&["get", "--raw", "/metrics"], "").quiet().stdout;
        let of_policies = |line: &&str| {
            line.contains(&format!("-{}\"", self.place.namespace))
                && (line.starts_with("apiserver_admission_match_condition_evaluation_errors_total")
                    || line.starts_with("apiserver_validating_admission_policy_check_total")
                        // Denials are counted as errors, too.
                        && line.contains("enforcement_action=\"allow\"")
                        && !line.contains("error_type=\"no_error\""))
        };
        metrics.lines().filter(of_policies).map(str::to_owned).collect()
    }
}

/// An `AppWrapper` of some objects.
pub(crate) fn wrapped(name: &str, objects: impl IntoIterator<Item = Value>) -> Value {
    let components: Vec<Value> =
        objects.into_iter().map(|object| json!({"template": object, "podSets": []})).collect();
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": name},
        "spec": {"components": components},
    })
}

/// Lets a policy reject an object of this name whatever its conditions are, and judge all others as before.
fn mark(policy: &mut Value, probe: &str) {
    for condition in policy["matchConditions"].as_array_mut().into_iter().flatten() {
        let expression = condition["expression"].as_str().expect("an expression");
        condition["expression"] =
            format!("(has(object.metadata.name) && object.metadata.name == '{probe}') || ({expression})")
                .into();
    }
    let marker = json!({"expression": format!("!has(object.metadata.name) || object.metadata.name != '{probe}'"), "message": "in force"});
    policy["validations"].as_array_mut().expect("validations").push(marker);
}

pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read(path).expect("read a manifest");
    yaml::documents(&text).filter_map(Result::ok).map(|document| document.value).collect()
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("list a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub(crate) const OWN: &str = r#"
apiVersion: jobgate.dev/v1alpha1
kind: Policy
metadata: {name: own}
spec:
  rules:
    deadline: {action: warn}
    restart-policy: {action: warn}
  overrides:
  - match: {accelerators: true}
    rules: {deadline: {action: deny}, gpu-toleration: {action: ignore}}
  - match: {labels: {tier: throw-away}, kinds: [Job, PyTorchJob]}
    rules: {deadline: {action: ignore}, restart-policy: {action: deny}}
  - match: {names: ["strict-*", "{a,b}?[0-9].x"]}
    rules: {deadline: {action: deny}}
  - match: {names: ["mild-*"], accelerators: false, namespaces: ["team-*", "it's"]}
    rules: {deadline: {action: ignore}}
  exemptions:
  - match: {names: [legacy, "*-legacy"]}
    rules: [deadline]
    reason: runs until its queue is empty
    until: "2999-01-01"
  - match: {labels: {tier: "it's \\ over"}}
    reason: tried for its characters
  optOut: warnings
"#;

fn own_policy(place: &Place<'_>) {
    let Some(policies) = InForce::of(place, Policy::parse(OWN, "own.yaml").expect("a policy")) else {
        return;
    };
    let api = Api::admin(place.cluster);
    let mut seen = Vec::new();
    let names = ["plain", "strict-a", "ab7.x", "abc7.x", "mild-a", "legacy", "old-legacy", "strict-legacy"];
    let changes = [
        json!({}),
        json!({"metadata": {"labels": {"tier": "throw-away"}}}),
        json!({"metadata": {"annotations": {"jobgate.dev/ignore": "restart-policy , deadline"}}}),
        json!({"metadata": {"annotations": {"jobgate.dev/ignore": "deadlines"}}}),
    ];
    let gpu = json!({"spec": {"containers": asking("nvidia.com/mig-1g.5gb")}});
    let zero = json!({"spec": {"containers": [{"name": "pytorch", "image": "registry.example.com/trainer:1.4", "resources": {"limits": {"nvidia.com/gpu": 0}}}]}});
    for name in names {
        for change in &changes {
            for template in [&json!({}), &gpu, &zero] {
                let endless = json!({"spec": {"activeDeadlineSeconds": null, "template": template}});
                let replica = json!({"restartPolicy": "Always", "template": template});
                let objects = [
                    over(job(name, endless.clone()), change.clone()),
                    over(cron_job(name, json!({"spec": {"jobTemplate": endless}})), change.clone()),
                    over(
                        pytorch_job(
                            name,
                            json!({"spec": {"runPolicy": null, "pytorchReplicaSpecs": {"Master": replica}}}),
                        ),
                        change.clone(),
                    ),
                ];
                for object in objects {
                    let (_, said) = api.dry_run(&place.namespace, &object);
                    let ours = RULES.map(|rule| policies.ours(&object, rule));
                    let theirs = RULES.map(|rule| policies.says(&said, rule));
                    // Of several that deny the first is in the answer, and nothing of those that warn.
                    let denied = |levels: [Option<Level>; 2]| levels.contains(&Some(Level::Deny));
                    assert_eq!(denied(ours), denied(theirs), "{object:#}: {ours:?} {said}");
                    if denied(ours) {
                        assert!(
                            (0..2).all(|index| theirs[index].is_none_or(|level| ours[index] == Some(level))),
                            "{object:#}: {ours:?} {said}"
                        );
                    } else {
                        assert_eq!(ours, theirs, "{object:#}: {said}");
                    }
                    seen.push(ours);
                }
            }
        }
    }
    for level in [Some(Level::Deny), Some(Level::Warn), None] {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(seen.iter().any(|levels| levels[index] == level), "{rule}: {level:?} never came");
        }
    }
    let odd = over(endless("strict-odd"), json!({"metadata": {"labels": {"tier": "throw-away"}}}));
    assert_eq!(
        policies.says(&place.dry_run(&odd).stderr, "deadline"),
        Some(Level::Deny),
        "the later override wins"
    );
}

const PLAIN: &str = "rules: {deadline: {action: deny}, restart-policy: {action: ignore}}";
const KUEUE: &str =
    "rules: {deadline: {action: deny, params: {kueueMaxExecTime: true}}, restart-policy: {action: ignore}}";
const MAXIMUM: &str =
    "rules: {deadline: {action: deny, params: {maximum: 3600}}, restart-policy: {action: ignore}}";
const OVERRIDES: &str = "
  rules: {deadline: {action: deny, params: {maximum: 3600}}, restart-policy: {action: ignore}}
  overrides:
  - match: {names: [long-*], accelerators: false}
    rules: {deadline: {params: {maximum: 0, kueueMaxExecTime: true}}}
  - match: {labels: {tier: short}}
    rules: {deadline: {params: {maximum: 60}}}";

/// Judges by a policy with parameters of `deadline`.
fn parameters(place: &Place<'_>, spec: &str) {
    let api = Api::admin(place.cluster);
    let queue = json!({"kueue.x-k8s.io/queue-name": "gpu", "kueue.x-k8s.io/max-exec-time-seconds": "3600"});
    let labels = [
        json!({}),
        queue.clone(),
        json!({"kueue.x-k8s.io/max-exec-time-seconds": "3600"}),
        over(queue.clone(), json!({"kueue.x-k8s.io/queue-name": ""})),
        over(queue.clone(), json!({"kueue.x-k8s.io/max-exec-time-seconds": "007201"})),
        over(queue.clone(), json!({"kueue.x-k8s.io/max-exec-time-seconds": "2147483648"})),
        over(queue.clone(), json!({"kueue.x-k8s.io/max-exec-time-seconds": "soon"})),
        over(queue, json!({"tier": "short", "kueue.x-k8s.io/max-exec-time-seconds": "0"})),
    ];
    let deadlines = [
        json!(null),
        json!(0),
        json!(60),
        json!(3600),
        json!(3601),
        json!(9_223_372_036_i64),
        json!(9_223_372_037_i64),
    ];
    let source = format!(
        "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: own}}\nspec:\n  {}\n",
        spec.trim_start()
    );
    let Some(policies) = InForce::of(place, Policy::parse(&source, "own.yaml").expect("a policy")) else {
        return;
    };
    let mut seen = [0; 2];
    for name in ["plain", "long-run"] {
        for labels in &labels {
            for deadline in &deadlines {
                let limits = json!({"spec": {"activeDeadlineSeconds": deadline}});
                let bare = json!({"Master": {"template": {"spec": {"containers": [{"name": "pytorch", "image": null}]}}}});
                let run_policy = json!({"activeDeadlineSeconds": deadline, "cleanPodPolicy": "Running"});
                let own = json!({"metadata": {"labels": labels}});
                let objects = [
                    over(job(name, limits.clone()), own.clone()),
                    over(cron_job(name, json!({"spec": {"jobTemplate": limits}})), own.clone()),
                    over(
                        cron_job(name, json!({"spec": {"jobTemplate": limits}})),
                        json!({"spec": {"jobTemplate": own}}),
                    ),
                    over(
                        pytorch_job(
                            name,
                            json!({"spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": bare}}),
                        ),
                        own,
                    ),
                ];
                for object in objects {
                    let (status, said) = api.dry_run(&place.namespace, &object);
                    let (ours, theirs) =
                        (policies.ours(&object, "deadline"), policies.says(&said, "deadline"));
                    assert_eq!(ours, theirs, "{source}{object:#}: {status} {said}");
                    seen[usize::from(ours.is_some())] += 1;
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count >= 20), "{seen:?} admitted and denied");
}

fn updates(place: &Place<'_>) {
    let endless_cron = |name: &str| {
        cron_job(name, json!({"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}}))
    };
    let label =
        |value: Value| json!({"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": value}}});
    place.create(&endless_cron("old")).ok();
    place.create(&over(endless("bounded"), label("60".into()))).ok();
    place.create(&cron_job("good", json!({}))).ok();
    place.create(&wrapped("old", [endless("one"), job("two", json!({}))])).ok();
    let always = |name: &str| json!({"spec": {"pytorchReplicaSpecs": {name: {"restartPolicy": "Always"}}}});
    place.create(&pytorch_job("old", always("Master"))).ok();
    let Some(policies) = InForce::of(place, Policy::default()) else { return };
    let denied = |text: &str, rule: &str| assert_eq!(policies.says(text, rule), Some(Level::Deny), "{text}");

    place.patch("appwrapper/old", "merge", &json!({"metadata": {"labels": {"team": "b"}}})).ok();
    place.patch("appwrapper/old", "merge", &json!({"spec": {"suspend": false}})).ok();
    // Kueue writes this beside each object when it starts them.
    let started = json!([{"op": "add", "path": "/spec/components/0/podSetInfos", "value": [{"nodeSelector": {"a": "b"}}]}]);
    place.patch("appwrapper/old", "json", &started).ok();
    let still_endless =
        json!([{"op": "add", "path": "/spec/components/0/template/spec/parallelism", "value": 2}]);
    place.patch("appwrapper/old", "json", &still_endless).ok();
    let another =
        json!([{"op": "add", "path": "/spec/components/-", "value": {"template": endless("another")}}]);
    denied(&place.patch("appwrapper/old", "json", &another).stderr, "deadline");
    let no_more = json!([{"op": "remove", "path": "/spec/components/1/template/spec/activeDeadlineSeconds"}]);
    denied(&place.patch("appwrapper/old", "json", &no_more).stderr, "deadline");

    place.patch("cronjob/old", "merge", &json!({"metadata": {"labels": {"team": "b"}}})).ok();
    place.patch("cronjob/old", "merge", &json!({"spec": {"schedule": "7 7 * * *"}})).ok();
    place.patch("job/bounded", "merge", &json!({"metadata": {"finalizers": ["example.com/hold"]}})).ok();
    place.patch("job/bounded", "merge", &label(Value::Null)).ok();
    place.patch("job/bounded", "merge", &json!({"metadata": {"finalizers": null}})).ok();
    let without = json!({"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}});
    denied(&place.patch("cronjob/good", "merge", &without).stderr, "deadline");
    place.patch("pytorchjob/old", "merge", &json!({"metadata": {"labels": {"team": "b"}}})).ok();
    place.patch("pytorchjob/old", "merge", &json!({"spec": {"runPolicy": {"backoffLimit": 3}}})).ok();
    denied(&place.patch("pytorchjob/old", "merge", &always("Worker")).stderr, "restart-policy");
    denied(
        &place
            .patch(
                "pytorchjob/old",
                "merge",
                &json!({"spec": {"runPolicy": {"activeDeadlineSeconds": null}}}),
            )
            .stderr,
        "deadline",
    );
}

/// What is new on an update though its place, or its spec, is not.
fn grown(place: &Place<'_>) {
    let limits = |deadline: Value| json!({"spec": {"activeDeadlineSeconds": deadline, "suspend": true}});
    let label = |queue: Value, seconds: Value| {
        let labels =
            json!({"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/max-exec-time-seconds": seconds});
        json!({"metadata": {"labels": labels}})
    };
    place.create(&job("long", limits(7200.into()))).ok();
    place.create(&over(job("bounded", limits(Value::Null)), label("gpu".into(), "60".into()))).ok();
    place.create(&over(job("endless", limits(Value::Null)), label("gpu".into(), "soon".into()))).ok();
    let spec = "{rules: {deadline: {action: deny, params: {maximum: 3600, kueueMaxExecTime: true}}, restart-policy: {action: deny}}}";
    let source =
        format!("apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {{name: own}}\nspec: {spec}\n");
    let Some(policies) = InForce::of(place, Policy::parse(&source, "own.yaml").expect("a policy")) else {
        return;
    };
    let denied = |text: &str| assert_eq!(policies.says(text, "deadline"), Some(Level::Deny), "{text}");

    denied(&place.patch("job/long", "merge", &limits(7201.into())).stderr);
    denied(&place.patch("job/long", "merge", &limits(Value::Null)).stderr);
    place.patch("job/long", "merge", &limits(7199.into())).ok();
    denied(&place.patch("job/bounded", "merge", &label("gpu".into(), Value::Null)).stderr);
    denied(&place.patch("job/bounded", "merge", &label(Value::Null, "60".into())).stderr);
    denied(&place.patch("job/bounded", "merge", &label("gpu".into(), "3601".into())).stderr);
    place.patch("job/bounded", "merge", &json!({"metadata": {"labels": {"team": "b"}}})).ok();
    place.patch("job/bounded", "merge", &label("gpu".into(), "30".into())).ok();
    place.patch("job/endless", "merge", &label(Value::Null, Value::Null)).ok();
    place.patch("job/endless", "merge", &json!({"spec": {"suspend": false}})).ok();
}

fn trusted(place: &Place<'_>) {
    let Some(policies) = InForce::of(place, Policy::default()) else { return };
    let denied = |text: &str| assert_eq!(policies.says(text, "deadline"), Some(Level::Deny), "{text}");
    let owned = |object: Value, version: &str, kind: &str| {
        let uid = "00000000-0000-4000-8000-000000000000";
        let owner =
            json!([{"apiVersion": version, "kind": kind, "name": "c", "uid": uid, "controller": true}]);
        over(object, json!({"metadata": {"ownerReferences": owner}}))
    };
    let of_cron_job = |name: &str| owned(endless(name), "batch/v1", "CronJob");
    let controller = "system:serviceaccount:kube-system:cronjob-controller";
    let all_in_one = "system:kube-controller-manager";
    let api = Api::admin(place.cluster);
    // As somebody who may create it.
    let create_as = |user: &str, object: Value| {
        let (status, answer) = api.send_as(user, Method::POST, &list_of(&place.namespace, &object), &object);
        (status < 300, answer.to_string())
    };
    let made = |user: &str, object: Value| {
        let (made, said) = create_as(user, object);
        assert!(made, "{said}");
    };
    let refused = |user: &str, object: Value| denied(&create_as(user, object).1);
    made(controller, of_cron_job("run"));
    refused(controller, endless("bare"));
    refused(ANYBODY, of_cron_job("forged"));
    // An account is trusted with the children of its own kinds.
    refused(controller, owned(endless("of-another"), "apps/v1", "Deployment"));
    refused(controller, owned(endless("of-a-set"), "jobset.x-k8s.io/v1alpha2", "JobSet"));
    // One without a kind of its own, with those of any that is not known.
    made(all_in_one, owned(endless("unknown"), "apps/v1", "Deployment"));
    made(all_in_one, of_cron_job("known"));
    let no_deadline = json!({"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}}});
    refused(all_in_one, owned(cron_job("by-a-cron-job", no_deadline), "batch/v1", "CronJob"));
}
