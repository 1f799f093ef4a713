//! The API server's validation of an UPDATE: what may change
//! (docs/internals/kubernetes.md#fields-that-may-change).

use std::collections::HashSet;

use super::cause::{Cause, CausePlace as _, Causes};
use super::object_part::ObjectPart;
use crate::judge::api::stored_object::Stored;
use crate::kinds::{Api, Kind};
use crate::text::pointer::{Pointer, Token};
use crate::text::value::{Map, Value};

/// Returns why the API server rejects an update; nothing if it accepts it or the kind or version is unknown.
///
/// Both objects have their [defaults](crate::judge::api::defaults::stored).
#[must_use]
pub fn validate_update(object: &Stored<'_>, old: &Stored<'_>) -> Vec<Cause> {
    let (new, before) = (ObjectPart::root(object), ObjectPart::root(old));
    let Some(kind) = object.kind() else { return Vec::new() };
    match kind.api {
        Api::Job => {
            let mut causes = Causes::default();
            super::job::job(&new, &mut causes);
            metadata(&new, &before, &mut causes);
            job(&new, &before, &mut causes);
            causes.into_vec()
        }
        Api::CronJob => {
            let mut causes = Causes::default();
            super::cron_job::cron_job(&new, Some(&before), &mut causes);
            metadata(&new, &before, &mut causes);
            causes.into_vec()
        }
        Api::Custom { .. } => {
            let mut causes = Causes::default();
            metadata(&new, &before, &mut causes);
            queue(kind, &new, &before, &mut causes);
            unchanged(kind, &new, &before, &mut causes);
            let mut causes = causes.into_vec();
            // Existing errors are allowed (ratcheting, Kubernetes 1.30 and later).
            let known = schema(kind, &before);
            causes.extend(schema(kind, &new).into_iter().filter(|cause| !known.contains(cause)));
            causes
        }
    }
}

fn schema(kind: Kind, object: &ObjectPart<'_, '_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    super::custom::check(kind, object, &mut causes);
    causes.into_vec()
}

const IMMUTABLE: &str = "field is immutable";

fn metadata(new: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if !old.at(&["metadata", "deletionTimestamp"]).is_set() {
        return;
    }
    let (after, before) = (new.at(&["metadata", "finalizers"]), old.at(&["metadata", "finalizers"]));
    let before: HashSet<&str> = before.items().map(|known| known.text()).collect();
    let added: Vec<&str> =
        after.items().filter_map(|item| item.value?.as_str()).filter(|name| !before.contains(name)).collect();
    if !added.is_empty() {
        let added: Vec<String> = added.iter().map(|name| crate::k8s::go::quoted(name)).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        causes.forbidden(&after, &detail);
    }
}

fn job(new: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let (spec, before) = (new.get("spec"), old.get("spec"));
    completions(&spec, &before, causes);
    immutable(&spec.get("selector"), &before.get("selector"), causes);
    template(&spec, old, causes);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        immutable(&spec.get(field), &before.get(field), causes);
    }
}

fn completions(spec: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let (new, before) = (spec.get("completions"), old.get("completions"));
    if spec.get("completionMode").text() != "Indexed" {
        immutable(&new, &before, causes);
    } else if new.value != before.value && new.is_set() && new.value != spec.get("parallelism").value {
        causes.invalid(&new, "can only be modified in tandem with spec.parallelism");
    }
}

fn immutable(new: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if new.value != old.value {
        causes.invalid_shown(new, &shown(new.value), IMMUTABLE);
    }
}

/// Shows a value. The server prints structures in full, with its internal types; here they are omitted.
fn shown(value: Option<&Stored<'_>>) -> String {
    match value {
        None | Some(Stored::Null) => "null".to_owned(),
        Some(Stored::Text(text)) => crate::k8s::go::quoted(text),
        Some(Stored::Mapping(_) | Stored::Shared(_)) => "{…}".to_owned(),
        Some(Stored::List(_)) => "[…]".to_owned(),
        Some(value) => value.to_value().to_string(),
    }
}

