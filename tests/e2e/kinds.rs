//! The kinds that operators bring: what is denied of each, what is filled in, and that whoever writes an
//! object again is not stopped by that.

use std::path::Path;

use http::Method;
use jobgate::text::value::{Value, json};

use crate::api::{Answer, Api, list_of};
use crate::definitions::Definitions;
use crate::gate::{Gate, Setup, unregister};
use crate::manifests::{claim, over, toleration};
use crate::samples::{CLAIM, CLUSTER_TRAINING_RUNTIME, Fill, OTHER_MPI_JOB, SAMPLES, Sample};
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("kinds_that_break_rules_are_denied", |place| are_denied(place, SAMPLES))
        .needs(Needs::CustomResources),
    Scenario::new("kinds_are_filled_when_they_are_created", |place| are_filled(place, SAMPLES))
        .needs(Needs::CustomResources),
    Scenario::new("kinds_are_applied_again_whatever_jobgate_does", applied_again)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("kinds_are_applied_after_they_were_created", applied_after_create)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("kinds_change_as_ever_after_they_were_created", change_as_ever)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("kinds_in_no_namespace_are_judged_and_filled", in_no_namespace)
        .needs(Needs::CustomResources),
    Scenario::new("kinds_of_another_version_are_judged_and_filled", of_another_version)
        .needs(Needs::CustomResources)
        .ungated(),
];

/// As whom Kueue writes to the API server.
const QUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";

/// Somebody who may do everything, and whom no policy names.
pub(crate) const ANYBODY: &str = "anybody";

fn list(objects: impl IntoIterator<Item = Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": objects.into_iter().collect::<Vec<_>>()})
}

/// Returns rule and place of each problem that a denial names, claims by their volumes; nothing for any other
/// answer.
pub(crate) fn problems((status, answer): &Answer) -> Vec<String> {
    let message = answer["message"].as_str().unwrap_or_default();
    let (_, said) = message.split_once("denied the request: ").filter(|_| *status == 403).unwrap_or_default();
    let problems =
        said.lines().skip(1).take_while(|line| !line.ends_with(" warnings:") && *line != "1 warning:");
    let place = |line: &str| line.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ");
    problems.map(|line| place(line).replace(".persistentVolumeClaim.claimName", "")).collect()
}

/// Returns the object with values put in their places.
fn filled(mut object: Value, fills: &[(&str, Fill)]) -> Value {
    for (place, fill) in fills {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).expect("a mapping");
        parent.insert(key, fill.value());
    }
    object
}

/// The API server as it is asked about a place.
struct Client<'p, 'c> {
    api: Api,
    place: &'p Place<'c>,
}

impl<'p, 'c> Client<'p, 'c> {
    fn of(place: &'p Place<'c>) -> Self {
        Self { api: Api::admin(place.cluster), place }
    }

    fn path(&self, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().expect("a name");
        format!("{}/{name}", list_of(&self.place.namespace, object))
    }

    #[track_caller]
    fn stored(&self, object: &Value) -> Value {
        self.api.get(&self.path(object))
    }

    /// Creates an object as anybody, who will not apply it.
    fn create(&self, object: &Value) -> Answer {
        self.api.send_as(ANYBODY, Method::POST, &list_of(&self.place.namespace, object), object)
    }

    #[track_caller]
    fn created(&self, object: &Value) -> Value {
        let (status, stored) = self.create(object);
        assert_eq!(status, 201, "{stored:#}");
        stored
    }

    /// Sends a change that must work, and returns the object.
    #[track_caller]
    fn sent(&self, user: &str, method: Method, path: &str, body: &Value) -> Value {
        let (status, answer) = self.api.send_as(user, method.clone(), path, body);
        assert_eq!(status, 200, "{method} {path} by {user}: {answer:#}");
        answer
    }

    /// Returns the object as a change of what is stored.
    fn as_update(&self, object: &Value) -> Value {
        let version = &self.stored(object)["metadata"]["resourceVersion"];
        over(object.clone(), json!({"metadata": {"resourceVersion": version}}))
    }

    /// Returns what the object would be with nobody to fill it in: only the API server's own defaults.
    #[track_caller]
    fn plain(&self, namespace: &str, object: &Value) -> Value {
        let (status, plain) = self.api.strict_dry_run(namespace, object);
        assert_eq!(status, 201, "{plain:#}");
        plain
    }
}

