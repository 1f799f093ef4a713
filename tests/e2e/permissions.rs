//! The permissions of the rendered roles, one by one: each is needed, for without it something does not work
//! that must.

use std::time::{Duration, Instant};

use jobgate::judge::facts::FactKind;
use jobgate::kinds::Kind;
use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::definitions::Definitions;
use crate::installation::{Installation, dry_run};
use crate::kubectl::Output;
use crate::manifests::{claim, endless, mounting, over, train_job};
use crate::process::eventually;
use crate::samples::sample;
use crate::scenario::{Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[Scenario::new("permissions_are_all_needed", needed).ungated()];

/// One permission: what it is about, and what may be done with it.
struct Permission {
    role: usize,
    rule: usize,
    resource: String,
    verb: String,
}

impl Permission {
    /// Tells whether it is about what Jobgate looks up, without which it is ready as ever.
    fn is_of_facts(&self) -> bool {
        FactKind::all().any(|kind| kind.definition().resource.name == self.resource)
            || parents(&self.resource).is_some()
    }
}

/// Returns the kind of a resource whose objects are looked up as parents.
fn parents(resource: &str) -> Option<Kind> {
    Kind::with_children().find(|kind| kind.resource == resource)
}

/// Returns every permission of the roles among the objects.
fn all(objects: &[Value]) -> Vec<Permission> {
    let words = |list: &Value| -> Vec<String> {
        list.as_array().expect("a list").iter().map(|word| word.as_str().expect("text").to_owned()).collect()
    };
    let mut permissions = Vec::new();
    for (role, object) in objects
        .iter()
        .enumerate()
        .filter(|(_, object)| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))
    {
        for (rule, content) in object["rules"].as_array().expect("rules").iter().enumerate() {
            for resource in words(&content["resources"]) {
                let one = |verb| Permission { role, rule, resource: resource.clone(), verb };
                permissions.extend(words(&content["verbs"]).into_iter().map(one));
            }
        }
    }
    permissions
}

/// Takes one permission out of the roles, and leaves the others of its rule.
fn without(objects: &mut [Value], permission: &Permission) {
    let rules = objects[permission.role]["rules"].as_array_mut().expect("rules");
    let rule = &mut rules[permission.rule];
    let mut rest = rule.clone();
    rule["resources"] = json!([permission.resource]);
    rule["verbs"].as_array_mut().expect("verbs").retain(|verb| *verb != permission.verb.as_str());
    rest["resources"]
        .as_array_mut()
        .expect("resources")
        .retain(|resource| *resource != permission.resource.as_str());
    let nothing = |rule: &Value, key: &str| rule[key] == json!([]);
    if nothing(rule, "verbs") {
        rules.remove(permission.rule);
    }
    if !nothing(&rest, "resources") {
        rules.push(rest);
    }
}

/// A Jobgate that may do everything but one thing, or all of it.
struct Trial<'c> {
    lacks: Option<Permission>,
    installation: Installation<'c>,
    namespace: String,
}

fn needed(place: &Place<'_>) {
    let api = Api::admin(place.cluster);
    let whole = crate::installation::rendered(place.cluster, "self-managed");
    let trials = all(&whole).into_iter().map(Some).chain([None]).map(|lacks| {
        let mut installation = Installation::of(place.cluster, "self-managed", "");
        if let Some(permission) = &lacks {
            without(&mut installation.objects, permission);
        }
        installation.must_answer();
        installation.apply(&[]).ok();
        let claims = lacks.as_ref().is_none_or(|permission| permission.is_of_facts());
        installation.start(1, &[if claims { "--claims=cache" } else { "--claims=off" }]);
        let namespace = place.cluster.unique("team");
        place.cluster.admin.run(&["create", "namespace", &namespace], "").ok();
        installation.look_after(&namespace);
        Trial { lacks, installation, namespace }
    });
    let trials: Vec<Trial<'_>> = trials.collect();
    assert!(trials.len() > 10, "every permission is tried");
    std::thread::scope(|scope| {
        for trial in &trials {
            scope.spawn(|| match &trial.lacks {
                None => works(place, &api, trial),
                Some(permission) => println!(
                    "without {} on {}: {}",
                    permission.verb,
                    permission.resource,
                    shown(place, &api, trial, permission)
                ),
            });
        }
    });
    // Whatever was not ready then is not ready now.
    for trial in trials.iter().filter(|trial| {
        trial.lacks.as_ref().is_some_and(|lacks| ["get", "update", "patch"].contains(&lacks.verb.as_str()))
    }) {
        let lacks = trial.lacks.as_ref().expect("it lacks something");
        assert!(
            lacks.is_of_facts() || trial.installation.replicas[0].ready().is_err(),
            "{} {}",
            lacks.verb,
            lacks.resource
        );
    }
    for trial in &trials {
        trial.installation.delete();
    }
}