/// The scheduling directives of a pod spec, which may change while the Job is suspended.
const DIRECTIVES: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];

fn template(spec: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    let (new, before) = (spec.get("template"), old.at(&["spec", "template"]));
    if new.value == before.value {
        return;
    }
    let is_idle = is_idle(old);
    let (new, before) = if is_idle { (new.get("spec"), before.get("spec")) } else { (new, before) };
    let (Some(after), Some(known)) = (new.value, before.value) else {
        immutable(&new, &before, causes);
        return;
    };
    let (after, known) = (after.to_value(), known.to_value());
    let known = if is_idle { with_directives(&known, &after) } else { known };
    if let Some(place) = difference(&after, &known) {
        causes.invalid_shown(&new, "{…}", IMMUTABLE).pointer = new.pointer().join(&place);
    }
}

/// Tells whether a Job is suspended and has no pods. Since 1.36 it may have run before.
fn is_idle(job: &ObjectPart<'_, '_>) -> bool {
    let status = job.get("status");
    let says_so = status.get("conditions").items().any(|condition| {
        condition.get("type").text() == "Suspended" && condition.get("status").text() == "True"
    });
    job.at(&["spec", "suspend"]).is_true()
        && (!status.get("startTime").is_set() || says_so)
        && status.get("active").number().unwrap_or_default() == 0
}