fn are_denied(place: &Place<'_>, samples: &[Sample]) {
    place.create(&claim(CLAIM, "ReadWriteOnce")).ok();
    let client = Client::of(place);
    for sample in samples {
        let answer = client.create(&sample.bad("bad"));
        assert_eq!(problems(&answer), sample.denied, "{answer:#?}");
    }
    let output = place.create(&list(samples.iter().map(|sample| sample.bad("bad"))));
    assert_eq!(output.stderr.matches("denied the request").count(), samples.len(), "{output}");
    assert_eq!(place.kubectl(&["get", &resources(samples), "-o", "name"]).ok().stdout, "");
}

fn resources(samples: &[Sample]) -> String {
    samples.iter().map(|sample| sample.resource).collect::<Vec<_>>().join(",")
}

/// Returns the rules whose warnings the API server passes on; what is filled in is one, too.
fn warned(warnings: &str) -> Vec<&str> {
    let texts = warnings.lines().map(|line| line.trim_start_matches("299 - \""));
    texts.map(|text| text.split(": ").next().unwrap_or_default()).collect()
}

/// The same as with nobody to fill it in, and what is filled in: nothing else changes. A dry run shows it.
fn are_filled(place: &Place<'_>, samples: &[Sample]) {
    let elsewhere = place.beside();
    let client = Client::of(place);
    let objects = list(samples.iter().map(|sample| sample.good("good")));
    place.with_input(&["create", "--dry-run=server", "-f", "-"], &objects.to_string()).ok();
    assert_eq!(place.kubectl(&["get", &resources(samples), "-o", "name"]).ok().stdout, "");
    place.create(&objects).ok();
    for sample in samples {
        let object = sample.good("good");
        let plain = client.plain(&elsewhere.namespace, &object);
        let fills: Vec<(&str, Fill)> = sample.all_fills().copied().collect();
        let expected = filled(plain, &fills);
        assert_eq!(client.stored(&object)["spec"], expected["spec"], "{}", sample.resource);
        let shown = client.plain(&place.namespace, &sample.good("shown"));
        assert_eq!(shown["spec"], expected["spec"], "{}", sample.resource);
        let (_, warnings) = client.api.dry_run(&place.namespace, &sample.good("shown"));
        let told = (!fills.is_empty()).then_some("jobgate filled in");
        assert_eq!(
            warned(&warnings),
            told.into_iter().chain(sample.warned.iter().copied()).collect::<Vec<_>>(),
            "{warnings}"
        );
    }
}

/// Both sorts of apply, with the flags of `kubectl apply` and `kubectl diff`.
const WAYS: [(&str, &[&str]); 2] = [("client", &[]), ("server", &["--server-side"])];

/// Runs a command with all manifests of either sort.
fn with_all(place: &Place<'_>, command: &str, change: &Value) {
    for (name, flags) in WAYS {
        let objects = list(SAMPLES.iter().map(|sample| over(sample.good(name), change.clone())));
        place.with_input(&[&[command, "-f", "-"], flags].concat(), &objects.to_string()).ok();
    }
}

/// Returns generations and specs of all that was applied.
fn all_specs(client: &Client<'_, '_>) -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    for (name, _) in WAYS {
        for sample in SAMPLES {
            let stored = client.stored(&sample.good(name));
            let generation = stored["metadata"]["generation"].clone();
            all.push((format!("{} {name}", sample.resource), generation, stored["spec"].clone()));
        }
    }
    all
}

fn setup(place: &Place<'_>, policy: Option<&str>) -> Setup {
    let policy = policy.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name));
    // As in production: what is down is in nobody's way.
    let failure_policy = "Ignore";
    Setup { failure_policy, policy, ..Setup::only(&place.cluster.unique("kinds"), &place.namespace) }
}

/// Nothing below a list is filled in, since the next apply would take it out again. So an apply of the
/// unchanged manifest changes nothing, which no operator can reject, whatever has become of Jobgate.
fn applied_again(place: &Place<'_>) {
    let elsewhere = place.beside();
    let client = Client::of(place);
    let first = setup(place, None);
    let gate = Gate::start(place.cluster, &first).expect("start a Jobgate");
    with_all(place, "apply", &json!({}));
    let before = all_specs(&client);
    for (name, _) in WAYS {
        for sample in SAMPLES {
            let expected = filled(client.plain(&elsewhere.namespace, &sample.good(name)), sample.fills);
            assert_eq!(
                client.stored(&sample.good(name))["spec"],
                expected["spec"],
                "{} {name}",
                sample.resource
            );
        }
    }
    let again = |run: &str| {
        let change = json!({"metadata": {"labels": {"run": run}}});
        // A label changes the object, and nothing changes it once more; the last fails where there is a
        // difference.
        for command in ["apply", "apply", "diff"] {
            with_all(place, command, &change);
        }
        let after = all_specs(&client);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{run}");
        }
    };
    again("up");
    drop(gate);
    again("down");
    let second = setup(place, Some("audit.yaml"));
    let _gate = Gate::start(place.cluster, &second).expect("start a Jobgate");
    again("audit");
    for name in [&first.name, &second.name] {
        unregister(place.cluster, name);
    }
}

