//! The definitions of custom resources that the cluster serves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jobgate::kinds::{Api, Kind};
use jobgate::text::value::{Value, json};

use crate::cluster::shared;
use crate::kubectl::Kubectl;
use crate::programs;

/// The definition of MPIJobs of the training operator. A cluster has one definition of a resource.
const OTHER_MPI_JOBS: [&str; 2] = ["mpijobs.yaml", "kubeflow.org_mpijobs.yaml"];

/// Operators that can be made, and the folder of their definitions. Of two that define one resource, the last
/// counts.
const OPERATORS: [(&str, &str); 4] = [
    ("training-operator", "manifests/base/crds"),
    ("mpi-operator", "manifests/base"),
    ("trainer", "manifests/base/crds"),
    ("jobset", "manifests/components/crd/bases"),
];

/// Where definitions come from.
#[derive(Clone, Debug)]
pub(crate) enum Definitions {
    /// A folder of the shared data.
    Shared(PathBuf),
    /// Those of the operators that can be made; for the other kinds, what Jobgate knows of their schemas.
    Made,
}

impl Definitions {
    /// # Errors
    /// What would be needed.
    pub(crate) fn find() -> Result<Self, String> {
        match shared("crds") {
            Some(folder) => Ok(Self::Shared(folder)),
            None if programs::on_path("go").is_some() => Ok(Self::Made),
            None => Err("`crds` in JOBGATE_SHARED, or Go to make operators with".to_owned()),
        }
    }

    /// Returns one definition for each resource: of the two of MPIJobs, that of the newer operator.
    ///
    /// # Errors
    /// An operator cannot be made.
    pub(crate) fn all(&self) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        match self {
            Self::Shared(folder) => {
                let usual = |path: &PathBuf| !is_other(path);
                all.extend(files(folder).iter().filter(|path| usual(path)).map(|path| definition(path)));
            }
            Self::Made => {
                for (operator, folder) in OPERATORS {
                    let files = files(&programs::made(operator)?.join(folder));
                    let usual = |path: &PathBuf| operator != "training-operator" || !is_other(path);
                    let definitions = files.iter().filter(|path| usual(path)).map(|path| definition(path));
                    all.extend(definitions.filter(|value| value["kind"] == "CustomResourceDefinition"));
                }
                let defined: BTreeSet<String> =
                    all.iter().filter_map(|it| Some(it["metadata"]["name"].as_str()?.to_owned())).collect();
                all.extend(
                    known().filter(|it| !defined.contains(it["metadata"]["name"].as_str().unwrap_or(""))),
                );
            }
        }
        Ok(all)
    }

    /// Returns the definition of MPIJobs of the training operator.
    ///
    /// # Errors
    /// The operator cannot be made.
    pub(crate) fn other_mpi_jobs(&self) -> Result<Value, String> {
        let folder = match self {
            Self::Shared(folder) => folder.clone(),
            Self::Made => programs::made("training-operator")?.join("manifests/base/crds"),
        };
        let file = files(&folder).into_iter().find(|path| is_other(path));
        file.map(|path| definition(&path)).ok_or_else(|| format!("no MPIJobs in {}", folder.display()))
    }
}

fn is_other(path: &Path) -> bool {
    OTHER_MPI_JOBS.iter().any(|name| path.ends_with(name))
}

/// Returns the manifests in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("read {}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "yaml" || kind == "json"));
    files.sort();
    files
}

/// Reads a definition, without the descriptions of its fields: they are most of it, and the API server
/// publishes them again at each new definition.
pub(crate) fn definition(path: &Path) -> Value {
    let text = fs::read(path).expect("read a definition");
    // Above the first `---` there may be a licence.
    let mut documents = jobgate::text::yaml::documents(&text).map(|document| document.expect("YAML").value);
    let mut definition = documents.find(Value::is_object).expect("an object");
    without_descriptions(&mut definition);
    definition
}

/// Takes the descriptions of fields out of a definition.
pub(crate) fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !(key == "description" && value.is_string()));
            map.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

/// Applies objects, and definitions among them without the rules that an older API server cannot compile: JobSet
/// 0.12 reads `metadata.namespace` of a template in one, which 1.30 does not know. What is left out is printed.
///
/// # Errors
/// The API server refuses them.
pub(crate) fn apply(kubectl: &Kubectl, objects: &mut [Value]) -> Result<(), String> {
    loop {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        // Definitions are too large for the annotation that client-side apply writes.
        let output = kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &list);
        if output.success {
            return Ok(());
        }
        let mut left_out = false;
        for object in objects.iter_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
            let mut rules = Vec::new();
            without_rules(object, &output.stderr, &mut rules);
            left_out |= !rules.is_empty();
            for rule in rules {
                println!("{}: this API server cannot compile {rule}", object["metadata"]["name"]);
            }
        }
        if !left_out {
            return Err(output.to_string());
        }
    }
}

/// Takes out the rules that the API server says it cannot compile.
fn without_rules(schema: &mut Value, refused: &str, out: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Array(rules)) = map.get_mut("x-kubernetes-validations") {
                rules.retain(|rule| {
                    let rule = rule["rule"].as_str().unwrap_or_default();
                    // As Go prints it.
                    let is_refused = refused.contains("compilation failed")
                        && refused.contains(&format!("Rule:{}", json!(rule)));
                    if is_refused {
                        out.push(rule.to_owned());
                    }
                    !is_refused
                });
            }
            map.values_mut().for_each(|value| without_rules(value, refused, out));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_rules(item, refused, out)),
        _ => {}
    }
}

/// Returns definitions of all custom kinds, with the schemas that Jobgate has of them.
fn known() -> impl Iterator<Item = Value> {
    Kind::all().filter_map(|kind| {
        let Api::Custom { schema, .. } = kind.api else { return None };
        let mut schema: Value = serde_json::from_str(schema).expect("a schema");
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove("metadata");
            properties.insert("status", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
            structural(&mut schema);
        } else {
            // Of some, Jobgate knows the pods only.
            schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        let scope = if kind.cluster_scoped { "Cluster" } else { "Namespaced" };
        let singular = kind.name.to_lowercase();
        Some(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", kind.resource, kind.group)},
            "spec": {
                "group": kind.group, "scope": scope,
                "names": {"kind": kind.name, "listKind": format!("{}List", kind.name), "plural": kind.resource, "singular": singular},
                "versions": [{
                    "name": kind.version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        }))
    })
}

/// Puts a schema that the API server takes where a built-in type is referred to.
fn structural(schema: &mut Value) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        *schema = if reference.ends_with(".Quantity") {
            json!({"x-kubernetes-int-or-string": true})
        } else {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        };
        return;
    }
    match schema {
        Value::Object(map) => {
            // What Jobgate leaves open, such as an object inside an AppWrapper.
            let is_open = !["properties", "additionalProperties"].iter().any(|key| map.contains_key(key));
            if map.get("type").and_then(Value::as_str) == Some("object") && is_open {
                map.insert("x-kubernetes-preserve-unknown-fields", true.into());
            }
            map.values_mut().for_each(structural);
        }
        Value::Array(items) => items.iter_mut().for_each(structural),
        _ => {}
    }
}