/// Shows that something does not work without the permission, and says what.
fn shown(
    place: &Place<'_>,
    api: &Api,
    trial: &Trial<'_>,
    Permission { resource, verb, .. }: &Permission,
) -> String {
    match (resource.as_str(), verb.as_str()) {
        ("secrets", "get" | "update") => never_ready(trial, "the Secret"),
        ("mutatingwebhookconfigurations", "get" | "patch") => {
            never_ready(trial, "MutatingWebhookConfiguration")
        }
        ("validatingwebhookconfigurations", "get" | "patch") => {
            never_ready(trial, "ValidatingWebhookConfiguration")
        }
        ("secrets" | "mutatingwebhookconfigurations" | "validatingwebhookconfigurations", "watch") => {
            late(api, trial, resource)
        }
        ("persistentvolumeclaims", "get") => absent_is_unknown(place, trial),
        ("persistentvolumeclaims", "list" | "watch") => never_from_the_cache(place, trial),
        ("clustertrainingruntimes" | "trainingruntimes", "get") => hidden_is_unknown(place, trial, resource),
        ("clustertrainingruntimes" | "trainingruntimes", "list" | "watch") => {
            says(trial, &format!("no permission to list or watch {resource}"));
            "every look-up asks the API server".to_owned()
        }
        (resource, "get") if parents(resource).is_some() => unseen_is_trusted(place, trial, resource),
        _ => panic!("nothing shows that {verb} on {resource} is needed: leave it out of the role"),
    }
}

fn never_ready(trial: &Trial<'_>, what: &str) -> String {
    let replica = &trial.installation.replicas[0];
    let line = eventually(Duration::from_secs(40), || {
        let answer = replica.ready();
        let why = answer.as_ref().err().map(String::as_str).unwrap_or_default();
        let line = why
            .lines()
            .find(|line| line.contains("may not be used") && line.contains(what))
            .map(str::to_owned);
        line.ok_or_else(|| format!("{answer:?}"))
    });
    let line = line.unwrap_or_else(|e| panic!("{e}\n{}", trial.installation.logs()));
    format!("never ready: {line}")
}

/// A change that stays unnoticed for so long is not watched: with a watch it is a few hundredths of a second,
/// without one up to five seconds.
const UNNOTICED: Duration = Duration::from_millis(500);

/// Without a watch a change is noticed only at the next look, which may be near by chance. While what was
/// fixed settles, looks are frequent, so each try waits until Jobgate is ready.
fn late(api: &Api, trial: &Trial<'_>, resource: &str) -> String {
    let (installation, replica) = (&trial.installation, &trial.installation.replicas[0]);
    let (path, patch, pointer) = match resource {
        "secrets" => (installation.secret(), json!({"data": null}), "/data/ca.crt"),
        _ => {
            let path = installation.configuration(resource.trim_end_matches("webhookconfigurations"));
            let webhook = api.get(&path)["webhooks"][0].clone();
            (
                path,
                json!({"webhooks": [over(webhook, json!({"clientConfig": {"caBundle": null}}))]}),
                "/webhooks/0/clientConfig/caBundle",
            )
        }
    };
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        eventually(Duration::from_secs(30), || replica.ready())
            .unwrap_or_else(|e| panic!("{e}\n{}", installation.logs()));
        let (status, said) = api.patch(&path, "merge", &patch);
        assert_eq!(status, 200, "{said}");
        let began = Instant::now();
        eventually(Duration::from_secs(40), || {
            if api.get(&path).pointer(pointer).is_some() { Ok(()) } else { Err("still broken".to_owned()) }
        })
        .unwrap_or_else(|e| panic!("{e}\n{}", installation.logs()));
        slowest = slowest.max(began.elapsed());
        if slowest > UNNOTICED {
            break;
        }
        // Readiness is a look behind.
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(slowest > UNNOTICED, "healed after {slowest:?} at most: the watch is not needed");
    says(trial, "cannot watch");
    format!("healed only after {slowest:.1?}")
}

/// Asking for a claim shows whether it is missing or only hidden.
fn absent_is_unknown(place: &Place<'_>, trial: &Trial<'_>) -> String {
    judged(trial);
    let output = dry_run(place.cluster, &trial.namespace, &mounting("a", "missing", 4)).ok();
    assert!(
        !output.stderr.contains("does not exist") && output.stderr.contains("(no permission): missing"),
        "{output}"
    );
    says(trial, "no permission to read claims");
    "a claim that is not there is unknown".to_owned()
}

/// Asking for a runtime shows whether it is missing or only hidden.
fn hidden_is_unknown(place: &Place<'_>, trial: &Trial<'_>, resource: &str) -> String {
    if Definitions::find().is_err() {
        return "(not shown: the cluster does not serve the kind)".to_owned();
    }
    judged(trial);
    let kind = if resource == "trainingruntimes" { "TrainingRuntime" } else { "ClusterTrainingRuntime" };
    let job = train_job("a", kind, "missing", 4);
    let output = dry_run(place.cluster, &trial.namespace, &job).ok();
    assert!(output.stderr.contains("could not look up the runtime missing"), "{output}");
    says(trial, &format!("no permission to read {resource}"));
    "a runtime that is not there is unknown".to_owned()
}

