//! The three-way merge of `kubectl apply`: last applied manifest, new manifest, and live object.
//!
//! Fields that the manifest sets are updated, fields that it no longer sets are removed, and all others are
//! kept. Lists are replaced, except those whose items have a key (`patchMergeKey` in the API's types).

use crate::kinds::Kind;
use crate::text::value::{Map, Value};

/// Lists whose items are merged, with their key. In pod templates each name has one type.
const KEYED: [(&str, &str); 12] = [
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ports", "containerPort"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// The annotation with the last applied manifest of client-side apply.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the object that `kubectl apply` of a manifest replaces `old` with.
///
/// The last applied manifest is in the annotation of `old`. Without one no field is removed, unless `old` has
/// no `uid`: then it is an earlier version of the manifest itself.
#[must_use]
pub(crate) fn applied(manifest: &Value, old: &Value) -> Value {
    let metadata = |key: &str| old.get("metadata").and_then(|metadata| metadata.get(key));
    let annotation =
        metadata("annotations").and_then(|annotations| annotations.get(LAST_APPLIED)).and_then(Value::as_str);
    let last: Value = match annotation {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None if metadata("uid").is_none() => old.clone(),
        None => Value::Null,
    };
    // kubectl knows no keys of lists in custom resources.
    let merge = Merge { keyed: Kind::from_object(manifest).is_none_or(|kind| kind.is_built_in()) };
    let mut result = old.clone();
    if let (Some(target), Some(manifest)) = (result.as_object_mut(), manifest.as_object()) {
        merge.mapping(target, manifest, last.as_object());
    }
    result
}

struct Merge {
    keyed: bool,
}

impl Merge {
    fn mapping(&self, target: &mut Map, manifest: &Map, last: Option<&Map>) {
        for key in
            last.into_iter().flat_map(Map::keys).filter(|key| manifest.get(key).is_none_or(Value::is_null))
        {
            target.remove(key);
        }
        for (key, value) in manifest.iter().filter(|(_, value)| !value.is_null()) {
            let before = last.and_then(|last| last.get(key));
            match target.get_mut(key) {
                Some(there) => self.value(key, there, value, before),
                None => _ = target.insert(key, value.clone()),
            }
        }
    }

    fn value(&self, field: &str, target: &mut Value, manifest: &Value, last: Option<&Value>) {
        match (&mut *target, manifest) {
            (Value::Object(target), Value::Object(manifest)) => {
                self.mapping(target, manifest, last.and_then(Value::as_object));
            }
            (Value::Array(target), Value::Array(manifest)) if self.keyed => {
                match KEYED.iter().find(|(name, _)| *name == field) {
                    Some((_, key)) => self.list(key, target, manifest, last.and_then(Value::as_array)),
                    None => target.clone_from(manifest),
                }
            }
            _ => *target = manifest.clone(),
        }
    }

    fn list(&self, key: &str, target: &mut Vec<Value>, manifest: &[Value], last: Option<&Vec<Value>>) {
        let of =
            |list: &[Value], item: &Value| list.iter().find(|other| other.get(key) == item.get(key)).cloned();
        let last = last.map_or(&[][..], Vec::as_slice);
        // Keep items that neither manifest has, after those of the manifest.
        let others: Vec<Value> = target
            .iter()
            .filter(|item| of(manifest, item).is_none() && of(last, item).is_none())
            .cloned()
            .collect();
        let mut merged: Vec<Value> = Vec::new();
        for item in manifest {
            let mut there = of(target, item).unwrap_or_else(|| Value::Object(Map::new()));
            match (&mut there, item) {
                (Value::Object(there), Value::Object(item_fields)) => {
                    let before = of(last, item);
                    self.mapping(there, item_fields, before.as_ref().and_then(Value::as_object));
                }
                _ => there = item.clone(),
            }
            merged.push(there);
        }
        merged.extend(others);
        *target = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::json;

    fn job(metadata: &Value, pod: &Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}})
    }

    #[test]
    fn what_the_server_added_stays_and_what_the_author_took_out_goes() {
        let old = job(
            &json!({"name": "j", "uid": "u", "annotations": {LAST_APPLIED: job(&json!({"name": "j"}), &json!({"nodeSelector": {"a": "b"}})).to_string()}}),
            &json!({"nodeSelector": {"a": "b", "c": "d"}, "schedulerName": "s", "containers": [{"name": "x", "image": "1", "imagePullPolicy": "Always"}]}),
        );
        let new =
            applied(&job(&json!({"name": "j"}), &json!({"containers": [{"name": "x", "image": "2"}]})), &old);
        assert_eq!(
            new["spec"]["template"]["spec"],
            json!({"schedulerName": "s", "containers": [{"name": "x", "image": "2", "imagePullPolicy": "Always"}]})
        );
        assert_eq!(new["metadata"]["uid"], json!("u"));
    }

    #[test]
    fn lists_without_a_key_are_replaced_and_those_with_one_merged() {
        let tolerations = |keys: &[&str]| {
            keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect::<Vec<_>>()
        };
        let uid = json!({"name": "j", "uid": "u"});
        let old = job(
            &uid,
            &json!({"tolerations": tolerations(&["a", "gpu"]), "volumes": [{"name": "theirs"}, {"name": "v", "emptyDir": {}}]}),
        );
        let manifest = job(
            &json!({"name": "j"}),
            &json!({"tolerations": tolerations(&["a"]), "volumes": [{"name": "v"}]}),
        );
        let new = applied(&manifest, &old);
        assert_eq!(new["spec"]["template"]["spec"]["tolerations"], json!(tolerations(&["a"])));
        assert_eq!(
            new["spec"]["template"]["spec"]["volumes"],
            json!([{"name": "v", "emptyDir": {}}, {"name": "theirs"}])
        );
    }

    #[test]
    fn an_earlier_version_of_the_manifest_is_what_was_applied_last() {
        let old = job(&json!({"name": "j"}), &json!({"nodeSelector": {"a": "b"}, "hostname": "h"}));
        let new = job(&json!({"name": "j"}), &json!({"nodeSelector": {"a": "c"}}));
        assert_eq!(applied(&new, &old), new);
        assert_eq!(applied(&old, &old), old);
    }
}
