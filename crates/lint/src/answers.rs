//! Predictions of the webhook's answers ([`jobgate_core::admission::dry_run`]), from what is known about the cluster.

use std::cell::RefCell;
use std::collections::BTreeSet;

use jiff::civil::Date;
use jobgate_core::admission::dry_run::{self, Prediction, Question};
use jobgate_core::judge::api::{self, MadePod};
use jobgate_core::judge::facts::{Claim, Fact, FactKind, FactTable, Facts, FoundObject, Volume};
use jobgate_core::judge::finding::Source;
use jobgate_core::judge::policy::Policy;
use jobgate_core::kinds::Kind;
use jobgate_core::text::value::Value;

use crate::existing_objects::ObjectKey;
use crate::options::DryRun;

impl DryRun<'_> {
    /// Predicts the answers for one object of a judged kind. `namespace` is for an object without one; empty
    /// if unknown.
    pub(crate) fn answer(
        &self,
        policy: &Policy,
        facts: &dyn Facts,
        object: &Value,
        namespace: &str,
        today: Option<Date>,
    ) -> Prediction {
        let old = ObjectKey::from_object(object, namespace).and_then(|key| self.against.find(&key));
        let layered = Layered { cluster: self.cluster, files: facts };
        dry_run::answer(policy, &layered, &Question { object, old, namespace, strict: self.strict, today })
    }

    /// Returns the pods of the templates of an object that would be stored, if they are asked for.
    pub(crate) fn pods(&self, admitted: Option<&Value>) -> Vec<MadePod> {
        let Some(admitted) = admitted.filter(|_| self.keep_pods) else { return Vec::new() };
        Kind::from_object(admitted).map(|kind| api::made_pods(kind, admitted)).unwrap_or_default()
    }
}

/// Facts from the cluster, or else from the files: a missing object may be created with the workload.
pub struct Layered<'a> {
    /// Facts from the cluster.
    pub cluster: Option<&'a FactTable>,
    /// Facts from the files.
    pub files: &'a dyn Facts,
}

impl Facts for Layered<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        let there = self.cluster.map_or(Fact::Unknown, |cluster| cluster.claim(namespace, name));
        layered(there, self.files.claim(namespace, name))
    }

    fn volume(&self, namespace: &str, name: &str) -> Volume {
        match self.cluster.map(|cluster| cluster.claim(namespace, name)) {
            // The claim exists, and so does its volume: its access modes are the volume's.
            Some(Fact::Known(_)) => Volume::OfCluster,
            _ => self.files.volume(namespace, name),
        }
    }

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        let there = self.cluster.map_or(Fact::Unknown, |cluster| cluster.object(kind, namespace, name));
        match (there, self.files.object(kind, namespace, name)) {
            // A cluster that was queried need not have what a release ships.
            (Fact::Absent, Fact::Known(FoundObject { source: Source::Release(_), .. })) => Fact::Absent,
            (there, file) => layered(there, file),
        }
    }
}

fn layered<T>(there: Fact<T>, file: Fact<T>) -> Fact<T> {
    match (there, file) {
        (Fact::Known(fact), _) => Fact::Known(fact),
        (there, Fact::Unknown) => there,
        (_, file) => file,
    }
}

/// Facts in which only one pod can mount an unknown claim.
pub(crate) struct Worst<'a> {
    known: Layered<'a>,
    made_up: RefCell<BTreeSet<String>>,
    unknown_runtime: RefCell<Option<String>>,
}

impl<'a> Worst<'a> {
    pub(crate) fn new(files: &'a dyn Facts, cluster: Option<&'a FactTable>) -> Self {
        Self {
            known: Layered { cluster, files },
            made_up: RefCell::default(),
            unknown_runtime: RefCell::default(),
        }
    }

    /// Tells whether an unknown claim was looked up.
    pub(crate) fn is_asked(&self) -> bool {
        !self.made_up.borrow().is_empty()
    }

    /// Returns the runtime that was looked up and not found, if there was one.
    pub(crate) fn unknown_runtime(&self) -> Option<String> {
        self.unknown_runtime.borrow().clone()
    }

    /// Tells whether a claim is unknown.
    pub(crate) fn has_made_up(&self, name: &str) -> bool {
        self.made_up.borrow().contains(name)
    }

    /// Returns the unknown claim that a message is about.
    pub(crate) fn made_up_in(&self, message: &str) -> Option<String> {
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

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        self.known.object(kind, namespace, name)
    }

    fn runtime(&self, kind: &str, namespace: &str, name: &str) -> Fact<FoundObject> {
        let found = self.known.runtime(kind, namespace, name);
        if !matches!(found, Fact::Known(_)) {
            *self.unknown_runtime.borrow_mut() = Some(name.to_owned());
        }
        found
    }
}