/// Returns the old pod spec with the fields that may change in a suspended Job from the new one.
fn with_directives(old: &Value, new: &Value) -> Value {
    let mut allowed = old.clone();
    for field in DIRECTIVES {
        take(&mut allowed, new, &[field]);
    }
    take(&mut allowed, new, &["affinity", "nodeAffinity"]);
    let Some(pod) = allowed.as_object_mut() else { return allowed };
    let is_empty = |affinity: &Value| affinity.as_object().is_some_and(Map::is_empty);
    match new.get("affinity") {
        Some(_) => _ = pod.get_or_insert_with("affinity", || Value::Object(Map::new())),
        None if pod.get("affinity").is_some_and(is_empty) => _ = pod.remove("affinity"),
        None => {}
    }
    for list in ["containers", "initContainers"] {
        let newer = new.get(list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let older = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (old, new) in older.zip(newer).filter(|(old, new)| old.get("name") == new.get("name")) {
            take(old, new, &["resources"]);
        }
    }
    allowed
}

/// Copies a place from another value.
fn take(target: &mut Value, from: &Value, way: &[&str]) {
    let Some((last, way)) = way.split_last() else { return };
    let value =
        way.iter().try_fold(from, |value, key| value.get(key)).and_then(|value| value.get(last)).cloned();
    let mut here = target;
    for key in way {
        let Some(entries) = here.as_object_mut() else { return };
        if value.is_none() && !entries.contains_key(key) {
            return;
        }
        here = entries.get_or_insert_with(*key, || Value::Object(Map::new()));
    }
    let Some(entries) = here.as_object_mut() else { return };
    match value {
        Some(value) => _ = entries.insert(*last, value),
        None => _ = entries.remove(last),
    }
}

/// Returns the first place where two values differ.
fn difference(new: &Value, old: &Value) -> Option<Pointer> {
    let below = |token: Token, rest: Pointer| Pointer::root().then(token).join(&rest);
    match (new, old) {
        (new, old) if new == old => None,
        (Value::Object(new), Value::Object(old)) => {
            let mut keys: Vec<&str> = new.keys().chain(old.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter().find_map(|key| match (new.get(key), old.get(key)) {
                (Some(new), Some(old)) => {
                    Some(below(Token::Key(key.to_owned().into()), difference(new, old)?))
                }
                _ => Some(Pointer::root().key(key)),
            })
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => new
            .iter()
            .zip(old)
            .enumerate()
            .find_map(|(index, (new, old))| Some(below(Token::Index(index), difference(new, old)?))),
        _ => Some(Pointer::root()),
    }
}

fn queue(kind: Kind, new: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    const QUEUE: [&str; 2] = ["schedulingPolicy", "queue"];
    let limits = [new, old].map(|object| object.at(kind.limits));
    let [after, before] = limits.each_ref().map(|limits| limits.at(&QUEUE));
    if after.is_set() && before.is_set() && after.value != before.value {
        causes.invalid(&after, &format!("{}.{} is immutable", kind.limits.join("."), QUEUE.join(".")));
    }
}

/// Reports changes of fields that the schema makes immutable. Such a rule compares with the old value, so it is
/// not evaluated where either value is missing.
fn unchanged(kind: Kind, new: &ObjectPart<'_, '_>, old: &ObjectPart<'_, '_>, causes: &mut Causes) {
    for (path, message) in kind.immutable {
        let (after, before) = (new.at(path), old.at(path));
        if after.is_set() && before.is_set() && after.value != before.value {
            causes.invalid_bare(&after, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::api::defaults::defaulted;
    use crate::text::value::json;

    fn merged(object: &Value, patch: &Value) -> Value {
        let mut object = object.clone();
        crate::text::patch::merge(&mut object, patch);
        defaulted(&object)
    }

    fn refusals(object: &Value, old: &Value) -> Vec<Cause> {
        validate_update(&Stored::from_value(object), &Stored::from_value(old))
    }

    /// Returns why an object, changed by one patch, may not be changed further by another: `field: message`.
    fn update(object: &Value, before: &Value, change: &Value) -> Vec<String> {
        let old = merged(object, before);
        refusals(&merged(&old, change), &old)
            .into_iter()
            .map(|cause| format!("{}: {}", cause.path, cause.message))
            .collect()
    }

    fn a_job() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
        })
    }

    fn job(before: Value, change: Value) -> Vec<String> {
        update(&a_job(), &before, &change)
    }

    fn template(change: Value) -> Value {
        json!({"spec": {"template": change}})
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn what_says_how_a_job_runs_may_change() {
        for change in [
            json!({"parallelism": 3}),
            json!({"suspend": true}),
            json!({"activeDeadlineSeconds": 5}),
            json!({"backoffLimit": 1}),
            json!({"ttlSecondsAfterFinished": 1}),
            json!({"podReplacementPolicy": "Failed"}),
        ] {
            assert_eq!(job(json!({}), json!({"spec": change})), NONE, "{change}");
        }
        assert_eq!(
            job(json!({}), json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}})),
            NONE
        );
    }

    #[test]
    fn what_says_what_a_job_is_may_not() {
        let immutable = |field: &str, shown: &str| {
            vec![format!("spec.{field}: Invalid value: {shown}: field is immutable")]
        };
        for (change, found) in [
            (json!({"completions": 2}), immutable("completions", "2")),
            (json!({"completionMode": "Indexed"}), immutable("completionMode", "\"Indexed\"")),
            (json!({"managedBy": "a.b/c"}), immutable("managedBy", "\"a.b/c\"")),
            (json!({"template": {"spec": {"restartPolicy": "OnFailure"}}}), immutable("template", "{…}")),
        ] {
            assert_eq!(job(json!({}), json!({"spec": change})), found, "{change}");
        }
        let selector = job(
            json!({}),
            json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}}),
        );
        assert_eq!(selector, [immutable("selector", "{…}"), immutable("template", "{…}")].concat());
        let rules = |code: i32| json!({"spec": {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [code]}}]}}});
        assert_eq!(job(rules(1), rules(1)), NONE);
        assert_eq!(job(rules(1), rules(2)), immutable("podFailurePolicy", "{…}"));
    }

    #[test]
    fn an_indexed_job_grows_in_both_numbers_alike() {
        let indexed = json!({"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}});
        assert_eq!(job(indexed.clone(), json!({"spec": {"completions": 4, "parallelism": 4}})), NONE);
        assert_eq!(
            job(indexed, json!({"spec": {"completions": 4}})),
            ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]
        );
    }

    #[test]
    fn where_the_pods_of_a_suspended_job_go_may_change() {
        let suspended = || json!({"spec": {"suspend": true}});
        let resources = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}]);
        let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n"]}
        ]}]}});
        let directives = [
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
            json!({"spec": {"schedulingGates": [{"name": "a.b/c"}]}}),
            json!({"spec": {"affinity": {"nodeAffinity": node}}}),
            json!({"spec": {"containers": resources}}),
            json!({"metadata": {"annotations": {"a": "b"}}}),
            json!({"metadata": {"labels": {"more": "b"}}}),
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
        ];
        for change in &directives {
            assert_eq!(job(suspended(), template(change.clone())), NONE, "{change}");
            // It may begin to run in the same breath.
            let mut start = template(change.clone());
            start["spec"]["suspend"] = json!(false);
            assert_eq!(job(suspended(), start), NONE, "{change}");
            assert_eq!(job(json!({}), template(change.clone())).len(), 1, "{change}");
            // Taking it away again is the same.
            let mut with = template(change.clone());
            with["spec"]["suspend"] = json!(true);
            let old = merged(&a_job(), &with);
            assert_eq!(refusals(&merged(&a_job(), &suspended()), &old).len(), 0, "{change}");
        }
        for change in [
            json!({"spec": {"containers": [{"name": "c", "image": "other"}]}}),
            json!({"spec": {"containers": [{"name": "other", "image": "i", "resources": {"limits": {"cpu": 1}}}]}}),
            json!({"spec": {"priorityClassName": "high"}}),
            json!({"spec": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
            ]}}}}),
        ] {
            assert_eq!(
                job(suspended(), template(change.clone())),
                ["spec.template.spec: Invalid value: {…}: field is immutable"],
                "{change}"
            );
        }
    }

    #[test]
    fn a_job_that_was_suspended_must_have_come_to_rest() {
        let change = || template(json!({"spec": {"nodeSelector": {"a": "b"}}}));
        let suspended = |status: Value| json!({"spec": {"suspend": true}, "status": status});
        let rest = json!([{"type": "Suspended", "status": "True"}]);
        for (status, found) in [
            (json!({}), 0),
            (json!({"startTime": "2026-01-01T00:00:00Z"}), 1),
            (
                json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "False"}]}),
                1,
            ),
            (json!({"startTime": "2026-01-01T00:00:00Z", "conditions": rest}), 0),
            (json!({"startTime": "2026-01-01T00:00:00Z", "conditions": rest, "active": 1}), 1),
        ] {
            assert_eq!(job(suspended(status.clone()), change()).len(), found, "{status}");
        }
    }

    #[test]
    fn the_place_of_a_change_is_as_deep_as_both_have_it() {
        let old = defaulted(&a_job());
        let at = |change: Value| refusals(&merged(&old, &template(change)), &old)[0].pointer.to_string();
        assert_eq!(
            at(json!({"spec": {"containers": [{"name": "c", "image": "other"}]}})),
            "spec.template.spec.containers[0].image"
        );
        assert_eq!(
            at(json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}})),
            "spec.template.spec.containers"
        );
        assert_eq!(
            at(json!({"spec": {"priorityClassName": "high"}})),
            "spec.template.spec.priorityClassName"
        );
        assert_eq!(at(json!({"spec": {"dnsPolicy": "Default"}})), "spec.template.spec.dnsPolicy");
    }

    #[test]
    fn a_job_is_validated_as_a_new_one_is_too() {
        assert_eq!(
            job(json!({}), json!({"spec": {"parallelism": -1}})),
            ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]
        );
    }

    #[test]
    fn nothing_new_may_hold_on_to_what_is_being_deleted() {
        let deleting =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}});
        assert_eq!(job(deleting.clone(), json!({"metadata": {"finalizers": []}})), NONE);
        let more = json!({"metadata": {"finalizers": ["a.b/c", "d.e/f"]}});
        assert_eq!(
            job(deleting, more.clone()),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"d.e/f\"}"
            ]
        );
        assert_eq!(job(json!({}), more), NONE);
    }

    fn cron_job(before: Value, change: Value) -> Vec<String> {
        let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
        let object = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "n"}, "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job}},
        });
        update(&object, &before, &change)
    }

    #[test]
    fn a_cron_job_may_change_in_everything() {
        let image = json!({"spec": {"jobTemplate": {"spec": {"completions": 2, "template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}}});
        assert_eq!(cron_job(json!({}), image), NONE);
        assert_eq!(cron_job(json!({}), json!({"spec": {"suspend": true, "schedule": "5 0 * * *"}})), NONE);
        assert!(
            cron_job(json!({}), json!({"spec": {"schedule": "never"}}))[0]
                .starts_with("spec.schedule: Invalid value")
        );
    }

    #[test]
    fn what_a_cron_job_had_from_older_servers_it_keeps() {
        let zone = json!({"spec": {"schedule": "TZ=UTC 0 0 * * *"}});
        let other = json!({"spec": {"schedule": "TZ=UTC 5 0 * * *"}});
        assert_eq!(cron_job(zone.clone(), other.clone()), NONE);
        assert_eq!(cron_job(json!({}), other).len(), 1);
        assert_eq!(cron_job(zone, json!({"spec": {"timeZone": "Etc/UTC"}})).len(), 1, "not both");
        // A zone that this server does not know was known to an older one.
        let unknown = json!({"spec": {"timeZone": "Middle/Earth"}});
        assert_eq!(cron_job(unknown.clone(), json!({"spec": {"suspend": true}})), NONE);
        assert_eq!(cron_job(json!({}), unknown).len(), 1);
        // A name that is too long for the Jobs it makes.
        assert_eq!(
            cron_job(json!({"metadata": {"name": "n".repeat(60)}}), json!({"spec": {"suspend": true}})),
            NONE
        );
    }

    #[test]
    fn a_py_torch_job_keeps_its_queue() {
        let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": {"pytorchReplicaSpecs": {}}});
        let queue = |name: Value| json!({"spec": {"runPolicy": {"schedulingPolicy": {"queue": name}}}});
        let of = |before: &Value, change: &Value| update(&object, before, change);
        assert_eq!(of(&queue("a".into()), &queue("b".into())).len(), 1);
        assert_eq!(of(&queue("a".into()), &queue("a".into())), NONE);
        assert_eq!(of(&json!({}), &queue("a".into())), NONE);
        assert_eq!(of(&queue("a".into()), &queue(Value::Null)), NONE);
    }

    #[test]
    fn other_kinds_and_versions_are_not_judged() {
        let object =
            json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"completions": 1}});
        assert_eq!(update(&object, &json!({}), &json!({"spec": {"completions": 2}})), NONE);
    }

    #[test]
    fn a_field_that_a_schema_fixes_may_be_set_and_removed_and_not_changed() {
        let base = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "t"},
            "spec": {"runtimeRef": {"name": "torch"}},
        });
        let said =
            |before: Value, change: Value| update(&base, &json!({"spec": before}), &json!({"spec": change}));
        let image = |image: &str| json!({"trainer": {"image": image}});
        assert_eq!(said(image("a"), image("b")), ["spec.trainer: Invalid value: field is immutable"]);
        for (before, change) in [
            (image("a"), image("a")),
            (image("a"), json!({"trainer": null})),
            (json!({}), image("b")),
            (json!({"suspend": true}), json!({"suspend": false})),
        ] {
            assert_eq!(said(before, change), [""; 0]);
        }
        let other = json!({"runtimeRef": {"name": "mpi"}});
        assert_eq!(said(json!({}), other), ["spec.runtimeRef: Invalid value: field is immutable"]);
    }
}
