//! Objects of a cluster that manifests refer to.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use jobgate_lint::claims::{Claims, Scope};
use jobgate_lint::existing_objects::ObjectKey;
use jobgate_lint::objects::objects;
use jobgate_lint::{Input, Layered};

use super::options::Options;
use super::{claims, source};
use crate::judge::facts::{FactKind, FactTable, WantedObject};
use crate::judge::runtime_pods::Joined;
use crate::kinds::Workload;
use crate::text::value::Value;
use crate::text::yaml;

/// Objects that manifests refer to, each sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferencedObjects {
    /// The workloads.
    pub(crate) objects: BTreeSet<ObjectKey>,
    /// The claims and other objects that rules look up for them.
    pub(crate) facts: BTreeSet<WantedObject>,
    /// The namespaces that they go into, without those that are among the manifests.
    pub(crate) namespaces: BTreeSet<String>,
}

/// Finds the workloads of files and the objects to look up for them. Unreadable files are left to the linter. The
/// claims of a runtime are included if it is in the files, in `facts`, or in what was read from the `cluster`.
#[must_use]
pub(crate) fn mentioned(
    inputs: &[Input],
    options: &Options<'_>,
    facts: &Claims,
    cluster: Option<&FactTable>,
) -> ReferencedObjects {
    let limits = options.limits();
    let linted = OnceCell::new();
    let mut found = ReferencedObjects::default();
    let mut brought: BTreeSet<String> = BTreeSet::new();
    for input in inputs {
        let Ok(Ok(loaded)) = source::load(input, options.max_file_size) else { continue };
        let namespace = options.namespace_of(input);
        let documents = yaml::split(loaded.bytes(), &limits)
            .flatten()
            .filter_map(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits).ok());
        for document in documents {
            for object in objects(&document.value) {
                let text = |pointer: &str| object.value.pointer(pointer).and_then(Value::as_str);
                if (text("/apiVersion"), text("/kind")) == (Some("v1"), Some("Namespace")) {
                    brought.extend(text("/metadata/name").map(str::to_owned));
                }
                let workloads = Workload::all_in(&object.value);
                if workloads.is_empty() {
                    continue;
                }
                found.objects.extend(ObjectKey::from_object(&object.value, namespace));
                let own =
                    object.value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(namespace);
                found.namespaces.extend(Some(own).filter(|own| !own.is_empty()).map(str::to_owned));
                for workload in &workloads {
                    found.facts.extend(named_by(workload, own));
                    if workload.kind.runs_in.is_none_or(|reference| reference.of(&workload.object).is_none())
                    {
                        continue;
                    }
                    let linted = linted.get_or_init(|| claims::in_inputs(inputs, None, options));
                    let scope = Scope { file: input, facts, own: None, linted };
                    let joined = Joined::find(&Layered { cluster, files: &scope }, own, workload);
                    if let Some(workload) = joined.as_ref().and_then(Joined::workload) {
                        found.facts.extend(named(FactKind::Claim, &workload, own));
                    }
                }
            }
        }
    }
    found.namespaces.retain(|namespace| !brought.contains(namespace));
    found
}

/// Returns the objects to look up for a workload in a namespace.
fn named_by(workload: &Workload<'_>, namespace: &str) -> impl Iterator<Item = WantedObject> {
    // The pods of a cluster-scoped object may run in any namespace.
    let is_there =
        |kind: &FactKind| !workload.kind.cluster_scoped || kind.definition().resource.cluster_scoped;
    FactKind::all().filter(is_there).flat_map(|kind| named(kind, workload, namespace))
}

fn named(kind: FactKind, workload: &Workload<'_>, namespace: &str) -> Vec<WantedObject> {
    kind.names(workload).into_iter().map(|name| WantedObject::new(kind, namespace, name)).collect()
}
