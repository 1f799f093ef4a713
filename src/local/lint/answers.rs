//! Predicts the webhook's answers for linted files ([`crate::admission::dry_run`]) and the existing objects.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use jiff::civil::Date;

use super::against::{Against, ObjectKey};
use super::claims::{Claims, Scope};
use super::input::Input;
use super::objects::objects;
use super::options::{DryRun, Options};
use super::source;
use crate::admission::dry_run::{self, Prediction, Question};
use crate::judge::facts::{Claim, Fact, FactTable, Facts, Runtime, Volume, WantedRuntime};
use crate::judge::finding::Source;
use crate::judge::joined::Joined;
use crate::judge::policy::Policy;
use crate::kinds::Workload;
use crate::local::lint::claims::FactsError;
use crate::text::lines::Lines;
use crate::text::number::bytes;
use crate::text::value::Value;
use crate::text::yaml;

impl DryRun<'_> {
    /// Predicts the answers for one object of a judged kind. `namespace` is for an object without one; empty
    /// if unknown.
    pub(super) fn answer(
        &self,
        policy: &Policy,
        facts: &dyn Facts,
        object: &Value,
        namespace: &str,
        today: Option<Date>,
    ) -> Prediction {
        let old = ObjectKey::of(object, namespace).and_then(|key| self.against.find(&key));
        let layered = Layered { cluster: self.cluster, files: facts };
        dry_run::answer(policy, &layered, &Question { object, old, namespace, strict: self.strict, today })
    }
}

/// A claim in the cluster, or else in the files: a missing claim may be created with the workload.
struct Layered<'a> {
    cluster: Option<&'a FactTable>,
    files: &'a dyn Facts,
}

impl Facts for Layered<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        let there = self.cluster.map_or(Fact::Unknown, |cluster| cluster.claim(namespace, name));
        match (there, self.files.claim(namespace, name)) {
            (Fact::Known(claim), _) => Fact::Known(claim),
            (there, Fact::Unknown) => there,
            (_, file) => file,
        }
    }

    fn volume(&self, namespace: &str, name: &str) -> Volume {
        match self.cluster.map(|cluster| cluster.claim(namespace, name)) {
            // The claim is there, and so is its volume: its access modes are the volume's.
            Some(Fact::Known(_)) => Volume::OfCluster,
            _ => self.files.volume(namespace, name),
        }
    }

    fn runtime(&self, kind: &str, namespace: &str, name: &str) -> Fact<Runtime> {
        let there = self.cluster.map_or(Fact::Unknown, |cluster| cluster.runtime(kind, namespace, name));
        match (there, self.files.runtime(kind, namespace, name)) {
            (Fact::Known(runtime), _) => Fact::Known(runtime),
            (there, Fact::Unknown) => there,
            // A cluster that was asked need not have what a release brings.
            (Fact::Absent, Fact::Known(Runtime { source: Source::Release(_), .. })) => Fact::Absent,
            (_, file) => file,
        }
    }
}

/// Claims, with unknown ones as if only one pod could mount them.
pub(super) struct Worst<'a> {
    known: Layered<'a>,
    made_up: RefCell<BTreeSet<String>>,
    unknown_runtime: RefCell<Option<String>>,
}

impl<'a> Worst<'a> {
    pub(super) fn new(files: &'a dyn Facts, cluster: Option<&'a FactTable>) -> Self {
        Self {
            known: Layered { cluster, files },
            made_up: RefCell::default(),
            unknown_runtime: RefCell::default(),
        }
    }

    /// Tells whether an unknown claim was looked up.
    pub(super) fn is_asked(&self) -> bool {
        !self.made_up.borrow().is_empty()
    }

    /// Returns the runtime that was looked up and not found, if there was one.
    pub(super) fn unknown_runtime(&self) -> Option<String> {
        self.unknown_runtime.borrow().clone()
    }

