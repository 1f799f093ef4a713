//! The look-up of an object's parent, which it names as its controller.

use std::sync::{Arc, Mutex};

use kube::Client;
use tokio::time::Instant;

use super::live::{Gate, Live, LookupKey, LookupReason, LookupResult};
use super::resource::{KeptObject, ObjectResource, ResourcePlace};
use super::stats::{Counts, Why};
use crate::claims::Claims;
use crate::fetch;
use crate::settings::Settings;
use jobgate_core::judge::facts::{Fact, FactTable, WantedParent};
use jobgate_core::kinds::Kind;

/// Maximum length of a uid to look for, in bytes; those of an API server have 36.
const LONGEST_UID: usize = 128;
/// Maximum length of a version to request, in bytes: `v1alpha1` has 8.
const LONGEST_VERSION: usize = 32;

/// The parents of one kind.
pub(super) struct ParentLookup {
    kind: Kind,
    live: Live<ObjectResource>,
}

impl ParentLookup {
    /// Returns the look-up of each kind that has children.
    pub(super) fn of_all_kinds(client: &Client, settings: &Settings) -> Vec<Self> {
        let own = Settings {
            requests_per_second: settings.parents_per_second,
            request_burst: settings.parent_burst,
            ..settings.clone()
        };
        let gate = Arc::new(Mutex::new(Gate::new("parent", &own)));
        let of = |kind: Kind| {
            let (place, counts) = (ResourcePlace::from_parents(kind, &own), Arc::<Counts>::default());
            Self { kind, live: Live::new(client.clone(), own.clone(), place, Arc::clone(&gate), counts) }
        };
        Kind::with_children().map(of).collect()
    }

    async fn look(&self, wanted: &WantedParent, until: Instant) -> LookupResult<KeptObject> {
        let WantedParent { version, namespace, name, uid, .. } = wanted;
        // No object has such a name, and it must not become part of a path.
        let exists =
            fetch::is_name(namespace) && fetch::is_name(name) && !uid.is_empty() && uid.len() <= LONGEST_UID;
        if !exists {
            return LookupResult::Absent;
        }
        let is_version =
            version.len() <= LONGEST_VERSION && !version.contains('.') && fetch::is_name(version);
        let version = if is_version { version.clone() } else { String::new() };
        let key = LookupKey { namespace: namespace.clone(), name: name.clone(), uid: uid.clone(), version };
        match self.live.remembered(&key, LookupReason::Deciding) {
            Some(looked) => looked,
            None => self.live.look(&key, LookupReason::Deciding, until).await,
        }
    }
}

impl Claims {
    /// Returns whether the parent exists, with the same time limit as [`Claims::facts`]. Unknown without
    /// look-ups.
    pub async fn parent(&self, wanted: &WantedParent, deadline: Instant) -> FactTable {
        let until = self.until(deadline);
        let looked = match self.0.parents.iter().find(|parents| parents.kind.is_same(wanted.kind)) {
            Some(parents) => parents.look(wanted, until).await,
            None => LookupResult::Unknown(Why::Off),
        };
        let mut facts = FactTable::default();
        let fact = match looked {
            LookupResult::Found(_) => Fact::Known(()),
            LookupResult::Absent => Fact::Absent,
            LookupResult::Unknown(why) => {
                facts.caveat = why.explain().map(|reason| {
                    let WantedParent { kind, name, .. } = wanted;
                    let kind = kind.title();
                    format!(
                        "jobgate trusts the maker of this object without a look at its {kind} {name} ({reason})"
                    )
                });
                Fact::Unknown
            }
        };
        facts.parents.insert(wanted.clone(), fact);
        facts
    }
}