/// Has an object created without effect that names a parent which does not exist, by the account that makes such
/// objects.
fn forged(place: &Place<'_>, trial: &Trial<'_>, kind: Kind) -> Output {
    let owner = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "name": "missing", "controller": true,
        "uid": "7d1f4bd2-9a52-4d5a-9f0f-0d5d7bb0c9d1",
    });
    let child = kind.children.iter().find_map(|child| match child.name {
        "Job" => Some(endless("child")),
        "JobSet" => Some(sample("jobsets.jobset.x-k8s.io").bad("child")),
        _ => None,
    });
    let child = over(child.expect("a child"), json!({"metadata": {"ownerReferences": [owner]}}));
    // The account itself need not be bound to anything here.
    let user = ["--as", kind.makers[0], "--as-group=system:masters"];
    let create = ["-n", &trial.namespace, "create", "--dry-run=server", "-f", "-"];
    let arguments = [&create[..], &user[..]].concat();
    place.cluster.admin.run(&arguments, &child.to_string())
}

/// Asking for a parent shows whether it is missing or only hidden.
fn unseen_is_trusted(place: &Place<'_>, trial: &Trial<'_>, resource: &str) -> String {
    let kind = parents(resource).expect("a kind");
    if Definitions::find().is_err() && !kind.is_built_in() {
        return "(not shown: the cluster does not serve the kind)".to_owned();
    }
    judged(trial);
    let looked = [kind.title(), "missing (no permission)"];
    forged(place, trial, kind).warns(&looked);
    says(trial, &format!("no permission to read {resource}"));
    "a trusted controller is believed".to_owned()
}

fn never_from_the_cache(place: &Place<'_>, trial: &Trial<'_>) -> String {
    judged(trial);
    place
        .cluster
        .admin
        .run(
            &["-n", &trial.namespace, "create", "-f", "-"],
            &claim("checkpoints", "ReadWriteOnce").to_string(),
        )
        .ok();
    let (began, mut denied) = (Instant::now(), 0);
    eventually(Duration::from_secs(40), || {
        let output = dry_run(place.cluster, &trial.namespace, &mounting("a", "checkpoints", 4));
        denied += usize::from(output.is_denied(&["checkpoint-volume-access"]));
        if denied >= 5 && began.elapsed() > Duration::from_secs(3) { Ok(()) } else { Err(output.to_string()) }
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", trial.installation.logs()));
    assert!(from_the_cache(trial) < 0.5, "answered from the cache");
    says(trial, "no permission to list or watch claims");
    "every look-up asks the API server".to_owned()
}

/// With every permission none of the above happens.
fn works(place: &Place<'_>, api: &Api, trial: &Trial<'_>) {
    let replica = &trial.installation.replicas[0];
    judged(trial);
    for complaint in ["may not", "forbids"] {
        assert!(!replica.process.printed(complaint), "{}", trial.installation.logs());
    }
    assert!(trial.installation.bundles(api).iter().all(|pem| !pem.is_empty()));
    dry_run(place.cluster, &trial.namespace, &mounting("a", "missing", 4)).warns(&["missing"]);
    place
        .cluster
        .admin
        .run(
            &["-n", &trial.namespace, "create", "-f", "-"],
            &claim("checkpoints", "ReadWriteOnce").to_string(),
        )
        .ok();
    eventually(Duration::from_secs(40), || {
        let output = dry_run(place.cluster, &trial.namespace, &mounting("a", "checkpoints", 4));
        let denied = output.is_denied(&["checkpoint-volume-access"]);
        if denied && from_the_cache(trial) > 0.5 {
            Ok(())
        } else {
            Err(format!("not denied from the cache: {output}"))
        }
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", trial.installation.logs()));
    for kind in Kind::with_children().filter(|kind| kind.is_built_in() || Definitions::find().is_ok()) {
        forged(place, trial, kind).denied(&["does not exist with that uid"]);
    }
    replica.ready().expect("ready");
}

/// Waits until a Jobgate has printed something; it logs beside what it does.
fn says(trial: &Trial<'_>, what: &str) {
    let printed = || {
        if trial.installation.replicas[0].process.printed(what) {
            Ok(())
        } else {
            Err(format!("{what:?} is not printed"))
        }
    };
    eventually(Duration::from_secs(10), printed)
        .unwrap_or_else(|e| panic!("{e}\n{}", trial.installation.logs()));
}

fn from_the_cache(trial: &Trial<'_>) -> f64 {
    trial.installation.count("jobgate_claim_lookups_total", "source=\"cache\"")
}

/// Waits until the API server has jobs of the namespace judged.
fn judged(trial: &Trial<'_>) {
    let replica = &trial.installation.replicas[0];
    eventually(Duration::from_secs(40), || replica.ready())
        .unwrap_or_else(|e| panic!("{e}\n{}", trial.installation.logs()));
    trial.installation.join(0);
    trial.installation.wait_until_judged(&trial.namespace);
}