/// Whoever creates an object has everything filled in, and may apply it later. A mapping keeps what is filled
/// in. A list keeps it if the tool merges lists by their items, or if Jobgate is there and the operator would
/// reject another list; a server-side apply of a list that belongs to somebody else is a conflict.
fn applied_after_create(place: &Place<'_>) {
    let client = Client::of(place);
    let setup = setup(place, None);
    let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
    let mut before = Vec::new();
    for name in ["up", "down"] {
        for (way, _) in WAYS {
            for sample in SAMPLES {
                before.push((sample, client.created(&sample.good(&format!("{name}-{way}")))));
            }
        }
    }
    let apply = |name: &str| {
        let objects = |way: &str| list(SAMPLES.iter().map(|sample| sample.good(&format!("{name}-{way}"))));
        // At the second time kubectl knows what was applied.
        for _ in 0..2 {
            place.apply(&objects("client")).ok();
        }
        let output = place.apply_server_side(&objects("server"));
        let conflicts =
            SAMPLES.iter().filter(|sample| !sample.fills_in_lists.is_empty() && !sample.list_merges);
        assert_eq!(
            output.stderr.matches("Apply failed with 1 conflict").count(),
            conflicts.count(),
            "{output}"
        );
    };
    apply("up");
    drop(gate);
    apply("down");
    for (sample, stored) in &before {
        let after = client.stored(stored);
        let name = stored["metadata"]["name"].as_str().expect("a name");
        let lost = match name {
            "up-client" => !sample.is_immutable,
            "down-client" => true,
            _ => false,
        };
        let mut expected = stored.clone();
        for (place, _) in sample.fills_in_lists.iter().filter(|_| lost) {
            let (parent, key) = place.rsplit_once('/').expect("a place");
            expected.pointer_mut(parent).and_then(Value::as_object_mut).expect("a mapping").remove(key);
        }
        assert_eq!(after["spec"], expected["spec"], "{} {name}", sample.resource);
        let same = expected["spec"] == stored["spec"];
        assert_eq!(after["metadata"]["generation"] == 1, same, "{} {name}: {after:#}", sample.resource);
    }
    unregister(place.cluster, &setup.name);
}

/// What operators and people do with objects that are there: those that break rules and are from before, and
/// those that were filled in. Nobody is denied that, and nothing else changes.
fn change_as_ever(place: &Place<'_>) {
    place.create(&claim(CLAIM, "ReadWriteOnce")).ok();
    let client = Client::of(place);
    let old: Vec<Value> = SAMPLES.iter().map(|sample| client.created(&sample.bad("old"))).collect();
    place.gate();
    for (sample, old) in SAMPLES.iter().zip(&old) {
        let new = client.created(&sample.good("new"));
        changes(&client, sample, old);
        changes(&client, sample, &new);
        queues(&client, sample, &new);
        // A change that breaks rules is denied as at first.
        let broken = client.as_update(&sample.bad("new"));
        let answer = client.api.send_as(ANYBODY, Method::PUT, &client.path(&new), &broken);
        assert_eq!(problems(&answer), sample.denied, "{answer:#?}");
        ends(&client, sample, old);
    }
}