    /// Tells whether a claim is unknown.
    pub(super) fn has_made_up(&self, name: &str) -> bool {
        self.made_up.borrow().contains(name)
    }

    /// Returns the unknown claim that a message is about.
    pub(super) fn made_up_in(&self, message: &str) -> Option<String> {
        let name = message.split('`').nth(1)?;
        self.made_up.borrow().get(name).cloned()
    }
}

impl Facts for Worst<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        match self.known.claim(namespace, name) {
            Fact::Unknown => {
                self.made_up.borrow_mut().insert(name.to_owned());
                Fact::Known(Claim {
                    access_modes: vec!["ReadWriteOncePod".to_owned()],
                    source: Source::Cluster,
                })
            }
            known => known,
        }
    }

    fn volume(&self, namespace: &str, name: &str) -> Volume {
        self.known.volume(namespace, name)
    }

    fn runtime(&self, kind: &str, namespace: &str, name: &str) -> Fact<Runtime> {
        let found = self.known.runtime(kind, namespace, name);
        if !matches!(found, Fact::Known(_)) {
            *self.unknown_runtime.borrow_mut() = Some(name.to_owned());
        }
        found
    }
}

impl Against {
    /// Reads the objects of files.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is not YAML: a missing object would turn an UPDATE into a CREATE.
    pub fn in_files(inputs: &[Input], options: &Options<'_>) -> Result<Self, FactsError> {
        let mut against = Self::default();
        // Where files have namespaces of their own, an object without one may be in any of them.
        let any = options.by_path.iter().any(|by_path| by_path.namespace.is_some());
        let namespace = if any { "" } else { options.namespace };
        for input in inputs {
            for object in objects_of(input, options)? {
                against.add(object, namespace);
            }
        }
        Ok(against)
    }
}

/// Reads all objects of a file.
///
/// # Errors
///
/// It cannot be read, or is not YAML or JSON.
pub fn objects_of(input: &Input, options: &Options<'_>) -> Result<Vec<Value>, FactsError> {
    let path = || input.path.to_string();
    let limits = options.limits();
    let loaded = match source::load(input, options.max_file_size)? {
        Ok(loaded) => loaded,
        Err(source::TooLarge { .. }) => {
            return Err(FactsError::TooLarge { path: path(), limit: bytes(options.max_file_size) });
        }
    };
    let mut found = Vec::new();
    for chunk in yaml::split(loaded.bytes(), &limits) {
        let document = chunk.and_then(|chunk| yaml::parse(loaded.bytes(), &chunk, &limits));
        let document = document.map_err(|source| {
            let line = Lines::new(loaded.bytes()).position(source.span.start).line;
            FactsError::Syntax { path: path(), line, source }
        })?;
        found.extend(objects(&document.value).into_iter().map(|object| object.value.into_owned()));
    }
    Ok(found)
}

/// Objects that manifests refer to, each sorted.
#[derive(Clone, Debug, Default)]
pub struct Mentioned {
    /// The workloads.
    pub objects: BTreeSet<ObjectKey>,
    /// The claims that they use, by namespace and name.
    pub claims: BTreeSet<(String, String)>,
    /// The runtimes that they run in.
    pub runtimes: BTreeSet<WantedRuntime>,
    /// The namespaces that they go into, without those that are among the manifests.
    pub namespaces: BTreeSet<String>,
}

/// Finds the workloads of files and the objects to look up for them. Unreadable files are left to the linter.
/// The claims of a runtime are among them if it is in the files, in `facts`, or in what was read of the
/// `cluster`.
#[must_use]
pub fn mentioned(
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
                found.objects.extend(ObjectKey::of(&object.value, namespace));
                let own =
                    object.value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(namespace);
                found.namespaces.extend(Some(own).filter(|own| !own.is_empty()).map(str::to_owned));
                // The pods of an object in no namespace run in any.
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
                    let linted = linted.get_or_init(|| Claims::in_inputs(inputs, None, options));
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
