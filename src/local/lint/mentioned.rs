//! Objects of a cluster that manifests refer to.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use jobgate_lint::against::ObjectKey;
use jobgate_lint::claims::{Claims, Scope};
use jobgate_lint::objects::objects;
use jobgate_lint::{Input, Layered};

use super::options::Options;
use super::{claims, source};
use crate::judge::facts::{FactTable, WantedRuntime};
use crate::judge::joined::Joined;
use crate::kinds::Workload;
use crate::text::value::Value;
use crate::text::yaml;

/// Objects that manifests refer to, each sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mentioned {
    /// The workloads.
    pub(crate) objects: BTreeSet<ObjectKey>,
    /// The claims that they use, by namespace and name.
    pub(crate) claims: BTreeSet<(String, String)>,
    /// The runtimes that they run in.
    pub(crate) runtimes: BTreeSet<WantedRuntime>,
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
) -> Mentioned {
    let limits = options.limits();
    let linted = OnceCell::new();
    let mut found = Mentioned::default();
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
                // The pods of a cluster-scoped object may run in any namespace.
                let in_namespace = workloads.iter().filter(|workload| !workload.kind.cluster_scoped);
                let names = in_namespace.flat_map(claims_of);
                found.claims.extend(names.map(|name| (own.to_owned(), name)));
                for workload in &workloads {
                    let Some((kind, name)) = workload.kind.runs_in.and_then(|to| to.of(&workload.object))
                    else {
                        continue;
                    };
                    let [kind, namespace, name] = [kind, own, name].map(str::to_owned);
                    found.runtimes.insert(WantedRuntime { kind, namespace, name });
                    let linted = linted.get_or_init(|| claims::in_inputs(inputs, None, options));
                    let scope = Scope { file: input, facts, own: None, linted };
                    let joined = Joined::find(&Layered { cluster, files: &scope }, own, workload);
                    if let Some(workload) = joined.as_ref().and_then(Joined::workload) {
                        found
                            .claims
                            .extend(claims_of(&workload).into_iter().map(|name| (own.to_owned(), name)));
                    }
                }
            }
        }
    }
    found.namespaces.retain(|namespace| !brought.contains(namespace));
    found
}

/// Returns the names of the claims of a workload that may be looked up.
fn claims_of(workload: &Workload<'_>) -> Vec<String> {
    let own = workload.own_claims();
    let own = own.iter().filter_map(|own| Some(own.to_look_up()?.0.to_owned()));
    let of_pods = workload.pods.iter().flat_map(|pod| pod.claims()).map(|used| used.claim.to_owned());
    of_pods.chain(own).collect()
}