fn changes(client: &Client<'_, '_>, sample: &Sample, object: &Value) {
    let path = client.path(object);
    let patched =
        |user: &str, change: &Value| client.sent(user, Method::PATCH, &path, change)["spec"].clone();
    let spec = &object["spec"];
    assert_eq!(&patched(ANYBODY, &json!({"metadata": {"labels": {"cost-centre": "7"}}})), spec, "{path}");
    if let Some(place) = sample.suspend {
        for (user, suspend) in [(ANYBODY, true), (sample.operator, false)] {
            let change = at(place, &json!(suspend));
            assert_eq!(patched(user, &change), over(object.clone(), change)["spec"], "{path}");
        }
    }
    if let Some(place) = sample.scale {
        let scaled = over(client.stored(object), at(place, &json!(3)));
        client.sent(ANYBODY, Method::PATCH, &format!("{path}/scale"), &json!({"spec": {"replicas": 3}}));
        let annotation = json!({"metadata": {"annotations": {"a": "b"}}});
        assert_eq!(patched(sample.operator, &annotation), scaled["spec"], "{path}");
    }
    let before = client.stored(object)["spec"].clone();
    if sample.has_status {
        let condition = json!({"type": "Running", "status": "True", "reason": "Run", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"});
        let status = json!({"status": {"conditions": [condition], "replicaStatuses": {}}});
        client.sent(sample.operator, Method::PATCH, &format!("{path}/status"), &status);
    }
    let mut whole = client.stored(object);
    whole["metadata"]["finalizers"] = json!(["e2e.jobgate.dev/hold"]);
    assert_eq!(client.sent(sample.operator, Method::PUT, &path, &whole)["spec"], before, "{path}");
}

/// A queue resumes an object with tolerations and nodes of its choice, and takes them back when it suspends
/// it.
fn queues(client: &Client<'_, '_>, sample: &Sample, object: &Value) {
    let Some(suspend) = sample.suspend else { return };
    let path = client.path(object);
    let suspended = over(client.stored(object), at(suspend, &json!(true)));
    let chosen = json!({"key": "pool", "operator": "Equal", "value": "a100", "effect": "NoSchedule"});
    for chosen in [chosen, toleration("pool")] {
        let mut resumed = over(suspended.clone(), at(suspend, &json!(false)));
        for (place, _) in sample.all_fills().filter(|(_, fill)| matches!(fill, Fill::Tolerations)) {
            let list = resumed.pointer_mut(place).and_then(Value::as_array_mut).expect("tolerations");
            list.push(chosen.clone());
        }
        for object in [&suspended, &resumed, &suspended] {
            let stored = client.sent(QUEUE, Method::PUT, &path, &client.as_update(object));
            assert_eq!(stored["spec"], object["spec"], "{path}");
        }
    }
}

/// Whoever deletes an object that breaks rules gets rid of it.
fn ends(client: &Client<'_, '_>, sample: &Sample, object: &Value) {
    let path = client.path(object);
    client.sent(ANYBODY, Method::DELETE, &path, &json!({}));
    let mut whole = client.stored(object);
    whole["metadata"]["finalizers"] = json!([]);
    client.sent(sample.operator, Method::PUT, &path, &whole);
    let (status, _) = client.api.send_as(ANYBODY, Method::GET, &path, &Value::Null);
    assert_eq!(status, 404, "{path}");
}

/// Returns an object with nothing but a value in its place.
fn at(place: &str, value: &Value) -> Value {
    place.rsplit('/').filter(|key| !key.is_empty()).fold(value.clone(), |value, key| json!({key: value}))
}

fn in_no_namespace(place: &Place<'_>) {
    let elsewhere = place.beside();
    let client = Client::of(place);
    let (sample, name) = (&CLUSTER_TRAINING_RUNTIME, place.cluster.unique("runtime"));
    let answer = client.create(&sample.bad(&name));
    assert_eq!(problems(&answer), sample.denied, "{answer:#?}");
    assert!(!answer.1.to_string().contains(CLAIM), "its claims may be in any namespace: {answer:#?}");

    let good = sample.good(&name);
    let in_namespace = over(good.clone(), json!({"kind": "TrainingRuntime"}));
    let plain = client.plain(&elsewhere.namespace, &in_namespace);
    let fills: Vec<(&str, Fill)> = sample.all_fills().copied().collect();
    place.create(&good).ok();
    let stored = client.stored(&good);
    assert_eq!(stored["spec"], filled(plain.clone(), &fills)["spec"]);
    place.kubectl(&["label", sample.resource, &name, "team=vision"]).quiet();
    assert_eq!(client.stored(&good)["metadata"]["generation"], 1);

    let applied = sample.good(&place.cluster.unique("runtime"));
    for _ in 0..2 {
        place.apply(&applied).ok();
        let stored = client.stored(&applied);
        assert_eq!((&stored["spec"], &stored["metadata"]["generation"]), (&plain["spec"], &json!(1)));
    }
}

/// A cluster has one definition of MPIJobs: this one has that of the training operator.
fn of_another_version(place: &Place<'_>) {
    let definition = Definitions::find().and_then(|definitions| definitions.other_mpi_jobs());
    let cluster = place.cluster.another(&[definition.expect("a definition")]).expect("start a cluster");
    let place = Place::new(&cluster, true);
    are_denied(&place, &[OTHER_MPI_JOB]);
    are_filled(&place, &[OTHER_MPI_JOB]);
}
